//! Reads the native methods from `LibInfo.scala`, so that the compiler can compare each parameter with the functions of `src/jni`.
//! Also links the library so that it is never unloaded: the JVM would unload it with the class loader that loaded it, while the
//! engine's threads still run.
#![allow(clippy::print_stdout)] // Cargo reads it.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

/// The description of the native interface, from this folder.
const LIB_INFO: &str = "../../jvm/src/main/scala/org/apache/mxnet/internal/jni/LibInfo.scala";

/// A method: name, Scala types of the parameters, type of the result.
type Declaration = (String, Vec<String>, String);

/// Splits a parameter list at the commas that are not in brackets.
fn split_parameters(list: &str) -> Vec<&str> {
    let mut depth = 0;
    list.split(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    })
    .filter(|parameter| !parameter.trim().is_empty())
    .collect()
}

/// A type without its package.
fn type_name(text: &str) -> String {
    text.trim().rsplit_once('.').map_or(text.trim(), |(_, name)| name).to_string()
}

/// The declaration at the start of `text`, which follows `@native def`: `name(a: Long, b: Array[Long]): Unit`.
fn declaration(text: &str) -> Option<Declaration> {
    let (name, rest) = text.split_once('(')?;
    let (parameters, rest) = rest.split_once(')')?;
    let result = rest.strip_prefix(':')?.lines().next()?;
    let types = split_parameters(parameters).into_iter().map(|p| p.split_once(':').map(|(_, t)| type_name(t)));
    Some((name.trim().to_string(), types.collect::<Option<_>>()?, type_name(result)))
}

/// The version of the interface, which `jvm/project/NativeInterface.scala` computes too: the 32-bit FNV-1a hash of the declarations without
/// blanks. A declaration ends with the line of its result.
fn version(source: &str) -> i32 {
    let ends = |text: &str| {
        text.find(')').and_then(|closing| Some(closing + text[closing..].find('\n')?)).unwrap_or(text.len())
    };
    let without_blanks = |text: &str| text.split_whitespace().collect::<String>();
    let declarations: Vec<_> =
        source.split("@native def ").skip(1).map(|text| without_blanks(&text[..ends(text)])).collect();
    let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    declarations.join("\n").bytes().fold(0x811c_9dc5, hash).cast_signed()
}

/// The generated Rust source, which the crate includes.
fn constants(source: &str) -> Result<String, String> {
    let declarations = source.split("@native def ").skip(1).map(|text| {
        let line = text.lines().next().unwrap_or_default();
        declaration(text).ok_or_else(|| format!("`@native def {line}` is not a declaration"))
    });
    let declarations = declarations.collect::<Result<Vec<_>, _>>()?;
    let version = version(source);
    let table = format!("{declarations:?}").replace(", [", ", &[");
    Ok(format!(
        "/// Name, types of the parameters and type of the result of each method, in Scala's words.\n\
         const DECLARED: &[(&str, &[&str], &str)] = &{table};\n\
         /// The version of the interface.\n\
         pub(super) const ABI_VERSION: i32 = {version};\n"
    ))
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={LIB_INFO}");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
    let constants = fs::read_to_string(LIB_INFO)
        .map_err(|error| error.to_string())
        .and_then(|source| constants(&source))
        .map_err(|problem| format!("{LIB_INFO}, which declares the JNI methods: {problem}"))?;
    Ok(fs::write(Path::new(&env::var("OUT_DIR")?).join("declarations.rs"), constants)?)
}
