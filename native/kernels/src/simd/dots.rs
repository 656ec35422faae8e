//! Dot products of rows with columns, in the vectors of any instruction set.

/// Defines a `DotFn` for the instruction set with these target features.
///
/// - `zero` is a vector of zeros, and `load` the function that loads one.
/// - `mask` selects the first `rest` elements of a vector, and `part` loads those.
/// - `fma` is `x * y + sum`, and `sums` the function that sums the elements of each of four vectors.
macro_rules! dots {
    ($features:literal, $name:ident: $t:ty, $lanes:literal,
     zero: $zero:expr, load: $load:ident,
     mask: |$rest:ident| $mask:expr, part: |$from:ident, $selected:ident| $part:expr,
     fma: |$x:ident, $y:ident, $sum:ident| $fma:expr, sums: $sums:ident) => {
        /// The dot products of M rows with four columns. See `DotFn`.
        #[target_feature(enable = $features)]
        unsafe fn $name<const M: usize>(args: &DotArgs<$t>, out: &mut [[$t; DOT]; DOT]) {
            let mut sums = [[$zero; DOT]; M];
            // The last column substitutes for missing ones.
            let columns: [*const $t; DOT] =
                std::array::from_fn(|j| args.b.wrapping_add(args.b_col * j.min(args.cols - 1)));
            let whole = args.depth / $lanes * $lanes;
            for p in (0..whole).step_by($lanes) {
                // SAFETY: these rows and columns have a whole vector of elements starting at `p`.
                unsafe {
                    let y = columns.map(|column| $load(column.add(p)));
                    for i in 0..M {
                        let $x = $load(args.a.add(i * args.a_row + p));
                        for j in 0..DOT {
                            let ($y, $sum) = (y[j], sums[i][j]);
                            sums[i][j] = $fma;
                        }
                    }
                }
            }
            if whole < args.depth {
                let $rest = args.depth - whole;
                #[allow(clippy::redundant_locals)] // The number may be the mask.
                let $selected = $mask;
                // SAFETY: only the remaining elements of these rows and columns are loaded.
                unsafe {
                    let y = columns.map(|column| {
                        let $from = column.add(whole);
                        $part
                    });
                    for i in 0..M {
                        let $from = args.a.add(i * args.a_row + whole);
                        let $x = $part;
                        for j in 0..DOT {
                            let ($y, $sum) = (y[j], sums[i][j]);
                            sums[i][j] = $fma;
                        }
                    }
                }
            }
            for i in 0..M {
                out[i] = $sums(sums[i]);
            }
        }
    };
}
pub(super) use dots;
