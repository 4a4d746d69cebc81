//! Collectives, laid out as users of nccl-tests know them.

use std::collections::BTreeMap;

use super::layout::{Column, Page, Table};
use crate::model::{Collective, CollectiveFit, Measurement};
use crate::units::{ByteRate, Share, Size, Time};
use crate::view::View;
use crate::words::{count, fitted};

/// Ranks reduce for more than this part of their time: the figure is the CPU's.
const CPU_BOUND: f64 = 0.8;

/// One table for each operation and transport.
pub(super) fn table(view: &View, page: &mut Page) {
    let mut groups: BTreeMap<String, Vec<(&Measurement, &Collective)>> = BTreeMap::new();
    let mut order = Vec::new();
    for m in &view.report.measurements {
        let Some(collective) = m.collective.as_ref().filter(|_| m.test == "collective") else {
            continue;
        };
        let title = title(m, collective);
        if !order.contains(&title) {
            order.push(title.clone());
        }
        groups.entry(title).or_default().push((m, collective));
    }
    for title in order {
        let all = &groups[&title];
        page.title(&title);
        page.table(rows(all));
        notes(all, page);
        fits(view, all, page);
    }
}

fn title(m: &Measurement, collective: &Collective) -> String {
    let ranks = count(m.ranks.len(), "rank");
    let wire = if collective.reduced { "" } else { ", nothing reduced" };
    format!("Collective: {} among {ranks} over {}{wire}", m.op, m.transport.to_uppercase())
}

fn rows(all: &[(&Measurement, &Collective)]) -> Table {
    let mut table = Table::new(vec![
        Column::key("size"),
        Column::number("count"),
        Column::key("type"),
        Column::key("redop"),
        Column::key("algo"),
        Column::key("place"),
        Column::number("min"),
        Column::number("avg"),
        Column::number("max"),
        Column::number("p99"),
        Column::number("algbw"),
        Column::number("busbw"),
        Column::number("#wrong"),
    ]);
    for (m, collective) in all {
        let time = collective.time_ns;
        let rate = |bps: Option<f64>| bps.map_or("n/a".into(), |bps| ByteRate(bps).to_string());
        table.row(vec![
            Size(m.size_bytes).to_string(),
            elements(m, collective).to_string(),
            collective.data_type.clone(),
            collective.reduction.clone(),
            m.algorithm.clone(),
            if collective.in_place { "in" } else { "out" }.to_owned(),
            Time(time.min).to_string(),
            Time(time.avg).to_string(),
            Time(time.max).to_string(),
            time.p99.map_or("n/a".into(), |ns| Time(ns).to_string()),
            rate(m.algbw_bps),
            rate(m.busbw_bps),
            m.elements_wrong.map_or("n/a".into(), |wrong| wrong.to_string()),
        ]);
    }
    table
}

/// Elements as nccl-tests counts them: of a rank's chunk where the vector is cut into such.
fn elements(m: &Measurement, collective: &Collective) -> u64 {
    let bytes = match collective.data_type.as_str() {
        "f64" => 8,
        "bf16" | "f16" => 2,
        _ => 4,
    };
    let chunked = ["all_gather", "reduce_scatter", "all_to_all"].contains(&m.op.as_str());
    let chunks = if chunked { m.ranks.len().max(1) as u64 } else { 1 };
    m.size_bytes / bytes / chunks
}

fn notes(all: &[(&Measurement, &Collective)], page: &mut Page) {
    page.paragraph(
        "time of one run: mean of each rank's runs, least, mean and most over the ranks; p99 of \
         single runs; place: out of or in the input's place; busbw = algbw × the operation's \
         factor of nccl-tests",
    );
    let busbw: Vec<f64> = all.iter().filter_map(|(m, _)| m.busbw_bps).collect();
    if !busbw.is_empty() {
        let mean = busbw.iter().sum::<f64>() / busbw.len() as f64;
        page.paragraph(&format!("average busbw: {}", ByteRate(mean)));
    }
    let share = |c: &Collective| c.reduce_share.unwrap_or(0.0);
    if let Some((m, c)) = all.iter().max_by(|a, b| share(a.1).total_cmp(&share(b.1)))
        && share(c) > 0.0
    {
        let bound = if share(c) > CPU_BOUND { ": cpu-bound, not the network" } else { "" };
        let size = Size(m.size_bytes);
        page.paragraph(&format!(
            "reducing took up to {} of the time ({size}){bound}",
            Share(share(c))
        ));
    }
    for (m, _) in all.iter().filter(|(m, _)| !m.data_errors.is_empty()) {
        page.item(&format!("{} {}: wrong: {}", Size(m.size_bytes), m.algorithm, m.data_errors));
    }
    waits(all, page);
    beside(all, page);
}

/// At the largest size, busbw beside what pairs of hosts reached and hardware allows.
fn beside(all: &[(&Measurement, &Collective)], page: &mut Page) {
    let Some((m, c)) = all.iter().rev().max_by_key(|(m, _)| m.size_bytes) else { return };
    let size = Size(m.size_bytes);
    if let Some(pair) = &c.pair {
        let both = if pair.both_directions { "both directions at once" } else { "one direction" };
        page.paragraph(&format!(
            "busbw at {size}: {} of the slowest pair, {} to {}: {} ({both})",
            Share(pair.busbw_share),
            pair.from,
            pair.to,
            ByteRate(pair.bps)
        ));
    }
    if let (Some(share), Some(ceiling)) = (m.efficiency, &m.ceiling) {
        let (share, ceiling) = (Share(share), ByteRate(ceiling.bps));
        page.paragraph(&format!("busbw at {size}: {share} of the ceiling {ceiling}"));
    }
}

/// α, β and γ of each algorithm in the table, or why not.
fn fits(view: &View, all: &[(&Measurement, &Collective)], page: &mut Page) {
    let Some((m, c)) = all.first() else { return };
    let here = |fit: &&CollectiveFit| {
        (&fit.op, &fit.transport, fit.reduced) == (&m.op, &m.transport, c.reduced)
            && fit.ranks as usize == m.ranks.len()
    };
    for fit in view.report.fits.iter().filter(here) {
        page.item(&format!("{}: {}", fit.algorithm, fitted(fit)));
    }
}

/// At the largest size, whom others waited for longest.
fn waits(all: &[(&Measurement, &Collective)], page: &mut Page) {
    let Some((m, c)) = all.iter().max_by_key(|(m, _)| m.size_bytes) else { return };
    let host = |rank: u32| m.ranks.get(rank as usize).map_or("?", String::as_str);
    if let Some(wait) = c.waits.first().filter(|_| m.ranks.len() > 2) {
        let (rank, other) = (wait.rank, wait.waits_for);
        page.paragraph(&format!(
            "longest wait at {}: rank {rank} ({}) for rank {other} ({}), {} a run",
            Size(m.size_bytes),
            host(rank),
            host(other),
            Time(wait.ns)
        ));
    }
}
