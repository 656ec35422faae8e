//! Matching of n-grams in rows of numbers.

use crate::par;
use std::ops::RangeInclusive;

/// The n-grams to look for.
pub struct Ngrams<'a> {
    /// Their lengths.
    pub lengths: RangeInclusive<usize>,
    /// Maximum number of elements skipped between two elements of an n-gram. A unigram has no gaps.
    pub max_skips: usize,
    /// Returns the index of an n-gram, if it is one of those to look for.
    pub find: &'a (dyn Fn(&[i64]) -> Option<usize> + Sync),
}

impl Ngrams<'_> {
    /// Fills rows of `len` numbers with the results for rows of `n` elements of `data`: starting with zeros, `add(row, index)` is called
    /// for each occurrence of an n-gram.
    ///
    /// # Panics
    /// Panics if there are fewer rows in `data` than in `out`.
    pub fn collect(
        &self,
        (data, n): (&[i64], usize),
        (out, len): (&mut [f32], usize),
        add: &(dyn Fn(&mut [f32], usize) + Sync),
    ) {
        par::parallel_rows(out, len, 1, |row, out| {
            out.fill(0.0);
            self.for_each_match(&data[row * n..(row + 1) * n], |index| add(out, index));
        });
    }

    fn for_each_match(&self, data: &[i64], mut f: impl FnMut(usize)) {
        let mut ngram = Vec::new();
        for length in self.lengths.clone() {
            let max_skips = if length == 1 { 0 } else { self.max_skips };
            for stride in 1..=max_skips + 1 {
                let span = (length - 1) * stride;
                for start in 0..data.len().saturating_sub(span) {
                    ngram.clear();
                    ngram.extend((0..length).map(|k| data[start + k * stride]));
                    if let Some(index) = (self.find)(&ngram) {
                        f(index);
                    }
                }
            }
        }
    }
}
