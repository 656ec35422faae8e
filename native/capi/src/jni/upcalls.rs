//! Upcalls: the methods and constructors of the library's classes that native code calls.
//!
//! The JVM looks them up by name and descriptor at run time. `LibInfoSuite` compares this table with the compiled classes; native code
//! calls no other methods.

use ferromx_runtime::error::Error;
use jni::ids::JMethodID;
use jni::objects::{JClass, JObject, JObjectArray, JString};
use jni::refs::IntoAuto;
use jni::signature::{JavaType, MethodSignature};
use jni::strings::JNIStr;
use jni::{Env, JValue, JValueOwned, jni_sig, jni_str};

use super::{JniError, Result, native, new_strings};

/// A method or a constructor of a class of the library.
pub(super) struct Method {
    class: &'static JNIStr,
    name: &'static JNIStr,
    signature: MethodSignature<'static, 'static>,
}

/// Defines methods by class, name (`<init>` for a constructor) and descriptor, and lists them in `ALL`.
macro_rules! methods {
    ($($class:literal { $($id:ident = $name:literal $descriptor:literal;)* })*) => {
        $($(pub(super) static $id: Method =
            Method { class: jni_str!($class), name: jni_str!($name), signature: jni_sig!($descriptor) };)*)*
        static ALL: &[&Method] = &[$($(&$id),*),*];
    };
}

methods! {
    "org/apache/mxnet/MXNetError" {
        ERROR = "<init>" "(Ljava/lang/String;)V";
        ERROR_WITH_CAUSE = "<init>" "(Ljava/lang/String;Ljava/lang/Throwable;)V";
    }
    "org/apache/mxnet/MXMonitorCallback" {
        MONITOR = "invoke" "(Ljava/lang/String;J)V";
    }
    "org/apache/mxnet/internal/jni/KVStoreCallback" {
        UPDATER = "update" "(Ljava/lang/String;JJ)V";
    }
    "org/apache/mxnet/internal/jni/LoadedNDArrays" {
        LOADED_ARRAYS = "<init>" "([J[Ljava/lang/String;)V";
    }
    "org/apache/mxnet/internal/jni/ImportedParts" {
        IMPORTED_PARTS = "<init>" "(J[Ljava/lang/String;[J[Ljava/lang/String;[Ljava/lang/String;)V";
    }
    "org/apache/mxnet/internal/jni/InferredShapes" {
        INFERRED_SHAPES = "<init>" "(Z[[J[[J[[J)V";
    }
    "org/apache/mxnet/internal/jni/InferredTypes" {
        INFERRED_TYPES = "<init>" "(Z[I[I[I)V";
    }
    "org/apache/mxnet/internal/interop/HookBridge" {
        APPLIES_TO = "appliesTo" "(Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;)Z";
        PREPARE = "prepare"
            "(Lorg/apache/mxnet/internal/interop/RawNode;)Lorg/apache/mxnet/internal/interop/RawNode;";
        BEFORE = "before"
            "(Lorg/apache/mxnet/internal/interop/RawNode;)Lorg/apache/mxnet/internal/interop/RawOutputs;";
        AFTER = "after"
            "(Lorg/apache/mxnet/internal/interop/RawNode;)Lorg/apache/mxnet/internal/interop/RawOutputs;";
    }
    "org/apache/mxnet/internal/interop/RawConstants" {
        CONSTANT_NAMES = "constantNames" "()[Ljava/lang/String;";
        CONSTANT_HANDLES = "constantHandles" "()[J";
    }
    "org/apache/mxnet/internal/interop/RawOutputs" {
        OUTPUT_SYMBOLS = "symbols" "()[J";
    }
    "org/apache/mxnet/internal/interop/RawNode" {
        NODE = "<init>"
            "([Ljava/lang/String;J[Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/String;Ljava/lang/String;[Ljava/lang/Object;\
             [J[J[[J[I)V";
        NODE_TEXTS = "texts" "()[Ljava/lang/String;";
        NODE_VERSION = "version" "()J";
        NODE_INPUT_NAMES = "inputNames" "()[Ljava/lang/String;";
        NODE_KEYS = "keys" "()[Ljava/lang/String;";
        NODE_KINDS = "kinds" "()Ljava/lang/String;";
        NODE_VALUES = "values" "()[Ljava/lang/Object;";
    }
    "org/apache/mxnet/internal/userop/OperatorBridge" {
        BRIDGE_MAKE = "make"
            "(Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/String;)Lorg/apache/mxnet/internal/userop/BridgedOperator;";
        BRIDGE_RESOLVE = "resolve" "(Ljava/lang/String;)Z";
        BRIDGE_DESCRIBE = "describe" "(Ljava/lang/Throwable;)Ljava/lang/String;";
    }
    "org/apache/mxnet/internal/userop/BridgedOperator" {
        OPERATOR_NAMES = "names" "(I)[Ljava/lang/String;";
        OPERATOR_FLAGS = "flags" "()I";
        OPERATOR_INFER_SHAPES = "inferShapes" "([[J[[J)[[J";
        OPERATOR_INFER_TYPES = "inferTypes" "([I[I)[I";
        OPERATOR_GRADIENT = "gradient" "([J[J[J)[J";
        OPERATOR_CREATE = "create" "(Ljava/lang/String;[[J[I)Lorg/apache/mxnet/internal/userop/BridgedInstance;";
    }
    "org/apache/mxnet/internal/userop/BridgedInstance" {
        INSTANCE_FORWARD = "forward" "(Z[J[I)V";
        INSTANCE_BACKWARD = "backward" "(Z[J[I)V";
    }
}

impl Method {
    /// The class. `FindClass` uses the class loader of the running native method, which is the library's. The `jni` crate looks a class
    /// name up with the thread's context class loader first, which may belong to another application in the process.
    pub(super) fn class<'l>(&self, env: &mut Env<'l>) -> Result<JClass<'l>> {
        Ok(env.find_class(self.class)?)
    }

    /// Calls a method of an object.
    pub(super) fn call<'l>(
        &self,
        env: &mut Env<'l>,
        object: &JObject<'_>,
        arguments: &[JValue<'_>],
    ) -> Result<JValueOwned<'l>> {
        Ok(env.call_method(object, self.name, &self.signature, arguments)?)
    }

    /// Calls a constructor.
    pub(super) fn construct<'l>(&self, env: &mut Env<'l>, arguments: &[JValue<'_>]) -> Result<JObject<'l>> {
        let class = self.class(env)?.auto();
        Ok(env.new_object(&class, &self.signature, arguments)?)
    }

    /// Looks the method up once for many calls.
    pub(super) fn resolve(&'static self, env: &mut Env<'_>) -> Result<ResolvedMethod> {
        let class = self.class(env)?.auto();
        Ok(ResolvedMethod { id: env.get_method_id(&class, self.name, &self.signature)?, method: self })
    }
}

/// A method with its id.
#[derive(Clone, Copy)]
pub(super) struct ResolvedMethod {
    id: JMethodID,
    method: &'static Method,
}

impl ResolvedMethod {
    /// Calls the method of `object`, an instance of its class.
    pub(super) fn call<'l>(
        self,
        env: &mut Env<'l>,
        object: &JObject<'_>,
        arguments: &[JValue<'_>],
    ) -> Result<JValueOwned<'l>> {
        let signature = &self.method.signature;
        let is_of_type = |(argument, ty): (&JValue<'_>, &JavaType)| match ty {
            JavaType::Primitive(primitive) => argument.primitive_type() == Some(*primitive),
            JavaType::Object | JavaType::Array => argument.primitive_type().is_none(),
        };
        let types = signature.args();
        if object.is_null() || arguments.len() != types.len() || !arguments.iter().zip(types).all(is_of_type) {
            let text = format!("{}.{} is called with other arguments", self.method.class, self.method.name);
            return Err(JniError::Engine(Error::Internal(text)));
        }
        let arguments: smallvec::SmallVec<[_; 4]> = arguments.iter().map(JValue::as_jni).collect();
        // SAFETY: `id` is the method's id for this signature, whose number and primitive types of arguments are checked above. Callers pass
        // an instance of the method's class, and object arguments of the classes in the descriptor, which `LibInfoSuite` checks.
        Ok(unsafe { env.call_method_unchecked(object, self.id, signature.ret(), &arguments) }?)
    }
}

native! {
    fn upcalls(env) -> JObjectArray<'l, JString<'l>> {
        let texts: Vec<_> = ALL.iter().flat_map(|m| [m.class, m.name, m.signature.sig()]).map(JNIStr::to_str).collect();
        new_strings(env, &texts)
    }
}
