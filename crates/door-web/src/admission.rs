//! Who may look at the pages.

use credentials::{Credential, CredentialKind};
use http_server::control::{Client, Refusal};
use policy::Rule;
use types::{Error, ErrorCode, Phase, Side};

use crate::words::Words;

/// A client that may look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Viewer {
    /// Its name; `None`: it did not sign in, and did not have to.
    pub(crate) name: Option<Words>,
}

/// Whether the client may look: everyone on this machine if there are no `viewers`, else those
/// that one of these names.
///
/// `now_s` is in seconds since 1970.
///
/// # Errors
/// `unauthenticated`, why a credential was refused, or `forbidden`.
pub(crate) fn admit(client: &Client, viewers: &[Rule], is_local: bool, now_s: i64) -> Result<Viewer, Refusal> {
    if is_local && viewers.is_empty() {
        return Ok(Viewer { name: None });
    }
    let credential = client.identified()?;
    if !is_valid_at(credential, now_s) {
        let code = match credential.kind() {
            CredentialKind::Certificate => ErrorCode::CertificateExpired,
            _ => ErrorCode::TokenExpired,
        };
        return Err(Error::new(code, Side::Client, Phase::Authenticate).into());
    }
    let address = client.address.ip();
    match viewers.iter().any(|rule| rule.benefits(credential, address)) {
        true => Ok(Viewer {
            name: Some(name_of(credential)),
        }),
        false => {
            let error = Error::new(ErrorCode::Forbidden, Side::Client, Phase::Authorize);
            Err(error.with_detail("[web] viewers does not name this client").into())
        }
    }
}

/// Whether the credential counts at this moment: those who verify it leave its times to others.
fn is_valid_at(credential: &Credential, now_s: i64) -> bool {
    let begins_s = match credential {
        Credential::Token(token) => token.not_before_s,
        _ => None,
    };
    credential.expires_s().is_none_or(|end| now_s < end) && begins_s.is_none_or(|begin| begin <= now_s)
}

/// The name by which people know a client.
fn name_of(credential: &Credential) -> Words {
    let principal = credential.principal();
    let named = principal.and_then(|principal| {
        let by_token = || {
            let (subject, issuer) = (principal.subject.as_ref()?, principal.issuer.as_ref()?);
            Some(format!("{subject}@{issuer}"))
        };
        principal.dn.clone().or_else(by_token)
    });
    named.unwrap_or_else(|| credential.kind().name().to_owned()).into()
}
