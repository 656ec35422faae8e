//! Arrays: creation, views, copies from and to Java, files.

use ferromx_runtime::context::Context;
use ferromx_runtime::dtype::{DType, Element, bf16, f16};
use ferromx_runtime::error::Error;
use ferromx_runtime::file_format;
use ferromx_runtime::imperative::{self, Tensor};
use ferromx_runtime::ndarray::NDArray;
use ferromx_runtime::sparse::{Array, SparseArray, StorageType};
use ferromx_runtime::{arrays, semantics};
use ferromx_runtime::{dispatch, memory, storage};
use jni::Env;
use jni::objects::{
    JByteArray, JDoubleArray, JFloatArray, JIntArray, JLongArray, JObjectArray, JPrimitiveArray, JString, TypeArray,
};
use jni::sys::{jboolean, jbyte, jdouble, jint, jlong};

use super::declarations::LoadedNDArrays;
use super::{JniError, Result, ints, longs, native, new_longs, new_strings, same_length, string, strings, upcalls};
use crate::handle::{self, insert_tensor, tensor};
use crate::sparse;

fn array(handle: jlong) -> Result<NDArray> {
    Ok(tensor(handle as u64)?.array()?)
}

fn stored(handle: jlong) -> Result<Array> {
    Ok(tensor(handle as u64)?.stored()?)
}

fn wrap(array: impl Into<Array>) -> jlong {
    insert_tensor(Tensor::new(array)) as jlong
}

/// A view of `length` elements from `offset`.
fn subarray(array: &NDArray, offset: jlong, length: jint) -> Result<NDArray> {
    let (n, begin, count) = (array.len(), usize::try_from(offset), usize::try_from(length));
    match (begin, count) {
        (Ok(begin), Ok(count)) if begin.checked_add(count).is_some_and(|end| end <= n) => {
            let flat = array.reshape(&[n as i64].into())?;
            Ok(flat.slice(begin, begin + count)?)
        }
        _ => {
            Err(Error::Value(format!("elements {offset} to {offset} + {length} are outside the array of {n} elements"))
                .into())
        }
    }
}

/// Elements `offset..offset + length` of a Java array.
struct JavaRange<'a, 'l, J: TypeArray> {
    array: &'a JPrimitiveArray<'l, J>,
    offset: jint,
    length: jint,
}

impl<J: TypeArray + Default + Copy> JavaRange<'_, '_, J> {
    /// Checks that the range is inside the array.
    fn check(&self, env: &Env<'_>) -> Result<()> {
        let (len, offset, length) = (self.array.len(env)?, self.offset, self.length);
        match offset >= 0 && length >= 0 && i64::from(offset) + i64::from(length) <= len as i64 {
            true => Ok(()),
            false => {
                let text = format!("elements {offset} to {offset} + {length} are outside the Java array of {len}");
                Err(Error::Value(text).into())
            }
        }
    }

    /// Copies the range to an array, starting at element `offset`.
    fn copy_to<T: Element>(
        &self,
        env: &Env<'_>,
        handle: jlong,
        offset: jlong,
        to_element: impl Fn(J) -> T + Copy,
    ) -> Result<()> {
        if self.array.is_null() {
            return Err(super::null("source"));
        }
        self.check(env)?;
        let target = subarray(&array(handle)?, offset, self.length)?;
        let mut values = memory::filled(J::default(), self.length as usize);
        self.array.get_region(env, self.offset, &mut values)?;
        let elements = memory::collected(values.into_iter().map(to_element));
        Ok(target.copy_from_slice_as(&elements)?)
    }

    /// Copies elements of an array, starting at element `offset`, to the range.
    fn copy_from<T: Element>(
        &self,
        env: &Env<'_>,
        handle: jlong,
        offset: jlong,
        from_element: impl Fn(T) -> J,
    ) -> Result<()> {
        if self.array.is_null() {
            return Err(super::null("target"));
        }
        self.check(env)?;
        let source = subarray(&array(handle)?, offset, self.length)?;
        let values: Vec<J> = memory::collected(source.to_vec_as::<T>()?.into_iter().map(from_element));
        Ok(self.array.set_region(env, self.offset, &values)?)
    }
}

native! {
    fn ndarrayCreate(
        env, shape: JLongArray<'l>, dev_type: jint, dev_id: jint, _delay: jboolean, dtype: jint) -> jlong
    {
        let shape = semantics::array_shape_from_user(&longs(env, &shape, "shape")?)?;
        Ok(wrap(arrays::create(&shape, dtype, Context::from_codes(dev_type, dev_id)?)?))
    }

    fn ndarrayCreateSparse(
        env, stype: jint, shape: JLongArray<'l>, dev_type: jint, dev_id: jint, _delay: jboolean, dtype: jint,
        aux_types: JIntArray<'l>, _aux_ndims: JIntArray<'l>, _aux_shapes: JLongArray<'l>) -> jlong
    {
        for code in ints(env, &aux_types, "auxTypes")? {
            sparse::check_index_type(arrays::dtype_of_code(code)?)?;
        }
        let shape = semantics::array_shape_from_user(&longs(env, &shape, "shape")?)?;
        let (dtype, context) = (arrays::dtype_of_code(dtype)?, Context::from_codes(dev_type, dev_id)?);
        Ok(wrap(SparseArray::zeros(StorageType::from_code(stype)?, &shape, dtype, context)?))
    }

    fn ndarrayFree(_env, handle: jlong) {
        Ok(handle::free(handle as u64, "NDArray")?)
    }

    fn ndarrayShape(env, handle: jlong) -> JLongArray<'l> {
        let a = stored(handle)?;
        new_longs(env, a.shape().dims())
    }

    fn ndarraySize(_env, handle: jlong) -> jlong {
        Ok(stored(handle)?.shape().checked_elements()? as jlong)
    }

    fn ndarrayDType(_env, handle: jlong) -> jint {
        Ok(stored(handle)?.dtype().code())
    }

    fn ndarrayStorageType(_env, handle: jlong) -> jint {
        Ok(stored(handle)?.storage_type() as jint)
    }

    fn ndarrayContext(_env, handle: jlong) -> jlong {
        let context = stored(handle)?.context();
        Ok(((context.device_type as jlong) << 32) | jlong::from(context.device_id))
    }

    fn ndarraySlice(_env, handle: jlong, begin: jlong, end: jlong) -> jlong {
        Ok(insert_tensor(imperative::slice(&tensor(handle as u64)?, begin, end)?) as jlong)
    }

    fn ndarrayAt(_env, handle: jlong, index: jlong) -> jlong {
        Ok(insert_tensor(imperative::at(&tensor(handle as u64)?, index)?) as jlong)
    }

    fn ndarrayReshape(
        env, handle: jlong, dims: JLongArray<'l>, reverse: jboolean) -> jlong
    {
        let (source, dims) = (tensor(handle as u64)?, longs(env, &dims, "dims")?);
        let view = imperative::reshape(&source, &dims, reverse)?;
        let (from, to) = (source.array()?, view.array()?);
        if from.len() != to.len() {
            let text = format!("cannot reshape {} into {}: both must have the same size", from.shape(), to.shape());
            Err(Error::Value(text))?;
        }
        Ok(insert_tensor(view) as jlong)
    }

    fn ndarrayWaitToRead(_env, handle: jlong) {
        stored(handle).map(|_| ())
    }

    fn ndarrayWaitAll(_env) {
        Ok(())
    }

    fn ndarrayCopyFromNDArray(_env, target: jlong, source: jlong, locator: jint) {
        Ok(sparse::copy_component(&tensor(target as u64)?, &tensor(source as u64)?, locator)?)
    }

    fn ndarrayGetData(_env, handle: jlong) -> jlong {
        Ok(wrap(sparse::values(&tensor(handle as u64)?)?))
    }

    fn ndarrayGetAux(_env, handle: jlong, index: jint) -> jlong {
        Ok(wrap(sparse::index_array(&tensor(handle as u64)?, index.into())?))
    }

    fn ndarraySetFloats(
        env, handle: jlong, offset: jlong, source: JFloatArray<'l>, source_offset: jint, length: jint)
    {
        let target = subarray(&array(handle)?, offset, length)?;
        let range = JavaRange { array: &source, offset: source_offset, length };
        if target.dtype() != DType::F32 || source.is_null() {
            return range.copy_to(env, handle, offset, |x: f32| x);
        }
        range.check(env)?;
        storage::write_slice(&target, |to| source.get_region(env, source_offset, to))?.map_err(JniError::Jni)
    }

    fn ndarraySetDoubles(
        env, handle: jlong, offset: jlong, source: JDoubleArray<'l>, source_offset: jint, length: jint)
    {
        JavaRange { array: &source, offset: source_offset, length }.copy_to(env, handle, offset, |x: f64| x)
    }

    fn ndarraySetInts(
        env, handle: jlong, offset: jlong, source: JIntArray<'l>, source_offset: jint, length: jint)
    {
        JavaRange { array: &source, offset: source_offset, length }.copy_to(env, handle, offset, |x: i32| x)
    }

    fn ndarraySetLongs(
        env, handle: jlong, offset: jlong, source: JLongArray<'l>, source_offset: jint, length: jint)
    {
        JavaRange { array: &source, offset: source_offset, length }.copy_to(env, handle, offset, |x: i64| x)
    }

    fn ndarraySetBytes(
        env, handle: jlong, offset: jlong, source: JByteArray<'l>, source_offset: jint, length: jint)
    {
        JavaRange { array: &source, offset: source_offset, length }.copy_to(env, handle, offset, |x: jbyte| x)
    }

    fn ndarrayGetFloats(
        env, handle: jlong, offset: jlong, target: JFloatArray<'l>, target_offset: jint, length: jint)
    {
        let source = subarray(&array(handle)?, offset, length)?;
        let range = JavaRange { array: &target, offset: target_offset, length };
        if source.dtype() != DType::F32 || target.is_null() {
            return range.copy_from(env, handle, offset, |x: f32| x);
        }
        range.check(env)?;
        storage::read_slice(&source, |from| target.set_region(env, target_offset, from))?.map_err(JniError::Jni)
    }

    fn ndarrayGetDoubles(
        env, handle: jlong, offset: jlong, target: JDoubleArray<'l>, target_offset: jint, length: jint)
    {
        JavaRange { array: &target, offset: target_offset, length }.copy_from(env, handle, offset, |x: f64| x)
    }

    fn ndarrayGetInts(
        env, handle: jlong, offset: jlong, target: JIntArray<'l>, target_offset: jint, length: jint)
    {
        JavaRange { array: &target, offset: target_offset, length }.copy_from(env, handle, offset, |x: i32| x)
    }

    fn ndarrayGetLongs(
        env, handle: jlong, offset: jlong, target: JLongArray<'l>, target_offset: jint, length: jint)
    {
        JavaRange { array: &target, offset: target_offset, length }.copy_from(env, handle, offset, |x: i64| x)
    }

    fn ndarrayGetBytes(
        env, handle: jlong, offset: jlong, target: JByteArray<'l>, target_offset: jint, length: jint)
    {
        let range = JavaRange { array: &target, offset: target_offset, length };
        match array(handle)?.dtype() {
            DType::U8 => range.copy_from(env, handle, offset, |x: u8| x as jbyte),
            _ => range.copy_from(env, handle, offset, |x: i8| x),
        }
    }

    fn ndarrayGetRaw(env, handle: jlong) -> JByteArray<'l> {
        let a = array(handle)?;
        Ok(storage::read_bytes(&a, |b| env.byte_array_from_slice(b))?)
    }

    fn ndarrayScalar(_env, handle: jlong) -> jdouble {
        let a = array(handle)?;
        if a.len() != 1 {
            return Err(Error::Value(format!("the array of shape {} has {} elements; a scalar has one", a.shape(), a.len())).into());
        }
        dispatch!(a.dtype(), T in [f32, f64, f16, u8, i32, i8, i64, bool, bf16] => {
            Ok(storage::read_slice::<T, _>(&a, |s| s[0].to_f64())?)
        }, other => Err(Error::Internal(format!("no elements of type {other}")).into()))
    }

    fn ndarraySave(
        env, file: JString<'l>, handles: JLongArray<'l>, names: JObjectArray<'l, JString<'l>>)
    {
        let path = string(env, &file, "fileName")?;
        let arrays = longs(env, &handles, "handles")?.into_iter().map(stored).collect::<Result<Vec<_>>>()?;
        let names = if names.is_null() { Vec::new() } else { strings(env, &names, "names")? };
        if !names.is_empty() {
            same_length(names.len(), arrays.len(), "names", "arrays")?;
        }
        Ok(file_format::save(&path, &arrays, &names)?)
    }

    fn ndarrayLoad(env, file: JString<'l>, is_mapped: jboolean) -> LoadedNDArrays<'l> {
        let file = string(env, &file, "fileName")?;
        let loaded = if is_mapped { file_format::load_mapped(&file) } else { file_format::load(&file) }?;
        let tensors = loaded.arrays.into_iter().map(|a| a.map_or_else(Tensor::default, Tensor::new));
        let handles: Vec<jlong> = tensors.map(|t| insert_tensor(t) as jlong).collect();
        let (handles, names) = (new_longs(env, &handles)?, new_strings(env, &loaded.names)?);
        Ok(LoadedNDArrays(upcalls::LOADED_ARRAYS.construct(env, &[(&handles).into(), (&names).into()])?))
    }

    fn ndarraySaveRawBytes(env, handle: jlong) -> JByteArray<'l> {
        Ok(env.byte_array_from_slice(&file_format::array_to_bytes(&stored(handle)?)?)?)
    }

    fn ndarrayLoadFromRawBytes(env, bytes: JByteArray<'l>) -> jlong {
        if bytes.is_null() {
            return Err(super::null("bytes"));
        }
        Ok(wrap(file_format::array_from_bytes(&env.convert_byte_array(&bytes)?)?))
    }
}
