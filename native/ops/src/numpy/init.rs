//! Array creation: constants, ranges, identity matrices, indices, windows.

use std::f32::consts::PI;

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::op::{OpCtx, OpDef, arg};
use ferromx_core::params::{AnyDType, NumDType, Untyped};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::map::Lane;

use super::elements_mut;
use crate::init::{self, InitParam, RangeParam, arange, bounds, fill};

/// The operators of this file.
pub(super) static OPS: &[&OpDef] = &[
    &init::ZEROS.renamed("_npi_zeros"),
    &init::ONES.renamed("_npi_ones"),
    &FULL_LIKE,
    &ARANGE,
    &LOGSPACE,
    &EYE,
    &IDENTITY,
    &INDICES,
    &HANNING,
    &HAMMING,
    &BLACKMAN,
];

params! {
    /// Parameters of `_npi_full_like`.
    pub struct FullLikeParam {
        /// The value of every element.
        fill_value: f64 = required;
        /// The device; ignored, the result is on the device of the array.
        ctx: String = (String::new());
        /// The element type; by default that of the array.
        dtype: Option<AnyDType> = None;
    }
}

pub(super) static FULL_LIKE: OpDef = OpDef::new("_npi_full_like")
    .doc("An array of the shape of another whose elements are all equal to `fill_value`.")
    .inputs(&[arg("a", "The array whose shape is taken.")])
    .params::<FullLikeParam>()
    .dtype(|p, io| match p.get::<FullLikeParam>().dtype.map(|d| d.0).or(io.ins[0]) {
        Some(d) => io.assign_out(0, d),
        None => Ok(()),
    })
    .forward(|ctx, _, outs| fill(&mut outs[0], ctx.params::<FullLikeParam>().fill_value))
    .grad(Grad::Zero);

pub(super) static ARANGE: OpDef = OpDef::new("_npi_arange")
    .doc("Equally spaced numbers from `start` up to `stop` (exclusive); from 0 up to `start` if there is no stop.")
    .inputs(&[])
    .params::<RangeParam>()
    .shape(|p, io| {
        let p = p.get::<RangeParam>();
        ensure!(p.step != 0.0, "step=0 is not allowed in a range");
        ensure!(p.repeat == 1, "repeat={} is not supported: apply repeat to the range", p.repeat);
        ensure!(!p.infer_range || p.stop.is_some(), "infer_range needs a stop");
        let (start, stop) = bounds(p);
        let count = ((stop - start) / p.step).ceil().max(0.0);
        ensure!(count < i64::MAX as f64, "the range from {start} to {stop} by {} has too many numbers", p.step);
        io.assign_out(0, &Shape::new(&[count as i64]))
    })
    .dtype(|p, io| io.assign_out(0, p.get::<RangeParam>().dtype.0))
    .forward(arange)
    .grad(Grad::Zero);

params! {
    /// Parameters of `_npi_logspace`.
    pub struct LogspaceParam {
        /// The first exponent.
        start: f64 = required;
        /// The last exponent.
        stop: f64 = required;
        /// Number of elements.
        num: i32 = required;
        /// Whether `stop` is included as the last exponent.
        endpoint: bool = true;
        /// The base of the powers.
        base: f64 = 10.0;
        /// The device, such as `cpu(0)`; by default the current one.
        ctx: String = (String::new());
        /// The element type.
        dtype: NumDType = (NumDType(DType::F32));
    }
}

pub(super) static LOGSPACE: OpDef = OpDef::new("_npi_logspace")
    .doc("Powers of `base` with equally spaced exponents from `start` to `stop`.")
    .inputs(&[])
    .params::<LogspaceParam>()
    .shape(|p, io| {
        let n = p.get::<LogspaceParam>().num;
        ensure!(n >= 0, "num={n} must be 0 or more");
        io.assign_out(0, &Shape::new(&[n.into()]))
    })
    .dtype(|p, io| io.assign_out(0, p.get::<LogspaceParam>().dtype.0))
    .forward(|ctx, _, outs| {
        let p = ctx.params::<LogspaceParam>();
        let steps = if p.endpoint { p.num - 1 } else { p.num };
        let step = if steps > 0 { (p.stop - p.start) / f64::from(steps) } else { 0.0 };
        generate(&mut outs[0], |i| p.base.powf(p.start + i as f64 * step))
    })
    .grad(Grad::Zero);

/// Elements of a parallel chunk.
const GRAIN: usize = 1 << 12;

/// Writes `f(i)` for each index i.
fn generate(out: &mut Out<'_>, f: impl Fn(usize) -> f64 + Sync) -> Result<()> {
    elements_mut(out)?.parallel_chunks(GRAIN, &|first, part| {
        let mut numbers = [0.0; GRAIN];
        let numbers = &mut numbers[..part.len()];
        numbers.iter_mut().enumerate().for_each(|(i, x)| *x = f(first + i));
        f64::store_any(numbers, part);
    });
    Ok(())
}

params! {
    /// Parameters of `_npi_eye`.
    pub struct EyeParam {
        /// The number of rows.
        n as "N": i64 = required;
        /// The number of columns; by default as many as rows.
        m as "M": Untyped<Option<i64>> = (Untyped(None));
        /// The diagonal: 0 is the main one, positive numbers are above it, negative ones below.
        k: i64 = 0;
        /// The device, such as `cpu(0)`; by default the current one.
        ctx: String = (String::new());
        /// The element type.
        dtype: NumDType = (NumDType(DType::F32));
    }
}

pub(super) static EYE: OpDef = OpDef::new("_npi_eye")
    .doc("A matrix of N rows and M columns with ones on a diagonal and zeros elsewhere.")
    .inputs(&[])
    .params::<EyeParam>()
    .shape(|p, io| {
        let p = p.get::<EyeParam>();
        let columns = p.m.0.unwrap_or(p.n);
        ensure!(p.n >= 0 && columns >= 0, "negative dimensions are not allowed: N={}, M={columns}", p.n);
        io.assign_out(0, &Shape::new(&[p.n, columns]))
    })
    .dtype(|p, io| io.assign_out(0, p.get::<EyeParam>().dtype.0))
    .forward(|ctx, _, outs| ones_on_diagonal(ctx.params::<EyeParam>().k, &mut outs[0]))
    .grad(Grad::Zero);

pub(super) static IDENTITY: OpDef = OpDef::new("_npi_identity")
    .doc(
        "A square matrix of the given shape with ones on its diagonal and zeros elsewhere. With one axis only the first element is 1; \
         of any other shape with n rows, the first n of every (n + 1)-th element in memory are.",
    )
    .inputs(&[])
    .params::<InitParam>()
    .shape(|p, io| {
        let shape = &p.get::<InitParam>().shape;
        ensure!(shape.ndim() != Some(0), "shape=() has no rows: expected the shape of a square matrix, such as (3, 3)");
        io.assign_out(0, shape)
    })
    .dtype(|p, io| io.assign_out(0, p.get::<InitParam>().dtype.0))
    .forward(|_, _, outs| identity(&mut outs[0]))
    .grad(Grad::Zero);

/// The diagonal of a square matrix; MXNet steps by the number of rows, too, where there are more or fewer columns.
fn identity(out: &mut Out<'_>) -> Result<()> {
    fill(out, 0.0)?;
    let rows = out.shape().to_usize()[0];
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        out.slice_mut::<T>()?.iter_mut().step_by(rows + 1).take(rows).for_each(|x| *x = T::from_f64(1.0));
        Ok(())
    }, d => Err(Error::Internal(format!("no one of type {d}"))))
}

fn ones_on_diagonal(k: i64, out: &mut Out<'_>) -> Result<()> {
    fill(out, 0.0)?;
    let dims = out.shape().to_usize();
    let columns = dims.last().copied().unwrap_or(1);
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        for (i, row) in (0i64..).zip(out.slice_mut::<T>()?.chunks_exact_mut(columns.max(1))) {
            let one = i.checked_add(k).and_then(|j| usize::try_from(j).ok());
            if let Some(x) = one.and_then(|j| row.get_mut(j)) {
                *x = T::from_f64(1.0);
            }
        }
        Ok(())
    }, d => Err(Error::Internal(format!("no one of type {d}"))))
}

params! {
    /// Parameters of `_npi_indices`.
    pub struct IndicesParam {
        /// The shape of the grid.
        dimensions: Shape = required;
        /// The element type.
        dtype: NumDType = (NumDType(DType::I32));
        /// The device, such as `cpu(0)`; by default the current one.
        ctx: String = (String::new());
    }
}

pub(super) static INDICES: OpDef = OpDef::new("_npi_indices")
    .doc("The indices of a grid: for each axis an array of the grid's shape that holds the index along that axis.")
    .inputs(&[])
    .params::<IndicesParam>()
    .shape(|p, io| {
        let grid = p.get::<IndicesParam>().dimensions.dims();
        ensure!(grid.iter().all(|d| *d >= 0), "dimensions={} has a negative number", Shape::new(grid));
        let out: Dims = std::iter::once(grid.len() as i64).chain(grid.iter().copied()).collect();
        io.assign_out(0, &Shape::from(out))
    })
    .dtype(|p, io| io.assign_out(0, p.get::<IndicesParam>().dtype.0))
    .forward(indices)
    .grad(Grad::Zero);

fn indices(ctx: &OpCtx<'_>, _: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let grid = ctx.params::<IndicesParam>().dimensions.to_usize();
    let size: usize = grid.iter().product();
    if size == 0 {
        return Ok(());
    }
    dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        for (axis, part) in outs[0].slice_mut::<T>()?.chunks_exact_mut(size).enumerate() {
            let (n, inner) = (grid[axis], grid[axis + 1..].iter().product::<usize>());
            for (i, run) in part.chunks_exact_mut(inner).enumerate() {
                run.fill(T::from_f64((i % n) as f64));
            }
        }
        Ok(())
    }, d => Err(Error::Internal(format!("no index of type {d}"))))
}

params! {
    /// Parameters of the windows.
    pub struct WindowParam {
        /// The number of points; the window is empty if it is 0 or less.
        m as "M": Untyped<Option<i64>> = (Untyped(None));
        /// The device, such as `cpu(0)`; by default the current one.
        ctx: String = (String::new());
        /// The element type.
        dtype: NumDType = (NumDType(DType::F32));
    }
}

/// Defines a window function: a sum of cosines of an angle from 0 to 2 pi.
macro_rules! window {
    ($name:ident: $op:literal, $doc:literal, |$angle:ident| $f:expr) => {
        pub(crate) static $name: OpDef = OpDef::new($op)
            .doc(concat!($doc, ", for n from 0 to M - 1. A window of one point is 1."))
            .inputs(&[])
            .params::<WindowParam>()
            .shape(|p, io| {
                let Some(points) = p.get::<WindowParam>().m.0 else {
                    return Err(Error::Value("M, the number of points, is missing".into()));
                };
                io.assign_out(0, &Shape::new(&[points.max(0)]))
            })
            .dtype(|p, io| io.assign_out(0, p.get::<WindowParam>().dtype.0))
            .forward(|_, _, outs| {
                let last = outs[0].len().saturating_sub(1);
                generate(&mut outs[0], |i| {
                    // In single precision, as MXNet does.
                    let $angle = f64::from(2.0 * PI * i as f32 / last as f32);
                    if last == 0 { 1.0 } else { $f }
                })
            })
            .grad(Grad::Zero);
    };
}

window!(HANNING: "_npi_hanning", "The Hann window 0.5 - 0.5 cos(2 pi n / (M - 1))", |angle| 0.5 - 0.5 * angle.cos());
window!(HAMMING: "_npi_hamming", "The Hamming window 0.54 - 0.46 cos(2 pi n / (M - 1))", |angle| 0.54 - 0.46 * angle.cos());
window!(BLACKMAN: "_npi_blackman",
    "The Blackman window 0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1))",
    |angle| 0.42 - 0.5 * angle.cos() + 0.08 * (2.0 * angle).cos());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, close};

    fn numbers(def: &'static OpDef, attrs: &[(&str, &str)]) -> Result<Vec<f64>> {
        Case::parse(def, attrs)?.run1(&[])?.to_vec_as::<f64>()
    }

    #[test]
    fn ranges_may_be_empty() {
        assert_eq!(numbers(&ARANGE, &[("start", "3")]).unwrap(), [0.0, 1.0, 2.0]);
        assert!(numbers(&ARANGE, &[("start", "5"), ("stop", "3")]).unwrap().is_empty());
        assert!(numbers(&ARANGE, &[("start", "5"), ("repeat", "2")]).is_err());
        assert_eq!(numbers(&LOGSPACE, &[("start", "0"), ("stop", "2"), ("num", "3")]).unwrap(), [1.0, 10.0, 100.0]);
        let open = [("start", "0"), ("stop", "4"), ("num", "2"), ("endpoint", "0"), ("base", "2"), ("dtype", "int32")];
        assert_eq!(numbers(&LOGSPACE, &open).unwrap(), [1.0, 4.0]);
    }

    #[test]
    fn matrices() {
        assert_eq!(numbers(&EYE, &[("N", "2"), ("M", "3"), ("k", "1")]).unwrap(), [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        assert_eq!(numbers(&EYE, &[("N", "2"), ("k", "-1")]).unwrap(), [0.0, 0.0, 1.0, 0.0]);
        assert!(numbers(&EYE, &[("N", "2"), ("M", "0")]).unwrap().is_empty());
        assert_eq!(numbers(&IDENTITY, &[("shape", "(2, 2)"), ("dtype", "bool")]).unwrap(), [1.0, 0.0, 0.0, 1.0]);
        assert_eq!(numbers(&INDICES, &[("dimensions", "(2, 2)")]).unwrap(), [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn windows() {
        close(&numbers(&HANNING, &[("M", "5"), ("dtype", "float64")]).unwrap(), &[0.0, 0.5, 1.0, 0.5, 0.0], 1e-7);
        close(&numbers(&HAMMING, &[("M", "3"), ("dtype", "float64")]).unwrap(), &[0.08, 1.0, 0.08], 1e-7);
        close(&numbers(&BLACKMAN, &[("M", "3"), ("dtype", "float64")]).unwrap(), &[0.0, 1.0, 0.0], 1e-7);
        assert_eq!(numbers(&BLACKMAN, &[("M", "1")]).unwrap(), [1.0]);
        assert!(numbers(&HANNING, &[("M", "-2")]).unwrap().is_empty());
        assert!(numbers(&HANNING, &[]).unwrap_err().to_string().contains("missing"));
    }
}
