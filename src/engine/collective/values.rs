//! What ranks put in and what must come out: small positive integers, so that any order of adding
//! gives the same bits, and each element can be told from its neighbours.

use std::ops::Range;

use super::schedule::{Collective, Schedule};
use super::types::{DataType, Reduction};

/// Byte that output is filled with before it is written.
pub const POISON: u8 = 0xa5;

/// The numbers of one run of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Values {
    /// What.
    pub collective: Collective,
    /// Element type.
    pub kind: DataType,
    /// Reduction.
    pub reduction: Reduction,
    /// Number of ranks.
    pub ranks: usize,
    /// Broadcast: whose vector.
    pub root: usize,
    /// Another one gives other numbers.
    pub seed: u64,
}

/// What a rank's output held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Elements that were wrong.
    pub wrong: u64,
    /// Elements compared.
    pub compared: u64,
    /// The first wrong one, in words; empty when there is none.
    pub first: String,
}

impl Values {
    /// Says why the numbers of so many ranks cannot be told exactly in this type.
    ///
    /// # Errors
    /// A sentence with what to do.
    pub fn check(kind: DataType, ranks: usize) -> Result<(), String> {
        let limit = kind.exact_limit() as usize;
        if ranks <= limit {
            return Ok(());
        }
        let word = kind.word();
        Err(format!(
            "{ranks} ranks: sums in {word} are exact up to {limit} only, so at most {limit} ranks \
             can be verified; choose f32"
        ))
    }

    /// The number that `rank` has at `index`: 1 to limit/ranks, by a hash of all that matters
    /// (murmur3's mixer).
    #[inline(always)]
    pub fn input(&self, rank: usize, index: usize) -> u32 {
        let most = (self.kind.exact_limit() / self.ranks as u32).max(1);
        let base = (self.seed ^ (rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mut hash = (base >> 32) as u32 ^ (index as u32).wrapping_mul(0x9e37_79b1);
        hash = (hash ^ (hash >> 15)).wrapping_mul(0x85eb_ca77);
        hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
        hash ^= hash >> 16;
        1 + ((u64::from(hash) * u64::from(most)) >> 32) as u32
    }

    /// Puts the numbers of `rank` for the elements from `first` on into `bytes`.
    pub fn fill(&self, rank: usize, first: usize, bytes: &mut [u8]) {
        for (i, place) in bytes.chunks_exact_mut(self.kind.bytes()).enumerate() {
            encode(self.kind, self.input(rank, first + i), place);
        }
    }

    /// What must stand at `index` of the output of `rank`; `chunk` is the length of a rank's chunk.
    fn expected(&self, rank: usize, index: usize, chunk: usize) -> u32 {
        let owner = || index.checked_div(chunk).unwrap_or(0);
        match self.collective {
            Collective::AllReduce | Collective::ReduceScatter => {
                let all = (0..self.ranks).map(|r| self.input(r, index));
                match self.reduction {
                    Reduction::Sum => all.sum(),
                    Reduction::Max => all.max().unwrap_or(0),
                }
            }
            Collective::AllGather => self.input(owner(), index),
            Collective::AllToAll => {
                let from = owner();
                self.input(from, index - from * chunk + rank * chunk)
            }
            Collective::Broadcast => self.input(self.root, index),
            Collective::SendRecv => self.input((rank + self.ranks - 1) % self.ranks, index),
        }
    }

    /// Compares the result that `rank` has in `work`, the whole vector, bit by bit.
    pub fn compare(&self, rank: usize, schedule: &Schedule, work: &[u8]) -> Found {
        let size = self.kind.bytes();
        let chunk = work.len() / size / self.ranks;
        let Range { start, end } = schedule.result.clone();
        let mut found = Found { compared: (end - start) as u64, ..Found::default() };
        let elements = work[start * size..end * size].chunks_exact(size);
        for (index, got) in (start..).zip(elements) {
            let want = self.expected(rank, index, chunk);
            let mut bytes = [0; 8];
            encode(self.kind, want, &mut bytes[..size]);
            if *got != bytes[..size] {
                if found.wrong == 0 {
                    found.first = self.sentence(rank, schedule, index, got, want);
                }
                found.wrong += 1;
            }
        }
        found
    }

    fn sentence(
        &self,
        rank: usize,
        schedule: &Schedule,
        index: usize,
        got: &[u8],
        want: u32,
    ) -> String {
        let came = match schedule.writer(index) {
            Some(m) => format!("step {} from rank {}", m.step + 1, m.peer),
            None => "its own".into(),
        };
        let got = match decode(self.kind, got) {
            _ if got.iter().all(|byte| *byte == POISON) => "nothing (never written)".into(),
            value => value.to_string(),
        };
        format!("rank {rank}, index {index} ({came}): got {got}, want {want}")
    }
}

/// An integer as an element.
fn encode(kind: DataType, value: u32, place: &mut [u8]) {
    match kind {
        DataType::F32 => place.copy_from_slice(&(value as f32).to_ne_bytes()),
        DataType::F64 => place.copy_from_slice(&f64::from(value).to_ne_bytes()),
        DataType::I32 => place.copy_from_slice(&(value as i32).to_ne_bytes()),
        DataType::Bf16 => {
            place.copy_from_slice(&half::bf16::from_f32(value as f32).to_ne_bytes());
        }
        DataType::F16 => place.copy_from_slice(&half::f16::from_f32(value as f32).to_ne_bytes()),
    }
}

/// An element as a number, for messages.
fn decode(kind: DataType, bytes: &[u8]) -> f64 {
    let two = || [bytes[0], bytes[1]];
    let four = || [bytes[0], bytes[1], bytes[2], bytes[3]];
    match kind {
        DataType::F32 => f32::from_ne_bytes(four()).into(),
        DataType::I32 => i32::from_ne_bytes(four()).into(),
        DataType::Bf16 => half::bf16::from_ne_bytes(two()).into(),
        DataType::F16 => half::f16::from_ne_bytes(two()).into(),
        DataType::F64 => bytes.try_into().map_or(f64::NAN, f64::from_ne_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(kind: DataType, ranks: usize) -> Values {
        let (collective, reduction) = (Collective::AllReduce, Reduction::Sum);
        Values { collective, kind, reduction, ranks, root: 0, seed: 7 }
    }

    #[test]
    fn every_sum_of_every_type_is_exact() {
        for kind in DataType::ALL {
            for ranks in [1, 2, 3, 8, 64, 256] {
                let values = values(kind, ranks);
                for index in 0..500 {
                    let sum: u32 = (0..ranks).map(|rank| values.input(rank, index)).sum();
                    assert!(sum >= ranks as u32 && sum <= kind.exact_limit());
                    let mut bytes = vec![0; kind.bytes()];
                    encode(kind, sum, &mut bytes);
                    assert_eq!(decode(kind, &bytes), f64::from(sum), "{kind:?} {ranks}");
                }
            }
        }
    }

    #[test]
    fn numbers_differ_by_rank_index_and_seed() {
        let values = values(DataType::F32, 4);
        let other = Values { seed: 8, ..values };
        let same = |f: &dyn Fn(usize) -> bool| (0..1000).filter(|i| f(*i)).count();
        assert!(same(&|i| values.input(0, i) == values.input(1, i)) < 3);
        assert!(same(&|i| values.input(0, i) == values.input(0, i + 1)) < 3);
        assert!(same(&|i| values.input(0, i) == other.input(0, i)) < 3);
    }

    #[test]
    fn more_ranks_than_a_type_can_tell_are_refused() {
        assert!(Values::check(DataType::Bf16, 256).is_ok());
        let refusal = Values::check(DataType::Bf16, 257).unwrap_err();
        assert!(refusal.contains("at most 256 ranks can be verified; choose f32"), "{refusal}");
        assert!(Values::check(DataType::F32, 4096).is_ok());
    }
}
