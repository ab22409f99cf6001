//! The steps by which a decision was reached, as `explain` shows them: what was received, how it was
//! read, and each rule that was tried, with what came of it.

use std::fmt;

use credentials::{Activities, AddressRange, CredentialKind, duration_in_words};
use types::LogicalPath;

use crate::operation::Access;

/// One step. Its `Display` is the sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the sentences of Display say what each field is")]
pub enum Step {
    /// What was received.
    Received {
        kind: CredentialKind,
        token_id: Option<String>,
    },
    /// A token was received that cannot be used.
    Token,
    /// By whom and for whom the token was issued.
    Issued {
        issuer: Option<String>,
        subject: Option<String>,
    },
    /// How long the token is still valid; `None`: for ever.
    Lasts { left_s: Option<u64> },
    /// The client's address is one of those that the token is for.
    AddressAdmitted { addresses: Vec<Vec<AddressRange>> },
    /// No upload above this many bytes.
    UploadLimit { limit_bytes: u64 },
    /// The token's caveats exclude each other.
    GrantsNothing,
    /// The token is not valid.
    TokenInvalid { why: String },
    /// The token's time is over.
    Expired { expires_s: i64, now_s: i64 },
    /// The token may not be used from the client's address.
    AddressRefused,
    /// One scope of the token, as it was read.
    Scope { activities: Activities, path: LogicalPath },
    /// An export that was passed over: it does not hold the path, or another one does that is deeper.
    PassedOver { path: LogicalPath, holds: bool },
    /// So many more exports were passed over.
    MorePassedOver { count: usize },
    /// No export holds the path.
    NoExport { path: LogicalPath },
    /// The export whose rules apply.
    Export {
        path: LogicalPath,
        anonymous: &'static str,
        read_only: bool,
    },
    /// The export is read-only and this would change something.
    Ceiling { access: Access, path: LogicalPath },
    /// Whether what anybody may do suffices.
    Anonymous {
        access: Access,
        path: LogicalPath,
        suffices: bool,
    },
    /// Whether what the token grants suffices.
    Granted {
        access: Access,
        path: LogicalPath,
        granted: Activities,
        suffices: bool,
    },
    /// The upload is larger than the token allows.
    TooLarge { limit_bytes: u64, size_bytes: u64 },
    /// What would make it pass: any of these sets; none named means any activity.
    Needs { access: Access, path: LogicalPath },
}

/// To which part of an explanation a step belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Received,
    Read,
    Rule,
}

impl Step {
    pub(crate) fn part(&self) -> Part {
        match self {
            Self::Received { .. } | Self::Token => Part::Received,
            Self::Issued { .. }
            | Self::Lasts { .. }
            | Self::UploadLimit { .. }
            | Self::GrantsNothing
            | Self::TokenInvalid { .. }
            | Self::Scope { .. } => Part::Read,
            _ => Part::Rule,
        }
    }
}

/// The sets, as in `LIST or DOWNLOAD`.
pub(crate) fn any_of(sets: &[Activities]) -> String {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    sets.join(" or ")
}

/// What is said of who issued a token, for whom and for how long.
fn token_words(issuer: Option<&str>, subject: Option<&str>) -> String {
    let issuer = issuer
        .filter(|issuer| !issuer.is_empty())
        .unwrap_or("an issuer without a name");
    match subject {
        Some(subject) => format!("the token was issued by {issuer} for {subject}"),
        None => format!("the token was issued by {issuer}, and does not say for whom"),
    }
}

fn lasting_words(left_s: Option<u64>) -> String {
    match left_s {
        None => "the token never expires".to_owned(),
        Some(left_s) => format!("the token is valid for {} more", duration_in_words(left_s)),
    }
}

fn activities_words(activities: Activities) -> String {
    match activities.is_empty() {
        true => "nothing".to_owned(),
        false => activities.to_string(),
    }
}

fn verdict(suffices: bool) -> &'static str {
    if suffices { "suffices" } else { "does not suffice" }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Received { kind, token_id } => {
                let name = token_id.as_deref().unwrap_or_default();
                out.write_str(format!("credential: {} {name}", kind.name()).trim_end())
            }
            Self::Token => out.write_str("credential: a token"),
            Self::Issued { issuer, subject } => out.write_str(&token_words(issuer.as_deref(), subject.as_deref())),
            Self::Lasts { left_s } => out.write_str(&lasting_words(*left_s)),
            Self::AddressAdmitted { addresses } => out.write_str(match addresses.is_empty() {
                true => "the token may be used from everywhere",
                false => "the token may be used from this client's address",
            }),
            Self::UploadLimit { limit_bytes } => write!(out, "the token allows no upload above {limit_bytes} bytes"),
            Self::GrantsNothing => out.write_str("the token grants nothing: its caveats exclude each other"),
            Self::PassedOver { path, holds } => {
                let why = if *holds {
                    "holds the path, but another is deeper"
                } else {
                    "does not hold the path"
                };
                write!(out, "export {path} {why}")
            }
            Self::MorePassedOver { count } => write!(out, "{count} more exports were passed over"),
            Self::TokenInvalid { why } => write!(out, "the token is not valid: {why}"),
            Self::Expired { expires_s, now_s } => {
                let ago_s = now_s.saturating_sub(*expires_s);
                write!(out, "the token expired {ago_s} seconds ago")
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
            Self::Ceiling { access, .. } => write!(out, "the export is read-only: nobody may {}", access.name()),
            Self::Anonymous { access, path, suffices } => {
                let verdict = verdict(*suffices);
                write!(out, "to {} {path}: anonymous access {verdict}", access.name())
            }
            Self::Granted {
                access,
                path,
                granted,
                suffices,
            } => {
                let (access, granted, verdict) = (access.name(), activities_words(*granted), verdict(*suffices));
                write!(
                    out,
                    "to {access} {path}: the token grants {granted} there, which {verdict}"
                )
            }
            Self::TooLarge {
                limit_bytes,
                size_bytes,
            } => write!(
                out,
                "the token allows uploads of {limit_bytes} bytes at the most, this has {size_bytes}"
            ),
            Self::Needs { access, path } => match access.sufficient() {
                [] => write!(out, "it takes any activity on {path}"),
                sets => write!(out, "it takes {} on {path}", any_of(sets)),
            },
        }
    }
}
