//! Faults on purpose over the in-process pair: each is reported with the exact counts.

use super::*;
use crate::engine::testing::both;
use crate::measure::clock::Clock;
use crate::transport::null::addressed::{Fault, LocalAddressed, Wrong, pair};
use layout::Slot;

const STALL: Duration = Duration::from_secs(10);
const VOLUME: u64 = 300_000;
const BUFFER: usize = 64 * 1024;
const SEED: u64 = 42;

fn plan(operation: Operation, sends: bool, receives: bool) -> Plan {
    Plan {
        operation,
        size: 4_096,
        mtu: 1_024,
        largest: None,
        lossy: false,
        ordered: true,
        volume_bytes: VOLUME,
        receives_per_lane: 8,
        buffer_bytes: None,
        seed: SEED,
        sends,
        receives,
    }
}

/// Payload from the end that posts operations, with `fault` in them, to the other; what the
/// receiver found.
fn transfer(operation: Operation, lanes: usize, fault: Option<Fault>) -> IntegrityResult {
    transfer_of(operation, lanes, VOLUME, fault)
}

pub(super) fn transfer_of(
    operation: Operation,
    lanes: usize,
    volume_bytes: u64,
    fault: Option<Fault>,
) -> IntegrityResult {
    let fetches = operation.fetches();
    let ours = Plan { volume_bytes, ..plan(operation, !fetches, fetches) };
    move_by(&ours, lanes, fault)
}

/// The same by the plan of the end that posts operations.
fn move_by(ours: &Plan, lanes: usize, fault: Option<Fault>) -> IntegrityResult {
    let (mut left, mut right) = pair(BUFFER, lanes, 32, fault);
    let theirs = Plan { sends: ours.receives, receives: ours.sends, ..*ours };
    let go = |end: &End, endpoint: &mut LocalAddressed, mut peer, plan: &Plan| {
        run(end, endpoint, &mut peer, &Clock, plan).unwrap()
    };
    let (a, b) = both(
        STALL,
        |end, peer| go(end, &mut left, peer, ours),
        |end, peer| go(end, &mut right, peer, &theirs),
    );
    assert!(a.is_none() || b.is_none());
    a.or(b).unwrap()
}

/// The first batch as both ends lay it out.
fn first_batch(operation: Operation, lanes: usize) -> Vec<Slot> {
    let uniform = operation.is_send();
    let sizes = mixed_sizes(4_096, 1_024, BUFFER / 2 - 2 * layout::GUARD);
    let most = if operation.takes_receive() { 8 * lanes } else { 65_536 };
    let shape = Shape { sizes, volume: VOLUME, limit: BUFFER, lanes, most, uniform };
    Layout::new(shape).next().unwrap().slots
}

/// Bytes of `chunk`, `len` of them, under the direction that payload takes here.
fn bytes_of(direction: u64, chunk: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Pattern::new(SEED, direction).fill(chunk, &mut bytes);
    bytes
}

fn differing(a: &[u8], b: &[u8]) -> u64 {
    a.iter().zip(b).filter(|(a, b)| a != b).count() as u64
}

/// dropped, repeated, misplaced, corrupted.
fn kinds(result: &IntegrityResult) -> [u64; 4] {
    [result.dropped, result.repeated, result.misplaced, result.corrupted]
}

const ALL: [Operation; 5] =
    [Operation::Send, Operation::SendImm, Operation::Write, Operation::WriteImm, Operation::Read];

#[test]
fn a_sound_path_is_right_in_every_byte() {
    for operation in ALL {
        for lanes in [1, 3] {
            let result = transfer(operation, lanes, None);
            let chunks = result.chunks;
            let right = IntegrityResult { bytes_verified: VOLUME, chunks, ..Default::default() };
            assert_eq!(result, right, "{operation:?}");
            assert!(chunks > 50, "{operation:?}: {chunks}");
        }
    }
}

#[test]
fn both_directions_are_verified_in_turn() {
    let (mut left, mut right) = pair(BUFFER, 2, 32, None);
    let plan = plan(Operation::Write, true, true);
    let (a, b) = both(
        STALL,
        |end, mut peer| run(end, &mut left, &mut peer, &Clock, &plan).unwrap().unwrap(),
        |end, mut peer| run(end, &mut right, &mut peer, &Clock, &plan).unwrap().unwrap(),
    );
    assert_eq!((a.bytes_verified, b.bytes_verified), (VOLUME, VOLUME));
    assert_eq!((a.bytes_wrong, b.bytes_wrong), (0, 0));
}

#[test]
fn a_dropped_chunk_is_wrong_in_all_of_its_bytes() {
    for operation in ALL {
        let slot = first_batch(operation, 2)[4];
        let result = transfer(operation, 2, Some(Fault { at: 4, wrong: Wrong::Drop }));
        assert_eq!(kinds(&result), [1, 0, 0, 0], "{operation:?}: {result:?}");
        assert_eq!(result.bytes_wrong, slot.len as u64, "{operation:?}");
        assert!(result.first_wrong.starts_with("chunk 4 ("), "{}", result.first_wrong);
        assert!(result.first_wrong.contains("never came"), "{}", result.first_wrong);
    }
}

#[test]
fn a_repeated_chunk_displaces_the_next() {
    // Chunks 4 and 5 have 1024 and 1025 bytes: all of 4 and one byte more in the place of 5.
    let slots = first_batch(Operation::Write, 1);
    let (first, next) = (slots[4], slots[5]);
    assert_eq!((first.len, next.len), (1_024, 1_025));
    let fault = Some(Fault { at: 4, wrong: Wrong::Repeat });
    let write = transfer(Operation::Write, 1, fault);
    assert_eq!(kinds(&write), [1, 1, 0, 0], "{write:?}");
    let (first, wanted) = (bytes_of(0, 4, 1_024), bytes_of(0, 5, 1_025));
    assert_eq!(write.bytes_wrong, differing(&first, &wanted) + 1, "one byte never came");
    assert!(write.first_wrong.contains("its place holds chunk 4"), "{}", write.first_wrong);
    let send = transfer(Operation::Send, 1, fault);
    assert_eq!(kinds(&send), [1, 1, 0, 0], "{send:?}");
    assert_eq!(send.bytes_wrong, 1_025);
}

#[test]
fn a_flipped_byte_is_one_wrong_byte() {
    for operation in ALL.into_iter().filter(|operation| !operation.fetches()) {
        for at in [0, 2, 7] {
            let slot = first_batch(operation, 1)[at];
            let index = slot.len - 1;
            let fault = Fault { at: at as u64, wrong: Wrong::Flip(index) };
            let result = transfer(operation, 1, Some(fault));
            assert_eq!(kinds(&result), [0, 0, 0, 1], "{operation:?} {at}: {result:?}");
            assert_eq!(result.bytes_wrong, 1);
            let named = format!("chunk {at} ({} B at offset", slot.len);
            assert!(result.first_wrong.starts_with(&named), "{}", result.first_wrong);
            assert!(result.first_wrong.contains(&format!("byte {index}:")));
        }
    }
}

#[test]
fn what_may_be_lost_is_counted_and_the_rest_compared() {
    let messages = ALL.into_iter().filter(|operation| !operation.fetches());
    for operation in messages {
        for lanes in [1, 3] {
            // The last batches have fewer chunks than the first, whose receives are left over.
            let lossy = Plan { lossy: true, ..plan(operation, true, false) };
            let sound = move_by(&lossy, lanes, None);
            assert_eq!((sound.lost, sound.bytes_verified), (0, VOLUME), "{operation:?}");
            let result = move_by(&lossy, lanes, Some(Fault { at: 4, wrong: Wrong::Drop }));
            let context = format!("{operation:?} over {lanes}: {result:?}");
            assert_eq!((result.lost, result.bytes_wrong), (1, 0), "{context}");
            assert_eq!((kinds(&result), result.immediates_wrong), ([0; 4], 0), "{context}");
            assert!(result.bytes_verified < VOLUME, "{context}");
            assert_eq!(
                (result.chunks, result.first_wrong.as_str()),
                (sound.chunks, ""),
                "{context}"
            );
        }
    }
}

#[test]
fn damage_is_no_loss() {
    for operation in [Operation::Send, Operation::SendImm, Operation::Write, Operation::WriteImm] {
        let lossy = Plan { lossy: true, ..plan(operation, true, false) };
        let result = move_by(&lossy, 1, Some(Fault { at: 2, wrong: Wrong::Flip(5) }));
        assert_eq!((result.lost, result.bytes_wrong, result.corrupted), (0, 1, 1), "{result:?}");
    }
    let lossy = Plan { lossy: true, ..plan(Operation::Send, true, false) };
    let result = move_by(&lossy, 1, Some(Fault { at: 3, wrong: Wrong::Misplace(0) }));
    assert_eq!((result.lost, result.misplaced), (0, 1), "{result:?}");
    let unordered = Plan { ordered: false, ..lossy };
    let result = move_by(&unordered, 1, Some(Fault { at: 3, wrong: Wrong::Misplace(0) }));
    assert_eq!((result.lost, kinds(&result), result.bytes_wrong), (0, [0; 4], 0), "{result:?}");
}

#[test]
fn a_flipped_immediate_is_told_and_no_byte_is_wrong() {
    for operation in [Operation::SendImm, Operation::WriteImm] {
        for lanes in [1, 2] {
            let fault = Fault { at: 5, wrong: Wrong::Immediate };
            let result = transfer(operation, lanes, Some(fault));
            assert_eq!((result.immediates_wrong, result.bytes_wrong), (1, 0), "{operation:?}");
            assert_eq!(kinds(&result), [0; 4], "{result:?}");
            assert!(result.first_wrong.starts_with("chunk 5: immediate data"), "{result:?}");
        }
    }
    let result = transfer(Operation::Send, 1, Some(Fault { at: 5, wrong: Wrong::Immediate }));
    assert_eq!((result.immediates_wrong, result.first_wrong.as_str()), (0, ""), "it has none");
}

#[test]
fn a_chunk_in_the_place_of_another_is_named() {
    // Chunks 4 and 15 have 1024 bytes, chunk 14 one less: what is over of 4 is its own then.
    for (operation, direction) in [(Operation::Write, 0), (Operation::Read, 1)] {
        for (moved, expected) in [(15, [1, 0, 1, 0]), (14, [0, 0, 1, 1])] {
            let slots = first_batch(operation, 1);
            let (from, over) = (slots[moved], slots[4]);
            let wrong = Wrong::Misplace(over.offset as u64);
            let result = transfer(operation, 1, Some(Fault { at: moved as u64, wrong }));
            assert_eq!(kinds(&result), expected, "{operation:?}: {result:?}");
            let (found, wanted) =
                (bytes_of(direction, moved as u64, from.len), bytes_of(direction, 4, over.len));
            assert_eq!(result.bytes_wrong, differing(&found, &wanted) + from.len as u64);
            let named = format!("its place holds chunk {moved}");
            assert!(result.first_wrong.ends_with(&named), "{}", result.first_wrong);
        }
    }
}

#[test]
fn a_shifted_chunk_is_misplaced_and_touches_the_guard() {
    for operation in [Operation::Write, Operation::Read] {
        let slot = first_batch(operation, 1)[5];
        let shifted = slot.offset as u64 + 3;
        let fault = Fault { at: 5, wrong: Wrong::Misplace(shifted) };
        let result = transfer(operation, 1, Some(fault));
        assert_eq!(kinds(&result), [0, 0, 1, 0], "{operation:?}: {result:?}");
        assert_eq!(result.guard_bytes_wrong, 3, "{result:?}");
        assert!(result.first_wrong.ends_with("it is shifted"), "{}", result.first_wrong);
    }
}

#[test]
fn messages_out_of_order_are_misplaced() {
    let slots = first_batch(Operation::Send, 1);
    let fault = Fault { at: 3, wrong: Wrong::Misplace(0) };
    let result = transfer(Operation::Send, 1, Some(fault));
    assert_eq!(kinds(&result), [0, 0, 1, 0], "{result:?}");
    assert_eq!(result.bytes_wrong, slots[3].len as u64);
    assert!(result.first_wrong.contains("out of order"), "{}", result.first_wrong);
}

#[test]
fn a_write_that_goes_too_far_is_seen_by_the_guard() {
    let fault = Fault { at: 7, wrong: Wrong::Overrun(5) };
    let result = transfer(Operation::Write, 1, Some(fault));
    assert_eq!((kinds(&result), result.bytes_wrong), ([0; 4], 0));
    assert_eq!(result.guard_bytes_wrong, 5);
    assert!(result.first_wrong.contains("went too far"), "{}", result.first_wrong);
}

#[test]
fn a_silent_peer_stalls_with_the_stage() {
    let (mut left, _right) = pair(BUFFER, 1, 32, None);
    let plan = plan(Operation::Write, true, false);
    let (a, ()) = both(
        Duration::ZERO,
        |end, mut peer| {
            let end = End { patience: Duration::from_millis(50), ..*end };
            run(&end, &mut left, &mut peer, &Clock, &plan).unwrap_err()
        },
        |_, peer| {
            std::thread::sleep(Duration::from_millis(300));
            drop(peer);
        },
    );
    assert_eq!((a.kind, a.operation.as_str()), (FailureKind::Stalled, "verify"));
}
