//! Mapping processes: the language they are written in, the rules they are made of, the table that holds them.

pub mod ast;
pub mod lexer;
mod parser;
pub mod rules;
mod table;

pub use table::{Table, table};
