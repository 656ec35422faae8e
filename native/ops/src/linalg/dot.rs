//! `dot` and `batch_dot`.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Compose, Grad, GradGraph};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::sparse::StorageType;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, params};
use ferromx_kernels::gemm::{MatMut, MatRef};

use super::product::{MatrixElement, batch_matrix};
use super::sparse;
use crate::compose::op;
use crate::sparse::Storage;
use StorageType::{Csr, Default as Dense, RowSparse};

/// The operators of this file.
pub(crate) static OPS: &[&dyn AnyOperator] = &[&DOT, &BATCH_DOT];

params! {
    /// Parameters of `dot` and `batch_dot`.
    pub struct DotParam {
        /// Whether the first operand is transposed.
        transpose_a: bool = false;
        /// Whether the second operand is transposed.
        transpose_b: bool = false;
        /// The storage type of the result if an operand is csr; None selects the default.
        forward_stype: Option<Storage> = None;
    }
}

impl DotParam {
    fn transposed(&self) -> sparse::Transposed {
        sparse::Transposed { lhs: self.transpose_a, rhs: self.transpose_b }
    }
}

const INPUTS: &[ArgDef] = &[arg("lhs", "The first operand."), arg("rhs", "The second operand.")];

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

pub(crate) static DOT: Operator<DotParam> = Operator::new("dot")
    .aliases(&["_sparse_dot"])
    .doc(
        "The inner product of vectors, the product of matrices, and for more dimensions the sum over the last axis of lhs and the first \
         of rhs. transpose_a moves the first axis of lhs to the end, transpose_b the last axis of rhs to the front.\n\n\
         dot(x, y) of x with shape (2, 3, 4) and y with shape (4, 5) has shape (2, 3, 5); the product of two vectors has shape (1,).",
    )
    .inputs(INPUTS)
    .shape(dot_shape)
    .forward(dot)
    .sparse_from_dense(|p| p.get::<DotParam>().forward_stype.is_some(), storage_rule, |call| {
        sparse::dot(call, call.ctx.params::<DotParam>().transposed())
    })
    .grad(Grad::Kernel(
        Backward::new(dot_backward)
            .inputs(Deps::All)
            .sparse(backward_storage_rule, |call| {
                sparse::dot_backward(call, call.ctx.params::<DotParam>().transposed())
            })
            .sparse_gradients(Deps::Some(&[1])),
        Some(DOT_COMPOSE),
    ));

/// Storage rule of products, unless `forward_stype` sets it. csr times dense or row_sparse is dense, or row_sparse if csr is transposed.
/// dense times csr is csr.
fn storage_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    let p = p.get::<DotParam>();
    let default = match (ins[0], ins[1]) {
        (Csr, Dense | RowSparse) if p.transpose_a && !p.transpose_b => Some(RowSparse),
        (Csr, Dense | RowSparse) => Some(Dense),
        (Dense, Csr) if !p.transpose_a => Some(Csr),
        _ => None,
    };
    p.forward_stype.map(Storage::storage_type).or(default)
}

/// Storage rule of the gradients of csr times another matrix. That of the right operand is also a product of a csr matrix.
fn backward_storage_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    let p = p.get::<DotParam>();
    let is_product = ins[1] == Csr && !p.transpose_b && (ins[0] == Dense || ins[0] == RowSparse && !p.transpose_a);
    is_product.then_some(if p.transpose_a { Dense } else { RowSparse })
}

/// The gradients, composed of operators that are themselves differentiable. Operands are reshaped to matrices of free and contracted axes,
/// and `dy` to the shape of their product.
const DOT_COMPOSE: Compose = |g, n| {
    let p = n.params.get::<DotParam>();
    let rows_first = |g: &mut dyn GradGraph, x| g.op(op!(shape::reshape::RESHAPE(x), shape: [0, -1]));
    let columns_last = |g: &mut dyn GradGraph, x| g.op(op!(shape::reshape::RESHAPE(x), shape: [-1, 0], reverse: true));
    let a = if p.transpose_a { rows_first(g, n.inputs[0])? } else { columns_last(g, n.inputs[0])? };
    let b = if p.transpose_b { columns_last(g, n.inputs[1])? } else { rows_first(g, n.inputs[1])? };
    let product = g.op(op!(DOT(a, b), transpose_a: p.transpose_a, transpose_b: p.transpose_b))?;
    let dy = g.op(op!(shape::reshape::RESHAPE_LIKE(n.ograds[0], product)))?;
    let da = match p.transpose_a {
        true => op!(DOT(b, dy), transpose_a: p.transpose_b, transpose_b: true),
        false => op!(DOT(dy, b), transpose_b: !p.transpose_b),
    };
    let db = match p.transpose_b {
        true => op!(DOT(dy, a), transpose_a: true, transpose_b: p.transpose_a),
        false => op!(DOT(a, dy), transpose_a: !p.transpose_a),
    };
    let (da, db) = (g.op(da)?, g.op(db)?);
    let da = g.op(op!(shape::reshape::RESHAPE_LIKE(da, n.inputs[0])))?;
    let db = g.op(op!(shape::reshape::RESHAPE_LIKE(db, n.inputs[1])))?;
    Ok(vec![Some(da), Some(db)])
};

/// An operand as a matrix of its free and contracted axes.
struct Operand<'a> {
    free: &'a [i64],
    contracted: &'a [i64],
    /// Whether the contracted axes come first in memory.
    contracted_first: bool,
}

fn lhs_operand(dims: &[i64], transposed: bool) -> Operand<'_> {
    let (first, last) = dims.split_at(if transposed { 1 } else { dims.len() - 1 });
    if transposed {
        Operand { free: last, contracted: first, contracted_first: true }
    } else {
        Operand { free: first, contracted: last, contracted_first: false }
    }
}

fn rhs_operand(dims: &[i64], transposed: bool) -> Operand<'_> {
    let (first, last) = dims.split_at(if transposed { dims.len() - 1 } else { 1 });
    if transposed {
        Operand { free: first, contracted: last, contracted_first: false }
    } else {
        Operand { free: last, contracted: first, contracted_first: true }
    }
}

fn num_elements(dims: &[i64]) -> usize {
    dims.iter().product::<i64>() as usize
}

impl Operand<'_> {
    /// The operand as a matrix of free rows and contracted columns.
    fn matrix<'m, T: Copy>(&self, data: &'m [T]) -> MatRef<'m, T> {
        let (free, contracted) = (num_elements(self.free), num_elements(self.contracted));
        if self.contracted_first {
            MatRef::row_major(data, contracted, free).t()
        } else {
            MatRef::row_major(data, free, contracted)
        }
    }
}

fn dot_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<DotParam>();
    io.expect_inputs(&["lhs", "rhs"])?;
    let (Some(l), Some(r)) = (io.ins[0].ndim(), io.ins[1].ndim()) else { return Ok(()) };
    ensure!(l > 0 && r > 0, "dot takes arrays of one or more dimensions, not {} and {}", io.ins[0], io.ins[1]);
    if l == 1 && r == 1 {
        ensure!(!p.transpose_a && !p.transpose_b, "dot cannot transpose vectors");
        let (lhs, rhs) = (io.ins[0].clone(), io.ins[1].clone());
        io.assign_in(0, &rhs)?;
        io.assign_in(1, &lhs)?;
        return io.assign_out(0, &Shape::new(&[1]));
    }
    let (a, b) = (lhs_operand(io.ins[0].dims(), p.transpose_a), rhs_operand(io.ins[1].dims(), p.transpose_b));
    let unknown = |d: &[i64]| d.iter().any(|d| *d < 0);
    if !unknown(a.contracted) && !unknown(b.contracted) {
        ensure!(
            num_elements(a.contracted) == num_elements(b.contracted),
            "dot shape error: {} X {} sums over {} and {} elements{}",
            io.ins[0],
            io.ins[1],
            num_elements(a.contracted),
            num_elements(b.contracted),
            if p.transpose_a || p.transpose_b { " (after transposing)" } else { "" }
        );
    }
    let out: Dims = a.free.iter().chain(b.free).copied().collect();
    io.assign_out(0, &Shape::from(out))
}

fn dot(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<DotParam>();
    let (a, b) = (lhs_operand(ins[0].shape().dims(), p.transpose_a), rhs_operand(ins[1].shape().dims(), p.transpose_b));
    let (m, n) = (num_elements(a.free), num_elements(b.free));
    dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16] => {
        let (a, b) = (a.matrix(ins[0].slice::<T>()?), b.matrix(ins[1].slice::<T>()?));
        T::product(a, b.t(), 0.0, None, MatMut::row_major(outs[0].slice_mut()?, m, n));
        Ok(())
    }, d => Err(ctx.unsupported(d, TYPES)))
}

/// With C = A B: dA = dC B^T and dB = A^T dC, each in the layout of its operand.
fn dot_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<DotParam>();
    let (a, b) = (lhs_operand(ins[1].shape().dims(), p.transpose_a), rhs_operand(ins[2].shape().dims(), p.transpose_b));
    let (m, k, n) = (num_elements(a.free), num_elements(a.contracted), num_elements(b.free));
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16] => {
        let grad = MatRef::row_major(ins[0].slice::<T>()?, m, n);
        let (a_contracted_first, b_contracted_first) = (a.contracted_first, b.contracted_first);
        let (a, b) = (a.matrix(ins[1].slice::<T>()?), b.matrix(ins[2].slice::<T>()?));
        if outs[0].wanted() {
            product_into::<T>(grad, b, a_contracted_first, outs[0].slice_mut()?, (m, k));
        }
        if outs[1].wanted() {
            product_into::<T>(grad.t(), a, b_contracted_first, outs[1].slice_mut()?, (n, k));
        }
        Ok(())
    }, d => Err(ctx.unsupported(d, TYPES)))
}

/// Writes X Y, or its transpose, in row-major order. `(rows, cols)` are those of X Y.
fn product_into<T: MatrixElement>(
    x: MatRef<'_, T>,
    y: MatRef<'_, T>,
    transposed: bool,
    out: &mut [T],
    (rows, cols): (usize, usize),
) {
    if transposed {
        T::product(y.t(), x.t(), 0.0, None, MatMut::row_major(out, cols, rows));
    } else {
        T::product(x, y, 0.0, None, MatMut::row_major(out, rows, cols));
    }
}

pub(crate) static BATCH_DOT: Operator<DotParam> = Operator::new("batch_dot")
    .aliases(&["_npx_batch_dot"])
    .doc(
        "The batched matrix product over the last two axes: lhs of shape (b1, ..., m, k) and rhs of shape (b1, ..., k, n) give (b1, \
         ..., m, n).",
    )
    .inputs(INPUTS)
    .shape(batch_dot_shape)
    .forward(batch_dot)
    .grad(Grad::Compose(BATCH_DOT_COMPOSE));

fn batch_dot_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<DotParam>();
    io.expect_inputs(&["lhs", "rhs"])?;
    let (Some(l), Some(r)) = (io.ins[0].ndim(), io.ins[1].ndim()) else { return Ok(()) };
    let (lhs, rhs) = (io.ins[0].clone(), io.ins[1].clone());
    ensure!(
        l == r && l >= 3,
        "batch_dot takes two arrays with the same number of dimensions, at least 3, not {lhs} and {rhs}"
    );
    let matrix_dims = |s: &Shape, transposed: bool| {
        let (x, y) = (s.dim(l - 2), s.dim(l - 1));
        if transposed { (y, x) } else { (x, y) }
    };
    let ((m, k), (k2, n)) = (matrix_dims(&lhs, p.transpose_a), matrix_dims(&rhs, p.transpose_b));
    let differ = |a: i64, b: i64| a >= 0 && b >= 0 && a != b;
    for (a, b) in lhs.dims()[..l - 2].iter().zip(rhs.dims()) {
        ensure!(!differ(*a, *b), "batch_dot shape error (the leading batch dimensions must be equal): {lhs} and {rhs}");
    }
    ensure!(!differ(k, k2), "batch_dot shape error (shape mismatch): {lhs} and {rhs} sum over {k} and {k2} elements");
    let mut out: Dims = lhs.dims()[..l - 2].iter().zip(rhs.dims()).map(|(a, b)| *a.max(b)).collect();
    out.extend([m, n]);
    io.assign_out(0, &Shape::from(out))
}

fn batch_dot(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<DotParam>();
    let out = &mut outs[0];
    if out.is_empty() {
        return Ok(());
    }
    let matrix_dims = |s: &Shape| {
        let d = s.to_usize();
        (d[d.len() - 2], d[d.len() - 1])
    };
    let (a_dims, b_dims, (m, n)) = (matrix_dims(ins[0].shape()), matrix_dims(ins[1].shape()), matrix_dims(out.shape()));
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16] => {
        let (a, b) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?);
        let (a, b) = (|i| batch_matrix(a, i, a_dims).t_if(p.transpose_a), |i| batch_matrix(b, i, b_dims).t_if(p.transpose_b));
        T::products(a, b, out.slice_mut::<T>()?, (m, n));
        Ok(())
    }, d => Err(ctx.unsupported(d, TYPES)))
}

const BATCH_DOT_COMPOSE: Compose = |g, n| {
    let p = n.params.get::<DotParam>();
    let (a, b, dy) = (n.inputs[0], n.inputs[1], n.ograds[0]);
    let lhs = match p.transpose_a {
        false => op!(BATCH_DOT(dy, b), transpose_b: !p.transpose_b),
        true => op!(BATCH_DOT(b, dy), transpose_a: p.transpose_b, transpose_b: true),
    };
    let rhs = match p.transpose_b {
        false => op!(BATCH_DOT(a, dy), transpose_a: !p.transpose_a),
        true => op!(BATCH_DOT(dy, a), transpose_a: true, transpose_b: p.transpose_a),
    };
    Ok(vec![Some(g.op(lhs)?), Some(g.op(rhs)?)])
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, numbers};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let dot = |a: &str, b: &str, x: &[i64], y: &[i64]| {
            Case::new(&DOT, &[("transpose_a", a), ("transpose_b", b)]).check_gradient(&[numbers(x), numbers(y)]);
        };
        dot("0", "0", &[2, 3], &[3, 4]);
        dot("1", "0", &[3, 2], &[3, 4]);
        dot("0", "1", &[2, 3], &[4, 3]);
        dot("1", "1", &[3, 2], &[4, 3]);
        dot("0", "0", &[2, 2, 3], &[3, 2, 2]);
        dot("0", "0", &[3], &[3]);
        dot("0", "0", &[2, 3], &[3]);
        for (a, b, x, y) in [
            ("0", "0", [2, 2, 3], [2, 3, 4]),
            ("1", "0", [2, 3, 2], [2, 3, 4]),
            ("0", "1", [2, 2, 3], [2, 4, 3]),
            ("1", "1", [2, 3, 2], [2, 4, 3]),
        ] {
            Case::new(&BATCH_DOT, &[("transpose_a", a), ("transpose_b", b)])
                .check_gradient(&[numbers(&x), numbers(&y)]);
        }
    }

    #[test]
    fn mismatched_shapes_are_refused() {
        let error = |def, x: &[i64], y: &[i64]| {
            Case::new(def, &[]).shapes(&[Shape::new(x), Shape::new(y)]).unwrap_err().to_string()
        };
        assert!(error(&DOT, &[2, 3], &[2, 3]).contains("dot shape error: [2,3] X [2,3]"));
        assert!(error(&BATCH_DOT, &[2, 2, 3], &[3, 3, 2]).contains("batch dimensions"));
        assert!(error(&BATCH_DOT, &[2, 3], &[3, 2]).contains("at least 3"));
    }
}
