//! Which chunk lies where: both ends compute the same from the same numbers.

/// Bytes left alone before, between and after the chunks.
pub(super) const GUARD: usize = 16;

/// Sizes worth a test: below, at and above words, packets and the size under test, from the path
/// MTU `mtu` and the case's `size`, none above `largest`.
pub fn mixed_sizes(size: u64, mtu: u32, largest: usize) -> Vec<usize> {
    let mtu = mtu.max(256) as usize;
    let size = usize::try_from(size).unwrap_or(largest).min(largest);
    let wanted = [
        1,
        7,
        8,
        mtu - 1,
        mtu,
        mtu + 1,
        2 * mtu - 1,
        2 * mtu + 1,
        65_535,
        65_536,
        65_537,
        size.saturating_sub(1),
        size,
        size.saturating_add(1),
        (1 << 20) + 1,
    ];
    let mut sizes: Vec<usize> = Vec::new();
    for size in wanted {
        if (1..=largest.max(1)).contains(&size) && !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    sizes
}

/// Where a chunk lies in the buffer, at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub chunk: u64,
    pub lane: usize,
    pub offset: usize,
    pub len: usize,
    /// Bytes offered to a SEND here.
    pub room: usize,
}

/// The chunks that are moved and compared together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    pub number: u64,
    pub slots: Vec<Slot>,
}

/// What a layout depends on; equal at both ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub sizes: Vec<usize>,
    pub volume: u64,
    /// Bytes of the smaller of the two buffers.
    pub limit: usize,
    pub lanes: usize,
    /// Most chunks in a batch.
    pub most: usize,
    /// Every slot has room for the largest chunk: SEND, where a lost message moves the others up.
    pub uniform: bool,
}

/// The batches of one direction, in order.
#[derive(Debug)]
pub(super) struct Layout {
    shape: Shape,
    next_chunk: u64,
    left: u64,
    number: u64,
}

impl Layout {
    pub(super) fn new(shape: Shape) -> Self {
        Layout { left: shape.volume, shape, next_chunk: 0, number: 0 }
    }

    fn len_of(&self, chunk: u64) -> usize {
        let sizes = &self.shape.sizes;
        let full = sizes[(chunk % sizes.len() as u64) as usize];
        usize::try_from(self.left).unwrap_or(full).min(full)
    }

    fn largest(&self) -> usize {
        self.shape.sizes.iter().copied().max().unwrap_or(1)
    }
}

impl Iterator for Layout {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let mut slots = Vec::new();
        let mut offset = GUARD;
        while self.left > 0 && slots.len() < self.shape.most {
            let len = self.len_of(self.next_chunk);
            let room = if self.shape.uniform { self.largest() } else { len };
            if offset + room + GUARD > self.shape.limit {
                break;
            }
            let lane = slots.len() % self.shape.lanes;
            slots.push(Slot { chunk: self.next_chunk, lane, offset, len, room });
            offset += room + GUARD;
            self.left -= len as u64;
            self.next_chunk += 1;
        }
        if slots.is_empty() {
            return None;
        }
        self.number += 1;
        Some(Batch { number: self.number - 1, slots })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(uniform: bool) -> Shape {
        Shape { sizes: vec![1, 100, 30], volume: 1_000, limit: 512, lanes: 2, most: 5, uniform }
    }

    #[test]
    fn batches_cover_the_volume_once_without_touching_each_other() {
        for uniform in [false, true] {
            let batches: Vec<_> = Layout::new(shape(uniform)).collect();
            let slots: Vec<_> = batches.iter().flat_map(|batch| &batch.slots).collect();
            assert_eq!(slots.iter().map(|slot| slot.len).sum::<usize>(), 1_000);
            assert!(slots.iter().enumerate().all(|(i, slot)| slot.chunk == i as u64));
            for batch in &batches {
                assert!(batch.slots.len() <= 5);
                let ends = batch.slots.iter().map(|slot| slot.offset + slot.room);
                let begins = batch.slots.iter().skip(1).map(|slot| slot.offset).chain([512]);
                assert!(ends.zip(begins).all(|(end, next)| end + GUARD <= next));
            }
        }
    }

    #[test]
    fn sizes_straddle_packets_and_fit() {
        let sizes = mixed_sizes(65_536, 1_024, 2 << 20);
        for wanted in [1, 7, 8, 1_023, 1_024, 1_025, 2_047, 2_049, 65_535, 65_536, 65_537] {
            assert_eq!(sizes.iter().filter(|size| **size == wanted).count(), 1, "{wanted}");
        }
        assert_eq!(mixed_sizes(0, 4_096, 4_000), vec![1, 7, 8]);
        assert!(mixed_sizes(u64::MAX, 4_096, 5_000).contains(&5_000));
    }
}
