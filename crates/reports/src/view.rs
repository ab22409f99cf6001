//! A run in the order in which it is shown.

use std::collections::{BTreeMap, HashMap};

use history::{Blame, Cell, Link, LinkRun, LinkSeries, Mode, Ongoing, Outcome, Run};

use crate::group::{self, Group};
use crate::limits::{TREND_RUNS_MAX, WORDS_SHOWN};
use crate::words::first_words;

/// How many cells ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// As they should.
    pub passed: u64,
    /// Not as they should.
    pub failed: u64,
    /// Not tried this time.
    pub skipped: u64,
    /// Can never be tried.
    pub not_applicable: u64,
}

impl Tally {
    /// Counts one more.
    pub fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Skipped { .. } => self.skipped += 1,
            Outcome::NotApplicable { .. } => self.not_applicable += 1,
        }
    }

    /// The tally of some cells.
    #[must_use]
    pub fn of<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Self {
        let mut tally = Self::default();
        cells.into_iter().for_each(|cell| tally.add(&cell.outcome));
        tally
    }

    /// Cells that were tried.
    #[must_use]
    pub fn tried(&self) -> u64 {
        self.passed + self.failed
    }

    /// All cells.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.tried() + self.skipped + self.not_applicable
    }

    /// The counts that are not zero, in words.
    #[must_use]
    pub fn words(&self) -> String {
        let counts = [
            (self.passed, "passed"),
            (self.failed, "failed"),
            (self.skipped, "skipped"),
            (self.not_applicable, "not applicable"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
        match words.is_empty() {
            true => "nothing was tried".to_owned(),
            false => words.join(", "),
        }
    }
}

/// Since when a failure lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lasting {
    /// Begin of the first run in a row with it, in milliseconds since 1970.
    pub since_ms: u64,
    /// The runs of this row.
    pub runs: u64,
    /// Begin of the last run without it, before that.
    pub last_good_ms: Option<u64>,
    /// Earlier runs were not looked at.
    pub may_be_longer: bool,
}

impl Lasting {
    /// Such as `fails since 2026-11-29 03:00 UTC in 4 runs; last good 2026-11-29 02:00 UTC`.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = format!("fails since {}", history::minute(self.since_ms));
        if self.may_be_longer {
            words.push_str(" or longer,");
        }
        if self.runs > 1 {
            words.push_str(&format!(" in {} runs", self.runs));
        }
        match self.last_good_ms {
            Some(last_good_ms) => words.push_str(&format!("; last good {}", history::minute(last_good_ms))),
            None if self.may_be_longer => {}
            None => words.push_str("; no good run is known"),
        }
        words
    }
}

/// A source and a destination, as places in [`View::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The source.
    pub source: usize,
    /// The destination.
    pub destination: usize,
}

/// All cells of one way to copy: its protocols, mode and credential.
#[derive(Clone, Debug)]
pub struct Plane {
    /// The scheme of URLs at the source.
    pub source_protocol: String,
    /// The scheme of URLs at the destination.
    pub destination_protocol: String,
    /// How it is copied.
    pub mode: Mode,
    /// The kind of credential.
    pub credential: String,
    /// Places of the cells in the run.
    pub cells: BTreeMap<Pair, usize>,
    /// How they ended.
    pub tally: Tally,
}

impl Plane {
    fn of(link: &Link) -> Self {
        Self {
            source_protocol: link.source_protocol.clone(),
            destination_protocol: link.destination_protocol.clone(),
            mode: link.mode,
            credential: link.credential.clone(),
            cells: BTreeMap::new(),
            tally: Tally::default(),
        }
    }

    /// Protocols, mode and credential, such as `https pull, token`; `roots to https streamed,
    /// x509`.
    #[must_use]
    pub fn name(&self) -> String {
        let protocols = match self.source_protocol == self.destination_protocol {
            true => self.source_protocol.clone(),
            false => format!("{} to {}", self.source_protocol, self.destination_protocol),
        };
        format!("{protocols} {}, {}", self.mode.name(), self.credential)
    }
}

/// A run in the order in which it is shown.
#[derive(Debug)]
pub struct View<'a> {
    /// The run.
    pub run: &'a Run,
    /// The names of all endpoints: those of the run in its order, then those that only cells name.
    pub names: Vec<&'a str>,
    /// The ways to copy, by protocols, mode and credential.
    pub planes: Vec<Plane>,
    /// What failed, by what it has in common; the largest first.
    pub groups: Vec<Group>,
    /// For each cell of the run, its place in `planes`.
    pub plane_of: Vec<usize>,
    /// How links did in the newest runs, this one included, by the begin of the run, oldest first;
    /// empty without a history.
    pub trends: HashMap<Link, Vec<(u64, LinkRun)>>,
    /// The scores of endpoints after this run, from 0 to 20; empty without a history.
    pub scores: BTreeMap<String, u8>,
    /// For each cell of the run that failed, its place in `groups`.
    pub group_of: HashMap<usize, usize>,
    /// How all cells ended.
    pub tally: Tally,
    /// Who is at fault for what failed, a sentence for each fault; the gravest first.
    pub faults: Vec<String>,
}

impl<'a> View<'a> {
    /// Orders a run.
    #[must_use]
    pub fn new(run: &'a Run) -> Self {
        let mut names: Vec<&str> = run.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
        let mut place_of: HashMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let mut place = |name: &'a str| {
            *place_of.entry(name).or_insert_with(|| {
                names.push(name);
                names.len() - 1
            })
        };
        let mut planes: BTreeMap<(&str, &str, Mode, &str), Plane> = BTreeMap::new();
        for (at, cell) in run.cells.iter().enumerate() {
            let pair = Pair {
                source: place(&cell.link.source),
                destination: place(&cell.link.destination),
            };
            let plane = planes.entry(key(&cell.link)).or_insert_with(|| Plane::of(&cell.link));
            plane.cells.insert(pair, at);
            plane.tally.add(&cell.outcome);
        }
        let order: HashMap<_, usize> = planes.keys().enumerate().map(|(at, key)| (*key, at)).collect();
        let plane_of = run.cells.iter().map(|cell| order[&key(&cell.link)]).collect();
        let groups = group::groups(&run.cells);
        let members = groups.iter().enumerate();
        let group_of = members.flat_map(|(at, group)| group.cells.iter().map(move |cell| (*cell, at)));
        let tally = Tally::of(&run.cells);
        let faults = Blame::of(run).faults().map(ToString::to_string).collect();
        Self {
            run,
            names,
            plane_of,
            trends: HashMap::new(),
            scores: BTreeMap::new(),
            group_of: group_of.collect(),
            planes: planes.into_values().collect(),
            groups,
            tally,
            faults,
        }
    }

    /// The same with the faults as earlier runs know them: since when they last.
    #[must_use]
    pub fn with_faults(mut self, faults: &[Ongoing]) -> Self {
        self.faults = faults.iter().map(ToString::to_string).collect();
        self
    }

    /// The same with what links did in the newest runs.
    #[must_use]
    pub fn with_trends(mut self, series: Vec<LinkSeries<LinkRun>>) -> Self {
        self.trends = series.into_iter().map(|one| (one.link, one.points)).collect();
        self
    }

    /// The same with the scores of its endpoints.
    #[must_use]
    pub fn with_scores(mut self, scores: BTreeMap<String, u8>) -> Self {
        self.scores = scores;
        self
    }

    /// Since when the links of a group fail, without a break in the newest runs; `None` without a
    /// history.
    #[must_use]
    pub fn lasting(&self, group: &Group) -> Option<Lasting> {
        let begin_ms = self.run.started_ms;
        let links = group.cells.iter().map(|at| &self.run.cells[*at].link);
        let points = links.filter_map(|link| self.trends.get(link)).flatten();
        // How many links were tried in a run, and how many copies failed, each link counted as one.
        let mut earlier: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for (started_ms, run) in points.filter(|(started_ms, _)| *started_ms < begin_ms) {
            let (tried, failed) = earlier.entry(*started_ms).or_default();
            *tried += 1.0;
            *failed += run.failed_share;
        }
        let mut lasting = Lasting {
            since_ms: begin_ms,
            runs: 1,
            last_good_ms: None,
            may_be_longer: false,
        };
        for (started_ms, (tried, failed)) in earlier.iter().rev() {
            if failed * 2.0 <= *tried {
                lasting.last_good_ms = Some(*started_ms);
                break;
            }
            lasting.since_ms = *started_ms;
            lasting.runs += 1;
        }
        lasting.may_be_longer = lasting.last_good_ms.is_none() && lasting.runs >= TREND_RUNS_MAX;
        (!self.trends.is_empty()).then_some(lasting)
    }

    /// The way that a cell of the run was copied.
    #[must_use]
    pub fn plane(&self, cell: usize) -> &Plane {
        &self.planes[self.plane_of[cell]]
    }

    /// The places in `names` of the endpoints that are the source of a cell, in their order.
    #[must_use]
    pub fn sources(&self) -> Vec<usize> {
        self.used(|pair| pair.source)
    }

    /// The places of those that are the destination of a cell.
    #[must_use]
    pub fn destinations(&self) -> Vec<usize> {
        self.used(|pair| pair.destination)
    }

    fn used(&self, side: impl Fn(Pair) -> usize) -> Vec<usize> {
        let pairs = self.planes.iter().flat_map(|plane| plane.cells.keys());
        let mut places: Vec<usize> = pairs.map(|pair| side(*pair)).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// The cells of a pair of endpoints in all ways to copy, as places in the run.
    #[must_use]
    pub fn between(&self, pair: Pair) -> Vec<usize> {
        let cells = self.planes.iter().filter_map(|plane| plane.cells.get(&pair));
        cells.copied().collect()
    }

    /// Whether cells are requests to single endpoints, so that a matrix would be its diagonal.
    #[must_use]
    pub fn is_of_single_endpoints(&self) -> bool {
        self.planes.iter().all(|plane| plane.mode == Mode::Probe)
    }

    /// Whether cells are of many copies, whose rates matter.
    #[must_use]
    pub fn has_rates(&self) -> bool {
        self.run.cells.iter().any(|cell| cell.copies > 1)
    }

    /// What was run and what came of it, in one line without line end.
    #[must_use]
    pub fn summary(&self) -> String {
        let run = self.run;
        let endpoints = crate::words::counted(self.names.len() as u64, "endpoint");
        let cells = crate::words::counted(self.tally.all(), "cell");
        let end = match (run.is_complete, self.ended_by()) {
            (true, _) => String::new(),
            (false, None) => "; ended early".to_owned(),
            (false, Some(why)) => format!("; ended early: {why}"),
        };
        format!("{endpoints}, {cells}: {}{end}", self.tally.words())
    }

    /// What a reader of a run that ended early must know, as a sentence.
    #[must_use]
    pub fn early_end(&self) -> Option<String> {
        let why = self.ended_by().map_or_else(String::new, |why| format!(" ({why})"));
        let words = format!("This run ended early{why}: these are the results until then.");
        (!self.run.is_complete).then_some(words)
    }

    /// Why the run ended early; safe within a line.
    fn ended_by(&self) -> Option<String> {
        let why = self.run.ended_by.as_deref()?;
        Some(first_words(why, WORDS_SHOWN))
    }
}

fn key(link: &Link) -> (&str, &str, Mode, &str) {
    (
        &link.source_protocol,
        &link.destination_protocol,
        link.mode,
        &link.credential,
    )
}
