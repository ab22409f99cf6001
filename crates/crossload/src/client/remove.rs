//! `rm`: prints a line per name, in the format of gfal-rm.

use serde_json::json;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::each::complain;
use super::place::{Place, without_query};
use super::session::{ClientContext, Info, is_missing};
use crate::command_line::RemoveOptions;
use crate::exit_code::ExitCodes;
use crate::failure::{Failure, describe};
use crate::next_step::REMOVES_WHOLE;
use crate::output;
use storage::local::Unfit;

/// Removes all arguments, and continues after a failure.
pub(crate) async fn run(session: &ClientContext, options: &RemoveOptions) -> std::result::Result<u8, Failure> {
    let (mut last, mut failures, mut count) = (None, 0_u64, 0_u64);
    for text in options.places.all()? {
        let text = text?;
        count += 1;
        let removed = match session.name(&text).await {
            Ok(place) => remove_argument(session, options, place, &text).await,
            Err(error) => Err(error),
        };
        let Err(error) = removed else { continue };
        say(options, &text, if is_missing(&error) { "MISSING" } else { "FAILED" });
        if is_missing(&error) && options.force {
            continue;
        }
        failures += 1;
        last = Some(error);
    }
    match last {
        None => Ok(0),
        Some(error) if options.places.is_one() => Err(error.into()),
        Some(error) => {
            let failure = Failure::from(error);
            let code = ExitCodes::chosen().of_several(failure.exit_code);
            complain("rm", failure);
            output::complain(&format!("{failures} of {count} could not be removed"));
            Ok(code)
        }
    }
}

fn say(options: &RemoveOptions, name: &str, outcome: &str) {
    let name = without_query(name);
    if options.quiet {
        return;
    }
    if options.common.json {
        output::json(&json!({"name": name, "outcome": outcome}));
    } else {
        output::line(&format!("{}\t{outcome}", output::name(name)));
    }
}

async fn remove_argument(session: &ClientContext, options: &RemoveOptions, place: Place, text: &str) -> Result<()> {
    refuse_whole(&place, text)?;
    let info = match session.stat(&place, place.side()).await {
        // A dangling symbolic link looks missing, but its name can be removed.
        Err(error) if is_missing(&error) && !options.dry_run => Info::default(),
        found => found?,
    };
    if info.is_directory && !options.recursive {
        return Err(Error::new(ErrorCode::IsDirectory, Side::Client, Phase::Open).with_subject(text));
    }
    let first = Pending {
        place,
        shown: text.to_owned(),
        is_directory: info.is_directory,
        is_entered: false,
        unlisted: None,
        is_first: true,
    };
    remove_tree(session, options, first).await
}

/// Refuses what stands for everything, as rm of POSIX does: the top of a server or of this machine,
/// and a directory that is named by `.` or `..`.
fn refuse_whole(place: &Place, text: &str) -> Result<()> {
    let last = text.trim_end_matches('/').rsplit('/').next();
    match place.parent().is_none() || matches!(last, Some("." | "..")) {
        true => Err(Error::new(ErrorCode::PathRefused, Side::Client, Phase::Open)
            .with_detail(REMOVES_WHOLE)
            .with_subject(text)),
        false => Ok(()),
    }
}

/// A name to remove.
struct Pending {
    place: Place,
    shown: String,
    is_directory: bool,
    /// Whether its entries have been removed.
    is_entered: bool,
    /// The server's words about entries that it does not list. They keep the directory.
    unlisted: Option<String>,
    is_first: bool,
}

/// Removes a tree; continues after a failure and returns the first error.
///
/// It tries to remove each name before it enters it. Where a server shows a symbolic link as the
/// directory behind it, this removes the link and keeps the directory.
async fn remove_tree(session: &ClientContext, options: &RemoveOptions, first: Pending) -> Result<()> {
    let mut pending = vec![first];
    let mut failure = None;
    while let Some(next) = pending.pop() {
        let removed = match options.dry_run {
            true if next.is_directory && !next.is_entered => {
                Err(Error::new(ErrorCode::NotEmpty, next.place.side(), Phase::Open))
            }
            true => match &next.unlisted {
                Some(words) => Err(not_empty(words, &next)),
                None => Ok(()),
            },
            false => remove_name(session, &next.place)
                .await
                .map_err(|error| match &next.unlisted {
                    Some(words) if error.code() == ErrorCode::NotEmpty => not_empty(words, &next),
                    _ => error,
                }),
        };
        let error = match removed {
            // Where only files make directories, this one went with its last file.
            Err(error) if next.is_entered && is_missing(&error) => {
                say(options, &next.shown, "DELETED");
                continue;
            }
            Ok(()) => {
                say(
                    options,
                    &next.shown,
                    if options.dry_run { "WOULD DELETE" } else { "DELETED" },
                );
                continue;
            }
            Err(error) => error,
        };
        if error.code() == ErrorCode::NotEmpty && next.is_directory && !next.is_entered {
            let (shown, is_first) = (next.shown.clone(), next.is_first);
            match enter(session, next, &mut pending).await {
                Ok(unsaid) => {
                    for (shown, error) in unsaid {
                        tell_failure(options, &shown, &error, &mut failure, false);
                    }
                }
                Err(error) => tell_failure(options, &shown, &error, &mut failure, is_first),
            }
        } else if is_missing(&error) && !next.is_first {
            say(options, &next.shown, "MISSING");
        } else {
            tell_failure(options, &next.shown, &error, &mut failure, next.is_first);
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Queues the entries of a directory before the directory itself. Returns the unusable names.
async fn enter(
    session: &ClientContext,
    directory: Pending,
    pending: &mut Vec<Pending>,
) -> Result<Vec<(String, Error)>> {
    let side = directory.place.side();
    let entries = session.list(&directory.place, side).await?;
    let (at, mut unsaid) = (pending.len(), Vec::new());
    // Entries that the server does not list keep the directory. The refusal says so.
    let (unlisted, listed): (Vec<_>, Vec<_>) = entries
        .into_iter()
        .partition(|entry| entry.unfit == Some(Unfit::Unlisted));
    for entry in listed.into_iter().rev() {
        let child = directory.place.child(&entry.name);
        let shown = match &child {
            // A URL, with its escapes: a list of what was deleted may be read again.
            Ok(place @ Place::Remote(_)) => place.to_string(),
            _ => format!("{}/{}", directory.shown.trim_end_matches('/'), entry.name),
        };
        let child = child.and_then(|place| match entry.unfit {
            Some(Unfit::Name) => {
                let error = Error::new(ErrorCode::PathRefused, side, Phase::Open);
                Err(error.with_detail(Unfit::Name.words()).with_subject(&shown))
            }
            _ => Ok(place),
        });
        match child {
            Ok(place) => pending.push(Pending {
                place,
                shown,
                is_directory: entry.is_directory,
                is_entered: false,
                unlisted: None,
                is_first: false,
            }),
            Err(error) => unsaid.push((shown, error)),
        }
    }
    let entered = Pending {
        is_entered: true,
        unlisted: unlisted.into_iter().next().map(|entry| entry.name),
        ..directory
    };
    pending.insert(at, entered);
    Ok(unsaid)
}

fn not_empty(words: &str, directory: &Pending) -> Error {
    let error = Error::new(ErrorCode::NotEmpty, directory.place.side(), Phase::Open);
    error.with_detail(words).with_subject(&directory.shown)
}

/// Prints a failure, except the first of the argument itself, which the caller prints.
fn tell_failure(options: &RemoveOptions, shown: &str, error: &Error, first: &mut Option<Error>, is_argument: bool) {
    if !is_argument {
        say(options, shown, "FAILED");
        // A directory is not empty because of a failure that was printed before.
        if first.is_none() || error.code() != ErrorCode::NotEmpty {
            output::complain(&format!("crossload rm error: {}", describe(error)));
        }
    }
    first.get_or_insert_with(|| error.clone());
}

/// Removes a file, an empty directory, or a symbolic link, which is not followed.
///
/// # Errors
/// The server's or the system's refusal.
pub(super) async fn remove_name(session: &ClientContext, place: &Place) -> Result<()> {
    match place {
        Place::Remote(location) => {
            let file = session.resource(location, place.side());
            session.client.delete(&file).await
        }
        Place::Local(path) => {
            let removed = session.files.remove(path).await;
            removed.map_err(|error| error.at_side(place.side()))
        }
        Place::Stdio => Ok(()),
    }
}
