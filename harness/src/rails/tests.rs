use super::*;
use crate::facts;
use crate::fixtures;
use crate::line_rate::Wire;

/// Two hosts that can be changed before rails are laid between them.
struct Pair {
    a: HostFacts,
    b: HostFacts,
}

impl Pair {
    fn of(kind: &str) -> Self {
        Pair { a: fixtures::read(&format!("{kind}-a")), b: fixtures::read(&format!("{kind}-b")) }
    }

    fn lay(&self, selection: &Selection) -> Result<RailMap, RailError> {
        let hosts = (facts::host("a", &self.a), facts::host("b", &self.b));
        let party = |facts, host| Party { facts, host, data_address: None };
        match_rails(&party(&self.a, &hosts.0), &party(&self.b, &hosts.1), selection)
    }

    fn rails(&self, selection: &Selection) -> Vec<(String, String)> {
        let map = self.lay(selection).unwrap();
        map.rails.into_iter().map(|rail| (rail.a.label, rail.b.label)).collect()
    }
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

fn only(text: &str) -> Option<DeviceFilter> {
    Some(text.parse().unwrap())
}

#[test]
fn soft_rails_go_by_subnet_with_all_that_a_case_needs() {
    let map = Pair::of("rxe").lay(&Selection::default()).unwrap();
    assert_eq!(map.unmatched, []);
    assert_eq!(map.rails.len(), 2);
    let rail = &map.rails[1];
    assert_eq!((rail.a.label.as_str(), rail.b.label.as_str()), ("a/rxe1:1", "b/rxe1:1"));
    assert_eq!((rail.gids.a.index, rail.gids.b.index, rail.mtu.bytes), (1, 1, 4096));
    assert_eq!((rail.speed.timeout(), rail.speed.soft), (18, true));
    assert_eq!(rail.a.addresses, ["10.77.1.1".parse::<IpAddr>().unwrap()]);
    assert!(rail.has_tcp() && rail.warnings.is_empty());
    assert_eq!(rail.max_message_bytes(), Some(8_388_608));
    assert!(rail.why.starts_with("one subnet"), "{}", rail.why);
    let path = rail.path();
    assert_eq!((path.gid_a.as_str(), path.gid_type.as_str()), ("1 ::ffff:10.77.1.1", "RoCE v2"));
}

#[test]
fn the_subnet_beats_the_order() {
    let mut pair = Pair::of("rxe");
    let ports: Vec<_> =
        pair.b.calls.verbs.devices.iter().map(|d| d.ports[0].gids.clone()).collect();
    pair.b.calls.verbs.devices[0].ports[0].gids = ports[1].clone();
    pair.b.calls.verbs.devices[1].ports[0].gids = ports[0].clone();
    let crossed = pairs(&[("a/rxe0:1", "b/rxe1:1"), ("a/rxe1:1", "b/rxe0:1")]);
    assert_eq!(pair.rails(&Selection::default()), crossed);
}

#[test]
fn infiniband_goes_by_place_and_storage_keeps_to_itself() {
    let map = Pair::of("ndr").lay(&Selection::default()).unwrap();
    let found: Vec<_> = map.rails.iter().map(|rail| rail.a.label.as_str()).collect();
    assert_eq!(found, ["a/mlx5_0:1", "a/mlx5_2:1", "a/mlx5_10:1"], "by PCI address");
    let ib = &map.rails[2];
    assert_eq!(ib.b.label, "b/mlx5_10:1");
    assert_eq!((ib.gids.wire(), ib.gids.grh), (Wire::InfiniBand, false));
    assert_eq!((ib.speed.timeout(), ib.speed.rate_bps), (16, Some(400_000_000_000)));
    assert!(!ib.has_tcp(), "no interface belongs to it");
    let down: Vec<_> = map.unmatched.iter().map(|left| left.object.as_str()).collect();
    assert_eq!(down, ["a/mlx5_2:2", "b/mlx5_2:2"]);
    assert!(map.unmatched[0].why.contains("is DOWN: check the cable"), "{:?}", map.unmatched[0]);
    let mtu = &map.rails[1].warnings;
    assert!(mtu.iter().any(|warning| warning.contains("path MTU 1024 B")), "{mtu:?}");
}

#[test]
fn a_port_that_is_down_does_not_shift_the_others() {
    let mut pair = Pair::of("ndr");
    pair.a.calls.verbs.devices[0].ports[0].state = 1;
    let map = pair.lay(&Selection::default()).unwrap();
    let ib = map.rails.iter().filter(|rail| rail.link_layer == "InfiniBand");
    let ib: Vec<_> = ib.map(|rail| (rail.a.label.as_str(), rail.b.label.as_str())).collect();
    assert_eq!(ib, [("a/mlx5_10:1", "b/mlx5_10:1")]);
    let left = map.unmatched.iter().find(|left| left.object == "b/mlx5_0:1").unwrap();
    assert!(left.why.starts_with("its counterpart cannot be used: a/mlx5_0:1 is DOWN"), "{left:?}");
}

#[test]
fn lists_pair_in_the_order_typed() {
    let selection = Selection {
        devices_a: only("rxe1,rxe0"),
        devices_b: only("rxe1:1,rxe0:1"),
        ..Selection::default()
    };
    let expected = pairs(&[("a/rxe1:1", "b/rxe1:1"), ("a/rxe0:1", "b/rxe0:1")]);
    assert_eq!(Pair::of("rxe").rails(&selection), expected);
}

#[test]
fn one_list_leaves_the_other_end_to_the_subnet() {
    let selection = Selection { devices_a: only("rxe1"), ..Selection::default() };
    let map = Pair::of("rxe").lay(&selection).unwrap();
    assert_eq!((map.rails.len(), map.rails[0].b.label.as_str()), (1, "b/rxe1:1"));
    assert_eq!(map.unmatched.len(), 1);
    assert!(!map.unmatched[0].named, "b/rxe0 was not asked for");
}

#[test]
fn excluded_devices_are_left_out() {
    let except = Some("^rxe0".parse().unwrap());
    let selection =
        Selection { devices_a: except.clone(), devices_b: except, ..Selection::default() };
    assert_eq!(Pair::of("rxe").rails(&selection), pairs(&[("a/rxe1:1", "b/rxe1:1")]));
}

#[test]
fn a_map_overrides_everything() {
    let map = parse_map("rxe0 rxe1\n").unwrap();
    let selection = Selection { map: Some(map), ..Selection::default() };
    let laid = Pair::of("rxe").lay(&selection).unwrap();
    assert_eq!(laid.rails[0].b.label, "b/rxe1:1");
    assert!(laid.rails[0].gids.why.contains("different subnets"));
}

#[test]
fn wrong_names_list_what_exists() {
    let text = |a: &str| {
        let selection = Selection { devices_a: only(a), ..Selection::default() };
        Pair::of("rxe").lay(&selection).unwrap_err().to_string()
    };
    assert_eq!(
        text("mlx5_0"),
        "a has no mlx5_0: it has a/rxe0:1 (Ethernet, ACTIVE), a/rxe1:1 (Ethernet, ACTIVE)"
    );
    assert!(text("rxe0:2").starts_with("a has no rxe0:2"));
    let selection = Selection { devices_a: only("^rxe7"), ..Selection::default() };
    let error = Pair::of("rxe").lay(&selection).unwrap_err();
    assert!(matches!(error, RailError::NothingExcluded { .. }));
}

#[test]
fn a_named_port_that_is_down_is_said_to_be_missed() {
    let mut pair = Pair::of("rxe");
    pair.b.calls.verbs.devices[0].ports[0].state = 1;
    let filter = only("rxe0");
    let selection =
        Selection { devices_a: filter.clone(), devices_b: filter, ..Selection::default() };
    let map = pair.lay(&selection).unwrap();
    assert_eq!((map.rails.len(), map.unmatched.len()), (0, 1));
    assert!(map.unmatched[0].named);
    assert_eq!(map.unmatched[0].object, "a/rxe0:1 with b/rxe0:1");
    assert!(map.unmatched[0].why.contains("ip link set eth0 up"), "{:?}", map.unmatched[0]);
}

#[test]
fn one_machine_twice_meets_itself() {
    let mut pair = Pair::of("rxe");
    pair.b = pair.a.clone();
    let expected = pairs(&[("a/rxe0:1", "b/rxe0:1"), ("a/rxe1:1", "b/rxe1:1")]);
    assert_eq!(pair.rails(&Selection::default()), expected);
}

#[test]
fn ends_without_a_counterpart_say_so() {
    let pair = Pair { a: fixtures::read("rxe-a"), b: HostFacts::default() };
    let map = pair.lay(&Selection::default()).unwrap();
    assert_eq!((map.rails.len(), map.unmatched.len()), (0, 2));
    let other = Pair { a: fixtures::read("ndr-a"), b: fixtures::read("rxe-b") };
    let map = other.lay(&Selection::default()).unwrap();
    let left = map.unmatched.iter().find(|left| left.object == "a/mlx5_0:1").unwrap();
    assert_eq!(left.why, "no usable InfiniBand port on b");
}

#[test]
fn different_mtus_work_at_the_smaller_with_a_warning() {
    let mut pair = Pair::of("rxe");
    pair.b.calls.verbs.devices[0].ports[0].active_mtu = 3;
    let map = pair.lay(&Selection::default()).unwrap();
    assert_eq!(map.rails[0].mtu.bytes, 1024);
    assert!(map.rails[0].warnings[0].starts_with("MTUs differ: a/rxe0:1 has 4096 B"));
}

#[test]
fn a_data_address_binds_one_rail_only() {
    let pair = Pair::of("rxe");
    let hosts = (facts::host("a", &pair.a), facts::host("b", &pair.b));
    let data_address = Some("10.77.0.1".parse().unwrap());
    let a = Party { facts: &pair.a, host: &hosts.0, data_address };
    let b = Party { facts: &pair.b, host: &hosts.1, data_address: None };
    let map = match_rails(&a, &b, &Selection::default()).unwrap();
    assert_eq!(map.rails.len(), 2);
    assert!(map.rails[0].gids.why.contains("10.77.0.1 of a/rxe0:1 asked for"));
    assert!(!map.rails[1].gids.why.contains("asked for"));
}

#[test]
fn without_any_rail_the_report_says_what_is_missing() {
    let bare = HostFacts::default();
    let host = facts::host("local", &bare);
    let party = Party { facts: &bare, host: &host, data_address: None };
    let map = match_rails(&party, &party, &Selection::default()).unwrap();
    let missing = map.no_rdma(&party, &party).unwrap();
    assert!(missing.asked);
    assert_eq!(missing.why.matches("the kernel has no RDMA support").count(), 1, "{}", missing.why);
    assert!(missing.why.ends_with("or measure the TCP baseline alone with --transport tcp"));

    let mut pair = Pair::of("rxe");
    for device in &mut pair.b.calls.verbs.devices {
        device.ports[0].state = 1;
    }
    let hosts = (facts::host("a", &pair.a), facts::host("b", &pair.b));
    let a = Party { facts: &pair.a, host: &hosts.0, data_address: None };
    let b = Party { facts: &pair.b, host: &hosts.1, data_address: None };
    let map = match_rails(&a, &b, &Selection::default()).unwrap();
    assert!(map.no_rdma(&a, &b).unwrap().why.contains("b/rxe0:1 is DOWN"));
    assert_eq!(map.not_measured().len(), 4);
    let laid = Pair::of("rxe").lay(&Selection::default()).unwrap();
    assert_eq!(laid.no_rdma(&a, &b), None);
}
