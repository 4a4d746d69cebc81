//! ACS: whether bridges let a GPU and its adapter talk to each other directly.

use fabbench_reports::model::Status;

use super::{Finding, remark};
use crate::topology::distance;
use crate::topology::judge::GpuVerdict;
use crate::topology::model::{Acs, Fact, Kind, Node, Topology};
use crate::topology::scene::{Adapter, Scene};

/// Bridges on the way between a GPU and its adapter, both ends and the root complex left out.
fn bridges_between(topology: &Topology, gpu: usize, hca: usize) -> Vec<usize> {
    let above_gpu: Vec<usize> = topology.chain(gpu).skip(1).collect();
    let above_hca: Vec<usize> = topology.chain(hca).skip(1).collect();
    let Some(&meeting) = above_gpu.iter().find(|at| above_hca.contains(at)) else {
        return Vec::new();
    };
    let below = |chain: &[usize]| -> Vec<usize> {
        chain.iter().copied().take_while(|&at| at != meeting).collect()
    };
    let mut bridges = below(&above_gpu);
    bridges.extend(below(&above_hca));
    bridges
}

/// ACS that sends peer traffic up to the root complex, or is not as a special path needs it.
pub(super) fn acs(topology: &Topology, scene: &Scene, gpus: &[GpuVerdict]) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    let mut hidden = false;
    for (gpu, verdict) in scene.gpus.iter().zip(gpus) {
        let (Some(at), Some(hca)) = (gpu.node, verdict.hca) else { continue };
        if !verdict.class.shares_switch() {
            continue;
        }
        let adapter = &scene.adapters[hca];
        if let Some(special) = special(topology, at, adapter) {
            hidden |= special.hidden;
            let object = format!("{}, {}", adapter.name, gpu.name);
            found.extend(
                special.findings.into_iter().map(|f| Finding { object: object.clone(), ..f }),
            );
            continue;
        }
        for bridge in adapter.nodes.iter().flat_map(|&hca| bridges_between(topology, at, hca)) {
            let node = &topology.nodes[bridge];
            hidden |= node.acs == Fact::NotPermitted;
            let Some(finding) = redirect(topology, node) else { continue };
            match found.iter_mut().find(|other| other.text == finding.text) {
                Some(other) if !other.object.contains(&gpu.name) => {
                    other.object = format!("{}, {}", other.object, gpu.name);
                }
                Some(_) => {}
                None => {
                    let object = format!("{}, {}", adapter.name, gpu.name);
                    found.push(Finding { object, ..finding });
                }
            }
        }
    }
    if hidden && found.is_empty() {
        let mut finding =
            remark("acs", "bridges", Status::Unknown, "not checked: needs root".into());
        finding.remedy = "run it as root, or: sudo lspci -vvv | grep ACSCtl".into();
        found.extend(groups(topology, scene, gpus));
        found.push(finding);
    }
    found
}

/// What a path through a switch inside the adapter asks for.
#[derive(Default)]
struct Special {
    findings: Vec<Finding>,
    /// Some bridge's bits could not be read.
    hidden: bool,
}

/// The rules of Data Direct and of adapters with a switch of their own (as rdma-core's `rdma_topo`
/// has them); none for a path through an ordinary switch.
fn special(topology: &Topology, gpu: usize, adapter: &Adapter) -> Option<Special> {
    let below = |dma: &&usize| !bridges_between(topology, gpu, **dma).is_empty();
    if let Some(&dma) = adapter.dma.iter().find(below) {
        return Some(data_direct(topology, gpu, dma));
    }
    let nodes = adapter.nodes.iter().copied();
    let inside = |at: &usize| distance::inside_adapter(topology.nodes[*at].ids.pair());
    let through = |hca: &usize| bridges_between(topology, gpu, *hca).iter().any(inside);
    nodes.into_iter().find(through).map(|hca| inline(topology, gpu, hca))
}

/// The downstream ports of the switch in which two paths part, and the root port above it.
fn parting(topology: &Topology, gpu: usize, other: usize) -> (Vec<usize>, Option<usize>) {
    let above: Vec<usize> = topology.chain(gpu).skip(1).collect();
    let others: Vec<usize> = topology.chain(other).skip(1).collect();
    let meeting = above.iter().copied().find(|at| others.contains(at));
    let port = |chain: &[usize]| {
        chain.iter().copied().find(|at| topology.nodes[*at].parent == meeting && meeting.is_some())
    };
    let ports = [port(&others), port(&above)].into_iter().flatten().collect();
    let root = above.iter().copied().find(|at| topology.nodes[*at].kind == Kind::RootPort);
    (ports, root)
}

/// DMA function and GPU below one switch of the adapter: peer requests go down to the GPU, its
/// completions come back, and the segment is one IOMMU group.
fn data_direct(topology: &Topology, gpu: usize, dma: usize) -> Special {
    let (ports, root) = parting(topology, gpu, dma);
    let mut special = Special::default();
    let wanted =
        [(ports.first(), "xx110x1"), (ports.get(1), "xx101x1"), (root.as_ref(), "xx111x0")];
    for (bridge, pattern) in wanted {
        let Some(&bridge) = bridge else { continue };
        match topology.nodes[bridge].acs {
            Fact::Known(acs) if acs.fits(pattern) => {}
            Fact::Known(_) => special.findings.push(wrong(topology, bridge, pattern, Status::Fail)),
            Fact::NotPermitted => special.hidden = true,
            Fact::Unknown => {}
        }
    }
    let group = |at: usize| topology.nodes[at].iommu_group.known();
    if let (Some(one), Some(other)) = (group(gpu), group(dma)) {
        let mut finding =
            remark("acs", "", Status::Pass, format!("IOMMU group {one} of GPU and DMA function"));
        if one != other {
            finding.status = Status::Fail;
            finding.text = format!(
                "GPU in IOMMU group {one}, DMA function in {other}: Data Direct needs them in one"
            );
            finding.remedy =
                "set the ACS bits that rdma_topo write-grub-acs prints, and reboot".into();
        }
        special.findings.push(finding);
    }
    special
}

/// NIC and GPU below the adapter's own switch: on bare metal nothing is redirected; for virtual
/// machines all is, but for what was translated before.
fn inline(topology: &Topology, gpu: usize, hca: usize) -> Special {
    let (ports, _) = parting(topology, gpu, hca);
    let mut special = Special::default();
    let known: Vec<(usize, Acs)> =
        ports.iter().filter_map(|&at| Some((at, topology.nodes[at].acs.known()?))).collect();
    special.hidden = ports.iter().any(|&at| topology.nodes[at].acs == Fact::NotPermitted);
    let bare = |(_, acs): &(usize, Acs)| acs.fits("xx000x0");
    let virtualised = |(index, (_, acs)): (usize, &(usize, Acs))| {
        acs.fits(if index == 0 { "1x111x1" } else { "xx111x1" })
    };
    if known.is_empty() || known.iter().all(bare) {
        return special;
    }
    if topology.machine.guest == Fact::Known(true) {
        let text = "ACS as the guest sees it: the host decides what is redirected".into();
        special.findings.push(remark("acs", "", Status::Unjudged, text));
        return special;
    }
    if known.iter().enumerate().all(virtualised) {
        let text = "ACS as for virtual machines: peer traffic needs ATS on the adapter".into();
        special.findings.push(remark("acs", "", Status::Unjudged, text));
        return special;
    }
    for (at, acs) in known.iter().filter(|entry| !bare(entry)) {
        let redirects = acs.request_redirect || acs.completion_redirect;
        let status = if redirects { Status::Fail } else { Status::Warn };
        special.findings.push(wrong(topology, *at, "xx000x0", status));
    }
    special
}

fn wrong(topology: &Topology, bridge: usize, pattern: &str, status: Status) -> Finding {
    let bdf = topology.nodes[bridge].bdf.map(|bdf| bdf.to_string()).unwrap_or_default();
    Finding {
        id: "acs",
        object: String::new(),
        status,
        text: format!(
            "ACS control of {bdf} is not {pattern} (bits 6 to 0, x for either), as this path needs"
        ),
        remedy: format!(
            "boot with pci=config_acs={pattern}@{bdf} (kernel 6.11 or newer; weakens isolation), or use \
             rdma_topo write-grub-acs"
        ),
    }
}

fn redirect(topology: &Topology, node: &Node) -> Option<Finding> {
    let acs = node.acs.known().filter(|acs| acs.request_redirect || acs.completion_redirect)?;
    let sign = |on: bool| if on { '+' } else { '-' };
    let bdf = node.bdf.map(|bdf| bdf.to_string()).unwrap_or_default();
    let guest = topology.machine.guest == Fact::Known(true);
    let status = match (guest, acs.direct_translated) {
        (true, _) => Status::Unjudged,
        (false, true) => Status::Warn,
        (false, false) => Status::Fail,
    };
    Some(Finding {
        id: "acs",
        object: String::new(),
        status,
        text: format!(
            "ReqRedir{} CmpltRedir{} on {bdf}: peer traffic goes up through the root complex",
            sign(acs.request_redirect),
            sign(acs.completion_redirect)
        ),
        remedy: format!(
            "on bare metal: turn ACS off in the BIOS, or: setpci -s {bdf} ECAP_ACS+6.w=0000 (needs \
             root, weakens isolation, lasts until reboot)"
        ),
    })
}

/// Without root: a GPU and an adapter in one IOMMU group are not isolated from each other.
fn groups(topology: &Topology, scene: &Scene, gpus: &[GpuVerdict]) -> Option<Finding> {
    let together = scene.gpus.iter().zip(gpus).filter(|(gpu, verdict)| {
        let gpu = gpu.node.and_then(|at| topology.nodes[at].iommu_group.known());
        let nodes = verdict.hca.map(|hca| &scene.adapters[hca].nodes[..]).unwrap_or_default();
        gpu.is_some() && nodes.iter().any(|&at| topology.nodes[at].iommu_group.known() == gpu)
    });
    let names: Vec<&str> = together.map(|(gpu, _)| gpu.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        let text = "shares the IOMMU group of its HCA: ACS does not isolate them".into();
        remark("acs", &names.join(" "), Status::Unjudged, text)
    })
}
