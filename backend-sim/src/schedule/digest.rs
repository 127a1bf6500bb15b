//! [`Digest`]: a fast hash of what stands for itself.
//!
//! What is found by it is not compared, so it has to tell apart whatever differs, in 64 bits: a word is multiplied into
//! twice its width, and both halves go on. A hash for tables need not do so much, and one against attacks does more, at
//! several times the cost.

use std::hash::{Hash, Hasher};

/// Bits without a pattern, those of pi.
const FACTOR: u64 = 0x243f_6a88_85a3_08d3;
const START: u64 = 0x1319_8a2e_0370_7344;

/// The hash so far.
pub(super) struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(START)
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.write_usize(bytes.len());
        let (words, rest) = bytes.as_chunks();
        for &word in words {
            self.write_u64(u64::from_le_bytes(word));
        }
        if !rest.is_empty() {
            // A few shifts are sooner done than a copy of a length that is not known.
            let shifted = |word: u64, &byte: &u8| word << 8 | u64::from(byte);
            self.write_u64(rest.iter().fold(0, shifted));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * u128::from(FACTOR);
        self.0 = (product as u64 ^ (product >> 64) as u64).wrapping_add(START);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The hash of a value.
pub(super) fn digest(value: impl Hash) -> u64 {
    let mut digest = Digest::default();
    value.hash(&mut digest);
    digest.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn what_differs_has_another_digest() {
        // Pairs of small numbers, and of numbers that differ in their first bits only.
        let numbers = (0..100_u64).chain((1..100).map(|n| f64::from(n).to_bits()));
        let numbers: Vec<u64> = numbers.collect();
        let pairs = numbers
            .iter()
            .flat_map(|a| numbers.iter().map(move |b| (a, b)));
        let digests: HashSet<u64> = pairs.map(digest).collect();
        assert_eq!(digests.len(), numbers.len() * numbers.len());
        assert_ne!(digest(("ab", "c")), digest(("a", "bc")));
        assert_ne!(digest([0_u8; 7]), digest([0_u8; 8]));
    }
}
