//! The parameters of operators that only count their inputs.

use ferromx_core::error::Result;
use ferromx_core::params::{Attrs, FieldInfo, OpParams, PrintParams, refuse_unknown};

/// The number of inputs. As in MXNet, metadata does not list it; [`ferromx_core::op::OpDef::parse`] removes it.
#[derive(Clone, Debug)]
pub struct NumArgs {}

impl OpParams for NumArgs {
    fn fields() -> Vec<FieldInfo> {
        Vec::new()
    }

    fn parse(attrs: &Attrs) -> Result<Self> {
        refuse_unknown(attrs, &["num_args"])?;
        Ok(NumArgs {})
    }
}

impl PrintParams for NumArgs {
    fn print(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
