//! Limits how much of a limited resource one client can hold.
//!
//! A client is an address and, once authenticated, an identity; both are counted. The rule is that
//! of dynamic thresholds (Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998):
//! with a share of one half, a client may hold as many as are still free. A single client gets
//! half, two get a third each, and there is always as much left for the next client as each of them
//! has.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::idle::{IdleConnection, IdleConnections};
use crate::limits::LEAVING_CONNECTIONS_MAX;
use credentials::Credential;
use types::limits::{CLIENT_SHARE_MIN, CLIENT_SHARE_PERCENT};
use types::{Error, ErrorCode, Phase, Result, Side};

/// The resources that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShareKind {
    /// Client connections.
    Connections,
    /// Open files in the XRootD protocol, beyond the first of each session.
    OpenFiles,
    /// Registered keys of XRootD third-party copies.
    TpcKeys,
    /// Third-party copies that this server runs as the active side.
    Transfers,
    /// Checksums that are being computed or wait for a slot.
    Checksums,
    /// Trees that are being removed or copied as a whole.
    Trees,
    /// WebDAV locks.
    Locks,
    /// Memory for bodies of requests that are read as a whole, and for bytes of uploads that came
    /// before their turn at a store that needs them in order, in pieces of
    /// [`BODY_PIECE_BYTES`](crate::limits::BODY_PIECE_BYTES).
    Bodies,
}

impl ShareKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Connections,
        Self::OpenFiles,
        Self::TpcKeys,
        Self::Transfers,
        Self::Checksums,
        Self::Trees,
        Self::Locks,
        Self::Bodies,
    ];

    /// The name in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::OpenFiles => "open_files",
            Self::TpcKeys => "tpc_keys",
            Self::Transfers => "transfers",
            Self::Checksums => "checksums",
            Self::Trees => "trees",
            Self::Locks => "locks",
            Self::Bodies => "bodies",
        }
    }
}

/// The total of each resource, and the share of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareLimits {
    /// See [`ShareKind::Connections`].
    pub connections: usize,
    /// See [`ShareKind::OpenFiles`].
    pub open_files: usize,
    /// See [`ShareKind::TpcKeys`].
    pub tpc_keys: usize,
    /// See [`ShareKind::Transfers`].
    pub transfers: usize,
    /// See [`ShareKind::Checksums`].
    pub checksums: usize,
    /// See [`ShareKind::Trees`].
    pub trees: usize,
    /// See [`ShareKind::Locks`].
    pub locks: usize,
    /// See [`ShareKind::Bodies`].
    pub bodies: usize,
    /// Percentage of each total for a client that is alone; 100 means all.
    pub client_percent: u32,
}

impl ShareLimits {
    fn of(&self, kind: ShareKind) -> usize {
        match kind {
            ShareKind::Connections => self.connections,
            ShareKind::OpenFiles => self.open_files,
            ShareKind::TpcKeys => self.tpc_keys,
            ShareKind::Transfers => self.transfers,
            ShareKind::Checksums => self.checksums,
            ShareKind::Trees => self.trees,
            ShareKind::Locks => self.locks,
            ShareKind::Bodies => self.bodies,
        }
    }
}

impl Default for ShareLimits {
    /// No limits.
    fn default() -> Self {
        Self {
            connections: usize::MAX,
            open_files: usize::MAX,
            tpc_keys: usize::MAX,
            transfers: usize::MAX,
            checksums: usize::MAX,
            trees: usize::MAX,
            locks: usize::MAX,
            bodies: usize::MAX,
            client_percent: CLIENT_SHARE_PERCENT,
        }
    }
}

/// One client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientId {
    address: IpAddr,
    identity: Option<Arc<str>>,
}

impl ClientId {
    /// The client at this address. IPv6 addresses are truncated to 64 bits, because a host can
    /// choose the rest freely.
    #[must_use]
    pub fn at(address: IpAddr) -> Self {
        let address = match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) >> 64 << 64)),
            address => address,
        };
        Self {
            address,
            identity: None,
        }
    }

    /// This program itself, as the only client.
    #[must_use]
    pub fn own() -> Self {
        Self::at(Ipv4Addr::UNSPECIFIED.into())
    }

    /// The same client, once authenticated.
    #[must_use]
    pub fn with(mut self, credential: &Credential) -> Self {
        self.identity = identity_of(credential);
        self
    }

    /// The same client after it sent a credential, which may be invalid.
    #[must_use]
    pub fn showing(self, credential: &Result<Arc<Credential>>) -> Self {
        match credential {
            Ok(credential) => self.with(credential),
            Err(_) => self,
        }
    }

    fn holders(&self) -> impl Iterator<Item = Holder> + use<> {
        let identity = self.identity.clone().map(Holder::Identity);
        std::iter::once(Holder::Address(self.address)).chain(identity)
    }
}

/// The key that identifies a credential's holder; `None` if it is anonymous.
pub(crate) fn identity_of(credential: &Credential) -> Option<Arc<str>> {
    let identity = credential.identity();
    let name = identity.subject.or(identity.token_id)?;
    let issuer = identity.issuer.unwrap_or_default();
    Some(format!("{} {issuer} {name}", identity.kind.name()).into())
}

/// What a client is counted by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Address(IpAddr),
    Identity(Arc<str>),
}

/// A client that was refused because its share is used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareUsedUp {
    /// The resource.
    pub kind: ShareKind,
    /// Its address, or its IPv6 network of 64 bits.
    pub address: Option<IpAddr>,
    /// Its identity, if that was counted.
    pub identity: Option<String>,
    /// How many it holds.
    pub held: usize,
    /// The total for all clients.
    pub limit: usize,
    /// Whether this is the first refusal since it last held half as many.
    pub is_first: bool,
}

/// Receives reports about used-up shares. The call must return at once.
pub trait ShareEvents: Send + Sync + 'static {
    /// A client was refused because its share is used up.
    fn share_used_up(&self, record: &ShareUsedUp);
}

/// Counts what each client holds and refuses what exceeds its share. One per server, shared by all
/// doors; clones share the counts.
#[derive(Clone)]
pub struct FairShare(Arc<Inner>);

struct Inner {
    idle: IdleConnections,
    pools: [Pool; ShareKind::ALL.len()],
    client_percent: AtomicUsize,
    events: Option<Arc<dyn ShareEvents>>,
}

#[derive(Default)]
struct Pool {
    limit: AtomicUsize,
    /// The sum over `held`, readable without the lock.
    total: AtomicUsize,
    held: Mutex<HashMap<Holder, Held>>,
}

#[derive(Default)]
struct Held {
    count: usize,
    /// How many it held when it was last refused; 0 if never.
    refused_at: usize,
}

impl Default for FairShare {
    /// Refuses nothing.
    fn default() -> Self {
        Self::new(&ShareLimits::default(), None)
    }
}

impl FairShare {
    /// A fair share with these limits.
    #[must_use]
    pub fn new(limits: &ShareLimits, events: Option<Arc<dyn ShareEvents>>) -> Self {
        let fair = Self(Arc::new(Inner {
            idle: IdleConnections::default(),
            pools: Default::default(),
            client_percent: AtomicUsize::new(0),
            events,
        }));
        fair.set_limits(limits);
        fair
    }

    /// Changes the limits. What is held stays held.
    pub fn set_limits(&self, limits: &ShareLimits) {
        for kind in ShareKind::ALL {
            self.pool(kind).limit.store(limits.of(kind), Ordering::Relaxed);
        }
        let percent = limits.client_percent.min(100) as usize;
        self.0.client_percent.store(percent, Ordering::Relaxed);
    }

    fn pool(&self, kind: ShareKind) -> &Pool {
        &self.0.pools[kind as usize]
    }

    /// Takes one for a client.
    ///
    /// # Errors
    /// `overloaded` when none is left, `share_used_up` when the client has its share.
    pub fn take(&self, kind: ShareKind, client: &ClientId) -> Result<Share> {
        self.take_many(kind, client, 1)
    }

    /// Takes so many for a client, or none: of several who want more than there is, one goes on.
    ///
    /// # Errors
    /// As [`FairShare::take`].
    pub fn take_many(&self, kind: ShareKind, client: &ClientId, count: usize) -> Result<Share> {
        let limit = self.limit(kind);
        self.take_for(kind, client.holders().collect(), Some(limit), count)
    }

    /// Takes a connection for a client. When the client has its share, its own connection that has
    /// been idle longest ends; when none is left, that of all. Until it has ended, up to
    /// [`LEAVING_CONNECTIONS_MAX`] more than the limit are open.
    ///
    /// # Errors
    /// `overloaded` when none is left and none is idle, `share_used_up` when the client has its
    /// share and none of its connections is idle.
    pub fn take_connection(&self, client: &ClientId) -> Result<Share> {
        let kind = ShareKind::Connections;
        let with_leaving = self.limit(kind).saturating_add(LEAVING_CONNECTIONS_MAX);
        let holder = Holder::Address(client.address);
        if self.has_share(kind, &holder) && self.0.idle.dismiss_longest(Some(client.address)) {
            return self.exchange(kind, client.holders().collect(), with_leaving);
        }
        let refusal = match self.take(kind, client) {
            Err(error) if error.code() == ErrorCode::Overloaded => error,
            other => return other,
        };
        let share = self.take_for(kind, client.holders().collect(), Some(with_leaving), 1)?;
        match self.0.idle.dismiss_longest(None) {
            true => Ok(share),
            false => Err(refusal),
        }
    }

    /// Whether a client can take no more.
    fn has_share(&self, kind: ShareKind, holder: &Holder) -> bool {
        let (pool, percent) = (self.pool(kind), self.0.client_percent.load(Ordering::Relaxed));
        let held = pool.lock();
        let free = self.limit(kind).saturating_sub(pool.total.load(Ordering::Relaxed));
        let has = held.get(holder).map_or(0, |held| held.count);
        !is_within(has, free, percent)
    }

    /// Takes one in exchange for another of the same client, which is about to be given back.
    fn exchange(&self, kind: ShareKind, holders: Vec<Holder>, limit: usize) -> Result<Share> {
        let pool = self.pool(kind);
        let mut held = pool.lock();
        let total = pool.total.load(Ordering::Relaxed);
        if total >= limit {
            return Err(refused(ErrorCode::Overloaded, format!("{}: {limit}", kind.name())));
        }
        for holder in &holders {
            held.entry(holder.clone()).or_default().count += 1;
        }
        pool.total.store(total + 1, Ordering::Relaxed);
        drop(held);
        Ok(Share {
            fair: self.clone(),
            kind,
            holders,
            is_new: true,
            count: 1,
        })
    }

    /// Adds a connection of a client to those that make room for others while they are idle.
    #[must_use]
    pub fn open_connection(&self, client: &ClientId) -> IdleConnection {
        self.0.idle.add(client.address)
    }

    /// Counts one that an authenticated client already holds for its identity too; `None` if it is
    /// anonymous.
    ///
    /// # Errors
    /// `share_used_up`.
    pub fn identify(&self, kind: ShareKind, credential: &Credential) -> Result<Option<Share>> {
        let Some(identity) = identity_of(credential) else {
            return Ok(None);
        };
        self.take_for(kind, vec![Holder::Identity(identity)], None, 1).map(Some)
    }

    /// Takes so many for these holders. They are new ones within this total, or counted already.
    fn take_for(
        &self,
        kind: ShareKind,
        holders: Vec<Holder>,
        new_within: Option<usize>,
        count: usize,
    ) -> Result<Share> {
        let pool = self.pool(kind);
        let (limit, is_new) = (new_within.unwrap_or(self.limit(kind)), new_within.is_some());
        let percent = self.0.client_percent.load(Ordering::Relaxed);
        let mut held = pool.lock();
        let total = pool.total.load(Ordering::Relaxed);
        let before_last = count.saturating_sub(1);
        if is_new && total.saturating_add(before_last) >= limit {
            return Err(refused(ErrorCode::Overloaded, format!("{}: {limit}", kind.name())));
        }
        let free = limit.saturating_sub(total + before_last);
        for holder in &holders {
            let state = held.get_mut(holder);
            let has = state.as_ref().map_or(0, |state| state.count);
            if is_within(has + before_last, free, percent) {
                continue;
            }
            let is_first = state.is_none_or(|state| std::mem::replace(&mut state.refused_at, has) == 0);
            let record = used_up(kind, holder, has, limit, is_first);
            drop(held);
            if let Some(events) = &self.0.events {
                events.share_used_up(&record);
            }
            let more = if count > 1 {
                format!(", {count} more wanted")
            } else {
                String::new()
            };
            let detail = format!("{}: {has} of {limit}{more}", kind.name());
            return Err(refused(ErrorCode::ShareUsedUp, detail));
        }
        for holder in &holders {
            held.entry(holder.clone()).or_default().count += count;
        }
        let is_counted = usize::from(is_new);
        pool.total.store(total + count * is_counted, Ordering::Relaxed);
        drop(held);
        Ok(Share {
            fair: self.clone(),
            kind,
            holders,
            is_new,
            count,
        })
    }

    /// Whether so much is in use that idle holders should give theirs back early.
    #[must_use]
    pub fn is_short(&self, kind: ShareKind) -> bool {
        let limit = self.limit(kind);
        self.in_use(kind) >= limit - limit / 4
    }

    /// How many are in use.
    #[must_use]
    pub fn in_use(&self, kind: ShareKind) -> usize {
        self.pool(kind).total.load(Ordering::Relaxed)
    }

    /// The total for all clients.
    #[must_use]
    pub fn limit(&self, kind: ShareKind) -> usize {
        self.pool(kind).limit.load(Ordering::Relaxed)
    }
}

/// Whether a client that holds `count` may take one more while this many are free. Small counts are
/// always allowed.
fn is_within(count: usize, free: usize, percent: usize) -> bool {
    count < CLIENT_SHARE_MIN || count.saturating_mul(100 - percent) < free.saturating_mul(percent)
}

fn refused(code: ErrorCode, detail: String) -> Error {
    Error::new(code, Side::Active, Phase::Open).with_detail(detail)
}

fn used_up(kind: ShareKind, holder: &Holder, held: usize, limit: usize, is_first: bool) -> ShareUsedUp {
    let (address, identity) = match holder {
        Holder::Address(address) => (Some(*address), None),
        Holder::Identity(identity) => (None, Some(identity.to_string())),
    };
    ShareUsedUp {
        kind,
        address,
        identity,
        held,
        limit,
        is_first,
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, HashMap<Holder, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One unit of a resource, or several that were taken together, given back on drop.
pub struct Share {
    fair: FairShare,
    kind: ShareKind,
    holders: Vec<Holder>,
    is_new: bool,
    count: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        let pool = self.fair.pool(self.kind);
        let mut held = pool.lock();
        for holder in self.holders.drain(..) {
            if let Entry::Occupied(mut entry) = held.entry(holder) {
                let state = entry.get_mut();
                state.count -= self.count;
                if state.count <= state.refused_at / 2 {
                    state.refused_at = 0;
                }
                if state.count == 0 {
                    entry.remove();
                }
            }
        }
        let total = pool.total.load(Ordering::Relaxed) - self.count * usize::from(self.is_new);
        pool.total.store(total, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Share {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Share({})", self.kind.name())
    }
}

impl std::fmt::Debug for FairShare {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let limits = ShareKind::ALL.map(|kind| (kind.name(), self.limit(kind)));
        let percent = self.0.client_percent.load(Ordering::Relaxed);
        write!(formatter, "FairShare({limits:?}, {percent} %)")
    }
}

#[cfg(test)]
mod tests;
