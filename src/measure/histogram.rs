//! Latency samples: an HdrHistogram for the percentiles, exact moments beside it.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fabbench_reports::model::Latency;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use crate::session::protocol::ExactLatency;

/// Significant decimal digits that a histogram keeps.
const DIGITS: u8 = 3;

/// Largest value that a histogram tells apart, ns (100 s); larger ones count as this one, and the
/// exact maximum is kept beside it.
const LARGEST_NS: u64 = 100_000_000_000;

/// Records round-trip times of one repeat. Everything is allocated when it is made.
#[derive(Debug, Clone)]
pub struct Recorder {
    histogram: Histogram<u64>,
    divisor: u64,
    count: u64,
    min: u64,
    max: u64,
    /// The first sample: deviations from it are small, so their squares stay exact.
    origin: u64,
    deviations: i128,
    squares: u128,
}

impl Recorder {
    /// `divisor` is 2 where the latency is half a round trip, else 1.
    pub fn new(divisor: u64) -> Self {
        Recorder {
            histogram: empty(),
            divisor: divisor.max(1),
            count: 0,
            min: u64::MAX,
            max: 0,
            origin: 0,
            deviations: 0,
            squares: 0,
        }
    }

    /// Adds a round trip of `ns`. Neither allocates nor fails.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        if self.count == 0 {
            self.origin = ns;
        }
        self.count += 1;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        let deviation = ns.wrapping_sub(self.origin) as i64;
        self.deviations += i128::from(deviation);
        self.squares += u128::from(deviation.unsigned_abs()).pow(2);
        let latency = if self.divisor == 2 { ns >> 1 } else { ns / self.divisor };
        self.histogram.saturating_record(latency);
    }

    /// Samples so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Exact count, min, max, mean and (population) standard deviation of the latency, ns.
    /// Variance: (Σd² − (Σd)²/n)/n over the deviations d from the first sample.
    pub fn exact(&self) -> ExactLatency {
        if self.count == 0 {
            return ExactLatency::default();
        }
        let n = self.count as f64;
        let divisor = self.divisor as f64;
        let mean_deviation = self.deviations as f64 / n;
        let variance = self.squares as f64 / n - mean_deviation * mean_deviation;
        ExactLatency {
            count: self.count,
            min_ns: self.min as f64 / divisor,
            max_ns: self.max as f64 / divisor,
            mean_ns: (self.origin as f64 + mean_deviation) / divisor,
            stdev_ns: variance.max(0.0).sqrt() / divisor,
        }
    }

    /// The histogram as HdrHistogram V2 in base64.
    pub fn encoded(&self) -> String {
        encode(&self.histogram)
    }
}

/// A histogram that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("latency histogram: {0}: the report or the agent's answer is damaged")]
pub struct BadHistogram(String);

/// Latencies of several repeats, put together.
#[derive(Debug, Clone)]
pub struct Merged {
    histogram: Histogram<u64>,
    exact: ExactLatency,
}

impl Default for Merged {
    fn default() -> Self {
        Merged { histogram: empty(), exact: ExactLatency::default() }
    }
}

impl Merged {
    /// Adds a repeat: its histogram (V2, base64) and its exact moments.
    ///
    /// # Errors
    /// The text is no histogram, or holds another number of samples than `exact` says.
    pub fn add(&mut self, encoded: &str, exact: &ExactLatency) -> Result<(), BadHistogram> {
        let histogram = decode(encoded)?;
        if histogram.len() != exact.count {
            let cause = format!("{} samples where {} belong", histogram.len(), exact.count);
            return Err(BadHistogram(cause));
        }
        self.histogram.add(&histogram).map_err(|error| BadHistogram(format!("{error:?}")))?;
        self.exact = merge(&self.exact, exact);
        Ok(())
    }

    /// Percentiles of all samples; min, max, mean and standard deviation exact. None without any.
    pub fn latency(&self) -> Option<Latency> {
        let exact = &self.exact;
        if exact.count == 0 {
            return None;
        }
        let at =
            |per_10_000| percentile(&self.histogram, per_10_000).clamp(exact.min_ns, exact.max_ns);
        Some(Latency {
            count: exact.count,
            min: exact.min_ns,
            p50: at(5_000),
            p90: at(9_000),
            p99: at(9_900),
            p999: (exact.count >= 1_000).then(|| at(9_990)),
            p9999: (exact.count >= 10_000).then(|| at(9_999)),
            max: exact.max_ns,
            mean: exact.mean_ns,
            stdev: exact.stdev_ns,
        })
    }

    /// The histogram of all samples as HdrHistogram V2 in base64.
    pub fn encoded(&self) -> String {
        encode(&self.histogram)
    }
}

/// Latency of one repeat.
///
/// # Errors
/// As [`Merged::add`].
pub fn latency(encoded: &str, exact: &ExactLatency) -> Result<Option<Latency>, BadHistogram> {
    let mut one = Merged::default();
    one.add(encoded, exact)?;
    Ok(one.latency())
}

/// Moments of two sets of samples together: n = n₁ + n₂, mean = Σnᵢ·meanᵢ/n,
/// n·variance = Σnᵢ·(varianceᵢ + (meanᵢ − mean)²).
pub fn merge(a: &ExactLatency, b: &ExactLatency) -> ExactLatency {
    if a.count == 0 || b.count == 0 {
        return if a.count == 0 { *b } else { *a };
    }
    let (n_a, n_b) = (a.count as f64, b.count as f64);
    let n = n_a + n_b;
    let mean = (n_a * a.mean_ns + n_b * b.mean_ns) / n;
    let part = |n: f64, one: &ExactLatency| {
        n * (one.stdev_ns * one.stdev_ns + (one.mean_ns - mean) * (one.mean_ns - mean))
    };
    ExactLatency {
        count: a.count + b.count,
        min_ns: a.min_ns.min(b.min_ns),
        max_ns: a.max_ns.max(b.max_ns),
        mean_ns: mean,
        stdev_ns: ((part(n_a, a) + part(n_b, b)) / n).sqrt(),
    }
}

/// Nearest rank on all samples: the value at sorted index ceil(p·n) − 1, to three significant
/// digits (the middle of the histogram's step that it falls into).
fn percentile(histogram: &Histogram<u64>, per_10_000: u64) -> f64 {
    let wanted = (u128::from(histogram.len()) * u128::from(per_10_000)).div_ceil(10_000).max(1);
    let mut seen = 0u128;
    for step in histogram.iter_recorded() {
        seen += u128::from(step.count_since_last_iteration());
        if seen >= wanted {
            return histogram.median_equivalent(step.value_iterated_to()) as f64;
        }
    }
    0.0
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LARGEST_NS, DIGITS).expect("constant bounds are valid")
}

fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(histogram, &mut bytes)
        .expect("counts of a session fit and a Vec takes every byte");
    BASE64.encode(bytes)
}

fn decode(encoded: &str) -> Result<Histogram<u64>, BadHistogram> {
    let bytes = BASE64.decode(encoded).map_err(|error| BadHistogram(error.to_string()))?;
    Deserializer::new()
        .deserialize(&mut Cursor::new(bytes))
        .map_err(|error| BadHistogram(format!("{error:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(divisor: u64, samples: impl IntoIterator<Item = u64>) -> Recorder {
        let mut recorder = Recorder::new(divisor);
        samples.into_iter().for_each(|ns| recorder.record(ns));
        recorder
    }

    fn summary(recorder: &Recorder) -> Latency {
        latency(&recorder.encoded(), &recorder.exact()).unwrap().unwrap()
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let of_ten = summary(&recorded(1, (1..=10).rev()));
        assert_eq!((of_ten.p50, of_ten.p90, of_ten.p99), (5.0, 9.0, 10.0));
        assert_eq!((of_ten.p999, of_ten.p9999), (None, None));
        let of_thousand = summary(&recorded(1, 1..=1000));
        assert_eq!((of_thousand.p50, of_thousand.p99), (500.0, 990.0));
        assert_eq!((of_thousand.p999, of_thousand.p9999), (Some(999.0), None));
        let of_999 = summary(&recorded(1, 1..=999));
        assert_eq!((of_999.count, of_999.p999), (999, None));
        let many = summary(&recorded(1, (1..=10_000).map(|i| i.min(1_500))));
        assert_eq!((many.p50, many.p9999), (1_500.0, Some(1_500.0)));
        let one = summary(&recorded(1, [42]));
        assert_eq!((one.p50, one.p99, one.min, one.max), (42.0, 42.0, 42.0, 42.0));
    }

    #[test]
    fn moments_are_exact_and_nothing_is_trimmed() {
        let samples = [2_000_000_001, 2_000_000_003, 2_000_000_003, 2_000_000_005, 2_000_000_008];
        let exact = recorded(1, samples).exact();
        assert_eq!((exact.count, exact.mean_ns), (5, 2_000_000_004.0));
        assert_eq!((exact.min_ns, exact.max_ns), (2_000_000_001.0, 2_000_000_008.0));
        assert!((exact.stdev_ns - 5.6f64.sqrt()).abs() < 1e-9, "{exact:?}");
        let spike = recorded(1, [1_000, 1_000, 50_000_000_000_000]);
        assert_eq!(spike.exact().max_ns, 50e12);
        assert_eq!(summary(&spike).max, 50e12);
    }

    #[test]
    fn half_round_trips_keep_half_nanoseconds() {
        let exact = recorded(2, [1001, 1003]).exact();
        assert_eq!((exact.min_ns, exact.max_ns, exact.mean_ns), (500.5, 501.5, 501.0));
        assert_eq!(exact.stdev_ns, 0.5);
    }

    #[test]
    fn merged_repeats_equal_all_samples_at_once() {
        let (first, second) = (recorded(1, 100..900), recorded(1, 500..1700));
        let mut merged = Merged::default();
        merged.add(&first.encoded(), &first.exact()).unwrap();
        merged.add(&second.encoded(), &second.exact()).unwrap();
        let (merged, all) =
            (merged.latency().unwrap(), summary(&recorded(1, (100..900).chain(500..1700))));
        assert_eq!((merged.count, merged.p50, merged.p999), (2000, all.p50, all.p999));
        assert_eq!((merged.min, merged.max, merged.mean), (100.0, 1699.0, all.mean));
        assert!((merged.stdev - all.stdev).abs() < 1e-9);
    }

    #[test]
    fn three_digits_hold_over_the_whole_range() {
        for ns in [999, 12_345, 1_234_567, 987_654_321, 98_765_432_109] {
            let shown = summary(&recorded(1, [ns / 2, ns, ns * 2])).p50;
            assert!((shown / ns as f64 - 1.0).abs() < 1e-3, "{ns} shown as {shown}");
        }
    }

    #[test]
    fn damaged_histograms_are_refused() {
        let recorder = recorded(1, [5, 6]);
        let mut merged = Merged::default();
        assert!(merged.add("not base64!", &recorder.exact()).is_err());
        assert!(merged.add("AAAA", &recorder.exact()).is_err());
        let fewer = ExactLatency { count: 1, ..recorder.exact() };
        let error = merged.add(&recorder.encoded(), &fewer).unwrap_err();
        assert!(error.to_string().contains("2 samples where 1 belong"), "{error}");
        assert_eq!(merged.latency(), None);
    }
}
