//! What is known of one end of a copy.

use serde::{Deserialize, Serialize};
use types::{Error, ErrorCode, Location, Phase, Result, Scheme, Side};

/// Whether a server can do something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ability {
    /// It is known not to.
    No,
    /// Nothing is known; the attempt tells.
    #[default]
    Unknown,
    /// It has done so, or says that it does.
    Yes,
}

/// What kind of place an end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// A file of this machine.
    File,
    /// Standard input or output of this process.
    Stream,
    /// A server that speaks HTTP.
    Http,
    /// A server that speaks the XRootD protocol.
    Xrootd,
}

/// One end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Where it is.
    pub kind: EndKind,
    /// Whether it fetches files from other servers.
    pub pulls: Ability,
    /// Whether it sends files to other servers.
    pub pushes: Ability,
}

impl End {
    /// An end of which nothing is known but its kind. Servers of the XRootD protocol fetch and do not send.
    #[must_use]
    pub fn new(kind: EndKind) -> Self {
        let (pulls, pushes) = match kind {
            EndKind::Http => (Ability::Unknown, Ability::Unknown),
            EndKind::Xrootd => (Ability::Unknown, Ability::No),
            EndKind::File | EndKind::Stream => (Ability::No, Ability::No),
        };
        Self { kind, pulls, pushes }
    }

    /// The end that a URL names.
    ///
    /// # Errors
    /// `not_implemented` for a scheme without a client.
    pub fn of(location: &Location) -> Result<Self> {
        match location.scheme() {
            Scheme::Http | Scheme::Https => Ok(Self::new(EndKind::Http)),
            Scheme::Root | Scheme::Roots => Ok(Self::new(EndKind::Xrootd)),
            Scheme::File => Ok(Self::new(EndKind::File)),
            Scheme::Stdio => Ok(Self::new(EndKind::Stream)),
            Scheme::Unsupported => {
                let error = Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Open);
                Err(error.with_subject(location))
            }
        }
    }
}
