//! The operators that draw random numbers.

use std::f64::consts::PI;

use ferromx_core::dtype::DType;

use super::Input::{Csr, Fill, Values};
use super::Law::{Continuous, Discrete};
use super::Take::{All, Call, Map, Step};
use super::{Draw, Law, gamma_below, negative_binomial, normal, poisson};

const EULER: f64 = 0.577_215_664_901_532_9;

const N: (&str, &str) = ("shape", "(40000,)");
const SIZE: (&str, &str) = ("size", "(40000,)");
const LIKE: super::Input = Fill(0.0, &[40_000], DType::F32);

const fn one(x: &'static [f64]) -> super::Input {
    Values(x, &[1], DType::F32)
}

const UNIFORM: Law = Continuous(|x| (x + 1.0) / 3.0, 0.5, 0.75);
const UNIT: Law = Continuous(|x| x, 0.5, 1.0 / 12.0);
const NORMAL: Law = Continuous(|x| normal((x - 3.0) / 2.0), 3.0, 4.0);
const EXPONENTIAL: Law = Continuous(|x| 1.0 - (-4.0 * x).exp(), 0.25, 0.0625);
const GAMMA: Law = Continuous(|x| gamma_below(2.5, x / 4.0), 10.0, 40.0);
const POISSON: Law = Discrete(|k| poisson(3.0, k), 0, 60);
const NEGATIVE_BINOMIAL: Law = Discrete(|k| negative_binomial(3.0, 0.2, k), 0, 400);
const GENERALIZED: Law = Discrete(|k| negative_binomial(4.0, 4.0 / 9.0, k), 0, 400);
const FIVE: Law = Discrete(|_| 0.2, 0, 4);
const COIN: Law = Discrete(|_| 0.5, 0, 1);
const KEPT: Law = Discrete(|k| if k == 0.0 { 0.4 } else { 0.6 }, 0, 1);
const WEIGHTED: Law = Discrete(|k| (k + 1.0) / 10.0, 0, 3);
const FACTOR: Law = Continuous(|x| x - 0.5, 1.0, 1.0 / 12.0);

const FACTORS: &[(&str, &str)] = &[("min_factor", "0.5"), ("max_factor", "1.5")];
/// A red pixel.
const RED: super::Input = Values(&[1.0, 0.0, 0.0], &[1, 1, 3], DType::F32);
/// Weight of red in the gray value of a pixel.
const GRAY: f64 = 0.299;

fn flag(positive: f64) -> f64 {
    f64::from(positive > 0.0)
}

/// The variance of red under PCA lighting noise with standard deviation 0.1: squares of eigenvalues times eigenvectors.
const RED_SPREAD: f64 = {
    let (a, b, c) = (55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009);
    0.01 * (a * a + b * b + c * c)
};

macro_rules! draws {
    ($($op:literal [$($attr:expr),*] ($($input:expr),*) $take:expr => $law:expr;)*) => {
        /// Every operator that draws random numbers itself, with parameters, inputs and distribution.
        pub static DRAWS: &[Draw] =
            &[$(Draw { op: $op, attrs: &[$($attr),*], inputs: &[$($input),*], take: $take, law: $law }),*];
    };
}

draws! {
    "_random_uniform" [("low", "-1"), ("high", "2"), N] () All => UNIFORM;
    "_random_uniform_like" [("low", "-1"), ("high", "2")] (LIKE) All => UNIFORM;
    "_random_normal" [("loc", "3"), ("scale", "2"), N] () All => NORMAL;
    "_random_normal_like" [("loc", "3"), ("scale", "2")] (LIKE) All => NORMAL;
    "_random_exponential" [("lam", "4"), N] () All => EXPONENTIAL;
    "_random_exponential_like" [("lam", "4")] (LIKE) All => EXPONENTIAL;
    "_random_gamma" [("alpha", "2.5"), ("beta", "4"), N] () All => GAMMA;
    "_random_gamma_like" [("alpha", "2.5"), ("beta", "4")] (LIKE) All => GAMMA;
    "_random_poisson" [("lam", "3"), N] () All => POISSON;
    "_random_poisson_like" [("lam", "3")] (LIKE) All => POISSON;
    "_random_negative_binomial" [("k", "3"), ("p", "0.2"), N] () All => NEGATIVE_BINOMIAL;
    "_random_negative_binomial_like" [("k", "3"), ("p", "0.2")] (LIKE) All => NEGATIVE_BINOMIAL;
    "_random_generalized_negative_binomial" [("mu", "5"), ("alpha", "0.25"), N] () All => GENERALIZED;
    "_random_generalized_negative_binomial_like" [("mu", "5"), ("alpha", "0.25")] (LIKE) All => GENERALIZED;
    "_random_randint" [("low", "-5"), ("high", "6"), N] () All => Discrete(|_| 1.0 / 11.0, -5, 5);
    "_sample_uniform" [N] (one(&[-1.0]), one(&[2.0])) All => UNIFORM;
    "_sample_normal" [N] (one(&[3.0]), one(&[2.0])) All => NORMAL;
    "_sample_exponential" [N] (one(&[4.0])) All => EXPONENTIAL;
    "_sample_gamma" [N] (one(&[2.5]), one(&[4.0])) All => GAMMA;
    "_sample_poisson" [N] (one(&[3.0])) All => POISSON;
    "_sample_negative_binomial" [N] (one(&[3.0]), one(&[0.2])) All => NEGATIVE_BINOMIAL;
    "_sample_generalized_negative_binomial" [N] (one(&[5.0]), one(&[0.25])) All => GENERALIZED;
    "_sample_multinomial" [N] (Values(&[0.1, 0.2, 0.3, 0.4], &[4], DType::F32)) All => WEIGHTED;
    "_sample_unique_zipfian" [("range_max", "10"), ("shape", "(40000, 1)")] () All
        => Discrete(|k| ((k + 2.0) / (k + 1.0)).ln() / 11f64.ln(), 0, 9);
    "_shuffle" [] (Values(&[0.0, 1.0, 2.0, 3.0, 4.0], &[5], DType::F32)) Call(|x| x[1]) => FIVE;
    "_npi_uniform" [("low", "-1"), ("high", "2"), SIZE] () All => UNIFORM;
    "_npi_uniform_n" [("low", "-1"), ("high", "2"), SIZE] () All => UNIFORM;
    "_npi_normal" [("loc", "3"), ("scale", "2"), SIZE] () All => NORMAL;
    "_npi_normal_n" [("loc", "3"), ("scale", "2"), SIZE] () All => NORMAL;
    "_npi_gumbel" [("loc", "1"), ("scale", "2"), SIZE] () All
        => Continuous(|x| (-(-(x - 1.0) / 2.0).exp()).exp(), 1.0 + 2.0 * EULER, 4.0 * PI * PI / 6.0);
    "_npi_logistic" [("loc", "1"), ("scale", "2"), SIZE] () All
        => Continuous(|x| 1.0 / (1.0 + (-(x - 1.0) / 2.0).exp()), 1.0, 4.0 * PI * PI / 3.0);
    "_npi_gamma" [("shape", "2.5"), ("scale", "4"), SIZE] () All => GAMMA;
    "_npi_exponential" [("scale", "0.25"), SIZE] () All => EXPONENTIAL;
    "_npi_rayleigh" [("scale", "2"), SIZE] () All
        => Continuous(|x| 1.0 - (-x * x / 8.0).exp(), 2.506_628_274_631_000_5, (4.0 - PI) * 2.0);
    "_npi_pareto" [("a", "6"), SIZE] () All => Continuous(|x| 1.0 - (1.0 + x).powi(-6), 0.2, 0.06);
    "_npi_weibull" [("a", "2"), SIZE] () All
        => Continuous(|x| 1.0 - (-x * x).exp(), 0.886_226_925_452_758, 1.0 - PI / 4.0);
    "_npi_powerd" [("a", "3"), SIZE] () All => Continuous(|x| x * x * x, 0.75, 0.0375);
    "_npi_bernoulli" [("prob", "0.6"), ("logit", "None"), ("is_logit", "False"), SIZE] () All => KEPT;
    "_npi_choice" [("a", "5"), SIZE] () All => FIVE;
    "_npi_choice" [("a", "4"), ("weighted", "True"), SIZE] (Values(&[0.1, 0.2, 0.3, 0.4], &[4], DType::F32)) All => WEIGHTED;
    "_npi_choice" [("a", "5"), ("size", "(2,)"), ("replace", "False")] () Call(|x| x[1]) => FIVE;
    "_npi_multinomial" [("n", "2"), ("pvals", "(0.3, 0.7)"), SIZE] () Step(2)
        => Discrete(|k| [0.49, 0.42, 0.09][k as usize], 0, 2);
    "Dropout" [("p", "0.4")] (Fill(1.0, &[40_000], DType::F32)) Map(flag) => KEPT;
    "LeakyReLU" [("act_type", "rrelu"), ("lower_bound", "0.25"), ("upper_bound", "0.75")] (Fill(-1.0, &[40_000], DType::F32))
        Map(|y| (-y - 0.25) * 2.0) => UNIT;
    "RNN" [("mode", "rnn_relu"), ("state_size", "1"), ("num_layers", "2"), ("p", "0.4")]
        (Fill(1.0, &[1, 40_000, 1], DType::F32), Values(&[1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0], &[8], DType::F32),
         Fill(0.0, &[2, 40_000, 1], DType::F32)) Map(flag) => KEPT;
    "_contrib_quantized_rnn" [("mode", "lstm"), ("state_size", "1"), ("num_layers", "2"), ("p", "0.4")]
        (Fill(100.0, &[1, 40_000, 1], DType::U8),
         Values(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
                  0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], &[32], DType::F32),
         Fill(0.0, &[2, 40_000, 1], DType::F32), Fill(0.0, &[2, 40_000, 1], DType::F32), one(&[10.0]), one(&[0.0]))
        Map(flag) => KEPT;
    "_image_random_brightness" [FACTORS[0], FACTORS[1]] (RED) Call(|x| x[0]) => FACTOR;
    "_image_random_contrast" [FACTORS[0], FACTORS[1]] (Values(&[0.0, 2.0], &[1, 2, 1], DType::F32)) Call(|x| 1.0 - x[0])
        => FACTOR;
    "_image_random_saturation" [FACTORS[0], FACTORS[1]] (RED) Call(|x| (x[0] - GRAY) / (1.0 - GRAY)) => FACTOR;
    "_image_random_hue" [("min_factor", "0"), ("max_factor", "0.125")] (Values(&[255.0, 0.0, 0.0], &[1, 1, 3], DType::F32))
        Call(|x| x[1] / 255.0 / 6.0 * 8.0) => UNIT;
    "_image_random_color_jitter" [("brightness", "0.5"), ("contrast", "0"), ("saturation", "0"), ("hue", "0")] (RED)
        Call(|x| x[0]) => FACTOR;
    "_image_random_lighting" [("alpha_std", "0.1")] (Fill(0.0, &[1, 1, 3], DType::F32)) Call(|x| x[0])
        => Continuous(|x| normal(x / RED_SPREAD.sqrt()), 0.0, RED_SPREAD);
    "_image_random_flip_left_right" [] (Values(&[0.0, 1.0], &[1, 2, 1], DType::F32)) Call(|x| x[0]) => COIN;
    "_image_random_flip_top_bottom" [] (Values(&[0.0, 1.0], &[2, 1, 1], DType::F32)) Call(|x| x[0]) => COIN;
    "_contrib_dgl_csr_neighbor_uniform_sample"
        [("num_args", "2"), ("num_hops", "1"), ("num_neighbor", "1"), ("max_num_vertices", "2")]
        (Csr(&STAR, &[6, 6], DType::I64), Values(&[0.0], &[1], DType::I64)) Call(|x| x[1] - 1.0) => FIVE;
    "_contrib_dgl_csr_neighbor_non_uniform_sample"
        [("num_args", "3"), ("num_hops", "1"), ("num_neighbor", "1"), ("max_num_vertices", "2")]
        (Csr(&STAR, &[6, 6], DType::I64), Values(&[0.0, 0.1, 0.2, 0.3, 0.4, 0.0], &[6], DType::F32),
         Values(&[0.0], &[1], DType::I64)) Call(|x| x[1] - 1.0) => WEIGHTED;
}

/// Edges 1 to 5 from vertex 0 to the others.
const STAR: [f64; 36] = {
    let mut edges = [0.0; 36];
    let mut k = 1;
    while k < 6 {
        edges[k] = k as f64;
        k += 1;
    }
    edges
};
