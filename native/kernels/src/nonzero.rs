//! The indices of the elements that are not 0.

use ferromx_core::dtype::Element;
use ferromx_core::memory;
use smallvec::SmallVec;

/// The row-major indices of the elements that are not 0.
pub fn indices<T: Element>(x: &[T]) -> Vec<usize> {
    memory::collected((0..x.len()).filter(|i| x[*i] != T::default()))
}

/// The coordinates of the elements that are not 0, as a row-major matrix (elements, axes).
pub fn coordinates<T: Element>(x: &[T], dims: &[usize]) -> Vec<i64> {
    let (Some((&width, outer)), rank) = (dims.split_last(), dims.len()) else { return Vec::new() };
    let count = x.iter().filter(|x| **x != T::default()).count();
    let mut indices = memory::filled(0i64, count * rank);
    let mut found = 0;
    let mut coordinates: SmallVec<[usize; 6]> = outer.iter().map(|_| 0).collect();
    for row in x.chunks_exact(width.max(1)) {
        for (i, x) in row.iter().enumerate() {
            // Written for every element; the next one overwrites the coordinates of a zero.
            if let Some(to) = indices.get_mut(found..found + rank) {
                to.iter_mut().zip(&coordinates).for_each(|(to, index)| *to = *index as i64);
                to[rank - 1] = i as i64;
            }
            found += if *x != T::default() { rank } else { 0 };
        }
        for (index, n) in coordinates.iter_mut().zip(outer).rev() {
            *index += 1;
            if *index < *n {
                break;
            }
            *index = 0;
        }
    }
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_zeros_are_zeros_and_nan_is_not() {
        let x = [0f32, 3.0, f32::NAN, -0.0, 0.0, -1.0];
        assert_eq!(indices(&x), [1, 2, 5]);
        assert_eq!(coordinates(&x, &[2, 3]), [0, 1, 0, 2, 1, 2]);
        assert_eq!(coordinates(&[true, false], &[1, 2, 1]), [0, 0, 0]);
        assert!(coordinates::<u8>(&[], &[0, 2]).is_empty());
    }
}
