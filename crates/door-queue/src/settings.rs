//! What the door needs, and what its handlers share.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http_server::control::Client;
use queue::webhooks::Webhooks;
use queue::{Proxies, S3Keys};

use crate::fts::FtsError;
use crate::fts::answers::Shown;
use crate::queue::Queue;
use crate::respond::Failed;
use crate::rights::{Caller, Rights};

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
    /// A credential that was refused or is missing.
    pub(crate) fn caller(&self, client: &Client) -> Result<Caller, Failed> {
        let credential = client.credential()?;
        let known = self.rights.caller(credential);
        let mut caller = known.map_err(|error| Failed::Credential(error.into()))?;
        caller.take_grants(&self.queue.grants());
        Ok(caller)
    }
}

/// The time, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
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
