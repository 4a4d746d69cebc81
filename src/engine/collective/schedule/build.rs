//! From a scope to moves.

use std::ops::Range;

use super::groups::Group;
use super::{Action, Algorithm, Collective, Move, Schedule, Scope, Source};
use super::{doubling, tree};

/// Moves of one rank in the making.
#[derive(Debug, Default)]
pub(super) struct Builder {
    moves: Vec<Move>,
    step: u32,
}

impl Builder {
    /// Sends to `peer` what it will reduce.
    pub(super) fn send_to_reduce(&mut self, peer: usize, range: Range<usize>) {
        self.send(peer, range.clone(), true, range.start);
    }

    /// Sends to `peer` what it will put at the same place.
    pub(super) fn send_to_copy(&mut self, peer: usize, range: Range<usize>) {
        self.send(peer, range.clone(), false, range.start);
    }

    /// Sends to `peer` what it will put at `at`.
    pub(super) fn send_elsewhere(&mut self, peer: usize, range: Range<usize>, at: usize) {
        self.send(peer, range, false, at);
    }

    fn send(&mut self, peer: usize, range: Range<usize>, reduced: bool, at: usize) {
        self.push(peer, range, Action::Send { from: Source::Input, reduced, at });
    }

    /// Receives from `peer` and reduces.
    pub(super) fn reduce(&mut self, peer: usize, range: Range<usize>) {
        self.push(peer, range, Action::Reduce(Source::Input));
    }

    /// Receives from `peer` to its place.
    pub(super) fn copy(&mut self, peer: usize, range: Range<usize>) {
        self.push(peer, range, Action::Copy);
    }

    fn push(&mut self, peer: usize, range: Range<usize>, action: Action) {
        self.moves.push(Move { step: self.step, peer, range, action });
    }

    /// The next step begins.
    pub(super) fn next_step(&mut self) {
        self.step += 1;
    }

    /// Sends and operands come from the work vector once something was received there.
    fn settle(&mut self) {
        let mut received: Vec<Range<usize>> = Vec::new();
        for m in &mut self.moves {
            let range = m.range.clone();
            let touched = received.iter().any(|r| overlap(r, &range));
            let place = if touched { Source::Work } else { Source::Input };
            match &mut m.action {
                Action::Send { from, .. } => *from = place,
                Action::Reduce(operand) => *operand = place,
                Action::Copy => {}
            }
            if !m.is_send() {
                received.push(range);
            }
        }
    }
}

/// Whether two ranges have an element in common.
pub(super) fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Cuts `range` into `count` chunks whose inner bounds are multiples of `align`, as equal as that
/// allows; short ranges give empty chunks.
pub(super) fn cut(range: Range<usize>, count: usize, align: usize) -> Vec<Range<usize>> {
    let len = range.len();
    let bound = |c: usize| match c {
        _ if c == count => range.end,
        // Wide enough for any vector that fits into memory.
        _ => {
            let even = (c as u128 * len as u128 / count as u128) as usize;
            range.start + even / align * align
        }
    };
    (0..count).map(|c| bound(c)..bound(c + 1)).collect()
}

/// The schedule of one rank of a scope that was checked.
pub(super) fn build(scope: &Scope) -> Schedule {
    let all = Group::all(scope.hosts.len(), scope.rank);
    let whole = 0..scope.elements;
    let mut builder = Builder::default();
    match scope.collective {
        Collective::AllReduce => all_reduce(&mut builder, scope, &all),
        Collective::AllGather => {
            let chunks = cut(whole.clone(), all.len(), 1);
            match scope.algorithm {
                Algorithm::Direct => all.direct_gather(&mut builder, &chunks),
                _ => all.ring_gather(&mut builder, &chunks, all.me),
            }
        }
        Collective::ReduceScatter => {
            let chunks = cut(whole.clone(), all.len(), 1);
            match scope.algorithm {
                Algorithm::Direct => all.direct_scatter(&mut builder, &chunks),
                _ => all.ring_scatter(&mut builder, &chunks, 1),
            }
        }
        Collective::AllToAll => all.exchange(&mut builder, &cut(whole.clone(), all.len(), 1)),
        Collective::Broadcast => match scope.algorithm {
            Algorithm::Tree => tree::broadcast(&mut builder, &all, scope.root, whole.clone()),
            _ => all.chain(&mut builder, scope.root, whole.clone()),
        },
        Collective::SendRecv => all.shift(&mut builder, whole.clone()),
    }
    // What is sent on in these is always the rank's own.
    if !matches!(scope.collective, Collective::AllToAll | Collective::SendRecv) {
        builder.settle();
    }
    finish(builder, scope, &all)
}

fn all_reduce(builder: &mut Builder, scope: &Scope, all: &Group) {
    let whole = 0..scope.elements;
    let chunks = || cut(0..scope.elements, all.len(), scope.align);
    match scope.algorithm {
        Algorithm::Ring => all.ring(builder, &chunks()),
        Algorithm::Direct => {
            all.direct_scatter(builder, &chunks());
            all.direct_gather(builder, &chunks());
        }
        Algorithm::Rhd => doubling::all_reduce(builder, all, whole, scope.align),
        Algorithm::Tree => tree::all_reduce(builder, all, whole, scope.align),
        Algorithm::Rail => {
            let within = Group::of_host(scope.hosts, scope.rank);
            let rail = Group::of_rail(scope.hosts, scope.rank);
            let shards = cut(whole, within.len(), scope.align);
            within.direct_scatter(builder, &shards);
            rail.ring(builder, &cut(shards[within.me].clone(), rail.len(), scope.align));
            within.direct_gather(builder, &shards);
        }
    }
}

fn finish(builder: Builder, scope: &Scope, all: &Group) -> Schedule {
    let whole = 0..scope.elements;
    let own = cut(whole.clone(), all.len(), 1).swap_remove(all.me);
    let keeps = match scope.collective {
        Collective::AllGather | Collective::AllToAll => own.clone(),
        Collective::Broadcast if scope.rank == scope.root => whole.clone(),
        _ if all.len() == 1 => whole.clone(),
        _ => 0..0,
    };
    let result = if scope.collective == Collective::ReduceScatter { own } else { whole };
    let steps = builder.moves.iter().map(|m| m.step + 1).max().unwrap_or(0);
    Schedule { moves: builder.moves, steps, keeps, result }
}
