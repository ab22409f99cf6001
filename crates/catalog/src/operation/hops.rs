//! Files at hops that no file of a job needs any more.

use schedule::FileId;
use types::Result;

use crate::Catalog;
use crate::store::{Row, Transaction, Value};

/// A file at a hop that is to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastHop {
    /// Its URL.
    pub url: String,
    /// The file of a job that went by it.
    pub file: FileId,
    /// How often its removal was tried before.
    pub tries: u32,
}

impl Catalog {
    /// Takes files at hops whose removal is due, at most `limit`. Until `until_ms` no other call
    /// gets them; then they are due again, unless [`Catalog::forget_hop`] was called.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn take_past_hops(&self, limit: usize, now_ms: i64, until_ms: i64) -> Result<Vec<PastHop>> {
        // Most of the time there are none: a look writes nothing.
        let is_due = self
            .read(move |transaction| Box::pin(is_due(transaction, now_ms)))
            .await?;
        if !is_due {
            return Ok(Vec::new());
        }
        self.write(move |transaction| Box::pin(take(transaction, limit, now_ms, until_ms)))
            .await
    }

    /// A removal is tried again at this time.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn put_off_past_hop(&self, url: &str, due_ms: i64) -> Result<()> {
        self.on_hop(
            "UPDATE hop_file SET due_ms = $2 WHERE url = $1 AND due_ms IS NOT NULL",
            url,
            Some(due_ms),
        )
        .await
    }

    /// Nothing is at a hop any more under this URL. One that a file uses again meanwhile stays.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn forget_hop(&self, url: &str) -> Result<()> {
        self.on_hop("DELETE FROM hop_file WHERE url = $1 AND due_ms IS NOT NULL", url, None)
            .await
    }

    async fn on_hop(&self, sql: &'static str, url: &str, due_ms: Option<i64>) -> Result<()> {
        let url: std::sync::Arc<str> = url.into();
        self.write(move |transaction| {
            let url = std::sync::Arc::clone(&url);
            Box::pin(async move {
                let parameters: Vec<Value> = std::iter::once((&*url).into()).chain(due_ms.map(Value::from)).collect();
                transaction.execute(sql, &parameters).await?;
                Ok(())
            })
        })
        .await
    }
}

async fn is_due(transaction: &mut dyn Transaction, now_ms: i64) -> Result<bool> {
    let sql = "SELECT 1 FROM hop_file WHERE due_ms <= $1 LIMIT 1";
    Ok(!transaction.query(sql, &[now_ms.into()]).await?.is_empty())
}

async fn take(transaction: &mut dyn Transaction, limit: usize, now_ms: i64, until_ms: i64) -> Result<Vec<PastHop>> {
    let sql = "SELECT url, file, tries FROM hop_file WHERE due_ms <= $1 ORDER BY due_ms, url LIMIT $2 {lock_free}";
    let parameters = [now_ms.into(), Value::from(limit as i64)];
    let mut rows = transaction.query(sql, &parameters).await?;
    let read = |row: &mut Row| {
        Ok(PastHop {
            url: row.text()?,
            file: FileId(row.integer()?),
            tries: row.number()?,
        })
    };
    let taken = rows.iter_mut().map(read).collect::<Result<Vec<PastHop>>>()?;
    let sets: Vec<Vec<Value>> = taken
        .iter()
        .map(|hop| vec![hop.url.as_str().into(), until_ms.into()])
        .collect();
    let sql = "UPDATE hop_file SET due_ms = $2, tries = tries + 1 WHERE url = $1";
    transaction.execute_each(sql, &sets).await?;
    Ok(taken)
}
