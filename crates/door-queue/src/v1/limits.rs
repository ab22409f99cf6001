//! Limits that operators set.

use axum::body::Body;
use axum::extract::State;
use catalog::{Audit, LinkSettings, StorageSettings, ThirdPartyRole};
use http_server::control::Client;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::answer::{Answered, ApiError, ErrorAnswer, Json, bad};
use super::links::storage;
use super::request;
use crate::fts::FtsError;
use crate::limits::{NAME_BYTES_MAX, OPERATION_BYTES_MAX};
use crate::link;
use crate::rest::{change_vo, entry};
use crate::rights::Caller;
use crate::settings::{Settings, Shared};
use crate::storages::Storages;

/// FTS's settings are in MiB/s.
const BYTES_PER_MIB: f64 = 1_048_576.0;

/// All limits that operators have set.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Limits {
    /// Of storages. `*` is for those that have no own.
    storages: Vec<StorageLimits>,
    /// Of links. `*` is for any storage.
    links: Vec<LinkLimits>,
    /// Of virtual organisations.
    vos: Vec<VoLimits>,
}

/// Limits of a storage.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StorageLimits {
    /// The storage.
    storage: String,
    /// Copies into it at once.
    inbound: Option<u32>,
    /// Copies out of it at once.
    outbound: Option<u32>,
    /// Bytes per second into it.
    inbound_bytes_s: Option<f64>,
    /// Bytes per second out of it.
    outbound_bytes_s: Option<f64>,
    /// Its part in third-party copies.
    third_party: Option<CopyRole>,
}

/// The part of a storage in third-party copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum CopyRole {
    /// It fetches and sends.
    Full,
    /// It fetches.
    Pull,
    /// It sends.
    Push,
    /// Neither: others fetch from it and send to it.
    None,
}

impl From<ThirdPartyRole> for CopyRole {
    fn from(role: ThirdPartyRole) -> Self {
        match role {
            ThirdPartyRole::Full => Self::Full,
            ThirdPartyRole::Pull => Self::Pull,
            ThirdPartyRole::Push => Self::Push,
            ThirdPartyRole::None => Self::None,
        }
    }
}

impl From<CopyRole> for ThirdPartyRole {
    fn from(role: CopyRole) -> Self {
        match role {
            CopyRole::Full => Self::Full,
            CopyRole::Pull => Self::Pull,
            CopyRole::Push => Self::Push,
            CopyRole::None => Self::None,
        }
    }
}

impl StorageLimits {
    fn of(storage: String, settings: &StorageSettings) -> Self {
        Self {
            storage,
            inbound: settings.inbound_max_active,
            outbound: settings.outbound_max_active,
            inbound_bytes_s: settings.inbound_max_throughput.map(|rate| rate * BYTES_PER_MIB),
            outbound_bytes_s: settings.outbound_max_throughput.map(|rate| rate * BYTES_PER_MIB),
            third_party: settings.third_party.map(CopyRole::from),
        }
    }

    fn has_some(&self) -> bool {
        let has_counts = self.inbound.or(self.outbound).is_some();
        has_counts || self.third_party.is_some() || self.inbound_bytes_s.or(self.outbound_bytes_s).is_some()
    }
}

/// Limits of a link.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LinkLimits {
    /// The source's storage.
    source: String,
    /// The destination's storage.
    destination: String,
    /// Copies at once, at most.
    maximum: Option<u32>,
    /// Copies at once that the optimizer keeps at least.
    minimum: Option<u32>,
    /// Whether operators have paused it.
    is_paused: bool,
}

impl From<LinkSettings> for LinkLimits {
    fn from(link: LinkSettings) -> Self {
        Self {
            source: link.source,
            destination: link.destination,
            maximum: link.max_active,
            minimum: link.min_active,
            is_paused: link.is_paused,
        }
    }
}

/// Limits of a virtual organisation.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct VoLimits {
    /// The virtual organisation.
    vo: String,
    /// Copies at once, on all links.
    maximum: Option<u32>,
}

/// Show limits
#[utoipa::path(
    get, path = "/limits", tag = "limits", operation_id = "show_limits",
    responses((status = 200, body = Limits), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn show(State(settings): Shared, client: Client) -> Answered<Json<Limits>> {
    settings.caller(&client)?;
    let storages = settings.queue.storage_settings().await?.into_iter();
    let storages = storages.map(|(name, own)| StorageLimits::of(name, &own));
    let links = settings.queue.link_settings().await?.into_iter().map(LinkLimits::from);
    let vos = settings.queue.vo_settings().await?.into_iter();
    let vos = vos.map(|(vo, own)| VoLimits {
        vo,
        maximum: own.max_active,
    });
    Ok(Json(Limits {
        storages: storages.filter(StorageLimits::has_some).collect(),
        links: links
            .filter(|link| link.maximum.or(link.minimum).is_some() || link.is_paused)
            .collect(),
        vos: vos.filter(|vo| vo.maximum.is_some()).collect(),
    }))
}

/// Limits to change: of a storage, a link, or a virtual organisation. What is absent stays, and
/// `null` removes a limit.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub(super) struct NewLimits {
    /// The storage; `*` for all that have no own limits.
    #[serde(default)]
    storage: Option<String>,
    /// Copies into the storage at once.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u32>)]
    inbound: Option<Option<u32>>,
    /// Copies out of the storage at once.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u32>)]
    outbound: Option<Option<u32>>,
    /// Bytes per second into the storage.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>)]
    inbound_bytes_s: Option<Option<u64>>,
    /// Bytes per second out of the storage.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>)]
    outbound_bytes_s: Option<Option<u64>>,
    /// The part of the storage in third-party copies.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<CopyRole>)]
    third_party: Option<Option<CopyRole>>,
    /// The source of the link; `*` for any storage.
    #[serde(default)]
    source: Option<String>,
    /// The destination of the link; `*` for any storage.
    #[serde(default)]
    destination: Option<String>,
    /// The virtual organisation.
    #[serde(default)]
    #[schema(max_length = 255)]
    vo: Option<String>,
    /// Copies at once on the link, or of the virtual organisation.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u32>)]
    maximum: Option<Option<u32>>,
    /// Copies at once that the optimizer keeps at least on the link.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u32>)]
    minimum: Option<Option<u32>>,
}

/// A member that may be absent, `null` or a value: what changes settings.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

/// The limits that were changed, as they are now.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum ChangedLimits {
    /// Of a storage.
    Storage(StorageLimits),
    /// Of a link.
    Link(LinkLimits),
    /// Of a virtual organisation.
    Vo(VoLimits),
}

/// Change limits
///
/// For operators. Copies that run go on when a limit falls.
#[utoipa::path(
    put, path = "/limits", tag = "limits", operation_id = "set_limits", request_body = NewLimits,
    responses((status = 200, body = ChangedLimits), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn put(State(settings): Shared, client: Client, body: Body) -> Answered<Json<ChangedLimits>> {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let asked: NewLimits = request::body(body, OPERATION_BYTES_MAX).await?;
    let of_storage = asked.inbound.is_some()
        || asked.outbound.is_some()
        || asked.inbound_bytes_s.is_some()
        || asked.outbound_bytes_s.is_some()
        || asked.third_party.is_some();
    let (of_vo, of_link) = (asked.maximum.is_some(), asked.minimum.is_some());
    let is_one = match (&asked.storage, &asked.source, &asked.destination, &asked.vo) {
        (Some(_), None, None, None) => of_storage && !of_vo && !of_link,
        (None, Some(_), Some(_), None) => !of_storage && (of_vo || of_link),
        (None, None, None, Some(_)) => !of_storage && of_vo && !of_link,
        _ => false,
    };
    if !is_one {
        return Err(bad(
            "name one storage with inbound, outbound, inbound_bytes_s, outbound_bytes_s or third_party; one link by \
             source and destination with maximum or minimum; or one vo with maximum",
        ));
    }
    if let Some(name) = asked.storage.clone() {
        return put_storage(&settings, &caller, &storage(&name)?, asked).await;
    }
    if let Some(vo) = &asked.vo {
        return put_vo(&settings, &caller, vo, asked.maximum.flatten()).await;
    }
    let ends = asked.source.as_deref().zip(asked.destination.as_deref());
    let (source, destination) = ends.unwrap_or_default();
    let (maximum, minimum) = (asked.maximum, asked.minimum);
    let entry = entry(&caller, "link", String::new());
    let change = move |own: &mut LinkSettings| {
        own.max_active = maximum.unwrap_or(own.max_active);
        own.min_active = minimum.unwrap_or(own.min_active);
        if own
            .min_active
            .zip(own.max_active)
            .is_some_and(|(least, most)| least > most)
        {
            return Err(FtsError::bad("maximum is lower than minimum"));
        }
        let detail = json!(own).to_string();
        Ok(vec![Audit {
            detail,
            ..entry.clone()
        }])
    };
    let (source, destination) = (storage(source)?, storage(destination)?);
    let own = link::change(&settings, &source, &destination, change).await?;
    Ok(Json(ChangedLimits::Link(own.into())))
}

async fn put_storage(
    settings: &Settings,
    caller: &Caller,
    name: &str,
    asked: NewLimits,
) -> Result<Json<ChangedLimits>, ApiError> {
    let (storage, entry) = (name.to_owned(), entry(caller, "set-se-config", String::new()));
    let changed = settings.queue.change_storages(Box::new(move |all| {
        let mut storages = Storages::new(all);
        let mut own = storages.take(&storage).unwrap_or_default();
        let rate = |bytes_s: Option<u64>| bytes_s.map(|bytes_s| bytes_s as f64 / BYTES_PER_MIB);
        own.inbound_max_active = asked.inbound.unwrap_or(own.inbound_max_active);
        own.outbound_max_active = asked.outbound.unwrap_or(own.outbound_max_active);
        own.inbound_max_throughput = asked.inbound_bytes_s.map_or(own.inbound_max_throughput, rate);
        own.outbound_max_throughput = asked.outbound_bytes_s.map_or(own.outbound_max_throughput, rate);
        own.third_party = asked
            .third_party
            .map_or(own.third_party, |role| role.map(ThirdPartyRole::from));
        let limits = StorageLimits::of(storage.clone(), &own);
        let detail = format!("Limits of {storage} are now {}", json!(limits));
        if own != StorageSettings::default() {
            storages.put(&storage, own);
        }
        Ok(vec![Audit {
            detail,
            ..entry.clone()
        }])
    }));
    let own = changed.await??.remove(name).unwrap_or_default();
    Ok(Json(ChangedLimits::Storage(StorageLimits::of(name.to_owned(), &own))))
}

async fn put_vo(
    settings: &Settings,
    caller: &Caller,
    vo: &str,
    maximum: Option<u32>,
) -> Result<Json<ChangedLimits>, ApiError> {
    if vo.is_empty() || vo.len() > NAME_BYTES_MAX {
        return Err(bad(format!("vo is a name of at most {NAME_BYTES_MAX} bytes")));
    }
    let detail = format!("Settings of {vo} changed: {}", json!({"max_active": maximum}));
    let entry = entry(caller, "set-globals", detail);
    change_vo(settings, vo, entry, move |own| own.max_active = maximum).await?;
    Ok(Json(ChangedLimits::Vo(VoLimits {
        vo: vo.to_owned(),
        maximum,
    })))
}
