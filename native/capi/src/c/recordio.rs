//! Files of records.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use ferromx_core::error::{Error, Result};
use ferromx_runtime::io::recordio::{Reader, Writer};
use parking_lot::Mutex;

use super::args::{id, put, slice, text};
use super::guard;
use super::ret::{Ret, put_handle};
use super::types::RecordIOHandle;
use crate::handle::{self, Object, insert, record_reader, record_writer};

fn position(place: u64) -> Result<usize> {
    usize::try_from(place).map_err(|_| Error::Value(format!("the position {place} does not fit into a size")))
}

/// Makes a file of records, or an existing one empty.
#[unsafe(no_mangle)]
pub extern "C" fn MXRecordIOWriterCreate(uri: *const c_char, out: *mut RecordIOHandle) -> c_int {
    guard(|| {
        let path = text(uri, "uri")?;
        put_handle(out, || Ok(insert(Object::RecordWriter(Arc::new(Mutex::new(Writer::create(&path)?))))))
    })
}

/// Writes what is left and closes the file; null is nothing.
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

/// Gives the position of the next record, in bytes from the start of the file.
#[unsafe(no_mangle)]
pub extern "C" fn MXRecordIOWriterTell(handle: RecordIOHandle, pos: *mut usize) -> c_int {
    guard(|| put(pos, position(record_writer(id(handle))?.lock().tell())?, "pos"))
}

/// Opens a file of records.
#[unsafe(no_mangle)]
pub extern "C" fn MXRecordIOReaderCreate(uri: *const c_char, out: *mut RecordIOHandle) -> c_int {
    guard(|| {
        let path = text(uri, "uri")?;
        put_handle(out, || Ok(insert(Object::RecordReader(Arc::new(Mutex::new(Reader::open(&path)?))))))
    })
}

/// Closes a file; null is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn MXRecordIOReaderFree(handle: RecordIOHandle) -> c_int {
    guard(|| handle::free(id(handle), "RecordIO reader"))
}

/// Reads the next record; null and 0 at the end of the file, an address and 0 for an empty record. The bytes are valid until the
/// next call on this thread.
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

/// Goes to the record that begins `pos` bytes from the start of the file.
#[unsafe(no_mangle)]
pub extern "C" fn MXRecordIOReaderSeek(handle: RecordIOHandle, pos: usize) -> c_int {
    guard(|| record_reader(id(handle))?.lock().seek(pos as u64))
}

/// Gives the position of the next record, in bytes from the start of the file.
#[unsafe(no_mangle)]
pub extern "C" fn MXRecordIOReaderTell(handle: RecordIOHandle, pos: *mut usize) -> c_int {
    guard(|| put(pos, position(record_reader(id(handle))?.lock().tell())?, "pos"))
}
