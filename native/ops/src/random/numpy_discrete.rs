//! Discrete distributions of the NumPy interface: `bernoulli`, `choice`, `multinomial`.

use ferromx_core::dtype::{DType, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::memory;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::{BernoulliDType, ShapeOrNone, Tuple, Untyped};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::movement;
use ferromx_kernels::rng::{Inversion, Philox};

use crate::elemwise::family::load_lanes;
use crate::random::sample_shape::sample_shape;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&BERNOULLI, &CHOICE, &MULTINOMIAL];

/// A new stream of random numbers.
fn new_stream(ctx: &OpCtx<'_>) -> Philox {
    let key = ctx.random.next_key();
    Philox::new(key.seed, key.stream)
}

params! {
    /// Parameters of `_npi_bernoulli`.
    pub struct BernoulliParam {
        /// The probability of 1.
        prob: Option<f32> = required;
        /// The log-odds of 1, instead of the probability.
        logit: Option<f32> = required;
        /// The shape of the result, to which the array is broadcast; by default its shape.
        size: ShapeOrNone = (ShapeOrNone(None));
        /// The device, such as `cpu(0)`.
        ctx: String = ("cpu".to_string());
        /// The element type.
        dtype: BernoulliDType = (BernoulliDType(DType::F32));
        /// Whether the parameter is a logit.
        is_logit: bool = required;
    }
}

impl BernoulliParam {
    /// The parameter, probability or logit, if it is a number.
    fn number(&self) -> Option<f64> {
        self.prob.or(self.logit).map(f64::from)
    }
}

pub(super) static BERNOULLI: Operator<BernoulliParam> = Operator::new("_npi_bernoulli")
    .doc("Random numbers 0 and 1. If neither prob nor logit is given, the array holds logits or probabilities, depending on is_logit.")
    .inputs(&[arg("input1", "The probabilities or logits, if neither is given as a parameter.")])
    .num_inputs_by(|p| usize::from(p.get::<BernoulliParam>().number().is_none()))
    .shape(|p, io| {
        let common = io.ins.first().cloned().unwrap_or(Shape::new(&[]));
        if !common.ndim_is_known() {
            return Ok(());
        }
        io.assign_out(0, &sample_shape(common, p.get::<BernoulliParam>().size.0.as_ref())?)
    })
    .dtype(|p, io| io.assign_out(0, p.get::<BernoulliParam>().dtype.0))
    .forward(bernoulli)
    .grad(Grad::Zero)
    .random();

fn bernoulli(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (p, shape, n) = (ctx.params::<BernoulliParam>(), outs[0].shape().to_usize(), outs[0].len());
    let mut probabilities = match (p.number(), ins.first()) {
        (Some(number), _) => memory::filled(number, n),
        (None, Some(x)) => {
            let mut values = memory::filled(0.0, n);
            movement::broadcast_to(&load_lanes::<f64>(x)?, &x.shape().to_usize(), (&mut values, &shape));
            values
        }
        (None, None) => return Err(Error::Value("give prob, logit, or an array".into())),
    };
    if p.is_logit {
        probabilities.iter_mut().for_each(|p| *p = 1.0 / (1.0 + (-*p).exp()));
    }
    ensure!(
        probabilities.iter().all(|p| (0.0..=1.0).contains(p)),
        "ValueError: expect probs >= 0 && probs <= 1, but a probability is outside this range"
    );
    let random = new_stream(ctx);
    dispatch!(outs[0].dtype(), T in [f32, f64, f16, u8, i32, bool] => {
        let trial = |i: usize, draws: &mut ferromx_kernels::rng::Draws| f64::from(u8::from(draws.uniform() < probabilities[i]));
        random.fill_with(outs[0].slice_mut::<T>()?, trial);
        Ok(())
    }, d => Err(ctx.unsupported(d, &[DType::F16, DType::F32, DType::F64, DType::U8, DType::I32, DType::Bool])))
}

params! {
    /// Parameters of `_npi_choice`.
    pub struct ChoiceParam {
        /// Numbers are chosen from 0 to a - 1; None means the length of input1.
        a: Untyped<Option<i64>> = required;
        /// The shape of the result; None for a single number.
        size: Untyped<Shape> = required;
        /// The device, such as `cpu(0)`.
        ctx: String = ("cpu".to_string());
        /// Whether a number may be chosen more than once.
        replace: bool = true;
        /// Whether the last array holds probabilities.
        weighted: bool = false;
    }
}

pub(super) static CHOICE: Operator<ChoiceParam> = Operator::new("_npi_choice")
    .doc("Random integers from 0 to a - 1 with equal or given probabilities, as int64.")
    .inputs(&[
        arg("input1", "An array of which only the length is used, if a is None; otherwise the probabilities."),
        arg("input2", "The probabilities, if a is None."),
    ])
    .num_inputs_by(|p| {
        let p = p.get::<ChoiceParam>();
        usize::from(p.a.0.is_none()) + usize::from(p.weighted)
    })
    .shape(|p, io| {
        // None is read as a shape of unknown rank.
        let size = Some(&p.get::<ChoiceParam>().size.0).filter(|s| s.ndim_is_known());
        io.assign_out(0, size.unwrap_or(&Shape::new(&[])))
    })
    .dtype(|_, io| io.assign_out(0, DType::I64))
    .forward(choice)
    .grad(Grad::Zero)
    .random();

fn choice(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (p, out) = (ctx.params::<ChoiceParam>(), outs[0].slice_mut::<i64>()?);
    let n = match (p.a.0, ins.first()) {
        (Some(a), _) => usize::try_from(a).unwrap_or(0),
        (None, x) => x.map_or(0, In::len),
    };
    ensure!(n > 0 || out.is_empty(), "there are no numbers to choose from");
    ensure!(p.replace || out.len() <= n, "{} different numbers cannot be chosen from {n}: use replace", out.len());
    let random = new_stream(ctx);
    if !p.weighted {
        match p.replace {
            true => random.fill_int(0, n as i64, out),
            false => out.iter_mut().zip(random.permutation(n)).for_each(|(x, i)| *x = i as i64),
        }
        return Ok(());
    }
    let weights = ins.last().map_or(Ok(Vec::new()), load_lanes::<f64>)?;
    ensure!(weights.len() == n, "there are {} probabilities for {n} numbers", weights.len());
    ensure!(weights.iter().all(|w| *w >= 0.0), "probabilities cannot be negative");
    if out.is_empty() {
        return Ok(());
    }
    if p.replace {
        random.fill_inverted(&Inversion::new(weights), out);
        return Ok(());
    }
    let num_possible = weights.iter().filter(|w| **w > 0.0).count();
    ensure!(num_possible >= out.len(), "fewer numbers have a positive probability than are to be drawn");
    let chosen = random.weighted_order(&weights);
    out.iter_mut().zip(chosen).for_each(|(x, i)| *x = i as i64);
    Ok(())
}

params! {
    /// Parameters of `_npi_multinomial`.
    pub struct MultinomialParam {
        /// The number of trials.
        n: i32 = required, where 0..=i32::MAX;
        /// The probabilities of the outcomes; None for those in the array `a`.
        pvals: Untyped<Option<Tuple<f64>>> = (Untyped(None));
        /// The shape of independent experiments; a single one by default.
        size: ShapeOrNone = (ShapeOrNone(None));
    }
}

pub(super) static MULTINOMIAL: Operator<MultinomialParam> = Operator::new("_npi_multinomial")
    .doc("How often each outcome occurs in n trials, as int64; the outcomes are the last axis of the result.")
    .inputs(&[arg("a", "The probabilities of the outcomes, a vector, unless pvals is given.")])
    .num_inputs_by(|p| usize::from(p.get::<MultinomialParam>().pvals.0.is_none()))
    .shape(|p, io| {
        let p = p.get::<MultinomialParam>();
        let outcomes = match (&p.pvals.0, io.ins.first()) {
            (Some(pvals), _) => pvals.0.len() as i64,
            (None, Some(a)) => match a.ndim() {
                None => return Ok(()),
                Some(rank) => {
                    ensure!(rank == 1, "the probabilities must be a vector, not of shape {a}");
                    a.dim(0)
                }
            },
            (None, None) => return Ok(()),
        };
        let size = p.size.0.as_ref().map_or(&[][..], Shape::dims);
        io.assign_out(0, &Shape::new(&[size, &[outcomes]].concat()))
    })
    .dtype(|_, io| io.assign_out(0, DType::I64))
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<MultinomialParam>();
        let weights = match &p.pvals.0 {
            Some(pvals) => pvals.0.clone(),
            None => ins.first().map_or(Ok(Vec::new()), load_lanes::<f64>)?,
        };
        ensure!(weights.iter().all(|w| *w >= 0.0), "probabilities cannot be negative");
        let total: f64 = weights.iter().sum();
        ensure!(total <= 1.0 + 1e-6, "sum(pvals[:-1]) > 1.0: the probabilities add up to {total}");
        let sum_of_others: f64 = weights.iter().rev().skip(1).sum();
        let Some((last, others)) = weights.split_last() else { return Ok(()) };
        // As in NumPy, the last outcome gets the remaining probability.
        let last = if others.is_empty() { *last } else { (1.0 - sum_of_others).max(0.0) };
        let weights: Vec<f64> = others.iter().copied().chain([last]).collect();
        new_stream(ctx).fill_multinomial(p.n, &weights, outs[0].slice_mut::<i64>()?);
        Ok(())
    })
    .grad(Grad::Zero)
    .random();

#[cfg(test)]
mod tests {
    use ferromx_core::op::OpDef;

    use super::*;
    use crate::testing::{Case, array};

    fn numbers(
        def: &'static OpDef,
        attrs: &[(&str, &str)],
        ins: &[ferromx_core::ndarray::NDArray],
    ) -> Result<Vec<f64>> {
        Case::new(def, attrs).run1(ins)?.to_vec_as::<f64>()
    }

    #[test]
    fn bernoulli_trials_have_the_given_probability() {
        let mean = |attrs: &[(&str, &str)]| {
            let attrs: Vec<_> = attrs.iter().copied().chain([("size", "(20000,)")]).collect();
            numbers(&BERNOULLI, &attrs, &[]).unwrap().iter().sum::<f64>() / 20000.0
        };
        assert!((mean(&[("prob", "0.3"), ("logit", "None"), ("is_logit", "0")]) - 0.3).abs() < 0.02);
        assert!((mean(&[("prob", "None"), ("logit", "0"), ("is_logit", "1"), ("dtype", "bool")]) - 0.5).abs() < 0.02);
        let given = [("prob", "None"), ("logit", "None"), ("is_logit", "0")];
        assert_eq!(numbers(&BERNOULLI, &given, &[array(&[0f32, 1.0], &[2])]).unwrap(), [0.0, 1.0]);
        assert!(numbers(&BERNOULLI, &given, &[array(&[1.5f32], &[1])]).is_err());
    }

    #[test]
    fn choices_follow_the_probabilities_and_do_not_repeat_without_replacement() {
        let mut all = numbers(&CHOICE, &[("a", "5"), ("size", "(5,)"), ("replace", "0")], &[]).unwrap();
        all.sort_by(f64::total_cmp);
        assert_eq!(all, [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert!(numbers(&CHOICE, &[("a", "3"), ("size", "(5,)"), ("replace", "0")], &[]).is_err());
        assert_eq!(numbers(&CHOICE, &[("a", "1"), ("size", "None")], &[]).unwrap(), [0.0]);
        let nothing = numbers(&CHOICE, &[("a", "0"), ("size", "(0,)"), ("weighted", "1")], &[array::<f64>(&[], &[0])]);
        assert_eq!(nothing.unwrap(), []);
        let weights = array(&[0f64, 0.25, 0.75], &[3]);
        let drawn =
            numbers(&CHOICE, &[("a", "3"), ("size", "(8000,)"), ("weighted", "1")], std::slice::from_ref(&weights))
                .unwrap();
        let frequency = drawn.iter().filter(|x| **x == 2.0).count() as f64 / 8000.0;
        assert!(!drawn.contains(&0.0) && (frequency - 0.75).abs() < 0.03);
        let attrs = [("a", "None"), ("size", "(2,)"), ("weighted", "1"), ("replace", "0")];
        let mut two = numbers(&CHOICE, &attrs, &[array(&[9f32; 3], &[3]), weights]).unwrap();
        two.sort_by(f64::total_cmp);
        assert_eq!(two, [1.0, 2.0]);
    }

    #[test]
    fn multinomial_counts_add_up_to_the_number_of_trials() {
        let counts = numbers(&MULTINOMIAL, &[("n", "1000"), ("pvals", "(0.2, 0.8)"), ("size", "(3,)")], &[]).unwrap();
        for pair in counts.chunks(2) {
            assert_eq!(pair[0] + pair[1], 1000.0);
            assert!((pair[0] - 200.0).abs() < 60.0);
        }
        assert_eq!(numbers(&MULTINOMIAL, &[("n", "7")], &[array(&[1f64, 0.0], &[2])]).unwrap(), [7.0, 0.0]);
        assert!(numbers(&MULTINOMIAL, &[("n", "7"), ("pvals", "(0.9, 0.9, 0)")], &[]).is_err());
    }
}
