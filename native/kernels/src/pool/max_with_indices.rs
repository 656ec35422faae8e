//! Max pooling with dilation, with the indices of the maxima.

use crate::par;

/// Maximum number of spatial dimensions.
pub const MAX_AXES: usize = 3;

/// The geometry of a pooling with dilation.
#[derive(Clone, Debug)]
pub struct Windows {
    /// Lengths of the spatial axes, at most [`MAX_AXES`].
    pub input: Vec<usize>,
    /// Number of windows along each axis.
    pub output: Vec<usize>,
    /// Size of a window.
    pub kernel: Vec<usize>,
    /// Stride between neighboring windows.
    pub stride: Vec<usize>,
    /// Stride between neighboring elements of a window.
    pub dilation: Vec<usize>,
    /// Padding before each axis.
    pub pad: Vec<usize>,
}

impl Windows {
    /// The coordinates of window `o` along axis `k` that lie within the input.
    fn coordinates_inside(&self, k: usize, o: usize) -> impl Iterator<Item = usize> + '_ {
        let start = (o * self.stride[k]) as isize - self.pad[k] as isize;
        let coordinates = (0..self.kernel[k]).map(move |i| start + (i * self.dilation[k]) as isize);
        coordinates.filter_map(|index| usize::try_from(index).ok()).filter(move |index| *index < self.input[k])
    }

    /// Like [`Self::coordinates_inside`], but a single zero for axes that do not exist.
    fn along(&self, k: usize, o: usize) -> Vec<usize> {
        if k < self.input.len() { self.coordinates_inside(k, o).collect() } else { vec![0] }
    }

    fn axis(&self, lens: &[usize], k: usize) -> usize {
        lens.get(k).copied().unwrap_or(1)
    }

    /// Calls `f(window, index, maximum)` for each window that has elements; ties go to the first element.
    fn for_each_maximum<T: Copy + PartialOrd>(&self, plane: &[T], mut f: impl FnMut(usize, usize, T)) {
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
                                let index = (y * width + x) * depth + z;
                                if best.is_none_or(|(_, value)| plane[index] > value) {
                                    best = Some((index, plane[index]));
                                }
                            }
                        }
                    }
                    if let Some((index, value)) = best {
                        f(window, index, value);
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
    fn column_major(&self, index: usize) -> usize {
        let mut rest = index;
        let mut coordinates = [0; MAX_AXES];
        for k in (0..self.input.len()).rev() {
            (coordinates[k], rest) = (rest % self.input[k], rest / self.input[k]);
        }
        (0..self.input.len()).rev().fold(0, |sum, k| sum * self.input[k] + coordinates[k])
    }
}

/// Writes the maximum of each window of each plane of `x` and its index in `x`, which is row-major or, with `column_major`,
/// column-major within the plane. Windows that lie entirely in the padding get `lowest` and index 0.
///
/// # Panics
/// Panics if a length does not match.
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
        windows.for_each_maximum(&x[p * from..(p + 1) * from], |window, index, value| {
            out[window] = value;
            indices[window] = (p * from + if column_major { windows.column_major(index) } else { index }) as i64;
        });
    });
}

/// The gradient of [`window_maxima`]: adds the gradient of each window to that of its maximum.
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
        windows
            .for_each_maximum(&x[p * from..(p + 1) * from], |window, index, _| dx[index] = add(dx[index], dy[window]));
    });
}
