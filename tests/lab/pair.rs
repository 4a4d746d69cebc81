//! The main job: `fabbench pair node-a node-b` over two Soft-RoCE rails.

use serde_json::Value;

use crate::support::{Lab, on};

/// Measurements whose fields have these values.
fn find<'a>(report: &'a Value, fields: &[(&str, &str)]) -> Vec<&'a Value> {
    let all = report["measurements"].as_array().expect("measurements");
    all.iter().filter(|m| fields.iter().all(|(key, value)| m[*key] == **value)).collect()
}

#[test]
fn quick_ends_with_a_verdict_and_leaves_nothing_behind() {
    let lab = Lab::new();
    let run = lab.run(&["pair", "node-a", "node-b", "--json"]);
    run.expect(0, &[]);
    let report = run.report();

    assert_eq!(report["schema"], "fabbench-report/1");
    assert_eq!(report["verdict"]["function"], "pass", "{:#}", report["verdict"]);
    assert_eq!(report["verdict"]["performance"], "unjudged");
    assert_eq!(report["complete"], true);
    assert_eq!(report["simulated"], true);
    assert_eq!(report["rails"].as_array().unwrap().len(), 2);

    for op in ["send", "write", "read"] {
        for way in ["node-a/", "node-b/"] {
            let checked: Vec<_> = find(&report, &[("test", "integrity"), ("op", op)])
                .into_iter()
                .filter(|m| m["data_from"].as_str().unwrap().starts_with(way))
                .collect();
            assert_eq!(checked.len(), 2, "{op} from {way} on each of two rails");
            for measurement in checked {
                assert!(measurement["bytes_verified"].as_u64().unwrap() >= 1 << 20);
                assert_eq!(measurement["bytes_wrong"], 0);
            }
        }
        let latency = find(&report, &[("test", "latency"), ("op", op), ("transport", "rc")]);
        assert_eq!(latency.len(), 2, "{op} latency on each rail");
        for measurement in latency {
            let l = &measurement["latency_ns"];
            assert!(l["count"].as_u64().unwrap() > 100, "{l}");
            let ordered = ["min", "p50", "p90", "p99", "max"].map(|k| l[k].as_f64().unwrap());
            assert!(ordered.windows(2).all(|w| w[0] <= w[1]), "{l}");
            assert_eq!(measurement["is_half_rtt"], op != "read");
        }
    }
    for measurement in find(&report, &[("test", "bandwidth"), ("transport", "rc")]) {
        let id = &measurement["id"];
        assert!(measurement["goodput_bps"]["median"].as_f64().unwrap() > 1e6, "{id}");
        assert_eq!(measurement["messages_lost"], 0, "{id}");
        for repeat in measurement["repeats"].as_array().unwrap() {
            assert_eq!(repeat["messages_sent"], repeat["messages_received"], "{id}");
        }
    }
    let both = find(&report, &[("test", "bandwidth"), ("transport", "rc"), ("op", "write")]);
    assert!(both.iter().any(|m| m["bidirectional"] == true));
    assert!(both.iter().any(|m| m["together_with"].as_array().is_some_and(|w| w.len() >= 3)));
    assert!(!find(&report, &[("transport", "tcp"), ("test", "latency")]).is_empty());
    assert!(!find(&report, &[("transport", "tcp"), ("test", "bandwidth")]).is_empty());
}

#[test]
fn verbs_really_carried_the_payload() {
    let lab = Lab::new();
    let packets = |rail: u32| -> u64 {
        let file = format!("/sys/class/infiniband/rxe{rail}/ports/1/hw_counters/sent_pkts");
        on("node-a", &format!("cat {file}")).trim().parse().unwrap()
    };
    let before = (packets(0), packets(1));
    lab.run(&[
        "bw",
        "node-a",
        "node-b",
        "--device",
        "rxe1",
        "--duration",
        "300ms",
        "--repeats",
        "1",
    ])
    .expect(0, &["rxe1"]);
    let after = (packets(0), packets(1));
    assert!(after.1 > before.1 + 100, "rxe1 sent {} packets", after.1 - before.1);
    assert!(after.0 < before.0 + 20, "rxe0 was not asked for: {} packets", after.0 - before.0);
}

#[test]
fn a_host_against_itself_is_a_loopback() {
    let lab = Lab::new();
    let run = lab.run(&[
        "lat",
        "node-a",
        "node-a",
        "--device",
        "rxe0",
        "--duration",
        "1s",
        "--repeats",
        "1",
        "--json",
    ]);
    run.expect(0, &[]);
    let report = run.report();
    // One CPU serves both ends in turn, so there are few.
    assert!(report["measurements"][0]["latency_ns"]["count"].as_u64().unwrap() > 5);
}

#[test]
fn a_port_is_measured_against_itself_on_each_host() {
    let text = r#"
name = "loopback"
group_overhead = "500ms"
[budget]
one_rail = "60s"
more_rails = "60s"
[knobs]
tx_depth = 128
rx_depth = 512
signal_every = 32
interval = "100ms"
[[step]]
test = "bandwidth"
transport = "rc"
ops = ["write"]
sizes = ["64KiB"]
directions = ["a-b"]
rails = "loopback"
lanes = [2]
window = "1s"
repeats = 1
"#;
    let dir = tempfile::tempdir().unwrap();
    let suite = dir.path().join("loopback.toml");
    std::fs::write(&suite, text).unwrap();
    let lab = Lab::new();
    let pair = ["pair", "node-a", "node-b", "--device", "rxe0", "--json", "--suite"];
    let run = lab.run(&[&pair[..], &[suite.to_str().unwrap()]].concat());
    run.expect(0, &[]);
    let report = run.report();
    let found = find(&report, &[("test", "loopback")]);
    let ends: Vec<_> = found.iter().map(|m| (&m["initiator"], &m["responder"])).collect();
    let (a, b) = ("node-a/rxe0:1".into(), "node-b/rxe0:1".into());
    assert_eq!(ends, [(&a, &a), (&b, &b)]);
    for m in found {
        assert!(m["goodput_bps"]["median"].as_f64().unwrap() > 1e6, "{m:#}");
    }
    assert_eq!(report["rails"][0]["proved"], false, "nothing crossed it");
}

#[test]
fn send_has_a_figure_in_every_direction() {
    has_a_figure_in_every_direction("send");
}

#[test]
fn write_has_a_figure_in_every_direction() {
    has_a_figure_in_every_direction("write");
}

#[test]
fn read_has_a_figure_in_every_direction() {
    has_a_figure_in_every_direction("read");
}

/// Bandwidth of one operation, each way and both ways at once.
fn has_a_figure_in_every_direction(op: &str) {
    let lab = Lab::new();
    for direction in ["ab", "ba", "both"] {
        let path = ["bw", "node-a", "node-b", "--device", "rxe0"];
        let what = ["--op", op, "--direction", direction, "--size", "1,4KiB"];
        let rest = ["--duration", "600ms", "--repeats", "1", "--json"];
        let run = lab.run(&[&path[..], &what, &rest].concat());
        run.expect(0, &[]);
        let report = run.report();
        let count = if direction == "both" { 4 } else { 2 };
        let found = find(&report, &[("op", op)]);
        assert_eq!(found.len(), count, "{op} {direction}");
        let expected = if direction == "ba" { "node-b/" } else { "node-a/" };
        for m in found {
            assert!(m["messages_per_s"]["median"].as_f64().unwrap() > 10.0, "{m:#}");
            let from = m["data_from"].as_str().unwrap();
            assert!(direction == "both" || from.starts_with(expected), "{m:#}");
        }
    }
}

#[test]
fn every_operation_moves_every_byte_right() {
    let lab = Lab::new();
    let pair = ["pair", "node-a", "node-b", "--device", "rxe0", "--json"];
    let short = ["--suite", "operations", "--duration", "500ms", "--repeats", "1"];
    let run = lab.run(&[&pair[..], &short[..]].concat());
    run.expect(0, &[]);
    let report = run.report();
    // One CPU that serves all can be late with its receives; then requests are sent again.
    let reasons = report["verdict"]["reasons"].as_array().unwrap();
    let late = ["not ready", "retransmitted", "out of sequence", "function passed with warnings"];
    let harmless = |reason: &Value| late.iter().any(|w| reason.as_str().unwrap().contains(w));
    let passed = report["verdict"]["function"] == "pass";
    assert!(passed || reasons.iter().all(harmless), "{:#}", report["verdict"]);
    for op in ["send", "send_imm", "write", "write_imm", "read", "fetch_add", "cmp_swap"] {
        let checked = find(&report, &[("test", "integrity"), ("op", op), ("transport", "rc")]);
        assert_eq!(checked.len(), 2, "{op} both ways");
        for m in checked {
            assert!(m["bytes_verified"].as_u64().unwrap() >= 8 * 1024, "{m:#}");
            assert_eq!((&m["bytes_wrong"], &m["messages_lost"]), (&0.into(), &0.into()), "{m:#}");
        }
        let latency = find(&report, &[("test", "latency"), ("op", op), ("transport", "rc")]);
        assert_eq!(latency.len(), 1, "{op}");
        let whole = ["read", "fetch_add", "cmp_swap"].contains(&op);
        assert_eq!(latency[0]["is_half_rtt"], !whole, "{op}");
        assert_eq!(latency[0]["method"]["polling"], "busy, asleep when idle", "{op}");
        assert!(latency[0]["latency_ns"]["count"].as_u64().unwrap() > 10, "{:#}", latency[0]);
        let rate = find(&report, &[("test", "message_rate"), ("op", op), ("transport", "rc")]);
        assert_eq!(rate.len(), 1, "{op}");
        assert!(rate[0]["messages_per_s"]["median"].as_f64().unwrap() > 10.0, "{:#}", rate[0]);
    }
}

#[test]
fn a_message_of_no_bytes_is_legal_for_send_and_write() {
    let lab = Lab::new();
    for op in ["send", "write"] {
        for command in ["lat", "bw"] {
            lab.run(&[
                command,
                "node-a",
                "node-b",
                "--device",
                "rxe0",
                "--op",
                op,
                "--size",
                "0",
                "--duration",
                "200ms",
                "--repeats",
                "1",
            ])
            .expect(0, &["0 B", if command == "bw" { "msg/s" } else { "p50" }]);
        }
    }
    lab.run(&["lat", "node-a", "node-b", "--op", "read", "--size", "0"])
        .expect(2, &["size 0", "READ"]);
}

#[test]
fn latency_grows_with_the_path_and_not_by_itself() {
    let lab = Lab::new();
    // A delay of 5 ms each way is 5 ms of half a round trip: a known quantity measured.
    lab.link("node-a/0", &["delay", "5"]);
    lab.link("node-b/0", &["delay", "5"]);
    let run = lab.run(&[
        "lat",
        "node-a",
        "node-b",
        "--device",
        "rxe0",
        "--op",
        "send",
        "--duration",
        "500ms",
        "--repeats",
        "2",
        "--json",
    ]);
    run.expect(0, &[]);
    // The least of all: others hold what a busy machine adds.
    let min = run.report()["measurements"][0]["latency_ns"]["min"].as_f64().unwrap();
    assert!((5e6..9e6).contains(&min), "at least {min} ns for a path of 5 ms");
}

#[test]
fn devices_shows_ports_gids_and_mtu() {
    let lab = Lab::new();
    lab.run(&["devices", "node-a", "node-b"])
        .expect(0, &["node-a", "node-b", "rxe0", "rxe1", "ACTIVE", "4096", "eth0"]);
}
