//! The gates of one sequence at one time step, forward and backward.

use super::{Clip, RnnElement};
use crate::lane::{replace_if, unchanged};
use crate::math::{sigmoid, tanh};
use crate::simd::per_isa;

per_isa! {
    avx512 if T::USE_AVX512;
    /// `h = f(x)` for the vanilla cells. `row` holds the pre-activations x and becomes the state, which is copied to `out`.
    pub(super) fn vanilla_forward<T: RnnElement>(relu: bool, row: &mut [T], out: &mut [T]) {
        let n = row.len();
        let out = &mut out[..n];
        if relu {
            let unchanged = unchanged();
            for j in 0..n {
                row[j] = replace_if(row[j] < T::ZERO, T::ZERO, row[j], unchanged);
                out[j] = row[j];
            }
        } else {
            for j in 0..n {
                row[j] = tanh(row[j]);
                out[j] = row[j];
            }
        }
    }
}

per_isa! {
    avx512 if T::USE_AVX512;
    /// The gradient of [`vanilla_forward`] from its result `h`. `dh` is the gradient of the output and is set to zero.
    pub(super) fn vanilla_backward<T: RnnElement>(relu: bool, h: &[T], dgates: &mut [T], dh: &mut [T]) {
        let n = dgates.len();
        let (h, dh) = (&h[..n], &mut dh[..n]);
        for j in 0..n {
            let slope = if relu { if h[j] > T::ZERO { T::ONE } else { T::ZERO } } else { T::ONE - h[j] * h[j] };
            dgates[j] = dh[j] * slope;
            dh[j] = T::ZERO;
        }
    }
}

#[inline(always)]
fn clip_cell<T: RnnElement>(c: T, min: T, max: T, nan: bool) -> T {
    let low = if c < min || (nan && c.partial_cmp(&c).is_none()) { min } else { c };
    if low > max { max } else { low }
}

per_isa! {
    avx512 if T::USE_AVX512;
    /// `row` is (5, hidden): the pre-activations of the gates i, f, g, o, which are replaced by the gates, and room for the new
    /// cell state.
    pub(super) fn lstm_forward<T: RnnElement>(row: &mut [T], c_prev: &[T], out: &mut [T], clip: Option<Clip>) {
        let n = c_prev.len();
        let (i, rest) = row.split_at_mut(n);
        let (f, rest) = rest.split_at_mut(n);
        let (g, rest) = rest.split_at_mut(n);
        let (o, c) = rest.split_at_mut(n);
        let (c, out) = (&mut c[..n], &mut out[..n]);
        lstm_gates(i, f, g, c_prev, c);
        if let Some(clip) = clip {
            let (min, max) = (<T as crate::math::MathFloat>::of(clip.min), <T as crate::math::MathFloat>::of(clip.max));
            c.iter_mut().for_each(|c| *c = clip_cell(*c, min, max, clip.clip_nan));
        }
        for j in 0..n {
            o[j] = sigmoid(o[j]);
            out[j] = o[j] * tanh(c[j]);
        }
    }
}

#[inline(always)]
fn lstm_gates<T: RnnElement>(i: &mut [T], f: &mut [T], g: &mut [T], c_prev: &[T], c: &mut [T]) {
    let n = c.len();
    let (i, f, g, c_prev) = (&mut i[..n], &mut f[..n], &mut g[..n], &c_prev[..n]);
    for j in 0..n {
        i[j] = sigmoid(i[j]);
        f[j] = sigmoid(f[j]);
        g[j] = tanh(g[j]);
        c[j] = f[j] * c_prev[j] + i[j] * g[j];
    }
}

per_isa! {
    avx512 if T::USE_AVX512;
    /// Writes the gradients of the pre-activations to `dgates`. `row` and `c_prev` are as [`lstm_forward`] leaves them. `dh` is the
    /// gradient of the output and is set to zero; `dc` is the gradient of the cell state and becomes that of the previous one.
    pub(super) fn lstm_backward<T: RnnElement>(
        row: &[T],
        c_prev: &[T],
        dgates: &mut [T],
        dh: &mut [T],
        dc: &mut [T],
        clip: Option<Clip>
    ) {
        let n = c_prev.len();
        let (i, rest) = row.split_at(n);
        let (f, rest) = rest.split_at(n);
        let (g, rest) = rest.split_at(n);
        let (o, c) = rest.split_at(n);
        let (di, rest) = dgates.split_at_mut(n);
        let (df, rest) = rest.split_at_mut(n);
        let (dg, d_o) = rest.split_at_mut(n);
        let gates = Gates { i, f, g, o, c: &c[..n], c_prev };
        lstm_output(&gates, dh, dc, d_o);
        if let Some(clip) = clip {
            let (min, max) = (<T as crate::math::MathFloat>::of(clip.min), <T as crate::math::MathFloat>::of(clip.max));
            for j in 0..n {
                dc[j] = if c[j] > min && c[j] < max { dc[j] } else { T::ZERO };
            }
        }
        lstm_state(&gates, dc, di, df, dg);
    }
}

struct Gates<'a, T> {
    i: &'a [T],
    f: &'a [T],
    g: &'a [T],
    o: &'a [T],
    c: &'a [T],
    c_prev: &'a [T],
}

#[inline(always)]
fn lstm_output<T: RnnElement>(gates: &Gates<'_, T>, dh: &mut [T], dc: &mut [T], d_o: &mut [T]) {
    let n = gates.c.len();
    let (o, c) = (&gates.o[..n], gates.c);
    let (dh, dc, d_o) = (&mut dh[..n], &mut dc[..n], &mut d_o[..n]);
    for j in 0..n {
        let (d, t) = (dh[j], tanh(c[j]));
        dh[j] = T::ZERO;
        d_o[j] = d * t * o[j] * (T::ONE - o[j]);
        dc[j] = dc[j] + d * o[j] * (T::ONE - t * t);
    }
}

#[inline(always)]
fn lstm_state<T: RnnElement>(gates: &Gates<'_, T>, dc: &mut [T], di: &mut [T], df: &mut [T], dg: &mut [T]) {
    let n = gates.c.len();
    let (i, f, g, c_prev) = (&gates.i[..n], &gates.f[..n], &gates.g[..n], &gates.c_prev[..n]);
    let (dc, di, df, dg) = (&mut dc[..n], &mut di[..n], &mut df[..n], &mut dg[..n]);
    for j in 0..n {
        let d = dc[j];
        di[j] = d * g[j] * i[j] * (T::ONE - i[j]);
        df[j] = d * c_prev[j] * f[j] * (T::ONE - f[j]);
        dg[j] = d * i[j] * (T::ONE - g[j] * g[j]);
        dc[j] = d * f[j];
    }
}

per_isa! {
    avx512 if T::USE_AVX512;
    /// `row` is (4, hidden): the input terms of the gates r, z, n, which are replaced by the gates, and room for the recurrent term
    /// of n. `sums` holds the recurrent terms of all three.
    pub(super) fn gru_forward<T: RnnElement>(row: &mut [T], sums: &[T], h_prev: &[T], out: &mut [T]) {
        let n = h_prev.len();
        let (r, rest) = row.split_at_mut(n);
        let (z, rest) = rest.split_at_mut(n);
        let (g, hn) = rest.split_at_mut(n);
        let (sr, rest) = sums.split_at(n);
        let (sz, sn) = rest.split_at(n);
        gru_reset(r, g, hn, sr, sn);
        let (z, g, sz, out) = (&mut z[..n], &mut g[..n], &sz[..n], &mut out[..n]);
        for j in 0..n {
            z[j] = sigmoid(z[j] + sz[j]);
            out[j] = g[j] + z[j] * (h_prev[j] - g[j]);
        }
    }
}

#[inline(always)]
fn gru_reset<T: RnnElement>(r: &mut [T], g: &mut [T], hn: &mut [T], sr: &[T], sn: &[T]) {
    let n = r.len();
    let (g, hn, sr, sn) = (&mut g[..n], &mut hn[..n], &sr[..n], &sn[..n]);
    for j in 0..n {
        r[j] = sigmoid(r[j] + sr[j]);
        hn[j] = sn[j];
        g[j] = tanh(g[j] + r[j] * sn[j]);
    }
}

per_isa! {
    avx512 if T::USE_AVX512;
    /// Writes the gradients of the pre-activations of r, z, n and of the recurrent term of n to `dgates`. `row` and `h_prev` are as
    /// [`gru_forward`] leaves them. `dh` is the gradient of the output and becomes the direct contribution to the gradient of the
    /// previous state, `z dh`.
    pub(super) fn gru_backward<T: RnnElement>(row: &[T], h_prev: &[T], dgates: &mut [T], dh: &mut [T]) {
        let n = h_prev.len();
        let (r, rest) = row.split_at(n);
        let (z, rest) = rest.split_at(n);
        let (g, hn) = rest.split_at(n);
        let (dr, rest) = dgates.split_at_mut(n);
        let (dz, rest) = rest.split_at_mut(n);
        let (dg, dhn) = rest.split_at_mut(n);
        gru_update(z, g, h_prev, dz, dg, dh);
        gru_candidate(r, &hn[..n], dg, dr, dhn);
    }
}

#[inline(always)]
fn gru_update<T: RnnElement>(z: &[T], g: &[T], h_prev: &[T], dz: &mut [T], dg: &mut [T], dh: &mut [T]) {
    let n = h_prev.len();
    let (z, g) = (&z[..n], &g[..n]);
    let (dz, dg, dh) = (&mut dz[..n], &mut dg[..n], &mut dh[..n]);
    for j in 0..n {
        let d = dh[j];
        dz[j] = d * (h_prev[j] - g[j]) * z[j] * (T::ONE - z[j]);
        dg[j] = d * (T::ONE - z[j]) * (T::ONE - g[j] * g[j]);
        dh[j] = d * z[j];
    }
}

#[inline(always)]
fn gru_candidate<T: RnnElement>(r: &[T], hn: &[T], dg: &[T], dr: &mut [T], dhn: &mut [T]) {
    let n = r.len();
    let (hn, dg, dr, dhn) = (&hn[..n], &dg[..n], &mut dr[..n], &mut dhn[..n]);
    for j in 0..n {
        dr[j] = dg[j] * hn[j] * r[j] * (T::ONE - r[j]);
        dhn[j] = dg[j] * r[j];
    }
}

per_isa! {
    avx512 if T::USE_AVX512;
    /// Adds the first columns of each row of a matrix with row stride `stride` to `sums`.
    pub(super) fn add_rows<T: RnnElement>(rows: &[T], stride: usize, sums: &mut [T]) {
        for row in rows.chunks(stride) {
            let row = &row[..sums.len()];
            for j in 0..sums.len() {
                sums[j] = sums[j] + row[j];
            }
        }
    }
}
