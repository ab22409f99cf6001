//! Rendezvous keys of third-party copies with this server as the source, and the destinations that
//! wait for one.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{TPC_LOOKUP_WAIT, TPC_WAITING_MAX};
use endpoint::{ClientId, FairShare, Share, ShareKind};
use net::names::{addresses_of, name_of};
use policy::rendezvous::{Claim, NamedHost, Offer, OfferRefusal, Rendezvous, SeenHost, Verdict};
use tokio::sync::{Notify, Semaphore};
use types::limits::TPC_KEYS_MAX;
use types::{Error, ErrorCode, Phase, Side};

/// The keys that clients have registered here. Clones share them; the doors of one server do too,
/// so no key is lost on a reload.
#[derive(Clone, Debug)]
pub struct Keys(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    table: Mutex<Rendezvous<Share>>,
    fair_share: FairShare,
    started: Instant,
    /// A key has been registered.
    news: Notify,
    waiting: Semaphore,
}

impl Default for Keys {
    /// With an empty fair share.
    fn default() -> Self {
        Self::sharing(FairShare::default())
    }
}

/// A registered key; dropping this withdraws it.
#[derive(Debug)]
pub(crate) struct Registered {
    keys: Keys,
    key: String,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.keys.with(|table, _| table.withdraw(&self.key));
    }
}

impl Keys {
    /// No keys yet. Each client may register as many as its fair share allows.
    #[must_use]
    pub fn sharing(fair_share: FairShare) -> Self {
        Self(Arc::new(Inner {
            table: Mutex::new(Rendezvous::new(TPC_KEYS_MAX)),
            fair_share,
            started: Instant::now(),
            news: Notify::new(),
            waiting: Semaphore::new(TPC_WAITING_MAX),
        }))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Rendezvous<Share>, Duration) -> T) -> T {
        let now = self.0.started.elapsed();
        act(&mut self.0.table.lock().unwrap_or_else(PoisonError::into_inner), now)
    }

    /// Registers a key of a client.
    ///
    /// # Errors
    /// `bad_request` for an unusable key, `exists` for a duplicate, `overloaded`, `share_used_up`.
    pub(crate) fn register(&self, offer: Offer, client: &ClientId) -> Result<Registered, Error> {
        let key = offer.key.clone();
        let refused = |code, why: &str| Error::new(code, Side::Client, Phase::Open).with_detail(why);
        // Expired keys no longer count.
        self.with(Rendezvous::forget);
        let share = self.0.fair_share.take(ShareKind::TpcKeys, client)?;
        self.with(|table, now| table.register(offer, share, now))
            .map_err(|refusal| match refusal {
                OfferRefusal::BadKey => refused(ErrorCode::BadRequest, "tpc.key is empty or too long"),
                OfferRefusal::Duplicate => refused(ErrorCode::Exists, "duplicate key"),
                OfferRefusal::Full => refused(ErrorCode::Overloaded, "keys of third-party copies"),
            })?;
        self.0.news.notify_waiters();
        let keys = self.clone();
        Ok(Registered { keys, key })
    }

    /// Decides whether a destination may use a key.
    pub(crate) fn claim(&self, claim: &Claim<'_>) -> Verdict {
        self.with(|table, now| table.claim(claim, now))
    }

    /// Waits until a key is registered.
    ///
    /// # Errors
    /// `forbidden` on timeout, `overloaded` when too many wait.
    pub(crate) async fn appear(&self, key: String, patience: Duration) -> Result<(), Error> {
        let refused = |code, why: &str| Error::new(code, Side::Client, Phase::Authorize).with_detail(why);
        let Ok(_permit) = self.0.waiting.try_acquire() else {
            return Err(refused(ErrorCode::Overloaded, "destinations that wait for a key"));
        };
        let wait = async {
            loop {
                let news = self.0.news.notified();
                if self.with(|table, _| table.knows(&key)) {
                    return;
                }
                news.await;
            }
        };
        let waited = tokio::time::timeout(patience, wait).await;
        waited.map_err(|_| refused(ErrorCode::Forbidden, EXPIRED))
    }
}

/// The reference server's words for an expired key.
pub(crate) const EXPIRED: &str = "tpc authorization expired";

/// A host given by name, with its addresses.
pub(crate) async fn named(host: &str) -> NamedHost {
    let addresses = match NamedHost::needs_lookup(host) {
        true => addresses_of(host, TPC_LOOKUP_WAIT).await,
        false => Vec::new(),
    };
    NamedHost::new(host, addresses)
}

/// A host given by address, with its name.
pub(crate) async fn seen(address: IpAddr) -> SeenHost {
    SeenHost::new(address, name_of(address, TPC_LOOKUP_WAIT).await)
}
