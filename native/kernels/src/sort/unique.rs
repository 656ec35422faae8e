//! Groups of equal elements, or of equal slices along an axis.

use super::key::{KeyBits, SortKey};
use super::{Order, argsort};
use ferromx_core::memory;

/// Groups of equal slices along an axis, in ascending order of their elements.
#[derive(Debug, PartialEq, Eq)]
pub struct Groups {
    /// The index of the first slice of each group.
    pub firsts: Vec<i64>,
    /// The group of each slice.
    pub inverse: Vec<i64>,
    /// The number of slices in each group.
    pub counts: Vec<i64>,
}

/// Groups the slices of an array of shape (outer, n, inner) along its middle axis. NaNs are equal and come last.
///
/// # Panics
/// Panics if the array does not have that shape.
pub fn group_equal<T: SortKey>(x: &[T], (outer, n, inner): (usize, usize, usize)) -> Groups {
    assert_eq!(x.len(), outer * n * inner, "elements of an array of shape ({outer}, {n}, {inner})");
    let keys: Vec<u64> = memory::collected(x.iter().map(|x| x.key().widened()));
    let slices = Slices { keys: &keys, outer, n, inner };
    if outer * inner == 1 && (1..u32::MAX as usize).contains(&n) {
        let mut order = memory::filled(0i64, n);
        argsort(x, n, Order::Ascending, &mut order);
        return slices.group(&order);
    }
    slices.group(&slices.sorted())
}

/// The keys of the slices along an axis.
struct Slices<'a> {
    keys: &'a [u64],
    outer: usize,
    n: usize,
    inner: usize,
}

impl Slices<'_> {
    /// The keys of slice `i`, in the order in which slices are compared.
    fn slice(&self, i: i64) -> impl Iterator<Item = u64> + '_ {
        let rows = (0..self.outer).map(move |o| (o * self.n + i as usize) * self.inner);
        rows.flat_map(|start| self.keys[start..start + self.inner].iter().copied())
    }

    fn are_equal(&self, a: i64, b: i64) -> bool {
        if self.outer * self.inner == 1 {
            return self.keys[a as usize] == self.keys[b as usize];
        }
        self.slice(a).eq(self.slice(b))
    }

    fn sorted(&self) -> Vec<i64> {
        let mut order: Vec<i64> = memory::collected(0..self.n as i64);
        order.sort_unstable_by(|a, b| self.slice(*a).cmp(self.slice(*b)).then(a.cmp(b)));
        order
    }

    /// Groups the slices, given the indices that sort them.
    fn group(&self, order: &[i64]) -> Groups {
        let mut groups = Groups { firsts: vec![], inverse: memory::filled(0, self.n), counts: vec![] };
        for &i in order {
            match (groups.firsts.last(), groups.counts.last_mut()) {
                (Some(first), Some(count)) if self.are_equal(*first, i) => *count += 1,
                _ => {
                    groups.firsts.push(i);
                    groups.counts.push(1);
                }
            }
            groups.inverse[i as usize] = groups.firsts.len() as i64 - 1;
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_elements_and_slices_form_groups_in_ascending_order() {
        let groups = group_equal(&[3.0f64, -0.0, f64::NAN, 0.0, 3.0, -f64::NAN], (1, 6, 1));
        assert_eq!(groups, Groups { firsts: vec![1, 0, 2], inverse: vec![1, 0, 2, 0, 1, 2], counts: vec![2, 2, 2] });
        // Columns of a matrix of two rows.
        let groups = group_equal(&[1i32, 1, -2, 1, 5, 2, 7, 5], (2, 4, 1));
        assert_eq!(groups, Groups { firsts: vec![2, 1, 0], inverse: vec![2, 1, 0, 2], counts: vec![1, 1, 2] });
        assert_eq!(group_equal::<i64>(&[], (1, 0, 1)), Groups { firsts: vec![], inverse: vec![], counts: vec![] });
    }
}
