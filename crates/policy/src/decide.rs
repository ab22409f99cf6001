//! The decision.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use credentials::{Activities, Credential, Grant};
use types::{Error, ErrorCode, LogicalPath, Phase, Side};

use crate::hint::{Hint, hints};
use crate::operation::{Access, Operation};
use crate::policy::{Policy, Said};
use crate::rename;
use crate::rights::Rights;
use crate::rules::ExportRules;
use crate::tell;
use crate::trail::{Lack, Step};
use crate::who::Person;

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
    /// `unauthenticated`, `forbidden` or `not_found`, or that of the credential that is of no use.
    pub code: ErrorCode,
    /// More, for the client.
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
    /// When allowed: the local user in whose name it is done, that of the first rule that names
    /// one, else that of the credential.
    pub user: Option<Arc<str>>,
    /// When allowed: the virtual organisation whose quota it counts against, that of the first rule
    /// that names one, else the first of the credential.
    pub vo: Option<Arc<str>>,
    /// What was received, how it was read and each rule tried, of a refusal the last. [`decide`]
    /// leaves it out when the request is allowed.
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
    /// The refusal, at the client's side: of a credential that is of no use in phase authenticate,
    /// else in phase authorize.
    pub fn into_result(self) -> Result<(), Error> {
        let Some(refusal) = self.refusal else {
            return Ok(());
        };
        let phase = match refusal.code {
            ErrorCode::Unauthenticated | ErrorCode::Forbidden | ErrorCode::NotFound => Phase::Authorize,
            _ => Phase::Authenticate,
        };
        let error = Error::new(refusal.code, Side::Client, phase);
        Err(match refusal.detail.as_str() {
            "" => error,
            detail => error.with_detail(detail),
        })
    }
}

/// The steps so far, when anybody wants to know them.
pub(crate) struct Trail(pub(crate) Option<Vec<Step>>);

impl Trail {
    pub(crate) fn note(&mut self, step: impl FnOnce() -> Step) {
        if let Some(steps) = &mut self.0 {
            steps.push(step());
        }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.0.is_some()
    }
}

/// What is granted.
#[derive(Clone, Debug, Default)]
struct Allowed {
    max_upload_bytes: Option<u64>,
    user: Option<Arc<str>>,
    vo: Option<Arc<str>>,
}

/// Decides. `credential` is what was made of what the client showed, the error included, or
/// [`Credential::Anonymous`] when it showed nothing.
///
/// What is allowed, which is nearly everything, costs no trail; of a refusal the way is gone once
/// more.
#[must_use]
pub fn decide(policy: &Policy, credential: Result<&Credential, &Error>, request: &Request) -> Decision {
    match evaluate(policy, credential, request, &mut Trail(None)) {
        Ok(allowed) => allow(allowed, Vec::new()),
        Err(_) => explain(policy, credential, request),
    }
}

/// Decides as [`decide`] does, and always with the trail.
#[must_use]
pub fn explain(policy: &Policy, credential: Result<&Credential, &Error>, request: &Request) -> Decision {
    let mut trail = Trail(Some(Vec::new()));
    let outcome = evaluate(policy, credential, request, &mut trail);
    let mut trail = trail.0.unwrap_or_default();
    match outcome {
        Ok(allowed) => allow(allowed, trail),
        Err(code) => {
            let hints = hints(policy, credential, request, &trail);
            if let Ok(credential) = credential {
                hide_below(policy, credential, request, &mut trail);
            }
            let told = trail.last().map(ToString::to_string);
            let detail = match credential {
                Err(error) => error.detail().map(str::to_owned),
                Ok(_) => told,
            };
            let detail = detail.unwrap_or_default();
            Decision {
                refusal: Some(Refusal { code, detail }),
                max_upload_bytes: None,
                user: None,
                vo: None,
                hints,
                trail,
            }
        }
    }
}

/// A rule below the named path may be about something that the requester may not know. The refusal
/// then says only that there is such a rule; the site's own explanation names it.
fn hide_below(policy: &Policy, credential: &Credential, request: &Request, trail: &mut Vec<Step>) {
    let target = match &request.operation {
        Operation::Rename { target, .. } => Some(target),
        _ => None,
    };
    let mut named = std::iter::once(&request.path).chain(target);
    let Some(path) = trail.last().and_then(Step::closed_path) else {
        return;
    };
    let Some(above) = named.find(|named| path.is_within(named) && path != *named) else {
        return;
    };
    let look = Request {
        operation: Operation::Stat,
        path: path.clone(),
        ..request.clone()
    };
    if is_allowed(policy, credential, &look) {
        return;
    }
    let told = Step::ClosedBelow { path: above.clone() };
    if let Some(last) = trail.last_mut() {
        *last = Step::Hidden(Box::new(last.clone()));
    }
    trail.push(told);
}

fn allow(allowed: Allowed, trail: Vec<Step>) -> Decision {
    Decision {
        refusal: None,
        max_upload_bytes: allowed.max_upload_bytes,
        user: allowed.user,
        vo: allowed.vo,
        trail,
        hints: Vec::new(),
    }
}

/// Whether a credential alone, its own times and addresses aside, has what an operation takes.
pub(crate) fn is_allowed(policy: &Policy, credential: &Credential, request: &Request) -> bool {
    evaluate(policy, Ok(credential), request, &mut Trail(None)).is_ok()
}

/// The last step of the trail tells why it was refused.
fn evaluate(
    policy: &Policy,
    credential: Result<&Credential, &Error>,
    request: &Request,
    trail: &mut Trail,
) -> Result<Allowed, ErrorCode> {
    let credential = credential.map_err(|error| {
        trail.note(|| Step::Token);
        trail.note(|| Step::TokenInvalid {
            code: error.code(),
            why: error.public(),
        });
        error.code()
    })?;
    tell::credential(credential, request, trail);
    let credential = &*check_validity(credential, request, trail)?;
    let mut allowed = Allowed::default();
    for (index, (access, path)) in request.operation.accesses(&request.path).enumerate() {
        let (limit, said) = check_access(policy, credential, access, path, request, trail)?;
        allowed.max_upload_bytes = allowed.max_upload_bytes.or(limit);
        if index == 0 {
            let (user, vo) = (said.user(), said.vo());
            allowed.user = user.cloned().or_else(|| credential.local_user().map(Arc::from));
            allowed.vo = vo.cloned().or_else(|| credential.vo().map(Arc::from));
            if allowed.user.is_some() || allowed.vo.is_some() {
                trail.note(|| Step::Owner {
                    user: allowed.user.clone(),
                    vo: allowed.vo.clone(),
                });
            }
        }
    }
    match &request.operation {
        Operation::Rename { target, own, .. } => {
            rename::check(policy, credential, request, target, *own, trail)?;
        }
        operation => rename::check_tree(policy, credential, request, operation.accesses_below(), trail)?,
    }
    Ok(allowed)
}

/// Refuses expired credentials, and those that may not be used from this address. A session may
/// outlive its credential, so every request asks. The holder of an expired certificate is
/// anonymous.
pub(crate) fn check_validity<'a>(
    credential: &'a Credential,
    request: &Request,
    trail: &mut Trail,
) -> Result<Cow<'a, Credential>, ErrorCode> {
    let now_s = request.now_s;
    if let Some(expires_s) = credential.expires_s().filter(|expires_s| now_s >= *expires_s) {
        trail.note(|| Step::Expired {
            what: credential.kind(),
            expires_s,
            now_s,
        });
        return match credential {
            Credential::Certificate(_) => Ok(Cow::Owned(expired_certificate())),
            Credential::Token(_) => Err(ErrorCode::TokenExpired),
            _ => Err(ErrorCode::InvalidToken),
        };
    }
    if let Credential::Token(token) = credential
        && let Some(begins_s) = token.not_before_s.filter(|begins_s| now_s < *begins_s)
    {
        trail.note(|| Step::NotYetValid { begins_s, now_s });
        return Err(ErrorCode::TokenNotYetValid);
    }
    let Some(grant) = credential.grant() else {
        return Ok(Cow::Borrowed(credential));
    };
    if grant.is_expired(now_s) {
        trail.note(|| Step::Expired {
            what: credential.kind(),
            expires_s: grant.expires_s.unwrap_or(now_s),
            now_s,
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
    Ok(Cow::Borrowed(credential))
}

/// What a certificate becomes when its time is over.
fn expired_certificate() -> Credential {
    let error = Error::new(ErrorCode::CertificateExpired, Side::Client, Phase::Authenticate);
    Credential::RefusedCertificate(Box::new(error))
}

/// Whether one part of the operation is allowed: gives the limit on the upload and what the rules
/// say.
fn check_access<'p>(
    policy: &'p Policy,
    credential: &Credential,
    access: Access,
    path: &LogicalPath,
    request: &Request,
    trail: &mut Trail,
) -> Result<(Option<u64>, Said<'p>), ErrorCode> {
    let export = check_ceiling(policy, access, path, trail)?;
    let ceiling = export.ceiling();
    let suffices = access.is_satisfied_below(ceiling, export.anonymous.activities());
    trail.note(|| Step::Anonymous {
        access,
        path: path.clone(),
        suffices,
    });
    tell::rules(policy, credential, request, path, trail);
    let granted = credential
        .grant()
        .map_or(Activities::NONE, |grant| grant.activities_on(path));
    let rights = Rights::on(
        policy,
        export,
        credential,
        request.client_address,
        path.as_str(),
        granted,
    );
    if access.is_satisfied_below(ceiling, rights.common) {
        return Ok((None, rights.said));
    }
    let (below, below_common) = below(policy, credential, access, path, request);
    if access.is_satisfied_below(ceiling, rights.common.union(below_common)) {
        trail.note(|| Step::OnTheWay {
            access,
            path: path.clone(),
        });
        return Ok((None, rights.said));
    }
    if let Some(grant) = credential.grant() {
        let granted = granted.union(below);
        let suffices = access.is_satisfied_below(ceiling, rights.all.union(below_common).union(below));
        trail.note(|| Step::Granted {
            access,
            path: path.clone(),
            granted,
            suffices,
        });
        if suffices {
            return check_size(grant, access, request, trail).map(|limit| (limit, rights.said));
        }
    }
    Err(refuse(
        export,
        credential,
        access,
        path,
        granted.union(below),
        rights,
        trail,
    ))
}

/// Whether the export of the path allows it at all, for any client.
fn check_ceiling<'p>(
    policy: &'p Policy,
    access: Access,
    path: &LogicalPath,
    trail: &mut Trail,
) -> Result<&'p ExportRules, ErrorCode> {
    let Some(export) = tell::export(policy, path, trail) else {
        trail.note(|| Step::NoExport { path: path.clone() });
        return Err(ErrorCode::NotFound);
    };
    if !access.is_satisfied_by(export.ceiling()) {
        trail.note(|| Step::Ceiling {
            access,
            path: path.clone(),
            read_only: export.read_only && access.writes(),
            ceiling: export.ceiling,
        });
        return Err(ErrorCode::Forbidden);
    }
    Ok(export)
}

/// Whether an earlier decision still stands by what binds everyone: there is an export, and its
/// ceiling allows it.
///
/// # Errors
/// `not_found` or `forbidden`, at the client's side, with the reason.
pub fn allows_at_most(policy: &Policy, operation: &Operation, path: &LogicalPath) -> Result<(), Error> {
    let mut trail = Trail(Some(Vec::new()));
    for (access, path) in operation.accesses(path) {
        if let Err(code) = check_ceiling(policy, access, path, &mut trail) {
            let told = trail.0.unwrap_or_default().last().map(ToString::to_string);
            let error = Error::new(code, Side::Client, Phase::Authorize);
            return Err(error.with_detail(told.unwrap_or_default()));
        }
    }
    Ok(())
}

/// Parents of a usable path can be looked at and made: the rights that token and rules give below
/// the path.
fn below(
    policy: &Policy,
    credential: &Credential,
    access: Access,
    path: &LogicalPath,
    request: &Request,
) -> (Activities, Activities) {
    if !access.reaches_ancestors() {
        return (Activities::NONE, Activities::NONE);
    }
    let address = request.client_address;
    let taken = policy.said(&Person::holder(credential, address), path.as_str()).may_not;
    let cut = |rights: Activities| rights.without(taken);
    let granted = credential
        .grant()
        .map_or(Activities::NONE, |grant| grant.activities_below(path));
    let given = policy.given_below(&Person::beneficiary(credential, address), path);
    (cut(granted), cut(given))
}

/// Why it is not: a rule took it, or nothing gave it.
pub(crate) fn refuse(
    export: &ExportRules,
    credential: &Credential,
    access: Access,
    path: &LogicalPath,
    granted: Activities,
    rights: Rights<'_>,
    trail: &mut Trail,
) -> ErrorCode {
    let without_taking = rights.uncut.union(granted);
    let path = path.clone();
    if access.is_satisfied_below(export.ceiling(), without_taking) && !rights.said.may_not.is_empty() {
        trail.note(|| Step::Taken { access, path });
    } else if let Credential::RefusedCertificate(error) = credential {
        trail.note(|| Step::NeedsCertificate {
            access,
            path,
            why: error.detail().unwrap_or(error.code().meaning()).to_owned(),
        });
    } else {
        trail.note(|| {
            let lack = lack(export.ceiling(), credential, access, &path, granted, rights.uncut);
            Step::Needs { access, path, lack }
        });
    }
    match credential {
        Credential::Anonymous => ErrorCode::Unauthenticated,
        Credential::RefusedCertificate(error) => error.code(),
        Credential::Macaroon(_) | Credential::Token(_) | Credential::Certificate(_) => ErrorCode::Forbidden,
    }
}

/// What a macaroon does not carry that would suffice.
fn lack(
    ceiling: Activities,
    credential: &Credential,
    access: Access,
    path: &LogicalPath,
    carried: Activities,
    others: Activities,
) -> Option<Lack> {
    let Credential::Macaroon(macaroon) = credential else {
        return None;
    };
    let grant = macaroon.grant();
    let excepted = grant.named_on(path).intersection(grant.excepted_on(path.as_str()));
    let reached = grant.scopes.iter().any(|scope| scope.covers(path));
    let withheld = if reached { macaroon.withheld() } else { Activities::NONE };
    let lacks = [(excepted, true), (withheld, false)];
    lacks.into_iter().find_map(|(missing, is_exception)| {
        let suffices = access.is_satisfied_below(ceiling, others.union(carried).union(missing));
        (suffices && !missing.is_empty()).then_some(Lack {
            carried,
            missing,
            is_exception,
        })
    })
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
