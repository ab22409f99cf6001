//! The names of the origins whose files a cache has, so that a file is found by its path alone.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use crate::layout::ORIGIN_BYTES_MAX;

/// Notes an origin. It is only needed to look into the cache, so a failure is ignored.
pub(crate) fn note(directory: &Path, origin: &str) {
    let mut hasher = DefaultHasher::new();
    origin.hash(&mut hasher);
    let file = directory.join("origins").join(format!("{:016x}", hasher.finish()));
    if !file.exists() {
        let _ = std::fs::create_dir_all(directory.join("origins")).and_then(|()| std::fs::write(file, origin));
    }
}

/// All origins, those of earlier configurations too.
pub(crate) fn all(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory.join("origins")) else {
        return Vec::new();
    };
    let names = entries
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    let mut origins: Vec<String> = names.filter(|name| name.len() <= ORIGIN_BYTES_MAX).collect();
    // The name of a file depends on the release of the program.
    origins.sort();
    origins.dedup();
    origins
}
