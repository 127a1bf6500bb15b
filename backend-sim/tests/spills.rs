//! How much VMEM kernels use that spill registers.

use tilecast_core::DType;
use tilecast_core::kernels::linear_ce::{self, Blocks, LinearCe};
use tilecast_core::kernels::logits_ce::{self, LogitsCe};
use tilecast_core::kernels::logits_op::LogitsOp;
use tilecast_core::kernels::softmax;
use tilecast_core::target::Target;
use tilecast_sim::op::{PassReport, Request, SimError};
use tilecast_sim::plan::BackwardPlan;

const MEASURED: &str = include_str!("data/spills.csv");

/// A line of the measured kernels.
struct Measured<'a>(Vec<&'a str>);

impl Measured<'_> {
    fn all() -> impl Iterator<Item = Self> {
        let lines = MEASURED.lines().filter(|line| !line.starts_with('#'));
        (lines.skip(1)).map(|line| Self(line.split(',').collect()))
    }

    fn kernel(&self) -> &str {
        self.0[0]
    }

    fn dtype(&self) -> DType {
        match self.0[5] {
            "bf16" => DType::Bf16,
            _ => DType::F32,
        }
    }

    fn size(&self, i: usize) -> usize {
        self.0[i].parse().unwrap()
    }

    fn has_one_hidden_block(&self) -> bool {
        self.size(3) == self.size(7)
    }

    /// The bytes by the model over those of the compiler.
    fn ratio(&self) -> f64 {
        let predicted = match self.kernel() {
            "softmax_statistics" => self.statistics(),
            "linear_ce_forward" => self.of_head(|request, blocks| request.forward(blocks)),
            _ => self.of_head(|request, blocks| {
                request.backward(BackwardPlan::in_blocks(blocks, Some(blocks.v)))
            }),
        };
        predicted as f64 / self.size(10) as f64
    }

    fn target(&self) -> &'static Target {
        Target::by_name(self.0[1]).unwrap()
    }

    /// Bytes of the kernel in a pass of the head.
    fn of_head(
        &self,
        pass: impl FnOnce(&Request<LinearCe>, Blocks) -> Result<PassReport, SimError>,
    ) -> u64 {
        let mut options = linear_ce::Options::default();
        match self.0[9] {
            "bias" => options.bias = true,
            "soft_cap" => options.soft_cap = Some(30.0),
            "label_smoothing" => options.label_smoothing = 0.1,
            "z_loss" => options.z_loss = 1e-4,
            "" => {}
            other => panic!("no option `{other}`"),
        }
        let [tokens, hidden, vocab, b, h, v] = [2, 3, 4, 6, 7, 8].map(|i| self.size(i));
        let op = LinearCe::new(tokens, hidden, vocab, self.dtype(), options).unwrap();
        let limit = self.target().vmem_usable_bytes.value;
        let request = Request::new(op, self.target(), 1, Some(limit)).unwrap();
        let pass = pass(&request, Blocks { b, h, v }).unwrap();
        let kernel = (pass.kernels.iter()).find(|kernel| kernel.name == self.kernel());
        kernel.unwrap().vmem.used_bytes()
    }

    fn statistics(&self) -> u64 {
        let mut options = logits_ce::Options::default();
        if self.0[9] == "label_smoothing" {
            options.label_smoothing = 0.1;
        }
        let [tokens, vocab, b, v] = [2, 4, 6, 8].map(|i| self.size(i));
        let op = LogitsCe::new(tokens, vocab, self.dtype(), options).unwrap();
        let limit = self.target().vmem_usable_bytes.value;
        let request = Request::new(LogitsOp::LogitsCe(op), self.target(), 1, Some(limit)).unwrap();
        let blocks = softmax::Blocks::for_target(b, v, self.target());
        let pass = request.forward(blocks).unwrap();
        pass.kernels[0].vmem.used_bytes()
    }
}

/// The measured kernels of this name and type.
fn of(kernel: &str, dtype: DType) -> Vec<Measured<'static>> {
    Measured::all()
        .filter(|row| row.kernel() == kernel && row.dtype() == dtype)
        .collect()
}

/// Holds the ratios of so many kernels to a range, and their mean error to a bound.
fn check(rows: &[Measured<'_>], count: usize, range: [f64; 2], bound: f64) {
    assert_eq!(rows.len(), count);
    let mut error = 0.0;
    for row in rows {
        let ratio = row.ratio();
        let line = row.0.join(",");
        assert!(
            (range[0]..range[1]).contains(&ratio),
            "{line}: {ratio:.3} of the bytes"
        );
        error += (ratio - 1.0).abs() / count as f64;
    }
    assert!(error < bound, "mean error of the bytes: {error:.4}");
}

#[test]
fn registers_that_wait_for_labels_are_near_the_compilers() {
    // Were what waits counted by the schedule alone, it would be 0.11.
    let mut rows = of("linear_ce_delta", DType::Bf16);
    rows.retain(Measured::has_one_hidden_block);
    check(&rows, 81, [0.8, 1.5], 0.07);
}

#[test]
fn half_of_wide_selections_wait_for_a_second_round() {
    // Were 48 registers of any to wait, of one sub-tile after the other, it would be 0.058.
    let mut rows = of("linear_ce_delta", DType::Bf16);
    rows.retain(|row| !row.has_one_hidden_block());
    check(&rows, 24, [0.8, 1.2], 0.05);
}

#[test]
fn a_softmax_waits_until_the_parts_of_exact_products_are_gone() {
    // Were all held at once, it would be 0.074.
    check(&of("linear_ce_delta", DType::F32), 37, [0.8, 1.3], 0.03);
}

#[test]
fn results_that_are_packed_in_pairs_of_columns_wait_for_the_second() {
    // Were none to wait, it would be 0.030.
    check(&of("linear_ce_dw", DType::Bf16), 28, [0.8, 1.2], 0.026);
}

#[test]
fn results_wait_beside_sums_where_the_vector_unit_takes_long() {
    // Were none to wait, it would be 0.039.
    let mut rows = of("linear_ce_forward", DType::Bf16);
    rows.retain(|row| row.target().name == "v6e");
    check(&rows, 13, [0.9, 1.1], 0.03);
}

#[test]
fn sums_of_sub_tiles_wait_as_far_as_registers_hold_them() {
    // Were those of two sub-tiles to wait, whatever their rows, it would be 0.058.
    let mut rows = of("linear_ce_forward", DType::Bf16);
    rows.retain(|row| row.target().name == "v7x");
    check(&rows, 12, [0.85, 1.1], 0.035);
}

#[test]
fn scores_of_the_next_tile_are_loaded_ahead() {
    // Were none of them, it would be 0.12 and 0.09.
    for dtype in [DType::Bf16, DType::F32] {
        check(&of("softmax_statistics", dtype), 17, [0.9, 1.1], 0.03);
    }
}
