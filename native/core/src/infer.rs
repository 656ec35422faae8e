//! Shape and type inference: the arguments of an operator's rule, and the rules that many operators share.
//!
//! Rules are pure and work in both directions. They run until nothing changes, so a rule that lacks information assigns nothing and
//! succeeds.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::params::Params;
use crate::shape::Shape;

/// The shapes of an operator's inputs and outputs, each fully known, partially known or unknown.
pub struct ShapeIo<'a> {
    /// Inputs, auxiliary states last.
    pub ins: &'a mut [Shape],
    /// All outputs, hidden ones included.
    pub outs: &'a mut [Shape],
}

/// The shape rule of an operator.
pub type InferShape = fn(&Params, &mut ShapeIo<'_>) -> Result<()>;

fn assign(slot: &mut Shape, shape: &Shape, kind: &str, index: usize) -> Result<()> {
    if slot == shape {
        return Ok(());
    }
    let provided = slot.clone();
    if slot.assign(shape) {
        return Ok(());
    }
    Err(inconsistent(kind, index, provided, shape.clone()))
}

/// Merges the shape of an argument or output into `common`, the shape of the preceding ones. The error names the argument or output that
/// contradicts it.
fn merge(common: &mut Shape, slot: &Shape, kind: &str, index: usize) -> Result<()> {
    let inferred = common.clone();
    if common.assign(slot) {
        return Ok(());
    }
    Err(inconsistent(kind, index, slot.clone(), inferred))
}

fn inconsistent(kind: &str, index: usize, provided: Shape, inferred: Shape) -> Error {
    Error::ShapeInconsistent {
        argument: format!("{kind} {index}"),
        provided: provided.to_string(),
        inferred: inferred.to_string(),
    }
}

impl ShapeIo<'_> {
    /// Fills in the unknown dimensions of input `i` from `shape` (MXNet's `SHAPE_ASSIGN_CHECK`).
    ///
    /// # Errors
    /// [`Error::ShapeInconsistent`] if both are known and differ.
    pub fn assign_in(&mut self, i: usize, shape: &Shape) -> Result<()> {
        assign(&mut self.ins[i], shape, "argument", i)
    }

    /// Fills in the unknown dimensions of output `i`; see [`ShapeIo::assign_in`].
    pub fn assign_out(&mut self, i: usize, shape: &Shape) -> Result<()> {
        assign(&mut self.outs[i], shape, "output", i)
    }

    /// Makes the shapes of input `i` and output `k` equal: each fills in its unknown dimensions from the other.
    ///
    /// # Errors
    /// [`Error::ShapeInconsistent`] if both are known and differ.
    pub fn tie(&mut self, i: usize, k: usize) -> Result<()> {
        let input = self.ins[i].clone();
        self.assign_out(k, &input)?;
        let output = self.outs[k].clone();
        self.assign_in(i, &output)
    }

    /// Checks the number of inputs against their expected names.
    pub fn expect_inputs(&self, expected: &[&str]) -> Result<()> {
        crate::ensure!(
            self.ins.len() == expected.len(),
            "Input:[{}] was expected, but {} inputs were given",
            expected.join(", "),
            self.ins.len()
        );
        Ok(())
    }
}

/// The element types of an operator's inputs and outputs; `None` is unknown.
pub struct DTypeIo<'a> {
    /// Inputs, auxiliary states last.
    pub ins: &'a mut [Option<DType>],
    /// All outputs, hidden ones included.
    pub outs: &'a mut [Option<DType>],
}

/// The element type rule of an operator.
pub type InferDType = fn(&Params, &mut DTypeIo<'_>) -> Result<()>;

fn assign_type(slot: &mut Option<DType>, dtype: DType, kind: &str, index: usize) -> Result<()> {
    match *slot {
        Some(provided) if provided != dtype => {
            Err(Error::DTypeInconsistent { argument: format!("{kind} {index}"), provided, inferred: dtype })
        }
        _ => {
            *slot = Some(dtype);
            Ok(())
        }
    }
}

impl DTypeIo<'_> {
    /// Sets the type of input `i`.
    ///
    /// # Errors
    /// [`Error::DTypeInconsistent`] if it is known and differs.
    pub fn assign_in(&mut self, i: usize, dtype: DType) -> Result<()> {
        assign_type(&mut self.ins[i], dtype, "argument", i)
    }

    /// Sets the type of output `i`; see [`DTypeIo::assign_in`].
    pub fn assign_out(&mut self, i: usize, dtype: DType) -> Result<()> {
        assign_type(&mut self.outs[i], dtype, "output", i)
    }

    /// Sets every input and output to `dtype`.
    pub fn assign_all(&mut self, dtype: DType) -> Result<()> {
        (0..self.ins.len()).try_for_each(|i| self.assign_in(i, dtype))?;
        (0..self.outs.len()).try_for_each(|i| self.assign_out(i, dtype))
    }

    /// The first known type among inputs, then outputs.
    pub fn first_known(&self) -> Option<DType> {
        self.ins.iter().chain(self.outs.iter()).flatten().next().copied()
    }
}

/// All inputs and outputs have the same shape.
pub fn same_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    if let [first, others @ ..] = &*io.ins
        && first.is_known()
        && others.iter().all(|s| s == first)
        && io.outs.iter().all(|s| s == first || !s.ndim_is_known())
    {
        io.outs.iter_mut().for_each(|s| s.clone_from(first));
        return Ok(());
    }
    let mut common = Shape::unknown();
    for (i, s) in io.ins.iter().enumerate() {
        merge(&mut common, s, "argument", i)?;
    }
    for (i, s) in io.outs.iter().enumerate() {
        merge(&mut common, s, "output", i)?;
    }
    (0..io.ins.len()).try_for_each(|i| io.assign_in(i, &common))?;
    (0..io.outs.len()).try_for_each(|i| io.assign_out(i, &common))
}

/// All inputs and outputs have the same element type.
pub fn same_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    match io.first_known() {
        Some(d) => io.assign_all(d),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::NoParams;

    #[test]
    fn same_shape_works_in_both_directions() {
        let p = Params::new(NoParams {});
        let mut ins = [Shape::new(&[2, -1]), Shape::unknown()];
        let mut outs = [Shape::new(&[-1, 3])];
        same_shape(&p, &mut ShapeIo { ins: &mut ins, outs: &mut outs }).unwrap();
        assert_eq!((&ins[0], &ins[1], &outs[0]), (&[2, 3].into(), &[2, 3].into(), &[2, 3].into()));
        let mut bad = [Shape::new(&[4, 3])];
        let e = same_shape(&p, &mut ShapeIo { ins: &mut ins, outs: &mut bad }).unwrap_err();
        assert_eq!(e.to_string(), "Shape inconsistent, Provided=[4,3], inferred shape=[2,3]");
        assert_eq!(
            e.in_operator("elemwise_add", "plus0").to_string(),
            "Error in operator plus0: Shape inconsistent, Provided=[4,3], inferred shape=[2,3] (output 0 of elemwise_add 'plus0')"
        );
    }
}
