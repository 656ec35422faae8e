//! The code under fuzzing, shared by the fuzz targets and the test `corpus` of ferromx-interop.
#![allow(dead_code, reason = "each fuzz target uses one of these")]

use std::io::Write;

use bytes::Bytes;
use ferromx_interop::Error;
use ferromx_interop::export::{self, ExportOptions};
use ferromx_interop::import::{self, ImportOptions};
use ferromx_interop::nnef;
use ferromx_interop::onnx::{self, External};
use ferromx_runtime::symbol::Symbol;

/// Reads a model, imports it, writes what was imported, and reads that again. All of it may fail, and nothing may panic.
pub fn onnx(bytes: &[u8]) {
    let Ok(model) = onnx::read(Bytes::copy_from_slice(bytes), &External::refused()) else { return };
    let Ok(imported) = import::import(&model, &ImportOptions::default()) else { return };
    let params = imported.args.iter().chain(&imported.aux).map(|(name, array)| (name.clone(), array.clone())).collect();
    let options = ExportOptions { outputs: imported.outputs.clone(), ..ExportOptions::default() };
    let Ok(exported) = export::export(&imported.symbol, &params, &options) else { return };
    let Ok(bytes) = onnx::to_bytes(&exported) else { return };
    let again = onnx::read(bytes.into(), &External::refused());
    assert!(again.is_ok(), "what was exported cannot be read: {:?}", again.err());
}

/// Reads the JSON of a symbol; what could be read is written and read again.
pub fn symbol(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(symbol) = Symbol::from_json(text) else { return };
    let json = symbol.to_json();
    let again = Symbol::from_json(&json).map(|s| s.to_json());
    assert_eq!(again.as_ref(), Ok(&json), "what was written cannot be read");
}

/// Reads a file of parameters. It may fail, and must not panic.
pub fn params(bytes: &[u8]) {
    let _ = ferromx_core::file_format::from_bytes(bytes, "a file of parameters");
}

/// Reads the text of a graph of NNEF and imports it; its variables hold a few numbers, of any shape that they have. It may fail, and must
/// not panic.
pub fn nnef(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let variable = |label: &str| {
        let file = text.lines().find(|l| l.contains(label)).and_then(|l| l.split_once('[')?.1.split_once(']'));
        let dims = file.and_then(|(dims, _)| dims.split(',').map(|d| d.trim().parse::<u32>().ok()).collect());
        let dims: Vec<u32> = dims.ok_or_else(|| Error::format("a variable has no shape"))?;
        let count = dims.iter().try_fold(1u32, |n, d| n.checked_mul(*d)).filter(|n| *n < 1 << 16 && dims.len() <= 8);
        let count = count.ok_or_else(|| Error::format("a variable is too large"))?;
        let mut words = vec![4 * count, dims.len() as u32];
        words.extend(dims);
        words.resize(10, 0);
        words.extend([32, 0]);
        words.resize(31, 0);
        words.resize(31 + count as usize, 1.0f32.to_bits());
        let bytes = words.iter().flat_map(|w| w.to_le_bytes());
        nnef::tensor([0x4e, 0xef, 1, 0].into_iter().chain(bytes).collect::<Vec<u8>>().into())
    };
    let Ok(model) = nnef::read("graph.nnef", text, &variable) else { return };
    let _ = import::import(&model, &ImportOptions::default());
}

/// Runs a target on the files that are arguments of the program.
///
/// # Errors
/// Those of reading the files.
pub fn files(target: fn(&[u8])) -> std::io::Result<()> {
    for path in std::env::args().skip(1) {
        target(&std::fs::read(&path)?);
        writeln!(std::io::stdout(), "{path}: fine")?;
    }
    Ok(())
}
