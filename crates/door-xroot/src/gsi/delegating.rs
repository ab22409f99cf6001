//! The rounds of `gsi` in which a client delegates a proxy: the server sends a request, the client
//! signs it.
//!
//! No login fails because there is no proxy: it goes on without one, and the log says why. It fails
//! if the message is not the client's, or holds a private key.

use std::sync::Arc;

use credentials::Credential;
use credentials::gsi::server::{Delegating, Proved};
use endpoint::DelegationStep;
use gsi_wire::Certificate;
use gsi_wire::gsi::Fault;
use identity::delegation::{AskedProxy, Delegations, Delegator, LoginProxy};
use net::random::fill;
use rustls_pki_types::CertificateDer;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::{Gsi, Kept, Outcome, State, blocking, failed};
use crate::limits::GSI_KEY_WAIT;
use crate::settings::Settings;

/// What a session holds while its client signs a proxy.
pub(super) struct Awaited {
    delegating: Delegating,
    asked: AskedProxy,
    delegations: Delegations,
    /// The chain that the client showed.
    shown: Vec<CertificateDer<'static>>,
    credential: Arc<Credential>,
}

/// Where a client's proxy would be kept, and for whom.
struct Wanted {
    delegations: Delegations,
    owner: Delegator,
    /// When the chain that the client shows ends, in seconds since 1970.
    could_end_s: i64,
}

impl Wanted {
    /// `None` if the client would sign no proxy.
    fn of(settings: &Settings, proved: &Proved, credential: &Credential) -> Option<Self> {
        Some(Self {
            delegations: settings.delegations.clone().filter(|_| proved.would_delegate)?,
            owner: Delegator::of(credential)?,
            could_end_s: credential.expires_s()?,
        })
    }

    fn stored(&self) -> LoginProxy {
        self.delegations.login_proxy(&self.owner, self.could_end_s)
    }

    /// Makes a key, and the message that asks for a proxy for it.
    fn ask(self, kept: &Kept, mut proved: Proved, credential: Arc<Credential>) -> Result<(Vec<u8>, Awaited)> {
        let malformed = || failed(Fault("the certificate is malformed"));
        let shown = std::mem::take(&mut proved.chain);
        let first = shown.first().ok_or_else(malformed)?;
        let first = Certificate::parse(first).map_err(|_| malformed())?;
        let (asked, request) = self.delegations.ask_proxy(&self.owner, first.subject().der)?;
        drop(first);
        let asking = proved.ask_proxy(request.as_bytes(), kept.host()?, &mut fill);
        let (delegating, answer) = asking.map_err(failed)?;
        let awaited = Awaited {
            delegating,
            asked,
            delegations: self.delegations,
            shown,
            credential,
        };
        Ok((answer, awaited))
    }
}

/// Why no client is asked for a proxy.
fn not_configured() -> Error {
    let error = Error::new(ErrorCode::CredentialUnsupported, Side::Client, Phase::Authenticate);
    error.with_detail("no proxy is taken: [delegation] is not configured")
}

impl Gsi {
    /// Asks a client that has proved who it is for a proxy, if it would sign one and one is needed.
    pub(super) async fn ask(
        &self,
        settings: &Settings,
        kept: Arc<Kept>,
        proved: Proved,
        credential: Arc<Credential>,
    ) -> Outcome {
        let known = Outcome::known(credential.clone());
        if proved.would_delegate && settings.delegations.is_none() {
            return known.noting(DelegationStep::NotAsked, Some(not_configured()));
        }
        let Some(wanted) = Wanted::of(settings, &proved, &credential) else {
            return known;
        };
        match wanted.stored() {
            LoginProxy::Wanted => {}
            LoginProxy::Stored => return known,
            LoginProxy::RefusedLately => {
                let again = "it has signed none lately, or one that was not accepted";
                return known.noting(DelegationStep::NotAsked, Some(refused(again)));
            }
        }
        let turn = tokio::time::timeout(GSI_KEY_WAIT, self.making_key.acquire()).await;
        // Another login of the same client may have brought one in the meantime.
        if wanted.stored() == LoginProxy::Stored {
            return known;
        }
        let Ok(_turn) = turn else {
            let busy = Error::new(ErrorCode::Overloaded, Side::Active, Phase::Authenticate);
            let busy = busy.with_detail("other logins make keys for delegated proxies");
            return known.noting(DelegationStep::NotAsked, Some(busy));
        };
        match blocking(move || wanted.ask(&kept, proved, credential)).await {
            Ok((answer, awaited)) => {
                Outcome::more(answer, State::Delegating(Box::new(awaited))).noting(DelegationStep::Asked, None)
            }
            Err(error) => known.noting(DelegationStep::NotAsked, Some(error)),
        }
    }

    /// Takes the proxy that a client has signed, or its reason to sign none.
    ///
    /// # Errors
    /// `authentication_failed`: the message is not the client's, or holds a private key.
    pub(super) async fn receive(&self, settings: &Settings, awaited: Awaited, message: Vec<u8>) -> Result<Outcome> {
        let Awaited {
            delegating,
            asked,
            delegations,
            shown,
            credential,
        } = awaited;
        let known = Outcome::known(credential);
        let sent = self.calculate(move || delegating.receive(&message).map_err(failed));
        let proxy = match sent.await? {
            Ok(proxy) => proxy,
            Err(words) => {
                asked.give_up(&delegations);
                let error = refused(&format!("the client signs none: {words}"));
                return Ok(known.noting(DelegationStep::Refused, Some(error)));
            }
        };
        let authenticator = settings.site.authenticator.clone();
        let kept = self.calculate(move || delegations.keep_proxy(asked, proxy, &shown, &authenticator));
        Ok(match kept.await {
            Ok(kept) if kept.is_for_tls => known.noting(DelegationStep::Received, None),
            Ok(_) => {
                let weak = Error::new(ErrorCode::CertificateWeak, Side::Client, Phase::Authenticate);
                let weak = weak.with_detail("it is signed with SHA-1, and serves copies from root:// servers only");
                known.noting(DelegationStep::Received, Some(weak))
            }
            Err(error) => known.noting(DelegationStep::Refused, Some(error)),
        })
    }
}

fn refused(why: &str) -> Error {
    Error::new(ErrorCode::DelegationRefused, Side::Client, Phase::Authenticate).with_detail(why)
}
