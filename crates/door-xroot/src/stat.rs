//! Stats of files by name and handle, of many files, and of space.

use credentials::capability::CapabilityUse;
use endpoint::clock::unix_s;
use endpoint::{PathTarget, SharedSpace, is_missing};
use policy::Operation;
use storage::{Kind, Stat};
use types::{ErrorCode, LogicalPath};
use xroot_wire::StatFlags;
use xroot_wire::request::{self, StatMany, StatTarget};
use xroot_wire::response::{SpaceText, StatExtension, StatText};

use crate::exchange::Exchange;
use crate::failure::Result;
use crate::limits::XROOT_STAT_WAITS_MAX;

const MB: u64 = 1024 * 1024;
/// Files have no owner that clients could know.
const OWNER: &str = "nobody";
const GROUP: &str = "nogroup";
/// The mode bit with which the reference server marks a file that is not persistent yet.
const PENDING_MODE: u32 = 0o1000;
/// Usual length of a stat's text.
const TEXT_BYTES: usize = 128;

/// Answers a stat of one file, or of space.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, request: &request::Stat<'_>) -> Result<()> {
    let argument = match &request.target {
        StatTarget::Handle(handle) => {
            let stat = {
                let file = exchange.file(*handle)?;
                file.stat()?
            };
            return tell(exchange, &stat);
        }
        StatTarget::Path(argument) => argument,
    };
    let named = exchange.path_for(argument, CapabilityUse::Look).await?;
    if request.asks_for_space() {
        return space(exchange, &named.path).await;
    }
    exchange.waits_max = XROOT_STAT_WAITS_MAX;
    let seen = look_for(exchange, &named.path).await?;
    let text = match &seen {
        Seen::Stored(stat) => stat_text(stat),
        Seen::Pending(stat) => pending_text(stat),
    };
    tell_text(exchange, &text)
}

fn tell(exchange: &mut Exchange<'_>, stat: &Stat) -> Result<()> {
    tell_text(exchange, &stat_text(stat))
}

fn tell_text(exchange: &mut Exchange<'_>, stat: &StatText) -> Result<()> {
    let mut text = Vec::with_capacity(TEXT_BYTES);
    stat.write(&mut text);
    text.push(0);
    exchange.ok(&text);
    Ok(())
}

/// What stands under a name.
pub(crate) enum Seen {
    Stored(Stat),
    /// A file that is being written and has no name yet.
    Pending(Stat),
}

/// What stands under a name, if the client may know. A file that is being written counts, because
/// clients look for it on other sessions than the writer's; it cannot be opened yet.
pub(crate) async fn look_for(exchange: &mut Exchange<'_>, path: &LogicalPath) -> Result<Seen> {
    let export_path = match exchange.place(path) {
        PathTarget::Stored(export_path) => export_path,
        // No rules hold there.
        PathTarget::Above(_) => return Ok(Seen::Stored(directory_above(path))),
        PathTarget::Nowhere => return Err(exchange.nowhere(path)),
    };
    let found = exchange.lookup(&export_path, path).await;
    exchange.authorize(Operation::Stat, path, None)?;
    let missing = match found.into_stat(path) {
        Ok(stat) => return Ok(Seen::Stored(stat)),
        Err(error) => error,
    };
    let pending = is_missing(&missing)
        .then(|| exchange.connection.door.writers.pending(path))
        .flatten();
    Ok(Seen::Pending(pending.ok_or(missing)?))
}

/// The same, for callers to whom the difference does not matter.
pub(crate) async fn lookup(exchange: &mut Exchange<'_>, path: &LogicalPath) -> Result<Stat> {
    let (Seen::Stored(stat) | Seen::Pending(stat)) = look_for(exchange, path).await?;
    Ok(stat)
}

/// Whether the client may look at this name, whether or not anything is there.
pub(crate) fn may_look(exchange: &mut Exchange<'_>, path: &LogicalPath) -> Result<()> {
    match exchange.place(path) {
        PathTarget::Above(_) => Ok(()),
        PathTarget::Stored(_) => exchange.authorize(Operation::Stat, path, None).map(drop),
        PathTarget::Nowhere => Err(exchange.nowhere(path)),
    }
}

/// A directory above all exports, which holds only the names that lead to them.
pub(crate) fn directory_above(path: &LogicalPath) -> Stat {
    Stat {
        kind: Kind::Directory,
        size_bytes: 0,
        modified: std::time::UNIX_EPOCH,
        mode: 0o555,
        // Any fixed number but 0.
        inode: 1 + path.as_str().len() as u64,
    }
}

/// The stat of a file as text.
pub(crate) fn stat_text(stat: &Stat) -> StatText {
    let mut flags = StatFlags::empty();
    flags.set(StatFlags::DIRECTORY, stat.is_directory());
    flags.set(StatFlags::EXECUTABLE, stat.is_directory() || stat.mode & 0o100 != 0);
    flags.set(StatFlags::READABLE, stat.mode & 0o400 != 0);
    flags.set(StatFlags::WRITABLE, stat.mode & 0o200 != 0);
    let modified_s = unix_s(stat.modified);
    StatText {
        // 0 would mean that the file is offline.
        id: stat.inode.max(1),
        size_bytes: stat.size_bytes,
        flags,
        modified_s,
        extension: Some(StatExtension {
            changed_s: modified_s,
            accessed_s: modified_s,
            mode: stat.mode & 0o7777,
            owner: OWNER.to_owned(),
            group: GROUP.to_owned(),
        }),
    }
}

/// The same for a file that is being written.
pub(crate) fn pending_text(stat: &Stat) -> StatText {
    let mut text = stat_text(stat);
    text.flags |= StatFlags::PERSIST_PENDING;
    if let Some(more) = &mut text.extension {
        more.mode |= PENDING_MODE;
    }
    text
}

async fn space(exchange: &mut Exchange<'_>, path: &LogicalPath) -> Result<()> {
    exchange.authorize(Operation::Stat, path, None)?;
    let export_path = exchange.export_path(path, ErrorCode::NotFound)?;
    let room = match export_path.store.elsewhere() {
        Some(elsewhere) => elsewhere.space(path).await?,
        None => {
            let space = export_path.store.space_at(&export_path.path).await?;
            SharedSpace {
                space,
                largest_free_bytes: space.free_bytes,
                nodes: 1,
                heard: 1,
                unheard: 0,
            }
        }
    };
    let space = &room.space;
    let used_percent = (space.used_bytes.saturating_mul(100))
        .checked_div(space.total_bytes)
        .unwrap_or(100)
        .min(100);
    let text = SpaceText {
        writable_nodes: room.nodes,
        writable_free_mb: room.largest_free_bytes / MB,
        writable_used_percent: used_percent,
        staging_nodes: 0,
        staging_free_mb: 0,
        staging_used_percent: 0,
    };
    exchange.ok_text(&text.to_text());
    Ok(())
}

/// Answers with one byte for each of many files; a missing one fails the request, as on other
/// servers.
pub(crate) async fn many(exchange: &mut Exchange<'_>, request: &StatMany<'_>) -> Result<()> {
    let mut kinds = Vec::new();
    for argument in request.paths.iter() {
        let named = exchange.path(&argument).await?;
        let stat = lookup(exchange, &named.path).await?;
        let kind = if stat.is_directory() {
            StatFlags::DIRECTORY
        } else {
            StatFlags::empty()
        };
        // Only the low bits are used.
        kinds.push(kind.bits() as u8);
    }
    exchange.ok(&kinds);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_files_and_directories() {
        let file = Stat {
            kind: Kind::File,
            size_bytes: 19,
            modified: std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_795_286_507),
            mode: 0o644,
            inode: 7,
        };
        let mut text = Vec::new();
        stat_text(&file).write(&mut text);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "7 19 48 1795286507 1795286507 1795286507 0644 nobody nogroup"
        );
        let directory = Stat {
            kind: Kind::Directory,
            mode: 0o755,
            ..file
        };
        assert_eq!(stat_text(&directory).flags.bits(), 51);
    }
}
