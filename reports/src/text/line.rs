//! Results in a single line: live progress and `--quiet`.

use crate::clean;
use crate::model::{Measurement, Report, Status};
use crate::words::{case_name, count, figures, host_names};

/// One measurement as a line without an end of line, e.g.
/// `bandwidth 64 KiB WRITE rail0 A→B: 9.81 Gb/s (min window 9.70 Gb/s)`.
///
/// `hosts` are the names as in the report; two of them are called A and B.
pub fn result_line(measurement: &Measurement, hosts: &[&str]) -> String {
    let m = measurement;
    let mut line = format!("{}: {}", case_name(m, hosts), figures(m).join(", "));
    if matches!(m.status, Some(Status::Fail | Status::Error | Status::Warn)) {
        line.push_str(&format!(": {}", m.status.map_or("", Status::word)));
        if !m.reason.is_empty() {
            line.push_str(&format!(": {}", m.reason));
        }
    }
    clean::line(&line)
}

/// The whole report as a line without an end of line, for `--quiet`.
pub fn report_line(report: &Report) -> String {
    let verdict = &report.verdict;
    let mut line = format!(
        "{}: {}: function {}, performance {}; {}",
        verdict.status,
        host_names(report).join(" and "),
        verdict.function,
        if verdict.performance == Status::Unjudged {
            "not judged"
        } else {
            verdict.performance.word()
        },
        count(report.measurements.len(), "measurement"),
    );
    let missing = report.not_measured.iter().filter(|item| item.asked).count();
    if missing > 0 {
        line.push_str(&format!(", {missing} not measured"));
    }
    // The first reason is the sum in words; the second is why it is not better.
    let explaining = if verdict.status == Status::Pass { 1 } else { 2 };
    for reason in verdict.reasons.iter().take(explaining) {
        line.push_str(&format!("; {reason}"));
    }
    clean::line(&line)
}
