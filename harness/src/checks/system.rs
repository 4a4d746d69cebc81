//! Checks of a host beside its adapters: processors, kernel settings, services, what else runs.

use std::collections::{BTreeMap, BTreeSet};

use fabbench_reports::model::Check;

use super::adapter::parse_list;
use super::roce;
use super::subject::Subject;
use crate::topology;
use crate::topology::model::Fact;

/// Waking up from deeper idle states takes longer than a message.
const DEEP_NS: u64 = 10_000;

/// All checks of a host that has hardware adapters.
pub(super) fn checks(subject: &Subject) -> Vec<Check> {
    let mut checks = vec![
        iommu(subject),
        governor(subject),
        idle(subject),
        clock_source(subject),
        services(subject),
        balancing(subject),
        reclaim(subject),
        huge_pages(subject),
        kernel_log(subject),
        load(subject),
    ];
    checks.extend(roce::routing(subject));
    checks.extend(management_nodes(subject));
    checks
}

fn iommu(subject: &Subject) -> Check {
    let draft = subject.of_host("iommu", "off, or passing DMA through (identity)");
    let machine = match topology::read_snapshot(&subject.facts().snapshot) {
        Ok(topology) => topology.machine,
        Err(why) => return draft.unknown(why),
    };
    let line = subject.read("/proc/cmdline");
    match (machine.iommu.as_known(), machine.guest) {
        (Some(kind), Fact::Known(true)) => draft.told(format!("{kind}, in a virtual machine")),
        (Some(kind), _) if kind.contains("DMA") => draft.warn(
            format!("translates DMA ({kind})"),
            "boot with iommu=pt (needs root and a restart; weakens isolation)",
        ),
        (Some(kind), _) => draft.pass(kind.clone()),
        (None, Fact::Known(true)) => draft.beside("a virtual machine without an IOMMU of its own"),
        (None, _) => match line {
            Ok(line)
                if ["iommu=off", "intel_iommu=off", "amd_iommu=off"]
                    .iter()
                    .any(|word| line.contains(word)) =>
            {
                draft.pass("off")
            }
            _ => draft.unknown(
                "no adapter is in an IOMMU group, nor does the kernel's command line tell",
            ),
        },
    }
}

fn governor(subject: &Subject) -> Check {
    let draft = subject.of_host("governor", "performance on every processor");
    let cpus =
        subject.view.text("/sys/devices/system/cpu/online").map(parse_list).unwrap_or_default();
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let mut missing = None;
    for cpu in &cpus {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        match subject.read(&path) {
            Ok(word) => *seen.entry(word).or_default() += 1,
            Err(why) => missing = missing.or(Some(why)),
        }
    }
    let words: Vec<_> = seen.iter().map(|(word, count)| format!("{word} on {count}")).collect();
    let others = seen.keys().any(|word| *word != "performance");
    match (others, missing) {
        (true, _) => draft.warn(
            words.join(", "),
            "cpupower frequency-set -g performance (needs root), else latency varies",
        ),
        (false, Some(why)) if seen.is_empty() => {
            draft.unknown(format!("{why}: firmware or a hypervisor governs"))
        }
        (false, Some(why)) => draft.unknown(format!("{}; {why}", words.join(", "))),
        (false, None) if seen.is_empty() => draft.unknown("the processors online are not known"),
        (false, None) => draft.pass(words.join(", ")),
    }
}

/// The deepest idle state that is allowed. Polling threads keep their processor awake, so that this
/// is told and not judged.
fn idle(subject: &Subject) -> Check {
    const DIRECTORY: &str = "/sys/devices/system/cpu/cpu0/cpuidle";
    let draft = subject.of_host("idle-states", "");
    let mut deepest: Option<(u64, &str)> = None;
    for state in subject.view.children(DIRECTORY) {
        let path = |file: &str| format!("{DIRECTORY}/{state}/{file}");
        if subject.view.text(&path("disable")) == Some("1") {
            continue;
        }
        let latency = subject.number::<u64>(&path("latency")).ok();
        let name = subject.view.text(&path("name"));
        deepest = deepest.max(latency.zip(name));
    }
    match deepest {
        None => draft.unknown(format!("{DIRECTORY} is not there")),
        Some((latency, name)) if latency.saturating_mul(1000) > DEEP_NS => draft.told(format!(
            "down to {name}, which wakes up in {latency} µs: idle hosts answer later"
        )),
        Some((latency, name)) => draft.pass(format!("down to {name}, {latency} µs")),
    }
}

fn clock_source(subject: &Subject) -> Check {
    const GOOD: [&str; 5] =
        ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "timebase"];
    let draft = subject.of_host("clock", "a processor's counter (tsc, arch_sys_counter)");
    match subject.read("/sys/devices/system/clocksource/clocksource0/current_clocksource") {
        Err(why) => draft.unknown(why),
        Ok(name) if GOOD.contains(&name) => draft.pass(name),
        Ok(name) => draft.warn(
            format!("{name}: every reading goes through the kernel and costs a microsecond"),
            "look in the kernel log why tsc was given up (mark_tsc_unstable)",
        ),
    }
}

/// Names of processes, as far as they were looked at.
fn running<'a>(subject: &Subject<'a>) -> BTreeSet<&'a str> {
    let entries = subject.facts().snapshot.entries.range("/proc/".to_owned().."/proc0".to_owned());
    let names = entries.filter(|(path, _)| path.ends_with("/comm"));
    names.filter_map(|(path, _)| subject.view.text(path)).collect()
}

fn services(subject: &Subject) -> Check {
    const TOLD: [&str; 7] =
        ["irqbalance", "chronyd", "ntpd", "systemd-timesyn", "ptp4l", "opensm", "firewalld"];
    let draft = subject.of_host("services", "");
    if subject.view.text("/proc/1/comm").is_none() {
        return draft.unknown("the processes were not looked at");
    }
    let there = running(subject);
    let words: Vec<_> = TOLD.into_iter().filter(|name| there.contains(name)).collect();
    let time = words.iter().any(|name| TOLD[1..5].contains(name));
    let time = if time { "" } else { "; no service keeps the time" };
    let list = if words.is_empty() {
        "none of those that matter here".to_owned()
    } else {
        words.join(", ")
    };
    draft.told(format!("{list}{time}"))
}

fn balancing(subject: &Subject) -> Check {
    let draft = subject.of_host("numa-balancing", "off");
    match subject.number::<u32>("/proc/sys/kernel/numa_balancing") {
        Err(why) => draft.unknown(why),
        Ok(0) => draft.pass("off"),
        Ok(_) if subject.view.text("/sys/devices/system/node/online") == Some("0") => {
            draft.pass("on, on a host of one node")
        }
        Ok(mode) => draft.warn(
            format!("on ({mode}): the kernel moves pages while they are in use"),
            "sysctl -w kernel.numa_balancing=0 (needs root)",
        ),
    }
}

fn reclaim(subject: &Subject) -> Check {
    let draft = subject.of_host("zone-reclaim", "off");
    match subject.number::<u32>("/proc/sys/vm/zone_reclaim_mode") {
        Err(why) => draft.unknown(why),
        Ok(0) => draft.pass("off"),
        Ok(mode) => draft.warn(
            format!("on ({mode}): a full node stalls instead of using another"),
            "sysctl -w vm.zone_reclaim_mode=0 (needs root)",
        ),
    }
}

fn huge_pages(subject: &Subject) -> Check {
    let draft = subject.of_host("huge-pages", "");
    let transparent = subject.read("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = match transparent {
        Ok(text) => text.split(['[', ']']).nth(1).unwrap_or("not told").to_owned(),
        Err(why) => return draft.unknown(why),
    };
    const SIZES: &str = "/sys/kernel/mm/hugepages";
    let sizes = subject.view.children(SIZES).into_iter().filter_map(|name| {
        let count: u64 = subject.number(&format!("{SIZES}/{name}/nr_hugepages")).ok()?;
        (count > 0).then(|| format!("{count} of {}", name.trim_start_matches("hugepages-")))
    });
    let reserved: Vec<String> = sizes.collect();
    let reserved = if reserved.is_empty() { "none".to_owned() } else { reserved.join(", ") };
    draft.told(format!("transparent: {chosen}; reserved: {reserved}"))
}

/// Lines of the kernel log with what they say of the fabric.
const LOG: [(&str, &str); 8] = [
    ("available PCIe bandwidth, limited", "a slot is narrower or slower than its card"),
    ("insufficient power on the PCIe slot", "a slot gives its card too little power"),
    ("High Temperature", "a transceiver is too hot"),
    ("NVRM: Xid", "a GPU reported an error"),
    ("health compromised", "an adapter's health is compromised"),
    ("timeout. Will cause a leak", "an adapter's firmware did not answer"),
    ("PCIe Bus Error", "PCIe reported errors"),
    ("lost carrier", "a port lost its carrier"),
];

fn kernel_log(subject: &Subject) -> Check {
    let draft = subject.of_host("kernel-log", "nothing about adapters, slots and GPUs");
    let text = match subject.tool("dmesg") {
        Ok(text) => text,
        Err(why) => return draft.unknown(why),
    };
    let found: Vec<String> = LOG
        .iter()
        .filter_map(|(words, meaning)| {
            let count = text.lines().filter(|line| line.contains(words)).count();
            (count > 0).then(|| format!("{meaning} ({count} lines)"))
        })
        .collect();
    match found[..] {
        [] => draft.pass("nothing"),
        _ => draft.warn(
            found.join("; "),
            "read these lines with dmesg -T; they are since the host started",
        ),
    }
}

/// Processes other than the agent that hold an RDMA device open.
fn load(subject: &Subject) -> Check {
    let draft = subject.of_host("foreign-load", "no other process on the adapters");
    let entries = subject.facts().snapshot.entries.range("/proc/".to_owned().."/proc0".to_owned());
    let mut users: BTreeSet<String> = BTreeSet::new();
    let (mut seen, mut hidden) = (false, 0);
    for (path, _) in entries.filter(|(path, _)| path.contains("/fd")) {
        let Some((process, _)) = path[6..].split_once('/') else { continue };
        seen = true;
        hidden += u32::from(subject.view.errno(path).is_some());
        if subject
            .view
            .link(path)
            .is_some_and(|target| target.starts_with("/dev/infiniband/uverbs"))
        {
            let name = subject.view.text(&format!("/proc/{process}/comm")).unwrap_or("process");
            users.insert(format!("{name} ({process})"));
        }
    }
    let words: Vec<String> = users.into_iter().collect();
    match (words.is_empty(), seen, hidden) {
        (false, ..) => draft.warn(
            words.join(", "),
            "run it when these jobs are over: they take bandwidth, and the run takes theirs",
        ),
        (true, false, _) => draft.unknown("the processes were not looked at"),
        (true, true, 0) => draft.pass("none"),
        (true, true, hidden) => {
            draft.unknown(format!("{hidden} processes of other users cannot be seen: needs root"))
        }
    }
}

/// The nodes that InfiniBand diagnosis needs.
fn management_nodes(subject: &Subject) -> Option<Check> {
    let devices = subject.party.host.devices.iter().filter(|device| !device.soft);
    let mut ports = devices.flat_map(|device| device.ports.iter());
    if !ports.any(|port| port.link_layer == "InfiniBand") {
        return None;
    }
    let draft = subject.of_host("umad", "/dev/infiniband/umad*");
    if !subject.view.exists("/dev/infiniband") {
        return Some(draft.unknown("/dev/infiniband is not there"));
    }
    let names = subject.view.children("/dev/infiniband");
    let count = names.iter().filter(|name| name.starts_with("umad")).count();
    Some(match count {
        0 => draft
            .warn("none", "modprobe ib_umad (needs root): ibstat, perfquery and opensm need it"),
        count => draft.pass(format!("{count} nodes")),
    })
}
