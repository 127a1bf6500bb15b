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

mod evaluate;
mod form;
mod program;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use thiserror::Error;
use tilecast_tpu::mosaic::{DYNAMIC, Module, Op, Value};

use crate::signature::{Signature, memref};
use evaluate::Evaluator;
use form::{AXES, Cut, Form};
use program::Program;

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
}

/// Steps that run the same code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body {
    /// The first of them.
    pub at: Vec<i64>,
    /// How many there are.
    pub times: u64,
    /// Outcomes of conditions and numbers of iterations, in order, by which it differs from other bodies.
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

impl Grid {
    /// The steps of the first of `cores` cores, which has as many as any other: a parallel axis is dealt to
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
        let mut assumptions = Vec::new();
        let mut bounds = bounds(signature, scalars, &mut assumptions)?;
        let whole = bounds.clone();
        let mut busy = 1;
        let cores = i64::try_from(cores.max(1)).unwrap_or(i64::MAX);
        if let Some(axis) = split_axis(signature, &bounds, cores) {
            let all = bounds[axis];
            bounds[axis] = all / cores + i64::from(all % cores != 0);
            busy = all / bounds[axis] + i64::from(all % bounds[axis] != 0);
        }
        let scalars = shaped(module, signature, scalars, &mut assumptions)?;
        let windows = (signature.operands.iter()).filter_map(|operand| operand.window.as_ref());
        let (axes, count) = (bounds.len(), signature.scalars.len());
        let maps: Vec<Program> = windows
            .map(|window| Program::map(module, window.map, axes, count))
            .collect();
        if maps.len() > 64 {
            let windows = maps.len();
            return Err(GridError::Windows { windows });
        }
        let body = Program::body(module, signature.function, axes, count);
        let mut search = Search {
            groups: [1; AXES],
            evaluator: Evaluator::new(module.value_count(), &scalars),
            bounds: &bounds,
            body: &body,
            maps: &maps,
            rest: [0; AXES],
            boxes: 0,
            exact: true,
            by_trace: HashMap::new(),
            by_kind: HashMap::new(),
            by_node: HashMap::new(),
            bodies: Vec::new(),
            kinds: Vec::new(),
            nodes: Vec::new(),
        };
        search.group();
        search.all();
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
        let mut grid = Self {
            bounds,
            bodies,
            kinds,
            nodes,
            cores: u64::try_from(busy).unwrap_or(1),
            exact,
            assumptions,
        };
        for (kind, times) in grid.times().into_iter().enumerate() {
            grid.bodies[grid.kinds[kind].body].times += times;
        }
        Ok(grid)
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

/// For each value of a function, whether it depends on one of `seeds`.
pub(crate) fn dependents(module: &Module, function: Op, seeds: &[Value]) -> Vec<bool> {
    program::dependents(module, function, seeds)
}

/// The axis that is dealt to cores. The compiler deals the steps of all parallel axes together, so that is the
/// outermost that leaves no core with more steps than another; if none does, the outermost of several.
fn split_axis(signature: &Signature, bounds: &[i64], cores: i64) -> Option<usize> {
    let parallel = signature.parallel();
    let several =
        || (0..bounds.len()).filter(|&axis| parallel.get(axis) == Some(&true) && bounds[axis] > 1);
    (several().find(|&axis| bounds[axis] % cores == 0)).or_else(|| several().next())
}

fn bounds(
    signature: &Signature,
    scalars: &Scalars,
    assumptions: &mut Vec<String>,
) -> Result<Vec<i64>, GridError> {
    let mut given = scalars.bounds.iter();
    let mut bounds = signature.bounds.clone();
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
            bounds: signature.bounds.clone(),
        };
        total = product.ok_or_else(large)?;
    }
    Ok(bounds)
}

fn shaped(
    module: &Module,
    signature: &Signature,
    scalars: &Scalars,
    assumptions: &mut Vec<String>,
) -> Result<Scalars, GridError> {
    let mut scalars = scalars.clone();
    scalars.prefetched.resize(signature.scalars.len(), None);
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

/// Builds the tree, from the outermost axis inwards.
struct Search<'a> {
    evaluator: Evaluator<'a>,
    bounds: &'a [i64],
    /// Indices of each axis in a group.
    groups: [i64; AXES],
    /// The index in its group, for each axis.
    rest: [i64; AXES],
    body: &'a Program,
    maps: &'a [Program],
    boxes: usize,
    exact: bool,
    by_trace: HashMap<Vec<i64>, usize>,
    by_kind: HashMap<Kind, usize>,
    by_node: HashMap<Node, usize>,
    bodies: Vec<Body>,
    kinds: Vec<Kind>,
    nodes: Vec<Node>,
}

impl Search<'_> {
    /// Finds by how much the indices of each axis are divided.
    fn group(&mut self) {
        for (axis, &steps) in self.bounds.iter().enumerate() {
            self.evaluator.extent.last[axis] = (steps - 1).max(0);
        }
        self.evaluator.everything = true;
        let indices: Vec<Form> = (0..self.bounds.len())
            .map(|axis| self.index(axis))
            .collect();
        for program in self.maps.iter().chain([self.body]) {
            // Nothing is asked to be cut where every branch is followed.
            let _ = self.evaluator.run(program, &indices);
        }
        self.evaluator.everything = false;
        self.evaluator.trace.clear();
        for (axis, &steps) in self.bounds.iter().enumerate() {
            let group = self.evaluator.groups[axis];
            if group <= GROUP && steps > 2 * group {
                self.groups[axis] = group;
            }
        }
    }

    /// An index of the box.
    fn index(&self, axis: usize) -> Form {
        let mut form = Form::constant(self.rest[axis]);
        form.coefficients[axis] = self.groups[axis];
        form
    }

    fn all(&mut self) {
        if self.bounds.contains(&0) {
            return;
        }
        // Every cut is of an axis, and each axis makes those that are asked of it.
        if let Ok(root) = self.axis(0)
            && root + 1 != self.nodes.len()
        {
            self.nodes.push(Node::Runs(vec![(1, root)]));
        }
    }

    /// The node of all indices of an axis and those inside it.
    fn axis(&mut self, axis: usize) -> Result<usize, Cut> {
        let Some(&steps) = self.bounds.get(axis) else {
            return self.step();
        };
        let group = self.groups[axis];
        let mut parts = vec![(0, steps / group)];
        if steps % group != 0 {
            parts.insert(0, (steps / group, steps / group + 1));
        }
        parts.retain(|(start, end)| start < end);
        let mut runs: Vec<(u64, usize)> = Vec::new();
        while let Some((start, end)) = parts.pop() {
            self.evaluator.extent.first[axis] = start;
            self.evaluator.extent.last[axis] = end - 1;
            match self.within(axis, group.min(steps - start * group)) {
                Ok(node) => {
                    let count = (end - start) as u64;
                    match runs.last_mut() {
                        Some((times, last)) if *last == node => *times += count,
                        _ => runs.push((count, node)),
                    }
                }
                Err(cut) if cut.axis == axis && start < end - 1 => {
                    let at = cut.at.clamp(start + 1, end - 1);
                    parts.push((at, end));
                    parts.push((start, at));
                }
                Err(cut) => return Err(cut),
            }
        }
        Ok(self.runs(runs))
    }

    /// The node of one group of indices of an axis.
    fn within(&mut self, axis: usize, indices: i64) -> Result<usize, Cut> {
        if self.groups[axis] == 1 {
            return self.axis(axis + 1);
        }
        let mut runs: Vec<(u64, usize)> = Vec::new();
        for rest in 0..indices {
            self.rest[axis] = rest;
            let node = self.axis(axis + 1);
            self.rest[axis] = 0;
            let node = node?;
            match runs.last_mut() {
                Some((times, last)) if *last == node => *times += 1,
                _ => runs.push((1, node)),
            }
        }
        Ok(self.runs(runs))
    }

    fn runs(&mut self, runs: Vec<(u64, usize)>) -> usize {
        match runs[..] {
            [(1, node)] => node,
            _ => self.node(Node::Runs(runs)),
        }
    }

    fn node(&mut self, node: Node) -> usize {
        let next = self.nodes.len();
        let nodes = &mut self.nodes;
        *self.by_node.entry(node).or_insert_with_key(|node| {
            nodes.push(node.clone());
            next
        })
    }

    /// The node of a box whose steps are all of one kind.
    fn step(&mut self) -> Result<usize, Cut> {
        self.boxes += 1;
        let extent = self.evaluator.extent;
        if self.boxes <= BOXES {
            match self.kind() {
                // An axis of one index cannot be cut.
                Err(cut) if extent.first[cut.axis] == extent.last[cut.axis] => {}
                kind => return kind,
            }
        }
        self.exact &= self.boxes > BOXES && extent.first == extent.last;
        self.evaluator.extent.last = extent.first;
        self.evaluator.force = true;
        let kind = self.kind();
        self.evaluator.force = false;
        self.evaluator.extent = extent;
        kind
    }

    fn kind(&mut self) -> Result<usize, Cut> {
        let here: Vec<Form> = (0..self.bounds.len())
            .map(|axis| self.index(axis))
            .collect();
        let next = self.next(&here)?;
        self.evaluator.trace.clear();
        self.evaluator.run(self.body, &here)?;
        let mut moved = 0;
        if let Some(next) = next {
            for (i, map) in self.maps.iter().enumerate() {
                if self.moves(map, &here, &next)? {
                    moved |= 1 << i;
                }
            }
        }
        let body = match self.by_trace.get(&self.evaluator.trace) {
            Some(&body) => body,
            None => {
                let first = &self.evaluator.extent.first;
                let at = here.iter().enumerate();
                let at =
                    at.map(|(axis, form)| form.constant + form.coefficients[axis] * first[axis]);
                self.bodies.push(Body {
                    at: at.collect(),
                    times: 0,
                    outcomes: self.evaluator.trace.clone(),
                });
                let body = self.bodies.len() - 1;
                self.by_trace.insert(self.evaluator.trace.clone(), body);
                body
            }
        };
        let kind = Kind { body, moved };
        let new = self.kinds.len();
        let number = *self.by_kind.entry(kind).or_insert(new);
        if number == new {
            self.kinds.push(kind);
        }
        Ok(self.node(Node::Step(number)))
    }

    /// The indices of the next step; none after the last one.
    fn next(&self, here: &[Form]) -> Result<Option<Vec<Form>>, Cut> {
        let mut next = here.to_vec();
        let extent = &self.evaluator.extent;
        for axis in (0..self.bounds.len()).rev() {
            let end = self.bounds[axis] - 1;
            let (group, rest) = (end / self.groups[axis], end % self.groups[axis]);
            let (first, last) = (extent.first[axis], extent.last[axis]);
            if self.rest[axis] != rest || last < group {
                next[axis].constant += 1;
                return Ok(Some(next));
            }
            if first < last {
                return Err(Cut { axis, at: group });
            }
            next[axis] = Form::constant(0);
        }
        Ok(None)
    }

    /// Whether another block is needed.
    fn moves(&mut self, map: &Program, here: &[Form], next: &[Form]) -> Result<bool, Cut> {
        self.evaluator.run(map, here)?;
        let from: Vec<_> = map
            .results
            .iter()
            .map(|&v| self.evaluator.value(v))
            .collect();
        self.evaluator.run(map, next)?;
        let mut undecided = None;
        for (from, &value) in from.iter().zip(&map.results) {
            let to = self.evaluator.value(value);
            match self.evaluator.differ(from, &to) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(cut) => undecided = undecided.or(Some(cut)),
            }
        }
        undecided.map_or(Ok(false), Err)
    }
}
