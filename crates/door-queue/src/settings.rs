//! What the door needs, and what its handlers share.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use credentials::{Credential, CredentialKind};
use http_server::control::Client;
use queue::webhooks::Webhooks;
use queue::{Proxies, S3Keys};

use crate::fts::FtsError;
use crate::fts::answers::Shown;
use crate::queue::Queue;
use crate::respond::Failed;
use crate::rights::{Caller, Rights};
use crate::term::Term;
pub(crate) use crate::term::now_ms;

/// What the door needs.
pub struct Settings {
    /// The queue.
    pub queue: Arc<dyn Queue>,
    /// The names of this host.
    pub shown: Shown,
    /// Who may do what.
    pub rights: Rights,
    /// Delegated proxies; `None`: none are taken, and none asked for.
    pub proxies: Option<Proxies>,
    /// Keys of S3 storages.
    pub s3_keys: S3Keys,
    /// Receivers of events.
    pub webhooks: Webhooks,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Settings({})", self.shown.address)
    }
}

/// What handlers share.
pub(crate) type Shared = State<Arc<Settings>>;

impl Settings {
    /// Who sends a request.
    ///
    /// # Errors
    /// A credential that was refused, has expired or is missing.
    pub(crate) fn caller(&self, client: &Client) -> Result<Caller, Failed> {
        let credential = client.credential()?;
        // A connection may outlive its certificate, whose holder is anonymous then, as for files.
        let known = match (Term::of(credential).ended(credential.kind()), credential.kind()) {
            (None, _) => self.rights.caller(credential),
            (Some(error), CredentialKind::Certificate) => {
                self.rights.caller(&Credential::RefusedCertificate(Box::new(error)))
            }
            (Some(error), _) => Err(error),
        };
        let mut caller = known.map_err(|error| Failed::Credential(error.into()))?;
        caller.take_grants(&self.queue.grants());
        Ok(caller)
    }
}

/// What is answered at a path that does not exist.
pub(crate) async fn unknown_path() -> Response {
    let message = "The requested URL was not found on the server. If you entered the URL manually please check your \
                   spelling and try again.";
    Failed::from(FtsError::new(404, message)).into_response()
}

/// What is answered to a method that a path does not have.
pub(crate) async fn unknown_method() -> Response {
    let message = "The method is not allowed for the requested URL.";
    Failed::from(FtsError::new(405, message)).into_response()
}
