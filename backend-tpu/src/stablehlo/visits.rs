//! The tables of [visits](tilecast_core::groups), computed on the device from the sizes of the groups.
//!
//! There are few groups and few visits, so all is comparisons of numbers with numbers: a running sum over groups is a
//! sum over those before, and what a visit takes from its group is a sum over all groups of which one counts. Sizes are
//! made to fit, where a CPU refuses them: a negative one is 0, and groups end where rows do.

use tilecast_core::DType;
use tilecast_core::groups::Groups;

use super::{Writer, tensor};

/// A value of `i32`s and its dimensions.
#[derive(Clone)]
struct Numbers {
    name: String,
    dims: Vec<usize>,
}

impl Numbers {
    fn ty(&self) -> String {
        tensor(DType::I32, &self.dims)
    }

    fn truth(&self) -> String {
        self.ty().replace("i32", "i1")
    }
}

impl Writer<'_> {
    /// The five tables for groups of the sizes that this value has.
    pub(super) fn visits(&mut self, sizes: &str, groups: Groups) -> [String; 5] {
        let (count, visits) = (groups.count(), groups.visits());
        let (blocks, block) = (groups.blocks() as i64, groups.block() as i64);
        let sizes = Numbers {
            name: sizes.into(),
            dims: vec![count],
        };
        let sizes = self.with_constant("maximum", &sizes, 0);
        let [start, end] = self
            .running_sums(&sizes)
            .map(|sum| self.with_constant("minimum", &sum, groups.rows() as i64));
        let first_block = self.with_constant("divide", &start, block);
        let first_block = self.with_constant("minimum", &first_block, blocks - 1);
        let last_row = self.with_constant("add", &end, -1);
        let last_block = self.with_constant("divide", &last_row, block);
        let last_block = self.binary("maximum", &last_block, &first_block);
        let of_group = self.binary("subtract", &last_block, &first_block);
        let of_group = self.with_constant("add", &of_group, 1);
        let [before, after] = self.running_sums(&of_group);

        let visit = self.iota(&[visits], 0);
        let own = {
            let (visit, before, after) = (
                self.spread(&visit, 0, &[visits, count]),
                self.spread(&before, 1, &[visits, count]),
                self.spread(&after, 1, &[visits, count]),
            );
            let behind = self.compare("GE", &visit, &before);
            let ahead = self.compare("LT", &visit, &after);
            let ty = visit.truth();
            self.value(&format!("stablehlo.and {behind}, {ahead} : {ty}"))
        };
        let all = self.iota(&[count], 0);
        // Behind the visits of groups come those of blocks that no group has a row of.
        let total = self.largest(&after, visits);
        let rows = self.largest(&end, visits);
        let covered = self.with_constant("add", &rows, block - 1);
        let covered = self.with_constant("divide", &covered, block);
        let [group, from, since, start, end] = [&all, &first_block, &before, &start, &end]
            .map(|of_groups| self.of_own(&own, of_groups, visits));
        let in_groups = self.compare("LT", &visit, &total);
        let rest = self.binary("subtract", &visit, &total);
        let rest = self.binary("add", &rest, &covered);
        let in_group = self.binary("subtract", &visit, &since);
        let in_group = self.binary("add", &in_group, &from);
        let rest_block = self.with_constant("minimum", &rest, blocks - 1);
        let of_block = self.select(&in_groups, &in_group, &rest_block);
        let last_group = self.constant(count as i64 - 1, &[visits]);
        let group = self.select(&in_groups, &group, &last_group);
        let first_row = self.with_constant("multiply", &of_block, block);
        let (zero, whole) = (self.constant(0, &[visits]), self.constant(block, &[visits]));
        let rest_is_block = {
            let blocks = self.constant(blocks, &[visits]);
            self.compare("LT", &rest, &blocks)
        };
        let nothing = self.select(&rest_is_block, &zero, &whole);
        let [first, end] = [start, end].map(|row| {
            let row = self.binary("subtract", &row, &first_row);
            let row = self.with_constant("maximum", &row, 0);
            let row = self.with_constant("minimum", &row, block);
            self.select(&in_groups, &row, &nothing)
        });
        let first = self.followed_by_zero(&first);
        let opens = self.opens(&before, visits);
        [group, of_block, first, end, opens].map(|table| table.name)
    }

    /// 1 where a visit is the first of its group, and behind the last.
    fn opens(&mut self, before: &Numbers, visits: usize) -> Numbers {
        let count = before.dims[0];
        let dims = [visits + 1, count];
        let visit = self.iota(&[visits + 1], 0);
        let (each, before) = (self.spread(&visit, 0, &dims), self.spread(before, 1, &dims));
        let is_first = self.compare("EQ", &each, &before);
        let (one, zero) = (self.constant(1, &dims), self.constant(0, &dims));
        let first = self.select(&is_first, &one, &zero);
        let first = self.sum_over_groups(&first);
        let behind = self.constant(visits as i64, &visit.dims);
        let behind = self.compare("EQ", &visit, &behind);
        let one = self.constant(1, &visit.dims);
        self.select(&behind, &one, &first)
    }

    /// The same numbers, and a zero.
    fn followed_by_zero(&mut self, numbers: &Numbers) -> Numbers {
        let (zero, dims) = (self.constant(0, &[]), vec![numbers.dims[0] + 1]);
        let (from, to) = (numbers.ty(), tensor(DType::I32, &dims));
        let name = self.value(&format!(
            "stablehlo.pad {}, {}, low = [0], high = [1], interior = [0] : ({from}, tensor<i32>) -> {to}",
            numbers.name, zero.name
        ));
        Numbers { name, dims }
    }

    /// The sums of what stands before each number, without and with it.
    fn running_sums(&mut self, numbers: &Numbers) -> [Numbers; 2] {
        let count = numbers.dims[0];
        let dims = [count, count];
        let (to, from) = (self.iota(&dims, 0), self.iota(&dims, 1));
        let (each, zero) = (self.spread(numbers, 1, &dims), self.constant(0, &dims));
        ["LT", "LE"].map(|direction| {
            let counts = self.compare(direction, &from, &to);
            let counted = self.select(&counts, &each, &zero);
            self.sum_over_groups(&counted)
        })
    }

    /// For each visit the number of its own group; 0 if it has none.
    fn of_own(&mut self, own: &str, of_groups: &Numbers, visits: usize) -> Numbers {
        let dims = [visits, of_groups.dims[0]];
        let (each, zero) = (self.spread(of_groups, 1, &dims), self.constant(0, &dims));
        let counted = self.select(own, &each, &zero);
        self.sum_over_groups(&counted)
    }

    /// The largest of numbers that are at least 0, for each visit.
    fn largest(&mut self, numbers: &Numbers, visits: usize) -> Numbers {
        let largest = self.reduce("maximum", numbers, 0, &[]);
        self.spread(&largest, 0, &[visits])
    }

    fn sum_over_groups(&mut self, numbers: &Numbers) -> Numbers {
        self.reduce("add", numbers, 1, &numbers.dims[..1])
    }

    fn reduce(&mut self, name: &str, numbers: &Numbers, over: usize, dims: &[usize]) -> Numbers {
        let zero = self.constant(0, &[]);
        let (from, to) = (numbers.ty(), tensor(DType::I32, dims));
        let name = self.value(&format!(
            "stablehlo.reduce({} init: {}) applies stablehlo.{name} across dimensions = [{over}] : ({from}, tensor<i32>) -> {to}",
            numbers.name, zero.name
        ));
        let dims = dims.into();
        Numbers { name, dims }
    }

    fn constant(&mut self, value: i64, dims: &[usize]) -> Numbers {
        let ty = tensor(DType::I32, dims);
        let name = self.value(&format!("stablehlo.constant dense<{value}> : {ty}"));
        let dims = dims.into();
        Numbers { name, dims }
    }

    fn iota(&mut self, dims: &[usize], dimension: usize) -> Numbers {
        let ty = tensor(DType::I32, dims);
        let name = self.value(&format!("stablehlo.iota dim = {dimension} : {ty}"));
        let dims = dims.into();
        Numbers { name, dims }
    }

    /// The same numbers for all indices of other dimensions.
    fn spread(&mut self, numbers: &Numbers, dimension: usize, dims: &[usize]) -> Numbers {
        let (from, to) = (numbers.ty(), tensor(DType::I32, dims));
        let dimensions = match numbers.dims.len() {
            0 => String::new(),
            _ => dimension.to_string(),
        };
        let name = self.value(&format!(
            "stablehlo.broadcast_in_dim {}, dims = [{dimensions}] : ({from}) -> {to}",
            numbers.name
        ));
        let dims = dims.into();
        Numbers { name, dims }
    }

    fn binary(&mut self, name: &str, a: &Numbers, b: &Numbers) -> Numbers {
        let ty = a.ty();
        let name = self.value(&format!("stablehlo.{name} {}, {} : {ty}", a.name, b.name));
        let dims = a.dims.clone();
        Numbers { name, dims }
    }

    fn with_constant(&mut self, name: &str, a: &Numbers, value: i64) -> Numbers {
        let value = self.constant(value, &a.dims);
        self.binary(name, a, &value)
    }

    fn compare(&mut self, direction: &str, a: &Numbers, b: &Numbers) -> String {
        let (ty, truth) = (a.ty(), a.truth());
        self.value(&format!(
            "stablehlo.compare {direction}, {}, {}, SIGNED : ({ty}, {ty}) -> {truth}",
            a.name, b.name
        ))
    }

    fn select(&mut self, condition: &str, a: &Numbers, b: &Numbers) -> Numbers {
        let (ty, truth) = (a.ty(), a.truth());
        let name = self.value(&format!(
            "stablehlo.select {condition}, {}, {} : {truth}, {ty}",
            a.name, b.name
        ));
        let dims = a.dims.clone();
        Numbers { name, dims }
    }
}
