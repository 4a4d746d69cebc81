//! `/sys` as a snapshot holds it: live through an agent, or from an archive.

use std::collections::BTreeMap;

use super::{FUNCTIONS, hex, soft, speed_mts, sysfs_topology, vpd, width};
use crate::facts::view::View;
use crate::snapshot::Snapshot;
use crate::topology::bdf::Bdf;
use crate::topology::devices::{self, Role};
use crate::topology::model::{
    Acs, Fact, Gpu, Hca, HcaPort, Ids, Kind, Link, LinkLayer, Machine, Node, Topology,
};

pub(super) const PCI: &str = "/sys/bus/pci/devices";
pub(super) const INFINIBAND: &str = "/sys/class/infiniband";
const NODES: &str = "/sys/devices/system/node";

/// Reads the devices of a snapshot; an error when it holds neither devices nor processors of a
/// `/sys`.
pub fn read(snapshot: &Snapshot) -> Result<Topology, String> {
    if !snapshot.entries.keys().any(|path| path.starts_with("/sys/")) {
        return Err("an archive without a /sys".into());
    }
    let view = View::new(snapshot);
    let mut topology = sysfs_topology();
    numa(&view, &mut topology);
    topology.machine = machine(&view);
    let paths = functions(snapshot);
    if paths.len() > FUNCTIONS {
        return Err(format!("a machine of more than {FUNCTIONS} PCI functions"));
    }
    let placed = tree(&view, &paths, &mut topology);
    adapters(&view, &placed, &mut topology);
    soft::add(&view, &placed, &mut topology);
    vpd::add(&view, &mut topology);
    grace(&mut topology);
    iommu(&view, &mut topology);
    Ok(topology)
}

/// GPUs below a root port of NVIDIA's own processors reach it by C2C.
fn grace(topology: &mut Topology) {
    for index in 0..topology.nodes.len() {
        let below =
            topology.chain(index).any(|at| devices::is_grace_root(topology.nodes[at].ids.pair()));
        topology.machine.grace |= below;
        if let Some(gpu) = topology.nodes[index].gpu.as_mut().filter(|_| below) {
            gpu.c2c = true;
        }
    }
}

/// Real path of every PCI function.
fn functions(snapshot: &Snapshot) -> BTreeMap<Bdf, String> {
    let mut paths = BTreeMap::new();
    for name in snapshot.entries.keys() {
        let linked = name.strip_prefix(PCI).and_then(|rest| rest.strip_prefix('/'));
        if let Some(bdf) = linked.and_then(|rest| rest.parse::<Bdf>().ok()) {
            if let Some(target) = snapshot.link(name) {
                paths.insert(bdf, target.trim_end_matches('/').to_owned());
            }
        } else if let Some(device) = name.strip_suffix("/class")
            && device.starts_with("/sys/devices/")
            && let Some(bdf) = device.rsplit('/').next().and_then(|last| last.parse().ok())
        {
            paths.entry(bdf).or_insert_with(|| device.to_owned());
        }
    }
    paths
}

/// Builds the tree from the paths and tells where each function stands in it.
fn tree(
    view: &View,
    paths: &BTreeMap<Bdf, String>,
    topology: &mut Topology,
) -> BTreeMap<Bdf, usize> {
    let mut complexes: BTreeMap<&str, usize> = BTreeMap::new();
    let mut placed: BTreeMap<Bdf, usize> = BTreeMap::new();
    for path in paths.values() {
        let parts: Vec<&str> = path.split('/').collect();
        // Behind Intel VMD a second root complex stands in the path: the last one counts.
        let root = parts.iter().rposition(|part| part.starts_with("pci") && part.contains(':'));
        let Some(root) = root else { continue };
        let mut above = *complexes
            .entry(parts[root])
            .or_insert_with(|| topology.add(Node { kind: Kind::RootComplex, ..Node::default() }));
        for part in &parts[root + 1..] {
            let Ok(bdf) = part.parse::<Bdf>() else { break };
            above = *placed.entry(bdf).or_insert_with(|| topology.add(function(view, bdf, above)));
        }
    }
    kinds(view, topology);
    placed
}

fn function(view: &View, bdf: Bdf, parent: usize) -> Node {
    let text = |name: &str| view.text(&format!("{PCI}/{bdf}/{name}"));
    let id = |name: &str| -> Fact<u16> {
        text(name).and_then(hex).and_then(|id| u16::try_from(id).ok()).into()
    };
    let ids = Ids {
        vendor: id("vendor"),
        device: id("device"),
        subvendor: id("subsystem_vendor"),
        subdevice: id("subsystem_device"),
    };
    let class = text("class").and_then(hex);
    let role = class.map(|class| devices::role(class, ids.pair()));
    let group = view.link(&format!("{PCI}/{bdf}/iommu_group"));
    Node {
        parent: Some(parent),
        bdf: Some(bdf),
        class: class.into(),
        ids,
        numa: text("numa_node").and_then(|node| node.parse::<u32>().ok()).into(),
        link: Link {
            speed_mts: text("current_link_speed").and_then(speed_mts).into(),
            width: text("current_link_width").and_then(width).into(),
            max_speed_mts: text("max_link_speed").and_then(speed_mts).into(),
            max_width: text("max_link_width").and_then(width).into(),
        },
        iommu_group: group.and_then(|path| path.rsplit('/').next()?.parse().ok()).into(),
        gpu: (role == Some(Role::Gpu)).then(Gpu::default),
        ..Node::default()
    }
}

/// Tells what each bridge is: by its PCIe capability where that could be read, else by its depth.
fn kinds(view: &View, topology: &mut Topology) {
    let forwards = topology.children();
    for (index, below) in forwards.iter().enumerate() {
        let Some(bdf) = topology.nodes[index].bdf else { continue };
        let config = view.text(&format!("{PCI}/{bdf}/config")).map(config_bytes);
        let config = config.unwrap_or_default();
        let bridge = topology.nodes[index].class.known().map(|class| class >> 8) == Some(0x0604);
        let depth = topology.chain(index).count() - 1;
        let node = &mut topology.nodes[index];
        node.acs = acs(&config, bridge);
        if bridge || !below.is_empty() {
            node.kind = port_type(&config).unwrap_or(match depth {
                1 => Kind::RootPort,
                depth if depth % 2 == 0 => Kind::Switch,
                _ => Kind::DownstreamPort,
            });
        }
        if config.len() > 64 {
            topology.machine.root = Fact::Known(true);
        } else if !config.is_empty() && topology.machine.root == Fact::Unknown {
            topology.machine.root = Fact::Known(false);
        }
    }
}

/// Configuration space as text: hex digits.
pub fn config_text(content: &[u8]) -> String {
    content.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(in crate::topology) fn config_bytes(text: &str) -> Vec<u8> {
    let digits = text.as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks_exact(2).map_while(pair).collect()
}

/// Kind by the PCI Express capability (id 0x10): bits 7:4 of its flags.
fn port_type(config: &[u8]) -> Option<Kind> {
    let mut at = *config.get(0x34)? as usize & !3;
    for _ in 0..48 {
        if at < 0x40 {
            return None;
        }
        if *config.get(at)? == 0x10 {
            return Some(match config.get(at + 2)? >> 4 {
                4 => Kind::RootPort,
                5 => Kind::Switch,
                6 => Kind::DownstreamPort,
                7 | 8 => Kind::OtherBridge,
                _ => Kind::Endpoint,
            });
        }
        at = *config.get(at + 1)? as usize & !3;
    }
    None
}

/// ACS control (extended capability 0x000d, at +6); only root sees extended capabilities.
fn acs(config: &[u8], bridge: bool) -> Fact<Acs> {
    if !bridge || config.is_empty() {
        return Fact::Unknown;
    }
    if config.len() < 4096 {
        return Fact::NotPermitted;
    }
    let word = |at: usize| u16::from_le_bytes([config[at], config[at + 1]]);
    let mut at = 0x100;
    for _ in 0..96 {
        if !(0x100..=4088).contains(&at) {
            break;
        }
        if word(at) == 0x000d {
            return Fact::Known(Acs::of_control(word(at + 6)));
        }
        at = usize::from(word(at + 2) >> 4) & !3;
    }
    Fact::Known(Acs::default())
}

/// Hangs the verbs devices on their functions. Software devices have none.
fn adapters(view: &View, placed: &BTreeMap<Bdf, usize>, topology: &mut Topology) {
    let mut names = view.children(INFINIBAND);
    names.sort_by(|a, b| crate::facts::natural_order(a, b));
    for name in names {
        let root = format!("{INFINIBAND}/{name}");
        let Some(real) = view.link(&root).filter(|path| !path.contains("/virtual/")) else {
            continue;
        };
        let bdf = real.rsplit('/').find_map(|part| part.parse::<Bdf>().ok());
        let Some(&index) = bdf.and_then(|bdf| placed.get(&bdf)) else { continue };
        let node = &mut topology.nodes[index];
        // A misread class must not make an adapter a GPU.
        node.gpu = None;
        let hca = node.hca.get_or_insert_with(Hca::default);
        hca.board = view.text(&format!("{root}/sys_image_guid")).map(str::to_owned);
        if let Some(bdf) = bdf {
            let physical = view.link(&format!("{PCI}/{bdf}/physfn"));
            hca.virtual_of = physical.and_then(|path| path.rsplit('/').next()?.parse().ok());
        }
        hca.ports.extend(ports(view, &root, &name));
    }
}

pub(super) fn ports(view: &View, root: &str, name: &str) -> Vec<HcaPort> {
    let port = |number: &String| {
        let text = |file: &str| view.text(&format!("{root}/ports/{number}/{file}"));
        let layer = text("link_layer").and_then(|layer| match layer {
            "InfiniBand" => Some(LinkLayer::InfiniBand),
            "Ethernet" => Some(LinkLayer::Ethernet),
            _ => None,
        });
        HcaPort {
            device: name.to_owned(),
            rate_mbps: text("rate").and_then(rate_mbps).into(),
            active: text("state").map(|state| state.starts_with("4:")).into(),
            link_layer: layer.into(),
            gdr: Fact::Unknown,
        }
    };
    let ports: Vec<_> = view.children(&format!("{root}/ports")).iter().map(port).collect();
    match ports.is_empty() {
        true => vec![HcaPort { device: name.to_owned(), ..HcaPort::default() }],
        false => ports,
    }
}

/// `100 Gb/sec (4X EDR)`, `2.5 Gb/sec (1X SDR)`.
fn rate_mbps(text: &str) -> Option<u64> {
    let gbps: f64 = text.split_whitespace().next()?.parse().ok()?;
    (gbps > 0.0 && gbps < 100_000.0).then_some((gbps * 1000.0) as u64)
}

fn numa(view: &View, topology: &mut Topology) {
    for name in view.children(NODES) {
        let Some(node) = name.strip_prefix("node").and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        if node >= 4096 {
            continue;
        }
        topology.numa_nodes = topology.numa_nodes.max(node + 1);
        topology.sockets.resize(topology.numa_nodes as usize, Fact::Unknown);
        let list = view.text(&format!("{NODES}/{name}/cpulist")).unwrap_or_default();
        let first = list.split([',', '-']).next().unwrap_or_default();
        let file = format!("/sys/devices/system/cpu/cpu{first}/topology/physical_package_id");
        topology.sockets[node as usize] = view.number::<u32>(&file).into();
    }
}

fn machine(view: &View) -> Machine {
    const DMI: &str = "/sys/class/dmi/id";
    let dmi = |file: &str| view.text(&format!("{DMI}/{file}"));
    let words: Vec<&str> = [dmi("sys_vendor"), dmi("product_name")].into_iter().flatten().collect();
    let product = (!words.is_empty()).then(|| words.join(" "));
    let flags = view.text("/proc/cpuinfo").unwrap_or_default();
    let hypervisor = flags.split_whitespace().any(|flag| flag == "hypervisor");
    let by_name = product.as_deref().is_some_and(is_guest_product);
    let guest = match (hypervisor || by_name, flags.is_empty()) {
        (true, _) => Fact::Known(true),
        (false, false) => Fact::Known(false),
        (false, true) => Fact::Unknown,
    };
    Machine {
        product,
        guest,
        peer_memory: peer_memory(view),
        dma_buf: view
            .text("/proc/driver/nvidia/version")
            .map(|version| version.contains("Open Kernel Module"))
            .into(),
        ..Machine::default()
    }
}

/// Whether a product name is that of a hypervisor's guest.
pub fn is_guest_product(product: &str) -> bool {
    // Bare-metal instances of Amazon and others bear the provider's name too.
    const GUESTS: [&str; 11] = [
        "QEMU",
        "KVM",
        "VMware",
        "VirtualBox",
        "Xen",
        "Bochs",
        "Google Compute Engine",
        "Virtual Machine",
        "RHEV",
        "OpenStack",
        "Red Hat",
    ];
    let amazon = product.contains("Amazon EC2") && !product.contains(".metal");
    amazon || GUESTS.iter().any(|guest| product.contains(guest))
}

fn peer_memory(view: &View) -> Fact<bool> {
    const FILES: [&str; 4] = [
        "/sys/module/nvidia_peermem",
        "/sys/kernel/mm/memory_peers/nv_mem",
        "/sys/kernel/mm/memory_peers/nv_mem_nc",
        "/sys/kernel/mm/memory_peers/amdkfd",
    ];
    if FILES.iter().any(|path| view.exists(path)) {
        return Fact::Known(true);
    }
    let modules = view.text("/proc/modules");
    let loaded = |list: &str| {
        list.lines()
            .any(|line| matches!(line.split(' ').next(), Some("nvidia_peermem" | "nv_peer_mem")))
    };
    modules.map(loaded).into()
}

/// Type of the IOMMU domains that GPUs and adapters are in.
fn iommu(view: &View, topology: &mut Topology) {
    let concerned = |node: &&Node| node.gpu.is_some() || node.hca.is_some();
    let groups: Vec<u32> = topology
        .nodes
        .iter()
        .filter(concerned)
        .filter_map(|node| node.iommu_group.as_known().copied())
        .collect();
    let kind = |group: &u32| view.text(&format!("/sys/kernel/iommu_groups/{group}/type"));
    let mut kinds: Vec<&str> = groups.iter().filter_map(kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if !kinds.is_empty() {
        topology.machine.iommu = Fact::Known(kinds.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_type_is_read_from_the_capability_list() {
        let mut config = vec![0u8; 4096];
        config[0x34] = 0x40;
        config[0x40..0x43].copy_from_slice(&[0x01, 0x50, 0]);
        config[0x50..0x53].copy_from_slice(&[0x10, 0x00, 0x52]);
        assert_eq!(port_type(&config), Some(Kind::Switch));
        config[0x41] = 0x40;
        assert_eq!(port_type(&config), None, "a list in a circle ends");
        assert_eq!(port_type(&config[..64]), None);
    }

    #[test]
    fn acs_is_found_among_the_extended_capabilities() {
        let mut config = vec![0u8; 4096];
        config[0x100..0x104].copy_from_slice(&[0x01, 0x00, 0x02, 0x15]);
        config[0x150..0x158].copy_from_slice(&[0x0d, 0x00, 0x01, 0x00, 0, 0, 0x1d, 0x00]);
        let found = acs(&config, true).known().unwrap();
        assert!(found.request_redirect && found.completion_redirect && !found.direct_translated);
        assert_eq!(acs(&config[..256], true), Fact::NotPermitted);
        assert_eq!(config_bytes(&config_text(&config)), config);
    }
}
