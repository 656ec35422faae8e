//! Hooks of imports and exports in Scala or Java, by upcalls of a `HookBridge`. Nodes are passed as `RawNode`, results as `RawOutputs`.

use std::sync::Arc;

use ferromx_interop::emit::{HookNode, HookOutputs, HookTensor, Hooks, RewrittenNode};
use ferromx_interop::ir::{Node, Tensor as Constant, Value};
use ferromx_runtime::dtype::DType;
use ferromx_runtime::error::Error;
use ferromx_runtime::imperative::Tensor;
use ferromx_runtime::ndarray::NDArray;
use ferromx_runtime::shape::Shape;
use jni::objects::{JDoubleArray, JLongArray, JObject, JObjectArray, JString};
use jni::sys::jlong;
use jni::{Env, JValue};

use super::declarations::HookBridge;
use super::gradient_graph::take_symbols;
use super::symbol::new_shapes;
use super::user_op::{Object, in_jvm};
use super::{EngineResult, JniError, Result, longs, new_ints, new_longs, new_strings, string, strings, upcalls};
use crate::handle::{self, insert_symbol, insert_tensor, tensor};

/// A `HookBridge`.
pub(super) struct JvmHooks(Object);

impl JvmHooks {
    /// The hooks of a bridge; `None` if it is null.
    pub(super) fn of(env: &mut Env<'_>, bridge: &HookBridge<'_>) -> Result<Option<Arc<dyn Hooks>>> {
        if bridge.is_null() {
            return Ok(None);
        }
        Ok(Some(Arc::new(JvmHooks(env.new_global_ref(&**bridge)?))))
    }

    /// Runs `f` in the JVM with the node as a `RawNode`.
    fn call<R>(
        &self,
        node: &HookNode<'_>,
        outputs: Option<&[Option<HookTensor>]>,
        f: impl FnOnce(&mut Env<'_>, &JObject<'_>, &JObject<'_>) -> Result<R>,
    ) -> ferromx_interop::Result<R> {
        Ok(in_jvm(|env| {
            let raw = raw_node(env, node, outputs)?;
            f(env, &self.0, &raw)
        })?)
    }
}

impl Hooks for JvmHooks {
    fn applies_to(&self, node: &Node) -> ferromx_interop::Result<bool> {
        Ok(in_jvm(|env| {
            let (domain, op) = (env.new_string(&node.domain)?, env.new_string(&node.op)?);
            let name = env.new_string(&node.name)?;
            let arguments = [(&domain).into(), (&op).into(), (&name).into()];
            Ok(upcalls::APPLIES_TO.call(env, &self.0, &arguments)?.z()?)
        })?)
    }

    fn prepare(&self, node: &HookNode<'_>) -> ferromx_interop::Result<Option<RewrittenNode>> {
        self.call(node, None, |env, bridge, raw| {
            let prepared = upcalls::PREPARE.call(env, bridge, &[raw.into()])?.l()?;
            if prepared.is_null() { Ok(None) } else { rewritten_node(env, &prepared, node.node).map(Some) }
        })
    }

    fn before(&self, node: &HookNode<'_>) -> ferromx_interop::Result<Option<HookOutputs>> {
        self.call(node, None, |env, bridge, raw| {
            let outputs = upcalls::BEFORE.call(env, bridge, &[raw.into()])?.l()?;
            hook_outputs(env, &outputs)
        })
    }

    fn after(
        &self,
        node: &HookNode<'_>,
        outputs: &[Option<HookTensor>],
    ) -> ferromx_interop::Result<Option<HookOutputs>> {
        self.call(node, Some(outputs), |env, bridge, raw| {
            let outputs = upcalls::AFTER.call(env, bridge, &[raw.into()])?.l()?;
            hook_outputs(env, &outputs)
        })
    }
}

/// Creates a `RawNode`. The JVM owns the handles in it.
fn raw_node<'l>(
    env: &mut Env<'l>,
    hooked: &HookNode<'_>,
    outputs: Option<&[Option<HookTensor>]>,
) -> Result<JObject<'l>> {
    let node = hooked.node;
    let texts = new_strings(env, &[&node.domain, &node.op, &node.name])?;
    let (input_names, output_names) = (new_strings(env, &node.inputs)?, new_strings(env, &node.outputs)?);
    let keys = new_strings(env, &node.attributes.keys().collect::<Vec<_>>())?;
    let values = JObjectArray::<JObject<'_>>::new(env, node.attributes.len(), JObject::null())?;
    let mut kinds = String::new();
    for (i, value) in node.attributes.values().enumerate() {
        let (kind, object) = attribute(env, value)?;
        kinds.push(kind);
        values.set_element(env, i, &object)?;
        env.delete_local_ref(object);
    }
    let kinds = env.new_string(kinds)?;
    let tensors: Vec<Option<&HookTensor>> =
        hooked.inputs.iter().chain(outputs.unwrap_or(&[])).map(Option::as_ref).collect();
    let handles = |f: &dyn Fn(&HookTensor) -> jlong| tensors.iter().map(|t| t.map_or(0, f)).collect::<Vec<_>>();
    let symbols = new_longs(env, &handles(&|t| insert_symbol(t.symbol.clone()) as jlong))?;
    let array = |a: &NDArray| insert_tensor(Tensor::new(a.read_only())) as jlong;
    let arrays = new_longs(env, &handles(&|t| t.value.as_ref().map_or(0, array)))?;
    let shapes: Vec<Shape> = tensors.iter().map(|t| t.map_or_else(Shape::unknown, |t| t.shape.clone())).collect();
    let shapes = new_shapes(env, &shapes)?;
    let codes: Vec<i32> = tensors.iter().map(|t| t.and_then(|t| t.dtype).map_or(-1, DType::code)).collect();
    let dtypes = new_ints(env, &codes)?;
    let arguments = [
        (&texts).into(),
        JValue::Long(hooked.version),
        (&input_names).into(),
        (&output_names).into(),
        (&keys).into(),
        (&kinds).into(),
        (&values).into(),
        (&symbols).into(),
        (&arrays).into(),
        (&shapes).into(),
        (&dtypes).into(),
    ];
    upcalls::NODE.construct(env, &arguments)
}

/// Converts an attribute for the JVM: its kind, and an array of its elements. Graphs are not passed.
fn attribute<'l>(env: &mut Env<'l>, value: &Value) -> Result<(char, JObject<'l>)> {
    let doubles = |env: &mut Env<'l>, items: &[f64]| -> Result<JObject<'l>> {
        let array = JDoubleArray::new(env, items.len())?;
        array.set_region(env, 0, items)?;
        Ok(array.into())
    };
    Ok(match value {
        Value::Int(i) => ('i', new_longs(env, &[*i])?.into()),
        Value::Float(x) => ('f', doubles(env, &[*x])?),
        Value::Text(text) => ('s', new_strings(env, &[text])?.into()),
        Value::Tensor(t) => ('t', new_longs(env, &[insert_tensor(Tensor::new(t.to_array()?)) as jlong])?.into()),
        Value::List(items) if items.iter().all(|v| matches!(v, Value::Text(_))) && !items.is_empty() => {
            ('S', new_strings(env, &items.iter().map(Value::to_string).collect::<Vec<_>>())?.into())
        }
        Value::List(items) if items.iter().any(|v| matches!(v, Value::Float(_))) => {
            ('F', doubles(env, &items.iter().filter_map(Value::number).collect::<Vec<_>>())?)
        }
        Value::List(_) => ('I', new_longs(env, &value.ints().unwrap_or_default())?.into()),
        _ => ('g', JObject::null()),
    })
}

/// Reads a field of an object of the bridge.
macro_rules! field {
    ($env:expr, $object:expr, $method:ident, $ty:ty) => {{
        let value = upcalls::$method.call($env, $object, &[])?.l()?;
        $env.cast_local::<$ty>(value)?
    }};
}

/// Takes ownership of handles: returns their arrays and frees them.
fn take_arrays(handles: &[jlong]) -> Result<Vec<NDArray>> {
    let take = |handle: &jlong| -> EngineResult<NDArray> {
        let array = tensor(*handle as u64)?.array()?;
        handle::free(*handle as u64, "NDArray")?;
        Ok(array)
    };
    Ok(handles.iter().map(take).collect::<EngineResult<_>>()?)
}

/// Reads names and arrays of the constants that a hook added.
fn constants<'l>(env: &mut Env<'l>, object: &JObject<'l>) -> Result<Vec<(String, NDArray)>> {
    let names = field!(env, object, CONSTANT_NAMES, JObjectArray<'l, JString<'l>>);
    let handles = field!(env, object, CONSTANT_HANDLES, JLongArray<'l>);
    let names = strings(env, &names, "names of constants")?;
    Ok(names.into_iter().zip(take_arrays(&longs(env, &handles, "constants")?)?).collect())
}

/// Converts a `RawOutputs`, whose handles it takes; `None` if it is null.
fn hook_outputs<'l>(env: &mut Env<'l>, raw: &JObject<'l>) -> Result<Option<HookOutputs>> {
    if raw.is_null() {
        return Ok(None);
    }
    let symbols = field!(env, raw, OUTPUT_SYMBOLS, JLongArray<'l>);
    let symbols = take_symbols(&longs(env, &symbols, "symbols")?)?;
    let outputs = symbols.into_iter().flatten().collect();
    Ok(Some(HookOutputs { outputs, constants: constants(env, raw)? }))
}

/// Converts a `RawNode`, whose handles it takes. Graph attributes are not passed to the JVM, so those of the original are kept.
fn rewritten_node<'l>(env: &mut Env<'l>, raw: &JObject<'l>, original: &Node) -> Result<RewrittenNode> {
    let texts = field!(env, raw, NODE_TEXTS, JObjectArray<'l, JString<'l>>);
    let [domain, op, name]: [String; 3] = strings(env, &texts, "texts")?
        .try_into()
        .map_err(|_| JniError::Engine(Error::Internal("a node does not have three strings".into())))?;
    let version = upcalls::NODE_VERSION.call(env, raw, &[])?.j()?;
    let inputs = field!(env, raw, NODE_INPUT_NAMES, JObjectArray<'l, JString<'l>>);
    let keys = field!(env, raw, NODE_KEYS, JObjectArray<'l, JString<'l>>);
    let kinds = field!(env, raw, NODE_KINDS, JString<'l>);
    let values = field!(env, raw, NODE_VALUES, JObjectArray<'l, JObject<'l>>);
    let (inputs, keys) = (strings(env, &inputs, "inputs")?, strings(env, &keys, "attributes")?);
    let kinds = string(env, &kinds, "kinds of attributes")?;
    let mut attributes = Vec::new();
    for (i, (key, kind)) in keys.into_iter().zip(kinds.chars()).enumerate() {
        let object = values.get_element(env, i)?;
        let value = match kind {
            'g' => original.attributes.get(&key).cloned().unwrap_or_default(),
            kind => value(env, kind, object)?,
        };
        attributes.push((key, value));
    }
    let (outputs, attributes) = (original.outputs.clone(), attributes.into_iter().collect());
    let node = Node {
        name,
        domain,
        op,
        inputs,
        outputs,
        attributes,
        version: (version > 0).then_some(version),
        ..Node::default()
    };
    Ok(RewrittenNode { node, constants: constants(env, raw)? })
}

/// Converts an attribute from the JVM.
fn value<'l>(env: &mut Env<'l>, kind: char, object: JObject<'l>) -> Result<Value> {
    let all = match kind {
        'i' | 'I' | 't' => {
            let items = env.cast_local::<JLongArray<'l>>(object)?;
            let items = longs(env, &items, "an attribute")?;
            if kind == 't' {
                let array = take_arrays(&items)?.into_iter().next();
                return Ok(array.map_or(Value::None, |a| Value::Tensor(Constant::from_array(&a))));
            }
            items.into_iter().map(Value::Int).collect::<Vec<_>>()
        }
        'f' | 'F' => {
            let items = env.cast_local::<JDoubleArray<'l>>(object)?;
            let mut numbers = vec![0.0; items.len(env)?];
            items.get_region(env, 0, &mut numbers)?;
            numbers.into_iter().map(Value::Float).collect()
        }
        _ => {
            let items = env.cast_local::<JObjectArray<'l, JString<'l>>>(object)?;
            strings(env, &items, "an attribute")?.into_iter().map(Value::Text).collect()
        }
    };
    Ok(match kind.is_ascii_lowercase() {
        true => all.into_iter().next().unwrap_or_default(),
        false => Value::List(all),
    })
}
