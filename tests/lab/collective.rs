//! Collectives between hosts over Soft-RoCE.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Lab, finish, on};

/// Few and short runs.
const QUICK: [&str; 4] = ["--iters", "2", "--warmup-iters", "0"];

/// Measurements of a run that passes, each with every element right.
fn sound(lab: &Lab, typed: &str) -> Vec<Value> {
    let typed: Vec<&str> = typed.split_whitespace().collect();
    let hosts = ["allreduce", "node-a", "node-b", "--device", "rxe0", "--json"];
    let run = lab.run(&[&hosts[..], &typed, &QUICK].concat());
    run.expect(0, &[]);
    let report = run.report();
    assert_eq!(report["simulated"], true, "software devices carry");
    let all = report["measurements"].as_array().unwrap().clone();
    for m in &all {
        assert_eq!(m["elements_wrong"], 0, "{m:#}");
        assert!(m["busbw_bps"].as_f64().unwrap() > 0.0, "{m:#}");
    }
    all
}

/// Messages and bytes that rank 0 sent in one run.
fn sent(m: &Value) -> (u64, u64) {
    let first = |name: &str| m["collective"][name][0].as_u64().unwrap();
    (first("messages_sent"), first("bytes_sent"))
}

#[test]
fn two_hosts_reduce_over_rdma_and_tcp_with_the_same_messages() {
    let lab = Lab::new();
    let all = sound(&lab, "--transport rdma,tcp --algo ring,rhd -b 4 -e 128KiB -f 32768");
    assert_eq!(all.len(), 2 * 2 * 2 * 2, "transports, algorithms, sizes, places");
    for (rc, tcp) in all[..8].iter().zip(&all[8..]) {
        assert_eq!((&rc["transport"], &tcp["transport"]), (&"rc".into(), &"tcp".into()));
        assert_eq!(rc["path"]["gid_type"], "RoCE v2", "{:#}", rc["path"]);
        assert_eq!(rc["initiator"], "node-a/rxe0:1");
        assert_eq!(rc["method"]["polling"], "events", "one CPU looks for nothing all the time");
        assert_eq!(sent(rc), sent(tcp), "{}", rc["id"]);
    }
    let ring = &all[2];
    assert_eq!((ring["size_bytes"].as_u64(), sent(ring)), (Some(128 << 10), (2, 128 << 10)));
    let counters = all[7]["counters"].as_object().unwrap();
    let packets = &counters["node-a/rxe0:1/sent_pkts"];
    assert!(packets.as_i64().unwrap() > 500, "verbs carried it: {counters:#?}");
}

#[test]
fn four_ranks_of_odd_sizes_are_right_by_every_algorithm() {
    let lab = Lab::new();
    // N+1 elements, and several segments that end oddly, over two queue pairs to each peer.
    let ranks = "--transport rc --ranks-per-host 2 --channels 2 -f 1000";
    let all = format!("{ranks} --algo ring,rhd,tree,direct,rail -b 20 -e 20000");
    assert_eq!(sound(&lab, &all).len(), 20);
    for op in ["all-gather", "reduce-scatter", "all-to-all", "broadcast", "send-recv"] {
        assert!(!sound(&lab, &format!("{ranks} --op {op} --type f64 -b 32 -e 32000")).is_empty());
    }
}

#[test]
fn a_killed_rank_ends_all_within_15_s_and_is_named() {
    let lab = Lab::new();
    let typed = "allreduce node-a node-b --transport rc --device rxe0 -b 64KiB -e 64KiB -n 1000000";
    let typed: Vec<&str> = typed.split_whitespace().collect();
    let killer = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(12));
        on("node-b", "kill -KILL $(pidof fabbench)");
        Instant::now()
    });
    let run = finish(&mut lab.fabbench(&typed), Duration::from_secs(120));
    let hit = killer.join().unwrap();
    assert!(run.ended - hit < Duration::from_secs(15), "{}", run.text());
    run.expect(3, &["node-b (rank 1)", "was then at step "]);
    // The other host is as good as before.
    sound(&lab, "--transport rc -b 8 -e 8");
}

#[test]
fn a_host_without_rdma_is_named_with_the_next_step() {
    let lab = Lab::new();
    lab.hide("node-b", "library");
    let hosts = ["allreduce", "node-a", "node-b", "--transport", "rc", "-b", "8", "-e", "8"];
    let run = lab.run(&[&hosts[..], &QUICK].concat());
    run.expect(3, &["node-b: ", "libibverbs.so.1", "or measure the TCP baseline alone with"]);
}
