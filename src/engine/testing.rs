//! Both ends of a case in two threads, for the engines' tests.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fabbench_harness::plan::{Knobs, Op, Test, Transport};

use crate::engine::local::{self, LocalPeer};
use crate::engine::{End, StageCell};
use crate::session::protocol::{Prepare, Role};

/// An end of a case of `op` in which payload leaves, arrives, or both.
pub fn prepare(op: Op, sends: bool, receives: bool) -> Prepare {
    Prepare {
        case: 1,
        name: "test".into(),
        role: Role::Initiator,
        test: Test::Bandwidth,
        transport: Transport::Null,
        op,
        size_bytes: 64,
        sends,
        receives,
        knobs: Knobs {
            qps: 1,
            threads: 1,
            tx_depth: 8,
            rx_depth: 16,
            inline: None,
            signal_every: 1,
            warmup_ns: 1,
            window_ns: 2,
            interval_ns: 3,
            repeats: 1,
            rounds: Some(4),
            volume_bytes: 5,
        },
        port: None,
        addresses: Vec::new(),
        bind: Vec::new(),
        token: "00".repeat(32),
    }
}

/// Runs `a` as initiator and `b` as responder, to their ends.
pub fn both<A: Send, B: Send>(
    stall: Duration,
    a: impl FnOnce(&End, LocalPeer) -> A + Send,
    b: impl FnOnce(&End, LocalPeer) -> B + Send,
) -> (A, B) {
    let abort = AtomicBool::new(false);
    let stages = (StageCell::new(), StageCell::new());
    let end = |role, stage| End {
        role,
        object: "local pair",
        abort: &abort,
        stage,
        patience: Duration::from_secs(10),
        stall,
    };
    let (initiator, responder) = (end(Role::Initiator, &stages.0), end(Role::Responder, &stages.1));
    let (to_b, to_a) = local::link();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| b(&responder, to_a));
        (a(&initiator, to_b), second.join().unwrap())
    })
}
