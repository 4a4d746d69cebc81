//! Checks of a port: its link, its errors, its fabric, its physical layer.

use fabbench_reports::model::{Check, Device, Port};
use fabbench_reports::units::BitRate;

use super::physical;
use super::subject::Subject;
use crate::line_rate::Wire;
use crate::rails::Party;

const BUS: &str = "/sys/class/infiniband";

/// Error counters of a link with what they may hold since the driver was loaded, as ibqueryerrors
/// suggests.
const ERRORS: [(&str, u64); 8] = [
    ("symbol_error", 10),
    ("link_error_recovery", 10),
    ("link_downed", 10),
    ("port_rcv_errors", 10),
    ("port_rcv_remote_physical_errors", 100),
    ("port_xmit_discards", 100),
    ("local_link_integrity_errors", 10),
    ("excessive_buffer_overrun_errors", 10),
];

/// A carrier that changed more often since the host started is worth a look.
const CARRIER_CHANGES: u64 = 20;

/// All checks of a port of a hardware adapter that is up; `other` is the peer, for the ports of its
/// boards.
pub(super) fn checks(
    subject: &Subject,
    other: Option<&Party>,
    device: &Device,
    port: &Port,
) -> Vec<Check> {
    let mut checks = vec![width(subject, other, device, port), errors(subject, device, port)];
    if port.link_layer == "InfiniBand" {
        checks.push(subnet_manager(subject, device, port));
        checks.push(partition(subject, device, port));
    } else {
        checks.push(carrier(subject, device, port));
    }
    if other.is_none() {
        checks.push(mtu(subject, device, port));
    }
    checks.extend(physical::checks(subject, device, port));
    checks
}

/// Width and speed beside the other ports of the board on this host and its peer.
fn width(subject: &Subject, other: Option<&Party>, device: &Device, port: &Port) -> Check {
    let draft = subject.of_port("link-width", device, port, "as the board's other ports");
    let words = format!("{} {}", port.width, port.speed);
    if !["InfiniBand", "Ethernet"].contains(&port.link_layer.as_str()) {
        return draft.unknown(format!("{}, but its link layer is not known", words.trim()));
    }
    let Some(own) = port.rate_bps else {
        return draft.unknown(format!("width and speed are not known ({})", words.trim()));
    };
    let found = format!("{words} = {}", BitRate(own as f64));
    let ports = |party: &Party| -> Vec<(u64, String)> {
        let alike = |peer: &&Device| {
            !device.board.is_empty() && peer.board == device.board && !peer.virtual_function
        };
        let of = |peer: &Device| -> Vec<(u64, String)> {
            let label = |port: &Port| format!("{}/{}:{}", party.host.name, peer.name, port.port);
            let same = peer.ports.iter().filter(|peer| peer.link_layer == port.link_layer);
            same.filter_map(|port| Some((port.rate_bps?, label(port)))).collect()
        };
        party.host.devices.iter().filter(alike).flat_map(of).collect()
    };
    let mut cohort = ports(&subject.party);
    cohort.extend(other.iter().flat_map(|other| ports(other)));
    let remedy = "look at both ends of the cable, exchange it, check how the switch port is set or \
                  split (stops this port's traffic)";
    let best = cohort.iter().max();
    match best.filter(|(bps, _)| *bps > own) {
        Some((bps, label)) => {
            let found = format!("{found}, while {label} has {}", BitRate(*bps as f64));
            let draft = draft.wanting(BitRate(*bps as f64).to_string());
            match port.link_layer.as_str() {
                "InfiniBand" => draft.fail(found, remedy),
                // Ethernet ports of one board often lead to different switches.
                _ => draft.warn(found, remedy),
            }
        }
        None if port.link_layer == "InfiniBand" && lanes(port).is_some_and(|lanes| lanes < 4) => {
            draft
                .wanting("4x, unless the switch port is split (HDR100, NDR200)".into())
                .warn(format!("{found}: {} of 4 lanes", port.width.trim_end_matches('x')), remedy)
        }
        None => draft.pass(found),
    }
}

fn lanes(port: &Port) -> Option<u32> {
    port.width.trim_end_matches('x').parse().ok()
}

/// Error counters since the driver was loaded. A missing one leaves the sum unknown, unless another
/// already tells.
fn errors(subject: &Subject, device: &Device, port: &Port) -> Check {
    let draft = subject.of_port("link-errors", device, port, "few since the driver was loaded");
    let directory = format!("{BUS}/{}/ports/{}/counters", device.name, port.port);
    let (mut bad, mut missing) = (Vec::new(), Vec::new());
    for (name, limit) in ERRORS {
        match subject.number::<u64>(&format!("{directory}/{name}")) {
            Ok(count) if count > limit => {
                bad.push(format!("{name} {count}{}", saturated(name, count)))
            }
            Ok(_) => {}
            Err(_) => missing.push(name),
        }
    }
    if !bad.is_empty() {
        let remedy = "clean and reseat the connectors, exchange the cable (stops this port's \
                      traffic); a run tells whether they still grow";
        return draft.warn(bad.join(", "), remedy);
    }
    match missing[..] {
        [] => draft.pass("none beyond the usual"),
        [first, ..] => draft.unknown(format!(
            "{} of {} counters cannot be read, {first} first",
            missing.len(),
            ERRORS.len()
        )),
    }
}

/// Counters of the management interface stop at their largest value.
fn saturated(name: &str, count: u64) -> &'static str {
    let largest = if name == "link_downed" { 255 } else { 65_535 };
    if count == largest { " (stopped counting)" } else { "" }
}

fn carrier(subject: &Subject, device: &Device, port: &Port) -> Check {
    let draft = subject.of_port("flaps", device, port, "a steady carrier");
    let Some(netdev) = &port.netdev else {
        return draft.unknown("the port's interface is not known");
    };
    match subject.number::<u64>(&format!("/sys/class/net/{netdev}/carrier_changes")) {
        Err(why) => draft.unknown(why),
        Ok(count) if count > CARRIER_CHANGES => draft.warn(
            format!("the carrier changed {count} times since the host started"),
            "exchange cable and transceiver in turn (stops this port's traffic)",
        ),
        Ok(count) => draft.pass(format!("{count} changes since the host started")),
    }
}

fn subnet_manager(subject: &Subject, device: &Device, port: &Port) -> Check {
    let draft = subject.of_port("subnet-manager", device, port, "a LID from a subnet manager");
    let path = |file: &str| format!("{BUS}/{}/ports/{}/{file}", device.name, port.port);
    let verbs = subject.facts().calls.verbs.devices.iter().find(|own| own.name == device.name);
    let verbs = verbs.and_then(|own| own.ports.iter().find(|own| own.port == port.port));
    let hex = |file: &str| -> Result<u16, String> {
        let text = subject.read(&path(file))?;
        u16::from_str_radix(text.trim_start_matches("0x"), 16)
            .map_err(|_| format!("{} holds {text:?}", path(file)))
    };
    let of = |file: &str, asked: Option<u16>| match asked {
        Some(lid) => Ok(lid),
        None => hex(file),
    };
    let lids = (of("lid", verbs.map(|own| own.lid)), of("sm_lid", verbs.map(|own| own.sm_lid)));
    let remedy =
        "start opensm or the switch's subnet manager, and see which one serves this subnet";
    match lids {
        (Ok(0), _) | (_, Ok(0)) => draft.fail("none has configured this port", remedy),
        (Ok(lid), Ok(manager)) => draft.pass(format!("LID {lid}, manager at LID {manager}")),
        (Err(why), _) | (_, Err(why)) => draft.unknown(why),
    }
}

fn partition(subject: &Subject, device: &Device, port: &Port) -> Check {
    let draft = subject.of_port("pkey", device, port, "full membership in a partition");
    let path = format!("{BUS}/{}/ports/{}/pkeys/0", device.name, port.port);
    let key = match subject.read(&path) {
        Ok(text) => u16::from_str_radix(text.trim_start_matches("0x"), 16),
        Err(why) => return draft.unknown(why),
    };
    match key {
        Err(_) => draft.unknown(format!("{path} holds no key")),
        Ok(key) if key & 0x7fff == 0 => draft.fail(
            format!("{key:#06x}: none"),
            "give the port a partition in the subnet manager's configuration",
        ),
        Ok(key) if key & 0x8000 == 0 => draft.warn(
            format!("{key:#06x}: limited member"),
            "two limited members cannot talk: make one a full member in the subnet manager",
        ),
        Ok(key) => draft.pass(format!("{key:#06x}")),
    }
}

/// The active path MTU of one host; between two the rail's is checked.
fn mtu(subject: &Subject, device: &Device, port: &Port) -> Check {
    let draft = subject.of_port("port-mtu", device, port, "4096 B");
    let ethernet = port.link_layer == "Ethernet";
    let by_netdev = port.netdev_mtu.filter(|_| ethernet).map(path_mtu);
    let Some(active) = Some(port.active_mtu).filter(|mtu| *mtu > 0).or(by_netdev) else {
        return draft.unknown("only an agent with the verbs library can ask for the active MTU");
    };
    if active >= 4096 || (port.max_mtu > 0 && active >= port.max_mtu) {
        return draft.pass(format!("{active} B"));
    }
    let wire = if ethernet { Wire::RoceV2Ipv4 } else { Wire::InfiniBand };
    let gain = wire.mtu_gain_percent(active, 4096);
    let found = format!("{active} B: 4096 B carries {gain:.1} % more");
    match &port.netdev {
        Some(netdev) if ethernet => {
            let seen =
                port.netdev_mtu.map_or_else(String::new, |mtu| format!(", interface {mtu} B"));
            draft.warn(
                format!("{found}{seen}"),
                format!(
                    "ip link set {netdev} mtu 4200 or more on every host, once every switch port \
                     takes it (needs root, disturbs traffic)"
                ),
            )
        }
        _ => draft.warn(found, "set the subnet's MTU to 4096 in the subnet manager"),
    }
}

/// The largest path MTU that fits an interface's with RoCE v2's headers.
fn path_mtu(netdev: u32) -> u32 {
    const HEADERS: u32 = 58;
    [4096, 2048, 1024, 512, 256].into_iter().find(|mtu| mtu + HEADERS <= netdev).unwrap_or(0)
}

/// Whether the port is one that links are judged of.
pub(super) fn is_up(port: &Port) -> bool {
    port.state == "ACTIVE"
}
