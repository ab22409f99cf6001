//! What would make a refused request pass: what its sender can do, and what the site can.

use std::fmt;

use credentials::{Activities, AddressRange, Credential};
use types::{Error, LogicalPath};

use crate::decide::{Request, is_allowed};
use crate::operation::Access;
use crate::rules::{AnonymousAccess, ExportRules, export_of};
use crate::trail::{Step, any_of};

/// Exports that a hint names at the most.
const EXPORTS_NAMED_MAX: usize = 8;

/// One way. Its `Display` is the sentence for people. Where two things stand in the way of a request, a
/// hint is about the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The token is of no use, and without one it would be allowed.
    LeaveTokenOut,
    /// The token is of no use; another one may be.
    OtherToken,
    /// The token was good once.
    FreshToken,
    /// It takes a token, or one that grants more: any of these sets on that path; none named means any activity.
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
        /// How far at the least.
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
            Self::LeaveTokenOut => out.write_str("send no token: without one it is allowed"),
            Self::OtherToken => out.write_str("send a token that this server issued, or one that it is told to accept"),
            Self::FreshToken => out.write_str("ask for a new token; the time of this one is over"),
            Self::Token { sufficient: [], path } => write!(out, "send a token that grants anything on {path}"),
            Self::Token { sufficient, path } => {
                write!(out, "send a token that grants {} on {path}", any_of(sufficient))
            }
            Self::ElsewhereOnly { scopes } => {
                write!(out, "or use a path in {}, where the token grants that", list(scopes))
            }
            Self::ComeFrom { addresses } => {
                out.write_str("use the token from the addresses that it is for: ")?;
                for (index, ranges) in addresses.iter().enumerate() {
                    out.write_str(if index > 0 { ", and of these from " } else { "" })?;
                    out.write_str(&list(ranges))?;
                }
                Ok(())
            }
            Self::SmallerUpload { limit_bytes } => {
                write!(
                    out,
                    "upload {limit_bytes} bytes at the most, or send a token that allows more"
                )
            }
            Self::OtherPath { exports } if exports.is_empty() => out.write_str("the site has to export something"),
            Self::OtherPath { exports } => write!(out, "use a path in one of the exports: {}", list(exports)),
            Self::OpenExport { export, anonymous } => write!(
                out,
                "or the site lets anybody do it: anonymous = \"{}\" in the [[export]] of {export}",
                anonymous.name()
            ),
            Self::LiftCeiling { export } => {
                write!(
                    out,
                    "the site has to set read_only = false in the [[export]] of {export}"
                )
            }
        }
    }
}

fn list(items: &[impl ToString]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(", ")
}

/// What would make a request pass whose refusal is the last step of `trail`.
pub(crate) fn hints(
    exports: &[ExportRules],
    credential: Result<&Credential, &Error>,
    request: &Request,
    trail: &[Step],
) -> Vec<Hint> {
    let mut hints = Vec::new();
    let grant = credential.ok().and_then(Credential::grant);
    match trail.last() {
        Some(Step::TokenInvalid { .. }) => hints.push(Hint::OtherToken),
        Some(Step::Expired { .. }) => hints.push(Hint::FreshToken),
        Some(Step::AddressRefused) => hints.extend(grant.map(|grant| Hint::ComeFrom {
            addresses: grant.addresses.clone(),
        })),
        Some(Step::TooLarge { limit_bytes, .. }) => hints.push(Hint::SmallerUpload {
            limit_bytes: *limit_bytes,
        }),
        Some(Step::NoExport { .. }) => hints.push(Hint::OtherPath {
            exports: exports
                .iter()
                .take(EXPORTS_NAMED_MAX)
                .map(|export| export.path.clone())
                .collect(),
        }),
        Some(Step::Ceiling { path, .. }) => hints.extend(export_of(exports, path).map(|export| Hint::LiftCeiling {
            export: export.path.clone(),
        })),
        Some(Step::Needs { access, path }) => needs(exports, credential.ok(), *access, path, &mut hints),
        _ => {}
    }
    let is_burden = matches!(
        trail.last(),
        Some(Step::TokenInvalid { .. } | Step::Expired { .. } | Step::AddressRefused)
    );
    if is_burden && is_allowed(exports, &Credential::Anonymous, request) {
        hints.push(Hint::LeaveTokenOut);
    }
    hints
}

fn needs(
    exports: &[ExportRules],
    credential: Option<&Credential>,
    access: Access,
    path: &LogicalPath,
    hints: &mut Vec<Hint>,
) {
    hints.push(Hint::Token {
        sufficient: access.sufficient(),
        path: path.clone(),
    });
    let scopes = credential
        .and_then(Credential::grant)
        .map_or(&[][..], |grant| &grant.scopes);
    let elsewhere: Vec<LogicalPath> = scopes
        .iter()
        .filter(|scope| access.is_satisfied_by(scope.activities) && !path.is_within(&scope.path))
        .map(|scope| scope.path.clone())
        .collect();
    if !elsewhere.is_empty() {
        hints.push(Hint::ElsewhereOnly { scopes: elsewhere });
    }
    let Some(export) = export_of(exports, path) else { return };
    let suffices = |level: &AnonymousAccess| access.is_satisfied_by(level.activities());
    let level = [AnonymousAccess::Read, AnonymousAccess::Write]
        .into_iter()
        .find(suffices);
    hints.extend(level.map(|anonymous| Hint::OpenExport {
        export: export.path.clone(),
        anonymous,
    }));
}
