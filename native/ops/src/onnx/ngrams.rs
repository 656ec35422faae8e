//! `TfIdfVectorizer`.

use std::collections::HashMap;

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::{OpCtx, OpDef, arg};
use ferromx_core::params::{Params, Tuple};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, param_enum, params};
use ferromx_kernels::par;

use super::integers;

param_enum! {
    /// What is counted.
    pub enum NgramMode {
        /// How often each sequence occurs.
        Counts = "TF",
        /// Its weight if it occurs.
        Weights = "IDF",
        /// How often it occurs, times its weight.
        Both = "TFIDF",
    }
}

params! {
    /// Parameters of `_onnx_TfIdfVectorizer`.
    pub struct TfIdfParam {
        /// What is counted.
        mode: NgramMode = required;
        /// Length of the shortest sequences that count.
        min_gram_length: i64 = required, where 1..=4096;
        /// Length of the longest sequences that count.
        max_gram_length: i64 = required, where 1..=4096;
        /// How many elements may at most lie between neighbours of a sequence.
        max_skip_count: i64 = required, where 0..=4096;
        /// The sequences, those of length 1 first, then those of length 2, and so on.
        pool_int64s: Tuple<i64> = required;
        /// Where those of each length begin.
        ngram_counts: Tuple<i64> = required;
        /// The place of each sequence in the output.
        ngram_indexes: Tuple<i64> = required;
        /// The weight of each sequence; 1 by default.
        weights: Tuple<f32> = (Tuple(Vec::new()));
    }
}

/// Counts of short sequences.
pub static TF_IDF: OpDef = OpDef::new("_onnx_TfIdfVectorizer")
    .doc(
        "Counts how often sequences of numbers occur in each row. A sequence may leave out the same number of elements between all its \
         neighbours.\n\n\
         Shapes: data (batch, n) or (n,) of int32 or int64, output float32 of shape (batch, places) or (places,). Source: TfIdfVectorizer \
         of ONNX.",
    )
    .inputs(&[arg("data", "The rows, of shape (batch, n) or (n,).")])
    .params::<TfIdfParam>()
    .shape(|p, io| {
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        ensure!((1..=2).contains(&rank), "data has shape {}, expected (batch, n) or (n,)", io.ins[0]);
        let places = places(p.get::<TfIdfParam>())? as i64;
        let out = if rank == 1 { Shape::new(&[places]) } else { Shape::new(&[io.ins[0].dim(0), places]) };
        io.assign_out(0, &out)
    })
    .dtype(|_: &Params, io: &mut DTypeIo<'_>| io.assign_out(0, DType::F32))
    .forward(forward);

/// Length of an output row.
fn places(p: &TfIdfParam) -> Result<usize> {
    let largest = p.ngram_indexes.0.iter().copied().max().unwrap_or(-1);
    let fits = p.ngram_indexes.0.iter().all(|i| *i >= 0) && largest < 1 << 31;
    ensure!(fits, "ngram_indexes has to hold numbers from 0 to 2^31 - 1");
    Ok((largest + 1) as usize)
}

/// The sequences with their numbers, by their elements.
fn pool(p: &TfIdfParam) -> Result<HashMap<&[i64], usize>> {
    let (pool, starts) = (&p.pool_int64s.0, &p.ngram_counts.0);
    let mut all = HashMap::new();
    let mut number = 0;
    for (k, start) in starts.iter().enumerate() {
        let end = starts.get(k + 1).copied().unwrap_or(pool.len() as i64);
        let range = usize::try_from(*start).ok().zip(usize::try_from(end).ok());
        let part = range.and_then(|(a, b)| pool.get(a..b)).filter(|part| part.len() % (k + 1) == 0);
        let part = part.ok_or_else(|| {
            Error::Value(format!(
                "ngram_counts is {starts:?}: from {start} to {end} there are no sequences of {}",
                k + 1
            ))
        })?;
        for sequence in part.chunks_exact(k + 1) {
            all.insert(sequence, number);
            number += 1;
        }
    }
    ensure!(
        number == p.ngram_indexes.0.len(),
        "there are {number} sequences, but {} places in ngram_indexes",
        p.ngram_indexes.0.len()
    );
    ensure!(
        p.weights.0.is_empty() || p.weights.0.len() == number,
        "there are {number} sequences, but {} weights",
        p.weights.0.len()
    );
    Ok(all)
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<TfIdfParam>();
    let (pool, places) = (pool(p)?, places(p)?);
    let data = integers("data", &ins[0])?;
    let n = ins[0].shape().dims().last().map_or(0, |n| *n as usize);
    par::parallel_rows(outs[0].slice_mut::<f32>()?, places, 1, |row, out| {
        out.fill(0.0);
        let data = &data[row * n..(row + 1) * n];
        count(p, &pool, data, |sequence| {
            let weight = p.weights.0.get(sequence).copied().unwrap_or(1.0);
            let out = &mut out[p.ngram_indexes.0[sequence] as usize];
            match p.mode {
                NgramMode::Counts => *out += 1.0,
                NgramMode::Weights => *out = weight,
                NgramMode::Both => *out += weight,
            }
        });
    });
    Ok(())
}

/// Calls `f` with the number of each sequence that occurs, as often as it does.
fn count(p: &TfIdfParam, pool: &HashMap<&[i64], usize>, data: &[i64], mut f: impl FnMut(usize)) {
    let mut sequence = Vec::new();
    for length in p.min_gram_length as usize..=p.max_gram_length as usize {
        // A single element has no neighbours to leave out anything between.
        let skips = if length == 1 { 0 } else { p.max_skip_count as usize };
        for step in 1..=skips + 1 {
            let reach = (length - 1) * step;
            for start in 0..data.len().saturating_sub(reach) {
                sequence.clear();
                sequence.extend((0..length).map(|k| data[start + k * step]));
                if let Some(number) = pool.get(sequence.as_slice()) {
                    f(*number);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn sequences_with_gaps_are_counted() {
        let attrs = [
            ("mode", "TFIDF"),
            ("min_gram_length", "1"),
            ("max_gram_length", "2"),
            ("max_skip_count", "1"),
            ("pool_int64s", "[2, 3, 5, 4]"),
            ("ngram_counts", "[0, 2]"),
            ("ngram_indexes", "[0, 2, 1]"),
            ("weights", "[1, 10, 0.5]"),
        ];
        let x = array(&[5i64, 4, 2, 5, 3, 4], &[1, 6]);
        let out = Case::new(&TF_IDF, &attrs).run1(&[x]).unwrap();
        // 2 once; 5 4 side by side and with one between; 3 once.
        assert_eq!((out.shape().dims(), out.to_vec::<f32>().unwrap()), (&[1, 3][..], vec![1.0, 1.0, 10.0]));
    }

    #[test]
    fn pools_that_do_not_fit_are_refused() {
        let attrs = |counts: &'static str, indexes: &'static str| {
            let rest = [
                ("mode", "TF"),
                ("min_gram_length", "1"),
                ("max_gram_length", "2"),
                ("max_skip_count", "0"),
                ("pool_int64s", "[1, 2, 3]"),
            ];
            rest.into_iter().chain([("ngram_counts", counts), ("ngram_indexes", indexes)]).collect::<Vec<_>>()
        };
        let x = array(&[1i32, 2], &[2]);
        let run = |counts, indexes| Case::new(&TF_IDF, &attrs(counts, indexes)).run1(std::slice::from_ref(&x));
        assert!(run("[0, 1]", "[0, 1]").is_ok());
        assert!(run("[0, 2]", "[0, 1, 2]").unwrap_err().to_string().contains("no sequences of 2"));
        assert!(run("[0, 9]", "[0, 1]").is_err());
        assert!(run("[0, 1]", "[0]").unwrap_err().to_string().contains("2 sequences"));
    }
}
