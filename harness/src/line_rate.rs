//! What links carry: data rates by width and speed, and what packet headers leave of them.

/// Bytes that a packet occupies beside its payload, by how it travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// InfiniBand: LRH 8, BTH 12, ICRC 4, VCRC 2.
    InfiniBand,
    /// InfiniBand with a global route header of 40 bytes.
    InfiniBandGrh,
    /// Ethernet with preamble and gap, GRH, BTH, ICRC.
    RoceV1,
    /// Ethernet with preamble and gap, IPv4, UDP, BTH, ICRC.
    RoceV2Ipv4,
    /// Ethernet with preamble and gap, IPv6, UDP, BTH, ICRC.
    RoceV2Ipv6,
}

impl Wire {
    /// Header bytes of a packet in the middle of a message.
    pub fn header_bytes(self) -> u32 {
        match self {
            Wire::InfiniBand => 26,
            Wire::InfiniBandGrh => 66,
            Wire::RoceV1 => 94,
            Wire::RoceV2Ipv4 => 82,
            Wire::RoceV2Ipv6 => 102,
        }
    }

    /// Share of the link that is payload with packets of `mtu` bytes: M / (M + h).
    pub fn efficiency(self, mtu: u32) -> f64 {
        f64::from(mtu) / f64::from(mtu + self.header_bytes())
    }

    /// By how many per cent the payload rate grows when the path MTU grows from `from` to `to`.
    pub fn mtu_gain_percent(self, from: u32, to: u32) -> f64 {
        (self.efficiency(to) / self.efficiency(from) - 1.0) * 100.0
    }
}

/// A speed per lane, as `ibv_port_attr` numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneSpeed {
    /// Code of `active_speed` and `active_speed_ex`.
    pub code: u32,
    /// Name that people use.
    pub name: &'static str,
    /// Data rate of one lane in bit/s times [`LaneSpeed::divisor`]: signalling less the encoding.
    numerator: u64,
    /// See [`LaneSpeed::numerator`]; FDR's 64b/66b does not divide evenly.
    divisor: u64,
    /// What one lane of Ethernet at this speed is called, in Mb/s.
    ethernet_mbps: u64,
}

impl LaneSpeed {
    /// Data rate of `lanes` lanes in bit/s, rounded down.
    pub fn data_bps(self, lanes: u32) -> u64 {
        self.numerator * u64::from(lanes) / self.divisor
    }

    /// Data rate in bit/s of an Ethernet port that reports `lanes` lanes of this speed: nominal,
    /// since the words are InfiniBand's and the encoding is not.
    pub fn ethernet_bps(self, lanes: u32) -> u64 {
        self.ethernet_mbps * u64::from(lanes) * 1_000_000
    }

    /// The speed with this code; 8-bit and extended codes share one numbering.
    pub fn by_code(code: u32) -> Option<LaneSpeed> {
        SPEEDS.iter().copied().find(|speed| speed.code == code)
    }

    /// The speed with this name, as the kernel's `rate` file prints it.
    pub fn by_name(name: &str) -> Option<LaneSpeed> {
        SPEEDS.iter().copied().find(|speed| speed.name.eq_ignore_ascii_case(name))
    }
}

/// Lanes of an `active_width` code.
pub fn lanes_of_code(code: u8) -> Option<u32> {
    match code {
        1 => Some(1),
        2 => Some(4),
        4 => Some(8),
        8 => Some(12),
        16 => Some(2),
        _ => None,
    }
}

/// The code that holds: the 32-bit one, unless it is 0 (an old driver), which means the 8-bit one.
pub fn speed_code(active_speed: u8, active_speed_ex: u32) -> u32 {
    if active_speed_ex == 0 { u32::from(active_speed) } else { active_speed_ex }
}

const G: u64 = 1_000_000_000;

const SPEEDS: [LaneSpeed; 9] = [
    LaneSpeed { code: 1, name: "SDR", numerator: 2 * G, divisor: 1, ethernet_mbps: 2_500 },
    LaneSpeed { code: 2, name: "DDR", numerator: 4 * G, divisor: 1, ethernet_mbps: 5_000 },
    LaneSpeed { code: 4, name: "QDR", numerator: 8 * G, divisor: 1, ethernet_mbps: 10_000 },
    LaneSpeed { code: 8, name: "FDR10", numerator: 10 * G, divisor: 1, ethernet_mbps: 10_000 },
    LaneSpeed { code: 16, name: "FDR", numerator: 900 * G, divisor: 66, ethernet_mbps: 14_000 },
    LaneSpeed { code: 32, name: "EDR", numerator: 25 * G, divisor: 1, ethernet_mbps: 25_000 },
    LaneSpeed { code: 64, name: "HDR", numerator: 50 * G, divisor: 1, ethernet_mbps: 50_000 },
    LaneSpeed { code: 128, name: "NDR", numerator: 100 * G, divisor: 1, ethernet_mbps: 100_000 },
    LaneSpeed { code: 256, name: "XDR", numerator: 200 * G, divisor: 1, ethernet_mbps: 200_000 },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_rates_are_width_times_lane_rate_after_encoding() {
        let cases = [
            (1, 4, 8_000_000_000),
            (4, 4, 32_000_000_000),
            (16, 4, 54_545_454_545),
            (32, 4, 100_000_000_000),
            (64, 2, 100_000_000_000),
            (128, 2, 200_000_000_000),
            (128, 4, 400_000_000_000),
            (256, 4, 800_000_000_000),
            (32, 1, 25_000_000_000),
        ];
        for (code, lanes, bps) in cases {
            assert_eq!(LaneSpeed::by_code(code).unwrap().data_bps(lanes), bps, "code {code}");
        }
        assert_eq!(LaneSpeed::by_code(3), None);
    }

    #[test]
    fn ethernet_rates_are_nominal() {
        let cases = [(4, 1, 10), (4, 4, 40), (16, 4, 56), (32, 1, 25), (64, 8, 400), (256, 4, 800)];
        for (code, lanes, gbps) in cases {
            let speed = LaneSpeed::by_code(code).unwrap();
            assert_eq!(speed.ethernet_bps(lanes), gbps * 1_000_000_000, "code {code}");
        }
    }

    #[test]
    fn xdr_is_only_in_the_extended_code() {
        assert_eq!(speed_code(128, 256), 256);
        assert_eq!(speed_code(128, 0), 128);
    }

    #[test]
    fn width_codes_are_not_lane_counts() {
        let lanes: Vec<_> = [1, 2, 4, 8, 16, 3].into_iter().map(lanes_of_code).collect();
        assert_eq!(lanes, [Some(1), Some(4), Some(8), Some(12), Some(2), None]);
    }

    #[test]
    fn efficiency_agrees_with_the_table() {
        let cases = [
            (Wire::InfiniBand, 4096, 99.3692),
            (Wire::InfiniBandGrh, 2048, 96.8780),
            (Wire::RoceV1, 1024, 91.5921),
            (Wire::RoceV2Ipv4, 1024, 92.5859),
            (Wire::RoceV2Ipv6, 4096, 97.5703),
        ];
        for (wire, mtu, percent) in cases {
            assert!((wire.efficiency(mtu) * 100.0 - percent).abs() < 1e-4, "{wire:?} {mtu}");
        }
        assert!((Wire::RoceV2Ipv4.mtu_gain_percent(1024, 4096) - 5.888).abs() < 0.01);
    }
}
