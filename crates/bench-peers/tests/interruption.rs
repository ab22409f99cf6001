//! A benchmark of half an hour that is interrupted gives what it has, and leaves nothing behind.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use testkit::{Process, Result, Scratch, available, require};

const DEADLINE: Duration = Duration::from_secs(120);
const DOCUMENT: &str = "# Speed\n\n<!-- bench http: begin, written by ./dev bench-peers -->\nas it was\n\
                        <!-- bench http: end -->\n";

/// The benchmark of downloads with one repetition, started when the programs that it needs are
/// there.
fn start(test: &str, directory: &Path) -> Option<Process> {
    for program in ["xrootd", "nginx", "curl"] {
        available(test, require(program))?;
    }
    fs::write(directory.join("speed.md"), DOCUMENT).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-peers"));
    command
        .args(["--without-crossload", "--only", "get", "--size", "64", "--runs", "9"])
        .arg("--json")
        .arg(directory.join("figures.json"))
        .arg("--markdown")
        .arg(directory.join("speed.md"));
    Some(Process::spawn("bench", &mut command, directory).expect("started"))
}

fn interrupted(by: fn(&mut Process) -> Result<ExitStatus>, exit_code: i32, name: &str) {
    let directory = Scratch::new("interruption").expect("scratch");
    let Some(mut bench) = start(name, directory.path()) else {
        return;
    };
    // The second row has begun, so the first is complete.
    let second = |bench: &Process| bench.stderr().contains("4 connections").then_some(());
    bench
        .wait_for("in the second row", DEADLINE, second)
        .expect("measuring");
    let family = bench.family();
    assert!(family.len() > 3, "servers run below it: {family:?}");
    let status = by(&mut bench).expect("it ends");
    assert_eq!(status.code(), Some(exit_code), "{}", bench.stderr());

    let (stdout, stderr) = (bench.stdout(), bench.stderr());
    assert!(stdout.contains("GET https, 1 connection "), "{stdout}");
    assert!(!stdout.contains("https, 4 connections"), "not complete: {stdout}");
    let words = format!("Interrupted by {name}: 1 of 7 rows were measured.");
    assert!(stdout.contains(&words), "{stdout}");
    assert!(!stderr.contains("failed"), "an interruption is no failure: {stderr}");
    let json = fs::read_to_string(directory.join("figures.json")).expect("written");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (&json["interrupted"], json["rows"].as_array().map(Vec::len)),
        (&true.into(), Some(1))
    );
    assert_eq!(json["rows"][0]["workload"], "GET https, 1 connection");
    assert_eq!(fs::read_to_string(directory.join("speed.md")).expect("there"), DOCUMENT);
    let left: Vec<_> = family
        .into_iter()
        .filter(|id| Path::new(&format!("/proc/{id}")).exists())
        .collect();
    assert!(left.is_empty(), "still running: {left:?}");
}

#[test]
fn ctrl_c_shows_the_rows_that_are_complete() {
    interrupted(Process::interrupt, 130, "SIGINT");
}

#[test]
fn so_does_sigterm() {
    interrupted(Process::terminate, 143, "SIGTERM");
}
