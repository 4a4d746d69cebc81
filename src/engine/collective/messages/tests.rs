//! N ranks in one process over a memory that behaves as badly as an adapter may: what is sent is
//! read late, lands early and completes late, in an order of its own for each queue pair.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::engine::collective::schedule::{Algorithm, Schedule, Scope};
use crate::engine::collective::sockets::Arithmetic;
use crate::engine::collective::types::{DataType, Reduction};
use crate::engine::collective::values::{Found, POISON, Values};
use crate::engine::{End, StageCell};
use crate::measure::clock::Clock;
use crate::session::protocol::Role;

/// What goes wrong with what rank 0 sends to rank 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// One bit of the first element of this message.
    Flip(usize),
    /// This message and the next one change places.
    Swap(usize),
    /// The bytes of this message and of the next one do.
    Mix(usize),
    /// This message never comes.
    Drop(usize),
}

#[derive(Debug, Clone)]
struct Parcel {
    offset: u64,
    bytes: Vec<u8>,
    immediate: Option<u32>,
}

type Queue = Arc<Mutex<VecDeque<Parcel>>>;

/// One rank's adapter.
struct Mesh {
    memory: Vec<u8>,
    /// Of each lane: where it leads, what comes in by it, what is posted and not yet read.
    out: Vec<Queue>,
    into: Vec<Queue>,
    posted: Vec<VecDeque<(Request, Option<Vec<u8>>)>>,
    receives: Vec<u32>,
    done: Vec<VecDeque<Completion>>,
    under_way: Vec<u32>,
    depth: u32,
    random: u64,
    /// Lane, and fault in what leaves by it; how many left so far, and what is held back.
    fault: Option<(usize, Fault)>,
    left: usize,
    held: Option<Parcel>,
    /// WRITEs with immediate data and payload: messages and bytes.
    counted: (u64, u64),
}

/// Bytes that are read when they are posted.
const INLINE: u32 = 16;

impl Mesh {
    fn chance(&mut self) -> bool {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33).is_multiple_of(2)
    }

    /// Reads and sends what may as well go now.
    fn depart(&mut self) {
        for lane in 0..self.out.len() {
            while !self.posted[lane].is_empty() && self.chance() {
                let (request, inline) = self.posted[lane].pop_front().unwrap();
                let (from, len) = (request.local.offset as usize, request.local.len as usize);
                let bytes = inline.unwrap_or_else(|| self.memory[from..from + len].to_vec());
                let immediate = request.operation.has_immediate().then_some(request.immediate);
                self.send(lane, Parcel { offset: request.remote_offset, bytes, immediate });
                self.under_way[lane] -= 1;
                if request.signal {
                    let done = Completion { id: request.id, lane, ..Completion::default() };
                    self.done[lane].push_back(done);
                }
            }
        }
    }

    fn send(&mut self, lane: usize, mut parcel: Parcel) {
        let mut all = vec![parcel.clone()];
        if let Some((_, fault)) = self.fault.filter(|(at, _)| *at == lane) {
            let at = self.left;
            self.left += 1;
            match fault {
                // Of the exponent.
                Fault::Flip(n) if n == at => all[0].bytes[3] ^= 0x40,
                Fault::Drop(n) if n == at => all.clear(),
                Fault::Swap(n) | Fault::Mix(n) if n == at => {
                    self.held = Some(parcel);
                    all.clear();
                }
                Fault::Swap(n) if n + 1 == at => all.extend(self.held.take()),
                Fault::Mix(n) if n + 1 == at => {
                    let mut first = self.held.take().unwrap();
                    std::mem::swap(&mut first.bytes, &mut parcel.bytes);
                    all = vec![first, parcel];
                }
                _ => {}
            }
        }
        self.out[lane].lock().unwrap().extend(all);
    }

    /// Lets everything that was sent land.
    fn land(&mut self) {
        for lane in 0..self.into.len() {
            let parcels: Vec<Parcel> = self.into[lane].lock().unwrap().drain(..).collect();
            for parcel in parcels {
                self.memory[parcel.offset as usize..][..parcel.bytes.len()]
                    .copy_from_slice(&parcel.bytes);
                let Some(immediate) = parcel.immediate else { continue };
                assert!(self.receives[lane] > 0, "no receive is posted: RNR");
                self.receives[lane] -= 1;
                let len = parcel.bytes.len() as u32;
                let arrival = Completion { id: 0, lane, arrival: true, len, immediate };
                self.done[lane].push_back(arrival);
            }
        }
    }
}

impl Addressed for Mesh {
    fn lanes(&self) -> usize {
        self.out.len()
    }

    fn post(&mut self, request: &Request) -> Result<bool> {
        self.land();
        let lane = request.lane;
        if self.under_way[lane] >= self.depth {
            return Ok(false);
        }
        self.under_way[lane] += 1;
        let (from, len) = (request.local.offset as usize, request.local.len as usize);
        let inline = (request.local.len <= INLINE).then(|| self.memory[from..from + len].to_vec());
        if request.operation == Operation::WriteImm && request.immediate >> 30 == 0 {
            self.counted = (self.counted.0 + 1, self.counted.1 + len as u64);
        }
        self.posted[lane].push_back((*request, inline));
        Ok(true)
    }

    fn post_receive(&mut self, lane: usize, _: Span, _: u64) -> Result<bool> {
        self.receives[lane] += 1;
        Ok(true)
    }

    fn poll(&mut self, done: &mut [Completion]) -> Result<usize> {
        self.depart();
        self.land();
        let mut count = 0;
        for lane in 0..self.done.len() {
            while count < done.len() && !self.done[lane].is_empty() && self.chance() {
                done[count] = self.done[lane].pop_front().unwrap();
                count += 1;
            }
        }
        Ok(count)
    }

    fn memory(&mut self) -> &mut [u8] {
        self.land();
        &mut self.memory
    }

    fn inline(&self) -> u32 {
        INLINE
    }

    fn remote_len(&self) -> u64 {
        self.memory.len() as u64
    }

    fn idle(&mut self, _: u32) -> Result<bool> {
        std::thread::yield_now();
        Ok(true)
    }
}

/// One collective among ranks of one process.
#[derive(Debug, Clone)]
struct Case {
    collective: Collective,
    algorithm: Algorithm,
    kind: DataType,
    reduction: Option<Reduction>,
    ranks: usize,
    elements: usize,
    in_place: bool,
    channels: usize,
    fault: Option<Fault>,
    stall: Duration,
}

/// What a rank found wrong, what it cost, and the messages and bytes that its adapter counted.
type Ran = (Found, Cost, (u64, u64));

/// Runs of a case: later ones meet what earlier ones left under way.
const RUNS: u64 = 3;

impl Case {
    fn shape(&self) -> Shape {
        let vector = self.elements * self.kind.bytes();
        Shape { vector, channels: self.channels, segment: 64, slots: 4 }
    }

    fn mesh(&self) -> Vec<Mesh> {
        let (n, channels) = (self.ranks, self.channels);
        let all: Vec<Vec<Vec<Queue>>> = (0..n)
            .map(|_| (0..n).map(|_| (0..channels).map(|_| Queue::default()).collect()).collect())
            .collect();
        let rank = |me: usize| {
            let others = || (0..n).filter(move |peer| *peer != me);
            let lanes = (n - 1) * channels;
            Mesh {
                memory: vec![0; self.shape().buffer_len(n - 1)],
                out: others().flat_map(|peer| all[me][peer].clone()).collect(),
                into: others().flat_map(|peer| all[peer][me].clone()).collect(),
                posted: vec![VecDeque::new(); lanes],
                receives: vec![0; lanes],
                done: vec![VecDeque::new(); lanes],
                under_way: vec![0; lanes],
                depth: self.shape().sends(),
                random: me as u64 + 7 * self.elements as u64,
                fault: self.fault.filter(|_| me == 0).map(|fault| (0, fault)),
                left: 0,
                held: None,
                counted: (0, 0),
            }
        };
        (0..n).map(rank).collect()
    }

    fn standing(&self, me: usize) -> Standing {
        let peers = (0..self.ranks).filter(|peer| *peer != me);
        let place = |peer: usize| me - usize::from(peer < me);
        Standing {
            collective: self.collective,
            ranks: self.ranks,
            peers: peers.map(|peer| (peer, place(peer))).collect(),
        }
    }

    fn schedule(&self, rank: usize) -> Schedule {
        let hosts: Vec<usize> = (0..self.ranks).map(|rank| rank / 2).collect();
        let hosts = if self.ranks.is_multiple_of(2) { hosts } else { (0..self.ranks).collect() };
        let &Case { collective, algorithm, elements, .. } = self;
        let (hosts, align, root) = (&hosts[..], 16, self.ranks / 2);
        let scope = Scope { collective, algorithm, rank, hosts, elements, align, root };
        Schedule::new(&scope).unwrap()
    }

    /// What each rank found over all runs, and what its adapter counted.
    fn run(&self) -> Vec<Result<Ran>> {
        let abort = AtomicBool::new(false);
        let one = |rank: usize, mesh: Mesh| {
            let ran = self.rank(rank, mesh, &abort);
            if ran.is_err() {
                abort.store(true, Ordering::Relaxed);
            }
            ran
        };
        std::thread::scope(|scope| {
            let one = &one;
            let ranks: Vec<_> = self
                .mesh()
                .into_iter()
                .enumerate()
                .map(|(rank, mesh)| scope.spawn(move || one(rank, mesh)))
                .collect();
            ranks.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn rank(&self, rank: usize, mut mesh: Mesh, abort: &AtomicBool) -> Result<Ran> {
        let stage = StageCell::new();
        let object = format!("rank {rank}");
        let end = End {
            role: Role::Initiator,
            object: &object,
            abort,
            stage: &stage,
            patience: self.stall,
            stall: self.stall,
        };
        let peers: Vec<usize> = (0..self.ranks).filter(|peer| *peer != rank).collect();
        let course = Course::new(self.schedule(rank), self.kind.bytes(), &peers)?;
        let bytes = self.shape().vector;
        let arithmetic = Arithmetic { kind: self.kind, reduction: self.reduction };
        let how = How { bytes, in_place: self.in_place, arithmetic };
        let mut carrier =
            OverMemory::new(&end, &mut mesh, &Clock, self.shape(), self.standing(rank))?;
        let mut found = Found::default();
        for seed in 0..RUNS {
            let reduction = self.reduction.unwrap_or(Reduction::Sum);
            let values = Values {
                collective: self.collective,
                kind: self.kind,
                reduction,
                ranks: self.ranks,
                root: self.ranks / 2,
                seed,
            };
            carrier.settle()?;
            let place = if self.in_place { carrier.work()? } else { carrier.input()? };
            values.fill(rank, 0, &mut place[..bytes]);
            if !self.in_place {
                carrier.work()?[..bytes].fill(POISON);
            }
            carrier.barrier(rank, self.ranks)?;
            carrier.run(&course, how)?;
            // Once more over the same input, without waiting for anything.
            if !self.in_place {
                carrier.run(&course, how)?;
            }
            if self.reduction.is_some() {
                let work = &carrier.work()?[..bytes];
                let now = values.compare(rank, &course.schedule, work);
                found.wrong += now.wrong;
                found.first = if found.first.is_empty() { now.first } else { found.first };
            }
        }
        carrier.barrier(rank, self.ranks)?;
        carrier.close()?;
        let cost = std::mem::take(carrier.cost());
        Ok((found, cost, mesh.counted))
    }

    /// Runs it and wants every element right and every count as scheduled.
    fn must_be_right(&self) {
        let runs = RUNS * if self.in_place { 1 } else { 2 };
        for (rank, ran) in self.run().into_iter().enumerate() {
            let (found, cost, counted) =
                ran.unwrap_or_else(|failure| panic!("{self:?}: {failure}"));
            assert_eq!((found.wrong, found.first.as_str()), (0, ""), "{self:?}, rank {rank}");
            let schedule = self.schedule(rank);
            let (messages, elements) = schedule.sent();
            let size = self.kind.bytes();
            let bytes = runs * (elements * size) as u64;
            let sends = schedule.moves.iter().filter(|m| m.is_send());
            let segments: usize = sends.map(|m| (m.range.len() * size).div_ceil(64).max(1)).sum();
            let segments = runs * segments as u64;
            let told = (cost.messages_sent, cost.segments_sent, cost.bytes_sent);
            assert_eq!(told, (runs * messages as u64, segments, bytes), "{self:?}, rank {rank}");
            assert_eq!(counted, (segments, bytes), "{self:?}, rank {rank}: by the adapter");
        }
    }
}

fn all_reduce(algorithm: Algorithm, ranks: usize, elements: usize) -> Case {
    Case {
        collective: Collective::AllReduce,
        algorithm,
        kind: DataType::F32,
        reduction: Some(Reduction::Sum),
        ranks,
        elements,
        in_place: false,
        channels: 1,
        fault: None,
        stall: Duration::from_secs(60),
    }
}

#[test]
fn every_algorithm_reduces_odd_sizes_among_one_to_eight_ranks() {
    for n in [1, 2, 3, 4, 5, 8] {
        for algorithm in Algorithm::ALL {
            for elements in [0, 1, n - 1, n, n + 1, 333] {
                for in_place in [false, true] {
                    Case { in_place, ..all_reduce(algorithm, n, elements) }.must_be_right();
                }
            }
        }
    }
}

#[test]
fn several_queue_pairs_for_a_peer_change_nothing() {
    for channels in [2, 3, 5] {
        for algorithm in Algorithm::ALL {
            Case { channels, ..all_reduce(algorithm, 4, 1237) }.must_be_right();
        }
    }
}

#[test]
fn every_type_is_reduced_by_both_reductions() {
    for kind in DataType::ALL {
        for reduction in [Reduction::Sum, Reduction::Max].map(Some) {
            Case { kind, reduction, ..all_reduce(Algorithm::Rhd, 3, 777) }.must_be_right();
        }
    }
}

#[test]
fn the_other_collectives_put_everything_in_its_place() {
    for collective in Collective::ALL {
        for &algorithm in collective.algorithms() {
            for n in [1, 2, 3, 4, 7] {
                for chunk in [0, 1, 111] {
                    for in_place in
                        [false, true].into_iter().take(1 + usize::from(collective.has_in_place()))
                    {
                        let case = all_reduce(algorithm, n, n * chunk);
                        Case { collective, in_place, ..case }.must_be_right();
                    }
                }
            }
        }
    }
}

#[test]
fn the_wire_pattern_alone_sends_the_same() {
    for algorithm in Algorithm::ALL {
        Case { reduction: None, ..all_reduce(algorithm, 4, 1237) }.must_be_right();
    }
}

/// Messages of the first barrier between two ranks.
const FIRST: usize = 1;

fn faulty(fault: Fault) -> Vec<Result<Ran>> {
    let stall = Duration::from_millis(300);
    let case = all_reduce(Algorithm::Ring, 2, 64);
    Case { fault: Some(fault), stall, in_place: true, ..case }.run()
}

#[test]
fn a_flipped_byte_in_a_slot_is_a_wrong_element_at_both_ranks() {
    let firsts: Vec<String> =
        faulty(Fault::Flip(FIRST)).into_iter().map(|ran| ran.unwrap().0.first).collect();
    for (rank, first) in firsts.iter().enumerate() {
        assert!(first.starts_with(&format!("rank {rank}, index 0 (")), "{firsts:?}");
    }
}

#[test]
fn chunks_that_change_places_are_flagged() {
    let texts: Vec<String> = faulty(Fault::Swap(FIRST))
        .into_iter()
        .filter_map(Result::err)
        .map(|f| f.to_string())
        .collect();
    assert!(texts.iter().any(|t| t.contains("was due, and number")), "{texts:?}");
    let mixed = faulty(Fault::Mix(FIRST)).into_iter();
    let wrong: u64 = mixed.map(|ran| ran.map_or(1, |(found, ..)| found.wrong)).sum();
    assert!(wrong > 20, "{wrong} of 64 elements");
}

#[test]
fn a_message_that_never_comes_ends_it_with_rank_and_step() {
    let texts: Vec<String> = faulty(Fault::Drop(FIRST))
        .into_iter()
        .filter_map(Result::err)
        .map(|f| f.to_string())
        .collect();
    let named = |text: &String| text.contains("rank 1") && text.contains("due, and number");
    assert!(texts.iter().any(named), "the next one shows the gap: {texts:?}");
    let last = faulty(Fault::Drop(FIRST + 3 * 5 - 3)).into_iter().filter_map(Result::err);
    let texts: Vec<String> = last.map(|f| f.to_string()).collect();
    assert!(texts.iter().any(|text| text.contains("receiving from rank")), "{texts:?}");
}
