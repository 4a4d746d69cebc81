//! What only calls can tell of this machine.

use std::net::IpAddr;

use fabbench_harness::snapshot::{CallFacts, InterfaceAddress};
use rustix::process::{Resource, getrlimit};

use crate::measure::clock::{Clock, ClockQuality};

/// Asks the system; takes a few milliseconds, most of them for the clock.
pub fn facts() -> CallFacts {
    let uname = rustix::system::uname();
    let clock = ClockQuality::measure(&Clock);
    CallFacts {
        hostname: uname.nodename().to_string_lossy().into_owned(),
        kernel: uname.release().to_string_lossy().into_owned(),
        arch: uname.machine().to_string_lossy().into_owned(),
        uid: rustix::process::geteuid().as_raw(),
        cpus: allowed_cpus(),
        memlock_bytes: getrlimit(Resource::Memlock).current,
        nofile: getrlimit(Resource::Nofile).current,
        clock_resolution_ns: clock.resolution_ns,
        clock_cost_ns: clock.cost_ns,
        clock: "CLOCK_MONOTONIC_RAW".to_owned(),
        addresses: addresses(),
        nvml: super::nvml::facts(),
        verbs: crate::transport::verbs::device::facts(),
        agent: crate::VERSION_LINE.to_owned(),
    }
}

/// CPUs that this process may run on, ascending; empty when the system does not tell.
pub fn allowed_cpus() -> Vec<u32> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .filter_map(|cpu| u32::try_from(cpu).ok())
        .collect()
}

/// Addresses of the interfaces, in the system's order; empty when it does not tell.
fn addresses() -> Vec<InterfaceAddress> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    interfaces.iter().map(address).collect()
}

fn address(interface: &if_addrs::Interface) -> InterfaceAddress {
    let (address, prefix_len) = match &interface.addr {
        if_addrs::IfAddr::V4(v4) => (IpAddr::V4(v4.ip), v4.prefixlen),
        if_addrs::IfAddr::V6(v6) => (IpAddr::V6(v6.ip), v6.prefixlen),
    };
    InterfaceAddress { netdev: interface.name.clone(), address, prefix_len }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_agree_with_the_kernels_files() {
        let facts = facts();
        let read = |path: &str| std::fs::read_to_string(path).unwrap().trim().to_owned();
        assert_eq!(facts.hostname, read("/proc/sys/kernel/hostname"));
        assert_eq!(facts.kernel, read("/proc/sys/kernel/osrelease"));
        let limits = read("/proc/self/limits");
        let line = limits.lines().find(|l| l.starts_with("Max locked memory")).unwrap();
        let soft = line.split_whitespace().nth(3).unwrap();
        assert_eq!(facts.memlock_bytes, soft.parse().ok(), "{line}");
        assert!(!facts.cpus.is_empty());
        assert!(facts.clock_resolution_ns > 0 && facts.clock_cost_ns > 0.0);
    }

    #[test]
    fn the_loopback_address_is_there_with_its_prefix() {
        let addresses = addresses();
        let lo = addresses.iter().find(|a| a.address.to_string() == "127.0.0.1").unwrap();
        assert_eq!((lo.netdev.as_str(), lo.prefix_len), ("lo", 8));
    }
}
