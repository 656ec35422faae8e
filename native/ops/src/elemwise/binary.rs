//! Arithmetic, comparison and logic of two arrays of one shape, and sums of any number of them.

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Compose, Entry, Grad, GradNode};
use ferromx_core::infer::same_shape;
use ferromx_core::op::{ArgDef, Deps, OpCtx, Operation, Operator, arg};
use ferromx_core::storage::{In, Out};
use ferromx_kernels::{lane_fn, zip};

use super::family::{self, Arg, apply_two, binary, operators, src};
use super::formulas::*;
use crate::compose::{Graph, op};
use crate::num_args::NumArgs;

/// The arguments of operators of two arrays.
pub(super) const LHS_RHS: &[ArgDef] =
    &[arg("lhs", "The first array."), arg("rhs", "The second array, of the same shape and type.")];

operators! { OPS [GRAD_ADD, ADD_N] =
    binary!(ADD names_outputs sparse(merged_rule, merged): "elemwise_add" ["_Plus", "_add", "_plus", "_sparse_elemwise_add"],
        "The sum, element by element: lhs + rhs.",
        Add, graph = |_g, n| (n.ograds[0], n.ograds[0]));
    binary!(SUB sparse(merged_rule, merged): "elemwise_sub" ["_Minus", "_minus", "_sparse_elemwise_sub", "_sub"],
        "The difference, element by element: lhs - rhs.",
        Sub, graph = |g, n| (n.ograds[0], g.op(op!(elemwise::unary::NEGATIVE(n.ograds[0])))?));
    binary!(MUL dense_gradients sparse(product_rule, product): "elemwise_mul" ["_Mul", "_mul", "_sparse_elemwise_mul"],
        "The product, element by element: lhs * rhs.",
        Mul, graph = |g, n| (g.mul(n.ograds[0], n.inputs[1])?, g.mul(n.ograds[0], n.inputs[0])?));
    binary!(DIV: "elemwise_div" ["_Div", "_div", "_sparse_elemwise_div"],
        "The quotient, element by element: lhs / rhs. Integers are truncated; integer division by 0 gives 0.",
        Div, df = (DivA, DivB), graph = |g, n| {
            let d = g.div(n.ograds[0], n.inputs[1])?;
            let minus = g.op(op!(elemwise::unary::NEGATIVE(d)))?;
            (d, g.mul(minus, n.outputs[0])?)
        });
    binary!(SCATTER_DIV sparse(scatter_rule, each_stored): "_scatter_elemwise_div",
        "The quotient, element by element: lhs / rhs; for a sparse lhs only its stored elements, so that the result has its sparsity.",
        Div, df = (DivA, DivB), graph = |g, n| {
            let d = g.div(n.ograds[0], n.inputs[1])?;
            let minus = g.op(op!(elemwise::unary::NEGATIVE(d)))?;
            (d, g.mul(minus, n.outputs[0])?)
        });
    binary!(MOD: "_mod" ["_Mod"],
        "The remainder of lhs / rhs with the sign of rhs, as in Python; 0 where rhs is 0. The gradient takes the integer quotient \
         as constant.",
        Mod, df = (ModA, ModB), graph = |g, n| {
            let q = g.div(n.inputs[0], n.inputs[1])?;
            let q = g.op(op!(elemwise::unary::FLOOR(q)))?;
            let d = g.mul(n.ograds[0], q)?;
            (n.ograds[0], g.op(op!(elemwise::unary::NEGATIVE(d)))?)
        });
    binary!(POWER: "_power" ["_Power"], "lhs to the power rhs, element by element.",
        Power, df = (PowerA, PowerB), graph = |g, n| {
            let exponent = g.affine(n.inputs[1], 1.0, -1.0)?;
            let p = g.op(op!(POWER(n.inputs[0], exponent)))?;
            let da = g.mul(p, n.inputs[1])?;
            let log = g.op(op!(elemwise::unary::LOG(n.inputs[0])))?;
            let db = g.mul(n.outputs[0], log)?;
            (g.mul(n.ograds[0], da)?, g.mul(n.ograds[0], db)?)
        });
    binary!(HYPOT sparse(merged_rule, merged): "_hypot" ["_Hypot"], "The hypotenuse sqrt(lhs^2 + rhs^2).",
        Hypot, df = (HypotA, HypotB), graph = |g, n| {
            let d = g.div(n.ograds[0], n.outputs[0])?;
            (g.mul(d, n.inputs[0])?, g.mul(d, n.inputs[1])?)
        });
    binary!(MAXIMUM sparse(merged_rule, merged): "_maximum" ["_Maximum"],
        "The larger element of the two, NaN if one is NaN. Where they are equal, the gradient goes to lhs.",
        Maximum, df = (MaximumA, MaximumB), graph = |g, n| {
            let (lhs, rhs) = (op!(GREATER_EQUAL(n.inputs[0], n.inputs[1])), op!(LESSER(n.inputs[0], n.inputs[1])));
            masked_gradients(g, n, lhs, rhs)?
        });
    binary!(MINIMUM sparse(merged_rule, merged): "_minimum" ["_Minimum"],
        "The smaller element of the two, NaN if one is NaN. Where they are equal, the gradient goes to lhs.",
        Minimum, df = (MinimumA, MinimumB), graph = |g, n| {
            let (lhs, rhs) = (op!(LESSER_EQUAL(n.inputs[0], n.inputs[1])), op!(GREATER(n.inputs[0], n.inputs[1])));
            masked_gradients(g, n, lhs, rhs)?
        });
    binary!(EQUAL: "_equal" ["_Equal"], "1 where the elements are equal, else 0.", Equal, df = 0);
    binary!(NOT_EQUAL: "_not_equal" ["_Not_Equal"], "1 where the elements differ, else 0.", NotEqual, df = 0);
    binary!(GREATER: "_greater" ["_Greater"], "1 where lhs > rhs, else 0.", Greater, df = 0);
    binary!(GREATER_EQUAL: "_greater_equal" ["_Greater_Equal"], "1 where lhs >= rhs, else 0.", GreaterEqual, df = 0);
    binary!(LESSER: "_lesser" ["_Lesser"], "1 where lhs < rhs, else 0.", Lesser, df = 0);
    binary!(LESSER_EQUAL: "_lesser_equal" ["_Lesser_Equal"], "1 where lhs <= rhs, else 0.", LesserEqual, df = 0);
    binary!(AND: "_logical_and" ["_Logical_And"], "1 where both elements are not 0, else 0.", And, df = 0);
    binary!(OR: "_logical_or" ["_Logical_Or"], "1 where at least one element is not 0, else 0.", Or, df = 0);
    binary!(XOR: "_logical_xor" ["_Logical_Xor"], "1 where exactly one element is not 0, else 0.", Xor, df = 0);
}

/// The gradient of a maximum or minimum: it goes to lhs where the comparison `lhs` holds, to rhs where `rhs` holds.
fn masked_gradients(
    g: &mut Graph<'_>,
    n: &GradNode<'_>,
    lhs: Operation<Entry, String>,
    rhs: Operation<Entry, String>,
) -> Result<(Entry, Entry)> {
    let (a, b) = (g.op(lhs)?, g.op(rhs)?);
    Ok((g.mul(n.ograds[0], a)?, g.mul(n.ograds[0], b)?))
}

pub(super) static GRAD_ADD: Operator = Operator::new("_grad_add")
    .doc("The sum of two gradients of one array: lhs + rhs. The sum of truth values is true if one of them is.")
    .inputs(LHS_RHS)
    .forward(grad_add)
    .sparse(crate::sparse::merged_rule, crate::sparse::merged)
    .grad(Grad::Compose(|_, n| Ok(vec![Some(n.ograds[0]); 2])))
    .inplace(&[(0, 0), (1, 0)])
    .pointwise()
    .consists_of_loops();

fn grad_add(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    if outs[0].dtype() != DType::Bool {
        return family::binary_kernel::<Add>(ctx, ins, outs);
    }
    let or = lane_fn!(|x: i32, y: i32| -> i32 { x | y });
    zip::zip(src::<bool>(&ins[0])?, src::<bool>(&ins[1])?, outs[0].slice_mut::<bool>()?, or);
    Ok(())
}

pub(crate) static ADD_N: Operator<NumArgs> = Operator::new("add_n")
    .aliases(&["ElementWiseSum", "_sparse_ElementWiseSum", "_sparse_add_n"])
    .doc("The sum of all inputs, element by element. They have one shape and type.")
    .variadic("args", "The arrays to add.", "num_args")
    .shape(|p, io| {
        ensure!(
            !io.ins.is_empty(),
            "value 0 for Parameter num_args should be greater equal to 1: there is no array to add"
        );
        same_shape(p, io)
    })
    .forward(add_n)
    .sparse(crate::sparse::merged_rows_rule, crate::sparse::merged)
    .grad(Grad::Compose(|_, n| Ok(vec![Some(n.ograds[0]); n.inputs.len()])))
    .inplace(&[(0, 0)])
    .pointwise();

fn add_n(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let out = &mut outs[0];
    match ins {
        [] => out.bytes_mut()?.fill(0),
        [one] if one.shared_with().is_some() => {}
        [one] => out.bytes_mut()?.copy_from_slice(one.bytes()?),
        [a, b, rest @ ..] => {
            apply_two::<Add>(ctx, Arg::Array(a), Arg::Array(b), out)?;
            for x in rest {
                apply_two::<Add>(ctx, Arg::Output, Arg::Array(x), out)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ferromx_core::op::OpDef;

    use super::*;
    use crate::testing::{Case, array, close, vector};

    #[test]
    fn gradients_of_truth_values_are_true_where_one_is() {
        let vector = |x: &[bool]| array(x, &[x.len() as i64]);
        let (a, b) = (vector(&[true, true, false, false]), vector(&[true, false, true, false]));
        let y = Case::new(&GRAD_ADD, &[]).run1(&[a, b]).unwrap();
        assert_eq!(y.to_vec::<bool>().unwrap(), [true, true, true, false]);
    }

    #[test]
    fn a_sum_of_no_arrays_and_unknown_parameters_are_refused() {
        let no_arrays = Case::new(&ADD_N, &[("num_args", "0")]).run(&[]).unwrap_err().to_string();
        assert!(no_arrays.contains("value 0 for Parameter num_args should be greater equal to 1"), "{no_arrays}");
        let attrs = [("axis".into(), "1".into())].into_iter().collect();
        let unknown = ADD_N.parse(&attrs).unwrap_err().to_string();
        assert!(unknown.contains("Cannot find argument 'axis', Possible Arguments: num_args"), "{unknown}");
    }

    fn run(def: &'static OpDef, dtype: DType, a: &[f64], b: &[f64]) -> Vec<f64> {
        let y = Case::new(def, &[]).run1(&[vector(dtype, a), vector(dtype, b)]).unwrap();
        assert_eq!(y.dtype(), dtype);
        y.to_vec_as().unwrap()
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        for def in OPS {
            let (a, b) = (vector(DType::F64, &[0.7, 1.9, 5.3]), vector(DType::F64, &[1.2, 0.4, 2.0]));
            Case::new(def, &[("num_args", "2")][..usize::from(def.key_var_num_args() != "")]).check_gradient(&[a, b]);
        }
    }

    #[test]
    fn integers_are_exact_and_division_by_zero_is_zero() {
        assert_eq!(run(&DIV, DType::I32, &[7.0, -7.0, 5.0], &[2.0, 2.0, 0.0]), [3.0, -3.0, 0.0]);
        assert_eq!(
            run(&MOD, DType::I32, &[5.0, -5.0, 5.0, -5.0, 1.0], &[2.0, 2.0, -2.0, -2.0, 0.0]),
            [1.0, 1.0, -1.0, -1.0, 0.0]
        );
        assert_eq!(run(&MUL, DType::U8, &[200.0], &[3.0]), [88.0]);
        let big = (1i64 << 60) + 1;
        let sum = Case::new(&ADD, &[]).run1(&[array(&[big], &[1]), array(&[2i64], &[1])]).unwrap();
        assert_eq!(sum.to_vec::<i64>().unwrap(), [big + 2]);
        let smallest = Case::new(&DIV, &[]).run1(&[array(&[i32::MIN], &[1]), array(&[-1], &[1])]).unwrap();
        assert_eq!(smallest.to_vec::<i32>().unwrap(), [i32::MIN]);
    }

    #[test]
    fn special_values_match_mxnet() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        close(&run(&MAXIMUM, DType::F32, &[nan, 1.0, 2.0], &[1.0, nan, 1.0]), &[nan, nan, 2.0], 0.0);
        close(&run(&MINIMUM, DType::F32, &[nan, 1.0, 2.0], &[1.0, nan, 1.0]), &[nan, nan, 1.0], 0.0);
        close(
            &run(&MOD, DType::F32, &[5.5, -5.5, 5.5, -5.5, 1.0], &[2.0, 2.0, -2.0, -2.0, 0.0]),
            &[1.5, 0.5, -0.5, -1.5, 0.0],
            0.0,
        );
        close(&run(&MOD, DType::F32, &[5.0, -5.0, inf], &[inf, inf, 2.0]), &[5.0, inf, nan], 0.0);
        close(&run(&HYPOT, DType::F32, &[3e30, 0.0, inf], &[4e30, 0.0, 1.0]), &[5e30, 0.0, inf], 1e-6);
        close(&run(&EQUAL, DType::F32, &[nan, 1.0], &[nan, 1.0]), &[0.0, 1.0], 0.0);
    }

    #[test]
    fn any_number_of_arrays_is_added() {
        let x = |v: f64| vector(DType::F32, &[v, 2.0 * v]);
        let sum = |ins: &[f64]| {
            let ins: Vec<_> = ins.iter().map(|v| x(*v)).collect();
            Case::new(&ADD_N, &[("num_args", &ins.len().to_string())]).run1(&ins).unwrap().to_vec::<f32>().unwrap()
        };
        assert_eq!(sum(&[1.0]), [1.0, 2.0]);
        assert_eq!(sum(&[1.0, 10.0, 100.0, 1000.0]), [1111.0, 2222.0]);
    }

    #[test]
    fn types_must_agree() {
        let e = Case::new(&ADD, &[]).dtypes(&[Some(DType::F32), Some(DType::I32)]).unwrap_err().to_string();
        assert!(e.contains("Provided=int32, inferred type=float32"), "{e}");
    }
}
