//! The tables of the frameworks: their mapping files, with the built-in rules.

use std::sync::OnceLock;

use super::rules;
use crate::error::Result;
use crate::ir::Framework;
use crate::mapping::{Mappings, Table};

impl Framework {
    /// The framework's table of mapping processes.
    ///
    /// # Errors
    /// A mistake in a mapping file; a test rules it out.
    pub fn table(self) -> Result<&'static Table> {
        static TABLES: [OnceLock<Result<Table>>; Framework::ALL.len()] = [const { OnceLock::new() }; 2];
        let read = || Table::read(self.mappings(), self.schema()?, rules::signature);
        TABLES[self as usize].get_or_init(read).as_ref().map_err(Clone::clone)
    }
}

impl Mappings {
    /// Reads and checks mapping files, given by name and content.
    ///
    /// # Errors
    /// All mistakes, with file, line and column.
    pub fn read(framework: Framework, files: &[(String, String)]) -> Result<Mappings> {
        Mappings::extended(framework.schema()?, framework.table()?, files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mapping_files_have_no_mistakes() {
        for framework in Framework::ALL {
            if let Err(e) = framework.table() {
                panic!("{e}");
            }
        }
    }

    #[test]
    fn every_operator_of_versions_6_to_25_has_a_process() {
        // Sequences, optional values, strings, encoded images and training are not mapped.
        const OUTSIDE: &[&str] = &["Sequence", "Optional", "String", "Regex", "ImageDecoder"];
        let (table, schema) = (Framework::Onnx.table().unwrap(), Framework::Onnx.schema().unwrap());
        let mut missing = Vec::new();
        for op in schema.operators("").into_iter().filter(|op| !OUTSIDE.iter().any(|o| op.contains(o))) {
            // Scatter and Upsample are deprecated; Scan of version 8 has its own process.
            let is_excluded = |v: i64| matches!((op, v), ("Scatter", 11..) | ("Upsample", 10..) | ("Scan", ..9));
            let is_unmapped = |v: &i64| {
                !is_excluded(*v) && schema.find("", op, *v).is_some() && table.for_import("", op, *v).next().is_none()
            };
            let versions: Vec<i64> = (6..=25).filter(is_unmapped).collect();
            if !versions.is_empty() {
                missing.push(format!("{op} {versions:?}"));
            }
        }
        assert!(missing.is_empty(), "\n{}", missing.join("\n"));
    }

    #[test]
    fn mistakes_are_found_when_the_table_is_read() {
        let schema = Framework::Onnx.schema().unwrap();
        let read = |text: &str| Table::read(&[("t.map", text)], schema, rules::signature);
        let error = |text: &str| read(text).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error("Relo(X) -> relu(X)").contains("t.map:1:1: the framework has no operator Relo"));
        assert!(error("Relu(X)\n [6..] -> relo(X)").contains("'relo' is neither a rule nor an operator"));
        assert!(error("Relu(X) [6..] -> relu(Y)").contains("'Y' is neither input nor attribute nor let"));
        assert!(error("Elu(X) [6..] -> LeakyReLU(X, act_type: \"elu\")").contains("the attribute alpha of Elu"));
        assert!(error("Elu(X) [6..] -> LeakyReLU(X, slop: alpha)").contains("no parameter 'slop'"));
        assert!(error("Relu(X, Y) [6..] -> relu(X)").contains("has only 1 inputs"));
        assert!(error("Gelu(X) [1..19] -> relu(X)").contains("no version of Gelu"));
    }
}
