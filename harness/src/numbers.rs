//! Lists of numbers as people write them: `3`, `0-3,8`, `49152..49159`.

/// A list that cannot be read or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NumbersError {
    /// No list of numbers.
    #[error("{0:?} is no list of numbers: write 3, or 0-3,8")]
    Unreadable(String),
    /// From a larger to a smaller one.
    #[error("{0} runs backwards: write the smaller number first")]
    Backwards(String),
    /// Outside what is possible.
    #[error("{number} is not in {low}..={high}")]
    Outside {
        /// As asked.
        number: u64,
        /// Lowest.
        low: u32,
        /// Highest.
        high: u32,
    },
    /// More than anybody can mean.
    #[error("{0} numbers are more than the {MOST} that a list may hold")]
    TooMany(u64),
}

/// Most numbers of a list.
pub const MOST: u64 = 4096;

/// Reads numbers from `low` to `high` separated by commas, ranges with both ends (`a-b` or `a..b`)
/// among them, in the order written.
///
/// # Errors
/// What is no such list.
pub fn parse_numbers(text: &str, low: u32, high: u32) -> Result<Vec<u32>, NumbersError> {
    let mut numbers = Vec::new();
    for part in text.split(',').map(str::trim) {
        let ends = part.split_once("..").or_else(|| part.split_once('-'));
        let (from, to) = ends.unwrap_or((part, part));
        let (from, to) = (one(text, from, low, high)?, one(text, to, low, high)?);
        if from > to {
            return Err(NumbersError::Backwards(part.to_owned()));
        }
        let count = numbers.len() as u64 + u64::from(to - from) + 1;
        if count > MOST {
            return Err(NumbersError::TooMany(count));
        }
        numbers.extend(from..=to);
    }
    Ok(numbers)
}

fn one(text: &str, digits: &str, low: u32, high: u32) -> Result<u32, NumbersError> {
    let digits = digits.trim();
    let unreadable = || NumbersError::Unreadable(text.to_owned());
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(unreadable());
    }
    let number: u64 = digits.parse().map_err(|_| unreadable())?;
    match u32::try_from(number) {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => Err(NumbersError::Outside { number, low, high }),
    }
}

/// UDP source port that the kernel and the adapters make of a flow label (rdma_flow_label_to_udp_sport
/// of Linux): the upper six bits folded into the lower fourteen, in the dynamic range.
pub fn udp_sport(flow_label: u32) -> u16 {
    let low = (flow_label & 0x3fff) ^ ((flow_label & 0xf_c000) >> 14);
    (low | 0xc000) as u16
}

/// A flow label whose packets leave from that UDP source port, 49152 or above.
pub fn flow_label(udp_sport: u16) -> u32 {
    u32::from(udp_sport) & 0x3fff
}

/// Lowest UDP source port of RoCE v2.
pub const LOWEST_UDP_SPORT: u32 = 0xc000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_read_in_their_order() {
        let read = |text: &str| parse_numbers(text, 0, 100);
        assert_eq!(read("7"), Ok(vec![7]));
        assert_eq!(read("8, 0-3"), Ok(vec![8, 0, 1, 2, 3]));
        assert_eq!(read("4..6,4"), Ok(vec![4, 5, 6, 4]));
    }

    #[test]
    fn what_is_no_list_is_refused_with_its_limit() {
        for text in ["", ",", "1,,2", "-1", "a", "1-", "1..", "1-2-3", "+1", "1.5"] {
            let refused = parse_numbers(text, 0, 100).unwrap_err();
            assert!(matches!(refused, NumbersError::Unreadable(_)), "{text:?}: {refused}");
        }
        let refused = |text: &str| parse_numbers(text, 2, 9).unwrap_err().to_string();
        assert_eq!(refused("1"), "1 is not in 2..=9");
        assert_eq!(refused("3-12"), "12 is not in 2..=9");
        assert_eq!(refused("99999999999"), "99999999999 is not in 2..=9");
        assert_eq!(refused("9-3"), "9-3 runs backwards: write the smaller number first");
        let many = parse_numbers("0-99999", 0, u32::MAX).unwrap_err();
        assert_eq!(many, NumbersError::TooMany(100_000));
    }

    #[test]
    fn source_ports_and_flow_labels_lead_back_to_each_other() {
        for sport in [0xc000, 0xc001, 0xfff0, 0xffff] {
            assert_eq!(udp_sport(flow_label(sport)), sport);
        }
        // 0xfc000 folds into 0x3f.
        assert_eq!(udp_sport(0xf_c000), 0xc03f);
        assert_eq!(udp_sport(0x1_2345), 0xc000 | (0x2345 ^ 0x4));
        assert!((0..=0xf_ffff).step_by(97).all(|label| udp_sport(label) >= 0xc000));
    }
}
