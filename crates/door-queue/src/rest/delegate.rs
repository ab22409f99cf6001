//! Delegation: the proxies are those of the queue; here are FTS's calls for them.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use http_server::control::Client;
use identity::delegation::{Delegator, certificate_needed};
use queue::Proxies;
use serde_json::{Value, json};
use types::limits::DELEGATION_BODY_BYTES_MAX;
use types::{Error, ErrorCode, Phase, Side};

use super::query::read;
use crate::fts::FtsError;
use crate::fts::answers::date_time;
use crate::respond::{Answered, Failed, good, nothing, whole, with_status};
use crate::settings::{Settings, Shared};

/// RFC 4918 §11.4, as FTS answers when no VOMS server gives the attributes.
const FAILED_DEPENDENCY: u16 = 424;

/// The proxies, and who the client is to them.
///
/// # Errors
/// 404 where delegation is off; 401 for a client without a certificate that allows a proxy; 403 for
/// the delegation of another client.
fn access<'s>(settings: &'s Settings, client: &Client, id: &str) -> Result<(&'s Proxies, Delegator), Failed> {
    let caller = settings.caller(client)?;
    let proxies = settings.proxies.as_ref();
    let proxies = proxies.ok_or_else(|| Error::new(ErrorCode::NotFound, Side::Client, Phase::Open))?;
    let delegator = caller.delegator.ok_or_else(certificate_needed)?;
    delegator.check_id(id)?;
    Ok((proxies, delegator))
}

/// `GET /delegation/ID`: when the proxy ends, or `null`.
pub(super) async fn describe(State(settings): Shared, client: Client, Path(id): Path<String>) -> Answered {
    let (proxies, delegator) = access(&settings, &client, &id)?;
    let expires_ms = proxies.expires_ms(&delegator).await?;
    Ok(good(&expires_ms.map_or(
        Value::Null,
        |expires_ms| json!({"termination_time": date_time(Some(expires_ms)), "voms_attrs": delegator.fqans()}),
    )))
}

/// `DELETE /delegation/ID`.
pub(super) async fn remove(State(settings): Shared, client: Client, Path(id): Path<String>) -> Answered {
    let (proxies, delegator) = access(&settings, &client, &id)?;
    match proxies.remove(&delegator).await? {
        true => Ok(nothing()),
        false => Err(Error::new(ErrorCode::NotFound, Side::Client, Phase::Open).into()),
    }
}

/// `GET /delegation/ID/request`: a certificate request, for the client to sign.
pub(super) async fn request(State(settings): Shared, client: Client, Path(id): Path<String>) -> Answered {
    let (proxies, delegator) = access(&settings, &client, &id)?;
    Ok(proxies.request(&delegator).await?.into_response())
}

/// `PUT /delegation/ID/credential`: the signed proxy with its chain.
pub(super) async fn store(State(settings): Shared, client: Client, Path(id): Path<String>, body: Body) -> Answered {
    let (proxies, delegator) = access(&settings, &client, &id)?;
    let chain = whole(body, DELEGATION_BODY_BYTES_MAX).await?;
    proxies.put(&delegator, &chain).await?;
    Ok(with_status(201, &json!("")))
}

/// `POST /delegation/ID/voms`: VOMS attributes for the proxy, as `["vo", "vo:/vo/Role=x"]`. FTS
/// asks a VOMS server for them; here the proxy must have come with them: 203 if so, else 424.
pub(super) async fn voms(State(settings): Shared, client: Client, Path(id): Path<String>, body: Body) -> Answered {
    let (proxies, delegator) = access(&settings, &client, &id)?;
    let wanted: Vec<String> = read(body).await?;
    let Some(expires_ms) = proxies.expires_ms(&delegator).await? else {
        return Err(FtsError::new(403, "Delegated proxy already expired").into());
    };
    if let Some(missing) = wanted.iter().find(|wanted| !has_attribute(delegator.fqans(), wanted)) {
        let message = format!("the delegated proxy has no VOMS attribute {missing}: delegate one that has it");
        return Err(FtsError::new(FAILED_DEPENDENCY, message).into());
    }
    let ends = date_time(Some(expires_ms));
    let ends = ends.as_str().unwrap_or_default().to_owned();
    Ok((StatusCode::NON_AUTHORITATIVE_INFORMATION, ends).into_response())
}

/// Whether VOMS attributes include what a command of `voms-proxy-init` asks for: a virtual
/// organisation, or one with a group or role.
fn has_attribute(fqans: &[String], wanted: &str) -> bool {
    let plain = |fqan: &str| {
        let fqan = fqan.strip_suffix("/Capability=NULL").unwrap_or(fqan);
        fqan.strip_suffix("/Role=NULL").unwrap_or(fqan).to_owned()
    };
    match wanted.split_once(':') {
        Some((_, wanted)) => fqans.iter().any(|fqan| plain(fqan) == plain(wanted)),
        None => fqans.iter().any(|fqan| fqan.split('/').nth(1) == Some(wanted)),
    }
}

#[cfg(test)]
mod tests {
    use super::has_attribute;

    #[test]
    fn attributes_are_found_with_and_without_a_role() {
        let fqans = [
            "/atlas/Role=NULL/Capability=NULL".to_owned(),
            "/atlas/de/Role=pilot".to_owned(),
        ];
        for has in [
            "atlas",
            "atlas:/atlas",
            "atlas:/atlas/Role=NULL",
            "x:/atlas/de/Role=pilot/Capability=NULL",
        ] {
            assert!(has_attribute(&fqans, has), "{has}");
        }
        for lacks in ["cms", "atl", "", "atlas:/atlas/de", "atlas:/atlas/Role=production"] {
            assert!(!has_attribute(&fqans, lacks), "{lacks}");
        }
    }
}
