//! Adds nodes to the graph, with the shapes, types and known elements of their outputs.

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_runtime::symbol::{AtomicSymbol, OpCall, Symbol};

use super::{Builder, TensorInfo, check_shape};
use crate::emit::dimensions::{Dims, UNKNOWN_DIM, is_symbolic};
use crate::emit::symbolic;
use crate::error::Result;

/// Maximum number of elements of an integer tensor whose symbolic elements are propagated.
const MAX_PROPAGATED: usize = 1 << 10;
/// The attribute with the name of the subgraph to which a node belongs.
const SUBGRAPH_NAME: &str = "__subgraph_name__";

impl Builder {
    /// Adds a node.
    pub(super) fn add(
        &mut self,
        call: &OpCall,
        attrs: &Attrs,
        name: &str,
        ins: &[usize],
        graphs: &[Symbol],
    ) -> Result<Vec<usize>> {
        let unshared = self.with_unshared_states(call, ins)?;
        let ins = unshared.as_slice();
        let (shapes, dims) = self.infer_shapes(call, name, ins)?;
        shapes.iter().try_for_each(check_shape)?;
        let dtypes = self.infer_dtypes(call, name, ins)?;
        let values = self.propagate(call, ins, (&shapes, dtypes.first().copied().flatten()))?;
        let symbols: Vec<Symbol> = graphs.iter().cloned().chain(ins.iter().map(|id| self.symbol(*id))).collect();
        let name = self.unique(name);
        let is_from_placeholder = ins.iter().any(|id| self.tensors[*id].is_from_placeholder);
        let mut atomic = AtomicSymbol::new(call.name, attrs.clone())?;
        if let Some((subgraph, _)) = self.open_subgraphs.last() {
            atomic.set_attr(SUBGRAPH_NAME, subgraph)?;
        }
        let symbol = atomic.compose(&name, &symbols, None)?;
        let mut outs = Vec::new();
        for (k, (shape, dims)) in shapes.into_iter().zip(dims).take(symbol.num_outputs()).enumerate() {
            let dims = match dims {
                Some(dims) => Some(dims.iter().map(|d| if *d == UNKNOWN_DIM { self.new_dim() } else { *d }).collect()),
                None => self.named_dims(&shape),
            };
            let symbolic_value = values.as_ref().and_then(|arrays| arrays.get(k).cloned());
            let dtype = dtypes[k];
            // An output whose elements are all known is a constant.
            let known = symbolic_value.as_ref().filter(|a| !symbolic::has_symbolic(a));
            if let (Some(array), Some(dtype)) = (known, dtype) {
                let value = symbolic::convert(array, dtype)?;
                outs.push(self.constant(&name, value));
                continue;
            }
            let symbol = Some(symbol.output(k)?);
            outs.push(self.push(TensorInfo {
                name: name.clone(),
                symbol,
                shape,
                dtype,
                value: None,
                dims,
                symbolic_value,
                widened: None,
                is_parameter: false,
                is_from_placeholder,
            }));
        }
        Ok(outs)
    }

    /// The inputs of an operator, with copies of parameters that one operator mutates and another reads. Models share such parameters,
    /// since exporters store parameters with equal elements once.
    fn with_unshared_states(&mut self, call: &OpCall, ins: &[usize]) -> Result<Vec<usize>> {
        let mut unshared = Vec::with_capacity(ins.len());
        for (i, id) in ins.iter().copied().enumerate() {
            let is_state = call.def.signature.mutates.contains(&i);
            let is_shared = if is_state {
                self.read_only.contains(&id) || self.mutated.contains(&id)
            } else {
                self.mutated.contains(&id)
            };
            let known = self.tensors[id].value.clone().filter(|_| is_shared);
            let used = match (known, self.copies.get(&id).copied().filter(|_| !is_state)) {
                (None, _) => id,
                (Some(_), Some(copy)) => copy,
                (Some(value), None) => {
                    let array = NDArray::empty(value.shape(), value.dtype(), Context::default())?;
                    array.copy_from(&value)?;
                    let name = self.tensors[id].name.clone();
                    let copy = self.parameter(&name, array);
                    if !is_state {
                        self.copies.insert(id, copy);
                    }
                    copy
                }
            };
            if is_state {
                self.mutated.insert(used)
            } else {
                self.read_only.insert(used)
            };
            unshared.push(used);
        }
        Ok(unshared)
    }

    fn infer_shapes(&mut self, call: &OpCall, name: &str, ins: &[usize]) -> Result<(Vec<Shape>, Vec<Option<Dims>>)> {
        let n = call.def.num_outputs(&call.params);
        let infer = |mut shapes: Vec<Shape>| {
            let mut outs = vec![Shape::unknown(); n];
            (call.def.inference.shape)(&call.params, &mut ShapeIo { ins: &mut shapes, outs: &mut outs })
                .map_err(|e| call.locate(e, name, ins.len()))
                .map(|()| outs)
        };
        let known = ins.iter().all(|id| self.tensors[*id].shape.is_known());
        let inferred = infer(ins.iter().map(|id| self.tensors[*id].shape.clone()).collect());
        let mut shapes = inferred.clone().unwrap_or_else(|_| vec![Shape::unknown(); n]);
        let dims: Option<Vec<Dims>> = ins.iter().map(|id| self.tensors[*id].dims.clone()).collect();
        let probed = match dims {
            Some(dims) if !known => {
                symbolic::probe(&mut self.dimensions, call.def.name, &dims, &shapes, |sample| infer(sample).ok())
            }
            _ => vec![None; n],
        };
        // Shape inference may reject unknown dimensions; then the dimensions from samples are used.
        if let Err(e) = inferred
            && (known || probed.iter().any(Option::is_none))
        {
            return Err(e.into());
        }
        for (shape, dims) in shapes.iter_mut().zip(&probed) {
            if let Some(dims) = dims {
                *shape = Shape::new(&dims.iter().map(|d| if is_symbolic(*d) { -1 } else { *d }).collect::<Dims>());
            }
        }
        Ok((shapes, probed))
    }

    fn infer_dtypes(&self, call: &OpCall, name: &str, ins: &[usize]) -> Result<Vec<Option<DType>>> {
        let mut types: Vec<_> = ins.iter().map(|id| self.tensors[*id].dtype).collect();
        let mut outs = vec![None; call.def.num_outputs(&call.params)];
        (call.def.inference.dtype)(&call.params, &mut DTypeIo { ins: &mut types, outs: &mut outs })
            .map_err(|e| call.locate(e, name, ins.len()))?;
        Ok(outs)
    }

    /// The values of an operator's outputs if some inputs have symbolic elements; `None` if they are not known.
    fn propagate(
        &mut self,
        call: &OpCall,
        ins: &[usize],
        outs: (&[Shape], Option<DType>),
    ) -> Result<Option<Vec<NDArray>>> {
        if !ins.iter().any(|id| self.tensors[*id].symbolic_value.is_some()) {
            return Ok(None);
        }
        let mut values = Vec::with_capacity(ins.len());
        for id in ins {
            let info = &self.tensors[*id];
            // An integer of the model in the range of symbols must not be mistaken for one.
            let value = info.value.as_ref().filter(|v| v.dtype() != DType::I64 || !symbolic::has_symbolic(v));
            match info.symbolic_value.as_ref().or(value).filter(|a| a.len() <= MAX_PROPAGATED) {
                Some(array) => values.push(array.clone()),
                None => return Ok(None),
            }
        }
        symbolic::propagate(&mut self.dimensions, call, values, outs)
    }
}
