//! Removing and replacing a collection with everything in it: whether the export allows it, whether
//! the client may, and the answer when something remains.

use http_wire::webdav::Failures;
use http_wire::{ContentType, Depth, RequestHead};
use policy::Operation;
use storage::{Replacing, TreeFailure};
use types::{Error, ErrorCode, LogicalPath, Result};

use crate::exchange::FileExchange;
use endpoint::{Changing, ExportPath, Share, ShareKind, refusal};

/// The status of an answer about several resources (RFC 4918 §11.1).
pub(crate) const MULTISTATUS: u16 = 207;

/// Removes a collection that is not empty. `refused` is the error when that is not allowed.
pub(crate) async fn remove(
    exchange: &mut FileExchange<'_, '_>,
    head: &RequestHead,
    export_path: &ExportPath,
    changing: Changing,
    refused: Error,
) -> Result<()> {
    let path = exchange.http.path.clone();
    // RFC 4918 §9.6.1 allows no other depth; a client that wants less removes nothing.
    if matches!(head.depth()?, Some(Depth::Zero | Depth::One)) {
        return Err(refused);
    }
    let share = admit(exchange, export_path, &path, refused)?;
    let removed = export_path
        .store
        .during(&changing)
        .remove_tree(&export_path.path, share)
        .await;
    match removed.map_err(|error| with_client_path(error, export_path))? {
        None => {
            changing.forget_locks();
            drop(changing);
            exchange.http.bare(204, |head| head).await
        }
        Some(failure) => partly(exchange, export_path, failure).await,
    }
}

/// Whether the client may remove everything in a directory; an empty one needs no permission.
pub(crate) async fn admit_if_full(
    exchange: &mut FileExchange<'_, '_>,
    export_path: &ExportPath,
    path: &LogicalPath,
) -> Result<()> {
    let mut pages = export_path.store.list(&export_path.path).await?;
    if pages.next().await?.is_empty() {
        return Ok(());
    }
    admit(exchange, export_path, path, refusal(ErrorCode::NotEmpty, path)).map(drop)
}

/// The error for a directory that is not empty, with the configuration key that would allow
/// removing it.
pub(crate) fn naming_the_key(refused: Error, export_path: &ExportPath) -> Error {
    if refused.code() != ErrorCode::NotEmpty || export_path.recursive_delete {
        return refused;
    }
    let key = "to allow removing it with everything in it, set `recursive_delete = true` on the export";
    let detail = match refused.detail() {
        Some(detail) => format!("{detail}; {key}"),
        None => key.to_owned(),
    };
    refused.with_detail(detail)
}

/// What may be replaced at `path`, where something exists.
pub(crate) fn replacing(
    exchange: &mut FileExchange<'_, '_>,
    export_path: &ExportPath,
    path: &LogicalPath,
) -> Result<Replacing> {
    if !export_path.recursive_delete {
        return Ok(Replacing::Single);
    }
    exchange.authorize(Operation::RemoveTree, path, None)?;
    Ok(Replacing::Tree)
}

/// Whether the client may remove everything below `path`. `refused` is the error otherwise.
fn admit(
    exchange: &mut FileExchange<'_, '_>,
    export_path: &ExportPath,
    path: &LogicalPath,
    refused: Error,
) -> Result<Share> {
    if !export_path.recursive_delete {
        return Err(naming_the_key(refused, export_path));
    }
    exchange.authorize(Operation::RemoveTree, path, None)?;
    share(exchange, path)
}

/// The client's fair share of concurrent work on trees. Refused where another export begins below
/// `path`.
pub(crate) fn share(exchange: &FileExchange<'_, '_>, path: &LogicalPath) -> Result<Share> {
    if exchange.exports.begins_below(path) {
        return Err(refusal(ErrorCode::Forbidden, path).with_detail("another export begins below it"));
    }
    let fair_share = &exchange.door.settings.site.fair_share;
    fair_share.take(ShareKind::Trees, &exchange.http.client())
}

/// An error of the store about something in a tree, with the path as the client knows it.
pub(crate) fn with_client_path(error: Error, export_path: &ExportPath) -> Error {
    let inner = error.subject().and_then(|subject| LogicalPath::parse(subject).ok());
    match inner {
        Some(inner) => error.with_subject(inner.under(&export_path.export)),
        None => error,
    }
}

/// Answers that something in the tree remains, and therefore its parents (RFC 4918 §9.6.1).
pub(crate) async fn partly(
    exchange: &mut FileExchange<'_, '_>,
    export_path: &ExportPath,
    failure: TreeFailure,
) -> Result<()> {
    let TreeFailure { path, error } = failure;
    let path = path.under(&export_path.export);
    exchange.http.record.error = Some((&error).into());
    let body = Failures::one(&path, error.code().http_status(), &error.public());
    exchange
        .http
        .whole(MULTISTATUS, body.as_bytes(), |head| head.content_type(ContentType::Xml))
        .await
}
