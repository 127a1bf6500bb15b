//! What the compiler's messages say.
//!
//! There are three forms of "out of memory", all of libtpu 0.0.51:
//!
//! * E1001, a kernel against its limit: `Scoped allocation with size 2.75M and limit 1.00M exceeded
//!   scoped vmem limit by 1.75M`.
//! * A memory against its capacity: `Ran out of memory in memory space vmem. Used 52.95M of 16.00M
//!   vmem`, followed by the largest allocations.
//! * E1000, HBM before anything is allocated: `the total memory required for HLO temporaries (768.00G)
//!   exceeds available HBM (15.75G)`.

use std::fmt;

const MIB: u64 = 1 << 20;

/// A memory is too small for what is to be compiled.
///
/// Sizes are as exact as the message: rounded to a hundredth of their unit, mostly MiB. What a kernel
/// uses may not be all that it needs: the compiler first checks windows and scratch, and adds
/// spilled registers only when those fit.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// Which memory, by the compiler's name in lower case: `vmem`, `hbm`, `smem`, ...
    pub space: String,
    /// Name of the kernel or other instruction, where the message has it.
    pub kernel: Option<String>,
    /// What is needed.
    pub used_bytes: u64,
    /// What there is.
    pub limit_bytes: u64,
    /// The difference, where it is less than a MiB and so more exact than the two.
    excess_bytes: Option<u64>,
    /// The largest allocation, where the message lists them: size and what it is for.
    pub largest: Option<(u64, String)>,
}

impl OutOfMemory {
    /// Finds the numbers in a message of the compiler.
    pub fn parse(message: &str) -> Option<Self> {
        let space = message
            .split_once("Ran out of memory in memory space ")
            .map(|(_, rest)| {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                rest[..end.unwrap_or(rest.len())].to_ascii_lowercase()
            });
        let (space, used_bytes, limit_bytes) =
            if let Some((_, rest)) = message.split_once("Scoped allocation with size ") {
                let (used, rest) = take_size(rest)?;
                let (limit, _) = take_size(rest.strip_prefix(" and limit ")?)?;
                (space.unwrap_or_else(|| "vmem".into()), used, limit)
            } else if let Some(space) = space {
                let (_, rest) = message.split_once("Used ")?;
                let (used, rest) = take_size(rest)?;
                let (limit, _) = take_size(rest.strip_prefix(" of ")?)?;
                (space, used, limit)
            } else {
                let (required, rest) = message.split_once(" exceeds available HBM (")?;
                let used = required.rsplit_once('(')?.1.strip_suffix(')')?;
                let (used, _) = take_size(used)?;
                ("hbm".into(), used, take_size(rest)?.0)
            };
        let excess = ["exceeded scoped vmem limit by ", "capacity by "]
            .iter()
            .find_map(|before| Some(take_size(message.split_once(before)?.1)?.0));
        let excess_bytes = excess.filter(|bytes| *bytes < MIB && used_bytes >= MIB);
        let used_bytes =
            excess_bytes.map_or(used_bytes, |excess| limit_bytes.saturating_add(excess));
        Some(Self {
            space,
            kernel: message
                .split_once("while allocating on stack for %")
                .and_then(|(_, rest)| Some(rest.split_once(" = ")?.0.to_owned())),
            used_bytes,
            limit_bytes,
            excess_bytes,
            largest: largest(message),
        })
    }

    /// The same, more exact: `limit_bytes` is the limit that was in force, unless the message shows that
    /// it was another one.
    pub fn with_limit(mut self, limit_bytes: u64) -> Self {
        // Half of a hundredth of a MiB, rounded up.
        const ROUNDING_BYTES: u64 = MIB / 200 + 1;
        if self.limit_bytes.abs_diff(limit_bytes) <= ROUNDING_BYTES {
            self.limit_bytes = limit_bytes;
            if let Some(excess) = self.excess_bytes {
                self.used_bytes = limit_bytes.saturating_add(excess);
            }
        }
        self
    }
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(kernel) = &self.kernel {
            write!(f, "{kernel}: ")?;
        }
        let Self {
            space,
            used_bytes,
            limit_bytes,
            ..
        } = self;
        write!(
            f,
            "{space} is too small: {used_bytes} bytes used, limit {limit_bytes} bytes"
        )?;
        if let Some((bytes, what)) = &self.largest {
            write!(f, "; the largest of it: {bytes} bytes, {what}")?;
        }
        Ok(())
    }
}

/// The first entry of the list of allocations.
fn largest(message: &str) -> Option<(u64, String)> {
    let (_, rest) = message.split_once("\n  1. Size: ")?;
    let entry = rest.split("\n\n").next()?;
    let (bytes, _) = take_size(entry)?;
    let line = |name: &str| {
        let line = entry
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(name));
        line.map(str::trim)
    };
    // The tag goes on about what the shape means.
    let tag = line("Tag: ").map(|tag| tag.split(". ").next().unwrap_or(tag));
    let what: Vec<_> = tag.into_iter().chain(line("Shape: ")).collect();
    Some((bytes, what.join(" ")))
}

/// Reads a size as `52.95M` at the start of a text; the unit is K, M, G, T, B or none. Returns it
/// in bytes, with the rest of the text.
fn take_size(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let digits = digits.unwrap_or(text.len());
    // A dot at the end belongs to the sentence.
    let number = text[..digits].trim_end_matches('.');
    let value: f64 = number.parse().ok()?;
    let rest = &text[number.len()..];
    let (scale, unit) = match rest.bytes().next() {
        Some(b'K') => (1_u64 << 10, 1),
        Some(b'M') => (1 << 20, 1),
        Some(b'G') => (1 << 30, 1),
        Some(b'T') => (1 << 40, 1),
        Some(b'B') => (1, 1),
        _ => (1, 0),
    };
    Some(((value * scale as f64).round() as u64, &rest[unit..]))
}

/// The start of a message, without traces through the compiler's source and without long lines.
pub(super) fn shorten(message: &str) -> String {
    const LINES: usize = 12;
    const LINE_CHARS: usize = 400;
    let useful = message.split("=== Source Location Trace").next();
    let lines = useful.unwrap_or_default().lines().map(str::trim_end);
    let mut shown: Vec<String> = Vec::new();
    let mut more = false;
    for line in lines.filter(|line| !line.is_empty()) {
        if shown.len() == LINES {
            more = true;
            break;
        }
        shown.push(match line.char_indices().nth(LINE_CHARS) {
            Some((end, _)) => format!("{} ...", &line[..end]),
            None => line.into(),
        });
    }
    if more {
        shown.push("...".into());
    }
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPED: &str = "E1001: CompileTimeScopedVmemOom:\nRan out of memory in memory space vmem while allocating \
         on stack for %name.1 = (f32[1,1024]{1,0:T(1,128)}, f32[1,1024]{1,0:T(1,128)}) custom-call(%x.1, %w.1), \
         custom_call_target=\"tpu_custom_call\". Scoped allocation with size 2.75M and limit 1.00M exceeded scoped \
         vmem limit by 1.75M. It should not be possible to run out of scoped vmem - \nSee \
         https://openxla.org/xla/errors/error_1001 for more details.";

    const CAPACITY: &str = "XLA:TPU compile permanent error. Ran out of memory in memory space vmem. Used 52.95M of \
         16.00M vmem. Exceeded vmem capacity by 36.95M.\n\nProgram vmem requirement 52.95M:\n    scoped           \
         52.95M\n\n  Largest program allocations in vmem:\n\n  1. Size: 16.00M\n     Operator: op_name=\"jit(f)\"\n     \
         Shape: u8[16777216]{0}\n     Unpadded size: 16.00M\n     Tag: output window allocation for operator output 0. \
         The window shape is bf16[2048,2048].\n     Allocation type: scoped\n     ==========================\n\n  2. \
         Size: 8.00M\n     Tag: scratch operand\n";

    const HBM: &str = "E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO \
         temporaries (768.00G) exceeds available HBM (15.75G). HLO module: m.\nSee \
         https://openxla.org/xla/errors/error_1000 for more details.";

    #[test]
    fn a_kernel_against_its_limit() {
        let found = OutOfMemory::parse(SCOPED).unwrap();
        assert_eq!(
            (found.space.as_str(), found.kernel.as_deref()),
            ("vmem", Some("name.1"))
        );
        assert_eq!((found.used_bytes, found.limit_bytes), (2_883_584, 1 << 20));
        assert_eq!(
            found.to_string(),
            "name.1: vmem is too small: 2883584 bytes used, limit 1048576 bytes"
        );
    }

    /// Limits of 4543 and 4096 KiB; windows and scratch of the second are 4364 KiB.
    #[test]
    fn a_small_excess_is_more_exact() {
        let message =
            "Scoped allocation with size 4.44M and limit 4.44M exceeded scoped vmem limit by 1.0K.";
        let found = OutOfMemory::parse(message).unwrap();
        assert_eq!(found.used_bytes, found.limit_bytes + 1024);
        let found = found.with_limit(4543 << 10);
        assert_eq!(
            (found.used_bytes, found.limit_bytes),
            (4544 << 10, 4543 << 10)
        );

        let message = "Scoped allocation with size 4.26M and limit 4.00M exceeded scoped vmem limit by 268.0K.";
        let found = OutOfMemory::parse(message).unwrap();
        assert_eq!((found.used_bytes, found.limit_bytes), (4364 << 10, 4 << 20));
        // A kernel's own limit is another one.
        assert_eq!(found.clone().with_limit(16 << 20), found);

        let found = OutOfMemory::parse(SCOPED).unwrap();
        assert_eq!(found.clone().with_limit(1 << 20), found);
    }

    #[test]
    fn a_memory_against_its_capacity() {
        let found = OutOfMemory::parse(CAPACITY).unwrap();
        assert_eq!(
            (found.space.as_str(), found.kernel.as_deref()),
            ("vmem", None)
        );
        assert_eq!(
            (found.used_bytes, found.limit_bytes),
            (55_522_099, 16 << 20)
        );
        let what = "output window allocation for operator output 0 u8[16777216]{0}";
        assert_eq!(found.largest, Some((16 << 20, what.into())));
    }

    #[test]
    fn main_memory() {
        let found = OutOfMemory::parse(HBM).unwrap();
        assert_eq!(found.space, "hbm");
        assert_eq!(
            (found.used_bytes, found.limit_bytes),
            (768 << 30, (63 << 30) / 4)
        );
        let used = "Ran out of memory in memory space hbm. Used 20.01G of 15.75G hbm. Exceeded hbm capacity by 4.26G.";
        assert_eq!(OutOfMemory::parse(used).unwrap().space, "hbm");
    }

    #[test]
    fn sizes() {
        for (text, bytes, rest) in [
            ("12.5K, more", 12_800, ", more"),
            ("1.00G and", 1 << 30, " and"),
            ("512B.", 512, "."),
            ("512.", 512, "."),
            ("512", 512, ""),
        ] {
            assert_eq!(take_size(text), Some((bytes, rest)), "{text}");
        }
        for text in ["", ".", "M", "1.2.3M", "-1M"] {
            assert_eq!(take_size(text), None, "{text}");
        }
    }

    #[test]
    fn other_messages_have_no_numbers() {
        for message in [
            "",
            "Ran out of memory in memory space ",
            "Scoped allocation with size 1M",
            "Used 1 of 2",
        ] {
            assert_eq!(OutOfMemory::parse(message), None, "{message}");
        }
        for message in [SCOPED, CAPACITY, HBM] {
            for end in 0..message.len() {
                let _ = OutOfMemory::parse(&message[..end]);
            }
        }
    }

    #[test]
    fn shortened() {
        let message = format!(
            "a\n\nb  \n{}\n=== Source Location Trace: ===\nc.cc:1",
            "é".repeat(500)
        );
        assert_eq!(shorten(&message), format!("a\nb\n{} ...", "é".repeat(400)));
        let lines = shorten(&"x\n".repeat(13));
        assert_eq!(lines.lines().count(), 13);
        assert!(lines.ends_with("x\n..."));
    }
}
