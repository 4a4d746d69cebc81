//! Bytes that say where they belong.
//!
//! Each 8-byte word of a chunk is an invertible mix of (chunk number, index of the word in it) under
//! a key made of seed and direction: equal words are in no two places, and a word that turns up in
//! the wrong place tells where it is from.

/// Bits of a word's index; a chunk has at most 2^28 words (2 GiB).
const INDEX_BITS: u32 = 28;

/// Bytes of a word.
pub(super) const WORD: usize = 8;

const FACTOR_A: u64 = 0xff51_afd7_ed55_8ccd;
const FACTOR_B: u64 = 0xc4ce_b9fe_1a85_ec53;
const INVERSE_A: u64 = inverse(FACTOR_A);
const INVERSE_B: u64 = inverse(FACTOR_B);

/// The pattern of one direction of one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    key: u64,
}

/// What a comparison found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Difference {
    /// Bytes that differ.
    pub bytes: u64,
    /// Index of the first one.
    pub first: Option<usize>,
}

impl Pattern {
    /// Of `direction` (any number that tells the directions of a case apart) under `seed`.
    pub fn new(seed: u64, direction: u64) -> Self {
        Pattern { key: mix(seed ^ mix(direction.wrapping_add(1))) }
    }

    /// Where a word belongs, if it is from this pattern: chunk and index. Any word decodes to
    /// something: the caller must look whether that exists.
    pub fn decode(&self, word: u64) -> (u64, u64) {
        let plain = unmix(word) ^ self.key;
        (plain >> INDEX_BITS, plain & ((1 << INDEX_BITS) - 1))
    }

    /// Writes the bytes of `chunk`.
    pub fn fill(&self, chunk: u64, bytes: &mut [u8]) {
        self.write(chunk, bytes, 0);
    }

    /// Writes the complement of the bytes of `chunk`: no byte of it is right by chance.
    pub fn fill_complement(&self, chunk: u64, bytes: &mut [u8]) {
        self.write(chunk, bytes, u64::MAX);
    }

    /// Compares with the bytes of `chunk`.
    pub fn compare(&self, chunk: u64, bytes: &[u8]) -> Difference {
        self.differ(chunk, bytes, 0)
    }

    /// Compares with the complement of the bytes of `chunk`.
    pub fn compare_complement(&self, chunk: u64, bytes: &[u8]) -> Difference {
        self.differ(chunk, bytes, u64::MAX)
    }

    /// The byte at `index` of `chunk`.
    pub fn byte(&self, chunk: u64, index: usize) -> u8 {
        self.word(chunk, (index / WORD) as u64).to_le_bytes()[index % WORD]
    }

    /// Immediate data that goes with `chunk`; never 0, which stands for none.
    pub fn immediate(&self, chunk: u64) -> u32 {
        mix(chunk ^ self.key.rotate_left(32)) as u32 | 1
    }

    #[inline]
    fn word(&self, chunk: u64, index: u64) -> u64 {
        mix(((chunk << INDEX_BITS) | index) ^ self.key)
    }

    fn write(&self, chunk: u64, bytes: &mut [u8], invert: u64) {
        let mut words = bytes.chunks_exact_mut(WORD);
        let mut index = 0;
        for place in &mut words {
            place.copy_from_slice(&(self.word(chunk, index) ^ invert).to_le_bytes());
            index += 1;
        }
        let rest = words.into_remainder();
        let last = (self.word(chunk, index) ^ invert).to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }

    fn differ(&self, chunk: u64, bytes: &[u8], invert: u64) -> Difference {
        let mut difference = Difference::default();
        let words = bytes.chunks_exact(WORD);
        let rest = words.remainder();
        let mut index = 0;
        for place in words {
            let mut found = [0; WORD];
            found.copy_from_slice(place);
            let wrong = u64::from_le_bytes(found) ^ self.word(chunk, index) ^ invert;
            if wrong != 0 {
                difference.add(index, wrong);
            }
            index += 1;
        }
        let expected = (self.word(chunk, index) ^ invert).to_le_bytes();
        let mut wrong = [0; WORD];
        for (place, (found, expected)) in wrong.iter_mut().zip(rest.iter().zip(expected)) {
            *place = found ^ expected;
        }
        difference.add(index, u64::from_le_bytes(wrong));
        difference
    }
}

impl Difference {
    /// Adds the word at `index`, whose wrong bytes are those of `wrong` that are not 0.
    fn add(&mut self, index: u64, wrong: u64) {
        for (place, byte) in wrong.to_le_bytes().into_iter().enumerate() {
            if byte != 0 {
                self.bytes += 1;
                self.first.get_or_insert(index as usize * WORD + place);
            }
        }
    }
}

/// The finalizer of MurmurHash3: each step can be undone.
#[inline]
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(FACTOR_A);
    x = (x ^ (x >> 33)).wrapping_mul(FACTOR_B);
    x ^ (x >> 33)
}

fn unmix(mut x: u64) -> u64 {
    // A shift by more than half of the bits is undone by itself.
    x = (x ^ (x >> 33)).wrapping_mul(INVERSE_B);
    x = (x ^ (x >> 33)).wrapping_mul(INVERSE_A);
    x ^ (x >> 33)
}

/// Inverse of an odd number modulo 2^64 by Newton's method: each step doubles the right bits.
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut step = 0;
    while step < 6 {
        x = x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
        step += 1;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_tells_where_it_is_from() {
        let pattern = Pattern::new(7, 1);
        for (chunk, index) in [(0, 0), (1, 0), (0, 1), (123_456, 131_071), ((1 << 36) - 1, 5)] {
            assert_eq!(pattern.decode(pattern.word(chunk, index)), (chunk, index));
        }
        assert_ne!(Pattern::new(7, 0).word(3, 3), pattern.word(3, 3));
        assert_ne!(Pattern::new(8, 1).word(3, 3), pattern.word(3, 3));
    }

    #[test]
    fn wrong_bytes_are_counted_one_by_one() {
        let pattern = Pattern::new(1, 0);
        for len in [0, 1, 7, 8, 9, 4095] {
            let mut bytes = vec![0; len];
            pattern.fill(5, &mut bytes);
            assert_eq!(pattern.compare(5, &bytes), Difference::default());
            assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == pattern.byte(5, i)));
            pattern.fill_complement(5, &mut bytes);
            assert_eq!(pattern.compare(5, &bytes).bytes, len as u64);
            assert_eq!(pattern.compare_complement(5, &bytes).bytes, 0);
        }
        let mut bytes = vec![0; 100];
        pattern.fill(5, &mut bytes);
        bytes[97] ^= 1;
        bytes[42] ^= 0x80;
        assert_eq!(pattern.compare(5, &bytes), Difference { bytes: 2, first: Some(42) });
    }
}
