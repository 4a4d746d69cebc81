//! Collectives: the figures, and bus bandwidth over size.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::results::why;
use super::{Table, cell, chip, section};
use crate::collectives::{CPU_BOUND, Group, average_busbw, elements, groups, place, runs};
use crate::model::Collective;
use crate::svg::{Axis, MOST_SERIES, Plot, Series};
use crate::units::{ByteRate, Share, Size, Time};
use crate::view::View;
use crate::words::judged;

/// A section for each operation and transport.
pub(super) fn sections(view: &View) -> Markup {
    html! { @for (title, all) in &groups(view) { (section(title, one(all))) } }
}

fn one(all: &Group) -> Markup {
    html! {
        p class="faint" {
            "Time of one run: mean of each rank's runs, over the ranks; p99 of single runs. busbw is "
            "algbw by the operation's factor of nccl-tests."
            @if let Some(runs) = runs(all) { " " (runs) "." }
            @if let Some(mean) = average_busbw(all) { " Average busbw: " (ByteRate(mean)) "." }
        }
        div class="plots" { (curves(all)) }
        (table(all))
        ul { @for (m, collective) in all {
            @let why = why(m);
            @if !why.0.is_empty() {
                li { (Size(m.size_bytes)) " " (m.algorithm) ", " (placed(collective)) ": " (why) }
            }
        } }
    }
}

/// `in place` or `out of place`.
fn placed(collective: &Collective) -> &'static str {
    if collective.in_place { "in place" } else { "out of place" }
}

fn table(all: &Group) -> Markup {
    let mut table = Table::new(&[
        "size",
        "#count",
        "type",
        "redop",
        "algo",
        "place",
        "#min",
        "#avg",
        "#max",
        "#p99",
        "#algbw",
        "#busbw",
        "#reducing",
        "#wrong",
        "verdict",
    ]);
    for (m, collective) in all {
        let time = collective.time_ns;
        let rate = |bps: Option<f64>| bps.map_or("n/a".into(), |bps| ByteRate(bps).to_string());
        let reducing = |share: f64| match share > CPU_BOUND {
            true => format!("{} (cpu-bound)", Share(share)),
            false => Share(share).to_string(),
        };
        table.row(vec![
            cell(Size(m.size_bytes).to_string()),
            cell(elements(m, collective).to_string()),
            cell(&collective.data_type),
            cell(&collective.reduction),
            cell(&m.algorithm),
            cell(place(collective)),
            cell(Time(time.min).to_string()),
            cell(Time(time.avg).to_string()),
            cell(Time(time.max).to_string()),
            cell(time.p99.map_or("n/a".into(), |ns| Time(ns).to_string())),
            cell(rate(m.algbw_bps)),
            cell(rate(m.busbw_bps)),
            cell(collective.reduce_share.map(reducing).unwrap_or_default()),
            cell(m.elements_wrong.map_or("n/a".into(), |wrong| wrong.to_string())),
            chip(judged(m.status)),
        ]);
    }
    table.draw()
}

/// Bus bandwidth over size, a curve for each algorithm and place; nothing where fewer than two
/// sizes were measured.
fn curves(all: &Group) -> Markup {
    let mut ways: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (m, collective) in all {
        let Some(bps) = m.busbw_bps.filter(|bps| *bps > 0.0 && m.size_bytes > 0) else { continue };
        let name = format!("{}, {}", m.algorithm, placed(collective));
        ways.entry(name).or_default().push((m.size_bytes as f64, bps / 8.0));
    }
    let points = || ways.values().flatten();
    if ways.values().all(|points| points.len() < 2) {
        return html! {};
    }
    let size = |bytes: f64| Size(bytes as u64).to_string();
    let Some(mut x) = Axis::log("size", points().map(|p| p.0), size) else { return html! {} };
    let Some(y) = Axis::log("busbw", points().map(|p| p.1), |v| ByteRate(v * 8.0).to_string())
    else {
        return html! {};
    };
    // Sizes are powers of two, of which a few are named.
    let powers = (0..50).step_by(3).map(|power| (1_u64 << power) as f64);
    x.ticks = powers.filter(|v| (x.from..=x.to).contains(v)).map(|v| (v, size(v))).collect();
    let series = ways.iter().take(MOST_SERIES).map(|(name, points)| Series {
        dashed: name.ends_with("in place"),
        name: name.clone(),
        points: points.clone(),
        marked: Vec::new(),
    });
    Plot {
        title: "Bus bandwidth by size".into(),
        description: "Bus bandwidth over the size of the vector, both axes logarithmic.".into(),
        x,
        y,
        series: series.collect(),
    }
    .draw()
}
