//! Continuous distributions of the NumPy interface, whose parameters are scalars or arrays.
//!
//! A parameter that is `None` is an array input, and the arrays are broadcast. Samples are reparametrized: they are a function of the
//! parameters and of noise that does not depend on them. The noise is a hidden output, from which the gradients of the parameters are
//! computed. `params` has the parameters of the operators.

mod params;

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::map::{Lane, Store};
use ferromx_kernels::math::{self, MathFloat};
use ferromx_kernels::movement;
use ferromx_kernels::reduce::reduce_to_shape;
use ferromx_kernels::rng::{Philox, SampleFormula, SampleParameter, compute_samples};

use self::params::{
    DistributionParams, ExponentParam, GammaParam, LocScaleParam, NormalParam, PowerParam, ScaleParam, UniformParam,
};
use crate::broadcast::binary::broadcast_two;
use crate::elemwise::family::{elements, elements_mut, operators};
use crate::random::sample_shape::sample_shape;

const ONE_ARRAY: &[ArgDef] = &[arg("input1", "The parameter, if it is not given as a number.")];
const TWO_ARRAYS: &[ArgDef] = &[
    arg("input1", "The first parameter that is not given as a number."),
    arg("input2", "The second parameter, if neither is given as a number."),
];

/// The number of array inputs.
fn num_arrays<P: DistributionParams>(p: &Params) -> usize {
    p.get::<P>().scalars().iter().filter(|scalar| scalar.is_none()).count()
}

/// Shape rule: the size if there is one, otherwise the broadcast shape of the arrays. With `prepend_size`, the size followed by that shape.
fn infer_shape<P: DistributionParams>(p: &Params, io: &mut ShapeIo<'_>, prepend_size: bool) -> Result<()> {
    let mut common = Shape::new(&[]);
    for s in io.ins.iter() {
        if !s.ndim_is_known() {
            // The size determines the result, unless the axes of the parameters are appended.
            return match &p.get::<P>().size().0 {
                Some(size) if !prepend_size => (0..io.outs.len()).try_for_each(|k| io.assign_out(k, size)),
                _ => Ok(()),
            };
        }
        common = broadcast_two(&common, s)?;
    }
    let out = match &p.get::<P>().size().0 {
        Some(size) if prepend_size => Shape::new(&[size.dims(), common.dims()].concat()),
        size => sample_shape(common, size.as_ref())?,
    };
    (0..io.outs.len()).try_for_each(|k| io.assign_out(k, &out))
}

fn sample_dtype<P: DistributionParams>(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    (0..io.outs.len()).try_for_each(|k| io.assign_out(k, p.get::<P>().dtype()))
}

/// The two parameters, of which the second is 0 if the distribution has only one.
///
/// # Errors
/// If a parameter is out of range.
fn parameters<P: DistributionParams, D: Distribution, C: MathFloat>(
    ctx: &OpCtx<'_>,
    arrays: &[In<'_>],
    shape: &[usize],
) -> Result<[SampleParameter<C>; 2]> {
    let mut arrays = arrays.iter();
    let mut parameters = [SampleParameter::Scalar(C::ZERO), SampleParameter::Scalar(C::ZERO)];
    for (k, scalar) in ctx.params::<P>().scalars().into_iter().enumerate() {
        let values = match (scalar, if scalar.is_none() { arrays.next() } else { None }) {
            (Some(scalar), _) => vec![C::of(scalar)],
            (None, Some(x)) => {
                let mut values = vec![C::ZERO; x.len()];
                C::load_any(elements(x)?, 0, &mut values);
                let mut broadcast = vec![C::ZERO; shape.iter().product()];
                movement::broadcast_to(&values, &x.shape().to_usize(), (&mut broadcast, shape));
                parameters[k] = SampleParameter::Array(broadcast);
                values
            }
            (None, None) => vec![C::NAN],
        };
        if let (Some(value), SampleParameter::Scalar(x)) = (values.first(), &mut parameters[k]) {
            *x = *value;
        }
        let is_valid = values.iter().all(|x| D::is_valid(k, x.to_f64()));
        ensure!(is_valid, "ValueError: expect {}, but a parameter is outside this range", D::RULE);
    }
    Ok(parameters)
}

/// The distribution of the random numbers that samples are computed from.
#[derive(Clone, Copy, PartialEq)]
enum BaseDistribution {
    /// Uniform on [0, 1).
    Uniform,
    /// Standard normal.
    Normal,
    /// Exponential with mean 1.
    Exponential,
    /// Gamma with scale 1 and the first parameter as its shape.
    Gamma,
}

/// A distribution of one or two parameters.
trait Distribution: SampleFormula {
    /// The condition on the parameters, for error messages.
    const RULE: &'static str;
    /// The distribution from which the noise is computed.
    const BASE: BaseDistribution;
    /// Whether parameter `k` is valid.
    fn is_valid(k: usize, x: f64) -> bool;
    /// The derivatives of the sample with respect to the parameters.
    fn derivatives(_p: [f64; 2], _z: f64) -> [f64; 2] {
        [0.0; 2]
    }
}

/// Fills `out` with random numbers of the base distribution.
fn fill_base<D: Distribution, C: MathFloat + Store<f32> + Store<f64>>(
    random: &Philox,
    p: &[SampleParameter<C>; 2],
    out: &mut [C],
) {
    match D::BASE {
        BaseDistribution::Uniform => random.fill_uniform(0.0, 1.0, out),
        BaseDistribution::Normal => random.fill_normal(0.0, 1.0, out),
        BaseDistribution::Exponential => random.fill_exponential(1.0, out),
        BaseDistribution::Gamma => random.fill_with(out, |i, draws| draws.gamma(p[0].get(i).to_f64())),
    }
}

fn sample_as<P: DistributionParams, D: Distribution, C: MathFloat + Store<f32> + Store<f64>>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()> {
    let shape = outs[0].shape().to_usize();
    let key = ctx.random.next_key();
    let random = Philox::new(key.seed, key.stream);
    let p = parameters::<P, D, C>(ctx, ins, &shape)?;
    let mut values = vec![C::ZERO; outs[0].len()];
    let mut noise = vec![C::ZERO; values.len()];
    fill_base::<D, C>(&random, &p, &mut noise);
    compute_samples::<D, C>(&p, &mut noise, &mut values);
    for (out, numbers) in outs.iter_mut().zip([&values, &noise]).filter(|(out, _)| out.wanted()) {
        C::store_any(numbers, elements_mut(out)?);
    }
    Ok(())
}

fn sample<P: DistributionParams, D: Distribution>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    match outs[0].dtype() {
        DType::F64 => sample_as::<P, D, f64>(ctx, ins, outs),
        DType::F32 | DType::F16 => sample_as::<P, D, f32>(ctx, ins, outs),
        d => Err(ctx.unsupported(d, DType::FLOATS)),
    }
}

/// Inputs: gradients of the samples, the array parameters, the noise. Outputs: gradients of the array parameters.
fn backward<P: DistributionParams, D: Distribution>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()> {
    let shape = ins[0].shape().to_usize();
    let num_arrays = outs.len();
    let p = parameters::<P, D, f64>(ctx, &ins[1..1 + num_arrays], &shape)?;
    let to_f64 = |x: &In<'_>| -> Result<Vec<f64>> {
        let mut values = vec![0.0; x.len()];
        f64::load_any(elements(x)?, 0, &mut values);
        Ok(values)
    };
    let (g, z) = (to_f64(&ins[0])?, to_f64(ins.last().ok_or_else(|| Error::Internal("no noise".into()))?)?);
    let array_parameters = ctx.params::<P>().scalars().into_iter().enumerate().filter(|(_, scalar)| scalar.is_none());
    for ((k, _), out) in array_parameters.zip(outs).filter(|(_, out)| out.wanted()) {
        let products: Vec<f64> =
            (0..g.len()).map(|i| g[i] * D::derivatives([p[0].get(i), p[1].get(i)], z[i])[k]).collect();
        let mut sums = vec![0.0; out.len()];
        reduce_to_shape::<f64, f64>(&products, &shape, &out.shape().to_usize(), &mut sums);
        f64::store_any(&sums, elements_mut(out)?);
    }
    Ok(())
}

/// Defines a distribution, optionally with derivatives.
macro_rules! distribution {
    ($(#[$doc:meta])* $name:ident: $rule:literal, valid |$k:pat_param, $x:pat_param| $valid:expr,
     noise $base:ident |$u:ident| $noise:expr,
     value |$r:pat_param, $z:pat_param| $value:expr $(, derivatives |$s:pat_param, $y:pat_param| $derivatives:expr)?) => {
        $(#[$doc])*
        struct $name;
        impl Distribution for $name {
            const RULE: &'static str = $rule;
            const BASE: BaseDistribution = BaseDistribution::$base;
            fn is_valid($k: usize, $x: f64) -> bool { $valid }
            $(fn derivatives($s: [f64; 2], $y: f64) -> [f64; 2] { $derivatives })?
        }
        impl SampleFormula for $name {
            #[inline(always)]
            fn noise<R: MathFloat>($u: R) -> R { $noise }
            #[inline(always)]
            fn value<R: MathFloat>($r: [R; 2], $z: R) -> R { $value }
        }
    };
}

/// Replaces 0, whose logarithm is infinite, by a number below the smallest positive random number, which is 2^-24 or 2^-53.
#[inline(always)]
fn positive<R: MathFloat>(x: R) -> R {
    let tiny = R::of(if R::DTYPE == DType::F64 { f64::EPSILON / 4.0 } else { f64::from(f32::EPSILON) / 4.0 });
    if x < tiny { tiny } else { x }
}

distribution!(
    /// `low + (high - low) u`.
    Uniform: "any bounds", valid |_, _| true, noise Uniform |u| u, value |[low, high], u| low + (high - low) * u);
distribution!(
    /// `loc + scale z`.
    Normal: "scale >= 0", valid |k, x| k == 0 || x >= 0.0, noise Normal |z| z, value |[m, s], z| m + s * z,
    derivatives |_, z| [1.0, z]);
distribution!(
    /// `loc - scale ln e`.
    Gumbel: "scale >= 0", valid |k, x| k == 0 || x >= 0.0, noise Exponential |e| -math::log(positive(e)),
    value |[m, s], z| m + s * z, derivatives |_, z| [1.0, z]);
distribution!(
    /// `loc + scale ln(u / (1 - u))`.
    Logistic: "scale >= 0", valid |k, x| k == 0 || x >= 0.0, noise Uniform |u| math::log(positive(u) / (R::ONE - u)),
    value |[m, s], z| m + s * z, derivatives |_, z| [1.0, z]);
distribution!(
    /// Marsaglia and Tsang's method.
    Gamma: "shape > 0 and scale > 0", valid |_, x| x > 0.0, noise Gamma |z| z,
    value |[_, s], z| s * z);
distribution!(
    /// `scale e`.
    Exponential: "scale >= 0", valid |_, x| x >= 0.0, noise Exponential |e| e, value |[s, _], e| s * e,
    derivatives |_, e| [e, 0.0]);
distribution!(
    /// `scale sqrt(2 e)`.
    Rayleigh: "scale >= 0", valid |_, x| x >= 0.0, noise Exponential |e| (e + e).sqrt(), value |[s, _], z| s * z,
    derivatives |_, z| [z, 0.0]);
distribution!(
    /// `exp(e / a) - 1`.
    Pareto: "a > 0", valid |_, x| x > 0.0, noise Exponential |e| e, value |[a, _], e| math::expm1(e / a),
    derivatives |[a, _], e| [-e / (a * a) * (e / a).exp(), 0.0]);
distribution!(
    /// `e^(1 / a)`.
    Weibull: "a > 0", valid |_, x| x > 0.0, noise Exponential |e| positive(e), value |[a, _], e| math::pow(e, R::ONE / a),
    derivatives |[a, _], e| [-e.ln() / (a * a) * e.powf(1.0 / a), 0.0]);
distribution!(
    /// `(1 - exp(-e))^(1 / a)`.
    Power: "a > 0", valid |_, x| x > 0.0, noise Exponential |e| e,
    value |[a, _], e| math::pow(-math::expm1(-e), R::ONE / a));

/// Defines an operator: `differentiable`, with the noise as a hidden output, or with gradient `zero`.
macro_rules! random_op {
    ($name:ident: $op:literal ($I:ident), $P:ident, $L:ident, $prepend_size:literal, differentiable, $doc:literal) => {
        random_op!(@def $name, $op, $I, $P, $L, $prepend_size, $doc, |def| def.outputs(|_| 2).visible(|_| 1).grad(Grad::Kernel(
            Backward::new(backward::<$P, $L>).inputs(Deps::All).outputs(Deps::Some(&[1])),
            None,
        )));
    };
    ($name:ident: $op:literal ($I:ident), $P:ident, $L:ident, $prepend_size:literal, zero, $doc:literal) => {
        random_op!(@def $name, $op, $I, $P, $L, $prepend_size, $doc, |def| def.grad(Grad::Zero));
    };
    (@def $name:ident, $op:literal, $I:ident, $P:ident, $L:ident, $prepend_size:literal, $doc:literal, |$def:ident| $more:expr) => {
        pub(crate) static $name: Operator<$P> = {
            let $def = Operator::new($op)
                .doc(concat!("Random numbers: ", $doc, " Parameters that are None are given as arrays, which are broadcast."))
                .inputs($I)
                .num_inputs_by(num_arrays::<$P>)
                .shape(|p, io| infer_shape::<$P>(p, io, $prepend_size))
                .dtype(sample_dtype::<$P>)
                .forward(sample::<$P, $L>)
                .random();
            $more
        };
    };
}

operators! { OPS [] =
    random_op!(UNIFORM: "_npi_uniform" (TWO_ARRAYS), UniformParam, Uniform, false, zero, "uniformly distributed from low to high.");
    random_op!(UNIFORM_N: "_npi_uniform_n" (TWO_ARRAYS), UniformParam, Uniform, true, zero,
        "uniformly distributed from low to high: an array of shape (size..., shape of the parameters...).");
    random_op!(NORMAL: "_npi_normal" (TWO_ARRAYS), NormalParam, Normal, false, differentiable,
        "normally distributed with mean loc and standard deviation scale.");
    random_op!(NORMAL_N: "_npi_normal_n" (TWO_ARRAYS), NormalParam, Normal, true, differentiable,
        "normally distributed with mean loc and standard deviation scale: an array of shape (size..., shape of the parameters...).");
    random_op!(GUMBEL: "_npi_gumbel" (TWO_ARRAYS), LocScaleParam, Gumbel, false, differentiable,
        "of the Gumbel distribution, loc - scale ln(-ln u).");
    random_op!(LOGISTIC: "_npi_logistic" (TWO_ARRAYS), LocScaleParam, Logistic, false, differentiable,
        "of the logistic distribution, loc + scale ln(u / (1 - u)).");
    random_op!(GAMMA: "_npi_gamma" (TWO_ARRAYS), GammaParam, Gamma, false, zero, "of the gamma distribution of a shape and a scale.");
    random_op!(EXPONENTIAL: "_npi_exponential" (ONE_ARRAY), ScaleParam, Exponential, false, differentiable,
        "of the exponential distribution with mean scale.");
    random_op!(RAYLEIGH: "_npi_rayleigh" (ONE_ARRAY), ScaleParam, Rayleigh, false, differentiable,
        "of the Rayleigh distribution, scale sqrt(-2 ln u).");
    random_op!(PARETO: "_npi_pareto" (ONE_ARRAY), ExponentParam, Pareto, false, differentiable,
        "of the Pareto distribution of the second kind (Lomax), u^(-1/a) - 1.");
    random_op!(WEIBULL: "_npi_weibull" (ONE_ARRAY), ExponentParam, Weibull, false, differentiable,
        "of the Weibull distribution, (-ln u)^(1/a).");
    random_op!(POWER: "_npi_powerd" (ONE_ARRAY), PowerParam, Power, false, zero, "with density a x^(a - 1) from 0 to 1: u^(1/a).");
}

#[cfg(test)]
mod tests {
    use ferromx_core::op::OpDef;

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
