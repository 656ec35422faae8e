//! Writes `native/capi/include/mxnet/c_api.h`; with `--check` it only compares it with what it would write.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

fn face() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../native/capi")
}

fn header_path() -> PathBuf {
    face().join("include/mxnet/c_api.h")
}

/// The header for the functions in `src/c`.
fn generate() -> Result<String, Box<dyn Error>> {
    let config = cbindgen::Config::from_file(face().join("cbindgen.toml"))?;
    // The modules below are found from here.
    let bindings = cbindgen::Builder::new().with_config(config).with_src(face().join("src/c/mod.rs")).generate()?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    Ok(String::from_utf8(text)?)
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let text = generate()?;
    if env::args().any(|a| a == "--check") {
        if fs::read_to_string(header_path())? == text {
            return Ok(ExitCode::SUCCESS);
        }
        eprintln!("include/mxnet/c_api.h is not what src/c says: run `cargo run -p capi-header`");
        return Ok(ExitCode::FAILURE);
    }
    fs::write(header_path(), text)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn committed_header_is_up_to_date() {
        let committed = std::fs::read_to_string(super::header_path()).unwrap();
        assert!(committed == super::generate().unwrap(), "run `cargo run -p capi-header`");
    }
}
