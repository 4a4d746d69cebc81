//! Worked examples, the decision guide, properties, reports and bad input.

mod decisions;
mod examples;
mod input;
mod properties;

use fabbench_reports::advice::Transport;

use super::answer::Question;
use super::estimate::{Algorithm, Path};
use super::job::{Compute, Job, Parallel, Scheme, Task, Tokens, Train};
use super::library::{Model, fabric, model};
use super::link::Link;

/// A sustained H100: 989 TFLOP/s at 40 %.
const H100: f64 = 395.6e12;

/// The model as the worked examples have it: ring, no tail.
fn bare() -> Path {
    Path { tail: false, algorithm: Algorithm::Ring, ..Path::default() }
}

fn named(name: &str, nics: u32) -> Link {
    Link::named(&fabric(name).unwrap(), nics)
}

/// Bytes/s per NIC, latency in s.
fn rdma(nics: u32, latency: f64, rate: f64) -> Link {
    Link::flat(Transport::Rdma, "rdma", nics, latency, rate)
}

fn train(model_name: &str, scheme: Scheme, tokens: f64, gpus_per_node: u32) -> Job {
    Job {
        model: model(model_name).unwrap(),
        task: Task::Train(Train::plain(scheme, Tokens::PerGpu(tokens))),
        parallel: Parallel::data(),
        gpus_per_node,
        compute: Compute::Flops(H100),
        activation_bytes: 2.0,
    }
}

fn infer(model_name: &str, batch: u32, tp: u32, pp: u32, gpus_per_node: u32) -> Job {
    Job {
        task: Task::Infer { batch, weight_bytes: 2.0, memory: 3.35e12 },
        parallel: Parallel { tp, pp, ..Parallel::data() },
        ..train(model_name, Scheme::Ddp, 1.0, gpus_per_node)
    }
}

/// A model of so many parameters whose shape does not matter.
fn plain_model(parameters: f64) -> Model {
    Model { parameters, ..model("7b").unwrap() }
}

fn question(job: Job, links: [Link; 2], nodes: u32) -> Question {
    Question {
        job,
        links,
        path: Path::default(),
        nodes,
        target: None,
        observed: None,
        changes: Vec::new(),
        storage_separate: None,
    }
}
