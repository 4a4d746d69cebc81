//! Results in a single line: live progress and `--quiet`.

use crate::model::{Measurement, Report, Status};
use crate::units::{BitRate, MessageRate, Size, Time};
use crate::words::{arrow, count, host_names, label};

/// One measurement as a line without an end of line, e.g.
/// `bandwidth 64 KiB WRITE rail0 A→B: 9.81 Gb/s (min window 9.70 Gb/s)`.
///
/// `hosts` are the names as in the report; two of them are called A and B.
pub fn result_line(measurement: &Measurement, hosts: &[&str]) -> String {
    let m = measurement;
    let mut line = format!("{} {} {}", words(&m.test), Size(m.size_bytes), label(m));
    if !m.path.rail.is_empty() {
        line.push_str(&format!(" {}", m.path.rail));
    }
    line.push_str(&format!(" {}", arrow(&m.data_from, &m.data_to, hosts)));
    if m.bidirectional {
        line.push_str(" (both directions at once)");
    }
    let mut figures = figures(m);
    figures.extend(losses(m));
    if figures.is_empty() {
        figures.push("no result".to_owned());
    }
    line.push_str(&format!(": {}", figures.join(", ")));
    if matches!(m.status, Some(Status::Fail | Status::Error | Status::Warn)) {
        line.push_str(&format!(": {}", m.status.map_or("", Status::word)));
        if !m.reason.is_empty() {
            line.push_str(&format!(": {}", m.reason));
        }
    }
    line
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
    line
}

fn figures(m: &Measurement) -> Vec<String> {
    let mut figures = Vec::new();
    if let Some(latency) = m.latency_ns {
        let kind = if m.is_half_rtt == Some(true) { "half RTT" } else { "RTT" };
        let (p50, p99) = (Time(latency.p50), Time(latency.p99));
        figures.push(format!("{kind} p50 {p50}, p99 {p99}, max {}", Time(latency.max)));
    }
    // Messages of no bytes have a number and no payload.
    let by_number = m.test == "message_rate" || (m.test == "bandwidth" && m.size_bytes == 0);
    if let Some(rate) = m.goodput_bps.filter(|_| m.test != "latency" && !by_number) {
        let (median, worst) = (BitRate(rate.median), BitRate(rate.min_window));
        figures.push(format!("{median} (min window {worst})"));
    }
    if let Some(rate) = m.messages_per_s.filter(|_| by_number) {
        figures.push(MessageRate(rate.median).to_string());
    }
    if m.test == "integrity" {
        figures.push(format!("{} checked, {} B wrong", Size(m.bytes_verified), m.bytes_wrong));
    }
    figures
}

fn losses(m: &Measurement) -> Vec<String> {
    let mut losses = Vec::new();
    if m.bytes_wrong > 0 && m.test != "integrity" {
        losses.push(format!("{} B wrong", m.bytes_wrong));
    }
    if m.messages_lost > 0 {
        losses.push(format!("{} lost", count(m.messages_lost as usize, "message")));
    }
    losses
}

fn words(test: &str) -> String {
    test.replace('_', " ")
}
