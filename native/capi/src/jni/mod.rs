//! The JNI interface: the native methods of `org.apache.mxnet.internal.jni.LibInfo`, whose ScalaDoc is the contract.
//!
//! Each method is defined in `native!` in a few lines. Errors and panics become an `org.apache.mxnet.MXNetError`, unless an exception
//! that a callback threw is pending, which stays pending.
//!
//! - `declarations`: the compile-time comparison with `LibInfo`; `upcalls`: the Scala and Java methods that native code calls.
//! - `ndarray`, `files`, `data`: arrays, RecordIO files, data iterators.
//! - `imperative`, `symbol`, `executor`: operators, symbols, bound graphs.
//! - `user_op`, `gradient_graph`: user operators, and gradients that they compose of symbols.
//! - `models`, `import_hooks`: import and export of models, and their hooks.
//! - `kvstore`, `library`, `profile`: key-value stores and jobs, global functions, the profiler.
#![allow(unsafe_code, non_snake_case)]
#![allow(unreachable_pub)] // Methods are exported by name.

mod data;
mod declarations;
mod executor;
mod files;
mod gradient_graph;
mod imperative;
mod import_hooks;
mod kvstore;
mod library;
mod models;
mod ndarray;
mod profile;
mod symbol;
mod upcalls;
mod user_op;

use std::any::Any;

use ferromx_runtime::error::{Error, Result as EngineResult};
use ferromx_runtime::params::Attrs;
use jni::errors::ErrorPolicy;
use jni::objects::{JIntArray, JLongArray, JObjectArray, JString, JThrowable};
use jni::strings::JNIString;
use jni::sys::jlong;
use jni::vm::{AttachConfig, AttachmentExceptionPolicy};
use jni::{DEFAULT_LOCAL_FRAME_CAPACITY, Env, JavaVM};

/// The error of a native method.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JniError {
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] Error),
    /// A JNI call failed, or an exception is pending.
    #[error(transparent)]
    Jni(#[from] jni::errors::Error),
}

type Result<T, E = JniError> = std::result::Result<T, E>;

/// Throws an `MXNetError`.
pub(crate) struct ThrowMxNetError;

fn throw_new(env: &mut Env<'_>, message: &str) -> Result<()> {
    let class = upcalls::ERROR.class(env)?;
    Ok(env.throw_new(&class, JNIString::new(message))?)
}

fn throw(env: &mut Env<'_>, message: &str) {
    if !env.exception_check() {
        // `throw_new` returns the error `JavaException` even if it succeeds.
        let _ = throw_new(env, message);
    }
}

/// Throws an `MXNetError` with the exception of user code as the cause.
fn throw_with_cause(env: &mut Env<'_>, message: &str, cause: &user_op::Thrown) -> Result<()> {
    let text = env.new_string(message)?;
    let error = upcalls::ERROR_WITH_CAUSE.construct(env, &[(&text).into(), (&**cause).into()])?;
    let error = env.cast_local::<JThrowable<'_>>(error)?;
    Ok(env.throw(error)?)
}

impl<T: Default> ErrorPolicy<T, JniError> for ThrowMxNetError {
    type Captures<'unowned_env_local: 'native_method, 'native_method> = ();

    fn on_error<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        _: &mut (),
        error: JniError,
    ) -> jni::errors::Result<T> {
        let thrown = match &error {
            JniError::Engine(error) => error.cause().and_then(|cause| cause.get::<user_op::Thrown>()),
            JniError::Jni(_) => None,
        };
        if let Some(cause) = thrown.filter(|_| !env.exception_check()) {
            // Returns an error even if it succeeds. If the exception could not be created, one without a cause is thrown below.
            let _ = throw_with_cause(env, &error.to_string(), cause);
        }
        throw(env, &error.to_string());
        Ok(T::default())
    }

    fn on_panic<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        _: &mut (),
        payload: Box<dyn Any + Send + 'static>,
    ) -> jni::errors::Result<T> {
        throw(env, &crate::panics::panic_message(payload.as_ref()));
        Ok(T::default())
    }
}

/// Defines native methods of `LibInfo`, by their names there. A type that differs from the declaration does not compile.
macro_rules! native {
    ($($(#[$meta:meta])* fn $name:ident($env:ident $(, $arg:ident: $ty:ty)*) $(-> $ret:ty)? $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(export_name = concat!("Java_org_apache_mxnet_internal_jni_LibInfo_", stringify!($name)))]
        pub extern "system" fn $name<'l>(
            mut unowned: jni::EnvUnowned<'l>,
            _this: jni::objects::JObject<'l>,
            $($arg: $ty),*
        ) $(-> $ret)? {
            $crate::panics::remember_backtraces();
            unowned
                .with_env(|$env| -> $crate::jni::Result<_> { $body })
                .resolve::<$crate::jni::ThrowMxNetError>()
        }

        const _: () = {
            #[allow(clippy::extra_unused_lifetimes)] // Only some types name it.
            const fn check<'l>() {
                $crate::jni::declarations::check(
                    stringify!($name),
                    &[$($crate::jni::declarations::name_of::<$ty>()),*],
                    [$($crate::jni::declarations::name_of::<$ret>(),)? "Unit"][0],
                    concat!(
                        "`", stringify!($name), "` in Rust and in LibInfo.scala differ: compare the parameters, their types and the result"
                    ),
                );
            }
            check();
        };
    )*};
}
use native;

/// Calls Java on the current thread in a new frame of local references. Does nothing while an exception is pending; a new one stays pending
/// until the native method returns.
fn call_back(call: impl FnOnce(&mut Env<'_>) -> Result<()>) -> Result<()> {
    let leave_pending = AttachConfig::new().exceptions_policy(AttachmentExceptionPolicy::Ignore);
    JavaVM::singleton()?.attach_current_thread_with_config(
        || leave_pending,
        Some(DEFAULT_LOCAL_FRAME_CAPACITY),
        |env| if env.exception_check() { Ok(()) } else { call(env) },
    )
}

fn null(what: &str) -> JniError {
    JniError::Engine(Error::Value(format!("{what} is null: a value was expected")))
}

/// A Java string.
fn string(env: &Env<'_>, s: &JString<'_>, what: &str) -> Result<String> {
    if s.is_null() { Err(null(what)) } else { Ok(s.try_to_string(env)?) }
}

/// The numbers of a `long[]`.
fn longs(env: &Env<'_>, a: &JLongArray<'_>, what: &str) -> Result<Vec<jlong>> {
    if a.is_null() {
        return Err(null(what));
    }
    let mut out = vec![0; a.len(env)?];
    a.get_region(env, 0, &mut out)?;
    Ok(out)
}

/// The numbers of an `int[]`.
fn ints(env: &Env<'_>, a: &JIntArray<'_>, what: &str) -> Result<Vec<i32>> {
    if a.is_null() {
        return Err(null(what));
    }
    let mut out = vec![0; a.len(env)?];
    a.get_region(env, 0, &mut out)?;
    Ok(out)
}

/// The strings of a `String[]`.
fn strings<'l>(env: &mut Env<'l>, a: &JObjectArray<'l, JString<'l>>, what: &str) -> Result<Vec<String>> {
    if a.is_null() {
        return Err(null(what));
    }
    (0..a.len(env)?)
        .map(|i| {
            let item = a.get_element(env, i)?;
            let text = string(env, &item, what)?;
            env.delete_local_ref(item);
            Ok(text)
        })
        .collect()
}

/// The pairs of parallel arrays of keys and values. Both may be null.
fn pairs<'l>(
    env: &mut Env<'l>,
    keys: &JObjectArray<'l, JString<'l>>,
    values: &JObjectArray<'l, JString<'l>>,
) -> Result<Vec<(String, String)>> {
    if keys.is_null() && values.is_null() {
        return Ok(Vec::new());
    }
    let (keys, values) = (strings(env, keys, "keys")?, strings(env, values, "values")?);
    same_length(keys.len(), values.len(), "keys", "values")?;
    Ok(keys.into_iter().zip(values).collect())
}

/// [`pairs`] as attributes.
fn attrs<'l>(
    env: &mut Env<'l>,
    keys: &JObjectArray<'l, JString<'l>>,
    values: &JObjectArray<'l, JString<'l>>,
) -> Result<Attrs> {
    Ok(pairs(env, keys, values)?.into_iter().collect())
}

fn same_length(a: usize, b: usize, what_a: &str, what_b: &str) -> Result<()> {
    match a == b {
        true => Ok(()),
        false => Err(JniError::Engine(Error::Value(format!("{a} {what_a} were given for {b} {what_b}")))),
    }
}

/// A new `long[]`.
fn new_longs<'l>(env: &mut Env<'l>, items: &[jlong]) -> Result<JLongArray<'l>> {
    let a = JLongArray::new(env, items.len())?;
    a.set_region(env, 0, items)?;
    Ok(a)
}

/// A new `int[]`.
fn new_ints<'l>(env: &mut Env<'l>, items: &[i32]) -> Result<JIntArray<'l>> {
    let a = JIntArray::new(env, items.len())?;
    a.set_region(env, 0, items)?;
    Ok(a)
}

/// A new `String[]`.
fn new_strings<'l, S: AsRef<str>>(env: &mut Env<'l>, items: &[S]) -> Result<JObjectArray<'l, JString<'l>>> {
    let a = JObjectArray::<JString<'_>>::new(env, items.len(), JString::null())?;
    for (i, item) in items.iter().enumerate() {
        let text = env.new_string(item.as_ref())?;
        a.set_element(env, i, &text)?;
        env.delete_local_ref(text);
    }
    Ok(a)
}
