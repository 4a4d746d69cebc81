//! What links carry: data rates by width and speed, and what packet headers leave of them.
//!
//! Bytes of headers and the formulas are those of the InfiniBand specification's packet formats,
//! of RoCE's annexes A16 and A17, and of Ethernet with preamble 8, FCS 4 and gap 12.

mod words;

pub use words::{EthernetRate, Link, LinkError};

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

/// What a VLAN tag adds to an Ethernet frame.
const VLAN_BYTES: u32 = 4;

/// ACK extended transport header: on acknowledgements and on READ responses.
const AETH_BYTES: u32 = 4;

/// RDMA extended transport header: on the first packet of a WRITE.
const RETH_BYTES: u32 = 16;

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

    /// Whether it travels in Ethernet frames.
    pub fn is_ethernet(self) -> bool {
        matches!(self, Wire::RoceV1 | Wire::RoceV2Ipv4 | Wire::RoceV2Ipv6)
    }

    /// Share of the link that is payload with packets of `mtu` bytes: M / (M + h).
    pub fn efficiency(self, mtu: u32) -> f64 {
        Framing::new(self).efficiency(mtu)
    }

    /// By how many per cent the payload rate grows when the path MTU grows from `from` to `to`.
    pub fn mtu_gain_percent(self, from: u32, to: u32) -> f64 {
        (self.efficiency(to) / self.efficiency(from) - 1.0) * 100.0
    }
}

/// How packets travel, with what may be added on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// Header set.
    pub wire: Wire,
    /// Ethernet frames carry a VLAN tag.
    pub vlan: bool,
}

impl Framing {
    /// Without a VLAN tag.
    pub fn new(wire: Wire) -> Self {
        Framing { wire, vlan: false }
    }

    /// Header bytes h of a packet in the middle of a message.
    pub fn header_bytes(self) -> u32 {
        let tag = if self.vlan && self.wire.is_ethernet() { VLAN_BYTES } else { 0 };
        self.wire.header_bytes() + tag
    }

    /// Header bytes that a shaper in the sending host counts: of an Ethernet frame neither preamble
    /// 8, FCS 4 nor gap 12, which the adapter adds.
    pub fn shaped_header_bytes(self) -> u32 {
        let beyond = if self.wire.is_ethernet() { 24 } else { 0 };
        self.header_bytes() - beyond
    }

    /// Share of the link that is payload with packets of `mtu` bytes: M / (M + h).
    pub fn efficiency(self, mtu: u32) -> f64 {
        f64::from(mtu) / f64::from(mtu + self.header_bytes())
    }

    /// Share of an Ethernet port's byte counter (headers and FCS in, preamble and gap out) in the
    /// line rate: (M + h − 20) / (M + h).
    pub fn counted_share(self, mtu: u32) -> f64 {
        let all = f64::from(mtu + self.header_bytes());
        let unseen = if self.wire.is_ethernet() { 20.0 } else { 0.0 };
        (all - unseen) / all
    }
}

/// Messages as they go over a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Messages {
    /// Headers of each packet.
    pub framing: Framing,
    /// Path MTU in bytes: payload of the largest packet; not 0.
    pub mtu: u32,
    /// Payload of a message in bytes.
    pub size_bytes: u64,
    /// Bytes of extension headers once a message: [`extension_bytes`].
    pub extension_bytes: u32,
}

impl Messages {
    /// Packets of a message: n = max(1, ⌈s / M⌉).
    pub fn packets(&self) -> u64 {
        self.size_bytes.div_ceil(u64::from(self.mtu.max(1))).max(1)
    }

    /// Bytes of a message on the wire: s + n·h + e.
    pub fn wire_bytes(&self) -> u64 {
        self.bytes_with(self.framing.header_bytes())
    }

    /// Bytes of a message as a shaper in the sending host counts them.
    pub fn shaped_bytes(&self) -> u64 {
        self.bytes_with(self.framing.shaped_header_bytes())
    }

    /// Bytes that answer a message of the other direction with an acknowledgement every
    /// `ack_every` packets: n·(h + 4)/a, not rounded.
    pub fn ack_bytes(&self, ack_every: u64) -> f64 {
        let ack = self.framing.header_bytes() + AETH_BYTES;
        self.packets() as f64 * f64::from(ack) / ack_every.max(1) as f64
    }

    /// Payload rate in bit/s over a link of `line_bps`: line · s / (s + n·h + e).
    pub fn payload_bps(&self, line_bps: f64) -> f64 {
        line_bps * self.size_bytes as f64 / self.wire_bytes() as f64
    }

    /// Likewise with the acknowledgements of an equally loaded reverse direction.
    pub fn payload_bps_with_acks(&self, line_bps: f64, ack_every: u64) -> f64 {
        let all = self.wire_bytes() as f64 + self.ack_bytes(ack_every);
        line_bps * self.size_bytes as f64 / all
    }

    /// Messages per second that fit a link of `line_bps`: line / (8·(s + n·h + e)). Adapters stay
    /// below that.
    pub fn messages_per_s(&self, line_bps: f64) -> f64 {
        line_bps / (8.0 * self.wire_bytes() as f64)
    }

    fn bytes_with(&self, header: u32) -> u64 {
        self.size_bytes + self.packets() * u64::from(header) + u64::from(self.extension_bytes)
    }
}

/// Bytes of extension headers that travel with the payload of a message of `packets` packets: 16 of
/// a WRITE, 4 on the first and on the last response of a READ, 4 on the response of an atomic, 4
/// more of immediate data, none of a SEND.
pub fn extension_bytes(op: &str, packets: u64) -> u32 {
    match op {
        "write" => RETH_BYTES,
        "write_imm" => RETH_BYTES + 4,
        "send_imm" => 4,
        "read" if packets > 1 => 2 * AETH_BYTES,
        "read" | "fetch_add" | "cmp_swap" => AETH_BYTES,
        _ => 0,
    }
}

/// Share of a link that is payload of a TCP stream with timestamps in frames of `netdev_mtu` bytes:
/// (MTU − 52) / (MTU + 38) over IPv4; IPv6 has 20 bytes more of headers, a VLAN tag is 4 bytes more
/// on the wire. 0 where nothing fits.
pub fn tcp_efficiency(netdev_mtu: u32, ipv6: bool, vlan: bool) -> f64 {
    let headers = if ipv6 { 72 } else { 52 };
    let around = if vlan { 42 } else { 38 };
    f64::from(netdev_mtu.saturating_sub(headers)) / f64::from(netdev_mtu + around)
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
    fn every_generation_has_its_rate_at_every_width() {
        // Gb/s by lanes 1, 2, 4, 8, 12; rounded to two digits as tables print them.
        let table = [
            ("SDR", [2.0, 4.0, 8.0, 16.0, 24.0]),
            ("DDR", [4.0, 8.0, 16.0, 32.0, 48.0]),
            ("QDR", [8.0, 16.0, 32.0, 64.0, 96.0]),
            ("FDR10", [10.0, 20.0, 40.0, 80.0, 120.0]),
            ("FDR", [13.64, 27.27, 54.55, 109.09, 163.64]),
            ("EDR", [25.0, 50.0, 100.0, 200.0, 300.0]),
            ("HDR", [50.0, 100.0, 200.0, 400.0, 600.0]),
            ("NDR", [100.0, 200.0, 400.0, 800.0, 1200.0]),
            ("XDR", [200.0, 400.0, 800.0, 1600.0, 2400.0]),
        ];
        for (name, rates) in table {
            for (lanes, gbps) in [1, 2, 4, 8, 12].into_iter().zip(rates) {
                let bps = LaneSpeed::by_name(name).unwrap().data_bps(lanes);
                assert_eq!((bps as f64 / 1e7).round() / 100.0, gbps, "{lanes}x {name}");
            }
        }
    }

    #[test]
    fn ethernet_ports_speak_in_infinibands_words() {
        let table = [
            (10, 1, "QDR"),
            (25, 1, "EDR"),
            (40, 4, "QDR"),
            (50, 1, "HDR"),
            (50, 2, "EDR"),
            (56, 4, "FDR"),
            (100, 4, "EDR"),
            (100, 2, "HDR"),
            (100, 1, "NDR"),
            (200, 4, "HDR"),
            (200, 2, "NDR"),
            (200, 1, "XDR"),
            (400, 8, "HDR"),
            (400, 4, "NDR"),
            (400, 2, "XDR"),
            (800, 8, "NDR"),
            (800, 4, "XDR"),
            (1600, 8, "XDR"),
        ];
        for (gbps, lanes, name) in table {
            let bps = LaneSpeed::by_name(name).unwrap().ethernet_bps(lanes);
            assert_eq!(bps, gbps * 1_000_000_000, "{lanes}x {name}");
        }
    }

    const IB: Framing = Framing { wire: Wire::InfiniBand, vlan: false };
    const V4: Framing = Framing { wire: Wire::RoceV2Ipv4, vlan: false };
    const V6: Framing = Framing { wire: Wire::RoceV2Ipv6, vlan: false };

    fn write(framing: Framing, mtu: u32, size_bytes: u64) -> Messages {
        Messages { framing, mtu, size_bytes, extension_bytes: 16 }
    }

    fn digits(value: f64, decimals: i32) -> f64 {
        let factor = 10_f64.powi(decimals);
        (value * factor).round() / factor
    }

    #[test]
    fn efficiency_is_exact_to_four_digits() {
        let columns = [
            IB,
            Framing::new(Wire::InfiniBandGrh),
            Framing::new(Wire::RoceV1),
            V4,
            Framing { vlan: true, ..V4 },
            V6,
            Framing { vlan: true, ..V6 },
        ];
        let table = [
            (256, [90.7801, 79.5031, 73.1429, 75.7396, 74.8538, 71.5084, 70.7182]),
            (512, [95.1673, 88.5813, 84.4884, 86.1953, 85.6187, 83.3876, 82.8479]),
            (1024, [97.5238, 93.9450, 91.5921, 92.5859, 92.2523, 90.9414, 90.6195]),
            (2048, [98.7464, 96.8780, 95.6116, 96.1502, 95.9700, 95.2558, 95.0789]),
            (4096, [99.3692, 98.4142, 97.7566, 98.0373, 97.9436, 97.5703, 97.4774]),
        ];
        for (mtu, percents) in table {
            for (framing, percent) in columns.into_iter().zip(percents) {
                let found = digits(framing.efficiency(mtu) * 100.0, 4);
                assert_eq!(found, percent, "{framing:?}, MTU {mtu}");
            }
        }
        assert_eq!(digits(Wire::RoceV2Ipv4.mtu_gain_percent(1024, 4096), 3), 5.888);
    }

    #[test]
    fn payload_of_64_kib_writes_is_exact_to_three_digits() {
        let columns =
            [(IB, 4096), (IB, 2048), (IB, 1024), (V4, 4096), (V4, 2048), (V4, 1024), (V6, 4096)];
        let table = [
            (25, [24.836, 24.681, 24.375, 24.503, 24.032, 23.141, 24.387]),
            (50, [49.673, 49.361, 48.750, 49.007, 48.064, 46.282, 48.774]),
            (100, [99.345, 98.723, 97.501, 98.014, 96.128, 92.565, 97.547]),
            (200, [198.690, 197.445, 195.001, 196.028, 192.255, 185.130, 195.094]),
            (400, [397.381, 394.890, 390.002, 392.056, 384.511, 370.260, 390.188]),
            (800, [794.761, 789.781, 780.005, 784.111, 769.021, 740.520, 780.376]),
        ];
        for (line, rates) in table {
            for ((framing, mtu), gbps) in columns.into_iter().zip(rates) {
                let found = write(framing, mtu, 65_536).payload_bps(f64::from(line));
                assert_eq!(digits(found, 3), gbps, "{line} Gb/s, {framing:?}, MTU {mtu}");
            }
        }
        let large = [(IB, [99.369, 198.738, 397.476, 794.952])];
        let large = large.into_iter().chain([(V4, [98.037, 196.074, 392.149, 784.297])]);
        for (framing, rates) in large {
            for (line, gbps) in [100.0, 200.0, 400.0, 800.0].into_iter().zip(rates) {
                assert_eq!(digits(write(framing, 4096, 8 << 20).payload_bps(line), 3), gbps);
            }
        }
    }

    #[test]
    fn small_messages_and_port_counters_have_limits_of_their_own() {
        let rates = |framing| {
            [100e9, 200e9, 400e9, 800e9]
                .map(|line| digits(write(framing, 4096, 8).messages_per_s(line) / 1e6, 1))
        };
        assert_eq!(rates(IB), [250.0, 500.0, 1000.0, 2000.0]);
        assert_eq!(rates(V4), [117.9, 235.8, 471.7, 943.4]);
        assert_eq!(digits(400.0 * V4.counted_share(4096), 3), 398.085);
        assert_eq!(IB.counted_share(4096), 1.0);
    }

    #[test]
    fn acknowledgements_of_the_reverse_direction_take_their_share() {
        let share = |mtu, every| {
            let packet = Messages { extension_bytes: 0, ..write(V4, mtu, u64::from(mtu)) };
            digits(packet.payload_bps_with_acks(100.0, every), 1)
        };
        assert_eq!([share(4096, 1), share(4096, 4)], [96.1, 97.5]);
        assert_eq!([share(1024, 1), share(1024, 4)], [85.9, 90.8]);
    }

    #[test]
    fn shapers_in_the_host_count_58_bytes_a_packet() {
        assert_eq!(V4.shaped_header_bytes(), 58);
        assert_eq!(write(V4, 1024, 65_536).shaped_bytes(), 65_536 + 64 * 58 + 16);
    }

    #[test]
    fn tcp_loses_52_bytes_inside_and_38_around() {
        let percent = |mtu| digits(tcp_efficiency(mtu, false, false) * 100.0, 3);
        assert_eq!([percent(1500), percent(4200), percent(9000)], [94.148, 97.876, 99.004]);
        assert!(tcp_efficiency(1500, true, true) < tcp_efficiency(1500, false, false));
        assert_eq!(tcp_efficiency(40, true, false), 0.0);
    }

    #[test]
    fn extension_headers_go_by_the_operation() {
        let ops = ["write", "read", "send", "send_imm", "write_imm"];
        assert_eq!(ops.map(|op| extension_bytes(op, 16)), [16, 8, 0, 4, 20]);
        assert_eq!(extension_bytes("read", 1), 4);
        let empty = Messages { size_bytes: 0, ..write(IB, 4096, 0) };
        assert_eq!((empty.packets(), empty.wire_bytes()), (1, 42));
    }
}
