//! How much VMEM a buffer occupies: the compiler's padding rules.
//!
//! VMEM is laid out in *tiles*. A tile is one or more rows of `lanes` elements along the minor
//! dimension, and a buffer occupies whole tiles only. So a column of 1024 f32 is 1024 rows of one
//! element, each alone in 128 lanes: 512 KiB instead of 4. The rules, for a buffer with `r` rows
//! (second-minor dimension) of `c` elements (minor dimension):
//!
//! * `c` rounds up to a multiple of the lanes (128).
//! * `r` rounds up to a multiple of the tile's rows. Short buffers get short tiles:
//!   `min(sublanes, r rounded up to a power of two)` rows, but at least as many as share a 32-bit
//!   word, 2 for bf16. So a single f32 row occupies 512 bytes and not 4 KiB. On v7x a bf16 buffer
//!   whose rows divide by 16 has tiles of 16 rows, which cost the same.
//! * Dimensions before the last two multiply.
//! * A vector of `n` elements rounds up to as many as fill a row of 32-bit lanes: 128 of 32 bits, or
//!   256 bf16.
//! * The buffers of a window are allocated together, in units of 1 KiB. Scratch is not rounded.
//!
//! Every rule was checked against allocations that the TPU compiler reports; the rows are in
//! `core/tests/data/compiler_vmem.csv`.

use alloc::vec::Vec;

use crate::DType;
use crate::target::Target;

/// Why a buffer has no padded size.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PaddingError {
    /// A scalar: only arrays live in VMEM.
    #[error("a buffer in VMEM needs at least one dimension")]
    NoDimensions,
    /// A dimension of size zero.
    #[error("dimension {dim} of {shape:?} is empty")]
    Empty {
        /// The shape, elements.
        shape: Vec<usize>,
        /// The empty dimension.
        dim: usize,
    },
    /// The size exceeds what an integer can hold.
    #[error("the padded size of {buffers} x {shape:?} of {dtype} overflows")]
    Overflow {
        /// The shape, elements.
        shape: Vec<usize>,
        /// The element type.
        dtype: DType,
        /// Number of buffers.
        buffers: usize,
    },
}

/// Rows and columns of the tiles of a buffer of two or more dimensions, `rows` being its
/// second-minor size. A vector has tiles of one row; see [`padded_shape`] for its padding.
///
/// # Example
/// ```
/// use tilecast_core::{DType, budget::padding::tile, target::Target};
///
/// let v5e = Target::by_name("v5e")?;
/// assert_eq!(tile(3, DType::F32, v5e), [4, 128]);
/// assert_eq!(tile(1, DType::Bf16, v5e), [2, 128]);
/// # Ok::<(), tilecast_core::target::UnknownTarget>(())
/// ```
pub fn tile(rows: usize, dtype: DType, target: &Target) -> [usize; 2] {
    let (lanes, sublanes) = (target.lanes.value, target.sublanes.value);
    let large = target.bf16_tile_rows.value;
    let tile_rows = if dtype == DType::Bf16 && large > sublanes && rows.is_multiple_of(large) {
        large
    } else if rows >= sublanes {
        sublanes
    } else {
        rows.next_power_of_two().max(elements_per_word(dtype))
    };
    [tile_rows, lanes]
}

/// The shape that `shape` occupies in VMEM, in elements.
///
/// # Errors
/// [`PaddingError`] for a shape without dimensions, with an empty one, or too large for `usize`.
pub fn padded_shape(
    shape: &[usize],
    dtype: DType,
    target: &Target,
) -> Result<Vec<usize>, PaddingError> {
    if let Some(dim) = shape.iter().position(|&size| size == 0) {
        return Err(PaddingError::Empty {
            shape: shape.to_vec(),
            dim,
        });
    }
    let mut padded = shape.to_vec();
    let fits = match padded.as_mut_slice() {
        [] => return Err(PaddingError::NoDimensions),
        [n] => round_up(n, target.lanes.value * elements_per_word(dtype)),
        [.., rows, columns] => {
            let [tile_rows, tile_columns] = tile(*rows, dtype, target);
            round_up(rows, tile_rows).and_then(|()| round_up(columns, tile_columns))
        }
    };
    fits.ok_or_else(|| overflow(shape, dtype, 1))?;
    Ok(padded)
}

/// Bytes that a scratch buffer of `shape` occupies in VMEM, or one buffer of a window.
///
/// # Errors
/// [`PaddingError`] for a shape without dimensions, with an empty one, or too large for `u64`.
///
/// # Example
/// ```
/// use tilecast_core::{DType, budget::padding::padded_bytes, target::Target};
///
/// let v5e = Target::by_name("v5e")?;
/// assert_eq!(padded_bytes(&[1024, 1], DType::F32, v5e)?, 512 << 10);
/// assert_eq!(padded_bytes(&[1024], DType::F32, v5e)?, 4 << 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn padded_bytes(shape: &[usize], dtype: DType, target: &Target) -> Result<u64, PaddingError> {
    padded_shape(shape, dtype, target)?
        .iter()
        .try_fold(dtype.size_bytes() as u64, |bytes, &size| {
            bytes.checked_mul(size as u64)
        })
        .ok_or_else(|| overflow(shape, dtype, 1))
}

/// Bytes that a window of `buffers` blocks of `block` elements occupies in VMEM.
///
/// # Errors
/// As for [`padded_bytes`].
pub fn window_bytes(
    block: &[usize],
    dtype: DType,
    buffers: usize,
    target: &Target,
) -> Result<u64, PaddingError> {
    padded_bytes(block, dtype, target)?
        .checked_mul(buffers as u64)
        .and_then(|bytes| bytes.checked_next_multiple_of(target.vmem_window_granule_bytes.value))
        .ok_or_else(|| overflow(block, dtype, buffers))
}

/// Elements that share one 32-bit word of a lane.
const fn elements_per_word(dtype: DType) -> usize {
    4 / dtype.size_bytes()
}

/// Rounds `size` up to a multiple, or returns `None` if that overflows.
fn round_up(size: &mut usize, multiple: usize) -> Option<()> {
    *size = size.checked_next_multiple_of(multiple)?;
    Some(())
}

fn overflow(shape: &[usize], dtype: DType, buffers: usize) -> PaddingError {
    PaddingError::Overflow {
        shape: shape.to_vec(),
        dtype,
        buffers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TARGETS;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn shapes_with_their_tiles() {
        let v7x = Target::by_name("v7x").unwrap();
        let v6e = Target::by_name("v6e").unwrap();
        assert_eq!(tile(256, DType::Bf16, v7x), [16, 128]);
        assert_eq!(tile(24, DType::Bf16, v7x), [8, 128]);
        assert_eq!(tile(256, DType::Bf16, v6e), [8, 128]);
        let cases: [(&[usize], DType, &[usize]); 8] = [
            (&[3, 100], DType::F32, &[4, 128]),
            (&[5, 128], DType::I32, &[8, 128]),
            (&[100, 128], DType::F32, &[104, 128]),
            (&[1, 128], DType::Bf16, &[2, 128]),
            (&[12, 128], DType::Bf16, &[16, 128]),
            (&[2, 4, 129], DType::F32, &[2, 4, 256]),
            (&[384], DType::Bf16, &[512]),
            (&[384], DType::F32, &[384]),
        ];
        for target in &TARGETS {
            for (shape, dtype, expected) in cases {
                assert_eq!(padded_shape(shape, dtype, target).unwrap(), expected);
            }
        }
    }

    #[test]
    fn bad_shapes_are_errors() {
        let target = &TARGETS[0];
        assert_eq!(
            padded_bytes(&[], DType::F32, target),
            Err(PaddingError::NoDimensions)
        );
        let shape = vec![8, 0, 128];
        assert_eq!(
            padded_bytes(&shape, DType::F32, target),
            Err(PaddingError::Empty { shape, dim: 1 })
        );
        for shape in [vec![usize::MAX], vec![usize::MAX, 1], vec![1, usize::MAX]] {
            assert_eq!(
                padded_shape(&shape, DType::Bf16, target),
                Err(overflow(&shape, DType::Bf16, 1))
            );
        }
        let shape = [1 << 30, 1 << 20, 1 << 20];
        assert_eq!(
            padded_bytes(&shape, DType::F32, target),
            Err(overflow(&shape, DType::F32, 1))
        );
        let shape = [1 << 30, 1 << 28];
        assert_eq!(
            window_bytes(&shape, DType::F32, 16, target),
            Err(overflow(&shape, DType::F32, 16))
        );
    }

    proptest! {
        #[test]
        fn padding_is_idempotent_and_never_shrinks(
            shape in prop::collection::vec(1_usize..3000, 1..4),
            dtype in prop::sample::select(vec![DType::F32, DType::Bf16, DType::I32]),
            target in 0..TARGETS.len(),
        ) {
            let target = &TARGETS[target];
            let padded = padded_shape(&shape, dtype, target).unwrap();
            prop_assert!(padded.iter().zip(&shape).all(|(padded, size)| padded >= size));
            prop_assert_eq!(&padded_shape(&padded, dtype, target).unwrap(), &padded);
            let bytes = padded_bytes(&shape, dtype, target).unwrap();
            prop_assert_eq!(padded_bytes(&padded, dtype, target).unwrap(), bytes);
            prop_assert!(bytes >= (shape.iter().product::<usize>() * dtype.size_bytes()) as u64);
        }
    }
}
