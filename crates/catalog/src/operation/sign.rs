//! Signs of life: a worker keeps its files, tells how far they are, and takes its orders.

use std::sync::Arc;

use schedule::FileId;
use types::Result;

use super::claim::extend_lease;
use super::settings::{Audit, SettingKind};
use super::words::word_id;
use crate::Catalog;
use crate::store::{Row, Transaction, Value};

/// Progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The file.
    pub file: FileId,
    /// Bytes copied.
    pub moved_bytes: u64,
}

/// What a worker learns when it gives a sign of life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    /// The files that it has, by identifier. Copies of others must stop.
    pub files: Vec<FileId>,
    /// As [`Catalog::settings_version`].
    pub settings_version: i64,
    /// Whether it must take no new work.
    pub drains: bool,
    /// Workers that have files.
    pub workers: u32,
}

impl Catalog {
    /// Extends the lease of all files that a worker has to `lease_ms`, and stores the progress of
    /// those that it names.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn renew(&self, worker: &str, moved: &[Moved], now_ms: i64, lease_ms: i64) -> Result<Renewed> {
        let arguments = Arc::new((worker.to_owned(), moved.to_vec()));
        self.write(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move {
                let (worker, moved) = &*arguments;
                renew(transaction, worker, moved, now_ms, lease_ms).await
            })
        })
        .await
    }

    /// Orders a worker to take no new work, or to take it again, together with this entry of the
    /// audit list.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn drain(&self, worker: &str, drains: bool, entry: Audit) -> Result<()> {
        let (kind, name) = (SettingKind::Internal, drain_of(worker));
        match drains {
            true => self.put_noted(kind, &name, &true, entry).await,
            false => self.delete_noted(kind, &name, entry).await.map(drop),
        }
    }

    /// Forgets the order for a worker that ends: its name is not used again.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn forget_drain(&self, worker: &str, now_ms: i64) -> Result<()> {
        let (kind, name) = (SettingKind::Internal, drain_of(worker));
        self.delete_setting(kind, &name, worker, now_ms).await.map(drop)
    }

    /// Whether a worker has the order to take no new work.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn drains(&self, worker: &str) -> Result<bool> {
        let order = self.setting(SettingKind::Internal, &drain_of(worker)).await?;
        Ok(order.unwrap_or_default())
    }
}

fn drain_of(worker: &str) -> String {
    format!("drain {worker}")
}

async fn renew(
    transaction: &mut dyn Transaction,
    name: &str,
    moved: &[Moved],
    now_ms: i64,
    lease_ms: i64,
) -> Result<Renewed> {
    let worker = word_id(transaction, name).await?;
    extend_lease(transaction, worker, now_ms, lease_ms).await?;
    if !moved.is_empty() {
        let row = |moved: &Moved| vec![moved.file.into(), moved.moved_bytes.into(), worker.into()];
        let sets: Vec<Vec<Value>> = moved.iter().map(row).collect();
        let sql = "UPDATE file SET moved = $2 WHERE id = $1 AND worker = $3 AND state IN (8, 9)";
        transaction.execute_each(sql, &sets).await?;
    }
    let sql = "SELECT id FROM file WHERE worker = $1 AND state IN (8, 9) ORDER BY id";
    let mut rows = transaction.query(sql, &[worker.into()]).await?;
    let files = rows.iter_mut().map(|row| row.integer().map(FileId));
    let mut renewed = Renewed {
        files: files.collect::<Result<_>>()?,
        ..Renewed::default()
    };
    let sql = "SELECT (SELECT COALESCE(MAX(id), 0) FROM audit), \
        (SELECT COUNT(*) FROM setting WHERE kind = $1 AND name = $2), \
        (SELECT COUNT(DISTINCT worker) FROM file WHERE state IN (8, 9))";
    let parameters = [SettingKind::Internal.name().into(), drain_of(name).as_str().into()];
    let mut rows = transaction.query(sql, &parameters).await?;
    let orders = rows
        .first_mut()
        .map(|row: &mut Row| Ok((row.integer()?, row.integer()?, row.number()?)));
    if let Some((version, drains, workers)) = orders.transpose()? {
        renewed.settings_version = version;
        renewed.drains = drains > 0;
        renewed.workers = workers;
    }
    Ok(renewed)
}
