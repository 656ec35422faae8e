//! `any` and `all` over axes, and `_npx_constraint_check`, an error unless all elements are true.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::grad::Grad;
use ferromx_core::op::{AnyOperator, Operator, arg};
use ferromx_core::params::ShapeOrNone;
use ferromx_core::shape::Shape;
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::map::Arith;
use ferromx_kernels::reduce::{self, NumericLane, Reducer};

use super::family::{numpy_reduced_shape, over_axes};
use super::sums::numpy_axes_of;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&ANY, &ALL, &CONSTRAINT_CHECK];

params! {
    /// Parameters of `_np_any` and `_np_all`.
    pub struct LogicParam {
        /// The axes to reduce; negative ones count from the last. None means all of them, () none.
        axis: ShapeOrNone = (ShapeOrNone(None));
        /// Whether reduced axes are kept with length 1.
        keepdims: bool = false;
    }
}

over_axes!(LogicParam);

/// Defines a reducer of the flags `x != 0`: their maximum or minimum.
macro_rules! logic {
    ($($(#[$doc:meta])* $name:ident: $identity:ident, |$a:ident, $b:ident| $merge:expr;)*) => {$(
        $(#[$doc])*
        struct $name;
        impl<C: NumericLane> Reducer<C> for $name {
            const IDENTITY: C = C::$identity;
            #[inline(always)]
            fn map(x: C) -> C {
                if x == C::ZERO { C::ZERO } else { C::ONE }
            }
            #[inline(always)]
            fn merge($a: C, $b: C) -> C {
                $merge
            }
            #[inline(always)]
            fn finish(x: C, _: C) -> C {
                x
            }
        }
    )*};
}

logic! {
    /// Whether any element is not 0.
    Any: ZERO, |a, b| if a > b { a } else { b };
    /// Whether no element is 0.
    All: ONE, |a, b| if a < b { a } else { b };
}

pub(super) static ANY: Operator<LogicParam> = logic_op::<Any>(
    "_np_any",
    "Whether any of the elements over axes is not 0, as bool; false if there are no elements.",
)
.aliases(&["_np_sometrue"]);

pub(super) static ALL: Operator<LogicParam> =
    logic_op::<All>("_np_all", "Whether none of the elements over axes is 0, as bool; true if there are no elements.");

const fn logic_op<R>(name: &'static str, doc: &'static str) -> Operator<LogicParam>
where
    R: Reducer<f32> + Reducer<f64> + Reducer<i32> + Reducer<i64>,
{
    Operator::new(name)
        .names_data()
        .doc(doc)
        .shape(numpy_reduced_shape::<LogicParam>)
        .dtype(|_, io| io.assign_out(0, DType::Bool))
        .forward(|ctx, ins, outs| {
            let (x, out) = (&ins[0], outs[0].slice_mut::<bool>()?);
            let (shape, axes) = (x.shape().to_usize(), numpy_axes_of::<LogicParam>(ctx, x.shape())?);
            dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
                reduce::reduce::<R, T, bool, <T as Arith>::Lane>(x.slice()?, &shape, &axes, out);
                Ok(())
            }, d => Err(ctx.unsupported(d, &DType::ALL)))
        })
        .grad(Grad::Zero)
}

params! {
    /// Parameters of `_npx_constraint_check`.
    pub struct ConstraintParam {
        /// The message of the error.
        msg: String = ("Constraint violated.".to_string());
    }
}

pub(super) static CONSTRAINT_CHECK: Operator<ConstraintParam> = Operator::new("_npx_constraint_check")
    .doc("True if all elements are true; otherwise an error with the given message.")
    .inputs(&[arg("input", "An array of type bool.")])
    .shape(|_, io| io.assign_out(0, &Shape::new(&[])))
    .dtype(|_, io| {
        io.assign_in(0, DType::Bool)?;
        io.assign_out(0, DType::Bool)
    })
    .forward(|ctx, ins, outs| {
        let holds = ins[0].slice::<bool>()?.iter().all(|x| *x);
        ensure!(holds, "ValueError: {}", ctx.params::<ConstraintParam>().msg);
        outs[0].slice_mut::<bool>()?[0] = true;
        Ok(())
    })
    .grad(Grad::Zero);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn a_violated_constraint_is_an_error_with_its_message() {
        let run = |x: &[bool]| {
            Case::new(&CONSTRAINT_CHECK, &[("msg", "no!")])
                .run1(&[array(x, &[x.len() as i64])])
                .map(|y| y.shape().clone())
        };
        assert_eq!(run(&[true, true]).unwrap(), Shape::new(&[]));
        let error = run(&[true, false]).unwrap_err().to_string();
        assert!(error.contains("ValueError: no!"), "{error}");
    }
}
