//! The cache of verified bearer tokens: the next request with one costs a table look-up.
//!
//! Tokens are stored as keyed hashes, under a key that this process makes for itself. Its memory
//! holds no token, and an attacker without the key has to guess 128 bits to pass for another
//! client. SipHash-2-4 (Aumasson and Bernstein, 2012) is made for that; SHA-256, which also
//! withstands an attacker with the key, took longer than all other work on a verified token.

use std::collections::HashMap;
use std::hash::Hasher as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::rand;
use credentials::Credential;
use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// Parts of the table, each with its own lock.
const SHARDS: usize = 16;

/// The hash of a token, or of a chain of certificates, in one table.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ShownHash(u128);

/// What was found out of something that was shown.
#[derive(Clone)]
pub(crate) struct Verification {
    pub(crate) credential: Arc<Credential>,
    /// Not to be used from this time on, in seconds since 1970.
    pub(crate) deadline_s: i64,
}

/// Two generations: what is asked for moves to the young one, and when that is full the old one is
/// forgotten.
#[derive(Default)]
struct Shard {
    young: HashMap<ShownHash, Verification>,
    old: HashMap<ShownHash, Verification>,
}

/// The table.
pub(crate) struct Verified {
    shards: [Mutex<Shard>; SHARDS],
    lifetime_s: i64,
    /// Entries of one generation of one shard.
    generation_max: usize,
    /// The key of the hashes; `None` when the system gave no random numbers, and then nothing is
    /// remembered.
    hash_key: Option<[u8; 16]>,
}

impl Verified {
    /// Caches at most `count_max` tokens, each for at most `lifetime`. With 0 of either it caches
    /// nothing.
    pub(crate) fn new(count_max: usize, lifetime: Duration) -> Self {
        let mut hash_key = [0; 16];
        Self {
            hash_key: rand::fill(&mut hash_key).is_ok().then_some(hash_key),
            shards: Default::default(),
            lifetime_s: i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX),
            generation_max: count_max.div_ceil(SHARDS * 2),
        }
    }

    /// The name in this table of what was shown, in however many parts. `None` where nothing is
    /// remembered.
    pub(crate) fn hash<'p>(&self, parts: impl IntoIterator<Item = &'p [u8]>) -> Option<ShownHash> {
        let mut hasher = SipHasher24::new_with_key(self.hash_key.as_ref()?);
        for part in parts {
            // With its length, so that no two lists of parts are the same bytes.
            hasher.write_u64(part.len() as u64);
            hasher.write(part);
        }
        Some(ShownHash(hasher.finish128().as_u128()))
    }

    fn shard(&self, hash: ShownHash) -> std::sync::MutexGuard<'_, Shard> {
        let shard = &self.shards[hash.0 as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the token was found to be.
    pub(crate) fn find(&self, hash: ShownHash, now_s: i64) -> Option<Verification> {
        let mut shard = self.shard(hash);
        if let Some(known) = shard.young.get(&hash) {
            return Some(known.clone()).filter(|known| now_s < known.deadline_s);
        }
        let known = shard.old.remove(&hash).filter(|known| now_s < known.deadline_s)?;
        self.put(&mut shard, hash, known.clone());
        Some(known)
    }

    /// Remembers it until its lifetime here or its own validity ends, whichever comes first. `None`
    /// where nothing is remembered.
    pub(crate) fn remember(&self, hash: ShownHash, credential: &Arc<Credential>, now_s: i64) -> Option<Verification> {
        if self.generation_max == 0 || self.lifetime_s == 0 {
            return None;
        }
        let ours_s = now_s.saturating_add(self.lifetime_s);
        let verification = Verification {
            credential: credential.clone(),
            deadline_s: credential.expires_s().map_or(ours_s, |expires_s| ours_s.min(expires_s)),
        };
        self.put(&mut self.shard(hash), hash, verification.clone());
        Some(verification)
    }

    fn put(&self, shard: &mut Shard, hash: ShownHash, verification: Verification) {
        if shard.young.len() >= self.generation_max {
            shard.old = std::mem::take(&mut shard.young);
        }
        shard.young.insert(hash, verification);
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
        let hash = |token: &str| verified.hash([token.as_bytes()]).unwrap();
        let (one, two) = (hash("one"), hash("two"));
        verified.remember(one, &credential(None), 1000);
        verified.remember(two, &credential(Some("before:1970-01-01T00:16:50Z")), 1000);
        assert!(verified.find(one, 1059).is_some() && verified.find(one, 1060).is_none());
        assert!(verified.find(two, 1009).is_some() && verified.find(two, 1010).is_none());
        assert!(verified.find(hash("three"), 1000).is_none());
    }

    #[test]
    fn each_table_names_things_its_own_way_and_parts_are_not_run_together() {
        let (one, other) = (Verified::new(10, Duration::MAX), Verified::new(10, Duration::MAX));
        let hash = |parts: &[&[u8]]| one.hash(parts.iter().copied());
        assert!(hash(&[b"token"]) == hash(&[b"token"]));
        assert!(hash(&[b"token"]) != other.hash([b"token".as_slice()]));
        assert!(hash(&[b"ab", b"c"]) != hash(&[b"a", b"bc"]));
    }

    #[test]
    fn it_never_holds_more_than_it_may_and_keeps_what_is_asked_for() {
        let verified = Verified::new(320, Duration::from_secs(60));
        let hash = |token: &str| verified.hash([token.as_bytes()]).unwrap();
        let (kept, any) = (hash("kept"), credential(None));
        verified.remember(kept, &any, 0);
        for index in 0..10_000 {
            verified.remember(hash(&index.to_string()), &any, 0);
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
