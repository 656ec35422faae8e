//! Kernel calls in which single-precision copies stand in for 16-bit floating-point operands.

use std::marker::PhantomData;

use smallvec::SmallVec;

use super::call::view_of;
use super::elements::{read_slice, write_slice};
use super::ndarray::NDArray;
use super::operands::{In, Out, View};
use super::region::Locks;
use crate::context::Context;
use crate::dtype::DType;
use crate::error::Result;

/// Conversions between 16-bit floating-point numbers and single precision.
pub struct HalfConversion {
    /// Converts all elements of an input.
    pub load: fn(&In<'_>, &mut [f32]) -> Result<()>,
    /// Rounds to the elements of an output.
    pub store: fn(&[f32], &mut Out<'_>) -> Result<()>,
}

impl HalfConversion {
    /// Calls `kernel` with copies in single precision in place of the operands of type float16 and bfloat16, and rounds what it wrote.
    /// An input that shares the memory of an output becomes an array of its own. Outputs start with their old content, because
    /// requests of `add` and mutable inputs read it.
    ///
    /// # Errors
    /// Errors of the kernel and of the conversions; no memory for the copies.
    pub fn call(
        &self,
        ins: &[In<'_>],
        outs: &mut [Out<'_>],
        kernel: &mut dyn FnMut(&[In<'_>], &mut [Out<'_>]) -> Result<()>,
    ) -> Result<()> {
        let in_copies: Copies = ins.iter().map(|x| self.copy(&x.view)).collect::<Result<_>>()?;
        let out_copies: Copies = outs
            .iter()
            .map(|y| if y.wanted() { self.copy(&y.view) } else { empty_copy(&y.view) })
            .collect::<Result<_>>()?;
        {
            let _locks = Locks::acquire(in_copies.iter().flatten(), out_copies.iter().flatten());
            let ins: SmallVec<[In<'_>; 6]> = ins
                .iter()
                .zip(&in_copies)
                .map(|(x, copy)| match copy {
                    Some(copy) => In { view: view_of(copy.start(), copy), array: Some(copy), shared_with: None },
                    None => In { ..*x },
                })
                .collect();
            let mut outs: SmallVec<[Out<'_>; 4]> = outs
                .iter_mut()
                .zip(&out_copies)
                .map(|(y, copy)| Out {
                    view: copy.as_ref().map_or(y.view, |copy| view_of(copy.start(), copy)),
                    req: y.req,
                    lifetime: PhantomData,
                })
                .collect();
            kernel(&ins, &mut outs)?;
        }
        for (y, copy) in outs.iter_mut().zip(&out_copies) {
            if let (Some(copy), true) = (copy, y.wanted()) {
                read_slice(copy, |values: &[f32]| (self.store)(values, y))??;
            }
        }
        Ok(())
    }

    /// A copy of a 16-bit floating-point operand; `None` for operands of other types.
    fn copy(&self, view: &View<'_>) -> Result<Option<NDArray>> {
        let copy = empty_copy(view)?;
        if let Some(copy) = &copy {
            // No slice of an operand exists during the conversion, so the memory may be read even if an output shares it.
            let input = In { view: *view, array: None, shared_with: None };
            write_slice(copy, |values: &mut [f32]| (self.load)(&input, values))??;
        }
        Ok(copy)
    }
}

/// The copies of operands; `None` for those that are not copied.
type Copies = SmallVec<[Option<NDArray>; 6]>;

/// An array for a copy of the operand.
fn empty_copy(view: &View<'_>) -> Result<Option<NDArray>> {
    view.dtype.is_half().then(|| NDArray::empty(view.shape, DType::F32, Context::cpu(0))).transpose()
}

#[cfg(test)]
mod tests {
    use super::super::call::call_once;
    use super::super::operands::{Req, in_out};
    use super::*;
    use crate::dtype::f16;

    const CONVERSION: HalfConversion = HalfConversion {
        load: |x, wide| {
            wide.iter_mut().zip(x.slice::<f16>()?).for_each(|(w, x)| *w = x.to_f32());
            Ok(())
        },
        store: |wide, y| {
            y.slice_mut::<f16>()?.iter_mut().zip(wide).for_each(|(y, w)| *y = f16::from_f32(*w));
            Ok(())
        },
    };

    fn halves(values: &[f32]) -> NDArray {
        let values: Vec<f16> = values.iter().map(|x| f16::from_f32(*x)).collect();
        NDArray::from_slice(&values, &[values.len() as i64]).unwrap()
    }

    #[test]
    fn kernels_get_copies_of_16_bit_operands_and_other_operands_themselves() {
        let (x, y) = (halves(&[1.0, 2.0]), halves(&[10.0, 20.0]));
        let (index, unwanted) = (NDArray::from_slice(&[1i64], &[1]).unwrap(), halves(&[5.0]));
        let outs = [(&y, Req::Add), (&unwanted, Req::Null)];
        let kernel = &mut |ins: &[In<'_>], outs: &mut [Out<'_>]| {
            assert_eq!([outs[0].req(), outs[1].req()], [Req::Add, Req::Null]);
            let (x, index) = (ins[0].slice::<f32>()?, ins[1].slice::<i64>()?[0] as usize);
            outs[0].slice_mut::<f32>()?[index] += x[index];
            Ok(())
        };
        call_once(&[&x, &index], &outs, |ins, outs| CONVERSION.call(ins, outs, kernel)).unwrap();
        assert_eq!(y.to_vec_as::<f32>().unwrap(), [10.0, 22.0]);
        assert_eq!(unwanted.to_vec_as::<f32>().unwrap(), [5.0]);
    }

    #[test]
    fn an_input_in_the_memory_of_an_output_is_copied() {
        let x = halves(&[1.0, 2.0]);
        let kernel = &mut |ins: &[In<'_>], outs: &mut [Out<'_>]| {
            let (x, y) = in_out::<f32, f32>(&ins[0], &mut outs[0])?;
            y.copy_from_slice(&x.unwrap().iter().map(|x| 3.0 * x).collect::<Vec<_>>());
            Ok(())
        };
        call_once(&[&x], &[(&x, Req::Write)], |ins, outs| CONVERSION.call(ins, outs, kernel)).unwrap();
        assert_eq!(x.to_vec_as::<f32>().unwrap(), [3.0, 6.0]);
    }
}
