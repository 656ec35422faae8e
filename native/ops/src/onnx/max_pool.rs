//! `MaxPool` with dilation, which also returns the indices of the maxima.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::map::Arith;
use ferromx_kernels::pool::max_with_indices::{MAX_AXES, Windows, window_maxima, window_maxima_backward};
use ferromx_kernels::reduce::NumericLane;

use crate::elemwise::family::NUMERIC;
use crate::precision::by_precision;

params! {
    /// Parameters of `_onnx_MaxPool`.
    pub struct MaxPoolParam {
        /// Size of a window, one number for each spatial axis.
        kernel_shape: Shape = required;
        /// Stride of the windows along each axis; 1 by default.
        strides: Shape = (Shape::new(&[]));
        /// Padding at the start of each axis, then at the end of each; 0 by default.
        pads: Shape = (Shape::new(&[]));
        /// Dilation of the window along each axis; 1 by default.
        dilations: Shape = (Shape::new(&[]));
        /// Whether the output size is rounded up, so that the last window may extend past the end.
        ceil_mode: bool = false;
        /// Whether indices are column-major: the first spatial axis varies fastest.
        column_major: bool = false;
    }
}

pub(super) static MAX_POOL: Operator<MaxPoolParam> = Operator::new("_onnx_MaxPool")
    .doc(
        "The maximum of each window, and its index into the flattened data. Padding is never the maximum.\n\n\
         Shapes: data (batch, channel, d1, ..., dk) with k of 1 to 3, both outputs (batch, channel, o1, ..., ok) with \
         o = (d + pads - dilation * (kernel - 1) - 1) / stride + 1, rounded down, or up with ceil_mode. Indices are int64 and have no \
         gradient. Source: MaxPool of ONNX.",
    )
    .inputs(&[arg("data", "The planes, of shape (batch, channel, d1, ..., dk).")])
    .outputs(|_| 2)
    .output_names_by(|_| vec!["output".into(), "indices".into()])
    .shape(|p, io| {
        let shape = io.ins[0].clone();
        if !shape.ndim_is_known() {
            return Ok(());
        }
        let out = output_shape(p.get::<MaxPoolParam>(), &shape)?;
        io.assign_out(0, &out)?;
        io.assign_out(1, &out)
    })
    .dtype(|_, io| {
        io.assign_out(1, DType::I64)?;
        match io.ins[0].or(io.outs[0]) {
            Some(dtype) => io.assign_in(0, dtype).and_then(|()| io.assign_out(0, dtype)),
            None => Ok(()),
        }
    })
    .forward(|ctx, ins, outs| {
        dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => maxima::<T>(ctx, ins, outs),
            other => Err(ctx.unsupported(other, NUMERIC)))
    })
    .grad(Grad::Kernel(Backward::new(pool_backward).ograds(Deps::Some(&[0])).inputs(Deps::All), None));

/// The smallest value of the type, with which the maximum is initialized.
fn lowest_value(dtype: DType) -> f64 {
    match dtype {
        DType::I8 => f64::from(i8::MIN),
        DType::I32 => f64::from(i32::MIN),
        DType::I64 => i64::MIN as f64,
        d if d.is_float() => f64::NEG_INFINITY,
        _ => 0.0,
    }
}

fn maxima<T: Element>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let windows = windows(ctx, ins[0].shape(), outs[0].shape())?;
    let lowest = T::from_f64(lowest_value(T::DTYPE));
    let (first, second) = outs.split_at_mut(1);
    // The kernel writes both outputs. One that is not wanted is written to a scratch buffer.
    let scratch_len = |out: &Out<'_>| if out.wanted() { 0 } else { out.len() };
    let (mut scratch_values, mut scratch_indices) =
        (vec![lowest; scratch_len(&first[0])], vec![0i64; scratch_len(&second[0])]);
    let out = if first[0].wanted() { first[0].slice_mut::<T>()? } else { &mut scratch_values };
    let indices = if second[0].wanted() { second[0].slice_mut::<i64>()? } else { &mut scratch_indices };
    window_maxima(ins[0].slice::<T>()?, &windows, lowest, ctx.params::<MaxPoolParam>().column_major, out, indices);
    Ok(())
}

/// The `n` numbers of the parameter `name`, each at least `min`. An empty list stands for `default` everywhere.
fn per_axis(name: &str, list: &Shape, n: usize, default: i64, min: i64) -> Result<Vec<i64>> {
    let dims = list.dims();
    ensure!(
        (dims.is_empty() || dims.len() == n) && dims.iter().all(|d| *d >= min),
        "{name} is {list}, expected {n} numbers of at least {min}"
    );
    Ok(if dims.is_empty() { vec![default; n] } else { dims.to_vec() })
}

/// The shape of both outputs.
fn output_shape(p: &MaxPoolParam, data: &Shape) -> Result<Shape> {
    let rank = data.dims().len();
    ensure!(
        (3..=MAX_AXES + 2).contains(&rank),
        "data has shape {data}, expected a batch, channels and 1 to {MAX_AXES} spatial axes"
    );
    let n = rank - 2;
    ensure!(p.kernel_shape.dims().len() == n, "kernel_shape is {}, expected {n} numbers", p.kernel_shape);
    let kernel = per_axis("kernel_shape", &p.kernel_shape, n, 1, 1)?;
    let (strides, dilations) =
        (per_axis("strides", &p.strides, n, 1, 1)?, per_axis("dilations", &p.dilations, n, 1, 1)?);
    let pads = per_axis("pads", &p.pads, 2 * n, 0, 0)?;
    let mut dims: Dims = data.dims().into();
    for k in 0..n {
        let size = data.dim(k + 2);
        if size < 0 {
            continue;
        }
        let slack = size + pads[k] + pads[n + k] - (dilations[k] * (kernel[k] - 1) + 1);
        ensure!(
            slack >= 0,
            "a window of size {} with dilation {} does not fit a padded axis of length {size}",
            kernel[k],
            dilations[k]
        );
        let mut windows = slack / strides[k] + 1;
        if p.ceil_mode && slack % strides[k] != 0 && windows * strides[k] < size + pads[k] {
            windows += 1;
        }
        dims[k + 2] = windows;
    }
    Ok(Shape::from(dims))
}

fn windows(ctx: &OpCtx<'_>, data: &Shape, out: &Shape) -> Result<Windows> {
    let p = ctx.params::<MaxPoolParam>();
    let n = data.dims().len() - 2;
    let list = |name: &str, list: &Shape| -> Result<Vec<usize>> {
        Ok(per_axis(name, list, n, 1, 1)?.into_iter().map(|d| d as usize).collect())
    };
    Ok(Windows {
        input: data.to_usize()[2..].to_vec(),
        output: out.to_usize()[2..].to_vec(),
        kernel: list("kernel_shape", &p.kernel_shape)?,
        stride: list("strides", &p.strides)?,
        dilation: list("dilations", &p.dilations)?,
        pad: per_axis("pads", &p.pads, 2 * n, 0, 0)?[..n].iter().map(|d| *d as usize).collect(),
    })
}

/// Inputs: gradient of the maxima, data. Output: gradient of the data.
fn pool_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let windows = windows(ctx, ins[1].shape(), ins[0].shape())?;
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
        type C = <T as Arith>::Lane;
        let add = |a: T, b: T| {
            use ferromx_kernels::map::{Load, Store};
            <T as Store<C>>::element(<T as Load<C>>::lane(a).plus(<T as Load<C>>::lane(b)))
        };
        let dx = outs[0].slice_mut::<T>()?;
        dx.fill(T::default());
        window_maxima_backward(ins[1].slice::<T>()?, &windows, ins[0].slice::<T>()?, add, dx);
        Ok(())
    }, other => Err(ctx.unsupported(other, DType::FLOATS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn dilated_windows_return_their_maxima_and_indices() {
        let x = array(&(0..16).map(|i| i * 7 % 16).collect::<Vec<i32>>(), &[1, 1, 4, 4]);
        // 0 7 14 5 / 12 3 10 1 / 8 15 6 13 / 4 11 2 9
        let case = |extra: &[(&str, &str)]| {
            let attrs: Vec<_> =
                [("kernel_shape", "(2, 2)"), ("dilations", "(2, 2)")].iter().chain(extra).copied().collect();
            Case::new(&MAX_POOL, &attrs)
        };
        let outs = case(&[]).run(std::slice::from_ref(&x)).unwrap();
        assert_eq!(outs[0].to_vec::<i32>().unwrap(), [14, 15, 12, 11]);
        assert_eq!(outs[1].to_vec::<i64>().unwrap(), [2, 9, 4, 13]);
        let column_major = case(&[("column_major", "True")]).run(std::slice::from_ref(&x)).unwrap();
        assert_eq!(column_major[1].to_vec::<i64>().unwrap(), [8, 6, 1, 7]);
        let shape = |extra: &[(&str, &str)]| case(extra).shapes(&[[1, 1, 6, 6].into()]).unwrap()[0].clone();
        assert_eq!(shape(&[("strides", "(2, 2)")]), [1, 1, 2, 2].into());
        assert_eq!(shape(&[("strides", "(2, 2)"), ("ceil_mode", "True")]), [1, 1, 3, 3].into());
        assert!(case(&[]).shapes(&[[1, 1, 2, 6].into()]).is_err());
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = array(&(0..48).map(|i| f64::from(i * 31 % 48)).collect::<Vec<_>>(), &[1, 2, 4, 6]);
        let attrs = [("kernel_shape", "(2, 3)"), ("dilations", "(2, 1)"), ("pads", "(1, 1, 0, 1)")];
        let case = Case::new(&MAX_POOL, &attrs);
        let out = case.run(std::slice::from_ref(&x)).unwrap();
        let dy = array(&(0..out[0].len()).map(|i| i as f64 + 1.0).collect::<Vec<_>>(), out[0].shape().dims());
        let dx =
            case.backward(std::slice::from_ref(&x), &[dy.clone(), out[1].clone()]).unwrap()[0].to_vec::<f64>().unwrap();
        let mut want = vec![0.0; 48];
        let dy = dy.to_vec::<f64>().unwrap();
        out[1].to_vec::<i64>().unwrap().iter().zip(dy).for_each(|(index, dy)| want[*index as usize] += dy);
        assert_eq!(dx, want);
    }
}
