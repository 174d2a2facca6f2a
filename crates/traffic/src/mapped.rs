//! A file mapped into memory. Its pages belong to the page cache, so that large files are not copied.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The bytes of a file. The file must not be written or truncated while it is mapped.
pub struct Mapped {
    /// `None` for an empty file, which cannot be mapped.
    start: Option<NonNull<u8>>,
    length: usize,
}

impl Mapped {
    /// Maps a file that nothing writes to any more.
    ///
    /// # Errors
    /// The file cannot be opened or mapped.
    pub fn open(path: &Path) -> io::Result<Mapped> {
        let file = File::open(path)?;
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if length == 0 {
            return Ok(Mapped { start: None, length });
        }
        #[expect(unsafe_code, reason = "a mapping without a safe wrapper")]
        // SAFETY: the mapping is new, at an address that the kernel chooses.
        let start = unsafe { mmap(null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE, &file, 0) }?;
        Ok(Mapped { start: NonNull::new(start.cast()), length })
    }
}

impl Deref for Mapped {
    type Target = [u8];

    #[expect(unsafe_code, reason = "memory that the kernel gave")]
    fn deref(&self) -> &[u8] {
        let Some(start) = self.start else { return &[] };
        // SAFETY: the mapping has this length, is readable and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.length) }
    }
}

impl Drop for Mapped {
    #[expect(unsafe_code, reason = "memory that the kernel gave")]
    fn drop(&mut self) {
        if let Some(start) = self.start {
            // SAFETY: this length was mapped, and no borrow of it is left. On failure it stays mapped.
            let _ = unsafe { munmap(start.as_ptr().cast(), self.length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_has_its_bytes() {
        let path = std::env::temp_dir().join(format!("sojourn-mapped-{}", std::process::id()));
        for bytes in [vec![], vec![7; 10_000]] {
            std::fs::write(&path, &bytes).expect("a folder to write to");
            assert_eq!(*Mapped::open(&path).expect("a file"), bytes);
        }
        std::fs::remove_file(&path).expect("our file");
        assert_eq!(Mapped::open(&path).err().map(|error| error.kind()), Some(io::ErrorKind::NotFound));
    }
}
