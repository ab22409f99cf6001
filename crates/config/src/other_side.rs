//! Keys about credentials for other servers, and about payload that other servers deliver.

use std::path::PathBuf;
use std::time::Duration;

use types::{Location, limits};

use crate::section;
use crate::section::{NEW_DOOR, Purpose};
use crate::values::Bytes;

section! {
    /// Payload in clear text: requests that were authorised over TLS are redirected to plain HTTP,
    /// with a capability in the URL that allows one client one operation on one file, for a minute.
    /// This saves the encryption, about half of the cost of serving a file, but anyone on the path
    /// can read and change the data. Clients that send `Secure-Redirection: 1` are served over TLS.
    "hand_over" false HandOver {
        /// Redirect GET (302).
        reads: bool = Some(false) => NEW_DOOR;
        /// Redirect PUT (307), for clients that announce the size and send `Expect: 100-continue`.
        /// Others have already started sending.
        writes: bool = Some(false) => NEW_DOOR;
        /// Endpoint that serves the payload, such as `"http://disk1.example.org:1080"`. It needs
        /// the same `key_file`, and this URL as its `accept_as`. When not set: this server, on the
        /// same port.
        target: Option<String> = Some(None) => NEW_DOOR;
        /// URL under which other servers send clients to this one, such as
        /// `"https://d1.example.org:1094"` for a node of a redirector with `capabilities`. For some seconds after a start,
        /// writes that other servers authorised are refused, so that no capability is used twice.
        accept_as: Option<String> = Some(None) => NEW_DOOR;
        /// File with the key that seals capabilities: base64 of at least 32 random bytes, readable
        /// for its owner only. Created if missing. Needed only between several servers: without it
        /// the server makes a new key at each start.
        key_file: Option<PathBuf> = Some(None) => NEW_DOOR.file(Purpose::SealingKey, "the key of the hand-over");
        /// How long a capability is valid. One for writing can be used once. Redirectors
        /// make those for reading valid 60 times as long if they are bound to an address.
        lifetime: Duration = Some(limits::CAPABILITY_LIFETIME) => NEW_DOOR;
        /// Bind a capability to the client's address. Turn it off where clients come through
        /// several gateways.
        bind_address: bool = Some(true) => NEW_DOOR;
        /// Serve smaller files over TLS at once.
        minimum_bytes: Bytes = Some(Bytes(1024 * 1024)) => NEW_DOOR;
    }
}

section! {
    /// Credentials that clients delegate for the other side of their copies: by `Credential:
    /// gridsite`, by GridSite's SOAP service at `/delegation`, by FTS' REST service at `/whoami`
    /// and `/delegation/ID`, and in logins by gsi. These paths then belong to no export. Needs
    /// client certificates.
    "delegation" false Delegation {
        /// Directory for delegated credentials, each in an encrypted file. Created if missing,
        /// accessible to its owner only. Needs `key_file`. When not set: delegation is off.
        directory: Option<PathBuf> = Some(None)
            => NEW_DOOR.file(Purpose::Private, "the directory of delegated credentials");
        /// File with the key that encrypts them: base64 of at least 32 random bytes, readable for
        /// its owner only. Needs `directory`. Created if missing; do not back it up together with
        /// the directory.
        key_file: Option<PathBuf> = Some(None) => NEW_DOOR.file(Purpose::SealingKey, "the key of delegated credentials");
    }
}

impl HandOver {
    /// The server that delivers the payload, if it is not this one.
    pub fn target(&self) -> Option<Location> {
        place(self.target.as_deref()?)
    }

    /// Whether clients may come with a right that another server gave them.
    pub fn takes_clients_of_others(&self) -> bool {
        self.accept_as.is_some() && self.key_file.is_some()
    }

    /// Mistakes that involve several keys.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, url) in [("target", &self.target), ("accept_as", &self.accept_as)] {
            let Some(url) = url else { continue };
            let is_fit = place(url).is_some_and(|place| name == "accept_as" || !place.is_encrypted());
            if !is_fit {
                faults.push(format!(
                    "{name}: \"{url}\" is not the URL of a server; write one such as \"http://host:port\""
                ));
            }
            if self.key_file.is_none() {
                faults.push(format!("{name}: needs a key that both servers share; set key_file"));
            }
        }
        if self.lifetime > limits::CAPABILITY_LIFETIME_MAX || self.lifetime.as_secs() == 0 {
            let most = limits::CAPABILITY_LIFETIME_MAX.as_secs();
            faults.push(format!("lifetime: must be from 1s to {most}s"));
        }
        faults
    }
}

impl Delegation {
    /// The mistake that involves several keys.
    pub(crate) fn fault(&self) -> Option<String> {
        let words = match (&self.directory, &self.key_file) {
            (Some(_), None) => "directory: needs a key that encrypts what is in it; set key_file, too",
            (None, Some(_)) => "key_file: encrypts nothing without a directory; set directory, too",
            _ => return None,
        };
        Some(words.to_owned())
    }
}

/// A server that speaks HTTP.
fn place(url: &str) -> Option<Location> {
    let place = Location::parse(url).ok()?;
    let is_plain = place.is_http() && place.path() == "/" && place.query().is_none();
    is_plain.then_some(place)
}
