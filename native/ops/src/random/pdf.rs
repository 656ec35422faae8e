//! Probability density and mass functions at given points, `_random_pdf_*`. The parameters of the distributions are arrays, and each
//! element of them has its own points, like the samples of `_sample_*`.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::density::{Density, DensityGrads, DensityLoops, Dirichlet, PointSets};
use ferromx_kernels::map::Lane;
use ferromx_kernels::math::Precision;
use ferromx_kernels::par::with_scratch;

use crate::elemwise::family::{elements, elements_mut};
use crate::rules::no_gradient;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[
    &UNIFORM,
    &NORMAL,
    &GAMMA,
    &EXPONENTIAL,
    &POISSON,
    &NEGATIVE_BINOMIAL,
    &GENERALIZED_NEGATIVE_BINOMIAL,
    &DIRICHLET,
];

params! {
    /// Parameters of the densities.
    pub struct PdfParam {
        /// Whether the result is the logarithm of the density.
        is_log: bool = false;
    }
}

/// Shape rule: the parameters have one shape, with which that of the points begins.
fn infer_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let n = io.ins.len();
    io.tie(0, 0)?;
    for _ in 0..2 {
        for i in 2..n {
            let (first, other) = (io.ins[1].clone(), io.ins[i].clone());
            io.assign_in(1, &other)?;
            io.assign_in(i, &first)?;
        }
    }
    let (Some(rank), Some(outer)) = (io.ins[0].ndim(), io.ins[1].ndim()) else { return Ok(()) };
    check_prefix(&io.ins[0], &io.ins[1], outer, rank)?;
    (1..n).try_for_each(|i| unify_outer_dims(io, i, outer))
}

/// Infers the first `outer` dimensions of the points and of parameter `i` from each other.
fn unify_outer_dims(io: &mut ShapeIo<'_>, i: usize, outer: usize) -> Result<()> {
    let outer_dims = |from: &Shape, to: &Shape| {
        Shape::from((0..to.dims().len()).map(|k| if k < outer { from.dim(k) } else { -1 }).collect::<Dims>())
    };
    let parameters = outer_dims(&io.ins[0], &io.ins[i]);
    io.assign_in(i, &parameters)?;
    let points = outer_dims(&io.ins[i], &io.ins[0]);
    io.assign_in(0, &points)
}

/// Checks that the shape of the points begins with the first `outer` dimensions of the parameters.
fn check_prefix(points: &Shape, parameters: &Shape, outer: usize, rank: usize) -> Result<()> {
    let is_prefix =
        rank >= outer && points.dims().iter().zip(&parameters.dims()[..outer]).all(|(a, b)| a == b || *a < 0 || *b < 0);
    ensure!(is_prefix, "the shape {points} of the points must begin with that of the parameters, {parameters}");
    Ok(())
}

/// True for densities computed in double precision.
fn is_double(ctx: &OpCtx<'_>, dtype: DType) -> Result<bool> {
    match dtype {
        DType::F32 | DType::F16 => Ok(false),
        DType::F64 => Ok(true),
        d => Err(ctx.unsupported(d, DType::FLOATS)),
    }
}

/// Calls `f` with the values of the first parameter, followed by those of the second.
fn with_parameters<R>(ins: &[In<'_>], f: impl FnOnce(&[f64]) -> Result<R>) -> Result<R> {
    let num_sets = ins[0].len();
    with_scratch(ins.len() * num_sets, |values: &mut [f64]| {
        for (k, x) in ins.iter().enumerate() {
            f64::load_any(elements(x)?, 0, &mut values[k * num_sets..(k + 1) * num_sets]);
        }
        f(values)
    })
}

fn forward<D: Density<N>, const N: usize>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    densities(ctx, const { &DensityLoops::of::<D, N>() }, ins, &mut outs[0])
}

fn densities(ctx: &OpCtx<'_>, loops: &DensityLoops, ins: &[In<'_>], out: &mut Out<'_>) -> Result<()> {
    let is_log = ctx.params::<PdfParam>().is_log;
    let points_per_set = ins[0].len().checked_div(ins[1].len()).unwrap_or(0).max(1);
    let (x, is_double) = (elements(&ins[0])?, is_double(ctx, ins[0].dtype())?);
    with_parameters(&ins[1..], |p| {
        loops.densities(&PointSets { x, p, points_per_set, is_log, is_double }, elements_mut(out)?);
        Ok(())
    })
}

/// Inputs: the gradient, the points, the parameters, the result. Outputs: gradients of points and parameters.
fn backward<D: Density<N>, const N: usize>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    gradients(ctx, const { &DensityLoops::of::<D, N>() }, ins, outs)
}

fn gradients(ctx: &OpCtx<'_>, loops: &DensityLoops, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let is_log = ctx.params::<PdfParam>().is_log;
    let points_per_set = ins[1].len().checked_div(ins[2].len()).unwrap_or(0).max(1);
    let is_double = is_double(ctx, ins[0].dtype())?;
    let density = if is_log { None } else { Some(elements(&ins[ins.len() - 1])?) };
    if ins[1].is_empty() {
        return outs.iter_mut().try_for_each(no_gradient);
    }
    let (grads, x) = (DensityGrads { grad: elements(&ins[0])?, density }, elements(&ins[1])?);
    with_parameters(&ins[2..ins.len() - 1], |p| {
        let sets = PointSets { x, p, points_per_set, is_log, is_double };
        let (points, others) = outs.split_at_mut(1);
        if points[0].wanted() {
            loops.points_backward(&sets, grads, elements_mut(&mut points[0])?);
        }
        if p.is_empty() {
            return others.iter_mut().try_for_each(no_gradient);
        }
        for (k, out) in others.iter_mut().enumerate().filter(|(_, out)| out.wanted()) {
            loops.parameter_backward(&sets, grads, k, elements_mut(out)?);
        }
        Ok(())
    })
}

/// Defines the density of a distribution. The metadata lists the second parameter after `is_log`, as MXNet does.
macro_rules! density {
    ($NAME:ident: $D:ident, $op:literal [$alias:literal], $doc:literal,
     $first:ident: $first_doc:literal $(, $second:ident: $second_doc:literal)?;
     |$x:ident| $log:expr, $(density |$point:ident, $p:pat, $n:literal| $density:expr,)? derivatives $dx:expr, $dp:expr) => {
        enum $D {}

        impl Density<{ ["", $(stringify!($second))?].len() }> for $D {
            #[inline(always)]
            fn log_density<M: Precision>($x: f64, [$first $(, $second)?]: [f64; { ["", $(stringify!($second))?].len() }]) -> f64 {
                $log
            }
            $(
                const IS_DIRECT: bool = true;

                #[inline(always)]
                fn density<M: Precision>($point: f64, $p: [f64; $n]) -> f64 {
                    $density
                }
            )?
            #[allow(unused_variables)] // Not every derivative depends on everything.
            #[inline(always)]
            fn derivatives<M: Precision>(
                $x: f64,
                [$first $(, $second)?]: [f64; { ["", $(stringify!($second))?].len() }],
            ) -> (f64, [f64; { ["", $(stringify!($second))?].len() }]) {
                ($dx, $dp)
            }
        }

        #[doc = $doc]
        pub(crate) static $NAME: Operator<PdfParam> = Operator::new($op)
            .aliases(&[$alias])
            .doc(concat!(
                $doc,
                " The result has the shape of the points, which begins with that of the parameters: each element of the parameters \
                 has its own block of points."
            ))
            .inputs(&[
                arg("sample", "The points."),
                arg(stringify!($first), $first_doc)
                $(, arg(stringify!($second), $second_doc))?
            ])
            .shape(infer_shape)
            .forward(forward::<$D, { ["", $(stringify!($second))?].len() }>)
            .grad(Grad::Kernel(
                Backward::new(backward::<$D, { ["", $(stringify!($second))?].len() }>)
                    .inputs(Deps::All)
                    .outputs(Deps::All),
                None,
            ))
            .arg_order(&["sample", stringify!($first), "is_log" $(, stringify!($second))?]);
    };
}

density!(UNIFORM: Uniform, "_random_pdf_uniform" ["random_pdf_uniform"],
"The density of the uniform distribution: 1 / (high - low) from low to high, else 0.",
low: "The lower bounds.", high: "The upper bounds.";
|x| if (low..=high).contains(&x) { -M::log(high - low) } else { f64::NEG_INFINITY },
density |x, [low, high], 2| if (x >= low) & (x <= high) { 1.0 / (high - low) } else { 0.0 },
derivatives 0.0, [1.0 / (high - low), -1.0 / (high - low)]);

density!(NORMAL: Normal, "_random_pdf_normal" ["random_pdf_normal"],
"The density of the normal distribution: exp(-((x - mu) / sigma)^2 / 2) / (sigma sqrt(2 pi)).",
mu: "The means.", sigma: "The standard deviations.";
|x| -0.5 * ((x - mu) / sigma).powi(2) - M::log(sigma) - 0.5 * M::log(std::f64::consts::TAU),
derivatives (mu - x) / (sigma * sigma), [(x - mu) / (sigma * sigma), ((x - mu) / sigma).powi(2) / sigma - 1.0 / sigma]);

density!(GAMMA: Gamma, "_random_pdf_gamma" ["random_pdf_gamma"],
"The density of the gamma distribution of shape alpha and rate beta: beta^alpha x^(alpha - 1) exp(-beta x) / Gamma(alpha).",
alpha: "The shapes of the distributions, positive.", beta: "Their rates, positive.";
|x| alpha * M::log(beta) + (alpha - 1.0) * M::log(x) - beta * x - M::lgamma(alpha),
derivatives (alpha - 1.0) / x - beta, [M::log(beta) + M::log(x) - M::digamma(alpha), alpha / beta - x]);

density!(EXPONENTIAL: Exponential, "_random_pdf_exponential" ["random_pdf_exponential"],
"The density of the exponential distribution: lam exp(-lam x).",
lam: "The rates, positive.";
|x| M::log(lam) - lam * x,
derivatives -lam, [1.0 / lam - x]);

density!(POISSON: Poisson, "_random_pdf_poisson" ["random_pdf_poisson"],
"The probability of a number x with the Poisson distribution: lam^x exp(-lam) / x!.",
lam: "The means, positive.";
|x| x * M::log(lam) - lam - M::lgamma(x + 1.0),
derivatives 0.0, [x / lam - 1.0]);

/// The logarithm of the probability of x failures before the k-th success of probability p.
#[inline(always)]
fn log_negative_binomial<M: Precision>(x: f64, k: f64, p: f64) -> f64 {
    M::lgamma(x + k) - M::lgamma(x + 1.0) - M::lgamma(k) + k * M::log(p) + x * M::log(1.0 - p)
}

/// The derivatives of [`log_negative_binomial`] with respect to k and p.
#[inline(always)]
fn negative_binomial_derivatives<M: Precision>(x: f64, k: f64, p: f64) -> [f64; 2] {
    [M::digamma(x + k) - M::digamma(k) + M::log(p), k / p - x / (1.0 - p)]
}

density!(NEGATIVE_BINOMIAL: NegativeBinomial, "_random_pdf_negative_binomial" ["random_pdf_negative_binomial"],
"The probability of x failures before the k-th success, each of probability p: Gamma(x + k) / (x! Gamma(k)) p^k (1 - p)^x.",
k: "The numbers of successes, positive; they need not be integers.", p: "The probabilities of a success.";
|x| log_negative_binomial::<M>(x, k, p),
derivatives 0.0, negative_binomial_derivatives::<M>(x, k, p));

/// The derivatives of [`log_negative_binomial`] with respect to mu and alpha, where k = 1 / alpha and p = 1 / (1 + mu alpha).
#[inline(always)]
fn generalized_derivatives<M: Precision>(x: f64, mu: f64, alpha: f64) -> [f64; 2] {
    let p = 1.0 / (1.0 + mu * alpha);
    let [dk, dp] = negative_binomial_derivatives::<M>(x, 1.0 / alpha, p);
    [-dp * alpha * p * p, -dk / (alpha * alpha) - dp * mu * p * p]
}

density!(GENERALIZED_NEGATIVE_BINOMIAL: GeneralizedNegativeBinomial,
"_random_pdf_generalized_negative_binomial" ["random_pdf_generalized_negative_binomial"],
"The probability of a number with the negative binomial distribution of mean mu and dispersion alpha, whose variance is \
 mu + alpha mu^2: that with k = 1 / alpha and p = 1 / (1 + mu alpha).",
mu: "The means, positive.", alpha: "The dispersions, positive.";
|x| log_negative_binomial::<M>(x, 1.0 / alpha, 1.0 / (1.0 + mu * alpha)),
derivatives 0.0, generalized_derivatives::<M>(x, mu, alpha));

pub(super) static DIRICHLET: Operator<PdfParam> = Operator::new("_random_pdf_dirichlet")
    .aliases(&["random_pdf_dirichlet"])
    .doc(
        "The density of the Dirichlet distribution at x: Gamma(sum of alpha) times the product of x_i^(alpha_i - 1) / Gamma(alpha_i). \
         The last axis of points and parameters has the k components; the shape of the points begins with that of the parameters \
         but for it, and the result has the shape of the points without it, or (1) for a single point.",
    )
    .inputs(&[
        arg("sample", "The points: k numbers that sum to 1 along the last axis."),
        arg("alpha", "The concentrations, positive, along the last axis."),
    ])
    .shape(|_, io| {
        let (Some(rank), Some(outer)) = (io.ins[0].ndim(), io.ins[1].ndim()) else { return Ok(()) };
        ensure!(rank >= outer && outer > 0, "the points must have at least as many axes as alpha, and alpha at least one");
        check_prefix(&io.ins[0], &io.ins[1], outer - 1, rank - 1)?;
        unify_outer_dims(io, 1, outer - 1)?;
        let (k, k_alpha) = (io.ins[0].dim(rank - 1), io.ins[1].dim(outer - 1));
        ensure!(k == k_alpha || k < 0 || k_alpha < 0, "the points have {k} components, alpha has {k_alpha}");
        let components = k.max(k_alpha);
        let with_components = |rank: usize| {
            let mut dims = Dims::from_elem(-1, rank);
            dims[rank - 1] = components;
            Shape::from(dims)
        };
        io.assign_in(0, &with_components(rank))?;
        io.assign_in(1, &with_components(outer))?;
        let out = match &io.ins[0].dims()[..rank - 1] {
            [] => Shape::new(&[1]),
            outer => Shape::new(outer),
        };
        io.assign_out(0, &out)
    })
    .forward(|ctx, ins, outs| {
        with_dirichlet(ctx, &ins[0], &ins[1], |points| {
            points.densities(ctx.params::<PdfParam>().is_log, elements_mut(&mut outs[0])?);
            Ok(())
        })
    })
    .grad(Grad::Kernel(Backward::new(dirichlet_backward).inputs(Deps::All).outputs(Deps::All), None));

/// Calls `f` with the points and concentrations of a Dirichlet distribution.
fn with_dirichlet<R>(
    ctx: &OpCtx<'_>,
    x: &In<'_>,
    alpha: &In<'_>,
    f: impl FnOnce(Dirichlet<'_>) -> Result<R>,
) -> Result<R> {
    let k = alpha.shape().dims().last().map_or(1, |k| (*k).max(1) as usize);
    let points_per_set = x.len().checked_div(alpha.len()).unwrap_or(0).max(1);
    let (x, is_double) = (elements(x)?, is_double(ctx, x.dtype())?);
    with_parameters(std::slice::from_ref(alpha), |alpha| f(Dirichlet { x, alpha, k, points_per_set, is_double }))
}

/// Inputs: the gradient, the points, the concentrations, the result.
fn dirichlet_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let density = if ctx.params::<PdfParam>().is_log { None } else { Some(elements(&ins[3])?) };
    let grads = DensityGrads { grad: elements(&ins[0])?, density };
    with_dirichlet(ctx, &ins[1], &ins[2], |distribution| {
        let (points, others) = outs.split_at_mut(1);
        if points[0].wanted() {
            distribution.points_backward(grads, elements_mut(&mut points[0])?);
        }
        if ins[1].is_empty() {
            return no_gradient(&mut others[0]);
        }
        if others[0].wanted() {
            distribution.alpha_backward(grads, elements_mut(&mut others[0])?);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = array(&[0.5, 1.25, 2.0, 3.5, 1.0, 0.75], &[2, 3]);
        let (p, q) = (array(&[0.4, 0.1], &[2]), array(&[4.0, 5.5], &[2]));
        for is_log in ["0", "1"] {
            let case = |def| Case::new(def, &[("is_log", is_log)]);
            case(&UNIFORM).check_gradient(&[x.clone(), p.clone(), q.clone()]);
            case(&NORMAL).check_gradient(&[x.clone(), q.clone(), p.clone()]);
            case(&GAMMA).check_gradient(&[x.clone(), q.clone(), p.clone()]);
            case(&EXPONENTIAL).check_gradient(&[x.clone(), q.clone()]);
            let points = array(&[0.2, 0.3, 0.5, 0.1, 0.1, 0.8, 0.25, 0.25, 0.5, 0.6, 0.2, 0.2], &[2, 2, 3]);
            case(&DIRICHLET).check_gradient(&[points, array(&[0.5, 1.5, 2.0, 3.0, 1.0, 0.7], &[2, 3])]);
        }
    }

    #[test]
    fn discrete_distributions_have_gradients_only_for_parameters() {
        let x = array(&[2.0, 0.0, 5.0], &[3]);
        let (p, q) = (array(&[0.4, 0.1, 0.25], &[3]), array(&[4.0, 5.5, 0.5], &[3]));
        let ones = array(&[1.0; 3], &[3]);
        for (def, parameters) in [
            (&POISSON, vec![q.clone()]),
            (&NEGATIVE_BINOMIAL, vec![q.clone(), p.clone()]),
            (&GENERALIZED_NEGATIVE_BINOMIAL, vec![q.clone(), p.clone()]),
        ] {
            let case = Case::new(def, &[]);
            let ins = [vec![x.clone()], parameters].concat();
            let grads = case.backward(&ins, std::slice::from_ref(&ones)).unwrap();
            assert_eq!(grads[0].to_vec::<f64>().unwrap(), [0.0; 3]);
            for which in 1..ins.len() {
                let base = ins[which].to_vec::<f64>().unwrap();
                let density_at = |shift: f64| {
                    let mut shifted = ins.clone();
                    shifted[which] = array(&base.iter().map(|p| p + shift).collect::<Vec<_>>(), &[3]);
                    case.run1(&shifted).unwrap().to_vec::<f64>().unwrap()
                };
                let differences: Vec<f64> =
                    density_at(1e-6).iter().zip(density_at(-1e-6)).map(|(a, b)| (a - b) / 2e-6).collect();
                close(&grads[which].to_vec::<f64>().unwrap(), &differences, 1e-6);
            }
        }
    }

    #[test]
    fn the_shape_of_the_points_must_begin_with_that_of_the_parameters() {
        let shapes = [Shape::new(&[3, 2]), Shape::new(&[2]), Shape::new(&[2])];
        assert!(Case::new(&NORMAL, &[]).shapes(&shapes).unwrap_err().to_string().contains("must begin with"));
    }
}
