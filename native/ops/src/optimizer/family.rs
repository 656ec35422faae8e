//! What optimizer steps are made of: a formula per operator, written once, and the kernels that apply it to a weight, its gradient
//! and its states in a single pass.

use ferromx_core::dispatch;
use ferromx_core::dtype::{DType, Element};
use ferromx_core::error::Result;
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::OpCtx;
use ferromx_core::params::{OpParams, Params};
use ferromx_core::storage::{In, Out};
use ferromx_kernels::map::{self, Lane, Load, Store};
use ferromx_kernels::math::Real;
use ferromx_kernels::zip::update;

/// One step of an optimizer: from `K` numbers, which come from the parameters, and the gradient to new values of `S` arrays, the
/// weight and then the states.
pub trait Rule<const K: usize, const S: usize> {
    /// The operator's parameters.
    type Params: OpParams;
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

/// Writes the new weight to the output, which may be the weight's own memory, and changes the states.
pub fn kernel<R: Rule<K, S>, const K: usize, const S: usize>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()> {
    let numbers = R::numbers(ctx.params());
    dispatch!(ins[0].dtype(), T in [f32, half::f16] => {
        run::<R, T, f32, K, S>(numbers, ins, outs)
    }, d => dispatch!(d, T in [f64] => {
        run::<R, T, f64, K, S>(numbers, ins, outs)
    }, d => Err(ctx.unsupported(d, DType::FLOATS))))
}

fn run<R: Rule<K, S>, T, C, const K: usize, const S: usize>(
    numbers: [f64; K],
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()>
where
    T: Element + Load<C> + Store<C>,
    C: Lane + Real,
{
    if ins[0].shared_with().is_none() {
        outs[0].slice_mut::<T>()?.copy_from_slice(ins[0].slice()?);
    }
    let grad = ins[1].slice::<T>()?;
    let state = slices(outs)?;
    update(state, [grad], numbers.map(C::of), R::step::<C>);
    Ok(())
}

/// The elements of the first `S` operands.
fn slices<'s, T: Element, const S: usize>(outs: &'s mut [Out<'_>]) -> Result<[&'s mut [T]; S]> {
    let mut slices = std::array::from_fn(|_| Default::default());
    for (slice, out) in slices.iter_mut().zip(outs) {
        *slice = out.slice_mut()?;
    }
    Ok(slices)
}

/// [`kernel`] in single precision for a weight of a smaller type: the last state is the weight in single precision, from which
/// the output is rounded.
pub fn mixed_kernel<R: Rule<K, S>, const K: usize, const S: usize>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()> {
    let numbers = R::numbers(ctx.params()).map(|x| x as f32);
    let (weight, states) = outs.split_at_mut(1);
    let mut state = slices::<f32, S>(states)?;
    state.rotate_right(1);
    dispatch!(weight[0].dtype(), T in [f32, f64, half::f16] => {
        let grad = ins[1].slice::<T>()?;
        ferromx_kernels::par::with_scratch(grad.len(), |wide: &mut [f32]| {
            map::cast(grad, wide);
            update(state.each_mut().map(|s| &mut **s), [&*wide], numbers, R::step::<f32>);
        });
        map::cast(&*state[0], weight[0].slice_mut::<T>()?);
        Ok(())
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
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

/// Defines an optimizer step from its formula.
///
/// ```text
/// step!(SGD_UPDATE: Sgd, "sgd_update", "...", SgdParam, states [],
///     numbers |p| [lr = p.lr, wd = p.wd],
///     |weight, grad| [weight - lr * (grad + wd * weight)]);
/// ```
/// `numbers` names values made from the parameters; the formula, in which `C` is the type of all numbers, gives the new weight and
/// the new states in the order in which they are listed.
macro_rules! step {
    ($name:ident: $Rule:ident, $op:literal $([$($alias:literal),+])?, $doc:expr, $P:ty,
     states [$($state:ident = $state_doc:literal),*], numbers |$p:ident| [$($number:ident = $value:expr),* $(,)?],
     |$weight:ident, $grad:ident| $formula:expr) => {
        enum $Rule {}

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
            .grad(Grad::Zero)
            .inplace(&[(0, 0)]);
    };
}
pub(crate) use step;
