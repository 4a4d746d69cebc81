//! Quantities that print their unit.
//!
//! Rates are decimal (1 Gb/s = 10⁹ bit/s), sizes binary (1 KiB = 1024 B). Figures carry two
//! decimals below 100, one below 1000 and none above, so that neighbours in a column line up.
//! All of them honour width and alignment (`{:>12}`).

use std::fmt;

/// A rate in bit/s.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct BitRate(pub f64);

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&scaled(self.0, &[(1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s")]))
    }
}

/// A rate in bit/s that is printed in bytes per second, decimal, as nccl-tests prints algbw and
/// busbw.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct ByteRate(pub f64);

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&scaled(self.0 / 8.0, &[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")]))
    }
}

/// A measured time in ns, printed in µs: in ns below 1 µs, in ms from 10 ms, in s from 10 s.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Time(pub f64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        f.pad(&match ns.abs() {
            long if long >= 1e10 => figure(ns, 1e9, "s"),
            long if long >= 1e7 => figure(ns, 1e6, "ms"),
            short if short < 999.5 => format!("{ns:.0} ns"),
            _ => figure(ns, 1e3, "µs"),
        })
    }
}

/// A length of time that was set, in ns: `1 s`, `250 ms`, `1.5 s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")];
        let (unit, name) =
            units.into_iter().find(|(unit, _)| self.0 >= *unit).unwrap_or((1_000_000_000, "s"));
        // Three decimals at most, without trailing zeros.
        let value = (self.0 as f64 / unit as f64 * 1e3).round() / 1e3;
        f.pad(&format!("{value} {name}"))
    }
}

/// A size in bytes: `8 B`, `64 KiB`, `1.50 MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let fitting = units.into_iter().find(|(unit, _)| self.0 >= *unit);
        f.pad(&match fitting {
            Some((unit, name)) if self.0.is_multiple_of(unit) => {
                format!("{} {name}", self.0 / unit)
            }
            // Packet sizes such as 1500 or 9000 are known by their bytes.
            Some((unit, name)) if self.0 >= 10_000 => figure(self.0 as f64, unit as f64, name),
            _ => format!("{} B", self.0),
        })
    }
}

/// Messages per second, printed in Mmsg/s: in kmsg/s below 0.1 Mmsg/s.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct MessageRate(pub f64);

impl fmt::Display for MessageRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.0;
        f.pad(&match rate.abs() {
            slow if slow < 1e3 => figure(rate, 1.0, "msg/s"),
            slow if slow < 1e5 => figure(rate, 1e3, "kmsg/s"),
            slow if slow < 1e6 => format!("{:.3} Mmsg/s", rate / 1e6),
            _ => figure(rate, 1e6, "Mmsg/s"),
        })
    }
}

/// A part of a whole, 1 for all of it, printed as per cent.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1} %", self.0 * 100.0))
    }
}

/// How many times as much: `3.1×`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Factor(pub f64);

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = if self.0 < 1.0 { 2 } else { 1 };
        f.pad(&format!("{:.decimals$}×", self.0))
    }
}

/// A figure for a column whose title names the unit: one decimal from 100 on, two from 1 on, `small`
/// below.
pub fn bare(value: f64, small: usize) -> String {
    let decimals = match value.abs() {
        large if large >= 99.995 => 1,
        middle if middle >= 0.9995 || middle == 0.0 => 2,
        _ => small,
    };
    format!("{value:.decimals$}")
}

/// A time in ns for a column in µs.
pub fn in_us(ns: f64) -> String {
    bare(ns / 1e3, 3)
}

/// A rate in bit/s for a column in Gb/s.
pub fn in_gbps(bps: f64) -> String {
    bare(bps / 1e9, 4)
}

/// Messages per second for a column in Mmsg/s.
pub fn in_mmsg(per_s: f64) -> String {
    bare(per_s / 1e6, 4)
}

/// From lowest to highest with the unit once where both have the same: `428–433 Mb/s`.
pub fn range(low: impl fmt::Display, high: impl fmt::Display) -> String {
    let (low, high) = (low.to_string(), high.to_string());
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((figure, a)), Some((_, b))) if a == b => format!("{figure}–{high}"),
        _ => format!("{low}–{high}"),
    }
}

/// In the largest unit that leaves at least one whole; the last unit takes the rest.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if value == 0.0 {
        return format!("0 {}", units[units.len() - 1].1);
    }
    // 999.96 Mb/s would print as 1000.0 Mb/s: the next unit begins where rounding reaches it.
    let reaches = |unit: f64| value.abs() >= unit * 0.99995;
    let last = units[units.len() - 1];
    let (unit, name) = units.iter().copied().find(|(unit, _)| reaches(*unit)).unwrap_or(last);
    figure(value, unit, name)
}

fn figure(value: f64, unit: f64, name: &str) -> String {
    let value = value / unit;
    let decimals = match value.abs() {
        small if small < 99.995 => 2,
        middle if middle < 999.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_per_second_are_an_eighth_and_decimal() {
        assert_eq!(ByteRate(400e9).to_string(), "50.00 GB/s");
        assert_eq!(ByteRate(8e6).to_string(), "1.00 MB/s");
        assert_eq!(ByteRate(0.0).to_string(), "0 B/s");
    }

    #[test]
    fn bit_rates_are_decimal_and_change_unit_where_rounding_does() {
        let cases = [
            (98.38e9, "98.38 Gb/s"),
            (9.81e9, "9.81 Gb/s"),
            (392.149e9, "392.1 Gb/s"),
            (1.5684e12, "1568 Gb/s"),
            (431.2e6, "431.2 Mb/s"),
            (999.94e6, "999.9 Mb/s"),
            (999.97e6, "1.00 Gb/s"),
            (99.996e9, "100.0 Gb/s"),
            (1500.0, "1.50 kb/s"),
            (0.5, "0.50 b/s"),
            (0.0, "0 b/s"),
        ];
        for (bps, text) in cases {
            assert_eq!(BitRate(bps).to_string(), text);
        }
    }

    #[test]
    fn times_are_microseconds_until_they_are_long() {
        let cases = [
            (0.0, "0 ns"),
            (25.3, "25 ns"),
            (999.4, "999 ns"),
            (999.6, "1.00 µs"),
            (1_850.0, "1.85 µs"),
            (12_340.0, "12.34 µs"),
            (553_210.0, "553.2 µs"),
            (4_120_000.0, "4120 µs"),
            (14_200_000.0, "14.20 ms"),
            (12e9, "12.00 s"),
        ];
        for (ns, text) in cases {
            assert_eq!(Time(ns).to_string(), text);
        }
    }

    #[test]
    fn columns_with_a_unit_hold_bare_figures() {
        let times = [553_210.0, 1_073_000.0, 12_340.0, 1_850.0, 853.4, 0.0].map(in_us);
        assert_eq!(times, ["553.2", "1073.0", "12.34", "1.85", "0.853", "0.00"]);
        let rates = [392.149e9, 99.996e9, 9.81e9, 999.6e6, 431.2e6].map(in_gbps);
        assert_eq!(rates, ["392.1", "100.0", "9.81", "1.00", "0.4312"]);
        assert_eq!([197.3e6, 12_300.0].map(in_mmsg), ["197.3", "0.0123"]);
    }

    #[test]
    fn spans_read_as_they_were_set() {
        let cases = [
            (0, "0 s"),
            (1_000_000_000, "1 s"),
            (1_500_000_000, "1.5 s"),
            (250_000_000, "250 ms"),
            (90_000_000_000, "90 s"),
            (4_096, "4.096 µs"),
        ];
        for (ns, text) in cases {
            assert_eq!(Span(ns).to_string(), text);
        }
    }

    #[test]
    fn sizes_are_binary_and_exact_where_they_can_be() {
        let cases = [
            (0, "0 B"),
            (8, "8 B"),
            (1500, "1500 B"),
            (9000, "9000 B"),
            (4096, "4 KiB"),
            (65536, "64 KiB"),
            (100_000, "97.66 KiB"),
            (1 << 20, "1 MiB"),
            (3 << 29, "1.50 GiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }

    #[test]
    fn message_rates_are_never_packets() {
        assert_eq!(MessageRate(197.3e6).to_string(), "197.3 Mmsg/s");
        assert_eq!(MessageRate(740_000.0).to_string(), "0.740 Mmsg/s");
        assert_eq!(MessageRate(12_300.0).to_string(), "12.30 kmsg/s");
        assert_eq!(MessageRate(42.0).to_string(), "42.00 msg/s");
    }

    #[test]
    fn a_range_names_a_common_unit_once() {
        assert_eq!(range(BitRate(428e6), BitRate(433e6)), "428.0–433.0 Mb/s");
        assert_eq!(range(BitRate(980e6), BitRate(1.02e9)), "980.0 Mb/s–1.02 Gb/s");
    }

    #[test]
    fn shares_factors_and_alignment() {
        assert_eq!(Share(0.9712).to_string(), "97.1 %");
        assert_eq!(Factor(3.12).to_string(), "3.1×");
        assert_eq!(Factor(0.42).to_string(), "0.42×");
        assert_eq!(format!("{:>10}|", BitRate(9.81e9)), " 9.81 Gb/s|");
    }
}
