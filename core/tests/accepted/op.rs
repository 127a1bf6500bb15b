//! What the op accepts, and what its kernels need.

use tilecast_core::DType;
use tilecast_core::budget::{TermKind, VmemLedger};
use tilecast_core::kernels::linear_ce::{Blocks, HeadError, LinearCe, Options, Schedule, Strategy};
use tilecast_core::program::{Kernel, ProgramError};
use tilecast_core::spec::{Buffer, SpecError};
use tilecast_core::target::{TARGETS, Target};

use crate::F32;

fn op(shape: [usize; 3], dtype: DType, options: Options) -> Result<LinearCe, HeadError> {
    let [b, h, v] = shape;
    LinearCe::new(b, h, v, dtype, options)
}

fn op_refuses(shape: [usize; 3], dtype: DType, options: Options) -> String {
    op(shape, dtype, options).unwrap_err().to_string()
}

#[test]
fn empty_dimensions_are_refused() {
    for (shape, name) in [
        ([0, 1, 1], "tokens"),
        ([1, 0, 1], "hidden"),
        ([1, 1, 0], "vocab"),
    ] {
        assert_eq!(
            op_refuses(shape, F32, Options::default()),
            format!("{name} is 0; it must be at least 1")
        );
    }
    assert!(op([1, 1, 1], F32, Options::default()).is_ok());
}

#[test]
fn large_dimensions_are_refused_with_the_limit() {
    let most = i32::MAX as usize;
    for (shape, name) in [
        ([most + 1, 1, 1], "tokens"),
        ([1, most + 1, 1], "hidden"),
        ([1, 1, most + 1], "vocab"),
    ] {
        assert_eq!(
            op_refuses(shape, F32, Options::default()),
            format!("{name} is 2147483648, above the limit of 2147483647")
        );
    }
    assert!(op([most, 1, most], F32, Options::default()).is_ok());
    assert_eq!(
        op_refuses([most, most, 1], F32, Options::default()),
        "the size of x in bytes is 18446744056529682436, above the limit of 9223372036854775807"
    );
    assert_eq!(
        op_refuses([1, most, most], F32, Options::default()),
        "the size of w in bytes is 18446744056529682436, above the limit of 9223372036854775807"
    );
}

#[test]
fn types_are_f32_or_bf16() {
    let grad = |dtype| Options {
        grad_dtype: Some(dtype),
        ..Options::default()
    };
    assert_eq!(
        op_refuses([1, 1, 1], DType::I32, Options::default()),
        "x and w cannot be i32; use f32 or bf16"
    );
    assert_eq!(
        op_refuses([1, 1, 1], F32, grad(DType::Bf16)),
        "gradients cannot be bf16; use f32 or bf16 (bf16 only for bf16 inputs)"
    );
    assert_eq!(
        op_refuses([1, 1, 1], DType::Bf16, grad(DType::I32)),
        "gradients cannot be i32; use f32 or bf16 (bf16 only for bf16 inputs)"
    );
    for (inputs, gradients) in [(F32, F32), (DType::Bf16, F32), (DType::Bf16, DType::Bf16)] {
        let op = op([1, 1, 1], inputs, grad(gradients)).unwrap();
        assert_eq!(op.grad_dtype(), gradients);
    }
}

#[test]
fn options_have_ranges() {
    let refused = |options| op_refuses([1, 1, 1], F32, options);
    let accepted = |options| op([1, 1, 1], F32, options).is_ok();
    let cap = |cap| Options {
        soft_cap: Some(cap),
        ..Options::default()
    };
    for (value, shown) in [
        (0.0, "0"),
        (-1.5, "-1.5"),
        (f32::INFINITY, "inf"),
        (f32::NAN, "NaN"),
    ] {
        assert_eq!(
            refused(cap(value)),
            format!("soft cap is {shown}; it must be finite and at least 1.2e-38")
        );
    }
    assert!(accepted(cap(30.0)));
    let z_loss = |z_loss| Options {
        z_loss,
        ..Options::default()
    };
    for (value, shown) in [
        (-1e-4, "-0.0001"),
        (f32::INFINITY, "inf"),
        (f32::NAN, "NaN"),
    ] {
        assert_eq!(
            refused(z_loss(value)),
            format!("z-loss weight is {shown}; it must be finite and not negative")
        );
    }
    assert!(accepted(z_loss(0.0)) && accepted(z_loss(1e-4)));
    let smoothing = |label_smoothing| Options {
        label_smoothing,
        ..Options::default()
    };
    for (value, shown) in [(-0.1, "-0.1"), (1.5, "1.5"), (f32::NAN, "NaN")] {
        assert_eq!(
            refused(smoothing(value)),
            format!("label smoothing is {shown}; it must be in [0, 1]")
        );
    }
    assert!(accepted(smoothing(0.0)) && accepted(smoothing(1.0)));
}

#[test]
fn labels_are_columns_or_the_ignore_index() {
    let check = |ignore_index, labels: &[i64]| {
        let options = Options {
            ignore_index,
            ..Options::default()
        };
        let op = op([labels.len(), 1, 5], F32, options).unwrap();
        op.check_labels(labels.iter().copied())
    };
    assert_eq!(check(None, &[0, 4]), Ok(()));
    assert_eq!(check(Some(-1), &[0, -1, 4]), Ok(()));
    assert_eq!(check(Some(7), &[7]), Ok(()));
    let refused = |ignore_index, labels: &[i64]| {
        let error = check(ignore_index, labels).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        refused(None, &[0, 5]),
        "label 5 of token 1 is outside 0..5 and no ignore index is set"
    );
    assert_eq!(
        refused(Some(-100), &[-100, 2, -1]),
        "label -1 of token 2 is outside 0..5 and is not the ignore index -100"
    );
    // An i64 label that wraps to the ignore index in i32.
    assert_eq!(
        refused(Some(-1), &[(1 << 32) - 1]),
        "label 4294967295 of token 0 is outside 0..5 and is not the ignore index -1"
    );
}

fn schedule([b, h, v]: [usize; 3]) -> Schedule {
    let blocks = Blocks { b, h, v };
    Schedule {
        cores: 2,
        ..Schedule::plain(blocks, Strategy::Combined)
    }
}

#[test]
fn schedules_have_no_zeros_and_no_giants() {
    let op = op([4, 8, 16], F32, Options::default()).unwrap();
    type Part = fn(&mut Schedule) -> &mut usize;
    let edits: [(&str, Part); 9] = [
        ("forward block b", |s| &mut s.forward.b),
        ("forward block h", |s| &mut s.forward.h),
        ("forward block v", |s| &mut s.forward.v),
        ("backward block b", |s| &mut s.backward.b),
        ("backward block h", |s| &mut s.backward.h),
        ("backward block v", |s| &mut s.backward.v),
        ("chunk columns", |s| &mut s.chunk_columns),
        ("cores", |s| &mut s.cores),
        ("rows per sub-tile", |s| &mut s.rows_per_sub_tile),
    ];
    for (name, part) in edits {
        for (value, text) in [
            (
                0,
                format!("{name} is 0; block sizes, cores and chunks must be at least 1"),
            ),
            (
                1 << 31,
                format!("{name} is 2147483648, above the limit of 2147483647"),
            ),
        ] {
            let mut schedule = schedule([4, 8, 16]);
            *part(&mut schedule) = value;
            assert_eq!(op.forward(&schedule).unwrap_err().to_string(), text);
            assert_eq!(op.backward(&schedule).unwrap_err().to_string(), text);
        }
    }
    assert!(op.forward(&schedule([4, 8, 16])).is_ok());
    assert!(op.backward(&schedule([4, 8, 16])).is_ok());
}

/// Partial sums of `dw` for each of a billion cores: the op is valid, the kernel is not.
#[test]
fn what_a_spec_refuses_the_op_refuses() {
    let large = 1 << 30;
    let op = op([large, large, 64], F32, Options::default()).unwrap();
    let schedule = Schedule {
        cores: large,
        ..schedule([1, large, 64])
    };
    let error = op.backward(&schedule).unwrap_err();
    assert_eq!(
        error.to_string(),
        "linear_ce_combined: the size of dw exceeds 2^63 - 1; split the problem"
    );
    assert!(matches!(
        error,
        HeadError::Program(ProgramError::Spec(SpecError::TooLarge { what: "dw", .. }))
    ));
}

fn forward_ledger(target: &str, blocks: [usize; 3]) -> VmemLedger {
    let op = op([65536, 512, 128_256], DType::Bf16, Options::default()).unwrap();
    let program = op.forward(&schedule(blocks)).unwrap();
    let spec = program.launches()[0].0.kernel.spec();
    VmemLedger::new(spec, Target::by_name(target).unwrap(), None).unwrap()
}

#[test]
fn logits_of_1024_by_4096_do_not_fit_a_v4_and_of_1024_by_1024_do() {
    let ledger = forward_ledger("v4", [1024, 512, 4096]);
    assert!(!ledger.fits());
    let largest = ledger.largest().unwrap();
    assert_eq!((largest.name, largest.kind), ("logits", TermKind::Scratch));
    assert_eq!(largest.bytes, 1024 * 4096 * 4);

    let ledger = forward_ledger("v4", [1024, 512, 1024]);
    assert!(
        ledger.fits(),
        "{} of {}",
        ledger.used_bytes(),
        ledger.limit_bytes
    );
    let terms: Vec<_> = (ledger.terms.iter())
        .map(|term| (term.name, term.bytes, term.buffers))
        .collect();
    let kib = |n: u64| n << 10;
    assert_eq!(
        terms,
        [
            // Windows, two buffers each: 1024 x 512 and 512 x 1024 of 2 bytes.
            ("x", kib(2048), 2),
            ("w", kib(2048), 2),
            ("logits", kib(4096), 1),
            // A row of 1024 words.
            ("labels", kib(8), 2),
            ("loss", kib(8), 2),
            ("lse", kib(8), 2),
            // One value across 128 lanes for each row; the logsumexp is a maximum and a sum.
            ("logsumexp", kib(1024), 2),
            ("label_logit", kib(512), 1),
        ]
    );
    assert_eq!(ledger.used_bytes(), kib(2 * 2048 + 4096 + 24 + 1536));
}

#[test]
fn a_larger_limit_counts_up_to_the_capacity() {
    let op = op([65536, 512, 128_256], DType::Bf16, Options::default()).unwrap();
    let program = op.forward(&schedule([1024, 512, 4096])).unwrap();
    let spec = program.launches()[0].0.kernel.spec();
    let target = Target::by_name("v5e").unwrap();
    let ledger = |limit| VmemLedger::new(spec, target, limit).unwrap();
    assert!(!ledger(None).fits());
    assert!(ledger(Some(64 << 20)).fits());
    assert_eq!(
        ledger(Some(u64::MAX)).limit_bytes,
        ledger(None).capacity_bytes
    );
    let used = ledger(None).used_bytes();
    assert!(ledger(Some(used)).fits() && !ledger(Some(used - 1)).fits());
}

#[test]
fn every_kernel_of_the_op_is_tiled_by_blocks_of_the_lanes() {
    // The bias gradient is a row for each of the two cores.
    let options = Options {
        bias: true,
        ..Options::default()
    };
    let op = op([512, 256, 1000], DType::Bf16, options).unwrap();
    for strategy in Strategy::ALL {
        let schedule = Schedule {
            strategy,
            ..schedule([128, 128, 256])
        };
        for program in [op.forward(&schedule), op.backward(&schedule)] {
            for (launch, _) in program.unwrap().launches() {
                let spec = launch.kernel.spec();
                for target in &TARGETS {
                    assert_eq!(spec.check_tiling(target), Ok(()));
                }
                let windows = |named: &&tilecast_core::spec::NamedBuffer| {
                    matches!(named.buffer, Buffer::Window { .. })
                };
                assert!(spec.buffers().iter().filter(windows).count() >= 2);
            }
        }
    }
}
