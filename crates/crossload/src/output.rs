//! Standard output and standard error: the only place of the house that prints.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program prints; everything else calls these functions"
)]

use std::io::Write as _;

/// Prints a line on standard output. A reader that went away (`| head`) is no error.
pub(crate) fn line(text: &str) {
    write_out(format!("{text}\n").as_bytes());
}

/// Writes bytes to standard output as they are.
pub(crate) fn write_out(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    // A closed pipe ends the program's purpose, not its correctness.
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Prints a JSON value as one line on standard output.
pub(crate) fn json(value: &serde_json::Value) {
    line(&value.to_string());
}

/// Prints a line on standard error.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
