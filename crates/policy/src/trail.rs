//! The steps by which a decision was reached, as `explain` shows them.

use std::fmt;

use credentials::{Activities, CredentialKind};
use types::LogicalPath;

/// One step. Its `Display` is the sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the sentences of Display say what each field is")]
pub enum Step {
    /// What was received.
    Received {
        kind: CredentialKind,
        token_id: Option<String>,
    },
    /// The token is not valid.
    TokenInvalid { why: String },
    /// The token's time is over.
    Expired { expires_s: i64, now_s: i64 },
    /// The token may not be used from the client's address.
    AddressRefused,
    /// One scope of the token, as it was read.
    Scope { activities: Activities, path: LogicalPath },
    /// No export holds the path.
    NoExport { path: LogicalPath },
    /// The export whose rules apply.
    Export {
        path: LogicalPath,
        anonymous: &'static str,
        read_only: bool,
    },
    /// The export is read-only and this would change something.
    Ceiling { access: &'static str },
    /// Whether what anybody may do suffices.
    Anonymous {
        access: &'static str,
        path: LogicalPath,
        suffices: bool,
    },
    /// Whether what the token grants suffices.
    Granted {
        access: &'static str,
        path: LogicalPath,
        granted: Activities,
        suffices: bool,
    },
    /// The upload is larger than the token allows.
    TooLarge { limit_bytes: u64, size_bytes: u64 },
    /// What would make it pass: any of these sets; none named means any activity.
    Needs {
        sufficient: &'static [Activities],
        path: LogicalPath,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = |suffices: bool| if suffices { "suffices" } else { "does not suffice" };
        match self {
            Self::Received { kind, token_id: None } => write!(out, "credential: {}", kind.name()),
            Self::Received {
                kind,
                token_id: Some(id),
            } => write!(out, "credential: {} {id}", kind.name()),
            Self::TokenInvalid { why } => write!(out, "the token is not valid: {why}"),
            Self::Expired { expires_s, now_s } => {
                write!(
                    out,
                    "the token expired {} seconds ago",
                    now_s.saturating_sub(*expires_s)
                )
            }
            Self::AddressRefused => out.write_str("the token may not be used from this client's address"),
            Self::Scope { activities, path } => write!(out, "the token grants {activities} on {path}"),
            Self::NoExport { path } => write!(out, "no export holds {path}"),
            Self::Export {
                path,
                anonymous,
                read_only,
            } => {
                let ceiling = if *read_only { ", read-only" } else { "" };
                write!(out, "export {path}: anonymous access \"{anonymous}\"{ceiling}")
            }
            Self::Ceiling { access } => write!(out, "the export is read-only: nobody may {access}"),
            Self::Anonymous { access, path, suffices } => {
                write!(out, "to {access} {path}: anonymous access {}", verdict(*suffices))
            }
            Self::Granted {
                access,
                path,
                granted,
                suffices,
            } => {
                let granted = if granted.is_empty() {
                    "nothing".to_owned()
                } else {
                    granted.to_string()
                };
                write!(
                    out,
                    "to {access} {path}: the token grants {granted} there, which {}",
                    verdict(*suffices)
                )
            }
            Self::TooLarge {
                limit_bytes,
                size_bytes,
            } => {
                write!(
                    out,
                    "the token allows uploads of {limit_bytes} bytes at the most, this has {size_bytes}"
                )
            }
            Self::Needs { sufficient: [], path } => write!(out, "it takes any activity on {path}"),
            Self::Needs { sufficient, path } => {
                let sets: Vec<String> = sufficient.iter().map(ToString::to_string).collect();
                write!(out, "it takes {} on {path}", sets.join(" or "))
            }
        }
    }
}
