//! Files of tests.

use std::fmt::{self, Display, Formatter};
use std::ops::Deref;

use tempfile::TempDir;

/// The path of a file in a new folder, which is removed with this value. Tests run at the same time, so none may choose a path in a shared
/// folder.
pub(super) struct TestFile {
    path: String,
    _folder: TempDir,
}

impl TestFile {
    /// A path at which no file exists yet.
    pub(super) fn new() -> TestFile {
        let folder = tempfile::tempdir().unwrap();
        TestFile { path: folder.path().join("file").to_string_lossy().into_owned(), _folder: folder }
    }

    /// A file with these contents.
    pub(super) fn with(contents: impl AsRef<[u8]>) -> TestFile {
        let file = TestFile::new();
        std::fs::write(&file.path, contents).unwrap();
        file
    }
}

impl Deref for TestFile {
    type Target = str;

    fn deref(&self) -> &str {
        &self.path
    }
}

impl Display for TestFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}
