//! What a report says of a host's topology.

use fabbench_reports::model::{
    Check, HostTopology, Status, TopologyFinding, TopologyGpu, TopologyGraph, TopologyNode,
};

use super::judge::{Assessment, GpuVerdict, Rules, judge, worst};
use super::model::{Fact, Kind, Topology};
use super::{nvml, read_snapshot, view};
use crate::snapshot::HostFacts;

/// Topology of a live host, from what its agent saw.
pub fn of_host(name: &str, facts: &HostFacts) -> HostTopology {
    match read_snapshot(&facts.snapshot) {
        Ok(mut topology) => {
            nvml::merge(&mut topology, facts.calls.nvml.as_ref());
            report(name, &live_source(&topology), &topology, &judge(&topology, Rules::default()))
        }
        Err(why) => HostTopology {
            host: name.to_owned(),
            source: "/sys".into(),
            gpus: Vec::new(),
            status: Status::Unknown,
            reasons: vec![why],
            findings: Vec::new(),
            gpu_memory: NOT_MEASURED.into(),
            graph: TopologyGraph::default(),
        },
    }
}

/// Where a live topology came from, with the rights it was read with.
pub fn live_source(topology: &Topology) -> String {
    let root = match topology.machine.root {
        Fact::Known(true) => "yes",
        Fact::Known(false) => "no",
        Fact::Unknown | Fact::NotPermitted => "not told",
    };
    format!("/sys (root: {root})")
}

/// No traffic ran on GPU memory.
const NOT_MEASURED: &str = "not measured";

/// A judged topology in the report's words.
pub fn report(
    host: &str,
    source: &str,
    topology: &Topology,
    assessment: &Assessment,
) -> HostTopology {
    let gpus = assessment.gpus.iter().enumerate().map(|(at, verdict)| gpu(assessment, at, verdict));
    let finding = |finding: &super::findings::Finding| TopologyFinding {
        id: finding.id.to_owned(),
        object: finding.object.clone(),
        status: finding.status,
        found: finding.text.clone(),
        remedy: finding.remedy.clone(),
    };
    HostTopology {
        host: host.to_owned(),
        source: source.to_owned(),
        gpus: gpus.collect(),
        status: assessment.status,
        reasons: assessment.reasons.clone(),
        findings: assessment.findings.iter().map(finding).collect(),
        gpu_memory: NOT_MEASURED.into(),
        graph: graph(topology, assessment),
    }
}

fn gpu(assessment: &Assessment, at: usize, verdict: &GpuVerdict) -> TopologyGpu {
    let gpu = &assessment.scene.gpus[at];
    let others = verdict.equals.iter().copied().filter(|hca| Some(*hca) != verdict.hca);
    let names = |hca: usize| assessment.scene.adapters[hca].name.clone();
    TopologyGpu {
        name: gpu.name.clone(),
        pci: gpu.bdf.map(|bdf| bdf.to_string()),
        hcas: verdict.hca.into_iter().chain(others).map(names).collect(),
        path: verdict.class.word().to_owned(),
        status: verdict.status,
        reason: verdict.reason.clone(),
        nccl: verdict.nccl.clone(),
    }
}

/// The branches that lead to a GPU or an HCA.
fn graph(topology: &Topology, assessment: &Assessment) -> TopologyGraph {
    let mut names: Vec<Option<(&str, String)>> = vec![None; topology.nodes.len()];
    for gpu in &assessment.scene.gpus {
        if let Some(at) = gpu.node {
            names[at] = Some(("gpu", gpu.name.clone()));
        }
    }
    for hca in &assessment.scene.adapters {
        hca.nodes.iter().for_each(|&at| names[at] = Some(("hca", hca.name.clone())));
    }
    let mut shown = vec![false; topology.nodes.len()];
    for at in (0..topology.nodes.len()).filter(|&at| names[at].is_some()) {
        topology.chain(at).for_each(|up| shown[up] = true);
    }
    let mut place: Vec<Option<usize>> = vec![None; topology.nodes.len()];
    let mut nodes = Vec::new();
    for (at, node) in topology.nodes.iter().enumerate().filter(|(at, _)| shown[*at]) {
        place[at] = Some(nodes.len());
        let (kind, name) = names[at].clone().unwrap_or((word(node.kind), String::new()));
        nodes.push(TopologyNode {
            parent: node.parent.and_then(|parent| place[parent]),
            kind: kind.to_owned(),
            pci: node.bdf.map(|bdf| bdf.to_string()),
            name,
            numa_node: topology.numa(at),
            link: view::link(node),
        });
    }
    TopologyGraph { nodes }
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::RootComplex => "root complex",
        Kind::RootPort => "root port",
        Kind::Switch => "switch",
        Kind::DownstreamPort => "switch port",
        Kind::OtherBridge => "bridge",
        Kind::Endpoint => "endpoint",
    }
}

/// The topology as checks of a pair's report: one for the placement, one for each finding that is to
/// be acted on.
pub fn checks(topology: &HostTopology) -> Vec<Check> {
    let bad = |status: Status| matches!(status, Status::Fail | Status::Warn | Status::Unknown);
    let placement = worst(topology.gpus.iter().map(|gpu| gpu.status)).unwrap_or(topology.status);
    let mut checks = vec![Check {
        id: "gpu-topology".into(),
        host: topology.host.clone(),
        object: format!("{} GPUs and HCAs", topology.host),
        status: placement,
        found: topology.reasons.join("; "),
        wanted: "each GPU shares a PCIe switch with its HCA".into(),
        remedy: match placement {
            Status::Fail => format!(
                "see fabbench topo {} --tree: move the card, or set NCCL_IB_HCA",
                topology.host
            ),
            _ => String::new(),
        },
    }];
    // Slots of adapters and the IOMMU are checks of their own.
    let of_adapter = |finding: &TopologyFinding| {
        let nodes = &topology.graph.nodes;
        finding.id == "iommu"
            || (finding.id == "link"
                && nodes.iter().any(|node| node.kind == "hca" && node.name == finding.object))
    };
    let own = |finding: &&TopologyFinding| bad(finding.status) && !of_adapter(finding);
    for finding in topology.findings.iter().filter(own) {
        checks.push(Check {
            id: format!("gpu-{}", finding.id),
            host: topology.host.clone(),
            object: format!("{} {}", topology.host, finding.object),
            status: finding.status,
            found: finding.found.clone(),
            wanted: "an unhindered path between GPU and HCA".into(),
            remedy: finding.remedy.clone(),
        });
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::super::import;
    use super::*;

    fn topology(text: &str) -> HostTopology {
        let topology = import::read("x", text.as_bytes()).unwrap();
        report("gpu01", "x", &topology, &judge(&topology, Rules::default()))
    }

    #[test]
    fn a_host_without_a_gpu_is_not_applicable_and_fails_nothing() {
        let host = of_host("a", &crate::fixtures::read("rxe-a"));
        assert_eq!((host.status, host.gpus.len()), (Status::NotApplicable, 0));
        assert_eq!(host.gpu_memory, "not measured");
        let checks = checks(&host);
        assert_eq!(checks.len(), 1);
        assert_eq!((checks[0].status, checks[0].found.as_str()), (Status::NotApplicable, "no GPU"));
    }

    #[test]
    fn the_graph_keeps_parents_before_children_and_names_what_is_judged() {
        let text = "<system version=\"1\"><cpu numaid=\"0\">\
            <pci busid=\"0000:16:00.0\" class=\"0x060400\">\
            <pci busid=\"0000:18:00.0\" class=\"0x030200\"><gpu dev=\"0\"/></pci>\
            <pci busid=\"0000:19:00.0\" class=\"0x020000\"><nic><net name=\"mlx5_0\" speed=\"400000\"/></nic></pci>\
            <pci busid=\"0000:1a:00.0\" class=\"0x010802\"/></pci></cpu></system>";
        let host = topology(text);
        let names: Vec<_> =
            host.graph.nodes.iter().map(|node| (&*node.kind, &*node.name)).collect();
        assert_eq!(
            names,
            [("root complex", ""), ("switch", ""), ("gpu", "GPU0"), ("hca", "mlx5_0")]
        );
        assert_eq!(host.graph.nodes[2].parent, Some(1));
        assert_eq!((&*host.gpus[0].path, &*host.gpus[0].hcas[0]), ("PIX", "mlx5_0"));
    }
}
