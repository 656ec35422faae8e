//! What is done with bytes of any kind. The fuzz targets and the test `corpus` of ferromx-interop both come in here.
#![allow(dead_code, reason = "each fuzz target uses one of these")]

use bytes::Bytes;
use ferromx_interop::export::{self, ExportOptions};
use ferromx_interop::import::{self, ImportOptions};
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
