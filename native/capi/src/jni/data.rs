//! Data iterators.

use std::sync::Arc;

use ferromx_runtime::imperative::Tensor;
use ferromx_runtime::io;
use jni::objects::{JLongArray, JObjectArray, JString};
use jni::sys::{jboolean, jint, jlong};
use parking_lot::Mutex;

use super::{attrs, native, new_longs, new_strings, string};
use crate::handle::{self, Object, data_iter, insert, insert_tensor};

native! {
    fn dataIterList(env) -> JObjectArray<'l, JString<'l>> {
        let names: Vec<_> = io::ITERATORS.iter().map(|d| d.name).collect();
        new_strings(env, &names)
    }

    fn dataIterInfo(env, name: JString<'l>) -> JObjectArray<'l, JString<'l>> {
        let def = io::find(&string(env, &name, "the iterator's name")?)?;
        let mut flat = vec![def.name.to_string(), def.doc.to_string()];
        for field in def.fields() {
            flat.extend([field.name.to_string(), field.type_string, field.doc.to_string()]);
        }
        new_strings(env, &flat)
    }

    fn dataIterCreate(
        env, name: JString<'l>, keys: JObjectArray<'l, JString<'l>>, values: JObjectArray<'l, JString<'l>>) -> jlong
    {
        let def = io::find(&string(env, &name, "the iterator's name")?)?;
        let iter = def.create(&attrs(env, &keys, &values)?)?;
        Ok(insert(Object::DataIter(Arc::new(Mutex::new(iter)))) as jlong)
    }

    fn dataIterFree(_env, handle: jlong) {
        Ok(handle::free(handle as u64, "DataIter")?)
    }

    fn dataIterBeforeFirst(_env, handle: jlong) {
        Ok(data_iter(handle as u64)?.lock().before_first()?)
    }

    fn dataIterNext(_env, handle: jlong) -> jboolean {
        Ok(data_iter(handle as u64)?.lock().next()?)
    }

    fn dataIterData(_env, handle: jlong) -> jlong {
        let data = data_iter(handle as u64)?.lock().batch()?.data.clone();
        Ok(insert_tensor(Tensor::new(data)) as jlong)
    }

    fn dataIterLabel(_env, handle: jlong) -> jlong {
        let label = data_iter(handle as u64)?.lock().batch()?.label.clone();
        Ok(insert_tensor(Tensor::new(label)) as jlong)
    }

    fn dataIterIndex(env, handle: jlong) -> JLongArray<'l> {
        let index: Vec<jlong> = data_iter(handle as u64)?.lock().batch()?.index.iter().map(|i| *i as jlong).collect();
        new_longs(env, &index)
    }

    fn dataIterEpoch(env, handle: jlong) -> JLongArray<'l> {
        let epoch = data_iter(handle as u64)?.lock().epoch();
        new_longs(env, &[epoch.number as jlong, epoch.first as jlong])
    }

    fn dataIterRestart(_env, handle: jlong, number: jlong, first: jlong) {
        Ok(data_iter(handle as u64)?.lock().restart(io::Epoch { number: number as u64, first: first as u64 })?)
    }

    fn dataIterPad(_env, handle: jlong) -> jint {
        Ok(data_iter(handle as u64)?.lock().batch()?.pad as jint)
    }
}
