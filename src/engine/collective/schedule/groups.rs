//! Patterns among some of the ranks: rings and everybody with everybody.

use std::ops::Range;

use super::build::Builder;

/// Some ranks in an order, seen by one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    members: Vec<usize>,
    /// Own place in the order.
    pub(super) me: usize,
}

impl Group {
    /// All ranks.
    pub(super) fn all(ranks: usize, rank: usize) -> Group {
        Group { members: (0..ranks).collect(), me: rank }
    }

    /// The ranks on the host of `rank`.
    pub(super) fn of_host(hosts: &[usize], rank: usize) -> Group {
        let here = |r: &usize| hosts[*r] == hosts[rank];
        let members: Vec<usize> = (0..hosts.len()).filter(here).collect();
        let me = members.iter().position(|&r| r == rank).unwrap_or(0);
        Group { members, me }
    }

    /// The ranks that have the place of `rank` on their hosts.
    pub(super) fn of_rail(hosts: &[usize], rank: usize) -> Group {
        let place = |r: usize| (0..r).filter(|&other| hosts[other] == hosts[r]).count();
        let members: Vec<usize> = (0..hosts.len()).filter(|&r| place(r) == place(rank)).collect();
        let me = members.iter().position(|&r| r == rank).unwrap_or(0);
        Group { members, me }
    }

    /// Number of members.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// The rank at a place, counted round the circle.
    pub(super) fn at(&self, place: usize) -> usize {
        self.members[place % self.len()]
    }

    /// The other members, beginning with the next one.
    fn others(&self) -> impl Iterator<Item = usize> {
        (1..self.len()).map(|distance| (self.me + distance) % self.len())
    }

    /// All-reduce around the circle: 2(n−1) messages of a chunk.
    pub(super) fn ring(&self, builder: &mut Builder, chunks: &[Range<usize>]) {
        self.ring_scatter(builder, chunks, 0);
        self.ring_gather(builder, chunks, (self.me + 1) % self.len());
    }

    /// Step s sends chunk r−s−`shift` to the right and reduces r−s−1−`shift` from the left; chunk
    /// r+1−`shift` is whole at the end.
    pub(super) fn ring_scatter(
        &self,
        builder: &mut Builder,
        chunks: &[Range<usize>],
        shift: usize,
    ) {
        let n = self.len();
        for step in 0..n - 1 {
            let at = |back: usize| chunks[(2 * n + self.me - back - shift) % n].clone();
            builder.send_to_reduce(self.at(self.me + 1), at(step));
            builder.reduce(self.at(self.me + n - 1), at(step + 1));
            builder.next_step();
        }
    }

    /// Chunk `own` goes round, and so do the others.
    pub(super) fn ring_gather(&self, builder: &mut Builder, chunks: &[Range<usize>], own: usize) {
        let n = self.len();
        for step in 0..n - 1 {
            let at = |back: usize| chunks[(n + own - back) % n].clone();
            builder.send_to_copy(self.at(self.me + 1), at(step));
            builder.copy(self.at(self.me + n - 1), at(step + 1));
            builder.next_step();
        }
    }

    /// Everybody sends everybody its chunk, to be reduced.
    pub(super) fn direct_scatter(&self, builder: &mut Builder, chunks: &[Range<usize>]) {
        for place in self.others() {
            builder.send_to_reduce(self.at(place), chunks[place].clone());
        }
        for place in self.others() {
            builder.reduce(self.at(place), chunks[self.me].clone());
        }
        builder.next_step();
    }

    /// Everybody sends its chunk to everybody.
    pub(super) fn direct_gather(&self, builder: &mut Builder, chunks: &[Range<usize>]) {
        for place in self.others() {
            builder.send_to_copy(self.at(place), chunks[self.me].clone());
        }
        for place in self.others() {
            builder.copy(self.at(place), chunks[place].clone());
        }
        builder.next_step();
    }

    /// Step s: chunk r+s to the rank s to the right, chunk r−s from the rank s to the left.
    pub(super) fn exchange(&self, builder: &mut Builder, chunks: &[Range<usize>]) {
        let n = self.len();
        for distance in 1..n {
            let (to, from) = ((self.me + distance) % n, (self.me + n - distance) % n);
            builder.send_elsewhere(self.at(to), chunks[to].clone(), chunks[self.me].start);
            builder.copy(self.at(from), chunks[from].clone());
            builder.next_step();
        }
    }

    /// From `root` along the circle to the rank before it.
    pub(super) fn chain(&self, builder: &mut Builder, root: usize, whole: Range<usize>) {
        let n = self.len();
        let place = (self.me + n - root) % n;
        for step in 0..n - 1 {
            if place == step + 1 {
                builder.copy(self.at(self.me + n - 1), whole.clone());
            }
            if place == step {
                builder.send_to_copy(self.at(self.me + 1), whole.clone());
            }
            builder.next_step();
        }
    }

    /// To the right neighbour, from the left one.
    pub(super) fn shift(&self, builder: &mut Builder, whole: Range<usize>) {
        let n = self.len();
        if n > 1 {
            builder.send_to_copy(self.at(self.me + 1), whole.clone());
            builder.copy(self.at(self.me + n - 1), whole);
        }
    }
}
