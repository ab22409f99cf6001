//! Old runs lose detail.

use rusqlite::{OptionalExtension as _, Transaction, params};

use super::cells::{self, Detail};
use super::read::layout_links;
use super::write::signed;
use super::{DAY_MS, Keep, StoreError, clock_ms};

/// Runs that lose detail when one is stored: enough to keep up with a backlog, few enough that it
/// takes a moment only.
const THINNED_AT_ONCE: i64 = 8;

/// Thins out what is too old for its detail. Ages count from the earliest of the runs that were
/// kept last: a clock that is ahead makes the runs before it old only if it stays wrong for all of
/// them. With fewer runs, nothing is old. A history that is no longer written keeps what it has,
/// and a run in the future counts for nothing.
pub(super) fn thin(transaction: &Transaction<'_>, keep: Keep) -> Result<(), StoreError> {
    let sql = "SELECT min(
        (SELECT max(started_ms) FROM run WHERE started_ms <= ?1),
        (SELECT min(started_ms) FROM (SELECT started_ms FROM run ORDER BY id DESC LIMIT ?2)))";
    let reference: Option<i64> = transaction
        .prepare_cached(sql)?
        .query_row([signed(clock_ms()), signed(keep.last_runs)], |row| row.get(0))?;
    let Some(now_ms) = reference.and_then(|reference| u64::try_from(reference).ok()) else {
        return Ok(());
    };
    let before = |days: u64| signed(now_ms.saturating_sub(days.saturating_mul(DAY_MS)));
    to_outcomes(transaction, before(keep.full_days))?;
    to_counts(transaction, before(keep.outcome_days))?;
    forget(transaction, before(keep.days))
}

/// Numbers of runs of this detail that began earlier, the oldest first.
fn older(transaction: &Transaction<'_>, detail: Detail, before_ms: i64) -> Result<Vec<i64>, StoreError> {
    let sql = "SELECT id FROM run WHERE detail = ?1 AND started_ms < ?2 ORDER BY started_ms LIMIT ?3";
    let mut statement = transaction.prepare_cached(sql)?;
    let rows = statement.query_map(params![detail as i64, before_ms, THINNED_AT_ONCE], |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<Vec<i64>>>()?)
}

fn set_detail(transaction: &Transaction<'_>, run: i64, detail: Detail) -> Result<(), StoreError> {
    let mut statement = transaction.prepare_cached("UPDATE run SET detail = ?2 WHERE id = ?1")?;
    statement.execute(params![run, detail as i64])?;
    Ok(())
}

fn to_outcomes(transaction: &Transaction<'_>, before_ms: i64) -> Result<(), StoreError> {
    for run in older(transaction, Detail::Full, before_ms)? {
        let sql = "SELECT layout, cells FROM run_cells WHERE run = ?1";
        let mut statement = transaction.prepare_cached(sql)?;
        let found: Option<(i64, Vec<u8>)> = statement
            .query_row([run], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (layout, bytes) = found.ok_or(StoreError::Damaged)?;
        let all = cells::decode(&bytes, layout_links(transaction, layout)?)?;
        transaction
            .prepare_cached("UPDATE run_cells SET cells = ?2 WHERE run = ?1")?
            .execute(params![run, cells::encode(&all, Detail::Outcomes)])?;
        set_detail(transaction, run, Detail::Outcomes)?;
    }
    Ok(())
}

fn to_counts(transaction: &Transaction<'_>, before_ms: i64) -> Result<(), StoreError> {
    let runs = older(transaction, Detail::Outcomes, before_ms)?;
    for run in &runs {
        transaction
            .prepare_cached("DELETE FROM run_cells WHERE run = ?1")?
            .execute([run])?;
        set_detail(transaction, *run, Detail::Counts)?;
    }
    if !runs.is_empty() {
        let sql = "DELETE FROM layout WHERE NOT EXISTS (SELECT 1 FROM run_cells WHERE layout = layout.id)";
        transaction.prepare_cached(sql)?.execute([])?;
    }
    Ok(())
}

fn forget(transaction: &Transaction<'_>, before_ms: i64) -> Result<(), StoreError> {
    let sql = "DELETE FROM run WHERE id IN (
        SELECT id FROM run WHERE detail = 0 AND figures = 0 AND started_ms < ?1 LIMIT ?2)";
    transaction
        .prepare_cached(sql)?
        .execute(params![before_ms, THINNED_AT_ONCE])?;
    transaction
        .prepare_cached("DELETE FROM day WHERE day < ?1")?
        .execute([before_ms / DAY_MS as i64])?;
    Ok(())
}
