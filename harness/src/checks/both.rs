//! Checks of what two hosts should have in common.

use std::collections::BTreeMap;

use fabbench_reports::model::{Check, Device, Status};

use super::roce::Settings;
use super::subject::Subject;
use crate::rails::{PairRail, Party, RailEnd};

/// What differs between the hosts as a whole and between the ends of each rail.
pub(super) fn checks(a: &Party, b: &Party, rails: &[PairRail]) -> Vec<Check> {
    let (a, b) = (Subject::new(a), Subject::new(b));
    let mut checks = vec![firmware(&a, &b), driver(&a, &b), kernel(&a, &b)];
    for rail in rails.iter().filter(|rail| !rail.a.soft && !rail.b.soft) {
        checks.push(rates(&a, &b, rail));
        checks.extend(manager(&a, &b, rail));
        checks.extend(lossless(&a, &b, rail));
    }
    checks
}

/// Firmware versions of each board on both hosts.
fn firmware(a: &Subject, b: &Subject) -> Check {
    let draft = a.of_host("firmware-same", "one version a board");
    let mut boards: BTreeMap<&str, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    let mut unknown = Vec::new();
    for subject in [a, b] {
        for device in subject.party.host.devices.iter().filter(|device| !device.soft) {
            let label = format!("{}/{}", subject.name(), device.name);
            if device.board.is_empty() || device.firmware.is_empty() {
                unknown.push(label);
                continue;
            }
            boards
                .entry(&device.board)
                .or_default()
                .entry(&device.firmware)
                .or_default()
                .push(label);
        }
    }
    let mixed: Vec<String> = boards
        .iter()
        .filter(|(_, versions)| versions.len() > 1)
        .map(|(board, versions)| {
            let one =
                |(version, who): (&&str, &Vec<String>)| format!("{version} ({})", who.join(", "));
            format!("{board}: {}", versions.iter().map(one).collect::<Vec<_>>().join(" and "))
        })
        .collect();
    if !mixed.is_empty() {
        return draft.warn(
            mixed.join("; "),
            "bring all cards of a board to one firmware (mlxfwmanager or mstflint; needs root and a \
             restart)",
        );
    }
    match unknown[..] {
        [] => draft.pass("the same on both hosts"),
        _ => draft.unknown(format!("board or firmware of {} cannot be read", unknown.join(", "))),
    }
}

fn driver(a: &Subject, b: &Subject) -> Check {
    let draft = a.of_host("driver-same", "one version on both hosts");
    let names = |subject: &Subject| -> Vec<String> {
        let hardware = subject.party.host.devices.iter().filter(|device| !device.soft);
        let mut names: Vec<_> = hardware.map(|device| device.driver.clone()).collect();
        names.sort();
        names.dedup();
        names
    };
    let version = |subject: &Subject, name: &str| {
        subject.view.text(&format!("/sys/module/{name}/version")).map(str::to_owned)
    };
    let (mut seen, mut missing) = (Vec::new(), Vec::new());
    for name in names(a).into_iter().filter(|name| names(b).contains(name)) {
        match (version(a, &name), version(b, &name)) {
            (Some(one), Some(two)) if one != two => {
                let found = format!("{name}: {one} on {}, {two} on {}", a.name(), b.name());
                return draft.warn(found, "install one driver version on both hosts (needs root)");
            }
            (Some(one), Some(_)) => seen.push(format!("{name} {one}")),
            _ => missing.push(name),
        }
    }
    match (seen.is_empty(), missing.is_empty()) {
        (false, true) => draft.pass(seen.join(", ")),
        (_, false) => {
            draft.unknown(format!("{}: no version, it came with the kernel", missing.join(", ")))
        }
        (true, true) => draft.beside("the hosts have no driver in common"),
    }
}

fn kernel(a: &Subject, b: &Subject) -> Check {
    let draft = a.of_host("kernel-same", "one kernel on both hosts");
    let release = |subject: &Subject| {
        let asked = Some(subject.party.host.kernel.clone()).filter(|kernel| !kernel.is_empty());
        asked.or_else(|| subject.view.text("/proc/sys/kernel/osrelease").map(str::to_owned))
    };
    match (release(a), release(b)) {
        (Some(one), Some(two)) if one == two => draft.pass(one),
        (Some(one), Some(two)) => {
            draft.told(format!("{one} on {}, {two} on {}", a.name(), b.name()))
        }
        _ => draft.unknown("a kernel's release is not known"),
    }
}

fn of_rail(rail: &PairRail, check: Check) -> Check {
    let object = format!("{} {} - {}", rail.name, rail.a.label, rail.b.label);
    Check { object, ..check }
}

fn device<'a>(subject: &Subject<'a>, end: &RailEnd) -> Option<&'a Device> {
    subject.party.host.devices.iter().find(|device| device.name == end.device)
}

/// Both ends at one rate.
fn rates(a: &Subject, b: &Subject, rail: &PairRail) -> Check {
    let draft = a.of_host("rail-rate", "one rate at both ends");
    let port = |subject: &Subject, end: &RailEnd| {
        let device = device(subject, end)?;
        device.ports.iter().find(|port| port.port == end.port)?.rate_bps
    };
    let check = match (port(a, &rail.a), port(b, &rail.b)) {
        (Some(one), Some(two)) if one == two => {
            draft.pass(fabbench_reports::units::BitRate(one as f64).to_string())
        }
        (Some(one), Some(two)) => {
            let rate = |bps: u64| fabbench_reports::units::BitRate(bps as f64);
            draft.warn(
                format!("{} against {}", rate(one), rate(two)),
                "the slower end limits: check cable, switch port and card of that end",
            )
        }
        _ => draft.unknown("the rate of an end is not known"),
    };
    of_rail(rail, check)
}

/// One subnet manager for both ends of an InfiniBand rail.
fn manager(a: &Subject, b: &Subject, rail: &PairRail) -> Option<Check> {
    if rail.link_layer != "InfiniBand" {
        return None;
    }
    let draft = a.of_host("subnet-same", "one subnet manager at both ends");
    let lid = |subject: &Subject, end: &RailEnd| -> Option<u16> {
        let asked = subject.facts().calls.verbs.devices.iter().find(|own| own.name == end.device);
        let asked = asked.and_then(|own| own.ports.iter().find(|own| own.port == end.port));
        let path = format!("/sys/class/infiniband/{}/ports/{}/sm_lid", end.device, end.port);
        let seen = || {
            let text = subject.view.text(&path)?;
            u16::from_str_radix(text.trim_start_matches("0x"), 16).ok()
        };
        asked.map(|port| port.sm_lid).or_else(seen)
    };
    let check = match (lid(a, &rail.a), lid(b, &rail.b)) {
        (Some(one), Some(two)) if one == two => draft.pass(format!("LID {one}")),
        (Some(one), Some(two)) => draft.warn(
            format!("LID {one} and LID {two}"),
            "two managers in one subnet fight: stop one; two subnets need a router or other rails",
        ),
        _ => draft.unknown("the manager's LID of an end is not known"),
    };
    Some(of_rail(rail, check))
}

/// The same lossless settings at both ends of a RoCE rail.
fn lossless(a: &Subject, b: &Subject, rail: &PairRail) -> Option<Check> {
    if rail.link_layer == "InfiniBand" {
        return None;
    }
    let draft = a.of_host("lossless-same", "the same PFC, trust, ECN and class at both ends");
    let settings = |subject: &Subject, end: &RailEnd| {
        let device = device(subject, end)?;
        let port = device.ports.iter().find(|port| port.port == end.port)?;
        Some(Settings::of(subject, device, port))
    };
    let (one, two) = settings(a, &rail.a).zip(settings(b, &rail.b))?;
    let parts = [
        ("PFC", compared(&one.paused, &two.paused)),
        ("trust", compared(&one.trusts_dscp, &two.trusts_dscp)),
        ("ECN", compared(&one.marked, &two.marked)),
        ("traffic class", compared(&one.class, &two.class)),
        ("pause", compared(&one.pause, &two.pause)),
    ];
    let with = |status| -> Vec<&str> {
        parts.iter().filter(|(_, own)| *own == status).map(|(name, _)| *name).collect()
    };
    let (different, hidden) = (with(Status::Fail), with(Status::Unknown));
    let check = match (different.is_empty(), hidden.is_empty()) {
        (false, _) => draft.warn(
            format!("{} differ", different.join(", ")),
            "set both hosts alike (needs root, disturbs traffic); see the checks of each port",
        ),
        (true, false) => {
            draft.unknown(format!("{} cannot be read at both ends", hidden.join(", ")))
        }
        (true, true) => draft.pass("the same"),
    };
    Some(of_rail(rail, check))
}

fn compared<T: PartialEq>(one: &Result<T, String>, two: &Result<T, String>) -> Status {
    match (one, two) {
        (Ok(one), Ok(two)) if one == two => Status::Pass,
        (Ok(_), Ok(_)) => Status::Fail,
        _ => Status::Unknown,
    }
}
