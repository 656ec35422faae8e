//! Inputs and comparisons for tests.

/// Reproducible values, roughly uniform in -1..1.
pub(crate) fn random(len: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Asserts that each pair differs by at most `tolerance * (1 + |expected|)`; infinities and NaN must agree.
#[track_caller]
pub(crate) fn close(got: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let same = got == expected || (got.is_nan() && expected.is_nan());
        let near = (got - expected).abs() <= tolerance * (1.0 + expected.abs());
        assert!(same || near, "{what}: element {i} is {got}, expected {expected}");
    }
}
