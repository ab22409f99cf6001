//! What a cache has done, for monitoring.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[doc = $about:literal])+ $name:ident;)+) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter,)+ }

        /// What a cache has done since its start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts { $($(#[doc = $about])+ pub $name: u64,)+ }

        impl Counters {
            pub(crate) fn counts(&self) -> Counts {
                Counts { $($name: self.$name.get(),)+ }
            }
        }
    };
}

counters! {
    /// Bytes given to readers from the disk.
    hit_bytes;
    /// Bytes given to readers while their block was being fetched.
    miss_bytes;
    /// Bytes given to readers directly from the origin, because they could not be stored.
    bypass_bytes;
    /// Files that were opened at the origin, because they cannot be cached now.
    bypassed_files;
    /// Bytes read from the origin for the cache.
    fetched_bytes;
    /// Bytes of blocks that were fetched ahead of a reader.
    prefetched_bytes;
    /// Those of them that no reader has read before the file was closed.
    prefetch_wasted_bytes;
    /// Blocks whose checksum was wrong when they were read from the disk.
    bad_blocks;
    /// Files that were evicted for space.
    evicted_files;
    /// Bytes of these.
    evicted_bytes;
    /// Failures of the cache's disk.
    disk_failures;
}
