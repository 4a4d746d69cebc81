//! A textfile for node_exporter: the state of the fabric as of the last run.
//!
//! Everything is a gauge. Names carry their unit (`_seconds`, `_bytes`, `_bits_per_second`,
//! `_ratio`); figures that are not finite are left out, and no series stands twice: either would
//! make node_exporter drop the whole file.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::clean;
use crate::model::{Measurement, Rate, Report, Status};
use crate::words::{counter_totals, host_names, judged};

/// Every word of a status, in the order of the model.
const STATUSES: [Status; 8] = [
    Status::Pass,
    Status::NotApplicable,
    Status::Unjudged,
    Status::Unknown,
    Status::Warn,
    Status::Incomplete,
    Status::Error,
    Status::Fail,
];

/// The report in Prometheus' text format. Write it under another name and rename it.
pub fn report(report: &Report) -> String {
    let mut families = vec![run_info(report), finished(report), flags(report)];
    families.extend([verdict(report), checks(report), not_measured(report)]);
    families.extend([goodput(report), ceiling(report), efficiency(report), messages(report)]);
    families.extend(latency(report));
    families.extend(integrity(report));
    families.extend([measured(report), counters(report)]);
    let mut page = String::new();
    for family in families {
        family.write(&mut page);
    }
    clean::page(page)
}

/// A metric with its series, by their labels.
struct Family {
    name: &'static str,
    help: &'static str,
    series: BTreeMap<String, f64>,
}

impl Family {
    fn new(name: &'static str, help: &'static str) -> Self {
        Family { name, help, series: BTreeMap::new() }
    }

    /// Adds a series; the first with the same labels stays.
    fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        if !value.is_finite() {
            return;
        }
        let pairs: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        self.series.entry(pairs.join(",")).or_insert(value);
    }

    fn write(&self, page: &mut String) {
        if self.series.is_empty() {
            return;
        }
        let name = self.name;
        let _ = writeln!(page, "# HELP {name} {}\n# TYPE {name} gauge", self.help);
        for (labels, value) in &self.series {
            let _ = match labels.as_str() {
                "" => writeln!(page, "{name} {value}"),
                labels => writeln!(page, "{name}{{{labels}}} {value}"),
            };
        }
    }
}

/// A label's value: backslash, quote and line end are escaped, what would not be seen is replaced.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\r', '\n'], "\\n").replace('\t', " ")
}

fn run_info(report: &Report) -> Family {
    let mut family = Family::new("fabbench_run_info", "What ran last.");
    let (hosts, command) = (host_names(report).join(","), report.command.join(" "));
    let labels = [
        ("version", &*report.tool.version),
        ("commit", &report.tool.commit),
        ("command", &command),
        ("hosts", &hosts),
        ("suite", &report.suite.name),
        ("suite_hash", &report.suite.hash),
        ("profile", &report.profile.name),
        ("profile_hash", &report.profile.hash),
    ];
    family.add(&labels, 1.0);
    family
}

fn finished(report: &Report) -> Family {
    let name = "fabbench_run_finished_timestamp_seconds";
    let mut family = Family::new(name, "When the last run finished, seconds since 1970 UTC.");
    let time = humantime::parse_rfc3339(&report.finished).ok();
    let since = time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    family.add(&[], since.map_or(f64::NAN, |since| since.as_secs_f64()));
    family
}

fn flags(report: &Report) -> Family {
    let help = "1 for what is true of the last run: complete, or measured on software devices.";
    let mut family = Family::new("fabbench_run_flag", help);
    for (flag, set) in [("complete", report.complete), ("simulated", report.simulated)] {
        family.add(&[("flag", flag)], f64::from(u8::from(set)));
    }
    family
}

fn verdict(report: &Report) -> Family {
    let help = "1 for the verdict of each part, 0 for all other words.";
    let mut family = Family::new("fabbench_verdict", help);
    let verdict = &report.verdict;
    let parts = [
        ("status", verdict.status),
        ("function", verdict.function),
        ("performance", verdict.performance),
    ];
    for (part, found) in parts {
        for status in STATUSES {
            let is = f64::from(u8::from(found == status));
            family.add(&[("part", part), ("verdict", status.word())], is);
        }
    }
    family
}

fn checks(report: &Report) -> Family {
    let mut family = Family::new("fabbench_check", "1 for each check with its verdict.");
    for check in &report.checks {
        let labels = [
            ("check", &*check.id),
            ("host", &check.host),
            ("object", &check.object),
            ("verdict", check.status.word()),
        ];
        family.add(&labels, 1.0);
    }
    family
}

fn not_measured(report: &Report) -> Family {
    let help = "1 for what was asked for and could not be measured.";
    let mut family = Family::new("fabbench_not_measured", help);
    for item in report.not_measured.iter().filter(|item| item.asked) {
        family.add(&[("what", &item.what)], 1.0);
    }
    family
}

/// A family with a series for each measurement that has the figure.
fn by_case(
    report: &Report,
    name: &'static str,
    help: &'static str,
    value: impl Fn(&Measurement) -> Option<f64>,
) -> Family {
    let mut family = Family::new(name, help);
    for m in &report.measurements {
        if let Some(value) = value(m) {
            family.add(&Case::of(m).labels(&[]), value);
        }
    }
    family
}

/// The labels of a measurement.
struct Case<'a> {
    m: &'a Measurement,
    size: String,
}

impl<'a> Case<'a> {
    fn of(m: &'a Measurement) -> Self {
        Case { m, size: m.size_bytes.to_string() }
    }

    fn labels<'s>(&'s self, more: &[(&'s str, &'s str)]) -> Vec<(&'s str, &'s str)> {
        let m = self.m;
        let mut labels: Vec<(&str, &str)> = vec![
            ("case", &m.id),
            ("test", &m.test),
            ("transport", &m.transport),
            ("op", &m.op),
            ("rail", &m.path.rail),
            ("data_from", &m.data_from),
            ("data_to", &m.data_to),
            ("size_bytes", &self.size),
        ];
        labels.extend(more);
        labels
    }
}

fn rates(
    report: &Report,
    name: &'static str,
    help: &'static str,
    of: impl Fn(&Measurement) -> Option<Rate>,
) -> Family {
    let mut family = Family::new(name, help);
    for m in &report.measurements {
        let Some(rate) = of(m) else { continue };
        let parts = [("median", rate.median), ("min", rate.min), ("max", rate.max)];
        for (part, value) in parts.into_iter().chain([("min_window", rate.min_window)]) {
            family.add(&Case::of(m).labels(&[("of_repeats", part)]), value);
        }
    }
    family
}

fn goodput(report: &Report) -> Family {
    let help = "Payload that arrived, by the receiver's count; min_window is the worst interval.";
    rates(report, "fabbench_goodput_bits_per_second", help, |m| m.goodput_bps)
}

fn messages(report: &Report) -> Family {
    let help = "Messages that arrived per second.";
    rates(report, "fabbench_messages_per_second", help, |m| m.messages_per_s)
}

fn ceiling(report: &Report) -> Family {
    let help = "The best goodput that the hardware allows.";
    let ceiling = |m: &Measurement| m.ceiling.as_ref().map(|ceiling| ceiling.bps);
    by_case(report, "fabbench_ceiling_bits_per_second", help, ceiling)
}

fn efficiency(report: &Report) -> Family {
    let help = "Goodput as a part of the ceiling.";
    by_case(report, "fabbench_efficiency_ratio", help, |m| m.efficiency)
}

fn latency(report: &Report) -> [Family; 2] {
    let help = "Latency at a quantile of all samples; half a round trip where trip is half.";
    let mut family = Family::new("fabbench_latency_seconds", help);
    for m in &report.measurements {
        let Some(l) = m.latency_ns else { continue };
        let trip = if m.is_half_rtt == Some(true) { "half" } else { "whole" };
        let quantiles = [
            ("0", Some(l.min)),
            ("0.5", Some(l.p50)),
            ("0.9", Some(l.p90)),
            ("0.99", Some(l.p99)),
            ("0.999", l.p999),
            ("0.9999", l.p9999),
            ("1", Some(l.max)),
        ];
        for (quantile, ns) in quantiles {
            let labels = Case::of(m);
            let labels = labels.labels(&[("trip", trip), ("quantile", quantile)]);
            family.add(&labels, ns.map_or(f64::NAN, |ns| ns / 1e9));
        }
    }
    let samples = |m: &Measurement| m.latency_ns.map(|l| l.count as f64);
    [family, by_case(report, "fabbench_latency_samples", "Latency samples taken.", samples)]
}

fn integrity(report: &Report) -> [Family; 3] {
    let compared = |m: &Measurement| (m.bytes_verified > 0).then_some(m.bytes_verified as f64);
    let wrong = |m: &Measurement| (m.bytes_verified > 0).then_some(m.bytes_wrong as f64);
    let lost = |m: &Measurement| Some(m.messages_lost as f64);
    [
        by_case(report, "fabbench_verified_bytes", "Bytes compared at the receiver.", compared),
        by_case(report, "fabbench_wrong_bytes", "Bytes that differed at the receiver.", wrong),
        by_case(report, "fabbench_lost_messages", "Messages sent and never received.", lost),
    ]
}

fn measured(report: &Report) -> Family {
    let mut family =
        Family::new("fabbench_measurement", "1 for each measurement with its verdict.");
    for m in &report.measurements {
        let status = judged(m.status);
        family.add(&Case::of(m).labels(&[("verdict", status.word())]), 1.0);
    }
    family
}

fn counters(report: &Report) -> Family {
    let help = "By how much a counter of a port grew while it was measured.";
    let mut family = Family::new("fabbench_port_counter_growth", help);
    for (name, (delta, _)) in counter_totals(report) {
        let (port, counter) = name.rsplit_once('/').unwrap_or(("", name));
        family.add(&[("port", port), ("counter", counter)], delta as f64);
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_end_itself_or_its_line() {
        assert_eq!(escaped("a\"} 1\nfoo\\"), "a\\\"} 1\\nfoo\\\\");
    }

    #[test]
    fn what_would_make_the_file_invalid_is_left_out() {
        let mut family = Family::new("x", "X.");
        family.add(&[("a", "1")], 1.0);
        family.add(&[("a", "1")], 2.0);
        family.add(&[("a", "2")], f64::INFINITY);
        let mut page = String::new();
        family.write(&mut page);
        assert_eq!(page, "# HELP x X.\n# TYPE x gauge\nx{a=\"1\"} 1\n");
    }
}
