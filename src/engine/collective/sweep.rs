//! One rank of a sweep over sizes: verified, warmed up, timed, verified again.

use serde::{Deserialize, Serialize};

use super::carrier::{Carrier, GUARD, How};
use super::progress::Course;
use super::schedule::{Algorithm, Collective, Schedule, Scope};
use super::sockets::{Arithmetic, Cost};
use super::types::{DataType, Reduction};
use super::values::{Found, POISON, Values};
use crate::engine::{End, Stage};
use crate::measure::clock::Time;
use crate::measure::histogram::Recorder;
use crate::session::protocol::ExactLatency;
use crate::transport::{Failure, FailureKind, Result};

/// What the guard bytes hold.
const GUARD_BYTE: u8 = 0x5c;
/// Chunks begin at cache lines where the collective leaves that open.
const LINE: usize = 64;

/// What is swept, seen by one rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// What.
    pub collective: Collective,
    /// How, one after the other.
    pub algorithms: Vec<Algorithm>,
    /// Element type.
    pub kind: DataType,
    /// Reduction.
    pub reduction: Reduction,
    /// Index of the host of each rank.
    pub hosts: Vec<usize>,
    /// Own rank.
    pub rank: usize,
    /// Broadcast: whose vector.
    pub root: usize,
    /// Bytes of the vector, one after the other; whole elements for each rank's chunk.
    pub sizes: Vec<u64>,
    /// Timed runs of each size.
    pub iterations: u32,
    /// Untimed runs before.
    pub warmups: u32,
    /// False: what arrives is stored as it is and nothing is verified.
    pub reduces: bool,
    /// Of the numbers.
    pub seed: u64,
}

/// What one rank measured of one size, placed out of place or in place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Index into [`Sweep::algorithms`].
    pub algorithm: usize,
    /// Bytes of the vector.
    pub size_bytes: u64,
    /// Output lay on top of input.
    pub in_place: bool,
    /// Timed runs.
    pub iterations: u32,
    /// All of them together, ns.
    pub total_ns: u64,
    /// Single runs: HdrHistogram V2, base64, ns.
    pub histogram: String,
    /// Single runs, exactly.
    pub exact: ExactLatency,
    /// Elements compared; 0 where nothing is verified.
    pub compared: u64,
    /// Elements of these that were wrong.
    pub wrong: u64,
    /// The first of them in words.
    pub first_wrong: String,
    /// Messages that this rank sent in one run.
    pub messages: u64,
    /// Payload that this rank sent in one run, bytes.
    pub bytes: u64,
    /// Time in reduction kernels over the timed runs, ns.
    pub reduce_ns: u64,
    /// Rank and the time in which nothing moved and its next message was due, over the timed
    /// runs, ns.
    pub waited_ns: Vec<(usize, u64)>,
    /// Rank and the time in which nothing moved and what was due there found no room, over the
    /// timed runs, ns.
    pub blocked_ns: Vec<(usize, u64)>,
}

impl Sweep {
    /// Ranks that any of the schedules or the barrier speaks with, ascending.
    ///
    /// # Errors
    /// As [`Schedule::new`].
    pub fn peers(&self) -> std::result::Result<Vec<usize>, String> {
        let (n, me) = (self.hosts.len(), self.rank);
        let mut peers = std::collections::BTreeSet::new();
        for &algorithm in &self.algorithms {
            let schedule = self.schedule(algorithm, n)?;
            peers.extend(schedule.moves.iter().map(|m| m.peer));
        }
        let mut distance = 1;
        while distance < n {
            peers.extend([(me + distance) % n, (me + n - distance) % n]);
            distance *= 2;
        }
        Ok(peers.into_iter().collect())
    }

    fn schedule(
        &self,
        algorithm: Algorithm,
        elements: usize,
    ) -> std::result::Result<Schedule, String> {
        let Sweep { collective, rank, root, .. } = *self;
        let (hosts, align) = (&self.hosts, LINE / self.kind.bytes());
        Schedule::new(&Scope { collective, algorithm, rank, hosts, elements, align, root })
    }

    fn arithmetic(&self) -> Arithmetic {
        let reduction = self.reduces.then_some(self.reduction);
        Arithmetic { kind: self.kind, reduction }
    }

    fn values(&self, round: u64) -> Values {
        let &Sweep { collective, kind, reduction, root, seed, .. } = self;
        let seed = seed.wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Values { collective, kind, reduction, ranks: self.hosts.len(), root, seed }
    }

    /// Bytes of the largest vector.
    pub fn largest(&self) -> usize {
        usize::try_from(self.sizes.iter().copied().max().unwrap_or(0)).unwrap_or(usize::MAX)
    }
}

/// Runs a sweep by a carrier with lanes to [`Sweep::peers`] and vectors of [`Sweep::largest`]; tells
/// each row as it comes.
///
/// # Errors
/// Those of the carrier, with rank and step; rows told before stay good.
pub fn run(
    end: &End,
    carrier: &mut impl Carrier,
    time: &impl Time,
    sweep: &Sweep,
    tell: &mut dyn FnMut(Row),
) -> Result<()> {
    let refused = |why: String| Failure::new(FailureKind::Internal, "prepare", end.object, why);
    let peers = sweep.peers().map_err(refused)?;
    let mut round = 0;
    for (index, &algorithm) in sweep.algorithms.iter().enumerate() {
        for &size in &sweep.sizes {
            let bytes = size as usize;
            let schedule =
                sweep.schedule(algorithm, bytes / sweep.kind.bytes()).map_err(refused)?;
            let course = Course::new(schedule, sweep.kind.bytes(), &peers)?;
            let places =
                if sweep.collective.has_in_place() { &[false, true][..] } else { &[false] };
            for &in_place in places {
                round += 1;
                let values = sweep.values(round);
                let how = How { bytes, in_place, arithmetic: sweep.arithmetic() };
                let row = One { sweep, end, time, course: &course, values, how }.row(carrier)?;
                tell(Row { algorithm: index, ..row });
            }
        }
    }
    Ok(())
}

/// One size, placed one way.
struct One<'a, T> {
    sweep: &'a Sweep,
    end: &'a End<'a>,
    time: &'a T,
    course: &'a Course,
    values: Values,
    how: How,
}

impl<T: Time> One<'_, T> {
    fn row(&self, carrier: &mut impl Carrier) -> Result<Row> {
        self.end.stage.set(Stage::Verify);
        self.fill(carrier)?;
        self.barrier(carrier)?;
        carrier.run(self.course, self.how)?;
        let mut found = self.compare(carrier)?;
        self.end.stage.set(Stage::WarmUp);
        for _ in 0..self.sweep.warmups {
            carrier.run(self.course, self.how)?;
        }
        self.barrier(carrier)?;
        let mut row = self.timed(carrier)?;
        if !self.how.in_place {
            self.end.stage.set(Stage::Verify);
            let last = self.compare(carrier)?;
            found.compared += last.compared;
            found.wrong += last.wrong;
            found.first = if found.first.is_empty() { last.first } else { found.first };
        }
        (row.compared, row.wrong, row.first_wrong) = (found.compared, found.wrong, found.first);
        Ok(row)
    }

    /// The runs that count, to the end of the last one's sends.
    fn timed(&self, carrier: &mut impl Carrier) -> Result<Row> {
        self.end.stage.set(Stage::Measure);
        *carrier.cost() = Cost::of_lanes(self.course.peers.len());
        let mut recorder = Recorder::new(1);
        let begin = self.time.now();
        let mut last = begin;
        for _ in 0..self.sweep.iterations {
            carrier.run(self.course, self.how)?;
            let now = self.time.now();
            recorder.record(now - last);
            last = now;
        }
        carrier.settle()?;
        let total_ns = self.time.now() - begin;
        let (cost, iterations) = (carrier.cost(), u64::from(self.sweep.iterations.max(1)));
        Ok(Row {
            algorithm: 0,
            size_bytes: self.how.bytes as u64,
            in_place: self.how.in_place,
            iterations: self.sweep.iterations,
            total_ns,
            histogram: recorder.encoded(),
            exact: recorder.exact(),
            messages: cost.messages_sent / iterations,
            bytes: cost.bytes_sent / iterations,
            reduce_ns: cost.reduce_ns,
            waited_ns: self.by_peer(&cost.waited_ns),
            blocked_ns: self.by_peer(&cost.blocked_ns),
            ..Row::default()
        })
    }

    fn by_peer(&self, lanes: &[u64]) -> Vec<(usize, u64)> {
        self.course.peers.iter().copied().zip(lanes.iter().copied()).collect()
    }

    fn barrier(&self, carrier: &mut impl Carrier) -> Result<()> {
        carrier.barrier(self.sweep.rank, self.sweep.hosts.len())
    }

    /// Own numbers where they belong, poison where the result will be.
    fn fill(&self, carrier: &mut impl Carrier) -> Result<()> {
        let How { bytes, in_place, .. } = self.how;
        let place = if in_place { carrier.work()? } else { carrier.input()? };
        self.values.fill(self.sweep.rank, 0, &mut place[..bytes]);
        let work = carrier.work()?;
        if !in_place {
            work[..bytes].fill(POISON);
        }
        work[bytes..][..GUARD].fill(GUARD_BYTE);
        Ok(())
    }

    /// Without reduction sums are none: nothing is compared.
    fn compare(&self, carrier: &mut impl Carrier) -> Result<Found> {
        if self.sweep.collective.reduces() && !self.sweep.reduces {
            return Ok(Found::default());
        }
        let (work, rank) = (carrier.work()?, self.sweep.rank);
        let (result, behind) = work.split_at(self.how.bytes);
        let mut found = self.values.compare(rank, &self.course.schedule, result);
        let strayed = behind[..GUARD].iter().filter(|byte| **byte != GUARD_BYTE).count();
        if strayed > 0 {
            found.wrong += 1;
            let text = format!("rank {rank}: {strayed} bytes behind the vector were overwritten");
            found.first = if found.first.is_empty() { text } else { found.first };
        }
        Ok(found)
    }
}
