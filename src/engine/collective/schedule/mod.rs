//! Who sends what to whom, in which order: pure data, no transport.
//!
//! Sources: `ring` and `direct` as in NCCL and Gloo, `rhd` after Rabenseifner with the extra ranks
//! folded in (MPICH), the double binary tree as in NCCL's trees.h, `rail` the usual hierarchy for
//! hosts with one NIC a rank.

mod build;
mod doubling;
mod groups;
#[cfg(test)]
mod tests;
mod tree;

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// What all ranks do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collective {
    /// Everybody gets the reduction of all vectors.
    AllReduce,
    /// Everybody gets everybody's chunk.
    AllGather,
    /// Each gets its chunk of the reduction of all vectors.
    ReduceScatter,
    /// Chunk j of rank i becomes chunk i of rank j.
    AllToAll,
    /// Everybody gets the root's vector.
    Broadcast,
    /// Each gets the vector of its left neighbour.
    SendRecv,
}

impl Collective {
    /// All of them.
    pub const ALL: [Collective; 6] = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::AllToAll,
        Collective::Broadcast,
        Collective::SendRecv,
    ];

    /// The word used in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Collective::AllReduce => "all_reduce",
            Collective::AllGather => "all_gather",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::AllToAll => "all_to_all",
            Collective::Broadcast => "broadcast",
            Collective::SendRecv => "send_recv",
        }
    }

    /// Whether elements are reduced.
    pub const fn reduces(self) -> bool {
        matches!(self, Collective::AllReduce | Collective::ReduceScatter)
    }

    /// Whether the vector is cut into one chunk of equal length for each rank.
    pub const fn is_chunked(self) -> bool {
        matches!(self, Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll)
    }

    /// Whether output may lie on top of input.
    pub const fn has_in_place(self) -> bool {
        !matches!(self, Collective::AllToAll | Collective::SendRecv)
    }

    /// Algorithms that it can be done with; the first is the default.
    pub const fn algorithms(self) -> &'static [Algorithm] {
        match self {
            Collective::AllReduce => &Algorithm::ALL,
            Collective::AllGather | Collective::ReduceScatter => {
                &[Algorithm::Ring, Algorithm::Direct]
            }
            Collective::AllToAll => &[Algorithm::Direct],
            Collective::Broadcast => &[Algorithm::Ring, Algorithm::Tree],
            Collective::SendRecv => &[Algorithm::Ring],
        }
    }

    /// busbw / algbw: which share of the size each rank's link carries at least (nccl-tests,
    /// PERFORMANCE.md).
    pub fn bus_factor(self, ranks: usize) -> f64 {
        let n = ranks as f64;
        match self {
            _ if ranks < 2 => 1.0,
            Collective::AllReduce => 2.0 * (n - 1.0) / n,
            Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => {
                (n - 1.0) / n
            }
            Collective::Broadcast | Collective::SendRecv => 1.0,
        }
    }
}

/// How it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// Neighbours in a circle.
    Ring,
    /// Recursive halving and doubling.
    Rhd,
    /// Double binary tree.
    Tree,
    /// Everybody with everybody at once.
    Direct,
    /// Within each host, then between hosts rank by rank (each on its rail), then within again.
    Rail,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 5] =
        [Algorithm::Ring, Algorithm::Rhd, Algorithm::Tree, Algorithm::Direct, Algorithm::Rail];

    /// The word used on the command line and in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Algorithm::Ring => "ring",
            Algorithm::Rhd => "rhd",
            Algorithm::Tree => "tree",
            Algorithm::Direct => "direct",
            Algorithm::Rail => "rail",
        }
    }
}

/// Where a rank's payload lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In its own input.
    Input,
    /// In the vector that it works on and that holds the result at the end.
    Work,
}

/// What a move does with its part of the vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Sends it.
    Send {
        /// From there.
        from: Source,
        /// The peer reduces it, rather than copying it to its place.
        reduced: bool,
        /// Index of its first element in the peer's vector.
        at: usize,
    },
    /// Receives and reduces it; the other operand is what lies there.
    Reduce(Source),
    /// Receives it to its place.
    Copy,
}

/// One message of a rank. Between two ranks messages keep their order, so the k-th that one sends
/// is the k-th that the other receives. Empty ones are sent as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Step of the algorithm, from 0.
    pub step: u32,
    /// The other rank.
    pub peer: usize,
    /// Elements, as indices into the vector.
    pub range: Range<usize>,
    /// What is done with them.
    pub action: Action,
}

impl Move {
    /// Whether it sends.
    pub fn is_send(&self) -> bool {
        matches!(self.action, Action::Send { .. })
    }
}

/// What a schedule is made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope<'a> {
    /// What.
    pub collective: Collective,
    /// How.
    pub algorithm: Algorithm,
    /// Whose schedule.
    pub rank: usize,
    /// Index of the host of each rank; as many as there are ranks.
    pub hosts: &'a [usize],
    /// Elements of the whole vector.
    pub elements: usize,
    /// Chunks begin at multiples of so many elements, where the collective leaves that open.
    pub align: usize,
    /// Broadcast: whose vector.
    pub root: usize,
}

/// What one rank does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// In order.
    pub moves: Vec<Move>,
    /// Number of steps.
    pub steps: u32,
    /// Elements that this rank copies from its input to its output by itself (not in place).
    pub keeps: Range<usize>,
    /// Elements that hold this rank's result at the end.
    pub result: Range<usize>,
}

impl Schedule {
    /// The schedule of one rank.
    ///
    /// # Errors
    /// In a sentence, when the collective cannot be done that way; see [`check`].
    pub fn new(scope: &Scope) -> Result<Schedule, String> {
        check(scope)?;
        Ok(build::build(scope))
    }

    /// Messages and elements that this rank sends.
    pub fn sent(&self) -> (usize, usize) {
        let sends = self.moves.iter().filter(|m| m.is_send());
        sends.fold((0, 0), |(count, sum), m| (count + 1, sum + m.range.len()))
    }

    /// The last receive of the element at `index`; none for what was kept.
    pub fn writer(&self, index: usize) -> Option<&Move> {
        self.moves.iter().rev().find(|m| !m.is_send() && m.range.contains(&index))
    }
}

/// Says why a collective cannot be done that way; nothing is sent for it.
///
/// # Errors
/// A sentence with what to do.
pub fn check(scope: &Scope) -> Result<(), String> {
    let (collective, algorithm) = (scope.collective, scope.algorithm);
    if !collective.algorithms().contains(&algorithm) {
        let words: Vec<_> = collective.algorithms().iter().map(|a| a.word()).collect();
        let (op, algo) = (collective.word(), algorithm.word());
        return Err(format!("{op} is not done by {algo}: choose from {}", words.join(", ")));
    }
    if algorithm == Algorithm::Rail {
        check_rails(scope.hosts)?;
    }
    if scope.root >= scope.hosts.len() {
        let last = scope.hosts.len().saturating_sub(1);
        return Err(format!("root {}: ranks are 0 to {last}", scope.root));
    }
    Ok(())
}

/// Every host must have as many ranks, or a rail would lack one of them.
fn check_rails(hosts: &[usize]) -> Result<(), String> {
    let mut counts = std::collections::BTreeMap::new();
    for host in hosts {
        *counts.entry(host).or_insert(0_usize) += 1;
    }
    let mut each = counts.values();
    let first = each.next();
    match each.find(|count| Some(*count) != first) {
        Some(_) => Err("rail needs as many ranks on every host: give each host once, and \
                        --ranks-per-host, or choose another algorithm"
            .into()),
        None => Ok(()),
    }
}
