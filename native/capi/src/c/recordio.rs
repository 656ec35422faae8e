//! RecordIO files.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::io::recordio::{Reader, Writer};
use parking_lot::Mutex;

use super::args::{id, put, slice, text};
use super::guard;
use super::ret::{Ret, put_handle};
use super::types::RecordIOHandle;
use crate::handle::{self, Object, insert, record_reader, record_writer};

fn to_size(offset: u64) -> Result<usize> {
    usize::try_from(offset).map_err(|_| Error::Value(format!("the byte offset {offset} does not fit into size_t")))
}

/// Creates a RecordIO file, or truncates an existing one.
#[unsafe(no_mangle)]
pub extern "C" fn MXRecordIOWriterCreate(uri: *const c_char, out: *mut RecordIOHandle) -> c_int {
    guard(|| {
        let path = text(uri, "uri")?;
        put_handle(out, || Ok(insert(Object::RecordWriter(Arc::new(Mutex::new(Writer::create(&path)?))))))
    })
}

/// Flushes and closes a file; null is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn MXRecordIOWriterFree(handle: RecordIOHandle) -> c_int {
    guard(|| {
        let flushed = if handle.is_null() { Ok(()) } else { record_writer(id(handle))?.lock().flush() };
        handle::free(id(handle), "RecordIO writer")?;
        flushed
    })
}

/// Appends a record of `size` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn MXRecordIOWriterWriteRecord(handle: RecordIOHandle, buf: *const c_char, size: usize) -> c_int {
    guard(|| record_writer(id(handle))?.lock().write(slice(buf.cast::<u8>(), size, "buf")?))
}

/// Returns the byte offset of the next record.
#[unsafe(no_mangle)]
pub extern "C" fn MXRecordIOWriterTell(handle: RecordIOHandle, pos: *mut usize) -> c_int {
    guard(|| put(pos, to_size(record_writer(id(handle))?.lock().tell())?, "pos"))
}

/// Opens a RecordIO file.
#[unsafe(no_mangle)]
pub extern "C" fn MXRecordIOReaderCreate(uri: *const c_char, out: *mut RecordIOHandle) -> c_int {
    guard(|| {
        let path = text(uri, "uri")?;
        put_handle(out, || Ok(insert(Object::RecordReader(Arc::new(Mutex::new(Reader::open(&path)?))))))
    })
}

/// Closes a file; null is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn MXRecordIOReaderFree(handle: RecordIOHandle) -> c_int {
    guard(|| handle::free(id(handle), "RecordIO reader"))
}

/// Reads the next record. At the end of the file, `buf` is null; for an empty record it is not null and `size` is 0. The bytes are valid
/// until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXRecordIOReaderReadRecord(
    handle: RecordIOHandle,
    buf: *mut *const c_char,
    size: *mut usize,
) -> c_int {
    guard(|| {
        let record = record_reader(id(handle))?.lock().read()?;
        put(size, record.as_ref().map_or(0, Vec::len), "size")?;
        let Some(record) = record else { return put(buf, std::ptr::null(), "buf") };
        let mut ret = Ret::new();
        put(buf, ret.list(record).cast::<c_char>().cast_const(), "buf")?;
        ret.keep("MXRecordIOReaderReadRecord");
        Ok(())
    })
}

/// Seeks to the record at byte offset `pos`.
#[unsafe(no_mangle)]
pub extern "C" fn MXRecordIOReaderSeek(handle: RecordIOHandle, pos: usize) -> c_int {
    guard(|| record_reader(id(handle))?.lock().seek(pos as u64))
}

/// Returns the byte offset of the next record.
#[unsafe(no_mangle)]
pub extern "C" fn MXRecordIOReaderTell(handle: RecordIOHandle, pos: *mut usize) -> c_int {
    guard(|| put(pos, to_size(record_reader(id(handle))?.lock().tell())?, "pos"))
}
