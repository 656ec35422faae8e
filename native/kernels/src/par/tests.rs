use super::pool::parse_threads;
use super::split::{grain_for_threads, num_chunks};
use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often each of `chunks` chunks ran.
fn counts(chunks: usize) -> Vec<usize> {
    let counts: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
    parallel_for(chunks, |chunk| {
        counts[chunk].fetch_add(1, Ordering::Relaxed);
    });
    counts.into_iter().map(AtomicUsize::into_inner).collect()
}

#[test]
fn every_chunk_runs_once() {
    for chunks in [0, 1, 2, 3, 17, 1000] {
        assert_eq!(counts(chunks), vec![1; chunks]);
    }
}

#[test]
fn thread_counts() {
    assert_eq!(parse_threads("4"), Some(4));
    assert_eq!(parse_threads(" 3,2"), Some(3));
    for bad in ["", "0", "-1", "many"] {
        assert_eq!(parse_threads(bad), None);
    }
    assert!(num_threads() >= 1);
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_survives() {
    for round in 0..50 {
        let finished = AtomicUsize::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            parallel_for(20, |chunk| {
                if chunk == round % 20 {
                    std::panic::panic_any(chunk);
                }
                finished.fetch_add(1, Ordering::Relaxed);
            });
        }));
        let payload = outcome.expect_err("the panic is passed on");
        assert_eq!(payload.downcast_ref::<usize>(), Some(&(round % 20)));
        assert_eq!(counts(9), vec![1; 9]);
    }
}

#[test]
fn nested_loops() {
    let total = AtomicUsize::new(0);
    parallel_for(8, |_| {
        parallel_for(8, |_| {
            parallel_for(3, |_| {
                total.fetch_add(1, Ordering::Relaxed);
            });
        });
    });
    assert_eq!(total.into_inner(), 8 * 8 * 3);
}

#[test]
fn loops_of_several_threads_at_once() {
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for round in 0..500 {
                    let chunks = round % 13;
                    assert_eq!(counts(chunks), vec![1; chunks]);
                }
            });
        }
    });
}

#[test]
fn more_threads_than_processors() {
    let before = set_num_threads(9);
    for round in 0..2000 {
        let chunks = round % 20;
        assert_eq!(counts(chunks), vec![1; chunks]);
    }
    set_num_threads(before);
}

#[test]
fn ranges_cover_everything_once() {
    for (len, grain) in [(0, 4), (1, 4), (8, 4), (9, 4), (5, 0)] {
        let hits: Vec<AtomicUsize> = (0..len).map(|_| AtomicUsize::new(0)).collect();
        parallel_ranges(len, grain, |range| {
            assert!(range.len() <= grain.max(1) && !range.is_empty());
            range.for_each(|i| {
                hits[i].fetch_add(1, Ordering::Relaxed);
            });
        });
        assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 1));
    }
    let counts = [(9, 4), (8, 4), (0, 4), (3, 0)].map(|(len, grain)| num_chunks(len, grain));
    assert_eq!(counts, [3, 2, 0, 3]);
}

#[test]
fn rows_are_written_in_place() {
    let mut data = vec![0; 11];
    parallel_rows(&mut data, 3, 2, |row, values| {
        for (col, value) in values.iter_mut().enumerate() {
            *value = 10 * row + col;
        }
    });
    assert_eq!(data, [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31]);

    let (mut squares, mut sums) = (vec![0; 8], vec![0; 4]);
    parallel_rows2((&mut squares, 2), (&mut sums, 1), 1, |row, squares, sum| {
        squares.copy_from_slice(&[row * row, row]);
        sum[0] = row * row + row;
    });
    assert_eq!((squares, sums), (vec![0, 0, 1, 1, 4, 2, 9, 3], vec![0, 2, 6, 12]));
}

#[test]
fn blocks_are_written_in_place() {
    let mut data = vec![0; 5 * 9];
    parallel_blocks(MatMut::new(&mut data, 5, 7, 9), 2, 3, |row, col, mut block| {
        for i in 0..block.rows() {
            for (j, value) in block.row_mut(i).iter_mut().enumerate() {
                *value = 10 * (row + i) + col + j + 1;
            }
        }
    });
    for (i, &value) in data.iter().enumerate() {
        let (row, col) = (i / 9, i % 9);
        assert_eq!(value, if col < 7 { 10 * row + col + 1 } else { 0 });
    }
}

#[test]
fn blocks_do_not_extend_over_two_groups() {
    let blocks = std::sync::Mutex::new(Vec::new());
    parallel_blocks_of_groups(MatMut::row_major(&mut [0; 8 * 4], 8, 4), 3, [2, 3], |row, col, block| {
        blocks.lock().unwrap().push((row, col, block.rows(), block.cols()));
    });
    let mut blocks = blocks.into_inner().unwrap();
    blocks.sort_unstable();
    let rows = [(0, 2), (2, 1), (3, 2), (5, 1), (6, 2)];
    let expected: Vec<_> = rows.iter().flat_map(|&(row, n)| [(row, 0, n, 3), (row, 3, n, 1)]).collect();
    assert_eq!(blocks, expected);
}

#[test]
fn views() {
    let data = [1, 2, 3, 4, 5, 6];
    let m = MatRef::row_major(&data, 2, 3).t().block(1, 0, 2, 2);
    assert_eq!((m.data()[0], m.rows(), m.cols(), m.row_stride(), m.col_stride()), (2, 2, 2, 1, 3));
    assert!(catch_unwind(|| MatRef::row_major(&data, 2, 4)).is_err());
    assert!(catch_unwind(|| MatRef::new(&data, 3, 3, usize::MAX, 1)).is_err());
    assert!(catch_unwind(|| MatRef::row_major(&data, 2, 3).block(1, 0, 2, 1)).is_err());
    assert!(catch_unwind(|| MatMut::new(&mut [0; 6], 2, 3, 2).rows()).is_err());
}

#[test]
fn scratch_is_aligned_reused_and_nested() {
    let address = |len: usize| with_scratch(len, |buffer: &mut [f32]| buffer.as_ptr() as usize);
    let first = address(100);
    assert_eq!(first % 64, 0);
    assert_eq!(address(50), first);
    with_scratch(100, |outer: &mut [f32]| {
        outer.fill(1.0);
        with_scratch(30, |inner: &mut [u8]| {
            inner.fill(7);
            with_scratch(1000, |last: &mut [f64]| last.fill(2.0));
            assert!(inner.iter().all(|&x| x == 7));
        });
        assert_eq!(outer.as_ptr() as usize, first);
        assert!(outer.iter().all(|&x| x == 1.0));
    });
    assert_eq!(with_scratch(0, |empty: &mut [u64]| empty.len()), 0);
    assert_eq!(address(100), first);

    let mut owned = AlignedVec::<f32>::zeroed(33);
    assert!(owned.iter().all(|&x| x == 0.0));
    owned[32] = 1.0;
    assert_eq!((owned.len(), owned[32], owned.as_ptr() as usize % 64), (33, 1.0, 0));
}

#[test]
fn chunks_are_fair() {
    let area = |rows: usize, cols: usize| (rows * cols) as f64;
    for (size, count, threads) in [
        ([1, 1], 1, 1),
        ([1, 7], 1, 1),
        ([1, 13], 1, 2),
        ([10, 1], 1, 2),
        ([3, 1], 1, 4),
        ([19, 13], 1, 2),
        ([19, 13], 3, 2),
        ([41, 100], 1, 7),
        ([5, 5], 100, 3),
    ] {
        let [rows, cols] = balanced_chunks(size, count, threads, area);
        let mut loads = vec![0; threads];
        for _ in 0..count {
            for (row, col) in (0..size[0]).step_by(rows).flat_map(|r| (0..size[1]).step_by(cols).map(move |c| (r, c))) {
                *loads.iter_mut().min().unwrap() += rows.min(size[0] - row) * cols.min(size[1] - col);
            }
        }
        let units = size[0] * size[1] * count;
        let most = *loads.iter().max().unwrap();
        assert!(
            most <= units.div_ceil(threads) + units / threads / 6,
            "{size:?} {threads}: {rows} x {cols}, {most} of {units}"
        );
    }
    assert_eq!(balanced_chunks([16, 1], 1, 2, area), [4, 1]);
    assert_eq!(balanced_chunks([16, 1], 1, 2, |rows, _| rows as f64 + 0.5), [8, 1]);
    assert_eq!(balanced_chunks([5, 1], 1, 2, |rows, _| rows as f64 + 0.5), [3, 1]);
}

#[test]
fn large_slices_are_copied_whole() {
    for len in [0, 1, 65_536, 200_001] {
        let from: Vec<u32> = (0..len).collect();
        let mut to = vec![7; from.len()];
        parallel_copy(&from, &mut to);
        assert_eq!(from, to);
    }
}

#[test]
fn small_loops_are_divided_among_all_threads() {
    let grain_for_eight = |len, grain| grain_for_threads(len, grain, 8);
    assert_eq!(grain_for_eight(100, 100), 100);
    assert_eq!(grain_for_eight(120, 100), 25);
    assert_eq!(grain_for_eight(400, 100), 50);
    assert_eq!(grain_for_eight(10_000, 100), 100);
    assert_eq!(grain_for_eight(3, 0), 1);
}
