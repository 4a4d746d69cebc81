//! The words that every form of a report shares.

use std::collections::BTreeMap;

use crate::model::{Check, Collective, CollectiveFit, FitPiece, Host, Measurement, Report, Status};
use crate::units::{BitRate, ByteRate, MessageRate, Share, Size, Time};

/// Said at the head of a report whose figures nobody measured.
pub(crate) const SYNTHETIC: &str = "Nobody measured this: its figures are made up.";

pub(crate) fn host_names(report: &Report) -> Vec<&str> {
    report.hosts.iter().map(|host| host.name.as_str()).collect()
}

/// `A→B` between two hosts, their names among more.
pub(crate) fn arrow(from: &str, to: &str, names: &[&str]) -> String {
    format!("{}→{}", letter(host_of(from), names), letter(host_of(to), names))
}

/// A or B in a pair; the name of the host otherwise.
pub(crate) fn letter<'a>(host: &'a str, names: &[&str]) -> &'a str {
    match names {
        [a, _] if *a == host => "A",
        [_, b] if *b == host => "B",
        _ => host,
    }
}

/// The host of `host/dev:port`; names may hold slashes, ports do not.
pub(crate) fn host_of(endpoint: &str) -> &str {
    endpoint.rsplit_once('/').map_or(endpoint, |(host, _)| host)
}

/// How a verdict reads where something was measured: what was not judged is never a pass.
pub(crate) fn judged(status: Option<Status>) -> Status {
    status.unwrap_or(Status::Unjudged)
}

/// The operation as people write it: `WRITE`, `SEND+imm`, `FETCH_ADD`, `request/response`.
fn operation(op: &str) -> String {
    match op {
        "request_response" => "request/response".to_owned(),
        "stream" => op.to_owned(),
        "fetch_add" | "cmp_swap" => op.to_uppercase(),
        with_imm if with_imm.ends_with("_imm") => {
            format!("{}+imm", with_imm.trim_end_matches("_imm").to_uppercase())
        }
        verbs => verbs.to_uppercase(),
    }
}

/// `WRITE`, `TCP stream`: reliable connected is what is meant where nothing is said.
pub(crate) fn label(m: &Measurement) -> String {
    match m.transport.as_str() {
        "rc" => operation(&m.op),
        transport => format!("{} {}", transport.to_uppercase(), operation(&m.op)),
    }
}

/// `1 repeat`, `3 repeats`.
pub(crate) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// `fabbench pair: node-a (A), node-b (B)`.
pub(crate) fn title(report: &Report) -> String {
    let names = host_names(report);
    let named: Vec<String> = names.iter().map(|name| named(name, &names)).collect();
    let title = format!("{}: {}", command(&report.command), named.join(", "));
    title.trim_end_matches([':', ' ']).to_owned()
}

/// `bandwidth 64 KiB WRITE rail0 A→B`.
pub(crate) fn case_name(m: &Measurement, hosts: &[&str]) -> String {
    let mut name = format!("{} {} {}", m.test.replace('_', " "), Size(m.size_bytes), label(m));
    if !m.path.rail.is_empty() {
        name.push_str(&format!(" {}", m.path.rail));
    }
    name.push_str(&format!(" {}", arrow(&m.data_from, &m.data_to, hosts)));
    if m.bidirectional {
        name.push_str(" (both directions at once)");
    }
    name
}

/// What came out, with units: `431.2 Mb/s (min window 405.3 Mb/s)`.
pub(crate) fn figures(m: &Measurement) -> Vec<String> {
    let mut figures = Vec::new();
    if let Some(latency) = m.latency_ns {
        let (p50, p99) = (Time(latency.p50), Time(latency.p99));
        let kind = if m.is_half_rtt == Some(true) { "half RTT" } else { "RTT" };
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
    if let Some(collective) = &m.collective {
        figures.extend(of_collective(m, collective));
    }
    if m.test == "integrity" {
        figures.push(format!("{} checked, {} B wrong", Size(m.bytes_verified), m.bytes_wrong));
    }
    figures.extend(losses(m));
    if figures.is_empty() {
        figures.push("no result".to_owned());
    }
    figures
}

/// `ring f32 sum in place among 4 ranks`, time, rates and wrong elements.
fn of_collective(m: &Measurement, collective: &Collective) -> Vec<String> {
    let Collective { data_type, reduction, time_ns, .. } = collective;
    let place = if collective.in_place { "in place" } else { "out of place" };
    let ranks = count(m.ranks.len(), "rank");
    let mut figures = vec![
        format!("{} {data_type} {reduction} {place} among {ranks}", m.algorithm),
        format!("time {} (slowest rank {})", Time(time_ns.avg), Time(time_ns.max)),
    ];
    let rates = [("algbw", m.algbw_bps), ("busbw", m.busbw_bps)];
    figures.extend(
        rates.iter().filter_map(|(name, bps)| Some(format!("{name} {}", ByteRate((*bps)?)))),
    );
    figures.push(match m.elements_wrong {
        Some(wrong) => format!("{wrong} wrong"),
        None => "not verified".to_owned(),
    });
    figures
}

/// `α 12.0 µs a step, 1/β 1.20 GB/s, 1/γ 9.10 GB/s …`, or why there is none.
pub(crate) fn fitted(fit: &CollectiveFit) -> String {
    let (Some(residual), Some(worst)) = (fit.residual, fit.worst_residual) else {
        return format!("α, β and γ not fitted: {}", fit.refused);
    };
    // 1 byte a ns is 8 Gb/s.
    let rate = |ns: f64| ByteRate(8e9 / ns);
    let mut parts = vec![
        fit.alpha_ns
            .map_or("α not shown by these sizes".into(), |ns| format!("α {} a step", Time(ns))),
        fit.wire_ns_per_byte
            .map_or("β not shown by these sizes".into(), |ns| format!("1/β {}", rate(ns))),
    ];
    let from = &fit.reduce_from;
    parts.extend(fit.reduce_ns_per_byte.map(|ns| format!("1/γ {} ({from})", rate(ns))));
    let ends = |piece: &FitPiece| format!("{}–{}", Size(piece.from_bytes), Size(piece.to_bytes));
    let pieces: Vec<String> = fit.pieces.iter().map(ends).collect();
    format!(
        "{}; fitted over {}, residual {}, worst {}",
        parts.join(", "),
        pieces.join(" and "),
        Share(residual),
        Share(worst)
    )
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

/// Totals of the ports' counters over all measurements, and in how many of them they grew.
pub(crate) fn counter_totals(report: &Report) -> BTreeMap<&str, (i64, usize)> {
    let mut totals: BTreeMap<&str, (i64, usize)> = BTreeMap::new();
    for (name, delta) in report.measurements.iter().flat_map(|m| &m.counters) {
        let total = totals.entry(name).or_default();
        total.0 = total.0.saturating_add(*delta);
        total.1 += 1;
    }
    totals
}

/// `fabbench pair`, whether the command line was kept with the program's name or without.
fn command(words: &[String]) -> String {
    let program = words.first().filter(|word| word.rsplit('/').next() == Some("fabbench"));
    let subcommand =
        words.iter().skip(usize::from(program.is_some())).find(|w| !w.starts_with('-'));
    subcommand.map_or("fabbench".to_owned(), |word| format!("fabbench {word}"))
}

/// `node-a (A)` in a pair.
pub(crate) fn named(name: &str, names: &[&str]) -> String {
    let letter = letter(name, names);
    if letter == name { name.to_owned() } else { format!("{name} ({letter})") }
}

pub(crate) fn host_facts(host: &Host) -> String {
    let mut facts = Vec::new();
    if !host.hostname.is_empty() && host.hostname != host.name {
        facts.push(format!("calls itself {}", host.hostname));
    }
    facts.push(format!("Linux {} {}", or_unknown(&host.kernel), host.arch).trim_end().to_owned());
    facts.push(or_unknown(&host.os).to_owned());
    facts.push(format!("{} ({})", count(host.cpus as usize, "CPU"), or_unknown(&host.cpu)));
    if !host.devices.is_empty() {
        facts.push(format!("rdma-core {}", or_unknown(&host.rdma_core)));
    }
    facts.push(format!("agent {}", or_unknown(&host.agent)));
    facts.join(", ")
}

/// Whether a check deserves a row of its own: not what passed, did not apply or was merely told, nor
/// what could not be seen, unless something can be done about it ([`unseen`] sums it up).
pub(crate) fn noteworthy(check: &Check) -> bool {
    match check.status {
        Status::Pass | Status::NotApplicable | Status::Unjudged => false,
        Status::Unknown => !check.remedy.is_empty(),
        _ => true,
    }
}

/// What could not be seen, in a sentence: `3 checks could not be seen: fec (2), module`.
pub(crate) fn unseen(checks: &[Check]) -> Option<String> {
    let hidden: Vec<&Check> =
        checks.iter().filter(|c| c.status == Status::Unknown && !noteworthy(c)).collect();
    let mut ids: Vec<(&str, usize)> = Vec::new();
    for check in &hidden {
        match ids.iter_mut().find(|(id, _)| *id == check.id) {
            Some((_, count)) => *count += 1,
            None => ids.push((&check.id, 1)),
        }
    }
    let word = |(id, count): &(&str, usize)| match count {
        1 => (*id).to_owned(),
        count => format!("{id} ({count})"),
    };
    let list: Vec<String> = ids.iter().map(word).collect();
    let what = count(hidden.len(), "check");
    (!hidden.is_empty()).then(|| format!("{what} could not be seen: {}", list.join(", ")))
}

/// The object of a check with its host, which is not named twice.
pub(crate) fn object_of(check: &Check, names: &[&str]) -> String {
    let host = letter(&check.host, names);
    let object = match check.object.rsplit_once('/') {
        Some((of, port)) if host_of(&check.object) == of && of == check.host => port,
        _ => &check.object,
    };
    if object.is_empty() || object == check.host {
        host.to_owned()
    } else {
        format!("{host} {object}")
    }
}

pub(crate) fn mtu(bytes: u32) -> String {
    // The path MTU is known by its bytes: 4096, not 4 KiB.
    if bytes == 0 { "unknown".to_owned() } else { format!("{bytes} B") }
}

pub(crate) fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

/// Function and performance in words, apart; what was not judged is counted.
pub(crate) fn verdict_parts(report: &Report) -> String {
    let verdict = &report.verdict;
    let function = match verdict.function {
        Status::Pass => "function passed".to_owned(),
        Status::Warn => "function passed with warnings".to_owned(),
        Status::Fail => "function failed".to_owned(),
        Status::Incomplete => "function incomplete: not all that was asked was measured".to_owned(),
        other => format!("function {other}"),
    };
    let performance = match verdict.performance {
        Status::Pass => format!("performance passed{}", unjudged(report)),
        Status::Warn => format!("performance has warnings{}", unjudged(report)),
        Status::Fail => format!("performance failed{}", unjudged(report)),
        Status::Unjudged if report.simulated => {
            "line rate not judged: Soft-RoCE has none".to_owned()
        }
        Status::Unjudged => "performance not judged".to_owned(),
        other => format!("performance {other}"),
    };
    format!("{function}; {performance}")
}

/// The verdict's reasons but the first where it only repeats [`verdict_parts`].
pub(crate) fn reasons(report: &Report) -> impl Iterator<Item = &str> {
    let parts = verdict_parts(report);
    let all = report.verdict.reasons.iter().map(String::as_str);
    all.enumerate().filter(move |(n, reason)| *n > 0 || !parts.starts_with(reason)).map(|(_, r)| r)
}

/// How many timed RDMA results stand without a verdict; the TCP baseline has none to have.
fn unjudged(report: &Report) -> String {
    let timed = report.measurements.iter();
    let timed = timed.filter(|m| m.test != "integrity" && m.transport != "tcp");
    match timed.filter(|m| judged(m.status) == Status::Unjudged).count() {
        0 => String::new(),
        number => format!(" ({} not judged)", count(number, "result")),
    }
}

pub(crate) fn is_traffic(name: &str) -> bool {
    TRAFFIC.contains(&name.rsplit_once('/').map_or(name, |(_, counter)| counter))
}

pub(crate) fn meaning(name: &str) -> &'static str {
    let counter = name.rsplit_once('/').map_or(name, |(_, counter)| counter);
    let other = if is_traffic(name) {
        "traffic"
    } else {
        "unknown to fabbench: see the documentation of the driver"
    };
    let known = MEANINGS.iter().find(|(name, _)| *name == counter);
    known.map_or(other, |(_, meaning)| meaning)
}

/// Counters that grow with every packet; they prove traffic and explain nothing.
const TRAFFIC: [&str; 13] = [
    "ack_deferred",
    "sent_pkts",
    "rcvd_pkts",
    "sent_bytes",
    "rcvd_bytes",
    "port_xmit_data",
    "port_rcv_data",
    "port_xmit_packets",
    "port_rcv_packets",
    "unicast_xmit_packets",
    "unicast_rcv_packets",
    "rdma_sends",
    "rdma_recvs",
];

/// What a counter says, in words.
const MEANINGS: [(&str, &str); 15] = [
    ("link_downed", "the link went down"),
    ("link_error_recovery", "the link recovered from an error"),
    ("symbol_error", "bad symbols on the cable"),
    ("port_rcv_errors", "broken packets arrived"),
    ("port_xmit_discards", "packets were dropped before sending"),
    ("retry_exceeded_err", "gave up: the peer did not answer"),
    ("completer_retry_err", "requests were sent again"),
    ("local_ack_timeout_err", "an acknowledgement did not come in time"),
    ("packet_seq_err", "packets were lost on the way there"),
    ("rcvd_seq_err", "packets were lost on the way here"),
    ("out_of_seq_request", "packets were lost on the way here"),
    ("out_of_sequence", "packets were lost on the way here"),
    ("duplicate_request", "requests arrived twice"),
    ("send_err", "sending failed"),
    ("retransmitted_segments", "TCP sent segments again: lost or late on the way"),
];

pub(crate) fn half_trip(m: &Measurement) -> Option<f64> {
    let p50 = m.latency_ns?.p50;
    Some(if m.is_half_rtt == Some(true) { p50 } else { p50 / 2.0 })
}

/// Sorted.
pub(crate) fn repeat_p50s(m: &Measurement) -> Vec<f64> {
    let latencies = m.repeats.iter().filter_map(|r| r.latency_ns);
    let mut p50s: Vec<f64> = latencies.map(|latency| latency.p50).collect();
    p50s.sort_by(f64::total_cmp);
    p50s
}

/// Of sorted values; 0 of none.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => (sorted[even / 2 - 1] + sorted[even / 2]) / 2.0,
    }
}

/// The longest time of any repeat without a message, ns; none where that was not looked at.
pub(crate) fn longest_gap(m: &Measurement) -> Option<u64> {
    m.repeats.iter().map(|repeat| repeat.longest_gap_ns).max().filter(|gap| *gap > 0)
}

pub(crate) fn trip(m: &Measurement) -> &'static str {
    match m.is_half_rtt {
        Some(true) => "half RTT",
        Some(false) => "RTT",
        None => "unknown",
    }
}
