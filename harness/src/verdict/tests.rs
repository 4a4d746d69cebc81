use std::collections::BTreeMap;

use fabbench_reports::model::{
    Ceiling, CeilingTerm, Check, Device, Host, Latency, Measurement, Method, Named, NotMeasured,
    Rate, Repeat, SCHEMA, Tool, Verdict,
};

use super::*;

const FLAGS: FailOn = FailOn { warn: false, unjudged: false };

fn host(name: &str, soft: bool) -> Host {
    let driver = if soft { "rdma_rxe" } else { "mlx5_core" }.to_owned();
    let device = Device { name: "d0".into(), driver, soft, ..Device::default() };
    Host { name: name.into(), devices: vec![device], ..Host::default() }
}

fn measurement(test: &str, transport: &str, op: &str) -> Measurement {
    let (a, b) = match transport {
        "tcp" => ("a/eth0", "b/eth0"),
        _ => ("a/d0:1", "b/d0:1"),
    };
    let moved = ["a/d0:1/sent_pkts", "b/d0:1/rcvd_pkts"];
    Measurement {
        id: format!("{test}/{transport}/{op}"),
        test: test.into(),
        transport: transport.into(),
        op: op.into(),
        initiator: a.into(),
        responder: b.into(),
        counters: BTreeMap::from(moved.map(|name| (name.to_owned(), 10))),
        ..Measurement::default()
    }
}

fn integrity() -> Measurement {
    Measurement { bytes_verified: 1 << 20, ..measurement("integrity", "rc", "write") }
}

fn bandwidth(transport: &str) -> Measurement {
    let op = if transport == "tcp" { "stream" } else { "write" };
    let rate = Rate { median: 9e9, min: 8e9, max: 9.1e9, spread: 0.12, min_window: 7e9 };
    let repeat = Repeat { messages_sent: 100, messages_received: 100, ..Repeat::default() };
    Measurement {
        size_bytes: 65536,
        goodput_bps: Some(rate),
        repeats: vec![repeat],
        method: Method { arrival: "immediate".into(), ..Method::default() },
        ..measurement("bandwidth", transport, op)
    }
}

fn latency(medians: &[f64]) -> Measurement {
    let of = |p50: f64| Some(Latency { count: 10, p50, ..Latency::default() });
    let repeat = |p50: &f64| Repeat { latency_ns: of(*p50), ..Repeat::default() };
    Measurement {
        latency_ns: of(medians[0]),
        repeats: medians.iter().map(repeat).collect(),
        ..measurement("latency", "rc", "write")
    }
}

fn check(id: &str, status: Status) -> Check {
    Check {
        id: id.into(),
        host: "a".into(),
        object: "rail0".into(),
        status,
        found: "1024 B".into(),
        wanted: "4096 B".into(),
        remedy: "raise it".into(),
    }
}

fn judged(soft: bool, measurements: Vec<Measurement>) -> Report {
    judged_with(soft, measurements, |_| {})
}

fn judged_with(soft: bool, measurements: Vec<Measurement>, change: impl Fn(&mut Report)) -> Report {
    let none = Named { name: String::new(), hash: String::new() };
    let mut report = Report {
        schema: SCHEMA.into(),
        tool: Tool { version: "0.1.0".into(), commit: "unknown".into() },
        command: vec![],
        suite: none.clone(),
        profile: none,
        started: String::new(),
        finished: String::new(),
        complete: true,
        simulated: soft,
        hosts: vec![host("a", soft), host("b", soft)],
        rails: vec![],
        checks: vec![check("device", Status::Pass)],
        topology: vec![],
        measurements,
        not_measured: vec![],
        diagnosis: vec![],
        verdict: Verdict {
            status: Status::Pass,
            function: Status::Pass,
            performance: Status::Pass,
            reasons: vec![],
            next: vec![],
        },
    };
    change(&mut report);
    judge(&mut report);
    report
}

fn parts(report: &Report) -> (Status, Status, Status) {
    (report.verdict.status, report.verdict.function, report.verdict.performance)
}

#[test]
fn soft_roce_passes_in_function_and_is_not_judged_in_speed() {
    let report = judged(true, vec![integrity(), bandwidth("rc"), bandwidth("tcp")]);
    assert_eq!(parts(&report), (Status::Pass, Status::Pass, Status::Unjudged));
    assert_eq!(
        report.verdict.reasons,
        ["function passed; line rate not judged: Soft-RoCE has none"]
    );
    assert_eq!(report.profile.name, "soft-roce");
    let statuses: Vec<_> = report.measurements.iter().map(|m| m.status).collect();
    assert_eq!(statuses, [Some(Status::Pass), Some(Status::Unjudged), Some(Status::Unjudged)]);
    assert_eq!(report.measurements[0].reason, "every byte right: 1 MiB compared");
    assert_eq!(report.measurements[1].reason, "line rate not judged: Soft-RoCE has none");
    assert_eq!(report.measurements[2].reason, "line rate not judged: TCP has no expectation");
    assert_eq!(exit_code(&report, FLAGS), 0);
    assert_eq!(exit_code(&report, FailOn { unjudged: true, ..FLAGS }), 1);
    assert_eq!(exit_code(&report, FailOn { warn: true, ..FLAGS }), 0);
}

#[test]
fn wrong_bytes_fail_with_their_count() {
    let wrong =
        Measurement { bytes_wrong: 3, data_errors: "1 chunk flipped".into(), ..integrity() };
    let report = judged(true, vec![bandwidth("rc"), wrong]);
    assert_eq!(parts(&report), (Status::Fail, Status::Fail, Status::Unjudged));
    assert_eq!(
        report.verdict.reasons[..2],
        [
            "function failed; line rate not judged: Soft-RoCE has none",
            "integrity/rc/write: 3 bytes wrong of 1 MiB: 1 chunk flipped"
        ]
    );
    assert!(report.verdict.next[0].starts_with("trust no data over a/d0:1 - b/d0:1"));
    assert_eq!(exit_code(&report, FLAGS), 1);
}

#[test]
fn data_errors_without_wrong_bytes_fail_as_well() {
    let dropped = Measurement { data_errors: "1 chunk dropped".into(), ..integrity() };
    assert_eq!(judged(true, vec![dropped]).verdict.function, Status::Fail);
}

#[test]
fn lost_messages_fail_on_reliable_transports() {
    let report = judged(true, vec![Measurement { messages_lost: 2, ..bandwidth("rc") }]);
    assert_eq!(report.verdict.status, Status::Fail);
    let mut by_totals = bandwidth("rc");
    by_totals.repeats[0].messages_received = 99;
    let report = judged(true, vec![by_totals.clone()]);
    assert!(report.measurements[0].reason.starts_with("messages sent and never received: 1"));
    by_totals.method.arrival = "none".into();
    assert_eq!(judged(true, vec![by_totals]).verdict.function, Status::Pass, "READ has no arrival");
}

#[test]
fn fatal_counters_fail_and_retransmissions_warn() {
    let with = |name: &str| {
        let mut measured = bandwidth("rc");
        measured.counters.insert(format!("a/d0:1/{name}"), 1);
        judged(true, vec![integrity(), measured])
    };
    let report = with("completer_retry_err");
    assert_eq!(parts(&report), (Status::Warn, Status::Warn, Status::Unjudged));
    assert_eq!(report.measurements[1].status, Some(Status::Warn));
    assert!(report.verdict.reasons[0].starts_with("function passed with warnings; line rate not"));
    assert_eq!(exit_code(&report, FLAGS), 0);
    assert_eq!(exit_code(&report, FailOn { warn: true, ..FLAGS }), 1);
    assert_eq!(exit_code(&report, FailOn { unjudged: true, ..FLAGS }), 1);
    assert_eq!(with("link_downed").verdict.function, Status::Fail);
}

#[test]
fn counters_that_are_not_there_are_said_and_change_nothing() {
    let report = judged(true, vec![Measurement { counters: BTreeMap::new(), ..integrity() }]);
    assert_eq!(report.verdict.function, Status::Pass);
    assert!(report.measurements[0].reason.contains("counters are not available"));
}

#[test]
fn what_was_asked_and_is_missing_leaves_the_run_incomplete() {
    let missing = |asked| {
        let entry = NotMeasured { what: "RDMA".into(), why: "b: no device".into(), asked };
        judged_with(true, vec![bandwidth("tcp")], |report| {
            report.not_measured.push(entry.clone());
        })
    };
    let report = missing(true);
    assert_eq!(parts(&report), (Status::Incomplete, Status::Incomplete, Status::Unjudged));
    assert_eq!(report.verdict.reasons[1], "RDMA not measured: b: no device");
    assert_eq!(exit_code(&report, FLAGS), 3);
    let report = missing(false);
    assert_eq!(report.verdict.status, Status::Pass);
    assert_eq!(report.profile.name, "tcp-only");
    assert!(report.verdict.reasons[0].contains("TCP alone was measured"));
}

#[test]
fn many_findings_are_told_in_few_sentences() {
    let report = judged_with(true, vec![integrity()], |report| {
        for what in ["c1", "c2", "c3", "c4"] {
            let why = "rail1 failed before".to_owned();
            report.not_measured.push(NotMeasured { what: what.into(), why, asked: true });
        }
        for number in 0..11 {
            let object = format!("rail{number}");
            report.checks.push(Check { object, ..check("mtu", Status::Warn) });
        }
    });
    let reasons = &report.verdict.reasons;
    assert_eq!(reasons[1], "c1, c2 and 2 more not measured: rail1 failed before");
    assert_eq!(reasons.len(), 1 + 1 + 8 + 1);
    assert_eq!(reasons[10], "3 more of weight warn stand in the report");
}

#[test]
fn fail_wins_over_incomplete() {
    let report = judged_with(true, vec![Measurement { bytes_wrong: 1, ..integrity() }], |report| {
        report.complete = false;
    });
    assert_eq!(report.verdict.status, Status::Fail);
    assert_eq!(exit_code(&report, FLAGS), 1);
    let ended = |report: &&String| report.contains("ended before everything was tried");
    assert_eq!(report.verdict.reasons.iter().filter(ended).count(), 1);
}

#[test]
fn nothing_measured_is_never_a_pass() {
    let report = judged(true, vec![]);
    assert_eq!(parts(&report), (Status::Incomplete, Status::Incomplete, Status::Unjudged));
    let empty = Measurement { goodput_bps: None, ..bandwidth("rc") };
    assert_eq!(judged(true, vec![integrity(), empty]).verdict.function, Status::Incomplete);
    let unverified = Measurement { bytes_verified: 0, ..integrity() };
    assert_eq!(judged(true, vec![unverified]).measurements[0].status, Some(Status::Error));
}

#[test]
fn gates_leave_incomplete_and_other_checks_are_performance() {
    let with = |id: &str, status| {
        judged_with(true, vec![integrity()], |report| report.checks.push(check(id, status)))
    };
    assert_eq!(parts(&with("port-state", Status::Fail)).1, Status::Incomplete);
    let warned = with("mtu", Status::Warn);
    assert_eq!(parts(&warned), (Status::Warn, Status::Pass, Status::Warn));
    assert_eq!(
        warned.verdict.reasons,
        [
            "function passed; performance warns; line rate not judged: nothing was timed",
            "mtu, rail0: 1024 B, wanted 4096 B"
        ]
    );
    assert_eq!(warned.verdict.next, ["a, rail0: raise it"]);
    assert_eq!(parts(&with("mtu", Status::Fail)).0, Status::Fail);
}

#[test]
fn a_warning_does_not_hide_what_was_not_judged() {
    let report = judged_with(true, vec![bandwidth("rc")], |report| {
        report.checks.push(check("mtu", Status::Warn));
    });
    assert_eq!(report.verdict.performance, Status::Warn);
    assert!(report.verdict.reasons[0].contains("line rate not judged"));
    assert_eq!(exit_code(&report, FailOn { unjudged: true, ..FLAGS }), 1);
}

#[test]
fn hardware_without_an_expectation_is_not_passed() {
    let steady = |mut measured: Measurement| {
        if let Some(rate) = &mut measured.goodput_bps {
            rate.spread = 0.01;
        }
        measured
    };
    let report = judged(false, vec![integrity(), steady(bandwidth("rc"))]);
    assert_eq!(parts(&report), (Status::Pass, Status::Pass, Status::Unjudged));
    assert!(report.verdict.reasons[0].ends_with("this version has no expectation for it"));
}

#[test]
fn unsteady_repeats_warn_on_hardware_only() {
    let report = judged(false, vec![bandwidth("rc")]);
    assert_eq!(report.verdict.performance, Status::Warn);
    assert!(report.measurements[0].reason.starts_with("unstable: repeats differ by 12.0 %"));
    assert_eq!(judged(true, vec![bandwidth("rc")]).verdict.performance, Status::Unjudged);
    assert_eq!(judged(false, vec![bandwidth("tcp")]).verdict.performance, Status::Unjudged);
    let jumpy = judged(false, vec![latency(&[1000.0, 1050.0, 1120.0])]);
    assert!(jumpy.measurements[0].reason.contains("medians of the repeats differ by 11.4 %"));
    let calm = judged(false, vec![latency(&[1000.0, 1050.0])]);
    assert_eq!(
        calm.measurements[0].reason,
        "latency not judged: this version has no expectation for it"
    );
}

#[test]
fn more_than_a_hard_term_allows_is_an_error() {
    let term = |hard| CeilingTerm { name: "link".into(), bps: 8.9e9, hard, because: String::new() };
    let with = |hard| {
        let ceiling = Ceiling { bps: 8.9e9, limited_by: "link".into(), terms: vec![term(hard)] };
        judged(true, vec![Measurement { ceiling: Some(ceiling), ..bandwidth("rc") }])
    };
    let report = with(true);
    assert_eq!(report.measurements[0].status, Some(Status::Error));
    assert!(report.measurements[0].reason.starts_with("accounting: 9.000 Gb/s is more than link"));
    assert_eq!(exit_code(&report, FLAGS), 3);
    assert_eq!(with(false).verdict.function, Status::Pass, "a soft term is the user's word");
}

#[test]
fn judging_again_gives_the_same() {
    let once = judged(true, vec![integrity(), bandwidth("rc")]);
    let mut twice = once.clone();
    judge(&mut twice);
    assert_eq!(once, twice);
}

#[test]
fn messages_of_no_bytes_are_judged_by_their_number() {
    let rate = |median| Some(Rate { median, min: 1.0, max: 2.0, spread: 0.0, min_window: 1.0 });
    let empty = |messages| Measurement {
        size_bytes: 0,
        goodput_bps: rate(0.0),
        messages_per_s: rate(messages),
        ..bandwidth("rc")
    };
    assert_eq!(judged(true, vec![empty(900.0)]).verdict.function, Status::Pass);
    let report = judged(true, vec![empty(0.0)]);
    assert_eq!(report.verdict.function, Status::Incomplete);
    assert!(report.verdict.reasons[1].contains("no message arrived"), "{:?}", report.verdict);
}
