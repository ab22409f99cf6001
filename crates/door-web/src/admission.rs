//! Who may look at the pages.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, header};
use credentials::{Credential, CredentialKind};
use http_server::control::{Client, Refusal};
use identity::Authenticator;
use policy::Rule;
use types::{Error, ErrorCode, Phase, Side};

use crate::cookies;
use crate::forms::{FormKey, demand_own_page, forbidden};
use crate::sessions::{SessionKey, Sessions};
use crate::words::Words;

/// Rules that a reload can change.
pub type RulesNow = Box<dyn Fn() -> Vec<Rule> + Send + Sync>;

/// What clients do on the pages, for the log. Names are those that rules and pages use.
pub trait PageEvents: Send + Sync {
    /// A client has begun a session.
    fn signed_in(&self, who: &str, client: SocketAddr);
    /// It has ended its session.
    fn signed_out(&self, who: &str, client: SocketAddr);
}

/// Who may use the pages, and the sessions of those who have signed in.
pub struct Access {
    address: SocketAddr,
    viewers: RulesNow,
    pub(crate) authenticator: Authenticator,
    pub(crate) events: Arc<dyn PageEvents>,
    pub(crate) sessions: Sessions,
    forms: FormKey,
}

/// A client that may look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Viewer {
    /// Its name; `None`: it did not sign in, and did not have to.
    pub(crate) name: Option<Words>,
    /// Its session, if it has one.
    pub(crate) session: Option<SessionKey>,
}

impl Access {
    /// For the door at this address. `viewers` may look; on a loopback address, everyone on this
    /// machine while there are none. `authenticator` verifies the tokens of those who sign in.
    #[must_use]
    pub fn new(
        address: SocketAddr,
        authenticator: Authenticator,
        viewers: RulesNow,
        events: Arc<dyn PageEvents>,
    ) -> Self {
        Self {
            address,
            viewers,
            authenticator,
            events,
            sessions: Sessions::default(),
            forms: FormKey::new(),
        }
    }

    /// Whether the door listens on a loopback address.
    pub(crate) fn is_local(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }

    /// The port of the door.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Whether signing in gives a client anything.
    pub(crate) fn has_sign_in(&self) -> bool {
        !(self.viewers)().is_empty()
    }

    /// Whether a client may send a token over its connection.
    ///
    /// # Errors
    /// `tls_required`.
    pub(crate) fn admit_token(&self, client: &Client) -> Result<(), Refusal> {
        let admitted = self
            .authenticator
            .admit_secrets(client.is_encrypted, client.address.ip());
        Ok(admitted?)
    }

    /// Whether the client may look. A token of the request counts first, then the session of the
    /// browser, then the certificate of the connection. A session ends when its client may no
    /// longer look. `now_s` is in seconds since 1970.
    ///
    /// # Errors
    /// `unauthenticated`, why a credential was refused, or `forbidden`.
    pub(crate) fn admit(&self, client: &Client, headers: &HeaderMap, now_s: i64) -> Result<Viewer, Refusal> {
        let is_open = self.is_local() && !self.has_sign_in();
        if let Some((key, credential)) = self.session(client, headers, now_s) {
            match self.judge(&credential, client, now_s) {
                Ok(()) => {
                    return Ok(Viewer {
                        name: Some(name_of(&credential)),
                        session: Some(key),
                    });
                }
                Err(refusal) => {
                    self.sessions.end(&key);
                    if !is_open {
                        return Err(refusal);
                    }
                }
            }
        }
        if is_open {
            return Ok(Viewer::default());
        }
        let credential = client.identified()?;
        self.judge(credential, client, now_s)?;
        Ok(Viewer {
            name: Some(name_of(credential)),
            session: None,
        })
    }

    /// The session of a browser, and the credential by which it began.
    fn session(&self, client: &Client, headers: &HeaderMap, now_s: i64) -> Option<(SessionKey, Arc<Credential>)> {
        // A browser sends its cookie with each request; a token was meant for this one.
        if headers.contains_key(header::AUTHORIZATION) {
            return None;
        }
        let identifier = cookies::identifier(headers, self.port(), client.is_encrypted)?;
        let key = SessionKey::of(identifier);
        let credential = self.sessions.find(&key, now_s)?;
        let issuer = credential.principal().and_then(|principal| principal.issuer.as_deref());
        if issuer.is_some_and(|issuer| self.authenticator.accepts_issuer(issuer)) {
            return Some((key, credential));
        }
        self.sessions.end(&key);
        None
    }

    /// Whether the holder of a credential may look.
    ///
    /// # Errors
    /// The credential does not count now, or `forbidden`.
    pub(crate) fn judge(&self, credential: &Credential, client: &Client, now_s: i64) -> Result<(), Refusal> {
        if !is_valid_at(credential, now_s) {
            let code = match credential.kind() {
                CredentialKind::Certificate => ErrorCode::CertificateExpired,
                _ => ErrorCode::TokenExpired,
            };
            return Err(Error::new(code, Side::Client, Phase::Authenticate).into());
        }
        let address = client.address.ip();
        match (self.viewers)().iter().any(|rule| rule.benefits(credential, address)) {
            true => Ok(()),
            false if credential.grant().is_some() => Err(forbidden(
                "a token for data does not sign you in: use one without scopes, of a client that [web] viewers names",
            )),
            false => Err(forbidden("[web] viewers does not name this client")),
        }
    }

    /// The token of forms for this client; `None`: it needs none.
    pub(crate) fn form_token(&self, viewer: &Viewer) -> Option<String> {
        let session = viewer.session.as_ref()?;
        Some(self.forms.token(session.as_str()))
    }

    /// Demands that a page of ours made a form, for this session.
    ///
    /// # Errors
    /// `forbidden`.
    pub(crate) fn demand_form(&self, viewer: &Viewer, headers: &HeaderMap, token: &str) -> Result<(), Refusal> {
        demand_own_page(headers)?;
        let session = viewer.session.as_ref();
        match session.is_some_and(|session| self.forms.is_token(session.as_str(), token)) {
            true => Ok(()),
            false => Err(forbidden(
                "this form is not of your session, which may have ended; load the page again",
            )),
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
pub(crate) fn name_of(credential: &Credential) -> Words {
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
