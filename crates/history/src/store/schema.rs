//! The tables, as migrations that lead from one version to the next. A migration that was released
//! never changes.

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;

/// Version 1 and its successors, in order.
const MIGRATIONS: [&str; 3] = [VERSION_1, VERSION_2, VERSION_3];
/// The newest version.
pub(super) const VERSION: usize = MIGRATIONS.len();
/// The first version that keeps why runs ended early.
const KEEPS_REASONS: usize = 3;

/// What the file is, for programs that look at it (<https://www.sqlite.org/fileformat.html>):
/// "xlrn", runs of Crossload.
const APPLICATION_ID: i32 = 0x786c_726e;
/// Tables of version 1 that together no other program has.
const OWN_TABLES: &str = "'word', 'layout', 'run_cells', 'figure'";
const OWN_TABLES_COUNT: i64 = 4;

/// The file says what it is.
const VERSION_2: &str = "PRAGMA application_id = 2020373102;";

/// Why a run ended early: a word, or nothing.
const VERSION_3: &str = "ALTER TABLE run ADD COLUMN ended_by INTEGER;";

/// * `word`: each text that rows repeat, once
/// * `title`: what is compared with each other: runs of one instrument with one title
/// * `link`: the six words of a link; `layout`: the links of a run in their order, mostly those of
///   the run before, found by a digest
/// * `run`: one row for each run, kept for years; `run_cells` holds its cells (`cells.rs`) while
///   there are any. `detail`: 2 everything, 1 outcomes, 0 no cells
/// * `day`: what each link did on a day (`days.rs`), written with each run
/// * `figure`: the figures of benchmarks, kept for ever
const VERSION_1: &str = "
CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE title (
    id INTEGER PRIMARY KEY, instrument TEXT NOT NULL, text TEXT NOT NULL, UNIQUE (instrument, text));
CREATE TABLE link (
    id INTEGER PRIMARY KEY, source INTEGER NOT NULL, destination INTEGER NOT NULL,
    source_protocol INTEGER NOT NULL, destination_protocol INTEGER NOT NULL, mode TEXT NOT NULL,
    credential INTEGER NOT NULL,
    UNIQUE (source, destination, source_protocol, destination_protocol, mode, credential));
CREATE TABLE layout (id INTEGER PRIMARY KEY, digest INTEGER NOT NULL, links BLOB NOT NULL);
CREATE INDEX layout_digest ON layout (digest);
CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT, title INTEGER NOT NULL, started_ms INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL, program INTEGER NOT NULL, is_complete INTEGER NOT NULL,
    passed INTEGER NOT NULL, failed INTEGER NOT NULL, skipped INTEGER NOT NULL,
    not_applicable INTEGER NOT NULL, figures INTEGER NOT NULL, detail INTEGER NOT NULL,
    endpoints INTEGER NOT NULL, conditions BLOB NOT NULL, findings TEXT NOT NULL,
    UNIQUE (title, started_ms));
CREATE INDEX run_detail ON run (detail, started_ms);
CREATE TABLE run_cells (run INTEGER PRIMARY KEY, layout INTEGER NOT NULL, cells BLOB NOT NULL);
CREATE INDEX run_cells_layout ON run_cells (layout);
CREATE TABLE day (
    id INTEGER PRIMARY KEY, title INTEGER NOT NULL, day INTEGER NOT NULL, links BLOB NOT NULL,
    UNIQUE (title, day));
CREATE TABLE figure (
    run INTEGER NOT NULL, name INTEGER NOT NULL, value REAL NOT NULL, unit INTEGER NOT NULL,
    is_higher_better INTEGER NOT NULL, PRIMARY KEY (run, name)) WITHOUT ROWID;
";

/// What a database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// There is nothing in it.
    Nothing,
    /// A history.
    History,
}

/// Looks at a database, and changes nothing.
///
/// # Errors
/// It is that of another program, or of a newer one.
pub(super) fn check(connection: &Connection) -> Result<Found, StoreError> {
    let count = |filter: &str| {
        let sql = format!("SELECT count(*) FROM sqlite_master {filter}");
        connection.query_row(&sql, [], |row| row.get::<_, i64>(0))
    };
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let number: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if application == 0 && number == 0 && count("")? == 0 {
        return Ok(Found::Nothing);
    }
    // Version 1 does not say what it is.
    let is_ours = match application {
        APPLICATION_ID => true,
        0 => count(&format!("WHERE type = 'table' AND name IN ({OWN_TABLES})"))? == OWN_TABLES_COUNT,
        _ => false,
    };
    match is_ours {
        true => version(connection).map(|_| Found::History),
        false => Err(StoreError::Foreign),
    }
}

/// Brings a database to the newest version.
///
/// # Errors
/// It was written by a newer program, or cannot be changed.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    if version(connection)? == MIGRATIONS.len() {
        return Ok(());
    }
    // Another process may do the same: who comes second finds nothing to do.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (at, migration) in MIGRATIONS.iter().enumerate().skip(version(&transaction)?) {
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", (at + 1) as i64)?;
    }
    Ok(transaction.commit()?)
}

/// Whether it keeps why runs ended early. One that is only read is never brought to the newest
/// version.
pub(super) fn keeps_reasons(connection: &Connection) -> Result<bool, StoreError> {
    Ok(version(connection)? >= KEEPS_REASONS)
}

fn version(connection: &Connection) -> Result<usize, StoreError> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    match usize::try_from(version) {
        Ok(known) if known <= VERSION => Ok(known),
        _ => Err(StoreError::Newer(version)),
    }
}
