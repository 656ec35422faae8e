//! Linear algebra.

pub mod product;
