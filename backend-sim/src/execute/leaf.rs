//! An operation without regions, with its operands at hand.

use tilecast_tpu::mosaic::{AttributeKind, Module, Op, Type};

use super::error::Fault;
use super::tensor::{Cells, Element, Tensor, Value, shape_of};
use super::view::View;

/// An operation to be evaluated.
#[derive(Debug)]
pub(super) struct Leaf<'a> {
    pub(super) module: &'a Module,
    pub(super) op: Op,
    pub(super) name: &'a str,
    pub(super) operands: Vec<Value>,
}

impl<'a> Leaf<'a> {
    pub(super) fn operand(&self, i: usize) -> Result<&Value, Fault> {
        let missing = Fault::Malformed("an operand is missing");
        self.operands.get(i).ok_or(missing)
    }

    pub(super) fn tensor(&self, i: usize) -> Result<&Tensor, Fault> {
        self.operand(i)?.tensor()
    }

    pub(super) fn view(&self, i: usize) -> Result<&View, Fault> {
        self.operand(i)?.view()
    }

    /// Operands as indices.
    pub(super) fn indices(&self, operands: std::ops::Range<usize>) -> Result<Vec<i64>, Fault> {
        operands.map(|i| self.tensor(i)?.one_int()).collect()
    }

    // ---- results ------------------------------------------------------------------------------

    pub(super) fn result_type(&self) -> Result<Type, Fault> {
        let missing = Fault::Malformed("a result is missing");
        let result = self.module.results(self.op).first().ok_or(missing)?;
        Ok(self.module.value_type(*result))
    }

    /// Shape and element type of the result.
    pub(super) fn result(&self) -> Result<(Vec<usize>, Element), Fault> {
        shape_of(self.module, self.result_type()?)
    }

    /// The result made of floats, which are rounded to its type.
    pub(super) fn floats(&self, mut data: Vec<f32>) -> Result<Tensor, Fault> {
        let (shape, element) = self.result()?;
        if element.bits() < 32 {
            data.iter_mut().for_each(|x| *x = element.round(*x));
        }
        Tensor::new(shape, element, data)
    }

    /// The result made of integers, which are wrapped to its width.
    pub(super) fn ints(&self, mut data: Vec<i64>) -> Result<Tensor, Fault> {
        let (shape, element) = self.result()?;
        data.iter_mut().for_each(|x| *x = element.wrap(*x));
        Tensor::new(shape, element, data)
    }

    /// The result made of elements of its type.
    pub(super) fn cells(&self, cells: Cells) -> Result<Tensor, Fault> {
        let (shape, element) = self.result()?;
        Tensor::new(shape, element, cells)
    }

    // ---- attributes ---------------------------------------------------------------------------

    pub(super) fn integer(&self, name: &'static str) -> Result<i64, Fault> {
        let value = self.module.integer_attribute(self.op, name);
        value.ok_or(Fault::Malformed("an integer attribute is missing"))
    }

    pub(super) fn integers(&self, name: &'static str) -> Result<Vec<i64>, Fault> {
        let values = self.module.integers_attribute(self.op, name);
        values.ok_or(Fault::Malformed("a list attribute is missing"))
    }

    /// A list of numbers that are not negative.
    pub(super) fn sizes(&self, name: &'static str) -> Result<Vec<usize>, Fault> {
        let size = |n: i64| usize::try_from(n);
        let sizes: Result<_, _> = self.integers(name)?.into_iter().map(size).collect();
        sizes.map_err(|_| Fault::Malformed("a list attribute holds a negative number"))
    }

    /// A dimension below `rank`.
    pub(super) fn dimension(&self, name: &'static str, rank: usize) -> Result<usize, Fault> {
        let dimension = usize::try_from(self.integer(name)?).ok();
        let beyond = Fault::Malformed("a dimension is not below the rank");
        dimension.filter(|&d| d < rank).ok_or(beyond)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.module.attribute_of(self.op, name).is_some()
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.module.bool_attribute(self.op, name) == Some(true)
    }

    /// The text of an attribute.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let attribute = self.module.attribute_of(self.op, name)?;
        Some(self.module.attribute_text(attribute))
    }

    /// The word of a dialect attribute such as `#vector.kind<add>`.
    pub(super) fn word(&self, name: &'static str) -> Result<&'a str, Fault> {
        match self.module.attribute_kind_of(self.op, name) {
            Some(AttributeKind::Dialect {
                body: Some(body), ..
            }) => Ok(body),
            _ => Err(Fault::Malformed("an attribute of the dialect is missing")),
        }
    }

    /// The operands of each group, where the groups are not all of one operand.
    pub(super) fn segments(&self) -> Result<Vec<std::ops::Range<usize>>, Fault> {
        let mut start = 0;
        let mut groups = Vec::new();
        for size in self.sizes("operandSegmentSizes")? {
            let end = usize::saturating_add(start, size);
            groups.push(start..end);
            start = end;
        }
        match start == self.operands.len() {
            true => Ok(groups),
            false => Err(Fault::Malformed(
                "the groups of operands are not all operands",
            )),
        }
    }
}
