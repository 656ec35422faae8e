use super::*;

/// The offset of an index in a contiguous array.
fn at(shape: &[usize], index: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |p, (i, n)| p * n + i)
}

fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    (0..shape.iter().product())
        .map(|flat: usize| {
            let mut rest = flat;
            let mut index = vec![0; shape.len()];
            for k in (0..shape.len()).rev() {
                index[k] = rest % shape[k];
                rest /= shape[k];
            }
            index
        })
        .collect()
}

fn count<T: From<u8> + Copy>(shape: &[usize]) -> Vec<T> {
    (0..shape.iter().product::<usize>()).map(|i| T::from((i % 251) as u8)).collect()
}

fn check_transpose<T: Item + From<u8> + PartialEq + std::fmt::Debug>(shape: &[usize], perm: &[usize]) {
    let x: Vec<T> = count(shape);
    let mut y = vec![T::default(); x.len()];
    transpose(&x, shape, perm, &mut y);
    let out: Vec<usize> = perm.iter().map(|&p| shape[p]).collect();
    for (k, index) in indices(&out).iter().enumerate() {
        let mut from = vec![0; shape.len()];
        for (i, &p) in perm.iter().enumerate() {
            from[p] = index[i];
        }
        assert_eq!(y[k], x[at(shape, &from)], "{shape:?} {perm:?} {index:?}");
    }
}

#[test]
fn all_permutations() {
    let cases: &[(&[usize], &[usize])] = &[
        (&[], &[]),
        (&[5], &[0]),
        (&[1, 1], &[1, 0]),
        (&[33, 50], &[1, 0]),
        (&[400, 401], &[1, 0]),
        (&[2, 301], &[1, 0]),
        (&[3, 70], &[1, 0]),
        (&[4, 129], &[1, 0]),
        (&[5, 301], &[1, 0]),
        (&[7, 70], &[1, 0]),
        (&[9, 37], &[1, 0]),
        (&[11, 301], &[1, 0]),
        (&[15, 66], &[1, 0]),
        (&[3, 6, 40], &[0, 2, 1]),
        (&[5, 2, 90], &[0, 2, 1]),
        (&[301, 7], &[1, 0]),
        (&[3, 16, 32], &[0, 2, 1]),
        (&[20, 3, 40], &[2, 1, 0]),
        (&[20, 30, 4], &[1, 0, 2]),
        (&[20, 3, 40], &[1, 2, 0]),
        (&[2, 17, 5, 33], &[0, 2, 3, 1]),
        (&[2, 17, 5, 33], &[3, 1, 0, 2]),
        (&[2, 3, 1, 4, 5], &[4, 2, 0, 3, 1]),
        (&[3, 0, 2], &[2, 0, 1]),
    ];
    for (shape, perm) in cases {
        check_transpose::<u8>(shape, perm);
        check_transpose::<u16>(shape, perm);
        check_transpose::<u32>(shape, perm);
        check_transpose::<u64>(shape, perm);
    }
}

#[test]
fn slices_read_and_write_the_same_elements() {
    let shape = [7, 6, 5];
    let x: Vec<u32> = count(&shape);
    let cases: [([usize; 3], [isize; 3], [usize; 3]); 5] = [
        ([0, 0, 0], [1, 1, 1], [7, 6, 5]),
        ([1, 2, 0], [2, 1, 1], [3, 4, 5]),
        ([6, 5, 4], [-1, -2, -3], [7, 3, 2]),
        ([3, 0, 2], [1, 1, 1], [1, 6, 1]),
        ([3, 0, 2], [1, 1, 1], [0, 6, 1]),
    ];
    for (begin, step, out) in cases {
        let mut y = vec![0; out.iter().product()];
        slice((&x, &shape), &begin, &step, (&mut y, &out));
        let from = |index: &[usize]| {
            let source: Vec<usize> =
                (0..3).map(|k| (begin[k] as isize + index[k] as isize * step[k]) as usize).collect();
            at(&shape, &source)
        };
        let mut assigned = vec![999; x.len()];
        slice_assign((&y, &out), &begin, &step, (&mut assigned, &shape));
        let mut filled = vec![0; x.len()];
        slice_fill(1, &out, &begin, &step, (&mut filled, &shape));
        let offsets: Vec<usize> = indices(&out).iter().map(|i| from(i)).collect();
        for (k, &p) in offsets.iter().enumerate() {
            assert_eq!(y[k], x[p]);
        }
        for p in 0..x.len() {
            let inside = offsets.contains(&p);
            assert_eq!(assigned[p], if inside { x[p] } else { 999 });
            assert_eq!(filled[p], u32::from(inside));
        }
    }
}

#[test]
fn repetitions() {
    let x: Vec<u16> = count(&[2, 3]);
    let mut y = vec![0; 12];
    tile(&x, &[2, 3], &[1, 2], &mut y);
    assert_eq!(y, [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]);
    tile(&x, &[2, 3], &[2, 1, 1], &mut y);
    assert_eq!(y, [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
    repeat(&x, (1, 2, 3), 2, &mut y);
    assert_eq!(y, [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]);
    repeat(&x, (2, 3, 1), 2, &mut y);
    assert_eq!(y, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
    broadcast_to(&x, &[2, 1, 3], (&mut y, &[2, 2, 3]));
    assert_eq!(y, [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]);
    let mut y = vec![0; 6];
    flip(&x, &[2, 3], &[1], &mut y);
    assert_eq!(y, [2, 1, 0, 5, 4, 3]);
    flip(&x, &[2, 3], &[0, 1], &mut y);
    assert_eq!(y, [5, 4, 3, 2, 1, 0]);
    let big: Vec<u32> = (0..300_000).collect();
    let mut y = vec![0; big.len()];
    flip(&big, &[big.len()], &[0], &mut y);
    assert!(y.iter().rev().eq(&big));
}

#[test]
fn split_undoes_concat() {
    let (a, b): (Vec<u32>, Vec<u32>) = (count(&[3, 2]), count(&[3, 4]));
    let mut y = vec![0; 18];
    concat(&[(&a, 2), (&[], 0), (&b, 4)], &mut y);
    assert_eq!(y[..8], [0, 1, 0, 1, 2, 3, 2, 3]);
    let (mut c, mut d, mut none) = (vec![9; 6], vec![9; 12], []);
    split(&y, &mut [(&mut c, 2), (&mut none, 0), (&mut d, 4)]);
    assert_eq!((a, b), (c, d));
}

#[test]
fn paddings() {
    let x = [1u8, 2, 3];
    let mut y = [0; 8];
    pad(&x, &[3], &[(2, 3)], Padding::Constant(9), &mut y);
    assert_eq!(y, [9, 9, 1, 2, 3, 9, 9, 9]);
    pad(&x, &[3], &[(2, 3)], Padding::Edge, &mut y);
    assert_eq!(y, [1, 1, 1, 2, 3, 3, 3, 3]);
    pad(&x, &[3], &[(2, 3)], Padding::Reflect, &mut y);
    assert_eq!(y, [3, 2, 1, 2, 3, 2, 1, 2]);
    let mut y = [0; 12];
    pad(&[1, 2, 3, 4], &[2, 2], &[(1, 0), (1, 1)], Padding::Constant(0), &mut y);
    assert_eq!(y, [0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4, 0]);
    pad(&[1, 2, 3, 4], &[2, 2], &[(1, 0), (1, 1)], Padding::Reflect, &mut y);
    assert_eq!(y, [4, 3, 4, 3, 2, 1, 2, 1, 4, 3, 4, 3]);
}

#[test]
fn diagonals_are_read_and_written() {
    let x: Vec<i32> = (0..24).collect();
    let mut y = vec![0; 6];
    diagonal(&x, &[2, 3, 4], (2, 0), 0, &mut y);
    assert_eq!(y, [0, 13, 4, 17, 8, 21]);
    let mut y = vec![0; 4];
    diagonal(&x, &[2, 3, 4], (0, 1), -1, &mut y);
    assert_eq!(y, [12, 13, 14, 15]);
    diagonal(&x, &[2, 3, 4], (0, 1), 9, &mut []);
    let mut m = vec![0; 12];
    diagonal_assign(&[7, 8], (&mut m, &[3, 4]), (0, 1), 2);
    assert_eq!(m, [0, 0, 7, 0, 0, 0, 0, 8, 0, 0, 0, 0]);
}

#[test]
fn axes_are_permuted_and_reversed_at_once() {
    let x = [0, 1, 2, 3, 4, 5];
    let mut y = [0; 6];
    permute_flip(&x, &[2, 3], &[1, 0], &[false, true], &mut y);
    assert_eq!(y, [2, 5, 1, 4, 0, 3]);
    permute_flip(&x, &[2, 3], &[0, 1], &[true, false], &mut y);
    assert_eq!(y, [3, 4, 5, 0, 1, 2]);
}

#[test]
fn elements_roll_around() {
    let x = [0, 1, 2, 3, 4, 5];
    let mut y = [0; 6];
    roll(&x, (1, 6, 1), 1, &mut y);
    assert_eq!(y, [5, 0, 1, 2, 3, 4]);
    roll(&x, (2, 3, 1), 2, &mut y);
    assert_eq!(y, [1, 2, 0, 4, 5, 3]);
    roll(&x, (1, 2, 3), 1, &mut y);
    assert_eq!(y, [3, 4, 5, 0, 1, 2]);
}

/// The elements of a strided view of `x` in order.
fn view(x: &[u16], start: usize, axes: &[(usize, isize)]) -> Vec<u16> {
    let shape: Vec<usize> = axes.iter().map(|axis| axis.0).collect();
    let offset = |index: &Vec<usize>| index.iter().zip(axes).map(|(i, axis)| *i as isize * axis.1).sum::<isize>();
    indices(&shape).iter().map(|index| x[(start as isize + offset(index)) as usize]).collect()
}

#[test]
fn runs_of_every_length_and_stride_are_copied() {
    let x: Vec<u16> = (0..40_000).collect();
    for n in [1, 2, 3, 5, 8, 15, 16, 17, 40, 300] {
        let mut y = vec![0; 12 * n];
        slice((&x[..20 * n], &[4, 5 * n]), &[0, n], &[1, 1], (&mut y[..4 * n], &[4, n]));
        assert_eq!(y[..4 * n], view(&x, n, &[(4, 5 * n as isize), (n, 1)]), "slice {n}");
        for step in [2isize, 3, -1, -2] {
            let (begin, last) = if step > 0 { (1, 5 * n as isize - 1) } else { (5 * n - 1, 5 * n as isize - 1) };
            let count = (last / step.abs()) as usize;
            let mut y = vec![0; 4 * count];
            slice((&x[..20 * n], &[4, 5 * n]), &[0, begin], &[1, step], (&mut y, &[4, count]));
            assert_eq!(y, view(&x, begin, &[(4, 5 * n as isize), (count, step)]), "slice {n} by {step}");
        }
        for times in [1, 2, 3, 4, 7, 8, 16, 17] {
            for inner in [1, 3] {
                let mut y = vec![0; 4 * n * inner * times];
                repeat(&x[..4 * n * inner], (4, n, inner), times, &mut y);
                let want = view(&x, 0, &[(4 * n, inner as isize), (times, 0), (inner, 1)]);
                assert_eq!(y, want, "{n} elements of {inner} repeated {times} times");
            }
        }
        let mut y = vec![0; 4 * n * 3];
        tile(&x[..4 * n], &[4, n], &[1, 3], &mut y);
        assert_eq!(y, view(&x, 0, &[(4, n as isize), (3, 0), (n, 1)]), "tile {n}");
        for parts in 1..6 {
            let arrays: Vec<_> = (0..parts).map(|i| (&x[i * 100..][..9 * n], n)).collect();
            let mut y = vec![0; 9 * n * parts];
            concat(&arrays, &mut y);
            assert_eq!(y, view(&x, 0, &[(9, n as isize), (parts, 100), (n, 1)]), "{parts} parts of {n}");
        }
    }
    let big: Vec<u32> = (0..100_000).collect();
    let mut y = vec![0; 500_000];
    repeat(&big, (1, big.len(), 1), 5, &mut y);
    assert!(y.iter().enumerate().all(|(i, y)| *y as usize == i / 5));
}

#[test]
fn rows_are_padded_by_their_definition() {
    let shape = [2, 3, 4, 20];
    let x: Vec<u16> = count(&shape);
    // The distance from the border of the element that the padding next to it repeats.
    for (mode, distance) in [
        (Padding::Constant(7), None),
        (Padding::Edge, Some(0)),
        (Padding::Reflect, Some(1)),
        (Padding::Symmetric, Some(0)),
    ] {
        let out = [2, 3, 6, 22];
        let mut y = vec![0; 2 * 3 * 6 * 22];
        pad(&x, &shape, &[(0, 0), (0, 0), (1, 1), (1, 1)], mode, &mut y);
        let of = |i: usize, n: usize| match i {
            0 => distance,
            i if i > n => distance.map(|distance| n - 1 - distance),
            i => Some(i - 1),
        };
        for index in indices(&out) {
            let from = of(index[2], 4).zip(of(index[3], 20));
            let want = from.map_or(7, |(h, w)| x[at(&shape, &[index[0], index[1], h, w])]);
            assert_eq!(y[at(&out, &index)], want, "{mode:?} {index:?}");
        }
    }
}
