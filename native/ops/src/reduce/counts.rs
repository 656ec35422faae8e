//! Histograms and bin counts, and comparisons of whole arrays.

use std::borrow::Cow;

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::infer::{DTypeIo, ShapeIo, same_dtype, same_shape};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::{ParamValue, Params, Tuple};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, memory, params};
use ferromx_kernels::histogram::histogram;
use ferromx_kernels::predicates::{Tolerance, all_close};

use crate::elemwise::family::NUMERIC;
use crate::rules::new_array;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&HISTOGRAM, &ALLCLOSE, &BINCOUNT, &SHARE_MEMORY];

/// The optional range of a histogram. As in MXNet, the metadata has no name for this type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HistogramRange(Option<(f64, f64)>);

impl ParamValue for HistogramRange {
    fn type_name() -> Cow<'static, str> {
        "".into()
    }
    fn parse(text: &str) -> std::result::Result<Self, String> {
        if text == "None" {
            return Ok(HistogramRange(None));
        }
        match Tuple::<f64>::parse(text)?.0[..] {
            [low, high] => Ok(HistogramRange(Some((low, high)))),
            _ => Err(format!("'{text}' is not a pair (lowest, highest)")),
        }
    }
    fn print(&self) -> String {
        self.0.map_or("None".into(), |(low, high)| Tuple(vec![low, high]).print())
    }
}

params! {
    /// Parameters of `_histogram`.
    pub struct HistogramParam {
        /// The number of equal bins in `range`; without it the bin edges are an input. With 0, the only edge is NaN.
        bin_cnt: Option<i32> = None;
        /// The start of the first bin and the end of the last, if bin_cnt is given.
        range: HistogramRange = (HistogramRange(None));
    }
}

impl HistogramParam {
    /// The number of bins and the ends of their range, if they are parameters.
    fn bins(&self) -> Result<Option<(i32, f64, f64)>> {
        let Some(count) = self.bin_cnt else { return Ok(None) };
        ensure!(count >= 0, "bin_cnt must not be negative, but is {count}");
        match self.range.0 {
            Some((low, high)) => {
                ensure!(low < high, "range=({low}, {high}): the first number must be less than the second");
                Ok(Some((count, low, high)))
            }
            None => Err(ferromx_core::error::Error::Param("bin_cnt needs range=(lowest, highest)".into())),
        }
    }
}

pub(super) static HISTOGRAM: Operator<HistogramParam> = Operator::new("_histogram")
    .aliases(&["_npi_histogram"])
    .doc(
        "A histogram. The first result has the counts, of type int64: count i is the number of elements from edge i to below edge i + 1; \
         the last bin includes its end. The second result has the bin edges. The bins are given by their increasing edges, or by their \
         number bin_cnt and the range that they divide.",
    )
    .inputs(&[
        arg("data", "The elements, of any shape."),
        arg("bins", "The bin edges, increasing, of the type of data; absent if bin_cnt is given."),
    ])
    .num_inputs_by(|p| if p.get::<HistogramParam>().bin_cnt.is_some() { 1 } else { 2 })
    .outputs(|_| 2)
    .shape(histogram_shape)
    .dtype(|p, io| {
        io.assign_out(0, DType::I64)?;
        same_dtype(p, &mut DTypeIo { ins: io.ins, outs: &mut io.outs[1..] })
    })
    .forward(histogram_forward);

fn histogram_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let edges = match p.get::<HistogramParam>().bins()? {
        Some((count, ..)) => i64::from(count) + 1,
        None if !io.ins[1].is_known() => return Ok(()),
        None => {
            let edges = io.ins[1].num_elements();
            ensure!(
                io.ins[1].ndim() == Some(1) && edges >= 2,
                "bins must be a vector of two edges or more, not {}",
                io.ins[1]
            );
            edges as i64
        }
    };
    io.assign_out(0, &Shape::new(&[edges - 1]))?;
    io.assign_out(1, &Shape::new(&[edges]))
}

fn histogram_forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let bins = ctx.params::<HistogramParam>().bins()?;
    let (counts, edges_out) = outs.split_at_mut(1);
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, u8, i8, i32, i64] => {
        let edges: Vec<T> = match bins {
            Some((n, low, high)) => {
                let edge = |i| (high * f64::from(i) + low * f64::from(n - i)) / f64::from(n);
                (0..=n).map(|i| T::from_f64(if i == n && n > 0 { high } else { edge(i) })).collect()
            }
            None => ins[1].slice::<T>()?.to_vec(),
        };
        if edges_out[0].wanted() {
            edges_out[0].slice_mut::<T>()?.copy_from_slice(&edges);
        }
        if counts[0].wanted() {
            let counts = counts[0].slice_mut::<i64>()?;
            counts.fill(0);
            let edges: Vec<f64> = edges.iter().map(|e| e.to_f64()).collect();
            histogram(ins[0].slice::<T>()?, &edges, bins.map(|(_, low, high)| (low, high)), counts);
        }
        Ok(())
    }, d => Err(ctx.unsupported(d, NUMERIC)))
}

params! {
    /// Parameters of `_contrib_allclose`.
    pub struct AllCloseParam {
        /// The relative tolerance, a fraction of |b|.
        rtol: f32 = 1e-5;
        /// The absolute tolerance.
        atol: f32 = 1e-8;
        /// Whether NaN equals NaN.
        equal_nan: bool = true;
    }
}

pub(super) static ALLCLOSE: Operator<AllCloseParam> = Operator::new("_contrib_allclose")
    .doc(
        "1 if |a - b| <= atol + rtol * |b| for all elements, else 0, of type uint8. An infinity is close only to itself; NaN is close to \
         NaN if equal_nan is set.",
    )
    .inputs(&[arg("a", "The first array."), arg("b", "The second array, of the same shape and type.")])
    .shape(|p, io| {
        same_shape(p, &mut ShapeIo { ins: io.ins, outs: &mut [] })?;
        io.assign_out(0, &Shape::new(&[]))
    })
    .dtype(|p, io| {
        same_dtype(p, &mut DTypeIo { ins: io.ins, outs: &mut [] })?;
        io.assign_out(0, DType::U8)
    })
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<AllCloseParam>();
        let tolerance = Tolerance { relative: p.rtol.into(), absolute: p.atol.into(), equal_nan: p.equal_nan };
        dispatch!(ins[0].dtype(), T in [f32, f64, f16, u8, i8, i32, i64] => {
            let is_close = all_close(ins[0].slice::<T>()?, ins[1].slice::<T>()?, &tolerance);
            outs[0].slice_mut::<u8>()?.fill(u8::from(is_close));
            Ok(())
        }, d => Err(ctx.unsupported(d, NUMERIC)))
    });

params! {
    /// Parameters of `_npi_bincount`.
    pub struct BincountParam {
        /// Minimum number of bins.
        minlength: i32 = 0;
        /// Whether there are weights.
        has_weights: bool = false;
    }
}

pub(super) static BINCOUNT: Operator<BincountParam> = Operator::new("_npi_bincount").names_data()
    .doc("How often each of the numbers 0, 1, 2, ... occurs, in the type of the data; with weights the sums of their weights.")
    .inputs(&[
        arg("data", "A vector of non-negative integers."),
        arg("weights", "The weight of each element; the result has their type."),
    ])
    .num_inputs_by(|p| if p.get::<BincountParam>().has_weights { 2 } else { 1 })
    .dynamic(bincount)
    .shape(|_, io| io.assign_out(0, &Shape::new(&[-1])))
    .dtype(|_, io| match io.ins.last().copied().flatten() {
        Some(dtype) => io.assign_out(0, dtype),
        None => Ok(()),
    })
    .grad(Grad::Zero);

fn bincount(ctx: &OpCtx<'_>, ins: &[NDArray]) -> Result<Vec<NDArray>> {
    let (p, x) = (ctx.params::<BincountParam>(), &ins[0]);
    ensure!(x.shape().dims().len() <= 1, "bincount takes a vector, not an array of shape {}", x.shape());
    ensure!(!x.dtype().is_float() && x.dtype() != DType::Bool, "bincount takes integers, not {}", x.dtype());
    let numbers = x.to_vec_as::<i64>()?;
    ensure!(numbers.iter().all(|n| *n >= 0), "bincount takes non-negative integers, but the data has a negative one");
    let num_bins = numbers.iter().max().map_or(0, |n| n + 1).max(p.minlength.into());
    let len = Shape::new(&[num_bins]).checked_elements()?;
    let weights = match ins.get(1) {
        None => x,
        Some(w) => w,
    };
    ensure!(weights.len() == numbers.len(), "there are {} weights for {} numbers", weights.len(), numbers.len());
    dispatch!(weights.dtype(), T in [f32, f64, f16, bf16] => {
        let mut sums = memory::filled(0f64, len);
        for (n, w) in numbers.iter().zip(weights.to_vec_as::<f64>()?) {
            sums[*n as usize] += w;
        }
        let sums: Vec<T> = memory::collected(sums.into_iter().map(T::from_f64));
        Ok(vec![new_array(&sums, &[num_bins].into(), ctx.context)?])
    }, d => dispatch!(d, T in [u8, i8, i32, i64] => {
        let mut sums = memory::filled(0i64, len);
        let has_weights = ins.len() > 1;
        for (n, w) in numbers.iter().zip(weights.to_vec_as::<i64>()?) {
            sums[*n as usize] = sums[*n as usize].wrapping_add(if has_weights { w } else { 1 });
        }
        // Truncation to the low bits equals wrap-around arithmetic in the type itself.
        let sums: Vec<T> = memory::collected(sums.into_iter().map(|s| s as T));
        Ok(vec![new_array(&sums, &[num_bins].into(), ctx.context)?])
    }, d => Err(ctx.unsupported(d, NUMERIC))))
}

pub(super) static SHARE_MEMORY: Operator = Operator::new("_npi_share_memory")
    .doc("Whether two arrays have memory in common, as bool.")
    .inputs(&[arg("a", "The first array."), arg("b", "The second array, of any shape and type.")])
    .shape(|_, io| io.assign_out(0, &Shape::new(&[])))
    .dtype(|_, io| io.assign_out(0, DType::Bool))
    .forward(|_, ins, outs| {
        let (a, b) = (ins[0].bytes()?.as_ptr_range(), ins[1].bytes()?.as_ptr_range());
        outs[0].slice_mut::<bool>()?[0] = a.start < b.end && b.start < a.end;
        Ok(())
    });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, vector};

    #[test]
    fn infinities_are_close_only_to_themselves() {
        let close = |a: &[f64], b: &[f64]| {
            let y = Case::new(&ALLCLOSE, &[]).run1(&[vector(DType::F32, a), vector(DType::F32, b)]).unwrap();
            y.to_vec::<u8>().unwrap() == [1]
        };
        let inf = f64::INFINITY;
        assert!(close(&[1.0, inf, f64::NAN], &[1.000001, inf, f64::NAN]));
        assert!(!close(&[inf], &[-inf]) && !close(&[1.0], &[inf]) && !close(&[inf], &[1.0]) && !close(&[1.0], &[1.1]));
    }

    #[test]
    fn invalid_histogram_ranges_are_errors() {
        let error =
            |attrs: &[(&str, &str)]| Case::new(&HISTOGRAM, attrs).shapes(&[Shape::new(&[3])]).unwrap_err().to_string();
        assert!(error(&[("bin_cnt", "3")]).contains("range"));
        assert!(error(&[("bin_cnt", "3"), ("range", "(2, 1)")]).contains("less than"));
    }

    #[test]
    fn bincount_counts_numbers_or_adds_their_weights() {
        let run = |x: &[NDArray], weights, minlength| {
            Case::new(&BINCOUNT, &[("has_weights", weights), ("minlength", minlength)]).run1(x)
        };
        let x = array(&[1i32, 1, 3], &[3]);
        assert_eq!(run(std::slice::from_ref(&x), "0", "0").unwrap().to_vec::<i32>().unwrap(), [0, 2, 0, 1]);
        let y = run(&[x.clone(), array(&[0.5f32, 1.0, 2.0], &[3])], "1", "5").unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [0.0, 1.5, 0.0, 2.0, 0.0]);
        assert!(run(&[array(&[-1i32], &[1])], "0", "0").unwrap_err().to_string().contains("negative"));
        assert!(run(&[vector(DType::F32, &[1.0])], "0", "0").unwrap_err().to_string().contains("takes integers"));
    }

    #[test]
    fn overlapping_slices_share_memory() {
        let x = array(&[1f32, 2.0, 3.0], &[3]);
        let shared = |a, b| Case::new(&SHARE_MEMORY, &[]).run1(&[a, b]).unwrap().to_vec::<bool>().unwrap()[0];
        assert!(shared(x.clone(), x.slice(1, 2).unwrap()));
        assert!(!shared(x.slice(0, 1).unwrap(), x.slice(1, 3).unwrap()));
    }
}
