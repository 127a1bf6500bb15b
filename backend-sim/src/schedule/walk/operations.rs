//! Operations on vectors, by name: what each takes of the units.
//!
//! The counts are those of the compiler's schedules of probe kernels, one operation at a time.

use std::rc::Rc;

use tilecast_tpu::mosaic::tpu::ContractPrecision;
use tilecast_tpu::mosaic::{self as ir, Op};

use super::super::ScheduleError;
use super::super::block::{Cost, Product};
use super::super::order::reduced_dims;
use super::super::vector::Vector;
use super::{Known, Walk};

impl Walk<'_> {
    pub(super) fn op(&mut self, op: Op) -> Result<(), ScheduleError> {
        self.block.account.next_operation();
        if self.memory_op(op) || self.free(op) || self.scalar_op(op) {
            return Ok(());
        }
        if self.elements(op) || self.shapes(op) {
            return Ok(());
        }
        match self.module.op_name(op) {
            "tpu.matmul" => self.matmul(op),
            _ => return Err(self.unknown(op)),
        }
        Ok(())
    }

    /// Operations that are no instruction.
    pub(super) fn free(&mut self, op: Op) -> bool {
        let name = self.module.op_name(op);
        if name == "arith.constant" {
            let result = self.module.results(op)[0];
            if self.module.value_kind(result).shape().is_some() {
                let bits = self.bits(result);
                self.set(op, Vector::constant(bits));
                return true;
            }
            return false;
        }
        matches!(
            name,
            "tpu.trace_start"
                | "tpu.trace_stop"
                | "cf.assert"
                | "tpu.log"
                | "tpu.delay"
                | "verification.pretend"
        )
    }

    fn native(&self, op: Op) -> bool {
        self.machine.target.native_bf16_vectors.value
            || (self.module.operands(op).iter())
                .chain(self.module.results(op))
                .all(|&value| self.bits(value) == 32)
    }

    /// Element-wise operations.
    fn elements(&mut self, op: Op) -> bool {
        let new = self.machine.new_units();
        let reciprocal = if new { 1.0 } else { 13.0 };
        let cost = match self.module.op_name(op) {
            "arith.addf" | "arith.subf" | "arith.mulf" | "arith.maximumf" | "arith.minimumf"
            | "arith.maxnumf" | "arith.minnumf" | "arith.addi" | "arith.subi" | "arith.andi"
            | "arith.ori" | "arith.xori" | "arith.shli" | "arith.shrsi" | "arith.shrui"
            | "arith.cmpi" | "arith.cmpf" | "arith.select" | "arith.negf" | "math.absf"
            | "math.absi" | "tpu.weird" => Cost::valu(1.0),
            // A mask becomes a number in one selection.
            "arith.sitofp" | "arith.uitofp" if self.made_by(op, "arith.extui") => Cost::valu(0.0),
            "arith.maxsi" | "arith.minsi" | "arith.maxui" | "arith.minui" | "arith.sitofp"
            | "arith.fptosi" | "arith.uitofp" | "tpu.sitofp" | "tpu.fptosi" => Cost::valu(2.0),
            "arith.extui" | "arith.extsi" | "arith.trunci" => Cost::valu(1.0),
            "arith.muli" => Cost::valu(4.0),
            "arith.divsi" | "arith.divui" | "arith.remsi" | "arith.remui" => Cost::valu(24.0),
            "math.exp" => Cost::eup(2.0),
            "math.log" => Cost::eup(2.0),
            "math.exp2" | "math.tanh" | "math.log2" => Cost::eup(1.0),
            "math.log1p" => Cost::eup(10.0),
            "math.rsqrt" => Cost::eup(if new { 1.0 } else { 9.0 }),
            "math.sqrt" => Cost::eup(if new { 5.0 } else { 13.0 }),
            "math.sin" | "math.cos" => Cost::valu(60.0),
            "math.floor" | "math.ceil" | "math.round" | "math.roundeven" => Cost::valu(3.0),
            "tpu.reciprocal" => match self.module.bool_attribute(op, "approx") {
                Some(true) => Cost::eup(1.0),
                _ => Cost::eup(reciprocal),
            },
            "arith.divf" => {
                return self.divide(op, Cost::eup(reciprocal));
            }
            "arith.truncf" | "arith.extf" | "tpu.truncf" | "tpu.extf" => {
                self.convert(op);
                return true;
            }
            _ => return false,
        };
        let operands = self.module.operands(op);
        if operands
            .iter()
            .all(|&v| self.module.value_kind(v).shape().is_none())
        {
            return false;
        }
        let cost = self.native_or_widened(op, cost);
        self.element_wise(op, cost);
        true
    }

    /// A product with the reciprocal of the divisor, which is computed for its own registers: for all of a row, or of
    /// the block, where they are the same.
    fn divide(&mut self, op: Op, reciprocal: Cost) -> bool {
        let &[left, right] = self.module.operands(op) else {
            return false;
        };
        if self.module.value_kind(left).shape().is_none() {
            return false;
        }
        let [reciprocal, product] =
            [reciprocal, Cost::valu(1.0)].map(|cost| self.native_or_widened(op, cost));
        let [left, right] = [left, right].map(|value| self.vector(value));
        let bits = self.bits(self.module.results(op)[0]);
        let right = self.block.element_wise(&[&right], bits, reciprocal);
        let out = self.block.element_wise(&[&left, &right], bits, product);
        self.set(op, out);
        true
    }

    /// What an operation takes whose type the vector unit may lack: then it is widened to f32, computed twice as wide,
    /// and packed.
    fn native_or_widened(&self, op: Op, cost: Cost) -> Cost {
        match self.native(op) {
            true => cost,
            false => Cost {
                valu: 2.0 * cost.valu + 3.0,
                eup: 2.0 * cost.eup,
            },
        }
    }

    /// Whether the first operand is the result of an operation of this name.
    pub(super) fn made_by(&self, op: Op, name: &str) -> bool {
        let operand = self.module.operands(op)[0];
        self.module.made_by(operand, name).is_some()
    }

    /// Operations that move elements.
    fn shapes(&mut self, op: Op) -> bool {
        let Some(&result) = self.module.results(op).first() else {
            return false;
        };
        let shape = self.shape(result);
        let bits = self.bits(result);
        let [rows, columns] = Self::registers(shape, bits);
        let operands = self.module.operands(op);
        let first = operands.first().copied();
        match self.module.op_name(op) {
            "tpu.iota" | "vector.step" => {
                let dimensions = self.module.integers_attribute(op, "dimensions");
                let dimension = dimensions.and_then(|d| d.first().copied()).unwrap_or(0);
                let last = shape.len() as i64 - 1;
                let out = match dimension == last {
                    true => Vector::new(1, columns, bits, 0.0),
                    false => Vector::new(rows, 1, bits, 0.0),
                };
                let out = self.block.regroup(&Vector::constant(bits), out, 1.0, 1.0);
                self.set(op, out);
            }
            "vector.broadcast" | "tpu.broadcast_in_sublanes" | "vector.splat" => {
                let Some(first) = first else { return false };
                self.broadcast(op, first, shape);
            }
            "vector.shape_cast"
            | "tpu.bitcast"
            | "arith.bitcast"
            | "tpu.bitcast_vreg"
            | "tpu.reshape"
            | "tpu.relayout"
            | "builtin.unrealized_conversion_cast"
            | "tpu.mask_cast" => {
                let Some(first) = first else { return false };
                self.recast(op, first, shape);
            }
            "vector.extract_strided_slice" => {
                let Some(first) = first else { return false };
                self.extract_slice(op, first, shape);
            }
            "tpu.concatenate" => self.concatenate(op),
            "tpu.repeat" => {
                let value = self.vector(operands[0]);
                let mut out = Vector::new(rows, columns, bits, 0.0);
                out = self.block.regroup(&value, out, 0.0, 1.0);
                self.set(op, out);
            }
            "tpu.transpose" | "vector.transpose" => {
                let Some(first) = first else { return false };
                self.transpose(op, first, [rows, columns]);
            }
            "vector.multi_reduction" | "tpu.reduce" | "tpu.all_reduce" | "vector.reduction" => {
                let Some(first) = first else { return false };
                self.reduce(op, first);
            }
            "tpu.rotate"
            | "tpu.dynamic_rotate"
            | "tpu.roll_vectors"
            | "tpu.dynamic_gather"
            | "tpu.gather"
            | "tpu.sublane_shuffle" => {
                let value = self.vector(operands[0]);
                let out = Vector::new(
                    value.rows.registers.max(1),
                    value.columns.registers.max(1),
                    bits,
                    0.0,
                );
                let out = self.block.across(&value, out, 1.0, 1.0);
                self.set(op, out);
            }
            "vector.extract" => match self.module.value_kind(result).shape() {
                Some(_) => {
                    let Some(first) = first else { return false };
                    self.recast(op, first, shape);
                }
                None => self.know(result.index(), Known::Scalar(None)),
            },
            "tpu.create_mask" | "vector.create_mask" | "vector.constant_mask" => {
                let out = Vector::new(rows, columns, bits, 0.0);
                let out = self.block.regroup(&Vector::constant(bits), out, 1.0, 1.0);
                self.set(op, out);
            }
            _ => return false,
        }
        true
    }

    fn broadcast(&mut self, op: Op, from: ir::Value, shape: &[i64]) {
        let value = self.vector(from);
        let source = self.shape(from);
        if source.is_empty() {
            self.set(op, Vector::constant(self.bits(from)));
            return;
        }
        let last = shape.last().copied().unwrap_or(1);
        let one_column = source.last().copied().unwrap_or(1) == 1 && last > 1;
        if one_column && !value.along_lanes {
            // One lane spread over all.
            let mut out = Vector::new(value.rows.registers, 1, value.bits, 0.0);
            out.along_lanes = true;
            let out = self.block.across(&value, out, 1.0, 0.0);
            self.set(op, out);
            return;
        }
        // The same register stands for every row or column.
        let result = self.module.results(op)[0];
        self.know(result.index(), Known::Vector(value));
    }

    /// The same elements in another shape: free as long as the last two dimensions keep their
    /// registers, or rows change between being a dimension and not.
    fn recast(&mut self, op: Op, from: ir::Value, shape: &[i64]) {
        let value = self.vector(from);
        let result = self.module.results(op)[0];
        let bits = self.bits(result);
        let [rows, columns] = Self::registers(shape, bits);
        let (r, c) = (value.rows.registers, value.columns.registers);
        let source = self.shape(from);
        let per_row = value.along_lanes && c == 1;
        let same = (r == rows && c == columns) || (r == 1 && c == 1) || per_row;
        if let ([n], [.., m, 1]) = (source, shape)
            && n == m
            && !value.along_lanes
        {
            // Every element is spread over the lanes of a row.
            let mut out = Vector::new(rows, 1, bits, 0.0);
            out.along_lanes = true;
            let out = self.block.across(&value, out, 1.0, 0.0);
            self.set(op, out);
            return;
        }
        let tail = |s: &[i64]| s.iter().rev().copied().find(|&n| n != 1).unwrap_or(1);
        if same || source.len().max(shape.len()) <= 2 && r == 1 && tail(source) == tail(shape) {
            self.know(result.index(), Known::Vector(value));
            return;
        }
        let out = Vector::new(rows, columns, bits, 0.0);
        let aligned = source.last() == shape.last();
        let out = match aligned {
            true => self.block.regroup(&value, out, 0.0, 1.0),
            false => self.block.across(&value, out, 1.0, 1.0),
        };
        self.set(op, out);
    }

    fn extract_slice(&mut self, op: Op, from: ir::Value, shape: &[i64]) {
        let value = self.vector(from);
        let result = self.module.results(op)[0];
        let bits = value.bits;
        let per = i64::from(8 * 32 / bits);
        let offsets = self
            .module
            .integers_attribute(op, "offsets")
            .unwrap_or_default();
        let source = self.shape(from);
        let [rows, columns] = Self::registers(shape, bits);
        let column = offsets.last().copied().unwrap_or(0);
        let row = match offsets.len() {
            0 | 1 => 0,
            n => offsets[n - 2],
        };
        let lead: i64 = match offsets.len() {
            0..=2 => 0,
            n => offsets[n - 3],
        };
        let rows_per_lead = source
            .iter()
            .rev()
            .nth(1)
            .map_or(1, |&n| n.div_euclid(per).max(1));
        let aligned = column % 128 == 0 && row % per == 0;
        let r0 = usize::try_from(lead * rows_per_lead + row / per).unwrap_or(0);
        let c0 = usize::try_from(column / 128).unwrap_or(0);
        let rows = if value.rows.registers == 1 { 1 } else { rows };
        let columns = if value.columns.registers == 1 {
            1
        } else {
            columns
        };
        let out = self.block.part(&value, [r0, rows], [c0, columns]);
        match aligned {
            true => self.know(result.index(), Known::Vector(Rc::new(out))),
            false => {
                let shape = Vector::new(rows, columns, bits, 0.0);
                let out =
                    self.block
                        .across(&out, shape, if column % 128 == 0 { 0.0 } else { 1.0 }, 1.0);
                self.set(op, out);
            }
        }
    }

    fn concatenate(&mut self, op: Op) {
        let result = self.module.results(op)[0];
        let shape = self.shape(result);
        let bits = self.bits(result);
        let dimension = self.module.integer_attribute(op, "dimension").unwrap_or(0);
        let [rows, columns] = Self::registers(shape, bits);
        let along_columns = dimension == shape.len() as i64 - 1;
        let values: Vec<_> = (self.module.operands(op).iter())
            .map(|&value| {
                let [rows, columns] = Self::registers(self.shape(value), bits);
                let registers = if along_columns { columns } else { rows };
                (self.vector(value), registers)
            })
            .collect();
        // The same registers side by side are one value that does not vary.
        let (first, _) = &values[0];
        let is_same =
            |(v, _): &(Rc<Vector>, usize)| v.columns.registers == 1 && Rc::ptr_eq(v, first);
        if along_columns && values.iter().all(is_same) {
            let whole = self.shape(self.module.operands(op)[0]).last() == Some(&128);
            if whole {
                self.know(result.index(), Known::Vector(first.clone()));
                return;
            }
        }
        let out = Vector::new(rows, columns, bits, 0.0);
        let out = self.block.join(&values, out, along_columns);
        self.set(op, out);
    }

    fn reduce(&mut self, op: Op, from: ir::Value) {
        let value = self.vector(from);
        let source = self.shape(from);
        let dims = reduced_dims(self.module, op, source.len() as i64);
        let rank = source.len() as i64;
        let mut out = (*value).clone();
        let [full_rows, full_columns] = Self::registers(source, value.bits);
        let masked = source.last().is_some_and(|n| n % 128 != 0);
        let one = (0..rank).all(|dim| dims.contains(&dim) || source[dim as usize] == 1);
        let [of_rows, of_lanes] = [rank - 2, rank - 1].map(|dim| dims.contains(&dim));
        if one && of_rows && of_lanes {
            out = self.block.reduce_all(&value, masked);
            self.reduced(op, out);
            return;
        }
        if of_lanes {
            let mut wide = out.clone();
            if wide.columns.registers == 1 && full_columns > 1 {
                let shape = Vector::new(wide.rows.registers, full_columns, wide.bits, 0.0);
                wide = self.block.regroup(&wide, shape, 0.0, 1.0);
            }
            let maximum = self.usage.waits_for_maximum(from);
            out = self.block.reduce_lanes(&wide, masked, maximum);
            if maximum {
                self.block.load_again(&value);
            }
        }
        if dims.iter().any(|&dim| dim < rank - 1) {
            let lead: i64 = source.iter().rev().skip(2).product();
            let kept = match of_rows {
                true if rank >= 2 => usize::try_from(lead.max(1)).unwrap_or(1),
                _ => full_rows / usize::try_from(lead.max(1)).unwrap_or(1),
            };
            let kept = if dims.len() as i64 >= rank - 1 || rank <= 2 {
                1
            } else {
                kept
            };
            out = self.block.reduce_rows(&out, kept.max(1));
        }
        self.reduced(op, out);
    }

    fn reduced(&mut self, op: Op, out: Vector) {
        // The accumulator is a constant in every kernel; where it is not, one more operation.
        let result = self.module.results(op)[0];
        match self.module.value_kind(result).shape() {
            Some(_) => self.set(op, out),
            None => self.know(result.index(), Known::Scalar(None)),
        }
    }

    /// What the units do in a product.
    pub(super) fn product(&self, op: Op) -> Product {
        let operands = self.module.operands(op);
        let result = self.module.results(op)[0];
        let [m, n] = match *self.shape(result) {
            [.., m, n] => [m, n],
            _ => [1, 1],
        };
        let [transpose_lhs, transpose_rhs] = self.usage.transposed(op);
        let left = self.shape(operands[0]);
        let k = match (left, transpose_lhs) {
            ([.., k, _], true) | ([.., k], false) => *k,
            _ => 1,
        };
        let [lhs_bits, rhs_bits] = [operands[0], operands[1]].map(|value| self.bits(value));
        let precision = self
            .module
            .attribute_of(op, "precision")
            .and_then(|attribute| ContractPrecision::read(self.module, attribute));
        let target = self.machine.target;
        let passes = match precision {
            _ if lhs_bits < 32 && rhs_bits < 32 => 1,
            Some(ContractPrecision::Fp32) if lhs_bits == 32 && rhs_bits == 32 => {
                target.f32_highest_passes.value
            }
            Some(ContractPrecision::Bf16x3) => target.f32_high_passes.value,
            _ => target.f32_default_passes.value,
        };
        let size = |n: i64| usize::try_from(n).unwrap_or(1);
        Product {
            m: size(m),
            k: size(k),
            n: size(n),
            passes: passes as f64,
            transpose_lhs,
            transpose_rhs,
            stored: self.usage.stored_only(result),
        }
    }

    fn matmul(&mut self, op: Op) {
        let operands = self.module.operands(op);
        let (a, b, c) = (operands[0], operands[1], operands[2]);
        let (lhs, rhs) = (self.vector(a), self.vector(b));
        let accumulate = self.module.made_by(c, "arith.constant").is_none();
        let product = self.product(op);
        let standing = self.take_turn(&product);
        if [a, b].iter().any(|&value| self.usage.is_of_products(value)) {
            self.block.multiplies_results();
        }
        let mut out = self.block.product([&lhs, &rhs], &product, standing);
        if accumulate {
            let acc = self.vector(c);
            out = self.block.element_wise(&[&out, &acc], 32, Cost::valu(1.0));
        }
        self.set(op, out);
    }
}
