//! The memory of bearer tokens that were verified, so that the next request with one costs a look into a table.
//!
//! A token is remembered by its hash: who reads the memory of this process gets no token out of it. None is remembered
//! beyond its own time of validity.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256, digest};
use credentials::Credential;

/// Parts of the table, each with its own lock.
const SHARDS: usize = 16;

/// The hash of a token.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TokenHash([u8; 32]);

impl TokenHash {
    /// Of a chain of certificates, in one way only.
    pub(crate) fn of_parts<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut context = Context::new(&SHA256);
        for part in parts {
            context.update(&part.len().to_be_bytes());
            context.update(part);
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(context.finish().as_ref());
        Self(hash)
    }

    pub(crate) fn of(token: &str) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(hash)
    }
}

struct Entry {
    credential: Arc<Credential>,
    /// Not to be used from this time on, in seconds since 1970.
    deadline_s: i64,
}

/// Two generations: what is asked for moves to the young one, and when that is full the old one is forgotten.
#[derive(Default)]
struct Shard {
    young: HashMap<TokenHash, Entry>,
    old: HashMap<TokenHash, Entry>,
}

/// The table.
pub(crate) struct Verified {
    shards: [Mutex<Shard>; SHARDS],
    lifetime_s: i64,
    /// Entries of one generation of one shard.
    generation_max: usize,
}

impl Verified {
    /// Remembers `count_max` tokens at the most, each for `lifetime` at the most. With 0 of either nothing is.
    pub(crate) fn new(count_max: usize, lifetime: Duration) -> Self {
        Self {
            shards: Default::default(),
            lifetime_s: i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX),
            generation_max: count_max.div_ceil(SHARDS * 2),
        }
    }

    fn shard(&self, hash: TokenHash) -> std::sync::MutexGuard<'_, Shard> {
        let shard = &self.shards[usize::from(hash.0[0]) % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the token was found to be.
    pub(crate) fn find(&self, hash: TokenHash, now_s: i64) -> Option<Arc<Credential>> {
        let mut shard = self.shard(hash);
        if let Some(entry) = shard.young.get(&hash) {
            return Some(entry.credential.clone()).filter(|_| now_s < entry.deadline_s);
        }
        let entry = shard.old.remove(&hash).filter(|entry| now_s < entry.deadline_s)?;
        let credential = entry.credential.clone();
        self.put(&mut shard, hash, entry);
        Some(credential)
    }

    /// Remembers it until its lifetime here or its own validity ends, whichever comes first.
    pub(crate) fn remember(&self, hash: TokenHash, credential: &Arc<Credential>, now_s: i64) {
        if self.generation_max == 0 || self.lifetime_s == 0 {
            return;
        }
        let ours_s = now_s.saturating_add(self.lifetime_s);
        let entry = Entry {
            credential: credential.clone(),
            deadline_s: credential.expires_s().map_or(ours_s, |expires_s| ours_s.min(expires_s)),
        };
        self.put(&mut self.shard(hash), hash, entry);
    }

    fn put(&self, shard: &mut Shard, hash: TokenHash, entry: Entry) {
        if shard.young.len() >= self.generation_max {
            shard.old = std::mem::take(&mut shard.young);
        }
        shard.young.insert(hash, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use credentials::{Macaroon, MacaroonKey, read_bearer};

    fn credential(before: Option<&str>) -> Arc<Credential> {
        let key = MacaroonKey::new(b"key");
        let macaroon = Macaroon::mint(&key, "here", "id", before).unwrap();
        Arc::new(read_bearer(macaroon.to_text().expose(), &[key]).unwrap())
    }

    #[test]
    fn a_token_is_forgotten_with_its_validity_and_after_its_lifetime() {
        let verified = Verified::new(100, Duration::from_secs(60));
        let (one, two) = (TokenHash::of("one"), TokenHash::of("two"));
        verified.remember(one, &credential(None), 1000);
        verified.remember(two, &credential(Some("before:1970-01-01T00:16:50Z")), 1000);
        assert!(verified.find(one, 1059).is_some() && verified.find(one, 1060).is_none());
        assert!(verified.find(two, 1009).is_some() && verified.find(two, 1010).is_none());
        assert!(verified.find(TokenHash::of("three"), 1000).is_none());
    }

    #[test]
    fn it_never_holds_more_than_it_may_and_keeps_what_is_asked_for() {
        let verified = Verified::new(320, Duration::from_secs(60));
        let (kept, any) = (TokenHash::of("kept"), credential(None));
        verified.remember(kept, &any, 0);
        for index in 0..10_000 {
            verified.remember(TokenHash::of(&index.to_string()), &any, 0);
            assert!(verified.find(kept, 1).is_some());
        }
        let held: usize = (0..SHARDS)
            .map(|index| {
                let shard = verified.shards[index].lock().unwrap();
                shard.young.len() + shard.old.len()
            })
            .sum();
        assert!(held <= 320, "{held}");
        let nothing = Verified::new(0, Duration::from_secs(60));
        nothing.remember(kept, &any, 0);
        assert!(nothing.find(kept, 1).is_none());
    }
}
