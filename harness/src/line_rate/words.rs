//! Links as people write them: `4x NDR`, `hdr100`, `400GbE`.

use std::fmt;
use std::str::FromStr;

use super::LaneSpeed;

/// A link by its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Lanes of a speed, as verbs ports tell it, on InfiniBand or Ethernet.
    Lanes(u32, LaneSpeed),
    /// A rate of Ethernet.
    Ethernet(EthernetRate),
}

/// A nominal rate of Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EthernetRate {
    /// Gb/s.
    gbps: u64,
}

/// Rates of Ethernet ports in Gb/s.
const ETHERNET_GBPS: [u64; 10] = [10, 25, 40, 50, 56, 100, 200, 400, 800, 1600];

/// Names of products that are not their lanes: both are two lanes of a port of four.
const PRODUCTS: [(&str, u32, &str); 2] = [("HDR100", 2, "HDR"), ("NDR200", 2, "NDR")];

/// A link that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// No such words.
    #[error(
        "{0:?} is no link: write lanes and speed as '4x NDR' (lanes 1, 2, 4, 8 or 12; SDR, DDR, \
         QDR, FDR10, FDR, EDR, HDR, NDR or XDR), HDR100, NDR200, or Ethernet as 400GbE"
    )]
    Unreadable(String),
    /// A rate that Ethernet does not have.
    #[error(
        "{0} Gb/s is no rate of Ethernet: there are 10, 25, 40, 50, 56, 100, 200, 400, 800 and 1600GbE"
    )]
    NoEthernet(u64),
    /// An Ethernet rate for InfiniBand.
    #[error(
        "{0} is Ethernet: name lanes and speed of the InfiniBand port ('4x NDR'), or a RoCE or TCP fabric"
    )]
    NotInfiniBand(Link),
}

impl Link {
    /// Data rate in bit/s as an InfiniBand port.
    pub fn infiniband_bps(self) -> Result<u64, LinkError> {
        match self {
            Link::Lanes(lanes, speed) => Ok(speed.data_bps(lanes)),
            Link::Ethernet(_) => Err(LinkError::NotInfiniBand(self)),
        }
    }

    /// Data rate in bit/s as an Ethernet port: nominal.
    pub fn ethernet_bps(self) -> u64 {
        match self {
            Link::Lanes(lanes, speed) => speed.ethernet_bps(lanes),
            Link::Ethernet(rate) => rate.bps(),
        }
    }
}

impl EthernetRate {
    /// Data rate in bit/s.
    pub fn bps(self) -> u64 {
        self.gbps * 1_000_000_000
    }

    /// The fastest rate of Ethernet that is not above `bps`: bonds and shaped ports have others.
    pub fn at_most(bps: u64) -> Option<EthernetRate> {
        let gbps = ETHERNET_GBPS.into_iter().rev().find(|gbps| gbps * 1_000_000_000 <= bps)?;
        Some(EthernetRate { gbps })
    }

    /// Gb/s.
    pub fn gbps(self) -> u64 {
        self.gbps
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Link::Lanes(lanes, speed) => write!(f, "{lanes}x {}", speed.name),
            Link::Ethernet(rate) => write!(f, "{}GbE", rate.gbps),
        }
    }
}

impl FromStr for Link {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let unreadable = || LinkError::Unreadable(text.to_owned());
        let words: Vec<&str> = text.split_whitespace().collect();
        let joined = words.concat().to_ascii_uppercase();
        if let Some((_, lanes, name)) = PRODUCTS.into_iter().find(|(own, ..)| *own == joined) {
            return LaneSpeed::by_name(name).map(|s| Link::Lanes(lanes, s)).ok_or_else(unreadable);
        }
        let digits = joined.find(|c: char| !c.is_ascii_digit()).unwrap_or(joined.len());
        let number: u64 = joined[..digits].parse().map_err(|_| unreadable())?;
        match &joined[digits..] {
            "GBE" | "G" => match ETHERNET_GBPS.contains(&number) {
                true => Ok(Link::Ethernet(EthernetRate { gbps: number })),
                false => Err(LinkError::NoEthernet(number)),
            },
            tail => {
                let name = tail.strip_prefix('X').ok_or_else(unreadable)?;
                let speed = LaneSpeed::by_name(name).ok_or_else(unreadable)?;
                let lanes = [1_u32, 2, 4, 8, 12].into_iter().find(|l| u64::from(*l) == number);
                lanes.map(|lanes| Link::Lanes(lanes, speed)).ok_or_else(unreadable)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_as_people_write_them() {
        let cases = [
            ("4x ndr", "4x NDR", 400),
            ("4X NDR", "4x NDR", 400),
            ("2xHDR", "2x HDR", 100),
            ("hdr100", "2x HDR", 100),
            ("NDR200", "2x NDR", 200),
            ("12x EDR", "12x EDR", 300),
            ("4x XDR", "4x XDR", 800),
        ];
        for (text, printed, gbps) in cases {
            let link: Link = text.parse().unwrap();
            assert_eq!(link.to_string(), printed, "{text}");
            assert_eq!(link.infiniband_bps(), Ok(gbps * 1_000_000_000), "{text}");
        }
        let ethernet: Link = "400GbE".parse().unwrap();
        assert_eq!(ethernet.ethernet_bps(), 400_000_000_000);
        assert_eq!("100g".parse::<Link>(), "100GbE".parse());
        assert!(ethernet.infiniband_bps().unwrap_err().to_string().contains("400GbE is Ethernet"));
    }

    #[test]
    fn what_is_no_link_is_refused_with_what_would_be_one() {
        for text in ["", "ndr", "3x NDR", "0x NDR", "4x WDR", "4 NDR", "-4x NDR", "4x NDR EDR", "ü"]
        {
            let error = text.parse::<Link>().unwrap_err();
            assert!(error.to_string().contains("'4x NDR'"), "{text:?}: {error}");
        }
        assert_eq!("300GbE".parse::<Link>(), Err(LinkError::NoEthernet(300)));
    }

    #[test]
    fn odd_rates_of_ethernet_go_to_the_class_below() {
        let class = |gbps: u64| EthernetRate::at_most(gbps * 1_000_000_000).map(EthernetRate::gbps);
        assert_eq!(
            [class(200), class(250), class(1), class(9999)],
            [Some(200), Some(200), None, Some(1600)]
        );
    }
}
