//! The report as people read it on a terminal: evidence first, the verdict last.

mod ending;
mod hosts;
mod layout;
mod line;
mod results;

pub use hosts::devices;
pub use line::{report_line, result_line};

use crate::model::{Measurement, Report, Status};
use layout::Page;

/// How a text is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Columns of the terminal; tables that do not fit become lists.
    pub width: usize,
    /// Colour and bold by ANSI escapes.
    pub color: bool,
    /// Adds every parameter, path, counter and repeat.
    pub explain: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { width: 80, color: false, explain: false }
    }
}

/// The whole report.
pub fn report(report: &Report, options: &Options) -> String {
    let view = View { report, names: host_names(report), explain: options.explain };
    let mut page = Page::new(options.width, options.color);
    hosts::heading(&view, &mut page);
    hosts::rails(&view, &mut page);
    hosts::checks(&view, &mut page);
    results::integrity(&view, &mut page);
    results::latency(&view, &mut page);
    results::bandwidth(&view, &mut page);
    results::together(&view, &mut page);
    results::message_rate(&view, &mut page);
    results::tcp(&view, &mut page);
    results::others(&view, &mut page);
    ending::counters(&view, &mut page);
    ending::not_measured(&view, &mut page);
    ending::method(&view, &mut page);
    ending::diagnosis(&view, &mut page);
    ending::verdict(&view, &mut page);
    page.finish()
}

/// A report and how it is looked at.
struct View<'a> {
    report: &'a Report,
    names: Vec<&'a str>,
    explain: bool,
}

impl<'a> View<'a> {
    /// Measurements of one test, on TCP or on anything else, in the order measured.
    fn of(&self, test: &str, tcp: bool) -> Vec<&'a Measurement> {
        let fits = |m: &&Measurement| m.test == test && (m.transport == "tcp") == tcp;
        self.report.measurements.iter().filter(fits).collect()
    }

    /// Whether it ran at the same time as measurements of another rail.
    fn rails_together(&self, measurement: &Measurement) -> bool {
        let other_rail = |id: &String| {
            let other = self.report.measurements.iter().find(|other| other.id == *id);
            other.is_some_and(|other| other.path.rail != measurement.path.rail)
        };
        measurement.together_with.iter().any(other_rail)
    }

    /// `A→B`, with `both` when the other direction ran at the same time.
    fn direction(&self, measurement: &Measurement) -> String {
        let arrow = arrow(&measurement.data_from, &measurement.data_to, &self.names);
        if measurement.bidirectional { format!("{arrow} (both)") } else { arrow }
    }

    /// `A rxe0:1` for `node-a/rxe0:1` in a report of two hosts.
    fn endpoint(&self, endpoint: &str) -> String {
        match endpoint.rsplit_once('/') {
            Some((host, port)) => format!("{} {port}", letter(host, &self.names)),
            None => endpoint.to_owned(),
        }
    }
}

fn host_names(report: &Report) -> Vec<&str> {
    report.hosts.iter().map(|host| host.name.as_str()).collect()
}

/// `A→B` between two hosts, their names among more.
fn arrow(from: &str, to: &str, names: &[&str]) -> String {
    format!("{}→{}", letter(host_of(from), names), letter(host_of(to), names))
}

/// A or B in a pair; the name of the host otherwise.
fn letter<'a>(host: &'a str, names: &[&str]) -> &'a str {
    match names {
        [a, _] if *a == host => "A",
        [_, b] if *b == host => "B",
        _ => host,
    }
}

/// The host of `host/dev:port`; names may hold slashes, ports do not.
fn host_of(endpoint: &str) -> &str {
    endpoint.rsplit_once('/').map_or(endpoint, |(host, _)| host)
}

/// How a verdict reads where something was measured: what was not judged is never a pass.
fn judged(status: Option<Status>) -> Status {
    status.unwrap_or(Status::Unjudged)
}

/// The operation as people write it: `WRITE`, `request/response`.
fn operation(op: &str) -> String {
    match op {
        "request_response" => "request/response".to_owned(),
        "stream" => op.to_owned(),
        verbs => verbs.to_uppercase(),
    }
}

/// `WRITE`, `TCP stream`: reliable connected is what is meant where nothing is said.
fn label(m: &Measurement) -> String {
    match m.transport.as_str() {
        "rc" => operation(&m.op),
        transport => format!("{} {}", transport.to_uppercase(), operation(&m.op)),
    }
}

/// `1 repeat`, `3 repeats`.
fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
