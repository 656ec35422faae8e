//! The inputs of multi-tensor optimizers, which update several weights in one call: their order, names, shapes and types.

use ferromx_core::dtype::{DType, Element};
use ferromx_core::error::{Error, Result};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::OpCtx;
use ferromx_core::params::{OpParams, Params};
use ferromx_core::shape::Shape;
use ferromx_core::storage::In;
use ferromx_core::{dispatch, ensure};

/// The maximum number of weights in one call.
pub(super) const MAX_WEIGHTS: usize = 256;

/// The parameters of a multi-tensor optimizer.
pub(super) trait MultiTensor: OpParams {
    /// The number of weights.
    fn count(&self) -> usize;
    /// The name and length of each parameter that must have one number per weight.
    fn lists(&self) -> Vec<(&'static str, usize)>;
}

/// The order of the inputs: the arrays of `each` for one weight after the other, then those of `shared`.
pub(super) struct Layout {
    /// The weight, its gradient, its states and, for mixed precision, its copy in single precision.
    pub each: &'static [&'static str],
    /// The inputs that all weights share.
    pub shared: &'static [&'static str],
    /// True if the states are in single precision.
    pub mixed: bool,
}

/// The input indices of `N` states. Each weight has `stride` inputs: weight, gradient, and `stride - 2` states.
pub(super) const fn state_indices<const N: usize>(stride: usize) -> [usize; N] {
    let mut indices = [0; N];
    let mut k = 0;
    while k < N {
        indices[k] = k / (stride - 2) * stride + 2 + k % (stride - 2);
        k += 1;
    }
    indices
}

/// The indices 0 to `N - 1`.
pub(super) const fn all_indices<const N: usize>() -> [usize; N] {
    let mut indices = [0; N];
    let mut k = 0;
    while k < N {
        indices[k] = k;
        k += 1;
    }
    indices
}

/// The (input, output) of each weight, which may share memory.
pub(super) const fn inplace_pairs(stride: usize) -> [(usize, usize); MAX_WEIGHTS] {
    let mut pairs = [(0, 0); MAX_WEIGHTS];
    let mut k = 0;
    while k < MAX_WEIGHTS {
        pairs[k] = (k * stride, k);
        k += 1;
    }
    pairs
}

impl Layout {
    /// The number of inputs.
    pub(super) fn num_inputs<P: MultiTensor>(&self, p: &Params) -> usize {
        self.each.len() * p.get::<P>().count() + self.shared.len()
    }

    /// `weight_0`, `grad_0`, ..., `weight_1`, ..., then the names of the shared inputs.
    pub(super) fn names<P: MultiTensor>(&self, p: &Params) -> Vec<String> {
        let each = (0..p.get::<P>().count()).flat_map(|i| self.each.iter().map(move |name| format!("{name}_{i}")));
        each.chain(self.shared.iter().map(|name| name.to_string())).collect()
    }

    /// Shape rule: the gradient, the states and the output of a weight have its shape.
    pub(super) fn shape<P: MultiTensor>(&self, p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
        let (stride, p) = (self.each.len(), p.get::<P>());
        for (list, len) in p.lists() {
            ensure!(len == p.count(), "{list} has {len} numbers for {} weights: give one for each", p.count());
        }
        for i in 0..p.count() {
            let mut common = io.outs[i].clone();
            for k in i * stride..(i + 1) * stride {
                io.assign_in(k, &common)?;
                common = io.ins[k].clone();
            }
            (i * stride..(i + 1) * stride).try_for_each(|k| io.assign_in(k, &common))?;
            io.assign_out(i, &common)?;
        }
        Ok(())
    }

    /// Like [`Layout::shape`], if the shared inputs are learning rates and weight decays with one element per weight.
    pub(super) fn shape_of_rates<P: MultiTensor>(&self, p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
        let count = p.get::<P>().count();
        let first = self.each.len() * count;
        for i in first..first + self.shared.len() {
            let size = io.ins[i].is_known().then(|| io.ins[i].num_elements());
            ensure!(
                size.is_none_or(|n| n == count),
                "{} has shape {} for {count} weights: give one element for each",
                self.shared[i - first],
                io.ins[i]
            );
            if size.is_none() {
                io.assign_in(i, &Shape::new(&[count as i64]))?;
            }
        }
        self.shape::<P>(p, io)
    }

    /// Type rule: all weights have one type. Their states have it too, or are in single precision if `mixed`. The shared inputs are in
    /// single precision, except that `rescale_grad` may have any type unless `mixed`.
    pub(super) fn dtype<P: MultiTensor>(&self, p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
        let stride = self.each.len();
        let weights = stride * p.get::<P>().count();
        for (i, name) in (weights..).zip(self.shared) {
            if io.ins[i].is_none() || self.mixed || *name != "rescale_grad" {
                io.assign_in(i, DType::F32)?;
            }
        }
        let has_weight_type = |i: usize| i < weights && (!self.mixed || i % stride < 2);
        let known = (0..weights).filter(|i| has_weight_type(*i)).find_map(|i| io.ins[i]);
        for i in 0..weights {
            match known {
                _ if !has_weight_type(i) => io.assign_in(i, DType::F32)?,
                Some(d) => io.assign_in(i, d)?,
                None => {}
            }
        }
        match known.or_else(|| io.outs.iter().flatten().next().copied()) {
            Some(d) => (0..io.outs.len()).try_for_each(|i| io.assign_out(i, d)),
            None => Ok(()),
        }
    }
}

/// The value of the input `rescale_grad`: the first element of an array of any floating-point type.
pub(super) fn rescale_grad(ctx: &OpCtx<'_>, x: &In<'_>) -> Result<f64> {
    dispatch!(x.dtype(), T in [f32, f64, half::f16] => {
        let x = x.slice::<T>()?;
        let first = x.first().ok_or_else(|| Error::Value("rescale_grad has no elements, expected 1".into()))?;
        Ok(first.to_f64())
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

/// Defines a multi-tensor optimizer. `each`, `shared` and `mixed` are the fields of [`Layout`], and `forward` is the kernel.
macro_rules! multi_tensor {
    ($(#[$meta:meta])* $name:ident: $op:literal, $doc:expr, $P:ty,
     each [$($each:literal),*], shared [$($shared:literal),*], mixed $mixed:literal, shape $shape:ident, forward $forward:expr) => {
        $(#[$meta])*
        pub(crate) static $name: ferromx_core::op::Operator<$P> = {
            const LAYOUT: Layout =
                Layout { each: &[$($each),*], shared: &[$($shared),*], mixed: $mixed };
            const STRIDE: usize = LAYOUT.each.len();
            ferromx_core::op::Operator::new($op)
                .doc($doc)
                .inputs(&[ArgDef {
                    name: "data",
                    doc: concat!(
                        "For each weight in order:" $(, " ", $each)*,
                        $("; then ", $shared,)* "."
                    ),
                    type_string: "NDArray-or-Symbol[]",
                }])
                .num_inputs_by(|p| LAYOUT.num_inputs::<$P>(p))
                .input_names_by(|p| LAYOUT.names::<$P>(p))
                .outputs(|p| p.get::<$P>().count())
                .shape(|p, io| LAYOUT.$shape::<$P>(p, io))
                .dtype(|p, io| LAYOUT.dtype::<$P>(p, io))
                .forward($forward)
                .mutates(&const { multi_tensor::state_indices::<{ MAX_WEIGHTS * (STRIDE - 2) }>(STRIDE) })
                .inplace(&const { multi_tensor::inplace_pairs(STRIDE) })
        };
    };
}
pub(crate) use multi_tensor;
