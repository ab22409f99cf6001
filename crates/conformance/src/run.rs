//! Running the programs of others, never without a time limit.

use std::io::Write as _;
use std::process::{Command, Stdio};

use testkit::{Process, Result, Scratch, is_ours, secrets};

/// Seconds that any program gets. Far more than it needs; a test that meets this limit has failed.
const LIMIT_S: &str = "120";
/// What coreutils' `timeout` exits with when the limit was met.
const TIMED_OUT: i32 = 124;

/// How a program ended.
#[derive(Debug)]
pub struct Run {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
}

impl Run {
    /// Its standard output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Everything that it said, for messages.
    #[must_use]
    pub fn said(&self) -> String {
        format!("exit {:?}\n{}\n{}", self.code, self.text(), self.stderr)
    }

    /// Demands that it ended with 0.
    ///
    /// # Panics
    /// With what it said, when it did not.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.said());
        self
    }

    /// Demands that it ended with `code`.
    ///
    /// # Panics
    /// With what it said, when it did not.
    #[track_caller]
    pub fn failed_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.said());
        self
    }
}

/// Runs `command` with an empty standard input.
///
/// # Panics
/// When it cannot be started or takes longer than two minutes.
#[track_caller]
#[must_use]
pub fn run(command: &Command) -> Run {
    run_with_input(command, &[])
}

/// Runs `command` and feeds it `input`.
///
/// # Panics
/// As [`run`].
#[track_caller]
#[must_use]
pub fn run_with_input(command: &Command, input: &[u8]) -> Run {
    let mut limited = limited(command);
    limited
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = limited.spawn().expect("coreutils' timeout starts");
    let mut stdin = child.stdin.take().expect("its input is a pipe");
    let output = std::thread::scope(|scope| {
        // A program that ends without reading all of it is no fault of the test.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().expect("it can be waited for")
    });
    let run = Run {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    keep_secrets(command, &run);
    assert_ne!(run.code, Some(TIMED_OUT), "{command:?} took too long\n{}", run.said());
    run
}

/// Notes the secrets that a command of ours was given or has made, and demands that it told none.
#[track_caller]
fn keep_secrets(command: &Command, run: &Run) {
    if !is_ours(command) {
        return;
    }
    let words: Vec<String> = command
        .get_args()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    for (name, value) in command.get_envs() {
        if let Some(value) = value.filter(|_| name == "BEARER_TOKEN") {
            secrets::note("the token in the environment", &value.to_string_lossy());
        }
    }
    for pair in words.windows(2) {
        if matches!(pair[0].as_str(), "--token" | "--token-file") {
            let token = std::fs::read_to_string(&pair[1]).unwrap_or_default();
            secrets::note("the token in a file", &token);
        }
    }
    // To be given a macaroon is what these are asked for.
    let hands_out = words.first().is_some_and(|word| word == "token")
        && words
            .get(1)
            .is_some_and(|word| word == "macaroon" || word == "attenuate");
    if hands_out {
        secrets::note("a macaroon that was handed out", &macaroon_in(&run.text()));
    } else {
        secrets::demand_none(&format!("the output of {words:?}"), &run.text());
    }
    secrets::demand_none(&format!("the complaint of {words:?}"), &run.stderr);
}

/// The macaroon in what `token macaroon` or `token attenuate` printed.
fn macaroon_in(text: &str) -> String {
    let json: Option<serde_json::Value> = serde_json::from_str(text.trim()).ok();
    let in_json = json.as_ref().and_then(|value| value["macaroon"].as_str());
    match (in_json, text.contains(' ')) {
        (Some(macaroon), _) => macaroon.to_owned(),
        (None, true) => String::new(),
        (None, false) => text.trim().to_owned(),
    }
}

/// Starts `command` in the background; its guard ends it.
///
/// # Errors
/// When it cannot be started.
pub fn background(command: &mut Command, scratch: &Scratch) -> Result<Process> {
    let directory = scratch.create("background")?;
    let name = format!("background-{}", crate::files::unique());
    Process::spawn(&name, command, &directory)
}

fn limited(command: &Command) -> Command {
    let mut limited = Command::new("timeout");
    limited.args(["-k", "5", LIMIT_S]);
    limited.arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(key, value),
            None => limited.env_remove(key),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        limited.current_dir(directory);
    }
    limited
}
