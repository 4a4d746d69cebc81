//! The PCIe links between an adapter and the root complex.

use super::view::View;
use super::{INFINIBAND, device::pci_address};
use crate::pcie::{Generation, PcieLink};
use crate::snapshot::HostFacts;

/// A PCIe function on the way from an adapter to the root complex, and its link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// PCI address.
    pub address: String,
    /// Link in use.
    pub link: PcieLink,
    /// Link that this function could have; none when it does not say.
    pub widest: Option<PcieLink>,
    /// Its device control register; none for none, since that needs root.
    pub control: Option<DeviceControl>,
}

/// What the device control register of a PCIe function sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceControl {
    /// Maximum payload size in bytes.
    pub payload: u32,
    /// Maximum size of a read request in bytes.
    pub read_request: u32,
    /// Whether the function may mark its requests as relaxed in order.
    pub relaxed_ordering: bool,
}

/// The way of one adapter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// From the root port to the adapter; empty for software devices, and where nothing is known.
    pub hops: Vec<Hop>,
    /// Maximum payload size in bytes, the smallest of those that could be read; none for none,
    /// since that needs root.
    pub payload: Option<u32>,
}

/// Where the kernel lists PCI functions.
const PCI: &str = "/sys/bus/pci/devices";

/// The PCIe links of an RDMA device.
pub fn pcie_chain(facts: &HostFacts, device: &str) -> Chain {
    let view = View::new(&facts.snapshot);
    let class = format!("{INFINIBAND}/{device}");
    let Some(real) = view.link(&class).and_then(|target| target.split("/infiniband/").next())
    else {
        return Chain::default();
    };
    let mut chain = Chain::default();
    let ends = real.match_indices('/').map(|(at, _)| at).chain([real.len()]);
    for path in ends.map(|end| &real[..end]) {
        let Some(address) = pci_address(path) else { continue };
        let adapter = if path == real { format!("{class}/device") } else { path.to_owned() };
        let places = [format!("{PCI}/{address}"), path.to_owned(), adapter];
        let at = |file: &str| places.iter().find_map(|place| view.text(&format!("{place}/{file}")));
        let link = |which: &str| {
            let generation = Generation::by_speed_text(at(&format!("{which}_link_speed"))?)?;
            let lanes = at(&format!("{which}_link_width"))?.parse().ok();
            // 0 and 255 stand for no link and for not known.
            let lanes = lanes.filter(|lanes| (1..=32).contains(lanes))?;
            Some(PcieLink { generation, lanes })
        };
        let control = at("config").and_then(device_control);
        let payload = control.map(|control| control.payload);
        chain.payload = [chain.payload, payload].into_iter().flatten().min();
        if let Some(current) = link("current") {
            chain.hops.push(Hop { address, link: current, widest: link("max"), control });
        }
    }
    chain
}

/// The device control register (payload size in bits 7:5, read requests in 14:12, relaxed ordering in
/// 4) from a configuration space in hexadecimal digits. An ordinary user sees its first 64 bytes,
/// which do not hold it.
fn device_control(hex: &str) -> Option<DeviceControl> {
    const FIRST_CAPABILITY: usize = 0x34;
    const PCI_EXPRESS: u8 = 0x10;
    let byte = |at: usize| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok();
    let mut at = usize::from(byte(FIRST_CAPABILITY)?);
    // Capabilities are 4 bytes at least: 48 fit the 192 bytes that hold them.
    for _ in 0..48 {
        if at < 0x40 {
            return None;
        }
        if byte(at)? == PCI_EXPRESS {
            let (low, high) = (byte(at + 8)?, byte(at + 9)?);
            let (payload, read_request) = (low >> 5, high >> 4 & 7);
            return (payload <= 5 && read_request <= 5).then(|| DeviceControl {
                payload: 128 << payload,
                read_request: 128 << read_request,
                relaxed_ordering: low & 0x10 != 0,
            });
        }
        at = usize::from(byte(at + 1)?);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Entry;

    fn facts(entries: &[(&str, &str)]) -> HostFacts {
        let mut facts = HostFacts::default();
        let real = "/sys/devices/pci0000:10/0000:10:01.0/0000:18:00.0/infiniband/mlx5_0";
        let mut put = |path: &str, entry| facts.snapshot.entries.insert(path.to_owned(), entry);
        put("/sys/class/infiniband/mlx5_0", Entry::Link(real.into()));
        for (path, text) in entries {
            put(path, Entry::Text((*text).to_owned()));
        }
        facts
    }

    const ROOT: &str = "/sys/devices/pci0000:10/0000:10:01.0";

    #[test]
    fn every_link_up_to_the_root_port_is_seen() {
        let own = format!("{ROOT}/0000:18:00.0");
        let chain = pcie_chain(
            &facts(&[
                (&format!("{PCI}/0000:10:01.0/current_link_speed"), "16.0 GT/s PCIe\n"),
                (&format!("{PCI}/0000:10:01.0/current_link_width"), "16\n"),
                (&format!("{own}/current_link_speed"), "16.0 GT/s PCIe\n"),
                (&format!("{own}/current_link_width"), "8\n"),
                (&format!("{own}/max_link_speed"), "32.0 GT/s PCIe\n"),
                (&format!("{own}/max_link_width"), "16\n"),
            ]),
            "mlx5_0",
        );
        let words: Vec<_> =
            chain.hops.iter().map(|h| format!("{} {}", h.address, h.link)).collect();
        assert_eq!(words, ["0000:10:01.0 Gen4 x16", "0000:18:00.0 Gen4 x8"]);
        assert_eq!(chain.hops[1].widest.unwrap().to_string(), "Gen5 x16");
        assert_eq!(chain.payload, None);
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let own = format!("{ROOT}/0000:18:00.0");
        let odd = [("Unknown", "16"), ("16.0 GT/s PCIe", "0"), ("16.0 GT/s PCIe", "255"), ("", "")];
        for (speed, width) in odd {
            let entries = [
                (&*format!("{own}/current_link_speed"), speed),
                (&*format!("{own}/current_link_width"), width),
            ];
            assert_eq!(pcie_chain(&facts(&entries), "mlx5_0").hops, []);
        }
        assert_eq!(pcie_chain(&HostFacts::default(), "mlx5_0"), Chain::default());
    }

    #[test]
    fn the_payload_size_stands_in_the_device_control_register() {
        let mut space = vec![0_u8; 256];
        (space[0x34], space[0x60], space[0x61], space[0x70]) = (0x60, 0x05, 0x70, 0x10);
        space[0x78] = 0x20 | 0x0f;
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        space[0x79] = 0x50;
        let seen = device_control(&hex(&space)).unwrap();
        assert_eq!((seen.payload, seen.read_request, seen.relaxed_ordering), (256, 4096, false));
        assert_eq!(device_control(&hex(&space[..64])), None, "an ordinary user's part");
        space[0x71] = 0x60;
        space[0x70] = 0x01;
        assert_eq!(device_control(&hex(&space)), None, "a circle ends");
        for text in ["", "zz", "üüüü", "0"] {
            assert_eq!(device_control(text), None);
        }
    }
}
