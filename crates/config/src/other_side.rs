//! Keys about what a server does with credentials for others, and about payload that it hands over.

use std::path::PathBuf;
use std::time::Duration;

use types::{Location, limits};

use crate::section;
use crate::section::{NEW_DOOR, Purpose, Values as _};
use crate::values::Bytes;

section! {
    /// Payload in clear text: what was authorised over TLS is redirected to plain HTTP, with a capability in the
    /// URL that lets one client do one thing with one file, for a minute. Encryption costs about as much as all
    /// the rest of serving a file; without it everybody on the way can read and change what is sent. Clients that
    /// say `Secure-Redirection: 1` are served over TLS.
    "hand_over" false HandOver {
        /// Whether GET is redirected (302).
        reads: bool = Some(false) => NEW_DOOR;
        /// Whether PUT is redirected (307). Only that of a client that tells the size and sends
        /// `Expect: 100-continue`, since the body of any other is under way already.
        writes: bool = Some(false) => NEW_DOOR;
        /// The endpoint that serves the payload, such as `"http://disk1.example.org:1080"`; it must have the same
        /// `key_file`, and this URL as its `accept_as`. Without it, this server does, on the same port.
        target: Option<String> = Some(None) => NEW_DOOR;
        /// The URL under which other servers send clients to this one. For some seconds after a start it accepts
        /// no writing that others have authorised, so that nothing can be used a second time by then.
        accept_as: Option<String> = Some(None) => NEW_DOOR;
        /// The file with the key that seals capabilities: base64 of 32 random bytes or more. Made when it is
        /// missing; only its owner may read it. Needed only between several servers: without it the key lives and
        /// dies with this process.
        key_file: Option<PathBuf> = Some(None) => NEW_DOOR.file(Purpose::SealingKey, "the key of the hand-over");
        /// How long a capability holds; those for writing count once besides.
        lifetime: Duration = Some(limits::CAPABILITY_LIFETIME) => NEW_DOOR;
        /// Whether a capability holds for the client's address only. To be switched off where clients come through
        /// several gateways.
        bind_address: bool = Some(true) => NEW_DOOR;
        /// Smaller files are served over TLS at once.
        minimum_bytes: Bytes = Some(Bytes(1024 * 1024)) => NEW_DOOR;
    }
}

section! {
    /// Credentials that clients delegate, to act with them towards the other side of their copies: `Credential:
    /// gridsite`, by the SOAP service of GridSite at `/delegation`, and by the REST service of FTS at `/whoami` and
    /// `/delegation/ID`. These paths then belong to no export. Needs client certificates.
    "delegation" false Delegation {
        /// The directory for delegated credentials, each in a file of its own, encrypted. Made when it is missing;
        /// nobody but its owner may look into it. Without this key nothing can be delegated.
        directory: Option<PathBuf> = Some(None)
            => NEW_DOOR.file(Purpose::Private, "the directory of delegated credentials");
        /// The file with the key that encrypts them: base64 of 32 random bytes or more. Made when it is missing;
        /// only its owner may read it. Keep it away from where the directory is backed up.
        key_file: Option<PathBuf> = Some(None) => NEW_DOOR.file(Purpose::SealingKey, "the key of delegated credentials");
    }
}

impl HandOver {
    /// Where payload is served, when it is not here.
    pub fn target(&self) -> Option<Location> {
        place(self.target.as_deref()?)
    }

    /// What is wrong between the keys, with the name of the section.
    pub(crate) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        for (name, url) in [("target", &self.target), ("accept_as", &self.accept_as)] {
            let Some(url) = url else { continue };
            if place(url).is_none() {
                faults.push(format!("{name}: \"{url}\" is not a URL such as \"http://host:port\""));
            }
            if self.key_file.is_none() {
                faults.push(format!("{name}: servers that work together need the same \"key_file\""));
            }
        }
        if self.lifetime > limits::CAPABILITY_LIFETIME_MAX || self.lifetime.as_secs() == 0 {
            let most = limits::CAPABILITY_LIFETIME_MAX.as_secs();
            faults.push(format!("lifetime: from 1s to {most}s"));
        }
        faults.into_iter().map(|words| (Self::SECTION.name, words)).collect()
    }
}

impl Delegation {
    /// What is wrong between the keys, with the name of the section.
    pub(crate) fn faults(&self) -> Option<(&'static str, String)> {
        let is_whole = self.directory.is_some() == self.key_file.is_some();
        let words = || "\"directory\" and \"key_file\" belong together".to_owned();
        (!is_whole).then(|| (Self::SECTION.name, words()))
    }
}

/// A server that speaks HTTP in clear text.
fn place(url: &str) -> Option<Location> {
    let place = Location::parse(url).ok()?;
    let is_plain = place.scheme() == types::Scheme::Http && place.path() == "/" && place.query().is_none();
    is_plain.then_some(place)
}
