//! One thread of a stream: its loop, its counts at the edges.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Flow, Shared};
use crate::engine::sync::Start;
use crate::engine::wait::Watch;
use crate::engine::{End, Stage};
use crate::measure::clock::{Time, wait_until};
use crate::measure::cpu;
use crate::measure::summary::LongestGap;
use crate::session::protocol::Counted;
use crate::transport::{Result, Stream};

/// How long nothing may be seen to finish before completions are asked for.
const UNSEEN_NS: u64 = 100_000_000;

/// Turns that moved something between two looks that others get.
const PUBLISH: u32 = 256;

/// How long a paced sender sleeps between looks at what is due.
const DUE: Duration = Duration::from_micros(50);

/// How long a receiver that need not collect sleeps between looks once the window is over.
const LOOK: Duration = Duration::from_micros(200);

/// The instants at which all threads of an end count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edges {
    /// Begin of the warm-up, ns.
    start_ns: u64,
    /// Begin of the measured window, ns.
    first_ns: u64,
    interval_ns: u64,
    intervals: usize,
}

impl Edges {
    /// After the agreed start and the warm-up.
    pub fn new(start: &Start, flow: &Flow) -> Self {
        Edges {
            start_ns: start.at_ns,
            first_ns: start.at_ns + flow.warmup_ns,
            interval_ns: flow.interval_ns.max(1),
            intervals: flow.intervals(),
        }
    }

    /// End of the measured window, ns.
    pub fn last_ns(&self) -> u64 {
        self.at(self.intervals)
    }

    fn at(&self, index: usize) -> u64 {
        self.first_ns + self.interval_ns * index as u64
    }
}

/// What one thread has measured.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub started: u64,
    pub finished: u64,
    pub arrived: u64,
    pub finished_series: Vec<u64>,
    pub arrived_series: Vec<u64>,
    pub window_start_ns: u64,
    pub window_ns: u64,
    pub longest_gap_ns: u64,
    pub cpu_ns: (u64, u64),
    /// Finished inside the window, by lane.
    pub lanes: Vec<u64>,
    /// What a window that ended by number holds.
    pub counted: Option<Counted>,
}

/// Moves messages over one endpoint; the part of the loop whose cost counts.
#[derive(Debug)]
pub struct Pump<'a, S> {
    endpoint: &'a mut S,
    flow: Flow,
    drains: bool,
    base: u64,
    started: Vec<u64>,
    finished: Vec<u64>,
    /// How far each lane may go.
    ends: Vec<u64>,
    /// How far all lanes may go together by now.
    budget: u64,
    started_sum: u64,
    finished_sum: u64,
    arrived: u64,
}

impl<'a, S: Stream> Pump<'a, S> {
    /// Over an endpoint at rest.
    ///
    /// # Errors
    /// The transport's own.
    pub fn new(endpoint: &'a mut S, flow: &Flow) -> Result<Self> {
        let base = if flow.collects { endpoint.arrived()? } else { 0 };
        let lanes = endpoint.lanes();
        Ok(Pump {
            drains: flow.collects && endpoint.must_drain(),
            endpoint,
            flow: *flow,
            base,
            started: vec![0; lanes],
            finished: vec![0; lanes],
            ends: vec![u64::MAX; lanes],
            budget: if flow.pace_ps.is_some() { 0 } else { u64::MAX },
            started_sum: 0,
            finished_sum: 0,
            arrived: 0,
        })
    }

    /// Messages started.
    pub fn started(&self) -> u64 {
        self.started_sum
    }

    /// Messages finished.
    pub fn finished(&self) -> u64 {
        self.finished_sum
    }

    /// Fills the windows of all lanes once and collects what there is; returns whether anything
    /// moved.
    ///
    /// # Errors
    /// The transport's own.
    #[inline]
    pub fn turn(&mut self) -> Result<bool> {
        let mut moved = false;
        if self.flow.starts {
            for lane in 0..self.started.len() {
                moved |= self.fill(lane)?;
            }
        }
        moved |= self.reap()?;
        if self.drains {
            moved |= self.collect()?;
        }
        Ok(moved)
    }

    #[inline]
    fn fill(&mut self, lane: usize) -> Result<bool> {
        let under_way = self.started[lane] - self.finished[lane];
        let mut room = u64::from(self.flow.depth).saturating_sub(under_way);
        room = room.min(self.ends[lane] - self.started[lane]);
        room = room.min(self.budget - self.started_sum);
        if let Some(limit) = self.flow.in_flight {
            room = room.min(limit.saturating_sub(self.started_sum - self.finished_sum));
        }
        if room == 0 {
            return Ok(false);
        }
        let n =
            u64::from(self.endpoint.start(lane, room.min(u64::from(self.flow.post_list)) as u32)?);
        self.started[lane] += n;
        self.started_sum += n;
        Ok(n > 0)
    }

    /// Lets each lane finish `more` messages from now and then no more; what is under way counts.
    fn limit(&mut self, more: u64) {
        for (lane, end) in self.ends.iter_mut().enumerate() {
            *end = self.finished[lane].saturating_add(more).max(self.started[lane]);
        }
    }

    /// Lets as many messages go as `pace_ps` allows in `since_ns`.
    fn pace(&mut self, pace_ps: u64, since_ns: u64) {
        let due = u128::from(since_ns) * 1000 / u128::from(pace_ps.max(1));
        self.budget = u64::try_from(due).unwrap_or(u64::MAX).max(self.started_sum);
    }

    /// Whether there is nothing to do before the next message is due.
    fn is_ahead(&self) -> bool {
        let at_rest = self.started_sum == self.finished_sum && !self.drains;
        at_rest && self.flow.starts && self.started_sum == self.budget
    }

    /// Whether every lane has started all that it may.
    fn is_spent(&self) -> bool {
        self.started == self.ends
    }

    #[inline]
    fn reap(&mut self) -> Result<bool> {
        if self.finished_sum == self.started_sum {
            return Ok(false);
        }
        let n = self.endpoint.finished(&mut self.finished)?;
        self.finished_sum += u64::from(n);
        Ok(n > 0)
    }

    #[inline]
    fn collect(&mut self) -> Result<bool> {
        let arrived = self.endpoint.arrived()? - self.base;
        let moved = arrived > self.arrived;
        self.arrived = self.arrived.max(arrived);
        Ok(moved)
    }
}

/// Runs one worker to its end.
pub(super) fn run<S: Stream, T: Time>(
    end: &End,
    pump: Pump<S>,
    shared: &Shared,
    time: &T,
    edges: &Edges,
    tail_ns: u64,
) -> Result<Part> {
    let cpu_before = cpu::thread_time();
    let end = &End { abort: &shared.stop, ..*end };
    let mut worker = Worker::new(end, pump, shared, time, edges);
    let result = worker.work(tail_ns);
    if result.is_err() {
        shared.stop.store(true, Ordering::Relaxed);
    }
    let cpu_ns = cpu::spent(cpu_before, cpu::thread_time());
    result.map(|()| Part { cpu_ns, ..worker.part() })
}

struct Worker<'a, S, T> {
    end: &'a End<'a>,
    pump: Pump<'a, S>,
    shared: &'a Shared,
    time: &'a T,
    edges: &'a Edges,
    /// Counts at each edge so far: finished, arrived.
    marks: Vec<(u64, u64)>,
    first_stamp_ns: u64,
    last_stamp_ns: u64,
    gap: LongestGap,
    longest_gap_ns: u64,
    /// Messages of which the completion was asked for.
    asked: u64,
    shown: u64,
    /// Finished by lane at the begin of the window, then within it.
    lanes: Vec<u64>,
    counted: Counted,
    /// Turns of the loop, and messages that others have been shown.
    turns: u32,
    published: u64,
}

impl<'a, S: Stream, T: Time> Worker<'a, S, T> {
    fn new(
        end: &'a End<'a>,
        pump: Pump<'a, S>,
        shared: &'a Shared,
        time: &'a T,
        edges: &'a Edges,
    ) -> Self {
        let pump_lanes = pump.started.len();
        Worker {
            end,
            pump,
            shared,
            time,
            edges,
            marks: Vec::with_capacity(edges.intervals + 1),
            first_stamp_ns: edges.first_ns,
            last_stamp_ns: edges.first_ns,
            gap: LongestGap::from(edges.first_ns),
            longest_gap_ns: 0,
            asked: 0,
            shown: 0,
            lanes: vec![0; pump_lanes],
            counted: Counted::default(),
            turns: 0,
            published: 0,
        }
    }

    fn work(&mut self, tail_ns: u64) -> Result<()> {
        wait_until(self.time, self.edges.start_ns);
        self.end.stage.set(Stage::WarmUp);
        match (self.is_busy(), self.pump.flow.iterations) {
            (true, None) => self.move_messages(tail_ns)?,
            (true, Some(iterations)) => self.move_number(iterations)?,
            (false, _) => self.look_at_edges()?,
        }
        self.end.stage.set(Stage::Collect);
        self.drain()?;
        self.take_lanes();
        self.shared.sent.fetch_add(self.pump.started_sum, Ordering::AcqRel);
        self.shared.finished_workers.fetch_add(1, Ordering::AcqRel);
        if self.pump.flow.collects { self.collect_rest() } else { self.await_peer() }
    }

    /// Sends or collects through warm-up and window, and `tail_ns` on.
    fn move_messages(&mut self, tail_ns: u64) -> Result<()> {
        let until_ns = self.edges.last_ns() + tail_ns;
        let mut next_edge_ns = self.edges.first_ns;
        let mut watch = Watch::new(self.end);
        loop {
            let now = self.time.now();
            if now >= next_edge_ns {
                next_edge_ns = self.cross(now)?;
            }
            if now >= until_ns {
                return Ok(());
            }
            self.keep_pace(now);
            if self.pump.turn()? {
                watch.moved();
                self.gap.moved(now);
                self.end.check_abort()?;
                self.turns = self.turns.wrapping_add(1);
                if self.turns.is_multiple_of(PUBLISH) {
                    self.publish();
                }
            } else {
                self.pause(&mut watch)?;
            }
        }
    }

    /// Lets as many messages go as are due.
    #[inline]
    fn keep_pace(&mut self, now: u64) {
        if let Some(pace_ps) = self.pump.flow.pace_ps {
            self.pump.pace(pace_ps, now.saturating_sub(self.edges.start_ns));
        }
    }

    /// Sends or collects through the warm-up, then `iterations` messages a lane and all that the
    /// peer has sent; at most until the end of the window.
    fn move_number(&mut self, iterations: u64) -> Result<()> {
        let until_ns = self.edges.last_ns();
        let mut next_edge_ns = self.edges.first_ns;
        let mut watch = Watch::new(self.end);
        while self.marks.is_empty() || !self.is_through() {
            let now = self.time.now();
            if now >= next_edge_ns {
                let begins = self.marks.is_empty();
                next_edge_ns = self.cross(now)?;
                if begins {
                    self.pump.limit(iterations);
                }
            }
            if now >= until_ns {
                self.count(now);
                return Ok(());
            }
            self.keep_pace(now);
            if self.pump.turn()? {
                watch.moved();
                self.gap.moved(now);
                self.count(now);
                self.publish();
                self.end.check_abort()?;
                if self.asked < self.pump.started_sum && self.pump.is_spent() {
                    self.asked = self.pump.started_sum;
                    self.pump.endpoint.flush()?;
                }
            } else {
                self.pause(&mut watch)?;
            }
        }
        self.longest_gap_ns = self.gap.until(self.gap.last_ns());
        Ok(())
    }

    /// Whether the number of messages is finished here; an end that starts none waits for the
    /// peer's.
    fn is_through(&self) -> bool {
        if self.pump.flow.starts {
            return self.pump.is_spent() && self.pump.finished_sum == self.pump.started_sum;
        }
        self.shared.peer_sent.load(Ordering::Acquire) != u64::MAX
    }

    /// Notes what of a window that ends by number is done.
    fn count(&mut self, now: u64) {
        let Some(&(finished, arrived)) = self.marks.first() else { return };
        let counted = &mut self.counted;
        let sent = self.pump.finished_sum - finished;
        if sent > counted.sent {
            (counted.sent, counted.sent_ns) = (sent, now - self.first_stamp_ns);
        }
        let received = self.pump.arrived - arrived;
        if received > counted.received {
            (counted.received, counted.received_ns) = (received, now - self.first_stamp_ns);
        }
    }

    /// Turns the lanes' counts into those of the window, where its end has not done so.
    fn take_lanes(&mut self) {
        if self.pump.flow.iterations.is_some() {
            for (lane, finished) in self.lanes.iter_mut().zip(&self.pump.finished) {
                *lane = finished - *lane;
            }
        }
    }

    /// Nothing to move: counts at the edges, sleeps between them.
    fn look_at_edges(&mut self) -> Result<()> {
        const LONGEST_SLEEP_NS: u64 = 50_000_000;
        let mut next_edge_ns = self.edges.first_ns;
        let by_number = self.pump.flow.iterations.is_some();
        while self.marks.len() <= self.edges.intervals {
            if by_number && self.shared.peer_sent.load(Ordering::Acquire) != u64::MAX {
                return Ok(());
            }
            self.end.check_abort()?;
            let now = self.time.now();
            if now >= next_edge_ns {
                next_edge_ns = self.cross(now)?;
            } else {
                wait_until(self.time, next_edge_ns.min(now + LONGEST_SLEEP_NS));
            }
        }
        Ok(())
    }

    /// Notes the counts at every edge that `now` has passed; returns the next edge.
    #[cold]
    fn cross(&mut self, now: u64) -> Result<u64> {
        if self.pump.flow.collects && !self.pump.drains {
            self.pump.collect()?;
        }
        if self.marks.is_empty() {
            self.end.stage.set(Stage::Measure);
            self.first_stamp_ns = now;
            self.gap = LongestGap::from(now);
            self.lanes.copy_from_slice(&self.pump.finished);
        }
        while self.marks.len() <= self.edges.intervals && now >= self.edges.at(self.marks.len()) {
            self.marks.push((self.pump.finished_sum, self.pump.arrived));
        }
        if self.marks.len() <= self.edges.intervals {
            return Ok(self.edges.at(self.marks.len()));
        }
        self.last_stamp_ns = now;
        if self.pump.flow.iterations.is_none() {
            for (lane, finished) in self.lanes.iter_mut().zip(&self.pump.finished) {
                *lane = finished - *lane;
            }
        }
        if self.is_busy() {
            self.longest_gap_ns = self.gap.until(now);
        }
        Ok(u64::MAX)
    }

    /// Whether this end has anything to do between the edges.
    fn is_busy(&self) -> bool {
        self.pump.flow.starts || self.pump.drains
    }

    /// Finishes what this end has started, collecting meanwhile what must be.
    fn drain(&mut self) -> Result<()> {
        self.pump.flow.starts = false;
        self.pump.endpoint.flush()?;
        let mut watch = Watch::new(self.end);
        while self.pump.finished_sum < self.pump.started_sum {
            if self.pump.turn()? {
                watch.moved();
            } else {
                self.pause(&mut watch)?;
            }
        }
        Ok(())
    }

    /// Collects until all ends' arrivals reach what the peer has sent, or nothing comes any more.
    fn collect_rest(&mut self) -> Result<()> {
        let mut last_ns = self.time.now();
        let mut empty = 0u32;
        let stall_ns = self.end.stall.as_nanos() as u64;
        let patience_ns = self.pump.flow.grace_ns.unwrap_or(stall_ns);
        loop {
            self.end.check_abort()?;
            let moved = self.pump.collect()?;
            let now = self.time.now();
            if moved {
                self.count(now);
            }
            let arrived = self.show_arrived();
            let wanted = self.shared.peer_sent.load(Ordering::Acquire);
            if arrived >= wanted {
                return Ok(());
            }
            if moved {
                (last_ns, empty) = (now, 0);
            } else if wanted != u64::MAX && now.saturating_sub(last_ns) > patience_ns {
                return Ok(());
            } else {
                empty = empty.wrapping_add(1);
                self.rest(empty)?;
            }
        }
    }

    fn rest(&mut self, empty: u32) -> Result<()> {
        if !self.pump.drains {
            std::thread::sleep(LOOK);
        } else if !self.pump.endpoint.idle(empty)? && empty > 1024 {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Adds what is new here to the sum of all workers and returns that.
    fn show_arrived(&mut self) -> u64 {
        let new = self.pump.arrived - self.shown;
        self.shown = self.pump.arrived;
        self.shared.arrived.fetch_add(new, Ordering::AcqRel) + new
    }

    /// Nothing arrives here: looks after the endpoint until the peer has told its total, since an
    /// idle end must still see its queue pairs break.
    fn await_peer(&mut self) -> Result<()> {
        while self.shared.peer_sent.load(Ordering::Acquire) == u64::MAX {
            self.end.check_abort()?;
            self.pump.endpoint.finished(&mut self.pump.finished)?;
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Shows others how far this thread is: what arrived where anything does, else what finished.
    fn publish(&mut self) {
        let flow = &self.pump.flow;
        let over = if flow.collects { self.pump.arrived } else { self.pump.finished_sum };
        if over > self.published {
            self.end.stage.add(over - self.published);
            self.published = over;
        }
    }

    fn pause(&mut self, watch: &mut Watch) -> Result<()> {
        self.publish();
        if self.pump.is_ahead() {
            // To wait for what is due is no stall, and nothing can wake this thread earlier.
            watch.moved();
            self.end.check_abort()?;
            std::thread::sleep(DUE);
            return Ok(());
        }
        let waited = self.pump.endpoint.idle(watch.look())?;
        let pump = &self.pump;
        let idle = watch.check(waited, self.time, || {
            format!(
                "{} messages started, {} finished, {} arrived",
                pump.started_sum, pump.finished_sum, pump.arrived
            )
        })?;
        let started = pump.started_sum;
        if idle.is_some_and(|ns| ns > UNSEEN_NS) && self.asked < started {
            // A window full of messages whose completion nobody asked for would stay full.
            self.asked = started;
            self.pump.endpoint.flush()?;
        }
        Ok(())
    }

    fn part(&self) -> Part {
        let deltas = |of: fn(&(u64, u64)) -> u64| {
            self.marks.windows(2).map(|pair| of(&pair[1]) - of(&pair[0])).collect()
        };
        Part {
            started: self.pump.started_sum,
            finished: self.pump.finished_sum,
            arrived: self.pump.arrived,
            finished_series: deltas(|mark| mark.0),
            arrived_series: deltas(|mark| mark.1),
            window_start_ns: self.first_stamp_ns,
            window_ns: match self.pump.flow.iterations {
                None => self.last_stamp_ns - self.first_stamp_ns,
                Some(_) => self.counted.sent_ns.max(self.counted.received_ns),
            },
            longest_gap_ns: self.longest_gap_ns,
            cpu_ns: (0, 0),
            lanes: self.lanes.clone(),
            counted: self.pump.flow.iterations.map(|_| self.counted),
        }
    }
}
