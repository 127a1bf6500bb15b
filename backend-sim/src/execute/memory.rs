//! Memories, and copies in flight between them.
//!
//! Every memory knows which of its elements a copy in flight reads or writes, so that a use in
//! between is an error. A copy moves its data when it is waited for. Copies that share a semaphore may
//! complete in any order on hardware; here they are complete once the waits have consumed the bytes
//! of all of them.

use std::collections::HashMap;

use super::error::Fault;
use super::tensor::{Cells, Element, Tensor, collect, elements, rows, run, scatter, strides};
use super::view::View;

/// A memory.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) name: String,
    pub(super) element: Element,
    pub(super) shape: Vec<usize>,
    pub(super) cells: Cells,
    /// Whether it may be written.
    pub(super) writable: bool,
    /// For each element, the copies in flight that read it, and [`WRITTEN`] if one writes it;
    /// empty if no copy ever touched the memory.
    busy: Vec<u16>,
}

/// A copy in flight writes the element.
const WRITTEN: u16 = 1 << 15;

impl Buffer {
    pub(super) fn new(
        name: String,
        element: Element,
        shape: Vec<usize>,
        cells: Cells,
        writable: bool,
    ) -> Self {
        Self {
            name,
            element,
            shape,
            cells,
            writable,
            busy: Vec::new(),
        }
    }

    /// A memory to which nothing has been written.
    pub(super) fn undefined(
        name: String,
        element: Element,
        shape: &[usize],
    ) -> Result<Self, Fault> {
        let cells = element.undefined(elements(shape)?);
        Ok(Self::new(name, element, shape.to_vec(), cells, true))
    }
}

/// A semaphore: its buffer and place.
type Key = (usize, usize);

#[derive(Clone, Debug)]
struct Copy {
    source: View,
    target: View,
    semaphore: Key,
    line: u32,
}

impl Copy {
    /// Bytes the semaphore counts.
    fn bytes(&self) -> u64 {
        self.target.bytes()
    }
}

/// All memories of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    pub(super) buffers: Vec<Buffer>,
    copies: Vec<Copy>,
    /// Bytes waited for of copies that are not complete.
    consumed: HashMap<Key, u64>,
}

impl Memory {
    /// Adds a memory and returns its number.
    pub(super) fn add(&mut self, buffer: Buffer) -> usize {
        self.buffers.push(buffer);
        self.buffers.len() - 1
    }

    /// A whole memory.
    pub(super) fn whole(&self, buffer: usize) -> Result<View, Fault> {
        let memory = self.buffer(buffer)?;
        Ok(View {
            buffer,
            offset: 0,
            shape: memory.shape.clone().into(),
            strides: strides(&memory.shape).into(),
            element: memory.element,
            words: None,
        })
    }

    fn buffer(&self, buffer: usize) -> Result<&Buffer, Fault> {
        let gone = Fault::Malformed("the memory is gone");
        self.buffers.get(buffer).ok_or(gone)
    }

    /// The memory of a view, for messages.
    pub(super) fn name(&self, view: &View) -> String {
        let buffer = self.buffers.get(view.buffer);
        buffer.map_or_else(String::new, |buffer| buffer.name.clone())
    }

    /// Forgets memories from number `from` on.
    pub(super) fn release(&mut self, from: usize) -> Result<(), Fault> {
        let names = |copy: &Copy| {
            [copy.source.buffer, copy.target.buffer, copy.semaphore.0]
                .iter()
                .any(|&n| n >= from)
        };
        if let Some(copy) = self.copies.iter().find(|copy| names(copy)) {
            return Err(unfinished(copy));
        }
        self.buffers.truncate(from);
        Ok(())
    }

    /// That no element of the view has any of `bits` in its state.
    fn check_free(&self, view: &View, bits: u16, access: &'static str) -> Result<(), Fault> {
        let view = view.in_words();
        let buffer = self.buffer(view.buffer)?;
        if buffer.busy.is_empty() || view.is_empty() {
            return Ok(());
        }
        let mut hit = 0;
        let (length, stride) = run(&view.shape, &view.strides);
        rows(
            &view.shape,
            [&view.strides],
            [view.offset],
            &mut |[start]| {
                let row = buffer.busy[start..]
                    .iter()
                    .step_by(stride.max(1))
                    .take(length);
                hit = row.fold(hit, |hit, state| hit | state & bits);
            },
        );
        if hit == 0 {
            return Ok(());
        }
        let writes = hit & WRITTEN != 0;
        let copies = self.copies.iter().rev();
        let copy_line = copies
            .filter(|copy| {
                let side = if writes { &copy.target } else { &copy.source };
                side.buffer == view.buffer
            })
            .map(|copy| copy.line)
            .next()
            .unwrap_or(0);
        Err(Fault::Race {
            access,
            memory: buffer.name.clone(),
            copy_line,
            copy: if writes {
                "is still writing"
            } else {
                "is still reading"
            },
        })
    }

    /// The elements of a view.
    pub(super) fn read(&self, view: &View) -> Result<Tensor, Fault> {
        self.check_free(view, WRITTEN, "reads")?;
        self.fetch(view)
    }

    fn fetch(&self, view: &View) -> Result<Tensor, Fault> {
        if view.element.is_semaphore() {
            return Err(Fault::Malformed("a semaphore holds no data"));
        }
        let buffer = self.buffer(view.buffer)?;
        let words = view.in_words();
        let cells = collect(&buffer.cells, &words.shape, &words.strides, words.offset);
        let value = Tensor::new(words.shape.clone(), words.element, cells)?;
        match view.words {
            Some(_) => value.halved(view.element)?.reshape(&view.shape),
            None => Ok(value),
        }
    }

    /// That a view may be written now.
    pub(super) fn check_write(&self, view: &View) -> Result<(), Fault> {
        let buffer = self.buffer(view.buffer)?;
        if !buffer.writable {
            let memory = buffer.name.clone();
            return Err(Fault::ReadOnly { memory });
        }
        self.check_free(view, u16::MAX, "writes")
    }

    /// Replaces the elements of a view.
    pub(super) fn write(&mut self, view: &View, value: &Tensor) -> Result<(), Fault> {
        self.check_write(view)?;
        self.put(view, value)
    }

    fn put(&mut self, view: &View, value: &Tensor) -> Result<(), Fault> {
        if value.shape != view.shape || value.element != view.element {
            return Err(Fault::Malformed("the value is not of the memory's type"));
        }
        let words = view.in_words();
        let joined = match view.words {
            Some(_) => &value.joined(words.element)?,
            None => value,
        };
        let gone = Fault::Malformed("the memory is gone");
        let buffer = self.buffers.get_mut(view.buffer).ok_or(gone)?;
        let cells = &mut buffer.cells;
        let (shape, strides) = (&words.shape, &words.strides);
        scatter(cells, shape, strides, words.offset, joined.cells())
    }

    /// Makes a whole memory undefined again.
    pub(super) fn poison(&mut self, buffer: usize) {
        if let Some(buffer) = self.buffers.get_mut(buffer) {
            buffer.cells = buffer.element.undefined(buffer.cells.len());
        }
    }

    // ---- copies -------------------------------------------------------------------------------

    fn key(view: &View, element: Element) -> Result<Key, Fault> {
        match view.element == element && elements(&view.shape)? == 1 {
            true => Ok((view.buffer, view.offset)),
            false => Err(Fault::Malformed("a single semaphore of the right kind")),
        }
    }

    fn mark(&mut self, view: &View, change: impl Fn(&mut u16)) {
        let view = view.in_words();
        let Some(buffer) = self.buffers.get_mut(view.buffer) else {
            return;
        };
        if view.is_empty() {
            return;
        }
        if buffer.busy.is_empty() {
            buffer.busy = vec![0; buffer.cells.len()];
        }
        let (length, stride) = run(&view.shape, &view.strides);
        let busy = &mut buffer.busy;
        rows(
            &view.shape,
            [&view.strides],
            [view.offset],
            &mut |[start]| {
                let row = busy[start..].iter_mut().step_by(stride.max(1));
                row.take(length).for_each(&change);
            },
        );
    }

    /// Starts a copy.
    pub(super) fn start(
        &mut self,
        source: View,
        target: View,
        semaphore: &View,
        line: u32,
    ) -> Result<(), Fault> {
        if source.shape != target.shape || source.element != target.element {
            return Err(Fault::Malformed(
                "source and target of a copy differ in type",
            ));
        }
        let semaphore = Self::key(semaphore, Element::DmaSemaphore)?;
        self.check_free(&source, WRITTEN, "reads")?;
        self.check_write(&target)?;
        if self.copies.len() >= usize::from(WRITTEN) - 1 {
            return Err(Fault::Unsupported("that many copies in flight".into()));
        }
        self.mark(&source, |state| *state += 1);
        // A copy onto itself would race with itself.
        let overlaps = self.check_free(&target, u16::MAX, "writes");
        if overlaps.is_err() {
            self.mark(&source, |state| *state -= 1);
            overlaps?;
        }
        self.mark(&target, |state| *state |= WRITTEN);
        self.copies.push(Copy {
            source,
            target,
            semaphore,
            line,
        });
        Ok(())
    }

    /// Waits for so many bytes of copies.
    pub(super) fn wait_copies(&mut self, semaphore: &View, wanted: u64) -> Result<(), Fault> {
        let key = Self::key(semaphore, Element::DmaSemaphore)?;
        let on_it = |copy: &&Copy| copy.semaphore == key;
        let started: u64 = self.copies.iter().filter(on_it).map(Copy::bytes).sum();
        let consumed = self.consumed.get(&key).copied().unwrap_or(0);
        let there = started - consumed.min(started);
        if wanted > there {
            return Err(Fault::Deadlock {
                semaphore: format!("{}[{}]", self.name(semaphore), semaphore.offset),
                wanted,
                there,
            });
        }
        if wanted < there {
            self.consumed.insert(key, consumed + wanted);
            return Ok(());
        }
        self.consumed.remove(&key);
        let (done, left): (Vec<Copy>, Vec<Copy>) = std::mem::take(&mut self.copies)
            .into_iter()
            .partition(|copy| on_it(&copy));
        self.copies = left;
        for copy in &done {
            let value = self.fetch(&copy.source)?;
            self.put(&copy.target, &value)?;
            self.mark(&copy.source, |state| *state = state.wrapping_sub(1));
            self.mark(&copy.target, |state| *state &= !WRITTEN);
        }
        Ok(())
    }

    /// The count of a semaphore: signals, or bytes of copies as if all were complete.
    pub(super) fn count(&mut self, semaphore: &View) -> Result<&mut i64, Fault> {
        let (buffer, place) = Self::key(semaphore, Element::Semaphore)?;
        let gone = Fault::Malformed("the memory is gone");
        match self.buffers.get_mut(buffer).map(|buffer| &mut buffer.cells) {
            Some(Cells::Int(cells)) => cells.get_mut(place).ok_or(gone),
            _ => Err(gone),
        }
    }

    /// That no copy is in flight and every semaphore from buffer `from` on is zero.
    pub(super) fn check_finished(&self) -> Result<(), Fault> {
        if let Some(copy) = self.copies.first() {
            return Err(unfinished(copy));
        }
        for buffer in &self.buffers {
            if let (Element::Semaphore, Cells::Int(cells)) = (buffer.element, &buffer.cells)
                && let Some(count) = cells.iter().find(|&&count| count != 0)
            {
                let what = format!("with {} at {count} instead of 0", buffer.name);
                return Err(Fault::Unfinished(what));
            }
        }
        Ok(())
    }
}

fn unfinished(copy: &Copy) -> Fault {
    let line = copy.line;
    Fault::Unfinished(format!(
        "before the copy started at line {line} was waited for"
    ))
}
