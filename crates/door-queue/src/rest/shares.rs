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
use super::operate::{entry, named_storage};
use super::query::{Query, read};
use crate::fts::FtsError;
use crate::limits::SHARES_MAX;
use crate::link;
use crate::respond::{Answered, Failed, good, nothing};
use crate::settings::Shared;

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

/// A link and an organisation.
struct ShareOf {
    source: String,
    destination: String,
    vo: String,
}

/// The link and the organisation that a request names.
fn named(source: Option<String>, destination: Option<String>, vo: Option<String>) -> Result<ShareOf, Failed> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let (Some(source), Some(destination), Some(vo)) = (given(source), given(destination), given(vo)) else {
        return Err(FtsError::bad("Missing source, destination and/or vo").into());
    };
    checked(&vo)?;
    Ok(ShareOf {
        source: named_storage(&source)?,
        destination: named_storage(&destination)?,
        vo,
    })
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
    let ShareOf {
        source,
        destination,
        vo,
    } = named(new.source, new.destination, new.vo)?;
    let detail = format!("Share {source}, {destination}, {vo} has been set to {share}");
    let entry = entry(&caller, "share-set", detail);
    let change = move |own: &mut LinkSettings| {
        own.shares.insert(vo.clone(), share.into());
        match own.shares.len() > SHARES_MAX {
            true => Err(FtsError::bad(format!("the link has {SHARES_MAX} shares already"))),
            false => Ok(vec![entry.clone()]),
        }
    };
    link::change(&settings, &source, &destination, change).await?;
    Ok(good(&json!(share)))
}

/// `DELETE /config/shares?source=&destination=&vo=`.
pub(super) async fn remove(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let query = Query::of(&uri);
    let (source, destination) = (query.text("source"), query.text("destination"));
    let ShareOf {
        source,
        destination,
        vo,
    } = named(source, destination, query.text("vo"))?;
    let detail = format!("Share {source}, {destination}, {vo} has been deleted");
    let entry = entry(&caller, "share-delete", detail);
    let change = move |own: &mut LinkSettings| {
        let was_known = own.shares.remove(&vo).is_some();
        Ok(was_known.then(|| entry.clone()).into_iter().collect())
    };
    link::change(&settings, &source, &destination, change).await?;
    Ok(nothing())
}
