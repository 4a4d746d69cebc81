//! Causes that a check names: where its object shows a symptom that it explains.

use fabbench_reports::model::{Check, Measurement, Status};

use super::Cause;
use super::scene::{Scene, host_of, words};

/// What a setting brings about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Symptom {
    /// Cannot be measured.
    Missing,
    /// Low bandwidth.
    Slow,
    /// High latency, or results that differ.
    Late,
    /// Low bandwidth or high latency.
    SlowOrLate,
    /// Retransmissions and losses.
    Lossy,
    /// Losses, or low bandwidth.
    LossyOrSlow,
    /// Of itself: it costs something even where no bound is missed.
    Always,
}

use Symptom::{Always, Late, Lossy, LossyOrSlow, Missing, Slow, SlowOrLate};

/// Check, what it brings about, weight, the cause in words.
const SETTINGS: [(&str, Symptom, u32, &str); 36] = [
    ("subnet-manager", Always, 96, "no subnet manager has configured the port"),
    ("memlock", Missing, 95, "the limit of locked memory is too small for the buffers"),
    ("verbs", Missing, 94, "the verbs library cannot be used"),
    ("uverbs", Missing, 94, "the user may not open the RDMA device"),
    ("device", Missing, 93, "the host has no RDMA device"),
    ("port-state", Missing, 92, "the port is not up"),
    ("pkey", Missing, 91, "the partition keeps the ends apart"),
    ("gid", Missing, 90, "the GIDs of the two ends do not reach each other"),
    (
        "pcie-link",
        Slow,
        95,
        "the PCIe link of the card came up narrower or slower than both ends support",
    ),
    ("pcie-rate", Slow, 92, "the PCIe slot carries less than the port"),
    ("link-width", Slow, 90, "the link came up with fewer lanes or a lower speed than its like"),
    ("rail-rate", Slow, 84, "the two ends of the rail run at different rates"),
    ("mtu", Always, 83, "the path MTU is smaller than it could be"),
    ("port-mtu", Always, 83, "the path MTU is smaller than it could be"),
    (
        "bit-errors",
        LossyOrSlow,
        89,
        "the link corrects or loses too many bits: cable or transceiver",
    ),
    ("module", LossyOrSlow, 88, "a transceiver is in alarm"),
    ("pfc", Lossy, 86, "RoCE runs in a lossy class: no priority is paused"),
    ("traffic-class", Lossy, 85, "RoCE's packets are in another class than the one that is paused"),
    (
        "trust",
        Lossy,
        84,
        "priorities are not taken from DSCP, so that packets leave the lossless class",
    ),
    ("lossless-same", Lossy, 82, "the lossless settings differ between the two ends"),
    ("fec", LossyOrSlow, 72, "error correction of the link is off"),
    ("link-errors", Lossy, 70, "the link has a history of errors: cable or connector"),
    ("flaps", Lossy, 68, "the link goes up and down"),
    ("pause", Lossy, 66, "global pause and PFC are both on"),
    ("ecn", Lossy, 60, "congestion is not marked, so that switches fill up"),
    ("foreign-load", SlowOrLate, 78, "other processes use the adapters at the same time"),
    ("numa", SlowOrLate, 76, "the measuring threads may not run on the adapter's NUMA node"),
    ("relaxed-ordering", Slow, 70, "relaxed ordering is off, so that writes wait for each other"),
    ("governor", Late, 74, "processors save power instead of answering at once"),
    ("iommu", SlowOrLate, 64, "the IOMMU translates every transfer"),
    ("pcie-payload", Slow, 62, "PCIe packets are small, and their headers take much of the slot"),
    ("pcie-read-request", Slow, 61, "read requests over PCIe are small"),
    ("pcie-errors", SlowOrLate, 58, "PCIe reports errors at the card"),
    ("numa-balancing", Late, 57, "the kernel moves pages while they are in use"),
    ("kernel-log", SlowOrLate, 50, "the kernel complains about adapters or slots"),
    ("firmware-same", SlowOrLate, 42, "cards of one board run different firmware"),
];

pub(super) fn causes(scene: &Scene) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (id, symptom, weight, cause) in SETTINGS {
        for check in scene.bad(id) {
            if check.id == "gid" && check.status == Status::Warn && scene.missing.is_empty() {
                continue;
            }
            let shown = shown(scene, check, symptom);
            let Some(evidence) = shown else { continue };
            let found = format!("{}: {}, wanted {}", check.id, check.found, check.wanted);
            let mut cause = Cause::new(weight + bonus(scene, check), cause, &check.object)
                .seen(found)
                .remedy(&check.remedy);
            cause.adopt(evidence);
            causes.push(cause);
        }
    }
    causes.extend(topology(scene));
    causes
}

/// EPYC processors are known for what strict ordering costs them.
fn bonus(scene: &Scene, check: &Check) -> u32 {
    let host = scene.report.hosts.iter().find(|host| host.name == check.host);
    let epyc = host.is_some_and(|host| host.cpu.contains("EPYC"));
    if check.id == "relaxed-ordering" && epyc { 15 } else { 0 }
}

/// The symptoms of a check's object; none where it explains nothing.
fn shown(scene: &Scene, check: &Check, symptom: Symptom) -> Option<Vec<String>> {
    let on = |all: &[&Measurement]| -> Vec<String> {
        all.iter().filter(|m| concerns(check, m)).take(2).map(|m| words(m)).collect()
    };
    let some = |lines: Vec<String>| (!lines.is_empty()).then_some(lines);
    let missing = || {
        let lines =
            scene.missing.iter().take(2).map(|m| format!("{} not measured: {}", m.what, m.why));
        some(lines.collect())
    };
    match symptom {
        Always => Some(on(&scene.slow)),
        // A gate that failed keeps something from being measured, even where nobody said so.
        Missing if check.status == Status::Fail => Some(missing().unwrap_or_default()),
        Missing => missing(),
        Slow => some(on(&scene.slow)),
        Late => some(on(&scene.late)),
        SlowOrLate => some(on(&scene.slow)).or_else(|| some(on(&scene.late))),
        Lossy => some(on(&scene.lossy)),
        LossyOrSlow => some(on(&scene.lossy)).or_else(|| some(on(&scene.slow))),
    }
}

/// Whether a measurement uses what a check is about: its port, its device, its rail, else its host.
fn concerns(check: &Check, m: &Measurement) -> bool {
    let ends = [m.data_from.as_str(), m.data_to.as_str()];
    let object = check.object.as_str();
    if let Some((rail, _)) = object.split_once(' ') {
        return !m.path.rail.is_empty() && rail == m.path.rail;
    }
    if object.contains('/') && !object.starts_with('/') {
        let device = |end: &&str| {
            **end == *object || end.rsplit_once(':').is_some_and(|(device, _)| device == object)
        };
        return ends.iter().any(device);
    }
    // What differs between hosts concerns both.
    check.id.ends_with("-same") || ends.iter().any(|end| host_of(end) == check.host)
}

/// GPUs far from their HCAs, and what hinders their traffic.
fn topology(scene: &Scene) -> Vec<Cause> {
    let rules = [
        ("gpu-acs", "ACS sends the traffic between GPU and HCA up through the root complex"),
        ("gpu-gdr", "software does not let HCAs reach GPU memory"),
        ("gpu-topology", "a GPU and its HCA share no PCIe switch"),
    ];
    let mut causes = Vec::new();
    for (id, words) in rules {
        for check in scene.bad(id).filter(|check| check.status == Status::Fail) {
            let cause = Cause::new(81, words, &check.object);
            causes.push(cause.seen(check.found.clone()).remedy(&check.remedy));
        }
    }
    causes
}
