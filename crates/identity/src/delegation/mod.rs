//! Delegated credentials: a client signs a proxy for a key that is made here, and we use it with
//! the peer of that client's copies (GridSite delegation, the REST form of FTS, and logins by gsi).
//!
//! A credential belongs to the client that delegated it: the subject of the end-entity certificate
//! with all VOMS attributes, and a name of the client's choice. Clients that show a limited proxy
//! have credentials of their own, so a limited proxy is of no use for a full one. Keys that wait
//! for their proxy are in memory only; complete credentials are sealed in a file each, and removed
//! when they expire.

mod files;
mod key;
mod login;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::limits::{
    DELEGATION_ID_BYTES_MAX, DELEGATION_LIFETIME_MAX, DELEGATION_REQUEST_LIFETIME, DELEGATIONS_MAX,
    DELEGATIONS_PER_USER_MAX,
};
use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use credentials::{Credential, Principal, SealingKey, VerifiedCertificate};
use gsi_wire::{Certificate, certificates_in_pem};
use net::tls::ClientIdentity;
use rustls_pki_types::CertificateDer;
use types::limits::CERTIFICATE_CHAIN_MAX;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::Authenticator;
use files::Files;
use key::DelegatedKey;
pub use login::AskedProxy;
use login::{LOGIN_ID, Waiting};

/// Where delegated credentials are kept.
#[derive(Clone, Debug)]
pub struct DelegationSettings {
    /// The directory, made when it is missing, for the owner of the process alone.
    pub directory: PathBuf,
    /// What seals them.
    pub key: SealingKey,
}

/// Who delegates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Delegator {
    dn: String,
    fqans: Vec<String>,
    /// Whether they showed a limited proxy, which must not be of use for a full one.
    is_limited: bool,
}

impl Delegator {
    /// Whom a credential belongs to; `None` for one that is no certificate, or that allows no
    /// further proxy: its holder can delegate nothing, so nothing delegated is theirs.
    #[must_use]
    pub fn of(credential: &Credential) -> Option<Self> {
        let Credential::Certificate(certificate) = credential else {
            return None;
        };
        certificate.allows_proxies.then(|| Self::holder(certificate))?
    }

    fn holder(certificate: &VerifiedCertificate) -> Option<Self> {
        let Principal { dn, fqans, .. } = &certificate.principal;
        Some(Self {
            dn: dn.clone()?,
            fqans: fqans.clone(),
            is_limited: certificate.is_limited,
        })
    }

    /// The name under which FTS' clients delegate: the beginning of SHA-1 over the subject and all
    /// attributes.
    #[must_use]
    pub fn id(&self) -> String {
        let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        hash.update(self.dn.as_bytes());
        self.fqans.iter().for_each(|fqan| hash.update(fqan.as_bytes()));
        hex(&hash.finish().as_ref()[..8])
    }

    /// The subject.
    #[must_use]
    pub fn dn(&self) -> &str {
        &self.dn
    }

    /// The attributes of VOMS.
    #[must_use]
    pub fn fqans(&self) -> &[String] {
        &self.fqans
    }

    /// Whether they may use a credential of `whose`: the same subject, and limited if theirs is.
    fn may_hold(&self, whose: &Self) -> bool {
        self.dn == whose.dn && (whose.is_limited || !self.is_limited)
    }

    /// Where a credential of this name may be in the store: logins give none, and theirs counts
    /// under the user's own name.
    fn slots(&self, id: &str) -> impl Iterator<Item = String> + use<> {
        let login = (id == self.id()).then(|| self.slot(LOGIN_ID));
        std::iter::once(self.slot(id)).chain(login)
    }

    /// The name of a credential of theirs in the store.
    fn slot(&self, id: &str) -> String {
        let mut hash = Context::new(&SHA256);
        for part in [&self.dn, &self.fqans.join("\n"), id] {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        if self.is_limited {
            hash.update(b"limited");
        }
        hex(&hash.finish().as_ref()[..16])
    }
}

/// A credential that is complete.
struct Delegated {
    owner: Delegator,
    identity: ClientIdentity,
    /// The end of the first of its certificates and VOMS attributes that ends, or of the time for
    /// which it may be kept, in seconds since 1970.
    expires_s: i64,
}

/// A key that waits for its proxy.
struct Pending {
    owner: Delegator,
    key: DelegatedKey,
    expires_s: i64,
}

#[derive(Default)]
struct Shelves {
    delegated: HashMap<String, Delegated>,
    pending: HashMap<String, Pending>,
    waiting: Waiting,
}

impl Shelves {
    /// The credential of a user that is valid longest.
    fn longest(&self, owner: &Delegator) -> Option<&Delegated> {
        let theirs = self.delegated.values().filter(|entry| entry.owner == *owner);
        theirs.max_by_key(|entry| entry.expires_s)
    }
}

/// The delegated credentials of a server. Clones share them.
#[derive(Clone)]
pub struct Delegations(Arc<Inner>);

struct Inner {
    files: Files,
    shelves: Mutex<Shelves>,
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
    /// alone.
    ///
    /// # Errors
    /// When the directory cannot be made or read, or others may look into it.
    pub fn open(settings: DelegationSettings) -> std::io::Result<Self> {
        let files = Files::open(settings)?;
        let mut shelves = Shelves::default();
        for (slot, delegated) in files.read_all(now_s())? {
            shelves.delegated.insert(slot, delegated);
        }
        let inner = Arc::new(Inner {
            files,
            shelves: Mutex::new(shelves),
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

    /// Makes a key and the request to be signed for it, in PEM. A request that was made a while ago
    /// and has not been answered is replaced. It takes a fraction of a second of computing: not for
    /// a thread that serves others.
    ///
    /// # Errors
    /// `bad_request` for a name that cannot be one; `overloaded` when there are too many.
    pub fn request(&self, owner: &Delegator, id: &str) -> Result<String> {
        let slot = checked_slot(owner, id)?;
        check_room(&self.0.current(), owner, &slot)?;
        let key = DelegatedKey::generate()?;
        let request = key.request()?;
        let expires_s = now_s() + seconds(DELEGATION_REQUEST_LIFETIME);
        let owner = owner.clone();
        self.0.current().pending.insert(slot, Pending { owner, key, expires_s });
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
        let chain = read_chain(chain)?;
        let (whose, credential_ends_s) = verified(&authenticator.certificates(Some(&chain)))?;
        if !owner.may_hold(&whose) {
            return Err(refused(
                "the proxy belongs to another identity than its sender, or is more than limited",
            ));
        }
        let pending = self.0.current().pending.remove(&slot);
        let pending = pending.ok_or_else(|| refused("no request has been made, or it is too old: ask for one"))?;
        if !pending.key.is_that_of(&chain[0]) {
            return Err(refused("the proxy is for another key than that of the request"));
        }
        let identity = pending.key.into_identity(chain)?;
        let expires_s = identity.expires_s().min(credential_ends_s).min(latest_end_s());
        let owner = owner.clone();
        self.0.store(
            slot,
            Delegated {
                owner,
                identity,
                expires_s,
            },
        )?;
        Ok(expires_s)
    }

    /// When a stored credential ends, in seconds since 1970; `None`: there is none. Under the name
    /// [`Delegator::id`] the one of the user's logins counts too.
    #[must_use]
    pub fn expires_s(&self, owner: &Delegator, id: &str) -> Option<i64> {
        let shelves = self.0.current();
        let kept = owner.slots(id).filter_map(|slot| shelves.delegated.get(&slot));
        kept.map(|entry| entry.expires_s).max()
    }

    /// Forgets a credential and a request; whether there was one. Under the name [`Delegator::id`]
    /// the one of the user's logins goes too.
    pub fn remove(&self, owner: &Delegator, id: &str) -> bool {
        let mut shelves = self.0.current();
        let mut had = false;
        for slot in owner.slots(id) {
            shelves.pending.remove(&slot);
            had |= shelves.delegated.remove(&slot).is_some();
            self.0.files.remove(&slot);
        }
        had
    }

    /// The credential of a user that holds longest, when it holds for another `left` at least.
    #[must_use]
    pub fn identity(&self, owner: &Delegator, left: Duration) -> Option<ClientIdentity> {
        let needed_s = now_s() + seconds(left);
        let shelves = self.0.current();
        let longest = shelves.longest(owner)?;
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

    /// Keeps a credential, in a file first.
    fn store(&self, slot: String, delegated: Delegated) -> Result<()> {
        self.files.write(&slot, &delegated)?;
        self.current().delegated.insert(slot, delegated);
        Ok(())
    }
}

/// Whose a credential is, and when its first certificate or VOMS attribute ends, in seconds since
/// 1970.
///
/// # Errors
/// Those of a chain that is not believed.
fn verified(credential: &Credential) -> Result<(Delegator, i64)> {
    let unaccepted = || refused("certificates of clients are not accepted here");
    match credential {
        // It may be one that allows no further proxy: it is only shown.
        Credential::Certificate(certificate) => {
            let whose = Delegator::holder(certificate).ok_or_else(unaccepted)?;
            Ok((whose, certificate.expires_s))
        }
        Credential::RefusedCertificate(error) => Err((**error).clone()),
        _ => Err(unaccepted()),
    }
}

/// Whether there is room for one more credential of this user under this name.
fn check_room(shelves: &Shelves, owner: &Delegator, slot: &str) -> Result<()> {
    let pending = shelves.pending.iter().map(|(slot, entry)| (slot, &entry.owner));
    let delegated = shelves.delegated.iter().map(|(slot, entry)| (slot, &entry.owner));
    let (mut all, mut theirs) = (0, 0);
    for (_, whose) in pending.chain(delegated).filter(|(taken, _)| *taken != slot) {
        all += 1;
        theirs += usize::from(whose == owner);
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

fn read_chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let chain = certificates_in_pem(pem).map_err(|why| refused(&why.to_string()))?;
    if !(2..=CERTIFICATE_CHAIN_MAX).contains(&chain.len()) {
        return Err(refused("a proxy comes with the certificate that signed it"));
    }
    let leaf = Certificate::parse(&chain[0]).map_err(|why| refused(&why.to_string()))?;
    if leaf.proxy_kind().ok().flatten().is_none() {
        return Err(refused("the first certificate is no proxy"));
    }
    drop(leaf);
    Ok(chain.into_iter().map(CertificateDer::from).collect())
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
