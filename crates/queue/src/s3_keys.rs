//! Keys of S3 storages, which operators store for users and virtual organisations, as in FTS.
//!
//! A storage is called `S3:HOST` in upper case. A key is sealed in the catalog, and no answer shows
//! it.

use std::collections::BTreeMap;

use catalog::{Audit, Catalog, CloudStorage, Login, Owner, SealedSecret, SecretKind, SettingKind};
use serde::{Deserialize, Serialize};
use types::{Error, ErrorCode, Phase, Result, Secret, Side};
use zeroize::Zeroizing;

use crate::Vault;
use crate::limits::{S3_KEYS_MAX, S3_STORAGES_MAX};
use crate::owners::is_named;

/// Whose key it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyHolder {
    /// A user.
    User(String),
    /// All users of a virtual organisation.
    Vo(String),
}

impl KeyHolder {
    fn name(&self, storage: &str) -> String {
        match self {
            Self::User(user) => format!("{storage} user {user}"),
            Self::Vo(vo) => format!("{storage} vo {vo}"),
        }
    }
}

/// A key.
#[derive(Clone, Debug)]
pub struct S3Key {
    /// Its name at the storage.
    pub access_key: Secret,
    /// What signs requests.
    pub secret_key: Secret,
}

/// A key that was found for a host, with its storage.
#[derive(Clone, Debug)]
pub struct FoundKey {
    /// The key.
    pub key: S3Key,
    /// The storage that it belongs to.
    pub storage: CloudStorage,
}

#[derive(Serialize, Deserialize)]
struct Plain {
    access: String,
    secret: String,
}

/// The storages with their keys. Clones share them.
#[derive(Clone)]
pub struct S3Keys {
    catalog: Catalog,
    vault: Vault,
}

impl S3Keys {
    /// Keys in this catalog.
    #[must_use]
    pub fn new(catalog: Catalog, vault: Vault) -> Self {
        Self { catalog, vault }
    }

    /// All storages.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn storages(&self) -> Result<Vec<CloudStorage>> {
        let stored = self.catalog.settings(SettingKind::CloudStorage).await?;
        Ok(stored.into_iter().map(|setting| setting.value).collect())
    }

    /// A storage.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn storage(&self, name: &str) -> Result<Option<CloudStorage>> {
        self.catalog
            .setting(SettingKind::CloudStorage, &name.to_uppercase())
            .await
    }

    /// Stores or changes a storage.
    ///
    /// # Errors
    /// `overloaded` if there are [`S3_STORAGES_MAX`]; those of the catalog.
    pub async fn put_storage(&self, storage: &CloudStorage, entry: Audit) -> Result<()> {
        let storage = CloudStorage {
            name: storage.name.to_uppercase(),
            ..storage.clone()
        };
        let (kind, now_ms) = (SettingKind::CloudStorage, entry.at_ms);
        let change = move |all: &mut BTreeMap<String, CloudStorage>| {
            if all.len() >= S3_STORAGES_MAX && !all.contains_key(&storage.name) {
                let error = Error::new(ErrorCode::Overloaded, Side::Queue, Phase::Authenticate);
                return Err(error.with_detail(format!("S3 storages: {S3_STORAGES_MAX}")));
            }
            all.insert(storage.name.clone(), storage.clone());
            Ok(vec![entry.clone()])
        };
        self.catalog.change_settings(kind, now_ms, change).await?.map(drop)
    }

    /// Removes a storage with all of its keys; whether there was one.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn remove_storage(&self, name: &str, entry: Audit) -> Result<bool> {
        let (kind, name) = (SettingKind::CloudStorage, name.to_uppercase());
        let removed = self
            .catalog
            .delete_setting_and_secrets(kind, &name, SecretKind::S3, entry);
        removed.await
    }

    /// Stores a key. Returns whether there is such a storage.
    ///
    /// # Errors
    /// `overloaded` if the storage has [`S3_KEYS_MAX`] keys; those of the catalog.
    pub async fn put(&self, storage: &str, holder: &KeyHolder, key: &S3Key, entry: Audit) -> Result<bool> {
        let storage = storage.to_uppercase();
        let name = holder.name(&storage);
        let plain = Plain {
            access: key.access_key.expose().to_owned(),
            secret: key.secret_key.expose().to_owned(),
        };
        let plain = serde_json::to_vec(&plain)
            .map(Zeroizing::new)
            .map_err(|_| unreadable())?;
        let secret = SealedSecret {
            kind: SecretKind::S3,
            sealed: self.vault.seal(SecretKind::S3, &name, &plain)?,
            name,
            expires_ms: None,
            owner: storage.clone(),
            renews_ms: None,
            lease_ms: None,
            renewed_by: None,
        };
        let kind = SettingKind::CloudStorage;
        self.catalog
            .put_secret_of(kind, &storage, secret, S3_KEYS_MAX, entry)
            .await
    }

    /// Who has keys for a storage.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn holders(&self, storage: &str) -> Result<Vec<KeyHolder>> {
        let storage = storage.to_uppercase();
        let stored = self.catalog.secrets_of(SecretKind::S3, &storage, S3_KEYS_MAX).await?;
        let holder = |secret: SealedSecret| {
            let rest = secret.name.strip_prefix(&storage)?.strip_prefix(' ')?;
            let (kind, name) = rest.split_once(' ')?;
            Some(match kind {
                "user" => KeyHolder::User(name.to_owned()),
                _ => KeyHolder::Vo(name.to_owned()),
            })
        };
        Ok(stored.into_iter().filter_map(holder).collect())
    }

    /// The user as holder of a key. One with a token is named by subject and issuer, because others
    /// may have the same subject.
    async fn user_holder(&self, storage: &str, owner: &Owner) -> Result<Option<KeyHolder>> {
        if owner.login != Login::Token {
            return Ok(Some(KeyHolder::User(owner.user.clone())));
        }
        let is_it = |holder: &KeyHolder| matches!(holder, KeyHolder::User(name) if is_named(owner, name));
        Ok(self.holders(storage).await?.into_iter().find(is_it))
    }

    /// Removes the key of a holder; whether there was one.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn remove(&self, storage: &str, holder: &KeyHolder, entry: Audit) -> Result<bool> {
        let name = holder.name(&storage.to_uppercase());
        self.catalog.delete_secret_noted(SecretKind::S3, &name, entry).await
    }

    /// The key for copies of a job: that of its user, else that of the virtual organisation. The
    /// storage is found by its host, or by the host without the bucket in front.
    ///
    /// # Errors
    /// Those of the catalog; `internal` for a key that was sealed with another key.
    pub async fn find(&self, host: &str, owner: &Owner) -> Result<Option<FoundKey>> {
        let host = host.to_uppercase();
        let whole = format!("S3:{host}");
        let without_bucket = host.split_once('.').map(|(_, rest)| format!("S3:{rest}"));
        for storage in std::iter::once(whole).chain(without_bucket) {
            let Some(found) = self.storage(&storage).await? else {
                continue;
            };
            let of_user = self.user_holder(&storage, owner).await?;
            for holder in of_user.into_iter().chain([KeyHolder::Vo(owner.vo.clone())]) {
                let name = holder.name(&storage);
                let Some(stored) = self.catalog.secret(SecretKind::S3, &name).await? else {
                    continue;
                };
                let plain = self.vault.open(SecretKind::S3, &name, &stored.sealed)?;
                let plain: Plain = serde_json::from_slice(&plain).map_err(|_| unreadable())?;
                let key = S3Key {
                    access_key: Secret::new(plain.access),
                    secret_key: Secret::new(plain.secret),
                };
                return Ok(Some(FoundKey { key, storage: found }));
            }
        }
        Ok(None)
    }
}

impl std::fmt::Debug for S3Keys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("S3Keys")
    }
}

fn unreadable() -> Error {
    let error = Error::new(ErrorCode::Internal, Side::Queue, Phase::Authenticate);
    error.with_private("a key of a storage cannot be written or read")
}
