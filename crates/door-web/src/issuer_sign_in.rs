//! Signing in at an issuer, with the browser: the authorization code flow with PKCE (OpenID Connect
//! Core 1.0 §3.1, RFC 7636), as RFC 9700 wants it.
//!
//! The link leads to [`BEGIN`], which begins an attempt, seals it in a cookie of the browser, and
//! sends the browser to the issuer. From there it comes back to [`RETURN_PATH`] with a code, which
//! this server redeems itself. The person whom the ID token names then has a session as after the
//! form.
//!
//! The way back begins at another site. So the cookie of the attempt is `Lax`, and the answer is a
//! page that leads on, not a redirect: only a request that a page of ours makes has the cookie of
//! the session, which is `Strict`. The page needs no script.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use credentials::{Credential, IdTokenDemands, VerifiedToken};
use http_server::control::{Client, Refusal};
use remote::{TokenDenial, TokenIssuer, TokenProvider};
use types::{Error, ErrorCode, Phase, Secret, Side};
use url::Url;

use crate::admission::{Access, Viewer, name_of};
use crate::attempts::{Attempt, Attempts};
use crate::cookies::Cookie;
use crate::door::{Pages, now_s, refused};
use crate::forms::{Form, demand_own_page, forbidden};
use crate::issuer_answer::IssuerAnswer;
use crate::issuer_words::{bounded, plain, refusal_words};
use crate::limits::ISSUER_SESSION_TIME;
use crate::respond::{internal, page};
use crate::sessions::SessionKey;
use crate::shell::Shell;
use crate::sign_in::{SIGN_IN, begin_session, place_here};
use crate::words::Words;

/// Where a sign-in begins.
const BEGIN: &str = "/sign-in/issuer";
/// Where the issuer sends the browser back to; registered there, with scheme, name and port.
pub const RETURN_PATH: &str = "/sign-in/issuer/return";

/// An issuer at which people sign in, and this server as its client.
#[derive(Debug)]
pub struct IssuerSettings {
    /// The issuer, and our name and secret there.
    pub provider: TokenProvider,
    /// By what it is asked.
    pub client: remote::Client,
    /// The scopes that are asked for.
    pub scopes: Vec<String>,
    /// Words of the link; `None`: made of the issuer's host.
    pub words: Option<String>,
    /// The redirect URL; `None`: made of the name by which the browser reaches this server.
    pub redirect_url: Option<String>,
}

/// The issuer, and the sign-ins there that have begun.
pub(crate) struct IssuerSignIn {
    issuer: TokenIssuer,
    scopes: Vec<String>,
    words: Words,
    redirect_url: Option<String>,
    attempts: Attempts,
}

/// The link to the issuer.
pub(crate) struct IssuerLink {
    pub(crate) words: Words,
    pub(crate) place: String,
}

impl From<IssuerSettings> for IssuerSignIn {
    fn from(settings: IssuerSettings) -> Self {
        let host = Url::parse(&settings.provider.issuer).ok();
        let host = host.as_ref().and_then(Url::host_str).unwrap_or("the issuer");
        let words = settings.words.unwrap_or_else(|| format!("Sign in at {host}"));
        Self {
            issuer: TokenIssuer::new(settings.provider, settings.client, Side::Client),
            scopes: settings.scopes,
            words: words.into(),
            redirect_url: settings.redirect_url,
            attempts: Attempts::default(),
        }
    }
}

impl IssuerSignIn {
    /// The link, for a browser that then goes to a place on this server.
    pub(crate) fn link(&self, back: &str) -> IssuerLink {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("back", back);
        IssuerLink {
            words: self.words.clone(),
            place: format!("{BEGIN}?{}", query.finish()),
        }
    }

    /// The name of the issuer.
    fn name(&self) -> &str {
        &self.issuer.provider.issuer
    }

    /// Where the issuer is to send the browser. The name is that of the request: a forged one leads
    /// nowhere, since the issuer knows which URLs are ours (RFC 9700 §2.1).
    ///
    /// # Errors
    /// `bad_request`: the request names no host.
    fn redirect_url(&self, is_encrypted: bool, headers: &HeaderMap) -> Result<String, Refusal> {
        if let Some(url) = &self.redirect_url {
            return Ok(url.clone());
        }
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        own_url(is_encrypted, host.unwrap_or_default()).ok_or_else(|| refused(ErrorCode::BadRequest))
    }

    /// The token that names the person, for the code of an answer.
    ///
    /// # Errors
    /// `sign_in_failed`: the issuer refuses, or its ID token is not accepted;
    /// `token_issuer_unreachable`.
    async fn person(&self, access: &Access, code: &Secret, attempt: &Attempt) -> Result<VerifiedToken, Refusal> {
        let issued = self.issuer.redeem(code, &attempt.request).await;
        let issued = issued.map_err(|denial| match denial {
            TokenDenial::Refused(word) => self.failed(&refusal_words(&word)),
            TokenDenial::Unreachable { error, .. } => error.into(),
        })?;
        let no_token = || self.failed("it gave no ID token; web.oidc_scopes must have \"openid\"");
        let token = issued.id.ok_or_else(no_token)?;
        let demands = IdTokenDemands {
            issuer: self.name(),
            client_id: &self.issuer.provider.client_id,
            nonce: attempt.request.nonce.expose(),
        };
        let verified = access.authenticator.id_token(token.expose(), &demands).await;
        verified.map_err(|error| match error.code() {
            ErrorCode::TokenIssuerUnreachable => error.into(),
            code => {
                let detail = error.detail().unwrap_or_else(|| code.meaning());
                self.failed(&format!("its ID token is refused ({}): {detail}", code.name()))
            }
        })
    }

    fn failed(&self, why: &str) -> Refusal {
        failed(format!("{}: {why}", self.name()))
    }
}

/// The redirect URL of a server that has this name and port in requests.
fn own_url(is_encrypted: bool, host: &str) -> Option<String> {
    let scheme = if is_encrypted { "https" } else { "http" };
    let url = Url::parse(&format!("{scheme}://{host}{RETURN_PATH}")).ok()?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    let is_plain = url.path() == RETURN_PATH && !has_user && url.query().is_none() && url.fragment().is_none();
    is_plain.then(|| url.into())
}

fn failed(why: impl Into<String>) -> Refusal {
    let error = Error::new(ErrorCode::SignInFailed, Side::Client, Phase::Authenticate);
    error.with_detail(why).into()
}

/// A refusal of someone who may not look, with the name that rules would have to name: people do
/// not know how their issuer calls them.
fn with_name(refusal: &Refusal, credential: &Credential) -> Refusal {
    match (refusal.error().code(), refusal.error().detail()) {
        (ErrorCode::PageForbidden, Some(detail)) => {
            forbidden(&format!("{detail}; the issuer calls you {}", name_of(credential)))
        }
        _ => refusal.clone(),
    }
}

#[derive(Template)]
#[template(path = "signed_in.html")]
struct SignedInPage {
    shell: Shell,
    back: String,
}

pub(crate) fn routes() -> Router<Arc<Pages>> {
    Router::new()
        .route(BEGIN, get(begin))
        .route(RETURN_PATH, get(come_back))
}

/// Whether a path is for clients that have not signed in yet.
pub(crate) fn is_for_everyone(path: &str) -> bool {
    matches!(path, SIGN_IN | BEGIN | RETURN_PATH)
}

fn issuer_of(access: &Access) -> Result<&IssuerSignIn, Refusal> {
    let issuer = access.issuer.as_ref().filter(|_| access.has_sign_in());
    issuer.ok_or_else(|| refused(ErrorCode::NotFound))
}

/// Sends the browser to the issuer. No other site can make it do so: what it shows afterwards would
/// be of its choice.
async fn begin(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Refusal> {
    demand_own_page(&headers)?;
    let access = &pages.access;
    access.admit_token(&client)?;
    let sign_in = issuer_of(access)?;
    let redirect_url = sign_in.redirect_url(client.is_encrypted, &headers)?;
    let query = Form::of(uri.query().unwrap_or_default().as_bytes());
    let back = place_here(query.get("back"));
    let attempt = Attempt::new(redirect_url, back, viewer.proof.session().cloned());
    let place = sign_in.issuer.sign_in_url(&attempt.request, &sign_in.scopes).await?;
    let mut place = HeaderValue::try_from(place.expose()).map_err(internal)?;
    place.set_sensitive(true);
    let mut answer = (StatusCode::SEE_OTHER, [(header::LOCATION, place)]).into_response();
    let cookie = Cookie::attempt(access.port(), client.is_encrypted, &attempt.key());
    let sealed = sign_in.attempts.seal(&attempt, now_s());
    let sealed = sealed.ok_or_else(|| internal("a sign-in cannot be sealed"))?;
    cookie.set(answer.headers_mut(), sealed.expose());
    Cookie::forget_attempts(access.port(), client.is_encrypted, &headers, answer.headers_mut());
    Ok(answer)
}

/// Takes the answer of the issuer, and begins a session. What it says counts only in the browser
/// that began this sign-in, so its words are repeated to no one else.
async fn come_back(
    State(pages): State<Arc<Pages>>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Refusal> {
    let access = &pages.access;
    access.admit_token(&client)?;
    let sign_in = issuer_of(access)?;
    let answer = IssuerAnswer::read(uri.query().unwrap_or_default()).map_err(failed)?;
    let key = SessionKey::of(answer.state.expose());
    let cookie = Cookie::attempt(access.port(), client.is_encrypted, &key);
    let sealed = cookie.find(&headers).unwrap_or_default();
    let attempt = sign_in.attempts.take(&answer.state, sealed, now_s()).ok_or_else(|| {
        failed("this sign-in was not begun in this browser, has ended, or began more than 10 minutes ago")
    })?;
    if !sign_in.issuer.is_answer_of(answer.issuer.as_deref()).await? {
        return Err(sign_in.failed("another issuer has answered, or it does not say who has (iss)"));
    }
    let code = match (&answer.error, &answer.code) {
        (Some(word), _) => {
            let words = answer.words.as_deref().map(bounded).unwrap_or_default();
            let colon = if words.is_empty() { "" } else { ": " };
            return Err(sign_in.failed(&format!("{} ({}{colon}{words})", plain(word), bounded(word))));
        }
        (None, Some(code)) => code,
        (None, None) => return Err(sign_in.failed("it answers with neither a code nor a reason")),
    };
    let person = sign_in.person(access, code, &attempt).await?;
    let ends_s = now_s().saturating_add(i64::try_from(ISSUER_SESSION_TIME.as_secs()).unwrap_or(i64::MAX));
    let credential = Credential::Token(Box::new(VerifiedToken {
        expires_s: ends_s,
        ..person
    }));
    let begun = begin_session(access, &client, &credential, attempt.replaces.as_ref());
    let (identifier, viewer) = begun.map_err(|refusal| with_name(&refusal, &credential))?;
    let mut answer = page(&SignedInPage {
        shell: pages.shell("Signed in", "", &viewer),
        back: attempt.back,
    })?;
    cookie.forget(answer.headers_mut());
    Cookie::session(access.port(), client.is_encrypted).set(answer.headers_mut(), &identifier);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_come_back_to_the_name_by_which_they_came() {
        for (host, url) in [
            ("se.example:8450", "https://se.example:8450/sign-in/issuer/return"),
            ("SE.example", "https://se.example/sign-in/issuer/return"),
            ("[::1]:8450", "https://[::1]:8450/sign-in/issuer/return"),
        ] {
            assert_eq!(own_url(true, host).as_deref(), Some(url));
        }
        assert!(own_url(false, "localhost:1").is_some_and(|url| url.starts_with("http://localhost:1/")));
        for forged in [
            "",
            "u@evil.example",
            "evil.example/x",
            "evil.example?",
            "evil.example#",
            "a b",
            "/",
            "\\",
        ] {
            assert_eq!(own_url(true, forged), None, "{forged}");
        }
    }

    #[test]
    fn only_what_begins_and_ends_a_sign_in_is_for_everyone() {
        for path in ["/sign-in", "/sign-in/issuer", "/sign-in/issuer/return"] {
            assert!(is_for_everyone(path), "{path}");
        }
        for path in [
            "/",
            "/now",
            "/sign-in/",
            "/sign-in/issuer/",
            "/sign-in/issuer/return/x",
            "/sign-out",
        ] {
            assert!(!is_for_everyone(path), "{path}");
        }
    }
}
