//! POST: issues macaroons, in the form of XRootD and dCache at any path, and in the form of OAuth
//! 2.0 at the token endpoint, which is found by its metadata (RFC 8414).

use credentials::{Issuer, MacaroonRequest, Owner, RequestForm, issue};
use http_wire::{ContentType, RequestHead};
use policy::{Operation, handed_on};
use serde_json::json;
use types::limits::MACAROON_REQUEST_BYTES_MAX;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::exchange::FileExchange;
use crate::route::TOKEN_ENDPOINT;
use endpoint::clock::now_s;
use net::random::random;

/// The media types of the two forms.
const MACAROON_REQUEST: &str = "application/macaroon-request";
const FORM: &str = "application/x-www-form-urlencoded";
/// The configuration key without which no macaroons are issued.
const SECRET_KEY: &str = "macaroons.secret_file is not set";

/// Answers where the token endpoint is.
pub(crate) async fn discover(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    let known = exchange.door.settings.authorities.first();
    let host = head.host().or(known.map(String::as_str));
    let (Some(host), true) = (host, exchange.door.settings.macaroons.is_some()) else {
        return Err(Error::new(ErrorCode::NotFound, Side::Client, Phase::Open));
    };
    let scheme = if exchange.http.connection.stream.is_encrypted() {
        "https"
    } else {
        "http"
    };
    let issuer = format!("{scheme}://{host}");
    let body = json!({
        "issuer": issuer,
        "token_endpoint": format!("{issuer}{TOKEN_ENDPOINT}"),
        "grant_types_supported": ["client_credentials"],
        "response_types_supported": [],
    });
    let body = body.to_string();
    exchange
        .http
        .whole(200, body.as_bytes(), |head| head.content_type(ContentType::Json))
        .await
}

/// Answers a POST to the path that a macaroon is for.
pub(crate) async fn macaroon(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    check_media_type(head, MACAROON_REQUEST)?;
    answer(exchange, RequestForm::Json).await
}

/// Answers a POST to the token endpoint.
pub(crate) async fn token(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    check_media_type(head, FORM)?;
    answer(exchange, RequestForm::OAuth).await
}

fn check_media_type(head: &RequestHead, wanted: &str) -> Result<()> {
    if head.media_type().as_deref() == Some(wanted) {
        return Ok(());
    }
    let error = Error::new(ErrorCode::UnsupportedMediaType, Side::Client, Phase::Open);
    Err(error.with_detail(wanted))
}

async fn answer(exchange: &mut FileExchange<'_, '_>, form: RequestForm) -> Result<()> {
    if exchange.door.settings.macaroons.is_none() {
        return Err(no_macaroons());
    }
    // The answer is a secret like a password.
    exchange.http.admit_secrets()?;
    let body = exchange.http.small_body(MACAROON_REQUEST_BYTES_MAX).await?;
    let request = match form {
        RequestForm::Json => MacaroonRequest::from_json(&body)?,
        RequestForm::OAuth => MacaroonRequest::from_form(&body)?,
    };
    hand_out(exchange, &request).await
}

fn no_macaroons() -> Error {
    Error::new(ErrorCode::NoMacaroons, Side::Active, Phase::Authorize).with_detail(SECRET_KEY)
}

async fn hand_out(exchange: &mut FileExchange<'_, '_>, request: &MacaroonRequest) -> Result<()> {
    let asked = request.path.as_ref();
    let asked = asked.map(|path| exchange.exports.respelled(path).unwrap_or_else(|| path.clone()));
    let path = asked.unwrap_or_else(|| exchange.http.path.clone());
    // The client needs some right there, and a token that is valid at its address.
    let granted = exchange.authorize(Operation::Stat, &path, None)?;
    let owner = Owner {
        user: granted.user.as_deref(),
        vo: granted.vo.as_deref(),
    };
    let credential = exchange.http.credential.clone()?;
    let address = exchange.http.peer.ip().to_canonical();
    let rights = handed_on(exchange.exports.policy(), &credential, address, &path, request.wanted());
    let issued = {
        let Some(settings) = &exchange.door.settings.macaroons else {
            return Err(no_macaroons());
        };
        let issuer = Issuer {
            key: &settings.key,
            location: &settings.location,
            lifetimes: settings.lifetimes,
            random: random(),
            now_s: now_s(),
        };
        issue(request, &credential, &rights, &path, owner, &issuer)?
    };
    let body = request.form.response_body(&issued);
    exchange.http.record.issued_token_id = Some(issued.identifier);
    exchange
        .http
        .whole(200, body.expose().as_bytes(), |head| {
            head.content_type(ContentType::Json).no_store()
        })
        .await
}
