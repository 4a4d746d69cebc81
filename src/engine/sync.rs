//! How the two ends of a case agree on a start.

use crate::engine::{End, Note, Peer, Stage};
use crate::measure::clock::Time;
use crate::session::protocol::Role;
use crate::transport::Result;

/// Pings from which the one with the shortest round trip is taken.
const PINGS: usize = 16;

/// From the agreement to the start: the note must arrive and both threads must be up.
const LEAD_NS: u64 = 10_000_000;

/// What the two ends have agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Start {
    /// Begin, on this host's clock, ns.
    pub at_ns: u64,
    /// The peer's clock minus this one, ns; 0 on the responder, which does not estimate it.
    pub clock_offset_ns: i64,
    /// How wrong the offset may be: half of the shortest round trip, ns.
    pub uncertainty_ns: u64,
}

/// Agrees with the peer on the start of `repeat`. Both ends call it with everything ready.
///
/// # Errors
/// The peer is lost, silent for [`End::patience`] or speaks out of turn; or the case is stopped.
pub fn agree(end: &End, peer: &mut impl Peer, time: &impl Time, repeat: u32) -> Result<Start> {
    end.stage.set(Stage::Barrier);
    match end.role {
        Role::Initiator => propose(end, peer, time, repeat),
        Role::Responder => accept(end, peer, time, repeat),
    }
}

fn propose(end: &End, peer: &mut impl Peer, time: &impl Time, repeat: u32) -> Result<Start> {
    peer.tell(&Note::Ready { repeat })?;
    expect(end, peer, &Note::Ready { repeat })?;
    let (clock_offset_ns, uncertainty_ns) = estimate_offset(end, peer, time)?;
    let at_ns = time.now() + LEAD_NS + 4 * uncertainty_ns;
    let at_peer_ns = at_ns.saturating_add_signed(clock_offset_ns);
    peer.tell(&Note::StartAt { at_ns: at_peer_ns, uncertainty_ns })?;
    Ok(Start { at_ns, clock_offset_ns, uncertainty_ns })
}

fn accept(end: &End, peer: &mut impl Peer, time: &impl Time, repeat: u32) -> Result<Start> {
    expect(end, peer, &Note::Ready { repeat })?;
    peer.tell(&Note::Ready { repeat })?;
    loop {
        match end.hear(peer, "the start")? {
            Note::Ping => peer.tell(&Note::Pong { at_ns: time.now() })?,
            Note::StartAt { at_ns, uncertainty_ns } => {
                return Ok(Start { at_ns, clock_offset_ns: 0, uncertainty_ns });
            }
            note => return Err(end.unexpected(&note, "the start")),
        }
    }
}

/// Offset and uncertainty from the ping with the shortest round trip: the answer was given
/// somewhere within it, most likely in its middle.
fn estimate_offset(end: &End, peer: &mut impl Peer, time: &impl Time) -> Result<(i64, u64)> {
    let mut best = (0, u64::MAX);
    for _ in 0..PINGS {
        let sent = time.now();
        peer.tell(&Note::Ping)?;
        let note = end.hear(peer, "an answer to a ping")?;
        let Note::Pong { at_ns } = note else {
            return Err(end.unexpected(&note, "an answer to a ping"));
        };
        let half = (time.now() - sent).div_ceil(2);
        if half < best.1 {
            best = (at_ns.wrapping_sub(sent + half) as i64, half);
        }
    }
    Ok(best)
}

/// Waits for exactly `wanted`.
pub(crate) fn expect(end: &End, peer: &mut impl Peer, wanted: &Note) -> Result<()> {
    let awaited = format!("{wanted:?}");
    let note = end.hear(peer, &awaited)?;
    if note == *wanted { Ok(()) } else { Err(end.unexpected(&note, &awaited)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{StageCell, local};
    use crate::measure::clock::Clock;
    use crate::transport::FailureKind;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    const AHEAD_NS: u64 = 3_600_000_000_000;

    /// A clock that is an hour ahead.
    struct Ahead;

    impl Time for Ahead {
        fn now(&self) -> u64 {
            Clock.now() + AHEAD_NS
        }
    }

    fn end<'a>(role: Role, abort: &'a AtomicBool, stage: &'a StageCell) -> End<'a> {
        let patience = Duration::from_secs(5);
        End { role, object: "test", abort, stage, patience, stall: patience }
    }

    #[test]
    fn ends_with_different_clocks_start_together() {
        let (mut a, mut b) = local::link();
        let (abort, stage) = (AtomicBool::new(false), StageCell::new());
        let (mine, theirs) = std::thread::scope(|scope| {
            let responder = scope
                .spawn(|| agree(&end(Role::Responder, &abort, &stage), &mut b, &Ahead, 2).unwrap());
            let initiator = end(Role::Initiator, &abort, &stage);
            (agree(&initiator, &mut a, &Clock, 2).unwrap(), responder.join().unwrap())
        });
        let apart = (mine.at_ns + AHEAD_NS).abs_diff(theirs.at_ns);
        assert!(apart <= mine.uncertainty_ns, "{apart} ns, {mine:?}, {theirs:?}");
        assert!(mine.at_ns > Clock.now() - 60_000_000_000);
    }

    #[test]
    fn a_silent_peer_a_wrong_repeat_and_a_stop_are_named() {
        let (mut a, mut b) = local::link();
        let (abort, stage) = (AtomicBool::new(false), StageCell::new());
        let mut initiator = end(Role::Initiator, &abort, &stage);
        initiator.patience = Duration::from_millis(1);
        let silent = agree(&initiator, &mut a, &Clock, 0).unwrap_err();
        assert_eq!(silent.kind, FailureKind::Stalled);
        assert_eq!(silent.operation, "barrier");
        let responder = end(Role::Responder, &abort, &stage);
        let wrong = agree(&responder, &mut b, &Clock, 1).unwrap_err();
        assert_eq!(wrong.kind, FailureKind::Internal);
        abort.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(agree(&responder, &mut b, &Clock, 1).unwrap_err().kind, FailureKind::Stopped);
    }
}
