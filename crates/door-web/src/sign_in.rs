//! Signing in and out: a form takes a token once, and a session of the browser stands for it.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use credentials::Credential;
use http_server::control::{Client, Refusal};
use types::{Error, ErrorCode, Phase, Side};

use crate::admission::{Access, Proof, Viewer, name_of};
use crate::cookies::Cookie;
use crate::door::{Pages, now_s};
use crate::forms::{Form, demand_own_page, forbidden};
use crate::issuer_sign_in::IssuerLink;
use crate::limits::BACK_BYTES_MAX;
use crate::respond::page;
use crate::sessions::SessionKey;
use crate::shell::Shell;
use crate::words::Words;

/// Where clients sign in.
pub(crate) const SIGN_IN: &str = "/sign-in";

/// The form that takes a token, and the link to the issuer.
pub(crate) struct SignInForm {
    /// Where people sign in with their browser.
    pub(crate) issuer: Option<IssuerLink>,
    /// Where the browser goes afterwards.
    pub(crate) back: String,
    /// Why no token may be sent on this connection.
    pub(crate) refusal: Option<Words>,
}

impl SignInForm {
    /// For this client; `None` where signing in gives it nothing.
    pub(crate) fn new(access: &Access, client: &Client, back: &str) -> Option<Self> {
        let refusal = access.admit_token(client).err();
        let back = place_here(back);
        access.has_sign_in().then(|| Self {
            issuer: access.issuer.as_ref().map(|issuer| issuer.link(&back)),
            back,
            refusal: refusal.map(|refusal| refusal.error().public().into()),
        })
    }
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    shell: Shell,
    form: Option<SignInForm>,
}

pub(crate) fn routes() -> Router<Arc<Pages>> {
    Router::new()
        .route(SIGN_IN, get(show).post(sign_in))
        .route("/sign-out", post(sign_out))
}

async fn show(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    Extension(client): Extension<Client>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let query = Form::of(uri.query().unwrap_or_default().as_bytes());
    page(&SignInPage {
        shell: pages.shell("Sign in", "", &viewer),
        form: SignInForm::new(&pages.access, &client, query.get("back")),
    })
}

/// Begins a session for the token of the form. It has a new identifier, whatever the browser sent;
/// the session that it had ends.
async fn sign_in(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Refusal> {
    demand_own_page(&headers)?;
    let access = &pages.access;
    access.admit_token(&client)?;
    let form = Form::read(request).await?;
    let shown = form.get("token").trim();
    let token = shown.strip_prefix("Bearer ").unwrap_or(shown);
    if token.is_empty() {
        let error = Error::new(ErrorCode::Unauthenticated, Side::Client, Phase::Authenticate);
        return Err(error.with_detail("the form has no token").into());
    }
    let credential = access.authenticator.bearer(token).await?;
    let (identifier, _) = begin_session(access, &client, &credential, viewer.proof.session())?;
    let mut answer = (
        StatusCode::SEE_OTHER,
        [(header::LOCATION, place_here(form.get("back")))],
    )
        .into_response();
    Cookie::session(access.port(), client.is_encrypted).set(answer.headers_mut(), &identifier);
    Ok(answer)
}

/// Begins a session of the holder of this credential, who may look, and ends the one that the
/// browser had. Returns its identifier for the browser, and the viewer.
///
/// # Errors
/// The holder may not look, or this is no token of an issuer.
pub(crate) fn begin_session(
    access: &Access,
    client: &Client,
    credential: &Credential,
    replaces: Option<&SessionKey>,
) -> Result<(String, Viewer), Refusal> {
    let is_operator = access.rights().judge(credential, client, now_s())?;
    let Credential::Token(token) = credential else {
        return Err(forbidden("only a token of an issuer begins a session"));
    };
    replaces.iter().for_each(|session| access.sessions.end(session));
    let identifier = access.sessions.begin(token, now_s());
    let viewer = Viewer::new(credential, Proof::Session(SessionKey::of(&identifier)), is_operator);
    access.events.signed_in(name_of(credential).raw(), client.address);
    Ok((identifier, viewer))
}

/// Ends the session.
async fn sign_out(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Refusal> {
    let access = &pages.access;
    let form = Form::read(request).await?;
    access.demand_form(&viewer, &headers, form.get("form"))?;
    viewer
        .proof
        .session()
        .iter()
        .for_each(|session| access.sessions.end(session));
    let who = viewer.name.unwrap_or_default();
    access.events.signed_out(who.raw(), client.address);
    let mut answer = (StatusCode::SEE_OTHER, [(header::LOCATION, SIGN_IN)]).into_response();
    Cookie::session(access.port(), client.is_encrypted).forget(answer.headers_mut());
    Ok(answer)
}

/// The place on this server that was asked for, or the first page.
pub(crate) fn place_here(asked: &str) -> String {
    let is_here = asked.starts_with('/') && !asked.starts_with("//") && !asked.starts_with(SIGN_IN);
    let is_plain = asked.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    match is_here && is_plain && asked.len() <= BACK_BYTES_MAX && asked.parse::<Uri>().is_ok() {
        true => asked.to_owned(),
        false => "/".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_browser_is_sent_elsewhere() {
        let long = format!("/{}", "a".repeat(BACK_BYTES_MAX));
        for place in [
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "/a\\b",
            "\\\\evil.example",
            "/\t/evil.example",
            "javascript:alert(1)",
            "",
            "/a\r\nSet-Cookie: x=y",
            "/sign-in",
            &long,
        ] {
            assert_eq!(place_here(place), "/", "{place}");
        }
        assert_eq!(place_here("/now?q=a%26b&sort=age"), "/now?q=a%26b&sort=age");
    }
}
