//! Remarks beside the class: links, ACS, IOMMU, software, and what is odd about the whole. They never
//! change a class.

mod acs;

use fabbench_reports::model::Status;

use super::distance::{self, Class};
use super::judge::{GpuVerdict, comparable};
use super::model::{Fact, Kind, Source, Topology};
use super::scene::{Adapter, Scene};

/// A remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// `link`, `acs`, `iommu`, `gdr`, `pairing` or `role`.
    pub id: &'static str,
    /// Device that it is about.
    pub object: String,
    /// Pass, warn or fail; unjudged for a remark, unknown for what could not be seen.
    pub status: Status,
    /// What was found.
    pub text: String,
    /// What to do; empty when there is nothing.
    pub remedy: String,
}

/// All remarks about a machine.
pub fn all(topology: &Topology, scene: &Scene, gpus: &[GpuVerdict]) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(links(topology, scene));
    found.extend(peers(topology, scene));
    found.extend(shared_uplinks(topology, scene));
    found.extend(acs::acs(topology, scene, gpus));
    found.extend(iommu(topology));
    found.extend(software(topology));
    found.extend(pairing(scene, gpus));
    found.extend(roles(scene));
    found
}

fn remark(id: &'static str, object: &str, status: Status, text: String) -> Finding {
    Finding { id, object: object.to_owned(), status, text, remedy: String::new() }
}

/// Gen of a speed: 1 for 2.5 GT/s … 6 for 64 GT/s.
pub fn generation(mts: u32) -> u8 {
    match mts {
        0..=2_500 => 1,
        2_501..=5_000 => 2,
        5_001..=8_000 => 3,
        8_001..=16_000 => 4,
        16_001..=32_000 => 5,
        _ => 6,
    }
}

/// What a PCIe link carries in Mb/s after its line code (8b/10b up to 5 GT/s, then 128b/130b),
/// before the headers of packets.
pub fn link_mbps(speed_mts: u32, lanes: u8) -> u64 {
    let raw = u64::from(speed_mts) * u64::from(lanes);
    if speed_mts <= 5_000 { raw * 8 / 10 } else { raw * 128 / 130 }
}

/// Links that run below what both ends are capable of.
fn links(topology: &Topology, scene: &Scene) -> Vec<Finding> {
    let mut found = Vec::new();
    for hca in &scene.adapters {
        for &at in &hca.nodes {
            found.extend(downtrained(topology, at, &hca.name, hca.rate_mbps));
        }
        found.extend(too_slow(topology, hca));
    }
    for gpu in &scene.gpus {
        let Some(at) = gpu.node else { continue };
        found.extend(downtrained(topology, at, &gpu.name, None));
    }
    found.dedup_by(|a, b| a.object == b.object && a.text == b.text);
    found
}

fn downtrained(
    topology: &Topology,
    at: usize,
    name: &str,
    rate_mbps: Option<u64>,
) -> Option<Finding> {
    let node = &topology.nodes[at];
    if behind_emulated(topology, at) {
        return None;
    }
    let (lanes, speed) = (node.link.width.known()?, node.link.speed_mts.known()?);
    let (can_lanes, can_speed) = capability(topology, at)?;
    let is_gpu = node.gpu.is_some();
    let narrow = lanes < can_lanes;
    // GPUs drop to 2.5 GT/s when idle; adapters do not.
    let slow = speed < can_speed && !is_gpu;
    if !narrow && !slow {
        return None;
    }
    let carries = link_mbps(speed, lanes);
    let halved = rate_mbps.is_some_and(|rate| carries * 2 <= rate);
    let bdf = node.bdf.map(|bdf| bdf.to_string()).unwrap_or_default();
    let of = rate_mbps.map_or_else(String::new, |rate| format!(" of {:.0}", rate as f64 / 1e3));
    Some(Finding {
        id: "link",
        object: name.to_owned(),
        status: if halved { Status::Fail } else { Status::Warn },
        text: format!(
            "{bdf} Gen{} x{lanes} (capable Gen{} x{can_lanes}): {:.0}{of} Gb/s",
            generation(speed),
            generation(can_speed),
            carries as f64 / 1e3
        ),
        remedy:
            "reseat the card, check the slot's width and the riser, and the BIOS setting of the \
                 slot's speed"
                .into(),
    })
}

/// Lanes and speed that both ends of the link above a function are capable of.
fn capability(topology: &Topology, at: usize) -> Option<(u8, u32)> {
    let node = &topology.nodes[at];
    let port = node.parent.map(|up| topology.nodes[up].link).unwrap_or_default();
    let lanes = node.link.max_width.known()?;
    let speed = node.link.max_speed_mts.known()?;
    Some((
        port.max_width.known().map_or(lanes, |port| port.min(lanes)),
        port.max_speed_mts.known().map_or(speed, |port| port.min(speed)),
    ))
}

/// Values of links below emulated bridges are made up.
fn behind_emulated(topology: &Topology, at: usize) -> bool {
    topology.chain(at).any(|at| distance::emulated_bridge(topology.nodes[at].ids.pair()))
}

/// Files that know one value a link: it must carry what the port does.
fn too_slow(topology: &Topology, hca: &Adapter) -> Option<Finding> {
    let node = &topology.nodes[*hca.nodes.first()?];
    if node.link.width != Fact::Unknown || behind_emulated(topology, *hca.nodes.first()?) {
        return None;
    }
    let (lanes, speed) = (node.link.max_width.known()?, node.link.max_speed_mts.known()?);
    let (carries, rate) = (link_mbps(speed, lanes), hca.rate_mbps?);
    (carries < rate).then(|| {
        let text = format!(
            "Gen{} x{lanes} carries {:.0} of {:.0} Gb/s",
            generation(speed),
            carries as f64 / 1e3,
            rate as f64 / 1e3
        );
        remark("link", &hca.name, Status::Warn, text)
    })
}

/// An adapter on fewer lanes than most of its model.
fn peers(topology: &Topology, scene: &Scene) -> Vec<Finding> {
    let lanes = |hca: &Adapter| {
        let node = &topology.nodes[*hca.nodes.first()?];
        Some((node.ids.pair()?, node.link.width.known().or(node.link.max_width.known())?))
    };
    let all: Vec<_> = scene.adapters.iter().filter_map(lanes).collect();
    let mut found = Vec::new();
    for hca in &scene.adapters {
        let Some((model, own)) = lanes(hca) else { continue };
        let wider = all.iter().filter(|(other, lanes)| *other == model && *lanes > own).count();
        let same = all.iter().filter(|(other, _)| *other == model).count();
        if wider * 2 > same {
            let text = format!("x{own}, while {wider} of the same model have more lanes");
            found.push(remark("link", &hca.name, Status::Warn, text));
        }
    }
    found
}

/// Adapters behind one switch whose uplink carries less than they do together.
fn shared_uplinks(topology: &Topology, scene: &Scene) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, node) in topology.nodes.iter().enumerate() {
        let below = |hca: &&Adapter| {
            hca.nodes.first().is_some_and(|&node| topology.chain(node).skip(1).any(|up| up == at))
        };
        if node.kind != Kind::Switch || behind_emulated(topology, at) {
            continue;
        }
        let sharing: Vec<&Adapter> = scene.adapters.iter().filter(below).collect();
        let link = node.link;
        let lanes = link.width.known().or(link.max_width.known());
        let speed = link.speed_mts.known().or(link.max_speed_mts.known());
        let (Some(lanes), Some(speed)) = (lanes, speed) else { continue };
        let rate: u64 = sharing.iter().filter_map(|hca| hca.rate_mbps).sum();
        let carries = link_mbps(speed, lanes);
        if sharing.len() > 1 && rate > carries {
            let names: Vec<&str> = sharing.iter().map(|hca| hca.name.as_str()).collect();
            let text = format!(
                "{} ask for {:.0} Gb/s over one uplink of {:.0} Gb/s; GPUDirect below the switch is \
                 not limited by it",
                names.join(", "),
                rate as f64 / 1e3,
                carries as f64 / 1e3
            );
            let bdf = node.bdf.map(|bdf| bdf.to_string()).unwrap_or_default();
            found.push(remark("link", &format!("switch {bdf}"), Status::Unjudged, text));
        }
    }
    found
}

fn iommu(topology: &Topology) -> Option<Finding> {
    let kind = topology.machine.iommu.as_known()?;
    if topology.machine.guest == Fact::Known(true) || !kind.contains("DMA") {
        return Some(remark("iommu", "IOMMU", Status::Pass, kind.clone()));
    }
    Some(Finding {
        id: "iommu",
        object: "IOMMU".into(),
        status: Status::Warn,
        text: format!("translates DMA ({kind}): peer traffic may be slower or refused"),
        remedy: "boot with iommu=pt (on bare metal; weakens isolation)".into(),
    })
}

/// Whether software lets adapters reach GPU memory.
fn software(topology: &Topology) -> Vec<Finding> {
    let mut found = Vec::new();
    let nvidia = topology
        .nodes
        .iter()
        .any(|node| node.gpu.is_some() && node.ids.vendor == Fact::Known(0x10de));
    let (peer, buf) = (topology.machine.peer_memory, topology.machine.dma_buf);
    match (peer, buf) {
        (Fact::Known(true), _) => {
            found.push(remark("gdr", "peer memory", Status::Pass, "module loaded".into()));
        }
        (_, Fact::Known(true)) => {
            found.push(remark("gdr", "dma-buf", Status::Pass, "the GPU driver exports it".into()));
        }
        (Fact::Known(false), Fact::Known(false)) if nvidia => found.push(Finding {
            id: "gdr",
            object: "GPU software".into(),
            status: Status::Fail,
            text: "GPUDirect impossible: neither nvidia_peermem nor a driver with dma-buf".into(),
            remedy: "modprobe nvidia_peermem (needs root), or install NVIDIA's open kernel modules"
                .into(),
        }),
        _ if topology.source == Source::Sysfs => {
            let text = "whether HCAs can reach GPU memory was not seen".into();
            found.push(remark("gdr", "GPU software", Status::Unknown, text));
        }
        _ => {}
    }
    let ports = topology.nodes.iter().filter_map(|node| node.hca.as_ref()).flat_map(|h| &h.ports);
    let off: Vec<&str> = ports
        .filter(|port| port.gdr == Fact::Known(false))
        .map(|port| port.device.as_str())
        .collect();
    if !off.is_empty() {
        let text = "gdr=0 in the file: NCCL saw no GPUDirect RDMA there (peer memory module or \
                    dma-buf missing when it was written)"
            .into();
        found.push(remark("gdr", &off.join(" "), Status::Unjudged, text));
    }
    found
}

/// GPUs that share an adapter, and pairings that the input cannot decide.
fn pairing(scene: &Scene, gpus: &[GpuVerdict]) -> Vec<Finding> {
    let idle = idle(scene, gpus);
    let mut found = Vec::new();
    for (at, hca) in scene.adapters.iter().enumerate() {
        let served: Vec<&str> = gpus
            .iter()
            .zip(&scene.gpus)
            .filter(|(verdict, _)| verdict.hca == Some(at))
            .map(|(_, gpu)| gpu.name.as_str())
            .collect();
        if served.len() > 1 {
            let text = format!("serves {} GPUs: {}", served.len(), served.join(" "));
            found.push(match idle {
                Some(idle) => Finding {
                    id: "pairing",
                    object: hca.name.clone(),
                    status: Status::Fail,
                    text: format!("{text}, while {idle} idles"),
                    remedy:
                        "a GPU or an HCA is in the wrong slot: compare with a node that is right \
                             (fabbench topo --compare A B)"
                            .into(),
                },
                None => remark("pairing", &hca.name, Status::Unjudged, text),
            });
        }
    }
    let crowded = gpus.iter().filter(|v| v.class == Class::Pix && v.equals.len() >= 4).count();
    if crowded >= 4 && gpus.iter().all(|verdict| verdict.class == Class::Pix) {
        let group = |verdict: &GpuVerdict| {
            gpus.iter().filter(|other| other.equals == verdict.equals).count() >= 4
        };
        if gpus.iter().all(group) {
            let text =
                "many GPUs and many HCAs are all PIX of each other, as hypervisors show it: \
                        which HCA is next to which GPU cannot be told"
                    .into();
            found.push(remark("pairing", "all GPUs", Status::Unjudged, text));
        }
    }
    found
}

/// An adapter of the same kind that serves no GPU, on a node that has adapters enough and on which
/// most GPUs have one to themselves: there, sharing is no design.
fn idle<'a>(scene: &'a Scene, gpus: &[GpuVerdict]) -> Option<&'a str> {
    let mut served = vec![0; scene.adapters.len()];
    gpus.iter().filter_map(|verdict| verdict.hca).for_each(|hca| served[hca] += 1);
    let own = |v: &&GpuVerdict| v.class.shares_switch() && v.hca.is_some_and(|h| served[h] == 1);
    let alone = gpus.iter().filter(own).count();
    if alone * 2 <= gpus.len() || scene.eligible().count() < gpus.len() {
        return None;
    }
    let serving: Vec<usize> = scene.eligible().filter(|&hca| comparable(scene, hca)).collect();
    if serving.len() < gpus.len() {
        return None;
    }
    let idle = serving.into_iter().find(|&hca| served[hca] == 0)?;
    Some(&scene.adapters[idle].name)
}

/// Adapters that take no part, and those near no GPU.
fn roles(scene: &Scene) -> Vec<Finding> {
    let mut found = Vec::new();
    for hca in &scene.adapters {
        if let Some(why) = &hca.excluded {
            found.push(remark(
                "role",
                &hca.name,
                Status::Unjudged,
                format!("takes no part: {why}"),
            ));
        }
    }
    let sharing = scene.classes.iter().flatten().any(|class| class.shares_switch());
    let far: Vec<&str> = scene.far().map(|hca| scene.adapters[hca].name.as_str()).collect();
    if sharing && !far.is_empty() {
        let mut finding = remark(
            "role",
            &far.join(" "),
            Status::Unjudged,
            "no GPU on their switch: probably storage or management, or for GPUs not seen here"
                .into(),
        );
        let devices: Vec<&str> = scene
            .far()
            .flat_map(|hca| scene.adapters[hca].devices.iter().map(String::as_str))
            .collect();
        finding.remedy = format!("to keep NCCL off them: NCCL_IB_HCA=^{}", devices.join(","));
        found.push(finding);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_carry_what_their_line_code_leaves() {
        assert_eq!(link_mbps(32_000, 8), 252_061);
        assert_eq!(link_mbps(2_500, 16), 32_000);
        assert_eq!(generation(16_000), 4);
    }
}
