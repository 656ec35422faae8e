//! Runs operator definitions on arrays for the unit tests: inference, forward, gradient.
//!
//! Runs of operators with in-place pairs are repeated in place, runs of elementwise operators in two chunks, and those of operators that
//! consist of loops in a chain that records them. The results must have the same bits.

use std::sync::atomic::{AtomicU64, Ordering};

use ferromx_core::context::Context;
use ferromx_core::dtype::{DType, Element};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Entry, Grad, GradGraph, GradNode};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Deps, Forward, KernelFn, OpCtx, OpDef, RandomKey, RandomSource};
use ferromx_core::params::{Attrs, Params};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{Chain, ChainCall, LOOP_MULTIPLE, Operand, Region, Req, call_once};
use ferromx_kernels::par::with_scratch;

/// An array of unordered numbers between -1 and 1.4. The first 13 are distinct.
pub(crate) fn numbers(dims: &[i64]) -> NDArray {
    let n = dims.iter().product::<i64>();
    array(&(0..n).map(|i| (i * 7 % 13) as f64 / 5.0 - 1.0).collect::<Vec<_>>(), dims)
}

/// An array of 1, 2, 3, ... in double precision.
pub(crate) fn count(dims: &[i64]) -> NDArray {
    let n: i64 = dims.iter().product();
    array(&(1..=n).map(|i| i as f64).collect::<Vec<_>>(), dims)
}

/// The elements of the array that an operator without inputs creates.
pub(crate) fn created(def: &'static OpDef, attrs: &[(&str, &str)]) -> Result<Vec<f64>> {
    Case::parse(def, attrs)?.run1(&[])?.to_vec_as::<f64>()
}

/// An array of shape `dims` with the given elements.
pub(crate) fn array<T: Element>(items: &[T], dims: &[i64]) -> NDArray {
    NDArray::from_slice(items, dims).unwrap()
}

/// A vector of an element type, converted from double precision.
pub(crate) fn vector(dtype: DType, items: &[f64]) -> NDArray {
    cast(&array(items, &[items.len() as i64]), dtype)
}

/// The array converted to another dtype.
pub(crate) fn cast(x: &NDArray, dtype: DType) -> NDArray {
    ferromx_core::dispatch!(dtype, T in [f32, f64, half::f16, u8, i32, i8, i64, bool, half::bf16] => {
        array::<T>(&x.to_vec_as().unwrap(), x.shape().dims())
    }, other => panic!("no elements of type {other}"))
}

struct Counter(AtomicU64);

impl RandomSource for Counter {
    fn next_key(&self) -> RandomKey {
        RandomKey { seed: 1, stream: self.0.fetch_add(1, Ordering::Relaxed) }
    }
}

/// A call of an operator with its parameters as text.
pub(crate) struct Case {
    def: &'static OpDef,
    attrs: Vec<(String, String)>,
    params: Params,
    train: bool,
}

impl Case {
    /// Creates a call; panics if the parameters do not parse.
    pub(crate) fn new(def: &'static OpDef, attrs: &[(&str, &str)]) -> Case {
        Case::parse(def, attrs).unwrap()
    }

    /// Creates a call, or returns the error of its parameters.
    pub(crate) fn parse(def: &'static OpDef, attrs: &[(&str, &str)]) -> Result<Case> {
        let attrs: Vec<_> = attrs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let params = def.parse(&attrs.iter().cloned().collect::<Attrs>())?;
        Ok(Case { def, attrs, params, train: false })
    }

    /// The call in training mode.
    pub(crate) fn train(mut self) -> Case {
        self.train = true;
        self
    }

    /// Infers output shapes from input shapes, which may be unknown.
    pub(crate) fn shapes(&self, ins: &[Shape]) -> Result<Vec<Shape>> {
        self.shapes_both(ins, &[]).map(|(_, outs)| outs)
    }

    /// Infers the shapes of inputs and outputs from the given ones.
    pub(crate) fn shapes_both(&self, ins: &[Shape], outs: &[Shape]) -> Result<(Vec<Shape>, Vec<Shape>)> {
        let (mut ins, mut outs) = (ins.to_vec(), outs.to_vec());
        outs.resize(self.def.num_outputs(&self.params), Shape::unknown());
        (self.def.inference.shape)(&self.params, &mut ShapeIo { ins: &mut ins, outs: &mut outs })?;
        Ok((ins, outs))
    }

    /// Infers output dtypes from input dtypes.
    pub(crate) fn dtypes(&self, ins: &[Option<DType>]) -> Result<Vec<Option<DType>>> {
        let mut ins = ins.to_vec();
        let mut outs = vec![None; self.def.num_outputs(&self.params)];
        (self.def.inference.dtype)(&self.params, &mut DTypeIo { ins: &mut ins, outs: &mut outs })?;
        Ok(outs)
    }

    /// Runs the operator and returns all outputs, hidden ones included. Mutable inputs are modified.
    pub(crate) fn run(&self, ins: &[NDArray]) -> Result<Vec<NDArray>> {
        let shapes = self.shapes(&ins.iter().map(|a| a.shape().clone()).collect::<Vec<_>>())?;
        let dtypes = self.dtypes(&ins.iter().map(|a| Some(a.dtype())).collect::<Vec<_>>())?;
        let kernel = match self.def.kernels.forward {
            Forward::View => return Ok(vec![ins[0].reshape(&shapes[0])?]),
            Forward::Dynamic(f) => return f(&self.context(&Counter(AtomicU64::new(0))), ins),
            Forward::Foreign(f) => {
                let outs: Vec<_> = shapes.iter().zip(&dtypes).map(|(s, d)| blank(s, d.unwrap())).collect();
                let reqs = vec![Req::Write; outs.len()];
                return f(&self.context(&Counter(AtomicU64::new(0))), ins, &outs, &reqs).map(|()| outs);
            }
            Forward::Kernel(kernel) => kernel,
        };
        let outs: Vec<_> = shapes.iter().zip(&dtypes).map(|(s, d)| blank(s, d.unwrap())).collect();
        // Copies from before the call, which may modify mutable inputs.
        let originals: Vec<_> = ins.iter().map(copy_of).collect();
        let with_states: Vec<_> =
            outs.iter().chain(self.def.signature.mutates.iter().filter_map(|i| ins.get(*i))).cloned().collect();
        self.call(kernel, ins, &with_states, Req::Write)?;
        if self.def.signature.mutates.is_empty() && !self.def.kernels.is_random {
            self.repeat_in_place(kernel, self.def.kernels.inplace, &originals, &outs)?;
            let has_output_shape = |a: &NDArray| a.shape() == outs[0].shape();
            if self.def.fusion.is_pointwise
                || (self.def.fusion.is_broadcasting && originals.iter().all(has_output_shape))
            {
                self.repeat_in_chunks(kernel, &originals, &outs)?;
            }
            if self.def.fusion.consists_of_loops {
                self.repeat_recorded(kernel, &originals, &outs)?;
            }
        }
        Ok(outs)
    }

    /// Runs the operator and returns the first output.
    pub(crate) fn run1(&self, ins: &[NDArray]) -> Result<NDArray> {
        Ok(self.run(ins)?.swap_remove(0))
    }

    /// The gradients of the immutable inputs for given gradients of the visible outputs; zeros if there is no gradient.
    pub(crate) fn backward(&self, ins: &[NDArray], ograds: &[NDArray]) -> Result<Vec<NDArray>> {
        let outs = self.run(&ins.iter().map(copy_of).collect::<Vec<_>>())?;
        match self.def.gradient(&self.params) {
            Grad::None | Grad::By(_) => Err(Error::NotDifferentiable(self.def.name.into())),
            Grad::Zero => Ok(self.differentiable(ins).map(zeros_like).collect()),
            Grad::Kernel(b, _) => self.backward_kernel(&b, ins, ograds, &outs),
            Grad::Compose(_) => self.backward_composed(ins, ograds),
        }
    }

    /// The gradients of the composed form, or the result of [`Case::backward`] if there is no composed form.
    pub(crate) fn backward_composed(&self, ins: &[NDArray], ograds: &[NDArray]) -> Result<Vec<NDArray>> {
        let (Grad::Compose(compose) | Grad::Kernel(_, Some(compose))) = self.def.gradient(&self.params) else {
            return self.backward(ins, ograds);
        };
        let outs = self.run(&ins.iter().map(copy_of).collect::<Vec<_>>())?;
        let mut graph = Eager { nodes: Vec::new(), train: self.train };
        let add = |g: &mut Eager, arrays: &[NDArray]| arrays.iter().map(|a| g.leaf(a)).collect::<Vec<_>>();
        let (inputs, outputs, ograds) = (add(&mut graph, ins), add(&mut graph, &outs), add(&mut graph, ograds));
        let node = GradNode { params: &self.params, inputs: &inputs, outputs: &outputs, ograds: &ograds };
        let grads = compose(&mut graph, &node)?;
        Ok(grads.iter().zip(ins).map(|(g, x)| g.map_or_else(|| zeros_like(x), |e| graph.array(e))).collect())
    }

    /// Compares the gradients of all inputs of type f64 with finite differences of `sum(w * output)` for a fixed random `w`, and
    /// the composed form with the kernel.
    pub(crate) fn check_gradient(&self, ins: &[NDArray]) {
        let outs = self.run(&ins.iter().map(copy_of).collect::<Vec<_>>()).unwrap();
        let visible = self.def.num_visible(&self.params);
        let weights: Vec<NDArray> = outs[..visible].iter().enumerate().map(|(k, o)| weights_like(o, k)).collect();
        let grads = self.backward(ins, &weights).unwrap();
        for (composed, grad) in self.backward_composed(ins, &weights).unwrap().iter().zip(&grads) {
            close(&composed.to_vec_as::<f64>().unwrap(), &grad.to_vec_as::<f64>().unwrap(), 1e-9);
        }
        let value = |ins: &[NDArray]| -> f64 {
            let outs = self.run(&ins.iter().map(copy_of).collect::<Vec<_>>()).unwrap();
            outs.iter().zip(&weights).map(|(o, w)| dot(o, w)).sum()
        };
        for (k, x) in ins.iter().enumerate().filter(|(k, x)| x.dtype() == DType::F64 && *k < grads.len()) {
            let base = x.to_vec::<f64>().unwrap();
            let grad = grads[k].to_vec::<f64>().unwrap();
            for i in 0..base.len() {
                let h = 1e-5 * base[i].abs().max(1.0);
                let value_at = |delta: f64| {
                    let mut perturbed = base.clone();
                    perturbed[i] += delta;
                    let mut ins = ins.to_vec();
                    ins[k] = array(&perturbed, x.shape().dims());
                    value(&ins)
                };
                let want = (value_at(h) - value_at(-h)) / (2.0 * h);
                let diff = (want - grad[i]).abs();
                assert!(
                    diff <= 1e-5 * want.abs().max(1.0),
                    "{}: d/d(input {k})[{i}] at {}: gradient {}, finite difference {want}",
                    self.def.name,
                    base[i],
                    grad[i]
                );
            }
        }
    }

    fn differentiable<'a>(&self, ins: &'a [NDArray]) -> impl Iterator<Item = &'a NDArray> {
        let mutates = self.def.signature.mutates;
        ins.iter().enumerate().filter(move |(i, _)| !mutates.contains(i)).map(|(_, x)| x)
    }

    fn backward_kernel(
        &self,
        b: &Backward,
        ins: &[NDArray],
        ograds: &[NDArray],
        outs: &[NDArray],
    ) -> Result<Vec<NDArray>> {
        let pick = |deps: Deps, from: &[NDArray]| deps.indices(from.len()).map(|i| from[i].clone()).collect::<Vec<_>>();
        let inputs = [pick(b.ograds, ograds), pick(b.inputs, ins), pick(b.outputs, outs)].concat();
        let grads: Vec<_> = self.differentiable(ins).map(|x| blank(x.shape(), x.dtype())).collect();
        let states: Vec<_> = b.updates.iter().map(|i| inputs[*i].clone()).collect();
        self.call(b.kernel, &inputs, &[&*grads, &*states].concat(), Req::Write)?;
        self.repeat_in_place(b.kernel, b.inplace, &inputs, &grads)?;
        if b.consists_of_loops {
            self.repeat_recorded(b.kernel, &inputs, &grads)?;
        }
        if b.is_accumulating {
            let sums: Vec<_> = grads.iter().map(copy_of).collect();
            self.call(b.kernel, &inputs, &sums, Req::Add)?;
            for (s, g) in sums.iter().zip(&grads) {
                let twice: Vec<f64> = g.to_vec_as::<f64>().unwrap().iter().map(|g| 2.0 * g).collect();
                close(&s.to_vec_as::<f64>().unwrap(), &twice, 1e-2);
            }
        }
        Ok(grads)
    }

    fn context<'a>(&'a self, random: &'a Counter) -> OpCtx<'a> {
        OpCtx {
            op: self.def.name,
            params: &self.params,
            is_train: self.train,
            random,
            cache: None,
            context: Context::default(),
            recorder: None,
        }
    }

    fn call(&self, kernel: KernelFn, ins: &[NDArray], outs: &[NDArray], req: Req) -> Result<()> {
        let random = Counter(AtomicU64::new(0));
        let ctx = self.context(&random);
        let outs: Vec<_> = outs.iter().map(|o| (o, req)).collect();
        call_once(&ins.iter().collect::<Vec<_>>(), &outs, |i, o| kernel(&ctx, i, o))
    }

    /// Repeats a call with the output in the memory of the input, for each pair of input and output that allows it.
    fn repeat_in_place(
        &self,
        kernel: KernelFn,
        pairs: &[(usize, usize)],
        ins: &[NDArray],
        outs: &[NDArray],
    ) -> Result<()> {
        for &(i, o) in pairs.iter().filter(|(i, o)| *i < ins.len() && *o < outs.len()) {
            if ins[i].dtype() != outs[o].dtype() || ins[i].len() != outs[o].len() {
                continue;
            }
            let mut ins: Vec<_> = ins.iter().map(copy_of).collect();
            let mut again: Vec<_> = outs.iter().map(zeros_like).collect();
            again[o] = ins[i].reshape(outs[o].shape())?;
            ins[i] = again[o].reshape(ins[i].shape())?;
            self.call(kernel, &ins, &again, Req::Write)?;
            self.assert_same_bits(outs, &again, "in place");
        }
        Ok(())
    }

    /// Repeats a call on the first third of the elements and on the rest.
    fn repeat_in_chunks(&self, kernel: KernelFn, ins: &[NDArray], outs: &[NDArray]) -> Result<()> {
        let n = outs[0].len();
        let again: Vec<_> = outs.iter().map(zeros_like).collect();
        for (from, to) in [(0, n / 3), (n / 3, n)] {
            let chunk = |a: &NDArray| a.reshape(&Shape::new(&[n as i64]))?.slice(from, to);
            let ins = ins.iter().map(chunk).collect::<Result<Vec<_>>>()?;
            let outs = again.iter().map(chunk).collect::<Result<Vec<_>>>()?;
            self.call(kernel, &ins, &outs, Req::Write)?;
        }
        self.assert_same_bits(outs, &again, "in chunks");
        Ok(())
    }

    /// Repeats a call on more elements as a chain of one kernel, whose loops are recorded. Only for operands of 32-bit floats and of one
    /// length.
    fn repeat_recorded(&self, kernel: KernelFn, ins: &[NDArray], outs: &[NDArray]) -> Result<()> {
        const BLOCK: usize = LOOP_MULTIPLE;
        let n = outs[0].len();
        if n == 0 || !ins.iter().chain(outs).all(|a| a.dtype() == DType::F32 && a.len() == n) {
            return Ok(());
        }
        let longer = |a: &NDArray| {
            let elements: Vec<f32> = a.to_vec()?.into_iter().cycle().take(3 * BLOCK).collect();
            NDArray::from_slice(&elements, &[3 * BLOCK as i64])
        };
        let ins = ins.iter().map(longer).collect::<Result<Vec<_>>>()?;
        let called = outs.iter().map(longer).collect::<Result<Vec<_>>>()?;
        let repeated = outs.iter().map(longer).collect::<Result<Vec<_>>>()?;
        self.call(kernel, &ins, &called, Req::Write)?;
        let mut region = Region::new(&ins, &repeated);
        let arrays: Vec<_> = ins.iter().chain(&repeated).cloned().collect();
        let operands: Vec<_> = (0..arrays.len()).map(Operand::Array).collect();
        let (inputs, outputs) = operands.split_at(ins.len());
        let outputs = outputs.iter().map(|operand| (*operand, Req::Write)).collect();
        let call = ChainCall { ins: inputs.to_vec(), outs: outputs, consists_of_loops: true };
        let chain = Chain::new(&region, arrays, &[call], BLOCK)?;
        let mut guard = region.lock();
        let blocks = chain.blocks(&mut guard)?;
        let random = Counter(AtomicU64::new(0));
        with_scratch(chain.scratch_bytes(), |scratch: &mut [u8]| {
            blocks.record(scratch, |_, recorder, ins, outs| {
                kernel(&OpCtx { recorder: Some(recorder), ..self.context(&random) }, ins, outs)
            })
        })?;
        with_scratch(chain.scratch_bytes(), |scratch: &mut [u8]| {
            chain.fill_constants(scratch)?;
            for mut block in std::iter::from_fn(|| blocks.take()).flatten() {
                assert!(block.repeat(0, scratch)?, "{} does not consist of loops", self.def.name);
            }
            Ok::<_, Error>(())
        })?;
        drop(guard);
        self.assert_same_bits(&called, &repeated, "in recorded loops");
        Ok(())
    }

    fn assert_same_bits(&self, want: &[NDArray], got: &[NDArray], how: &str) {
        for (w, g) in want.iter().zip(got) {
            let bits = |a: &NDArray| ferromx_core::storage::read_bytes(a, <[u8]>::to_vec);
            assert_eq!(bits(w), bits(g), "{} {how}", self.def.name);
        }
    }
}

/// The graph for composed gradients: it runs each operator as it is added.
struct Eager {
    nodes: Vec<Vec<NDArray>>,
    train: bool,
}

impl Eager {
    fn leaf(&mut self, array: &NDArray) -> Entry {
        self.nodes.push(vec![array.clone()]);
        Entry { node: self.nodes.len() as u32 - 1, index: 0 }
    }

    fn array(&self, e: Entry) -> NDArray {
        self.nodes[e.node as usize][e.index as usize].clone()
    }
}

impl GradGraph for Eager {
    fn apply(&mut self, def: &'static OpDef, inputs: &[Entry], attrs: Attrs) -> Result<Vec<Entry>> {
        let attrs: Vec<(&str, &str)> = attrs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let mut case = Case::parse(def, &attrs)?;
        case.train = self.train;
        let outs = case.run(&inputs.iter().map(|e| self.array(*e)).collect::<Vec<_>>())?;
        let node = self.nodes.len() as u32;
        let entries = (0..outs.len() as u32).map(|index| Entry { node, index }).collect();
        self.nodes.push(outs);
        Ok(entries)
    }
}

/// Asserts that numbers agree up to a tolerance: relative to the expected number, or absolute if that is below 1. NaN equals NaN.
#[track_caller]
pub(crate) fn close(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let same = g == w || g.is_nan() && w.is_nan() || (g - w).abs() <= tolerance * w.abs().max(1.0);
        assert!(same, "element {i}: {g}, expected {w} (all: {got:?}, expected {want:?})");
    }
}

fn blank(shape: &Shape, dtype: DType) -> NDArray {
    NDArray::zeros(shape, dtype, Context::default()).unwrap()
}

fn zeros_like(a: &NDArray) -> NDArray {
    blank(a.shape(), a.dtype())
}

fn copy_of(a: &NDArray) -> NDArray {
    a.to_context(a.context()).unwrap()
}

fn weights_like(a: &NDArray, seed: usize) -> NDArray {
    let w: Vec<f64> = (0..a.len()).map(|i| ((i * 7 + seed * 3) % 11) as f64 / 8.0 - 0.5).collect();
    cast(&array(&w, a.shape().dims()), a.dtype())
}

fn dot(a: &NDArray, b: &NDArray) -> f64 {
    let (a, b) = (a.to_vec_as::<f64>().unwrap(), b.to_vec_as::<f64>().unwrap());
    a.iter().zip(&b).map(|(a, b)| a * b).sum()
}
