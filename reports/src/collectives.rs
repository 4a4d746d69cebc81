//! What every form tells of collectives.

use crate::model::{Collective, Measurement};
use crate::view::View;
use crate::words::count;

/// Ranks reduce for more than this part of their time: the figure is the CPU's.
pub(crate) const CPU_BOUND: f64 = 0.8;

/// Results that belong into one table.
pub(crate) type Group<'a> = Vec<(&'a Measurement, &'a Collective)>;

/// The collectives of a report by operation, ranks and transport, in the order of the report.
pub(crate) fn groups<'a>(view: &'a View) -> Vec<(String, Group<'a>)> {
    let mut groups: Vec<(String, Group)> = Vec::new();
    for m in &view.report.measurements {
        let Some(collective) = m.collective.as_ref().filter(|_| m.test == "collective") else {
            continue;
        };
        let title = title(m, collective);
        match groups.iter_mut().find(|(known, _)| *known == title) {
            Some((_, group)) => group.push((m, collective)),
            None => groups.push((title, vec![(m, collective)])),
        }
    }
    groups
}

fn title(m: &Measurement, collective: &Collective) -> String {
    let ranks = count(m.ranks.len(), "rank");
    let wire = if collective.reduced { "" } else { ", nothing reduced" };
    format!("Collective: {} among {ranks} over {}{wire}", m.op, m.transport.to_uppercase())
}

/// Elements as nccl-tests counts them: of a rank's chunk where the vector is cut into such.
pub(crate) fn elements(m: &Measurement, collective: &Collective) -> u64 {
    let bytes = match collective.data_type.as_str() {
        "f64" => 8,
        "bf16" | "f16" => 2,
        _ => 4,
    };
    let chunked = ["all_gather", "reduce_scatter", "all_to_all"].contains(&m.op.as_str());
    let chunks = if chunked { m.ranks.len().max(1) as u64 } else { 1 };
    m.size_bytes / bytes / chunks
}

/// Where the output lay: `out` of or `in` the input's place.
pub(crate) fn place(collective: &Collective) -> &'static str {
    if collective.in_place { "in" } else { "out" }
}

/// How often each was run: `20 runs of each, after 5 for warm-up`.
pub(crate) fn runs(all: &[(&Measurement, &Collective)]) -> Option<String> {
    let (m, collective) = all.first()?;
    let warmups = m.method.requested.get("warmup_iterations").and_then(|n| n.as_u64());
    let warmups = warmups.map(|n| format!(", after {n} for warm-up")).unwrap_or_default();
    let number = count(collective.iterations as usize, "run");
    Some(format!("{number} of each{warmups}"))
}

/// Mean of the bus bandwidths, bit/s; none where none was measured.
pub(crate) fn average_busbw(all: &[(&Measurement, &Collective)]) -> Option<f64> {
    let busbw: Vec<f64> = all.iter().filter_map(|(m, _)| m.busbw_bps).collect();
    (!busbw.is_empty()).then(|| busbw.iter().sum::<f64>() / busbw.len() as f64)
}
