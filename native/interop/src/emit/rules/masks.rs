//! Rules for attention: additive masks, and the check that tensors are the inputs of an attention.

use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;

use super::elements::padded;
use super::{array, constant_len, needs_shapes, rules};
use crate::emit::{Scope, SymInt, SymInts, TensorId, is_symbolic, op};
use crate::error::{Error, Result};
use crate::ir::Value;
use crate::mapping::ast::Operator;

rules! {
    /// An additive attention mask: 0 where a query attends to a key, minus infinity elsewhere. Query i has position i + offset. A causal
    /// mask hides later keys; `left` and `right` limit the window around the query, -1 means no limit.
    fn attention_mask(
        s, queries: SymInt, keys: SymInt, offset: SymInt, causal: bool, left: i64, right: i64, dtype: DType,
    ) -> TensorId {
        let window = Window { is_causal: causal, left, right };
        if [queries, keys, offset].iter().any(|n| is_symbolic(n.0)) {
            return dynamic_mask(s, [queries.0, keys.0, offset.0], window, dtype);
        }
        let (queries, keys, offset) = (queries.0, keys.0, offset.0);
        constant_len(&[queries, keys])?;
        let element = |i: i64, j: i64| if window.contains(i + offset - j) { 0.0 } else { f64::NEG_INFINITY };
        let items = (0..queries).flat_map(|i| (0..keys).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect();
        let mask = array::<f64>(&[queries, keys], dtype, items)?;
        Ok(s.inner_constant("mask", mask))
    }

    /// A mask whose last axis has one element per key. Keys that an additive mask lacks are masked.
    fn mask_of_keys(s, mask: TensorId, keys: SymInt) -> TensorId {
        let given = s.dims(mask)?.last().copied().unwrap_or(1);
        let Value::Int(missing) = s.builder().combine(Operator::Subtract, keys.0, given)? else { return Ok(mask) };
        if missing == 0 || !is_symbolic(missing) && missing < 0 {
            return Ok(mask);
        }
        padded(s, mask, SymInts(vec![0, missing]), Some(vec![-1]), "constant", Value::Float(f64::NEG_INFINITY))
    }

    /// As attention_mask, with a key length for each batch. The queries are the last positions before that length.
    fn key_length_mask(
        s, ends: TensorId, queries: i64, keys: i64, causal: bool, left: i64, right: i64, dtype: DType,
    ) -> TensorId {
        constant_len(&[queries.max(0), keys.max(0)])?;
        let key = s.inner_constant("keys", NDArray::from_slice(&(0..keys).collect::<Vec<_>>(), &[1, 1, 1, keys])?);
        let from_end: Vec<i64> = (0..queries).map(|i| i - queries).collect();
        let query = s.inner_constant("queries", NDArray::from_slice(&from_end, &[1, 1, queries, 1])?);
        let is_key = s.emit(op!(LESS(key, ends)))?;
        let position = s.emit(op!(ADD(ends, query)))?;
        let distance = s.emit(op!(SUBTRACT(position, key)))?;
        let can_attend = Window { is_causal: causal, left, right }.condition(s, distance, Some(is_key))?;
        additive_mask(s, can_attend.unwrap_or(is_key), Value::Float(f64::NEG_INFINITY), dtype)
    }

    /// An additive mask with `value` at padded keys. The valid keys are given as lengths (batch,), or as 1 and 0 in (batch, keys) or
    /// (batch, queries, keys). Keys have the shape (batch, heads, keys, size).
    fn padding_mask(s, mask: TensorId, keys: TensorId, value: Value, dtype: DType) -> TensorId {
        let rank = s.info(mask).shape.ndim();
        let valid = match rank {
            Some(1) => {
                let keys = s.info(keys).shape.dim(2);
                if keys < 0 {
                    return Err(needs_shapes("the number of keys is unknown"));
                }
                let positions = s.integers("keys", &(0..keys).collect::<Vec<_>>())?;
                let ends = s.emit(op!(CAST(mask), dtype: DType::I64))?;
                let ends = s.emit(op!(EXPAND_DIMS(ends), axis: -1))?;
                s.emit(op!(LESS(positions, ends)))?
            }
            Some(2 | 3) => s.emit(op!(GREATER_EQUAL(mask, 1)))?,
            _ => return Err(Error::unsupported("only masks with one to three axes are supported")),
        };
        let valid = if rank == Some(3) { valid } else { s.emit(op!(EXPAND_DIMS(valid), axis: 1))? };
        let valid = s.emit(op!(EXPAND_DIMS(valid), axis: 1))?;
        additive_mask(s, valid, value, dtype)
    }

    /// True if these are the queries, keys, values and optional mask of an attention: float32 or float64, equal leading dimensions, and a
    /// mask over all keys that broadcasts to the scores. Keys are (..., size, keys) unless `in_rows` is true.
    fn is_attention(
        s, query: TensorId, keys: TensorId, value: TensorId, mask: Option<TensorId>, in_rows: Option<bool>,
    ) -> bool {
        let dims = |tensor: TensorId| {
            let info = s.info(tensor);
            let has_kernel = matches!(info.dtype, Some(DType::F32 | DType::F64));
            info.dims.clone().filter(|dims| has_kernel && dims.len() >= 2)
        };
        let dtype = s.info(query).dtype;
        let (Some(query), Some(mut keys), Some(value)) = (dims(query), dims(keys), dims(value)) else {
            return Ok(false);
        };
        let n = query.len();
        if in_rows == Some(true) && keys.len() == n {
            keys.swap(n - 2, n - 1);
        }
        // Unknown dimensions are symbolic, so equal ones compare equal.
        let has_equal_batch =
            keys.len() == n && value.len() == n && query[..n - 2] == keys[..n - 2] && query[..n - 2] == value[..n - 2];
        if !has_equal_batch || query[n - 1] != keys[n - 2] || keys[n - 1] != value[n - 2] {
            return Ok(false);
        }
        let Some(mask) = mask.map(|mask| s.info(mask)) else { return Ok(true) };
        let scores = query[..n - 1].iter().chain([&keys[n - 1]]).rev();
        let broadcasts = mask.dims.as_ref().is_some_and(|mask| {
            let is_broadcast = mask.iter().rev().zip(scores).all(|(m, d)| *m == 1 || m == d);
            mask.len() <= n && mask.last() == keys.last() && is_broadcast
        });
        Ok(broadcasts && mask.dtype == dtype)
    }
}

/// The keys to which a query attends, by distance: query position minus key position.
#[derive(Clone, Copy)]
struct Window {
    /// True if later keys are masked.
    is_causal: bool,
    /// The largest distance of earlier keys; -1 means no limit.
    left: i64,
    /// The largest distance of later keys; -1 means no limit.
    right: i64,
}

impl Window {
    fn contains(self, distance: i64) -> bool {
        !(self.is_causal && distance < 0
            || self.left >= 0 && distance > self.left
            || self.right >= 0 && -distance > self.right)
    }

    /// The condition that keys at these distances are in the window and that `condition` holds; `None` if neither restricts the keys.
    fn condition(
        self,
        s: &mut Scope<'_, '_>,
        distance: TensorId,
        condition: Option<TensorId>,
    ) -> Result<Option<TensorId>> {
        let mut conditions = Vec::new();
        if self.is_causal {
            conditions.push(op!(GREATER_EQUAL(distance, 0)));
        }
        if self.left >= 0 {
            conditions.push(op!(LESS_EQUAL(distance, self.left)));
        }
        if self.right >= 0 {
            conditions.push(op!(GREATER_EQUAL(distance, -self.right)));
        }
        conditions.into_iter().try_fold(condition, |all, comparison| {
            let holds = s.emit(comparison)?;
            match all {
                None => Ok(Some(holds)),
                Some(all) => s.emit(op!(BITWISE_AND(all, holds))).map(Some),
            }
        })
    }
}

/// A mask that is 0 where a condition holds, and `value` elsewhere.
fn additive_mask(s: &mut Scope<'_, '_>, condition: TensorId, value: Value, dtype: DType) -> Result<TensorId> {
    let mask = s.emit(op!(WHERE_SCALAR2(condition), x: 0.0, y: value))?;
    s.emit(op!(CAST(mask), dtype: dtype))
}

/// The additive mask for unknown numbers of queries and keys. Positions are compared when the model runs.
fn dynamic_mask(
    s: &mut Scope<'_, '_>,
    [queries, keys, offset]: [i64; 3],
    window: Window,
    dtype: DType,
) -> Result<TensorId> {
    let end = s.builder().combine(Operator::Add, offset, queries)?;
    let positions = |s: &mut Scope<'_, '_>, from: i64, to: Value, axis: i64| {
        let range = super::symbolic::symbolic_range(s, Value::Int(from), to, Value::Int(1), DType::I64)?;
        s.emit(op!(EXPAND_DIMS(range), axis: axis))
    };
    let query = positions(s, offset, end, 1)?;
    let key = positions(s, 0, Value::Int(keys), 0)?;
    let distance = s.emit(op!(SUBTRACT(query, key)))?;
    let can_attend = match window.condition(s, distance, None)? {
        Some(can_attend) => can_attend,
        None => s.emit(op!(EQUAL(distance, distance)))?,
    };
    additive_mask(s, can_attend, Value::Float(f64::NEG_INFINITY), dtype)
}
