//! The rendezvous of XRootD third-party copies: a client tells the source a key under which the
//! destination is going to fetch a file, and tells the destination the same key.
//!
//! The bearer of the key reads the file without another credential, so the key is as good as a
//! right: it holds for one path, one destination host and one client, for seconds, and once.
//!
//! The client is known by the user name and process number that it gave to both servers. Its host
//! is not compared, as XRootD does: it is whatever the destination says, so it proves nothing, and
//! a client behind NAT, with two addresses or without a name is another host to each server.
//!
//! Pure like the rest of the floor: times are handed in, as the time since any fixed moment, and so
//! are the addresses that the name service knows for a host.

mod host;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::limits::{TPC_KEY_BYTES_MAX, TPC_ORIGIN_BYTES_MAX};
use types::LogicalPath;

pub use host::{NamedHost, SeenHost};

/// The client of a third-party copy as it is named between servers: `user.process@host`
/// (`tpc.org`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// User name and process number as the client gave them when it logged in, such as `ann.4378`.
    pub user: String,
    /// The host, without brackets.
    pub host: String,
}

impl Origin {
    /// Reads `user.process@host`; `None` for anything else, and for what no client is called.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (user, host) = text.rsplit_once('@')?;
        let sound = !user.is_empty() && !host.is_empty() && text.len() <= TPC_ORIGIN_BYTES_MAX;
        sound.then(|| Self {
            user: user.to_owned(),
            host: host.to_owned(),
        })
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}@{}", self.user, self.host)
    }
}

/// What a client registers: who may fetch what.
#[derive(Clone)]
pub struct Offer {
    /// The key that the client made up.
    pub key: String,
    /// The file, which the client has been allowed to read.
    pub path: LogicalPath,
    /// User name and process number of the client.
    pub user: String,
    /// The host that may fetch the file (`tpc.dst`).
    pub destination: NamedHost,
    /// How long the key holds.
    pub lifetime: Duration,
}

/// What a destination comes with.
#[derive(Clone, Copy)]
pub struct Claim<'a> {
    /// The key.
    pub key: &'a str,
    /// The file.
    pub path: &'a LogicalPath,
    /// User name and process number of the client for whom it comes.
    pub user: &'a str,
    /// The destination's host as we see it.
    pub destination: &'a SeenHost,
}

/// Why an offer is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferRefusal {
    /// The key is empty or too long.
    BadKey,
    /// The key has been registered before.
    Duplicate,
    /// There are too many keys.
    Full,
}

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The file may be read, this once.
    Granted,
    /// The key is not known. The client may yet come to register it.
    Unknown,
    /// The key holds no more: it is too old, or has been used.
    Expired,
    /// The key was given to another host, for another file or by another client.
    Refused,
}

struct Entry<T> {
    offer: Offer,
    /// Kept as long as the key is remembered.
    #[expect(dead_code, reason = "it is held, not looked at")]
    held: T,
    /// From when on it does not hold. It is remembered for as long again, so that a late or second
    /// claim gets that reason.
    expires: Duration,
    used: bool,
}

/// The keys that are registered now. With each, something is kept until the key is forgotten, such
/// as a place in a count.
pub struct Rendezvous<T = ()> {
    entries: HashMap<Arc<str>, Entry<T>>,
    /// The keys in the order in which they are forgotten.
    order: BTreeSet<(Duration, Arc<str>)>,
    capacity: usize,
}

impl<T> Rendezvous<T> {
    /// A table for so many keys, those that are remembered as used or too old included.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            entries: HashMap::new(),
            order: BTreeSet::new(),
            capacity,
        }
    }

    /// Registers a key, and keeps `held` with it.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn register(&mut self, offer: Offer, held: T, now: Duration) -> Result<(), OfferRefusal> {
        if offer.key.is_empty() || offer.key.len() > TPC_KEY_BYTES_MAX {
            return Err(OfferRefusal::BadKey);
        }
        self.forget(now);
        if self.entries.contains_key(offer.key.as_str()) {
            return Err(OfferRefusal::Duplicate);
        }
        if self.entries.len() >= self.capacity {
            return Err(OfferRefusal::Full);
        }
        let key: Arc<str> = offer.key.as_str().into();
        let expires = now.saturating_add(offer.lifetime);
        let forgotten = expires.saturating_add(offer.lifetime);
        self.order.insert((forgotten, key.clone()));
        self.entries.insert(
            key,
            Entry {
                offer,
                held,
                expires,
                used: false,
            },
        );
        Ok(())
    }

    /// Decides a claim. A key that is granted is used up; one that is refused is not, so that
    /// guessed keys cannot spoil other clients' copies.
    pub fn claim(&mut self, claim: &Claim<'_>, now: Duration) -> Verdict {
        self.forget(now);
        let Some(entry) = self.entries.get_mut(claim.key) else {
            return Verdict::Unknown;
        };
        let offer = &entry.offer;
        let fits = offer.path == *claim.path && offer.user == claim.user && offer.destination.is(claim.destination);
        if !fits {
            return Verdict::Refused;
        }
        if entry.used || entry.expires <= now {
            return Verdict::Expired;
        }
        entry.used = true;
        Verdict::Granted
    }

    /// Takes back a key whose client has gone.
    pub fn withdraw(&mut self, key: &str) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.used = true;
        }
    }

    /// Whether a key is remembered.
    #[must_use]
    pub fn knows(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// How many keys are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets keys that are too old, and lets go of what is kept with them.
    pub fn forget(&mut self, now: Duration) {
        while let Some((when, key)) = self.order.first() {
            if *when > now {
                return;
            }
            self.entries.remove(key);
            self.order.pop_first();
        }
    }
}

/// Keys are not shown.
impl<T> std::fmt::Debug for Rendezvous<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Rendezvous({} keys)", self.entries.len())
    }
}
