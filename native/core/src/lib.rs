//! The vocabulary of FerroMX: data types, shapes, storage, arrays, parameters and operator definitions.
//!
//! This crate knows no operator. The crates above it depend on it in one line:
//! `core <- kernels <- ops <- runtime <- capi`.

pub mod dtype;
