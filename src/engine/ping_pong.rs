//! Latency as ping-pong over a [`Stream`]: SEND, WRITE, TCP request and response.
//!
//! The initiator stamps, starts a message, collects its own completion while the message flies and
//! waits for the answer: one clock reading a round, the difference of two is a round trip.

use std::time::Duration;

use crate::engine::sync::{Start, agree};
use crate::engine::wait::Watch;
use crate::engine::{End, Note, Peer, Ran, Stage};
use crate::measure::clock::{Time, wait_until};
use crate::measure::cpu;
use crate::measure::histogram::Recorder;
use crate::session::protocol::{Role, SideRepeat};
use crate::transport::{Failure, FailureKind, Result, Stream};

/// How long the responder must have been idle before it looks for the end of the repeat: while
/// rounds follow each other it never asks the system for anything.
const QUIET_NS: u64 = 5_000_000;

/// How long a repeat takes and what it records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Rounds before this time has passed are not recorded, ns.
    pub warmup_ns: u64,
    /// Recorded time, ns.
    pub window_ns: u64,
    /// Ends the recording after so many rounds, if before its time.
    pub rounds: Option<u64>,
    /// 2 to record half round trips, 1 for whole ones.
    pub divisor: u64,
    /// Rounds begin at this distance from each other, ns, and are timed from when they should have
    /// begun: one that is late since the one before it took long counts its wait (no coordinated
    /// omission). None for each as soon as the one before it is over.
    pub schedule_ns: Option<u64>,
    /// A round that is not answered for so long is lost and not recorded, ns; none where nothing
    /// may be lost.
    pub lost_after_ns: Option<u64>,
}

/// Runs one repeat of this end over lane 0 of `endpoint`.
///
/// # Errors
/// The transport's or the link's own; stalled, stopped; the peer's when it gives up. The peer is
/// told of a failure of this end.
pub fn repeat<S: Stream>(
    end: &End,
    endpoint: &mut S,
    peer: &mut impl Peer,
    time: &impl Time,
    timing: &Timing,
    repeat: u32,
) -> Result<Ran> {
    let ran = match end.role {
        Role::Initiator => initiate(end, endpoint, peer, time, timing, repeat),
        Role::Responder => respond(end, endpoint, peer, time, timing, repeat),
    };
    end.share(peer, ran)
}

fn initiate<S: Stream>(
    end: &End,
    endpoint: &mut S,
    peer: &mut impl Peer,
    time: &impl Time,
    timing: &Timing,
    repeat: u32,
) -> Result<Ran> {
    let mut recorder = Recorder::new(timing.divisor);
    let mut rally = Rally::new(end, endpoint)?;
    rally.schedule_ns = timing.schedule_ns;
    rally.lost_after_ns = timing.lost_after_ns;
    let start = agree(end, peer, time, repeat)?;
    let cpu_before = cpu::thread_time();
    wait_until(time, start.at_ns);
    end.stage.set(Stage::WarmUp);
    if timing.warmup_ns > 0 {
        rally.play(time, start.at_ns + timing.warmup_ns, u64::MAX, &mut |_| {})?;
    }
    end.stage.set(Stage::Measure);
    let window_start_ns = time.now();
    let rounds = timing.rounds.unwrap_or(u64::MAX);
    let record = &mut |ns| recorder.record(ns);
    let window_end_ns = rally.play(time, window_start_ns + timing.window_ns, rounds, record)?;
    let cpu_ns = cpu::spent(cpu_before, cpu::thread_time());
    end.stage.set(Stage::Collect);
    rally.finish(time)?;
    let totals = Note::Totals { sent: rally.started, received: rally.answered() };
    peer.tell(&totals)?;
    let answer = end.hear(peer, "the peer's totals")?;
    let Note::Totals { .. } = answer else {
        return Err(end.unexpected(&answer, "the peer's totals"));
    };
    let repeat = SideRepeat {
        window_start_ns,
        window_ns: window_end_ns - window_start_ns,
        histogram: Some(recorder.encoded()),
        exact: Some(recorder.exact()),
        ..counted(&start, rally.started, rally.answered())
    };
    Ok(Ran { repeat, cpu_ns })
}

/// What both ends report of a repeat.
fn counted(start: &Start, sent: u64, received: u64) -> SideRepeat {
    SideRepeat {
        clock_offset_ns: start.clock_offset_ns,
        clock_uncertainty_ns: start.uncertainty_ns,
        messages_sent: sent,
        messages_received: received,
        ..SideRepeat::default()
    }
}

/// The initiator's loop, apart so that its cost can be measured over a null transport.
pub struct Rally<'a, S> {
    end: &'a End<'a>,
    endpoint: &'a mut S,
    seen: u64,
    started: u64,
    finished: u64,
    lanes: Vec<u64>,
    schedule_ns: Option<u64>,
    lost_after_ns: Option<u64>,
    lost: u64,
}

impl<'a, S: Stream> Rally<'a, S> {
    /// Over lane 0 of `endpoint`, which must be at rest.
    ///
    /// # Errors
    /// The transport's own.
    pub fn new(end: &'a End<'a>, endpoint: &'a mut S) -> Result<Self> {
        let seen = endpoint.arrived()?;
        let lanes = vec![0; endpoint.lanes()];
        Ok(Rally {
            end,
            endpoint,
            seen,
            started: 0,
            finished: 0,
            lanes,
            schedule_ns: None,
            lost_after_ns: None,
            lost: 0,
        })
    }

    /// Answers so far, each in its time.
    pub fn answered(&self) -> u64 {
        self.started - self.lost
    }

    /// Plays rounds until `until_ns` or for `rounds`, handing each round trip in ns to `record`;
    /// returns the last stamp. Always plays at least one.
    ///
    /// # Errors
    /// The transport's own; stalled; stopped.
    pub fn play<T: Time>(
        &mut self,
        time: &T,
        until_ns: u64,
        rounds: u64,
        record: &mut impl FnMut(u64),
    ) -> Result<u64> {
        let mut stamp = time.now();
        let mut left = rounds.max(1);
        let mut due = stamp;
        loop {
            if let Some(gap_ns) = self.schedule_ns {
                wait_until(time, due);
                stamp = due;
                due += gap_ns;
            }
            let answered = self.round(time)?;
            let now = time.now();
            if answered {
                record(now.saturating_sub(stamp));
            }
            self.end.stage.bump();
            stamp = now;
            left -= 1;
            if now >= until_ns || left == 0 {
                return Ok(now);
            }
            self.end.check_abort()?;
        }
    }

    /// One message and its answer; false when one of them was lost.
    #[inline]
    fn round<T: Time>(&mut self, time: &T) -> Result<bool> {
        let mut watch = Watch::new(self.end);
        while self.endpoint.start(0, 1)? == 0 {
            if !self.reap()? {
                self.pause(&mut watch, time)?;
            }
        }
        self.started += 1;
        watch.moved();
        loop {
            self.reap()?;
            let arrived = self.endpoint.arrived()?;
            if arrived > self.seen {
                self.seen = arrived;
                return Ok(true);
            }
            let idle_ns = self.pause(&mut watch, time)?;
            if let (Some(idle), Some(limit)) = (idle_ns, self.lost_after_ns)
                && idle >= limit
            {
                return self.give_up().map(|()| false);
            }
        }
    }

    /// The round is lost: what is out is written off, and a late answer is not that of the next.
    #[cold]
    fn give_up(&mut self) -> Result<()> {
        self.lost += 1;
        self.endpoint.flush()?;
        self.seen = self.endpoint.arrived()?;
        Ok(())
    }

    /// Collects own completions; true when there were any.
    #[inline]
    fn reap(&mut self) -> Result<bool> {
        if self.finished == self.started {
            return Ok(false);
        }
        let n = u64::from(self.endpoint.finished(&mut self.lanes)?);
        self.finished += n;
        Ok(n > 0)
    }

    #[inline]
    fn pause<T: Time>(&mut self, watch: &mut Watch, time: &T) -> Result<Option<u64>> {
        let waited = self.endpoint.idle(watch.look())?;
        let started = self.started;
        watch.check(waited, time, || format!("waiting for the answer of round {started}"))
    }

    /// Collects the completions that are still out.
    fn finish<T: Time>(&mut self, time: &T) -> Result<()> {
        drain(self.end, self.endpoint, time, self.started, &mut self.finished, &mut self.lanes)
    }
}

/// Flushes and waits until `finished` has reached `started`.
fn drain<S: Stream, T: Time>(
    end: &End,
    endpoint: &mut S,
    time: &T,
    started: u64,
    finished: &mut u64,
    lanes: &mut [u64],
) -> Result<()> {
    let mut watch = Watch::new(end);
    endpoint.flush()?;
    while *finished < started {
        let n = endpoint.finished(lanes)?;
        *finished += u64::from(n);
        if n == 0 {
            let waited = endpoint.idle(watch.look())?;
            watch.check(waited, time, || format!("{finished} of {started} messages finished"))?;
        }
    }
    Ok(())
}

fn respond<S: Stream>(
    end: &End,
    endpoint: &mut S,
    peer: &mut impl Peer,
    time: &impl Time,
    timing: &Timing,
    repeat: u32,
) -> Result<Ran> {
    let base = endpoint.arrived()?;
    let lossy = timing.lost_after_ns.is_some();
    let lanes = vec![0; endpoint.lanes()];
    let mut echo = Echo { seen: base, started: 0, finished: 0, lanes, lossy };
    let start = agree(end, peer, time, repeat)?;
    end.stage.set(Stage::Measure);
    let cpu_before = cpu::thread_time();
    let played = echo.serve(end, endpoint, peer, time)?;
    let cpu_ns = cpu::spent(cpu_before, cpu::thread_time());
    end.stage.set(Stage::Collect);
    drain(end, endpoint, time, echo.started, &mut echo.finished, &mut echo.lanes)?;
    let received = echo.seen - base;
    if received != played && timing.lost_after_ns.is_none() {
        let cause = format!("{received} messages arrived of {played} that the peer sent");
        let kind = FailureKind::Internal;
        return Err(Failure::new(kind, end.stage.get().word(), end.object, cause));
    }
    peer.tell(&Note::Totals { sent: echo.started, received })?;
    Ok(Ran { repeat: counted(&start, echo.started, received), cpu_ns })
}

/// The responder's loop.
struct Echo {
    seen: u64,
    started: u64,
    finished: u64,
    lanes: Vec<u64>,
    /// Messages may be lost: then only the newest is answered.
    lossy: bool,
}

impl Echo {
    /// Answers every message until the peer tells its totals; returns what it has sent.
    fn serve<S: Stream, T: Time>(
        &mut self,
        end: &End,
        endpoint: &mut S,
        peer: &mut impl Peer,
        time: &T,
    ) -> Result<u64> {
        let mut watch = Watch::new(end);
        let mut next_look_ns = QUIET_NS;
        let mut owed = 0;
        loop {
            let arrived = endpoint.arrived()?;
            if arrived > self.seen {
                owed = if self.lossy { 1 } else { owed + arrived - self.seen };
                self.seen = arrived;
                watch.moved();
                next_look_ns = QUIET_NS;
            }
            if owed > 0 && endpoint.start(0, 1)? == 1 {
                owed -= 1;
                self.started += 1;
                continue;
            }
            if self.finished < self.started {
                self.finished += u64::from(endpoint.finished(&mut self.lanes)?);
            }
            let waited = endpoint.idle(watch.look())?;
            let started = self.started;
            let idle = watch.check(waited, time, || format!("{started} messages answered"))?;
            if idle.is_some_and(|ns| ns >= next_look_ns) {
                next_look_ns += QUIET_NS;
                if owed > 0 && self.lossy {
                    endpoint.flush()?;
                }
                if let Some(sent) = ended(end, peer)? {
                    return Ok(sent);
                }
            }
        }
    }
}

/// What the peer has sent, if it says that the repeat is over.
fn ended(end: &End, peer: &mut impl Peer) -> Result<Option<u64>> {
    match peer.hear(Duration::ZERO)? {
        None => Ok(None),
        Some(Note::Totals { sent, .. }) => Ok(Some(sent)),
        Some(Note::Failed(failure)) => Err(end.peer_failed(&failure)),
        Some(note) => Err(end.unexpected(&note, "the end of the repeat")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::StageCell;
    use crate::engine::testing::both;
    use crate::measure::clock::Clock;
    use crate::measure::histogram;
    use crate::transport::null::NullStream;
    use crate::transport::null::stream::{Shape, pair};
    use std::cell::Cell;
    use std::sync::atomic::AtomicBool;

    const STALL: Duration = Duration::from_secs(10);

    fn timing(window_ms: u64, rounds: Option<u64>) -> Timing {
        Timing {
            warmup_ns: 1_000_000,
            window_ns: window_ms * 1_000_000,
            rounds,
            divisor: 2,
            schedule_ns: None,
            lost_after_ns: None,
        }
    }

    #[test]
    fn repeats_reuse_endpoints_and_both_ends_count_alike() {
        let (mut left, mut right) = pair(Shape::default());
        let timing = timing(5_000, Some(200));
        let (ours, theirs) = both(
            STALL,
            |end, mut peer| {
                [0, 1].map(|n| repeat(end, &mut left, &mut peer, &Clock, &timing, n).unwrap())
            },
            |end, mut peer| {
                [0, 1].map(|n| repeat(end, &mut right, &mut peer, &Clock, &timing, n).unwrap())
            },
        );
        for (a, b) in ours.iter().zip(&theirs) {
            let (a, b) = (&a.repeat, &b.repeat);
            let exact = a.exact.unwrap();
            assert_eq!(exact.count, 200);
            assert!(a.messages_sent > 200, "warm-up counts in the totals");
            assert_eq!(
                (a.messages_sent, a.messages_received),
                (b.messages_received, b.messages_sent)
            );
            let latency = histogram::latency(a.histogram.as_ref().unwrap(), &exact).unwrap();
            assert!(latency.unwrap().p50 >= exact.min_ns);
            let rounds_ns = exact.mean_ns * 2.0 * 200.0;
            assert!((rounds_ns / a.window_ns as f64 - 1.0).abs() < 0.05, "rounds fill the window");
        }
    }

    #[test]
    fn a_repeat_ends_by_time() {
        let (mut left, mut right) = pair(Shape { must_drain: false, ..Shape::default() });
        let timing = timing(20, None);
        let (a, _) = both(
            STALL,
            |end, mut peer| repeat(end, &mut left, &mut peer, &Clock, &timing, 0).unwrap(),
            |end, mut peer| repeat(end, &mut right, &mut peer, &Clock, &timing, 0).unwrap(),
        );
        assert!(a.repeat.window_ns >= 20_000_000, "{:?}", a.repeat);
        assert!(a.repeat.exact.unwrap().count > 0);
    }

    #[test]
    fn a_lost_round_is_counted_and_not_recorded() {
        let (mut left, mut right) = pair(Shape { lose: Some(50), ..Shape::default() });
        let timing = Timing { lost_after_ns: Some(50_000_000), ..timing(60_000, Some(100)) };
        let (a, b) = both(
            STALL,
            |end, mut peer| repeat(end, &mut left, &mut peer, &Clock, &timing, 0).unwrap(),
            |end, mut peer| repeat(end, &mut right, &mut peer, &Clock, &timing, 0).unwrap(),
        );
        let (a, b) = (a.repeat, b.repeat);
        let exact = a.exact.unwrap();
        assert!(exact.max_ns < 50e6, "the wait for what was lost is no latency: {exact:?}");
        // One message of each direction.
        assert_eq!(a.messages_sent - a.messages_received, 2, "{a:?}");
        assert_eq!(a.messages_sent - b.messages_received, 1, "{b:?}");
    }

    #[test]
    fn a_cut_stalls_the_initiator_and_the_responder_hears_of_it() {
        let (mut left, mut right) = pair(Shape { cut_after: Some(500), ..Shape::default() });
        let timing = Timing { warmup_ns: 0, ..timing(60_000, None) };
        let (a, b) = both(
            Duration::from_millis(300),
            |end, mut peer| repeat(end, &mut left, &mut peer, &Clock, &timing, 0).unwrap_err(),
            |end, mut peer| {
                let end = End { stall: STALL, ..*end };
                repeat(&end, &mut right, &mut peer, &Clock, &timing, 0).unwrap_err()
            },
        );
        assert_eq!((a.kind, a.operation.as_str()), (FailureKind::Stalled, "measure"));
        assert!(a.cause.contains("round 501"), "{a}");
        assert_eq!(b.kind, FailureKind::PeerLost);
        assert!(b.cause.contains("nothing moved"), "{b}");
    }

    /// Advances by 1 ms each time that it is asked.
    struct Slow(Cell<u64>);

    impl Time for Slow {
        fn now(&self) -> u64 {
            self.0.set(self.0.get() + 1_000_000);
            self.0.get()
        }
    }

    #[test]
    fn a_late_round_counts_from_when_it_was_due() {
        let (abort, stage) = (AtomicBool::new(false), StageCell::new());
        let (role, object) = (Role::Initiator, "null");
        let end = End { role, object, abort: &abort, stage: &stage, patience: STALL, stall: STALL };
        let mut null = NullStream::new(1, true);
        let mut rally = Rally::new(&end, &mut null).unwrap();
        // A round is due every millisecond and each takes two readings of 1 ms: one more is lost
        // with every round.
        rally.schedule_ns = Some(1_000_000);
        let mut seen = Vec::new();
        rally.play(&Slow(Cell::new(0)), u64::MAX, 4, &mut |ns| seen.push(ns / 1_000_000)).unwrap();
        assert_eq!(seen, [2, 3, 4, 5]);
        assert_eq!(stage.moved(), 4);
    }

    /// Counts how often it is asked, and advances by 10 ns each time.
    struct Counting(Cell<u64>);

    impl Time for Counting {
        fn now(&self) -> u64 {
            self.0.set(self.0.get() + 1);
            self.0.get() * 10
        }
    }

    #[test]
    fn a_round_reads_the_clock_once() {
        let (abort, stage) = (AtomicBool::new(false), StageCell::new());
        let end = End {
            role: Role::Initiator,
            object: "null",
            abort: &abort,
            stage: &stage,
            patience: STALL,
            stall: STALL,
        };
        let (mut null, clock) = (NullStream::new(1, true), Counting(Cell::new(0)));
        let mut recorder = Recorder::new(1);
        let mut rally = Rally::new(&end, &mut null).unwrap();
        rally.play(&clock, u64::MAX, 1_000, &mut |ns| recorder.record(ns)).unwrap();
        assert_eq!(rally.answered(), 1_000);
        assert_eq!(clock.0.get(), 1_001, "n rounds take n + 1 stamps");
        assert_eq!((recorder.exact().min_ns, recorder.exact().max_ns), (10.0, 10.0));
        abort.store(true, std::sync::atomic::Ordering::Relaxed);
        let stopped = rally.play(&clock, u64::MAX, 10, &mut |_| {}).unwrap_err();
        assert_eq!(stopped.kind, FailureKind::Stopped);
    }
}
