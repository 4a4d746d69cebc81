//! The one clock of all measurements: nanoseconds of CLOCK_MONOTONIC_RAW.
//!
//! It is read through the vDSO, which reads the time-stamp counter itself (with the ordering it
//! needs) where the kernel trusts that, on x86-64 as on aarch64; where the kernel does not trust
//! it, neither may we. A private calibration of the counter would save some 10 ns a reading and
//! make the clocks of two processes of one host drift apart.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A source of time for a loop; nanoseconds that never go back.
pub trait Time {
    /// Now, ns.
    fn now(&self) -> u64;
}

/// The system's raw monotonic clock; its values can be compared between processes of one host.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock;

impl Time for Clock {
    #[inline(always)]
    fn now(&self) -> u64 {
        let now = clock_gettime(ClockId::MonotonicRaw);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}

/// What a clock can tell apart and what it costs to ask it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockQuality {
    /// Smallest step seen between two different readings, ns.
    pub resolution_ns: u64,
    /// Mean time of one reading, ns.
    pub cost_ns: f64,
}

impl ClockQuality {
    /// Asks `time` for about 2 ms.
    pub fn measure(time: &impl Time) -> Self {
        ClockQuality { resolution_ns: resolution(time), cost_ns: cost(time) }
    }
}

/// Sleeps until `at_ns` on `time`; the last 200 µs are spun, since sleeping wakes late.
pub fn wait_until(time: &impl Time, at_ns: u64) {
    const SPIN_NS: u64 = 200_000;
    loop {
        let left = at_ns.saturating_sub(time.now());
        if left == 0 {
            return;
        }
        if left > SPIN_NS {
            std::thread::sleep(Duration::from_nanos(left - SPIN_NS));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Smallest step over many: a single one may hold the time for which this thread was off its CPU.
fn resolution(time: &impl Time) -> u64 {
    const STEPS: usize = 1000;
    const LIMIT_NS: u64 = 50_000_000;
    let begin = time.now();
    let mut last = begin;
    let mut smallest = u64::MAX;
    let mut steps = 0;
    while steps < STEPS && last - begin < LIMIT_NS {
        let now = time.now();
        if now != last {
            smallest = smallest.min(now - last);
            last = now;
            steps += 1;
        }
    }
    smallest
}

/// The least of several means, for the same reason.
fn cost(time: &impl Time) -> f64 {
    (0..8).map(|_| mean_cost(time)).fold(f64::INFINITY, f64::min)
}

fn mean_cost(time: &impl Time) -> f64 {
    const LIMIT_NS: u64 = 150_000;
    let begin = time.now();
    let mut readings = 0u32;
    loop {
        readings += 1;
        let now = black_box(time.now());
        if now - begin >= LIMIT_NS {
            return (now - begin) as f64 / f64::from(readings);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Advances by 7 ns on every second reading.
    struct Stepping(Cell<u64>);

    impl Time for Stepping {
        fn now(&self) -> u64 {
            self.0.set(self.0.get() + 1);
            self.0.get() / 2 * 7
        }
    }

    #[test]
    fn resolution_is_the_smallest_step_and_cost_the_mean() {
        let quality = ClockQuality::measure(&Stepping(Cell::new(0)));
        assert_eq!(quality.resolution_ns, 7);
        assert!((quality.cost_ns - 3.5).abs() < 0.01, "{quality:?}");
    }

    #[test]
    fn the_clock_is_that_of_the_system_and_waits_are_not_short() {
        let kernel = clock_gettime(ClockId::MonotonicRaw);
        let before = Clock.now();
        assert!(before >= kernel.tv_sec as u64 * 1_000_000_000 + kernel.tv_nsec as u64);
        wait_until(&Clock, before + 1_000_000);
        assert!(Clock.now() >= before + 1_000_000);
    }
}
