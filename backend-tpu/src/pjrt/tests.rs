use std::mem::offset_of;
use std::ptr::NonNull;

use tilecast_core::target::Generation;

use super::abi::{self, Api};
use super::topology::TOPOLOGIES;
use super::*;

/// Offsets of C's `offsetof` for the functions that are used, on a 64-bit machine.
#[test]
#[cfg(target_pointer_width = "64")]
fn the_layouts_are_those_of_the_c_api() {
    assert_eq!(offset_of!(Api, error_destroy), 40);
    assert_eq!(offset_of!(Api, error_message), 48);
    assert_eq!(offset_of!(Api, error_get_code), 56);
    assert_eq!(offset_of!(Api, plugin_initialize), 64);
    assert_eq!(offset_of!(Api, event_destroy), 80);
    assert_eq!(offset_of!(Api, event_await), 104);
    assert_eq!(offset_of!(Api, client_create), 120);
    assert_eq!(offset_of!(Api, client_destroy), 128);
    assert_eq!(offset_of!(Api, client_platform_name), 136);
    assert_eq!(offset_of!(Api, client_addressable_devices), 168);
    assert_eq!(offset_of!(Api, client_compile), 200);
    assert_eq!(offset_of!(Api, client_buffer_from_host), 216);
    assert_eq!(offset_of!(Api, device_description_kind), 248);
    assert_eq!(offset_of!(Api, device_get_description), 272);
    assert_eq!(offset_of!(Api, executable_num_outputs), 392);
    assert_eq!(offset_of!(Api, loaded_executable_destroy), 440);
    assert_eq!(offset_of!(Api, loaded_executable_get_executable), 448);
    assert_eq!(offset_of!(Api, loaded_executable_execute), 480);
    assert_eq!(offset_of!(Api, buffer_destroy), 504);
    assert_eq!(offset_of!(Api, buffer_element_type), 512);
    assert_eq!(offset_of!(Api, buffer_dimensions), 520);
    assert_eq!(offset_of!(Api, buffer_to_host), 600);
    assert_eq!(offset_of!(Api, executable_destroy), 360);
    assert_eq!(offset_of!(Api, executable_code_size), 400);
    assert_eq!(offset_of!(Api, executable_optimized_program), 424);
    assert_eq!(offset_of!(Api, topology_create), 696);
    assert_eq!(offset_of!(Api, topology_destroy), 704);
    assert_eq!(offset_of!(Api, compile), 752);
    assert_eq!(offset_of!(Api, executable_memory_stats), 808);
    assert_eq!(size_of::<abi::NamedValue>(), 56);
    assert_eq!(size_of::<abi::TopologyCreate>(), 56);
    assert_eq!(size_of::<abi::Compile>(), 64);
    assert_eq!(size_of::<abi::Program>(), 48);
    assert_eq!(size_of::<abi::ExecutableMemoryStats>(), 112);
    assert_eq!(size_of::<abi::ClientCreate>(), 88);
    assert_eq!(size_of::<abi::ClientCompile>(), 56);
    assert_eq!(size_of::<abi::BufferFromHost>(), 120);
    assert_eq!(size_of::<abi::ExecuteOptions>(), 112);
    assert_eq!(size_of::<abi::LoadedExecutableExecute>(), 80);
    assert_eq!(size_of::<abi::BufferToHost>(), 56);
    assert_eq!(size_of::<abi::TiledLayout>(), 56);
    assert_eq!(size_of::<abi::MemoryLayout>(), 80);
}

/// A table that only has its header: sizes, version, and no functions.
fn table(struct_size: usize, major: i32) -> Box<[u64; 128]> {
    let mut table = Box::new([0; 128]);
    table[0] = struct_size as u64;
    table[2] = 24;
    table[4] = u64::from(major as u32);
    table
}

fn load(table: &mut [u64; 128]) -> Result<Plugin, PjrtError> {
    // SAFETY: the table is as long as it says or longer, and has no functions.
    unsafe { Plugin::from_table(NonNull::from(table).cast()) }
}

#[test]
#[cfg(all(target_pointer_width = "64", target_endian = "little"))]
fn tables_of_other_versions() {
    let error = load(&mut table(16, 0)).unwrap_err();
    assert!(
        matches!(
            error,
            PjrtError::TooOld {
                table_bytes: 16,
                needed_bytes: 40
            }
        ),
        "{error}"
    );
    let error = load(&mut table(1000, 1)).unwrap_err();
    assert!(
        matches!(
            error,
            PjrtError::Version {
                major: 1,
                supported: 0,
                ..
            }
        ),
        "{error}"
    );
    let error = load(&mut table(752, 0)).unwrap_err();
    assert!(
        matches!(
            error,
            PjrtError::TooOld {
                table_bytes: 752,
                needed_bytes: 760
            }
        ),
        "{error}"
    );

    // One that ends behind `compile`, and a longer one: functions that are missing are errors.
    for struct_size in [760, 1000] {
        let plugin = load(&mut table(struct_size, 0)).unwrap();
        assert!(plugin.api.executable_memory_stats.is_none());
        let error = plugin.topology("v5e:2x2", &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the plugin has no PJRT_TopologyDescription_Create"
        );
    }
}

#[test]
fn what_is_not_a_plugin_is_an_error() {
    let error = Plugin::load("no/such/file").unwrap_err();
    assert!(matches!(error, PjrtError::File { .. }), "{error}");
    // The test's own process has no reason to be prepared.
    if std::env::var_os(SKIP_QUERY).is_none() {
        let error = Plugin::load(".").unwrap_err();
        assert!(matches!(error, PjrtError::Environment { .. }), "{error}");
    }
}

#[test]
fn every_generation_has_a_topology() {
    for generation in Generation::ALL {
        assert!(TOPOLOGIES.iter().any(|(known, ..)| *known == generation));
    }
}

#[test]
fn status_codes_have_names() {
    assert_eq!(StatusCode(0).name(), "OK");
    assert_eq!(StatusCode::RESOURCE_EXHAUSTED.name(), "RESOURCE_EXHAUSTED");
    assert_eq!(StatusCode(16).name(), "UNAUTHENTICATED");
    for code in [-1, 17] {
        assert_eq!(StatusCode(code).name(), "unknown status code");
    }
}

#[test]
fn every_type_has_a_number() {
    use tilecast_core::DType;
    for dtype in [DType::Bf16, DType::F32, DType::I32] {
        assert!(abi::ELEMENT_TYPES.iter().any(|(known, _)| *known == dtype));
    }
}
