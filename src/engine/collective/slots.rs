//! Slots, credits and sequence numbers of the messages between two ranks.
//!
//! A rank has a number of slots for each peer, of one segment each. The peer writes message after
//! message, each to the next slot or straight to its place, and never has more messages out than
//! there are slots that the receiver has told to be free: the count of messages that were consumed
//! travels back in every message's immediate data, or in an empty one when there is none to send.
//!
//! With several queue pairs for a peer, messages take turns; the receiver puts them in order by
//! their sequence number.

use serde::{Deserialize, Serialize};

use super::carrier::GUARD;
use crate::transport::{Failure, FailureKind, Result};

/// Slots begin at cache lines.
const LINE: usize = 64;
/// Receives posted beyond the window, for credits.
pub const SPARE: u32 = 8;
/// Requests after which one is signalled, at the latest.
const SIGNAL_EVERY: u32 = 8;
/// Slots of a peer by default: four segments under way while four are reduced.
pub const SLOTS: usize = 8;
/// Largest segment, bytes.
pub const SEGMENT: usize = 256 * 1024;
/// Smallest segment into which a longer message is cut, bytes.
const LEAST_SEGMENT: usize = 64 * 1024;
/// Shortest slot of a slow link, bytes: one packet.
const SHORTEST: usize = 4096;
/// Slots of a rank take no more, bytes, unless the least segment does.
const MOST_SLOT_BYTES: usize = 64 << 20;
/// Handling of a segment times the speed of reduction, bytes: 1 µs at 10 GB/s.
const SEGMENT_COST: f64 = 10_000.0;

/// Marks immediate data that only tells of consumed messages.
const CREDIT: u32 = 1 << 31;
/// Marks the message of a barrier.
const BARRIER: u32 = 1 << 30;
/// Bits of the sequence number.
const SEQUENCE: u32 = (1 << 14) - 1;

/// What all ranks agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Bytes of the largest vector.
    pub vector: usize,
    /// Queue pairs to each peer.
    pub channels: usize,
    /// Bytes of a slot.
    pub segment: usize,
    /// Slots of each peer, which is the most messages under way to it.
    pub slots: usize,
}

impl Shape {
    /// For vectors of `vector` bytes among `ranks`, of which no more than `in_flight` bytes may be
    /// under way from each.
    pub fn new(vector: usize, ranks: usize, channels: usize, in_flight: Option<u64>) -> Shape {
        let places = ranks.saturating_sub(1).max(1) * SLOTS;
        let room = (MOST_SLOT_BYTES / places).max(LEAST_SEGMENT);
        let allowed = in_flight.map_or(usize::MAX, |bytes| {
            (usize::try_from(bytes).unwrap_or(usize::MAX) / places).max(SHORTEST)
        });
        let most = SEGMENT.min(room).min(allowed) / LINE * LINE;
        let segment = vector.max(1).next_multiple_of(LINE).min(most);
        Shape { vector, channels: channels.max(1), segment, slots: SLOTS }
    }

    /// Bytes of the segments into which messages of a vector of `bytes` are cut: the longer they
    /// are, the fewer; the shorter, the sooner the receiver can reduce. The optimum of a segmented
    /// ring, sqrt(2·o·S/(n·γ)), to a power of two.
    pub fn segment_of(&self, bytes: usize, ranks: usize) -> usize {
        let best = (2.0 * SEGMENT_COST * bytes as f64 / ranks.max(1) as f64).sqrt() as usize;
        best.next_power_of_two().max(LEAST_SEGMENT).min(self.segment)
    }

    /// Where the work vector begins; the input does at 0.
    pub fn work(&self) -> usize {
        (self.vector + GUARD).next_multiple_of(LINE)
    }

    /// Where the slots of a lane begin.
    pub fn slots_of(&self, lane: usize) -> usize {
        2 * self.work() + lane * self.slots * self.segment
    }

    /// Bytes of a rank's buffer with so many peers.
    pub fn buffer_len(&self, peers: usize) -> usize {
        self.slots_of(peers)
    }

    /// Receives that each queue pair needs.
    pub fn receives(&self) -> u32 {
        self.slots as u32 + SPARE
    }

    /// Requests that each queue pair may hold: the window, credits, and what is not yet known to be
    /// over.
    pub fn sends(&self) -> u32 {
        self.slots as u32 + 4 * SIGNAL_EVERY
    }
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of a move, with its length in bytes.
    Payload(u32),
    Barrier,
}

/// The state of the messages between this rank and one peer.
#[derive(Debug)]
pub(super) struct Traffic {
    shape: Shape,
    /// Where the peer keeps this rank's slots.
    there: usize,
    /// Messages sent, and how many of them the peer has consumed.
    sent: u64,
    freed: u64,
    /// Messages consumed, and how many the peer knows of.
    consumed: u64,
    told: u64,
    /// What has arrived and is not consumed, by slot.
    notes: Vec<Kind>,
    channels: Vec<Channel>,
}

/// One queue pair.
#[derive(Debug, Clone, Default)]
struct Channel {
    /// Messages that have arrived.
    arrived: u64,
    /// Requests posted, known to be over, and the last one whose memory must not change before.
    posted: u64,
    over: u64,
    held: u64,
    /// As `held`, when the run began.
    owed: u64,
    unsignalled: u32,
}

impl Traffic {
    /// With a peer that keeps this rank's slots from byte `there` on.
    pub(super) fn new(shape: Shape, there: usize) -> Traffic {
        Traffic {
            shape,
            there,
            sent: 0,
            freed: 0,
            consumed: 0,
            told: 0,
            notes: vec![Kind::Barrier; shape.slots],
            channels: vec![Channel::default(); shape.channels],
        }
    }

    /// Whether the peer has a slot free.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.sent - self.freed < self.shape.slots as u64
    }

    /// Offset of the next message's slot at the peer.
    #[inline]
    pub(super) fn slot_there(&self) -> u64 {
        let slot = (self.sent % self.shape.slots as u64) as usize;
        (self.there + slot * self.shape.segment) as u64
    }

    /// Offset of the next message to be consumed from the slots that begin at `here`.
    #[inline]
    pub(super) fn slot_here(&self, here: usize) -> u64 {
        let slot = (self.consumed % self.shape.slots as u64) as usize;
        (here + slot * self.shape.segment) as u64
    }

    /// Queue pair of the next message, and its immediate data.
    #[inline]
    pub(super) fn next(&self, barrier: bool) -> (usize, u32) {
        let mark = if barrier { BARRIER } else { 0 };
        let sequence = (self.sent as u32 & SEQUENCE) << 16;
        (self.channel(self.sent), mark | sequence | u32::from(self.consumed as u16))
    }

    /// Immediate data of an empty message that only tells what was consumed.
    #[inline]
    pub(super) fn credit(&self) -> u32 {
        CREDIT | u32::from(self.consumed as u16)
    }

    #[inline]
    fn channel(&self, sequence: u64) -> usize {
        (sequence % self.shape.channels as u64) as usize
    }

    /// Whether the next request on a queue pair should be signalled though nobody waits for it.
    #[inline]
    pub(super) fn signal_due(&self, channel: usize) -> bool {
        self.channels[channel].unsignalled + 1 >= SIGNAL_EVERY
    }

    /// Number that the next request on a queue pair has.
    #[inline]
    pub(super) fn request(&self, channel: usize) -> u64 {
        self.channels[channel].posted + 1
    }

    /// A request was posted; `holds` when its memory must not change before it is over.
    #[inline]
    pub(super) fn posted(&mut self, channel: usize, signalled: bool, holds: bool) {
        let channel = &mut self.channels[channel];
        channel.posted += 1;
        channel.unsignalled = if signalled { 0 } else { channel.unsignalled + 1 };
        if holds {
            channel.held = channel.posted;
        }
    }

    /// It was the next message.
    #[inline]
    pub(super) fn message_posted(&mut self) {
        self.sent += 1;
        self.told = self.consumed;
    }

    /// It was a credit.
    #[inline]
    pub(super) fn credit_posted(&mut self) {
        self.told = self.consumed;
    }

    /// Half of the window was consumed and the peer does not know.
    #[inline]
    pub(super) fn owes_credit(&self) -> bool {
        self.consumed - self.told >= self.shape.slots as u64 / 2
    }

    /// The request with this number, and those before it, are over.
    #[inline]
    pub(super) fn over(&mut self, channel: usize, request: u64) {
        self.channels[channel].over = request;
    }

    /// A run begins: what earlier ones have sent may not be changed before it has left.
    pub(super) fn begin(&mut self) {
        for channel in &mut self.channels {
            channel.owed = channel.held;
        }
    }

    /// What was sent before the run has left.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.channels.iter().all(|channel| channel.over >= channel.owed)
    }

    /// Queue pairs with requests that are not known to be over.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = usize> {
        let open = |(_, channel): &(usize, &Channel)| channel.over < channel.posted;
        self.channels.iter().enumerate().filter(open).map(|(index, _)| index)
    }

    /// Takes an arrival in.
    ///
    /// # Errors
    /// Internal, when the peer does not keep to the order or to the window.
    #[inline]
    pub(super) fn arrive(&mut self, channel: usize, immediate: u32, len: u32) -> Result<()> {
        let freed = (immediate as u16).wrapping_sub(self.freed as u16).cast_signed();
        self.freed += u64::try_from(freed).unwrap_or(0);
        if self.freed > self.sent {
            return Err(broken(format!(
                "{} of {} messages were reported consumed",
                self.freed, self.sent
            )));
        }
        if immediate & CREDIT != 0 {
            return Ok(());
        }
        let count = self.channels[channel].arrived;
        let sequence = count * self.shape.channels as u64 + channel as u64;
        self.channels[channel].arrived += 1;
        if (immediate >> 16) & SEQUENCE != sequence as u32 & SEQUENCE {
            let got = (immediate >> 16) & SEQUENCE;
            return Err(broken(format!("message {sequence} was due, and number {got} came")));
        }
        if sequence - self.consumed >= self.shape.slots as u64 {
            let most = self.shape.slots;
            return Err(broken(format!("more than {most} messages came: a slot is overwritten")));
        }
        let slot = (sequence % self.shape.slots as u64) as usize;
        self.notes[slot] =
            if immediate & BARRIER != 0 { Kind::Barrier } else { Kind::Payload(len) };
        Ok(())
    }

    /// The message that is to be consumed next, if it is here.
    #[inline]
    pub(super) fn due(&self) -> Option<Kind> {
        let channel = &self.channels[self.channel(self.consumed)];
        let here = channel.arrived > self.consumed / self.shape.channels as u64;
        here.then(|| self.notes[(self.consumed % self.shape.slots as u64) as usize])
    }

    /// It was consumed: its slot is free.
    #[inline]
    pub(super) fn consume(&mut self) {
        self.consumed += 1;
    }
}

#[cold]
fn broken(cause: String) -> Failure {
    let cause = format!("{cause}: the transport lost, repeated or mixed up messages");
    Failure::new(FailureKind::Internal, "receive", "messages", cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_follow_the_optimum_and_fit_their_slots() {
        let shape = Shape::new(64 << 20, 2, 1, None);
        assert_eq!(shape.segment, 256 << 10);
        // sqrt(2 · 1 µs · 10 GB/s · 1 MiB / 2) is 102 kB.
        assert_eq!(shape.segment_of(1 << 20, 2), 128 << 10);
        assert_eq!(shape.segment_of(64 << 20, 2), 256 << 10);
        assert_eq!(shape.segment_of(8, 2), 64 << 10);
        assert_eq!(Shape::new(100, 2, 1, None).segment, 128);
        assert_eq!(Shape::new(100, 2, 1, None).segment_of(100, 2), 128);
        assert_eq!(Shape::new(64 << 20, 64, 1, None).segment, 133_120);
        // A slow link: no more than 268 kB under way.
        let slow = Shape::new(64 << 20, 2, 1, Some(268_435));
        assert!(slow.segment * SLOTS <= 268_435 && slow.segment > 32_000);
        assert_eq!(slow.segment_of(64 << 20, 2), slow.segment);
    }

    #[test]
    fn a_window_closes_and_opens_by_what_was_consumed() {
        let shape = Shape { vector: 64, channels: 1, segment: 64, slots: 4 };
        let (mut a, mut b) = (Traffic::new(shape, 0), Traffic::new(shape, 0));
        for _ in 0..4 {
            assert!(a.has_room());
            let (channel, immediate) = a.next(false);
            a.message_posted();
            b.arrive(channel, immediate, 8).unwrap();
        }
        assert!(!a.has_room());
        assert!(!b.owes_credit());
        for _ in 0..2 {
            assert_eq!(b.due(), Some(Kind::Payload(8)));
            b.consume();
        }
        assert!(b.owes_credit());
        a.arrive(0, b.credit(), 0).unwrap();
        b.credit_posted();
        assert!(a.has_room() && !b.owes_credit());
    }

    #[test]
    fn counts_go_round_and_messages_of_several_queue_pairs_keep_their_order() {
        let shape = Shape { vector: 64, channels: 3, segment: 64, slots: 4 };
        let (mut a, mut b) = (Traffic::new(shape, 0), Traffic::new(shape, 0));
        for round in 0..200_000_u32 {
            let first = a.next(false);
            a.message_posted();
            let second = a.next(true);
            a.message_posted();
            assert_ne!(first.0, second.0);
            // The second overtakes.
            b.arrive(second.0, second.1, 0).unwrap();
            assert_eq!(b.due(), None);
            b.arrive(first.0, first.1, round).unwrap();
            assert_eq!(b.due(), Some(Kind::Payload(round)));
            b.consume();
            assert_eq!(b.due(), Some(Kind::Barrier));
            b.consume();
            a.arrive(0, b.credit(), 0).unwrap();
            b.credit_posted();
        }
    }

    #[test]
    fn a_repeated_a_lost_and_an_early_message_are_told() {
        let shape = Shape { vector: 64, channels: 1, segment: 64, slots: 2 };
        let fresh = || (Traffic::new(shape, 0), Traffic::new(shape, 0));
        let (a, mut b) = fresh();
        let (channel, immediate) = a.next(false);
        b.arrive(channel, immediate, 0).unwrap();
        let text = b.arrive(channel, immediate, 0).unwrap_err().to_string();
        assert!(text.contains("message 1 was due, and number 0 came"), "{text}");
        let (mut a, mut b) = fresh();
        a.message_posted();
        let (channel, immediate) = a.next(false);
        assert!(b.arrive(channel, immediate, 0).is_err());
        let (mut a, mut b) = fresh();
        for _ in 0..2 {
            let (channel, immediate) = a.next(false);
            a.message_posted();
            b.arrive(channel, immediate, 0).unwrap();
        }
        let (channel, immediate) = a.next(false);
        let text = b.arrive(channel, immediate, 0).unwrap_err().to_string();
        assert!(text.contains("a slot is overwritten"), "{text}");
    }
}
