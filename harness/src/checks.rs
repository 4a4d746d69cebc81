//! Checks of hosts and rails before anything is measured.

use fabbench_reports::model::{Check, Device, Port, Status};

use crate::facts::{device_node, gid_table, rdma_problem, same_machine};
use crate::gid::{GidPair, is_without_address};
use crate::line_rate::LaneSpeed;
use crate::plan::{Case, Group, Transport};
use crate::rails::{PairRail, Party, RailMap};
use crate::size::size_text;
use crate::snapshot::Entry;

/// Checks that, failed, keep something from being measured; others failed mean bad performance.
const GATES: [&str; 6] = ["device", "verbs", "uverbs", "port-state", "gid", "memlock"];

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
    checks
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
    checks
}

/// What the cases of a plan must lock at least at one end, in bytes: what no implementation can do
/// without, so that a failed check is a real one.
pub fn least_locked_bytes(groups: &[Group]) -> u64 {
    let case = |case: &Case| {
        let messages = u64::from(case.knobs.qps) * case.size_bytes;
        case.knobs.volume_bytes.min(1 << 20).max(messages)
    };
    let verbs = |case: &&Case| case.transport == Transport::Rc;
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
mod tests {
    use super::*;
    use crate::facts;
    use crate::fixtures;
    use crate::rails::{Selection, match_rails};
    use crate::snapshot::{HostFacts, VerbsProblem};

    fn checked(a: &HostFacts, b: &HostFacts, need: u64) -> Vec<Check> {
        let hosts = (facts::host("a", a), facts::host("b", b));
        let a = Party { facts: a, host: &hosts.0, data_address: None };
        let b = Party { facts: b, host: &hosts.1, data_address: None };
        let map = match_rails(&a, &b, &Selection::default()).unwrap();
        pair_checks(&a, &b, &map, need)
    }

    fn pair(kind: &str) -> (HostFacts, HostFacts) {
        (fixtures::read(&format!("{kind}-a")), fixtures::read(&format!("{kind}-b")))
    }

    fn find<'a>(checks: &'a [Check], id: &str, object: &str) -> &'a Check {
        let mut found =
            checks.iter().filter(|check| check.id == id && check.object.contains(object));
        found.next().unwrap_or_else(|| panic!("no {id} {object} in {checks:#?}"))
    }

    #[test]
    fn sound_soft_hosts_pass_everything() {
        let (a, b) = pair("rxe");
        let checks = checked(&a, &b, 1 << 20);
        assert!(checks.iter().all(|check| check.status == Status::Pass), "{checks:#?}");
        assert_eq!(find(&checks, "memlock", "").found, "8 MiB (root is exempt)");
        assert_eq!(find(&checks, "uverbs", "/dev/infiniband/uverbs1").found, "opened");
        assert!(
            find(&checks, "gid", "rail1").found.starts_with("RoCE v2: index 1 ::ffff:10.77.1.1")
        );
    }

    #[test]
    fn one_machine_twice_is_checked_once() {
        let (a, _) = pair("rxe");
        let checks = checked(&a, &a, 0);
        assert_eq!(checks.iter().filter(|check| check.id == "device").count(), 1);
        assert_eq!(checks.iter().filter(|check| check.id == "mtu").count(), 2);
    }

    #[test]
    fn missing_rdma_fails_with_the_remedy() {
        let mut a = fixtures::read("rxe-a");
        a.snapshot = Default::default();
        a.calls.verbs = Default::default();
        a.calls.verbs.problem =
            Some(VerbsProblem { kind: "library-absent".into(), text: String::new() });
        let checks = checked(&a, &fixtures::read("rxe-b"), 0);
        for id in ["device", "verbs"] {
            let check = find(&checks, id, "a");
            assert_eq!(check.status, Status::Fail);
            assert!(check.remedy.contains("apt install rdma-core"), "{check:?}");
            assert!(is_gate(id));
        }
    }

    #[test]
    fn a_closed_node_fails() {
        let (mut a, b) = pair("rxe");
        let path = "/dev/infiniband/uverbs0";
        a.snapshot.entries.insert(path.into(), Entry::Error(13));
        a.calls.verbs.devices[0].open_error = Some((13, "Permission denied".into()));
        let checks = checked(&a, &b, 0);
        let check = find(&checks, "uverbs", path);
        assert_eq!((check.status, check.found.as_str()), (Status::Fail, "errno 13"));
        assert!(check.remedy.contains("run as root"), "{check:?}");
    }

    #[test]
    fn memlock_counts_for_ordinary_users_only() {
        let (mut a, b) = pair("rxe");
        a.calls.memlock_bytes = Some(65_536);
        let verdict = |facts: &HostFacts| find(&checked(facts, &b, 1 << 20), "memlock", "").clone();
        assert_eq!(verdict(&a).status, Status::Pass, "root");
        a.calls.uid = 1000;
        let check = verdict(&a);
        assert_eq!((check.status, check.found.as_str()), (Status::Fail, "64 KiB"));
        assert_eq!(check.wanted, "unlimited, or at least 1 MiB");
        assert!(check.remedy.contains("needs root"));
        a.calls.memlock_bytes = None;
        assert_eq!(verdict(&a).found, "unlimited");
    }

    #[test]
    fn mtus_that_differ_warn_and_name_the_gain() {
        let (a, mut b) = pair("rxe");
        b.calls.verbs.devices[0].ports[0].active_mtu = 3;
        let checks = checked(&a, &b, 0);
        let check = find(&checks, "mtu", "rail0");
        assert_eq!((check.status, check.found.as_str()), (Status::Warn, "1024 B"));
        assert!(check.remedy.contains("5.9 %"), "{check:?}");
        assert_eq!(find(&checks, "mtu", "rail1").status, Status::Pass);
    }

    #[test]
    fn a_small_mtu_warns_on_hardware_only() {
        let (a, b) = pair("ndr");
        let checks = checked(&a, &b, 0);
        assert_eq!(find(&checks, "mtu", "mlx5_2").status, Status::Warn);
        assert_eq!(find(&checks, "mtu", "mlx5_10").status, Status::Pass);
        let (mut a, mut b) = pair("rxe");
        for facts in [&mut a, &mut b] {
            facts.calls.verbs.devices[0].ports[0].active_mtu = 3;
        }
        assert_eq!(find(&checked(&a, &b, 0), "mtu", "rail0").status, Status::Pass);
    }

    #[test]
    fn down_ports_are_judged_by_what_they_are() {
        let (mut a, mut b) = pair("ndr");
        let second = find(&checked(&a, &b, 0), "port-state", "a/mlx5_2:2").status;
        assert_eq!(second, Status::NotApplicable, "a second port without a cable");
        a.calls.verbs.devices[1].ports[0].state = 1;
        let check = find(&checked(&a, &b, 0), "port-state", "a/mlx5_10:1").clone();
        assert_eq!(check.status, Status::Fail, "up on a peer of the same shape");
        assert!(is_gate(&check.id));
        b.calls.verbs.devices[1].ports[0].state = 1;
        let both = checked(&a, &b, 0);
        assert_eq!(find(&both, "port-state", "a/mlx5_10:1").status, Status::Warn);
    }

    #[test]
    fn a_port_without_gids_fails() {
        let (mut a, b) = pair("rxe");
        a.calls.verbs.devices[0].ports[0].gids.clear();
        let checks = checked(&a, &b, 0);
        let check = find(&checks, "gid", "a/rxe0:1");
        assert_eq!(check.status, Status::Fail);
        assert!(check.remedy.contains("(netns? no IP?)"));
    }

    #[test]
    fn rates_that_disagree_warn() {
        let (mut a, b) = pair("ndr");
        assert!(!checked(&a, &b, 0).iter().any(|check| check.id == "port-rate"));
        a.calls.verbs.devices[2].ports[0].active_width = 2;
        a.calls.verbs.devices[2].ports[0].active_speed = 4;
        let checks = checked(&a, &b, 0);
        let check = find(&checks, "port-rate", "a/mlx5_2:1");
        assert_eq!(check.found, "interface 25 Gb/s, verbs 4x QDR = 40 Gb/s");
    }

    #[test]
    fn the_least_need_is_that_of_the_hungriest_group() {
        use crate::suite::{Overrides, RailTraits, Scene, Suite};
        let rail = RailTraits { tcp: true, ..RailTraits::default() };
        let scene = Scene { rails: vec![rail; 2], tcp_streams: 8 };
        let plan = Suite::built_in("quick").unwrap().plan(&scene, &Overrides::default()).unwrap();
        assert_eq!(least_locked_bytes(&plan.groups), 1 << 20);
        assert_eq!(least_locked_bytes(&[]), 0);
    }
}
