//! Where the reported rate lies: each trap with its worked value.

use super::*;
use crate::fixtures;
use crate::snapshot::Entry;

/// An InfiniBand port by the verbs library: width code, speed code, extended speed code, and the
/// text of sysfs beside it. Gb/s.
fn infiniband(width: u8, speed: u8, extended: u32, sysfs: &str) -> Option<f64> {
    let mut facts = fixtures::read("ndr-a");
    let port = &mut facts.calls.verbs.devices[0].ports[0];
    (port.active_width, port.active_speed, port.active_speed_ex) = (width, speed, extended);
    let rate = "/sys/class/infiniband/mlx5_0/ports/1/rate";
    facts.snapshot.entries.insert(rate.into(), Entry::Text(sysfs.into()));
    gbps(&facts, 0, 0)
}

/// The same by sysfs alone.
fn by_sysfs(text: &str) -> Option<f64> {
    let mut facts = fixtures::read("ndr-a");
    facts.calls.verbs.devices.clear();
    let rate = "/sys/class/infiniband/mlx5_0/ports/1/rate";
    facts.snapshot.entries.insert(rate.into(), Entry::Text(text.into()));
    gbps(&facts, 0, 0)
}

/// An Ethernet port: width and speed code, and what its interface says in Mb/s.
fn ethernet(width: u8, speed: u8, mbps: &str) -> Option<f64> {
    let mut facts = fixtures::read("ndr-a");
    let device = facts.calls.verbs.devices.iter_mut().find(|own| own.name == "mlx5_2").unwrap();
    let port = &mut device.ports[0];
    (port.active_width, port.active_speed) = (width, speed);
    let file = "/sys/class/net/ens3f0/speed";
    facts.snapshot.entries.insert(file.into(), Entry::Text(mbps.into()));
    gbps(&facts, 1, 0)
}

fn gbps(facts: &HostFacts, device: usize, port: usize) -> Option<f64> {
    let bps = host("a", facts).devices[device].ports[port].rate_bps?;
    Some((bps as f64 / 1e7).round() / 100.0)
}

#[test]
fn products_of_half_the_lanes_are_width_times_speed() {
    assert_eq!(infiniband(16, 64, 0, ""), Some(100.0), "HDR100 is 2x HDR");
    assert_eq!(infiniband(16, 128, 0, ""), Some(200.0), "NDR200 is 2x NDR");
    assert_eq!(by_sysfs("100 Gb/sec (2X HDR)"), Some(100.0));
    assert_eq!(by_sysfs("200 Gb/sec (2X NDR)"), Some(200.0));
}

#[test]
fn old_generations_print_signalling_and_carry_less() {
    let table = [
        (1, "10 Gb/sec (4X SDR)", 8.0),
        (2, "20 Gb/sec (4X DDR)", 16.0),
        (4, "40 Gb/sec (4X QDR)", 32.0),
        (8, "40 Gb/sec (4X FDR10)", 40.0),
        (16, "56 Gb/sec (4X FDR)", 54.55),
        (32, "100 Gb/sec (4X EDR)", 100.0),
    ];
    for (code, text, data) in table {
        assert_eq!(by_sysfs(text), Some(data), "{text}");
        assert_eq!(infiniband(2, code, 0, text), Some(data), "code {code}");
    }
}

#[test]
fn xdr_is_called_ndr_in_eight_bits() {
    assert_eq!(infiniband(2, 128, 256, "400 Gb/sec (4X NDR)"), Some(800.0));
    assert_eq!(infiniband(2, 128, 0, "400 Gb/sec (4X NDR)"), Some(400.0), "0: see the old field");
    assert_eq!(infiniband(16, 128, 256, ""), Some(400.0), "2x XDR");
}

#[test]
fn a_port_that_is_down_or_polling_has_no_rate() {
    let with = |state: u32, physical: u8| {
        let mut facts = fixtures::read("ndr-a");
        let port = &mut facts.calls.verbs.devices[0].ports[0];
        (port.state, port.phys_state) = (state, physical);
        gbps(&facts, 0, 0)
    };
    assert_eq!(with(4, 5), Some(400.0));
    for (state, physical) in [(1, 2), (1, 3), (2, 5), (4, 2)] {
        assert_eq!(with(state, physical), None, "state {state}, physical state {physical}");
    }
    let mut facts = fixtures::read("ndr-a");
    facts.calls.verbs.devices.clear();
    let state = "/sys/class/infiniband/mlx5_0/ports/1/state";
    facts.snapshot.entries.insert(state.into(), Entry::Text("1: DOWN".into()));
    assert_eq!(gbps(&facts, 0, 0), None, "its rate file still says 400");
}

#[test]
fn an_old_kernels_words_give_way_to_the_verbs_library() {
    assert_eq!(infiniband(2, 128, 0, "10 Gb/sec (4X)"), Some(400.0));
    assert_eq!(by_sysfs("10 Gb/sec (4X)"), None, "alone they say nothing");
}

#[test]
fn the_interface_tells_bonds_and_unknown_modes() {
    assert_eq!(ethernet(2, 32, "200000"), Some(200.0), "two legs of 100 Gb/s");
    assert_eq!(ethernet(2, 4, "400000"), Some(400.0), "mlx5 calls an unknown mode 4X QDR");
    assert_eq!(ethernet(2, 64, "-1"), Some(200.0), "an interface that does not know");
    assert_eq!(ethernet(2, 64, "4294967295"), Some(200.0));
    assert_eq!(ethernet(2, 64, "0"), Some(200.0));
}

#[test]
fn codes_that_nobody_knows_are_no_rate() {
    assert_eq!(infiniband(0, 0, 0, ""), None, "as virtual functions show it");
    assert_eq!(infiniband(2, 12, 0, ""), None);
    assert_eq!(infiniband(2, 128, 4096, ""), None);
    assert_eq!(infiniband(3, 128, 0, ""), None);
    for text in ["", "Gb/sec", "400 Gb/sec (", "400 Gb/sec (4X ZDR)", "(X NDR)"] {
        assert_eq!(by_sysfs(text), None, "{text:?}");
    }
}

#[test]
fn software_devices_have_no_line_rate() {
    let host = host("a", &fixtures::read("rxe-a"));
    assert!(host.devices.iter().all(|device| device.soft && device.ports[0].rate_bps.is_none()));
}
