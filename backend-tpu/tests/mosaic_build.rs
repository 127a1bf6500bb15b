//! A kernel made with the builder: the blocked matrix product of `own_kernels.py`, operation by
//! operation, equals what Pallas lowers.

use std::fs;
use std::path::Path;

use tilecast_tpu::mosaic::tpu::{
    CoreType, DimensionSemantics, DotDimensionNumbers, MemorySpace, PipelineMode,
};
use tilecast_tpu::mosaic::{Attribute, AttributeKind, Builder, FloatKind, Module, Op, Type, Value};

/// `if axis == at`, as Pallas writes it: through an `i32`.
fn when_at(b: &mut Builder, axis: Value, at: i64, body: impl FnOnce(&mut Builder)) {
    let i32_type = b.int_type(32);
    let at = b.int(at, 32);
    let equal = b.cmpi("eq", axis, at);
    let wide = b.cast("arith.extui", equal, i32_type);
    let zero = b.int(0, 32);
    let condition = b.cmpi("ne", wide, zero);
    b.when(condition, body);
}

/// Stores to a whole memref, as Pallas writes it: after a load of what was there.
fn store(b: &mut Builder, value: Value, memref: Value, ty: Type, casts: bool) {
    let indices = [b.index(0), b.index(0)];
    let old = b.load_at(memref, &indices, ty);
    let mut value = value;
    if casts {
        b.cast("vector.shape_cast", old, ty);
        value = b.cast("vector.shape_cast", value, ty);
    }
    b.store_at(value, memref, &indices, None);
}

fn dictionary(b: &mut Builder, mut entries: Vec<(&str, Attribute)>) -> Attribute {
    entries.sort_by_key(|e| e.0);
    let entries = entries
        .into_iter()
        .map(|(n, v)| (n.to_owned().into(), v))
        .collect();
    b.module_mut().attribute(AttributeKind::Dictionary(entries))
}

fn kernel(b: &mut Builder) -> Op {
    let i32_type = b.int_type(32);
    let [f32_type, bf16] = [b.float_type(FloatKind::F32), b.float_type(FloatKind::BF16)];
    let wide = b.vector_type(&[128, 128], f32_type);
    let narrow = b.vector_type(&[128, 128], bf16);
    let window = b.memref_type(&[128, 128], bf16, MemorySpace::Vmem);
    let scratch = b.memref_type(&[128, 128], f32_type, MemorySpace::Vmem);
    let inputs = [
        i32_type, i32_type, i32_type, window, window, window, scratch,
    ];
    b.function("kernel", &inputs, &[], |b, arguments| {
        let &[_, _, k, x, w, o, acc] = arguments else {
            unreachable!()
        };
        when_at(b, k, 0, |b| {
            let zero = b.float(0.0, FloatKind::F32);
            let zeros = b.broadcast(zero, wide);
            store(b, zeros, acc, wide, true);
        });
        let [sum, lhs, rhs] = [(acc, wide), (x, narrow), (w, narrow)].map(|(m, t)| b.load(m, t));
        let zeros = b.splat(0.0, wide);
        let product = b.matmul(lhs, rhs, zeros, &DotDimensionNumbers::matrices(1, 0), None);
        let sum = b.binary("arith.addf", sum, product);
        store(b, sum, acc, wide, true);
        when_at(b, k, 1, |b| {
            let sum = b.load(acc, wide);
            let rounded = b.cast("arith.truncf", sum, narrow);
            store(b, rounded, o, narrow, false);
        });
        Vec::new()
    })
}

fn build() -> Module {
    let mut b = Builder::new("kernel");
    let op = kernel(&mut b);
    let i32_type = b.int_type(32);
    let mut windows = Vec::new();
    for (i, axes) in [[0, 2], [2, 1], [0, 1]].into_iter().enumerate() {
        let name = format!("transform_{i}");
        b.function(&name, &[i32_type; 3], &[i32_type; 2], |b, grid| {
            b.int(0, 32);
            axes.map(|a| grid[a]).to_vec()
        });
        let transform = b.module_mut().attribute(AttributeKind::Symbol(name));
        let bounds = b.dense_array(64, vec![128, 128]);
        let mut entries = vec![("transform_indices", transform), ("window_bounds", bounds)];
        if i == 1 {
            entries.push((
                "pipeline_mode",
                PipelineMode::Synchronous.write(b.module_mut()),
            ));
        }
        windows.push(dictionary(&mut b, entries));
    }
    use DimensionSemantics::{Arbitrary, Parallel};
    let semantics = [Parallel, Parallel, Arbitrary]
        .map(|s| s.write(b.module_mut()))
        .to_vec();
    let bounds = b.dense_array(64, vec![2, 2, 2]);
    let [none, one] = [b.i64_attribute(0), b.i64_attribute(1)];
    let m = b.module_mut();
    let semantics = m.attribute(AttributeKind::Array(semantics));
    let windows = m.attribute(AttributeKind::Array(windows));
    let core = CoreType::TensorCore.write(m);
    for (name, value) in [
        ("dimension_semantics", semantics),
        ("iteration_bounds", bounds),
        ("scalar_prefetch", none),
        ("scratch_operands", one),
        ("tpu.core_type", core),
        ("window_params", windows),
    ] {
        m.set_attribute(op, name, value);
    }
    b.finish()
}

#[test]
fn the_builder_makes_what_pallas_lowers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tiled_matmul.mlir");
    let text = fs::read_to_string(path).unwrap();
    let built = build();
    assert_eq!(built.verify(), Ok(()));
    assert_eq!(built.to_pretty(), text);
    assert_eq!(built, Module::parse(&text).unwrap());
}

#[test]
fn emission_is_deterministic() {
    assert_eq!(build().to_stable(18), build().to_stable(18));
}

#[test]
fn loops_and_branches_carry_values() {
    let mut b = Builder::new("loops");
    let i32_type = b.int_type(32);
    b.function("f", &[i32_type], &[i32_type], |b, arguments| {
        let n = arguments[0];
        let [zero, one] = [b.int(0, 32), b.int(1, 32)];
        b.scf_for([zero, n, one], &[zero], |b, i, carried| {
            let odd = b.binary("arith.andi", i, one);
            let is_odd = b.cmpi("ne", odd, zero);
            b.scf_if(
                is_odd,
                &[i32_type],
                |b| vec![b.binary("arith.addi", carried[0], i)],
                |_| vec![carried[0]],
            )
        })
    });
    let module = b.finish();
    assert_eq!(module.verify(), Ok(()));
    let text = "\
module @loops {
  func.func @f(%arg0: i32) -> i32 {
    %c0_i32 = arith.constant 0 : i32
    %c1_i32 = arith.constant 1 : i32
    %0 = scf.for %arg1 = %c0_i32 to %arg0 step %c1_i32 iter_args(%arg2 = %c0_i32) -> (i32)  : i32 {
      %1 = arith.andi %arg1, %c1_i32 : i32
      %2 = arith.cmpi ne, %1, %c0_i32 : i32
      %3 = scf.if %2 -> (i32) {
        %4 = arith.addi %arg2, %arg1 : i32
        scf.yield %4 : i32
      } else {
        scf.yield %arg2 : i32
      }
      scf.yield %3 : i32
    }
    return %0 : i32
  }
}
";
    assert_eq!(module.to_pretty(), text);
    assert_eq!(Module::parse(text).unwrap(), module);
}
