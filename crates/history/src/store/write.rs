//! Storing a run.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::bytes::Writer;
use super::cells::{self, Detail};
use super::days::{self, LinkDay};
use super::{DAY_MS, RunId, Store, StoreError, thin};
use crate::model::{Cell, Link, Outcome, Run, Wish};
use crate::standing::{Condition, EndpointVerdict, RunVerdict};

impl Store {
    /// Stores a run. When it returns, the run is on disk. A run of the same instrument, title and
    /// begin that is there already stays as it is, and its number is returned.
    ///
    /// # Errors
    /// The database cannot be written, or the run begins in the future ([`Store::is_future`]).
    pub fn add(&mut self, run: &Run) -> Result<RunId, StoreError> {
        if Self::is_future(run.started_ms) {
            return Err(StoreError::Future(run.started_ms));
        }
        self.insert(run)
    }

    pub(super) fn insert(&mut self, run: &Run) -> Result<RunId, StoreError> {
        // Before the transaction, which keeps other processes out.
        let verdict = RunVerdict::of(run);
        let keep = self.keep;
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut writing = Writing::new(&transaction);
        let title = writing.title(run)?;
        if let Some(known) = writing.known(title, run)? {
            return Ok(known);
        }
        let id = writing.run(title, run, &verdict)?;
        writing.figures(id, run)?;
        writing.cells(id, title, run)?;
        thin::thin(&transaction, keep)?;
        transaction.commit()?;
        Ok(id)
    }
}

struct Writing<'t> {
    transaction: &'t Transaction<'t>,
    words: HashMap<String, i64>,
}

impl<'t> Writing<'t> {
    fn new(transaction: &'t Transaction<'t>) -> Self {
        Self {
            transaction,
            words: HashMap::new(),
        }
    }

    fn word(&mut self, text: &str) -> Result<i64, StoreError> {
        if let Some(word) = self.words.get(text) {
            return Ok(*word);
        }
        let mut find = self.transaction.prepare_cached("SELECT id FROM word WHERE text = ?1")?;
        let word = match find.query_row([text], |row| row.get(0)).optional()? {
            Some(word) => word,
            None => {
                let mut insert = self.transaction.prepare_cached("INSERT INTO word (text) VALUES (?1)")?;
                insert.insert([text])?
            }
        };
        self.words.insert(text.to_owned(), word);
        Ok(word)
    }

    fn title(&self, run: &Run) -> Result<i64, StoreError> {
        let key = params![run.instrument.name(), run.title];
        self.transaction
            .prepare_cached("INSERT INTO title (instrument, text) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
            .execute(key)?;
        let sql = "SELECT id FROM title WHERE instrument = ?1 AND text = ?2";
        Ok(self.transaction.prepare_cached(sql)?.query_row(key, |row| row.get(0))?)
    }

    fn known(&self, title: i64, run: &Run) -> Result<Option<RunId>, StoreError> {
        let sql = "SELECT id FROM run WHERE title = ?1 AND started_ms = ?2";
        let mut statement = self.transaction.prepare_cached(sql)?;
        let key = params![title, signed(run.started_ms)];
        Ok(statement.query_row(key, |row| row.get(0)).optional()?)
    }

    fn run(&mut self, title: i64, run: &Run, verdict: &RunVerdict) -> Result<RunId, StoreError> {
        let program = self.word(&run.program)?;
        let endpoints = serde_json::to_string(&run.endpoints).map_err(|_| StoreError::Damaged)?;
        let endpoints = self.word(&endpoints)?;
        let findings = serde_json::to_string(&verdict.findings).map_err(|_| StoreError::Damaged)?;
        let ended_by = run.ended_by.as_deref().map(|why| self.word(why)).transpose()?;
        let count = |is_it: fn(&Outcome) -> bool| {
            let cells = run.cells.iter().filter(|cell| is_it(&cell.outcome));
            cells.count() as i64
        };
        let sql = "INSERT INTO run (title, started_ms, ended_ms, program, is_complete, passed, failed, skipped,
                not_applicable, figures, detail, endpoints, conditions, findings, ended_by)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
        let id = self.transaction.prepare_cached(sql)?.insert(params![
            title,
            signed(run.started_ms),
            signed(run.ended_ms),
            program,
            run.is_complete,
            count(Outcome::has_passed),
            count(|outcome| outcome.failure().is_some()),
            count(|outcome| matches!(outcome, Outcome::Skipped { .. })),
            count(|outcome| matches!(outcome, Outcome::NotApplicable { .. })),
            run.figures.len() as i64,
            Detail::Full as i64,
            endpoints,
            conditions(&verdict.endpoints),
            findings,
            ended_by,
        ])?;
        Ok(id)
    }

    fn figures(&mut self, id: RunId, run: &Run) -> Result<(), StoreError> {
        for figure in &run.figures {
            let (name, unit) = (self.word(&figure.name)?, self.word(&figure.unit)?);
            let sql = "INSERT OR REPLACE INTO figure (run, name, value, unit, is_higher_better)
                VALUES (?1, ?2, ?3, ?4, ?5)";
            let is_higher_better = figure.wish == Wish::Higher;
            self.transaction
                .prepare_cached(sql)?
                .execute(params![id, name, figure.value, unit, is_higher_better])?;
        }
        Ok(())
    }

    fn cells(&mut self, id: RunId, title: i64, run: &Run) -> Result<(), StoreError> {
        let links = run
            .cells
            .iter()
            .map(|cell| self.link(&cell.link))
            .collect::<Result<Vec<u64>, StoreError>>()?;
        let layout = self.layout(&links)?;
        let bytes = cells::encode(&run.cells, Detail::Full);
        self.transaction
            .prepare_cached("INSERT INTO run_cells (run, layout, cells) VALUES (?1, ?2, ?3)")?
            .execute(params![id, layout, bytes])?;
        self.day(title, run.started_ms / DAY_MS, &links, &run.cells)
    }

    fn link(&mut self, link: &Link) -> Result<u64, StoreError> {
        let words = [
            self.word(&link.source)?,
            self.word(&link.destination)?,
            self.word(&link.source_protocol)?,
            self.word(&link.destination_protocol)?,
        ];
        let credential = self.word(&link.credential)?;
        let key = params![words[0], words[1], words[2], words[3], link.mode.name(), credential];
        let find = "SELECT id FROM link WHERE source = ?1 AND destination = ?2 AND source_protocol = ?3
            AND destination_protocol = ?4 AND mode = ?5 AND credential = ?6";
        let found: Option<i64> = self
            .transaction
            .prepare_cached(find)?
            .query_row(key, |row| row.get(0))
            .optional()?;
        let id = match found {
            Some(id) => id,
            None => {
                let sql =
                    "INSERT INTO link (source, destination, source_protocol, destination_protocol, mode, credential)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                self.transaction.prepare_cached(sql)?.insert(key)?
            }
        };
        u64::try_from(id).map_err(|_| StoreError::Damaged)
    }

    fn layout(&self, links: &[u64]) -> Result<i64, StoreError> {
        let mut bytes = Writer::default();
        let mut before: i64 = 0;
        for link in links {
            bytes.signed(*link as i64 - before);
            before = *link as i64;
        }
        let digest = digest(&bytes.0);
        let sql = "SELECT id FROM layout WHERE digest = ?1 AND links = ?2";
        let mut find = self.transaction.prepare_cached(sql)?;
        if let Some(known) = find.query_row(params![digest, bytes.0], |row| row.get(0)).optional()? {
            return Ok(known);
        }
        let sql = "INSERT INTO layout (digest, links) VALUES (?1, ?2)";
        Ok(self.transaction.prepare_cached(sql)?.insert(params![digest, bytes.0])?)
    }

    /// Adds the cells to what their links did on this day.
    fn day(&self, title: i64, day: u64, links: &[u64], cells: &[Cell]) -> Result<(), StoreError> {
        if links.is_empty() {
            return Ok(());
        }
        let key = params![title, signed(day)];
        let sql = "SELECT links FROM day WHERE title = ?1 AND day = ?2";
        let mut find = self.transaction.prepare_cached(sql)?;
        let known: Option<Vec<u8>> = find.query_row(key, |row| row.get(0)).optional()?;
        let mut all: BTreeMap<u64, LinkDay> = days::decode(&known.unwrap_or_default())?.into_iter().collect();
        for (link, cell) in links.iter().zip(cells) {
            all.entry(*link).or_default().add(cell);
        }
        let sql = "INSERT INTO day (title, day, links) VALUES (?1, ?2, ?3)
            ON CONFLICT (title, day) DO UPDATE SET links = excluded.links";
        let mut write = self.transaction.prepare_cached(sql)?;
        write.execute(params![title, signed(day), days::encode(&all)])?;
        Ok(())
    }
}

/// SQLite's integers have a sign; times after the year 292 million are cut.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Conditions and counts of endpoints, in the order of the run's endpoints.
fn conditions(endpoints: &[EndpointVerdict]) -> Vec<u8> {
    let mut out = Writer::default();
    for endpoint in endpoints {
        let counts = endpoint.counts;
        out.number(match endpoint.condition {
            Condition::Good => 0,
            Condition::Bad => 1,
            Condition::Unknown => 2,
            Condition::InDowntime => 3,
        });
        for number in [
            counts.tried_as_source,
            counts.failed_as_source,
            counts.tried_as_destination,
            counts.failed_as_destination,
        ] {
            out.number(number);
        }
    }
    out.0
}

/// FNV-1a in 64 bits: finds equal layouts; equality is checked besides.
fn digest(bytes: &[u8]) -> i64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash as i64
}
