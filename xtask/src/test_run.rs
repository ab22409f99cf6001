//! `cargo xtask test`: runs `cargo test`, keeps what it prints, and names the slowest tests.
//!
//! Stable libtest prints no durations. It does start the tests of a program in the order of their
//! names, as many at once as it has threads, and prints a line when one ends. So the moment at
//! which a test began is the moment at which the one before it in that order made room.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::unsteady::{self, Failures};

/// How many tests are named.
const SLOWEST: usize = 10;
/// Set by `cargo run` for this program. A build script that watches one of them would run again.
const SET_BY_CARGO: [&str; 5] = [
    "CARGO",
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_PATH",
    "CARGO_MANIFEST_LINKS",
    "CARGO_PRIMARY_PACKAGE",
];

/// Runs `cargo test` with `arguments` and passes its output on. In `directory` it leaves `results`
/// (standard output), `errors` (standard error), `slowest`, a line for each of the slowest tests,
/// and `unsteady`, a line for each test that passed only when it ran again by itself.
///
/// # Errors
/// When cargo cannot be started, a file cannot be written, or a test failed, also by itself.
pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Result<String, String> {
    let text = |error: io::Error| format!("cargo test: {error}");
    let threads = threads();
    let mut command = cargo_test(arguments);
    command
        .arg("--no-fail-fast")
        .env("RUST_TEST_THREADS", threads.to_string());
    let results = File::create(directory.join("results")).map_err(text)?;
    let errors = File::create(directory.join("errors")).map_err(text)?;
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(text)?;
    let (Some(output), Some(complaints)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("cargo test: its output is not piped".to_owned());
    };
    let program = Mutex::new(String::new());
    let mut record = Record::new(threads);
    let mut failures = Failures::default();
    let mut targets = Vec::new();
    let (passed_on, complained) = thread::scope(|scope| {
        let complained = scope.spawn(|| {
            pass_on(complaints, errors, io::stderr(), |line| {
                targets.extend(unsteady::failed_target(line));
                if let Some(name) = program_of(line) {
                    *program.lock().unwrap_or_else(PoisonError::into_inner) = name;
                }
            })
        });
        let passed_on = pass_on(output, results, io::stdout(), |line| {
            let name = || program.lock().unwrap_or_else(PoisonError::into_inner).clone();
            failures.note(line);
            record.note(line, Instant::now(), name);
        });
        (passed_on, complained.join())
    });
    passed_on.map_err(text)?;
    complained
        .map_err(|_| "cargo test: its errors were not read".to_owned())?
        .map_err(text)?;
    std::fs::write(directory.join("slowest"), record.slowest()).map_err(text)?;
    if child.wait().map_err(text)?.success() {
        return Ok("test: every test passed".to_owned());
    }
    let unsteady = unsteady::run_again(&failures, &targets, arguments)?;
    std::fs::write(directory.join("unsteady"), &unsteady).map_err(text)?;
    Ok("test: every test passed, some only when they ran again by themselves".to_owned())
}

/// `cargo test` with these arguments, as if it were not called by `cargo run`.
pub(crate) fn cargo_test(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg("test").args(arguments);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if SET_BY_CARGO.contains(&name.as_str()) || name.starts_with("CARGO_PKG_") {
            command.env_remove(name);
        }
    }
    command
}

/// Copies lines to the file and the terminal as they come, and shows each to `note`.
fn pass_on(from: impl Read, mut file: File, mut terminal: impl Write, mut note: impl FnMut(&str)) -> io::Result<()> {
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        note(String::from_utf8_lossy(&line).trim_end());
        file.write_all(&line)?;
        terminal.write_all(&line)?;
        terminal.flush()?;
        line.clear();
    }
    Ok(())
}

/// How many tests run at once: two for each processor, since most of them wait for servers for a
/// third of their time.
fn threads() -> usize {
    let asked = std::env::var("RUST_TEST_THREADS")
        .ok()
        .and_then(|text| text.parse().ok());
    asked.unwrap_or_else(|| 2 * thread::available_parallelism().map_or(1, usize::from))
}

/// The name of the program that cargo says it runs now.
fn program_of(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(name.to_owned());
    }
    let (_, path) = line.strip_prefix("Running ")?.rsplit_once('(')?;
    let file = path.trim_end_matches(')').rsplit('/').next()?;
    Some(file.rsplit_once('-').map_or(file, |(name, _hash)| name).to_owned())
}

/// A test that ended.
struct Finished {
    name: String,
    at: Instant,
}

/// The tests of the program that runs now, and the durations of all before it.
struct Record {
    threads: usize,
    program: String,
    begin: Option<Instant>,
    finished: Vec<Finished>,
    durations: Vec<(Duration, String)>,
}

impl Record {
    fn new(threads: usize) -> Self {
        Self {
            threads: threads.max(1),
            program: String::new(),
            begin: None,
            finished: Vec::new(),
            durations: Vec::new(),
        }
    }

    /// Takes a line of libtest's; `program` names the program that printed it.
    fn note(&mut self, line: &str, now: Instant, program: impl FnOnce() -> String) {
        if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            self.begin = Some(now);
            self.finished.clear();
            self.program = program();
        } else if line.starts_with("test result: ") {
            self.end_program();
        } else if let Some((name, _outcome)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            let name = name.trim_end_matches(" - should panic").to_owned();
            self.finished.push(Finished { name, at: now });
        }
    }

    fn end_program(&mut self) {
        let Some(begin) = self.begin.take() else {
            return;
        };
        let mut order: Vec<&str> = self.finished.iter().map(|test| test.name.as_str()).collect();
        order.sort_unstable();
        let mut waiting = order.into_iter();
        let mut began: HashMap<&str, Instant> = waiting.by_ref().take(self.threads).map(|name| (name, begin)).collect();
        for test in &self.finished {
            if let Some(next) = waiting.next() {
                began.insert(next, test.at);
            }
            let start = began.get(test.name.as_str()).copied().unwrap_or(test.at);
            let name = format!("{}: {}", self.program, test.name);
            self.durations.push((test.at.saturating_duration_since(start), name));
        }
    }

    /// A line for each of the slowest tests, the slowest first.
    fn slowest(&mut self) -> String {
        self.durations.sort_by(|a, b| b.cmp(a));
        let slowest = self.durations.iter().take(SLOWEST);
        slowest
            .map(|(duration, name)| format!("  {:6.1} s  {name}\n", duration.as_secs_f64()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_what_cargo_says() {
        let line = "     Running tests/xroot/main.rs (target/debug/deps/third_party-0123456789abcdef)";
        assert_eq!(program_of(line).as_deref(), Some("third_party"));
        let unit = "     Running unittests src/lib.rs (target/debug/deps/http_wire-0123456789abcdef)";
        assert_eq!(program_of(unit).as_deref(), Some("http_wire"));
        assert_eq!(program_of("   Doc-tests net").as_deref(), Some("net"));
        assert_eq!(program_of("   Compiling net v0.1.0"), None);
    }

    /// Two threads: `a` ends after 5 s, `b` after 1; `c` takes the place of `b` until 3, and `d`
    /// that of `c` until 9.
    #[test]
    fn a_test_begins_when_another_one_makes_room() {
        let begin = Instant::now();
        let mut record = Record::new(2);
        let lines = [
            (0, "running 4 tests"),
            (1, "test b ... ok"),
            (3, "test c - should panic ... ok"),
            (5, "test a ... FAILED"),
            (9, "test d ... ok"),
            (9, "test result: FAILED. 3 passed; 1 failed"),
        ];
        for (seconds, line) in lines {
            record.note(line, begin + Duration::from_secs(seconds), || "net".to_owned());
        }
        let expected = ["6.0 s  net: d", "5.0 s  net: a", "2.0 s  net: c", "1.0 s  net: b"];
        let found = record.slowest();
        let found: Vec<&str> = found.lines().map(str::trim).collect();
        assert_eq!(found, expected);
    }
}
