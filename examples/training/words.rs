//! Text to learn from, as numbers.

use std::collections::HashMap;

use super::{BATCH, CONTEXT};

/// Real text, a few thousand different words.
const TEXT: &str = concat!(
    include_str!("../../README.md"),
    include_str!("../../DESIGN.md"),
    include_str!("../../docs/cost-model.md"),
    include_str!("../../docs/validation.md"),
);

/// The text, each word as the number of its first occurrence.
pub struct Words {
    ids: Vec<u32>,
    pub different: usize,
}

impl Words {
    /// Reads the text, and prints how much it is.
    pub fn read() -> Self {
        let mut known = HashMap::new();
        let mut ids = Vec::new();
        for word in TEXT.split_whitespace() {
            let next = known.len() as u32;
            ids.push(*known.entry(word).or_insert(next));
        }
        let different = known.len();
        println!("{} words, {different} of them different", ids.len());
        Self { ids, different }
    }

    /// Contexts, `BATCH` times `CONTEXT` words in one vector, and the words that follow them, from different places at
    /// each step.
    pub fn batch(&self, step: usize) -> (Vec<u32>, Vec<u32>) {
        let starts = (0..BATCH).map(|i| (step * BATCH + i) * 7919 % (self.ids.len() - CONTEXT));
        let (mut contexts, mut labels): (Vec<u32>, Vec<u32>) = Default::default();
        for start in starts {
            contexts.extend(&self.ids[start..start + CONTEXT]);
            labels.push(self.ids[start + CONTEXT]);
        }
        (contexts, labels)
    }
}
