//! Compiles with the real TPU compiler. Set `TILECAST_LIBTPU` to the file libtpu.so to run it.
//!
//! Runs programs on a device: a CPU, which takes the same calls as a TPU. Set `TILECAST_PJRT_CPU` to the
//! plugin, xla_cpu_pjrt.so of the Python wheel xla-cpu-pjrt, to run it.
#![cfg(feature = "pjrt")]

use std::process::Command;

use tilecast_core::DType;
use tilecast_core::groups::Groups;
use tilecast_core::kernels::grouped_matmul::GroupedKernel;
use tilecast_core::program::{Program, Role, Step};
use tilecast_core::target::Generation;
use tilecast_tpu::pjrt::{
    Client, CompileOptions, Device, DeviceBuffer, ENVIRONMENT, HOW_TO_GET_LIBTPU, HostArray,
    PjrtError, Plugin,
};
use tilecast_tpu::stablehlo::{EmitOptions, emit};

const CPU_PLUGIN: &str = "TILECAST_PJRT_CPU";
const LIBTPU: &str = "TILECAST_LIBTPU";
const WORKER: &str = "TILECAST_PJRT_TEST_WORKER";

const ADD: &str = "
module @sum {
  func.func public @main(%a: tensor<8x128xf32>, %b: tensor<8x128xf32>) -> tensor<8x128xf32> {
    %0 = stablehlo.add %a, %b : tensor<8x128xf32>
    return %0 : tensor<8x128xf32>
  }
}
";

/// The compiler wants its environment prepared and may end the process, so the checks run in a process
/// of their own: this test, started again.
#[test]
fn compiles_for_every_generation() {
    let Some(libtpu) = std::env::var_os(LIBTPU) else {
        println!("skipped: {LIBTPU} is not set ({HOW_TO_GET_LIBTPU})");
        return;
    };
    if std::env::var_os(WORKER).is_some() {
        let plugin = Plugin::load(&libtpu).unwrap();
        for generation in Generation::ALL {
            check(plugin, generation);
        }
        refuses_what_is_wrong(plugin);
        // Loading it again is fine.
        assert_eq!(
            Plugin::load(&libtpu).unwrap().api_version(),
            plugin.api_version()
        );
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "compiles_for_every_generation", "--nocapture"])
        .envs(ENVIRONMENT)
        .env(WORKER, "1")
        .env_remove("XLA_FLAGS")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
}

fn check(plugin: Plugin, generation: Generation) {
    let topology = plugin.topology_of(generation).unwrap();
    let executable = topology
        .compile(ADD.as_bytes(), &CompileOptions::default())
        .unwrap();
    // It can be read when the topology is gone.
    drop(topology);
    assert!(
        executable.generated_code_bytes().unwrap() > 0,
        "{generation:?}"
    );
    // There is no kernel in it, only XLA's own code.
    assert_eq!(executable.kernels().unwrap(), [], "{generation:?}");
    let stats = executable.memory_stats().unwrap();
    assert_eq!(stats.argument_bytes, 2 * 8 * 128 * 4, "{generation:?}");
    assert_eq!(stats.output_bytes, 8 * 128 * 4, "{generation:?}");
}

fn refuses_what_is_wrong(plugin: Plugin) {
    for name in ["nonsense", "v9:2x2", "v5e"] {
        let error = plugin.topology(name, &[]).unwrap_err();
        assert!(matches!(error, PjrtError::Call { .. }), "{name}: {error}");
    }
    let topology = plugin.topology("v5e:2x2", &[]).unwrap();
    let compile = |module: &[u8], options: &CompileOptions| {
        let error = topology.compile(module, options).unwrap_err();
        assert!(matches!(error, PjrtError::Call { .. }), "{error}");
        error
    };
    let none = CompileOptions::default();
    for module in [
        &b""[..],
        b"garbage",
        b"\xff\xfe\0",
        b"module {}",
        &ADD.as_bytes()[..100],
    ] {
        let error = compile(module, &none);
        assert_eq!(error.out_of_memory(), None, "{error}");
    }
    let options = CompileOptions {
        overrides: vec![("xla_no_such_option".into(), "1".into())],
        ..none
    };
    assert!(
        compile(ADD.as_bytes(), &options)
            .to_string()
            .contains("xla_no_such_option")
    );

    // 2 x 65536 x 2^20 x 4 bytes do not fit any chip.
    let huge = ADD.replace("8x128xf32", "65536x1048576xf32");
    let memory = compile(huge.as_bytes(), &CompileOptions::default())
        .out_of_memory()
        .unwrap();
    assert_eq!(memory.space, "hbm");
    assert!(memory.used_bytes > memory.limit_bytes);
}

/// `sum [2,3]` in f32, `transposed [3,2]` in bf16, `total []` in i32.
const THREE_TYPES: &str = "
module @three {
  func.func public @main(%a: tensor<2x3xf32>, %b: tensor<2x3xbf16>, %n: tensor<4xi32>)
      -> (tensor<2x3xf32>, tensor<3x2xbf16>, tensor<i32>) {
    %0 = stablehlo.convert %b : (tensor<2x3xbf16>) -> tensor<2x3xf32>
    %1 = stablehlo.add %a, %0 : tensor<2x3xf32>
    %2 = stablehlo.transpose %b, dims = [1, 0] : (tensor<2x3xbf16>) -> tensor<3x2xbf16>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.reduce(%n init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
    return %1, %2, %3 : tensor<2x3xf32>, tensor<3x2xbf16>, tensor<i32>
  }
}
";

#[test]
fn runs_on_a_device() {
    let Some(path) = std::env::var_os(CPU_PLUGIN) else {
        println!(
            "skipped: {CPU_PLUGIN} is not set (`pip download xla-cpu-pjrt --no-deps`, unzip it, and give \
             xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so)"
        );
        return;
    };
    // No settings are needed: the machine is taken as it is.
    let plugin = Plugin::load_for_devices(path).unwrap();
    let client = plugin.client().unwrap();
    assert_eq!(client.platform_name().unwrap(), "cpu");
    let device = client.devices().unwrap()[0];
    assert!(!device.kind().unwrap().is_empty());
    computes(&client, device);
    fails_with_an_error(&client, device);
    visits_groups(&client, device);
    // What is left of a client does not disturb the next one.
    drop(client);
    let client = plugin.client().unwrap();
    computes(&client, client.devices().unwrap()[0]);
}

fn upload<'c>(
    client: &'c Client,
    device: Device<'_>,
    dtype: DType,
    dims: &[usize],
    bytes: &[u8],
) -> Result<DeviceBuffer<'c>, PjrtError> {
    client.upload(device, HostArray { dtype, dims, bytes })
}

fn little_endian(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Whole numbers up to 256 are exact in bf16: the upper half of the f32.
fn bf16(values: &[f32]) -> Vec<u8> {
    let upper = |x: &f32| ((x.to_bits() >> 16) as u16).to_le_bytes();
    values.iter().flat_map(upper).collect()
}

fn computes(client: &Client, device: Device<'_>) {
    let loaded = client
        .compile(THREE_TYPES.as_bytes(), &CompileOptions::default())
        .unwrap();
    assert_eq!(loaded.executable().unwrap().output_count().unwrap(), 3);
    let a = upload(
        client,
        device,
        DType::F32,
        &[2, 3],
        &little_endian(&[1., 2., 3., 4., 5., 6.]),
    )
    .unwrap();
    let b = upload(
        client,
        device,
        DType::Bf16,
        &[2, 3],
        &bf16(&[10., 20., 30., 40., 50., 60.]),
    )
    .unwrap();
    let n: Vec<u8> = [1_i32, 20, 300, -4000]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    let n = upload(client, device, DType::I32, &[4], &n).unwrap();
    // Arguments stay, so that a second run gives the same.
    for _ in 0..2 {
        let outputs = loaded.execute(&[&a, &b, &n]).unwrap();
        let expected = [
            (
                DType::F32,
                vec![2, 3],
                little_endian(&[11., 22., 33., 44., 55., 66.]),
            ),
            (
                DType::Bf16,
                vec![3, 2],
                bf16(&[10., 40., 20., 50., 30., 60.]),
            ),
            (DType::I32, vec![], (-3679_i32).to_le_bytes().to_vec()),
        ];
        assert_eq!(outputs.len(), expected.len());
        for (output, (dtype, dims, bytes)) in outputs.iter().zip(expected) {
            assert_eq!(
                (output.dtype().unwrap(), output.dims().unwrap()),
                (dtype, dims)
            );
            let mut read = vec![0; bytes.len()];
            output.read(&mut read).unwrap();
            assert_eq!(read, bytes, "{dtype}");
        }
    }
}

/// The tables of visits are those that the CPU makes, for any sizes of groups.
fn visits_groups(client: &Client, device: Device<'_>) {
    for (rows, count, block) in [(12, 3, 4), (50, 5, 16), (50, 1, 7), (3, 4, 1), (64, 8, 64)] {
        let groups = Groups::new(rows, count, block).unwrap();
        let mut program = Program::<GroupedKernel>::new("visits");
        let sizes = program.array(Role::Input, "sizes", DType::I32, [count]);
        let names = ["group", "block", "first", "end", "opens"];
        let mut lengths = groups.lengths().into_iter();
        let to = names.map(|name| {
            let len = lengths.next().unwrap();
            program.array(Role::Output, name, DType::I32, [len])
        });
        let step = Step::Visits { sizes, groups, to };
        program.push(step).unwrap();
        let text = emit(&program, &EmitOptions::default()).unwrap();
        let loaded = client
            .compile(text.as_bytes(), &CompileOptions::default())
            .unwrap();
        let mut seed = 1_u32;
        for round in 0..40 {
            // Of the rows that are left each group takes some, and often none or all.
            let mut left = rows as u32;
            let mut sizes: Vec<i32> = Vec::new();
            for _ in 0..count {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let size = match (seed >> 16) % 4 {
                    0 => 0,
                    1 if round % 5 == 0 => left,
                    _ => (seed >> 20) % (left + 1),
                };
                left -= size;
                sizes.push(size as i32);
            }
            let expected = groups.tables(&sizes).unwrap();
            let bytes: Vec<u8> = sizes.iter().flat_map(|n| n.to_le_bytes()).collect();
            let passed = upload(client, device, DType::I32, &[count], &bytes).unwrap();
            let outputs = loaded.execute(&[&passed]).unwrap();
            for ((output, expected), name) in outputs.iter().zip(expected).zip(names) {
                let mut read = vec![0; 4 * expected.len()];
                output.read(&mut read).unwrap();
                let found = read
                    .chunks(4)
                    .map(|n| i32::from_le_bytes(n.try_into().unwrap()));
                let found: Vec<i32> = found.collect();
                assert_eq!(found, expected, "{name} of {sizes:?} in {groups:?}");
            }
        }
    }
}

fn fails_with_an_error(client: &Client, device: Device<'_>) {
    let short = upload(client, device, DType::F32, &[2, 3], &[0; 23]).unwrap_err();
    assert_eq!(
        short.to_string(),
        "an array of f32 [2, 3] does not take 23 bytes"
    );
    let endless = upload(client, device, DType::F32, &[usize::MAX, 2], &[]).unwrap_err();
    assert!(matches!(endless, PjrtError::Array { .. }), "{endless}");
    let garbage = client.compile(b"garbage", &CompileOptions::default());
    assert!(matches!(garbage, Err(PjrtError::Call { .. })));
    let loaded = client
        .compile(ADD.as_bytes(), &CompileOptions::default())
        .unwrap();
    let x = upload(client, device, DType::F32, &[8, 128], &[0; 4096]).unwrap();
    let few = loaded.execute(&[&x]).unwrap_err();
    assert!(matches!(few, PjrtError::Call { .. }), "{few}");
    let sum = loaded.execute(&[&x, &x]).unwrap();
    let long = sum[0].read(&mut [0; 4097]).unwrap_err();
    assert!(
        matches!(long, PjrtError::Array { bytes: 4097, .. }),
        "{long}"
    );
}
