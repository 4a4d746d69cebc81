//! The agent's side of a session, over a socket pair and with cases that move nothing.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fabbench_harness::plan::{Knobs, Op, Test, Transport};

use super::{CaseContext, CaseRunner, Ended, serve};
use crate::session::frame::{CONTROL_LIMIT, FrameReader, FrameWriter, PREAMBLE};
use crate::session::hello;
use crate::session::protocol::{
    Hello, Prepare, RankPart, Role, SideResult, ToAgent, ToCoordinator,
};
use crate::transport::FailureKind;

/// Waits for its start and is done; what else it does, its name says.
#[derive(Default)]
struct Named {
    running: AtomicUsize,
    most: AtomicUsize,
}

impl CaseRunner for Named {
    fn run(&self, prepare: Prepare, context: &CaseContext) {
        let case = prepare.case;
        let running = 1 + self.running.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(running, Ordering::SeqCst);
        context.emit(&ToCoordinator::Ready { case });
        let started = context.wait_for_go(Duration::from_secs(10));
        self.running.fetch_sub(1, Ordering::SeqCst);
        match (prepare.name.as_str(), started) {
            ("panics", _) => panic!("on purpose"),
            ("mute", _) => {}
            ("deaf", _) => std::thread::sleep(Duration::from_secs(3600)),
            (_, Ok(())) => {
                context.emit(&ToCoordinator::Done { case, side: Box::default() });
            }
            (_, Err(failure)) => context.emit(&ToCoordinator::Failed {
                case,
                stage: "barrier".into(),
                failure,
                side: Box::<SideResult>::default(),
            }),
        }
    }

    fn run_rank(&self, part: RankPart, context: &CaseContext) {
        let case = part.case;
        let ranks = context.wait_for_ranks(Duration::from_secs(10)).unwrap();
        let addresses = ranks.concat();
        context.emit(&ToCoordinator::Listening { case, addresses });
        context.emit(&ToCoordinator::Done { case, side: Box::default() });
    }
}

/// A coordinator at the other end of a socket pair.
struct Coordinator {
    reader: FrameReader,
    writer: FrameWriter,
    agent: JoinHandle<Ended>,
    runner: Arc<Named>,
}

impl Coordinator {
    fn new(greeting: Hello) -> Self {
        let (near, far) = UnixStream::pair().unwrap();
        let reader = FrameReader::new(near.try_clone().unwrap(), CONTROL_LIMIT).unwrap();
        let writer = FrameWriter::new(near, CONTROL_LIMIT).unwrap();
        let runner = Arc::new(Named::default());
        let cases = runner.clone();
        let agent = std::thread::spawn(move || {
            let input = FrameReader::new(far.try_clone().unwrap(), CONTROL_LIMIT).unwrap();
            let output = FrameWriter::new(far, CONTROL_LIMIT).unwrap();
            serve(input, output, "session", cases)
        });
        let mut coordinator = Coordinator { reader, writer, agent, runner };
        coordinator.reader.skip_to(PREAMBLE, later()).unwrap();
        assert!(matches!(coordinator.hear(), ToCoordinator::Hello(_)));
        coordinator.say(&ToAgent::Hello(greeting));
        coordinator
    }

    fn say(&mut self, message: &ToAgent) {
        self.writer.send(message, later()).unwrap();
    }

    /// The next message that is no heartbeat.
    fn hear(&mut self) -> ToCoordinator {
        loop {
            match self.reader.next(later()).unwrap() {
                ToCoordinator::Heartbeat => {}
                message => return message,
            }
        }
    }

    fn prepare(&mut self, case: u32, name: &str) {
        self.say(&ToAgent::Prepare(Box::new(prepare(case, name))));
    }

    fn ready(&mut self, cases: usize) {
        for _ in 0..cases {
            assert!(matches!(self.hear(), ToCoordinator::Ready { .. }));
        }
    }
}

fn greeting() -> Hello {
    hello("session", Duration::from_secs(10))
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn prepare(case: u32, name: &str) -> Prepare {
    Prepare {
        case,
        name: name.to_owned(),
        role: Role::Initiator,
        test: Test::Latency,
        transport: Transport::Null,
        op: Op::Send,
        size_bytes: 8,
        sends: true,
        receives: true,
        knobs: Knobs {
            qps: 1,
            threads: 1,
            tx_depth: 1,
            rx_depth: 1,
            inline: None,
            signal_every: 1,
            warmup_ns: 0,
            window_ns: 1,
            interval_ns: 1,
            repeats: 1,
            rounds: None,
            volume_bytes: 0,
            tuning: Default::default(),
        },
        port: None,
        addresses: Vec::new(),
        bind: Vec::new(),
        token: String::new(),
    }
}

#[test]
fn cases_run_at_the_same_time_and_start_when_told() {
    let mut coordinator = Coordinator::new(greeting());
    for case in 0..8 {
        coordinator.prepare(case, "plain");
    }
    coordinator.ready(8);
    assert_eq!(coordinator.runner.most.load(Ordering::SeqCst), 8);
    coordinator.say(&ToAgent::Go(vec![1, 3, 5, 7]));
    coordinator.say(&ToAgent::Stop(0));
    let mut ends = BTreeMap::new();
    for _ in 0..5 {
        match coordinator.hear() {
            ToCoordinator::Done { case, .. } => ends.insert(case, None),
            ToCoordinator::Failed { case, failure, .. } => ends.insert(case, Some(failure.kind)),
            other => panic!("{other:?}"),
        };
    }
    let stopped = Some(FailureKind::Stopped);
    assert_eq!(ends, BTreeMap::from([(0, stopped), (1, None), (3, None), (5, None), (7, None)]));
    coordinator.say(&ToAgent::Bye);
    assert_eq!(coordinator.agent.join().unwrap(), Ended::Bye);
    assert_eq!(coordinator.runner.running.load(Ordering::SeqCst), 0, "the rest was ended");
}

#[test]
fn a_case_that_panics_says_nothing_or_comes_twice_is_concluded_all_the_same() {
    let mut coordinator = Coordinator::new(greeting());
    coordinator.prepare(1, "panics");
    coordinator.prepare(2, "mute");
    coordinator.ready(2);
    coordinator.prepare(1, "plain");
    let reason = |message| match message {
        ToCoordinator::Failed { case, failure, .. } => (case, failure.cause),
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(coordinator.hear()), (1, "a case of this number is under way".into()));
    coordinator.say(&ToAgent::Go(vec![2]));
    assert_eq!(reason(coordinator.hear()), (2, "the case ended without a result".into()));
    coordinator.say(&ToAgent::Go(vec![1]));
    assert!(reason(coordinator.hear()).1.contains("panicked"));
}

#[test]
fn a_closed_connection_ends_cases_at_once_even_deaf_ones() {
    let mut coordinator = Coordinator::new(greeting());
    coordinator.prepare(1, "plain");
    coordinator.prepare(2, "deaf");
    coordinator.ready(2);
    let begin = Instant::now();
    let Coordinator { reader, writer, agent, runner } = coordinator;
    drop((reader, writer));
    assert_eq!(agent.join().unwrap(), Ended::Closed);
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert_eq!(runner.running.load(Ordering::SeqCst), 0);
}

#[test]
fn a_silent_coordinator_is_given_up() {
    let quick = hello("session", Duration::from_millis(60));
    let coordinator = Coordinator::new(quick);
    let ended = coordinator.agent.join().unwrap();
    assert_eq!(ended, Ended::Silent(Duration::from_millis(60)));
}

#[test]
fn another_protocol_and_another_session_are_refused() {
    let refusal = |greeting| match Coordinator::new(greeting).agent.join().unwrap() {
        Ended::Refused(why) => why,
        other => panic!("{other}"),
    };
    let text = refusal(Hello { protocol: 77, version: "9.1".into(), ..greeting() });
    assert!(text.contains("fabbench 9.1) speaks protocol 77"), "{text}");
    let text = refusal(Hello { session: "other".into(), ..greeting() });
    assert!(text.contains("another session"), "{text}");
}

#[test]
fn nonsense_ends_the_session() {
    let mut coordinator = Coordinator::new(greeting());
    coordinator.writer.write_all(b"\0\0\0\x03{]}", later()).unwrap();
    let ended = coordinator.agent.join().unwrap().to_string();
    assert!(ended.contains("a message cannot be understood"), "{ended}");
}
