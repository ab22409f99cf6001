//! The decision.

use std::net::IpAddr;

use credentials::{Activities, Credential, CredentialKind, Grant};
use types::{Error, ErrorCode, LogicalPath, Phase, Side};

use crate::operation::{Access, Operation};
use crate::rules::{ExportRules, export_of};
use crate::trail::Step;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// The operation.
    pub operation: Operation,
    /// The path that it is asked for; of a rename, the old one.
    pub path: LogicalPath,
    /// Where the request comes from.
    pub client_address: IpAddr,
    /// The time, in seconds since 1970.
    pub now_s: i64,
    /// How many bytes an upload has, when it says so.
    pub size_bytes: Option<u64>,
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `unauthenticated`, `invalid_token`, `forbidden` or `not_found`.
    pub code: ErrorCode,
    /// More, for whoever asked.
    pub detail: String,
}

/// The decision, with the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// `None`: allowed.
    pub refusal: Option<Refusal>,
    /// When allowed: an upload above this many bytes must be broken off. Binds uploads whose size
    /// is not announced.
    pub max_upload_bytes: Option<u64>,
    /// What was received, how it was read, each rule tried, and what would make it pass.
    pub trail: Vec<Step>,
}

impl Decision {
    /// Whether it may be done.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.refusal.is_none()
    }

    /// The same as a result.
    ///
    /// # Errors
    /// The refusal, at the client's side: of an invalid token in phase authenticate, else in phase
    /// authorize.
    pub fn into_result(self) -> Result<(), Error> {
        let Some(refusal) = self.refusal else {
            return Ok(());
        };
        let phase = match refusal.code {
            ErrorCode::InvalidToken => Phase::Authenticate,
            _ => Phase::Authorize,
        };
        Err(Error::new(refusal.code, Side::Client, phase).with_detail(refusal.detail))
    }
}

/// Decides. `credential` is what [`credentials::read_bearer`] made of the request's token, its
/// error included, or [`Credential::Anonymous`] when there was none.
#[must_use]
pub fn decide(exports: &[ExportRules], credential: Result<&Credential, &Error>, request: &Request) -> Decision {
    let mut trail = Vec::new();
    match evaluate(exports, credential, request, &mut trail) {
        Ok(max_upload_bytes) => Decision {
            refusal: None,
            max_upload_bytes,
            trail,
        },
        Err(code) => {
            let detail = trail.last().map(ToString::to_string).unwrap_or_default();
            Decision {
                refusal: Some(Refusal { code, detail }),
                max_upload_bytes: None,
                trail,
            }
        }
    }
}

/// Gives the limit on uploads; the last step of the trail tells why it was refused.
fn evaluate(
    exports: &[ExportRules],
    credential: Result<&Credential, &Error>,
    request: &Request,
    trail: &mut Vec<Step>,
) -> Result<Option<u64>, ErrorCode> {
    let credential = credential.map_err(|error| {
        trail.push(Step::TokenInvalid { why: error.public() });
        ErrorCode::InvalidToken
    })?;
    let identity = credential.identity();
    trail.push(Step::Received {
        kind: identity.kind,
        token_id: identity.token_id,
    });
    if let Some(grant) = credential.grant() {
        check_validity(grant, request, trail)?;
    }
    let mut max_upload_bytes = None;
    for (access, path) in request.operation.accesses(&request.path) {
        let limit = check_access(exports, credential, access, path, request, trail)?;
        max_upload_bytes = max_upload_bytes.or(limit);
    }
    Ok(max_upload_bytes)
}

/// What makes a genuine token invalid for this request, whatever it asks.
fn check_validity(grant: &Grant, request: &Request, trail: &mut Vec<Step>) -> Result<(), ErrorCode> {
    for scope in &grant.scopes {
        trail.push(Step::Scope {
            activities: scope.activities,
            path: scope.path.clone(),
        });
    }
    if let Some(expires_s) = grant.expires_s.filter(|_| grant.is_expired(request.now_s)) {
        trail.push(Step::Expired {
            expires_s,
            now_s: request.now_s,
        });
        return Err(ErrorCode::InvalidToken);
    }
    if !grant.admits(request.client_address) {
        trail.push(Step::AddressRefused);
        return Err(ErrorCode::InvalidToken);
    }
    Ok(())
}

fn check_access(
    exports: &[ExportRules],
    credential: &Credential,
    access: Access,
    path: &LogicalPath,
    request: &Request,
    trail: &mut Vec<Step>,
) -> Result<Option<u64>, ErrorCode> {
    let Some(export) = export_of(exports, path) else {
        trail.push(Step::NoExport { path: path.clone() });
        return Err(ErrorCode::NotFound);
    };
    let (anonymous, read_only) = (export.anonymous.name(), export.read_only);
    trail.push(Step::Export {
        path: export.path.clone(),
        anonymous,
        read_only,
    });
    if read_only && access.writes() {
        trail.push(Step::Ceiling { access: access.name() });
        return Err(ErrorCode::Forbidden);
    }
    let suffices = access.is_satisfied_by(export.anonymous.activities());
    trail.push(Step::Anonymous {
        access: access.name(),
        path: path.clone(),
        suffices,
    });
    if suffices {
        return Ok(None);
    }
    let common = export.anonymous.activities();
    if let Some(grant) = credential.grant()
        && is_granted(grant, common, access, path, trail)
    {
        return check_size(grant, access, request, trail);
    }
    trail.push(Step::Needs {
        sufficient: access.sufficient(),
        path: path.clone(),
    });
    Err(match credential.kind() {
        CredentialKind::Anonymous => ErrorCode::Unauthenticated,
        CredentialKind::Macaroon => ErrorCode::Forbidden,
    })
}

/// Whether the token's activities, together with those that anybody has, suffice.
fn is_granted(grant: &Grant, common: Activities, access: Access, path: &LogicalPath, trail: &mut Vec<Step>) -> bool {
    let mut granted = grant.activities_on(path);
    if access.reaches_ancestors() {
        granted = granted.union(grant.activities_below(path));
    }
    let suffices = access.is_satisfied_by(granted.union(common));
    trail.push(Step::Granted {
        access: access.name(),
        path: path.clone(),
        granted,
        suffices,
    });
    suffices
}

fn check_size(
    grant: &Grant,
    access: Access,
    request: &Request,
    trail: &mut Vec<Step>,
) -> Result<Option<u64>, ErrorCode> {
    let limit_bytes = grant.max_upload_bytes.filter(|_| access.uploads());
    match (limit_bytes, request.size_bytes) {
        (Some(limit_bytes), Some(size_bytes)) if size_bytes > limit_bytes => {
            trail.push(Step::TooLarge {
                limit_bytes,
                size_bytes,
            });
            Err(ErrorCode::Forbidden)
        }
        _ => Ok(limit_bytes),
    }
}
