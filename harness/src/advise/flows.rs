//! What one GPU's share of the NICs has to send in a step, by kind of parallelism.

use super::job::{Compute, Group, Job, Layout, Parallel, Scheme, Task, Train};

/// How data is exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collective {
    /// All-reduce.
    AllReduce,
    /// Reduce-scatter.
    ReduceScatter,
    /// All-gather.
    AllGather,
    /// All-to-all.
    AllToAll,
    /// Point to point.
    PointToPoint,
}

impl Collective {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Collective::AllReduce => "all-reduce",
            Collective::ReduceScatter => "reduce-scatter",
            Collective::AllGather => "all-gather",
            Collective::AllToAll => "all-to-all",
            Collective::PointToPoint => "point to point",
        }
    }
}

/// Traffic of one kind in one step, as one GPU sees it: what stays inside the node is left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flow {
    /// What is sent.
    pub name: &'static str,
    /// How.
    pub collective: Collective,
    /// Calls per step.
    pub calls: f64,
    /// Payload per step, bytes: the whole of it divided by the members on a node.
    pub payload: f64,
    /// Nodes that take part.
    pub nodes: u32,
    /// Nodes that the group lies across.
    pub span: u32,
    /// Computing that it can hide behind, s; 0 when it holds computing up.
    pub window: f64,
    /// Exchanged between data-parallel ranks: does not grow with the tokens.
    pub data_parallel: bool,
}

/// Time that computing takes, s: of a step, or of a token of every sequence.
pub fn compute_time(job: &Job, layout: Layout) -> f64 {
    match (job.compute, &job.task) {
        (Compute::StepTime(time), _) => time,
        (Compute::Flops(flops), Task::Train(train)) => {
            let tokens = train.tokens_per_gpu(layout);
            let dense = train.flops_per_parameter().0 * job.model.active();
            let attention = if train.attention { attention_flops(job) } else { 0.0 };
            tokens * (dense + attention) / flops
        }
        // A token passes all stages one after the other; each reads its weights once.
        (Compute::Flops(flops), Task::Infer { batch, weight_bytes, memory }) => {
            let parameters = job.model.active() / f64::from(job.parallel.tp);
            let multiply = 2.0 * parameters * f64::from(*batch) / flops;
            multiply.max(parameters * weight_bytes / memory)
        }
    }
}

/// All traffic between nodes.
pub fn flows(job: &Job, layout: Layout) -> Vec<Flow> {
    let flows = match &job.task {
        Task::Train(train) => training(job, train, layout),
        Task::Infer { batch, .. } => inference(job, *batch, layout),
    };
    flows.into_iter().filter(|flow| flow.nodes > 1 && flow.payload > 0.0).collect()
}

/// 12·L·h·s FLOPs of attention per token.
fn attention_flops(job: &Job) -> f64 {
    let model = &job.model;
    12.0 * f64::from(model.layers) * f64::from(model.hidden) * f64::from(model.sequence)
}

fn training(job: &Job, train: &Train, layout: Layout) -> Vec<Flow> {
    let Parallel { tp, pp, cp, ep, .. } = job.parallel;
    let compute = compute_time(job, layout);
    let cut = f64::from(tp * pp);
    let experts = if ep > 1 { job.model.expert_parameters() } else { 0.0 };
    let sharing = layout.dp * cp;
    let dense = Shard {
        name: ["gradients", "parameters, forward", "parameters, backward"],
        parameters: (job.model.parameters - experts) / cut,
        group: layout.group(tp, sharing),
    };
    let expert = Shard {
        name: ["expert gradients", "experts, forward", "experts, backward"],
        parameters: experts / (cut * f64::from(ep)),
        group: layout.group(tp.saturating_mul(ep), sharing / ep),
    };
    let layers = f64::from(job.model.layers) / f64::from(pp);
    let mut flows = data_parallel(train, &dense, layers, compute);
    flows.extend(data_parallel(train, &expert, layers, compute));
    flows.extend(model_parallel(job, train, layout, compute));
    flows
}

/// Parameters that a group of data-parallel ranks shares.
struct Shard {
    name: [&'static str; 3],
    parameters: f64,
    group: Group,
}

fn data_parallel(train: &Train, shard: &Shard, layers: f64, compute: f64) -> Vec<Flow> {
    let (all, backward) = train.flops_per_parameter();
    let steps = f64::from(train.accumulate);
    let backward = compute * backward / all;
    let local = f64::from(shard.group.local);
    let gradients = shard.parameters * train.trainable * train.gradient_bytes;
    let updated = shard.parameters * train.trainable * train.parameter_bytes;
    let parameters = shard.parameters * train.parameter_bytes;
    let flow = |name, collective, bytes: f64, calls: f64, window| Flow {
        name,
        collective,
        calls,
        payload: bytes / local,
        nodes: shard.group.nodes,
        span: shard.group.span,
        window,
        data_parallel: true,
    };
    let buckets = |bytes: f64| (bytes / train.bucket_bytes).ceil();
    let [grad, forward_name, backward_name] = shard.name;
    let gather = |window| {
        let calls = buckets(updated);
        flow(forward_name, Collective::AllGather, updated, calls, window)
    };
    // Parameters are gathered before the first layer needs them, unless fetched ahead.
    let ahead = if train.prefetch { (compute - backward) / steps } else { 0.0 };
    match train.scheme {
        Scheme::Ddp | Scheme::Hsdp => {
            // With accumulation only the last micro-step's backward pass is there to hide behind.
            let calls = buckets(gradients);
            vec![flow(grad, Collective::AllReduce, gradients, calls, backward / steps)]
        }
        Scheme::Zero1 => {
            let calls = buckets(gradients);
            let scatter = flow(grad, Collective::ReduceScatter, gradients, calls, backward / steps);
            vec![scatter, gather(ahead)]
        }
        Scheme::Zero2 => {
            let (bytes, calls) = (gradients * steps, buckets(gradients) * steps);
            vec![flow(grad, Collective::ReduceScatter, bytes, calls, backward), gather(ahead)]
        }
        Scheme::Zero3 => {
            let calls = layers * steps;
            let all = parameters * steps;
            vec![
                flow(forward_name, Collective::AllGather, all, calls, compute),
                flow(backward_name, Collective::AllGather, all, calls, compute),
                flow(grad, Collective::ReduceScatter, gradients * steps, calls, compute),
            ]
        }
    }
}

/// Tensor, pipeline, context and expert parallel traffic.
fn model_parallel(job: &Job, train: &Train, layout: Layout, compute: f64) -> Vec<Flow> {
    let Parallel { tp, pp, cp, ep, .. } = job.parallel;
    let model = &job.model;
    let tokens = train.tokens_per_gpu(layout) * f64::from(tp * pp * cp);
    let batch = f64::from(model.sequence) * f64::from(train.micro_batch);
    let by_size = (tokens / batch).ceil().max(1.0);
    let batches = if train.accumulate > 1 { f64::from(train.accumulate) } else { by_size };
    let layers = f64::from(model.layers) / f64::from(pp);
    // One layer's activations of a step on one tensor-parallel group.
    let activations = tokens / f64::from(cp) * f64::from(model.hidden) * job.activation_bytes;
    let mut flows = Vec::new();
    if tp > 1 {
        let group = layout.group(1, tp);
        flows.push(Flow {
            name: "tensor parallel activations",
            collective: Collective::AllReduce,
            calls: 4.0 * layers * batches,
            payload: 4.0 * layers * activations / f64::from(group.local),
            nodes: group.nodes,
            span: group.span,
            window: 0.0,
            data_parallel: false,
        });
    }
    if pp > 1 {
        let ways = 2.0 * f64::from(train.interleave);
        flows.push(Flow {
            name: "pipeline activations",
            collective: Collective::PointToPoint,
            calls: ways * batches,
            payload: ways * activations / f64::from(tp),
            nodes: layout.nodes.min(2),
            span: layout.nodes,
            window: compute,
            data_parallel: false,
        });
    }
    if cp > 1 {
        flows.push(context_parallel(job, train, layout, (tokens, batches, compute)));
    }
    flows.extend(expert_parallel(job, train, layout, batches).filter(|_| ep > 1));
    flows
}

/// Ring attention: cp − 1 hops forward, and twice as much backward (keys and values, then their
/// gradients), behind attention's own computing.
fn context_parallel(
    job: &Job,
    train: &Train,
    layout: Layout,
    (tokens, batches, compute): (f64, f64, f64),
) -> Flow {
    let Parallel { tp, pp, cp, .. } = job.parallel;
    let group = layout.group(tp, cp);
    let hops = 3.0 * f64::from(cp - 1) * f64::from(job.model.layers) / f64::from(pp);
    let block = 2.0 * tokens / f64::from(cp) * f64::from(job.model.kv_hidden);
    let dense = train.flops_per_parameter().0 * job.model.active();
    let attention = attention_flops(job);
    Flow {
        name: "context parallel keys and values",
        collective: Collective::PointToPoint,
        calls: hops * batches,
        payload: hops * block * job.activation_bytes / f64::from(tp),
        nodes: group.nodes,
        span: group.span,
        window: compute * attention / (dense + attention),
        data_parallel: false,
    }
}

/// Dispatch and combine, forward and backward.
fn expert_parallel(
    job: &Job,
    train: &Train,
    layout: Layout,
    batches: f64,
) -> impl Iterator<Item = Flow> {
    let Parallel { tp, pp, ep, .. } = job.parallel;
    let group = layout.group(tp, ep);
    let tokens = train.tokens_per_gpu(layout) * f64::from(pp);
    let hidden = f64::from(job.model.hidden);
    job.model.moe.iter().flat_map(move |moe| {
        let copies = f64::from(moe.node_limit.map_or(moe.top_k, |limit| limit.min(moe.top_k)));
        let layers = f64::from(moe.layers) / f64::from(pp);
        let flow = move |name, bytes: f64| Flow {
            name,
            collective: Collective::AllToAll,
            calls: 2.0 * layers * batches,
            payload: 2.0 * layers * tokens * copies * hidden * bytes,
            nodes: group.nodes,
            span: group.span,
            window: 0.0,
            data_parallel: false,
        };
        [flow("expert dispatch", train.dispatch_bytes), flow("expert combine", train.combine_bytes)]
    })
}

/// Decoding: two all-reduces a layer where tensor parallel leaves the node, one hop a stage.
fn inference(job: &Job, batch: u32, layout: Layout) -> Vec<Flow> {
    let Parallel { tp, pp, .. } = job.parallel;
    let size = f64::from(batch) * f64::from(job.model.hidden) * job.activation_bytes;
    let group = layout.group(1, tp);
    let layers = f64::from(job.model.layers);
    let tensor = Flow {
        name: "tensor parallel activations",
        collective: Collective::AllReduce,
        calls: 2.0 * layers,
        payload: 2.0 * layers * size / f64::from(group.local),
        nodes: group.nodes,
        span: group.span,
        window: 0.0,
        data_parallel: false,
    };
    // Stages that share a node hand over inside it.
    let stages = layout.group(tp, pp);
    let hops = f64::from(stages.nodes.saturating_sub(1));
    let pipeline = Flow {
        name: "pipeline activations",
        collective: Collective::PointToPoint,
        calls: hops,
        payload: hops * size / f64::from(group.local),
        nodes: stages.nodes.min(2),
        span: stages.span,
        // Other sequences are computed meanwhile.
        window: compute_time(job, layout),
        data_parallel: false,
    };
    vec![tensor, pipeline]
}
