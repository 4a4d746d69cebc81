//! Adds to the tree what NVIDIA's management library tells of its GPUs.

use super::bdf::Bdf;
use super::model::{Fact, Link, Topology};
use crate::snapshot::{NvmlFacts, NvmlGpu};

/// Merges what the library said into the GPUs with the same address. What `/sys` has told stays; a
/// library that is not there, or told nothing, changes no verdict.
pub fn merge(topology: &mut Topology, facts: Option<&NvmlFacts>) {
    let Some(facts) = facts else { return };
    topology.machine.gpu_driver = facts.driver.clone();
    if let Some(problem) = &facts.problem {
        topology.notes.push(format!("NVML told nothing of the GPUs: {problem}"));
    }
    for told in &facts.gpus {
        let address: Option<Bdf> = told.pci.parse().ok();
        let same = |node: &&mut super::model::Node| node.bdf.is_some() && node.bdf == address;
        let node = topology.nodes.iter_mut().find(same).filter(|node| node.gpu.is_some());
        match node {
            Some(node) => {
                if let Some(gpu) = &mut node.gpu {
                    gpu.uuid = told.uuid.clone();
                }
                if node.label.is_none() {
                    node.label = told.name.clone();
                }
                node.link = completed(node.link, told);
            }
            None => {
                let name = told.name.as_deref().unwrap_or("a GPU");
                topology.notes.push(format!(
                    "NVML lists {name} at {}, where /sys shows no GPU: not judged",
                    told.pci
                ));
            }
        }
    }
}

fn completed(link: Link, told: &NvmlGpu) -> Link {
    let speed = |generation: Option<u32>| -> Fact<u32> { generation.and_then(speed_mts).into() };
    let lanes = |lanes: Option<u32>| -> Fact<u8> {
        lanes.and_then(|lanes| lanes.try_into().ok()).filter(|lanes| *lanes > 0).into()
    };
    let either = |a: Fact<u32>, b: Fact<u32>| if a.known().is_some() { a } else { b };
    let width = |a: Fact<u8>, b: Fact<u8>| if a.known().is_some() { a } else { b };
    Link {
        speed_mts: either(link.speed_mts, speed(told.link_generation)),
        width: width(link.width, lanes(told.link_width)),
        max_speed_mts: either(link.max_speed_mts, speed(told.max_link_generation)),
        max_width: width(link.max_width, lanes(told.max_link_width)),
    }
}

/// Speed of a lane by PCIe generation.
fn speed_mts(generation: u32) -> Option<u32> {
    Some(match generation {
        1 => 2500,
        2 => 5000,
        3 => 8000,
        4 => 16_000,
        5 => 32_000,
        6 => 64_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    fn machine() -> Topology {
        let text = r#"<system version="1"><cpu numaid="0"><pci busid="0000:10:00.0" class="0x060400">
            <pci busid="0000:11:00.0" class="0x030200" link_width="16" link_speed="32 GT/s"/>
            <pci busid="0000:12:00.0" class="0x030200" link_width="" link_speed=""/>
            </pci></cpu></system>"#;
        let mut topology = read("x", text.as_bytes()).unwrap();
        let first = topology.nodes.iter_mut().find(|node| node.gpu.is_some()).unwrap();
        first.link.speed_mts = Fact::Known(32_000);
        first.link.width = Fact::Known(16);
        topology
    }

    fn told(pci: &str) -> NvmlGpu {
        NvmlGpu {
            pci: pci.into(),
            uuid: Some(format!("GPU-{pci}")),
            name: Some("NVIDIA H200".into()),
            link_generation: Some(1),
            link_width: Some(8),
            max_link_generation: Some(5),
            max_link_width: Some(16),
        }
    }

    #[test]
    fn gpus_are_found_by_address_and_only_gaps_are_filled() {
        let mut topology = machine();
        let gpus = ["00000000:11:00.0", "00000000:12:00.0", "00000000:AF:00.0"];
        let facts = NvmlFacts {
            driver: Some("550.54.15".into()),
            problem: None,
            gpus: gpus.map(told).into(),
        };
        merge(&mut topology, Some(&facts));
        let at =
            |bdf: &str| topology.nodes.iter().find(|node| node.bdf == bdf.parse().ok()).unwrap();
        let (seen, unseen) = (at("0000:11:00.0"), at("0000:12:00.0"));
        assert_eq!(seen.gpu.as_ref().unwrap().uuid.as_deref(), Some("GPU-00000000:11:00.0"));
        assert_eq!(seen.label.as_deref(), Some("NVIDIA H200"));
        assert_eq!((seen.link.width, seen.link.speed_mts), (Fact::Known(16), Fact::Known(32_000)));
        assert_eq!((unseen.link.width, unseen.link.speed_mts), (Fact::Known(8), Fact::Known(2500)));
        assert_eq!(unseen.link.max_speed_mts, Fact::Known(32_000));
        assert_eq!(topology.machine.gpu_driver.as_deref(), Some("550.54.15"));
        assert!(topology.notes[0].contains("AF:00.0, where /sys shows no GPU"));
    }

    #[test]
    fn without_the_library_nothing_changes_and_its_failure_is_said() {
        let mut topology = machine();
        merge(&mut topology, None);
        assert_eq!(topology, machine());
        let facts = NvmlFacts { problem: Some("driver not loaded".into()), ..NvmlFacts::default() };
        merge(&mut topology, Some(&facts));
        assert_eq!(topology.nodes, machine().nodes);
        assert!(topology.notes[0].contains("driver not loaded"));
    }
}
