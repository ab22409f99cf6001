//! The catalog and its two databases.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::{Semaphore, watch};
use types::Result;

use crate::copies::{interrupt_sql, keep_before_migration};
use crate::limits::{LISTINGS_MAX, MIGRATION_TIME_MAX, POLL_TIME};
use crate::operation::forget_processes;
use crate::schema::migrate;
use crate::store::postgres::Postgres;
use crate::store::sqlite::Sqlite;
use crate::store::{Operation, stopped};

/// The queue's database. Clones are cheap and share it.
///
/// Each method is one transaction, unless its documentation says otherwise. With SQLite, methods
/// that write return when the change is on disk.
#[derive(Clone)]
pub struct Catalog {
    store: Store,
    changes: watch::Receiver<u64>,
    /// The turn of changes of large jobs: one at a time.
    pub(crate) long_changes: Arc<Semaphore>,
    /// Places for lists.
    pub(crate) listings: Arc<Semaphore>,
}

#[derive(Clone)]
enum Store {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

/// Learns of changes.
#[derive(Clone, Debug)]
pub struct Changes {
    counter: watch::Receiver<u64>,
    /// Other processes may change something, and the notice of it may be lost.
    is_shared: bool,
}

impl Changes {
    /// Waits until something has changed since the last call. With PostgreSQL also returns after
    /// [`POLL_TIME`].
    pub async fn wait(&mut self) {
        let is_shared = self.is_shared;
        let changed = async {
            if self.counter.changed().await.is_err() {
                // The database is closed: nothing changes any more.
                std::future::pending::<()>().await;
            }
        };
        match is_shared {
            // An error: the time is over.
            true => drop(tokio::time::timeout(POLL_TIME, changed).await),
            false => changed.await,
        }
    }
}

impl Catalog {
    /// Opens a database of SQLite, or makes it. Its directory exists. Before the tables of an
    /// earlier release are changed, a copy of the database is kept beside it ([`kept_copy`]).
    ///
    /// # Errors
    /// `catalog_unavailable` if another process uses it, or it cannot be opened;
    /// `catalog_damaged`; `catalog_newer` if a later release has used it, which changes nothing;
    /// `catalog_full`.
    ///
    /// [`kept_copy`]: crate::kept_copy
    pub async fn open_sqlite(path: &Path) -> Result<Self> {
        let catalog = Self::prepared_sqlite(path, keep_before_migration).await?;
        catalog.write(|transaction| Box::pin(migrate(transaction))).await?;
        catalog
            .write(|transaction| Box::pin(forget_processes(transaction)))
            .await?;
        Ok(catalog)
    }

    /// Opens a database without a look at its tables.
    #[cfg(test)]
    pub(crate) async fn connect_sqlite(path: &Path) -> Result<Self> {
        Self::prepared_sqlite(path, |_| Ok(())).await
    }

    async fn prepared_sqlite(path: &Path, prepare: fn(&Path) -> Result<()>) -> Result<Self> {
        let (sender, changes) = watch::channel(0);
        let path = path.to_owned();
        let opening = execution::blocking(move || Sqlite::open(&path, sender, prepare)).await;
        let sqlite = opening.map_err(|_| crate::store::failure(types::ErrorCode::Internal))??;
        Ok(Self::over(Store::Sqlite(sqlite), changes))
    }

    fn over(store: Store, changes: watch::Receiver<u64>) -> Self {
        Self {
            store,
            changes,
            long_changes: Arc::new(Semaphore::new(1)),
            listings: Arc::new(Semaphore::new(LISTINGS_MAX)),
        }
    }

    /// Opens a database of PostgreSQL, and makes the tables if there are none. Several processes
    /// may use it at the same time. `sslmode` in the URL decides about TLS; by default the server
    /// does, and its certificate must be of an authority that the system trusts.
    ///
    /// # Errors
    /// `catalog_unavailable` if it does not answer or refuses us; `catalog_newer` if a later
    /// release has used it.
    ///
    /// # Panics
    /// When this is not called on a runtime.
    pub async fn open_postgres(url: &str) -> Result<Self> {
        let (sender, changes) = watch::channel(0);
        let postgres = Postgres::open(url, sender)?;
        let migration = postgres.write_within(MIGRATION_TIME_MAX, |transaction| Box::pin(migrate(transaction)));
        migration.await?;
        Ok(Self::over(Store::Postgres(postgres), changes))
    }

    /// Opens a database without a look at its tables.
    #[cfg(test)]
    pub(crate) fn connect_postgres(url: &str) -> Result<Self> {
        let (sender, changes) = watch::channel(0);
        Ok(Self::over(Store::Postgres(Postgres::open(url, sender)?), changes))
    }

    /// As [`prepare_restored_file`], for an open database.
    ///
    /// # Errors
    /// Those of the database.
    ///
    /// [`prepare_restored_file`]: crate::prepare_restored_file
    pub async fn prepare_restored(&self) -> Result<()> {
        self.write(|transaction| {
            Box::pin(async move {
                transaction.execute(&interrupt_sql(), &[]).await?;
                Ok(())
            })
        })
        .await
    }

    /// Whether other processes may use the database too. SQLite's is locked for this one.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self.store, Store::Postgres(_))
    }

    /// Whether this process leads those that share the database; it stays so until its connection
    /// breaks. Call it again from time to time. Changes are correct with two leaders too.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn try_lead(&self) -> Result<bool> {
        match &self.store {
            Store::Sqlite(_) => Ok(true),
            Store::Postgres(postgres) => postgres.try_lead().await,
        }
    }

    /// The same database, over connections of its own that the calling runtime drives: what keeps
    /// other runtimes busy does not delay it.
    ///
    /// # Errors
    /// `catalog_unavailable`.
    pub fn apart(&self) -> Result<Self> {
        let store = match &self.store {
            // Its threads belong to no runtime.
            Store::Sqlite(sqlite) => Store::Sqlite(sqlite.clone()),
            Store::Postgres(postgres) => Store::Postgres(postgres.apart()?),
        };
        Ok(Self { store, ..self.clone() })
    }

    /// Ends the use of the database after what is under way. Other clones then answer
    /// `catalog_unavailable`.
    pub async fn close(self) {
        match self.store {
            Store::Sqlite(sqlite) => sqlite.close().await,
            Store::Postgres(postgres) => postgres.close().await,
        }
    }

    /// The number of the last change that this process knows of: what was read before, under the
    /// same number, still holds. With PostgreSQL it comes a moment after the change.
    #[must_use]
    pub fn change(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Learns of changes from now on.
    #[must_use]
    pub fn changes(&self) -> Changes {
        let mut changes = self.changes.clone();
        changes.mark_unchanged();
        Changes {
            counter: changes,
            is_shared: self.is_shared(),
        }
    }

    /// Runs an operation in a transaction; durable when it returns.
    pub(crate) async fn write<T: Send + 'static>(&self, operation: impl Operation<T>) -> Result<T> {
        match &self.store {
            Store::Sqlite(sqlite) => sqlite.write(operation).await,
            Store::Postgres(postgres) => postgres.write(operation).await,
        }
    }

    /// Runs an operation that reads a list, when one of the few places for that is free.
    pub(crate) async fn read_list<T: Send + 'static>(&self, operation: impl Operation<T>) -> Result<T> {
        let _place = self.listings.acquire().await.map_err(|_| stopped())?;
        self.read(operation).await
    }

    /// Runs an operation that only reads.
    pub(crate) async fn read<T: Send + 'static>(&self, operation: impl Operation<T>) -> Result<T> {
        match &self.store {
            Store::Sqlite(sqlite) => sqlite.read(operation).await,
            Store::Postgres(postgres) => postgres.read(operation).await,
        }
    }
}
