//! How operations are written, as data.
//!
//! Most operations have a custom form that is a pattern: operands, attributes and types between
//! fixed punctuation. One pattern per operation serves the printer and the parser, so the two
//! cannot disagree. A pattern is what is printed after the name of the operation, literally, with
//! these placeholders:
//!
//! | placeholder | stands for |
//! |---|---|
//! | `$0` | the operands of group 0, separated by commas |
//! | `T0` | their types |
//! | `R` | the types of the results |
//! | `?1(...)` | what is inside, if group 1 has operands |
//! | `{a}` | the attributes that nothing else in the pattern shows, as a dictionary, if any |
//! | `{i:name}` `{si:name}` | an `i32` or `si32` attribute, the number alone |
//! | `{l:name}` `{l32:name}` | a dense `i64` or `i32` array, as `[1, 0]` |
//! | `{ar:name}` | an array attribute |
//! | `{s:name}` | a string attribute |
//! | `{k:name}` | a `#vector.kind`, as `<add>` |
//! | `{fm}` `{of}` | ` fastmath<...>` and ` overflow<...>`, if set |
//! | `{pi}` `{pf}` | the predicate of an integer or float comparison |
//! | `{v}` | the attribute `value` with its type |
//! | `{sel}` | the types of a select: the condition's only if it is a vector |
//!
//! Operands fall into groups in the order the dialect declares them: one (`1`), any number (`*`) or
//! at most one (`?`). Where more than one group can vary, the attribute `operandSegmentSizes` holds
//! their sizes. Attributes with a default are present in the module even when the text leaves them
//! out. Patterns are stated after the `assemblyFormat` declarations of jaxlib's `tpu_ops.td` and
//! checked against what jaxlib 0.12.0.1 prints.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use super::ir::{Attribute, Module, Name, Op, OpParts, Value};
use super::types::{AttributeKind, Signedness, TypeKind};

/// How the types of the results follow, if the pattern does not list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Results {
    /// No results.
    None,
    /// Listed where the pattern says `R`.
    Listed,
    /// One, of the type of the first operand of a group.
    Same(usize),
    /// One, `i1` in the shape of the first operand.
    Bool,
    /// One, the element type of the first operand.
    Element,
}

/// The value of an attribute that the text may leave out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Default {
    Bool(bool),
    I32(i64),
    Dialect(&'static str, &'static str),
}

/// The custom form of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syntax {
    pub(super) groups: &'static str,
    pub(super) segments: bool,
    pub(super) results: Results,
    pub(super) pattern: &'static str,
    pub(super) defaults: Defaults,
}

/// Attributes that the text may leave out, and their values.
pub(super) type Defaults = &'static [(&'static str, Default)];

type Family = (&'static [&'static str], Syntax);

const FASTMATH: Defaults = &[("fastmath", Default::Dialect("arith.fastmath", "none"))];
const OVERFLOW: Defaults = &[("overflowFlags", Default::Dialect("arith.overflow", "none"))];
const NONE: Defaults = &[];
const DMA: &str = " source($0 : T0) target($2 : T2)?1( source_semaphore($1 : T1))\
    ?3( target_semaphore($3 : T3))?4( device_id($4))?5( core_id($5))?6( subcore_id($6)){a}";

const fn form(groups: &'static str, results: Results, pattern: &'static str) -> Syntax {
    Syntax {
        groups,
        segments: false,
        results,
        pattern,
        defaults: NONE,
    }
}

const fn with(syntax: Syntax, defaults: Defaults) -> Syntax {
    Syntax { defaults, ..syntax }
}

const fn segmented(syntax: Syntax) -> Syntax {
    Syntax {
        segments: true,
        ..syntax
    }
}

const CAST: Syntax = form("1", Results::Listed, " $0{a} : T0 to R");
const TPU_CAST: Syntax = form("1", Results::Listed, " $0{a} : T0 -> R");
const NULLARY: Syntax = form("", Results::Listed, "{a} : R");
const TERMINATOR: Syntax = form("*", Results::None, "{a}?0( $0 : T0)");

#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    (&["arith.constant"], form("", Results::Listed, "{a} {v}")),
    (&["arith.addi", "arith.subi", "arith.muli", "arith.shli"],
     with(form("11", Results::Same(0), " $0, $1{of}{a} : T0"), OVERFLOW)),
    (&["arith.andi", "arith.ori", "arith.xori", "arith.divsi", "arith.divui", "arith.remsi",
       "arith.remui", "arith.ceildivsi", "arith.ceildivui", "arith.floordivsi", "arith.maxsi",
       "arith.maxui", "arith.minsi", "arith.minui", "arith.shrsi", "arith.shrui"],
     form("11", Results::Same(0), " $0, $1{a} : T0")),
    (&["arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.remf", "arith.maximumf",
       "arith.minimumf", "arith.maxnumf", "arith.minnumf", "math.powf", "math.atan2",
       "math.copysign"],
     with(form("11", Results::Same(0), " $0, $1{fm}{a} : T0"), FASTMATH)),
    (&["arith.negf", "math.absf", "math.exp", "math.exp2", "math.expm1", "math.log", "math.log1p",
       "math.log2", "math.tanh", "math.sqrt", "math.rsqrt", "math.cbrt", "math.sin", "math.cos",
       "math.tan", "math.erf", "math.floor", "math.ceil", "math.round", "math.roundeven",
       "math.trunc"],
     with(form("1", Results::Same(0), " $0{fm}{a} : T0"), FASTMATH)),
    (&["math.absi", "math.ctlz", "math.cttz", "math.ctpop"],
     form("1", Results::Same(0), " $0{a} : T0")),
    (&["math.fma"], with(form("111", Results::Same(0), " $0, $1, $2{fm}{a} : T0"), FASTMATH)),
    (&["arith.extf", "arith.extsi", "arith.extui", "arith.truncf", "arith.sitofp", "arith.uitofp",
       "arith.fptosi", "arith.fptoui", "arith.index_cast", "arith.index_castui", "arith.bitcast",
       "vector.broadcast", "vector.shape_cast", "vector.bitcast", "memref.cast"], CAST),
    (&["arith.trunci"], with(form("1", Results::Listed, " $0{of}{a} : T0 to R"), OVERFLOW)),
    (&["arith.cmpi"], form("11", Results::Bool, " {pi}, $0, $1{a} : T0")),
    (&["arith.cmpf"], with(form("11", Results::Bool, " {pf}, $0, $1{fm}{a} : T0"), FASTMATH)),
    (&["arith.select"], form("111", Results::Same(1), " $0, $1, $2{a} : {sel}")),
    (&["vector.load"], form("1*", Results::Listed, " $0[$1]{a} : T0, R")),
    (&["vector.store"], form("11*", Results::None, " $0, $1[$2]{a} : T1, T0")),
    (&["memref.load"], form("1*", Results::Element, " $0[$1]{a} : T0")),
    (&["memref.store"], form("11*", Results::None, " $0, $1[$2]{a} : T1")),
    (&["memref.alloca", "memref.alloc"],
     segmented(form("**", Results::Listed, "($0)?1([$1]){a} : R"))),
    (&["vector.multi_reduction"],
     form("11", Results::Listed, " {k:kind}, $0, $1 {l:reduction_dims}{a} : T0 to R")),
    (&["vector.reduction"],
     with(form("1", Results::Listed, " {k:kind}, $0{fm}{a} : T0 into R"), FASTMATH)),
    (&["vector.extract_strided_slice"],
     form("1", Results::Listed, " $0 offsets = {ar:offsets}, sizes = {ar:sizes}, \
          strides = {ar:strides}{a} : T0 to R")),
    (&["vector.extract"],
     form("1", Results::Listed, " $0{l:static_position}{a} : R from T0")),
    (&["vector.fma"], form("111", Results::Same(0), " $0, $1, $2{a} : T0")),
    (&["cf.assert"], form("1", Results::None, " $0, {s:msg}{a}")),
    (&["func.return", "scf.yield", "tpu.yield"], TERMINATOR),
    (&["scf.condition"], form("1*", Results::None, "($0){a}?1( $1 : T1)")),
    (&["tpu.matmul"],
     with(form("111", Results::Listed, " $0, $1, $2{a} : T0, T1, T2 -> R"),
          &[("transpose_lhs", Default::Bool(false)), ("transpose_rhs", Default::Bool(false))])),
    (&["tpu.vector_load"],
     segmented(form("1*?", Results::Listed, " $0[$1]?2( masked $2){a} : T0, R, ?2(T2)"))),
    (&["tpu.vector_store"],
     segmented(with(form("11*?", Results::None,
                         " $1[$2], $0?3( masked $3){a} : T1, T0, ?3(T3)"),
                    &[("add", Default::Bool(false))]))),
    (&["tpu.strided_load", "tpu.shuffled_load"], form("1*", Results::Listed, " $0[$1]{a} : T0, R")),
    (&["tpu.strided_store", "tpu.shuffled_store"],
     form("11*", Results::None, " $1[$2], $0{a} : T1, T0")),
    (&["tpu.bitcast", "tpu.weird", "tpu.reshape", "tpu.memref_squeeze", "tpu.memref_reshape",
       "tpu.memref_bitcast", "tpu.assume_layout", "tpu.erase_memref_layout", "tpu.all_reduce",
       "tpu.reduce_index", "tpu.mask_cast", "tpu.relayout", "tpu.bitcast_vreg", "tpu.extf",
       "tpu.truncf", "tpu.sitofp", "tpu.uitofp", "tpu.fptosi", "tpu.fptoui", "tpu.sem_read"],
     TPU_CAST),
    (&["tpu.reciprocal"],
     with(TPU_CAST, &[("approx", Default::Bool(false)), ("full_range", Default::Bool(true))])),
    (&["tpu.iota", "tpu.sem_alloc", "tpu.sem_barrier", "tpu.device_id", "tpu.core_id",
       "tpu.subcore_id", "tpu.internal_scratch"],
     NULLARY),
    (&["tpu.iteration_bound"], form("", Results::Listed, " {i:dim}{a} : R")),
    (&["tpu.assume_multiple"], form("1", Results::Same(0), " $0, {i:multiple}{a} : T0")),
    (&["tpu.concatenate"], form("*", Results::Listed, " $0 in {i:dimension}{a} : T0 -> R")),
    (&["tpu.transpose"], form("1", Results::Listed, " $0, {l:permutation}{a} : T0 -> R")),
    (&["tpu.dynamic_rotate"],
     form("11", Results::Listed, " $0 by $1 dim {si:dimension}{a} : T0, T1 -> R")),
    (&["tpu.dynamic_gather"],
     form("11", Results::Listed, " $0[$1] in {l32:dimensions}{a} : T0, T1 -> R")),
    (&["tpu.broadcast_in_sublanes"], form("1", Results::Listed, " $0, {i:lane}{a} : T0 -> R")),
    (&["tpu.matmul_push_rhs"],
     with(form("1", Results::None, " $0{a} : T0"),
          &[("staging_register", Default::I32(0)), ("transpose", Default::Bool(false))])),
    (&["tpu.matmul_acc_lhs"], form("1", Results::None, " {i:acc}, $0{a} : T0")),
    (&["tpu.matmul_pop"], form("", Results::Listed, " {i:acc}{a} : R")),
    (&["tpu.pack_subelements", "tpu.pack_elementwise", "tpu.roll_vectors"],
     form("*", Results::Listed, " $0{a} : T0 -> R")),
    (&["tpu.unpack_subelements"],
     with(form("1", Results::Listed, " $0, {i:index}{a} : T0 -> R"),
          &[("integer_extended", Default::Bool(true)), ("unsigned_integers", Default::Bool(false))])),
    (&["tpu.unpack_elementwise"], form("1", Results::Listed, " $0, {i:index}{a} : T0 -> R")),
    (&["tpu.stochastic_convert", "tpu.stochastic_convert_elementwise"],
     form("11", Results::Listed, " $0, $1{a} : T0, T1 -> R")),
    (&["tpu.memref_slice"], segmented(form("1**", Results::Listed, " $0[$1]?2( <$2>){a} : T0 -> R"))),
    (&["tpu.enqueue_dma"],
     segmented(with(form("1?1????", Results::None, DMA),
                    &[("priority", Default::I32(0)), ("strict_ordering", Default::Bool(false))]))),
    (&["tpu.wait_dma"],
     segmented(with(form("1?1????", Results::None, DMA),
                    &[("priority", Default::I32(0)), ("strict_ordering", Default::Bool(false)),
                      ("wait_target", Default::Bool(false))]))),
    (&["tpu.wait_dma2"],
     segmented(with(form("111??", Results::None,
                         " semaphore($0 : T0) src($1 : T1) dst($2 : T2)\
                         ?3( device_id($3))?4( core_id($4)){a}"),
                    &[("strict_ordering", Default::Bool(false))]))),
    (&["tpu.sem_wait"], form("11", Results::None, " $0, $1{a} : T0")),
    (&["tpu.sem_signal"],
     segmented(form("11???", Results::None,
                    " $0, $1?2( device_id $2)?3( core_id $3)?4( subcore_id $4){a} : T0"))),
    (&["tpu.delay"], form("1", Results::None, " $0{a}")),
    (&["tpu.trace_value"], form("1", Results::None, " $0, {s:label}{a} : T0")),
];

/// The predicates of `arith.cmpi`, by number.
pub(super) const CMPI: [&str; 10] = [
    "eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge",
];

/// The predicates of `arith.cmpf`, by number.
pub(super) const CMPF: [&str; 16] = [
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule",
    "une", "uno", "true",
];

/// The custom form of an operation, if it has one that is a pattern.
pub(super) fn syntax(name: &str) -> Option<&'static Syntax> {
    static TABLE: OnceLock<FxHashMap<&'static str, &'static Syntax>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        FAMILIES
            .iter()
            .flat_map(|(names, s)| names.iter().map(move |&n| (n, s)))
            .collect()
    });
    table.get(name).copied()
}

impl Syntax {
    /// The names of attributes that the pattern shows outside of the dictionary.
    pub(super) fn shown(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for part in self.pattern.split('{').skip(1) {
            let inner = part.split('}').next().unwrap_or("");
            match inner.split_once(':') {
                Some((_, name)) => names.push(name),
                None => names.extend(match inner {
                    "fm" => Some("fastmath"),
                    "of" => Some("overflowFlags"),
                    "pi" | "pf" => Some("predicate"),
                    "v" => Some("value"),
                    _ => None,
                }),
            }
        }
        names
    }

    /// The operands of each group; none if the operation does not fit the declaration.
    pub(super) fn split(&self, module: &Module, op: Op) -> Option<Vec<Vec<Value>>> {
        let operands = module.operands(op);
        let sizes: Vec<usize> = if self.segments {
            let sizes = module.dense_array_of(op, "operandSegmentSizes", 32)?;
            sizes
                .iter()
                .map(|&n| usize::try_from(n).ok())
                .collect::<Option<_>>()?
        } else {
            let fixed = self.groups.bytes().filter(|&g| g == b'1').count();
            let rest = operands.len().checked_sub(fixed)?;
            self.groups
                .bytes()
                .map(|g| if g == b'1' { 1 } else { rest })
                .collect()
        };
        let fits = sizes.len() == self.groups.len()
            && sizes.iter().try_fold(0_usize, |a, &n| a.checked_add(n)) == Some(operands.len())
            && self.groups.bytes().zip(&sizes).all(|(g, &n)| match g {
                b'1' => n == 1,
                b'?' => n <= 1,
                _ => true,
            });
        let mut rest = operands.iter().copied();
        fits.then(|| {
            sizes
                .iter()
                .map(|&n| rest.by_ref().take(n).collect())
                .collect()
        })
    }
}

/// The default of an attribute as an attribute of the module.
pub(super) fn default_attribute(module: &mut Module, default: Default) -> Attribute {
    let mut known = module.defaults.iter();
    if let Some(&(_, attribute)) = known.find(|(known, _)| *known == default) {
        return attribute;
    }
    let kind = match default {
        Default::Bool(b) => AttributeKind::Bool(b),
        Default::I32(value) => {
            let ty = module.ty(TypeKind::Integer {
                width: 32,
                sign: Signedness::Signless,
            });
            AttributeKind::Integer { value, ty }
        }
        Default::Dialect(name, body) => AttributeKind::Dialect {
            name: name.into(),
            body: Some(body.into()),
        },
    };
    let attribute = module.attribute(kind);
    module.defaults.push((default, attribute));
    attribute
}

/// The attributes with defaults of operations of that name.
pub(super) fn defaults(name: &str) -> Defaults {
    syntax(name).map_or(NONE, |syntax| syntax.defaults)
}

/// Adds the attributes with defaults that are missing.
pub(super) fn add_defaults(module: &mut Module, name: Name, parts: &mut OpParts) {
    for &(attribute, default) in module.defaults_of(name) {
        if parts.attributes.iter().all(|a| a.0 != attribute) {
            let value = default_attribute(module, default);
            parts.attributes.push((attribute.into(), value));
        }
    }
}

/// Whether an attribute has its default value.
pub(super) fn is_default(module: &Module, default: Default, value: Attribute) -> bool {
    match (default, module.attribute_kind(value)) {
        (Default::Bool(b), AttributeKind::Bool(c)) => b == *c,
        (Default::I32(n), AttributeKind::Integer { value, ty }) => {
            n == *value && matches!(module.type_kind(*ty), TypeKind::Integer { width: 32, .. })
        }
        (Default::Dialect(n, b), AttributeKind::Dialect { name, body }) => {
            n == name && body.as_deref() == Some(b)
        }
        _ => false,
    }
}

/// Where the section `?0(...)` at the start of `pattern` ends: the place of its parenthesis.
pub(super) fn section_end(pattern: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (i, c) in pattern.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(i),
            ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}
