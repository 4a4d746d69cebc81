//! Filters that a job's environment sets: which GPUs a program sees, which HCAs NCCL uses.

use std::collections::BTreeSet;

use super::model::Topology;
use super::scene::Scene;

/// What the environment of a job sets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filters<'a> {
    /// CUDA_VISIBLE_DEVICES.
    pub cuda: Option<&'a str>,
    /// CUDA_DEVICE_ORDER.
    pub cuda_order: Option<&'a str>,
    /// NCCL_IB_HCA.
    pub nccl: Option<&'a str>,
}

/// Takes out the GPUs that CUDA_VISIBLE_DEVICES hides and the HCAs that NCCL_IB_HCA leaves out, and
/// notes both. Numbers are taken in the order of PCI addresses; names of GPUs (`GPU-…`, `MIG-GPU-…`)
/// are known where NVML was asked, and where not, that is noted instead.
pub fn restrict(topology: &mut Topology, filters: Filters) {
    if let Some(list) = filters.cuda {
        gpus(topology, list.trim(), filters.cuda_order == Some("PCI_BUS_ID"));
    }
    if let Some(list) = filters.nccl.map(str::trim).filter(|list| !list.is_empty()) {
        hcas(topology, list);
    }
}

/// What a word of CUDA_VISIBLE_DEVICES stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Named {
    /// The GPU of this number by PCI address.
    Gpu(usize),
    /// None: CUDA stops there.
    Nothing,
    /// Not to be told without NVML.
    Untold,
}

fn named(topology: &Topology, scene: &Scene, word: &str) -> Named {
    if let Ok(number) = word.parse::<i64>() {
        let at = usize::try_from(number).ok().filter(|at| *at < scene.gpus.len());
        return at.map_or(Named::Nothing, Named::Gpu);
    }
    let name = word.strip_prefix("MIG-").filter(|rest| rest.starts_with("GPU-")).unwrap_or(word);
    let name = name.split('/').next().unwrap_or_default();
    let uuid = |at: usize| {
        let node = &topology.nodes[scene.gpus[at].node?];
        node.gpu.as_ref().and_then(|gpu| gpu.uuid.as_deref())
    };
    // Instances of a divided GPU have names of their own, which NVML was not asked for.
    if name.starts_with("MIG-") || (0..scene.gpus.len()).all(|at| uuid(at).is_none()) {
        return Named::Untold;
    }
    // The beginning of a name is enough where it fits one GPU.
    let fits = |at: &usize| uuid(*at).is_some_and(|uuid| uuid.starts_with(name));
    let mut fitting = (0..scene.gpus.len()).filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(at), None) => Named::Gpu(at),
        _ => Named::Nothing,
    }
}

fn gpus(topology: &mut Topology, list: &str, by_pci: bool) {
    let words: Vec<&str> = list.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    let scene = Scene::of(topology);
    let named: Vec<Named> = words.iter().map(|word| named(topology, &scene, word)).collect();
    if named.contains(&Named::Untold) {
        topology.notes.push(format!(
            "CUDA_VISIBLE_DEVICES={list}: names GPUs by what PCI does not show; all are judged"
        ));
        return;
    }
    let models: BTreeSet<_> = scene.gpus.iter().map(|gpu| gpu.model).collect();
    let numbered = words.iter().any(|word| word.parse::<i64>().is_ok());
    if numbered && models.len() > 1 && !by_pci {
        topology.notes.push(
            "CUDA_VISIBLE_DEVICES: numbers are taken by PCI address; with GPUs of several models \
             CUDA counts the fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID"
                .into(),
        );
    }
    let visible: Vec<usize> = named
        .iter()
        .map_while(|named| if let Named::Gpu(at) = named { Some(*at) } else { None })
        .collect();
    let hidden: Vec<&super::scene::GpuView> = scene
        .gpus
        .iter()
        .enumerate()
        .filter(|(at, _)| !visible.contains(at))
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

    fn cuda(list: &str) -> Filters<'_> {
        Filters { cuda: Some(list), ..Filters::default() }
    }

    #[test]
    fn names_of_gpus_are_those_that_nvml_told() {
        let visible = |list: &str| {
            let mut topology = machine();
            let gpus = topology.nodes.iter_mut().filter_map(|node| node.gpu.as_mut());
            for (gpu, uuid) in gpus.zip(["GPU-8a1b-01", "GPU-8a1c-02"]) {
                gpu.uuid = Some(uuid.into());
            }
            restrict(&mut topology, cuda(list));
            let scene = Scene::of(&topology);
            let buses = scene.gpus.iter().map(|gpu| gpu.bdf.unwrap().bus).collect::<Vec<_>>();
            (buses, topology.notes)
        };
        assert_eq!(visible("GPU-8a1c").0, [0x12]);
        assert_eq!(visible("GPU-8a1c-02,GPU-8a1b-01"), (vec![0x11, 0x12], Vec::new()));
        assert_eq!(visible("MIG-GPU-8a1b-01/3/0").0, [0x11], "an instance of a divided GPU");
        let (ambiguous, notes) = visible("GPU-8a1");
        assert!(ambiguous.is_empty() && notes[0].contains("not judged: GPU0"), "{notes:?}");
        let (all, notes) = visible("MIG-9c2d");
        assert!(all.len() == 2 && notes[0].contains("all are judged"), "{notes:?}");
        assert_eq!(visible("1,7,0").0, [0x12], "CUDA stops at what is not there");
        assert_eq!(visible("-1").0, [0; 0]);
    }

    #[test]
    fn the_order_of_numbers_is_said_where_it_matters() {
        let notes = |order: Option<&str>| {
            let mut topology = machine();
            let first = topology.nodes.iter_mut().find(|node| node.gpu.is_some()).unwrap();
            first.ids.vendor = super::super::model::Fact::Known(0x10de);
            first.ids.device = super::super::model::Fact::Known(0x2330);
            restrict(&mut topology, Filters { cuda_order: order, ..cuda("0") });
            topology.notes.join("\n")
        };
        assert!(notes(None).contains("CUDA_DEVICE_ORDER=PCI_BUS_ID"));
        assert!(!notes(Some("PCI_BUS_ID")).contains("fastest first"));
    }

    #[test]
    fn hidden_gpus_are_not_judged_and_said() {
        let mut topology = machine();
        restrict(&mut topology, cuda("1"));
        let judged = judge(&topology, Rules::default());
        assert_eq!(judged.gpus.len(), 1);
        assert_eq!(judged.scene.gpus[0].bdf.unwrap().to_string(), "0000:12:00.0");
        assert!(
            topology.notes[0].contains("not judged: GPU0 0000:11:00.0"),
            "{:?}",
            topology.notes
        );

        let mut topology = machine();
        restrict(&mut topology, cuda("GPU-8a1b"));
        assert_eq!(judge(&topology, Rules::default()).gpus.len(), 2);
        assert!(topology.notes[0].contains("all are judged"));
        let mut topology = machine();
        restrict(&mut topology, cuda("0,1"));
        assert!(topology.notes.is_empty());
    }

    #[test]
    fn nccls_list_of_hcas_is_read_as_nccl_does() {
        let serving = |list: &str| {
            let mut topology = machine();
            restrict(&mut topology, Filters { nccl: Some(list), ..Filters::default() });
            let scene = Scene::of(&topology);
            scene.eligible().map(|at| scene.adapters[at].name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(serving("mlx5_1"), ["mlx5_1", "mlx5_10"], "a beginning");
        assert_eq!(serving("=mlx5_1:1"), ["mlx5_1"]);
        assert_eq!(serving("^=mlx5_1"), ["mlx5_10"]);
        assert_eq!(serving("^mlx5"), Vec::<String>::new());
    }
}
