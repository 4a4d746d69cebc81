//! Looks at cases while they run: a line every so often, and the state so far on SIGUSR1.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fabbench_harness::plan::{Case, Group, Test};
use fabbench_reports::units::{BitRate, MessageRate, Time};

use super::group::Onlooker;
use super::progress::Progress;

/// How long a wish to know the state may be overlooked.
const SLICE: Duration = Duration::from_millis(200);

/// Follows one group.
pub struct Watch<'a> {
    /// What is shown, and where.
    pub progress: &'a mut Progress,
    /// The group.
    pub group: &'a Group,
    /// Names of the hosts.
    pub names: [&'a str; 2],
    /// A line so often; none for none.
    pub every: Option<Duration>,
    /// Set by SIGUSR1.
    pub wanted: &'a Arc<AtomicBool>,
    /// Results so far, one line each.
    pub so_far: &'a [String],
    began: Instant,
    next: Option<Instant>,
    /// When each case was last seen at a host, and how far it was then.
    seen: BTreeMap<(usize, usize), (Instant, u64)>,
}

impl<'a> Watch<'a> {
    /// From now on.
    pub fn new(
        progress: &'a mut Progress,
        group: &'a Group,
        names: [&'a str; 2],
        every: Option<Duration>,
        wanted: &'a Arc<AtomicBool>,
        so_far: &'a [String],
    ) -> Watch<'a> {
        let began = Instant::now();
        let next = every.map(|every| began + every);
        let seen = BTreeMap::new();
        Watch { progress, group, names, every, wanted, so_far, began, next, seen }
    }

    /// Everything known before the group that is under way.
    fn tell_state(&mut self) {
        let (done, title) = (self.so_far.len(), &self.group.title);
        let seconds = self.began.elapsed().as_secs();
        self.progress
            .answer(&format!("state: {done} measured so far; now, for {seconds} s: {title}"));
        for line in self.so_far {
            self.progress.answer(&format!("  {line}"));
        }
    }
}

impl Onlooker for Watch<'_> {
    fn between(&mut self, done: u32, all: u32) {
        self.progress.now(&format!("{}, repeat {} of {all}", self.group.title, done + 1));
    }

    fn patience(&self) -> Duration {
        SLICE
    }

    fn wants_look(&mut self) -> bool {
        if self.wanted.swap(false, Ordering::Relaxed) {
            self.tell_state();
            return true;
        }
        let now = Instant::now();
        match (self.next, self.every) {
            (Some(next), Some(every)) if now >= next => {
                // What was missed is not made up for.
                let late = now.duration_since(next).as_nanos() / every.as_nanos().max(1);
                self.next = Some(next + every * (late as u32 + 1));
                true
            }
            _ => false,
        }
    }

    fn tick(&mut self, index: usize, host: usize, stage: &str, moved: u64) {
        let Some(case) = self.group.cases.get(index) else { return };
        let now = Instant::now();
        let (since, before) =
            self.seen.insert((index, host), (now, moved)).unwrap_or((self.began, 0));
        let figure = figure(case, moved.saturating_sub(before), now.duration_since(since));
        let seconds = now.duration_since(self.began).as_secs_f64();
        let host = self.names[host];
        let line = format!("{seconds:.1} s {} ({host}, {stage}): {figure}", case.id);
        self.progress.answer(&line);
    }
}

/// What so many messages, or round trips, in that time mean.
fn figure(case: &Case, moved: u64, time: Duration) -> String {
    let per_s = moved as f64 / time.as_secs_f64().max(1e-9);
    match case.test {
        Test::Integrity => "comparing".into(),
        Test::Latency if moved == 0 => "no round trip".into(),
        Test::Latency => {
            let mean = Time(time.as_nanos() as f64 / moved as f64);
            format!("{moved} round trips, one in {mean} on average")
        }
        Test::Bandwidth if case.size_bytes > 0 => {
            BitRate(per_s * case.size_bytes as f64 * 8.0).to_string()
        }
        Test::Bandwidth | Test::MessageRate => MessageRate(per_s).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use fabbench_harness::plan::{Direction, Knobs, Op, Transport};

    use super::*;

    fn case(test: Test, size_bytes: u64) -> Case {
        let knobs = Knobs {
            qps: 1,
            threads: 1,
            tx_depth: 1,
            rx_depth: 1,
            inline: None,
            signal_every: 1,
            warmup_ns: 0,
            window_ns: 8,
            interval_ns: 1,
            repeats: 1,
            rounds: None,
            volume_bytes: 0,
            tuning: Default::default(),
        };
        let (id, transport, op) = ("case".into(), Transport::Tcp, Op::Stream);
        Case {
            id,
            test,
            transport,
            op,
            size_bytes,
            direction: Direction::AToB,
            rail: None,
            loopback: None,
            retest_of: None,
            knobs,
        }
    }

    #[test]
    fn counts_read_as_what_they_mean() {
        let second = Duration::from_secs(1);
        assert_eq!(figure(&case(Test::Bandwidth, 125), 1_000_000, second), "1.00 Gb/s");
        assert_eq!(figure(&case(Test::MessageRate, 8), 2_500_000, second), "2.50 Mmsg/s");
        let latency = figure(&case(Test::Latency, 8), 100_000, second);
        assert_eq!(latency, "100000 round trips, one in 10.00 µs on average");
        assert_eq!(figure(&case(Test::Latency, 8), 0, second), "no round trip");
    }

    #[test]
    fn a_line_comes_every_so_often_and_on_demand() {
        let mut progress = Progress::new(1, Duration::ZERO, true);
        let group = Group { title: "group".into(), cases: vec![case(Test::Bandwidth, 8)] };
        let wanted = Arc::new(AtomicBool::new(false));
        let names = ["a", "b"];
        let mut quiet = Watch::new(&mut progress, &group, names, None, &wanted, &[]);
        assert!(!quiet.wants_look());
        wanted.store(true, Ordering::Relaxed);
        assert!(quiet.wants_look() && !quiet.wants_look(), "once for each signal");
        let every = Some(Duration::from_millis(1));
        let mut regular = Watch::new(&mut progress, &group, names, every, &wanted, &[]);
        std::thread::sleep(Duration::from_millis(5));
        assert!(regular.wants_look());
        assert!(regular.next.unwrap() > Instant::now() - Duration::from_millis(1));
    }
}
