//! Stand-ins for GPUs, where there are none: only for functions that somebody has named.

use std::fmt;
use std::str::FromStr;

use super::model::{Gpu, Hca, Kind, Topology};

/// Vendor and device of functions to be taken for GPUs, `1234:1111`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id {
    vendor: u16,
    device: u16,
}

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let digits = text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            digits.then(|| u16::from_str_radix(text, 16).ok()).flatten()
        };
        let ids = text.split_once(':').map(|(vendor, device)| (number(vendor), number(device)));
        match ids {
            Some((Some(vendor), Some(device))) => Ok(Id { vendor, device }),
            _ => Err("give vendor and device as lspci -n prints them, e.g. 1234:1111".into()),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:04x}", self.vendor, self.device)
    }
}

/// Takes every endpoint with one of `ids` for a GPU, and software RDMA devices for HCAs where their
/// network interfaces are; notes both. Without `ids` nothing changes.
///
/// # Errors
///
/// The first of `ids` that no endpoint has.
pub fn admit(topology: &mut Topology, ids: &[Id]) -> Result<(), Id> {
    for id in ids {
        let named = topology.nodes.iter_mut().filter(|node| {
            node.ids.pair() == Some((id.vendor, id.device)) && node.kind == Kind::Endpoint
        });
        let taken = named.map(|node| node.gpu = Some(Gpu::default())).count();
        if taken == 0 {
            return Err(*id);
        }
        topology.notes.push(format!(
            "{taken} × {id} taken for GPUs as asked for: a rehearsal, no verdict on real ones"
        ));
    }
    if !ids.is_empty() {
        soft_adapters(topology);
    }
    Ok(())
}

fn soft_adapters(topology: &mut Topology) {
    for soft in std::mem::take(&mut topology.soft) {
        let Some(node) = topology.nodes.get_mut(soft.node) else { continue };
        let hca = node.hca.get_or_insert_with(Hca::default);
        let devices: Vec<&str> = soft.ports.iter().map(|port| port.device.as_str()).collect();
        let note = format!(
            "{}: software RDMA, taken for an HCA at the place of {}",
            devices.join(" "),
            soft.netdev
        );
        hca.ports.extend(soft.ports);
        topology.notes.push(note);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Rules, judge, read_snapshot};
    use super::*;
    use crate::snapshot::{Entry, Snapshot};
    use fabbench_reports::model::Status;

    /// A guest with an interface and a display behind one switch, Soft-RoCE on the interface.
    fn guest() -> Topology {
        let mut snapshot = Snapshot::default();
        let mut put = |path: String, entry: Entry| drop(snapshot.entries.insert(path, entry));
        let switch = "/sys/devices/pci0000:40/0000:40:00.0/0000:41:00.0";
        let (nic, display) = ("0000:42:00.0/0000:43:00.0", "0000:42:01.0/0000:44:00.0");
        let mut function = |path: &str, class: &str, vendor: &str, device: &str| {
            let link = format!("/sys/bus/pci/devices/{}", path.rsplit('/').next().unwrap());
            for (file, text) in [("class", class), ("vendor", vendor), ("device", device)] {
                put(format!("{link}/{file}"), Entry::Text(text.into()));
            }
            put(link, Entry::Link(path.into()));
        };
        function("/sys/devices/pci0000:40/0000:40:00.0", "0x060400", "0x1b36", "0x000c");
        function(switch, "0x060400", "0x104c", "0x8232");
        for port in ["0000:42:00.0", "0000:42:01.0"] {
            function(&format!("{switch}/{port}"), "0x060400", "0x104c", "0x8233");
        }
        function(&format!("{switch}/{nic}"), "0x020000", "0x1af4", "0x1041");
        function(&format!("{switch}/{display}"), "0x038000", "0x1234", "0x1111");
        let device = "/sys/class/infiniband/rxe0";
        put(device.into(), Entry::Link("/sys/devices/virtual/infiniband/rxe0".into()));
        put(format!("{device}/parent"), Entry::Text("eth0\n".into()));
        put(format!("{device}/ports/1/state"), Entry::Text("4: ACTIVE\n".into()));
        let net = format!("{switch}/{nic}/virtio3/net/eth0");
        put("/sys/class/net/eth0".into(), Entry::Link(net));
        read_snapshot(&snapshot).unwrap()
    }

    #[test]
    fn stand_ins_and_soft_adapters_count_only_when_asked_for() {
        let mut topology = guest();
        let plain = judge(&topology, Rules::default());
        assert_eq!((plain.gpus.len(), plain.status), (0, Status::NotApplicable));
        assert!(plain.scene.adapters.is_empty(), "software RDMA is no HCA");
        admit(&mut topology, &[]).unwrap();
        assert_eq!(topology, guest());

        admit(&mut topology, &["1234:1111".parse().unwrap()]).unwrap();
        let judged = judge(&topology, Rules::default());
        assert_eq!(judged.gpus[0].class.word(), "PIX");
        assert_eq!(judged.scene.adapters[0].name, "rxe0");
        let notes = topology.notes.join("\n");
        assert!(notes.contains("1 × 1234:1111") && notes.contains("place of eth0"), "{notes}");
    }

    #[test]
    fn an_id_that_is_nowhere_is_told() {
        let id: Id = "10de:2330".parse().unwrap();
        assert_eq!(admit(&mut guest(), &[id]), Err(id));
        let bridge: Id = "104c:8232".parse().unwrap();
        assert_eq!(admit(&mut guest(), &[bridge]), Err(bridge), "a bridge is no endpoint");
        for text in ["", "1234", "1234:11111", "0x1234:1111", "+123:1111", "1234:1111:1"] {
            assert!(text.parse::<Id>().is_err(), "{text}");
        }
    }
}
