//! Fabrics out of a report: what `fabbench pair` or `fabbench cluster` measured.

use std::collections::{BTreeMap, BTreeSet};

use fabbench_reports::advice::Transport;
use fabbench_reports::model::{Measurement, Report};

use super::AdviseError;
use super::link::{Figure, Link, Point};

/// What a report says about one transport.
///
/// # Errors
///
/// When latency or bandwidth of it was not measured; the sentence says what would supply it.
pub fn link(
    report: &Report,
    file: &str,
    transport: Transport,
    nics: Option<u32>,
) -> Result<Link, AdviseError> {
    let missing = |what: &'static str| AdviseError::NotMeasured {
        file: file.to_owned(),
        transport,
        what,
        remedy: match transport {
            Transport::Rdma => {
                "measure it (fabbench pair A B --json=FILE), name a fabric (--fabric ndr), or give \
                 --rdma-bandwidth and --rdma-latency"
            }
            Transport::Tcp => {
                "measure it (fabbench pair A B --transport rdma,tcp --json=FILE), name a fabric \
                 (--fabric tcp-25g), or give --tcp-bandwidth and --tcp-latency"
            }
        },
    };
    let mut notes = vec![format!("{transport} figures are those measured in {file}")];
    let together = alone_and_together(report, transport);
    let contended = together.min(incast(report, transport).unwrap_or(1.0));
    let points = points(report, transport, contended);
    if points.is_empty() {
        return Err(missing("bandwidth"));
    }
    let latency = latency(report, transport).ok_or_else(|| missing("latency"))?;
    if together < 1.0 {
        let percent = 100.0 * together;
        notes.push(format!(
            "all rails together carry {percent:.0} % of what they carry one by one, measured: \
             {transport} bandwidth is taken at that"
        ));
    }
    let incast = incast(report, transport);
    if let Some(part) = incast.filter(|part| *part < 1.0) {
        notes.push(format!(
            "many senders to one receiver deliver {:.0} % of what one sender delivers, measured: \
             {transport} bandwidth is taken at that",
            100.0 * part
        ));
    }
    if report.simulated {
        notes.push(format!(
            "{file} was measured on software devices: its figures are those of the machine, not \
             of a fabric"
        ));
    }
    if !report.complete {
        notes.push(format!("{file} is incomplete: parts of the fabric were not measured"));
    }
    let nics = nics.or_else(|| rails(report, transport)).unwrap_or(1);
    Ok(Link { transport, name: file.to_owned(), nics, latency, points, notes })
}

/// GPUs of a host, where the report has looked at them.
pub fn gpus_per_node(report: &Report) -> Option<u32> {
    let gpus = report.topology.iter().map(|host| host.gpus.len());
    let count = gpus.max().filter(|count| *count > 0)?;
    u32::try_from(count).ok()
}

fn of<'a>(
    report: &'a Report,
    transport: Transport,
    test: &'static str,
) -> impl Iterator<Item = &'a Measurement> {
    let fits = move |word: &str| match transport {
        Transport::Rdma => ["rc", "uc", "ud"].contains(&word),
        Transport::Tcp => word == "tcp",
    };
    report.measurements.iter().filter(move |one| one.test == test && fits(&one.transport))
}

/// One rail, one direction, by size. A collective is as fast as its slowest hop, so the slowest
/// rail and direction count; of several operations at one size the fastest does.
fn points(report: &Report, transport: Transport, together: f64) -> Vec<Point> {
    let mut by_size: BTreeMap<u64, BTreeMap<&str, Vec<Figure>>> = BTreeMap::new();
    for one in alone(report, transport) {
        let Some(rate) = one.goodput_bps.filter(|rate| rate.min > 0.0) else { continue };
        let figure = Figure { best: rate.max, nominal: rate.median, worst: rate.min };
        let ops = by_size.entry(one.size_bytes).or_default();
        ops.entry(&one.op).or_default().push(figure.times(together / 8.0));
    }
    let slowest = |figures: &Vec<Figure>| {
        figures.iter().copied().min_by(|a, b| a.nominal.total_cmp(&b.nominal))
    };
    let best = |ops: &BTreeMap<&str, Vec<Figure>>| {
        let each = ops.values().filter_map(slowest);
        each.max_by(|a, b| a.nominal.total_cmp(&b.nominal))
    };
    let point = |(size, ops): (&u64, &BTreeMap<&str, Vec<Figure>>)| {
        Some(Point { size: *size as f64, rate: best(ops)? })
    };
    by_size.iter().filter(|(size, _)| **size > 0).filter_map(point).collect()
}

fn alone(report: &Report, transport: Transport) -> impl Iterator<Item = &Measurement> {
    of(report, transport, "bandwidth")
        .filter(|one| !one.bidirectional && one.together_with.is_empty())
}

/// What a rail carries when all run at once, as part of what it carries alone; 1 where that was
/// not measured. Compared at sizes that were measured both ways.
fn alone_and_together(report: &Report, transport: Transport) -> f64 {
    let rate = |one: &Measurement| one.goodput_bps.map_or(0.0, |rate| rate.median);
    let loaded = of(report, transport, "bandwidth")
        .filter(|one| !one.bidirectional && !one.together_with.is_empty());
    let ratio = |one: &Measurement| {
        let twin = alone(report, transport).find(|other| {
            other.size_bytes == one.size_bytes
                && other.op == one.op
                && other.data_from == one.data_from
                && other.data_to == one.data_to
        })?;
        (rate(twin) > 0.0 && rate(one) > 0.0).then(|| rate(one) / rate(twin))
    };
    loaded.filter_map(ratio).fold(1.0, f64::min)
}

/// What a receiver gets from many senders at once (test `incast`), as part of what one sender
/// delivers alone at that size; none where it was not measured.
fn incast(report: &Report, transport: Transport) -> Option<f64> {
    let rate = |one: &Measurement| one.goodput_bps.map_or(0.0, |rate| rate.median);
    let mut sums: BTreeMap<(&str, u64), f64> = BTreeMap::new();
    for one in of(report, transport, "incast") {
        *sums.entry((&one.data_to, one.size_bytes)).or_default() += rate(one);
    }
    let part = |((to, size), sum): (&(&str, u64), &f64)| {
        let alone = alone(report, transport).filter(|one| one.size_bytes == *size);
        let best = |all: &mut dyn Iterator<Item = &Measurement>| all.map(rate).fold(0.0, f64::max);
        let here = best(&mut alone.filter(|one| one.data_to == *to));
        (here > 0.0 && *sum > 0.0).then(|| (sum / here).min(1.0))
    };
    sums.iter().filter_map(part).min_by(f64::total_cmp)
}

/// How many times as much the nodes could send as the fabric carries across its middle (test
/// `bisection`: every node of one half sends to one of the other at once); none where that was not
/// measured. The bandwidth of a node alone is its share without contention.
pub fn oversubscription(report: &Report) -> Option<f64> {
    let rate = |one: &Measurement| one.goodput_bps.map_or(0.0, |rate| rate.median);
    let middle = |mut all: Vec<f64>| {
        all.retain(|rate| *rate > 0.0);
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    };
    let across: Vec<&Measurement> = of(report, Transport::Rdma, "bisection").collect();
    let size = across.first()?.size_bytes;
    let crossing = middle(across.iter().copied().map(rate).collect())?;
    let alone = alone(report, Transport::Rdma).filter(|one| one.size_bytes == size);
    let alone = middle(alone.map(rate).collect())?;
    Some((alone / crossing).max(1.0))
}

/// One way at the smallest size, s: the slowest rail of the fastest operation. Half round trips
/// count before halves of READ's whole ones.
fn latency(report: &Report, transport: Transport) -> Option<Figure> {
    one_way(report, transport, true).or_else(|| one_way(report, transport, false))
}

fn one_way(report: &Report, transport: Transport, half: bool) -> Option<Figure> {
    let fits = |one: &&Measurement| one.is_half_rtt.unwrap_or(false) == half;
    let all =
        || of(report, transport, "latency").filter(fits).filter(|one| one.latency_ns.is_some());
    let smallest = all().map(|one| one.size_bytes).min()?;
    let mut ops: BTreeMap<&str, Vec<Figure>> = BTreeMap::new();
    for one in all().filter(|one| one.size_bytes == smallest) {
        let Some(found) = one.latency_ns else { continue };
        let way = if half { 1e-9 } else { 0.5e-9 };
        let figure = Figure { best: found.p50, nominal: found.p50, worst: found.p99 };
        ops.entry(&one.op).or_default().push(figure.times(way));
    }
    let slowest = |figures: &Vec<Figure>| {
        figures.iter().copied().max_by(|a, b| a.nominal.total_cmp(&b.nominal))
    };
    ops.values().filter_map(slowest).min_by(|a, b| a.nominal.total_cmp(&b.nominal))
}

/// Ports of a host that carried data, where any did.
pub fn rails(report: &Report, transport: Transport) -> Option<u32> {
    let ends: BTreeSet<&str> = alone(report, transport)
        .filter(|one| one.data_from == one.initiator)
        .map(|one| one.data_from.as_str())
        .collect();
    let host = |end: &str| end.split('/').next().unwrap_or_default().to_owned();
    let mut by_host: BTreeMap<String, u32> = BTreeMap::new();
    for end in ends {
        *by_host.entry(host(end)).or_default() += 1;
    }
    by_host.into_values().max()
}
