//! Formulas of two operands and their partial derivatives, shared by the elementwise, the broadcasting and the scalar forms of an
//! operator.
#![allow(clippy::excessive_precision, clippy::approx_constant)] // The constants serve single and double precision alike.

use ferromx_kernels::math::{self, MathFloat};

use super::family::formula;

/// `sqrt(a^2 + b^2)` without overflow. As in C, it is infinite if an operand is, even if the other is NaN.
#[inline(always)]
fn hypot<T: MathFloat>(a: T, b: T) -> T {
    let (x, y) = (a.abs(), b.abs());
    let (max, min) = if x > y { (x, y) } else { (y, x) };
    let infinity = T::of(f64::INFINITY);
    if x == infinity || y == infinity {
        infinity
    } else if max > T::ZERO {
        let ratio = min / max;
        max * (T::ONE + ratio * ratio).sqrt()
    } else {
        // Both are 0, or one is NaN.
        x + y
    }
}

formula!(cheap Binary
    /// Sum.
    Add = |a, b| a + b, int |a, b| a.wrapping_add(b));

formula!(cheap Binary
    /// Difference.
    Sub = |a, b| a - b, int |a, b| a.wrapping_sub(b));

formula!(cheap Binary
    /// Product.
    Mul = |a, b| a * b, int |a, b| a.wrapping_mul(b));

formula!(cheap Binary
    /// Quotient; truncated for integers, 0 for integer division by 0.
    Div = |a, b| a / b, int |a, b| if b == 0 { 0 } else { a.wrapping_div(b) });

formula!(Binary
    /// Quotient of a number and an integer array. Division by 0 gives the smallest integer, to which x86 converts the infinity that
    /// MXNet computes.
    DivScalar = |a, b| a / b, int |a, b| if b == 0 { (b + 1).rotate_right(1) } else { a.wrapping_div(b) });

formula!(Binary
    /// `d(a/b)/da`.
    DivA = |_a, b| 1.0 / b);

formula!(Binary
    /// `d(a/b)/db`.
    DivB = |a, b| -a / (b * b));

formula!(Binary
/// Remainder with the sign of the divisor; 0 where the divisor is 0.
Mod = |a, b| {
    let r = a % b;
    if b == 0.0 {
        0.0
    } else if r != 0.0 && (r < 0.0) != (b < 0.0) {
        r + b
    } else {
        r
    }
},
int |a, b| {
    let r = if b == 0 { 0 } else { a.wrapping_rem(b) };
    if r != 0 && (r < 0) != (b < 0) { r.wrapping_add(b) } else { r }
});

formula!(Binary
    /// `d(a mod b)/da`; 0 for integers, as in MXNet.
    ModA = |_a, _b| 1.0, int |_a, _b| 0);

formula!(Binary
    /// `d(a mod b)/db`; 0 for integers, as in MXNet.
    ModB = |a, b| -(a / b).floor(), int |_a, _b| 0);

formula!(Binary
    /// `a` to the power `b`.
    Power = |a, b| math::pow(a, b));

formula!(Binary
    /// `d(a^b)/da`.
    PowerA = |a, b| b * math::pow(a, b - 1.0));

formula!(Binary
    /// `d(a^b)/db`.
    PowerB = |a, b| math::pow(a, b) * math::log(a));

formula!(Binary
    /// `sqrt(a^2 + b^2)`.
    Hypot = |a, b| hypot(a, b));

formula!(Binary
    /// `d hypot(a, b)/da`.
    HypotA = |a, b| a / hypot(a, b));

formula!(Binary
    /// `d hypot(a, b)/db`.
    HypotB = |a, b| b / hypot(a, b));

formula!(Binary
    /// The larger operand, NaN if one is NaN.
    Maximum = |a, b| math::maximum(a, b), int |a, b| a.max(b));

formula!(Binary
    /// `d max(a, b)/da`: 1 if `a >= b`.
    MaximumA = |a, b| if a >= b { 1.0 } else { 0.0 });

formula!(Binary
    /// `d max(a, b)/db`.
    MaximumB = |a, b| if a < b { 1.0 } else { 0.0 });

formula!(Binary
    /// The smaller operand, NaN if one is NaN.
    Minimum = |a, b| math::minimum(a, b), int |a, b| a.min(b));

formula!(Binary
    /// `d min(a, b)/da`: 1 if `a <= b`.
    MinimumA = |a, b| if a <= b { 1.0 } else { 0.0 });

formula!(Binary
    /// `d min(a, b)/db`.
    MinimumB = |a, b| if a > b { 1.0 } else { 0.0 });

/// Defines a formula that is 1 if a condition holds and 0 otherwise.
macro_rules! condition {
    ($(#[$doc:meta])* $name:ident = |$a:ident, $b:ident| float $float:expr, int $int:expr) => {
        formula!(Binary $(#[$doc])* $name = |$a, $b| if $float { 1.0 } else { 0.0 }, int |$a, $b| if $int { 1 } else { 0 });
    };
}

condition!(
    /// Whether the operands are equal.
    Equal = |a, b| float a == b, int a == b);

condition!(
    /// Whether they differ.
    NotEqual = |a, b| float a != b, int a != b);

condition!(
    /// Whether the first is larger.
    Greater = |a, b| float a > b, int a > b);

condition!(
    /// Whether the first is not smaller.
    GreaterEqual = |a, b| float a >= b, int a >= b);

condition!(
    /// Whether the first is smaller.
    Lesser = |a, b| float a < b, int a < b);

condition!(
    /// Whether the first is not larger.
    LesserEqual = |a, b| float a <= b, int a <= b);

condition!(
    /// Whether both are not 0.
    And = |a, b| float a != 0.0 && b != 0.0, int a != 0 && b != 0);

condition!(
    /// Whether one of them is not 0.
    Or = |a, b| float a != 0.0 || b != 0.0, int a != 0 || b != 0);

condition!(
    /// Whether exactly one of them is not 0.
    Xor = |a, b| float (a != 0.0) != (b != 0.0), int (a != 0) != (b != 0));

formula!(Binary
/// The magnitude of `a` with the sign of `b`. As in MXNet, -0 counts as positive, and a NaN in `b` negates `a`.
Copysign = |a, b| if (a >= 0.0 && b >= 0.0) || (a < 0.0 && b < 0.0) { a } else { -a }, int |a,
    b| if b < 0 { a.wrapping_abs().wrapping_neg() } else { a.wrapping_abs() });

formula!(Binary
    /// `d copysign(a, b)/da`.
    CopysignA = |a, b| if (a >= 0.0 && b >= 0.0) || (a < 0.0 && b < 0.0) { 1.0 } else { -1.0 });

formula!(Binary
    /// `a * 2^b`.
    Ldexp = |a, b| a * math::pow(2.0, b));

formula!(Binary
    /// `d ldexp(a, b)/da`.
    LdexpA = |_a, b| math::pow(2.0, b));

formula!(Binary
    /// `d ldexp(a, b)/db`.
    LdexpB = |a, b| a * math::pow(2.0, b) * 0.693_147_180_559_945_3);

formula!(Binary
    /// The angle of the point (x, y) = (`b`, `a`).
    Arctan2 = |a, b| arctan2(a, b));

formula!(Binary
    /// `d arctan2(a, b)/da`.
    Arctan2A = |a, b| b / (a * a + b * b));

formula!(Binary
    /// `d arctan2(a, b)/db`.
    Arctan2B = |a, b| -a / (a * a + b * b));

/// The angle of the point (`x`, `y`), with the special values of C99.
#[inline(always)]
fn arctan2<T: MathFloat>(y: T, x: T) -> T {
    let pi = T::of(std::f64::consts::PI);
    let infinity = T::of(f64::INFINITY);
    // y / x is NaN for two infinities or two zeros; only their signs determine the angle.
    let both_infinite = x.abs() == infinity && y.abs() == infinity;
    let (num, den) = if both_infinite { (T::ONE.copysign(y), T::ONE.copysign(x)) } else { (y, x) };
    let angle = if num == T::ZERO && den == T::ZERO { num } else { math::atan(num / den) };
    if T::ONE.copysign(den) < T::ZERO { angle + pi.copysign(y) } else { angle }
}
