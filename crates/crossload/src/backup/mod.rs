//! `crossload backup` and `crossload restore`: the configuration, the secrets and the state of a
//! server in one file.

mod archive;
mod collect;
mod place;
mod plan;
mod postgres;
mod restore;

use std::fs::File;
use std::path::PathBuf;

use tempfile::NamedTempFile;
use types::binary_size;

use crate::command_line::{BackupOptions, RestoreOptions};
use crate::failure::Failure;
use crate::output::{self, counted};
use crate::queue::state::{Database, State};
use crate::server::configured;
use crate::token::now_s;
use archive::List;

/// The name of standard output and input.
const STANDARD: &str = "-";

/// Makes a backup.
///
/// # Errors
/// Something cannot be read, the database of a queue is missing at a place that no key names, or
/// the backup cannot be written.
pub(crate) fn run(options: &BackupOptions) -> Result<(), Failure> {
    let file = &options.file;
    let is_piped = file.as_os_str() == STANDARD;
    let system = |cause: std::io::Error| Failure::system(file.display(), &cause);
    if !is_piped && file.symlink_metadata().is_ok() {
        let words = format!("{} exists; name a file that does not", file.display());
        return Err(Failure::invalid(words));
    }
    let config = std::path::absolute(&options.config).map_err(system)?;
    let (configuration, sources) = configured::load_with_sources(&config)?;
    let mut plan = plan::plan(&config, &configuration, &sources);
    if let Some(words) = plan.lost_database(&configuration) {
        return Err(Failure::invalid(words));
    }
    if let Database::Postgres(url) = State::of(&configuration).with_password(&configuration)?.database {
        plan.postgres = Some(url);
    }
    let parent = match file.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        _ if is_piped => std::env::temp_dir(),
        Some(parent) => parent.to_owned(),
        None => PathBuf::from("."),
    };
    // For us alone: it has copies of databases.
    let mut scratch = tempfile::Builder::new();
    let scratch = scratch
        .prefix(".crossload-backup-")
        .tempdir_in(&parent)
        .map_err(system)?;
    let collected = collect::collect(plan, scratch.path(), options.with_host_key)?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut list = List::new(&config, host, now_s());
    list.entries = collected.entries;
    list.left_out = collected.left_out;
    // Temporary files are readable for their owner only.
    let written = NamedTempFile::new_in(scratch.path()).map_err(system)?;
    archive::write(written.as_file(), &list, &collected.contents).map_err(system)?;
    let length = written.as_file().metadata().map_or(0, |facts| facts.len());
    if is_piped {
        output::pass_on(&mut written.reopen().map_err(system)?).map_err(system)?;
        report("standard output", &list, length, output::complain);
        return Ok(());
    }
    written.persist_noclobber(file).map_err(|error| system(error.error))?;
    File::open(&parent)
        .and_then(|parent| parent.sync_all())
        .map_err(system)?;
    report(&file.display().to_string(), &list, length, output::line);
    Ok(())
}

fn report(name: &str, list: &List, length: u64, say: fn(&str)) {
    for entry in &list.entries {
        say(&format!("saved {} ({})", entry.path, entry.what));
    }
    for left in &list.left_out {
        say(&format!("left out {} ({}): {}", left.path, left.what, left.why));
    }
    let files = counted(list.entries.len() as u64, "file");
    let length = binary_size(length);
    say(&format!("{name}: {files}, {length}; it has secrets in clear text"));
}

/// Restores a backup.
///
/// # Errors
/// As [`restore::run`].
pub(crate) fn restore(options: &RestoreOptions) -> Result<(), Failure> {
    restore::run(options)
}

#[cfg(test)]
mod tests;
