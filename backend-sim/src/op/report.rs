//! The answer: verdict, HBM and time of an op on a chip.

use tilecast_core::budget::{HbmLedger, HbmTerm};
use tilecast_core::target::Target;

use crate::kernel::KernelReport;
use crate::pipeline::devices_per_chip;
use crate::verdict::{Verdict, hbm_reason};

/// Time of the whole op.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Total {
    /// Value.
    pub time_s: f64,
    /// Best and worst assumptions.
    pub time_range_s: [f64; 2],
    /// Tokens of all chips per second.
    pub tokens_per_s: f64,
}

/// The op on a target.
#[derive(Clone, PartialEq, Debug)]
pub struct OpReport {
    /// The worst of all kernels and HBM.
    pub verdict: Verdict,
    /// Why it cannot run, and what helps.
    pub reason: Option<String>,
    /// The arrays of both passes.
    pub hbm: HbmReport,
    /// Time; `None` if it cannot run.
    pub total: Option<Total>,
}

impl OpReport {
    /// Of kernels and arrays; `times` are those of parts that follow each other, best, expected and worst, of `tokens`
    /// tokens.
    pub(crate) fn new(
        kernels: &[&KernelReport],
        (hbm, over): (HbmReport, Option<String>),
        times: Option<Vec<[f64; 3]>>,
        tokens: usize,
    ) -> Self {
        let of_kernels = kernels.iter().map(|kernel| kernel.verdict);
        let of_kernels = of_kernels.max().unwrap_or(Verdict::Fits);
        // What keeps a kernel from compiling comes before what keeps the op from loading.
        let (verdict, reason) = match (of_kernels, over) {
            (Verdict::Fits, None) => (Verdict::Fits, None),
            (Verdict::Fits, over) => (Verdict::HbmOom, over),
            _ => {
                let worst = kernels.iter().find(|kernel| kernel.verdict == of_kernels);
                (of_kernels, worst.map(|kernel| kernel.why_not()))
            }
        };
        let total = times.filter(|_| verdict == Verdict::Fits).map(|times| {
            let [low, time_s, high] = [0, 1, 2].map(|i| times.iter().map(|time| time[i]).sum());
            Total {
                time_s,
                time_range_s: [low, high],
                tokens_per_s: tokens as f64 / time_s,
            }
        });
        Self {
            verdict,
            reason,
            hbm,
            total,
        }
    }
}

/// HBM of one chip.
#[derive(Clone, PartialEq, Debug)]
pub struct HbmReport {
    /// Arrays, those of all devices of the chip together.
    pub terms: Vec<(&'static str, u64)>,
    /// Their sum, bytes.
    pub used_bytes: u64,
    /// What a chip has, bytes.
    pub capacity_bytes: u64,
}

impl HbmReport {
    /// Of a chip whose devices each have the arrays of `ledger`; and, if they do not fit, why, with what helps.
    pub(crate) fn of(
        ledger: &HbmLedger,
        target: &'static Target,
        help: &str,
    ) -> (Self, Option<String>) {
        let devices = devices_per_chip(target) as u64;
        let scaled = |term: &HbmTerm| (term.name, term.bytes.saturating_mul(devices));
        let report = Self {
            terms: ledger.terms.iter().map(scaled).collect(),
            used_bytes: ledger.used_bytes().saturating_mul(devices),
            capacity_bytes: ledger.capacity_bytes,
        };
        let largest = report.terms.iter().copied().max_by_key(|&(_, bytes)| bytes);
        let over = hbm_reason(
            report.used_bytes,
            report.capacity_bytes,
            largest,
            target,
            help,
        );
        (report, over)
    }
}
