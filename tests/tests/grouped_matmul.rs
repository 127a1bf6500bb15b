//! The grouped product on every backend, against its definition in f64.

use half::bf16;
use proptest::prelude::*;
use tilecast::core::kernels::grouped_matmul::{Blocks, GroupedMatmul, Schedule, reference};
use tilecast::cpu::Cpu;
use tilecast::cpu::array::{ArrayMut, ArrayRef};
use tilecast::cpu::simd::Simd;
use tilecast::sim::execute::{self, Array, Options};
use tilecast::{DType, grouped_matmul};

const EXPERTS: usize = 3;

/// Numbers, exact in bf16.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    let number = |i: usize| (((i * 37 + seed * 101) * 2_654_435_761 % 4096) as f32 / 2048.0) - 1.0;
    (0..len)
        .map(|i| bf16::from_f32(number(i)).to_f32())
        .collect()
}

struct Case {
    op: GroupedMatmul,
    sizes: Vec<i32>,
    schedule: Schedule,
    x: Vec<f32>,
    w: Vec<f32>,
    dy: Vec<f32>,
}

impl Case {
    fn new(sizes: [usize; 4], groups: Vec<i32>, dtype: DType, blocks: Blocks) -> Self {
        let [rows, experts, inputs, outputs] = sizes;
        Self {
            op: GroupedMatmul::new(sizes, dtype, DType::F32).unwrap(),
            sizes: groups,
            schedule: Schedule::of(blocks),
            x: numbers(rows * inputs, 1),
            w: numbers(experts * inputs * outputs, 2),
            dy: numbers(rows * outputs, 3),
        }
    }

    /// `y`, `dx`, `dw` by definition.
    fn expected(&self) -> [Vec<f64>; 3] {
        let [x, w, dy] = [&self.x, &self.w, &self.dy].map(|data| wide(data));
        let y = reference::forward(&self.op, &x, &w, &self.sizes);
        let (dx, dw) = reference::backward(&self.op, [&x, &w, &dy], &self.sizes);
        [y, dx, dw]
    }

    fn dims(&self) -> [(&'static str, Vec<usize>); 3] {
        let [t, e] = [self.op.rows(), self.op.experts()];
        let [i, o] = [self.op.inputs(), self.op.outputs()];
        [("y", vec![t, o]), ("dx", vec![t, i]), ("dw", vec![e, i, o])]
    }

    fn on_cpu(&self, simd: Simd, threads: usize) -> [Vec<f32>; 3] {
        let cpu = Cpu::new().simd(simd).threads(threads);
        let [(_, rows), (_, hidden), (_, weights)] = self.dims();
        let narrow =
            |data: &[f32]| -> Vec<bf16> { data.iter().map(|&x| bf16::from_f32(x)).collect() };
        let halves = [&self.x, &self.w, &self.dy].map(|data| narrow(data));
        let array = |i: usize, dims: &[usize]| -> ArrayRef<'_> {
            let full = [&self.x, &self.w, &self.dy][i];
            match self.op.dtype() {
                DType::Bf16 => ArrayRef::new(&halves[i][..], dims).unwrap(),
                _ => ArrayRef::new(&full[..], dims).unwrap(),
            }
        };
        let inputs = [
            ("x", array(0, &hidden)),
            ("w", array(1, &weights)),
            ("dy", array(2, &rows)),
            (
                "group_sizes",
                ArrayRef::new(&self.sizes[..], &[self.sizes.len()]).unwrap(),
            ),
        ];
        let mut found = self
            .dims()
            .map(|(_, dims)| vec![f32::NAN; dims.iter().product()]);
        {
            let [y, dx, dw] = &mut found;
            let out = |data, dims: &[usize]| ArrayMut::new(data, dims).unwrap();
            let program = self.op.forward(&self.schedule).unwrap();
            cpu.run(&program, &inputs, vec![("y", out(&mut y[..], &rows))])
                .unwrap();
            let program = self.op.backward(&self.schedule).unwrap();
            let outputs = vec![
                ("dx", out(&mut dx[..], &hidden)),
                ("dw", out(&mut dw[..], &weights)),
            ];
            cpu.run(&program, &inputs, outputs).unwrap();
        }
        found
    }

    /// The printed Mosaic text, interpreted.
    fn simulated(&self) -> [Vec<f32>; 3] {
        let [(_, rows), (_, hidden), (_, weights)] = self.dims();
        let array = |data: &[f32], dims: &[usize]| match self.op.dtype() {
            DType::Bf16 => {
                let data: Vec<bf16> = data.iter().map(|&x| bf16::from_f32(x)).collect();
                Array::new(data, dims).unwrap()
            }
            _ => Array::new(data.to_vec(), dims).unwrap(),
        };
        let (x, w) = (array(&self.x, &hidden), array(&self.w, &weights));
        let dy = array(&self.dy, &rows);
        let sizes = Array::new(self.sizes.clone(), &[self.sizes.len()]).unwrap();
        let inputs = [("x", &x), ("w", &w), ("dy", &dy), ("group_sizes", &sizes)];
        let options = Options::default();
        let forward = self.op.forward(&self.schedule).unwrap();
        let mut found = execute::program(&forward, &inputs, &options).unwrap();
        let backward = self.op.backward(&self.schedule).unwrap();
        found.extend(execute::program(&backward, &inputs, &options).unwrap());
        ["y", "dx", "dw"].map(|name| {
            let (_, array) = found.iter().find(|(found, _)| *found == name).unwrap();
            array.to_f32()
        })
    }

    /// Results are sums of at most 64 products of numbers of at most 1.
    fn check(&self, who: &str, found: &[Vec<f32>; 3]) {
        for ((found, expected), (name, _)) in found.iter().zip(self.expected()).zip(self.dims()) {
            for (i, (&found, expected)) in found.iter().zip(expected).enumerate() {
                let error = (f64::from(found) - expected).abs();
                assert!(
                    error <= 2e-5,
                    "{who}: {name}[{i}] is {found}, not {expected}; sizes {:?}",
                    self.sizes
                );
            }
        }
    }
}

fn wide(data: &[f32]) -> Vec<f64> {
    data.iter().map(|&x| f64::from(x)).collect()
}

const BLOCKS: Blocks = Blocks {
    rows: 16,
    part: 8,
    inputs: 24,
    outputs: 20,
    at_once: None,
};

#[test]
fn every_instruction_set_computes_it() {
    for dtype in [DType::F32, DType::Bf16] {
        for sizes in [
            vec![5, 0, 20],
            vec![32, 0, 0],
            vec![0, 0, 0],
            vec![16, 16, 1],
            vec![40, 1, 9],
        ] {
            let case = Case::new([50, EXPERTS, 24, 40], sizes, dtype, BLOCKS);
            for simd in Simd::available() {
                for threads in [1, 2] {
                    let who = format!("{:?}, {threads} threads", simd.level());
                    case.check(&who, &case.on_cpu(simd, threads));
                }
            }
        }
    }
}

#[test]
fn the_printed_text_computes_it() {
    for dtype in [DType::F32, DType::Bf16] {
        for sizes in [
            vec![5, 0, 20],
            vec![0, 0, 0],
            vec![16, 16, 1],
            vec![40, 1, 9],
        ] {
            for at_once in [None, Some(6)] {
                let blocks = Blocks { at_once, ..BLOCKS };
                let case = Case::new([50, EXPERTS, 24, 40], sizes.clone(), dtype, blocks);
                case.check("interpreted", &case.simulated());
            }
        }
    }
}

/// A number that is not finite stays with its rows and its expert.
#[test]
fn what_is_not_finite_stays_with_its_expert() {
    let mut case = Case::new([50, EXPERTS, 24, 40], vec![5, 7, 20], DType::F32, BLOCKS);
    let of_expert = 24 * 40;
    case.w[of_expert + 3] = f32::INFINITY;
    case.x[6 * 24] = f32::NAN;
    case.dy[40 * 40] = f32::NAN; // a row without an expert
    for simd in Simd::available() {
        let [y, dx, dw] = case.on_cpu(simd, 1);
        let finite = |data: &[f32]| data.iter().all(|x| x.is_finite());
        assert!(finite(&y[..5 * 40]) && finite(&y[12 * 40..]));
        assert!(finite(&dx[..5 * 24]) && finite(&dx[12 * 24..]));
        assert!(finite(&dw[..of_expert]) && finite(&dw[2 * of_expert..]));
        assert!(!finite(&y[5 * 40..12 * 40]) && !finite(&dw[of_expert..2 * of_expert]));
    }
}

#[test]
fn sizes_are_checked_before_anything_is_computed() {
    let (x, w) = (numbers(12, 1), numbers(12, 2));
    let product = |sizes: &'static [i32]| {
        let x = tilecast::Matrix::new(&x[..], 4, 3).unwrap();
        let w = grouped_matmul::Weights::new(&w[..], [2, 3, 2]).unwrap();
        grouped_matmul::new(x, w, sizes).forward()
    };
    assert!(product(&[1, 3]).is_ok());
    let message = |sizes| product(sizes).unwrap_err().to_string();
    assert_eq!(
        message(&[3, 2]),
        "the groups have 5 rows together, there are 4"
    );
    assert_eq!(
        message(&[3, -2]),
        "group 1 has size -2; sizes are at least 0"
    );
    assert_eq!(message(&[3]), "there are 1 group sizes for 2 experts");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any sizes, any shapes, any blocks: blocks that this machine would choose, and others.
    #[test]
    fn any_groups(
        rows in 1_usize..70,
        [inputs, outputs] in [1_usize..40, 1_usize..40],
        shares in prop::collection::vec(0_u32..9, 1..6),
        half in any::<bool>(),
        part in 1_usize..9,
        parts in 1_usize..4,
        chosen in any::<bool>(),
        at_once in prop::option::of(1_usize..20),
    ) {
        let total: u32 = shares.iter().sum::<u32>() + 1;
        let sizes: Vec<i32> = shares.iter().map(|share| (share * rows as u32 / total) as i32).collect();
        let dtype = if half { DType::Bf16 } else { DType::F32 };
        let blocks = Blocks { rows: part * parts, part, inputs, outputs, at_once };
        let mut case = Case::new([rows, sizes.len(), inputs, outputs], sizes, dtype, blocks);
        if chosen {
            case.schedule = Schedule::for_cache(&case.op, &Cpu::new().threads(2).cache());
        }
        for simd in Simd::available() {
            case.check("any", &case.on_cpu(simd, 2));
        }
    }
}
