//! Checks of hosts and rails before anything is measured.
//!
//! Each check says what was found and what is wanted; what cannot be read is unknown, never passed.
//! A remedy says whether it needs root, disturbs traffic or weakens isolation.

mod adapter;
mod both;
mod link;
mod physical;
mod roce;
mod subject;
mod system;

use fabbench_reports::model::{Check, Device, Port, Status};

use crate::facts::{device_node, gid_table, rdma_problem, same_machine};
use crate::gid::{GidPair, is_without_address};
use crate::line_rate::LaneSpeed;
use crate::plan::{Case, Group};
use crate::rails::{PairRail, Party, RailMap};
use crate::size::size_text;
use crate::snapshot::Entry;
use subject::Subject;

/// Checks that, failed, keep something from being measured; others failed mean bad performance.
const GATES: [&str; 6] = ["device", "verbs", "uverbs", "port-state", "gid", "memlock"];

/// Why a captured tree of files leaves a check open.
const NOT_ASKED: &str = "no agent was asked: this is a captured tree of files";

/// Whether a failed check of this id leaves the run incomplete rather than slow.
pub fn is_gate(id: &str) -> bool {
    GATES.contains(&id)
}

/// Everything there is to check on two hosts and the rails between them before RDMA is measured
/// (one machine that stands twice is checked once);
/// `need_bytes` is what must be locked at least, see [`least_locked_bytes`].
pub fn pair_checks(a: &Party, b: &Party, map: &RailMap, need_bytes: u64) -> Vec<Check> {
    let mut checks = host_checks(a, Some(b), map, need_bytes);
    if !same_machine(a.facts, b.facts) {
        checks.extend(host_checks(b, Some(a), map, need_bytes));
    }
    for rail in &map.rails {
        checks.push(gid_check(rail));
        checks.push(mtu_check(rail));
    }
    if has_hardware(a) && has_hardware(b) && !same_machine(a.facts, b.facts) {
        checks.extend(both::checks(a, b, &map.rails));
    }
    checks
}

/// Everything there is to check on hosts that are not measured: each alone, and what differs from the
/// first.
pub fn site_checks(parties: &[Party]) -> Vec<Check> {
    let none = RailMap::default();
    let alone = parties.iter().flat_map(|party| host_checks(party, None, &none, 0));
    let mut checks: Vec<Check> = alone.collect();
    if let [first, others @ ..] = parties {
        let others = others.iter().filter(|other| has_hardware(other));
        for other in others.filter(|other| !same_machine(first.facts, other.facts)) {
            if has_hardware(first) {
                checks.extend(both::checks(first, other, &[]));
            }
        }
    }
    checks
}

/// Whether the host has an adapter, not software alone.
fn has_hardware(party: &Party) -> bool {
    party.host.devices.iter().any(|device| !device.soft)
}

/// The checks of one host; `other` is its peer, if there is one.
pub fn host_checks(
    party: &Party,
    other: Option<&Party>,
    map: &RailMap,
    need_bytes: u64,
) -> Vec<Check> {
    let mut checks = vec![device_check(party), verbs_check(party)];
    for device in &party.host.devices {
        checks.push(uverbs_check(party, device));
        for port in &device.ports {
            checks.push(port_check(party, other, device, port, map));
            checks.extend(gid_table_check(party, device, port));
            checks.extend(rate_check(party, device, port));
        }
    }
    checks.push(memlock_check(party, need_bytes));
    checks.extend(configuration(party, other));
    checks
}

/// Slots, links and settings of a host with adapters; for software devices none of them matters.
fn configuration(party: &Party, other: Option<&Party>) -> Vec<Check> {
    let subject = Subject::new(party);
    let mut checks = Vec::new();
    for device in &party.host.devices {
        if device.soft {
            let why = "a software device: slot, link and lossless settings do not concern it";
            checks.push(subject.of_device("hardware", device, "").beside(why));
            continue;
        }
        checks.extend(adapter::checks(&subject, device));
        for port in device.ports.iter().filter(|port| link::is_up(port)) {
            checks.extend(link::checks(&subject, other, device, port));
            if port.link_layer == "Ethernet" {
                checks.extend(roce::checks(&subject, device, port));
            }
        }
    }
    if has_hardware(party) {
        checks.extend(system::checks(&subject));
    }
    checks
}

/// What the cases of a plan must lock at least at one end, in bytes: what no implementation can do
/// without, so that a failed check is a real one.
pub fn least_locked_bytes(groups: &[Group]) -> u64 {
    let case = |case: &Case| {
        let messages = u64::from(case.knobs.qps) * case.size_bytes;
        case.knobs.volume_bytes.min(1 << 20).max(messages)
    };
    let verbs = |case: &&Case| case.transport.is_verbs();
    let group = |group: &Group| group.cases.iter().filter(verbs).map(case).sum();
    groups.iter().map(group).max().unwrap_or(0)
}

/// A check that passed, to be changed where it did not.
fn check(id: &str, party: &Party, object: String, found: String, wanted: &str) -> Check {
    Check {
        id: id.to_owned(),
        host: party.host.name.clone(),
        object,
        status: Status::Pass,
        found,
        wanted: wanted.to_owned(),
        remedy: String::new(),
    }
}

/// Turns a check into what it is.
trait Graded {
    fn graded(self, status: Status, remedy: impl Into<String>) -> Check;
}

impl Graded for Check {
    fn graded(self, status: Status, remedy: impl Into<String>) -> Check {
        Check { status, remedy: remedy.into(), ..self }
    }
}

fn device_check(party: &Party) -> Check {
    let names: Vec<_> = party.host.devices.iter().map(|device| device.name.as_str()).collect();
    let object = party.host.name.clone();
    if !names.is_empty() {
        return check("device", party, object, names.join(", "), "an RDMA device");
    }
    let problem = rdma_problem(party.facts).unwrap_or_default();
    check("device", party, object, "none".to_owned(), "an RDMA device")
        .graded(Status::Fail, problem)
}

fn verbs_check(party: &Party) -> Check {
    let wanted = "libibverbs that opens a device";
    let object = party.host.name.clone();
    if !Subject::new(party).was_asked() {
        return Subject::new(party).of_host("verbs", wanted).unknown(NOT_ASKED);
    }
    let library = &party.facts.calls.verbs.library;
    let found = if library.is_empty() { "no library" } else { library.as_str() }.to_owned();
    let found = check("verbs", party, object, found, wanted);
    match rdma_problem(party.facts) {
        // A library without a device has nothing to open: the check of the device says why.
        Some(_) if !library.is_empty() && party.host.devices.is_empty() => {
            found.graded(Status::NotApplicable, "")
        }
        Some(problem) => found.graded(Status::Fail, problem),
        None => found,
    }
}

/// Whether the user may open the device's node.
fn uverbs_check(party: &Party, device: &Device) -> Check {
    let facts = party.facts;
    let node = device_node(facts, &device.name);
    let object = node.clone().unwrap_or_else(|| format!("/dev/infiniband ({})", device.name));
    let seen = node.as_ref().and_then(|node| facts.snapshot.entries.get(node));
    let known = facts.calls.verbs.devices.iter().any(|verbs| verbs.name == device.name);
    let opened = |found: &str| {
        check("uverbs", party, object.clone(), found.to_owned(), "opens for reading and writing")
    };
    match (&device.unusable, seen) {
        _ if !Subject::new(party).was_asked() => opened(NOT_ASKED).graded(Status::Unknown, ""),
        (Some(why), Some(Entry::Error(errno))) => {
            opened(&format!("errno {errno}")).graded(Status::Fail, why.clone())
        }
        (Some(why), _) => opened("does not open").graded(Status::Fail, why.clone()),
        (None, _) if known => opened("opened"),
        (None, _) => opened("not seen").graded(Status::Unknown, ""),
    }
}

fn port_check(
    party: &Party,
    other: Option<&Party>,
    device: &Device,
    port: &Port,
    map: &RailMap,
) -> Check {
    let label = format!("{}/{}:{}", party.host.name, device.name, port.port);
    let found = check("port-state", party, label.clone(), port.state.clone(), "ACTIVE");
    if port.state == "ACTIVE" {
        return found;
    }
    let remedy = match &port.netdev {
        Some(netdev) => format!("check the cable, then ip link set {netdev} up (needs root)"),
        None => "check the cable, the switch port and the subnet manager".to_owned(),
    };
    let mut unmatched = map.unmatched.iter().filter(|left| left.object.contains(&label));
    let named = unmatched.any(|left| left.named);
    let peer_up = other.is_some_and(|other| peer_is_up(party, other, device, port));
    let sibling_up = device.ports.iter().any(|sibling| sibling.state == "ACTIVE");
    match (named || peer_up, sibling_up) {
        (true, _) => found.graded(Status::Fail, remedy),
        // The second port of an adapter is often left without a cable.
        (false, true) => found.graded(Status::NotApplicable, ""),
        (false, false) => found.graded(Status::Warn, format!("{remedy}, if it should be in use")),
    }
}

/// Whether the port of that name is up on a peer with the same ports: then a rail is missing.
fn peer_is_up(party: &Party, other: &Party, device: &Device, port: &Port) -> bool {
    let shape = |party: &Party| -> Vec<(String, u8, String)> {
        let ports = party.host.devices.iter().flat_map(|device| {
            let name = &device.name;
            device.ports.iter().map(move |port| (name.clone(), port.port, port.link_layer.clone()))
        });
        ports.collect()
    };
    let ports = |device: &Device| -> Vec<Port> { device.ports.clone() };
    let mut same =
        other.host.devices.iter().filter(|peer| peer.name == device.name).flat_map(ports);
    shape(party) == shape(other)
        && same.any(|peer| peer.port == port.port && peer.state == "ACTIVE")
}

fn gid_table_check(party: &Party, device: &Device, port: &Port) -> Option<Check> {
    let facts = party.facts;
    let table = gid_table(facts, &device.name, port.port);
    let usable = table.iter().any(|gid| !is_without_address(gid, &facts.calls.addresses));
    if port.state != "ACTIVE" || port.link_layer != "Ethernet" || usable {
        return None;
    }
    let label = format!("{}/{}:{}", party.host.name, device.name, port.port);
    let remedy = "port has no usable GID (netns? no IP?): give its interface an IP address in this \
                  network namespace (needs root)";
    let found = check("gid", party, label, "no usable GID".to_owned(), "a RoCE v2 GID");
    Some(found.graded(Status::Fail, remedy))
}

/// Whether the interface and the verbs library agree on the rate of an Ethernet port.
fn rate_check(party: &Party, device: &Device, port: &Port) -> Option<Check> {
    let by_netdev = port.rate_bps.filter(|_| port.link_layer == "Ethernet")?;
    let lanes = port.width.trim_end_matches('x').parse().ok()?;
    let by_verbs = LaneSpeed::by_name(&port.speed)?.ethernet_bps(lanes);
    let gbps = |bps: u64| bps as f64 / 1e9;
    // 56G is called 4x FDR, which is not quite that.
    if gbps(by_netdev.abs_diff(by_verbs)) <= 0.05 * gbps(by_netdev) {
        return None;
    }
    let label = format!("{}/{}:{}", party.host.name, device.name, port.port);
    let found = format!(
        "interface {:.0} Gb/s, verbs {} {} = {:.0} Gb/s",
        gbps(by_netdev),
        port.width,
        port.speed,
        gbps(by_verbs)
    );
    let remedy = "the interface's rate is used; a bond or an unknown link mode explains it";
    Some(check("port-rate", party, label, found, "one rate").graded(Status::Warn, remedy))
}

fn memlock_check(party: &Party, need_bytes: u64) -> Check {
    let calls = &party.facts.calls;
    let wanted = format!("unlimited, or at least {}", size_text(need_bytes));
    let found = match calls.memlock_bytes {
        None if !Subject::new(party).was_asked() => {
            let object = "memlock of the agent's process".to_owned();
            return check("memlock", party, object, NOT_ASKED.to_owned(), &wanted)
                .graded(Status::Unknown, "");
        }
        None => "unlimited".to_owned(),
        Some(limit) if calls.uid == 0 => format!("{} (root is exempt)", size_text(limit)),
        Some(limit) => size_text(limit),
    };
    let object = "memlock of the agent's process".to_owned();
    let found = check("memlock", party, object, found, &wanted);
    match calls.memlock_bytes {
        Some(limit) if calls.uid != 0 && limit < need_bytes => found.graded(
            Status::Fail,
            "ulimit -l unlimited in the shell that starts the agent; to allow it, a line \
             `* - memlock unlimited` in /etc/security/limits.conf (needs root; log in again), or \
             LimitMEMLOCK=infinity for a service",
        ),
        _ => found,
    }
}

/// The GIDs that a rail uses: one type at both ends.
fn gid_check(rail: &PairRail) -> Check {
    let GidPair { a, b, warnings, .. } = &rail.gids;
    let found = format!(
        "{}: index {} {} and index {} {}",
        rail.gids.type_words(),
        a.index,
        a.gid,
        b.index,
        b.gid
    );
    let wanted = match rail.link_layer.as_str() {
        "InfiniBand" => "LID addressing in one subnet, or GIDs across",
        _ => "RoCE v2 with routable addresses at both ends",
    };
    let status = if warnings.is_empty() { Status::Pass } else { Status::Warn };
    rail_check("gid", rail, status, found, wanted, warnings.join("; "))
}

/// The path MTU of a rail: equal at both ends, and 4096 on hardware.
fn mtu_check(rail: &PairRail) -> Check {
    let differ = rail.mtu.warnings.iter().any(|warning| warning.starts_with("MTUs differ"));
    let soft = rail.speed.soft;
    let status = match (rail.mtu.warnings.is_empty(), differ || !soft) {
        (true, _) => Status::Pass,
        (false, true) => Status::Warn,
        // On a soft device no rate depends on it.
        (false, false) => Status::Pass,
    };
    let wanted = if soft { "equal at both ends" } else { "4096 B at both ends" };
    let found = format!("{} B", rail.mtu.bytes);
    let remedy = if status == Status::Pass { String::new() } else { rail.mtu.warnings.join("; ") };
    rail_check("mtu", rail, status, found, wanted, remedy)
}

fn rail_check(
    id: &str,
    rail: &PairRail,
    status: Status,
    found: String,
    wanted: &str,
    remedy: String,
) -> Check {
    Check {
        id: id.to_owned(),
        host: rail.a.host.clone(),
        object: format!("{} {} - {}", rail.name, rail.a.label, rail.b.label),
        status,
        found,
        wanted: wanted.to_owned(),
        remedy,
    }
}

#[cfg(test)]
mod tests;
