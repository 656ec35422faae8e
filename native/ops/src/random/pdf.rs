//! Probability density and mass functions at given points. The parameters of the distributions are arrays: each element has a block of
//! points, as in `_sample_*`.

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
use ferromx_kernels::math::{Approximate40, Full, Precision, digamma, exp, lgamma, log};
use ferromx_kernels::par::parallel_rows;
use ferromx_kernels::simd::multiversion::{self, Kernel};

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
    fn slopes<M: Precision>(x: f64, p: [f64; N]) -> (f64, [f64; N]);
}

/// Points per parallel chunk.
const GRAIN: usize = 1 << 11;

/// The parameters share a shape, which is a prefix of that of the points.
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
    begins_with(&io.ins[0], &io.ins[1], outer, rank)?;
    (1..n).try_for_each(|i| unify_outer_dims(io, i, outer))
}

/// Unifies the first `outer` dimensions of points and parameters.
fn unify_outer_dims(io: &mut ShapeIo<'_>, i: usize, outer: usize) -> Result<()> {
    let shared = |from: &Shape, to: &Shape| {
        Shape::from((0..to.dims().len()).map(|k| if k < outer { from.dim(k) } else { -1 }).collect::<Dims>())
    };
    let parameters = shared(&io.ins[0], &io.ins[i]);
    io.assign_in(i, &parameters)?;
    let points = shared(&io.ins[i], &io.ins[0]);
    io.assign_in(0, &points)
}

fn begins_with(points: &Shape, parameters: &Shape, outer: usize, rank: usize) -> Result<()> {
    let fits =
        rank >= outer && points.dims().iter().zip(&parameters.dims()[..outer]).all(|(a, b)| a == b || *a < 0 || *b < 0);
    ensure!(fits, "the shape {points} of the points must begin with that of the parameters, {parameters}");
    Ok(())
}

/// Runs `$body` with `$T` bound to the element type and `$M` to the precision it needs.
macro_rules! precise {
    ($ctx:expr, $dtype:expr, |$T:ident, $M:ident| $body:expr) => {{
        macro_rules! arm {
            ($t:ty, $m:ty) => {{
                type $T = $t;
                type $M = $m;
                $body
            }};
        }
        match $dtype {
            DType::F32 => arm!(f32, Approximate40),
            DType::F16 => arm!(f16, Approximate40),
            DType::F64 => arm!(f64, Full),
            d => Err($ctx.unsupported(d, DType::FLOATS)),
        }
    }};
}

/// Points from index `first` on, and all parameters; each parameter set has a block of `block` points.
#[derive(Clone, Copy)]
struct Points<'a, T, const N: usize> {
    x: &'a [T],
    p: [&'a [T]; N],
    first: usize,
    block: usize,
}

/// Runs `$body` for all points of a chunk with the index in the chunk, the point and its parameters. A macro, because the compiler would
/// not inline a large closure into the vectorised loop.
macro_rules! each {
    ($points:expr, |$i:ident, $x:ident, $p:ident| $body:expr) => {{
        let points = $points;
        let n = points.x.len();
        if points.block == 1 {
            let all = points.p.map(|p| &p[points.first..points.first + n]);
            for ($i, x) in points.x.iter().enumerate() {
                let ($x, $p) = (x.to_f64(), all.map(|p| p[$i].to_f64()));
                $body;
            }
        } else {
            let mut begin = 0;
            while begin < n {
                let set = (points.first + begin) / points.block;
                let end = ((set + 1) * points.block - points.first).min(n);
                let $p = points.p.map(|p| p[set].to_f64());
                for (k, x) in points.x[begin..end].iter().enumerate() {
                    let ($i, $x) = (begin + k, x.to_f64());
                    $body;
                }
                begin = end;
            }
        }
    }};
}

fn parameters<'a, T: Element, const N: usize>(ins: &[In<'a>]) -> Result<[&'a [T]; N]> {
    let mut all = [&[] as &[T]; N];
    for (p, x) in all.iter_mut().zip(ins) {
        *p = x.slice()?;
    }
    Ok(all)
}

fn forward<D: Density<N>, const N: usize>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let is_log = ctx.params::<PdfParam>().is_log;
    let block = ins[0].len().checked_div(ins[1].len()).unwrap_or(0).max(1);
    precise!(ctx, ins[0].dtype(), |T, M| {
        let (x, p) = (ins[0].slice::<T>()?, parameters::<T, N>(&ins[1..])?);
        parallel_rows(outs[0].slice_mut::<T>()?, GRAIN, 1, |chunk, out| {
            let first = chunk * GRAIN;
            let points = Points { x: &x[first..first + out.len()], p, first, block };
            multiversion::run(Densities { points, is_log, out, law: PhantomData::<(D, M)> });
        });
        Ok(())
    })
}

/// The density kernel, compiled for each instruction set.
struct Densities<'a, D, M, T, const N: usize> {
    points: Points<'a, T, N>,
    is_log: bool,
    out: &'a mut [T],
    law: PhantomData<(D, M)>,
}

impl<D: Density<N>, M: Precision, T: Element, const N: usize> Kernel for Densities<'_, D, M, T, N> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let out = &mut self.out[..self.points.x.len()];
        if self.is_log {
            each!(self.points, |i, x, p| out[i] = T::from_f64(D::log_density::<M>(x, p)));
        } else {
            each!(self.points, |i, x, p| out[i] = T::from_f64(D::density::<M>(x, p)));
        }
    }
}

/// Inputs: the gradient, the points, the parameters, the result. Outputs: gradients of points and parameters.
fn backward<D: Density<N>, const N: usize>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let is_log = ctx.params::<PdfParam>().is_log;
    let block = ins[1].len().checked_div(ins[2].len()).unwrap_or(0).max(1);
    precise!(ctx, ins[0].dtype(), |T, M| {
        let (grad, x, p) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, parameters::<T, N>(&ins[2..])?);
        let density = if is_log { None } else { Some(ins[2 + N].slice::<T>()?) };
        let slopes = |first: usize, n: usize, of: usize, out: &mut [T]| {
            let range = first..first + n;
            let points = Points { x: &x[range.clone()], p, first, block };
            let (grad, density) = (&grad[range.clone()], density.map(|d| &d[range]));
            multiversion::run(Slopes { points, grad, density, of, out, law: PhantomData::<(D, M)> });
        };
        if x.is_empty() {
            return outs.iter_mut().try_for_each(no_gradient);
        }
        let (points, others) = outs.split_at_mut(1);
        if points[0].wanted() {
            parallel_rows(points[0].slice_mut::<T>()?, GRAIN, 1, |k, out| slopes(k * GRAIN, out.len(), 0, out));
        }
        if ins[1].is_empty() {
            return others.iter_mut().try_for_each(no_gradient);
        }
        let sets = GRAIN.div_ceil(block);
        for (which, out) in others.iter_mut().enumerate().filter(|(_, out)| out.wanted()) {
            parallel_rows(out.slice_mut::<T>()?, sets, 1, |k, out| {
                slopes(k * sets * block, out.len() * block, 1 + which, out);
            });
        }
        Ok(())
    })
}

/// The gradients with respect to the points (`of` = 0), or to parameter `of` - 1: sums over its blocks.
struct Slopes<'a, D, M, T, const N: usize> {
    points: Points<'a, T, N>,
    grad: &'a [T],
    density: Option<&'a [T]>,
    of: usize,
    out: &'a mut [T],
    law: PhantomData<(D, M)>,
}

impl<D: Density<N>, M: Precision, T: Element, const N: usize> Slopes<'_, D, M, T, N> {
    /// Writes the gradient terms of `points`, before the sum.
    #[inline(always)]
    fn fill(&self, points: Points<'_, T, N>, begin: usize, to: &mut [f64]) {
        let n = points.x.len();
        let (grad, to) = (&self.grad[begin..begin + n], &mut to[..n]);
        match self.of.checked_sub(1) {
            None => each!(points, |i, x, p| to[i] = D::slopes::<M>(x, p).0 * grad[i].to_f64()),
            Some(which) => each!(points, |i, x, p| to[i] = D::slopes::<M>(x, p).1[which] * grad[i].to_f64()),
        }
        if let Some(density) = self.density {
            to.iter_mut().zip(&density[begin..begin + n]).for_each(|(to, d)| *to *= d.to_f64());
        }
    }
}

/// Size of the buffer of gradient terms.
const BUFFER_LEN: usize = 256;

impl<D: Density<N>, M: Precision, T: Element, const N: usize> Kernel for Slopes<'_, D, M, T, N> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let block = if self.of == 0 { 1 } else { self.points.block };
        let out = std::mem::take(&mut self.out);
        let (mut buffer, mut sum, mut left, mut set) = ([0.0; BUFFER_LEN], 0.0, block, 0);
        for (k, x) in self.points.x.chunks(BUFFER_LEN).enumerate() {
            let begin = k * BUFFER_LEN;
            self.fill(Points { x, first: self.points.first + begin, ..self.points }, begin, &mut buffer);
            if block == 1 {
                out[begin..begin + x.len()].iter_mut().zip(&buffer).for_each(|(out, s)| *out = T::from_f64(*s));
                continue;
            }
            for slope in &buffer[..x.len()] {
                sum += slope;
                left -= 1;
                if left == 0 {
                    out[set] = T::from_f64(sum);
                    (sum, left, set) = (0.0, block, set + 1);
                }
            }
        }
    }
}

/// Defines the density of a distribution. The metadata lists the second parameter after `is_log`, as MXNet does.
macro_rules! density {
    ($NAME:ident: $D:ident, $op:literal [$alias:literal], $doc:literal,
     $first:ident: $first_doc:literal $(, $second:ident: $second_doc:literal)?;
     |$x:ident| $log:expr, $(density |$point:ident, $p:pat, $n:literal| $density:expr,)? slopes $dx:expr, $dp:expr) => {
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
            #[allow(unused_variables)] // Not every slope depends on everything.
            #[inline(always)]
            fn slopes<M: Precision>(
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
                 has a block of points of its own."
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
slopes 0.0, [1.0 / (high - low), -1.0 / (high - low)]);

density!(NORMAL: Normal, "_random_pdf_normal" ["random_pdf_normal"],
"The density of the normal distribution: exp(-((x - mu) / sigma)^2 / 2) / (sigma sqrt(2 pi)).",
mu: "The means.", sigma: "The standard deviations.";
|x| -0.5 * ((x - mu) / sigma).powi(2) - M::log(sigma) - 0.5 * M::log(std::f64::consts::TAU),
slopes (mu - x) / (sigma * sigma), [(x - mu) / (sigma * sigma), ((x - mu) / sigma).powi(2) / sigma - 1.0 / sigma]);

density!(GAMMA: Gamma, "_random_pdf_gamma" ["random_pdf_gamma"],
"The density of the gamma distribution of shape alpha and rate beta: beta^alpha x^(alpha - 1) exp(-beta x) / Gamma(alpha).",
alpha: "The shapes of the distributions, positive.", beta: "Their rates, positive.";
|x| alpha * M::log(beta) + (alpha - 1.0) * M::log(x) - beta * x - M::lgamma(alpha),
slopes (alpha - 1.0) / x - beta, [M::log(beta) + M::log(x) - M::digamma(alpha), alpha / beta - x]);

density!(EXPONENTIAL: Exponential, "_random_pdf_exponential" ["random_pdf_exponential"],
"The density of the exponential distribution: lam exp(-lam x).",
lam: "The rates, positive.";
|x| M::log(lam) - lam * x,
slopes -lam, [1.0 / lam - x]);

density!(POISSON: Poisson, "_random_pdf_poisson" ["random_pdf_poisson"],
"The probability of a number x with the Poisson distribution: lam^x exp(-lam) / x!.",
lam: "The means, positive.";
|x| x * M::log(lam) - lam - M::lgamma(x + 1.0),
slopes 0.0, [x / lam - 1.0]);

/// The log-probability of x failures before k successes of probability p.
#[inline(always)]
fn failures<M: Precision>(x: f64, k: f64, p: f64) -> f64 {
    M::lgamma(x + k) - M::lgamma(x + 1.0) - M::lgamma(k) + k * M::log(p) + x * M::log(1.0 - p)
}

/// Its derivatives with respect to k and p; the integer x has none.
#[inline(always)]
fn failures_slopes<M: Precision>(x: f64, k: f64, p: f64) -> [f64; 2] {
    [M::digamma(x + k) - M::digamma(k) + M::log(p), k / p - x / (1.0 - p)]
}

density!(NEGATIVE_BINOMIAL: NegativeBinomial, "_random_pdf_negative_binomial" ["random_pdf_negative_binomial"],
"The probability of x failures before the k-th success, each of probability p: Gamma(x + k) / (x! Gamma(k)) p^k (1 - p)^x.",
k: "The numbers of successes, positive; they need not be integers.", p: "The probabilities of a success.";
|x| failures::<M>(x, k, p),
slopes 0.0, failures_slopes::<M>(x, k, p));

/// The derivatives with respect to mu and alpha for k = 1 / alpha and p = 1 / (1 + mu alpha).
#[inline(always)]
fn dispersed_slopes<M: Precision>(x: f64, mu: f64, alpha: f64) -> [f64; 2] {
    let p = 1.0 / (1.0 + mu * alpha);
    let [dk, dp] = failures_slopes::<M>(x, 1.0 / alpha, p);
    [-dp * alpha * p * p, -dk / (alpha * alpha) - dp * mu * p * p]
}

density!(GENERALIZED_NEGATIVE_BINOMIAL: GeneralizedNegativeBinomial,
"_random_pdf_generalized_negative_binomial" ["random_pdf_generalized_negative_binomial"],
"The probability of a number with the negative binomial distribution of mean mu and dispersion alpha, whose variance is \
 mu + alpha mu^2: that with k = 1 / alpha and p = 1 / (1 + mu alpha).",
mu: "The means, positive.", alpha: "The dispersions, positive.";
|x| failures::<M>(x, 1.0 / alpha, 1.0 / (1.0 + mu * alpha)),
slopes 0.0, dispersed_slopes::<M>(x, mu, alpha));

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
        begins_with(&io.ins[0], &io.ins[1], outer - 1, rank - 1)?;
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
        let (is_log, k, block) = (ctx.params::<PdfParam>().is_log, components(&ins[1]), blocks(&ins[0], &ins[1]));
        dispatch!(ins[0].dtype(), T in [f32, f64, f16] => {
            let (x, alpha) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?);
            parallel_rows(outs[0].slice_mut::<T>()?, 1, GRAIN.div_ceil(k), |i, out| {
                let (x, alpha) = (&x[i * k..(i + 1) * k], &alpha[i / block * k..(i / block + 1) * k]);
                let total: f64 = alpha.iter().map(|a| a.to_f64()).sum();
                let term = |(x, a): (&T, &T)| (a.to_f64() - 1.0) * log(x.to_f64()) - lgamma(a.to_f64());
                let density = lgamma(total) + x.iter().zip(alpha).map(term).sum::<f64>();
                out[0] = T::from_f64(if is_log { density } else { exp(density) });
            });
            Ok(())
        }, d => Err(ctx.unsupported(d, DType::FLOATS)))
    })
    .grad(Grad::Kernel(Backward::new(dirichlet_backward).inputs(Deps::All).outputs(Deps::All), None));

fn components(alpha: &In<'_>) -> usize {
    alpha.shape().dims().last().map_or(1, |k| (*k).max(1) as usize)
}

/// The number of points per parameter set.
fn blocks(points: &In<'_>, alpha: &In<'_>) -> usize {
    points.len().checked_div(alpha.len()).unwrap_or(0).max(1)
}

/// Inputs: the gradient, the points, the concentrations, the result.
fn dirichlet_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (is_log, k, block) = (ctx.params::<PdfParam>().is_log, components(&ins[2]), blocks(&ins[1], &ins[2]));
    dispatch!(ins[0].dtype(), T in [f32, f64, f16] => {
        let (grad, x, alpha) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
        let density = ins[3].slice::<T>()?;
        let scale = |i: usize| grad[i].to_f64() * if is_log { 1.0 } else { density[i].to_f64() };
        let (points, others) = outs.split_at_mut(1);
        if points[0].wanted() {
            parallel_rows(points[0].slice_mut::<T>()?, k, GRAIN.div_ceil(k), |i, out| {
                for (j, out) in out.iter_mut().enumerate() {
                    *out = T::from_f64(scale(i) * (alpha[i / block * k + j].to_f64() - 1.0) / x[i * k + j].to_f64());
                }
            });
        }
        if ins[1].is_empty() {
            return no_gradient(&mut others[0]);
        }
        if others[0].wanted() {
            parallel_rows(others[0].slice_mut::<T>()?, k, GRAIN.div_ceil(block * k), |set, out| {
                let alpha = &alpha[set * k..(set + 1) * k];
                let total = digamma(alpha.iter().map(|a| a.to_f64()).sum::<f64>());
                for (j, out) in out.iter_mut().enumerate() {
                    let own = total - digamma(alpha[j].to_f64());
                    let term = |i: usize| scale(i) * (own + log(x[i * k + j].to_f64()));
                    *out = T::from_f64((set * block..(set + 1) * block).map(term).sum());
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
                let at = |d: f64| {
                    let mut moved = ins.clone();
                    moved[which] = array(&base.iter().map(|p| p + d).collect::<Vec<_>>(), &[3]);
                    case.run1(&moved).unwrap().to_vec::<f64>().unwrap()
                };
                let slopes: Vec<f64> = at(1e-6).iter().zip(at(-1e-6)).map(|(a, b)| (a - b) / 2e-6).collect();
                close(&grads[which].to_vec::<f64>().unwrap(), &slopes, 1e-6);
            }
        }
    }

    #[test]
    fn points_begin_with_the_shape_of_the_parameters() {
        let shapes = [Shape::new(&[3, 2]), Shape::new(&[2]), Shape::new(&[2])];
        assert!(Case::new(&NORMAL, &[]).shapes(&shapes).unwrap_err().to_string().contains("must begin with"));
    }
}
