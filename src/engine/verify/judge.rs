//! What became of each chunk of a batch, from the receiver's memory alone.

use super::layout::{Batch, GUARD, Slot};
use super::pattern::{Pattern, WORD};
use crate::session::protocol::IntegrityResult;

/// What guards are filled with.
const GUARD_BYTE: u8 = 0xa5;

/// A message that arrived: index of the slot whose receive it took, its length and what came with
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    pub slot: usize,
    pub len: usize,
    pub immediate: u32,
}

/// Judges the batches of one direction, one after the other.
#[derive(Debug)]
pub(super) struct Judge {
    pattern: Pattern,
    rules: Rules,
    /// Chunks that have told of themselves by their immediate.
    told: Vec<u64>,
    result: IntegrityResult,
}

/// What is owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    /// Messages carry immediate data.
    pub immediates: bool,
    /// Messages may be lost.
    pub lossy: bool,
    /// Messages that come do so in order.
    pub ordered: bool,
}

/// What a place holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// What belongs there.
    Right,
    /// What was there before: nothing came.
    Untouched,
    /// All of another chunk, or this one shifted; with `rest`, besides it some of what belongs.
    Other { chunk: u64, rest: bool },
    /// Neither.
    Damaged,
}

/// Times that each chunk of a batch was seen, and whether out of its place.
struct Sightings {
    first: u64,
    seen: Vec<(u32, bool)>,
}

impl Judge {
    pub(super) fn new(pattern: Pattern, rules: Rules) -> Self {
        Judge { pattern, rules, told: Vec::new(), result: IntegrityResult::default() }
    }

    pub(super) fn into_result(self) -> IntegrityResult {
        self.result
    }

    /// Makes `memory` such that whatever does not arrive is wrong in every byte.
    pub(super) fn prepare(&self, memory: &mut [u8], batch: &Batch) {
        memory.fill(GUARD_BYTE);
        for slot in &batch.slots {
            self.pattern.fill_complement(slot.chunk, &mut memory[slot.offset..][..slot.len]);
        }
    }

    /// Judges chunks that have a place of their own: WRITE and READ.
    pub(super) fn places(&mut self, memory: &[u8], batch: &Batch) {
        self.count_expected(batch);
        let mut sightings = Sightings::of(batch);
        for slot in &batch.slots {
            let bytes = &memory[slot.offset..][..slot.len];
            let difference = self.pattern.compare(slot.chunk, bytes);
            let content = match difference.first {
                None => Content::Right,
                Some(_) if self.is_lost(slot, bytes, difference.bytes) => {
                    self.result.bytes_verified -= slot.len as u64;
                    continue;
                }
                Some(_) => self.identify(slot, bytes, batch),
            };
            self.result.bytes_wrong += difference.bytes;
            if let Some(first) = difference.first {
                self.remember(slot, bytes, first, content);
            }
            match content {
                Content::Right => sightings.add(slot.chunk, false),
                Content::Untouched => {}
                Content::Other { chunk, rest } => {
                    self.elsewhere(&mut sightings, chunk);
                    if rest {
                        self.result.corrupted += 1;
                        sightings.add(slot.chunk, false);
                    }
                }
                Content::Damaged => {
                    self.result.corrupted += 1;
                    sightings.add(slot.chunk, false);
                }
            }
        }
        self.conclude(&sightings);
        self.guards(memory, batch.slots.iter().map(|slot| (slot.offset, slot.len)));
    }

    /// A message that may be lost, and of which no byte came but those that are right; it did not
    /// tell of itself.
    fn is_lost(&self, slot: &Slot, bytes: &[u8], wrong: u64) -> bool {
        let untouched =
            || bytes.len() as u64 - self.pattern.compare_complement(slot.chunk, bytes).bytes;
        self.rules.lossy && !self.told.contains(&slot.chunk) && untouched() == wrong
    }

    /// Judges messages by content and order, since a SEND takes whatever receive is next.
    /// `arrivals` are in the order of each lane.
    pub(super) fn messages(&mut self, memory: &[u8], batch: &Batch, arrivals: &[Arrival]) {
        self.count_expected(batch);
        let mut sightings = Sightings::of(batch);
        let lanes = batch.slots.iter().map(|slot| slot.lane + 1).max().unwrap_or(1);
        let mut newest = vec![None; lanes];
        let mut wrong_order = 0;
        for arrival in arrivals {
            let slot = &place(batch, arrival.slot, lanes);
            let bytes = &memory[slot.offset..][..arrival.len.min(slot.room)];
            let chunk = self.name(slot, bytes, batch, newest[slot.lane]);
            if self.rules.immediates && arrival.immediate != self.pattern.immediate(chunk) {
                self.wrong_immediate(chunk, arrival.immediate);
            }
            let late = self.rules.ordered && newest[slot.lane].is_some_and(|newest| chunk < newest);
            if late && sightings.times(chunk) == 0 {
                wrong_order += sightings.len_of(batch, chunk);
            }
            sightings.add(chunk, late);
            newest[slot.lane] = newest[slot.lane].max(Some(chunk));
        }
        let absent = batch.slots.iter().filter(|slot| sightings.times(slot.chunk) == 0);
        let lost: u64 = absent.map(|slot| slot.len as u64).sum();
        self.result.bytes_wrong += wrong_order;
        match self.rules.lossy {
            true => self.result.bytes_verified -= lost,
            false => self.result.bytes_wrong += lost,
        }
        self.note_first_loss(batch, &sightings);
        self.conclude(&sightings);
        let filled = |(index, slot): (usize, &Slot)| {
            let arrived = arrivals.iter().find(|arrival| arrival.slot == index);
            (slot.offset, slot.len.max(arrived.map_or(0, |arrival| arrival.len)).min(slot.room))
        };
        self.guards(memory, batch.slots.iter().enumerate().map(filled));
    }

    /// Judges the immediates of WRITEs, before [`Judge::places`]: each chunk whose place was touched
    /// must have told of itself once.
    pub(super) fn immediates(&mut self, memory: &[u8], batch: &Batch, arrivals: &[Arrival]) {
        self.told.clear();
        let mut came: Vec<_> = arrivals.iter().map(|arrival| Some(arrival.immediate)).collect();
        let mut silent = Vec::new();
        for slot in &batch.slots {
            let own = self.pattern.immediate(slot.chunk);
            if let Some(place) = came.iter_mut().find(|immediate| **immediate == Some(own)) {
                *place = None;
                self.told.push(slot.chunk);
                continue;
            }
            let bytes = &memory[slot.offset..][..slot.len];
            let partly = self.pattern.compare(slot.chunk, bytes).first.is_some();
            if self.rules.lossy && partly {
                // Its last packet is what was lost.
                continue;
            }
            if self.pattern.compare_complement(slot.chunk, bytes).first.is_some() {
                silent.push(slot.chunk);
            }
        }
        let mut foreign = came.into_iter().flatten();
        for chunk in silent {
            self.wrong_immediate(chunk, foreign.next().unwrap_or(0));
        }
        self.result.immediates_wrong += foreign.count() as u64;
    }

    fn wrong_immediate(&mut self, chunk: u64, found: u32) {
        self.result.immediates_wrong += 1;
        if self.result.first_wrong.is_empty() {
            let expected = self.pattern.immediate(chunk);
            self.result.first_wrong = format!(
                "chunk {chunk}: immediate data {found:#010x} came, {expected:#010x} was due"
            );
        }
    }

    /// The chunk that a message is, counted as corrupted when it is none: then it counts as the
    /// one that is due.
    fn name(&mut self, slot: &Slot, bytes: &[u8], batch: &Batch, newest: Option<u64>) -> u64 {
        let lanes = batch.slots.iter().map(|slot| slot.lane as u64 + 1).max().unwrap_or(1);
        let first_of_lane = batch.slots[0].chunk + slot.lane as u64;
        let due = newest.map_or(first_of_lane, |newest| newest + lanes);
        let is = |chunk: u64, len: usize| {
            bytes.len() == len && self.pattern.compare(chunk, bytes).first.is_none()
        };
        let expected = batch.slots.iter().find(|slot| slot.chunk == due).unwrap_or(slot);
        if is(expected.chunk, expected.len) {
            return expected.chunk;
        }
        if let Some(found) = batch.slots.iter().find(|slot| is(slot.chunk, slot.len)) {
            return found.chunk;
        }
        self.result.corrupted += 1;
        let difference = self.pattern.compare(expected.chunk, bytes);
        let missing = expected.len.saturating_sub(bytes.len()) as u64;
        self.result.bytes_wrong += difference.bytes + missing;
        let first = difference.first.unwrap_or(bytes.len());
        self.remember(expected, bytes, first, Content::Damaged);
        expected.chunk
    }

    fn count_expected(&mut self, batch: &Batch) {
        self.result.chunks += batch.slots.len() as u64;
        self.result.bytes_verified += batch.slots.iter().map(|slot| slot.len as u64).sum::<u64>();
    }

    /// A chunk was found where another belongs.
    fn elsewhere(&mut self, sightings: &mut Sightings, chunk: u64) {
        if sightings.knows(chunk) {
            sightings.add(chunk, true);
        } else {
            // From an earlier batch: it has come before.
            self.result.repeated += 1;
        }
    }

    fn conclude(&mut self, sightings: &Sightings) {
        for &(times, elsewhere) in &sightings.seen {
            match times {
                0 if self.rules.lossy => self.result.lost += 1,
                0 => self.result.dropped += 1,
                1 => self.result.misplaced += u64::from(elsewhere),
                more => self.result.repeated += u64::from(more - 1),
            }
        }
    }

    /// What the wrong `bytes` at `slot` are. Chunks shorter than a word cannot name themselves.
    fn identify(&self, slot: &Slot, bytes: &[u8], batch: &Batch) -> Content {
        let Some(touched) = self.pattern.compare_complement(slot.chunk, bytes).first else {
            return Content::Untouched;
        };
        // Up to a word earlier: the first foreign bytes may equal what was there before.
        for begin in (touched.saturating_sub(WORD - 1)..=touched).rev() {
            let Some(word) = bytes.get(begin..begin + WORD) else { continue };
            let mut first = [0; WORD];
            first.copy_from_slice(word);
            let (chunk, index) = self.pattern.decode(u64::from_le_bytes(first));
            let own_place = chunk == slot.chunk && begin == 0;
            if index != 0 || own_place || chunk > batch.slots[batch.slots.len() - 1].chunk {
                continue;
            }
            let len = batch.slots.iter().find(|slot| slot.chunk == chunk).map(|slot| slot.len);
            let end = bytes.len().min(begin + len.unwrap_or(bytes.len()));
            if self.pattern.compare(chunk, &bytes[begin..end]).first.is_none() {
                return Content::Other { chunk, rest: self.has_own(slot, bytes, begin, end) };
            }
        }
        Content::Damaged
    }

    /// Whether most of the bytes outside `begin..end` are what belongs at `slot`.
    fn has_own(&self, slot: &Slot, bytes: &[u8], begin: usize, end: usize) -> bool {
        let outside = bytes.len() - (end - begin);
        let right = (0..begin).chain(end..bytes.len());
        let right = right.filter(|&index| bytes[index] == self.pattern.byte(slot.chunk, index));
        outside > 0 && right.count() * 2 > outside
    }

    /// Counts changed bytes outside of the `filled` ranges (offset, length), which are in order.
    fn guards(&mut self, memory: &[u8], filled: impl Iterator<Item = (usize, usize)>) {
        let mut end = 0;
        let mut wrong = 0;
        let mut count = |bytes: &[u8]| {
            wrong += bytes.iter().filter(|byte| **byte != GUARD_BYTE).count() as u64;
        };
        for (offset, len) in filled {
            count(&memory[end..offset]);
            end = offset + len;
        }
        count(&memory[end..memory.len().min(end + GUARD)]);
        self.result.guard_bytes_wrong += wrong;
        if wrong > 0 && self.result.first_wrong.is_empty() {
            self.result.first_wrong =
                format!("{wrong} bytes beside the chunks were changed: a write went too far");
        }
    }

    fn remember(&mut self, slot: &Slot, bytes: &[u8], first: usize, content: Content) {
        if !self.result.first_wrong.is_empty() {
            return;
        }
        let what = match content {
            Content::Untouched => "it never came".to_owned(),
            Content::Other { chunk, .. } if chunk == slot.chunk => "it is shifted".to_owned(),
            Content::Other { chunk, .. } => format!("its place holds chunk {chunk}"),
            Content::Right | Content::Damaged => "it is damaged".to_owned(),
        };
        let found = bytes.get(first).map_or("nothing".into(), |byte| format!("{byte:#04x}"));
        let expected = self.pattern.byte(slot.chunk, first);
        self.result.first_wrong = format!(
            "chunk {} ({} B at offset {}), byte {first}: found {found}, expected {expected:#04x}: \
             {what}",
            slot.chunk, slot.len, slot.offset
        );
    }

    /// Names the first message that is absent, came twice or out of order.
    fn note_first_loss(&mut self, batch: &Batch, sightings: &Sightings) {
        let may_lack = self.rules.lossy;
        let odd = batch.slots.iter().find(|slot| match sightings.get(slot.chunk) {
            (0, _) => !may_lack,
            seen => seen != (1, false),
        });
        if let Some(slot) = odd.filter(|_| self.result.first_wrong.is_empty()) {
            let what = match sightings.get(slot.chunk) {
                (0, _) => "never came",
                (1, _) => "came out of order",
                _ => "came more than once",
            };
            self.result.first_wrong = format!("chunk {} ({} B) {what}", slot.chunk, slot.len);
        }
    }
}

/// The slot of a receive; one that an earlier batch left over may lie behind those of this batch.
fn place(batch: &Batch, index: usize, lanes: usize) -> Slot {
    let Some(first) = batch.slots.get(index).or(batch.slots.first()).copied() else {
        return Slot { chunk: 0, lane: 0, offset: 0, len: 0, room: 0 };
    };
    let offset = batch.slots[0].offset + index * (first.room + GUARD);
    Slot { lane: index % lanes, offset, ..first }
}

impl Sightings {
    fn of(batch: &Batch) -> Self {
        Sightings { first: batch.slots[0].chunk, seen: vec![(0, false); batch.slots.len()] }
    }

    fn knows(&self, chunk: u64) -> bool {
        chunk >= self.first && chunk - self.first < self.seen.len() as u64
    }

    fn add(&mut self, chunk: u64, elsewhere: bool) {
        if self.knows(chunk) {
            let (times, out_of_place) = &mut self.seen[(chunk - self.first) as usize];
            *times += 1;
            *out_of_place |= elsewhere;
        }
    }

    fn get(&self, chunk: u64) -> (u32, bool) {
        if self.knows(chunk) { self.seen[(chunk - self.first) as usize] } else { (0, false) }
    }

    fn times(&self, chunk: u64) -> u32 {
        self.get(chunk).0
    }

    fn len_of(&self, batch: &Batch, chunk: u64) -> u64 {
        if self.knows(chunk) { batch.slots[(chunk - self.first) as usize].len as u64 } else { 0 }
    }
}
