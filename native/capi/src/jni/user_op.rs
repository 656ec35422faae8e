//! User operators in Scala or Java, by upcalls of `OperatorBridge`, `BridgedOperator` and `BridgedInstance` in `OperatorBridge.scala`.
//!
//! Upcalls run on the thread that called the engine, in their own frame of local references, with cached method ids. An exception becomes
//! an error with a global reference to it, so that the native method can throw an `MXNetError` with the exception as its cause.

use std::sync::Arc;

use ferromx_runtime::context::Context;
use ferromx_runtime::dtype::DType;
use ferromx_runtime::ensure;
use ferromx_runtime::error::{Cause, Error};
use ferromx_runtime::grad::{Entry, GradGraph, GradNode};
use ferromx_runtime::imperative::Tensor;
use ferromx_runtime::ndarray::NDArray;
use ferromx_runtime::params::Attrs;
use ferromx_runtime::semantics;
use ferromx_runtime::shape::Shape;
use ferromx_runtime::sparse::Array;
use ferromx_runtime::storage::Req;
use ferromx_runtime::user_op::{
    self, InferredArgs, UserOpBackward, UserOpFactory, UserOpForward, UserOpInstance, UserOperator,
};
use jni::objects::{JByteBuffer, JIntArray, JLongArray, JObject, JObjectArray, JString, JThrowable};
use jni::refs::{Global, Weak};
use jni::sys::{jboolean, jlong};
use jni::vm::{AttachConfig, AttachmentExceptionPolicy};
use jni::{Env, JValue, JavaVM};
use parking_lot::{Mutex, RwLock};

use super::declarations::OperatorBridge;
use super::gradient_graph::{self, Template};
use super::symbol::new_shapes;
use super::upcalls::ResolvedMethod;
use super::{
    EngineResult, JniError, Result, ints, longs, native, new_ints, new_longs, new_strings, null, string, strings,
    upcalls,
};
use crate::handle::{self, insert_tensor, tensor};

pub(super) type Object = Global<JObject<'static>>;
/// A global reference to an exception, which an error carries.
pub(super) type Thrown = Global<JThrowable<'static>>;

/// The capacity of an upcall's frame of local references.
const LOCAL_FRAME_CAPACITY: usize = 16;

/// The library's `OperatorBridge`, and the method ids of upcalls.
struct Bridge {
    /// A weak reference, so that the class loader of the library can be collected. `NativeLibrary` keeps the object alive as long as the
    /// loader.
    object: Weak<JObject<'static>>,
    make: ResolvedMethod,
    resolve: ResolvedMethod,
    describe: ResolvedMethod,
    names: ResolvedMethod,
    flags: ResolvedMethod,
    infer_shapes: ResolvedMethod,
    infer_types: ResolvedMethod,
    gradient: ResolvedMethod,
    create: ResolvedMethod,
    forward: ResolvedMethod,
    backward: ResolvedMethod,
}

/// The current bridge. It is replaced when another class loader loads the library after the first one was collected.
static BRIDGE: RwLock<Option<Arc<Bridge>>> = RwLock::new(None);

fn bridge() -> Result<Arc<Bridge>> {
    BRIDGE.read().clone().ok_or_else(|| {
        Error::Internal("a user operator of the JVM was called before the library was loaded".into()).into()
    })
}

impl Bridge {
    fn object<'l>(&self, env: &mut Env<'l>) -> Result<JObject<'l>> {
        self.object.upgrade_local(env)?.ok_or_else(|| {
            Error::value("user code cannot be called: the class loader that loaded the library was collected").into()
        })
    }

    fn new(env: &mut Env<'_>, object: &JObject<'_>) -> Result<Bridge> {
        Ok(Bridge {
            object: env.new_weak_ref(object)?,
            make: upcalls::BRIDGE_MAKE.resolve(env)?,
            resolve: upcalls::BRIDGE_RESOLVE.resolve(env)?,
            describe: upcalls::BRIDGE_DESCRIBE.resolve(env)?,
            names: upcalls::OPERATOR_NAMES.resolve(env)?,
            flags: upcalls::OPERATOR_FLAGS.resolve(env)?,
            infer_shapes: upcalls::OPERATOR_INFER_SHAPES.resolve(env)?,
            infer_types: upcalls::OPERATOR_INFER_TYPES.resolve(env)?,
            gradient: upcalls::OPERATOR_GRADIENT.resolve(env)?,
            create: upcalls::OPERATOR_CREATE.resolve(env)?,
            forward: upcalls::INSTANCE_FORWARD.resolve(env)?,
            backward: upcalls::INSTANCE_BACKWARD.resolve(env)?,
        })
    }
}

/// Runs `f` with the JVM's environment. A thread that is not attached to the JVM is attached for the duration of the call.
pub(super) fn in_jvm<R>(f: impl FnOnce(&mut Env<'_>) -> Result<R>) -> EngineResult<R> {
    let config = || AttachConfig::new().scoped(true).exceptions_policy(AttachmentExceptionPolicy::Ignore);
    let run = |env: &mut Env<'_>| {
        if env.exception_check() {
            return Err(Error::value("an exception of another callback is pending").into());
        }
        f(env).map_err(|error| caught(env, error))
    };
    let result = JavaVM::singleton()
        .map_err(JniError::from)
        .and_then(|vm| vm.attach_current_thread_with_config(config, Some(LOCAL_FRAME_CAPACITY), run));
    result.map_err(|error| match error {
        JniError::Engine(error) => error,
        JniError::Jni(error) => Error::value(format!("the JVM refused to call user code: {error}")),
    })
}

/// Clears a pending exception and returns an error that carries it.
fn caught(env: &mut Env<'_>, error: JniError) -> JniError {
    let Some(thrown) = env.exception_occurred() else { return error };
    env.exception_clear();
    let describe = |env: &mut Env<'_>| -> Result<String> {
        let bridge = bridge()?;
        let object = bridge.object(env)?;
        let text = call_object(env, &object, bridge.describe, &[(&thrown).into()])?;
        let text = env.cast_local::<JString<'_>>(text)?;
        string(env, &text, "the description of an exception")
    };
    let message = describe(env).unwrap_or_else(|_| {
        env.exception_clear();
        "user code threw an exception that cannot be described".into()
    });
    match env.new_global_ref(&thrown) {
        Ok(thrown) => Error::Foreign { message, cause: Cause::new(thrown) }.into(),
        Err(_) => Error::Value(message).into(),
    }
}

/// Calls a method that returns an object; null is an error.
fn call_object<'l>(
    env: &mut Env<'l>,
    object: &JObject<'_>,
    method: ResolvedMethod,
    arguments: &[JValue<'_>],
) -> Result<JObject<'l>> {
    let returned = method.call(env, object, arguments)?.l()?;
    if returned.is_null() { Err(null("the result of an operator's method")) } else { Ok(returned) }
}

/// Creates operators of one type through the bridge.
struct Factory(String);

impl UserOpFactory for Factory {
    fn make(&self, attrs: &Attrs) -> EngineResult<Arc<dyn UserOperator>> {
        in_jvm(|env| {
            let bridge = bridge()?;
            let op_type = env.new_string(&self.0)?;
            let keys = new_strings(env, &attrs.keys().collect::<Vec<_>>())?;
            let values = new_strings(env, &attrs.values().collect::<Vec<_>>())?;
            let arguments = [(&op_type).into(), (&keys).into(), (&values).into()];
            let receiver = bridge.object(env)?;
            let operator = call_object(env, &receiver, bridge.make, &arguments)?;
            let object = env.new_global_ref(&operator)?;
            let flags = bridge.flags.call(env, &object, &[])?.i()?;
            let mut names = |kind: i32| -> Result<Vec<String>> {
                let names = call_object(env, &object, bridge.names, &[kind.into()])?;
                let names = env.cast_local::<JObjectArray<'_, JString<'_>>>(names)?;
                strings(env, &names, "names")
            };
            let (inputs, outputs, states) = (names(0)?, names(1)?, names(2)?);
            let (shapes, types) = (LastResult::default(), LastResult::default());
            let operator: Arc<dyn UserOperator> =
                Arc::new(Operator { object, inputs, outputs, states, flags, shapes, types });
            Ok(operator)
        })
    }
}

/// Bits of `BridgedOperator.flags`.
mod flag {
    pub(super) const READS_OUTPUT_GRADIENTS: i32 = 1;
    pub(super) const IS_COMPOSED: i32 = 2;
    pub(super) const IS_REUSABLE: i32 = 4;
}

/// A `BridgedOperator`.
struct Operator {
    object: Object,
    inputs: Vec<String>,
    outputs: Vec<String>,
    states: Vec<String>,
    flags: i32,
    shapes: LastResult<(bool, Vec<Shape>, Vec<Shape>), InferredArgs<Shape>>,
    types: LastResult<(Vec<Option<DType>>, Vec<Option<DType>>), InferredArgs<Option<DType>>>,
}

/// Caches the last result of shape or type inference, because graphs repeat inference for the same inputs many times.
struct LastResult<K, V>(Mutex<Option<(K, V)>>);

impl<K, V> Default for LastResult<K, V> {
    fn default() -> Self {
        LastResult(Mutex::new(None))
    }
}

impl<K: PartialEq, V: Clone> LastResult<K, V> {
    /// The cached result for these inputs, or that of `infer`.
    fn get_or_infer(&self, inputs: K, infer: impl FnOnce() -> EngineResult<V>) -> EngineResult<V> {
        if let Some((_, result)) = self.0.lock().as_ref().filter(|(cached, _)| *cached == inputs) {
            return Ok(result.clone());
        }
        // The lock is not held while user code runs.
        let result = infer()?;
        *self.0.lock() = Some((inputs, result.clone()));
        Ok(result)
    }
}

impl Operator {
    /// Splits a list with an element for each array into those of inputs, outputs and states.
    fn split<T>(&self, mut all: Vec<T>, what: &str) -> Result<InferredArgs<T>> {
        let (ins, outs, states) = (self.inputs.len(), self.outputs.len(), self.states.len());
        if all.len() != ins + outs + states {
            let text =
                format!("{} {what} were inferred for {ins} inputs, {outs} outputs and {states} states", all.len());
            return Err(Error::Value(text).into());
        }
        let states = all.split_off(ins + outs);
        let outs = all.split_off(ins);
        Ok(InferredArgs { ins: all, outs, states })
    }

    fn infer_shapes_in_jvm(&self, ins: &[Shape], outs: &[Shape]) -> EngineResult<InferredArgs<Shape>> {
        in_jvm(|env| {
            let (ins, outs) = (new_shapes(env, ins)?, new_shapes(env, outs)?);
            let inferred = call_object(env, &self.object, bridge()?.infer_shapes, &[(&ins).into(), (&outs).into()])?;
            let inferred = env.cast_local::<JObjectArray<'_, JLongArray<'_>>>(inferred)?;
            let mut shapes = Vec::new();
            for i in 0..inferred.len(env)? {
                let dims = inferred.get_element(env, i)?;
                shapes.push(match dims.is_null() {
                    true => Shape::unknown(),
                    false => semantics::shape_from_user(Some(&longs(env, &dims, "a shape")?))?,
                });
                env.delete_local_ref(dims);
            }
            self.split(shapes, "shapes")
        })
    }

    fn infer_types_in_jvm(
        &self,
        ins: &[Option<DType>],
        outs: &[Option<DType>],
    ) -> EngineResult<InferredArgs<Option<DType>>> {
        in_jvm(|env| {
            let codes = |types: &[Option<DType>]| types.iter().map(|d| d.map_or(-1, DType::code)).collect::<Vec<_>>();
            let (ins, outs) = (new_ints(env, &codes(ins))?, new_ints(env, &codes(outs))?);
            let inferred = call_object(env, &self.object, bridge()?.infer_types, &[(&ins).into(), (&outs).into()])?;
            let inferred = env.cast_local::<JIntArray<'_>>(inferred)?;
            let codes = ints(env, &inferred, "types")?;
            self.split(codes.into_iter().map(DType::from_code).collect(), "types")
        })
    }
}

impl UserOperator for Operator {
    fn inputs(&self) -> Vec<String> {
        self.inputs.clone()
    }

    fn outputs(&self) -> Vec<String> {
        self.outputs.clone()
    }

    fn states(&self) -> Vec<String> {
        self.states.clone()
    }

    fn infer_shape(&self, ins: &[Shape], outs: &[Shape]) -> EngineResult<InferredArgs<Shape>> {
        self.shapes.get_or_infer((semantics::is_numpy_shape(), ins.to_vec(), outs.to_vec()), || {
            self.infer_shapes_in_jvm(ins, outs)
        })
    }

    fn infer_dtype(&self, ins: &[Option<DType>], outs: &[Option<DType>]) -> EngineResult<InferredArgs<Option<DType>>> {
        self.types.get_or_infer((ins.to_vec(), outs.to_vec()), || self.infer_types_in_jvm(ins, outs))
    }

    fn reads_output_gradients(&self) -> bool {
        self.flags & flag::READS_OUTPUT_GRADIENTS != 0
    }

    fn is_reusable(&self) -> bool {
        self.flags & flag::IS_REUSABLE != 0
    }

    fn is_composed(&self) -> bool {
        self.flags & flag::IS_COMPOSED != 0
    }

    fn compose(&self, graph: &mut dyn GradGraph, node: &GradNode<'_>) -> EngineResult<Vec<Option<Entry>>> {
        let template = Template::new(&self.inputs, &self.outputs);
        let gradients = in_jvm(|env| {
            let inputs = new_longs(env, &template.inputs())?;
            let outputs = new_longs(env, &template.outputs())?;
            let gradients = new_longs(env, &template.output_gradients())?;
            let arguments = [(&inputs).into(), (&outputs).into(), (&gradients).into()];
            let gradients = call_object(env, &self.object, bridge()?.gradient, &arguments)?;
            let gradients = env.cast_local::<JLongArray<'_>>(gradients)?;
            longs(env, &gradients, "gradients")
        })?;
        let symbols = gradient_graph::take_symbols(&gradients)?;
        template.instantiate(graph, &node.inputs[..self.inputs.len().min(node.inputs.len())], node, &symbols)
    }

    fn create(&self, context: Context, shapes: &[Shape], dtypes: &[DType]) -> EngineResult<Box<dyn UserOpInstance>> {
        in_jvm(|env| {
            let context = env.new_string(context.to_string())?;
            let shapes = new_shapes(env, shapes)?;
            let types = new_ints(env, &dtypes.iter().map(|d| d.code()).collect::<Vec<_>>())?;
            let arguments = [(&context).into(), (&shapes).into(), (&types).into()];
            let instance = call_object(env, &self.object, bridge()?.create, &arguments)?;
            let instance: Box<dyn UserOpInstance> = Box::new(Instance {
                object: env.new_global_ref(&instance)?,
                forward: ArrayHandles::default(),
                backward: ArrayHandles::default(),
            });
            Ok(instance)
        })
    }
}

/// Arrays with their handles for the JVM, which borrows them. A plan passes the same arrays in every run, so the handles are reused.
#[derive(Default)]
struct ArrayHandles {
    arrays: Vec<NDArray>,
    reqs: Vec<Req>,
    handles: Vec<jlong>,
}

impl ArrayHandles {
    /// Creates handles of the arrays, those that are read first, unless they are unchanged; true if it created new ones.
    fn update(&mut self, read: &[&[NDArray]], written: &[&[NDArray]], reqs: &[Req]) -> bool {
        let arrays = || read.iter().chain(written).copied().flatten();
        let is_unchanged = self.reqs == reqs
            && self.arrays.len() == arrays().count()
            && self.arrays.iter().zip(arrays()).all(|(a, b)| a.is_same_view(b));
        if is_unchanged && !self.arrays.is_empty() {
            return false;
        }
        self.free();
        self.reqs = reqs.to_vec();
        self.arrays.extend(arrays().cloned());
        let read = read.iter().copied().flatten().map(NDArray::read_only);
        let views = read.chain(written.iter().copied().flatten().cloned());
        self.handles.extend(views.map(|view| insert_tensor(Tensor::new(view)) as jlong));
        true
    }

    fn free(&mut self) {
        self.arrays.clear();
        for handle in self.handles.drain(..) {
            // The JVM only borrows the handle, so freeing it here cannot fail.
            let _ignored = handle::free(handle as u64, "NDArray");
        }
    }
}

impl Drop for ArrayHandles {
    fn drop(&mut self) {
        self.free();
    }
}

/// A `BridgedInstance`.
struct Instance {
    object: Object,
    forward: ArrayHandles,
    backward: ArrayHandles,
}

/// Calls a method of an instance. The JVM keeps the handles from the previous call, so only new ones are passed.
fn run(
    object: &JObject<'_>,
    method: ResolvedMethod,
    arrays: &ArrayHandles,
    is_new: bool,
    is_train: bool,
) -> EngineResult<()> {
    in_jvm(|env| {
        let (handles, reqs) = match is_new {
            false => (JLongArray::null(), JIntArray::null()),
            true => {
                let codes: Vec<i32> = arrays.reqs.iter().map(|req| *req as i32).collect();
                (new_longs(env, &arrays.handles)?, new_ints(env, &codes)?)
            }
        };
        let arguments = [JValue::Bool(is_train), (&handles).into(), (&reqs).into()];
        method.call(env, object, &arguments).map(|_| ())
    })
}

/// The arrays of a list, which are dense: operators of the JVM infer no storage types.
fn dense(arrays: &[Array]) -> EngineResult<Vec<NDArray>> {
    arrays.iter().map(|array| array.dense().cloned()).collect()
}

impl UserOpInstance for Instance {
    fn forward(&mut self, call: &UserOpForward<'_>) -> EngineResult<()> {
        let method = bridge().map_err(engine_error)?.forward;
        let (ins, outs, states) = (dense(call.ins)?, dense(call.outs)?, dense(call.states)?);
        let is_new = self.forward.update(&[&ins], &[&outs, &states], call.reqs);
        run(&self.object, method, &self.forward, is_new, call.is_train)
    }

    fn backward(&mut self, call: &UserOpBackward<'_>) -> EngineResult<()> {
        let method = bridge().map_err(engine_error)?.backward;
        let (ograds, ins, outs) = (dense(call.ograds)?, dense(call.ins)?, dense(call.outs)?);
        let (igrads, states) = (dense(call.igrads)?, dense(call.states)?);
        let is_new = self.backward.update(&[&ograds, &ins, &outs], &[&igrads, &states], call.reqs);
        run(&self.object, method, &self.backward, is_new, call.is_train)
    }
}

/// Converts an error to an error of the engine.
fn engine_error(error: JniError) -> Error {
    match error {
        JniError::Engine(error) => error,
        JniError::Jni(error) => Error::value(error.to_string()),
    }
}

native! {
    fn userOpInstall(env, object: OperatorBridge<'l>) {
        let new_bridge = Bridge::new(env, &object)?;
        *BRIDGE.write() = Some(Arc::new(new_bridge));
        user_op::set_resolver(Arc::new(|op_type: &str| {
            let is_defined = in_jvm(|env| {
                let bridge = bridge()?;
                let name = env.new_string(op_type)?;
                let object = bridge.object(env)?;
                Ok(bridge.resolve.call(env, &object, &[(&name).into()])?.z()?)
            })?;
            Ok(is_defined.then(|| -> Arc<dyn UserOpFactory> { Arc::new(Factory(op_type.into())) }))
        }));
        Ok(())
    }

    fn userOpRegister(env, name: JString<'l>) -> jboolean {
        let name = string(env, &name, "the operator's name")?;
        Ok(user_op::register(&name.clone(), Arc::new(Factory(name))))
    }

    fn ndarrayShare(_env, handle: jlong) -> jlong {
        Ok(insert_tensor(tensor(handle as u64)?) as jlong)
    }

    fn ndarrayBuffer(env, handle: jlong, writable: jboolean) -> JByteBuffer<'l> {
        let array = tensor(handle as u64)?.array()?;
        let range = array.byte_range();
        ensure_buffer(range.len())?;
        let start = if writable {
            array.check_writable()?;
            array.chunk().expose()
        } else {
            array.chunk().address().cast_mut()
        };
        // SAFETY: the range is inside the chunk, which by the contract of `LibInfo.ndarrayBuffer` outlives the buffer; the caller makes a
        // buffer for reading read-only before it passes it on.
        Ok(unsafe { env.new_direct_byte_buffer(start.add(range.start), range.len()) }?)
    }
}

fn ensure_buffer(bytes: usize) -> EngineResult<()> {
    ensure!(
        (1..=i32::MAX as usize).contains(&bytes),
        "an array of {bytes} bytes has no buffer: buffers have 1 to 2147483647 bytes; use slices of the array"
    );
    Ok(())
}
