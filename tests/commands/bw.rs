//! `fabbench bw`.

use fabbench_reports::json;
use serde_json::json;

use crate::support::{alone, assert_gone, children, end_of, fabbench, kernel_has_verbs, run};

/// `bw` between two agents over sockets, as short as it can be measured.
fn bw(more: &[&str]) -> crate::support::Run {
    let short = ["bw", "local", "local", "--transport", "tcp", "--duration", "100ms"];
    let quick = ["--repeats", "1", "--warmup", "50ms"];
    let _alone = alone();
    run(&[&short[..], &quick, more].concat())
}

#[test]
fn knobs_take_effect_and_are_reported() {
    let ran = bw(&[
        "--qps",
        "5",
        "--threads",
        "2",
        "--size",
        "4KiB,1MiB",
        "--direction",
        "both",
        "--json",
    ]);
    ran.expect(0, &["measuring, about"]);
    let report = json::read(&ran.stdout).unwrap();
    let told: Vec<_> = report
        .measurements
        .iter()
        .map(|m| (m.size_bytes, &*m.data_from, m.bidirectional))
        .collect();
    let (a, b) = ("local/lo", "local#2/lo");
    let expected = [(4096, a, true), (4096, b, true), (1 << 20, a, true), (1 << 20, b, true)];
    assert_eq!(told, expected);
    for m in &report.measurements {
        assert_eq!((m.method.qps, m.method.threads), (5, 2));
        assert_eq!(m.method.requested["qps"], json!(5));
        assert_eq!(m.method.warmup_ns, 50_000_000);
        assert_eq!(m.method.polling, "events", "sockets are waited for, not polled");
        assert!(m.repeats.len() == 1 && m.messages_lost == 0);
        assert_eq!(m.repeats[0].messages_sent, m.repeats[0].messages_received);
        assert!(m.method.window_ns.is_multiple_of(m.method.interval_ns));
        assert!(m.method.window_ns / m.method.interval_ns >= 8, "a short window has intervals");
        assert!(m.goodput_bps.unwrap().median > 0.0);
    }
}

#[test]
fn the_direction_is_that_of_the_payload() {
    let report = json::read(&bw(&["--direction", "b-a", "--json"]).stdout).unwrap();
    let [m] = &report.measurements[..] else { panic!("one measurement") };
    assert_eq!((&*m.data_from, &*m.data_to), ("local#2/lo", "local/lo"));
    assert!(m.id.ends_with("/b-a"), "{}", m.id);
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--size", "0"], &["size 0 is legal for SEND and WRITE only, not for TCP streams"]),
        (&["--size", "999GiB"], &["999GiB is too large: at most 1GiB"]),
        (&["--size", "99999999999999999999"], &["is too large: at most 1GiB"]),
        (&["--size", "-1"], &["\"-1\" is no size: write bytes as 8, 64KiB"]),
        (&["--size", "abc"], &["\"abc\" is no size"]),
        (&["--size", "64KB"], &["\"64KB\" is no size: write bytes as 8, 64KiB"]),
        (&["--size", "8,,9"], &["\"\" is no size"]),
        (&["--qps", "0"], &["0 is not in 1..=1024"]),
        (&["--threads", "0"], &["0 is not in 1..=256"]),
        (&["--threads", "4"], &["--threads 4", "there are 1; give at least --qps 4"]),
        (&["--threads", "4", "--qps", "2"], &["there are 2; give at least --qps 4"]),
        (&["--tx-depth", "0"], &["0 is not in 1..=32768"]),
        (&["--signal-every", "0"], &["0 is not in 1..=16384"]),
        (&["--direction", "up"], &["[possible values: a-b, b-a, both]"]),
        (&["--transport", "srd"], &["[possible values: rdma, rc, uc, ud, xrc, tcp]"]),
        (
            &["--transport", "uc", "--op", "read"],
            &["there is no bandwidth of READ over uc", "brings nothing back: use rc"],
        ),
        (
            &["--transport", "ud", "--op", "fetch_add", "--size", "8"],
            &["there is no bandwidth of FETCH_ADD over ud", "use rc"],
        ),
        (
            &["--transport", "ud", "--op", "write", "--size", "8"],
            &["goes into a posted receive, not to an address", "use send, or rc or uc"],
        ),
        (
            &["--transport", "ud", "--op", "send", "--size", "8KiB"],
            &["messages of 8 KiB do not fit a datagram: at most 4 KiB, the path MTU"],
        ),
        (&["--transport", "rc", "--op", "cmp_swap", "--size", "4"], &["CMP_SWAP is of 8 bytes"]),
        (&["--transport", "rc", "--op", "read", "--size", "0"], &["not for READ"]),
        (&["--sl", "16"], &["16 is not in 0..16"]),
        (&["--duration", "0"], &["shorter than 10 ms"]),
        (&["--duration", "2d"], &["longer than a day"]),
        (&["--mtu", "1000"], &["256, 512, 1024, 2048 or 4096"]),
        (&["--warmup", "soon"], &["--warmup"]),
    ];
    for (flags, words) in cases {
        let transport: &[&str] =
            if flags.contains(&"--transport") { &[] } else { &["--transport", "tcp"] };
        let ran = run(&[&["bw", "local", "local"], transport, flags].concat());
        ran.expect(2, words);
        assert!(ran.stdout.is_empty() && !ran.stderr.contains("measuring"), "{}", ran.stderr);
    }
}

#[test]
fn size_zero_is_legal_for_send_and_write() {
    for (op, code) in [("send", 3), ("write", 3), ("read", 2)] {
        if code == 3 && kernel_has_verbs() {
            eprintln!("left out: this machine may have devices");
            continue;
        }
        let ran = run(&["bw", "local", "local", "--size", "0", "--op", op, "--duration", "50ms"]);
        ran.expect(code, &[if code == 2 { "not for READ" } else { "RDMA is not measured" }]);
    }
}

/// The buffers come on top: they are what the user asked to be moved.
#[test]
fn an_agent_is_small() {
    let _alone = alone();
    let mut child = fabbench(&[
        "bw",
        "local",
        "local",
        "--transport",
        "tcp",
        "--duration",
        "1s",
        "--repeats",
        "2",
        "-q",
        "--qps",
        "4",
        "--threads",
        "2",
        "--size",
        "64KiB",
    ])
    .spawn()
    .unwrap();
    let mut peak = 0;
    let mut agents = std::collections::BTreeSet::new();
    while child.try_wait().unwrap().is_none() {
        for agent in children(child.id()) {
            let status =
                std::fs::read_to_string(format!("/proc/{agent}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
            peak = peak.max(kib.unwrap_or(0));
            agents.insert(agent);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(end_of(&mut child).code(), Some(0));
    assert_eq!(agents.len(), 2);
    let buffers_kib = 4 * 2 * 64;
    assert!(peak > 0 && peak <= 64 * 1024 + buffers_kib, "{peak} KiB");
    assert_gone(&agents, std::time::Duration::from_secs(3));
}
