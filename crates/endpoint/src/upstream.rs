//! Who a client is at the server that has the files of a store.

use std::sync::Arc;

use credentials::Credential;
use storage::ClientCredential;
use types::{LogicalPath, Result};

/// A client whose request goes on to another server.
#[derive(Clone, Debug)]
pub struct UpstreamClient<'a> {
    /// Its credential; `None` if it has none that counts, or acts by a capability.
    pub credential: Option<&'a Credential>,
    /// Its name, which no other client has; `None`: anonymous.
    pub key: Option<Arc<str>>,
    /// Its local user.
    pub user: Option<Arc<str>>,
    /// The virtual organisation for which it acts.
    pub vo: Option<Arc<str>>,
}

/// Who a client is at the server that has a file, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamFacts {
    /// The host and port of the server.
    pub server: String,
    /// `service`, `client`, `delegated`, `minted`, or `anonymous` where nothing is shown.
    pub identity: &'static str,
}

/// Decides what the server that has the files of a store is shown of each client.
pub trait UpstreamIdentity: Send + Sync {
    /// Whether it depends on the client, so that no client gets what another one was given.
    fn depends_on_client(&self) -> bool;

    /// What is shown of this client, and nothing else; `None`: nothing.
    ///
    /// # Errors
    /// The client has no credential that could be shown, and is served in no other way.
    fn credential(&self, client: &UpstreamClient<'_>) -> Result<Option<ClientCredential>>;

    /// The same path as rules and tokens have it; `None` if there is no other way to write it.
    fn plain_path(&self, path: &LogicalPath) -> Option<LogicalPath>;

    /// Who this client is there for a request about a path in the store; `None` if there is no
    /// server for the path, or the client is served in no way.
    fn facts(&self, client: &UpstreamClient<'_>, path: &LogicalPath) -> Option<UpstreamFacts>;

    /// The same in words: which server, what is shown there and why. They hold no secret.
    fn words(&self, client: &UpstreamClient<'_>, path: &LogicalPath) -> Vec<String>;
}
