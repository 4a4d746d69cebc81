//! What PCIe carries: raw rates by generation and width, and what packet headers leave of them.

use std::fmt;
use std::str::FromStr;

/// A generation of PCIe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation {
    number: u8,
    /// As sysfs says it, in tenths of GT/s.
    decigt: u32,
    /// Share of the signalling that is data: 8b/10b, 128b/130b, flits of 256 bytes with 236 of data.
    share: (u64, u64),
}

const GENERATIONS: [Generation; 7] = [
    Generation { number: 1, decigt: 25, share: (8, 10) },
    Generation { number: 2, decigt: 50, share: (8, 10) },
    Generation { number: 3, decigt: 80, share: (128, 130) },
    Generation { number: 4, decigt: 160, share: (128, 130) },
    Generation { number: 5, decigt: 320, share: (128, 130) },
    Generation { number: 6, decigt: 640, share: (236, 256) },
    Generation { number: 7, decigt: 1280, share: (236, 256) },
];

/// Widths that links have.
const WIDTHS: [u32; 7] = [1, 2, 4, 8, 12, 16, 32];

impl Generation {
    /// The generation of this number, 1 to 7.
    pub fn by_number(number: u8) -> Option<Generation> {
        GENERATIONS.into_iter().find(|generation| generation.number == number)
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.number
    }

    /// As sysfs writes speeds: `32.0 GT/s PCIe`, on old kernels `8 GT/s`.
    pub fn by_speed_text(text: &str) -> Option<Generation> {
        let number: f64 = text.split_whitespace().next()?.parse().ok()?;
        let decigt = (number * 10.0).round();
        GENERATIONS.into_iter().find(|generation| f64::from(generation.decigt) == decigt)
    }

    /// Bytes around the payload of a packet: 4-DW header 16, sequence 2, LCRC 4, framing 2; in flits
    /// the header alone. An approximation.
    fn overhead_bytes(self) -> u32 {
        if self.number >= 6 { 16 } else { 24 }
    }
}

/// A PCIe link: generation and lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PcieLink {
    /// Generation.
    pub generation: Generation,
    /// Lanes.
    pub lanes: u32,
}

/// A PCIe link or a payload size that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PcieError {
    /// No such words.
    #[error(
        "{0:?} is no PCIe link: write generation and lanes as gen5x16 (gen1 to gen7; x1, x2, x4, x8, x12, x16 or x32)"
    )]
    Unreadable(String),
    /// A payload size that PCIe does not have.
    #[error("{0} bytes is no PCIe payload size: 128, 256, 512, 1024, 2048 or 4096")]
    PayloadSize(u32),
}

/// Smallest maximum payload size: what every device must take.
pub const SMALLEST_PAYLOAD: u32 = 128;

/// Largest maximum payload size of root ports and adapters that are common.
pub const USUAL_LARGEST_PAYLOAD: u32 = 512;

/// Refuses a maximum payload size that PCIe does not have.
pub fn check_payload(bytes: u32) -> Result<u32, PcieError> {
    let known = bytes.is_power_of_two() && (128..=4096).contains(&bytes);
    if known { Ok(bytes) } else { Err(PcieError::PayloadSize(bytes)) }
}

impl PcieLink {
    /// Rate of one direction in bit/s after encoding.
    pub fn raw_bps(self) -> f64 {
        let Generation { decigt, share: (data, of), .. } = self.generation;
        f64::from(decigt) * 1e8 * f64::from(self.lanes) * data as f64 / of as f64
    }

    /// Rate of one direction in bit/s that is payload, in packets of at most `payload` bytes:
    /// raw · P / (P + o). Link-layer packets and completions are not deducted.
    pub fn effective_bps(self, payload: u32) -> f64 {
        let around = self.generation.overhead_bytes();
        self.raw_bps() * f64::from(payload) / f64::from(payload + around)
    }
}

impl fmt::Display for PcieLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gen{} x{}", self.generation.number, self.lanes)
    }
}

impl FromStr for PcieLink {
    type Err = PcieError;

    fn from_str(text: &str) -> Result<Self, PcieError> {
        let unreadable = || PcieError::Unreadable(text.to_owned());
        let joined = text.split_whitespace().collect::<String>().to_ascii_lowercase();
        let (generation, lanes) = joined
            .strip_prefix("gen")
            .and_then(|rest| rest.split_once('x'))
            .ok_or_else(unreadable)?;
        let generation = generation.parse().ok().and_then(Generation::by_number);
        let lanes = lanes.parse().ok().filter(|lanes| WIDTHS.contains(lanes));
        match (generation, lanes) {
            (Some(generation), Some(lanes)) => Ok(PcieLink { generation, lanes }),
            _ => Err(unreadable()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(text: &str) -> PcieLink {
        text.parse().unwrap()
    }

    fn gbps(bps: f64, decimals: i32) -> f64 {
        let factor = 10_f64.powi(decimals);
        (bps / 1e9 * factor).round() / factor
    }

    #[test]
    fn raw_rates_are_those_of_the_generations() {
        let table = [
            (1, [8.000, 16.000, 32.000]),
            (2, [16.000, 32.000, 64.000]),
            (3, [31.508, 63.015, 126.031]),
            (4, [63.015, 126.031, 252.062]),
            (5, [126.031, 252.062, 504.123]),
            (6, [236.000, 472.000, 944.000]),
            (7, [472.000, 944.000, 1888.000]),
        ];
        for (generation, rates) in table {
            for (lanes, rate) in [4, 8, 16].into_iter().zip(rates) {
                let link = link(&format!("gen{generation}x{lanes}"));
                assert_eq!(gbps(link.raw_bps(), 3), rate, "{link}");
            }
        }
    }

    #[test]
    fn effective_rates_are_exact_to_two_digits() {
        let table = [
            ("gen3x8", [53.07, 57.61, 60.19]),
            ("gen3x16", [106.13, 115.23, 120.39]),
            ("gen4x8", [106.13, 115.23, 120.39]),
            ("gen5x4", [106.13, 115.23, 120.39]),
            ("gen4x16", [212.26, 230.46, 240.78]),
            ("gen5x8", [212.26, 230.46, 240.78]),
            ("gen5x16", [424.52, 460.91, 481.55]),
            ("gen6x8", [419.56, 444.24, 457.70]),
            ("gen6x16", [839.11, 888.47, 915.39]),
            ("gen7x16", [1678.22, 1776.94, 1830.79]),
        ];
        for (text, rates) in table {
            for (payload, rate) in [128, 256, 512].into_iter().zip(rates) {
                assert_eq!(gbps(link(text).effective_bps(payload), 2), rate, "{text} {payload}");
            }
        }
    }

    #[test]
    fn adapters_fit_their_slots_as_the_table_says() {
        let table = [
            (100, "gen3x16", 256, 115),
            (100, "gen3x8", 256, 58),
            (200, "gen3x16", 256, 58),
            (200, "gen4x16", 256, 115),
            (400, "gen4x16", 256, 58),
            (400, "gen5x8", 256, 58),
            (400, "gen5x16", 256, 115),
            (800, "gen5x16", 256, 58),
            (800, "gen6x16", 256, 111),
        ];
        for (line, slot, payload, percent) in table {
            let share = link(slot).effective_bps(payload) / (f64::from(line) * 1e9);
            assert_eq!((share * 100.0).round() as u32, percent, "{line} Gb/s in {slot}");
        }
    }

    #[test]
    fn links_are_read_and_printed() {
        assert_eq!(link("Gen4 x16").to_string(), "Gen4 x16");
        for text in
            ["", "gen", "gen0x16", "gen8x4", "gen5x3", "gen5", "x16", "gen5x16x", "pcie5x16"]
        {
            let error = text.parse::<PcieLink>().unwrap_err().to_string();
            assert!(error.contains("gen5x16"), "{text:?}: {error}");
        }
        let speeds = ["2.5 GT/s PCIe", "16.0 GT/s PCIe", "8 GT/s", "Unknown", "", "17 GT/s"];
        let numbers = speeds.map(|text| Generation::by_speed_text(text).map(Generation::number));
        assert_eq!(numbers, [Some(1), Some(4), Some(3), None, None, None]);
        assert_eq!(check_payload(256), Ok(256));
        for bytes in [0, 64, 100, 8192] {
            assert!(check_payload(bytes).is_err(), "{bytes}");
        }
    }
}
