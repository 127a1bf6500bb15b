//! The attributes of the TPU dialect that kernels depend on, as Rust types.
//!
//! In the module they are names with text (`#tpu.memory_space<vmem>`); here they are read from and
//! written to that text. Reading returns none for what is not the attribute or not known.

use super::ir::{Attribute, Module, Type};
use super::types::{AttributeKind, TypeKind};

macro_rules! keywords {
    ($(#[$doc:meta])* $name:ident = $attribute:literal {
        $($(#[$case_doc:meta])* $case:ident = $text:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$case_doc])* $case,)* }

        impl $name {
            /// The word in the text.
            pub fn text(self) -> &'static str {
                match self { $(Self::$case => $text,)* }
            }

            /// The value of an attribute.
            pub fn read(module: &Module, attribute: Attribute) -> Option<Self> {
                match dialect(module, attribute, $attribute)? {
                    $($text => Some(Self::$case),)*
                    _ => None,
                }
            }

            /// The attribute.
            pub fn write(self, module: &mut Module) -> Attribute {
                make(module, $attribute, self.text().into())
            }
        }
    };
}

keywords! {
    /// Where a memref lives.
    MemorySpace = "tpu.memory_space" {
        /// Anywhere, usually HBM.
        Any = "any",
        /// Vector memory.
        Vmem = "vmem",
        /// Scalar memory.
        Smem = "smem",
        /// High-bandwidth memory.
        Hbm = "hbm",
        /// The common memory of v4.
        Cmem = "cmem",
        /// Semaphores.
        Semaphore = "semaphore_mem",
        /// Vector memory shared by the subcores of a SparseCore.
        VmemShared = "vmem_shared",
        /// Memory of the host.
        Host = "host",
    }
}

keywords! {
    /// How the steps of a grid axis may be ordered.
    DimensionSemantics = "tpu.dimension_semantics" {
        /// In any order, on any core.
        Parallel = "parallel",
        /// In order.
        Arbitrary = "arbitrary",
        /// One step on each core.
        CoreParallel = "core_parallel",
        /// One step on each subcore.
        SubcoreParallel = "subcore_parallel",
    }
}

keywords! {
    /// How many buffers a window has.
    PipelineMode = "tpu.pipeline_mode" {
        /// One.
        Synchronous = "synchronous",
        /// Two.
        DoubleBuffered = "double_buffered",
    }
}

keywords! {
    /// How the products of a matrix multiplication are rounded.
    ContractPrecision = "tpu.contract_precision" {
        /// Operands rounded to bf16.
        Bf16 = "bf16",
        /// Six passes of bf16, about f32.
        Fp32 = "fp32",
        /// Three passes of bf16.
        Bf16x3 = "bf16x3",
    }
}

keywords! {
    /// What a function runs on.
    CoreType = "tpu.core_type" {
        /// The TensorCore.
        TensorCore = "tc",
        /// The scalar core of a SparseCore.
        ScalarSubcore = "sc_scalar_subcore",
        /// The vector cores of a SparseCore.
        VectorSubcore = "sc_vector_subcore",
    }
}

keywords! {
    /// What a reduction along lanes or sublanes computes.
    ReductionKind = "tpu.reduction_kind" {
        /// Sum.
        Sum = "sum",
        /// Largest; deprecated for the typed ones.
        Max = "max",
        /// Smallest; deprecated for the typed ones.
        Min = "min",
        /// Largest float.
        MaxF = "maxf",
        /// Smallest float.
        MinF = "minf",
        /// Largest signed integer.
        MaxSI = "maxsi",
        /// Smallest signed integer.
        MinSI = "minsi",
        /// Largest unsigned integer.
        MaxUI = "maxui",
        /// Smallest unsigned integer.
        MinUI = "minui",
        /// Index of the largest.
        ArgMax = "arg_max",
        /// Index of the smallest.
        ArgMin = "arg_min",
        /// Index of the first set bit.
        FindFirstSet = "find_first_set",
    }
}

keywords! {
    /// What `vector.multi_reduction` computes.
    VectorKind = "vector.kind" {
        /// Sum.
        Add = "add",
        /// Product.
        Mul = "mul",
        /// Largest float, NaN if there is one.
        MaximumF = "maximumf",
        /// Smallest float, NaN if there is one.
        MinimumF = "minimumf",
        /// Largest signed integer.
        MaxSI = "maxsi",
        /// Smallest signed integer.
        MinSI = "minsi",
        /// Largest unsigned integer.
        MaxUI = "maxui",
        /// Smallest unsigned integer.
        MinUI = "minui",
        /// Bits set in all.
        And = "and",
        /// Bits set in any.
        Or = "or",
        /// Bits set in an odd number.
        Xor = "xor",
    }
}

fn dialect<'m>(module: &'m Module, attribute: Attribute, wanted: &str) -> Option<&'m str> {
    match module.attribute_kind(attribute) {
        AttributeKind::Dialect { name, body } if name == wanted => body.as_deref(),
        _ => None,
    }
}

fn make(module: &mut Module, name: &str, body: String) -> Attribute {
    module.attribute(AttributeKind::Dialect {
        name: name.into(),
        body: Some(body),
    })
}

/// Which dimensions of the operands of a matrix product meet where:
/// `#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct DotDimensionNumbers {
    /// Contracting dimensions of the left operand.
    pub lhs_contracting: Vec<i64>,
    /// Contracting dimensions of the right operand.
    pub rhs_contracting: Vec<i64>,
    /// Dimensions of the left operand that remain.
    pub lhs_remaining: Vec<i64>,
    /// Dimensions of the right operand that remain.
    pub rhs_remaining: Vec<i64>,
    /// Pairs (operand, dimension) of the dimensions of the result, flattened.
    pub output_order: Vec<i64>,
    /// Batch dimensions of the left operand.
    pub lhs_batch: Vec<i64>,
    /// Batch dimensions of the right operand.
    pub rhs_batch: Vec<i64>,
}

impl DotDimensionNumbers {
    /// For two matrices, contracting dimension `lhs` of the left with `rhs` of the right.
    ///
    /// | | `lhs` | `rhs` |
    /// |---|---|---|
    /// | `x w` | 1 | 0 |
    /// | `x w^T` | 1 | 1 |
    /// | `x^T w` | 0 | 0 |
    pub fn matrices(lhs: i64, rhs: i64) -> Self {
        Self {
            lhs_contracting: vec![lhs],
            rhs_contracting: vec![rhs],
            lhs_remaining: vec![1 - lhs],
            rhs_remaining: vec![1 - rhs],
            output_order: vec![0, 1 - lhs, 1, 1 - rhs],
            lhs_batch: Vec::new(),
            rhs_batch: Vec::new(),
        }
    }

    fn lists(&self) -> [&Vec<i64>; 7] {
        [
            &self.lhs_contracting,
            &self.rhs_contracting,
            &self.lhs_remaining,
            &self.rhs_remaining,
            &self.output_order,
            &self.lhs_batch,
            &self.rhs_batch,
        ]
    }

    /// The value of an attribute.
    pub fn read(module: &Module, attribute: Attribute) -> Option<Self> {
        let lists = int_lists(dialect(module, attribute, "tpu.dot_dimension_numbers")?)?;
        let [a, b, c, d, e, f, g] = <[Vec<i64>; 7]>::try_from(lists).ok()?;
        Some(Self {
            lhs_contracting: a,
            rhs_contracting: b,
            lhs_remaining: c,
            rhs_remaining: d,
            output_order: e,
            lhs_batch: f,
            rhs_batch: g,
        })
    }

    /// The attribute.
    pub fn write(&self, module: &mut Module) -> Attribute {
        let lists: Vec<_> = self.lists().iter().map(|l| format!("{l:?}")).collect();
        make(module, "tpu.dot_dimension_numbers", lists.join(", "))
    }
}

/// A window in elements instead of blocks: `#tpu.element_window<[0, 0], [0, 0]>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ElementWindow {
    /// Elements added before, for each dimension.
    pub pad_low: Vec<i64>,
    /// Elements added after.
    pub pad_high: Vec<i64>,
}

impl ElementWindow {
    /// The value of an attribute.
    pub fn read(module: &Module, attribute: Attribute) -> Option<Self> {
        let lists = int_lists(dialect(module, attribute, "tpu.element_window")?)?;
        let [pad_low, pad_high] = <[Vec<i64>; 2]>::try_from(lists).ok()?;
        Some(Self { pad_low, pad_high })
    }

    /// The attribute.
    pub fn write(&self, module: &mut Module) -> Attribute {
        make(
            module,
            "tpu.element_window",
            format!("{:?}, {:?}", self.pad_low, self.pad_high),
        )
    }
}

/// How a memref is laid out in tiles: `#tpu.tiled<(8,128),[2,1]>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Tiled {
    /// Sizes of the tiles, outermost first.
    pub tiles: Vec<Vec<i64>>,
    /// Strides of the dimensions in tiles.
    pub strides: Vec<i64>,
}

impl Tiled {
    /// The value of an attribute.
    pub fn read(module: &Module, attribute: Attribute) -> Option<Self> {
        let body = dialect(module, attribute, "tpu.tiled")?;
        let at = body.find('[')?;
        let (tiles, strides) = body.split_at(at);
        let tiles = int_lists(&tiles.replace('(', "[").replace(')', "]"))?;
        let [strides] = <[Vec<i64>; 1]>::try_from(int_lists(strides)?).ok()?;
        Some(Self { tiles, strides })
    }

    /// The attribute.
    pub fn write(&self, module: &mut Module) -> Attribute {
        let list = |l: &[i64]| {
            l.iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(",")
        };
        let tiles: String = self
            .tiles
            .iter()
            .map(|t| format!("({})", list(t)))
            .collect();
        make(
            module,
            "tpu.tiled",
            format!("{tiles},[{}]", list(&self.strides)),
        )
    }
}

/// The memory space of a memref type.
pub fn memory_space(module: &Module, ty: Type) -> Option<MemorySpace> {
    match module.type_kind(ty) {
        TypeKind::Memref {
            space: Some(space), ..
        } => MemorySpace::read(module, *space),
        _ => None,
    }
}

/// The numbers of `[1, 2], [3]`.
fn int_lists(text: &str) -> Option<Vec<Vec<i64>>> {
    let mut lists = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        if rest.is_empty() {
            break;
        }
        let (inner, after) = rest.strip_prefix('[')?.split_once(']')?;
        let inner = inner.trim();
        lists.push(if inner.is_empty() {
            Vec::new()
        } else {
            inner
                .split(',')
                .map(|n| n.trim().parse().ok())
                .collect::<Option<_>>()?
        });
        rest = after.trim_start();
    }
    Some(lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_survive_reading_and_writing() {
        let mut m = Module::new(None);
        let dot = DotDimensionNumbers::matrices(1, 0);
        let a = dot.write(&mut m);
        let text = "#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>";
        assert_eq!(m.attribute_text(a), text);
        assert_eq!(DotDimensionNumbers::read(&m, a), Some(dot));
        let tiled = Tiled {
            tiles: vec![vec![8, 128], vec![2, 1]],
            strides: vec![4, 1],
        };
        let a = tiled.write(&mut m);
        assert_eq!(m.attribute_text(a), "#tpu.tiled<(8,128)(2,1),[4,1]>");
        assert_eq!(Tiled::read(&m, a), Some(tiled));
        let window = ElementWindow {
            pad_low: vec![0, 0],
            pad_high: vec![0, 3],
        };
        let a = window.write(&mut m);
        assert_eq!(ElementWindow::read(&m, a), Some(window));
        let a = MemorySpace::Semaphore.write(&mut m);
        assert_eq!(MemorySpace::read(&m, a), Some(MemorySpace::Semaphore));
        assert_eq!(DimensionSemantics::read(&m, a), None);
    }
}
