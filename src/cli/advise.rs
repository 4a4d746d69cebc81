//! What was typed after `fabbench advise`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Color;

/// `fabbench advise`
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(allow_negative_numbers = true)]
#[command(after_help = "Without options it prints the questions to answer before buying.")]
pub struct AdviseArgs {
    /// Model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Workload.
    #[command(flatten)]
    pub work: WorkArgs,
    /// GPUs and nodes.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Fabric.
    #[command(flatten)]
    pub fabric: FabricArgs,
    /// Output.
    #[command(flatten)]
    pub output: AdviseOutput,
}

/// Shape of the model.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// Model by name (7b, 70b, 405b, …) or a TOML file; the options below change it
    #[arg(long, value_name = "NAME|FILE")]
    pub model: Option<String>,
    /// All parameters, e.g. 7B or 1.3e9
    #[arg(long, value_name = "N", value_parser = count)]
    pub parameters: Option<f64>,
    /// Layers
    #[arg(long, value_name = "N", value_parser = whole)]
    pub layers: Option<u32>,
    /// Hidden size
    #[arg(long, value_name = "N", value_parser = whole)]
    pub hidden: Option<u32>,
    /// KV heads times head size [default: the hidden size]
    #[arg(long, value_name = "N", value_parser = whole)]
    pub kv_hidden: Option<u32>,
    /// Tokens of a sequence
    #[arg(long, value_name = "N", value_parser = whole)]
    pub sequence: Option<u32>,
    /// Experts of a layer
    #[arg(long, value_name = "N", value_parser = whole)]
    pub experts: Option<u32>,
    /// Experts that a token visits
    #[arg(long, value_name = "N", value_parser = whole)]
    pub top_k: Option<u32>,
    /// Layers with experts [default: all]
    #[arg(long, value_name = "N", value_parser = whole)]
    pub moe_layers: Option<u32>,
    /// Parameters that a token meets
    #[arg(long, value_name = "N", value_parser = count)]
    pub active_parameters: Option<f64>,
    /// Most nodes that a token is sent to
    #[arg(long, value_name = "N", value_parser = whole)]
    pub node_limit: Option<u32>,
}

/// What is done with the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TaskArg {
    /// Training
    Train,
    /// Fine-tuning: training, with --lora of a part
    Finetune,
    /// Decoding
    Infer,
}

/// What data-parallel ranks exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemeArg {
    /// All-reduce of gradients
    #[value(alias = "zero0")]
    Ddp,
    /// Reduce-scatter gradients, all-gather parameters
    Zero1,
    /// Likewise, gradients in each micro-step
    Zero2,
    /// Parameters gathered twice, gradients scattered
    Zero3,
    /// Fully sharded: as zero3
    Fsdp,
    /// Sharded in the node, all-reduce between nodes
    Hsdp,
}

/// The workload.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Workload")]
pub struct WorkArgs {
    /// What is done [default: train]
    #[arg(long, value_enum)]
    pub task: Option<TaskArg>,
    /// What data-parallel ranks exchange [default: ddp]
    #[arg(long, value_enum)]
    pub scheme: Option<SchemeArg>,
    /// Part of the parameters that is trained, e.g. 0.5% (adapters)
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub lora: Option<f64>,
    /// Data parallel ranks [default: what the others leave]
    #[arg(long, value_name = "N", value_parser = whole)]
    pub dp: Option<u32>,
    /// Tensor parallel ranks [default: 1]
    #[arg(long, value_name = "N", value_parser = whole)]
    pub tp: Option<u32>,
    /// Pipeline stages [default: 1]
    #[arg(long, value_name = "N", value_parser = whole)]
    pub pp: Option<u32>,
    /// Context parallel ranks [default: 1]
    #[arg(long, value_name = "N", value_parser = whole)]
    pub cp: Option<u32>,
    /// Expert parallel ranks, within data and context parallel [default: 1]
    #[arg(long, value_name = "N", value_parser = whole)]
    pub ep: Option<u32>,
    /// Tokens of each GPU in an optimizer step
    #[arg(long, value_name = "N", value_parser = count)]
    pub tokens_per_gpu: Option<f64>,
    /// Tokens of all GPUs in an optimizer step
    #[arg(long, value_name = "N", value_parser = count, conflicts_with = "tokens_per_gpu")]
    pub tokens_per_step: Option<f64>,
    /// Sequences decoded at once (inference)
    #[arg(long, value_name = "N", value_parser = whole)]
    pub batch: Option<u32>,
    /// Gradient accumulation steps [default: 1]
    #[arg(long, value_name = "N", value_parser = whole)]
    pub accumulate: Option<u32>,
    /// Sequences of a micro-batch [default: 1]
    #[arg(long, value_name = "N", value_parser = whole)]
    pub micro_batch: Option<u32>,
    /// Bytes of a gradient as sent [default: 2]
    #[arg(long, value_name = "BYTES")]
    pub gradient_bytes: Option<f64>,
    /// Bytes of a parameter as sent and stored [default: 2]
    #[arg(long, value_name = "BYTES")]
    pub parameter_bytes: Option<f64>,
    /// Bytes of an activation [default: 2]
    #[arg(long, value_name = "BYTES")]
    pub activation_bytes: Option<f64>,
    /// Bytes of an element sent to an expert [default: 2]
    #[arg(long, value_name = "BYTES")]
    pub dispatch_bytes: Option<f64>,
    /// Bytes of an element that comes back from an expert [default: 2]
    #[arg(long, value_name = "BYTES")]
    pub combine_bytes: Option<f64>,
    /// Bucket of gradients [default: 25MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub bucket: Option<f64>,
    /// Interleaved chunks of a pipeline stage [default: 1]
    #[arg(long, value_name = "N", value_parser = whole)]
    pub interleave: Option<u32>,
    /// Activations are recomputed in full
    #[arg(long)]
    pub recompute: bool,
    /// Count attention's own FLOPs
    #[arg(long)]
    pub attention: bool,
    /// ZeRO-1 and 2 fetch parameters ahead, behind the forward pass
    #[arg(long)]
    pub prefetch: bool,
    /// Part of the overlap window that is used: 0 to 1 [default: 1]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub overlap: Option<f64>,
}

/// GPUs and nodes.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "GPUs and nodes")]
pub struct MachineArgs {
    /// GPU by name (a100, h100, …)
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,
    /// Part of the GPU's peak that is reached on one node [default: the GPU's usual]
    #[arg(long, value_name = "SHARE", value_parser = share, requires = "gpu")]
    pub mfu: Option<f64>,
    /// Sustained TFLOP/s of a GPU
    #[arg(long, value_name = "TFLOPS")]
    pub flops: Option<f64>,
    /// Measured step time on one node, e.g. 1.7s (training)
    #[arg(long, value_name = "T", value_parser = time)]
    pub step_time: Option<f64>,
    /// Memory bandwidth of a GPU, e.g. 3350GB/s [default: the GPU's]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub memory_bandwidth: Option<f64>,
    /// Nodes now
    #[arg(long, value_name = "N", value_parser = whole)]
    pub nodes: Option<u32>,
    /// Nodes in 12 months
    #[arg(long, value_name = "N", value_parser = whole)]
    pub target_nodes: Option<u32>,
    /// GPUs of a node [default: as the report saw]
    #[arg(long, value_name = "N", value_parser = whole)]
    pub gpus_per_node: Option<u32>,
    /// Standard deviation of a node's step time, in % of it
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub jitter: Option<f64>,
    /// A step time observed at the nodes of now: calibrates the model
    #[arg(long, value_name = "T", value_parser = time)]
    pub observed_step: Option<f64>,
    /// The fabric that it was observed on [default: rdma]
    #[arg(long, value_enum)]
    pub observed_on: Option<SideArg>,
}

/// RDMA or TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SideArg {
    /// RDMA
    Rdma,
    /// TCP
    Tcp,
}

/// Whether storage has NICs of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StorageArg {
    /// On the training NICs
    Shared,
    /// On NICs of its own
    Separate,
}

/// How an all-reduce goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AlgorithmArg {
    /// The faster of both
    Auto,
    /// Ring
    Ring,
    /// Double binary tree
    Tree,
}

/// The fabric.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Fabric")]
pub struct FabricArgs {
    /// A fabbench report (JSON): its measured latency and bandwidth
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Fabrics by name, e.g. ndr,tcp-25g; each takes the place of what the report says of its kind
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub fabric: Vec<String>,
    /// NICs of a node [default: the report's rails]
    #[arg(long, value_name = "N", value_parser = whole)]
    pub nics_per_node: Option<u32>,
    /// NICs of a node for TCP [default: the same for RoCE's own Ethernet, else 1]
    #[arg(long, value_name = "N", value_parser = whole)]
    pub tcp_nics: Option<u32>,
    /// One RDMA NIC in one direction, e.g. 45GB/s or 360Gb/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rdma_bandwidth: Option<f64>,
    /// One step over RDMA, e.g. 3us
    #[arg(long, value_name = "T", value_parser = time)]
    pub rdma_latency: Option<f64>,
    /// One NIC in one direction over TCP
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub tcp_bandwidth: Option<f64>,
    /// One step over TCP
    #[arg(long, value_name = "T", value_parser = time)]
    pub tcp_latency: Option<f64>,
    /// Oversubscription of the spine, e.g. 3 or 3:1 [default: none]
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    pub oversubscription: Option<f64>,
    /// Nodes under one leaf switch, up to which it does not count
    #[arg(long, value_name = "NODES", value_parser = whole)]
    pub leaf: Option<u32>,
    /// Time that the collective library adds to each step, e.g. 5us
    #[arg(long, value_name = "T", value_parser = time)]
    pub step_overhead: Option<f64>,
    /// All-reduce algorithm [default: auto]
    #[arg(long, value_enum)]
    pub algorithm: Option<AlgorithmArg>,
    /// Leave out the last bucket or layer, which nothing hides
    #[arg(long)]
    pub no_tail: bool,
    /// Whether storage shares the training NICs
    #[arg(long, value_enum)]
    pub storage: Option<StorageArg>,
    /// Storage traffic of a node, e.g. 2GB/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub storage_rate: Option<f64>,
    /// Time between checkpoints, e.g. 30m
    #[arg(long, value_name = "T", value_parser = time)]
    pub checkpoint_interval: Option<f64>,
    /// Another row: fabric=, nodes=, nics=, oversubscription=, tokens=, separated by commas
    #[arg(long, value_name = "KEY=VALUE,…")]
    pub what_if: Vec<String>,
}

/// Where the answer goes.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Output")]
pub struct AdviseOutput {
    /// Write the answer as JSON; without a file: to stdout, and nothing else there
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Write one HTML file; with --report the page of that report with the answer as a part of it
    #[arg(long, value_name = "FILE", require_equals = true)]
    pub html: Option<PathBuf>,
    /// Colour [default: auto]
    #[arg(long, value_enum)]
    pub color: Option<Color>,
}

/// A number with an optional K, M, B (or G) or T: 7B, 1.3e9, 16k.
fn count(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'm' | 'M')) => (&text[..at], 1e6),
        Some((at, 'b' | 'B' | 'g' | 'G')) => (&text[..at], 1e9),
        Some((at, 't' | 'T')) => (&text[..at], 1e12),
        _ => (text, 1.0),
    };
    number(digits).map(|value| value * factor).ok_or_else(|| "write 7B, 1.3e9 or 16384".to_owned())
}

/// A whole number above 0.
fn whole(text: &str) -> Result<u32, String> {
    let found = text.parse::<u32>().ok().filter(|value| *value > 0);
    found.ok_or_else(|| format!("give a whole number from 1 to {}", u32::MAX))
}

/// A part: 0.5% or 0.005.
fn share(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.strip_suffix('%') {
        Some(digits) => (digits, 0.01),
        None => (text, 1.0),
    };
    number(digits).map(|value| value * factor).ok_or_else(|| "write 0.5% or 0.005".to_owned())
}

/// Bytes/s: 45GB/s, 360Gb/s.
fn rate(text: &str) -> Result<f64, String> {
    let units = [
        ("GB/s", 1e9),
        ("MB/s", 1e6),
        ("TB/s", 1e12),
        ("Gb/s", 1e9 / 8.0),
        ("Gbit/s", 1e9 / 8.0),
        ("Mb/s", 1e6 / 8.0),
    ];
    let found = units.iter().find_map(|(unit, factor)| {
        number(text.strip_suffix(unit)?.trim_end()).map(|value| value * factor)
    });
    found.ok_or_else(|| "write a rate with its unit: 45GB/s (bytes) or 360Gb/s (bits)".to_owned())
}

/// Seconds: 5us, 1.7s, 30m.
fn time(text: &str) -> Result<f64, String> {
    let units = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let found = units.iter().find_map(|(unit, factor)| {
        number(text.strip_suffix(unit)?.trim_end()).map(|value| value * factor)
    });
    found.ok_or_else(|| "write a time with its unit: 5us, 1.7s or 30m".to_owned())
}

/// Bytes: 25MiB.
fn size(text: &str) -> Result<f64, String> {
    fabbench_harness::size::parse_size(text).map(|bytes| bytes as f64).map_err(|e| e.to_string())
}

/// 3 or 3:1.
pub(crate) fn ratio(text: &str) -> Result<f64, String> {
    number(text.strip_suffix(":1").unwrap_or(text)).ok_or_else(|| "write 3 or 3:1".to_owned())
}

fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_with_their_units() {
        let close = |found: Result<f64, String>, wanted: f64| {
            let found = found.unwrap();
            assert!((found - wanted).abs() <= wanted.abs() * 1e-12, "{found} {wanted}");
        };
        close(count("7B"), 7e9);
        close(count("1.3e9"), 1.3e9);
        close(count("16k"), 16e3);
        close(share("0.5%"), 0.005);
        close(rate("45GB/s"), 45e9);
        close(rate("360 Gb/s"), 45e9);
        close(time("5us"), 5e-6);
        close(time("30m"), 1800.0);
        close(size("25MiB"), 26_214_400.0);
        close(ratio("3:1"), 3.0);
        assert_eq!(whole("64"), Ok(64));
    }

    #[test]
    fn quantities_without_a_unit_are_refused_with_an_example() {
        assert!(rate("45").unwrap_err().contains("45GB/s"));
        assert!(time("5").unwrap_err().contains("5us"));
        assert!(count("many").is_err() && share("%").is_err() && ratio("3:2").is_err());
        assert!(["0", "-1", "1.5", "4294967296"].iter().all(|text| whole(text).is_err()));
        assert!(count("nan").is_err() && count("").is_err());
    }
}
