//! Copies, identities with special gradients, casts, and arrays of the shape of another.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo, same_shape};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{AnyOperator, ArgDef, OpCtx, Operator, SparseCall, arg, array_arg};
use ferromx_core::params::{AnyDType, NumDType, Params};
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, StorageType};
use ferromx_core::storage::{In, Out, Req, call_once};
use ferromx_core::{dispatch, params};
use ferromx_kernels::map;
use ferromx_kernels::movement;
use ferromx_kernels::quantize::round_saturated;

use super::family::{elements, elements_mut};
use crate::compose::op;
use crate::movement::{copy, zeros};
use crate::rules::PASS_BACK;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[
    &COPY,
    &NP_COPY,
    &COPY_TO,
    &CROSS_DEVICE_COPY,
    &BLOCK_GRAD,
    &MAKE_LOSS,
    &IDENTITY_LIKE,
    &CAST,
    &AMP_CAST,
    &AMP_MULTICAST,
    &ZEROS_LIKE,
    &ONES_LIKE,
    &SHAPE_ARRAY,
    &SIZE_ARRAY,
];

pub(crate) static COPY: Operator = Operator::new("_copy")
    .aliases(&["identity"])
    .doc("A copy of the input.")
    .forward(copy)
    .grad(Grad::Compose(PASS_BACK))
    .inplace(&[(0, 0)])
    .sparse(crate::sparse::keeps_zero, crate::sparse::on_values);

pub(crate) static NP_COPY: Operator = COPY.renamed("_np_copy").inputs(&[arg("a", "The array to copy.")]);

pub(crate) static CROSS_DEVICE_COPY: Operator = Operator::new("_CrossDeviceCopy")
    .names_outputs()
    .doc("A copy of the input, inserted into graphs where an array moves from one device to another.")
    .inputs(&[])
    .num_inputs_by(|_| 1)
    .input_names_by(|_| vec!["data".into()])
    .forward(copy)
    .grad(Grad::Compose(PASS_BACK));

pub(crate) static COPY_TO: Operator = Operator::new("_copyto")
    .aliases(&["_npi_copyto"])
    .doc("Copies an array into another, which may have another type and be on another device.")
    .inputs(&[array_arg("data", "The array to copy.")])
    .dtype(|_, io| match (io.ins[0], io.outs[0]) {
        (Some(dtype), None) => io.assign_out(0, dtype),
        _ => Ok(()),
    })
    .forward(cast)
    .grad(Grad::Kernel(Backward::new(cast), None))
    .sparse(|_, ins, out| (ins[0] != StorageType::Default && out == Some(ins[0])).then_some(ins[0]), cast_values);

/// Converts the stored values of a sparse array to the dtype of the output.
fn cast_values(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let a = call.ins[0].sparse()?;
    let values = a.components()?.data;
    let dtype = call.outs.first().map_or(a.dtype(), Array::dtype);
    let converted = NDArray::empty(values.shape(), dtype, values.context())?;
    call_once(&[&values], &[(&converted, Req::Write)], |ins, outs| cast(call.ctx, ins, outs))?;
    Ok(vec![a.with_values(converted)?.into()])
}

pub(crate) static BLOCK_GRAD: Operator = Operator::new("BlockGrad")
    .aliases(&["_sparse_stop_gradient", "stop_gradient"])
    .doc("A copy of the input that blocks the gradient, like a constant.")
    .forward(copy)
    .grad(Grad::Zero)
    .inplace(&[(0, 0)])
    .pointwise()
    .sparse(crate::sparse::keeps_zero, crate::sparse::on_values);

pub(crate) static MAKE_LOSS: Operator = Operator::new("make_loss")
    .aliases(&["_sparse_make_loss"])
    .doc("Makes any expression a loss: the output is the input, and its gradient is 1, regardless of the output's gradient.")
    .output_names_by(|_| vec!["loss".into()])
    .forward(copy)
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.op(op!(ONES_LIKE(n.inputs[0])))?)])))
    .inplace(&[(0, 0)])
    .sparse(crate::sparse::keeps_zero, crate::sparse::on_values);

pub(crate) static IDENTITY_LIKE: Operator = Operator::new("_identity_with_attr_like_rhs")
    .doc("A copy of lhs, which must have the shape and type of rhs; the elements of rhs are not used.")
    .inputs(&[arg("lhs", "The array to copy."), arg("rhs", "The array whose shape and type lhs has.")])
    .forward(copy)
    .grad(Grad::Compose(|_, n| Ok(vec![Some(n.ograds[0]), None])))
    .inplace(&[(0, 0)])
    .sparse(
        |_, ins, _| (ins[1] != StorageType::Default).then_some(ins[1]),
        |call| {
            Ok(vec![match &call.ins[0] {
                Array::Sparse(a) if a.storage_type() == call.storage_type => a.to_context(a.context())?.into(),
                other => crate::sparse::cast::cast(other, call.storage_type)?,
            }])
        },
    );

params! {
    /// Parameters of `Cast`.
    pub struct CastParam {
        /// The type of the result.
        dtype: AnyDType = required;
    }
}

pub(crate) static CAST: Operator<CastParam> = Operator::new("Cast")
    .aliases(&["_npi_cast", "_npx_cast", "cast"])
    .doc(
        "Converts the elements to another type. Floating-point numbers are rounded to nearest, or truncated towards zero where the \
         result is an integer; int8 and uint8 keep the low bits on overflow; bool is whether the element is not 0.",
    )
    .inputs(&[arg("data", "The array to convert.")])
    .dtype(|p, io| io.assign_out(0, p.get::<CastParam>().dtype.0))
    .forward(cast)
    .grad(Grad::Kernel(Backward::new(cast), None));

params! {
    /// Parameters of `amp_cast`.
    pub struct AmpCastParam {
        /// The type of the result.
        dtype: NumDType = required;
    }
}

pub(crate) static AMP_CAST: Operator<AmpCastParam> = Operator::new("amp_cast")
    .doc("Converts an array of type float16, bfloat16 or float32 to another type for mixed precision; arrays of other types are copied. \
          bfloat16 and float32 are converted to int8, uint8 and int32 by rounding to nearest, halves to even, with saturation.")
    .inputs(&[arg("data", "The array to convert.")])
    .dtype(|p, io| match io.ins[0] {
        Some(DType::F16 | DType::BF16 | DType::F32) => io.assign_out(0, p.get::<AmpCastParam>().dtype.0),
        Some(other) => io.assign_out(0, other),
        None => Ok(()),
    })
    .forward(|ctx, ins, outs| {
        let nearest = matches!(ins[0].dtype(), DType::BF16 | DType::F32);
        match outs[0].dtype() {
            DType::I8 | DType::U8 | DType::I32 if nearest => round_to_integers(&ins[0], &mut outs[0]),
            _ => cast(ctx, ins, outs),
        }
    })
    .grad(Grad::Kernel(Backward::new(cast), None));

/// Rounds to the nearest integer, halves to even, saturating at the limits of the type.
fn round_to_integers(x: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    dispatch!(x.dtype(), T in [f32, bf16] => dispatch!(out.dtype(), U in [i8, u8, i32] => {
        round_saturated(x.slice::<T>()?, (f64::from(U::MIN), f64::from(U::MAX)), out.slice_mut::<U>()?);
        Ok(())
    }, d => Err(Error::Internal(format!("{d} is not rounded to")))), d => Err(Error::Internal(format!("{d} is not rounded"))))
}

fn cast(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    if ins[0].dtype() == outs[0].dtype() { copy(ctx, ins, outs) } else { convert(&ins[0], &mut outs[0]) }
}

params! {
    /// Parameters of `amp_multicast`.
    pub struct AmpMulticastParam {
        /// The number of arrays.
        num_outputs: i32 = required, where 1..=i32::MAX;
        /// Whether arrays are cast to the narrowest of their types instead of the widest.
        cast_narrow: bool = false;
    }
}

pub(crate) static AMP_MULTICAST: Operator<AmpMulticastParam> = Operator::new("amp_multicast")
    .doc(
        "Converts arrays to one type for mixed precision: the widest, or with cast_narrow the narrowest, of float16, bfloat16 and \
         float32 that occurs among them (float32 for a mixture of the other two). Arrays of other types are copied.",
    )
    .inputs(&[ArgDef { name: "data", doc: "The arrays, of any shapes.", type_string: "NDArray-or-Symbol[]" }])
    .num_inputs_by(|p| p.get::<AmpMulticastParam>().num_outputs as usize)
    .input_names_by(|p| (0..p.get::<AmpMulticastParam>().num_outputs).map(|i| format!("data_{i}")).collect())
    .outputs(|p| p.get::<AmpMulticastParam>().num_outputs as usize)
    .shape(|p, io| {
        let pairs = io.ins.iter_mut().zip(io.outs.iter_mut());
        pairs.into_iter().try_for_each(|(i, o)| {
            same_shape(p, &mut ShapeIo { ins: std::slice::from_mut(i), outs: std::slice::from_mut(o) })
        })
    })
    .dtype(multicast_dtype)
    .forward(each_cast)
    .grad(Grad::Kernel(Backward::new(each_cast), None));

fn multicast_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let is_castable = |d: DType| matches!(d, DType::F16 | DType::BF16 | DType::F32);
    let has = |d: DType| io.ins.contains(&Some(d));
    let narrow = p.get::<AmpMulticastParam>().cast_narrow && (has(DType::F16) || has(DType::BF16));
    let common = match (has(DType::F16), has(DType::BF16), has(DType::F32)) {
        // As in MXNet, the first array decides, even if its type is not one of the three.
        (true, false, false) => io.ins[0].filter(|_| !narrow).unwrap_or(DType::F16),
        (false, true, false) => DType::BF16,
        (true, _, _) if narrow => DType::F16,
        (false, true, _) if narrow => DType::BF16,
        _ => DType::F32,
    };
    if io.ins.contains(&None) {
        return Ok(());
    }
    (0..io.ins.len()).try_for_each(|i| match io.ins[i] {
        Some(d) if !is_castable(d) => io.assign_out(i, d),
        _ => io.assign_out(i, common),
    })
}

/// Casts each input to the type of its output.
fn each_cast(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    for (x, out) in ins.chunks(1).zip(outs.chunks_mut(1)).filter(|(_, out)| out[0].wanted()) {
        cast(ctx, x, out)?;
    }
    Ok(())
}

/// Converts an array to the output's dtype, which differs from its own.
pub(crate) fn convert(x: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    map::cast(elements(x)?, elements_mut(out)?);
    Ok(())
}

pub(crate) static ZEROS_LIKE: Operator = Operator::new("zeros_like")
    .aliases(&["_sparse_zeros_like"])
    .doc("Zeros in the shape and type of the input.")
    .forward(zeros)
    .grad(Grad::Zero)
    .inplace(&[(0, 0)])
    .sparse(crate::sparse::zeros_rule, crate::sparse::zeros);

pub(crate) static ONES_LIKE: Operator = Operator::new("ones_like")
    .doc("Ones in the shape and type of the input.")
    .forward(|_, _, outs| {
        dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
            movement::fill(outs[0].slice_mut::<T>()?, T::from_f32(1.0));
            Ok(())
        }, d => Err(Error::Internal(format!("no one of type {d}"))))
    })
    .grad(Grad::Zero)
    .inplace(&[(0, 0)]);

pub(crate) static SHAPE_ARRAY: Operator = Operator::new("shape_array")
    .aliases(&["_npx_shape_array"])
    .doc("The shape of the input as a vector of type int64.")
    .shape(|_, io| match io.ins[0].ndim() {
        Some(n) => io.assign_out(0, &Shape::new(&[n as i64])),
        None => Ok(()),
    })
    .dtype(int64)
    .forward(|_, ins, outs| {
        outs[0].slice_mut::<i64>()?.copy_from_slice(ins[0].shape().dims());
        Ok(())
    })
    .grad(Grad::Zero);

pub(crate) static SIZE_ARRAY: Operator = Operator::new("size_array")
    .doc("The number of elements of the input as a vector of one element, of type int64.")
    .shape(|_, io| io.assign_out(0, &Shape::new(&[1])))
    .dtype(int64)
    .forward(|_, ins, outs| {
        outs[0].slice_mut::<i64>()?.fill(ins[0].len() as i64);
        Ok(())
    })
    .grad(Grad::Zero);

fn int64(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    io.assign_out(0, DType::I64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, vector};

    #[test]
    fn casts_between_all_types_keep_small_integers() {
        for from in DType::ALL {
            for to in DType::ALL {
                let y = Case::new(&CAST, &[("dtype", to.name())]).run1(&[vector(from, &[0.0, 1.0, 1.0])]).unwrap();
                assert_eq!((y.dtype(), y.to_vec_as::<f64>().unwrap()), (to, vec![0.0, 1.0, 1.0]));
            }
        }
        let narrow = Case::new(&CAST, &[("dtype", "uint8")]).run1(&[array(&[300.7f32, -1.5], &[2])]).unwrap();
        assert_eq!(narrow.to_vec::<u8>().unwrap(), [44, 255]);
        assert!(Case::parse(&CAST, &[("dtype", "float23")]).is_err_and(|e| e.to_string().contains("float64")));
    }

    #[test]
    fn the_gradient_of_a_cast_has_the_type_of_the_input() {
        let case = Case::new(&CAST, &[("dtype", "float64")]);
        let g = case.backward(&[array(&[1f32, 2.0], &[2])], &[array(&[3f64, 4.0], &[2])]).unwrap();
        assert_eq!(g[0].to_vec::<f32>().unwrap(), [3.0, 4.0]);
    }

    #[test]
    fn amp_cast_keeps_integers() {
        let case = Case::new(&AMP_CAST, &[("dtype", "float16")]);
        assert_eq!(case.dtypes(&[Some(DType::F32)]).unwrap(), [Some(DType::F16)]);
        assert_eq!(case.dtypes(&[Some(DType::I32)]).unwrap(), [Some(DType::I32)]);
    }

    #[test]
    fn a_copy_keeps_the_elements_and_their_type() {
        let case = Case::new(&COPY_TO, &[]);
        let y = case.run1(&[array(&[1.5f32, -2.0], &[2])]).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [1.5, -2.0]);
        assert_eq!(case.dtypes(&[Some(DType::F64)]).unwrap(), [Some(DType::F64)]);
    }

    #[test]
    fn identity_operators_differ_in_their_gradients() {
        let (x, og) = (array(&[1f32, 2.0], &[2]), array(&[5f32, 6.0], &[2]));
        let grad = |def| {
            let case = Case::new(def, &[]);
            assert_eq!(case.run1(std::slice::from_ref(&x)).unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0]);
            case.backward(std::slice::from_ref(&x), std::slice::from_ref(&og)).unwrap()[0].to_vec::<f32>().unwrap()
        };
        assert_eq!(grad(&COPY), [5.0, 6.0]);
        assert_eq!(grad(&BLOCK_GRAD), [0.0, 0.0]);
        assert_eq!(grad(&MAKE_LOSS), [1.0, 1.0]);
    }

    #[test]
    fn zeros_ones_shape_and_size_accept_booleans() {
        let x = array(&[true, false, false, true, true, true], &[2, 3]);
        assert_eq!(
            Case::new(&ZEROS_LIKE, &[]).run1(std::slice::from_ref(&x)).unwrap().to_vec::<bool>().unwrap(),
            [false; 6]
        );
        assert_eq!(
            Case::new(&ONES_LIKE, &[]).run1(std::slice::from_ref(&x)).unwrap().to_vec::<bool>().unwrap(),
            [true; 6]
        );
        assert_eq!(
            Case::new(&SHAPE_ARRAY, &[]).run1(std::slice::from_ref(&x)).unwrap().to_vec::<i64>().unwrap(),
            [2, 3]
        );
        assert_eq!(Case::new(&SIZE_ARRAY, &[]).run1(&[x]).unwrap().to_vec::<i64>().unwrap(), [6]);
    }
}
