use super::*;
use crate::par::{num_threads, set_num_threads};
use ferromx_core::dtype::f16;

#[test]
fn philox_gives_the_published_words() {
    assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    let counter = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
    let want = [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1];
    assert_eq!(philox(counter, [0xa409_3822, 0x299f_31d0]), want);
}

const N: usize = 200_000;

fn moments(x: &[f64]) -> (f64, f64) {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    (mean, x.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / x.len() as f64)
}

/// The Kolmogorov-Smirnov statistic times the root of the sample size; exceeds 1.95 with a probability of 0.001.
fn kolmogorov(x: &[f64], cdf: impl Fn(f64) -> f64) -> f64 {
    let mut x = x.to_vec();
    x.sort_by(f64::total_cmp);
    let n = x.len() as f64;
    let d =
        x.iter().enumerate().map(|(i, &v)| (cdf(v) - i as f64 / n).abs().max((cdf(v) - (i as f64 + 1.0) / n).abs()));
    d.fold(0.0, f64::max) * n.sqrt()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// Mean and variance within five standard errors, the latter by a rough bound on the fourth moment.
fn check_moments(x: &[f64], mean: f64, variance: f64) {
    let (m, v) = moments(x);
    let n = x.len() as f64;
    assert!((m - mean).abs() <= 5.0 * (variance / n).sqrt() + 1e-9, "mean {m}, not {mean}");
    assert!((v / variance - 1.0).abs() <= 5.0 * (12.0 / n).sqrt(), "variance {v}, not {variance}");
}

#[test]
fn uniform_numbers() {
    let g = Philox::new(42, 1);
    let mut x = vec![0f32; N];
    g.fill_uniform(-1.0, 3.0, &mut x);
    assert!(x.iter().all(|x| (-1.0..3.0).contains(x)));
    assert!(kolmogorov(&wide(&x), |x| (x + 1.0) / 4.0) < 1.95);
    let mut y = vec![0f64; N];
    g.fill_uniform(0.0, 1.0, &mut y);
    assert!(kolmogorov(&y, |x| x) < 1.95);
    let neighbors: f64 = y.windows(2).map(|w| (w[0] - 0.5) * (w[1] - 0.5)).sum::<f64>() / N as f64 * 12.0;
    assert!(neighbors.abs() < 5.0 / (N as f64).sqrt());
    let mut other = vec![0f32; N];
    Philox::new(42, 2).fill_uniform(-1.0, 3.0, &mut other);
    let same = x.iter().zip(&other).filter(|(a, b)| a == b).count();
    assert!(same < 10, "streams share {same} numbers");
}

#[test]
fn normal_and_exponential_numbers() {
    let cdf = |x: f64| 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
    let mut x = vec![0f32; N];
    Philox::new(7, 0).fill_normal(0.0, 1.0, &mut x);
    assert!(kolmogorov(&wide(&x), cdf) < 1.95);
    let mut y = vec![0f64; N];
    Philox::new(7, 0).fill_normal(2.0, 3.0, &mut y);
    assert!(kolmogorov(&y, |x| cdf((x - 2.0) / 3.0)) < 1.95);
    let mut h = vec![f16::ZERO; N];
    Philox::new(8, 0).fill_normal(0.0, 1.0, &mut h);
    check_moments(&h.iter().map(|x| x.to_f64()).collect::<Vec<_>>(), 0.0, 1.0);
    Philox::new(7, 1).fill_exponential(0.5, &mut x);
    assert!(kolmogorov(&wide(&x), |x| 1.0 - (-0.5 * x).exp()) < 1.95);
    Philox::new(7, 1).fill_exponential(4.0, &mut y);
    assert!(kolmogorov(&y, |x| 1.0 - (-4.0 * x).exp()) < 1.95);
}

#[test]
fn masks_and_integers() {
    let mut x = vec![0f32; N];
    Philox::new(1, 1).fill_bernoulli(0.3, 2.0, &mut x);
    assert!(x.iter().all(|&x| x == 0.0 || x == 2.0));
    check_moments(&wide(&x), 0.6, 0.84);
    Philox::new(1, 1).fill_bernoulli(1.0, 2.0, &mut x);
    assert!(x.iter().all(|&x| x == 2.0));
    Philox::new(1, 1).fill_bernoulli(0.0, 2.0, &mut x);
    assert!(x.iter().all(|&x| x == 0.0));
    let mut i = vec![0i64; N];
    Philox::new(1, 2).fill_int(-3, 7, &mut i);
    for v in -3..7 {
        let count = i.iter().filter(|&&x| x == v).count() as f64;
        assert!((count - 20_000.0).abs() < 5.0 * 18_000f64.sqrt(), "{v}: {count}");
    }
    assert!(i.iter().all(|x| (-3..7).contains(x)));
    Philox::new(1, 2).fill_int(i64::MIN, i64::MAX, &mut i);
    assert!((i.iter().filter(|x| **x < 0).count() as f64 - 1e5).abs() < 5.0 * 5e4f64.sqrt());
    let mut order = Philox::new(3, 3).permutation(1000);
    assert!(order.iter().enumerate().filter(|(i, o)| i == *o).count() < 10);
    order.sort_unstable();
    assert!(order.into_iter().eq(0..1000));
}

#[test]
fn other_distributions() {
    let sample = |f: &(dyn Fn(&mut Draws) -> f64 + Sync)| {
        let mut x = vec![0f64; N];
        Philox::new(5, 5).fill_with(&mut x, |_, d| f(d));
        x
    };
    for shape in [0.3, 1.0, 2.5, 50.0] {
        let (m, v) = moments(&sample(&|d| d.gamma(shape)));
        assert!((m / shape - 1.0).abs() < 0.025 && (v / shape - 1.0).abs() < 0.06, "{shape}: {m} {v}");
    }
    assert!(kolmogorov(&sample(&|d| d.gamma(1.0)), |x| 1.0 - (-x).exp()) < 1.95);
    for mean in [0.1, 4.0, 9.9, 10.0, 31.0, 1000.0] {
        check_moments(&sample(&|d| d.poisson(mean)), mean, mean);
    }
    check_moments(&sample(&|d| d.negative_binomial(3.0, 0.4)), 4.5, 11.25);
    check_moments(&sample(&|d| d.generalized_negative_binomial(2.0, 0.5)), 2.0, 4.0);
    check_moments(&sample(&|d| d.generalized_negative_binomial(2.0, 0.0)), 2.0, 2.0);
    for (n, p) in [(3.0, 0.3), (40.0, 0.2), (40.0, 0.8), (1000.0, 0.4), (1e9, 0.5), (1e9, 1e-9), (7.0, 0.0), (7.0, 1.0)]
    {
        let (m, v) = moments(&sample(&|d| d.binomial(n, p)));
        let (mean, variance) = (n * p, n * p * (1.0 - p));
        assert!((m - mean).abs() <= 5.0 * (variance / N as f64).sqrt(), "{n} {p}: mean {m}");
        assert!((v - variance).abs() <= 0.03 * variance, "{n} {p}: variance {v}");
    }
    let mut d = Philox::new(0, 0).draws(0);
    assert!(d.gamma(-1.0).is_nan() && d.poisson(-1.0).is_nan() && d.poisson(0.0) == 0.0);
    assert!(d.binomial(3.0, 1.5).is_nan() && d.negative_binomial(0.0, 0.5) == 0.0);
}

/// Counts of the outcomes 0, 1, 2, ... up to `n`.
fn histogram(x: impl IntoIterator<Item = f64>, n: usize) -> Vec<f64> {
    let mut counts = vec![0.0; n];
    x.into_iter().filter(|x| *x < n as f64).for_each(|x| counts[x as usize] += 1.0);
    counts
}

#[test]
fn binomial_and_poisson_numbers_have_their_probabilities() {
    let log_factorial = |n: f64| libm::lgamma(n + 1.0);
    let check = |name: &str, x: Vec<f64>, log_p: &dyn Fn(f64) -> f64| {
        for (k, count) in histogram(x, 60).into_iter().enumerate() {
            let p = log_p(k as f64).exp();
            assert!((count - p * N as f64).abs() < 5.0 * (N as f64 * p).sqrt() + 0.5, "{name}, {k}: {count}");
        }
    };
    let sample = |f: &(dyn Fn(&mut Draws) -> f64 + Sync)| {
        let mut x = vec![0f64; N];
        Philox::new(8, 5).fill_with(&mut x, |_, d| f(d));
        x
    };
    for (n, p) in [(12.0, 0.3), (60.0, 0.45), (100.0, 0.2f64)] {
        let log_p = |k: f64| {
            if k > n {
                return f64::NEG_INFINITY;
            }
            log_factorial(n) - log_factorial(k) - log_factorial(n - k) + k * p.ln() + (n - k) * (1.0 - p).ln()
        };
        check("binomial", sample(&|d| d.binomial(n, p)), &log_p);
    }
    for mean in [0.5, 7.0, 12.0f64] {
        let log_p = |k: f64| k * mean.ln() - mean - log_factorial(k);
        check("poisson", sample(&|d| d.poisson(mean)), &log_p);
        let mut table = vec![0f64; N];
        Philox::new(8, 6).fill_poisson(mean, &mut table);
        check("poisson by table", table, &log_p);
    }
}

#[test]
fn numbers_from_tables_and_from_draws_have_their_means_and_variances() {
    let random = Philox::new(2, 4);
    let fill = |f: &dyn Fn(&mut [f64])| {
        let mut x = vec![0f64; N];
        f(&mut x);
        moments(&x)
    };
    for (k, p) in [(3.0, 0.4), (0.7, 0.2), (2.0, 1e-4), (0.0, 0.3), (5.0, 1.0)] {
        let (m, v) = fill(&|x| random.fill_negative_binomial(k, p, x));
        let mean = k * (1.0 - p) / p;
        assert!((m - mean).abs() <= 0.02 * mean && (v - mean / p).abs() <= 0.05 * mean / p, "{k} {p}: {m} {v}");
    }
    for (mu, alpha) in [(2.0, 0.5), (2.0, 0.0), (0.0, 2.0), (3e4, 0.1)] {
        let (m, v) = fill(&|x| random.fill_generalized_negative_binomial(mu, alpha, x));
        let variance = mu + alpha * mu * mu;
        assert!((m - mu).abs() <= 0.02 * mu && (v - variance).abs() <= 0.05 * variance, "{mu} {alpha}: {m} {v}");
    }
    for mean in [-1.0, f64::NAN] {
        let mut x = [0f32; 3];
        random.fill_poisson(mean, &mut x);
        assert!(x.iter().all(|x| x.is_nan()));
    }
}

#[test]
fn outcomes_follow_their_weights() {
    let (weights, random) = ([1.0, 0.0, 3.0, 4.0], Philox::new(5, 6));
    let near = |count: f64, p: f64| (count - p * N as f64).abs() < 5.0 * (N as f64 * p * (1.0 - p)).sqrt() + 0.5;
    let mut x = vec![0i64; N];
    random.fill_inverted(&Inversion::new(weights), &mut x);
    for (count, weight) in histogram(x.iter().map(|x| *x as f64), 4).into_iter().zip(weights) {
        assert!(near(count, weight / 8.0), "{count}");
    }
    // By a search and by a table.
    let probabilities: Vec<f64> = [0.125, 0.0, 0.375, 0.5].into_iter().chain([0.0; 60]).collect();
    for num_samples in [2, N] {
        let mut classes = vec![0; N];
        let rows = probabilities.repeat(N / num_samples);
        sample_classes(&random, (&rows, probabilities.len()), &mut classes);
        let by_search: Vec<f64> = classes.into_iter().map(f64::from).collect();
        assert_eq!(by_search, x.iter().map(|x| *x as f64).collect::<Vec<_>>(), "{num_samples}");
    }
    // Without a positive weight the last class is certain, by both ways.
    for num_samples in [1, 64] {
        let mut classes = vec![0; num_samples];
        sample_classes(&random, (&[0f64; 64], 64), &mut classes);
        assert!(classes.iter().all(|class| *class == 63), "{classes:?}");
    }
    sample_classes(&random, (&[0f64; 0], 0), &mut []);
    let mut counts = [0i64; 8];
    random.fill_multinomial(N as i32, &weights, &mut counts);
    for row in counts.chunks(4) {
        assert_eq!(row.iter().sum::<i64>(), N as i64);
        assert!(row.iter().zip(weights).all(|(count, weight)| near(*count as f64, weight / 8.0)), "{row:?}");
    }
    random.fill_multinomial(9, &[0.0; 4], &mut counts);
    assert_eq!(counts, [0, 0, 0, 9, 0, 0, 0, 9]);
    // The second of two: 3 after 4 with probability 1/2 * 3/4, and 4 after 3 with 3/8 * 4/5, and so on.
    let orders: Vec<_> = (0..20_000).map(|i| Philox::new(i, 1).weighted_order(&weights)).collect();
    let frequency = |want: &[usize]| orders.iter().filter(|order| *order == want).count() as f64 / 20_000.0;
    assert!((frequency(&[3, 2, 0]) - 0.5 * 0.75).abs() < 0.02);
    assert!((frequency(&[0, 2, 3]) - 0.125 * 3.0 / 7.0).abs() < 0.01);
}

#[test]
fn elements_do_not_depend_on_length_or_threads() {
    let run = |n: usize| {
        let g = Philox::new(9, 9);
        let (mut x, mut h, mut p) = (vec![0f32; n], vec![f16::ZERO; n], vec![0f64; n]);
        g.fill_normal(0.0, 1.0, &mut x);
        g.fill_normal(0.0, 1.0, &mut h);
        g.fill_with(&mut p, |i, d| d.poisson(i as f64 % 20.0));
        assert!(x.iter().zip(&h).all(|(x, h)| f16::from_f32(*x) == *h));
        (x, p)
    };
    let before = num_threads();
    set_num_threads(1);
    let one = run(100_001);
    set_num_threads(2);
    assert_eq!(one, run(100_001));
    set_num_threads(before);
    for n in [0, 1, 63, 64, 65, 700] {
        let part = run(n);
        assert_eq!((&one.0[..n], &one.1[..n]), (&part.0[..], &part.1[..]));
    }
}

#[test]
fn integers_and_permutations_follow_the_draws() {
    let random = Philox::new(5, 3);
    for (low, high) in [(0, 100), (-7, 3), (i64::MIN, i64::MAX), (4, 4)] {
        let mut out = vec![0i64; 3000];
        random.fill_int(low, high, &mut out);
        let range = (i128::from(high) - i128::from(low)).max(1) as u128;
        for (i, x) in out.iter().enumerate() {
            let offset = (u128::from(random.draws(i as u64).word64()) * range) >> 64;
            assert_eq!(*x, low.wrapping_add(offset as i64), "element {i} of {low} to {high}");
        }
    }
    for n in [0, 1, 2, 511, 513, 5000] {
        let mut want: Vec<usize> = (0..n).collect();
        let mut draws = random.draws(0);
        (1..n).rev().for_each(|i| want.swap(i, draws.below(i + 1)));
        assert_eq!(random.permutation(n), want);
    }
}

#[test]
fn normal_and_gamma_numbers_keep_their_bits() {
    for element in 0..20_000 {
        let (mut fast, mut slow) = (Philox::new(1, 2).draws(element), Philox::new(1, 2).draws(element));
        let normal = slow.uniform();
        assert_eq!(fast.normal().to_bits(), draws::box_muller(normal, slow.uniform()).0.to_bits());
        let shape = 1.0 + element as f64 / 100.0;
        let gamma = fast.gamma(shape);
        // Without the early acceptance.
        let d = shape - 1.0 / 3.0;
        let want = loop {
            let x = slow.normal();
            let root = 1.0 + 1.0 / (9.0 * d).sqrt() * x;
            if root <= 0.0 {
                continue;
            }
            let v = root * root * root;
            if libm::log(1.0 - slow.uniform()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                break d * v;
            }
        };
        assert_eq!(gamma.to_bits(), want.to_bits());
    }
}
