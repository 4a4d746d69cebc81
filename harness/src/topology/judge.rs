//! Verdicts for each GPU and for the node.

use std::collections::BTreeSet;

use fabbench_reports::model::Status;

use super::assign;
use super::distance::Class;
use super::findings::{self, Finding};
use super::model::{Fact, Kind, Source, Topology};
use super::scene::{Scene, flat_guest};

/// What is asked for beyond the usual.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rules {
    /// Every GPU must share a switch with its adapter: PHB and NODE fail.
    pub same_switch: bool,
}

/// What was found on a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Assessment {
    /// GPUs, adapters and paths.
    pub scene: Scene,
    /// One entry a GPU of the scene.
    pub gpus: Vec<GpuVerdict>,
    /// By where things are plugged.
    pub placement: Status,
    /// By placement and findings.
    pub status: Status,
    /// Why, worst first.
    pub reasons: Vec<String>,
    /// Links, ACS, software and remarks.
    pub findings: Vec<Finding>,
}

/// The verdict for one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuVerdict {
    /// Adapter that it is paired with.
    pub hca: Option<usize>,
    /// Adapters that are as near and as fast, the paired one among them.
    pub equals: Vec<usize>,
    /// Class of the path to it.
    pub class: Class,
    /// Verdict.
    pub status: Status,
    /// Why.
    pub reason: String,
    /// What NCCL does on this path by default.
    pub nccl: Option<String>,
}

/// Judges a machine.
pub fn judge(topology: &Topology, rules: Rules) -> Assessment {
    let scene = Scene::of(topology);
    let whole = whole(topology, &scene);
    let paired = assign::assign(&scene);
    let context = Context::of(topology, &scene, rules);
    let gpus: Vec<GpuVerdict> = (0..scene.gpus.len())
        .map(|gpu| match &whole {
            Some((status, reason)) => without(&scene, gpu, *status, reason),
            None => one(&context, gpu, paired[gpu]),
        })
        .collect();
    let findings = match whole {
        Some(_) => Vec::new(),
        None => findings::all(topology, &scene, &gpus),
    };
    let (placement, mut reasons) = match whole {
        Some((status, reason)) => (status, vec![reason]),
        None => sum(topology, &scene, &gpus),
    };
    reasons.extend(topology.damage.iter().cloned());
    let worst = findings.iter().map(|finding| finding.status);
    let judged = worst.filter(|status| matches!(status, Status::Fail | Status::Warn));
    let status = judged.chain([placement]).max_by_key(|status| weight(*status));
    let status = status.unwrap_or(placement);
    Assessment { scene, gpus, placement, status, reasons, findings }
}

/// The status that counts among several; none of none.
pub(super) fn worst(statuses: impl Iterator<Item = Status>) -> Option<Status> {
    statuses.max_by_key(|status| weight(*status))
}

/// FAIL > UNKNOWN > WARN > PASS > N/A.
fn weight(status: Status) -> u8 {
    match status {
        Status::Fail | Status::Error => 4,
        Status::Unknown | Status::Incomplete => 3,
        Status::Warn => 2,
        Status::Pass | Status::Unjudged => 1,
        Status::NotApplicable => 0,
    }
}

/// A verdict that holds for the node as a whole, before any path is looked at.
fn whole(topology: &Topology, scene: &Scene) -> Option<(Status, String)> {
    let untyped = topology
        .nodes
        .iter()
        .filter(|node| node.kind == Kind::Endpoint && node.class == Fact::Unknown)
        .filter(|node| node.gpu.is_none() && node.hca.is_none() && node.bdf.is_some())
        .count();
    let told_by_name = topology.source == Source::Lspci;
    let lacking = scene.gpus.is_empty() || scene.adapters.is_empty();
    if lacking && untyped > 0 && !told_by_name {
        let reason = format!(
            "types of {untyped} devices are not in the input (no class): combine it with /sys of the host"
        );
        return Some((Status::Unknown, reason));
    }
    if lacking && !topology.damage.is_empty() {
        return Some((Status::Unknown, "the input is not whole".into()));
    }
    if scene.gpus.is_empty() {
        return Some((Status::NotApplicable, "no GPU".into()));
    }
    if scene.adapters.is_empty() {
        return Some((Status::NotApplicable, "no verbs HCA on the node".into()));
    }
    impossible_by_design(topology).then(|| {
        let reason =
            "GPUs on C2C and GPUDirect RDMA off everywhere (gdr=0): not supported by design";
        (Status::NotApplicable, reason.into())
    })
}

/// All GPUs on C2C, and no GPU or port that could do GPUDirect RDMA.
fn impossible_by_design(topology: &Topology) -> bool {
    let gpus: Vec<_> = topology.nodes.iter().filter_map(|node| node.gpu.as_ref()).collect();
    let ports = topology.nodes.iter().filter_map(|node| node.hca.as_ref()).flat_map(|h| &h.ports);
    let off = Fact::Known(false);
    gpus.iter().all(|gpu| gpu.c2c && gpu.gdr == off)
        && !gpus.is_empty()
        && ports.map(|port| port.gdr).all(|gdr| gdr == off)
}

fn without(scene: &Scene, gpu: usize, status: Status, reason: &str) -> GpuVerdict {
    let class = scene.best(gpu).unwrap_or(Class::Unknown);
    GpuVerdict {
        hca: None,
        equals: Vec::new(),
        class,
        status,
        reason: reason.to_owned(),
        nccl: None,
    }
}

struct Context<'a> {
    topology: &'a Topology,
    scene: &'a Scene,
    rules: Rules,
    flat: bool,
    grace: bool,
    /// Fewer adapters than sockets with GPUs, or a single one: SYS is by design.
    few: Option<&'static str>,
    /// GPUs whose siblings share a switch with an adapter while they do not, though there are
    /// adapters enough.
    uneven: BTreeSet<usize>,
}

impl<'a> Context<'a> {
    fn of(topology: &'a Topology, scene: &'a Scene, rules: Rules) -> Self {
        Context {
            topology,
            scene,
            rules,
            flat: flat_guest(topology, scene),
            grace: topology.machine.grace || all_sys(topology, scene),
            few: few(scene),
            uneven: uneven(scene),
        }
    }
}

/// A matrix in which GPUs of several sockets are all SYS from every adapter: no adapter would be on
/// any GPU's socket. That is how Grace looks, or a matrix that cannot be trusted.
fn all_sys(topology: &Topology, scene: &Scene) -> bool {
    let Some(matrix) = &topology.matrix else { return false };
    let places: BTreeSet<&String> =
        matrix.affinity.iter().filter(|text| !text.is_empty()).collect();
    places.len() > 1
        && scene.adapters.len() > 1
        && scene.classes.iter().flatten().all(|class| *class == Class::Sys)
}

fn few(scene: &Scene) -> Option<&'static str> {
    let sockets: BTreeSet<u32> = scene.gpus.iter().filter_map(|gpu| gpu.socket).collect();
    match scene.adapter_places {
        1 => Some("single-HCA node"),
        places if places < sockets.len() => Some("fewer HCAs than sockets with GPUs"),
        _ => None,
    }
}

fn uneven(scene: &Scene) -> BTreeSet<usize> {
    let shares = |gpu: usize| scene.best(gpu).is_some_and(Class::shares_switch);
    let serving: BTreeSet<usize> = scene.eligible().filter(|&hca| comparable(scene, hca)).collect();
    if serving.len() < scene.gpus.len() {
        return BTreeSet::new();
    }
    let sibling = |gpu: usize, other: usize| scene.gpus[gpu].model == scene.gpus[other].model;
    let all = 0..scene.gpus.len();
    all.clone()
        .filter(|&gpu| !shares(gpu) && !scene.gpus[gpu].missing)
        .filter(|&gpu| all.clone().any(|other| sibling(gpu, other) && shares(other)))
        .collect()
}

/// Whether an adapter is of the kind that serves GPUs here: as fast as those that share a switch
/// with one, of their link layer, and no bond (bonds serve storage and management).
pub(super) fn comparable(scene: &Scene, hca: usize) -> bool {
    let adapter = &scene.adapters[hca];
    let near = |at: &usize| scene.classes.iter().any(|row| row[*at].shares_switch());
    if near(&hca) {
        return true;
    }
    let serving: Vec<usize> = scene.eligible().filter(near).collect();
    let slower = |at: &usize| scene.adapters[*at].rate_mbps > adapter.rate_mbps;
    let other_layer = |at: &usize| {
        let layer = scene.adapters[*at].link_layer;
        layer.is_some() && adapter.link_layer.is_some() && layer != adapter.link_layer
    };
    let bond = adapter.devices.iter().any(|device| device.contains("bond"));
    let all = |test: &dyn Fn(&usize) -> bool| !serving.is_empty() && serving.iter().all(test);
    let other_kind = bond || all(&other_layer);
    let slow = adapter.rate_mbps.is_some() && all(&slower);
    !other_kind && !slow
}

fn one(context: &Context, gpu: usize, hca: Option<usize>) -> GpuVerdict {
    let scene = context.scene;
    let Some(hca) = hca else {
        let reasons: Vec<_> =
            scene.adapters.iter().filter_map(|hca| hca.excluded.as_deref()).collect();
        let reason = format!("no HCA that can serve it ({})", reasons.join("; "));
        return without(scene, gpu, Status::Fail, &reason);
    };
    let class = scene.classes[gpu][hca];
    let (status, reason) = verdict(context, gpu, class);
    GpuVerdict {
        hca: Some(hca),
        equals: assign::candidates(scene, gpu),
        class,
        status,
        reason,
        nccl: nccl(class, scene.gpus[gpu].c2c),
    }
}

fn verdict(context: &Context, gpu: usize, class: Class) -> (Status, String) {
    let unknown_row = context.scene.classes[gpu].contains(&Class::Unknown);
    let (status, reason) = by_class(context, gpu, class);
    let bad = matches!(status, Status::Warn | Status::Fail);
    if bad && context.flat {
        let reason = "guest hides the PCIe switches: supply the provider's NCCL_TOPO_FILE, or the \
                      topology of the host";
        return (Status::Unknown, reason.into());
    }
    if bad && context.grace {
        let reason = format!("{class} on a C2C processor: this input cannot show the C2C path");
        return (Status::Unknown, reason);
    }
    if bad && unknown_row && context.topology.matrix.is_some() {
        return (Status::Unknown, "its row is damaged: capture the matrix again".into());
    }
    (status, reason)
}

fn by_class(context: &Context, gpu: usize, class: Class) -> (Status, String) {
    let meaning = class.meaning();
    let uneven = context.uneven.contains(&gpu);
    let strict = context.rules.same_switch;
    match class {
        Class::Pix | Class::Pxb => (Status::Pass, meaning.into()),
        Class::P2c => (Status::Pass, format!("{meaning}: GPUDirect by default from NCCL 2.27")),
        Class::Node if context.grace && context.topology.matrix.is_none() => {
            (Status::Pass, format!("{meaning} of a C2C processor"))
        }
        Class::Unknown => (Status::Unknown, format!("distance {meaning}")),
        _ if uneven => {
            let reason = format!(
                "{meaning}, though GPUs of the same model share a switch with an HCA and there are \
                 HCAs enough: wrong slot, or a missing or hidden HCA"
            );
            (Status::Fail, reason)
        }
        _ if strict => (Status::Fail, format!("{meaning}: not on its HCA's switch, as required")),
        Class::Phb | Class::Node | Class::NodeSameSocket => {
            (Status::Warn, format!("path through the CPU, {meaning}"))
        }
        Class::Sys => match context.few {
            Some(few) => (Status::Warn, format!("{meaning}, but {few}")),
            None => (Status::Fail, format!("{meaning}: no HCA on its socket")),
        },
    }
}

/// What NCCL does by default where that differs from what the class suggests.
fn nccl(class: Class, c2c: bool) -> Option<String> {
    Some(match class {
        Class::Pix | Class::Pxb => return None,
        Class::P2c => "NCCL: GPUDirect RDMA over C2C by default from 2.27 (2.26: \
                       NCCL_NET_GDR_C2C=1; before: NCCL_NET_GDR_LEVEL=SYS)"
            .into(),
        Class::Phb | Class::Node | Class::NodeSameSocket if !c2c => {
            "NCCL: no GPUDirect RDMA by default here (level PXB; NCCL_NET_GDR_LEVEL=PHB asks for \
             it); with NVLink, PXN may go through another GPU in all-reduce"
                .into()
        }
        Class::Sys => "NCCL: no GPUDirect RDMA by default across sockets; with NVLink, PXN may go \
                       through another GPU in all-reduce"
            .into(),
        _ => return None,
    })
}

/// The node's placement: the worst GPU, with each reason once.
fn sum(topology: &Topology, scene: &Scene, gpus: &[GpuVerdict]) -> (Status, Vec<String>) {
    let seen = || gpus.iter().zip(&scene.gpus).filter(|(_, gpu)| !gpu.missing);
    let worst = seen().map(|(verdict, _)| verdict.status).max_by_key(|status| weight(*status));
    let mut status = worst.unwrap_or(Status::Unknown);
    let mut reasons: Vec<String> = Vec::new();
    let mut ordered: Vec<_> = seen().collect();
    ordered.sort_by_key(|(verdict, _)| std::cmp::Reverse(weight(verdict.status)));
    for (verdict, _) in &ordered {
        let names: Vec<&str> = ordered
            .iter()
            .filter(|(other, _)| other.reason == verdict.reason && other.class == verdict.class)
            .map(|(_, gpu)| gpu.name.as_str())
            .collect();
        let line = format!("{}: {} ({})", names.join(" "), verdict.reason, verdict.class);
        if !reasons.contains(&line) {
            reasons.push(line);
        }
    }
    let missing: Vec<&str> =
        scene.gpus.iter().filter(|gpu| gpu.missing).map(|gpu| gpu.name.as_str()).collect();
    if !missing.is_empty() {
        reasons.push(format!("{}: no row in the input, not judged", missing.join(" ")));
        // What was seen to be wrong stays wrong; that all is well cannot be said.
        if status == Status::Pass {
            status = Status::Unknown;
        }
    }
    if !topology.damage.is_empty() && status != Status::Fail {
        status = Status::Unknown;
    }
    if scene.sockets_assumed && gpus.iter().any(|gpu| gpu.class >= Class::NodeSameSocket) {
        reasons.push("sockets are assumed: lower and upper half of the NUMA nodes".into());
    }
    (status, reasons)
}
