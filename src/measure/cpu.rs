//! CPU time of the calling thread.

use rustix::time::{ClockId, clock_gettime};

/// CPU time of the calling thread so far: user, system, ns.
///
/// The sum is the thread's own clock; it is split as the kernel's (coarser) ticks are.
pub fn thread_time() -> (u64, u64) {
    let total = clock_gettime(ClockId::ThreadCPUTime);
    let total_ns = total.tv_sec as u64 * 1_000_000_000 + total.tv_nsec as u64;
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let (user, system) = ticks(&stat).unwrap_or((1, 0));
    split(total_ns, user, system)
}

/// What was spent between two readings of [`thread_time`].
pub fn spent(before: (u64, u64), after: (u64, u64)) -> (u64, u64) {
    (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1))
}

fn split(total_ns: u64, user: u64, system: u64) -> (u64, u64) {
    let ticks = u128::from(user) + u128::from(system);
    if ticks == 0 {
        return (total_ns, 0);
    }
    let system_ns = (u128::from(total_ns) * u128::from(system) / ticks) as u64;
    (total_ns - system_ns, system_ns)
}

/// Fields 14 and 15 of a stat file: utime and stime. The name in field 2 may hold anything.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "12 (a) b) R 1 2 3 4 5 6 7 8 9 10 30 10 0 0 20 0 1 0";
        assert_eq!(ticks(stat), Some((30, 10)));
        assert_eq!(ticks(""), None);
        assert_eq!(split(1_000, 30, 10), (750, 250));
        assert_eq!(split(1_000, 0, 0), (1_000, 0));
    }

    #[test]
    fn work_shows_up_as_cpu_time() {
        let before = thread_time();
        let begin = std::time::Instant::now();
        while begin.elapsed().as_millis() < 30 {
            std::hint::spin_loop();
        }
        let (user, system) = spent(before, thread_time());
        assert!(user + system > 1_000_000, "{user} {system}");
    }
}
