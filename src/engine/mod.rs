//! What is measured: loops that are generic over the transport and print nothing.
//!
//! An engine runs one repeat of one end of a case: it agrees on a start with the engine at the
//! other end ([`Peer`]), moves messages through a transport, and returns plain data.

pub mod collective;
pub mod local;
pub mod ping_pong;
pub mod round_trip;
pub mod stream;
pub mod sync;
#[cfg(test)]
pub(crate) mod testing;
pub mod verify;
mod wait;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::session::protocol::{Role, SideRepeat};
use crate::transport::verbs::rc::EndAddress;
use crate::transport::{Failure, FailureKind, Result};

/// The link between the two ends of a case, used outside the measured windows only.
pub trait Peer {
    /// Hands `note` to the other end. Notes arrive once and in order.
    ///
    /// # Errors
    /// [`FailureKind::PeerLost`] when the link is broken.
    fn tell(&mut self, note: &Note) -> Result<()>;

    /// The next note of the other end, waiting at most `wait` (zero: only looks); none when there
    /// is none in that time.
    ///
    /// # Errors
    /// [`FailureKind::PeerLost`] when the link is broken or closed and nothing is left to hear.
    fn hear(&mut self, wait: Duration) -> Result<Option<Note>>;
}

/// What the two ends of a case tell each other. Clock values are of the speaker's clock unless
/// said otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// Where the speaker's queue pairs are, one entry an endpoint.
    Addresses(Vec<EndAddress>),
    /// The speaker has connected its queue pairs to the listener's.
    Connected,
    /// Ready to run this repeat; everything from earlier ones is collected.
    Ready {
        /// From 0.
        repeat: u32,
    },
    /// Asks for [`Note::Pong`].
    Ping,
    /// The speaker's clock when it answered, ns.
    Pong {
        /// Clock.
        at_ns: u64,
    },
    /// Begin at this time.
    StartAt {
        /// On the listener's clock, ns.
        at_ns: u64,
        /// How wrong that may be, ns.
        uncertainty_ns: u64,
    },
    /// The speaker's count of this repeat, after its last message was finished.
    Totals {
        /// Messages started.
        sent: u64,
        /// Messages that arrived.
        received: u64,
    },
    /// The speaker has collected all that will come and touches the transport no more in this
    /// repeat: it may be closed.
    Collected {
        /// Messages that arrived in this repeat.
        received: u64,
    },
    /// Integrity: the next batch may be moved (receives are posted, or the source is filled).
    BatchReady {
        /// From 0.
        batch: u64,
    },
    /// Integrity: the batch has left, all its operations are complete.
    BatchSent {
        /// From 0.
        batch: u64,
    },
    /// Integrity: the batch has been compared.
    BatchVerified {
        /// From 0.
        batch: u64,
        /// False when no further batch can be moved: receives are left over.
        go_on: bool,
    },
    /// The speaker's end has failed and does no more.
    Failed(Failure),
}

/// Where in its life a case is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// Agreeing on a start.
    Barrier,
    /// Running, not recorded.
    WarmUp,
    /// Running, recorded.
    Measure,
    /// Finishing what is under way, comparing totals.
    Collect,
    /// Comparing bytes.
    Verify,
}

impl Stage {
    /// The word used in messages.
    pub fn word(self) -> &'static str {
        match self {
            Stage::Barrier => "barrier",
            Stage::WarmUp => "warm-up",
            Stage::Measure => "measure",
            Stage::Collect => "collect",
            Stage::Verify => "verify",
        }
    }
}

/// Where a case is and how far, for other threads to look at.
#[derive(Debug)]
pub struct StageCell {
    stage: AtomicU8,
    moved: AtomicU64,
}

impl StageCell {
    /// Starts at [`Stage::Barrier`] with nothing moved.
    pub const fn new() -> Self {
        StageCell { stage: AtomicU8::new(Stage::Barrier as u8), moved: AtomicU64::new(0) }
    }

    /// Moves to `stage`.
    pub fn set(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// Where the case is.
    pub fn get(&self) -> Stage {
        const STAGES: [Stage; 5] =
            [Stage::Barrier, Stage::WarmUp, Stage::Measure, Stage::Collect, Stage::Verify];
        let stage = self.stage.load(Ordering::Relaxed);
        STAGES[usize::from(stage).min(STAGES.len() - 1)]
    }

    /// So many more messages, or round trips, are over.
    pub fn add(&self, messages: u64) {
        self.moved.fetch_add(messages, Ordering::Relaxed);
    }

    /// One more is over, where no other thread counts: cheaper than [`StageCell::add`].
    #[inline]
    pub fn bump(&self) {
        self.moved.store(self.moved.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Messages, or round trips, that are over in all repeats so far.
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }
}

impl Default for StageCell {
    fn default() -> Self {
        Self::new()
    }
}

/// What every engine needs to know of the end of a case that it runs.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// Which end.
    pub role: Role,
    /// Name for messages: the path, e.g. `rxe0:1 -> 10.0.0.2`.
    pub object: &'a str,
    /// Set by another thread to end the case at once.
    pub abort: &'a AtomicBool,
    /// Where the case is; kept up to date by the engine.
    pub stage: &'a StageCell,
    /// How long to wait for the peer's next note outside the windows.
    pub patience: Duration,
    /// How long nothing may move while something should; see [`stall_limit`].
    pub stall: Duration,
}

/// How long nothing may move before a case counts as stalled: 50 times what a step is predicted
/// to take, at least 10 s.
pub fn stall_limit(predicted: Duration) -> Duration {
    Duration::from_secs(10).max(predicted.saturating_mul(50))
}

/// What one end of one repeat has measured, and what that cost.
#[derive(Debug, Clone, Default)]
pub struct Ran {
    /// The measurement.
    pub repeat: SideRepeat,
    /// CPU time of the measuring threads: user, system, ns.
    pub cpu_ns: (u64, u64),
}

impl End<'_> {
    /// Fails once another thread has asked to stop.
    #[inline]
    pub fn check_abort(&self) -> Result<()> {
        if self.abort.load(Ordering::Relaxed) { Err(self.stopped()) } else { Ok(()) }
    }

    /// The failure of a case that was told to stop.
    #[cold]
    pub fn stopped(&self) -> Failure {
        let cause = "stopped on request before it was over";
        Failure::new(FailureKind::Stopped, self.stage.get().word(), self.object, cause)
    }

    /// The failure of a case in which nothing moved for `idle`; `progress` says how far it came.
    #[cold]
    pub fn stalled(&self, idle: Duration, progress: &str) -> Failure {
        let cause = format!(
            "nothing moved for {:.1} s ({progress}): the peer or the path is gone or hangs; \
             look at the link and at the other host",
            idle.as_secs_f64()
        );
        Failure::new(FailureKind::Stalled, self.stage.get().word(), self.object, cause)
    }

    /// Waits up to [`End::patience`] for a note, in slices so that a request to stop is seen.
    ///
    /// # Errors
    /// Stopped, stalled, the link's own failure, or the peer's when it tells of one.
    pub fn hear(&self, peer: &mut impl Peer, awaited: &str) -> Result<Note> {
        const SLICE: Duration = Duration::from_millis(50);
        let deadline = std::time::Instant::now() + self.patience;
        loop {
            self.check_abort()?;
            match peer.hear(SLICE)? {
                Some(Note::Failed(failure)) => return Err(self.peer_failed(&failure)),
                Some(note) => return Ok(note),
                None if std::time::Instant::now() >= deadline => {
                    return Err(self.stalled(self.patience, &format!("waiting for {awaited}")));
                }
                None => {}
            }
        }
    }

    /// The failure of an end whose peer has told of one.
    pub fn peer_failed(&self, failure: &Failure) -> Failure {
        let cause = format!("the other end gave up: {failure}");
        Failure::new(FailureKind::PeerLost, self.stage.get().word(), self.object, cause)
    }

    /// The failure of an end that was told something it did not expect.
    #[cold]
    pub fn unexpected(&self, note: &Note, awaited: &str) -> Failure {
        let cause = format!("the peer said {note:?} when {awaited} was due");
        Failure::new(FailureKind::Internal, self.stage.get().word(), self.object, cause)
    }

    /// Tells the peer of a failure of this end, so that it need not wait; passes `result` on.
    pub fn share<T>(&self, peer: &mut impl Peer, result: Result<T>) -> Result<T> {
        if let Err(failure) = &result {
            // The link may be what failed: then the peer sees that by itself.
            let _ = peer.tell(&Note::Failed(failure.clone()));
        }
        result
    }
}
