//! Bandwidth and message rate: windows of messages over [`Stream`]s, one thread each.
//!
//! Both ends warm up and measure over windows that they have agreed on; each counts at the edges
//! of the intervals on its own clock. Then the senders finish what is under way, each end tells
//! its total, and the receivers collect until they have as many or nothing comes any more.

mod worker;

pub use worker::{Edges, Pump};

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use crate::engine::sync::{Start, agree};
use crate::engine::{End, Note, Peer, Ran};
use crate::measure::clock::Time;
use crate::measure::summary::add_series;
use crate::session::protocol::SideRepeat;
use crate::transport::{Failure, FailureKind, Result, Stream};

/// Longest time for which a sender goes on after its window so that the peer's is covered.
const LONGEST_TAIL_NS: u64 = 100_000_000;

/// How long the watching thread sleeps at a time once the window is over.
const AFTER_WINDOW: Duration = Duration::from_micros(500);

/// How long it sleeps at most before it looks whether the case is to be ended.
const LONGEST_SLICE: Duration = Duration::from_millis(50);

/// What this end does in a repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// It starts messages: payload leaves, or READ requests do.
    pub starts: bool,
    /// Messages of the peer arrive here and are counted on arrival. False for READ.
    pub collects: bool,
    /// What finishes here has arrived here: READ.
    pub fetches: bool,
    /// Before the measured window, ns.
    pub warmup_ns: u64,
    /// Measured window, ns; cut to whole intervals, at least one.
    pub window_ns: u64,
    /// Interval of the series, ns.
    pub interval_ns: u64,
    /// Messages that may be on their way per lane.
    pub depth: u32,
    /// Messages that may be on their way over all lanes of all endpoints; none for no limit.
    pub in_flight: Option<u64>,
    /// Most messages started by one call.
    pub post_list: u32,
    /// Ends the window after so many messages of each lane, if before its time; what is counted
    /// until then is in [`SideRepeat::counted`].
    pub iterations: Option<u64>,
    /// Time from one message to the next over all lanes of all endpoints, picoseconds; none for as
    /// fast as they go.
    pub pace_ps: Option<u64>,
    /// Messages may be lost: how long nothing must arrive after the peer has told its total until
    /// what is missing counts as lost, ns; none where each is owed.
    pub grace_ns: Option<u64>,
}

/// Most messages started by one call where nobody asks for less.
pub const POST_LIST: u32 = 32;

impl Flow {
    /// Whole intervals of the window.
    pub fn intervals(&self) -> usize {
        (self.window_ns / self.interval_ns.max(1)).max(1) as usize
    }
}

/// Depth and signalling that fit together under a limit of bytes in flight; to be asked before
/// the endpoint is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// Messages that may be on their way per lane.
    pub depth: u32,
    /// A completion every so many; at most half of the depth, so that a lane never runs dry.
    pub signal_every: u32,
    /// Messages that may be on their way over all lanes.
    pub in_flight: Option<u64>,
}

/// Fits the wanted `depth` and `signal_every` to `max_bytes` in flight over `lanes` lanes of
/// messages of `size` bytes (a message of no bytes counts as one). At least one message a lane.
pub fn fit_depth(
    depth: u32,
    signal_every: u32,
    size: u64,
    lanes: u32,
    max_bytes: Option<u64>,
) -> Depth {
    let lanes = u64::from(lanes.max(1));
    let in_flight = max_bytes.map(|bytes| (bytes / size.max(1)).max(lanes));
    let per_lane = in_flight.map_or(u64::MAX, |messages| messages / lanes);
    let depth = u64::from(depth.max(1)).min(per_lane) as u32;
    Depth { depth, signal_every: signal_every.clamp(1, (depth / 2).max(1)), in_flight }
}

/// What the workers and the thread that looks after them share.
#[derive(Debug)]
struct Shared {
    /// Give up.
    stop: AtomicBool,
    /// Messages that all workers have started, complete once `finished_workers` is.
    sent: AtomicU64,
    /// Workers that have finished all they started.
    finished_workers: AtomicUsize,
    /// Messages that arrived in this repeat, over all workers.
    arrived: AtomicU64,
    /// What the peer has sent; `u64::MAX` until it tells.
    peer_sent: AtomicU64,
}

impl Shared {
    fn new(peer_sent: u64) -> Self {
        Shared {
            stop: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            finished_workers: AtomicUsize::new(0),
            arrived: AtomicU64::new(0),
            peer_sent: AtomicU64::new(peer_sent),
        }
    }
}

/// Runs one repeat of this end: a thread for each of `endpoints`. `on_thread` is called in each
/// with the endpoint's index before anything else, e.g. to pin it to a CPU.
///
/// # Errors
/// The transport's or the link's own; stalled, stopped; the peer's when it gives up. The peer is
/// told of a failure of this end. Messages that never arrive are no failure: the totals differ.
pub fn repeat<S: Stream + Send>(
    end: &End,
    endpoints: &mut [S],
    peer: &mut impl Peer,
    time: &(impl Time + Sync),
    flow: &Flow,
    repeat: u32,
    on_thread: &(dyn Fn(usize) + Sync),
) -> Result<Ran> {
    let ran = run(end, endpoints, peer, time, flow, repeat, on_thread)
        .and_then(|ran| conclude(end, peer, ran));
    end.share(peer, ran)
}

/// Waits until the peer, too, is through: neither end closes while the other still collects.
fn conclude(end: &End, peer: &mut impl Peer, ran: Ran) -> Result<Ran> {
    peer.tell(&Note::Collected { received: ran.repeat.messages_received })?;
    let patient = End { patience: end.patience + end.stall, ..*end };
    match patient.hear(peer, "the peer's count of arrivals")? {
        Note::Collected { .. } => Ok(ran),
        note => Err(end.unexpected(&note, "the peer's count of arrivals")),
    }
}

/// Runs the loop of one thread at once and without a peer, on the calling thread, over a transport
/// that needs none: what is left is the loop's own cost.
///
/// # Errors
/// The transport's own; stalled; stopped.
pub fn run_alone<S: Stream>(
    end: &End,
    endpoint: &mut S,
    time: &impl Time,
    flow: &Flow,
) -> Result<Ran> {
    let start = Start { at_ns: time.now(), ..Start::default() };
    let shared = Shared::new(0);
    let pump = Pump::new(endpoint, flow)?;
    let part = worker::run(end, pump, &shared, time, &Edges::new(&start, flow), 0);
    gather(Ok(()), vec![part], &start, flow)
}

fn run<S: Stream + Send>(
    end: &End,
    endpoints: &mut [S],
    peer: &mut impl Peer,
    time: &(impl Time + Sync),
    flow: &Flow,
    repeat: u32,
    on_thread: &(dyn Fn(usize) + Sync),
) -> Result<Ran> {
    let workers = endpoints.len().max(1) as u64;
    let share = Flow {
        in_flight: flow.in_flight.map(|all| (all / workers).max(1)),
        pace_ps: flow.pace_ps.map(|pace| pace.saturating_mul(workers)),
        ..*flow
    };
    let pumps = endpoints.iter_mut().map(|s| Pump::new(s, &share)).collect::<Result<Vec<_>>>()?;
    let start = agree(end, peer, time, repeat)?;
    let edges = Edges::new(&start, flow);
    let shared = Shared::new(u64::MAX);
    let tail_ns = (1_000_000 + 2 * start.uncertainty_ns).min(LONGEST_TAIL_NS);
    std::thread::scope(|scope| {
        let (shared, edges) = (&shared, &edges);
        let threads: Vec<_> = pumps
            .into_iter()
            .enumerate()
            .map(|(index, pump)| {
                scope.spawn(move || {
                    on_thread(index);
                    worker::run(end, pump, shared, time, edges, tail_ns)
                })
            })
            .collect();
        let watched = Watcher { end, shared, threads: &threads }.watch(peer, time, edges);
        if watched.is_err() {
            shared.stop.store(true, Ordering::Relaxed);
        }
        let ended = threads.into_iter().map(|thread| thread.join());
        let parts = ended.map(|part| part.unwrap_or_else(|_| Err(panicked(end)))).collect();
        gather(watched, parts, &start, flow)
    })
}

/// The thread that talks to the peer while the workers work.
struct Watcher<'a, 'scope> {
    end: &'a End<'a>,
    shared: &'a Shared,
    threads: &'a [ScopedJoinHandle<'scope, Result<worker::Part>>],
}

impl Watcher<'_, '_> {
    /// Returns when all workers have ended and the totals are exchanged.
    fn watch(&self, peer: &mut impl Peer, time: &impl Time, edges: &Edges) -> Result<()> {
        let (mut told, mut heard) = (false, false);
        let patience_ns = (self.end.stall + self.end.patience).as_nanos() as u64;
        loop {
            self.end.check_abort()?;
            if !told && self.all_finished() {
                let sent = self.shared.sent.load(Ordering::Acquire);
                let received = self.shared.arrived.load(Ordering::Relaxed);
                peer.tell(&Note::Totals { sent, received })?;
                told = true;
            }
            let over = told == heard || self.shared.stop.load(Ordering::Relaxed);
            if over && self.threads.iter().all(ScopedJoinHandle::is_finished) {
                return Ok(());
            }
            if told && heard {
                // The next note tells that the peer has collected all.
                std::thread::sleep(AFTER_WINDOW);
                continue;
            }
            let now = time.now();
            match peer.hear(slice(now, edges.last_ns()))? {
                Some(Note::Totals { sent, .. }) if !heard => {
                    self.shared.peer_sent.store(sent, Ordering::Release);
                    heard = true;
                }
                Some(Note::Failed(failure)) => return Err(self.end.peer_failed(&failure)),
                Some(note) => return Err(self.end.unexpected(&note, "the peer's totals")),
                None if now > edges.last_ns().saturating_add(patience_ns) && !heard => {
                    let waiting = "waiting for the peer's totals";
                    return Err(self.end.stalled(self.end.stall + self.end.patience, waiting));
                }
                None => {}
            }
        }
    }

    /// Whether all workers have finished what they started.
    fn all_finished(&self) -> bool {
        self.shared.finished_workers.load(Ordering::Acquire) == self.threads.len()
    }
}

/// How long to sleep on the link: never beyond the end of the window, after it briefly.
fn slice(now: u64, window_end_ns: u64) -> Duration {
    Duration::from_nanos(window_end_ns.saturating_sub(now)).clamp(AFTER_WINDOW, LONGEST_SLICE)
}

/// Puts the workers' parts together; their failure says more than that of the watcher, unless
/// they were only told to stop.
fn gather(
    watched: Result<()>,
    parts: Vec<Result<worker::Part>>,
    start: &Start,
    flow: &Flow,
) -> Result<Ran> {
    let mut ran = Ran::default();
    let sum = &mut ran.repeat;
    sum.clock_offset_ns = start.clock_offset_ns;
    sum.clock_uncertainty_ns = start.uncertainty_ns;
    let mut failed = watched;
    for part in parts {
        match part {
            Ok(part) => {
                add_part(sum, &part, flow);
                ran.cpu_ns.0 += part.cpu_ns.0;
                ran.cpu_ns.1 += part.cpu_ns.1;
            }
            Err(failure) if failed.is_ok() || failure.kind != FailureKind::Stopped => {
                failed = Err(failure);
            }
            Err(_) => {}
        }
    }
    failed.map(|()| ran)
}

fn add_part(sum: &mut SideRepeat, part: &worker::Part, flow: &Flow) {
    sum.window_start_ns = part.window_start_ns;
    sum.window_ns = sum.window_ns.max(part.window_ns);
    if flow.starts {
        sum.messages_sent += part.started;
        let series = if flow.fetches { &mut sum.received_series } else { &mut sum.sent_series };
        add_series(series, &part.finished_series);
    }
    if flow.starts && flow.fetches {
        sum.messages_received += part.finished;
    }
    if flow.collects {
        sum.messages_received += part.arrived;
        add_series(&mut sum.received_series, &part.arrived_series);
    }
    sum.longest_gap_ns = sum.longest_gap_ns.max(part.longest_gap_ns);
    if flow.starts {
        sum.lane_messages.extend(&part.lanes);
    }
    if let Some(part) = &part.counted {
        let sum = sum.counted.get_or_insert_default();
        sum.sent += part.sent;
        sum.sent_ns = sum.sent_ns.max(part.sent_ns);
        sum.received += part.received;
        sum.received_ns = sum.received_ns.max(part.received_ns);
        if flow.fetches {
            (sum.received, sum.received_ns) = (sum.sent, sum.sent_ns);
        }
    }
}

fn panicked(end: &End) -> Failure {
    let cause = "a measuring thread ended by panic; please report this with its message";
    Failure::new(FailureKind::Internal, end.stage.get().word(), end.object, cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::both;
    use crate::engine::{Stage, StageCell};
    use crate::measure::clock::Clock;
    use crate::session::protocol::Role;
    use crate::transport::null::NullStream;
    use crate::transport::null::stream::{LocalStream, Shape, pair};
    use std::cell::Cell;

    const STALL: Duration = Duration::from_secs(10);
    const MS: u64 = 1_000_000;

    fn flow(starts: bool, collects: bool) -> Flow {
        Flow {
            starts,
            collects,
            fetches: false,
            warmup_ns: 5 * MS,
            window_ns: 100 * MS,
            interval_ns: 25 * MS,
            depth: 16,
            in_flight: None,
            post_list: POST_LIST,
            iterations: None,
            pace_ps: None,
            grace_ns: None,
        }
    }

    /// One repeat over `n` pairs of endpoints, each end with its flow.
    fn run_pairs(n: usize, shape: Shape, stall: Duration, flows: [Flow; 2]) -> [Result<Ran>; 2] {
        let (mut left, mut right): (Vec<_>, Vec<_>) = (0..n).map(|_| pair(shape)).unzip();
        let side = |ends: &mut [LocalStream], end: &End, mut peer, flow| {
            repeat(end, ends, &mut peer, &Clock, flow, 0, &|_| {})
        };
        let (a, b) = both(
            stall,
            |end, peer| side(&mut left, end, peer, &flows[0]),
            |end, peer| side(&mut right, end, peer, &flows[1]),
        );
        [a, b]
    }

    /// Advances by 1 µs each time that it is asked.
    struct Stepping(Cell<u64>);

    impl Time for Stepping {
        fn now(&self) -> u64 {
            self.0.set(self.0.get() + 1_000);
            self.0.get()
        }
    }

    #[test]
    fn counts_are_taken_at_the_edges_of_the_window() {
        let (abort, stage) = (AtomicBool::new(false), StageCell::new());
        let (role, object) = (Role::Initiator, "null");
        let end = End { role, object, abort: &abort, stage: &stage, patience: STALL, stall: STALL };
        let flow =
            Flow { warmup_ns: 10_000, window_ns: 109_999, interval_ns: 25_000, ..flow(true, true) };
        let mut null = NullStream::new(2, true);
        let ran = run_alone(&end, &mut null, &Stepping(Cell::new(0)), &flow).unwrap().repeat;
        // One reading a turn, 16 messages on each of two lanes a turn.
        assert_eq!(ran.sent_series, vec![25 * 32; 4], "warm-up is not in the series");
        assert_eq!(ran.received_series, ran.sent_series);
        assert_eq!((ran.window_ns, ran.longest_gap_ns), (100_000, 1_000));
        assert!(ran.messages_sent > 4 * 25 * 32 && ran.messages_sent == null.started());
        assert_eq!(stage.get(), Stage::Collect);
    }

    #[test]
    fn one_direction_counts_at_both_ends_and_totals_agree() {
        for must_drain in [true, false] {
            let shape = Shape { lanes: 3, must_drain, signal_every: 4, ..Shape::default() };
            let flows = [flow(true, false), flow(false, true)];
            let [a, b] = run_pairs(1, shape, STALL, flows).map(|ran| ran.unwrap().repeat);
            assert!(a.messages_sent > 0);
            assert_eq!(a.messages_sent, b.messages_received);
            assert_eq!((a.messages_received, b.messages_sent), (0, 0));
            assert_eq!((a.sent_series.len(), b.received_series.len()), (4, 4));
            assert!(a.received_series.is_empty() && b.sent_series.is_empty());
            let within: u64 = b.received_series.iter().sum();
            assert!(within <= b.messages_received);
            assert_eq!(b.longest_gap_ns > 0, must_drain, "who only looks sees no gaps");
        }
    }

    #[test]
    fn both_directions_share_lanes_and_threads() {
        let shape = Shape { lanes: 2, ..Shape::default() };
        let flows = [flow(true, true); 2];
        let [a, b] = run_pairs(2, shape, STALL, flows).map(|ran| ran.unwrap().repeat);
        assert_eq!(a.messages_sent, b.messages_received);
        assert_eq!(b.messages_sent, a.messages_received);
        assert!(a.messages_sent > 0 && b.messages_sent > 0);
        assert!(a.sent_series.iter().sum::<u64>() <= a.messages_sent);
    }

    #[test]
    fn what_a_fetching_end_finishes_has_arrived() {
        let asks = Flow { fetches: true, ..flow(true, false) };
        let shape = Shape { must_drain: false, ..Shape::default() };
        let flows = [asks, flow(false, false)];
        let [a, b] = run_pairs(1, shape, STALL, flows).map(|ran| ran.unwrap().repeat);
        assert_eq!(a.messages_sent, a.messages_received);
        assert!(a.sent_series.is_empty() && a.received_series.iter().sum::<u64>() > 0);
        assert_eq!((b.messages_sent, b.messages_received), (0, 0));
    }

    #[test]
    fn a_window_may_end_by_number() {
        let long = |starts, collects| Flow {
            iterations: Some(1_000),
            window_ns: 60_000 * MS,
            ..flow(starts, collects)
        };
        let shape = Shape { lanes: 2, signal_every: 7, ..Shape::default() };
        let [a, b] = run_pairs(1, shape, STALL, [long(true, false), long(false, true)])
            .map(|ran| ran.unwrap().repeat);
        assert_eq!(a.lane_messages, [1_000, 1_000]);
        assert_eq!(a.messages_sent, b.messages_received);
        let (sent, received) = (a.counted.unwrap(), b.counted.unwrap());
        assert_eq!(sent.sent, 2_000);
        assert!(sent.sent_ns > 0 && sent.sent_ns < 60_000 * MS, "{sent:?}");
        assert!(received.received_ns > 0 && received.received >= 1_900, "{received:?}");
        let [a, b] = run_pairs(2, shape, STALL, [long(true, true); 2]).map(|r| r.unwrap().repeat);
        assert_eq!((a.lane_messages.len(), a.counted.unwrap().sent), (4, 4_000));
        assert_eq!(b.messages_sent, a.messages_received);
        assert!(a.counted.unwrap().received > 0 && b.counted.unwrap().received > 0);
    }

    #[test]
    fn what_is_fetched_by_number_has_arrived_by_number() {
        let one = Flow { iterations: Some(500), window_ns: 60_000 * MS, ..flow(true, false) };
        let asks = Flow { fetches: true, ..one };
        let shape = Shape { must_drain: false, ..Shape::default() };
        let answers = Flow { starts: false, ..one };
        let [a, b] = run_pairs(1, shape, STALL, [asks, answers]).map(|ran| ran.unwrap().repeat);
        let counted = a.counted.unwrap();
        assert_eq!((counted.sent, counted.received), (500, 500));
        assert_eq!((b.messages_sent, b.messages_received), (0, 0));
    }

    #[test]
    fn a_number_that_is_not_reached_ends_with_the_window() {
        let much = |starts, collects| Flow { iterations: Some(1 << 40), ..flow(starts, collects) };
        let [a, b] = run_pairs(1, Shape::default(), STALL, [much(true, false), much(false, true)])
            .map(|ran| ran.unwrap().repeat);
        assert!(a.counted.unwrap().sent_ns <= 110 * MS, "{:?}", a.counted);
        assert_eq!(a.messages_sent, b.messages_received);
        assert!(b.counted.unwrap().received > 0);
    }

    #[test]
    fn a_pace_is_kept_over_all_threads() {
        // A message every 100 µs: 1000 in the window of 100 ms.
        let paced = Flow { pace_ps: Some(100_000_000), ..flow(true, false) };
        let shape = Shape { lanes: 2, ..Shape::default() };
        let [a, b] =
            run_pairs(2, shape, STALL, [paced, flow(false, true)]).map(|ran| ran.unwrap().repeat);
        let in_window: u64 = a.sent_series.iter().sum();
        assert!((500..=1_100).contains(&in_window), "{in_window}");
        assert_eq!(a.messages_sent, b.messages_received);
    }

    #[test]
    fn the_lanes_of_a_window_are_told_apart() {
        let shape = Shape { lanes: 3, ..Shape::default() };
        let [a, b] = run_pairs(2, shape, STALL, [flow(true, false), flow(false, true)])
            .map(|ran| ran.unwrap().repeat);
        assert_eq!(a.lane_messages.len(), 6);
        let in_window: u64 = a.sent_series.iter().sum();
        let by_lane: u64 = a.lane_messages.iter().sum();
        assert!(by_lane > 0 && by_lane.abs_diff(in_window) < in_window / 2 + 100);
        assert!(b.lane_messages.is_empty() && a.counted.is_none());
    }

    #[test]
    fn a_window_of_unsignalled_messages_is_flushed() {
        let shape = Shape { signal_every: 64, depth: 64, must_drain: false, ..Shape::default() };
        let narrow =
            Flow { depth: 8, window_ns: 500 * MS, interval_ns: 250 * MS, ..flow(true, false) };
        let flows = [narrow, Flow { starts: false, collects: true, ..narrow }];
        let [a, b] = run_pairs(1, shape, STALL, flows).map(|ran| ran.unwrap().repeat);
        assert!(a.messages_sent > 8, "{a:?}");
        assert_eq!(a.messages_sent, b.messages_received);
    }

    #[test]
    fn a_lost_message_shows_in_the_totals() {
        let shape = Shape { lose: Some(77), ..Shape::default() };
        let flows = [flow(true, false), flow(false, true)];
        let [a, b] = run_pairs(1, shape, Duration::from_millis(200), flows);
        let (a, b) = (a.unwrap().repeat, b.unwrap().repeat);
        assert_eq!(a.messages_sent - b.messages_received, 1);
    }

    #[test]
    fn what_may_be_lost_is_not_waited_for_long() {
        let shape = Shape { lose: Some(77), ..Shape::default() };
        let flows = [flow(true, false), flow(false, true)]
            .map(|flow| Flow { grace_ns: Some(50 * MS), ..flow });
        let begin = std::time::Instant::now();
        let [a, b] = run_pairs(1, shape, STALL, flows).map(|ran| ran.unwrap().repeat);
        assert!(begin.elapsed() < STALL / 2, "the stall limit is for what is owed");
        assert_eq!(a.messages_sent - b.messages_received, 1);
    }

    #[test]
    fn a_cut_is_a_stall_with_its_stage_and_progress() {
        let shape = Shape { cut_after: Some(1_000), ..Shape::default() };
        let mut long = [flow(true, false), flow(false, true)];
        long.iter_mut().for_each(|flow| (flow.warmup_ns, flow.window_ns) = (0, 60_000 * MS));
        let [a, b] = run_pairs(1, shape, Duration::from_millis(300), long);
        let (a, b) = (a.unwrap_err(), b.unwrap_err());
        for failure in [&a, &b] {
            let stalled = failure.kind == FailureKind::Stalled;
            assert!(stalled || failure.kind == FailureKind::PeerLost, "{failure}");
            assert!(failure.cause.contains("nothing moved"), "{failure}");
            assert!(failure.cause.contains(" finished, "), "how far it came: {failure}");
            assert_eq!(failure.operation, "measure");
        }
    }

    #[test]
    fn depth_fits_the_bytes_in_flight() {
        let fitted = fit_depth(128, 64, 65_536, 2, Some(1 << 20));
        assert_eq!(fitted, Depth { depth: 8, signal_every: 4, in_flight: Some(16) });
        let tiny = fit_depth(128, 64, 1 << 20, 4, Some(65_536));
        assert_eq!(tiny, Depth { depth: 1, signal_every: 1, in_flight: Some(4) });
        let free = fit_depth(128, 100, 8, 1, None);
        assert_eq!(free, Depth { depth: 128, signal_every: 64, in_flight: None });
        assert_eq!(fit_depth(0, 0, 0, 0, Some(10)).depth, 1);
    }

    #[test]
    fn the_pump_keeps_to_depth_and_to_the_limit_in_flight() {
        let shape =
            Shape { lanes: 2, depth: 64, signal_every: 64, must_drain: false, ..Shape::default() };
        let (mut left, _right) = pair(shape);
        let limited = Flow { depth: 5, in_flight: Some(8), ..flow(true, false) };
        let mut pump = Pump::new(&mut left, &limited).unwrap();
        assert!(pump.turn().unwrap());
        assert_eq!((pump.started(), pump.finished()), (8, 0), "5 on one lane, 3 on the other");
        assert!(!pump.turn().unwrap());
        assert_eq!(pump.started(), 8);
    }
}
