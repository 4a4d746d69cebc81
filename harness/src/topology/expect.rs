//! What the owner expects of a machine: so many GPUs and HCAs on each switch, or which HCA serves
//! which GPU.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::judge::Assessment;

/// An expectation.
#[derive(Debug, Clone, PartialEq)]
pub enum Expectation {
    /// On each switch so many GPUs for so many HCAs: `2:1`.
    Shape(usize, usize),
    /// By name or PCI address of the GPU.
    Pairs(BTreeMap<String, Pair>),
}

/// Who is expected to serve a GPU.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Pair {
    /// A verbs device.
    Hca(String),
    /// A verbs device, and the class of the path to it.
    Path {
        /// Verbs device.
        hca: String,
        /// `PIX`, `PXB`, `P2C`, `PHB`, `NODE` or `SYS`.
        path: String,
    },
}

/// The file of pairs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    pairs: BTreeMap<String, Pair>,
}

impl Expectation {
    /// `2:1`.
    pub fn shape(text: &str) -> Option<Expectation> {
        let (gpus, hcas) = text.split_once(':')?;
        let (gpus, hcas) = (gpus.trim().parse().ok()?, hcas.trim().parse().ok()?);
        (gpus > 0 && hcas > 0).then_some(Expectation::Shape(gpus, hcas))
    }

    /// TOML: `[pairs]` with `GPU0 = "mlx5_0"` or `GPU0 = { hca = "mlx5_0", path = "PIX" }`.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and where.
    pub fn pairs(text: &str) -> Result<Expectation, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        if file.pairs.is_empty() {
            return Err("no pair in it: write [pairs] with lines as GPU0 = \"mlx5_0\"".into());
        }
        Ok(Expectation::Pairs(file.pairs))
    }

    /// What is not as expected, in sentences; empty when all is.
    pub fn differences(&self, assessment: &Assessment) -> Vec<String> {
        match self {
            Expectation::Shape(gpus, hcas) => shape(assessment, *gpus, *hcas),
            Expectation::Pairs(pairs) => pairs_differ(assessment, pairs),
        }
    }
}

/// GPUs and HCAs that share switches, group by group.
fn shape(assessment: &Assessment, gpus: usize, hcas: usize) -> Vec<String> {
    let scene = &assessment.scene;
    let near = |gpu: usize| -> BTreeSet<usize> {
        scene.eligible().filter(|&hca| scene.classes[gpu][hca].shares_switch()).collect()
    };
    let mut groups: Vec<(Vec<usize>, BTreeSet<usize>)> = Vec::new();
    let mut differences = Vec::new();
    for gpu in 0..scene.gpus.len() {
        let near = near(gpu);
        if near.is_empty() {
            differences.push(format!("{}: no HCA on its switch", scene.gpus[gpu].name));
            continue;
        }
        match groups.iter_mut().find(|(_, known)| !known.is_disjoint(&near)) {
            Some((members, known)) => {
                members.push(gpu);
                known.extend(near);
            }
            None => groups.push((vec![gpu], near)),
        }
    }
    for (members, near) in groups {
        if members.len() * hcas != near.len() * gpus {
            let names: Vec<&str> = members.iter().map(|&g| scene.gpus[g].name.as_str()).collect();
            let others: Vec<&str> = near.iter().map(|&h| scene.adapters[h].name.as_str()).collect();
            differences.push(format!(
                "{} with {}: {}:{}, expected {gpus}:{hcas}",
                names.join(" "),
                others.join(" "),
                members.len(),
                near.len()
            ));
        }
    }
    differences
}

fn pairs_differ(assessment: &Assessment, pairs: &BTreeMap<String, Pair>) -> Vec<String> {
    let scene = &assessment.scene;
    let mut differences = Vec::new();
    for (name, pair) in pairs {
        let (hca, path) = match pair {
            Pair::Hca(hca) => (hca, None),
            Pair::Path { hca, path } => (hca, Some(path)),
        };
        let is = |gpu: &super::scene::GpuView| {
            gpu.name == *name || gpu.bdf.is_some_and(|bdf| bdf.to_string() == *name)
        };
        let Some(at) = scene.gpus.iter().position(is) else {
            differences.push(format!("{name}: no such GPU"));
            continue;
        };
        let verdict = &assessment.gpus[at];
        // Adapters that are as near and as fast are as good.
        let as_good = verdict.hca.into_iter().chain(verdict.equals.iter().copied());
        let devices = as_good.flat_map(|hca| &scene.adapters[hca].devices);
        let found: BTreeSet<&str> = devices.map(String::as_str).collect();
        if !found.contains(hca.as_str()) {
            let found: Vec<&str> = found.into_iter().collect();
            let found = if found.is_empty() { "no HCA".into() } else { found.join(" or ") };
            differences.push(format!("{name}: {found}, expected {hca}"));
        } else if let Some(path) = path.filter(|path| *path != verdict.class.word()) {
            differences.push(format!("{name} to {hca}: {}, expected {path}", verdict.class));
        }
    }
    let named = |gpu: &super::scene::GpuView| {
        pairs.contains_key(&gpu.name)
            || gpu.bdf.is_some_and(|bdf| pairs.contains_key(&bdf.to_string()))
    };
    for gpu in scene.gpus.iter().filter(|gpu| !named(gpu)) {
        differences.push(format!("{}: is not in the expected pairs", gpu.name));
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::super::{Rules, judge, read};
    use super::*;

    /// Two GPUs and two HCAs on one switch.
    fn machine() -> Assessment {
        let text = r#"<system version="1"><cpu numaid="0"><pci busid="0000:10:00.0" class="0x060400">
            <pci busid="0000:11:00.0" class="0x030200"><gpu dev="0"/></pci>
            <pci busid="0000:12:00.0" class="0x030200"><gpu dev="1"/></pci>
            <pci busid="0000:13:00.0" class="0x020700"><nic><net name="mlx5_0" dev="0" speed="400000" port="1"/></nic></pci>
            <pci busid="0000:14:00.0" class="0x020700"><nic><net name="mlx5_1" dev="1" speed="400000" port="1"/></nic></pci>
            </pci></cpu></system>"#;
        judge(&read("x", text.as_bytes()).unwrap(), Rules::default())
    }

    #[test]
    fn a_shape_is_a_ratio_on_each_switch() {
        let machine = machine();
        let differences = |text| Expectation::shape(text).unwrap().differences(&machine);
        assert!(differences("1:1").is_empty() && differences("2:2").is_empty());
        assert_eq!(differences("2:1"), ["GPU0 GPU1 with mlx5_0 mlx5_1: 2:2, expected 2:1"]);
        for bad in ["", "1", "0:1", "a:b", "1:0"] {
            assert_eq!(Expectation::shape(bad), None, "{bad}");
        }
    }

    #[test]
    fn pairs_name_gpus_by_name_or_address() {
        let machine = machine();
        let differences = |text| Expectation::pairs(text).unwrap().differences(&machine);
        let good =
            "[pairs]\nGPU0 = \"mlx5_0\"\n\"0000:12:00.0\" = {hca = \"mlx5_1\", path = \"PIX\"}\n";
        assert_eq!(differences(good), Vec::<String>::new());
        assert_eq!(
            differences("[pairs]\nGPU0 = \"mlx5_7\"\nGPU9 = \"mlx5_0\"\n"),
            [
                "GPU0: mlx5_0 or mlx5_1, expected mlx5_7",
                "GPU9: no such GPU",
                "GPU1: is not in the expected pairs"
            ]
        );
        let path = "[pairs]\nGPU0 = {hca = \"mlx5_0\", path = \"SYS\"}\nGPU1 = \"mlx5_1\"\n";
        assert_eq!(differences(path), ["GPU0 to mlx5_0: PIX, expected SYS"]);
        assert!(Expectation::pairs("[pairs]\n").unwrap_err().contains("no pair"));
        assert!(Expectation::pairs("[pears]\n").unwrap_err().contains("pears"));
    }
}
