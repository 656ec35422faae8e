//! Mapping processes: the language they are written in, the table that holds them, and the operator descriptors of a framework.

pub mod ast;
mod framework;
pub mod lexer;
mod parser;
mod schema;
mod signature;
mod table;

pub use schema::Schema;
pub use signature::{Kind, Param, Signature};
pub use table::{BuiltIns, Mappings, Table};
