//! The worked examples E1 to E7, to the printed digits.

use fabbench_reports::advice::{Estimate, NetworkVerdict, Transport};

use super::*;
use crate::advise::answer::{Observed, advise};
use crate::advise::estimate::{self, flow_time};
use crate::advise::flows::{Collective, Flow, compute_time, flows};
use crate::advise::library::Moe;

fn near(found: f64, wanted: f64, digits: f64) {
    assert!((found - wanted).abs() <= digits, "found {found}, wanted {wanted} ± {digits}");
}

/// To all digits of the text.
fn printed(found: f64, wanted: &str) {
    let decimals = wanted.split('.').nth(1).map_or(0, str::len);
    assert_eq!(format!("{found:.decimals$}"), wanted);
}

fn relative(found: f64, wanted: f64) {
    near(found, wanted, wanted.abs() * 1e-6);
}

fn estimate(job: &Job, link: &Link, path: &Path, nodes: u32) -> Estimate {
    estimate::Model { job, link, path }.estimate(nodes).unwrap()
}

fn seconds(ns: f64) -> f64 {
    ns / 1e9
}

/// Parameters 2e9 with fp32 gradients: one GPU a node makes every rank a node.
fn two_billion() -> Job {
    let mut job = train("7b", Scheme::Ddp, 4096.0, 1);
    job.model = plain_model(2e9);
    job.compute = Compute::Flops(156e12);
    let Task::Train(train) = &mut job.task else { panic!("not training") };
    train.gradient_bytes = 4.0;
    train.recompute = true;
    job
}

#[test]
fn e1_two_billion_parameters_on_four_nodes() {
    let reduce = |nodes, rate| {
        let flow = Flow {
            name: "gradients",
            collective: Collective::AllReduce,
            calls: 1.0,
            payload: 8e9,
            nodes,
            span: nodes,
            window: 0.0,
            data_parallel: true,
        };
        flow_time(&flow, 0.0, rate, Algorithm::Ring).0
    };
    for (rate, wanted) in [(300e9, 0.053333), (25e9, 0.64), (50e9, 0.32)] {
        near(reduce(u32::MAX, rate), wanted, 5e-7);
    }
    near(reduce(8, 300e9), 0.0466667, 5e-8);
    let job = two_billion();
    for (rate, wanted, bound) in [(25e9, 0.62, true), (50e9, 0.31, false)] {
        let found = estimate(&job, &rdma(1, 1e-12, rate), &bare(), 32);
        near(seconds(found.network_ns), wanted, 1e-7);
        near(seconds(found.compute_ns), 0.4201026, 5e-8);
        near(seconds(found.compute_ns) * 156.0, 65.536, 5e-4);
        assert_eq!(found.verdict == NetworkVerdict::Bound, bound, "{rate}");
    }
}

#[test]
fn e1b_idefics_80b_and_its_calibration() {
    let mut job = train("7b", Scheme::Zero3, 1024.0 * 3584.0 / 512.0, 1);
    job.model = plain_model(80e9);
    job.compute = Compute::Flops(250e12);
    let Task::Train(train) = &mut job.task else { panic!("not training") };
    train.recompute = true;
    near(compute_time(&job, job.layout(512).unwrap()), 18.350, 5e-4);
    // The published figure moves the whole payload: as many nodes as the model takes.
    let link = rdma(1, 1e-15, 42.5e9);
    near(seconds(estimate(&job, &link, &bare(), 1 << 20).network_ns), 11.294, 5e-4);
    let mut question = question(job, [link, named("tcp-100g", 4)], 512);
    question.path = bare();
    question.observed = Some(Observed { transport: Transport::Rdma, step: 49.0 });
    let found = advise(&question).unwrap().calibration.unwrap();
    near(found.factor.best, 49.0 / 18.350, 1e-3);
    near(found.factor.worst, 49.0 / (18.350 + 11.294), 5e-3);
}

#[test]
fn e2_seven_billion_by_ddp() {
    let job = train("7b", Scheme::Ddp, 16384.0, 8);
    let rows = [
        (8, 50.0, 0.06125, 0.0, 1.0000, 0.9660),
        (8, 25.0, 0.12250, 0.0, 1.0000, 0.9342),
        (1, 12.5, 1.96, 0.8004, 0.6849, 0.4702),
        (1, 3.125, 7.84, 6.6804, 0.2066, 0.1816),
        (1, 1.25, 19.6, 18.4404, 0.0862, 0.0815),
    ];
    for (nics, rate, network, exposed, best, worst) in rows {
        let found = estimate(&job, &rdma(nics, 1e-15, rate * 1e9), &bare(), 8);
        near(seconds(found.compute_ns), 1.739454, 5e-7);
        near(found.bandwidth_bps_per_gpu / 8e9, f64::from(nics) * rate / 8.0, 1e-9);
        near(seconds(found.network_ns), network, 1e-7);
        near(seconds(found.exposed_ns), exposed, 5e-5);
        near(found.efficiency_band.best, best, 5e-5);
        near(found.efficiency_band.worst, worst, 5e-5);
    }
}

#[test]
fn e3_seventy_billion_by_zero3() {
    let job = train("70b", Scheme::Zero3, 8192.0, 8);
    let rows = [
        (8, 50.0, 0.98438, 0.1132, 1.0000, 0.8983),
        (8, 25.0, 1.96875, 0.2264, 1.0000, 0.8154),
        (8, 12.5, 3.93750, 0.4527, 1.0000, 0.6884),
        (1, 25.0, 15.75, 1.8109, 0.5522, 0.3558),
        (1, 12.5, 31.5, 3.6218, 0.2761, 0.2164),
    ];
    for (nics, rate, network, ratio, best, worst) in rows {
        let found = estimate(&job, &rdma(nics, 1e-15, rate * 1e9), &bare(), 16);
        near(seconds(found.compute_ns), 8.697270, 5e-7);
        near(seconds(found.network_ns), network, 6e-6);
        near(found.network_ns / found.compute_ns, ratio, 5e-5);
        near(found.efficiency_band.best, best, 5e-5);
        near(found.efficiency_band.worst, worst, 5e-5);
    }
}

/// 405 billion parameters on 16 384 H100.
fn frontier(scheme: Scheme) -> Job {
    let mut job = train("405b", scheme, 1.0, 8);
    job.parallel = Parallel { dp: Some(128), tp: 8, pp: 16, cp: 1, ep: 1 };
    job.compute = Compute::Flops(400e12);
    let Task::Train(train) = &mut job.task else { panic!("not training") };
    train.tokens = Tokens::PerStep(16e6);
    job
}

#[test]
fn e4_four_hundred_billion_in_three_dimensions() {
    let job = frontier(Scheme::Ddp);
    let found = estimate(&job, &rdma(8, 1e-15, 50e9), &bare(), 2048);
    near(400.0 / 989.0, 0.40445, 5e-6);
    near(seconds(found.compute_ns), 5.932617, 5e-7);
    let flow = |found: &Estimate, name: &str| {
        found.flows.iter().find(|flow| flow.name == name).cloned().unwrap()
    };
    let gradients = flow(&found, "gradients");
    relative(gradients.bytes_per_gpu / (2.0 * 127.0 / 128.0), 3.1640625e9 * 2.0);
    near(seconds(gradients.time_ns), 0.2511475, 5e-8);
    near(100.0 * gradients.time_ns / found.compute_ns, 4.23, 5e-3);
    let stages = flow(&found, "pipeline activations");
    relative(stages.bytes_per_gpu, 1.024e9);
    near(seconds(stages.time_ns), 0.02048, 5e-9);
    let mut zero1 = frontier(Scheme::Zero1);
    let Task::Train(train) = &mut zero1.task else { panic!("not training") };
    train.gradient_bytes = 4.0;
    let found = estimate(&zero1, &rdma(8, 1e-15, 50e9), &bare(), 2048);
    let both = flow(&found, "gradients").time_ns + flow(&found, "parameters, forward").time_ns;
    near(seconds(both), 0.3767212, 5e-8);
}

#[test]
fn e4_tensor_parallel_stays_in_the_node() {
    // One layer and one micro-batch on eight nodes of one GPU: what crosses if it does not stay.
    let mut job = train("405b", Scheme::Ddp, 8192.0 / 8.0, 1);
    job.model = Model { layers: 1, parameters: 405e9 / 126.0, ..job.model };
    job.parallel.tp = 8;
    job.compute = Compute::Flops(400e12);
    for (rate, wanted, digits) in [(450e9, 4.1757e-3, 5e-8), (50e9, 37.581e-3, 5e-7)] {
        let found = estimate(&job, &rdma(1, 1e-15, rate), &bare(), 8);
        near(found.flows[0].bytes_per_gpu, 1.879048e9, 500.0);
        near(seconds(found.flows[0].time_ns), wanted, digits);
        near(seconds(found.compute_ns), 49.371e-3, 5e-7);
    }
    let whole = frontier(Scheme::Ddp);
    let names: Vec<&str> =
        flows(&whole, whole.layout(2048).unwrap()).iter().map(|f| f.name).collect();
    assert_eq!(names, ["gradients", "pipeline activations"], "inside the node it costs no network");
}

#[test]
fn e4_pipeline_boundary() {
    let mut job = frontier(Scheme::Ddp);
    let Task::Train(train) = &mut job.task else { panic!("not training") };
    // Exactly one sequence for each replica: one micro-batch.
    train.tokens = Tokens::PerStep(8192.0 * 128.0);
    let found = estimate(&job, &rdma(8, 1e-15, 50e9), &bare(), 2048);
    let stages = found.flows.iter().find(|flow| flow.name.starts_with("pipeline")).unwrap();
    relative(stages.message_bytes, 33_554_432.0);
    near(stages.time_ns / stages.calls / 1e6, 0.671089, 5e-7);
}

#[test]
fn e5_experts_on_eight_nodes() {
    for (limit, wanted) in [(None, 12.33125), (Some(4), 6.165626)] {
        let mut job = train("deepseek-v3", Scheme::Ddp, 4096.0, 8);
        let moe = Moe { node_limit: limit, ..job.model.moe.clone().unwrap() };
        job.model.moe = Some(moe);
        job.parallel.ep = 64;
        let Task::Train(train) = &mut job.task else { panic!("not training") };
        train.dispatch_bytes = 1.0;
        let found = estimate(&job, &rdma(8, 1e-15, 50e9), &bare(), 8);
        let of = |name| found.flows.iter().find(|flow| flow.name == name).unwrap();
        let layers = 58.0;
        let (there, back) = (of("expert dispatch"), of("expert combine"));
        // Forward and backward: twice each.
        let both = (there.time_ns + back.time_ns) / (2.0 * layers) / 1e6;
        near(both, wanted, 5e-6);
        if limit.is_none() {
            relative(there.bytes_per_gpu * 8.0 / 7.0 / (2.0 * layers), 234_881_024.0);
            relative(back.bytes_per_gpu * 8.0 / 7.0 / (2.0 * layers), 469_762_048.0);
        }
    }
}

/// Nodes, oversubscription; seconds of traffic, efficiency in per cent with overlap and without.
type TargetRow = (u32, f64, f64, f64, f64);

#[test]
fn e6_the_twelve_month_target() {
    let mut job = train("1.3b", Scheme::Ddp, 16384.0, 1);
    job.compute = Compute::Flops(312e12 * 0.45);
    let fabrics =
        [("tcp-25g", 50e-6, 2.6e9), ("tcp-100g", 50e-6, 6e9), ("roce-100g", 5e-6, 11.5e9)];
    let rows: [[TargetRow; 5]; 3] = [
        [
            (4, 1.0, 1.5300, 49.65, 37.30),
            (8, 1.0, 1.8200, 42.87, 33.34),
            (16, 1.0, 2.0250, 39.09, 31.01),
            (32, 1.0, 2.2475, 35.68, 28.83),
            (32, 3.0, 6.1225, 14.16, 12.94),
        ],
        [
            (4, 1.0, 0.6800, 92.56, 57.24),
            (8, 1.0, 0.8283, 80.43, 52.36),
            (16, 1.0, 0.9625, 71.90, 48.60),
            (32, 1.0, 1.1496, 62.64, 44.19),
            (32, 3.0, 2.8287, 29.06, 24.34),
        ],
        [
            (4, 1.0, 0.3421, 100.00, 72.68),
            (8, 1.0, 0.4027, 100.00, 69.33),
            (16, 1.0, 0.4389, 100.00, 67.47),
            (32, 1.0, 0.4690, 100.00, 65.99),
            (32, 3.0, 1.3451, 55.21, 40.36),
        ],
    ];
    for ((name, latency, rate), rows) in fabrics.into_iter().zip(rows) {
        let link = named(name, 1);
        near(link.latency.nominal, latency, 1e-12);
        near(link.points[0].rate.nominal, rate, 1e-3);
        for (nodes, oversubscription, network, best, worst) in rows {
            let path = Path { oversubscription, ..bare() };
            let found = estimate(&job, &link, &path, nodes);
            near(seconds(found.compute_ns), 0.910222, 5e-7);
            near(found.flows[0].calls, 100.0, 0.0);
            near(seconds(found.network_ns), network, 5.1e-5);
            near(100.0 * found.efficiency_band.best, best, 5.1e-3);
            near(100.0 * found.efficiency_band.worst, worst, 5.1e-3);
        }
    }
}

#[test]
fn e7_decoding_over_two_nodes() {
    let fabrics = [(30e-6, 2.6e9), (3e-6, 45e9)];
    let rows = [
        (1, 16_384.0, [("10.6082", "0.0363"), ("1.0183", "0.00336")]),
        (32, 524_288.0, [("41.8639", "0.23165"), ("2.8241", "0.01465")]),
        (256, 4_194_304.0, [("267.711", "1.64319"), ("15.8731", "0.09621")]),
    ];
    for (batch, size, wanted) in rows {
        for ((latency, rate), (tensor, hop)) in fabrics.into_iter().zip(wanted) {
            let link = rdma(1, latency, rate);
            let found = estimate(&infer("70b", batch, 16, 1, 8), &link, &bare(), 2);
            relative(found.flows[0].message_bytes * 8.0, size);
            printed(found.network_ns / 1e6, tensor);
            let found = estimate(&infer("70b", batch, 8, 2, 8), &link, &bare(), 2);
            printed(found.network_ns / 1e6, hop);
        }
    }
}

#[test]
fn critical_tokens_do_not_depend_on_the_model_and_invert() {
    let table = [
        (8, 50.0, 927.1875),
        (8, 25.0, 1854.375),
        (8, 12.5, 3708.75),
        (1, 12.5, 29_670.0),
        (1, 3.125, 118_680.0),
    ];
    for (nics, rate, wanted) in table {
        for (name, scheme) in [("7b", Scheme::Ddp), ("13b", Scheme::Ddp), ("70b", Scheme::Zero3)] {
            let job = train(name, scheme, 4096.0, 8);
            let found = estimate(&job, &rdma(nics, 1e-15, rate * 1e9), &bare(), 16);
            relative(found.critical_tokens_per_gpu.unwrap(), wanted);
        }
    }
    for (tokens, wanted) in [(1024.0, 45.273), (4096.0, 11.318), (16384.0, 2.830)] {
        let job = train("7b", Scheme::Ddp, tokens, 8);
        let found = estimate(&job, &rdma(8, 1e-15, 25e9), &bare(), 16);
        near(found.needed_bps_per_gpu.unwrap() / 8e9, wanted, 5.1e-4);
    }
}
