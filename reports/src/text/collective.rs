//! Collectives, laid out as users of nccl-tests know them.

use super::layout::{Column, Page, Table};
use crate::collectives::{CPU_BOUND, average_busbw, elements, groups, place, runs};
use crate::model::{Collective, CollectiveFit, Measurement};
use crate::units::{ByteRate, Share, Size, Time};
use crate::view::View;
use crate::words::fitted;

/// One table for each operation and transport.
pub(super) fn table(view: &View, page: &mut Page) {
    for (title, all) in groups(view) {
        page.title(&title);
        page.table(rows(&all));
        notes(&all, page);
        fits(view, &all, page);
    }
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
            place(collective).to_owned(),
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

fn notes(all: &[(&Measurement, &Collective)], page: &mut Page) {
    let runs = runs(all).map(|runs| runs + "; ").unwrap_or_default();
    page.paragraph(&format!(
        "{runs}time of one run: mean of each rank's runs, least, mean and most over the ranks; p99 \
         of single runs; place: out of or in the input's place; busbw = algbw × the operation's \
         factor of nccl-tests"
    ));
    if let Some(mean) = average_busbw(all) {
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
