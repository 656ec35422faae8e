//! The code under fuzzing, shared by the fuzz targets and the test `corpus` of ferromx-interop.
#![allow(dead_code, reason = "each fuzz target uses one of these")]

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use ferromx_core::params::Attrs;
use ferromx_core::{file_format, memory};
use ferromx_interop::Error;
use ferromx_interop::export::{self, ExportOptions};
use ferromx_interop::import::{self, ImportOptions};
use ferromx_interop::nnef;
use ferromx_interop::onnx::{self, External};
use ferromx_ops::image;
use ferromx_runtime::io;
use ferromx_runtime::io::recordio::Reader;
use ferromx_runtime::symbol::Symbol;

/// Reads a model, imports it, exports the result, and reads the export. Each step may fail, but must not panic.
pub(crate) fn onnx(bytes: &[u8]) {
    let Ok(model) = onnx::read(Bytes::copy_from_slice(bytes), &External::refused()) else { return };
    let Ok(imported) = import::import(&model, &ImportOptions::default()) else { return };
    let params = imported.params();
    let options = ExportOptions { outputs: imported.outputs.clone(), ..ExportOptions::default() };
    let Ok(exported) = export::export(&imported.symbol, &params, &options) else { return };
    let Ok(bytes) = onnx::to_bytes(&exported) else { return };
    let again = onnx::read(bytes.into(), &External::refused());
    assert!(again.is_ok(), "what was exported cannot be read: {:?}", again.err());
}

/// Reads the JSON of a symbol, then writes it and reads the result.
pub(crate) fn symbol(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(symbol) = Symbol::from_json(text) else { return };
    let json = symbol.to_json();
    let again = Symbol::from_json(&json).map(|s| s.to_json());
    assert_eq!(again.as_ref(), Ok(&json), "what was written cannot be read");
}

/// Reads a parameter file, and its first array separately. Both may fail, but must not panic.
pub(crate) fn params(bytes: &[u8]) {
    let _ = file_format::from_bytes(bytes, "a file of parameters");
    let _ = file_format::array_from_bytes(bytes.get(24..).unwrap_or_default());
}

/// Decodes an image, to color and to gray. It may fail, but must not panic.
pub(crate) fn images(bytes: &[u8]) {
    for gray in [false, true] {
        if let Ok(decoded) = image::decode(bytes, gray) {
            assert_eq!(decoded.samples.len(), decoded.height * decoded.width * decoded.channels);
        }
    }
}

/// Reads a RecordIO file, its images, and its images with objects. Each step may fail, but must not panic.
pub(crate) fn records(bytes: &[u8]) {
    with_file(bytes, |path| {
        let read = || -> ferromx_core::error::Result<()> {
            let (mut reader, mut skipper) = (Reader::open(path)?, Reader::open(path)?);
            while reader.read()?.is_some() {
                skipper.skip()?;
                assert_eq!(reader.tell(), skipper.tell());
            }
            Ok(())
        };
        let _ = read();
        for iterator in ["ImageRecordIter", "ImageDetRecordIter"] {
            iterate(iterator, &[("path_imgrec", path), ("data_shape", "(3, 9, 8)"), ("batch_size", "2")]);
        }
    });
}

/// Reads a file with each of the iterators over tables. Each may fail, but must not panic.
pub(crate) fn tables(bytes: &[u8]) {
    with_file(bytes, |path| {
        iterate("CSVIter", &[("data_csv", path), ("data_shape", "(2,)"), ("batch_size", "2")]);
        iterate("LibSVMIter", &[("data_libsvm", path), ("data_shape", "(3,)"), ("batch_size", "2")]);
        iterate("MNISTIter", &[("image", path), ("label", path), ("batch_size", "2")]);
    });
}

/// The first batches of an iterator.
fn iterate(name: &str, attrs: &[(&str, &str)]) {
    let attrs: Attrs = attrs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let Ok(mut iterator) = io::find(name).and_then(|iterator| iterator.create(&attrs)) else { return };
    for _ in 0..8 {
        if !memory::catch(|| iterator.next()).unwrap_or(false) {
            break;
        }
    }
}

/// Runs `f` with the path of a temporary file.
fn with_file(bytes: &[u8], f: impl FnOnce(&str)) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("ferromx-fuzz-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    if std::fs::write(&path, bytes).is_ok() {
        f(&path.to_string_lossy());
    }
    let _ = std::fs::remove_file(&path);
}

/// Reads the text of an NNEF graph and imports it, with a few numbers repeated as the data of its variables. It may fail, but must not
/// panic.
pub(crate) fn nnef(bytes: &[u8]) {
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

/// Runs a target on the files that are given as arguments.
///
/// # Errors
/// Errors of reading the files.
pub(crate) fn files(target: fn(&[u8])) -> std::io::Result<()> {
    for path in std::env::args().skip(1) {
        target(&std::fs::read(&path)?);
        writeln!(std::io::stdout(), "{path}: fine")?;
    }
    Ok(())
}
