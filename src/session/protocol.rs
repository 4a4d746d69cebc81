//! What coordinator and agents say to each other, and what the two agents of a case say.
//!
//! Each message is one frame: a 32-bit big-endian length and that many bytes of JSON. A stream
//! begins with a preamble, since a login shell may print before the agent speaks.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use fabbench_harness::plan::{Knobs, Op, Test, Transport, Tuning};
use fabbench_harness::snapshot::{GidKind, HostFacts};
use serde::{Deserialize, Serialize};

use crate::engine::collective::slots::Shape;
use crate::engine::collective::{Row, Sweep};
use crate::transport::Failure;

/// Version of this protocol; both ends must have the same.
pub const PROTOCOL: u32 = 3;

/// Number of a case within a session.
pub type CaseId = u32;

/// From the coordinator to an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToAgent {
    /// First message.
    Hello(Hello),
    /// Asks for [`ToCoordinator::Facts`].
    Facts,
    /// Builds one end of a case; answered by `Listening` (responder) or `Ready` (initiator).
    Prepare(Box<Prepare>),
    /// Prepares one rank of a collective; answered by `Listening`.
    Rank(Box<RankPart>),
    /// Where all ranks of the collective listen; answered by `Ready` once this one is connected.
    Ranks {
        /// Case of the rank that is told.
        case: CaseId,
        /// By rank, best first.
        addresses: Vec<Vec<SocketAddr>>,
    },
    /// To initiators and ranks: start these cases now, together.
    Go(Vec<CaseId>),
    /// Asks how far all cases are: one [`ToCoordinator::Tick`] each.
    Look,
    /// End a case, whatever it does.
    Stop(CaseId),
    /// Still there.
    Heartbeat,
    /// The session is over.
    Bye,
}

/// From an agent to the coordinator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToCoordinator {
    /// First message.
    Hello(Hello),
    /// Facts of this host.
    Facts(Box<HostFacts>),
    /// The responder's end exists and waits for its peer here.
    Listening {
        /// Case.
        case: CaseId,
        /// Where; the initiator tries them in this order.
        addresses: Vec<SocketAddr>,
    },
    /// The initiator's end is connected to the responder's.
    Ready {
        /// Case.
        case: CaseId,
    },
    /// How far a case is on this side.
    Tick {
        /// Case.
        case: CaseId,
        /// Where in its life it is.
        stage: String,
        /// Messages, or round trips, that are over in all repeats so far, warm-ups included.
        moved: u64,
    },
    /// A repeat is over.
    Progress {
        /// Case.
        case: CaseId,
        /// Repeats done.
        done: u32,
    },
    /// A rank has measured one size.
    Row {
        /// Case.
        case: CaseId,
        /// What it measured.
        row: Box<Row>,
    },
    /// The case ended well on this side.
    Done {
        /// Case.
        case: CaseId,
        /// What this side measured.
        side: Box<SideResult>,
    },
    /// The case ended badly on this side; `side` holds the repeats that had ended before.
    Failed {
        /// Case.
        case: CaseId,
        /// resolve, connect, prepare, barrier, warm-up, measure, collect, verify, close.
        stage: String,
        /// Why.
        failure: Failure,
        /// What was measured before.
        side: Box<SideResult>,
    },
    /// Still there.
    Heartbeat,
}

/// Who speaks. Stays readable over all versions of the protocol, so that each can name the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// fabbench version.
    pub version: String,
    /// Commit that it was built from.
    #[serde(default)]
    pub commit: String,
    /// Random name of the session, hexadecimal; also on the agent's command line.
    #[serde(default)]
    pub session: String,
    /// Process id of the speaker.
    #[serde(default)]
    pub pid: u32,
    /// From the coordinator: the silence after which either side gives the other up, ms.
    #[serde(default)]
    pub silence_ms: u64,
}

/// Which end of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Connects, proposes the start.
    Initiator,
    /// Listens.
    Responder,
}

/// One end of a case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Prepare {
    /// Case.
    pub case: CaseId,
    /// Stable name, for messages.
    pub name: String,
    /// End.
    pub role: Role,
    /// What to measure.
    pub test: Test,
    /// How.
    pub transport: Transport,
    /// What.
    pub op: Op,
    /// Message size.
    pub size_bytes: u64,
    /// This end's payload moves to the other (for READ: this end's requests are answered).
    pub sends: bool,
    /// The other end's payload moves to this.
    pub receives: bool,
    /// Knobs.
    pub knobs: Knobs,
    /// Verbs: the way out.
    pub port: Option<PortPath>,
    /// Responder: addresses to listen on for the peer link (and TCP data), best first; initiator:
    /// addresses that the responder listens on.
    pub addresses: Vec<SocketAddr>,
    /// Initiator: local addresses to bind to, best first; empty for any.
    pub bind: Vec<IpAddr>,
    /// 32 random bytes in hexadecimal; a peer must prove that it knows them.
    pub token: String,
}

/// One rank of a collective.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RankPart {
    /// Case: one for each rank.
    pub case: CaseId,
    /// Rank and host, for messages.
    pub name: String,
    /// What it does.
    pub sweep: Sweep,
    /// Addresses to listen on, best first.
    pub addresses: Vec<SocketAddr>,
    /// Local addresses to bind to, best first; empty for any.
    pub bind: Vec<IpAddr>,
    /// 32 random bytes in hexadecimal, the same for all ranks; a peer must prove that it knows
    /// them.
    pub token: String,
    /// Over verbs; none for sockets.
    pub verbs: Option<VerbsPart>,
}

/// What a rank over verbs has to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VerbsPart {
    /// Its way out.
    pub port: PortPath,
    /// Slots and segments, the same for all ranks.
    pub shape: Shape,
    /// Counts what the port counts: one rank of each port does.
    pub counts: bool,
}

/// Which port, GID and settings a verbs endpoint uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortPath {
    /// Device.
    pub device: String,
    /// Port.
    pub port: u8,
    /// GID index; meaningless with `gid_kind` IB and no GRH.
    pub gid_index: u32,
    /// Type of the GID.
    pub gid_kind: GidKind,
    /// Send with a global route header (always on RoCE).
    pub grh: bool,
    /// Path MTU in bytes.
    pub mtu: u32,
    /// Service level.
    pub sl: u8,
    /// Traffic class byte.
    pub traffic_class: u8,
    /// RC ack timeout exponent (4.096 µs · 2^n).
    pub timeout: u8,
    /// Upper limit of bytes in flight over all lanes; none for no limit.
    pub max_in_flight_bytes: Option<u64>,
    /// Settings of the queue pairs that were asked for.
    #[serde(default)]
    pub tuning: Tuning,
}

/// What one side of a case measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SideResult {
    /// One entry a repeat.
    pub repeats: Vec<SideRepeat>,
    /// Knobs as they took effect.
    pub effective: BTreeMap<String, serde_json::Value>,
    /// Integrity: what this side found in what it received.
    pub integrity: Option<IntegrityResult>,
    /// Counter deltas over the case by `dev:port/name`.
    pub counters: BTreeMap<String, i64>,
    /// CPU time of the measuring threads over all repeats, ns: user, system.
    pub cpu_ns: (u64, u64),
    /// What the payload cycled through, bytes.
    pub working_set_bytes: u64,
}

/// What one side of one repeat measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SideRepeat {
    /// Start of the measured window on this host's clock, ns.
    pub window_start_ns: u64,
    /// Length of the measured window, ns.
    pub window_ns: u64,
    /// Estimated offset of the peer's clock from this one (peer − own), ns; initiator only.
    pub clock_offset_ns: i64,
    /// Half of the round trip in which that was estimated: its uncertainty, ns.
    pub clock_uncertainty_ns: u64,
    /// Messages sent over the whole repeat.
    pub messages_sent: u64,
    /// Messages that arrived over the whole repeat.
    pub messages_received: u64,
    /// Messages finished in each interval of the window (sender).
    pub sent_series: Vec<u64>,
    /// Messages arrived in each interval of the window (receiver).
    pub received_series: Vec<u64>,
    /// Longest time without a completion or an arrival inside the window, ns.
    pub longest_gap_ns: u64,
    /// Messages that each lane finished inside the window (sender), in the order of lanes.
    #[serde(default)]
    pub lane_messages: Vec<u64>,
    /// What a window that ended by number holds; none of one that ended by time.
    #[serde(default)]
    pub counted: Option<Counted>,
    /// Latency: HdrHistogram V2, base64, ns, of what the measurement divides to (half RTT or RTT).
    pub histogram: Option<String>,
    /// Latency, exact: samples, min, max in ns.
    pub exact: Option<ExactLatency>,
}

/// What a window that ended by number holds, from its begin to the last message of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Messages finished.
    pub sent: u64,
    /// Time for that, ns.
    pub sent_ns: u64,
    /// Messages arrived.
    pub received: u64,
    /// Time for that, ns.
    pub received_ns: u64,
}

/// Exact moments of a latency repeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ExactLatency {
    /// Samples.
    pub count: u64,
    /// Smallest, ns.
    pub min_ns: f64,
    /// Largest, ns.
    pub max_ns: f64,
    /// Mean, ns.
    pub mean_ns: f64,
    /// Standard deviation, ns.
    pub stdev_ns: f64,
}

/// What a receiver found when it compared every byte.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntegrityResult {
    /// Bytes compared.
    pub bytes_verified: u64,
    /// Bytes that differed.
    pub bytes_wrong: u64,
    /// Chunks expected.
    pub chunks: u64,
    /// Chunks that never came.
    pub dropped: u64,
    /// Messages that a transport lost which may lose: no wrong data.
    #[serde(default)]
    pub lost: u64,
    /// Chunks that came more than once.
    pub repeated: u64,
    /// Chunks found where another belongs.
    pub misplaced: u64,
    /// Chunks with bytes that belong to no chunk.
    pub corrupted: u64,
    /// Messages that came without the immediate data that was theirs.
    #[serde(default)]
    pub immediates_wrong: u64,
    /// Bytes of guard regions that were changed.
    pub guard_bytes_wrong: u64,
    /// First wrong byte, in words; empty when there is none.
    pub first_wrong: String,
}
