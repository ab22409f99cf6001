//! Removing a run.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::days::{self, LinkDay};
use super::read::{layout_ids, nameless};
use super::write::signed;
use super::{DAY_MS, RunId, Store, StoreError, cells, latest_ms};

impl Store {
    /// The numbers of the runs that begin in the future ([`Store::is_future`]).
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn future(&self) -> Result<Vec<RunId>, StoreError> {
        let sql = "SELECT id FROM run WHERE started_ms > ?1 ORDER BY id";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map([signed(latest_ms())], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<Vec<RunId>>>()?)
    }

    /// Removes a run, and what it added to the days of its links while its cells are kept. Returns
    /// whether there was one of this number.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn remove(&mut self, id: RunId) -> Result<bool, StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let removed = remove(&transaction, id)?;
        transaction.commit()?;
        Ok(removed)
    }
}

fn remove(transaction: &Transaction<'_>, id: RunId) -> Result<bool, StoreError> {
    let mut find = transaction.prepare_cached("SELECT title, started_ms FROM run WHERE id = ?1")?;
    let found = find.query_row([id], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
    let Some((title, started_ms)) = found.optional()? else {
        return Ok(false);
    };
    take_from_day(transaction, id, title, started_ms / DAY_MS as i64)?;
    for sql in [
        "DELETE FROM run_cells WHERE run = ?1",
        "DELETE FROM figure WHERE run = ?1",
        "DELETE FROM run WHERE id = ?1",
    ] {
        transaction.prepare_cached(sql)?.execute([id])?;
    }
    for sql in [
        "DELETE FROM layout WHERE NOT EXISTS (SELECT 1 FROM run_cells WHERE layout = layout.id)",
        "DELETE FROM title WHERE NOT EXISTS (SELECT 1 FROM run WHERE run.title = title.id)
            AND NOT EXISTS (SELECT 1 FROM day WHERE day.title = title.id)",
    ] {
        transaction.prepare_cached(sql)?.execute([])?;
    }
    Ok(true)
}

/// Takes the cells of a run out of what their links did on its day.
fn take_from_day(transaction: &Transaction<'_>, id: RunId, title: i64, day: i64) -> Result<(), StoreError> {
    let mut find = transaction.prepare_cached("SELECT layout, cells FROM run_cells WHERE run = ?1")?;
    let found: Option<(i64, Vec<u8>)> = find.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((layout, bytes)) = found else { return Ok(()) };
    let mut find = transaction.prepare_cached("SELECT links FROM day WHERE title = ?1 AND day = ?2")?;
    let known: Option<Vec<u8>> = find.query_row([title, day], |row| row.get(0)).optional()?;
    let Some(known) = known else { return Ok(()) };
    let links = layout_ids(transaction, layout)?;
    let cells = cells::decode(&bytes, nameless(links.len()))?;
    let mut all: BTreeMap<u64, LinkDay> = days::decode(&known)?.into_iter().collect();
    for (link, cell) in links.iter().zip(&cells) {
        if let Some(day) = all.get_mut(link) {
            day.take(cell);
        }
    }
    all.retain(|_, day| day.failed_share().is_some());
    let sql = match all.is_empty() {
        true => "DELETE FROM day WHERE title = ?1 AND day = ?2 AND ?3 IS NOT NULL",
        false => "UPDATE day SET links = ?3 WHERE title = ?1 AND day = ?2",
    };
    let mut write = transaction.prepare_cached(sql)?;
    write.execute(params![title, day, days::encode(&all)])?;
    Ok(())
}
