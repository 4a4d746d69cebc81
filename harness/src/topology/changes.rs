//! What differs between two machines that should be alike.

use fabbench_reports::comparison::Change;
use fabbench_reports::model::HostTopology;

use crate::compare::changes::{Facts, differing};

/// Differences in GPUs, their paths and HCAs, links and findings. PCI addresses are left out: what
/// is plugged alike may be numbered otherwise.
pub fn between(a: &HostTopology, b: &HostTopology) -> Vec<Change> {
    differing(&facts(a), &facts(b))
}

fn facts(host: &HostTopology) -> Facts {
    let mut facts = Facts::new();
    let mut add = |object: &str, what: &str, value: String| {
        facts.insert((object.to_owned(), what.to_owned()), value);
    };
    add("machine", "GPUs", host.gpus.len().to_string());
    let hcas = host.graph.nodes.iter().filter(|node| node.kind == "hca");
    let mut names: Vec<&str> = hcas.map(|node| node.name.as_str()).collect();
    names.dedup();
    add("machine", "HCAs", names.join(" "));
    add("machine", "verdict", host.status.to_string());
    for gpu in &host.gpus {
        add(&gpu.name, "HCA", gpu.hcas.first().cloned().unwrap_or_else(|| "none".into()));
        add(&gpu.name, "path", gpu.path.clone());
        add(&gpu.name, "verdict", gpu.status.to_string());
    }
    for node in host.graph.nodes.iter().filter(|node| !node.name.is_empty()) {
        add(&node.name, "PCIe link", or_unknown(&node.link));
        let numa = node.numa_node.map(|node| node.to_string()).unwrap_or_default();
        add(&node.name, "NUMA node", or_unknown(&numa));
        let above = std::iter::successors(node.parent, |at| host.graph.nodes.get(*at)?.parent);
        let switches =
            above.filter(|at| host.graph.nodes.get(*at).is_some_and(|n| n.kind == "switch"));
        add(&node.name, "switches above", switches.count().to_string());
    }
    for finding in &host.findings {
        add(&finding.object, &format!("finding {}", finding.id), without_addresses(&finding.found));
    }
    facts
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() { "unknown".into() } else { text.to_owned() }
}

/// Words that are PCI addresses, out of a sentence.
fn without_addresses(text: &str) -> String {
    let address = |word: &&str| word.trim_matches([':', ',']).parse::<super::bdf::Bdf>().is_err();
    text.split(' ').filter(address).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::{Rules, judge, read, report};
    use super::*;

    fn host(bus: &str, second: &str) -> HostTopology {
        let text = format!(
            r#"<system version="1"><cpu numaid="0"><pci busid="0000:{bus}0:00.0" class="0x060400">
            <pci busid="0000:{bus}1:00.0" class="0x030200" link_width="16" link_speed="32 GT/s"><gpu dev="0"/></pci>
            <pci busid="0000:{bus}3:00.0" class="0x020700" link_width="{second}" link_speed="32 GT/s"><nic><net name="mlx5_0" dev="0" speed="400000" port="1"/></nic></pci>
            </pci></cpu></system>"#
        );
        let topology = read("x", text.as_bytes()).unwrap();
        report::report("h", "test", &topology, &judge(&topology, Rules::default()))
    }

    #[test]
    fn other_addresses_are_no_difference_and_narrower_links_are() {
        assert_eq!(between(&host("1", "16"), &host("5", "16")), Vec::new());
        let changes = between(&host("1", "16"), &host("5", "8"));
        let link = changes.iter().find(|change| change.what == "PCIe link").unwrap();
        assert_eq!(link.object, "mlx5_0");
        assert!(link.before.contains("x16") && link.after.contains("x8"), "{link:?}");
    }
}
