//! What was measured, one table a test.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::{Column, Page, Table};
use super::result_line;
use crate::model::{Latency, Measurement, Status};
use crate::units::{BitRate, Share, Size, Time, range};
use crate::view::{Beside, View};
use crate::words::{arrow, half_trip, host_of, judged, label, median, repeat_p50s, trip};

pub(super) fn integrity(view: &View, page: &mut Page) {
    let measurements = view.of("integrity", false);
    let all: Vec<&Measurement> =
        measurements.into_iter().chain(view.of("integrity", true)).collect();
    if all.is_empty() {
        return;
    }
    page.title("Integrity: every byte compared at its place");
    let mut table = Table::new(vec![
        Column::key("rail"),
        Column::key("op"),
        Column::key("direction"),
        Column::number("checked"),
        Column::number("wrong"),
        Column::number("messages lost"),
        Column::word("verdict"),
    ]);
    for m in &all {
        table.row(vec![
            rail(m),
            label(m),
            view.direction(m),
            Size(m.bytes_verified).to_string(),
            format!("{} B", m.bytes_wrong),
            m.messages_lost.to_string(),
            page.status(judged(m.status)),
        ]);
    }
    page.table(table);
    notes(view, &all, page);
}

pub(super) fn latency(view: &View, page: &mut Page) {
    let all = view.of("latency", false);
    if all.is_empty() {
        return;
    }
    page.title("Latency");
    page.table(latency_table(view, &all, page));
    trips(&all, page);
    notes(view, &all, page);
}

pub(super) fn bandwidth(view: &View, page: &mut Page) {
    let mut all = view.of("bandwidth", false);
    all.retain(|m| !view.rails_together(m));
    if all.is_empty() {
        return;
    }
    page.title("Bandwidth: payload that arrived, one rail at a time");
    page.table(rate_table(view, &all, page));
    accounting(view, &all, page);
    notes(view, &all, page);
}

pub(super) fn loopback(view: &View, page: &mut Page) {
    let all = view.of("loopback", false);
    if all.is_empty() {
        return;
    }
    page.title("Loopback: each port against itself on its own host, without the fabric");
    page.table(rate_table(view, &all, page));
    notes(view, &all, page);
}

pub(super) fn together(view: &View, page: &mut Page) {
    let mut all = view.of("bandwidth", false);
    all.retain(|m| view.rails_together(m));
    if all.is_empty() {
        return;
    }
    page.title("Bandwidth: all rails together");
    page.table(rate_table(view, &all, page));
    accounting(view, &all, page);
    notes(view, &all, page);
}

pub(super) fn message_rate(view: &View, page: &mut Page) {
    let mut all = view.of("message_rate", false);
    all.extend(view.of("message_rate", true));
    if all.is_empty() {
        return;
    }
    page.title("Message rate");
    let mut table = Table::new(vec![
        Column::key("rail"),
        Column::key("op"),
        Column::key("size"),
        Column::key("direction"),
        Column::number("Mmsg/s"),
        Column::number("min–max"),
        Column::number("min window"),
        Column::number("QPs"),
        Column::number("per QP"),
        Column::number("fairness"),
        Column::word("verdict"),
    ]);
    for m in &all {
        let rate = m.messages_per_s;
        table.row(vec![
            rail(m),
            label(m),
            Size(m.size_bytes).to_string(),
            view.direction(m),
            rate.map_or("n/a".into(), |r| millions(r.median)),
            rate.map_or("n/a".into(), |r| format!("{}–{}", millions(r.min), millions(r.max))),
            rate.map_or("n/a".into(), |r| millions(r.min_window)),
            m.method.qps.to_string(),
            per_qp(m),
            m.fairness.map_or(String::new(), |share| Share(share).to_string()),
            page.status(judged(m.status)),
        ]);
    }
    page.table(table);
    if all.iter().any(|m| m.fairness.is_some()) {
        page.paragraph(
            "all rates in Mmsg/s; fairness: the slowest QP's rate as a part of the fastest one's",
        );
    }
    accounting(view, &all, page);
    notes(view, &all, page);
}

/// A rate in millions per second, for a column that names the unit.
fn millions(per_s: f64) -> String {
    let value = per_s / 1e6;
    let decimals = match value {
        large if large >= 99.95 => 1,
        middle if middle >= 0.9995 => 2,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// From the slowest queue pair to the fastest.
fn per_qp(m: &Measurement) -> String {
    let mut rates = m.qp_messages_per_s.clone();
    rates.sort_by(f64::total_cmp);
    match (rates.first(), rates.last()) {
        (Some(&slowest), Some(&fastest)) => {
            format!("{}–{}", millions(slowest), millions(fastest))
        }
        _ => String::new(),
    }
}

pub(super) fn tcp(view: &View, page: &mut Page) {
    let (latency, bandwidth) = (view.of("latency", true), view.of("bandwidth", true));
    let all: Vec<&Measurement> = latency.iter().chain(&bandwidth).copied().collect();
    if all.is_empty() {
        return;
    }
    let beside: Vec<Option<Beside>> = all.iter().map(|m| view.rdma_beside(m)).collect();
    let compared = beside.iter().any(Option::is_some);
    page.title(if compared { "TCP, and RDMA beside it" } else { "TCP" });
    page.table(tcp_table(view, &all, beside));
    if all.iter().any(|m| m.test == "latency") {
        page.paragraph("latency: half of the median round trip; min–max: of the repeats' medians");
        for m in &latency {
            distribution(view, m, page);
        }
    }
    if compared {
        page.paragraph("gain: how many times as good RDMA is; below 1 TCP is better");
    }
    let mut told = BTreeSet::new();
    for why in all.iter().map(|m| m.path.why.as_str()) {
        if !why.is_empty() && told.insert(why) {
            page.paragraph(&format!("path: {why}"));
        }
    }
    notes(view, &all, page);
}

/// The round trips of TCP one by one, as RDMA's stand in their table.
fn distribution(view: &View, m: &Measurement, page: &mut Page) {
    let Some(l) = &m.latency_ns else { return };
    let parts =
        [("min", Some(l.min)), ("p50", Some(l.p50)), ("p90", Some(l.p90)), ("p99", Some(l.p99))];
    let tail = [("p99.9", l.p999), ("p99.99", l.p9999), ("max", Some(l.max))];
    let told: Vec<String> = parts
        .into_iter()
        .chain(tail)
        .filter_map(|(name, ns)| Some(format!("{name} {}", Time(ns?))))
        .collect();
    let (what, way) = (Size(m.size_bytes), arrow(&m.initiator, &m.responder, &view.names));
    page.item(&format!("{what} {way}, {}: {}; n {}", trip(m), told.join(", "), l.count));
}

/// Tests without a table of their own.
pub(super) fn others(view: &View, page: &mut Page) {
    let known = ["integrity", "latency", "bandwidth", "loopback", "message_rate", "collective"];
    let all = view.report.measurements.iter();
    let all: Vec<&Measurement> = all.filter(|m| !known.contains(&m.test.as_str())).collect();
    if all.is_empty() {
        return;
    }
    page.title("Other measurements");
    for m in all {
        page.item(&result_line(m, &view.names));
    }
}

/// Which times are half a round trip and which a whole one.
fn trips(all: &[&Measurement], page: &mut Page) {
    let mut kinds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for m in all {
        let labels = kinds.entry(trip(m)).or_default();
        if !labels.contains(&label(m)) {
            labels.push(label(m));
        }
    }
    let kinds: Vec<String> =
        kinds.into_iter().map(|(trip, labels)| format!("{}: {trip}", labels.join(", "))).collect();
    page.paragraph(&format!("{}; spread: of the repeats' p50", kinds.join("; ")));
}

fn latency_table(view: &View, all: &[&Measurement], page: &Page) -> Table {
    let mut table = Table::new(vec![
        Column::key("rail"),
        Column::key("op"),
        Column::key("size"),
        Column::key("path"),
        Column::key("beside"),
        Column::number("p50"),
        Column::number("p99"),
        Column::number("p99.9"),
        Column::number("max"),
        Column::number("n"),
        Column::number("spread"),
        Column::word("verdict"),
    ]);
    for m in all {
        let latency = m.latency_ns;
        let time = |of: fn(&Latency) -> Option<f64>| {
            latency.as_ref().and_then(of).map_or("n/a".to_owned(), |ns| Time(ns).to_string())
        };
        table.row(vec![
            rail(m),
            label(m),
            Size(m.size_bytes).to_string(),
            arrow(&m.initiator, &m.responder, &view.names),
            if m.together_with.is_empty() { "" } else { "load" }.to_owned(),
            time(|l| Some(l.p50)),
            time(|l| Some(l.p99)),
            time(|l| l.p999),
            time(|l| Some(l.max)),
            latency.map_or(String::new(), |l| l.count.to_string()),
            p50_spread(m).map(|s| Share(s).to_string()).unwrap_or_default(),
            page.status(judged(m.status)),
        ]);
    }
    table
}

fn rate_table(view: &View, all: &[&Measurement], page: &Page) -> Table {
    let mut table = Table::new(vec![
        Column::key("rail"),
        Column::key("op"),
        Column::key("size"),
        Column::key("direction"),
        Column::number("median"),
        Column::number("min–max"),
        Column::number("min window"),
        Column::number("ceiling"),
        Column::word("verdict"),
    ]);
    for m in all {
        let rate = m.goodput_bps;
        table.row(vec![
            rail(m),
            label(m),
            Size(m.size_bytes).to_string(),
            view.direction(m),
            rate.map_or("n/a".into(), |r| BitRate(r.median).to_string()),
            rate.map_or("n/a".into(), |r| range(BitRate(r.min), BitRate(r.max))),
            rate.map_or("n/a".into(), |r| BitRate(r.min_window).to_string()),
            ceiling(m),
            page.status(judged(m.status)),
        ]);
    }
    for mut sum in sums(view, all) {
        sum.extend([String::new(), String::new(), page.status(Status::Unjudged)]);
        table.row(sum);
    }
    table
}

fn ceiling(m: &Measurement) -> String {
    match (&m.ceiling, m.efficiency) {
        (Some(ceiling), Some(share)) => format!("{} of {}", Share(share), BitRate(ceiling.bps)),
        (Some(ceiling), None) => BitRate(ceiling.bps).to_string(),
        (None, _) => String::new(),
    }
}

/// A row for what ran at the same time: both directions, all rails.
fn sums(view: &View, all: &[&Measurement]) -> Vec<Vec<String>> {
    let mut sets: BTreeMap<Vec<&str>, Vec<&Measurement>> = BTreeMap::new();
    for m in all.iter().filter(|m| !m.together_with.is_empty()) {
        let mut ids: Vec<&str> = m.together_with.iter().map(String::as_str).collect();
        ids.push(&m.id);
        ids.sort_unstable();
        ids.dedup();
        sets.entry(ids).or_default().push(m);
    }
    let whole = sets.into_iter().filter(|(ids, members)| ids.len() == members.len());
    whole.filter_map(|(_, members)| sum_row(view, &members)).collect()
}

fn sum_row(view: &View, members: &[&Measurement]) -> Option<Vec<String>> {
    let first = members.first()?;
    let repeats = members.iter().map(|m| m.repeats.len()).min().filter(|n| *n > 0)?;
    let of_repeat = |index: usize| -> Option<f64> {
        members.iter().map(|m| m.repeats[index].received_bps).sum()
    };
    let mut totals = (0..repeats).map(of_repeat).collect::<Option<Vec<f64>>>()?;
    totals.sort_by(f64::total_cmp);
    let same_rail = members.iter().all(|m| m.path.rail == first.path.rail);
    let from = host_of(&first.data_from);
    let one_way = members.iter().all(|m| host_of(&m.data_from) == from);
    Some(vec![
        if same_rail { first.path.rail.clone() } else { "all rails".to_owned() },
        label(first),
        Size(first.size_bytes).to_string(),
        if one_way { view.direction(first) } else { "sum".to_owned() },
        BitRate(median(&totals)).to_string(),
        range(BitRate(totals[0]), BitRate(totals[totals.len() - 1])),
    ])
}

/// What sender and receiver counted: a loss is named, agreement is said once.
fn accounting(view: &View, all: &[&Measurement], page: &mut Page) {
    let (mut messages, mut agree) = (0, true);
    for m in all {
        let sent: u64 = m.repeats.iter().map(|r| r.messages_sent).sum();
        let received: u64 = m.repeats.iter().map(|r| r.messages_received).sum();
        messages += received;
        if sent != received {
            agree = false;
            page.paragraph(&format!(
                "{}: sender counted {sent} messages, receiver {received}",
                row_name(view, m)
            ));
        }
    }
    if agree && messages > 0 {
        page.paragraph(&format!("sender and receiver counted the same {messages} messages"));
    }
}

/// Why rows are not as expected.
fn notes(view: &View, all: &[&Measurement], page: &mut Page) {
    for m in all {
        let status = judged(m.status);
        let expected = matches!(status, Status::Pass | Status::Unjudged | Status::NotApplicable);
        let told = !expected && !m.reason.is_empty();
        if told {
            let word = page.status(status);
            page.paragraph(&format!("{}: {word}: {}", row_name(view, m), m.reason));
        }
        let again = told && m.reason.contains(&m.data_errors);
        if !again && !m.data_errors.is_empty() {
            page.paragraph(&format!("{}: {}", row_name(view, m), m.data_errors));
        }
    }
}

fn row_name(view: &View, m: &Measurement) -> String {
    let name = format!("{} {} {}", rail(m), label(m), view.direction(m));
    name.trim_start().to_owned()
}

fn tcp_table(view: &View, all: &[&Measurement], beside: Vec<Option<Beside>>) -> Table {
    let mut table = Table::new(vec![
        Column::key("path"),
        Column::key("test"),
        Column::key("size"),
        Column::key("direction"),
        Column::number("TCP"),
        Column::number("min–max"),
        Column::word("RDMA"),
        Column::number("gain"),
        Column::word("verdict"),
    ]);
    for (m, beside) in all.iter().zip(beside) {
        let (value, spread) = if m.test == "latency" { tcp_latency(m) } else { tcp_rate(m) };
        let beside = beside.unwrap_or_default();
        table.row(vec![
            path_name(view, m),
            m.test.clone(),
            Size(m.size_bytes).to_string(),
            view.direction(m),
            value,
            spread,
            beside.text,
            beside.gain,
            // A baseline is there to compare with: only what went wrong is said.
            m.status.filter(|s| *s > Status::Unknown).map_or(String::new(), |s| s.to_string()),
        ]);
    }
    table
}

/// Halved where whole round trips were measured.
fn tcp_latency(m: &Measurement) -> (String, String) {
    let Some(p50) = half_trip(m) else { return ("n/a".into(), "n/a".into()) };
    let part = p50 / m.latency_ns.map_or(p50, |latency| latency.p50);
    let p50s = repeat_p50s(m);
    let spread = match (p50s.first(), p50s.last()) {
        (Some(low), Some(high)) => range(Time(low * part), Time(high * part)),
        _ => String::new(),
    };
    (Time(p50).to_string(), spread)
}

fn tcp_rate(m: &Measurement) -> (String, String) {
    let Some(rate) = m.goodput_bps else { return ("n/a".into(), "n/a".into()) };
    (BitRate(rate.median).to_string(), range(BitRate(rate.min), BitRate(rate.max)))
}

fn path_name(view: &View, m: &Measurement) -> String {
    let netdev = m.initiator.rsplit_once('/').map_or("", |(_, netdev)| netdev);
    let name = if m.path.rail.is_empty() { netdev } else { &m.path.rail };
    let together = if view.rails_together(m) { " with the others" } else { "" };
    format!("{name}{together}")
}

fn p50_spread(m: &Measurement) -> Option<f64> {
    let p50s = repeat_p50s(m);
    let middle = median(&p50s);
    let (low, high) = (p50s.first()?, p50s.last()?);
    (p50s.len() > 1 && middle > 0.0).then(|| (high - low) / middle)
}

fn rail(m: &Measurement) -> String {
    m.path.rail.clone()
}
