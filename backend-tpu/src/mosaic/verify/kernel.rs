//! The function that is the kernel: grid, windows, scalar prefetch, scratch.
//!
//! Its arguments are, in this order: one `i32` for each grid axis; the prefetched scalars in SMEM;
//! the operands; the scratch. `window_params` has one entry for each operand. An entry with
//! `transform_indices` names the function that maps grid indices (and the prefetched scalars) to
//! the block an iteration needs: one `i32` for each dimension of the window. An empty entry is an
//! operand that stays where it is.

use super::{Check, Checked, Problem};
use crate::mosaic::ir::{Attribute, Type};
use crate::mosaic::tpu::{DimensionSemantics, MemorySpace, PipelineMode, memory_space};
use crate::mosaic::types::{AttributeKind, DYNAMIC, TypeKind};

impl Check<'_> {
    pub(super) fn kernel(self) -> Checked {
        if self.m.attribute_of(self.op, "window_params").is_none()
            && self.m.attribute_of(self.op, "iteration_bounds").is_none()
        {
            return Ok(());
        }
        let (inputs, _) = self.function_type()?;
        let bounds = self.integers("iteration_bounds")?;
        if bounds.iter().any(|&n| n < 0 && n != DYNAMIC) {
            return Err(self.bad("iteration_bounds", "sizes of grid axes"));
        }
        self.semantics(bounds.len())?;
        let optional = |name: &'static str| match self.m.attribute_of(self.op, name) {
            None => Ok(0),
            Some(_) => usize::try_from(self.integer(name)?).map_err(|_| self.bad(name, "a count")),
        };
        let (scalars, scratch) = (optional("scalar_prefetch")?, optional("scratch_operands")?);
        let AttributeKind::Array(windows) = self.attribute_kind("window_params")? else {
            return Err(self.bad("window_params", "a list"));
        };
        let parts = [bounds.len(), scalars, windows.len(), scratch];
        let expected = parts.iter().try_fold(0_usize, |a, &n| a.checked_add(n));
        let what = "grid axes + prefetched scalars + windows + scratch";
        let found = inputs.len() as i64;
        if expected != Some(inputs.len()) {
            let expected = expected.map_or(i64::MAX, |n| n as i64);
            return Err(Problem::Count {
                what,
                expected: found,
                found: expected,
            });
        }
        let (grid, rest) = inputs.split_at(bounds.len());
        let (prefetched, rest) = rest.split_at(scalars);
        for &t in grid {
            self.type_must(self.is_int(t, 32), "a grid index", "i32", t)?;
        }
        for &t in prefetched {
            let smem = memory_space(self.m, t) == Some(MemorySpace::Smem);
            self.type_must(smem, "a prefetched scalar", "a memref in SMEM", t)?;
        }
        for (&window, &ty) in windows.iter().zip(rest) {
            self.window(window, ty, grid, prefetched)?;
        }
        Ok(())
    }

    fn semantics(self, axes: usize) -> Checked {
        let AttributeKind::Array(list) = self.attribute_kind("dimension_semantics")? else {
            return Err(self.bad("dimension_semantics", "a list"));
        };
        self.count(
            "the number of dimension semantics",
            axes as i64,
            list.len() as i64,
        )?;
        let mut ordered = false;
        for &a in list {
            match DimensionSemantics::read(self.m, a) {
                None => return Err(self.bad("dimension_semantics", "a list of semantics")),
                Some(DimensionSemantics::Arbitrary) => ordered = true,
                Some(_) => self.rule(!ordered, "parallel axes must stand before arbitrary ones")?,
            }
        }
        Ok(())
    }

    fn window(self, window: Attribute, ty: Type, grid: &[Type], scalars: &[Type]) -> Checked {
        let AttributeKind::Dictionary(entries) = self.m.attribute_kind(window) else {
            return Err(self.bad("window_params", "a list of dictionaries"));
        };
        let entry = |name: &str| entries.iter().find(|e| e.0 == name).map(|e| e.1);
        if let Some(mode) = entry("pipeline_mode")
            && PipelineMode::read(self.m, mode).is_none()
        {
            return Err(self.bad("window_params", "windows with known pipeline modes"));
        }
        let Some(transform) = entry("transform_indices") else {
            return Ok(());
        };
        let (shape, _) = self.as_memref("a window", ty)?;
        if let Some(bounds) = entry("window_bounds") {
            let bounds = self
                .m
                .integers(bounds)
                .ok_or_else(|| self.bad("window_params", "windows with lists of bounds"))?;
            self.count(
                "the rank of a window",
                shape.len() as i64,
                bounds.len() as i64,
            )?;
            for (&size, &bound) in shape.iter().zip(&bounds) {
                self.count("the size of a window", size, bound)?;
            }
        }
        let AttributeKind::Symbol(name) = self.m.attribute_kind(transform) else {
            return Err(self.bad("window_params", "windows with names of functions"));
        };
        let function = self
            .m
            .function(name)
            .ok_or_else(|| Problem::NoFunction { name: name.clone() })?;
        let (inputs, results) = Check {
            m: self.m,
            op: function,
        }
        .function_type()?;
        let what = "the number of arguments of a window's function";
        self.count(
            what,
            (grid.len() + scalars.len()) as i64,
            inputs.len() as i64,
        )?;
        for (&expected, &found) in grid.iter().chain(scalars).zip(inputs) {
            self.same_type("an argument of a window's function", expected, found)?;
        }
        let what = "the number of results of a window's function";
        self.count(what, shape.len() as i64, results.len() as i64)?;
        for &t in results {
            let fits = self.is_int(t, 32) || matches!(self.m.type_kind(t), TypeKind::Index);
            self.type_must(fits, "a result of a window's function", "i32", t)?;
        }
        Ok(())
    }
}
