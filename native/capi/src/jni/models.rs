//! Models of other frameworks: import, checks, and export to ONNX.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use ferromx_interop::emit::NumpyShapes;
use ferromx_interop::export::{self, ExportOptions};
use ferromx_interop::import::{self, ImportOptions};
use ferromx_interop::ir::Framework;
use ferromx_interop::ir::{Dim, Model, ValueInfo};
use ferromx_interop::mapping::ast::Process;
use ferromx_interop::nnef;
use ferromx_interop::onnx::{self, External};
use ferromx_interop::{emit::rules, mapping::Mappings};
use ferromx_runtime::dtype::DType;
use ferromx_runtime::error::Error;
use ferromx_runtime::imperative::Tensor;
use ferromx_runtime::ndarray::NDArray;
use ferromx_runtime::shape::Shape;
use jni::Env;
use jni::objects::{JByteArray, JIntArray, JLongArray, JObjectArray, JString};
use jni::sys::{jboolean, jint, jlong};

use super::declarations::{HookBridge, ImportedParts};
use super::import_hooks::JvmHooks;
use super::symbol::unpack_shapes;
use super::{
    EngineResult, JniError, Result, ints, longs, native, new_longs, new_strings, null, same_length, string, strings,
    upcalls,
};
use crate::handle::{insert_symbol, insert_tensor, symbol, tensor};

impl From<ferromx_interop::Error> for JniError {
    fn from(error: ferromx_interop::Error) -> Self {
        JniError::Engine(match error {
            ferromx_interop::Error::Engine(error) => error,
            other => Error::Value(other.to_string()),
        })
    }
}

/// Shapes by name, from names, ranks and concatenated dimensions; -1 is an unknown dimension.
fn named_shapes<'l>(
    env: &mut Env<'l>,
    names: &JObjectArray<'l, JString<'l>>,
    ndims: &JIntArray<'l>,
    dims: &JLongArray<'l>,
) -> Result<Vec<(String, Shape)>> {
    let names = strings(env, names, "names")?;
    let _numpy = NumpyShapes::set();
    let shapes = unpack_shapes(&ints(env, ndims, "ndims")?, &longs(env, dims, "dims")?)?;
    same_length(names.len(), shapes.len(), "names", "shapes")?;
    Ok(names.into_iter().zip(shapes).collect())
}

/// The names and texts of a program's mapping files.
struct MappingFiles<'l> {
    names: JObjectArray<'l, JString<'l>>,
    texts: JObjectArray<'l, JString<'l>>,
}

impl<'l> MappingFiles<'l> {
    /// The framework's mappings extended by the files, or `None` if there are no files.
    fn read(&self, env: &mut Env<'l>, framework: Framework) -> Result<Option<Arc<Mappings>>> {
        let (names, texts) = (strings(env, &self.names, "mappingNames")?, strings(env, &self.texts, "mappingTexts")?);
        same_length(names.len(), texts.len(), "mappingNames", "mappingTexts")?;
        if names.is_empty() {
            return Ok(None);
        }
        let files: Vec<(String, String)> = names.into_iter().zip(texts).collect();
        Ok(Some(Arc::new(Mappings::read(framework, &files)?)))
    }
}

/// Shapes of inputs, and hooks unless `hooks` is null.
fn options<'l>(
    env: &mut Env<'l>,
    names: &JObjectArray<'l, JString<'l>>,
    ndims: &JIntArray<'l>,
    dims: &JLongArray<'l>,
    hooks: &HookBridge<'_>,
) -> Result<ImportOptions> {
    let shapes = named_shapes(env, names, ndims, dims)?;
    let shapes = shapes.into_iter().map(|(name, shape)| (name, shape.dims().to_vec())).collect();
    let hooks = JvmHooks::of(env, hooks)?;
    Ok(ImportOptions { shapes, hooks, ..ImportOptions::default() })
}

/// The framework of this name.
fn framework_of<'l>(env: &mut Env<'l>, name: &JString<'l>) -> Result<Framework> {
    let name = string(env, name, "framework")?;
    Framework::ALL.into_iter().find(|f| f.name() == name).ok_or_else(|| {
        let known = Framework::ALL.map(Framework::name).join(", ");
        Error::value(format!("there is no framework '{name}' to import from; there are {known}")).into()
    })
}

/// Loads a model file of a framework; NNEF always has external tensor files.
fn load(framework: Framework, file: &str, external_data: bool) -> Result<Model> {
    let file = Path::new(file);
    match framework {
        Framework::Onnx if external_data => Ok(onnx::load_with_external_data(file)?),
        Framework::Onnx => Ok(onnx::load(file)?),
        Framework::Nnef => Ok(nnef::load(file)?),
    }
}

/// Loads a model from a file, or an ONNX model from bytes if the file is null.
fn model<'l>(
    env: &mut Env<'l>,
    framework: Framework,
    file: &JString<'l>,
    bytes: &JByteArray<'l>,
    external_data: bool,
) -> Result<Model> {
    if !file.is_null() {
        return load(framework, &string(env, file, "path")?, external_data);
    }
    if bytes.is_null() {
        return Err(null("bytes"));
    }
    Ok(onnx::read(Bytes::from(env.convert_byte_array(bytes)?), &External::refused())?)
}

/// Describes a value: name, element type and dimensions, which are comma-separated numbers, names and `?`, or `*` for an unknown rank.
fn describe(value: &ValueInfo) -> [String; 3] {
    let dim = |dim: &Dim| match dim {
        Dim::Known(n) => n.to_string(),
        Dim::Named(name) => name.clone(),
        Dim::Unknown => "?".into(),
    };
    let element = value.element.as_ref().map_or_else(String::new, ToString::to_string);
    let dims =
        value.dims.as_ref().map_or_else(|| "*".into(), |dims| dims.iter().map(dim).collect::<Vec<_>>().join(","));
    [value.name.clone(), element, dims]
}

fn dtype(code: i32) -> Result<DType> {
    DType::from_code(code).ok_or_else(|| Error::value(format!("{code} is not an element type code")).into())
}

native! {
    fn modelImport(
        env, framework: JString<'l>, file: JString<'l>, bytes: JByteArray<'l>, external_data: jboolean,
        names: JObjectArray<'l, JString<'l>>, ndims: JIntArray<'l>, dims: JLongArray<'l>, hooks: HookBridge<'l>,
        mapping_names: JObjectArray<'l, JString<'l>>, mapping_texts: JObjectArray<'l, JString<'l>>) -> ImportedParts<'l>
    {
        let framework = framework_of(env, &framework)?;
        let mut options = options(env, &names, &ndims, &dims, &hooks)?;
        options.mappings = MappingFiles { names: mapping_names, texts: mapping_texts }.read(env, framework)?;
        let model = model(env, framework, &file, &bytes, external_data)?;
        let imported = import::import(&model, &options)?;
        let kinds = imported.args.iter().map(|a| ("arg", a)).chain(imported.aux.iter().map(|a| ("aux", a)));
        let (names, handles): (Vec<_>, Vec<_>) = kinds
            .map(|(kind, (name, array))| (format!("{kind}:{name}"), insert_tensor(Tensor::new(array.clone())) as jlong))
            .unzip();
        let inputs: Vec<String> = imported.inputs.iter().flat_map(describe).collect();
        let names = new_strings(env, &names)?;
        let handles = new_longs(env, &handles)?;
        let inputs = new_strings(env, &inputs)?;
        let outputs = new_strings(env, &imported.outputs)?;
        let symbol = insert_symbol(imported.symbol) as jlong;
        let arguments = [symbol.into(), (&names).into(), (&handles).into(), (&inputs).into(), (&outputs).into()];
        Ok(ImportedParts(upcalls::IMPORTED_PARTS.construct(env, &arguments)?))
    }

    fn modelCheck(
        env, framework: JString<'l>, file: JString<'l>, external_data: jboolean, names: JObjectArray<'l, JString<'l>>,
        ndims: JIntArray<'l>, dims: JLongArray<'l>, hooks: HookBridge<'l>, mapping_names: JObjectArray<'l, JString<'l>>,
        mapping_texts: JObjectArray<'l, JString<'l>>) -> JObjectArray<'l, JString<'l>>
    {
        let framework = framework_of(env, &framework)?;
        let mut options = options(env, &names, &ndims, &dims, &hooks)?;
        options.mappings = MappingFiles { names: mapping_names, texts: mapping_texts }.read(env, framework)?;
        let model = load(framework, &string(env, &file, "path")?, external_data)?;
        match import::check(&model, &options) {
            Ok(_) => new_strings::<&str>(env, &[]),
            Err(ferromx_interop::Error::Model(problems)) => {
                let flat: Vec<String> = problems.into_iter().flat_map(|p| [p.location, p.message]).collect();
                new_strings(env, &flat)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn mappingProcesses(
        env, framework: JString<'l>, mapping_names: JObjectArray<'l, JString<'l>>, mapping_texts: JObjectArray<'l, JString<'l>>)
        -> JObjectArray<'l, JString<'l>>
    {
        let framework = framework_of(env, &framework)?;
        let added = MappingFiles { names: mapping_names, texts: mapping_texts }.read(env, framework)?;
        let table = match &added {
            Some(added) => &added.table,
            None => framework.table()?,
        };
        let fields = |p: &Process| {
            let until = if p.until == i64::MAX { String::new() } else { p.until.to_string() };
            let is_added = if table.is_added(p) { "1" } else { "" }.to_string();
            let (line, arrow) = (p.position.line.to_string(), p.direction.arrow().to_string());
            let (name, domain, op) = (p.name.clone(), p.domain.clone(), p.left.name.clone());
            [name, domain, op, p.since.to_string(), until, arrow, is_added, p.file.clone(), line, p.text.clone()]
        };
        new_strings(env, &table.processes().flat_map(fields).collect::<Vec<_>>())
    }

    fn mappingRules(
        env, framework: JString<'l>, mapping_names: JObjectArray<'l, JString<'l>>, mapping_texts: JObjectArray<'l, JString<'l>>)
        -> JObjectArray<'l, JString<'l>>
    {
        let framework = framework_of(env, &framework)?;
        let added = MappingFiles { names: mapping_names, texts: mapping_texts }.read(env, framework)?;
        let mut flat: Vec<String> = Vec::new();
        for rule in rules::all() {
            let is_reversible = if rule.reverse.is_some() { "1" } else { "" };
            let (name, signature) = (rule.signature.name.to_string(), rule.signature.text());
            flat.extend([name, signature, rule.doc.into(), is_reversible.into(), String::new()]);
        }
        for rule in added.iter().flat_map(|added| added.table.definitions()) {
            let (name, signature) = (rule.signature.name.to_string(), rule.signature.text());
            flat.extend([name, signature, rule.text.clone(), String::new(), "1".into()]);
        }
        new_strings(env, &flat)
    }

    fn onnxExport(
        env, file: JString<'l>, graph: jlong, names: JObjectArray<'l, JString<'l>>, handles: JLongArray<'l>,
        inputs: JObjectArray<'l, JString<'l>>, ndims: JIntArray<'l>, dims: JLongArray<'l>, types: JIntArray<'l>, opset: jint,
        hooks: HookBridge<'l>, mapping_names: JObjectArray<'l, JString<'l>>, mapping_texts: JObjectArray<'l, JString<'l>>)
    {
        let file = string(env, &file, "path")?;
        let arrays = longs(env, &handles, "handles")?.into_iter().map(|h| tensor(h as u64)?.array());
        let arrays = arrays.collect::<EngineResult<Vec<NDArray>>>()?;
        let names = strings(env, &names, "names")?;
        same_length(names.len(), arrays.len(), "names", "handles")?;
        let shapes = named_shapes(env, &inputs, &ndims, &dims)?;
        let types = ints(env, &types, "types")?.into_iter().map(dtype).collect::<Result<Vec<_>>>()?;
        same_length(types.len(), shapes.len(), "types", "inputs")?;
        let dtypes = shapes.iter().map(|(name, _)| name.clone()).zip(types).collect();
        let opset = (opset > 0).then_some(i64::from(opset));
        let hooks = JvmHooks::of(env, &hooks)?;
        let mappings = MappingFiles { names: mapping_names, texts: mapping_texts }.read(env, Framework::Onnx)?;
        let options = ExportOptions { shapes, dtypes, opset, hooks, mappings, ..ExportOptions::default() };
        let model = export::export(&symbol(graph as u64)?, &names.into_iter().zip(arrays).collect(), &options)?;
        Ok(onnx::save(&model, Path::new(&file))?)
    }
}
