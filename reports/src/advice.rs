//! What `fabbench advise` answers: plain values, schema `fabbench-advice/1`.
//!
//! Times are in ns, sizes in bytes, rates in bit/s, efficiencies and shares 0 to 1; names carry the
//! unit.

use serde::{Deserialize, Serialize};

/// Name and major version of the schema.
pub const ADVICE_SCHEMA: &str = "fabbench-advice/1";

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Advice {
    /// Always [`ADVICE_SCHEMA`] when written by this version.
    pub schema: String,
    /// The inputs as they were understood.
    pub inputs: Vec<Input>,
    /// RDMA, then TCP, at the nodes of now.
    pub now: Vec<Estimate>,
    /// Likewise at the target, when there is one.
    pub target: Vec<Estimate>,
    /// As the number of nodes grows.
    pub growth: Vec<Growth>,
    /// From how many nodes on each fabric binds the job: RDMA, then TCP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bound_at: Vec<BoundAt>,
    /// Rows asked for with `--what-if`.
    pub what_if: Vec<WhatIf>,
    /// A step that was observed, against the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// What to do, most important first.
    pub recommendations: Vec<Recommendation>,
    /// What the figures stand on.
    pub assumptions: Vec<String>,
    /// Questions to answer before buying, with what is known.
    pub questions: Vec<Question>,
}

/// One input with where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Input {
    /// What.
    pub name: String,
    /// Its value with its unit.
    pub value: String,
}

/// How bytes move between the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// InfiniBand or RoCE.
    Rdma,
    /// Sockets.
    Tcp,
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Transport::Rdma => "RDMA",
            Transport::Tcp => "TCP",
        })
    }
}

/// What the network does to the job, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum NetworkVerdict {
    /// Below 5 % of the step even without overlap.
    #[serde(rename = "not bound")]
    NotBound,
    /// More than that, but behind computing: efficiency at least 0.98.
    #[serde(rename = "hidden")]
    Hidden,
    /// Efficiency 0.90 to 0.98.
    #[serde(rename = "marginal")]
    Marginal,
    /// Efficiency below 0.90.
    #[serde(rename = "bound")]
    Bound,
}

impl std::fmt::Display for NetworkVerdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            NetworkVerdict::NotBound => "not bound",
            NetworkVerdict::Hidden => "hidden",
            NetworkVerdict::Marginal => "marginal",
            NetworkVerdict::Bound => "bound",
        })
    }
}

/// From the worst case to the best.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Band {
    /// No overlap, the slowest repeat, the longest way.
    pub worst: f64,
    /// Full overlap, the fastest repeat.
    pub best: f64,
}

/// One fabric at one number of nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Estimate {
    /// RDMA or TCP.
    pub transport: Transport,
    /// Name of the fabric, or the report that it was measured in.
    pub fabric: String,
    /// Nodes.
    pub nodes: u32,
    /// GPUs of all nodes.
    pub gpus: u32,
    /// NICs of a node.
    pub nics_per_node: u32,
    /// One step of a collective.
    pub latency_ns: f64,
    /// What one GPU gets of its node's NICs, at the largest message; oversubscription and storage
    /// are taken off.
    pub bandwidth_bps_per_gpu: f64,
    /// Computing of one step (training) or one token of every sequence (inference).
    pub compute_ns: f64,
    /// All traffic of a NIC in that time, one after the other.
    pub network_ns: f64,
    /// The part of it that is latency.
    pub network_latency_ns: f64,
    /// What computing does not hide at the overlap given.
    pub exposed_ns: f64,
    /// network / (compute + network): the share without overlap.
    pub network_share: f64,
    /// compute / (compute + exposed) at the overlap given.
    pub efficiency: f64,
    /// The same without overlap and with it.
    pub efficiency_band: Band,
    /// Computing, what is exposed and waiting for the slowest node.
    pub step_ns: Band,
    /// Verdict at the overlap given.
    pub verdict: NetworkVerdict,
    /// Verdict without overlap.
    pub verdict_without_overlap: NetworkVerdict,
    /// Tokens per GPU and step from which on data-parallel traffic is hidden; none where there is
    /// no such traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical_tokens_per_gpu: Option<f64>,
    /// Bandwidth per GPU that would hide the traffic (efficiency 0.98 where some traffic cannot
    /// overlap); none when no bandwidth does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_bps_per_gpu: Option<f64>,
    /// The largest part of the traffic; none where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dominated_by: Option<Dominant>,
    /// The traffic, part by part.
    pub flows: Vec<FlowTime>,
}

/// What takes most of the network's time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Dominant {
    /// Name of the flow.
    pub flow: String,
    /// `latency` or `bandwidth`.
    pub part: String,
}

/// One part of the traffic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FlowTime {
    /// What is sent.
    pub name: String,
    /// How: `all-reduce`, `all-gather`, …
    pub collective: String,
    /// Calls per step.
    pub calls: f64,
    /// What a GPU's share of the NICs sends per step.
    pub bytes_per_gpu: f64,
    /// A call's share on one GPU: where the bandwidth is read from the measured curve.
    pub message_bytes: f64,
    /// Time.
    pub time_ns: f64,
    /// The part of it that is latency.
    pub latency_ns: f64,
    /// Computing that it can hide behind.
    pub window_ns: f64,
}

/// One number of nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Growth {
    /// Nodes.
    pub nodes: u32,
    /// RDMA, then TCP.
    pub estimates: Vec<Brief>,
}

/// From how many nodes on a fabric binds the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BoundAt {
    /// RDMA or TCP.
    pub transport: Transport,
    /// The first number of nodes at which it is bound; none where it is not up to `looked_to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// It was looked for up to so many nodes.
    pub looked_to: u32,
}

impl BoundAt {
    /// `TCP: bound from 37 nodes on`.
    pub fn sentence(&self) -> String {
        let (transport, last) = (self.transport, self.looked_to);
        match self.nodes {
            Some(1) => format!("{transport}: bound on a single node already"),
            Some(nodes) => format!("{transport}: bound from {nodes} nodes on"),
            None => format!("{transport}: not bound up to {last} nodes"),
        }
    }
}

/// The short form of an [`Estimate`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Brief {
    /// RDMA or TCP.
    pub transport: Transport,
    /// Share of the network without overlap.
    pub network_share: f64,
    /// Efficiency at the overlap given.
    pub efficiency: f64,
    /// Without overlap and with it.
    pub efficiency_band: Band,
    /// Length of a step.
    pub step_ns: Band,
    /// The same after calibration, when a step was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibrated_step_ns: Option<Band>,
    /// Verdict.
    pub verdict: NetworkVerdict,
}

/// A changed input and what it leads to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WhatIf {
    /// As typed.
    pub change: String,
    /// Nodes.
    pub nodes: u32,
    /// Fabrics, RDMA then TCP.
    pub fabrics: Vec<String>,
    /// RDMA, then TCP.
    pub estimates: Vec<Brief>,
}

/// An observed step against the model at the nodes of now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Calibration {
    /// The fabric that it was observed on.
    pub transport: Transport,
    /// Observed.
    pub observed_step_ns: f64,
    /// Predicted without overlap and with it.
    pub predicted_step_ns: Band,
    /// observed / predicted, against each.
    pub factor: Band,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Recommendation {
    /// In a few words.
    pub what: String,
    /// The figures behind it.
    pub because: String,
}

/// A question to answer before buying.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Question {
    /// The question.
    pub question: String,
    /// What is known, or how to find out.
    pub answer: String,
}
