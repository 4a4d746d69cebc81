//! Waiting with a deadline that costs nothing while things move.

use std::time::Duration;

use crate::engine::{End, Note, Peer};
use crate::measure::clock::Time;
use crate::transport::{Addressed, Completion, Result};

/// Empty looks between two looks at the clock and at the request to stop.
const LOOKS: u32 = 1024;

/// Watches over a wait: asks for the time only after many empty looks or once the CPU was given up.
pub(super) struct Watch<'a> {
    end: &'a End<'a>,
    empty: u32,
    idle_since_ns: Option<u64>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(end: &'a End<'a>) -> Self {
        Watch { end, empty: 0, idle_since_ns: None }
    }

    /// Something moved.
    #[inline(always)]
    pub(super) fn moved(&mut self) {
        self.empty = 0;
        self.idle_since_ns = None;
    }

    /// Counts another empty look.
    #[inline(always)]
    pub(super) fn look(&mut self) -> u32 {
        self.empty = self.empty.wrapping_add(1);
        self.empty
    }

    /// After an empty look: fails when stopped or stalled. Returns for how long nothing has moved
    /// when it looked at the clock.
    #[inline]
    pub(super) fn check(
        &mut self,
        waited: bool,
        time: &impl Time,
        progress: impl Fn() -> String,
    ) -> Result<Option<u64>> {
        if !waited && !self.empty.is_multiple_of(LOOKS) {
            return Ok(None);
        }
        self.look_at_clock(time, &progress)
    }

    #[cold]
    fn look_at_clock(
        &mut self,
        time: &impl Time,
        progress: &dyn Fn() -> String,
    ) -> Result<Option<u64>> {
        self.end.check_abort()?;
        let now = time.now();
        let idle_ns = now.saturating_sub(*self.idle_since_ns.get_or_insert(now));
        if u128::from(idle_ns) > self.end.stall.as_nanos() {
            return Err(self.end.stalled(Duration::from_nanos(idle_ns), &progress()));
        }
        Ok(Some(idle_ns))
    }
}

/// Waits for the next note while looking after `endpoint`, so that its errors are seen and software
/// transports make progress. Completions that turn up are handed to `seen`.
pub(super) fn attend<A: Addressed>(
    end: &End,
    endpoint: &mut A,
    peer: &mut impl Peer,
    limit: Duration,
    awaited: &str,
    mut seen: impl FnMut(&Completion),
) -> Result<Note> {
    const SLICE: Duration = Duration::from_millis(1);
    let begin = std::time::Instant::now();
    let mut done = [Completion::default(); 16];
    loop {
        end.check_abort()?;
        let n = endpoint.poll(&mut done)?;
        done[..n].iter().for_each(&mut seen);
        match peer.hear(SLICE)? {
            Some(Note::Failed(failure)) => return Err(end.peer_failed(&failure)),
            Some(note) => return Ok(note),
            None if begin.elapsed() >= limit => {
                return Err(end.stalled(limit, &format!("waiting for {awaited}")));
            }
            None => {}
        }
    }
}
