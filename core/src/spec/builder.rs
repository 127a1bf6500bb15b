//! [`SpecBuilder`]: declares what a kernel has, and hands out the handles of it.

use alloc::string::String;
use alloc::vec::Vec;

use super::*;

/// Declares a kernel's grid, operands and scratch; see the [module](super).
#[derive(Debug)]
pub struct SpecBuilder {
    spec: KernelSpec,
}

impl SpecBuilder {
    /// Starts the spec of the kernel called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            spec: KernelSpec {
                name: name.into(),
                grid: Vec::new(),
                scalars: Vec::new(),
                tables: Vec::new(),
                buffers: Vec::new(),
                aliases: Vec::new(),
            },
        }
    }

    /// Adds a grid axis inside those added before.
    pub fn axis(&mut self, name: &'static str, size: usize, semantics: Semantics) -> AxisId {
        self.spec.grid.push(GridAxis {
            name,
            size,
            semantics,
        });
        AxisId(self.spec.grid.len() - 1)
    }

    /// Adds a scalar-prefetch operand of `len` values.
    pub fn scalars(&mut self, name: &'static str, len: usize) -> ScalarsRef {
        self.spec.scalars.push(ScalarOperand { name, len });
        ScalarsRef {
            operand: self.spec.scalars.len() - 1,
        }
    }

    /// Adds a table, which a launch fills from an array of as many `i32`s.
    pub fn table(&mut self, table: Table) -> TableRef {
        self.spec.tables.push(table);
        TableRef {
            table: self.spec.tables.len() - 1,
        }
    }

    /// Adds a two-dimensional input window.
    pub fn input_tile(&mut self, name: &'static str, operand: Blocked) -> TileRef {
        self.tile(name, Access::Input, operand)
    }

    /// Adds a two-dimensional output window.
    pub fn output_tile(&mut self, name: &'static str, operand: Blocked) -> TileRef {
        self.tile(name, Access::Output, operand)
    }

    /// Adds an input window with one element per row.
    pub fn input_rows(&mut self, name: &'static str, operand: Blocked) -> RowsRef {
        self.rows(name, Access::Input, operand)
    }

    /// Adds an output window with one element per row.
    pub fn output_rows(&mut self, name: &'static str, operand: Blocked) -> RowsRef {
        self.rows(name, Access::Output, operand)
    }

    /// Adds an input window with one element per column.
    pub fn input_columns(&mut self, name: &'static str, operand: Blocked) -> ColumnsRef {
        self.columns(name, Access::Input, operand)
    }

    /// Adds an output window with one element per column.
    pub fn output_columns(&mut self, name: &'static str, operand: Blocked) -> ColumnsRef {
        self.columns(name, Access::Output, operand)
    }

    /// Adds an array that stays in HBM.
    pub fn hbm(&mut self, name: &'static str, operand: Blocked) -> HbmRef {
        HbmRef {
            buffer: self.push(name, Buffer::Hbm { operand }),
        }
    }

    /// Adds a two-dimensional scratch buffer.
    pub fn scratch_tile(
        &mut self,
        name: &'static str,
        dtype: DType,
        [rows, columns]: [usize; 2],
    ) -> TileRef {
        let shape = [rows, columns].into();
        let layout = Layout::Tile;
        TileRef {
            buffer: self.push(
                name,
                Buffer::Scratch {
                    dtype,
                    layout,
                    shape,
                },
            ),
            rows,
            columns,
            dtype,
        }
    }

    /// Adds an f32 scratch vector with one element per row.
    pub fn scratch_rows(&mut self, name: &'static str, len: usize) -> RowsRef {
        RowsRef {
            buffer: self.push_vector(name, Layout::Rows, len),
            len,
        }
    }

    /// Adds an i32 scratch vector with one element per row, for labels.
    pub fn scratch_labels(&mut self, name: &'static str, len: usize) -> RowsRef {
        let (dtype, layout, shape) = (DType::I32, Layout::Rows, [len].into());
        let buffer = Buffer::Scratch {
            dtype,
            layout,
            shape,
        };
        RowsRef {
            buffer: self.push(name, buffer),
            len,
        }
    }

    /// Adds an f32 scratch vector with one element per column.
    pub fn scratch_columns(&mut self, name: &'static str, len: usize) -> ColumnsRef {
        ColumnsRef {
            buffer: self.push_vector(name, Layout::Columns, len),
            len,
        }
    }

    /// Adds running logsumexp statistics for `rows` rows, with the moment of an entropy if asked.
    pub fn stats(&mut self, name: &'static str, rows: usize, entropy: bool) -> StatsRef {
        StatsRef {
            buffer: self.push(name, Buffer::Stats { rows, entropy }),
            len: rows,
        }
    }

    /// Adds a semaphore.
    pub fn semaphore(&mut self, name: &'static str) -> SemaphoreRef {
        SemaphoreRef {
            buffer: self.push(name, Buffer::Semaphore),
        }
    }

    /// Declares that an input and an output window are the same array, updated in place.
    ///
    /// A backend may write a row of the output where the input lies: a kernel goes through the rows of a block from the
    /// first to the last and does not read a row of the input again after a row of the output behind it.
    pub fn alias(&mut self, input: TileRef, output: TileRef) {
        self.spec.aliases.push((input.buffer, output.buffer));
    }

    /// Checks the declarations.
    ///
    /// # Errors
    /// [`SpecError`] names the first thing that is wrong.
    pub fn build(self) -> Result<KernelSpec, SpecError> {
        check::check(&self.spec)?;
        Ok(self.spec)
    }

    fn tile(&mut self, name: &'static str, access: Access, operand: Blocked) -> TileRef {
        let mut minor = operand.block.iter().rev().copied();
        let (columns, rows) = (minor.next().unwrap_or(1), minor.next().unwrap_or(1));
        let dtype = operand.dtype;
        TileRef {
            buffer: self.push_window(name, access, Layout::Tile, operand),
            rows,
            columns,
            dtype,
        }
    }

    fn rows(&mut self, name: &'static str, access: Access, operand: Blocked) -> RowsRef {
        let len = operand.block.first().copied().unwrap_or(1);
        RowsRef {
            buffer: self.push_window(name, access, Layout::Rows, operand),
            len,
        }
    }

    fn columns(&mut self, name: &'static str, access: Access, operand: Blocked) -> ColumnsRef {
        let len = operand.block.first().copied().unwrap_or(1);
        ColumnsRef {
            buffer: self.push_window(name, access, Layout::Columns, operand),
            len,
        }
    }

    fn push_window(
        &mut self,
        name: &'static str,
        access: Access,
        layout: Layout,
        operand: Blocked,
    ) -> BufferId {
        self.push(
            name,
            Buffer::Window {
                access,
                layout,
                operand,
            },
        )
    }

    fn push_vector(&mut self, name: &'static str, layout: Layout, len: usize) -> BufferId {
        let (dtype, shape) = (DType::F32, [len].into());
        self.push(
            name,
            Buffer::Scratch {
                dtype,
                layout,
                shape,
            },
        )
    }

    fn push(&mut self, name: &'static str, buffer: Buffer) -> BufferId {
        self.spec.buffers.push(NamedBuffer { name, buffer });
        BufferId(self.spec.buffers.len() - 1)
    }
}
