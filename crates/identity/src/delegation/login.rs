//! Delegation in a login (`gsi`): the server asks for a proxy while the client authenticates.
//!
//! The key stays with the session that asked, so that two logins of one user do not disturb each
//! other; here their number is limited. A proxy is a hostile input, although its sender is known:
//! it must be ours by name and key, signed by the certificate that the session showed, and end with
//! it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use gsi_wire::Certificate;
use gsi_wire::delegation::proxy_name;
use gsi_wire::gsi::name::canonical;
use net::random::random;
use rustls_pki_types::CertificateDer;
use types::limits::CERTIFICATE_CHAIN_MAX;
use types::{Result, Side};

use super::{
    Delegated, Delegations, Delegator, Inner, check_room, full, latest_end_s, now_s, refused, seconds, verified,
};
use crate::delegation::key::DelegatedKey;
use crate::limits::{
    LOGIN_DELEGATION_GAIN, LOGIN_DELEGATION_LEFT, LOGIN_DELEGATION_LIFETIME, LOGIN_DELEGATIONS_MAX,
    LOGIN_DELEGATIONS_PER_USER_MAX, LOGIN_REFUSAL_MEMORY, LOGIN_REFUSALS_MAX, PROXY_END_SLIP,
};
use crate::{Authenticator, ShownBy};

/// The name of a user's credential that comes from logins.
pub(super) const LOGIN_ID: &str = "login by gsi";
/// The same for one that is signed with SHA-1, so that it takes no place of a better one.
pub(super) const SHA1_LOGIN_ID: &str = "login by gsi, SHA-1";

/// What is known of a user's proxies from logins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginProxy {
    /// There is one that lasts.
    Stored,
    /// There is none, or a better one could be had.
    Wanted,
    /// The user, asked for one, has signed none lately, or one that was not accepted.
    RefusedLately,
}

/// A proxy that a client was asked for in its login, and the key that waits for it.
pub struct AskedProxy {
    owner: Delegator,
    key: DelegatedKey,
    /// The name that the proxy must have, in DER.
    name: Vec<u8>,
    expires_s: i64,
    /// Freed with it, whether it was kept, refused or the session has ended.
    _place: Place,
}

/// A place among the proxies that clients were asked for.
struct Place {
    store: Arc<Inner>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.store.current().waiting.remove(self.number);
    }
}

impl std::fmt::Debug for AskedProxy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "AskedProxy({})", self.owner.dn)
    }
}

/// Proxies that clients were asked for and have not sent, the oldest first.
#[derive(Default)]
pub(super) struct Waiting {
    asked: VecDeque<Asked>,
    last_number: u64,
    /// Slots of users who got nowhere, each until when that is remembered, the oldest first.
    refused: VecDeque<(String, i64)>,
}

struct Asked {
    owner: Delegator,
    number: u64,
    expires_s: i64,
}

impl Waiting {
    pub(super) fn forget_old(&mut self, now_s: i64) {
        while self.asked.front().is_some_and(|asked| asked.expires_s <= now_s) {
            self.asked.pop_front();
        }
        while self.refused.front().is_some_and(|(_, until_s)| *until_s <= now_s) {
            self.refused.pop_front();
        }
    }

    fn note_refusal(&mut self, owner: &Delegator, until_s: i64) {
        let slot = owner.slot(LOGIN_ID);
        self.refused.retain(|(refused, _)| *refused != slot);
        if self.refused.len() >= LOGIN_REFUSALS_MAX {
            self.refused.pop_front();
        }
        self.refused.push_back((slot, until_s));
    }

    fn was_refused(&self, owner: &Delegator) -> bool {
        let slot = owner.slot(LOGIN_ID);
        self.refused.iter().any(|(refused, _)| *refused == slot)
    }

    /// Counts one more.
    fn add(&mut self, owner: &Delegator, expires_s: i64) -> Result<u64> {
        let theirs = self
            .asked
            .iter()
            .filter(|asked| asked.owner.is_same_person(owner))
            .count();
        if theirs >= LOGIN_DELEGATIONS_PER_USER_MAX {
            full("proxies that one user was asked for", LOGIN_DELEGATIONS_PER_USER_MAX)?;
        }
        if self.asked.len() >= LOGIN_DELEGATIONS_MAX {
            full("proxies that users were asked for", LOGIN_DELEGATIONS_MAX)?;
        }
        self.last_number += 1;
        self.asked.push_back(Asked {
            owner: owner.clone(),
            number: self.last_number,
            expires_s,
        });
        Ok(self.last_number)
    }

    fn remove(&mut self, number: u64) {
        self.asked.retain(|asked| asked.number != number);
    }
}

impl Delegations {
    /// Whether a client should be asked for a proxy in its login: it has delegated none, only one
    /// that is signed with SHA-1, or one that ends within hours and before a new one would. After
    /// another one with SHA-1 it is not asked for a while. `could_end_s` is the end of the chain
    /// that it shows, in seconds since 1970.
    #[must_use]
    pub fn login_proxy(&self, owner: &Delegator, could_end_s: i64) -> LoginProxy {
        let mut shelves = self.0.current();
        let mut lacks = |shown_by| {
            let longest = self.0.longest(&mut shelves, owner, shown_by);
            longest.is_none_or(|longest| {
                let ends_soon = longest.expires_s < now_s() + seconds(LOGIN_DELEGATION_LEFT);
                ends_soon && could_end_s >= longest.expires_s + seconds(LOGIN_DELEGATION_GAIN)
            })
        };
        let (lacks_any, lacks_good) = (lacks(ShownBy::Gsi), lacks(ShownBy::Tls));
        match lacks_good {
            false => LoginProxy::Stored,
            true if !lacks_any && shelves.waiting.was_refused(owner) => LoginProxy::Stored,
            true if shelves.waiting.was_refused(owner) => LoginProxy::RefusedLately,
            true => LoginProxy::Wanted,
        }
    }

    /// Makes a key, and the request in PEM for a proxy below `subject`, the name (DER) of the
    /// certificate that the client shows. It takes a fraction of a second of computing: not for a
    /// thread that serves others.
    ///
    /// # Errors
    /// `overloaded` when there are too many, or the user has had too many keys lately.
    pub fn ask_proxy(&self, owner: &Delegator, subject: &[u8]) -> Result<(AskedProxy, String)> {
        let expires_s = now_s() + seconds(LOGIN_DELEGATION_LIFETIME);
        let number = {
            let mut shelves = self.0.current();
            check_room(&shelves, owner, &owner.slot(LOGIN_ID))?;
            shelves.waiting.add(owner, expires_s)?
        };
        let place = Place {
            store: self.0.clone(),
            number,
        };
        self.0.current().rate.count(owner, Instant::now())?;
        let key = DelegatedKey::generate()?;
        // XRootD's clients take it for the serial number, which for them has 31 bits.
        let serial = u32::from_be_bytes(random()) >> 1;
        let name = proxy_name(subject, &serial.to_string()).map_err(|why| refused(&why.to_string()))?;
        let request = key.proxy_request(&name)?;
        let owner = owner.clone();
        let asked = AskedProxy {
            owner,
            key,
            name,
            expires_s,
            _place: place,
        };
        Ok((asked, request))
    }

    /// Takes a proxy that was asked for; `shown` is the chain that the client showed. It takes the
    /// place of an earlier one that ends sooner.
    ///
    /// # Errors
    /// `delegation_refused` when it is not the proxy that was asked for, comes too late or outlives
    /// its signer; those of a certificate that is not believed; the user is then not asked for a
    /// while. `overloaded` or `storage_failed` when it cannot be kept.
    pub fn keep_proxy(
        &self,
        asked: AskedProxy,
        proxy: CertificateDer<'static>,
        shown: &[CertificateDer<'static>],
        authenticator: &Authenticator,
    ) -> Result<KeptProxy> {
        let owner = asked.owner.clone();
        let kept = self.keep(asked, proxy, shown, authenticator);
        if kept.as_ref().is_err_and(|error| error.side() == Side::Client) {
            self.note_refusal(&owner);
        }
        kept
    }

    fn keep(
        &self,
        asked: AskedProxy,
        proxy: CertificateDer<'static>,
        shown: &[CertificateDer<'static>],
        authenticator: &Authenticator,
    ) -> Result<KeptProxy> {
        asked.check(&proxy, shown)?;
        let chain: Vec<_> = std::iter::once(proxy).chain(shown.iter().cloned()).collect();
        if chain.len() > CERTIFICATE_CHAIN_MAX {
            return Err(refused("the chain is too long for one more proxy"));
        }
        let (whose, credential_ends_s) = verified(&authenticator.gsi_certificates(&chain))?;
        if !asked.owner.may_hold(&whose) || whose.fqans != asked.owner.fqans {
            return Err(refused(
                "the proxy has another identity, or other VOMS attributes, than the session",
            ));
        }
        let AskedProxy { owner, key, .. } = asked;
        let identity = key.into_identity(chain)?;
        let expires_s = identity.expires_s().min(credential_ends_s).min(latest_end_s());
        let delegated = Delegated::new(owner.clone(), identity, expires_s);
        let kept = KeptProxy {
            is_for_tls: delegated.is_for_tls,
        };
        let slot = delegated.owner.slot(match delegated.is_for_tls {
            true => LOGIN_ID,
            false => SHA1_LOGIN_ID,
        });
        let lasts_longer = {
            let mut shelves = self.0.current();
            self.0.forget_removed(&mut shelves, &delegated.owner);
            check_room(&shelves, &delegated.owner, &slot)?;
            let stored = shelves.delegated.get(&slot);
            stored.is_none_or(|stored| stored.expires_s < expires_s)
        };
        if lasts_longer {
            self.0.store(slot, delegated)?;
        }
        if !kept.is_for_tls {
            // Its next logins would bring the same.
            self.note_refusal(&owner);
        }
        Ok(kept)
    }

    fn note_refusal(&self, owner: &Delegator) {
        let until_s = now_s() + seconds(LOGIN_REFUSAL_MEMORY);
        self.0.current().waiting.note_refusal(owner, until_s);
    }
}

/// A proxy that is stored now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptProxy {
    /// Whether servers accept it over TLS too: it is not signed with SHA-1.
    pub is_for_tls: bool,
}

impl AskedProxy {
    /// The client has signed none: it is not asked for a while.
    pub fn give_up(self, delegations: &Delegations) {
        delegations.note_refusal(&self.owner);
    }

    /// Whether a certificate is the proxy that was asked for. What every chain must fulfil is left
    /// to its verification: signature, names, validity, and no widening of a limited proxy.
    fn check(&self, proxy: &[u8], shown: &[CertificateDer<'static>]) -> Result<()> {
        if self.expires_s <= now_s() {
            return Err(refused("the proxy came too late"));
        }
        let unreadable = |_| refused("the proxy cannot be read");
        let parsed = Certificate::parse(proxy).map_err(unreadable)?;
        let signer = shown
            .first()
            .ok_or_else(|| refused("the session shows no certificate"))?;
        let signer = Certificate::parse(signer).map_err(unreadable)?;
        if parsed.proxy_kind().ok().flatten().is_none() {
            return Err(refused("the certificate is no proxy"));
        }
        if !self.key.is_that_of(proxy) {
            return Err(refused("the proxy is for another key than that of the request"));
        }
        if parsed.issuer().der != signer.subject().der {
            return Err(refused("the proxy was not made from the certificate of this session"));
        }
        if canonical(parsed.subject().der).is_none_or(|name| Some(name) != canonical(&self.name)) {
            return Err(refused("the proxy has another name than that of the request"));
        }
        if parsed.not_after_s() > signer.not_after_s() + seconds(PROXY_END_SLIP) {
            return Err(refused("the proxy ends later than the certificate that signs it"));
        }
        Ok(())
    }
}
