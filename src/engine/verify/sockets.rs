//! Integrity over lanes of bytes: every byte of each lane is compared by its position.

use super::{Step, directions, pattern::Pattern};
use crate::engine::wait::Watch;
use crate::engine::{End, Note, Peer, Stage};
use crate::measure::clock::Time;
use crate::session::protocol::IntegrityResult;
use crate::transport::{Bytes, Result};

/// Bytes of a block, the unit in which what is wrong is named.
const BLOCK: usize = 64 * 1024;

/// Blocks are numbered through all lanes: the lane in the bits from here on.
const LANE_SHIFT: u32 = 26;

/// What to verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Bytes to verify in each direction, over all lanes.
    pub volume_bytes: u64,
    /// Equal at both ends, other in each case.
    pub seed: u64,
    /// Payload leaves this end.
    pub sends: bool,
    /// Payload arrives at this end.
    pub receives: bool,
}

/// Verifies the initiator's bytes first, then the responder's, as far as the plan says. Returns
/// what this end found in what it received; none when it received nothing. Bytes that have not come
/// once nothing moves any more are wrong; a block counts as misplaced when its bytes belong to
/// another position.
///
/// # Errors
/// As [`super::run`].
pub fn run<B: Bytes>(
    end: &End,
    lanes: &mut B,
    peer: &mut impl Peer,
    time: &impl Time,
    plan: &Plan,
) -> Result<Option<IntegrityResult>> {
    end.stage.set(Stage::Verify);
    let mut case = Case { end, lanes, peer, time, plan };
    let result = directions(end.role, plan.sends, plan.receives).try_fold(None, |found, step| {
        Ok(match step {
            Step::Send(direction) => case.source(direction).map(|()| found)?,
            Step::Receive(direction) => Some(case.sink(direction)?),
        })
    });
    end.share(peer, result)
}

struct Case<'a, B, P, T> {
    end: &'a End<'a>,
    lanes: &'a mut B,
    peer: &'a mut P,
    time: &'a T,
    plan: &'a Plan,
}

/// The block under way on a lane.
#[derive(Debug)]
struct Progress {
    number: u64,
    /// Bytes of the lane before this block.
    before: u64,
    total: u64,
    block: Vec<u8>,
    /// Bytes of this block written or read.
    at: usize,
}

impl Progress {
    fn new(lane: usize, total: u64) -> Self {
        let number = (lane as u64) << LANE_SHIFT;
        let mut progress = Progress { number, before: 0, total, block: Vec::new(), at: 0 };
        progress.resize();
        progress
    }

    fn is_over(&self) -> bool {
        self.block.is_empty()
    }

    /// Goes on to the next block.
    fn advance(&mut self) {
        self.before += self.block.len() as u64;
        self.number += 1;
        self.at = 0;
        self.resize();
    }

    fn resize(&mut self) {
        let left = self.total - self.before;
        self.block.resize(usize::try_from(left).unwrap_or(BLOCK).min(BLOCK), 0);
    }

    fn is_full(&self) -> bool {
        self.at == self.block.len()
    }
}

impl<B: Bytes, P: Peer, T: Time> Case<'_, B, P, T> {
    /// What each lane carries: the volume in equal parts, the last lane with the rest.
    fn parts(&self) -> Vec<Progress> {
        let lanes = self.lanes.lanes().max(1) as u64;
        let part = self.plan.volume_bytes / lanes;
        let rest = self.plan.volume_bytes % lanes;
        let total = |lane| if lane + 1 == lanes { part + rest } else { part };
        (0..lanes).map(|lane| Progress::new(lane as usize, total(lane))).collect()
    }

    fn source(&mut self, direction: u64) -> Result<()> {
        let pattern = Pattern::new(self.plan.seed, direction);
        let mut parts = self.parts();
        self.await_note(&Note::BatchReady { batch: 0 })?;
        parts.iter_mut().for_each(|part| pattern.fill(part.number, &mut part.block));
        let mut watch = Watch::new(self.end);
        while parts.iter().any(|part| !part.is_over()) {
            let mut moved = false;
            for (lane, part) in parts.iter_mut().enumerate().filter(|(_, part)| !part.is_over()) {
                let n = self.lanes.write(lane, &part.block[part.at..])?;
                part.at += n;
                moved |= n > 0;
                if part.is_full() {
                    part.advance();
                    pattern.fill(part.number, &mut part.block);
                }
            }
            if moved {
                watch.moved();
            } else {
                let waited = self.lanes.idle(watch.look(), true)?;
                watch.check(waited, self.time, || format!("{} bytes sent", sum(&parts)))?;
            }
        }
        self.peer.tell(&Note::BatchSent { batch: 0 })?;
        self.await_note(&Note::BatchVerified { batch: 0, go_on: true })
    }

    fn sink(&mut self, direction: u64) -> Result<IntegrityResult> {
        let pattern = Pattern::new(self.plan.seed, direction);
        let mut parts = self.parts();
        let mut result = expected(&parts);
        self.peer.tell(&Note::BatchReady { batch: 0 })?;
        let mut watch = Watch::new(self.end);
        while parts.iter().any(|part| !part.is_over()) {
            let mut moved = false;
            for (lane, part) in parts.iter_mut().enumerate().filter(|(_, part)| !part.is_over()) {
                let n = self.lanes.read(lane, &mut part.block[part.at..])?;
                part.at += n;
                moved |= n > 0;
                if part.is_full() {
                    judge(&pattern, part, &mut result);
                    part.advance();
                }
            }
            if moved {
                watch.moved();
                continue;
            }
            let waited = self.lanes.idle(watch.look(), false)?;
            let stalled = watch.check(waited, self.time, || format!("{} bytes came", sum(&parts)));
            match stalled {
                Err(failure) if failure.kind == crate::transport::FailureKind::Stalled => {
                    parts.iter().for_each(|part| give_up(part, &mut result));
                    break;
                }
                other => other.map(|_| ())?,
            }
        }
        self.await_note(&Note::BatchSent { batch: 0 })?;
        self.peer.tell(&Note::BatchVerified { batch: 0, go_on: true })?;
        Ok(result)
    }

    fn await_note(&mut self, wanted: &Note) -> Result<()> {
        let patient = End { patience: self.end.patience + self.end.stall, ..*self.end };
        crate::engine::sync::expect(&patient, self.peer, wanted)
    }
}

fn sum(parts: &[Progress]) -> u64 {
    parts.iter().map(|part| part.before + part.at as u64).sum()
}

fn expected(parts: &[Progress]) -> IntegrityResult {
    let bytes_verified = parts.iter().map(|part| part.total).sum();
    let chunks = parts.iter().map(|part| part.total.div_ceil(BLOCK as u64)).sum();
    IntegrityResult { bytes_verified, chunks, ..IntegrityResult::default() }
}

fn judge(pattern: &Pattern, part: &Progress, result: &mut IntegrityResult) {
    let difference = pattern.compare(part.number, &part.block);
    let Some(first) = difference.first else { return };
    result.bytes_wrong += difference.bytes;
    let origin = origin(pattern, part);
    match origin {
        Some(_) => result.misplaced += 1,
        None => result.corrupted += 1,
    }
    if result.first_wrong.is_empty() {
        let what = origin.map_or("it is damaged".into(), |(lane, position)| {
            format!("it belongs to byte {position} of lane {lane}")
        });
        result.first_wrong = format!(
            "byte {} of lane {}: found {:#04x}, expected {:#04x}: {what}",
            part.before + first as u64,
            part.number >> LANE_SHIFT,
            part.block[first],
            pattern.byte(part.number, first)
        );
    }
}

/// Where the bytes in the middle of a block belong, if to another place: lane and position.
fn origin(pattern: &Pattern, part: &Progress) -> Option<(u64, u64)> {
    let middle = part.block.len() / 2;
    (middle..middle + 8).find_map(|at| {
        let word = part.block.get(at..at + 8)?.try_into().ok()?;
        let (number, index) = pattern.decode(u64::from_le_bytes(word));
        let inside = index < (BLOCK / 8) as u64 && number >> LANE_SHIFT < 1 << 10;
        let elsewhere = number != part.number || index * 8 != at as u64;
        let block = number & ((1 << LANE_SHIFT) - 1);
        let position = (block * BLOCK as u64 + index * 8).checked_sub(at as u64)?;
        (inside && elsewhere).then_some((number >> LANE_SHIFT, position))
    })
}

/// Nothing comes any more: what is left of a lane is wrong, its blocks are lost.
fn give_up(part: &Progress, result: &mut IntegrityResult) {
    if part.is_over() {
        return;
    }
    let missing = part.total - part.before - part.at as u64;
    result.bytes_wrong += missing;
    result.dropped += (part.total - part.before).div_ceil(BLOCK as u64);
    if result.first_wrong.is_empty() {
        result.first_wrong = format!(
            "byte {} of lane {} and {} more never came",
            part.before + part.at as u64,
            part.number >> LANE_SHIFT,
            missing - 1
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::local::LocalPeer;
    use crate::engine::testing::both;
    use crate::measure::clock::Clock;
    use crate::transport::tcp::{Polling, TcpLanes};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    const VOLUME: u64 = 1_000_003;

    /// Does something to bytes read from lane 0 at a position.
    struct Tampered<F> {
        inner: TcpLanes,
        position: u64,
        tamper: F,
    }

    impl<F: FnMut(u64, &mut [u8]) -> usize> Bytes for Tampered<F> {
        fn lanes(&self) -> usize {
            Bytes::lanes(&self.inner)
        }

        fn write(&mut self, lane: usize, from: &[u8]) -> Result<usize> {
            self.inner.write(lane, from)
        }

        fn read(&mut self, lane: usize, into: &mut [u8]) -> Result<usize> {
            let n = self.inner.read(lane, into)?;
            if lane != 0 || n == 0 {
                return Ok(n);
            }
            let kept = (self.tamper)(self.position, &mut into[..n]);
            self.position += n as u64;
            Ok(kept)
        }

        fn idle(&mut self, empty: u32, writing: bool) -> Result<bool> {
            Bytes::idle(&mut self.inner, empty, writing)
        }
    }

    fn run_with(
        stall: Duration,
        tamper: impl FnMut(u64, &mut [u8]) -> usize + Send,
    ) -> (Option<IntegrityResult>, Option<IntegrityResult>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (left, right): (Vec<_>, Vec<_>) = (0..3)
            .map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0))
            .unzip();
        let make = |sockets| TcpLanes::new(sockets, 1, Polling::Events).unwrap();
        let mut left = Tampered { inner: make(left), position: 0, tamper };
        let mut right = make(right);
        let plan = Plan { volume_bytes: VOLUME, seed: 11, sends: true, receives: true };
        both(
            stall,
            |end: &End, mut peer: LocalPeer| run(end, &mut left, &mut peer, &Clock, &plan).unwrap(),
            |end: &End, mut peer: LocalPeer| {
                run(end, &mut right, &mut peer, &Clock, &plan).unwrap()
            },
        )
    }

    #[test]
    fn every_byte_both_ways_is_compared() {
        let (a, b) = run_with(Duration::from_secs(10), |_, bytes| bytes.len());
        for result in [a.unwrap(), b.unwrap()] {
            assert_eq!((result.bytes_verified, result.bytes_wrong), (VOLUME, 0));
            assert_eq!(result.chunks, 18);
            assert_eq!(result.first_wrong, "");
        }
    }

    #[test]
    fn a_flipped_byte_is_one_wrong_byte() {
        let flip = |position: u64, bytes: &mut [u8]| {
            if let Some(byte) =
                70_000u64.checked_sub(position).and_then(|i| bytes.get_mut(i as usize))
            {
                *byte ^= 0x10;
            }
            bytes.len()
        };
        let (a, b) = run_with(Duration::from_secs(10), flip);
        let a = a.unwrap();
        assert_eq!((a.bytes_wrong, a.corrupted, a.misplaced, a.dropped), (1, 1, 0, 0));
        assert!(a.first_wrong.starts_with("byte 70000 of lane 0: found"), "{}", a.first_wrong);
        assert_eq!(b.unwrap().bytes_wrong, 0);
    }

    #[test]
    fn lost_bytes_shift_what_follows_and_are_missed_at_the_end() {
        let mut lost = false;
        let drop_eight = |_: u64, bytes: &mut [u8]| {
            if lost || bytes.len() < 8 {
                return bytes.len();
            }
            lost = true;
            bytes.len() - 8
        };
        let (a, _) = run_with(Duration::from_millis(300), drop_eight);
        let a = a.unwrap();
        assert_eq!(a.dropped, 1, "the last block of the lane is not whole: {a:?}");
        assert!(a.misplaced >= 4 && a.bytes_wrong > 250_000, "{a:?}");
        assert_eq!(a.misplaced + a.corrupted, 5, "{a:?}");
    }
}
