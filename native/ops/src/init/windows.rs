//! Window functions: `hanning`, `hamming`, `blackman`.

use std::f32::consts::PI;

use ferromx_core::dtype::DType;
use ferromx_core::error::Error;
use ferromx_core::grad::Grad;
use ferromx_core::op::{AnyOperator, Operator};
use ferromx_core::params;
use ferromx_core::params::{NumDType, Untyped};
use ferromx_core::shape::Shape;

use crate::elemwise::family::elements_mut;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&HANNING, &HAMMING, &BLACKMAN];

params! {
    /// Parameters of the windows.
    pub struct WindowParam {
        /// The number of points; the window is empty if it is 0 or less.
        m as "M": Untyped<Option<i64>> = (Untyped(None));
        /// The device, such as `cpu(0)`; by default the current one.
        ctx: String = (String::new());
        /// The element type.
        dtype: NumDType = (NumDType(DType::F32));
    }
}

/// Defines a window function in terms of an angle that goes from 0 to 2 pi over the window.
macro_rules! window {
    ($name:ident: $op:literal, $doc:literal, |$angle:ident| $f:expr) => {
        pub(crate) static $name: Operator<WindowParam> = Operator::new($op)
            .doc(concat!($doc, ", for n from 0 to M - 1. A window of one point is 1."))
            .inputs(&[])
            .shape(|p, io| {
                let Some(points) = p.get::<WindowParam>().m.0 else {
                    return Err(Error::Value("M, the number of points, is missing".into()));
                };
                io.assign_out(0, &Shape::new(&[points.max(0)]))
            })
            .dtype(|p, io| io.assign_out(0, p.get::<WindowParam>().dtype.0))
            .forward(|_, _, outs| {
                let last = outs[0].len().saturating_sub(1);
                elements_mut(&mut outs[0])?.set_each(&|i| {
                    // MXNet computes the angle in single precision.
                    let $angle = f64::from(2.0 * PI * i as f32 / last as f32);
                    if last == 0 { 1.0 } else { $f }
                });
                Ok(())
            })
            .grad(Grad::Zero);
    };
}

window!(HANNING: "_npi_hanning", "The Hann window 0.5 - 0.5 cos(2 pi n / (M - 1))", |angle| 0.5 - 0.5 * angle.cos());
window!(HAMMING: "_npi_hamming", "The Hamming window 0.54 - 0.46 cos(2 pi n / (M - 1))", |angle| 0.54 - 0.46 * angle.cos());
window!(BLACKMAN: "_npi_blackman",
    "The Blackman window 0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1))",
    |angle| 0.42 - 0.5 * angle.cos() + 0.08 * (2.0 * angle).cos());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{close, created};

    #[test]
    fn windows_are_symmetric_and_may_be_empty() {
        close(&created(&HANNING, &[("M", "5"), ("dtype", "float64")]).unwrap(), &[0.0, 0.5, 1.0, 0.5, 0.0], 1e-7);
        close(&created(&HAMMING, &[("M", "3"), ("dtype", "float64")]).unwrap(), &[0.08, 1.0, 0.08], 1e-7);
        close(&created(&BLACKMAN, &[("M", "3"), ("dtype", "float64")]).unwrap(), &[0.0, 1.0, 0.0], 1e-7);
        assert_eq!(created(&BLACKMAN, &[("M", "1")]).unwrap(), [1.0]);
        assert!(created(&HANNING, &[("M", "-2")]).unwrap().is_empty());
        assert!(created(&HANNING, &[]).unwrap_err().to_string().contains("missing"));
    }
}
