//! Latency of READ and atomics over [`Addressed`]: post, wait for the completion; the full round
//! trip.

use crate::engine::sync::{Start, agree};
use crate::engine::wait::{Watch, attend};
use crate::engine::{End, Note, Peer, Ran, Stage};
use crate::measure::clock::{Time, wait_until};
use crate::measure::cpu;
use crate::measure::histogram::Recorder;
use crate::session::protocol::{Role, SideRepeat};
use crate::transport::{Addressed, Completion, Request, Result};

use super::ping_pong::Timing;

/// Runs one repeat of this end: the initiator posts `request`, which brings something back from the
/// peer's buffer, again and again; the responder only looks after its endpoint.
///
/// # Errors
/// As [`super::ping_pong::repeat`].
pub fn repeat<A: Addressed>(
    end: &End,
    endpoint: &mut A,
    peer: &mut impl Peer,
    time: &impl Time,
    timing: &Timing,
    request: &Request,
    repeat: u32,
) -> Result<Ran> {
    let ran = match end.role {
        Role::Initiator => initiate(end, endpoint, peer, time, timing, request, repeat),
        Role::Responder => respond(end, endpoint, peer, time, timing, repeat),
    };
    end.share(peer, ran)
}

fn initiate<A: Addressed>(
    end: &End,
    endpoint: &mut A,
    peer: &mut impl Peer,
    time: &impl Time,
    timing: &Timing,
    request: &Request,
    repeat: u32,
) -> Result<Ran> {
    let mut recorder = Recorder::new(timing.divisor);
    let mut asker = Asker::new(end, endpoint, request);
    let start = agree(end, peer, time, repeat)?;
    let cpu_before = cpu::thread_time();
    wait_until(time, start.at_ns);
    end.stage.set(Stage::WarmUp);
    if timing.warmup_ns > 0 {
        asker.play(time, start.at_ns + timing.warmup_ns, u64::MAX, &mut |_| {})?;
    }
    end.stage.set(Stage::Measure);
    let window_start_ns = time.now();
    let rounds = timing.rounds.unwrap_or(u64::MAX);
    let record = &mut |ns| recorder.record(ns);
    let window_end_ns = asker.play(time, window_start_ns + timing.window_ns, rounds, record)?;
    let cpu_ns = cpu::spent(cpu_before, cpu::thread_time());
    end.stage.set(Stage::Collect);
    let done = asker.done;
    peer.tell(&Note::Totals { sent: done, received: done })?;
    let repeat = SideRepeat {
        window_start_ns,
        window_ns: window_end_ns - window_start_ns,
        messages_sent: done,
        messages_received: done,
        histogram: Some(recorder.encoded()),
        exact: Some(recorder.exact()),
        ..agreed(&start)
    };
    Ok(Ran { repeat, cpu_ns })
}

fn agreed(start: &Start) -> SideRepeat {
    SideRepeat {
        clock_offset_ns: start.clock_offset_ns,
        clock_uncertainty_ns: start.uncertainty_ns,
        ..SideRepeat::default()
    }
}

fn respond<A: Addressed>(
    end: &End,
    endpoint: &mut A,
    peer: &mut impl Peer,
    time: &impl Time,
    timing: &Timing,
    repeat: u32,
) -> Result<Ran> {
    let start = agree(end, peer, time, repeat)?;
    end.stage.set(Stage::Measure);
    let cpu_before = cpu::thread_time();
    let planned = std::time::Duration::from_nanos(timing.warmup_ns + timing.window_ns);
    let limit = planned + end.stall + end.patience;
    let note = attend(end, endpoint, peer, limit, "the end of the repeat", |_| {})?;
    let Note::Totals { .. } = note else {
        return Err(end.unexpected(&note, "the end of the repeat"));
    };
    Ok(Ran { repeat: agreed(&start), cpu_ns: cpu::spent(cpu_before, cpu::thread_time()) })
}

/// The initiator's loop.
struct Asker<'a, A> {
    end: &'a End<'a>,
    endpoint: &'a mut A,
    request: Request,
    done: u64,
}

impl<'a, A: Addressed> Asker<'a, A> {
    fn new(end: &'a End<'a>, endpoint: &'a mut A, request: &Request) -> Self {
        Asker { end, endpoint, request: Request { signal: true, ..*request }, done: 0 }
    }

    fn play<T: Time>(
        &mut self,
        time: &T,
        until_ns: u64,
        rounds: u64,
        record: &mut impl FnMut(u64),
    ) -> Result<u64> {
        let mut stamp = time.now();
        let mut left = rounds.max(1);
        loop {
            self.round(time)?;
            let now = time.now();
            record(now.saturating_sub(stamp));
            self.end.stage.bump();
            stamp = now;
            left -= 1;
            if now >= until_ns || left == 0 {
                return Ok(now);
            }
            self.end.check_abort()?;
        }
    }

    #[inline]
    fn round<T: Time>(&mut self, time: &T) -> Result<()> {
        let mut watch = Watch::new(self.end);
        while !self.endpoint.post(&self.request)? {
            self.pause(&mut watch, time)?;
        }
        let mut completion = [Completion::default()];
        while self.endpoint.poll(&mut completion)? == 0 {
            self.pause(&mut watch, time)?;
        }
        self.done += 1;
        Ok(())
    }

    #[inline]
    fn pause<T: Time>(&mut self, watch: &mut Watch, time: &T) -> Result<()> {
        let waited = self.endpoint.idle(watch.look())?;
        let done = self.done;
        watch.check(waited, time, || format!("{done} operations complete"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::both;
    use crate::measure::clock::Clock;
    use crate::transport::null::addressed::pair;
    use crate::transport::{Operation, Span};
    use std::time::Duration;

    fn request(operation: Operation) -> Request {
        Request { operation, local: Span { offset: 0, len: 8 }, ..Request::default() }
    }

    #[test]
    fn atomics_are_timed_whole_and_carried_out_once_each() {
        let add = Request { add_or_compare: 3, remote_offset: 8, ..request(Operation::FetchAdd) };
        let (mut left, mut right) = pair(64, 1, 4, None);
        let timing = Timing {
            warmup_ns: 0,
            window_ns: 60_000_000_000,
            rounds: Some(5),
            divisor: 1,
            schedule_ns: None,
            lost_after_ns: None,
        };
        let (a, _) = both(
            Duration::from_secs(10),
            |end, mut peer| repeat(end, &mut left, &mut peer, &Clock, &timing, &add, 0).unwrap(),
            |end, mut peer| repeat(end, &mut right, &mut peer, &Clock, &timing, &add, 0).unwrap(),
        );
        assert_eq!(a.repeat.exact.unwrap().count, 5);
        assert_eq!(right.memory()[8..16], 15_u64.to_ne_bytes());
        assert_eq!(left.memory()[..8], 12_u64.to_ne_bytes(), "what stood there before the last");
    }

    #[test]
    fn reads_are_timed_whole_and_bring_the_peers_bytes() {
        let read = request(Operation::Read);
        let (mut left, mut right) = pair(64, 1, 4, None);
        right.memory()[..8].copy_from_slice(b"fabbench");
        let timing = Timing {
            warmup_ns: 0,
            window_ns: 60_000_000_000,
            rounds: Some(3),
            divisor: 1,
            schedule_ns: None,
            lost_after_ns: None,
        };
        let (a, b) = both(
            Duration::from_secs(10),
            |end, mut peer| repeat(end, &mut left, &mut peer, &Clock, &timing, &read, 0).unwrap(),
            |end, mut peer| repeat(end, &mut right, &mut peer, &Clock, &timing, &read, 0).unwrap(),
        );
        let exact = a.repeat.exact.unwrap();
        assert_eq!((exact.count, a.repeat.messages_received), (3, 3));
        assert!((exact.mean_ns * 3.0 / a.repeat.window_ns as f64 - 1.0).abs() < 0.05);
        assert_eq!(b.repeat.messages_sent, 0);
        assert_eq!(&left.memory()[..8], b"fabbench");
    }
}
