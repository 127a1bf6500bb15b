//! What a value of a module is at run time: a tensor, or a place in memory.
//!
//! A number is a tensor without dimensions. Floats of every width are held as f32 and rounded to
//! their own type by each operation; integers are held as i64 and wrapped to their width.

use std::fmt;
use std::rc::Rc;

use tilecast_tpu::mosaic::{FloatKind, Module, Signedness, Type, TypeKind};

use super::error::Fault;
use super::view::View;

/// The largest number of elements of one vector or memory.
pub(super) const LIMIT: usize = 1 << 28;

/// The type of an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Element {
    Float(FloatKind),
    /// Of so many bits.
    Int(u32),
    Index,
    /// Counts signals.
    Semaphore,
    /// Counts bytes of copies.
    DmaSemaphore,
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(kind) => f.write_str(kind.name()),
            Self::Int(width) => write!(f, "i{width}"),
            Self::Index => f.write_str("index"),
            Self::Semaphore => f.write_str("a semaphore"),
            Self::DmaSemaphore => f.write_str("a semaphore of copies"),
        }
    }
}

impl Element {
    pub(super) fn of(module: &Module, ty: Type) -> Result<Self, Fault> {
        match *module.type_kind(ty) {
            TypeKind::Float(FloatKind::F64) => Err(Fault::Unsupported("f64".into())),
            TypeKind::Float(kind) => Ok(Self::Float(kind)),
            TypeKind::Integer { width, sign } if sign != Signedness::Unsigned && width <= 64 => {
                Ok(Self::Int(width))
            }
            TypeKind::Index => Ok(Self::Index),
            TypeKind::Semaphore => Ok(Self::Semaphore),
            TypeKind::DmaSemaphore => Ok(Self::DmaSemaphore),
            _ => Err(Fault::Unsupported(module.type_text(ty))),
        }
    }

    pub(super) const fn is_float(self) -> bool {
        matches!(self, Self::Float(_))
    }

    pub(super) const fn is_semaphore(self) -> bool {
        matches!(self, Self::Semaphore | Self::DmaSemaphore)
    }

    pub(super) fn bits(self) -> u32 {
        match self {
            Self::Float(kind) => kind.bits(),
            Self::Int(width) => width,
            Self::Index | Self::Semaphore | Self::DmaSemaphore => 32,
        }
    }

    /// How many rows of `narrow` elements share the rows of words of this type; 0 if none do.
    pub(super) fn per_word(self, narrow: Self) -> usize {
        match (self, narrow) {
            (Self::Int(32), Self::Float(FloatKind::BF16)) => 2,
            _ => 0,
        }
    }

    /// A float rounded to the type.
    pub(super) fn round(self, x: f32) -> f32 {
        match self {
            Self::Float(FloatKind::BF16) => half::bf16::from_f32(x).to_f32(),
            Self::Float(kind) if kind != FloatKind::F32 => {
                kind.decode(kind.encode(f64::from(x))) as f32
            }
            _ => x,
        }
    }

    /// An integer wrapped to the width; one bit is 0 or 1.
    pub(super) const fn wrap(self, x: i64) -> i64 {
        match self {
            Self::Int(0) => 0,
            Self::Int(1) => x & 1,
            Self::Int(width) if width < 64 => x << (64 - width) >> (64 - width),
            _ => x,
        }
    }

    /// An integer of the type as an unsigned number.
    pub(super) const fn unsigned(self, x: i64) -> u64 {
        match self {
            Self::Int(width) if width < 64 => x as u64 & ((1 << width) - 1),
            _ => x as u64,
        }
    }

    /// An integer of the type as a signed number: one set bit is -1.
    pub(super) const fn signed(self, x: i64) -> i64 {
        match self {
            Self::Int(1) => -x,
            _ => x,
        }
    }

    /// Memory of so many elements to which nothing has been written.
    pub(super) fn undefined(self, len: usize) -> Cells {
        match self {
            Self::Float(_) => Cells::Float(vec![f32::NAN; len]),
            Self::Semaphore | Self::DmaSemaphore => Cells::Int(vec![0; len]),
            Self::Int(width @ 2..64) => Cells::Int(vec![-1 << (width - 1); len]),
            Self::Int(_) | Self::Index => Cells::Int(vec![self.wrap(i64::MIN + 1); len]),
        }
    }
}

/// Elements.
#[derive(Clone, Debug)]
pub(super) enum Cells {
    Float(Vec<f32>),
    Int(Vec<i64>),
}

impl Cells {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Float(data) => data.len(),
            Self::Int(data) => data.len(),
        }
    }
}

impl From<Vec<f32>> for Cells {
    fn from(data: Vec<f32>) -> Self {
        Self::Float(data)
    }
}

impl From<Vec<i64>> for Cells {
    fn from(data: Vec<i64>) -> Self {
        Self::Int(data)
    }
}

/// A row-major tensor.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) shape: Rc<[usize]>,
    pub(super) element: Element,
    cells: Rc<Cells>,
}

impl Tensor {
    /// A tensor of elements that are already of its type.
    pub(super) fn new(
        shape: impl Into<Rc<[usize]>>,
        element: Element,
        cells: impl Into<Cells>,
    ) -> Result<Self, Fault> {
        let (shape, cells) = (shape.into(), Rc::new(cells.into()));
        let float = matches!(*cells, Cells::Float(_));
        if elements(&shape)? != cells.len() || float != element.is_float() {
            return Err(Fault::Malformed("the elements do not fit the type"));
        }
        Ok(Self {
            shape,
            element,
            cells,
        })
    }

    /// A number.
    pub(super) fn int(element: Element, value: i64) -> Self {
        Self {
            shape: Rc::new([]),
            element,
            cells: Rc::new(Cells::Int(vec![element.wrap(value)])),
        }
    }

    /// The same elements in another shape.
    pub(super) fn reshape(&self, shape: &[usize]) -> Result<Self, Fault> {
        if elements(shape)? != self.cells.len() {
            return Err(Fault::Malformed("the number of elements changes"));
        }
        Ok(Self {
            shape: shape.into(),
            ..self.clone()
        })
    }

    /// The halves of words of 32 bits, each a row of its own: of a row first the lower ones.
    pub(super) fn halved(&self, element: Element) -> Result<Self, Fault> {
        let mut shape = self.shape.to_vec();
        let (Element::Float(kind), [.., rows, columns]) = (element, &mut shape[..]) else {
            return Err(Fault::Malformed("words are of floats"));
        };
        let half = |word: &i64, shift: u32| kind.decode((word >> shift) as u64 & 0xffff) as f32;
        let words = self.ints()?.chunks((*columns).max(1));
        let halves = words.flat_map(|row| {
            let of = |shift| row.iter().map(move |word| half(word, shift));
            of(0).chain(of(16))
        });
        let halves: Vec<f32> = halves.collect();
        *rows *= 2;
        Self::new(shape, element, halves)
    }

    /// Words of 32 bits of pairs of rows; see [`Self::halved`].
    pub(super) fn joined(&self, element: Element) -> Result<Self, Fault> {
        let mut shape = self.shape.to_vec();
        let (Element::Float(kind), [.., rows, columns]) = (self.element, &mut shape[..]) else {
            return Err(Fault::Malformed("words are of floats"));
        };
        let bits = |x: &f32| kind.encode(f64::from(*x)) as i64;
        let mut words = Vec::with_capacity(self.len() / 2);
        for pair in self.floats()?.chunks((2 * *columns).max(1)) {
            let (low, high) = pair.split_at(pair.len() / 2);
            let word = |(low, high)| element.wrap(bits(low) | bits(high) << 16);
            words.extend(low.iter().zip(high).map(word));
        }
        *rows /= 2;
        Self::new(shape, element, words)
    }

    pub(super) fn cells(&self) -> &Cells {
        &self.cells
    }

    pub(super) fn floats(&self) -> Result<&[f32], Fault> {
        match &*self.cells {
            Cells::Float(data) => Ok(data),
            Cells::Int(_) => Err(Fault::Malformed("an operand must be of floats")),
        }
    }

    pub(super) fn ints(&self) -> Result<&[i64], Fault> {
        match &*self.cells {
            Cells::Int(data) => Ok(data),
            Cells::Float(_) => Err(Fault::Malformed("an operand must be of integers")),
        }
    }

    /// The only element.
    pub(super) fn one_int(&self) -> Result<i64, Fault> {
        match self.ints()? {
            [value] => Ok(*value),
            _ => Err(Fault::Malformed("an operand must be a number")),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }
}

/// A value at run time.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Tensor(Tensor),
    View(View),
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<View> for Value {
    fn from(view: View) -> Self {
        Self::View(view)
    }
}

impl Value {
    pub(super) fn tensor(&self) -> Result<&Tensor, Fault> {
        match self {
            Self::Tensor(tensor) => Ok(tensor),
            Self::View(_) => Err(Fault::Malformed("an operand must not be a memref")),
        }
    }

    pub(super) fn view(&self) -> Result<&View, Fault> {
        match self {
            Self::View(view) => Ok(view),
            Self::Tensor(_) => Err(Fault::Malformed("an operand must be a memref")),
        }
    }
}

/// Shape and element type of a type that a value can have.
pub(super) fn shape_of(module: &Module, ty: Type) -> Result<(Vec<usize>, Element), Fault> {
    let kind = module.type_kind(ty);
    let element = Element::of(module, kind.element().unwrap_or(ty))?;
    let size = |&n: &i64| {
        usize::try_from(n).map_err(|_| Fault::Unsupported("a size known only at run time".into()))
    };
    let shape: Vec<usize> = (kind.shape().unwrap_or_default().iter())
        .map(size)
        .collect::<Result<_, _>>()?;
    elements(&shape)?;
    Ok((shape, element))
}

/// The number of elements of a shape.
pub(super) fn elements(shape: &[usize]) -> Result<usize, Fault> {
    shape
        .iter()
        .try_fold(1_usize, |n, &size| n.checked_mul(size))
        .filter(|&n| n <= LIMIT)
        .ok_or(Fault::TooLarge { limit: LIMIT })
}

/// The strides of row-major elements.
pub(super) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(shape[i]);
    }
    strides
}

/// Calls `row` for each run along the last dimension of `shape`, in row-major order, with the
/// places where the run starts under each of `N` strides.
pub(super) fn rows<const N: usize>(
    shape: &[usize],
    strides: [&[usize]; N],
    offsets: [usize; N],
    row: &mut impl FnMut([usize; N]),
) {
    match shape {
        [] | [_] => row(offsets),
        [size, inner @ ..] => {
            for i in 0..*size {
                let at = std::array::from_fn(|n| offsets[n] + i * strides[n][0]);
                rows(inner, strides.map(|s| &s[1..]), at, row);
            }
        }
    }
}

/// The length of a run of [`rows`] and its stride.
pub(super) fn run(shape: &[usize], strides: &[usize]) -> (usize, usize) {
    match (shape.last(), strides.last()) {
        (Some(&len), Some(&stride)) => (len, stride),
        _ => (1, 1),
    }
}

/// The elements of a strided part of `cells`, row-major. The part must lie within.
pub(super) fn collect(cells: &Cells, shape: &[usize], strides: &[usize], offset: usize) -> Cells {
    fn part<T: Copy>(data: &[T], shape: &[usize], strides: &[usize], offset: usize) -> Vec<T> {
        let len = shape.iter().product();
        let mut out = Vec::with_capacity(len);
        if len == 0 {
            return out;
        }
        let (length, stride) = run(shape, strides);
        rows(shape, [strides], [offset], &mut |[start]| match stride {
            1 => out.extend_from_slice(&data[start..start + length]),
            0 => out.extend(std::iter::repeat_n(data[start], length)),
            _ => out.extend(data[start..].iter().step_by(stride).take(length)),
        });
        out
    }
    match cells {
        Cells::Float(data) => Cells::Float(part(data, shape, strides, offset)),
        Cells::Int(data) => Cells::Int(part(data, shape, strides, offset)),
    }
}

/// Writes row-major elements of the same kind to a strided part of `cells`, which must lie within.
pub(super) fn scatter(
    cells: &mut Cells,
    shape: &[usize],
    strides: &[usize],
    offset: usize,
    from: &Cells,
) -> Result<(), Fault> {
    fn part<T: Copy>(to: &mut [T], shape: &[usize], strides: &[usize], offset: usize, from: &[T]) {
        let (length, stride) = run(shape, strides);
        if from.is_empty() {
            return;
        }
        let mut chunks = from.chunks_exact(length);
        rows(shape, [strides], [offset], &mut |[start]| {
            let Some(from) = chunks.next() else { return };
            match stride {
                1 => to[start..start + length].copy_from_slice(from),
                _ => {
                    let to = to[start..].iter_mut().step_by(stride.max(1));
                    to.zip(from).for_each(|(to, from)| *to = *from);
                }
            }
        });
    }
    match (cells, from) {
        (Cells::Float(to), Cells::Float(from)) => part(to, shape, strides, offset, from),
        (Cells::Int(to), Cells::Int(from)) => part(to, shape, strides, offset, from),
        _ => return Err(Fault::Malformed("the value is not of the memory's type")),
    }
    Ok(())
}
