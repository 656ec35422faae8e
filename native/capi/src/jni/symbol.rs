//! Symbols: creation, composition, listings, inference, JSON.

use ferromx_runtime::dtype::DType;
use ferromx_runtime::error::Error;
use ferromx_runtime::semantics;
use ferromx_runtime::shape::Shape;
use ferromx_runtime::symbol::{AtomicSymbol, Symbol};
use ferromx_runtime::symbol_infer::{argument_names, infer_dtypes, infer_shapes};
use jni::Env;
use jni::objects::{JIntArray, JLongArray, JObjectArray, JString};
use jni::sys::{jint, jlong};

use super::declarations::{InferredShapes, InferredTypes};
use super::{
    EngineResult, Result, attrs, ints, longs, native, new_ints, new_longs, new_strings, pairs, string, strings, upcalls,
};
use crate::handle::{self, SymbolState, insert_symbol, symbol};

fn symbols(handles: &[jlong]) -> Result<Vec<Symbol>> {
    Ok(handles.iter().map(|h| symbol(*h as u64)).collect::<EngineResult<_>>()?)
}

fn flat(items: Vec<(String, String)>) -> Vec<String> {
    items.into_iter().flat_map(|(k, v)| [k, v]).collect()
}

/// Shapes from ranks and concatenated dimensions.
pub(super) fn unpack_shapes(ndims: &[i32], dims: &[i64]) -> Result<Vec<Shape>> {
    let mut rest = dims;
    ndims
        .iter()
        .map(|n| {
            let Ok(n) = usize::try_from(*n) else { return Ok(Shape::unknown()) };
            if n > rest.len() {
                return Err(
                    Error::Value(format!("{} dimensions were given, but the ranks need more", dims.len())).into()
                );
            }
            let (shape, tail) = rest.split_at(n);
            rest = tail;
            Ok(semantics::shape_from_user(Some(shape))?)
        })
        .collect()
}

/// Shapes as arrays of dimensions; null for an unknown rank.
pub(super) fn new_shapes<'l>(env: &mut Env<'l>, shapes: &[Shape]) -> Result<JObjectArray<'l, JLongArray<'l>>> {
    let out = JObjectArray::<JLongArray<'_>>::new(env, shapes.len(), JLongArray::null())?;
    for (i, shape) in shapes.iter().enumerate() {
        if let Some(dims) = semantics::shape_to_user(shape) {
            let dims = new_longs(env, &dims)?;
            out.set_element(env, i, &dims)?;
            env.delete_local_ref(dims);
        }
    }
    Ok(out)
}

native! {
    fn symbolCreateVariable(env, name: JString<'l>) -> jlong {
        let name = string(env, &name, "the variable's name")?;
        Ok(insert_symbol(Symbol::variable(&name, Default::default())) as jlong)
    }

    fn symbolCreate(
        env, op: jlong, name: JString<'l>, keys: JObjectArray<'l, JString<'l>>, values: JObjectArray<'l, JString<'l>>,
        attr_keys: JObjectArray<'l, JString<'l>>, attr_values: JObjectArray<'l, JString<'l>>,
        input_keys: JObjectArray<'l, JString<'l>>, inputs: JLongArray<'l>) -> jlong
    {
        let (op, _) = handle::operator_of(op as u64)?;
        let name = if name.is_null() { String::new() } else { string(env, &name, "name")? };
        let mut atomic = AtomicSymbol::new(op, attrs(env, &keys, &values)?)?;
        for (k, v) in pairs(env, &attr_keys, &attr_values)? {
            atomic.set_attr(&k, &v)?;
        }
        let inputs = symbols(&longs(env, &inputs, "inputs")?)?;
        let input_keys = if input_keys.is_null() { None } else { Some(strings(env, &input_keys, "inputKeys")?) };
        Ok(insert_symbol(atomic.compose(&name, &inputs, input_keys.as_deref())?) as jlong)
    }

    fn symbolCompose(
        env, handle: jlong, name: JString<'l>, keys: JObjectArray<'l, JString<'l>>, inputs: JLongArray<'l>)
    {
        let keys = if keys.is_null() { None } else { Some(strings(env, &keys, "keys")?) };
        let name = if name.is_null() { None } else { Some(string(env, &name, "name")?) };
        let inputs = symbols(&longs(env, &inputs, "inputs")?)?;
        let composed = symbol(handle as u64)?.substitute(&inputs, keys.as_deref())?;
        let composed = match name {
            Some(name) if !name.is_empty() => composed.renamed(&name)?,
            _ => composed,
        };
        *handle::symbol_state(handle as u64)?.write() = SymbolState::Graph(composed);
        Ok(())
    }

    fn symbolFree(_env, handle: jlong) {
        Ok(handle::free(handle as u64, "Symbol")?)
    }

    fn symbolCopy(_env, handle: jlong) -> jlong {
        Ok(insert_symbol(symbol(handle as u64)?.deep_copy()) as jlong)
    }

    fn symbolCreateGroup(env, handles: JLongArray<'l>) -> jlong {
        let all = symbols(&longs(env, &handles, "handles")?)?;
        Ok(insert_symbol(Symbol::group(&all)) as jlong)
    }

    fn symbolGetInternals(_env, handle: jlong) -> jlong {
        Ok(insert_symbol(symbol(handle as u64)?.internals()) as jlong)
    }

    fn symbolGetChildren(_env, handle: jlong) -> jlong {
        Ok(symbol(handle as u64)?.children().map_or(0, |s| insert_symbol(s) as jlong))
    }

    fn symbolGetOutput(_env, handle: jlong, index: jint) -> jlong {
        let s = symbol(handle as u64)?;
        let index = usize::try_from(index).map_err(|_| Error::Value(format!("output {index} is negative")))?;
        Ok(insert_symbol(s.output(index)?) as jlong)
    }

    fn symbolGetName(env, handle: jlong) -> JString<'l> {
        match symbol(handle as u64)?.name() {
            Some(name) => Ok(env.new_string(name)?),
            None => Ok(JString::default()),
        }
    }

    fn symbolListArguments(env, handle: jlong) -> JObjectArray<'l, JString<'l>> {
        new_strings(env, &symbol(handle as u64)?.list_arguments())
    }

    fn symbolListOutputs(env, handle: jlong) -> JObjectArray<'l, JString<'l>> {
        new_strings(env, &symbol(handle as u64)?.list_outputs())
    }

    fn symbolListAuxiliaryStates(env, handle: jlong) -> JObjectArray<'l, JString<'l>> {
        new_strings(env, &symbol(handle as u64)?.list_auxiliary_states())
    }

    fn symbolGetAttr(env, handle: jlong, key: JString<'l>) -> JString<'l> {
        let key = string(env, &key, "key")?;
        match symbol(handle as u64)?.attr(&key) {
            Some(value) => Ok(env.new_string(value)?),
            None => Ok(JString::default()),
        }
    }

    fn symbolSetAttrs(
        env, handle: jlong, keys: JObjectArray<'l, JString<'l>>, values: JObjectArray<'l, JString<'l>>)
    {
        let s = symbol(handle as u64)?;
        for (k, v) in pairs(env, &keys, &values)? {
            s.set_attr(&k, &v)?;
        }
        Ok(())
    }

    fn symbolListAttr(env, handle: jlong) -> JObjectArray<'l, JString<'l>> {
        new_strings(env, &flat(symbol(handle as u64)?.list_attr()))
    }

    fn symbolListAttrShallow(env, handle: jlong) -> JObjectArray<'l, JString<'l>> {
        new_strings(env, &flat(symbol(handle as u64)?.list_attr_shallow()))
    }

    fn symbolInferShape(
        env, handle: jlong, keys: JObjectArray<'l, JString<'l>>, ndims: JIntArray<'l>, dims: JLongArray<'l>) -> InferredShapes<'l>
    {
        let s = symbol(handle as u64)?;
        let shapes = unpack_shapes(&ints(env, &ndims, "ndims")?, &longs(env, &dims, "dims")?)?;
        let keys = if keys.is_null() { None } else { Some(strings(env, &keys, "keys")?) };
        let names = argument_names(&s, keys, shapes.len())?;
        let given: Vec<_> = names.into_iter().zip(shapes).collect();
        let inferred = infer_shapes(&s, &given)?;
        let complete = inferred.all(Shape::is_known);
        let (args, outs, aux) =
            (new_shapes(env, &inferred.args)?, new_shapes(env, &inferred.outputs)?, new_shapes(env, &inferred.aux)?);
        let arguments = [complete.into(), (&args).into(), (&outs).into(), (&aux).into()];
        Ok(InferredShapes(upcalls::INFERRED_SHAPES.construct(env, &arguments)?))
    }

    fn symbolInferType(
        env, handle: jlong, keys: JObjectArray<'l, JString<'l>>, dtypes: JIntArray<'l>) -> InferredTypes<'l>
    {
        let s = symbol(handle as u64)?;
        let codes = ints(env, &dtypes, "dtypes")?;
        let keys = if keys.is_null() { None } else { Some(strings(env, &keys, "keys")?) };
        let names = argument_names(&s, keys, codes.len())?;
        let mut given = Vec::new();
        for (name, code) in names.into_iter().zip(codes) {
            if code != -1 {
                given.push((name, ferromx_runtime::arrays::dtype_of_code(code)?));
            }
        }
        let inferred = infer_dtypes(&s, &given)?;
        let codes = |types: &[Option<DType>]| types.iter().map(|d| d.map_or(-1, DType::code)).collect::<Vec<_>>();
        let complete = inferred.all(Option::is_some);
        let args = new_ints(env, &codes(&inferred.args))?;
        let outs = new_ints(env, &codes(&inferred.outputs))?;
        let aux = new_ints(env, &codes(&inferred.aux))?;
        let arguments = [complete.into(), (&args).into(), (&outs).into(), (&aux).into()];
        Ok(InferredTypes(upcalls::INFERRED_TYPES.construct(env, &arguments)?))
    }

    fn symbolCheckReady(_env, handle: jlong) {
        Ok(symbol(handle as u64)?.check_ready()?)
    }

    fn symbolPrint(env, handle: jlong) -> JString<'l> {
        Ok(env.new_string(symbol(handle as u64)?.debug_string())?)
    }

    fn symbolToJson(env, handle: jlong) -> JString<'l> {
        Ok(env.new_string(symbol(handle as u64)?.to_json())?)
    }

    fn symbolFromJson(env, json: JString<'l>) -> jlong {
        Ok(insert_symbol(Symbol::from_json(&string(env, &json, "json")?)?) as jlong)
    }

    fn symbolSave(env, handle: jlong, file: JString<'l>) {
        Ok(symbol(handle as u64)?.save(&string(env, &file, "fileName")?)?)
    }

    fn symbolLoad(env, file: JString<'l>) -> jlong {
        Ok(insert_symbol(Symbol::load(&string(env, &file, "fileName")?)?) as jlong)
    }
}
