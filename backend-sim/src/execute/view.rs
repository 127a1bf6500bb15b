//! [`View`]: the part of a memory that an operation reads or writes.

use std::rc::Rc;

use super::error::Fault;
use super::memory::Memory;
use super::tensor::{Element, elements, strides};

/// A rectangle of a memory.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) buffer: usize,
    pub(super) offset: usize,
    pub(super) shape: Rc<[usize]>,
    pub(super) strides: Rc<[usize]>,
    pub(super) element: Element,
    /// Of a view of parts of wider elements, the view of these: of which each row has several of its rows.
    pub(super) words: Option<Rc<Self>>,
}

impl View {
    pub(super) fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Its size.
    pub(super) fn bytes(&self) -> u64 {
        let elements: u64 = self.shape.iter().map(|&n| n as u64).product();
        (elements * u64::from(self.element.bits())).div_ceil(8)
    }

    /// The same in elements as the memory has them.
    pub(super) fn in_words(&self) -> &Self {
        self.words.as_deref().unwrap_or(self)
    }

    /// `size` elements from `start` on along each dimension, in steps.
    pub(super) fn part(
        &self,
        start: &[i64],
        size: &[usize],
        steps: Option<&[usize]>,
        memory: &Memory,
    ) -> Result<Self, Fault> {
        if start.len() != self.shape.len() || size.len() != start.len() {
            return Err(Fault::Malformed(
                "as many indices as the memory has dimensions",
            ));
        }
        let step = |i: usize| steps.and_then(|s| s.get(i)).copied().unwrap_or(1).max(1);
        let end: Vec<i64> = (0..size.len())
            .map(|i| {
                let length = match size[i] {
                    0 => 0,
                    n => (n - 1).saturating_mul(step(i)).saturating_add(1),
                };
                start[i].saturating_add(i64::try_from(length).unwrap_or(i64::MAX))
            })
            .collect();
        let inside = |i: usize| start[i] >= 0 && end[i] <= self.shape[i] as i64;
        if !(0..size.len()).all(inside) {
            return Err(Fault::OutOfBounds {
                memory: memory.name(self),
                start: start.to_vec(),
                end,
                shape: self.shape.to_vec(),
            });
        }
        if let Some(words) = &self.words {
            return words.part_of_words(self, start, size, steps, memory);
        }
        let moved = (0..size.len()).map(|i| start[i] as usize * self.strides[i]);
        Ok(Self {
            offset: self.offset + moved.sum::<usize>(),
            shape: size.into(),
            strides: (0..size.len())
                .map(|i| self.strides[i].saturating_mul(step(i)))
                .collect(),
            ..self.clone()
        })
    }

    /// The same memory in narrower elements: several rows of them for each of its rows.
    pub(super) fn bitcast(&self, shape: &[usize], element: Element) -> Result<Self, Fault> {
        let [.., rows, _] = *self.shape else {
            return Err(Fault::Malformed("a memory with rows"));
        };
        let mut expected = self.shape.to_vec();
        let per_word = self.element.per_word(element);
        expected[self.shape.len() - 2] = rows.saturating_mul(per_word);
        if per_word == 0 || self.words.is_some() || expected != shape {
            return Err(Fault::Unsupported("a view of other elements".into()));
        }
        Ok(Self {
            shape: shape.into(),
            element,
            words: Some(Rc::new(self.clone())),
            ..self.clone()
        })
    }

    /// The part of `narrow`, a view of these words, that starts with a whole one and ends with one.
    fn part_of_words(
        &self,
        narrow: &Self,
        start: &[i64],
        size: &[usize],
        steps: Option<&[usize]>,
        memory: &Memory,
    ) -> Result<Self, Fault> {
        let (mut first, mut words) = (start.to_vec(), size.to_vec());
        let per_word = self.element.per_word(narrow.element);
        if let ([.., first, _], [.., rows, _], None) = (&mut first[..], &mut words[..], steps)
            && *first % per_word as i64 == 0
            && rows.is_multiple_of(per_word)
        {
            *first /= per_word as i64;
            *rows /= per_word;
        } else {
            return Err(Fault::Unsupported("a part of a word of memory".into()));
        }
        self.part(&first, &words, None, memory)?
            .bitcast(size, narrow.element)
    }

    /// The same elements in another shape; they must lie side by side.
    pub(super) fn reshape(&self, shape: &[usize]) -> Result<Self, Fault> {
        if elements(shape)? != elements(&self.shape)? {
            return Err(Fault::Malformed("the number of elements changes"));
        }
        let dense = strides(&self.shape);
        let same = |i: usize| self.shape[i] == 1 || self.strides[i] == dense[i];
        if !(0..self.shape.len()).all(same) {
            return Err(Fault::Unsupported(
                "another shape of a part of a memory".into(),
            ));
        }
        Ok(Self {
            shape: shape.into(),
            strides: strides(shape).into(),
            ..self.clone()
        })
    }

    /// Without dimensions of size 1, so that `shape` remains.
    pub(super) fn squeeze(&self, shape: &[usize]) -> Result<Self, Fault> {
        let mut kept = shape.iter().peekable();
        let mut left = Vec::new();
        for (&size, &stride) in self.shape.iter().zip(&*self.strides) {
            if kept.next_if_eq(&&size).is_some() {
                left.push(stride);
            } else if size != 1 {
                return Err(Fault::Malformed("only dimensions of size 1 can go"));
            }
        }
        if left.len() != shape.len() {
            return Err(Fault::Malformed(
                "the result has dimensions the operand has not",
            ));
        }
        Ok(Self {
            shape: shape.into(),
            strides: left.into(),
            ..self.clone()
        })
    }
}
