//! Maxima of dilated windows, together with their indices.

use crate::par;

/// Maximum number of spatial dimensions.
pub const MAX_AXES: usize = 3;

/// The windows of a pooling with dilation.
#[derive(Clone, Debug)]
pub struct Windows {
    /// Lengths of the spatial axes, at most [`MAX_AXES`].
    pub input: Vec<usize>,
    /// Number of windows along each axis.
    pub output: Vec<usize>,
    /// Size of a window.
    pub kernel: Vec<usize>,
    /// Distance between neighbouring windows.
    pub stride: Vec<usize>,
    /// Distance between neighbouring elements of a window.
    pub dilation: Vec<usize>,
    /// Padding before each axis.
    pub pad: Vec<usize>,
}

impl Windows {
    /// The input coordinates of window `o` along axis `k` that lie inside.
    fn inside(&self, k: usize, o: usize) -> impl Iterator<Item = usize> + '_ {
        let start = (o * self.stride[k]) as isize - self.pad[k] as isize;
        let coordinates = (0..self.kernel[k]).map(move |i| start + (i * self.dilation[k]) as isize);
        coordinates.filter_map(|at| usize::try_from(at).ok()).filter(move |at| *at < self.input[k])
    }

    /// Like [`Self::inside`], but a single zero for axes that do not exist.
    fn along(&self, k: usize, o: usize) -> Vec<usize> {
        if k < self.input.len() { self.inside(k, o).collect() } else { vec![0] }
    }

    fn axis(&self, lens: &[usize], k: usize) -> usize {
        lens.get(k).copied().unwrap_or(1)
    }

    /// Calls `f` with the index of each window, and the index and value of its maximum; windows without elements are skipped. Of
    /// equal elements the first wins.
    fn each<T: Copy + PartialOrd>(&self, plane: &[T], mut f: impl FnMut(usize, usize, T)) {
        let lists =
            |k: usize| -> Vec<Vec<usize>> { (0..self.axis(&self.output, k)).map(|o| self.along(k, o)).collect() };
        let (rows, cols, depths) = (lists(0), lists(1), lists(2));
        let (width, depth) = (self.axis(&self.input, 1), self.axis(&self.input, 2));
        let mut window = 0;
        for ys in &rows {
            for xs in &cols {
                for zs in &depths {
                    let mut best: Option<(usize, T)> = None;
                    for y in ys {
                        for x in xs {
                            for z in zs {
                                let at = (y * width + x) * depth + z;
                                if best.is_none_or(|(_, value)| plane[at] > value) {
                                    best = Some((at, plane[at]));
                                }
                            }
                        }
                    }
                    if let Some((at, value)) = best {
                        f(window, at, value);
                    }
                    window += 1;
                }
            }
        }
    }

    fn planes(&self) -> (usize, usize) {
        (self.input.iter().product(), self.output.iter().product())
    }

    /// The column-major index in a plane (first axis fastest) of a row-major index.
    fn column_major(&self, at: usize) -> usize {
        let mut rest = at;
        let mut coordinates = [0; MAX_AXES];
        for k in (0..self.input.len()).rev() {
            (coordinates[k], rest) = (rest % self.input[k], rest / self.input[k]);
        }
        (0..self.input.len()).rev().fold(0, |sum, k| sum * self.input[k] + coordinates[k])
    }
}

/// Writes the maximum of each window of each plane of `x` and its index in `x`; within a plane, `column_major` counts with the
/// first axis fastest. Windows that lie entirely in the padding get `lowest` and index 0.
///
/// # Panics
/// If a length does not match.
pub fn window_maxima<T: Copy + PartialOrd + Send + Sync>(
    x: &[T],
    windows: &Windows,
    lowest: T,
    column_major: bool,
    out: &mut [T],
    indices: &mut [i64],
) {
    let (from, to) = windows.planes();
    par::parallel_rows2((out, to), (indices, to), 1, |p, out, indices| {
        out.fill(lowest);
        indices.fill(0);
        windows.each(&x[p * from..(p + 1) * from], |window, at, value| {
            out[window] = value;
            indices[window] = (p * from + if column_major { windows.column_major(at) } else { at }) as i64;
        });
    });
}

/// The gradient of [`window_maxima`]: each window's gradient is added to its maximum.
///
/// # Panics
/// As [`window_maxima`].
pub fn window_maxima_backward<T: Copy + PartialOrd + Send + Sync>(
    x: &[T],
    windows: &Windows,
    dy: &[T],
    add: impl Fn(T, T) -> T + Sync,
    dx: &mut [T],
) {
    let (from, to) = windows.planes();
    par::parallel_rows(dx, from, 1, |p, dx| {
        let dy = &dy[p * to..(p + 1) * to];
        windows.each(&x[p * from..(p + 1) * from], |window, at, _| dx[at] = add(dx[at], dy[window]));
    });
}
