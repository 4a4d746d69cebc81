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
        profile_why: String::new(),
        started: String::new(),
        finished: String::new(),
        complete: true,
        simulated: soft,
        synthetic: false,
        hosts: vec![host("a", soft), host("b", soft)],
        rails: vec![],
        checks: vec![check("device", Status::Pass)],
        topology: vec![],
        measurements,
        matrices: vec![],
        fits: vec![],
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
    judge(&mut report, &Choice::auto());
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
    assert!(report.verdict.reasons[0].ends_with("the rate of a/d0:1 is not known"));
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
    assert_eq!(calm.measurements[0].reason, "latency not judged: the rate of a/d0:1 is not known");
}

#[test]
fn more_than_a_hard_term_allows_is_an_error() {
    let term = |hard| CeilingTerm {
        name: "link".into(),
        bps: 8.9e9,
        low_bps: None,
        hard,
        because: String::new(),
    };
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
    judge(&mut twice, &Choice::auto());
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

/// Two hosts with an NDR port each, so that `auto` finds a profile.
fn ndr_hosts(report: &mut Report) {
    for host in &mut report.hosts {
        host.hostname = host.name.clone();
        host.devices[0].guid = host.name.clone();
        host.devices[0].ports = vec![fabbench_reports::model::Port {
            port: 1,
            link_layer: "InfiniBand".into(),
            width: "4x".into(),
            speed: "NDR".into(),
            rate_bps: Some(400_000_000_000),
            ..Default::default()
        }];
    }
}

/// A write of 64 KiB at `share` of a ceiling of 397.381 Gb/s with two queue pairs.
fn at(share: f64) -> Measurement {
    let median = share * 397.381e9;
    let term = CeilingTerm {
        name: "link a/d0:1".into(),
        bps: 397.381e9,
        low_bps: None,
        hard: true,
        because: "4x NDR".into(),
    };
    let mut measured = bandwidth("rc");
    measured.size_bytes = 65_536;
    measured.method.qps = 2;
    measured.ceiling =
        Some(Ceiling { bps: term.bps, limited_by: "link".into(), terms: vec![term] });
    measured.goodput_bps =
        Some(Rate { median, min: median, max: median, spread: 0.01, min_window: 0.97 * median });
    measured
}

fn one(measured: Measurement) -> Report {
    judged_with(false, vec![integrity(), measured], ndr_hosts)
}

fn by(choice: &Choice, measured: Measurement) -> Option<Status> {
    let mut report = one(measured);
    judge(&mut report, choice);
    report.measurements[1].status
}

#[test]
fn rates_are_held_against_the_ceiling() {
    let good = one(at(0.97));
    assert_eq!(parts(&good), (Status::Pass, Status::Pass, Status::Pass));
    assert_eq!(good.profile.name, "ndr");
    assert_eq!(good.profile_why, "4x NDR on InfiniBand at a/d0:1");
    assert_eq!(good.verdict.reasons, ["function passed; performance passed"]);
    let measured = &good.measurements[1];
    assert_eq!(measured.efficiency.map(|share| (share * 1e3).round()), Some(970.0));
    assert!(measured.bound.as_deref().unwrap().starts_with("at least 96 % of the ceiling"));
    let asked = measured.bound_bps.unwrap() / measured.ceiling.as_ref().unwrap().bps;
    assert!((asked - 0.96).abs() < 1e-9, "{asked}");
    assert_eq!(exit_code(&good, FailOn { unjudged: true, ..FLAGS }), 0);
    assert_eq!(one(at(0.93)).verdict.status, Status::Warn);
    let slow = one(at(0.5));
    assert_eq!(parts(&slow), (Status::Fail, Status::Pass, Status::Fail));
    assert_eq!(
        slow.verdict.reasons[1],
        "bandwidth/rc/write: 198.7 Gb/s is 50.0 % of the ceiling 397.4 Gb/s, wanted 96 % \
         (limited by link a/d0:1: 4x NDR)"
    );
    assert_eq!(exit_code(&slow, FLAGS), 1);
    let wrong = one(at(1.006));
    assert_eq!(wrong.measurements[1].status, Some(Status::Error));
}

#[test]
fn each_kind_of_bandwidth_has_its_own_bound() {
    let qp = |share| {
        let mut measured = at(share);
        measured.method.qps = 1;
        by(&Choice::auto(), measured)
    };
    assert_eq!(
        [qp(0.915), qp(0.86), qp(0.84)],
        [Status::Pass, Status::Warn, Status::Fail].map(Some)
    );
    let both = |share| by(&Choice::auto(), Measurement { bidirectional: true, ..at(share) });
    assert_eq!(
        [both(0.91), both(0.86), both(0.84)],
        [Status::Pass, Status::Warn, Status::Fail].map(Some)
    );
    let window = |share| {
        let mut measured = at(0.97);
        let rate = measured.goodput_bps.as_mut().unwrap();
        rate.min_window = share * rate.median;
        by(&Choice::auto(), measured)
    };
    let statuses = [window(0.91), window(0.8), window(0.7)];
    assert_eq!(statuses, [Status::Pass, Status::Warn, Status::Fail].map(Some));
    let small = Measurement { size_bytes: 4096, ..at(0.3) };
    assert_eq!(by(&Choice::auto(), small), Some(Status::Unjudged));
    let unknown = Measurement { ceiling: None, ..at(0.97) };
    assert_eq!(by(&Choice::auto(), unknown), Some(Status::Unjudged));
}

#[test]
fn profiles_ask_differently() {
    let strict = Choice::by_name("strict").unwrap();
    assert_eq!(by(&strict, at(0.965)), Some(Status::Warn));
    assert_eq!(by(&strict, at(0.945)), Some(Status::Fail));
    let mut report = one(at(0.97));
    judge(&mut report, &strict);
    assert_eq!(report.profile.name, "strict: ndr");
    let own = "name = \"own\"\nabout = \"\"\ninherits = \"auto\"\n[bounds.bandwidth]\npass = 40\n\
               warn = 30\nbecause = \"test\"\n";
    assert_eq!(by(&Choice::parse("own.toml", own).unwrap(), at(0.5)), Some(Status::Pass));
}

#[test]
fn an_interval_of_pcie_warns_where_it_could_be_right() {
    let mut measured = at(0.0);
    let ceiling = measured.ceiling.as_mut().unwrap();
    ceiling.bps = 240.775e9;
    ceiling.terms[0] = CeilingTerm {
        name: "pcie a/d0:1".into(),
        bps: 240.775e9,
        low_bps: Some(212.262e9),
        hard: false,
        because: "PCIe Gen4 x16".into(),
    };
    let at = |bps: f64| {
        let rate = Rate { median: bps, min: bps, max: bps, spread: 0.0, min_window: bps };
        one(Measurement { goodput_bps: Some(rate), ..measured.clone() })
    };
    assert_eq!(at(236e9).measurements[1].status, Some(Status::Pass));
    let low = at(205e9);
    assert_eq!(low.measurements[1].status, Some(Status::Warn));
    assert!(low.measurements[1].reason.contains("96.6 % if the PCIe payload size is the smallest"));
    assert_eq!(at(180e9).measurements[1].status, Some(Status::Fail));
}

#[test]
fn a_rail_is_held_beside_the_others() {
    let rail = |name: &str, share: f64| {
        let mut measured = at(share);
        measured.id = name.into();
        measured.path.rail = name.into();
        measured
    };
    let rails = vec![integrity(), rail("rail0", 0.99), rail("rail1", 0.91)];
    let report = judged_with(false, rails, ndr_hosts);
    assert_eq!(report.measurements[1].status, Some(Status::Pass));
    assert!(report.measurements[2].reason.contains("91.9 % of the best rail of its kind, rail0"));
    let slow = |name: &str, ns: f64| {
        let mut measured = latency(&[ns]);
        measured.id = name.into();
        measured.path.rail = name.into();
        measured.size_bytes = 8;
        measured
    };
    let rails = vec![integrity(), slow("rail0", 900.0), slow("rail1", 2000.0)];
    let report = judged_with(false, rails, ndr_hosts);
    assert_eq!(report.measurements[1].status, Some(Status::Pass));
    assert_eq!(report.measurements[2].status, Some(Status::Fail));
    assert!(report.measurements[2].reason.contains("2.22 times the latency of rail0"));
    let rails = vec![integrity(), slow("rail0", 2600.0)];
    let report = judged_with(false, rails, ndr_hosts);
    assert!(report.measurements[1].reason.contains("wanted at most 2.5 µs"));
    assert_eq!(report.verdict.performance, Status::Fail);
}

/// A retest of the measurement of `at`, at another share of the ceiling.
fn again(share: f64) -> Measurement {
    let first = at(0.5).id;
    Measurement { id: format!("{first}/retest/again"), retest_of: Some(first), ..at(share) }
}

#[test]
fn what_passes_when_measured_again_warns() {
    let report = judged_with(false, vec![integrity(), at(0.5), again(0.5), again(0.97)], ndr_hosts);
    assert_eq!(report.verdict.performance, Status::Warn);
    let reason = &report.measurements[1].reason;
    assert!(reason.contains("measured again it passed (385.5 Gb/s): it flutters"), "{reason}");
    let evidence = [2, 3].map(|i| report.measurements[i].status);
    assert_eq!(evidence, [Some(Status::Unjudged); 2], "no results of their own");
    let cause = &report.diagnosis[0];
    assert_eq!(
        (cause.cause.as_str(), cause.confidence.as_str()),
        ("the fault comes and goes", "medium")
    );
}

#[test]
fn what_fails_again_fails_once() {
    let report = judged_with(false, vec![integrity(), at(0.5), again(0.55)], ndr_hosts);
    assert_eq!(report.verdict.performance, Status::Fail);
    let failed =
        report.verdict.reasons.iter().filter(|r| r.starts_with(&report.measurements[1].id));
    assert_eq!(failed.count(), 1, "{:?}", report.verdict.reasons);
    assert!(report.measurements[1].reason.contains("; measured again: 218.6 Gb/s"));
    let other_way =
        Measurement { data_from: "b/d0:1".into(), data_to: "a/d0:1".into(), ..again(0.97) };
    let report = judged_with(false, vec![integrity(), at(0.5), other_way], ndr_hosts);
    assert_eq!(report.verdict.performance, Status::Fail, "the other way is no repeat");
    let suspects = crate::retest::suspects(&report);
    assert_eq!(suspects.len(), 1);
}

#[test]
fn loopback_is_held_against_its_own_bound_and_is_no_line_rate() {
    let own = |share| {
        let end = "a/d0:1".to_owned();
        let (data_from, data_to) = (end.clone(), end.clone());
        let (initiator, responder) = (end.clone(), end);
        let test = crate::plan::LOOPBACK.to_owned();
        let m = Measurement { test, initiator, responder, data_from, data_to, ..at(share) };
        judged_with(false, vec![integrity(), m], ndr_hosts)
    };
    let statuses = [0.951, 0.9, 0.8].map(|share| own(share).measurements[1].status);
    assert_eq!(statuses, [Status::Pass, Status::Warn, Status::Fail].map(Some));
    let told = own(0.951).verdict;
    assert_eq!(
        told.performance,
        Status::Unjudged,
        "nothing crossed the fabric: {:?}",
        told.reasons
    );
}
