//! What a PCI function is, by its class and ids.

/// What a function is to this check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// GPU or accelerator that holds training data.
    Gpu,
    /// Network adapter.
    Network,
    /// Forwards to a bus below it.
    Bridge,
    /// DMA function of a network adapter (Data Direct).
    DataDirect,
    /// Nothing that matters here.
    Other,
}

/// Role by 24-bit class, vendor and device.
pub fn role(class: u32, pair: Option<(u16, u16)>) -> Role {
    match class >> 8 {
        0x0300 | 0x0302 | 0x0380 | 0x1200 if is_gpu(class >> 8, pair) => Role::Gpu,
        0x0604 => Role::Bridge,
        0x0200 | 0x0207 | 0x0280 | 0x0c06 => Role::Network,
        0x0801 if matches!(pair, Some((0x15b3, _))) => Role::DataDirect,
        _ => Role::Other,
    }
}

/// Graphics of a server's management controller or an emulated one is no GPU, nor is the graphics
/// core inside an Intel processor (VGA class) nor the inference unit there (accelerator class).
fn is_gpu(class: u32, pair: Option<(u16, u16)>) -> bool {
    match pair {
        None => true,
        Some((0x1002, 0x515e) | (0x1d0f, _)) => false,
        Some((0x8086, _)) => matches!(class, 0x0302 | 0x0380),
        Some((vendor, _)) => matches!(vendor, 0x10de | 0x1002 | 0x1d94 | 0x1da3),
    }
}

/// Root ports of Grace and Vera, NVIDIA's processors.
pub fn is_grace_root(pair: Option<(u16, u16)>) -> bool {
    matches!(pair, Some((0x10de, 0x22b1 | 0x22b2 | 0x22b8 | 0x2f95 | 0x2f96)))
}

/// Whether a network function is of a kind that has verbs: InfiniBand by class, else by maker.
/// Without ids it is assumed, since files without them list nothing but what NCCL shall use.
pub fn likely_verbs(class: u32, pair: Option<(u16, u16)>) -> bool {
    match (class >> 8, pair) {
        (0x0207 | 0x0c06, _) | (_, None) => true,
        (_, Some((0x1d0f, device))) => matches!(device, 0xefa0..=0xefaf),
        (_, Some((vendor, _))) => matches!(vendor, 0x15b3 | 0x14e4 | 0x1dd8 | 0x1425 | 0x1077),
    }
}

/// Whether a name is that of a network interface and not of a verbs device: NCCL lists both as
/// `net`.
pub fn is_netdev_name(name: &str) -> bool {
    let numbered = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    const LONG: [&str; 8] = ["enp", "eno", "ens", "enx", "enP", "veth", "virbr", "docker"];
    LONG.iter().any(|prefix| name.starts_with(prefix))
        || ["eth", "ib", "bond", "br", "wlan", "cxi", "hsn", "team"]
            .iter()
            .any(|prefix| numbered(prefix))
        || name == "lo"
}

/// Name of a maker, for the tree.
pub fn vendor_name(vendor: u16) -> Option<&'static str> {
    Some(match vendor {
        0x10de => "NVIDIA",
        0x1002 | 0x1022 => "AMD",
        0x8086 => "Intel",
        0x15b3 => "Mellanox",
        0x14e4 | 0x1000 => "Broadcom",
        0x10b5 => "PLX",
        0x1d0f => "Amazon",
        0x1d94 => "Hygon",
        0x1da3 => "Habana",
        0x1dd8 => "Pensando",
        0x1425 => "Chelsio",
        0x1077 => "QLogic",
        0x11f8 => "Microchip",
        0x1b36 => "Red Hat (emulated)",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn management_graphics_are_no_gpus() {
        assert_eq!(role(0x030200, Some((0x10de, 0x2335))), Role::Gpu);
        assert_eq!(role(0x038000, Some((0x1002, 0x740f))), Role::Gpu);
        assert_eq!(role(0x120000, Some((0x1da3, 0x1020))), Role::Gpu);
        for pair in [(0x1a03, 0x2000), (0x102b, 0x0536), (0x1002, 0x515e), (0x1d0f, 0x1111)] {
            assert_eq!(role(0x030000, Some(pair)), Role::Other, "{pair:x?}");
        }
        assert_eq!(role(0x030000, Some((0x8086, 0x3e98))), Role::Other);
        assert_eq!(role(0x120000, Some((0x8086, 0x7d1d))), Role::Other);
        assert_eq!(role(0x038000, Some((0x8086, 0x0bd5))), Role::Gpu);
        assert_eq!(role(0x0c0600, Some((0x1077, 0x7322))), Role::Network);
    }

    #[test]
    fn interfaces_and_verbs_devices_are_told_apart_by_name() {
        for name in ["eth0", "eno1", "enp96s0f0", "veth608058c", "virbr0", "ib0", "bond0", "cxi0"] {
            assert!(is_netdev_name(name), "{name}");
        }
        for name in
            ["mlx5_0", "mlx5_bond_0", "rocep1s0f0", "ibp65s0", "rdmap16s27", "net0", "efa_0"]
        {
            assert!(!is_netdev_name(name), "{name}");
        }
    }
}
