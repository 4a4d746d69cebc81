//! Rates in bit/s as people write them: `400Gb/s`, `100Mb/s`.

/// A rate that cannot be read or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no rate: write bits per second as 400Gb/s, 2.5Gb/s or 100Mb/s, more than 0")]
pub struct RateError(String);

/// The fastest rate that makes sense, bit/s.
const FASTEST: f64 = 1e15;

/// Reads a rate in bit/s; units are decimal. `GB/s` and the like are refused, since they mean bytes.
pub fn parse_rate(text: &str) -> Result<f64, RateError> {
    let unreadable = || RateError(text.to_owned());
    let trimmed = text.trim();
    let is_figure = |c: char| c.is_ascii_digit() || c == '.';
    let end = trimmed.find(|c| !is_figure(c)).unwrap_or(trimmed.len());
    let factor = match trimmed[end..].trim_start() {
        "b/s" | "bit/s" => 1.0,
        "kb/s" | "kbit/s" => 1e3,
        "Mb/s" | "Mbit/s" => 1e6,
        "Gb/s" | "Gbit/s" => 1e9,
        "Tb/s" | "Tbit/s" => 1e12,
        _ => return Err(unreadable()),
    };
    let figure: f64 = trimmed[..end].parse().map_err(|_| unreadable())?;
    let bps = figure * factor;
    if (1.0..=FASTEST).contains(&bps) { Ok(bps) } else { Err(unreadable()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_in_bits() {
        let cases =
            [("400Gb/s", 400e9), ("2.5 Gb/s", 2.5e9), ("100Mb/s", 1e8), ("1.6Tbit/s", 1.6e12)];
        for (text, bps) in cases {
            assert_eq!(parse_rate(text), Ok(bps), "{text}");
        }
    }

    #[test]
    fn what_means_bytes_or_nothing_is_refused() {
        for text in
            ["", "400", "50GB/s", "0Gb/s", "-1Gb/s", "Gb/s", "1e9b/s", "9999999Tb/s", "1.2.3Gb/s"]
        {
            assert!(parse_rate(text).is_err(), "{text:?}");
        }
    }
}
