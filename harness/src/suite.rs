//! What a run measures: suites, as files, and the cases that they become for a pair's rails.

mod file;
mod planner;

pub(crate) use planner::loopback;

use std::time::Duration;

use fabbench_reports::model::Named;
use sha2::{Digest, Sha256};

use crate::plan::{Direction, Group, Op, Test, Transport};
use crate::possible::{PathLimits, Refusal};
use crate::rails::PairRail;
use crate::snapshot::HostFacts;

/// Names and texts of the suites that fabbench carries.
const BUILT_IN: [(&str, &str); 3] = [
    ("quick", include_str!("../suites/quick.toml")),
    ("standard", include_str!("../suites/standard.toml")),
    ("operations", include_str!("../suites/operations.toml")),
];

/// A suite, read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Name, or path of the file.
    pub name: String,
    /// What it is for, in a line.
    pub about: String,
    /// First 12 hex digits of the SHA-256 of its text.
    pub hash: String,
    group_overhead: Duration,
    budget: Budget,
    steps: Vec<Step>,
}

/// How long a run should take at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Budget {
    one_rail: Duration,
    more_rails: Duration,
}

/// One step, with every knob.
#[derive(Debug, Clone, PartialEq)]
struct Step {
    test: Test,
    transport: Transport,
    ops: Vec<Op>,
    sizes: Vec<u64>,
    directions: Vec<Direction>,
    rails: Rails,
    lanes: Lanes,
    warmup: Duration,
    window: Duration,
    interval: Duration,
    repeats: u32,
    rounds: Option<u64>,
    volume: u64,
    tx_depth: u32,
    rx_depth: u32,
    signal_every: u32,
}

/// Where a step is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rails {
    /// On each rail alone.
    Each,
    /// On all rails at once.
    Together,
    /// On each end of each rail, the port against itself.
    Loopback,
}

/// How many queue pairs or sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Lanes {
    /// Each of these numbers.
    Numbers(Vec<u32>),
    /// As many as the cores carry, each with a thread.
    Cores,
}

/// What of a rail decides which cases it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RailTraits {
    /// Sockets can be opened along it.
    pub tcp: bool,
    /// What its ports and its path can carry.
    pub limits: PathLimits,
    /// Both of its ends are one port of one machine: whatever goes over it is a loopback.
    pub one_port: bool,
}

impl From<&PairRail> for RailTraits {
    fn from(rail: &PairRail) -> Self {
        RailTraits { tcp: rail.has_tcp(), limits: rail.limits(), one_port: false }
    }
}

/// What a suite is planned for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scene {
    /// The rails in order; empty without RDMA.
    pub rails: Vec<RailTraits>,
    /// Sockets of a TCP stream case that is scaled to the cores; see [`tcp_streams`].
    pub tcp_streams: u32,
}

/// What the user changes in a suite.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Measured window of each repeat.
    pub duration: Option<Duration>,
    /// Repeats of each timed case.
    pub repeats: Option<u32>,
    /// Transports to measure; none for all of the suite's.
    pub transports: Option<Vec<Transport>>,
}

/// What is going to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// One after the other.
    pub groups: Vec<Group>,
    /// How long that takes at most, by estimate.
    pub estimated_seconds: f64,
    /// How long what would fail may be measured again, s; none where a fail is a fail at once.
    pub retest_seconds: Option<f64>,
    /// What the user should know: windows shortened, rails without TCP.
    pub notes: Vec<String>,
}

/// A suite that cannot be read or planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SuiteError {
    /// Neither a built-in name nor, for the caller, a file.
    #[error("there is no suite {0:?}: it is quick, standard, operations or the path of a file")]
    Unknown(String),
    /// The text is no suite.
    #[error("suite {suite}: {reason}")]
    Unreadable {
        /// Name or path.
        suite: String,
        /// What is wrong, with line and column where known.
        reason: String,
    },
    /// A step contradicts itself.
    #[error("suite {suite}, step {step}: {reason}")]
    Step {
        /// Name or path.
        suite: String,
        /// From 1.
        step: usize,
        /// What is wrong.
        reason: String,
    },
    /// A case cannot be measured on a rail.
    #[error("{case}: {error}")]
    Impossible {
        /// Id of the case.
        case: String,
        /// Why.
        error: Refusal,
    },
    /// An override makes no sense.
    #[error("{0}")]
    Override(String),
}

impl Suite {
    /// The built-in suite of that name.
    pub fn built_in(name: &str) -> Result<Suite, SuiteError> {
        let found = BUILT_IN.into_iter().find(|(own, _)| *own == name);
        let (name, text) = found.ok_or_else(|| SuiteError::Unknown(name.to_owned()))?;
        Suite::parse(name, text)
    }

    /// Names of the built-in suites.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.into_iter().map(|(name, _)| name)
    }

    /// Reads the text of a suite; `name` stands in messages and in the report.
    pub fn parse(name: &str, text: &str) -> Result<Suite, SuiteError> {
        file::read(name, text)
    }

    /// As it stands in a report.
    pub fn identity(&self) -> Named {
        Named { name: self.name.clone(), hash: self.hash.clone() }
    }

    /// The cases of this suite on these rails, within its budget unless a duration is asked for.
    pub fn plan(&self, scene: &Scene, overrides: &Overrides) -> Result<Plan, SuiteError> {
        planner::plan(self, scene, overrides)
    }

    /// How long the suite takes at most on `rails` rails that also carry TCP (0: TCP alone, over
    /// the route to the peer), in seconds by estimate.
    pub fn estimated_seconds(&self, rails: usize) -> f64 {
        let rail = RailTraits { tcp: true, ..RailTraits::default() };
        let scene = Scene { rails: vec![rail; rails], tcp_streams: 1 };
        self.plan(&scene, &Overrides::default()).map_or(0.0, |plan| plan.estimated_seconds)
    }
}

/// Sockets of a stream case between two hosts: one a core of the smaller host, at most 8; on one
/// machine both ends share the cores.
pub fn tcp_streams(a: &HostFacts, b: &HostFacts, same_machine: bool) -> u32 {
    let cores = a.calls.cpus.len().min(b.calls.cpus.len());
    let share = if same_machine { cores / 2 } else { cores };
    u32::try_from(share.clamp(1, 8)).unwrap_or(1)
}

/// Reads a list as `rc,tcp`; `rdma` means the verbs transports of the suites: `rc`, `uc`, `ud`.
pub fn parse_transports(text: &str) -> Result<Vec<Transport>, SuiteError> {
    let mut list = Vec::new();
    for word in text.split(',') {
        let transports = match word.trim() {
            "rdma" => &[Transport::Rc, Transport::Uc, Transport::Ud][..],
            "rc" => &[Transport::Rc],
            "uc" => &[Transport::Uc],
            "ud" => &[Transport::Ud],
            "tcp" => &[Transport::Tcp],
            "null" => &[Transport::Null],
            _ => {
                let text = format!("{word:?} is no transport: it is rc, uc, ud, rdma or tcp");
                return Err(SuiteError::Override(text));
            }
        };
        for transport in transports {
            if !list.contains(transport) {
                list.push(*transport);
            }
        }
    }
    Ok(list)
}

/// First 12 hex digits of the SHA-256 of a text.
pub(crate) fn content_hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
