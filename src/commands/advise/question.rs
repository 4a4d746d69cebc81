//! From what was typed to a question, with everything that is missing asked for at once.

use std::path::Path;

use fabbench_harness::advise::estimate::{Algorithm, Path as Way};
use fabbench_harness::advise::job::{Compute, Job, Parallel, Scheme, Task, Tokens, Train};
use fabbench_harness::advise::library::{self, Gpu, Model, Moe};
use fabbench_harness::advise::link::Link;
use fabbench_harness::advise::{AdviseError, Change, Observed, Question, measured};
use fabbench_reports::advice::Transport;
use fabbench_reports::json;

use super::fabric::{self, Measured};
use crate::cli::advise::{
    AdviseArgs, AlgorithmArg, FabricArgs, MachineArgs, ModelArgs, SchemeArg, SideArg, StorageArg,
    TaskArg, WorkArgs, ratio,
};

/// Flags without which there is no answer.
#[derive(Default)]
pub struct Missing(Vec<String>);

impl Missing {
    /// Asks for it, once.
    pub fn add(&mut self, flag: &str) {
        if !self.0.iter().any(|known| known == flag) {
            self.0.push(flag.to_owned());
        }
    }

    fn need<T>(&mut self, value: Option<T>, flag: &str) -> Option<T> {
        if value.is_none() {
            self.add(flag);
        }
        value
    }
}

/// The question.
///
/// # Errors
///
/// What is missing, by its flags, all of it; or what cannot be.
pub fn question(args: &AdviseArgs) -> Result<Question, AdviseError> {
    let mut missing = Missing::default();
    let report = args.fabric.report.as_deref().map(read_report).transpose()?;
    let gpu = args.machine.gpu.as_deref().map(library::gpu).transpose()?;
    let model = model(&args.model, &mut missing)?;
    let task = task(args, gpu.as_ref(), &mut missing)?;
    let compute = compute(args, gpu.as_ref(), &mut missing)?;
    let seen = report.as_ref().and_then(|found| measured::gpus_per_node(&found.report));
    let gpus = missing.need(args.machine.gpus_per_node.or(seen), "--gpus-per-node N");
    let nodes = missing.need(args.machine.nodes, "--nodes N");
    let links = fabric::links(&args.fabric, report.as_ref(), &mut missing)?;
    let path = path(args, report.as_ref(), &mut missing);
    let all = model.zip(task).zip(compute).zip(gpus.zip(nodes)).zip(links);
    let Some(((((model, task), compute), (gpus_per_node, nodes)), links)) =
        all.filter(|_| missing.0.is_empty())
    else {
        let flags = missing.0.join("; ");
        return Err(AdviseError::Wrong(format!("to answer this, give also: {flags}")));
    };
    let job = Job {
        model,
        task,
        parallel: parallel(&args.work),
        gpus_per_node,
        compute,
        activation_bytes: args.work.activation_bytes.unwrap_or(2.0),
    };
    let changes = args.fabric.what_if.iter().map(|text| change(text, &links));
    Ok(Question {
        changes: changes.collect::<Result<_, _>>()?,
        job,
        links,
        path,
        nodes,
        target: args.machine.target_nodes,
        observed: observed(&args.machine),
        storage_separate: args.fabric.storage.map(|storage| storage == StorageArg::Separate),
    })
}

fn read_report(path: &Path) -> Result<Measured, AdviseError> {
    let file = path.display().to_string();
    let wrong = |error: &dyn std::fmt::Display| {
        AdviseError::Wrong(format!("--report {file}: {error}; give the JSON of a fabbench run"))
    };
    let text = std::fs::read_to_string(path).map_err(|e| wrong(&e))?;
    let report = json::read(&text).map_err(|e| wrong(&e))?;
    Ok(Measured { file, report })
}

/// By name or file, changed by flags; or by flags alone.
fn model(args: &ModelArgs, missing: &mut Missing) -> Result<Option<Model>, AdviseError> {
    let base = match args.model.as_deref() {
        Some(path) if path.ends_with(".toml") => {
            let text = std::fs::read_to_string(path).map_err(|e| {
                AdviseError::Wrong(format!("--model {path}: {e}; give a file that can be read"))
            })?;
            Some(library::model_file(path, &text)?)
        }
        Some(name) => Some(library::model(name)?),
        None => None,
    };
    let model = match base {
        Some(base) => Some(Model {
            parameters: args.parameters.unwrap_or(base.parameters),
            layers: args.layers.unwrap_or(base.layers),
            hidden: args.hidden.unwrap_or(base.hidden),
            kv_hidden: args.kv_hidden.unwrap_or(base.kv_hidden),
            sequence: args.sequence.unwrap_or(base.sequence),
            ..base
        }),
        None => own_model(args, missing),
    };
    let Some(model) = model else { return Ok(None) };
    let moe = moe(args, &model, missing);
    Ok(Some(Model { moe, ..model }))
}

fn own_model(args: &ModelArgs, missing: &mut Missing) -> Option<Model> {
    let own = [args.layers, args.hidden, args.sequence];
    if args.parameters.is_none() && own == [None; 3] {
        missing.add("--model NAME (or --parameters, --layers, --hidden and --sequence)");
        return None;
    }
    let parameters = missing.need(args.parameters, "--parameters N");
    let layers = missing.need(args.layers, "--layers N");
    let hidden = missing.need(args.hidden, "--hidden N");
    let sequence = missing.need(args.sequence, "--sequence N");
    let (parameters, layers) = parameters.zip(layers)?;
    let (hidden, sequence) = hidden.zip(sequence)?;
    Some(Model {
        name: "as given".to_owned(),
        about: String::new(),
        parameters,
        layers,
        hidden,
        kv_hidden: args.kv_hidden.unwrap_or(hidden),
        sequence,
        moe: None,
    })
}

fn moe(args: &ModelArgs, model: &Model, missing: &mut Missing) -> Option<Moe> {
    let base = model.moe.as_ref();
    let typed = [args.experts, args.top_k, args.moe_layers, args.node_limit];
    if base.is_none() && typed == [None; 4] && args.active_parameters.is_none() {
        return None;
    }
    let experts = args.experts.or(base.map(|moe| moe.experts));
    let top_k = args.top_k.or(base.map(|moe| moe.top_k));
    let active = args.active_parameters.or(base.map(|moe| moe.active_parameters));
    let experts = missing.need(experts, "--experts N");
    let top_k = missing.need(top_k, "--top-k N");
    let active = missing.need(active, "--active-parameters N");
    let (experts, top_k) = experts.zip(top_k)?;
    Some(Moe {
        experts,
        top_k,
        active_parameters: active?,
        layers: args.moe_layers.or(base.map(|moe| moe.layers)).unwrap_or(model.layers),
        node_limit: args.node_limit.or(base.and_then(|moe| moe.node_limit)),
    })
}

fn task(
    args: &AdviseArgs,
    gpu: Option<&Gpu>,
    missing: &mut Missing,
) -> Result<Option<Task>, AdviseError> {
    let work = &args.work;
    if work.task == Some(TaskArg::Infer) {
        return infer(args, gpu, missing);
    }
    if work.batch.is_some() {
        let message = "--batch belongs to --task infer; training takes --tokens-per-gpu";
        return Err(AdviseError::Wrong(message.to_owned()));
    }
    let tokens = work.tokens_per_gpu.map(Tokens::PerGpu);
    let tokens = tokens.or(work.tokens_per_step.map(Tokens::PerStep));
    let tokens = missing.need(tokens, "--tokens-per-gpu N (or --tokens-per-step N)");
    Ok(tokens.map(|tokens| Task::Train(train(work, tokens))))
}

fn infer(
    args: &AdviseArgs,
    gpu: Option<&Gpu>,
    missing: &mut Missing,
) -> Result<Option<Task>, AdviseError> {
    let work = &args.work;
    let training = [
        ("--tokens-per-gpu", work.tokens_per_gpu.is_some()),
        ("--tokens-per-step", work.tokens_per_step.is_some()),
        ("--scheme", work.scheme.is_some()),
        ("--lora", work.lora.is_some()),
        ("--accumulate", work.accumulate.is_some()),
        ("--step-time", args.machine.step_time.is_some()),
    ];
    if let Some((flag, _)) = training.into_iter().find(|(_, given)| *given) {
        return Err(AdviseError::Wrong(format!(
            "{flag} belongs to training; with --task infer leave it out"
        )));
    }
    let batch = missing.need(work.batch, "--batch N");
    let known = gpu.map(|gpu| gpu.memory_tbytes_per_s * 1e12);
    let memory = args.machine.memory_bandwidth.or(known);
    if memory.is_none() && args.machine.flops.is_some() {
        missing.add("--memory-bandwidth RATE (or --gpu NAME)");
    }
    // Without a GPU at all, --gpu is asked for with the computing.
    Ok(batch.zip(memory).map(|(batch, memory)| Task::Infer {
        batch,
        weight_bytes: work.parameter_bytes.unwrap_or(2.0),
        memory,
    }))
}

fn train(work: &WorkArgs, tokens: Tokens) -> Train {
    let scheme = match work.scheme {
        None | Some(SchemeArg::Ddp) => Scheme::Ddp,
        Some(SchemeArg::Zero1) => Scheme::Zero1,
        Some(SchemeArg::Zero2) => Scheme::Zero2,
        Some(SchemeArg::Zero3 | SchemeArg::Fsdp) => Scheme::Zero3,
        Some(SchemeArg::Hsdp) => Scheme::Hsdp,
    };
    let plain = Train::plain(scheme, tokens);
    Train {
        accumulate: work.accumulate.unwrap_or(plain.accumulate),
        micro_batch: work.micro_batch.unwrap_or(plain.micro_batch),
        gradient_bytes: work.gradient_bytes.unwrap_or(plain.gradient_bytes),
        parameter_bytes: work.parameter_bytes.unwrap_or(plain.parameter_bytes),
        bucket_bytes: work.bucket.unwrap_or(plain.bucket_bytes),
        recompute: work.recompute,
        attention: work.attention,
        prefetch: work.prefetch,
        trainable: work.lora.unwrap_or(plain.trainable),
        interleave: work.interleave.unwrap_or(plain.interleave),
        dispatch_bytes: work.dispatch_bytes.unwrap_or(plain.dispatch_bytes),
        combine_bytes: work.combine_bytes.unwrap_or(plain.combine_bytes),
        ..plain
    }
}

fn parallel(work: &WorkArgs) -> Parallel {
    let one = |size: Option<u32>| size.unwrap_or(1);
    Parallel { dp: work.dp, tp: one(work.tp), pp: one(work.pp), cp: one(work.cp), ep: one(work.ep) }
}

fn compute(
    args: &AdviseArgs,
    gpu: Option<&Gpu>,
    missing: &mut Missing,
) -> Result<Option<Compute>, AdviseError> {
    let infer = args.work.task == Some(TaskArg::Infer);
    let args = &args.machine;
    if let Some(mfu) = args.mfu.filter(|mfu| !(*mfu > 0.0 && *mfu <= 1.0)) {
        return Err(AdviseError::Wrong(format!("--mfu {mfu}: more than 0 and at most 1 (or 40%)")));
    }
    let sustained = |gpu: &Gpu| gpu.peak_tflops * 1e12 * args.mfu.unwrap_or(gpu.mfu);
    let flops = args.flops.map(|tflops| tflops * 1e12).or(gpu.map(sustained));
    let measured = args.step_time.map(Compute::StepTime);
    let found = measured.or(flops.map(Compute::Flops));
    let flags = match infer {
        true => "--gpu NAME (or --flops TFLOPS and --memory-bandwidth RATE)",
        false => "--gpu NAME (or --flops TFLOPS, or --step-time T)",
    };
    Ok(missing.need(found, flags))
}

fn path(args: &AdviseArgs, report: Option<&Measured>, missing: &mut Missing) -> Way {
    let fabric = &args.fabric;
    // What was measured across the middle counts where nothing was typed and RDMA is the report's.
    let of_report = report.filter(|_| fabric.fabric.is_empty());
    let measured = of_report.and_then(|found| measured::oversubscription(&found.report));
    let plain = Way::default();
    let shared = shared_storage(fabric, missing);
    Way {
        oversubscription: fabric.oversubscription.or(measured).unwrap_or(plain.oversubscription),
        leaf: fabric.leaf,
        storage: fabric.storage_rate.filter(|_| shared).unwrap_or(0.0),
        checkpoint: fabric.checkpoint_interval.filter(|_| shared),
        overlap: args.work.overlap.unwrap_or(plain.overlap),
        tail: !fabric.no_tail,
        algorithm: match fabric.algorithm {
            None | Some(AlgorithmArg::Auto) => Algorithm::Auto,
            Some(AlgorithmArg::Ring) => Algorithm::Ring,
            Some(AlgorithmArg::Tree) => Algorithm::Tree,
        },
        step_overhead: fabric.step_overhead.unwrap_or(plain.step_overhead),
        jitter: args.machine.jitter.unwrap_or(plain.jitter),
    }
}

/// Whether storage loads the training NICs, asked for where it matters.
fn shared_storage(args: &FabricArgs, missing: &mut Missing) -> bool {
    let traffic = args.storage_rate.is_some() || args.checkpoint_interval.is_some();
    match args.storage {
        None if traffic => missing.add("--storage shared or --storage separate"),
        Some(StorageArg::Shared) if !traffic => {
            missing.add("--storage-rate RATE or --checkpoint-interval T");
        }
        _ => {}
    }
    args.storage == Some(StorageArg::Shared)
}

fn observed(args: &MachineArgs) -> Option<Observed> {
    let transport = match args.observed_on {
        Some(SideArg::Tcp) => Transport::Tcp,
        Some(SideArg::Rdma) | None => Transport::Rdma,
    };
    args.observed_step.map(|step| Observed { transport, step })
}

/// `fabric=ndr,nodes=128`.
fn change(text: &str, links: &[Link; 2]) -> Result<Change, AdviseError> {
    let wrong = |reason: String| AdviseError::Wrong(format!("--what-if {text}: {reason}"));
    let mut change = Change { text: text.to_owned(), ..Change::default() };
    for part in text.split(',') {
        let keys = "write fabric=NAME, nodes=N, nics=N, oversubscription=RATIO or tokens=N";
        let (key, value) =
            part.split_once('=').ok_or_else(|| wrong(format!("{part:?} has no value; {keys}")))?;
        let whole = || value.parse::<u32>().map_err(|_| wrong(format!("{part}: no whole number")));
        match key.trim() {
            "fabric" => change.link = Some(fabric::other(value, links)?),
            "nodes" => change.nodes = Some(whole()?),
            "nics" => change.nics = Some(whole()?),
            "oversubscription" => {
                change.oversubscription = Some(ratio(value).map_err(&wrong)?);
            }
            "tokens" => {
                let tokens = value.parse::<f64>();
                change.tokens = Some(tokens.map_err(|_| wrong(format!("{part}: no number")))?);
            }
            other => return Err(wrong(format!("{other} is unknown; {keys}"))),
        }
    }
    Ok(change)
}
