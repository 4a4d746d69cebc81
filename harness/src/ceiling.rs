//! The best possible goodput of one direction: the least of what both ends' links and slots, and
//! what the user declares, leave for payload.

mod site;

use fabbench_reports::model::{Ceiling, CeilingTerm};
use fabbench_reports::units::{BitRate, Share};

use crate::line_rate::{Messages, tcp_efficiency};
use crate::pcie::{PcieLink, SMALLEST_PAYLOAD, USUAL_LARGEST_PAYLOAD};
use crate::size::size_text;
pub use site::{DeclaredRate, Site};

/// What a ceiling depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// What is sent.
    pub carried: Carried,
    /// The reverse direction is loaded as well, and acknowledged every so many packets.
    pub ack_every: Option<u64>,
    /// The end that the payload leaves.
    pub from: End,
    /// The end that it reaches.
    pub to: End,
    /// What the user says of the way between them.
    pub declared: Vec<Declared>,
}

/// What goes over the links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// Messages of a verbs transport.
    Rdma(Messages),
    /// A TCP stream with timestamps.
    Tcp {
        /// MTU of the interface in bytes.
        netdev_mtu: u32,
        /// Over IPv6.
        ipv6: bool,
        /// With a VLAN tag.
        vlan: bool,
    },
}

/// One end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct End {
    /// `host/dev:port`; empty where there is but one.
    pub name: String,
    /// Its link, where the rate is known.
    pub line: Option<Line>,
    /// Every PCIe link between the adapter and the root complex, as far as known.
    pub slots: Vec<Slot>,
}

/// A link of the fabric.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Data rate in bit/s.
    pub bps: f64,
    /// In words, e.g. `4x NDR`.
    pub words: String,
    /// Sure enough that more than it allows is a wrong measurement.
    pub hard: bool,
}

/// A PCIe link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// PCI address of the device below it; empty when only the link is known.
    pub address: String,
    /// Generation and lanes in use.
    pub link: PcieLink,
    /// Maximum payload size in bytes; none when it cannot be read.
    pub payload: Option<u32>,
    /// Ports that load it at once in this direction, this one included; at least 1.
    pub ports: u32,
}

/// What the user says of the way.
#[derive(Debug, Clone, PartialEq)]
pub enum Declared {
    /// A rate of the port or of a shaper.
    Rate {
        /// What it was declared for.
        object: String,
        /// bit/s, headers included.
        bps: f64,
        /// Counted by a shaper in the sending host, which sees less of each packet than the link.
        shaped: bool,
    },
    /// All ports together get the fabric's rate divided by this much; at least 1.
    Oversubscription(f64),
}

/// The ceiling with every term, in the order sender, receiver, declared; none where no term is known.
/// The first of equal terms limits.
pub fn ceiling(scene: &Scene) -> Option<Ceiling> {
    let ends = [(&scene.from, "link", "pcie"), (&scene.to, "peer", "peer")];
    let mut terms: Vec<(&str, CeilingTerm)> = Vec::new();
    for (end, by_link, by_pcie) in ends {
        if let Some(line) = &end.line {
            terms.push((by_link, link_term(scene, end, line)));
            terms.extend(ack_term(scene, end, line).map(|term| (by_link, term)));
        }
        terms.extend(pcie_term(end).map(|term| (by_pcie, term)));
    }
    let declared: Vec<_> =
        scene.declared.iter().filter_map(|declared| declared_term(scene, declared)).collect();
    terms.extend(declared.into_iter().map(|term| ("declared", term)));
    let least = terms.iter().map(|(_, term)| term.bps).min_by(f64::total_cmp)?;
    let limited_by = terms.iter().find(|(_, term)| term.bps == least).map_or("none", |(by, _)| by);
    Some(Ceiling {
        bps: least,
        limited_by: limited_by.to_owned(),
        terms: terms.into_iter().map(|(_, term)| term).collect(),
    })
}

/// The term that limits: the first with the ceiling's rate.
pub fn binding(ceiling: &Ceiling) -> Option<&CeilingTerm> {
    ceiling.terms.iter().find(|term| term.bps == ceiling.bps)
}

/// The ceiling with every interval at its lowest: what is certainly possible by its terms.
pub fn lowest_bps(ceiling: &Ceiling) -> f64 {
    let low = |term: &CeilingTerm| term.low_bps.unwrap_or(term.bps);
    ceiling.terms.iter().map(low).fold(ceiling.bps, f64::min)
}

impl Carried {
    /// Payload rate over a link of `line_bps`.
    fn payload_bps(&self, line_bps: f64) -> f64 {
        match self {
            Carried::Rdma(messages) => messages.payload_bps(line_bps),
            Carried::Tcp { netdev_mtu, ipv6, vlan } => {
                line_bps * tcp_efficiency(*netdev_mtu, *ipv6, *vlan)
            }
        }
    }

    /// What the headers are, e.g. `64 KiB in 16 packets of at most 4 KiB with 26 B of headers each,
    /// 16 B more once: 99.3 % is payload`.
    fn words(&self) -> String {
        let share = Share(self.payload_bps(1.0));
        match self {
            Carried::Rdma(messages) => {
                let once = match messages.extension_bytes {
                    0 => String::new(),
                    bytes => format!(", {bytes} B more once"),
                };
                format!(
                    "{} in {} of at most {} with {} B of headers each{once}: {share} is payload",
                    size_text(messages.size_bytes),
                    packets(messages.packets()),
                    size_text(u64::from(messages.mtu)),
                    messages.framing.header_bytes(),
                )
            }
            Carried::Tcp { netdev_mtu, .. } => {
                format!("TCP segments in frames of {netdev_mtu} B: {share} is payload")
            }
        }
    }
}

fn packets(number: u64) -> String {
    if number == 1 { "1 packet".to_owned() } else { format!("{number} packets") }
}

fn name(what: &str, end: &str) -> String {
    if end.is_empty() { what.to_owned() } else { format!("{what} {end}") }
}

fn link_term(scene: &Scene, end: &End, line: &Line) -> CeilingTerm {
    CeilingTerm {
        name: name("link", &end.name),
        bps: scene.carried.payload_bps(line.bps),
        low_bps: None,
        hard: line.hard,
        because: format!("{}, {}; {}", line.words, BitRate(line.bps), scene.carried.words()),
    }
}

/// What the acknowledgements of the loaded reverse direction leave. How many there are is the
/// adapter's choice, so that the term is not hard.
fn ack_term(scene: &Scene, end: &End, line: &Line) -> Option<CeilingTerm> {
    let (every, Carried::Rdma(messages)) = (scene.ack_every?, scene.carried) else { return None };
    let each = messages.framing.header_bytes() + 4;
    Some(CeilingTerm {
        name: name("link with acknowledgements", &end.name),
        bps: messages.payload_bps_with_acks(line.bps, every),
        low_bps: None,
        hard: false,
        because: format!(
            "the reverse direction is loaded too, and its acknowledgements of {each} B go this way, \
             one every {}",
            packets(every)
        ),
    })
}

/// The narrowest PCIe link of an end.
fn pcie_term(end: &End) -> Option<CeilingTerm> {
    let low = |slot: &Slot| slot_bps(slot, SMALLEST_PAYLOAD);
    let narrowest = end.slots.iter().min_by(|a, b| low(a).total_cmp(&low(b)))?;
    let high = slot_bps(narrowest, USUAL_LARGEST_PAYLOAD);
    Some(CeilingTerm {
        name: name("pcie", &end.name),
        bps: high,
        low_bps: narrowest.payload.is_none().then(|| low(narrowest)),
        hard: false,
        because: slot_words(narrowest),
    })
}

/// What a port gets of a slot; an unknown payload size is taken as `payload`.
fn slot_bps(slot: &Slot, payload: u32) -> f64 {
    slot.link.effective_bps(slot.payload.unwrap_or(payload)) / f64::from(slot.ports.max(1))
}

fn slot_words(slot: &Slot) -> String {
    let place = match slot.address.as_str() {
        "" => String::new(),
        address => format!(" at {address}"),
    };
    let payload = match slot.payload {
        Some(payload) => format!("payload {payload} B"),
        None => format!(
            "payload size not readable (needs root): {SMALLEST_PAYLOAD} B would allow {}, \
             {USUAL_LARGEST_PAYLOAD} B {}",
            BitRate(slot_bps(slot, SMALLEST_PAYLOAD)),
            BitRate(slot_bps(slot, USUAL_LARGEST_PAYLOAD))
        ),
    };
    let shared = match slot.ports {
        0 | 1 => String::new(),
        ports => format!(", shared by {ports} ports at once"),
    };
    format!("PCIe {}{place}, {} raw, {payload}{shared}", slot.link, BitRate(slot.link.raw_bps()))
}

fn declared_term(scene: &Scene, declared: &Declared) -> Option<CeilingTerm> {
    let soft = |name: String, bps, because| {
        Some(CeilingTerm { name, bps, low_bps: None, hard: false, because })
    };
    match declared {
        Declared::Rate { object, bps, shaped } => {
            let (payload, counted) = match (scene.carried, shaped) {
                (Carried::Rdma(messages), true) => {
                    let share = messages.size_bytes as f64 / messages.shaped_bytes() as f64;
                    (bps * share, " by a shaper in the sending host")
                }
                (carried, _) => (carried.payload_bps(*bps), ""),
            };
            let because = format!(
                "declared {}{counted}: {} of it is payload",
                BitRate(*bps),
                Share(payload / bps)
            );
            soft(name("declared rate", object), payload, because)
        }
        Declared::Oversubscription(factor) => {
            let lines = [&scene.from, &scene.to].into_iter().filter_map(|end| end.line.as_ref());
            let least = lines.map(|line| line.bps).min_by(f64::total_cmp)?;
            let payload = scene.carried.payload_bps(least) / factor;
            let because = format!("declared oversubscription {factor}:1");
            soft("declared oversubscription".to_owned(), payload, because)
        }
    }
}

#[cfg(test)]
mod tests;
