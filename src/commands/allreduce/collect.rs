//! From the rows of all ranks to measurements.

use std::collections::BTreeMap;

use fabbench_harness::plan::Transport;
use fabbench_harness::snapshot::HostFacts;
use fabbench_reports::model::{
    Collective as Detail, Measurement, Memory, Method, Path, RankTime, RankWait, Repeat,
};
use serde_json::Value;

use super::drive::Ended;
use super::fabric::Fabric;
use super::places::Places;
use super::wanted::Wanted;
use crate::engine::collective::{Row, Schedule, Scope, Sweep, kernels};
use crate::measure::histogram::Merged;

/// A measurement for each size and placement that all ranks have finished.
pub fn measurements(
    wanted: &Wanted,
    names: &[&str],
    wire: Wire,
    facts: &[HostFacts],
    ended: &Ended,
) -> Vec<Measurement> {
    let whole = ended.rows.iter().map(Vec::len).min().unwrap_or(0);
    let scene = Scene { wanted, names, wire, facts, effective: &ended.sides[0].effective };
    let mut all: Vec<Measurement> = (0..whole)
        .map(|index| {
            let rows: Vec<&Row> = ended.rows.iter().map(|rows| &rows[index]).collect();
            scene.measurement(&rows)
        })
        .collect();
    // Counters run over the whole sweep: they stand where it ended.
    if let Some(last) = all.last_mut() {
        last.counters = scene.counters(ended);
    }
    all
}

/// What carried the bytes.
#[derive(Debug, Clone, Copy)]
pub enum Wire<'a> {
    /// Sockets between these addresses.
    Tcp(&'a Places),
    /// Verbs between these ports.
    Rc(&'a Fabric),
}

impl Wire<'_> {
    /// Whether software devices carry: no figure is a line rate.
    pub fn is_soft(self) -> bool {
        matches!(self, Wire::Rc(fabric) if fabric.soft)
    }

    /// The transport.
    pub fn transport(self) -> Transport {
        match self {
            Wire::Tcp(_) => Transport::Tcp,
            Wire::Rc(_) => Transport::Rc,
        }
    }
}

struct Scene<'a> {
    wanted: &'a Wanted,
    names: &'a [&'a str],
    wire: Wire<'a>,
    facts: &'a [HostFacts],
    /// Settings of rank 0 as they took effect.
    effective: &'a BTreeMap<String, Value>,
}

impl Scene<'_> {
    fn measurement(&self, rows: &[&Row]) -> Measurement {
        let sweep = self.wanted.common();
        let row = rows[0];
        let n = rows.len();
        let time = time(rows);
        let algbw = (time.avg > 0.0).then(|| row.size_bytes as f64 * 8.0 / time.avg * 1e9);
        let algorithm = sweep.algorithms[row.algorithm].word();
        let (op, kind) = (sweep.collective.word(), sweep.kind.word());
        let reduction = if sweep.collective.reduces() { sweep.reduction.word() } else { "none" };
        let place = if row.in_place { "in-place" } else { "out-of-place" };
        let wire = if sweep.reduces { "" } else { "/no-reduce" };
        let (size, transport) = (row.size_bytes, self.wire.transport().word());
        let wrong: u64 = rows.iter().map(|row| row.wrong).sum();
        let compared: u64 = rows.iter().map(|row| row.compared).sum();
        let end = |rank: usize| self.end(sweep.hosts[rank]);
        Measurement {
            id: format!(
                "collective/{transport}/{op}/{algorithm}/{kind}/{reduction}/n{n}/{size}/{place}{wire}"
            ),
            test: "collective".into(),
            transport: transport.into(),
            op: op.into(),
            algorithm: algorithm.into(),
            ranks: sweep.hosts.iter().map(|&host| self.names[host].to_owned()).collect(),
            initiator: end(0),
            responder: end(n - 1),
            data_from: end(0),
            data_to: end(n - 1),
            size_bytes: size,
            method: self.method(n),
            path: self.path(n),
            memory: Memory {
                kind: "host".into(),
                working_set_bytes: size * if row.in_place { 1 } else { 2 },
                ..Memory::default()
            },
            repeats: vec![Repeat { window_ns: time.max as u64, ..Repeat::default() }],
            bytes_verified: compared * sweep.kind.bytes() as u64,
            data_errors: errors(rows, wrong, compared),
            elements_wrong: (compared > 0).then_some(wrong),
            algbw_bps: algbw,
            busbw_bps: algbw.map(|bps| bps * sweep.collective.bus_factor(n)),
            collective: Some(Detail {
                steps: self.steps(row.algorithm),
                ..detail(sweep.reduces, rows, time, (kind, reduction))
            }),
            ..Measurement::default()
        }
    }

    /// Steps of an algorithm, one after the other.
    fn steps(&self, algorithm: usize) -> Option<u32> {
        let &Sweep { collective, ref algorithms, ref hosts, root, .. } = self.wanted.common();
        let (algorithm, elements) = (algorithms[algorithm], hosts.len());
        let scope = Scope { collective, algorithm, rank: 0, hosts, elements, align: 1, root };
        Some(Schedule::new(&scope).ok()?.steps)
    }

    /// `host/dev:port`; for sockets `host/netdev` where the interface of the first address is known.
    fn end(&self, host: usize) -> String {
        let places = match self.wire {
            Wire::Rc(fabric) => return fabric.label(host),
            Wire::Tcp(places) => places,
        };
        let Some(address) = places.first(host) else { return self.names[host].to_owned() };
        let own = self.facts[host].calls.addresses.iter().find(|a| a.address == address);
        let place = own.map_or_else(|| address.to_string(), |a| a.netdev.clone());
        format!("{}/{place}", self.names[host])
    }

    fn method(&self, ranks: usize) -> Method {
        let sweep = self.wanted.common();
        let calls = &self.facts[sweep.hosts[0]].calls;
        let mut effective = self.effective.clone();
        effective.insert("kernels".into(), kernels::instructions().into());
        let (lanes, arrival) = match self.wire {
            Wire::Tcp(_) => (1, "bytes"),
            Wire::Rc(Fabric { shape, .. }) => {
                effective.insert("segment_bytes".into(), shape.segment.into());
                effective.insert("slots".into(), shape.slots.into());
                (shape.channels, "immediate")
            }
        };
        let polling =
            effective.get("polling").and_then(Value::as_str).unwrap_or("events").to_owned();
        Method {
            qps: (ranks.saturating_sub(1) * lanes) as u32,
            threads: 1,
            arrival: arrival.into(),
            polling,
            clock_resolution_ns: calls.clock_resolution_ns,
            clock_cost_ns: calls.clock_cost_ns,
            requested: BTreeMap::from([
                ("iterations".into(), sweep.iterations.into()),
                ("warmup_iterations".into(), sweep.warmups.into()),
                ("seed".into(), sweep.seed.into()),
                ("rank_order".into(), self.wanted.order().into()),
            ]),
            effective,
            ..Method::default()
        }
    }

    fn path(&self, ranks: usize) -> Path {
        let places = match self.wire {
            Wire::Rc(fabric) => return fabric.path(),
            Wire::Tcp(places) => places,
        };
        let hosts = &self.wanted.common().hosts;
        let text = |rank: usize| {
            let first = places.first(hosts[rank]);
            first.map(|address| address.to_string()).unwrap_or_default()
        };
        let loopback = |host: &usize| places.first(*host).is_some_and(|a| a.is_loopback());
        let why = match hosts.iter().all(loopback) {
            true => "all agents are on one machine: loopback",
            false => "TCP by the route between the hosts' addresses",
        };
        Path {
            gid_a: text(0),
            gid_b: text(ranks - 1),
            gid_type: "TCP".into(),
            why: why.into(),
            ..Path::default()
        }
    }

    fn counters(&self, ended: &Ended) -> BTreeMap<String, i64> {
        let mut sums = BTreeMap::new();
        for (side, &host) in ended.sides.iter().zip(self.wanted.hosts()) {
            for (name, &grown) in side.counters.iter().filter(|(_, grown)| **grown != 0) {
                *sums.entry(format!("{}/{name}", self.names[host])).or_insert(0) += grown;
            }
        }
        sums
    }
}

/// Mean time of one run: least, mean and most over the ranks; p99 over the runs of the slowest.
fn time(rows: &[&Row]) -> RankTime {
    let mean = |row: &&Row| row.total_ns as f64 / f64::from(row.iterations.max(1));
    let means: Vec<f64> = rows.iter().map(mean).collect();
    let p99 = |row: &&Row| {
        let mut merged = Merged::default();
        // A damaged histogram is no result: the mean stands without it.
        merged.add(&row.histogram, &row.exact).ok()?;
        merged.latency().map(|latency| latency.p99)
    };
    RankTime {
        min: means.iter().copied().fold(f64::INFINITY, f64::min),
        avg: means.iter().sum::<f64>() / means.len() as f64,
        max: means.iter().copied().fold(0.0, f64::max),
        p99: rows.iter().filter_map(p99).reduce(f64::max),
    }
}

fn detail(reduces: bool, rows: &[&Row], time: RankTime, words: (&str, &str)) -> Detail {
    let total: u64 = rows.iter().map(|row| row.total_ns).sum();
    let reducing: u64 = rows.iter().map(|row| row.reduce_ns).sum();
    let each = |row: &Row| f64::from(row.iterations.max(1));
    let waits = rows.iter().enumerate().flat_map(|(rank, row)| {
        let blocked = move |peer: usize| {
            let other: &Row = rows[peer];
            let here = other.blocked_ns.iter().find(|(to, _)| *to == rank);
            here.map(|(_, ns)| *ns as f64 / each(other))
        };
        let of = move |&(peer, ns): &(usize, u64)| RankWait {
            rank: rank as u32,
            waits_for: peer as u32,
            ns: ns as f64 / each(row),
            sender_blocked_ns: blocked(peer),
        };
        row.waited_ns.iter().filter(|(_, ns)| *ns > 0).map(of)
    });
    let mut waits: Vec<RankWait> = waits.collect();
    waits.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    // The longest tell which hop is slow.
    waits.truncate(8);
    Detail {
        data_type: words.0.into(),
        reduction: words.1.into(),
        reduced: reduces,
        in_place: rows[0].in_place,
        iterations: rows[0].iterations,
        time_ns: time,
        messages_sent: rows.iter().map(|row| row.messages).collect(),
        bytes_sent: rows.iter().map(|row| row.bytes).collect(),
        reduce_share: (reduces && total > 0).then(|| reducing as f64 / total as f64),
        waits,
        ..Detail::default()
    }
}

fn errors(rows: &[&Row], wrong: u64, compared: u64) -> String {
    if wrong == 0 {
        return String::new();
    }
    let first = rows.iter().map(|row| row.first_wrong.as_str()).find(|text| !text.is_empty());
    format!("{wrong} of {compared} elements; first: {}", first.unwrap_or("unknown"))
}
