//! [`Number`]: an integer of a kernel, for a box of grid steps at once.
//!
//! Most of what kernels compute from grid indices is linear in them, so it is kept as a linear form;
//! quotients and comparisons are decided by the least and the largest value of a form in the box.
//! What is not the same for the whole box knows at which index the box had better be cut.

/// Most axes of a grid.
pub(super) const AXES: usize = 8;

/// Where to cut a box: before the index `at` of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cut {
    pub axis: usize,
    pub at: i64,
}

/// Indices of each axis, from the first to the last, inclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    pub first: [i64; AXES],
    pub last: [i64; AXES],
}

/// `constant + sum of coefficients x indices`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Form {
    pub constant: i64,
    pub coefficients: [i64; AXES],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Number {
    /// The same function of the indices in the whole box.
    Form(Form),
    /// Between two values; a cut brings it closer.
    Between(i64, i64, Cut),
    /// Depends on data, and not on the grid as far as is known.
    Data,
}

/// Which way a quotient is rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rounding {
    Zero,
    Down,
    Up,
}

impl Rounding {
    /// `a / by`, for a positive `by`.
    fn divide(self, a: i64, by: i64) -> i64 {
        match self {
            Self::Zero => a / by,
            Self::Down => a.div_euclid(by),
            Self::Up => a.div_euclid(by) + i64::from(a.rem_euclid(by) != 0),
        }
    }
}

/// `arith.cmpi`, by the numbers of its predicates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Comparison {
    pub(super) fn read(predicate: i64) -> Option<Self> {
        Some(match predicate {
            0 => Self::Equal,
            1 => Self::NotEqual,
            // Signed and unsigned; grids and their bounds are not negative.
            2 | 6 => Self::Less,
            3 | 7 => Self::LessEqual,
            4 | 8 => Self::Greater,
            5 | 9 => Self::GreaterEqual,
            _ => return None,
        })
    }

    /// Whether it holds between a number and zero.
    fn holds(self, difference: i64) -> bool {
        match self {
            Self::Equal => difference == 0,
            Self::NotEqual => difference != 0,
            Self::Less => difference < 0,
            Self::LessEqual => difference <= 0,
            Self::Greater => difference > 0,
            Self::GreaterEqual => difference >= 0,
        }
    }

    /// Whether it holds for all differences between two, or for none of them.
    fn decided(self, low: i64, high: i64) -> Option<bool> {
        let ends = (self.holds(low), self.holds(high));
        let zero_inside = low < 0 && high > 0;
        match self {
            Self::Equal | Self::NotEqual if zero_inside => None,
            _ if ends.0 == ends.1 => Some(ends.0),
            _ => None,
        }
    }
}

impl Form {
    pub(super) const fn constant(constant: i64) -> Self {
        Self {
            constant,
            coefficients: [0; AXES],
        }
    }

    fn combine(&self, other: &Self, f: impl Fn(i64, i64) -> i64) -> Self {
        let mut out = Self::constant(f(self.constant, other.constant));
        for (i, c) in out.coefficients.iter_mut().enumerate() {
            *c = f(self.coefficients[i], other.coefficients[i]);
        }
        out
    }

    /// The sum with a multiple of another.
    pub(super) fn plus(&self, other: &Self, times: i64) -> Self {
        self.combine(other, |a, b| a.wrapping_add(b.wrapping_mul(times)))
    }

    fn scale(&self, by: i64) -> Self {
        self.combine(self, |a, _| a.wrapping_mul(by))
    }

    /// The same with what has one value in the box put in.
    pub(super) fn settle(mut self, extent: &Extent) -> Self {
        for axis in 0..AXES {
            if extent.first[axis] == extent.last[axis] {
                let part = self.coefficients[axis].wrapping_mul(extent.first[axis]);
                self.constant = self.constant.wrapping_add(part);
                self.coefficients[axis] = 0;
            }
        }
        self
    }

    pub(super) fn is_constant(&self) -> bool {
        // All at once: as a comparison of arrays it would be a call.
        self.coefficients.iter().fold(0, |all, c| all | c) == 0
    }

    pub(super) fn bounds(&self, extent: &Extent) -> (i64, i64) {
        let (mut low, mut high) = (self.constant, self.constant);
        for (axis, &c) in self.coefficients.iter().enumerate() {
            // Most forms are of an axis or two.
            if c == 0 {
                continue;
            }
            let ends = [extent.first[axis], extent.last[axis]].map(|i| c.saturating_mul(i));
            low = low.saturating_add(ends[0].min(ends[1]));
            high = high.saturating_add(ends[0].max(ends[1]));
        }
        (low, high)
    }

    fn at(&self, index: i64, axis: usize) -> i64 {
        let part = self.coefficients[axis].saturating_mul(index);
        self.constant.saturating_add(part)
    }

    /// A cut that brings `f` of the form closer to one value. `f` of a form of one index must
    /// change its value once at most, or be cut again.
    pub(super) fn cut<T: PartialEq>(&self, extent: &Extent, f: impl Fn(i64) -> T) -> Cut {
        let varies =
            |&axis: &usize| self.coefficients[axis] != 0 && extent.first[axis] < extent.last[axis];
        let mut axes = (0..AXES).filter(varies);
        let axis = axes.next().unwrap_or(0);
        let (mut same, mut other) = (extent.first[axis], extent.last[axis]);
        if axes.next().is_some() {
            // The middle of the outermost.
            let at = same + (other - same) / 2 + 1;
            return Cut { axis, at };
        }
        let start = f(self.at(same, axis));
        if f(self.at(other, axis)) == start {
            // The value in between is another one; it is looked for where the form is zero.
            let root = self.constant.saturating_neg() / self.coefficients[axis];
            let at = root.clamp(same + 1, other);
            return Cut { axis, at };
        }
        while other - same > 1 {
            let middle = same + (other - same) / 2;
            match f(self.at(middle, axis)) == start {
                true => same = middle,
                false => other = middle,
            }
        }
        Cut { axis, at: other }
    }
}

impl Form {
    /// A cut that brings an element of a table closer to one value; the form is its place.
    pub(super) fn cut_table(&self, extent: &Extent, at: impl Fn(i64) -> i64) -> Cut {
        let varies = |&axis: &usize| self.coefficients[axis] != 0;
        let mut axes = (0..AXES).filter(varies);
        match (axes.next(), axes.next()) {
            (Some(axis), None) => {
                let (first, last) = (extent.first[axis], extent.last[axis]);
                let start = at(self.at(first, axis));
                let other = (first + 1..=last).find(|&i| at(self.at(i, axis)) != start);
                Cut {
                    axis,
                    at: other.unwrap_or(last),
                }
            }
            _ => self.cut(extent, |value| value),
        }
    }
}

/// What an operation on two numbers needs besides them: the box, and for each axis by which number
/// its indices would have to be grouped for quotients to be forms.
pub(super) struct Context<'a> {
    pub extent: &'a Extent,
    pub groups: &'a mut [i64; AXES],
}

impl Context<'_> {
    pub(super) fn form(&self, form: Form) -> Number {
        Number::Form(form.settle(self.extent))
    }

    pub(super) fn bounds(&self, number: &Number) -> Option<(i64, i64)> {
        match number {
            Number::Form(form) => Some(form.bounds(self.extent)),
            Number::Between(low, high, _) => Some((*low, *high)),
            Number::Data => None,
        }
    }

    /// Where a box must be cut for the number to be the same everywhere; none if it is.
    pub(super) fn undecided(&self, number: &Number) -> Option<Cut> {
        match number {
            Number::Form(form) if !form.is_constant() => Some(form.cut(self.extent, |value| value)),
            Number::Between(_, _, cut) => Some(*cut),
            _ => None,
        }
    }

    fn some_cut(&self, a: &Number, b: &Number) -> Option<Cut> {
        let cut = |number: &Number| match number {
            Number::Between(_, _, cut) => Some(*cut),
            _ => None,
        };
        (cut(a).or_else(|| cut(b))).or_else(|| self.undecided(a).or_else(|| self.undecided(b)))
    }

    fn between(&self, low: i64, high: i64, cut: Option<Cut>) -> Number {
        match cut {
            Some(cut) if low != high => Number::Between(low, high, cut),
            _ => Number::Form(Form::constant(low)),
        }
    }

    pub(super) fn add(&self, a: &Number, b: &Number, sign: i64) -> Number {
        if let (Number::Form(a), Number::Form(b)) = (a, b) {
            return Number::Form(a.plus(b, sign));
        }
        let (Some(x), Some(y)) = (self.bounds(a), self.bounds(b)) else {
            return Number::Data;
        };
        let y = match sign < 0 {
            true => (y.1.saturating_neg(), y.0.saturating_neg()),
            false => y,
        };
        self.between(
            x.0.saturating_add(y.0),
            x.1.saturating_add(y.1),
            self.some_cut(a, b),
        )
    }

    pub(super) fn multiply(&self, a: &Number, b: &Number) -> Number {
        match (a, b) {
            (Number::Form(a), Number::Form(b)) if b.is_constant() => {
                return Number::Form(a.scale(b.constant));
            }
            (Number::Form(a), Number::Form(b)) if a.is_constant() => {
                return Number::Form(b.scale(a.constant));
            }
            _ => {}
        }
        let (Some(x), Some(y)) = (self.bounds(a), self.bounds(b)) else {
            return Number::Data;
        };
        let ends = [(x.0, y.0), (x.0, y.1), (x.1, y.0), (x.1, y.1)];
        let ends = ends.map(|(x, y)| x.saturating_mul(y));
        let low = ends.iter().copied().min().unwrap_or(0);
        let high = ends.iter().copied().max().unwrap_or(0);
        self.between(low, high, self.some_cut(a, b))
    }

    /// Quotient (rounded as said) and remainder of a division.
    pub(super) fn divide(
        &mut self,
        a: &Number,
        b: &Number,
        rounding: Rounding,
    ) -> (Number, Number) {
        let round = |a, by| rounding.divide(a, by);
        let by = match b {
            Number::Form(form) if form.is_constant() && form.constant > 0 => form.constant,
            Number::Data => return (Number::Data, Number::Data),
            _ => match self.some_cut(a, b) {
                Some(cut) => {
                    let any = Number::Between(i64::MIN / 2, i64::MAX / 2, cut);
                    return (any, any);
                }
                None => return (Number::Data, Number::Data),
            },
        };
        let Some((low, high)) = self.bounds(a) else {
            return (Number::Data, Number::Data);
        };
        let (first, last) = (round(low, by), round(high, by));
        if let Number::Form(form) = a {
            if first == last {
                let taken = Form::constant(first.saturating_mul(by).saturating_neg());
                let rest = form.combine(&taken, i64::wrapping_add);
                return (Number::Form(Form::constant(first)), Number::Form(rest));
            }
            let whole = |&c: &i64| c % by == 0;
            if form.coefficients.iter().all(whole) && low >= 0 {
                let mut quotient = form.combine(form, |a, _| a / by);
                quotient.constant = match rounding {
                    Rounding::Up => rounding.divide(form.constant, by),
                    Rounding::Zero | Rounding::Down => form.constant.div_euclid(by),
                };
                let rest = form.constant - quotient.constant * by;
                return (Number::Form(quotient), Number::Form(Form::constant(rest)));
            }
            for (group, &c) in self.groups.iter_mut().zip(&form.coefficients) {
                let needed = by / gcd(by, c);
                *group = (*group / gcd(*group, needed)).saturating_mul(needed);
            }
        }
        let cut = match a {
            Number::Form(form) => Some(form.cut(self.extent, |value| round(value, by))),
            _ => self.some_cut(a, b),
        };
        let rest = (i64::from(low < 0) * (1 - by), by - 1);
        (
            self.between(first, last, cut),
            self.between(rest.0, rest.1, cut),
        )
    }

    pub(super) fn compare(&self, comparison: Comparison, a: &Number, b: &Number) -> Number {
        let difference = self.add(a, b, -1);
        let Some((low, high)) = self.bounds(&difference) else {
            return Number::Data;
        };
        let cut = match (comparison.decided(low, high), &difference) {
            (Some(holds), _) => return Number::Form(Form::constant(i64::from(holds))),
            (None, Number::Form(form)) => form.cut(self.extent, |d| comparison.holds(d)),
            (None, Number::Between(_, _, cut)) => *cut,
            (None, Number::Data) => return Number::Data,
        };
        Number::Between(0, 1, cut)
    }

    pub(super) fn select(&self, condition: &Number, a: &Number, b: &Number) -> Number {
        match condition {
            Number::Form(form) if form.is_constant() => match form.constant {
                0 => *b,
                _ => *a,
            },
            _ if a == b => *a,
            Number::Between(_, _, cut) => match (self.bounds(a), self.bounds(b)) {
                (Some(a), Some(b)) => self.between(a.0.min(b.0), a.1.max(b.1), Some(*cut)),
                _ => Number::Data,
            },
            _ => Number::Data,
        }
    }

    /// An operation on bits, or another that is known for constants only.
    pub(super) fn bits(&self, a: &Number, b: &Number, f: fn(i64, i64) -> i64) -> Number {
        match (a, b) {
            (Number::Form(a), Number::Form(b)) if a.is_constant() && b.is_constant() => {
                Number::Form(Form::constant(f(a.constant, b.constant)))
            }
            (Number::Data, _) | (_, Number::Data) => Number::Data,
            _ => match self.some_cut(a, b) {
                Some(cut) => {
                    let truth = |n: &Number| self.bounds(n).is_some_and(|(l, h)| l >= 0 && h <= 1);
                    let (low, high) = match truth(a) && truth(b) {
                        true => (0, 1),
                        false => (i64::MIN / 2, i64::MAX / 2),
                    };
                    Number::Between(low, high, cut)
                }
                None => Number::Data,
            },
        }
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1).max(1)
}
