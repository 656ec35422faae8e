//! `Embedding` and `take`: lookup of rows.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{ArgDef, Deps, OpCtx, Operator, SparseRule, arg};
use ferromx_core::params::{NumDType, Params};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::sparse::StorageType;
use ferromx_core::storage::{In, Out, Req};
use ferromx_core::{dispatch, param_enum, params};
use ferromx_kernels::index::{self, Bounds};
use ferromx_kernels::map::Arith;
use ferromx_kernels::movement;

use super::sparse;
use super::{no_gradient, row_indices};
use crate::axes::outer_len_inner;
use crate::elemwise::family::NUMERIC;
use crate::movement::{by_size, source, target};
use crate::rules::first_dtype;

params! {
    /// Parameters of `Embedding`.
    pub struct EmbeddingParam {
        /// The number of rows of the weight: indices are 0 to input_dim - 1.
        input_dim: i32 = required, where 1..=i32::MAX;
        /// The length of a row.
        output_dim: i32 = required, where 1..=i32::MAX;
        /// The dtype of the weight unless it is inferred from elsewhere.
        dtype: NumDType = (NumDType(DType::F32));
        /// Whether the gradient of the weight is row_sparse and stores only the rows that were looked up.
        sparse_grad: bool = false;
    }
}

const LOOKUP: &[ArgDef] =
    &[arg("data", "The indices, of any shape."), arg("weight", "The table, of shape (input_dim, output_dim).")];

/// The definition that both embedding operators share. `gradient_rule` is the storage rule of the table's gradient.
const fn embedding(name: &'static str, gradient_rule: SparseRule) -> Operator<EmbeddingParam> {
    Operator::new(name)
        .doc(
            "Looks up rows of a table: out[i, j, ..., :] = weight[data[i, j, ...], :]. Indices out of range are clipped, or \
             refused if the table is row_sparse. The gradients of rows that occur several times are summed.",
        )
        .inputs(LOOKUP)
        .shape(embedding_shape)
        .dtype(embedding_dtype)
        .forward(|ctx, ins, outs| {
            let dims = ins[1].shape().to_usize();
            let rows = row_indices(ctx, &ins[0], dims[0], Bounds::Clip)?;
            by_size!(ins[1].dtype(), T => {
                index::gather(source::<T>(&ins[1])?, (1, dims[0], dims[1]), &rows, target::<T>(&mut outs[0])?);
            });
            Ok(())
        })
        .sparse(sparse::lookup_rule, sparse::embedding)
        .grad(Grad::Kernel(
            Backward::new(embedding_backward)
                .inputs(Deps::Some(&[0]))
                .accumulates()
                .sparse(gradient_rule, sparse::embedding_backward)
                .sparse_gradients(Deps::Some(&[1])),
            None,
        ))
}

pub(crate) static EMBEDDING: Operator<EmbeddingParam> =
    embedding("Embedding", |p, _, _| p.get::<EmbeddingParam>().sparse_grad.then_some(StorageType::RowSparse))
        .aliases(&["_npx_embedding", "_sparse_Embedding"]);

/// Sums are always in the order of the indices, which is what `deterministic` asks for.
pub(crate) static SPARSE_EMBEDDING: Operator<EmbeddingParam> =
    embedding("_contrib_SparseEmbedding", |_, _, _| Some(StorageType::RowSparse))
        .ignores(|name| name == "deterministic");

fn embedding_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<EmbeddingParam>();
    if !io.ins[0].ndim_is_known() {
        return Ok(());
    }
    let (rows, width) = (i64::from(p.input_dim), i64::from(p.output_dim));
    io.assign_in(1, &Shape::new(&[rows, width]))?;
    let mut dims: Dims = io.ins[0].dims().into();
    dims.push(width);
    io.assign_out(0, &Shape::from(dims))
}

fn embedding_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let d = io.ins[1].or(io.outs[0]).unwrap_or(p.get::<EmbeddingParam>().dtype.0);
    io.assign_in(1, d)?;
    io.assign_out(0, d)
}

/// Inputs: gradient of the output, indices. Outputs: gradients of the indices and the table.
fn embedding_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    if outs[0].wanted() {
        return Err(Error::NotDifferentiable(
            "Embedding with respect to its indices (data): set their grad_req to null".into(),
        ));
    }
    if !outs[1].wanted() {
        return Ok(());
    }
    let dims = outs[1].shape().to_usize();
    let rows = row_indices(ctx, &ins[1], dims[0], Bounds::Clip)?;
    add_rows(ctx, &ins[0], (1, dims[0], dims[1]), &rows, &mut outs[1])
}

/// Adds the rows of a gradient to the rows of the output that were looked up. The output is zeroed first unless it accumulates.
fn add_rows(
    ctx: &OpCtx<'_>,
    grad: &In<'_>,
    shape: (usize, usize, usize),
    rows: &[usize],
    out: &mut Out<'_>,
) -> Result<()> {
    let accumulate = out.req() == Req::Add;
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        let (grad, out) = (grad.slice::<T>()?, out.slice_mut::<T>()?);
        if !accumulate {
            movement::fill(out, T::default());
        }
        index::scatter_add::<T, <T as Arith>::Lane>(grad, rows, shape, out);
        Ok(())
    }, d => Err(ctx.unsupported(d, NUMERIC)))
}

param_enum! {
    /// How `take` handles indices out of range.
    pub enum TakeMode {
        Clip = "clip",
        Raise = "raise",
        Wrap = "wrap",
    }
}

params! {
    /// Parameters of `take`.
    pub struct TakeParam {
        /// The axis from which elements are taken; a negative one counts from the last.
        axis: i32 = 0;
        /// Indices out of range are clipped to the axis (clip), wrap around (wrap), or are an error (raise).
        mode: TakeMode = (TakeMode::Clip);
    }
}

impl TakeParam {
    fn bounds(&self) -> Bounds {
        match self.mode {
            TakeMode::Clip => Bounds::Clip,
            TakeMode::Raise => Bounds::Raise,
            TakeMode::Wrap => Bounds::Wrap,
        }
    }

    fn outer_len_inner(&self, shape: &Shape) -> Result<(usize, usize, usize)> {
        let dims = shape.to_usize();
        Ok(outer_len_inner(&dims, Shape::axis(i64::from(self.axis), dims.len())?))
    }
}

pub(crate) static TAKE: Operator<TakeParam> = Operator::new("take")
    .aliases(&["_npi_take"])
    .doc(
        "Takes the elements at given indices along an axis, which the shape of the indices replaces: with axis=1, \
         out[i, j..., k] = a[i, indices[j...], k].",
    )
    .inputs(&[arg("a", "The array to take from."), arg("indices", "The indices, of any shape.")])
    .shape(|p, io| {
        let (Some(rank), true) = (io.ins[0].ndim(), io.ins[1].ndim_is_known()) else { return Ok(()) };
        let axis = Shape::axis(i64::from(p.get::<TakeParam>().axis), rank)?;
        let mut dims: Dims = io.ins[0].dims()[..axis].into();
        dims.extend_from_slice(io.ins[1].dims());
        dims.extend_from_slice(&io.ins[0].dims()[axis + 1..]);
        io.assign_out(0, &Shape::from(dims))
    })
    .dtype(first_dtype)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<TakeParam>();
        let shape = p.outer_len_inner(ins[0].shape())?;
        let rows = row_indices(ctx, &ins[1], shape.1, p.bounds())?;
        by_size!(ins[0].dtype(), T => {
            index::gather(source::<T>(&ins[0])?, shape, &rows, target::<T>(&mut outs[0])?);
        });
        Ok(())
    })
    .sparse(
        |p, ins, _| {
            // Rows of a csr matrix can be gathered by a dense array of indices.
            let is_by_row = p.get::<TakeParam>().axis == 0 && ins == [StorageType::Csr, StorageType::Default];
            is_by_row.then_some(StorageType::Csr)
        },
        |call| sparse::take(call, call.ctx.params::<TakeParam>().bounds()),
    )
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            no_index_gradient(&mut outs[1])?;
            if !outs[0].wanted() {
                return Ok(());
            }
            let p = ctx.params::<TakeParam>();
            let shape = p.outer_len_inner(outs[0].shape())?;
            let rows = row_indices(ctx, &ins[1], shape.1, p.bounds())?;
            add_rows(ctx, &ins[0], shape, &rows, &mut outs[0])
        })
        .inputs(Deps::Some(&[1]))
        .accumulates(),
        None,
    ));

/// Writes zeros to the gradient of the indices. If the gradient accumulates, there is nothing to add.
fn no_index_gradient(out: &mut Out<'_>) -> Result<()> {
    if out.req() == Req::Add { Ok(()) } else { no_gradient(out) }
}
