//! What to do, on which figures, and what is still open.

use fabbench_reports::advice::{
    Advice, Estimate, Input, NetworkVerdict, Question as Asked, Recommendation, Transport,
};
use fabbench_reports::units::{BitRate, Factor, Share, Size, Time};

use super::AdviseError;
use super::answer::Question;
use super::estimate::{Algorithm, Model, Path};
use super::job::{Compute, Scheme, Task, Tokens, Train};
use super::link::Link;

/// A change of efficiency that is worth a sentence.
const WORTH: f64 = 0.01;
/// Storage that takes more than this part of a node's NICs is worth a sentence.
const STORAGE_SHARE: f64 = 0.05;

/// What to find out before buying, without any input.
pub fn questions() -> Vec<Asked> {
    let rows = [
        (
            "Are the GPUs synchronised: does one step wait for all of them?",
            "independent jobs and replicas send nothing to each other; say what runs: --model, \
             --task train|finetune|infer, --scheme, --tp, --pp, --cp, --ep",
        ),
        (
            "How often do collectives run, and of what size?",
            "it follows from the model, the scheme and the work between two exchanges: \
             --tokens-per-gpu (training) or --batch (inference), --accumulate, --gpu or --step-time",
        ),
        (
            "How sensitive is the job to latency, and to congestion?",
            "measure the fabric: fabbench pair A B --json=FILE, then --report FILE; until then name \
             one: --fabric ndr,tcp-25g",
        ),
        ("How many nodes are there now, and in 12 months?", "--nodes, --target-nodes"),
        (
            "Which oversubscription is planned or present?",
            "--oversubscription 3 for 3:1, --leaf for the nodes under one leaf switch",
        ),
        (
            "Are the storage, management and training planes separate?",
            "--storage shared|separate, --storage-rate, --checkpoint-interval",
        ),
    ];
    rows.map(|(question, answer)| asked(question, answer.to_owned())).into()
}

/// The same questions with what this answer knows.
pub(super) fn answered(question: &Question, advice: &Advice) -> Vec<Asked> {
    let rdma = &advice.now[0];
    let dominant = |one: &Estimate| match &one.dominated_by {
        Some(dominant) => {
            format!("{}: most of it is {} ({})", one.transport, dominant.flow, dominant.part)
        }
        None => format!("{}: nothing crosses the network", one.transport),
    };
    let flows: Vec<String> = rdma.flows.iter().map(flow_sentence).collect();
    let oversubscription = match (question.path.oversubscription, question.path.leaf) {
        (ratio, Some(leaf)) => format!("{ratio}:1 above {leaf} nodes"),
        (ratio, None) if ratio > 1.0 => format!("{ratio}:1 between any two nodes"),
        _ => "not given: none assumed (--oversubscription, --leaf)".to_owned(),
    };
    let planes = match question.storage_separate {
        Some(true) => "separate, as given".to_owned(),
        Some(false) => "storage shares the training NICs, as given".to_owned(),
        None => "not given: separate assumed (--storage shared|separate)".to_owned(),
    };
    let nodes = match question.target {
        Some(target) => format!("{} now, {target} at the target", question.nodes),
        None => format!("{} now; the target was not given (--target-nodes)", question.nodes),
    };
    let flows =
        if flows.is_empty() { vec!["nothing crosses the network".to_owned()] } else { flows };
    let synchronised = match rdma.flows.is_empty() {
        true => "not between nodes",
        false => "yes: every rank of a group waits for the slowest",
    };
    let sensitive = advice.now.iter().map(dominant).collect::<Vec<_>>().join("; ");
    let answers =
        [synchronised.to_owned(), flows.join("; "), sensitive, nodes, oversubscription, planes];
    let asked_only = questions();
    asked_only.iter().zip(answers).map(|(one, answer)| asked(&one.question, answer)).collect()
}

fn flow_sentence(flow: &fabbench_reports::advice::FlowTime) -> String {
    format!(
        "{}: {:.0} calls of {} a step, {}",
        flow.name,
        flow.calls,
        Size(flow.message_bytes as u64),
        flow.collective
    )
}

fn asked(question: &str, answer: String) -> Asked {
    Asked { question: question.to_owned(), answer }
}

/// What to do, most important first.
pub(super) fn recommendations(
    question: &Question,
    advice: &Advice,
) -> Result<Vec<Recommendation>, AdviseError> {
    let mut all = vec![network(question, advice)];
    all.extend(tensor(question, advice));
    all.extend(spine(question)?);
    all.extend(storage(question)?);
    all.extend(tokens(question, advice));
    Ok(all)
}

/// Ethernet, or RDMA: by the target where there is one.
fn network(question: &Question, advice: &Advice) -> Recommendation {
    let (now, later) = (&advice.now, &advice.target);
    let last = if later.is_empty() { now } else { later };
    let (rdma, tcp) = (&last[0], &last[1]);
    let enough = |one: &Estimate| one.verdict <= NetworkVerdict::Hidden;
    if rdma.flows.is_empty() {
        return recommend(
            "No fast fabric is needed for this",
            format!(
                "on {} of {} GPUs nothing crosses the network between nodes",
                plural(rdma.nodes, "node"),
                question.job.gpus_per_node
            ),
        );
    }
    let both = format!("{}; {}", sentence(tcp), sentence(rdma));
    let gain = tcp.step_ns.best / rdma.step_ns.best;
    let what = match (enough(tcp), enough(rdma)) {
        (true, _) => "Ethernet is enough",
        _ if gain < 1.0 + WORTH => "RDMA does not pay on these figures",
        _ if later.is_empty() || !enough(&now[1]) => "RoCE or InfiniBand pays",
        _ => "Ethernet first; plan RoCE or InfiniBand for the target",
    };
    let mut because = both;
    if !enough(tcp) && gain >= 1.0 + WORTH {
        because += &format!("; a step is {} as fast at best overlap", Factor(gain));
    }
    if !enough(tcp) && !enough(rdma) {
        because += "; this RDMA fabric does not hide the traffic either";
    }
    if let Some(from) = bound_from(advice, Transport::Tcp) {
        because += &format!("; on TCP it becomes bound at {}", plural(from, "node"));
    }
    if let Some(from) = bound_from(advice, Transport::Rdma) {
        because += &format!("; on RDMA it becomes bound at {}", plural(from, "node"));
    }
    recommend(what, because)
}

/// First row of the growth table that is bound.
fn bound_from(advice: &Advice, transport: Transport) -> Option<u32> {
    let bound = |row: &&fabbench_reports::advice::Growth| {
        let mut of_it = row.estimates.iter().filter(|one| one.transport == transport);
        of_it.any(|one| one.verdict == NetworkVerdict::Bound)
    };
    advice.growth.iter().find(bound).map(|row| row.nodes)
}

/// Tensor parallel across nodes holds every layer up.
fn tensor(question: &Question, advice: &Advice) -> Option<Recommendation> {
    let flow_of = |one: &Estimate| {
        let flow = one.flows.iter().find(|flow| flow.name.starts_with("tensor"))?;
        Some(format!(
            "{} {} ({} of latency)",
            one.transport,
            Time(flow.time_ns),
            Time(flow.latency_ns)
        ))
    };
    let times: Vec<String> = advice.now.iter().filter_map(flow_of).collect();
    let job = &question.job;
    (!times.is_empty()).then(|| {
        recommend(
            "Keep tensor parallel inside the node",
            format!(
                "--tp {} spans more than the {} GPUs of a node and nothing hides its all-reduces: \
                 {} against {} of computing; use --pp between nodes",
                job.parallel.tp,
                job.gpus_per_node,
                times.join(", "),
                Time(advice.now[0].compute_ns)
            ),
        )
    })
}

/// What the same fabric would do without oversubscription.
fn spine(question: &Question) -> Result<Option<Recommendation>, AdviseError> {
    if question.path.oversubscription <= 1.0 {
        return Ok(None);
    }
    let nodes = question.horizon();
    let free = Path { oversubscription: 1.0, ..question.path.clone() };
    let with = question.with_path(question.path.clone(), nodes)?;
    let without = question.with_path(free, nodes)?;
    let (with, without) = (&with[0], &without[0]);
    let worse = with.verdict > without.verdict || without.efficiency - with.efficiency > WORTH;
    Ok(worse.then(|| {
        recommend(
            "The spine is oversubscribed for this",
            format!(
                "at {}:1 and {}, RDMA reaches an efficiency of {} ({}), without oversubscription \
                 {} ({})",
                question.path.oversubscription,
                plural(nodes, "node"),
                Share(with.efficiency),
                with.verdict,
                Share(without.efficiency),
                without.verdict
            ),
        )
    }))
}

/// What storage takes of the training NICs.
fn storage(question: &Question) -> Result<Option<Recommendation>, AdviseError> {
    let nodes = question.horizon();
    let layout = question.job.layout(nodes)?;
    let [rdma, tcp] = &question.links;
    let model = Model { job: &question.job, link: rdma, path: &question.path };
    let rate = model.storage(layout);
    if rate <= 0.0 {
        return Ok(None);
    }
    let part = |link: &Link| {
        let node = f64::from(link.nics) * link.rate(f64::INFINITY, super::link::Corner::Nominal);
        rate / node
    };
    let free = Path { storage: 0.0, checkpoint: None, ..question.path.clone() };
    let with = question.with_path(question.path.clone(), nodes)?;
    let without = question.with_path(free, nodes)?;
    let worse = |index: usize| {
        let (a, b) = (&with[index], &without[index]);
        a.verdict > b.verdict || b.efficiency - a.efficiency > WORTH
    };
    if !(part(tcp) > STORAGE_SHARE || part(rdma) > STORAGE_SHARE || worse(0) || worse(1)) {
        return Ok(None);
    }
    Ok(Some(recommend(
        "Separate the storage plane",
        format!(
            "storage and checkpoints take {} of each node's NICs: {} of RDMA, {} of TCP; \
             efficiency with and without them: RDMA {} and {}, TCP {} and {}",
            BitRate(8.0 * rate),
            Share(part(rdma)),
            Share(part(tcp)),
            Share(with[0].efficiency),
            Share(without[0].efficiency),
            Share(with[1].efficiency),
            Share(without[1].efficiency)
        ),
    )))
}

/// More work between two exchanges, where that would do.
fn tokens(question: &Question, advice: &Advice) -> Option<Recommendation> {
    let Task::Train(train) = &question.job.task else { return None };
    let last = if advice.target.is_empty() { &advice.now } else { &advice.target };
    let layout = question.job.layout(last[0].nodes).ok()?;
    let tokens = train.tokens_per_gpu(layout);
    let short = |one: &&Estimate| {
        let critical = one.critical_tokens_per_gpu.is_some_and(|critical| critical > tokens);
        critical && one.verdict > NetworkVerdict::Hidden
    };
    let figure = |one: &Estimate| {
        let critical = one.critical_tokens_per_gpu.unwrap_or_default();
        format!("{} from {critical:.0} tokens", one.transport)
    };
    let figures: Vec<String> = last.iter().filter(short).map(figure).collect();
    (!figures.is_empty()).then(|| {
        recommend(
            "Or do more work between two exchanges",
            format!(
                "data-parallel traffic hides behind computing on {} per GPU and step; it is {tokens:.0} \
                 here; a larger batch on each GPU gets there (memory permitting)",
                figures.join(", ")
            ),
        )
    })
}

fn sentence(one: &Estimate) -> String {
    format!(
        "{} ({}) on {}: {}, efficiency {}",
        one.transport,
        one.fabric,
        plural(one.nodes, "node"),
        one.verdict,
        Share(one.efficiency)
    )
}

fn recommend(what: &str, because: String) -> Recommendation {
    Recommendation { what: what.to_owned(), because }
}

fn plural(count: u32, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The inputs as they were understood.
pub(super) fn inputs(question: &Question) -> Vec<Input> {
    let job = &question.job;
    let model = &job.model;
    let parallel = job.parallel;
    let mut all = vec![
        input("model", format!("{}, {}", model.name, parameters(model.parameters))),
        input("task", task(&job.task)),
        input(
            "parallel",
            format!(
                "tensor {}, pipeline {}, context {}, expert {}, the rest data",
                parallel.tp, parallel.pp, parallel.cp, parallel.ep
            ),
        ),
        input(
            "compute",
            match job.compute {
                Compute::Flops(flops) => format!("{:.1} TFLOP/s sustained per GPU", flops / 1e12),
                Compute::StepTime(time) => {
                    format!("{} a step, measured on one node", Time(time * 1e9))
                }
            },
        ),
        input("nodes", format!("{} of {} GPUs", question.nodes, job.gpus_per_node)),
    ];
    if let Some(target) = question.target {
        all.push(input("target", plural(target, "node")));
    }
    all.extend(question.links.iter().map(link_input));
    all
}

fn link_input(link: &Link) -> Input {
    let last = link.points.last().map_or(0.0, |point| point.rate.nominal);
    let figures = format!(
        "{}: {} per NIC, {} a node, {} per step",
        link.name,
        BitRate(8.0 * last),
        plural(link.nics, "NIC"),
        Time(link.latency.nominal * 1e9)
    );
    input(&link.transport.to_string(), figures)
}

fn task(task: &Task) -> String {
    match task {
        Task::Infer { batch, .. } => format!("inference, {}", plural(*batch, "sequence")),
        Task::Train(train) => training(train),
    }
}

fn training(train: &Train) -> String {
    let scheme = match train.scheme {
        Scheme::Ddp => "DDP",
        Scheme::Zero1 => "ZeRO-1",
        Scheme::Zero2 => "ZeRO-2",
        Scheme::Zero3 => "ZeRO-3 / FSDP",
        Scheme::Hsdp => "HSDP",
    };
    let tokens = match train.tokens {
        Tokens::PerGpu(tokens) => format!("{tokens:.0} tokens per GPU and step"),
        Tokens::PerStep(tokens) => format!("{tokens:.0} tokens a step over all GPUs"),
    };
    let lora = match train.trainable < 1.0 {
        true => format!(", {} of the parameters trained", Share(train.trainable)),
        false => String::new(),
    };
    format!("training, {scheme}, {tokens}, accumulation {}{lora}", train.accumulate)
}

fn parameters(count: f64) -> String {
    if count >= 1e9 {
        format!("{:.1} billion parameters", count / 1e9)
    } else {
        format!("{:.1} million parameters", count / 1e6)
    }
}

fn input(name: &str, value: String) -> Input {
    Input { name: name.to_owned(), value }
}

/// What the figures stand on.
pub(super) fn assumptions(question: &Question) -> Vec<String> {
    let mut all: Vec<String> =
        question.links.iter().flat_map(|link| link.notes.iter().cloned()).collect();
    for link in &question.links {
        all.extend(outside(link, &question.beyond_measured(link)));
    }
    let measured = question.links.iter().any(super::link::Link::is_measured);
    all.extend(of_the_path(&question.path, measured));
    all.extend(of_the_task(&question.job.task));
    all.push(
        "collectives are hierarchical: a NIC carries its GPU's share; traffic inside a node is not \
         counted; ranks are laid out tensor, context, data, pipeline"
            .to_owned(),
    );
    all.push("models are optimistic: compare with a real step (--observed-step)".to_owned());
    all
}

/// What is done with messages that are smaller or larger than any that was measured. Neither end is
/// extrapolated.
fn outside(link: &Link, sizes: &[f64]) -> Vec<String> {
    let (Some(first), Some(last)) = (link.points.first(), link.points.last()) else {
        return Vec::new();
    };
    let words = |size: f64| Size(size as u64).to_string();
    let transport = link.transport;
    let mut all = Vec::new();
    if let Some(smallest) = sizes.iter().copied().filter(|s| *s < first.size).min_by(f64::total_cmp)
    {
        all.push(format!(
            "{transport} was not measured below {}: no extrapolation, a message of {} is taken to \
             last as long as one of {}",
            words(first.size),
            words(smallest),
            words(first.size)
        ));
    }
    if let Some(largest) = sizes.iter().copied().filter(|s| *s > last.size).max_by(f64::total_cmp) {
        all.push(format!(
            "{transport} was not measured above {}: no extrapolation, a message of {} is taken to \
             reach the bandwidth of {} and no more",
            words(last.size),
            words(largest),
            words(last.size)
        ));
    }
    all
}

fn of_the_path(path: &Path, measured: bool) -> Vec<String> {
    let mut all = vec![format!(
        "the band runs from no overlap to full overlap; the verdict is at an overlap of {} \
         (--overlap)",
        Share(path.overlap)
    )];
    all.push(match path.algorithm {
        Algorithm::Auto => "an all-reduce takes the faster of ring and tree".to_owned(),
        Algorithm::Ring => "an all-reduce is a ring".to_owned(),
        Algorithm::Tree => "an all-reduce is a double binary tree".to_owned(),
    });
    if path.leaf.is_some() {
        all.push("each switch tier above the leaf adds 1 to 2 µs to a step".to_owned());
    }
    if measured && path.step_overhead <= 0.0 {
        all.push(
            "measured latency is the wire's: what the collective library adds to a step (NCCL: some \
             3 to 14 µs) is not in it (--step-overhead)"
                .to_owned(),
        );
    }
    if path.jitter <= 0.0 {
        all.push("no waiting for slower nodes (--jitter, in % of a step)".to_owned());
    }
    all
}

fn of_the_task(task: &Task) -> Vec<String> {
    match task {
        Task::Infer { .. } => vec![
            "decoding only: each token reads all weights once; the KV cache is not counted; \
             replicas do not talk to each other"
                .to_owned(),
        ],
        Task::Train(train) => {
            let mut all = vec![format!(
                "{:.0} FLOPs per parameter and token{}",
                train.flops_per_parameter().0,
                if train.attention {
                    ", and attention's"
                } else {
                    "; attention's own left out (--attention)"
                }
            )];
            all.push(
                "tensor and expert parallel traffic hides behind nothing; pipeline traffic behind \
                 the whole step; pipeline bubbles are not counted"
                    .to_owned(),
            );
            all
        }
    }
}
