//! Mapping processes: the language they are written in, the rules they call, the table that holds them, and the operator descriptors of
//! a framework.

pub mod ast;
pub mod lexer;
mod parser;
pub mod rules;
mod schema;
mod table;

pub use schema::Schema;
pub use table::{Mappings, Table};
