//! A look at the directory of a store, which shows whether its server can be used. It costs the
//! server one question.

use std::sync::Arc;

use storage::{ClientCredential, ClientName};
use types::{ErrorCode, LogicalPath, Result};

use crate::fault::lacks_bucket;
use crate::upstream::{Identity, Upstream};

/// Whose macaroon the look shows: no client's.
const LOOKER: &str = "crossload";

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The directory.
    Directory,
    /// A file instead.
    File,
    /// No object of an S3 storage: a prefix is there with its first one.
    EmptyPrefix,
    /// That the server answers. Only clients have a credential there.
    Server,
}

impl Upstream {
    /// Looks at the directory with our credential, or with a macaroon that is minted for this. A
    /// server at which only clients have credentials is asked whether it answers.
    ///
    /// # Errors
    /// As the server or the network has them: `peer_denied`, `peer_not_found` and so on.
    pub async fn look(&self) -> Result<Found> {
        let root = LogicalPath::root();
        let looking = match &self.identity {
            Identity::Service(_) => self.clone(),
            Identity::Minted(_) => self.showing(Some(Arc::new(looker())))?,
            Identity::Client | Identity::Delegated => return self.look_for_server().await,
        };
        match self.client.stat(&looking.resource(&root)).await {
            Ok(entry) if !entry.is_directory && !self.root().path().ends_with('/') => Ok(Found::File),
            Ok(_) => Ok(Found::Directory),
            Err(error) if error.code() == ErrorCode::PeerNotFound && self.is_object_store() => {
                match lacks_bucket(&error) {
                    true => Err(error),
                    false => Ok(Found::EmptyPrefix),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// A server that wants a credential, or has no such request, answers.
    async fn look_for_server(&self) -> Result<Found> {
        match self.client.ping(&self.resource(&LogicalPath::root())).await {
            Err(error)
                if !matches!(
                    error.code(),
                    ErrorCode::PeerDenied | ErrorCode::PeerForbidden | ErrorCode::PeerUnsupported
                ) =>
            {
                Err(error)
            }
            _ => Ok(Found::Server),
        }
    }
}

fn looker() -> ClientCredential {
    ClientCredential::Name(ClientName {
        key: LOOKER.into(),
        user: None,
        vo: None,
        expires_s: None,
    })
}
