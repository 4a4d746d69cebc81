//! Trees: two binary trees that carry half of the vector each, so that a rank inside one is a leaf
//! of the other; and a binomial tree for broadcast.

use std::ops::Range;

use super::build::{Builder, cut};
use super::groups::Group;

/// Parent of `rank` in the in-order binary tree over `n` ranks whose root is 0 (NCCL, trees.cc).
fn parent(rank: usize, n: usize) -> Option<usize> {
    if rank == 0 {
        return None;
    }
    let bit = 1 << rank.trailing_zeros();
    let up = (rank ^ bit) | (bit << 1);
    Some(if up >= n { rank ^ bit } else { up })
}

/// One of the two trees.
#[derive(Debug, Clone, Copy)]
struct Tree {
    n: usize,
    second: bool,
}

impl Tree {
    /// Place in the first tree of what stands at `place` in this one. The second is the first
    /// mirrored, or shifted by one where the number is odd: its leaves are inside the first.
    fn turned(self, place: usize) -> usize {
        match (self.second, self.n.is_multiple_of(2)) {
            (false, _) => place,
            (true, true) => self.n - 1 - place,
            (true, false) => (place + self.n - 1) % self.n,
        }
    }

    /// The way back.
    fn back(self, place: usize) -> usize {
        match (self.second, self.n.is_multiple_of(2)) {
            (true, false) => (place + 1) % self.n,
            _ => self.turned(place),
        }
    }

    fn parent(self, place: usize) -> Option<usize> {
        parent(self.turned(place), self.n).map(|up| self.back(up))
    }

    fn children(self, place: usize) -> impl Iterator<Item = usize> {
        (0..self.n).filter(move |&child| self.parent(child) == Some(place))
    }

    /// Steps from the root.
    fn depth(self, place: usize) -> u32 {
        self.parent(place).map_or(0, |up| 1 + self.depth(up))
    }

    fn height(self) -> u32 {
        (0..self.n).map(|place| self.depth(place)).max().unwrap_or(0)
    }
}

/// All-reduce over both trees: up with reduction, down with the result.
pub(super) fn all_reduce(builder: &mut Builder, all: &Group, whole: Range<usize>, align: usize) {
    let halves = cut(whole, 2, align);
    let trees = [false, true].map(|second| Tree { n: all.len(), second });
    let height = trees.map(Tree::height).into_iter().max().unwrap_or(0);
    for step in 0..height {
        for (tree, half) in trees.into_iter().zip(&halves) {
            up(builder, all, tree, half, height - step);
        }
        builder.next_step();
    }
    for step in 0..height {
        for (tree, half) in trees.into_iter().zip(&halves) {
            down(builder, all, tree, half, step);
        }
        builder.next_step();
    }
}

/// Ranks at `depth` send to their parents.
fn up(builder: &mut Builder, all: &Group, tree: Tree, half: &Range<usize>, depth: u32) {
    let own = tree.depth(all.me);
    match tree.parent(all.me) {
        Some(parent) if own == depth => builder.send_to_reduce(all.at(parent), half.clone()),
        _ if own + 1 == depth => {
            for child in tree.children(all.me) {
                builder.reduce(all.at(child), half.clone());
            }
        }
        _ => {}
    }
}

/// Ranks at `depth` send to their children.
fn down(builder: &mut Builder, all: &Group, tree: Tree, half: &Range<usize>, depth: u32) {
    let own = tree.depth(all.me);
    match tree.parent(all.me) {
        _ if own == depth => {
            for child in tree.children(all.me) {
                builder.send_to_copy(all.at(child), half.clone());
            }
        }
        Some(parent) if own == depth + 1 => builder.copy(all.at(parent), half.clone()),
        _ => {}
    }
}

/// From `root` down a binomial tree: in step s those that have it send it 2^s further.
pub(super) fn broadcast(builder: &mut Builder, all: &Group, root: usize, whole: Range<usize>) {
    let n = all.len();
    let place = (all.me + n - root) % n;
    let mut reach = 1;
    while reach < n {
        if place < reach && place + reach < n {
            builder.send_to_copy(all.at(all.me + reach), whole.clone());
        } else if (reach..2 * reach).contains(&place) {
            builder.copy(all.at(all.me + n - reach), whole.clone());
        }
        builder.next_step();
        reach *= 2;
    }
}
