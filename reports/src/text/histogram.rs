//! A latency distribution as bars.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use super::layout::Page;
use crate::model::Measurement;
use crate::units::{Share, Time, range};
use crate::view::View;
use crate::words::{case_name, trip};

/// Most rows of one drawing.
const ROWS: usize = 24;
/// So many empty rows in a row become one.
const GAP: usize = 3;
/// Longest bar, columns.
const LONGEST: usize = 40;

/// A row: from, to (ns), samples.
type Bin = (f64, f64, u64);

/// Every latency measurement that kept its histogram, one drawing each.
pub(super) fn draw(view: &View, page: &mut Page) {
    let latencies = view.report.measurements.iter().filter(|m| m.test == "latency");
    for m in latencies {
        let Some(bins) = m.histogram.as_deref().and_then(decoded).map(|h| bins(&h, m)) else {
            continue;
        };
        let total: u64 = bins.iter().map(|bin| bin.2).sum();
        if total == 0 {
            continue;
        }
        page.title(&format!("Distribution: {}, {}", case_name(m, &view.names), trip(m)));
        rows(&bins, total, page);
        page.paragraph(&format!(
            "{total} samples; the time axis is logarithmic, a bar's length is its count"
        ));
    }
}

/// A line for each bin; empty stretches are cut short.
fn rows(bins: &[Bin], total: u64, page: &mut Page) {
    let most = bins.iter().map(|bin| bin.2).max().unwrap_or(1).max(1);
    let labels: Vec<String> = bins.iter().map(|bin| range(Time(bin.0), Time(bin.1))).collect();
    let wide = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let digits = most.to_string().len();
    let room = page.room().saturating_sub(wide + digits + 16).clamp(8, LONGEST);
    let mut next = 0;
    while let Some(&(_, _, count)) = bins.get(next) {
        let empty = bins[next..].iter().take_while(|bin| bin.2 == 0).count();
        if empty >= GAP {
            page.drawn(&format!("  {:>wide$}  ⋮", ""));
            next += empty;
            continue;
        }
        let (label, bar) = (&labels[next], bar(count, most, room));
        let share = Share(count as f64 / total as f64).to_string();
        page.drawn(&format!("  {label:>wide$}  {count:>digits$} {share:>7}  {bar}"));
        next += 1;
    }
}

/// A bar in eighths of a column; what is not empty shows.
fn bar(count: u64, most: u64, room: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (count as f64 / most as f64 * (room * 8) as f64).round() as usize;
    let eighths = if count > 0 { eighths.max(1) } else { 0 };
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// The samples in bins of equal ratio from the smallest to the largest.
fn bins(histogram: &Histogram<u64>, m: &Measurement) -> Vec<Bin> {
    let exact = m.latency_ns.map(|l| (l.min, l.max));
    let (low, high) = exact.unwrap_or((histogram.min() as f64, histogram.max() as f64));
    let low = low.max(1.0);
    let high = high.max(low);
    // A histogram keeps three digits: finer bins would be empty by construction.
    let ratio = (high / low).powf(1.0 / ROWS as f64).max(1.01);
    let count = ((high / low).ln() / ratio.ln()).ceil().clamp(1.0, ROWS as f64) as usize;
    let edge = |i: usize| if i == count { high } else { low * ratio.powi(i as i32) };
    let mut bins: Vec<Bin> = (0..count).map(|i| (edge(i), edge(i + 1), 0)).collect();
    for step in histogram.iter_recorded() {
        let value = histogram.median_equivalent(step.value_iterated_to()) as f64;
        let at = ((value.max(low) / low).ln() / ratio.ln()) as usize;
        bins[at.min(count - 1)].2 += step.count_since_last_iteration();
    }
    bins
}

fn decoded(text: &str) -> Option<Histogram<u64>> {
    let bytes = BASE64.decode(text).ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(samples: &[(u64, u64)]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 100_000_000_000, 3).unwrap();
        for &(ns, count) in samples {
            histogram.record_n(ns, count).unwrap();
        }
        histogram
    }

    fn drawn(samples: &[(u64, u64)]) -> String {
        let bins = bins(&histogram(samples), &Measurement::default());
        let mut page = Page::new(&super::super::Options::default());
        rows(&bins, bins.iter().map(|bin| bin.2).sum(), &mut page);
        page.finish()
    }

    #[test]
    fn every_sample_is_in_a_bin_and_bins_grow_by_one_ratio() {
        let samples: Vec<(u64, u64)> = (1..2000).map(|i| (1_000 + i * 50, 1)).collect();
        let bins = bins(&histogram(&samples), &Measurement::default());
        assert_eq!(bins.iter().map(|bin| bin.2).sum::<u64>(), 1999);
        assert!(bins.len() <= ROWS);
        let ratios: Vec<f64> = bins.iter().map(|bin| bin.1 / bin.0).collect();
        assert!(ratios.iter().all(|ratio| (ratio / ratios[0] - 1.0).abs() < 0.02), "{ratios:?}");
        assert!(bins.windows(2).all(|pair| pair[0].1 == pair[1].0));
    }

    #[test]
    fn counts_stand_beside_the_bars_and_a_gap_is_cut_short() {
        let text = drawn(&[(1_000, 900), (1_100, 99), (1_000_000, 1)]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("999  99.9 %  ████"), "{text}");
        assert!(lines[1].trim() == "⋮", "{text}");
        assert!(lines[2].contains("1   0.1 %  ▏"), "what is there shows: {text}");
        assert_eq!(lines.len(), 3, "{text}");
    }

    #[test]
    fn one_value_is_one_row() {
        let text = drawn(&[(5_000, 7)]);
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains("7 100.0 %"), "{text}");
    }
}
