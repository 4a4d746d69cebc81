//! Knobs that `lat`, `bw` and `rate` share.

use fabbench_reports::json;
use fabbench_reports::model::Measurement;
use serde_json::json;

use crate::support::{Run, alone, end_of, fabbench, run, signal, under_way};

/// A measurement over sockets, as short as it can be.
fn over_tcp(command: &str, more: &[&str]) -> Run {
    let short = [command, "local", "local", "--transport", "tcp", "--warmup", "20ms"];
    let _alone = alone();
    run(&[&short[..], &["--repeats", "1"], more].concat())
}

fn only(ran: &Run) -> Measurement {
    ran.expect(0, &[]);
    let report = json::read(&ran.stdout).unwrap();
    assert_eq!(report.measurements.len(), 1, "{}", ran.stdout);
    report.measurements[0].clone()
}

#[test]
fn a_rate_limit_holds_in_each_direction() {
    let flags = ["--duration", "400ms", "--rate-limit", "80Mb/s", "--size", "10000", "--json"];
    let m = only(&over_tcp("bw", &flags));
    // 80 Mb/s are 1000 messages of 10 000 bytes a second.
    let rate = m.goodput_bps.unwrap().median;
    assert!((40e6..=88e6).contains(&rate), "{rate}");
    assert_eq!(m.method.requested["rate_limit_bps"], json!(80_000_000));
}

#[test]
fn what_is_asked_and_what_takes_effect_stand_side_by_side() {
    let flags = ["--duration", "100ms", "--poll", "busy", "--dscp", "26", "--json"];
    let m = only(&over_tcp("lat", &flags));
    assert_eq!((m.method.requested["poll"].clone(), &*m.method.polling), (json!("busy"), "busy"));
    assert_eq!(m.method.requested["traffic_class"], json!(104));
    assert_eq!(m.method.effective["traffic_class"], json!(104), "IP_TOS of the sockets");
    let m = only(&over_tcp("lat", &["--duration", "100ms", "--poll", "event", "--json"]));
    assert_eq!(m.method.polling, "events");
}

#[test]
fn sockets_refuse_what_they_do_not_have_and_say_why() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--tx-depth", "8"], &["--tx-depth: the kernel sizes a socket's queue"]),
        (&["--inline", "8"], &["--inline: the kernel copies"]),
        (&["--signal-every", "8"], &["--signal-every: sockets have no completions"]),
        (&["--mtu", "1024"], &["--mtu: set the interface's MTU"]),
        (&["--udp-sport", "50000"], &["--udp-sport: TCP is not in UDP"]),
        (&["--pkey-index", "0"], &["--pkey-index: sockets have no such header field"]),
        (&["--retry-count", "3"], &["--retry-count: TCP has its own retransmission"]),
        (&["--relaxed-ordering", "both"], &["--relaxed-ordering: the kernel owns"]),
        (&["--verbs", "extended"], &["--verbs: sockets have no work requests"]),
        (&["--huge-pages"], &["--huge-pages: the kernel owns a socket's buffers"]),
        (&["--working-set", "1GiB"], &["--working-set: the kernel copies"]),
    ];
    for (flags, words) in cases {
        let ran = run(&[&["bw", "local", "local", "--transport", "tcp"], *flags].concat());
        ran.expect(2, words);
        assert!(!ran.stderr.contains("measuring"), "{}", ran.stderr);
    }
}

#[test]
fn shared_receives_are_refused_where_there_is_nothing_to_share() {
    let cases: &[(&[&str], &str)] = &[
        (&["--op", "write"], "--srq: it shares the receives of SENDs: give --op send"),
        (&["--op", "write_imm"], "--srq: it shares the receives of SENDs"),
        (&["--op", "read"], "--srq: it shares the receives of SENDs"),
        (&["--op", "fetch_add"], "--srq: it shares the receives of SENDs"),
        (&["--op", "send", "--transport", "uc"], "--srq: shared receive queues are for rc and ud"),
        (&["--transport", "tcp"], "--srq: sockets have no receives to post"),
    ];
    for command in ["lat", "bw", "rate"] {
        for (flags, words) in cases {
            let ran = run(&[&[command, "local", "local", "--srq"], *flags].concat());
            ran.expect(2, &[words]);
            assert!(!ran.stderr.contains("measuring"), "{}", ran.stderr);
        }
    }
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--dscp", "64"], &["64 is not in 0..64"]),
        (&["--dscp", "1", "--traffic-class", "4"], &["cannot be used with"]),
        (&["--udp-sport", "4791"], &["4791 is not in 49152..=65535", "RoCE v2 sends from"]),
        (&["--udp-sport", "50000-49999"], &["runs backwards"]),
        (&["--flow-label", "0x1"], &["is no list of numbers"]),
        (&["--flow-label", "1048576"], &["1048576 is not in 0..=1048575"]),
        (&["--retry-count", "8"], &["8 is not in 0..=7"]),
        (&["--rnr-retry", "8"], &["8 is not in 0..=7"]),
        (&["--timeout", "32"], &["32 is not in 0..=31"]),
        (&["--outstanding-reads", "0"], &["0 is not in 1..=255"]),
        (&["--rate-limit", "10"], &["is no rate: write bits per second"]),
        (&["--rate-limit", "1Gb/s", "--size", "0"], &["no rate of payload"]),
        (&["--poll", "sleep"], &["possible values: busy, event"]),
        (&["--verbs", "new"], &["possible values: classic, extended"]),
        (&["--cpu", "1-0"], &["runs backwards"]),
        (&["--cpu", "x"], &["is no list of numbers"]),
        (&["--working-set", "4KiB"], &["--working-set 4 KiB: it cannot hold a message of 64 KiB"]),
        (&["--working-set", "0"], &["at least one message"]),
        (&["--under-load"], &["is for lat, with send or write"]),
    ];
    for (flags, words) in cases {
        run(&[&["bw", "local", "local"], *flags].concat()).expect(2, words);
    }
    for flags in [["--rate-limit", "1Gb/s"], ["--post-list", "4"]] {
        let ran = run(&[&["lat", "local", "local"], &flags[..]].concat());
        ran.expect(2, &["a ping-pong has one message under way"]);
    }
}

#[test]
fn threads_keep_to_the_cpus_listed_and_a_host_without_them_is_named() {
    let flags = ["--duration", "100ms", "--cpu", "0", "--qps", "2", "--threads", "2", "--json"];
    let m = only(&over_tcp("bw", &flags));
    assert_eq!(m.method.requested["cpus"], json!([0]));
    assert_eq!(m.method.effective["cpus"], json!([0]));
    over_tcp("bw", &["--cpu", "60000"])
        .expect(2, &["--cpu 60000: the agent on local may use CPUs"]);
    over_tcp("bw", &["--numa-node", "900"]).expect(2, &["--numa-node 900: local has nodes"]);
}

#[test]
fn a_line_comes_while_a_case_runs_and_the_state_on_a_signal() {
    let _alone = alone();
    let flags = ["bw", "local", "local", "--transport", "tcp", "--size", "4KiB,64KiB"];
    let slow = ["--duration", "2s", "--repeats", "1", "--warmup", "20ms", "--every", "400ms"];
    let mut command = fabbench(&[&flags[..], &slow].concat());
    let mut under = under_way(&mut command, "measure): ");
    signal(i64::from(under.child.id()), "-USR1");
    let status = end_of(&mut under.child);
    let said = under.rest.join().unwrap();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("state: 0 measured so far; now, for "), "{said}");
    let lines = said.lines().filter(|line| line.contains("/4096/") && line.contains("b/s"));
    assert!(lines.count() >= 2, "{said}");
}

#[test]
fn latency_under_load_stands_beside_the_same_without() {
    let ran = over_tcp("lat", &["--duration", "300ms", "--under-load", "--json"]);
    ran.expect(0, &[]);
    let report = json::read(&ran.stdout).unwrap();
    let ids: Vec<&str> = report.measurements.iter().map(|m| &*m.id).collect();
    let expected = [
        "latency/tcp/request_response/8/route/a-b/scheduled",
        "latency/tcp/request_response/8/route/a-b/under-load",
        "bandwidth/tcp/stream/65536/route/a-b/load",
    ];
    assert_eq!(ids, expected);
    for m in &report.measurements[..2] {
        let count = m.latency_ns.unwrap().count;
        assert!((30..=301).contains(&count), "one a millisecond at most: {count}");
        assert_eq!(m.method.requested["schedule_ns"], json!(1_000_000));
    }
    assert_eq!(report.measurements[1].together_with, [expected[2]]);
}
