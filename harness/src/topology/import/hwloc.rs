//! hwloc's XML export, versions 1 to 3.
//!
//! Bridges of type `0-1` are root complexes; `1-1` are root ports and both kinds of switch ports,
//! which are told apart by their depth: root port, upstream, downstream, upstream, …

use roxmltree::Node as Element;

use super::{DEPTH, hex, room};
use crate::topology::bdf::Bdf;
use crate::topology::devices::{self, Role};
use crate::topology::model::{Fact, Gpu, Hca, HcaPort, Ids, Kind, Node, Source, Topology};

/// Largest number of a NUMA node that is taken.
const NUMA_LIMIT: u32 = 4096;

/// Reads the `<topology>` element.
pub fn read(element: Element) -> Result<Topology, String> {
    let version = element.attribute("version").unwrap_or("1");
    let mut reader = Reader {
        topology: Topology::new(Source::HwlocXml),
        openfabrics: openfabrics(version),
        names_verbs: false,
    };
    reader.names_verbs = element.descendants().any(|object| reader.is_openfabrics(object));
    for object in objects(element) {
        reader.object(object, &Place::default(), 0)?;
    }
    let mut topology = reader.topology;
    topology.numa_nodes = topology.numa_nodes.max(1);
    Ok(topology)
}

/// The bit or number that marks an OpenFabrics device, by version.
fn openfabrics(version: &str) -> OpenFabrics {
    match version.split('.').next().and_then(|major| major.parse::<u32>().ok()) {
        Some(major) if major >= 3 => OpenFabrics::Bit(1 << 5),
        _ => OpenFabrics::Number(3),
    }
}

#[derive(Clone, Copy)]
enum OpenFabrics {
    Number(u32),
    Bit(u32),
}

struct Reader {
    topology: Topology,
    openfabrics: OpenFabrics,
    /// Whether any verbs device is named: then an adapter without one has none.
    names_verbs: bool,
}

/// Where an object stands.
#[derive(Clone, Default)]
struct Place {
    numa: Option<u32>,
    parent: Option<usize>,
    /// PCI bridges between the root complex and here.
    bridges: usize,
}

fn objects<'a, 'i>(parent: Element<'a, 'i>) -> impl Iterator<Item = Element<'a, 'i>> {
    parent.children().filter(|child| child.has_tag_name("object"))
}

impl Reader {
    fn object(&mut self, object: Element, place: &Place, depth: usize) -> Result<(), String> {
        if depth > 4 * DEPTH {
            return Err("objects nested too deep".into());
        }
        let mut place = place.clone();
        match object.attribute("type").unwrap_or_default() {
            "Bridge" => place = self.bridge(object, &place)?,
            "PCIDev" => {
                self.device(object, &place)?;
                return Ok(());
            }
            kind => self.locality(object, kind, &mut place),
        }
        for child in objects(object) {
            self.object(child, &place, depth + 1)?;
        }
        Ok(())
    }

    /// Notes NUMA nodes and packages, and where things below `object` are.
    fn locality(&mut self, object: Element, kind: &str, place: &mut Place) {
        let nodes = object.attribute("nodeset").map(bits).unwrap_or_default();
        let number = object.attribute("os_index").and_then(|text| text.parse::<u32>().ok());
        match kind {
            "NUMANode" => {
                let end = number.filter(|n| *n < NUMA_LIMIT).map_or(0, |number| number + 1);
                self.topology.numa_nodes = self.topology.numa_nodes.max(end);
            }
            "Package" | "Socket" => {
                for &node in &nodes {
                    let sockets = &mut self.topology.sockets;
                    if sockets.len() <= node as usize {
                        sockets.resize(node as usize + 1, Fact::Unknown);
                    }
                    sockets[node as usize] = number.into();
                }
            }
            "Machine" | "System" => self.machine(object),
            _ => {}
        }
        if let [only] = nodes[..] {
            place.numa = Some(only);
        } else if !nodes.is_empty() {
            place.numa = None;
        }
    }

    fn machine(&mut self, object: Element) {
        let info = |name: &str| {
            object
                .children()
                .find(|c| c.has_tag_name("info") && c.attribute("name") == Some(name))
                .and_then(|info| info.attribute("value"))
        };
        let parts: Vec<_> =
            [info("DMISysVendor"), info("DMIProductName")].into_iter().flatten().collect();
        if !parts.is_empty() {
            let product = parts.join(" ");
            if super::sysfs::is_guest_product(&product) {
                self.topology.machine.guest = Fact::Known(true);
            }
            self.topology.machine.product = Some(product);
        }
        if info("HypervisorType").is_some() || info("CPUHypervisor").is_some() {
            self.topology.machine.guest = Fact::Known(true);
        }
    }

    fn bridge(&mut self, object: Element, place: &Place) -> Result<Place, String> {
        room(&self.topology)?;
        let host = object.attribute("bridge_type") == Some("0-1");
        let bdf = address(object)?;
        let bridges = if host { 0 } else { place.bridges + 1 };
        let kind = match (host, bridges) {
            (true, _) => Kind::RootComplex,
            (false, 1) => Kind::RootPort,
            (false, depth) if depth % 2 == 0 => Kind::Switch,
            _ => Kind::DownstreamPort,
        };
        let (class, ids) = pci_type(object);
        let index = self.topology.add(Node {
            parent: if host { None } else { place.parent },
            kind,
            bdf,
            class: class.into(),
            ids,
            numa: place.numa.into(),
            ..Node::default()
        });
        Ok(Place { numa: place.numa, parent: Some(index), bridges })
    }

    fn device(&mut self, object: Element, place: &Place) -> Result<(), String> {
        room(&self.topology)?;
        let (class, ids) = pci_type(object);
        let role = class.map(|class| devices::role(class, ids.pair()));
        let bdf = address(object)?;
        let parent = match place.parent {
            Some(parent) => parent,
            None => self.topology.add(Node {
                kind: Kind::RootComplex,
                numa: place.numa.into(),
                ..Node::default()
            }),
        };
        let node = Node {
            parent: Some(parent),
            bdf,
            class: class.into(),
            ids,
            label: device_name(object),
            numa: place.numa.into(),
            gpu: (role == Some(Role::Gpu)).then(Gpu::default),
            hca: self.adapter(object, class.unwrap_or(0), ids, role),
            ..Node::default()
        };
        self.topology.add(node);
        Ok(())
    }

    fn adapter(&self, object: Element, class: u32, ids: Ids, role: Option<Role>) -> Option<Hca> {
        let verbs: Vec<_> = objects(object).filter(|child| self.is_openfabrics(*child)).collect();
        if verbs.is_empty() {
            let assumed = !self.names_verbs
                && role == Some(Role::Network)
                && (devices::likely_verbs(class, ids.pair()) && ids.pair().is_some());
            return assumed.then(Hca::default);
        }
        let guid = verbs.iter().find_map(|device| info(*device, "SysImageGUID"));
        Some(Hca {
            ports: verbs.iter().map(|device| port(*device)).collect(),
            board: guid.map(str::to_owned),
            ..Hca::default()
        })
    }

    fn is_openfabrics(&self, object: Element) -> bool {
        let kind = object.attribute("osdev_type").and_then(|text| text.parse::<u32>().ok());
        object.attribute("type") == Some("OSDev")
            && match (self.openfabrics, kind) {
                (OpenFabrics::Number(number), Some(kind)) => number == kind,
                (OpenFabrics::Bit(bit), Some(kind)) => kind & bit != 0,
                (_, None) => false,
            }
    }
}

fn info<'a>(object: Element<'a, '_>, name: &str) -> Option<&'a str> {
    let named =
        |child: &Element| child.has_tag_name("info") && child.attribute("name") == Some(name);
    object.children().find(named)?.attribute("value")
}

fn port(device: Element) -> HcaPort {
    HcaPort {
        device: device.attribute("name").unwrap_or_default().to_owned(),
        active: info(device, "Port1State").map(|state| state == "4").into(),
        ..HcaPort::default()
    }
}

fn device_name(object: Element) -> Option<String> {
    let name = info(object, "PCIDevice").or_else(|| object.attribute("name"))?;
    (!name.is_empty()).then(|| name.to_owned())
}

fn address(object: Element) -> Result<Option<Bdf>, String> {
    let Some(text) = object.attribute("pci_busid") else { return Ok(None) };
    text.parse().map(Some).map_err(|error| format!("pci_busid: {error}"))
}

/// `0302 [10de:1db8] [10de:131d] a1 00`.
fn pci_type(object: Element) -> (Option<u32>, Ids) {
    let text = object.attribute("pci_type").unwrap_or_default();
    let mut words = text.split_whitespace();
    let class = words.next().and_then(hex).map(|class| class << 8);
    let mut pair = || -> Option<(u16, u16)> {
        let (a, b) = words.next()?.trim_matches(['[', ']']).split_once(':')?;
        Some((u16::try_from(hex(a)?).ok()?, u16::try_from(hex(b)?).ok()?))
    };
    let (device, subsystem) = (pair(), pair());
    let ids = Ids {
        vendor: device.map(|pair| pair.0).into(),
        device: device.map(|pair| pair.1).into(),
        subvendor: subsystem.map(|pair| pair.0).into(),
        subdevice: subsystem.map(|pair| pair.1).into(),
    };
    (class, ids)
}

/// Numbers of the bits in hwloc's masks: `0x00000003`, `0x1,0x0` (highest word first).
fn bits(mask: &str) -> Vec<u32> {
    let words = mask.trim_start_matches("0xf...f").split(',');
    let mut found = Vec::new();
    for (place, word) in words.rev().enumerate().take((NUMA_LIMIT / 32) as usize) {
        let word = hex(word).unwrap_or(0);
        let base = place as u32 * 32;
        found.extend((0..32).filter(|bit| word & (1 << bit) != 0).map(|bit| base + bit));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_nodes_are_read_word_by_word() {
        assert_eq!(bits("0x00000001"), [0]);
        assert_eq!(bits("0x00000002"), [1]);
        assert_eq!(bits("0x1,0x80000001"), [0, 31, 32]);
        assert_eq!(bits(""), [] as [u32; 0]);
    }
}
