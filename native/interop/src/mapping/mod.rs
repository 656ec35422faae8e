//! Mapping processes: the language they are written in, the rules they are made of, the table that holds them, and what a framework says
//! of the operators that they are about.

pub mod ast;
pub mod lexer;
mod parser;
pub mod rules;
mod schema;
mod table;

pub use schema::Schema;
pub use table::{Mappings, Table};
