//! Each check with what makes it pass, fail and unknown.

use super::hosts::of_site;
use super::*;

/// The check of a host from a tree with some edits; the object ends with `object`.
fn seen(tree: &str, edits: &[&str], id: &str, object: &str) -> Check {
    let mut facts = fixtures::asked(tree);
    edits.iter().for_each(|line| fixtures::edit(&mut facts, line));
    let checks = of_site(&[facts]);
    let mut found = checks.iter().filter(|c| c.id == id && c.object.ends_with(object));
    found.next().unwrap_or_else(|| panic!("no {id} {object}")).clone()
}

/// Tree, check, object; then edits with the status and words of what is found.
type Case<'a> = (&'a str, &'a str, &'a str, &'a [(&'a [&'a str], Status, &'a str)]);

const PCI: &str = "/sys/bus/pci/devices/0000:18:00.0";

fn judge(cases: &[Case]) {
    for (tree, id, object, variants) in cases {
        for (edits, status, words) in *variants {
            let check = seen(tree, edits, id, object);
            assert_eq!(check.status, *status, "{edits:?}: {check:#?}");
            assert!(check.found.contains(words), "{words:?}: {check:#?}");
            let to_do = matches!(status, Status::Fail | Status::Warn);
            assert_eq!(to_do, !check.remedy.is_empty(), "{check:#?}");
        }
        let has = |wanted| variants.iter().any(|(_, status, _)| *status == wanted);
        assert!(has(Status::Unknown), "{id}: no case of what cannot be seen");
    }
}

use Status::{Fail, NotApplicable, Pass, Unjudged, Unknown, Warn};

#[test]
fn slots() {
    let no_link: &[&str] = &["- /sys/bus/pci/devices/0000:18:00.0/current_link_speed"];
    judge(&[
        (
            "ndr",
            "pcie-link",
            "mlx5_0",
            &[
                (&[], Pass, "Gen5 x16 at 0000:18:00.0"),
                (
                    &["/sys/bus/pci/devices/0000:18:00.0/current_link_width = 8"],
                    Fail,
                    "Gen5 x8 at 0000:18:00.0, downtrained",
                ),
                (no_link, Unknown, "cannot be read"),
                (&["- /sys/bus/pci/devices/0000:18:00.0/max_link_width"], Unknown, "max_link"),
            ],
        ),
        (
            "ndr-gen4",
            "pcie-link",
            "mlx5_0",
            &[
                (&[], Pass, "though the card is Gen5 x16: the slot is the smaller"),
                (no_link, Unknown, ""),
            ],
        ),
        (
            "ndr",
            "pcie-rate",
            "mlx5_0",
            &[
                (&[], Pass, "Gen5 x16 at 0000:15:01.0 carries 460.9 Gb/s (payload 256 B), 115.2 %"),
                (
                    &["/sys/bus/pci/devices/0000:18:00.0/current_link_speed = 16.0 GT/s PCIe"],
                    Fail,
                    "Gen4 x16 at 0000:18:00.0 carries 230.5 Gb/s (payload 256 B), 57.6 %",
                ),
                (no_link, Unknown, "cannot be read"),
            ],
        ),
        (
            "ndr",
            "pcie-payload",
            "mlx5_0",
            &[
                (&[], Pass, "256 B"),
                (&["/sys/bus/pci/devices/0000:18:00.0/config = 00"], Unknown, "needs root"),
            ],
        ),
        (
            "ndr",
            "relaxed-ordering",
            "mlx5_1",
            &[
                (&[], Pass, "allowed"),
                (&["- /sys/bus/pci/devices/0000:b2:00.0/config"], Unknown, "needs root"),
            ],
        ),
        (
            "ndr",
            "pcie-read-request",
            "mlx5_1",
            &[
                (&[], Pass, "4096 B"),
                (&["- /sys/bus/pci/devices/0000:b2:00.0/config"], Unknown, "needs root"),
            ],
        ),
        (
            "ndr",
            "pcie-errors",
            "mlx5_0",
            &[
                (&[], Pass, "none"),
                (
                    &[
                        "/sys/class/infiniband/mlx5_0/device/aer_dev_fatal = DLP 2; TOTAL_ERR_FATAL 2",
                    ],
                    Warn,
                    "2 fatal",
                ),
                (
                    &[
                        "/sys/class/infiniband/mlx5_0/device/aer_dev_correctable = RxErr 7; TOTAL_ERR_COR 7",
                    ],
                    Unjudged,
                    "7 correctable",
                ),
                (&["- /sys/class/infiniband/mlx5_0/device/aer_dev_fatal"], Unknown, "is not there"),
            ],
        ),
        (
            "ndr",
            "numa",
            "mlx5_1",
            &[
                (&[], Pass, "node 1, 2 of its 2 processors allowed"),
                (&["/sys/devices/system/node/node1/cpulist = 40-79"], Warn, "0 of its 40"),
                (
                    &["/sys/class/infiniband/mlx5_1/device/numa_node = -1"],
                    Unknown,
                    "numa_node is -1",
                ),
            ],
        ),
    ]);
}

/// Configuration space with a device control register.
fn config(payload: u8, read_request: u8, relaxed: bool) -> String {
    let mut space = [0_u8; 128];
    (space[0x34], space[0x60]) = (0x60, 0x10);
    space[0x68] = payload << 5 | u8::from(relaxed) << 4;
    space[0x69] = read_request << 4;
    let hex: String = space.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{PCI}/config = {hex}")
}

#[test]
fn the_device_control_register_is_judged() {
    let of = |line: &str, id: &str| seen("ndr", &[line], id, "mlx5_0");
    let small = of(&config(0, 0, false), "pcie-payload");
    assert_eq!(
        (small.status, small.found.as_str()),
        (Warn, "128 B: headers take 16 % of the slot")
    );
    assert_eq!(of(&config(2, 5, true), "pcie-payload").found, "512 B, but 256 B at 0000:15:01.0");
    let order = of(&config(1, 5, false), "relaxed-ordering");
    assert_eq!(order.status, Warn);
    assert!(order.remedy.contains("needs root"), "{order:?}");
    assert_eq!(of(&config(1, 1, true), "pcie-read-request").status, Warn);
    assert_eq!(of(&config(1, 2, true), "pcie-read-request").status, Unjudged);
}

#[test]
fn links() {
    judge(&[
        (
            "ndr",
            "link-width",
            "mlx5_0:1",
            &[
                (&[], Pass, "4x NDR = 400.0 Gb/s"),
                (
                    &["/sys/class/infiniband/mlx5_0/ports/1/rate = 200 Gb/sec (4X HDR)"],
                    Fail,
                    "while a/mlx5_1:1 has 400.0 Gb/s",
                ),
                (&["/sys/class/infiniband/mlx5_0/ports/1/rate = odd"], Unknown, "not known"),
            ],
        ),
        (
            "ndr",
            "link-errors",
            "mlx5_0:1",
            &[
                (&[], Pass, "none"),
                (
                    &["/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error = 65535"],
                    Warn,
                    "symbol_error 65535 (stopped counting)",
                ),
                (
                    &["/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed ! 22"],
                    Unknown,
                    "1 of 8 counters",
                ),
            ],
        ),
        (
            "ndr",
            "subnet-manager",
            "mlx5_0:1",
            &[
                (&[], Pass, "LID 11, manager at LID 1"),
                (
                    &["/sys/class/infiniband/mlx5_0/ports/1/sm_lid = 0x0"],
                    Fail,
                    "none has configured",
                ),
                (&["- /sys/class/infiniband/mlx5_0/ports/1/lid"], Unknown, "is not there"),
            ],
        ),
        (
            "ndr",
            "pkey",
            "mlx5_0:1",
            &[
                (&[], Pass, "0xffff"),
                (&["/sys/class/infiniband/mlx5_0/ports/1/pkeys/0 = 0x7fff"], Warn, "limited"),
                (&["/sys/class/infiniband/mlx5_0/ports/1/pkeys/0 = 0x0000"], Fail, "none"),
                (&["- /sys/class/infiniband/mlx5_0/ports/1/pkeys/0"], Unknown, "is not there"),
            ],
        ),
        (
            "roce400",
            "flaps",
            "mlx5_0:1",
            &[
                (&[], Pass, "2 changes"),
                (&["/sys/class/net/ens1np0/carrier_changes = 31"], Warn, "31 times"),
                (&["- /sys/class/net/ens1np0/carrier_changes"], Unknown, "is not there"),
            ],
        ),
        (
            "roce400",
            "port-mtu",
            "mlx5_0:1",
            &[
                (&[], Pass, "4096 B"),
                (&["/sys/class/net/ens1np0/mtu = 1500"], Warn, "1024 B: 4096 B carries 5.9 % more"),
                (&["- /sys/class/net/ens1np0/mtu"], Unknown, "active MTU"),
            ],
        ),
        (
            "roce400",
            "fec",
            "mlx5_0:1",
            &[
                (&[], Pass, "RS"),
                (&["tool ethtool --show-fec ens1np0 = Active FEC encoding: Off"], Warn, "off"),
                (&["- tool ethtool", "- tool mlxlink"], Unknown, "was not run"),
            ],
        ),
        (
            "roce400",
            "module",
            "mlx5_0:1",
            &[
                (&[], Pass, "temperature 44.20 degrees C"),
                (
                    &["tool ethtool -m ens1np0 = Module temperature high alarm : On"],
                    Fail,
                    "module temperature high alarm",
                ),
                (
                    &[
                        "tool ethtool -m ens1np0 = Transmitter technology : 0xa0 (Copper cable unequalized)",
                    ],
                    NotApplicable,
                    "copper",
                ),
                (&["- tool ethtool", "- tool mlxlink"], Unknown, "was not run"),
            ],
        ),
        (
            "ndr",
            "bit-errors",
            "mlx5_0:1",
            &[
                (&[], Pass, "raw 5e-9"),
                (
                    &[
                        "tool mlxlink -d 0000:18:00.0 -p 1 -m -c = Effective Physical BER : 15E-255; Raw Physical BER : 3E-6",
                    ],
                    Warn,
                    "raw 3e-6",
                ),
                (
                    &[
                        "tool mlxlink -d 0000:18:00.0 -p 1 -m -c = Effective Physical BER : 2E-9; Raw Physical BER : 3E-5",
                    ],
                    Fail,
                    "after correction 2e-9",
                ),
                (&["- tool mlxlink"], Unknown, "was not run"),
            ],
        ),
    ]);
}

#[test]
fn lossless_settings() {
    judge(&[
        (
            "roce400",
            "pfc",
            "mlx5_0:1",
            &[
                (&[], Pass, "priority 3"),
                (&["tool dcb pfc show dev ens1np0 = prio-pfc 0:off 3:off"], Warn, "loses packets"),
                (&["tool dcb pfc show dev ens1np0 = prio-pfc 3:on 4:on"], Warn, "priorities 3, 4"),
                (&["- tool dcb"], Unknown, "was not run"),
            ],
        ),
        (
            "roce400",
            "trust",
            "mlx5_0:1",
            &[
                (&[], Pass, "dscp"),
                (&["tool dcb apptrust show dev ens1np0 = order: pcp"], Warn, "not dscp"),
                (&["- tool dcb"], Unknown, "was not run"),
            ],
        ),
        (
            "roce400",
            "ecn",
            "mlx5_0:1",
            &[
                (&[], Pass, "on for 3"),
                (&["/sys/class/net/ens1np0/ecn/roce_rp/enable/3 = 0"], Warn, "sender off"),
                (&["- /sys/class/net/ens1np0/ecn"], Unknown, "is not there"),
            ],
        ),
        (
            "roce400",
            "traffic-class",
            "mlx5_0:1",
            &[
                (&[], Pass, "106 (DSCP 26, priority 3)"),
                (
                    &["/sys/class/infiniband/mlx5_0/tc/1/traffic_class = "],
                    Warn,
                    "PFC is on priority 3",
                ),
                (&["- /sys/class/infiniband/mlx5_0/tc"], Unknown, "is not there"),
            ],
        ),
        (
            "roce400",
            "pause",
            "mlx5_0:1",
            &[
                (&[], Pass, "off"),
                (&["tool ethtool -a ens1np0 = RX: on; TX: on"], Warn, "receiving on"),
                (&["- tool ethtool"], Unknown, "was not run"),
            ],
        ),
    ]);
}

#[test]
fn hosts_themselves() {
    judge(&[
        (
            "ndr",
            "iommu",
            "a",
            &[
                (&[], Pass, "identity"),
                (&["/sys/kernel/iommu_groups/11/type = DMA-FQ"], Warn, "translates DMA"),
                (&["- /sys/kernel/iommu_groups"], Unknown, "no adapter"),
            ],
        ),
        (
            "ndr",
            "governor",
            "a",
            &[
                (&[], Pass, "performance on 4"),
                (
                    &["/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor = powersave"],
                    Warn,
                    "powersave on 1",
                ),
                (&["- /sys/devices/system/cpu/cpu2/cpufreq"], Unknown, "cpu2"),
            ],
        ),
        (
            "ndr",
            "idle-states",
            "a",
            &[
                (&[], Pass, "C1, 2 µs"),
                (
                    &["/sys/devices/system/cpu/cpu0/cpuidle/state1/latency = 133"],
                    Unjudged,
                    "133 µs",
                ),
                (&["- /sys/devices/system/cpu/cpu0/cpuidle"], Unknown, "is not there"),
            ],
        ),
        (
            "ndr",
            "clock",
            "a",
            &[
                (&[], Pass, "tsc"),
                (
                    &["/sys/devices/system/clocksource/clocksource0/current_clocksource = hpet"],
                    Warn,
                    "hpet",
                ),
                (&["- /sys/devices/system/clocksource"], Unknown, "is not there"),
            ],
        ),
        (
            "ndr",
            "services",
            "a",
            &[
                (&[], Unjudged, "chronyd"),
                (&["/proc/900/comm = irqbalance"], Unjudged, "irqbalance, chronyd"),
                (&["- /proc/1/comm"], Unknown, "not looked at"),
            ],
        ),
        (
            "ndr",
            "numa-balancing",
            "a",
            &[
                (&[], Pass, "off"),
                (&["/proc/sys/kernel/numa_balancing = 1"], Warn, "moves pages"),
                (&["- /proc/sys/kernel/numa_balancing"], Unknown, "is not there"),
            ],
        ),
        (
            "ndr",
            "zone-reclaim",
            "a",
            &[
                (&[], Pass, "off"),
                (&["/proc/sys/vm/zone_reclaim_mode = 1"], Warn, "stalls"),
                (&["- /proc/sys/vm"], Unknown, "is not there"),
            ],
        ),
        (
            "ndr",
            "huge-pages",
            "a",
            &[
                (
                    &["/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages = 512"],
                    Unjudged,
                    "madvise; reserved: 512 of 2048kB",
                ),
                (&["- /sys/kernel/mm/transparent_hugepage"], Unknown, "is not there"),
            ],
        ),
        (
            "ndr",
            "kernel-log",
            "a",
            &[
                (&[], Pass, "nothing"),
                (
                    &[
                        "tool dmesg = pci 0000:18:00.0: 252.048 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x16 link",
                    ],
                    Warn,
                    "narrower or slower",
                ),
                (&["- tool dmesg"], Unknown, "was not run"),
            ],
        ),
        (
            "ndr",
            "foreign-load",
            "a",
            &[
                (&[], Pass, "none"),
                (
                    &["/proc/77/comm = python3", "/proc/77/fd/9 -> /dev/infiniband/uverbs0"],
                    Warn,
                    "python3 (77)",
                ),
                (&["/proc/77/fd ! 13"], Unknown, "needs root"),
            ],
        ),
        (
            "ndr",
            "umad",
            "a",
            &[
                (&[], Pass, "2 nodes"),
                (&["/dev/infiniband / uverbs0"], Warn, "none"),
                (&["- /dev/infiniband"], Unknown, "is not there"),
            ],
        ),
    ]);
}

#[test]
fn rails_in_one_subnet_need_their_own_answers() {
    let with = |prefix: u8, edits: &[&str]| {
        let mut facts = fixtures::asked("roce400");
        edits.iter().for_each(|line| fixtures::edit(&mut facts, line));
        for (netdev, last) in [("ens1np0", 1), ("ens2np0", 2)] {
            facts.calls.addresses.push(crate::snapshot::InterfaceAddress {
                netdev: netdev.into(),
                address: std::net::Ipv4Addr::new(10, 0, last - 1, last).into(),
                prefix_len: prefix,
            });
        }
        let checks = of_site(&[facts]);
        find(&checks, "rail-routing", "a").clone()
    };
    assert_eq!(with(24, &[]).status, Pass, "a subnet each");
    assert_eq!(with(16, &[]).status, Pass, "one subnet, set up for it");
    let ignore = "/proc/sys/net/ipv4/conf/ens1np0/arp_ignore = 0";
    let wrong = with(16, &[ignore]);
    assert_eq!(
        (wrong.status, wrong.found.as_str()),
        (Warn, "ens1np0, ens2np0 share 10.0.0.0/16: ens1np0 arp_ignore 0")
    );
    assert_eq!(with(16, &["- /proc/sys/net"]).status, Unknown);
}

/// What two hosts have in common, with a rail between their first adapters.
fn shared(tree: &str, link_layer: &str, edits: &[&str]) -> Vec<Check> {
    let (a, mut b) = (fixtures::asked(tree), fixtures::asked(tree));
    edits.iter().for_each(|line| fixtures::edit(&mut b, line));
    let hosts = (facts::host("a", &a), facts::host("b", &b));
    let a = Party { facts: &a, host: &hosts.0, data_address: None };
    let b = Party { facts: &b, host: &hosts.1, data_address: None };
    let (c, d) = pair("ndr");
    let known = (facts::host("a", &c), facts::host("b", &d));
    let c = Party { facts: &c, host: &known.0, data_address: None };
    let d = Party { facts: &d, host: &known.1, data_address: None };
    let mut rails = match_rails(&c, &d, &Selection::default()).unwrap().rails;
    rails.retain(|rail| rail.a.device == "mlx5_0");
    rails.iter_mut().for_each(|rail| rail.link_layer = link_layer.into());
    both::checks(&a, &b, &rails)
}

#[test]
fn both_hosts_are_held_against_each_other() {
    let slow = "/sys/class/infiniband/mlx5_0/ports/1/rate = 200 Gb/sec (2X NDR)";
    let cases: [(&str, &[&str], Status); 13] = [
        ("firmware-same", &[], Pass),
        ("firmware-same", &["/sys/class/infiniband/mlx5_1/fw_ver = 28.36.1010"], Warn),
        ("firmware-same", &["- /sys/class/infiniband/mlx5_1/fw_ver"], Unknown),
        ("driver-same", &[], Pass),
        ("driver-same", &["/sys/module/mlx5_core/version = 5.8"], Warn),
        ("driver-same", &["- /sys/module"], Unknown),
        ("kernel-same", &[], Pass),
        ("rail-rate", &[], Pass),
        ("rail-rate", &[slow], Warn),
        ("rail-rate", &["- /sys/class/infiniband/mlx5_0/ports/1/rate"], Unknown),
        ("subnet-same", &[], Pass),
        ("subnet-same", &["/sys/class/infiniband/mlx5_0/ports/1/sm_lid = 0x7"], Warn),
        ("subnet-same", &["- /sys/class/infiniband/mlx5_0/ports/1/sm_lid"], Unknown),
    ];
    for (id, edits, status) in cases {
        let checks = shared("ndr", "InfiniBand", edits);
        let check = find(&checks, id, "");
        assert_eq!(check.status, status, "{edits:?}: {check:#?}");
    }
}

#[test]
fn lossless_settings_must_be_the_same_at_both_ends() {
    let with = |edits: &[&str]| {
        find(&shared("roce400", "Ethernet", edits), "lossless-same", "mlx5_0").clone()
    };
    assert_eq!(with(&[]).status, Pass);
    let wrong = with(&["tool dcb apptrust show dev ens1np0 = order: pcp"]);
    assert_eq!((wrong.status, wrong.found.as_str()), (Warn, "trust differ"));
    assert_eq!(with(&["- tool ethtool"]).status, Unknown);
}

#[test]
fn two_halves_of_one_board_carry_together() {
    let half = |edits: &[&str]| {
        let mut all = vec![
            "/sys/bus/pci/devices/0000:18:00.0/current_link_width = 8",
            "/sys/bus/pci/devices/0000:b2:00.0/current_link_width = 8",
        ];
        all.extend(edits);
        seen("ndr", &all, "pcie-rate", "mlx5_0")
    };
    assert_eq!(half(&[]).status, Fail);
    let joined = half(&["/sys/class/infiniband/mlx5_1/sys_image_guid = a088:c203:0000:0100"]);
    assert_eq!(joined.status, Pass, "{joined:#?}");
    assert!(joined.found.contains("with 1 more of one board carries 460.9 Gb/s"), "{joined:#?}");
}
