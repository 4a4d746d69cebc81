//! What was measured, as tables with bars and as curves.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use maud::{Markup, html};

use super::{Table, cell, chip, section};
use crate::model::{Latency, Measurement, Status};
use crate::svg::{Axis, Bar, MOST_SERIES, Plot, Series};
use crate::units::{BitRate, Share, Size, Span, Time, in_gbps, in_mmsg, in_us, range};
use crate::view::View;
use crate::words::{case_name, figures, judged, label, longest_gap, median, trip};

/// Pictures of a kind; a page with more of them helps nobody.
const MOST_PLOTS: usize = 24;
/// An interval below this part of its series' median is a stall.
const STALL: f64 = 0.5;

pub(super) fn integrity(view: &View) -> Markup {
    let all = both(view, "integrity");
    let mut table = Table::new(&[
        "rail",
        "operation",
        "direction",
        "#checked",
        "#wrong",
        "#messages lost",
        "verdict",
        "why",
    ]);
    for m in &all {
        table.row(vec![
            cell(&m.path.rail),
            cell(label(m)),
            cell(view.direction(m)),
            cell(Size(m.bytes_verified).to_string()),
            cell(format!("{} B", m.bytes_wrong)),
            cell(m.messages_lost.to_string()),
            chip(judged(m.status)),
            why(m),
        ]);
    }
    titled("Integrity: every byte compared at its place", &all, table.draw())
}

pub(super) fn bandwidth(view: &View) -> Markup {
    let all = both(view, "bandwidth");
    let mut rails: Vec<(&str, Vec<&Measurement>)> = Vec::new();
    for m in &all {
        match rails.iter_mut().find(|(rail, _)| *rail == m.path.rail) {
            Some((_, members)) => members.push(m),
            None => rails.push((&m.path.rail, vec![m])),
        }
    }
    let marked = all.iter().any(|m| m.ceiling.is_some());
    let body = html! {
        p class="faint" {
            "Bar: median of the repeats. Dark line: from the lowest to the highest repeat."
            @if marked { " Thick mark: the ceiling. Dashed mark: what is asked for." }
            " Min window: the worst interval. Fairness: the slowest queue pair's rate as a part of \
             the fastest one's."
        }
        @for (rail, members) in &rails {
            h3 { @if rail.is_empty() { "No rail" } @else { (rail) } }
            (rate_table(view, members, scale(&all)))
        }
        (grounds(&all))
    };
    titled("Bandwidth: payload that arrived", &all, body)
}

/// One scale for all rails, so that their bars compare.
fn scale(all: &[&Measurement]) -> f64 {
    let highest = |m: &&Measurement| {
        let ceiling = m.ceiling.as_ref().map_or(0.0, |ceiling| ceiling.bps);
        m.goodput_bps.map_or(0.0, |rate| rate.max).max(ceiling).max(m.bound_bps.unwrap_or(0.0))
    };
    all.iter().map(highest).filter(|bps| bps.is_finite()).fold(0.0, f64::max) * 1.02
}

fn rate_table(view: &View, all: &[&Measurement], scale: f64) -> Markup {
    let mut table = Table::new(&[
        "operation",
        "size",
        "direction",
        "#median, Gb/s",
        "rate",
        "#min–max, Gb/s",
        "#min window, Gb/s",
        "#longest gap, µs",
        "#fairness",
        "#ceiling, Gb/s",
        "asked for",
        "verdict",
        "why",
    ]);
    for m in all {
        let Some(rate) = m.goodput_bps else { continue };
        let together = if view.rails_together(m) { ", all rails at once" } else { "" };
        let ceiling = m.ceiling.as_ref().map(|ceiling| ceiling.bps);
        let bar = Bar {
            title: format!("{}: {}", case_name(m, &view.names), figures(m).join(", ")),
            scale,
            value: rate.median,
            low: rate.min,
            high: rate.max,
            ceiling,
            bound: m.bound_bps,
        };
        table.row(vec![
            cell(label(m)),
            cell(Size(m.size_bytes).to_string()),
            cell(format!("{}{together}", view.direction(m))),
            cell(in_gbps(rate.median)),
            bar.draw(),
            cell(range(in_gbps(rate.min), in_gbps(rate.max))),
            cell(in_gbps(rate.min_window)),
            gap(m),
            fairness(m),
            cell(match (ceiling, m.efficiency) {
                (Some(bps), Some(share)) => format!("{} of {}", Share(share), in_gbps(bps)),
                (Some(bps), None) => in_gbps(bps),
                (None, _) => String::new(),
            }),
            asked(m),
            chip(judged(m.status)),
            why(m),
        ]);
    }
    table.draw()
}

/// What was asked for, without its grounds.
fn asked(m: &Measurement) -> Markup {
    let Some(bound) = m.bound.as_deref() else { return html! {} };
    html! { span class="asked" { (bound.split_once(": ").map_or(bound, |(asked, _)| asked)) } }
}

/// The grounds of what was asked for, each told once: in a column they would make rows high.
fn grounds(all: &[&Measurement]) -> Markup {
    let bounds = all.iter().filter_map(|m| m.bound.as_deref());
    let told: BTreeSet<&str> = bounds.filter(|bound| bound.contains(": ")).collect();
    html! { @if !told.is_empty() { ul class="faint" { @for bound in &told { li { (bound) } } } } }
}

/// The longest time without a message, in µs.
fn gap(m: &Measurement) -> Markup {
    cell(longest_gap(m).map_or(String::new(), |ns| in_us(ns as f64)))
}

/// The slowest queue pair's rate as a part of the fastest one's.
fn fairness(m: &Measurement) -> Markup {
    cell(m.fairness.map_or(String::new(), |share| Share(share).to_string()))
}

/// Bandwidth over message size, where some way was measured at three sizes or more.
pub(super) fn by_size(view: &View) -> Markup {
    let mut ways: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for m in both(view, "bandwidth") {
        let Some(rate) = m.goodput_bps.filter(|_| m.size_bytes > 0) else { continue };
        let way = format!("{} {} {}", m.path.rail, label(m), view.direction(m));
        ways.entry(way).or_default().push((m.size_bytes as f64, rate.median));
    }
    ways.values_mut().for_each(|points| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.dedup_by(|a, b| a.0 == b.0);
    });
    ways.retain(|_, points| points.len() >= 3);
    let points = || ways.values().flatten();
    let x = Axis::log("message size", points().map(|p| p.0), |v| Size(v as u64).to_string());
    let y = Axis::log("goodput", points().map(|p| p.1), |v| BitRate(v).to_string());
    let (Some(mut x), Some(y)) = (x, y) else { return html! {} };
    // Sizes are powers of two, and read as such.
    x.ticks = (0..48)
        .step_by(3)
        .map(|p| (1u64 << p) as f64)
        .filter(|v| (x.from..=x.to).contains(v))
        .map(|v| (v, Size(v as u64).to_string()))
        .collect();
    let dashed = |name: &str| name.contains("TCP");
    let series = ways.iter().take(MOST_SERIES).map(|(name, points)| Series {
        dashed: dashed(name),
        name: name.trim().to_owned(),
        points: points.clone(),
        marked: Vec::new(),
    });
    let plot = Plot {
        title: "Bandwidth by message size".into(),
        description: "Median goodput over message size, both axes logarithmic.".into(),
        x,
        y,
        series: series.collect(),
    };
    section("Bandwidth by size", html! { div class="plots" { (plot.draw()) } })
}

pub(super) fn latency(view: &View) -> Markup {
    let all = both(view, "latency");
    let mut table = Table::new(&[
        "rail",
        "operation",
        "size",
        "direction",
        "of",
        "load",
        "#min, µs",
        "#p50, µs",
        "#p99, µs",
        "#p99.9, µs",
        "#max, µs",
        "#samples",
        "asked for",
        "verdict",
        "why",
    ]);
    for m in &all {
        let Some(l) = m.latency_ns else { continue };
        table.row(vec![
            cell(&m.path.rail),
            cell(label(m)),
            cell(Size(m.size_bytes).to_string()),
            cell(view.direction(m)),
            cell(trip(m)),
            cell(view.loads(m).join("; ")),
            cell(in_us(l.min)),
            cell(in_us(l.p50)),
            cell(in_us(l.p99)),
            cell(l.p999.map(in_us).unwrap_or_default()),
            cell(in_us(l.max)),
            cell(l.count.to_string()),
            asked(m),
            chip(judged(m.status)),
            why(m),
        ]);
    }
    let body = html! { (table.draw()) (grounds(&all)) (percentile_plots(view, &all)) };
    titled("Latency", &all, body)
}

/// A picture a rail and size: every operation, RDMA beside TCP.
fn percentile_plots(view: &View, all: &[&Measurement]) -> Markup {
    let mut groups: BTreeMap<(&str, u64), Vec<&Measurement>> = BTreeMap::new();
    for m in all.iter().filter(|m| m.latency_ns.is_some()) {
        groups.entry((&m.path.rail, m.size_bytes)).or_default().push(m);
    }
    let left_out = groups.len().saturating_sub(MOST_PLOTS);
    html! {
        div class="plots" {
            @for ((rail, size), members) in groups.iter().take(MOST_PLOTS) {
                (percentiles(view, rail, *size, members))
            }
        }
        @if left_out > 0 { p class="faint" { (left_out) " more are in the JSON report only." } }
    }
}

fn percentiles(view: &View, rail: &str, size: u64, all: &[&Measurement]) -> Markup {
    let series: Vec<Series> = all
        .iter()
        .take(MOST_SERIES)
        .map(|m| {
            let whole = if m.is_half_rtt == Some(true) { "" } else { " (whole round trip)" };
            Series {
                name: format!("{} {}{whole}", label(m), view.direction(m)),
                dashed: m.transport == "tcp",
                points: curve(m),
                marked: Vec::new(),
            }
        })
        .collect();
    let points = || series.iter().flat_map(|s| &s.points);
    let last = points().map(|p| p.0).filter(|x| x.is_finite()).fold(2.0, f64::max);
    let names = ["0", "p90", "p99", "p99.9", "p99.99", "p99.999", "p99.9999", "p99.99999"];
    let mut ticks = vec![(nines(0.5), "p50".to_owned())];
    ticks.extend(names.iter().enumerate().skip(1).map(|(n, name)| (n as f64, (*name).to_owned())));
    ticks.retain(|tick| tick.0 <= last);
    let title = "percentile, each step ten times as rare".to_owned();
    let x = Axis { title, from: 0.0, to: last, log: false, ticks };
    let Some(y) = Axis::log("latency", points().map(|p| p.1), |v| Time(v).to_string()) else {
        return html! {};
    };
    let of = if rail.is_empty() { String::new() } else { format!(", {rail}") };
    let described: Vec<String> = all
        .iter()
        .map(|m| format!("{}: {}", case_name(m, &view.names), figures(m).join(", ")))
        .collect();
    Plot {
        title: format!("Latency distribution, {}{of}", Size(size)),
        description: described.join("; "),
        x,
        y,
        series,
    }
    .draw()
}

/// Where a quantile stands on an axis on which each step is ten times as rare.
fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

/// The distribution: of the histogram where there is one, else through the summary's percentiles.
fn curve(m: &Measurement) -> Vec<(f64, f64)> {
    let Some(l) = m.latency_ns else { return Vec::new() };
    let end = ((l.count.max(10)) as f64).log10();
    let histogram = m.histogram.as_deref().and_then(decoded).filter(|h| !h.is_empty());
    let mut points = match histogram {
        Some(histogram) => {
            let steps = (end * 20.0) as usize;
            let quantile = |step: usize| 1.0 - 10f64.powf(-(step as f64) / 20.0);
            let at =
                |step| (step as f64 / 20.0, histogram.value_at_quantile(quantile(step)) as f64);
            (0..steps).map(at).collect()
        }
        None => summary(&l),
    };
    points.push((end, l.max));
    points.retain(|(x, y)| x.is_finite() && y.is_finite() && *y > 0.0);
    points
}

fn summary(l: &Latency) -> Vec<(f64, f64)> {
    let known = [(0.5, Some(l.p50)), (0.9, Some(l.p90)), (0.99, Some(l.p99)), (0.999, l.p999)];
    let mut points = vec![(0.0, l.min)];
    points.extend(known.into_iter().filter_map(|(q, ns)| Some((nines(q), ns?))));
    points.extend(l.p9999.map(|ns| (4.0, ns)));
    points
}

fn decoded(text: &str) -> Option<Histogram<u64>> {
    let bytes = BASE64.decode(text).ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}

pub(super) fn message_rate(view: &View) -> Markup {
    let all = both(view, "message_rate");
    let mut table = Table::new(&[
        "rail",
        "operation",
        "size",
        "direction",
        "#median, Mmsg/s",
        "#min–max, Mmsg/s",
        "#min window, Mmsg/s",
        "#longest gap, µs",
        "#QPs",
        "#fairness",
        "verdict",
        "why",
    ]);
    for m in &all {
        let Some(rate) = m.messages_per_s else { continue };
        table.row(vec![
            cell(&m.path.rail),
            cell(label(m)),
            cell(Size(m.size_bytes).to_string()),
            cell(view.direction(m)),
            cell(in_mmsg(rate.median)),
            cell(range(in_mmsg(rate.min), in_mmsg(rate.max))),
            cell(in_mmsg(rate.min_window)),
            gap(m),
            cell(m.method.qps.to_string()),
            fairness(m),
            chip(judged(m.status)),
            why(m),
        ]);
    }
    titled("Message rate", &all, table.draw())
}

pub(super) fn beside_tcp(view: &View) -> Markup {
    let mut table = Table::new(&["rail", "test", "size", "direction", "#TCP", "RDMA", "#gain"]);
    let tests = ["latency", "bandwidth"];
    for m in tests.iter().flat_map(|test| view.of(test, true)) {
        let Some(beside) = view.rdma_beside(m) else { continue };
        let half = crate::words::half_trip(m).map(|ns| Time(ns).to_string());
        let rate = m.goodput_bps.map(|rate| BitRate(rate.median).to_string());
        table.row(vec![
            cell(&m.path.rail),
            cell(&m.test),
            cell(Size(m.size_bytes).to_string()),
            cell(view.direction(m)),
            cell(if m.test == "latency" { half } else { rate }.unwrap_or_default()),
            cell(beside.text),
            cell(beside.gain),
        ]);
    }
    if table.rows.is_empty() {
        return html! {};
    }
    let body = html! {
        p class="faint" {
            "Latency: median of half a round trip. Gain: how many times as good RDMA is; below 1 "
            "TCP is better."
        }
        (table.draw())
    };
    section("RDMA beside TCP", body)
}

/// Tests without a table of their own.
pub(super) fn others(view: &View) -> Markup {
    let known = ["integrity", "latency", "bandwidth", "message_rate", "collective"];
    let all = view.report.measurements.iter();
    let other = |m: &&Measurement| !known.contains(&m.test.as_str()) || m.retest_of.is_some();
    let all: Vec<&Measurement> = all.filter(other).collect();
    let mut table = Table::new(&["measurement", "result", "verdict", "why"]);
    for m in &all {
        let result = cell(figures(m).join(", "));
        table.row(vec![cell(case_name(m, &view.names)), result, chip(judged(m.status)), why(m)]);
    }
    titled("Other measurements", &all, table.draw())
}

/// The rate over time; those that stalled are shown first and open.
pub(super) fn intervals(view: &View) -> Markup {
    let all: Vec<&Measurement> = view
        .report
        .measurements
        .iter()
        .filter(|m| m.repeats.iter().any(|repeat| repeat.intervals_bps.len() > 1))
        .collect();
    if all.is_empty() {
        return html! {};
    }
    let (stalled, steady): (Vec<&Measurement>, Vec<&Measurement>) =
        all.into_iter().partition(|m| stalls(m) > 0);
    let body = html! {
        @if stalled.is_empty() {
            p { "No interval fell below half of its series' median." }
        } @else {
            p { "A circle marks a stall: an interval below half of its series' median." }
            (series_plots(view, &stalled))
        }
        @if !steady.is_empty() {
            details {
                summary { "Series without a stall (" (steady.len()) ")" }
                (series_plots(view, &steady))
            }
        }
    };
    section("Rate over time", body)
}

fn series_plots(view: &View, all: &[&Measurement]) -> Markup {
    let left_out = all.len().saturating_sub(MOST_PLOTS);
    html! {
        div class="plots" { @for m in all.iter().take(MOST_PLOTS) { (over_time(view, m)) } }
        @if left_out > 0 { p class="faint" { (left_out) " more are in the JSON report only." } }
    }
}

fn over_time(view: &View, m: &Measurement) -> Markup {
    let step = m.method.interval_ns.max(1) as f64;
    let series: Vec<Series> = m
        .repeats
        .iter()
        .take(MOST_SERIES)
        .enumerate()
        .map(|(index, repeat)| {
            let point = |(n, bps): (usize, &f64)| ((n as f64 + 0.5) * step, *bps);
            let points: Vec<(f64, f64)> =
                repeat.intervals_bps.iter().enumerate().map(point).collect();
            let floor = stall_below(&repeat.intervals_bps);
            let marked = points.iter().copied().filter(|(_, bps)| *bps < floor).collect();
            Series { name: format!("repeat {}", index + 1), dashed: false, points, marked }
        })
        .collect();
    let points = || series.iter().flat_map(|s| &s.points);
    let x = Axis::from_zero("time in the window", points().map(|p| p.0 + step / 2.0), |ns| {
        Span(ns.round() as u64).to_string()
    });
    let y = Axis::from_zero("goodput", points().map(|p| p.1), |bps| BitRate(bps).to_string());
    let (Some(x), Some(y)) = (x, y) else { return html! {} };
    let longest = m.repeats.iter().map(|repeat| repeat.longest_gap_ns).max().unwrap_or(0);
    let description = format!(
        "Goodput in each interval of {}; {} below half of the median; longest time without a \
         completion {}.",
        Span(m.method.interval_ns),
        stalls(m),
        Time(longest as f64)
    );
    let plot = Plot { title: case_name(m, &view.names), description, x, y, series };
    plot.draw()
}

/// Intervals of all repeats that are stalls.
fn stalls(m: &Measurement) -> usize {
    let of_repeat = |intervals: &Vec<f64>| {
        let floor = stall_below(intervals);
        intervals.iter().filter(|bps| **bps < floor).count()
    };
    m.repeats.iter().map(|repeat| of_repeat(&repeat.intervals_bps)).sum()
}

fn stall_below(intervals: &[f64]) -> f64 {
    let mut sorted = intervals.to_vec();
    sorted.sort_by(f64::total_cmp);
    median(&sorted) * STALL
}

/// Why a result is not as expected; nothing where it is.
pub(super) fn why(m: &Measurement) -> Markup {
    let expected =
        matches!(judged(m.status), Status::Pass | Status::Unjudged | Status::NotApplicable);
    let reason = if expected { "" } else { m.reason.as_str() };
    let errors = if reason.contains(&m.data_errors) { "" } else { m.data_errors.as_str() };
    let said: Vec<&str> = [reason, errors].into_iter().filter(|text| !text.is_empty()).collect();
    cell(said.join("; "))
}

/// A section, unless nothing of it was measured.
fn titled(title: &str, all: &[&Measurement], body: Markup) -> Markup {
    if all.is_empty() {
        html! {}
    } else {
        section(title, body)
    }
}

/// Measurements of a test, RDMA before TCP.
fn both<'a>(view: &View<'a>, test: &str) -> Vec<&'a Measurement> {
    let mut all = view.of(test, false);
    all.extend(view.of(test, true));
    all
}
