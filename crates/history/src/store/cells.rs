//! The cells of a run as bytes: texts once, numbers as short as they are, times by their
//! differences. The links are kept apart, since they are the same in each run.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use types::{Phase, Side};

use super::bytes::{Reader, Torn, Writer};
use crate::model::{Cell, CountedFailure, Failure, Link, Outcome, RatePoint, Step};

/// How much is kept of the cells of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// How many cells passed and failed, and the verdict.
    Counts,
    /// How each cell ended and how long it took, without steps and words.
    Outcomes,
    /// Everything.
    Full,
}

impl Detail {
    /// The word in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counts => "counts",
            Self::Outcomes => "outcomes",
            Self::Full => "full",
        }
    }
}

/// Cells of one copy that failed or passed entirely.
const IS_PLAIN: u64 = 1;
const HAS_STEPS: u64 = 2;
const HAS_FAILURES: u64 = 4;
const HAS_RATES: u64 = 8;
const HAS_JOB: u64 = 16;
const HAS_BEGIN: u64 = 32;
const HAS_BYTES: u64 = 64;

const PASSED: u64 = 0;
const FAILED: u64 = 1;
const SKIPPED: u64 = 2;
const NOT_APPLICABLE: u64 = 3;

/// Cells as bytes, without their links.
pub(super) fn encode(cells: &[Cell], detail: Detail) -> Vec<u8> {
    let mut encoder = Encoder {
        out: Writer::default(),
        texts: Texts::default(),
        detail,
        started_ms: 0,
        bytes: 0,
    };
    cells.iter().for_each(|cell| encoder.cell(cell));
    let mut all = Writer::default();
    all.number(encoder.texts.list.len() as u64);
    encoder.texts.list.iter().for_each(|text| all.text(text));
    all.0.extend_from_slice(&encoder.out.0);
    all.0
}

/// The cells with these links.
pub(super) fn decode(bytes: &[u8], links: Vec<Link>) -> Result<Vec<Cell>, Torn> {
    let mut input = Reader(bytes);
    let count = input.count()?;
    let texts = (0..count).map(|_| input.text()).collect::<Result<Vec<&str>, Torn>>()?;
    let mut decoder = Decoder {
        input,
        texts,
        started_ms: 0,
        bytes: 0,
    };
    let cells = links.into_iter().map(|link| decoder.cell(link));
    cells.collect()
}

/// Texts, each once.
#[derive(Default)]
struct Texts {
    places: HashMap<String, u64>,
    list: Vec<String>,
}

impl Texts {
    fn place(&mut self, text: &str) -> u64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.list.len() as u64;
        self.list.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}

struct Encoder {
    out: Writer,
    texts: Texts,
    detail: Detail,
    started_ms: u64,
    bytes: u64,
}

impl Encoder {
    fn text(&mut self, text: &str) {
        let place = self.texts.place(text);
        self.out.number(place);
    }

    /// A text that may be missing, and is left out with less detail.
    fn words(&mut self, text: Option<&str>) {
        match text.filter(|_| self.detail == Detail::Full) {
            Some(text) => {
                let place = self.texts.place(text);
                self.out.number(place + 1);
            }
            None => self.out.number(0),
        }
    }

    fn cell(&mut self, cell: &Cell) {
        let is_full = self.detail == Detail::Full;
        let is_plain = cell.copies == 1 && cell.copies_failed == u64::from(cell.outcome.failure().is_some());
        let flag = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        let flags = flag(is_plain, IS_PLAIN)
            | flag(cell.started_ms > 0, HAS_BEGIN)
            | flag(cell.bytes > 0, HAS_BYTES)
            | flag(is_full && !cell.steps.is_empty(), HAS_STEPS)
            | flag(is_full && !cell.failures.is_empty(), HAS_FAILURES)
            | flag(is_full && !cell.rates.is_empty(), HAS_RATES)
            | flag(is_full && cell.job_url.is_some(), HAS_JOB);
        self.out.number(flags);
        self.outcome(&cell.outcome);
        if cell.started_ms > 0 {
            self.out.signed(cell.started_ms.wrapping_sub(self.started_ms) as i64);
            self.started_ms = cell.started_ms;
        }
        self.out.number(cell.copy_ms);
        // Mostly the same file, so that the difference is 0.
        if cell.bytes > 0 {
            self.out.signed(cell.bytes.wrapping_sub(self.bytes) as i64);
            self.bytes = cell.bytes;
        }
        if !is_plain {
            self.out.number(cell.copies);
            self.out.number(cell.copies_failed);
        }
        if flags & HAS_STEPS > 0 {
            self.steps(&cell.steps);
        }
        if flags & HAS_FAILURES > 0 {
            self.out.number(cell.failures.len() as u64);
            for counted in &cell.failures {
                self.out.number(counted.count);
                self.failure(&counted.failure);
            }
        }
        if flags & HAS_RATES > 0 {
            self.out.number(cell.rates.len() as u64);
            let mut at_ms = 0;
            for rate in &cell.rates {
                self.out.signed(rate.at_ms.wrapping_sub(at_ms) as i64);
                self.out.number(rate.bytes);
                at_ms = rate.at_ms;
            }
        }
        if let Some(url) = cell.job_url.as_deref().filter(|_| is_full) {
            self.text(url);
        }
    }

    fn steps(&mut self, steps: &[Step]) {
        self.out.number(steps.len() as u64);
        for step in steps {
            self.text(&step.name);
            self.out.number(step.took_ms);
            self.outcome(&step.outcome);
        }
    }

    fn outcome(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Passed => self.out.number(PASSED),
            Outcome::Failed(failure) => {
                self.out.number(FAILED);
                self.failure(failure);
            }
            Outcome::Skipped { why } => {
                self.out.number(SKIPPED);
                self.text(why);
            }
            Outcome::NotApplicable { why } => {
                self.out.number(NOT_APPLICABLE);
                self.text(why);
            }
        }
    }

    fn failure(&mut self, failure: &Failure) {
        self.text(failure.side.name());
        self.text(failure.phase.name());
        self.text(&failure.code);
        self.out
            .number(failure.server_status.map_or(0, |status| u64::from(status) + 1));
        self.words(Some(&failure.says));
        self.words(failure.server_words.as_deref());
        let lines = match self.detail {
            Detail::Full => &failure.reproduce[..],
            _ => &[],
        };
        self.out.number(lines.len() as u64);
        lines.iter().for_each(|line| self.text(line));
    }
}

struct Decoder<'a> {
    input: Reader<'a>,
    texts: Vec<&'a str>,
    started_ms: u64,
    bytes: u64,
}

impl<'a> Decoder<'a> {
    fn text(&mut self) -> Result<&'a str, Torn> {
        let place = self.input.number()?;
        self.text_at(place)
    }

    fn text_at(&self, place: u64) -> Result<&'a str, Torn> {
        let place = usize::try_from(place).map_err(|_| Torn)?;
        self.texts.get(place).copied().ok_or(Torn)
    }

    fn words(&mut self) -> Result<Option<&'a str>, Torn> {
        match self.input.number()? {
            0 => Ok(None),
            place => self.text_at(place - 1).map(Some),
        }
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T, Torn>) -> Result<Vec<T>, Torn> {
        let count = self.input.count()?;
        (0..count).map(|_| read(self)).collect()
    }

    fn cell(&mut self, link: Link) -> Result<Cell, Torn> {
        let flags = self.input.number()?;
        let has = |bit: u64| flags & bit > 0;
        let outcome = self.outcome()?;
        let started_ms = match has(HAS_BEGIN) {
            true => {
                self.started_ms = self.started_ms.wrapping_add_signed(self.input.signed()?);
                self.started_ms
            }
            false => 0,
        };
        let copy_ms = self.input.number()?;
        let bytes = match has(HAS_BYTES) {
            true => {
                self.bytes = self.bytes.wrapping_add_signed(self.input.signed()?);
                self.bytes
            }
            false => 0,
        };
        let (copies, copies_failed) = match has(IS_PLAIN) {
            true => (1, u64::from(outcome.failure().is_some())),
            false => (self.input.number()?, self.input.number()?),
        };
        let steps = match has(HAS_STEPS) {
            true => self.list(Self::step)?,
            false => Vec::new(),
        };
        let failures = match has(HAS_FAILURES) {
            true => self.list(Self::counted)?,
            false => Vec::new(),
        };
        let rates = match has(HAS_RATES) {
            true => self.rates()?,
            false => Vec::new(),
        };
        let job_url = match has(HAS_JOB) {
            true => Some(self.text()?.to_owned()),
            false => None,
        };
        Ok(Cell {
            link,
            outcome,
            steps,
            started_ms,
            copy_ms,
            bytes,
            copies,
            copies_failed,
            failures,
            rates,
            job_url,
        })
    }

    fn step(&mut self) -> Result<Step, Torn> {
        Ok(Step {
            name: self.text()?.to_owned(),
            took_ms: self.input.number()?,
            outcome: self.outcome()?,
        })
    }

    fn counted(&mut self) -> Result<CountedFailure, Torn> {
        Ok(CountedFailure {
            count: self.input.number()?,
            failure: self.failure()?,
        })
    }

    fn rates(&mut self) -> Result<Vec<RatePoint>, Torn> {
        let mut at_ms: u64 = 0;
        self.list(|decoder| {
            at_ms = at_ms.wrapping_add_signed(decoder.input.signed()?);
            Ok(RatePoint {
                at_ms,
                bytes: decoder.input.number()?,
            })
        })
    }

    fn outcome(&mut self) -> Result<Outcome, Torn> {
        Ok(match self.input.number()? {
            PASSED => Outcome::Passed,
            FAILED => Outcome::Failed(Box::new(self.failure()?)),
            SKIPPED => Outcome::Skipped {
                why: self.text()?.to_owned(),
            },
            NOT_APPLICABLE => Outcome::NotApplicable {
                why: self.text()?.to_owned(),
            },
            _ => return Err(Torn),
        })
    }

    fn failure(&mut self) -> Result<Failure, Torn> {
        let (side, phase) = (self.text()?, self.text()?);
        Ok(Failure {
            side: Side::ALL.into_iter().find(|known| known.name() == side).ok_or(Torn)?,
            phase: Phase::ALL.into_iter().find(|known| known.name() == phase).ok_or(Torn)?,
            code: self.text()?.to_owned(),
            server_status: match self.input.number()? {
                0 => None,
                status => Some(u32::try_from(status - 1).map_err(|_| Torn)?),
            },
            says: self.words()?.unwrap_or_default().to_owned(),
            server_words: self.words()?.map(str::to_owned),
            reproduce: self.list(|decoder| decoder.text().map(str::to_owned))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::{Mesh, failure};
    use types::Side;

    fn rich() -> Vec<Cell> {
        let mesh = Mesh::full(5);
        let mut run = mesh.run(1_800_000_000_000, |link| {
            (link.source == "site-01").then_some(Side::Source)
        });
        let why = "not asked".to_owned();
        run.cells[3] = Cell::untried(run.cells[3].link.clone(), Outcome::Skipped { why: why.clone() });
        run.cells[4] = Cell::untried(run.cells[4].link.clone(), Outcome::NotApplicable { why });
        let stressed = &mut run.cells[9];
        (stressed.copies, stressed.copies_failed, stressed.bytes) = (250, 3, 1 << 40);
        stressed.failures = vec![CountedFailure {
            failure: failure(Side::Destination),
            count: 3,
        }];
        let points = [(100, 5), (2_000, u64::MAX)];
        stressed.rates = points.map(|(at_ms, bytes)| RatePoint { at_ms, bytes }).to_vec();
        stressed.job_url = Some("https://queue/job/1".to_owned());
        run.cells
    }

    fn links(cells: &[Cell]) -> Vec<Link> {
        cells.iter().map(|cell| cell.link.clone()).collect()
    }

    #[test]
    fn cells_come_back() {
        let cells = rich();
        let bytes = encode(&cells, Detail::Full);
        assert_eq!(decode(&bytes, links(&cells)).unwrap(), cells);
        assert!(bytes.len() < cells.len() * 30, "{}", bytes.len());
    }

    #[test]
    fn outcomes_are_what_is_left_with_less_detail() {
        let cells = rich();
        let less = decode(&encode(&cells, Detail::Outcomes), links(&cells)).unwrap();
        let expected = cells.into_iter().map(|mut cell| {
            (cell.steps, cell.failures, cell.rates, cell.job_url) = (Vec::new(), Vec::new(), Vec::new(), None);
            if let Outcome::Failed(failure) = &mut cell.outcome {
                (failure.says, failure.server_words, failure.reproduce) = (String::new(), None, Vec::new());
            }
            cell
        });
        assert_eq!(less, expected.collect::<Vec<_>>());
    }

    #[test]
    fn torn_bytes_are_an_error() {
        let cells = rich();
        let bytes = encode(&cells, Detail::Full);
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length], links(&cells)).is_err(), "{length}");
        }
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2_000 {
            let mut broken = bytes.clone();
            let at = random.usize(..broken.len());
            broken[at] = random.u8(..);
            // It may be another run, but never a panic.
            let _ = decode(&broken, links(&cells));
        }
    }
}
