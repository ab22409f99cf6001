//! Tasks that need more than a shell: house rules, documents made from code, the manual, and test
//! runs.
//!
//! `cargo xtask tidy` reads the tree and reports, by file and line, what breaks a house rule, with
//! the reason of the rule. `cargo xtask docs` writes the generated documents, and `cargo xtask docs
//! --check` only compares them. `cargo xtask book` makes the manual from the pages in `docs/`, and
//! fails on a dead link; `cargo xtask book --check` writes nothing. `cargo xtask test` runs the
//! tests, names the slowest, and runs failed ones again by themselves. Nothing here uses the
//! network.
#![forbid(unsafe_code)]
// A command-line program for developers: printing is its purpose.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod book;
mod docs;
mod test_run;
mod tidy;
mod tree;
mod unsteady;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str =
    "usage: cargo xtask tidy | docs [--check] | book [--check] | test DIRECTORY [CARGO-TEST-ARGUMENT...]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = repository_root();
    let outcome = match words.as_slice() {
        ["tidy"] => tidy::run(&root),
        ["docs"] => docs::write(&root),
        ["docs", "--check"] => docs::check(&root),
        ["book"] => book::write(&root),
        ["book", "--check"] => book::check(&root),
        ["test", directory, arguments @ ..] => test_run::run(Path::new(directory), arguments),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// The repository this program was built from: cargo states the crate's directory, which is one
/// below the root.
fn repository_root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}
