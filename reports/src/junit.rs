//! JUnit XML for continuous integration.
//!
//! A suite of checks a host, a suite of measurements, a suite of what was asked for and not
//! measured, and the verdict. `fail` is a failure; what could not be measured, or was measured
//! wrongly, is an error; what nobody judged is skipped. Only what all common schemas of JUnit know
//! is written.

mod comparison;

use std::fmt::Write;

pub use comparison::comparison;

use crate::clean::{self, markup};
use crate::model::{Check, Measurement, NotMeasured, Report, Status};
use crate::words::{case_name, figures, host_names, judged, reasons, verdict_parts};

/// The report as JUnit XML.
pub fn report(report: &Report) -> String {
    let mut suites: Vec<Suite> = Vec::new();
    for check in &report.checks {
        let known = suites.iter().position(|suite| suite.host == check.host);
        let index = known.unwrap_or_else(|| {
            suites.push(Suite::new("checks", &check.host));
            suites.len() - 1
        });
        suites[index].cases.push(check_case(check));
    }
    let hosts = host_names(report);
    let everywhere = hosts.join(", ");
    let mut measurements = Suite::new("measurements", &everywhere);
    measurements.cases = report.measurements.iter().map(|m| measured(m, &hosts)).collect();
    let mut missing = Suite::new("not measured", &everywhere);
    missing.cases = report.not_measured.iter().map(not_measured).collect();
    let mut verdict = Suite::new("verdict", &everywhere);
    verdict.cases = parts(report);
    suites.extend([measurements, missing, verdict]);
    suites.retain(|suite| !suite.cases.is_empty());

    let run = Run { started: &report.started, properties: properties(report) };
    document(&suites, &run)
}

/// What every suite says of the run that it belongs to.
struct Run<'a> {
    started: &'a str,
    properties: Vec<(&'static str, String)>,
}

fn document(suites: &[Suite], run: &Run) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for (id, suite) in suites.iter().enumerate() {
        suite.write(id, run, &mut xml);
    }
    xml.push_str("</testsuites>\n");
    clean::page(xml)
}

/// A `<testsuite>`.
struct Suite {
    name: String,
    host: String,
    cases: Vec<Case>,
}

/// A `<testcase>`.
struct Case {
    class: String,
    name: String,
    seconds: f64,
    outcome: Outcome,
    kind: Status,
    message: String,
    output: String,
}

#[derive(PartialEq)]
enum Outcome {
    Passed,
    Failure,
    Error,
    Skipped,
}

impl Suite {
    fn new(what: &str, host: &str) -> Self {
        let name = if host.is_empty() { what.to_owned() } else { format!("{what} {host}") };
        let host = if host.is_empty() { "unknown" } else { host };
        Suite { name, host: host.to_owned(), cases: Vec::new() }
    }

    fn write(&self, id: usize, run: &Run, xml: &mut String) {
        let number = |of: Outcome| self.cases.iter().filter(|case| case.outcome == of).count();
        let seconds: f64 = self.cases.iter().map(|case| case.seconds).sum();
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{}\" package=\"fabbench\" id=\"{id}\" hostname=\"{}\" \
             timestamp=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" \
             time=\"{seconds:.3}\">",
            attribute(&self.name),
            attribute(&self.host),
            timestamp(run.started),
            self.cases.len(),
            number(Outcome::Failure),
            number(Outcome::Error),
            number(Outcome::Skipped),
        );
        xml.push_str("    <properties>\n");
        for (name, value) in &run.properties {
            let value = attribute(value.trim_end());
            let _ = writeln!(xml, "      <property name=\"{name}\" value=\"{value}\"/>");
        }
        xml.push_str("    </properties>\n");
        for case in &self.cases {
            case.write(xml);
        }
        xml.push_str("    <system-out></system-out>\n    <system-err></system-err>\n");
        xml.push_str("  </testsuite>\n");
    }
}

impl Case {
    fn write(&self, xml: &mut String) {
        let _ = writeln!(
            xml,
            "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\">",
            attribute(&self.class),
            attribute(&self.name),
            self.seconds,
        );
        let (kind, message) = (self.kind.word(), attribute(&self.message));
        let _ = match self.outcome {
            Outcome::Passed => Ok(()),
            // Schemas differ in the attributes of <skipped>, and agree that it may hold text.
            Outcome::Skipped => writeln!(xml, "      <skipped>{message}</skipped>"),
            Outcome::Failure => self.wrong("failure", kind, &message, xml),
            Outcome::Error => self.wrong("error", kind, &message, xml),
        };
        if self.outcome == Outcome::Passed && !self.output.is_empty() {
            let _ = writeln!(xml, "      <system-out>{}</system-out>", markup(&self.output));
        }
        xml.push_str("    </testcase>\n");
    }

    fn wrong(&self, tag: &str, kind: &str, message: &str, xml: &mut String) -> std::fmt::Result {
        let text = markup(&self.output);
        writeln!(xml, "      <{tag} type=\"{kind}\" message=\"{message}\">{text}</{tag}>")
    }
}

fn properties(report: &Report) -> Vec<(&'static str, String)> {
    vec![
        ("fabbench", format!("{} ({})", report.tool.version, report.tool.commit)),
        ("command", report.command.join(" ")),
        ("suite", format!("{} {}", report.suite.name, report.suite.hash)),
        ("profile", format!("{} {}", report.profile.name, report.profile.hash)),
        ("simulated", report.simulated.to_string()),
    ]
}

fn check_case(check: &Check) -> Case {
    let mut message = check.found.clone();
    if !check.wanted.is_empty() && check.status != Status::Pass {
        message.push_str(&format!("; wanted: {}", check.wanted));
    }
    let to_do = match check.remedy.as_str() {
        "" => String::new(),
        remedy => format!("to do: {remedy}"),
    };
    Case {
        class: "fabbench.check".into(),
        name: format!("{} {}", check.id, check.object),
        seconds: 0.0,
        outcome: outcome(check.status),
        kind: check.status,
        output: output(check.status, &message, &to_do),
        message,
    }
}

fn measured(m: &Measurement, hosts: &[&str]) -> Case {
    let status = judged(m.status);
    let figures = figures(m).join(", ");
    let message = match (status, m.reason.as_str()) {
        (Status::Unjudged, _) => format!("not judged: {figures}"),
        (_, "") => figures.clone(),
        (_, reason) => format!("{reason}: {figures}"),
    };
    let windows: u64 = m.repeats.iter().map(|r| r.window_ns).fold(0, u64::saturating_add);
    Case {
        class: format!("fabbench.{}", m.test),
        name: format!("{} [{}]", case_name(m, hosts), m.id),
        seconds: windows as f64 / 1e9,
        outcome: outcome(status),
        kind: status,
        output: output(status, &message, &m.data_errors),
        message,
    }
}

fn not_measured(item: &NotMeasured) -> Case {
    Case {
        class: "fabbench.not_measured".into(),
        name: item.what.clone(),
        seconds: 0.0,
        outcome: if item.asked { Outcome::Error } else { Outcome::Skipped },
        kind: Status::Incomplete,
        message: item.why.clone(),
        output: item.why.clone(),
    }
}

/// Function and performance, so that the file fails whenever the report does.
fn parts(report: &Report) -> Vec<Case> {
    let verdict = &report.verdict;
    let case = |name: &str, status: Status| Case {
        class: "fabbench.verdict".into(),
        name: name.into(),
        seconds: 0.0,
        outcome: outcome(status),
        kind: status,
        message: verdict_parts(report),
        output: [verdict_parts(report)]
            .into_iter()
            .chain(reasons(report).map(str::to_owned))
            .chain(verdict.next.iter().map(|step| format!("next: {step}")))
            .collect::<Vec<_>>()
            .join("\n"),
    };
    vec![case("function", verdict.function), case("performance", verdict.performance)]
}

fn outcome(status: Status) -> Outcome {
    match status {
        Status::Pass | Status::Warn => Outcome::Passed,
        Status::Fail => Outcome::Failure,
        Status::Error | Status::Incomplete => Outcome::Error,
        Status::Unjudged | Status::Unknown | Status::NotApplicable => Outcome::Skipped,
    }
}

/// The status is named where the outcome does not tell it: JUnit has no warning.
fn output(status: Status, message: &str, more: &str) -> String {
    let first =
        if status == Status::Warn { format!("warn: {message}") } else { message.to_owned() };
    [first.as_str(), more].into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>().join("\n")
}

/// In an attribute, where line ends would be lost.
fn attribute(text: &str) -> String {
    markup(&clean::line(text))
}

/// `2025-03-01T09:00:00`: the schema's pattern knows no time zone. Times are UTC.
fn timestamp(rfc3339: &str) -> &str {
    let digits = |text: &str| {
        let shape: String =
            text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        shape == "0000-00-00T00:00:00"
    };
    rfc3339.get(..19).filter(|text| digits(text)).unwrap_or("1970-01-01T00:00:00")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_none_still_fits_the_schema() {
        assert_eq!(timestamp("2025-03-01T09:00:00Z"), "2025-03-01T09:00:00");
        assert_eq!(timestamp("2025-03-01T09:00:00.25Z"), "2025-03-01T09:00:00");
        assert_eq!(timestamp("yesterday"), "1970-01-01T00:00:00");
        assert_eq!(timestamp("2025-03-01T09:00:0é"), "1970-01-01T00:00:00");
    }
}
