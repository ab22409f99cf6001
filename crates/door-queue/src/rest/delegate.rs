//! Delegation: the store is that of all doors, and decides; here are its REST calls.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use http_server::control::Client;
use identity::delegation::{Delegations, Delegator};
use serde_json::{Value, json};
use types::limits::DELEGATION_BODY_BYTES_MAX;
use types::{Error, ErrorCode, Phase, Side};

use crate::fts::answers::date_time;
use crate::respond::{Answered, Failed, good, nothing, whole, with_status};
use crate::settings::{Settings, Shared};

/// The store and the client's part in it.
///
/// # Errors
/// 404 where delegation is off; 401 for a client without a certificate that allows a proxy; 403 for
/// the delegation of another client.
fn access(settings: &Settings, client: &Client, id: &str) -> Result<(Delegations, Delegator), Failed> {
    let refused = |code, phase| Error::new(code, Side::Client, phase);
    let caller = settings.caller(client)?;
    let delegations = settings.delegations.clone();
    let delegations = delegations.ok_or_else(|| refused(ErrorCode::NotFound, Phase::Open))?;
    let delegator = caller.delegator.ok_or_else(|| {
        refused(ErrorCode::Unauthenticated, Phase::Authenticate)
            .with_detail("a client certificate or proxy that allows a further proxy is needed to delegate one")
    })?;
    if id != delegator.id() {
        let error = refused(ErrorCode::Forbidden, Phase::Authorize);
        return Err(error
            .with_detail(format!("your delegation has the name {}", delegator.id()))
            .into());
    }
    Ok((delegations, delegator))
}

/// `GET /delegation/ID`: when the proxy ends, or `null`.
pub(super) async fn describe(State(settings): Shared, client: Client, Path(id): Path<String>) -> Answered {
    let (delegations, delegator) = access(&settings, &client, &id)?;
    let expires_s = delegations.expires_s(&delegator, &id);
    Ok(good(&expires_s.map_or(Value::Null, |expires_s| {
        json!({"termination_time": date_time(Some(expires_s.saturating_mul(1000))), "voms_attrs": delegator.fqans()})
    })))
}

/// `DELETE /delegation/ID`.
pub(super) async fn remove(State(settings): Shared, client: Client, Path(id): Path<String>) -> Answered {
    let (delegations, delegator) = access(&settings, &client, &id)?;
    match delegations.remove(&delegator, &id) {
        true => Ok(nothing()),
        false => Err(Error::new(ErrorCode::NotFound, Side::Client, Phase::Open).into()),
    }
}

/// `GET /delegation/ID/request`: a certificate request, for the client to sign.
pub(super) async fn request(State(settings): Shared, client: Client, Path(id): Path<String>) -> Answered {
    let (delegations, delegator) = access(&settings, &client, &id)?;
    // Generating a key takes long.
    let made = execution::blocking(move || delegations.request(&delegator, &id)).await;
    let made = made.map_err(|_| Error::new(ErrorCode::Internal, Side::Active, Phase::Authenticate))?;
    Ok(made?.into_response())
}

/// `PUT /delegation/ID/credential`: the signed proxy with its chain.
pub(super) async fn store(State(settings): Shared, client: Client, Path(id): Path<String>, body: Body) -> Answered {
    let (delegations, delegator) = access(&settings, &client, &id)?;
    let chain = whole(body, DELEGATION_BODY_BYTES_MAX).await?;
    delegations.put(&delegator, &id, &chain, &settings.authenticator)?;
    Ok(with_status(201, &json!("")))
}
