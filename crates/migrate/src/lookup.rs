//! Finds files that settings name, on the machine that has them or among copies of its files.

use std::path::{Path, PathBuf};

use crate::files::Files;

/// Where to look.
pub(crate) struct Lookup<'a> {
    files: &'a dyn Files,
    /// Files that the administrator named.
    given: &'a [PathBuf],
    /// The directory of the configuration.
    base: PathBuf,
}

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundFile {
    /// Its name where it was found.
    pub(crate) name: String,
    /// What is in it.
    pub(crate) text: String,
}

impl<'a> Lookup<'a> {
    /// Looks among the files that were given, then in `base`.
    pub(crate) fn new(files: &'a dyn Files, given: &'a [PathBuf], base: PathBuf) -> Self {
        Self { files, given, base }
    }

    /// A file that a setting names: one with this name that was given, or is beside the
    /// configuration, or the file itself.
    pub(crate) fn find(&self, path: &str) -> Option<FoundFile> {
        let path = Path::new(path);
        let name = path.file_name()?;
        let given = self.given.iter().filter(|file| file.file_name() == Some(name)).cloned();
        let candidates = given.chain([self.base.join(name), path.to_owned()]);
        candidates.into_iter().find_map(|file| self.read(&file))
    }

    fn read(&self, file: &Path) -> Option<FoundFile> {
        let text = self.files.text(file).ok()?;
        Some(FoundFile {
            name: file.display().to_string(),
            text,
        })
    }
}
