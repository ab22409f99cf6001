//! Delegation: the proxies are those of the queue; here are FTS's calls for them.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use http_server::control::Client;
use identity::delegation::{Delegator, certificate_needed};
use queue::Proxies;
use serde_json::{Value, json};
use types::limits::DELEGATION_BODY_BYTES_MAX;
use types::{Error, ErrorCode, Phase, Side};

use crate::fts::answers::date_time;
use crate::respond::{Answered, Failed, good, nothing, whole, with_status};
use crate::settings::{Settings, Shared};

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
