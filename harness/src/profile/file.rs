//! Profiles as TOML; `profiles/README.md` documents the keys.

use serde::Deserialize;

use super::ProfileError;

/// Shipped profiles, by name.
pub(super) const BUILT_IN: [(&str, &str); 20] = [
    ("hardware", include_str!("../../profiles/hardware.toml")),
    ("sdr", include_str!("../../profiles/sdr.toml")),
    ("ddr", include_str!("../../profiles/ddr.toml")),
    ("qdr", include_str!("../../profiles/qdr.toml")),
    ("fdr", include_str!("../../profiles/fdr.toml")),
    ("edr", include_str!("../../profiles/edr.toml")),
    ("hdr", include_str!("../../profiles/hdr.toml")),
    ("ndr", include_str!("../../profiles/ndr.toml")),
    ("xdr", include_str!("../../profiles/xdr.toml")),
    ("roce-10g", include_str!("../../profiles/roce-10g.toml")),
    ("roce-25g", include_str!("../../profiles/roce-25g.toml")),
    ("roce-40g", include_str!("../../profiles/roce-40g.toml")),
    ("roce-50g", include_str!("../../profiles/roce-50g.toml")),
    ("roce-100g", include_str!("../../profiles/roce-100g.toml")),
    ("roce-200g", include_str!("../../profiles/roce-200g.toml")),
    ("roce-400g", include_str!("../../profiles/roce-400g.toml")),
    ("roce-800g", include_str!("../../profiles/roce-800g.toml")),
    ("virtual-function", include_str!("../../profiles/virtual-function.toml")),
    ("soft-roce", include_str!("../../profiles/soft-roce.toml")),
    ("tcp-only", include_str!("../../profiles/tcp-only.toml")),
];

/// A profile's file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub name: String,
    #[serde(rename = "about")]
    _about: String,
    pub inherits: Option<String>,
    #[serde(default)]
    pub bounds: Bounds,
    #[serde(default)]
    pub strict: Bounds,
}

/// What is asked for; what is none has no bound.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// One rail alone, per cent of the ceiling.
    pub bandwidth: Option<Floor>,
    /// While other rails run, per cent of the ceiling.
    pub together: Option<Floor>,
    /// Each of two directions at once, per cent of its ceiling.
    pub bidirectional: Option<Floor>,
    /// A port against itself, per cent of its own ceiling.
    pub loopback: Option<Floor>,
    /// With one queue pair the four above are lower.
    pub single_qp: Option<Lower>,
    /// Worst interval, per cent of the median.
    pub min_window: Option<Floor>,
    /// Per cent of the best rail of the same rate.
    pub cohort_bandwidth: Option<Floor>,
    /// Largest less smallest repeat, per cent of the median.
    pub spread: Option<Limit>,
    /// WRITE of at most 8 B.
    pub latency_write: Option<LatencyLimit>,
    /// SEND of at most 8 B.
    pub latency_send: Option<LatencyLimit>,
    /// READ of at most 8 B.
    pub latency_read: Option<LatencyLimit>,
    /// Factor of the best rail's median latency.
    pub cohort_latency: Option<Limit>,
}

/// Per cent that must be reached.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// From here on it passes.
    pub pass: f64,
    /// From here on it warns; below it fails.
    pub warn: f64,
    /// Where it comes from.
    pub because: String,
}

/// A value that must not be exceeded.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Up to here it passes.
    pub pass: f64,
    /// Up to here it warns; above it fails. As `pass` when left out.
    pub warn: Option<f64>,
    /// Where it comes from.
    pub because: String,
}

/// A latency that must not be exceeded.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyLimit {
    /// Up to here it passes, µs.
    pub pass_us: f64,
    /// Up to here it warns, µs; above it fails. As `pass_us` when left out.
    pub warn_us: Option<f64>,
    /// Where it comes from.
    pub because: String,
}

/// Per cent points that are taken off.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lower {
    /// Points.
    pub points: f64,
    /// Where it comes from.
    pub because: String,
}

/// Reads and checks a profile's text; `name` stands in messages.
pub(super) fn read(name: &str, text: &str) -> Result<File, ProfileError> {
    let wrong = |reason: String| ProfileError::Unreadable { profile: name.to_owned(), reason };
    let file: File = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
    file.bounds.check().map_err(|reason| wrong(format!("bounds.{reason}")))?;
    file.strict.check().map_err(|reason| wrong(format!("strict.{reason}")))?;
    Ok(file)
}

impl Bounds {
    /// These, and where they have none, `base`'s.
    pub(super) fn over(self, base: Bounds) -> Bounds {
        Bounds {
            bandwidth: self.bandwidth.or(base.bandwidth),
            together: self.together.or(base.together),
            bidirectional: self.bidirectional.or(base.bidirectional),
            loopback: self.loopback.or(base.loopback),
            single_qp: self.single_qp.or(base.single_qp),
            min_window: self.min_window.or(base.min_window),
            cohort_bandwidth: self.cohort_bandwidth.or(base.cohort_bandwidth),
            spread: self.spread.or(base.spread),
            latency_write: self.latency_write.or(base.latency_write),
            latency_send: self.latency_send.or(base.latency_send),
            latency_read: self.latency_read.or(base.latency_read),
            cohort_latency: self.cohort_latency.or(base.cohort_latency),
        }
    }

    /// The bound and what is wrong with it.
    fn check(&self) -> Result<(), String> {
        let floors = [
            ("bandwidth", &self.bandwidth),
            ("together", &self.together),
            ("bidirectional", &self.bidirectional),
            ("loopback", &self.loopback),
            ("min_window", &self.min_window),
            ("cohort_bandwidth", &self.cohort_bandwidth),
        ];
        for (name, floor) in floors {
            let Some(Floor { pass, warn, because }) = floor else { continue };
            named(name, because)?;
            if !(0.0..=100.0).contains(pass) || !(0.0..=100.0).contains(warn) {
                return Err(format!("{name}: pass and warn are 0 to 100 per cent"));
            }
            if warn > pass {
                return Err(format!(
                    "{name}: warn {warn} is above pass {pass}: nothing would warn"
                ));
            }
        }
        let limit = |limit: &Limit| (limit.pass, limit.warn, limit.because.clone());
        let latency = |limit: &LatencyLimit| (limit.pass_us, limit.warn_us, limit.because.clone());
        let limits = [
            ("spread", self.spread.as_ref().map(limit)),
            ("cohort_latency", self.cohort_latency.as_ref().map(limit)),
            ("latency_write", self.latency_write.as_ref().map(latency)),
            ("latency_send", self.latency_send.as_ref().map(latency)),
            ("latency_read", self.latency_read.as_ref().map(latency)),
        ];
        for (name, limit) in limits {
            let Some((pass, warn, because)) = limit else { continue };
            named(name, &because)?;
            if !(pass > 0.0 && pass.is_finite()) {
                return Err(format!("{name}: pass must be more than 0"));
            }
            if warn.is_some_and(|warn| warn.is_nan() || warn < pass) {
                return Err(format!("{name}: warn is below pass {pass}: nothing would warn"));
            }
        }
        match &self.single_qp {
            Some(lower) if !(0.0..=100.0).contains(&lower.points) => {
                Err("single_qp: points are 0 to 100".to_owned())
            }
            Some(lower) => named("single_qp", &lower.because),
            None => Ok(()),
        }
    }
}

fn named(name: &str, because: &str) -> Result<(), String> {
    match because.trim() {
        "" => Err(format!("{name}: because is empty; say where the bound comes from")),
        _ => Ok(()),
    }
}
