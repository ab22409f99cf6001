//! An endpoint as the mesh uses it: its places, and what it can be in a copy.

use history::{Downtime, EndpointSeen, Mode};
use remote::Access;
use types::Location;

use crate::reproduce::CredentialFile;

/// What an endpoint can be in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has the file.
    Source,
    /// It gets the file.
    Destination,
    /// It fetches or sends by itself.
    Active,
    /// Others fetch from it and send to it.
    Passive,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Source, Self::Destination, Self::Active, Self::Passive];

    /// The word in the file of endpoints.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Destination => "destination",
            Self::Active => "active",
            Self::Passive => "passive",
        }
    }

    /// A role, by its word.
    ///
    /// # Errors
    /// The words that there are.
    pub fn from_name(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|role| role.name() == word);
        found.ok_or_else(|| format!("\"{word}\" is not one of source, destination, active, passive"))
    }
}

/// A family of protocols, in clear text or over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// HTTP and WebDAV.
    Http,
    /// The XRootD protocol.
    Root,
    /// S3.
    S3,
}

impl Protocol {
    /// All families.
    pub const ALL: [Self; 3] = [Self::Http, Self::Root, Self::S3];

    /// That of a place.
    #[must_use]
    pub fn of(place: &Location) -> Self {
        match place {
            _ if place.is_xrootd() => Self::Root,
            _ if place.is_s3() => Self::S3,
            _ => Self::Http,
        }
    }

    /// The word on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Root => "root",
            Self::S3 => "s3",
        }
    }

    /// A family, by its word.
    ///
    /// # Errors
    /// The words that there are.
    pub fn from_name(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|protocol| protocol.name() == word);
        found.ok_or_else(|| format!("\"{word}\" is not one of http, root, s3"))
    }
}

/// What an endpoint is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CredentialKind {
    /// A certificate, mostly a proxy.
    X509,
    /// A bearer token.
    Token,
    /// What a named remote has for its own servers only: an access key, or a password.
    Keys,
    /// Nothing.
    Anonymous,
}

impl CredentialKind {
    /// All kinds, the strongest first.
    pub const ALL: [Self; 4] = [Self::X509, Self::Token, Self::Keys, Self::Anonymous];

    /// The word in tables and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::X509 => "x509",
            Self::Token => "token",
            Self::Keys => "keys",
            Self::Anonymous => "anonymous",
        }
    }
}

/// A credential for a place.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Its kind.
    pub kind: CredentialKind,
    /// What is shown with each request: this credential and no other.
    pub access: Access,
    /// The file with the token or certificate, for commands that reproduce a failure.
    pub file: Option<CredentialFile>,
}

/// A directory of an endpoint in one protocol.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its URL.
    pub location: Location,
    /// The credentials at hand.
    pub credentials: Vec<Credential>,
    /// Credentials that should be at hand and are not, each with the reason.
    pub missing: Vec<(CredentialKind, String)>,
}

impl Place {
    /// The credential for copies of a kind: its own, or else keys that are good here only, or
    /// nothing where that suffices.
    #[must_use]
    pub fn credential(&self, kind: CredentialKind) -> Option<usize> {
        let position = |kind| self.credentials.iter().position(|one| one.kind == kind);
        position(kind)
            .or_else(|| position(CredentialKind::Keys))
            .or_else(|| position(CredentialKind::Anonymous))
    }

    /// Whether it should have a credential of this kind.
    #[must_use]
    pub fn claims(&self, kind: CredentialKind) -> bool {
        self.credentials.iter().any(|one| one.kind == kind) || self.missing.iter().any(|(one, _)| *one == kind)
    }
}

/// An endpoint.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its name.
    pub name: String,
    /// Free words to select by.
    pub tags: Vec<String>,
    /// Mail addresses of those who care for it.
    pub administrators: Vec<String>,
    /// What it can be.
    pub roles: Vec<Role>,
    /// Ways to copy that it takes part in; empty: all.
    pub modes: Vec<Mode>,
    /// Whether it reports checksums.
    pub has_checksums: bool,
    /// Its directories, one per protocol.
    pub places: Vec<Place>,
    /// When it is out of service.
    pub downtimes: Vec<Downtime>,
}

impl Endpoint {
    /// Its place in a protocol.
    #[must_use]
    pub fn place(&self, protocol: Protocol) -> Option<usize> {
        self.places
            .iter()
            .position(|place| Protocol::of(&place.location) == protocol)
    }

    /// Whether a word selects it: its name or one of its tags.
    #[must_use]
    pub fn is_named(&self, word: &str) -> bool {
        self.name == word || self.tags.iter().any(|tag| tag == word)
    }

    /// The downtime at a moment, in milliseconds since 1970.
    #[must_use]
    pub fn downtime(&self, now_ms: u64) -> Option<&Downtime> {
        let lasts = |downtime: &&Downtime| downtime.from_ms <= now_ms && now_ms < downtime.until_ms;
        self.downtimes.iter().find(lasts)
    }

    /// What reports say of it.
    #[must_use]
    pub fn seen(&self, now_ms: u64) -> EndpointSeen {
        EndpointSeen {
            name: self.name.clone(),
            tags: self.tags.clone(),
            administrators: self.administrators.clone(),
            software: None,
            downtime: self.downtime(now_ms).cloned(),
        }
    }
}
