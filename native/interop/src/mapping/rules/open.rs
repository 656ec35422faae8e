//! Rules for shapes of which some dimensions are known by name only.

use ferromx_core::ndarray::NDArray;

use super::{Rule, handle};
use crate::error::{Error, Result};
use crate::import::{Scope, is_unknown};
use crate::ir::Value;

pub(super) static RULES: &[Rule] = &[
    Rule::new(
        "expanded_open",
        "(tensor, shape) -> tensor",
        "The tensor broadcast to a shape whose dimensions are known, or are those of other tensors.",
        expanded,
    ),
    Rule::new(
        "range_open",
        "(start, limit, delta) -> tensor",
        "The integers from 0 to a dimension of another tensor, which is known only when the model runs.",
        range,
    ),
];

/// The numbers of a tensor, dimensions that are not known by their names.
fn partly(s: &Scope<'_, '_>, value: &Value) -> Result<Vec<i64>> {
    let info = s.importer.builder.info(handle(std::slice::from_ref(value), 0)?);
    let numbers = info.partly.as_ref().or(info.value.as_ref()).map(NDArray::to_vec_as::<i64>).transpose()?;
    numbers.ok_or_else(|| Error::NeedsValue("the numbers are known only when the model runs".into()))
}

fn range(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let unknown = || Error::NeedsValue("the length of the range is known only when the model runs".into());
    let (start, limit, delta) = (partly(s, &args[0])?, partly(s, &args[1])?, partly(s, &args[2])?);
    let ([0], [limit], [1]) = (start.as_slice(), limit.as_slice(), delta.as_slice()) else { return Err(unknown()) };
    let (holder, axis) = s.importer.builder.holder_of(*limit).ok_or_else(unknown)?;
    let dtype = s.importer.builder.info(handle(args, 1)?).dtype.map_or("int64", |d| d.name());
    let params = vec![("axis", Value::Int(axis as i64))];
    let counted = s.operator("_contrib_arange_like", vec![Value::Handle(holder)], params, false)?;
    s.operator("Cast", vec![counted], vec![("dtype", dtype.into())], true)
}

fn expanded(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let (data, target) = (handle(args, 0)?, partly(s, &args[1])?);
    let dims = s.importer.builder.info(data).dims.clone();
    let dims = dims.ok_or_else(|| Error::NeedsValue("the number of dimensions is not known".into()))?;
    let rank = dims.len().max(target.len());
    let padded = |items: &[i64]| [vec![1; rank - items.len()], items.to_vec()].concat();
    let mut value = Value::Handle(data);
    for _ in dims.len()..rank {
        value = s.operator("expand_dims", vec![value], vec![("axis", Value::Int(0))], false)?;
    }
    // 0 keeps a dimension.
    let mut fixed = vec![0; rank];
    for (k, (from, to)) in padded(&dims).into_iter().zip(padded(&target)).enumerate() {
        if to == 1 || to == from || (is_unknown(to) && !is_unknown(from) && from != 1) {
            continue;
        }
        if !is_unknown(to) {
            fixed[k] = to;
            continue;
        }
        let holder = s.importer.builder.holder_of(to).filter(|_| from == 1);
        let (holder, axis) = holder.ok_or_else(|| {
            Error::NeedsValue("a dimension of the new shape is not known: give the shapes of the inputs".into())
        })?;
        let axes = |axis: usize| Value::from(vec![axis as i64]);
        let params = vec![("lhs_axes", axes(k)), ("rhs_axes", axes(axis))];
        value = s.operator("broadcast_like", vec![value, Value::Handle(holder)], params, false)?;
    }
    match fixed.iter().all(|d| *d == 0) {
        true => s.operator("_copy", vec![value], vec![], true),
        false => s.operator("broadcast_to", vec![value], vec![("shape", fixed.into())], true),
    }
}
