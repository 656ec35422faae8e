//! Rules for tensors whose elements or shapes are computed from symbolic dimensions.

use super::{Rule, text};
use crate::emit::Scope;
use crate::error::{Error, Result};
use crate::ir::Value;

pub(super) static RULES: &[Rule] = &[Rule::new(
    "symbolic_range",
    "(start, limit, delta, dtype) -> tensor",
    "The integers from `start` to `limit`, exclusive. All three arguments may be computed from unknown dimensions.",
    range,
)];

pub(super) fn range(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let integer =
        |v: &Value| v.int().ok_or_else(|| Error::NeedsValue("the range is known only when the model runs".into()));
    let numbers = args[..3].iter().map(integer).collect::<Result<Vec<i64>>>()?;
    let dtype = text(args, 3)?.to_string();
    let (inputs, written) = s.builder().expressions(&[], &numbers)?;
    let attrs = [("range".to_string(), format!("({})", written.join(", "))), ("dtype".to_string(), dtype)];
    let name = s.name.clone();
    let made = s.builder().apply_with("_onnx_Range", &name, &inputs, attrs.into_iter().collect(), &[])?;
    Ok(Value::Handle(made[0]))
}
