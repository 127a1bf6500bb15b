//! Operations that change the shape of vectors, reductions and the matrix product.

use std::collections::HashSet;

use super::{Check, Checked, Problem};
use crate::mosaic::FloatKind;
use crate::mosaic::ir::Type;
use crate::mosaic::tpu::{ContractPrecision, DotDimensionNumbers, ReductionKind, VectorKind};
use crate::mosaic::types::TypeKind;

impl Check<'_> {
    pub(super) fn vector(self) -> Checked {
        match self.name() {
            "vector.broadcast" => self.broadcast(),
            "vector.shape_cast" | "tpu.reshape" => self.shape_cast(),
            "vector.multi_reduction" => self.multi_reduction(),
            "vector.extract_strided_slice" => self.strided_slice(),
            "tpu.matmul" => self.matmul(),
            "tpu.iota" => self.iota(),
            "tpu.concatenate" => self.concatenate(),
            "tpu.transpose" => self.transpose(),
            "tpu.dynamic_rotate" | "tpu.rotate" => self.rotate(),
            "tpu.dynamic_gather" => self.gather(),
            "tpu.bitcast" => self.bitcast(),
            "tpu.reduce_index" => self.reduce_index(),
            "tpu.all_reduce" => self.all_reduce(),
            "tpu.reciprocal" => self.reciprocal(),
            "tpu.weird" => self.weird(),
            "tpu.assume_multiple" => self.assume_multiple(),
            _ => Ok(()),
        }
    }

    fn assume_multiple(self) -> Checked {
        let multiple = self.integer("multiple")?;
        self.rule(multiple > 0, "the multiple must be positive")?;
        let constant = (self.operands().first())
            .and_then(|&value| self.m.made_by(value, "arith.constant"))
            .and_then(|op| self.m.integer_attribute(op, "value"));
        let holds = constant.is_none_or(|c| c % multiple == 0);
        self.rule(holds, "the operand is a constant that is not a multiple")
    }

    fn same_shape(self, what: &'static str, expected: &[i64], found: &[i64]) -> Checked {
        if expected == found {
            return Ok(());
        }
        Err(Problem::Type {
            what,
            expected: format!("of shape {expected:?}"),
            found: format!("of shape {found:?}"),
        })
    }

    fn broadcast(self) -> Checked {
        let (from, (shape, element)) = (self.operand_type(0)?, self.vector_result()?);
        self.same_type("the element type", self.element_of(from), element)?;
        let small = self.shape_of(from).unwrap_or(&[]);
        let fits = small.len() <= shape.len()
            && small
                .iter()
                .rev()
                .zip(shape.iter().rev())
                .all(|(a, b)| a == b || *a == 1);
        self.type_must(
            fits,
            "the operand",
            "a shape that extends to the result's",
            from,
        )
    }

    fn shape_cast(self) -> Checked {
        let ((from, a), (to, b)) = (self.vector_operand(0)?, self.vector_result()?);
        self.same_type("the element type", a, b)?;
        self.count("the number of elements", elements(from), elements(to))
    }

    fn multi_reduction(self) -> Checked {
        let (shape, element) = self.vector_operand(0)?;
        let dims = self.integers("reduction_dims")?;
        self.dimensions("reduction_dims", &dims, shape.len())?;
        self.rule(!dims.is_empty(), "reduces no dimension")?;
        let kind = self
            .m
            .attribute_of(self.op, "kind")
            .and_then(|a| VectorKind::read(self.m, a))
            .ok_or_else(|| self.bad("kind", "a known kind of reduction"))?;
        use VectorKind as K;
        let floats = self.is_float(element);
        let fits = match kind {
            K::Add | K::Mul => true,
            K::MaximumF | K::MinimumF => floats,
            _ => !floats,
        };
        self.type_must(fits, "an operand", "of a type the reduction has", element)?;
        let acc = self.operand_type(1)?;
        self.same_type("the result", acc, self.result_type()?)?;
        self.same_type("the element type", element, self.element_of(acc))?;
        let left = without(shape, &dims);
        self.same_shape("the accumulator", &left, self.shape_of(acc).unwrap_or(&[]))
    }

    fn strided_slice(self) -> Checked {
        let ((shape, a), (result, b)) = (self.vector_operand(0)?, self.vector_result()?);
        self.same_type("the element type", a, b)?;
        let [offsets, sizes, strides] = [
            self.integers("offsets")?,
            self.integers("sizes")?,
            self.integers("strides")?,
        ];
        let n = offsets.len();
        self.rule(
            sizes.len() == n && strides.len() == n && n <= shape.len(),
            "offsets, sizes and strides must be as many, at most the rank",
        )?;
        for i in 0..n {
            self.rule(strides[i] == 1, "strides must be 1")?;
            let inside = offsets[i] >= 0
                && sizes[i] > 0
                && offsets[i]
                    .checked_add(sizes[i])
                    .is_some_and(|end| end <= shape[i]);
            self.rule(inside, "the slice must lie within the vector")?;
        }
        let expected: Vec<i64> = sizes.iter().chain(&shape[n..]).copied().collect();
        self.same_shape("the result", &expected, result)
    }

    fn matmul(self) -> Checked {
        let [(lhs, l), (rhs, r), (acc, a)] = [
            self.vector_operand(0)?,
            self.vector_operand(1)?,
            self.vector_operand(2)?,
        ];
        self.same_type("the result", self.operand_type(2)?, self.result_type()?)?;
        self.type_must(self.bits(a) == Some(32), "the accumulator", "of 32 bits", a)?;
        let floats = [l, r, a].map(|t| self.is_float(t));
        self.rule(
            floats[0] == floats[1],
            "operands must be both floats or both integers",
        )?;
        self.rule(
            floats[0] == floats[2],
            "the accumulator must be of the operands' kind",
        )?;
        if self.m.attribute_of(self.op, "transpose_lhs_hint").is_none() {
            return Err(Problem::MissingAttribute {
                name: "transpose_lhs_hint",
            });
        }
        self.rule(
            self.m.bool_attribute(self.op, "transpose_lhs") != Some(true),
            "transpose_lhs is not supported; use dimension_numbers",
        )?;
        if let Some(p) = self.m.attribute_of(self.op, "precision")
            && ContractPrecision::read(self.m, p).is_none()
        {
            return Err(self.bad("precision", "a known precision"));
        }
        let Some(dims) = self.m.attribute_of(self.op, "dimension_numbers") else {
            let transposed = self.m.bool_attribute(self.op, "transpose_rhs") == Some(true);
            let dims = DotDimensionNumbers::matrices(1, i64::from(transposed));
            return self.dot(&dims, lhs, rhs, acc);
        };
        let dims = DotDimensionNumbers::read(self.m, dims)
            .ok_or_else(|| self.bad("dimension_numbers", "seven lists of dimensions"))?;
        self.dot(&dims, lhs, rhs, acc)
    }

    fn dot(self, d: &DotDimensionNumbers, lhs: &[i64], rhs: &[i64], acc: &[i64]) -> Checked {
        const NAME: &str = "dimension_numbers";
        let all = |parts: [&Vec<i64>; 3]| parts.into_iter().flatten().copied().collect::<Vec<_>>();
        let l = all([&d.lhs_contracting, &d.lhs_remaining, &d.lhs_batch]);
        let r = all([&d.rhs_contracting, &d.rhs_remaining, &d.rhs_batch]);
        self.dimensions(NAME, &l, lhs.len())?;
        self.dimensions(NAME, &r, rhs.len())?;
        self.count(
            "the number of dimensions of the left operand used",
            lhs.len() as i64,
            l.len() as i64,
        )?;
        self.count(
            "the number of dimensions of the right operand used",
            rhs.len() as i64,
            r.len() as i64,
        )?;
        self.rule(!d.lhs_contracting.is_empty(), "contracts no dimension")?;
        for (name, a, b) in [
            (
                "the size of a contracted dimension",
                &d.lhs_contracting,
                &d.rhs_contracting,
            ),
            ("the size of a batch dimension", &d.lhs_batch, &d.rhs_batch),
        ] {
            self.rule(a.len() == b.len(), "pairs of dimensions must be complete")?;
            for (&i, &j) in a.iter().zip(b) {
                self.count(name, lhs[i as usize], rhs[j as usize])?;
                self.rule(lhs[i as usize] > 0, "paired dimensions must not be empty")?;
            }
        }
        let sorted = |list: &[i64]| list.windows(2).all(|w| w[0] < w[1]);
        self.rule(
            sorted(&d.lhs_remaining) && sorted(&d.rhs_remaining),
            "remaining dimensions must be in order",
        )?;
        let mut order = Vec::new();
        let mut shape = Vec::new();
        for &i in d.lhs_batch.iter().chain(&d.lhs_remaining) {
            order.extend([0, i]);
            shape.push(lhs[i as usize]);
        }
        for &j in &d.rhs_remaining {
            order.extend([1, j]);
            shape.push(rhs[j as usize]);
        }
        self.rule(
            order == d.output_order,
            "the result's dimensions must be batch, left, right, in order",
        )?;
        self.same_shape("the accumulator", &shape, acc)
    }

    fn iota(self) -> Checked {
        let (shape, element) = self.vector_result()?;
        self.type_must(
            self.is_integer(element),
            "the result",
            "a vector of integers",
            element,
        )?;
        let dims = self.integers("dimensions")?;
        self.rule(!dims.is_empty(), "counts along no dimension")?;
        self.dimensions("dimensions", &dims, shape.len())
    }

    fn concatenate(self) -> Checked {
        let count = self.operands().len();
        self.rule(count >= 2, "needs at least two operands")?;
        let dimension = self.integer("dimension")?;
        let (result, element) = self.vector_result()?;
        self.dimensions("dimension", &[dimension], result.len())?;
        let d = dimension as usize;
        let mut total = 0_i64;
        for i in 0..count {
            let (shape, e) = self.vector_operand(i)?;
            self.same_type("the element type", element, e)?;
            let mut expected = result.to_vec();
            if shape.len() == result.len() {
                expected[d] = shape[d];
                total = total.saturating_add(shape[d]);
            }
            self.same_shape("an operand", &expected, shape)?;
        }
        self.count("the size along the dimension", total, result[d])
    }

    fn transpose(self) -> Checked {
        let ((shape, a), (result, b)) = (self.vector_operand(0)?, self.vector_result()?);
        self.same_type("the element type", a, b)?;
        let permutation = self.integers("permutation")?;
        self.count(
            "the length of the permutation",
            shape.len() as i64,
            permutation.len() as i64,
        )?;
        self.dimensions("permutation", &permutation, shape.len())?;
        let expected: Vec<i64> = permutation.iter().map(|&p| shape[p as usize]).collect();
        self.same_shape("the result", &expected, result)
    }

    fn rotate(self) -> Checked {
        let (shape, _) = self.vector_operand(0)?;
        self.same_type("the result", self.operand_type(0)?, self.result_type()?)?;
        if self.name() == "tpu.dynamic_rotate" {
            let amount = self.operand_type(1)?;
            self.type_must(self.is_int(amount, 32), "the amount", "i32", amount)?;
        }
        self.dimensions("dimension", &[self.integer("dimension")?], shape.len())?;
        let has = |name| self.m.attribute_of(self.op, name).is_some();
        self.rule(
            has("stride") == has("stride_dimension"),
            "stride and stride_dimension stand together",
        )?;
        if has("stride_dimension") {
            self.dimensions(
                "stride_dimension",
                &[self.integer("stride_dimension")?],
                shape.len(),
            )?;
        }
        Ok(())
    }

    fn gather(self) -> Checked {
        let ((source, a), (indices, i)) = (self.vector_operand(0)?, self.vector_operand(1)?);
        let (result, b) = self.vector_result()?;
        self.type_must(self.is_integer(i), "the indices", "a vector of integers", i)?;
        self.same_type("the element type", a, b)?;
        self.same_shape("the result", indices, result)?;
        self.count(
            "the rank of the indices",
            source.len() as i64,
            indices.len() as i64,
        )?;
        let dims = self.integers("dimensions")?;
        self.dimensions("dimensions", &dims, source.len())?;
        for (d, (&s, &n)) in source.iter().zip(indices).enumerate() {
            if !dims.contains(&(d as i64)) {
                self.count("the size of a dimension not gathered", s, n)?;
            }
        }
        Ok(())
    }

    /// The second-last dimension scales with the width of the elements.
    fn bitcast(self) -> Checked {
        let ((from, a), (to, b)) = (self.vector_operand(0)?, self.vector_result()?);
        let (Some(wide), Some(narrow)) = (self.bits(a), self.bits(b)) else {
            return Err(self.wrong_type("an element", "of known width", a));
        };
        if wide == narrow {
            return self.same_shape("the result", from, to);
        }
        self.rule(
            from.len() >= 2 && from.len() == to.len(),
            "a change of width needs two dimensions and the same rank",
        )?;
        let second = from.len() - 2;
        let mut expected = from.to_vec();
        expected[second] = to[second];
        self.same_shape("the result", &expected, to)?;
        let bits = |n: i64, width: u32| n.saturating_mul(i64::from(width));
        self.count(
            "the bits of the second-last dimension",
            bits(from[second], wide),
            bits(to[second], narrow),
        )
    }

    fn reduction_kind(self) -> Result<ReductionKind, Problem> {
        self.m
            .attribute_of(self.op, "kind")
            .and_then(|a| ReductionKind::read(self.m, a))
            .ok_or_else(|| self.bad("kind", "a known kind of reduction"))
    }

    fn reduce_index(self) -> Checked {
        let ((shape, element), (result, index)) = (self.vector_operand(0)?, self.vector_result()?);
        let kind = self.reduction_kind()?;
        if !matches!(kind, ReductionKind::ArgMax | ReductionKind::ArgMin) {
            return Err(self.bad("kind", "arg_max or arg_min"));
        }
        self.type_must(
            self.is_float(element),
            "the operand",
            "a vector of floats",
            element,
        )?;
        self.type_must(
            self.is_int(index, 32),
            "the result",
            "a vector of i32",
            index,
        )?;
        let axis = self.integer("axis")?;
        self.dimensions("axis", &[axis], shape.len())?;
        self.same_shape("the result", &without(shape, &[axis]), result)
    }

    fn all_reduce(self) -> Checked {
        let (shape, _) = self.vector_operand(0)?;
        self.reduction_kind()?;
        self.dimensions("dim", &[self.integer("dim")?], shape.len())
    }

    fn reciprocal(self) -> Checked {
        let ty = self.operand_type(0)?;
        self.same_type("the result", ty, self.result_type()?)?;
        let element = self.m.type_kind(self.element_of(ty));
        let fits = [FloatKind::F32, FloatKind::BF16]
            .map(TypeKind::Float)
            .contains(element);
        self.type_must(fits, "the operand", "of f32 or bf16", ty)
    }

    fn weird(self) -> Checked {
        let (from, to): (Type, Type) = (self.operand_type(0)?, self.result_type()?);
        let fits = self.is_float(from)
            && self.is_int(self.element_of(to), 1)
            && self.shape_of(from) == self.shape_of(to);
        self.type_must(fits, "the result", "i1 in the shape of the floats", to)
    }
}

pub(super) fn elements(shape: &[i64]) -> i64 {
    shape.iter().fold(1, |a, &n| a.saturating_mul(n))
}

/// The sizes of the dimensions that are not in the list.
fn without(shape: &[i64], dims: &[i64]) -> Vec<i64> {
    let gone: HashSet<i64> = dims.iter().copied().collect();
    let kept = shape
        .iter()
        .enumerate()
        .filter(|(i, _)| !gone.contains(&(*i as i64)));
    kept.map(|(_, &n)| n).collect()
}
