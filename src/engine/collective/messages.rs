//! Carries a schedule out over operations on named memory: WRITE with immediate data.
//!
//! What will be reduced goes to a slot at the peer; what is final goes straight to its place, where
//! nobody can be using it: in an all-reduce a rank gets the final value of an element only once its
//! own contribution has arrived at the others, and has no use for the element in between. The other
//! collectives have no such order, and their copies go through slots as well.

use super::carrier::{Carrier, GUARD, How};
use super::kernels;
use super::progress::Course;
use super::schedule::{Action, Collective, Source};
use super::slots::{Kind, Shape, Traffic};
use super::sockets::Cost;
use crate::engine::End;
use crate::engine::wait::Watch;
use crate::measure::clock::Time;
use crate::transport::{
    Addressed, Completion, Failure, FailureKind, Operation, Request, Result, Span,
};

/// Completions collected at a time.
const BATCH: usize = 32;

/// Where a rank stands among the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// What is done: decides what goes straight to its place.
    pub collective: Collective,
    /// Number of ranks.
    pub ranks: usize,
    /// Peers, ascending, and for each the place of this rank among that one's own peers.
    pub peers: Vec<(usize, usize)>,
}

/// Carries over `A`, which has the lanes of each peer one after the other.
pub struct OverMemory<'a, A, T> {
    end: &'a End<'a>,
    time: &'a T,
    wires: &'a mut A,
    shape: Shape,
    standing: Standing,
    inline: u32,
    lanes: Vec<Lane>,
    /// Whether what earlier runs have sent has left.
    settled: bool,
    cost: Cost,
}

/// One peer.
#[derive(Debug)]
struct Lane {
    /// Places in the course's lists of moves.
    send: usize,
    receive: usize,
    traffic: Traffic,
}

/// A run under way.
struct Run<'a> {
    course: &'a Course,
    how: How,
    positions: Vec<usize>,
    segment: usize,
    direct: bool,
}

impl<'a, A: Addressed, T: Time> OverMemory<'a, A, T> {
    /// Over `wires`, whose receives it posts: a peer may send only afterwards.
    ///
    /// # Errors
    /// What the transport refuses; Internal, when lanes or buffer are not as the shape has them.
    pub fn new(
        end: &'a End<'a>,
        wires: &'a mut A,
        time: &'a T,
        shape: Shape,
        standing: Standing,
    ) -> Result<Self> {
        let count = standing.peers.len();
        if wires.lanes() != count * shape.channels {
            let cause = format!("{} queue pairs for {count} peers", wires.lanes());
            return Err(Failure::new(FailureKind::Internal, "prepare", end.object, cause));
        }
        for lane in 0..wires.lanes() {
            for _ in 0..shape.receives() {
                wires.post_receive(lane, Span::default(), 0)?;
            }
        }
        let lane = |&(_, place): &(usize, usize)| Lane {
            send: 0,
            receive: 0,
            traffic: Traffic::new(shape, shape.slots_of(place)),
        };
        let lanes = standing.peers.iter().map(lane).collect();
        let inline = wires.inline();
        let cost = Cost::of_lanes(count);
        Ok(OverMemory { end, time, wires, shape, standing, inline, lanes, settled: true, cost })
    }

    /// Waits until every request is over, so that the queue pairs may go once all peers are here as
    /// well.
    ///
    /// # Errors
    /// As [`Carrier::run`].
    pub fn close(&mut self) -> Result<()> {
        for lane in 0..self.lanes.len() {
            let open: Vec<usize> = self.lanes[lane].traffic.unsettled().collect();
            for channel in open {
                // An empty WRITE takes nothing at the peer, and ends with what was posted before.
                let request = Request { operation: Operation::Write, ..Request::default() };
                self.wait("the end", |me| me.post(lane, channel, request, true, false))?;
            }
        }
        self.wait("the end", |me| Ok(me.lanes.iter().all(|l| l.traffic.unsettled().count() == 0)))
    }

    fn span(&self, offset: usize, len: usize) -> Span {
        Span { offset: offset as u64, len: len as u32 }
    }

    /// Collects completions until `done`.
    fn wait(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> Result<bool>) -> Result<()> {
        let mut watch = Watch::new(self.end);
        loop {
            let moved = self.collect()?;
            if done(self)? {
                return Ok(());
            }
            if moved {
                watch.moved();
                continue;
            }
            let waited = self.wires.idle(watch.look())?;
            watch.check(waited, self.time, || what.to_owned())?;
        }
    }

    /// Takes completions in; false when there were none.
    #[inline]
    fn collect(&mut self) -> Result<bool> {
        let mut done = [Completion::default(); BATCH];
        let count = self.wires.poll(&mut done)?;
        for completion in &done[..count] {
            let lane = completion.lane / self.shape.channels;
            let channel = completion.lane % self.shape.channels;
            let traffic = &mut self.lanes[lane].traffic;
            if !completion.arrival {
                traffic.over(channel, completion.id);
                continue;
            }
            let arrived = traffic.arrive(channel, completion.immediate, completion.len);
            arrived.map_err(|failure| self.about(failure, lane))?;
            // One receive was used up, so there is room for one.
            self.wires.post_receive(completion.lane, Span::default(), 0)?;
        }
        Ok(count > 0)
    }

    /// Posts a request; false when the queue is full.
    #[inline]
    fn post(
        &mut self,
        lane: usize,
        channel: usize,
        request: Request,
        signal: bool,
        holds: bool,
    ) -> Result<bool> {
        let traffic = &mut self.lanes[lane].traffic;
        let signal = signal || traffic.signal_due(channel);
        let request = Request {
            lane: lane * self.shape.channels + channel,
            signal,
            id: traffic.request(channel),
            ..request
        };
        let posted = self.wires.post(&request)?;
        if posted {
            traffic.posted(channel, signal, holds);
        }
        Ok(posted)
    }

    /// An empty message of a barrier.
    fn post_barrier(&mut self, lane: usize) -> Result<bool> {
        let traffic = &self.lanes[lane].traffic;
        if !traffic.has_room() {
            return Ok(false);
        }
        let ((channel, immediate), remote_offset) = (traffic.next(true), traffic.slot_there());
        let operation = Operation::WriteImm;
        let request = Request { operation, immediate, remote_offset, ..Request::default() };
        let posted = self.post(lane, channel, request, false, false)?;
        if posted {
            self.lanes[lane].traffic.message_posted();
        }
        Ok(posted)
    }

    /// Tells the peer of a lane what was consumed, where it may be waiting for that.
    #[inline]
    fn tell_credit(&mut self, lane: usize) -> Result<()> {
        let traffic = &self.lanes[lane].traffic;
        if traffic.owes_credit() {
            let (operation, immediate) = (Operation::WriteImm, traffic.credit());
            let request = Request { operation, immediate, ..Request::default() };
            if self.post(lane, 0, request, false, false)? {
                self.lanes[lane].traffic.credit_posted();
            }
        }
        Ok(())
    }

    /// Moves what can be moved on every lane; false when nothing could.
    fn turn(&mut self, run: &mut Run) -> Result<bool> {
        let mut moved = self.collect()?;
        for lane in 0..self.lanes.len() {
            moved |= self.receive(run, lane)?;
        }
        for lane in 0..self.lanes.len() {
            moved |= self.send(run, lane)?;
            self.tell_credit(lane)?;
        }
        Ok(moved)
    }

    fn send(&mut self, run: &mut Run, lane: usize) -> Result<bool> {
        let course = run.course;
        let mut moved = false;
        while let Some(&index) = course.sends[lane].get(self.lanes[lane].send) {
            let (at, end) = (run.positions[index], course.span(index).1);
            let to = end.min(at + run.segment);
            let free = course.limit(index, &run.positions) >= to;
            if !free || !self.send_segment(run, lane, index, to)? {
                break;
            }
            moved = true;
            run.positions[index] = to;
            self.cost.bytes_sent += (to - at) as u64;
            self.cost.segments_sent += 1;
            if to == end {
                self.lanes[lane].send += 1;
                self.cost.messages_sent += 1;
            }
        }
        Ok(moved)
    }

    /// Posts a move's bytes up to `to` as one message; false when there is no room for it.
    fn send_segment(&mut self, run: &Run, lane: usize, index: usize, to: usize) -> Result<bool> {
        let traffic = &self.lanes[lane].traffic;
        let Action::Send { from, reduced, at: elsewhere } = run.course.schedule.moves[index].action
        else {
            return Ok(false);
        };
        if !traffic.has_room() {
            return Ok(false);
        }
        let (at, (start, end)) = (run.positions[index], run.course.span(index));
        let place = match run.direct && !reduced {
            true => (self.shape.work() + elsewhere * run.course.element + (at - start)) as u64,
            false => traffic.slot_there(),
        };
        let source = match (from, run.how.in_place) {
            (Source::Input, false) => 0,
            _ => self.shape.work(),
        };
        let (channel, immediate) = traffic.next(false);
        let request = Request {
            operation: Operation::WriteImm,
            local: self.span(source + at, to - at),
            remote_offset: place,
            immediate,
            ..Request::default()
        };
        let inline = self.inline as usize;
        // The last request on each queue pair tells of all before it, unless all were inline.
        let last = (end - to).div_ceil(run.segment) < self.shape.channels && end - start > inline;
        let posted = self.post(lane, channel, request, last, to - at > inline);
        let posted = posted.map_err(|failure| named(failure, self.end, run.course, index))?;
        if posted {
            self.lanes[lane].traffic.message_posted();
        }
        Ok(posted)
    }

    fn receive(&mut self, run: &mut Run, lane: usize) -> Result<bool> {
        let course = run.course;
        let mut moved = false;
        while let Some(&index) = course.receives[lane].get(self.lanes[lane].receive) {
            let Some(kind) = self.lanes[lane].traffic.due() else { break };
            let (at, end) = (run.positions[index], course.span(index).1);
            let to = end.min(at + run.segment);
            if kind != Kind::Payload((to - at) as u32) {
                let due = format!("{} bytes were due and {kind:?} came", to - at);
                let cause = format!("{due}: this rank and the peer are not at the same step");
                let failure = Failure::new(FailureKind::Internal, "receive", "", cause);
                return Err(named(failure, self.end, course, index));
            }
            if !self.take_in(run, lane, index, to)? {
                break;
            }
            moved = true;
            run.positions[index] = to;
            let lane = &mut self.lanes[lane];
            lane.traffic.consume();
            lane.receive += usize::from(to == end);
        }
        Ok(moved)
    }

    /// Does with a message up to `to` what is to be done; false when it has to wait.
    fn take_in(&mut self, run: &Run, lane: usize, index: usize, to: usize) -> Result<bool> {
        let (at, action) = (run.positions[index], run.course.schedule.moves[index].action);
        let copies = action == Action::Copy;
        let reduction = run.how.arithmetic.reduction;
        // Without reduction nobody looks at what was to be reduced: it stays in its slot.
        if at == to || (run.direct && copies) || (reduction.is_none() && !copies) {
            return Ok(true);
        }
        if run.course.limit(index, &run.positions) < to || !self.is_settled() {
            return Ok(false);
        }
        let slot = Span {
            offset: self.lanes[lane].traffic.slot_here(self.shape.slots_of(lane)),
            len: (to - at) as u32,
        };
        let work = self.span(self.shape.work() + at, to - at);
        let from_input = action == Action::Reduce(Source::Input) && !run.how.in_place;
        let input = if from_input { self.span(at, to - at) } else { Span::default() };
        let kind = run.how.arithmetic.kind;
        let (work, [received, input]) = self.wires.parts(work, [slot, input])?;
        match reduction.filter(|_| !copies) {
            None => work.copy_from_slice(received),
            Some(reduction) => {
                let begin = self.time.now();
                match from_input {
                    true => kernels::combine(kind, reduction, work, input, received),
                    false => kernels::accumulate(kind, reduction, work, received),
                }
                self.cost.reduce_ns += self.time.now().saturating_sub(begin);
            }
        }
        Ok(true)
    }

    /// Whether what earlier runs have sent has left, so that the work vector may change.
    #[inline]
    fn is_settled(&mut self) -> bool {
        self.settled = self.settled || self.lanes.iter().all(|lane| lane.traffic.is_settled());
        self.settled
    }

    /// All moves are finished.
    fn over(&self, course: &Course) -> bool {
        self.lanes.iter().enumerate().all(|(lane, state)| {
            state.send == course.sends[lane].len() && state.receive == course.receives[lane].len()
        })
    }

    /// What this rank has of its own.
    fn keep(&mut self, course: &Course, how: &How) -> Result<()> {
        let range = &course.schedule.keeps;
        let (from, len) = (range.start * course.element, range.len() * course.element);
        if !how.in_place && len > 0 {
            let (to, from) = (self.span(self.shape.work() + from, len), self.span(from, len));
            let (work, [input, _]) = self.wires.parts(to, [from, Span::default()])?;
            work.copy_from_slice(input);
        }
        Ok(())
    }

    /// Adds a wait to the lanes whose next message was due, and to those where nothing more had
    /// room.
    fn note_wait(&mut self, since: u64, course: &Course) {
        let waited = self.time.now().saturating_sub(since);
        for (lane, state) in self.lanes.iter().enumerate() {
            if state.receive < course.receives[lane].len() && state.traffic.due().is_none() {
                self.cost.waited_ns[lane] += waited;
            }
            if state.send < course.sends[lane].len() && !state.traffic.has_room() {
                self.cost.blocked_ns[lane] += waited;
            }
        }
    }

    /// What is waited for, in words.
    fn progress(&self, course: &Course) -> String {
        let lanes = || self.lanes.iter().enumerate();
        let receives = lanes().filter_map(|(lane, state)| course.receives[lane].get(state.receive));
        let sends = lanes().filter_map(|(lane, state)| course.sends[lane].get(state.send));
        let step = |index: &&usize| (course.schedule.moves[**index].step, **index);
        receives.chain(sends).min_by_key(step).map(|i| course.words(*i)).unwrap_or_default()
    }

    /// A failure of the whole with rank and step.
    #[cold]
    fn at_step(&self, failure: Failure, course: &Course) -> Failure {
        if failure.object.starts_with(self.end.object) && failure.object != self.end.object {
            return failure;
        }
        let own = self.end.object;
        let place = match failure.object == own {
            true => String::new(),
            false => format!(" ({})", failure.object),
        };
        let object = format!("{own}{place}, {}", self.progress(course));
        Failure { object, ..failure }
    }

    /// A failure of a lane with both ranks.
    #[cold]
    fn about(&self, failure: Failure, lane: usize) -> Failure {
        let object =
            format!("{}, messages of rank {}", self.end.object, { self.standing.peers[lane].0 });
        Failure { object, ..failure }
    }

    /// Moves until all is moved, with a deadline.
    fn carry(&mut self, run: &mut Run) -> Result<()> {
        let course = run.course;
        let mut watch = Watch::new(self.end);
        let mut idle_since = None;
        loop {
            if self.turn(run)? {
                if let Some(since) = idle_since.take() {
                    self.note_wait(since, course);
                }
                watch.moved();
                continue;
            }
            if self.over(course) {
                return Ok(());
            }
            if idle_since.is_none() {
                idle_since = Some(self.time.now());
            }
            let waited = self.wires.idle(watch.look())?;
            watch.check(waited, self.time, || self.progress(course))?;
        }
    }
}

impl<A: Addressed, T: Time> Carrier for OverMemory<'_, A, T> {
    fn input(&mut self) -> Result<&mut [u8]> {
        let whole = self.span(0, self.shape.vector + GUARD);
        Ok(self.wires.parts(whole, [Span::default(); 2])?.0)
    }

    fn work(&mut self) -> Result<&mut [u8]> {
        let whole = self.span(self.shape.work(), self.shape.vector + GUARD);
        Ok(self.wires.parts(whole, [Span::default(); 2])?.0)
    }

    fn barrier(&mut self, rank: usize, ranks: usize) -> Result<()> {
        let lane = |peers: &[(usize, usize)], peer: usize| {
            peers.binary_search_by_key(&peer, |(peer, _)| *peer).unwrap_or(0)
        };
        let mut distance = 1;
        while distance < ranks {
            let (to, from) = ((rank + distance) % ranks, (rank + ranks - distance) % ranks);
            let peers = &self.standing.peers;
            let (to, back) = (lane(peers, to), lane(peers, from));
            let (mut sent, mut came) = (false, false);
            self.wait(&format!("barrier, waiting for rank {from}"), |me| {
                sent = sent || me.post_barrier(to)?;
                let traffic = &mut me.lanes[back].traffic;
                match traffic.due() {
                    Some(Kind::Barrier) if !came => {
                        traffic.consume();
                        came = true;
                    }
                    Some(Kind::Payload(len)) if !came => {
                        let cause = format!("{len} bytes came where its barrier was due");
                        let failure =
                            Failure::new(FailureKind::Internal, "barrier", me.end.object, cause);
                        return Err(me.about(failure, back));
                    }
                    _ => {}
                }
                me.tell_credit(back)?;
                Ok(sent && came)
            })?;
            distance *= 2;
        }
        Ok(())
    }

    fn run(&mut self, course: &Course, how: How) -> Result<()> {
        self.settled = false;
        for lane in &mut self.lanes {
            (lane.send, lane.receive) = (0, 0);
            lane.traffic.begin();
        }
        if !course.schedule.keeps.is_empty() {
            self.settle()?;
            self.keep(course, &how)?;
        }
        let mut run = Run {
            course,
            how,
            positions: course.start(),
            segment: self.shape.segment_of(how.bytes, self.standing.ranks),
            direct: self.standing.collective == Collective::AllReduce,
        };
        self.carry(&mut run).map_err(|failure| self.at_step(failure, course))
    }

    fn settle(&mut self) -> Result<()> {
        self.lanes.iter_mut().for_each(|lane| lane.traffic.begin());
        self.settled = false;
        self.wait("what was sent to arrive", |me| Ok(me.is_settled()))
    }

    fn cost(&mut self) -> &mut Cost {
        &mut self.cost
    }
}

/// A lane's failure with rank and step.
#[cold]
fn named(failure: Failure, end: &End, course: &Course, index: usize) -> Failure {
    let object = format!("{}, {}", end.object, course.words(index));
    Failure { object, ..failure }
}

#[cfg(test)]
mod tests;
