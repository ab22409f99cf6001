//! Who a client is at the server that has the files of a store.

use std::sync::Arc;

use credentials::Credential;
use policy::Explanation;
use storage::ClientCredential;
use types::{Error, LogicalPath, Result};

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

    /// Why this server refuses the client's requests for the path itself: it has nothing that it
    /// could show. `None` if the other server is asked, or if it is not known.
    fn refusal(&self, client: &UpstreamClient<'_>, path: &LogicalPath) -> Option<Error>;
}

/// What it means for a decision that another server has the file: still one verdict, which says
/// which server made it.
#[must_use]
pub fn explain_upstream(
    explanation: Explanation,
    upstream: &dyn UpstreamIdentity,
    client: &UpstreamClient<'_>,
    path: &LogicalPath,
) -> Explanation {
    let mut explained = explanation;
    let words = upstream.words(client, path);
    match upstream.refusal(client, path) {
        _ if !explained.allowed => {
            // What it would be shown does not matter.
            explained.upstream = words.into_iter().take(1).collect();
            explained
                .decision
                .push_str("; decided by this server, the upstream server is not asked");
        }
        Some(error) => {
            let (code, detail) = (error.code(), error.detail().unwrap_or_default());
            explained.upstream = words;
            explained.allowed = false;
            explained.code = Some(code.name());
            explained.decision = format!(
                "refused, {}: {}{detail}; decided by this server, the upstream server is not asked",
                code.name(),
                if detail.is_empty() { code.meaning() } else { "" }
            );
            explained.remedies = vec![code.for_client().to_owned()];
        }
        None => {
            explained.upstream = words;
            explained
                .decision
                .push_str(" by this server; the upstream server can refuse it");
        }
    }
    explained
}
