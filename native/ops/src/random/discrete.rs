//! Discrete sampling: classes by probability, classes without replacement, random permutations of rows.

use ferromx_core::dtype::{DType, Element, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::memory;
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::params::{ClassDType, Params};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::index::gather;
use ferromx_kernels::math;
use ferromx_kernels::rng::{Philox, sample_classes, unique_zipfian};

use crate::movement::{by_size, source, target};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&SAMPLE_MULTINOMIAL, &SAMPLE_UNIQUE_ZIPFIAN, &SHUFFLE];

params! {
    /// Parameters of `_sample_multinomial`.
    pub struct MultinomialParam {
        /// The shape of the sample from each row of probabilities; one class by default.
        shape: Shape = (Shape::new(&[]));
        /// Whether a second result has the log-probabilities of the sampled classes, which are differentiable.
        get_prob: bool = false;
        /// The element type of the classes.
        dtype: ClassDType = (ClassDType(DType::I32));
    }
}

pub(super) static SAMPLE_MULTINOMIAL: Operator<MultinomialParam> = Operator::new("_sample_multinomial")
    .aliases(&["sample_multinomial"])
    .doc(
        "Samples classes: data of shape (..., k) has the probabilities of k classes in each row, which sum to 1, and the result of shape \
         (..., shape) has class indices from 0. With get_prob a second result has log(data[..., class]), whose gradient with respect \
         to data is 1 / probability, as policy gradients need it.",
    )
    .inputs(&[arg("data", "Rows of probabilities.")])
    .outputs(|p| if p.get::<MultinomialParam>().get_prob { 2 } else { 1 })
    .shape(multinomial_shape)
    .dtype(|p, io| {
        io.assign_out(0, p.get::<MultinomialParam>().dtype.0)?;
        match (io.ins[0], io.outs.len()) {
            (Some(d), 2) => io.assign_out(1, d),
            _ => Ok(()),
        }
    })
    .forward(multinomial)
    .grad(Grad::Kernel(
        Backward::new(multinomial_backward).inputs(Deps::Some(&[0])).outputs(Deps::Some(&[0])),
        None,
    ))
    .random();

fn multinomial_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
    ensure!(rank > 0, "the probabilities must have at least one axis");
    let shape = &p.get::<MultinomialParam>().shape;
    let mut out: Dims = io.ins[0].dims()[..rank - 1].into();
    out.extend_from_slice(shape.dims());
    if out.is_empty() {
        out.push(1);
    }
    let out = Shape::from(out);
    (0..io.outs.len()).try_for_each(|k| io.assign_out(k, &out))
}

fn multinomial(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let rank = ins[0].shape().dims().len();
    let num_classes = ins[0].shape().dim(rank - 1).max(0) as usize;
    ensure!(
        num_classes > 0 || outs[0].is_empty(),
        "there are no classes to sample from: data has shape {}",
        ins[0].shape()
    );
    let key = ctx.random.next_key();
    let random = Philox::new(key.seed, key.stream);
    let mut sampled = memory::filled(0u32, outs[0].len());
    let (classes, log_probs) = outs.split_at_mut(1);
    dispatch!(ins[0].dtype(), T in [f32, f64, f16] => {
        let p = ins[0].slice::<T>()?;
        sample_classes(&random, (p, num_classes), &mut sampled);
        if let Some(log_probs) = log_probs.first_mut().filter(|log_probs| log_probs.wanted()) {
            let samples_per_row = (sampled.len() * num_classes / p.len().max(1)).max(1);
            for (i, (log_prob, class)) in log_probs.slice_mut::<T>()?.iter_mut().zip(&sampled).enumerate() {
                *log_prob = T::from_f64(math::log(p[i / samples_per_row * num_classes + *class as usize].to_f64()));
            }
        }
    }, d => return Err(ctx.unsupported(d, DType::FLOATS)));
    dispatch!(classes[0].dtype(), U in [i32, u8, f32, f64, f16] => {
        let classes = classes[0].slice_mut::<U>()?.iter_mut();
        classes.zip(sampled).for_each(|(class, sampled)| *class = U::from_f64(f64::from(sampled)));
        Ok(())
    }, d => Err(ctx.unsupported(d, &[DType::I32, DType::U8, DType::F32, DType::F64, DType::F16])))
}

/// Inputs: gradients of the classes (ignored) and of the log-probabilities if they were returned, the probabilities, the classes.
fn multinomial_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    outs[0].bytes_mut()?.fill(0);
    let [_, grad, data, classes] = ins else { return Ok(()) };
    let num_classes = data.shape().dim(data.shape().dims().len() - 1).max(1) as usize;
    let samples_per_row = classes.len().checked_div(data.len() / num_classes).unwrap_or(0).max(1);
    dispatch!(data.dtype(), T in [f32, f64, f16] => {
        let (p, grad, out) = (data.slice::<T>()?, grad.slice::<T>()?, outs[0].slice_mut::<T>()?);
        dispatch!(classes.dtype(), U in [i32, u8, f32, f64, f16] => {
            for (i, class) in classes.slice::<U>()?.iter().enumerate() {
                // A class that the type of the classes cannot hold was rounded.
                let index = i / samples_per_row * num_classes + (class.to_f64() as usize).min(num_classes - 1);
                out[index] = T::from_f64(out[index].to_f64() + grad[i].to_f64() / p[index].to_f64());
            }
            Ok(())
        }, d => Err(ctx.unsupported(d, &[DType::I32, DType::U8, DType::F32, DType::F64, DType::F16])))
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

params! {
    /// Parameters of `_sample_unique_zipfian`.
    pub struct ZipfianParam {
        /// The number of classes.
        range_max: i32 = required, where 1..=i32::MAX;
        /// The shape (rows, classes per row).
        shape: Shape = (Shape::unknown());
    }
}

pub(super) static SAMPLE_UNIQUE_ZIPFIAN: Operator<ZipfianParam> = Operator::new("_sample_unique_zipfian")
    .doc(
        "Samples classes without replacement within a row: class c of 0 to range_max - 1 has the probability \
         log((c + 2) / (c + 1)) / log(range_max + 1). The first result has the classes, of type int64; the second has the number of \
         draws that each row took, repetitions included.",
    )
    .inputs(&[])
    .outputs(|_| 2)
    .shape(|p, io| {
        let p = p.get::<ZipfianParam>();
        ensure!(p.shape.ndim() == Some(2), "shape must be (rows, classes per row), not {}", p.shape);
        ensure!(
            p.shape.dim(1) <= p.range_max.into(),
            "cannot sample {} different classes from {}",
            p.shape.dim(1),
            p.range_max
        );
        io.assign_out(0, &p.shape)?;
        io.assign_out(1, &Shape::new(&[p.shape.dim(0)]))
    })
    .dtype(|_, io| (0..2).try_for_each(|k| io.assign_out(k, DType::I64)))
    .forward(|ctx, _, outs| {
        let p = ctx.params::<ZipfianParam>();
        let key = ctx.random.next_key();
        let random = Philox::new(key.seed, key.stream);
        let (classes, tries) = outs.split_at_mut(1);
        let classes = (classes[0].slice_mut::<i64>()?, p.shape.dim(1).max(0) as usize);
        unique_zipfian(&random, p.range_max, classes, tries[0].slice_mut::<i64>()?);
        Ok(())
    })
    .grad(Grad::Zero)
    .random();

pub(super) static SHUFFLE: Operator = Operator::new("_shuffle")
    .aliases(&["_npi_shuffle", "shuffle"])
    .doc("Shuffles the rows along the first axis; all permutations are equally likely.")
    .inputs(&[arg("data", "The array, of at least one axis.")])
    .forward(|ctx, ins, outs| {
        let n = ins[0].shape().dims().first().map_or(1, |n| *n as usize);
        let key = ctx.random.next_key();
        let permutation = Philox::new(key.seed, key.stream).permutation(n);
        let inner = ins[0].len().checked_div(n).unwrap_or(0);
        by_size!(ins[0].dtype(), T => {
            gather(source::<T>(&ins[0])?, (1, n, inner), &permutation, target::<T>(&mut outs[0])?);
        });
        Ok(())
    })
    .grad(Grad::Zero)
    .random();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close};

    #[test]
    fn classes_are_sampled_by_their_probabilities() {
        let p = array(&[0.1f32, 0.0, 0.6, 0.3, 0.0, 1.0, 0.0, 0.0], &[2, 4]);
        let case = Case::new(&SAMPLE_MULTINOMIAL, &[("shape", "20000"), ("get_prob", "True")]);
        let outs = case.run(&[p]).unwrap();
        let (classes, logs) = (outs[0].to_vec::<i32>().unwrap(), outs[1].to_vec::<f32>().unwrap());
        let frequency = |row: usize, class: i32| {
            classes[row * 20_000..(row + 1) * 20_000].iter().filter(|c| **c == class).count() as f64 / 20_000.0
        };
        // Five standard deviations of the frequencies.
        for (class, want) in [(0, 0.1), (1, 0.0), (2, 0.6), (3, 0.3)] {
            assert!((frequency(0, class) - want).abs() < 5.0 * (0.25f64 / 20_000.0).sqrt(), "class {class}");
        }
        assert_eq!(frequency(1, 1), 1.0);
        let want = [0.1f32, 0.0, 0.6, 0.3].map(f32::ln);
        assert!(classes.iter().zip(&logs).take(20_000).all(|(c, l)| (l - want[*c as usize]).abs() < 1e-6));
    }

    #[test]
    fn log_probabilities_have_gradients_for_the_sampled_classes() {
        let p = array(&[0.25f64, 0.75, 1.0, 0.0], &[2, 2]);
        let case = Case::new(&SAMPLE_MULTINOMIAL, &[("shape", "8"), ("get_prob", "True")]);
        let classes = case.run(std::slice::from_ref(&p)).unwrap()[0].to_vec::<i32>().unwrap();
        let grads = case.backward(&[p], &[array(&[0i32; 16], &[2, 8]), array(&[1.0f64; 16], &[2, 8])]).unwrap();
        let count = classes[..8].iter().filter(|c| **c == 0).count() as f64;
        close(&grads[0].to_vec::<f64>().unwrap(), &[count / 0.25, (8.0 - count) / 0.75, 8.0, 0.0], 1e-12);
    }

    #[test]
    fn zipfian_classes_do_not_repeat() {
        let case = Case::new(&SAMPLE_UNIQUE_ZIPFIAN, &[("range_max", "50"), ("shape", "(2000, 5)")]);
        let outs = case.run(&[]).unwrap();
        let (classes, tries) = (outs[0].to_vec::<i64>().unwrap(), outs[1].to_vec::<i64>().unwrap());
        let mut num_first_is_0 = 0;
        for (row, tries) in classes.chunks(5).zip(&tries) {
            let mut sorted = row.to_vec();
            sorted.sort_unstable();
            sorted.dedup();
            assert!(sorted.len() == 5 && sorted[0] >= 0 && sorted[4] < 50 && *tries >= 5);
            num_first_is_0 += i64::from(row[0] == 0);
        }
        // The first draw of a row is not affected by others: class 0 has probability log 2 / log 51.
        let frequency = num_first_is_0 as f64 / 2000.0;
        assert!((frequency - 2f64.ln() / 51f64.ln()).abs() < 0.05, "{frequency}");
        assert!(Case::new(&SAMPLE_UNIQUE_ZIPFIAN, &[("range_max", "3"), ("shape", "(1, 4)")]).run(&[]).is_err());
    }

    #[test]
    fn shuffling_keeps_rows_intact() {
        let x: Vec<i32> = (0..300).collect();
        let y = Case::new(&SHUFFLE, &[]).run1(&[array(&x, &[100, 3])]).unwrap().to_vec::<i32>().unwrap();
        assert!(y.chunks(3).all(|row| row[0] % 3 == 0 && row[1] == row[0] + 1 && row[2] == row[0] + 2));
        let mut sorted = y.clone();
        sorted.sort_unstable();
        assert!(sorted == x && y != x);
    }
}
