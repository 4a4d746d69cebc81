//! Checks of an adapter: its PCIe slot, its place in the host, its error reports.

use fabbench_reports::model::{Check, Device};
use fabbench_reports::units::{BitRate, Share};

use super::subject::Subject;
use crate::facts::{Chain, Hop, pcie_chain};
use crate::pcie::{PcieLink, SMALLEST_PAYLOAD, USUAL_LARGEST_PAYLOAD};
use crate::size::size_text;

/// A slot below this multiple of the line rate warns: completions and doorbells need room as well.
const ROOM: f64 = 1.05;
/// From this rate on, large read requests matter.
const FAST_BPS: f64 = 100e9;
/// Read requests below this hinder any adapter.
const LEAST_READ_REQUEST: u32 = 512;
/// What is recommended for fast adapters.
const BEST_READ_REQUEST: u32 = 4096;
const RESEAT: &str = "reseat the card, check the riser, the slot's width and speed in the BIOS, and \
                      the slot itself with another card (stops the host's traffic)";
const BUS: &str = "/sys/class/infiniband";

/// All checks of a hardware adapter.
pub(super) fn checks(subject: &Subject, device: &Device) -> Vec<Check> {
    let chain = pcie_chain(subject.facts(), &device.name);
    let mut checks = if device.virtual_function {
        let why = "a virtual function: the link is its physical function's";
        let beside = |id: &&str| subject.of_device(id, device, "").beside(why);
        ["pcie-link", "pcie-rate", "pcie-payload"].iter().map(beside).collect()
    } else {
        vec![
            link(subject, device, &chain),
            rate(subject, device, &chain),
            payload(subject, device, &chain),
            read_request(subject, device, &chain),
            ordering(subject, device, &chain),
        ]
    };
    checks.push(numa(subject, device));
    checks.push(errors(subject, device));
    checks
}

/// The link of a hop, and what both of its ends support.
fn supported(chain: &Chain, at: usize) -> Option<(PcieLink, PcieLink)> {
    let hop = &chain.hops[at];
    let own = hop.widest?;
    let above = match at.checked_sub(1) {
        Some(up) => chain.hops[up].widest?,
        None => own,
    };
    let generation = own.generation.min(above.generation);
    Some((hop.link, PcieLink { generation, lanes: own.lanes.min(above.lanes) }))
}

/// Whether the adapter's own link runs as both its ends could.
fn link(subject: &Subject, device: &Device, chain: &Chain) -> Check {
    let draft = subject.of_device("pcie-link", device, "the link that both ends support");
    let missing = |what: &str| format!("{what} of the slot cannot be read in sysfs");
    let Some(at) = chain.hops.len().checked_sub(1) else {
        return draft.unknown(missing("current_link_speed and current_link_width"));
    };
    if chain.hops[at].address.as_str() != device.pci.as_deref().unwrap_or_default() {
        return draft.unknown(missing("current_link_speed and current_link_width"));
    }
    let Some((current, best)) = supported(chain, at) else {
        return draft.unknown(format!(
            "{current}, {missing}",
            current = chain.hops[at].link,
            missing = missing("what both ends support (max_link_speed, max_link_width)")
        ));
    };
    let draft = draft.wanting(format!("{best}, which both ends support"));
    let place = &chain.hops[at].address;
    let own = chain.hops[at].widest.unwrap_or(best);
    let card = match own == best {
        true => String::new(),
        false => format!(", though the card is {own}: the slot is the smaller"),
    };
    if current.generation >= best.generation && current.lanes >= best.lanes {
        return draft.pass(format!("{current} at {place}{card}"));
    }
    let carries = current.effective_bps(USUAL_LARGEST_PAYLOAD);
    let found = format!("{current} at {place}, downtrained");
    match fastest(device) {
        Some(line) if carries >= ROOM * line => draft.warn(found, RESEAT),
        _ => draft.fail(found, RESEAT),
    }
}

/// The fastest port's rate.
fn fastest(device: &Device) -> Option<f64> {
    device.ports.iter().filter_map(|port| port.rate_bps).max().map(|bps| bps as f64)
}

/// The hop that carries least, with that rate; the payload size as read, else the usual largest.
pub(super) fn narrowest(chain: &Chain) -> Option<(&Hop, f64)> {
    let payload = chain.payload.unwrap_or(USUAL_LARGEST_PAYLOAD);
    let with_rate = chain.hops.iter().map(|hop| (hop, hop.link.effective_bps(payload)));
    with_rate.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Devices whose slots carry the traffic of one board: the halves of a Socket-Direct card.
fn halves<'a>(subject: &Subject<'a>, device: &Device) -> Vec<&'a Device> {
    let image = |device: &Device| {
        let text = subject.view.text(&format!("{BUS}/{}/sys_image_guid", device.name))?;
        (!text.chars().all(|c| c == '0' || c == ':')).then(|| text.to_owned())
    };
    let Some(own) = image(device) else { return Vec::new() };
    let bus = |device: &Device| {
        device.pci.as_deref().and_then(|pci| pci.rsplit_once('.')).map(|pci| pci.0.to_owned())
    };
    let mine = bus(device);
    let other = |other: &&Device| {
        !other.virtual_function && image(other).as_ref() == Some(&own) && bus(other) != mine
    };
    subject.party.host.devices.iter().filter(other).collect()
}

/// Whether the way to the root complex carries what the ports do.
fn rate(subject: &Subject, device: &Device, chain: &Chain) -> Check {
    let draft = subject.of_device("pcie-rate", device, "more than the line rate");
    let Some((hop, own)) = narrowest(chain).filter(|_| ends_at(chain, device)) else {
        return draft.unknown("the PCIe links up to the root port cannot be read in sysfs");
    };
    let Some(line) = fastest(device) else {
        return draft.beside("no port is up, so that no rate is asked of the slot");
    };
    let others = halves(subject, device);
    let beside = others.iter().filter_map(|other| {
        let chain = pcie_chain(subject.facts(), &other.name);
        narrowest(&chain).map(|(_, bps)| bps)
    });
    let carries = own + beside.sum::<f64>();
    let together: u64 = device.ports.iter().filter_map(|port| port.rate_bps).sum();
    let halves = match others.len() {
        0 => String::new(),
        count => format!(" with {count} more of one board"),
    };
    let assumed = match chain.payload {
        Some(bytes) => format!("payload {bytes} B"),
        None => format!(
            "at most, its payload size cannot be read ({SMALLEST_PAYLOAD} B would be {})",
            BitRate(hop.link.effective_bps(SMALLEST_PAYLOAD))
        ),
    };
    let found = format!(
        "{} at {}{halves} carries {} ({assumed}), {} of the port's {}",
        hop.link,
        hop.address,
        BitRate(carries),
        Share(carries / line),
        BitRate(line)
    );
    let draft = draft.wanting(format!("at least {}", BitRate(ROOM * line)));
    if carries < line {
        let remedy = "move the card to a slot of the generation and width that it supports (stops \
                      the host's traffic); until then no more than this is possible";
        draft.fail(found, remedy)
    } else if carries < ROOM * line {
        draft.warn(found, "a slot of the next generation or width leaves room for completions")
    } else if carries < together as f64 {
        let found = format!("{found}; its ports together ask for {}", BitRate(together as f64));
        draft.warn(found, "plan with this rate for both ports together, or use one port a card")
    } else {
        draft.pass(found)
    }
}

/// Whether the adapter's own link is among those seen.
fn ends_at(chain: &Chain, device: &Device) -> bool {
    let last = chain.hops.last().map(|hop| hop.address.as_str());
    last.is_some() && last == device.pci.as_deref()
}

const NEEDS_ROOT: &str = "the PCIe configuration space cannot be read: needs root";

fn payload(subject: &Subject, device: &Device, chain: &Chain) -> Check {
    let draft = subject.of_device("pcie-payload", device, "256 B or more, one size along the way");
    let own = chain.hops.last().and_then(|hop| hop.control);
    let Some(own) = own.filter(|_| ends_at(chain, device)) else {
        return draft.unknown(NEEDS_ROOT);
    };
    let others = chain.hops.iter().filter_map(|hop| Some((hop, hop.control?.payload)));
    let smaller = others.filter(|(_, bytes)| *bytes < own.payload).min_by_key(|(_, bytes)| *bytes);
    let remedy = "boot with pci=pcie_bus_perf, or set the payload size in the BIOS (needs root and \
                  a restart)";
    match smaller {
        Some((hop, bytes)) => {
            draft.warn(format!("{} B, but {bytes} B at {}", own.payload, hop.address), remedy)
        }
        None if own.payload <= SMALLEST_PAYLOAD => {
            draft.warn(format!("{} B: headers take 16 % of the slot", own.payload), remedy)
        }
        None => draft.pass(format!("{} B", own.payload)),
    }
}

fn read_request(subject: &Subject, device: &Device, chain: &Chain) -> Check {
    let draft =
        subject.of_device("pcie-read-request", device, "512 B or more; 4096 B from 100 Gb/s on");
    let Some(own) = chain.hops.last().and_then(|hop| hop.control) else {
        return draft.unknown(NEEDS_ROOT);
    };
    let bytes = own.read_request;
    let remedy = format!(
        "setpci -s {} CAP_EXP+8.w=5000:7000 (needs root, lasts until restart)",
        device.pci.as_deref().unwrap_or("ADDRESS")
    );
    match fastest(device) {
        _ if bytes < LEAST_READ_REQUEST => draft.warn(size_text(bytes.into()), remedy),
        Some(line) if line >= FAST_BPS && bytes < BEST_READ_REQUEST => {
            draft.told(format!("{bytes} B: some adapters need 4096 B for their full rate"))
        }
        _ => draft.pass(format!("{bytes} B")),
    }
}

fn ordering(subject: &Subject, device: &Device, chain: &Chain) -> Check {
    let draft = subject.of_device("relaxed-ordering", device, "allowed");
    match chain.hops.last().and_then(|hop| hop.control) {
        None => draft.unknown(NEEDS_ROOT),
        Some(control) if control.relaxed_ordering => draft.pass("allowed in the device"),
        Some(_) => draft.warn(
            "off in the device: writes wait for each other, which halves the rate on some EPYC and \
             Xeon processors",
            format!(
                "set PCI_WR_ORDERING=per_mkey with mlxconfig, or setpci -s {} CAP_EXP+8.w=0010:0010 \
                 (needs root)",
                device.pci.as_deref().unwrap_or("ADDRESS")
            ),
        ),
    }
}

/// Whether the adapter's node is known and the agent may run there.
fn numa(subject: &Subject, device: &Device) -> Check {
    let draft = subject.of_device("numa", device, "a node with processors for this user");
    let online = subject.view.text("/sys/devices/system/node/online");
    let Some(node) = device.numa_node else {
        return match online {
            Some("0") => draft.pass("the host has one node"),
            _ => draft.unknown("the kernel does not know the node of the slot (numa_node is -1)"),
        };
    };
    let path = format!("/sys/devices/system/node/node{node}/cpulist");
    let list = match subject.read(&path) {
        Ok(list) => list,
        Err(why) => return draft.unknown(format!("node {node}; {why}")),
    };
    if !subject.was_asked() {
        return draft.unknown(format!(
            "node {node}, processors {list}; no agent was asked which it may use"
        ));
    }
    let own = parse_list(list);
    let allowed = subject.facts().calls.cpus.iter().filter(|cpu| own.contains(cpu)).count();
    let found = format!("node {node}, {allowed} of its {} processors allowed", own.len());
    match allowed {
        0 => draft.warn(
            found,
            "start the agent without cpuset, taskset or numactl that keep it from there",
        ),
        _ => draft.pass(found),
    }
}

/// A kernel list as `0-3,8`; at most 8192 numbers.
pub(super) fn parse_list(text: &str) -> Vec<u32> {
    let one = |part: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.split(',').filter_map(one).flatten().take(8192).collect()
}

/// Errors that PCIe's error reporting has counted since the host started.
fn errors(subject: &Subject, device: &Device) -> Check {
    let draft = subject.of_device("pcie-errors", device, "none since the host started");
    let mut seen = Vec::new();
    for kind in ["fatal", "nonfatal", "correctable"] {
        let path = format!("{BUS}/{}/device/aer_dev_{kind}", device.name);
        match subject.read(&path) {
            Ok(text) => seen.push((kind, total(text))),
            Err(why) => return draft.unknown(why),
        }
    }
    let grave = seen.iter().any(|(kind, count)| *kind != "correctable" && *count > 0);
    let words: Vec<_> = seen
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    match (grave, words.is_empty()) {
        (_, true) => draft.pass("none"),
        (true, _) => draft
            .warn(words.join(", "), "look for AER lines in the kernel log, then reseat the card"),
        (false, _) => draft.told(words.join(", ")),
    }
}

/// The line `TOTAL_ERR_FATAL 3` and its like; else the sum of all.
fn total(text: &str) -> u64 {
    let number = |line: &str| line.split_whitespace().last()?.parse::<u64>().ok();
    let line = text.lines().find(|line| line.starts_with("TOTAL"));
    match line.and_then(number) {
        Some(total) => total,
        None => text.lines().filter_map(number).fold(0, u64::saturating_add),
    }
}
