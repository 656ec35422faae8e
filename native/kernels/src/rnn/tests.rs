use super::*;
use crate::par::set_num_threads;

/// Numbers between -0.5 and 0.5 with a long period.
fn numbers<T: RnnElement>(n: usize, seed: usize) -> Vec<T> {
    (0..n).map(|i| <T as math::MathFloat>::of(((i * 7919 + seed * 104_729) % 1009) as f64 / 1009.0 - 0.5)).collect()
}

fn geometry(cell: Cell, steps: usize) -> Geometry {
    Geometry {
        cell,
        layers: 2,
        bidirectional: true,
        steps,
        batch: 5,
        input: 7,
        hidden: 19,
        projection: None,
        clip: None,
        dropout: 0.0,
        has_lengths: false,
    }
}

/// Output, last states, and gradients of input and parameters, concatenated.
fn run<T: RnnElement>(g: &Geometry, keep: bool) -> Vec<T> {
    let stacked = g.layers * g.directions() * g.batch;
    let (x, parameters) = (numbers::<T>(g.items() * g.input, 1), numbers::<T>(g.parameters(), 2));
    let (h0, c0) = (numbers::<T>(stacked * g.state(), 3), numbers::<T>(stacked * g.hidden, 4));
    let ins = Inputs { x: &x, parameters: &parameters, h0: &h0, c0: &c0, lengths: None };
    let mut y = vec![T::ZERO; g.items() * g.output()];
    let mut h = vec![T::ZERO; h0.len()];
    let mut reserve = vec![T::ZERO; if keep { g.reserve() } else { 0 }];
    let kept = if keep { Some(&mut reserve[..]) } else { None };
    forward(g, &ins, Outputs { y: &mut y, h: Some(&mut h), c: None, reserve: kept }, None);
    let mut all = [&y[..], &h].concat();
    if keep {
        let dy = numbers::<T>(y.len(), 5);
        let (mut dx, mut dp) = (vec![T::ZERO; x.len()], vec![T::ZERO; parameters.len()]);
        let (x, parameters) = (Some(&mut dx[..]), Some(&mut dp[..]));
        let grads = Gradients { dy: &dy, dh: None, dc: None, x, parameters, h0: None, c0: None };
        backward(g, &ins, &y, &reserve, grads);
        all.extend(dx);
        all.extend(dp);
    }
    all
}

const CELLS: [Cell; 4] = [Cell::Tanh, Cell::Relu, Cell::Lstm, Cell::Gru];

#[test]
fn single_precision_follows_double() {
    for cell in CELLS {
        // The weights are packed for four steps or more.
        for steps in [1, 3, 9] {
            let g = geometry(cell, steps);
            for (single, double) in run::<f32>(&g, true).iter().zip(run::<f64>(&g, true)) {
                assert!(
                    (f64::from(*single) - double).abs() < 1e-4 * double.abs().max(1.0),
                    "{cell:?}: {single}, {double}"
                );
            }
        }
    }
}

#[test]
fn storing_the_reserve_changes_no_result() {
    for cell in CELLS {
        let g = Geometry { layers: 4, ..geometry(cell, 6) };
        let (kept, not) = (run::<f64>(&g, true), run::<f64>(&g, false));
        assert_eq!(kept[..not.len()], not);
    }
}

#[test]
fn threads_do_not_change_bits() {
    let g = Geometry { batch: 64, hidden: 96, ..geometry(Cell::Lstm, 4) };
    let with = |threads| {
        let before = set_num_threads(threads);
        let all = run::<f32>(&g, true);
        set_num_threads(before);
        all
    };
    assert!(with(1) == with(2));
}

#[test]
fn empty_sizes_are_allowed() {
    for cell in CELLS {
        let g = Geometry { steps: 0, ..geometry(cell, 0) };
        let all = run::<f32>(&g, true);
        let h0 = numbers::<f32>(g.layers * 2 * g.batch * g.state(), 3);
        assert_eq!(all[..h0.len()], h0);
        assert!(all[h0.len()..].iter().all(|x| *x == 0.0));
        assert!(run::<f32>(&Geometry { batch: 0, ..geometry(cell, 3) }, true).iter().all(|x| *x == 0.0));
    }
}

#[test]
fn parameters_are_counted_without_visiting_the_layers() {
    let g = geometry(Cell::Gru, 1);
    let counts = [1, 2, 3].map(|layers| Geometry { layers, ..g }.parameters());
    assert_eq!(counts, [3192, 3192 + 6726, 3192 + 2 * 6726]);
    assert_eq!(Geometry { layers: usize::MAX, ..g }.parameters(), usize::MAX);
}
