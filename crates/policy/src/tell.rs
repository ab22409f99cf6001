//! The steps of a trail that only tell: how a credential was read, which exports were passed over,
//! and what came of each rule. They cost nothing when no trail is kept.

use credentials::{Credential, Grant, VerifiedToken};
use types::LogicalPath;

use crate::decide::{Request, Trail};
use crate::policy::Policy;
use crate::rule::Rule;
use crate::rules::ExportRules;
use crate::trail::{RuleOutcome, Step};
use crate::who::{Person, Who};

/// Exports that a trail names although they do not hold the path.
const PASSED_OVER_MAX: usize = 16;

/// Rules that a trail names.
const RULES_NAMED_MAX: usize = 32;

/// What was received, and how it was read.
pub(crate) fn credential(credential: &Credential, request: &Request, trail: &mut Trail) {
    if !trail.is_kept() {
        return;
    }
    let identity = credential.identity();
    trail.note(|| Step::Received {
        kind: identity.kind,
        token_id: identity.token_id.clone(),
    });
    if let Some(grant) = credential.grant() {
        scopes(grant, trail);
    }
    match credential {
        Credential::Macaroon(_) | Credential::Token(_) => {
            trail.note(|| Step::Issued {
                issuer: identity.issuer.clone(),
                subject: identity.subject.clone(),
            });
        }
        Credential::RefusedCertificate(error) => trail.note(|| Step::CertificateRefused { why: error.public() }),
        Credential::Certificate(certificate) => {
            for why in &certificate.attribute_faults {
                trail.note(|| Step::AttributesLeftOut { why: why.clone() });
            }
        }
        Credential::Anonymous => {}
    }
    names(credential, trail);
    lasts(credential, request, trail);
    if let Some(limit_bytes) = credential.grant().and_then(|grant| grant.max_upload_bytes) {
        trail.note(|| Step::UploadLimit { limit_bytes });
    }
}

fn scopes(grant: &Grant, trail: &mut Trail) {
    for scope in &grant.scopes {
        trail.note(|| Step::Scope {
            activities: scope.activities,
            path: scope.path.clone(),
            inside_only: scope.inside_only,
        });
    }
    if grant.scopes.is_empty() {
        trail.note(|| Step::GrantsNothing);
    }
}

/// Who it is, in the words that rules use.
fn names(credential: &Credential, trail: &mut Trail) {
    let user = credential.local_user().map(|name| ("user", name));
    let Some(principal) = credential.principal() else {
        if let Some((kind, name)) = user {
            let name = name.to_owned();
            trail.note(|| Step::Named { kind, name });
        }
        return;
    };
    let dn = principal.dn.iter().map(|name| ("dn", name.as_str()));
    let vos = principal.vos.iter().map(|name| ("vo", name.as_str()));
    let fqans = principal.fqans.iter().map(|name| ("fqan", name.as_str()));
    let groups = principal.groups.iter().map(|name| ("group", name.as_str()));
    for (kind, name) in dn.chain(vos).chain(fqans).chain(groups).chain(user) {
        let name = name.to_owned();
        trail.note(|| Step::Named { kind, name });
    }
}

fn lasts(credential: &Credential, request: &Request, trail: &mut Trail) {
    let expires_s = match credential {
        Credential::Anonymous | Credential::RefusedCertificate(_) | Credential::Certificate(_) => return,
        Credential::Token(token) if token.expires_s == VerifiedToken::END_UNKNOWN_S => return,
        Credential::Macaroon(_) | Credential::Token(_) => credential.expires_s(),
    };
    if expires_s.is_none_or(|expires_s| request.now_s < expires_s) {
        trail.note(|| Step::Lasts {
            left_s: expires_s.map(|expires_s| expires_s.abs_diff(request.now_s)),
        });
    }
}

/// The export whose rules apply, and what becomes of the others.
pub(crate) fn export<'a>(policy: &'a Policy, path: &LogicalPath, trail: &mut Trail) -> Option<&'a ExportRules> {
    let found = policy.export_of(path);
    if !trail.is_kept() {
        return found;
    }
    let is_other = |export: &&ExportRules| found.is_none_or(|found| !std::ptr::eq(found, *export));
    let others = || policy.exports().iter().filter(is_other);
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
    if let Some(export) = found {
        trail.note(|| Step::Export {
            path: export.path.clone(),
            anonymous: export.anonymous.name(),
            read_only: export.read_only,
        });
    }
    found
}

/// What comes of each rule that holds on the path.
pub(crate) fn rules(
    policy: &Policy,
    credential: &Credential,
    request: &Request,
    path: &LogicalPath,
    trail: &mut Trail,
) {
    if !trail.is_kept() || policy.rules().is_empty() {
        return;
    }
    let holder = Person::holder(credential, request.client_address);
    let beneficiary = Person::beneficiary(credential, request.client_address);
    let (mut told, mut ended) = (0, false);
    // Those about the holder are listed, however many others there are.
    for rule in policy.rules() {
        if !rule.holds_on(path.as_str(), holder.user) {
            continue;
        }
        let outcome = outcome(rule, &holder, &beneficiary, ended);
        ended |= rule.last && rule.is_about(&holder);
        let is_about_others = matches!(outcome, RuleOutcome::Others(_));
        if told
            < if is_about_others {
                RULES_NAMED_MAX / 2
            } else {
                RULES_NAMED_MAX
            }
        {
            told += 1;
            trail.note(|| Step::Rule {
                rule: rule.to_string(),
                outcome,
            });
        }
    }
    let count = policy.rules().len() - told;
    if count > 0 {
        trail.note(|| Step::MoreRules { count });
    }
}

fn outcome(rule: &Rule, holder: &Person<'_>, beneficiary: &Person<'_>, ended: bool) -> RuleOutcome {
    if let Some(missing) = rule.missing(holder) {
        if matches!(missing, Who::Group(name) if holder.groups().contains(name)) {
            return RuleOutcome::GroupOfAnother(missing.to_string());
        }
        return RuleOutcome::Others(missing.to_string());
    }
    if ended {
        return RuleOutcome::Behind;
    }
    match rule.may.is_empty() || rule.is_about(beneficiary) {
        true => RuleOutcome::Applies,
        false => RuleOutcome::TakesOnly,
    }
}
