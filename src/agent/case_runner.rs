//! What the agent asks of whoever runs cases, and what it gives them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::StageCell;
use crate::session::outlet::Outlet;
use crate::session::protocol::{CaseId, Prepare, RankPart, ToCoordinator};
use crate::transport::{Failure, FailureKind};

/// How long a waiting case may overlook that it was told to stop.
const SLICE: Duration = Duration::from_millis(20);

/// Runs one end of a case. Several are run at once, each in a thread of its own.
pub trait CaseRunner: Send + Sync + 'static {
    /// Builds the end that `prepare` describes, says `Listening` or `Ready`, runs it and concludes
    /// with `Done` or `Failed` ([`CaseContext::emit`]). Returns soon after
    /// [`CaseContext::abort`] is set. A panic, or no conclusion, becomes a `Failed`.
    fn run(&self, prepare: Prepare, context: &CaseContext);

    /// Likewise one rank of a collective.
    fn run_rank(&self, part: RankPart, context: &CaseContext);
}

/// A case's way to the coordinator and back.
#[derive(Debug)]
pub struct CaseContext {
    case: CaseId,
    outlet: Arc<Outlet>,
    gate: Arc<Gate>,
    concluded: AtomicBool,
}

impl CaseContext {
    pub(crate) fn new(case: CaseId, outlet: Arc<Outlet>, gate: Arc<Gate>) -> Self {
        CaseContext { case, outlet, gate, concluded: AtomicBool::new(false) }
    }

    /// Number of the case.
    pub fn case(&self) -> CaseId {
        self.case
    }

    /// Set when the case must end at once: on `Stop`, at the end of the session, when the
    /// coordinator is gone. Others who find a reason (a lost peer) may set it too.
    pub fn abort(&self) -> &Arc<AtomicBool> {
        &self.gate.abort
    }

    /// Sends a message to the coordinator. When that is gone, sets [`CaseContext::abort`].
    pub fn emit(&self, message: &ToCoordinator) {
        if matches!(message, ToCoordinator::Done { .. } | ToCoordinator::Failed { .. }) {
            self.concluded.store(true, Ordering::Relaxed);
        }
        if self.outlet.send(message).is_err() {
            self.gate.abort.store(true, Ordering::Relaxed);
        }
    }

    /// Waits for the coordinator's next `Go`; each one starts one repeat.
    ///
    /// # Errors
    /// Stopped, when [`CaseContext::abort`] was set; stalled, after `patience`.
    pub fn wait_for_go(&self, patience: Duration) -> Result<(), Failure> {
        self.gate.wait(patience).map_err(|kind| {
            let cause = match kind {
                FailureKind::Stopped => "stopped on request before it began".to_owned(),
                _ => format!("the coordinator gave no start for {} s", patience.as_secs()),
            };
            Failure::new(kind, "barrier", format!("case {}", self.case), cause)
        })
    }

    /// Where the case is, for whoever asks meanwhile.
    pub fn stage(&self) -> &StageCell {
        &self.gate.stage
    }

    /// Waits until the coordinator tells where all ranks of a collective listen.
    ///
    /// # Errors
    /// Stopped, when [`CaseContext::abort`] was set; stalled, after `patience`.
    pub fn wait_for_ranks(&self, patience: Duration) -> Result<Vec<Vec<SocketAddr>>, Failure> {
        let deadline = Instant::now() + patience;
        let failure = |kind, cause: &str| {
            Err(Failure::new(kind, "connect", format!("case {}", self.case), cause))
        };
        loop {
            let told = self.gate.ranks.lock().unwrap_or_else(PoisonError::into_inner).take();
            match told {
                Some(ranks) => return Ok(ranks),
                None if self.gate.abort.load(Ordering::Relaxed) => {
                    return failure(FailureKind::Stopped, "stopped on request before it began");
                }
                None if Instant::now() >= deadline => {
                    let cause = "not all ranks listened in time: look at the other hosts";
                    return failure(FailureKind::Stalled, cause);
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// True once `Done` or `Failed` was sent.
    pub fn is_concluded(&self) -> bool {
        self.concluded.load(Ordering::Relaxed)
    }
}

/// Holds a case until it may start.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// `Go`s that nobody has used yet.
    open: Mutex<u32>,
    changed: Condvar,
    /// Where all ranks of a collective listen, until that is asked for.
    pub(crate) ranks: Mutex<Option<Vec<Vec<SocketAddr>>>>,
    pub(crate) abort: Arc<AtomicBool>,
    pub(crate) stage: StageCell,
}

impl Gate {
    pub(crate) fn open(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    pub(crate) fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
    }

    fn wait(&self, patience: Duration) -> Result<(), FailureKind> {
        let deadline = Instant::now() + patience;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.abort.load(Ordering::Relaxed) {
                return Err(FailureKind::Stopped);
            }
            if *open > 0 {
                *open -= 1;
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(FailureKind::Stalled);
            }
            let slice = self.changed.wait_timeout(open, left.min(SLICE));
            open = slice.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_opens_gives_up_and_aborts() {
        let gate = Arc::new(Gate::default());
        assert_eq!(gate.wait(Duration::from_millis(30)), Err(FailureKind::Stalled));
        let opener = gate.clone();
        let thread = std::thread::spawn(move || opener.open());
        assert_eq!(gate.wait(Duration::from_secs(10)), Ok(()));
        assert_eq!(gate.wait(Duration::ZERO), Err(FailureKind::Stalled), "one pass for each Go");
        thread.join().unwrap();
        gate.abort();
        assert_eq!(gate.wait(Duration::from_secs(10)), Err(FailureKind::Stopped));
    }
}
