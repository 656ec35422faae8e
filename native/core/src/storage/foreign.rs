//! Memory from outside the pool: owned by other libraries, or shared with other processes.

use std::any::Any;
use std::fs::{File, OpenOptions};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::MmapOptions;

use super::chunk::{Chunk, Origin};
use super::pages::ALIGN;
use crate::context::Context;
use crate::error::{Error, Result};

/// An aligned address for a chunk of 0 bytes.
fn dangling() -> NonNull<u8> {
    NonNull::without_provenance(std::num::NonZeroUsize::MIN.saturating_add(ALIGN - 1))
}

impl Chunk {
    /// Memory of another library, valid until `owner` is dropped. [`Chunk::version`] is `None`. The address may be null if there are no
    /// bytes.
    ///
    /// # Errors
    /// A null address with a nonzero number of bytes.
    ///
    /// # Safety
    /// The `bytes` bytes starting at `start` are initialized and stay valid for reading and writing until `owner` is dropped, which may
    /// happen on any thread; nothing else writes to them while the library computes with them.
    pub unsafe fn foreign(
        start: *mut u8,
        bytes: usize,
        context: Context,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<Arc<Chunk>> {
        let start = match NonNull::new(start) {
            Some(start) => start,
            None if bytes == 0 => dangling(),
            None => {
                return Err(Error::Value(format!("{bytes} bytes were given at a null address: expected valid memory")));
            }
        };
        Ok(Arc::new(Chunk::with(start, bytes, context, Origin::Foreign { _owner: owner })))
    }

    /// Allocates zeroed memory that other processes can map.
    pub(super) fn shared(bytes: usize, context: Context) -> Result<Arc<Chunk>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let folder = std::path::Path::new("/dev/shm");
        let folder = if folder.is_dir() { folder.to_path_buf() } else { std::env::temp_dir() };
        let name = format!("ferromx-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = folder.join(name);
        let error = |e: std::io::Error| Error::io(path.display(), &e);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(error)?;
        // An unlinked file is freed when the last process that has it open or mapped ends, even by a crash.
        std::fs::remove_file(&path).map_err(error)?;
        file.set_len(bytes.max(1) as u64).map_err(error)?;
        Chunk::of_file(file, bytes, context)
    }

    /// Maps the file of a chunk of another process; see [`Chunk::shared_file`].
    ///
    /// # Errors
    /// The file is too short or cannot be mapped.
    pub fn of_file(file: File, bytes: usize, context: Context) -> Result<Arc<Chunk>> {
        let error = |e: std::io::Error| Error::io("shared memory", &e);
        let length = file.metadata().map_err(error)?.len();
        if length < bytes as u64 {
            return Err(Error::Value(format!("the shared memory has {length} bytes, expected at least {bytes}")));
        }
        let map = MmapOptions::new().len(bytes.max(1)).map_raw(&file).map_err(error)?;
        let start = NonNull::new(map.as_mut_ptr()).ok_or(Error::OutOfMemory(bytes))?;
        Ok(Arc::new(Chunk::with(start, bytes, context, Origin::Shared { _map: map, file })))
    }

    /// Maps a file privately: its pages are read when they are used, processes share them, and a write copies its page.
    ///
    /// The caller guarantees that nothing writes to the file or shortens it until the chunk is dropped; its name may be deleted. Otherwise
    /// elements change, and access to pages that are lost ends the process, as in every program that maps files.
    ///
    /// # Errors
    /// The file cannot be mapped, for example because it is empty.
    pub fn mapped(file: &File, context: Context) -> std::io::Result<Arc<Chunk>> {
        // SAFETY: the mapping is private, so only this chunk writes to it, and nothing else changes the file, as the documentation of this
        // function requires.
        let mut map = unsafe { MmapOptions::new().map_copy(file) }?;
        let bytes = map.len();
        let start = NonNull::new(map.as_mut_ptr()).unwrap_or_else(dangling);
        Ok(Arc::new(Chunk::with(start, bytes, context, Origin::Mapped { _map: map })))
    }

    /// The file that other processes can map; chunks on `cpu_shared` have one.
    pub fn shared_file(&self) -> Option<&File> {
        match &self.origin {
            Origin::Shared { file, .. } => Some(file),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::DeviceType;
    use crate::ndarray::NDArray;
    use crate::shape::Shape;

    #[test]
    fn the_owner_lives_as_long_as_the_memory() {
        let owner = Arc::new(());
        let mut numbers = vec![1f32, 2.0];
        let start = numbers.as_mut_ptr().cast();
        // SAFETY: the vector outlives the chunk and is not accessed meanwhile.
        let chunk = unsafe { Chunk::foreign(start, 8, Context::default(), Box::new(owner.clone())) }.unwrap();
        assert_eq!(chunk.version(), None);
        let array = NDArray::view(chunk, 0, Shape::new(&[2]), crate::dtype::DType::F32).unwrap();
        array.copy_from_slice(&[3f32, 4.0]).unwrap();
        assert_eq!(Arc::strong_count(&owner), 2);
        drop(array);
        assert_eq!((Arc::strong_count(&owner), numbers), (1, vec![3.0, 4.0]));
        // SAFETY: the first chunk has no bytes; the second call is refused.
        unsafe {
            assert!(Chunk::foreign(std::ptr::null_mut(), 0, Context::default(), Box::new(())).is_ok());
            assert!(Chunk::foreign(std::ptr::null_mut(), 4, Context::default(), Box::new(())).is_err());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not map files")]
    fn writes_to_a_mapped_file_stay_in_this_process() {
        let path = std::env::temp_dir().join(format!("ferromx-mapped-{}", std::process::id()));
        std::fs::write(&path, [1u8, 2, 3, 4]).unwrap();
        let map = || Chunk::mapped(&File::open(&path).unwrap(), Context::default()).unwrap();
        let (a, b) = (map(), map());
        let view = |chunk| NDArray::view(chunk, 2, Shape::new(&[2]), crate::dtype::DType::U8).unwrap();
        let (a, b) = (view(a), view(b));
        let version = a.chunk().version();
        assert!(version.is_some());
        a.copy_from_slice(&[8u8, 9]).unwrap();
        assert_ne!(a.chunk().version(), version);
        assert_eq!(std::fs::read(&path).unwrap(), [1, 2, 3, 4]);
        std::fs::remove_file(&path).unwrap();
        assert_eq!((a.to_vec::<u8>().unwrap(), b.to_vec::<u8>().unwrap()), (vec![8, 9], vec![3, 4]));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not map files")]
    fn shared_memory_can_be_mapped_again_through_its_file() {
        let context = Context { device_type: DeviceType::CpuShared, device_id: 0 };
        let a = NDArray::empty(&Shape::new(&[3]), crate::dtype::DType::I32, context).unwrap();
        let file = a.chunk().shared_file().unwrap().try_clone().unwrap();
        assert!(Chunk::of_file(file.try_clone().unwrap(), 1 << 20, context).is_err());
        let other = Chunk::of_file(file, 12, context).unwrap();
        let b = NDArray::view(other, 0, Shape::new(&[3]), crate::dtype::DType::I32).unwrap();
        a.copy_from_slice(&[1i32, 2, 3]).unwrap();
        assert_eq!(b.to_vec::<i32>().unwrap(), [1, 2, 3]);
        drop(a);
        assert_eq!(b.to_vec::<i32>().unwrap(), [1, 2, 3]);
    }
}
