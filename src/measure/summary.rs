//! What is computed from the repeats of a case: rates, windows, gaps.

use fabbench_reports::model::Rate;

/// A span of time on one clock, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// Begin.
    pub start_ns: u64,
    /// Length.
    pub len_ns: u64,
}

impl Window {
    /// End, ns.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.len_ns)
    }

    /// What both windows cover; none when they do not touch.
    pub fn intersect(&self, other: &Window) -> Option<Window> {
        let start_ns = self.start_ns.max(other.start_ns);
        let end_ns = self.end_ns().min(other.end_ns());
        (end_ns > start_ns).then(|| Window { start_ns, len_ns: end_ns - start_ns })
    }

    /// The same window on a clock that shows `offset_ns` less (own = peer − offset).
    pub fn shifted_back(&self, offset_ns: i64) -> Window {
        Window { start_ns: self.start_ns.wrapping_sub(offset_ns as u64), len_ns: self.len_ns }
    }

    /// The larger distance of the two begins and of the two ends, ns.
    pub fn skew_ns(&self, other: &Window) -> u64 {
        self.start_ns.abs_diff(other.start_ns).max(self.end_ns().abs_diff(other.end_ns()))
    }
}

/// Rate over a window: `count` of something worth `unit` each (bits of a message, or 1), per
/// second; 0 for an empty window.
pub fn per_second(count: u64, unit: f64, window_ns: u64) -> f64 {
    if window_ns == 0 { 0.0 } else { count as f64 * unit * 1e9 / window_ns as f64 }
}

/// Rates of the intervals of a series, each `interval_ns` long.
pub fn interval_rates(series: &[u64], unit: f64, interval_ns: u64) -> Vec<f64> {
    series.iter().map(|&count| per_second(count, unit, interval_ns)).collect()
}

/// Rate of a case from the rates of its repeats and of all their intervals; none without repeats.
/// Without intervals the worst window is the worst repeat.
pub fn rate(repeats: &[f64], intervals: impl IntoIterator<Item = f64>) -> Option<Rate> {
    let median = median(repeats)?;
    let min = repeats.iter().copied().fold(f64::INFINITY, f64::min);
    let max = repeats.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let spread = if median == 0.0 { 0.0 } else { (max - min) / median };
    let worst = intervals.into_iter().fold(f64::INFINITY, f64::min);
    let min_window = if worst.is_finite() { worst } else { min };
    Some(Rate { median, min, max, spread, min_window })
}

/// Median (mean of the two middle values of an even number); none of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Adds `other` to `sum` interval by interval; the longer one gives the length.
pub fn add_series(sum: &mut Vec<u64>, other: &[u64]) {
    if sum.len() < other.len() {
        sum.resize(other.len(), 0);
    }
    for (total, count) in sum.iter_mut().zip(other) {
        *total += count;
    }
}

/// Longest time in which nothing moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongestGap {
    last_ns: u64,
    longest_ns: u64,
}

impl LongestGap {
    /// Counts from `start_ns` on.
    pub fn from(start_ns: u64) -> Self {
        LongestGap { last_ns: start_ns, longest_ns: 0 }
    }

    /// Something moved at `now_ns`.
    #[inline]
    pub fn moved(&mut self, now_ns: u64) {
        self.longest_ns = self.longest_ns.max(now_ns.saturating_sub(self.last_ns));
        self.last_ns = now_ns;
    }

    /// The longest gap, ns, with the one that is open at `end_ns`.
    pub fn until(&self, end_ns: u64) -> u64 {
        self.longest_ns.max(end_ns.saturating_sub(self.last_ns))
    }

    /// When something last moved, ns.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start_ns: u64, len_ns: u64) -> Window {
        Window { start_ns, len_ns }
    }

    #[test]
    fn windows_intersect_on_one_clock() {
        let own = window(1_000, 500);
        assert_eq!(own.intersect(&window(1_100, 500)), Some(window(1_100, 400)));
        assert_eq!(own.intersect(&window(900, 2_000)), Some(own));
        assert_eq!(own.intersect(&window(1_500, 10)), None);
        assert_eq!(own.skew_ns(&window(1_100, 500)), 100);
        assert_eq!(own.skew_ns(&window(990, 700)), 190);
        assert_eq!(window(5_000, 500).shifted_back(4_000), own);
        assert_eq!(window(200, 500).shifted_back(-800), own);
    }

    #[test]
    fn a_rate_keeps_median_extremes_and_the_worst_interval() {
        let rate = rate(&[9.0, 10.0, 12.0], [8.0, 11.0]).unwrap();
        assert_eq!((rate.median, rate.min, rate.max, rate.min_window), (10.0, 9.0, 12.0, 8.0));
        assert!((rate.spread - 0.3).abs() < 1e-12);
        assert_eq!(super::rate(&[4.0, 6.0], []).unwrap().min_window, 4.0);
        assert_eq!(super::rate(&[4.0, 6.0], []).unwrap().median, 5.0);
        assert_eq!(super::rate(&[0.0], []).unwrap().spread, 0.0);
        assert_eq!(super::rate(&[], [1.0]), None);
    }

    #[test]
    fn counts_become_rates() {
        assert_eq!(per_second(11_728, 1_048_576.0 * 8.0, 1_000_000_000), 98_381_594_624.0);
        assert_eq!(per_second(5, 8.0, 0), 0.0);
        assert_eq!(interval_rates(&[1, 3], 8.0, 1_000), vec![8e6, 24e6]);
    }

    #[test]
    fn series_of_threads_are_summed() {
        let mut sum = vec![1, 2];
        add_series(&mut sum, &[10, 20, 30]);
        add_series(&mut sum, &[100]);
        assert_eq!(sum, vec![111, 22, 30]);
    }

    #[test]
    fn the_open_gap_counts() {
        let mut gap = LongestGap::from(100);
        gap.moved(150);
        gap.moved(170);
        assert_eq!((gap.until(180), gap.until(400), gap.last_ns()), (50, 230, 170));
    }
}
