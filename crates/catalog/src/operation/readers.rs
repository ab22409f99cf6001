//! Those who read all events in order and come back later: how far each is, and which process reads
//! for it.

use std::sync::Arc;

use types::Result;

use crate::Catalog;
use crate::limits::{LISTED_MAX, READERS_KEPT_MAX};
use crate::store::{Row, Transaction, Value};

impl Catalog {
    /// Reads for `reader` until `lease_ms`, in the name of `owner`. Returns the number of the last
    /// event that it has processed; a new reader begins after the latest one. `None` while another
    /// owner reads for it, or when [`READERS_KEPT_MAX`] others are kept.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn take_reader(&self, reader: &str, owner: &str, now_ms: i64, lease_ms: i64) -> Result<Option<i64>> {
        let names = Arc::new((reader.to_owned(), owner.to_owned()));
        self.write(move |transaction| {
            let names = Arc::clone(&names);
            Box::pin(async move { take_reader(transaction, &names.0, &names.1, now_ms, lease_ms).await })
        })
        .await
    }

    /// The reader has processed all events up to one, and is read for until `lease_ms`. `false`:
    /// another owner reads for it now, and nothing has changed.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn move_reader(&self, reader: &str, owner: &str, sequence: i64, lease_ms: i64) -> Result<bool> {
        let names = Arc::new((reader.to_owned(), owner.to_owned()));
        self.write(move |transaction| {
            let names = Arc::clone(&names);
            Box::pin(async move {
                let (reader, owner) = (names.0.as_str(), names.1.as_str());
                let sql = "UPDATE reader SET sequence = $3, lease_ms = $4 WHERE name = $1 AND owner = $2";
                let parameters = [reader.into(), owner.into(), sequence.into(), lease_ms.into()];
                Ok(transaction.execute(sql, &parameters).await? > 0)
            })
        })
        .await
    }

    /// The number of the last event that a reader has processed; `None`: it is not known.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn reader_place(&self, reader: &str) -> Result<Option<i64>> {
        let reader = Arc::new(reader.to_owned());
        self.read(move |transaction| {
            let reader = Arc::clone(&reader);
            Box::pin(async move {
                let sql = "SELECT sequence FROM reader WHERE name = $1";
                let mut rows = transaction.query(sql, &[reader.as_str().into()]).await?;
                rows.first_mut().map(Row::integer).transpose()
            })
        })
        .await
    }

    /// Ends the lease: others may read for it at once.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn leave_reader(&self, reader: &str, owner: &str, now_ms: i64) -> Result<()> {
        let names = Arc::new((reader.to_owned(), owner.to_owned()));
        self.write(move |transaction| {
            let names = Arc::clone(&names);
            Box::pin(async move {
                let sql = "UPDATE reader SET lease_ms = $3 WHERE name = $1 AND owner = $2 AND lease_ms > $3";
                let parameters = [names.0.as_str().into(), names.1.as_str().into(), now_ms.into()];
                transaction.execute(sql, &parameters).await.map(drop)
            })
        })
        .await
    }

    /// Forgets a reader. Returns whether it was known.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn forget_reader(&self, reader: &str) -> Result<bool> {
        let reader = Arc::new(reader.to_owned());
        self.write(move |transaction| {
            let reader = Arc::clone(&reader);
            Box::pin(async move {
                let sql = "DELETE FROM reader WHERE name = $1";
                Ok(transaction.execute(sql, &[reader.as_str().into()]).await? > 0)
            })
        })
        .await
    }

    /// Deletes events before `before_ms` that all readers have processed, and any before
    /// `unread_before_ms`; some at once. Returns how many; 0: all are gone. Readers whose lease
    /// ended before `unread_before_ms` are forgotten.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn prune_events(&self, before_ms: i64, unread_before_ms: i64) -> Result<u64> {
        self.write(move |transaction| {
            Box::pin(async move {
                let sql = "DELETE FROM reader WHERE lease_ms < $1";
                transaction.execute(sql, &[unread_before_ms.into()]).await?;
                let sql = "DELETE FROM event WHERE sequence IN (SELECT old.sequence FROM \
                    (SELECT sequence, at_ms FROM event WHERE at_ms < $1 ORDER BY at_ms LIMIT $3) old \
                    WHERE old.at_ms < $2 OR old.sequence <= \
                    COALESCE((SELECT MIN(r.sequence) FROM reader r), old.sequence))";
                let parameters = [
                    before_ms.into(),
                    unread_before_ms.into(),
                    Value::from(LISTED_MAX as i64),
                ];
                transaction.execute(sql, &parameters).await
            })
        })
        .await
    }
}

async fn take_reader(
    transaction: &mut dyn Transaction,
    reader: &str,
    owner: &str,
    now_ms: i64,
    lease_ms: i64,
) -> Result<Option<i64>> {
    let sql = "UPDATE reader SET owner = $2, lease_ms = $4 WHERE name = $1 AND (owner = $2 OR lease_ms <= $3)";
    let parameters = [reader.into(), owner.into(), now_ms.into(), lease_ms.into()];
    if transaction.execute(sql, &parameters).await? == 0 {
        // Not there, or another's: that one is left alone.
        let sql = "INSERT INTO reader (name, owner, lease_ms, sequence) \
            SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS BIGINT), \
            (SELECT COALESCE(MAX(sequence), 0) FROM event) \
            WHERE (SELECT COUNT(*) FROM reader) < CAST($4 AS BIGINT) ON CONFLICT (name) DO NOTHING";
        let most = Value::from(READERS_KEPT_MAX);
        let parameters = [reader.into(), owner.into(), lease_ms.into(), most];
        if transaction.execute(sql, &parameters).await? == 0 {
            return Ok(None);
        }
    }
    let sql = "SELECT sequence FROM reader WHERE name = $1";
    let mut rows = transaction.query(sql, &[reader.into()]).await?;
    rows.first_mut().map(Row::integer).transpose()
}
