//! [`Rates`]: how many operations of a kind start in a cycle, and how late what they make can be used.
//!
//! There are two of each target. A block without matrix products is a chain of few operations, or a stream of many that
//! fills one unit; single operations in listings tell both. A block with matrix products is more than the model has,
//! and its rates are fitted to whole kernels.

use tilecast_core::target::{Generation, Target};

use super::unit::Unit;

/// Slots of units, and cycles from an operation to the use of its result.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Slots per cycle of each unit, in the order of [`Unit::ALL`].
    pub slots_per_cycle: [f64; Unit::COUNT],
    /// From the last slot of a vector operation.
    pub valu_latency: f64,
    /// From the last slot of a load.
    pub load_latency: f64,
    /// From the first slot of what a transcendental operation has the vector unit do to that of the operation itself.
    pub into_eup: f64,
    /// From the last slot of a transcendental operation to its pop.
    pub eup_latency: f64,
}

impl Rates {
    /// Cycles that so many slots of a unit take.
    pub fn cycles(&self, unit: Unit, slots: f64) -> f64 {
        slots / self.slots_per_cycle[unit as usize]
    }

    pub(super) fn fitted(fitted: &Fitted, target: &Target) -> Self {
        let units = target.mxu_count.value as f64;
        Self {
            slots_per_cycle: [
                units,
                units,
                fitted.valu_slots,
                target.eup_per_cycle.value,
                fitted.pop_slots,
                fitted.xlu_slots,
                fitted.load_slots,
                fitted.store_slots,
            ],
            valu_latency: fitted.valu_latency,
            load_latency: fitted.load_latency,
            into_eup: 1.0,
            eup_latency: fitted.eup_latency,
        }
    }

    /// Slots as documented. In listings what a vector operation makes is used two cycles later, what is loaded one
    /// cycle later; cycles from a transcendental operation to its pop are those of listings of `softmax_gradient`.
    pub(super) fn listed(target: &Target) -> Self {
        let units = target.mxu_count.value as f64;
        let eup = match target.generation {
            Generation::V4 => 7.0,
            Generation::V5e => 6.0,
            Generation::V5p => 8.0,
            Generation::V6e => 13.0,
            _ => 10.0,
        };
        let slots = [
            target.valu_slots.value,
            target.result_pops_per_cycle.value,
            target.xlu_count.value,
            target.vector_loads_per_cycle.value,
            target.vector_stores_per_cycle.value,
        ];
        let [valu, pop, xlu, load, store] = slots.map(|slots| slots as f64);
        let eup_slots = target.eup_per_cycle.value;
        Self {
            slots_per_cycle: [units, units, valu, eup_slots, pop, xlu, load, store],
            valu_latency: 2.0 - 1.0 / valu,
            load_latency: 1.0 - 1.0 / load,
            into_eup: 2.0,
            eup_latency: eup - 1.0 / eup_slots,
        }
    }
}

/// Figures of a target that are fitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fitted {
    pub(super) valu_slots: f64,
    pub(super) pop_slots: f64,
    pub(super) xlu_slots: f64,
    pub(super) load_slots: f64,
    pub(super) store_slots: f64,
    pub(super) valu_latency: f64,
    pub(super) load_latency: f64,
    pub(super) eup_latency: f64,
    pub(super) reduce_latency: f64,
    pub(super) transpose_latency: f64,
    pub(super) matmul_latency: f64,
    pub(super) branch_cycles: f64,
    pub(super) loop_cycles: f64,
    pub(super) step_cycles: [f64; STEP_PARTS],
}

impl Fitted {
    /// Those of a target. A generation that is not in the table is like the newest that is.
    pub(super) fn of(target: &Target) -> Self {
        let found = FITTED.iter().find(|(name, _)| *name == target.name);
        found.unwrap_or(&FITTED[FITTED.len() - 1]).1
    }
}

/// Parts of the cycles around a step.
pub const STEP_PARTS: usize = 6;

/// What the schedules of libtpu 0.0.51 do not tell apart, fitted to the cycles of about 200 kernels for each target
/// (`examples/refit`), but for the latency of reductions: from `xlane` to `vpop` in listings of flash attention,
/// where units of the first are free. Loads and stores of a cycle are those of the target table, but for loads of v7x.
const FITTED: [(&str, Fitted); 5] = [
    (
        "v4",
        Fitted {
            valu_slots: 1.72,
            pop_slots: 1.64,
            xlu_slots: 1.88,
            load_slots: 1.00,
            store_slots: 1.00,
            valu_latency: 0.18,
            load_latency: 12.06,
            eup_latency: 5.93,
            reduce_latency: 79.0,
            transpose_latency: 147.44,
            matmul_latency: 69.44,
            branch_cycles: 5.54,
            loop_cycles: 3.90,
            step_cycles: [-26.61, 27.02, 23.87, 10.95, 8.39, 17.40],
        },
    ),
    (
        "v5e",
        Fitted {
            valu_slots: 3.99,
            pop_slots: 2.00,
            xlu_slots: 2.58,
            load_slots: 3.00,
            store_slots: 1.00,
            valu_latency: 0.12,
            load_latency: 1.78,
            eup_latency: 1.45,
            reduce_latency: 115.0,
            transpose_latency: 152.23,
            matmul_latency: 132.50,
            branch_cycles: 11.90,
            loop_cycles: 4.34,
            step_cycles: [5.27, 11.81, 2.55, 15.52, 8.65, 14.55],
        },
    ),
    (
        "v5p",
        Fitted {
            valu_slots: 4.00,
            pop_slots: 1.97,
            xlu_slots: 3.00,
            load_slots: 3.00,
            store_slots: 1.00,
            valu_latency: 0.51,
            load_latency: 14.43,
            eup_latency: 7.45,
            reduce_latency: 115.0,
            transpose_latency: 178.01,
            matmul_latency: 112.36,
            branch_cycles: 8.78,
            loop_cycles: 3.12,
            step_cycles: [-3.85, 34.89, 29.04, 13.01, 5.35, 15.07],
        },
    ),
    (
        "v6e",
        Fitted {
            valu_slots: 3.73,
            pop_slots: 1.39,
            xlu_slots: 1.87,
            load_slots: 3.00,
            store_slots: 2.00,
            valu_latency: 0.03,
            load_latency: 0.06,
            eup_latency: 0.70,
            reduce_latency: 137.0,
            transpose_latency: 85.75,
            matmul_latency: 189.49,
            branch_cycles: 11.16,
            loop_cycles: 4.49,
            step_cycles: [13.09, 19.77, 9.62, 19.34, 7.62, 13.71],
        },
    ),
    (
        "v7x",
        Fitted {
            valu_slots: 3.73,
            pop_slots: 1.58,
            xlu_slots: 1.75,
            load_slots: 2.03,
            store_slots: 2.00,
            valu_latency: 7.27,
            load_latency: 1.06,
            eup_latency: 6.64,
            reduce_latency: 141.0,
            transpose_latency: 0.59,
            matmul_latency: 184.40,
            branch_cycles: 14.04,
            loop_cycles: 4.55,
            step_cycles: [-28.13, 35.29, 31.42, 23.03, 9.95, 8.03],
        },
    ),
];
