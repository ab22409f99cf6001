//! The caches of exports.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cache::{Cache, CachedStore, Counts, Settings, Trouble};
use config::{Export, ExportCache};
use door_admin::{Check, Part, PartFuture};
use endpoint::Store;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::json;
use types::{Error, ErrorCode};

use super::admin_parts::encoded;
use super::log::Log;
use super::subsystem::Current;
use crate::failure::Failure;

/// Caches by their directories.
type ByDirectory = HashMap<PathBuf, Arc<Cache>>;

/// The caches of a configuration. Exports with the same directory share one.
#[derive(Clone, Default)]
pub(super) struct Caches {
    open: ByDirectory,
    /// For each export that has one.
    layers: Vec<Layer>,
}

/// The cache of an export.
#[derive(Clone, Debug)]
struct Layer {
    directory: PathBuf,
    size_bytes: u64,
    settings: Settings,
}

impl Caches {
    /// Puts an export's cache in front of its store. A cache that is `running` is kept.
    pub(super) fn behind(
        &mut self,
        export: &Export,
        store: Store,
        running: &Self,
        log: &Log,
    ) -> Result<Store, Failure> {
        let Some(wanted) = export.cache() else {
            return Ok(store);
        };
        let running = running.open.get(wanted.directory);
        let cache = match self.open.get(wanted.directory).or(running) {
            Some(cache) => cache.clone(),
            None => open(&wanted, log)?,
        };
        self.open.insert(wanted.directory.to_owned(), cache.clone());
        let layer = Layer {
            directory: wanted.directory.to_owned(),
            size_bytes: wanted.size_bytes,
            settings: Settings {
                revalidate_after: wanted.revalidate_after,
                prefetch_blocks: wanted.prefetch_blocks.into(),
            },
        };
        let (origin, settings) = (origin(export), layer.settings);
        self.layers.push(layer);
        Ok(store.behind(|files| Arc::new(CachedStore::new(files, cache, &origin, settings))))
    }

    /// Applies the sizes to caches that were open before.
    pub(super) fn resize(&self) {
        for layer in &self.layers {
            let cache = self.open.get(&layer.directory);
            if let Some(cache) = cache.filter(|cache| cache.size_bytes() != layer.size_bytes) {
                cache.set_size(layer.size_bytes);
            }
        }
    }

    /// With what the caches are used.
    #[cfg(test)]
    pub(super) fn used_with(&self) -> String {
        format!("{:?}", self.layers)
    }
}

/// The name of what an export serves, for the keys of its cached files.
fn origin(export: &Export) -> String {
    match (export.remote.as_ref().or(export.s3.as_ref()), &export.directory) {
        (Some(url), _) => format!("remote {url}"),
        (None, directory) => format!("directory {}", directory.as_deref().unwrap_or(Path::new("")).display()),
    }
}

fn open(wanted: &ExportCache<'_>, log: &Log) -> Result<Arc<Cache>, Failure> {
    let (log, directory) = (log.clone(), wanted.directory.to_owned());
    let on_trouble = move |trouble: &Trouble| {
        let why = match trouble {
            Trouble::DiskFull => "the disk is full",
            Trouble::DiskFailed(error) => error.as_str(),
        };
        log.write("cache_failed", &json!({"directory": directory, "error": why}));
    };
    Cache::open(wanted.directory, wanted.size_bytes, Box::new(on_trouble)).map_err(|error| unusable(&error))
}

/// Why a cache cannot be opened. It is about the key, and not about a storage that fails.
fn unusable(error: &Error) -> Failure {
    let advice = match error.code() {
        ErrorCode::Busy => "Stop the other server, or give this one another cache_directory.",
        _ => "Let the server's user write into cache_directory, or name another one.",
    };
    let failure = Failure::advised(error, advice);
    Failure {
        words: error.detail().map_or(failure.words, str::to_owned),
        ..failure
    }
}

/// What monitoring learns of the caches.
pub(super) struct CachesPart(pub(super) Current<Caches>);

impl Part for CachesPart {
    fn metrics(&self) -> PartFuture<'_, String> {
        Box::pin(async {
            let caches = self.0.get().open;
            match caches.is_empty() {
                true => String::new(),
                false => text(&caches),
            }
        })
    }

    /// A server works without its caches.
    fn checks(&self) -> PartFuture<'_, Vec<Check>> {
        Box::pin(async {
            let caches = self.0.get().open;
            let check = |(directory, cache): (&PathBuf, &Arc<Cache>)| Check {
                name: format!("cache {}", directory.display()),
                ok: cache.stores(),
                needed: false,
                says: match cache.stores() {
                    true => "It stores what is read.".to_owned(),
                    false => "It stores nothing at the moment, because its disk is full or failed.".to_owned(),
                },
            };
            caches.iter().map(check).collect()
        })
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    directory: String,
}

/// A counter of a cache: its name, what it counts, and its value.
type Counted = (&'static str, &'static str, fn(&Counts) -> u64);

const COUNTERS: [Counted; 11] = [
    ("hit_bytes", "Bytes read from the cache", |counts| counts.hit_bytes),
    ("miss_bytes", "Bytes read while they were fetched", |counts| {
        counts.miss_bytes
    }),
    ("bypass_bytes", "Bytes read past the cache", |counts| {
        counts.bypass_bytes
    }),
    ("bypassed_files", "Files opened past the cache", |counts| {
        counts.bypassed_files
    }),
    (
        "fetched_bytes",
        "Bytes fetched from the store behind the cache",
        |counts| counts.fetched_bytes,
    ),
    ("prefetched_bytes", "Bytes fetched ahead of readers", |counts| {
        counts.prefetched_bytes
    }),
    (
        "prefetch_wasted_bytes",
        "Bytes fetched ahead that were not read",
        |counts| counts.prefetch_wasted_bytes,
    ),
    ("bad_blocks", "Blocks with a wrong checksum", |counts| counts.bad_blocks),
    ("evicted_files", "Files evicted for space", |counts| {
        counts.evicted_files
    }),
    ("evicted_bytes", "Bytes of evicted files", |counts| counts.evicted_bytes),
    ("disk_failures", "Failures of the disk of the cache", |counts| {
        counts.disk_failures
    }),
];

fn text(caches: &ByDirectory) -> String {
    let mut registry = Registry::with_prefix("crossload_cache");
    let label = |directory: &PathBuf| Labels {
        directory: directory.display().to_string(),
    };
    for (name, help, value) in COUNTERS {
        let family = Family::<Labels, Counter>::default();
        for (directory, cache) in caches {
            family.get_or_create(&label(directory)).inc_by(value(&cache.counts()));
        }
        registry.register(name, help, family);
    }
    let (files, bytes, size) = (
        Family::<Labels, Gauge>::default(),
        Family::<Labels, Gauge>::default(),
        Family::<Labels, Gauge>::default(),
    );
    for (directory, cache) in caches {
        let usage = cache.usage();
        let set = |family: &Family<Labels, Gauge>, value: u64| {
            family
                .get_or_create(&label(directory))
                .set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        set(&files, usage.files as u64);
        set(&bytes, usage.bytes);
        set(&size, cache.size_bytes());
    }
    registry.register("files", "Files in the cache", files);
    registry.register("used_bytes", "Bytes that they take", bytes);
    registry.register("size_bytes", "Bytes that they may take", size);
    encoded(&registry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Reader;

    #[test]
    fn a_cache_that_cannot_be_opened_names_its_key() {
        let directory = tempfile::tempdir().unwrap();
        let open = |place: &Path| Cache::open(place, 1 << 30, Box::new(|_| {})).map_err(|error| unusable(&error));
        let used = open(directory.path()).unwrap();
        let told = open(directory.path()).err().unwrap();
        let told = told.message(Reader::Administrator);
        assert!(
            told.starts_with("another process uses the cache directory") && told.contains("another cache_directory"),
            "{told}"
        );
        drop(used);
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        let told = open(&file.join("cache")).err().unwrap();
        let told = told.message(Reader::Administrator);
        assert!(
            told.starts_with("cannot use the cache directory") && told.contains("write into cache_directory"),
            "{told}"
        );
    }

    #[test]
    fn every_metric_is_in_the_manual() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path(), 1 << 30, Box::new(|_| {})).unwrap();
        let text = text(&HashMap::from([(directory.path().to_owned(), cache)]));
        let manual = include_str!("../../../../docs/metrics.md");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(manual.contains(name), "{name} is not described in docs/metrics.md");
        }
        assert!(text.contains("crossload_cache_size_bytes{directory="), "{text}");
    }
}
