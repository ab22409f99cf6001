//! Noticing that files have changed, by looking at them now and then.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What tells one state of a file from another; `None` when there is no file.
type Fingerprint = Option<(u64, u64, i64, i64)>;

/// Files that are looked at.
#[derive(Debug, Default)]
pub(crate) struct Watch(Vec<Watched>);

#[derive(Debug)]
struct Watched {
    file: PathBuf,
    /// As it was at the beginning.
    first: Fingerprint,
    /// As it was at the last look.
    last: Fingerprint,
}

impl Watch {
    /// Looks at a file too, beginning with what it is now.
    pub(crate) fn add(&mut self, file: PathBuf) {
        let first = fingerprint(&file);
        self.0.push(Watched {
            file,
            first,
            last: first,
        });
    }

    /// Takes files that were not there as they are now: whoever calls this has just made them.
    pub(crate) fn take_made(&mut self) {
        for watched in self.0.iter_mut().filter(|one| one.first.is_none()) {
            watched.first = fingerprint(&watched.file);
            watched.last = watched.first;
        }
    }

    /// Whether any file has changed since the last look.
    pub(crate) fn changed(&mut self) -> bool {
        let mut any = false;
        for watched in &mut self.0 {
            let now = fingerprint(&watched.file);
            any |= now != watched.last;
            watched.last = now;
        }
        any
    }

    /// The files that are not what they were at the beginning.
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
