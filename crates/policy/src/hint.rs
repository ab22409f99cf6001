//! What would make a refused request pass: what its sender can do, and what the site can.

use std::fmt;

use credentials::{Activities, AddressRange, Credential, CredentialKind};
use types::{Error, ErrorCode, LogicalPath};

use crate::decide::{Request, is_allowed};
use crate::operation::Access;
use crate::policy::Policy;
use crate::rule::{Rule, quoted};
use crate::rules::AnonymousAccess;
use crate::trail::{Step, any_of};
use crate::who::{Person, Who};

/// Most exports, and rules, that a hint names.
const NAMED_MAX: usize = 8;

/// One way. Its `Display` is the sentence for people. Where two things stand in the way of a
/// request, a hint is about the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The token is of no use, and without one it would be allowed.
    LeaveTokenOut,
    /// The token is useless; another token may help.
    OtherToken,
    /// The token was good once.
    FreshToken,
    /// The token will be good.
    WaitForToken,
    /// The certificate that was shown counts for nothing.
    OtherCertificate,
    /// There are rules that give it to others.
    BeAmong {
        /// Whom, each with the rule's place.
        rules: Vec<String>,
    },
    /// The site adds a rule.
    AddRule {
        /// About whom.
        who: String,
        /// For which path.
        path: LogicalPath,
        /// What it gives.
        may: &'static str,
    },
    /// The site changes what its rules take.
    ChangeRules {
        /// Where they stand.
        places: Vec<String>,
    },
    /// The site raises the ceiling of an export.
    RaiseCeiling {
        /// The export.
        export: LogicalPath,
        /// The activities that it needs at least; any of these.
        sufficient: &'static [Activities],
    },
    /// It takes a token, or one that grants more: any of these sets on that path; none named means
    /// any activity.
    Token {
        /// Any of these.
        sufficient: &'static [Activities],
        /// Where.
        path: LogicalPath,
    },
    /// The token has what it takes, but on these paths only.
    ElsewhereOnly {
        /// Where it has.
        scopes: Vec<LogicalPath>,
    },
    /// The token is for clients at these addresses.
    ComeFrom {
        /// One of each list.
        addresses: Vec<Vec<AddressRange>>,
    },
    /// A smaller upload.
    SmallerUpload {
        /// The most that the token allows.
        limit_bytes: u64,
    },
    /// A path in one of the exports.
    OtherPath {
        /// Some of them.
        exports: Vec<LogicalPath>,
    },
    /// The site lets anybody do it.
    OpenExport {
        /// The export to open.
        export: LogicalPath,
        /// How far it must reach at least.
        anonymous: AnonymousAccess,
    },
    /// The site lifts the export's ceiling.
    LiftCeiling {
        /// The export.
        export: LogicalPath,
    },
}

impl fmt::Display for Hint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeaveTokenOut => out.write_str("send no token: it is allowed without one"),
            Self::OtherToken => out.write_str("send a token of this server, or of an issuer that it accepts"),
            Self::FreshToken => out.write_str("get a new token; this one has expired"),
            Self::WaitForToken => out.write_str("wait until the token is valid, or compare the clocks"),
            Self::OtherCertificate => out.write_str("send a certificate or proxy that is valid and trusted here"),
            Self::Token { sufficient: [], path } => write!(out, "send a token that grants anything on {path}"),
            Self::Token { sufficient, path } => {
                write!(out, "send a token that grants {} on {path}", any_of(sufficient))
            }
            Self::ElsewhereOnly { scopes } => {
                write!(out, "or use a path in {}, where the token grants that", list(scopes))
            }
            Self::ComeFrom { addresses } => come_from(addresses, out),
            Self::SmallerUpload { limit_bytes } => {
                write!(
                    out,
                    "upload at most {limit_bytes} bytes, or send a token that allows more"
                )
            }
            Self::OtherPath { exports } if exports.is_empty() => out.write_str("the site must add an [[export]]"),
            Self::OtherPath { exports } => write!(out, "use a path in one of the exports: {}", list(exports)),
            other => other.fmt_site(out),
        }
    }
}

impl Hint {
    /// Whether it says what is nobody's business but the site's.
    pub(crate) fn is_about_others(&self) -> bool {
        matches!(
            self,
            Self::BeAmong { .. } | Self::OtherPath { .. } | Self::ChangeRules { .. }
        )
    }

    /// What the site can do.
    fn fmt_site(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeAmong { rules } => write!(
                out,
                "or belong to those to whom a rule gives the right: {}",
                list(rules)
            ),
            Self::AddRule { who, path, may } => write!(
                out,
                "or the site adds a [[rule]] with who = {}, path = \"{path}\", may = [\"{may}\"]",
                quoted(who)
            ),
            Self::ChangeRules { places } => write!(
                out,
                "the site must change who or may_not in the rules that take the right away: {}",
                list(places)
            ),
            Self::OpenExport { export, anonymous } => write!(
                out,
                "or the site allows everyone: anonymous = \"{}\" in the [[export]] of {export}",
                anonymous.name()
            ),
            Self::LiftCeiling { export } => {
                write!(out, "the site must set read_only = false in the [[export]] of {export}")
            }
            Self::RaiseCeiling { export, sufficient } => {
                let what = match sufficient {
                    [] => "something".to_owned(),
                    sets => any_of(sets),
                };
                write!(
                    out,
                    "the site must add {what} to the ceiling in the [[export]] of {export}"
                )
            }
            _ => Ok(()),
        }
    }
}

fn come_from(addresses: &[Vec<AddressRange>], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    out.write_str("use the token from its addresses: ")?;
    for (index, ranges) in addresses.iter().enumerate() {
        out.write_str(if index > 0 { ", and of these from " } else { "" })?;
        out.write_str(&list(ranges))?;
    }
    Ok(())
}

fn list(items: &[impl ToString]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(", ")
}

/// What would make a request pass whose refusal is the last step of `trail`.
pub(crate) fn hints(
    policy: &Policy,
    credential: Result<&Credential, &Error>,
    request: &Request,
    trail: &[Step],
) -> Vec<Hint> {
    let mut hints = Vec::new();
    let holder = credential.ok();
    let grant = holder.and_then(Credential::grant);
    match trail.last() {
        Some(Step::TokenInvalid { code, .. }) => hints.push(match code {
            ErrorCode::TokenExpired => Hint::FreshToken,
            ErrorCode::TokenNotYetValid => Hint::WaitForToken,
            _ => Hint::OtherToken,
        }),
        Some(Step::Expired { .. }) => hints.push(Hint::FreshToken),
        Some(Step::NotYetValid { .. }) => hints.push(Hint::WaitForToken),
        Some(Step::AddressRefused) => hints.extend(grant.map(|grant| Hint::ComeFrom {
            addresses: grant.addresses.clone(),
        })),
        Some(Step::TooLarge { limit_bytes, .. }) => hints.push(Hint::SmallerUpload {
            limit_bytes: *limit_bytes,
        }),
        Some(Step::NoExport { .. }) => {
            let exports = policy.exports().iter().take(NAMED_MAX);
            let exports = exports.map(|export| export.path.clone()).collect();
            hints.push(Hint::OtherPath { exports });
        }
        Some(Step::Ceiling {
            access,
            path,
            read_only,
            ceiling,
        }) => higher_ceiling(policy, *access, path, *read_only, *ceiling, &mut hints),
        Some(Step::Needs { access, path, .. }) => needs(policy, holder, *access, path, request, &mut hints),
        Some(Step::NeedsCertificate { access, path, .. }) => {
            hints.push(Hint::OtherCertificate);
            needs(policy, None, *access, path, request, &mut hints);
        }
        Some(Step::Taken { path, .. }) => taken(policy, holder, path, request, &mut hints),
        _ => {}
    }
    let expired_token = |step: &Step| match step {
        Step::Expired { what, .. } => *what != CredentialKind::Certificate,
        Step::TokenInvalid { .. } | Step::AddressRefused | Step::NotYetValid { .. } => true,
        _ => false,
    };
    if trail.last().is_some_and(expired_token) && is_allowed(policy, &Credential::Anonymous, request) {
        hints.push(Hint::LeaveTokenOut);
    }
    hints
}

fn higher_ceiling(
    policy: &Policy,
    access: Access,
    path: &LogicalPath,
    read_only: bool,
    ceiling: Activities,
    hints: &mut Vec<Hint>,
) {
    let Some(export) = policy.export_of(path).map(|export| export.path.clone()) else {
        return;
    };
    if read_only {
        hints.push(Hint::LiftCeiling { export: export.clone() });
    }
    if !access.is_satisfied_by(ceiling) {
        let sufficient = access.sufficient();
        hints.push(Hint::RaiseCeiling { export, sufficient });
    }
}

fn needs(
    policy: &Policy,
    credential: Option<&Credential>,
    access: Access,
    path: &LogicalPath,
    request: &Request,
    hints: &mut Vec<Hint>,
) {
    hints.push(Hint::Token {
        sufficient: access.sufficient(),
        path: path.clone(),
    });
    let grant = credential.and_then(Credential::grant);
    let scopes = grant.map_or(&[][..], |grant| &grant.scopes);
    let elsewhere: Vec<LogicalPath> = scopes
        .iter()
        .filter(|scope| access.is_satisfied_by(scope.activities) && !path.is_within(&scope.path))
        .map(|scope| scope.path.clone())
        .collect();
    if !elsewhere.is_empty() {
        hints.push(Hint::ElsewhereOnly { scopes: elsewhere });
    }
    let Some(export) = policy.export_of(path) else { return };
    let holder = credential.map(|credential| Person::holder(credential, request.client_address));
    let user = holder.and_then(|holder| holder.user);
    let gives = |rule: &&Rule| access.is_satisfied_by(rule.may) && rule.holds_on(path.as_str(), user);
    let rules: Vec<String> = policy.rules().iter().filter(gives).take(NAMED_MAX).map(whom).collect();
    if !rules.is_empty() {
        hints.push(Hint::BeAmong { rules });
    }
    if let Some(who) = holder
        .filter(|_| grant.is_none())
        .and_then(|holder| holder.telling_name())
    {
        hints.push(Hint::AddRule {
            who: who.to_string(),
            path: path.clone(),
            may: access.word(),
        });
    }
    let suffices = |level: &AnonymousAccess| access.is_satisfied_by(level.activities());
    let level = [AnonymousAccess::Read, AnonymousAccess::Write]
        .into_iter()
        .find(suffices);
    hints.extend(level.map(|anonymous| Hint::OpenExport {
        export: export.path.clone(),
        anonymous,
    }));
}

fn whom(rule: &Rule) -> String {
    let who: Vec<String> = rule.who.iter().map(Who::to_string).collect();
    format!("{} ({})", who.join(" and "), rule.place)
}

/// The rules that take something from the holder on that path.
fn taken(
    policy: &Policy,
    credential: Option<&Credential>,
    path: &LogicalPath,
    request: &Request,
    hints: &mut Vec<Hint>,
) {
    let anonymous = Credential::Anonymous;
    let holder = Person::holder(credential.unwrap_or(&anonymous), request.client_address);
    let takes =
        |rule: &&Rule| !rule.may_not.is_empty() && rule.holds_on(path.as_str(), holder.user) && rule.is_about(&holder);
    let places = policy.rules().iter().filter(takes).take(NAMED_MAX);
    hints.push(Hint::ChangeRules {
        places: places.map(|rule| rule.place.clone()).collect(),
    });
}
