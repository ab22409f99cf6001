//! Replays the corpus of every target, then tries mutations of it for a bounded time.
//!
//! `FUZZ_SECONDS` (default 2) is the time per target, `FUZZ_SEED` the seed, `FUZZ_TARGET` one
//! target instead of all. An input that breaks a target is written to `fuzz/artifacts/<target>/`.
//! An input that takes longer than ten seconds counts as broken too: the program then ends at once,
//! because a decoder that never returns cannot be interrupted.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a fuzz run tells its seed and what it tried"
)]

use fuzz_targets::mutate::Mutator;
use fuzz_targets::{TARGETS, Target};
use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const SECONDS_DEFAULT: u64 = 2;
const SEED_DEFAULT: u64 = 0x0C05_510A_D000_0001;
/// Inputs handed over at once, so that the clock is not read for each.
const BATCH_INPUTS: usize = 64;
const INPUT_TIME_MAX: Duration = Duration::from_secs(10);

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    for target in TARGETS {
        assert!(!corpus_of(target).is_empty(), "fuzz/corpus/{} is empty", target.name);
    }
    for entry in fs::read_dir(fuzz_directory().join("corpus")).expect("the corpus can be listed") {
        let name = entry.expect("an entry can be read").file_name();
        assert!(
            TARGETS.iter().any(|target| name == target.name),
            "{} belongs to no target",
            name.display()
        );
    }
    assert!(
        TARGETS.is_sorted_by(|a, b| a.name < b.name),
        "the table is in order and each name is there once"
    );
}

#[test]
fn the_corpus_replays() {
    for target in selected() {
        for (path, input) in corpus_of(target) {
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
            assert!(outcome.is_ok(), "{} breaks {}", path.display(), target.name);
        }
    }
}

// Takes a minute on two processors: each of more than fifty decoders is tried for `FUZZ_SECONDS`,
// as many at once as there are processors. Less time would find little beyond the corpus.
#[test]
fn mutations_break_nothing() {
    let seed = number("FUZZ_SEED", SEED_DEFAULT);
    let time = Duration::from_secs(number("FUZZ_SECONDS", SECONDS_DEFAULT));
    let targets = Mutex::new(selected().into_iter());
    let next = || targets.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(target) = next() {
                    let tried = mutate(target, seed, time);
                    println!("{}: {tried} inputs, seed {seed}", target.name);
                    assert!(tried > 0);
                }
            });
        }
    });
}

/// Mutates until the time is over; the number of inputs tried.
fn mutate(target: &'static Target, seed: u64, time: Duration) -> usize {
    let corpus: Vec<Vec<u8>> = corpus_of(target).into_iter().map(|(_, input)| input).collect();
    let mut mutator = Mutator::new(seed, &corpus, target.words);
    let end = Instant::now() + time;
    let mut tried = 0;
    while tried == 0 || Instant::now() < end {
        let batch: Vec<Vec<u8>> = (0..BATCH_INPUTS).map(|_| mutator.next_input()).collect();
        tried += batch.len();
        if let Err(broken) = run_batch(target, batch) {
            let path = keep(target, &broken);
            panic!(
                "{} breaks on {} (seed {seed}, within the first {tried} inputs)",
                target.name,
                path.display()
            );
        }
    }
    tried
}

/// Runs the inputs on a thread of their own and gives back the one that breaks the target.
fn run_batch(target: &'static Target, batch: Vec<Vec<u8>>) -> Result<(), Vec<u8>> {
    let (done, results) = mpsc::channel();
    let inputs = batch.clone();
    let worker = thread::spawn(move || {
        for input in &inputs {
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
            if done.send(outcome.is_ok()).is_err() {
                return;
            }
        }
    });
    for input in batch {
        match results.recv_timeout(INPUT_TIME_MAX) {
            Ok(true) => {}
            Ok(false) | Err(RecvTimeoutError::Disconnected) => return Err(input),
            Err(RecvTimeoutError::Timeout) => {
                let path = keep(target, &input);
                eprintln!("{} does not return on {}", target.name, path.display());
                std::process::abort();
            }
        }
    }
    worker.join().expect("every panic of a target was caught");
    Ok(())
}

/// Writes an input that breaks a target where it can be found again.
fn keep(target: &Target, input: &[u8]) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let directory = fuzz_directory().join("artifacts").join(target.name);
    let path = directory.join(format!("{:016x}", hasher.finish()));
    let written = fs::create_dir_all(&directory).and_then(|()| fs::write(&path, input));
    written.unwrap_or_else(|error| panic!("{} cannot be written: {error}; the input was {input:?}", path.display()));
    path
}

/// The entries of a target's corpus, in order of their names.
fn corpus_of(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = fuzz_directory().join("corpus").join(target.name);
    let listing = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = listing
        .map(|entry| entry.expect("an entry can be read").path())
        .collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| (path.clone(), fs::read(&path).expect("an entry can be read")))
        .collect()
}

fn selected() -> Vec<&'static Target> {
    let Ok(name) = env::var("FUZZ_TARGET") else {
        return TARGETS.iter().collect();
    };
    vec![fuzz_targets::target(&name).unwrap_or_else(|| panic!("no fuzz target is called {name}"))]
}

fn number(variable: &str, default: u64) -> u64 {
    let Ok(text) = env::var(variable) else { return default };
    text.parse()
        .unwrap_or_else(|_| panic!("{variable} is not a number: {text}"))
}

fn fuzz_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies in fuzz/")
        .to_owned()
}
