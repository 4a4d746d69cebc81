//! Recursive halving and doubling: log2 n exchanges of ever smaller parts, and back.

use std::ops::Range;

use super::build::{Builder, cut};
use super::groups::Group;

/// All-reduce among any number of ranks. With n = 2^k + e, ranks 0, 2, … 2(e−1) first hand their
/// vector to the rank after them and get the result from it at the end.
pub(super) fn all_reduce(builder: &mut Builder, all: &Group, whole: Range<usize>, align: usize) {
    let n = all.len();
    let core = 1_usize << n.ilog2();
    let extra = n - core;
    let me = all.me;
    let is_extra = me < 2 * extra && me.is_multiple_of(2);
    let takes_extra = me < 2 * extra && !is_extra;
    if is_extra {
        builder.send_to_reduce(all.at(me + 1), whole.clone());
    } else if takes_extra {
        builder.reduce(all.at(me - 1), whole.clone());
    }
    if extra > 0 {
        builder.next_step();
    }
    let place = if takes_extra { me / 2 } else { me.saturating_sub(extra) };
    let chunks = cut(whole.clone(), core, align);
    let core = Core { all, extra, place, chunks: &chunks };
    core.halve(builder, !is_extra);
    core.double(builder, !is_extra);
    if is_extra {
        builder.copy(all.at(me + 1), whole);
    } else if takes_extra {
        builder.send_to_copy(all.at(me - 1), whole);
    }
}

/// The 2^k ranks that exchange.
struct Core<'a> {
    all: &'a Group,
    extra: usize,
    /// Own place among them.
    place: usize,
    chunks: &'a [Range<usize>],
}

impl Core<'_> {
    /// The rank at a place.
    fn rank(&self, place: usize) -> usize {
        self.all.at(if place < self.extra { 2 * place + 1 } else { place + self.extra })
    }

    /// Elements of `count` chunks around `place`, where a block of that many begins.
    fn block(&self, place: usize, count: usize) -> Range<usize> {
        let first = place / count * count;
        self.chunks[first].start..self.chunks[first + count - 1].end
    }

    /// Each step sends the half that the partner keeps; every place keeps its own chunk at last.
    fn halve(&self, builder: &mut Builder, takes_part: bool) {
        let mut half = self.chunks.len() / 2;
        while half > 0 {
            let partner = self.place ^ half;
            if takes_part {
                builder.send_to_reduce(self.rank(partner), self.block(partner, half));
                builder.reduce(self.rank(partner), self.block(self.place, half));
            }
            builder.next_step();
            half /= 2;
        }
    }

    /// The same way back, with what is whole.
    fn double(&self, builder: &mut Builder, takes_part: bool) {
        let mut half = 1;
        while half < self.chunks.len() {
            let partner = self.place ^ half;
            if takes_part {
                builder.send_to_copy(self.rank(partner), self.block(self.place, half));
                builder.copy(self.rank(partner), self.block(partner, half));
            }
            builder.next_step();
            half *= 2;
        }
    }
}
