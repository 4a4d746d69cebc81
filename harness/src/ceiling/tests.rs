use super::*;
use crate::line_rate::{Framing, Wire};

fn writes(wire: Wire, mtu: u32) -> Carried {
    let framing = Framing::new(wire);
    Carried::Rdma(Messages { framing, mtu, size_bytes: 65_536, extension_bytes: 16 })
}

fn end(name: &str, gbps: f64, slot: &str, payload: Option<u32>) -> End {
    let line = Line { bps: gbps * 1e9, words: format!("{gbps} Gb/s"), hard: true };
    let link = slot.parse().unwrap();
    let slot = Slot { address: String::new(), link, payload, ports: 1 };
    End { name: name.into(), line: Some(line), slots: vec![slot] }
}

fn scene(wire: Wire, mtu: u32, ends: [End; 2]) -> Scene {
    let [from, to] = ends;
    Scene { carried: writes(wire, mtu), ack_every: None, from, to, declared: vec![] }
}

fn gbps(bps: f64) -> f64 {
    (bps / 1e6).round() / 1e3
}

#[test]
fn the_binding_term_is_that_of_the_worked_values() {
    use Wire::{InfiniBand, RoceV2Ipv4};
    let table = [
        (200.0, "gen4x16", 256, InfiniBand, 4096, "link", 198.690),
        (200.0, "gen4x16", 128, InfiniBand, 4096, "link", 198.690),
        (200.0, "gen3x16", 256, InfiniBand, 4096, "pcie", 115.228),
        (400.0, "gen5x16", 256, InfiniBand, 4096, "link", 397.381),
        (400.0, "gen5x8", 512, InfiniBand, 4096, "pcie", 240.775),
        (400.0, "gen5x16", 256, RoceV2Ipv4, 1024, "link", 370.260),
        (800.0, "gen5x16", 512, RoceV2Ipv4, 4096, "pcie", 481.550),
        (200.0, "gen5x4", 256, RoceV2Ipv4, 4096, "pcie", 115.228),
    ];
    for (line, slot, payload, wire, mtu, by, rate) in table {
        let ends = ["a", "b"].map(|name| end(name, line, slot, Some(payload)));
        let found = ceiling(&scene(wire, mtu, ends)).unwrap();
        assert_eq!((found.limited_by.as_str(), gbps(found.bps)), (by, rate), "{line} in {slot}");
        assert_eq!(found.terms.len(), 4);
        assert_eq!(lowest_bps(&found), found.bps);
    }
}

#[test]
fn ports_that_run_together_share_their_slot() {
    let mut ends = ["a", "b"].map(|name| end(name, 200.0, "gen4x16", Some(256)));
    ends[0].slots[0].ports = 2;
    let found = ceiling(&scene(Wire::RoceV2Ipv4, 4096, ends)).unwrap();
    assert_eq!((found.limited_by.as_str(), gbps(2.0 * found.bps)), ("pcie", 230.456));
    assert!(binding(&found).unwrap().because.contains("shared by 2 ports at once"));
}

#[test]
fn the_narrowest_link_of_the_chain_counts_and_the_peer_is_named() {
    let mut ends =
        ["host-a/mlx5_0:1", "host-b/mlx5_3:1"].map(|name| end(name, 400.0, "gen5x16", Some(256)));
    let link = "gen4x16".parse().unwrap();
    let address = "0000:10:01.0".to_owned();
    ends[1].slots.push(Slot { address, link, payload: Some(128), ports: 1 });
    let found = ceiling(&scene(Wire::InfiniBand, 4096, ends)).unwrap();
    assert_eq!((found.limited_by.as_str(), gbps(found.bps)), ("peer", 212.262));
    let term = binding(&found).unwrap();
    assert_eq!(term.name, "pcie host-b/mlx5_3:1");
    assert_eq!(term.because, "PCIe Gen4 x16 at 0000:10:01.0, 252.1 Gb/s raw, payload 128 B");
    assert!(!term.hard, "PCIe is an interval");
}

#[test]
fn an_unreadable_payload_size_is_an_interval() {
    let ends = ["a", "b"].map(|name| end(name, 400.0, "gen4x16", None));
    let found = ceiling(&scene(Wire::InfiniBand, 4096, ends)).unwrap();
    assert_eq!((gbps(found.bps), gbps(lowest_bps(&found))), (240.775, 212.262));
    assert!(binding(&found).unwrap().because.contains("needs root"));
}

#[test]
fn a_loaded_reverse_direction_is_a_term_that_is_not_hard() {
    let ends = ["a", "b"].map(|name| end(name, 100.0, "gen4x16", Some(256)));
    let mut both = scene(Wire::RoceV2Ipv4, 4096, ends);
    both.carried = Carried::Rdma(Messages {
        framing: Framing::new(Wire::RoceV2Ipv4),
        mtu: 4096,
        size_bytes: 4096,
        extension_bytes: 0,
    });
    both.ack_every = Some(1);
    let found = ceiling(&both).unwrap();
    assert_eq!(gbps(found.bps), 96.060);
    assert!(!binding(&found).unwrap().hard);
    let hard = found.terms.iter().filter(|term| term.hard).map(|term| gbps(term.bps));
    assert_eq!(hard.collect::<Vec<_>>(), [98.037, 98.037]);
}

#[test]
fn what_the_user_declares_limits_and_is_never_hard() {
    let soft = || End { name: "a/rxe0:1".into(), ..End::default() };
    let mut shaped = scene(Wire::RoceV2Ipv4, 1024, [soft(), soft()]);
    assert_eq!(ceiling(&shaped), None, "nothing is known");
    let object = "a/rxe0:1".to_owned();
    shaped.declared = vec![Declared::Rate { object, bps: 100e6, shaped: true }];
    let found = ceiling(&shaped).unwrap();
    // 65536 / (65536 + 64 · 58 + 16) of 100 Mb/s.
    assert_eq!((found.bps.round(), found.limited_by.as_str()), (94_617_695.0, "declared"));
    assert!(!found.terms[0].hard);
    let ends = ["a", "b"].map(|name| end(name, 400.0, "gen5x16", Some(256)));
    let mut tree = scene(Wire::InfiniBand, 4096, ends);
    tree.declared = vec![Declared::Oversubscription(2.0)];
    let found = ceiling(&tree).unwrap();
    assert_eq!((gbps(found.bps), found.limited_by.as_str()), (198.690, "declared"));
}

#[test]
fn tcp_has_its_own_share() {
    let carried = Carried::Tcp { netdev_mtu: 9000, ipv6: false, vlan: false };
    let ends = ["a", "b"].map(|name| end(name, 100.0, "gen4x16", Some(256)));
    let found = ceiling(&Scene { carried, ..scene(Wire::RoceV1, 1024, ends) }).unwrap();
    assert_eq!(gbps(found.bps), 99.004);
}

#[test]
fn a_reason_says_every_number_it_stands_on() {
    let ends = ["a", "b"].map(|name| end(name, 400.0, "gen5x16", Some(256)));
    let found = ceiling(&scene(Wire::InfiniBand, 4096, ends)).unwrap();
    assert_eq!(
        binding(&found).unwrap().because,
        "400 Gb/s, 400.0 Gb/s; 64 KiB in 16 packets of at most 4 KiB with 26 B of headers each, \
         16 B more once: 99.3 % is payload"
    );
}
