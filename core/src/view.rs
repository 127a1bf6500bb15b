//! Handles to the memory a kernel works on.
//!
//! A kernel never sees data. It holds *references* ([`TileRef`], [`RowsRef`], ...) that its
//! [spec](crate::spec) handed out when the buffers were declared, and passes them, whole or
//! narrowed to a span, to the primitives of [`TileOps`](crate::ops::TileOps). A narrowed reference
//! is a *view* ([`Tile`], [`Rows`], ...): it is generic over the backend's index type, because a
//! span may start at a loop variable that only exists as a symbol while a kernel is recorded.
//!
//! Per-row and per-column vectors are types of their own rather than `[b, 1]` and `[1, v]` tiles:
//! on a TPU a `[1024, 1]` f32 window occupies 512 KiB, because lanes pad to 128, so each backend
//! picks its own layout for them.

use crate::DType;

/// The number of a buffer (window or scratch) in its [`KernelSpec`](crate::spec::KernelSpec).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BufferId(pub(crate) usize);

impl BufferId {
    /// Position of the buffer in [`KernelSpec::buffers`](crate::spec::KernelSpec::buffers).
    pub const fn index(self) -> usize {
        self.0
    }
}

/// A range of rows or columns, counted in elements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Span<I> {
    /// First element; `None` is element 0.
    pub start: Option<I>,
    /// Number of elements.
    pub len: usize,
}

impl<I> Span<I> {
    /// The span of all `len` elements.
    pub const fn all(len: usize) -> Self {
        Self { start: None, len }
    }

    /// `len` elements from `start`.
    pub const fn new(start: I, len: usize) -> Self {
        Self {
            start: Some(start),
            len,
        }
    }
}

/// A two-dimensional buffer as declared: `rows x columns` elements of `dtype`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TileRef {
    pub(crate) buffer: BufferId,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) dtype: DType,
}

impl TileRef {
    /// The element type.
    pub const fn dtype(self) -> DType {
        self.dtype
    }

    /// `(rows, columns)` of the whole buffer.
    pub const fn shape(self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// The rows of `span`, all columns.
    pub const fn rows<I: Copy>(self, span: Span<I>) -> Tile<I> {
        Tile {
            buffer: self.buffer,
            rows: span,
            columns: Span::all(self.columns),
        }
    }

    /// The columns of `span`, all rows.
    pub const fn columns<I: Copy>(self, span: Span<I>) -> Tile<I> {
        Tile {
            buffer: self.buffer,
            rows: Span::all(self.rows),
            columns: span,
        }
    }
}

/// A rectangle of a two-dimensional buffer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tile<I> {
    /// The buffer the rectangle lies in.
    pub buffer: BufferId,
    /// Its rows.
    pub rows: Span<I>,
    /// Its columns.
    pub columns: Span<I>,
}

impl<I: Copy> From<TileRef> for Tile<I> {
    fn from(tile: TileRef) -> Self {
        tile.rows(Span::all(tile.rows))
    }
}

/// Declares a one-dimensional handle and its view.
macro_rules! vector_handle {
    ($reference:ident, $view:ident, $what:literal, $of:literal) => {
        #[doc = concat!("A vector with one element per ", $what, " of ", $of, ".")]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $reference {
            pub(crate) buffer: BufferId,
            pub(crate) len: usize,
        }

        impl $reference {
            /// The elements of `span`.
            pub const fn span<I: Copy>(self, span: Span<I>) -> $view<I> {
                $view {
                    buffer: self.buffer,
                    span,
                }
            }

            /// Number of elements of the whole buffer.
            pub const fn len(self) -> usize {
                self.len
            }

            /// Whether the buffer has no elements (a spec refuses such a buffer).
            pub const fn is_empty(self) -> bool {
                self.len == 0
            }
        }

        #[doc = concat!("A part of a [`", stringify!($reference), "`].")]
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct $view<I> {
            /// The buffer.
            pub buffer: BufferId,
            /// Its elements.
            pub span: Span<I>,
        }

        impl<I: Copy> From<$reference> for $view<I> {
            fn from(vector: $reference) -> Self {
                vector.span(Span::all(vector.len))
            }
        }
    };
}

vector_handle!(RowsRef, Rows, "row", "a tile");
vector_handle!(ColumnsRef, Columns, "column", "a tile");
vector_handle!(
    StatsRef,
    Stats,
    "row",
    "a tile: its running `(max, sum of exponentials)`"
);

impl ColumnsRef {
    /// The vector as a tile of one row.
    pub const fn as_tile(self, dtype: DType) -> TileRef {
        TileRef {
            buffer: self.buffer,
            rows: 1,
            columns: self.len,
            dtype,
        }
    }
}

/// An array that stays in HBM and is reached by explicit copies of whole blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HbmRef {
    pub(crate) buffer: BufferId,
}

impl HbmRef {
    /// The block with the given block indices, one per array dimension.
    pub const fn block<I: Copy, const N: usize>(self, index: [I; N]) -> HbmBlock<I, N> {
        HbmBlock {
            buffer: self.buffer,
            index,
        }
    }
}

/// One block of an [`HbmRef`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HbmBlock<I, const N: usize> {
    /// The array.
    pub buffer: BufferId,
    /// Block indices (not element offsets), one per array dimension.
    pub index: [I; N],
}

/// Counts the bytes of copies in flight; a wait consumes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SemaphoreRef {
    pub(crate) buffer: BufferId,
}

impl SemaphoreRef {
    /// The semaphore's buffer.
    pub const fn buffer(self) -> BufferId {
        self.buffer
    }
}

/// Scalars the host passes before the kernel starts (scalar prefetch), `i32`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScalarsRef {
    pub(crate) operand: usize,
}

impl ScalarsRef {
    /// Position among the spec's scalar operands.
    pub const fn operand(self) -> usize {
        self.operand
    }
}

/// A vector of `i32`s that an earlier step of the program has computed, passed before the kernel starts (scalar
/// prefetch): index maps and the kernel look numbers up in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableRef {
    pub(crate) table: usize,
}

impl TableRef {
    /// Position among the spec's tables.
    pub const fn table(self) -> usize {
        self.table
    }
}
