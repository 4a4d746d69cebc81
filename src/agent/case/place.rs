//! Which CPUs the threads of a case run on.

use rustix::thread::{CpuSet, sched_setaffinity};

use super::CaseEnd;
use crate::transport::{Failure, FailureKind, Result};

impl CaseEnd<'_> {
    /// Keeps this thread, and those that it starts, to the CPUs of the case; endpoints are built
    /// afterwards, so that their memory is first touched from there.
    pub(super) fn pin(&mut self) -> Result<()> {
        let tuning = &self.prepare.knobs.tuning;
        let cpus = if tuning.cpus.is_empty() { &tuning.cpu_set } else { &tuning.cpus };
        if cpus.is_empty() {
            return Ok(());
        }
        // The first of a list is that of the first measuring thread, which may be this one.
        let own = if tuning.cpus.is_empty() { cpus.as_slice() } else { &cpus[..1] };
        keep_to(own).map_err(|error| {
            let object = format!("CPUs {own:?}");
            Failure::new(FailureKind::Refused, "pin threads", object, error.to_string())
        })?;
        self.side.effective.insert("cpus".into(), cpus.clone().into());
        Ok(())
    }
}

/// Keeps the measuring thread of this index to a CPU of its own, where a list was given. The list
/// was found usable before: a CPU that went off-line meanwhile leaves the thread where it is.
pub(super) fn pin_thread(cpus: &[u32], index: usize) {
    if !cpus.is_empty() {
        let _ = keep_to(&[cpus[index % cpus.len()]]);
    }
}

/// Keeps the calling thread to these CPUs.
pub(in crate::agent) fn keep_to(cpus: &[u32]) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter()
        .filter(|cpu| (**cpu as usize) < CpuSet::MAX_CPU)
        .for_each(|cpu| set.set(*cpu as usize));
    sched_setaffinity(None, &set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::calls::allowed_cpus;

    #[test]
    fn a_thread_keeps_to_its_cpu() {
        let all = allowed_cpus();
        let (first, last) = (all[0], all[all.len() - 1]);
        for (index, cpu) in [(0, first), (1, last), (2, first)] {
            let cpus = [first, last];
            let seen = std::thread::spawn(move || {
                pin_thread(&cpus, index);
                allowed_cpus()
            });
            assert_eq!(seen.join().unwrap(), [cpu]);
        }
        pin_thread(&[], 0);
        assert_eq!(allowed_cpus(), all);
    }

    #[test]
    fn no_cpu_at_all_is_refused() {
        assert!(keep_to(&[]).is_err());
    }
}
