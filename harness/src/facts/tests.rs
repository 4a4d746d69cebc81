use fabbench_reports::model::Device;

use super::*;
use crate::fixtures;
use crate::snapshot::{Entry, VerbsProblem};

fn device_of<'a>(host: &'a Host, name: &str) -> &'a Device {
    host.devices.iter().find(|device| device.name == name).unwrap()
}

#[test]
fn soft_roce_is_known_without_a_device_link() {
    let host = host("node-a", &fixtures::read("rxe-a"));
    assert_eq!(
        (host.name.as_str(), host.os.as_str()),
        ("node-a", "Debian GNU/Linux 12 (bookworm)")
    );
    assert_eq!(host.limits["memlock_bytes"], 8_388_608);
    let device = device_of(&host, "rxe1");
    assert!(device.soft && device.unusable.is_none());
    assert_eq!(device.driver, "rdma_rxe");
    assert_eq!(device.pci.as_deref(), Some("0000:00:04.0"));
    assert_eq!(device.numa_node, None, "-1 is unknown");
    let port = &device.ports[0];
    assert_eq!((port.state.as_str(), port.rate_bps), ("ACTIVE", None), "soft: no line rate");
    assert_eq!((port.netdev.as_deref(), port.netdev_mtu), (Some("eth1"), Some(9000)));
    assert_eq!((port.active_mtu, port.max_mtu), (4096, 4096));
    assert_eq!(port.gids[1].gid, "::ffff:10.77.1.1");
    assert_eq!(port.gids[1].kind, "RoCE v2");
}

#[test]
fn adapters_show_rate_place_and_firmware() {
    let host = host("gpu01", &fixtures::read("ndr-a"));
    let names: Vec<_> = host.devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["mlx5_0", "mlx5_2", "mlx5_10"], "digits count by value");
    let device = device_of(&host, "mlx5_10");
    assert_eq!(device.driver, "mlx5_core");
    assert_eq!((device.firmware.as_str(), device.board.as_str()), ("28.39.1002", "MT_0000000838"));
    assert_eq!((device.pci.as_deref(), device.numa_node), (Some("0000:c1:00.0"), Some(1)));
    let port = &device.ports[0];
    assert_eq!((port.width.as_str(), port.speed.as_str()), ("4x", "NDR"));
    assert_eq!((port.rate_bps, port.lid), (Some(400_000_000_000), 12));
    let storage = device_of(&host, "mlx5_2");
    assert_eq!(storage.ports[0].netdev.as_deref(), Some("ens3f0"));
    assert_eq!(storage.ports[1].netdev.as_deref(), Some("ens3f1"), "by dev_port");
    assert_eq!(storage.ports[1].state, "DOWN");
    assert_eq!(storage.ports[1].rate_bps, None, "a down port's rate is stale");
}

#[test]
fn sysfs_alone_lists_the_device_and_says_why_it_is_unusable() {
    let mut facts = fixtures::read("rxe-a");
    facts.calls.verbs = Default::default();
    facts.calls.verbs.problem =
        Some(VerbsProblem { kind: "library-absent".into(), text: String::new() });
    let host = host("a", &facts);
    let device = device_of(&host, "rxe0");
    assert!(device.soft);
    assert_eq!(device.ports[0].state, "ACTIVE");
    assert!(device.unusable.as_deref().unwrap().contains("apt install rdma-core"));
    assert!(rdma_problem(&facts).unwrap().starts_with("libibverbs.so.1 is not installed"));
}

#[test]
fn sysfs_gids_need_no_library() {
    let mut facts = fixtures::read("rxe-a");
    facts.calls.verbs.devices.clear();
    let root = "/sys/class/infiniband/rxe0/ports/1";
    let mut put =
        |path: &str, entry| facts.snapshot.entries.insert(format!("{root}/{path}"), entry);
    put("gids/0", Entry::Error(22));
    put("gids/1", Entry::Text("0000:0000:0000:0000:0000:0000:0000:0000\n".into()));
    put("gids/18", Entry::Text("0000:0000:0000:0000:0000:ffff:0a4d:0001\n".into()));
    put("gid_attrs/types/1", Entry::Text("RoCE v2\n".into()));
    put("gid_attrs/types/18", Entry::Text("RoCE v2\n".into()));
    let table = gid_table(&facts, "rxe0", 1);
    assert_eq!(table.len(), 1, "unreadable and all-zero entries are skipped");
    assert_eq!((table[0].index, table[0].gid.to_string().as_str()), (18, "::ffff:10.77.0.1"));
}

#[test]
fn verbs_alone_is_enough() {
    let mut facts = fixtures::read("ndr-a");
    facts.snapshot = Default::default();
    let host = host("a", &facts);
    let port = &device_of(&host, "mlx5_0").ports[0];
    assert_eq!((port.rate_bps, port.link_layer.as_str()), (Some(400_000_000_000), "InfiniBand"));
    assert_eq!(device_of(&host, "mlx5_0").guid, "a088:c203:0000:0100");
    assert_eq!(rdma_problem(&facts), None);
}

#[test]
fn a_closed_device_node_is_named_with_the_fix() {
    let mut facts = fixtures::read("rxe-a");
    for device in &mut facts.calls.verbs.devices {
        device.open_error = Some((13, "Permission denied".into()));
    }
    let host = host("a", &facts);
    let text = device_of(&host, "rxe1").unusable.as_deref().unwrap();
    assert!(text.contains("/dev/infiniband/uverbs1: Permission denied"), "{text}");
    assert!(text.contains("run as root"), "{text}");
    assert_eq!(rdma_problem(&facts).as_deref(), host.devices[0].unusable.as_deref());
}

#[test]
fn each_problem_is_a_sentence_of_its_own() {
    let kinds =
        ["library-absent", "library-unusable", "kernel-absent", "provider-absent", "no-device"];
    let texts: BTreeSet<_> = kinds.into_iter().map(standard_text).collect();
    assert_eq!(texts.len(), kinds.len());
    let bare = HostFacts::default();
    assert_eq!(host("a", &bare).rdma_core, rdma_problem(&bare).unwrap());
    assert!(rdma_problem(&bare).unwrap().starts_with("the kernel has no RDMA support"));
}

#[test]
fn the_interface_overrules_a_fallback_link_mode() {
    let mut facts = fixtures::read("ndr-a");
    let port = &mut facts.calls.verbs.devices[2].ports[0];
    (port.active_width, port.active_speed) = (2, 4);
    let host = host("a", &facts);
    assert_eq!(device_of(&host, "mlx5_2").ports[0].rate_bps, Some(25_000_000_000));
}

#[test]
fn machines_are_told_apart() {
    let (a, b) = (fixtures::read("rxe-a"), fixtures::read("rxe-b"));
    assert!(same_machine(&a, &a));
    assert!(!same_machine(&a, &b));
    let mut namesake = b.clone();
    namesake.calls.hostname = a.calls.hostname.clone();
    assert!(!same_machine(&a, &namesake), "another boot id");
    let (c, d) = (fixtures::read("ndr-a"), fixtures::read("ndr-b"));
    assert!(same_machine(&c, &c) && !same_machine(&c, &d), "without a boot id");
}

#[test]
fn message_limits_come_from_the_port() {
    let facts = fixtures::read("rxe-a");
    assert_eq!(max_message_bytes(&facts, "rxe0", 1), Some(8_388_608));
    assert_eq!(max_message_bytes(&facts, "rxe0", 2), None);
}
