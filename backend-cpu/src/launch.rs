//! Runs one kernel over its grid.
//!
//! The parallel axes are dealt to the threads in contiguous shares, as a TPU deals them to its
//! cores; inside a share steps run in order. A thread has its own windows and scratch, so results
//! do not depend on timing, and only the per-core sums of a kernel that asks for them depend on the
//! number of threads.
//!
//! A loop of a program launches the same kernel again and again, on parts of its arrays. What each launch would pack
//! anew of an array that is always shown whole, such as `x` for each chunk of `dw`, is kept from one to the next.

use std::cell::{Cell, RefCell};

use tilecast_core::program::Kernel;
use tilecast_core::spec::{Access, Affine, Buffer, KernelSpec, Layout, MapVariable, NamedBuffer};

use crate::buffers::{Block, InputTile, LocalTile, Masks, Output, Place, Vector, VectorWindow};
use crate::elements::{Elements, row_stride};
use crate::panels::{KEPT_PANEL_BYTES, Panels, blocks_kept};
use crate::simd::Statistics;
use crate::storage::Storage;
use crate::tiles::{CpuTiles, Slot};
use crate::{Cpu, CpuError};

/// What a launch passes beside its arrays.
#[derive(Debug)]
pub(crate) struct Passed {
    /// One after the other.
    pub(crate) scalars: Vec<i64>,
    pub(crate) tables: Vec<Vec<i32>>,
}

/// What a launch leaves to the next one of the same kernel on the same arrays: the packed copies of each thread.
#[derive(Debug, Default)]
pub(crate) struct Kept(Vec<Vec<Panels>>);

/// Runs `kernel` on `operands`, one for each operand of its spec.
pub(crate) fn launch<K: Kernel + Sync>(
    cpu: &Cpu,
    kernel: &K,
    operands: &[&Storage<'_>],
    passed: &Passed,
    kept: &mut Kept,
) -> Result<(), CpuError> {
    let spec = kernel.spec();
    let parallel: usize = spec.grid()[..spec.parallel_axes()]
        .iter()
        .map(|axis| axis.size)
        .product();
    let threads = cpu.threads.min(parallel);
    let share = |thread: usize| {
        let at = |i: usize| (parallel as u128 * i as u128 / threads as u128) as usize;
        at(thread)..at(thread + 1)
    };
    let work = |thread: usize, panels: &mut Vec<Panels>| {
        let kept = std::mem::take(panels);
        *panels = Worker::new(cpu, spec, operands, passed, kept).run(kernel, share(thread))?;
        Ok(())
    };
    kept.0.resize_with(threads.max(1), || panels(cpu, spec));
    let mut of_threads = kept.0.iter_mut().enumerate();
    let (first, its_panels) = of_threads.next().expect("at least one");
    if threads <= 1 {
        return work(first, its_panels);
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = of_threads
            .map(|(thread, panels)| scope.spawn(move || work(thread, panels)))
            .collect();
        let first = work(first, its_panels);
        workers
            .into_iter()
            .map(|worker| match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .fold(first, Result::and)
    })
}

/// Statistics that no kernel may use before it resets them.
const POISONED: Statistics = Statistics {
    max: f32::NAN,
    sum: f32::NAN,
    moment: f32::NAN,
};

struct Worker<'s, 'a> {
    tiles: CpuTiles<'s, 'a>,
}

impl<'s, 'a> Worker<'s, 'a> {
    fn new(
        cpu: &'s Cpu,
        spec: &'s KernelSpec,
        operands: &[&'s Storage<'a>],
        passed: &'s Passed,
        panels: Vec<Panels>,
    ) -> Self {
        let mut operands = operands.iter().copied();
        let slots: Vec<_> = spec
            .buffers()
            .iter()
            .map(|named| RefCell::new(slot(&named.buffer, &mut operands, cpu.poison)))
            .collect();
        Self {
            tiles: CpuTiles {
                simd: cpu.simd,
                cpu,
                spec,
                point: spec.grid().iter().map(|_| Cell::new(0)).collect(),
                passed,
                shown: slots.iter().map(|_| RefCell::default()).collect(),
                panels,
                slots,
                error: RefCell::new(None),
            },
        }
    }

    /// Runs the steps whose parallel axes, counted lexicographically, lie in `range`, and returns the packed copies.
    fn run<K: Kernel>(
        self,
        kernel: &K,
        range: std::ops::Range<usize>,
    ) -> Result<Vec<Panels>, CpuError> {
        let spec = self.tiles.spec;
        let sequential: usize = spec.grid()[spec.parallel_axes()..]
            .iter()
            .map(|axis| axis.size)
            .product();
        for step in range.start * sequential..range.end * sequential {
            self.move_to(step);
            self.show_blocks()?;
            kernel.body(&self.tiles);
            if let Some(error) = self.tiles.error.take() {
                return Err(CpuError::Product {
                    kernel: spec.name().into(),
                    error,
                });
            }
        }
        for slot in &self.tiles.slots {
            write_back(&mut slot.borrow_mut());
        }
        let buffers = spec.buffers().iter().zip(&self.tiles.slots);
        let mut panels = self.tiles.panels;
        for ((named, slot), panels) in buffers.zip(&mut panels) {
            if !shows_the_same_again(&named.buffer, &slot.borrow(), panels.blocks()) {
                panels.free();
            }
        }
        Ok(panels)
    }

    fn move_to(&self, step: usize) {
        let mut rest = step;
        for (axis, point) in self.tiles.spec.grid().iter().zip(&self.tiles.point).rev() {
            point.set((rest % axis.size) as i64);
            rest /= axis.size;
        }
    }

    /// Points every window at the block of this step.
    fn show_blocks(&self) -> Result<(), CpuError> {
        let tiles = &self.tiles;
        let variable = |v| match v {
            MapVariable::Axis(axis) => tiles.point[axis.index()].get(),
            MapVariable::Scalar(scalars, i) => {
                tiles.passed.scalars[tiles.spec.scalar_position(scalars, i)]
            }
            MapVariable::Element(table, axis) => {
                let at = tiles.point[axis.index()].get();
                i64::from(tiles.passed.tables[table.table()][at as usize])
            }
        };
        for (i, named) in tiles.spec.buffers().iter().enumerate() {
            let Buffer::Window { operand, .. } = &named.buffer else {
                continue;
            };
            let map = operand.map.iter();
            let shown = &mut *tiles.shown[i].borrow_mut();
            let unchanged = shown.len() == operand.map.len()
                && (map.clone().zip(&*shown)).all(|(index, &old)| index.evaluate(&variable) == old);
            if unchanged {
                continue;
            }
            shown.clear();
            shown.extend(map.map(|index: &Affine<_>| index.evaluate(&variable)));
            let block = Block::new(&operand.dims, &operand.block, shown).ok_or_else(|| {
                CpuError::BlockOutside {
                    kernel: tiles.spec.name().into(),
                    operand: named.name,
                    block: shown.clone(),
                    counts: operand.block_counts().collect(),
                }
            })?;
            let slot = &mut tiles.slots[i].borrow_mut();
            show(slot, block);
            // Packed copies of an input are known by its block, as long as nothing writes to it.
            if !matches!(**slot, Slot::Input(_)) || is_aliased(tiles.spec, i) {
                tiles.panels[i].invalidate();
            }
        }
        Ok(())
    }
}

/// No packed copies yet of each buffer, and how many of each window will be kept.
fn panels(cpu: &Cpu, spec: &KernelSpec) -> Vec<Panels> {
    let mut budget_bytes = KEPT_PANEL_BYTES;
    let mut of_buffer = |i: usize, named: &NamedBuffer| match &named.buffer {
        Buffer::Window {
            access: Access::Input,
            operand,
            ..
        } if !is_aliased(spec, i) => {
            let elements: usize = operand.block.iter().product();
            let block_bytes = elements.saturating_mul(cpu.packed_bytes(operand.dtype));
            let kept = blocks_kept(spec, operand, block_bytes, budget_bytes);
            if kept > 1 {
                budget_bytes -= kept * block_bytes;
            }
            Panels::of_blocks(kept)
        }
        _ => Panels::of_blocks(1),
    };
    let buffers = spec.buffers().iter().enumerate();
    buffers.map(|(i, named)| of_buffer(i, named)).collect()
}

/// Whether the next launch finds the same blocks of the same numbers, and no more of them than there may be copies of.
fn shows_the_same_again(buffer: &Buffer, slot: &Slot<'_, '_>, copies: usize) -> bool {
    match (buffer, slot) {
        (Buffer::Window { operand, .. }, Slot::Input(window)) => {
            matches!(window.array, Storage::Constant(_))
                && operand.block_counts().product::<usize>() <= copies
        }
        _ => false,
    }
}

/// Whether the kernel writes to the array that this buffer reads.
fn is_aliased(spec: &KernelSpec, buffer: usize) -> bool {
    let inputs = spec.aliases().iter().map(|(input, _)| input.index());
    inputs.into_iter().any(|input| input == buffer)
}

/// The memory for one buffer of a kernel.
fn slot<'s, 'a>(
    buffer: &Buffer,
    operands: &mut impl Iterator<Item = &'s Storage<'a>>,
    poison: bool,
) -> Slot<'s, 'a> {
    let mut next = || operands.next().expect("a program passes every operand");
    match buffer {
        Buffer::Window {
            access,
            layout,
            operand,
        } => {
            let (array, block) = (next(), None);
            let minor: Vec<usize> = operand.block.iter().rev().copied().collect();
            match (layout, access) {
                (Layout::Tile, Access::Input) => Slot::Input(InputTile {
                    array,
                    block,
                    masks: Masks::default(),
                    overwritten: Cell::new(0),
                }),
                (Layout::Tile, Access::Output) => Slot::Local(LocalTile {
                    // Of no use to a kernel whose rows go straight to the array.
                    elements: Elements::poisoned(operand.dtype, 0),
                    row_stride: row_stride(operand.dtype, minor[0]),
                    is_zero: false,
                    output: Some(Output {
                        array,
                        block,
                        rows: minor[1],
                        place: Place::Nowhere,
                        poison,
                    }),
                }),
                (Layout::Rows | Layout::Columns, access) => Slot::Vector(Vector {
                    elements: Elements::poisoned(operand.dtype, minor[0]),
                    window: Some(VectorWindow {
                        array,
                        block,
                        output: *access == Access::Output,
                    }),
                }),
            }
        }
        Buffer::Hbm { .. } => Slot::Hbm(next()),
        Buffer::Scratch {
            dtype,
            layout: Layout::Tile,
            shape,
        } => {
            let row_stride = row_stride(*dtype, shape[1]);
            Slot::Local(LocalTile {
                elements: Elements::poisoned(*dtype, shape[0] * row_stride),
                row_stride,
                is_zero: false,
                output: None,
            })
        }
        Buffer::Scratch { dtype, shape, .. } => Slot::Vector(Vector {
            elements: Elements::poisoned(*dtype, shape[0]),
            window: None,
        }),
        Buffer::Stats { rows, entropy } => Slot::Stats {
            rows: vec![POISONED; *rows],
            entropy: *entropy,
        },
        Buffer::Semaphore => Slot::Semaphore,
    }
}

/// Points a window at `block`: an output writes back what it held before.
fn show(slot: &mut Slot<'_, '_>, block: Block) {
    write_back(slot);
    match slot {
        Slot::Input(window) => {
            window.block = Some(block);
            window.masks = Masks::default();
            window.overwritten.set(0);
        }
        Slot::Local(tile) => {
            if let Some(output) = &mut tile.output {
                output.block = Some(block);
            }
        }
        Slot::Vector(vector) => {
            if let Some(window) = &mut vector.window {
                window.block = Some(block);
            }
            vector.enter();
        }
        Slot::Hbm(_) | Slot::Stats { .. } | Slot::Semaphore => {}
    }
}

fn write_back(slot: &mut Slot<'_, '_>) {
    match slot {
        Slot::Local(tile) => tile.write_back(),
        Slot::Vector(vector) => vector.write_back(),
        _ => {}
    }
}
