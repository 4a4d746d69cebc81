//! Several cases at once between the same two agents.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fabbench::commands::run::collect::{self, CaseOutcome};
use fabbench::commands::run::group::{self, Preparer};
use fabbench::session::protocol::{CaseId, Prepare, Role};
use fabbench::session::token::Token;
use fabbench::session::{Binary, Interrupt, Launch, SILENCE, Session, parse_hosts};
use fabbench_harness::plan::{Case, Direction, Group, Knobs, Op, Test, Transport, in_intervals};
use fabbench_reports::model::Path;

use crate::support::{FABBENCH, alone};

/// Cases over the loopback interface.
struct Loopback;

impl Preparer for Loopback {
    fn prepare(&mut self, id: CaseId, case: &Case, _: usize, role: Role) -> Prepare {
        let initiator = role == Role::Initiator;
        let both = case.direction == Direction::Both;
        let listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
        Prepare {
            case: id,
            name: case.id.clone(),
            role,
            test: case.test,
            transport: case.transport,
            op: case.op,
            size_bytes: case.size_bytes,
            sends: both || initiator,
            receives: both || !initiator,
            knobs: case.knobs.clone(),
            port: None,
            addresses: if initiator { Vec::new() } else { listen },
            bind: Vec::new(),
            token: Token::random().unwrap(),
        }
    }
}

fn case(id: &str, test: Test, op: Op, direction: Direction) -> Case {
    let (window_ns, interval_ns) = in_intervals(300_000_000);
    let knobs = Knobs {
        qps: 1,
        threads: 1,
        tx_depth: 64,
        rx_depth: 64,
        inline: None,
        signal_every: 16,
        warmup_ns: 50_000_000,
        window_ns,
        interval_ns,
        repeats: 2,
        rounds: None,
        volume_bytes: 0,
        tuning: Default::default(),
    };
    let size_bytes = if test == Test::Latency { 8 } else { 16_384 };
    let (id, transport, rail) = (id.to_owned(), Transport::Tcp, None);
    Case {
        id,
        test,
        transport,
        op,
        size_bytes,
        direction,
        rail,
        loopback: None,
        retest_of: None,
        knobs,
    }
}

#[test]
fn cases_at_once_keep_their_results_apart() {
    let _alone = alone();
    let launch = Launch {
        guests: Default::default(),
        ssh: vec!["ssh".to_owned()],
        binary: Binary::Find,
        token: None,
        own: PathBuf::from(FABBENCH),
        notice: Arc::new(|_: &str| ()),
        verbose: false,
        patience: Duration::from_secs(20),
        push_patience: Duration::from_secs(20),
        silence: SILENCE,
    };
    let hosts = parse_hosts(&["local", "local"]).unwrap();
    let session = Session::start(&hosts, &launch, &Interrupt::default()).unwrap();
    let cases = vec![
        case("there", Test::Bandwidth, Op::Stream, Direction::AToB),
        case("back", Test::Bandwidth, Op::Stream, Direction::BToA),
        case("trip", Test::Latency, Op::RequestResponse, Direction::AToB),
    ];
    let group = Group { title: "at once".into(), cases };
    let ends = group::run(&session, &group, 1, &mut Loopback, &mut |_, _| ());
    assert_eq!(session.close(), Vec::<String>::new());
    let outcomes: Vec<CaseOutcome> = group
        .cases
        .iter()
        .zip(&ends)
        .map(|(case, end)| {
            assert!(end.trouble.is_none(), "{:?}", end.trouble);
            CaseOutcome {
                case,
                ends: ["a".into(), "b".into()],
                hosts: ["a".into(), "b".into()],
                initiator: end.initiator,
                sides: end.sides.clone(),
                path: Path::default(),
                cache_bytes: None,
                clock: (1, 30.0),
            }
        })
        .collect();
    let all = collect::measurements(&outcomes);
    let names: Vec<_> =
        all.iter().map(|m| (&*m.id, &*m.data_from, m.together_with.len())).collect();
    assert_eq!(names, [("there", "a", 2), ("back", "b", 2), ("trip", "a", 2)]);
    for m in &all {
        assert_eq!((m.repeats.len(), m.messages_lost), (2, 0), "{}", m.id);
        assert!(m.repeats.iter().all(|r| r.messages_sent == r.messages_received), "{}", m.id);
    }
    for m in &all[..2] {
        // They moved at the same time: the common window is most of each one's own.
        assert!(m.repeats.iter().all(|r| r.window_ns * 2 > m.method.window_ns), "{:?}", m.repeats);
        assert!(m.goodput_bps.unwrap().median > 0.0, "{}", m.id);
    }
    assert!(all[2].latency_ns.unwrap().count > 0);
}
