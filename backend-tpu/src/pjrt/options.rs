//! What is compiled and how: the module, and the options in their encoding as the one protobuf message that
//! `PJRT_Compile` takes.
//!
//! Field numbers: `CompileOptionsProto`, `ExecutableBuildOptionsProto` and `OptionOverrideProto` in
//! `xla/pjrt/proto/compile_options.proto` of OpenXLA.

use super::abi;

/// How to compile.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CompileOptions {
    /// VMEM that a kernel may use unless it sets its own limit, in KiB.
    pub vmem_limit_kib: Option<u32>,
    /// Further options of the compiler, by name without dashes, and value. A name that is here twice
    /// has the last value.
    pub overrides: Vec<(String, String)>,
}

impl CompileOptions {
    const VMEM_LIMIT: &str = "xla_tpu_scoped_vmem_limit_kib";

    /// One device, no device in particular.
    pub(super) fn encode(&self) -> Vec<u8> {
        const EXECUTABLE_BUILD_OPTIONS: u32 = 3;
        const DEVICE_ORDINAL: u32 = 1;
        const REPLICAS: u32 = 4;
        const PARTITIONS: u32 = 5;
        const OPTION_OVERRIDES: u32 = 7;
        const KEY: u32 = 1;
        const VALUE: u32 = 2;
        const STRING: u32 = 1;

        let mut build = Message::default();
        build.number(DEVICE_ORDINAL, -1);
        build.number(REPLICAS, 1);
        build.number(PARTITIONS, 1);
        let mut options = Message::default();
        options.bytes(EXECUTABLE_BUILD_OPTIONS, &build.0);

        let limit = self.vmem_limit_kib.map(|kib| kib.to_string());
        let limit = limit.as_deref().map(|kib| (Self::VMEM_LIMIT, kib));
        let overrides = self
            .overrides
            .iter()
            .map(|(name, value)| (&**name, &**value));
        for (name, value) in limit.into_iter().chain(overrides) {
            let mut text = Message::default();
            text.bytes(STRING, value.as_bytes());
            let mut entry = Message::default();
            entry.bytes(KEY, name.as_bytes());
            entry.bytes(VALUE, &text.0);
            options.bytes(OPTION_OVERRIDES, &entry.0);
        }
        options.0
    }
}

/// A StableHLO module as the C API takes it.
pub(super) struct Source {
    /// The module and a zero: MLIR's parser reads text up to there, and does not count it as text.
    bytes: Vec<u8>,
}

impl Source {
    pub(super) fn new(stablehlo: &[u8]) -> Self {
        Self {
            bytes: [stablehlo, &[0]].concat(),
        }
    }

    /// Points into this source. The API shares one struct for reading and writing, so its pointer is to
    /// mutable bytes.
    pub(super) fn program(&mut self) -> abi::Program {
        const FORMAT: &str = "mlir";
        abi::Program {
            code: self.bytes.as_mut_ptr().cast(),
            code_size: self.bytes.len() - 1,
            format: FORMAT.as_ptr().cast(),
            format_size: FORMAT.len(),
            ..abi::Program::new()
        }
    }
}

/// A protobuf message under construction: <https://protobuf.dev/programming-guides/encoding>.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// A number, in 7-bit groups, least significant first; negative ones in 64-bit two's complement.
    fn number(&mut self, field: u32, value: i64) {
        self.varint(u64::from(field) << 3);
        self.varint(value as u64);
    }

    /// Text, bytes or another message: the length, then the content.
    fn bytes(&mut self, field: u32, value: &[u8]) {
        self.varint((u64::from(field) << 3) | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_one_device() {
        let expected = b"\x1a\x0f\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x01\x28\x01";
        assert_eq!(CompileOptions::default().encode(), expected);
    }

    /// The bytes that jaxlib 0.12.0.1 writes for this override.
    #[test]
    fn a_limit_is_an_override() {
        let options = CompileOptions {
            vmem_limit_kib: Some(4096),
            ..CompileOptions::default()
        };
        let expected = b":'\n\x1dxla_tpu_scoped_vmem_limit_kib\x12\x06\n\x044096";
        assert_eq!(options.encode()[17..], expected[..]);
    }

    #[test]
    fn overrides_follow_in_their_order() {
        let long = "v".repeat(200);
        let options = CompileOptions {
            vmem_limit_kib: None,
            overrides: vec![("a".into(), "1".into()), ("b".into(), long.clone())],
        };
        let mut expected = b":\x08\n\x01a\x12\x03\n\x011".to_vec();
        // 3 + 3 + 203 = 209 bytes: entry, value, text.
        expected.extend_from_slice(b":\xd1\x01\n\x01b\x12\xcb\x01\n\xc8\x01");
        expected.extend_from_slice(long.as_bytes());
        assert_eq!(options.encode()[17..], expected);
    }
}
