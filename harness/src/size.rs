//! Sizes in bytes as people write them: `8`, `64KiB`, `1MiB`.

use crate::plan::{Op, Transport};

/// Largest message or volume in one piece: 1 GiB.
pub const MAX_SIZE: u64 = 1 << 30;

/// A size that cannot be read or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a number with a known unit.
    #[error("{0:?} is no size: write bytes as 8, 64KiB, 1MiB or 1GiB")]
    Unreadable(String),
    /// More than [`MAX_SIZE`].
    #[error("{0} is too large: at most 1GiB")]
    TooLarge(String),
    /// Zero bytes where there must be some.
    #[error("size 0 is legal for SEND and WRITE only, not for {0}")]
    Zero(&'static str),
    /// More than the port takes.
    #[error("messages of {size} do not fit: the port takes at most {limit}", size = size_text(*size), limit = size_text(*limit))]
    AbovePort {
        /// As asked.
        size: u64,
        /// The port's `max_msg_sz`.
        limit: u64,
    },
}

/// Reads a size. `K`, `M`, `G` with or without `i` or `iB` are binary (1 KiB = 1024 bytes); `KB`
/// and the like are refused, since they mean two things.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let unreadable = || SizeError::Unreadable(text.to_owned());
    let shift = match trimmed[digits..].trim_start() {
        "" | "B" => 0,
        "K" | "k" | "Ki" | "KiB" => 10,
        "M" | "Mi" | "MiB" => 20,
        "G" | "Gi" | "GiB" => 30,
        _ => return Err(unreadable()),
    };
    if digits == 0 {
        return Err(unreadable());
    }
    let too_large = || SizeError::TooLarge(text.to_owned());
    let number: u64 = trimmed[..digits].parse().map_err(|_| too_large())?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(too_large)?;
    if bytes > MAX_SIZE { Err(too_large()) } else { Ok(bytes) }
}

/// Reads sizes separated by commas.
pub fn parse_sizes(text: &str) -> Result<Vec<u64>, SizeError> {
    text.split(',').map(parse_size).collect()
}

/// A size as people read it: in the largest binary unit that divides it, else in bytes.
pub fn size_text(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = |shift: &u32| bytes != 0 && bytes.is_multiple_of(1 << shift);
    match units.into_iter().find(|(shift, _)| fits(shift)) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} B"),
    }
}

/// Refuses a message size that the operation or the port cannot carry.
pub fn check_size(
    size: u64,
    transport: Transport,
    op: Op,
    port_limit: Option<u64>,
) -> Result<(), SizeError> {
    match op {
        Op::Send | Op::Write => {}
        _ if size > 0 => {}
        Op::Read => return Err(SizeError::Zero("READ")),
        Op::RequestResponse => return Err(SizeError::Zero("TCP request and response")),
        Op::Stream => return Err(SizeError::Zero("TCP streams")),
    }
    if size > MAX_SIZE {
        return Err(SizeError::TooLarge(size_text(size)));
    }
    match port_limit.filter(|limit| transport == Transport::Rc && size > *limit) {
        Some(limit) => Err(SizeError::AbovePort { size, limit }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_printed() {
        let cases = [
            ("0", 0, "0 B"),
            ("8", 8, "8 B"),
            ("64KiB", 65_536, "64 KiB"),
            ("64 K", 65_536, "64 KiB"),
            ("1025", 1025, "1025 B"),
            ("1536", 1536, "1536 B"),
            ("1MiB", 1 << 20, "1 MiB"),
            ("1G", 1 << 30, "1 GiB"),
        ];
        for (text, bytes, printed) in cases {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
            assert_eq!(size_text(bytes), printed);
        }
        assert_eq!(parse_sizes("8,64KiB"), Ok(vec![8, 65_536]));
    }

    #[test]
    fn absurd_sizes_are_refused_with_a_reason() {
        for text in ["", "KiB", "-1", "1.5MiB", "64KB", "8x", "1e9"] {
            assert!(matches!(parse_size(text), Err(SizeError::Unreadable(_))), "{text:?}");
        }
        for text in ["2GiB", "1073741825", "99999999999999999999", "18446744073709551615G"] {
            assert!(matches!(parse_size(text), Err(SizeError::TooLarge(_))), "{text}");
        }
        assert!(parse_sizes("8,,16").is_err());
    }

    #[test]
    fn operations_and_ports_have_limits() {
        let check = |size, op| check_size(size, Transport::Rc, op, Some(8 << 20));
        assert_eq!(check(0, Op::Send), Ok(()));
        assert_eq!(check(0, Op::Write), Ok(()));
        assert!(check(0, Op::Read).unwrap_err().to_string().contains("not for READ"));
        assert!(check_size(0, Transport::Tcp, Op::Stream, None).is_err());
        assert_eq!(
            check(16 << 20, Op::Write).unwrap_err().to_string(),
            "messages of 16 MiB do not fit: the port takes at most 8 MiB"
        );
        assert_eq!(check_size(16 << 20, Transport::Tcp, Op::Stream, Some(8 << 20)), Ok(()));
    }
}
