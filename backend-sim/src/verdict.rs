//! [`Verdict`]: whether something can run, and the sentences that say why not.

use tilecast_core::budget::TermKind;
use tilecast_core::target::Target;

/// Whether a kernel or an op can run on a target, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verdict {
    /// It can: each kernel has the VMEM it needs, and the arrays have HBM.
    Fits,
    /// The arrays need more HBM than a chip has; each kernel has its VMEM.
    HbmOom,
    /// A kernel needs more VMEM than its limit.
    VmemOom,
    /// The target does not take the kernel's blocks.
    Invalid,
}

impl Verdict {
    /// The name used in reports: `fits`, `vmem_oom`, `hbm_oom`, `invalid`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::VmemOom => "vmem_oom",
            Self::HbmOom => "hbm_oom",
            Self::Invalid => "invalid",
        }
    }
}

/// The largest allocation of a kernel.
pub(crate) struct Largest<'a> {
    pub kind: TermKind,
    pub name: &'a str,
    pub shape: &'a [usize],
    pub bytes: u64,
}

/// Why a kernel does not fit VMEM, and what helps; `None` if it fits. `used`, `limit` and `capacity`
/// are bytes.
pub(crate) fn vmem_reason(
    [used, limit, capacity]: [u64; 3],
    largest: Option<Largest<'_>>,
    target: &Target,
) -> Option<String> {
    let largest = largest.filter(|_| used > limit)?;
    let allowed = if limit == capacity {
        format!("{target} has {}", bytes(limit))
    } else {
        format!("the limit is {}", bytes(limit))
    };
    let raise = if used <= capacity {
        let kib = used.div_ceil(1 << 10);
        format!(", or raise the limit to at least {kib} KiB (--vmem-limit-kib)")
    } else {
        String::new()
    };
    let shape = match largest.shape {
        [.., rows, columns] => format!(" of {rows} x {columns} elements"),
        _ => String::new(),
    };
    Some(format!(
        "needs {} of VMEM, {allowed}; the largest term is the {} `{}`{shape}, {}: choose smaller blocks{raise}",
        bytes(used),
        largest.kind.name(),
        largest.name,
        bytes(largest.bytes),
    ))
}

/// Why arrays do not fit HBM, and what helps; `None` if they fit.
pub(crate) fn hbm_reason(
    used: u64,
    capacity: u64,
    largest: Option<(&str, u64)>,
    target: &Target,
    help: &str,
) -> Option<String> {
    let (name, size) = largest.filter(|_| used > capacity)?;
    Some(format!(
        "the arrays need {} of HBM, a {target} chip has {}; the largest is `{name}`, {}: {help}",
        bytes(used),
        bytes(capacity),
        bytes(size),
    ))
}

/// Bytes for reading, with the exact number.
fn bytes(bytes: u64) -> String {
    format!("{} ({bytes} bytes)", bytes_text(bytes as f64))
}

/// Bytes for reading: `16.00 MiB`.
pub fn bytes_text(bytes: f64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0} {}", UNITS[unit]),
        _ => format!("{value:.2} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_largest_unit_that_fits() {
        assert_eq!(bytes_text(512.0), "512 B");
        assert_eq!(bytes_text(1536.0), "1.50 KiB");
        assert_eq!(bytes_text(16.0 * 1024.0 * 1024.0), "16.00 MiB");
        assert_eq!(bytes_text(1e15), "931322.57 GiB");
    }
}
