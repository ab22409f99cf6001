//! MOVE: another name within the same export (RFC 4918 §9.9).

use endpoint::{Change, Changing, ExportPath, Found, PathTarget, check_apart, is_missing, refusal};
use http_wire::{DestinationPath, RequestHead};
use policy::Operation;
use storage::{Overwrite, Replacing};
use types::{Error, ErrorCode, LogicalPath, Result};

use crate::access::{check_conditions, check_directory};
use crate::authority::is_ours;
use crate::collections;
use crate::exchange::FileExchange;
use crate::state::PathChange;

/// Answers MOVE.
pub(crate) async fn answer(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    let DestinationPath {
        authority,
        is_encrypted,
        path: target,
    } = head.destination_path()?;
    let target = exchange.exports.respelled(&target).unwrap_or(target);
    let may_replace = head.overwrite()?;
    if authority.is_some_and(|authority| !is_ours(exchange, head, &authority, is_encrypted)) {
        return Err(refusal(ErrorCode::CrossExport, &target));
    }
    let export_path = exchange.export_path(ErrorCode::Forbidden)?;
    let PathTarget::Stored(new) = exchange.place(&target) else {
        return Err(refusal(ErrorCode::Forbidden, &target));
    };
    let path = exchange.http.path.clone();
    let found = exchange.lookup(&export_path, &path).await;
    let there = exchange.lookup(&new, &target).await;
    let own =
        matches!(&found, Found::Something(stat) if exchange.exports.is_own_upload(exchange.requester(), &path, stat));
    exchange.authorize_here(Operation::Rename {
        target: target.clone(),
        replaces: there.exists(),
        own,
    })?;
    let stat = found.into_stat(&path)?;
    check_conditions(head, Some(&stat), &path)?;
    let is_over = there.is_directory() || (there.exists() && stat.is_directory());
    let replacing = match is_over && may_replace {
        // Rights first: a client that may not replace it learns nothing about locks below.
        true => Some(collections::replacing(exchange, &new, &target)?),
        false => None,
    };
    // A collection that is replaced takes its locks with it.
    let there_too = if is_over { Change::Remove } else { Change::Store };
    let changes = [
        PathChange::new(&export_path, &path, Change::Remove),
        PathChange::new(&new, &target, there_too),
    ];
    let changing = exchange.begin_changes(head, &changes).await?;
    check_target(&export_path, &new, &path, &target, there.exists() && !may_replace)?;
    // The directory of the old name is there.
    if !there.exists() && target.parent() != path.parent() {
        check_directory(&new, &target).await?;
    }
    if let Some(replacing) = replacing {
        return over(exchange, changing, &export_path, &new, &target, replacing).await;
    }
    // A file that appeared there since was not checked.
    let overwrite = if may_replace && there.exists() {
        Overwrite::Allow
    } else {
        Overwrite::Refuse
    };
    let moved = export_path
        .store
        .during(&changing)
        .rename(&export_path.path, &new.path, overwrite)
        .await;
    let replaced = moved.map_err(|error| about_target(error, &target))?;
    // Locks do not move (RFC 4918 §7.5), and their resource is gone.
    changing.forget_locks();
    drop(changing);
    if own {
        exchange.note_upload(&target, &stat);
    }
    if replaced {
        exchange.http.bare(204, |head| head).await
    } else {
        exchange.http.whole(201, &[], |head| head).await
    }
}

/// Moves in place of a collection, or a collection in place of a file. The replaced one is removed
/// as by DELETE (RFC 4918 §9.9.3), after the move.
async fn over(
    exchange: &mut FileExchange<'_, '_>,
    changing: Changing,
    export_path: &ExportPath,
    new: &ExportPath,
    target: &LogicalPath,
    replacing: Replacing,
) -> Result<()> {
    let share = collections::share(exchange, target)?;
    let store = export_path.store.during(&changing);
    let moved = store.move_over(&export_path.path, &new.path, replacing, share).await;
    moved.map_err(|error| collections::naming_the_key(about_target(error, target), new))?;
    changing.forget_locks();
    drop((changing, store));
    exchange.http.bare(204, |head| head).await
}

fn check_target(
    export_path: &ExportPath,
    new: &ExportPath,
    path: &LogicalPath,
    target: &LogicalPath,
    taken: bool,
) -> Result<()> {
    if export_path.export != new.export {
        return Err(refusal(ErrorCode::CrossExport, target));
    }
    check_apart(path, target)?;
    if taken {
        return Err(refusal(ErrorCode::Exists, target));
    }
    Ok(())
}

/// The source exists, so "missing" means the parent of the target.
pub(crate) fn about_target(error: Error, target: &LogicalPath) -> Error {
    if is_missing(&error) {
        Error::new(ErrorCode::ParentMissing, error.side(), error.phase()).with_subject(target)
    } else {
        error.with_subject(target)
    }
}
