//! The catalog and its two databases.

use std::path::Path;

use tokio::sync::watch;
use types::Result;

use crate::schema::migrate;
use crate::store::Operation;
use crate::store::sqlite::Sqlite;

/// The queue's database. Clones are cheap and share it.
///
/// Each method is one transaction, unless its documentation says otherwise. With SQLite, methods
/// that write return when the change is on disk.
#[derive(Clone)]
pub struct Catalog {
    store: Store,
    changes: watch::Receiver<u64>,
}

#[derive(Clone)]
enum Store {
    Sqlite(Sqlite),
}

/// Learns of changes.
#[derive(Clone, Debug)]
pub struct Changes(watch::Receiver<u64>);

impl Changes {
    /// Waits until something has changed since the last call.
    pub async fn wait(&mut self) {
        if self.0.changed().await.is_err() {
            // The database is closed: nothing changes any more.
            std::future::pending::<()>().await;
        }
    }
}

impl Catalog {
    /// Opens a database of SQLite, or makes it. Its directory exists.
    ///
    /// # Errors
    /// `catalog_unavailable` if another process uses it, or it cannot be opened;
    /// `catalog_damaged`; `catalog_newer` if a later release has used it; `catalog_full`.
    pub async fn open_sqlite(path: &Path) -> Result<Self> {
        let (sender, changes) = watch::channel(0);
        let path = path.to_owned();
        let opening = execution::blocking(move || Sqlite::open(&path, sender)).await;
        let sqlite = opening.map_err(|_| crate::store::failure(types::ErrorCode::Internal))??;
        let catalog = Self {
            store: Store::Sqlite(sqlite),
            changes,
        };
        catalog.write(|transaction| Box::pin(migrate(transaction))).await?;
        Ok(catalog)
    }

    /// Ends the use of the database after what is under way. Other clones then answer
    /// `catalog_unavailable`.
    pub async fn close(self) {
        match self.store {
            Store::Sqlite(sqlite) => sqlite.close().await,
        }
    }

    /// Learns of changes from now on.
    #[must_use]
    pub fn changes(&self) -> Changes {
        let mut changes = self.changes.clone();
        changes.mark_unchanged();
        Changes(changes)
    }

    /// Runs an operation in a transaction; durable when it returns.
    pub(crate) async fn write<T: Send + 'static>(&self, operation: impl Operation<T>) -> Result<T> {
        match &self.store {
            Store::Sqlite(sqlite) => sqlite.write(operation).await,
        }
    }

    /// Runs an operation that only reads.
    pub(crate) async fn read<T: Send + 'static>(&self, operation: impl Operation<T>) -> Result<T> {
        match &self.store {
            Store::Sqlite(sqlite) => sqlite.read(operation).await,
        }
    }
}
