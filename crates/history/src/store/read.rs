//! Reading runs, and what became of links, endpoints and figures over many of them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};

use super::bytes::{Reader, Torn};
use super::cells::{self, Detail};
use super::days::{self, LinkDay};
use super::write::signed;
use super::{DAY_MS, RunId, Store, StoreError, latest_ms};
use crate::blame::Finding;
use crate::model::{Cell, EndpointSeen, Figure, Instrument, Link, Mode, Outcome, Run, Wish};
use crate::standing::{Condition, Counts, EndpointVerdict, RunVerdict};

/// Which runs to look at. What is `None` does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Runs of this instrument.
    pub instrument: Option<Instrument>,
    /// Runs with this title.
    pub title: Option<String>,
}

/// A run without its cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Its number.
    pub id: RunId,
    /// What was run.
    pub instrument: Instrument,
    /// Its title.
    pub title: String,
    /// Begin, in milliseconds since 1970.
    pub started_ms: u64,
    /// End, in milliseconds since 1970.
    pub ended_ms: u64,
    /// Name and version of the program.
    pub program: String,
    /// Whether everything that was planned was tried.
    pub is_complete: bool,
    /// Why it ended early, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// Cells that passed.
    pub passed: u64,
    /// Cells that failed.
    pub failed: u64,
    /// Cells that were skipped.
    pub skipped: u64,
    /// Cells that can never be tried.
    pub not_applicable: u64,
    /// Figures of a benchmark.
    pub figures: u64,
    /// How much of its cells is kept.
    pub detail: Detail,
}

/// Selects summaries, with this for the reason of an early end.
fn summaries(ended_by: &str) -> String {
    format!(
        "SELECT run.id, title.instrument, title.text, started_ms, ended_ms, word.text, is_complete,
            passed, failed, skipped, not_applicable, figures, detail, {ended_by}
        FROM run JOIN title ON title.id = run.title JOIN word ON word.id = run.program"
    )
}

/// A link over time.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSeries<T> {
    /// Which link.
    pub link: Link,
    /// Its values, by the begin of the run or the day, in milliseconds since 1970, oldest first.
    pub points: Vec<(u64, T)>,
}

/// A link in one run in which it was tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRun {
    /// The share of its copies that failed.
    pub failed_share: f64,
    /// The time of the copy, in milliseconds, if it passed.
    pub copy_ms: Option<u64>,
}

impl LinkRun {
    fn of(cell: &Cell) -> Option<Self> {
        let failed_share = match &cell.outcome {
            Outcome::Skipped { .. } | Outcome::NotApplicable { .. } => return None,
            _ if cell.copies > 1 => cell.copies_failed as f64 / cell.copies as f64,
            Outcome::Passed => 0.0,
            Outcome::Failed(_) => 1.0,
        };
        Some(Self {
            failed_share,
            copy_ms: cell
                .outcome
                .has_passed()
                .then_some(cell.copy_ms)
                .filter(|time| *time > 0),
        })
    }
}

/// Links without names, where only their cells matter.
pub(super) fn nameless(count: usize) -> Vec<Link> {
    let link = Link {
        source: String::new(),
        destination: String::new(),
        source_protocol: String::new(),
        destination_protocol: String::new(),
        mode: Mode::Probe,
        credential: String::new(),
    };
    vec![link; count]
}

/// A figure of one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigurePoint {
    /// The run.
    pub run: RunId,
    /// Its begin, in milliseconds since 1970.
    pub started_ms: u64,
    /// The value.
    pub value: f64,
}

/// A figure over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureSeries {
    /// What was measured.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Which values are good.
    pub wish: Wish,
    /// Its values, oldest first.
    pub points: Vec<FigurePoint>,
}

impl Store {
    /// The newest runs, newest first, at most so many.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn list(&self, filter: &Filter, count_max: u64) -> Result<Vec<Summary>, StoreError> {
        self.list_until(filter, count_max, u64::MAX)
    }

    fn list_until(&self, filter: &Filter, count_max: u64, until_ms: u64) -> Result<Vec<Summary>, StoreError> {
        let summaries = self.summaries();
        let sql = format!(
            "{summaries} WHERE (?1 IS NULL OR title.instrument = ?1) AND (?2 IS NULL OR title.text = ?2)
             AND started_ms <= ?4 ORDER BY started_ms DESC, run.id DESC LIMIT ?3"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let instrument = filter.instrument.map(Instrument::name);
        let values = params![instrument, filter.title, signed(count_max), signed(until_ms)];
        let mut rows = statement.query(values)?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push(summary(row)?);
        }
        Ok(all)
    }

    /// The newest run that is not in the future.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn latest(&self, filter: &Filter) -> Result<Option<Summary>, StoreError> {
        Ok(self.list_until(filter, 1, latest_ms())?.pop())
    }

    /// A run without its cells; `None` when there is no run of this number.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn summary(&self, id: RunId) -> Result<Option<Summary>, StoreError> {
        let sql = format!("{} WHERE run.id = ?1", self.summaries());
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query([id])?;
        rows.next()?.map(summary).transpose()
    }

    fn summaries(&self) -> String {
        summaries(match self.keeps_reasons {
            true => "(SELECT text FROM word WHERE word.id = run.ended_by)",
            false => "NULL",
        })
    }

    /// What is left of a run; `None` when there is no run of this number.
    ///
    /// # Errors
    /// The database cannot be read, or is damaged.
    pub fn load(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        let Some(summary) = self.summary(id)? else {
            return Ok(None);
        };
        let word: i64 = self
            .connection
            .prepare_cached("SELECT endpoints FROM run WHERE id = ?1")?
            .query_row([id], |row| row.get(0))?;
        Ok(Some(Run {
            instrument: summary.instrument,
            title: summary.title,
            started_ms: summary.started_ms,
            ended_ms: summary.ended_ms,
            program: summary.program,
            is_complete: summary.is_complete,
            ended_by: summary.ended_by,
            endpoints: self.endpoints(word)?,
            cells: self.cells(id)?,
            figures: self.figures_of(id)?,
        }))
    }

    fn endpoints(&self, word: i64) -> Result<Vec<EndpointSeen>, StoreError> {
        serde_json::from_str(&self.text(word)?).map_err(|_| StoreError::Damaged)
    }

    fn cells(&self, id: RunId) -> Result<Vec<Cell>, StoreError> {
        let sql = "SELECT layout, cells FROM run_cells WHERE run = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let found: Option<(i64, Vec<u8>)> = statement
            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match found {
            Some((layout, bytes)) => Ok(cells::decode(&bytes, layout_links(&self.connection, layout)?)?),
            None => Ok(Vec::new()),
        }
    }

    fn figures_of(&self, id: RunId) -> Result<Vec<Figure>, StoreError> {
        let sql = "SELECT name.text, value, unit.text, is_higher_better FROM figure
            JOIN word AS name ON name.id = figure.name JOIN word AS unit ON unit.id = figure.unit
            WHERE run = ?1 ORDER BY name.id";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map([id], |row| {
            Ok(Figure {
                name: row.get(0)?,
                value: row.get(1)?,
                unit: row.get(2)?,
                wish: wish(row.get(3)?),
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<Vec<Figure>>>()?)
    }

    /// Who was at fault in the runs of an instrument with a title since a time, oldest first.
    ///
    /// # Errors
    /// The database cannot be read, or is damaged.
    pub fn verdicts(&self, instrument: Instrument, title: &str, since_ms: u64) -> Result<Vec<RunVerdict>, StoreError> {
        let Some(title) = self.title(instrument, title)? else {
            return Ok(Vec::new());
        };
        let sql = "SELECT started_ms, endpoints, conditions, findings FROM run
            WHERE title = ?1 AND started_ms BETWEEN ?2 AND ?3 ORDER BY started_ms";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![title, signed(since_ms), signed(latest_ms())])?;
        // Mostly those of the run before.
        let mut names: HashMap<i64, Vec<String>> = HashMap::new();
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let word: i64 = row.get(1)?;
            if let Entry::Vacant(new) = names.entry(word) {
                let seen = self.endpoints(word)?.into_iter().map(|endpoint| endpoint.name);
                new.insert(seen.collect());
            }
            let findings = row.get_ref(3)?.as_str().map_err(|_| StoreError::Damaged)?;
            let findings: Vec<Finding> = match findings {
                "[]" => Vec::new(),
                text => serde_json::from_str(text).map_err(|_| StoreError::Damaged)?,
            };
            let bytes = row.get_ref(2)?.as_blob().map_err(|_| StoreError::Damaged)?;
            all.push(RunVerdict {
                started_ms: unsigned(row, 0)?,
                endpoints: conditions(bytes, &names[&word])?,
                findings,
            });
        }
        Ok(all)
    }

    /// The links of the newest runs of an instrument with a title, run by run, while outcomes
    /// are kept; at most so many runs.
    ///
    /// # Errors
    /// The database cannot be read, or is damaged.
    pub fn link_runs(
        &self,
        instrument: Instrument,
        title: &str,
        runs_max: u64,
    ) -> Result<Vec<LinkSeries<LinkRun>>, StoreError> {
        let Some(title) = self.title(instrument, title)? else {
            return Ok(Vec::new());
        };
        let sql = "SELECT * FROM (SELECT started_ms, layout, cells FROM run JOIN run_cells ON run_cells.run = run.id
            WHERE title = ?1 AND started_ms <= ?3 ORDER BY started_ms DESC LIMIT ?2) ORDER BY started_ms";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![title, signed(runs_max), signed(latest_ms())])?;
        let mut layouts: HashMap<i64, Vec<u64>> = HashMap::new();
        let mut series: BTreeMap<u64, Vec<(u64, LinkRun)>> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let layout: i64 = row.get(1)?;
            if let Entry::Vacant(new) = layouts.entry(layout) {
                new.insert(layout_ids(&self.connection, layout)?);
            }
            let links = &layouts[&layout];
            let bytes = row.get_ref(2)?.as_blob().map_err(|_| StoreError::Damaged)?;
            let started_ms = unsigned(row, 0)?;
            // The names are read once for each link, below.
            let cells = cells::decode(bytes, nameless(links.len()))?;
            for (link, run) in links.iter().zip(cells.iter().map(LinkRun::of)) {
                series
                    .entry(*link)
                    .or_default()
                    .extend(run.map(|run| (started_ms, run)));
            }
        }
        self.named(series)
    }

    /// The links of an instrument with a title, day by day, since a time.
    ///
    /// # Errors
    /// The database cannot be read, or is damaged.
    pub fn link_days(
        &self,
        instrument: Instrument,
        title: &str,
        since_ms: u64,
    ) -> Result<Vec<LinkSeries<LinkDay>>, StoreError> {
        let Some(title) = self.title(instrument, title)? else {
            return Ok(Vec::new());
        };
        let sql = "SELECT day, links FROM day WHERE title = ?1 AND day BETWEEN ?2 AND ?3 ORDER BY day";
        let mut statement = self.connection.prepare_cached(sql)?;
        let until = signed(latest_ms() / DAY_MS);
        let mut rows = statement.query(params![title, signed(since_ms / DAY_MS), until])?;
        let mut series: BTreeMap<u64, Vec<(u64, LinkDay)>> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let day_ms = unsigned(row, 0)?.saturating_mul(DAY_MS);
            let bytes = row.get_ref(1)?.as_blob().map_err(|_| StoreError::Damaged)?;
            for (link, day) in days::decode(bytes)? {
                series.entry(link).or_default().push((day_ms, day));
            }
        }
        self.named(series)
    }

    fn named<T>(&self, series: BTreeMap<u64, Vec<(u64, T)>>) -> Result<Vec<LinkSeries<T>>, StoreError> {
        let named = series.into_iter().map(|(id, points)| {
            let link = link(&self.connection, id)?;
            Ok(LinkSeries { link, points })
        });
        named.collect()
    }

    /// The figures of an instrument with a title, oldest values first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn figures(&self, instrument: Instrument, title: &str) -> Result<Vec<FigureSeries>, StoreError> {
        let Some(title) = self.title(instrument, title)? else {
            return Ok(Vec::new());
        };
        let sql = "SELECT name.text, unit.text, is_higher_better, run.id, started_ms, value
            FROM run JOIN figure ON figure.run = run.id
            JOIN word AS name ON name.id = figure.name JOIN word AS unit ON unit.id = figure.unit
            WHERE run.title = ?1 AND started_ms <= ?2 ORDER BY name.id, started_ms";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([title, signed(latest_ms())])?;
        let mut all: Vec<FigureSeries> = Vec::new();
        while let Some(row) = rows.next()? {
            let (name, unit, wish): (String, String, Wish) = (row.get(0)?, row.get(1)?, wish(row.get(2)?));
            let point = FigurePoint {
                run: row.get(3)?,
                started_ms: unsigned(row, 4)?,
                value: row.get(5)?,
            };
            match all.last_mut().filter(|last| last.name == name && last.unit == unit) {
                Some(last) => last.points.push(point),
                None => all.push(FigureSeries {
                    name,
                    unit,
                    wish,
                    points: vec![point],
                }),
            }
        }
        Ok(all)
    }

    /// The instruments and titles of all runs.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn titles(&self) -> Result<Vec<(Instrument, String)>, StoreError> {
        let sql = "SELECT instrument, text FROM title ORDER BY instrument, text";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push((instrument(row, 0)?, row.get(1)?));
        }
        Ok(all)
    }

    fn title(&self, instrument: Instrument, title: &str) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT id FROM title WHERE instrument = ?1 AND text = ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let key = params![instrument.name(), title];
        Ok(statement.query_row(key, |row| row.get(0)).optional()?)
    }
}

/// The links of a layout, in their order.
pub(super) fn layout_links(connection: &Connection, layout: i64) -> Result<Vec<Link>, StoreError> {
    let ids = layout_ids(connection, layout)?;
    ids.into_iter().map(|id| link(connection, id)).collect()
}

/// The numbers of the links of a layout, in their order.
pub(super) fn layout_ids(connection: &Connection, layout: i64) -> Result<Vec<u64>, StoreError> {
    let sql = "SELECT links FROM layout WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let bytes: Vec<u8> = statement
        .query_row([layout], |row| row.get(0))
        .optional()?
        .ok_or(StoreError::Damaged)?;
    let mut input = Reader(&bytes);
    let mut links = Vec::new();
    let mut id: i64 = 0;
    while !input.0.is_empty() {
        id = id.wrapping_add(input.signed()?);
        links.push(u64::try_from(id).map_err(|_| StoreError::Damaged)?);
    }
    Ok(links)
}

fn link(connection: &Connection, id: u64) -> Result<Link, StoreError> {
    let sql = "SELECT a.text, b.text, c.text, d.text, mode, e.text FROM link
        JOIN word AS a ON a.id = source JOIN word AS b ON b.id = destination
        JOIN word AS c ON c.id = source_protocol JOIN word AS d ON d.id = destination_protocol
        JOIN word AS e ON e.id = credential WHERE link.id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([signed(id)])?;
    let row = rows.next()?.ok_or(StoreError::Damaged)?;
    let mode: String = row.get(4)?;
    Ok(Link {
        source: row.get(0)?,
        destination: row.get(1)?,
        source_protocol: row.get(2)?,
        destination_protocol: row.get(3)?,
        mode: Mode::from_name(&mode).ok_or(StoreError::Damaged)?,
        credential: row.get(5)?,
    })
}

fn summary(row: &Row<'_>) -> Result<Summary, StoreError> {
    Ok(Summary {
        id: row.get(0)?,
        instrument: instrument(row, 1)?,
        title: row.get(2)?,
        started_ms: unsigned(row, 3)?,
        ended_ms: unsigned(row, 4)?,
        program: row.get(5)?,
        is_complete: row.get(6)?,
        passed: unsigned(row, 7)?,
        failed: unsigned(row, 8)?,
        skipped: unsigned(row, 9)?,
        not_applicable: unsigned(row, 10)?,
        figures: unsigned(row, 11)?,
        detail: match unsigned(row, 12)? {
            0 => Detail::Counts,
            1 => Detail::Outcomes,
            2 => Detail::Full,
            _ => return Err(StoreError::Damaged),
        },
        ended_by: row.get(13)?,
    })
}

fn instrument(row: &Row<'_>, column: usize) -> Result<Instrument, StoreError> {
    let name: String = row.get(column)?;
    Instrument::from_name(&name).map_err(|_| StoreError::Damaged)
}

fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, StoreError> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| StoreError::Damaged)
}

fn wish(is_higher_better: bool) -> Wish {
    match is_higher_better {
        true => Wish::Higher,
        false => Wish::Lower,
    }
}

/// What [`super::write`] wrote about the endpoints of a run.
fn conditions(bytes: &[u8], names: &[String]) -> Result<Vec<EndpointVerdict>, StoreError> {
    let mut input = Reader(bytes);
    let mut verdict = |name: &String| {
        Ok(EndpointVerdict {
            name: name.clone(),
            condition: match input.number()? {
                0 => Condition::Good,
                1 => Condition::Bad,
                2 => Condition::Unknown,
                3 => Condition::InDowntime,
                _ => return Err(Torn),
            },
            counts: Counts {
                tried_as_source: input.number()?,
                failed_as_source: input.number()?,
                tried_as_destination: input.number()?,
                failed_as_destination: input.number()?,
            },
        })
    };
    let all = names.iter().map(&mut verdict).collect::<Result<Vec<_>, Torn>>();
    Ok(all?)
}
