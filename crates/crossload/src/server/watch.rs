//! Detects changed files by polling.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Identifies a state of a file; `None` if it does not exist.
type Fingerprint = Option<(u64, u64, i64, i64)>;

/// The watched files.
#[derive(Debug, Default)]
pub(crate) struct Watch(Vec<Watched>);

#[derive(Debug)]
struct Watched {
    file: PathBuf,
    /// At the beginning.
    first: Fingerprint,
    /// At the last check.
    last: Fingerprint,
}

impl Watch {
    /// Adds a file, in its current state.
    pub(crate) fn add(&mut self, file: PathBuf) {
        let first = fingerprint(&file);
        self.0.push(Watched {
            file,
            first,
            last: first,
        });
    }

    /// Adds the files of a configuration, and the directory in which further ones may appear.
    pub(crate) fn add_configuration(&mut self, main: &Path) {
        config::directory_of(main).into_iter().for_each(|one| self.add(one));
        // Why it cannot be read shows when it is read.
        let files = config::configuration_files(main).unwrap_or_else(|_| vec![main.to_owned()]);
        files.into_iter().for_each(|file| self.add(file));
    }

    /// Accepts files that did not exist before, because the caller has just made them.
    pub(crate) fn take_made(&mut self) {
        for watched in self.0.iter_mut().filter(|one| one.first.is_none()) {
            watched.first = fingerprint(&watched.file);
            watched.last = watched.first;
        }
    }

    /// Whether any file has changed since the last check.
    pub(crate) fn changed(&mut self) -> bool {
        let mut any = false;
        for watched in &mut self.0 {
            let now = fingerprint(&watched.file);
            any |= now != watched.last;
            watched.last = now;
        }
        any
    }

    /// The files that have changed since the beginning.
    pub(crate) fn touched(&self) -> Vec<PathBuf> {
        let touched = self.0.iter().filter(|one| fingerprint(&one.file) != one.first);
        touched.map(|one| one.file.clone()).collect()
    }
}

fn fingerprint(file: &Path) -> Fingerprint {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_configuration_that_come_change_and_go_are_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let (main, more) = (directory.path().join("c.toml"), directory.path().join("c.d/a.toml"));
        std::fs::write(&main, "").unwrap();
        let changed = |change: &dyn Fn()| {
            let mut watch = Watch::default();
            watch.add_configuration(&main);
            assert!(!watch.changed());
            change();
            watch.changed()
        };
        assert!(changed(&|| {
            std::fs::create_dir(more.parent().unwrap()).unwrap();
            std::fs::write(&more, "1").unwrap();
        }));
        assert!(changed(&|| std::fs::write(&more, "22").unwrap()));
        assert!(changed(&|| std::fs::remove_file(&more).unwrap()));
    }

    #[test]
    fn a_change_is_noticed_once() {
        let directory = tempfile::tempdir().unwrap();
        let (file, other) = (directory.path().join("a"), directory.path().join("b"));
        std::fs::write(&file, "1").unwrap();
        let mut watch = Watch::default();
        watch.add(file.clone());
        watch.add(other.clone());
        assert!(!watch.changed() && watch.touched().is_empty());
        std::fs::write(&file, "22").unwrap();
        assert!(watch.changed() && !watch.changed());
        assert_eq!(watch.touched(), std::slice::from_ref(&file));
        std::fs::write(&other, "").unwrap();
        assert!(watch.changed() && !watch.changed());
        std::fs::remove_file(&file).unwrap();
        assert!(watch.changed() && !watch.changed());
    }
}
