//! Experts spread over chips, and what that sends between them.
//!
//! With *expert parallelism* each device holds some of the experts. A row, one token for one of its experts, is sent to
//! the device of that expert, multiplied there and sent back: before a layer and after it, every device sends to every
//! other, an all-to-all.
//!
//! Experts that the devices cannot share evenly are held by groups of devices, each group all of them: of 12 devices
//! with 8 experts four share the experts, and three such groups the rows. At the extremes one expert is on every
//! device, and experts that the devices divide are each on one.

use num_integer::Integer;
use tilecast_core::kernels::grouped_matmul::GroupedMatmul;
use tilecast_core::target::Target;

use super::ExpertsError;
use crate::pipeline::devices_per_chip;

/// How rows and experts are spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spread {
    /// Devices of all chips.
    pub devices: usize,
    /// Devices that have all experts together.
    pub sharing: usize,
}

impl Spread {
    /// The most even way to spread `experts` over the devices of `chips`.
    pub fn new(experts: usize, target: &Target, chips: usize) -> Self {
        let devices = chips.saturating_mul(devices_per_chip(target));
        Self {
            devices,
            sharing: experts.gcd(&devices),
        }
    }

    /// What one device computes if rows go to experts evenly.
    ///
    /// # Errors
    /// Fewer rows than devices.
    pub(super) fn share(self, op: &GroupedMatmul) -> Result<GroupedMatmul, ExpertsError> {
        let rows = op.rows();
        if rows < self.devices {
            return Err(ExpertsError::TooManyDevices {
                rows,
                devices: self.devices,
            });
        }
        let sizes = [
            rows.div_ceil(self.devices),
            op.experts() / self.sharing,
            op.inputs(),
            op.outputs(),
        ];
        Ok(GroupedMatmul::new(sizes, op.dtype(), op.out_dtype())?)
    }

    /// Chips between which rows are exchanged.
    pub fn exchanging_chips(self, target: &Target) -> usize {
        self.sharing.div_ceil(devices_per_chip(target))
    }
}

/// An exchange of rows between chips.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Exchange {
    /// What each chip has before and after: what is sent, and what stays as it is the chip's own.
    pub chip_bytes: u64,
    /// The least time that the links need for it, seconds.
    pub at_least_s: f64,
}

impl Exchange {
    /// Of `chip_bytes` of each of `chips` chips, as many to each.
    ///
    /// A bound: in a ring of `n` chips half of what one half has goes to the other, `n chip_bytes / 4`, over two links
    /// in that direction (one, if there are two chips), and nothing else is in its way. Chips are taken to be a torus
    /// of as many dimensions as the target's links have, all closed to rings, its longest side as short as can be.
    /// Slices that are not closed take up to twice as long.
    pub fn new(chips: usize, chip_bytes: u64, target: &Target) -> Self {
        let side = longest_side(chips, target.ici_links.value / 2);
        let links = match side {
            0 | 1 => {
                return Self {
                    chip_bytes,
                    at_least_s: 0.0,
                };
            }
            2 => 1.0,
            _ => 2.0,
        };
        let crossing = side as f64 * chip_bytes as f64 / 4.0;
        Self {
            chip_bytes,
            at_least_s: crossing / (links * target.ici_link_bytes_per_s.value),
        }
    }
}

/// The longest side of the box of so many dimensions that holds `count` and has the shortest one.
fn longest_side(count: usize, dimensions: usize) -> usize {
    if dimensions <= 1 {
        return count;
    }
    let sides = (1..=count).take_while(|side| side * side <= count);
    let divisors = sides.filter(|side| count.is_multiple_of(*side));
    let both = divisors.flat_map(|side| [side, count / side]);
    let longest = both.map(|side| side.max(longest_side(count / side, dimensions - 1)));
    longest.min().unwrap_or(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilecast_core::DType;

    fn target(name: &str) -> &'static Target {
        Target::by_name(name).unwrap()
    }

    #[test]
    fn experts_are_shared_by_as_many_devices_as_divide_them() {
        let spread = |experts, name: &str, chips| {
            let Spread { devices, sharing } = Spread::new(experts, target(name), chips);
            [devices, sharing]
        };
        assert_eq!(spread(8, "v5e", 4), [4, 4]);
        assert_eq!(spread(8, "v7x", 4), [8, 8]);
        assert_eq!(spread(8, "v5e", 12), [12, 4]);
        assert_eq!(spread(1, "v7x", 1), [2, 1]);
        let op = GroupedMatmul::new([1000, 8, 64, 32], DType::Bf16, DType::F32).unwrap();
        let share = Spread::new(8, target("v5e"), 12).share(&op).unwrap();
        assert_eq!([share.rows(), share.experts(), share.inputs()], [84, 2, 64]);
        assert_eq!(share.out_dtype(), DType::F32);
        let refused = Spread::new(8, target("v5e"), 2000).share(&op);
        let message = "1000 rows cannot be shared by 2000 devices; use at most as many devices";
        assert_eq!(refused.unwrap_err().to_string(), message);
    }

    #[test]
    fn the_longest_side_is_as_short_as_can_be() {
        let sides = [1, 2, 4, 8, 12, 16, 64, 17, 256].map(|count| longest_side(count, 2));
        assert_eq!(sides, [1, 2, 2, 4, 4, 4, 8, 17, 16]);
        let sides = [1, 2, 4, 8, 12, 16, 64, 17, 256].map(|count| longest_side(count, 3));
        assert_eq!(sides, [1, 2, 2, 2, 3, 4, 4, 17, 8]);
    }

    /// Link by link, on rings: each piece takes the shorter way around, those to the opposite chip half each way.
    #[test]
    fn the_bound_is_what_the_busiest_link_of_a_ring_carries() {
        let target = target("v5e");
        for chips in [4_usize, 8, 16] {
            let mut right = vec![0.0; chips];
            for from in 0..chips {
                for away in 1..=chips / 2 {
                    let share = if 2 * away == chips { 0.5 } else { 1.0 };
                    for hop in 0..away {
                        right[(from + hop) % chips] += share / chips as f64;
                    }
                }
            }
            let busiest = right.iter().copied().fold(0.0, f64::max);
            let seconds = busiest * 1e9 / target.ici_link_bytes_per_s.value;
            // A ring is one dimension; with two the same number of chips is a shorter one.
            let ring = chips * chips;
            let bound = Exchange::new(ring, 1_000_000_000, target).at_least_s;
            assert!(
                (bound / seconds - 1.0).abs() < 1e-12,
                "{chips}: {bound} {seconds}"
            );
        }
        let two = Exchange::new(2, 90_000_000_000, target);
        assert_eq!(two.at_least_s, 1.0, "half of it over one link");
        assert_eq!(Exchange::new(1, 1 << 30, target).at_least_s, 0.0);
    }
}
