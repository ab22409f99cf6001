//! Delegated credentials: a client signs a proxy for a key that is made here, and we use it with
//! the peer of that client's copies (GridSite delegation, the REST form of FTS, and logins by gsi).
//!
//! A credential belongs to the client that delegated it: subject and issuer of the end-entity
//! certificate with all VOMS attributes in their order, and a name of the client's choice. Clients
//! that show a limited proxy have credentials of their own, so a limited proxy is of no use for a
//! full one. Keys that wait for their proxy are in memory only, and few are made for one user;
//! complete credentials are sealed in a file each, and removed when they expire. A file that is
//! removed withdraws its credential.

mod files;
mod key;
mod key_rate;
mod login;
mod owner;
mod signed;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::limits::{
    DELEGATION_ID_BYTES_MAX, DELEGATION_LIFETIME_MAX, DELEGATION_REQUEST_LIFETIME, DELEGATIONS_MAX,
    DELEGATIONS_PER_USER_MAX,
};
use credentials::SealingKey;
use credentials::x509::has_sha1_proxy;
use net::tls::ClientIdentity;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::{Authenticator, ShownBy};
use files::Files;
pub use key::DelegatedKey;
pub use key_rate::KeyRate;
use login::Waiting;
pub use login::{AskedProxy, KeptProxy, LoginProxy};
pub use owner::{Delegator, certificate_needed};
use signed::verified;
pub use signed::{Accepted, SignedProxy, request_missing};

/// Where delegated credentials are kept.
#[derive(Clone, Debug)]
pub struct DelegationSettings {
    /// The directory, made when it is missing, for the owner of the process alone.
    pub directory: PathBuf,
    /// What seals them.
    pub key: SealingKey,
}

/// A credential that is complete.
struct Delegated {
    owner: Delegator,
    identity: ClientIdentity,
    /// The end of the first of its certificates and VOMS attributes that ends, or of the time for
    /// which it may be kept, in seconds since 1970.
    expires_s: i64,
    /// Whether servers accept it over TLS too, and not only by gsi.
    is_for_tls: bool,
}

impl Delegated {
    fn new(owner: Delegator, identity: ClientIdentity, expires_s: i64) -> Self {
        Self {
            is_for_tls: !has_sha1_proxy(identity.chain().iter().map(AsRef::as_ref)),
            owner,
            identity,
            expires_s,
        }
    }

    fn serves(&self, shown_by: ShownBy) -> bool {
        self.is_for_tls || shown_by == ShownBy::Gsi
    }
}

/// A key that waits for its proxy.
struct Pending {
    owner: Delegator,
    key: DelegatedKey,
    /// The request for it, in PEM.
    request: String,
    expires_s: i64,
}

#[derive(Default)]
struct Shelves {
    delegated: HashMap<String, Delegated>,
    pending: HashMap<String, Pending>,
    waiting: Waiting,
    rate: KeyRate,
}

/// The delegated credentials of a server. Clones share them.
#[derive(Clone)]
pub struct Delegations(Arc<Inner>);

struct Inner {
    files: Files,
    shelves: Mutex<Shelves>,
    /// Old files that were removed at the start.
    without_issuer: usize,
}

impl std::fmt::Debug for Delegations {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Delegations({})", self.0.files.directory().display())
    }
}

/// How often expired credentials are removed, besides at each request for one.
const SWEEP_PERIOD: Duration = Duration::from_secs(300);

impl Delegations {
    /// Opens the store and reads what is in it. Files that were sealed with another key are left
    /// alone. Files of servers before 0.2 do not say which authority issued the certificate of
    /// their owner; they are removed.
    ///
    /// # Errors
    /// When the directory cannot be made or read, or others may look into it.
    pub fn open(settings: DelegationSettings) -> std::io::Result<Self> {
        let files = Files::open(settings)?;
        let mut shelves = Shelves::default();
        let stored = files.read_all(now_s())?;
        shelves.delegated.extend(stored.all);
        let inner = Arc::new(Inner {
            files,
            shelves: Mutex::new(shelves),
            without_issuer: stored.without_issuer,
        });
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let kept = Arc::downgrade(&inner);
            runtime.spawn(async move {
                loop {
                    tokio::time::sleep(SWEEP_PERIOD).await;
                    let Some(inner) = kept.upgrade() else { return };
                    drop(inner.current());
                }
            });
        }
        Ok(Self(inner))
    }

    /// Whether this is the same store, opened once.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many files without an issuer were removed when this was opened.
    #[must_use]
    pub fn removed_without_issuer(&self) -> usize {
        self.0.without_issuer
    }

    /// Makes a key and the request to be signed for it, in PEM. A request that waits already is
    /// given again, so that two programs of a user can delegate at once; in its second half of time
    /// it is replaced. It takes a fraction of a second of computing: not for a thread that serves
    /// others.
    ///
    /// # Errors
    /// `bad_request` for a name that cannot be one; `overloaded` when there are too many, or the
    /// user has had too many keys lately.
    pub fn request(&self, owner: &Delegator, id: &str) -> Result<String> {
        let slot = checked_slot(owner, id)?;
        {
            let mut shelves = self.0.current();
            let lasting_s = now_s() + seconds(DELEGATION_REQUEST_LIFETIME / 2);
            if let Some(waiting) = shelves.pending.get(&slot).filter(|entry| entry.expires_s > lasting_s) {
                return Ok(waiting.request.clone());
            }
            check_room(&shelves, owner, &slot)?;
            shelves.rate.count(owner, Instant::now())?;
        }
        let key = DelegatedKey::generate()?;
        let request = key.request()?;
        let pending = Pending {
            owner: owner.clone(),
            key,
            request: request.clone(),
            expires_s: now_s() + seconds(DELEGATION_REQUEST_LIFETIME),
        };
        self.0.current().pending.insert(slot, pending);
        Ok(request)
    }

    /// Takes the signed proxy with its chain, in PEM. Gives the time when it ends or is removed, in
    /// seconds since 1970.
    ///
    /// # Errors
    /// `delegation_refused` when there was no request, or the proxy is not for its key or not of
    /// this user; those of a certificate that is not believed; `storage_failed` when it cannot be
    /// kept.
    pub fn put(&self, owner: &Delegator, id: &str, chain: &[u8], authenticator: &Authenticator) -> Result<i64> {
        let slot = checked_slot(owner, id)?;
        let signed = SignedProxy::read(owner, chain, authenticator)?;
        let accepted = self.0.completed(&slot, signed)?;
        let expires_s = accepted.expires_s;
        let delegated = Delegated::new(owner.clone(), accepted.identity, expires_s);
        self.0.store(slot, delegated)?;
        Ok(expires_s)
    }

    /// When a stored credential ends that can be shown in this way, in seconds since 1970; `None`:
    /// there is none. Under the name [`Delegator::id`] all of the user's count: each serves their
    /// copies. One that is signed with SHA-1 can be shown by gsi only.
    #[must_use]
    pub fn expires_s(&self, owner: &Delegator, id: &str, shown_by: ShownBy) -> Option<i64> {
        let mut shelves = self.0.current();
        self.0.forget_removed(&mut shelves, owner);
        let slot = owner.slot(id);
        let kept = shelves.delegated.iter();
        let kept = kept.filter(|(kept, entry)| **kept == slot || (id == owner.id() && entry.owner == *owner));
        let useful = kept.filter(|(_, entry)| entry.serves(shown_by));
        useful.map(|(_, entry)| entry.expires_s).max()
    }

    /// Forgets a credential and a request; whether there was one. Under the name [`Delegator::id`]
    /// all of the user's go.
    pub fn remove(&self, owner: &Delegator, id: &str) -> bool {
        let mut shelves = self.0.current();
        let slot = owner.slot(id);
        let is_meant = |kept: &str, whose: &Delegator| kept == slot || (id == owner.id() && whose == owner);
        shelves.pending.retain(|kept, entry| !is_meant(kept, &entry.owner));
        let before = shelves.delegated.len();
        shelves.delegated.retain(|kept, entry| {
            let is_meant = is_meant(kept, &entry.owner);
            if is_meant {
                self.0.files.remove(kept);
            }
            !is_meant
        });
        shelves.delegated.len() < before
    }

    /// The credential of a user that is valid longest, if it is valid for another `left` at least.
    /// One that is signed with SHA-1 can be shown by gsi only.
    #[must_use]
    pub fn identity(&self, owner: &Delegator, left: Duration, shown_by: ShownBy) -> Option<ClientIdentity> {
        let needed_s = now_s() + seconds(left);
        let mut shelves = self.0.current();
        let longest = self.0.longest(&mut shelves, owner, shown_by)?;
        (longest.expires_s >= needed_s).then(|| longest.identity.clone())
    }
}

impl Inner {
    /// What is there now: all that has ended is removed first.
    fn current(&self) -> MutexGuard<'_, Shelves> {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let now_s = now_s();
        shelves.pending.retain(|_, entry| entry.expires_s > now_s);
        shelves.waiting.forget_old(now_s);
        shelves.delegated.retain(|slot, entry| {
            let holds = entry.expires_s > now_s;
            if !holds {
                self.files.remove(slot);
            }
            holds
        });
        shelves
    }

    /// Drops what an administrator has removed of a user's credentials.
    fn forget_removed(&self, shelves: &mut Shelves, owner: &Delegator) {
        let is_there = |slot: &String, entry: &mut Delegated| entry.owner != *owner || self.files.has(slot);
        shelves.delegated.retain(is_there);
    }

    /// The credential of a user that is valid longest and can be shown in this way.
    fn longest<'s>(&self, shelves: &'s mut Shelves, owner: &Delegator, shown_by: ShownBy) -> Option<&'s Delegated> {
        self.forget_removed(shelves, owner);
        let theirs = shelves.delegated.values().filter(|entry| entry.owner == *owner);
        let useful = theirs.filter(|entry| entry.serves(shown_by));
        useful.max_by_key(|entry| entry.expires_s)
    }

    /// A proxy with the key that it was signed for: the waiting one, or if another proxy has been
    /// signed for the same request meanwhile, that of the stored one.
    fn completed(&self, slot: &str, signed: SignedProxy) -> Result<Accepted> {
        let mut shelves = self.current();
        match (shelves.pending.remove(slot), shelves.delegated.get(slot)) {
            (Some(pending), _) => signed.with_key(pending.key),
            (None, Some(stored)) => signed.with_key_of(&stored.identity),
            (None, None) => Err(request_missing()),
        }
    }

    /// Keeps a credential, in a file first.
    fn store(&self, slot: String, delegated: Delegated) -> Result<()> {
        self.files.write(&slot, &delegated)?;
        self.current().delegated.insert(slot, delegated);
        Ok(())
    }
}

/// Whether there is room for one more credential of this user under this name. All VOMS attributes,
/// and all orders of them, count together.
fn check_room(shelves: &Shelves, owner: &Delegator, slot: &str) -> Result<()> {
    let pending = shelves.pending.iter().map(|(slot, entry)| (slot, &entry.owner));
    let delegated = shelves.delegated.iter().map(|(slot, entry)| (slot, &entry.owner));
    let (mut all, mut theirs) = (0, 0);
    for (_, whose) in pending.chain(delegated).filter(|(taken, _)| *taken != slot) {
        all += 1;
        theirs += usize::from(whose.is_same_person(owner));
    }
    match (theirs, all) {
        (DELEGATIONS_PER_USER_MAX.., _) => full("delegated credentials of one user", DELEGATIONS_PER_USER_MAX),
        (_, DELEGATIONS_MAX..) => full("delegated credentials", DELEGATIONS_MAX),
        _ => Ok(()),
    }
}

fn full(what: &str, most: usize) -> Result<()> {
    let error = Error::new(ErrorCode::Overloaded, Side::Active, Phase::Authenticate);
    Err(error.with_detail(format!("{what}: {most}")))
}

fn checked_slot(owner: &Delegator, id: &str) -> Result<String> {
    if id.len() > DELEGATION_ID_BYTES_MAX {
        let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Authenticate);
        return Err(error.with_detail("the name of the delegated credential is too long"));
    }
    Ok(owner.slot(id))
}

fn refused(why: &str) -> Error {
    Error::new(ErrorCode::DelegationRefused, Side::Client, Phase::Authenticate).with_detail(why)
}

/// Seconds since 1970.
fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, seconds)
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX / 2)
}

/// When a credential that is stored now is removed at the latest, in seconds since 1970.
fn latest_end_s() -> i64 {
    now_s() + seconds(DELEGATION_LIFETIME_MAX)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
