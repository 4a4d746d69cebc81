//! What is not as it was, beside the speed: hardware, firmware, settings, method.

use std::collections::{BTreeMap, BTreeSet};

use fabbench_reports::comparison::Change;
use fabbench_reports::model::{Device, Host, Port, Report};

/// Values by object and property.
pub(crate) type Facts = BTreeMap<(String, String), String>;

/// Differences between the last run before and the last run after.
pub(super) fn between(before: &[(&str, &Report)], after: &[(&str, &Report)]) -> Vec<Change> {
    let of = |runs: &[(&str, &Report)]| runs.last().map(|(_, r)| facts(r)).unwrap_or_default();
    let (old, new) = (of(before), of(after));
    differing(&old, &new)
}

/// Facts that are not the same in both; one that is missing is absent, an empty one none.
pub(crate) fn differing(old: &Facts, new: &Facts) -> Vec<Change> {
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let value = |facts: &Facts, key| match facts.get(key).map(String::as_str) {
        None => "absent".to_owned(),
        Some("") => "none".to_owned(),
        Some(value) => value.to_owned(),
    };
    let changed = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
    changed
        .map(|key| Change {
            object: key.0.clone(),
            what: key.1.clone(),
            before: value(old, key),
            after: value(new, key),
        })
        .collect()
}

fn facts(report: &Report) -> Facts {
    let mut facts = Facts::new();
    let mut add = |object: &str, what: &str, value: String| {
        facts.insert((object.to_owned(), what.to_owned()), value);
    };
    add("run", "fabbench", format!("{} ({})", report.tool.version, report.tool.commit));
    add("run", "suite", format!("{} {}", report.suite.name, report.suite.hash));
    add("run", "profile", format!("{} {}", report.profile.name, report.profile.hash));
    for host in &report.hosts {
        of_host(host, &mut add);
    }
    for rail in &report.rails {
        add(&rail.name, "ports", format!("{} and {}", rail.a, rail.b));
    }
    for m in report.measurements.iter().filter(|m| m.transport != "tcp") {
        let p = &m.path;
        add(&p.rail, "path MTU", format!("{} B", p.mtu));
        add(&p.rail, "addresses", format!("{} and {} ({})", p.gid_a, p.gid_b, p.gid_type));
        add(&p.rail, "service level", p.sl.to_string());
        add(&p.rail, "traffic class", p.traffic_class.to_string());
    }
    for check in &report.checks {
        let object = if check.object.contains(&check.host) {
            check.object.clone()
        } else {
            format!("{} {}", check.host, check.object)
        };
        add(&object, &format!("check {}", check.id), format!("{}: {}", check.status, check.found));
    }
    facts
}

fn of_host(host: &Host, add: &mut impl FnMut(&str, &str, String)) {
    let name = &host.name;
    add(name, "kernel", host.kernel.clone());
    add(name, "OS", host.os.clone());
    add(name, "CPU", format!("{} × {}", host.cpus, host.cpu));
    add(name, "rdma-core", host.rdma_core.clone());
    for (limit, value) in &host.limits {
        add(name, &format!("limit {limit}"), value.to_string().trim_matches('"').to_owned());
    }
    for device in &host.devices {
        of_device(&format!("{name}/{}", device.name), device, add);
    }
}

fn of_device(name: &str, device: &Device, add: &mut impl FnMut(&str, &str, String)) {
    add(name, "driver", device.driver.clone());
    add(name, "firmware", device.firmware.clone());
    add(name, "board", device.board.clone());
    add(name, "GUID", device.guid.clone());
    add(name, "PCI address", device.pci.clone().unwrap_or_default());
    let node = device.numa_node.map(|node| node.to_string());
    add(name, "NUMA node", node.unwrap_or_default());
    for port in &device.ports {
        of_port(&format!("{name}:{}", port.port), port, add);
    }
}

fn of_port(name: &str, port: &Port, add: &mut impl FnMut(&str, &str, String)) {
    add(name, "state", port.state.clone());
    add(name, "link layer", port.link_layer.clone());
    add(name, "link", format!("{} {}", port.width, port.speed));
    add(name, "active MTU", format!("{} B", port.active_mtu));
    add(name, "interface", port.netdev.clone().unwrap_or_default());
    if let Some(mtu) = port.netdev_mtu {
        add(name, "interface's MTU", format!("{mtu} B"));
    }
}
