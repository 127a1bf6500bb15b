"builtin.module"() <{sym_name = "kernel"}> ({
  "func.func"() <{function_type = (memref<2xi32, #tpu.memory_space<smem>>, memref<8x128xf32, #tpu.memory_space<vmem>>, memref<8x128xf32, #tpu.memory_space<vmem>>) -> (), sym_name = "kernel"}> ({
  ^bb0(%arg0: memref<2xi32, #tpu.memory_space<smem>>, %arg1: memref<8x128xf32, #tpu.memory_space<vmem>>, %arg2: memref<8x128xf32, #tpu.memory_space<vmem>>):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 0 : index}> : () -> index
    %2 = "vector.load"(%arg1, %0, %1) : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>
    %3 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %4 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
    %5:3 = "scf.while"(%3, %4, %2) ({
    ^bb0(%arg6: i32, %arg7: f32, %arg8: vector<8x128xf32>):
      %32 = "arith.constant"() <{value = 0 : index}> : () -> index
      %33 = "memref.load"(%arg0, %32) : (memref<2xi32, #tpu.memory_space<smem>>, index) -> i32
      %34 = "arith.cmpi"(%arg6, %33) <{predicate = 2 : i64}> : (i32, i32) -> i1
      %35 = "arith.constant"() <{value = 1.000000e+02 : f32}> : () -> f32
      %36 = "arith.cmpf"(%arg7, %35) <{fastmath = #arith.fastmath<none>, predicate = 4 : i64}> : (f32, f32) -> i1
      %37 = "arith.andi"(%34, %36) : (i1, i1) -> i1
      "scf.condition"(%37, %arg6, %arg7, %arg8) : (i1, i32, f32, vector<8x128xf32>) -> ()
    }, {
    ^bb0(%arg3: i32, %arg4: f32, %arg5: vector<8x128xf32>):
      %20 = "arith.constant"() <{value = 5.000000e-01 : f32}> : () -> f32
      %21 = "vector.broadcast"(%20) : (f32) -> vector<8x128xf32>
      %22 = "arith.mulf"(%arg5, %21) <{fastmath = #arith.fastmath<none>}> : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
      %23 = "arith.constant"() <{value = 1.000000e+00 : f32}> : () -> f32
      %24 = "vector.broadcast"(%23) : (f32) -> vector<8x128xf32>
      %25 = "arith.addf"(%arg5, %24) <{fastmath = #arith.fastmath<none>}> : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
      %26 = "math.rsqrt"(%25) <{fastmath = #arith.fastmath<none>}> : (vector<8x128xf32>) -> vector<8x128xf32>
      %27 = "arith.addf"(%22, %26) <{fastmath = #arith.fastmath<none>}> : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
      %28 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %29 = "arith.addi"(%arg3, %28) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %30 = "arith.constant"() <{value = 1.500000e+00 : f32}> : () -> f32
      %31 = "arith.addf"(%arg4, %30) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
      "scf.yield"(%29, %31, %27) : (i32, f32, vector<8x128xf32>) -> ()
    }) : (i32, f32, vector<8x128xf32>) -> (i32, f32, vector<8x128xf32>)
    %6 = "arith.constant"() <{value = 1 : index}> : () -> index
    %7 = "memref.load"(%arg0, %6) : (memref<2xi32, #tpu.memory_space<smem>>, index) -> i32
    %8 = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %9 = "arith.cmpi"(%7, %8) <{predicate = 4 : i64}> : (i32, i32) -> i1
    %10 = "arith.extui"(%9) : (i1) -> i32
    %11 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %12 = "arith.cmpi"(%10, %11) <{predicate = 1 : i64}> : (i32, i32) -> i1
    %13 = "scf.if"(%12) ({
      "scf.yield"(%5#2) : (vector<8x128xf32>) -> ()
    }, {
      %17 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
      %18 = "vector.broadcast"(%17) : (f32) -> vector<8x128xf32>
      %19 = "arith.subf"(%18, %5#2) <{fastmath = #arith.fastmath<none>}> : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
      "scf.yield"(%19) : (vector<8x128xf32>) -> ()
    }) : (i1) -> vector<8x128xf32>
    %14 = "arith.constant"() <{value = 0 : index}> : () -> index
    %15 = "arith.constant"() <{value = 0 : index}> : () -> index
    %16 = "vector.load"(%arg2, %14, %15) : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>
    "tpu.vector_store"(%13, %arg2, %14, %15) <{add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>}> : (vector<8x128xf32>, memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> ()
    "func.return"() : () -> ()
  }) {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} : () -> ()
}) : () -> ()
