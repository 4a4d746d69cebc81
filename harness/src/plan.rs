//! What is to be measured: cases, resolved from a suite or from flags.

use serde::{Deserialize, Serialize};

/// What a case measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Every byte arrives where it belongs; untimed.
    Integrity,
    /// Time of one message.
    Latency,
    /// Payload per second.
    Bandwidth,
    /// Small messages per second.
    MessageRate,
}

/// The test's word in reports of bandwidth that did not leave its host: no fabric's figure.
pub const LOOPBACK: &str = "loopback";

impl Test {
    /// The word of ids and reports.
    pub fn word(self) -> &'static str {
        match self {
            Test::Integrity => "integrity",
            Test::Latency => "latency",
            Test::Bandwidth => "bandwidth",
            Test::MessageRate => "message_rate",
        }
    }
}

/// How a case's bytes move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Verbs, reliable connected.
    Rc,
    /// Verbs, unreliable connected.
    Uc,
    /// Verbs, unreliable datagrams of one packet.
    Ud,
    /// TCP sockets.
    Tcp,
    /// Nothing moves: the loops' own cost.
    Null,
}

impl Transport {
    /// RDMA of any kind.
    pub fn is_verbs(self) -> bool {
        matches!(self, Transport::Rc | Transport::Uc | Transport::Ud)
    }

    /// Owes each message.
    pub fn is_reliable(self) -> bool {
        !matches!(self, Transport::Uc | Transport::Ud)
    }

    /// The word of ids, flags and reports.
    pub fn word(self) -> &'static str {
        match self {
            Transport::Rc => "rc",
            Transport::Uc => "uc",
            Transport::Ud => "ud",
            Transport::Tcp => "tcp",
            Transport::Null => "null",
        }
    }
}

/// What a case does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// SEND into a posted receive.
    Send,
    /// SEND with immediate data.
    SendImm,
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate data, which takes a posted receive.
    WriteImm,
    /// RDMA READ.
    Read,
    /// Atomic fetch-and-add of 8 bytes.
    FetchAdd,
    /// Atomic compare-and-swap of 8 bytes.
    CmpSwap,
    /// TCP request and response.
    RequestResponse,
    /// TCP stream.
    Stream,
}

impl Op {
    /// The word of ids, flags and reports.
    pub fn word(self) -> &'static str {
        match self {
            Op::Send => "send",
            Op::SendImm => "send_imm",
            Op::Write => "write",
            Op::WriteImm => "write_imm",
            Op::Read => "read",
            Op::FetchAdd => "fetch_add",
            Op::CmpSwap => "cmp_swap",
            Op::RequestResponse => "request_response",
            Op::Stream => "stream",
        }
    }

    /// As people write it.
    pub fn text(self) -> &'static str {
        match self {
            Op::Send => "SEND",
            Op::SendImm => "SEND with immediate",
            Op::Write => "WRITE",
            Op::WriteImm => "WRITE with immediate",
            Op::Read => "READ",
            Op::FetchAdd => "FETCH_ADD",
            Op::CmpSwap => "CMP_SWAP",
            Op::RequestResponse => "TCP request/response",
            Op::Stream => "TCP streams",
        }
    }

    /// An atomic on 8 bytes of the peer's memory.
    pub fn is_atomic(self) -> bool {
        matches!(self, Op::FetchAdd | Op::CmpSwap)
    }

    /// The payload comes back to who asks, and the peer sees nothing of it: READ and the atomics.
    pub fn fetches(self) -> bool {
        self == Op::Read || self.is_atomic()
    }

    /// Goes where a receive of the peer says, and takes that receive.
    pub fn is_send(self) -> bool {
        matches!(self, Op::Send | Op::SendImm)
    }

    /// The peer answers with a message of the same kind, so that half of a round trip is one
    /// message.
    pub fn is_message(self) -> bool {
        matches!(self, Op::Send | Op::SendImm | Op::Write | Op::WriteImm)
    }
}

/// Which host's payload moves. For READ and atomics the payload (what stood in the peer's memory)
/// flows against the initiator's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// From the first host to the second.
    #[serde(rename = "a-b")]
    AToB,
    /// From the second host to the first.
    #[serde(rename = "b-a")]
    BToA,
    /// Both at once over a common window.
    #[serde(rename = "both")]
    Both,
}

/// One measured point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Stable within comparable runs, e.g. `bandwidth/rc/write/65536/rail0/a-b`.
    pub id: String,
    /// Test.
    pub test: Test,
    /// Transport.
    pub transport: Transport,
    /// Operation.
    pub op: Op,
    /// Message size.
    pub size_bytes: u64,
    /// Whose payload moves.
    pub direction: Direction,
    /// Index of the rail; none for TCP over a route that is no rail.
    pub rail: Option<usize>,
    /// Both ends are this host's (0 for the first) end of the rail: a port against itself.
    #[serde(default)]
    pub loopback: Option<usize>,
    /// Id of the case that this one repeats, or helps to explain, since it would fail.
    #[serde(default)]
    pub retest_of: Option<String>,
    /// Everything else.
    pub knobs: Knobs,
}

/// Cases that run at the same time; groups run one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// What people call it, e.g. `bandwidth 64KiB WRITE, all rails together`.
    pub title: String,
    /// At least one.
    pub cases: Vec<Case>,
}

/// The knobs of a case. Times in ns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Knobs {
    /// Queue pairs or sockets over all threads.
    pub qps: u32,
    /// Threads on each side.
    pub threads: u32,
    /// Sends outstanding per QP.
    pub tx_depth: u32,
    /// Receives posted per QP.
    pub rx_depth: u32,
    /// Bytes that may be carried inline; none for as many as the QP grants up to the message size.
    pub inline: Option<u32>,
    /// A completion every so many sends.
    pub signal_every: u32,
    /// Warm-up before each repeat.
    pub warmup_ns: u64,
    /// Measured window of each repeat.
    pub window_ns: u64,
    /// Interval of the series.
    pub interval_ns: u64,
    /// Repeats.
    pub repeats: u32,
    /// Latency: ends a repeat after so many rounds, if before its time; none for time alone.
    pub rounds: Option<u64>,
    /// Integrity: bytes to verify in each direction.
    pub volume_bytes: u64,
    /// What only a single case sets.
    #[serde(default)]
    pub tuning: Tuning,
}

/// Knobs that no suite sets; by default each is as suites have it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tuning {
    /// Bandwidth and message rate: ends a repeat after so many messages per QP, if before its time.
    pub iterations: Option<u64>,
    /// Most messages started by one call; none for as many as there is room for, up to 32.
    pub post_list: Option<u32>,
    /// Path MTU asked for, bytes; the rail's path has what came of it.
    pub mtu: Option<u32>,
    /// GID index asked for on both ends; likewise.
    pub gid_index: Option<u32>,
    /// Service level.
    pub sl: Option<u8>,
    /// Traffic class byte.
    pub traffic_class: Option<u8>,
    /// Index into the partition key table.
    pub pkey_index: Option<u16>,
    /// Flow labels of the global route header, one QP after the other; empty for the driver's.
    pub flow_labels: Vec<u32>,
    /// The queue pairs of an end take their receives from one queue.
    pub srq: bool,
    /// Sends are posted by `ibv_wr_*` and completions read field by field.
    pub extended: bool,
    /// READs outstanding per QP; none for as many as both devices can.
    pub outstanding_reads: Option<u8>,
    /// Retries after a time-out, at most 7.
    pub retry_count: Option<u8>,
    /// Retries where the peer had no receive; 7 is for ever.
    pub rnr_retry: Option<u8>,
    /// RC ack time-out exponent (4.096 µs · 2^n); 0 is for ever.
    pub timeout: Option<u8>,
    /// The device may reorder its writes; none for "where that is sound".
    pub relaxed_ordering: Option<bool>,
    /// How completions are waited for; none for what suits the device.
    pub poll: Option<Poll>,
    /// Most payload per second in each direction, bit/s.
    pub rate_limit_bps: Option<u64>,
    /// CPUs, one for each measuring thread in turn; empty for those of [`Tuning::cpu_set`].
    pub cpus: Vec<u32>,
    /// CPUs among which all threads of this end may move: chosen for it; empty for all.
    pub cpu_set: Vec<u32>,
    /// NUMA node of the buffers, and of the threads unless CPUs are listed.
    pub numa_node: Option<u32>,
    /// Buffers in huge pages of 2 MiB.
    pub huge_pages: bool,
    /// Bytes that the payload cycles through on each side; none for few enough to stay in a cache.
    pub working_set_bytes: Option<u64>,
    /// Latency: rounds begin at this distance from each other, ns, and are timed from when they were
    /// due; none for each as soon as the one before it is over.
    pub schedule_ns: Option<u64>,
}

/// How completions are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Poll {
    /// Looking again and again.
    Busy,
    /// Asleep until the device tells of one.
    Event,
}

/// Longest interval of a series, unless there would be too many.
const LONGEST_INTERVAL_NS: u64 = 100_000_000;

/// Most intervals of a window: a series of a day is no longer than that of ten minutes.
const MOST_INTERVALS: u64 = 6000;

/// Fewest intervals of a window, so that ends which begin a little apart share most of them.
const FEWEST_INTERVALS: u64 = 8;

/// A window of about `window_ns` that is a whole number of intervals, and their length, ns.
pub fn in_intervals(window_ns: u64) -> (u64, u64) {
    let count = window_ns.div_ceil(LONGEST_INTERVAL_NS).clamp(FEWEST_INTERVALS, MOST_INTERVALS);
    let interval_ns = (window_ns / count).max(1);
    (interval_ns * count, interval_ns)
}

#[cfg(test)]
mod tests {
    use super::in_intervals;

    #[test]
    fn a_window_is_whole_intervals_and_at_least_eight() {
        let ms = 1_000_000;
        assert_eq!(in_intervals(1000 * ms), (1000 * ms, 100 * ms));
        assert_eq!(in_intervals(500 * ms), (500 * ms, 500 * ms / 8));
        assert_eq!(in_intervals(1250 * ms), (13 * (1250 * ms / 13), 1250 * ms / 13));
        assert_eq!(in_intervals(10 * ms), (10 * ms, 10 * ms / 8));
        assert_eq!(in_intervals(0), (8, 1));
        let day = 86_400_000 * ms;
        assert_eq!(in_intervals(day), (day, day / 6000), "a long series is coarser, not longer");
        assert_eq!(in_intervals(600_000 * ms), (600_000 * ms, 100 * ms));
    }
}
