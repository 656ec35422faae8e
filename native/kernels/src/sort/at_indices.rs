//! Selection of the elements that a sort would put at given indices.

use crate::par;

/// Moves the elements that a sort of each row of `len` elements would put at the given ascending indices there. A row with a NaN becomes
/// all NaN.
///
/// # Panics
/// Panics if an index is not below `len`.
pub fn sort_at_indices(rows: &mut [f64], len: usize, indices: &[usize]) {
    par::parallel_rows(rows, len, 1, |_, row| {
        if row.iter().any(|x| x.is_nan()) {
            return row.fill(f64::NAN);
        }
        let (mut rest, mut offset) = (row, 0);
        for index in indices {
            let (_, _, above) = std::mem::take(&mut rest).select_nth_unstable_by(index - offset, f64::total_cmp);
            (rest, offset) = (above, index + 1);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_those_of_sorted_rows() {
        let mut rows = [5.0, 1.0, 4.0, 2.0, 3.0, 0.0, 9.0, f64::NAN, 7.0, 8.0];
        sort_at_indices(&mut rows, 5, &[0, 3]);
        assert_eq!([rows[0], rows[3]], [1.0, 4.0]);
        assert!(rows[5..].iter().all(|x| x.is_nan()));
    }
}
