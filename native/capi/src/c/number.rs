//! The integer types of sizes and dimensions in the C API.

use std::fmt::Display;

use ferromx_runtime::error::{Error, Result};

/// An integer type of the C API.
pub trait Integer: Copy + TryFrom<i64> + Display + 'static {
    /// Converts to the engine's type.
    fn to_i64(self) -> i64;

    /// Converts from the engine's type.
    ///
    /// # Errors
    /// The value does not fit.
    fn from_i64(x: i64) -> Result<Self> {
        Self::try_from(x).map_err(|_| {
            Error::Value(format!(
                "{x} does not fit into {}: call the variant of this function that ends in Ex or Ex64",
                std::any::type_name::<Self>()
            ))
        })
    }
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Integer for $t {
            fn to_i64(self) -> i64 {
                self as i64
            }
        }
    )*};
}

integers!(u32, i32, i64, usize);
