//! Filters that a job's environment sets: which GPUs a program sees, which HCAs NCCL uses.

use super::model::Topology;
use super::scene::Scene;

/// Takes out the GPUs that CUDA_VISIBLE_DEVICES hides and the HCAs that NCCL_IB_HCA leaves out, and
/// notes both. Numbers are taken in the order of PCI addresses; names of GPUs (`GPU-…`, `MIG-…`)
/// cannot be told from PCI, which is noted instead.
pub fn restrict(topology: &mut Topology, cuda: Option<&str>, nccl: Option<&str>) {
    if let Some(list) = cuda {
        gpus(topology, list.trim());
    }
    if let Some(list) = nccl.map(str::trim).filter(|list| !list.is_empty()) {
        hcas(topology, list);
    }
}

fn gpus(topology: &mut Topology, list: &str) {
    let words = || list.split(',').map(str::trim).filter(|word| !word.is_empty());
    // CUDA stops at the first number that it does not know.
    let numbers: Vec<usize> = words().map_while(|word| word.parse().ok()).collect();
    if words().next().is_some_and(|word| word.parse::<i64>().is_err()) {
        topology.notes.push(format!(
            "CUDA_VISIBLE_DEVICES={list}: names GPUs by what PCI does not show; all are judged"
        ));
        return;
    }
    let scene = Scene::of(topology);
    let hidden: Vec<&super::scene::GpuView> = scene
        .gpus
        .iter()
        .enumerate()
        .filter(|(at, _)| !numbers.contains(at))
        .map(|(_, gpu)| gpu)
        .collect();
    if hidden.is_empty() {
        return;
    }
    let names: Vec<String> = hidden
        .iter()
        .map(|gpu| gpu.bdf.map_or_else(|| gpu.name.clone(), |bdf| format!("{} {bdf}", gpu.name)))
        .collect();
    let note = format!(
        "CUDA_VISIBLE_DEVICES={list}: hidden from programs and not judged: {}",
        names.join(", ")
    );
    for node in hidden.iter().filter_map(|gpu| gpu.node) {
        topology.nodes[node].gpu = None;
    }
    topology.notes.push(note);
}

/// `[^][=]DEV[:PORT],…`: `^` leaves out, `=` asks for the whole name instead of its beginning.
fn hcas(topology: &mut Topology, list: &str) {
    let (exclude, rest) = list.strip_prefix('^').map_or((false, list), |rest| (true, rest));
    let (exact, rest) = rest.strip_prefix('=').map_or((false, rest), |rest| (true, rest));
    let wanted: Vec<&str> = rest
        .split(',')
        .map(|word| word.trim().split(':').next().unwrap_or_default())
        .filter(|word| !word.is_empty())
        .collect();
    let named = |device: &str| {
        wanted.iter().any(|name| if exact { device == *name } else { device.starts_with(name) })
    };
    for hca in topology.nodes.iter_mut().filter_map(|node| node.hca.as_mut()) {
        let listed = hca.ports.iter().any(|port| named(&port.device));
        if !hca.ports.is_empty() && listed == exclude {
            hca.excluded.get_or_insert_with(|| format!("NCCL_IB_HCA={list} leaves it out"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Rules, judge, read};
    use super::*;

    fn machine() -> Topology {
        let text = r#"<system version="1"><cpu numaid="0"><pci busid="0000:10:00.0" class="0x060400">
            <pci busid="0000:11:00.0" class="0x030200"/><pci busid="0000:12:00.0" class="0x030200"/>
            <pci busid="0000:13:00.0" class="0x020700"><nic><net name="mlx5_1" dev="0" speed="400000" port="1"/></nic></pci>
            <pci busid="0000:14:00.0" class="0x020700"><nic><net name="mlx5_10" dev="1" speed="400000" port="1"/></nic></pci>
            </pci></cpu></system>"#;
        read("x", text.as_bytes()).unwrap()
    }

    #[test]
    fn hidden_gpus_are_not_judged_and_said() {
        let mut topology = machine();
        restrict(&mut topology, Some("1"), None);
        let judged = judge(&topology, Rules::default());
        assert_eq!(judged.gpus.len(), 1);
        assert_eq!(judged.scene.gpus[0].bdf.unwrap().to_string(), "0000:12:00.0");
        assert!(
            topology.notes[0].contains("not judged: GPU0 0000:11:00.0"),
            "{:?}",
            topology.notes
        );

        let mut topology = machine();
        restrict(&mut topology, Some("GPU-8a1b"), None);
        assert_eq!(judge(&topology, Rules::default()).gpus.len(), 2);
        assert!(topology.notes[0].contains("all are judged"));
        let mut topology = machine();
        restrict(&mut topology, Some("0,1"), None);
        assert!(topology.notes.is_empty());
    }

    #[test]
    fn nccls_list_of_hcas_is_read_as_nccl_does() {
        let serving = |list: &str| {
            let mut topology = machine();
            restrict(&mut topology, None, Some(list));
            let scene = Scene::of(&topology);
            scene.eligible().map(|at| scene.adapters[at].name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(serving("mlx5_1"), ["mlx5_1", "mlx5_10"], "a beginning");
        assert_eq!(serving("=mlx5_1:1"), ["mlx5_1"]);
        assert_eq!(serving("^=mlx5_1"), ["mlx5_10"]);
        assert_eq!(serving("^mlx5"), Vec::<String>::new());
    }
}
