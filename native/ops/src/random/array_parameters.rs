//! MXNet's older distributions with array parameters, `_sample_*`: each element of the parameters has its own samples. The result has the
//! shape (shape of the parameters..., shape of the samples...).

use ferromx_core::dtype::{DType, Element, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::{Params, SampleDType};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, params};
use ferromx_kernels::map::Store;
use ferromx_kernels::rng::{Draws, Philox, samples_of_sets};

use super::assign_sample_type;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] =
    &[&UNIFORM, &NORMAL, &GAMMA, &EXPONENTIAL, &POISSON, &NEGATIVE_BINOMIAL, &GENERALIZED_NEGATIVE_BINOMIAL];

params! {
    /// Parameters of the sampling operators with array parameters.
    pub struct SampleParam {
        /// The shape of the block of samples for each element of the parameters; one number by default.
        shape: Shape = (Shape::new(&[]));
        /// The element type of the result; `None` is float32.
        dtype: SampleDType = (SampleDType(None));
    }
}

/// Shape rule: the parameters have one shape, to which `shape` is appended for the result.
fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let samples = &p.get::<SampleParam>().shape;
    let mut shape = Shape::unknown();
    if let (Some(rank), Some(sample_rank)) = (io.outs[0].ndim(), samples.ndim())
        && rank >= sample_rank
    {
        shape = Shape::new(&io.outs[0].dims()[..rank - sample_rank]);
    }
    for i in 0..io.ins.len() {
        io.assign_in(i, &shape)?;
        shape = io.ins[i].clone();
    }
    for i in 0..io.ins.len() {
        io.assign_in(i, &shape)?;
    }
    if shape.ndim_is_known() && samples.ndim_is_known() {
        io.assign_out(0, &Shape::new(&[shape.dims(), samples.dims()].concat()))?;
    }
    Ok(())
}

/// Type rule: the parameters have one type, which does not determine that of the result.
fn infer_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    if let Some(dtype) = io.ins.iter().flatten().next().copied() {
        (0..io.ins.len()).try_for_each(|i| io.assign_in(i, dtype))?;
    }
    assign_sample_type(io, p.get::<SampleParam>().dtype.0, DType::FLOATS, DType::F32)
}

/// Converts a parameter of any numeric type to double precision.
fn to_f64(ctx: &OpCtx<'_>, x: &In<'_>) -> Result<Vec<f64>> {
    dispatch!(x.dtype(), T in [f32, f64, f16, u8, i8, i32, i64] => {
        Ok(x.slice::<T>()?.iter().map(|x| x.to_f64()).collect())
    }, other => Err(ctx.unsupported(other, &[
        DType::F32, DType::F64, DType::F16, DType::U8, DType::I8, DType::I32, DType::I64,
    ])))
}

/// Fills the result with `draw(parameters, draws)`.
fn sample<const N: usize>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    out: &mut Out<'_>,
    draw: impl Fn([f64; N], &mut Draws) -> f64 + Sync,
) -> Result<()> {
    let parameters = ins.iter().map(|x| to_f64(ctx, x)).collect::<Result<Vec<_>>>()?;
    // The number of samples for each element of the parameters; 1 for an empty result, to avoid a division by zero.
    let num_samples = (out.len() / ins[0].len().max(1)).max(1);
    let key = ctx.random.next_key();
    let random = Philox::new(key.seed, key.stream);
    dispatch!(out.dtype(), T in [f32, f64, f16] => {
        random.fill_with(out.slice_mut::<T>()?, |i, draws| {
            draw(std::array::from_fn(|k| parameters[k][i / num_samples]), draws)
        });
        Ok(())
    }, other => Err(ctx.unsupported(other, DType::FLOATS)))
}

/// Noise that does not depend on the parameters, and is generated for the whole result with SIMD.
#[derive(Clone, Copy)]
enum Noise {
    /// Uniform in [0, 1).
    Uniform,
    /// Normal with mean 0 and standard deviation 1.
    Normal,
    /// Exponential with mean 1.
    Exponential,
}

impl Noise {
    fn fill<T: Store<f32> + Store<f64>>(self, random: &Philox, out: &mut [T]) {
        match self {
            Noise::Uniform => random.fill_uniform(0.0, 1.0, out),
            Noise::Normal => random.fill_normal(0.0, 1.0, out),
            Noise::Exponential => random.fill_exponential(1.0, out),
        }
    }
}

/// Fills the result with `value(parameters, noise)`.
fn sample_from_noise<const N: usize>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    out: &mut Out<'_>,
    noise: Noise,
    value: impl Fn([f64; N], f64) -> f64 + Sync,
) -> Result<()> {
    let parameters = ins.iter().map(|x| to_f64(ctx, x)).collect::<Result<Vec<_>>>()?;
    let num_samples = (out.len() / ins[0].len().max(1)).max(1);
    let key = ctx.random.next_key();
    let random = Philox::new(key.seed, key.stream);
    dispatch!(out.dtype(), T in [f32, f64, f16] => {
        let out = out.slice_mut::<T>()?;
        noise.fill(&random, out);
        samples_of_sets(out, num_samples, |set, noise| value(std::array::from_fn(|k| parameters[k][set]), noise));
        Ok(())
    }, other => Err(ctx.unsupported(other, DType::FLOATS)))
}

/// Defines the operator of a distribution. The metadata lists the second parameter after `shape` and `dtype`, as MXNet does.
macro_rules! distribution {
    ($NAME:ident: $op:literal [$alias:literal], $doc:literal,
     $first:ident: $first_doc:literal $(, $second:ident: $second_doc:literal)?; |$draws:ident| $draw:expr) => {
        distribution!($NAME: $op [$alias], $doc, $first: $first_doc $(, $second: $second_doc)?; forward |ctx, ins, outs| {
            sample(ctx, ins, &mut outs[0], |[$first $(, $second)?]: [f64; _], $draws| $draw)
        });
    };
    ($NAME:ident: $op:literal [$alias:literal], $doc:literal,
     $first:ident: $first_doc:literal $(, $second:ident: $second_doc:literal)?; $noise:ident |$z:ident| $value:expr) => {
        distribution!($NAME: $op [$alias], $doc, $first: $first_doc $(, $second: $second_doc)?; forward |ctx, ins, outs| {
            sample_from_noise(ctx, ins, &mut outs[0], Noise::$noise, |[$first $(, $second)?]: [f64; _], $z| $value)
        });
    };
    ($NAME:ident: $op:literal [$alias:literal], $doc:literal,
     $first:ident: $first_doc:literal $(, $second:ident: $second_doc:literal)?; forward $forward:expr) => {
        #[doc = $doc]
        pub(crate) static $NAME: Operator<SampleParam> = Operator::new($op)
            .aliases(&[$alias])
            .doc(concat!(
                $doc,
                " The result has the shape of the parameters, followed by `shape`: each element of the parameters has \
                 its own block of numbers. A parameter outside its range gives meaningless numbers or NaN."
            ))
            .inputs(&[arg(stringify!($first), $first_doc) $(, arg(stringify!($second), $second_doc))?])
            .shape(infer_shape)
            .dtype(infer_dtype)
            .forward($forward)
            .grad(Grad::Zero)
            .arg_order(&[stringify!($first), "shape", "dtype" $(, stringify!($second))?])
            .random();
    };
}

distribution!(UNIFORM: "_sample_uniform" ["sample_uniform"],
"Random numbers that are uniformly distributed between `low` and `high`.",
low: "The lower bounds.", high: "The upper bounds.";
Uniform |u| low + (high - low) * u);

distribution!(NORMAL: "_sample_normal" ["sample_normal"],
"Random numbers with a normal distribution of mean `mu` and standard deviation `sigma`.",
mu: "The means.", sigma: "The standard deviations.";
Normal |z| mu + sigma * z);

distribution!(GAMMA: "_sample_gamma" ["sample_gamma"],
"Random numbers with a gamma distribution of shape `alpha` and scale `beta`: the mean is alpha * beta.",
alpha: "The shapes of the distributions, positive.", beta: "Their scales.";
|draws| draws.gamma(alpha) * beta);

distribution!(EXPONENTIAL: "_sample_exponential" ["sample_exponential"],
"Random numbers with an exponential distribution of rate `lam`: the mean is 1 / lam.",
lam: "The rates, positive.";
Exponential |e| e / lam);

distribution!(POISSON: "_sample_poisson" ["sample_poisson"],
"Random numbers with a Poisson distribution of mean `lam`, as floating-point numbers.",
lam: "The means, not negative.";
|draws| draws.poisson(lam));

distribution!(NEGATIVE_BINOMIAL: "_sample_negative_binomial" ["sample_negative_binomial"],
"Random numbers with a negative binomial distribution: the failures before the `k`-th success, whose probability is `p`, as \
 floating-point numbers.",
k: "The numbers of successes, not negative; they need not be integers.", p: "The probabilities of a success.";
|draws| draws.negative_binomial(k, p));

distribution!(GENERALIZED_NEGATIVE_BINOMIAL:
"_sample_generalized_negative_binomial" ["sample_generalized_negative_binomial"],
"Random numbers with a negative binomial distribution of mean `mu` and dispersion `alpha`, as floating-point numbers: the \
 variance is mu + alpha * mu^2.",
mu: "The means, not negative.", alpha: "The dispersions, not negative; 0 makes it a Poisson distribution.";
|draws| draws.generalized_negative_binomial(mu, alpha));

#[cfg(test)]
mod tests {
    use ferromx_core::op::OpDef;

    use super::*;
    use crate::testing::{Case, array, vector};

    #[test]
    fn samples_have_the_mean_and_standard_deviation_of_their_parameters() {
        let near = |def: &'static OpDef, ins: &[[f64; 2]], want: [(f64, f64); 2]| {
            let ins: Vec<_> = ins.iter().map(|x| vector(DType::F32, x)).collect();
            let y = Case::new(def, &[("shape", "(50, 80)")]).run1(&ins).unwrap();
            assert_eq!((y.shape().dims(), y.dtype()), (&[2, 50, 80][..], DType::F32));
            for (samples, (mean, std)) in y.to_vec_as::<f64>().unwrap().chunks(4000).zip(want) {
                let got = samples.iter().sum::<f64>() / 4000.0;
                let got_std = (samples.iter().map(|y| (y - got).powi(2)).sum::<f64>() / 4000.0).sqrt();
                // Five standard errors of the mean.
                assert!((got - mean).abs() < std * 0.08, "{}: mean {got}, expected {mean}", def.name);
                assert!((got_std / std - 1.0).abs() < 0.15, "{}: {got_std}, expected {std}", def.name);
            }
        };
        near(&UNIFORM, &[[-1.0, 10.0], [2.0, 16.0]], [(0.5, 0.75f64.sqrt()), (13.0, 3f64.sqrt())]);
        near(&NORMAL, &[[3.0, -5.0], [2.0, 0.5]], [(3.0, 2.0), (-5.0, 0.5)]);
        near(&GAMMA, &[[2.0, 9.0], [4.0, 0.5]], [(8.0, 32f64.sqrt()), (4.5, 1.5)]);
        near(&EXPONENTIAL, &[[4.0, 0.5]], [(0.25, 0.25), (2.0, 2.0)]);
        near(&POISSON, &[[4.0, 100.0]], [(4.0, 2.0), (100.0, 10.0)]);
        near(&NEGATIVE_BINOMIAL, &[[3.0, 5.0], [0.2, 0.5]], [(12.0, 60f64.sqrt()), (5.0, 10f64.sqrt())]);
        near(&GENERALIZED_NEGATIVE_BINOMIAL, &[[5.0, 4.0], [0.2, 0.0]], [(5.0, 10f64.sqrt()), (4.0, 2.0)]);
    }

    #[test]
    fn parameters_may_be_of_any_numeric_and_results_of_any_floating_point_type() {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::U8, DType::I8, DType::I32, DType::I64] {
            let ins = [vector(dtype, &[1.0, 5.0]), vector(dtype, &[2.0, 6.0])];
            let y = Case::new(&UNIFORM, &[]).run1(&ins).unwrap();
            assert_eq!((y.shape().dims(), y.dtype()), (&[2][..], DType::F32));
            for out in DType::FLOATS {
                let y = Case::new(&UNIFORM, &[("dtype", out.name()), ("shape", "3")]).run1(&ins).unwrap();
                assert_eq!((y.shape().dims(), y.dtype()), (&[2, 3][..], *out));
                let y: Vec<f64> = y.to_vec_as().unwrap();
                assert!(y[..3].iter().all(|y| (1.0..=2.0).contains(y)), "{y:?}");
                assert!(y[3..].iter().all(|y| (5.0..=6.0).contains(y)), "{y:?}");
            }
        }
        let flags = [array(&[false], &[1]), array(&[true], &[1])];
        assert!(Case::new(&UNIFORM, &[]).run1(&flags).unwrap_err().to_string().contains("bool"));
    }

    #[test]
    fn parameters_have_one_shape_and_type() {
        let case = Case::new(&NORMAL, &[("shape", "(2,)")]);
        let (ins, outs) = case.shapes_both(&[Shape::unknown(), Shape::new(&[3])], &[]).unwrap();
        assert_eq!((ins[0].dims(), outs[0].dims()), (&[3][..], &[3, 2][..]));
        assert!(case.shapes(&[Shape::new(&[2]), Shape::new(&[3])]).is_err());
        assert!(case.dtypes(&[Some(DType::F32), Some(DType::F64)]).is_err());
        assert_eq!(case.dtypes(&[None, Some(DType::F64)]).unwrap(), [Some(DType::F32)]);
    }

    #[test]
    fn results_may_be_empty_and_invalid_parameters_give_nan() {
        let empty = Case::new(&NORMAL, &[("shape", "(0,)")]);
        assert!(
            empty.run1(&[vector(DType::F32, &[1.0]), vector(DType::F32, &[1.0])]).unwrap().shape().dims() == [1, 0]
        );
        let y = Case::new(&GAMMA, &[]).run1(&[vector(DType::F64, &[-2.0]), vector(DType::F64, &[1.0])]).unwrap();
        assert!(y.to_vec_as::<f64>().unwrap()[0].is_nan());
        let y = Case::new(&POISSON, &[]).run1(&[vector(DType::F64, &[-2.0])]).unwrap();
        assert!(y.to_vec_as::<f64>().unwrap()[0].is_nan());
    }
}
