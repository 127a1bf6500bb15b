//! [`Search`]: cuts a grid into kinds of steps.

use std::array::from_fn;

use rustc_hash::FxHashMap;

use super::evaluate::Evaluator;
use super::form::{AXES, Cut, Form};
use super::program::Program;
use super::{BOXES, Body, GROUP, Kind, Map, Node};

/// Builds the tree, from the outermost axis inwards.
pub(super) struct Search<'a> {
    evaluator: Evaluator<'a>,
    bounds: &'a [i64],
    /// Indices of each axis in a group.
    groups: [i64; AXES],
    /// The index in its group, for each axis.
    rest: [i64; AXES],
    body: &'a Program,
    maps: &'a [Map],
    /// For each map that is affine, by how much each block index grows with each grid index. Whether another block is
    /// needed follows from that alone.
    slopes: Vec<Option<Vec<[i64; AXES]>>>,
    boxes: usize,
    pub(super) exact: bool,
    by_trace: FxHashMap<Vec<i64>, usize>,
    by_kind: FxHashMap<Kind, usize>,
    by_node: FxHashMap<Node, usize>,
    pub(super) bodies: Vec<Body>,
    pub(super) kinds: Vec<Kind>,
    pub(super) nodes: Vec<Node>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        mut evaluator: Evaluator<'a>,
        bounds: &'a [i64],
        body: &'a Program,
        maps: &'a [Map],
    ) -> Self {
        let programs = maps.iter().map(|map| &map.program);
        (programs.chain([body])).for_each(|program| evaluator.know(program));
        let slopes = maps.iter().map(|map| match map.is_affine {
            true => evaluator.slopes(&map.program),
            false => None,
        });
        Self {
            slopes: slopes.collect(),
            evaluator,
            bounds,
            groups: [1; AXES],
            rest: [0; AXES],
            body,
            maps,
            boxes: 0,
            exact: true,
            by_trace: FxHashMap::default(),
            by_kind: FxHashMap::default(),
            by_node: FxHashMap::default(),
            bodies: Vec::new(),
            kinds: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// Finds the tree.
    pub(super) fn run(&mut self) {
        self.group();
        self.all();
    }

    /// Finds by how much the indices of each axis are divided.
    fn group(&mut self) {
        for (axis, &steps) in self.bounds.iter().enumerate() {
            self.evaluator.extent.last[axis] = (steps - 1).max(0);
        }
        self.evaluator.everything = true;
        let indices = self.indices();
        let maps = self.maps.iter().zip(&self.slopes);
        let maps = maps.filter_map(|(map, slopes)| slopes.is_none().then_some(&map.program));
        for program in maps.chain([self.body]) {
            // Nothing is asked to be cut where every branch is followed.
            let _ = self.evaluator.run(program, &indices[..self.bounds.len()]);
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

    /// The indices of all axes of the grid, and zeros behind them.
    fn indices(&self) -> [Form; AXES] {
        let mut indices = [Form::constant(0); AXES];
        for (axis, index) in indices.iter_mut().enumerate().take(self.bounds.len()) {
            *index = self.index(axis);
        }
        indices
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
        let here = self.indices();
        let next = self.next(here)?;
        let axes = self.bounds.len();
        self.evaluator.trace.clear();
        self.evaluator.run(self.body, &here[..axes])?;
        let mut moved = 0;
        if let Some(next) = next {
            let steps = from_fn(|axis| self.evaluator.settled(here[axis].plus(&next[axis], -1)));
            for (i, map) in self.maps.iter().enumerate() {
                let moves = match &self.slopes[i] {
                    Some(slopes) => moves_along(&mut self.evaluator, slopes, &steps)?,
                    None => self.moves(&map.program, &here[..axes], &next[..axes])?,
                };
                moved |= u64::from(moves) << i;
            }
        }
        let body = match self.by_trace.get(&self.evaluator.trace) {
            Some(&body) => body,
            None => {
                let first = &self.evaluator.extent.first;
                let at = here[..axes].iter().enumerate();
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
    fn next(&self, here: [Form; AXES]) -> Result<Option<[Form; AXES]>, Cut> {
        let mut next = here;
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

/// Whether another block is needed, of a map with these slopes, where the indices of the next step are less by `steps`.
fn moves_along(
    evaluator: &mut Evaluator<'_>,
    slopes: &[[i64; AXES]],
    steps: &[Form; AXES],
) -> Result<bool, Cut> {
    let mut undecided = None;
    for slopes in slopes {
        let axes = slopes.iter().zip(steps).filter(|&(&slope, _)| slope != 0);
        let less = axes.fold(Form::constant(0), |sum, (&slope, step)| {
            sum.plus(step, slope)
        });
        match evaluator.is_not_zero(less) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(cut) => undecided = undecided.or(Some(cut)),
        }
    }
    undecided.map_or(Ok(false), Err)
}
