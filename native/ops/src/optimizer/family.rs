//! What optimizer steps are made of: a formula per operator, written once, and the kernels that apply it to a weight, its gradient
//! and its states in a single pass.

use ferromx_core::dispatch;
use ferromx_core::dtype::{DType, Element};
use ferromx_core::error::Result;
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::OpCtx;
use ferromx_core::params::{OpParams, Params};
use ferromx_core::storage::{In, Out};
use ferromx_kernels::map::{Lane, Load, Store};
use ferromx_kernels::math::Real;
use ferromx_kernels::update::{Step, update_all};
use smallvec::SmallVec;

/// One step of an optimizer: from `K` numbers, which come from the parameters, and the gradient to new values of `S` arrays, the
/// weight and then the states.
pub trait Rule<const K: usize, const S: usize> {
    /// What the numbers are made from: the operator's parameters, or those of one weight of several.
    type Params;
    /// The numbers of [`Rule::step`].
    fn numbers(p: &Self::Params) -> [f64; K];
    /// New weight and states of one element.
    fn step<C: Real>(numbers: [C; K], state: [C; S], grad: [C; 1]) -> [C; S];
}

/// The bound on the gradient that `clip_gradient` stands for: a negative one means none.
pub fn bound(clip: f32) -> f32 {
    if clip >= 0.0 { clip } else { f32::INFINITY }
}

/// `x` limited to [-bound, bound]; a NaN stays one.
#[inline(always)]
pub fn clip<C: Real>(x: C, bound: C) -> C {
    if x > bound {
        bound
    } else if x < -bound {
        -bound
    } else {
        x
    }
}

/// 1, 0 or -1.
#[inline(always)]
pub fn sign<C: Real>(x: C) -> C {
    if x > C::ZERO {
        C::ONE
    } else if x < C::ZERO {
        -C::ONE
    } else {
        C::ZERO
    }
}

/// One step on one weight. The output, which may be the weight's own memory, gets the new weight.
pub fn kernel<R: Rule<K, S>, const K: usize, const S: usize>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()>
where
    R::Params: OpParams,
{
    let numbers = R::numbers(ctx.params());
    steps::<R, K, S>(ctx, ins, outs, 1, |_| numbers)
}

/// [`kernel`] for the operands of [`mixed_steps`].
pub fn mixed_kernel<R: Rule<K, S>, const K: usize, const S: usize>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()>
where
    R::Params: OpParams,
{
    let numbers = R::numbers(ctx.params());
    mixed_steps::<R, K, S>(ctx, ins, outs, 1, |_| numbers)
}

/// One step on each of `count` weights, for inputs that are the weight, its gradient and its states, one weight after the other.
/// A weight is left alone where nobody wants the result.
pub fn steps<R: Rule<K, S>, const K: usize, const S: usize>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
    count: usize,
    numbers: impl Fn(usize) -> [f64; K],
) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, half::f16] => {
        full_steps::<R, T, f32, K, S>(ins, outs, count, numbers)
    }, d => dispatch!(d, T in [f64] => {
        full_steps::<R, T, f64, K, S>(ins, outs, count, numbers)
    }, d => Err(ctx.unsupported(d, DType::FLOATS))))
}

fn full_steps<R: Rule<K, S>, T, C, const K: usize, const S: usize>(
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
    count: usize,
    numbers: impl Fn(usize) -> [f64; K],
) -> Result<()>
where
    T: Element + Load<C> + Store<C>,
    C: Lane + Real,
{
    let (weights, states) = outs.split_at_mut(count);
    let mut states = states.iter_mut();
    let steps = weights.iter_mut().enumerate().map(|(i, out)| {
        let own = states.by_ref().take(S - 1).collect::<SmallVec<[_; 4]>>();
        if !out.wanted() {
            return Ok(None);
        }
        let (weight, grad) = (&ins[i * (S + 1)], &ins[i * (S + 1) + 1]);
        Ok(Some(Step {
            state: slices::<T, S>(std::iter::once(out).chain(own))?,
            origin: if weight.shared_with().is_none() { weight.slice()? } else { &[] },
            rounded: &mut [] as &mut [T],
            inputs: [grad.slice::<T>()?],
            params: numbers(i).map(C::of),
        }))
    });
    update_all(steps.filter_map(Result::transpose), R::step::<C>)
}

/// [`steps`] in single precision for weights of a smaller type: the last state of each is the weight in single precision, from
/// which the output is rounded.
pub fn mixed_steps<R: Rule<K, S>, const K: usize, const S: usize>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
    count: usize,
    numbers: impl Fn(usize) -> [f64; K],
) -> Result<()> {
    let (weights, states) = outs.split_at_mut(count);
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
                params: numbers(i).map(|x| x as f32),
            })
        });
        update_all(steps, R::step::<f32>)
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

/// The elements of `S` operands.
pub fn slices<'s, 'o: 's, T: Element, const S: usize>(
    outs: impl IntoIterator<Item = &'s mut Out<'o>>,
) -> Result<[&'s mut [T]; S]> {
    let mut slices = std::array::from_fn(|_| Default::default());
    for (slice, out) in slices.iter_mut().zip(outs) {
        *slice = out.slice_mut()?;
    }
    Ok(slices)
}

/// Weight, gradient and output have one type, the states are in single precision.
pub fn mixed_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
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

/// Declares the parameters of an optimizer step: the learning rate, its own, those that all have, and more of its own.
macro_rules! step_params {
    ($(#[$meta:meta])* $name:ident { $($own:tt)* } $({ $($tail:tt)* })?) => {
        ferromx_core::params! {
            $(#[$meta])*
            pub struct $name {
                /// The learning rate.
                lr: f32 = required;
                $($own)*
                /// Weight decay: this multiple of the weight is added to the gradient.
                wd: f32 = 0.0;
                /// The gradient is multiplied by this first.
                rescale_grad: f32 = 1.0;
                /// The elements of the rescaled gradient are limited to [-clip_gradient, clip_gradient]; not if it is negative.
                clip_gradient: f32 = (-1.0);
                $($($tail)*)?
            }
        }
    };
}
pub(crate) use step_params;

/// The indices of states: all inputs after weight and gradient.
pub const STATES: &[usize] = &[2, 3, 4, 5];

/// Defines the [`Rule`] of an optimizer from its formula.
///
/// ```text
/// rule!(Sgd, SgdParam, states [], numbers |p| [lr = p.lr, wd = p.wd], |weight, grad| [weight - lr * (grad + wd * weight)]);
/// ```
/// `numbers` names values made from the parameters; the formula, in which `C` is the type of all numbers, gives the new weight and
/// the new states in the order in which they are listed.
macro_rules! rule {
    ($Rule:ident, $P:ty, states [$($state:ident),*], numbers |$p:ident| [$($number:ident = $value:expr),* $(,)?],
     |$weight:ident, $grad:ident| $formula:expr) => {
        pub(super) enum $Rule {}

        impl family::Rule<{ [$(stringify!($number)),*].len() }, { ["", $(stringify!($state)),*].len() }> for $Rule {
            type Params = $P;

            fn numbers($p: &$P) -> [f64; { [$(stringify!($number)),*].len() }] {
                [$(f64::from($value)),*]
            }

            #[inline(always)]
            fn step<C: Real>(
                numbers: [C; { [$(stringify!($number)),*].len() }],
                state: [C; { ["", $(stringify!($state)),*].len() }],
                grad: [C; 1],
            ) -> [C; { ["", $(stringify!($state)),*].len() }] {
                let [$($number),*] = numbers;
                let [$weight, $($state),*] = state;
                let [$grad] = grad;
                $formula
            }
        }
    };
}
pub(crate) use rule;

/// Defines an optimizer step, an operator on one weight, from its formula; see [`rule!`]. `sparse` tells for which storage types
/// only the rows of the gradient change.
macro_rules! step {
    ($name:ident: $Rule:ident, $op:literal $([$($alias:literal),+])?, $doc:expr, $P:ty,
     states [$($state:ident = $state_doc:literal),*], numbers |$p:ident| [$($number:ident = $value:expr),* $(,)?],
     |$weight:ident, $grad:ident| $formula:expr $(, sparse = $sparse:expr)?) => {
        family::rule!($Rule, $P, states [$($state),*], numbers |$p| [$($number = $value),*], |$weight, $grad| $formula);

        pub static $name: OpDef = OpDef::new($op)
            $(.aliases(&[$($alias),+]))?
            .doc($doc)
            .inputs(&[arg("weight", "The weight."), arg("grad", "Its gradient."), $(arg(stringify!($state), $state_doc)),*])
            .params::<$P>()
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

/// Defines the step of a rule for a weight of a smaller type that has a copy in single precision.
macro_rules! mixed_step {
    ($name:ident: $Rule:ident<$K:literal, $S:literal>, $op:literal, $of:literal, $P:ty,
     states [$($state:ident = $state_doc:literal),*]) => {
        pub static $name: OpDef = OpDef::new($op)
            .doc(concat!(
                $of,
                " for a weight in half precision: it changes a copy in single precision, of which the output is the rounding."
            ))
            .inputs(&[
                arg("weight", "The weight, of any floating-point type."),
                arg("grad", "Its gradient."),
                $(arg(stringify!($state), $state_doc),)*
                arg("weight32", "The weight in single precision."),
            ])
            .params::<$P>()
            .dtype(family::mixed_dtype)
            .mutates(family::STATES.split_at($S).0)
            .forward(family::mixed_kernel::<$Rule, $K, $S>)
            .inplace(&[(0, 0)]);
    };
}
pub(crate) use mixed_step;
