//! Helpers for all modules.

use std::io::{IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};
use std::process::Command;

use storage::{CommitFacts, Overwrite, Patience, Posix, PosixOptions, Storage, UploadOptions};
use types::{Checksum, ErrorCode, LogicalPath, Result, Unlisted};

pub(crate) fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

pub(crate) fn code<T>(result: Result<T>) -> Option<ErrorCode> {
    result.err().map(|error| error.code())
}

pub(crate) fn options(size_bytes: Option<u64>, overwrite: Overwrite) -> UploadOptions {
    UploadOptions {
        size_bytes,
        overwrite,
        create_parents: true,
        ..UploadOptions::default()
    }
}

pub(crate) fn size(size_bytes: u64) -> CommitFacts {
    CommitFacts {
        size_bytes,
        ..CommitFacts::default()
    }
}

pub(crate) fn put(store: &dyn Storage, name: &str, content: &[u8], overwrite: Overwrite) -> Result<()> {
    let upload = store.create(&path(name), &options(Some(content.len() as u64), overwrite))?;
    let (first, second) = content.split_at(content.len() / 2);
    upload.write_vectored_at(&[IoSlice::new(second)], first.len() as u64)?;
    upload.write_vectored_at(&[IoSlice::new(first)], 0)?;
    let checksums = vec![Checksum::adler32(7)];
    upload
        .commit(&CommitFacts {
            size_bytes: content.len() as u64,
            checksums,
            modified: None,
            mode: None,
        })
        .map(drop)
}

pub(crate) fn read(store: &dyn Storage, name: &str) -> Vec<u8> {
    let reader = store.open(&path(name)).unwrap();
    let mut content = vec![0; reader.stat().size_bytes as usize];
    let (first, second) = content.split_at_mut(1);
    let mut slices = [IoSliceMut::new(first), IoSliceMut::new(second)];
    let count = reader.read_vectored_at(&mut slices, 0, Patience::Wait).unwrap();
    assert_eq!(count, content.len());
    content
}

pub(crate) fn names(store: &dyn Storage, directory: &str) -> Vec<String> {
    let mut listing = store.list(&path(directory)).unwrap();
    let mut names = Vec::new();
    loop {
        let batch = listing.next_batch().unwrap();
        assert!(batch.len() <= types::limits::LISTING_BATCH_ENTRIES);
        if batch.is_empty() {
            names.sort();
            return names;
        }
        names.extend(batch.into_iter().map(|entry| entry.name));
    }
}

/// The same names as the store lists them without properties, and what it leaves out.
pub(crate) fn bare_names(store: &dyn Storage, directory: &str) -> (Vec<String>, Unlisted) {
    let mut listing = store.list(&path(directory)).unwrap();
    let mut names = Vec::new();
    loop {
        let batch = listing.next_names().unwrap();
        assert!(batch.len() <= types::limits::LISTING_BATCH_ENTRIES);
        if batch.is_empty() {
            names.sort();
            return (names, listing.unlisted());
        }
        names.extend(batch);
    }
}

pub(crate) fn posix(directory: &Path) -> Posix {
    Posix::open(directory, &PosixOptions::default()).unwrap()
}

/// A directory in memory where the machine has one, so that syncs cost nothing.
pub(crate) fn quick_directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// How many hidden parts exist anywhere below `export`.
pub(crate) fn parts_in(export: &Path) -> usize {
    let mut directories = vec![export.to_owned()];
    let mut parts = 0;
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
            } else if name.ends_with(".part") || name.ends_with(".elsewhere") {
                parts += 1;
            }
        }
    }
    parts
}

/// Runs one test of this binary in a process of its own, which can be killed or measured.
pub(crate) fn again(test: &str, variable: &str, value: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(variable, value);
    command
}

/// A mount made by a test; unmounted on drop.
pub(crate) struct Mount(PathBuf);

impl Mount {
    pub(crate) fn new(arguments: &[&str], directory: &Path) -> testkit::Result<Self> {
        if !testkit::is_superuser() {
            return Err(testkit::Error::Missing("mounting needs root".to_owned()));
        }
        let mount = testkit::require("mount")?;
        std::fs::create_dir_all(directory)?;
        let output = Command::new(mount).args(arguments).arg(directory).output()?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(testkit::Error::Missing(format!("{arguments:?}: {words}")));
        }
        Ok(Self(directory.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
