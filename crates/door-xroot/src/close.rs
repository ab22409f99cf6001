//! Sync and close of open files: what makes data durable, and gives an upload its name.

use endpoint::Changing;
use xroot_wire::request::{Close, SyncFile};

use crate::connection::Next;
use crate::exchange::Exchange;
use crate::failure::Result;
use crate::files::Content;
use crate::third_party::destination;

/// Makes a file durable.
pub(crate) async fn sync(exchange: &mut Exchange<'_>, request: &SyncFile) -> Result<Next> {
    match &mut exchange.file(request.handle)?.content {
        Content::Writing(writing) => writing.sync().await?,
        Content::Copying(_) => return destination::sync(exchange, request.handle).await,
        Content::Reading(_) => {}
    }
    exchange.ok(&[]);
    Ok(Next::Request)
}

/// Closes a file; an upload takes its name now.
pub(crate) async fn close(exchange: &mut Exchange<'_>, request: &Close) -> Result<()> {
    let file = exchange.session()?.files.take(request.handle)?;
    exchange.note_file(&file);
    exchange.note_capability_use(&file.path)?;
    if let Content::Copying(copying) = &file.content {
        destination::close(exchange, copying);
    }
    if let Content::Writing(writing) = file.content {
        let changing = match &file.permit {
            Some(permit) => permit.check(&file.export_path.store, &file.export_path.path).await?,
            None => Changing::default(),
        };
        let stored = writing.during(&changing).commit(&exchange.client()).await;
        let stat = stored.map_err(|error| error.with_subject(&file.path))?;
        if let Some(pending) = file.pending {
            pending.end();
        }
        exchange.exports.note_upload(exchange.requester(), &file.path, &stat);
        exchange.record.committed_us = Some(exchange.elapsed_us());
    }
    exchange.ok(&[]);
    Ok(())
}
