//! Queues and their counters.

use schedule::FileId;
use types::Result;

use super::claim::turn;
use crate::Catalog;
use crate::limits::COUNTED_AHEAD_MAX;
use crate::store::{Row, Transaction};

/// What a queue is made of: files of one link, organisation, activity and user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey {
    /// The source's storage.
    pub source: String,
    /// The destination's storage.
    pub destination: String,
    /// The virtual organisation.
    pub vo: String,
    /// The activity.
    pub activity: String,
    /// The user, by [`Owner::unique_name`](crate::Owner::unique_name); empty for files of a release
    /// that did not tell users apart.
    pub user: String,
}

/// The files of one priority in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueCount {
    /// The queue.
    pub key: QueueKey,
    /// The priority.
    pub priority: u8,
    /// Files that can be claimed.
    pub waiting: u64,
    /// Files that wait for a time: a retry, or a held link.
    pub delayed: u64,
    /// Files that a ban holds.
    pub held: u64,
    /// Files that workers have.
    pub active: u64,
    /// When the job of the first file that can be claimed was submitted.
    pub oldest_ms: Option<i64>,
}

impl Catalog {
    /// All queues with files, by priority. Nothing is counted: the counters are kept.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn queues(&self) -> Result<Vec<QueueCount>> {
        self.read(|transaction| Box::pin(queues(transaction))).await
    }

    /// The same, with the number of claims before: for [`Catalog::claim_in_turn`].
    ///
    /// # Errors
    /// Those of the database.
    pub async fn queues_in_turn(&self) -> Result<(i64, Vec<QueueCount>)> {
        self.read(|transaction| Box::pin(async move { Ok((turn(transaction).await?, queues(transaction).await?)) }))
            .await
    }

    /// How many files are ahead of one that waits in its queue: counted up to
    /// [`COUNTED_AHEAD_MAX`], beyond estimated by its place. `None` if it does not wait.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn position(&self, file: FileId) -> Result<Option<u64>> {
        self.read(move |transaction| Box::pin(position(transaction, file)))
            .await
    }
}

/// The five words of a queue.
pub(super) fn read_key(row: &mut Row) -> Result<QueueKey> {
    Ok(QueueKey {
        source: row.text()?,
        destination: row.text()?,
        vo: row.text()?,
        activity: row.text()?,
        user: row.text()?,
    })
}

async fn queues(transaction: &mut dyn Transaction) -> Result<Vec<QueueCount>> {
    let sql = "SELECT s.text, d.text, v.text, a.text, u.text, c.priority, c.waiting, c.delayed, c.held, c.active, \
        CASE WHEN c.waiting > 0 THEN (SELECT j.submitted_ms FROM job j WHERE j.id = (SELECT f.job FROM file f \
        WHERE f.queue = c.queue AND f.priority = c.priority AND f.state = 4 AND f.due_ms IS NULL \
        ORDER BY f.id LIMIT 1)) END \
        FROM queue_count c JOIN queue q ON q.id = c.queue JOIN word s ON s.id = q.source \
        JOIN word d ON d.id = q.destination JOIN word v ON v.id = q.vo JOIN word a ON a.id = q.activity \
        JOIN word u ON u.id = q.user_name WHERE c.waiting + c.delayed + c.held + c.active > 0 ORDER BY c.queue, c.priority DESC";
    let mut rows = transaction.query(sql, &[]).await?;
    let read = |row: &mut Row| {
        Ok(QueueCount {
            key: read_key(row)?,
            priority: row.number()?,
            waiting: row.number()?,
            delayed: row.number()?,
            held: row.number()?,
            active: row.number()?,
            oldest_ms: row.optional_integer()?,
        })
    };
    rows.iter_mut().map(read).collect()
}

async fn position(transaction: &mut dyn Transaction, file: FileId) -> Result<Option<u64>> {
    let sql = "SELECT queue, priority FROM file WHERE id = $1 AND state = 4 AND due_ms IS NULL";
    let mut rows = transaction.query(sql, &[file.into()]).await?;
    let Some(row) = rows.first_mut() else {
        return Ok(None);
    };
    let (queue, priority) = (row.integer()?, row.integer()?);
    let sql = "SELECT CAST(COALESCE(SUM(CASE WHEN priority > $2 THEN waiting END), 0) AS BIGINT), \
        CAST(COALESCE(SUM(CASE WHEN priority = $2 THEN waiting END), 0) AS BIGINT) \
        FROM queue_count WHERE queue = $1";
    let mut rows = transaction.query(sql, &[queue.into(), priority.into()]).await?;
    let Some(row) = rows.first_mut() else {
        return Ok(None);
    };
    let (above, waiting): (u64, u64) = (row.number()?, row.number()?);
    let waits = "queue = $1 AND priority = $2 AND state = 4 AND due_ms IS NULL";
    let sql = format!(
        "SELECT COUNT(*) FROM (SELECT 1 AS one FROM file WHERE {waits} AND id < $3 ORDER BY id LIMIT $4) AS ahead"
    );
    let parameters = [queue.into(), priority.into(), file.into(), COUNTED_AHEAD_MAX.into()];
    let mut rows = transaction.query(&sql, &parameters).await?;
    let counted: u64 = rows.first_mut().map_or(Ok(0), |row| row.number())?;
    if counted < COUNTED_AHEAD_MAX {
        return Ok(Some(above + counted));
    }
    let end = |order: &str| format!("(SELECT id FROM file WHERE {waits} ORDER BY id {order} LIMIT 1)");
    let sql = format!("SELECT {}, {}", end("ASC"), end("DESC"));
    let mut rows = transaction.query(&sql, &[queue.into(), priority.into()]).await?;
    let Some(row) = rows.first_mut() else {
        return Ok(None);
    };
    let (first, last) = (row.integer()?, row.integer()?);
    let estimated = ahead_by_place(waiting, first, last, file.0);
    Ok(Some(above + estimated.max(counted)))
}

/// How many of the `waiting` files from `first` to `last` are before one, if they lie evenly.
fn ahead_by_place(waiting: u64, first: i64, last: i64, file: i64) -> u64 {
    let place = i128::from(file.clamp(first, last)) - i128::from(first);
    let length = i128::from(last) - i128::from(first);
    if length == 0 {
        return 0;
    }
    let ahead = i128::from(waiting.saturating_sub(1)) * place / length;
    u64::try_from(ahead).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_long_queue_is_estimated() {
        assert_eq!(ahead_by_place(1_000_000, 1, 1_000_000, 1), 0);
        assert_eq!(ahead_by_place(1_000_000, 1, 1_000_000, 500_001), 500_000);
        assert_eq!(ahead_by_place(1_000_000, 1, 1_000_000, 1_000_000), 999_999);
        // Others have gone between two reads.
        assert_eq!(ahead_by_place(0, 7, 7, 9), 0);
    }
}
