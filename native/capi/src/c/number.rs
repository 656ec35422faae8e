//! The number types that sizes and dimensions come in.

use std::fmt::Display;

use ferromx_core::error::{Error, Result};

/// A number type of the C API.
pub trait Number: Copy + TryFrom<i64> + Display + 'static {
    /// As the engine has it.
    fn to_i64(self) -> i64;

    /// From what the engine has.
    ///
    /// # Errors
    /// The number does not fit.
    fn from_i64(x: i64) -> Result<Self> {
        Self::try_from(x).map_err(|_| {
            Error::Value(format!(
                "{x} does not fit into {}: call the variant of this function that ends in Ex or Ex64",
                std::any::type_name::<Self>()
            ))
        })
    }
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn to_i64(self) -> i64 {
                self as i64
            }
        }
    )*};
}

numbers!(u32, i32, i64, usize);
