//! Changes of settings that depend on what is stored: read, decided and written in one transaction,
//! together with their entries in the audit list.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use types::{ErrorCode, Result};

use super::secrets::{SealedSecret, SecretKind, put_secrets};
use super::settings::{Audit, SettingKind, audit, unnoted, write};
use crate::Catalog;
use crate::limits::SETTINGS_MAX;
use crate::store::{Row, Transaction, Value, failure};

/// The settings of a kind after a change, or why the change was refused.
pub type Changed<T, E> = std::result::Result<BTreeMap<String, T>, E>;

impl Catalog {
    /// Changes settings of a kind. `change` gets all of them by name, as they are at this moment,
    /// and gives the entries of the audit list. Other changes wait, so none is lost. It may run
    /// several times. An error of its own leaves all as it was.
    ///
    /// # Errors
    /// `overloaded` beyond [`SETTINGS_MAX`] of the kind; `catalog_damaged` if one is of another
    /// type; those of the database.
    pub async fn change_settings<T, E>(
        &self,
        kind: SettingKind,
        now_ms: i64,
        change: impl Fn(&mut BTreeMap<String, T>) -> std::result::Result<Vec<Audit>, E> + Send + Sync + 'static,
    ) -> Result<Changed<T, E>>
    where
        T: Serialize + DeserializeOwned + PartialEq + Clone + Send + Sync + 'static,
        E: Send + 'static,
    {
        let change = Arc::new(change);
        self.write(move |transaction| {
            let change = Arc::clone(&change);
            Box::pin(async move {
                // What is read below stays so until the end.
                transaction.order_events().await?;
                let before: BTreeMap<String, T> = all(transaction, kind).await?;
                let mut after = before.clone();
                let entries = match change(&mut after) {
                    Ok(entries) => entries,
                    Err(refusal) => return Ok(Err(refusal)),
                };
                if after.len() > SETTINGS_MAX.max(before.len()) {
                    let words = format!("settings of one kind: {SETTINGS_MAX}");
                    return Err(failure(ErrorCode::Overloaded).with_detail(words));
                }
                let has_changed = write_changes(transaction, kind, &before, &after).await?;
                if has_changed && entries.is_empty() {
                    audit(transaction, &[unnoted(kind, now_ms)]).await?;
                }
                audit(transaction, &entries).await?;
                Ok(Ok(after))
            })
        })
        .await
    }

    /// Stores a secret that belongs to a setting: it goes with it. Returns whether there is such a
    /// setting.
    ///
    /// # Errors
    /// `overloaded` if its owner has `secrets_max` others of this kind; those of the database.
    pub async fn put_secret_of(
        &self,
        kind: SettingKind,
        setting: &str,
        secret: SealedSecret,
        secrets_max: usize,
        entry: Audit,
    ) -> Result<bool> {
        let arguments = Arc::new((setting.to_owned(), secret, entry));
        self.write(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move {
                let (setting, secret, entry) = &*arguments;
                transaction.order_events().await?;
                let sql = "SELECT name FROM setting WHERE kind = $1 AND name = $2";
                let parameters = [kind.name().into(), setting.as_str().into()];
                if transaction.query(sql, &parameters).await?.is_empty() {
                    return Ok(false);
                }
                let sql = "SELECT COUNT(*) FROM secret WHERE kind = $1 AND owner = $2 AND name <> $3";
                let parameters = [
                    secret.kind.name().into(),
                    secret.owner.as_str().into(),
                    secret.name.as_str().into(),
                ];
                let mut rows = transaction.query(sql, &parameters).await?;
                let others = rows.first_mut().map_or(Ok(0), Row::integer)?;
                if usize::try_from(others).unwrap_or(usize::MAX) >= secrets_max {
                    let words = format!("secrets of one setting: {secrets_max}");
                    return Err(failure(ErrorCode::Overloaded).with_detail(words));
                }
                put_secrets(transaction, std::slice::from_ref(secret), entry.at_ms).await?;
                audit(transaction, std::slice::from_ref(entry)).await?;
                Ok(true)
            })
        })
        .await
    }

    /// Deletes a secret together with this entry of the audit list. Returns whether there was one;
    /// if not, nothing is noted.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delete_secret_noted(&self, kind: SecretKind, name: &str, entry: Audit) -> Result<bool> {
        let arguments = Arc::new((name.to_owned(), entry));
        self.write(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move {
                let (name, entry) = &*arguments;
                transaction.order_events().await?;
                let sql = "DELETE FROM secret WHERE kind = $1 AND name = $2";
                let parameters = [kind.name().into(), name.as_str().into()];
                let was_known = transaction.execute(sql, &parameters).await? > 0;
                if was_known {
                    audit(transaction, std::slice::from_ref(entry)).await?;
                }
                Ok(was_known)
            })
        })
        .await
    }

    /// Deletes a setting with all secrets of a kind that it owns. Returns whether there was one.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delete_setting_and_secrets(
        &self,
        kind: SettingKind,
        name: &str,
        secrets: SecretKind,
        entry: Audit,
    ) -> Result<bool> {
        let arguments = Arc::new((name.to_owned(), entry));
        self.write(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move {
                let (name, entry) = &*arguments;
                transaction.order_events().await?;
                if !write(transaction, kind, name, None).await? {
                    return Ok(false);
                }
                let sql = "DELETE FROM secret WHERE kind = $1 AND owner = $2";
                let parameters = [secrets.name().into(), name.as_str().into()];
                transaction.execute(sql, &parameters).await?;
                audit(transaction, std::slice::from_ref(entry)).await?;
                Ok(true)
            })
        })
        .await
    }

    /// Adds entries to the audit list.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn note(&self, entries: Vec<Audit>) -> Result<()> {
        let entries = Arc::new(entries);
        self.write(move |transaction| {
            let entries = Arc::clone(&entries);
            Box::pin(async move {
                transaction.order_events().await?;
                audit(transaction, &entries).await
            })
        })
        .await
    }
}

/// All settings of a kind, by name.
async fn all<T: DeserializeOwned>(transaction: &mut dyn Transaction, kind: SettingKind) -> Result<BTreeMap<String, T>> {
    let sql = "SELECT name, value FROM setting WHERE kind = $1";
    let mut rows = transaction.query(sql, &[kind.name().into()]).await?;
    rows.iter_mut().map(|row| Ok((row.text()?, row.json()?))).collect()
}

/// Writes what differs; whether something does.
async fn write_changes<T: Serialize + PartialEq>(
    transaction: &mut dyn Transaction,
    kind: SettingKind,
    before: &BTreeMap<String, T>,
    after: &BTreeMap<String, T>,
) -> Result<bool> {
    let mut has_changed = false;
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        has_changed |= write(transaction, kind, name, None).await?;
    }
    for (name, value) in after {
        if before.get(name) != Some(value) {
            has_changed |= write(transaction, kind, name, Some(&Value::json(value)?)).await?;
        }
    }
    Ok(has_changed)
}
