//! Delegated proxies: users sign one for a key that is made here, and copies show it to storages.
//!
//! Keys and proxies are sealed in the catalog, so that one process can take what another has asked
//! for, and all of them use it. A user has one proxy for each list of VOMS attributes; a newer one
//! takes its place, and the next attempt of each copy shows it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use catalog::{Catalog, SealedSecret, SecretKind};
use identity::Authenticator;
use identity::delegation::{Accepted, DelegatedKey, Delegator, KeyRate, SignedProxy, request_missing};
use identity::limits::{DELEGATION_REQUEST_LIFETIME, DELEGATIONS_MAX, DELEGATIONS_PER_USER_MAX};
use net::tls::ClientIdentity;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::Vault;
use crate::clock::{milliseconds, now_ms};
use crate::limits::OPENED_PROXIES_MAX;

/// The delegated proxies of all users. Clones share them.
#[derive(Clone)]
pub struct Proxies(Arc<Inner>);

struct Inner {
    catalog: Catalog,
    vault: Vault,
    authenticator: Authenticator,
    rate: Mutex<KeyRate>,
    opened: Mutex<HashMap<String, Opened>>,
}

/// A proxy that was opened before: connections and TLS sessions belong to its identity.
struct Opened {
    sealed: Vec<u8>,
    identity: ClientIdentity,
}

impl Proxies {
    /// Proxies in this catalog. `authenticator` verifies what clients sign.
    #[must_use]
    pub fn new(catalog: Catalog, vault: Vault, authenticator: Authenticator) -> Self {
        Self(Arc::new(Inner {
            catalog,
            vault,
            authenticator,
            rate: Mutex::default(),
            opened: Mutex::default(),
        }))
    }

    /// The request to be signed for the user's next proxy, in PEM. One that waits already is given
    /// again, so that two programs of a user can delegate at once; in its second half of time it is
    /// replaced.
    ///
    /// # Errors
    /// `overloaded` when there are too many, or the user has had too many keys lately; those of the
    /// catalog.
    pub async fn request(&self, owner: &Delegator) -> Result<String> {
        let (name, now_ms) = (proxy_name(owner), now_ms());
        let until_ms = now_ms + milliseconds(DELEGATION_REQUEST_LIFETIME) / 2;
        let kept = self.0.catalog.secret(SecretKind::DelegationKey, &name).await?;
        if let Some(kept) = kept.filter(|kept| kept.expires_ms.is_some_and(|end_ms| end_ms >= until_ms)) {
            return self.0.key(&kept)?.request();
        }
        self.check_room(owner, &name).await?;
        self.0.rate().count(owner, Instant::now())?;
        let key = execution::blocking_try(Side::Queue, Phase::Authenticate, DelegatedKey::generate).await?;
        let secret = SealedSecret {
            kind: SecretKind::DelegationKey,
            sealed: self.0.vault.seal(SecretKind::DelegationKey, &name, &key.to_pkcs8()?)?,
            name,
            expires_ms: Some(now_ms + milliseconds(DELEGATION_REQUEST_LIFETIME)),
            owner: owner.person(),
            renews_ms: None,
            lease_ms: None,
            renewed_by: None,
        };
        // Another process may have made one meanwhile.
        let kept = self.0.catalog.keep_secret(secret, until_ms, now_ms).await?;
        self.0.key(&kept)?.request()
    }

    /// Takes the signed proxy with its chain, in PEM. Gives its end, in milliseconds since 1970.
    ///
    /// # Errors
    /// `delegation_refused` when there was no request, or the proxy is not for its key or not of
    /// this user; `certificate_weak` for one that is signed with SHA-1; those of a certificate that
    /// is not believed, and of the catalog.
    pub async fn put(&self, owner: &Delegator, chain: &[u8]) -> Result<i64> {
        let name = proxy_name(owner);
        let signed = SignedProxy::read(owner, chain, &self.0.authenticator)?;
        let accepted = self.completed(&name, signed).await?;
        if !accepted.is_for_tls {
            let error = Error::new(ErrorCode::CertificateWeak, Side::Client, Phase::Authenticate);
            return Err(error.with_detail("the proxy is signed with SHA-1"));
        }
        let expires_ms = accepted.expires_s.saturating_mul(1000);
        let secret = SealedSecret {
            kind: SecretKind::Proxy,
            sealed: self.0.vault.seal_proxy(&name, &accepted.identity)?,
            name: name.clone(),
            expires_ms: Some(expires_ms),
            owner: owner.person(),
            renews_ms: None,
            lease_ms: None,
            renewed_by: None,
        };
        self.0.catalog.put_secret(secret, now_ms()).await?;
        self.0.catalog.delete_secret(SecretKind::DelegationKey, &name).await?;
        Ok(expires_ms)
    }

    /// A proxy with the key that it was signed for: the waiting one, or if another proxy has been
    /// signed for the same request meanwhile, that of the stored one.
    async fn completed(&self, name: &str, signed: SignedProxy) -> Result<Accepted> {
        let catalog = &self.0.catalog;
        let pending = catalog.secret(SecretKind::DelegationKey, name).await?;
        if let Some(pending) = pending.filter(|pending| lasts(pending, now_ms())) {
            return signed.with_key(self.0.key(&pending)?);
        }
        let stored = catalog.secret(SecretKind::Proxy, name).await?;
        let stored = stored.ok_or_else(request_missing)?;
        signed.with_key_of(&self.0.vault.open_proxy(name, &stored.sealed)?)
    }

    /// When the user's proxy ends, in milliseconds since 1970; `None`: there is none.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn expires_ms(&self, owner: &Delegator) -> Result<Option<i64>> {
        let stored = self.0.catalog.secret(SecretKind::Proxy, &proxy_name(owner)).await?;
        let stored = stored.filter(|stored| lasts(stored, now_ms()));
        Ok(stored.and_then(|stored| stored.expires_ms))
    }

    /// Forgets the user's proxy and request; whether there was a proxy.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn remove(&self, owner: &Delegator) -> Result<bool> {
        let name = proxy_name(owner);
        self.0.catalog.delete_secret(SecretKind::DelegationKey, &name).await?;
        self.0.catalog.delete_secret(SecretKind::Proxy, &name).await
    }

    /// When the proxy with this name ends, in milliseconds since 1970; now, if it is gone.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn ends_ms(&self, name: &str) -> Result<Option<i64>> {
        let stored = self.0.catalog.secret(SecretKind::Proxy, name).await?;
        Ok(stored.map_or(Some(now_ms()), |stored| stored.expires_ms))
    }

    /// The proxy with this name in the catalog, as it is now; `None`: there is none that is valid.
    ///
    /// # Errors
    /// Those of the catalog; `internal` when it was sealed with another key.
    pub async fn identity(&self, name: &str) -> Result<Option<ClientIdentity>> {
        let stored = self.0.catalog.secret(SecretKind::Proxy, name).await?;
        let Some(stored) = stored.filter(|stored| lasts(stored, now_ms())) else {
            self.0.opened().remove(name);
            return Ok(None);
        };
        if let Some(known) = self.0.opened().get(name).filter(|known| known.sealed == stored.sealed) {
            return Ok(Some(known.identity.clone()));
        }
        let identity = self.0.vault.open_proxy(name, &stored.sealed)?;
        let mut opened = self.0.opened();
        if opened.len() >= OPENED_PROXIES_MAX {
            opened.clear();
        }
        let known = Opened {
            sealed: stored.sealed,
            identity: identity.clone(),
        };
        opened.insert(name.to_owned(), known);
        Ok(Some(identity))
    }

    /// Whether there is room for one more proxy. All VOMS attributes of a user count together.
    async fn check_room(&self, owner: &Delegator, name: &str) -> Result<()> {
        let catalog = &self.0.catalog;
        if catalog.secret(SecretKind::Proxy, name).await?.is_some() {
            return Ok(());
        }
        let proxies = catalog.count_secrets(SecretKind::Proxy, &owner.person()).await?;
        let keys = catalog
            .count_secrets(SecretKind::DelegationKey, &owner.person())
            .await?;
        let full = |what: &str, most: usize| {
            let error = Error::new(ErrorCode::Overloaded, Side::Active, Phase::Authenticate);
            Err(error.with_detail(format!("{what}: {most}")))
        };
        match (proxies.of_owner + keys.of_owner, proxies.all + keys.all) {
            (DELEGATIONS_PER_USER_MAX.., _) => full("delegated credentials of one user", DELEGATIONS_PER_USER_MAX),
            (_, DELEGATIONS_MAX..) => full("delegated credentials", DELEGATIONS_MAX),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Debug for Proxies {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Proxies")
    }
}

impl Inner {
    fn rate(&self) -> MutexGuard<'_, KeyRate> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<String, Opened>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, stored: &SealedSecret) -> Result<DelegatedKey> {
        let der = self
            .vault
            .open(SecretKind::DelegationKey, &stored.name, &stored.sealed)?;
        DelegatedKey::from_pkcs8(&der)
    }
}

/// The name of a user's proxy in the catalog. [`catalog::JobOptions::proxy`] refers to it.
#[must_use]
pub fn proxy_name(owner: &Delegator) -> String {
    owner.slot(&owner.id())
}

/// What has expired may not have been removed yet.
fn lasts(secret: &SealedSecret, now_ms: i64) -> bool {
    secret.expires_ms.is_none_or(|end_ms| end_ms > now_ms)
}
