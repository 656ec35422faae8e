//! The parameters of operators that only count their inputs.

use ferromx_core::error::{Error, Result};
use ferromx_core::params::{Attrs, FieldInfo, OpParams, PrintParams, parse_field, range_error, refuse_unknown};

/// The number of inputs, at least one. As in MXNet, metadata does not list it.
#[derive(Clone, Debug)]
pub struct NumArgs {}

impl OpParams for NumArgs {
    fn fields() -> Vec<FieldInfo> {
        Vec::new()
    }

    fn parse(attrs: &Attrs) -> Result<Self> {
        refuse_unknown(attrs, &["num_args"])?;
        match parse_field(attrs, "num_args", Some(1))? {
            1.. => Ok(NumArgs {}),
            other => Err(Error::Param(range_error(&other, "num_args", &(1..=i32::MAX)))),
        }
    }
}

impl PrintParams for NumArgs {
    fn print(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{Attrs, NumArgs, OpParams};

    fn error(name: &str, value: &str) -> String {
        let attrs: Attrs = [(name.into(), value.into())].into_iter().collect();
        NumArgs::parse(&attrs).unwrap_err().to_string()
    }

    #[test]
    fn no_inputs_and_unknown_parameters_are_refused() {
        let no_inputs = error("num_args", "0");
        assert!(no_inputs.contains("value 0 for Parameter num_args should be greater equal to 1"), "{no_inputs}");
        let unknown = error("axis", "1");
        assert!(unknown.contains("Cannot find argument 'axis', Possible Arguments: num_args"), "{unknown}");
    }
}
