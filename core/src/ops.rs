//! [`TileOps`]: the primitives a kernel is written in.
//!
//! A kernel is one generic function over `T: TileOps`. It describes a single grid step; the grid,
//! the windows and the scratch memory around it are its [`KernelSpec`](crate::spec::KernelSpec).
//! A backend either *executes* the function at every grid step, with real numbers for the grid
//! indices, or *records* it once, with symbols. So a kernel must not ask for data or for a grid
//! index as a Rust value: what depends on them goes through [`TileOps::when`],
//! [`TileOps::for_each`] and [expressions](crate::expr).
//!
//! The methods take `&self` and handles are `Copy`: nested closures (`when` inside `for_each`)
//! could not share a `&mut self`.
//!
//! # Edges
//!
//! Where a block overhangs its array, the overhanging part of an input window is undefined and
//! stores to it are dropped. A kernel makes the part harmless before it enters a sum, with
//! [`TileOps::mask_rows`] and [`TileOps::mask_columns`]; masking an input window changes the copy
//! in fast memory, never the array. Executing backends hold NaN there, so a forgotten mask shows.

use core::ops::{Add, Mul, Sub};

use crate::expr::{Expr, Leaf};
use crate::spec::AxisId;
use crate::view::{Columns, HbmBlock, Rows, ScalarsRef, SemaphoreRef, Span, Stats, TableRef, Tile};

/// An integer that may be a symbol: a grid index, a loop variable, or arithmetic on them.
pub trait Index:
    Copy + Add<Output = Self> + Sub<Output = Self> + Add<i64, Output = Self> + Mul<i64, Output = Self>
{
}

impl<T> Index for T where
    T: Copy + Add<Output = T> + Sub<Output = T> + Add<i64, Output = T> + Mul<i64, Output = T>
{
}

/// Which dimension of each operand a product sums over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contract {
    /// `[m,k] x [k,n]`
    NN,
    /// `[m,k] x [n,k]`: the right operand is transposed.
    NT,
    /// `[k,m] x [k,n]`: the left operand is transposed.
    TN,
}

/// What a result does to what is already there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accumulate {
    /// Replaces it.
    Overwrite,
    /// Adds to it.
    Add,
}

/// How a loop over sub-tiles is written on a machine that schedules statically.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unroll {
    /// One straight-line block: the scheduler may overlap iterations.
    Full,
    /// A loop: small code, no overlap.
    Rolled,
}

/// How the largest of many values is found on a machine that schedules statically.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Largest {
    /// By a balanced tree: all of them are there.
    Balanced,
    /// One after the other: they come row by row, and the last is compared once.
    InOrder,
}

/// Direction of a copy between HBM and fast memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// HBM to scratch.
    Load,
    /// Scratch to HBM.
    Store,
}

/// The per-row coefficients of a softmax delta; see [`TileOps::softmax_delta`].
#[derive(Clone, Copy, Debug)]
pub struct Delta<I> {
    /// Factor on the logits (one over the temperature).
    pub scale: f32,
    /// Logsumexp of the scaled logits of the row.
    pub lse: Rows<I>,
    /// Coefficient of the probability.
    pub probability: Rows<I>,
    /// Coefficient of the probability times its logarithm (entropy); `None` is 0.
    pub log_probability: Option<Rows<I>>,
    /// What the label takes; `None` where there are no labels.
    pub one_hot: Option<OneHot<I>>,
    /// Constant subtracted from every column (label smoothing); `None` is 0.
    pub uniform: Option<Rows<I>>,
    /// The logits came out of a soft cap of this size: multiply by its derivative.
    pub soft_cap: Option<f32>,
}

/// The one-hot label of a [`Delta`].
#[derive(Clone, Copy, Debug)]
pub struct OneHot<I> {
    /// Its coefficient.
    pub coefficient: Rows<I>,
    /// Labels (`i32`), counted from column 0 of the array.
    pub labels: Rows<I>,
    /// Column of the array at which the tile starts.
    pub first_column: I,
}

/// The primitives of a kernel. Shapes are `rows x columns` of the views passed in; a backend may
/// panic on views that do not fit each other or their buffers, because that is an error of the
/// kernel's source and no input can cause it.
pub trait TileOps {
    /// A grid index, loop variable or arithmetic on them.
    type Index: Index;
    /// A truth value that may be a symbol.
    type Condition: Copy;

    // ---- where we are -------------------------------------------------------------------------

    /// Index of this grid step along `axis`.
    fn program_id(&self, axis: AxisId) -> Self::Index;

    /// Size of the grid along `axis`.
    fn num_programs(&self, axis: AxisId) -> Self::Index;

    /// A known number as an index.
    fn index(&self, value: i64) -> Self::Index;

    /// Element `index` of a scalar-prefetch operand.
    fn scalar(&self, scalars: ScalarsRef, index: usize) -> Self::Index;

    /// Element `index` of a table.
    fn element(&self, table: TableRef, index: Self::Index) -> Self::Index;

    /// `a == b`
    fn equals(&self, a: Self::Index, b: Self::Index) -> Self::Condition;

    /// `a < b`
    fn less_than(&self, a: Self::Index, b: Self::Index) -> Self::Condition;

    /// Both hold.
    fn and(&self, a: Self::Condition, b: Self::Condition) -> Self::Condition;

    /// Does not hold.
    fn not(&self, a: Self::Condition) -> Self::Condition;

    /// Runs `body` where the condition holds.
    fn when(&self, condition: Self::Condition, body: impl FnOnce());

    /// Runs `body` for `0..count`. Iterations must not depend on their order.
    fn for_each(&self, count: usize, unroll: Unroll, body: impl Fn(Self::Index));

    // ---- products -----------------------------------------------------------------------------

    /// `out (+)= a x b`, summed in f32.
    ///
    /// # Shapes
    /// By `contract`; `out` is `[m,n]` and f32. `a` and `b` are f32 or bf16, each as declared.
    fn matmul(
        &self,
        out: impl Into<Tile<Self::Index>>,
        a: impl Into<Tile<Self::Index>>,
        b: impl Into<Tile<Self::Index>>,
        contract: Contract,
        accumulate: Accumulate,
    );

    // ---- expressions --------------------------------------------------------------------------

    /// `out[r,c] = value(r,c)`, rounded to the element type of `out`. `out` may be a leaf of
    /// `value` if both name the same rectangle.
    fn element_wise(&self, out: impl Into<Tile<Self::Index>>, value: Expr<Leaf<Self::Index>>);

    /// `out[r] = value(r)`. Leaves are [`Rows`] only.
    fn row_wise(&self, out: impl Into<Rows<Self::Index>>, value: Expr<Leaf<Self::Index>>);

    /// `out[r] = rows[r]`, of any type: labels never pass through a float.
    fn copy_rows(&self, out: impl Into<Rows<Self::Index>>, rows: impl Into<Rows<Self::Index>>);

    /// `out[r] (+)= sum over columns of value(r,c)`, where `value` spans `columns` columns.
    fn row_sum(
        &self,
        out: impl Into<Rows<Self::Index>>,
        columns: usize,
        value: Expr<Leaf<Self::Index>>,
        accumulate: Accumulate,
    );

    /// `out[c] (+)= sum over rows of tile[r,c]`.
    fn column_sum(
        &self,
        out: impl Into<Columns<Self::Index>>,
        tile: impl Into<Tile<Self::Index>>,
        accumulate: Accumulate,
    );

    // ---- the softmax family -------------------------------------------------------------------

    /// Sets the running logsumexp to that of no elements: `(max, sum, moment) = (-inf, 0, 0)`.
    fn reset_logsumexp(&self, stats: impl Into<Stats<Self::Index>>);

    /// Pushes every column of `z = scale * tile` into the running logsumexp of its row:
    /// `m' = max(m, max_c z_c)`, `l' = l e^(m-m') + sum_c e^(z_c-m')`
    /// (online softmax, Milakov and Gimelshein 2018). Elements of `-inf` count as absent. The scale is positive.
    ///
    /// Statistics declared with an entropy keep a moment as well, by the derivative of the same rule:
    /// `t' = (t + l (m-m')) e^(m-m') + sum_c (z_c-m') e^(z_c-m')`.
    fn online_logsumexp(
        &self,
        stats: impl Into<Stats<Self::Index>>,
        tile: impl Into<Tile<Self::Index>>,
        scale: f32,
    );

    /// Gives statistics that have seen nothing a maximum to be relative to, that of `z = scale * tile`; others keep
    /// theirs. No element is counted.
    fn start_logsumexp(
        &self,
        stats: impl Into<Stats<Self::Index>>,
        tile: impl Into<Tile<Self::Index>>,
        scale: f32,
    );

    /// Where the condition holds, makes the maximum that of `z = scale * tile`. No element is counted.
    fn take_maximum(
        &self,
        stats: impl Into<Stats<Self::Index>>,
        tile: impl Into<Tile<Self::Index>>,
        scale: f32,
        condition: Self::Condition,
    );

    /// Pushes every column of `z = scale * tile` into the running logsumexp of its row, relative to the maximum that it
    /// has: `l' = l + sum_c e^(z_c-m)`, `m' = m`. So no exponential waits for the maximum of its row (rescaling that is
    /// put off while it is not needed: `FlashAttention` 4, Dao and others 2026). The sum overflows where `z` is far
    /// above `m`; [`sums_exceed`](Self::sums_exceed) tells. Of statistics without an entropy.
    fn add_exponentials(
        &self,
        stats: impl Into<Stats<Self::Index>>,
        tile: impl Into<Tile<Self::Index>>,
        scale: f32,
    );

    /// Whether some sum `l` is above `limit` or no number.
    fn sums_exceed(
        &self,
        stats: impl Into<Stats<Self::Index>>,
        limit: f32,
        largest: Largest,
    ) -> Self::Condition;

    /// `out = stats`, of the same rows; both without an entropy.
    fn copy_stats(&self, out: impl Into<Stats<Self::Index>>, stats: impl Into<Stats<Self::Index>>);

    /// `out[r] = m + log l`.
    fn finish_logsumexp(
        &self,
        out: impl Into<Rows<Self::Index>>,
        stats: impl Into<Stats<Self::Index>>,
    );

    /// `out[r] = log l - t / l`: the entropy `-sum_c p_c log p_c` of the softmax, from statistics that
    /// were declared with one. Relative to the maximum neither term grows with the logits.
    fn finish_entropy(
        &self,
        out: impl Into<Rows<Self::Index>>,
        stats: impl Into<Stats<Self::Index>>,
    );

    /// `out[r] = tile[r, labels[r] - first_column]` where that column lies in the tile; rows whose
    /// label lies elsewhere keep what they have. Exact also where other elements are not finite. `out` starts as 0 and
    /// may be read after [`finish_one_hot`](Self::finish_one_hot).
    fn one_hot_select(
        &self,
        out: impl Into<Rows<Self::Index>>,
        tile: impl Into<Tile<Self::Index>>,
        labels: impl Into<Rows<Self::Index>>,
        first_column: Self::Index,
    );

    /// What [`one_hot_select`](Self::one_hot_select) does. On a TPU each element that is found is stored where it is,
    /// under a mask: an operation less for each register, and one of its stores more for each but the first of a row.
    fn one_hot_store(
        &self,
        out: impl Into<Rows<Self::Index>>,
        tile: impl Into<Tile<Self::Index>>,
        labels: impl Into<Rows<Self::Index>>,
        first_column: Self::Index,
    ) {
        self.one_hot_select(out, tile, labels, first_column);
    }

    /// Completes what [`one_hot_select`](Self::one_hot_select) found: lanes of a TPU each keep what they have seen.
    fn finish_one_hot(&self, out: impl Into<Rows<Self::Index>>);

    /// The gradient of a softmax loss with respect to `scale * z`, where `z` are the logits and
    /// `log p = scale z - lse`:
    ///
    /// `out[r,c] = ((probability[r] + log_probability[r] log p) p - one_hot[r] 1(c = label[r]) - uniform[r]) (1 -
    /// (z[r,c]/cap)^2)`
    ///
    /// A factor of `scale` on the coefficients makes it the gradient with respect to `z`. Where `p`
    /// is 0, so is `p log p`. A row whose coefficients are all 0 is 0 whatever its logits, so that a
    /// row left out of the loss cannot leak a NaN. `out` may be `logits`; it is rounded to its
    /// element type.
    fn softmax_delta(
        &self,
        out: impl Into<Tile<Self::Index>>,
        logits: impl Into<Tile<Self::Index>>,
        delta: Delta<Self::Index>,
    );

    // ---- edges --------------------------------------------------------------------------------

    /// Sets columns `valid..` of the tile to `value`; nothing if `valid` is past its end.
    fn mask_columns(&self, tile: impl Into<Tile<Self::Index>>, valid: Self::Index, value: f32);

    /// Sets rows `valid..` of the tile to `value`; nothing if `valid` is past its end.
    fn mask_rows(&self, tile: impl Into<Tile<Self::Index>>, valid: Self::Index, value: f32);

    /// Sets the rows of the tile before `first` and from `end` on to 0; either may lie outside of it. Not of an input
    /// window, whose copy a later step may find again.
    fn keep_rows(&self, tile: impl Into<Tile<Self::Index>>, first: Self::Index, end: Self::Index);

    // ---- memory -------------------------------------------------------------------------------

    /// Starts a copy between an HBM block and a whole scratch buffer of the same shape (leading block dimensions
    /// are 1). It is complete after [`TileOps::wait`] with the same operands. Of a block that overhangs its array
    /// what the array has is copied, and the scratch buffer keeps what it had beyond.
    fn start_copy<const N: usize>(
        &self,
        direction: Direction,
        block: HbmBlock<Self::Index, N>,
        scratch: impl Into<Tile<Self::Index>>,
        semaphore: SemaphoreRef,
    );

    /// Waits for a copy started with the same operands.
    fn wait<const N: usize>(
        &self,
        direction: Direction,
        block: HbmBlock<Self::Index, N>,
        scratch: impl Into<Tile<Self::Index>>,
        semaphore: SemaphoreRef,
    );

    // ---- provided -----------------------------------------------------------------------------

    /// Whether this is the first step along `axis`.
    fn is_first(&self, axis: AxisId) -> Self::Condition {
        self.equals(self.program_id(axis), self.index(0))
    }

    /// Whether this is any step along `axis` but the first.
    fn is_after_first(&self, axis: AxisId) -> Self::Condition {
        self.less_than(self.index(0), self.program_id(axis))
    }

    /// Whether this is the last step along `axis`.
    fn is_last(&self, axis: AxisId) -> Self::Condition {
        self.equals(self.program_id(axis) + 1, self.num_programs(axis))
    }

    /// Runs `body` on consecutive spans of `len` rows, or columns, that cover all `size` of them.
    /// The last one is shorter if `size` is no multiple.
    fn for_sub_tiles(
        &self,
        size: usize,
        len: usize,
        unroll: Unroll,
        body: impl Fn(Span<Self::Index>),
    ) {
        self.for_numbered_sub_tiles(size, len, unroll, |_, span| body(span));
    }

    /// The same, with the number of each span.
    fn for_numbered_sub_tiles(
        &self,
        size: usize,
        len: usize,
        unroll: Unroll,
        body: impl Fn(Self::Index, Span<Self::Index>),
    ) {
        let (full, rest) = (size / len, size % len);
        let step = len as i64;
        if full == 1 && rest == 0 {
            return body(self.index(0), Span::all(size));
        }
        self.for_each(full, unroll, |i| body(i, Span::new(i * step, len)));
        if rest > 0 {
            self.for_each(1, unroll, |i| {
                let i = i + full as i64;
                body(i, Span::new(i * step, rest));
            });
        }
    }

    /// Cuts `rows` rows into parts of `part` and runs `inside` for those whose rows are all in `own`, from one row to
    /// before another, and `cut` for those that have rows of others as well, with `own` counted from the first row of
    /// the part. Parts without a row of `own` are left out.
    ///
    /// A backend whose views have any length at run time may take `own` as one part that is inside.
    fn for_own_parts(
        &self,
        [rows, part]: [usize; 2],
        [first, end]: [Self::Index; 2],
        inside: impl Fn(Span<Self::Index>),
        cut: impl Fn(Span<Self::Index>, [Self::Index; 2]),
    ) {
        let zero = self.index(0);
        self.for_sub_tiles(rows, part, Unroll::Rolled, |span| {
            let start = span.start.unwrap_or(zero);
            let (first, end) = (first - start, end - start);
            let behind = self.index(part as i64);
            let has_some = self.and(self.less_than(first, behind), self.less_than(zero, end));
            let is_inside = self.and(
                self.not(self.less_than(zero, first)),
                self.not(self.less_than(end, behind)),
            );
            self.when(is_inside, || inside(span));
            self.when(self.and(has_some, self.not(is_inside)), || {
                cut(span, [first, end])
            });
        });
    }

    /// The soft cap `cap * tanh(z / cap)`, in place.
    fn soft_cap(&self, tile: impl Into<Tile<Self::Index>>, cap: f32) {
        let tile = tile.into();
        self.element_wise(tile, (Expr::leaf(tile) * (1.0 / cap)).tanh() * cap);
    }

    /// `out = in`, rounded to the element type of `out`.
    fn cast(&self, out: impl Into<Tile<Self::Index>>, input: impl Into<Tile<Self::Index>>) {
        self.element_wise(out, Expr::leaf(input.into()));
    }

    /// `out[r] = value`
    fn fill_rows(&self, out: impl Into<Rows<Self::Index>>, value: f32) {
        self.row_wise(out, Expr::constant(value));
    }

    /// Loads a block and waits for it.
    fn load<const N: usize>(
        &self,
        block: HbmBlock<Self::Index, N>,
        scratch: impl Into<Tile<Self::Index>>,
        semaphore: SemaphoreRef,
    ) {
        let scratch = scratch.into();
        self.start_copy(Direction::Load, block, scratch, semaphore);
        self.wait(Direction::Load, block, scratch, semaphore);
    }
}
