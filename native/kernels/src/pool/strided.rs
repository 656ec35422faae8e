//! A loop over strided elements.

/// Calls `f(i, xs[i * stride], item)` for each item, in loops that the compiler can vectorize for strides 1 and 2. `xs` must have
/// an element for each item.
#[inline(always)]
pub(crate) fn each_strided<T: Copy, I>(
    xs: &[T],
    stride: usize,
    mut items: impl ExactSizeIterator<Item = I>,
    mut f: impl FnMut(usize, T, I),
) {
    let count = items.len();
    match stride {
        1 => items.zip(&xs[..count]).enumerate().for_each(|(i, (item, x))| f(i, *x, item)),
        2 => {
            let (pairs, rest) = xs.as_chunks::<2>();
            let whole = count.min(pairs.len());
            pairs[..whole].iter().zip(items.by_ref()).enumerate().for_each(|(i, (x, item))| f(i, x[0], item));
            items.zip(rest).for_each(|(item, x)| f(whole, *x, item));
        }
        _ => items.zip(xs.iter().step_by(stride)).enumerate().for_each(|(i, (item, x))| f(i, *x, item)),
    }
}
