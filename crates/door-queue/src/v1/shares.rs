//! Shares of virtual organisations on links, and of activities within an organisation.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::State;
use catalog::{LinkSettings, VoSettings};
use http_server::control::Client;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answer::{Answered, ApiError, ErrorAnswer, Json, bad};
use super::links::storage;
use super::request::{self, List};
use crate::limits::{NAME_BYTES_MAX, OPERATION_BYTES_MAX, SHARES_MAX};
use crate::link;
use crate::rest::{change_vo, entry};
use crate::rights::Caller;
use crate::settings::{Settings, Shared};

/// Shares, relative to each other.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object with the member shares")]
pub(super) struct Shares {
    /// The source of the link; `*` for any storage. Default: `*`.
    #[serde(default = "any")]
    #[schema(default = "*")]
    source: String,
    /// The destination of the link; `*` for any storage. Default: `*`.
    #[serde(default = "any")]
    #[schema(default = "*")]
    destination: String,
    /// The virtual organisation whose activities these are; `null`: the shares are those of
    /// organisations.
    #[serde(default)]
    #[schema(max_length = 255)]
    vo: Option<String>,
    /// The weight of each name.
    shares: BTreeMap<String, f64>,
}

fn any() -> String {
    "*".to_owned()
}

/// List shares
#[utoipa::path(
    get, path = "/shares", tag = "limits", operation_id = "list_shares",
    responses((status = 200, body = List<Shares>), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn list(State(settings): Shared, client: Client) -> Answered<Json<List<Shares>>> {
    settings.caller(&client)?;
    let links = settings.queue.link_settings().await?.into_iter();
    let of_links = links.filter(|link| !link.shares.is_empty()).map(|link| Shares {
        source: link.source,
        destination: link.destination,
        vo: None,
        shares: link.shares,
    });
    let mut items: Vec<Shares> = of_links.collect();
    let vos = settings.queue.vo_settings().await?;
    let everywhere: BTreeMap<String, f64> = vos
        .iter()
        .filter_map(|(vo, own)| Some((vo.clone(), own.share?)))
        .collect();
    let has_any = items.iter().any(|item| item.source == "*" && item.destination == "*");
    if !everywhere.is_empty() && !has_any {
        items.push(Shares {
            source: any(),
            destination: any(),
            vo: None,
            shares: everywhere,
        });
    }
    let of_vos = vos.into_iter().filter(|(_, own)| !own.activity_shares.is_empty());
    items.extend(of_vos.map(|(vo, own)| Shares {
        source: any(),
        destination: any(),
        vo: Some(vo),
        shares: own.activity_shares,
    }));
    Ok(Json(List::whole(items)))
}

/// Change shares
///
/// All of a link or an organisation are replaced; none removes them. For operators.
#[utoipa::path(
    put, path = "/shares", tag = "limits", operation_id = "set_shares", request_body = Shares,
    responses((status = 200, body = Shares), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn put(State(settings): Shared, client: Client, body: Body) -> Answered<Json<Shares>> {
    let caller = settings.caller(&client)?;
    let asked: Shares = request::body(body, OPERATION_BYTES_MAX).await?;
    caller.may_configure(asked.vo.as_deref())?;
    if asked.shares.len() > SHARES_MAX {
        return Err(bad(format!("more than {SHARES_MAX} shares")));
    }
    let is_name = |name: &str| (1..=NAME_BYTES_MAX).contains(&name.len());
    if !asked.shares.keys().chain(&asked.vo).all(|name| is_name(name)) {
        return Err(bad(format!("a name has from 1 to {NAME_BYTES_MAX} bytes")));
    }
    if !asked.shares.values().all(|weight| weight.is_finite() && *weight >= 0.0) {
        return Err(bad("a share is a number that is not negative"));
    }
    let asked = Shares {
        source: storage(&asked.source)?,
        destination: storage(&asked.destination)?,
        ..asked
    };
    match &asked.vo {
        Some(vo) => put_activities(&settings, &caller, vo, &asked).await?,
        None => put_vos(&settings, &caller, &asked).await?,
    }
    Ok(Json(asked))
}

async fn put_vos(settings: &Settings, caller: &Caller, asked: &Shares) -> Result<(), ApiError> {
    let detail = format!("Shares of {} to {}", asked.source, asked.destination);
    let (shares, entry) = (asked.shares.clone(), entry(caller, "share", detail));
    let change = move |own: &mut LinkSettings| {
        own.shares.clone_from(&shares);
        Ok(vec![entry.clone()])
    };
    link::change(settings, &asked.source, &asked.destination, change).await?;
    Ok(())
}

async fn put_activities(settings: &Settings, caller: &Caller, vo: &str, asked: &Shares) -> Result<(), ApiError> {
    if asked.source != "*" || asked.destination != "*" {
        return Err(bad(
            "the shares of activities hold for all links of their virtual organisation",
        ));
    }
    let entry = entry(caller, "activity-share", format!("Shares of {vo}"));
    let shares = asked.shares.clone();
    let change = move |own: &mut VoSettings| {
        own.activity_shares.clone_from(&shares);
        own.activity_shares_active = (!shares.is_empty()).then_some(true);
    };
    Ok(change_vo(settings, vo, entry, change).await?)
}
