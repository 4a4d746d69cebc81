//! What a user runs: the workload, how it is spread over GPUs, and on what.

use super::library::Model;
use super::{AdviseError, positive};

/// A workload on nodes of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Shape of the model.
    pub model: Model,
    /// Training or inference.
    pub task: Task,
    /// How the model is cut.
    pub parallel: Parallel,
    /// GPUs of a node.
    pub gpus_per_node: u32,
    /// How fast a GPU is.
    pub compute: Compute,
    /// Bytes of one activation element.
    pub activation_bytes: f64,
}

/// What is done with the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Task {
    /// Training or fine-tuning.
    Train(Train),
    /// Decoding: one token of each of so many sequences per model replica.
    Infer {
        /// Sequences.
        batch: u32,
        /// Bytes of one weight.
        weight_bytes: f64,
        /// Memory bandwidth of a GPU, bytes/s.
        memory: f64,
    },
}

/// How training is done.
#[derive(Debug, Clone, PartialEq)]
pub struct Train {
    /// What data-parallel ranks exchange.
    pub scheme: Scheme,
    /// Tokens of a step.
    pub tokens: Tokens,
    /// Gradient accumulation steps.
    pub accumulate: u32,
    /// Sequences of a micro-batch (tensor, pipeline, context and expert parallel).
    pub micro_batch: u32,
    /// Bytes of one gradient element as sent.
    pub gradient_bytes: f64,
    /// Bytes of one parameter as sent.
    pub parameter_bytes: f64,
    /// Bucket of the gradients in bytes.
    pub bucket_bytes: f64,
    /// Full activation recomputation.
    pub recompute: bool,
    /// Count attention's own FLOPs (12·L·h·s per token).
    pub attention: bool,
    /// ZeRO-1 and 2: parameters are fetched ahead, behind the forward pass.
    pub prefetch: bool,
    /// Part of the parameters that is trained: below 1 for adapters (LoRA).
    pub trainable: f64,
    /// Interleaved pipeline chunks of a stage.
    pub interleave: u32,
    /// Bytes of one element sent to an expert.
    pub dispatch_bytes: f64,
    /// Bytes of one element that comes back.
    pub combine_bytes: f64,
}

/// Tokens of one optimizer step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tokens {
    /// Of each GPU: grows with the cluster.
    PerGpu(f64),
    /// Of all: each GPU gets less as the cluster grows.
    PerStep(f64),
}

/// What data-parallel ranks exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// DDP, ZeRO-0: all-reduce of gradients.
    Ddp,
    /// Reduce-scatter of gradients, all-gather of parameters.
    Zero1,
    /// Likewise, gradients in each micro-step.
    Zero2,
    /// ZeRO-3, FSDP: parameters gathered forward and backward, gradients scattered.
    Zero3,
    /// HSDP, ZeRO++ hpZ: sharded inside the node, all-reduce between nodes.
    Hsdp,
}

/// How the model is cut. Ranks are laid out tensor first, then context, data, pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parallel {
    /// Data parallel ranks, if said: else what the others leave.
    pub dp: Option<u32>,
    /// Tensor parallel.
    pub tp: u32,
    /// Pipeline stages.
    pub pp: u32,
    /// Context parallel.
    pub cp: u32,
    /// Expert parallel: within data and context parallel.
    pub ep: u32,
}

/// How fast a GPU is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Compute {
    /// Sustained FLOP/s without communication.
    Flops(f64),
    /// Measured step on one node, s.
    StepTime(f64),
}

/// The layout on a number of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Nodes.
    pub nodes: u32,
    /// GPUs of a node.
    pub gpus_per_node: u32,
    /// Data parallel ranks (replicas in inference).
    pub dp: u32,
}

/// Ranks that exchange data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Members on one node.
    pub local: u32,
    /// Nodes that have members.
    pub nodes: u32,
    /// Nodes from the first member to the last.
    pub span: u32,
}

impl Layout {
    /// All GPUs.
    pub fn gpus(self) -> u32 {
        self.nodes.saturating_mul(self.gpus_per_node)
    }

    /// A group of `size` ranks, `stride` ranks apart.
    pub fn group(self, stride: u32, size: u32) -> Group {
        let local = (self.gpus_per_node / stride.max(1)).clamp(1, size.max(1));
        let nodes = size.div_ceil(local).max(1);
        let span = stride.saturating_mul(size).div_ceil(self.gpus_per_node);
        Group { local, nodes: nodes.min(self.nodes), span: span.clamp(1, self.nodes) }
    }
}

impl Parallel {
    /// Everything by data.
    pub fn data() -> Self {
        Parallel { dp: None, tp: 1, pp: 1, cp: 1, ep: 1 }
    }
}

impl Job {
    /// Spreads the job over nodes.
    ///
    /// # Errors
    ///
    /// When the parallel sizes do not multiply to the GPUs there are.
    pub fn layout(&self, nodes: u32) -> Result<Layout, AdviseError> {
        let Parallel { dp, tp, pp, cp, ep } = self.parallel;
        let gpus = u64::from(nodes) * u64::from(self.gpus_per_node);
        let cut = u64::from(tp) * u64::from(pp) * u64::from(cp);
        let here = format!("{nodes} nodes of {} GPUs are {gpus} GPUs", self.gpus_per_node);
        let wrong = |reason: String| Err(AdviseError::Wrong(reason));
        if gpus > 1 << 22 {
            return wrong(format!("{here}: more than 4 194 304 are not modelled"));
        }
        if cut == 0 || !gpus.is_multiple_of(cut) {
            return wrong(format!(
                "--tp {tp} × --pp {pp} × --cp {cp} = {cut} does not divide them: {here}; choose \
                 sizes whose product divides {gpus}"
            ));
        }
        let left = gpus / cut;
        if let Some(dp) = dp.filter(|dp| u64::from(*dp) != left) {
            return wrong(format!(
                "--dp {dp} × --tp {tp} × --pp {pp} × --cp {cp} = {} GPUs, but {here}; leave --dp \
                 out, or give --dp {left}",
                u64::from(dp) * cut
            ));
        }
        let sharing = left * u64::from(cp);
        if ep == 0 || !sharing.is_multiple_of(u64::from(ep)) {
            return wrong(format!(
                "--ep {ep} does not divide the {sharing} data and context parallel ranks ({here}); \
                 choose a divisor of {sharing}"
            ));
        }
        // Bounded by the check of the GPUs above.
        Ok(Layout { nodes, gpus_per_node: self.gpus_per_node, dp: left as u32 })
    }

    /// Refuses numbers that mean nothing.
    pub(super) fn check(&self) -> Result<(), AdviseError> {
        self.model.check()?;
        positive("--gpus-per-node", f64::from(self.gpus_per_node))?;
        positive("--activation-bytes", self.activation_bytes)?;
        let Parallel { dp, tp, pp, cp, ep } = self.parallel;
        let sizes = [("--tp", tp), ("--pp", pp), ("--cp", cp), ("--ep", ep)];
        for (flag, value) in sizes.into_iter().chain(dp.map(|dp| ("--dp", dp))) {
            positive(flag, f64::from(value))?;
        }
        match self.compute {
            Compute::Flops(flops) => positive("--flops", flops)?,
            Compute::StepTime(time) => positive("--step-time", time)?,
        }
        if pp > self.model.layers {
            let layers = self.model.layers;
            let message =
                format!("--pp {pp}: the model has {layers} layers; at most one stage each");
            return Err(AdviseError::Wrong(message));
        }
        if ep > 1 && self.model.moe.is_none() {
            let message = "--ep: this model has no experts; give --experts, --top-k, --moe-layers \
                           and --active-parameters, or leave --ep out";
            return Err(AdviseError::Wrong(message.to_owned()));
        }
        match &self.task {
            Task::Train(train) => train.check(self.compute),
            Task::Infer { batch, weight_bytes, memory } => {
                positive("--batch", f64::from(*batch))?;
                positive("--parameter-bytes", *weight_bytes)?;
                positive("--memory-bandwidth", *memory)?;
                if ep > 1 || cp > 1 {
                    return Err(AdviseError::Wrong(
                        "inference is modelled by tensor and pipeline parallel only: leave --ep and \
                         --cp out"
                            .to_owned(),
                    ));
                }
                Ok(())
            }
        }
    }
}

impl Train {
    /// Plain DDP in bf16 with 25 MiB buckets.
    pub fn plain(scheme: Scheme, tokens: Tokens) -> Self {
        Train {
            scheme,
            tokens,
            accumulate: 1,
            micro_batch: 1,
            gradient_bytes: 2.0,
            parameter_bytes: 2.0,
            bucket_bytes: 25.0 * 1024.0 * 1024.0,
            recompute: false,
            attention: false,
            prefetch: false,
            trainable: 1.0,
            interleave: 1,
            dispatch_bytes: 2.0,
            combine_bytes: 2.0,
        }
    }

    /// Tokens of one GPU in a step.
    pub fn tokens_per_gpu(&self, layout: Layout) -> f64 {
        match self.tokens {
            Tokens::PerGpu(tokens) => tokens,
            Tokens::PerStep(tokens) => tokens / f64::from(layout.gpus()),
        }
    }

    /// FLOPs per parameter and token: forward 2; backward 4, or 2 where weights stay as they are;
    /// recomputation 2. Returned as (all, backward with recomputation).
    pub fn flops_per_parameter(&self) -> (f64, f64) {
        let backward = if self.trainable < 1.0 { 2.0 } else { 4.0 };
        let again = if self.recompute { 2.0 } else { 0.0 };
        (2.0 + backward + again, backward + again)
    }

    fn check(&self, compute: Compute) -> Result<(), AdviseError> {
        let (flag, tokens) = match self.tokens {
            Tokens::PerGpu(tokens) => ("--tokens-per-gpu", tokens),
            Tokens::PerStep(tokens) => ("--tokens-per-step", tokens),
        };
        let positives = [
            (flag, tokens),
            ("--accumulate", f64::from(self.accumulate)),
            ("--micro-batch", f64::from(self.micro_batch)),
            ("--gradient-bytes", self.gradient_bytes),
            ("--parameter-bytes", self.parameter_bytes),
            ("--bucket", self.bucket_bytes),
            ("--lora", self.trainable),
            ("--interleave", f64::from(self.interleave)),
            ("--dispatch-bytes", self.dispatch_bytes),
            ("--combine-bytes", self.combine_bytes),
        ];
        for (flag, value) in positives {
            positive(flag, value)?;
        }
        let wrong = |reason: &str| Err(AdviseError::Wrong(reason.to_owned()));
        if self.trainable > 1.0 {
            return wrong("--lora is the part of the parameters that is trained: 0 to 1, or 0.5%");
        }
        if matches!((self.tokens, compute), (Tokens::PerStep(_), Compute::StepTime(_))) {
            return wrong(
                "--step-time belongs to one number of tokens per GPU: give --tokens-per-gpu \
                 instead of --tokens-per-step, or --gpu instead of --step-time",
            );
        }
        Ok(())
    }
}
