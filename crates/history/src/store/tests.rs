//! A database in a directory of its own.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use types::Side;

use super::*;
use crate::made_up::Mesh;
use crate::model::{Figure, Instrument, Run, Wish};
use crate::standing::{Hysteresis, RunVerdict, State, standings};

const HOUR_MS: u64 = 3_600_000;
/// 2020-01-01: in the past on any machine.
const BEGIN_MS: u64 = 1_577_836_800_000;

fn file() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("state/history.sqlite");
    (directory, file)
}

fn run(hour: u64) -> Run {
    Mesh::full(4).run(BEGIN_MS + hour * HOUR_MS, |link| {
        (hour % 7 > 4 && link.source == "site-02").then_some(Side::Source)
    })
}

#[test]
fn runs_come_back() {
    let (_directory, file) = file();
    assert!(Store::open_existing(&file).unwrap().is_none());
    let mut bench = run(9);
    (bench.instrument, bench.cells) = (Instrument::Bench, Vec::new());
    (bench.is_complete, bench.ended_by) = (false, Some("interrupted".to_owned()));
    bench.figures = vec![Figure {
        name: "download, GET https".to_owned(),
        value: 9.25,
        unit: "Gbit/s".to_owned(),
        wish: Wish::Higher,
    }];
    let first = Store::open(&file).unwrap().add(&run(5)).unwrap();
    let mut store = Store::open_existing(&file).unwrap().unwrap();
    let second = store.add(&run(6)).unwrap();
    let third = store.add(&bench).unwrap();
    assert!(first < second && second < third);
    assert_eq!(store.add(&run(5)).unwrap(), first, "it is there already");
    for (id, run) in [(first, run(5)), (second, run(6)), (third, bench.clone())] {
        assert_eq!(store.load(id).unwrap(), Some(run));
    }
    assert_eq!(store.load(99).unwrap(), None);
    let all = store.list(&Filter::default(), 10).unwrap();
    assert_eq!(all.iter().map(|one| one.id).collect::<Vec<_>>(), [third, second, first]);
    assert_eq!((all[1].passed, all[1].failed, all[1].detail), (18, 6, Detail::Full));
    assert_eq!(all[0].ended_by.as_deref(), Some("interrupted"));
    assert_eq!(all[1].ended_by, None);
    let meshes = Filter {
        instrument: Some(Instrument::Mesh),
        title: Some("testbed".to_owned()),
    };
    assert_eq!(store.latest(&meshes).unwrap().unwrap().id, second);
    let other = Filter {
        title: Some("elsewhere".to_owned()),
        ..meshes
    };
    assert_eq!(store.latest(&other).unwrap(), None);
    let figures = store.figures(Instrument::Bench, "testbed").unwrap();
    assert_eq!(
        (figures.len(), figures[0].points[0].value, figures[0].wish),
        (1, 9.25, Wish::Higher)
    );
    let permissions = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (permissions(&file), permissions(file.parent().unwrap())),
        (0o600, 0o700)
    );
    assert_eq!(permissions(&file.with_extension("sqlite-wal")), 0o600);
}

#[test]
fn verdicts_and_days_come_back() {
    let (_directory, file) = file();
    let mut store = Store::open(&file).unwrap();
    let runs: Vec<Run> = (0..48).map(run).collect();
    for run in &runs {
        store.add(run).unwrap();
    }
    let verdicts = store.verdicts(Instrument::Mesh, "testbed", 0).unwrap();
    assert_eq!(verdicts, runs.iter().map(RunVerdict::of).collect::<Vec<_>>());
    let since = store
        .verdicts(Instrument::Mesh, "testbed", BEGIN_MS + 40 * HOUR_MS)
        .unwrap();
    assert_eq!(since, verdicts[40..]);
    // The hours 40 and 41 are bad, 42 to 46 good, 47 is bad again.
    assert_eq!(standings(&verdicts, Hysteresis::default())[2].state, State::Sound);
    assert_eq!(
        standings(&verdicts[..42], Hysteresis::default())[2].state,
        State::Problematic
    );
    let links = store.link_days(Instrument::Mesh, "testbed", 0).unwrap();
    assert_eq!(links.len(), 24);
    let bad = links.iter().find(|one| one.link.source == "site-02").unwrap();
    assert_eq!(bad.points.len(), 2);
    let failed: u64 = bad.points.iter().map(|(_, day)| day.failed).sum();
    assert_eq!((bad.points[0].0, bad.points[0].1.tried, failed), (BEGIN_MS, 24, 13));
    let hours = store.link_runs(Instrument::Mesh, "testbed", 10).unwrap();
    assert!(hours.len() == 24 && hours.iter().all(|one| one.points.len() == 10));
    assert_eq!(hours[0].points[9].0, BEGIN_MS + 47 * HOUR_MS);
}

#[test]
fn old_runs_lose_detail_and_figures_never_go() {
    let (_directory, file) = file();
    let keep = Keep {
        full_days: 2,
        outcome_days: 4,
        days: 8,
        last_runs: 3,
    };
    let mut store = Store::open(&file).unwrap().keeping(keep);
    let mut bench = run(0);
    bench.instrument = Instrument::Bench;
    bench.figures = vec![Figure {
        name: "rate".to_owned(),
        value: 1.0,
        unit: "s".to_owned(),
        wish: Wish::Lower,
    }];
    let bench_id = store.add(&bench).unwrap();
    for half_day in 0..24 {
        store.add(&run(half_day * 12)).unwrap();
    }
    let runs = store.list(&Filter::default(), 100).unwrap();
    // The third newest is what ages count from: two more runs are younger.
    assert_eq!(half_days(&runs, Detail::Full), (0..=6).collect::<Vec<_>>());
    assert_eq!(half_days(&runs, Detail::Outcomes), (7..=10).collect::<Vec<_>>());
    assert_eq!(half_days(&runs, Detail::Counts), (11..=18).collect::<Vec<_>>());
    let outcomes = runs.iter().find(|one| one.detail == Detail::Outcomes).unwrap();
    let less = store.load(outcomes.id).unwrap().unwrap();
    assert_eq!(less.cells.len(), 24);
    assert!(less.cells.iter().all(|cell| cell.steps.is_empty()));
    assert_eq!(
        less.cells.iter().filter(|cell| !cell.outcome.has_passed()).count() as u64,
        outcomes.failed
    );
    let counts = runs.iter().find(|one| one.detail == Detail::Counts).unwrap();
    assert_eq!(
        (
            store.load(counts.id).unwrap().unwrap().cells.len(),
            counts.passed + counts.failed
        ),
        (0, 24)
    );
    assert_eq!(store.load(bench_id).unwrap().unwrap().figures, bench.figures);
    let days = store.link_days(Instrument::Mesh, "testbed", 0).unwrap();
    assert!(days[0].points.len() == 10, "{}", days[0].points.len());
    let layouts: i64 = store
        .connection
        .query_row("SELECT count(*) FROM layout", [], |row| row.get(0))
        .unwrap();
    assert_eq!(layouts, 1);
}

/// How many half days before the newest the meshes with this detail began.
fn half_days(runs: &[Summary], detail: Detail) -> Vec<u64> {
    let newest_ms = runs[0].started_ms;
    let such = runs
        .iter()
        .filter(|one| one.detail == detail && one.instrument == Instrument::Mesh);
    such.map(|one| (newest_ms - one.started_ms) / HOUR_MS / 12).collect()
}

#[test]
fn a_clock_that_is_ahead_makes_nothing_old() {
    // The year 2024 for runs of 2020, and a year that has yet to come.
    for wrong_ms in [1_704_067_200_000, 4_102_444_800_000] {
        let (_directory, file) = file();
        let mut store = Store::open(&file).unwrap();
        for half_day in 0..30 {
            store.add(&run(half_day * 12)).unwrap();
        }
        let keep = Keep {
            full_days: 2,
            outcome_days: 4,
            days: 8,
            last_runs: 100,
        };
        let wrong = |hour: u64| Run {
            started_ms: wrong_ms + hour * HOUR_MS,
            ..run(0)
        };
        let right = |store: &Store| {
            let mut all = store.list(&Filter::default(), 100).unwrap();
            all.retain(|one| one.started_ms < wrong_ms);
            all
        };
        // Fewer runs than ages count from: however old one seems, all keep everything.
        let before = right(&store);
        let days = store.link_days(Instrument::Mesh, "testbed", 0).unwrap()[0].points.len();
        store = store.keeping(keep);
        for hour in 0..9 {
            store.insert(&wrong(hour)).unwrap();
        }
        assert_eq!(right(&store), before);
        let after = store.link_days(Instrument::Mesh, "testbed", 0).unwrap()[0].points.len();
        assert!(after >= days, "{after} of {days}");
        // As long as one right run is among the last, it is what ages count from.
        store = store.keeping(Keep { last_runs: 14, ..keep });
        for hour in 9..13 {
            store.insert(&wrong(hour)).unwrap();
        }
        let kept = right(&store);
        assert_eq!(half_days(&kept, Detail::Full), (0..=4).collect::<Vec<_>>());
        assert_eq!(half_days(&kept, Detail::Outcomes), (5..=8).collect::<Vec<_>>());
        // A clock that is wrong for all of them is believed, if it is not that of the future.
        store.insert(&wrong(13)).unwrap();
        let is_believed = half_days(&right(&store), Detail::Full) != (0..=4).collect::<Vec<_>>();
        assert_eq!(is_believed, !Store::is_future(wrong_ms));
    }
}

#[test]
fn a_run_in_the_future_counts_nowhere_and_can_be_removed() {
    let (_directory, file) = file();
    let mut store = Store::open(&file).unwrap();
    let newest = store.add(&run(9)).unwrap();
    let seen = |store: &Store| {
        let (instrument, title) = (Instrument::Mesh, "testbed");
        let titles = store.titles().unwrap();
        (
            store.latest(&Filter::default()).unwrap().unwrap().id,
            store.verdicts(instrument, title, 0).unwrap(),
            store.link_runs(instrument, title, 1).unwrap(),
            store.link_days(instrument, title, 0).unwrap(),
            titles,
        )
    };
    let before = seen(&store);
    let mut wrong = run(0);
    // In the year 2100.
    wrong.started_ms = 4_102_444_800_000;
    let refused = store.add(&wrong).unwrap_err();
    assert!(refused.to_string().contains("at 2100-01-01 00:00 UTC"), "{refused}");
    // A clock that was wrong for all.
    let id = store.insert(&wrong).unwrap();
    assert_eq!(seen(&store), before);
    assert_eq!(store.list(&Filter::default(), 9).unwrap().len(), 2);
    assert_eq!(store.future().unwrap(), [id]);
    assert!(store.remove(id).unwrap() && !store.remove(id).unwrap());
    assert_eq!(store.future().unwrap(), Vec::<RunId>::new());
    let all = store.list(&Filter::default(), 9).unwrap();
    assert_eq!(all.iter().map(|one| one.id).collect::<Vec<_>>(), [newest]);
}

#[test]
fn a_removed_run_leaves_nothing() {
    let (_directory, file) = file();
    let mut store = Store::open(&file).unwrap();
    store.add(&run(1)).unwrap();
    let days = |store: &Store| store.link_days(Instrument::Mesh, "testbed", 0).unwrap();
    let before = days(&store);
    // The same day, and one of its own.
    for hour in [5, 99] {
        let id = store.add(&run(hour)).unwrap();
        assert_ne!(days(&store), before);
        assert!(store.remove(id).unwrap());
        assert_eq!(days(&store), before);
        assert_eq!(store.load(id).unwrap(), None);
    }
    let count = |table: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        store.connection.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(["run", "run_cells", "layout", "day"].map(count), [1, 1, 1, 1]);
}

#[test]
fn a_database_of_another_program_is_refused_and_not_changed() {
    let (_directory, file) = file();
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let foreign = Connection::open(&file).unwrap();
    foreign
        .execute_batch("CREATE TABLE word (a TEXT); PRAGMA user_version = 1;")
        .unwrap();
    drop(foreign);
    let bytes = std::fs::read(&file).unwrap();
    let refusals = [
        Store::open(&file).err(),
        Store::open_existing(&file).err(),
        Store::open_to_read(&file).err(),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, Some(StoreError::Foreign)), "{refusal:?}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    let beside = std::fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(beside, 1, "no files beside it");
}

#[test]
fn a_reader_changes_nothing() {
    let (_directory, file) = file();
    assert!(Store::open_to_read(&file).unwrap().is_none());
    assert!(!file.exists());
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, b"").unwrap();
    assert!(Store::open_to_read(&file).unwrap().is_none(), "empty");
    Store::open(&file).unwrap().add(&run(3)).unwrap();
    let bytes = std::fs::read(&file).unwrap();
    let mut store = Store::open_to_read(&file).unwrap().unwrap();
    assert_eq!(store.load(1).unwrap(), Some(run(3)));
    assert!(store.add(&run(4)).is_err());
    drop(store);
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    // One of version 1, which does not say what it is, and keeps no reasons.
    let old = Connection::open(&file).unwrap();
    old.execute_batch("ALTER TABLE run DROP COLUMN ended_by; PRAGMA application_id = 0; PRAGMA user_version = 1;")
        .unwrap();
    drop(old);
    let reader = Store::open_to_read(&file).unwrap().unwrap();
    assert_eq!(reader.load(1).unwrap(), Some(run(3)));
    assert_eq!(reader.list(&Filter::default(), 9).unwrap().len(), 1);
    drop(reader);
    assert_eq!(Store::open(&file).unwrap().load(1).unwrap(), Some(run(3)));
    let named = Connection::open(&file).unwrap();
    let id: i64 = named
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .unwrap();
    assert_ne!(id, 0);
}

#[test]
fn a_history_where_nothing_can_be_written_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a ?#%é.sqlite");
    Store::open(&file).unwrap().add(&run(3)).unwrap();
    let store = super::open::read_unchanging(&file).unwrap();
    let count: i64 = store
        .query_row("SELECT count(*) FROM run", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 1);
}

#[test]
fn a_history_of_a_newer_program_is_refused() {
    let (_directory, file) = file();
    let store = Store::open(&file).unwrap();
    store.connection.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    let refused = Store::open(&file).err().expect("it is newer");
    assert!(matches!(refused, StoreError::Newer(99)), "{refused}");
    let words = refused.to_string();
    assert!(words.contains("its version is 99, ours is 3; install"), "{words}");
    let untouched = Connection::open(&file).unwrap();
    let version: i64 = untouched
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, 99);
    drop(untouched);
    std::fs::write(&file, "no database at all, but long enough to be looked at").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let Err(StoreError::Database(cause)) = Store::open(&file) else {
        panic!("it is none")
    };
    assert!(cause.to_string().contains("not a database"), "{cause}");
    assert_eq!(
        file.metadata().unwrap().permissions().mode() & 0o777,
        0o644,
        "it is not ours"
    );
}

/// Set for the process that is killed.
const CHILD: &str = "HISTORY_TEST_FILE";

/// Not a test of its own: stores runs until it is killed.
#[test]
fn stores_runs_for_another_test() {
    let Some(file) = std::env::var_os(CHILD) else { return };
    let mut store = Store::open(Path::new(&file)).unwrap();
    for hour in 0.. {
        let stored = store.add(&run(hour)).unwrap();
        writeln!(std::io::stdout(), "stored {stored}").unwrap();
    }
}

#[test]
fn a_killed_process_loses_no_stored_run() {
    let (_directory, file) = file();
    let mut known: BTreeSet<i64> = BTreeSet::new();
    for round in 0..4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::stores_runs_for_another_test", "--nocapture"])
            .env(CHILD, &file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let stored = lines.filter_map(|line| line.unwrap().rsplit_once("stored ")?.1.parse::<i64>().ok());
        // Each round stores those of the rounds before anew, which changes nothing.
        let count = 5 + round * 5;
        let mut stored = stored.peekable();
        known.extend(stored.by_ref().take(count));
        child.kill().unwrap();
        child.wait().unwrap();
        known.extend(stored);
        let store = Store::open(&file).unwrap();
        let check: String = store
            .connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(check, "ok");
        let there = store.list(&Filter::default(), 10_000).unwrap();
        let there: BTreeSet<i64> = there.iter().map(|one| one.id).collect();
        assert!(known.len() >= count && known.is_subset(&there), "{known:?} {there:?}");
        for id in &known {
            let loaded = store.load(*id).unwrap().unwrap();
            assert_eq!(loaded, run((loaded.started_ms - BEGIN_MS) / HOUR_MS));
        }
    }
}
