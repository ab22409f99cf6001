//! What can be at fault.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::Mode;

/// Which end of copies an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Both ends, and probes.
    Both,
    /// It has the files.
    Source,
    /// It gets the files.
    Destination,
}

impl Role {
    /// The end on the other side.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Both => Self::Both,
            Self::Source => Self::Destination,
            Self::Destination => Self::Source,
        }
    }
}

/// Which copies are affected. What is `None` does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Scope {
    /// The scheme of URLs at the end that is at fault; of links `https` or `https to s3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// How copies are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The kind of credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
}

impl fmt::Display for Scope {
    /// With a blank in front, such as ` over https by pull with token`; empty for all copies.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(protocol) = &self.protocol {
            write!(formatter, " over {protocol}")?;
        }
        if let Some(mode) = self.mode {
            write!(formatter, " by {}", mode.name())?;
        }
        match &self.credential {
            Some(credential) => write!(formatter, " with {credential}"),
            None => Ok(()),
        }
    }
}

/// What can be at fault.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Subject {
    /// Not one of the endpoints: what all copies have in common, such as a credential.
    Everything {
        /// In which copies.
        scope: Scope,
    },
    /// One endpoint.
    Endpoint {
        /// Its name.
        name: String,
        /// As which end.
        role: Role,
        /// In which copies.
        scope: Scope,
    },
    /// All partners that an endpoint has in its copies.
    Partners {
        /// The name of the endpoint that is not one of them.
        of: String,
        /// As which end they are at fault.
        role: Role,
        /// In which copies.
        scope: Scope,
    },
    /// What is between two endpoints.
    Link {
        /// The endpoint that has the file.
        source: String,
        /// The endpoint that gets it.
        destination: String,
        /// In which copies.
        scope: Scope,
    },
}

impl Subject {
    /// Whether it is this endpoint, in any role.
    #[must_use]
    pub fn is_endpoint(&self, endpoint: &str) -> bool {
        matches!(self, Self::Endpoint { name, .. } if name == endpoint)
    }

    /// Whether a fault of this subject is one of the other, too: the same, or more of it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let has_scope = |own: &Scope, other: &Scope| {
            (own.protocol.is_none() || own.protocol == other.protocol)
                && (own.mode.is_none() || own.mode == other.mode)
                && (own.credential.is_none() || own.credential == other.credential)
        };
        match (self, other) {
            (
                Self::Endpoint { name, role, scope },
                Self::Endpoint {
                    name: other_name,
                    role: other_role,
                    scope: other_scope,
                },
            ) => name == other_name && (*role == Role::Both || role == other_role) && has_scope(scope, other_scope),
            (Self::Everything { scope }, Self::Everything { scope: other_scope }) => has_scope(scope, other_scope),
            (
                Self::Link {
                    source,
                    destination,
                    scope,
                },
                Self::Link {
                    source: other_source,
                    destination: other_destination,
                    scope: other_scope,
                },
            ) => source == other_source && destination == other_destination && has_scope(scope, other_scope),
            _ => self == other,
        }
    }

    /// What it does, such as `B fails as a source for everyone`. Not always: `for some`.
    #[must_use]
    pub fn accusation(&self, is_always: bool) -> String {
        let whom = if is_always { "everyone" } else { "some" };
        match self {
            Self::Everything { scope } if is_always => format!("everything fails{scope}"),
            Self::Everything { scope } => format!("copies between any endpoints fail{scope}"),
            Self::Endpoint { name, role, scope } => match role {
                Role::Both => format!("{name} fails for {whom}{scope}"),
                Role::Source => format!("{name} fails as a source for {whom}{scope}"),
                Role::Destination => format!("{name} fails as a destination for {whom}{scope}"),
            },
            Self::Link { .. } | Self::Partners { .. } => {
                let verb = if is_always { "fails" } else { "fails at times" };
                format!("{self} {verb}")
            }
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything { scope } => write!(formatter, "everything{scope}"),
            Self::Endpoint { name, role, scope } => match role {
                Role::Both => write!(formatter, "{name}{scope}"),
                Role::Source => write!(formatter, "{name} as a source{scope}"),
                Role::Destination => write!(formatter, "{name} as a destination{scope}"),
            },
            Self::Partners { of, role, scope } => match role {
                Role::Both => write!(formatter, "all partners of {of}{scope}"),
                Role::Source => write!(formatter, "all partners of {of} as sources{scope}"),
                Role::Destination => write!(formatter, "all partners of {of} as destinations{scope}"),
            },
            Self::Link {
                source,
                destination,
                scope,
            } => write!(formatter, "the link {source} → {destination}{scope}"),
        }
    }
}
