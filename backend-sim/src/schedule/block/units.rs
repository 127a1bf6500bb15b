//! [`Units`]: which matrix units a product keeps.
//!
//! A product with fewer blocks of weights than there are units keeps as many units as it has blocks, and waits for them
//! although others may be idle: each block goes to the unit that is done first, in program order, as if nothing waited for
//! results. Weights of a product are pushed while rows of the one before pass, so of the first product of a unit its
//! pushes count, and of others rows, or pushes if these take longer. So of eight products of attention backward on two
//! units, which transpose the weights of every other one, the first, the fourth and the sixth stand on one and all others
//! on the other. (Listings of attention kernels by libtpu 0.0.51.)

/// The matrix units of a core, in one straight-line block.
#[derive(Debug)]
pub(super) struct Units {
    /// What each was given, of products that keep units.
    given: Vec<Given>,
    /// When each has done it.
    free_at: Vec<f64>,
}

/// Work of a unit, in cycles, as if it never waited.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    /// When all weights are pushed.
    pushed: f64,
    /// When all rows have passed, and all of those before the last weights.
    passed: f64,
    before: f64,
}

impl Given {
    /// Weights that take so long to be pushed, and their rows. A unit holds the weights that rows pass and the next ones.
    fn take(&mut self, push: f64, stream: f64) {
        self.pushed = self.pushed.max(self.before) + push;
        self.before = self.passed;
        self.passed = self.pushed.max(self.passed) + stream;
    }
}

impl Units {
    /// So many units that have had nothing to do.
    pub(super) fn new(count: usize) -> Self {
        Self {
            given: vec![Given::default(); count],
            free_at: vec![0.0; count],
        }
    }

    /// Nothing to do in a new block.
    pub(super) fn clear(&mut self) {
        self.given.fill(Given::default());
        self.free_at.fill(0.0);
    }

    /// The units that take `count` blocks of weights, each of which is pushed and passed by rows for so long.
    pub(super) fn take(&mut self, count: usize, push: f64, stream: f64) -> Vec<usize> {
        let mut units: Vec<usize> = Vec::with_capacity(count);
        for _ in 0..count {
            let passed = |&unit: &usize| self.given[unit].passed;
            let first = (0..self.given.len()).min_by(|a, b| passed(a).total_cmp(&passed(b)));
            let Some(unit) = first else { break };
            self.given[unit].take(push, stream);
            if !units.contains(&unit) {
                units.push(unit);
            }
        }
        units
    }

    /// When all of `units` are free.
    pub(super) fn free_at(&self, units: &[usize]) -> f64 {
        units
            .iter()
            .map(|&unit| self.free_at[unit])
            .fold(0.0, f64::max)
    }

    /// `units` are busy until `end`.
    pub(super) fn held(&mut self, units: &[usize], end: f64) {
        units.iter().for_each(|&unit| self.free_at[unit] = end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which units a sequence of products stands on, of so many blocks, cycles of pushes and of rows each.
    fn stand(count: usize, products: &[(usize, f64, f64)]) -> Vec<Vec<usize>> {
        let mut units = Units::new(count);
        (products.iter())
            .map(|&(blocks, push, stream)| units.take(blocks, push, stream))
            .collect()
    }

    #[test]
    fn pushes_of_all_but_the_first_product_are_hidden_by_rows() {
        // Attention backward and forward on v6e, by libtpu: 256 rows in both, 256 keys and 128.
        let [transposed, plain] = [(1, 64.0, 128.0), (1, 32.0, 128.0)];
        let products = [
            transposed, plain, transposed, plain, transposed, plain, transposed,
        ];
        assert_eq!(stand(2, &products).concat(), [0, 1, 1, 0, 1, 0, 1]);
        let narrow = products.map(|(blocks, push, _)| (blocks, push, 64.0));
        assert_eq!(stand(2, &narrow).concat(), [0, 1, 1, 0, 1, 0, 1]);
        // Of 128 rows pushes take as long as rows or longer.
        let low = products.map(|(blocks, push, _)| (blocks, push, 32.0));
        assert_eq!(stand(2, &low).concat(), [0, 1, 1, 0, 0, 1, 1]);
    }

    #[test]
    fn all_blocks_of_a_product_may_stand_on_one_unit() {
        // 512 rows: values take two blocks of the contraction.
        let products = [
            (1, 64.0, 256.0),
            (2, 32.0, 128.0),
            (1, 64.0, 256.0),
            (2, 32.0, 128.0),
        ];
        let expected: [&[usize]; 4] = [&[0], &[1], &[1], &[0]];
        assert_eq!(stand(2, &products), expected);
    }

    #[test]
    fn a_longer_product_leaves_its_units_to_the_last() {
        let mut units = Units::new(4);
        let mut keep = |push: f64| {
            let own = units.take(2, push, 250.0);
            let free = units.free_at(&own);
            units.held(&own, free + push + 250.0);
            (own, free)
        };
        assert_eq!(keep(50.0), (vec![0, 1], 0.0));
        assert_eq!(keep(0.0), (vec![2, 3], 0.0));
        assert_eq!(keep(50.0), (vec![2, 3], 250.0));
        assert_eq!(keep(0.0), (vec![0, 1], 300.0));
    }
}
