//! N ranks in one process over pipes that take and give bytes in odd portions.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::progress::Course;
use super::sockets::{Arithmetic, Cost, Runner, Vectors};
use super::values::{Found, POISON, Values};
use super::*;
use crate::engine::{End, StageCell};
use crate::measure::clock::Clock;
use crate::session::protocol::Role;
use crate::transport::{Bytes, Failure, FailureKind, Result};

/// What goes wrong on the way between two ranks.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// One bit of the byte at this place of the stream.
    Flip(usize),
    /// Two stretches of this length change places; the first begins here.
    Swap(usize, usize),
    /// The bytes from here on never come.
    Cut(usize),
}

#[derive(Debug, Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    written: usize,
    fault: Option<Fault>,
    held: Vec<u8>,
}

impl Pipe {
    fn push(&mut self, byte: u8) {
        let at = self.written;
        self.written += 1;
        match self.fault {
            Some(Fault::Flip(place)) if place == at => self.bytes.push_back(byte ^ 0x40),
            Some(Fault::Cut(place)) if at >= place => {}
            Some(Fault::Swap(place, len)) if (place..place + len).contains(&at) => {
                self.held.push(byte);
            }
            Some(Fault::Swap(place, len)) if at + 1 == place + 2 * len => {
                self.bytes.push_back(byte);
                self.bytes.extend(std::mem::take(&mut self.held));
            }
            _ => self.bytes.push_back(byte),
        }
    }
}

type Shared = Arc<Mutex<Pipe>>;

/// One rank's lanes.
struct Pipes {
    out: Vec<Shared>,
    into: Vec<Shared>,
    /// For portions of odd sizes.
    random: u64,
}

impl Pipes {
    fn portion(&mut self) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        1 + (self.random >> 33) as usize % 3000
    }
}

impl Bytes for Pipes {
    fn lanes(&self) -> usize {
        self.out.len()
    }

    fn write(&mut self, lane: usize, from: &[u8]) -> Result<usize> {
        let portion = self.portion();
        let mut pipe = self.out[lane].lock().unwrap();
        let room = 5000_usize.saturating_sub(pipe.bytes.len());
        let n = from.len().min(portion).min(room);
        from[..n].iter().for_each(|byte| pipe.push(*byte));
        Ok(n)
    }

    fn read(&mut self, lane: usize, into: &mut [u8]) -> Result<usize> {
        let portion = self.portion();
        let mut pipe = self.into[lane].lock().unwrap();
        let n = into.len().min(portion).min(pipe.bytes.len());
        for (place, byte) in into.iter_mut().zip(pipe.bytes.drain(..n)) {
            *place = byte;
        }
        Ok(n)
    }

    fn idle(&mut self, _: u32, _: bool) -> Result<bool> {
        std::thread::yield_now();
        Ok(true)
    }
}

/// Lanes among `n` ranks, with one fault in what rank 0 sends to rank 1.
fn mesh(n: usize, fault: Option<Fault>) -> Vec<Pipes> {
    let pipe = |from: usize, to: usize| -> Shared {
        let fault = fault.filter(|_| (from, to) == (0, 1));
        Arc::new(Mutex::new(Pipe { fault, ..Pipe::default() }))
    };
    let all: Vec<Vec<Shared>> =
        (0..n).map(|from| (0..n).map(|to| pipe(from, to)).collect()).collect();
    let rank = |me: usize| Pipes {
        out: peers(n, me).iter().map(|&peer| all[me][peer].clone()).collect(),
        into: peers(n, me).iter().map(|&peer| all[peer][me].clone()).collect(),
        random: me as u64,
    };
    (0..n).map(rank).collect()
}

fn peers(n: usize, me: usize) -> Vec<usize> {
    (0..n).filter(|&peer| peer != me).collect()
}

/// One collective among ranks of one process.
#[derive(Debug, Clone)]
struct Case {
    collective: Collective,
    algorithm: Algorithm,
    kind: DataType,
    reduction: Reduction,
    hosts: Vec<usize>,
    elements: usize,
    in_place: bool,
    root: usize,
    fault: Option<Fault>,
    stall: Duration,
}

impl Case {
    fn ranks(&self) -> usize {
        self.hosts.len()
    }

    fn values(&self) -> Values {
        let &Case { collective, kind, reduction, root, .. } = self;
        Values { collective, kind, reduction, ranks: self.ranks(), root, seed: 3 }
    }

    fn schedule(&self, rank: usize) -> Schedule {
        let &Case { collective, algorithm, elements, root, .. } = self;
        let align = 64 / self.kind.bytes();
        let hosts = &self.hosts;
        let scope = Scope { collective, algorithm, rank, hosts, elements, align, root };
        Schedule::new(&scope).unwrap()
    }

    /// Runs it on all ranks, twice over the same lanes with a barrier between; what each found in
    /// the second.
    fn run(&self) -> Vec<Result<(Found, Cost)>> {
        let abort = AtomicBool::new(false);
        let lanes = mesh(self.ranks(), self.fault);
        std::thread::scope(|scope| {
            let ranks: Vec<_> = lanes
                .into_iter()
                .enumerate()
                .map(|(rank, pipes)| {
                    let abort = &abort;
                    scope.spawn(move || {
                        let ran = self.rank(rank, pipes, abort);
                        if ran.is_err() {
                            abort.store(true, std::sync::atomic::Ordering::Relaxed);
                        }
                        ran
                    })
                })
                .collect();
            ranks.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn rank(&self, rank: usize, mut pipes: Pipes, abort: &AtomicBool) -> Result<(Found, Cost)> {
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
        let peers = peers(self.ranks(), rank);
        let size = self.kind.bytes();
        let course = Course::new(self.schedule(rank), size, &peers)?;
        let mut input = vec![0; self.elements * size];
        self.values().fill(rank, 0, &mut input);
        let mut runner = Runner::new(&end, &mut pipes, &Clock);
        let mut work = Vec::new();
        for _ in 0..2 {
            work = if self.in_place { input.clone() } else { vec![POISON; input.len()] };
            let own = (!self.in_place).then_some(&input[..]);
            let mut vectors = Vectors { input: own, work: &mut work };
            let arithmetic = Arithmetic { kind: self.kind, reduction: Some(self.reduction) };
            runner.barrier(rank, self.ranks(), &peers)?;
            runner.run(&course, &mut vectors, arithmetic)?;
        }
        Ok((self.values().compare(rank, &course.schedule, &work), runner.cost))
    }

    /// Runs it and wants every element right and every count as scheduled.
    fn must_be_right(&self) {
        for (rank, ran) in self.run().into_iter().enumerate() {
            let (found, cost) = ran.unwrap_or_else(|failure| panic!("{self:?}: {failure}"));
            assert_eq!((found.wrong, found.first.as_str()), (0, ""), "{self:?}, rank {rank}");
            let (messages, elements) = self.schedule(rank).sent();
            let sent = (cost.messages_sent, cost.bytes_sent);
            let bytes = (2 * elements * self.kind.bytes()) as u64;
            assert_eq!(sent, (2 * messages as u64, bytes), "{self:?}, rank {rank}");
        }
    }
}

fn all_reduce(algorithm: Algorithm, ranks: usize, elements: usize) -> Case {
    Case {
        collective: Collective::AllReduce,
        algorithm,
        kind: DataType::F32,
        reduction: Reduction::Sum,
        hosts: (0..ranks).collect(),
        elements,
        in_place: false,
        root: 0,
        fault: None,
        stall: Duration::from_secs(60),
    }
}

#[test]
fn every_algorithm_reduces_odd_sizes_among_one_to_eight_ranks() {
    for n in 1..=8 {
        for algorithm in Algorithm::ALL {
            for elements in [0, 1, n - 1, n, n + 1, 1237] {
                for in_place in [false, true] {
                    Case { in_place, ..all_reduce(algorithm, n, elements) }.must_be_right();
                }
            }
        }
    }
}

#[test]
fn every_type_is_reduced_by_both_reductions() {
    for kind in DataType::ALL {
        for reduction in [Reduction::Sum, Reduction::Max] {
            for algorithm in Algorithm::ALL {
                Case { kind, reduction, ..all_reduce(algorithm, 5, 1237) }.must_be_right();
            }
        }
    }
}

#[test]
fn rails_join_hosts_with_several_ranks_in_any_order() {
    for hosts in [vec![0, 0, 1, 1], vec![0, 1, 0, 1, 0, 1], vec![0, 0, 0, 1, 1, 1], vec![0, 0]] {
        Case { hosts, ..all_reduce(Algorithm::Rail, 1, 1237) }.must_be_right();
    }
}

#[test]
fn the_other_collectives_put_everything_in_its_place() {
    for collective in Collective::ALL {
        for &algorithm in collective.algorithms() {
            for n in [1, 2, 3, 4, 7, 8] {
                for chunk in [0, 1, 333] {
                    for in_place in
                        [false, true].into_iter().take(1 + usize::from(collective.has_in_place()))
                    {
                        let root = n / 2;
                        let case = all_reduce(algorithm, n, n * chunk);
                        Case { collective, in_place, root, ..case }.must_be_right();
                    }
                }
            }
        }
    }
}

/// What all ranks found wrong.
fn wrong(case: &Case) -> (u64, Vec<String>) {
    let found: Vec<Found> = case.run().into_iter().map(|ran| ran.unwrap().0).collect();
    let firsts = found.iter().map(|f| f.first.clone()).filter(|f| !f.is_empty()).collect();
    (found.iter().map(|f| f.wrong).sum(), firsts)
}

/// Bytes from rank 0 to rank 1 in one run among two ranks, with the byte of the barrier.
const RUN: usize = 2 * 512 * 4 + 1;

#[test]
fn a_flipped_byte_is_one_wrong_element_with_its_place() {
    // In the second run's second message, which is the finished second half, the 11th element.
    let fault = Some(Fault::Flip(RUN + 1 + 512 * 4 + 40));
    let case = Case { fault, ..all_reduce(Algorithm::Ring, 2, 1024) };
    let (count, firsts) = wrong(&case);
    assert_eq!((count, firsts.len()), (1, 1));
    let (values, index) = (case.values(), 522);
    let want = values.input(0, index) + values.input(1, index);
    assert!(firsts[0].starts_with(&format!("rank 1, index {index} (step 2 from rank 0): got ")));
    assert!(firsts[0].ends_with(&format!(", want {want}")), "{firsts:?}");
}

#[test]
fn swapped_chunks_are_wrong_elements() {
    let fault = Some(Fault::Swap(RUN + 1 + 400, 400));
    let (count, firsts) = wrong(&Case { fault, ..all_reduce(Algorithm::Ring, 2, 1024) });
    assert!(count > 190, "both stretches at both ranks: {count}");
    assert_eq!(firsts.len(), 2, "rank 1 reduced it and rank 0 got the sum: {firsts:?}");
}

#[test]
fn bytes_that_never_come_end_it_with_rank_and_step() {
    let fault = Some(Fault::Cut(RUN + 1 + 1000));
    let stall = Duration::from_millis(300);
    let case = Case { fault, stall, ..all_reduce(Algorithm::Ring, 2, 1024) };
    let failures: Vec<Failure> = case.run().into_iter().filter_map(Result::err).collect();
    let stalled = failures.iter().find(|f| f.kind == FailureKind::Stalled);
    let text = stalled.unwrap_or_else(|| panic!("{failures:?}")).to_string();
    let named = text.contains("rank 1, step 1 of 2, receiving from rank 0")
        || text.contains("rank 0, step 2 of 2, receiving from rank 1");
    assert!(named, "{text}");
}

#[test]
fn a_failure_of_a_peer_is_told_with_rank_and_step() {
    struct Broken;
    impl Bytes for Broken {
        fn lanes(&self) -> usize {
            1
        }
        fn write(&mut self, _: usize, from: &[u8]) -> Result<usize> {
            Ok(from.len())
        }
        fn read(&mut self, _: usize, _: &mut [u8]) -> Result<usize> {
            Err(Failure::new(FailureKind::PeerLost, "TCP receive", "a -> b", "it is gone"))
        }
        fn idle(&mut self, _: u32, _: bool) -> Result<bool> {
            Ok(false)
        }
    }
    let case = all_reduce(Algorithm::Ring, 2, 1000);
    let (abort, stage) = (AtomicBool::new(false), StageCell::new());
    let wait = Duration::from_secs(1);
    let role = Role::Initiator;
    let end =
        End { role, object: "rank 0", abort: &abort, stage: &stage, patience: wait, stall: wait };
    let course = Course::new(case.schedule(0), 4, &[1]).unwrap();
    let (input, mut work, mut broken) = (vec![0; 4000], vec![0; 4000], Broken);
    let mut vectors = Vectors { input: Some(&input), work: &mut work };
    let arithmetic = Arithmetic { kind: DataType::F32, reduction: Some(Reduction::Sum) };
    let ran = Runner::new(&end, &mut broken, &Clock).run(&course, &mut vectors, arithmetic);
    assert_eq!(
        ran.unwrap_err().to_string(),
        "rank 0, step 1 of 2, receiving from rank 1: TCP receive: it is gone"
    );
}
