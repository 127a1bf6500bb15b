//! Text to learn from, as numbers.

use std::collections::HashMap;

/// Real text, a few thousand different words.
const TEXT: &str = concat!(
    include_str!("../../README.md"),
    include_str!("../../DESIGN.md"),
    include_str!("../../docs/cost-model.md"),
    include_str!("../../docs/validation.md"),
);

/// The text, each word as the number of its first occurrence.
pub struct Words {
    pub ids: Vec<u32>,
    pub different: usize,
}

impl Words {
    pub fn new() -> Self {
        let mut known = HashMap::new();
        let mut ids = Vec::new();
        for word in TEXT.split_whitespace() {
            let next = known.len() as u32;
            ids.push(*known.entry(word).or_insert(next));
        }
        Self {
            ids,
            different: known.len(),
        }
    }

    /// Contexts, `tokens` times `context` words in one vector, and the words that follow them, from different places at
    /// each step.
    pub fn batch(&self, step: usize, tokens: usize, context: usize) -> (Vec<u32>, Vec<u32>) {
        let starts = (0..tokens).map(|i| (step * tokens + i) * 7919 % (self.ids.len() - context));
        let (mut contexts, mut labels): (Vec<u32>, Vec<u32>) = Default::default();
        for start in starts {
            contexts.extend(&self.ids[start..start + context]);
            labels.push(self.ids[start + context]);
        }
        (contexts, labels)
    }
}
