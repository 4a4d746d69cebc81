//! Carries a schedule out over lanes of bytes: one lane to each peer.

use super::kernels;
use super::progress::Course;
use super::schedule::{Action, Source};
use super::types::{DataType, Reduction};
use crate::engine::End;
use crate::engine::wait::Watch;
use crate::measure::clock::Time;
use crate::transport::{Bytes, Failure, FailureKind, Result};

/// Bytes that are received and reduced at a time: a part of the second-level cache.
const PIECE: usize = 128 * 1024;

/// What is reduced how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arithmetic {
    /// Element type.
    pub kind: DataType,
    /// None: what arrives is stored as it is, to see what the wire alone does.
    pub reduction: Option<Reduction>,
}

/// The two vectors of a rank.
#[derive(Debug)]
pub struct Vectors<'a> {
    /// Own contribution; none in place, where it lies in `work`.
    pub input: Option<&'a [u8]>,
    /// What is worked on, and the result.
    pub work: &'a mut [u8],
}

impl Vectors<'_> {
    /// The bytes of a move that come from `source`.
    #[inline]
    fn read(&self, source: Source, from: usize, to: usize) -> &[u8] {
        match (source, self.input) {
            (Source::Input, Some(input)) => &input[from..to],
            _ => &self.work[from..to],
        }
    }
}

/// What carrying out took, summed up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes handed to the lanes.
    pub bytes_sent: u64,
    /// Messages finished at this end.
    pub messages_sent: u64,
    /// Parts in which these were posted, where the transport has messages of its own; else 0.
    pub segments_sent: u64,
    /// Time in reduction kernels, ns.
    pub reduce_ns: u64,
    /// For each lane, time in which nothing moved and its next message was due, ns.
    pub waited_ns: Vec<u64>,
    /// For each lane, time in which nothing moved and what was due there found no room, ns.
    pub blocked_ns: Vec<u64>,
}

impl Cost {
    /// Nothing yet, over so many lanes.
    pub fn of_lanes(count: usize) -> Cost {
        Cost { waited_ns: vec![0; count], blocked_ns: vec![0; count], ..Cost::default() }
    }
}

/// Carries schedules out over `B`, which has a lane to each peer in the order of
/// [`Course::peers`].
pub struct Runner<'a, B, T> {
    end: &'a End<'a>,
    time: &'a T,
    wires: &'a mut B,
    lanes: Vec<Lane>,
    /// Summed over all runs.
    pub cost: Cost,
}

/// State of one lane within a run.
#[derive(Debug, Default)]
struct Lane {
    /// Places in the lane's lists of moves.
    send: usize,
    receive: usize,
    /// Bytes that arrived and wait to be reduced.
    staged: Vec<u8>,
    filled: usize,
}

/// Lanes that can go on once something comes, or once there is room.
#[derive(Debug, Default)]
struct Awaited {
    reading: Vec<usize>,
    writing: Vec<usize>,
}

/// One run of a course.
struct Run<'a, 'v> {
    course: &'a Course,
    positions: Vec<usize>,
    vectors: &'a mut Vectors<'v>,
    arithmetic: Arithmetic,
}

impl<'a, B: Bytes, T: Time> Runner<'a, B, T> {
    /// For runs over `wires`.
    pub fn new(end: &'a End<'a>, wires: &'a mut B, time: &'a T) -> Self {
        let count = wires.lanes();
        let lanes = (0..count).map(|_| Lane { staged: vec![0; PIECE], ..Lane::default() });
        let cost = Cost::of_lanes(count);
        Runner { end, time, wires, lanes: lanes.collect(), cost }
    }

    /// Does all that the course asks of this rank, once.
    ///
    /// # Errors
    /// Stopped; stalled or a peer lost, with rank and step.
    pub fn run(
        &mut self,
        course: &Course,
        vectors: &mut Vectors,
        arithmetic: Arithmetic,
    ) -> Result<()> {
        self.keep(course, vectors);
        for lane in &mut self.lanes {
            (lane.send, lane.receive, lane.filled) = (0, 0, 0);
        }
        let positions = course.start();
        let mut run = Run { course, positions, vectors, arithmetic };
        let mut watch = Watch::new(self.end);
        let mut awaited = Awaited::default();
        let mut idle_since = None;
        loop {
            if self.turn(&mut run)? {
                if let Some(since) = idle_since.take() {
                    self.note_wait(since, &awaited);
                }
                watch.moved();
                continue;
            }
            if self.over(course) {
                return Ok(());
            }
            // What is waited for stays the same until something moves.
            if idle_since.is_none() {
                idle_since = Some(self.time.now());
                self.look_for(&run, &mut awaited);
            }
            let waited = self.wires.idle_on(watch.look(), &awaited.reading, &awaited.writing)?;
            let checked = watch.check(waited, self.time, || self.progress(course));
            checked.map_err(|failure| self.at_step(failure, course))?;
        }
    }

    /// Everybody has come here: log2 n rounds in which each tells another one further away.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub fn barrier(&mut self, rank: usize, ranks: usize, peers: &[usize]) -> Result<()> {
        let lane = |peer: usize| peers.binary_search(&peer).unwrap_or(0);
        let mut distance = 1;
        while distance < ranks {
            let (to, from) = ((rank + distance) % ranks, (rank + ranks - distance) % ranks);
            let mut watch = Watch::new(self.end);
            let (mut sent, mut received, mut byte) = (0, 0, [0]);
            while sent + received < 2 {
                if sent == 0 {
                    sent = self.wires.write(lane(to), &[distance.trailing_zeros() as u8])?;
                }
                if received == 0 {
                    received = self.wires.read(lane(from), &mut byte)?;
                }
                if sent + received < 2 {
                    let empty = watch.look();
                    let reading: &[usize] = if received == 0 { &[lane(from)] } else { &[] };
                    let writing: &[usize] = if sent == 0 { &[lane(to)] } else { &[] };
                    let waited = self.wires.idle_on(empty, reading, writing)?;
                    watch
                        .check(waited, self.time, || format!("barrier, waiting for rank {from}"))?;
                }
            }
            if byte[0] != distance.trailing_zeros() as u8 {
                let cause = format!("rank {from} is not at the barrier where rank {rank} is");
                let object = self.end.object;
                return Err(Failure::new(FailureKind::Internal, "barrier", object, cause));
            }
            distance *= 2;
        }
        Ok(())
    }

    /// What this rank has of its own.
    fn keep(&self, course: &Course, vectors: &mut Vectors) {
        let range = &course.schedule.keeps;
        let (from, to) = (range.start * course.element, range.end * course.element);
        if let Some(input) = vectors.input {
            vectors.work[from..to].copy_from_slice(&input[from..to]);
        }
    }

    /// Moves what can be moved on every lane; false when nothing could.
    fn turn(&mut self, run: &mut Run) -> Result<bool> {
        let mut moved = false;
        for lane in 0..self.lanes.len() {
            moved |= self.receive(run, lane)?;
            moved |= self.send(run, lane)?;
        }
        Ok(moved)
    }

    fn send(&mut self, run: &mut Run, lane: usize) -> Result<bool> {
        let course = run.course;
        let mut moved = false;
        while let Some(&index) = course.sends[lane].get(self.lanes[lane].send) {
            let Action::Send { from, .. } = course.schedule.moves[index].action else { break };
            let (at, limit) = (run.positions[index], course.limit(index, &run.positions));
            if at < limit {
                let payload = run.vectors.read(from, at, limit);
                let sent = self.wires.write(lane, payload);
                let n = sent.map_err(|failure| self.named(failure, course, index))?;
                run.positions[index] += n;
                self.cost.bytes_sent += n as u64;
                moved |= n > 0;
            }
            if run.positions[index] < course.span(index).1 {
                break;
            }
            self.lanes[lane].send += 1;
            self.cost.messages_sent += 1;
            moved = true;
        }
        Ok(moved)
    }

    fn receive(&mut self, run: &mut Run, lane: usize) -> Result<bool> {
        let course = run.course;
        let mut moved = false;
        while let Some(&index) = course.receives[lane].get(self.lanes[lane].receive) {
            let copies = course.schedule.moves[index].action == Action::Copy
                || run.arithmetic.reduction.is_none();
            let taken =
                if copies { self.copy(run, lane, index) } else { self.reduce(run, lane, index) };
            let taken = taken.map_err(|failure| self.named(failure, course, index))?;
            moved |= taken;
            if run.positions[index] < course.span(index).1 {
                if taken {
                    continue;
                }
                break;
            }
            self.lanes[lane].receive += 1;
            moved = true;
        }
        Ok(moved)
    }

    /// Straight to its place.
    fn copy(&mut self, run: &mut Run, lane: usize, index: usize) -> Result<bool> {
        let (at, limit) = (run.positions[index], run.course.limit(index, &run.positions));
        if at >= limit {
            return Ok(false);
        }
        let n = self.wires.read(lane, &mut run.vectors.work[at..limit])?;
        run.positions[index] += n;
        Ok(n > 0)
    }

    /// By way of a piece that is reduced as far as whole elements are there.
    fn reduce(&mut self, run: &mut Run, lane: usize, index: usize) -> Result<bool> {
        let (at, end) = (run.positions[index], run.course.span(index).1);
        let limit = run.course.limit(index, &run.positions);
        let state = &mut self.lanes[lane];
        let wanted = (end - at).min(PIECE);
        let n = match state.filled < wanted {
            true => self.wires.read(lane, &mut state.staged[state.filled..wanted])?,
            false => 0,
        };
        state.filled += n;
        let element = run.course.element;
        let ready = state.filled.min(limit.saturating_sub(at)) / element * element;
        if ready == 0 {
            return Ok(n > 0);
        }
        let begin = self.time.now();
        reduce(run, index, at, &state.staged[..ready]);
        self.cost.reduce_ns += self.time.now().saturating_sub(begin);
        run.positions[index] += ready;
        state.staged.copy_within(ready..state.filled, 0);
        state.filled -= ready;
        Ok(true)
    }

    /// All moves are finished.
    fn over(&self, course: &Course) -> bool {
        self.lanes.iter().enumerate().all(|(lane, state)| {
            state.send == course.sends[lane].len() && state.receive == course.receives[lane].len()
        })
    }

    /// Notes the lanes on which something could be read, and on which something could be written.
    fn look_for(&self, run: &Run, awaited: &mut Awaited) {
        let course = run.course;
        let free = |index: usize| course.limit(index, &run.positions) > run.positions[index];
        let reads = |lane: &usize| {
            let state = &self.lanes[*lane];
            let Some(&index) = course.receives[*lane].get(state.receive) else { return false };
            let left = course.span(index).1 - run.positions[index];
            free(index) || state.filled < left.min(PIECE)
        };
        let writes = |lane: &usize| {
            course.sends[*lane].get(self.lanes[*lane].send).is_some_and(|&index| free(index))
        };
        let lanes = 0..self.lanes.len();
        awaited.reading.clear();
        awaited.reading.extend(lanes.clone().filter(reads));
        awaited.writing.clear();
        awaited.writing.extend(lanes.filter(writes));
    }

    fn note_wait(&mut self, since: u64, awaited: &Awaited) {
        let waited = self.time.now().saturating_sub(since);
        for &lane in &awaited.reading {
            self.cost.waited_ns[lane] += waited;
        }
        for &lane in &awaited.writing {
            self.cost.blocked_ns[lane] += waited;
        }
    }

    /// What is waited for, in words.
    fn progress(&self, course: &Course) -> String {
        let lanes = || self.lanes.iter().enumerate();
        let receives = lanes().filter_map(|(lane, state)| course.receives[lane].get(state.receive));
        let sends = lanes().filter_map(|(lane, state)| course.sends[lane].get(state.send));
        // What is due first explains the rest.
        let step = |index: &&usize| (course.schedule.moves[**index].step, **index);
        receives.chain(sends).min_by_key(step).map(|i| course.words(*i)).unwrap_or_default()
    }

    /// A failure of the whole with rank and step.
    #[cold]
    fn at_step(&self, failure: Failure, course: &Course) -> Failure {
        let object = format!("{}, {}", self.end.object, self.progress(course));
        Failure { object, ..failure }
    }

    /// A lane's failure with rank and step.
    #[cold]
    fn named(&self, failure: Failure, course: &Course, index: usize) -> Failure {
        let object = format!("{}, {}", self.end.object, course.words(index));
        Failure { object, ..failure }
    }
}

/// Reduces `received` into the vector from `at` on.
#[inline]
fn reduce(run: &mut Run, index: usize, at: usize, received: &[u8]) {
    let Some(reduction) = run.arithmetic.reduction else { return };
    let kind = run.arithmetic.kind;
    let to = at + received.len();
    let operand = run.course.schedule.moves[index].action;
    match (operand, run.vectors.input) {
        (Action::Reduce(Source::Input), Some(input)) => {
            let work = &mut run.vectors.work[at..to];
            kernels::combine(kind, reduction, work, &input[at..to], received);
        }
        _ => kernels::accumulate(kind, reduction, &mut run.vectors.work[at..to], received),
    }
}
