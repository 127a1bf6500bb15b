//! Windows: which part of an array a grid step sees, and its copies in and out.

use tilecast_tpu::mosaic::Op;
use tilecast_tpu::mosaic::tpu::ElementWindow;

use super::error::Fault;
use super::machine::Machine;
use super::memory::Memory;
use super::tensor::elements;
use super::view::View;

/// An operand of a kernel.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    /// Number of its memory.
    pub(super) array: usize,
    /// Its dimensions as the kernel sees them.
    pub(super) dims: Vec<usize>,
    /// Written by the kernel, and undefined to it before.
    pub(super) output: bool,
}

/// How a window follows the grid.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) operand: Operand,
    /// The window's own memory.
    pub(super) local: usize,
    pub(super) shape: Vec<usize>,
    /// The function from grid to block; none for a window that is the whole array.
    pub(super) transform: Option<Op>,
    /// Indices are elements, not blocks, with this much padding.
    pub(super) padding: Option<ElementWindow>,
    /// First element of what the window shows.
    pub(super) shown: Option<Vec<i64>>,
    /// Number, for messages.
    pub(super) number: usize,
}

impl Window {
    /// First element from the indices of the map.
    pub(super) fn start(&self, indices: &[i64]) -> Result<Vec<i64>, Fault> {
        let dims = &self.operand.dims;
        if indices.len() != self.shape.len() {
            return Err(Fault::Malformed(
                "a block has as many indices as dimensions",
            ));
        }
        let start: Vec<i64> = match &self.padding {
            None => {
                let sizes = self.shape.iter().map(|&n| n as i64);
                indices
                    .iter()
                    .zip(sizes)
                    .map(|(i, n)| i.saturating_mul(n))
                    .collect()
            }
            Some(padding) => {
                let low = padding.pad_low.iter().copied().chain(std::iter::repeat(0));
                indices
                    .iter()
                    .zip(low)
                    .map(|(i, low)| i.saturating_sub(low))
                    .collect()
            }
        };
        let inside = |i: usize| match &self.padding {
            None => start[i] >= 0 && start[i] < dims[i] as i64,
            Some(padding) => {
                let pad = |list: &[i64]| list.get(i).copied().unwrap_or(0);
                let end = start[i].saturating_add(self.shape[i] as i64);
                start[i] >= -pad(&padding.pad_low)
                    && end <= (dims[i] as i64).saturating_add(pad(&padding.pad_high))
            }
        };
        if (0..start.len()).all(inside) {
            return Ok(start);
        }
        let ends = start
            .iter()
            .zip(&self.shape)
            .map(|(s, &n)| s.saturating_add(n as i64));
        Err(Fault::OutOfBounds {
            memory: format!("argument {}", self.number),
            end: ends.collect(),
            start,
            shape: dims.clone(),
        })
    }

    /// Copies the part of the block that lies in the array, out of the window or into it.
    pub(super) fn copy(
        &self,
        machine: &mut Machine<'_>,
        start: &[i64],
        out: bool,
    ) -> Result<(), Fault> {
        let (mut local_start, mut array_start, mut size) = (Vec::new(), Vec::new(), Vec::new());
        for ((&start, &length), &dim) in start.iter().zip(&self.shape).zip(&self.operand.dims) {
            let first = start.max(0);
            let end = start.saturating_add(length as i64).min(dim as i64);
            local_start.push(first - start);
            array_start.push(first);
            size.push(usize::try_from(end - first).unwrap_or(0));
        }
        machine.spend(elements(&size)? as u64)?;
        let memory = &mut machine.memory;
        let array = memory
            .whole(self.operand.array)?
            .reshape(&self.operand.dims)?;
        let inside =
            |view: View, start: &[i64], memory: &Memory| view.part(start, &size, None, memory);
        let array = inside(array, &array_start, memory)?;
        let local = inside(memory.whole(self.local)?, &local_start, memory)?;
        let (from, to) = if out { (local, array) } else { (array, local) };
        let value = memory.read(&from)?;
        memory.write(&to, &value)
    }
}

/// A part of an array that has been written back.
#[derive(Clone, Debug)]
pub(super) struct Rectangle {
    pub(super) start: Vec<i64>,
    pub(super) size: Vec<usize>,
    pub(super) parallel_step: usize,
}

impl Rectangle {
    pub(super) fn overlaps(&self, start: &[i64], size: &[usize]) -> bool {
        let end = |start: i64, size: usize| start.saturating_add(size as i64);
        self.start.len() == start.len()
            && (0..start.len()).all(|i| {
                self.start[i] < end(start[i], size[i])
                    && start[i] < end(self.start[i], self.size[i])
            })
    }
}
