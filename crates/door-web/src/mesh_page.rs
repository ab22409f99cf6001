//! The page *Mesh*: the last runs of the instruments, the newest matrix, and how endpoints stand.

use askama::Template;
use history::{Detail, Standing, State, Store, Summary, minute};

use crate::kept_runs::{Overview, RUNS, SeenRun};
use crate::limits::STANDINGS_SHOWN_MAX;
use crate::queue_words::Shown;
use crate::shell::Shell;
use crate::words::Words;

#[derive(Template)]
#[template(path = "mesh.html")]
pub(crate) struct MeshPage<'a> {
    shell: Shell,
    fault: Option<Words>,
    runs: Vec<RunRow<'a>>,
    seen: Option<Seen<'a>>,
    /// A run was asked for, and is not there.
    is_missing: bool,
}

struct RunRow<'a> {
    run: &'a Summary,
    title: Words,
    program: Words,
    started: String,
    state: Shown,
    /// What is to be known of it besides.
    note: &'static str,
    page: String,
    is_seen: bool,
}

/// The run that is looked at.
struct Seen<'a> {
    run: &'a Summary,
    title: Words,
    started: String,
    page: String,
    faults: Vec<Words>,
    standings: Vec<StandingRow>,
    more_standings: usize,
    /// As the reports make it, escaped.
    matrix: &'a str,
}

struct StandingRow {
    endpoint: Words,
    state: Shown,
    since: String,
    score: u8,
    last_good: String,
    first_bad: String,
    faults: Vec<Words>,
}

impl<'a> MeshPage<'a> {
    pub(crate) fn new(shell: Shell, overview: &'a Overview, wants_run: bool) -> Self {
        let seen = overview.run.as_ref().map(Seen::new);
        let shown = overview.run.as_ref().map(|run| run.summary.id);
        let row = |run: &'a Summary| RunRow::new(run, shown == Some(run.id));
        Self {
            shell,
            fault: overview.fault.as_deref().map(Words::from),
            runs: overview.runs.iter().map(row).collect(),
            is_missing: wants_run && seen.is_none() && overview.fault.is_none(),
            seen,
        }
    }
}

impl<'a> RunRow<'a> {
    fn new(run: &'a Summary, is_seen: bool) -> Self {
        Self {
            run,
            title: run.title.as_str().into(),
            program: run.program.as_str().into(),
            started: minute(run.started_ms),
            state: of_run(run),
            note: match () {
                () if Store::is_future(run.started_ms) => "in the future: a clock was wrong, and it counts nowhere",
                () if !run.is_complete => "interrupted",
                () if run.detail == Detail::Counts => "its cells are no longer kept",
                () => "",
            },
            page: format!("{RUNS}{}", run.id),
            is_seen,
        }
    }
}

impl<'a> Seen<'a> {
    fn new(run: &'a SeenRun) -> Self {
        let mut sorted: Vec<&Standing> = run.endpoints.iter().collect();
        sorted.sort_by_key(|standing| (rank(standing.state), standing.score));
        let standings: Vec<_> = sorted
            .iter()
            .take(STANDINGS_SHOWN_MAX)
            .map(|standing| StandingRow::new(standing))
            .collect();
        Self {
            run: &run.summary,
            title: run.summary.title.as_str().into(),
            started: minute(run.summary.started_ms),
            page: format!("{RUNS}{}", run.summary.id),
            faults: run.faults.iter().map(|fault| fault.to_string().into()).collect(),
            more_standings: sorted.len() - standings.len(),
            standings,
            matrix: &run.matrix,
        }
    }
}

impl StandingRow {
    fn new(standing: &Standing) -> Self {
        let moment = |time: Option<u64>| time.map(minute).unwrap_or_default();
        Self {
            endpoint: standing.endpoint.as_str().into(),
            state: of_endpoint(standing.state),
            since: minute(standing.since_ms),
            score: standing.score,
            last_good: moment(standing.last_good_ms),
            first_bad: moment(standing.first_bad_ms),
            faults: standing.faults.iter().map(|fault| fault.to_string().into()).collect(),
        }
    }
}

/// Those with problems come first.
fn rank(state: State) -> u8 {
    match state {
        State::Problematic => 0,
        State::Unknown => 1,
        State::InDowntime => 2,
        State::Sound => 3,
    }
}

fn of_endpoint(state: State) -> Shown {
    let (class, words) = match state {
        State::Problematic => ("bad", "✕ problematic"),
        State::Unknown => ("", "? unknown"),
        State::InDowntime => ("soon", "– in downtime"),
        State::Sound => ("good", "✓ sound"),
    };
    Shown { class, words }
}

fn of_run(run: &Summary) -> Shown {
    let (class, words) = match (run.failed, run.passed) {
        (0, 0) => ("", "– nothing tried"),
        (0, _) => ("good", "✓ passed"),
        (_, 0) => ("bad", "✕ failed"),
        _ => ("soon", "! some failed"),
    };
    Shown { class, words }
}
