//! A folder of a link's own, which only its user can read.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of folders so far.
static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// A folder that is removed when this is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes a folder among the temporary ones.
    pub fn new() -> io::Result<Folder> {
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("sojourn-link-{}-{number}", process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                // A process with the same number left it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(Folder(path)),
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed stays among the temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_is_its_own_and_goes_with_its_owner() {
        let (one, other) = (Folder::new().expect("a folder"), Folder::new().expect("a folder"));
        assert_ne!(one.path(), other.path());
        let path = one.path().to_owned();
        fs::write(path.join("file"), "").expect("a file");
        drop(one);
        assert!(!path.exists() && other.path().exists());
    }
}
