//! Text for people: the table, the tree, the matrix and the story of one GPU.

use std::fmt::Write;

use fabbench_reports::model::Status;

use super::devices;
use super::findings::generation;
use super::judge::{Assessment, GpuVerdict};
use super::model::{Fact, Kind, Node, Topology};

/// The verdict in capitals, as the tables print it.
pub fn word(status: Status) -> &'static str {
    match status {
        Status::Pass => "PASS",
        Status::Warn => "WARN",
        Status::Fail => "FAIL",
        Status::NotApplicable => "N/A",
        Status::Unknown => "UNKNOWN",
        Status::Unjudged => "note",
        Status::Error => "ERROR",
        Status::Incomplete => "INCOMPLETE",
    }
}

/// The table: a head line, a line a GPU, findings, and the verdict.
pub fn table(topology: &Topology, assessment: &Assessment, source: &str) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "topo: {:<55} source: {source}", head(topology, assessment));
    for (at, verdict) in assessment.gpus.iter().enumerate() {
        let _ = writeln!(text, "{}", gpu_line(topology, assessment, at, verdict));
    }
    for finding in &assessment.findings {
        let label = format!("{}:", finding.id);
        let what = format!("{} {}", finding.object, finding.text);
        let _ = writeln!(text, "{label:<9}{what:<88} {}", word(finding.status));
        if !finding.remedy.is_empty() && finding.status != Status::Pass {
            let _ = writeln!(text, "  fix: {}", finding.remedy);
        }
    }
    for reason in assessment.reasons.iter().filter(|_| assessment.placement != Status::Pass) {
        let _ = writeln!(text, "why: {reason}");
    }
    for note in &topology.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let _ = writeln!(text, "verdict: {}{}", word(assessment.status), share(assessment));
    text
}

/// `8 GPU, 10 HCA, bare metal, 2 NUMA nodes`.
fn head(topology: &Topology, assessment: &Assessment) -> String {
    let scene = &assessment.scene;
    let serving = scene.eligible().count();
    let hcas = match scene.adapters.len() - serving {
        0 => format!("{serving} HCA"),
        excluded => format!("{serving}+{excluded} HCA"),
    };
    let place = match topology.machine.guest {
        Fact::Known(true) => ", guest",
        Fact::Known(false) => ", bare metal",
        Fact::Unknown | Fact::NotPermitted => "",
    };
    let nodes = match topology.numa_nodes {
        0 => String::new(),
        1 => ", 1 NUMA node".into(),
        nodes => format!(", {nodes} NUMA nodes"),
    };
    format!("{} GPU, {hcas}{place}{nodes}", scene.gpus.len())
}

fn share(assessment: &Assessment) -> String {
    let worst = assessment.placement;
    let hit = assessment.gpus.iter().filter(|verdict| verdict.status == worst).count();
    match (worst == assessment.status, worst) {
        (true, Status::Fail | Status::Warn | Status::Unknown) => {
            format!(" ({hit} of {} GPUs)", assessment.gpus.len())
        }
        (false, _) => " (by the findings; placement: ".to_owned() + word(worst) + ")",
        _ => String::new(),
    }
}

fn gpu_line(
    topology: &Topology,
    assessment: &Assessment,
    at: usize,
    verdict: &GpuVerdict,
) -> String {
    let gpu = &assessment.scene.gpus[at];
    let address = gpu.bdf.map(|bdf| bdf.to_string()).unwrap_or_default();
    let hca = verdict.hca.map(|hca| &assessment.scene.adapters[hca]);
    let target = hca.map_or_else(|| "-".to_owned(), |hca| hca.name.clone());
    let rate = hca.and_then(|hca| hca.rate_mbps).map(|rate| format!(" {:.0}G", rate as f64 / 1e3));
    let switch = switch_of(topology, assessment, at, verdict).unwrap_or_default();
    let class = if verdict.hca.is_some() { verdict.class.to_string() } else { "-".into() };
    let left = format!(
        "{:<6}{address:<14}-> {target}{}  {class:<5} {switch}",
        gpu.name,
        rate.unwrap_or_default()
    );
    format!("{left:<90} {}", word(verdict.status))
}

/// `switch 0000:16:00.0 (Broadcom)`: the switch nearest to the GPU that its adapter is below.
fn switch_of(
    topology: &Topology,
    assessment: &Assessment,
    at: usize,
    verdict: &GpuVerdict,
) -> Option<String> {
    if !verdict.class.shares_switch() {
        return None;
    }
    let gpu = assessment.scene.gpus[at].node?;
    let hca = *assessment.scene.adapters[verdict.hca?].nodes.first()?;
    let above: Vec<usize> = topology.chain(hca).collect();
    let switch = topology
        .chain(gpu)
        .find(|at| above.contains(at) && topology.nodes[*at].kind == Kind::Switch)?;
    let node = &topology.nodes[switch];
    let maker = node.ids.vendor.known().and_then(devices::vendor_name);
    let maker = maker.map(|maker| format!(" ({maker})")).unwrap_or_default();
    Some(format!("switch {}{maker}", node.bdf?))
}

/// The distances as `nvidia-smi topo -m` prints them.
pub fn matrix(assessment: &Assessment) -> String {
    let scene = &assessment.scene;
    let names: Vec<&str> = scene.adapters.iter().map(|hca| hca.name.as_str()).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).clamp(7, 40) + 2;
    let mut text = format!("{:<8}", "");
    for name in &names {
        let _ = write!(text, "{name:<width$}");
    }
    text.push('\n');
    for (gpu, row) in scene.gpus.iter().zip(&scene.classes) {
        let _ = write!(text, "{:<8}", gpu.name);
        for class in row {
            let _ = write!(text, "{:<width$}", class.to_string());
        }
        text.push('\n');
    }
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The PCIe tree with GPUs and adapters in their places; branches without either are left out.
pub fn tree(topology: &Topology, assessment: &Assessment) -> String {
    if topology.matrix.is_some() {
        return "no tree: nvidia-smi topo -m holds classes alone\n".into();
    }
    let marks = marks(topology, assessment);
    let mut shown = vec![false; topology.nodes.len()];
    for at in (0..topology.nodes.len()).filter(|&at| marks[at].is_some()) {
        topology.chain(at).for_each(|up| shown[up] = true);
    }
    let children = topology.children();
    let mut text = String::new();
    // Depth first without recursion: a node with its indentation.
    let roots = (0..topology.nodes.len()).filter(|&at| topology.nodes[at].parent.is_none());
    let mut stack: Vec<(usize, usize)> = roots.filter(|&at| shown[at]).map(|at| (at, 0)).collect();
    stack.reverse();
    while let Some((at, depth)) = stack.pop() {
        let line = tree_line(topology, at, marks[at].as_deref());
        let _ = writeln!(text, "{}{line}", "  ".repeat(depth.min(40)));
        let below = children[at].iter().rev().filter(|&&child| shown[child]);
        stack.extend(below.map(|&child| (child, depth + 1)));
    }
    if text.is_empty() { "no GPU and no HCA in the tree\n".into() } else { text }
}

/// Name of each GPU and adapter at its node.
fn marks(topology: &Topology, assessment: &Assessment) -> Vec<Option<String>> {
    let mut marks = vec![None; topology.nodes.len()];
    for (gpu, verdict) in assessment.scene.gpus.iter().zip(&assessment.gpus) {
        if let Some(at) = gpu.node {
            let hca = verdict.hca.map(|hca| assessment.scene.adapters[hca].name.as_str());
            let hca = hca.map(|hca| format!(" -> {hca} {}", verdict.class)).unwrap_or_default();
            marks[at] = Some(format!("{}{hca} {}", gpu.name, word(verdict.status)));
        }
    }
    for hca in &assessment.scene.adapters {
        for &at in &hca.nodes {
            marks[at] = Some(hca.name.clone());
        }
    }
    marks
}

fn tree_line(topology: &Topology, at: usize, mark: Option<&str>) -> String {
    let node = &topology.nodes[at];
    let address = node.bdf.map(|bdf| bdf.to_string()).unwrap_or_default();
    let kind = match node.kind {
        Kind::RootComplex => {
            let numa = topology.numa(at).map(|numa| format!(" (NUMA node {numa})"));
            return format!("root complex{}", numa.unwrap_or_default());
        }
        Kind::RootPort => "root port",
        Kind::Switch => "switch",
        Kind::DownstreamPort => "switch port",
        Kind::OtherBridge => "bridge",
        Kind::Endpoint => "",
    };
    let maker = node.ids.vendor.known().and_then(devices::vendor_name).unwrap_or_default();
    let parts = [&address, kind, maker, mark.unwrap_or_default(), &bracketed(node)];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("  ")
}

/// Link above a node in use, else what it is capable of, `Gen5 x16`; empty when not known.
pub(super) fn link(node: &Node) -> String {
    let speed = node.link.speed_mts.known().or(node.link.max_speed_mts.known());
    let lanes = node.link.width.known().or(node.link.max_width.known());
    match (speed, lanes) {
        (Some(speed), Some(lanes)) => format!("Gen{} x{lanes}", generation(speed)),
        _ => String::new(),
    }
}

fn bracketed(node: &Node) -> String {
    let link = link(node);
    if link.is_empty() { link } else { format!("[{link}]") }
}

/// `NVIDIA H200, GPU-8a1b…, driver 550.54.15`; none when nothing of it is known.
fn product(topology: &Topology, gpu: &super::scene::GpuView) -> Option<String> {
    let uuid = topology.nodes.get(gpu.node?)?.gpu.as_ref().and_then(|gpu| gpu.uuid.clone());
    let driver = topology.machine.gpu_driver.as_ref().map(|driver| format!("driver {driver}"));
    let parts: Vec<String> = [gpu.label.clone(), uuid, driver].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// All that is known of one GPU's paths; none when there is no GPU of that name.
pub fn explain(topology: &Topology, assessment: &Assessment, name: &str) -> Option<String> {
    let scene = &assessment.scene;
    let wanted = |gpu: &super::scene::GpuView| {
        gpu.name.eq_ignore_ascii_case(name)
            || name.parse().is_ok_and(|bdf| gpu.bdf == Some(bdf))
            || format!("GPU{name}") == gpu.name
    };
    let at = scene.gpus.iter().position(wanted)?;
    let (gpu, verdict) = (&scene.gpus[at], &assessment.gpus[at]);
    let mut text = String::new();
    let address = gpu.bdf.map(|bdf| format!(" {bdf}")).unwrap_or_default();
    let _ = writeln!(text, "{}{address}: {}, {}", gpu.name, word(verdict.status), verdict.reason);
    if let Some(product) = product(topology, gpu) {
        let _ = writeln!(text, "  {product}");
    }
    if let Some(nccl) = &verdict.nccl {
        let _ = writeln!(text, "  {nccl}");
    }
    if let Some(node) = gpu.node {
        let _ = writeln!(text, "  path to the processor:");
        for up in topology.chain(node) {
            let mark = (up == node).then_some(gpu.name.as_str());
            let _ = writeln!(text, "    {}", tree_line(topology, up, mark));
        }
    }
    let _ = writeln!(text, "  HCAs, nearest first:");
    let mut order: Vec<usize> = (0..scene.adapters.len()).collect();
    order.sort_by_key(|&hca| scene.classes[at][hca]);
    for hca in order {
        let adapter = &scene.adapters[hca];
        let class = scene.classes[at][hca];
        let paired = if verdict.hca == Some(hca) { "  <- paired" } else { "" };
        let excluded = adapter.excluded.as_deref().map(|why| format!(" (takes no part: {why})"));
        let _ = writeln!(
            text,
            "    {class:<8} {} {}{}{paired}",
            adapter.name,
            class.meaning(),
            excluded.unwrap_or_default()
        );
    }
    Some(text)
}
