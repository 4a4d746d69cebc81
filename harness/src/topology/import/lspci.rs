//! Text of `lspci -tv` and `lspci -vvv`, together or alone, with other text around.
//!
//! The tree gives the places, the long form classes, NUMA nodes, links, port types and ACS. The long
//! form alone is enough where its bridges tell their buses.

use std::collections::BTreeMap;

use super::{hex, room, speed_mts, width};
use crate::topology::bdf::Bdf;
use crate::topology::devices::{self, Role};
use crate::topology::model::{Acs, Fact, Gpu, Hca, Ids, Kind, Link, Node, Source, Topology};

/// Whether `text` is, or holds, lspci's.
pub fn is_lspci(text: &str) -> bool {
    text.lines().any(is_root_line) || text.lines().any(|line| block_head(line).is_some())
}

/// Reads both forms.
pub fn read(text: &str) -> Result<Topology, String> {
    let blocks = blocks(text);
    let mut topology = Topology::new(Source::Lspci);
    let tree = tree(text, &mut topology)?;
    if !tree {
        from_buses(&blocks, &mut topology)?;
    }
    let nodes: std::collections::BTreeSet<u32> = blocks.values().filter_map(|b| b.numa).collect();
    topology.numa_nodes = nodes.last().map_or(0, |last| last + 1).max(numactl(text));
    enrich(&blocks, &mut topology);
    spread_numa(&mut topology);
    topology.machine.guest = Fact::from(guest(text).then_some(true));
    Ok(topology)
}

/// Signs of a hypervisor in the devices' names.
fn guest(text: &str) -> bool {
    [
        "Red Hat, Inc.",
        "QEMU",
        "Amazon.com, Inc. Device 0200",
        "Microsoft Corporation Hyper-V",
        "VMware",
    ]
    .iter()
    .any(|sign| text.contains(sign))
}

/// NUMA nodes by `numactl --hardware` in the same text.
fn numactl(text: &str) -> u32 {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("available: "));
    let count = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    count.filter(|count| *count <= 4096).unwrap_or(0)
}

fn is_root_line(line: &str) -> bool {
    let bytes = line.trim_start_matches([' ', '|', '-', '+', '\\']);
    let rest = bytes.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let starts = line.trim_start_matches([' ', '|']).starts_with(['-', '+', '\\']);
    starts && rest.is_some_and(|(bus, after)| root_bus(bus).is_some() && after.starts_with('-'))
}

/// `0000:20` or `20`.
fn root_bus(text: &str) -> Option<(u32, u8)> {
    let (domain, bus) = text.rsplit_once(':').unwrap_or(("0000", text));
    let fits = (4..=8).contains(&domain.len()) && bus.len() == 2;
    Some((hex(domain).filter(|_| fits)?, u8::try_from(hex(bus)?).ok()?))
}

/// A bus that an open bracket began.
struct Open {
    column: usize,
    node: usize,
    domain: u32,
    bus: u8,
    /// Bridges between the root complex and the bus.
    bridges: usize,
}

/// Reads the tree's lines; false when there is none.
fn tree(text: &str, topology: &mut Topology) -> Result<bool, String> {
    let mut open: Vec<Open> = Vec::new();
    let mut found = false;
    for line in text.lines() {
        let indent = line.len() - line.trim_start_matches([' ', '|']).len();
        let rest = &line[indent..];
        // The first of several root complexes is drawn `-+-[`.
        let drawn = rest.starts_with("-+-[")
            || rest.starts_with(['-', '+', '\\']) && rest[1..].starts_with(['-', '[']);
        if !drawn || (open.is_empty() && !is_root_line(line)) {
            if found && !line.trim_matches([' ', '|']).is_empty() {
                break;
            }
            continue;
        }
        found = true;
        open.retain(|bus| bus.column < indent);
        tree_line(line, indent, &mut open, topology)?;
    }
    Ok(found)
}

fn tree_line(
    line: &str,
    start: usize,
    open: &mut Vec<Open>,
    topology: &mut Topology,
) -> Result<(), String> {
    let mut at = start;
    let mut last: Option<usize> = None;
    while let Some(rest) = line.get(at..) {
        let Some(first) = rest.chars().next() else { break };
        if first == '[' {
            let Some(end) = rest.find(']') else { return Err("a bracket is not closed".into()) };
            bracket(&rest[1..end], at, last.take(), open, topology)?;
            at += end + 1;
        } else if let Some(function) = rest.get(..4).and_then(device_function) {
            let node = leaf(function, rest, open, topology)?;
            last = Some(node);
            if rest[4..].starts_with(' ') {
                break;
            }
            at += 4;
        } else if matches!(first, '-' | '+' | '\\' | '|' | ' ') {
            at += 1;
        } else {
            break;
        }
    }
    Ok(())
}

/// `18.0`: device and function.
fn device_function(text: &str) -> Option<(u8, u8)> {
    let (device, function) = text.split_once('.')?;
    (device.len() == 2 && function.len() == 1).then_some(())?;
    let device = u8::try_from(hex(device)?).ok().filter(|device| *device < 32)?;
    Some((device, u8::try_from(hex(function)?).ok().filter(|function| *function < 8)?))
}

fn bracket(
    text: &str,
    column: usize,
    above: Option<usize>,
    open: &mut Vec<Open>,
    topology: &mut Topology,
) -> Result<(), String> {
    let bad = || format!("[{}] is no bus", text.chars().take(20).collect::<String>());
    match above {
        None => {
            let (domain, bus) = root_bus(text).ok_or_else(bad)?;
            let node = topology.add(Node { kind: Kind::RootComplex, ..Node::default() });
            open.clear();
            open.push(Open { column, node, domain, bus, bridges: 0 });
        }
        Some(bridge) => {
            let first = text.split('-').next().unwrap_or_default();
            let bus = hex(first).and_then(|bus| u8::try_from(bus).ok()).ok_or_else(bad)?;
            let Some(outer) = open.last() else { return Err(bad()) };
            let (domain, bridges) = (outer.domain, outer.bridges + 1);
            topology.nodes[bridge].kind = port_kind(bridges);
            topology.nodes[bridge].class = Fact::Known(0x060400);
            open.push(Open { column, node: bridge, domain, bus, bridges });
        }
    }
    Ok(())
}

/// What the n-th bridge below a root complex is: root port, upstream, downstream, upstream, …
fn port_kind(bridges: usize) -> Kind {
    match bridges {
        1 => Kind::RootPort,
        n if n % 2 == 0 => Kind::Switch,
        _ => Kind::DownstreamPort,
    }
}

fn leaf(
    (device, function): (u8, u8),
    rest: &str,
    open: &[Open],
    topology: &mut Topology,
) -> Result<usize, String> {
    room(topology)?;
    let bus = open.last().ok_or("a device without a bus")?;
    let bdf = Bdf { domain: bus.domain, bus: bus.bus, device, function };
    let label =
        rest.get(4..).filter(|rest| rest.starts_with(' ')).map(|rest| rest.trim().to_owned());
    let label = label.filter(|label| !label.is_empty());
    let mut node = Node { parent: Some(bus.node), bdf: Some(bdf), ..Node::default() };
    if let Some(label) = &label {
        node.ids = trailing_ids(label);
        name_role(&mut node, label);
    }
    node.label = label;
    Ok(topology.add(node))
}

/// `… [10de:2335]`, as `lspci -nn` adds it.
fn trailing_ids(label: &str) -> Ids {
    let mut pair = label.match_indices('[').filter_map(|(at, _)| {
        let inside = label[at + 1..].split(']').next()?;
        let (vendor, device) = inside.split_once(':')?;
        let four = vendor.len() == 4 && device.len() == 4;
        Some((
            u16::try_from(hex(vendor)?).ok().filter(|_| four)?,
            u16::try_from(hex(device)?).ok()?,
        ))
    });
    let Some((vendor, device)) = pair.next_back() else { return Ids::default() };
    Ids { vendor: Fact::Known(vendor), device: Fact::Known(device), ..Ids::default() }
}

/// The tree holds names alone: a GPU or an adapter is told by its maker and product.
fn name_role(node: &mut Node, label: &str) {
    let has = |words: &[&str]| words.iter().any(|word| label.contains(word));
    const BESIDE: [&str; 9] = [
        "Audio",
        "USB",
        "UCSI",
        "NVSwitch",
        "Bridge",
        "Device 1ac2",
        "Device 1af1",
        "Device 22a3",
        "Host",
    ];
    let gpu = (has(&["NVIDIA Corporation"]) && !has(&BESIDE))
        || has(&["Instinct", "Aldebaran", "Arcturus", "Vega 20", "Habana Labs", "Gaudi"])
        || has(&["Data Center GPU", "Ponte Vecchio"])
        || unnamed_instinct(label);
    let adapter =
        has(&["Mellanox Technologies", "ConnectX", "Elastic Fabric Adapter", "BCM575", "BCM576"])
            && !has(&["Bridge", "bridge", "Switch", "DMA", "SoC Management"]);
    if gpu && !has(&["Mellanox"]) {
        node.gpu = Some(Gpu::default());
    } else if adapter {
        node.hca = Some(Hca::default());
    }
}

/// An Instinct that is newer than lspci's list of names: MI100 738x, MI200 740x, MI300 74ax and 74bx,
/// MI350 75ax and 75bx.
fn unnamed_instinct(label: &str) -> bool {
    let device = label.split_once("[AMD/ATI] Device ").map(|(_, device)| device);
    let family = device.and_then(|device| device.get(..3));
    matches!(family, Some("738" | "740" | "74a" | "74b" | "75a" | "75b"))
}

/// What the long form says of a function.
#[derive(Default)]
struct Block {
    class: Option<u32>,
    label: String,
    ids: Ids,
    numa: Option<u32>,
    link: Link,
    acs: Fact<Acs>,
    kind: Option<Kind>,
    secondary: Option<(u8, u8)>,
    group: Option<u32>,
}

/// Class by lspci's name for it.
const CLASSES: &[(&str, u32)] = &[
    ("VGA compatible controller", 0x030000),
    ("3D controller", 0x030200),
    ("Display controller", 0x038000),
    ("Processing accelerators", 0x120000),
    ("Infiniband controller", 0x020700),
    ("InfiniBand controller", 0x020700),
    ("Ethernet controller", 0x020000),
    ("Network controller", 0x028000),
    ("PCI bridge", 0x060400),
    ("Host bridge", 0x060000),
    ("Bridge", 0x068000),
    ("DMA controller", 0x080100),
];

/// `0000:01:00.0 VGA compatible controller: NVIDIA …`, with class codes by `-nn`.
fn block_head(line: &str) -> Option<(Bdf, Option<u32>, &str)> {
    let (address, rest) = line.split_once(' ')?;
    let bdf = address.parse().ok()?;
    let (class, label) = rest.split_once(": ")?;
    let name = class.split(" [").next().unwrap_or(class);
    let code = class.split_once('[').and_then(|(_, code)| hex(code.trim_end_matches(']')));
    let known = CLASSES.iter().find(|(known, _)| *known == name).map(|(_, class)| *class);
    Some((bdf, code.map(|code| code << 8).or(known), label))
}

fn blocks(text: &str) -> BTreeMap<Bdf, Block> {
    let mut blocks: BTreeMap<Bdf, Block> = BTreeMap::new();
    let mut current: Option<Bdf> = None;
    for line in text.lines() {
        if let Some((bdf, class, label)) = block_head(line) {
            let label = label.split(" (rev ").next().unwrap_or(label);
            let block = Block {
                class,
                label: label.to_owned(),
                ids: trailing_ids(label),
                ..Block::default()
            };
            blocks.insert(bdf, block);
            current = Some(bdf);
        } else if !line.starts_with(['\t', ' ']) {
            current = None;
        } else if let Some(block) = current.and_then(|bdf| blocks.get_mut(&bdf)) {
            block_line(block, line.trim());
        }
    }
    blocks
}

fn block_line(block: &mut Block, line: &str) {
    let after = |key: &str| line.find(key).map(|at| &line[at + key.len()..]);
    let word =
        |text: &str| text.trim_start().split([',', ' ']).next().unwrap_or_default().to_owned();
    let link = || {
        let speed = after("Speed ").and_then(|rest| speed_mts(&word(rest)));
        let lanes = after("Width ").and_then(|rest| width(&word(rest)));
        (Fact::from(speed), Fact::from(lanes))
    };
    if let Some(rest) = line.strip_prefix("NUMA node:") {
        block.numa = rest.trim().parse().ok().filter(|numa| *numa < 4096);
    } else if let Some(rest) = line.strip_prefix("IOMMU group:") {
        block.group = rest.trim().parse().ok();
    } else if line.starts_with("LnkCap:") {
        (block.link.max_speed_mts, block.link.max_width) = link();
    } else if line.starts_with("LnkSta:") {
        (block.link.speed_mts, block.link.width) = link();
    } else if let Some(rest) = line.strip_prefix("ACSCtl:") {
        block.acs = Fact::Known(Acs {
            request_redirect: rest.contains("ReqRedir+"),
            completion_redirect: rest.contains("CmpltRedir+"),
            direct_translated: rest.contains("DirectTrans+"),
            source_validation: rest.contains("SrcValid+"),
            upstream_forwarding: rest.contains("UpstreamFwd+"),
        });
    } else if line.contains("Bus: primary=") {
        let bus = |key| after(key).and_then(|rest| u8::try_from(hex(&word(rest))?).ok());
        block.secondary = bus("secondary=").zip(bus("subordinate="));
    } else if line.starts_with("Capabilities:") && line.contains("Express") {
        block.kind = express_kind(line);
        if line.contains("access denied") {
            block.acs = Fact::NotPermitted;
        }
    } else if line.contains("Capabilities: <access denied>") {
        block.acs = Fact::NotPermitted;
    }
}

fn express_kind(line: &str) -> Option<Kind> {
    let kinds = [
        ("Root Port", Kind::RootPort),
        ("Upstream Port", Kind::Switch),
        ("Downstream Port", Kind::DownstreamPort),
        ("PCI-Express to PCI", Kind::OtherBridge),
        ("Endpoint", Kind::Endpoint),
    ];
    kinds.iter().find(|(words, _)| line.contains(words)).map(|(_, kind)| *kind)
}

/// Builds the tree from the buses that bridges lead to.
fn from_buses(blocks: &BTreeMap<Bdf, Block>, topology: &mut Topology) -> Result<(), String> {
    let led: BTreeMap<(u32, u8), Bdf> = blocks
        .iter()
        .filter_map(|(bdf, block)| Some(((bdf.domain, block.secondary?.0), *bdf)))
        .collect();
    if led.is_empty() {
        topology
            .damage
            .push("lspci without -t and without the bridges of -vvv shows no places".into());
    }
    let mut placed: BTreeMap<Bdf, usize> = BTreeMap::new();
    let mut roots: BTreeMap<(u32, u8), usize> = BTreeMap::new();
    for (&bdf, block) in blocks {
        room(topology)?;
        // A bridge leads to buses above its own: bridges come first, and circles cannot be.
        let above = led.get(&(bdf.domain, bdf.bus)).filter(|bridge| bridge.bus < bdf.bus);
        let parent = match above.and_then(|bridge| placed.get(bridge)) {
            Some(&parent) => parent,
            None => *roots.entry((bdf.domain, bdf.bus)).or_insert_with(|| {
                topology.add(Node { kind: Kind::RootComplex, ..Node::default() })
            }),
        };
        let bridges = topology.chain(parent).count();
        let kind = if block.secondary.is_some() { port_kind(bridges) } else { Kind::Endpoint };
        let node = Node { parent: Some(parent), kind, bdf: Some(bdf), ..Node::default() };
        placed.insert(bdf, topology.add(node));
    }
    Ok(())
}

fn enrich(blocks: &BTreeMap<Bdf, Block>, topology: &mut Topology) {
    for node in &mut topology.nodes {
        let Some(block) = node.bdf.and_then(|bdf| blocks.get(&bdf)) else { continue };
        node.numa = block.numa.into();
        node.link = block.link;
        node.acs = block.acs;
        node.iommu_group = block.group.into();
        node.label.get_or_insert_with(|| block.label.clone());
        if node.ids.pair().is_none() {
            node.ids = block.ids;
        }
        if let Some(kind) = block.kind.filter(|_| node.kind != Kind::RootComplex) {
            node.kind = kind;
        }
        let Some(class) = block.class else { continue };
        node.class = Fact::Known(class);
        by_class(node, class, &block.label);
    }
}

/// The class outweighs the name.
fn by_class(node: &mut Node, class: u32, label: &str) {
    match devices::role(class, node.ids.pair()) {
        Role::Gpu => {
            name_role(node, label);
            if node.ids.pair().is_some() {
                node.gpu.get_or_insert_with(Gpu::default);
            }
        }
        Role::Network => {
            node.gpu = None;
            name_role(node, label);
            let known =
                node.ids.pair().is_some_and(|pair| devices::likely_verbs(class, Some(pair)));
            if known || class >> 8 == 0x0207 {
                node.hca.get_or_insert_with(Hca::default);
            }
        }
        Role::Bridge | Role::DataDirect | Role::Other => (node.gpu, node.hca) = (None, None),
    }
}

/// A root complex is on the NUMA node of any device below it.
fn spread_numa(topology: &mut Topology) {
    for index in 0..topology.nodes.len() {
        let Fact::Known(numa) = topology.nodes[index].numa else { continue };
        if let Some(root) = topology.chain(index).last() {
            topology.nodes[root].numa = Fact::Known(numa);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "-[0000:00]-+-00.0  Host bridge\n           \\-01.0-[01-05]----00.0-[02-05]--+-00.0-[03]----00.0  NVIDIA Corporation Device 2335\n                                           \\-01.0-[04]--+-00.0  Mellanox Technologies MT2910 Family [ConnectX-7]\n                                                        \\-00.1  Mellanox Technologies MT2910 Family [ConnectX-7]\n";

    #[test]
    fn the_tree_keeps_every_device_on_its_bus() {
        let topology = read(SWITCH).unwrap();
        let gpu = topology.nodes.iter().position(|node| node.gpu.is_some()).unwrap();
        let hcas: Vec<_> = topology.nodes.iter().filter(|n| n.hca.is_some()).collect();
        assert_eq!(topology.nodes[gpu].bdf.unwrap().to_string(), "0000:03:00.0");
        assert_eq!(hcas[1].bdf.unwrap().to_string(), "0000:04:00.1");
        let kinds: Vec<_> = topology.chain(gpu).map(|at| topology.nodes[at].kind).collect();
        let wanted =
            [Kind::Endpoint, Kind::DownstreamPort, Kind::Switch, Kind::RootPort, Kind::RootComplex];
        assert_eq!(kinds, wanted);
    }

    #[test]
    fn the_long_form_alone_builds_the_tree_from_its_buses() {
        let text = "00:01.0 PCI bridge: Intel Corporation Device 352a\n\tBus: primary=00, secondary=01, subordinate=03, sec-latency=0\n\
            01:00.0 PCI bridge: Broadcom / LSI Device c030\n\tBus: primary=01, secondary=02, subordinate=03, sec-latency=0\n\
            02:00.0 3D controller: NVIDIA Corporation Device 2335 (rev a1)\n\tNUMA node: 1\n\tLnkCap: Port #0, Speed 32GT/s, Width x16, ASPM\n\tLnkSta: Speed 32GT/s, Width x8 (downgraded)\n\
            02:01.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]\n\tCapabilities: [100 v1] Access Control Services\n\t\tACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n";
        let topology = read(text).unwrap();
        let gpu = topology.nodes.iter().position(|node| node.gpu.is_some()).unwrap();
        assert_eq!(topology.nodes[gpu].link.width, Fact::Known(8));
        assert_eq!(topology.nodes[gpu].link.max_width, Fact::Known(16));
        let hca = topology.nodes.iter().position(|node| node.hca.is_some()).unwrap();
        assert!(topology.nodes[hca].acs.known().unwrap().request_redirect);
        assert_eq!(topology.nodes[gpu].parent, topology.nodes[hca].parent);
        assert_eq!(topology.numa(hca), Some(1));
    }
}
