//! What is known of one end of a copy.

use remote::Abilities;
use serde::{Deserialize, Serialize};

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
    /// A server.
    Server,
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
    /// A file of this machine.
    pub const FILE: Self = Self::here(EndKind::File);
    /// Standard input or output of this process.
    pub const STREAM: Self = Self::here(EndKind::Stream);

    const fn here(kind: EndKind) -> Self {
        Self {
            kind,
            pulls: Ability::No,
            pushes: Ability::No,
        }
    }

    /// A server of which only the abilities of its protocol are known.
    #[must_use]
    pub fn server(abilities: Abilities) -> Self {
        let ability = |may: bool| if may { Ability::Unknown } else { Ability::No };
        Self {
            kind: EndKind::Server,
            pulls: ability(abilities.pulls),
            pushes: ability(abilities.pushes),
        }
    }
}
