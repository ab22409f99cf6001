//! Commands about several places and trees: they go on after a failure.

use serde_json::json;
use storage::local::Unfit;
use types::{ErrorCode, Result};

use super::place::without_query;
use super::walk::Step;
use crate::command_line::Places;
use crate::exit_code::ExitCodes;
use crate::failure::{Advice, Failure, Reader, exit_code};
use crate::output;

/// EIO, for entries that a server does not list.
const UNLISTED: u8 = 5;
/// ELOOP.
const LOOP: u8 = 40;

/// How much of its work a command has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    Whole,
    /// Some of it failed, and was reported. It has the exit code of the last failure.
    InPart(u8),
}

impl Finished {
    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        match other {
            Self::InPart(_) => other,
            Self::Whole => self,
        }
    }
}

/// Runs `each` for every place and goes on after a failure, which it prints; after several places,
/// it prints how many failed. Returns 0, or the code of several of
/// which some failed.
///
/// # Errors
/// The failure of the only place; the list of places cannot be read.
pub(crate) async fn each_place<E: Into<Failure>>(
    command: &str,
    places: &Places,
    mut each: impl AsyncFnMut(&str) -> std::result::Result<Finished, E>,
) -> std::result::Result<u8, Failure> {
    let codes = ExitCodes::chosen();
    let (mut code, mut failures, mut count) = (0, 0_u64, 0_u64);
    for place in places.all()? {
        count += 1;
        let finished = each(&place?).await;
        failures += u64::from(!matches!(finished, Ok(Finished::Whole)));
        match finished {
            Ok(Finished::Whole) => {}
            Ok(Finished::InPart(last)) => code = codes.of_several(last),
            Err(error) if places.is_one() => return Err(fitting(command, error.into())),
            Err(error) => {
                let failure = fitting(command, error.into());
                code = codes.of_several(failure.exit_code);
                complain(command, failure);
            }
        }
    }
    if failures > 0 && count > 1 {
        output::complain(&format!("{failures} of {count} failed"));
    }
    Ok(code)
}

/// Runs `each` for every place, and with `--json` prints what came of it: `done`, or `FAILED`.
///
/// # Errors
/// As [`each_place`].
pub(crate) async fn each_changed<E: Into<Failure>>(
    command: &str,
    work: Work<'_>,
    mut each: impl AsyncFnMut(&str) -> std::result::Result<(), E>,
) -> std::result::Result<u8, Failure> {
    each_place(command, work.places, async |text| -> std::result::Result<Finished, E> {
        let changed = each(text).await;
        if work.is_json {
            let outcome = if changed.is_ok() { work.done } else { "FAILED" };
            output::json(&json!({"name": without_query(text), "outcome": outcome}));
        }
        changed.map(|()| Finished::Whole)
    })
    .await
}

/// What a command changes.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) places: &'a Places,
    pub(crate) is_json: bool,
    /// The outcome of a place that was changed.
    pub(crate) done: &'static str,
}

/// The failure with the next step that this command has.
pub(crate) fn fitting(command: &str, failure: Failure) -> Failure {
    let advice = match (failure.code, command) {
        (Some(ErrorCode::IsDirectory), "cat" | "head" | "tail") => {
            "Name a file: crossload ls prints what is in a directory, and crossload copy -r copies it."
        }
        (Some(ErrorCode::IsDirectory), "sum") => {
            "Name files: crossload find --type file DIRECTORY | crossload sum --from-file -"
        }
        _ => return failure,
    };
    Failure {
        advice: Some(Advice::Own(advice.to_owned())),
        ..failure
    }
}

/// Reports what a walk below the argument `text` could not do, and goes on.
///
/// # Errors
/// The top itself cannot be listed.
pub(crate) fn report(command: &str, text: &str, step: Step) -> Result<Finished> {
    let last = match step {
        Step::Entry(_) | Step::Enter(_) | Step::Leave(_) => return Ok(Finished::Whole),
        Step::Failed(found, error) if found.depth == 0 => return Err(error),
        Step::Failed(_, error) | Step::Unnamed(_, error) => {
            let code = exit_code(&error);
            complain(command, error);
            code
        }
        Step::Unlisted(found, words) => {
            output::complain(&format!("{}: {words}", found.shown(text)));
            UNLISTED
        }
        Step::Loop(found) => {
            output::complain(&format!("{}: {}", found.shown(text), Unfit::Loop.words()));
            LOOP
        }
    };
    Ok(Finished::InPart(last))
}

/// Reports a failure after which a command goes on.
pub(crate) fn complain(command: &str, failure: impl Into<Failure>) {
    let message = failure.into().message(Reader::User);
    output::complain(&format!("crossload {command} error: {message}"));
}
