//! Block sizes for a kernel that will be compiled: like [`tune`], with room for the error of the
//! prediction.
//!
//! The compiler adds register spills to windows and scratch and checks the sum against the kernel's
//! limit. How many it spills is predicted, with an error. So blocks are chosen against a lower limit, and
//! the kernel asks for more than they need. Those of the ops on given logits are in [`logits`].

pub mod logits;

use tilecast_core::kernels::head::{Blocks, Schedule};
use tilecast_core::target::Target;

use crate::memory::room_bytes;
use crate::op::{Request, SimError};
use crate::plan::{BackwardPlan, ForwardPlan};
use crate::problem::{OnHead, schedule};
use crate::tune::{self, Row, Space};
use crate::verdict::Verdict;

/// What to emit.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// Blocks and strategy.
    pub schedule: Schedule,
    /// What each kernel may use, bytes.
    pub vmem_limit_bytes: u64,
    /// The prediction for it.
    pub row: Row,
}

/// Cycles of one pass of the largest exact f32 product in a forward pass.
const EXACT_PRODUCT_CYCLES: usize = 4096;

/// The blocks of `space` that suit exact f32 products, six passes of the matrix unit each; all of
/// them for a pass that has none.
///
/// Time to compile and spills grow with the straight-line code of a product; the share of its fixed
/// cost shrinks, to a few per cent for the largest products here. The model prices one pass, so it
/// would save traffic with narrow blocks, which these kernels do not need and which leave the matrix
/// unit half empty.
fn for_exact_products(space: &Space, target: &Target) -> Space {
    let unit = target.mxu_dim.value;
    let most = EXACT_PRODUCT_CYCLES * target.mxu_macs_per_cycle.value as usize;
    // A backward pass has at least twice the products.
    let forward = suitable(space.forward.clone(), |plan| plan.blocks, unit, most);
    let backward = suitable(space.backward.clone(), |plan| plan.blocks, unit, most / 2);
    Space { forward, backward }
}

/// Those with at most `most` multiply-adds and, as far as there are such, sides of two units.
fn suitable<P: Copy>(plans: Vec<P>, blocks: fn(&P) -> Blocks, unit: usize, most: usize) -> Vec<P> {
    let sides = |plan: &P| {
        let Blocks { b, h, v } = blocks(plan);
        [b, h, v]
    };
    let largest = |side: usize| plans.iter().map(|plan| sides(plan)[side]).max();
    let least = [0, 1, 2].map(|side| largest(side).unwrap_or(0).min(2 * unit));
    let suits = |plan: &P| {
        let sides = sides(plan);
        let wide = (sides.into_iter().zip(least)).all(|(side, least)| side >= least);
        wide && sides.into_iter().fold(1, usize::saturating_mul) <= most
    };
    let suitable: Vec<P> = plans.iter().copied().filter(suits).collect();
    if suitable.is_empty() { plans } else { suitable }
}

/// Chooses the best blocks that leave room for the error of the prediction; if there are none, the best. `plan` makes
/// the request, [of a device](Request::of_device), and the candidates for a limit in bytes, requests that differ in
/// nothing else; `limit_bytes` is what the kernels may use, by default all they need.
///
/// # Errors
/// Those of `plan` and of [`tune::best`].
pub fn choose<P: OnHead, E: From<SimError>>(
    plan: impl Fn(u64) -> Result<(Request<P>, Space), E>,
    target: &'static Target,
    limit_bytes: Option<u64>,
) -> Result<Choice, E> {
    let capacity = target.vmem_usable_bytes.value;
    let most = limit_bytes.map_or(capacity, |limit| limit.min(capacity));
    let default = target.default_vmem_limit_bytes.value;
    let room = room_bytes(target);
    let for_blocks = match limit_bytes {
        Some(_) => most.saturating_sub(room).max(most / 4),
        None => default.min(most.saturating_sub(room)),
    };
    let within = |(request, space): &(Request<P>, Space)| -> Result<Row, SimError> {
        if request.product_passes() > 1 {
            let row = best(request, &for_exact_products(space, target))?;
            if row.report.verdict == Verdict::Fits {
                return Ok(row);
            }
        }
        best(request, space)
    };
    let mut planned = plan(for_blocks)?;
    let mut row = within(&planned)?;
    if row.report.verdict != Verdict::Fits {
        planned = plan(most)?;
        row = within(&planned)?;
    }
    let (request, _) = planned;
    let forward = (row.forward).or(row.backward.map(|plan| plan.blocks.into()));
    let one_chunk = |plan: ForwardPlan| BackwardPlan::in_blocks(plan.blocks, Some(plan.blocks.v));
    let backward = row.backward.or(row.forward.map(one_chunk));
    let (Some(forward), Some(backward)) = (forward, backward) else {
        return Err(E::from(SimError::NothingToTry));
    };
    let problem = request.device_problem();
    let schedule = schedule(
        problem,
        [row.forward.is_some(), row.backward.is_some()],
        forward,
        backward,
        request.setting(),
    )?;
    let needed = row.vmem_used_bytes.saturating_add(room);
    // An error beyond what was seen should not fail either, where there is room. Spills of exact f32
    // products grow faster than the blocks: 28 MiB were seen beside 32 MiB of buffers on v6e.
    let wanted = match limit_bytes {
        Some(_) => most,
        None if request.product_passes() > 1 => capacity,
        None => needed.saturating_mul(3) / 2,
    };
    Ok(Choice {
        schedule,
        vmem_limit_bytes: wanted.min(most),
        row,
    })
}

fn best<P: OnHead>(request: &Request<P>, space: &Space) -> Result<Row, SimError> {
    let best = tune::best(request, space, 1, || ())?;
    best.rows.into_iter().next().ok_or(SimError::NothingToTry)
}

#[cfg(test)]
mod tests {
    use tilecast_core::DType;
    use tilecast_core::kernels::linear_ce::{LinearCe, Options, Strategy};
    use tilecast_core::target::TARGETS;
    use tilecast_tpu::lower::F32Products;

    use super::*;

    fn chosen(
        target: &'static Target,
        limit_bytes: Option<u64>,
        products: F32Products,
        given: Option<Blocks>,
    ) -> Choice {
        chosen_of(&Strategy::ALL, target, limit_bytes, products, given)
    }

    fn chosen_of(
        strategies: &[Strategy],
        target: &'static Target,
        limit_bytes: Option<u64>,
        products: F32Products,
        given: Option<Blocks>,
    ) -> Choice {
        let problem = LinearCe::new(4096, 2048, 151643, DType::F32, Options::default()).unwrap();
        let plan = |limit_bytes| {
            let request = Request::of_device(problem, target, Some(limit_bytes)).products(products);
            let space = Space::new(&request, [true; 2], [given; 2], strategies);
            Ok::<_, SimError>((request, space))
        };
        choose(plan, target, limit_bytes).unwrap()
    }

    fn macs(blocks: Blocks) -> usize {
        blocks.b * blocks.h * blocks.v
    }

    #[test]
    fn exact_products_take_small_blocks_that_fill_the_matrix_unit() {
        for target in &TARGETS {
            let Schedule {
                forward, backward, ..
            } = chosen(target, None, F32Products::Exact, None).schedule;
            let most = 4096 * target.mxu_macs_per_cycle.value as usize;
            assert!(macs(forward) <= most, "{target}: {forward:?}");
            assert!(macs(backward) <= most / 2, "{target}: {backward:?}");
            for blocks in [forward, backward] {
                let least = 2 * target.mxu_dim.value;
                let narrowest = blocks.b.min(blocks.h).min(blocks.v);
                assert!(narrowest >= least, "{target}: {blocks:?}");
            }
        }
    }

    #[test]
    fn rounded_products_take_larger_blocks() {
        // With VMEM for blocks beyond those that exact products are kept to.
        let v5e = Target::by_name("v5e").unwrap();
        let [exact, rounded] = [F32Products::Exact, F32Products::Rounded]
            .map(|products| macs(chosen(v5e, Some(64 << 20), products, None).schedule.forward));
        assert!(rounded > exact, "{rounded} {exact}");
    }

    #[test]
    fn blocks_without_room_are_taken_where_none_leave_it() {
        let v5e = Target::by_name("v5e").unwrap();
        let (b, h, v) = (512, 512, 1024);
        let given = Some(Blocks { b, h, v });
        // Of one strategy: another may need less.
        let chosen = |limit_bytes| {
            let streaming = &[Strategy::Streaming];
            chosen_of(streaming, v5e, limit_bytes, F32Products::Exact, given)
        };
        let limit = (chosen(None).row.vmem_used_bytes).next_multiple_of(1 << 10);
        let choice = chosen(Some(limit));
        assert_eq!(choice.row.report.verdict, Verdict::Fits);
        assert_eq!(choice.vmem_limit_bytes, limit);
        let short = chosen(Some(limit - 1024));
        let reason = short.row.report.reason.unwrap();
        let named = format!("the limit is {}", crate::bytes_text((limit - 1024) as f64));
        assert!(reason.contains(&named), "{named}: {reason}");
    }

    #[test]
    fn narrow_blocks_are_left_where_vmem_is_short() {
        let v6e = Target::by_name("v6e").unwrap();
        let choice = chosen(v6e, Some(4 << 20), F32Products::Exact, None);
        assert_eq!(choice.row.report.verdict, Verdict::Fits);
        let blocks = choice.schedule.backward;
        assert!(blocks.b.min(blocks.h).min(blocks.v) < 512, "{blocks:?}");
    }

    #[test]
    fn given_blocks_are_taken_whatever_their_size() {
        let v6e = Target::by_name("v6e").unwrap();
        let (b, h, v) = (2048, 2048, 1024);
        let given = Blocks { b, h, v };
        let choice = chosen(v6e, None, F32Products::Exact, Some(given));
        assert_eq!(choice.schedule.forward, given);
        let huge = Blocks {
            b: i32::MAX as usize,
            ..given
        };
        let choice = chosen(v6e, None, F32Products::Exact, Some(huge));
        assert_ne!(choice.row.report.verdict, Verdict::Fits);
    }

    #[test]
    fn a_device_has_all_tokens_of_its_program() {
        // Half of the tokens would be one block of rows, which is never copied again and needs one buffer.
        let v7x = Target::by_name("v7x").unwrap();
        let (b, h, v) = (2048, 2048, 1024);
        let given = Some(Blocks { b, h, v });
        let choice = chosen(v7x, Some(60 << 20), F32Products::Rounded, given);
        let (_, ledger) = &choice.row.ledgers[0];
        let x = ledger.terms.iter().find(|term| term.name == "x").unwrap();
        assert_eq!(x.buffers, 2);
    }
}
