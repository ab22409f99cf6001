//! Shares of virtual organisations on links, by FTS's calls. They are part of the settings of the
//! link.

use axum::body::Body;
use axum::extract::State;
use axum::http::Uri;
use catalog::LinkSettings;
use http_server::control::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::configure::checked;
use super::operate::{named_storage, note};
use super::query::{Query, read};
use crate::fts::FtsError;
use crate::limits::SHARES_MAX;
use crate::link;
use crate::respond::{Answered, Failed, good, nothing};
use crate::settings::{Settings, Shared};

/// `GET /config/shares`.
pub(super) async fn list(State(settings): Shared, client: Client) -> Answered {
    settings.caller(&client)?.may_configure(None)?;
    let links = settings.queue.link_settings().await?;
    let shown = links.iter().flat_map(|link| {
        let shares = link.shares.iter();
        shares.map(|(vo, share)| shown(link, vo, *share))
    });
    Ok(good(&shown.collect()))
}

fn shown(link: &LinkSettings, vo: &str, share: f64) -> Value {
    json!({"source": link.source, "destination": link.destination, "vo": vo, "share": number(share)})
}

/// FTS's shares are integers; those of our own API need not be.
fn number(share: f64) -> Value {
    match share.fract() == 0.0 && share <= f64::from(u32::MAX) {
        true => json!(share as u64),
        false => json!(share),
    }
}

/// A share. Old clients send the number as text.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with source, destination, vo and share")]
pub(super) struct NewShare {
    source: Option<String>,
    destination: Option<String>,
    vo: Option<String>,
    share: Option<Value>,
}

/// The settings of the link and the organisation that a request names.
async fn named(
    settings: &Settings,
    source: Option<String>,
    destination: Option<String>,
    vo: Option<String>,
) -> Result<(LinkSettings, String), Failed> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let (Some(source), Some(destination), Some(vo)) = (given(source), given(destination), given(vo)) else {
        return Err(FtsError::bad("Missing source, destination and/or vo").into());
    };
    checked(&vo)?;
    let (source, destination) = (named_storage(&source)?, named_storage(&destination)?);
    Ok((link::settings(settings, &source, &destination).await?, vo))
}

/// `POST /config/shares`: the share.
pub(super) async fn put(State(settings): Shared, client: Client, body: Body) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let new: NewShare = read(body).await?;
    let share = new.share.as_ref().and_then(|share| match share {
        Value::String(text) => text.parse().ok(),
        share => share.as_u64(),
    });
    let share: u32 = share
        .and_then(|share| u32::try_from(share).ok())
        .filter(|share| *share > 0)
        .ok_or_else(|| FtsError::bad("Bad share value"))?;
    let (mut own, vo) = named(&settings, new.source, new.destination, new.vo).await?;
    own.shares.insert(vo.clone(), share.into());
    if own.shares.len() > SHARES_MAX {
        return Err(FtsError::bad(format!("the link has {SHARES_MAX} shares already")).into());
    }
    let detail = format!(
        "Share {}, {}, {vo} has been set to {share}",
        own.source, own.destination
    );
    link::put(&settings, own).await?;
    note(&settings, &caller, "share-set", detail).await?;
    Ok(good(&json!(share)))
}

/// `DELETE /config/shares?source=&destination=&vo=`.
pub(super) async fn remove(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let query = Query::of(&uri);
    let (source, destination) = (query.text("source"), query.text("destination"));
    let (mut own, vo) = named(&settings, source, destination, query.text("vo")).await?;
    if own.shares.remove(&vo).is_some() {
        let detail = format!("Share {}, {}, {vo} has been deleted", own.source, own.destination);
        link::put(&settings, own).await?;
        note(&settings, &caller, "share-delete", detail).await?;
    }
    Ok(nothing())
}
