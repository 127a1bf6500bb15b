//! The product against a naive `f64` one, on every level, over strides, edges and arithmetics.

mod rate;

use half::bf16;
use proptest::prelude::*;

use super::*;

/// How an operand is stored.
#[derive(Debug, Clone, Copy)]
enum Order {
    RowMajor,
    ColumnMajor,
    /// Gaps between both rows and columns.
    Strided,
}

fn orders() -> impl Strategy<Value = Order> {
    prop_oneof![
        Just(Order::RowMajor),
        Just(Order::ColumnMajor),
        Just(Order::Strided)
    ]
}

/// An operand as a test describes it: the logical matrix is the transpose of the stored one if `transposed`.
#[derive(Debug, Clone, Copy)]
struct Operand {
    order: Order,
    transposed: bool,
    /// Logical rows and columns that are not stored.
    missing: (usize, usize),
    fill: f32,
    seed: u32,
}

fn operands() -> impl Strategy<Value = Operand> {
    let missing = prop_oneof![3 => Just((0, 0)), 1 => (0..50_usize, 0..50_usize)];
    let fill = prop_oneof![Just(0.0), Just(f32::NAN), Just(1.5)];
    (orders(), any::<bool>(), missing, fill, any::<u32>()).prop_map(
        |(order, transposed, missing, fill, seed)| Operand {
            order,
            transposed,
            missing,
            fill,
            seed,
        },
    )
}

/// An operand's storage in both types, its layout, and the logical matrix row after row.
struct Stored {
    f32s: Vec<f32>,
    bf16s: Vec<bf16>,
    layout: Layout,
    transposed: bool,
    logical: Vec<f64>,
}

impl Stored {
    /// Stores `rows` by `columns` logical elements, `bf16` numbers or such that need all bits of an `f32`.
    fn new(operand: Operand, rows: usize, columns: usize, is_bf16: bool) -> Self {
        let (stored_rows, stored_columns) = if operand.transposed {
            (columns, rows)
        } else {
            (rows, columns)
        };
        let valid_rows = stored_rows.saturating_sub(operand.missing.0);
        let valid_columns = stored_columns.saturating_sub(operand.missing.1);
        let (row_stride, column_stride) = match operand.order {
            Order::RowMajor => (valid_columns + 3, 1),
            Order::ColumnMajor => (1, valid_rows + 1),
            Order::Strided => (2 * valid_columns + 5, 2),
        };
        let layout = Layout {
            offset: 5,
            rows: stored_rows,
            columns: stored_columns,
            row_stride,
            column_stride,
            valid_rows,
            valid_columns,
            fill: operand.fill,
        };
        let length = 5
            + valid_rows.saturating_sub(1) * row_stride
            + valid_columns.saturating_sub(1) * column_stride
            + 1;
        // Whatever is not an element is poison.
        let mut f32s = vec![f32::NAN; length];
        let mut logical = vec![0.0; rows * columns];
        for r in 0..stored_rows {
            for c in 0..stored_columns {
                let value = if r < valid_rows && c < valid_columns {
                    let i = (r * 131 + c) as u32;
                    let hash = i.wrapping_add(operand.seed).wrapping_mul(2_654_435_761) >> 8;
                    let value = hash as f32 / (1 << 23) as f32 - 1.0;
                    let rounded = bf16::from_f32(value).to_f32();
                    let value = if is_bf16 { rounded } else { value };
                    f32s[5 + r * row_stride + c * column_stride] = value;
                    f64::from(value)
                } else {
                    f64::from(operand.fill)
                };
                let at = if operand.transposed {
                    c * columns + r
                } else {
                    r * columns + c
                };
                logical[at] = value;
            }
        }
        let bf16s = f32s.iter().map(|&x| bf16::from_f32(x)).collect();
        Self {
            f32s,
            bf16s,
            layout,
            transposed: operand.transposed,
            logical,
        }
    }

    fn source(&self, is_bf16: bool) -> Source<'_> {
        let values = if is_bf16 {
            Values::Bf16(&self.bf16s)
        } else {
            Values::F32(&self.f32s)
        };
        Source::new(values, self.layout).unwrap()
    }
}

/// The arithmetics a level can use on operands of which so many are `bf16`.
fn arithmetics(simd: Simd, bf16_operands: usize) -> impl Iterator<Item = Arithmetic> {
    let pairs = match bf16_operands {
        2 => Arithmetic::Bf16,
        _ => Arithmetic::Split,
    };
    let pairs = Some(pairs).filter(|&arithmetic| simd.supports(arithmetic));
    [Arithmetic::F32].into_iter().chain(pairs)
}

/// Both operands of a product, as they lie in memory, packed.
fn packed(
    simd: Simd,
    [lhs, rhs]: [Source<'_>; 2],
    arithmetic: Arithmetic,
) -> (PackedLhs, PackedRhs) {
    let mut packed = (PackedLhs::new(), PackedRhs::new());
    packed.0.pack(simd, &lhs, false, arithmetic).unwrap();
    packed.1.pack(simd, &rhs, false, arithmetic).unwrap();
    packed
}

/// The product of both operands, row after row.
fn product(simd: Simd, operands: [Source<'_>; 2], arithmetic: Arithmetic) -> Vec<f32> {
    let (lhs, rhs) = packed(simd, operands, arithmetic);
    let ((rows, _), (_, columns)) = (lhs.shape(), rhs.shape());
    let mut values = vec![0.0; rows * columns];
    let out = Out {
        values: &mut values,
        row_stride: columns,
        rows,
        columns,
    };
    matmul(simd, out, &lhs, &rhs, false).unwrap();
    values
}

/// Multiplies and compares with `f64`, including everything around the result.
fn check(
    simd: Simd,
    (m, n, k): (usize, usize, usize),
    lhs: &Stored,
    rhs: &Stored,
    (lhs_is_bf16, rhs_is_bf16): (bool, bool),
    arithmetic: Arithmetic,
    accumulate: bool,
) -> Result<(), TestCaseError> {
    const POISON: f32 = -12_345.0;
    let (mut packed_lhs, mut packed_rhs) = (PackedLhs::new(), PackedRhs::new());
    let source = lhs.source(lhs_is_bf16);
    packed_lhs
        .pack(simd, &source, lhs.transposed, arithmetic)
        .unwrap();
    let source = rhs.source(rhs_is_bf16);
    packed_rhs
        .pack(simd, &source, rhs.transposed, arithmetic)
        .unwrap();
    prop_assert_eq!(packed_lhs.shape(), (m, k));
    prop_assert_eq!(packed_rhs.shape(), (k, n));

    let row_stride = n + 3;
    let mut values = vec![POISON; (m + 2) * row_stride];
    let before = |r: usize, c: usize| (r * 7 + c) as f32 * 0.01 - 1.0;
    for r in 0..m {
        for c in 0..n {
            values[r * row_stride + c] = if accumulate { before(r, c) } else { f32::NAN };
        }
    }
    let out = Out {
        values: &mut values,
        row_stride,
        rows: m,
        columns: n,
    };
    matmul(simd, out, &packed_lhs, &packed_rhs, accumulate).unwrap();

    for (i, &computed) in values.iter().enumerate() {
        let (r, c) = (i / row_stride, i % row_stride);
        if r >= m || c >= n {
            prop_assert_eq!(computed, POISON, "{} wrote to ({}, {})", simd, r, c);
            continue;
        }
        let start = if accumulate {
            f64::from(before(r, c))
        } else {
            0.0
        };
        let products = (0..k).map(|d| lhs.logical[r * k + d] * rhs.logical[d * n + c]);
        let (sum, magnitude) = products.fold((start, start.abs()), |(sum, magnitude), p| {
            (sum + p, magnitude + p.abs())
        });
        if sum.is_nan() {
            prop_assert!(
                computed.is_nan(),
                "{} ({}, {}) is {}, not NaN",
                simd,
                r,
                c,
                computed
            );
        } else {
            // Each of k + 1 additions errs by at most an ulp (half of one, but for `vdpbf16ps`, which may truncate) of
            // a partial sum, itself at most Σ|a||b|. A split operand makes three of each; two make six, and what they
            // leave out of a term is below four ulp of it.
            let bf16_operands = usize::from(lhs_is_bf16) + usize::from(rhs_is_bf16);
            let terms = arithmetic.products(bf16_operands) * k;
            let tolerance = (terms + 1) as f64 * f64::from(f32::EPSILON) * magnitude;
            let error = (f64::from(computed) - sum).abs();
            prop_assert!(
                error <= tolerance,
                "{} ({}, {}): {} for {}, off by {} of {}",
                simd,
                r,
                c,
                computed,
                sum,
                error,
                tolerance
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn products_match_f64(
        shape in (0..70_usize, 0..70_usize, 0..70_usize),
        lhs in operands(),
        rhs in operands(),
        is_bf16 in any::<(bool, bool)>(),
        accumulate in any::<bool>(),
    ) {
        let (m, n, k) = shape;
        let bf16_operands = usize::from(is_bf16.0) + usize::from(is_bf16.1);
        let lhs = Stored::new(lhs, m, k, is_bf16.0);
        let rhs = Stored::new(rhs, k, n, is_bf16.1);
        for simd in Simd::available() {
            for arithmetic in arithmetics(simd, bf16_operands) {
                check(simd, shape, &lhs, &rhs, is_bf16, arithmetic, accumulate)?;
            }
        }
    }
}

const PLAIN: Operand = Operand {
    order: Order::RowMajor,
    transposed: false,
    missing: (0, 0),
    fill: f32::NAN,
    seed: 1,
};

/// Words of the depth that a product of any level takes at once, at most: `f32` has the deepest slices.
fn deepest_slice() -> usize {
    let words = |simd: Simd| simd.panel_formats(Arithmetic::F32)[1].most_slice_words;
    Simd::available().map(words).max().unwrap()
}

#[test]
fn products_deeper_than_a_slice_match_f64() {
    let transposed = Operand {
        transposed: true,
        ..PLAIN
    };
    for (lhs, rhs) in [(PLAIN, PLAIN), (PLAIN, transposed), (transposed, PLAIN)] {
        let shape @ (m, n, k) = (33, 101, 2 * deepest_slice() + 37);
        for (types, bf16_operands) in [((false, false), 0), ((true, false), 1), ((true, true), 2)] {
            let lhs = Stored::new(lhs, m, k, types.0);
            let rhs = Stored::new(rhs, k, n, types.1);
            for simd in Simd::available() {
                for arithmetic in arithmetics(simd, bf16_operands) {
                    for accumulate in [false, true] {
                        check(simd, shape, &lhs, &rhs, types, arithmetic, accumulate).unwrap();
                    }
                }
            }
        }
    }
}

#[test]
fn a_product_without_columns_is_nothing() {
    let (m, k) = (33, 2 * deepest_slice() + 37);
    let lhs = Stored::new(PLAIN, m, k, false);
    let rhs = Stored::new(PLAIN, k, 0, false);
    for simd in Simd::available() {
        for arithmetic in arithmetics(simd, 0) {
            let operands = [&lhs, &rhs].map(|stored| stored.source(false));
            assert!(product(simd, operands, arithmetic).is_empty(), "{simd}");
        }
    }
}

#[test]
fn products_taller_than_a_block_match_f64() {
    let depth = deepest_slice();
    let shape @ (m, n, k) = (lhs_block_words() / depth + 9, 5, depth);
    let lhs = Stored::new(PLAIN, m, k, false);
    let rhs = Stored::new(PLAIN, k, n, false);
    for simd in Simd::available() {
        let types = (false, false);
        check(simd, shape, &lhs, &rhs, types, Arithmetic::F32, false).unwrap();
    }
}

#[test]
fn a_split_operand_is_itself() {
    let finite = [
        1.0,
        -1.0 / 3.0,
        f32::MAX,
        f32::MIN,
        1.7e-30,
        16_777_215.0,
        0.0,
    ];
    // The last one's high half has the bits of infinity.
    let nan = f32::from_bits(0x7f80_0001);
    let values = [&finite[..], &[f32::INFINITY, f32::NEG_INFINITY, nan]].concat();
    let ones = [Values::Bf16(&[bf16::ONE]), Values::F32(&[1.0])];
    let levels = Simd::available().filter(|simd| simd.supports(Arithmetic::Split));
    for (simd, one) in levels.flat_map(|simd| ones.map(|one| (simd, one))) {
        let column = Source::new(Values::F32(&values), Layout::row_major(values.len(), 1));
        let one = Source::new(one, Layout::row_major(1, 1));
        let operands = [column, one].map(Result::unwrap);
        let products = product(simd, operands, Arithmetic::Split);
        for (value, product) in values.iter().zip(products) {
            let same = *value == product || value.is_nan() && product.is_nan();
            assert!(same, "{simd}: {product} for {value}");
        }
    }
}

#[test]
fn split_products_of_f32_are_taken_where_they_err_as_little() {
    let (m, n, k) = (64, 48, 1500);
    let left = Stored::new(PLAIN, m, k, false);
    let right = Stored::new(PLAIN, k, n, false);
    let square_error = |simd, arithmetic| {
        let operands = [&left, &right].map(|stored| stored.source(false));
        let values = product(simd, operands, arithmetic);
        let exact = |i: usize| -> f64 {
            let (r, c) = (i / n, i % n);
            let products = (0..k).map(|d| left.logical[r * k + d] * right.logical[d * n + c]);
            products.sum()
        };
        let errors = values.iter().enumerate();
        errors.fold(0.0, |sum, (i, &x)| sum + (f64::from(x) - exact(i)).powi(2))
    };
    for simd in Simd::available() {
        let chosen = simd.arithmetic(false, false);
        let ratio = (square_error(simd, chosen) / square_error(simd, Arithmetic::F32)).sqrt();
        assert!(ratio < 2.0, "{simd}: {chosen:?} errs {ratio} times as much");
    }
}

#[test]
fn a_buffer_can_be_packed_again_smaller_and_larger() {
    for simd in Simd::available() {
        let mut packed = PackedLhs::new();
        for rows in [40, 3, 41] {
            let stored = Stored::new(PLAIN, rows, 10, false);
            packed
                .pack(simd, &stored.source(false), false, Arithmetic::F32)
                .unwrap();
            assert_eq!(packed.shape(), (rows, 10));
        }
    }
}

/// A block may lie beyond the edge of its array altogether.
#[test]
fn an_operand_of_which_nothing_is_stored_is_its_fill() {
    let (m, n, k) = (3, 20, 9);
    let ones = [1.0; 27];
    let beyond = Layout {
        offset: ones.len() + 1,
        valid_columns: 0,
        fill: 2.0,
        ..Layout::row_major(k, n)
    };
    for simd in Simd::available() {
        let layouts = [Layout::row_major(m, k), beyond];
        let operands = layouts.map(|layout| Source::new(Values::F32(&ones), layout).unwrap());
        let values = product(simd, operands, Arithmetic::F32);
        assert_eq!(values, [18.0; 60], "{simd}");
    }
}

#[test]
fn sources_beyond_their_values_are_refused() {
    let values = [0.0; 12];
    let ok = Layout::row_major(3, 4);
    let refused = |layout| Source::new(Values::F32(&values), layout).unwrap_err();
    assert!(Source::new(Values::F32(&values), ok).is_ok());
    assert_eq!(
        refused(Layout { offset: 1, ..ok }),
        GemmError::OutOfBounds {
            needed: 13,
            available: 12
        }
    );
    assert_eq!(
        refused(Layout {
            row_stride: usize::MAX,
            ..ok
        }),
        GemmError::OutOfBounds {
            needed: usize::MAX,
            available: 12
        }
    );
    assert!(matches!(
        refused(Layout {
            valid_rows: 4,
            ..ok
        }),
        GemmError::ValidBeyondExtent { .. }
    ));
    // Elements that are not stored need no values.
    let ragged = Layout {
        rows: 9,
        columns: 9,
        ..ok
    };
    assert!(Source::new(Values::F32(&values), ragged).is_ok());
}

#[test]
fn products_that_do_not_fit_are_refused() {
    let simd = Simd::detect();
    let (mut lhs, mut rhs) = (PackedLhs::new(), PackedRhs::new());
    let mut values = [0.0; 6];
    let mut product = |lhs: &PackedLhs, rhs: &PackedRhs, row_stride, rows| {
        let out = Out {
            values: &mut values,
            row_stride,
            rows,
            columns: 3,
        };
        matmul(simd, out, lhs, rhs, false)
    };
    assert!(matches!(
        product(&lhs, &rhs, 3, 2),
        Err(GemmError::PackedDifferently { .. })
    ));
    let (left, right) = (
        Stored::new(PLAIN, 2, 5, false),
        Stored::new(PLAIN, 5, 3, false),
    );
    lhs.pack(simd, &left.source(false), false, Arithmetic::F32)
        .unwrap();
    rhs.pack(simd, &right.source(false), false, Arithmetic::F32)
        .unwrap();
    assert_eq!(product(&lhs, &rhs, 3, 2), Ok(()));
    assert!(matches!(
        product(&lhs, &rhs, 3, 1),
        Err(GemmError::ShapeMismatch { .. })
    ));
    assert!(matches!(
        product(&lhs, &rhs, 2, 2),
        Err(GemmError::OverlappingRows { .. })
    ));
    assert!(matches!(
        product(&lhs, &rhs, 4, 2),
        Err(GemmError::OutOfBounds { .. })
    ));
    assert!(matches!(
        lhs.pack(simd, &left.source(false), false, Arithmetic::Bf16),
        Err(GemmError::UnsupportedArithmetic { dtype: "f32", .. })
    ));
}
