//! Checks the directories of caches.

use std::path::Path;

use config::{Configuration, ExportCache};
use rustix::fs::{Access, access};
use types::binary_size;

use super::finding::{Finding, Position};
use super::lines::Lines;

/// Free bytes in the file system of a directory, and its size in bytes.
type FreeSpace = fn(&Path) -> Option<(u64, u64)>;

/// Checks all of them. `free_space` says how large their file systems are.
pub(super) fn check(configuration: &Configuration, lines: &Lines, free_space: FreeSpace) -> Vec<Finding> {
    let exports = configuration.exports.iter().enumerate();
    let cached = exports.filter_map(|(index, export)| {
        let at = |key: &str| lines.of_item("export", index, key);
        Some(one(&export.cache()?, at, free_space))
    });
    cached.collect()
}

/// Where a directory is, or will be made: the server makes what is missing. An error is what stands
/// in its way.
pub(super) fn place_for(directory: &Path) -> Result<&Path, &Path> {
    // A link that leads nowhere is in the way, too.
    let there = directory.ancestors().find(|place| place.symlink_metadata().is_ok());
    let there = there.unwrap_or(directory);
    let can_write = || access(there, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    match there.is_dir() && can_write() {
        true => Ok(there),
        false => Err(there),
    }
}

fn one(cache: &ExportCache<'_>, at: impl Fn(&str) -> Position, free_space: FreeSpace) -> Finding {
    let shown = cache.directory.display();
    let there = match place_for(cache.directory) {
        Ok(there) => there,
        Err(place) => {
            let says = format!("the cache cannot store anything: {} is not writable", place.display());
            let finding = Finding::error("cache_unusable", says).at(at("cache_directory"));
            return finding.change("let the server's user write there, or name another directory");
        }
    };
    match free_space(there) {
        Some((_, all)) if all > 0 && cache.size_bytes > all => {
            let (wanted, all) = (binary_size(cache.size_bytes), binary_size(all));
            let says = format!("the cache {shown} may take {wanted}, and its file system has {all}");
            let finding = Finding::warning("cache_too_large", says).at(at("cache_size_bytes"));
            finding.change("set cache_size_bytes below the size of the file system, or use a larger one")
        }
        _ => Finding::ok("cache", format!("the cache {shown} can be written")),
    }
}
