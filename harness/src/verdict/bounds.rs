//! A measurement against what its profile asks.

use fabbench_reports::model::{Ceiling, Measurement, Report, Status};
use fabbench_reports::units::{BitRate, Share, Time};

use crate::ceiling::{binding, lowest_bps};
use crate::plan::LOOPBACK;
use crate::profile::{Asked, Bounds, Floor, LatencyLimit, Limit};

/// Messages below this are limited by the rate of messages, not by the link.
const JUDGED_SIZE: u64 = 64 << 10;
/// Messages above this take time to send.
const JUDGED_LATENCY_SIZE: u64 = 8;
/// Rates that differ by less are of one class.
const SAME_RATE: f64 = 0.01;
/// How the sentence on repeats that differ begins.
pub(super) const UNSTEADY: &str = "unstable";

/// What bounds say of a measurement.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Found {
    /// Sentences with their weight.
    pub sentences: Vec<(Status, String)>,
    /// Goodput as part of the ceiling.
    pub efficiency: Option<f64>,
    /// What was asked for; none where it was not judged.
    pub bound: Option<String>,
    /// The same as the lowest rate that passes, where it is one.
    pub bound_bps: Option<f64>,
    /// Why it was not judged, where it should have been.
    pub not_judged: Option<String>,
}

/// Whether profiles have a bound for what was measured.
pub(super) fn has_bound(measured: &Measurement) -> bool {
    match measured.test.as_str() {
        "bandwidth" | LOOPBACK => measured.size_bytes >= JUDGED_SIZE,
        "latency" => measured.size_bytes <= JUDGED_LATENCY_SIZE,
        _ => false,
    }
}

pub(super) fn judge(measured: &Measurement, report: &Report, asked: &Asked) -> Found {
    let efficiency = efficiency(measured);
    let unjudged = |why: String, missing: bool| Found {
        sentences: vec![(Status::Unjudged, format!("{} not judged: {why}", what(measured)))],
        efficiency,
        bound: None,
        bound_bps: None,
        not_judged: missing.then_some(why),
    };
    let bounds = match &asked.bounds {
        Err(why) => return unjudged(why.clone(), true),
        Ok(_) if !has_bound(measured) => return unjudged(no_bound(measured), false),
        Ok(bounds) => bounds,
    };
    let found = match measured.test.as_str() {
        "bandwidth" | LOOPBACK => bandwidth(measured, report, bounds),
        _ => latency(measured, report, bounds),
    };
    match found {
        Ok((bound, bound_bps, sentences)) => {
            Found { sentences, efficiency, bound: Some(bound), bound_bps, not_judged: None }
        }
        Err(why) => unjudged(why, true),
    }
}

type Sentences = Vec<(Status, String)>;

/// A bound in words, as a rate where it is one, and what it says of the measurement.
type Applied = (String, Option<f64>, Sentences);

fn what(measured: &Measurement) -> &'static str {
    if measured.test == "latency" { "latency" } else { "line rate" }
}

fn no_bound(measured: &Measurement) -> String {
    match measured.test.as_str() {
        "bandwidth" | LOOPBACK => "messages below 64 KiB have no bound".to_owned(),
        "latency" => "messages above 8 B have no bound".to_owned(),
        other => format!("{} has no bound", other.replace('_', " ")),
    }
}

fn efficiency(measured: &Measurement) -> Option<f64> {
    let reached = match measured.test.as_str() {
        "collective" => measured.busbw_bps?,
        _ => measured.goodput_bps?.median,
    };
    Some(reached / measured.ceiling.as_ref()?.bps)
}

fn bandwidth(measured: &Measurement, report: &Report, bounds: &Bounds) -> Result<Applied, String> {
    let rate = measured.goodput_bps.ok_or("no payload arrived")?;
    let ceiling = measured.ceiling.as_ref().ok_or("what the hardware allows is not known")?;
    let (word, floor) = match (measured.bidirectional, measured.together_with.is_empty()) {
        _ if measured.test == LOOPBACK => ("loopback", &bounds.loopback),
        (true, _) => ("bidirectional", &bounds.bidirectional),
        (false, false) => ("together", &bounds.together),
        (false, true) => ("bandwidth", &bounds.bandwidth),
    };
    let floor = floor.as_ref().ok_or(format!("the profile has no bound {word}"))?;
    let floor = lowered(floor, bounds, measured.method.qps);
    let mut sentences = vec![against_ceiling(rate.median, ceiling, &floor)];
    if let Some(floor) = &bounds.min_window {
        let share = rate.min_window / rate.median;
        let words = format!("worst interval is {} of the median", Share(share));
        sentences.extend(below(floor, share, &words));
    }
    if let Some(limit) = &bounds.spread {
        let words = format!("{UNSTEADY}: repeats differ by {}", Share(rate.spread));
        let steady = format!(" (steady is {} %)", limit.pass);
        sentences.extend(above(limit.pass, limit.warn, rate.spread * 100.0, words + &steady));
    }
    sentences.extend(beside_cohort(measured, report, bounds));
    let because = &floor.because;
    let bound =
        format!("at least {} % of the ceiling, warns from {} %: {because}", floor.pass, floor.warn);
    Ok((bound, Some(ceiling.bps * floor.pass / 100.0), sentences))
}

/// One queue pair may not fill a fast link.
fn lowered(floor: &Floor, bounds: &Bounds, qps: u32) -> Floor {
    match &bounds.single_qp {
        Some(lower) if qps == 1 => Floor {
            pass: (floor.pass - lower.points).max(0.0),
            warn: (floor.warn - lower.points).max(0.0),
            because: format!("{}; {}", floor.because, lower.because),
        },
        _ => floor.clone(),
    }
}

/// The rate against the ceiling. Where a term is an interval, what would pass or warn at its lower
/// end does no worse than warn.
fn against_ceiling(bps: f64, ceiling: &Ceiling, floor: &Floor) -> (Status, String) {
    let (share, at_low) = (bps / ceiling.bps, bps / lowest_bps(ceiling));
    let status = match share * 100.0 {
        share if share >= floor.pass => Status::Pass,
        share if share >= floor.warn || at_low * 100.0 >= floor.warn => Status::Warn,
        _ => Status::Fail,
    };
    let limit = binding(ceiling)
        .map_or_else(String::new, |term| format!(" (limited by {}: {})", term.name, term.because));
    let wanted = match status {
        Status::Pass => String::new(),
        _ => format!(", wanted {} %", floor.pass),
    };
    let open = match status {
        Status::Warn if share * 100.0 < floor.warn => {
            format!("; {} if the PCIe payload size is the smallest", Share(at_low))
        }
        _ => String::new(),
    };
    let of = BitRate(ceiling.bps);
    (
        status,
        format!("{} is {} of the ceiling {of}{wanted}{open}{limit}", BitRate(bps), Share(share)),
    )
}

fn below(floor: &Floor, share: f64, words: &str) -> Option<(Status, String)> {
    let status = match share * 100.0 {
        share if share >= floor.pass => return None,
        share if share >= floor.warn => Status::Warn,
        _ => Status::Fail,
    };
    Some((status, format!("{words}, wanted {} %", floor.pass)))
}

fn above(pass: f64, warn: Option<f64>, value: f64, words: String) -> Option<(Status, String)> {
    match value {
        value if value <= pass => None,
        value if warn.is_some_and(|warn| value <= warn) => Some((Status::Warn, words)),
        _ => Some((Status::Fail, words)),
    }
}

/// A rail beside the best of its kind. A low rail is a suspicion until it was measured again, so
/// that it warns.
fn beside_cohort(
    measured: &Measurement,
    report: &Report,
    bounds: &Bounds,
) -> Option<(Status, String)> {
    let floor = bounds.cohort_bandwidth.as_ref()?;
    let (own, ceiling) = (measured.goodput_bps?.median, measured.ceiling.as_ref()?.bps);
    let alike = |other: &&Measurement| {
        let bps = other.ceiling.as_ref().map_or(0.0, |ceiling| ceiling.bps);
        other.retest_of.is_none()
            && same_case(measured, other)
            && (bps / ceiling - 1.0).abs() <= SAME_RATE
    };
    let others = report.measurements.iter().filter(alike);
    let best = others.max_by(|a, b| median(a).total_cmp(&median(b)))?;
    let share = own / median(best);
    let words = format!("{} of the best rail of its kind, {}", Share(share), best.path.rail);
    below(floor, share, &words).map(|(_, words)| (Status::Warn, words))
}

fn median(measured: &Measurement) -> f64 {
    measured.goodput_bps.map_or(0.0, |rate| rate.median)
}

/// The same on another rail.
fn same_case(one: &Measurement, other: &Measurement) -> bool {
    let key = |m: &Measurement| {
        let alone = m.together_with.is_empty();
        let from = m.data_from.rsplit_once('/').map(|(host, _)| host.to_owned());
        (
            m.test.clone(),
            m.transport.clone(),
            m.op.clone(),
            m.size_bytes,
            m.bidirectional,
            alone,
            from,
        )
    };
    one.path.rail != other.path.rail && one.method.qps == other.method.qps && key(one) == key(other)
}

fn latency(measured: &Measurement, report: &Report, bounds: &Bounds) -> Result<Applied, String> {
    let limit = match measured.op.as_str() {
        "write" => &bounds.latency_write,
        "send" => &bounds.latency_send,
        "read" => &bounds.latency_read,
        _ => &None,
    };
    let limit = limit.as_ref().ok_or(format!("the profile has no bound for {}", measured.op))?;
    let p50 = typical(measured).ok_or("no round trip was measured")?;
    let mut sentences = vec![against_limit(p50, limit)];
    if let Some(Limit { pass, warn, .. }) = &bounds.cohort_latency {
        let alike = |other: &&Measurement| other.retest_of.is_none() && same_case(measured, other);
        let others = report.measurements.iter().filter(alike);
        let best = others.filter_map(|m| Some((typical(m)?, m))).min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((least, best)) = best {
            let factor = p50 / least;
            let rail = &best.path.rail;
            let words =
                format!("{factor:.2} times the latency of {rail}, wanted at most {pass} times");
            sentences.extend(above(*pass, *warn, factor, words));
        }
    }
    let bound = format!("median of at most {} µs: {}", limit.pass_us, limit.because);
    Ok((bound, None, sentences))
}

/// Median of the repeats' medians, ns.
fn typical(measured: &Measurement) -> Option<f64> {
    let latencies = measured.repeats.iter().filter_map(|repeat| repeat.latency_ns);
    let mut medians: Vec<f64> = latencies.map(|latency| latency.p50).collect();
    medians.sort_by(f64::total_cmp);
    medians.get(medians.len().saturating_sub(1) / 2).copied()
}

fn against_limit(p50: f64, limit: &LatencyLimit) -> (Status, String) {
    let words = format!("median {}, wanted at most {} µs", Time(p50), limit.pass_us);
    above(limit.pass_us, limit.warn_us, p50 / 1e3, words.clone()).unwrap_or((Status::Pass, words))
}
