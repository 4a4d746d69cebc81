//! CPUs, NUMA nodes and caches of a host.

use crate::numbers::parse_numbers;
use crate::snapshot::HostFacts;

/// CPUs of a NUMA node that the agent may use; none where there is no such node.
pub fn node_cpus(facts: &HostFacts, node: u32) -> Option<Vec<u32>> {
    let list = facts.snapshot.text(&format!("/sys/devices/system/node/node{node}/cpulist"))?;
    if list.is_empty() {
        return Some(Vec::new());
    }
    let mut cpus = parse_numbers(list, 0, u32::MAX).ok()?;
    cpus.retain(|cpu| facts.calls.cpus.contains(cpu));
    Some(cpus)
}

/// NUMA nodes by number, as the kernel lists them on-line; empty when unknown.
pub fn nodes(facts: &HostFacts) -> Vec<u32> {
    let online = facts.snapshot.text("/sys/devices/system/node/online").unwrap_or_default();
    parse_numbers(online, 0, u32::MAX).unwrap_or_default()
}

/// Bytes of the last-level cache that the first CPU shares; none when unknown.
pub fn last_level_cache(facts: &HostFacts) -> Option<u64> {
    const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";
    let text =
        |index: u32, file: &str| facts.snapshot.text(&format!("{CACHES}/index{index}/{file}"));
    let cache = |index: u32| -> Option<(u32, u64)> {
        let level = text(index, "level")?.parse().ok()?;
        let kib: u64 = text(index, "size")?.strip_suffix('K')?.parse().ok()?;
        (text(index, "type")? != "Instruction").then_some((level, kib << 10))
    };
    (0..16).filter_map(cache).max().map(|(_, bytes)| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Entry;

    fn facts(files: &[(&str, &str)]) -> HostFacts {
        let mut facts = HostFacts::default();
        facts.calls.cpus = vec![0, 1, 2, 3, 8];
        for (path, text) in files {
            facts.snapshot.entries.insert((*path).into(), Entry::Text(format!("{text}\n")));
        }
        facts
    }

    #[test]
    fn the_cpus_of_a_node_are_those_that_may_be_used() {
        let node = "/sys/devices/system/node";
        let (one, two) = (format!("{node}/node0/cpulist"), format!("{node}/node1/cpulist"));
        let online = format!("{node}/online");
        let facts = facts(&[(&one, "0-2,16-18"), (&two, ""), (&online, "0-1")]);
        assert_eq!(node_cpus(&facts, 0), Some(vec![0, 1, 2]));
        assert_eq!(node_cpus(&facts, 1), Some(vec![]), "a node of memory alone");
        assert_eq!(node_cpus(&facts, 2), None);
        assert_eq!(nodes(&facts), [0, 1]);
    }

    #[test]
    fn the_last_cache_for_data_counts() {
        let path =
            |index: u32, file| format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}");
        let mut facts = facts(&[]);
        for (index, level, kind, size) in [
            (0, "1", "Data", "32K"),
            (1, "1", "Instruction", "64K"),
            (2, "2", "Unified", "1024K"),
            (3, "3", "Unified", "32768K"),
        ] {
            for (file, text) in [("level", level), ("type", kind), ("size", size)] {
                facts.snapshot.entries.insert(path(index, file), Entry::Text(text.into()));
            }
        }
        assert_eq!(last_level_cache(&facts), Some(32 << 20));
        assert_eq!(last_level_cache(&HostFacts::default()), None);
    }
}
