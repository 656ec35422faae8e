//! Rules for shapes of which some dimensions are known by name only.

use ferromx_core::ndarray::NDArray;

use super::{Rule, handle};
use crate::error::{Error, Result};
use crate::import::{Scope, is_unknown};
use crate::ir::Value;

pub(super) static RULES: &[Rule] = &[Rule::new(
    "expanded_open",
    "(tensor, shape) -> tensor",
    "The tensor broadcast to a shape whose dimensions are known, or are those of other tensors.",
    expanded,
)];

fn expanded(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let (data, shape) = (handle(args, 0)?, handle(args, 1)?);
    let info = s.importer.builder.info(shape);
    let target = info.partly.as_ref().or(info.value.as_ref()).map(NDArray::to_vec_as::<i64>).transpose()?;
    let target = target.ok_or_else(|| Error::NeedsValue("the shape is known only when the model runs".into()))?;
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
