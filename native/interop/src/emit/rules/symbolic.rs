//! Rules for tensors whose elements are computed from symbolic dimensions.

use ferromx_core::dtype::DType;

use super::rules;
use crate::emit::{TensorId, op};
use crate::error::Error;
use crate::ir::Value;

rules! {
    /// The integers from `start` to `limit`, exclusive. All three arguments may be computed from unknown dimensions.
    fn symbolic_range(s, start: Value, limit: Value, delta: Value, dtype: DType) -> TensorId {
        let unknown = || Error::NeedsValue("the range is known only when the model runs".into());
        let numbers = [start, limit, delta].iter().map(Value::int).collect::<Option<Vec<i64>>>();
        let (inputs, range) = s.builder().dim_exprs(&[], &numbers.ok_or_else(unknown)?)?;
        s.emit_named(op!(SYMBOLIC_RANGE(inputs), range: format!("({})", range.join(", ")), dtype: dtype))
    }
}
