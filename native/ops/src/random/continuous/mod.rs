//! Random sampling from continuous distributions whose parameters are numbers or arrays.
//!
//! A parameter that is `None` is given as an array, and the arrays are broadcast. The result is a function of the parameters and of
//! noise that does not depend on them; the noise is a hidden output, from which the derivatives by the parameters follow.

mod params;

use std::marker::PhantomData;

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{ArgDef, Deps, OpCtx, OpDef, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::map::{Lane, Store};
use ferromx_kernels::math::{self, MathFloat};
use ferromx_kernels::movement;
use ferromx_kernels::par::parallel_rows2;
use ferromx_kernels::reduce::reduce_to_shape;
use ferromx_kernels::rng::Philox;
use ferromx_kernels::simd::multiversion::{self, Kernel};

use self::params::{
    DistributionParams, ExponentParam, GammaParam, LocScaleParam, NormalParam, PowerParam, ScaleParam, UniformParam,
};
use crate::broadcast::binary::broadcast_two;
use crate::elemwise::family::{elements, elements_mut, operators};

const ONE: &[ArgDef] = &[arg("input1", "The parameter, if it is not given as a number.")];
const TWO: &[ArgDef] = &[
    arg("input1", "The first parameter that is not given as a number."),
    arg("input2", "The second parameter, if neither is given as a number."),
];

/// Number of array inputs.
fn arrays<P: DistributionParams>(p: &Params) -> usize {
    p.get::<P>().given().iter().filter(|g| g.is_none()).count()
}

/// Shape rule: the size if given, otherwise the broadcast shape of the arrays; with `in_front` the size followed by that shape.
fn sample_shape<P: DistributionParams>(p: &Params, io: &mut ShapeIo<'_>, in_front: bool) -> Result<()> {
    let mut common = Shape::new(&[]);
    for s in io.ins.iter() {
        if !s.ndim_is_known() {
            // A given size determines the result, unless the axes of the parameters are appended.
            return match &p.get::<P>().size().0 {
                Some(size) if !in_front => (0..io.outs.len()).try_for_each(|k| io.assign_out(k, size)),
                _ => Ok(()),
            };
        }
        common = broadcast_two(&common, s)?;
    }
    let out = match &p.get::<P>().size().0 {
        Some(size) if in_front => Shape::new(&[size.dims(), common.dims()].concat()),
        Some(size) => {
            let whole = broadcast_two(&common, size)?;
            ensure!(whole == *size, "parameters of shape {common} cannot be broadcast to size={size}");
            whole
        }
        None => common,
    };
    (0..io.outs.len()).try_for_each(|k| io.assign_out(k, &out))
}

fn sample_dtype<P: DistributionParams>(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    (0..io.outs.len()).try_for_each(|k| io.assign_out(k, p.get::<P>().dtype()))
}

/// A parameter broadcast to the shape of the result.
enum Operand<C> {
    Number(C),
    Array(Vec<C>),
}

impl<C: MathFloat> Operand<C> {
    /// Writes the values of the elements from index `first` on.
    #[inline(always)]
    fn write(&self, first: usize, to: &mut [C]) {
        match self {
            Operand::Number(x) => to.fill(*x),
            Operand::Array(all) => to.copy_from_slice(&all[first..first + to.len()]),
        }
    }
}

/// The two parameters; the second is 0 for distributions of one.
///
/// # Errors
/// A parameter outside the valid range.
fn parameters<P: DistributionParams, L: Law, C: MathFloat>(
    ctx: &OpCtx<'_>,
    arrays: &[In<'_>],
    shape: &[usize],
) -> Result<[Operand<C>; 2]> {
    let mut rest = arrays.iter();
    let mut all = [Operand::Number(C::ZERO), Operand::Number(C::ZERO)];
    for (k, given) in ctx.params::<P>().given().into_iter().enumerate() {
        let small = match (given, if given.is_none() { rest.next() } else { None }) {
            (Some(number), _) => vec![C::of(number)],
            (None, Some(x)) => {
                let mut small = vec![C::ZERO; x.len()];
                C::load_any(elements(x)?, 0, &mut small);
                all[k] = Operand::Array(vec![C::ZERO; shape.iter().product()]);
                if let Operand::Array(large) = &mut all[k] {
                    movement::broadcast_to(&small, &x.shape().to_usize(), (large, shape));
                }
                small
            }
            (None, None) => vec![C::NAN],
        };
        if let (Some(number), Operand::Number(x)) = (small.first(), &mut all[k]) {
            *x = *number;
        }
        let valid = small.iter().all(|x| L::valid(k, x.to_f64()));
        ensure!(valid, "ValueError: expect {}, but a parameter is outside this range", L::RULE);
    }
    Ok(all)
}

/// The basic distribution that samples are transformed from.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    /// Uniform on [0, 1).
    Uniform,
    /// Standard normal.
    Normal,
    /// Exponential with mean 1.
    Exponential,
    /// Gamma with scale 1 and the first parameter as its shape.
    Gamma,
}

/// A distribution: valid parameters, noise, value, and derivatives by the parameters.
trait Law: 'static {
    /// The condition on the parameters, as text for errors.
    const RULE: &'static str;
    /// The basic distribution of the noise.
    const SOURCE: Source;
    /// Whether parameter `k` is valid.
    fn valid(k: usize, x: f64) -> bool;
    /// The noise for a basic random number.
    fn noise<R: MathFloat>(x: R) -> R;
    /// The value for parameters and noise.
    fn value<R: MathFloat>(p: [R; 2], z: R) -> R;
    /// The derivatives of the value by the parameters.
    fn derivatives(_p: [f64; 2], _z: f64) -> [f64; 2] {
        [0.0; 2]
    }
}

/// Elements that are computed together.
const CHUNK: usize = 1 << 10;

/// Computes values and noise of a chunk in a multiversioned kernel.
struct Values<'a, L, C> {
    p: [&'a [C]; 2],
    noise: &'a mut [C],
    values: &'a mut [C],
    law: PhantomData<L>,
}

impl<L: Law, C: MathFloat> Kernel for Values<'_, L, C> {
    type Output = ();
    const EVERY_ISA: bool = C::EVERY_ISA;

    #[inline(always)]
    fn run(self) {
        let [p, q] = self.p;
        for (i, (noise, value)) in self.noise.iter_mut().zip(self.values).enumerate() {
            *noise = L::noise(*noise);
            *value = L::value([p[i], q[i]], *noise);
        }
    }
}

/// Draws the noise of a whole array.
fn draw<L: Law, C: MathFloat + Store<f32> + Store<f64>>(random: &Philox, p: &[Operand<C>; 2], noise: &mut [C]) {
    match L::SOURCE {
        Source::Uniform => random.fill_uniform(0.0, 1.0, noise),
        Source::Normal => random.fill_normal(0.0, 1.0, noise),
        Source::Exponential => random.fill_exponential(1.0, noise),
        Source::Gamma => random.fill_with(noise, |i, draws| match &p[0] {
            Operand::Number(shape) => draws.gamma(shape.to_f64()),
            Operand::Array(all) => draws.gamma(all[i].to_f64()),
        }),
    }
}

fn sample_in<P: DistributionParams, L: Law, C: MathFloat + Store<f32> + Store<f64>>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()> {
    let shape = outs[0].shape().to_usize();
    let key = ctx.random.next_key();
    let random = Philox::new(key.seed, key.stream);
    let p = parameters::<P, L, C>(ctx, ins, &shape)?;
    let mut values = vec![C::ZERO; outs[0].len()];
    let mut noise = vec![C::ZERO; values.len()];
    draw::<L, C>(&random, &p, &mut noise);
    parallel_rows2((&mut values, CHUNK), (&mut noise, CHUNK), 8, |chunk, values, noise| {
        let (mut first, mut second) = ([C::ZERO; CHUNK], [C::ZERO; CHUNK]);
        let n = values.len();
        p[0].write(chunk * CHUNK, &mut first[..n]);
        p[1].write(chunk * CHUNK, &mut second[..n]);
        let p = [&first[..n], &second[..n]];
        multiversion::run(Values { p, noise, values, law: PhantomData::<L> });
    });
    for (out, all) in outs.iter_mut().zip([&values, &noise]).filter(|(out, _)| out.wanted()) {
        C::store_any(all, elements_mut(out)?);
    }
    Ok(())
}

fn sample<P: DistributionParams, L: Law>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    match outs[0].dtype() {
        DType::F64 => sample_in::<P, L, f64>(ctx, ins, outs),
        DType::F32 | DType::F16 => sample_in::<P, L, f32>(ctx, ins, outs),
        d => Err(ctx.unsupported(d, DType::FLOATS)),
    }
}

fn backward<P: DistributionParams, L: Law>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let shape = ins[0].shape().to_usize();
    let n = outs.len();
    let p = parameters::<P, L, f64>(ctx, &ins[1..1 + n], &shape)?;
    let wide = |x: &In<'_>| -> Result<Vec<f64>> {
        let mut all = vec![0.0; x.len()];
        f64::load_any(elements(x)?, 0, &mut all);
        Ok(all)
    };
    let (g, z) = (wide(&ins[0])?, wide(ins.last().ok_or_else(|| Error::Internal("no noise".into()))?)?);
    let at = |k: usize, i: usize| match &p[k] {
        Operand::Number(x) => *x,
        Operand::Array(all) => all[i],
    };
    let array_parameters = ctx.params::<P>().given().into_iter().enumerate().filter(|(_, given)| given.is_none());
    for ((k, _), out) in array_parameters.zip(outs).filter(|(_, out)| out.wanted()) {
        let all: Vec<f64> = (0..g.len()).map(|i| g[i] * L::derivatives([at(0, i), at(1, i)], z[i])[k]).collect();
        let mut sums = vec![0.0; out.len()];
        reduce_to_shape::<f64, f64>(&all, &shape, &out.shape().to_usize(), &mut sums);
        f64::store_any(&sums, elements_mut(out)?);
    }
    Ok(())
}

/// Defines the law of a distribution, optionally with derivatives.
macro_rules! law {
    ($(#[$doc:meta])* $name:ident: $rule:literal, valid |$k:pat_param, $x:pat_param| $valid:expr,
     noise $source:ident |$u:ident| $noise:expr,
     value |$r:pat_param, $z:pat_param| $value:expr $(, derivatives |$s:pat_param, $y:pat_param| $derivatives:expr)?) => {
        $(#[$doc])*
        struct $name;
        impl Law for $name {
            const RULE: &'static str = $rule;
            const SOURCE: Source = Source::$source;
            fn valid($k: usize, $x: f64) -> bool { $valid }
            #[inline(always)]
            fn noise<R: MathFloat>($u: R) -> R { $noise }
            #[inline(always)]
            fn value<R: MathFloat>($r: [R; 2], $z: R) -> R { $value }
            $(fn derivatives($s: [f64; 2], $y: f64) -> [f64; 2] { $derivatives })?
        }
    };
}

/// Replaces 0 by a positive number, so that the logarithm exists: random numbers are multiples of 2^-24 or 2^-53.
#[inline(always)]
fn positive<R: MathFloat>(x: R) -> R {
    let least = R::of(if R::DTYPE == DType::F64 { f64::EPSILON / 4.0 } else { f64::from(f32::EPSILON) / 4.0 });
    if x < least { least } else { x }
}

law!(
    /// `low + (high - low) u`.
    Uniform: "any bounds", valid |_, _| true, noise Uniform |u| u, value |[low, high], u| low + (high - low) * u);
law!(
    /// `loc + scale z`.
    Normal: "scale >= 0", valid |k, x| k == 0 || x >= 0.0, noise Normal |z| z, value |[m, s], z| m + s * z,
    derivatives |_, z| [1.0, z]);
law!(
    /// `loc - scale ln e`.
    Gumbel: "scale >= 0", valid |k, x| k == 0 || x >= 0.0, noise Exponential |e| -math::log(positive(e)),
    value |[m, s], z| m + s * z, derivatives |_, z| [1.0, z]);
law!(
    /// `loc + scale ln(u / (1 - u))`.
    Logistic: "scale >= 0", valid |k, x| k == 0 || x >= 0.0, noise Uniform |u| math::log(positive(u) / (R::ONE - u)),
    value |[m, s], z| m + s * z, derivatives |_, z| [1.0, z]);
law!(
    /// Marsaglia and Tsang's method.
    Gamma: "shape > 0 and scale > 0", valid |_, x| x > 0.0, noise Gamma |z| z,
    value |[_, s], z| s * z);
law!(
    /// `scale e`.
    Exponential: "scale >= 0", valid |_, x| x >= 0.0, noise Exponential |e| e, value |[s, _], e| s * e,
    derivatives |_, e| [e, 0.0]);
law!(
    /// `scale sqrt(2 e)`.
    Rayleigh: "scale >= 0", valid |_, x| x >= 0.0, noise Exponential |e| (e + e).sqrt(), value |[s, _], z| s * z,
    derivatives |_, z| [z, 0.0]);
law!(
    /// `exp(e / a) - 1`.
    Pareto: "a > 0", valid |_, x| x > 0.0, noise Exponential |e| e, value |[a, _], e| math::expm1(e / a),
    derivatives |[a, _], e| [-e / (a * a) * (e / a).exp(), 0.0]);
law!(
    /// `e^(1 / a)`.
    Weibull: "a > 0", valid |_, x| x > 0.0, noise Exponential |e| positive(e), value |[a, _], e| math::pow(e, R::ONE / a),
    derivatives |[a, _], e| [-e.ln() / (a * a) * e.powf(1.0 / a), 0.0]);
law!(
    /// `(1 - exp(-e))^(1 / a)`.
    Power: "a > 0", valid |_, x| x > 0.0, noise Exponential |e| e,
    value |[a, _], e| math::pow(-math::expm1(-e), R::ONE / a));

/// Defines an operator; `hidden` keeps the noise for the gradient.
macro_rules! random_op {
    ($name:ident: $op:literal ($I:ident), $P:ident, $L:ident, $in_front:literal, hidden, $doc:literal) => {
        random_op!(@def $name, $op, $I, $P, $L, $in_front, $doc, |def| def.outputs(|_| 2).visible(|_| 1).grad(Grad::Kernel(
            Backward::new(backward::<$P, $L>).inputs(Deps::All).outputs(Deps::Some(&[1])),
            None,
        )));
    };
    ($name:ident: $op:literal ($I:ident), $P:ident, $L:ident, $in_front:literal, zero, $doc:literal) => {
        random_op!(@def $name, $op, $I, $P, $L, $in_front, $doc, |def| def.grad(Grad::Zero));
    };
    (@def $name:ident, $op:literal, $I:ident, $P:ident, $L:ident, $in_front:literal, $doc:literal, |$def:ident| $more:expr) => {
        pub(crate) static $name: OpDef = {
            let $def = OpDef::new($op)
                .doc(concat!("Random numbers: ", $doc, " Parameters that are None are given as arrays, which are broadcast."))
                .inputs($I)
                .params::<$P>()
                .num_inputs_by(arrays::<$P>)
                .shape(|p, io| sample_shape::<$P>(p, io, $in_front))
                .dtype(sample_dtype::<$P>)
                .forward(sample::<$P, $L>)
                .random();
            $more
        };
    };
}

operators! { OPS [] =
    random_op!(UNIFORM: "_npi_uniform" (TWO), UniformParam, Uniform, false, zero, "uniformly distributed from low to high.");
    random_op!(UNIFORM_N: "_npi_uniform_n" (TWO), UniformParam, Uniform, true, zero,
        "uniformly distributed from low to high: an array of shape (size..., shape of the parameters...).");
    random_op!(NORMAL: "_npi_normal" (TWO), NormalParam, Normal, false, hidden,
        "normally distributed with mean loc and standard deviation scale.");
    random_op!(NORMAL_N: "_npi_normal_n" (TWO), NormalParam, Normal, true, hidden,
        "normally distributed with mean loc and standard deviation scale: an array of shape (size..., shape of the parameters...).");
    random_op!(GUMBEL: "_npi_gumbel" (TWO), LocScaleParam, Gumbel, false, hidden, "of the Gumbel distribution, loc - scale ln(-ln u).");
    random_op!(LOGISTIC: "_npi_logistic" (TWO), LocScaleParam, Logistic, false, hidden,
        "of the logistic distribution, loc + scale ln(u / (1 - u)).");
    random_op!(GAMMA: "_npi_gamma" (TWO), GammaParam, Gamma, false, zero, "of the gamma distribution of a shape and a scale.");
    random_op!(EXPONENTIAL: "_npi_exponential" (ONE), ScaleParam, Exponential, false, hidden,
        "of the exponential distribution with mean scale.");
    random_op!(RAYLEIGH: "_npi_rayleigh" (ONE), ScaleParam, Rayleigh, false, hidden, "of the Rayleigh distribution, scale sqrt(-2 ln u).");
    random_op!(PARETO: "_npi_pareto" (ONE), ExponentParam, Pareto, false, hidden,
        "of the Pareto distribution of the second kind (Lomax), u^(-1/a) - 1.");
    random_op!(WEIBULL: "_npi_weibull" (ONE), ExponentParam, Weibull, false, hidden, "of the Weibull distribution, (-ln u)^(1/a).");
    random_op!(POWER: "_npi_powerd" (ONE), PowerParam, Power, false, zero, "with density a x^(a - 1) from 0 to 1: u^(1/a).");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close};

    const N: usize = 40_000;

    fn draw(def: &'static OpDef, attrs: &[(&str, &str)]) -> Vec<f64> {
        let size = format!("({N},)");
        let attrs: Vec<_> = attrs.iter().copied().chain([("size", size.as_str())]).collect();
        Case::new(def, &attrs).run1(&[]).unwrap().to_vec_as::<f64>().unwrap()
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let two = |a: &'static str, b: &'static str, x, y| [(a, x), (b, y)];
        let pi = std::f64::consts::PI;
        for (x, mean, variance) in [
            (draw(&UNIFORM, &two("low", "high", "-1", "3")), 1.0, 16.0 / 12.0),
            (draw(&NORMAL, &two("loc", "scale", "2", "3")), 2.0, 9.0),
            (draw(&GUMBEL, &two("loc", "scale", "1", "2")), 1.0 + 2.0 * 0.577_215_664_9, pi * pi / 6.0 * 4.0),
            (draw(&LOGISTIC, &two("loc", "scale", "1", "2")), 1.0, pi * pi / 3.0 * 4.0),
            (draw(&GAMMA, &two("shape", "scale", "3", "2")), 6.0, 12.0),
            (draw(&EXPONENTIAL, &[("scale", "2")]), 2.0, 4.0),
            (draw(&RAYLEIGH, &[("scale", "2")]), 2.0 * (pi / 2.0).sqrt(), (4.0 - pi) / 2.0 * 4.0),
            (draw(&PARETO, &[("a", "5")]), 0.25, 5.0 / (16.0 * 3.0)),
            (draw(&WEIBULL, &[("a", "1")]), 1.0, 1.0),
            (draw(&POWER, &[("a", "3")]), 0.75, 3.0 / (16.0 * 5.0)),
        ] {
            let n = x.len() as f64;
            let m = x.iter().sum::<f64>() / n;
            let v = x.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / n;
            assert!((m - mean).abs() < 5.0 * (variance / n).sqrt(), "mean {m}, expected {mean}");
            assert!((v / variance - 1.0).abs() < 0.12, "variance {v}, expected {variance}");
        }
    }

    #[test]
    fn arrays_are_broadcast_and_have_gradients() {
        let case = Case::new(&NORMAL, &[("loc", "None"), ("scale", "None"), ("dtype", "float64")]);
        let ins = [array(&[0.0, 10.0], &[2, 1]), array(&[1.0, 0.0, 2.0], &[3])];
        let y = case.run1(&ins).unwrap();
        assert_eq!((y.shape(), y.to_vec::<f64>().unwrap()[4]), (&[2, 3].into(), 10.0));
        case.check_gradient(&[array(&[0.0, 10.0], &[2, 1]), array(&[1.0, 0.5, 2.0], &[3])]);
        for def in [&PARETO, &WEIBULL] {
            Case::new(def, &[("a", "None")]).backward(&[array(&[2.0], &[1])], &[array(&[1f32], &[1])]).unwrap();
        }
        let shape = |def, attrs: &[(&str, &str)]| Case::new(def, attrs).shapes(&[[2, 1].into(), [3].into()]);
        let both = [("low", "None"), ("high", "None"), ("size", "(4,)")];
        assert_eq!(shape(&UNIFORM_N, &both).unwrap()[0], [4, 2, 3].into());
        assert!(shape(&UNIFORM, &both).is_err());
    }

    #[test]
    fn parameters_outside_their_range_are_refused() {
        let error = |def, attrs: &[(&str, &str)]| Case::new(def, attrs).run1(&[]).unwrap_err().to_string();
        assert!(error(&NORMAL, &[("loc", "0"), ("scale", "-1")]).contains("scale >= 0"));
        assert!(error(&PARETO, &[("a", "0")]).contains("a > 0"));
        close(&[draw(&UNIFORM, &[("low", "2"), ("high", "2")])[0]], &[2.0], 0.0);
    }
}
