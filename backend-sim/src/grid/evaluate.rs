//! [`Evaluator`]: runs a [`Program`] for a box of grid steps.

use super::Scalars;
use super::form::{AXES, Context, Cut, Extent, Form, Number};
use super::program::{Code, Program, Step};

/// Most iterations of a loop that are followed one by one.
const FOLLOWED: i64 = 64;

pub(super) struct Evaluator<'a> {
    pub extent: Extent,
    /// By which number the indices of each axis would have to be grouped for quotients to be forms.
    pub groups: [i64; AXES],
    values: Vec<Number>,
    scalars: &'a Scalars,
    /// Outcomes of conditions and numbers of iterations that depend on the grid.
    pub trace: Vec<i64>,
    /// Follow every branch, decided or not.
    pub everything: bool,
    /// Take what is undecided to be true.
    pub force: bool,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(values: usize, scalars: &'a Scalars) -> Self {
        Self {
            extent: Extent {
                first: [0; AXES],
                last: [0; AXES],
            },
            groups: [1; AXES],
            values: vec![Number::Data; values],
            scalars,
            trace: Vec::new(),
            everything: false,
            force: false,
        }
    }

    fn context(&mut self) -> Context<'_> {
        Context {
            extent: &self.extent,
            groups: &mut self.groups,
        }
    }

    /// Makes the constants of a program known, which it needs to run.
    pub(super) fn know(&mut self, program: &Program) {
        for &(index, value) in &program.constants {
            self.values[index] = Number::Form(Form::constant(value));
        }
    }

    /// Runs the program at grid indices; [`Self::value`] then has its results.
    ///
    /// # Errors
    /// Where to cut the box, if the trace is not the same for all of it.
    pub(super) fn run(&mut self, program: &Program, indices: &[Form]) -> Result<(), Cut> {
        for (&argument, &form) in program.arguments.iter().zip(indices) {
            self.values[argument] = self.context().form(form);
        }
        self.steps(&program.steps)
    }

    /// Runs the program at one step; what is undecided there is taken to be true.
    pub(super) fn run_at(&mut self, program: &Program, at: &[i64]) {
        let indices: Vec<Form> = at.iter().map(|&index| Form::constant(index)).collect();
        self.force = true;
        // Nothing is asked to be cut where everything is decided.
        let _ = self.run(program, &indices);
    }

    pub(super) fn value(&self, value: usize) -> Number {
        self.values[value]
    }

    /// Whether the two numbers differ in the whole box.
    ///
    /// # Errors
    /// Where to cut the box, if they do so in a part of it.
    pub(super) fn differ(&mut self, a: &Number, b: &Number) -> Result<bool, Cut> {
        use super::form::Comparison::NotEqual;
        let differ = self.context().compare(NotEqual, a, b);
        match self.context().undecided(&differ).filter(|_| !self.force) {
            Some(cut) => Err(cut),
            // What is not known is taken to move.
            None => Ok(differ != Number::Form(Form::constant(0))),
        }
    }

    /// Whether a sum of multiples of grid indices is another number than zero in the whole box.
    ///
    /// # Errors
    /// As for [`Self::differ`].
    pub(super) fn is_not_zero(&mut self, sum: Form) -> Result<bool, Cut> {
        match sum.is_constant() {
            true => Ok(sum.constant != 0),
            false => self.differ(&Number::Form(sum), &Number::Form(Form::constant(0))),
        }
    }

    /// The sum with what has one value in the box put in.
    pub(super) fn settled(&self, sum: Form) -> Form {
        sum.settle(&self.extent)
    }

    /// By how much each result of a program of sums of multiples of grid indices grows with each of these. The box
    /// becomes one of no step.
    pub(super) fn slopes(&mut self, program: &Program) -> Option<Vec<[i64; AXES]>> {
        // With one value, an index would be a constant.
        self.extent.last = [1; AXES];
        let index = |axis: usize| {
            let mut form = Form::constant(0);
            form.coefficients[axis] = 1;
            form
        };
        let indices: Vec<Form> = (0..program.arguments.len()).map(index).collect();
        self.run(program, &indices).ok()?;
        let slopes = |&result: &usize| match self.values[result] {
            Number::Form(form) => Some(form.coefficients),
            _ => None,
        };
        program.results.iter().map(slopes).collect()
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), Cut> {
        for step in steps {
            match step {
                Step::Compute {
                    code,
                    operands,
                    result,
                } => self.values[*result] = self.compute(*code, operands),
                Step::If {
                    condition,
                    tells,
                    branches,
                } => {
                    if self.everything {
                        self.steps(&branches[0])?;
                        self.steps(&branches[1])?;
                        continue;
                    }
                    let condition = self.values[*condition];
                    if let Some(cut) = self.context().undecided(&condition).filter(|_| !self.force)
                    {
                        return Err(cut);
                    }
                    let taken = condition != Number::Form(Form::constant(0));
                    if *tells {
                        self.trace.push(i64::from(taken));
                    }
                    self.steps(&branches[usize::from(!taken)])?;
                }
                Step::For { .. } => self.repeat(step)?,
            }
        }
        Ok(())
    }

    fn repeat(&mut self, step: &Step) -> Result<(), Cut> {
        let Step::For {
            bounds,
            tells,
            arguments,
            initial,
            next,
            results,
            body,
        } = step
        else {
            return Ok(());
        };
        let [first, last, step] = bounds.map(|bound| self.values[bound]);
        let length = self.context().add(&last, &first, -1);
        if !self.everything
            && !self.force
            && let Some(cut) = self.context().undecided(&length)
        {
            return Err(cut);
        }
        let trips = match (length, step) {
            (Number::Form(length), Number::Form(step)) if step.constant > 0 => {
                let length = length.constant.max(0);
                Some(length / step.constant + i64::from(length % step.constant != 0))
            }
            _ => None,
        };
        if *tells && !self.everything {
            self.trace.push(trips.unwrap_or(-1));
        }
        for (i, &value) in initial.iter().enumerate() {
            self.values[arguments[1 + i]] = self.values[value];
            self.values[results[i]] = self.values[value];
        }
        let followed = trips.filter(|&trips| trips <= FOLLOWED && !self.everything);
        if body.is_empty() && results.is_empty() {
            return Ok(());
        }
        for i in 0..followed.unwrap_or(1) {
            let offset = self
                .context()
                .multiply(&step, &Number::Form(Form::constant(i)));
            self.values[arguments[0]] = match followed {
                Some(_) => self.context().add(&first, &offset, 1),
                None => Number::Data,
            };
            if followed.is_none() {
                arguments[1..]
                    .iter()
                    .for_each(|&value| self.values[value] = Number::Data);
            }
            self.steps(body)?;
            let carried: Vec<Number> = next.iter().map(|&value| self.values[value]).collect();
            for (i, number) in carried.into_iter().enumerate() {
                let number = if followed.is_some() {
                    number
                } else {
                    Number::Data
                };
                self.values[arguments[1 + i]] = number;
                self.values[results[i]] = number;
            }
        }
        Ok(())
    }

    fn compute(&mut self, code: Code, operands: &[usize]) -> Number {
        if let Code::Scalar(scalar) = code {
            return self.scalar(scalar, operands);
        }
        let data = Number::Data;
        let operand = |i: usize| operands.get(i).map_or(&data, |&v| &self.values[v]);
        let (a, b, c) = (operand(0), operand(1), operand(2));
        let zero = Number::Form(Form::constant(0));
        let mut context = Context {
            extent: &self.extent,
            groups: &mut self.groups,
        };
        match code {
            Code::Constant(value) => Number::Form(Form::constant(value)),
            Code::Add => context.add(a, b, 1),
            Code::Subtract => context.add(a, b, -1),
            Code::Multiply => context.multiply(a, b),
            Code::Quotient(rounding) => context.divide(a, b, rounding).0,
            Code::Remainder(rounding) => context.divide(a, b, rounding).1,
            Code::Maximum | Code::Minimum => {
                use super::form::Comparison::{GreaterEqual, LessEqual};
                let maximum = code == Code::Maximum;
                let order = if maximum { GreaterEqual } else { LessEqual };
                let first = context.compare(order, a, b);
                context.select(&first, a, b)
            }
            Code::And if *a == zero || *b == zero => zero,
            Code::And => context.bits(a, b, |a, b| a & b),
            Code::Or => context.bits(a, b, |a, b| a | b),
            Code::Exclusive => context.bits(a, b, |a, b| a ^ b),
            Code::ShiftLeft => context.bits(a, b, |a, b| a.wrapping_shl(b as u32)),
            Code::ShiftRight => context.bits(a, b, |a, b| a.wrapping_shr(b as u32)),
            Code::Compare(comparison) => context.compare(comparison, a, b),
            Code::Select => context.select(a, b, c),
            Code::Same => *a,
            Code::Scalar(_) | Code::Data => Number::Data,
        }
    }

    /// An element of prefetched scalars; zero if they were not given.
    fn scalar(&mut self, scalar: usize, operands: &[usize]) -> Number {
        let zero = Number::Form(Form::constant(0));
        let table = self.scalars.prefetched.get(scalar).and_then(Option::as_ref);
        let Some(table) = table.filter(|table| !table.is_empty()) else {
            return zero;
        };
        let mut place = zero;
        for (i, &operand) in operands.iter().enumerate() {
            let size = self.scalars.shapes[scalar].get(i).copied().unwrap_or(1);
            let size = Number::Form(Form::constant(size));
            let index = self.values[operand];
            let context = self.context();
            place = context.add(&context.multiply(&place, &size), &index, 1);
        }
        let end = table.len() as i64 - 1;
        let at = |place: i64| table[place.clamp(0, end) as usize];
        let Some((first, last)) = self.context().bounds(&place) else {
            return Number::Data;
        };
        let part = &table[first.clamp(0, end) as usize..=last.clamp(0, end) as usize];
        let low = part.iter().copied().min().unwrap_or(0);
        let high = part.iter().copied().max().unwrap_or(0);
        if low == high {
            return Number::Form(Form::constant(low));
        }
        match place {
            Number::Form(form) => Number::Between(low, high, form.cut_table(&self.extent, at)),
            Number::Between(_, _, cut) => Number::Between(low, high, cut),
            Number::Data => Number::Data,
        }
    }
}
