//! What can be measured at all: test × operation × transport × size, asked before an agent starts
//! and again once the path is known.

use crate::plan::{Op, Test, Transport};
use crate::size::{SizeError, check_size};

/// What a path can carry, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathLimits {
    /// Largest message that both ports take, bytes.
    pub max_message_bytes: Option<u64>,
    /// Path MTU, bytes.
    pub mtu: Option<u32>,
    /// Whether both devices do atomic operations.
    pub atomics: Option<bool>,
}

/// Why a case cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The transport does not carry the operation.
    #[error("there is no {test} of {op} over {transport}: {why}")]
    Pair {
        /// Test.
        test: &'static str,
        /// Operation.
        op: &'static str,
        /// Transport.
        transport: &'static str,
        /// Which rule, and what would do.
        why: &'static str,
    },
    /// A device on the path lacks it.
    #[error("{op}: a device on this path offers no atomic operations (atomic_cap is none)")]
    NoAtomics {
        /// Operation.
        op: &'static str,
    },
    /// The size.
    #[error(transparent)]
    Size(#[from] SizeError),
}

/// Refuses what cannot be measured, with the reason.
///
/// # Errors
/// The rule that stands against it.
pub fn refusal(
    test: Test,
    op: Op,
    transport: Transport,
    size: u64,
    limits: &PathLimits,
) -> Result<(), Refusal> {
    if let Some(why) = contradiction(test, op, transport) {
        let (test, op, transport) = (test.word(), op.text(), transport.word());
        return Err(Refusal::Pair { test, op, transport, why });
    }
    check_size(size, transport, op, limits)?;
    if op.is_atomic() && limits.atomics == Some(false) {
        return Err(Refusal::NoAtomics { op: op.text() });
    }
    Ok(())
}

/// Which rule the three contradict, whatever the size.
fn contradiction(test: Test, op: Op, transport: Transport) -> Option<&'static str> {
    let verbs = op.is_message() || op.fetches();
    match (transport, op) {
        (Transport::Tcp, Op::RequestResponse) if test == Test::Latency => None,
        (Transport::Tcp, Op::Stream) if test != Test::Latency => None,
        (Transport::Tcp, _) => {
            Some("over sockets, latency is of request_response and all else of stream")
        }
        (_, _) if !verbs => Some("it is of sockets: use tcp"),
        (Transport::Uc, op) if op.fetches() => {
            Some("an unreliable connection brings nothing back: use rc")
        }
        (Transport::Ud, op) if op.fetches() => Some("a datagram brings nothing back: use rc"),
        (Transport::Ud, Op::Write | Op::WriteImm) => {
            Some("a datagram goes into a posted receive, not to an address: use send, or rc or uc")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(test: Test, op: Op, transport: Transport, size: u64, limits: PathLimits) -> String {
        refusal(test, op, transport, size, &limits)
            .map_or_else(|refusal| refusal.to_string(), |()| String::new())
    }

    #[test]
    fn everything_goes_over_reliable_connections() {
        let sizes = [
            (Op::Send, 0),
            (Op::SendImm, 0),
            (Op::Write, 65_536),
            (Op::WriteImm, 0),
            (Op::Read, 1),
            (Op::FetchAdd, 8),
            (Op::CmpSwap, 8),
        ];
        for test in [Test::Integrity, Test::Latency, Test::Bandwidth, Test::MessageRate] {
            for (op, size) in sizes {
                let found = why(test, op, Transport::Rc, size, PathLimits::default());
                assert_eq!(found, "", "{test:?} {op:?}");
            }
        }
    }

    #[test]
    fn sizes_of_reads_and_atomics_have_rules() {
        let over_rc = |op, size| why(Test::Latency, op, Transport::Rc, size, PathLimits::default());
        assert!(over_rc(Op::Read, 0).contains("not for READ"));
        assert_eq!(over_rc(Op::FetchAdd, 4), "FETCH_ADD is of 8 bytes, not of 4 B: use --size 8");
        assert_eq!(over_rc(Op::CmpSwap, 0), "CMP_SWAP is of 8 bytes, not of 0 B: use --size 8");
    }

    #[test]
    fn what_may_be_lost_carries_messages_only() {
        let none = PathLimits::default();
        for test in [Test::Integrity, Test::Latency, Test::Bandwidth, Test::MessageRate] {
            for op in [Op::Send, Op::SendImm, Op::Write, Op::WriteImm] {
                assert_eq!(why(test, op, Transport::Uc, 65_536, none), "");
                let datagram = why(test, op, Transport::Ud, 1024, none);
                assert_eq!(datagram.is_empty(), matches!(op, Op::Send | Op::SendImm), "{datagram}");
            }
            for op in [Op::Read, Op::FetchAdd, Op::CmpSwap] {
                for transport in [Transport::Uc, Transport::Ud] {
                    let text = why(test, op, transport, 8, none);
                    assert!(text.contains("brings nothing back: use rc"), "{text}");
                }
            }
        }
        assert!(why(Test::Latency, Op::Read, Transport::Uc, 8, none).starts_with(
            "there is no latency of READ over uc: an unreliable connection brings nothing back"
        ));
    }

    #[test]
    fn a_datagram_is_one_packet() {
        let over = |size, mtu| {
            let limits = PathLimits { mtu, ..PathLimits::default() };
            why(Test::Bandwidth, Op::Send, Transport::Ud, size, limits)
        };
        assert_eq!((over(4096, None), over(1024, Some(1024))), (String::new(), String::new()));
        assert!(over(8192, None).contains("8 KiB do not fit a datagram: at most 4 KiB"));
        assert!(over(2048, Some(1024)).contains("at most 1 KiB, the path MTU"));
    }

    #[test]
    fn sockets_have_operations_of_their_own() {
        let none = PathLimits::default();
        let text = why(Test::Bandwidth, Op::Stream, Transport::Rc, 8, none);
        assert!(text.starts_with("there is no bandwidth of TCP streams over rc"), "{text}");
        assert!(!why(Test::Latency, Op::Stream, Transport::Tcp, 8, none).is_empty());
        assert!(!why(Test::Latency, Op::Write, Transport::Tcp, 8, none).is_empty());
        assert_eq!(why(Test::Latency, Op::RequestResponse, Transport::Tcp, 8, none), "");
    }

    #[test]
    fn a_device_without_atomics_is_told() {
        let lacking = PathLimits { atomics: Some(false), ..PathLimits::default() };
        let text = why(Test::Latency, Op::FetchAdd, Transport::Rc, 8, lacking);
        assert!(text.starts_with("FETCH_ADD: a device on this path offers no atomic"), "{text}");
        assert_eq!(why(Test::Latency, Op::Read, Transport::Rc, 8, lacking), "");
    }
}
