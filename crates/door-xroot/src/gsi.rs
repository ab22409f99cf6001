//! Authentication by certificate in several rounds (`gsi`).
//!
//! `gsi-wire` has the messages, `credentials` the calculations. Here is the state of each session,
//! what all sessions share, and where calculations run: on the blocking pool, few at a time, so
//! that many logins do not delay running sessions.
//!
//! A client that would sign a proxy for this server is asked for one in the same exchange, see
//! `delegating`.

mod delegating;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::limits::{GSI_AGREEMENT_LIFETIME, GSI_CALCULATIONS_MAX};
use credentials::Credential;
use credentials::gsi::name_hashes;
use credentials::gsi::server::{Host, Offer, Proving};
use endpoint::DelegationStep;
use gsi_wire::Certificate;
use gsi_wire::gsi::{Fault, NAME, ServerEntry};
use net::random::fill;
use net::tls::{ClientIdentity, ServerTls};
use tokio::sync::Semaphore;
use types::{Error, ErrorCode, Phase, Result, Side};
use xroot_wire::response::SecurityEntry;

use crate::settings::Settings;

/// What all sessions share.
pub(crate) struct Gsi {
    kept: Mutex<Option<Arc<Kept>>>,
    permits: Semaphore,
    /// Held while a key for a delegated proxy is made, which takes much longer than a login.
    making_key: Semaphore,
}

impl Default for Gsi {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            permits: Semaphore::new(GSI_CALCULATIONS_MAX),
            making_key: Semaphore::new(1),
        }
    }
}

/// What is derived from the server's certificate, once.
struct Kept {
    identity: ClientIdentity,
    host: std::result::Result<Host, Fault>,
    entry: SecurityEntry,
    /// Our half of the key agreement, with its age; it is reused for a while.
    offer: Mutex<Option<(Instant, Arc<Offer>)>>,
}

impl Kept {
    fn new(identity: ClientIdentity) -> Self {
        let malformed = Fault("the certificate is malformed");
        let host = identity.chain().first().ok_or(malformed).and_then(|leaf| {
            let parsed = Certificate::parse(leaf).map_err(|_| malformed)?;
            let hashes = name_hashes(parsed.issuer().der).ok_or(malformed)?;
            Ok((hashes, Host::new(leaf, identity.private_key().secret_der())?))
        });
        let (hashes, host) = match host {
            Ok((hashes, host)) => (hashes, Ok(host)),
            Err(fault) => ([0; 2], Err(fault)),
        };
        let entry = SecurityEntry {
            name: NAME.to_owned(),
            parameters: Some(ServerEntry::new(hashes).encode()),
        };
        let offer = Mutex::default();
        Self {
            identity,
            host,
            entry,
            offer,
        }
    }

    fn host(&self) -> Result<&Host> {
        self.host.as_ref().map_err(|fault| failed(*fault))
    }

    /// The current half. Concurrent callers wait for the lock instead of making another one.
    fn offer(&self) -> Result<Arc<Offer>> {
        let mut offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        match &*offer {
            Some((since, offer)) if since.elapsed() < GSI_AGREEMENT_LIFETIME => Ok(offer.clone()),
            _ => {
                let fresh = Arc::new(Offer::new(self.host()?, &mut fill).map_err(failed)?);
                *offer = Some((Instant::now(), fresh.clone()));
                Ok(fresh)
            }
        }
    }
}

/// The state of a session's authentication between two messages.
pub(crate) struct GsiExchange(State);

enum State {
    /// The client is to prove who it is, to the server with this certificate.
    Proving(Proving, Arc<Kept>),
    /// The client has proved it, and is to send a proxy.
    Delegating(Box<delegating::Awaited>),
}

/// The result of a client's message.
pub(crate) struct Outcome {
    pub(crate) next: NextStep,
    /// What it did about a delegated proxy.
    pub(crate) delegation: Option<DelegationNote>,
}

/// What follows a client's message.
pub(crate) enum NextStep {
    /// Send this, and wait for another message.
    More(Vec<u8>, GsiExchange),
    /// The client holds this chain, which may still be untrusted.
    Known(Arc<Credential>),
}

/// What a login did about a delegated proxy, and why not what the client offered.
#[derive(Debug)]
pub(crate) struct DelegationNote {
    pub(crate) step: DelegationStep,
    pub(crate) error: Option<Error>,
}

impl Outcome {
    fn more(answer: Vec<u8>, state: State) -> Self {
        Self {
            next: NextStep::More(answer, GsiExchange(state)),
            delegation: None,
        }
    }

    fn known(credential: Arc<Credential>) -> Self {
        Self {
            next: NextStep::Known(credential),
            delegation: None,
        }
    }

    fn noting(mut self, step: DelegationStep, error: Option<Error>) -> Self {
        self.delegation = Some(DelegationNote { step, error });
        self
    }
}

impl Gsi {
    /// The entry for the login's answer; `None` without a certificate with an RSA key.
    pub(crate) fn entry(&self, settings: &Settings) -> Option<SecurityEntry> {
        let kept = self.kept(settings.site.tls.as_ref()?)?;
        kept.host.is_ok().then(|| kept.entry.clone())
    }

    /// Why this way of authentication is unusable; `None` if it is usable.
    pub(crate) fn fault(&self, settings: &Settings) -> Option<Error> {
        let unusable = |why: &str| {
            let error = Error::new(ErrorCode::CertificateUnusable, Side::Active, Phase::Authenticate);
            error.with_detail(format!("gsi cannot be offered: {why}"))
        };
        match settings.site.tls.as_ref().and_then(|tls| self.kept(tls)) {
            None => Some(unusable("there is no certificate")),
            Some(kept) => kept.host.as_ref().err().map(|fault| unusable(fault.0)),
        }
    }

    /// What is derived from the current certificate, which can be replaced while the door is open.
    fn kept(&self, tls: &ServerTls) -> Option<Arc<Kept>> {
        let identity = tls.identity()?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = kept.as_ref().filter(|kept| kept.identity == identity) {
            return Some(kept.clone());
        }
        let fresh = Arc::new(Kept::new(identity));
        *kept = Some(fresh.clone());
        Some(fresh)
    }

    /// Handles a client's message; `progress` is the state after its previous one.
    ///
    /// # Errors
    /// `authentication_failed`, with the reason; the client may start over.
    pub(crate) async fn step(
        &self,
        settings: &Settings,
        progress: Option<GsiExchange>,
        message: &[u8],
    ) -> Result<Outcome> {
        let message = message.to_vec();
        match progress.map(|GsiExchange(state)| state) {
            None => self.begin(settings, message).await,
            Some(State::Proving(proving, kept)) => {
                let proved = self.calculate(move || proving.prove(&message).map_err(failed)).await?;
                let credential = settings.site.authenticator.gsi_certificates(&proved.chain);
                Ok(self.ask(settings, kept, proved, credential).await)
            }
            Some(State::Delegating(awaited)) => self.receive(settings, *awaited, message).await,
        }
    }

    async fn begin(&self, settings: &Settings, message: Vec<u8>) -> Result<Outcome> {
        let kept = settings.site.tls.as_ref().and_then(|tls| self.kept(tls));
        let kept = kept.ok_or_else(|| failed(Fault("there is no certificate")))?;
        let begin = move || {
            let (proving, answer) = Proving::begin(&message, kept.host()?, kept.offer()?, &mut fill).map_err(failed)?;
            Ok((answer, State::Proving(proving, kept)))
        };
        let (answer, state) = self.calculate(begin).await?;
        Ok(Outcome::more(answer, state))
    }

    /// Calculates on the blocking pool, a few sessions at a time.
    async fn calculate<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let _permit = self.permits.acquire().await;
        blocking(work).await
    }
}

/// Works where no other session waits.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    execution::blocking_try(Side::Active, Phase::Authenticate, work).await
}

fn failed(fault: Fault) -> Error {
    Error::new(ErrorCode::AuthenticationFailed, Side::Client, Phase::Authenticate).with_detail(fault.0)
}
