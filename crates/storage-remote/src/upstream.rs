//! The server in front of which a store stands, and who we are there.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use net::tls::ClientIdentity;
use remote::{Abilities, Access, Client, Resource};
use types::{Error, Location, LogicalPath, Secret, Side};

use crate::fault::translate;

/// A credential of this server, whose token can be renewed. Clones share it.
#[derive(Clone, Default)]
pub struct Credential {
    token: Arc<RwLock<Option<Secret>>>,
    identity: Option<ClientIdentity>,
}

impl Credential {
    /// With this token and this certificate; without both the server is anonymous upstream.
    #[must_use]
    pub fn new(token: Option<Secret>, identity: Option<ClientIdentity>) -> Self {
        Self {
            token: Arc::new(RwLock::new(token)),
            identity,
        }
    }

    /// Replaces the token.
    pub fn renew(&self, token: Secret) {
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = Some(token);
    }

    /// The same without keeping it alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakCredential {
        WeakCredential {
            token: Arc::downgrade(&self.token),
            identity: self.identity.clone(),
        }
    }

    fn access(&self) -> Access {
        Access {
            bearer: self.token.read().unwrap_or_else(PoisonError::into_inner).clone(),
            keeps_bearer: true,
            identity: self.identity.clone(),
            returns_delays: true,
            ..Access::default()
        }
    }
}

/// A credential that is in use as long as a store has it.
pub struct WeakCredential {
    token: Weak<RwLock<Option<Secret>>>,
    identity: Option<ClientIdentity>,
}

impl WeakCredential {
    /// The credential, if a store still has it.
    #[must_use]
    pub fn upgrade(&self) -> Option<Credential> {
        Some(Credential {
            token: self.token.upgrade()?,
            identity: self.identity.clone(),
        })
    }
}

/// A directory on another server. Cheap to clone.
#[derive(Clone)]
pub struct Upstream {
    pub(crate) client: Client,
    root: Location,
    credential: Credential,
}

impl Upstream {
    /// The directory `root`, which is asked for by `client`.
    #[must_use]
    pub fn new(client: Client, root: Location, credential: Credential) -> Self {
        Self {
            client,
            root,
            credential,
        }
    }

    /// The directory.
    #[must_use]
    pub fn root(&self) -> &Location {
        &self.root
    }

    /// What its protocol can do.
    #[must_use]
    pub fn abilities(&self) -> Abilities {
        self.client.abilities(&self.root)
    }

    /// A file or directory in it, with our credential.
    #[must_use]
    pub fn resource(&self, path: &LogicalPath) -> Resource {
        let base = self.root.path().trim_end_matches('/');
        let path = match path.is_root() {
            true => self.root.path().to_owned(),
            false => format!("{base}{}", self.root.escaped(path.as_str())),
        };
        Resource {
            location: self.root.with_path(&path),
            access: self.credential.access(),
            side: Side::Upstream,
        }
    }

    /// The error as a store has it, about the name that clients know.
    pub(crate) fn blame(&self, error: &Error, path: &LogicalPath) -> Error {
        translate(error, &self.root).with_subject(path)
    }
}

#[cfg(test)]
mod tests {
    use net::address::AddressPolicy;
    use net::tls::{ClientTls, Trust};
    use remote::ClientOptions;
    use std::time::Duration;

    use super::*;

    fn place(root: &str, path: &str) -> String {
        let wait = Duration::from_secs(1);
        let client = Client::new(ClientOptions {
            tls: ClientTls::load(&Trust::default()).unwrap().0,
            addresses: AddressPolicy::ANY,
            connect: wait,
            first_byte: wait,
            stall: wait,
            user_agent: "test".to_owned(),
        });
        let upstream = Upstream::new(client, Location::parse(root).unwrap(), Credential::default());
        upstream.resource(&LogicalPath::parse(path).unwrap()).location.to_wire()
    }

    #[test]
    fn names_are_written_as_the_protocol_of_the_server_wants_them() {
        assert_eq!(place("https://a/data/", "/x/a b%"), "https://a/data/x/a%20b%25");
        assert_eq!(place("https://a", "/x"), "https://a/x");
        assert_eq!(place("https://a/data/", "/"), "https://a/data/");
        assert_eq!(place("root://a//data", "/x/a b%"), "root://a//data/x/a b%");
    }
}
