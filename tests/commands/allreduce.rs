//! `fabbench allreduce`, between agents on this machine over sockets.

use std::time::{Duration, Instant};

use fabbench_reports::json;
use fabbench_reports::model::{Measurement, Report};

use crate::support::{
    Run, alone, assert_gone, children, end_of, fabbench, finish, run, signal, under_way,
};

/// Few and short runs.
const QUICK: [&str; 4] = ["--iters", "3", "--warmup-iters", "1"];

fn allreduce(typed: &str) -> Run {
    let _alone = alone();
    // By sockets wherever the tests run, unless something else is asked for.
    let wire: &[&str] = if typed.contains("--transport") { &[] } else { &["--transport", "tcp"] };
    let typed: Vec<&str> = typed.split_whitespace().collect();
    run(&[&["allreduce"][..], &typed, &QUICK, wire].concat())
}

fn report(typed: &str) -> Report {
    let ran = allreduce(&format!("{typed} --json"));
    ran.expect(0, &[]);
    json::read(&ran.stdout).unwrap()
}

/// Every element right, and counts and rates that fit each other.
fn assert_sound(m: &Measurement, factor: f64) {
    assert_eq!((m.test.as_str(), m.transport.as_str()), ("collective", "tcp"));
    assert_eq!(m.elements_wrong, Some(0), "{}: {}", m.id, m.data_errors);
    let detail = m.collective.as_ref().unwrap();
    let time = detail.time_ns;
    assert!(time.min > 0.0 && time.min <= time.avg && time.avg <= time.max, "{time:?}");
    let (algbw, busbw) = (m.algbw_bps.unwrap(), m.busbw_bps.unwrap());
    assert!((algbw * time.avg / 8e9 / m.size_bytes as f64 - 1.0).abs() < 1e-6);
    assert!((busbw / algbw - factor).abs() < 1e-9);
}

#[test]
fn three_ranks_sweep_sizes_out_of_place_and_in_place() {
    let report = report("local local local --transport tcp -b 8 -e 1MiB -f 8 --algo ring,rhd");
    assert_eq!(report.measurements.len(), 2 * 6 * 2, "8 B to 256 KiB by 8");
    for m in &report.measurements {
        assert_sound(m, 4.0 / 3.0);
        assert_eq!(m.ranks, ["local", "local#2", "local#3"]);
        assert!(m.bytes_verified > 0);
    }
    let ring = report.measurements.iter().rfind(|m| m.algorithm == "ring").unwrap();
    assert_eq!((ring.size_bytes, ring.op.as_str()), (256 << 10, "all_reduce"));
    let detail = ring.collective.as_ref().unwrap();
    assert!(detail.in_place && detail.iterations == 3);
    assert_eq!(detail.messages_sent, [4, 4, 4], "2(n-1) messages");
    let sum: u64 = detail.bytes_sent.iter().sum();
    assert_eq!(sum, 4 * (256 << 10), "2(n-1)/n of the vector from each of n ranks");
    let [fit, other] = &report.fits[..] else { panic!("{:?}", report.fits) };
    assert_eq!((fit.algorithm.as_str(), other.algorithm.as_str()), ("ring", "rhd"));
    assert_eq!((fit.steps, fit.ranks, fit.reduced), (Some(4), 3, true));
    assert!((fit.wire_factor - 4.0 / 3.0).abs() < 1e-3, "{}", fit.wire_factor);
    // Three iterations on a busy machine may be too wild: then that is said.
    let told = fit.refused.is_empty();
    assert_eq!(told, !fit.pieces.is_empty() && fit.residual.is_some_and(|rms| rms <= 0.15));
    assert!(told || fit.refused.contains("measure longer (-n)"), "{}", fit.refused);
}

#[test]
fn people_read_a_table_as_of_nccl_tests() {
    let ran = allreduce("local local -b 64KiB -e 64KiB");
    ran.expect(
        0,
        &["Collective: all_reduce among 2 ranks over TCP", "#wrong", "busbw", "16384", "64 KiB"],
    );
    assert!(ran.stdout.contains("function passed"), "{}", ran.stdout);
    ran.expect(0, &["ring: α, β and γ not fitted: too few sizes, 1 of at least 5"]);
}

#[test]
fn every_operation_type_and_reduction_runs_between_agents() {
    for (typed, factor) in [
        ("--op all-gather --algo ring,direct --type f64", 0.75),
        ("--op reduce-scatter --type i32 --redop max", 0.75),
        ("--op all-to-all --type bf16", 0.75),
        ("--op broadcast --algo ring,tree --root 3 --type f16", 1.0),
        ("--op send-recv", 1.0),
        ("--algo tree,direct,rail --type bf16", 1.5),
    ] {
        let typed = format!("local local --ranks-per-host 2 -b 4KiB -e 4KiB {typed}");
        for m in &report(&typed).measurements {
            assert_sound(m, factor);
        }
    }
}

#[test]
fn one_rank_copies_and_no_reduce_verifies_nothing() {
    let alone = report("local -b 1KiB -e 1KiB");
    assert_sound(&alone.measurements[0], 1.0);
    let wire = report("local local --no-reduce -b 1KiB -e 1KiB");
    let m = &wire.measurements[0];
    assert_eq!((m.elements_wrong, m.bytes_verified), (None, 0));
    assert!(!m.collective.as_ref().unwrap().reduced && m.id.ends_with("/no-reduce"));
}

#[test]
fn wrong_usage_is_told_before_any_agent_starts() {
    for (typed, sentence) in [
        ("local local -b 6", "not a whole number of f32 elements, which have 4 bytes each"),
        ("local local --op broadcast --root 2", "root 2: ranks are 0 to 1"),
        ("local local --op all-gather --algo rhd", "all_gather is not done by rhd"),
        ("local local --redop product", "invalid value 'product'"),
        ("local local --transport ud", "a message that is lost: choose from rc, tcp"),
        ("local local --device rxe0,,", "--device"),
        ("local local --channels 0", "invalid value '0'"),
        ("bad;host local", "a host name cannot hold ';'"),
        ("local local --rank-order by-leaf", "give --leaves FILE with lines as"),
        ("", "no hosts: name them (fabbench allreduce host-a host-b), or have mpirun, srun"),
    ] {
        let ran = allreduce(typed);
        ran.expect(2, &[]);
        assert!(ran.stderr.contains(sentence), "{typed}: {}", ran.stderr);
    }
}

#[test]
fn without_rdma_the_hosts_are_named_and_sockets_measured() {
    let _alone = alone();
    let typed = "allreduce local local --transport rdma,tcp -b 1KiB -e 1KiB --json";
    let typed: Vec<&str> = typed.split_whitespace().collect();
    let mut command = fabbench(&[&typed[..], &QUICK].concat());
    let ran = finish(command.env("FABBENCH_LIBIBVERBS", "/nonexistent/libibverbs.so.1"));
    ran.expect(3, &[]);
    let report = json::read(&ran.stdout).unwrap();
    assert_eq!(report.measurements.len(), 2);
    report.measurements.iter().for_each(|m| assert_sound(m, 1.0));
    let left = report.not_measured.iter().find(|left| left.asked).unwrap();
    for word in ["local: ", "libibverbs.so.1", "or measure the TCP baseline alone"] {
        assert!(left.why.contains(word), "{}", left.why);
    }
    assert!(!report.complete);
}

/// Sends `name` to one of three agents in the middle of a long sweep; what the run said.
fn disturbed(name: &str) -> Run {
    let _alone = alone();
    let typed =
        "allreduce local local local --transport tcp -b 1MiB -e 1MiB -n 1000000 --warmup-iters 0";
    let typed: Vec<&str> = typed.split_whitespace().collect();
    let mut under = under_way(&mut fabbench(&typed), "on 3 agents");
    // The start takes a moment; then the ranks are in the middle of it.
    std::thread::sleep(Duration::from_secs(3));
    let agents = children(under.child.id());
    assert_eq!(agents.len(), 3);
    let hit = Instant::now();
    signal(i64::from(*agents.iter().max().unwrap()), name);
    let code = end_of(&mut under.child).code();
    let took = hit.elapsed();
    assert_gone(&agents, Duration::from_secs(3));
    let stdout = under.child.wait_with_output().unwrap().stdout;
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    Run { code, stdout, stderr: under.rest.join().unwrap(), took }
}

#[test]
fn a_killed_or_stopped_rank_ends_all_within_15_s_and_is_named() {
    for (name, cause) in [("-KILL", "its agent ended"), ("-STOP", "its agent was silent for 8 s")] {
        let ran = disturbed(name);
        assert!(ran.took < Duration::from_secs(15), "{name}: {:?}", ran.took);
        ran.expect(3, &["(rank ", cause, "was then at step "]);
    }
}
