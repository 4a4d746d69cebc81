//! Which figure of one report is which of another: by meaning, not by order or name of the case.

use std::collections::BTreeMap;

use fabbench_reports::comparison::Unit;
use fabbench_reports::model::{Measurement, Report};
use fabbench_reports::units::Size;

/// What makes two figures the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// In words: test, size, transport, operation, rail, direction, what ran beside it.
    pub(super) case: String,
    /// Which figure of the case.
    pub(super) figure: &'static str,
    pub(super) unit: Unit,
}

impl Key {
    /// Figures of a kind differ alike from run to run.
    pub(super) fn kind(&self) -> String {
        let tcp = if self.case.contains(" TCP ") { "TCP" } else { "RDMA" };
        format!("{} {tcp}", self.figure)
    }
}

/// A figure in all runs of a side.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Samples {
    /// The repeats of each run.
    pub(super) runs: Vec<Vec<f64>>,
    /// What must be alike for figures to compare, by name.
    method: BTreeMap<&'static str, String>,
}

impl Samples {
    /// Why the figures of two sides cannot be compared, if so.
    pub(super) fn differs(&self, after: &Samples) -> Option<String> {
        let mut differences = self.method.iter().filter_map(|(name, before)| {
            let after = after.method.get(name)?;
            (before != after).then(|| format!("{name} {before} before, {after} after"))
        });
        let first = differences.next()?;
        Some(differences.fold(first, |all, one| format!("{all}; {one}")))
    }
}

/// The figures of several runs, by meaning.
pub(super) fn collect(runs: &[(&str, &Report)]) -> BTreeMap<Key, Samples> {
    let mut all: BTreeMap<Key, Samples> = BTreeMap::new();
    for (_, report) in runs {
        for (key, samples) in of_report(report) {
            let known = all.entry(key).or_default();
            known.runs.push(samples.0);
            known.method = samples.1;
        }
    }
    all
}

/// The figures of one run, by meaning: what its repeats gave.
pub(super) fn values(report: &Report) -> BTreeMap<Key, Vec<f64>> {
    of_report(report).into_iter().map(|(key, (values, _))| (key, values)).collect()
}

type OfRun = (Vec<f64>, BTreeMap<&'static str, String>);

/// A case that stands twice in a report gives its repeats to one.
fn of_report(report: &Report) -> BTreeMap<Key, OfRun> {
    let rails: BTreeMap<&str, &str> =
        report.measurements.iter().map(|m| (&*m.id, &*m.path.rail)).collect();
    let mut all: BTreeMap<Key, OfRun> = BTreeMap::new();
    for m in &report.measurements {
        let case = case(report, m, &rails);
        for (figure, unit, values) in figures(m) {
            let key = Key { case: case.clone(), figure, unit };
            let known = all.entry(key).or_insert_with(|| (Vec::new(), method(report, m)));
            known.0.extend(values);
        }
    }
    all
}

fn case(report: &Report, m: &Measurement, rails: &BTreeMap<&str, &str>) -> String {
    let rail = match m.path.rail.as_str() {
        "" => "no rail",
        rail => rail,
    };
    let (from, to) = (side(report, &m.data_from), side(report, &m.data_to));
    let other_rail = |id: &String| rails.get(id.as_str()).is_some_and(|rail| *rail != m.path.rail);
    let beside = match () {
        () if m.together_with.iter().any(other_rail) => ", all rails at once",
        () if m.bidirectional => ", both directions at once",
        () => "",
    };
    format!(
        "{} {} {} {} {rail} {from}→{to}{beside}",
        m.test.replace('_', " "),
        Size(m.size_bytes),
        m.transport.to_uppercase(),
        m.op,
    )
}

/// The host of an endpoint by its name.
fn side<'a>(report: &'a Report, endpoint: &'a str) -> &'a str {
    let named = report.hosts.iter().map(|host| host.name.as_str());
    let mut named = named.filter(|name| {
        endpoint.strip_prefix(name).is_some_and(|rest| rest.starts_with('/') || rest.is_empty())
    });
    named.next().unwrap_or(endpoint)
}

fn figures(m: &Measurement) -> Vec<(&'static str, Unit, Vec<f64>)> {
    let latencies = || m.repeats.iter().filter_map(|repeat| repeat.latency_ns);
    let or = |values: Vec<f64>, summary: Option<f64>| {
        if values.is_empty() { summary.into_iter().collect() } else { values }
    };
    let mut figures = Vec::new();
    match m.test.as_str() {
        "integrity" => {
            figures.push(("wrong bytes", Unit::WrongByte, vec![m.bytes_wrong as f64]));
        }
        "latency" => {
            let (p50, p99) = (m.latency_ns.map(|l| l.p50), m.latency_ns.map(|l| l.p99));
            let of_repeats = latencies().map(|l| l.p50).collect();
            figures.push(("p50", Unit::Nanosecond, or(of_repeats, p50)));
            let of_repeats = latencies().map(|l| l.p99).collect();
            figures.push(("p99", Unit::Nanosecond, or(of_repeats, p99)));
        }
        "message_rate" => {
            let median = m.messages_per_s.map(|rate| rate.median);
            figures.push(("message rate", Unit::MessagePerSecond, median.into_iter().collect()));
        }
        _ => {
            let of_repeats = m.repeats.iter().filter_map(|repeat| repeat.received_bps).collect();
            let median = m.goodput_bps.map(|rate| rate.median);
            figures.push(("goodput", Unit::BitPerSecond, or(of_repeats, median)));
        }
    }
    figures.retain(|(_, _, values)| !values.is_empty());
    figures
}

/// What a figure means nothing without.
fn method(report: &Report, m: &Measurement) -> BTreeMap<&'static str, String> {
    let trip = match m.is_half_rtt {
        Some(true) => "half round trip",
        Some(false) => "whole round trip",
        None => "",
    };
    let devices = if report.simulated { "software" } else { "hardware" };
    BTreeMap::from([
        (if m.transport == "tcp" { "sockets" } else { "QPs" }, m.method.qps.to_string()),
        ("devices", devices.to_owned()),
        ("memory", m.memory.kind.clone()),
        ("latency of", trip.to_owned()),
    ])
}
