//! Loads, stores, views of memories and copies.
//!
//! A load of what the same block stored, or of a part of it, needs no memory: the compiler passes the value on. A
//! scratch that is read in no other way disappears, stores and all.

use std::rc::Rc;

use tilecast_core::target::LANES;
use tilecast_tpu::mosaic::{self as ir, DYNAMIC, Module, Op};

use super::super::unit::Machine;
use super::super::usage::Usage;
use super::super::vector::{Fetch, Vector};
use super::rows::stacked;
use super::{Known, Loaded, Passed, Stored, View, Walk};
use crate::access::{Access, place, segment};
use crate::signature::memref;

/// Whether what a load reads may come from the registers that were stored, rather than from memory in another form.
pub(crate) fn forwards(
    module: &Module,
    usage: &Usage,
    machine: &Machine,
    load: &Access<'_>,
) -> bool {
    let columns = module
        .value_kind(load.value)
        .shape()
        .and_then(<[i64]>::last);
    // Rows that end within a register are stored and loaded in part.
    let whole = columns.is_none_or(|n| *n % LANES as i64 == 0);
    let packed = || {
        memref(module, load.memory).is_some_and(|(shape, bits)| {
            bits < 32 && !machine.forwards_packed(shape.last().copied().unwrap_or(1))
        })
    };
    whole && !(usage.products_only(load.value) && packed())
}

impl<'m> Walk<'m> {
    /// Schedules an operation on memory. False if it is none.
    pub(super) fn memory_op(&mut self, op: Op) -> bool {
        if let Some(access) = Access::of(self.module, op) {
            match access.stores {
                true => self.store(&access),
                false => self.load(&access),
            }
            return true;
        }
        match self.module.op_name(op) {
            "memref.load" => {
                let result = self.module.results(op)[0];
                self.know(result.index(), Known::Scalar(self.prefetched(op)));
            }
            "memref.store" => {}
            "tpu.memref_slice" => self.slice(op),
            "tpu.memref_bitcast" => self.bitcast(op),
            "tpu.memref_squeeze"
            | "tpu.memref_reshape"
            | "memref.cast"
            | "tpu.reinterpret_cast"
            | "tpu.erase_memref_layout" => self.view(op),
            "memref.alloca" | "memref.alloc" | "tpu.sem_alloc" => {
                let result = self.module.results(op)[0];
                self.know(result.index(), self.argument(result));
            }
            "tpu.enqueue_dma" => self.start_copy(op),
            "tpu.wait_dma" | "tpu.wait_dma2" => self.wait_for_copy(op),
            "tpu.sem_wait" | "tpu.sem_signal" | "tpu.sem_barrier" => {}
            "tpu.sem_read" => {
                let result = self.module.results(op)[0];
                self.know(result.index(), Known::Scalar(None));
            }
            _ => return false,
        }
        true
    }

    /// The element of a prefetched scalar that is loaded.
    pub(super) fn prefetched(&self, op: Op) -> Option<i64> {
        let operands = self.module.operands(op);
        let view = self.view_of(operands[0])?;
        let Some(elements) = self.scalars.get(&view.root)? else {
            return Some(0);
        };
        let shape = self.shape(operands[0]);
        let mut at = 0;
        for (&index, &size) in operands[1..].iter().zip(shape) {
            let Some(index) = self.scalar(index) else {
                // Whichever it is, if all are the same.
                let (first, others) = elements.split_first()?;
                return others.iter().all(|other| other == first).then_some(*first);
            };
            at = at * size + index;
        }
        elements.get(usize::try_from(at).ok()?).copied()
    }

    pub(super) fn view_of(&self, value: ir::Value) -> Option<Rc<View>> {
        match &self.known[value.index()] {
            Known::Memory(view) => Some(view.clone()),
            _ => None,
        }
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
            // Of the root.
            let whole = |n: i64| match i + 2 == view.kept.len() {
                true => (n % view.rows_per_word == 0).then(|| n / view.rows_per_word),
                false => Some(n),
            };
            if let Some(&index) = indices.get(i) {
                start[dimension] += whole(self.scalar(index)?)?;
            }
            if i >= missing {
                size[dimension] = whole(shape[i - missing])?;
            }
        }
        Some((start, size))
    }

    fn load(&mut self, access: &Access<'_>) {
        let &Access {
            memory,
            indices,
            value: result,
            ..
        } = access;
        let shape = self.shape(result);
        let bits = self.bits(result);
        let [rows, columns] = Self::registers(shape, bits);
        let Some(view) = self.view_of(memory) else {
            self.made(result, Vector::new(rows, columns, bits, 0.0));
            return;
        };
        let place = self.part(&view, indices, shape);
        if view.rows_per_word > 1 && columns == 1 && self.usage.products_only(result) {
            self.block.loads_words(rows);
        }
        let shared = self.usage.products_only(result) || self.block.is_plain();
        let part = (place.as_ref())
            .filter(|_| shared && !self.stored.contains_key(&view.root))
            .map(|(start, size)| Loaded {
                root: view.root,
                start: start.clone(),
                size: size.clone(),
                bits,
                transposed: self.usage.transposed_lhs(result),
                turn: self.turn_of_next(),
            });
        if let Some((first, value)) = part.as_ref().and_then(|part| self.loaded.get(part)) {
            self.block.outlasts(value);
            if self.block.is_plain() && bits < 32 {
                // It is unpacked once, too.
                self.repeats.same(result, *first);
            }
            self.know(result.index(), Known::Vector(value.clone()));
            return;
        }
        let mut ready = 0.0_f64;
        let mut is_answered = false;
        if let (Some(stored), Some((start, size))) = (self.stored.get(&view.root), &place) {
            let mut parts = (stored.iter().rev()).filter(|part| !part.is_apart(start, size));
            let last = parts.next();
            let forwards = forwards(self.module, self.usage, self.machine, access);
            let answering = last.filter(|_| forwards);
            let source = answering
                .filter(|part| part.is_same(start, size))
                .map(|part| part.source);
            let value = answering.and_then(|part| match part.is_same(start, size) {
                true => (part.fills(rows)).then(|| part.value.clone()),
                false => (part.registers_of(start, size, bits))
                    .filter(|_| view.rows_per_word == 1)
                    .map(|[rows, columns]| {
                        let mut value = self.block.part(&part.value, rows, columns);
                        // What is stored at once is made before any of it is read, but for sub-tiles of one column of
                        // registers on v4.
                        if part.value.columns.registers > 1 || !self.machine.reads_parts_by_rows() {
                            value.ready.fill(part.end);
                        }
                        Rc::new(value)
                    }),
            });
            if let Some(mut value) = value {
                self.block.loads_stored();
                let stays = !self.forwarded[view.root];
                let later = self.block.loads_maxima_again()
                    || last.is_none_or(|part| part.turn != self.turn.number);
                if stays && later {
                    value = Rc::new(self.block.reload(&value));
                }
                if let Some(source) = source.filter(|_| !stays || self.machine.passes_on()) {
                    let passed = Passed {
                        rows: [0, rows],
                        value: value.clone(),
                        source,
                    };
                    self.passed_on.insert(result, vec![passed]);
                }
                self.know(result.index(), Known::Vector(value));
                return;
            }
            let in_parts = (forwards && view.rows_per_word == 1)
                .then(|| stacked(stored, start, size, bits))
                .flatten();
            // What was stored in another form is loaded row after row, each as soon as it is there.
            let stored = |part: &Stored| match forwards {
                true => part.end,
                false => match part.value.made {
                    Some(made) => made.begun,
                    None => (part.value.ready.iter().copied()).fold(f64::INFINITY, f64::min),
                },
            };
            let parts = last.into_iter().chain(parts);
            ready = parts.map(stored).fold(0.0, f64::max);
            if let Some(parts) = in_parts {
                is_answered = true;
                if self.load_rows(result, view.root, parts) {
                    return;
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
        let row = self.shape(memory).last().copied().unwrap_or(1);
        let (loads, valu) = match packed && self.usage.products_only(result) {
            // The halves of a register lie one after the other.
            true if row <= 128 || view.rows_per_word > 1 => (1.0, 0.0),
            true => {
                let (loads, valu) = match self.usage.transposed_lhs(result) {
                    true => self.machine.transposed_loads(columns_of_elements),
                    false => self.machine.half_tile_loads(columns_of_elements),
                };
                (loads, valu + self.machine.combined_halves(row))
            }
            false => (1.0, 0.0),
        };
        if !is_answered {
            self.reads(view.root);
        }
        let fetch = Fetch {
            ready,
            loads,
            valu,
            first: false,
        };
        if self.block.is_plain() {
            let [rows, columns] = Self::registers(shape, 32);
            self.block.loads_tile(rows * columns);
        }
        let value = Rc::new(out.in_memory(fetch, self.block.number()));
        self.ends_of(result, &value);
        if let Some(part) = part {
            self.loaded.insert(part, (result, value.clone()));
        }
        self.know(result.index(), Known::Vector(value));
    }

    fn store(&mut self, access: &Access<'_>) {
        let &Access {
            memory,
            indices,
            value: source,
            mask,
            ..
        } = access;
        let shape = self.shape(source);
        let bits = self.bits(source);
        let mut vector = self.vector(source);
        let mask = mask.map(|mask| self.vector(mask));
        if let [n] = *shape {
            vector = self.line_up(vector, n);
        }
        let Some(view) = self.view_of(memory) else {
            return;
        };
        let end = if self.forwarded[view.root] {
            vector = Rc::new(self.block.keep(&vector));
            self.block.all_ready(&vector)
        } else if self.overwritten(access, 0) {
            self.block.all_ready(&vector)
        } else {
            let [rows, columns] = Self::registers(shape, bits);
            // Single rows are stored eight registers of columns at a time.
            let one_row = shape.iter().rev().skip(1).all(|&n| n == 1) && bits == 32;
            let stores = if one_row {
                columns.div_ceil(8) as f64 / columns as f64
            } else {
                1.0
            };
            if one_row && columns > 1 {
                vector = Rc::new(self.block.side_by_side(&vector));
            }
            (self.block).store(&vector, mask.as_deref(), [rows, columns], stores)
        };
        if vector.by_column && !self.forwarded[view.root] {
            // It can be loaded again.
            Rc::make_mut(&mut vector).by_column = false;
        }
        self.sums(access);
        let place = self.part(&view, indices, shape);
        self.repeats.written();
        let stored = self.stored.entry(view.root).or_default();
        match place {
            Some((start, size)) => {
                stored.retain(|part| !part.is_same(&start, &size));
                stored.push(Stored {
                    start,
                    size,
                    end,
                    value: vector,
                    source,
                    turn: self.turn.number,
                    operations: self.block.operations(),
                });
            }
            None => stored.clear(),
        }
    }

    fn slice(&mut self, op: Op) {
        let result = self.module.results(op)[0];
        let (memory, indices) = place(self.module, op, 0);
        let Some(view) = self.view_of(memory) else {
            return;
        };
        let start = view.start.clone().filter(|_| view.rows_per_word == 1);
        let start = start.and_then(|mut start| {
            for (&dimension, &index) in view.kept.iter().zip(indices) {
                start[dimension] += self.scalar(index)?;
            }
            Some(start)
        });
        // Sizes that are not in the type are operands, in order.
        let mut sizes = segment(self.module, op, 2).unwrap_or_default().iter();
        let shape = self.shape(result).iter().map(|&size| match size {
            DYNAMIC => sizes
                .next()
                .and_then(|&size| self.scalar(size))
                .unwrap_or(DYNAMIC),
            size => size,
        });
        let view = View {
            start,
            shape: shape.collect(),
            ..(*view).clone()
        };
        self.know(result.index(), Known::Memory(Rc::new(view)));
    }

    /// A view of narrower elements, of which so many rows share one of wider ones; else its place is no longer
    /// followed.
    fn bitcast(&mut self, op: Op) {
        let result = self.module.results(op)[0];
        let operand = self.module.operands(op)[0];
        let Some(view) = self.view_of(operand) else {
            return;
        };
        let times = i64::from(self.bits(operand) / self.bits(result).max(1));
        if times <= 1 || self.shape(operand).last() != self.shape(result).last() {
            return self.view(op);
        }
        let view = View {
            shape: self.shape(result).into(),
            rows_per_word: view.rows_per_word * times,
            ..(*view).clone()
        };
        self.know(result.index(), Known::Memory(Rc::new(view)));
    }

    /// A view with another shape: dimensions of 1 go or come; else its place is no longer followed.
    fn view(&mut self, op: Op) {
        let result = self.module.results(op)[0];
        let operand = self.module.operands(op)[0];
        let Some(view) = self.view_of(operand) else {
            return;
        };
        let (from, to) = (self.shape(operand), self.shape(result));
        let (mut kept, mut shape) = (Vec::new(), Vec::new());
        let mut rest = to.iter().peekable();
        let known = view.shape.iter().chain(std::iter::repeat(&DYNAMIC));
        for ((&dimension, &size), &known) in view.kept.iter().zip(from).zip(known) {
            if rest.peek() == Some(&&size) {
                rest.next();
                kept.push(dimension);
                shape.push(known);
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
            shape: if followed { shape } else { to.into() },
            ..(*view).clone()
        };
        self.know(result.index(), Known::Memory(Rc::new(view)));
    }
}

/// Whether so many elements from the first on, of each, have none in common.
pub(super) const fn are_apart([a, m]: [i64; 2], [b, n]: [i64; 2]) -> bool {
    a.saturating_add(m) <= b || b.saturating_add(n) <= a
}

impl Stored {
    pub(super) fn is_same(&self, start: &[i64], size: &[i64]) -> bool {
        self.start == start && self.size == size
    }

    pub(super) fn is_apart(&self, start: &[i64], size: &[i64]) -> bool {
        (self.start.iter().zip(&self.size))
            .zip(start.iter().zip(size))
            .any(|((&a, &m), (&b, &n))| are_apart([a, m], [b, n]))
    }

    /// Whether the value has so many rows of registers, or is the same in all.
    fn fills(&self, rows: usize) -> bool {
        [1, rows].contains(&self.value.rows.registers)
    }

    /// The rows and columns of its registers, first and number, that hold a part of it; none if it does not have all of
    /// the part, or not in whole registers.
    fn registers_of(&self, start: &[i64], size: &[i64], bits: u32) -> Option<[[usize; 2]; 2]> {
        let ([lead @ .., row, column], [lead_size @ .., rows, columns]) = (start, size) else {
            return None;
        };
        let ([own @ .., r, c], [own_size @ .., m, n]) = (&self.start[..], &self.size[..]) else {
            return None;
        };
        let inside = |at: i64, len: i64, size: i64| (0..=size - len).contains(&at);
        let of_rows = i64::from(8 * 32 / bits);
        let (row, column) = (row.checked_sub(*r)?, column.checked_sub(*c)?);
        let [all, _] = Walk::registers(&self.size, bits);
        if (own, own_size) != (lead, lead_size)
            || own_size.iter().any(|&n| n != 1)
            || !inside(row, *rows, *m)
            || !inside(column, *columns, *n)
            || row % of_rows != 0
            || column % 128 != 0
            || !self.fills(all)
        {
            return None;
        }
        let part = |first: i64, of: i64, registers: usize, all: usize| match all {
            1 => [0, 1],
            _ => [(first / of) as usize, registers],
        };
        let [rows, columns] = Walk::registers(&[*rows, *columns], bits);
        Some([
            part(row, of_rows, rows, self.value.rows.registers),
            part(column, 128, columns, self.value.columns.registers),
        ])
    }
}
