//! Tests that failed beside others are run again by themselves.
//!
//! Tests with real servers share two processors with each other. One that fails there and passes by
//! itself may wait for too short a time, or have met a race: it does not stop the run, it is named
//! at its end with what it said, and is to be mended. More than a few are no accident.

use std::process::Command;

use crate::test_run::cargo_test;

/// So many tests are run again; with more, all count as failed.
const UNSTEADY_MAX: usize = 5;

/// The failed tests of each program that had some, in the order of the programs.
#[derive(Default)]
pub(crate) struct Failures {
    of_programs: Vec<Vec<String>>,
    now: Vec<String>,
}

impl Failures {
    /// Takes a line of libtest's.
    pub(crate) fn note(&mut self, line: &str) {
        if line.starts_with("test result: ") {
            if !self.now.is_empty() {
                self.of_programs.push(std::mem::take(&mut self.now));
            }
        } else if let Some(test) = line.strip_prefix("test ") {
            let name = test.strip_suffix(" ... FAILED");
            let name = name.map(|name| name.trim_end_matches(" - should panic").to_owned());
            self.now.extend(name);
        }
    }
}

/// The target of a program that cargo says has failed: the words after the package, as in
/// `--test cluster`.
pub(crate) fn failed_target(line: &str) -> Option<String> {
    let (_, words) = line.split_once("test failed, to rerun pass `")?;
    let words = words.trim_end_matches('`');
    let target = words.strip_prefix("-p ").and_then(|words| words.split_once(' '));
    Some(target.map_or(words, |(_package, target)| target).to_owned())
}

/// Runs the failed tests of `targets` again, one after the other; `arguments` are those of the
/// first run. Returns a line for each.
///
/// With a target of its own, cargo would choose other features of the libraries and compile all of
/// them again: so all programs are asked for the test, and those that have none of this name end at
/// once.
///
/// # Errors
/// When a test fails again, or there is more to the failure than single tests.
pub(crate) fn run_again(failures: &Failures, targets: &[String], arguments: &[&str]) -> Result<String, String> {
    let count: usize = failures.of_programs.iter().map(Vec::len).sum();
    let is_whole = failures.now.is_empty() && failures.of_programs.len() == targets.len();
    if count == 0 || !is_whole {
        return Err("test: a program ended early, or did not build".to_owned());
    }
    if count > UNSTEADY_MAX {
        return Err(format!("test: {count} tests failed"));
    }
    let mut lines = String::new();
    let mut failed = 0;
    for (target, tests) in targets.iter().zip(&failures.of_programs) {
        for test in tests {
            println!("\nagain, by itself: {target} {test}");
            let mut command = cargo_test(arguments);
            let kind = if target == "--doc" { "--doc" } else { "--tests" };
            command.args([kind, "--", "--exact", test]);
            match passes(command)? {
                true => lines.push_str(&format!("  {target}: {test}\n")),
                false => failed += 1,
            }
        }
    }
    match failed {
        0 => Ok(lines),
        _ => Err(format!("test: {failed} of {count} tests failed again by themselves")),
    }
}

/// Whether the one test that the command selects passes. What it says is shown.
fn passes(mut command: Command) -> Result<bool, String> {
    let output = command.output().map_err(|error| format!("cargo test: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let has_passed = output.status.success() && said.lines().any(|line| line.ends_with(" ... ok"));
    match has_passed {
        true => println!("it passed"),
        false => println!("{said}\n{}", String::from_utf8_lossy(&output.stderr)),
    }
    Ok(has_passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_belong_to_their_programs() {
        let mut failures = Failures::default();
        for line in [
            "test a ... ok",
            "test result: ok. 1 passed",
            "test b::c ... FAILED",
            "test d - should panic ... FAILED",
            "test result: FAILED. 0 passed; 2 failed",
            "test e ... FAILED",
            "test result: FAILED. 0 passed; 1 failed",
        ] {
            failures.note(line);
        }
        assert_eq!(failures.of_programs, [vec!["b::c", "d"], vec!["e"]]);
    }

    #[test]
    fn targets_are_known_by_what_cargo_says() {
        let target = |line| failed_target(line);
        let line = "error: test failed, to rerun pass `-p conformance --test cluster`";
        assert_eq!(target(line).as_deref(), Some("--test cluster"));
        assert_eq!(
            target("error: test failed, to rerun pass `--lib`").as_deref(),
            Some("--lib")
        );
        assert_eq!(target("error: 2 targets failed:"), None);
    }

    #[test]
    fn what_is_more_than_a_few_tests_stays_a_failure() {
        let mut many = Failures::default();
        for number in 0..=UNSTEADY_MAX {
            many.note(&format!("test t{number} ... FAILED"));
        }
        many.note("test result: FAILED.");
        let target = ["--lib".to_owned()];
        assert!(run_again(&many, &target, &[]).is_err_and(|error| error.contains("6 tests")));
        // A program that a signal ended has no result.
        let mut ended = Failures::default();
        ended.note("test t ... FAILED");
        assert!(run_again(&ended, &target, &[]).is_err_and(|error| error.contains("ended early")));
        assert!(run_again(&Failures::default(), &target, &[]).is_err());
    }
}
