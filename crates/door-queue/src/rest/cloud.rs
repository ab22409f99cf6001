//! S3 storages and their keys, by FTS's calls. No answer has a key.

use axum::body::Body;
use axum::extract::{Path, State};
use catalog::CloudStorage;
use http_server::control::Client;
use queue::{KeyHolder, S3Key, S3Keys};
use serde::Deserialize;
use serde_json::{Value, json};
use types::Secret;

use super::operate::entry;
use super::query::read;
use crate::fts::FtsError;
use crate::limits::{NAME_BYTES_MAX, S3_KEY_BYTES_MAX};
use crate::respond::{Answered, Failed, good, nothing, with_status};
use crate::rights::Caller;
use crate::settings::{Settings, Shared};

/// The beginning of the names of S3 storages.
const PREFIX: &str = "S3:";

/// The word for changes of keys in the audit list.
const ACTION: &str = "cloud-storage";

/// The keys, for an operator.
///
/// # Errors
/// 403 for others.
fn access<'s>(settings: &'s Settings, client: &Client) -> Result<(&'s S3Keys, Caller), Failed> {
    let caller = settings.caller(client)?;
    caller.may_configure(None)?;
    Ok((&settings.s3_keys, caller))
}

/// A storage that exists.
async fn known(keys: &S3Keys, name: &str) -> Result<CloudStorage, Failed> {
    Ok(keys.storage(name).await?.ok_or_else(missing)?)
}

fn missing() -> FtsError {
    FtsError::new(404, "The storage does not exist")
}

/// Whether it is `S3:` and the name of a host.
fn is_storage_name(name: &str) -> bool {
    let Some((prefix, host)) = name.split_at_checked(PREFIX.len()) else {
        return false;
    };
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.bytes().all(is_plain)
    };
    name.len() <= NAME_BYTES_MAX && prefix.eq_ignore_ascii_case(PREFIX) && host.split('.').all(is_label)
}

/// Newer releases of FTS say `cloudStorage_name`, older ones `storage_name`.
fn holder_shown(storage: &str, user: &str, vo: &str) -> Value {
    json!({"cloudStorage_name": storage, "storage_name": storage, "user_dn": user, "vo_name": vo})
}

async fn holders(keys: &S3Keys, name: &str) -> Result<Value, Failed> {
    let holders = keys.holders(name).await?.into_iter().map(|holder| match holder {
        KeyHolder::User(user) => holder_shown(name, &user, ""),
        KeyHolder::Vo(vo) => holder_shown(name, "", &vo),
    });
    Ok(holders.collect())
}

/// `GET /config/cloud_storage`.
pub(super) async fn storages(State(settings): Shared, client: Client) -> Answered {
    let (keys, _) = access(&settings, &client)?;
    let mut shown = Vec::new();
    for storage in keys.storages().await? {
        shown.push(json!({
            "cloudStorage_name": storage.name,
            "storage_name": storage.name,
            "cloud_type": "S3",
            "region": storage.region,
            "alternate": storage.is_alternate,
            "users": holders(keys, &storage.name).await?,
        }));
    }
    Ok(good(&Value::Array(shown)))
}

/// A storage to be stored.
#[derive(Debug, Deserialize)]
pub(super) struct NewStorage {
    #[serde(alias = "storage_name")]
    cloudstorage_name: Option<String>,
    region: Option<String>,
    #[serde(default)]
    alternate: bool,
}

/// `POST /config/cloud_storage`.
pub(super) async fn put_storage(State(settings): Shared, client: Client, body: Body) -> Answered {
    let (keys, caller) = access(&settings, &client)?;
    let new: NewStorage = read(body).await?;
    let name = new.cloudstorage_name.unwrap_or_default();
    if name.is_empty() {
        return Err(FtsError::bad("Missing storage name").into());
    }
    if !is_storage_name(&name) {
        return Err(FtsError::invalid(format!("{name:?} is no S3 storage: it is named S3:HOST")).into());
    }
    let storage = CloudStorage {
        name,
        region: new.region,
        is_alternate: new.alternate,
    };
    let detail = format!("Storage {} stored", storage.name);
    keys.put_storage(&storage, entry(&caller, ACTION, detail)).await?;
    let name = storage.name.to_uppercase();
    Ok(with_status(
        201,
        &json!({"cloudStorage_name": name, "storage_name": name}),
    ))
}

/// `GET /config/cloud_storage/NAME`: who has a key.
pub(super) async fn storage(State(settings): Shared, client: Client, Path(name): Path<String>) -> Answered {
    let (keys, _) = access(&settings, &client)?;
    let storage = known(keys, &name).await?;
    Ok(good(&holders(keys, &storage.name).await?))
}

/// `DELETE /config/cloud_storage/NAME`, with all keys.
pub(super) async fn remove_storage(State(settings): Shared, client: Client, Path(name): Path<String>) -> Answered {
    let (keys, caller) = access(&settings, &client)?;
    let entry = entry(&caller, ACTION, format!("Storage {name} removed"));
    match keys.remove_storage(&name, entry).await? {
        true => Ok(nothing()),
        false => Err(missing().into()),
    }
}

/// A key to be stored.
#[derive(Deserialize)]
pub(super) struct NewKey {
    user_dn: Option<String>,
    vo_name: Option<String>,
    #[serde(alias = "access_token")]
    access_key: Option<String>,
    #[serde(alias = "access_token_secret")]
    secret_key: Option<String>,
}

impl NewKey {
    fn holder(&self) -> Result<KeyHolder, FtsError> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let holder = match (given(&self.user_dn), given(&self.vo_name)) {
            (Some(user), None) => KeyHolder::User(user),
            (None, Some(vo)) => KeyHolder::Vo(vo),
            (None, None) => return Err(FtsError::bad("One of user_dn or vo_name must be specified")),
            (Some(_), Some(_)) => return Err(FtsError::bad("Only one of user_dn or vo_name must be specified")),
        };
        match &holder {
            KeyHolder::User(name) | KeyHolder::Vo(name) if name.len() > NAME_BYTES_MAX => {
                Err(FtsError::bad("the name of the user or organisation is too long"))
            }
            _ => Ok(holder),
        }
    }
}

/// `POST /config/cloud_storage/NAME`: stores the key of a user or a virtual organisation.
pub(super) async fn put_key(State(settings): Shared, client: Client, Path(name): Path<String>, body: Body) -> Answered {
    let (keys, caller) = access(&settings, &client)?;
    let storage = known(keys, &name).await?;
    let new: NewKey = read(body).await?;
    let holder = new.holder()?;
    let part = |text: Option<String>| {
        let text = text.filter(|text| (1..=S3_KEY_BYTES_MAX).contains(&text.len()));
        text.map(Secret::new)
            .ok_or_else(|| FtsError::bad("access_key and secret_key are needed"))
    };
    let key = S3Key {
        access_key: part(new.access_key)?,
        secret_key: part(new.secret_key)?,
    };
    let entry = entry(&caller, ACTION, format!("Key for {} stored", storage.name));
    if !keys.put(&storage.name, &holder, &key, entry).await? {
        return Err(missing().into());
    }
    let shown = match &holder {
        KeyHolder::User(user) => holder_shown(&storage.name, user, ""),
        KeyHolder::Vo(vo) => holder_shown(&storage.name, "", vo),
    };
    Ok(with_status(201, &shown))
}

/// `DELETE /config/cloud_storage/NAME/ID`: removes the key of a user or a virtual organisation. The
/// name of a certificate stands behind a slash, and two slashes in a path are one.
pub(super) async fn remove_key(
    State(settings): Shared,
    client: Client,
    Path((name, id)): Path<(String, String)>,
) -> Answered {
    let (keys, caller) = access(&settings, &client)?;
    let storage = known(keys, &name).await?;
    let whole = KeyHolder::User(format!("/{id}"));
    for holder in [KeyHolder::User(id.clone()), KeyHolder::Vo(id), whole] {
        let (KeyHolder::User(named) | KeyHolder::Vo(named)) = &holder;
        let detail = format!("Key of {named} for {} removed", storage.name);
        let entry = entry(&caller, ACTION, detail);
        if keys.remove(&storage.name, &holder, entry).await? {
            return Ok(nothing());
        }
    }
    Err(FtsError::new(404, "There is no key of this user or organisation").into())
}
