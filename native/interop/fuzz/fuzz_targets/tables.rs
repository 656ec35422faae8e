#![cfg_attr(fuzzing, no_main)]
#![allow(unexpected_cfgs, reason = "cargo-fuzz sets the cfg `fuzzing`")]
//! The fuzz target `tables`. Built without a fuzzer, it runs on the files given as arguments, such as inputs that a fuzzer found.

#[path = "../targets.rs"]
mod targets;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::tables(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    targets::files(targets::tables)
}
