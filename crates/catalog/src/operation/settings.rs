//! Settings that operators change while the queue runs, with an audit list.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use types::Result;

use crate::Catalog;
use crate::limits::{AUDIT_KEPT_MS, AUDIT_MAX};
use crate::store::{Row, Transaction, Value};

/// The actor of a change whose entry in the audit list is made apart. The list does not show it.
pub const NO_ACTOR: &str = "";

/// What a setting is about. Its name within the kind is the storage, the link, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// [`StorageSettings`](crate::StorageSettings), by storage.
    Storage,
    /// [`LinkSettings`](crate::LinkSettings), by the name of the link.
    Link,
    /// [`VoSettings`](crate::VoSettings), by virtual organisation.
    Vo,
    /// [`Ban`](crate::Ban), by storage and virtual organisation.
    Ban,
    /// Users who are not served.
    UserBan,
    /// [`UserRight`](crate::UserRight), by operation and user.
    UserRight,
    /// [`CloudStorage`](crate::CloudStorage), by its name.
    CloudStorage,
    /// Receivers of events, by their names.
    Webhook,
    /// What the queue itself keeps.
    Internal,
}

impl SettingKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Link => "link",
            Self::Vo => "vo",
            Self::Ban => "ban",
            Self::UserBan => "user_ban",
            Self::UserRight => "user_right",
            Self::CloudStorage => "cloud_storage",
            Self::Webhook => "webhook",
            Self::Internal => "internal",
        }
    }
}

/// A setting with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<T> {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: T,
}

/// An entry of the audit list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// When.
    pub at_ms: i64,
    /// Who changed it.
    pub actor: String,
    /// What was done, in a word.
    pub action: String,
    /// What it is now, in words; empty for what [`Catalog::put_setting`] notes by itself.
    pub detail: String,
}

impl Catalog {
    /// Stores a setting for an operator. Those of kind `Internal` leave no entry in the audit list.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn put_setting(
        &self,
        kind: SettingKind,
        name: &str,
        value: &impl Serialize,
        actor: &str,
        now_ms: i64,
    ) -> Result<()> {
        let value = Value::json(value)?;
        let entry = of_setting(kind, name, "put", actor, now_ms);
        self.set(kind, name, Some(value), entry).await.map(drop)
    }

    /// Stores a setting together with this entry of the audit list: both or none.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn put_noted(&self, kind: SettingKind, name: &str, value: &impl Serialize, entry: Audit) -> Result<()> {
        let value = Value::json(value)?;
        self.set(kind, name, Some(value), Some(entry)).await.map(drop)
    }

    /// Deletes a setting together with this entry of the audit list. Returns whether there was
    /// one; if not, nothing is noted.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delete_noted(&self, kind: SettingKind, name: &str, entry: Audit) -> Result<bool> {
        self.set(kind, name, None, Some(entry)).await
    }

    /// Deletes a setting for an operator. Returns whether there was one.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delete_setting(&self, kind: SettingKind, name: &str, actor: &str, now_ms: i64) -> Result<bool> {
        let entry = of_setting(kind, name, "delete", actor, now_ms);
        self.set(kind, name, None, entry).await
    }

    async fn set(&self, kind: SettingKind, name: &str, value: Option<Value>, entry: Option<Audit>) -> Result<bool> {
        let arguments = Arc::new((name.to_owned(), value, entry));
        self.write(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move {
                let (name, value, entry) = &*arguments;
                // First: numbers of changes grow in the order in which they become visible.
                transaction.order_events().await?;
                let has_changed = write(transaction, kind, name, value.as_ref()).await?;
                if let Some(entry) = entry.as_ref().filter(|_| has_changed) {
                    audit(transaction, std::slice::from_ref(entry)).await?;
                }
                Ok(has_changed)
            })
        })
        .await
    }

    /// A setting.
    ///
    /// # Errors
    /// Those of the database; `catalog_damaged` if it is of another type.
    pub async fn setting<T: DeserializeOwned + Send + 'static>(
        &self,
        kind: SettingKind,
        name: &str,
    ) -> Result<Option<T>> {
        let name = Arc::new(name.to_owned());
        self.read(move |transaction| {
            let name = Arc::clone(&name);
            Box::pin(async move {
                let sql = "SELECT value FROM setting WHERE kind = $1 AND name = $2";
                let parameters = [kind.name().into(), name.as_str().into()];
                let mut rows = transaction.query(sql, &parameters).await?;
                rows.first_mut().map(Row::json).transpose()
            })
        })
        .await
    }

    /// All settings of a kind, by name.
    ///
    /// # Errors
    /// As [`Catalog::setting`].
    pub async fn settings<T: DeserializeOwned + Send + 'static>(&self, kind: SettingKind) -> Result<Vec<Named<T>>> {
        self.read(move |transaction| {
            Box::pin(async move {
                let sql = "SELECT name, value FROM setting WHERE kind = $1 ORDER BY name";
                let mut rows = transaction.query(sql, &[kind.name().into()]).await?;
                let read = |row: &mut Row| {
                    Ok(Named {
                        name: row.text()?,
                        value: row.json()?,
                    })
                };
                rows.iter_mut().map(read).collect()
            })
        })
        .await
    }

    /// A number that grows with each change of a setting, for those who keep settings in memory.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn settings_version(&self) -> Result<i64> {
        self.read(|transaction| {
            Box::pin(async move {
                let sql = "SELECT COALESCE(MAX(id), 0) FROM audit";
                let mut rows = transaction.query(sql, &[]).await?;
                rows.first_mut().map_or(Ok(0), Row::integer)
            })
        })
        .await
    }

    /// The latest changes by operators, or by one of them; the newest first, at most `limit`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn audit(&self, actor: Option<String>, limit: usize) -> Result<Vec<Audit>> {
        let actor = Arc::new(actor);
        self.read(move |transaction| {
            let actor = Arc::clone(&actor);
            Box::pin(async move {
                let sql = "SELECT at_ms, actor, action, detail FROM audit WHERE actor <> $1 AND \
                    ($2 = '' OR actor = $2) ORDER BY id DESC LIMIT $3";
                let actor = actor.as_deref().unwrap_or_default();
                let limit = i64::try_from(limit).unwrap_or(AUDIT_MAX);
                let parameters = [NO_ACTOR.into(), actor.into(), limit.into()];
                let mut rows = transaction.query(sql, &parameters).await?;
                let read = |row: &mut Row| {
                    Ok(Audit {
                        at_ms: row.integer()?,
                        actor: row.text()?,
                        action: row.text()?,
                        detail: row.text()?,
                    })
                };
                rows.iter_mut().map(read).collect()
            })
        })
        .await
    }
}

/// The entry of a change that its caller does not describe; none for what the queue itself keeps.
fn of_setting(kind: SettingKind, name: &str, verb: &str, actor: &str, at_ms: i64) -> Option<Audit> {
    (kind != SettingKind::Internal).then(|| Audit {
        at_ms,
        actor: actor.to_owned(),
        action: format!("{} {verb} {name}", kind.name()),
        detail: String::new(),
    })
}

/// Stores or deletes a setting; whether there was something to do.
pub(super) async fn write(
    transaction: &mut dyn Transaction,
    kind: SettingKind,
    name: &str,
    value: Option<&Value>,
) -> Result<bool> {
    let mut parameters = vec![kind.name().into(), name.into()];
    let count = match value {
        Some(value) => {
            parameters.push(value.clone());
            let sql = "INSERT INTO setting (kind, name, value) VALUES ($1, $2, $3) \
                ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value";
            transaction.execute(sql, &parameters).await?
        }
        None => {
            let sql = "DELETE FROM setting WHERE kind = $1 AND name = $2";
            transaction.execute(sql, &parameters).await?
        }
    };
    Ok(count > 0)
}

/// The entry of a change that the list does not show.
pub(super) fn unnoted(kind: SettingKind, at_ms: i64) -> Audit {
    Audit {
        at_ms,
        actor: NO_ACTOR.to_owned(),
        action: kind.name().to_owned(),
        detail: String::new(),
    }
}

/// Adds entries. Beyond [`AUDIT_MAX`] the oldest goes of the actor who has the most, so that no
/// actor drives out the entries of others.
pub(super) async fn audit(transaction: &mut dyn Transaction, entries: &[Audit]) -> Result<()> {
    let Some(now_ms) = entries.iter().map(|entry| entry.at_ms).max() else {
        return Ok(());
    };
    let row = |entry: &Audit| {
        let Audit {
            at_ms,
            actor,
            action,
            detail,
        } = entry.clone();
        vec![at_ms.into(), actor.into(), action.into(), detail.into()]
    };
    let sets: Vec<Vec<Value>> = entries.iter().map(row).collect();
    let sql = "INSERT INTO audit (at_ms, actor, action, detail) VALUES ($1, $2, $3, $4)";
    transaction.execute_each(sql, &sets).await?;
    let old = "DELETE FROM audit WHERE at_ms < $1 AND id < (SELECT MAX(id) FROM audit)";
    let before_ms = now_ms.saturating_sub(AUDIT_KEPT_MS);
    transaction.execute(old, &[before_ms.into()]).await?;
    loop {
        let mut rows = transaction.query("SELECT COUNT(*) FROM audit", &[]).await?;
        let beyond = rows.first_mut().map_or(Ok(0), Row::integer)? - AUDIT_MAX;
        if beyond <= 0 {
            return Ok(());
        }
        // Never more than the actor has beyond the next one, nor the latest entry of all.
        let sql = "SELECT actor, COUNT(*) FROM audit GROUP BY actor ORDER BY COUNT(*) DESC, MIN(id) LIMIT 2";
        let mut most = transaction.query(sql, &[]).await?;
        let mut counts = Vec::new();
        for row in &mut most {
            counts.push((row.text()?, row.integer()?));
        }
        let (actor, count) = counts.swap_remove(0);
        let next = counts.first().map_or(0, |(_, count)| *count);
        let goes = beyond.min((count - next).max(1));
        let sql = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE actor = $1 ORDER BY id LIMIT $2)";
        transaction.execute(sql, &[actor.into(), goes.into()]).await?;
    }
}
