//! POST: macaroons, in the form of XRootD and dCache on any path, and in the form of OAuth 2.0 at
//! the token endpoint, which is found by its metadata (RFC 8414).

use credentials::{Issuer, MacaroonRequest, Owner, RequestForm, issue};
use http_wire::{ContentType, Method, RequestHead};
use policy::{Operation, handed_on};
use serde_json::json;
use types::limits::MACAROON_REQUEST_BYTES_MAX;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::exchange::Exchange;
use endpoint::clock::now_s;
use net::random::random;

/// Where tokens are asked for, as XRootD has it.
const TOKEN_ENDPOINT: &str = "/.oauth2/token";
/// Where the endpoint is told (RFC 8414 §3, OpenID Connect Discovery 1.0 §4); gfal2 appends the path
/// of the issuer.
const DISCOVERY: [&str; 2] = [
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
];
/// The media types of the two forms.
const MACAROON_REQUEST: &str = "application/macaroon-request";
const FORM: &str = "application/x-www-form-urlencoded";
/// The line of the configuration without which there are no macaroons.
const SECRET_KEY: &str = "macaroons.secret_file is not set";

/// Whether the metadata are asked for.
pub(crate) fn is_discovery(path: &LogicalPath) -> bool {
    let text = path.as_str();
    DISCOVERY.iter().any(|known| {
        text.strip_prefix(known)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Tells where the token endpoint is.
pub(crate) async fn discover(exchange: &mut Exchange<'_>, head: &RequestHead) -> Result<()> {
    let known = exchange.door.settings.authorities.first();
    let host = head.host().or(known.map(String::as_str));
    let (Some(host), true) = (host, exchange.door.settings.macaroons.is_some()) else {
        return Err(Error::new(ErrorCode::NotFound, Side::Client, Phase::Open));
    };
    let scheme = if exchange.connection.stream.is_encrypted() {
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
        .whole(200, body.as_bytes(), |head| head.content_type(ContentType::Json))
        .await
}

/// Answers POST.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, head: &RequestHead) -> Result<()> {
    debug_assert_eq!(head.method, Method::Post);
    let is_endpoint = exchange.path.as_str() == TOKEN_ENDPOINT;
    let form = match (head.media_type().as_deref(), is_endpoint) {
        (Some(MACAROON_REQUEST), false) => RequestForm::Json,
        (Some(FORM), true) => RequestForm::OAuth,
        (_, is_endpoint) => {
            let wanted = if is_endpoint { FORM } else { MACAROON_REQUEST };
            let error = Error::new(ErrorCode::UnsupportedMediaType, Side::Client, Phase::Open);
            return Err(error.with_detail(wanted));
        }
    };
    if exchange.door.settings.macaroons.is_none() {
        return Err(no_macaroons());
    }
    // The answer is as good as a password.
    exchange.admit_secrets()?;
    let body = exchange.small_body(MACAROON_REQUEST_BYTES_MAX).await?;
    let request = match form {
        RequestForm::Json => MacaroonRequest::from_json(&body)?,
        RequestForm::OAuth => MacaroonRequest::from_form(&body)?,
    };
    hand_out(exchange, &request).await
}

fn no_macaroons() -> Error {
    Error::new(ErrorCode::NoMacaroons, Side::Active, Phase::Authorize).with_detail(SECRET_KEY)
}

async fn hand_out(exchange: &mut Exchange<'_>, request: &MacaroonRequest) -> Result<()> {
    let path = request.path.clone().unwrap_or_else(|| exchange.path.clone());
    // Whoever asks must be able to do something there, with a token that is valid from where he is.
    let granted = exchange.authorize(Operation::Stat, &path, None)?;
    let owner = Owner {
        user: granted.user.as_deref(),
        vo: granted.vo.as_deref(),
    };
    let credential = exchange.credential.clone()?;
    let address = exchange.peer.ip().to_canonical();
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
    exchange.record.issued_token_id = Some(issued.identifier);
    exchange
        .whole(200, body.expose().as_bytes(), |head| {
            head.content_type(ContentType::Json).no_store()
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_are_found_for_issuers_with_a_path_too() {
        let path = |text| LogicalPath::parse(text).unwrap();
        assert!(is_discovery(&path("/.well-known/oauth-authorization-server")));
        assert!(is_discovery(&path("/.well-known/openid-configuration/data/x")));
        assert!(!is_discovery(&path("/.well-known/openid-configurations")));
        assert!(!is_discovery(&path("/data")));
    }
}
