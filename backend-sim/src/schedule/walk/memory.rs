//! Loads, stores, views of memories and copies.
//!
//! A load of what the same block stored needs no memory: the compiler passes the value on. A scratch
//! that is read in no other way disappears, stores and all.

use std::rc::Rc;

use tilecast_tpu::mosaic::{self as ir, DYNAMIC, Op};

use super::super::vector::{Fetch, Vector};
use super::super::{Direction, Transfer};
use super::{Known, Stored, View, Walk};

impl Walk<'_> {
    /// Schedules an operation on memory. False if it is none.
    pub(super) fn memory_op(&mut self, op: Op) -> bool {
        match self.module.op_name(op) {
            "vector.load" | "tpu.load" | "tpu.vector_load" | "tpu.strided_load"
            | "tpu.shuffled_load" => self.load(op),
            "vector.store" | "tpu.vector_store" | "tpu.store" | "tpu.strided_store"
            | "tpu.shuffled_store" => self.store(op),
            "memref.load" => {
                let result = self.module.results(op)[0];
                self.known[result.index()] = Known::Scalar(self.prefetched(op));
            }
            "memref.store" => {}
            "tpu.memref_slice" => self.slice(op),
            "tpu.memref_squeeze"
            | "tpu.memref_reshape"
            | "tpu.memref_bitcast"
            | "memref.cast"
            | "tpu.reinterpret_cast"
            | "tpu.erase_memref_layout" => self.view(op),
            "memref.alloca" | "memref.alloc" | "tpu.sem_alloc" => {
                let result = self.module.results(op)[0];
                self.known[result.index()] = self.argument(result);
            }
            "tpu.enqueue_dma" => self.copy_memory(op),
            "tpu.wait_dma" | "tpu.wait_dma2" | "tpu.sem_wait" | "tpu.sem_signal"
            | "tpu.sem_barrier" => {}
            "tpu.sem_read" => {
                let result = self.module.results(op)[0];
                self.known[result.index()] = Known::Scalar(None);
            }
            _ => return false,
        }
        true
    }

    /// The element of a prefetched scalar that is loaded.
    fn prefetched(&self, op: Op) -> Option<i64> {
        let operands = self.module.operands(op);
        let view = self.view_of(operands[0])?;
        let Some(elements) = self.scalars.get(&view.root)? else {
            return Some(0);
        };
        let shape = self.shape(operands[0]);
        let mut at = 0;
        for (&index, &size) in operands[1..].iter().zip(&shape) {
            at = at * size + self.scalar(index)?;
        }
        elements.get(usize::try_from(at).ok()?).copied()
    }

    fn view_of(&self, value: ir::Value) -> Option<Rc<View>> {
        match &self.known[value.index()] {
            Known::Memory(view) => Some(view.clone()),
            _ => None,
        }
    }

    /// Operands in groups, by the sizes that some operations carry.
    fn segments(&self, op: Op) -> Option<Vec<Vec<ir::Value>>> {
        let sizes = self.module.integers_attribute(op, "operandSegmentSizes")?;
        let mut operands = self.module.operands(op).iter().copied();
        Some(
            sizes
                .iter()
                .map(|&n| {
                    operands
                        .by_ref()
                        .take(usize::try_from(n).unwrap_or(0))
                        .collect()
                })
                .collect(),
        )
    }

    /// The memory and indices of a load or store; the value is operand `skip - 1` of a store.
    fn place(&self, op: Op, skip: usize) -> (ir::Value, Vec<ir::Value>) {
        if let Some(groups) = self.segments(op) {
            return (
                groups[skip][0],
                groups.get(skip + 1).cloned().unwrap_or_default(),
            );
        }
        let operands = self.module.operands(op);
        (operands[skip], operands[skip + 1..].to_vec())
    }

    /// First element and size, in the dimensions of the root.
    fn part(
        &self,
        view: &View,
        indices: &[ir::Value],
        shape: &[i64],
    ) -> Option<(Vec<i64>, Vec<i64>)> {
        let mut start = view.start.clone()?;
        let mut size = vec![1; start.len()];
        let missing = view.kept.len().checked_sub(shape.len())?;
        for (i, &dimension) in view.kept.iter().enumerate() {
            if let Some(&index) = indices.get(i) {
                start[dimension] += self.scalar(index)?;
            }
            if i >= missing {
                size[dimension] = shape[i - missing];
            }
        }
        Some((start, size))
    }

    fn load(&mut self, op: Op) {
        let result = self.module.results(op)[0];
        let (memory, indices) = self.place(op, 0);
        let shape = self.shape(result);
        let bits = self.bits(result);
        let [rows, columns] = Self::registers(&shape, bits);
        let Some(view) = self.view_of(memory) else {
            self.set(op, Vector::new(rows, columns, bits, 0.0));
            return;
        };
        let place = self.part(&view, &indices, &shape);
        let mut ready = 0.0_f64;
        if let (Some(stored), Some((start, size))) = (self.stored.get(&view.root), &place) {
            for part in stored {
                match relation(part, start, size) {
                    Relation::Apart => {}
                    Relation::Same => {
                        let value = part.value.clone();
                        let same = value.rows.registers == rows || value.rows.registers == 1;
                        if same {
                            let value = match self.forwarded[view.root] {
                                true => value,
                                false => Rc::new(self.block.reload(&value)),
                            };
                            self.known[result.index()] = Known::Vector(value);
                            return;
                        }
                        ready = ready.max(part.end);
                    }
                    Relation::Overlap => ready = ready.max(part.end),
                }
            }
        } else if let Some(stored) = self.stored.get(&view.root) {
            ready = stored.iter().map(|part| part.end).fold(0.0, f64::max);
        }
        let mut out = Vector::new(rows, columns, bits, 0.0);
        let one_row = shape.iter().rev().nth(1).is_none_or(|&n| n == 1) && rows == 1;
        if one_row {
            // One row can be spread over all sublanes as it is loaded.
            out = Vector::new(1, columns, bits, 0.0);
        }
        let packed = bits < 32;
        let columns_of_elements = shape.last().copied().unwrap_or(1);
        let (loads, valu) = match packed && self.usage.products_only(result) {
            // The halves of a register lie one after the other.
            true if columns_of_elements <= 128 => (1.0, 0.0),
            true => {
                let (loads, valu) = match self.usage.transposed_lhs(result) {
                    true => self.machine.transposed_loads(),
                    false => self.machine.half_tile_loads(),
                };
                (
                    loads,
                    valu + self.machine.combined_halves(columns_of_elements),
                )
            }
            false => (1.0, 0.0),
        };
        self.read[view.root] = true;
        self.set(op, out.in_memory(Fetch { ready, loads, valu }));
    }

    fn store(&mut self, op: Op) {
        let operands = self.module.operands(op);
        let value = operands[0];
        let (memory, indices) = self.place(op, 1);
        let shape = self.shape(value);
        let bits = self.bits(value);
        let mut vector = self.vector(value);
        if let [n] = shape[..] {
            vector = self.line_up(vector, n);
        }
        let Some(view) = self.view_of(memory) else {
            return;
        };
        let end = match self.forwarded[view.root] {
            true => self.block.all_ready(&vector),
            false => {
                let [rows, columns] = Self::registers(&shape, bits);
                // Single rows are stored eight registers of columns at a time.
                let one_row = shape.iter().rev().skip(1).all(|&n| n == 1) && bits == 32;
                let stores = if one_row {
                    columns.div_ceil(8) as f64 / columns as f64
                } else {
                    1.0
                };
                self.block.store(&vector, rows, columns, stores)
            }
        };
        let place = self.part(&view, &indices, &shape);
        self.repeats.written();
        let stored = self.stored.entry(view.root).or_default();
        match place {
            Some((start, size)) => {
                stored.retain(|part| !matches!(relation(part, &start, &size), Relation::Same));
                stored.push(Stored {
                    start,
                    size,
                    end,
                    value: vector,
                });
            }
            None => stored.clear(),
        }
    }

    fn slice(&mut self, op: Op) {
        let result = self.module.results(op)[0];
        let (memory, indices) = self.place(op, 0);
        let Some(view) = self.view_of(memory) else {
            return;
        };
        let start = view.start.clone().and_then(|mut start| {
            for (&dimension, &index) in view.kept.iter().zip(&indices) {
                start[dimension] += self.scalar(index)?;
            }
            Some(start)
        });
        let view = View {
            start,
            ..(*view).clone()
        };
        self.known[result.index()] = Known::Memory(Rc::new(view));
    }

    /// A view with another shape: dimensions of 1 go or come; else its place is no longer followed.
    fn view(&mut self, op: Op) {
        let result = self.module.results(op)[0];
        let operand = self.module.operands(op)[0];
        let Some(view) = self.view_of(operand) else {
            return;
        };
        let (from, to) = (self.shape(operand), self.shape(result));
        let mut kept = Vec::new();
        let mut rest = to.iter().peekable();
        for (&dimension, &size) in view.kept.iter().zip(&from) {
            if rest.peek() == Some(&&size) {
                rest.next();
                kept.push(dimension);
            }
        }
        let followed = rest.peek().is_none();
        let view = View {
            start: view.start.clone().filter(|_| followed),
            kept: if followed {
                kept
            } else {
                (0..to.len()).collect()
            },
            ..(*view).clone()
        };
        self.known[result.index()] = Known::Memory(Rc::new(view));
    }

    fn copy_memory(&mut self, op: Op) {
        let groups = self.segments(op).unwrap_or_default();
        let first = |i: usize| groups.get(i).and_then(|group| group.first().copied());
        let (Some(source), Some(target)) = (first(0), first(2)) else {
            return;
        };
        let bytes = |value: ir::Value| -> f64 {
            let shape = self.shape(value);
            let elements: f64 = (shape.iter())
                .map(|&n| if n == DYNAMIC { 1.0 } else { n as f64 })
                .product();
            elements * f64::from(self.bits(value)) / 8.0
        };
        let direction = match (self.in_vmem(source), self.in_vmem(target)) {
            (false, true) => Direction::Load,
            (true, false) => Direction::Store,
            _ => return,
        };
        let bytes = bytes(source).min(bytes(target));
        self.repeats.written();
        if let Some(view) = self.view_of(source) {
            self.read[view.root] = true;
        }
        self.transfer(Transfer {
            direction,
            bytes,
            times: 1.0,
        });
    }
}

enum Relation {
    Apart,
    Same,
    Overlap,
}

fn relation(part: &Stored, start: &[i64], size: &[i64]) -> Relation {
    if part.start == start && part.size == size {
        return Relation::Same;
    }
    let apart = (part.start.iter().zip(&part.size))
        .zip(start.iter().zip(size))
        .any(|((&a, &m), (&b, &n))| a + m <= b || b + n <= a);
    match apart {
        true => Relation::Apart,
        false => Relation::Overlap,
    }
}
