//! Settings of storages, links and virtual organisations.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Uri;
use catalog::{LinkSettings, StorageSettings, VoSettings};
use http_server::control::Client;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::operate::{named_storage, note};
use super::query::{Query, read};
use crate::fts::FtsError;
use crate::limits::NAME_BYTES_MAX;
use crate::link;
use crate::respond::{Answered, Failed, good, nothing, with_status};
use crate::settings::{Settings, Shared};

/// The operation of a storage that has a limit.
const STAGING: &str = "staging";
/// What settings of storages may have beside what is always shown.
const STORAGE_NAMES: [&str; 2] = ["storage", "tape_endpoint"];
/// The same for links.
const LINK_NAMES: [&str; 3] = ["shares", "3rd_party_turl", "tpc_mode"];
/// The same for virtual organisations.
const VO_NAMES: [&str; 2] = ["max_active", "vo_name"];

/// Puts new members over old ones. `null` takes a member away.
///
/// # Errors
/// 400 for a member of the wrong kind.
fn merged<T: serde::Serialize + serde::de::DeserializeOwned>(
    old: Option<&T>,
    changes: Map<String, Value>,
) -> Result<T, Failed> {
    let mut members = match old.map(serde_json::to_value) {
        Some(Ok(Value::Object(members))) => members,
        _ => Map::new(),
    };
    for (name, value) in changes {
        match value {
            Value::Null => drop(members.remove(&name)),
            value => drop(members.insert(name, value)),
        }
    }
    let read = serde_json::from_value(Value::Object(members));
    read.map_err(|cause| FtsError::invalid(cause).into())
}

/// Refuses names that settings of this kind do not have: a typo would change nothing, and look as
/// if it did. `also` are names that FTS shows and that have no effect here, or that are not always
/// shown.
///
/// # Errors
/// 400, naming the member.
fn check_names<T: serde::Serialize + Default>(
    of: &str,
    changes: &Map<String, Value>,
    also: &[&str],
) -> Result<(), FtsError> {
    let members = match serde_json::to_value(T::default()) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    };
    let is_known = |name: &str| members.contains_key(name) || also.contains(&name);
    let Some(unknown) = changes.keys().find(|name| !is_known(name)) else {
        return Ok(());
    };
    let mut known: Vec<&str> = members.keys().map(String::as_str).chain(also.iter().copied()).collect();
    known.sort_unstable();
    let known = known.join(", ");
    let words = format!("{of} has the unknown setting {unknown:?}: there are {known}");
    Err(FtsError::invalid(words))
}

/// Checks a name that settings are stored under.
pub(super) fn checked(name: &str) -> Result<(), FtsError> {
    match name.len() {
        1..=NAME_BYTES_MAX => Ok(()),
        _ => Err(FtsError::invalid("a name is empty or too long")),
    }
}

/// A storage in FTS's form.
fn storage_shown(settings: &StorageSettings) -> Value {
    let mut info = match serde_json::to_value(settings) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    };
    info.remove(STAGING);
    let operations: Map<String, Value> = settings
        .staging
        .iter()
        .map(|(vo, count)| (vo.clone(), json!({STAGING: count})))
        .collect();
    json!({"se_info": info, "operations": operations})
}

/// `GET /config/se[?se=]`.
pub(super) async fn storages(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    settings.caller(&client)?;
    let query = Query::of(&uri);
    let wanted = query.get("se");
    let all = settings.queue.storage_settings().await?;
    let shown = all
        .iter()
        .filter(|(name, _)| wanted.is_none_or(|wanted| wanted == *name));
    let shown: Map<String, Value> = shown.map(|(name, own)| (name.clone(), storage_shown(own))).collect();
    Ok(good(&Value::Object(shown)))
}

/// Changes of one storage.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with se_info or operations")]
pub(super) struct StorageChanges {
    se_info: Option<Map<String, Value>>,
    operations: Option<BTreeMap<String, BTreeMap<String, Option<u32>>>>,
}

/// `POST /config/se`.
pub(super) async fn put_storages(State(settings): Shared, client: Client, body: Body) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let changes: BTreeMap<String, StorageChanges> = read(body).await?;
    let known = settings.queue.storage_settings().await?;
    let mut answer = Vec::new();
    for (name, change) in changes {
        let storage = named_storage(&name)?;
        if change.se_info.is_none() && change.operations.is_none() {
            let words = format!("{name} has neither se_info nor operations");
            return Err(FtsError::invalid(words).into());
        }
        let mut info = change.se_info.unwrap_or_default();
        check_names::<StorageSettings>(&name, &info, &STORAGE_NAMES)?;
        info.remove(STAGING);
        let mut own: StorageSettings = merged(known.get(&storage), info.clone())?;
        for (vo, counts) in change.operations.iter().flatten() {
            if let Some(unknown) = counts.keys().find(|name| *name != STAGING) {
                let words = format!("operations of {name} has the unknown setting {unknown:?}: there is {STAGING}");
                return Err(FtsError::invalid(words).into());
            }
            match counts.get(STAGING).copied().flatten() {
                Some(count) => drop(own.staging.insert(vo.clone(), count)),
                None => drop(own.staging.remove(vo)),
            }
        }
        settings.queue.put_storage_settings(storage.clone(), Some(own)).await?;
        let changed = [
            (!info.is_empty()).then(|| json!(info)),
            change.operations.as_ref().map(|own| json!(own)),
        ];
        let changed: Vec<String> = changed.iter().flatten().map(Value::to_string).collect();
        let detail = format!("Set config {storage}: {}", changed.join(", "));
        info.insert("storage".to_owned(), storage.clone().into());
        answer.push(Value::Object(info));
        if let Some(operations) = change.operations {
            answer.push(json!(operations));
        }
        note(&settings, &caller, "set-se-config", detail).await?;
    }
    Ok(good(&Value::Array(answer)))
}

/// `DELETE /config/se?se=`.
pub(super) async fn remove_storage(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let storage = Query::of(&uri)
        .text("se")
        .ok_or_else(|| FtsError::bad("Missing storage (se)"))?;
    settings.queue.put_storage_settings(storage.clone(), None).await?;
    note(
        &settings,
        &caller,
        "delete-se",
        format!("Configuration for {storage} deleted"),
    )
    .await?;
    Ok(nothing())
}

/// `GET /config/links`.
pub(super) async fn links(State(settings): Shared, client: Client) -> Answered {
    settings.caller(&client)?;
    Ok(good(&json!(settings.queue.link_settings().await?)))
}

/// `GET /config/links/NAME`.
pub(super) async fn one_link(State(settings): Shared, client: Client, Path(name): Path<String>) -> Answered {
    settings.caller(&client)?;
    let all = settings.queue.link_settings().await?;
    let found = all.into_iter().find(|link| link.name == name);
    Ok(good(&json!(found.ok_or_else(|| FtsError::new(404, "Link not found"))?)))
}

/// `POST /config/links`.
pub(super) async fn put_link(State(settings): Shared, client: Client, body: Body) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let mut changes: Map<String, Value> = read(body).await?;
    check_names::<LinkSettings>("the link", &changes, &LINK_NAMES)?;
    let mut ends = Vec::new();
    for name in ["source", "destination"] {
        let text = changes.get(name).and_then(Value::as_str).map(str::to_ascii_lowercase);
        let text = text.filter(|text| !text.is_empty());
        let text = named_storage(&text.ok_or_else(|| FtsError::bad(format!("Missing {name}")))?)?;
        changes.insert(name.to_owned(), text.clone().into());
        ends.push(text);
    }
    let given = changes.get("symbolicname").and_then(Value::as_str).map(str::to_owned);
    let name = given.unwrap_or_else(|| ends.join("-"));
    checked(&name)?;
    changes.insert("symbolicname".to_owned(), name.clone().into());
    let all = settings.queue.link_settings().await?;
    let before = all.iter().find(|link| link.name == name);
    let own: LinkSettings = merged(before, changes)?;
    if own
        .min_active
        .zip(own.max_active)
        .is_some_and(|(least, most)| least > most)
    {
        return Err(FtsError::bad("max_active is lower than min_active").into());
    }
    let answer = json!(own);
    match before {
        // Settings that say nothing any more vanish.
        Some(_) => link::put(&settings, own).await?,
        None => settings.queue.put_link_settings(own).await?,
    }
    note(&settings, &caller, "link", answer.to_string()).await?;
    Ok(with_status(201, &answer))
}

/// `DELETE /config/links/NAME`.
pub(super) async fn remove_link(State(settings): Shared, client: Client, Path(name): Path<String>) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    settings.queue.remove_link_settings(name.clone()).await?;
    note(&settings, &caller, "link-delete", format!("Link {name} deleted")).await?;
    Ok(nothing())
}

/// Changes the settings of a virtual organisation.
async fn change_vo(settings: &Settings, vo: &str, change: impl FnOnce(&mut VoSettings)) -> Result<(), Failed> {
    checked(vo)?;
    let mut own = settings.queue.vo_settings().await?.remove(vo).unwrap_or_default();
    change(&mut own);
    Ok(settings.queue.put_vo_settings(vo.to_owned(), Some(own)).await?)
}

fn shares_shown(own: &VoSettings) -> Value {
    json!({"share": own.activity_shares, "active": own.activity_shares_active.unwrap_or(true)})
}

/// `GET /config/activity_shares`.
pub(super) async fn shares(State(settings): Shared, client: Client) -> Answered {
    settings.caller(&client)?;
    let all = settings.queue.vo_settings().await?;
    let with_shares = all.iter().filter(|(_, own)| !own.activity_shares.is_empty());
    let shown: Map<String, Value> = with_shares.map(|(vo, own)| (vo.clone(), shares_shown(own))).collect();
    Ok(good(&Value::Object(shown)))
}

/// `GET /config/activity_shares/VO`.
pub(super) async fn vo_shares(State(settings): Shared, client: Client, Path(vo): Path<String>) -> Answered {
    settings.caller(&client)?;
    let all = settings.queue.vo_settings().await?;
    let own = all.get(&vo).filter(|own| !own.activity_shares.is_empty());
    Ok(good(&shares_shown(
        own.ok_or_else(|| FtsError::new(404, "Activity share not found"))?,
    )))
}

/// The shares of activities.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with vo and share")]
pub(super) struct NewShares {
    vo: String,
    share: BTreeMap<String, f64>,
    active: Option<bool>,
}

/// `POST /config/activity_shares`.
pub(super) async fn put_shares(State(settings): Shared, client: Client, body: Body) -> Answered {
    let caller = settings.caller(&client)?;
    let NewShares { vo, share, active } = read(body).await?;
    caller.may_configure(Some(&vo))?;
    if share.values().any(|weight| !weight.is_finite() || *weight < 0.0) {
        return Err(FtsError::bad("Shares must be values greater or equal than 0").into());
    }
    let is_active = active.unwrap_or(true);
    let listed: Vec<Value> = share
        .iter()
        .map(|(activity, weight)| json!({activity: weight}))
        .collect();
    let answer = json!({"vo": vo, "active": is_active, "activity_share": listed});
    change_vo(&settings, &vo, |own| {
        own.activity_shares = share;
        own.activity_shares_active = Some(is_active);
    })
    .await?;
    note(&settings, &caller, "activity-share", answer.to_string()).await?;
    Ok(good(&answer))
}

/// `DELETE /config/activity_shares/VO`.
pub(super) async fn remove_shares(State(settings): Shared, client: Client, Path(vo): Path<String>) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(Some(&vo))?;
    change_vo(&settings, &vo, |own| {
        own.activity_shares.clear();
        own.activity_shares_active = None;
    })
    .await?;
    note(&settings, &caller, "activity-share", format!("Shares of {vo} deleted")).await?;
    Ok(nothing())
}

/// `GET /config/global`.
pub(super) async fn vos(State(settings): Shared, client: Client) -> Answered {
    settings.caller(&client)?;
    Ok(good(&json!(settings.queue.vo_settings().await?)))
}

/// `DELETE /config/global?vo_name=`. What has routes of its own, such as shares, stays.
pub(super) async fn remove_vo(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    let caller = settings.caller(&client)?;
    let vo = Query::of(&uri).text("vo_name").filter(|vo| vo != "*");
    let vo = vo.ok_or_else(|| FtsError::bad("Missing VO name"))?;
    caller.may_configure(Some(&vo))?;
    if let Some(own) = settings.queue.vo_settings().await?.remove(&vo) {
        let kept = VoSettings {
            activity_shares: own.activity_shares,
            activity_shares_active: own.activity_shares_active,
            share: own.share,
            ..VoSettings::default()
        };
        let kept = (kept != VoSettings::default()).then_some(kept);
        settings.queue.put_vo_settings(vo.clone(), kept).await?;
        note(&settings, &caller, "set-globals", format!("Settings of {vo} deleted")).await?;
    }
    Ok(nothing())
}

/// `POST /config/global`.
pub(super) async fn put_vos(State(settings): Shared, client: Client, body: Body) -> Answered {
    let caller = settings.caller(&client)?;
    let changes: BTreeMap<String, Map<String, Value>> = read(body).await?;
    for (vo, change) in &changes {
        checked(vo)?;
        check_names::<VoSettings>(vo, change, &VO_NAMES)?;
        caller.may_configure(Some(vo))?;
    }
    let known = settings.queue.vo_settings().await?;
    for (vo, change) in changes {
        let detail = format!("Settings of {vo} changed: {}", json!(change));
        let own: VoSettings = merged(known.get(&vo), change)?;
        settings.queue.put_vo_settings(vo.clone(), Some(own)).await?;
        note(&settings, &caller, "set-globals", detail).await?;
    }
    Ok(good(&json!(settings.queue.vo_settings().await?)))
}
