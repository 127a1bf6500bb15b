//! [`Search`]: candidates of both passes, judged and put together to rows.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use tilecast_core::program::Kernel;

use super::{Best, Row, Space, products};
use crate::op::{PassReport, Request, SimError};
use crate::problem::{PassBlocks, Problem};
use crate::reuse::Known;
use crate::verdict::Verdict;

/// Searches for one problem on one target. What one of them has found of the code of kernels, the next knows: with
/// another limit most of it is the same.
#[derive(Debug)]
pub struct Search<P: Problem> {
    request: Request<P>,
    known: Known,
}

impl<P: Problem> Search<P> {
    /// Nothing is known yet.
    pub fn new(request: Request<P>) -> Self {
        Self {
            known: request.nothing_known(),
            request,
        }
    }

    /// What is searched for.
    pub const fn request(&self) -> &Request<P> {
        &self.request
    }

    /// As [`best`](super::best).
    ///
    /// # Errors
    /// As for [`tune`](super::tune).
    pub fn best(
        &mut self,
        space: &Space<P::Blocks>,
        top: usize,
        progress: impl FnMut(),
    ) -> Result<Best<P::Blocks>, SimError> {
        let request = self.request;
        self.best_of(&request, space, top, progress)
    }

    /// The same for the request [at the default limit](Request::at_default_limit), whose candidates `space` has.
    ///
    /// # Errors
    /// As for [`tune`](super::tune).
    pub fn best_at_default_limit(
        &mut self,
        space: &Space<P::Blocks>,
        top: usize,
    ) -> Result<Best<P::Blocks>, SimError> {
        self.best_of(&self.request.at_default_limit(), space, top, || ())
    }

    fn best_of(
        &mut self,
        request: &Request<P>,
        space: &Space<P::Blocks>,
        top: usize,
        progress: impl FnMut(),
    ) -> Result<Best<P::Blocks>, SimError> {
        let best = search(request, space, top.max(1), &mut self.known, progress)?;
        match best.rows.first() {
            Some(row) if row.report.verdict != Verdict::Fits && best.slower > 0 => {
                search(request, space, usize::MAX, &mut self.known, || ())
            }
            _ => Ok(best),
        }
    }
}

/// Judges what may be among the first `top` rows, and makes rows of it.
fn search<P: Problem>(
    request: &Request<P>,
    space: &Space<P::Blocks>,
    top: usize,
    known: &mut Known,
    mut progress: impl FnMut(),
) -> Result<Best<P::Blocks>, SimError> {
    // Of what comes before all that takes longer.
    let time = |passes: &[&PassReport<P::Kernel>]| -> Result<Option<f64>, SimError> {
        let most = request.operations_preferred();
        if passes.iter().any(|pass| pass.operations() > most) {
            return Ok(None);
        }
        Ok(request.total(passes)?.total.map(|total| total.time_s))
    };
    let programs: Result<Vec<_>, _> = (space.forward.iter())
        .map(|&plan| request.forward_program(plan))
        .collect();
    let forward = candidates_judged(
        programs?,
        |i| space.forward[i].blocks,
        top,
        |program| request.floor_s(program, 1),
        |program| request.judge(program, known),
        |pass| time(&[pass]),
        &mut progress,
    )?;
    let best_forward = fastest(&forward, |pass| Row::new(request, None, None, &[pass]))?;
    let beside = best_forward.and_then(|i| forward[i].as_ref());
    let time_of_backward = |pass: &PassReport<P::Kernel>| match beside {
        Some(forward) => time(&[forward, pass]),
        None => time(&[pass]),
    };
    let mut plans = space.backward.clone();
    let programs: Result<Vec<_>, _> = (plans.iter())
        .map(|&plan| request.backward_program(plan))
        .collect();
    let mut backward = candidates_judged(
        programs?,
        |i| plans[i].blocks,
        top,
        |program| request.floor_beside_others_s(program, 3),
        |program| request.judge(program, known),
        time_of_backward,
        &mut progress,
    )?;
    let mut together = 0;
    let vocab = request.device_problem().vocab();
    for plan in products::put_together(&plans, &backward, vocab, request.operations_preferred()) {
        if together == top {
            break;
        }
        let pass = request.judge(request.backward_program(plan)?, known)?;
        together += usize::from(time_of_backward(&pass)?.is_some());
        plans.push(plan);
        backward.push(Some(pass));
    }
    let best_backward = fastest(&backward, |pass| Row::new(request, None, None, &[pass]))?;
    let row = |i: Option<usize>, j: Option<usize>| -> Result<Option<Row<P::Blocks>>, SimError> {
        let judged = [
            i.map(|i| forward[i].as_ref()),
            j.map(|j| backward[j].as_ref()),
        ];
        let wanted = judged.into_iter().flatten();
        let Some(passes) = wanted.collect::<Option<Vec<&PassReport<P::Kernel>>>>() else {
            return Ok(None);
        };
        let forward = i.map(|i| space.forward[i]);
        let backward = j.map(|j| plans[j]);
        Row::new(request, forward, backward, &passes).map(Some)
    };
    let mut rows = Vec::with_capacity(space.len());
    for i in 0..forward.len() {
        rows.extend(row(Some(i), best_backward)?);
    }
    for j in 0..backward.len() {
        // That pair is among the rows of the forward pass.
        if best_forward.is_none() || Some(j) != best_backward {
            rows.extend(row(best_forward, Some(j))?);
        }
    }
    rows.sort_by(Row::rank);
    let passes = forward.iter().chain(&backward);
    let slower = passes.filter(|pass| pass.is_none()).count();
    Ok(Best { rows, slower })
}

/// Judges candidates of one pass, those of the blocks with the lowest floor first, but for those whose floors are above
/// the times of `top` that fit. If none can be left out, those of the largest blocks come first, for smaller ones have
/// kernels that [begin like theirs](Known). Candidates of the same `blocks` follow each other, for they share kernels.
/// Reports are in the order of the candidates.
fn candidates_judged<P, B: PassBlocks, K: Kernel>(
    programs: Vec<P>,
    blocks: impl Fn(usize) -> B,
    top: usize,
    floor_s: impl Fn(&P) -> f64,
    mut judge: impl FnMut(P) -> Result<PassReport<K>, SimError>,
    time_s: impl Fn(&PassReport<K>) -> Result<Option<f64>, SimError>,
    progress: &mut impl FnMut(),
) -> Result<Vec<Option<PassReport<K>>>, SimError> {
    let mut reports: Vec<Option<PassReport<K>>> = programs.iter().map(|_| None).collect();
    let floors = programs.iter().map(floor_s).collect::<Vec<f64>>();
    let mut lowest: BTreeMap<B, f64> = BTreeMap::new();
    for (i, &floor) in floors.iter().enumerate() {
        let lowest = lowest.entry(blocks(i)).or_insert(floor);
        *lowest = lowest.min(floor);
    }
    let mut candidates: Vec<(usize, P)> = programs.into_iter().enumerate().collect();
    let all = top >= candidates.len();
    candidates.sort_by(|&(i, _), &(j, _)| {
        let [a, b] = [blocks(i), blocks(j)];
        match all {
            true => b.cmp(&a),
            false => (lowest[&a].total_cmp(&lowest[&b]))
                .then(a.cmp(&b))
                .then(floors[i].total_cmp(&floors[j])),
        }
    });
    let mut best_s: Vec<f64> = Vec::new();
    for (i, program) in candidates {
        progress();
        if best_s.len() >= top && floors[i] > best_s[top - 1] {
            continue;
        }
        let report = judge(program)?;
        if let Some(time) = time_s(&report)? {
            best_s.insert(best_s.partition_point(|&better| better <= time), time);
            best_s.truncate(top);
        }
        reports[i] = Some(report);
    }
    Ok(reports)
}

/// The best of those judged of one pass, were it alone.
fn fastest<K: Kernel, B: PassBlocks>(
    passes: &[Option<PassReport<K>>],
    row: impl Fn(&PassReport<K>) -> Result<Row<B>, SimError>,
) -> Result<Option<usize>, SimError> {
    let mut best: Option<(usize, Row<B>)> = None;
    for (i, pass) in passes.iter().enumerate() {
        let Some(pass) = pass else { continue };
        let row = row(pass)?;
        if (best.as_ref()).is_none_or(|(_, best)| row.rank(best) == Ordering::Less) {
            best = Some((i, row));
        }
    }
    Ok(best.map(|(i, _)| i))
}
