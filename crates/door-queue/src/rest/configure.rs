//! Settings of storages, links and virtual organisations.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Uri;
use catalog::{Audit, LinkSettings, StorageSettings, VoSettings};
use http_server::control::Client;
use schedule::storage::authority;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::lenient;
use super::operate::{entry, named_storage};
use super::query::{Query, read};
use super::values::check_values;
use crate::fts::FtsError;
use crate::limits::{NAME_BYTES_MAX, SHARES_MAX};
use crate::link;
use crate::queue::Refusable;
use crate::respond::{Answered, Failed, good, nothing, with_status};
use crate::settings::{Settings, Shared};
use crate::storages::Storages;

/// The operation of a storage that has a limit.
const STAGING: &str = "staging";
/// Operations of storages that FTS had limits for, and does no longer.
const PAST_OPERATIONS: [&str; 1] = ["delete"];
/// What settings of storages may have beside what is always shown.
const STORAGE_NAMES: [&str; 3] = ["storage", "tape_endpoint", "eviction"];
/// Settings of storages that are taken, because FTS has them, and change nothing here.
const STORAGE_IDLE: [&str; 5] = ["debug_level", "eviction", "ipv6", "tape_endpoint", "udt"];
/// The same for links.
const LINK_IDLE: [&str; 3] = ["3rd_party_turl", "tcp_buffer_size", "tpc_mode"];
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
    changes: &Map<String, Value>,
) -> Result<T, FtsError> {
    let mut members = match old.map(serde_json::to_value) {
        Some(Ok(Value::Object(members))) => members,
        _ => Map::new(),
    };
    for (name, value) in changes {
        match value {
            Value::Null => drop(members.remove(name)),
            value => drop(members.insert(name.clone(), value.clone())),
        }
    }
    serde_json::from_value(Value::Object(members)).map_err(FtsError::invalid)
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

/// A remark about settings that change nothing, for the list of changes.
fn idle_words(changes: &Map<String, Value>, idle: &[&str]) -> String {
    let is_idle = |(name, value): &(&String, &Value)| idle.contains(&name.as_str()) && !value.is_null();
    let given: Vec<&str> = changes.iter().filter(is_idle).map(|(name, _)| name.as_str()).collect();
    match given.is_empty() {
        true => String::new(),
        false => format!(" (without effect here: {})", given.join(", ")),
    }
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
    let wanted = query.get("se").map(named_storage).transpose()?;
    let all = settings.queue.storage_settings().await?;
    let is_wanted = |name: &str| {
        let wanted = wanted.as_deref();
        wanted.is_none_or(|wanted| authority(wanted) == authority(name))
    };
    let shown = all.iter().filter(|(name, _)| is_wanted(name));
    let shown: Map<String, Value> = shown.map(|(name, own)| (name.clone(), storage_shown(own))).collect();
    Ok(good(&Value::Object(shown)))
}

/// Changes of one storage.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with se_info or operations")]
pub(super) struct StorageChanges {
    se_info: Option<Map<String, Value>>,
    operations: Option<BTreeMap<String, BTreeMap<String, Value>>>,
}

/// Changes of one storage that were checked.
struct StorageChange {
    storage: String,
    info: Map<String, Value>,
    /// The limit of staging, by virtual organisation; `None` removes it.
    staging: Vec<(String, Option<u32>)>,
}

impl StorageChange {
    /// # Errors
    /// 400 for what is no storage, and for unknown settings.
    fn read(name: &str, change: &StorageChanges) -> Result<Self, FtsError> {
        let storage = named_storage(name)?;
        if change.se_info.is_none() && change.operations.is_none() {
            let words = format!("{name} has neither se_info nor operations");
            return Err(FtsError::invalid(words));
        }
        let mut info = change.se_info.clone().unwrap_or_default();
        check_names::<StorageSettings>(name, &info, &STORAGE_NAMES)?;
        lenient::STORAGE.read(&mut info);
        check_values(&info)?;
        info.remove(STAGING);
        let mut staging = Vec::new();
        for (vo, counts) in change.operations.iter().flatten() {
            let is_known = |name: &str| name == STAGING || PAST_OPERATIONS.contains(&name);
            if let Some(unknown) = counts.keys().find(|name| !is_known(name)) {
                let words = format!("operations of {name} has the unknown setting {unknown:?}: there is {STAGING}");
                return Err(FtsError::invalid(words));
            }
            if let Some(count) = counts.get(STAGING) {
                checked(vo)?;
                staging.push((vo.clone(), staging_limit(count)?));
            }
        }
        Ok(Self { storage, info, staging })
    }

    fn apply(&self, old: Option<&StorageSettings>) -> Result<StorageSettings, FtsError> {
        let mut own: StorageSettings = merged(old, &self.info)?;
        for (vo, count) in &self.staging {
            match count {
                Some(count) => drop(own.staging.insert(vo.clone(), *count)),
                None => drop(own.staging.remove(vo)),
            }
        }
        Ok(own)
    }
}

/// A limit of staging. As with FTS, one below 1 removes it.
///
/// # Errors
/// 400 for what is no number.
fn staging_limit(count: &Value) -> Result<Option<u32>, FtsError> {
    let count = lenient::number(count).unwrap_or_else(|| count.clone());
    match count.as_i64() {
        None if count.is_null() => Ok(None),
        Some(count) => Ok(u32::try_from(count).ok().filter(|count| *count > 0)),
        None => Err(FtsError::invalid(format!("{STAGING} is a whole number, not {count}"))),
    }
}

/// `POST /config/se`: all storages, or none if one cannot be changed so.
pub(super) async fn put_storages(State(settings): Shared, client: Client, body: Body) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let asked: BTreeMap<String, StorageChanges> = read(body).await?;
    let (mut changes, mut answer, mut entries) = (Vec::new(), Vec::new(), Vec::new());
    for (name, asked) in &asked {
        let change = StorageChange::read(name, asked)?;
        let (storage, mut info) = (&change.storage, change.info.clone());
        if !info.is_empty() {
            let idle = idle_words(&info, &STORAGE_IDLE);
            let detail = format!("Set config {storage}: {}{idle}", json!(info));
            entries.push(entry(&caller, "set-se-config", detail));
        }
        let operations = asked.operations.as_ref().map(|own| json!(own));
        if let Some(operations) = &operations {
            let detail = format!("Set limits for {storage}: {operations}");
            entries.push(entry(&caller, "set-se-limits", detail));
        }
        info.insert("storage".to_owned(), storage.clone().into());
        answer.push(Value::Object(info));
        answer.extend(operations);
        changes.push(change);
    }
    let changed = settings.queue.change_storages(Box::new(move |all| {
        let mut storages = Storages::new(all);
        for change in &changes {
            let old = storages.take(&change.storage);
            storages.put(&change.storage, change.apply(old.as_ref())?);
        }
        Ok(entries.clone())
    }));
    changed.await??;
    Ok(good(&Value::Array(answer)))
}

/// `DELETE /config/se?se=`.
pub(super) async fn remove_storage(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let storage = Query::of(&uri)
        .text("se")
        .ok_or_else(|| FtsError::bad("Missing storage (se)"))?;
    let storage = named_storage(&storage)?;
    let entry = entry(&caller, "delete-se", format!("Configuration for {storage} deleted"));
    let changed = settings.queue.change_storages(Box::new(move |all| {
        let was_known = Storages::new(all).take(&storage).is_some();
        Ok(was_known.then(|| entry.clone()).into_iter().collect())
    }));
    changed.await??;
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

/// `POST /config/links`: changes the settings of the link between two storages. Its name may change
/// too, but not to that of another link.
pub(super) async fn put_link(State(settings): Shared, client: Client, body: Body) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let mut changes: Map<String, Value> = read(body).await?;
    check_names::<LinkSettings>("the link", &changes, &LINK_NAMES)?;
    lenient::LINK.read(&mut changes);
    check_values(&changes)?;
    let idle = idle_words(&changes, &LINK_IDLE);
    let mut ends = Vec::new();
    for name in ["source", "destination"] {
        let text = changes.get(name).and_then(Value::as_str).map(str::to_ascii_lowercase);
        let text = text.filter(|text| !text.is_empty());
        let text = named_storage(&text.ok_or_else(|| FtsError::bad(format!("Missing {name}")))?)?;
        changes.insert(name.to_owned(), text.clone().into());
        ends.push(text);
    }
    match changes.get("symbolicname").and_then(Value::as_str) {
        Some(name) => checked(name)?,
        None => drop(changes.remove("symbolicname")),
    }
    let (entry, stored) = (entry(&caller, "link", String::new()), ends.clone());
    let changed = settings.queue.change_links(Box::new(move |links| {
        let count = links.len();
        let old = link::take(links, &ends[0], &ends[1]);
        let was_known = links.len() < count;
        let own: LinkSettings = merged(Some(&old), &changes)?;
        let detail = format!("{}{idle}", json!(own));
        link::put(links, own.clone())?;
        if !was_known {
            // Settings that say nothing any more vanish; those that say nothing yet are shown.
            links.insert(own.name.clone(), own);
        }
        Ok(vec![Audit {
            detail,
            ..entry.clone()
        }])
    }));
    let mut links = changed.await??;
    let own = link::take(&mut links, &stored[0], &stored[1]);
    Ok(with_status(201, &json!(own)))
}

/// `DELETE /config/links/NAME`.
pub(super) async fn remove_link(State(settings): Shared, client: Client, Path(name): Path<String>) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let entry = entry(&caller, "link-delete", format!("Link {name} deleted"));
    let changed = settings.queue.change_links(Box::new(move |links| {
        let was_known = links.remove(&name).is_some();
        Ok(was_known.then(|| entry.clone()).into_iter().collect())
    }));
    changed.await??;
    Ok(nothing())
}

/// Changes the settings of a virtual organisation.
pub(crate) async fn change_vo(
    settings: &Settings,
    vo: &str,
    entry: Audit,
    change: impl Fn(&mut VoSettings) + Send + Sync + 'static,
) -> Result<(), Failed> {
    checked(vo)?;
    let vo = vo.to_owned();
    let changed = settings.queue.change_vos(Box::new(move |all| {
        change(all.entry(vo.clone()).or_default());
        Ok(vec![entry.clone()])
    }));
    changed.await??;
    Ok(())
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
    if share.len() > SHARES_MAX {
        return Err(FtsError::bad(format!("more than {SHARES_MAX} shares")).into());
    }
    share.keys().try_for_each(|activity| checked(activity))?;
    if share.values().any(|weight| !weight.is_finite() || *weight < 0.0) {
        return Err(FtsError::bad("Shares must be values greater or equal than 0").into());
    }
    let is_active = active.unwrap_or(true);
    let listed: Vec<Value> = share
        .iter()
        .map(|(activity, weight)| json!({activity: weight}))
        .collect();
    let answer = json!({"vo": vo, "active": is_active, "activity_share": listed});
    let entry = entry(&caller, "activity-share", answer.to_string());
    change_vo(&settings, &vo, entry, move |own| {
        own.activity_shares.clone_from(&share);
        own.activity_shares_active = Some(is_active);
    })
    .await?;
    Ok(good(&answer))
}

/// `DELETE /config/activity_shares/VO`.
pub(super) async fn remove_shares(State(settings): Shared, client: Client, Path(vo): Path<String>) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(Some(&vo))?;
    let entry = entry(&caller, "activity-share", format!("Shares of {vo} deleted"));
    change_vo(&settings, &vo, entry, |own| {
        own.activity_shares.clear();
        own.activity_shares_active = None;
    })
    .await?;
    Ok(nothing())
}

/// Settings of organisations in FTS's form: `*` is always there, and shares of activities, which
/// have a route of their own, are not.
fn vos_shown(all: BTreeMap<String, VoSettings>) -> Value {
    let mut shown = Map::from_iter([("*".to_owned(), json!({}))]);
    for (vo, own) in all {
        let own = VoSettings {
            activity_shares: BTreeMap::new(),
            activity_shares_active: None,
            ..own
        };
        if own == VoSettings::default() {
            continue;
        }
        let mut members = json!(own);
        if let Some(members) = members.as_object_mut() {
            members.retain(|name, _| !name.starts_with("activity_shares"));
        }
        shown.insert(vo, members);
    }
    Value::Object(shown)
}

/// `GET /config/global`.
pub(super) async fn vos(State(settings): Shared, client: Client) -> Answered {
    settings.caller(&client)?;
    Ok(good(&vos_shown(settings.queue.vo_settings().await?)))
}

/// `DELETE /config/global?vo_name=`. What has routes of its own, such as shares, stays.
pub(super) async fn remove_vo(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    let caller = settings.caller(&client)?;
    let vo = Query::of(&uri).text("vo_name").filter(|vo| vo != "*");
    let vo = vo.ok_or_else(|| FtsError::bad("Missing VO name"))?;
    caller.may_configure(Some(&vo))?;
    let entry = entry(&caller, "set-globals", format!("Settings of {vo} deleted"));
    let changed = settings.queue.change_vos(Box::new(move |all| {
        let Some(own) = all.remove(&vo) else {
            return Ok(Vec::new());
        };
        let kept = VoSettings {
            activity_shares: own.activity_shares,
            activity_shares_active: own.activity_shares_active,
            share: own.share,
            ..VoSettings::default()
        };
        if kept != VoSettings::default() {
            all.insert(vo.clone(), kept);
        }
        Ok(vec![entry.clone()])
    }));
    changed.await??;
    Ok(nothing())
}

/// `POST /config/global`: all organisations, or none if one cannot be changed so.
pub(super) async fn put_vos(State(settings): Shared, client: Client, body: Body) -> Answered {
    let caller = settings.caller(&client)?;
    let mut changes: BTreeMap<String, Map<String, Value>> = read(body).await?;
    let mut entries = Vec::new();
    for (vo, change) in &mut changes {
        checked(vo)?;
        check_names::<VoSettings>(vo, change, &VO_NAMES)?;
        lenient::VO.read(change);
        check_values(change)?;
        caller.may_configure(Some(vo))?;
        let detail = format!("Settings of {vo} changed: {}", json!(change));
        entries.push(entry(&caller, "set-globals", detail));
    }
    let changed = settings.queue.change_vos(Box::new(move |all| -> Refusable<_> {
        for (vo, change) in &changes {
            let own: VoSettings = merged(all.get(vo), change)?;
            all.insert(vo.clone(), own);
        }
        Ok(entries.clone())
    }));
    Ok(good(&vos_shown(changed.await??)))
}
