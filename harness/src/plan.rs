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

/// How a case's bytes move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Verbs, reliable connected.
    Rc,
    /// TCP sockets.
    Tcp,
    /// Nothing moves: the loops' own cost.
    Null,
}

/// What a case does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// SEND into a posted receive.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// TCP request and response.
    RequestResponse,
    /// TCP stream.
    Stream,
}

/// Which host's payload moves. For READ the payload flows against the initiator's requests.
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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tuning {
    /// Bandwidth and message rate: ends a repeat after so many messages per QP, if before its time.
    pub iterations: Option<u64>,
    /// Most messages started by one call; none for as many as there is room for, up to 32.
    pub post_list: Option<u32>,
}

/// Longest interval of a series.
const LONGEST_INTERVAL_NS: u64 = 100_000_000;

/// Fewest intervals of a window, so that ends which begin a little apart share most of them.
const FEWEST_INTERVALS: u64 = 8;

/// A window of about `window_ns` that is a whole number of intervals, and their length, ns.
pub fn in_intervals(window_ns: u64) -> (u64, u64) {
    let count = window_ns.div_ceil(LONGEST_INTERVAL_NS).max(FEWEST_INTERVALS);
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
    }
}
