//! `einsum`: sums of products in Einstein notation. Operands are contracted from left to right by batched matrix products.

use std::borrow::Cow;

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::gemm::{self, MatRef};
use ferromx_kernels::map::Elements;
use ferromx_kernels::movement;
use ferromx_kernels::par::Pod;
use ferromx_kernels::reduce::{self, NumericLane, Sum};

use super::product::MatrixElement;
use crate::elemwise::family::{elements, elements_mut};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&EINSUM];

params! {
    /// Parameters of `_npi_einsum`.
    pub struct EinsumParam {
        /// Number of arrays.
        num_args: i32 = required, where 1..=i32::MAX;
        /// A letter for each axis of each array, arrays separated by commas, then `->` and the letters of the result. An ellipsis
        /// stands for the axes without a letter. Without `->` the result has the letters that occur once, in alphabetical order.
        subscripts: String = (String::new());
        /// Ignored; operands are always contracted pairwise from left to right.
        optimize: i32 = 0;
    }
}

pub(super) static EINSUM: Operator<EinsumParam> = Operator::new("_npi_einsum")
    .doc(
        "The sum of products in Einstein notation, over all letters that are not in the result.\n\n\
         `ij,jk->ik` is the matrix product, `ii` the trace, `ij->ji` the transpose, `...ij,...jk->...ik` the batched matrix product.",
    )
    .variadic("data", "The arrays, all of one type.", "num_args")
    .shape(einsum_shape)
    .forward(|ctx, ins, outs| match outs[0].dtype() {
        DType::F64 => forward::<f64>(ctx, ins, &mut outs[0]),
        d if d.is_float() => forward::<f32>(ctx, ins, &mut outs[0]),
        _ => forward::<i64>(ctx, ins, &mut outs[0]),
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| match ins[0].dtype() {
            DType::F64 => backward::<f64>(ctx, ins, outs),
            d if d.is_float() => backward::<f32>(ctx, ins, outs),
            _ => backward::<i64>(ctx, ins, outs),
        })
        .inputs(Deps::All),
        None,
    ));

/// An axis label: a letter, or 255 - k for the k-th axis from the end of an ellipsis.
type Label = u8;

/// The parsed subscripts: the labels of the operands and of the result, and the length of each label.
struct Subscripts {
    operands: Vec<Vec<Label>>,
    result: Vec<Label>,
    lengths: [usize; 256],
}

impl Subscripts {
    /// Parses the subscripts for operands of known shapes. An axis of length 1 is broadcast to the length of its label elsewhere.
    fn new(text: &str, shapes: &[Dims]) -> Result<Subscripts> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (inputs, output) = match text.split_once("->") {
            Some((inputs, output)) => (inputs, Some(output)),
            None => (text.as_str(), None),
        };
        let terms: Vec<&str> = inputs.split(',').collect();
        ensure!(
            terms.len() == shapes.len(),
            "subscripts '{text}' are for {} arrays, but {} were given",
            terms.len(),
            shapes.len()
        );
        let mut lengths = [1usize; 256];
        let (mut operands, mut max_ellipsis_axes) = (Vec::new(), 0);
        for (i, (term, dims)) in terms.iter().zip(shapes).enumerate() {
            let letters = term.replace("...", "").len();
            let num_ellipsis_axes = dims.len().checked_sub(letters).filter(|n| *n == 0 || term.contains("..."));
            let Some(num_ellipsis_axes) = num_ellipsis_axes else {
                return Err(Error::Value(format!(
                    "subscripts '{term}' do not match array {i}, which has {} axes: give one letter for each, or an ellipsis",
                    dims.len()
                )));
            };
            max_ellipsis_axes = max_ellipsis_axes.max(num_ellipsis_axes);
            let labels = parse_term(term, num_ellipsis_axes)?;
            for (label, n) in labels.iter().zip(dims) {
                let (n, known) = (*n as usize, &mut lengths[usize::from(*label)]);
                ensure!(
                    *known == 1 || n == 1 || *known == n,
                    "axis '{}' has length {n} in array {i}, but {known} before",
                    label_name(*label)
                );
                *known = if n == 1 { *known } else { n };
            }
            operands.push(labels);
        }
        let result = match output {
            Some(term) => parse_term(term, max_ellipsis_axes)?,
            None => implicit_result(&operands, max_ellipsis_axes),
        };
        check_result(&text, &operands, &result)?;
        operands.iter().zip(shapes).try_for_each(|(labels, dims)| check_repeated_labels(labels, dims))?;
        Ok(Subscripts { operands, result, lengths })
    }

    fn dims(&self, labels: &[Label]) -> Vec<usize> {
        labels.iter().map(|l| self.lengths[usize::from(*l)]).collect()
    }
}

/// Checks that the labels of the result are distinct and occur in an operand.
fn check_result(text: &str, operands: &[Vec<Label>], result: &[Label]) -> Result<()> {
    for (i, label) in result.iter().enumerate() {
        ensure!(!result[..i].contains(label), "axis '{}' occurs twice in the result of '{text}'", label_name(*label));
        let is_known = operands.iter().any(|o| o.contains(label));
        ensure!(is_known, "axis '{}' of the result of '{text}' is in none of the arrays", label_name(*label));
    }
    Ok(())
}

/// Checks that the axes of an operand with the same label, a diagonal, have equal lengths.
fn check_repeated_labels(labels: &[Label], dims: &Dims) -> Result<()> {
    for (i, label) in labels.iter().enumerate() {
        let first = labels.iter().position(|l| l == label).unwrap_or(i);
        ensure!(dims[first] == dims[i], "axis '{}' has two different lengths in one array", label_name(*label));
    }
    Ok(())
}

fn label_name(label: Label) -> String {
    if label.is_ascii_alphabetic() { char::from(label).to_string() } else { "...".to_string() }
}

/// Parses the labels of a term, in which an ellipsis stands for `num_ellipsis_axes` axes.
fn parse_term(term: &str, num_ellipsis_axes: usize) -> Result<Vec<Label>> {
    let mut labels = Vec::new();
    let (before, after) = term.split_once("...").unwrap_or((term, ""));
    for (i, part) in [before, after].into_iter().enumerate() {
        if i == 1 && term.contains("...") {
            ensure!(num_ellipsis_axes < 128, "an array has too many axes");
            labels.extend((0..num_ellipsis_axes).rev().map(|k| 255 - k as u8));
        }
        for c in part.bytes() {
            ensure!(c.is_ascii_alphabetic(), "'{}' in subscripts '{term}' is not a letter", char::from(c));
            labels.push(c);
        }
    }
    Ok(labels)
}

/// The labels of a result without `->`: the ellipsis, then the letters that occur once, in alphabetical order.
fn implicit_result(operands: &[Vec<Label>], num_ellipsis_axes: usize) -> Vec<Label> {
    let num_occurrences = |l: Label| operands.iter().flatten().filter(|o| **o == l).count();
    let letters = (b'A'..=b'z').filter(|l| l.is_ascii_alphabetic() && num_occurrences(*l) == 1);
    (0..num_ellipsis_axes).rev().map(|k| 255 - k as u8).chain(letters).collect()
}

fn einsum_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    if io.ins.iter().any(|s| !s.is_known()) {
        return Ok(());
    }
    let shapes: Vec<Dims> = io.ins.iter().map(|s| s.dims().into()).collect();
    let n = Subscripts::new(&p.get::<EinsumParam>().subscripts, &shapes)?;
    let out = Shape::from_usize(&n.dims(&n.result));
    io.assign_out(0, &out)
}

/// A type in which contractions are computed.
trait ContractionLane: NumericLane + Pod {
    /// Batched product C_i = A_i B_i of row-major (m, k) and (k, n) matrices.
    fn products(a: &[Self], b: &[Self], c: &mut [Self], size: (usize, usize, usize));
}

macro_rules! float_lane {
    ($($t:ty)*) => {$(
        impl ContractionLane for $t {
            fn products(a: &[Self], b: &[Self], c: &mut [Self], (m, k, n): (usize, usize, usize)) {
                let a = |i: usize| MatRef::row_major(&a[i * m * k..][..m * k], m, k);
                let b = |i: usize| MatRef::row_major(&b[i * k * n..][..k * n], k, n);
                <$t as MatrixElement>::products(a, b, c, (m, n));
            }
        }
    )*};
}

float_lane!(f32 f64);

impl ContractionLane for i64 {
    fn products(a: &[Self], b: &[Self], c: &mut [Self], (m, k, n): (usize, usize, usize)) {
        gemm::integer_products(a, b, c, (m, k, n));
    }
}

/// An array with one distinct label per axis.
#[derive(Clone)]
struct Tensor<'a, C: Clone> {
    labels: Vec<Label>,
    dims: Vec<usize>,
    data: Cow<'a, [C]>,
}

/// The extraction of a diagonal: the shape before, and the two axes, which are replaced by one new last axis.
type Diagonal = (Vec<usize>, (usize, usize));

/// Extracts diagonals for repeated labels, and drops axes of length 1 whose label has another length elsewhere.
fn unique_labels(labels: &[Label], dims: &[usize], lengths: &[usize; 256]) -> (Vec<Diagonal>, Vec<Label>, Vec<usize>) {
    let (mut labels, mut dims, mut diagonals) = (labels.to_vec(), dims.to_vec(), Vec::new());
    while let Some((i, j)) = repeated_label(&labels) {
        diagonals.push((dims.clone(), (i, j)));
        let (label, n) = (labels[i], dims[i]);
        for k in [j, i] {
            labels.remove(k);
            dims.remove(k);
        }
        labels.push(label);
        dims.push(n);
    }
    let kept_axes: Vec<usize> = (0..labels.len()).filter(|i| dims[*i] == lengths[usize::from(labels[*i])]).collect();
    (diagonals, kept_axes.iter().map(|i| labels[*i]).collect(), kept_axes.iter().map(|i| dims[*i]).collect())
}

fn repeated_label(labels: &[Label]) -> Option<(usize, usize)> {
    (0..labels.len()).find_map(|i| labels[i + 1..].iter().position(|l| *l == labels[i]).map(|k| (i, i + 1 + k)))
}

impl<'a, C: ContractionLane> Tensor<'a, C> {
    fn new(data: Elements<'a>, labels: &[Label], dims: &[usize], lengths: &[usize; 256]) -> Tensor<'a, C> {
        let mut data = match C::view_any(data) {
            Some(lanes) => Cow::Borrowed(lanes),
            None => {
                let mut lanes = vec![C::ZERO; data.len()];
                C::load_any(data, 0, &mut lanes);
                Cow::Owned(lanes)
            }
        };
        let (diagonals, labels, unique_dims) = unique_labels(labels, dims, lengths);
        for (dims, pair) in &diagonals {
            let size = dims.iter().product::<usize>().checked_div(dims[pair.0]).unwrap_or(0);
            let mut diagonal = vec![C::ZERO; size];
            movement::diagonal(&data, dims, *pair, 0, &mut diagonal);
            data = Cow::Owned(diagonal);
        }
        Tensor { labels, dims: unique_dims, data }
    }

    /// Transposes the axes to the given order of labels.
    fn transpose_to(self, order: &[Label]) -> Tensor<'a, C> {
        if self.labels == order {
            return self;
        }
        let axis = |l: &Label| self.labels.iter().position(|m| m == l).unwrap_or(0);
        let perm: Vec<usize> = order.iter().map(axis).collect();
        let mut data = vec![C::ZERO; self.data.len()];
        movement::transpose(&self.data, &self.dims, &perm, &mut data);
        let dims = perm.iter().map(|i| self.dims[*i]).collect();
        Tensor { labels: order.to_vec(), dims, data: Cow::Owned(data) }
    }

    /// Sums over the axes whose labels are not `needed`.
    fn sum_unless(self, needed: impl Fn(Label) -> bool) -> Tensor<'a, C> {
        let axes: Vec<usize> = (0..self.labels.len()).filter(|i| !needed(self.labels[*i])).collect();
        if axes.is_empty() {
            return self;
        }
        let keep = |i: &usize| !axes.contains(i);
        let labels: Vec<Label> = (0..self.labels.len()).filter(keep).map(|i| self.labels[i]).collect();
        let dims: Vec<usize> = (0..self.dims.len()).filter(keep).map(|i| self.dims[i]).collect();
        let mut data = vec![C::ZERO; dims.iter().product()];
        reduce::reduce::<Sum, C, C, C>(&self.data, &self.dims, &axes, &mut data);
        Tensor { labels, dims, data: Cow::Owned(data) }
    }

    /// The product with another array, summed over the axes whose labels are not `needed`. It is one batched matrix product: the batch axes
    /// are the needed labels of both arrays, the inner axes their other common labels.
    fn multiply(self, other: Tensor<'a, C>, needed: impl Fn(Label) -> bool) -> Tensor<'a, C> {
        let (a_labels, b_labels) = (self.labels.clone(), other.labels.clone());
        let a = self.sum_unless(|l| needed(l) || b_labels.contains(&l));
        let b = other.sum_unless(|l| needed(l) || a_labels.contains(&l));
        let common: Vec<Label> = a.labels.iter().copied().filter(|l| b.labels.contains(l)).collect();
        let (batch, inner): (Vec<Label>, Vec<Label>) = common.iter().partition(|l| needed(**l));
        let only = |t: &Tensor<'a, C>| t.labels.iter().copied().filter(|l| !common.contains(l)).collect::<Vec<_>>();
        let (rows, columns) = (only(&a), only(&b));
        let a = a.transpose_to(&[&batch[..], &rows, &inner].concat());
        let b = b.transpose_to(&[&batch[..], &inner, &columns].concat());
        let size = |t: &Tensor<'a, C>, from: usize, n: usize| t.dims[from..from + n].iter().product::<usize>();
        let (m, k) = (size(&a, batch.len(), rows.len()), size(&b, batch.len(), inner.len()));
        let n = size(&b, batch.len() + inner.len(), columns.len());
        let labels = [&batch[..], &rows, &columns].concat();
        let dims: Vec<usize> =
            a.dims[..batch.len() + rows.len()].iter().chain(&b.dims[batch.len() + inner.len()..]).copied().collect();
        let mut data = vec![C::ZERO; dims.iter().product()];
        if !data.is_empty() && k > 0 {
            C::products(&a.data, &b.data, &mut data, (m, k, n));
        }
        Tensor { labels, dims, data: Cow::Owned(data) }
    }
}

/// Multiplies the operands from left to right. A label is summed over as soon as neither the result nor a remaining operand has it.
fn contract<'a, C: ContractionLane>(operands: Vec<Tensor<'a, C>>, result: &[Label]) -> Tensor<'a, C> {
    let mut remaining: Vec<Vec<Label>> = operands.iter().map(|t| t.labels.clone()).collect();
    remaining.reverse();
    remaining.pop();
    let mut operands = operands.into_iter();
    let scalar_one = || Tensor { labels: Vec::new(), dims: Vec::new(), data: Cow::Owned(vec![C::ONE]) };
    let mut product = operands.next().unwrap_or_else(scalar_one);
    for operand in operands {
        remaining.pop();
        product = product.multiply(operand, |l| result.contains(&l) || remaining.iter().flatten().any(|m| *m == l));
    }
    product.sum_unless(|l| result.contains(&l)).transpose_to(result)
}

fn subscripts_of(ctx: &OpCtx<'_>, ins: &[In<'_>]) -> Result<Subscripts> {
    let shapes: Vec<Dims> = ins.iter().map(|x| x.shape().dims().into()).collect();
    Subscripts::new(&ctx.params::<EinsumParam>().subscripts, &shapes)
}

fn tensors<'a, C: ContractionLane>(n: &Subscripts, ins: &[In<'a>]) -> Result<Vec<Tensor<'a, C>>> {
    let tensor =
        |(x, labels): (&In<'a>, &Vec<Label>)| Ok(Tensor::new(elements(x)?, labels, &x.shape().to_usize(), &n.lengths));
    ins.iter().zip(&n.operands).map(tensor).collect()
}

fn forward<C: ContractionLane>(ctx: &OpCtx<'_>, ins: &[In<'_>], out: &mut Out<'_>) -> Result<()> {
    let n = subscripts_of(ctx, ins)?;
    let product = contract(tensors::<C>(&n, ins)?, &n.result);
    C::store_any(&product.data, elements_mut(out)?);
    Ok(())
}

/// The gradient of an operand is the product of the output's gradient and the other operands, summed over labels that the operand does not
/// have and broadcast along labels that only it has.
fn backward<C: ContractionLane>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (g, ins) = (&ins[0], &ins[1..]);
    let n = subscripts_of(ctx, ins)?;
    let operands = tensors::<C>(&n, ins)?;
    let gradient = Tensor::new(elements(g)?, &n.result, &g.shape().to_usize(), &n.lengths);
    for (i, out) in outs.iter_mut().enumerate().filter(|(_, out)| out.wanted()) {
        let others = operands.iter().enumerate().filter(|(k, _)| *k != i).map(|(_, t)| t.clone());
        let terms: Vec<_> = std::iter::once(gradient.clone()).chain(others).collect();
        let (diagonals, labels, dims) = unique_labels(&n.operands[i], &out.shape().to_usize(), &n.lengths);
        let shared_labels: Vec<Label> =
            labels.iter().copied().filter(|l| terms.iter().any(|t| t.labels.contains(l))).collect();
        let product = contract(terms, &shared_labels);
        let shared_dims: Vec<usize> =
            labels.iter().zip(&dims).map(|(l, d)| if shared_labels.contains(l) { *d } else { 1 }).collect();
        let mut data = vec![C::ZERO; dims.iter().product()];
        movement::broadcast_to(&product.data, &shared_dims, (&mut data, &dims));
        for (dims, pair) in diagonals.iter().rev() {
            let mut matrix = vec![C::ZERO; dims.iter().product()];
            movement::diagonal_assign(&data, (&mut matrix, dims), *pair, 0);
            data = matrix;
        }
        C::store_any(&data, elements_mut(out)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, numbers, vector};

    fn case(subscripts: &str, n: usize) -> Case {
        Case::new(&EINSUM, &[("num_args", &n.to_string()), ("subscripts", subscripts)])
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        for (subscripts, dims) in [
            ("ij,jk->ik", &[&[2, 3][..], &[3, 2]][..]),
            ("ij,jk", &[&[2, 3], &[3, 2]]),
            ("ii->i", &[&[3, 3]]),
            ("ii", &[&[3, 3]]),
            ("ij->", &[&[2, 3]]),
            ("ij,ij->ij", &[&[2, 3], &[2, 3]]),
            ("...ij,...jk->...ik", &[&[2, 2, 3], &[3, 2]]),
            ("ij,jk,kl->il", &[&[2, 3], &[3, 2], &[2, 2]]),
            (",ij->ij", &[&[], &[2, 3]]),
            ("ij,k->ij", &[&[2, 3], &[2]]),
            ("iij,jk->ik", &[&[2, 2, 3], &[3, 2]]),
            ("ij,kj->ik", &[&[2, 1], &[2, 3]]),
            ("i...,j...->ij...", &[&[2, 3], &[2, 1]]),
            ("ij,ik,il->jkl", &[&[2, 2], &[2, 3], &[2, 2]]),
        ] {
            case(subscripts, dims.len()).check_gradient(&dims.iter().map(|d| numbers(d)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn integer_sums_are_exact() {
        let (a, b) = (vector(DType::I32, &[1.0, 2.0]), vector(DType::I32, &[3.0, 4.0]));
        let y = case("i,i", 2).run1(&[a.clone(), b.clone()]).unwrap();
        assert_eq!((y.shape(), y.to_vec::<i32>().unwrap()), (&Shape::new(&[]), vec![11]));
        assert_eq!(case("i,j->ji", 2).run1(&[a, b]).unwrap().to_vec::<i32>().unwrap(), [3, 6, 4, 8]);
    }

    #[test]
    fn invalid_subscripts_are_refused() {
        let error = |subscripts: &str, dims: &[&[i64]]| {
            let shapes: Vec<_> = dims.iter().map(|d| Shape::new(d)).collect();
            case(subscripts, dims.len()).shapes(&shapes).unwrap_err().to_string()
        };
        assert!(error("ij->ij", &[&[2, 3], &[2, 3]]).contains("are for 1 arrays"));
        assert!(error("ij", &[&[2, 3, 4]]).contains("has 3 axes"));
        assert!(error("ij->ii", &[&[2, 3]]).contains("twice"));
        assert!(error("ij->iq", &[&[2, 3]]).contains("in none of the arrays"));
        assert!(error("ij,jk->ik", &[&[2, 3], &[2, 2]]).contains("length 2 in array 1, but 3 before"));
        assert!(error("i.j->ij", &[&[2, 3]]).contains("axes"));
        assert!(error("1j->j", &[&[2, 3]]).contains("not a letter"));
    }
}
