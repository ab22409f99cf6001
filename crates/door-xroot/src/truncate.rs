//! Cutting and extending files, by handle and by name.

use credentials::capability::CapabilityUse;
use endpoint::Change;
use policy::Operation;
use types::{ErrorCode, LogicalPath};
use xroot_wire::ErrorNumber;
use xroot_wire::request::{Truncate, TruncateTarget};

use crate::admit::claim_write;
use crate::elsewhere;
use crate::exchange::{Exchange, Named};
use crate::failure::Result;
use crate::files::{Content, OpenFile};
use crate::writers::Update;
use crate::writing::{Writing, check_end};

/// Cuts or extends a file, by handle or by name.
pub(crate) async fn truncate(exchange: &mut Exchange<'_>, request: &Truncate<'_>) -> Result<()> {
    match &request.target {
        TruncateTarget::Handle(handle) => {
            let file = exchange.file(*handle)?;
            set_length(file, request.size_bytes).await?;
        }
        TruncateTarget::Path(argument) => {
            let named = exchange.path_for(argument, CapabilityUse::Update).await?;
            if is_elsewhere(exchange, &named, request.size_bytes).await? {
                return Ok(());
            }
            truncate_path(exchange, &named.path, request.size_bytes).await?;
        }
    }
    exchange.ok(&[]);
    Ok(())
}

/// Sends a client to the server that has the file, if that is another one.
async fn is_elsewhere(exchange: &mut Exchange<'_>, named: &Named<'_>, size_bytes: u64) -> Result<bool> {
    if elsewhere::of(exchange, &named.path).is_none() {
        return Ok(false);
    }
    let granted = exchange.authorize(Operation::Overwrite, &named.path, Some(size_bytes))?;
    elsewhere::answers(exchange, named, CapabilityUse::Update, &granted).await
}

async fn set_length(file: &mut OpenFile, size_bytes: u64) -> Result<()> {
    file.check_permit().await?;
    let writing = file.writing();
    let writing = writing.map_err(|failure| failure.numbered(ErrorNumber::ARGUMENT_INVALID))?;
    Ok(writing.set_length(size_bytes).await?)
}

/// Cuts or extends a file by its name. If the client has a file of that name open for writing, it
/// means that file: POSIX knows one file of a name, and xrootdfs truncates by name what it has just
/// opened.
async fn truncate_path(exchange: &mut Exchange<'_>, path: &LogicalPath, size_bytes: u64) -> Result<()> {
    let own = exchange.connection.files()?.newest_written(path);
    let is_uploaded = own.is_some_and(|file| !file.holds_old_content());
    if let Some(file) = exchange
        .connection
        .files()?
        .newest_written(path)
        .filter(|_| is_uploaded)
    {
        return set_length(file, size_bytes).await;
    }
    exchange.settle(path).await?;
    let writer = exchange.writer(path)?;
    let update = exchange.connection.door.writers.update(&writer);
    let changed = truncate_in_place(exchange, path, size_bytes, update.as_ref()).await;
    if changed.is_err() {
        refuse_written(exchange, path, update.as_ref());
    }
    changed
}

/// A change of a file by its name could not be parsed or was not allowed.
pub(crate) fn refuse_named(exchange: &mut Exchange<'_>, path: &LogicalPath) {
    // Before login nothing is open.
    if let Ok(writer) = exchange.writer(path) {
        let update = exchange.connection.door.writers.update(&writer);
        refuse_written(exchange, path, update.as_ref());
    }
}

/// Closing the file that the client has open under that name must fail: the client may close it
/// without having read the refusal.
fn refuse_written(exchange: &mut Exchange<'_>, path: &LogicalPath, update: Option<&Update>) {
    if let Ok(files) = exchange.connection.files()
        && let Some(Content::Writing(writing)) = files.newest_written(path).map(|file| &mut file.content)
    {
        writing.refuse();
    }
    if let Some(update) = update {
        update.refuse();
    }
}

/// Changes the length of a file in place: over a handle that the client has for it, on any session,
/// or by opening it for an update.
async fn truncate_in_place(
    exchange: &mut Exchange<'_>,
    path: &LogicalPath,
    size_bytes: u64,
    update: Option<&Update>,
) -> Result<()> {
    let export_path = exchange.export_path(path, ErrorCode::IsDirectory)?;
    let found = exchange.lookup(&export_path, path).await;
    let granted = exchange.authorize(Operation::Overwrite, path, Some(size_bytes))?;
    let permit = exchange.permit(path);
    let changing = exchange.begin_change(&export_path, path, Change::Update).await?;
    if let Some(file) = exchange.connection.files()?.newest_written(path) {
        return set_length(file, size_bytes).await;
    }
    if let Some(upload) = update.and_then(Update::upload) {
        check_end(size_bytes, granted.max_upload_bytes)?;
        let _changing = permit.check(&export_path.store, &export_path.path).await?;
        return Ok(export_path
            .store
            .during(&changing)
            .set_length(&upload, size_bytes)
            .await?);
    }
    let claim = claim_write(exchange, path, true)?;
    found.into_present_file(path)?;
    let update = export_path.store.open_update(&export_path.path).await;
    let update = update.map_err(|error| error.with_subject(path))?;
    // Rules may have been loaded since, and the change shows at once.
    let _changing = permit.check(&export_path.store, &export_path.path).await?;
    let mut writing = Writing::in_place(
        &export_path.store.during(&changing),
        update,
        granted.max_upload_bytes,
        claim,
    );
    writing.set_length(size_bytes).await?;
    writing.commit(&exchange.client()).await?;
    Ok(())
}
