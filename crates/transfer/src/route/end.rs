//! The source or destination of a copy, for choosing its route.

use remote::{Abilities, Client};
use serde::{Deserialize, Serialize};
use types::{Location, Result};

/// Whether a server can do something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ability {
    /// It cannot.
    No,
    /// Unknown; the attempt will show.
    #[default]
    Unknown,
    /// It has done so, or declares it.
    Yes,
}

impl Ability {
    /// What a server says of itself.
    pub(super) fn of(told: Option<bool>) -> Self {
        match told {
            None => Self::Unknown,
            Some(false) => Self::No,
            Some(true) => Self::Yes,
        }
    }
}

/// How an ability is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The server says so.
    Told,
    /// An earlier copy of the same command showed it.
    Attempt,
    /// Operators have said so.
    Configured,
}

impl Evidence {
    /// The evidence for people, as a part of a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Told => "it says so",
            Self::Attempt => "an earlier copy showed it",
            Self::Configured => "the settings of this storage say so",
        }
    }
}

/// The kind of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// A file on this machine.
    File,
    /// Standard input or output of this process.
    Stream,
    /// A server.
    Server,
}

/// What is known of a server that the client gives a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyUse {
    /// Whether it fetches with that proxy.
    pub ability: Ability,
    /// How that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

/// One end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Its kind.
    pub kind: EndKind,
    /// Whether it fetches files from other servers.
    pub pulls: Ability,
    /// Whether it sends files to other servers.
    pub pushes: Ability,
    /// How the ability that counts in this copy is known, if not from the protocol alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// Whether it fetches as the client, with a proxy that the client signs for it, and needs no
    /// rendezvous key. `None`: the client signs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyUse>,
}

impl End {
    /// A file on this machine.
    pub const FILE: Self = Self::here(EndKind::File);
    /// Standard input or output of this process.
    pub const STREAM: Self = Self::here(EndKind::Stream);

    const fn here(kind: EndKind) -> Self {
        Self {
            kind,
            pulls: Ability::No,
            pushes: Ability::No,
            evidence: None,
            proxy: None,
        }
    }

    /// This server, which can be the active side with every protocol that its client speaks.
    pub(super) const OURS: Self = Self {
        kind: EndKind::Server,
        pulls: Ability::Yes,
        pushes: Ability::Yes,
        evidence: None,
        proxy: None,
    };

    /// The server of `location`, if a protocol of `client` speaks to it.
    ///
    /// # Errors
    /// `bad_url` with the schemes that the client speaks.
    pub fn at(client: &Client, location: &Location) -> Result<Self> {
        client.check_scheme(location)?;
        Ok(Self::server(client.abilities(location)))
    }

    /// A server with the abilities of its protocol.
    #[must_use]
    pub fn server(abilities: Abilities) -> Self {
        let ability = |may: bool| if may { Ability::Unknown } else { Ability::No };
        Self {
            kind: EndKind::Server,
            pulls: ability(abilities.pulls),
            pushes: ability(abilities.pushes),
            evidence: None,
            proxy: None,
        }
    }

    /// The same server with what operators rule out: that it fetches, or that it sends. What they
    /// allow is not known to work yet.
    #[must_use]
    pub fn configured(self, pulls: bool, pushes: bool) -> Self {
        let limited = |ability, allowed: bool| if allowed { ability } else { Ability::No };
        Self {
            pulls: limited(self.pulls, pulls),
            pushes: limited(self.pushes, pushes),
            evidence: if pulls && pushes {
                self.evidence
            } else {
                Some(Evidence::Configured)
            },
            proxy: self.proxy.map(|proxy| ProxyUse {
                ability: limited(proxy.ability, pulls),
                ..proxy
            }),
            ..self
        }
    }

    /// The same server, for which the client signs a proxy.
    #[must_use]
    pub fn with_proxy(self) -> Self {
        let proxy = Some(ProxyUse::default());
        Self { proxy, ..self }
    }
}
