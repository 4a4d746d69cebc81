//! What was measured, one table a test.

use std::collections::BTreeMap;

use super::layout::{Column, Page, Table};
use super::result_line;
use crate::model::{Latency, Measurement, Status};
use crate::units::{Share, Size, in_gbps, in_mmsg, in_us, range};
use crate::view::View;
use crate::words::{arrow, count, host_of, judged, label, longest_gap, median, repeat_p50s, trip};

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
    loads(view, &all, page);
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
    legend("Gb/s", &all, page);
    accounting(view, &all, page);
    notes(view, &all, page);
}

pub(super) fn retests(view: &View, page: &mut Page) {
    let all = view.retests();
    if all.is_empty() {
        return;
    }
    page.title("Measured again, since it would fail");
    for m in all {
        let what = m.id.rsplit_once("/retest/").map_or("again", |(_, what)| what);
        let (qps, line) = (count(m.method.qps as usize, "QP"), result_line(m, &view.names));
        page.item(&format!("{what}: {line}; {qps}"));
    }
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
    legend("Gb/s", &all, page);
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
        Column::number("gap µs"),
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
            rate.map_or("n/a".into(), |r| in_mmsg(r.median)),
            rate.map_or("n/a".into(), |r| format!("{}–{}", in_mmsg(r.min), in_mmsg(r.max))),
            rate.map_or("n/a".into(), |r| in_mmsg(r.min_window)),
            gap(m),
            m.method.qps.to_string(),
            per_qp(m),
            fairness(m),
            page.status(judged(m.status)),
        ]);
    }
    page.table(table);
    legend("Mmsg/s", &all, page);
    accounting(view, &all, page);
    notes(view, &all, page);
}

/// From the slowest queue pair to the fastest.
fn per_qp(m: &Measurement) -> String {
    let mut rates = m.qp_messages_per_s.clone();
    rates.sort_by(f64::total_cmp);
    match (rates.first(), rates.last()) {
        (Some(&slowest), Some(&fastest)) => {
            format!("{}–{}", in_mmsg(slowest), in_mmsg(fastest))
        }
        _ => String::new(),
    }
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
    page.paragraph(&format!("in µs; {}; spread: of the repeats' p50", kinds.join("; ")));
}

fn latency_table(view: &View, all: &[&Measurement], page: &Page) -> Table {
    let mut table = Table::new(vec![
        Column::key("rail"),
        Column::key("op"),
        Column::key("size"),
        Column::key("path"),
        Column::key("beside"),
        Column::number("min µs"),
        Column::number("p50"),
        Column::number("p99"),
        Column::number("p99.9"),
        Column::number("p99.99"),
        Column::number("max µs"),
        Column::number("n"),
        Column::number("spread"),
        Column::word("verdict"),
    ]);
    let rare = all.iter().any(|m| m.latency_ns.is_some_and(|l| l.p9999.is_some()));
    for m in all {
        table.row(vec![
            rail(m),
            label(m),
            Size(m.size_bytes).to_string(),
            arrow(&m.initiator, &m.responder, &view.names),
            beside(view, m),
            time(m, |l| Some(l.min)),
            time(m, |l| Some(l.p50)),
            time(m, |l| Some(l.p99)),
            time(m, |l| l.p999),
            if rare { time(m, |l| l.p9999) } else { String::new() },
            time(m, |l| Some(l.max)),
            m.latency_ns.map_or(String::new(), |l| l.count.to_string()),
            p50_spread(m).map(|s| Share(s).to_string()).unwrap_or_default(),
            page.status(judged(m.status)),
        ]);
    }
    table
}

/// A part of a latency in µs.
pub(super) fn time(m: &Measurement, of: fn(&Latency) -> Option<f64>) -> String {
    m.latency_ns.as_ref().and_then(of).map_or("n/a".to_owned(), in_us)
}

/// Marks a latency under load.
pub(super) fn beside(view: &View, m: &Measurement) -> String {
    if view.loads(m).is_empty() { String::new() } else { "load".to_owned() }
}

/// What the loads were.
pub(super) fn loads(view: &View, all: &[&Measurement], page: &mut Page) {
    for m in all {
        for load in view.loads(m) {
            page.paragraph(&format!("load beside {}: {load}", row_name(view, m)));
        }
    }
}

fn rate_table(view: &View, all: &[&Measurement], page: &Page) -> Table {
    let mut table = Table::new(vec![
        Column::key("rail"),
        Column::key("op"),
        Column::key("size"),
        Column::key("direction"),
        Column::number("Gb/s"),
        Column::number("min–max"),
        Column::number("min window"),
        Column::number("gap µs"),
        Column::number("fairness"),
        Column::number("ceiling"),
        Column::word("verdict"),
    ]);
    for m in all {
        let [median, spread, worst] = rate_cells(m);
        table.row(vec![
            rail(m),
            label(m),
            Size(m.size_bytes).to_string(),
            view.direction(m),
            median,
            spread,
            worst,
            gap(m),
            fairness(m),
            ceiling(m),
            page.status(judged(m.status)),
        ]);
    }
    for mut sum in sums(view, all) {
        sum.resize(10, String::new());
        sum.push(page.status(Status::Unjudged));
        table.row(sum);
    }
    table
}

/// Median, from lowest to highest repeat, and worst window, in Gb/s.
pub(super) fn rate_cells(m: &Measurement) -> [String; 3] {
    let Some(rate) = m.goodput_bps else { return ["n/a", "n/a", "n/a"].map(str::to_owned) };
    let spread = range(in_gbps(rate.min), in_gbps(rate.max));
    [in_gbps(rate.median), spread, in_gbps(rate.min_window)]
}

/// The longest time without a message, in µs.
pub(super) fn gap(m: &Measurement) -> String {
    longest_gap(m).map_or(String::new(), |ns| in_us(ns as f64))
}

pub(super) fn fairness(m: &Measurement) -> String {
    m.fairness.map_or(String::new(), |share| Share(share).to_string())
}

/// What the columns of rates mean, as far as they are there.
pub(super) fn legend(unit: &str, all: &[&Measurement], page: &mut Page) {
    let mut said = vec![format!("rates in {unit}; min window: the worst interval")];
    if all.iter().any(|m| longest_gap(m).is_some()) {
        said.push("gap: the longest time without a message".into());
    }
    if all.iter().any(|m| m.fairness.is_some()) {
        let lane = if all.iter().all(|m| m.transport == "tcp") { "socket" } else { "QP" };
        said.push(format!("fairness: the slowest {lane}'s rate as a part of the fastest one's"));
    }
    page.paragraph(&said.join("; "));
}

fn ceiling(m: &Measurement) -> String {
    match (&m.ceiling, m.efficiency) {
        (Some(ceiling), Some(share)) => format!("{} of {}", Share(share), in_gbps(ceiling.bps)),
        (Some(ceiling), None) => in_gbps(ceiling.bps),
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
        in_gbps(median(&totals)),
        range(in_gbps(totals[0]), in_gbps(totals[totals.len() - 1])),
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
pub(super) fn notes(view: &View, all: &[&Measurement], page: &mut Page) {
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

pub(super) fn row_name(view: &View, m: &Measurement) -> String {
    let name = format!("{} {} {}", rail(m), label(m), view.direction(m));
    name.trim_start().to_owned()
}

pub(super) fn p50_spread(m: &Measurement) -> Option<f64> {
    let p50s = repeat_p50s(m);
    let middle = median(&p50s);
    let (low, high) = (p50s.first()?, p50s.last()?);
    (p50s.len() > 1 && middle > 0.0).then(|| (high - low) / middle)
}

pub(super) fn rail(m: &Measurement) -> String {
    m.path.rail.clone()
}
