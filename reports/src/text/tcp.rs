//! TCP, and RDMA beside it.

use std::collections::BTreeSet;

use super::layout::{Column, Page, Table};
use super::results::{beside, fairness, gap, legend, loads, notes, p50_spread, rate_cells, time};
use crate::model::{Measurement, Status};
use crate::units::{Share, Size, in_us, range};
use crate::view::{Beside, View};
use crate::words::{half_trip, repeat_p50s, trip};

pub(super) fn tcp(view: &View, page: &mut Page) {
    let (latency, bandwidth) = (view.of("latency", true), view.of("bandwidth", true));
    let all: Vec<&Measurement> = latency.iter().chain(&bandwidth).copied().collect();
    if all.is_empty() {
        return;
    }
    let compared = all.iter().any(|m| view.rdma_beside(m).is_some());
    page.title(if compared { "TCP, and RDMA beside it" } else { "TCP" });
    if !latency.is_empty() {
        page.table(latency_table(view, &latency));
        page.paragraph(&format!("in µs; {}; spread: of the repeats' p50", trip(latency[0])));
        page.table(halves_table(view, &latency));
        page.paragraph("latency: half of the median round trip; min–max: of the repeats' medians");
        loads(view, &latency, page);
    }
    if !bandwidth.is_empty() {
        page.table(rate_table(view, &bandwidth));
        legend("Gb/s", &bandwidth, page);
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

/// Half round trips, and RDMA's beside them.
fn halves_table(view: &View, all: &[&Measurement]) -> Table {
    let mut table = Table::new(vec![
        Column::key("path"),
        Column::key("size"),
        Column::key("direction"),
        Column::key("beside"),
        Column::number("half RTT µs"),
        Column::number("min–max"),
        Column::word("RDMA"),
        Column::number("gain"),
    ]);
    for m in all {
        let (half, spread) = halves(m);
        let Beside { text, gain } = view.rdma_beside(m).unwrap_or_default();
        let (size, way) = (Size(m.size_bytes).to_string(), view.direction(m));
        let load = beside(view, m);
        table.row(vec![path_name(view, m), size, way, load, half, spread, text, gain]);
    }
    table
}

fn latency_table(view: &View, all: &[&Measurement]) -> Table {
    let mut table = Table::new(vec![
        Column::key("path"),
        Column::key("size"),
        Column::key("direction"),
        Column::key("beside"),
        Column::number("min µs"),
        Column::number("p50"),
        Column::number("p90"),
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
            path_name(view, m),
            Size(m.size_bytes).to_string(),
            view.direction(m),
            beside(view, m),
            time(m, |l| Some(l.min)),
            time(m, |l| Some(l.p50)),
            time(m, |l| Some(l.p90)),
            time(m, |l| Some(l.p99)),
            time(m, |l| l.p999),
            if rare { time(m, |l| l.p9999) } else { String::new() },
            time(m, |l| Some(l.max)),
            m.latency_ns.map_or(String::new(), |l| l.count.to_string()),
            p50_spread(m).map(|s| Share(s).to_string()).unwrap_or_default(),
            verdict(m),
        ]);
    }
    table
}

/// Half of the median round trip, and from the lowest to the highest of the repeats, in µs.
fn halves(m: &Measurement) -> (String, String) {
    let Some(p50) = half_trip(m) else { return ("n/a".into(), "n/a".into()) };
    let part = p50 / m.latency_ns.map_or(p50, |latency| latency.p50);
    let p50s = repeat_p50s(m);
    let spread = match (p50s.first(), p50s.last()) {
        (Some(low), Some(high)) => range(in_us(low * part), in_us(high * part)),
        _ => String::new(),
    };
    (in_us(p50), spread)
}

fn rate_table(view: &View, all: &[&Measurement]) -> Table {
    let mut table = Table::new(vec![
        Column::key("path"),
        Column::key("size"),
        Column::key("direction"),
        Column::number("Gb/s"),
        Column::number("min–max"),
        Column::number("min window"),
        Column::number("gap µs"),
        Column::number("fairness"),
        Column::word("RDMA"),
        Column::number("gain"),
        Column::word("verdict"),
    ]);
    for m in all {
        let [median, spread, worst] = rate_cells(m);
        let Beside { text, gain } = view.rdma_beside(m).unwrap_or_default();
        table.row(vec![
            path_name(view, m),
            Size(m.size_bytes).to_string(),
            view.direction(m),
            median,
            spread,
            worst,
            gap(m),
            fairness(m),
            text,
            gain,
            verdict(m),
        ]);
    }
    table
}

/// A baseline is there to compare with: only what went wrong is said.
fn verdict(m: &Measurement) -> String {
    m.status.filter(|s| *s > Status::Unknown).map_or(String::new(), |s| s.to_string())
}

fn path_name(view: &View, m: &Measurement) -> String {
    let netdev = m.initiator.rsplit_once('/').map_or("", |(_, netdev)| netdev);
    let name = if m.path.rail.is_empty() { netdev } else { &m.path.rail };
    let together = if view.rails_together(m) { " with the others" } else { "" };
    format!("{name}{together}")
}
