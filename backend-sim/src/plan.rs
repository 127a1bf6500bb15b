//! How the passes of a head are cut up on a target, beyond the blocks that a search tries.

use tilecast_core::DType;
use tilecast_core::budget::{Term, TermKind, VmemLedger};
use tilecast_core::kernels::head::{Blocks, Head, Lazy, Split, Strategy, Structure, XForm};
use tilecast_core::program::Kernel;
use tilecast_core::spec::{Buffer, Layout};
use tilecast_core::target::{Generation, Target};
use tilecast_tpu::lower::F32Products;

use crate::memory::room_bytes;
use crate::problem::{PassBlocks, Setting};

/// How a forward pass is cut.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ForwardPlan<B = Blocks> {
    /// Block sizes.
    pub blocks: B,
    /// In what form the kernel gets `x`. Any but the given takes a pass over `x`. Of f32 it is half of the memory, for
    /// larger blocks, and half of the copies where a step has a part of the rows that others have too.
    pub x: XForm,
}

impl<B> From<B> for ForwardPlan<B> {
    /// With `x` as it is.
    fn from(blocks: B) -> Self {
        Self {
            blocks,
            x: XForm::Given,
        }
    }
}

/// How a backward pass is cut.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BackwardPlan<B = Blocks> {
    /// Block sizes.
    pub blocks: B,
    /// Columns of a chunk of delta, for [`Strategy::Streaming`]; `None` is [`Strategy::Combined`].
    pub chunk_columns: Option<usize>,
    /// Blocks of `dx` and `dw`, for [`Strategy::Streaming`]; those of delta where they are not given. Their columns are
    /// the same.
    pub product_blocks: [Option<B>; 2],
    /// Columns of a block of delta as it is made, where they are not those of [`blocks`](Self::blocks), which products
    /// read.
    pub delta_columns: Option<usize>,
    /// Whether the `w` of a chunk is rounded to bf16 once, before its other kernels, for [`Strategy::Streaming`]; see
    /// `Schedule::rounds_w`.
    pub rounds_w: bool,
    /// Whether `x` is [packed](XForm::Packed) once, before the other kernels, for [`Strategy::Streaming`].
    pub packs_x: bool,
}

impl<B> BackwardPlan<B> {
    /// Everything in these blocks; see [`BackwardPlan::chunk_columns`].
    pub const fn in_blocks(blocks: B, chunk_columns: Option<usize>) -> Self {
        Self {
            blocks,
            chunk_columns,
            product_blocks: [None, None],
            delta_columns: None,
            rounds_w: false,
            packs_x: false,
        }
    }
}

impl<B: PassBlocks> BackwardPlan<B> {
    /// How many kernels of the pass come before that of delta.
    pub const fn before_delta(&self) -> usize {
        self.packs_x as usize + self.rounds_w as usize
    }

    /// Those of a kernel of the pass, counted in the order in which they run: (`x`), (`w` of a chunk), delta, `dx`,
    /// `dw`.
    pub fn blocks_of(&self, kernel: usize) -> B {
        let [dx, dw] = self.product_blocks;
        let Some(kernel) = kernel.checked_sub(self.before_delta()) else {
            return self.blocks;
        };
        let own = match kernel {
            0 => (self.delta_columns).map(|columns| self.blocks.with_columns(columns)),
            1 => dx,
            2 => dw,
            _ => None,
        };
        own.unwrap_or(self.blocks)
    }

    /// Name of the structure of the pass, where there are several.
    pub fn strategy_name(&self) -> Option<&'static str> {
        B::strategy(self).map(Strategy::name)
    }
}

impl BackwardPlan {
    /// Structure of the pass.
    pub const fn strategy(&self) -> Strategy {
        match self.chunk_columns {
            Some(_) => Strategy::Streaming,
            None => Strategy::Combined,
        }
    }
}

/// Rows whose softmax follows their product at once. A sub-tile is short enough to interleave with the
/// next, and long enough that its rows keep a matrix unit busy while the weights of the next block are
/// pushed: a unit of 128 takes them in a quarter of that time, one of 256 in half, so 256 rows make both
/// alike on v6e and v7x (0.78 instead of 0.73 of the matrix units' rate with H = 4096, b = 1024, v = 512).
///
/// On v4 it is 256 rows as well: with one load and two vector operations a cycle, what lays out weights anew for each
/// sub-tile takes four fifths of the loads (delta of H = 2048 in blocks of 512,2048,768: 0.888 instead of 0.852).
pub fn rows_per_sub_tile(target: &Target) -> usize {
    match target.generation {
        Generation::V4 => 2 * target.mxu_dim.value,
        _ => target.mxu_dim.value,
    }
}

/// Rows of `dw` whose product is one of its own. Of what it transposes the compiler keeps the whole part of `x` in
/// VMEM: 2.6 MiB of the 16 that a v4 has, for blocks of 1024,1024,768. By 256 rows it is 0.7 MiB, and the schedule
/// is 0.9 % longer than in one product, where the blocks that fit without are 4 % slower.
pub fn dw_rows(target: &Target) -> Option<usize> {
    (target.generation == Generation::V4).then_some(2 * target.mxu_dim.value)
}

/// What cores share in a combined pass: of the other they have sums of their own, which take memory and a pass over
/// them.
pub fn cores_split(head: &Head) -> Split {
    match head.tokens() < head.vocab() {
        true => Split::Columns,
        false => Split::Rows,
    }
}

/// Whether plans are tried in which the `w` of a chunk is rounded before it is read in f32 by each block of rows. It
/// takes a pass over `w`, and pays where blocks are small for lack of VMEM; elsewhere they are large enough without.
pub(crate) fn may_round_w(head: &Head, setting: Setting) -> bool {
    setting.target.generation == Generation::V4 && rounds_operands(head, setting)
}

/// Whether `x` and delta are packed, where they are of bf16 as kernels get them. On v4 the matrix units take pairs of
/// rows as words, and operands whose memory has them in another way are laid out anew: three vector operations and a
/// load more for each register, beside the softmax.
pub(crate) fn packs(target: &Target) -> bool {
    target.generation == Generation::V4
}

/// The forms of `x` that are tried.
pub(crate) fn x_forms(head: &Head, setting: Setting) -> impl Iterator<Item = XForm> {
    let narrow = head.dtype() == DType::Bf16 && setting.structure == Structure::Overlapped;
    let rounds = rounds_operands(head, setting);
    let made = match packs(setting.target) {
        true => (narrow || rounds).then_some(XForm::Packed),
        false => rounds.then_some(XForm::Rounded),
    };
    [XForm::Given].into_iter().chain(made)
}

/// Memory of an `x` that is packed for a backward pass, at most, of that of f32 logits, in percent. It lies in HBM all
/// the time, beside a chunk of delta and, of bf16, the sum of `dx`, which all together are to keep to a tenth.
const PACKED_X_PERCENT: usize = 2;

/// Whether streaming backward passes pack `x`.
pub(crate) fn packs_x_backward(head: &Head, setting: Setting) -> bool {
    let [x, logits] = [
        head.hidden() * size_of::<u16>(),
        head.vocab() * size_of::<f32>(),
    ];
    100 * x <= PACKED_X_PERCENT * logits && x_forms(head, setting).any(|x| x == XForm::Packed)
}

/// Whether products round f32 operands, which can be rounded before then.
pub(crate) fn rounds_operands(head: &Head, setting: Setting) -> bool {
    head.dtype() == DType::F32
        && setting.products == F32Products::Rounded
        && setting.structure == Structure::Overlapped
}

/// Whether the `x` of a kernel that makes logits, which has a block as wide as `H` and two buffers, has to have one. It
/// is another block for the next rows only, so the wait for it is 0.2 to 0.6 % of what is computed of it in a forward
/// pass over 128,256 columns, and more in a chunk of them: what fits has two buffers. Windows and what is kept of rows
/// are counted, since whatever the limit of a kernel is that fits, it has room for these; tiles of scratch may be
/// dropped.
pub fn x_in_one_buffer(kernel: &impl Kernel, setting: Setting) -> bool {
    let capacity = setting.target.vmem_usable_bytes.value;
    let most = capacity.saturating_sub(room_bytes(setting.target));
    let limit_bytes = setting.vmem_bytes.min(most);
    let spec = kernel.spec();
    let tile = |name: &str| {
        let mut buffers = spec.buffers().iter().filter(|named| named.name == name);
        let layout = Layout::Tile;
        buffers.any(
            |named| matches!(&named.buffer, Buffer::Scratch { layout: of, .. } if *of == layout),
        )
    };
    VmemLedger::new(spec, setting.target, Some(limit_bytes)).is_ok_and(|ledger| {
        let of_rows = |term: &&Term| term.kind == TermKind::Scratch && !tile(term.name);
        let rows = ledger.terms.iter().filter(of_rows).map(|term| term.bytes);
        rows.fold(ledger.window_bytes(), u64::saturating_add) > limit_bytes
    })
}

/// Elements of a block of `w` from which a v4 or v6e, whose vector units bind, is lazy in the forward pass, and columns
/// of it from which others are. A lazy pass checks its sums once per block: with less work in the block the compiler's
/// schedules were 0.3 to 15 % longer for it (bf16, libtpu 0.0.51, static; not timed).
const LAZY_ELEMENTS: usize = 512 * 1024;
const LAZY_COLUMNS: usize = 1024;

/// Rows from which a v7x is lazy in blocks of fewer columns as well, if they have [`LAZY_ELEMENTS`]. There the softmax
/// of a sub-tile becomes ready just as the next product would begin, and the product waits for part of it: lazily,
/// schedules of 2048 rows by 768 columns were 3 % shorter, of 4096 rows by 768 and 512 columns 2 and 3 %, and of 4096
/// by 256 2 % longer; of 1024 rows by 512 columns they were 5 % longer.
const LAZY_ROWS: usize = 2048;

/// Rows from which a v4 is lazy in smaller blocks as well, where they have all of the contraction. With H = 512
/// schedules of 512 to 2048 rows by 256 and 512 columns were 9 to 21 % shorter for it; over two hidden blocks of 1024
/// those of 512 and 1024 rows by 256 columns were 6 and 7 % longer.
const LAZY_ROWS_V4: usize = 512;

/// Hidden block and columns from which a v7x keeps the logits of a lazy pass: of larger blocks the schedules were 0.3
/// and 0.4 % shorter for it with 1024 and 512 rows, and as long with 256, at 2 to 7 MiB more.
const KEPT_HIDDEN: usize = 1536;
const KEPT_COLUMNS: usize = 2048;

/// Rows of a sub-tile that a v4, whose steps are short, folds exactly, so that no check of sums follows the last
/// product: a row passes a cycle, and the largest of a register takes 130 to the core's scalars.
const EXACT_ROWS: usize = 128;

/// Length of the contraction from which a v7x stores the logits of labels. In schedules of H = 512 more registers wait
/// for it: 2048,512,8192 took 73 MiB in f32 instead of 48, and bf16 passes were up to 9 % longer.
const STORED_HIDDEN: usize = 1024;

/// How blocks of the forward pass are folded lazily: as many columns at once as a matrix unit has, whose weights many
/// rows of the block then pass. `None` where too little is done in a block for that to pay. `hidden` is the length of
/// the contraction.
pub fn lazy(target: &Target, forward: Blocks, hidden: usize) -> Option<Lazy> {
    let many_elements = forward.h.saturating_mul(forward.v) >= LAZY_ELEMENTS;
    let many_columns = forward.v >= LAZY_COLUMNS;
    let enough = match target.generation {
        Generation::V4 => many_elements || forward.h >= hidden && forward.b >= LAZY_ROWS_V4,
        Generation::V6e => many_elements,
        Generation::V7x => many_columns || many_elements && forward.b >= LAZY_ROWS,
        _ => many_columns,
    };
    let large = forward.h >= KEPT_HIDDEN && forward.v >= KEPT_COLUMNS;
    enough.then_some(Lazy {
        columns: target.mxu_dim.value,
        keeps_logits: target.generation == Generation::V7x && large,
        exact_rows: match target.generation {
            Generation::V4 if forward.b > EXACT_ROWS => EXACT_ROWS,
            _ => 0,
        },
        stores_labels: match target.generation {
            Generation::V4 => true,
            Generation::V7x => hidden >= STORED_HIDDEN,
            _ => false,
        },
    })
}
