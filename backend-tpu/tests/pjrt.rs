//! Compiles with the real TPU compiler. Set `TILECAST_LIBTPU` to the file libtpu.so to run it.
#![cfg(feature = "pjrt")]

use std::process::Command;

use tilecast_core::target::Generation;
use tilecast_tpu::pjrt::{CompileOptions, ENVIRONMENT, HOW_TO_GET_LIBTPU, PjrtError, Plugin};

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
