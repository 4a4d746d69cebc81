//! Both ends of a case in two threads, for the engines' tests.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::engine::local::{self, LocalPeer};
use crate::engine::{End, StageCell};
use crate::session::protocol::Role;

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
