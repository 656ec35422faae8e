//! MXNet's older distributions with scalar parameters: `_random_*` for a given shape, `_random_*_like` for the shape of another array.

use ferromx_core::dtype::{DType, Element, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::{ParamValue, SampleDType};
use ferromx_core::shape::Shape;
use ferromx_core::storage::Out;
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::map::Store;
use ferromx_kernels::rng::Philox;

use super::assign_sample_type;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[
    &UNIFORM,
    &UNIFORM_LIKE,
    &NORMAL,
    &NORMAL_LIKE,
    &EXPONENTIAL,
    &EXPONENTIAL_LIKE,
    &GAMMA,
    &GAMMA_LIKE,
    &POISSON,
    &POISSON_LIKE,
    &NEGATIVE_BINOMIAL,
    &NEGATIVE_BINOMIAL_LIKE,
    &GENERALIZED_NEGATIVE_BINOMIAL,
    &GENERALIZED_NEGATIVE_BINOMIAL_LIKE,
    &RANDINT,
];

/// A distribution with its parameters.
trait ScalarDistribution {
    /// Checks the parameters.
    fn check(&self) -> Result<()>;
    /// Fills an array with samples.
    fn fill<T: Element + Store<f32> + Store<f64>>(&self, random: Philox, out: &mut [T]);
}

/// Fills the output with samples.
fn sample(ctx: &OpCtx<'_>, distribution: &impl ScalarDistribution, out: &mut Out<'_>) -> Result<()> {
    distribution.check()?;
    let key = ctx.random.next_key();
    let random = Philox::new(key.seed, key.stream);
    dispatch!(out.dtype(), T in [f32, f64, f16] => {
        distribution.fill(random, out.slice_mut::<T>()?);
        Ok(())
    }, other => Err(ctx.unsupported(other, DType::FLOATS)))
}

/// Defines the two operators of a distribution: samples of a given shape, and of the shape and type of an input.
macro_rules! distribution {
    ($NAME:ident: $op:literal [$($alias:literal),+], $LIKE:ident: $like:literal, $doc:literal,
     $Param:ident, $LikeParam:ident { $($(#[doc = $field_doc:literal])+ $field:ident: $t:ty = $default:tt;)+ },
     check |$p:ident| $check:block, fill |$q:ident, $random:ident, $out:ident| $fill:expr) => {
        params! {
            #[doc = concat!("Parameters of `", $op, "`.")]
            pub struct $Param {
                $($(#[doc = $field_doc])+ $field: $t = $default;)+
                /// The shape.
                shape: Shape = (Shape::unknown());
                /// The device, such as `cpu(0)`; by default the current one.
                ctx: String = (String::new());
                /// The element type; `None` is float32.
                dtype: SampleDType = (SampleDType(None));
            }
        }
        params! {
            #[doc = concat!("Parameters of `", $like, "`.")]
            pub struct $LikeParam {
                $($(#[doc = $field_doc])+ $field: $t = $default;)+
            }
        }
        distribution!(@impl $Param, check |$p| $check, fill |$q, $random, $out| $fill);
        distribution!(@impl $LikeParam, check |$p| $check, fill |$q, $random, $out| $fill);

        #[doc = $doc]
        pub(crate) static $NAME: Operator<$Param> = Operator::new($op)
            .aliases(&[$($alias),+])
            .doc($doc)
            .inputs(&[])
            .shape(|p, io| io.assign_out(0, &p.get::<$Param>().shape))
            .dtype(|p, io| assign_sample_type(io, p.get::<$Param>().dtype.0, DType::FLOATS, DType::F32))
            .forward(|ctx, _, outs| sample(ctx, ctx.params::<$Param>(), &mut outs[0]))
            .grad(Grad::Zero)
            .random();

        #[doc = concat!("`", $op, "` in the shape and type of an array.")]
        pub(crate) static $LIKE: Operator<$LikeParam> = Operator::new($like)
            .doc(concat!($doc, " The result has the shape and the element type of the input."))
            .inputs(&[arg("data", "The array whose shape and element type are used.")])
            .forward(|ctx, _, outs| sample(ctx, ctx.params::<$LikeParam>(), &mut outs[0]))
            .grad(Grad::Zero)
            .arg_order(&[$(stringify!($field),)+ "data"])
            .inplace(&[(0, 0)])
            .random();
    };
    (@impl $Param:ident, check |$p:ident| $check:block, fill |$q:ident, $random:ident, $out:ident| $fill:expr) => {
        impl ScalarDistribution for $Param {
            fn check(&self) -> Result<()> {
                let $p = self;
                $check
                Ok(())
            }
            fn fill<T: Element + Store<f32> + Store<f64>>(&self, $random: Philox, $out: &mut [T]) {
                let $q = self;
                $fill;
            }
        }
    };
}

distribution!(UNIFORM: "_random_uniform" ["random_uniform", "uniform"], UNIFORM_LIKE: "_random_uniform_like",
"Random numbers that are uniformly distributed over [low, high).",
UniformParam, UniformLikeParam {
    /// The lower bound.
    low: f32 = 0.0;
    /// The upper bound.
    high: f32 = 1.0;
},
check |p| { ensure!(p.high >= p.low, "high {} is below low {}", p.high, p.low); },
fill |p, random, out| random.fill_uniform(f64::from(p.low), f64::from(p.high), out));

distribution!(NORMAL: "_random_normal" ["normal", "random_normal"], NORMAL_LIKE: "_random_normal_like",
"Random numbers with a normal distribution.",
NormalParam, NormalLikeParam {
    /// The mean.
    loc: f32 = 0.0;
    /// The standard deviation.
    scale: f32 = 1.0;
},
check |p| { ensure!(p.scale > 0.0, "the standard deviation (scale) is {}: it must be positive", p.scale); },
fill |p, random, out| random.fill_normal(f64::from(p.loc), f64::from(p.scale), out));

distribution!(EXPONENTIAL: "_random_exponential" ["random_exponential"], EXPONENTIAL_LIKE: "_random_exponential_like",
"Random numbers with an exponential distribution, of mean 1 / lam.",
ExponentialParam, ExponentialLikeParam {
    /// The rate.
    lam: f32 = 1.0;
},
check |p| { ensure!(p.lam > 0.0, "the rate (lam) is {}: it must be positive", p.lam); },
fill |p, random, out| random.fill_exponential(f64::from(p.lam), out));

distribution!(GAMMA: "_random_gamma" ["random_gamma"], GAMMA_LIKE: "_random_gamma_like",
"Random numbers with a gamma distribution, of mean alpha * beta.",
GammaParam, GammaLikeParam {
    /// The shape of the distribution.
    alpha: f32 = 1.0;
    /// Its scale.
    beta: f32 = 1.0;
},
check |p| {
    ensure!(p.alpha > 0.0, "the shape (alpha) of the distribution is {}: it must be positive", p.alpha);
    ensure!(p.beta > 0.0, "the scale (beta) of the distribution is {}: it must be positive", p.beta);
},
fill |p, random, out| {
    let (alpha, beta) = (f64::from(p.alpha), f64::from(p.beta));
    random.fill_with(out, |_, draws| draws.gamma(alpha) * beta)
});

distribution!(POISSON: "_random_poisson" ["random_poisson"], POISSON_LIKE: "_random_poisson_like",
"Random numbers with a Poisson distribution, as floating-point numbers.",
PoissonParam, PoissonLikeParam {
    /// The mean.
    lam: f32 = 1.0;
},
check |p| { ensure!(p.lam >= 0.0, "the mean (lam) is {}: it must not be negative", p.lam); },
fill |p, random, out| random.fill_poisson(f64::from(p.lam), out));

distribution!(NEGATIVE_BINOMIAL: "_random_negative_binomial" ["random_negative_binomial"],
NEGATIVE_BINOMIAL_LIKE: "_random_negative_binomial_like",
"Random numbers with a negative binomial distribution: the failures before the k-th success, as floating-point numbers.",
NegativeBinomialParam, NegativeBinomialLikeParam {
    /// The number of successes.
    k: i32 = 1;
    /// The probability of a success.
    p: f32 = 1.0;
},
check |p| {
    ensure!(p.k >= 0, "the number of successes (k) is {}: it must not be negative", p.k);
    ensure!(p.p >= 0.0, "the probability of a success (p) is {}: it must not be negative", p.p);
},
fill |p, random, out| random.fill_negative_binomial(f64::from(p.k), f64::from(p.p), out));

distribution!(GENERALIZED_NEGATIVE_BINOMIAL:
"_random_generalized_negative_binomial" ["random_generalized_negative_binomial"],
GENERALIZED_NEGATIVE_BINOMIAL_LIKE: "_random_generalized_negative_binomial_like",
"Random numbers with a negative binomial distribution given by its mean and dispersion: the variance is mu + alpha * mu^2.",
GeneralizedNegativeBinomialParam, GeneralizedNegativeBinomialLikeParam {
    /// The mean.
    mu: f32 = 1.0;
    /// The dispersion; 0 makes it a Poisson distribution.
    alpha: f32 = 1.0;
},
check |p| {
    ensure!(p.mu >= 0.0, "the mean (mu) is {}: it must not be negative", p.mu);
    ensure!(p.alpha >= 0.0, "the dispersion (alpha) is {}: it must not be negative", p.alpha);
},
fill |p, random, out| random.fill_generalized_negative_binomial(f64::from(p.mu), f64::from(p.alpha), out));

/// An integer type, or `None` for the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IntDType(pub Option<DType>);

impl IntDType {
    const NAMES: [&'static str; 3] = ["None", "int32", "int64"];
}

impl ParamValue for IntDType {
    fn type_name() -> std::borrow::Cow<'static, str> {
        ferromx_core::params::enum_type(&Self::NAMES).into()
    }
    fn parse(text: &str) -> std::result::Result<Self, String> {
        match text {
            "None" => Ok(IntDType(None)),
            "int32" => Ok(IntDType(Some(DType::I32))),
            "int64" => Ok(IntDType(Some(DType::I64))),
            _ => Err(ferromx_core::params::enum_error(text, &Self::NAMES)),
        }
    }
    fn print(&self) -> String {
        self.0.map_or("None", DType::name).into()
    }
    fn print_default(&self) -> String {
        format!("'{}'", self.print())
    }
    const SEPARATOR: &'static str = ",";
}

params! {
    /// Parameters of `_random_randint`.
    pub struct RandintParam {
        /// The lower bound (inclusive).
        low: i64 = required;
        /// The upper bound (exclusive).
        high: i64 = required;
        /// The shape.
        shape: Shape = (Shape::unknown());
        /// The device, such as `cpu(0)`; by default the current one.
        ctx: String = (String::new());
        /// The element type; `None` is int32.
        dtype: IntDType = (IntDType(None));
    }
}

pub(super) static RANDINT: Operator<RandintParam> = Operator::new("_random_randint")
    .aliases(&["_npi_random_randint", "random_randint"])
    .doc("Random integers that are uniformly distributed over low, ..., high - 1.")
    .inputs(&[])
    .shape(|p, io| io.assign_out(0, &p.get::<RandintParam>().shape))
    .dtype(|p, io| assign_sample_type(io, p.get::<RandintParam>().dtype.0, &[DType::I32, DType::I64], DType::I32))
    .forward(|ctx, _, outs| {
        let p = ctx.params::<RandintParam>();
        ensure!(p.low < p.high, "low {} must be less than high {}", p.low, p.high);
        let key = ctx.random.next_key();
        dispatch!(outs[0].dtype(), T in [i32, i64] => {
            Philox::new(key.seed, key.stream).fill_int(p.low, p.high, outs[0].slice_mut::<T>()?);
            Ok(())
        }, d => Err(ctx.unsupported(d, &[DType::I32, DType::I64])))
    })
    .grad(Grad::Zero)
    .random();

#[cfg(test)]
mod tests {
    use ferromx_core::infer::DTypeIo;
    use ferromx_core::op::OpDef;

    use super::*;
    use crate::testing::{Case, array};

    fn draw(def: &'static OpDef, attrs: &[(&str, &str)]) -> Vec<f64> {
        let shape = [("shape", "(4000,)")];
        Case::new(def, &[attrs, &shape[..]].concat()).run1(&[]).unwrap().to_vec_as().unwrap()
    }

    fn mean(x: &[f64]) -> f64 {
        x.iter().sum::<f64>() / x.len() as f64
    }

    #[test]
    fn distributions_have_their_means() {
        let near = |def, attrs: &[(&str, &str)], want: f64, tolerance: f64| {
            let got = mean(&draw(def, attrs));
            assert!((got - want).abs() < tolerance, "{}: mean {got}, expected {want}", def.name);
        };
        near(&UNIFORM, &[("low", "-1"), ("high", "2")], 0.5, 0.1);
        near(&NORMAL, &[("loc", "3"), ("scale", "2")], 3.0, 0.2);
        near(&EXPONENTIAL, &[("lam", "4")], 0.25, 0.03);
        near(&GAMMA, &[("alpha", "2"), ("beta", "4"), ("dtype", "float64")], 8.0, 0.6);
        near(&POISSON, &[("lam", "3")], 3.0, 0.2);
        near(&NEGATIVE_BINOMIAL, &[("k", "3"), ("p", "0.2")], 12.0, 0.8);
        near(&GENERALIZED_NEGATIVE_BINOMIAL, &[("mu", "5"), ("alpha", "0.2")], 5.0, 0.4);
        near(&RANDINT, &[("low", "-5"), ("high", "6")], 0.0, 0.3);
    }

    #[test]
    fn invalid_parameters_are_errors() {
        let error = |def, attrs: &[(&str, &str)]| Case::new(def, attrs).run1(&[]).unwrap_err().to_string();
        let shape = ("shape", "(2,)");
        assert!(error(&UNIFORM, &[("low", "2"), shape]).contains("high 1 is below low 2"));
        assert!(error(&NORMAL, &[("scale", "-1"), shape]).contains("positive"));
        assert!(error(&RANDINT, &[("low", "3"), ("high", "3"), shape]).contains("must be less than high"));
        // A given output determines the type, which is checked before the kernel runs.
        let type_error = |def: &OpDef, attrs: &[(&str, &str)], given| {
            let p = def.parse(&attrs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()).unwrap();
            let mut io = DTypeIo { ins: &mut [], outs: &mut [Some(given)] };
            (def.inference.dtype)(&p, &mut io).unwrap_err().to_string()
        };
        assert!(type_error(&UNIFORM, &[], DType::I32).starts_with("Output type must be float16, float32, float64"));
        assert!(
            type_error(&RANDINT, &[("low", "0"), ("high", "3")], DType::U8)
                .starts_with("Output type must be int32, int64")
        );
    }

    #[test]
    fn like_operators_take_shape_and_type_from_their_input() {
        let x = array(&[half::f16::ZERO; 6], &[2, 3]);
        let y = Case::new(&UNIFORM_LIKE, &[("low", "2"), ("high", "3")]).run1(&[x]).unwrap();
        assert_eq!((y.shape().dims(), y.dtype()), (&[2, 3][..], DType::F16));
        assert!(y.to_vec_as::<f64>().unwrap().iter().all(|y| (2.0..=3.0).contains(y)));
    }
}
