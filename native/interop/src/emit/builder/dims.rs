//! The symbolic dimensions of tensors: arithmetic, and expressions for the parameters of dynamic operators.

use std::cmp::Ordering;

use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;

use super::{Builder, TensorInfo};
use crate::emit::dimensions::{Dims, Function, is_symbolic};
use crate::emit::{TensorId, op};
use crate::error::{Error, Result};
use crate::ir::Value;
use crate::mapping::ast::Operator;

impl Builder {
    /// A new symbolic dimension.
    pub fn new_dim(&mut self) -> i64 {
        self.dimensions.new_atom()
    }

    /// The product of `all` divided by the product of `known`. If the division is not exact, binding the graph fails.
    pub fn missing_dim(&mut self, all: &[i64], known: &[i64]) -> Option<i64> {
        let (all, known) = (self.dimensions.product(all)?, self.dimensions.product(known)?);
        self.dimensions.floor_div(all, known)
    }

    /// The combination of two integers, which may be symbolic.
    ///
    /// # Errors
    /// The result cannot be represented.
    pub fn combine(&mut self, operator: Operator, a: i64, b: i64) -> Result<Value> {
        let result = match operator {
            Operator::Add => self.dimensions.plus(a, b),
            Operator::Subtract => self.dimensions.minus(a, b),
            Operator::Multiply => self.dimensions.times(a, b),
            Operator::Divide => self.dimensions.floor_div(a, b),
            _ => self.dimensions.remainder(a, b),
        };
        let unknown = || Error::NeedsValue("a dimension is unknown: give the shapes of the inputs".into());
        result.map(Value::Int).ok_or_else(unknown)
    }

    /// Compares two integers, which may be symbolic; `None` if the order is not known.
    pub fn compare(&self, a: i64, b: i64) -> Option<Ordering> {
        match () {
            () if a == b => Some(Ordering::Equal),
            () if self.dimensions.is_greater(a, b) => Some(Ordering::Greater),
            () if self.dimensions.is_greater(b, a) => Some(Ordering::Less),
            () => None,
        }
    }

    /// The product of dimensions.
    pub fn product(&mut self, dims: &[i64]) -> Option<i64> {
        self.dimensions.product(dims)
    }

    /// The larger of two dimensions.
    pub fn max_dim(&mut self, a: i64, b: i64) -> Option<i64> {
        self.dimensions.min_or_max(Function::Max, a, b)
    }

    /// Integers as a parameter of a dynamic operator: an expression for each integer, and the inputs whose dimensions occur in them. The
    /// inputs begin with those in `given`.
    ///
    /// # Errors
    /// A dimension that no tensor of the graph has.
    pub fn dim_exprs(&self, given: &[usize], dims: &[i64]) -> Result<(Vec<Value>, Vec<String>)> {
        let mut inputs = given.to_vec();
        let mut atom = |atom: i64| {
            let own = inputs.iter().enumerate().find_map(|(i, id)| Some((i, self.axis_of(*id, atom)?)));
            let (input, axis) = match own {
                Some(found) => found,
                None => {
                    let (holder, axis) = self.tensor_with_dim(atom)?;
                    inputs.push(holder);
                    (inputs.len() - 1, axis)
                }
            };
            Some(format!("#{input}.{axis}"))
        };
        let written: Option<Vec<String>> = dims.iter().map(|d| self.dimensions.write(*d, &mut atom)).collect();
        let unknown = || Error::NeedsValue("a dimension is unknown: give the shapes of the inputs".into());
        let written = written.ok_or_else(unknown)?;
        Ok((inputs.into_iter().map(Value::TensorId).collect(), written))
    }

    /// The axis of a tensor with this symbolic dimension.
    fn axis_of(&self, tensor_id: usize, dim: i64) -> Option<usize> {
        self.tensors[tensor_id].dims.as_ref()?.iter().position(|d| *d == dim)
    }

    /// The symbolic dimension for a dimension name of the model; `known` has the dimensions of earlier names.
    pub fn dim_by_name(&mut self, known: &mut Vec<(String, i64)>, name: &str) -> i64 {
        if let Some((_, dim)) = known.iter().find(|(n, _)| n == name) {
            return *dim;
        }
        let dim = self.new_dim();
        known.push((name.to_string(), dim));
        dim
    }

    pub(super) fn named_dims(&mut self, shape: &Shape) -> Option<Dims> {
        shape.ndim_is_known().then(|| shape.dims().iter().map(|d| if *d < 0 { self.new_dim() } else { *d }).collect())
    }

    /// A tensor of the graph with this symbolic dimension, and the axis.
    pub fn tensor_with_dim(&self, dim: i64) -> Option<(usize, usize)> {
        let of = |(id, t): (usize, &TensorInfo)| {
            t.symbol.as_ref()?;
            Some((id, self.axis_of(id, dim)?))
        };
        self.tensors.iter().enumerate().find_map(of)
    }

    /// The dimensions `start..end` of a tensor as a tensor of 64-bit integers.
    pub fn shape_of(&mut self, name: &str, tensor_id: usize, start: usize, end: usize) -> Result<usize> {
        let info = &self.tensors[tensor_id];
        let dims = info.dims.clone();
        let known = dims.as_ref().and_then(|d| d.get(start..end)).map(Dims::from_slice);
        if let Some(known) = &known
            && known.iter().all(|d| !is_symbolic(*d))
        {
            return self.numbers(name, known, &[known.len() as i64]);
        }
        let all = self.emit(name, op!(SHAPE_ARRAY(TensorId(tensor_id))))?.0;
        if let Some(dims) = dims {
            self.tensors[all].symbolic_value = Some(NDArray::from_slice(&dims, &[dims.len() as i64])?);
            if start == 0 && end == dims.len() {
                return Ok(all);
            }
        }
        Ok(self.emit(name, op!(SLICE_AXIS(TensorId(all)), axis: 0, begin: start as i64, end: end as i64))?.0)
    }
}
