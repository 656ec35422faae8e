//! Compares the native methods with their declarations in `LibInfo.scala` at compile time. The JVM links native methods by name and does
//! not check their types.

use std::ops::Deref;

use jni::objects::{
    JBooleanArray, JByteArray, JByteBuffer, JDoubleArray, JFloatArray, JIntArray, JLongArray, JObject, JObjectArray,
    JString,
};
use jni::sys::{jboolean, jdouble, jint, jlong};

// Defines `DECLARED`, the methods, and `ABI_VERSION`.
include!(concat!(env!("OUT_DIR"), "/declarations.rs"));

/// A type in the signatures of native methods.
pub(super) trait ScalaType {
    /// Its name in Scala, without the package.
    const NAME: &'static str;
}

macro_rules! scala_types {
    ($($ty:ty => $name:literal),* $(,)?) => {$(impl ScalaType for $ty { const NAME: &'static str = $name; })*};
}

scala_types! {
    () => "Unit",
    jboolean => "Boolean",
    jint => "Int",
    jlong => "Long",
    jdouble => "Double",
    JString<'_> => "String",
    JByteBuffer<'_> => "ByteBuffer",
    JBooleanArray<'_> => "Array[Boolean]",
    JByteArray<'_> => "Array[Byte]",
    JIntArray<'_> => "Array[Int]",
    JLongArray<'_> => "Array[Long]",
    JFloatArray<'_> => "Array[Float]",
    JDoubleArray<'_> => "Array[Double]",
    JObjectArray<'_, JString<'_>> => "Array[String]",
    JObjectArray<'_, JLongArray<'_>> => "Array[Array[Long]]",
}

macro_rules! library_classes {
    ($($(#[$doc:meta])* $class:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Default)]
        #[repr(transparent)]
        pub(super) struct $class<'l>(pub(super) JObject<'l>);

        impl ScalaType for $class<'_> {
            const NAME: &'static str = stringify!($class);
        }

        impl<'l> Deref for $class<'l> {
            type Target = JObject<'l>;

            fn deref(&self) -> &JObject<'l> {
                &self.0
            }
        }
    )*};
}

// Classes of the library. JNI passes all of them as objects; a type of its own for each lets the compiler distinguish them.
library_classes! {
    /// The hooks of an import or export.
    HookBridge,
    /// A graph and its parameters.
    ImportedParts,
    /// Shapes of arguments, outputs and auxiliary states.
    InferredShapes,
    /// Types of arguments, outputs and auxiliary states.
    InferredTypes,
    /// The updater of a key-value store.
    KVStoreCallback,
    /// Arrays of a file and their names.
    LoadedNDArrays,
    /// The function that receives monitored arrays.
    MXMonitorCallback,
    /// The resolver of user operators.
    OperatorBridge,
}

/// The name of a type in Scala.
pub(super) const fn name_of<T: ScalaType>() -> &'static str {
    T::NAME
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// Fails to compile, with `message`, unless `LibInfo.scala` declares the method with these types.
pub(super) const fn check(method: &str, parameters: &[&str], result: &str, message: &str) {
    let mut i = 0;
    while i < DECLARED.len() && !is_same(DECLARED[i].0, method) {
        i += 1;
    }
    assert!(i < DECLARED.len(), "{}", message);
    let (_, declared, declared_result) = DECLARED[i];
    assert!(declared.len() == parameters.len(), "{}", message);
    let mut k = 0;
    while k < parameters.len() {
        assert!(is_same(declared[k], parameters[k]), "{}", message);
        k += 1;
    }
    assert!(is_same(declared_result, result), "{}", message);
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::{InferredShapes, InferredTypes, KVStoreCallback, MXMonitorCallback, check, name_of};

    const SHAPES: &[&str] = &["Long", "Array[String]", "Array[Int]", "Array[Long]"];

    #[test]
    fn methods_that_differ_from_their_declaration_do_not_compile() {
        let (shapes, callback) = (name_of::<InferredShapes<'_>>(), name_of::<KVStoreCallback<'_>>());
        check("symbolInferShape", SHAPES, shapes, "");
        check("kvstoreSetUpdater", &["Long", callback], "Unit", "");
        let mismatches: [(&str, &[&str], &str); 7] = [
            ("symbolInferShapes", SHAPES, shapes),
            ("symbolInferShape", &SHAPES[..3], shapes),
            ("symbolInferShape", &["Long", "Array[String]", "Array[Long]", "Array[Int]"], shapes),
            ("symbolInferShape", &["Int", "Array[String]", "Array[Int]", "Array[Long]"], shapes),
            ("symbolInferShape", SHAPES, "Long"),
            ("symbolInferShape", SHAPES, name_of::<InferredTypes<'_>>()),
            ("kvstoreSetUpdater", &["Long", name_of::<MXMonitorCallback<'_>>()], "Unit"),
        ];
        for (name, parameters, result) in mismatches {
            let error = catch_unwind(|| check(name, parameters, result, "differs")).expect_err(name);
            assert_eq!(
                error.downcast_ref::<String>().map(String::as_str),
                Some("differs"),
                "{name} {parameters:?} {result}"
            );
        }
    }
}
