//! The mark of the key with which the secrets of a database are sealed: a process with another key
//! would make secrets that the others cannot open.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;
use types::Result;

use super::settings::SettingKind;
use crate::Catalog;
use crate::store::postgres::Postgres;
use crate::store::sqlite::peek;
use crate::store::{Row, Step, Transaction, Value};

/// Its name among what the queue itself keeps.
const NAME: &str = "key_mark";

impl Catalog {
    /// The mark that is stored; `mark`, if there was none.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn keep_key_mark(&self, mark: &str) -> Result<String> {
        let mark = Value::json(&mark)?;
        self.write(move |transaction| {
            let mark = mark.clone();
            Box::pin(async move {
                let sql = "INSERT INTO setting (kind, name, value) VALUES ($1, $2, $3) \
                    ON CONFLICT (kind, name) DO NOTHING";
                transaction.execute(sql, &[kind(), NAME.into(), mark]).await?;
                Ok(stored(transaction).await?.unwrap_or_default())
            })
        })
        .await
    }

    /// The mark that is stored.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn key_mark(&self) -> Result<Option<String>> {
        self.read(|transaction| Box::pin(stored(transaction))).await
    }

    /// Takes another key. The secrets that were sealed with the old one are deleted; how many.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn change_key_mark(&self, mark: &str) -> Result<u64> {
        let mark = Arc::new(Value::json(&mark)?);
        self.write(move |transaction| {
            let mark = Value::clone(&mark);
            Box::pin(async move {
                let sql = "INSERT INTO setting (kind, name, value) VALUES ($1, $2, $3) \
                    ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value";
                transaction.execute(sql, &[kind(), NAME.into(), mark]).await?;
                transaction.execute("DELETE FROM secret", &[]).await
            })
        })
        .await
    }
}

/// The mark in a database of SQLite, which another process may use; `None` if it has none.
///
/// # Errors
/// Those of the database; `internal` if no queue has made its tables.
pub fn key_mark_in_file(path: &Path) -> Result<Option<String>> {
    peek(path, &(|transaction| Box::pin(stored(transaction)) as Step<'_, _>))
}

/// The mark in a database of PostgreSQL; `None` if it has none.
///
/// # Errors
/// As [`key_mark_in_file`].
pub async fn key_mark_in_postgres(url: &str) -> Result<Option<String>> {
    let (sender, _changes) = watch::channel(0);
    let database = Postgres::open(url, sender)?;
    database.read(|transaction| Box::pin(stored(transaction))).await
}

fn kind() -> Value {
    SettingKind::Internal.name().into()
}

async fn stored(transaction: &mut dyn Transaction) -> Result<Option<String>> {
    let sql = "SELECT value FROM setting WHERE kind = $1 AND name = $2";
    let mut rows = transaction.query(sql, &[kind(), NAME.into()]).await?;
    rows.first_mut().map(Row::json).transpose()
}
