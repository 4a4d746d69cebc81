//! The data model of a report: schema `fabbench-report/1`.
//!
//! Plain values, as they were measured and judged. Times are in nanoseconds, sizes in bytes, rates
//! in bit/s; field names carry the unit. The contract may grow (readers ignore what they do not
//! know) but a field never changes its meaning.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name and major version of the schema written into every report.
pub const SCHEMA: &str = "fabbench-report/1";

/// A whole report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Always [`SCHEMA`] when written by this version.
    pub schema: String,
    /// The program that wrote it.
    pub tool: Tool,
    /// The command line, as typed.
    pub command: Vec<String>,
    /// What was asked to run.
    pub suite: Named,
    /// What was asked for in performance.
    pub profile: Named,
    /// Why this profile was taken; empty when it was asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub profile_why: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// RFC 3339, UTC.
    pub finished: String,
    /// False when the run ended before everything planned had been tried.
    pub complete: bool,
    /// True when the devices measured are software (Soft-RoCE): no figure is a line rate.
    pub simulated: bool,
    /// True when nobody measured this: figures made up to show what a report looks like.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// The hosts, in the order typed.
    pub hosts: Vec<Host>,
    /// Which HCA of one host was measured against which of the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rails: Vec<Rail>,
    /// Host and configuration checks.
    pub checks: Vec<Check>,
    /// How GPUs and HCAs of each host hang together; empty when not examined.
    #[serde(default)]
    pub topology: Vec<HostTopology>,
    /// One entry a measured case.
    pub measurements: Vec<Measurement>,
    /// Figures between every two hosts, where an entry a pair would be too much.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matrices: Vec<Matrix>,
    /// What the times of each collective say over its sizes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fits: Vec<CollectiveFit>,
    /// What was planned and could not be measured, or what this command does not measure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_measured: Vec<NotMeasured>,
    /// Causes found by putting findings together.
    #[serde(default)]
    pub diagnosis: Vec<Diagnosis>,
    /// The sum of it.
    pub verdict: Verdict,
}

/// A figure between every two hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Matrix {
    /// What was measured, e.g. `bandwidth 64 KiB WRITE, each pair alone`.
    pub title: String,
    /// `bit/s` or `ns`.
    pub unit: String,
    /// Hosts in the order of rows and columns.
    pub hosts: Vec<String>,
    /// By the host that sends, then by the host that receives; null where nothing was measured.
    pub values: Vec<Vec<Option<f64>>>,
}

/// The program that wrote a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tool {
    /// Semantic version.
    pub version: String,
    /// Source commit, or `unknown` outside a checkout.
    pub commit: String,
}

/// A named input with the hash of its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Named {
    /// Name or path.
    pub name: String,
    /// First 12 hex digits of the SHA-256 of its text; empty when there is no text.
    pub hash: String,
}

/// The one set of words for every judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Status {
    /// As expected.
    #[serde(rename = "pass")]
    Pass,
    /// Does not concern this object.
    #[serde(rename = "n/a")]
    NotApplicable,
    /// Measured, but there is no expectation.
    #[serde(rename = "unjudged")]
    Unjudged,
    /// Could not be seen.
    #[serde(rename = "unknown")]
    Unknown,
    /// Worth a look.
    #[serde(rename = "warn")]
    Warn,
    /// Not all that was asked could be measured.
    #[serde(rename = "incomplete")]
    Incomplete,
    /// The measurement itself is wrong.
    #[serde(rename = "error")]
    Error,
    /// Not as expected.
    #[serde(rename = "fail")]
    Fail,
}

impl Status {
    /// The word as it stands in reports.
    pub fn word(self) -> &'static str {
        match self {
            Status::Pass => "pass",
            Status::NotApplicable => "n/a",
            Status::Unjudged => "unjudged",
            Status::Unknown => "unknown",
            Status::Warn => "warn",
            Status::Incomplete => "incomplete",
            Status::Error => "error",
            Status::Fail => "fail",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

/// One host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Host {
    /// As typed on the command line; made unique by a suffix when one host stands twice.
    pub name: String,
    /// What the host calls itself.
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// Machine architecture, e.g. `x86_64`.
    pub arch: String,
    /// PRETTY_NAME of os-release.
    pub os: String,
    /// CPU model.
    pub cpu: String,
    /// Logical CPUs that the agent may use.
    pub cpus: u32,
    /// Version of libibverbs where readable, else why RDMA cannot be used there.
    pub rdma_core: String,
    /// Limits of the agent's own process, by name (`memlock_bytes`: number, or "unlimited").
    #[serde(default)]
    pub limits: BTreeMap<String, Value>,
    /// fabbench version and commit of the agent.
    pub agent: String,
    /// RDMA devices.
    pub devices: Vec<Device>,
}

/// One RDMA device (HCA).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Device {
    /// Name, e.g. `mlx5_0`.
    pub name: String,
    /// Kernel driver, e.g. `mlx5_core`, `rdma_rxe`.
    pub driver: String,
    /// Firmware version, empty where there is none.
    pub firmware: String,
    /// Board id (PSID), empty where there is none.
    pub board: String,
    /// Node GUID, `xxxx:xxxx:xxxx:xxxx`.
    pub guid: String,
    /// PCI address, e.g. `0000:3b:00.0`; none for a purely virtual device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// NUMA node; none when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// True for a software device (rxe, siw).
    pub soft: bool,
    /// True for a virtual function of an adapter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub virtual_function: bool,
    /// Why it cannot be opened by this user, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    /// Ports, from 1.
    pub ports: Vec<Port>,
}

/// One port of a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Port {
    /// Number, from 1.
    pub port: u8,
    /// `ACTIVE`, `DOWN`, `INIT`, `ARMED`, …
    pub state: String,
    /// `InfiniBand`, `Ethernet` or what the kernel says.
    pub link_layer: String,
    /// Data rate in bit/s from width and speed; none when the port is down or the device is soft.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// e.g. `4x`.
    pub width: String,
    /// e.g. `NDR`.
    pub speed: String,
    /// Active path MTU in bytes; 0 when unknown.
    pub active_mtu: u32,
    /// Largest path MTU in bytes that the port supports; 0 when unknown.
    #[serde(default)]
    pub max_mtu: u32,
    /// InfiniBand local id; 0 on Ethernet.
    pub lid: u16,
    /// Network interface, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netdev: Option<String>,
    /// MTU of that interface in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netdev_mtu: Option<u32>,
    /// Usable GID entries.
    pub gids: Vec<Gid>,
}

/// One entry of a GID table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Gid {
    /// Index in the port's table.
    pub index: u32,
    /// Address in IPv6 notation (`::ffff:10.0.0.1` for IPv4-mapped).
    pub gid: String,
    /// `RoCE v2`, `RoCE v1` or `IB`.
    pub kind: String,
    /// Network interface that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netdev: Option<String>,
}

/// Two ports that are measured against each other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rail {
    /// `rail0`, …
    pub name: String,
    /// Port of the first host, `host/dev:port`.
    pub a: String,
    /// Port of the second host.
    pub b: String,
    /// Why these two belong together.
    pub why: String,
    /// True once data crossed it.
    pub proved: bool,
}

/// A host or configuration check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Check {
    /// Stable identifier, e.g. `port-state`.
    pub id: String,
    /// Host name as in [`Host::name`].
    pub host: String,
    /// `host/dev:port`, a limit, a file.
    pub object: String,
    /// Verdict.
    pub status: Status,
    /// What was seen.
    pub found: String,
    /// What is asked for.
    pub wanted: String,
    /// What to do; empty when nothing is to be done.
    pub remedy: String,
}

/// How the GPUs and HCAs of a host hang together, and whether every HCA shares a PCIe switch with the
/// GPUs it serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostTopology {
    /// Host as typed, or the name of the capture.
    pub host: String,
    /// Where it was read from, e.g. `/sys (root: no)`, `NCCL topology XML`.
    pub source: String,
    /// GPUs; empty on a host that has none.
    pub gpus: Vec<TopologyGpu>,
    /// Verdict; `n/a` where there is no GPU or no HCA.
    pub status: Status,
    /// Why, worst first.
    pub reasons: Vec<String>,
    /// Remarks beside the classes: links, ACS, IOMMU, software, roles.
    #[serde(default)]
    pub findings: Vec<TopologyFinding>,
    /// `measured` when traffic ran on GPU memory, else `not measured`.
    pub gpu_memory: String,
    /// The PCIe tree.
    #[serde(default)]
    pub graph: TopologyGraph,
}

/// A GPU and the HCA that serves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TopologyGpu {
    /// `GPU0`, …
    pub name: String,
    /// PCI address; none where the input has none.
    pub pci: Option<String>,
    /// Verbs devices that are nearest, the paired one first.
    pub hcas: Vec<String>,
    /// `PIX`, `PXB`, `P2C`, `PHB`, `NODE`, `SYS` or `unknown`.
    pub path: String,
    /// Verdict.
    pub status: Status,
    /// Why.
    pub reason: String,
    /// What NCCL does on this path by default, where that is worth a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nccl: Option<String>,
}

/// A remark about a topology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TopologyFinding {
    /// `link`, `acs`, `iommu`, `gdr`, `pairing` or `role`.
    pub id: String,
    /// Device that it is about.
    pub object: String,
    /// Verdict; `unjudged` for a mere remark.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// What to do; empty when nothing is to be done.
    pub remedy: String,
}

/// A PCIe tree; a parent stands before its children.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TopologyGraph {
    /// Nodes on the way to a GPU or an HCA.
    pub nodes: Vec<TopologyNode>,
}

/// A node of a PCIe tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TopologyNode {
    /// Index of the parent in the list; none for a root complex.
    pub parent: Option<usize>,
    /// `root complex`, `root port`, `switch`, `switch port`, `bridge`, `gpu`, `hca`.
    pub kind: String,
    /// PCI address.
    pub pci: Option<String>,
    /// GPU or HCA as named in this report; empty for what forwards.
    pub name: String,
    /// NUMA node.
    pub numa_node: Option<u32>,
    /// PCIe link above it in use, e.g. `Gen5 x16`; empty when not known.
    pub link: String,
}

/// Planned but not measured, or out of this command's reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NotMeasured {
    /// What, in words that a user knows, e.g. `RDMA` or `rail1 bandwidth`.
    pub what: String,
    /// Why, with the next step.
    pub why: String,
    /// True when it was asked for, so that the run is incomplete without it.
    pub asked: bool,
}

/// One measured case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measurement {
    /// Stable within comparable runs, e.g. `bandwidth/rc/write/65536/rail0/a-b`.
    pub id: String,
    /// Case that would have failed and that this one repeats or helps to explain; evidence, which no
    /// verdict counts as a result of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retest_of: Option<String>,
    /// `latency`, `bandwidth`, `message_rate`, `integrity`, …
    pub test: String,
    /// `rc`, `uc`, `ud`, `tcp`.
    pub transport: String,
    /// `send`, `write`, `read`, …; `request_response` and `stream` on TCP.
    pub op: String,
    /// Initiating endpoint, `host/dev:port` or `host/netdev`.
    pub initiator: String,
    /// Responding endpoint.
    pub responder: String,
    /// Endpoint that the payload leaves.
    pub data_from: String,
    /// Endpoint that the payload reaches.
    pub data_to: String,
    /// One of two directions that ran at once; each direction is an entry of its own.
    #[serde(default)]
    pub bidirectional: bool,
    /// Ids of the measurements that ran at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together_with: Vec<String>,
    /// Message size.
    pub size_bytes: u64,
    /// How it was measured.
    pub method: Method,
    /// Which way it took.
    pub path: Path,
    /// Where the buffers were.
    pub memory: Memory,
    /// Every repeat, as measured.
    pub repeats: Vec<Repeat>,
    /// Receiver's payload rate over the repeats, bit/s (bandwidth).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<Rate>,
    /// Messages per second over the repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_per_s: Option<Rate>,
    /// Messages per second of each queue pair (socket on TCP) over all repeats, by the sender's
    /// count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qp_messages_per_s: Vec<f64>,
    /// Rate of the slowest queue pair as a part of the fastest one's; 1 is even.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    /// Latency over all repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Latency>,
    /// True when the latency is half of a round trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_half_rtt: Option<bool>,
    /// HdrHistogram V2 of all repeats, base64; values in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<String>,
    /// Bytes compared at the receiver.
    #[serde(default)]
    pub bytes_verified: u64,
    /// Bytes that differed.
    #[serde(default)]
    pub bytes_wrong: u64,
    /// Messages sent and never received.
    #[serde(default)]
    pub messages_lost: u64,
    /// What was wrong with the data, in words; empty when nothing was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub data_errors: String,
    /// Collectives: `ring`, `rhd`, `tree`, `direct`, `rail`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub algorithm: String,
    /// Collectives: host of each rank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<String>,
    /// Collectives: elements of the results that were wrong; none where nothing was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elements_wrong: Option<u64>,
    /// Collectives: size over the mean time, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algbw_bps: Option<f64>,
    /// Collectives: `algbw_bps` times the operation's factor as in nccl-tests: what each rank's
    /// link carries at least, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busbw_bps: Option<f64>,
    /// Collectives: the rest of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<Collective>,
    /// Counter deltas by `host/dev:port/name`; only those that changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, i64>,
    /// CPU time of the measuring threads by host, over warm-ups and windows of all repeats.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu: BTreeMap<String, CpuTime>,
    /// What hardware would allow; none when not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// goodput / ceiling; of collectives busbw / ceiling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<f64>,
    /// What was asked for, in words with units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// The lower bound as a rate in bit/s, where what was asked for is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_bps: Option<f64>,
    /// Verdict; none before the case was judged.
    #[serde(default)]
    pub status: Option<Status>,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

/// What only collectives have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Collective {
    /// `f32`, `f64`, `bf16`, `f16`, `i32`.
    pub data_type: String,
    /// `sum`, `max`; `none` where the operation reduces nothing.
    pub reduction: String,
    /// False when nothing was reduced on purpose, to see what the wire alone does.
    pub reduced: bool,
    /// The output lay on top of the input.
    pub in_place: bool,
    /// Timed runs.
    pub iterations: u32,
    /// Time of one run.
    pub time_ns: RankTime,
    /// Messages that each rank sent in one run.
    pub messages_sent: Vec<u64>,
    /// Payload that each rank sent in one run, bytes.
    pub bytes_sent: Vec<u64>,
    /// Part of the ranks' time that they spent reducing; none where nothing is reduced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduce_share: Option<f64>,
    /// For whom ranks waited longest, longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<RankWait>,
    /// Steps of the algorithm, one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// The slowest way between two of the hosts; none where the report has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<PairBandwidth>,
}

/// Bandwidth between two hosts of a collective, measured by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PairBandwidth {
    /// Host that the payload left.
    pub from: String,
    /// Host that it reached.
    pub to: String,
    /// Median goodput in this direction, bit/s.
    pub bps: f64,
    /// The other direction was busy as well.
    pub both_directions: bool,
    /// busbw of the collective as a part of it.
    pub busbw_share: f64,
}

/// Times T of a collective over its sizes S: T = steps · α + S · (wire_factor · β + reduced · γ), where
/// each rank reduces (n − 1)/n of the vector. Straight lines were laid piece by piece.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CollectiveFit {
    /// Operation.
    pub op: String,
    /// Algorithm.
    pub algorithm: String,
    /// Transport.
    pub transport: String,
    /// Element type.
    pub data_type: String,
    /// Reduction; `none` where the operation reduces nothing.
    pub reduction: String,
    /// False when nothing was reduced on purpose.
    pub reduced: bool,
    /// Number of ranks.
    pub ranks: u32,
    /// Steps of the algorithm, one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Bytes that the busiest rank sends for each byte of the vector.
    #[serde(default)]
    pub wire_factor: f64,
    /// Time of a step, ns; none where the sizes do not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha_ns: Option<f64>,
    /// Time to move a byte, ns: β; none where the sizes do not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_ns_per_byte: Option<f64>,
    /// Time to reduce a byte, ns: γ; none where nothing is reduced or it could not be told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduce_ns_per_byte: Option<f64>,
    /// How γ is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reduce_from: String,
    /// The lines, by size; empty where they were refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<FitPiece>,
    /// Root mean square of the residuals, as parts of the times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual: Option<f64>,
    /// The largest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_residual: Option<f64>,
    /// Why there is no fit; empty where there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refused: String,
}

/// A straight line through the times of some sizes; it says nothing of others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FitPiece {
    /// Smallest size.
    pub from_bytes: u64,
    /// Largest size.
    pub to_bytes: u64,
    /// Times that it was laid through.
    pub points: u32,
    /// Time of a vector of no bytes, ns.
    pub fixed_ns: f64,
    /// Time for each byte of the vector, ns.
    pub ns_per_byte: f64,
    /// Root mean square of its residuals, as parts of the times.
    pub residual: f64,
}

/// Time of one run of a collective: the mean of each rank's runs, over the ranks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RankTime {
    /// Of the quickest rank.
    pub min: f64,
    /// Mean over the ranks.
    pub avg: f64,
    /// Of the slowest rank.
    pub max: f64,
    /// 99th percentile of single runs, of the rank where it is highest; none where no run was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
}

/// Time in which nothing moved at a rank and a message of another one was due.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RankWait {
    /// Who waited.
    pub rank: u32,
    /// For whom.
    pub waits_for: u32,
    /// In each run, ns.
    pub ns: f64,
    /// Time of each run in which nothing moved at the other one either and what it had for this
    /// rank found no room, ns; none where that was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_blocked_ns: Option<f64>,
}

/// How a case was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Method {
    /// Queue pairs, or sockets on TCP, over all threads.
    pub qps: u32,
    /// Measuring threads on each side.
    pub threads: u32,
    /// Sends outstanding per QP.
    pub tx_depth: u32,
    /// Receives posted per QP; 0 where the operation needs none.
    #[serde(default)]
    pub rx_depth: u32,
    /// Payload carried in the work request, up to so many bytes; 0 for none.
    pub inline: u32,
    /// A completion is asked for every so many sends.
    pub signal_every: u32,
    /// `busy` or `events`.
    pub polling: String,
    /// How an arrival is seen: `completion`, `immediate`, `memory`, `none` (READ), `bytes` (sockets).
    #[serde(default)]
    pub arrival: String,
    /// Length of the warm-up.
    pub warmup_ns: u64,
    /// Length of one measured window.
    pub window_ns: u64,
    /// Length of one interval of the series.
    #[serde(default)]
    pub interval_ns: u64,
    /// Resolution of the clock on the initiator.
    #[serde(default)]
    pub clock_resolution_ns: u64,
    /// Cost of one clock reading on the initiator.
    #[serde(default)]
    pub clock_cost_ns: f64,
    /// Knobs as asked for.
    #[serde(default)]
    pub requested: BTreeMap<String, Value>,
    /// Knobs as they took effect, where that differs or was decided by the tool.
    #[serde(default)]
    pub effective: BTreeMap<String, Value>,
}

/// Which way the payload took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Path {
    /// Name of the rail; empty for a route that is no rail.
    pub rail: String,
    /// Path MTU in bytes (verbs), or MTU of the interface (TCP); 0 when unknown.
    pub mtu: u32,
    /// GID of the first host with its index, e.g. `1 ::ffff:10.0.0.1`; addresses on TCP.
    pub gid_a: String,
    /// Likewise of the second host.
    pub gid_b: String,
    /// `RoCE v2`, `RoCE v1`, `IB LID`, `IB GRH`, `TCP`.
    pub gid_type: String,
    /// Service level.
    #[serde(default)]
    pub sl: u8,
    /// Traffic class byte.
    #[serde(default)]
    pub traffic_class: u8,
    /// UDP source ports, where known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub udp_sports: Vec<u16>,
    /// Why this path was chosen.
    pub why: String,
}

/// Where the buffers were.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Memory {
    /// `host`, `huge`, `cuda`, …
    pub kind: String,
    /// NUMA node, where bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Bytes that the payload cycles through on one side.
    pub working_set_bytes: u64,
    /// True when that is more than the last-level cache holds; none when the cache is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exceeds_llc: Option<bool>,
}

/// One repeat of a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Repeat {
    /// Payload rate by the sender's count over its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bps: Option<f64>,
    /// Payload rate by the receiver's count over its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bps: Option<f64>,
    /// Messages sent over the whole repeat, warm-up and drain included.
    #[serde(default)]
    pub messages_sent: u64,
    /// Messages that the receiver saw over the whole repeat.
    #[serde(default)]
    pub messages_received: u64,
    /// Measured window.
    pub window_ns: u64,
    /// How far the two hosts' windows were apart.
    #[serde(default)]
    pub skew_ns: u64,
    /// Receiver's rate in each interval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals_bps: Vec<f64>,
    /// Longest time without a completion inside the window.
    #[serde(default)]
    pub longest_gap_ns: u64,
    /// Messages that each queue pair finished inside the window, by the sender's count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qp_messages: Vec<u64>,
    /// Latency of this repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Latency>,
    /// Counter deltas of this repeat.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, i64>,
}

/// A rate over the repeats: bit/s or messages/s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rate {
    /// Median of the repeats.
    pub median: f64,
    /// Lowest repeat.
    pub min: f64,
    /// Highest repeat.
    pub max: f64,
    /// (max − min) / median.
    pub spread: f64,
    /// Worst interval of all repeats.
    pub min_window: f64,
}

/// A latency summary in ns. Percentiles are nearest rank with three significant digits; a
/// percentile that the count does not support is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Latency {
    /// Samples.
    pub count: u64,
    /// Exact smallest.
    pub min: f64,
    /// Median of the samples, of the merged histogram in a summary.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile; from 1 000 samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999: Option<f64>,
    /// 99.99th percentile; from 10 000 samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p9999: Option<f64>,
    /// Exact largest.
    pub max: f64,
    /// Exact mean.
    pub mean: f64,
    /// Standard deviation of the samples.
    pub stdev: f64,
}

/// CPU time of measuring threads in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuTime {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
}

/// The best possible goodput.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ceiling {
    /// bit/s.
    pub bps: f64,
    /// `link` or `pcie` of the end that the payload leaves, `peer` for either of the other end,
    /// `declared`, `none`.
    pub limited_by: String,
    /// Every term considered.
    pub terms: Vec<CeilingTerm>,
}

/// One term of a ceiling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CeilingTerm {
    /// Short name.
    pub name: String,
    /// bit/s; the highest value where the term is an interval.
    pub bps: f64,
    /// The lowest value where the term is an interval, since what it depends on could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_bps: Option<f64>,
    /// Nothing can be faster than a hard term.
    pub hard: bool,
    /// Where it comes from.
    pub because: String,
}

/// A cause, found from several observations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// In a sentence.
    pub cause: String,
    /// Host, device, port or path.
    pub object: String,
    /// `high`, `medium`, `low`.
    pub confidence: String,
    /// What points to it.
    pub evidence: Vec<String>,
    /// What to do.
    pub remedy: String,
}

/// The sum of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verdict {
    /// fail if either part failed; incomplete if function is; warn if either warns; else pass.
    pub status: Status,
    /// Connected, measured, every byte right, no fatal counter: pass, warn, fail, incomplete.
    pub function: Status,
    /// Against ceilings, bounds and checks: pass, warn, fail, unjudged.
    pub performance: Status,
    /// Sentences, worst first.
    pub reasons: Vec<String>,
    /// Next steps, in order.
    pub next: Vec<String>,
}
