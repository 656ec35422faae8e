//! Rules for sequences of tensors. A sequence is a list of tensors while a model is imported: its length is known, and the graph has no
//! operators for it.

use std::sync::Arc;

use super::rules;
use super::subgraphs::{map_iteration, tensors};
use crate::emit::{TensorId, is_symbolic, op};
use crate::error::{Error, Result};
use crate::ir::{Graph, Value};
use crate::mapping::ast::Operator;

rules! {
    /// True for a sequence of tensors.
    fn is_sequence(_, value: Value) -> bool {
        Ok(matches!(value, Value::List(_)))
    }

    /// A sequence of these tensors, as the only output of a node.
    fn sequence(_, tensors: &[Value]) -> Vec<Value> {
        Ok(vec![Value::List(tensors.to_vec())])
    }

    /// The tensor of a sequence at a position, which may count from the end.
    fn sequence_at(_, tensors: &[Value], position: i64) -> Value {
        Ok(tensors[index(tensors.len(), position)?].clone())
    }

    /// A sequence with a tensor inserted before a position, by default at the end.
    fn sequence_insert(_, tensors: &[Value], tensor: TensorId, position: Option<i64>) -> Vec<Value> {
        let mut tensors = tensors.to_vec();
        let at = match position {
            Some(position) if position != tensors.len() as i64 => index(tensors.len(), position)?,
            _ => tensors.len(),
        };
        tensors.insert(at, tensor.into());
        Ok(vec![Value::List(tensors)])
    }

    /// A sequence without the tensor at a position, by default the last one.
    fn sequence_erase(_, tensors: &[Value], position: Option<i64>) -> Vec<Value> {
        let mut tensors = tensors.to_vec();
        tensors.remove(index(tensors.len(), position.unwrap_or(-1))?);
        Ok(vec![Value::List(tensors)])
    }

    /// The sections of an axis as a sequence. `sizes` has their lengths, or is the length of all but the last; if it is absent, each has
    /// length 1, and the axis is removed if `keep_axis` is false.
    fn sequence_of_sections(s, tensor: TensorId, sizes: Value, axis: i64, keep_axis: bool) -> Vec<Value> {
        let n = s.dims(tensor)?[axis as usize];
        let lengths = match (&sizes, sizes.int()) {
            (Value::List(_), _) => sizes.ints().unwrap_or_default(),
            _ if is_symbolic(n) => {
                return Err(Error::NeedsValue("the number of sections depends on a dimension: give the shapes of the inputs".into()));
            }
            (_, Some(len)) if len > 0 => (0..n).step_by(len as usize).map(|begin| len.min(n - begin)).collect(),
            (Value::None, _) => vec![1; n as usize],
            _ => return Err(Error::value(format!("sections of length {sizes}"))),
        };
        let (mut sections, mut begin) = (Vec::new(), 0);
        for length in lengths {
            let Value::Int(end) = s.builder().combine(Operator::Add, begin, length)? else { continue };
            let none = vec![Value::None; s.rank(tensor)?];
            let (mut begins, mut ends) = (none.clone(), none);
            (begins[axis as usize], ends[axis as usize]) = (Value::Int(begin), Value::Int(end));
            let section = s.emit(op!(SLICE(tensor), begin: begins, end: ends))?;
            let is_removed = sizes == Value::None && !keep_axis;
            sections.push(if is_removed { s.emit(op!(SQUEEZE(section), axis: vec![axis]))? } else { section }.into());
            begin = end;
        }
        Ok(vec![Value::List(sections)])
    }

    /// SequenceMap: the outputs of a graph for each position of the sequences, as sequences.
    fn sequence_map(s, first: &[Value], others: &[Value], body: Arc<Graph>) -> Vec<Value> {
        let mut outputs = vec![Vec::new(); body.outputs.len()];
        for (k, tensor) in first.iter().enumerate() {
            let mut inputs = vec![tensor.clone()];
            for other in others {
                inputs.push(match other {
                    Value::List(items) => {
                        let missing = || Error::value("the sequences of SequenceMap have different lengths");
                        items.get(k).cloned().ok_or_else(missing)?
                    }
                    tensor => tensor.clone(),
                });
            }
            let results = tensors(map_iteration(s, &body, &inputs)?)?;
            outputs.iter_mut().zip(results).for_each(|(all, result)| all.push(result.into()));
        }
        Ok(outputs.into_iter().map(Value::List).collect())
    }
}

/// The index of a position that may count from the end.
fn index(len: usize, position: i64) -> Result<usize> {
    let at = if position < 0 { position + len as i64 } else { position };
    let found = usize::try_from(at).ok().filter(|at| *at < len);
    found.ok_or_else(|| Error::value(format!("position {position} of a sequence of {len} tensors")))
}
