//! The answer to a login: the session's name and how to authenticate.

use types::Error;

use crate::bytes::{text, text_bytes};
use crate::ids::SessionId;
use crate::refusal::misbehaved;

/// An authentication protocol that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityEntry {
    /// Its name: `ztn`, `gsi`, `unix`, `host`, `sss`, `krb5`.
    pub name: String,
    /// What follows the name and a comma; its meaning is the protocol's.
    pub parameters: Option<String>,
}

impl SecurityEntry {
    /// A protocol without parameters.
    #[must_use]
    pub fn plain(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            parameters: None,
        }
    }
}

/// The answer to a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginReply {
    /// The session's name, for further streams.
    pub session: SessionId,
    /// The protocols in the server's order; the client needs one of them. Empty: no authentication
    /// is needed.
    pub protocols: Vec<SecurityEntry>,
}

impl LoginReply {
    /// The body; its list has no NUL behind it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = self.session.0.to_vec();
        body.extend_from_slice(security_list(&self.protocols).as_bytes());
        body
    }

    /// Reads the body.
    ///
    /// # Errors
    /// `peer_misbehaved` when it is too short.
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        let (session, list) = body
            .split_first_chunk::<16>()
            .ok_or_else(|| misbehaved("the answer to a login is too short"))?;
        Ok(Self {
            session: SessionId(*session),
            protocols: parse_security_list(text_bytes(list)),
        })
    }
}

/// The list of protocols as text.
#[must_use]
pub fn security_list(protocols: &[SecurityEntry]) -> String {
    let mut list = String::new();
    for entry in protocols {
        list.push_str("&P=");
        list.push_str(&entry.name);
        if let Some(parameters) = &entry.parameters {
            list.push(',');
            list.push_str(parameters);
        }
    }
    list
}

/// Reads the list. What stands between two entries and is none is passed over.
#[must_use]
pub fn parse_security_list(list: &[u8]) -> Vec<SecurityEntry> {
    let list = text(list);
    let entries = list.split('&').filter_map(|part| part.strip_prefix("P="));
    entries
        .filter_map(|entry| {
            let (name, parameters) = entry
                .split_once(',')
                .map_or((entry, None), |(name, rest)| (name, Some(rest)));
            (!name.is_empty()).then(|| SecurityEntry {
                name: name.to_owned(),
                parameters: parameters.map(str::to_owned),
            })
        })
        .collect()
}
