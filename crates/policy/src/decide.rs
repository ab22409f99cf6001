//! The decision.

use std::net::IpAddr;

use credentials::{Activities, Credential, Grant};
use types::{Error, ErrorCode, LogicalPath, Phase, Side};

use crate::hint::{Hint, hints};
use crate::operation::{Access, Operation};
use crate::rules::{ExportRules, export_of};
use crate::trail::Step;

/// Exports that a trail names although they do not hold the path.
const PASSED_OVER_MAX: usize = 16;

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
    /// What was received, how it was read and each rule tried, of a refusal the last. [`decide`] leaves
    /// it out when the request is allowed.
    pub trail: Vec<Step>,
    /// What would make it pass.
    pub hints: Vec<Hint>,
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

/// The steps so far, when anybody wants to know them.
struct Trail(Option<Vec<Step>>);

impl Trail {
    fn note(&mut self, step: impl FnOnce() -> Step) {
        if let Some(steps) = &mut self.0 {
            steps.push(step());
        }
    }
}

/// Decides. `credential` is what [`credentials::read_bearer`] made of the request's token, its
/// error included, or [`Credential::Anonymous`] when there was none.
///
/// What is allowed, which is nearly everything, costs no trail; of a refusal the way is gone once more.
#[must_use]
pub fn decide(exports: &[ExportRules], credential: Result<&Credential, &Error>, request: &Request) -> Decision {
    match evaluate(exports, credential, request, &mut Trail(None)) {
        Ok(max_upload_bytes) => Decision {
            refusal: None,
            max_upload_bytes,
            trail: Vec::new(),
            hints: Vec::new(),
        },
        Err(_) => explain(exports, credential, request),
    }
}

/// Decides as [`decide`] does, and always with the trail.
#[must_use]
pub fn explain(exports: &[ExportRules], credential: Result<&Credential, &Error>, request: &Request) -> Decision {
    let mut trail = Trail(Some(Vec::new()));
    let outcome = evaluate(exports, credential, request, &mut trail);
    let trail = trail.0.unwrap_or_default();
    match outcome {
        Ok(max_upload_bytes) => Decision {
            refusal: None,
            max_upload_bytes,
            trail,
            hints: Vec::new(),
        },
        Err(code) => {
            let detail = trail.last().map(ToString::to_string).unwrap_or_default();
            Decision {
                refusal: Some(Refusal { code, detail }),
                max_upload_bytes: None,
                hints: hints(exports, credential, request, &trail),
                trail,
            }
        }
    }
}

/// Whether it is allowed to that credential.
pub(crate) fn is_allowed(exports: &[ExportRules], credential: &Credential, request: &Request) -> bool {
    evaluate(exports, Ok(credential), request, &mut Trail(None)).is_ok()
}

/// Gives the limit on uploads; the last step of the trail tells why it was refused.
fn evaluate(
    exports: &[ExportRules],
    credential: Result<&Credential, &Error>,
    request: &Request,
    trail: &mut Trail,
) -> Result<Option<u64>, ErrorCode> {
    let credential = credential.map_err(|error| {
        trail.note(|| Step::Token);
        trail.note(|| Step::TokenInvalid { why: error.public() });
        ErrorCode::InvalidToken
    })?;
    trail.note(|| Step::Received {
        kind: credential.kind(),
        token_id: credential.identity().token_id,
    });
    if let Some(grant) = credential.grant() {
        tell_token(credential, grant, request, trail);
        check_validity(grant, request, trail)?;
    }
    let mut max_upload_bytes = None;
    for (access, path) in request.operation.accesses(&request.path) {
        let limit = check_access(exports, credential, access, path, request, trail)?;
        max_upload_bytes = max_upload_bytes.or(limit);
    }
    Ok(max_upload_bytes)
}

/// How a token was read.
fn tell_token(credential: &Credential, grant: &Grant, request: &Request, trail: &mut Trail) {
    for scope in &grant.scopes {
        trail.note(|| Step::Scope {
            activities: scope.activities,
            path: scope.path.clone(),
        });
    }
    if grant.scopes.is_empty() {
        trail.note(|| Step::GrantsNothing);
    }
    trail.note(|| {
        let identity = credential.identity();
        Step::Issued {
            issuer: identity.issuer,
            subject: identity.subject,
        }
    });
    if !grant.is_expired(request.now_s) {
        trail.note(|| Step::Lasts {
            left_s: grant.expires_s.map(|expires_s| expires_s.abs_diff(request.now_s)),
        });
    }
    if let Some(limit_bytes) = grant.max_upload_bytes {
        trail.note(|| Step::UploadLimit { limit_bytes });
    }
}

/// What makes a genuine token invalid for this request, whatever it asks.
fn check_validity(grant: &Grant, request: &Request, trail: &mut Trail) -> Result<(), ErrorCode> {
    if let Some(expires_s) = grant.expires_s.filter(|_| grant.is_expired(request.now_s)) {
        trail.note(|| Step::Expired {
            expires_s,
            now_s: request.now_s,
        });
        return Err(ErrorCode::InvalidToken);
    }
    if !grant.admits(request.client_address) {
        trail.note(|| Step::AddressRefused);
        return Err(ErrorCode::InvalidToken);
    }
    trail.note(|| Step::AddressAdmitted {
        addresses: grant.addresses.clone(),
    });
    Ok(())
}

/// The export whose rules apply, and what becomes of the others.
fn find_export<'a>(exports: &'a [ExportRules], path: &LogicalPath, trail: &mut Trail) -> Option<&'a ExportRules> {
    let found = export_of(exports, path);
    let others = || {
        exports
            .iter()
            .filter(|export| found.is_none_or(|found| !std::ptr::eq(found, *export)))
    };
    if trail.0.is_some() {
        for other in others().take(PASSED_OVER_MAX) {
            trail.note(|| Step::PassedOver {
                path: other.path.clone(),
                holds: path.is_within(&other.path),
            });
        }
        let count = others().skip(PASSED_OVER_MAX).count();
        if count > 0 {
            trail.note(|| Step::MorePassedOver { count });
        }
    }
    found
}

fn check_access(
    exports: &[ExportRules],
    credential: &Credential,
    access: Access,
    path: &LogicalPath,
    request: &Request,
    trail: &mut Trail,
) -> Result<Option<u64>, ErrorCode> {
    let Some(export) = find_export(exports, path, trail) else {
        trail.note(|| Step::NoExport { path: path.clone() });
        return Err(ErrorCode::NotFound);
    };
    let (anonymous, read_only) = (export.anonymous.name(), export.read_only);
    trail.note(|| Step::Export {
        path: export.path.clone(),
        anonymous,
        read_only,
    });
    if read_only && access.writes() {
        trail.note(|| Step::Ceiling {
            access,
            path: path.clone(),
        });
        return Err(ErrorCode::Forbidden);
    }
    let suffices = access.is_satisfied_by(export.anonymous.activities());
    trail.note(|| Step::Anonymous {
        access,
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
    trail.note(|| Step::Needs {
        access,
        path: path.clone(),
    });
    Err(match credential {
        Credential::Anonymous => ErrorCode::Unauthenticated,
        Credential::RefusedCertificate(error) => error.code(),
        Credential::Macaroon(_) | Credential::Token(_) | Credential::Certificate(_) => ErrorCode::Forbidden,
    })
}

/// Whether the token's activities, together with those that anybody has, suffice.
fn is_granted(grant: &Grant, common: Activities, access: Access, path: &LogicalPath, trail: &mut Trail) -> bool {
    let mut granted = grant.activities_on(path);
    if access.reaches_ancestors() {
        granted = granted.union(grant.activities_below(path));
    }
    let suffices = access.is_satisfied_by(granted.union(common));
    trail.note(|| Step::Granted {
        access,
        path: path.clone(),
        granted,
        suffices,
    });
    suffices
}

fn check_size(grant: &Grant, access: Access, request: &Request, trail: &mut Trail) -> Result<Option<u64>, ErrorCode> {
    let limit_bytes = grant.max_upload_bytes.filter(|_| access.uploads());
    match (limit_bytes, request.size_bytes) {
        (Some(limit_bytes), Some(size_bytes)) if size_bytes > limit_bytes => {
            trail.note(|| Step::TooLarge {
                limit_bytes,
                size_bytes,
            });
            Err(ErrorCode::Forbidden)
        }
        _ => Ok(limit_bytes),
    }
}
