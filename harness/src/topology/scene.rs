//! GPUs, adapters and the class of each path between them: what the rules look at, whatever the
//! input was.

use std::collections::{BTreeMap, BTreeSet};

use super::bdf::Bdf;
use super::distance::{self, Class, Sockets};
use super::model::{Fact, Hca, Kind, LinkLayer, Matrix, Source, Topology};

/// GPUs, adapters and paths of one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// GPUs, in the order of their names.
    pub gpus: Vec<GpuView>,
    /// Adapters; the ports and functions of one card are one.
    pub adapters: Vec<Adapter>,
    /// Class of each GPU (outer) to each adapter (inner).
    pub classes: Vec<Vec<Class>>,
    /// Sockets were assumed from the number of NUMA nodes.
    pub sockets_assumed: bool,
    /// Number of places where adapters are, as far as the input can tell them apart.
    pub adapter_places: usize,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuView {
    /// `GPU0`, …
    pub name: String,
    /// Address, where the input has one.
    pub bdf: Option<Bdf>,
    /// Maker and device: GPUs with the same are siblings.
    pub model: Option<(u16, u16)>,
    /// Name of the product, where the input has one.
    pub label: Option<String>,
    /// Index in the tree.
    pub node: Option<usize>,
    /// Socket.
    pub socket: Option<u32>,
    /// Attached to its processor by C2C.
    pub c2c: bool,
    /// The input holds no row for it.
    pub missing: bool,
}

/// A network adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    /// Verbs devices, `mlx5_0+mlx5_1`, else the address.
    pub name: String,
    /// Verbs devices.
    pub devices: Vec<String>,
    /// Address of its first function.
    pub bdf: Option<Bdf>,
    /// Functions in the tree.
    pub nodes: Vec<usize>,
    /// Its Data Direct functions in the tree: where they are, GPU memory is reached through them.
    pub dma: Vec<usize>,
    /// Rate of its fastest port in Mb/s.
    pub rate_mbps: Option<u64>,
    /// Link layer of its first port.
    pub link_layer: Option<LinkLayer>,
    /// Why it takes no part; none when it may serve a GPU.
    pub excluded: Option<String>,
}

impl Scene {
    /// Looks at a topology.
    pub fn of(topology: &Topology) -> Self {
        match &topology.matrix {
            Some(matrix) => of_matrix(topology, matrix),
            None => of_tree(topology),
        }
    }

    /// Adapters that may serve a GPU.
    pub fn eligible(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.adapters.len()).filter(|&at| self.adapters[at].excluded.is_none())
    }

    /// The nearest class that a GPU has to an eligible adapter.
    pub fn best(&self, gpu: usize) -> Option<Class> {
        self.eligible().map(|hca| self.classes[gpu][hca]).min()
    }

    /// Adapters that no GPU shares a switch with.
    pub fn far(&self) -> impl Iterator<Item = usize> + '_ {
        self.eligible().filter(|&hca| !self.classes.iter().any(|row| row[hca].shares_switch()))
    }
}

fn of_tree(topology: &Topology) -> Scene {
    let seen = (0..topology.nodes.len()).filter_map(|at| topology.numa(at));
    let sockets = Sockets::of(topology, seen);
    let gpus = gpus(topology, &sockets);
    let adapters = adapters(topology);
    let class = |gpu: &GpuView, hca: &Adapter| -> Class {
        let paths = hca
            .nodes
            .iter()
            .chain(&hca.dma)
            .filter_map(|&node| Some(distance::between(topology, &sockets, gpu.node?, node)));
        paths.min().unwrap_or(Class::Unknown)
    };
    let classes =
        gpus.iter().map(|gpu| adapters.iter().map(|hca| class(gpu, hca)).collect()).collect();
    let adapter_places = adapters.iter().filter(|hca| hca.excluded.is_none()).count();
    Scene { gpus, adapters, classes, sockets_assumed: sockets.assumed(), adapter_places }
}

/// GPUs by the numbers that the input gives, else by address.
fn gpus(topology: &Topology, sockets: &Sockets) -> Vec<GpuView> {
    let mut found: Vec<(Option<u32>, GpuView)> = Vec::new();
    for (index, node) in topology.nodes.iter().enumerate() {
        let Some(gpu) = &node.gpu else { continue };
        let view = GpuView {
            name: String::new(),
            bdf: node.bdf,
            model: node.ids.pair(),
            label: node.label.as_deref().map(printable),
            node: Some(index),
            socket: topology.numa(index).map(|numa| sockets.socket(numa)),
            c2c: gpu.c2c,
            missing: false,
        };
        found.push((gpu.number, view));
    }
    let numbers: BTreeSet<Option<u32>> = found.iter().map(|(number, _)| *number).collect();
    let numbered = numbers.len() == found.len() && !numbers.contains(&None);
    found.sort_by_key(|(number, gpu)| (number.filter(|_| numbered), gpu.bdf));
    let name = |(at, (number, mut gpu)): (usize, (Option<u32>, GpuView))| {
        let number = number.filter(|_| numbered).unwrap_or(at as u32);
        gpu.name = format!("GPU{number}");
        gpu
    };
    found.into_iter().enumerate().map(name).collect()
}

/// What makes functions one card: their board where told, else the address without the function.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Card {
    Address(u32, u8, u8),
    Node(usize),
}

fn adapters(topology: &Topology) -> Vec<Adapter> {
    let mut cards: BTreeMap<Card, Vec<usize>> = BTreeMap::new();
    for (index, node) in topology.nodes.iter().enumerate() {
        let Some(hca) = &node.hca else { continue };
        let card = match (hca.virtual_of, node.bdf) {
            (Some(bdf), _) | (None, Some(bdf)) => {
                let (domain, bus, device) = bdf.card();
                Card::Address(domain, bus, device)
            }
            (None, None) => Card::Node(index),
        };
        cards.entry(card).or_default().push(index);
    }
    let mut adapters: Vec<_> = cards.into_values().map(|nodes| adapter(topology, nodes)).collect();
    let first_device = |hca: &Adapter| hca.devices.first().cloned().unwrap_or_default();
    adapters.sort_by(|a, b| {
        let by_name = crate::facts::natural_order(&first_device(a), &first_device(b));
        by_name.then(a.bdf.cmp(&b.bdf))
    });
    adapters
}

fn adapter(topology: &Topology, nodes: Vec<usize>) -> Adapter {
    // Virtual functions stand for their physical one only where that is not seen.
    let physical: Vec<usize> = nodes
        .iter()
        .copied()
        .filter(|&at| topology.nodes[at].hca.as_ref().is_some_and(|hca| hca.virtual_of.is_none()))
        .collect();
    let nodes = if physical.is_empty() { nodes } else { physical };
    let hcas: Vec<&Hca> = nodes.iter().filter_map(|&at| topology.nodes[at].hca.as_ref()).collect();
    let ports: Vec<_> = hcas.iter().flat_map(|hca| &hca.ports).collect();
    let mut devices: Vec<String> = Vec::new();
    for port in &ports {
        let device = printable(&port.device);
        if !device.is_empty() && !devices.contains(&device) {
            devices.push(device);
        }
    }
    let bdf = nodes.first().and_then(|&at| topology.nodes[at].bdf);
    let address = bdf.map_or_else(|| "HCA".to_owned(), |bdf| bdf.to_string());
    let down = !ports.is_empty() && ports.iter().all(|port| port.active == Fact::Known(false));
    let told = hcas.iter().find_map(|hca| hca.excluded.clone());
    let mut dma: Vec<usize> = hcas.iter().flat_map(|hca| hca.data_direct.iter().copied()).collect();
    dma.sort_unstable();
    dma.dedup();
    Adapter {
        name: if devices.is_empty() { address } else { devices.join("+") },
        devices,
        bdf,
        rate_mbps: ports.iter().filter_map(|port| port.rate_mbps.known()).max(),
        link_layer: ports.iter().find_map(|port| port.link_layer.known()),
        excluded: told.or_else(|| down.then(|| "no port is ACTIVE".to_owned())),
        nodes,
        dma,
    }
}

/// A name from an input as it may be printed: no control characters, and not endless.
fn printable(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

fn of_matrix(topology: &Topology, matrix: &Matrix) -> Scene {
    let seen = matrix.numa.iter().filter_map(|numa| numa.known());
    let sockets = Sockets::of(topology, seen);
    let classes: Vec<Vec<Class>> = (0..matrix.gpus.len())
        .map(|gpu| (0..matrix.hcas.len()).map(|hca| cell(matrix, &sockets, gpu, hca)).collect())
        .collect();
    let gpu = |(at, name): (usize, &String)| GpuView {
        name: printable(name),
        bdf: None,
        model: None,
        label: None,
        node: None,
        socket: matrix.numa[at].known().map(|numa| sockets.socket(numa)),
        c2c: false,
        missing: !matrix.hcas.is_empty()
            && classes[at].iter().all(|class| *class == Class::Unknown)
            && !matrix.damaged.iter().any(|(row, _)| row == name),
    };
    let adapter = |(at, name): (usize, &String)| {
        let name = printable(name);
        let device = Some(printable(&matrix.devices[at])).filter(|device| !device.is_empty());
        Adapter {
            name: device
                .as_ref()
                .map_or_else(|| name.clone(), |device| format!("{name} ({device})")),
            devices: vec![device.unwrap_or(name)],
            bdf: None,
            nodes: Vec::new(),
            dma: Vec::new(),
            rate_mbps: None,
            link_layer: None,
            excluded: None,
        }
    };
    // Two ports of one card and two cards side by side look alike: one place.
    let columns: BTreeSet<Vec<Class>> =
        (0..matrix.hcas.len()).map(|hca| classes.iter().map(|row| row[hca]).collect()).collect();
    Scene {
        gpus: matrix.gpus.iter().enumerate().map(gpu).collect(),
        adapters: matrix.hcas.iter().enumerate().map(adapter).collect(),
        classes: classes.clone(),
        sockets_assumed: sockets.assumed(),
        adapter_places: columns.len(),
    }
}

/// A cell, with SYS inside one socket read as what it is.
fn cell(matrix: &Matrix, sockets: &Sockets, gpu: usize, hca: usize) -> Class {
    let class = matrix.classes[gpu][hca];
    let numa = (matrix.numa[gpu].known(), matrix.hca_numa(hca));
    match (class, numa) {
        (Class::Sys, (Some(a), Some(b))) if a != b && sockets.socket(a) == sockets.socket(b) => {
            Class::NodeSameSocket
        }
        _ => class,
    }
}

/// Whether a guest shows its devices without the switches that they are behind: no switch on any
/// path, and a sign of a guest.
pub fn flat_guest(topology: &Topology, scene: &Scene) -> bool {
    if topology.matrix.is_some() || scene.classes.iter().flatten().any(|c| c.shares_switch()) {
        return false;
    }
    let ends: Vec<usize> = scene
        .gpus
        .iter()
        .filter_map(|gpu| gpu.node)
        .chain(scene.adapters.iter().flat_map(|hca| hca.nodes.iter().copied()))
        .collect();
    let real_switch = |&at: &usize| {
        topology.nodes[at].kind == Kind::Switch
            && !distance::emulated_bridge(topology.nodes[at].ids.pair())
    };
    if ends.iter().any(|&end| topology.chain(end).any(|at| real_switch(&at))) {
        return false;
    }
    topology.machine.guest == Fact::Known(true)
        || ends.iter().any(|&end| sign_of_guest(topology, end))
}

fn sign_of_guest(topology: &Topology, end: usize) -> bool {
    let node = &topology.nodes[end];
    let on_root_bus = node.parent.is_some_and(|up| topology.nodes[up].kind == Kind::RootComplex);
    let Some(bdf) = node.bdf else { return false };
    let root_bus = match topology.source {
        // Root ports are left out here: what hangs on a processor may be behind one, on a bus of
        // its own and there the only device.
        Source::NcclXml => on_root_bus && (bdf.bus == 0 || bdf.device != 0),
        _ => on_root_bus,
    };
    let emulated =
        topology.chain(end).any(|at| distance::emulated_bridge(topology.nodes[at].ids.pair()));
    let numa_hidden = topology.source == Source::NcclXml && topology.numa(end).is_none();
    root_bus || emulated || numa_hidden
}
