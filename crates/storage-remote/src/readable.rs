//! Which files clients may read, where each client has an identity of its own at the server.
//!
//! Looking at a file needs less than reading it. A cache that has the content from another client
//! therefore asks whether this client may, too, and the answer is remembered here for a short time.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use storage::{ClientCredential, Stat};
use types::LogicalPath;

use crate::limits::{READABLE_AGE_MAX, READABLE_FILES_MAX};

/// A version of a file, and the client who wants to read it.
#[derive(Hash)]
pub(crate) struct Reading<'a> {
    /// The credential itself, so that another one of the same client is asked for again.
    client: Option<&'a ClientCredential>,
    path: &'a LogicalPath,
    etag: Option<&'a str>,
    size_bytes: u64,
    modified: SystemTime,
    inode: u64,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(
        client: Option<&'a ClientCredential>,
        path: &'a LogicalPath,
        etag: Option<&'a str>,
        stat: &Stat,
    ) -> Self {
        Self {
            client,
            path,
            etag,
            size_bytes: stat.size_bytes,
            modified: stat.modified,
            inode: stat.inode,
        }
    }

    /// Whether the client's credential has ended. Those that are shown as they are need no look:
    /// doors refuse them once they have ended.
    fn has_ended(&self) -> bool {
        let Some(ClientCredential::Name(name)) = self.client else {
            return false;
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        name.expires_s
            .is_some_and(|end_s| u64::try_from(end_s).map_or(true, |end_s| end_s <= now.as_secs()))
    }
}

/// When the server last let each client read a file. Refusals are not remembered.
#[derive(Default)]
pub(crate) struct ReadableFiles {
    /// Keys of two hash functions: no credential is kept, and clients cannot find collisions.
    hashers: [RandomState; 2],
    asked: Mutex<HashMap<[u64; 2], Instant>>,
}

impl ReadableFiles {
    fn key(&self, reading: &Reading<'_>) -> [u64; 2] {
        self.hashers.each_ref().map(|hasher| hasher.hash_one(reading))
    }

    /// Whether the server has let the client read it less than `age` ago.
    pub(crate) fn knows(&self, reading: &Reading<'_>, age: Duration) -> bool {
        let key = self.key(reading);
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_young = |asked_at: &Instant| asked_at.elapsed() < age.min(READABLE_AGE_MAX);
        asked.get(&key).is_some_and(is_young) && !reading.has_ended()
    }

    /// Notes that it has done so.
    pub(crate) fn note(&self, reading: &Reading<'_>, asked_at: Instant) {
        let key = self.key(reading);
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= READABLE_FILES_MAX {
            asked.clear();
        }
        asked.insert(key, asked_at);
    }
}
