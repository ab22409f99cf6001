//! Measures what a year of hourly runs of a large mesh takes: `cargo run --release --example
//! history_size -p history`.
//!
//! Stores runs of 3 600 cells, 2 % of them failed, once for each stage of thinning, and adds the
//! stages up to a year. Then stores a year of hourly runs, one a day with all cells, and says how
//! long a page over all of it takes.
#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use std::path::Path;
use std::time::Instant;

use history::{
    Cell, EndpointSeen, Failure, Filter, Hysteresis, Instrument, Keep, Link, Mode, Outcome, Run, Step, Store,
    Thresholds, check, standings,
};
use types::{Phase, Side};

/// Runs of each stage.
const RUNS: u64 = 240;
const CELLS: usize = 3_600;
/// Cells of most runs of the year: what they take is measured before.
const FEW_CELLS: usize = 40;
const ENDPOINTS: usize = 31;
const DAY_MS: u64 = 86_400_000;
const HOUR_MS: u64 = 3_600_000;
/// 2020-01-01: in the past on any machine.
const BEGIN_MS: u64 = 1_577_836_800_000;

fn main() {
    let directory = tempfile::tempdir().expect("a directory");
    let stage = |name: &str, keep: Keep| {
        let bytes = stored(&directory.path().join(name), RUNS, keep, |_| CELLS);
        println!("{name}: {} bytes a run, days of links included", bytes / RUNS);
        bytes / RUNS
    };
    let keep = Keep::default();
    let keeping = |full_days, outcome_days| Keep {
        full_days,
        outcome_days,
        last_runs: 1,
        ..keep
    };
    let full = stage("full", keeping(u64::MAX, u64::MAX));
    let outcomes = stage("outcomes", keeping(0, u64::MAX));
    let counts = stage("counts", keeping(0, 0));
    let stages = [
        (keep.full_days * 24 + keep.last_runs) * full,
        (keep.outcome_days - keep.full_days) * 24 * outcomes,
        ((365 - keep.outcome_days) * 24 - keep.last_runs) * counts,
    ];
    let year = stages.iter().sum::<u64>();
    println!("a year of hourly runs: {} MB", year / 1_000_000);
    let file = directory.path().join("year");
    let cells = |hour| if hour % 24 == 23 { CELLS } else { FEW_CELLS };
    stored(&file, 365 * 24, keep, cells);
    page(&file);
}

/// Stores runs with so many cells each, and returns the size of the database in bytes.
fn stored(file: &Path, runs: u64, keep: Keep, cells: impl Fn(u64) -> usize) -> u64 {
    let mut store = Store::open(file).expect("a history").keeping(keep);
    let mut random = fastrand::Rng::with_seed(1);
    let begin = Instant::now();
    for hour in 0..runs {
        let mut run = run(hour, &mut random);
        run.cells.truncate(cells(hour));
        store.add(&run).expect("stored");
    }
    println!(
        "{runs} runs stored, {} ms each",
        begin.elapsed().as_millis() / u128::from(runs)
    );
    drop(store);
    file.metadata().expect("a file").len()
}

fn page(file: &Path) {
    let begin = Instant::now();
    let store = Store::open(file).expect("a history");
    let opened_ms = begin.elapsed().as_millis();
    let latest = store.latest(&Filter::default()).expect("read").expect("a run");
    let run = store.load(latest.id).expect("read").expect("a run");
    let loaded_ms = begin.elapsed().as_millis();
    let verdicts = store.verdicts(Instrument::Mesh, "testbed", 0).expect("read");
    let all = standings(&verdicts, Hysteresis::default());
    let standings_ms = begin.elapsed().as_millis();
    let links = store.link_days(Instrument::Mesh, "testbed", 0).expect("read");
    let points: usize = links.iter().map(|link| link.points.len()).sum();
    println!(
        "page: {} cells, {} endpoints over {} runs, {} links with {points} days: opened {opened_ms}, run \
        {loaded_ms}, states {standings_ms}, links {} ms",
        run.cells.len(),
        all.len(),
        verdicts.len(),
        links.len(),
        begin.elapsed().as_millis()
    );
    let begin = Instant::now();
    let found = check(&store, Instrument::Mesh, "testbed", Thresholds::default()).expect("read");
    println!("check: {} changes, {} ms", found.len(), begin.elapsed().as_millis());
}

fn run(hour: u64, random: &mut fastrand::Rng) -> Run {
    let started_ms = BEGIN_MS + hour * HOUR_MS;
    let names: Vec<String> = (0..ENDPOINTS).map(|at| format!("site-{at:02}.example.org")).collect();
    let mut cells = Vec::new();
    for source in &names {
        for destination in names.iter().filter(|name| *name != source) {
            for protocol in ["https", "roots"] {
                for mode in [Mode::Pull, Mode::Push] {
                    cells.push(cell(source, destination, protocol, mode, started_ms, random));
                }
            }
        }
    }
    cells.truncate(CELLS);
    Run {
        instrument: Instrument::Mesh,
        title: "testbed".to_owned(),
        started_ms,
        ended_ms: started_ms + 500_000,
        program: "crossload 0.1.0".to_owned(),
        is_complete: true,
        ended_by: None,
        endpoints: names.into_iter().map(seen).collect(),
        cells,
        figures: Vec::new(),
    }
}

fn seen(name: String) -> EndpointSeen {
    EndpointSeen {
        administrators: vec![format!("admin@{name}")],
        software: Some("crossload/0.1.0".to_owned()),
        name,
        ..EndpointSeen::default()
    }
}

fn cell(
    source: &str,
    destination: &str,
    protocol: &str,
    mode: Mode,
    started_ms: u64,
    random: &mut fastrand::Rng,
) -> Cell {
    let link = Link {
        source: source.to_owned(),
        destination: destination.to_owned(),
        source_protocol: protocol.to_owned(),
        destination_protocol: protocol.to_owned(),
        mode,
        credential: "token".to_owned(),
    };
    let has_failed = random.f64() < 0.02;
    let file = format!(
        "{protocol}://{source}/data/mesh/.crossload-mesh-{:x}/seed",
        random.u64(..)
    );
    let outcome = match has_failed {
        true => Outcome::Failed(Box::new(Failure {
            side: Side::Source,
            phase: Phase::Transfer,
            code: "peer_failed".to_owned(),
            says: format!("{file}: the server answered with an error"),
            server_status: Some(500),
            server_words: Some(format!("failure: GET of {file} has failed")),
            reproduce: vec![
                format!("crossload copy --token-file $TOKEN seed {file}"),
                format!("crossload copy --token-file $TOKEN {file} {protocol}://{destination}/data/mesh/copy"),
            ],
        })),
        false => Outcome::Passed,
    };
    let copy_ms = random.u64(20..200);
    let step = |name: &str, took_ms| Step {
        name: name.to_owned(),
        took_ms,
        outcome: Outcome::Passed,
    };
    let steps = vec![
        step("seed", random.u64(10..80)),
        Step {
            outcome: outcome.clone(),
            ..step("copy", copy_ms)
        },
        step("size", random.u64(2..20)),
        step("checksum", random.u64(2..20)),
        step("remove", random.u64(2..20)),
    ];
    Cell {
        steps,
        started_ms: started_ms + random.u64(..DAY_MS / 288),
        copy_ms,
        bytes: if has_failed { 0 } else { 1_000_000 },
        copies: 1,
        copies_failed: u64::from(has_failed),
        ..Cell::untried(link, outcome)
    }
}
