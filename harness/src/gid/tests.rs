use super::*;
use GidKind::{Ib, RoceV1, RoceV2};

fn entry(index: u32, kind: GidKind, gid: &str) -> GidFact {
    let gid = match gid.parse::<IpAddr>().unwrap() {
        IpAddr::V4(ipv4) => ipv4.to_ipv6_mapped(),
        IpAddr::V6(ipv6) => ipv6,
    };
    GidFact { index, gid, kind, netdev: None }
}

fn end<'a>(name: &'a str, gids: &'a [GidFact]) -> GidEnd<'a> {
    GidEnd { name, gids, addresses: &[], wanted: None, forced: None }
}

fn indexes(a: &[GidFact], b: &[GidFact]) -> (u32, u32) {
    let pair = choose(&end("a/d:1", a), &end("b/d:1", b)).unwrap();
    (pair.a.index, pair.b.index)
}

fn classic(host: u8) -> Vec<GidFact> {
    let (local, ipv4) = (format!("fe80::{host}"), format!("192.168.1.{host}"));
    vec![
        entry(0, RoceV1, &local),
        entry(1, RoceV2, &local),
        entry(2, RoceV1, &ipv4),
        entry(3, RoceV2, &ipv4),
    ]
}

#[test]
fn classic_table_gives_v2_ipv4() {
    let pair = choose(&end("a/d:1", &classic(1)), &end("b/d:1", &classic(2))).unwrap();
    assert_eq!((pair.a.index, pair.b.index, pair.kind, pair.grh), (3, 3, RoceV2, true));
    assert!(pair.same_subnet && pair.warnings.is_empty());
    assert_eq!(pair.why, "RoCE v2, IPv4 addresses of one subnet");
    assert_eq!(pair.wire(), Wire::RoceV2Ipv4);
}

#[test]
fn indexes_may_differ_between_the_hosts() {
    let a = [entry(1, RoceV2, "fe80::1"), entry(3, RoceV2, "10.0.0.1")];
    let b =
        [entry(1, RoceV2, "fe80::2"), entry(3, RoceV1, "10.0.0.2"), entry(5, RoceV2, "10.0.0.2")];
    assert_eq!(indexes(&a, &b), (3, 5));
}

#[test]
fn private_ipv4_beats_link_local() {
    let a = [entry(0, RoceV2, "fe80::1"), entry(1, RoceV2, "10.102.9.101")];
    let b = [entry(0, RoceV2, "fe80::2"), entry(1, RoceV2, "10.102.9.102")];
    assert_eq!(indexes(&a, &b), (1, 1));
}

#[test]
fn unique_local_ipv6_beats_link_local() {
    let a = [entry(0, RoceV2, "fe80::1"), entry(2, RoceV2, "fd93:16d3:59b6::1")];
    let b = [entry(0, RoceV2, "fe80::2"), entry(2, RoceV2, "fd93:16d3:59b6::2")];
    let pair = choose(&end("a/d:1", &a), &end("b/d:1", &b)).unwrap();
    assert_eq!((pair.a.index, pair.b.index), (2, 2));
    assert!(pair.warnings.is_empty());
    assert_eq!(pair.wire(), Wire::RoceV2Ipv6);
}

#[test]
fn containers_may_begin_late() {
    let a = [entry(2, RoceV1, "10.0.0.1"), entry(12, RoceV2, "10.0.0.1")];
    assert_eq!(indexes(&a, &[entry(7, RoceV2, "10.0.0.2")]), (12, 7));
    let late = |last: u8| [entry(18, RoceV2, &format!("10.0.0.{last}"))];
    assert_eq!(indexes(&late(1), &late(2)), (18, 18));
}

#[test]
fn an_all_zero_table_is_an_error_that_asks_the_right_question() {
    let a = [entry(0, RoceV2, "::")];
    let error = choose(&end("pod/mlx5_0:1", &a), &end("b/d:1", &classic(2))).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("pod/mlx5_0:1 has no usable GID (netns? no IP?)"), "{text}");
}

#[test]
fn only_v1_works_with_a_warning() {
    let a = [entry(0, RoceV1, "10.0.0.1")];
    let b = [entry(4, RoceV1, "10.0.0.2"), entry(5, RoceV2, "fe80::2")];
    let pair = choose(&end("a/d:1", &a), &end("b/d:1", &b)).unwrap();
    assert_eq!((pair.a.index, pair.b.index, pair.type_words()), (0, 4, "RoCE v1"));
    assert!(pair.warnings[0].starts_with("RoCE v1"));
}

#[test]
fn v2_ipv6_beats_v1_ipv4() {
    let table = |host: u8| {
        [
            entry(0, RoceV1, &format!("10.0.0.{host}")),
            entry(1, RoceV2, &format!("2001:db8::{host}")),
        ]
    };
    assert_eq!(indexes(&table(1), &table(2)), (1, 1));
}

#[test]
fn v2_link_local_is_taken_last_and_warned_of() {
    let a = [entry(0, RoceV1, "10.0.0.1"), entry(1, RoceV2, "fe80::1")];
    let b = [entry(0, RoceV1, "10.0.0.2"), entry(1, RoceV2, "fe80::2")];
    let pair = choose(&end("a/d:1", &a), &end("b/d:1", &b)).unwrap();
    assert_eq!((pair.a.index, pair.kind), (1, RoceV2));
    assert!(!pair.same_subnet);
    assert!(pair.warnings[0].contains("link-local, not routable"));
}

#[test]
fn of_several_vlans_the_one_that_reaches_the_peer_is_taken() {
    let mut a = [entry(3, RoceV2, "10.1.0.1"), entry(5, RoceV2, "10.2.0.1")];
    a[1].netdev = Some("eth0.20".into());
    assert_eq!(indexes(&a, &[entry(3, RoceV2, "10.2.0.2")]), (5, 3));
}

#[test]
fn the_hosts_own_prefix_decides_what_a_subnet_is() {
    let address = |text: &str, prefix_len| InterfaceAddress {
        netdev: "eth0".into(),
        address: text.parse().unwrap(),
        prefix_len,
    };
    let a = [entry(1, RoceV2, "10.0.0.1")];
    let b = [entry(1, RoceV2, "10.0.1.2")];
    let wide = ([address("10.0.0.1", 16)], [address("10.0.1.2", 16)]);
    let with = |left, right| {
        let a = GidEnd { addresses: left, ..end("a/d:1", &a) };
        let b = GidEnd { addresses: right, ..end("b/d:1", &b) };
        choose(&a, &b).unwrap().same_subnet
    };
    let narrow = [address("10.0.1.2", 24)];
    assert!(with(&wide.0, &wide.1));
    assert!(!with(&wide.0, &narrow), "the narrower one decides");
    assert!(!with(&[], &[]));
}

#[test]
fn soft_roce_takes_its_ipv4_entry() {
    let a = [entry(0, RoceV2, "fe80::1"), entry(1, RoceV2, "10.77.0.1")];
    let b = [entry(0, RoceV2, "fe80::2"), entry(1, RoceV2, "10.77.0.2")];
    assert_eq!(indexes(&a, &b), (1, 1));
}

#[test]
fn infiniband_goes_by_lid_within_a_subnet_and_by_route_header_across() {
    let a = [entry(0, Ib, "fe80::a088:c203:0:1")];
    let near = choose(&end("a/d:1", &a), &end("b/d:1", &[entry(0, Ib, "fe80::2")])).unwrap();
    assert_eq!((near.grh, near.type_words(), near.wire()), (false, "IB LID", Wire::InfiniBand));
    let far = [entry(0, Ib, "fec0:0:0:1::2")];
    let far = choose(&end("a/d:1", &a), &end("b/d:1", &far)).unwrap();
    assert_eq!((far.grh, far.type_words(), far.wire()), (true, "IB GRH", Wire::InfiniBandGrh));
}

#[test]
fn a_forced_index_is_honoured_and_said() {
    let (a, b) = (classic(1), classic(2));
    let forced = GidEnd { forced: Some(0), ..end("a/d:1", &a) };
    let pair = choose(&forced, &end("b/d:1", &b)).unwrap();
    assert_eq!((pair.a.index, pair.b.index, pair.kind), (0, 0, RoceV1));
    assert!(pair.why.contains("index 0 of a/d:1 forced by the user"), "{}", pair.why);
    assert!(!pair.why.contains("nothing better"), "{}", pair.why);
    assert_eq!(pair.warnings.len(), 2, "v1 and link-local: {:?}", pair.warnings);
    let absent = GidEnd { forced: Some(9), ..end("a/d:1", &a) };
    let text = choose(&absent, &end("b/d:1", &b)).unwrap_err().to_string();
    assert!(text.contains("no usable GID at index 9; it has 0 (RoCE v1 fe80::1)"), "{text}");
}

#[test]
fn a_wanted_address_is_honoured() {
    let a = [entry(1, RoceV2, "10.0.0.1"), entry(2, RoceV2, "10.9.0.1")];
    let b = [entry(1, RoceV2, "10.0.0.2")];
    let wants = |text: &str| {
        let wanted = Some(text.parse().unwrap());
        choose(&GidEnd { wanted, ..end("a/d:1", &a) }, &end("b/d:1", &b))
    };
    assert_eq!(wants("10.9.0.1").unwrap().a.index, 2);
    assert!(matches!(wants("10.8.0.1"), Err(GidError::NoAddress { .. })));
}

#[test]
fn families_do_not_mix() {
    let a = [entry(1, RoceV2, "10.0.0.1")];
    let b = [entry(1, RoceV2, "fd00::1"), entry(2, RoceV1, "10.0.0.2")];
    let error = choose(&end("a/d:1", &a), &end("b/d:1", &b)).unwrap_err();
    assert!(error.to_string().contains("no GIDs of one type and address family"));
}

#[test]
fn path_mtu_is_the_smallest_and_names_the_gain() {
    let names = ["a/d:1", "b/d:1"];
    let of = |active, user| path_mtu(names, active, user, Wire::RoceV2Ipv4);
    assert_eq!(of([4096, 4096], None), PathMtu { bytes: 4096, warnings: vec![] });
    let differ = of([4096, 1024], None);
    assert_eq!(differ.bytes, 1024);
    assert!(differ.warnings[0].starts_with("MTUs differ: a/d:1 has 4096 B, b/d:1 has 1024 B"));
    assert!(differ.warnings[0].contains("up to 5.9 % more"), "{:?}", differ.warnings);
    let small = of([1024, 1024], None);
    assert!(small.warnings[0].contains("interface MTU to 4200"), "{:?}", small.warnings);
    let asked = of([4096, 4096], Some(2000));
    assert_eq!(asked.bytes, 1024);
    assert!(asked.warnings[0].contains("as asked"));
    assert_eq!(of([0, 4096], None).bytes, 1024, "unknown: what every port can");
}

#[test]
fn an_entry_made_from_the_mac_needs_its_address_on_an_interface() {
    let address = |text: &str| InterfaceAddress {
        netdev: "eth0".into(),
        address: text.parse().unwrap(),
        prefix_len: 64,
    };
    let (a, b) = ([entry(0, RoceV2, "fe80::1")], [entry(0, RoceV2, "fe80::2")]);
    let (with, without) = ([address("fe80::1")], [address("10.0.2.15")]);
    let left = GidEnd { addresses: &with, ..end("a/d:1", &a) };
    let right = GidEnd { addresses: &without, ..end("b/d:1", &b) };
    let error = choose(&left, &right).unwrap_err();
    assert_eq!(error, GidError::Empty { port: "b/d:1".into() });
    assert!(error.to_string().contains("no usable GID (netns? no IP?)"), "{error}");
    choose(&left, &GidEnd { forced: Some(0), ..right }).expect("the user may insist");
    choose(&left, &GidEnd { addresses: &[], ..right }).expect("unknown addresses say nothing");
}
