//! What the operators on several weights share: the layout of their inputs, their names, shapes and types.

use ferromx_core::dtype::{DType, Element};
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::OpCtx;
use ferromx_core::params::{OpParams, Params};
use ferromx_core::shape::Shape;
use ferromx_core::storage::In;

/// The most weights that one call takes; models with more of them take several calls.
pub const MAX_WEIGHTS: usize = 256;

/// The parameters of an operator on several weights.
pub trait Several: OpParams {
    /// The number of weights.
    fn count(&self) -> usize;
    /// The lists that have a number for each weight, with their names.
    fn lists(&self) -> Vec<(&'static str, usize)>;
}

/// How the inputs lie: for each weight one after the other the arrays of `each`, and behind the last weight those of `shared`.
pub struct Layout {
    /// The weight, its gradient, its states and maybe the weight in single precision.
    pub each: &'static [&'static str],
    /// What all weights share.
    pub shared: &'static [&'static str],
    /// Whether the states are in single precision.
    pub mixed: bool,
}

/// The places of the states, which are all inputs of a weight but the first two of `stride`, for as many weights as fit into
/// the list.
pub const fn states<const N: usize>(stride: usize) -> [usize; N] {
    let mut places = [0; N];
    let mut k = 0;
    while k < N {
        places[k] = k / (stride - 2) * stride + 2 + k % (stride - 2);
        k += 1;
    }
    places
}

/// All places of a list of arrays.
pub const fn places<const N: usize>() -> [usize; N] {
    let mut places = [0; N];
    let mut k = 0;
    while k < N {
        places[k] = k;
        k += 1;
    }
    places
}

/// The outputs that may lie in the memory of their weights.
pub const fn in_place(stride: usize) -> [(usize, usize); MAX_WEIGHTS] {
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
    pub fn inputs<P: Several>(&self, p: &Params) -> usize {
        self.each.len() * p.get::<P>().count() + self.shared.len()
    }

    /// `weight_0`, `grad_0`, ..., `weight_1`, ..., and the names of what is shared.
    pub fn names<P: Several>(&self, p: &Params) -> Vec<String> {
        let each = (0..p.get::<P>().count()).flat_map(|i| self.each.iter().map(move |name| format!("{name}_{i}")));
        each.chain(self.shared.iter().map(|name| name.to_string())).collect()
    }

    /// All that belongs to a weight has its shape.
    pub fn shape<P: Several>(&self, p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
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

    /// The learning rates and weight decays that follow the weights have an element for each of them.
    pub fn shape_of_rates<P: Several>(&self, p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
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

    /// All weights share a type; the states do too, or are in single precision. What is shared is in single precision, but the
    /// factor of gradients in full precision may have any type.
    pub fn dtype<P: Several>(&self, p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
        let stride = self.each.len();
        let weights = stride * p.get::<P>().count();
        for (i, name) in (weights..).zip(self.shared) {
            if io.ins[i].is_none() || self.mixed || *name != "rescale_grad" {
                io.assign_in(i, DType::F32)?;
            }
        }
        let own = |i: usize| i < weights && (!self.mixed || i % stride < 2);
        let known = (0..weights).filter(|i| own(*i)).find_map(|i| io.ins[i]);
        for i in 0..weights {
            match known {
                _ if !own(i) => io.assign_in(i, DType::F32)?,
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

/// The factor of the gradients where it is an array of one element, of any floating-point type.
pub fn factor(ctx: &OpCtx<'_>, x: &In<'_>) -> Result<f64> {
    ferromx_core::dispatch!(x.dtype(), T in [f32, f64, half::f16] => {
        let x = x.slice::<T>()?;
        ensure!(x.len() == 1, "rescale_grad is one number, not {} elements", x.len());
        Ok(x[0].to_f64())
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

/// Defines an operator on several weights. `forward` is its kernel, `each` and `shared` are those of [`Layout`].
macro_rules! several {
    ($(#[$meta:meta])* $name:ident: $op:literal, $doc:expr, $P:ty,
     each [$($each:literal),*], shared [$($shared:literal),*], mixed $mixed:literal, shape $shape:ident, forward $forward:expr) => {
        $(#[$meta])*
        pub static $name: OpDef = {
            const LAYOUT: Layout =
                Layout { each: &[$($each),*], shared: &[$($shared),*], mixed: $mixed };
            const STRIDE: usize = LAYOUT.each.len();
            OpDef::new($op)
                .doc($doc)
                .inputs(&[ArgDef {
                    name: "data",
                    doc: concat!(
                        "For each weight, one weight after the other:" $(, " ", $each)*,
                        $("; then ", $shared,)* "."
                    ),
                    type_string: "NDArray-or-Symbol[]",
                }])
                .params::<$P>()
                .num_inputs_by(|p| LAYOUT.inputs::<$P>(p))
                .input_names_by(|p| LAYOUT.names::<$P>(p))
                .outputs(|p| p.get::<$P>().count())
                .shape(|p, io| LAYOUT.$shape::<$P>(p, io))
                .dtype(|p, io| LAYOUT.dtype::<$P>(p, io))
                .forward($forward)
                .mutates(&const { several::states::<{ MAX_WEIGHTS * (STRIDE - 2) }>(STRIDE) })
                .inplace(&const { several::in_place(STRIDE) })
        };
    };
}
pub(crate) use several;
