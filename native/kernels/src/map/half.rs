//! Loops of cheap formulas over `f16`. The other loops convert blocks to `f32` first, which takes longer than such a formula.

use super::drive::Runs;
use super::{LaneFn, Loop};
use crate::simd::half::Convert;
use crate::simd::multiversion::HalfLoopBody;
use ferromx_core::dtype::f16;
use std::marker::PhantomData;

/// The loop of a formula of `N` operands that captures nothing.
struct EachHalf<F, const N: usize>(PhantomData<F>);

/// Computes `y` from operands of its length, eight numbers at a time.
#[inline(always)]
fn half_loop<const N: usize>(convert: impl Convert, x: &[&[f16]], y: &mut [f16], f: impl Fn([f32; N]) -> f32) {
    for (operands, y) in Runs::<f16, f16, N>::new(x, y) {
        let blocks = operands.map(|x| x.as_chunks().0);
        for (i, y) in y.as_chunks_mut().0.iter_mut().enumerate() {
            let wide: [[f32; 8]; N] = std::array::from_fn(|k| convert.widen(&blocks[k][i]));
            *y = convert.narrow(std::array::from_fn(|lane| f(wide.map(|x| x[lane]))));
        }
    }
}

impl<F: LaneFn<(f32,), f32> + Default> HalfLoopBody for EachHalf<F, 1> {
    #[inline(always)]
    fn run(convert: impl Convert, x: &[&[f16]], y: &mut [f16]) {
        half_loop(convert, x, y, |[x]| F::default().call((x,)));
    }
}

impl<F: LaneFn<(f32, f32), f32> + Default> HalfLoopBody for EachHalf<F, 2> {
    #[inline(always)]
    fn run(convert: impl Convert, x: &[&[f16]], y: &mut [f16]) {
        half_loop(convert, x, y, |[a, b]| F::default().call((a, b)));
    }
}

impl<F: LaneFn<(f32, f32, f32), f32> + Default> HalfLoopBody for EachHalf<F, 3> {
    #[inline(always)]
    fn run(convert: impl Convert, x: &[&[f16]], y: &mut [f16]) {
        half_loop(convert, x, y, |[a, b, c]| F::default().call((a, b, c)));
    }
}

impl Loop<f16> {
    /// The loop of a formula of one operand, computed in `f32`.
    pub const fn half_map<F: LaneFn<(f32,), f32> + Default>() -> Loop<f16> {
        Loop::half::<EachHalf<F, 1>>()
    }

    /// The loop of a formula of two operands, computed in `f32`.
    pub const fn half_zip<F: LaneFn<(f32, f32), f32> + Default>() -> Loop<f16> {
        Loop::half::<EachHalf<F, 2>>()
    }

    /// The loop of a formula of three operands, computed in `f32`.
    pub const fn half_zip3<F: LaneFn<(f32, f32, f32), f32> + Default>() -> Loop<f16> {
        Loop::half::<EachHalf<F, 3>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{AnyElement, Operand, apply};

    #[derive(Clone, Copy, Default)]
    struct ScaledDifference;

    impl LaneFn<(f32, f32), f32> for ScaledDifference {
        #[inline(always)]
        fn call(self, (a, b): (f32, f32)) -> f32 {
            (a - b) * 3.0
        }
    }

    #[test]
    fn results_are_those_of_single_precision_rounded_once() {
        let x = |n: usize| (0..n).map(|i| f16::from_f32(i as f32 * 0.37 - 21.0)).collect::<Vec<_>>();
        for n in [1, 63, 64, 65, 200, 5000, 40_001] {
            let a = x(n);
            let third = f16::from_f32(1.0 / 3.0);
            let operands = [Operand::Elements(f16::elements(&a)), Operand::Constant(third)];
            let want: Vec<f16> = a.iter().map(|a| f16::from_f32((a.to_f32() - third.to_f32()) * 3.0)).collect();
            let mut y = vec![f16::ZERO; n];
            apply(&Loop::half_zip::<ScaledDifference>(), &operands, f16::elements_mut(&mut y));
            assert_eq!(y, want, "length {n}");
            let mut y = a.clone();
            apply(&Loop::half_zip::<ScaledDifference>(), &[Operand::InPlace, operands[1]], f16::elements_mut(&mut y));
            assert_eq!(y, want, "length {n} in place");
        }
    }

    #[test]
    fn operands_and_results_of_other_types_are_converted() {
        let a: Vec<f32> = (0..300).map(|i| i as f32).collect();
        let operands = [Operand::Elements(f32::elements(&a)), Operand::Constant(f16::ONE)];
        let mut y = vec![0i32; 300];
        apply(&Loop::half_zip::<ScaledDifference>(), &operands, i32::elements_mut(&mut y));
        assert!(y.iter().enumerate().all(|(i, y)| *y == (i as i32 - 1) * 3));
    }
}
