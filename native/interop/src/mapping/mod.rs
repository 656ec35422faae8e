//! Mapping processes and operator descriptors.
//!
//! - `lexer`: the tokens of mapping files, operator descriptors and NNEF graphs.
//! - [`ast`]: the syntax tree of mapping files; `parser`: their parser.
//! - `signature`: the arguments and results of rules.
//! - `schema`: operator descriptors by domain, name and version.
//! - `table`: the processes and rules of a framework, checked as a whole.
//! - `framework`: the descriptor and mapping files of each framework.

pub mod ast;
mod framework;
pub(crate) mod lexer;
mod parser;
mod schema;
mod signature;
mod table;

pub(crate) use schema::Schema;
pub(crate) use signature::{Kind, Param, Signature};
pub use table::Mappings;
pub(crate) use table::Table;
