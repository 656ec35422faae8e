//! NumPy's tensor contractions: `dot`, `matmul`, `tensordot`.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{AnyOperator, ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::gemm::{MatMut, MatRef};
use ferromx_kernels::map::Arith;
use ferromx_kernels::movement;
use ferromx_kernels::par::{Pod, with_scratch};
use ferromx_kernels::reduce::reduce_to_shape;

use super::product::{MatrixElement, batch_matrix};
use crate::axes::inverse_permutation;
use crate::broadcast::binary::{broadcast_two, grad_from_other};
use crate::broadcast::promotion;
use crate::elemwise::formulas::Mul;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&DOT, &TENSORDOT, &TENSORDOT_INT_AXES, &MATMUL];

const A_B: &[ArgDef] = &[arg("a", "The first operand."), arg("b", "The second operand, of the same type.")];

/// Type rule: operands and result have one floating-point type.
fn float_type(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let Some(d) = io.first_known() else { return Ok(()) };
    ensure!(d.is_float(), "products take arrays of a floating-point type, not of {d}: convert them");
    io.assign_all(d)
}

/// The contracted axes of two operands, in pairs.
struct Contraction {
    a: Vec<usize>,
    b: Vec<usize>,
}

impl Contraction {
    /// The axes of an operand of `rank` axes that are not contracted.
    fn free(axes: &[usize], rank: usize) -> Vec<usize> {
        (0..rank).filter(|i| !axes.contains(i)).collect()
    }

    /// Infers the shape of the result, the free axes of a and then of b, and unknown dimensions of the operands from each other and
    /// from the result.
    fn infer_shapes(&self, io: &mut ShapeIo<'_>) -> Result<()> {
        let (mut a, mut b) = (io.ins[0].clone(), io.ins[1].clone());
        for (i, j) in self.a.iter().zip(&self.b) {
            let (m, n) = (a.dim(*i), b.dim(*j));
            ensure!(
                m == n || m < 0 || n < 0,
                "shapes {a} and {b} cannot be multiplied: axis {i} of the first has length {m}, axis {j} of the second {n}"
            );
        }
        let (free_a, free_b) = (Self::free(&self.a, a.dims().len()), Self::free(&self.b, b.dims().len()));
        let out: Dims = free_a.iter().map(|i| a.dim(*i)).chain(free_b.iter().map(|j| b.dim(*j))).collect();
        io.assign_out(0, &Shape::from(out))?;
        let out = &io.outs[0];
        if let (Some(da), Some(db)) = (a.dims_mut(), b.dims_mut()) {
            for (i, j) in self.a.iter().zip(&self.b) {
                let n = da[*i].max(db[*j]);
                (da[*i], db[*j]) = (n, n);
            }
            free_a.iter().enumerate().for_each(|(k, i)| da[*i] = out.dim(k));
            free_b.iter().enumerate().for_each(|(k, j)| db[*j] = out.dim(free_a.len() + k));
        }
        io.assign_in(0, &a)?;
        io.assign_in(1, &b)
    }
}

/// An operand as a matrix. Its axes are permuted so that the contracted ones are adjacent.
struct Operand {
    dims: Vec<usize>,
    perm: Vec<usize>,
    /// The numbers of rows and columns after the permutation.
    size: (usize, usize),
    /// Whether the contracted axes are the rows; otherwise they are the columns.
    contracted_first: bool,
}

impl Operand {
    /// Chooses a permutation that needs no copy, if there is one.
    fn new(shape: &Shape, contracted: &[usize]) -> Operand {
        let dims = shape.to_usize().to_vec();
        let free = Contraction::free(contracted, dims.len());
        let num_elements = |axes: &[usize]| axes.iter().map(|i| dims[*i]).product::<usize>();
        let free_contracted = [&free[..], contracted].concat();
        let contracted_free = [contracted, &free[..]].concat();
        let is_identity = |perm: &[usize]| perm.iter().copied().eq(0..dims.len());
        let contracted_first = is_identity(&contracted_free) && !is_identity(&free_contracted);
        let (m, k) = (num_elements(&free), num_elements(contracted));
        match contracted_first {
            true => Operand { dims, perm: contracted_free, size: (k, m), contracted_first },
            false => Operand { dims, perm: free_contracted, size: (m, k), contracted_first },
        }
    }

    /// The number of elements of the free axes.
    fn num_free(&self) -> usize {
        if self.contracted_first { self.size.1 } else { self.size.0 }
    }

    fn is_in_order(&self) -> bool {
        self.perm.iter().copied().eq(0..self.dims.len())
    }

    /// Calls `f` with the operand as a matrix of free rows and contracted columns.
    fn with_matrix<T: MatrixElement + Pod, R>(&self, data: &[T], f: impl FnOnce(MatRef<'_, T>) -> R) -> R {
        let matrix = |data| MatRef::row_major(data, self.size.0, self.size.1).t_if(self.contracted_first);
        if self.is_in_order() {
            return f(matrix(data));
        }
        with_scratch(data.len(), |transposed: &mut [T]| {
            movement::transpose(data, &self.dims, &self.perm, transposed);
            f(MatRef::row_major(transposed, self.size.0, self.size.1))
        })
    }

    /// Writes the product x y, a matrix of free rows and contracted columns, in the layout of the operand.
    fn store_product<T: MatrixElement + Pod>(&self, x: MatRef<'_, T>, y: MatRef<'_, T>, out: &mut [T]) {
        let product = |out: &mut [T]| {
            let c = MatMut::row_major(out, self.size.0, self.size.1);
            if self.contracted_first { T::product(y.t(), x.t(), 0.0, None, c) } else { T::product(x, y, 0.0, None, c) }
        };
        if self.is_in_order() {
            return product(out);
        }
        let transposed_dims: Vec<usize> = self.perm.iter().map(|i| self.dims[*i]).collect();
        with_scratch(out.len(), |transposed: &mut [T]| {
            product(transposed);
            movement::transpose(transposed, &transposed_dims, &inverse_permutation(&self.perm), out);
        });
    }
}

fn contract(ctx: &OpCtx<'_>, c: &Contraction, ins: &[In<'_>], out: &mut Out<'_>) -> Result<()> {
    let (a, b) = (Operand::new(ins[0].shape(), &c.a), Operand::new(ins[1].shape(), &c.b));
    let (rows, columns) = (a.num_free(), b.num_free());
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16] => {
        let (x, y) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?);
        let out = out.slice_mut::<T>()?;
        a.with_matrix(x, |x| b.with_matrix(y, |y| T::product(x, y.t(), 0.0, None, MatMut::row_major(out, rows, columns))));
        Ok(())
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

/// With C = A B^T over the contracted axes: dA = dC B and dB = dC^T A.
fn contract_backward(ctx: &OpCtx<'_>, c: &Contraction, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (a, b) = (Operand::new(ins[1].shape(), &c.a), Operand::new(ins[2].shape(), &c.b));
    let (rows, columns) = (a.num_free(), b.num_free());
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16] => {
        let (x, y) = (ins[1].slice::<T>()?, ins[2].slice::<T>()?);
        let g = MatRef::row_major(ins[0].slice::<T>()?, rows, columns);
        if outs[0].wanted() {
            let out = outs[0].slice_mut::<T>()?;
            b.with_matrix(y, |y| a.store_product(g, y, out));
        }
        if outs[1].wanted() {
            let out = outs[1].slice_mut::<T>()?;
            a.with_matrix(x, |x| b.store_product(g.t(), x, out));
        }
        Ok(())
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

pub(super) static DOT: Operator = Operator::new("_np_dot")
    .doc(
        "The inner product of vectors, the product of matrices, the product with a scalar, and for more axes the sum over the last axis \
         of a and the second-last of b.",
    )
    .inputs(A_B)
    .shape(|_, io| {
        let (Some(m), Some(n)) = (io.ins[0].ndim(), io.ins[1].ndim()) else { return Ok(()) };
        match dot_axes(m, n) {
            Some(c) => c.infer_shapes(io),
            None => io.tie(if m == 0 { 1 } else { 0 }, 0),
        }
    })
    .dtype(float_type)
    .forward(|ctx, ins, outs| match dot_axes(ins[0].shape().dims().len(), ins[1].shape().dims().len()) {
        Some(c) => contract(ctx, &c, ins, &mut outs[0]),
        None => promotion::forward::<Mul>(ctx, ins, outs),
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| match dot_axes(ins[1].shape().dims().len(), ins[2].shape().dims().len()) {
            Some(c) => contract_backward(ctx, &c, ins, outs),
            None => {
                for (k, out) in outs.iter_mut().enumerate().filter(|(_, out)| out.wanted()) {
                    grad_from_other::<Mul>(ctx, ins, k, out)?;
                }
                Ok(())
            }
        })
        .inputs(Deps::All),
        None,
    ));

/// The contracted axes of operands of `m` and `n` axes; `None` if one is a scalar.
fn dot_axes(m: usize, n: usize) -> Option<Contraction> {
    (m > 0 && n > 0).then(|| Contraction { a: vec![m - 1], b: vec![n.saturating_sub(2)] })
}

params! {
    /// Parameters of `_npi_tensordot`.
    pub struct TensordotParam {
        /// The axes of a that are summed over.
        a_axes_summed: Shape = required;
        /// The axes of b that they are paired with.
        b_axes_summed: Shape = required;
    }
}

impl TensordotParam {
    fn axes(&self, m: usize, n: usize) -> Result<Contraction> {
        let (a, b) = (&self.a_axes_summed, &self.b_axes_summed);
        ensure!(
            a.dims().len() == b.dims().len(),
            "a_axes_summed={a} and b_axes_summed={b} must have the same number of axes"
        );
        let resolve = |axes: &Shape, rank: usize| {
            let resolved = axes.dims().iter().map(|i| Shape::axis(*i, rank)).collect::<Result<Vec<_>>>()?;
            let mut sorted = resolved.clone();
            sorted.sort_unstable();
            ensure!(sorted.windows(2).all(|w| w[0] < w[1]), "{axes} names an axis twice");
            Ok(resolved)
        };
        Ok(Contraction { a: resolve(a, m)?, b: resolve(b, n)? })
    }
}

params! {
    /// Parameters of `_npi_tensordot_int_axes`.
    pub struct TensordotIntParam {
        /// Number of last axes of a and first axes of b to sum over; a negative number means none, and so does any number for a scalar.
        axes: i32 = required;
    }
}

impl TensordotIntParam {
    fn axes(&self, m: usize, n: usize) -> Result<Contraction> {
        // A scalar multiplies, whatever `axes` is.
        let k = if m == 0 || n == 0 { 0 } else { usize::try_from(self.axes).unwrap_or(0) };
        ensure!(
            k <= m && k <= n,
            "axes={} must be at most {}, the number of axes of both operands",
            self.axes,
            m.min(n)
        );
        Ok(Contraction { a: (m - k..m).collect(), b: (0..k).collect() })
    }
}

/// Defines a contraction over axes that the parameters choose.
macro_rules! tensordot {
    ($name:ident: $op:literal, $doc:literal, $P:ident) => {
        pub(crate) static $name: Operator<$P> = Operator::new($op)
            .doc($doc)
            .inputs(A_B)
            .shape(|p, io| {
                let (Some(m), Some(n)) = (io.ins[0].ndim(), io.ins[1].ndim()) else { return Ok(()) };
                p.get::<$P>().axes(m, n)?.infer_shapes(io)
            })
            .dtype(float_type)
            .forward(|ctx, ins, outs| {
                let c = ctx.params::<$P>().axes(ins[0].shape().dims().len(), ins[1].shape().dims().len())?;
                contract(ctx, &c, ins, &mut outs[0])
            })
            .grad(Grad::Kernel(
                Backward::new(|ctx, ins, outs| {
                    let c = ctx.params::<$P>().axes(ins[1].shape().dims().len(), ins[2].shape().dims().len())?;
                    contract_backward(ctx, &c, ins, outs)
                })
                .inputs(Deps::All),
                None,
            ));
    };
}

tensordot!(TENSORDOT: "_npi_tensordot",
    "The sum of products over pairs of axes; the result has the other axes of a, then those of b.", TensordotParam);

tensordot!(TENSORDOT_INT_AXES: "_npi_tensordot_int_axes",
    "The sum of products over the last axes of a and the first of b; the result has the other axes of a, then those of b.",
    TensordotIntParam);

pub(super) static MATMUL: Operator = Operator::new("_npi_matmul")
    .doc(
        "The products of the matrices in the last two axes; the axes before them are broadcast. A vector is a row on the left and a \
         column on the right; its added axis is removed from the result.",
    )
    .inputs(A_B)
    .output_names_by(|_| vec!["out".into()])
    .shape(matmul_shape)
    .dtype(float_type)
    .forward(matmul)
    .grad(Grad::Kernel(Backward::new(matmul_backward).inputs(Deps::All), None));

/// The side of a product on which an operand stands.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

/// An operand as matrices: the batch shape, the number of rows and the number of columns. A vector is a row on the left and a column on the
/// right.
fn matrices(shape: &Shape, side: Side) -> (Shape, i64, i64) {
    match (shape.dims(), side) {
        ([n], Side::Left) => (Shape::new(&[]), 1, *n),
        ([n], Side::Right) => (Shape::new(&[]), *n, 1),
        ([batch @ .., m, n], _) => (Shape::new(batch), *m, *n),
        ([], _) => (Shape::new(&[]), 1, 1),
    }
}

fn matmul_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let (Some(a_rank), Some(b_rank)) = (io.ins[0].ndim(), io.ins[1].ndim()) else { return Ok(()) };
    ensure!(a_rank > 0 && b_rank > 0, "matmul does not take scalars: use multiply");
    let ((batch_a, m, k), (batch_b, l, n)) = (matrices(&io.ins[0], Side::Left), matrices(&io.ins[1], Side::Right));
    ensure!(
        k == l || k < 0 || l < 0,
        "shapes {} and {} cannot be multiplied: the rows of the first have {k} elements, the columns of the second {l}",
        io.ins[0],
        io.ins[1]
    );
    let mut out: Dims = broadcast_two(&batch_a, &batch_b)?.dims().into();
    if a_rank > 1 {
        out.push(m);
    }
    if b_rank > 1 {
        out.push(n);
    }
    io.assign_out(0, &Shape::from(out))?;
    let out = io.outs[0].dims();
    let (rows, columns) = match (a_rank > 1, b_rank > 1) {
        (true, true) => (out[out.len() - 2], out[out.len() - 1]),
        (true, false) => (out[out.len() - 1], 1),
        (false, true) => (1, out[out.len() - 1]),
        (false, false) => (1, 1),
    };
    let inner = k.max(l);
    let operand = |rank: usize, matrix: [i64; 2]| match rank {
        1 => Shape::new(&[inner]),
        _ => Shape::from(std::iter::repeat_n(-1, rank - 2).chain(matrix).collect::<Dims>()),
    };
    io.assign_in(0, &operand(a_rank, [rows, inner]))?;
    io.assign_in(1, &operand(b_rank, [inner, columns]))
}

/// A batched product of (m, k) and (k, n) matrices, with the broadcast batch shape and, for each product, the indices of its matrices in a
/// and b.
struct Batch {
    m: usize,
    k: usize,
    n: usize,
    shape: Vec<usize>,
    a: Vec<i32>,
    b: Vec<i32>,
}

impl Batch {
    fn new(a: &Shape, b: &Shape) -> Result<Batch> {
        let ((batch_a, m, k), (batch_b, _, n)) = (matrices(a, Side::Left), matrices(b, Side::Right));
        let shape = broadcast_two(&batch_a, &batch_b)?.to_usize().to_vec();
        let indices = |batch: &Shape| {
            let dims = batch.to_usize();
            let indices: Vec<i32> = (0..dims.iter().product::<usize>() as i32).collect();
            let mut broadcast = vec![0; shape.iter().product()];
            movement::broadcast_to(&indices, &dims, (&mut broadcast, &shape));
            broadcast
        };
        let (a, b) = (indices(&batch_a), indices(&batch_b));
        Ok(Batch { m: m as usize, k: k as usize, n: n as usize, shape, a, b })
    }
}

fn matmul(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let s = Batch::new(ins[0].shape(), ins[1].shape())?;
    if outs[0].is_empty() {
        return Ok(());
    }
    dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16] => {
        let (a, b, out) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, outs[0].slice_mut::<T>()?);
        if s.b.iter().all(|b| *b == 0) && s.a.iter().copied().eq(0..s.a.len() as i32) {
            // A single matrix on the right: the rows of all matrices on the left make one product.
            let rows = s.a.len() * s.m;
            let (a, b) = (MatRef::row_major(a, rows, s.k), MatRef::row_major(b, s.k, s.n));
            T::product(a, b, 0.0, None, MatMut::row_major(out, rows, s.n));
            return Ok(());
        }
        let left = |i: usize| batch_matrix(a, s.a[i] as usize, (s.m, s.k));
        let right = |i: usize| batch_matrix(b, s.b[i] as usize, (s.k, s.n));
        T::products(left, right, out, (s.m, s.n));
        Ok(())
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

/// dA = dC B^T and dB = A^T dC, summed over the batch axes along which the operand was broadcast.
fn matmul_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let s = Batch::new(ins[1].shape(), ins[2].shape())?;
    let (a_batch, b_batch) =
        (matrices(ins[1].shape(), Side::Left).0.to_usize(), matrices(ins[2].shape(), Side::Right).0.to_usize());
    let shape_of = |batch: &[usize], dims: [usize; 2]| [batch, &dims[..]].concat();
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16] => {
        type Lane = <T as Arith>::Lane;
        let (g, a, b) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
        let grad = |i: usize| batch_matrix(g, i, (s.m, s.n));
        if outs[0].wanted() && !outs[0].is_empty() {
            let out = outs[0].slice_mut::<T>()?;
            let right = |i: usize| batch_matrix(b, s.b[i] as usize, (s.k, s.n)).t();
            with_scratch(s.a.len() * s.m * s.k, |products: &mut [T]| {
                T::products(grad, right, products, (s.m, s.k));
                let dims = [s.m, s.k];
                reduce_to_shape::<T, Lane>(products, &shape_of(&s.shape, dims), &shape_of(&a_batch, dims), out);
            });
        }
        if outs[1].wanted() && !outs[1].is_empty() {
            let out = outs[1].slice_mut::<T>()?;
            let left = |i: usize| batch_matrix(a, s.a[i] as usize, (s.m, s.k)).t();
            with_scratch(s.b.len() * s.k * s.n, |products: &mut [T]| {
                T::products(left, grad, products, (s.k, s.n));
                let dims = [s.k, s.n];
                reduce_to_shape::<T, Lane>(products, &shape_of(&s.shape, dims), &shape_of(&b_batch, dims), out);
            });
        }
        Ok(())
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, numbers};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let check = |def, attrs: &[(&str, &str)], a: &[i64], b: &[i64]| {
            Case::new(def, attrs).check_gradient(&[numbers(a), numbers(b)]);
        };
        for (a, b) in [
            (&[3][..], &[3][..]),
            (&[2, 3], &[3]),
            (&[3], &[3, 2]),
            (&[2, 3], &[3, 2]),
            (&[], &[2, 3]),
            (&[2, 3], &[]),
            (&[2, 2, 3], &[2, 3, 2]),
            (&[3], &[2, 3, 2]),
        ] {
            check(&DOT, &[], a, b);
        }
        for (a, b) in [
            (&[3][..], &[3][..]),
            (&[2, 3], &[3]),
            (&[3], &[2, 3, 2]),
            (&[2, 2, 3], &[3, 2]),
            (&[2, 1, 2, 3], &[1, 2, 3, 2]),
            (&[2, 3], &[2, 3, 2]),
        ] {
            check(&MATMUL, &[], a, b);
        }
        for axes in ["0", "1", "2"] {
            check(&TENSORDOT_INT_AXES, &[("axes", axes)], &[2, 3, 2], &[3, 2, 2][usize::from(axes == "1")..]);
        }
        check(&TENSORDOT, &[("a_axes_summed", "(1, 2)"), ("b_axes_summed", "(1, 0)")], &[2, 3, 4], &[4, 3, 2]);
        check(&TENSORDOT, &[("a_axes_summed", "(0,)"), ("b_axes_summed", "(-1,)")], &[2, 3, 2], &[4, 2]);
    }

    #[test]
    fn mismatched_shapes_are_refused() {
        let error = |def, attrs: &[(&str, &str)], a: &[i64], b: &[i64]| {
            Case::new(def, attrs).shapes(&[Shape::new(a), Shape::new(b)]).unwrap_err().to_string()
        };
        assert!(error(&DOT, &[], &[2, 3], &[2, 3]).contains("cannot be multiplied"));
        assert!(error(&MATMUL, &[], &[], &[2, 3]).contains("does not take scalars"));
        assert!(error(&MATMUL, &[], &[4, 2, 3], &[2, 3, 2]).contains("could not be broadcast"));
        assert!(error(&TENSORDOT_INT_AXES, &[("axes", "3")], &[2, 3], &[3, 2]).contains("axes=3"));
        assert!(Case::new(&DOT, &[]).dtypes(&[Some(DType::I32), None]).is_err());
    }
}
