//! Noticing that files have changed, by looking at them now and then.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// What tells one state of a file from another; `None` when there is no file.
type Fingerprint = Option<(u64, u64, i64, i64)>;

/// Files that are looked at.
#[derive(Debug)]
pub(crate) struct Watch(Vec<(PathBuf, Fingerprint)>);

impl Watch {
    /// Begins with the files as they are now.
    pub(crate) fn new(files: Vec<PathBuf>) -> Self {
        Self(
            files
                .into_iter()
                .map(|file| {
                    let fingerprint = fingerprint(&file);
                    (file, fingerprint)
                })
                .collect(),
        )
    }

    /// Whether any file has changed since the last look.
    pub(crate) fn changed(&mut self) -> bool {
        let mut any = false;
        for (file, known) in &mut self.0 {
            let now = fingerprint(file);
            any |= now != *known;
            *known = now;
        }
        any
    }
}

fn fingerprint(file: &PathBuf) -> Fingerprint {
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
        let mut watch = Watch::new(vec![file.clone(), other.clone()]);
        assert!(!watch.changed());
        std::fs::write(&file, "22").unwrap();
        assert!(watch.changed() && !watch.changed());
        std::fs::write(&other, "").unwrap();
        assert!(watch.changed() && !watch.changed());
        std::fs::remove_file(&file).unwrap();
        assert!(watch.changed() && !watch.changed());
    }
}
