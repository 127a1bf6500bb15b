//! The steps that one of several cores gets.

use rustc_hash::FxHashMap;

use super::{Grid, Kind, Node};
use crate::signature::Signature;

/// How the steps of a grid are dealt to cores. The compiler deals those of all parallel axes together, rounded up.
pub(super) struct Dealt {
    /// Cores that have steps.
    pub(super) cores: i64,
    /// Steps of the first of them, where they are not all those of its bounds.
    pub(super) first: Option<i64>,
}

impl Dealt {
    /// Deals the steps within `bounds` to `cores`; the bounds become those of the first core where its steps fill a
    /// box.
    ///
    /// Of the axes, the outermost that leaves no core with more steps than another is dealt alone: kinds and numbers of
    /// steps are the same as with all together. If none does, and only inner axes are not parallel, the first core has
    /// the first steps.
    pub(super) fn new(signature: &Signature, bounds: &mut [i64], cores: i64) -> Self {
        let parallel = signature.parallel();
        let is_parallel = |axis: usize| parallel.get(axis) == Some(&true);
        let several: Vec<usize> = (0..bounds.len())
            .filter(|&axis| is_parallel(axis) && bounds[axis] > 1)
            .collect();
        let &[outermost, ref others @ ..] = &several[..] else {
            return Self {
                cores: 1,
                first: None,
            };
        };
        let even = several.iter().find(|&&axis| bounds[axis] % cores == 0);
        if let (None, Some(&innermost)) = (even, others.last())
            && (0..innermost).all(|axis| is_parallel(axis) || bounds[axis] == 1)
        {
            let all: i64 = several.iter().map(|&axis| bounds[axis]).product();
            let each = rounded_up(all, cores);
            let inside: i64 = bounds[innermost + 1..].iter().product();
            return Self {
                cores: rounded_up(all, each),
                first: Some(each * inside),
            };
        }
        let axis = *even.unwrap_or(&outermost);
        let all = bounds[axis];
        bounds[axis] = rounded_up(all, cores);
        Self {
            cores: rounded_up(all, bounds[axis]),
            first: None,
        }
    }
}

const fn rounded_up(a: i64, b: i64) -> i64 {
    a / b + (a % b != 0) as i64
}

impl Grid {
    /// Only the first `steps` of its steps.
    pub(super) fn keep_first(&mut self, steps: u64) {
        let Some(root) = self.nodes.len().checked_sub(1) else {
            return;
        };
        let mut cut = Cut {
            sizes: self.sizes(),
            nodes: Vec::new(),
            kept: FxHashMap::default(),
        };
        cut.first(self, root, steps);
        self.nodes = cut.nodes;
        // The code of the others is there, and its registers with it; it does not run.
    }
}

/// A tree in the making that has the first steps of another.
struct Cut {
    /// Steps of each node of the other.
    sizes: Vec<u64>,
    nodes: Vec<Node>,
    /// Where nodes of the other that are kept whole are.
    kept: FxHashMap<usize, usize>,
}

impl Cut {
    fn push(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// A node as it is.
    fn whole(&mut self, grid: &Grid, node: usize) -> usize {
        if let Some(&kept) = self.kept.get(&node) {
            return kept;
        }
        let copy = match &grid.nodes[node] {
            Node::Step(kind) => Node::Step(*kind),
            Node::Runs(runs) => {
                let runs = runs.iter();
                Node::Runs(
                    runs.map(|&(n, child)| (n, self.whole(grid, child)))
                        .collect(),
                )
            }
        };
        let copy = self.push(copy);
        self.kept.insert(node, copy);
        copy
    }

    /// The first `steps` of the steps of a node, at least one. Nothing is fetched after the last.
    fn first(&mut self, grid: &mut Grid, node: usize, steps: u64) -> usize {
        let runs = match &grid.nodes[node] {
            &Node::Step(kind) => {
                let body = grid.kinds[kind].body;
                let last = Kind { body, moved: 0 };
                let found = grid.kinds.iter().position(|&kind| kind == last);
                let kind = found.unwrap_or_else(|| {
                    grid.kinds.push(last);
                    grid.kinds.len() - 1
                });
                return self.push(Node::Step(kind));
            }
            Node::Runs(runs) => runs.clone(),
        };
        let mut left = steps;
        let mut taken = Vec::new();
        for (times, child) in runs {
            let size = self.sizes[child];
            // The last step is in a run that is not whole.
            let whole = times.min((left - 1) / size);
            if whole > 0 {
                taken.push((whole, self.whole(grid, child)));
                left -= whole * size;
            }
            if whole < times {
                taken.push((1, self.first(grid, child, left)));
                break;
            }
        }
        self.push(Node::Runs(taken))
    }
}
