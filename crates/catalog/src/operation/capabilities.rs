//! What storages can do, as workers have learned it.

use std::sync::Arc;

use types::Result;

use crate::Catalog;
use crate::store::{Row, Transaction, Value};

/// Something that a storage can or cannot do. What, and how it is known, are the words of the
/// caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityRecord {
    /// The storage.
    pub storage: String,
    /// What it does.
    pub cell: String,
    /// Whether it can.
    pub can: bool,
    /// How that is known.
    pub evidence: String,
    /// When it was learned, in milliseconds since 1970.
    pub at_ms: i64,
}

impl Catalog {
    /// Stores what was learned. What another worker has learned later stays.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn store_capabilities(&self, records: Vec<CapabilityRecord>) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let mut records = records;
        // All workers lock the rows in one order.
        records.sort_by(|one, other| (&one.storage, &one.cell).cmp(&(&other.storage, &other.cell)));
        let records = Arc::new(records);
        self.write(move |transaction| {
            let records = Arc::clone(&records);
            Box::pin(async move { store(transaction, &records).await })
        })
        .await
    }

    /// What was learned since a time, the latest first; at most `limit`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn capabilities(&self, since_ms: i64, limit: usize) -> Result<Vec<CapabilityRecord>> {
        self.read(move |transaction| {
            Box::pin(async move {
                let sql = "SELECT storage, cell, can, evidence, at_ms FROM capability WHERE at_ms >= $1 \
                    ORDER BY at_ms DESC LIMIT $2";
                let parameters = [since_ms.into(), Value::from(limit as i64)];
                let mut rows = transaction.query(sql, &parameters).await?;
                rows.iter_mut().map(read).collect()
            })
        })
        .await
    }

    /// Forgets what was learned before a time, and all but about the latest `keeps`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn forget_capabilities(&self, before_ms: i64, keeps: usize) -> Result<()> {
        self.write(move |transaction| {
            Box::pin(async move {
                let sql = "DELETE FROM capability WHERE at_ms < $1 OR at_ms < \
                    (SELECT at_ms FROM capability ORDER BY at_ms DESC LIMIT 1 OFFSET $2)";
                let parameters = [before_ms.into(), Value::from(keeps.saturating_sub(1) as i64)];
                transaction.execute(sql, &parameters).await?;
                Ok(())
            })
        })
        .await
    }
}

async fn store(transaction: &mut dyn Transaction, records: &[CapabilityRecord]) -> Result<()> {
    let row = |record: &CapabilityRecord| {
        vec![
            record.storage.as_str().into(),
            record.cell.as_str().into(),
            i64::from(record.can).into(),
            record.evidence.as_str().into(),
            record.at_ms.into(),
        ]
    };
    let sets: Vec<Vec<Value>> = records.iter().map(row).collect();
    let sql = "INSERT INTO capability (storage, cell, can, evidence, at_ms) VALUES ($1, $2, $3, $4, $5) \
        ON CONFLICT (storage, cell) DO UPDATE SET can = excluded.can, evidence = excluded.evidence, \
        at_ms = excluded.at_ms WHERE capability.at_ms < excluded.at_ms";
    transaction.execute_each(sql, &sets).await?;
    Ok(())
}

fn read(row: &mut Row) -> Result<CapabilityRecord> {
    Ok(CapabilityRecord {
        storage: row.text()?,
        cell: row.text()?,
        can: row.integer()? != 0,
        evidence: row.text()?,
        at_ms: row.integer()?,
    })
}
