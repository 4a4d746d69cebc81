//! From what an agent saw to what a report says of its host.
//!
//! Two sources are read, sysfs and the verbs library; where one is silent the other speaks.

mod device;
mod gids;
mod pcie;
pub mod places;
pub(crate) mod view;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use fabbench_reports::model::Host;
use serde_json::Value;

use crate::snapshot::{HostFacts, VerbsDevice, VerbsPort};

pub use gids::{gid_table, kind_word};
pub use pcie::{Chain, DeviceControl, Hop, pcie_chain};
use view::View;

/// Where the kernel lists RDMA devices.
const INFINIBAND: &str = "/sys/class/infiniband";

/// What a report says of the host that `facts` describe, under the name that the user typed.
pub fn host(name: &str, facts: &HostFacts) -> Host {
    let calls = &facts.calls;
    Host {
        name: name.to_owned(),
        hostname: calls.hostname.clone(),
        kernel: calls.kernel.clone(),
        arch: calls.arch.clone(),
        os: os_name(facts),
        cpu: cpu_model(facts),
        cpus: u32::try_from(calls.cpus.len()).unwrap_or(u32::MAX),
        rdma_core: rdma_core(facts),
        limits: limits(facts),
        agent: calls.agent.clone(),
        devices: device_names(facts).iter().map(|name| device::device(name, facts)).collect(),
    }
}

/// Why no RDMA device of this host can be used, with the next step; none when one can.
pub fn rdma_problem(facts: &HostFacts) -> Option<String> {
    if let Some(problem) = &facts.calls.verbs.problem {
        let text = problem.text.trim();
        return Some(if text.is_empty() { standard_text(&problem.kind) } else { text.to_owned() });
    }
    let names = device_names(facts);
    if names.is_empty() {
        let kind = if View::new(&facts.snapshot).exists(INFINIBAND)
            || !facts.calls.verbs.library.is_empty()
        {
            "no-device"
        } else {
            "kernel-absent"
        };
        return Some(standard_text(kind));
    }
    let reasons: Vec<_> =
        names.iter().map(|name| device::device(name, facts).unusable).collect::<Option<_>>()?;
    reasons.into_iter().next()
}

/// Largest message that a port takes in bytes; none when the verbs library did not say.
pub fn max_message_bytes(facts: &HostFacts, device: &str, port: u8) -> Option<u64> {
    verbs_port(facts, device, port).map(|port| u64::from(port.max_msg_sz)).filter(|size| *size > 0)
}

/// Whether a device does atomic operations; none when the verbs library did not say.
pub fn atomics(facts: &HostFacts, device: &str) -> Option<bool> {
    let devices = &facts.calls.verbs.devices;
    let found = devices.iter().find(|found| found.name == device)?;
    found.atomic_cap.map(|cap| cap > 0)
}

/// The character device by which user space reaches an RDMA device, e.g.
/// `/dev/infiniband/uverbs0`; none when the kernel has none.
pub fn device_node(facts: &HostFacts, device: &str) -> Option<String> {
    const VERBS: &str = "/sys/class/infiniband_verbs";
    let view = View::new(&facts.snapshot);
    let nodes = view.children(VERBS);
    let mut own =
        nodes.iter().filter(|node| view.text(&format!("{VERBS}/{node}/ibdev")) == Some(device));
    own.next().map(|node| format!("/dev/infiniband/{node}"))
}

/// Whether two agents run on one machine: equal host names, and equal boot ids of the kernel or,
/// where one is not known, equal node GUIDs.
pub fn same_machine(a: &HostFacts, b: &HostFacts) -> bool {
    const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
    if a.calls.hostname != b.calls.hostname {
        return false;
    }
    match (a.snapshot.text(BOOT_ID), b.snapshot.text(BOOT_ID)) {
        (Some(a), Some(b)) => a == b,
        _ => {
            let guids = |facts| -> BTreeSet<String> {
                host("", facts).devices.into_iter().map(|device| device.guid).collect()
            };
            guids(a) == guids(b)
        }
    }
}

/// Orders names as people do: digits by value, so that `mlx5_2` stands before `mlx5_10`.
pub fn natural_order(a: &str, b: &str) -> Ordering {
    natural_key(a).cmp(&natural_key(b)).then_with(|| a.cmp(b))
}

fn natural_key(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, tail) = rest.split_at(text_end);
        let digits_end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (digits, tail) = tail.split_at(digits_end);
        parts.push((text.to_owned(), digits.parse().unwrap_or(0)));
        rest = tail;
    }
    parts
}

fn device_names(facts: &HostFacts) -> Vec<String> {
    let mut names: BTreeSet<String> =
        facts.calls.verbs.devices.iter().map(|device| device.name.clone()).collect();
    names.extend(View::new(&facts.snapshot).children(INFINIBAND));
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by(|a, b| natural_order(a, b));
    names
}

fn verbs_device<'a>(facts: &'a HostFacts, name: &str) -> Option<&'a VerbsDevice> {
    facts.calls.verbs.devices.iter().find(|device| device.name == name)
}

fn verbs_port<'a>(facts: &'a HostFacts, device: &str, port: u8) -> Option<&'a VerbsPort> {
    verbs_device(facts, device)?.ports.iter().find(|candidate| candidate.port == port)
}

fn os_name(facts: &HostFacts) -> String {
    let text = facts.snapshot.text("/etc/os-release").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.unwrap_or_default().trim_matches(['"', '\'']).to_owned()
}

fn cpu_model(facts: &HostFacts) -> String {
    let text = facts.snapshot.text("/proc/cpuinfo").unwrap_or_default();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let mut models = fields.filter(|(key, _)| matches!(key.trim(), "model name" | "Model"));
    models.next().map(|(_, model)| model.trim().to_owned()).unwrap_or_default()
}

fn rdma_core(facts: &HostFacts) -> String {
    let verbs = &facts.calls.verbs;
    match verbs.problem.is_some() || verbs.library.is_empty() {
        true => rdma_problem(facts).unwrap_or_default(),
        false => verbs.library.clone(),
    }
}

fn limits(facts: &HostFacts) -> BTreeMap<String, Value> {
    let word = |limit: Option<u64>| limit.map_or_else(|| Value::from("unlimited"), Value::from);
    BTreeMap::from([
        ("memlock_bytes".to_owned(), word(facts.calls.memlock_bytes)),
        ("nofile".to_owned(), word(facts.calls.nofile)),
    ])
}

fn standard_text(kind: &str) -> String {
    let text = match kind {
        "library-absent" => {
            "libibverbs.so.1 is not installed: apt install rdma-core ibverbs-providers (needs root)"
        }
        "library-unusable" => {
            "libibverbs.so.1 cannot be loaded: reinstall rdma-core, or name another file in \
             FABBENCH_LIBIBVERBS"
        }
        "kernel-absent" => {
            "the kernel has no RDMA support: modprobe ib_uverbs and the adapter's driver (needs \
             root), or a kernel that has them"
        }
        "provider-absent" => {
            "libibverbs has no provider for the adapter: apt install ibverbs-providers (needs root)"
        }
        _ => {
            "no RDMA device found: load the adapter's driver, or create a Soft-RoCE device with \
             fabbench softroce up (both need root)"
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod traps;
