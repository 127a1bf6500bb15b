//! Loads, stores, parts of memory, copies, semaphores.

use super::vector::elements;
use super::{Check, Checked, Problem};
use crate::mosaic::ir::{Type, Value};
use crate::mosaic::syntax;
use crate::mosaic::tpu::{MemorySpace, memory_space};
use crate::mosaic::types::{DYNAMIC, TypeKind};

/// Shape and element type.
type Shaped<'m> = (&'m [i64], Type);

impl<'m> Check<'m> {
    pub(super) fn memory(self) -> Checked {
        match self.name() {
            "vector.load" | "tpu.strided_load" => {
                self.access(0, 1.., self.result_type()?)?;
                self.strides()
            }
            "vector.store" | "tpu.strided_store" => {
                self.access(1, 2.., self.operand_type(0)?)?;
                self.strides()
            }
            "tpu.vector_load" => self.masked(0, 1, 2),
            "tpu.vector_store" => self.masked(1, 2, 3),
            "memref.load" => self.scalar(0, 1.., self.result_type()?),
            "memref.store" => self.scalar(1, 2.., self.operand_type(0)?),
            "memref.alloca" | "memref.alloc" => self
                .as_memref("the result", self.result_type()?)
                .map(|_| ()),
            "tpu.memref_slice" => self.slice(),
            "tpu.memref_squeeze" => self.squeeze(),
            "tpu.memref_reshape" => {
                let ((from, a), (to, b)) = self.memrefs()?;
                self.same_type("the element type", a, b)?;
                self.count("the number of elements", elements(from), elements(to))
            }
            "tpu.memref_bitcast" => self.memref_bitcast(),
            "tpu.enqueue_dma" => self.copy(true),
            "tpu.wait_dma" => self.copy(false),
            "tpu.sem_wait" | "tpu.sem_signal" => {
                self.semaphore(self.operand_type(0)?, false)?;
                let amount = self.operand_type(1)?;
                self.type_must(self.is_int(amount, 32), "the amount", "i32", amount)
            }
            "tpu.sem_read" => {
                let ty = self.result_type()?;
                self.type_must(self.is_int(ty, 32), "the result", "i32", ty)
            }
            _ => Ok(()),
        }
    }

    /// The operand groups as the operation declares them.
    fn groups(self) -> Result<Vec<Vec<Value>>, Problem> {
        let operands = self.operands().len();
        syntax::syntax(self.name())
            .and_then(|s| s.split(self.m, self.op))
            .ok_or(Problem::Operands { operands })
    }

    /// That there is one index of type `index` for each dimension.
    fn indices(self, shape: &[i64], indices: &[Value]) -> Checked {
        self.count(
            "the number of indices",
            shape.len() as i64,
            indices.len() as i64,
        )?;
        for &i in indices {
            let ty = self.m.value_type(i);
            let index = *self.m.type_kind(ty) == TypeKind::Index;
            self.type_must(index, "an index", "index", ty)?;
        }
        Ok(())
    }

    /// A vector against the memref at one operand, with indices from another on.
    fn access(self, memref: usize, indices: std::ops::RangeFrom<usize>, vector: Type) -> Checked {
        let (shape, element) = self.as_memref("the memory", self.operand_type(memref)?)?;
        let (sizes, e) = self.as_vector("the value", vector)?;
        self.same_type("the element type", element, e)?;
        self.indices(shape, &self.operands()[indices])?;
        self.rule(
            sizes.len() <= shape.len(),
            "the vector has more dimensions than the memory",
        )
    }

    fn strides(self) -> Checked {
        if !self.name().starts_with("tpu.strided") {
            return Ok(());
        }
        let (shape, _) = match self.name() {
            "tpu.strided_load" => self.as_memref("the memory", self.operand_type(0)?)?,
            _ => self.as_memref("the memory", self.operand_type(1)?)?,
        };
        let strides = self.integers("strides")?;
        self.count(
            "the number of strides",
            shape.len() as i64,
            strides.len() as i64,
        )?;
        self.rule(strides.iter().all(|&s| s > 0), "strides must be positive")
    }

    /// `tpu.vector_load` and `tpu.vector_store`: operand groups of memory, indices, mask.
    fn masked(self, memref: usize, indices: usize, mask: usize) -> Checked {
        let groups = self.groups()?;
        let ty = self.m.value_type(groups[memref][0]);
        let (shape, element) = self.as_memref("the memory", ty)?;
        let vmem = memory_space(self.m, ty).is_none_or(|s| s == MemorySpace::Vmem);
        self.type_must(vmem, "the memory", "in VMEM", ty)?;
        let vector = if memref == 0 {
            self.result_type()?
        } else {
            self.operand_type(0)?
        };
        let (sizes, e) = self.as_vector("the value", vector)?;
        self.same_type("the element type", element, e)?;
        self.indices(shape, &groups[indices])?;
        self.rule(
            sizes.len() <= shape.len(),
            "the vector has more dimensions than the memory",
        )?;
        self.rule(
            self.integers("strides")?.is_empty(),
            "strides must be empty",
        )?;
        if let Some(&mask) = groups[mask].first() {
            let ty = self.m.value_type(mask);
            let (s, bit) = self.as_vector("the mask", ty)?;
            self.type_must(self.is_int(bit, 1), "the mask", "a vector of i1", ty)?;
            self.rule(s == sizes, "the mask must have the shape of the value")?;
            self.rule(
                self.bits(element) == Some(32),
                "only 32-bit values can be masked",
            )?;
        }
        Ok(())
    }

    fn scalar(self, memref: usize, indices: std::ops::RangeFrom<usize>, ty: Type) -> Checked {
        let (shape, element) = self.as_memref("the memory", self.operand_type(memref)?)?;
        self.same_type("the value", element, ty)?;
        self.indices(shape, &self.operands()[indices])
    }

    /// Shape and element type of the first operand and the result, in the same space.
    fn memrefs(self) -> Result<(Shaped<'m>, Shaped<'m>), Problem> {
        let (from, to) = (self.operand_type(0)?, self.result_type()?);
        let parts = (
            self.as_memref("the operand", from)?,
            self.as_memref("the result", to)?,
        );
        let spaces = (memory_space(self.m, from), memory_space(self.m, to));
        self.type_must(
            spaces.0 == spaces.1,
            "the result",
            "in the same memory space",
            to,
        )?;
        Ok(parts)
    }

    fn slice(self) -> Checked {
        let ((from, a), (to, b)) = self.memrefs()?;
        self.same_type("the element type", a, b)?;
        self.rule(
            !from.contains(&DYNAMIC),
            "the source must have a fixed shape",
        )?;
        let groups = self.groups()?;
        self.count(
            "the number of indices",
            from.len() as i64,
            groups[1].len() as i64,
        )?;
        self.count("the rank of the result", from.len() as i64, to.len() as i64)?;
        let dynamic = to.iter().filter(|&&n| n == DYNAMIC).count() as i64;
        self.count("the number of sizes", dynamic, groups[2].len() as i64)?;
        for &v in groups[1].iter().chain(&groups[2]) {
            let ty = self.m.value_type(v);
            self.type_must(self.is_int(ty, 32), "an index or size", "i32", ty)?;
        }
        let inside = from
            .iter()
            .zip(to)
            .all(|(&n, &part)| part == DYNAMIC || part <= n);
        self.type_must(
            inside,
            "the result",
            "no larger than the source",
            self.result_type()?,
        )
    }

    fn squeeze(self) -> Checked {
        let ((from, a), (to, b)) = self.memrefs()?;
        self.same_type("the element type", a, b)?;
        // The result is what remains when some dimensions of size 1 are left out.
        let mut rest = to.iter().peekable();
        let kept = from
            .iter()
            .all(|n| rest.next_if_eq(&n).is_some() || *n == 1);
        let gone = kept && rest.next().is_none();
        self.type_must(
            gone,
            "the result",
            "the operand without dimensions of 1",
            self.result_type()?,
        )
    }

    fn memref_bitcast(self) -> Checked {
        let ((from, a), (to, b)) = self.memrefs()?;
        self.count("the rank of the result", from.len() as i64, to.len() as i64)?;
        let bits = |shape: &[i64], element: Type| {
            self.bits(element)
                .map_or(0, |w| elements(shape).saturating_mul(i64::from(w)))
        };
        self.count("the number of bits", bits(from, a), bits(to, b))
    }

    /// A semaphore of rank 0, of the kind for copies if `dma`.
    fn semaphore(self, ty: Type, dma: bool) -> Checked {
        let (shape, element) = self.as_memref("the semaphore", ty)?;
        self.count("the rank of the semaphore", 0, shape.len() as i64)?;
        let kind = self.m.type_kind(element);
        let fits = match dma {
            true => matches!(kind, TypeKind::DmaSemaphore | TypeKind::Semaphore),
            false => *kind == TypeKind::Semaphore,
        };
        self.type_must(fits, "the semaphore", "a semaphore of the right kind", ty)
    }

    /// `tpu.enqueue_dma` (`starts`) and `tpu.wait_dma`.
    fn copy(self, starts: bool) -> Checked {
        let groups = self.groups()?;
        let ty = |g: usize| groups[g].first().map(|&v| self.m.value_type(v));
        let (Some(source), Some(target)) = (ty(0), ty(2)) else {
            return Err(Problem::Operands {
                operands: self.operands().len(),
            });
        };
        let needed = if starts { ty(3) } else { ty(3).or(ty(1)) };
        self.rule(needed.is_some(), "a copy needs a semaphore")?;
        for semaphore in [ty(1), ty(3)].into_iter().flatten() {
            self.semaphore(semaphore, true)?;
        }
        let ((from, a), (to, b)) = (
            self.as_memref("the source", source)?,
            self.as_memref("the target", target)?,
        );
        if !starts {
            return Ok(());
        }
        self.same_type("the element type of the target", a, b)?;
        if from != to {
            return Err(self.wrong_type("the target", "of the shape of the source", target));
        }
        let remote = !groups[4].is_empty() || !groups[5].is_empty();
        self.rule(
            groups[4].is_empty() || !groups[1].is_empty(),
            "a copy to another device needs a source semaphore",
        )?;
        self.rule(
            remote || groups[1].is_empty(),
            "a source semaphore is for copies to another device or core",
        )?;
        let priority = self.integer("priority")?;
        if !(0..=1).contains(&priority) {
            return Err(self.bad("priority", "0 or 1"));
        }
        self.rule(
            priority == 0 || groups[4].is_empty(),
            "copies to other devices have no priority",
        )
    }
}
