//! Rolled loops.
//!
//! An iteration of a loop without branches stands for all. A loop with branches, such as a pipeline that a kernel makes
//! itself, does different things in its first, last and other iterations. Its scalars are computed for every iteration,
//! which shows the way each takes through the branches; one iteration of each way is scheduled, and counts as often as
//! its way is taken.

use rustc_hash::FxHashMap;
use tilecast_tpu::mosaic::{self as ir, Op};

use super::super::{Event, Region, ScheduleError};
use super::scalars::ScalarOp;
use super::{Known, Walk};

/// Most scalar operations that are computed to follow a loop; the rest of the iterations is taken to be like those
/// before.
const FOLLOWED: usize = 100_000_000;

/// What a loop body does with scalars.
#[derive(Debug)]
enum Step {
    /// Computes the result of an operation.
    Compute {
        op: ScalarOp,
        operands: Vec<usize>,
        result: usize,
    },
    /// A result that is not followed.
    Unknown(usize),
    /// Loads a prefetched scalar.
    Load(Op, usize),
    /// Takes one of two ways, each of which yields values for the results.
    Branch {
        condition: usize,
        ways: [Way; 2],
        results: Vec<usize>,
    },
    /// Runs a loop.
    Loop {
        bounds: [usize; 3],
        initial: Vec<usize>,
        arguments: Vec<usize>,
        body: Way,
        results: Vec<usize>,
    },
    /// Runs a loop as long as a condition holds.
    While {
        initial: Vec<usize>,
        tested: Vec<usize>,
        until: Way,
        arguments: Vec<usize>,
        body: Way,
        results: Vec<usize>,
    },
}

/// Steps one after the other, and the values that they hand on.
#[derive(Debug, Default)]
struct Way {
    steps: Vec<Step>,
    yields: Vec<usize>,
    /// Of a loop that has one.
    condition: Option<usize>,
}

/// An iteration that was scheduled, and what it added.
struct Sample {
    regions: [usize; 2],
    transfers: [usize; 2],
    branch_cycles: f64,
    iterations: f64,
    times: f64,
}

impl Walk<'_> {
    /// A rolled loop.
    pub(super) fn repeat(&mut self, op: Op) -> Result<(), ScheduleError> {
        self.end_block();
        let operands = self.module.operands(op).to_vec();
        let Some(body) = self.module.entry(op, 0) else {
            return Ok(());
        };
        let bounds = [0, 1, 2].map(|i| self.scalar(operands[i]));
        let trips = trips(bounds).unwrap_or_else(|| {
            self.done.unknown_trips += 1;
            1
        });
        let arguments = self.module.arguments(body).to_vec();
        self.copy(&operands[3..], &arguments[1..]);
        self.copy(&operands[3..], self.module.results(op));
        if trips == 0 {
            return Ok(());
        }
        let mut branches = false;
        self.module.walk(op, &mut |inner| {
            branches |= inner != op && {
                let name = self.module.op_name(inner);
                matches!(name, "scf.if" | "scf.for" | "scf.while")
            };
        });
        match branches {
            true => self.ways(op, body, bounds, trips),
            false => {
                self.know(arguments[0].index(), Known::Scalar(bounds[0]));
                let sample = self.iteration(&[body])?;
                self.scale(&sample, trips as f64);
                self.yielded(&self.way(body), self.module.results(op));
                Ok(())
            }
        }
    }

    /// Schedules an iteration for each way through the body.
    fn ways(
        &mut self,
        op: Op,
        body: ir::Block,
        [first, _, step]: [Option<i64>; 3],
        trips: i64,
    ) -> Result<(), ScheduleError> {
        let arguments = self.module.arguments(body).to_vec();
        let way = self.way(body);
        let mut samples: FxHashMap<u64, Sample> = FxHashMap::default();
        let mut budget = FOLLOWED;
        let mut followed = 0;
        while followed < trips && budget > 0 {
            let index = first.map(|first| first + step.unwrap_or(1) * followed);
            self.know(arguments[0].index(), Known::Scalar(index));
            let carried = self.known_of(&arguments);
            let mut path = 0;
            self.follow(&way, &mut path, &mut budget);
            self.count(&mut samples, path, (&arguments, carried), &[body])?;
            self.yielded(&way, &arguments[1..]);
            followed += 1;
        }
        if followed < trips {
            self.done.unknown_trips += 1;
        }
        let rest = trips as f64 / followed as f64;
        for sample in samples.values() {
            self.scale(sample, sample.times * rest);
        }
        self.copy(&arguments[1..], self.module.results(op));
        Ok(())
    }

    /// A rolled loop that goes on as long as a condition holds: one that cannot be computed, for an iteration.
    pub(super) fn repeat_while(&mut self, op: Op) -> Result<(), ScheduleError> {
        self.end_block();
        let bodies = [0, 1].map(|region| self.module.entry(op, region));
        let [Some(test), Some(body)] = bodies else {
            return Ok(());
        };
        let [tested, arguments] = [test, body].map(|block| self.module.arguments(block).to_vec());
        let results = self.module.results(op).to_vec();
        self.copy(self.module.operands(op), &tested);
        let [until, way] = [self.way(test), self.way(body)];
        let mut samples: FxHashMap<u64, Sample> = FxHashMap::default();
        let mut budget = FOLLOWED;
        let mut followed = 0;
        loop {
            let carried = self.known_of(&tested);
            let mut path = 0;
            self.follow(&until, &mut path, &mut budget);
            let goes_on = self.goes_on(&until);
            self.yielded(&until, &results);
            if goes_on.is_none() && followed == 0 {
                self.done.unknown_trips += 1;
            }
            if !goes_on.unwrap_or(followed == 0) || budget == 0 {
                break;
            }
            self.yielded(&until, &arguments);
            self.follow(&way, &mut path, &mut budget);
            self.count(&mut samples, path, (&tested, carried), &[test, body])?;
            self.yielded(&way, &tested);
            followed += 1;
        }
        for sample in samples.values() {
            self.scale(sample, sample.times);
        }
        Ok(())
    }

    /// Counts an iteration that takes the way `path`, and schedules it if it is the first that does: its `parts`, with
    /// what was known of its arguments when it began.
    fn count(
        &mut self,
        samples: &mut FxHashMap<u64, Sample>,
        path: u64,
        (arguments, carried): (&[ir::Value], Vec<Known>),
        parts: &[ir::Block],
    ) -> Result<(), ScheduleError> {
        if let Some(sample) = samples.get_mut(&path) {
            sample.times += 1.0;
            return Ok(());
        }
        self.make_known(arguments, carried);
        samples.insert(path, self.iteration(parts)?);
        Ok(())
    }

    /// Schedules one iteration, the parts of which follow each other.
    fn iteration(&mut self, parts: &[ir::Block]) -> Result<Sample, ScheduleError> {
        let (regions, transfers) = (self.done.regions.len(), self.done.transfers.len());
        let (branch_cycles, iterations) = (self.done.branch_cycles, self.done.iterations);
        self.since = regions;
        let mut handed_on = Vec::new();
        for (i, &part) in parts.iter().enumerate() {
            if i > 0 {
                self.copy(&handed_on, self.module.arguments(part));
            }
            handed_on = self.ops(part)?;
        }
        self.end_block();
        self.since = self.done.regions.len();
        self.done.iterations += 1.0;
        Ok(Sample {
            regions: [regions, self.done.regions.len()],
            transfers: [transfers, self.done.transfers.len()],
            branch_cycles: self.done.branch_cycles - branch_cycles,
            iterations: self.done.iterations - iterations,
            times: 1.0,
        })
    }

    /// Schedules a region that is taken not to run, for what it depends on is computed in vectors.
    pub(super) fn exception(&mut self, body: ir::Block) -> Result<(), ScheduleError> {
        self.pass_by(body)?;
        self.done.exceptions += 1;
        Ok(())
    }

    /// Schedules a region that does not run. It takes no time, but its spills have their place in VMEM as all have.
    pub(super) fn pass_by(&mut self, body: ir::Block) -> Result<(), ScheduleError> {
        let before = std::mem::take(&mut self.done);
        self.since = 0;
        self.ops(body)?;
        self.end_block();
        let passed_by = std::mem::replace(&mut self.done, before).regions;
        let never = |region| Region {
            times: 0.0,
            ..region
        };
        self.done.regions.extend(passed_by.into_iter().map(never));
        // What is not passed through hides no branch.
        self.since = self.done.regions.len();
        Ok(())
    }

    /// Counts an iteration `times` times.
    fn scale(&mut self, sample: &Sample, times: f64) {
        let ([a, b], [c, d]) = (sample.regions, sample.transfers);
        self.done.regions[a..b]
            .iter_mut()
            .for_each(|region| region.times *= times);
        // The copies of all iterations run beside the loop: those of one beside the one before.
        for transfer in &mut self.done.transfers[c..d] {
            transfer.after = match &mut transfer.event {
                Event::Start { times: all, .. } => {
                    *all *= times;
                    a
                }
                Event::Wait => b,
            };
        }
        self.done.branch_cycles += (times - 1.0) * sample.branch_cycles;
        self.done.iterations += (times - 1.0) * sample.iterations;
    }

    /// The scalars of a body.
    fn way(&self, body: ir::Block) -> Way {
        let mut way = Way::default();
        for &op in self.module.block_ops(body) {
            let indices = |values: &[ir::Value]| values.iter().map(|value| value.index()).collect();
            let operands: Vec<usize> = indices(self.module.operands(op));
            let results: Vec<usize> = indices(self.module.results(op));
            match self.module.op_name(op) {
                "scf.yield" | "tpu.yield" => way.yields = operands,
                "scf.condition" => {
                    way.condition = Some(operands[0]);
                    way.yields = operands[1..].to_vec();
                }
                "scf.while" => {
                    let blocks = [0, 1].map(|region| self.module.entry(op, region));
                    if let [Some(test), Some(body)] = blocks {
                        way.steps.push(Step::While {
                            initial: operands,
                            tested: indices(self.module.arguments(test)),
                            until: self.way(test),
                            arguments: indices(self.module.arguments(body)),
                            body: self.way(body),
                            results,
                        });
                    }
                }
                "scf.if" => way.steps.push(Step::Branch {
                    condition: operands[0],
                    ways: [0, 1].map(|i| {
                        let block = self.module.entry(op, i);
                        block.map_or_else(Way::default, |block| self.way(block))
                    }),
                    results,
                }),
                "scf.for" => {
                    if let Some(block) = self.module.entry(op, 0) {
                        way.steps.push(Step::Loop {
                            bounds: [operands[0], operands[1], operands[2]],
                            initial: operands[3..].to_vec(),
                            arguments: indices(self.module.arguments(block)),
                            body: self.way(block),
                            results,
                        });
                    }
                }
                "tpu.region" | "tpu.trace" => {
                    if let Some(block) = self.module.entry(op, 0) {
                        let inner = self.way(block);
                        way.steps.extend(inner.steps);
                        way.steps
                            .extend(results.iter().map(|&result| Step::Unknown(result)));
                    }
                }
                _ => way.steps.extend(self.step(op, operands, &results)),
            }
        }
        way
    }

    fn step(&self, op: Op, operands: Vec<usize>, results: &[usize]) -> Option<Step> {
        let &[result] = results else {
            return None;
        };
        let value = self.module.results(op)[0];
        if self.module.value_kind(value).shape().is_some() {
            return None;
        }
        Some(match ScalarOp::of(self.module, op) {
            Some(op) => Step::Compute {
                op,
                operands,
                result,
            },
            None if self.module.op_name(op) == "memref.load" => Step::Load(op, result),
            None => Step::Unknown(result),
        })
    }

    /// Computes scalars; `path` becomes a hash of the way taken.
    fn follow(&mut self, way: &Way, path: &mut u64, budget: &mut usize) {
        *budget = budget.saturating_sub(way.steps.len().max(1));
        for step in &way.steps {
            match step {
                Step::Compute {
                    op,
                    operands,
                    result,
                } => {
                    let value = |i: usize| match self.known[*operands.get(i)?] {
                        Known::Scalar(number) => number,
                        _ => None,
                    };
                    self.know(*result, Known::Scalar(op.compute(value)));
                }
                Step::Unknown(result) => self.know(*result, Known::Scalar(None)),
                Step::Load(op, result) => self.know(*result, Known::Scalar(self.prefetched(*op))),
                Step::Branch {
                    condition,
                    ways,
                    results,
                } => {
                    let taken = match self.known[*condition] {
                        Known::Scalar(Some(0)) => 1,
                        Known::Scalar(None) if self.computed[*condition] => 1,
                        _ => 0,
                    };
                    *path = mix(*path, taken as u64);
                    self.follow(&ways[taken], path, budget);
                    self.hand_on(&ways[taken].yields, results);
                }
                Step::Loop {
                    bounds,
                    initial,
                    arguments,
                    body,
                    results,
                } => {
                    let bounds = bounds.map(|i| match self.known[i] {
                        Known::Scalar(number) => number,
                        _ => None,
                    });
                    let trips = trips(bounds).unwrap_or(1);
                    *path = mix(*path, trips as u64);
                    self.hand_on(initial, &arguments[1..]);
                    self.hand_on(initial, results);
                    for i in 0..trips {
                        if *budget == 0 {
                            break;
                        }
                        let index = bounds[0].map(|first| first + bounds[2].unwrap_or(1) * i);
                        self.know(arguments[0], Known::Scalar(index));
                        self.follow(body, path, budget);
                        self.hand_on(&body.yields, &arguments[1..]);
                        self.hand_on(&body.yields, results);
                    }
                }
                Step::While {
                    initial,
                    tested,
                    until,
                    arguments,
                    body,
                    results,
                } => {
                    self.hand_on(initial, tested);
                    let mut trips = 0;
                    loop {
                        self.follow(until, path, budget);
                        self.hand_on(&until.yields, results);
                        let goes_on = self.goes_on(until).unwrap_or(trips == 0);
                        if !goes_on || *budget == 0 {
                            break;
                        }
                        self.hand_on(&until.yields, arguments);
                        self.follow(body, path, budget);
                        self.hand_on(&body.yields, tested);
                        trips += 1;
                    }
                    *path = mix(*path, trips);
                }
            }
        }
    }

    /// Whether a loop goes on whose condition is that of `until`, as far as it is known.
    fn goes_on(&self, until: &Way) -> Option<bool> {
        match self.known[until.condition?] {
            Known::Scalar(number) => Some(number? != 0),
            _ => None,
        }
    }

    /// What a way yields, vectors too, is known of values.
    fn yielded(&mut self, way: &Way, to: &[ir::Value]) {
        let yields = way.yields.iter().map(|&i| self.known[i].clone()).collect();
        self.make_known(to, yields);
    }

    fn known_of(&self, values: &[ir::Value]) -> Vec<Known> {
        let known = |value: &ir::Value| self.known[value.index()].clone();
        values.iter().map(known).collect()
    }

    fn make_known(&mut self, values: &[ir::Value], known: Vec<Known>) {
        for (value, known) in values.iter().zip(known) {
            self.know(value.index(), known);
        }
    }

    /// Values become those of others; what is not a scalar stays.
    fn hand_on(&mut self, from: &[usize], to: &[usize]) {
        let values: Vec<Known> = from.iter().map(|&i| self.known[i].clone()).collect();
        for (value, &to) in values.into_iter().zip(to) {
            if let Known::Scalar(_) = value {
                self.know(to, value);
            }
        }
    }
}

/// Iterations of a loop from the first to before the last index.
fn trips([first, last, step]: [Option<i64>; 3]) -> Option<i64> {
    let span = last?.saturating_sub(first?).max(0);
    let step = step.unwrap_or(1).max(1);
    Some(span.div_euclid(step) + i64::from(span.rem_euclid(step) > 0))
}

/// A hash of a sequence of small numbers.
fn mix(path: u64, next: u64) -> u64 {
    (path ^ (next + 1))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
}
