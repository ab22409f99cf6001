//! Requests that change names and modes: make and remove directories, remove and rename files,
//! change permission bits.

use credentials::capability::CapabilityUse;
use endpoint::{Change, Changing, ExportPath, Found, check_apart, is_missing, refusal};
use policy::Operation;
use storage::Overwrite;
use types::{ErrorCode, LogicalPath};
use xroot_wire::request::{ChangeMode, MakeDirectory, Remove, RemoveDirectory, Rename};

use crate::elsewhere;
use crate::exchange::Exchange;
use crate::failure::Result;

/// Makes a directory; an existing one counts as success.
pub(crate) async fn make_directory(exchange: &mut Exchange<'_>, request: &MakeDirectory<'_>) -> Result<()> {
    let named = exchange.path(&request.path).await?;
    let path = &named.path;
    exchange.authorize(Operation::MakeDirectory, path, None)?;
    let export_path = exchange.export_path(path, ErrorCode::DirectoryExists)?;
    // An existing one stays as it is.
    let changing = match exchange.lookup(&export_path, path).await.is_directory() {
        true => Changing::default(),
        false => exchange.begin_change(&export_path, path, Change::Store).await?,
    };
    match export_path
        .store
        .during(&changing)
        .make_directory(&export_path.path, request.makes_path())
        .await
    {
        Err(error) if error.code() == ErrorCode::DirectoryExists => {}
        made => {
            made.map_err(|error| error.with_subject(path))?;
            protect(&export_path, request.mode)
                .await
                .map_err(|error| error.with_subject(path))?;
        }
    }
    exchange.ok(&[]);
    Ok(())
}

/// Gives a new directory the requested permission bits, if there are any. As on reference servers,
/// its owner can always use it.
async fn protect(export_path: &ExportPath, mode: u16) -> types::Result<()> {
    let wanted = u32::from(mode) & 0o777;
    if wanted == 0 {
        return Ok(());
    }
    match export_path.store.set_mode(&export_path.path, wanted | 0o700).await {
        Err(error) if error.code() == ErrorCode::NotImplemented => Ok(()),
        done => done,
    }
}

/// Removes a directory, and nothing else.
pub(crate) async fn remove_directory(exchange: &mut Exchange<'_>, request: &RemoveDirectory<'_>) -> Result<()> {
    let named = exchange.path(&request.path).await?;
    let path = &named.path;
    exchange.authorize(Operation::RemoveDirectory, path, None)?;
    let export_path = exchange.export_path(path, ErrorCode::Forbidden)?;
    let stat = exchange.lookup(&export_path, path).await.into_stat(path)?;
    if !stat.is_directory() {
        return Err(refusal(ErrorCode::NotDirectory, path).into());
    }
    take_away(exchange, &export_path, path).await
}

/// Removes a file, or an empty directory.
pub(crate) async fn remove(exchange: &mut Exchange<'_>, request: &Remove<'_>) -> Result<()> {
    let named = exchange.path(&request.path).await?;
    let path = &named.path;
    exchange.settle(path).await?;
    let export_path = exchange.export_path(path, ErrorCode::Forbidden)?;
    let operation = match exchange.lookup(&export_path, path).await.is_directory() {
        true => Operation::RemoveDirectory,
        false => Operation::Delete,
    };
    exchange.authorize(operation, path, None)?;
    take_away(exchange, &export_path, path).await
}

async fn take_away(exchange: &mut Exchange<'_>, export_path: &ExportPath, path: &LogicalPath) -> Result<()> {
    if export_path.path.is_root() {
        return Err(refusal(ErrorCode::Forbidden, path).into());
    }
    let changing = exchange.begin_change(export_path, path, Change::Remove).await?;
    let removed = export_path.store.during(&changing).remove(&export_path.path).await;
    removed.map_err(|error| error.with_subject(path))?;
    exchange.ok(&[]);
    Ok(())
}

/// Renames a file or directory. An existing file of the new name is replaced.
pub(crate) async fn rename(exchange: &mut Exchange<'_>, request: &Rename<'_>) -> Result<()> {
    let to = exchange.path(&request.destination).await?;
    let from = exchange.path(&request.source).await?;
    exchange.settle(&from.path).await?;
    let source = exchange.export_path(&from.path, ErrorCode::Forbidden)?;
    let target = exchange.export_path(&to.path, ErrorCode::Forbidden)?;
    let found = exchange.lookup(&source, &from.path).await;
    let own = match &found {
        Found::Something(stat) => exchange.exports.is_own_upload(exchange.requester(), &from.path, stat),
        _ => false,
    };
    let replaces = exchange.lookup(&target, &to.path).await.exists();
    let operation = Operation::Rename {
        target: to.path.clone(),
        replaces,
        own,
    };
    exchange.authorize(operation, &from.path, None)?;
    if source.export != target.export {
        return Err(refusal(ErrorCode::CrossExport, &to.path).into());
    }
    if source.path.is_root() || target.path.is_root() {
        return Err(refusal(ErrorCode::Forbidden, &from.path).into());
    }
    check_apart(&from.path, &to.path)?;
    let away = exchange.begin_change(&source, &from.path, Change::Remove).await?;
    let here = exchange.begin_change(&target, &to.path, Change::Store).await?;
    let changing = away.and(here);
    // A file that appears there meanwhile belongs to another client.
    let overwrite = if replaces { Overwrite::Allow } else { Overwrite::Refuse };
    let moved = source
        .store
        .during(&changing)
        .rename(&source.path, &target.path, overwrite)
        .await;
    moved.map_err(|error| {
        let subject = if is_missing(&error) { &from.path } else { &to.path };
        error.with_subject(subject)
    })?;
    if let (true, Found::Something(stat)) = (own, &found) {
        exchange.exports.note_upload(exchange.requester(), &to.path, stat);
    }
    exchange.ok(&[]);
    Ok(())
}

/// Changes permission bits.
pub(crate) async fn change_mode(exchange: &mut Exchange<'_>, request: &ChangeMode<'_>) -> Result<()> {
    let named = exchange.path_for(&request.path, CapabilityUse::ChangeMode).await?;
    let path = &named.path;
    exchange.settle(path).await?;
    let granted = exchange.authorize(Operation::ChangeMode, path, None)?;
    if elsewhere::answers(exchange, &named, CapabilityUse::ChangeMode, &granted).await? {
        return Ok(());
    }
    let export_path = exchange.export_path(path, ErrorCode::Forbidden)?;
    let changing = exchange.begin_change(&export_path, path, Change::Update).await?;
    let changed = export_path
        .store
        .during(&changing)
        .set_mode(&export_path.path, u32::from(request.mode))
        .await;
    changed.map_err(|error| error.with_subject(path))?;
    exchange.ok(&[]);
    Ok(())
}
