//! Probability density and mass functions at given points, `_random_pdf_*`. The parameters of the distributions are arrays, and each
//! element of them has its own points, like the samples of `_sample_*`.

use std::marker::PhantomData;

use ferromx_core::dtype::{DType, Element, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, OpDef, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::map::{Elements, ElementsMut, Lane};
use ferromx_kernels::math::{Approximate40, Full, Precision, digamma, exp, lgamma, log};
use ferromx_kernels::par::{parallel_rows, with_scratch};
use ferromx_kernels::simd::multiversion::{self, Kernel};

use crate::elemwise::family::{elements, elements_mut};
use crate::rules::no_gradient;

/// The operators of this file.
pub(super) static OPS: &[&OpDef] = &[
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

/// A distribution with `N` parameters.
trait Density<const N: usize>: Sync {
    /// The logarithm of the density at `x`.
    fn log_density<M: Precision>(x: f64, p: [f64; N]) -> f64;
    /// The density at `x`.
    #[inline(always)]
    fn density<M: Precision>(x: f64, p: [f64; N]) -> f64 {
        M::exp(Self::log_density::<M>(x, p))
    }
    /// The derivatives with respect to `x` and to the parameters.
    fn derivatives<M: Precision>(x: f64, p: [f64; N]) -> (f64, [f64; N]);
}

/// Points per chunk.
const GRAIN: usize = 1 << 11;

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

/// Points starting at index `first`, and all parameter sets. Set i belongs to the points starting at i * `points_per_set`.
#[derive(Clone, Copy)]
struct Points<'a> {
    x: &'a [f64],
    /// All values of the first parameter, then those of the second.
    p: &'a [f64],
    first: usize,
    points_per_set: usize,
}

impl<'a> Points<'a> {
    /// The values of each parameter, one per set.
    #[inline(always)]
    fn parameters<const N: usize>(self) -> [&'a [f64]; N] {
        let num_sets = self.p.len() / N;
        std::array::from_fn(|k| &self.p[k * num_sets..(k + 1) * num_sets])
    }
}

/// Evaluates `$body` for each point of a chunk, with its index in the chunk, the point and its parameters. This is a macro because the
/// compiler does not inline a large closure into the vectorized loop.
macro_rules! for_each_point {
    ($points:expr, |$i:ident, $x:ident, $p:ident| $body:expr) => {{
        let points = $points;
        let n = points.x.len();
        let parameters: [&[f64]; N] = points.parameters();
        if points.points_per_set == 1 {
            let parameters = parameters.map(|p| &p[points.first..points.first + n]);
            for ($i, &$x) in points.x.iter().enumerate() {
                let $p = parameters.map(|p| p[$i]);
                $body;
            }
        } else {
            let mut begin = 0;
            while begin < n {
                let set = (points.first + begin) / points.points_per_set;
                let end = ((set + 1) * points.points_per_set - points.first).min(n);
                let $p = parameters.map(|p| p[set]);
                for (k, &$x) in points.x[begin..end].iter().enumerate() {
                    let $i = begin + k;
                    $body;
                }
                begin = end;
            }
        }
    }};
}

/// Computes densities or their logarithms.
struct DensityKernel<'a, D, M, const N: usize>(Points<'a>, bool, &'a mut [f64], PhantomData<(D, M)>);

impl<D: Density<N>, M: Precision, const N: usize> Kernel for DensityKernel<'_, D, M, N> {
    type Output = ();
    const EVERY_ISA: bool = false;

    #[inline(always)]
    fn run(self) {
        let DensityKernel(points, is_log, out, _) = self;
        let out = &mut out[..points.x.len()];
        if is_log {
            for_each_point!(points, |i, x, p| out[i] = D::log_density::<M>(x, p));
        } else {
            for_each_point!(points, |i, x, p| out[i] = D::density::<M>(x, p));
        }
    }
}

/// Computes derivatives with respect to the points (operand 0) or to a parameter (its index plus 1).
struct DerivativeKernel<'a, D, M, const N: usize>(Points<'a>, usize, &'a mut [f64], PhantomData<(D, M)>);

impl<D: Density<N>, M: Precision, const N: usize> Kernel for DerivativeKernel<'_, D, M, N> {
    type Output = ();
    const EVERY_ISA: bool = false;

    #[inline(always)]
    fn run(self) {
        let DerivativeKernel(points, operand, out, _) = self;
        let out = &mut out[..points.x.len()];
        match operand.checked_sub(1) {
            None => for_each_point!(points, |i, x, p| out[i] = D::derivatives::<M>(x, p).0),
            Some(k) => for_each_point!(points, |i, x, p| out[i] = D::derivatives::<M>(x, p).1[k]),
        }
    }
}

/// The kernels of a distribution, each in a version for results in single and one for results in double precision.
struct Kernels {
    densities: [fn(Points<'_>, bool, &mut [f64]); 2],
    derivatives: [fn(Points<'_>, usize, &mut [f64]); 2],
}

impl Kernels {
    const fn of<D: Density<N>, const N: usize>() -> Kernels {
        fn densities<D: Density<N>, M: Precision, const N: usize>(points: Points<'_>, is_log: bool, out: &mut [f64]) {
            multiversion::run(DensityKernel::<D, M, N>(points, is_log, out, PhantomData));
        }
        fn derivatives<D: Density<N>, M: Precision, const N: usize>(
            points: Points<'_>,
            operand: usize,
            out: &mut [f64],
        ) {
            multiversion::run(DerivativeKernel::<D, M, N>(points, operand, out, PhantomData));
        }
        Kernels {
            densities: [densities::<D, Approximate40, N>, densities::<D, Full, N>],
            derivatives: [derivatives::<D, Approximate40, N>, derivatives::<D, Full, N>],
        }
    }
}

/// The index into [`Kernels`] for an element type.
fn precision(ctx: &OpCtx<'_>, dtype: DType) -> Result<usize> {
    match dtype {
        DType::F32 | DType::F16 => Ok(0),
        DType::F64 => Ok(1),
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
    densities(ctx, const { &Kernels::of::<D, N>() }, ins, &mut outs[0])
}

fn densities(ctx: &OpCtx<'_>, kernels: &Kernels, ins: &[In<'_>], out: &mut Out<'_>) -> Result<()> {
    let is_log = ctx.params::<PdfParam>().is_log;
    let points_per_set = ins[0].len().checked_div(ins[1].len()).unwrap_or(0).max(1);
    let run = kernels.densities[precision(ctx, ins[0].dtype())?];
    let x = elements(&ins[0])?;
    with_parameters(&ins[1..], |p| {
        elements_mut(out)?.parallel_chunks(GRAIN, &|first, out| {
            let mut buffers = [[0.0; GRAIN]; 2];
            let [x_lanes, y] = buffers.each_mut().map(|buffer| &mut buffer[..out.len()]);
            f64::load_any(x, first, x_lanes);
            run(Points { x: x_lanes, p, first, points_per_set }, is_log, y);
            f64::store_any(y, out);
        });
        Ok(())
    })
}

/// Inputs: the gradient, the points, the parameters, the result. Outputs: gradients of points and parameters.
fn backward<D: Density<N>, const N: usize>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    gradients(ctx, const { &Kernels::of::<D, N>() }, ins, outs)
}

fn gradients(ctx: &OpCtx<'_>, kernels: &Kernels, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let is_log = ctx.params::<PdfParam>().is_log;
    let points_per_set = ins[1].len().checked_div(ins[2].len()).unwrap_or(0).max(1);
    let run = kernels.derivatives[precision(ctx, ins[0].dtype())?];
    let density = if is_log { None } else { Some(elements(&ins[ins.len() - 1])?) };
    if ins[1].is_empty() {
        return outs.iter_mut().try_for_each(no_gradient);
    }
    let (grad, x) = (elements(&ins[0])?, elements(&ins[1])?);
    with_parameters(&ins[2..ins.len() - 1], |p| {
        let sums = GradientSums { x, grad, density, p, points_per_set, run };
        let (points, others) = outs.split_at_mut(1);
        if points[0].wanted() {
            elements_mut(&mut points[0])?.parallel_chunks(GRAIN, &|first, out| sums.write(first, 1, 0, out));
        }
        if p.is_empty() {
            return others.iter_mut().try_for_each(no_gradient);
        }
        let sets_per_chunk = GRAIN.div_ceil(points_per_set);
        for (k, out) in others.iter_mut().enumerate().filter(|(_, out)| out.wanted()) {
            elements_mut(out)?.parallel_chunks(sets_per_chunk, &|set, out| {
                sums.write(set * points_per_set, points_per_set, 1 + k, out);
            });
        }
        Ok(())
    })
}

/// Computes gradients: the derivatives times the gradients of the densities, summed over the points of each parameter set.
struct GradientSums<'a> {
    x: Elements<'a>,
    grad: Elements<'a>,
    density: Option<Elements<'a>>,
    p: &'a [f64],
    points_per_set: usize,
    run: fn(Points<'_>, usize, &mut [f64]),
}

/// Points whose terms are computed at a time.
const BUFFER_LEN: usize = 256;

impl GradientSums<'_> {
    /// Writes the gradients of an operand of [`DerivativeKernel`], each summed over `len` points, starting at point `first`.
    fn write(&self, first: usize, len: usize, operand: usize, mut out: ElementsMut<'_>) {
        let (mut sum, mut remaining, mut num_written, count) = (0.0, len, 0, out.len() * len);
        let mut buffers = [[0.0; BUFFER_LEN]; 4];
        for begin in (0..count).step_by(BUFFER_LEN) {
            let [x, terms, scale, sums] = buffers.each_mut().map(|buffer| &mut buffer[..BUFFER_LEN.min(count - begin)]);
            let first = first + begin;
            f64::load_any(self.x, first, x);
            (self.run)(Points { x, p: self.p, first, points_per_set: self.points_per_set }, operand, terms);
            for scales in std::iter::once(self.grad).chain(self.density) {
                f64::load_any(scales, first, scale);
                // A discrete distribution does not depend on the position of a point, even where the density is NaN.
                let times = |term: f64, scale: f64| if operand == 0 && term == 0.0 { 0.0 } else { term * scale };
                terms.iter_mut().zip(&*scale).for_each(|(term, scale)| *term = times(*term, *scale));
            }
            if len == 1 {
                f64::store_any(terms, out.part(begin..begin + terms.len()));
                continue;
            }
            let mut num_complete = 0;
            for term in terms {
                sum += *term;
                remaining -= 1;
                if remaining == 0 {
                    sums[num_complete] = sum;
                    (sum, remaining, num_complete) = (0.0, len, num_complete + 1);
                }
            }
            f64::store_any(&sums[..num_complete], out.part(num_written..num_written + num_complete));
            num_written += num_complete;
        }
    }
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
        pub(crate) static $NAME: OpDef = OpDef::new($op)
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
            .params::<PdfParam>()
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

/// The density of the Dirichlet distribution.
pub(super) static DIRICHLET: OpDef = OpDef::new("_random_pdf_dirichlet")
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
    .params::<PdfParam>()
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
        let (is_log, k, points_per_set) = (ctx.params::<PdfParam>().is_log, num_components(&ins[1]), num_points_per_set(&ins[0], &ins[1]));
        dispatch!(ins[0].dtype(), T in [f32, f64, f16] => {
            let (x, alpha) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?);
            parallel_rows(outs[0].slice_mut::<T>()?, 1, GRAIN.div_ceil(k), |i, out| {
                let (x, alpha) = (&x[i * k..(i + 1) * k], &alpha[i / points_per_set * k..(i / points_per_set + 1) * k]);
                let total: f64 = alpha.iter().map(|a| a.to_f64()).sum();
                let term = |(x, a): (&T, &T)| (a.to_f64() - 1.0) * log(x.to_f64()) - lgamma(a.to_f64());
                let density = lgamma(total) + x.iter().zip(alpha).map(term).sum::<f64>();
                out[0] = T::from_f64(if is_log { density } else { exp(density) });
            });
            Ok(())
        }, d => Err(ctx.unsupported(d, DType::FLOATS)))
    })
    .grad(Grad::Kernel(Backward::new(dirichlet_backward).inputs(Deps::All).outputs(Deps::All), None));

/// The number of components of a point.
fn num_components(alpha: &In<'_>) -> usize {
    alpha.shape().dims().last().map_or(1, |k| (*k).max(1) as usize)
}

/// The number of points per parameter set.
fn num_points_per_set(points: &In<'_>, alpha: &In<'_>) -> usize {
    points.len().checked_div(alpha.len()).unwrap_or(0).max(1)
}

/// Inputs: the gradient, the points, the concentrations, the result.
fn dirichlet_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (is_log, k, points_per_set) =
        (ctx.params::<PdfParam>().is_log, num_components(&ins[2]), num_points_per_set(&ins[1], &ins[2]));
    dispatch!(ins[0].dtype(), T in [f32, f64, f16] => {
        let (grad, x, alpha) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
        let density = ins[3].slice::<T>()?;
        let scale = |i: usize| grad[i].to_f64() * if is_log { 1.0 } else { density[i].to_f64() };
        let (points, others) = outs.split_at_mut(1);
        if points[0].wanted() {
            parallel_rows(points[0].slice_mut::<T>()?, k, GRAIN.div_ceil(k), |i, out| {
                for (j, out) in out.iter_mut().enumerate() {
                    *out = T::from_f64(scale(i) * (alpha[i / points_per_set * k + j].to_f64() - 1.0) / x[i * k + j].to_f64());
                }
            });
        }
        if ins[1].is_empty() {
            return no_gradient(&mut others[0]);
        }
        if others[0].wanted() {
            parallel_rows(others[0].slice_mut::<T>()?, k, GRAIN.div_ceil(points_per_set * k), |set, out| {
                let alpha = &alpha[set * k..(set + 1) * k];
                let total = digamma(alpha.iter().map(|a| a.to_f64()).sum::<f64>());
                for (j, out) in out.iter_mut().enumerate() {
                    let normalizer_derivative = total - digamma(alpha[j].to_f64());
                    let term = |i: usize| scale(i) * (normalizer_derivative + log(x[i * k + j].to_f64()));
                    *out = T::from_f64((set * points_per_set..(set + 1) * points_per_set).map(term).sum());
                }
            });
        }
        Ok(())
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
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
