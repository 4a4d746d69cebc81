//! A report for each cause; the likeliest must be the one meant.

use std::collections::BTreeMap;

use fabbench_reports::model::{
    Ceiling, CeilingTerm, Check, CpuTime, Device, Host, Latency, Measurement, Method, Named,
    NotMeasured, Port, Rate, Repeat, SCHEMA, Status, Tool, Verdict,
};

use super::*;

const A: &str = "a/mlx5_0:1";
const B: &str = "b/mlx5_0:1";

fn host(name: &str) -> Host {
    let port = |netdev: &str| Port { port: 1, netdev: Some(netdev.into()), ..Port::default() };
    let device = |device: &str, netdev: &str| Device {
        name: device.into(),
        numa_node: Some(1),
        ports: vec![port(netdev)],
        ..Device::default()
    };
    Host {
        name: name.into(),
        cpu: "AMD EPYC 9654".into(),
        devices: vec![device("mlx5_0", "bond0"), device("mlx5_1", "ens2")],
        ..Host::default()
    }
}

fn report(checks: Vec<Check>, measurements: Vec<Measurement>) -> Report {
    let none = Named { name: String::new(), hash: String::new() };
    Report {
        schema: SCHEMA.into(),
        tool: Tool { version: "0.1.0".into(), commit: "unknown".into() },
        command: vec![],
        suite: none.clone(),
        profile: none,
        profile_why: String::new(),
        started: String::new(),
        finished: String::new(),
        complete: true,
        simulated: false,
        synthetic: false,
        hosts: vec![host("a"), host("b")],
        rails: vec![],
        checks,
        topology: vec![],
        measurements,
        matrices: vec![],
        fits: vec![],
        not_measured: vec![],
        diagnosis: vec![],
        verdict: Verdict {
            status: Status::Fail,
            function: Status::Pass,
            performance: Status::Fail,
            reasons: vec![],
            next: vec![],
        },
    }
}

fn check(id: &str, object: &str, status: Status) -> Check {
    Check {
        id: id.into(),
        host: object.split('/').next().unwrap_or("a").into(),
        object: object.into(),
        status,
        found: "what was found".into(),
        wanted: "what is wanted".into(),
        remedy: "do this".into(),
    }
}

/// Bandwidth of an NDR rail over InfiniBand at MTU 4096: the link allows 397.4 Gb/s.
fn bandwidth(from: &str, to: &str, gbps: f64) -> Measurement {
    let term = CeilingTerm {
        name: format!("link {from}"),
        bps: 397.381e9,
        low_bps: None,
        hard: true,
        because: "4x NDR".into(),
    };
    let bps = gbps * 1e9;
    let rail = if from.contains("mlx5_1") { "rail1" } else { "rail0" };
    let mut m = Measurement {
        id: format!("bandwidth/rc/write/65536/{rail}/{from}-{to}"),
        test: "bandwidth".into(),
        transport: "rc".into(),
        op: "write".into(),
        initiator: from.into(),
        responder: to.into(),
        data_from: from.into(),
        data_to: to.into(),
        size_bytes: 65_536,
        goodput_bps: Some(Rate { median: bps, min: bps, max: bps, spread: 0.0, min_window: bps }),
        ceiling: Some(Ceiling { bps: 397.381e9, limited_by: "link".into(), terms: vec![term] }),
        bound_bps: Some(0.96 * 397.381e9),
        method: Method { qps: 2, threads: 1, ..Method::default() },
        ..Measurement::default()
    };
    m.path.rail = rail.into();
    m.path.mtu = 4096;
    m.path.gid_type = "RoCE v2".into();
    m
}

fn with_qps(qps: u32, m: Measurement) -> Measurement {
    Measurement { method: Method { qps, ..m.method.clone() }, ..m }
}

fn counting(port: &str, name: &str, delta: i64, m: Measurement) -> Measurement {
    Measurement { counters: BTreeMap::from([(format!("{port}/{name}"), delta)]), ..m }
}

fn slow() -> Measurement {
    bandwidth(A, B, 180.0)
}

fn latency() -> Measurement {
    Measurement {
        test: "latency".into(),
        size_bytes: 8,
        goodput_bps: None,
        ceiling: None,
        bound_bps: None,
        latency_ns: Some(Latency { count: 9, p50: 9000.0, ..Latency::default() }),
        status: Some(Status::Fail),
        ..bandwidth(A, B, 0.0)
    }
}

/// The likeliest cause must hold these words, be about this object, and be as sure as said.
fn expect(report: &Report, words: &str, object: &str, confidence: &str) {
    let found = diagnose(report);
    let first = found.first().unwrap_or_else(|| panic!("no cause; wanted {words:?}"));
    assert!(first.cause.contains(words), "wanted {words:?} first: {found:#?}");
    assert_eq!((first.object.as_str(), first.confidence.as_str()), (object, confidence), "{words}");
    assert!(!first.evidence.is_empty(), "{first:#?}");
    assert!(!first.remedy.is_empty(), "{first:#?}");
}

#[test]
fn a_setting_is_the_cause_where_its_object_is_slow() {
    let cases = [
        ("pcie-link", "b/mlx5_0", "came up narrower", "high"),
        ("pcie-rate", "b/mlx5_0", "PCIe slot carries less", "high"),
        ("link-width", B, "fewer lanes", "high"),
        ("rail-rate", "rail0 x - y", "different rates", "high"),
        ("mtu", "rail0 x - y", "path MTU", "high"),
        ("numa", "a/mlx5_0", "NUMA node", "medium"),
        ("relaxed-ordering", "b/mlx5_0", "relaxed ordering is off", "high"),
        ("iommu", "b", "IOMMU translates", "medium"),
        ("pcie-payload", "a/mlx5_0", "PCIe packets are small", "medium"),
        ("foreign-load", "a", "other processes", "medium"),
        ("module", B, "transceiver is in alarm", "high"),
        ("bit-errors", B, "too many bits", "high"),
    ];
    for (id, object, words, confidence) in cases {
        let bad = check(id, object, Status::Warn);
        expect(&report(vec![bad.clone()], vec![slow()]), words, object, confidence);
        let fine = report(vec![bad], vec![bandwidth(A, B, 392.0)]);
        let told = diagnose(&fine);
        assert_eq!(told.is_empty(), id != "mtu", "{id} explains nothing that is fast: {told:#?}");
    }
}

#[test]
fn a_setting_of_another_device_explains_nothing() {
    let other = check("pcie-link", "b/mlx5_1", Status::Fail);
    let told = diagnose(&report(vec![other], vec![slow()]));
    assert!(told.iter().all(|cause| !cause.cause.contains("came up")), "{told:#?}");
    let passed = check("pcie-link", "b/mlx5_0", Status::Pass);
    let told = diagnose(&report(vec![passed], vec![slow()]));
    assert!(told.iter().all(|cause| !cause.cause.contains("came up")), "{told:#?}");
}

#[test]
fn what_keeps_rdma_from_being_measured_is_named() {
    let cases = [
        ("memlock", "memlock of the agent's process", "locked memory"),
        ("verbs", "a", "verbs library"),
        ("uverbs", "/dev/infiniband/uverbs0", "may not open"),
        ("device", "a", "no RDMA device"),
        ("port-state", A, "not up"),
        ("pkey", A, "partition"),
        ("gid", "a/mlx5_0:1", "GIDs"),
        ("subnet-manager", A, "no subnet manager"),
    ];
    for (id, object, words) in cases {
        expect(&report(vec![check(id, object, Status::Fail)], vec![]), words, object, "high");
    }
}

#[test]
fn latency_and_unsteady_results_have_causes_of_their_own() {
    let cases = [
        ("governor", "a", "save power", "medium"),
        ("numa-balancing", "b", "moves pages", "medium"),
        ("iommu", "a", "IOMMU", "medium"),
        ("firmware-same", "a", "different firmware", "low"),
    ];
    for (id, object, words, confidence) in cases {
        let report = report(vec![check(id, object, Status::Warn)], vec![latency()]);
        expect(&report, words, object, confidence);
    }
    let mut unsteady = bandwidth(A, B, 390.0);
    unsteady.reason = "unstable: repeats differ by 9.0 %".into();
    let report = report(vec![check("governor", "a", Status::Warn)], vec![unsteady]);
    expect(&report, "save power", "a", "medium");
}

#[test]
fn losses_are_explained_by_the_class_that_they_happen_in() {
    let lossy = || counting(B, "out_of_sequence", 4000, slow());
    let between = format!("{A} - {B}");
    expect(&report(vec![], vec![lossy()]), "packets are lost on the path", &between, "high");
    for (id, words) in [
        ("pfc", "lossy class"),
        ("traffic-class", "another class"),
        ("trust", "not taken from DSCP"),
        ("lossless-same", "differ between the two ends"),
    ] {
        let object = if id == "lossless-same" { "rail0 x - y" } else { B };
        let report = report(vec![check(id, object, Status::Warn)], vec![lossy()]);
        expect(&report, words, object, "high");
    }
}

#[test]
fn what_no_transport_sends_again_is_only_lost() {
    let said = |transport: &str| {
        let mut m = bandwidth(A, B, 390.0);
        (m.transport, m.messages_lost) = (transport.into(), 18);
        diagnose(&report(vec![], vec![m])).into_iter().map(|d| d.cause).collect::<Vec<_>>()
    };
    let alone = "packets are lost on the path".to_owned();
    assert!(said("ud").contains(&alone) && said("uc").contains(&alone), "{:?}", said("ud"));
    assert!(said("rc").contains(&format!("{alone} and sent again")), "{:?}", said("rc"));
}

#[test]
fn soft_roce_tells_its_losses_too() {
    let mut m = counting(A, "completer_retry_err", 120, bandwidth(A, B, 0.3));
    (m.ceiling, m.bound_bps) = (None, None);
    let between = format!("{A} - {B}");
    expect(&report(vec![], vec![m]), "packets are lost on the path", &between, "high");
}

#[test]
fn counters_name_what_happens_on_the_wire() {
    let cases = [
        ("symbol_error", 12, "arrive damaged", "high"),
        ("link_downed", 1, "went down", "high"),
        ("rx_prio3_pause", 900_000, "pause storm", "medium"),
        ("rp_cnp_handled", 50_000, "congested", "medium"),
        ("out_of_buffer", 7, "too late", "medium"),
        ("excessive_buffer_overrun_errors", 3, "adapter drops packets", "high"),
        ("resp_remote_access_errors", 2, "refused by the peer", "medium"),
    ];
    for (name, delta, words, confidence) in cases {
        let report = report(vec![], vec![counting(B, name, delta, bandwidth(A, B, 390.0))]);
        expect(&report, words, B, confidence);
    }
}

#[test]
fn a_slot_that_is_reached_is_the_limit() {
    let mut m = bandwidth(A, B, 229.0);
    let ceiling = m.ceiling.as_mut().unwrap();
    ceiling.bps = 240.78e9;
    ceiling.limited_by = "peer".into();
    ceiling.terms.push(CeilingTerm {
        name: format!("pcie {B}"),
        bps: 240.78e9,
        low_bps: Some(212.26e9),
        hard: false,
        because: "PCIe Gen4 x16 at 0000:18:00.0".into(),
    });
    m.bound_bps = Some(0.9 * 240.78e9);
    expect(&report(vec![], vec![m]), "PCIe slot carries less", B, "high");
}

#[test]
fn queue_pairs_tell_bonds_collisions_and_single_streams_apart() {
    let between = format!("{A} - {B}");
    let bond = vec![with_qps(1, bandwidth(A, B, 196.0)), with_qps(8, bandwidth(A, B, 391.0))];
    expect(&report(vec![], bond), "one leg of the bond", &between, "high");
    let (c, d) = ("a/mlx5_1:1", "b/mlx5_1:1");
    let other = format!("{c} - {d}");
    let collision = vec![with_qps(1, bandwidth(c, d, 195.0)), with_qps(8, bandwidth(c, d, 390.0))];
    expect(&report(vec![], collision), "collide", &other, "medium");
    let mut single = [with_qps(1, bandwidth(c, d, 300.0)), with_qps(8, bandwidth(c, d, 392.0))];
    expect(&report(vec![], single.to_vec()), "does not fill the link", &other, "medium");
    single.iter_mut().for_each(|m| m.path.gid_type = "IB LID".into());
    expect(&report(vec![], single.to_vec()), "does not fill the link", &other, "medium");
}

#[test]
fn loopback_tells_the_card_from_the_path() {
    let card = vec![slow(), bandwidth(A, A, 390.0), bandwidth(B, B, 190.0)];
    expect(&report(vec![], card), "adapter or its slot", B, "high");
    let path = vec![slow(), bandwidth(A, A, 380.0), bandwidth(B, B, 388.0)];
    expect(&report(vec![], path), "path between the adapters", &format!("{A} - {B}"), "medium");
}

#[test]
fn directions_rails_and_loads_are_held_beside_each_other() {
    let one = vec![slow(), bandwidth(B, A, 391.0)];
    expect(&report(vec![], one), "one direction", &format!("{A} → {B}"), "medium");
    let rails = vec![slow(), bandwidth("a/mlx5_1:1", "b/mlx5_1:1", 392.0)];
    expect(&report(vec![], rails), "rail0 alone is slow", &format!("{A} - {B}"), "medium");
    let mut both = bandwidth(A, B, 250.0);
    both.bidirectional = true;
    let pair = vec![bandwidth(A, B, 391.0), both];
    expect(&report(vec![], pair), "both directions at once", &format!("{A} - {B}"), "medium");
    let mut all = bandwidth(A, B, 200.0);
    all.together_with = vec!["other".into()];
    let loaded = vec![bandwidth(A, B, 391.0), all];
    expect(&report(vec![], loaded), "rails share something", "all rails at once", "medium");
}

#[test]
fn memory_processors_and_stalls() {
    let mut far = slow();
    far.memory.numa_node = Some(0);
    expect(&report(vec![], vec![far]), "another NUMA node", A, "medium");
    let mut stalled = bandwidth(A, B, 385.0);
    stalled.goodput_bps.as_mut().unwrap().min_window = 100e9;
    expect(&report(vec![], vec![stalled]), "stops now and then", &format!("{A} → {B}"), "low");
    let mut tcp = bandwidth("a/ens2", "b/ens2", 38.0);
    tcp.transport = "tcp".into();
    tcp.repeats = vec![Repeat { window_ns: 1_000_000_000, ..Repeat::default() }];
    let busy = CpuTime { user_ns: 30_000_000, system_ns: 960_000_000 };
    tcp.cpu = BTreeMap::from([("a".into(), busy)]);
    expect(&report(vec![], vec![tcp.clone()]), "bound by processors", "a", "medium");
    let processors = |tcp: &Measurement| {
        let told = diagnose(&report(vec![], vec![tcp.clone()]));
        told.into_iter().any(|cause| cause.cause.contains("bound by processors"))
    };
    let mut warmed = tcp.clone();
    warmed.method.warmup_ns = 1_000_000_000;
    assert!(!processors(&warmed), "the time of the warm-up counts: half of it was idle");
    tcp.method.requested.insert("iterations".into(), 2000.into());
    assert!(!processors(&tcp), "of a window by number it is not known");
}

#[test]
fn what_cannot_be_right_is_named_first() {
    let mut wrong = slow();
    (wrong.bytes_wrong, wrong.bytes_verified) = (3, 4096);
    expect(&report(vec![], vec![wrong]), "damaged", &format!("{A} - {B}"), "high");
    let fast = bandwidth(A, B, 520.0);
    expect(&report(vec![], vec![fast]), "did not cross the link", &format!("{A} → {B}"), "high");
    let mut other = bandwidth(A, B, 390.0);
    other.reason = "its packet counters did not grow: the payload went another way".into();
    expect(&report(vec![], vec![other]), "another port", &format!("{A} - {B}"), "medium");
}

#[test]
fn errors_of_connections_are_told_by_their_likely_cause() {
    let cases = [
        (
            "no acknowledgement came, retries used up (RETRY_EXC_ERR), vendor error 0x81",
            "do not arrive",
            "high",
        ),
        ("the peer had no receive posted (RNR_RETRY_EXC_ERR)", "starved", "high"),
        ("the agent on b is gone", "stopped answering", "medium"),
    ];
    for (why, words, confidence) in cases {
        let mut report = report(vec![], vec![]);
        let (what, why) = ("connect rail0".to_owned(), why.to_owned());
        report.not_measured = vec![NotMeasured { what, why, asked: true }];
        expect(&report, words, "connect rail0", confidence);
    }
}

#[test]
fn gpus_far_from_their_hcas_are_a_cause() {
    for (id, words) in
        [("gpu-acs", "ACS"), ("gpu-topology", "no PCIe switch"), ("gpu-gdr", "software")]
    {
        expect(&report(vec![check(id, "a GPUs", Status::Fail)], vec![]), words, "a GPUs", "high");
    }
}

#[test]
fn without_a_cause_two_hosts_cannot_tell_which() {
    let found = diagnose(&report(vec![], vec![slow()]));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].cause, "degraded, and no limiting term was found");
    assert_eq!(found[0].confidence, "low");
    assert!(found[0].remedy.contains("third"), "{found:#?}");
    assert!(diagnose(&report(vec![], vec![bandwidth(A, B, 392.0)])).is_empty());
}

#[test]
fn one_cause_stands_once_with_all_its_evidence() {
    let bad = check("pcie-rate", B.trim_end_matches(":1"), Status::Fail);
    let many: Vec<_> = (0..9).map(|n| bandwidth(A, B, 100.0 + f64::from(n))).collect();
    let found = diagnose(&report(vec![bad.clone(), bad], many));
    let slots = found.iter().filter(|cause| cause.cause.contains("PCIe slot")).count();
    assert_eq!(slots, 1, "{found:#?}");
    assert!(found.iter().all(|cause| cause.evidence.len() <= 6));
}
