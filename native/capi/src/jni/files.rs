//! RecordIO files.

use std::sync::Arc;

use ferromx_runtime::io::recordio::{Reader, Writer};
use jni::objects::{JByteArray, JString};
use jni::sys::jlong;
use parking_lot::Mutex;

use super::{native, null, string};
use crate::handle::{self, Object, insert, record_reader, record_writer};

native! {
    fn recordWriterCreate(env, path: JString<'l>) -> jlong {
        let writer = Writer::create(&string(env, &path, "the file name")?)?;
        Ok(insert(Object::RecordWriter(Arc::new(Mutex::new(writer)))) as jlong)
    }

    fn recordWriterWrite(env, handle: jlong, record: JByteArray<'l>) {
        if record.is_null() {
            return Err(null("the record"));
        }
        let bytes = env.convert_byte_array(&record)?;
        Ok(record_writer(handle as u64)?.lock().write(&bytes)?)
    }

    fn recordWriterTell(_env, handle: jlong) -> jlong {
        Ok(record_writer(handle as u64)?.lock().tell() as jlong)
    }

    fn recordWriterFree(_env, handle: jlong) {
        let flushed = record_writer(handle as u64)?.lock().flush();
        handle::free(handle as u64, "RecordIO writer")?;
        Ok(flushed?)
    }

    fn recordReaderCreate(env, path: JString<'l>) -> jlong {
        let reader = Reader::open(&string(env, &path, "the file name")?)?;
        Ok(insert(Object::RecordReader(Arc::new(Mutex::new(reader)))) as jlong)
    }

    fn recordReaderRead(env, handle: jlong) -> JByteArray<'l> {
        match record_reader(handle as u64)?.lock().read()? {
            Some(record) => Ok(env.byte_array_from_slice(&record)?),
            None => Ok(JByteArray::default()),
        }
    }

    fn recordReaderSeek(_env, handle: jlong, position: jlong) {
        Ok(record_reader(handle as u64)?.lock().seek(position as u64)?)
    }

    fn recordReaderTell(_env, handle: jlong) -> jlong {
        Ok(record_reader(handle as u64)?.lock().tell() as jlong)
    }

    fn recordReaderFree(_env, handle: jlong) {
        Ok(handle::free(handle as u64, "RecordIO reader")?)
    }
}
