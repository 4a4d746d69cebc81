//! Sizes in bytes as people write them: `8`, `64KiB`, `2..8MiB`, `around-mtu`.

use crate::plan::{Op, Transport};
use crate::possible::PathLimits;

/// Largest message or volume in one piece: 1 GiB.
pub const MAX_SIZE: u64 = 1 << 30;

/// Largest path MTU of verbs, bytes.
const LARGEST_MTU: u32 = 4096;

/// Bytes of an atomic operation.
pub const ATOMIC_SIZE: u64 = 8;

/// A size that cannot be read or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a number with a known unit.
    #[error("{0:?} is no size: write bytes as 8, 64KiB, 1MiB or 1GiB")]
    Unreadable(String),
    /// From a larger to a smaller one.
    #[error("{0} runs backwards: write the smaller size first")]
    Backwards(String),
    /// The path MTU is asked for where there is none.
    #[error("{AROUND_MTU}: {0}: give the sizes themselves")]
    NoMtu(&'static str),
    /// More than [`MAX_SIZE`].
    #[error("{0} is too large: at most 1GiB")]
    TooLarge(String),
    /// Zero bytes where there must be some.
    #[error("size 0 is legal for SEND and WRITE only, not for {0}")]
    Zero(&'static str),
    /// Atomics have one size.
    #[error("{op} is of 8 bytes, not of {size}: use --size 8", size = size_text(*size))]
    NotAtomic {
        /// Operation.
        op: &'static str,
        /// As asked.
        size: u64,
    },
    /// More than one packet.
    #[error(
        "messages of {size} do not fit a datagram: at most {limit}, the path MTU",
        size = size_text(*size), limit = size_text(u64::from(*limit))
    )]
    AboveMtu {
        /// As asked.
        size: u64,
        /// The path MTU, or the largest there is while it is not known.
        limit: u32,
    },
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

/// The word for MTU − 1, MTU and MTU + 1.
pub const AROUND_MTU: &str = "around-mtu";

/// Sizes as asked for; some may depend on a path that is not chosen yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeList(Vec<Wanted>);

/// One entry of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Bytes(u64),
    AroundMtu,
}

impl SizeList {
    /// Reads sizes separated by commas: single ones, ranges (`2..8MiB`: both ends and every power
    /// of two between them) and [`AROUND_MTU`].
    ///
    /// # Errors
    /// What is no size, too large, or runs backwards.
    pub fn parse(text: &str) -> Result<SizeList, SizeError> {
        let mut list = Vec::new();
        for part in text.split(',').map(str::trim) {
            match part.split_once("..") {
                _ if part == AROUND_MTU => list.push(Wanted::AroundMtu),
                Some((from, to)) => {
                    let sizes = doubling(part, parse_size(from)?, parse_size(to)?)?;
                    list.extend(sizes.into_iter().map(Wanted::Bytes));
                }
                None => list.push(Wanted::Bytes(parse_size(part)?)),
            }
        }
        Ok(SizeList(list))
    }

    /// The sizes that depend on nothing.
    pub fn fixed(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().filter_map(|wanted| match wanted {
            Wanted::Bytes(bytes) => Some(*bytes),
            Wanted::AroundMtu => None,
        })
    }

    /// Whether the path MTU decides.
    pub fn needs_mtu(&self) -> bool {
        self.0.contains(&Wanted::AroundMtu)
    }

    /// All sizes in the order asked for, each once; `mtu` is that of the path, in bytes.
    pub fn resolve(&self, mtu: u32) -> Vec<u64> {
        let mtu = u64::from(mtu);
        let all = self.0.iter().flat_map(|wanted| match wanted {
            Wanted::Bytes(bytes) => vec![*bytes],
            Wanted::AroundMtu => vec![mtu.saturating_sub(1), mtu, mtu + 1],
        });
        let mut seen = std::collections::BTreeSet::new();
        all.filter(|size| seen.insert(*size)).collect()
    }
}

/// Both ends and every power of two between them.
fn doubling(text: &str, from: u64, to: u64) -> Result<Vec<u64>, SizeError> {
    if from > to {
        return Err(SizeError::Backwards(text.to_owned()));
    }
    let powers = (0..=MAX_SIZE.ilog2()).map(|shift| 1 << shift);
    let between = powers.filter(|power| from < *power && *power < to);
    let mut sizes: Vec<u64> = std::iter::once(from).chain(between).collect();
    if to > from {
        sizes.push(to);
    }
    Ok(sizes)
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
    limits: &PathLimits,
) -> Result<(), SizeError> {
    match op {
        Op::Send | Op::SendImm | Op::Write | Op::WriteImm => {}
        Op::FetchAdd | Op::CmpSwap if size == ATOMIC_SIZE => {}
        Op::FetchAdd | Op::CmpSwap => return Err(SizeError::NotAtomic { op: op.text(), size }),
        _ if size > 0 => {}
        Op::Read => return Err(SizeError::Zero("READ")),
        Op::RequestResponse => return Err(SizeError::Zero("TCP request and response")),
        Op::Stream => return Err(SizeError::Zero("TCP streams")),
    }
    if size > MAX_SIZE {
        return Err(SizeError::TooLarge(size_text(size)));
    }
    if transport == Transport::Ud {
        let limit = limits.mtu.unwrap_or(LARGEST_MTU);
        if size > u64::from(limit) {
            return Err(SizeError::AboveMtu { size, limit });
        }
    }
    let most = limits.max_message_bytes.filter(|_| transport.is_verbs());
    match most.filter(|limit| size > *limit) {
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
    }

    #[test]
    fn lists_hold_sizes_ranges_and_what_the_path_decides() {
        let sizes = |text: &str| SizeList::parse(text).unwrap().resolve(1024);
        assert_eq!(sizes("8, 64KiB"), [8, 65_536]);
        assert_eq!(sizes("2..16"), [2, 4, 8, 16]);
        assert_eq!(sizes("3..20,8"), [3, 4, 8, 16, 20]);
        assert_eq!(sizes("0..2"), [0, 1, 2]);
        assert_eq!(sizes("8..8"), [8]);
        assert_eq!(sizes("2..8MiB").len(), 23);
        assert_eq!(sizes("around-mtu,1024"), [1023, 1024, 1025]);
        let list = SizeList::parse("64,around-mtu").unwrap();
        assert!(list.needs_mtu() && !SizeList::parse("64").unwrap().needs_mtu());
        assert_eq!(list.fixed().collect::<Vec<_>>(), [64]);
        assert_eq!(list.resolve(4096), [64, 4095, 4096, 4097]);
    }

    #[test]
    fn absurd_sizes_are_refused_with_a_reason() {
        for text in ["", "KiB", "-1", "1.5MiB", "64KB", "8x", "1e9"] {
            assert!(matches!(parse_size(text), Err(SizeError::Unreadable(_))), "{text:?}");
        }
        for text in ["2GiB", "1073741825", "99999999999999999999", "18446744073709551615G"] {
            assert!(matches!(parse_size(text), Err(SizeError::TooLarge(_))), "{text}");
        }
        for text in ["8,,16", "8..", "..8", "8...16", "2..8..16", "around mtu", "2-8"] {
            assert!(SizeList::parse(text).is_err(), "{text:?}");
        }
        let backwards = SizeList::parse("8MiB..2").unwrap_err().to_string();
        assert_eq!(backwards, "8MiB..2 runs backwards: write the smaller size first");
    }

    #[test]
    fn operations_and_ports_have_limits() {
        let limits = PathLimits { max_message_bytes: Some(8 << 20), ..PathLimits::default() };
        let check = |size, op| check_size(size, Transport::Rc, op, &limits);
        assert_eq!(check(0, Op::Send), Ok(()));
        assert_eq!(check(0, Op::Write), Ok(()));
        assert!(check(0, Op::Read).unwrap_err().to_string().contains("not for READ"));
        assert!(check_size(0, Transport::Tcp, Op::Stream, &limits).is_err());
        assert_eq!(
            check(16 << 20, Op::Write).unwrap_err().to_string(),
            "messages of 16 MiB do not fit: the port takes at most 8 MiB"
        );
        assert_eq!(check_size(16 << 20, Transport::Tcp, Op::Stream, &limits), Ok(()));
    }
}
