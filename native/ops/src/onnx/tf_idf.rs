//! `TfIdfVectorizer`: counts of n-grams.

use std::collections::HashMap;

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::{OpCtx, Operator, arg};
use ferromx_core::params::{Params, Tuple};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, param_enum, params};
use ferromx_kernels::ngrams::Ngrams;

use super::integers;

param_enum! {
    /// The weighting of an n-gram.
    pub enum NgramMode {
        /// The number of occurrences.
        Counts = "TF",
        /// The weight if it occurs, otherwise 0.
        Weights = "IDF",
        /// The number of occurrences times the weight.
        Both = "TFIDF",
    }
}

params! {
    /// Parameters of `_onnx_TfIdfVectorizer`.
    pub struct TfIdfParam {
        /// The weighting of an n-gram.
        mode: NgramMode = required;
        /// Length of the shortest n-grams.
        min_gram_length: i64 = required, where 1..=4096;
        /// Length of the longest n-grams.
        max_gram_length: i64 = required, where 1..=4096;
        /// The most elements that are skipped between two elements of an n-gram.
        max_skip_count: i64 = required, where 0..=4096;
        /// The n-grams: those of length 1, then those of length 2, and so on.
        pool_int64s: Tuple<i64> = required;
        /// Start of the n-grams of each length in `pool_int64s`.
        ngram_counts: Tuple<i64> = required;
        /// The output index of each n-gram.
        ngram_indexes: Tuple<i64> = required;
        /// The weight of each n-gram; 1 by default.
        weights: Tuple<f32> = (Tuple(Vec::new()));
    }
}

pub(super) static TF_IDF: Operator<TfIdfParam> = Operator::new("_onnx_TfIdfVectorizer")
    .doc(
        "Counts the n-grams of each row. An n-gram also matches with up to max_skip_count elements skipped between its elements, the same \
         number everywhere.\n\n\
         Shapes: data (batch, n) or (n,) of int32 or int64, output float32 of shape (batch, outputs) or (outputs,) with outputs = \
         max(ngram_indexes) + 1. Source: TfIdfVectorizer of ONNX.",
    )
    .inputs(&[arg("data", "The rows, of shape (batch, n) or (n,).")])
    .shape(|p, io| {
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        ensure!((1..=2).contains(&rank), "data has shape {}, expected (batch, n) or (n,)", io.ins[0]);
        let len = output_len(p.get::<TfIdfParam>())? as i64;
        let out = if rank == 1 { Shape::new(&[len]) } else { Shape::new(&[io.ins[0].dim(0), len]) };
        io.assign_out(0, &out)
    })
    .dtype(|_: &Params, io: &mut DTypeIo<'_>| io.assign_out(0, DType::F32))
    .forward(forward);

/// Length of an output row.
fn output_len(p: &TfIdfParam) -> Result<usize> {
    let largest = p.ngram_indexes.0.iter().copied().max().unwrap_or(-1);
    let fits = p.ngram_indexes.0.iter().all(|i| *i >= 0) && largest < 1 << 31;
    ensure!(fits, "ngram_indexes must hold numbers from 0 to 2^31 - 1");
    Ok((largest + 1) as usize)
}

/// Maps the elements of each n-gram to its index.
fn pool(p: &TfIdfParam) -> Result<HashMap<&[i64], usize>> {
    let (pool, starts) = (&p.pool_int64s.0, &p.ngram_counts.0);
    let mut indices = HashMap::new();
    let mut count = 0;
    for (k, start) in starts.iter().enumerate() {
        let end = starts.get(k + 1).copied().unwrap_or(pool.len() as i64);
        let range = usize::try_from(*start).ok().zip(usize::try_from(end).ok());
        let ngrams = range.and_then(|(a, b)| pool.get(a..b)).filter(|s| s.len() % (k + 1) == 0);
        let ngrams = ngrams.ok_or_else(|| {
            Error::Value(format!(
                "ngram_counts is {starts:?}, but pool_int64s[{start}..{end}] does not hold n-grams of length {}",
                k + 1
            ))
        })?;
        for ngram in ngrams.chunks_exact(k + 1) {
            indices.insert(ngram, count);
            count += 1;
        }
    }
    ensure!(
        count == p.ngram_indexes.0.len(),
        "pool_int64s has {count} n-grams, but ngram_indexes has {} numbers",
        p.ngram_indexes.0.len()
    );
    ensure!(
        p.weights.0.is_empty() || p.weights.0.len() == count,
        "pool_int64s has {count} n-grams, but weights has {} numbers",
        p.weights.0.len()
    );
    Ok(indices)
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<TfIdfParam>();
    let (pool, len) = (pool(p)?, output_len(p)?);
    let data = integers("data", &ins[0])?;
    let n = ins[0].shape().dims().last().map_or(0, |n| *n as usize);
    let ngrams = Ngrams {
        lengths: p.min_gram_length as usize..=p.max_gram_length as usize,
        max_skips: p.max_skip_count as usize,
        find: &|ngram| pool.get(ngram).copied(),
    };
    ngrams.collect((&data, n), (outs[0].slice_mut::<f32>()?, len), &|out, ngram| {
        let weight = p.weights.0.get(ngram).copied().unwrap_or(1.0);
        let out = &mut out[p.ngram_indexes.0[ngram] as usize];
        match p.mode {
            NgramMode::Counts => *out += 1.0,
            NgramMode::Weights => *out = weight,
            NgramMode::Both => *out += weight,
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn ngrams_with_skips_are_counted() {
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
        // "2" once; "5 4" adjacent and with one element skipped; "3" once.
        assert_eq!((out.shape().dims(), out.to_vec::<f32>().unwrap()), (&[1, 3][..], vec![1.0, 1.0, 10.0]));
    }

    #[test]
    fn inconsistent_pools_are_errors() {
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
        assert!(run("[0, 2]", "[0, 1, 2]").unwrap_err().to_string().contains("n-grams of length 2"));
        assert!(run("[0, 9]", "[0, 1]").is_err());
        assert!(run("[0, 1]", "[0]").unwrap_err().to_string().contains("2 n-grams"));
    }
}
