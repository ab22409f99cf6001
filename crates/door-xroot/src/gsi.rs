//! Authentication by certificate over several rounds (`gsi`): the door's part of it.
//!
//! The messages and what is calculated for them are `gsi-wire`'s and `credentials`'; here is the state of each
//! session, what all sessions share, and where it is calculated: on the threads for blocking work, few
//! at a time, so that a crowd of logins holds up nobody who is inside already.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::limits::{GSI_AGREEMENT_LIFETIME, GSI_CALCULATIONS_MAX};
use credentials::Credential;
use credentials::gsi::name_hashes;
use credentials::gsi::server::{Host, Offer, Proving};
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
    turns: Semaphore,
}

impl Default for Gsi {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            turns: Semaphore::new(GSI_CALCULATIONS_MAX),
        }
    }
}

/// What is made of a certificate once.
struct Kept {
    identity: ClientIdentity,
    host: std::result::Result<Host, Fault>,
    entry: SecurityEntry,
    /// The half of the key agreement that serves for a while, and since when.
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

    /// The half of the moment. Making one is not waited for twice: others wait for the lock.
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

/// How far the authentication of a session has come.
pub(crate) struct Progress(Box<Proving>);

/// What a message of a client brought.
pub(crate) enum Outcome {
    /// This is to be sent, and another message awaited.
    More(Vec<u8>, Progress),
    /// The client is the holder of this chain, whatever it is worth.
    Known(Arc<Credential>),
}

impl Gsi {
    /// What the login tells; `None` where there is no certificate with a key of RSA.
    pub(crate) fn entry(&self, settings: &Settings) -> Option<SecurityEntry> {
        let kept = self.kept(settings.site.tls.as_ref()?)?;
        kept.host.is_ok().then(|| kept.entry.clone())
    }

    /// Why nobody can authenticate by this, if so.
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

    /// What is made of the certificate of the moment; it can be replaced while the door is open.
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

    /// Takes a message of a client whose authentication has come this far.
    ///
    /// # Errors
    /// `authentication_failed`, with the reason; the authentication then begins anew.
    pub(crate) async fn step(
        &self,
        settings: &Settings,
        progress: Option<Progress>,
        message: &[u8],
    ) -> Result<Outcome> {
        let message = message.to_vec();
        let Some(Progress(proving)) = progress else {
            let kept = settings.site.tls.as_ref().and_then(|tls| self.kept(tls));
            let kept = kept.ok_or_else(|| failed(Fault("there is no certificate")))?;
            let begin = move || Proving::begin(&message, kept.host()?, kept.offer()?, &mut fill).map_err(failed);
            let (proving, answer) = self.calculate(begin).await?;
            return Ok(Outcome::More(answer, Progress(Box::new(proving))));
        };
        let proved = self.calculate(move || proving.prove(&message).map_err(failed)).await?;
        let credential = settings.site.authenticator.certificates(Some(&proved.chain));
        Ok(Outcome::Known(credential))
    }

    /// Calculates where nobody else waits, when it is this session's turn.
    async fn calculate<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let _turn = self.turns.acquire().await;
        let done = execution::blocking(work).await;
        done.unwrap_or_else(|cause| {
            Err(Error::new(ErrorCode::Internal, Side::Active, Phase::Authenticate).with_private(cause))
        })
    }
}

fn failed(fault: Fault) -> Error {
    Error::new(ErrorCode::AuthenticationFailed, Side::Client, Phase::Authenticate).with_detail(fault.0)
}
