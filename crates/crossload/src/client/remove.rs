//! `rm`: one line for each name, as gfal-rm prints them.

use serde_json::json;
use types::{Error, ErrorCode, Phase, Side};

use super::place::Place;
use super::session::{Session, is_missing};
use crate::command_line::RemoveOptions;
use crate::failure::{Failure, describe};
use crate::output;

/// Removes everything that was named; goes on after a failure.
pub(crate) async fn run(session: &Session, options: &RemoveOptions) -> Result<u8, Failure> {
    let mut last = None;
    let mut failures = 0;
    for text in &options.places {
        let removed = match Place::parse(text) {
            Ok(place) => remove_tree(session, options, place, text).await,
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            say(options, text, if is_missing(&error) { "MISSING" } else { "FAILED" });
            failures += 1;
            last = Some(error);
        }
    }
    match last {
        None => Ok(0),
        Some(error) if failures == 1 && options.places.len() == 1 => Err(error.into()),
        Some(error) => {
            output::complain(&format!("crossload rm error: {}", describe(&error)));
            output::complain(&format!("{failures} of {} could not be removed", options.places.len()));
            Ok(1)
        }
    }
}

fn say(options: &RemoveOptions, name: &str, outcome: &str) {
    if options.common.json {
        output::json(&json!({"name": name, "outcome": outcome}));
    } else {
        output::line(&format!("{name}\t{outcome}"));
    }
}

async fn remove_tree(session: &Session, options: &RemoveOptions, place: Place, text: &str) -> types::Result<()> {
    let info = session.stat(&place, Side::Destination).await?;
    if info.is_directory && !options.recursive {
        let error = Error::new(ErrorCode::IsDirectory, Side::Client, Phase::Open);
        return Err(error.with_detail("use -r for directories").with_subject(text));
    }
    // Directories come twice: to be listed, and when they are empty to be removed.
    let mut pending = vec![(place, text.to_owned(), info.is_directory)];
    while let Some((place, shown, is_full_directory)) = pending.pop() {
        if is_full_directory {
            let entries = session.list(&place, Side::Destination).await?;
            pending.push((place.clone(), shown.clone(), false));
            for entry in entries.into_iter().rev() {
                let below = format!("{}/{}", shown.trim_end_matches('/'), entry.name);
                pending.push((place.child(&entry.name)?, below, entry.is_directory));
            }
            continue;
        }
        if options.dry_run {
            say(options, &shown, "SKIP");
            continue;
        }
        match &place {
            Place::Remote(location) => {
                session
                    .client
                    .delete(&session.resource(location, Side::Destination))
                    .await?;
            }
            Place::Local(path) => session.files.remove(path).await?,
            Place::Stdio => {}
        }
        say(options, &shown, "DELETED");
    }
    Ok(())
}
