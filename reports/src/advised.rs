//! What is told of each fabric's estimate, in every form alike.

use crate::advice::{Band, Estimate};
use crate::units::{BitRate, Share, Time, range};
use crate::words::count;

/// A figure's name, and the figure of one side in words.
pub(crate) type Figure = (&'static str, fn(&Estimate) -> String);

/// A row for each figure, since there are only two sides.
pub(crate) const FIGURES: &[Figure] = &[
    ("fabric", |one| {
        format!("{}, {} a node", one.fabric, count(one.nics_per_node as usize, "NIC"))
    }),
    ("bandwidth per GPU", |one| BitRate(one.bandwidth_bps_per_gpu).to_string()),
    ("latency per step", |one| Time(one.latency_ns).to_string()),
    ("computing", |one| Time(one.compute_ns).to_string()),
    ("network, all of it", |one| Time(one.network_ns).to_string()),
    ("network, exposed", |one| Time(one.exposed_ns).to_string()),
    ("network share, no overlap", |one| Share(one.network_share).to_string()),
    ("efficiency", |one| Share(one.efficiency).to_string()),
    ("efficiency, none to full overlap", |one| shares(one.efficiency_band)),
    ("step time, full to no overlap", |one| times(one.step_ns)),
    ("dominated by", |one| match &one.dominated_by {
        Some(dominant) => format!("{} ({})", dominant.flow, dominant.part),
        None => "–".to_owned(),
    }),
    ("hidden from, tokens per GPU", |one| {
        one.critical_tokens_per_gpu.map_or("–".to_owned(), |tokens| format!("{tokens:.0} tokens"))
    }),
    ("bandwidth needed per GPU", needed),
    ("verdict without overlap", |one| one.verdict_without_overlap.to_string()),
];

fn needed(one: &Estimate) -> String {
    match (one.needed_bps_per_gpu, one.flows.is_empty()) {
        (Some(bps), _) => BitRate(bps).to_string(),
        (None, true) => "–".to_owned(),
        (None, false) => "no bandwidth is enough".to_owned(),
    }
}

/// From no overlap to full.
pub(crate) fn shares(band: Band) -> String {
    range(Share(band.worst), Share(band.best))
}

/// From the shortest to the longest.
pub(crate) fn times(band: Band) -> String {
    range(Time(band.best), Time(band.worst))
}
