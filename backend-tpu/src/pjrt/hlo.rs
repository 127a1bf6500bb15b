//! What the optimized HLO module says about its TPU kernels.
//!
//! The module is a protobuf message of which four levels matter; everything else is skipped. Field
//! numbers: `HloModuleProto`, `HloComputationProto`, `HloInstructionProto` in
//! `xla/service/hlo.proto` of OpenXLA.

/// A TPU kernel in a compiled module.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Kernel {
    /// Name of the instruction in the optimized module.
    pub name: String,
    /// VMEM that it uses: windows, scratch and spilled registers. `None` if this compiler does not
    /// say.
    pub used_bytes: Option<u64>,
    /// The VMEM limit that it carries, its own or one that the compiler gave it; `None` if the
    /// option or the compiler's default holds.
    pub limit_bytes: Option<u64>,
}

/// The kernels of an `HloModuleProtoWithConfig`. `None` if the bytes are not that.
pub(super) fn kernels_with_config(bytes: &[u8]) -> Option<Vec<Kernel>> {
    const MODULE: u32 = 1;
    let mut found = Vec::new();
    for module in messages(bytes, MODULE)? {
        found.extend(kernels(module)?);
    }
    Some(found)
}

/// The kernels of an `HloModuleProto`. `None` if the bytes are not that.
pub(super) fn kernels(module: &[u8]) -> Option<Vec<Kernel>> {
    const COMPUTATIONS: u32 = 3;
    const INSTRUCTIONS: u32 = 2;
    let mut found = Vec::new();
    for computation in messages(module, COMPUTATIONS)? {
        for instruction in messages(computation, INSTRUCTIONS)? {
            found.extend(kernel(instruction)?);
        }
    }
    Some(found)
}

/// The kernel that an `HloInstructionProto` calls, if it calls one.
fn kernel(instruction: &[u8]) -> Option<Option<Kernel>> {
    const NAME: u32 = 1;
    const CUSTOM_CALL_TARGET: u32 = 28;
    const BACKEND_CONFIG: u32 = 43;
    let text = |field| -> Option<String> {
        let last = messages(instruction, field)?.pop().unwrap_or_default();
        Some(String::from_utf8_lossy(last).into_owned())
    };
    if text(CUSTOM_CALL_TARGET)? != "tpu_custom_call" {
        return Some(None);
    }
    let config = text(BACKEND_CONFIG)?;
    // A limit of 0 is none.
    let limit_bytes = vmem_bytes(&config, "scoped_memory_configs").filter(|bytes| *bytes > 0);
    Some(Some(Kernel {
        name: text(NAME)?,
        used_bytes: vmem_bytes(&config, "used_scoped_memory_configs"),
        limit_bytes,
    }))
}

/// The length-delimited values of a field, in their order. `None` if the message is cut off or is
/// none.
fn messages(message: &[u8], field: u32) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let number = tag >> 3;
        match tag & 7 {
            0 => {
                varint(&mut rest)?;
            }
            1 => rest = rest.get(8..)?,
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                let (value, after) = rest.split_at_checked(length)?;
                rest = after;
                if number == u64::from(field) {
                    found.push(value);
                }
            }
            5 => rest = rest.get(4..)?,
            _ => return None,
        }
    }
    Some(found)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The end of the last VMEM region in a list of regions in a backend config, which is JSON:
/// `"key":[{"memory_space":"1","offset":"0","size":"4653056"}]`. A list without one is 0; `None` if
/// there is no list.
///
/// Strings in the config cannot be mistaken for the list, because quotes in them are escaped.
fn vmem_bytes(config: &str, key: &str) -> Option<u64> {
    const VMEM: u64 = 1;
    let start = config.find(&format!("\"{key}\":["))?;
    let list = config[start..].split_once('[')?.1.split_once(']')?.0;
    let mut end = 0;
    for region in list.split('}') {
        let field = |name: &str| -> Option<u64> {
            let value = region.split_once(&format!("\"{name}\":"))?.1;
            let value = value.trim_start_matches('"');
            let digits = value.find(|c: char| !c.is_ascii_digit());
            value[..digits.unwrap_or(value.len())].parse().ok()
        };
        if field("memory_space") == Some(VMEM) {
            end = end.max(field("offset").unwrap_or(0).checked_add(field("size")?)?);
        }
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As libtpu 0.0.51 writes it, shortened.
    const CONFIG: &str = r#"{"flag_configs":[],"scoped_memory_configs":[{"memory_space":"1","offset":"0","size":"33554432"}],
"custom_call_config":{"body":"used_scoped_memory_configs\":[{\"memory_space\":\"1\",\"size\":\"7\"}]"},
"used_scoped_memory_configs":[{"memory_space":"0","size":"9999999"},{"memory_space":"1","offset":"0","size":"4653056"}]}"#;

    fn field(number: u32, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for mut value in [(u64::from(number) << 3) | 2, value.len() as u64] {
            while value >= 0x80 {
                bytes.push(value as u8 | 0x80);
                value >>= 7;
            }
            bytes.push(value as u8);
        }
        bytes.extend_from_slice(value);
        bytes
    }

    /// A module with an addition and a kernel, with fields of all kinds between.
    fn module() -> Vec<u8> {
        let add = [field(1, b"add.1"), field(2, b"add")].concat();
        let call = [
            field(1, b"name.1"),
            vec![(29 << 3 & 0x7f) | 0x85, 1, 1, 2, 3, 4],
            field(28, b"tpu_custom_call"),
            vec![(35 << 3 & 0x7f) | 0x80, 35 >> 4, 0x96, 0x01],
            field(43, CONFIG.as_bytes()),
        ]
        .concat();
        let computation = [field(1, b"main"), field(2, &add), field(2, &call)].concat();
        [field(1, b"module"), field(3, &computation)].concat()
    }

    #[test]
    fn kernels_are_found() {
        let expected = Kernel {
            name: "name.1".into(),
            used_bytes: Some(4_653_056),
            limit_bytes: Some(33_554_432),
        };
        let expected = [expected];
        assert_eq!(kernels(&module()).unwrap(), expected);
        let with_config = [field(1, &module()), field(2, b"\x08\x01")].concat();
        assert_eq!(kernels_with_config(&with_config).unwrap(), expected);
        assert_eq!(kernels(b"").unwrap(), []);
    }

    #[test]
    fn no_prefix_and_no_changed_byte_panics() {
        let module = module();
        for length in 0..module.len() {
            let _ = kernels(&module[..length]);
            for byte in [0, 0x7f, 0x80, 0xff] {
                let mut changed = module.clone();
                changed[length] = byte;
                let _ = kernels(&changed);
            }
        }
        assert_eq!(kernels(&module[..module.len() - 1]), None);
        assert_eq!(kernels(&[0xff; 20]), None);
    }

    #[test]
    fn lists_of_regions() {
        let used = |config: &str| vmem_bytes(config, "used");
        assert_eq!(used(r#"{"used":[]}"#), Some(0));
        assert_eq!(used(r#"{"unused":[]}"#), None);
        assert_eq!(
            used(r#"{"used":[{"memory_space":1,"offset":8,"size":16}]}"#),
            Some(24)
        );
        assert_eq!(used(r#"{"used":[{"memory_space":"1"}]}"#), None);
        assert_eq!(used(r#"{"used":[{"memory_space":"1","size":"16""#), None);
        assert_eq!(
            used(r#"{"used":[{"memory_space":"1","offset":"18446744073709551615","size":"1"}]}"#),
            None
        );
    }
}
