//! The contents of a backup: files as they are, and databases in one state while they are used.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use catalog::{copy_of_file, version_in_file, version_in_postgres};
use nix::unistd::{Gid, Group, Uid, User};
use rustix::io::Errno;
use types::ErrorCode;
use zeroize::Zeroizing;

use super::archive::{Content, ContentKind, Entry};
use super::plan::{CONFIGURATION, Item, Kind, LeftOut, Plan};
use super::postgres;
use crate::failure::Failure;
use crate::limits::BACKUP_FILE_BYTES_MAX;

/// What is in a backup.
pub(super) struct Collected {
    pub(super) entries: Vec<Entry>,
    pub(super) contents: Vec<Content>,
    pub(super) left_out: Vec<LeftOut>,
}

/// Reads what a configuration names. Copies of databases are written to `scratch`, which only we
/// can enter.
///
/// # Errors
/// Something cannot be read.
pub(super) fn collect(mut plan: Plan, scratch: &Path, with_keys: bool) -> Result<Collected, Failure> {
    let mut collected = Collected {
        entries: Vec::new(),
        contents: Vec::new(),
        left_out: Vec::new(),
    };
    for item in std::mem::take(&mut plan.items) {
        match &item.kind {
            Kind::Key if !with_keys => plan.leave(
                &item.path,
                &item.what,
                "a machine has its own; --with-host-key takes it along",
            ),
            Kind::Directory(ending) => {
                let follows_links = item.role.starts_with(CONFIGURATION);
                for path in files_in(&item.path, ending, follows_links)? {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    let role = format!("{}/{name}", item.role);
                    collected.add_file(&Item {
                        role,
                        path: path.clone(),
                        ..item.clone()
                    })?;
                }
            }
            Kind::Postgres => collected.add_postgres(&item, plan.postgres.as_deref().unwrap_or_default(), scratch)?,
            _ => match item.path.metadata() {
                Err(cause) if cause.kind() == ErrorKind::NotFound => {
                    plan.leave(&item.path, &item.what, "it is not there");
                }
                Err(cause) => return Err(Failure::system(item.path.display(), &cause)),
                Ok(facts) if facts.is_dir() => {
                    plan.leave(&item.path, &item.what, "it is a directory of other packages");
                }
                Ok(facts) if !facts.is_file() => {
                    plan.leave(&item.path, &item.what, "it is a pipe or a device");
                }
                Ok(facts) => match item.kind {
                    Kind::Sqlite => collected.add_sqlite(&item, &facts, scratch)?,
                    Kind::History => collected.add_history(&item, &facts, scratch)?,
                    _ if collected.add_again(&item) => {}
                    _ => collected.add_file(&item)?,
                },
            },
        }
    }
    collected.left_out = plan.left_out;
    Ok(collected)
}

/// The files of a directory with this ending, by name. One that is missing has none. A link in a
/// directory of the service may lead to what only root can read.
fn files_in(directory: &Path, ending: &str, follows_links: bool) -> Result<Vec<PathBuf>, Failure> {
    let system = |cause: std::io::Error| Failure::system(directory.display(), &cause);
    let entries = match std::fs::read_dir(directory) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(system)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(system)?;
        let path = entry.path();
        let kind = entry.file_type().map_err(system)?;
        let is_file = kind.is_file() || follows_links && path.is_file();
        if is_file && path.extension().is_some_and(|end| end == ending) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

impl Collected {
    /// Adds a file that another key names too, as it was when it was read for that one; whether
    /// there is one.
    fn add_again(&mut self, item: &Item) -> bool {
        let mut known = self.entries.iter().zip(&self.contents);
        let known = known.find(|(entry, _)| Path::new(&entry.path) == item.path);
        let Some((entry, Content::Bytes(bytes))) = known else {
            return false;
        };
        let (entry, bytes) = (entry.clone(), bytes.clone());
        self.entries.push(Entry {
            role: item.role.clone(),
            what: item.what.clone(),
            ..entry
        });
        self.contents.push(Content::Bytes(bytes));
        true
    }

    fn add_file(&mut self, item: &Item) -> Result<(), Failure> {
        let system = |cause: std::io::Error| Failure::system(item.path.display(), &cause);
        let file = File::open(&item.path).map_err(system)?;
        let facts = file.metadata().map_err(system)?;
        let mut bytes = Zeroizing::new(Vec::new());
        file.take(BACKUP_FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(system)?;
        if bytes.len() as u64 > BACKUP_FILE_BYTES_MAX {
            let words = format!("{}: {} is too long for a backup", item.path.display(), item.what);
            return Err(Failure::invalid(words));
        }
        self.add(item, Some(&facts), ContentKind::File, Content::Bytes(bytes))
    }

    fn add_sqlite(&mut self, item: &Item, facts: &Metadata, scratch: &Path) -> Result<(), Failure> {
        let copy = scratch.join("queue.db");
        copy_of_file(&item.path, &copy).map_err(|error| match error.code() {
            // It is the copy that finds no space.
            ErrorCode::CatalogFull => Failure::system(copy.display(), &Errno::NOSPC.into()),
            _ => Failure::from(error),
        })?;
        let version = version_in_file(&copy)?;
        self.add(item, Some(facts), ContentKind::Sqlite, Content::File(copy))?;
        self.note_version(version);
        Ok(())
    }

    fn add_history(&mut self, item: &Item, facts: &Metadata, scratch: &Path) -> Result<(), Failure> {
        let copy = scratch.join("history.sqlite");
        let failed = |cause: history::StoreError| {
            let words = format!("the history of tests {}: {cause}", item.path.display());
            Failure::invalid(words)
        };
        let Some(store) = history::Store::open_to_read(&item.path).map_err(failed)? else {
            return Ok(());
        };
        store.copy_to(&copy).map_err(failed)?;
        self.add(item, Some(facts), ContentKind::History, Content::File(copy))
    }

    fn add_postgres(&mut self, item: &Item, url: &str, scratch: &Path) -> Result<(), Failure> {
        let copy = scratch.join("queue.dump");
        postgres::dump(url, &copy)?;
        let runtime =
            execution::single_thread_runtime().map_err(|cause| Failure::system("cannot start threads", &cause))?;
        let version = runtime.block_on(version_in_postgres(url))?;
        self.add(item, None, ContentKind::Postgres, Content::File(copy))?;
        self.note_version(version);
        Ok(())
    }

    /// The version of the tables of what was added last.
    fn note_version(&mut self, version: Option<usize>) {
        if let Some(entry) = self.entries.last_mut() {
            entry.tables_version = version;
        }
    }

    fn add(
        &mut self,
        item: &Item,
        facts: Option<&Metadata>,
        kind: ContentKind,
        content: Content,
    ) -> Result<(), Failure> {
        let system = |cause: std::io::Error| Failure::system(item.path.display(), &cause);
        let (size_bytes, sha256) = content.measure().map_err(system)?;
        self.entries.push(Entry {
            role: item.role.clone(),
            path: item.path.display().to_string(),
            what: item.what.clone(),
            content: kind,
            tables_version: None,
            mode: facts.map_or(0o600, |facts| facts.mode() & 0o777),
            user: facts.and_then(|facts| user_name(facts.uid())),
            group: facts.and_then(|facts| group_name(facts.gid())),
            size_bytes,
            sha256,
        });
        self.contents.push(content);
        Ok(())
    }
}

fn user_name(uid: u32) -> Option<String> {
    Some(User::from_uid(Uid::from_raw(uid)).ok()??.name)
}

fn group_name(gid: u32) -> Option<String> {
    Some(Group::from_gid(Gid::from_raw(gid)).ok()??.name)
}
