//! Atomics, checked by arithmetic: who posts them foretells what each one brings back and what
//! stands in the peer's memory at the end.

use super::{Case, TAKE};
use crate::engine::verify::Pattern;
use crate::engine::wait::Watch;
use crate::engine::{Note, Peer};
use crate::measure::clock::Time;
use crate::session::protocol::IntegrityResult;
use crate::transport::{Addressed, Completion, Operation, Request, Result, Span};

/// Words of the peer's memory that are worked on.
const WORDS: u64 = 16;
/// From one word to the next, bytes; what lies between must not change.
const STRIDE: u64 = 64;
/// Bytes of them all.
const TABLE: u64 = WORDS * STRIDE;
/// Operations that are under way at most; each has a place for what it brings back.
const UNDER_WAY: u64 = 64;
/// From one such place to the next, bytes.
const PLACE: u64 = 16;
/// Most operations: they are slow, and each proves 16 bytes.
const MOST: u64 = 4_096;
/// Every so many compare-and-swaps expect what is not there.
const REFUSED_EVERY: u64 = 4;

/// Operations that verify a volume.
pub(super) fn count(volume_bytes: u64) -> u64 {
    (volume_bytes / 8).clamp(1, MOST)
}

/// What the owner of the memory puts there: words from the pattern, and around them its bytes.
fn table(pattern: &Pattern) -> Vec<u8> {
    let mut bytes = vec![0; TABLE as usize];
    pattern.fill(u64::from(u32::MAX), &mut bytes);
    bytes
}

/// What is foretold.
struct Oracle {
    operation: Operation,
    pattern: Pattern,
    table: Vec<u8>,
}

impl Oracle {
    fn new(operation: Operation, pattern: Pattern) -> Self {
        Oracle { operation, table: table(&pattern), pattern }
    }

    fn place(number: u64) -> usize {
        ((number % WORDS) * STRIDE) as usize
    }

    fn word(&self, number: u64) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.table[Self::place(number)..][..8]);
        u64::from_ne_bytes(word)
    }

    /// Operation `number` as it is posted, and what it must bring back; carried out in the table.
    /// Each word belongs to one lane, which keeps its order.
    fn next(&mut self, number: u64, lanes: usize) -> (Request, u64) {
        let old = self.word(number);
        let mut drawn = [0; 16];
        self.pattern.fill(number, &mut drawn);
        let drawn = u128::from_ne_bytes(drawn);
        let (low, high) = (drawn as u64, (drawn >> 64) as u64);
        let (add_or_compare, swap, new) = match self.operation {
            Operation::FetchAdd => (low, 0, old.wrapping_add(low)),
            _ if number % REFUSED_EVERY == REFUSED_EVERY - 1 => (!old, high, old),
            _ => (old, high, high),
        };
        self.table[Self::place(number)..][..8].copy_from_slice(&new.to_ne_bytes());
        let local = Span { offset: TABLE + (number % UNDER_WAY) * PLACE, len: 8 };
        let request = Request {
            operation: self.operation,
            lane: (number % WORDS) as usize % lanes,
            local,
            remote_offset: Self::place(number) as u64,
            add_or_compare,
            swap,
            signal: true,
            id: number,
            ..Request::default()
        };
        (request, old)
    }
}

impl<A: Addressed, P: Peer, T: Time> Case<'_, A, P, T> {
    /// Owns the memory: fills it and waits until the peer has judged.
    pub(super) fn offer_words(&mut self, pattern: &Pattern) -> Result<()> {
        let begin = table(pattern);
        self.endpoint.memory()[..begin.len()].copy_from_slice(&begin);
        self.peer.tell(&Note::BatchReady { batch: 0 })?;
        match self.await_note("the arithmetic of atomics", |_| {})? {
            Note::BatchVerified { batch: 0, .. } => Ok(()),
            note => Err(self.end.unexpected(&note, "the arithmetic of atomics")),
        }
    }

    /// Posts the atomics and judges what they bring back and leave behind.
    pub(super) fn count_words(&mut self, pattern: Pattern) -> Result<IntegrityResult> {
        self.await_ready(0)?;
        let mut oracle = Oracle::new(self.plan.operation, pattern);
        let mut result = IntegrityResult::default();
        let (all, lanes) = (count(self.plan.volume_bytes), self.endpoint.lanes().max(1));
        let mut number = 0;
        while number < all {
            let until = (number + UNDER_WAY).min(all);
            let batch: Vec<_> = (number..until).map(|n| oracle.next(n, lanes)).collect();
            for (request, old) in &batch {
                let place = &mut self.endpoint.memory()[request.local.offset as usize..][..8];
                place.copy_from_slice(&(!old).to_ne_bytes());
            }
            self.carry_out(&batch.iter().map(|(request, _)| *request).collect::<Vec<_>>())?;
            for (request, old) in &batch {
                let place = &self.endpoint.memory()[request.local.offset as usize..][..8];
                judge_old(&mut result, request, *old, place);
            }
            number = until;
        }
        let read = Request {
            operation: Operation::Read,
            local: Span { offset: 0, len: TABLE as u32 },
            signal: true,
            ..Request::default()
        };
        self.endpoint.memory()[..TABLE as usize].fill(0);
        self.carry_out(&[read])?;
        judge_table(&mut result, &oracle.table, &self.endpoint.memory()[..TABLE as usize]);
        self.peer.tell(&Note::BatchVerified { batch: 0, go_on: true })?;
        Ok(result)
    }

    /// Posts all and waits until all are complete.
    fn carry_out(&mut self, requests: &[Request]) -> Result<()> {
        let mut watch = Watch::new(self.end);
        let mut completions = [Completion::default(); TAKE];
        let (mut posted, mut done) = (0, 0);
        while done < requests.len() {
            let before = posted;
            while posted < requests.len() && self.endpoint.post(&requests[posted])? {
                posted += 1;
            }
            let taken = self.endpoint.poll(&mut completions)?;
            done += completions[..taken].iter().filter(|completion| !completion.arrival).count();
            if posted > before || taken > 0 {
                watch.moved();
                continue;
            }
            let waited = self.endpoint.idle(watch.look())?;
            let total = requests.len();
            watch.check(waited, self.time, || format!("{done} of {total} atomics complete"))?;
        }
        Ok(())
    }
}

fn judge_old(result: &mut IntegrityResult, request: &Request, old: u64, found: &[u8]) {
    let expected = old.to_ne_bytes();
    let wrong = expected.iter().zip(found).filter(|(a, b)| a != b).count() as u64;
    result.chunks += 1;
    result.bytes_verified += 8;
    result.bytes_wrong += wrong;
    if wrong == 0 {
        return;
    }
    let never_came = found == (!old).to_ne_bytes();
    match never_came {
        true => result.dropped += 1,
        false => result.corrupted += 1,
    }
    if result.first_wrong.is_empty() {
        let mut word = [0; 8];
        word.copy_from_slice(found);
        let found = u64::from_ne_bytes(word);
        let found = if never_came { "nothing".to_owned() } else { format!("{found:#x}") };
        result.first_wrong = format!(
            "atomic {} on the word at {}: it brought back {found}, and {old:#x} was due",
            request.id, request.remote_offset
        );
    }
}

/// The words after the last operation, and what lies between them.
fn judge_table(result: &mut IntegrityResult, expected: &[u8], found: &[u8]) {
    for (at, (expected, found)) in expected.iter().zip(found).enumerate() {
        let of_word = at as u64 % STRIDE < 8;
        result.bytes_verified += u64::from(of_word);
        if expected == found {
            continue;
        }
        match of_word {
            true => result.bytes_wrong += 1,
            false => result.guard_bytes_wrong += 1,
        }
        if result.first_wrong.is_empty() {
            let what = if of_word { "the last value of a word" } else { "between the words" };
            result.first_wrong =
                format!("{what}, byte {at}: found {found:#04x}, expected {expected:#04x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::transfer_of;
    use super::*;
    use crate::transport::null::addressed::{Fault, Wrong};

    const VOLUME: u64 = 8 * 200;
    const BOTH: [Operation; 2] = [Operation::FetchAdd, Operation::CmpSwap];

    fn found(operation: Operation, lanes: usize, fault: Option<Fault>) -> IntegrityResult {
        transfer_of(operation, lanes, VOLUME, fault)
    }

    #[test]
    fn sound_atomics_are_as_foretold() {
        for operation in BOTH {
            for lanes in [1, 3] {
                let result = found(operation, lanes, None);
                let verified = VOLUME + WORDS * 8;
                let right = IntegrityResult {
                    bytes_verified: verified,
                    chunks: 200,
                    ..IntegrityResult::default()
                };
                assert_eq!(result, right, "{operation:?} over {lanes}");
            }
        }
        assert_eq!((count(1), count(u64::MAX)), (1, MOST));
    }

    #[test]
    fn a_flipped_answer_is_one_wrong_byte() {
        for operation in BOTH {
            let result = found(operation, 1, Some(Fault { at: 70, wrong: Wrong::Flip(3) }));
            assert_eq!((result.bytes_wrong, result.corrupted, result.dropped), (1, 1, 0));
            assert!(result.first_wrong.starts_with("atomic 70 on the word at 384: it brought"));
        }
    }

    #[test]
    fn an_atomic_that_is_dropped_or_repeated_shows_in_all_that_follow() {
        // Of 200 on 16 words, 8 more come to the word of number 70: 86, 102, … 198.
        let fault = |wrong| Some(Fault { at: 70, wrong });
        let result = found(Operation::FetchAdd, 2, fault(Wrong::Drop));
        assert_eq!((result.dropped, result.corrupted), (1, 8), "{result:?}");
        assert!(result.bytes_wrong > 8, "the last value is wrong as well: {result:?}");
        assert!(result.first_wrong.contains("it brought back nothing"), "{}", result.first_wrong);
        let result = found(Operation::FetchAdd, 2, fault(Wrong::Repeat));
        assert_eq!((result.dropped, result.corrupted), (0, 9), "{result:?}");
    }

    #[test]
    fn an_atomic_on_the_wrong_word_is_seen_there_and_here() {
        let elsewhere = Fault { at: 199, wrong: Wrong::Misplace(8) };
        let result = found(Operation::FetchAdd, 1, Some(elsewhere));
        assert_eq!(result.corrupted, 1, "what it brought back: {result:?}");
        assert!((1..=8).contains(&result.guard_bytes_wrong), "between the words: {result:?}");
        assert!(result.bytes_wrong > 8, "and its own word misses it: {result:?}");
    }
}
