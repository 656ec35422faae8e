use super::*;
use crate::par::{num_threads, set_num_threads};
use ferromx_core::dtype::f16;
use std::cmp::Ordering;

fn compare(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The indices by the definition: a stable sort by comparison, NaN last.
fn naive<T: Element>(row: &[T], order: Order) -> Vec<u32> {
    let mut indices: Vec<u32> = (0..row.len() as u32).collect();
    indices.sort_by(|&a, &b| {
        let o = compare(row[a as usize].to_f64(), row[b as usize].to_f64());
        if order == Order::Descending { o.reverse() } else { o }
    });
    indices
}

fn check_rows<T: SortKey>(x: &[T], width: usize) {
    for order in [Order::Ascending, Order::Descending] {
        let want: Vec<u32> = x.chunks(width.max(1)).flat_map(|row| naive(row, order)).collect();
        let mut indices = vec![0i32; x.len()];
        argsort(x, width, order, &mut indices);
        assert!(indices.iter().zip(&want).all(|(p, w)| *p as u32 == *w), "{width} {order:?}");
        let mut values = vec![T::default(); x.len()];
        sort(x, width, order, &mut values);
        for (i, v) in values.iter().enumerate() {
            let w = x[i / width * width + want[i] as usize].to_f64();
            assert_eq!(compare(v.to_f64(), w), Ordering::Equal, "{width} {order:?}");
        }
        for k in [0, 1, 2, width / 9, width / 2, width].into_iter().filter(|&k| k <= width && width > 0) {
            let mut indices = vec![0f64; x.len() / width * k];
            topk(x, width, k, order, &mut indices);
            for (i, p) in indices.iter().enumerate() {
                assert_eq!(*p, f64::from(want[i / k * width + i % k]), "{width} {order:?} {k}");
            }
        }
    }
}

fn floats(n: usize) -> Vec<f32> {
    let special = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e-45];
    let value = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 - 8e6;
    (0..n).map(|i| if i % 17 == 3 { special[i / 17 % 7] } else { value(i % (n / 2 + 1)) }).collect()
}

#[test]
fn rows_of_all_lengths_and_types() {
    for (n, width) in [(0, 5), (1, 1), (10, 5), (514, 257), (30_000, 10_000), (30_000, 30), (200_001, 200_001)] {
        let x = floats(n);
        check_rows(&x, width);
        check_rows(&x.iter().map(|x| x.to_bits() as i32).collect::<Vec<_>>(), width);
        check_rows(&x.iter().map(|x| x.to_bits() as u8).collect::<Vec<_>>(), width);
        if n < 100_000 {
            check_rows(&x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>(), width);
            check_rows(&x.iter().map(|&x| f16::from_f32(x * 1e-3)).collect::<Vec<_>>(), width);
            check_rows(&x.iter().map(|x| i64::from(x.to_bits()) << 8).collect::<Vec<_>>(), width);
            check_rows(&x.iter().map(|x| x.to_bits() as i8).collect::<Vec<_>>(), width);
        }
    }
}

#[test]
fn chunks_give_the_same_order() {
    let x = floats(300_000);
    let run = || {
        let (mut y, mut p) = (vec![0f32; x.len()], vec![0i64; x.len()]);
        sort(&x, x.len(), Order::Ascending, &mut y);
        argsort(&x, x.len(), Order::Descending, &mut p);
        (y.iter().map(|y| y.to_bits()).collect::<Vec<_>>(), p)
    };
    let before = num_threads();
    set_num_threads(1);
    let one = run();
    set_num_threads(3);
    assert!(one == run());
    set_num_threads(before);
}
