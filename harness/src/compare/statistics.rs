//! The ratio of two medians and how sure it is.
//!
//! On logarithms, on which a factor is a difference. Within a run the repeats are resampled
//! (bootstrap, seeded); between runs the spread is pooled over all figures of a kind, together with
//! what is assumed, weighted as [`PRIOR_RUNS`] observations (a moderated variance).

/// How many observations the assumed spread counts for.
const PRIOR_RUNS: f64 = 4.0;
/// Where so much of the spread is learnt from runs, that within them is held by it.
const MOSTLY: f64 = 0.9;
/// Resamples; their standard deviation is known to about 7 %.
const RESAMPLES: usize = 100;

/// Standard deviation of the logarithm of a run's median, from run to run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spread {
    assumed: f64,
    squares: f64,
    freedom: f64,
}

impl Spread {
    /// Nothing known but what is assumed.
    pub(super) fn assumed(deviation: f64) -> Self {
        Spread { assumed: deviation, squares: 0.0, freedom: 0.0 }
    }

    /// Takes in how the runs of one figure differ; one run tells nothing.
    pub(super) fn learn(&mut self, runs: &[Vec<f64>]) {
        let logs: Vec<f64> = runs.iter().filter_map(|run| median(run)).map(f64::ln).collect();
        let finite = logs.iter().all(|log| log.is_finite());
        if logs.len() < 2 || !finite {
            return;
        }
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        self.squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
        self.freedom += logs.len() as f64 - 1.0;
    }

    /// The moderated standard deviation, and the observations it rests on.
    fn moderated(&self) -> (f64, f64) {
        let freedom = PRIOR_RUNS + self.freedom;
        let squares = PRIOR_RUNS * self.assumed.powi(2) + self.squares;
        ((squares / freedom).sqrt(), freedom)
    }
}

/// How much more or less there is, and how sure that is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    /// Natural logarithm of after over before.
    pub(super) log_ratio: f64,
    /// Its standard deviation.
    pub(super) deviation: f64,
    /// Degrees of freedom of that.
    pub(super) freedom: f64,
}

impl Estimate {
    /// Whether so large a difference comes by chance in less than `chance` of all cases (one side).
    pub(super) fn is_beyond(&self, chance: f64) -> bool {
        self.log_ratio.abs() > quantile(1.0 - chance, self.freedom) * self.deviation
    }

    /// Where the true ratio lies with this confidence.
    pub(super) fn interval(&self, confidence: f64) -> [f64; 2] {
        let reach = quantile(0.5 + confidence / 2.0, self.freedom) * self.deviation;
        [(self.log_ratio - reach).exp(), (self.log_ratio + reach).exp()]
    }
}

/// After over before; none where a median is not positive.
pub(super) fn ratio(
    before: &[Vec<f64>],
    after: &[Vec<f64>],
    spread: &Spread,
    seed: u64,
) -> Option<Estimate> {
    let positive = |value: f64| (value.is_finite() && value > 0.0).then_some(value);
    let (old, new) = (positive(middle(before)?)?, positive(middle(after)?)?);
    let (between, freedom) = spread.moderated();
    let (n_old, n_new) = (before.len() as f64, after.len() as f64);
    // What is learnt from runs holds the spread within them already; an assumption does not.
    let known = spread.freedom / freedom;
    let within = if known > MOSTLY { 0.0 } else { resampled_ratio(before, after, seed).powi(2) };
    let variance = between.powi(2) * (1.0 / n_old + 1.0 / n_new) + within * (1.0 - known);
    Some(Estimate { log_ratio: (new / old).ln(), deviation: variance.sqrt(), freedom })
}

/// The middle of the runs' medians: their geometric mean, on which logarithms are linear.
pub(super) fn middle(runs: &[Vec<f64>]) -> Option<f64> {
    let medians: Vec<f64> = runs.iter().filter_map(|run| median(run)).collect();
    if medians.len() < 2 {
        return medians.first().copied();
    }
    if medians.iter().any(|m| *m <= 0.0 || !m.is_finite()) {
        return medians.into_iter().reduce(f64::max);
    }
    Some((medians.iter().map(|m| m.ln()).sum::<f64>() / medians.len() as f64).exp())
}

/// Standard deviation of the logarithm of the ratio when repeats are drawn again on both sides.
fn resampled_ratio(before: &[Vec<f64>], after: &[Vec<f64>], seed: u64) -> f64 {
    let mut random = Random(seed);
    resampled(before, &mut random).hypot(resampled(after, &mut random))
}

/// Standard deviation of the logarithm of [`middle`] when repeats are drawn again from each run.
fn resampled(runs: &[Vec<f64>], random: &mut Random) -> f64 {
    if runs.iter().all(|run| run.len() < 2) {
        return 0.0;
    }
    let mut draw = Vec::new();
    let logs: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let of_run = |run: &Vec<f64>| {
                draw.clear();
                draw.extend((0..run.len()).map(|_| run[random.below(run.len())]));
                middle_of(&mut draw).unwrap_or(1.0).ln()
            };
            runs.iter().map(of_run).sum::<f64>() / runs.len() as f64
        })
        .collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (logs.len() - 1) as f64).sqrt()
}

fn median(values: &[f64]) -> Option<f64> {
    middle_of(&mut values.to_vec())
}

/// The median; sorts its argument.
fn middle_of(sorted: &mut [f64]) -> Option<f64> {
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[odd / 2]),
        even => Some((sorted[even / 2 - 1] + sorted[even / 2]) / 2.0),
    }
}

/// Quantile of Student's t. Normal quantile by Abramowitz and Stegun 26.2.23 (error below
/// 4.5e-4), then 26.7.5 for the degrees of freedom.
fn quantile(probability: f64, freedom: f64) -> f64 {
    let tail = (1.0 - probability).clamp(1e-12, 0.5);
    let t = (-2.0 * tail.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let z = t - above / below;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    z + first / freedom + second / freedom.powi(2)
}

/// SplitMix64: the same resamples everywhere for the same seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`, evenly to one part in 2^32.
    fn below(&mut self, bound: usize) -> usize {
        (((self.next() >> 32) * bound as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (probability, freedom, value) in
            [(0.975, 1e9, 1.960), (0.95, 60.0, 1.671), (0.975, 10.0, 2.228), (0.999, 1e9, 3.090)]
        {
            let found = quantile(probability, freedom);
            assert!((found - value).abs() < 0.01, "{probability} {freedom}: {found}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let runs = [vec![100.0, 101.0, 99.0], vec![100.5, 99.5, 101.5]];
        let spread = Spread::assumed(0.015);
        let one = ratio(&runs, &runs, &spread, 7).unwrap();
        assert_eq!(Some(one), ratio(&runs, &runs, &spread, 7));
        assert_eq!(one.log_ratio, 0.0);
        let [low, high] = one.interval(0.95);
        assert!(low < 1.0 && high > 1.0 && (low * high - 1.0).abs() < 1e-9);
    }

    #[test]
    fn many_runs_outweigh_what_was_assumed() {
        let mut spread = Spread::assumed(0.015);
        assert_eq!(spread.moderated().0, 0.015);
        for _ in 0..100 {
            spread.learn(&[vec![100.0], vec![103.0], vec![97.0]]);
        }
        assert!((spread.moderated().0 - 0.03).abs() < 0.001, "{:?}", spread.moderated());
    }

    #[test]
    fn nothing_is_said_of_what_is_no_rate() {
        let spread = Spread::assumed(0.015);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(ratio(&[vec![bad]], &[vec![1.0]], &spread, 1), None, "{bad}");
        }
        assert_eq!(ratio(&[], &[vec![1.0]], &spread, 1), None);
    }
}
