//! busbw beside what pairs of the same hosts reached.

use std::collections::BTreeSet;

use fabbench_reports::model::{Measurement, PairBandwidth, Report};

/// Messages below this are limited by their number, not by the path.
const LARGE: u64 = 64 << 10;

/// Beside each collective among several hosts: the slowest way between any two of them that the
/// report has a bandwidth of over the same transport. A way that was measured while the other
/// direction was busy as well goes first, since a rank of a collective sends and receives at once.
pub(super) fn set(report: &mut Report) {
    let found: Vec<_> = report.measurements.iter().map(|m| slowest(m, report)).collect();
    for (m, pair) in report.measurements.iter_mut().zip(found) {
        if let Some(detail) = &mut m.collective {
            detail.pair = pair;
        }
    }
}

fn slowest(m: &Measurement, report: &Report) -> Option<PairBandwidth> {
    let busbw = m.busbw_bps.filter(|_| m.test == "collective")?;
    let hosts: BTreeSet<&str> = m.ranks.iter().map(String::as_str).collect();
    let between = |other: &&Measurement| {
        let (from, to) = (host_of(&other.data_from), host_of(&other.data_to));
        from != to && hosts.contains(from) && hosts.contains(to)
    };
    let of_path = |other: &&Measurement| {
        other.test == "bandwidth" && is_verbs(other) == is_verbs(m) && other.size_bytes >= LARGE
    };
    let all: Vec<&Measurement> =
        report.measurements.iter().filter(of_path).filter(between).collect();
    let both = all.iter().any(|other| other.bidirectional);
    let rates = all.into_iter().filter(|other| other.bidirectional == both);
    // Of a way that was measured more than once the best counts: it is what the path can do.
    let mut ways: Vec<(&str, &str, f64)> = Vec::new();
    for other in rates {
        let (from, to) = (host_of(&other.data_from), host_of(&other.data_to));
        let Some(rate) = other.goodput_bps.map(|rate| rate.median).filter(|bps| *bps > 0.0) else {
            continue;
        };
        match ways.iter_mut().find(|way| (way.0, way.1) == (from, to)) {
            Some(way) => way.2 = way.2.max(rate),
            None => ways.push((from, to, rate)),
        }
    }
    let (from, to, bps) = ways.into_iter().min_by(|a, b| a.2.total_cmp(&b.2))?;
    Some(PairBandwidth {
        from: from.to_owned(),
        to: to.to_owned(),
        bps,
        both_directions: both,
        busbw_share: busbw / bps,
    })
}

fn is_verbs(m: &Measurement) -> bool {
    m.transport != "tcp"
}

fn host_of(end: &str) -> &str {
    end.split_once('/').map_or(end, |(host, _)| host)
}
