//! The steps by which a decision was reached, as `explain` shows them: what was received, how it
//! was read, and each rule that was tried, with what came of it.

use std::fmt;
use std::sync::Arc;

use credentials::{Activities, AddressRange, CredentialKind, duration_in_words};
use types::{ErrorCode, LogicalPath};

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
    TokenInvalid { code: ErrorCode, why: String },
    /// The certificate that was shown is not believed.
    CertificateRefused { why: String },
    /// A name of the holder, such as `dn`, and what it is.
    Named { kind: &'static str, name: String },
    /// Why some VOMS attributes were ignored.
    AttributesLeftOut { why: String },
    /// The credential's time is over.
    Expired {
        what: CredentialKind,
        expires_s: i64,
        now_s: i64,
    },
    /// The token's time has not begun.
    NotYetValid { begins_s: i64, now_s: i64 },
    /// The token may not be used from the client's address.
    AddressRefused,
    /// One scope of the token, as it was read.
    Scope {
        activities: Activities,
        path: LogicalPath,
        inside_only: bool,
    },
    /// A rule that holds on the path, and what comes of it.
    Rule { rule: String, outcome: RuleOutcome },
    /// So many more rules are about other paths or clients.
    MoreRules { count: usize },
    /// An export that was passed over: it does not contain the path, or another one does that is
    /// deeper.
    PassedOver { path: LogicalPath, holds: bool },
    /// So many more exports do not apply.
    MorePassedOver { count: usize },
    /// No export holds the path.
    NoExport { path: LogicalPath },
    /// The export whose rules apply.
    Export {
        path: LogicalPath,
        anonymous: &'static str,
        read_only: bool,
    },
    /// The ceiling of the export is below this.
    Ceiling {
        access: Access,
        path: LogicalPath,
        read_only: bool,
        ceiling: Activities,
    },
    /// The path leads to something that may be used.
    OnTheWay { access: Access, path: LogicalPath },
    /// Rules take what is needed.
    Taken { access: Access, path: LogicalPath },
    /// A step about a path that the requester may not see.
    Hidden(Box<Step>),
    /// The same for him: so much of the path as he named himself.
    ClosedBelow { path: LogicalPath },
    /// In whose name it is done.
    Owner {
        user: Option<Arc<str>>,
        vo: Option<Arc<str>>,
    },
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
    Needs {
        access: Access,
        path: LogicalPath,
        lack: Option<Lack>,
    },
    /// The same, when a certificate was shown that counts for nothing.
    NeedsCertificate {
        access: Access,
        path: LogicalPath,
        why: String,
    },
}

/// Why a macaroon does not carry what is needed, although it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lack {
    /// What the macaroon allows here.
    pub carried: Activities,
    /// What it does not.
    pub missing: Activities,
    /// Whether it allows that elsewhere.
    pub is_exception: bool,
}

impl fmt::Display for Lack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (carried, missing) = (activities_words(self.carried), self.missing);
        match self.is_exception {
            true => write!(
                out,
                "the macaroon has {carried} here, but not {missing}, which its requester did not have here"
            ),
            false => write!(
                out,
                "the macaroon has {carried}: {missing} was requested but not granted, because the requester did not have it there"
            ),
        }
    }
}

/// What comes of a rule that holds on the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleOutcome {
    /// It is about the holder.
    Applies,
    /// It is about the holder, who came with a token that says by itself what it may be used for.
    TakesOnly,
    /// It is about others: of this nothing is known to be true.
    Others(String),
    /// The holder's token has this group, from an issuer that does not speak for the group's VO.
    GroupOfAnother(String),
    /// A rule before it ended the search.
    Behind,
}

/// To which part of an explanation a step belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Received,
    Read,
    Rule,
}

impl Step {
    /// Whether it says what is nobody's business but the site's.
    pub(crate) fn is_about_others(&self) -> bool {
        match self {
            Self::PassedOver { .. } | Self::MorePassedOver { .. } | Self::MoreRules { .. } | Self::Hidden(_) => true,
            Self::Rule { outcome, .. } => matches!(outcome, RuleOutcome::Others(_) | RuleOutcome::Behind),
            _ => false,
        }
    }

    /// The path of a refusal because rights are missing there.
    pub(crate) fn closed_path(&self) -> Option<&LogicalPath> {
        match self {
            Self::Taken { path, .. } | Self::Needs { path, .. } | Self::NeedsCertificate { path, .. } => Some(path),
            _ => None,
        }
    }

    pub(crate) fn part(&self) -> Part {
        match self {
            Self::Received { .. } | Self::Token => Part::Received,
            Self::Issued { .. }
            | Self::Lasts { .. }
            | Self::UploadLimit { .. }
            | Self::GrantsNothing
            | Self::TokenInvalid { .. }
            | Self::CertificateRefused { .. }
            | Self::Named { .. }
            | Self::AttributesLeftOut { .. }
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
        None => format!("the token was issued by {issuer}, without a subject"),
    }
}

fn lasting_words(left_s: Option<u64>) -> String {
    match left_s {
        None => "the token never expires".to_owned(),
        Some(left_s) => format!("the token is valid for another {}", duration_in_words(left_s)),
    }
}

fn activities_words(activities: Activities) -> String {
    match activities.is_empty() {
        true => "nothing".to_owned(),
        false => activities.to_string(),
    }
}

fn verdict(suffices: bool) -> &'static str {
    if suffices { "is enough" } else { "is not enough" }
}

/// What is said of a right on a path.
fn needs_words(access: Access, path: &LogicalPath) -> String {
    match access.sufficient() {
        [] => format!("requires any activity on {path}"),
        sets => format!("requires {} on {path}", any_of(sets)),
    }
}

fn owner_words(user: Option<&str>, vo: Option<&str>) -> String {
    match (user, vo) {
        (None, None) => "it is done under the server's account".to_owned(),
        (Some(user), None) => format!("it is done as the local user {user}"),
        (None, Some(vo)) => format!("it counts against the quota of {vo}"),
        (Some(user), Some(vo)) => format!("it is done as the local user {user} and counts against the quota of {vo}"),
    }
}

fn ceiling_words(access: Access, read_only: bool, ceiling: Activities) -> String {
    match read_only {
        true => format!("the export is read-only: no client may {}", access.name()),
        false => format!(
            "the ceiling of the export is {}: no client may {}",
            activities_words(ceiling),
            access.name()
        ),
    }
}

impl fmt::Display for RuleOutcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applies => out.write_str("applies"),
            Self::TakesOnly => out.write_str(
                "gives nothing here: a token with rights of its own gets from rules only what they give to anyone",
            ),
            Self::Others(who) => write!(out, "is for others: {who} does not match"),
            Self::GroupOfAnother(group) => write!(
                out,
                "does not count: the token has {group}, but its issuer does not speak for that VO; set vo in the \
                 [[issuer]], or any_issuer in the rule"
            ),
            Self::Behind => out.write_str("is not reached: an earlier rule has last = true"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Received { kind, token_id } => {
                let name = token_id.as_deref().unwrap_or_default();
                out.write_str(format!("credential: {} {name}", kind.name()).trim_end())
            }
            Self::Token => out.write_str("credential: a token"),
            Self::PassedOver { path, holds: true } => {
                write!(out, "export {path} contains the path, but a deeper export counts")
            }
            Self::PassedOver { path, .. } => write!(out, "export {path} does not contain the path"),
            Self::MorePassedOver { count } => write!(out, "{count} more exports do not apply"),
            Self::NoExport { path } => write!(out, "no export contains {path}"),
            Self::Export {
                path,
                anonymous,
                read_only,
            } => {
                let ceiling = if *read_only { ", read-only" } else { "" };
                write!(out, "export {path}: anonymous access \"{anonymous}\"{ceiling}")
            }
            Self::Ceiling {
                access,
                read_only,
                ceiling,
                ..
            } => out.write_str(&ceiling_words(*access, *read_only, *ceiling)),
            Self::Rule { rule, outcome } => write!(out, "{rule}: {outcome}"),
            Self::MoreRules { count } => write!(out, "{count} more rules are about other paths or clients"),
            Self::OnTheWay { access, path } => {
                let access = access.name();
                write!(out, "to {access} {path}: allowed, because a rule gives rights below it")
            }
            Self::Hidden(step) => step.fmt(out),
            Self::ClosedBelow { path } => write!(out, "requires rights on everything below {path}"),
            Self::Taken { access, path } => write!(out, "a rule takes away the right to {} {path}", access.name()),
            Self::Owner { user, vo } => out.write_str(&owner_words(user.as_deref(), vo.as_deref())),
            Self::Needs { access, path, lack } => {
                out.write_str(&needs_words(*access, path))?;
                lack.as_ref().map_or(Ok(()), |lack| write!(out, "; {lack}"))
            }
            Self::NeedsCertificate { access, path, why } => {
                let needs = needs_words(*access, path);
                write!(out, "{needs}, and the certificate is not accepted: {why}")
            }
            Self::Anonymous { access, path, suffices } => {
                let verdict = verdict(*suffices);
                write!(out, "to {} {path}: anonymous access {verdict}", access.name())
            }
            other => other.fmt_credential(out),
        }
    }
}

impl Step {
    /// What is said of the credential and of what it grants.
    fn fmt_credential(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Issued { issuer, subject } => out.write_str(&token_words(issuer.as_deref(), subject.as_deref())),
            Self::Lasts { left_s } => out.write_str(&lasting_words(*left_s)),
            Self::AddressAdmitted { addresses } => out.write_str(match addresses.is_empty() {
                true => "the token may be used from any address",
                false => "the token may be used from this client's address",
            }),
            Self::AddressRefused => out.write_str("the token may not be used from this client's address"),
            Self::UploadLimit { limit_bytes } => write!(out, "the token allows no upload above {limit_bytes} bytes"),
            Self::GrantsNothing => out.write_str("the token grants nothing: its caveats exclude each other"),
            Self::TokenInvalid { why, .. } => write!(out, "the token is not valid: {why}"),
            Self::CertificateRefused { why } => write!(out, "the certificate is not accepted: {why}"),
            Self::Named { kind, name } => write!(out, "{kind}: {name}"),
            Self::AttributesLeftOut { why } => write!(out, "VOMS attributes were ignored: {why}"),
            Self::Expired { what, expires_s, now_s } => {
                let ago_s = now_s.saturating_sub(*expires_s);
                let what = match what {
                    CredentialKind::Certificate => "certificate",
                    _ => "token",
                };
                write!(out, "the {what} expired {ago_s} seconds ago")
            }
            Self::NotYetValid { begins_s, now_s } => {
                let wait_s = begins_s.saturating_sub(*now_s);
                write!(out, "the token becomes valid in {wait_s} seconds")
            }
            Self::Scope {
                activities,
                path,
                inside_only,
            } => {
                let inside = if *inside_only { ", but not on that itself" } else { "" };
                write!(out, "the token grants {activities} on {path}{inside}")
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
                "the token allows uploads of at most {limit_bytes} bytes, this has {size_bytes}"
            ),
            _ => Ok(()),
        }
    }
}
