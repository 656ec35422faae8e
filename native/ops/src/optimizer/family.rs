//! Update rules of optimizers. A rule is one formula, which generic kernels apply to a weight, its gradient and its states in a single
//! pass over memory.

use ferromx_core::dispatch;
use ferromx_core::dtype::{DType, Element};
use ferromx_core::error::Result;
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::OpCtx;
use ferromx_core::params::{OpParams, Params};
use ferromx_core::storage::{In, Out};
use ferromx_kernels::map::{Lane, Load, Store};
use ferromx_kernels::math::{self, MathFloat};
use ferromx_kernels::update::{Step, update_all};
use smallvec::SmallVec;

/// The update rule of an optimizer. It computes the new values of `S` arrays, the weight and then the states, from the gradient and `K`
/// scalars that are derived from the parameters.
pub(super) trait Rule<const K: usize, const S: usize> {
    /// The parameters of the step on one weight.
    type Params;
    /// The scalars of [`Rule::step`].
    fn scalars(p: &Self::Params) -> [f64; K];
    /// The new weight and states of one element.
    fn step<C: MathFloat>(scalars: [C; K], state: [C; S], grad: [C; 1]) -> [C; S];
}

/// The bound of a clipping parameter: a negative number means no bound.
pub(super) fn bound(clip: f32) -> f32 {
    if clip >= 0.0 { clip } else { f32::INFINITY }
}

/// The divisor `1 - beta^t` that corrects the bias of a moving mean after `t` steps.
pub(super) fn bias_correction(beta: f32, t: i64) -> f64 {
    1.0 - math::pow(f64::from(beta), t as f64)
}

/// The sign of `x`: 1, 0 or -1, and 0 for NaN.
#[inline(always)]
pub(super) fn sign<C: MathFloat>(x: C) -> C {
    if x > C::ZERO {
        C::ONE
    } else if x < C::ZERO {
        -C::ONE
    } else {
        C::ZERO
    }
}

/// One step on one weight. The new weight is written to the output, which may share memory with the weight.
pub(super) fn kernel<R: Rule<K, S>, const K: usize, const S: usize>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()>
where
    R::Params: OpParams,
{
    let scalars = R::scalars(ctx.params());
    steps::<R, K, S>(ctx, ins, outs, 1, |_| scalars)
}

/// Like [`kernel`], in mixed precision; see [`mixed_steps`].
pub(super) fn mixed_kernel<R: Rule<K, S>, const K: usize, const S: usize>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()>
where
    R::Params: OpParams,
{
    let scalars = R::scalars(ctx.params());
    mixed_steps::<R, K, S>(ctx, ins, outs, 1, |_| scalars)
}

/// One step on each of several weights. The inputs are a weight, its gradient and its states, for one weight after the other. A weight
/// whose output is not wanted is skipped.
pub(super) fn steps<R: Rule<K, S>, const K: usize, const S: usize>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
    num_weights: usize,
    scalars: impl Fn(usize) -> [f64; K],
) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, half::f16] => {
        full_steps::<R, T, f32, K, S>(ins, outs, num_weights, scalars)
    }, d => dispatch!(d, T in [f64] => {
        full_steps::<R, T, f64, K, S>(ins, outs, num_weights, scalars)
    }, d => Err(ctx.unsupported(d, DType::FLOATS))))
}

fn full_steps<R: Rule<K, S>, T, C, const K: usize, const S: usize>(
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
    num_weights: usize,
    scalars: impl Fn(usize) -> [f64; K],
) -> Result<()>
where
    T: Element + Load<C> + Store<C>,
    C: Lane + MathFloat,
{
    let (weights, states) = outs.split_at_mut(num_weights);
    let mut states = states.iter_mut();
    let steps = weights.iter_mut().enumerate().map(|(i, out)| {
        let weight_states = states.by_ref().take(S - 1).collect::<SmallVec<[_; 4]>>();
        if !out.wanted() {
            return Ok(None);
        }
        let (weight, grad) = (&ins[i * (S + 1)], &ins[i * (S + 1) + 1]);
        Ok(Some(Step {
            state: slices::<T, S>(std::iter::once(out).chain(weight_states))?,
            origin: if weight.shared_with().is_none() { weight.slice()? } else { &[] },
            rounded: &mut [] as &mut [T],
            inputs: [grad.slice::<T>()?],
            params: scalars(i).map(C::of),
        }))
    });
    update_all(steps.filter_map(Result::transpose), R::step::<C>)
}

/// Like [`steps`], in mixed precision: the last state of a weight is its copy in single precision, which is updated and rounded to the
/// output.
pub(super) fn mixed_steps<R: Rule<K, S>, const K: usize, const S: usize>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
    num_weights: usize,
    scalars: impl Fn(usize) -> [f64; K],
) -> Result<()> {
    let (weights, states) = outs.split_at_mut(num_weights);
    let mut states = states.iter_mut();
    dispatch!(ins[0].dtype(), T in [f32, f64, half::f16] => {
        let steps = weights.iter_mut().enumerate().map(|(i, out)| {
            let mut state = slices::<f32, S>(states.by_ref().take(S))?;
            state.rotate_right(1);
            Ok(Step {
                state,
                origin: &[],
                rounded: if out.wanted() { out.slice_mut::<T>()? } else { &mut [] },
                inputs: [ins[i * (S + 2) + 1].slice::<T>()?],
                params: scalars(i).map(|x| x as f32),
            })
        });
        update_all(steps, R::step::<f32>)
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

/// The elements of `S` outputs.
pub(super) fn slices<'s, 'o: 's, T: Element, const S: usize>(
    outs: impl IntoIterator<Item = &'s mut Out<'o>>,
) -> Result<[&'s mut [T]; S]> {
    let mut slices = std::array::from_fn(|_| Default::default());
    for (slice, out) in slices.iter_mut().zip(outs) {
        *slice = out.slice_mut()?;
    }
    Ok(slices)
}

/// Type rule: weight, gradient and output have one type; the states are in single precision.
pub(super) fn mixed_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    (2..io.ins.len()).try_for_each(|i| io.assign_in(i, DType::F32))?;
    match io.ins[0].or(io.ins[1]).or(io.outs[0]) {
        Some(d) => {
            io.assign_in(0, d)?;
            io.assign_in(1, d)?;
            io.assign_out(0, d)
        }
        None => Ok(()),
    }
}

/// Declares the parameters of an optimizer in MXNet's order: `lr`, some of its own, those that all optimizers share, the rest of its own.
macro_rules! step_params {
    ($(#[$meta:meta])* $name:ident { $($own:tt)* } $({ $($tail:tt)* })?) => {
        ferromx_core::params! {
            $(#[$meta])*
            pub struct $name {
                /// The learning rate.
                lr: f32 = required;
                $($own)*
                /// Weight decay: wd * weight is added to the gradient.
                wd: f32 = 0.0;
                /// The gradient is multiplied by this before clipping.
                rescale_grad: f32 = 1.0;
                /// The rescaled gradient is clipped to [-clip_gradient, clip_gradient]; a negative number disables clipping.
                clip_gradient: f32 = (-1.0);
                $($($tail)*)?
            }
        }
    };
}
pub(crate) use step_params;

/// The input indices of the states, which follow weight and gradient.
pub(super) const STATES: &[usize] = &[2, 3, 4, 5];

/// Defines the [`Rule`] of an optimizer from its formula.
///
/// ```text
/// rule!(Sgd, SgdParam, states [], scalars |p| [lr = p.lr, wd = p.wd], |weight, grad| [weight - lr * (grad + wd * weight)]);
/// ```
/// `scalars` names values that are derived from the parameters. The formula returns the new weight, then the new states in the order of
/// `states`. `C` is the type of all its values.
macro_rules! rule {
    ($Rule:ident, $P:ty, states [$($state:ident),*], scalars |$p:ident| [$($number:ident = $value:expr),* $(,)?],
     |$weight:ident, $grad:ident| $formula:expr) => {
        pub(super) enum $Rule {}

        impl family::Rule<{ [$(stringify!($number)),*].len() }, { ["", $(stringify!($state)),*].len() }> for $Rule {
            type Params = $P;

            fn scalars($p: &$P) -> [f64; { [$(stringify!($number)),*].len() }] {
                [$(f64::from($value)),*]
            }

            #[inline(always)]
            fn step<C: MathFloat>(
                scalars: [C; { [$(stringify!($number)),*].len() }],
                state: [C; { ["", $(stringify!($state)),*].len() }],
                grad: [C; 1],
            ) -> [C; { ["", $(stringify!($state)),*].len() }] {
                let [$($number),*] = scalars;
                let [$weight, $($state),*] = state;
                let [$grad] = grad;
                $formula
            }
        }
    };
}
pub(crate) use rule;

/// Defines an optimizer operator on one weight from its formula; see [`rule!`]. `sparse` is the storage rule of the lazy update, which
/// changes only the rows that a sparse gradient stores.
macro_rules! step {
    ($name:ident: $Rule:ident, $op:literal $([$($alias:literal),+])?, $doc:expr, $P:ty,
     states [$($state:ident = $state_doc:literal),*], scalars |$p:ident| [$($number:ident = $value:expr),* $(,)?],
     |$weight:ident, $grad:ident| $formula:expr $(, sparse = $sparse:expr)?) => {
        family::rule!($Rule, $P, states [$($state),*], scalars |$p| [$($number = $value),*], |$weight, $grad| $formula);

        pub(crate) static $name: ferromx_core::op::Operator<$P> = ferromx_core::op::Operator::new($op)
            $(.aliases(&[$($alias),+]))?
            .doc($doc)
            .inputs(&[arg("weight", "The weight."), arg("grad", "Its gradient."), $(arg(stringify!($state), $state_doc)),*])
            .mutates(family::STATES.split_at(["", $(stringify!($state)),*].len() - 1).0)
            .forward(
                family::kernel::<
                    $Rule,
                    { [$(stringify!($number)),*].len() },
                    { ["", $(stringify!($state)),*].len() },
                >,
            )
            .inplace(&[(0, 0)])
            $(.sparse($sparse, crate::sparse::lazy_update))?;
    };
}
pub(crate) use step;

/// Defines the operator of a rule in mixed precision, which has a copy of the weight in single precision as its last state.
macro_rules! mixed_step {
    ($name:ident: $Rule:ident<$K:literal, $S:literal>, $op:literal, $of:literal, $P:ty,
     states [$($state:ident = $state_doc:literal),*]) => {
        pub(crate) static $name: ferromx_core::op::Operator<$P> = ferromx_core::op::Operator::new($op)
            .doc(concat!(
                $of,
                " for a weight in half precision: updates the copy in single precision and rounds it to the output."
            ))
            .inputs(&[
                arg("weight", "The weight, of any floating-point type."),
                arg("grad", "Its gradient."),
                $(arg(stringify!($state), $state_doc),)*
                arg("weight32", "The weight in single precision."),
            ])
            .dtype(family::mixed_dtype)
            .mutates(family::STATES.split_at($S).0)
            .forward(family::mixed_kernel::<$Rule, $K, $S>)
            .inplace(&[(0, 0)]);
    };
}
pub(crate) use mixed_step;
