//! The measuring loops allocate nothing.

mod counting;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fabbench::engine::ping_pong::Rally;
use fabbench::engine::stream::{Flow, Pump, run_alone};
use fabbench::engine::{End, StageCell};
use fabbench::measure::clock::Clock;
use fabbench::measure::histogram::Recorder;
use fabbench::session::protocol::Role;
use fabbench::transport::null::NullStream;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

static ABORT: AtomicBool = AtomicBool::new(false);
static STAGE: StageCell = StageCell::new();

fn end() -> End<'static> {
    let patience = Duration::from_secs(10);
    let role = Role::Initiator;
    End { role, object: "null", abort: &ABORT, stage: &STAGE, patience, stall: patience }
}

fn flow(window_ns: u64) -> Flow {
    Flow {
        starts: true,
        collects: true,
        fetches: false,
        warmup_ns: 1_000_000,
        window_ns,
        interval_ns: window_ns / 4,
        depth: 64,
        in_flight: Some(100),
        post_list: fabbench::engine::stream::POST_LIST,
        iterations: None,
        pace_ps: None,
        grace_ns: None,
    }
}

/// Allocations of this thread during `work`.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = counting::allocations();
    work();
    counting::allocations() - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(Box::new(7))), 1);
}

#[test]
fn the_latency_loop_allocates_nothing() {
    let (end, mut null, mut recorder) = (end(), NullStream::new(1, true), Recorder::new(2));
    let mut rally = Rally::new(&end, &mut null).unwrap();
    let count = allocations(|| {
        rally.play(&Clock, u64::MAX, 100_000, &mut |ns| recorder.record(ns)).unwrap();
        recorder.record(u64::MAX);
        recorder.record(0);
    });
    assert_eq!(rally.answered(), 100_000);
    assert_eq!(recorder.count(), 100_002);
    assert_eq!(count, 0);
}

#[test]
fn the_bandwidth_loop_allocates_nothing() {
    let mut null = NullStream::new(3, true);
    let mut pump = Pump::new(&mut null, &flow(1)).unwrap();
    let count = allocations(|| {
        while pump.started() < 100_000 {
            pump.turn().unwrap();
        }
    });
    assert_eq!(pump.started(), pump.finished());
    assert_eq!(count, 0);
}

#[test]
fn a_longer_window_allocates_no_more() {
    let run = |window_ns| {
        let mut null = NullStream::new(2, true);
        let mut sent = 0;
        let count = allocations(|| {
            let ran = run_alone(&end(), &mut null, &Clock, &flow(window_ns)).unwrap();
            sent = ran.repeat.messages_sent;
        });
        (count, sent)
    };
    let ((few, short), (many, long)) = (run(4_000_000), run(80_000_000));
    assert!(long > short);
    assert_eq!(few, many);
}
