//! [`Units`]: which matrix units a product keeps.
//!
//! A product with fewer blocks of weights than there are units keeps as many units as it has blocks, those which have
//! had the least to do in program order, and waits for them although others may be idle. So two products of two blocks
//! each, of which the second reads the results of the first, and two more like them stand on units 0 1, 2 3, 2 3 and 0
//! 1 of four: the third begins when the second is done. (Listings of attention kernels by libtpu 0.0.51; pushing
//! transposed weights makes the first of each pair the longer one.)

/// The matrix units of a core, in one straight-line block.
#[derive(Debug)]
pub(super) struct Units {
    /// Cycles of work that each was given, of products that keep units.
    work: Vec<f64>,
    /// When each has done it.
    free_at: Vec<f64>,
}

impl Units {
    /// So many units that have had nothing to do.
    pub(super) fn new(count: usize) -> Self {
        Self {
            work: vec![0.0; count],
            free_at: vec![0.0; count],
        }
    }

    /// Nothing to do in a new block.
    pub(super) fn clear(&mut self) {
        self.work.fill(0.0);
        self.free_at.fill(0.0);
    }

    /// The `count` units with the least work, each of which gets `work` more.
    pub(super) fn take(&mut self, count: usize, work: f64) -> Vec<usize> {
        let mut units: Vec<usize> = (0..self.work.len()).collect();
        units.sort_by(|&a, &b| self.work[a].total_cmp(&self.work[b]));
        units.truncate(count);
        units.iter().for_each(|&unit| self.work[unit] += work);
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

    #[test]
    fn a_longer_product_leaves_its_units_to_the_last() {
        let mut units = Units::new(4);
        let mut keep = |work| {
            let own = units.take(2, work);
            let free = units.free_at(&own);
            units.held(&own, free + work);
            (own, free)
        };
        assert_eq!(keep(300.0), (vec![0, 1], 0.0));
        assert_eq!(keep(250.0), (vec![2, 3], 0.0));
        assert_eq!(keep(300.0), (vec![2, 3], 250.0));
        assert_eq!(keep(250.0), (vec![0, 1], 300.0));
    }
}
