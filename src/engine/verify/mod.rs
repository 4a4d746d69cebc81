//! Integrity: every byte of a volume arrives where it belongs; untimed.
//!
//! The volume moves in chunks of mixed sizes that lie apart in the buffer. The receiver fills their
//! places with the complement of what is due, so that each byte that does not come is wrong, and
//! compares all of them; guards between the chunks show writes that went too far.

mod atomics;
mod judge;
mod layout;
mod pattern;
pub mod sockets;

pub use layout::mixed_sizes;
pub use pattern::{Difference, Pattern};

use std::time::Duration;

use crate::engine::wait::{Watch, attend};
use crate::engine::{End, Note, Peer, Stage};
use crate::measure::clock::Time;
use crate::session::protocol::{IntegrityResult, Role};
use crate::transport::{
    Addressed, Completion, Failure, FailureKind, Operation, Request, Result, Span,
};
use judge::{Arrival, Judge, Rules};
use layout::{Batch, Layout, Shape};

/// How long nothing must arrive after the sender is done before a message counts as lost.
const LOST: Duration = Duration::from_millis(500);

/// Completions taken at once.
const TAKE: usize = 64;

/// What to verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// What moves the payload.
    pub operation: Operation,
    /// The case's message size; around it and around the MTU lie the sizes of the chunks.
    pub size: u64,
    /// Path MTU in bytes.
    pub mtu: u32,
    /// Longest message in bytes; none for as long as the buffer allows.
    pub largest: Option<usize>,
    /// Messages may be lost: then they are counted, and those that come are compared.
    pub lossy: bool,
    /// Messages that come do so in order.
    pub ordered: bool,
    /// Bytes to verify in each direction.
    pub volume_bytes: u64,
    /// Receives that may be posted per lane, for what takes one.
    pub receives_per_lane: u32,
    /// Bytes of the smaller of the two ends' buffers; none when both are as long as the peer says.
    pub buffer_bytes: Option<u64>,
    /// Equal at both ends, other in each case.
    pub seed: u64,
    /// Payload leaves this end.
    pub sends: bool,
    /// Payload arrives at this end.
    pub receives: bool,
}

/// Verifies the initiator's payload first, then the responder's, as far as the plan says. Returns
/// what this end found in what it received; none when it received nothing.
///
/// # Errors
/// The transport's or the link's own; stalled, stopped; the peer's when it gives up. The peer is
/// told of a failure of this end. Wrong bytes are no failure.
pub fn run<A: Addressed>(
    end: &End,
    endpoint: &mut A,
    peer: &mut impl Peer,
    time: &impl Time,
    plan: &Plan,
) -> Result<Option<IntegrityResult>> {
    end.stage.set(Stage::Verify);
    let mut case = Case { end, endpoint, peer, time, plan };
    let result = directions(end.role, plan.sends, plan.receives).try_fold(None, |found, step| {
        Ok(match step {
            Step::Send(direction) => case.source(direction).map(|()| found)?,
            Step::Receive(direction) => Some(case.sink(direction)?),
        })
    });
    end.share(peer, result)
}

/// One direction, as this end sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Send(u64),
    Receive(u64),
}

/// The steps of an end, in the order that both ends keep: direction 0 leaves the initiator.
fn directions(role: Role, sends: bool, receives: bool) -> impl Iterator<Item = Step> {
    let (first, second) = match role {
        Role::Initiator => (sends.then_some(Step::Send(0)), receives.then_some(Step::Receive(1))),
        Role::Responder => (receives.then_some(Step::Receive(0)), sends.then_some(Step::Send(1))),
    };
    first.into_iter().chain(second)
}

struct Case<'a, A, P, T> {
    end: &'a End<'a>,
    endpoint: &'a mut A,
    peer: &'a mut P,
    time: &'a T,
    plan: &'a Plan,
}

impl<A: Addressed, P: Peer, T: Time> Case<'_, A, P, T> {
    fn layout(&mut self) -> Result<Layout> {
        let both = (self.endpoint.memory().len() as u64).min(self.endpoint.remote_len());
        let limit = self.plan.buffer_bytes.unwrap_or(u64::MAX).min(both) as usize;
        let sends = self.plan.operation.is_send();
        let takes_receive = self.plan.operation.takes_receive();
        let lanes = self.endpoint.lanes().max(1);
        let most = if takes_receive {
            self.plan.receives_per_lane.max(1) as usize * lanes
        } else {
            65_536
        };
        // Places of SENDs are all as long as the longest chunk: many shorter ones say more.
        let size = usize::try_from(self.plan.size).unwrap_or(limit);
        let wanted = if sends { (limit / 16).max(size.saturating_add(1)) } else { limit };
        let largest = wanted.min((limit / 2).saturating_sub(2 * layout::GUARD));
        if largest == 0 {
            let cause = format!("a buffer of {limit} bytes is too small to verify anything");
            return Err(Failure::new(FailureKind::Internal, "verify", self.end.object, cause));
        }
        let largest = self.plan.largest.map_or(largest, |most| most.min(largest));
        let mut sizes = mixed_sizes(self.plan.size, self.plan.mtu, largest);
        if self.plan.lossy {
            // Only a whole word tells which message it is of when others are missing.
            sizes.retain(|size| *size >= pattern::WORD);
        }
        let volume = self.plan.volume_bytes;
        Ok(Layout::new(Shape { sizes, volume, limit, lanes, most, uniform: sends }))
    }

    fn source(&mut self, direction: u64) -> Result<()> {
        let pattern = Pattern::new(self.plan.seed, direction);
        if self.plan.operation.is_atomic() {
            return self.offer_words(&pattern);
        }
        for batch in self.layout()? {
            let number = batch.number;
            if self.plan.operation != Operation::Read {
                self.await_ready(number)?;
            }
            let memory = self.endpoint.memory();
            for slot in &batch.slots {
                pattern.fill(slot.chunk, &mut memory[slot.offset..][..slot.len]);
            }
            if self.plan.operation == Operation::Read {
                self.peer.tell(&Note::BatchReady { batch: number })?;
            } else {
                self.move_all(&batch, &pattern)?;
                if self.plan.lossy && self.plan.operation == Operation::Write {
                    self.mark_end()?;
                }
                self.peer.tell(&Note::BatchSent { batch: number })?;
            }
            match self.await_note("the comparison of a batch", |_| {})? {
                Note::BatchVerified { batch, go_on: true } if batch == number => {}
                Note::BatchVerified { batch, go_on: false } if batch == number => break,
                note => return Err(self.end.unexpected(&note, "the comparison of a batch")),
            }
        }
        Ok(())
    }

    fn sink(&mut self, direction: u64) -> Result<IntegrityResult> {
        let pattern = Pattern::new(self.plan.seed, direction);
        if self.plan.operation.is_atomic() {
            return self.count_words(pattern);
        }
        let Plan { operation, lossy, ordered, .. } = *self.plan;
        let rules = Rules { immediates: operation.has_immediate(), lossy, ordered };
        let mut judge = Judge::new(pattern, rules);
        let mut offered = Vec::new();
        for batch in self.layout()? {
            judge.prepare(self.endpoint.memory(), &batch);
            let whole = match operation {
                Operation::Send | Operation::SendImm => {
                    let arrivals = self.take_arrivals(&batch, &mut offered)?;
                    judge.messages(self.endpoint.memory(), &batch, &arrivals);
                    arrivals.len() == batch.slots.len()
                }
                Operation::WriteImm => {
                    let arrivals = self.take_arrivals(&batch, &mut offered)?;
                    let memory = self.endpoint.memory();
                    judge.immediates(memory, &batch, &arrivals);
                    judge.places(memory, &batch);
                    arrivals.len() == batch.slots.len()
                }
                Operation::Read | Operation::FetchAdd | Operation::CmpSwap => {
                    self.await_ready(batch.number)?;
                    self.move_all(&batch, &pattern)?;
                    judge.places(self.endpoint.memory(), &batch);
                    true
                }
                Operation::Write if lossy => {
                    // Of each lane its mark comes last.
                    let marks = self.endpoint.lanes().max(1);
                    let mut end = batch.clone();
                    end.slots.truncate(marks);
                    self.take_arrivals(&end, &mut offered)?;
                    judge.places(self.endpoint.memory(), &batch);
                    true
                }
                Operation::Write => {
                    self.peer.tell(&Note::BatchReady { batch: batch.number })?;
                    self.await_sent(&batch, |_| {})?;
                    judge.places(self.endpoint.memory(), &batch);
                    true
                }
            };
            let go_on = whole || lossy;
            self.peer.tell(&Note::BatchVerified { batch: batch.number, go_on })?;
            if !go_on {
                break;
            }
        }
        Ok(judge.into_result())
    }

    /// Posts every chunk of `batch` and waits until all are complete.
    fn move_all(&mut self, batch: &Batch, pattern: &Pattern) -> Result<()> {
        let mut watch = Watch::new(self.end);
        let mut completions = [Completion::default(); TAKE];
        let (mut posted, mut done) = (0, 0);
        while done < batch.slots.len() {
            let mut moved = false;
            while posted < batch.slots.len()
                && self.endpoint.post(&self.request(batch, posted, pattern))?
            {
                posted += 1;
                moved = true;
            }
            let taken = self.endpoint.poll(&mut completions)?;
            done += completions[..taken].iter().filter(|completion| !completion.arrival).count();
            if moved || taken > 0 {
                watch.moved();
                continue;
            }
            let waited = self.endpoint.idle(watch.look())?;
            let total = batch.slots.len();
            watch.check(waited, self.time, || format!("{done} of {total} chunks complete"))?;
        }
        Ok(())
    }

    fn request(&self, batch: &Batch, index: usize, pattern: &Pattern) -> Request {
        let slot = &batch.slots[index];
        Request {
            operation: self.plan.operation,
            lane: slot.lane,
            local: Span { offset: slot.offset as u64, len: slot.len as u32 },
            remote_offset: slot.offset as u64,
            immediate: pattern.immediate(slot.chunk),
            signal: true,
            id: index as u64,
            ..Request::default()
        }
    }

    /// Offers a receive for every slot and collects what came; fewer when something was lost. A
    /// WRITE takes of its receive only that it is there.
    /// `offered` are the receives that earlier batches have left over.
    fn take_arrivals(&mut self, batch: &Batch, offered: &mut Vec<bool>) -> Result<Vec<Arrival>> {
        let sends = self.plan.operation.is_send();
        offered.resize(offered.len().max(batch.slots.len()), false);
        for (index, slot) in batch.slots.iter().enumerate() {
            if std::mem::replace(&mut offered[index], true) {
                continue;
            }
            let len = if sends { slot.room as u32 } else { 0 };
            let span = Span { offset: slot.offset as u64, len };
            if !self.endpoint.post_receive(slot.lane, span, index as u64)? {
                let cause = format!("no room for receive {index} of a lane; rx-depth is too small");
                return Err(Failure::new(FailureKind::Internal, "verify", self.end.object, cause));
            }
        }
        self.peer.tell(&Note::BatchReady { batch: batch.number })?;
        let mut arrivals = Vec::with_capacity(batch.slots.len());
        self.await_sent(batch, |completion| note_arrival(&mut arrivals, completion))?;
        let mut completions = [Completion::default(); TAKE];
        let (mut last, mut empty) = (std::time::Instant::now(), 0u32);
        while arrivals.len() < batch.slots.len() && last.elapsed() < LOST {
            self.end.check_abort()?;
            let taken = self.endpoint.poll(&mut completions)?;
            completions[..taken].iter().for_each(|done| note_arrival(&mut arrivals, done));
            if taken > 0 {
                (last, empty) = (std::time::Instant::now(), 0);
            } else {
                empty = empty.wrapping_add(1);
                self.endpoint.idle(empty)?;
            }
        }
        for arrival in &arrivals {
            offered[arrival.slot] = false;
        }
        Ok(arrivals)
    }

    /// Behind the last WRITE of each lane, an empty one that shows at the peer.
    fn mark_end(&mut self) -> Result<()> {
        let mut watch = Watch::new(self.end);
        let mut completions = [Completion::default(); TAKE];
        let lanes = self.endpoint.lanes().max(1);
        let (mut posted, mut done) = (0, 0);
        while done < lanes {
            let operation = Operation::WriteImm;
            let mark = Request { operation, lane: posted, signal: true, ..Request::default() };
            let more = posted < lanes && self.endpoint.post(&mark)?;
            posted += usize::from(more);
            let taken = self.endpoint.poll(&mut completions)?;
            done += completions[..taken].iter().filter(|completion| !completion.arrival).count();
            if more || taken > 0 {
                watch.moved();
                continue;
            }
            let waited = self.endpoint.idle(watch.look())?;
            watch.check(waited, self.time, || format!("{done} of {lanes} marks complete"))?;
        }
        Ok(())
    }

    fn await_ready(&mut self, wanted: u64) -> Result<()> {
        match self.await_note("the next batch", |_| {})? {
            Note::BatchReady { batch } if batch == wanted => Ok(()),
            note => Err(self.end.unexpected(&note, "the next batch")),
        }
    }

    fn await_sent(&mut self, batch: &Batch, seen: impl FnMut(&Completion)) -> Result<()> {
        match self.await_note("the end of a batch", seen)? {
            Note::BatchSent { batch: number } if number == batch.number => Ok(()),
            note => Err(self.end.unexpected(&note, "the end of a batch")),
        }
    }

    fn await_note(&mut self, awaited: &str, seen: impl FnMut(&Completion)) -> Result<Note> {
        let limit = self.end.patience + self.end.stall;
        attend(self.end, self.endpoint, self.peer, limit, awaited, seen)
    }
}

fn note_arrival(arrivals: &mut Vec<Arrival>, completion: &Completion) {
    if completion.arrival {
        let Completion { id, len, immediate, .. } = *completion;
        arrivals.push(Arrival { slot: id as usize, len: len as usize, immediate });
    }
}

#[cfg(test)]
mod tests;
