//! The cache of an export, as its keys describe it.

use std::path::Path;
use std::time::Duration;

use crate::keys::Export;

/// Size of a cache when none is given, in bytes.
const SIZE_BYTES_DEFAULT: u64 = 10 << 30;
/// How long an answer of the store behind counts when nothing is given.
const REVALIDATE_AFTER_DEFAULT: Duration = Duration::from_secs(60);
/// Blocks that are fetched ahead when nothing is given.
const PREFETCH_BLOCKS_DEFAULT: u32 = 8;
/// Smallest cache, in bytes.
const SIZE_BYTES_MIN: u64 = 64 * 1024 * 1024;

/// The cache of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportCache<'a> {
    /// Its directory.
    pub directory: &'a Path,
    /// Most bytes that it may take.
    pub size_bytes: u64,
    /// How long an answer of the store behind it counts; `None`: until the next start.
    pub revalidate_after: Option<Duration>,
    /// Blocks to fetch ahead.
    pub prefetch_blocks: u32,
}

impl Export {
    /// Its cache, if it has one.
    pub fn cache(&self) -> Option<ExportCache<'_>> {
        Some(ExportCache {
            directory: self.cache_directory.as_deref()?,
            size_bytes: self.cache_size_bytes.0,
            revalidate_after: (!self.cache_immutable).then_some(self.cache_revalidate_after),
            prefetch_blocks: self.cache_prefetch_blocks,
        })
    }
}

/// Mistakes in the cache of an export. Those `before` it may share it.
pub(crate) fn faults(export: &Export, before: &[Export]) -> Vec<String> {
    let mut faults = Vec::new();
    let Some(cache) = export.cache() else {
        return unused(export).into_iter().collect();
    };
    let directory = cache.directory.display();
    if cache.size_bytes < SIZE_BYTES_MIN {
        faults.push(format!(
            "cache_size_bytes: the cache {directory} needs at least 64MiB; write more"
        ));
    }
    let mut others = before.iter().filter_map(Export::cache);
    if others.any(|other| other.directory == cache.directory && other.size_bytes != cache.size_bytes) {
        faults.push(format!(
            "cache_size_bytes: the cache {directory} has two sizes; write the same in all exports that share it"
        ));
    }
    faults
}

/// Keys without the cache that they are for. Defaults may be written, as in the example of all
/// keys.
fn unused(export: &Export) -> Vec<String> {
    let keys = [
        ("cache_size_bytes", export.cache_size_bytes.0 != SIZE_BYTES_DEFAULT),
        (
            "cache_revalidate_after",
            export.cache_revalidate_after != REVALIDATE_AFTER_DEFAULT,
        ),
        ("cache_immutable", export.cache_immutable),
        (
            "cache_prefetch_blocks",
            export.cache_prefetch_blocks != PREFETCH_BLOCKS_DEFAULT,
        ),
    ];
    let given = keys.into_iter().filter(|(_, is_given)| *is_given);
    given
        .map(|(key, _)| format!("{key}: belongs to cache_directory, which is missing; set that, too, or remove it"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Configuration;

    fn read(lines: &str) -> Result<Configuration, String> {
        let text = format!("[[export]]\ndirectory = \"d\"\n{lines}\n");
        Configuration::parse(&text, Path::new("/etc"), "c.toml").map_err(|faults| faults.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_the_keys() {
        let configuration = read("cache_directory = \"c\"").unwrap();
        let cache = configuration.exports[0].cache().unwrap();
        assert_eq!(cache.size_bytes, SIZE_BYTES_DEFAULT);
        assert_eq!(cache.revalidate_after, Some(REVALIDATE_AFTER_DEFAULT));
        assert_eq!(cache.prefetch_blocks, PREFETCH_BLOCKS_DEFAULT);
    }

    #[test]
    fn keys_of_a_cache_need_its_directory() {
        for key in [
            "cache_size_bytes = \"1GiB\"",
            "cache_revalidate_after = \"5s\"",
            "cache_immutable = true",
            "cache_prefetch_blocks = 0",
        ] {
            let told = read(key).unwrap_err();
            assert!(
                told.contains(":3: cache_") && told.contains("belongs to cache_directory"),
                "{told}"
            );
            assert!(read(&format!("cache_directory = \"c\"\n{key}")).is_ok(), "{key}");
        }
        for default in [
            "cache_size_bytes = \"10GiB\"",
            "cache_revalidate_after = \"1m\"",
            "cache_immutable = false",
        ] {
            assert!(read(default).is_ok(), "{default}");
        }
    }

    #[test]
    fn tables_of_an_export_are_keys_of_it() {
        for (lines, words) in [
            (
                "[export.cache]\ndirectory = \"c\"",
                ":3: cache: is no section; write into [[export]]: cache_directory, ",
            ),
            ("[[export.cache]]\ndirectory = \"c\"", ":3: cache: is no section"),
            (
                "[export.s3]\nurl = \"c\"",
                ":3: s3: is no section; write into [[export]]: s3, s3_access_key_id, ",
            ),
            (
                "[export.remote]\nurl = \"c\"",
                ":3: remote: is no section; write into [[export]]: remote, remote_hosts, ",
            ),
            (
                "[cache]\ndirectory = \"c\"",
                ":3: \"cache\" is no section; write into [[export]]: cache_directory, ",
            ),
        ] {
            let told = read(lines).unwrap_err();
            assert!(told.contains(words), "{lines}: {told}");
        }
    }
}
