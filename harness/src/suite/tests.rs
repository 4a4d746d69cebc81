use super::*;
use crate::fixtures;
use crate::plan::Case;

fn scene(rails: usize) -> Scene {
    Scene { rails: vec![RailTraits { tcp: true, ..RailTraits::default() }; rails], tcp_streams: 2 }
}

fn planned(suite: &str, rails: usize) -> Plan {
    let suite = Suite::built_in(suite).unwrap();
    suite.plan(&scene(rails), &Overrides::default()).unwrap()
}

fn cases(plan: &Plan) -> Vec<&Case> {
    plan.groups.iter().flat_map(|group| &group.cases).collect()
}

/// A suite of one step with `extra` lines.
fn one_step(extra: &str) -> Result<Suite, SuiteError> {
    let text = format!(
        "name = \"x\"\ngroup_overhead = \"1s\"\n[budget]\none_rail = \"60s\"\nmore_rails = \"60s\"\n\
         [knobs]\ntx_depth = 128\nrx_depth = 512\nsignal_every = 32\ninterval = \"100ms\"\n\
         [[step]]\n{extra}"
    );
    Suite::parse("x.toml", &text)
}

const GOOD: &str = "test = \"bandwidth\"\ntransport = \"rc\"\nops = [\"write\"]\nsizes = [\"64KiB\"]\n\
                    directions = [\"a-b\"]\nrails = \"each\"\nlanes = [2]\nwindow = \"1s\"\n";

#[test]
fn quick_on_one_rail_measures_what_the_design_lists() {
    let plan = planned("quick", 1);
    let ids: Vec<_> = cases(&plan).iter().map(|case| case.id.clone()).collect();
    let expected = [
        "integrity/rc/send/65536/rail0/a-b",
        "integrity/rc/send/65536/rail0/b-a",
        "integrity/rc/write/65536/rail0/a-b",
        "integrity/rc/write/65536/rail0/b-a",
        "integrity/rc/read/65536/rail0/a-b",
        "integrity/rc/read/65536/rail0/b-a",
        "latency/rc/write/8/rail0/a-b",
        "latency/rc/send/8/rail0/a-b",
        "latency/rc/read/8/rail0/a-b",
        "bandwidth/rc/write/65536/rail0/a-b",
        "bandwidth/rc/write/65536/rail0/b-a",
        "bandwidth/rc/write/65536/rail0/both",
        "integrity/tcp/stream/65536/rail0/a-b",
        "integrity/tcp/stream/65536/rail0/b-a",
        "latency/tcp/request_response/8/rail0/a-b",
        "bandwidth/tcp/stream/65536/rail0/a-b",
        "bandwidth/tcp/stream/65536/rail0/b-a",
        "bandwidth/tcp/stream/65536/rail0/both",
    ];
    assert_eq!(ids, expected);
    assert!(plan.groups.iter().all(|group| group.cases.len() == 1));
    assert_eq!(plan.groups[9].title, "bandwidth 64 KiB WRITE, rail0, A to B");
    assert!(plan.notes.is_empty());
}

#[test]
fn two_rails_also_run_together() {
    let plan = planned("quick", 2);
    let group = plan.groups.iter().find(|group| group.cases.len() > 1).unwrap();
    assert_eq!(group.title, "bandwidth 64 KiB WRITE, all rails together, both ways");
    let ids: Vec<_> = group.cases.iter().map(|case| case.id.as_str()).collect();
    let expected = [
        "bandwidth/rc/write/65536/rail0/both/together",
        "bandwidth/rc/write/65536/rail1/both/together",
    ];
    assert_eq!(ids, expected);
}

#[test]
fn standard_adds_sizes_reads_and_queue_pairs() {
    let plan = planned("standard", 1);
    let has = |id: &str| cases(&plan).iter().any(|case| case.id == id);
    assert!(has("bandwidth/rc/write/1048576/rail0/both"));
    assert!(has("bandwidth/rc/read/65536/rail0/b-a"));
    assert!(has("bandwidth/rc/write/65536/rail0/a-b/qps1"));
    assert!(has("bandwidth/rc/write/65536/rail0/a-b/qps8"));
    let own: Vec<_> = cases(&plan).into_iter().filter(|case| case.loopback.is_some()).collect();
    let told: Vec<_> = own.iter().map(|case| (&*case.id, case.loopback, case.rail)).collect();
    let expected = [
        ("loopback/rc/write/65536/rail0/a", Some(0), Some(0)),
        ("loopback/rc/write/65536/rail0/b", Some(1), Some(0)),
    ];
    assert_eq!(told, expected);
    let integrity = cases(&plan).into_iter().find(|case| case.test == Test::Integrity).unwrap();
    assert_eq!(integrity.knobs.volume_bytes, 64 << 20);
}

#[test]
fn a_rail_from_a_port_to_itself_needs_no_loopback() {
    let rail = RailTraits { one_port: true, ..RailTraits::default() };
    let scene = Scene { rails: vec![rail], tcp_streams: 1 };
    let suite = Suite::built_in("standard").unwrap();
    let plan = suite.plan(&scene, &Overrides::default()).unwrap();
    assert!(cases(&plan).iter().all(|case| case.loopback.is_none()));
    let step = GOOD.replace("\"each\"", "\"loopback\"");
    assert!(one_step(&step).is_ok());
    for (from, to) in [("[\"a-b\"]", "[\"both\"]"), ("\"rc\"", "\"tcp\""), ("write", "read")] {
        assert!(one_step(&step.replace(from, to)).is_err(), "{to}");
    }
}

#[test]
fn estimates_keep_to_the_time_budgets() {
    let seconds = |suite: &str, rails| Suite::built_in(suite).unwrap().estimated_seconds(rails);
    assert!(seconds("quick", 0) <= 17.0, "TCP alone: {}", seconds("quick", 0));
    assert!(seconds("quick", 1) <= 60.0, "{}", seconds("quick", 1));
    assert!(seconds("quick", 2) <= 105.0, "{}", seconds("quick", 2));
    assert!(seconds("standard", 1) <= 240.0, "{}", seconds("standard", 1));
    assert!(seconds("standard", 8) <= 720.0, "{}", seconds("standard", 8));
    assert!(seconds("quick", 8) <= 180.0, "{}", seconds("quick", 8));
    assert!(seconds("operations", 1) <= 180.0, "{}", seconds("operations", 1));
    assert!(seconds("quick", 0) > 5.0 && seconds("quick", 2) > seconds("quick", 1));
}

#[test]
fn an_estimate_is_the_sum_of_its_terms() {
    let suite = one_step(&format!("{GOOD}warmup = \"500ms\"\nrepeats = 3\n")).unwrap();
    assert_eq!(suite.estimated_seconds(2), 2.0 * (1.0 + 3.0 * 1.5));
}

#[test]
fn many_rails_get_shorter_windows_and_are_told() {
    let plan = planned("quick", 8);
    assert!(plan.notes[0].starts_with("windows shortened to"), "{:?}", plan.notes);
    let timed = cases(&plan).into_iter().filter(|case| case.test != Test::Integrity);
    assert!(timed.clone().all(|case| case.knobs.window_ns >= 300_000_000));
    assert!(timed.clone().any(|case| case.knobs.window_ns < 1_000_000_000));
    assert!(timed.clone().all(|case| case.knobs.window_ns % case.knobs.interval_ns == 0));
}

#[test]
fn knobs_have_the_defaults_that_matter() {
    let plan = planned("quick", 1);
    for case in cases(&plan) {
        let knobs = &case.knobs;
        assert!(knobs.signal_every <= knobs.tx_depth / 2, "{}", case.id);
        assert_eq!((knobs.tx_depth, knobs.rx_depth), (128, 512));
        assert_eq!(knobs.interval_ns, 100_000_000);
        if case.test == Test::Bandwidth && case.transport == Transport::Rc {
            assert_eq!((knobs.qps, knobs.threads, knobs.repeats), (2, 1, 3), "{}", case.id);
        }
        assert_eq!(knobs.rounds.is_some(), case.test == Test::Latency, "{}", case.id);
    }
    let streams =
        cases(&plan).into_iter().find(|case| case.op == Op::Stream && case.test == Test::Bandwidth);
    assert_eq!(streams.map(|case| (case.knobs.qps, case.knobs.threads)), Some((2, 2)));
}

#[test]
fn without_rails_tcp_takes_the_route() {
    let plan = planned("quick", 0);
    assert!(
        cases(&plan).iter().all(|case| case.transport == Transport::Tcp && case.rail.is_none())
    );
    assert_eq!(cases(&plan)[0].id, "integrity/tcp/stream/65536/route/a-b");
}

#[test]
fn rails_without_addresses_are_told() {
    let suite = Suite::built_in("quick").unwrap();
    let bare = RailTraits::default();
    let with_tcp = RailTraits { tcp: true, ..bare };
    let scene = |rails: &[RailTraits]| Scene { rails: rails.to_vec(), tcp_streams: 1 };
    let plan = suite.plan(&scene(&[bare]), &Overrides::default()).unwrap();
    assert_eq!(
        plan.notes,
        ["rail0 without IP addresses: TCP is measured over the route to the peer instead"]
    );
    let plan = suite.plan(&scene(&[bare, with_tcp]), &Overrides::default()).unwrap();
    assert!(plan.notes[0].contains("on the other rails"));
    let tcp = cases(&plan).into_iter().filter(|case| case.transport == Transport::Tcp);
    assert!(tcp.clone().count() > 0 && tcp.clone().all(|case| case.rail == Some(1)));
}

#[test]
fn overrides_reach_every_timed_case() {
    let suite = Suite::built_in("quick").unwrap();
    let overrides = Overrides {
        duration: Some(Duration::from_secs(5)),
        repeats: Some(7),
        transports: Some(parse_transports("rdma").unwrap()),
    };
    let plan = suite.plan(&scene(1), &overrides).unwrap();
    for case in cases(&plan) {
        assert_eq!(case.transport, Transport::Rc);
        if case.test != Test::Integrity {
            assert_eq!((case.knobs.window_ns, case.knobs.repeats), (5_000_000_000, 7));
            assert_eq!(case.knobs.rounds, None);
        }
    }
}

#[test]
fn senseless_overrides_are_refused() {
    let suite = Suite::built_in("quick").unwrap();
    let refused = |overrides: Overrides| suite.plan(&scene(1), &overrides).unwrap_err().to_string();
    let zero = Overrides { duration: Some(Duration::ZERO), ..Overrides::default() };
    assert!(refused(zero).starts_with("duration 0"));
    let none = Overrides { repeats: Some(0), ..Overrides::default() };
    assert!(refused(none).starts_with("repeats 0"));
    assert_eq!(parse_transports("ud").unwrap(), [Transport::Ud]);
    assert!(parse_transports("rc,quic").is_err());
    assert_eq!(
        parse_transports("rc,rdma,tcp").unwrap(),
        [Transport::Rc, Transport::Uc, Transport::Ud, Transport::Tcp]
    );
}

#[test]
fn a_size_above_the_ports_limit_is_refused() {
    let suite = Suite::built_in("standard").unwrap();
    let limits = PathLimits { max_message_bytes: Some(65_536), ..PathLimits::default() };
    let rail = RailTraits { limits, ..RailTraits::default() };
    let scene = Scene { rails: vec![rail], tcp_streams: 1 };
    let error = suite.plan(&scene, &Overrides::default()).unwrap_err().to_string();
    assert!(
        error.contains("messages of 1 MiB do not fit: the port takes at most 64 KiB"),
        "{error}"
    );
}

#[test]
fn files_are_checked_strictly() {
    assert!(one_step(GOOD).is_ok());
    let refused = |text: &str| one_step(text).unwrap_err().to_string();
    assert!(refused(&format!("{GOOD}speed = 3\n")).contains("unknown field `speed`"));
    let changed = |from: &str, to: &str| {
        assert!(GOOD.contains(from));
        refused(&GOOD.replace(from, to))
    };
    assert!(
        changed("[\"write\"]", "[\"stream\"]")
            .contains("step 1: there is no bandwidth of TCP streams over rc")
    );
    assert!(changed("[\"write\"]", "[]").contains("ops is empty"));
    assert!(changed("\"64KiB\"", "\"64KB\"").contains("is no size"));
    assert!(changed("lanes = [2]", "lanes = [0]").contains("lanes are 1 to 4096"));
    assert!(changed("lanes = [2]", "lanes = \"all\"").contains("lanes is a list"));
    assert!(changed("window = \"1s\"", "window = \"0s\"").contains("window must be"));
    assert!(changed("window = \"1s\"", "window = \"soon\"").contains("is no time"));
    assert!(refused(&format!("{GOOD}volume = \"1MiB\"\n")).contains("volume means nothing"));
    assert!(refused(&format!("{GOOD}signal_every = 100\n")).contains("half of tx_depth"));
    let integrity =
        GOOD.replace("bandwidth", "integrity").replace("window = \"1s\"", "volume = \"0\"");
    assert!(refused(&integrity).contains("volume is missing"));
    assert!(Suite::parse("empty", "").is_err());
}

#[test]
fn two_steps_with_one_id_are_refused() {
    let suite = one_step(&format!("{GOOD}[[step]]\n{GOOD}")).unwrap();
    let error = suite.plan(&scene(1), &Overrides::default()).unwrap_err().to_string();
    assert!(error.contains("two steps measure bandwidth/rc/write/65536/rail0/a-b"), "{error}");
}

#[test]
fn identity_is_the_name_and_the_hash_of_the_text() {
    let suite = one_step(GOOD).unwrap();
    assert_eq!(suite.identity().name, "x.toml");
    assert_eq!(suite.hash.len(), 12);
    assert_ne!(suite.hash, one_step(&format!("{GOOD}# more\n")).unwrap().hash);
    // SHA-256 of the empty text, as published.
    assert_eq!(content_hash(""), "e3b0c44298fc");
    assert_eq!(Suite::built_in_names().collect::<Vec<_>>(), ["quick", "standard", "operations"]);
    assert!(matches!(Suite::built_in("soak"), Err(SuiteError::Unknown(_))));
}

#[test]
fn streams_scale_with_the_cores() {
    let (small, large) = (fixtures::read("rxe-a"), fixtures::read("ndr-a"));
    assert_eq!(tcp_streams(&small, &large, false), 1);
    assert_eq!(tcp_streams(&large, &large, false), 8);
    assert_eq!(tcp_streams(&large, &large, true), 4);
}
