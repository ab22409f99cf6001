//! The name of a cached file: a digest of the origin's name and the exact path.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use types::LogicalPath;

/// Directories that the cached files are spread over.
pub(crate) const SHELVES: usize = 256;
/// Prefix of files that are not complete yet.
pub(crate) const DRAFT: &str = "draft-";

/// 128 bits of SHA-256 over origin and path, byte by byte. The header of the file has both in full
/// and is compared, so equal digests would cost a place in the cache, never wrong data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key(pub(crate) [u8; 16]);

impl Key {
    pub(crate) fn of(origin: &str, path: &LogicalPath) -> Self {
        let mut digest = Sha256::new();
        digest.update((origin.len() as u64).to_le_bytes());
        digest.update(origin.as_bytes());
        digest.update(path.as_str().as_bytes());
        let mut key = [0; 16];
        key.copy_from_slice(&digest.finalize()[..16]);
        Self(key)
    }

    /// Which directory it is in.
    pub(crate) fn shelf(self) -> usize {
        usize::from(self.0[0])
    }

    /// Its file below the directory of the cache.
    pub(crate) fn file(self, directory: &Path) -> PathBuf {
        let mut name = String::with_capacity(32);
        for byte in &self.0[1..] {
            // Writing into a text cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        shelf(directory, self.shelf()).join(name)
    }

    /// The key of a file name in a shelf.
    pub(crate) fn parse(shelf: usize, name: &str) -> Option<Self> {
        let mut key = [0; 16];
        key[0] = u8::try_from(shelf).ok()?;
        if name.len() != 30 || !name.is_ascii() {
            return None;
        }
        for (place, index) in key[1..].iter_mut().zip((0..30).step_by(2)) {
            *place = u8::from_str_radix(&name[index..index + 2], 16).ok()?;
        }
        Some(Self(key))
    }
}

/// The path of a shelf.
pub(crate) fn shelf(directory: &Path, number: usize) -> PathBuf {
    directory.join("files").join(format!("{number:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_case_or_origin_have_different_keys() {
        let [upper, lower] = ["/Data", "/data"].map(|path| LogicalPath::parse(path).unwrap());
        let key = Key::of("a", &upper);
        assert_ne!(key, Key::of("a", &lower));
        assert_ne!(key, Key::of("b", &upper));
        let file = key.file(Path::new("/cache"));
        let name = file.file_name().unwrap().to_str().unwrap();
        assert_eq!(Key::parse(key.shelf(), name), Some(key));
        assert_eq!(Key::parse(0, "draft-0123456789abcdef01234567"), None);
    }
}
