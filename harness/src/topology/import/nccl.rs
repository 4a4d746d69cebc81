//! Topology files of NCCL (version 1) and RCCL (version 2): `NCCL_TOPO_DUMP_FILE`, or a provider's
//! static file.
//!
//! A `<cpu>` is a NUMA node, a switch is one `<pci>` by its upstream port, root ports are left out.

use roxmltree::Node as Element;

use super::{DEPTH, hex, room, speed_mts, width};
use crate::topology::bdf::Bdf;
use crate::topology::devices::{self, Role};
use crate::topology::model::{Fact, Gpu, Hca, HcaPort, Ids, Kind, Link, Node, Source, Topology};

/// Reads the `<system>` element.
pub fn read(system: Element) -> Result<Topology, String> {
    let mut topology = Topology::new(Source::NcclXml);
    match system.attribute("version") {
        Some("1" | "2") => {}
        Some(other) => topology.notes.push(format!("version {other}: NCCL reads 1, RCCL 2")),
        None => topology.notes.push("the root element names no version".into()),
    }
    for cpu in elements(system, "cpu") {
        let numa = cpu.attribute("numaid").and_then(|text| text.parse::<i64>().ok());
        let complex = topology.add(Node {
            kind: Kind::RootComplex,
            numa: numa.and_then(|id| u32::try_from(id).ok()).filter(|id| *id < 4096).into(),
            label: cpu.attribute("arch").map(|arch| format!("{arch} processor")),
            ..Node::default()
        });
        for pci in elements(cpu, "pci") {
            function(&mut topology, pci, complex, 0)?;
        }
        for nic in elements(cpu, "nic") {
            loose_adapter(&mut topology, nic, complex);
        }
    }
    topology.machine.grace = topology.nodes.iter().any(|n| n.gpu.as_ref().is_some_and(|g| g.c2c));
    Ok(topology)
}

fn elements<'a, 'i>(
    parent: Element<'a, 'i>,
    name: &'static str,
) -> impl Iterator<Item = Element<'a, 'i>> {
    parent.children().filter(move |child| child.has_tag_name(name))
}

fn function(
    topology: &mut Topology,
    pci: Element,
    parent: usize,
    depth: usize,
) -> Result<(), String> {
    room(topology)?;
    if depth > DEPTH {
        return Err(format!("PCI functions nested more than {DEPTH} deep"));
    }
    let text = pci.attribute("busid").unwrap_or_default();
    let bdf: Bdf = text.parse().map_err(|error| format!("busid: {error}"))?;
    let class = pci.attribute("class").and_then(hex);
    let forwards = elements(pci, "pci").next().is_some();
    let ids = ids(pci);
    let role = class.map(|class| devices::role(class, ids.pair()));
    let index = topology.add(Node {
        parent: Some(parent),
        kind: if forwards || role == Some(Role::Bridge) { Kind::Switch } else { Kind::Endpoint },
        bdf: Some(bdf),
        class: class.into(),
        ids,
        link: Link {
            max_speed_mts: pci.attribute("link_speed").and_then(speed_mts).into(),
            max_width: pci.attribute("link_width").and_then(width).into(),
            ..Link::default()
        },
        gpu: gpu(pci, role, forwards),
        hca: adapter(pci, class, ids),
        ..Node::default()
    });
    for child in elements(pci, "pci") {
        function(topology, child, index, depth + 1)?;
    }
    Ok(())
}

fn ids(pci: Element) -> Ids {
    let id = |name: &str| -> Fact<u16> {
        pci.attribute(name).and_then(hex).and_then(|id| u16::try_from(id).ok()).into()
    };
    Ids {
        vendor: id("vendor"),
        device: id("device"),
        subvendor: id("subsystem_vendor"),
        subdevice: id("subsystem_device"),
    }
}

fn gpu(pci: Element, role: Option<Role>, forwards: bool) -> Option<Gpu> {
    let Some(element) = elements(pci, "gpu").next() else {
        return (role == Some(Role::Gpu) && !forwards).then(Gpu::default);
    };
    Some(Gpu {
        uuid: None,
        number: element.attribute("dev").and_then(|text| text.parse().ok()),
        c2c: elements(element, "c2c").next().is_some(),
        gdr: flag(element.attribute("gdr")),
        sm: element.attribute("sm").and_then(|text| text.parse().ok()).into(),
    })
}

/// `gdr`: NCCL wrote numbers, and since dma-buf numbers above 1.
fn flag(text: Option<&str>) -> Fact<bool> {
    text.and_then(|text| text.parse::<i64>().ok()).map(|value| value != 0).into()
}

fn adapter(pci: Element, class: Option<u32>, ids: Ids) -> Option<Hca> {
    let Some(nic) = elements(pci, "nic").next() else {
        let class = class?;
        let network = devices::role(class, ids.pair()) == Role::Network;
        return (network && devices::likely_verbs(class, ids.pair())).then(Hca::default);
    };
    hca(nic)
}

/// Verbs devices of a `<nic>`; none when it holds network interfaces alone.
fn hca(nic: Element) -> Option<Hca> {
    let nets: Vec<_> = elements(nic, "net").collect();
    let verbs = |net: &&Element| !net.attribute("name").is_some_and(devices::is_netdev_name);
    let ports: Vec<_> = nets.iter().filter(verbs).map(|net| port(*net)).collect();
    if ports.is_empty() && !nets.is_empty() {
        return None;
    }
    let guid = nets.iter().find_map(|net| net.attribute("guid")).and_then(real_guid);
    Some(Hca { ports, board: guid.map(str::to_owned), ..Hca::default() })
}

fn real_guid(guid: &str) -> Option<&str> {
    (guid.trim_start_matches("0x").chars().any(|c| c != '0')).then_some(guid)
}

fn port(net: Element) -> HcaPort {
    HcaPort {
        device: net.attribute("name").unwrap_or_default().to_owned(),
        rate_mbps: net.attribute("speed").and_then(|text| text.parse().ok()).into(),
        gdr: flag(net.attribute("gdr")),
        ..HcaPort::default()
    }
}

/// An adapter that the file hangs on a NUMA node, as NCCL does with what has no PCI path.
fn loose_adapter(topology: &mut Topology, nic: Element, complex: usize) {
    let Some(hca) = hca(nic) else { return };
    let names: Vec<_> = hca.ports.iter().map(|port| port.device.as_str()).collect();
    topology.notes.push(format!("{}: no PCI function in the file", names.join("+")));
    topology.add(Node { parent: Some(complex), hca: Some(hca), ..Node::default() });
}
