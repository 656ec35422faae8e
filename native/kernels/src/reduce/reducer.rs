//! The operations of reductions.

use crate::map::Lane;

/// Arithmetic on any lane type; integers wrap around.
pub trait NumericLane: Lane {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The smallest value: negative infinity for floats.
    const LOWEST: Self;
    /// The largest value: infinity for floats.
    const HIGHEST: Self;
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The product.
    fn times(self, other: Self) -> Self;
    /// The quotient; for integers truncated, and 0 when dividing by 0.
    fn over(self, other: Self) -> Self;
    /// The absolute value.
    fn magnitude(self) -> Self;
    /// The square root; for integers that of their double precision value, truncated.
    fn root(self) -> Self;
    /// True for NaN.
    fn not_a_number(self) -> bool;
    /// Converts a count of elements.
    fn count(n: usize) -> Self;
}

macro_rules! float {
    ($($t:ident)*) => {$(
        impl NumericLane for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const LOWEST: $t = $t::NEG_INFINITY;
            const HIGHEST: $t = $t::INFINITY;
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self + other
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                self * other
            }
            #[inline(always)]
            fn over(self, other: $t) -> $t {
                self / other
            }
            #[inline(always)]
            fn magnitude(self) -> $t {
                self.abs()
            }
            #[inline(always)]
            fn root(self) -> $t {
                self.sqrt()
            }
            #[inline(always)]
            fn not_a_number(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn count(n: usize) -> $t {
                n as $t
            }
        }
    )*};
}
float!(f32 f64);

macro_rules! integer {
    ($($t:ident)*) => {$(
        impl NumericLane for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;
            const LOWEST: $t = $t::MIN;
            const HIGHEST: $t = $t::MAX;
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn over(self, other: $t) -> $t {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn magnitude(self) -> $t {
                self.wrapping_abs()
            }
            #[inline(always)]
            fn root(self) -> $t {
                (self as f64).sqrt() as $t
            }
            #[inline(always)]
            fn not_a_number(self) -> bool {
                false
            }
            #[inline(always)]
            fn count(n: usize) -> $t {
                n as $t
            }
        }
    )*};
}
integer!(i32 i64);

/// A reduction: maps the elements, merges them in a fixed tree, and converts the result.
pub trait Reducer<C: NumericLane>: 'static {
    /// The identity of `merge`.
    const IDENTITY: C;
    /// False if `map` returns its argument.
    const MAPS: bool = true;
    /// Maps an element before merging.
    fn map(x: C) -> C;
    /// Merges two partial results.
    fn merge(a: C, b: C) -> C;
    /// Converts the merged result over `n` elements to the final one.
    fn finish(x: C, n: C) -> C;
}

macro_rules! reducers {
    ($($(#[$doc:meta])* $name:ident: $identity:ident, $(maps $maps:literal,)? |$x:ident| $map:expr, |$a:ident, $b:ident| $merge:expr,
     |$r:ident, $n:ident| $finish:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<C: NumericLane> Reducer<C> for $name {
            const IDENTITY: C = C::$identity;
            $(const MAPS: bool = $maps;)?
            #[inline(always)]
            fn map($x: C) -> C {
                $map
            }
            #[inline(always)]
            fn merge($a: C, $b: C) -> C {
                $merge
            }
            #[inline(always)]
            fn finish($r: C, $n: C) -> C {
                $finish
            }
        }
    )*};
}

/// `result`, or NaN if an operand is NaN. The NaN is the sum of the operands: if it were one of them, the compiler would update the
/// accumulators with masked stores, which take three times as long.
#[inline(always)]
fn or_nan<C: NumericLane>(a: C, b: C, result: C) -> C {
    if a.not_a_number() || b.not_a_number() { a.plus(b) } else { result }
}

reducers! {
    /// The sum.
    Sum: ZERO, maps false, |x| x, |a, b| a.plus(b), |r, _n| r;
    /// The arithmetic mean.
    Mean: ZERO, maps false, |x| x, |a, b| a.plus(b), |r, n| r.over(n);
    /// The product.
    Prod: ONE, maps false, |x| x, |a, b| a.times(b), |r, _n| r;
    /// The largest element, NaN if there is one.
    Max: LOWEST, maps false, |x| x, |a, b| or_nan(a, b, if a > b { a } else { b }), |r, _n| r;
    /// The smallest element, NaN if there is one.
    Min: HIGHEST, maps false, |x| x, |a, b| or_nan(a, b, if a < b { a } else { b }), |r, _n| r;
    /// The sum of the elements that are not NaN.
    NanSum: ZERO, |x| if x.not_a_number() { C::ZERO } else { x }, |a, b| a.plus(b), |r, _n| r;
    /// The product of the elements that are not NaN.
    NanProd: ONE, |x| if x.not_a_number() { C::ONE } else { x }, |a, b| a.times(b), |r, _n| r;
    /// The sum of squares.
    SumSquares: ZERO, |x| x.times(x), |a, b| a.plus(b), |r, _n| r;
    /// The sum of absolute values.
    L1Norm: ZERO, |x| x.magnitude(), |a, b| a.plus(b), |r, _n| r;
    /// The square root of the sum of squares.
    L2Norm: ZERO, |x| x.times(x), |a, b| a.plus(b), |r, _n| r.root();
}
