//! Runs of the instruments that a history keeps, for pages: read when someone looks.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use history::{Filter, Instrument, Ongoing, RunId, Standing, Store, StoreError, Summary};
use reports::limits::TREND_RUNS_MAX;
use reports::{View, html, json};
use serde::Serialize;
use tokio::sync::Mutex;
use types::{Phase, Result, Side};

use crate::limits::{HISTORY_WAIT, RUNS_AGE_MAX, RUNS_LISTED_MAX};

/// What pages show; a benchmark has no endpoints.
const SHOWN: [Instrument; 3] = [Instrument::Mesh, Instrument::Smoke, Instrument::Stress];

/// The path of the page of a run.
pub(crate) const RUNS: &str = "/mesh/runs/";

/// The history that pages show.
pub struct KeptRuns {
    file: Box<dyn Fn() -> Option<PathBuf> + Send + Sync>,
    /// What was read last, for the run that was asked for. Those who come meanwhile wait: a large
    /// history is read once at a time.
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    at: Instant,
    run: Option<RunId>,
    overview: Arc<Overview>,
}

/// What a history has.
#[derive(Debug, Serialize)]
pub(crate) struct Overview {
    /// The file.
    pub(crate) file: String,
    /// Why it cannot be used, or has nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<String>,
    /// The newest runs of each instrument, newest first.
    pub(crate) runs: Vec<Summary>,
    /// The run that is looked at.
    pub(crate) run: Option<SeenRun>,
}

/// A run, and how its endpoints stand after it.
#[derive(Debug, Serialize)]
pub(crate) struct SeenRun {
    #[serde(flatten)]
    pub(crate) summary: Summary,
    pub(crate) endpoints: Vec<Standing>,
    pub(crate) faults: Vec<Ongoing>,
    /// Its matrices as HTML; empty if the cells are no longer kept.
    #[serde(skip)]
    pub(crate) matrix: String,
}

/// The whole page of a run, and the same for programs.
#[derive(Debug)]
pub(crate) struct RunPage {
    pub(crate) html: String,
    pub(crate) json: String,
}

impl fmt::Debug for KeptRuns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeptRuns")
    }
}

impl KeptRuns {
    /// Those in the file that this names at each look; `None`: there is no history.
    pub fn new(file: impl Fn() -> Option<PathBuf> + Send + Sync + 'static) -> Self {
        Self {
            file: Box::new(file),
            kept: Mutex::default(),
        }
    }

    /// Whether there is a history.
    pub(crate) fn is_there(&self) -> bool {
        (self.file)().is_some()
    }

    /// What the history has, with one run: the named one, or the newest of a mesh; `None`: there is
    /// no history.
    ///
    /// # Errors
    /// `internal`.
    pub(crate) async fn overview(&self, run: Option<RunId>) -> Result<Option<Arc<Overview>>> {
        let Some(file) = (self.file)() else { return Ok(None) };
        let mut kept = self.kept.lock().await;
        let is_fresh = |kept: &&Kept| {
            kept.at.elapsed() < RUNS_AGE_MAX && kept.run == run && *kept.overview.file == *file.to_string_lossy()
        };
        if let Some(known) = kept.as_ref().filter(is_fresh) {
            return Ok(Some(known.overview.clone()));
        }
        let read = execution::blocking_try(Side::Active, Phase::Open, move || Ok(Overview::read(&file, run)));
        let overview = Arc::new(read.await?);
        *kept = Some(Kept {
            at: Instant::now(),
            run,
            overview: overview.clone(),
        });
        Ok(Some(overview))
    }

    /// The page of a run; why there is none as words; `None`: there is no history.
    ///
    /// # Errors
    /// `internal`.
    pub(crate) async fn page(&self, id: RunId) -> Result<Option<std::result::Result<RunPage, String>>> {
        let Some(file) = (self.file)() else { return Ok(None) };
        // Large runs are made to pages one after the other.
        let _turn = self.kept.lock().await;
        let made = execution::blocking_try(Side::Active, Phase::Open, move || Ok(RunPage::read(&file, id)));
        made.await.map(Some)
    }
}

impl Overview {
    fn read(file: &Path, run: Option<RunId>) -> Self {
        let mut overview = Self {
            file: file.to_string_lossy().into_owned(),
            fault: None,
            runs: Vec::new(),
            run: None,
        };
        match open(file) {
            Ok(store) => {
                if let Err(error) = overview.fill(&store, run) {
                    overview.fault = Some(fault(file, &error));
                }
            }
            Err(words) => overview.fault = Some(words),
        }
        overview
    }

    fn fill(&mut self, store: &Store, wanted: Option<RunId>) -> std::result::Result<(), StoreError> {
        for instrument in SHOWN {
            let filter = Filter {
                instrument: Some(instrument),
                title: None,
            };
            self.runs.extend(store.list(&filter, RUNS_LISTED_MAX)?);
        }
        self.runs.sort_by_key(|run| std::cmp::Reverse((run.started_ms, run.id)));
        let summary = match wanted {
            Some(id) => store.summary(id)?.filter(|run| SHOWN.contains(&run.instrument)),
            None => self.newest(),
        };
        if let Some(summary) = summary {
            self.run = SeenRun::read(store, summary)?;
        }
        Ok(())
    }

    /// The newest run of a mesh, or else of another instrument. None is of the future.
    fn newest(&self) -> Option<Summary> {
        let past = || self.runs.iter().filter(|run| !Store::is_future(run.started_ms));
        let of_mesh = past().find(|run| run.instrument == Instrument::Mesh);
        of_mesh.or_else(|| past().next()).cloned()
    }
}

impl SeenRun {
    fn read(store: &Store, summary: Summary) -> std::result::Result<Option<Self>, StoreError> {
        let Some(run) = store.load(summary.id)? else {
            return Ok(None);
        };
        let past = store.past(&run, TREND_RUNS_MAX)?;
        let matrix = match run.cells.is_empty() {
            true => String::new(),
            false => html::matrix(&View::new(&run), &format!("{RUNS}{}", summary.id)),
        };
        Ok(Some(Self {
            summary,
            endpoints: past.standings,
            faults: past.faults,
            matrix,
        }))
    }
}

impl RunPage {
    fn read(file: &Path, id: RunId) -> std::result::Result<Self, String> {
        let store = open(file)?;
        let words = |error: StoreError| fault(file, &error);
        let run = store.load(id).map_err(words)?;
        let run = run.filter(|run| SHOWN.contains(&run.instrument));
        let run = run.ok_or_else(|| format!("{} has no run {id}", file.display()))?;
        let past = store.past(&run, TREND_RUNS_MAX).map_err(words)?;
        let scores = past.standings.into_iter();
        let view = View::new(&run)
            .with_faults(&past.faults)
            .with_trends(past.links)
            .with_scores(scores.map(|standing| (standing.endpoint, standing.score)).collect());
        Ok(Self {
            html: html::write(&view),
            json: json::write(&json::without_addresses(&run)),
        })
    }
}

/// Opens a history to read.
///
/// # Errors
/// Why it cannot be used, in words.
fn open(file: &Path) -> std::result::Result<Store, String> {
    match Store::open_to_read_within(file, HISTORY_WAIT) {
        Ok(Some(store)) => Ok(store),
        Ok(None) => Err(format!(
            "{}: no runs are kept yet; crossload mesh, smoke and stress keep theirs there with --history",
            file.display()
        )),
        Err(error) => Err(fault(file, &error)),
    }
}

/// What keeps a history from being read.
fn fault(file: &Path, error: &StoreError) -> String {
    format!("{} cannot be read: {error}", file.display())
}

#[cfg(test)]
mod tests {
    use testkit::{Scratch, mesh_run};

    use super::*;

    fn history(file: &Path) -> (RunId, RunId) {
        let mut store = Store::open(file).unwrap();
        let mut mesh = mesh_run(4);
        // In the past on any machine.
        mesh.started_ms = 1_730_419_200_000;
        mesh.ended_ms = 1_730_419_260_000;
        let mut smoke = mesh.clone();
        smoke.instrument = Instrument::Smoke;
        smoke.started_ms += 60_000;
        (store.add(&mesh).unwrap(), store.add(&smoke).unwrap())
    }

    #[test]
    fn the_newest_mesh_is_shown_and_any_run_on_request() {
        let scratch = Scratch::new("kept-runs").unwrap();
        let file = scratch.join("history.sqlite");
        let (mesh, smoke) = history(&file);
        let overview = Overview::read(&file, None);
        let ids: Vec<RunId> = overview.runs.iter().map(|run| run.id).collect();
        assert_eq!((overview.fault, ids), (None, vec![smoke, mesh]));
        let seen = overview.run.unwrap();
        assert_eq!(seen.summary.id, mesh);
        assert!(
            seen.matrix.contains(&format!("href=\"{RUNS}{mesh}#")),
            "{}",
            seen.matrix
        );
        assert!(!seen.endpoints.is_empty());
        assert_eq!(Overview::read(&file, Some(smoke)).run.unwrap().summary.id, smoke);
        assert!(Overview::read(&file, Some(99)).run.is_none());
        let page = RunPage::read(&file, mesh).unwrap();
        assert!(
            page.html.starts_with("<!DOCTYPE html>") && !page.json.contains('@'),
            "{}",
            page.json
        );
        assert!(RunPage::read(&file, 99).unwrap_err().ends_with("has no run 99"));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let scratch = Scratch::new("kept-runs-faults").unwrap();
        let file = scratch.join("history.sqlite");
        let words = || Overview::read(&file, None).fault.unwrap();
        assert!(words().contains("no runs are kept yet"), "{}", words());
        std::fs::write(&file, "no database at all, but long enough to look like one of them").unwrap();
        assert!(words().contains("cannot be read: "), "{}", words());
    }

    #[tokio::test]
    async fn a_history_is_named_at_each_look() {
        let scratch = Scratch::new("kept-runs-named").unwrap();
        let file = scratch.join("history.sqlite");
        history(&file);
        let runs = KeptRuns::new(move || Some(file.clone()));
        let first = runs.overview(None).await.unwrap().unwrap();
        let again = runs.overview(None).await.unwrap().unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert!(!Arc::ptr_eq(&first, &runs.overview(Some(1)).await.unwrap().unwrap()));
        assert!(KeptRuns::new(|| None).overview(None).await.unwrap().is_none());
    }
}
