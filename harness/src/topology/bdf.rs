//! Addresses of PCI functions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Domain, bus, device and function of a PCI function; written `0000:18:00.0`.
///
/// Domains have 4 to 8 hex digits: Intel VMD and Hyper-V number theirs beyond 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Bdf {
    /// Domain.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device, below 32.
    pub device: u8,
    /// Function, below 8.
    pub function: u8,
}

impl Bdf {
    /// The address without its function: what the functions of one card share.
    pub fn card(self) -> (u32, u8, u8) {
        (self.domain, self.bus, self.device)
    }
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

/// Text that is no PCI address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no PCI address (like 0000:18:00.0)")]
pub struct NoBdf(pub String);

impl FromStr for Bdf {
    type Err = NoBdf;

    /// Reads `DDDD:BB:DD.F`; without a domain (`18:00.0`) it is 0.
    fn from_str(text: &str) -> Result<Self, NoBdf> {
        parse(text).ok_or_else(|| NoBdf(text.chars().take(40).collect()))
    }
}

impl TryFrom<String> for Bdf {
    type Error = NoBdf;

    fn try_from(text: String) -> Result<Self, NoBdf> {
        text.parse()
    }
}

impl From<Bdf> for String {
    fn from(bdf: Bdf) -> String {
        bdf.to_string()
    }
}

fn parse(text: &str) -> Option<Bdf> {
    let (rest, function) = text.rsplit_once('.')?;
    let (rest, device) = rest.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0000", rest));
    let fits = |text: &str, digits: std::ops::RangeInclusive<usize>| {
        digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
    };
    if !fits(domain, 4..=8) || !fits(bus, 2..=2) || !fits(device, 2..=2) || !fits(function, 1..=1) {
        return None;
    }
    // Static files of cloud providers name virtual switches ffff:ff:0N.0; device 31 is the last.
    let device = u8::from_str_radix(device, 16).ok().filter(|device| *device < 32)?;
    Some(Bdf {
        domain: u32::from_str_radix(domain, 16).ok()?,
        bus: u8::from_str_radix(bus, 16).ok()?,
        device,
        function: u8::from_str_radix(function, 16).ok().filter(|function| *function < 8)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_have_four_to_eight_digits() {
        for text in ["0000:18:00.0", "10000:e1:1f.7", "deadbeef:00:00.0"] {
            assert_eq!(text.parse::<Bdf>().unwrap().to_string(), text);
        }
        assert_eq!("18:00.0".parse::<Bdf>().unwrap().to_string(), "0000:18:00.0");
        for text in ["", "000:18:00.0", "123456789:18:00.0", "0000:18:20.0", "0000:18:00.8", "+1:0"]
        {
            assert!(text.parse::<Bdf>().is_err(), "{text}");
        }
    }
}
