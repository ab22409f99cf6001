//! `crossload restore`: checks a backup and what is there, then puts everything in its place, or
//! nothing.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use catalog::{Catalog, TABLES_VERSION, version_in_postgres};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use types::{Error, ErrorCode, Phase, Side};
use zeroize::Zeroizing;

use super::archive::{ContentKind, Entry, List, Opened};
use super::place::{self, BEFORE, Now, Staged, Target};
use super::plan::{self, CONFIGURATION, Kind, PASSWORD, Plan, more_directory};
use super::postgres;
use crate::command_line::RestoreOptions;
use crate::failure::Failure;
use crate::kept_files::beside;
use crate::output;
use crate::queue::state::{Database, State, password_setting};
use crate::server::configured;

/// Restores a backup.
///
/// # Errors
/// It cannot be used, something else is there, or a place cannot be written. Nothing is changed
/// then, unless the words say so.
pub(super) fn run(options: &RestoreOptions) -> Result<(), Failure> {
    let opened = Opened::open(&options.file)?;
    let config =
        std::path::absolute(&options.config).map_err(|cause| Failure::system(options.config.display(), &cause))?;
    let (list, kept) = opened.verify(|entry| is_configuration(&entry.role) || entry.role == PASSWORD)?;
    let plan = match options.keep_config {
        true => plan_of_file(&config, true)?,
        false => plan_of_backup(&kept, &config)?,
    };
    let (targets, unplaced) = targets(&list, &plan, options.keep_config)?;
    check_versions(&targets)?;
    let _locks = lock_databases(&targets)?;
    let mut targets = look(targets, plan.postgres.as_deref())?;
    refuse_others(&targets, options.replace)?;
    let mut replaced = Vec::new();
    if !options.dry_run {
        let staged = place::stage(&opened, &mut targets)?;
        let is_dump = |one: &Staged| one.target.entry.content == ContentKind::Postgres;
        let (dumps, files): (Vec<_>, Vec<_>) = staged.into_iter().partition(is_dump);
        let done = place::put(files)?;
        // Last, since it cannot be undone.
        if let Err(failure) = restore_postgres(dumps.first(), plan.postgres.as_deref(), options.replace) {
            return Err(Failure {
                words: format!("{}; {}", failure.words, done.undo()),
                ..failure
            });
        }
        replaced = done.replaced;
    }
    report(&list, &targets, &unplaced, options.dry_run);
    if !options.keep_config {
        for path in other_files(&config, &targets) {
            output::complain(&format!(
                "notice: {} is not in the backup, and is part of the configuration; remove it if it is not meant",
                path.display()
            ));
        }
    }
    for one in replaced {
        output::line(&format!("kept {} as {}", one.from.display(), one.to.display()));
    }
    Ok(())
}

fn is_configuration(role: &str) -> bool {
    role == CONFIGURATION || role.split('/').next() == Some("configuration.d")
}

/// What a configuration file names; the password of its database may be in a file that is there.
fn plan_of_file(config: &Path, has_password: bool) -> Result<Plan, Failure> {
    let (configuration, sources) = configured::load_with_sources(config)?;
    let mut plan = plan::plan(config, &configuration, &sources);
    if has_password && let Database::Postgres(url) = State::of(&configuration).with_password(&configuration)?.database {
        plan.postgres = Some(url);
    }
    Ok(plan)
}

/// The plan of the configuration in the backup, for its new place: relative names begin there.
fn plan_of_backup(kept: &[(Entry, Zeroizing<Vec<u8>>)], config: &Path) -> Result<Plan, Failure> {
    let failed = |cause: std::io::Error| Failure::system("a temporary directory", &cause);
    let scratch = tempfile::tempdir().map_err(failed)?;
    let name = config.file_name().unwrap_or_default();
    let file = scratch.path().join(name);
    let more = more_directory(&file);
    std::fs::create_dir(&more).map_err(failed)?;
    let configured = kept.iter().filter(|(entry, _)| is_configuration(&entry.role));
    for (entry, content) in configured {
        let place = match entry.role.split_once('/') {
            None => file.clone(),
            Some((_, name)) if Path::new(name).file_name().is_some_and(|plain| plain == name) => more.join(name),
            Some(_) => return Err(unplaced(entry)),
        };
        std::fs::write(place, content).map_err(failed)?;
    }
    let mut plan = plan_of_file(&file, false).map_err(|failure| Failure {
        words: failure
            .words
            .replace(&scratch.path().display().to_string(), "in the backup"),
        ..failure
    })?;
    let directory = config.parent().unwrap_or(Path::new("/"));
    for item in &mut plan.items {
        if let Ok(within) = item.path.strip_prefix(scratch.path()) {
            item.path = directory.join(within);
        }
    }
    let password = kept.iter().find(|(entry, _)| entry.role == PASSWORD);
    if let (Some(url), Some((_, password))) = (&mut plan.postgres, password) {
        let password = String::from_utf8_lossy(password);
        url.push_str(&password_setting(url, password.trim_end_matches(['\r', '\n'])));
    }
    Ok(plan)
}

fn unplaced(entry: &Entry) -> Failure {
    Failure::invalid(format!(
        "the configuration in the backup names no place for {} ({}); use another backup",
        entry.what, entry.role
    ))
}

/// The places of all entries, and the entries that have none.
fn targets(list: &List, plan: &Plan, keeps_config: bool) -> Result<(Vec<Target>, Vec<Entry>), Failure> {
    let (mut targets, mut unplaced_entries) = (Vec::new(), Vec::new());
    let wanted = list
        .entries
        .iter()
        .filter(|entry| !(keeps_config && is_configuration(&entry.role)));
    for entry in wanted {
        let fits = |kind: &Kind| match entry.content {
            ContentKind::Sqlite => *kind == Kind::Sqlite,
            ContentKind::Postgres => *kind == Kind::Postgres,
            ContentKind::History => *kind == Kind::History,
            ContentKind::File => matches!(kind, Kind::File | Kind::Key | Kind::Directory(_)),
        };
        match plan.place(&entry.role) {
            Some((item, path)) if fits(&item.kind) => targets.push(Target {
                entry: entry.clone(),
                path,
                now: Now::Nothing,
            }),
            Some((item, _)) => {
                return Err(Failure::invalid(format!(
                    "{} in the backup is of another kind than {} of the configuration: a database moves between SQLite \
                     and PostgreSQL by no backup",
                    entry.what, item.role
                )));
            }
            None if keeps_config => unplaced_entries.push(entry.clone()),
            None => return Err(unplaced(entry)),
        }
    }
    Ok((one_per_place(targets)?, unplaced_entries))
}

/// Several keys may name one file, which is restored once.
fn one_per_place(targets: Vec<Target>) -> Result<Vec<Target>, Failure> {
    let mut places = HashMap::new();
    let mut kept: Vec<Target> = Vec::new();
    for target in targets {
        let place = without_links(&target.path);
        let Some(known) = places.get(&place).map(|at: &usize| &kept[*at].entry) else {
            places.insert(place, kept.len());
            kept.push(target);
            continue;
        };
        if (known.content, &known.sha256) != (target.entry.content, &target.entry.sha256) {
            return Err(Failure::invalid(format!(
                "the configuration names {} for {} and for {}, and they differ in the backup ({}, {}); name two files",
                target.path.display(),
                known.what,
                target.entry.what,
                known.path,
                target.entry.path
            )));
        }
    }
    Ok(kept)
}

/// A path with the real name of its directory, if there is one.
fn without_links(path: &Path) -> PathBuf {
    let directory = path.parent().and_then(|directory| directory.canonicalize().ok());
    match (directory, path.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        // Spelled without `.` and doubled slashes.
        _ => path.components().collect(),
    }
}

/// A database of a later release is of no use here.
fn check_versions(targets: &[Target]) -> Result<(), Failure> {
    let newest = targets.iter().filter_map(|target| target.entry.tables_version).max();
    match newest.filter(|version| *version > TABLES_VERSION) {
        None => Ok(()),
        Some(version) => {
            let words = format!("the database in the backup: its version is {version}, ours is {TABLES_VERSION}");
            let error = Error::new(ErrorCode::CatalogNewer, Side::Queue, Phase::Queued).with_detail(words);
            Err(Failure::advised(
                &error,
                "Restore it with the release that made the backup, or a later one.",
            ))
        }
    }
}

/// Keeps queues away from the databases that are restored.
fn lock_databases(targets: &[Target]) -> Result<Vec<File>, Failure> {
    let mut locks = Vec::new();
    for target in targets
        .iter()
        .filter(|target| target.entry.content == ContentKind::Sqlite)
    {
        let path = beside(&target.path, ".lock");
        // A pipe in its place would wait for a reader.
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let lock = match rustix::fs::open(&path, flags, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            opened => opened.map_err(|cause| Failure::system(path.display(), &cause.into()))?,
        };
        let lock = File::from(lock);
        match lock.try_lock() {
            Ok(()) => locks.push(lock),
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::invalid(format!(
                    "a queue uses {}; stop it, then restore: systemctl stop crossload-queue",
                    target.path.display()
                )));
            }
            Err(TryLockError::Error(cause)) => return Err(Failure::system(path.display(), &cause)),
        }
    }
    Ok(locks)
}

/// Looks at what is there now.
fn look(targets: Vec<Target>, postgres: Option<&str>) -> Result<Vec<Target>, Failure> {
    let mut seen = Vec::new();
    for mut target in targets {
        target.now = match target.entry.content {
            ContentKind::Postgres => look_at_postgres(postgres.unwrap_or_default())?,
            _ => look_at_file(&target)?,
        };
        seen.push(target);
    }
    Ok(seen)
}

fn look_at_file(target: &Target) -> Result<Now, Failure> {
    let system = |cause: std::io::Error| Failure::system(target.path.display(), &cause);
    let is_database = target.entry.content != ContentKind::File;
    place::refuse_links(&target.path)?;
    match target.path.symlink_metadata() {
        Err(cause) if cause.kind() == ErrorKind::NotFound => {
            let has_log = is_database && beside(&target.path, "-wal").exists();
            Ok(if has_log { Now::Other } else { Now::Nothing })
        }
        Err(cause) => Err(system(cause)),
        Ok(facts) if facts.is_dir() => Err(Failure::invalid(format!(
            "{} is a directory, where {} has its place",
            target.path.display(),
            target.entry.what
        ))),
        // It is prepared before it is put there, and compared then.
        Ok(_) if target.entry.content == ContentKind::Sqlite => Ok(Now::Other),
        Ok(_) => {
            let is_same = place::has_content(target, target.entry.size_bytes, &target.entry.sha256).map_err(system)?;
            Ok(if is_same { Now::Same } else { Now::Other })
        }
    }
}

fn look_at_postgres(url: &str) -> Result<Now, Failure> {
    let runtime = runtime()?;
    Ok(match runtime.block_on(version_in_postgres(url))? {
        Some(_) => Now::Other,
        None => Now::Nothing,
    })
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    execution::single_thread_runtime().map_err(|cause| Failure::system("cannot start threads", &cause))
}

/// Refuses to replace what is there, unless that is wanted.
fn refuse_others(targets: &[Target], replaces: bool) -> Result<(), Failure> {
    let others = targets.iter().filter(|target| target.now == Now::Other);
    let others: Vec<String> = others
        .map(|target| format!("    {} ({})", target.path.display(), target.entry.what))
        .collect();
    if others.is_empty() || replaces {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "something else is there already, and nothing was changed:\n{}\nGive --replace to replace it; files that were \
         there are kept as NAME{BEFORE} (or with a number behind it), a database in PostgreSQL is not",
        others.join("\n")
    )))
}

/// Puts the database back that PostgreSQL has: all of it or nothing.
fn restore_postgres(dump: Option<&Staged>, url: Option<&str>, replaces: bool) -> Result<(), Failure> {
    let (Some(dump), Some(url)) = (dump, url) else {
        return Ok(());
    };
    postgres::restore(url, dump.file.path(), replaces && dump.target.now == Now::Other)?;
    runtime()?.block_on(async {
        let catalog = Catalog::open_postgres(url).await?;
        catalog.prepare_restored().await?;
        catalog.close().await;
        Ok::<(), Failure>(())
    })
}

/// Files that complete the configuration, and that are not restored.
pub(super) fn other_files(config: &Path, targets: &[Target]) -> Vec<PathBuf> {
    let files = config::configuration_files(config).unwrap_or_default();
    let others = files.into_iter().skip(1);
    others
        .filter(|path| targets.iter().all(|target| target.path != *path))
        .collect()
}

fn report(list: &List, targets: &[Target], unplaced: &[Entry], is_dry: bool) {
    let begun = if is_dry { "would restore" } else { "restored" };
    for target in targets {
        let path = target.path.to_string_lossy();
        let path = output::name(&path);
        let what = output::name(&target.entry.what);
        let owner = target
            .entry
            .user
            .as_deref()
            .map_or_else(String::new, |user| format!(", of {user}"));
        match target.now {
            Now::Same => output::line(&format!("unchanged {path} ({what})")),
            Now::Nothing => output::line(&format!("{begun} {path} ({what}{owner})")),
            Now::Other => output::line(&format!("{begun} {path} ({what}{owner}), replacing another one")),
        }
    }
    for entry in unplaced {
        output::line(&format!(
            "not restored: {} ({}): the configuration names no place for it",
            entry.path, entry.what
        ));
    }
    for left in &list.left_out {
        output::line(&format!(
            "not in the backup: {} ({}): {}",
            left.path, left.what, left.why
        ));
    }
}
