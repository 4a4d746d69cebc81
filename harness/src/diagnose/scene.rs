//! A report, sorted by what is wrong in it.

use fabbench_reports::model::{Check, Device, Measurement, NotMeasured, Report, Status};
use fabbench_reports::units::{BitRate, Share, Time};

/// Below this share of the link's own ceiling a rate is short of the line, whatever lowers it.
const SHORT: f64 = 0.93;
/// Bandwidth of messages below this is limited by their number.
const LARGE: u64 = 64 << 10;

/// A report and its symptoms.
pub(super) struct Scene<'a> {
    pub report: &'a Report,
    /// Bandwidth over verbs below its bound or short of the line.
    pub slow: Vec<&'a Measurement>,
    /// Latency above its bound, or results that differ.
    pub late: Vec<&'a Measurement>,
    /// Measurements with retransmissions or losses.
    pub lossy: Vec<&'a Measurement>,
    /// What was asked for and could not be measured.
    pub missing: Vec<&'a NotMeasured>,
}

/// Counters that grow when packets have to be sent again, on hardware and on rdma_rxe.
pub(super) const RETRANSMITS: [&str; 12] = [
    "out_of_sequence",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "out_of_seq_request",
    "rcvd_seq_err",
    "completer_retry_err",
    "retry_exceeded_err",
    "port_xmit_discards",
    "rx_discards_phy",
];

impl<'a> Scene<'a> {
    pub fn new(report: &'a Report) -> Self {
        let all = || report.measurements.iter();
        let verbs = |m: &&Measurement| m.transport != "tcp";
        Scene {
            report,
            slow: all().filter(verbs).filter(|m| is_slow(m)).collect(),
            late: all().filter(verbs).filter(|m| is_late(m)).collect(),
            lossy: all()
                .filter(verbs)
                .filter(|m| retransmits(m) > 0 || m.messages_lost > 0)
                .collect(),
            missing: report.not_measured.iter().filter(|missing| missing.asked).collect(),
        }
    }

    /// Checks of an id that failed or warned.
    pub fn bad(&self, id: &str) -> impl Iterator<Item = &'a Check> {
        let bad = |check: &&Check| matches!(check.status, Status::Fail | Status::Warn);
        let id = id.to_owned();
        self.report.checks.iter().filter(bad).filter(move |check| check.id == id)
    }

    /// The device of `host/dev:port`.
    pub fn device(&self, end: &str) -> Option<&'a Device> {
        let (host, rest) = end.rsplit_once('/')?;
        let name = rest.rsplit_once(':').map_or(rest, |(device, _)| device);
        let host = self.report.hosts.iter().find(|own| own.name == host)?;
        host.devices.iter().find(|own| own.name == name)
    }

    /// Whether the ends of a measurement are on different hosts.
    pub fn crosses(&self, m: &Measurement) -> bool {
        host_of(&m.data_from) != host_of(&m.data_to)
    }
}

pub(super) fn host_of(end: &str) -> &str {
    end.rsplit_once('/').map_or(end, |(host, _)| host)
}

/// Whether it is bandwidth of messages that could fill a link.
pub(super) fn is_bandwidth(m: &Measurement) -> bool {
    m.test == "bandwidth" && m.size_bytes >= LARGE && m.transport != "tcp"
}

pub(super) fn rate(m: &Measurement) -> Option<f64> {
    Some(m.goodput_bps?.median).filter(|bps| *bps > 0.0)
}

/// What the link alone would allow.
pub(super) fn line(m: &Measurement) -> Option<f64> {
    let terms = &m.ceiling.as_ref()?.terms;
    let hard = terms.iter().filter(|term| term.hard).map(|term| term.bps);
    hard.min_by(f64::total_cmp)
}

/// Below what was asked for.
pub(super) fn is_low(m: &Measurement) -> bool {
    let below = rate(m).zip(m.bound_bps).is_some_and(|(bps, bound)| bps < bound);
    is_bandwidth(m) && below
}

fn is_slow(m: &Measurement) -> bool {
    let short = rate(m).zip(line(m)).is_some_and(|(bps, line)| bps < SHORT * line);
    is_low(m) || (is_bandwidth(m) && short)
}

fn is_late(m: &Measurement) -> bool {
    let grave = matches!(m.status, Some(Status::Fail | Status::Warn));
    (m.test == "latency" && grave) || m.reason.contains("unstable")
}

/// Growth of the counters of retransmission and loss.
pub(super) fn retransmits(m: &Measurement) -> i64 {
    let own = m.counters.iter().filter(|(name, _)| {
        let name = name.rsplit('/').next().unwrap_or_default();
        RETRANSMITS.contains(&name.strip_prefix("hw_").unwrap_or(name))
    });
    own.map(|(_, delta)| (*delta).max(0)).fold(0, i64::saturating_add)
}

/// What was measured, in words: `rail0 a → b, 2 QPs: 180.0 Gb/s, 45 % of the ceiling`.
pub(super) fn words(m: &Measurement) -> String {
    let rail = if m.path.rail.is_empty() { String::new() } else { format!("{} ", m.path.rail) };
    let way = format!("{rail}{} → {}", m.data_from, m.data_to);
    let qps = format!("{} QP{}", m.method.qps, if m.method.qps == 1 { "" } else { "s" });
    if let Some(bps) = rate(m) {
        let of = match (&m.ceiling, line(m)) {
            (Some(ceiling), _) => {
                format!(", {} of the ceiling {}", Share(bps / ceiling.bps), BitRate(ceiling.bps))
            }
            _ => String::new(),
        };
        return format!("{way}, {qps}: {}{of}", BitRate(bps));
    }
    match m.latency_ns {
        Some(latency) => format!("{way}: {} {} median {}", m.test, m.op, Time(latency.p50)),
        None => format!("{way}: {}", m.id),
    }
}
