//! The grid of a kernel as a few kinds of steps, in the order in which they run.
//!
//! A grid has millions of steps and a handful of kinds: steps whose conditions have the same outcome run
//! the same code, and the pipeline around them copies a block when the next step needs another
//! one. [`Grid::new`] finds the kinds without visiting every step. It computes what conditions
//! and index maps compute, for a box of steps at once, and where the outcome is not the same for the
//! whole box, cuts it: at the first or last index of an axis, where a comparison changes its answer,
//! along a diagonal. Quotients of an index (`i // 2`, `i % 8`) are followed by grouping its axis.
//!
//! The result is a tree of runs, as loops write it: 7 times (3 times this, once that). It is exact
//! unless [`Grid::exact`] says otherwise: a grid may have more kinds of rows than are followed.
//!
//! What depends on prefetched scalars is computed from [`Scalars`], or from zeros.

mod dealt;
mod dependents;
mod evaluate;
mod form;
mod program;
mod search;
#[cfg(test)]
mod tests;

use thiserror::Error;
use tilecast_core::program::{Kernel, Launch};
use tilecast_tpu::mosaic::{DYNAMIC, Module};

use crate::signature::{Signature, Window, memref};
use dealt::Dealt;
pub(crate) use dependents::dependents;
use evaluate::Evaluator;
use form::AXES;
use program::{Numbers, Program};
use search::Search;

/// Most boxes that are looked at before the rest is taken to be like its first step.
const BOXES: usize = 20_000;

/// Most indices of an axis in a group.
const GROUP: i64 = 64;

/// Why a grid cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum GridError {
    /// Too many axes.
    #[error("a grid of {axes} axes; at most {AXES} are supported")]
    Axes {
        /// Their number.
        axes: usize,
    },
    /// A number of steps that is none.
    #[error("axis {axis} of the grid has {steps} steps")]
    Steps {
        /// Axis.
        axis: usize,
        /// What is said to be its number of steps.
        steps: i64,
    },
    /// More steps than can be counted.
    #[error("the grid {bounds:?} has too many steps")]
    TooLarge {
        /// Steps along each axis.
        bounds: Vec<i64>,
    },
    /// More windows than are followed.
    #[error("{windows} windows; at most 64 are supported")]
    Windows {
        /// Their number.
        windows: usize,
    },
    /// More given than the kernel has a place for.
    #[error("{found} {what} were given, the kernel has {expected}")]
    Given {
        /// What is counted.
        what: &'static str,
        /// How many the kernel has.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// Given scalars that do not fit the kernel.
    #[error("prefetched scalar {index} has {expected} elements, {found} were given")]
    Scalars {
        /// Which.
        index: usize,
        /// Elements of the argument.
        expected: usize,
        /// Elements given.
        found: usize,
    },
}

/// What a grid depends on and a module does not say.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Scalars {
    /// Steps along the axes that are known only at run time, in order; 1 where there is none.
    pub bounds: Vec<i64>,
    /// Elements of each prefetched scalar, row-major; zeros where there are none.
    pub prefetched: Vec<Option<Vec<i64>>>,
    /// Sizes of the prefetched scalars; filled in from the signature.
    shapes: Vec<Vec<i64>>,
}

impl Scalars {
    /// Run-time bounds and prefetched scalars.
    pub fn new(bounds: Vec<i64>, prefetched: Vec<Option<Vec<i64>>>) -> Self {
        Self {
            bounds,
            prefetched,
            shapes: Vec::new(),
        }
    }

    /// What the first launch of a kernel gets, and tables as they [typically](tilecast_core::groups::Groups::typical) are.
    pub fn of_first<K: Kernel>(launch: &Launch<K>) -> Self {
        Self::of(launch, 0)
    }

    /// The same of a launch in the iteration `counter` of the loop around it.
    pub(crate) fn of<K: Kernel>(launch: &Launch<K>, counter: i64) -> Self {
        let spec = launch.kernel.spec();
        let mut values = launch.scalars.iter();
        let scalars = spec.scalars().iter().map(|operand| {
            let values = values.by_ref().take(operand.len);
            Some(values.map(|scalar| scalar.evaluate(&|_| counter)).collect())
        });
        let tables = spec.tables().iter();
        let tables =
            tables.map(|table| Some(table.typical.iter().copied().map(i64::from).collect()));
        Self::new(Vec::new(), scalars.chain(tables).collect())
    }
}

/// Steps that run the same code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body {
    /// The first of them.
    pub at: Vec<i64>,
    /// How many there are.
    pub times: u64,
    /// Outcomes of conditions and numbers of iterations, in order: those by which it differs from other
    /// bodies, then those that depend on prefetched scalars.
    pub outcomes: Vec<i64>,
}

/// Steps that run the same code and are followed by the same copies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Kind {
    /// Number of its [`Body`].
    pub body: usize,
    /// One bit for each operand with a window: whether the next step needs another block. There
    /// is none after the last step.
    pub moved: u64,
}

/// A part of the sequence of steps.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Node {
    /// One step of that kind.
    Step(usize),
    /// Nodes one after the other, each so many times.
    Runs(Vec<(u64, usize)>),
}

/// The steps of one core.
#[derive(Clone, PartialEq, Debug)]
pub struct Grid {
    /// Steps along each axis, of this core.
    pub bounds: Vec<i64>,
    /// Codes that are run.
    pub bodies: Vec<Body>,
    /// Kinds of steps.
    pub kinds: Vec<Kind>,
    /// Parts of the sequence; children before parents, the whole last.
    pub nodes: Vec<Node>,
    /// Cores that have steps.
    pub cores: u64,
    /// Whether every step is of the kind it is said to be.
    pub exact: bool,
    /// What was taken to be so.
    pub assumptions: Vec<String>,
}

/// What the grids of a kernel are found with, whatever their bounds.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// The index map of each operand with a window.
    maps: Vec<Map>,
    /// The conditions and loops of the kernel that depend on grid indices.
    body: Program,
    /// Those that depend on prefetched scalars.
    by_scalars: Program,
    /// Values that they have.
    values: usize,
}

/// An index map.
#[derive(Clone, Debug)]
struct Map {
    program: Program,
    /// Whether it is an affine function of grid indices. Then it gives another block just where an index changes
    /// that it depends on, or never; scalars do not matter.
    is_affine: bool,
}

impl Programs {
    /// The programs of the kernel of `module`.
    ///
    /// # Errors
    /// Too many windows.
    pub(crate) fn of(module: &Module, signature: &Signature) -> Result<Self, GridError> {
        let windows = (signature.operands.iter()).filter_map(|operand| operand.window.as_ref());
        let sizes = [signature.bounds.len(), signature.scalars.len()];
        let mut numbers = Numbers::default();
        let map = |window: &Window| {
            let program = Program::map(module, window.map, sizes, &mut numbers);
            Map {
                is_affine: program.is_affine(),
                program,
            }
        };
        let maps: Vec<Map> = windows.map(map).collect();
        if maps.len() > 64 {
            let windows = maps.len();
            return Err(GridError::Windows { windows });
        }
        let body = Program::body(module, signature.function, sizes, &mut numbers);
        let by_scalars = match signature.scalars.is_empty() {
            true => Program::default(),
            false => Program::by_scalars(module, signature.function, sizes, &mut numbers),
        };
        Ok(Self {
            maps,
            body,
            by_scalars,
            values: numbers.count(),
        })
    }

    /// Whether a grid, or an outcome in it, depends on prefetched scalars.
    pub(crate) fn reads_scalars(&self) -> bool {
        let mut maps = self.maps.iter();
        self.body.reads_scalars()
            || !self.by_scalars.steps.is_empty()
            || maps.any(|map| !map.is_affine && map.program.reads_scalars())
    }

    /// The grid with these bounds in place of those of the signature, as [`Grid::new`].
    ///
    /// # Errors
    /// As for [`Grid::new`].
    pub(crate) fn grid(
        &self,
        module: &Module,
        signature: &Signature,
        bounds: &[i64],
        scalars: &Scalars,
        cores: u64,
    ) -> Result<Grid, GridError> {
        let mut assumptions = Vec::new();
        let mut bounds = checked(bounds, scalars, &mut assumptions)?;
        let whole = bounds.clone();
        let cores = i64::try_from(cores.max(1)).unwrap_or(i64::MAX);
        let dealt = Dealt::new(signature, &mut bounds, cores);
        let scalars = shaped(module, signature, scalars, &mut assumptions)?;
        let evaluator = Evaluator::new(self.values, &scalars);
        let mut search = Search::new(evaluator, &bounds, &self.body, &self.maps);
        search.run();
        let Search {
            bodies,
            kinds,
            nodes,
            exact,
            ..
        } = search;
        if !exact {
            assumptions.push(format!(
                "the grid {whole:?} has more than {BOXES} kinds of rows; the rest is taken to be \
                 like its first step"
            ));
        }
        let mut grid = Grid {
            bounds,
            bodies,
            kinds,
            nodes,
            cores: u64::try_from(dealt.cores).unwrap_or(1),
            exact,
            assumptions,
        };
        if let Some(first) = dealt.first {
            grid.keep_first(u64::try_from(first).unwrap_or(1));
        }
        for (kind, times) in grid.times().into_iter().enumerate() {
            grid.bodies[grid.kinds[kind].body].times += times;
        }
        self.add_outcomes(&mut grid.bodies, &scalars);
        Ok(grid)
    }

    /// Adds the outcomes of conditions that depend on scalars; the scalars themselves, where those are not followed.
    fn add_outcomes(&self, bodies: &mut [Body], scalars: &Scalars) {
        if self.by_scalars.steps.is_empty() {
            return;
        }
        let is_straight = self.by_scalars.is_straight();
        let mut evaluator = Evaluator::new(self.values, scalars);
        evaluator.know(&self.by_scalars);
        for body in bodies {
            if is_straight {
                evaluator.run_at(&self.by_scalars, &body.at);
                body.outcomes.append(&mut evaluator.trace);
            } else {
                let given = scalars.prefetched.iter().flatten();
                body.outcomes.extend(given.flatten());
            }
        }
    }
}

impl Grid {
    /// The steps of the first of `cores` cores, which has as many as any other: those of parallel axes are dealt to
    /// the cores.
    ///
    /// # Errors
    /// A grid of too many axes or steps, scalars that do not fit.
    pub fn new(
        module: &Module,
        signature: &Signature,
        scalars: &Scalars,
        cores: u64,
    ) -> Result<Self, GridError> {
        Programs::of(module, signature)?.grid(module, signature, &signature.bounds, scalars, cores)
    }

    /// Steps of this core.
    pub fn steps(&self) -> u64 {
        self.bodies.iter().map(|body| body.times).sum()
    }

    /// How many steps there are of each kind.
    pub fn times(&self) -> Vec<u64> {
        let mut times = vec![0; self.kinds.len()];
        let mut of_node = vec![0_u64; self.nodes.len()];
        if let Some(root) = of_node.last_mut() {
            *root = 1;
        }
        for (i, node) in self.nodes.iter().enumerate().rev() {
            match node {
                Node::Step(kind) => times[*kind] += of_node[i],
                Node::Runs(runs) => {
                    for &(count, child) in runs {
                        of_node[child] += count * of_node[i];
                    }
                }
            }
        }
        times
    }

    /// The kinds of steps in order, `from..to` of them.
    pub fn sequence(&self, from: u64, to: u64) -> Vec<usize> {
        let sizes = self.sizes();
        let mut out = Vec::new();
        if let Some(root) = self.nodes.len().checked_sub(1) {
            self.part(root, 0, from, to, &sizes, &mut out);
        }
        out
    }

    /// Steps of each node.
    pub(crate) fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            sizes.push(match node {
                Node::Step(_) => 1,
                Node::Runs(runs) => runs.iter().map(|&(n, child)| n * sizes[child]).sum(),
            });
        }
        sizes
    }

    fn part(
        &self,
        node: usize,
        start: u64,
        from: u64,
        to: u64,
        sizes: &[u64],
        out: &mut Vec<usize>,
    ) {
        match &self.nodes[node] {
            Node::Step(kind) if (from..to).contains(&start) => out.push(*kind),
            Node::Step(_) => {}
            Node::Runs(runs) => {
                let mut at = start;
                for &(count, child) in runs {
                    let size = sizes[child];
                    let first = from.saturating_sub(at) / size;
                    for i in first.min(count)..count {
                        let begin = at + i * size;
                        if begin >= to {
                            return;
                        }
                        self.part(child, begin, from, to, sizes, out);
                    }
                    at += count * size;
                }
            }
        }
    }
}

/// `bounds` with those that are known only at run time filled in.
fn checked(
    bounds: &[i64],
    scalars: &Scalars,
    assumptions: &mut Vec<String>,
) -> Result<Vec<i64>, GridError> {
    let dynamic = bounds.iter().filter(|&&steps| steps == DYNAMIC).count();
    const BOUNDS: &str = "bounds of axes that are known only at run time";
    at_most(BOUNDS, dynamic, scalars.bounds.len())?;
    let mut given = scalars.bounds.iter();
    let whole = bounds;
    let mut bounds = whole.to_vec();
    let axes = bounds.len();
    if axes > AXES {
        return Err(GridError::Axes { axes });
    }
    let mut total = 1_i64;
    for (axis, steps) in bounds.iter_mut().enumerate() {
        if *steps == DYNAMIC {
            *steps = given.next().copied().unwrap_or_else(|| {
                assumptions.push(format!(
                    "axis {axis} of the grid has a length known only at run time, taken to be 1"
                ));
                1
            });
        }
        if *steps < 0 || i32::try_from(*steps).is_err() {
            let steps = *steps;
            return Err(GridError::Steps { axis, steps });
        }
        let product = total.checked_mul(*steps);
        let large = || GridError::TooLarge {
            bounds: whole.to_vec(),
        };
        total = product.ok_or_else(large)?;
    }
    Ok(bounds)
}

fn at_most(what: &'static str, expected: usize, found: usize) -> Result<(), GridError> {
    match found <= expected {
        true => Ok(()),
        false => Err(GridError::Given {
            what,
            expected,
            found,
        }),
    }
}

fn shaped(
    module: &Module,
    signature: &Signature,
    scalars: &Scalars,
    assumptions: &mut Vec<String>,
) -> Result<Scalars, GridError> {
    let (expected, found) = (signature.scalars.len(), scalars.prefetched.len());
    at_most("prefetched scalars", expected, found)?;
    let mut scalars = scalars.clone();
    scalars.prefetched.resize(expected, None);
    for (index, &value) in signature.scalars.iter().enumerate() {
        let shape = memref(module, value).map_or(Vec::new(), |(shape, _)| shape);
        let expected: usize = shape.iter().product();
        match &scalars.prefetched[index] {
            Some(list) if list.len() != expected => {
                let found = list.len();
                return Err(GridError::Scalars {
                    index,
                    expected,
                    found,
                });
            }
            Some(_) => {}
            None => assumptions.push(format!("prefetched scalar {index} is taken to be zero")),
        }
        scalars
            .shapes
            .push(shape.iter().map(|&n| n as i64).collect());
    }
    Ok(scalars)
}
