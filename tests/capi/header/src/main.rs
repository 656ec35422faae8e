//! Generates `native/capi/include/mxnet/c_api.h` and `docs/c-api.md`, which lists its functions. With `--check`, only checks that both are
//! up to date.

#[cfg(test)]
mod signatures;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

fn capi_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../native/capi")
}

fn header_path() -> PathBuf {
    capi_dir().join("include/mxnet/c_api.h")
}

/// Generates the header for the functions in `src/c`.
fn generate() -> Result<String, Box<dyn Error>> {
    let config = cbindgen::Config::from_file(capi_dir().join("cbindgen.toml"))?;
    // cbindgen follows the module declarations.
    let bindings = cbindgen::Builder::new().with_config(config).with_src(capi_dir().join("src/c/mod.rs")).generate()?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    Ok(String::from_utf8(text)?)
}

fn list_path() -> PathBuf {
    capi_dir().join("../../docs/c-api.md")
}

/// The text above the list of functions.
const INTRODUCTION: &str = "\
# The C API

`libmxnet` exports these functions of MXNet 1.9.1's `c_api.h`, `c_predict_api.h` and nnvm's `c_api.h`, with their names and signatures.
Programs compile against `native/capi/include/mxnet/c_api.h`. This page is written by `cargo run -p capi-header`.

Every function returns 0, or -1 with a message for `MXGetLastError`. Every function that MXNet 1.9.1 exports is declared. Those that this
library cannot support always return an error: CUDA code compiled at run time (`MXRtc*`), code linked to MXNet's own C++ types
(`MXLoadLib`, `MXTVMBridge`), and control dependencies (`NNAddControlDeps`). The functions whose names begin with `Ferro` are not MXNet's:
they set up [distributed jobs](distributed.md) and push gradients during a backward pass.

";

/// The functions of the header, with the first sentence of their descriptions.
fn functions(header: &str) -> Vec<(String, String)> {
    let mut comment = String::new();
    let mut found = Vec::new();
    // Long declarations have a line break after MXNET_DLL.
    let header = header.replace("MXNET_DLL\n", "MXNET_DLL ");
    for line in header.lines() {
        if let Some(text) = line.strip_prefix("//") {
            comment = format!("{comment}{text}");
        } else if let Some(declaration) = line.strip_prefix("MXNET_DLL ") {
            let name = declaration.split('(').next().unwrap_or_default();
            let name = name.rsplit([' ', '*']).next().unwrap_or_default();
            let sentence = comment.trim().split_inclusive(". ").next().unwrap_or_default().trim();
            found.push((name.to_string(), sentence.to_string()));
            comment.clear();
        } else {
            comment.clear();
        }
    }
    found.sort();
    found
}

/// Generates the page that lists the functions.
fn list(header: &str) -> String {
    let functions = functions(header);
    let mut page =
        format!("{INTRODUCTION}## {} functions\n\n| Function | What it does |\n|---|---|\n", functions.len());
    functions.iter().for_each(|(name, sentence)| page += &format!("| `{name}` | {sentence} |\n"));
    page
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let text = generate()?;
    if env::args().any(|a| a == "--check") {
        if fs::read_to_string(header_path())? == text && fs::read_to_string(list_path())? == list(&text) {
            return Ok(ExitCode::SUCCESS);
        }
        eprintln!("include/mxnet/c_api.h or docs/c-api.md is out of date: run `cargo run -p capi-header`");
        return Ok(ExitCode::FAILURE);
    }
    fs::write(list_path(), list(&text))?;
    fs::write(header_path(), text)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn committed_header_is_up_to_date() {
        let committed = std::fs::read_to_string(super::header_path()).unwrap();
        let text = super::generate().unwrap();
        assert!(committed == text, "run `cargo run -p capi-header`");
        let listed = std::fs::read_to_string(super::list_path()).unwrap();
        assert!(listed == super::list(&text), "run `cargo run -p capi-header`");
    }
}
