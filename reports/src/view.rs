//! A report as its renderers look at it.

use std::collections::HashMap;

use crate::model::{Measurement, Report};
use crate::units::{BitRate, Factor, Size, Time};
use crate::words::{arrow, count, half_trip, host_names, host_of, label, letter};

/// A report and what is looked up in it again and again.
pub(crate) struct View<'a> {
    pub(crate) report: &'a Report,
    pub(crate) names: Vec<&'a str>,
    by_id: HashMap<&'a str, &'a Measurement>,
}

impl<'a> View<'a> {
    pub(crate) fn new(report: &'a Report) -> Self {
        let mut by_id = HashMap::new();
        for m in &report.measurements {
            by_id.entry(m.id.as_str()).or_insert(m);
        }
        View { report, names: host_names(report), by_id }
    }

    /// Measurements of one test, on TCP or on anything else, in the order measured; without retests
    /// but of loopbacks, which nothing else measured.
    pub(crate) fn of(&self, test: &str, tcp: bool) -> Vec<&'a Measurement> {
        let first = |m: &Measurement| m.retest_of.is_none() || m.test == "loopback";
        let fits = |m: &&Measurement| m.test == test && (m.transport == "tcp") == tcp && first(m);
        self.report.measurements.iter().filter(fits).collect()
    }

    /// What was measured again since it would fail, loopbacks left out.
    pub(crate) fn retests(&self) -> Vec<&'a Measurement> {
        let again = |m: &&Measurement| m.retest_of.is_some() && m.test != "loopback";
        self.report.measurements.iter().filter(again).collect()
    }

    /// Whether it ran at the same time as measurements of another rail.
    pub(crate) fn rails_together(&self, measurement: &Measurement) -> bool {
        let other_rail = |id: &String| {
            let other = self.by_id.get(id.as_str());
            other.is_some_and(|other| other.path.rail != measurement.path.rail)
        };
        measurement.together_with.iter().any(other_rail)
    }

    /// What loaded the path of a latency meanwhile: `64 KiB WRITE A→B over 2 QPs, 93.10 Gb/s`.
    pub(crate) fn loads(&self, latency: &Measurement) -> Vec<String> {
        let beside = latency.together_with.iter().filter_map(|id| self.by_id.get(id.as_str()));
        let streams = beside.filter(|m| latency.test == "latency" && m.test == "bandwidth");
        let name = |m: &&'a Measurement| {
            let lanes = if m.transport == "tcp" { "socket" } else { "QP" };
            let lanes = count(m.method.qps as usize, lanes);
            let (size, way) = (Size(m.size_bytes), self.direction(m));
            let rate = m.goodput_bps.map_or(String::new(), |r| format!(", {}", BitRate(r.median)));
            format!("{size} {} {way} over {lanes}{rate}", label(m))
        };
        streams.map(name).collect()
    }

    /// `A→B`, with `both` when the other direction ran at the same time.
    pub(crate) fn direction(&self, measurement: &Measurement) -> String {
        let arrow = arrow(&measurement.data_from, &measurement.data_to, &self.names);
        if measurement.bidirectional { format!("{arrow} (both)") } else { arrow }
    }

    /// `A rxe0:1` for `node-a/rxe0:1` in a report of two hosts.
    pub(crate) fn endpoint(&self, endpoint: &str) -> String {
        match endpoint.rsplit_once('/') {
            Some((host, port)) => format!("{} {port}", letter(host, &self.names)),
            None => endpoint.to_owned(),
        }
    }

    /// The RDMA result that compares with one of TCP, and how many times as good it is.
    pub(crate) fn rdma_beside(&self, tcp: &Measurement) -> Option<Beside> {
        let rdma = self.rdma_like(tcp)?;
        if tcp.test == "latency" {
            let (ours, theirs) = (half_trip(rdma)?, half_trip(tcp)?);
            let text = format!("{} {}", Time(ours), label(rdma));
            return Some(Beside { text, gain: factor(theirs, ours) });
        }
        let (ours, theirs) = (rdma.goodput_bps?.median, tcp.goodput_bps?.median);
        let text = format!("{} {} {}", BitRate(ours), label(rdma), Size(rdma.size_bytes));
        Some(Beside { text, gain: factor(ours, theirs) })
    }

    /// The RDMA measurement between the same hosts that does most nearly what TCP did.
    fn rdma_like(&self, tcp: &Measurement) -> Option<&'a Measurement> {
        let comparable = |m: &&Measurement| {
            host_of(&m.data_from) == host_of(&tcp.data_from)
                && host_of(&m.data_to) == host_of(&tcp.data_to)
                && (tcp.path.rail.is_empty() || m.path.rail == tcp.path.rail)
                && m.bidirectional == tcp.bidirectional
                && self.rails_together(m) == self.rails_together(tcp)
                && m.op != "read"
        };
        let candidates = self.of(&tcp.test, false).into_iter().filter(comparable);
        if tcp.test == "latency" {
            // SEND is what request and response do: both sides take part.
            let alike = candidates.filter(|m| m.size_bytes == tcp.size_bytes);
            return alike.min_by_key(|m| m.op != "send");
        }
        let alike = candidates.filter(|m| m.goodput_bps.is_some());
        alike.min_by_key(|m| (m.op != "write", m.size_bytes != tcp.size_bytes))
    }
}

/// An RDMA result beside one of TCP.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) text: String,
    pub(crate) gain: String,
}

fn factor(better: f64, worse: f64) -> String {
    if worse > 0.0 { Factor(better / worse).to_string() } else { "n/a".to_owned() }
}
