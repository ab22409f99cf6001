//! The thread of a cache: it counts what is there at the start, and evicts and removes files.

use std::fs::DirEntry;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Weak;
use std::sync::mpsc::Receiver;

use crate::cache::Cache;
use crate::key::{DRAFT, Key, SHELVES, shelf};

/// What the keeper is asked to do.
pub(crate) enum Order {
    /// Evict files if there are too many.
    Evict,
    /// Free some space, because the disk is full.
    MakeSpace,
    /// Remove a file that was changed at the origin.
    Remove(Key),
}

/// Works until the cache is dropped.
pub(crate) fn run(cache: &Weak<Cache>, orders: &Receiver<Order>) {
    let mut random = fastrand::Rng::new();
    for number in 0..SHELVES {
        let Some(cache) = cache.upgrade() else { return };
        count(&cache, number);
        cache.evict(&mut random);
    }
    while let Ok(order) = orders.recv() {
        let Some(cache) = cache.upgrade() else { return };
        match order {
            Order::Evict => cache.evict(&mut random),
            Order::MakeSpace => cache.make_space(&mut random),
            Order::Remove(key) => cache.remove(key),
        }
    }
}

/// Counts the files of a shelf, and removes those that an earlier process did not complete.
fn count(cache: &Cache, number: usize) {
    let Ok(entries) = std::fs::read_dir(shelf(&cache.directory, number)) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        match Key::parse(number, name) {
            Some(key) => adopt(cache, key, &entry),
            None if name.starts_with(DRAFT) => remove_old_draft(cache, &entry),
            None => {}
        }
    }
}

fn adopt(cache: &Cache, key: Key, entry: &DirEntry) {
    let Ok(facts) = entry.metadata() else { return };
    let used_s = u32::try_from(facts.atime().max(facts.mtime())).unwrap_or(0);
    cache.index().adopt(key, facts.blocks() * 512, used_s);
}

/// Drafts of this process are younger than the cache.
fn remove_old_draft(cache: &Cache, entry: &DirEntry) {
    let modified = entry.metadata().and_then(|facts| facts.modified());
    if modified.is_ok_and(|modified| modified < cache.opened_at) {
        // It takes little space, and is tried again at the next start.
        let _ = std::fs::remove_file(entry.path());
    }
}
