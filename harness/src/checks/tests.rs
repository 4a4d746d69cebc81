mod hosts;
mod single;

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
    let mut found = checks.iter().filter(|check| check.id == id && check.object.contains(object));
    found.next().unwrap_or_else(|| panic!("no {id} {object} in {checks:#?}"))
}

#[test]
fn sound_soft_hosts_pass_everything() {
    let (a, b) = pair("rxe");
    let checks = checked(&a, &b, 1 << 20);
    let judged = |check: &&Check| check.id != "hardware";
    assert!(checks.iter().filter(judged).all(|c| c.status == Status::Pass), "{checks:#?}");
    assert_eq!(find(&checks, "hardware", "a/rxe0").status, Status::NotApplicable);
    assert_eq!(find(&checks, "memlock", "").found, "8 MiB (root is exempt)");
    assert_eq!(find(&checks, "uverbs", "/dev/infiniband/uverbs1").found, "opened");
    assert!(find(&checks, "gid", "rail1").found.starts_with("RoCE v2: index 1 ::ffff:10.77.1.1"));
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
