//! Expressions: the arithmetic of a loss, as data.
//!
//! A new loss should be an expression and not a new primitive. An [`Expr`] is a small immutable
//! tree over *leaves*; what a leaf is depends on where the expression is used. Inside a kernel it
//! is a [`Leaf`]: an element of a tile, the element of a per-row vector (the same for all columns),
//! the column number. Around kernels it is a whole array. A backend evaluates the tree strip by
//! strip (CPU) or emits one vector operation per node (TPU).
//!
//! Arithmetic is f32 throughout; bf16 leaves are widened when read and rounded when stored.
//! Integers occur only in comparisons ([`Int`], [`Mask`]): labels never pass through a float.

use alloc::sync::Arc;
use core::ops::{Add, Div, Mul, Neg, Sub};

use crate::view::{Columns, ColumnsRef, Rows, RowsRef, Tile, TileRef};

/// A real-valued expression over leaves `L`.
#[derive(Clone, Debug)]
pub struct Expr<L>(Arc<Node<L>>);

/// One node of an [`Expr`].
#[derive(Debug)]
pub enum Node<L> {
    /// A constant.
    Constant(f32),
    /// The value of a leaf.
    Leaf(L),
    /// A function of one value.
    Unary(Unary, Expr<L>),
    /// A function of two values.
    Binary(Binary, Expr<L>, Expr<L>),
    /// The first expression where the mask holds, the second elsewhere. The other side may be NaN.
    Select(Mask<L>, Expr<L>, Expr<L>),
}

/// Functions of one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unary {
    /// `-x`
    Neg,
    /// `|x|`
    Abs,
    /// `e^x`
    Exp,
    /// Natural logarithm; `log 0 = -inf`, NaN below.
    Log,
    /// Hyperbolic tangent.
    Tanh,
    /// `1 / x`
    Reciprocal,
}

/// Functions of two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Binary {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`
    Div,
    /// The larger; NaN if either is.
    Max,
    /// The smaller; NaN if either is.
    Min,
}

/// A truth value per element.
#[derive(Clone, Debug)]
pub enum Mask<L> {
    /// Two integers are equal.
    IntEqual(Int<L>, Int<L>),
    /// The first integer is less than the second.
    IntLess(Int<L>, Int<L>),
    /// Two real values are equal (false if either is NaN).
    Equal(Expr<L>, Expr<L>),
    /// The first value is less than the second (false if either is NaN).
    Less(Expr<L>, Expr<L>),
    /// Both hold.
    And(Arc<(Mask<L>, Mask<L>)>),
    /// Does not hold.
    Not(Arc<Mask<L>>),
}

/// An integer per element, for comparisons.
#[derive(Clone, Copy, Debug)]
pub enum Int<L> {
    /// A constant.
    Constant(i32),
    /// An integer leaf.
    Leaf(L),
}

/// A leaf of an expression inside a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Leaf<I> {
    /// The element of a tile at this row and column.
    Tile(Tile<I>),
    /// The element of a per-row vector at this row.
    Rows(Rows<I>),
    /// The element of a per-column vector at this column.
    Columns(Columns<I>),
    /// The number of the column (integer): 0 at the left edge of the result, plus an offset.
    Column(Option<I>),
}

impl<L> Expr<L> {
    /// The root node.
    pub fn node(&self) -> &Node<L> {
        &self.0
    }

    /// The same value everywhere.
    pub fn constant(value: f32) -> Self {
        Self(Arc::new(Node::Constant(value)))
    }

    /// The value of a leaf.
    pub fn leaf(leaf: impl Into<L>) -> Self {
        Self(Arc::new(Node::Leaf(leaf.into())))
    }

    /// `f(self)`
    pub fn unary(self, f: Unary) -> Self {
        Self(Arc::new(Node::Unary(f, self)))
    }

    /// `f(self, other)`
    pub fn binary(self, f: Binary, other: Self) -> Self {
        Self(Arc::new(Node::Binary(f, self, other)))
    }

    /// Calls `body` on every leaf.
    pub fn for_each_leaf(&self, body: &mut impl FnMut(&L)) {
        match self.node() {
            Node::Constant(_) => {}
            Node::Leaf(leaf) => body(leaf),
            Node::Unary(_, a) => a.for_each_leaf(body),
            Node::Binary(_, a, b) => {
                a.for_each_leaf(body);
                b.for_each_leaf(body);
            }
            Node::Select(mask, a, b) => {
                mask.for_each_leaf(body);
                a.for_each_leaf(body);
                b.for_each_leaf(body);
            }
        }
    }

    /// The same expression of other leaves.
    pub fn map_leaves<M>(&self, leaf: &impl Fn(&L) -> M) -> Expr<M> {
        Expr(Arc::new(match self.node() {
            Node::Constant(value) => Node::Constant(*value),
            Node::Leaf(of) => Node::Leaf(leaf(of)),
            Node::Unary(f, a) => Node::Unary(*f, a.map_leaves(leaf)),
            Node::Binary(f, a, b) => Node::Binary(*f, a.map_leaves(leaf), b.map_leaves(leaf)),
            Node::Select(mask, a, b) => Node::Select(
                mask.map_leaves(leaf),
                a.map_leaves(leaf),
                b.map_leaves(leaf),
            ),
        }))
    }

    /// `e^self`
    pub fn exp(self) -> Self {
        self.unary(Unary::Exp)
    }

    /// Natural logarithm.
    pub fn log(self) -> Self {
        self.unary(Unary::Log)
    }

    /// Hyperbolic tangent.
    pub fn tanh(self) -> Self {
        self.unary(Unary::Tanh)
    }

    /// The larger of two values.
    pub fn max(self, other: impl Into<Self>) -> Self {
        self.binary(Binary::Max, other.into())
    }

    /// The smaller of two values.
    pub fn min(self, other: impl Into<Self>) -> Self {
        self.binary(Binary::Min, other.into())
    }

    /// Where this equals `other`.
    pub fn equals(self, other: impl Into<Self>) -> Mask<L> {
        Mask::Equal(self, other.into())
    }

    /// Where this is less than `other`.
    pub fn less_than(self, other: impl Into<Self>) -> Mask<L> {
        Mask::Less(self, other.into())
    }
}

impl<L> Mask<L> {
    /// `then` where the mask holds, `otherwise` elsewhere.
    pub fn select(self, then: impl Into<Expr<L>>, otherwise: impl Into<Expr<L>>) -> Expr<L> {
        Expr(Arc::new(Node::Select(self, then.into(), otherwise.into())))
    }

    /// Where both hold.
    pub fn and(self, other: Self) -> Self {
        Self::And(Arc::new((self, other)))
    }

    /// Where at least one holds.
    pub fn or(self, other: Self) -> Self {
        !(!self).and(!other)
    }

    fn map_leaves<M>(&self, leaf: &impl Fn(&L) -> M) -> Mask<M> {
        match self {
            Self::IntEqual(a, b) => Mask::IntEqual(a.map_leaf(leaf), b.map_leaf(leaf)),
            Self::IntLess(a, b) => Mask::IntLess(a.map_leaf(leaf), b.map_leaf(leaf)),
            Self::Equal(a, b) => Mask::Equal(a.map_leaves(leaf), b.map_leaves(leaf)),
            Self::Less(a, b) => Mask::Less(a.map_leaves(leaf), b.map_leaves(leaf)),
            Self::And(both) => {
                let (a, b) = &**both;
                Mask::And(Arc::new((a.map_leaves(leaf), b.map_leaves(leaf))))
            }
            Self::Not(mask) => Mask::Not(Arc::new(mask.map_leaves(leaf))),
        }
    }

    fn for_each_leaf(&self, body: &mut impl FnMut(&L)) {
        match self {
            Self::IntEqual(a, b) | Self::IntLess(a, b) => {
                for int in [a, b] {
                    if let Int::Leaf(leaf) = int {
                        body(leaf);
                    }
                }
            }
            Self::Equal(a, b) | Self::Less(a, b) => {
                a.for_each_leaf(body);
                b.for_each_leaf(body);
            }
            Self::And(both) => {
                both.0.for_each_leaf(body);
                both.1.for_each_leaf(body);
            }
            Self::Not(mask) => mask.for_each_leaf(body),
        }
    }
}

impl<L> core::ops::Not for Mask<L> {
    type Output = Self;
    fn not(self) -> Self {
        Self::Not(Arc::new(self))
    }
}

impl<L> Int<L> {
    fn map_leaf<M>(&self, leaf: &impl Fn(&L) -> M) -> Int<M> {
        match self {
            Self::Constant(value) => Int::Constant(*value),
            Self::Leaf(of) => Int::Leaf(leaf(of)),
        }
    }

    /// An integer leaf.
    pub fn leaf(leaf: impl Into<L>) -> Self {
        Self::Leaf(leaf.into())
    }

    /// Where this equals `other`.
    pub fn equals(self, other: impl Into<Self>) -> Mask<L> {
        Mask::IntEqual(self, other.into())
    }

    /// Where this is less than `other`.
    pub fn less_than(self, other: impl Into<Self>) -> Mask<L> {
        Mask::IntLess(self, other.into())
    }
}

impl<L> From<f32> for Expr<L> {
    fn from(value: f32) -> Self {
        Self::constant(value)
    }
}

impl<L> From<i32> for Int<L> {
    fn from(value: i32) -> Self {
        Self::Constant(value)
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident) => {
        impl<L, R: Into<Expr<L>>> $trait<R> for Expr<L> {
            type Output = Expr<L>;
            fn $method(self, other: R) -> Expr<L> {
                self.binary(Binary::$trait, other.into())
            }
        }
    };
}

operator!(Add, add);
operator!(Sub, sub);
operator!(Mul, mul);
operator!(Div, div);

impl<L> Neg for Expr<L> {
    type Output = Self;
    fn neg(self) -> Self {
        self.unary(Unary::Neg)
    }
}

macro_rules! leaf_from {
    ($($view:ident $reference:ident),*) => {$(
        impl<I: Copy> From<$view<I>> for Leaf<I> {
            fn from(view: $view<I>) -> Self {
                Self::$view(view)
            }
        }
        impl<I: Copy> From<$reference> for Leaf<I> {
            fn from(reference: $reference) -> Self {
                Self::$view(reference.into())
            }
        }
    )*};
}

leaf_from!(Tile TileRef, Rows RowsRef, Columns ColumnsRef);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_build_the_tree_they_spell() {
        let (a, b) = (Expr::<u8>::leaf(1), Expr::leaf(2));
        let e = (a - b) * 2.0;
        let Node::Binary(Binary::Mul, left, right) = e.node() else {
            panic!("expected a product, got {e:?}")
        };
        assert!(matches!(left.node(), Node::Binary(Binary::Sub, ..)));
        assert!(matches!(right.node(), Node::Constant(2.0)));
    }

    #[test]
    fn other_leaves_stand_in_the_same_places() {
        let positive = Expr::<u8>::constant(0.0).less_than(Expr::leaf(1));
        let one = !Int::leaf(2).equals(1).and(positive);
        let e = one.select(Expr::leaf(3).exp(), -Expr::leaf(4));
        let text = alloc::format!("{:?}", e.map_leaves(&|leaf| leaf + 10));
        let plain = alloc::format!("{e:?}");
        let moved = (1..5).fold(plain, |text, leaf: u8| {
            let [from, to] = [leaf, leaf + 10].map(|leaf| alloc::format!("Leaf({leaf})"));
            text.replace(&from, &to)
        });
        assert_eq!(text, moved);
    }
}
