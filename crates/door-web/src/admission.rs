//! Who may look at the pages.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, header};
use credentials::{Credential, CredentialKind};
use http_server::control::{Client, Refusal};
use identity::Authenticator;
use policy::Rule;
use types::{Error, ErrorCode, Phase, Side};

use crate::cookies::Cookie;
use crate::forms::{FormKey, demand_own_page, forbidden};
use crate::issuer_sign_in::{IssuerSettings, IssuerSignIn};
use crate::sessions::{SessionKey, Sessions, holder_of};
use crate::words::Words;

/// Rules that a reload can change.
pub type RulesNow = Box<dyn Fn() -> Vec<Rule> + Send + Sync>;

/// What clients do on the pages, for the log. Names are those that rules and pages use.
pub trait PageEvents: Send + Sync {
    /// A client has begun a session.
    fn signed_in(&self, who: &str, client: SocketAddr);
    /// It has ended its session.
    fn signed_out(&self, who: &str, client: SocketAddr);
    /// An operator has done something, or tried to.
    fn acted(&self, acted: &Acted<'_>);
}

/// What an operator has done.
#[derive(Clone, Copy, Debug)]
pub struct Acted<'a> {
    /// The action: `cancel_copy`, `cancel_job`, `drain_worker`, `undrain_worker`.
    pub action: &'static str,
    /// The transfer, job or worker.
    pub subject: &'a str,
    /// The operator's name.
    pub who: &'a str,
    /// Where the operator's request came from.
    pub client: SocketAddr,
    /// Why it failed.
    pub error: Option<&'a Error>,
}

/// Who may use the pages, and the sessions of those who have signed in.
pub struct Access {
    address: SocketAddr,
    viewers: RulesNow,
    operators: RulesNow,
    pub(crate) authenticator: Authenticator,
    pub(crate) events: Arc<dyn PageEvents>,
    pub(crate) sessions: Sessions,
    /// Where people sign in with their browser.
    pub(crate) issuer: Option<IssuerSignIn>,
    forms: FormKey,
}

/// A client that may look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Viewer {
    /// Its name; `None`: it did not sign in, and did not have to.
    pub(crate) name: Option<Words>,
    /// Whether it may change what runs.
    pub(crate) is_operator: bool,
    /// By what it is known.
    pub(crate) proof: Proof,
    /// Why the certificate of its connection is not accepted, if it may look without one.
    pub(crate) refused_certificate: Option<String>,
}

/// By what a viewer is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Proof {
    /// By nothing.
    #[default]
    Nothing,
    /// By the session of its browser.
    Session(SessionKey),
    /// By the certificate of its connection: the name of its holder, which no other has. A browser
    /// shows it with each request, those that pages of other sites make included.
    Certificate(String),
    /// By the token of the request, which no browser adds by itself.
    Token,
}

impl Proof {
    /// The session of the browser.
    pub(crate) fn session(&self) -> Option<&SessionKey> {
        match self {
            Self::Session(key) => Some(key),
            Self::Nothing | Self::Certificate(_) | Self::Token => None,
        }
    }

    /// Whom the token of a form is for; `None`: no form counts.
    fn form_holder(&self) -> Option<String> {
        match self {
            Self::Session(key) => Some(format!("session\n{}", key.as_str())),
            Self::Certificate(holder) => Some(format!("holder\n{holder}")),
            Self::Nothing | Self::Token => None,
        }
    }
}

impl Viewer {
    pub(crate) fn new(credential: &Credential, proof: Proof, is_operator: bool) -> Self {
        Self {
            name: Some(name_of(credential)),
            is_operator,
            proof,
            refused_certificate: None,
        }
    }
}

/// Why the certificate of a client's connection is not accepted.
fn refused_certificate(client: &Client) -> Option<String> {
    match &**client.credential().ok()? {
        Credential::RefusedCertificate(error) => Some(error.public()),
        _ => None,
    }
}

/// The rules of one moment.
pub(crate) struct Rights {
    viewers: Vec<Rule>,
    operators: Vec<Rule>,
    /// Whether everyone who reaches the door may look.
    is_open: bool,
}

impl Rights {
    /// Whether the holder of a credential is one of the operators, or else one of the viewers.
    ///
    /// # Errors
    /// The credential does not count now, or `page_forbidden`.
    pub(crate) fn judge(&self, credential: &Credential, client: &Client, now_s: i64) -> Result<bool, Refusal> {
        if !is_valid_at(credential, now_s) {
            let code = match credential.kind() {
                CredentialKind::Certificate => ErrorCode::CertificateExpired,
                _ => ErrorCode::TokenExpired,
            };
            return Err(Error::new(code, Side::Client, Phase::Authenticate).into());
        }
        let address = client.address.ip();
        let is_named = |rules: &[Rule]| rules.iter().any(|rule| rule.benefits(credential, address));
        let is_operator = is_named(&self.operators);
        match is_operator || is_named(&self.viewers) {
            true => Ok(is_operator),
            false if credential.grant().is_some() => Err(forbidden(
                "a token for data does not sign you in: use one without scopes, of a client that [web] names",
            )),
            false => Err(forbidden(match (self.viewers.is_empty(), self.operators.is_empty()) {
                (false, true) => "[web] viewers does not name this client",
                (true, false) => "[web] operators does not name this client",
                _ => "neither [web] viewers nor operators names this client",
            })),
        }
    }
}

impl Access {
    /// For the door at this address. `operators` may change what runs; they and `viewers` may
    /// look, and on a loopback address everyone on this machine while there are no viewers.
    /// `authenticator` verifies the tokens of those who sign in.
    #[must_use]
    pub fn new(
        address: SocketAddr,
        authenticator: Authenticator,
        viewers: RulesNow,
        operators: RulesNow,
        events: Arc<dyn PageEvents>,
    ) -> Self {
        Self {
            address,
            viewers,
            operators,
            authenticator,
            events,
            sessions: Sessions::default(),
            issuer: None,
            forms: FormKey::new(),
        }
    }

    /// People sign in at this issuer, too. `authenticator` must accept its tokens.
    #[must_use]
    pub fn with_issuer(self, settings: IssuerSettings) -> Self {
        Self {
            issuer: Some(settings.into()),
            ..self
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
        let rights = self.rights();
        !rights.viewers.is_empty() || !rights.operators.is_empty()
    }

    /// The rules of this moment.
    pub(crate) fn rights(&self) -> Rights {
        let viewers = (self.viewers)();
        Rights {
            is_open: self.is_local() && viewers.is_empty(),
            viewers,
            operators: (self.operators)(),
        }
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
    /// `unauthenticated`, why a credential was refused, or `page_forbidden`.
    pub(crate) fn admit(&self, client: &Client, headers: &HeaderMap, now_s: i64) -> Result<Viewer, Refusal> {
        let rights = self.rights();
        if let Some((key, credential)) = self.session(client, headers, now_s) {
            match rights.judge(&credential, client, now_s) {
                Ok(is_operator) => return Ok(Viewer::new(&credential, Proof::Session(key), is_operator)),
                Err(refusal) => {
                    self.sessions.end(&key);
                    if !rights.is_open {
                        return Err(refusal);
                    }
                }
            }
        }
        let judged = client.identified().and_then(|credential| {
            let is_operator = rights.judge(credential, client, now_s)?;
            let proof = match &**credential {
                Credential::Certificate(_) => Proof::Certificate(holder_of(credential)),
                _ => Proof::Token,
            };
            Ok(Viewer::new(credential, proof, is_operator))
        });
        // A token that is not valid is refused even where no client needs one: its client means it.
        let shows_token = headers.contains_key(header::AUTHORIZATION);
        match judged {
            Err(refusal) if rights.is_open && (!shows_token || refusal.error().code() == ErrorCode::PageForbidden) => {
                Ok(Viewer {
                    refused_certificate: refused_certificate(client),
                    ..Viewer::default()
                })
            }
            judged => judged,
        }
    }

    /// The credential by which the session of a request's browser began, for the log: whether it
    /// counts is judged anew for each request.
    pub(crate) fn session_holder(&self, client: &Client, headers: &HeaderMap, now_s: i64) -> Option<Arc<Credential>> {
        self.session(client, headers, now_s).map(|(_, credential)| credential)
    }

    /// The session of a browser, and the credential by which it began.
    fn session(&self, client: &Client, headers: &HeaderMap, now_s: i64) -> Option<(SessionKey, Arc<Credential>)> {
        // A browser sends its cookie with each request; a token was meant for this one.
        if headers.contains_key(header::AUTHORIZATION) {
            return None;
        }
        let cookie = Cookie::session(self.port(), client.is_encrypted);
        let key = SessionKey::of(cookie.find(headers)?);
        let credential = self.sessions.find(&key, now_s)?;
        let issuer = credential.principal().and_then(|principal| principal.issuer.as_deref());
        if issuer.is_some_and(|issuer| self.authenticator.accepts_issuer(issuer)) {
            return Some((key, credential));
        }
        self.sessions.end(&key);
        None
    }

    /// The token of forms for this client; `None`: it needs none.
    pub(crate) fn form_token(&self, viewer: &Viewer) -> Option<String> {
        Some(self.forms.token(&viewer.proof.form_holder()?))
    }

    /// Demands that a page of ours made a form, for this session or certificate. The token of a
    /// request stands for itself.
    ///
    /// # Errors
    /// `page_forbidden`.
    pub(crate) fn demand_form(&self, viewer: &Viewer, headers: &HeaderMap, token: &str) -> Result<(), Refusal> {
        demand_own_page(headers)?;
        let holder = viewer.proof.form_holder();
        let is_ours = holder.is_some_and(|holder| self.forms.is_token(&holder, token));
        match is_ours || viewer.proof == Proof::Token {
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
