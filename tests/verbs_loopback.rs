//! A device against itself: everything of the verbs transport that one process can see.
//!
//! Ignored by default. `FABBENCH_TEST_DEVICE=rxe0 cargo test --test verbs_loopback -- --ignored`
//! runs it; once asked for, a missing device is a failure.

mod counting;

use std::sync::atomic::AtomicBool;
use std::sync::{Barrier, mpsc};
use std::time::{Duration, Instant};

use fabbench::engine::collective::carrier::Carrier;
use fabbench::engine::collective::messages::{OverMemory, Standing};
use fabbench::engine::collective::slots::Shape;
use fabbench::engine::collective::{Algorithm, Collective, DataType, Reduction, Row, Sweep, sweep};
use fabbench::engine::{End, StageCell};
use fabbench::measure::clock::Clock;
use fabbench::session::protocol::{PortPath, Role};
use fabbench::transport::verbs::cq::{CompletionChannel, CompletionQueue, WorkCompletion};
use fabbench::transport::verbs::device::{Context, facts};
use fabbench::transport::verbs::error::Error;
use fabbench::transport::verbs::rc::{
    AddressedSpec, EndAddress, PreparedAddressed, PreparedStream, RcAddressed, RcStream, Service,
    StreamSpec,
};
use fabbench::transport::{
    Addressed, Completion, Failure, FailureKind, Operation, Request, Span, Stream,
};
use fabbench_harness::plan::Op;
use fabbench_harness::snapshot::GidKind;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const PATIENCE: Duration = Duration::from_secs(20);

fn device() -> String {
    std::env::var("FABBENCH_TEST_DEVICE").expect("FABBENCH_TEST_DEVICE names the device to test")
}

fn port() -> PortPath {
    let context = Context::open(&device()).unwrap();
    let gids = context.gids(1).unwrap();
    let best = gids.iter().find(|gid| gid.gid.to_ipv4_mapped().is_some()).or(gids.first());
    let attributes = context.query_port(1).unwrap();
    let ethernet = attributes.link_layer == 2;
    PortPath {
        device: device(),
        port: 1,
        gid_index: best.map_or(0, |gid| gid.index),
        gid_kind: best.map_or(GidKind::Ib, |gid| gid.kind),
        grh: ethernet,
        mtu: 128 << attributes.active_mtu,
        sl: 0,
        traffic_class: 0,
        timeout: 18,
        max_in_flight_bytes: None,
        tuning: Default::default(),
    }
}

fn spec(op: Op, size: u64) -> StreamSpec {
    StreamSpec {
        port: port(),
        op,
        service: Service::Reliable,
        size,
        lanes: 2,
        tx_depth: 16,
        rx_depth: 32,
        signal_every: 4,
        inline: None,
        latency: false,
    }
}

fn streams(spec: &StreamSpec) -> (RcStream, RcStream) {
    let (a, b) = (PreparedStream::new(spec).unwrap(), PreparedStream::new(spec).unwrap());
    let (of_a, of_b) = (a.address().clone(), b.address().clone());
    (a.connect(&of_b).unwrap(), b.connect(&of_a).unwrap())
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
    }
}

/// Sends `count` messages over each lane and returns (finished, arrived), when all are collected.
fn flow(a: &mut RcStream, b: &mut RcStream, count: u64, seen: bool) -> (u64, u64) {
    let mut finished = vec![0; a.lanes()];
    let mut started = vec![0; a.lanes()];
    let arrived_before = b.arrived().unwrap();
    until("the messages to start", || {
        for (lane, started) in started.iter_mut().enumerate() {
            let left = u32::try_from(count - *started).unwrap();
            *started += u64::from(a.start(lane, left.min(5)).unwrap());
        }
        a.finished(&mut finished).unwrap();
        b.arrived().unwrap();
        started.iter().all(|started| *started == count)
    });
    a.flush().unwrap();
    let all = count * a.lanes() as u64;
    until("the messages to finish and arrive", || {
        a.finished(&mut finished).unwrap();
        let arrived = b.arrived().unwrap() - arrived_before;
        finished.iter().sum::<u64>() == all && (!seen || arrived == all)
    });
    assert!(finished.iter().all(|finished| *finished == count), "{finished:?}");
    (finished.iter().sum(), b.arrived().unwrap() - arrived_before)
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn facts_show_the_device_and_its_port() {
    let facts = facts();
    assert_eq!(facts.problem, None);
    assert!(facts.library.starts_with("libibverbs.so.1."), "{}", facts.library);
    let device = facts.devices.iter().find(|entry| entry.name == device()).unwrap();
    assert_eq!(device.open_error, None);
    assert!(device.node_guid != 0 && device.max_qp > 0 && device.max_qp_wr > 0);
    let port = &device.ports[0];
    assert_eq!((port.port, port.state), (1, 4), "the port is active");
    assert!((1..=5).contains(&port.active_mtu) && port.max_msg_sz >= 1 << 20);
    assert!(!port.gids.is_empty());
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn names_that_are_not_there_are_told_with_what_is() {
    let error = Context::open("no_such_device").err().unwrap();
    let text = error.to_string();
    assert!(matches!(error, Error::Absent { what: "device", .. }));
    assert!(text.contains("no_such_device") && text.contains(&device()), "{text}");
    let error = Context::open(&device()).unwrap().query_port(77).err().unwrap();
    assert!(error.to_string().contains("has ports 1 to"), "{error}");
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn every_message_is_finished_and_arrives_once() {
    for op in [Op::Send, Op::SendImm, Op::Write, Op::WriteImm] {
        for size in [0, 1, 7, 8, 200, 1024, 4097, 65_536] {
            let (mut a, mut b) = streams(&spec(op, size));
            assert!(b.must_drain());
            for count in [1, 3, 100] {
                let counted = flow(&mut a, &mut b, count, true);
                assert_eq!(counted, (2 * count, 2 * count), "{op:?} of {size} bytes");
            }
            // And the other way, over the same queue pairs.
            assert_eq!(flow(&mut b, &mut a, 10, true), (20, 20), "{op:?} of {size} bytes back");
        }
    }
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn reads_and_atomics_finish_and_are_not_seen_by_the_peer() {
    let ops =
        [(Op::Read, 0), (Op::Read, 8), (Op::Read, 65_536), (Op::FetchAdd, 8), (Op::CmpSwap, 8)];
    for (op, size) in ops {
        let (mut a, mut b) = streams(&spec(op, size));
        assert!(!b.must_drain());
        assert_eq!(flow(&mut a, &mut b, 50, false), (100, 0), "{op:?} of {size} bytes");
    }
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn ping_pong_answers_every_message() {
    for (op, size, arrival) in [
        (Op::Write, 8, "memory"),
        (Op::Write, 1024, "memory"),
        (Op::Write, 65_536, "immediate"),
        (Op::Write, 7, "immediate"),
        (Op::WriteImm, 8, "immediate"),
        (Op::Send, 8, "receive"),
        (Op::SendImm, 8, "receive"),
    ] {
        let latency = StreamSpec { lanes: 1, latency: true, signal_every: 1, ..spec(op, size) };
        let (mut a, mut b) = streams(&latency);
        assert_eq!(a.effective()["arrival"], arrival, "{op:?} of {size} bytes");
        for round in 1..=200 {
            assert_eq!(a.start(0, 1).unwrap(), 1);
            until("the ping", || b.arrived().unwrap() == round);
            assert_eq!(b.start(0, 1).unwrap(), 1);
            until("the pong", || a.arrived().unwrap() == round);
            let mut finished = [0];
            until("the completions", || a.finished(&mut finished).unwrap() == 1);
            until("the completions", || b.finished(&mut finished).unwrap() == 1);
        }
    }
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn moving_messages_allocates_nothing() {
    for op in [Op::Send, Op::SendImm, Op::Write, Op::WriteImm, Op::Read, Op::FetchAdd] {
        let size = if op == Op::FetchAdd { 8 } else { 256 };
        let (mut a, mut b) = streams(&spec(op, size));
        let mut finished = [0, 0];
        let before = counting::allocations();
        until("the messages to finish", || {
            for lane in 0..2 {
                a.start(lane, 3).unwrap();
            }
            a.finished(&mut finished).unwrap();
            b.arrived().unwrap();
            a.idle(16).unwrap();
            finished.iter().sum::<u64>() > 1000
        });
        a.flush().unwrap();
        assert_eq!(counting::allocations() - before, 0, "{op:?}");
    }
    let (mut a, mut b) = addressed_ends();
    let local = Span { offset: 0, len: 64 };
    let before = counting::allocations();
    for id in 0..100 {
        assert!(b.post_receive(0, local, id).unwrap());
        let request =
            Request { operation: Operation::Send, local, signal: true, id, ..Request::default() };
        assert!(a.post(&request).unwrap());
        assert_eq!((completion(&mut a).id, completion(&mut b).id), (id, id));
    }
    assert_eq!(counting::allocations() - before, 0);
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn a_full_window_takes_no_more_and_frees_up() {
    let (mut a, mut b) = streams(&StreamSpec { lanes: 1, ..spec(Op::Send, 64) });
    let depth = a.effective()["tx_depth"].as_u64().unwrap();
    assert_eq!(u64::from(a.start(0, 1000).unwrap()), depth);
    assert_eq!(a.start(0, 1).unwrap(), 0);
    let mut finished = [0];
    until("the window to free up", || {
        b.arrived().unwrap();
        a.finished(&mut finished).unwrap();
        finished[0] == depth
    });
    assert_eq!(a.start(0, 1).unwrap(), 1);
}

fn addressed_ends() -> (RcAddressed, RcAddressed) {
    addressed_over(Service::Reliable)
}

fn addressed_over(service: Service) -> (RcAddressed, RcAddressed) {
    let spec = AddressedSpec {
        port: port(),
        lanes: 2,
        tx_depth: 8,
        rx_depth: 8,
        buffer_len: 1 << 20,
        inline: 0,
    };
    let end = || PreparedAddressed::over(&spec, service).unwrap();
    let (a, b) = (end(), end());
    let (of_a, of_b) = (a.address().clone(), b.address().clone());
    (a.connect(&of_b).unwrap(), b.connect(&of_a).unwrap())
}

fn completion(end: &mut RcAddressed) -> Completion {
    let mut done = [Completion::default(); 1];
    until("a completion", || end.poll(&mut done).unwrap() == 1);
    done[0]
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn bytes_go_where_they_are_addressed_and_nowhere_else() {
    let (mut a, mut b) = addressed_ends();
    assert_eq!((a.lanes(), a.remote_len()), (2, 1 << 20));
    let pattern: Vec<u8> = (0..10_000_u32).map(|i| (i % 251) as u8 + 1).collect();
    a.memory()[500..10_500].copy_from_slice(&pattern);
    let local = Span { offset: 500, len: 10_000 };
    for (operation, lane, at) in [
        (Operation::Write, 0, 1_000),
        (Operation::WriteImm, 1, 100_001),
        (Operation::Send, 1, 300_003),
        (Operation::SendImm, 0, 300_003),
    ] {
        let receive = Span { offset: 300_003, len: 20_000 };
        if operation != Operation::Write {
            assert!(b.post_receive(lane, receive, 7).unwrap());
        }
        let request = Request {
            operation,
            lane,
            local,
            remote_offset: at,
            immediate: 0xfeed,
            signal: true,
            id: 42,
            ..Request::default()
        };
        assert!(a.post(&request).unwrap());
        let done = completion(&mut a);
        assert_eq!(done, Completion { id: 42, lane, ..Completion::default() });
        if operation != Operation::Write {
            let immediate = if operation.has_immediate() { 0xfeed } else { 0 };
            let arrival = Completion { id: 7, lane, arrival: true, len: 10_000, immediate };
            assert_eq!(completion(&mut b), arrival);
        }
        let at = at as usize;
        let memory = b.memory();
        assert!(memory[at..at + 10_000] == pattern[..], "{operation:?}");
        memory[at..at + 10_000].fill(0);
        assert!(memory.iter().all(|byte| *byte == 0), "{operation:?} wrote elsewhere");
    }
    assert_eq!((a.guard_bytes_wrong(), b.guard_bytes_wrong()), (0, 0));
    let read = Request {
        operation: Operation::Read,
        local: Span { offset: 0, len: 10_000 },
        remote_offset: 500,
        signal: true,
        ..Request::default()
    };
    assert!(b.post(&read).unwrap());
    completion(&mut b);
    assert!(b.memory()[..10_000] == pattern[..]);
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn unreliable_connections_and_datagrams_move_every_message_of_a_sound_path() {
    let mtu = port().mtu as u64;
    let unreliable = [Op::Send, Op::SendImm, Op::Write, Op::WriteImm]
        .map(|op| [0, 7, 8, 4097, 65_536].map(|size| (Service::Unreliable, op, size)).to_vec());
    let datagram = [Op::Send, Op::SendImm]
        .map(|op| [0, 8, 1023, mtu].map(|size| (Service::Datagram, op, size)).to_vec());
    for (service, op, size) in [unreliable.concat(), datagram.concat()].concat() {
        let (mut a, mut b) = streams(&StreamSpec { service, ..spec(op, size) });
        for count in [1, 3, 400] {
            let counted = flow(&mut a, &mut b, count, true);
            assert_eq!(counted, (2 * count, 2 * count), "{service:?} {op:?} of {size} bytes");
        }
        assert_eq!(flow(&mut b, &mut a, 10, true), (20, 20), "{service:?} {op:?} back");
    }
}

fn sharing(spec: StreamSpec) -> StreamSpec {
    let mut spec = StreamSpec { lanes: 3, ..spec };
    spec.port.tuning.srq = true;
    spec
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn queue_pairs_that_share_their_receives_lose_nothing() {
    let mtu = port().mtu as u64;
    let cases = [
        (Service::Reliable, Op::Send, 0),
        (Service::Reliable, Op::Send, 8),
        (Service::Reliable, Op::SendImm, 65_536),
        (Service::Datagram, Op::Send, mtu),
        (Service::Datagram, Op::SendImm, 8),
    ];
    for (service, op, size) in cases {
        let (mut a, mut b) = streams(&sharing(StreamSpec { service, ..spec(op, size) }));
        let effective = b.effective();
        let of_each = effective["rx_depth"].as_u64().unwrap();
        assert_eq!(
            (&effective["srq"], &effective["srq_receives"]),
            (&true.into(), &(3 * of_each).into())
        );
        assert!(effective["max_srq_wr"].as_u64().unwrap() >= 3 * of_each);
        for count in [1, 3, 400] {
            let counted = flow(&mut a, &mut b, count, true);
            assert_eq!(counted, (3 * count, 3 * count), "{service:?} {op:?} of {size} bytes");
        }
        assert_eq!(flow(&mut b, &mut a, 10, true), (30, 30), "{service:?} {op:?} back");
    }
    let (a, _b) = streams(&sharing(spec(Op::Write, 8)));
    assert_eq!(a.effective().get("srq"), None, "a WRITE has no receives to share");
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn one_lane_may_use_up_what_all_share() {
    let (mut a, mut b) = streams(&sharing(spec(Op::Send, 64)));
    let mut finished = vec![0; a.lanes()];
    let before = counting::allocations();
    until("the messages to arrive", || {
        a.start(2, 5).unwrap();
        a.finished(&mut finished).unwrap();
        b.arrived().unwrap() > 1000
    });
    assert_eq!(counting::allocations() - before, 0);
    assert_eq!(finished[..2], [0, 0]);
}

fn extended(spec: StreamSpec) -> StreamSpec {
    let mut spec = spec;
    spec.port.tuning.extended = true;
    spec
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn extended_verbs_move_what_classic_ones_do() {
    use Service::{Datagram, Reliable, Unreliable};
    let cases = [
        (Reliable, Op::Send, 0),
        (Reliable, Op::Send, 65_536),
        (Reliable, Op::SendImm, 8),
        (Reliable, Op::Write, 0),
        (Reliable, Op::Write, 4097),
        (Reliable, Op::WriteImm, 200),
        (Reliable, Op::Read, 65_536),
        (Reliable, Op::FetchAdd, 8),
        (Reliable, Op::CmpSwap, 8),
        (Unreliable, Op::Write, 65_536),
        (Unreliable, Op::SendImm, 8),
        (Datagram, Op::Send, 1024),
        (Datagram, Op::SendImm, 0),
    ];
    for (service, op, size) in cases {
        let (mut a, mut b) = streams(&extended(StreamSpec { service, ..spec(op, size) }));
        assert_eq!(a.effective()["verbs"], "ibv_wr_*, CQ ex");
        let seen = !op.fetches();
        for count in [1, 3, 200] {
            let arrived = if seen { 2 * count } else { 0 };
            let counted = flow(&mut a, &mut b, count, seen);
            assert_eq!(counted, (2 * count, arrived), "{service:?} {op:?} of {size} bytes");
        }
    }
    let (mut a, mut b) = streams(&extended(sharing(spec(Op::Send, 64))));
    assert_eq!(flow(&mut a, &mut b, 100, true), (300, 300), "with shared receives");
    let mut finished = vec![0; a.lanes()];
    let before = counting::allocations();
    until("the messages to arrive", || {
        a.start(0, 5).unwrap();
        a.finished(&mut finished).unwrap();
        b.arrived().unwrap() > 1000
    });
    assert_eq!(counting::allocations() - before, 0);
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn a_failed_completion_says_the_same_by_extended_verbs() {
    let mut spec = extended(StreamSpec { lanes: 1, ..spec(Op::Write, 64) });
    spec.port.tuning.retry_count = Some(1);
    let (mut a, b) = streams(&spec);
    drop(b);
    a.start(0, 4).unwrap();
    let mut finished = [0];
    let deadline = Instant::now() + PATIENCE;
    let failure = loop {
        match a.finished(&mut finished) {
            Err(failure) => break failure,
            Ok(_) => assert!(Instant::now() < deadline, "the peer is gone, and nobody says so"),
        }
    };
    assert_eq!(failure.kind, FailureKind::PeerLost, "{failure}");
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn a_sender_that_may_lose_waits_for_receives() {
    for (service, op) in [(Service::Datagram, Op::Send), (Service::Unreliable, Op::WriteImm)] {
        let narrow = StreamSpec { lanes: 1, rx_depth: 1, tx_depth: 4, ..spec(op, 64) };
        let (mut a, mut b) = streams(&StreamSpec { service, ..narrow });
        let (mut started, mut finished) = (0, [0]);
        // The peer has 64 receives and looks at none: 16 are kept for credits.
        until("the receives to be used up", || {
            started += u64::from(a.start(0, 4).unwrap());
            a.finished(&mut finished).unwrap();
            finished[0] == 48
        });
        assert_eq!((started, a.start(0, 4).unwrap()), (48, 0), "{service:?}");
        until("what was sent to arrive", || b.arrived().unwrap() == 48);
        until("credit to come", || a.start(0, 1).unwrap() == 1);
    }
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn a_datagram_brings_its_bytes_without_the_header() {
    for (service, operation) in [
        (Service::Datagram, Operation::SendImm),
        (Service::Unreliable, Operation::SendImm),
        (Service::Unreliable, Operation::WriteImm),
    ] {
        let (mut a, mut b) = addressed_over(service);
        let pattern: Vec<u8> = (0..1_000_u32).map(|i| (i % 251) as u8 + 1).collect();
        a.memory()[..1_000].copy_from_slice(&pattern);
        let receive = Span { offset: 8_000, len: 1_024 };
        assert!(b.post_receive(1, receive, 7).unwrap());
        let request = Request {
            operation,
            lane: 1,
            local: Span { offset: 0, len: 1_000 },
            remote_offset: 8_000,
            immediate: 0xfeed,
            signal: true,
            id: 42,
            ..Request::default()
        };
        assert!(a.post(&request).unwrap());
        assert_eq!(completion(&mut a), Completion { id: 42, lane: 1, ..Completion::default() });
        let arrival = Completion { id: 7, lane: 1, arrival: true, len: 1_000, immediate: 0xfeed };
        assert_eq!(completion(&mut b), arrival, "{service:?}");
        let memory = b.memory();
        assert!(memory[8_000..9_000] == pattern[..]);
        memory[8_000..9_000].fill(0);
        assert!(memory.iter().all(|byte| *byte == 0), "the header went elsewhere");
    }
    let (mut a, _b) = addressed_over(Service::Datagram);
    let write = Request { operation: Operation::Write, ..Request::default() };
    assert_eq!(a.post(&write).unwrap_err().kind, FailureKind::Internal);
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn atomics_change_the_peers_word_and_bring_back_what_stood_there() {
    let (mut a, mut b) = addressed_ends();
    b.memory()[64..72].copy_from_slice(&0xffff_fff0_u64.to_ne_bytes());
    let mut atomic = |operation, add_or_compare, swap| {
        let local = Span { offset: 8, len: 8 };
        let request = Request { operation, local, remote_offset: 64, ..Request::default() };
        let request = Request { add_or_compare, swap, signal: true, ..request };
        assert!(a.post(&request).unwrap());
        completion(&mut a);
        u64::from_ne_bytes(a.memory()[8..16].try_into().unwrap())
    };
    assert_eq!(atomic(Operation::FetchAdd, 0x20, 0), 0xffff_fff0);
    assert_eq!(atomic(Operation::FetchAdd, u64::MAX, 0), 0x1_0000_0010, "it carries into the top");
    assert_eq!(atomic(Operation::CmpSwap, 7, 8), 0x1_0000_000f, "it is not 7");
    assert_eq!(atomic(Operation::CmpSwap, 0x1_0000_000f, 9), 0x1_0000_000f);
    assert_eq!(b.memory()[64..72], 9_u64.to_ne_bytes());
    for (offset, len) in [(60, 8), (64, 4)] {
        let local = Span { offset: 8, len };
        let operation = Operation::FetchAdd;
        let request = Request { operation, local, remote_offset: offset, ..Request::default() };
        assert_eq!(a.post(&request).unwrap_err().kind, FailureKind::Internal);
    }
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn unsignalled_requests_free_their_places_with_the_next_signalled_one() {
    let (mut a, _b) = addressed_ends();
    let request = |signal| Request {
        operation: Operation::Write,
        local: Span { offset: 0, len: 64 },
        signal,
        ..Request::default()
    };
    for _ in 0..7 {
        assert!(a.post(&request(false)).unwrap());
    }
    assert!(a.post(&request(true)).unwrap());
    assert!(!a.post(&request(true)).unwrap(), "the queue is full");
    completion(&mut a);
    for _ in 0..8 {
        assert!(a.post(&request(true)).unwrap());
    }
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn ranges_outside_a_buffer_are_refused_before_they_are_posted() {
    let (mut a, _b) = addressed_ends();
    for (offset, remote_offset) in [((1 << 20) - 63, 0), (0, (1 << 20) - 63), (0, u64::MAX)] {
        let local = Span { offset, len: 64 };
        let operation = Operation::Write;
        let request = Request { operation, local, remote_offset, ..Request::default() };
        assert_eq!(a.post(&request).unwrap_err().kind, FailureKind::Internal);
    }
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn a_wrong_key_is_an_access_error_in_plain_words() {
    let spec = AddressedSpec {
        port: port(),
        lanes: 1,
        tx_depth: 4,
        rx_depth: 4,
        buffer_len: 4096,
        inline: 0,
    };
    let (a, b) = (PreparedAddressed::new(&spec).unwrap(), PreparedAddressed::new(&spec).unwrap());
    let of_a = a.address().clone();
    let of_b = EndAddress { key: b.address().key ^ 0x5500, ..b.address().clone() };
    let (mut a, _b) = (a.connect(&of_b).unwrap(), b.connect(&of_a).unwrap());
    for _ in 0..2 {
        let local = Span { offset: 0, len: 64 };
        let operation = Operation::Write;
        a.post(&Request { operation, local, signal: true, ..Request::default() }).unwrap();
    }
    let mut done = [Completion::default(); 4];
    let mut failure = None;
    until("the error", || {
        failure = a.poll(&mut done).err();
        failure.is_some()
    });
    let text = failure.unwrap().to_string();
    assert!(text.contains("REM_ACCESS_ERR") && text.contains("vendor error"), "{text}");
    assert!(text.contains("stale remote key"), "{text}");
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn soft_roce_is_known_as_such_and_gets_no_short_timeout() {
    // Only rdma_rxe names the interface that it runs on in this way.
    let parent = format!("/sys/class/infiniband/{}/parent", device());
    let is_rxe = std::path::Path::new(&parent).exists();
    assert_eq!(Context::open(&device()).unwrap().quirks().driver == "rdma_rxe", is_rxe);
    let mut spec = spec(Op::Send, 8);
    spec.port.timeout = 14;
    let (a, _b) = streams(&spec);
    assert_eq!(a.effective()["timeout"], if is_rxe { 18 } else { 14 });
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn objects_may_be_dropped_in_any_order() {
    let (mut a, b) = streams(&spec(Op::Write, 65_536));
    a.start(0, 8).unwrap();
    drop(a);
    drop(b);
    let (mut a, b) = streams(&spec(Op::Send, 8));
    drop(b);
    a.start(0, 1).unwrap();
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn a_gid_index_that_is_not_there_is_told_with_those_that_are() {
    let mut spec = spec(Op::Send, 8);
    if !spec.port.grh {
        return;
    }
    spec.port.gid_index = 250;
    let failure = PreparedStream::new(&spec).err().unwrap();
    assert_eq!(failure.kind, FailureKind::Missing);
    assert!(failure.cause.contains("index 250 was chosen, there are: "), "{failure}");
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn waiting_for_a_completion_that_does_not_come_ends_at_the_deadline() {
    let context = Context::open(&device()).unwrap();
    let channel = CompletionChannel::new(&context).unwrap();
    let queue = CompletionQueue::new(&context, 16, Some(&channel)).unwrap();
    drop((context, channel));
    queue.arm().unwrap();
    assert_eq!(queue.poll(&mut [WorkCompletion::EMPTY]).unwrap(), 0);
    let begin = Instant::now();
    assert!(!queue.wait(begin + Duration::from_millis(50)).unwrap());
    assert!((50..5000).contains(&begin.elapsed().as_millis()));
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn a_quiet_device_has_no_event_that_ends_a_test() {
    let context = Context::open(&device()).unwrap();
    context.check_events().unwrap();
    assert_eq!(context.poll_event().unwrap(), None);
}

/// One rank of a sweep, from its queue pairs to its rows. `mail` brings an address from each peer,
/// and takes one to each.
fn rank(
    sweep: &Sweep,
    shape: Shape,
    mail: &(Vec<mpsc::Sender<EndAddress>>, Vec<mpsc::Receiver<EndAddress>>),
    all_here: &Barrier,
) -> Result<Vec<Row>, Failure> {
    let (me, ranks) = (sweep.rank, sweep.hosts.len());
    let peers = sweep.peers().unwrap();
    let prepared = PreparedAddressed::new(&AddressedSpec {
        port: port(),
        lanes: peers.len() * shape.channels,
        tx_depth: shape.sends(),
        rx_depth: shape.receives(),
        buffer_len: shape.buffer_len(peers.len()),
        inline: 64,
    })?;
    for (at, &peer) in peers.iter().enumerate() {
        mail.0[peer].send(prepared.address_for(at, peers.len())).unwrap();
    }
    let theirs: Vec<EndAddress> =
        peers.iter().map(|&peer| mail.1[peer].recv_timeout(PATIENCE).unwrap()).collect();
    let mut wires = prepared.connect_each(&theirs)?;
    let place = |peer: usize| {
        let theirs = Sweep { rank: peer, ..sweep.clone() }.peers().unwrap();
        theirs.binary_search(&me).unwrap()
    };
    let peers = peers.iter().map(|&peer| (peer, place(peer))).collect();
    let standing = Standing { collective: sweep.collective, ranks, peers };
    let (abort, stage, object) = (AtomicBool::new(false), StageCell::new(), format!("rank {me}"));
    let end = End {
        role: Role::Initiator,
        object: &object,
        abort: &abort,
        stage: &stage,
        patience: PATIENCE,
        stall: PATIENCE,
    };
    let mut rows = Vec::new();
    let mut carrier = OverMemory::new(&end, &mut wires, &Clock, shape, standing)?;
    all_here.wait();
    sweep::run(&end, &mut carrier, &Clock, sweep, &mut |row| rows.push(row))?;
    carrier.barrier(me, ranks)?;
    carrier.close()?;
    all_here.wait();
    assert_eq!(wires.guard_bytes_wrong(), 0);
    Ok(rows)
}

/// All ranks of a sweep over one device; rows by rank.
fn sweep_among(ranks: usize, channels: usize, segment: usize, sweep: &Sweep) -> Vec<Vec<Row>> {
    let shape = Shape { segment, ..Shape::new(sweep.largest(), ranks, channels, None) };
    let (mut to, mut from) = (vec![Vec::new(); ranks], Vec::new());
    for _ in 0..ranks {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..ranks).map(|_| mpsc::channel()).unzip();
        senders.into_iter().enumerate().for_each(|(peer, sender)| to[peer].push(sender));
        from.push(receivers);
    }
    let all_here = &Barrier::new(ranks);
    std::thread::scope(|scope| {
        let threads: Vec<_> = to
            .into_iter()
            .zip(from)
            .enumerate()
            .map(|(me, mail)| {
                let sweep = Sweep { rank: me, ..sweep.clone() };
                scope.spawn(move || rank(&sweep, shape, &mail, all_here).unwrap())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn all_reduce(ranks: usize, sizes: Vec<u64>) -> Sweep {
    Sweep {
        collective: Collective::AllReduce,
        algorithms: Algorithm::ALL.to_vec(),
        kind: DataType::F32,
        reduction: Reduction::Sum,
        hosts: (0..ranks).collect(),
        rank: 0,
        root: 0,
        sizes,
        iterations: 1,
        warmups: 0,
        reduces: true,
        seed: 7,
    }
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn collectives_of_odd_sizes_are_right_among_two_to_four_ranks() {
    for ranks in [2, 3, 4] {
        // 0, 1, N-1, N and N+1 elements, and several segments that end oddly; the slower the more
        // ranks share a CPU.
        let n = ranks as u64;
        let odd: &[u64] = if ranks == 3 { &[0, 1, 2, 3, 4, 10_007] } else { &[n + 1, 10_007] };
        let sizes = odd.iter().map(|elements| 4 * elements).collect();
        let sweep = all_reduce(ranks, sizes);
        for rows in sweep_among(ranks, 1 + ranks % 2, 4096, &sweep) {
            assert_eq!(rows.len(), 5 * odd.len() * 2);
            for row in rows {
                let name = (ranks, sweep.algorithms[row.algorithm], row.size_bytes, row.in_place);
                assert_eq!((row.wrong, row.first_wrong.as_str()), (0, ""), "{name:?}");
                assert!(row.compared > 0 || row.size_bytes == 0, "{name:?}");
            }
        }
    }
}

#[test]
#[ignore = "needs a device: FABBENCH_TEST_DEVICE"]
fn the_other_collectives_are_right_and_send_what_is_theirs() {
    for collective in Collective::ALL {
        let algorithms = collective.algorithms().to_vec();
        let sweep = Sweep { collective, algorithms, ..all_reduce(3, vec![12, 60_000]) };
        for row in sweep_among(3, 1, 8192, &sweep).into_iter().flatten() {
            assert_eq!(row.wrong, 0, "{collective:?}: {}", row.first_wrong);
            if collective == Collective::AllGather {
                assert_eq!((row.messages, row.bytes), (2, 2 * row.size_bytes / 3));
            }
        }
    }
}
