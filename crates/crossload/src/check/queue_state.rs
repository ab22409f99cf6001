//! Checks where a queue keeps its state, and the key of its database.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use catalog::{TABLES_VERSION, key_mark_in_file, key_mark_in_postgres, version_in_file, version_in_postgres};
use config::Configuration;
use rustix::fs::{Access, access};
use types::ErrorCode;

use super::finding::{Finding, Position};
use super::lines::Lines;
use crate::queue::key;
use crate::queue::state::{Database, State, directory};

/// Permission bits of group and others.
const OTHERS: u32 = 0o077;

/// Checks the directory, and the key if its database is a file.
pub(super) fn check(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (place, is_set) = (directory(configuration), configuration.queue.state_directory.is_some());
    // The usual place is that of the user who starts the queue, and may not be that of the check.
    if is_set {
        findings.extend(state_directory(&place, lines));
    }
    let state = State::of(configuration);
    if let (Database::Sqlite(file), true) = (&state.database, is_set || place.is_dir()) {
        let mark = key_mark_in_file(file).ok().flatten();
        findings.extend(key_of(&state, mark.as_deref(), key_position(lines)));
        let version = version_in_file(file).ok().flatten();
        let position = lines.of("queue", "state_directory");
        findings.extend(of_version(version, &file.display().to_string(), position));
    }
    findings
}

/// Checks the key of a database that is not on this machine.
pub(super) async fn check_database(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let state = match State::of(configuration).with_password(configuration) {
        Ok(state) => state,
        Err(failure) => {
            let position = lines.of("queue", "database_password_file");
            let finding = Finding::error("queue_database_unusable", failure.words).at(position);
            return Some(finding.change("put the password there, readable for the queue's user only"));
        }
    };
    let Database::Postgres(url) = &state.database else {
        return None;
    };
    match key_mark_in_postgres(url).await {
        Ok(mark) => {
            let version = version_in_postgres(url).await.ok().flatten();
            let of_version = of_version(version, "the database", lines.of("queue", "database"));
            let of_key = || key_of(&state, mark.as_deref(), key_position(lines));
            Some(of_version.or_else(of_key).unwrap_or_else(answers))
        }
        // A queue makes the tables.
        Err(error) if error.code() == ErrorCode::Internal => Some(answers()),
        Err(error) => {
            let cause = error.private().map_or_else(String::new, |cause| format!(" [{cause}]"));
            let says = format!("{}{cause}", error.public());
            let finding = Finding::error("queue_database_unusable", says).at(lines.of("queue", "database"));
            Some(finding.change("start the database, or correct the URL"))
        }
    }
}

/// Tables of another release.
pub(super) fn of_version(version: Option<usize>, database: &str, position: Position) -> Option<Finding> {
    let version = version.filter(|version| *version != TABLES_VERSION)?;
    let says = |words: &str| format!("{words}: the version of {database} is {version}, ours is {TABLES_VERSION}");
    let finding = if version > TABLES_VERSION {
        let finding = Finding::error("queue_database_newer", says("a later release has changed the tables"));
        finding.change(format!(
            "install that release or a later one, or put back {database}.version-N (docs/upgrade.md)"
        ))
    } else {
        let finding = Finding::note("queue_database_older", says("the tables are changed at the next start"));
        finding.change("crossload backup, before the queue is started")
    };
    Some(finding.at(position))
}

fn answers() -> Finding {
    Finding::ok("queue_database", "the database answers")
}

/// A password in the URL of the database, and a file that others may read.
pub(super) fn open_password(configuration: &Configuration, lines: &Lines, mode: u32) -> Option<Finding> {
    let url = configuration.queue.database.as_deref()?;
    let authority = url.split_once("://")?.1.split(['/', '?']).next()?;
    let has_password = authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'));
    let has_password = has_password || url.contains("password=");
    (has_password && mode & OTHERS & 0o044 != 0).then(|| {
        let says = "other users may read the password of the database in the configuration";
        let finding = Finding::warning("queue_password_open", says).at(lines.of("queue", "database"));
        finding.change("chmod 600 the configuration, or move the password to queue.database_password_file")
    })
}

fn key_position(lines: &Lines) -> Position {
    let key = match lines.is_written("queue", "key_file") {
        true => "key_file",
        false => "state_directory",
    };
    lines.of("queue", key)
}

fn key_of(state: &State, mark: Option<&str>, position: Position) -> Option<Finding> {
    let file = &state.key_file;
    let fault = match mark {
        None if file.exists() => crate::server::secret::load_sealing_key(file, false).map(|_| None),
        mark => key::fault(file, mark),
    };
    let finding = match fault {
        Ok(None) => return None,
        Ok(Some(fault)) => {
            let says = fault.says(file, &state.database_words());
            Finding::error("queue_key_other", says).change(fault.change())
        }
        Err(failure) => Finding::error("queue_key_unusable", failure.words)
            .change("put the queue's key there, readable for its owner only: base64 of at least 32 random bytes"),
    };
    Some(finding.at(position))
}

/// The directory, or the one in which it will be made.
fn state_directory(directory: &Path, lines: &Lines) -> Option<Finding> {
    let at = |finding: Finding| finding.at(lines.of("queue", "state_directory"));
    let place = directory.ancestors().find(|place| place.symlink_metadata().is_ok())?;
    let shown = place.display();
    let facts = place.metadata().ok().filter(std::fs::Metadata::is_dir);
    let Some(facts) = facts else {
        let finding = Finding::error("queue_state_unwritable", format!("{shown} is no directory"));
        return Some(at(finding).change("name a directory, or one that can be made"));
    };
    if let Err(cause) = access(place, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        let says = format!("the queue cannot write in {shown}: {cause}");
        let finding = at(Finding::error("queue_state_unwritable", says));
        return Some(finding.change("chown it to the queue's user, or run the check as that user"));
    }
    let mode = facts.mode() & 0o7777;
    (place == directory && mode & OTHERS != 0).then(|| {
        let says = format!("other users may enter the queue's state directory {shown} (mode {mode:o})");
        let finding = match mode & 0o022 {
            // What the queue makes there is for its owner only.
            0 => Finding::note("queue_state_open", says),
            _ => Finding::error("queue_state_open", says),
        };
        at(finding).change(format!("chmod 700 {shown}"))
    })
}
