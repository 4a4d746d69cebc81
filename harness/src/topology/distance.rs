//! How far a GPU and an adapter are apart: the class of the path between them.
//!
//! NCCL's words and rules (its `topo.cc`, `paths.cc`): switches between the two, host bridge, socket.
//! Cascaded switches that are one product, switches built into a network adapter and bridges built
//! into a GPU do not count as switches of their own.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::model::{Kind, Topology};

/// Class of a path, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// At most one PCIe switch between the two.
    Pix,
    /// Several switches, no host bridge.
    Pxb,
    /// Over NVLink-C2C to the processor, then PCIe.
    P2c,
    /// Through a host bridge: same root complex, other root port.
    Phb,
    /// Between host bridges of one NUMA node.
    Node,
    /// Same socket, other NUMA node (SNC, NPS).
    NodeSameSocket,
    /// Across sockets.
    Sys,
    /// Not to be told from the input.
    Unknown,
}

impl Class {
    /// Whether the path stays below the host bridge.
    pub fn shares_switch(self) -> bool {
        matches!(self, Class::Pix | Class::Pxb)
    }

    /// The word in a report; NODE also for NUMA nodes of one socket.
    pub fn word(self) -> &'static str {
        match self {
            Class::Pix => "PIX",
            Class::Pxb => "PXB",
            Class::P2c => "P2C",
            Class::Phb => "PHB",
            Class::Node | Class::NodeSameSocket => "NODE",
            Class::Sys => "SYS",
            Class::Unknown => "unknown",
        }
    }

    /// What it means, in a sentence's tail.
    pub fn meaning(self) -> &'static str {
        match self {
            Class::Pix => "behind one PCIe switch",
            Class::Pxb => "behind cascaded PCIe switches",
            Class::P2c => "over C2C and the processor",
            Class::Phb => "through the host bridge",
            Class::Node => "between host bridges of one NUMA node",
            Class::NodeSameSocket => "between NUMA nodes of one socket",
            Class::Sys => "across sockets",
            Class::Unknown => "not to be told from this input",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if *self == Class::NodeSameSocket { "*" } else { "" };
        write!(f, "{}{star}", self.word())
    }
}

/// Sockets of NUMA nodes: as the input tells, or assumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sockets {
    known: Vec<Option<u32>>,
    /// Number of NUMA nodes that are halved into two sockets for want of better; none when told.
    halved: Option<u32>,
}

impl Sockets {
    /// By packages where the input has them; else more than two NUMA nodes are taken as two sockets,
    /// lower half and upper half.
    pub fn of(topology: &Topology, seen: impl Iterator<Item = u32>) -> Self {
        let known: Vec<_> = topology.sockets.iter().map(|socket| socket.known()).collect();
        let count = seen.map(|node| node.saturating_add(1)).max().unwrap_or(0);
        let count = count.max(topology.numa_nodes);
        let told = known.iter().any(Option::is_some);
        Sockets { known, halved: (!told && count > 2).then_some(count) }
    }

    /// Socket of a NUMA node.
    pub fn socket(&self, numa: u32) -> u32 {
        if let Some(Some(socket)) = self.known.get(numa as usize) {
            return *socket;
        }
        match self.halved {
            Some(count) => u32::from(numa >= count.div_ceil(2)),
            None => numa,
        }
    }

    /// Whether sockets are assumed.
    pub fn assumed(&self) -> bool {
        self.halved.is_some()
    }
}

/// Class of the path between two functions of the tree.
pub fn between(topology: &Topology, sockets: &Sockets, gpu: usize, hca: usize) -> Class {
    let above_gpu: Vec<usize> = topology.chain(gpu).collect();
    let above_hca: Vec<usize> = topology.chain(hca).collect();
    match above_gpu.iter().find(|at| above_hca.contains(at)) {
        Some(&meeting) if topology.nodes[meeting].kind != Kind::RootComplex => {
            let below = |chain: &[usize]| -> Vec<usize> {
                chain.iter().copied().take_while(|&at| at != meeting).collect()
            };
            let mut path = below(&above_gpu);
            path.extend(below(&above_hca));
            path.push(meeting);
            let switches: BTreeSet<usize> =
                path.into_iter().filter_map(|at| product(topology, at)).collect();
            if switches.len() <= 1 { Class::Pix } else { Class::Pxb }
        }
        Some(_) => same_complex(topology, gpu),
        None => other_complex(topology, sockets, gpu, hca),
    }
}

fn same_complex(topology: &Topology, gpu: usize) -> Class {
    let c2c = topology.nodes[gpu].gpu.as_ref().is_some_and(|gpu| gpu.c2c);
    if c2c { Class::P2c } else { Class::Phb }
}

fn other_complex(topology: &Topology, sockets: &Sockets, gpu: usize, hca: usize) -> Class {
    let c2c = topology.nodes[gpu].gpu.as_ref().is_some_and(|gpu| gpu.c2c);
    match (topology.numa(gpu), topology.numa(hca)) {
        (Some(a), Some(b)) if c2c && sockets.socket(a) == sockets.socket(b) => Class::P2c,
        (Some(a), Some(b)) if a == b => Class::Node,
        (Some(a), Some(b)) if sockets.socket(a) == sockets.socket(b) => Class::NodeSameSocket,
        (Some(_), Some(_)) => Class::Sys,
        _ => Class::Unknown,
    }
}

/// The switch that a node stands for on a path, as a product: itself, or the head of the cascade that
/// it is part of; none for what is no switch or does not count as one.
fn product(topology: &Topology, index: usize) -> Option<usize> {
    let node = &topology.nodes[index];
    if node.kind != Kind::Switch || inside_adapter(node.ids.pair()) || inside_gpu(node.ids.pair()) {
        return None;
    }
    Some(head_of_cascade(topology, index).unwrap_or(index))
}

/// Switches built into ConnectX-7, ConnectX-8 and BlueField-3.
pub fn inside_adapter(pair: Option<(u16, u16)>) -> bool {
    matches!(pair, Some((0x15b3, 0x1979 | 0x197b | 0x197c)))
}

/// Bridges built into Instinct and Hygon accelerators.
pub fn inside_gpu(pair: Option<(u16, u16)>) -> bool {
    matches!(pair, Some((0x1022, 0x1500) | (0x1002, 0x14a0 | 0x14a1) | (0x1d94, 0x23b7)))
}

/// Bridges that a hypervisor makes up: Red Hat, Amazon, an emulated TI x3130, QEMU's root ports.
pub fn emulated_bridge(pair: Option<(u16, u16)>) -> bool {
    matches!(
        pair,
        Some(
            (0x1b36, _) | (0x1d0f, 0x0200) | (0x104c, 0x8232 | 0x8233) | (0x8086, 0x29c0 | 0x3420)
        )
    )
}

/// The switch that `index` is part of: a Broadcom switch directly below one of its generation is one
/// product with it, as NCCL has it.
fn head_of_cascade(topology: &Topology, index: usize) -> Option<usize> {
    let parent =
        topology.chain(index).skip(1).find(|&at| topology.nodes[at].kind == Kind::Switch)?;
    let same = broadcom(topology, parent, 0)? == broadcom(topology, index, 1)?;
    same.then_some(parent)
}

/// Generation of a Broadcom switch that stands at that level of a cascade.
fn broadcom(topology: &Topology, index: usize, level: u64) -> Option<u8> {
    let ids = topology.nodes[index].ids;
    let part = |fact: super::model::Fact<u16>| fact.known().map(u64::from);
    let id = part(ids.vendor)? << 48
        | part(ids.device)? << 32
        | part(ids.subvendor)? << 16
        | part(ids.subdevice)?;
    match id & !0xfff {
        0x1000_c010_1000_a000 => Some(4),
        masked if masked == (0x1000_c030_1000_0000 | (level * 0x1000)) => Some(5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{Fact, Gpu, Ids, Node, Source};
    use super::*;

    fn node(parent: Option<usize>, kind: Kind) -> Node {
        Node { parent, kind, ..Node::default() }
    }

    fn ids(vendor: u16, device: u16, subvendor: u16, subdevice: u16) -> Ids {
        Ids {
            vendor: Fact::Known(vendor),
            device: Fact::Known(device),
            subvendor: Fact::Known(subvendor),
            subdevice: Fact::Known(subdevice),
        }
    }

    fn class(topology: &Topology, a: usize, b: usize) -> Class {
        let seen = (0..topology.nodes.len()).filter_map(|at| topology.numa(at));
        between(topology, &Sockets::of(topology, seen), a, b)
    }

    /// Root complex, root port, switch with two more switches below it, an endpoint on each.
    fn cascade(parent: Ids, child: Ids) -> Topology {
        let mut topology = Topology::new(Source::Sysfs);
        let complex = topology.add(node(None, Kind::RootComplex));
        let port = topology.add(node(Some(complex), Kind::RootPort));
        let top = topology.add(Node { ids: parent, ..node(Some(port), Kind::Switch) });
        for _ in 0..2 {
            let down = topology.add(Node { ids: parent, ..node(Some(top), Kind::DownstreamPort) });
            let switch = topology.add(Node { ids: child, ..node(Some(down), Kind::Switch) });
            let down =
                topology.add(Node { ids: child, ..node(Some(switch), Kind::DownstreamPort) });
            topology.add(node(Some(down), Kind::Endpoint));
        }
        topology
    }

    #[test]
    fn a_broadcom_cascade_of_one_generation_is_one_switch() {
        let gen5 = cascade(ids(0x1000, 0xc030, 0x1000, 0x72), ids(0x1000, 0xc030, 0x1000, 0x1003));
        assert_eq!(class(&gen5, 6, 10), Class::Pix);
        let gen4 =
            cascade(ids(0x1000, 0xc010, 0x1000, 0xa072), ids(0x1000, 0xc010, 0x1000, 0xa001));
        assert_eq!(class(&gen4, 6, 10), Class::Pix);
        let plx = cascade(ids(0x10b5, 0x9797, 0x10b5, 0x9797), ids(0x10b5, 0x9797, 0x10b5, 0x9797));
        assert_eq!(class(&plx, 6, 10), Class::Pxb);
        let wrong_level =
            cascade(ids(0x1000, 0xc030, 0x1000, 0x1003), ids(0x1000, 0xc030, 0x1000, 0x72));
        assert_eq!(class(&wrong_level, 6, 10), Class::Pxb);
    }

    #[test]
    fn switches_of_adapters_and_bridges_of_gpus_do_not_count() {
        let mut topology = Topology::new(Source::Sysfs);
        let complex = topology.add(node(None, Kind::RootComplex));
        let outer = topology.add(node(Some(complex), Kind::Switch));
        let inner = Node { ids: ids(0x15b3, 0x1979, 0, 0), ..node(Some(outer), Kind::Switch) };
        let inner = topology.add(inner);
        let hca = topology.add(node(Some(inner), Kind::Endpoint));
        let bridge = Node { ids: ids(0x1022, 0x1500, 0, 0), ..node(Some(outer), Kind::Switch) };
        let bridge = topology.add(bridge);
        let gpu = topology.add(node(Some(bridge), Kind::Endpoint));
        assert_eq!(class(&topology, gpu, hca), Class::Pix);
    }

    #[test]
    fn part_of_a_cascade_is_a_switch_even_where_its_head_is_not_on_the_path() {
        let gen4 = ids(0x1000, 0xc010, 0x1000, 0xa096);
        let mut topology = cascade(gen4, gen4);
        // A bridge below the first part of the cascade that belongs to no list, and a GPU below it.
        let bridge =
            topology.add(Node { ids: ids(0x1022, 0x14c7, 0, 0), ..node(Some(4), Kind::Switch) });
        let gpu = topology.add(node(Some(bridge), Kind::Endpoint));
        assert_eq!(class(&topology, gpu, 6), Class::Pxb);
    }

    #[test]
    fn complexes_and_sockets_decide_above_the_switches() {
        let mut topology = Topology::new(Source::Sysfs);
        let mut leaves = Vec::new();
        for numa in [0, 0, 1, 2] {
            let complex =
                topology.add(Node { numa: Fact::Known(numa), ..node(None, Kind::RootComplex) });
            for _ in 0..2 {
                let port = topology.add(node(Some(complex), Kind::RootPort));
                leaves.push(topology.add(node(Some(port), Kind::Endpoint)));
            }
        }
        assert_eq!(class(&topology, leaves[0], leaves[1]), Class::Phb);
        assert_eq!(class(&topology, leaves[0], leaves[2]), Class::Node);
        // Three NUMA nodes and no packages: 0 and 1 are taken as one socket.
        assert_eq!(class(&topology, leaves[0], leaves[4]), Class::NodeSameSocket);
        assert_eq!(class(&topology, leaves[0], leaves[6]), Class::Sys);
        topology.sockets = vec![Fact::Known(0), Fact::Known(1), Fact::Known(1)];
        assert_eq!(class(&topology, leaves[0], leaves[4]), Class::Sys);
        topology.nodes[leaves[0]].gpu = Some(Gpu { c2c: true, ..Gpu::default() });
        assert_eq!(class(&topology, leaves[0], leaves[1]), Class::P2c);
    }
}
