//! `fabbench pair` between two agents on this machine.

use std::fs;
use std::os::unix::process::CommandExt;
use std::time::Duration;

use base64::Engine;
use fabbench_reports::json;
use fabbench_reports::model::{Measurement, Report, Status};

use crate::support::{
    SHORT, alone, assert_gone, children, end_of, fabbench, finish, kernel_has_verbs, run, short,
    signal, under_way,
};

#[test]
fn the_quick_suite_over_tcp_is_whole_and_passes() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("report.json");
    let json_flag = format!("--json={}", file.display());
    let quick = ["pair", "local", "local", "--transport", "tcp", "--suite", "quick", &json_flag];
    let ran = {
        let _alone = alone();
        run(&quick)
    };
    ran.expect(0, &["PASS: function passed", "line rate not judged: TCP", "path: both agents are"]);
    assert!(ran.took <= Duration::from_secs(20), "{:?}", ran.took);
    assert_eq!(ran.stdout.matches("path: ").count(), 1, "said once: {}", ran.stdout);
    assert!(!ran.stdout.contains("unknown to fabbench"), "{}", ran.stdout);
    assert!(ran.stderr.contains("[6/6] bandwidth 64 KiB TCP stream"), "{}", ran.stderr);

    let report = json::read(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(report.command[1..], quick);
    frame_is_right(&report);
    let of = |test: &str| -> Vec<&Measurement> {
        report.measurements.iter().filter(|m| m.test == test).collect()
    };
    let (integrity, latency, bandwidth) = (of("integrity"), of("latency"), of("bandwidth"));
    assert_eq!((integrity.len(), latency.len(), bandwidth.len()), (2, 1, 4));
    for m in &report.measurements {
        names_are_right(m);
    }
    for m in integrity {
        assert_eq!((m.bytes_verified, m.bytes_wrong, m.messages_lost), (1 << 20, 0, 0));
        assert_eq!((m.status, &*m.data_errors), (Some(Status::Pass), ""));
    }
    latency_is_right(latency[0]);
    let ways: Vec<(&str, bool)> =
        bandwidth.iter().map(|m| (&*m.data_from, m.bidirectional)).collect();
    let (a, b) = ("local/lo", "local#2/lo");
    assert_eq!(ways, [(a, false), (b, false), (a, true), (b, true)]);
    assert_eq!(bandwidth[2].together_with, [bandwidth[3].id.clone()]);
    for m in bandwidth {
        bandwidth_is_right(m);
    }
}

/// What surrounds the measurements.
fn frame_is_right(report: &Report) {
    assert_eq!(report.schema, "fabbench-report/1");
    assert_eq!(report.tool.version, env!("CARGO_PKG_VERSION"));
    assert!(!report.tool.commit.is_empty());
    assert_eq!((&*report.suite.name, report.suite.hash.is_empty()), ("quick", false));
    assert!(report.started < report.finished && report.started.ends_with('Z'));
    assert_eq!((report.complete, report.simulated), (true, false));
    let hosts: Vec<&str> = report.hosts.iter().map(|host| &*host.name).collect();
    assert_eq!(hosts, ["local", "local#2"]);
    assert!(report.hosts.iter().all(|host| !host.kernel.is_empty() && !host.cpu.is_empty()));
    let verdict = &report.verdict;
    let parts = (verdict.status, verdict.function, verdict.performance);
    assert_eq!(parts, (Status::Pass, Status::Pass, Status::Unjudged), "{:?}", verdict.reasons);
    assert!(report.not_measured.iter().all(|missing| !missing.asked));
    assert!(report.not_measured.iter().any(|missing| missing.what.contains("all-reduce")));
    let mut ids: Vec<&str> = report.measurements.iter().map(|m| &*m.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), report.measurements.len(), "ids are unique");
}

fn names_are_right(m: &Measurement) {
    assert_eq!((&*m.transport, &*m.memory.kind), ("tcp", "host"));
    assert!(m.op == "stream" || m.op == "request_response", "{}", m.op);
    let mut ends = [&*m.initiator, &*m.responder];
    ends.sort_unstable();
    assert_eq!(ends, ["local#2/lo", "local/lo"]);
    assert!(m.size_bytes > 0 && m.method.qps > 0 && m.method.threads > 0);
    assert_eq!((&*m.path.gid_a, &*m.path.gid_type), ("127.0.0.1", "TCP"));
    assert!(m.path.mtu > 0 && !m.path.why.is_empty());
}

fn latency_is_right(m: &Measurement) {
    let latency = m.latency_ns.unwrap();
    assert_eq!((m.repeats.len(), m.is_half_rtt, m.size_bytes), (3, Some(false), 8));
    assert!(latency.count > 100, "{latency:?}");
    let rising = [latency.min, latency.p50, latency.p90, latency.p99, latency.max];
    // The histogram keeps three digits, the extremes are exact.
    assert!(rising.windows(2).all(|pair| pair[0] <= pair[1] * 1.001), "{rising:?}");
    assert!(latency.min <= latency.mean && latency.mean <= latency.max);
    let bytes =
        base64::engine::general_purpose::STANDARD.decode(m.histogram.as_deref().unwrap()).unwrap();
    let histogram: hdrhistogram::Histogram<u64> =
        hdrhistogram::serialization::Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
    assert_eq!(histogram.len(), latency.count);
    let p50 = histogram.value_at_quantile(0.5) as f64;
    assert!((p50 - latency.p50).abs() <= latency.p50 * 0.002, "{p50} {}", latency.p50);
    let by_repeat: u64 = m.repeats.iter().filter_map(|r| r.latency_ns).map(|l| l.count).sum();
    assert_eq!(by_repeat, latency.count);
}

fn bandwidth_is_right(m: &Measurement) {
    assert_eq!((m.repeats.len(), m.size_bytes, m.messages_lost), (3, 65_536, 0));
    for repeat in &m.repeats {
        assert_eq!(repeat.messages_sent, repeat.messages_received);
        assert!(repeat.messages_sent > 0);
        assert!(repeat.received_bps > Some(0.0) && repeat.sent_bps > Some(0.0));
        let whole = m.method.interval_ns * repeat.intervals_bps.len() as u64;
        // The window's real length: on a busy machine its edges are seen a little late.
        let stretched = repeat.window_ns as f64 / whole as f64;
        assert!((0.5..1.5).contains(&stretched), "{} {whole}", repeat.window_ns);
        assert!(whole <= m.method.window_ns && whole > 0);
        // Both tell the same bits: by the window and by its intervals.
        let bits = repeat.received_bps.unwrap() * repeat.window_ns as f64;
        let by_interval = repeat.intervals_bps.iter().sum::<f64>() * m.method.interval_ns as f64;
        assert!((bits / by_interval - 1.0).abs() < 1e-6, "{bits} {by_interval}");
    }
    let rate = m.goodput_bps.unwrap();
    assert!(rate.min <= rate.median && rate.median <= rate.max, "{rate:?}");
    assert!(rate.min_window <= rate.max * 2.0, "{rate:?}");
    assert_eq!(m.status, Some(Status::Unjudged));
}

#[test]
fn without_verbs_tcp_is_measured_and_what_is_missing_is_named() {
    if kernel_has_verbs() {
        eprintln!("left out: the kernel of this machine has verbs");
        return;
    }
    let _alone = alone();
    let ran = run(&["pair", "local", "local", "--duration", "100ms", "--repeats", "1", "--json"]);
    ran.expect(3, &["warning: RDMA is not measured", "measure the TCP baseline alone"]);
    let fixes = ["fabbench softroce up", "apt install rdma-core ibverbs-providers"];
    assert!(fixes.iter().any(|fix| ran.stderr.contains(fix)), "{}", ran.stderr);
    let report = json::read(&ran.stdout).unwrap();
    assert_eq!(report.measurements.len(), 7);
    assert!(report.measurements.iter().all(|m| m.status != Some(Status::Error)));
    assert_eq!(report.verdict.status, Status::Incomplete);
    assert!(report.not_measured.iter().any(|missing| missing.asked && missing.what == "RDMA"));
    assert!(report.complete, "everything was tried");
}

#[test]
fn a_library_that_is_absent_is_named_with_the_package() {
    let _alone = alone();
    let mut command = fabbench(&["pair", "local", "local", "--duration", "50ms", "--repeats", "1"]);
    let ran = finish(command.env("FABBENCH_LIBIBVERBS", "/nonexistent/libibverbs.so"));
    ran.expect(
        3,
        &[
            "no RDMA: /nonexistent/libibverbs.so cannot be opened",
            "apt install rdma-core ibverbs-providers",
            "INCOMPLETE: function incomplete",
        ],
    );
}

#[test]
fn quiet_is_one_line() {
    let ran = short(&["-q"]);
    ran.expect(0, &["pass: local and local#2: function pass, performance not judged"]);
    assert_eq!((ran.stdout.lines().count(), &*ran.stderr), (1, ""), "{}", ran.stdout);
}

#[test]
fn fail_on_changes_the_exit_code_and_nothing_else() {
    short(&["-q", "--fail-on", "unjudged"]).expect(1, &["pass: local"]);
    short(&["-q", "--fail-on", "warn"]).expect(0, &["pass: local"]);
    run(&["pair", "a", "b", "--fail-on", "nonsense"])
        .expect(2, &["[possible values: warn, unjudged]"]);
}

#[test]
fn colour_is_for_terminals_unless_asked_for() {
    assert!(!short(&[]).stdout.contains('\x1b'), "no terminal, no colour");
    assert!(short(&["--color", "always"]).stdout.contains("\x1b["));
    let _alone = alone();
    let arguments = [&SHORT[..], &["--color", "always"]].concat();
    let ran = finish(fabbench(&arguments).env("NO_COLOR", "1"));
    assert!(ran.stdout.contains("\x1b["), "the command line counts more than the environment");
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_starts() {
    let place = tempfile::tempdir().unwrap();
    let unknown = place.path().join("unknown.toml");
    fs::write(&unknown, "nmae = \"x\"\n").unwrap();
    let unknown = unknown.to_str().unwrap();
    let cases: &[(&[&str], &[&str])] = &[
        (&["local"], &["<B>"]),
        (&["", "local"], &["the host name is empty"]),
        (&["--", "-oProxyCommand=id", "local"], &["a host name cannot begin with '-'"]),
        (&["-oProxyCommand=id", "local"], &["unexpected argument '-o'"]),
        (&["a;id", "local"], &["a host name cannot hold ';'"]),
        (&["$(id)", "local"], &["a host name cannot hold"]),
        (&["local", "a b"], &["a host name cannot hold ' '"]),
        (&["local", "tcp://127.0.0.1"], &["a port is missing"]),
        (&["local", "local", "--duration", "0"], &["shorter than 10 ms"]),
        (&["local", "local", "--duration", "2"], &["try 2s or 500ms"]),
        (&["local", "local", "--repeats", "0"], &["0 is not in 1..=1000"]),
        (&["local", "local", "--transport", "xrc"], &["--transport xrc: no suite measures it"]),
        (&["local", "local", "--mtu", "1000"], &["256, 512, 1024, 2048 or 4096"]),
        (&["local", "local", "--suite", "nosuch"], &["there is no suite \"nosuch\"", "quick"]),
        (&["local", "local", "--suite", "./nosuch.toml"], &["read suite: ./nosuch.toml: No such"]),
        (&["local", "local", "--suite", unknown], &["unknown field `nmae`", "line 1"]),
        (&["local", "local", "--rails", "/nonexistent"], &["read rails: /nonexistent"]),
        (&["local", "local", "--ssh", "'"], &["--ssh"]),
        (&["local", "local", "--token-file", "/nonexistent"], &["token file /nonexistent"]),
    ];
    for (arguments, words) in cases {
        let ran = run(&[&["pair"], *arguments].concat());
        ran.expect(2, words);
        assert!(ran.stdout.is_empty() && !ran.stderr.contains("measuring"), "{}", ran.stderr);
    }
}

#[test]
fn a_suite_of_ones_own_is_run() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("own.toml");
    fs::write(&file, include_str!("../../harness/suites/quick.toml")).unwrap();
    let ran = short(&["--suite", file.to_str().unwrap()]);
    ran.expect(0, &["own.toml, profile", "PASS: function passed"]);
}

#[test]
fn devices_asked_for_on_a_machine_without_any_leave_the_run_incomplete() {
    if kernel_has_verbs() {
        eprintln!("left out: this machine may have devices");
        return;
    }
    let _alone = alone();
    let ran = run(&["pair", "local", "local", "--device", "mlx5_0", "--duration", "50ms", "-q"]);
    ran.expect(3, &["warning: RDMA is not measured", "incomplete: local and local#2"]);
}

/// As a terminal does it: the signal goes to the whole process group.
#[test]
fn ctrl_c_keeps_what_was_measured_and_leaves_nothing() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("report.json");
    let json_flag = format!("--json={}", file.display());
    let mut command =
        fabbench(&["pair", "local", "local", "--transport", "tcp", "--duration", "5s", &json_flag]);
    let mut under = under_way(command.process_group(0), "[2/6]");
    let pid = under.child.id();
    let agents = children(pid);
    assert_eq!(agents.len(), 2);
    signal(-i64::from(pid), "-INT");
    let began = std::time::Instant::now();
    assert_eq!(end_of(&mut under.child).code(), Some(130));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_gone(&agents, Duration::from_secs(3));
    let said = under.rest.join().unwrap();
    assert!(said.contains("interrupted"), "{said}");
    let report = json::read(&fs::read_to_string(&file).unwrap()).unwrap();
    assert!(!report.complete);
    assert!(report.measurements.len() >= 2, "what was measured is kept");
    assert_eq!(report.verdict.function, Status::Incomplete);
    assert_eq!(crate::support::names(place.path()), ["report.json"]);
}

#[test]
fn a_coordinator_that_is_killed_takes_its_agents_along() {
    let _alone = alone();
    let mut command =
        fabbench(&["pair", "local", "local", "--transport", "tcp", "--duration", "5s"]);
    let mut under = under_way(&mut command, "[2/6]");
    let agents = children(under.child.id());
    assert_eq!(agents.len(), 2);
    under.child.kill().unwrap();
    end_of(&mut under.child);
    assert_gone(&agents, Duration::from_secs(10));
}

#[test]
fn an_agent_that_is_killed_ends_the_run_and_is_named() {
    let _alone = alone();
    let mut command =
        fabbench(&["pair", "local", "local", "--transport", "tcp", "--duration", "2s"]);
    let mut under = under_way(&mut command, "[2/6]");
    let agents = children(under.child.id());
    signal(i64::from(*agents.iter().next().unwrap()), "-KILL");
    assert_eq!(end_of(&mut under.child).code(), Some(3));
    let said = under.rest.join().unwrap();
    assert!(said.contains("its agent ended"), "{said}");
    assert!(said.contains("is gone"), "the rest is given up with the reason: {said}");
    assert_gone(&agents, Duration::from_secs(3));
}
