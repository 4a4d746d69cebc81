//! Models, GPUs and fabrics by name, from `harness/models/*.toml`.

use fabbench_reports::advice::Transport;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::AdviseError;

/// The shape of a model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// What it goes by.
    pub name: String,
    /// In a few words.
    #[serde(default)]
    pub about: String,
    /// All parameters, experts included.
    pub parameters: f64,
    /// Transformer layers.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// KV heads times head size.
    pub kv_hidden: u32,
    /// Tokens of a sequence.
    pub sequence: u32,
    /// Experts, for a mixture.
    pub moe: Option<Moe>,
}

/// The experts of a mixture.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moe {
    /// Experts of a layer.
    pub experts: u32,
    /// Experts that a token visits.
    pub top_k: u32,
    /// Layers that have experts.
    pub layers: u32,
    /// Parameters that a token meets.
    pub active_parameters: f64,
    /// Most nodes that a token is sent to.
    pub node_limit: Option<u32>,
}

impl Model {
    /// Parameters that a token meets.
    pub fn active(&self) -> f64 {
        self.moe.as_ref().map_or(self.parameters, |moe| moe.active_parameters)
    }

    /// Parameters of all experts together: from `total = dense + experts·e` and
    /// `active = dense + top_k·e`.
    pub fn expert_parameters(&self) -> f64 {
        self.moe.as_ref().map_or(0.0, |moe| {
            let others = f64::from(moe.experts.saturating_sub(moe.top_k));
            let one = (self.parameters - moe.active_parameters) / others.max(1.0);
            (one * f64::from(moe.experts)).min(self.parameters)
        })
    }

    /// Refuses shapes that cannot be.
    pub(super) fn check(&self) -> Result<(), AdviseError> {
        let positive = [
            ("--parameters", self.parameters),
            ("--layers", f64::from(self.layers)),
            ("--hidden", f64::from(self.hidden)),
            ("--kv-hidden", f64::from(self.kv_hidden)),
            ("--sequence", f64::from(self.sequence)),
        ];
        for (flag, value) in positive {
            super::positive(flag, value)?;
        }
        let Some(moe) = &self.moe else { return Ok(()) };
        super::positive("--active-parameters", moe.active_parameters)?;
        let wrong = |reason: String| Err(AdviseError::Wrong(reason));
        if moe.top_k == 0 || moe.experts <= moe.top_k {
            let (experts, top_k) = (moe.experts, moe.top_k);
            return wrong(format!(
                "--top-k {top_k} of --experts {experts}: a token visits at least one expert and \
                 not all of them; give a smaller --top-k"
            ));
        }
        if moe.layers > self.layers || moe.layers == 0 {
            return wrong(format!(
                "--moe-layers {}: the model has {} layers; give 1 to {0}",
                moe.layers, self.layers
            ));
        }
        if moe.active_parameters >= self.parameters {
            return wrong(
                "--active-parameters is not below --parameters: a token meets a part of a mixture"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

/// A kind of GPU.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// What it goes by.
    pub name: String,
    /// Dense bf16 peak, TFLOP/s.
    pub peak_tflops: f64,
    /// Memory bandwidth, TB/s.
    pub memory_tbytes_per_s: f64,
    /// Part of the peak that training reaches on one node.
    pub mfu: f64,
}

/// A fabric by name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    /// What it goes by.
    pub name: String,
    /// RDMA or TCP.
    pub transport: Transport,
    /// In a few words.
    pub about: String,
    /// One step of a collective, µs.
    pub latency_us: f64,
    /// One NIC, one direction, sustained, GB/s.
    pub gbytes_per_s: f64,
    /// What it is compared with.
    pub counterpart: String,
    /// The counterpart runs over the same NICs.
    pub same_nics: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Models {
    model: Vec<Model>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gpus {
    gpu: Vec<Gpu>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fabrics {
    fabric: Vec<Fabric>,
}

/// All models.
pub fn models() -> Result<Vec<Model>, AdviseError> {
    read::<Models>("models.toml", include_str!("../../models/models.toml")).map(|all| all.model)
}

/// All GPUs.
pub fn gpus() -> Result<Vec<Gpu>, AdviseError> {
    read::<Gpus>("gpus.toml", include_str!("../../models/gpus.toml")).map(|all| all.gpu)
}

/// All fabrics.
pub fn fabrics() -> Result<Vec<Fabric>, AdviseError> {
    read::<Fabrics>("fabrics.toml", include_str!("../../models/fabrics.toml")).map(|all| all.fabric)
}

/// A model by name.
pub fn model(name: &str) -> Result<Model, AdviseError> {
    let all = models()?;
    pick("--model", name, all, |model| &model.name, "or describe it: --parameters, --layers, …")
}

/// The one model of a file as a user wrote it: a table like those of `models.toml`, without its
/// `[[model]]` line.
pub fn model_file(path: &str, text: &str) -> Result<Model, AdviseError> {
    read(path, text)
}

/// A GPU by name.
pub fn gpu(name: &str) -> Result<Gpu, AdviseError> {
    pick("--gpu", name, gpus()?, |gpu| &gpu.name, "or give --flops (TFLOP/s sustained per GPU)")
}

/// A fabric by name.
pub fn fabric(name: &str) -> Result<Fabric, AdviseError> {
    let other = "or give --rdma-bandwidth and --rdma-latency, --tcp-bandwidth and --tcp-latency";
    pick("--fabric", name, fabrics()?, |fabric| &fabric.name, other)
}

fn pick<T>(
    flag: &'static str,
    name: &str,
    all: Vec<T>,
    name_of: fn(&T) -> &String,
    otherwise: &'static str,
) -> Result<T, AdviseError> {
    let known: Vec<&str> = all.iter().map(|item| name_of(item).as_str()).collect();
    let known = known.join(", ");
    let found = all.into_iter().find(|item| name_of(item).eq_ignore_ascii_case(name));
    found.ok_or_else(|| AdviseError::Unknown { flag, name: name.to_owned(), known, otherwise })
}

fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, AdviseError> {
    toml::from_str(text).map_err(|error| {
        AdviseError::Wrong(format!("{file} cannot be read: {error}; correct the line it names"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_possible_and_every_counterpart_is_of_the_other_kind() {
        for model in models().unwrap() {
            model.check().unwrap();
            assert!(model.expert_parameters() < model.parameters, "{}", model.name);
        }
        assert!(gpus().unwrap().iter().all(|gpu| gpu.mfu > 0.0 && gpu.mfu < 1.0));
        for one in fabrics().unwrap() {
            let other = fabric(&one.counterpart).unwrap();
            assert_ne!(one.transport, other.transport, "{}", one.name);
        }
    }

    #[test]
    fn unknown_names_and_keys_are_refused_with_what_would_do() {
        let error = model("7c").unwrap_err().to_string();
        assert!(error.contains("7c") && error.contains("70b") && error.contains("--parameters"));
        let text = include_str!("../../models/models.toml").replacen("layers", "layer", 1);
        assert!(read::<Models>("x.toml", &text).err().unwrap().to_string().contains("layer"));
    }
}
