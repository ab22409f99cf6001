//! Access to the files of the other program.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use config::{CONFIGURATION_BYTES_MAX, read_bytes};

/// Why a file cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    /// The file.
    pub file: PathBuf,
    /// Why.
    pub cause: io::Error,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.file.display(), self.cause)
    }
}

/// Reads files of the other program.
pub trait Files {
    /// The text of a file. Bytes that are no UTF-8 are replaced: only comments have them.
    ///
    /// # Errors
    /// It cannot be read.
    fn text(&self, file: &Path) -> Result<String, Unreadable>;

    /// The files in a directory, sorted by name, without their contents.
    ///
    /// # Errors
    /// It cannot be read.
    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>, Unreadable>;
}

/// Files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn text(&self, file: &Path) -> Result<String, Unreadable> {
        let bytes = read_bytes(file, CONFIGURATION_BYTES_MAX).map_err(|cause| unreadable(file, cause))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>, Unreadable> {
        let read = || -> io::Result<Vec<PathBuf>> {
            let mut found = Vec::new();
            for entry in std::fs::read_dir(directory)? {
                let path = entry?.path();
                if path.is_file() {
                    found.push(path);
                }
            }
            found.sort();
            Ok(found)
        };
        read().map_err(|cause| unreadable(directory, cause))
    }
}

/// Files in memory, for tests.
#[derive(Clone, Debug, Default)]
pub struct InMemory(pub BTreeMap<PathBuf, String>);

impl InMemory {
    /// The same with a file more.
    #[must_use]
    pub fn with(mut self, file: &str, text: &str) -> Self {
        self.0.insert(PathBuf::from(file), text.to_owned());
        self
    }
}

impl Files for InMemory {
    fn text(&self, file: &Path) -> Result<String, Unreadable> {
        let text = self.0.get(file).cloned();
        text.ok_or_else(|| unreadable(file, io::ErrorKind::NotFound.into()))
    }

    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>, Unreadable> {
        let found = self.0.keys().filter(|file| file.parent() == Some(directory));
        let found: Vec<PathBuf> = found.cloned().collect();
        match found.is_empty() {
            true => Err(unreadable(directory, io::ErrorKind::NotFound.into())),
            false => Ok(found),
        }
    }
}

fn unreadable(file: &Path, cause: io::Error) -> Unreadable {
    Unreadable {
        file: file.to_owned(),
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_and_memory_answer_alike() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("d")).unwrap();
        std::fs::write(at("d/b"), "two").unwrap();
        std::fs::write(at("d/a"), b"one \xff").unwrap();
        let memory = InMemory::default()
            .with(at("d/a").to_str().unwrap(), "one \u{fffd}")
            .with(at("d/b").to_str().unwrap(), "two");
        for files in [&Disk as &dyn Files, &memory] {
            assert_eq!(files.list(&at("d")).unwrap(), [at("d/a"), at("d/b")]);
            assert_eq!(files.text(&at("d/a")).unwrap(), "one \u{fffd}");
            let missing = files.text(&at("none")).unwrap_err();
            assert_eq!(missing.cause.kind(), io::ErrorKind::NotFound);
            assert!(missing.to_string().contains("none"));
            assert!(files.list(&at("none")).is_err());
        }
    }
}
