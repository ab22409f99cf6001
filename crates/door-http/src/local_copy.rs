//! A copy within this server. The store does it, and shares blocks where the file system can.

use std::sync::Arc;

use credentials::Credential;
use endpoint::{Change, ExportPath, Found, PathTarget, Requester, refusal};
use http_wire::{CopyRequest, Depth, RequestHead};
use policy::Operation;
use storage::{Overwrite, Replacing};
use types::{ErrorCode, LogicalPath, Result};

use crate::access::check_conditions;
use crate::collections;
use crate::exchange::FileExchange;
use crate::rename::about_target;
use crate::state::PathChange;

/// Which end of the copy is not the path of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// Where the bytes come from.
    Origin,
    /// Where they go.
    Target,
}

/// A copy from a path to a path.
pub(crate) struct LocalCopy {
    pub(crate) from: LogicalPath,
    pub(crate) to: LogicalPath,
    pub(crate) other: Other,
}

/// Both ends of a copy, as the exports know them.
#[derive(Clone, Copy)]
struct Ends<'a> {
    from: &'a ExportPath,
    to: &'a ExportPath,
}

impl LocalCopy {
    /// Runs it and answers.
    pub(crate) async fn run(
        &self,
        exchange: &mut FileExchange<'_, '_>,
        head: &RequestHead,
        copy: &CopyRequest,
    ) -> Result<()> {
        let others = others_credential(exchange, copy).await;
        let own = exchange.http.credential.clone();
        let others_or_own = others.as_ref().unwrap_or(&own);
        let (reader, writer) = match self.other {
            Other::Target => (&own, others_or_own),
            Other::Origin => (others_or_own, &own),
        };
        let from = stored(exchange, reader, &self.from)?;
        let to = stored(exchange, writer, &self.to)?;
        let ends = Ends { from: &from, to: &to };
        let source = lookup(exchange, reader, &from, &self.from).await;
        let target = lookup(exchange, writer, &to, &self.to).await;
        let others_writer = others_or_own.clone();
        let whole = source.is_directory();
        let read = (&self.from, if whole { Operation::ReadTree } else { Operation::Read });
        let write = (&self.to, target.upload());
        let (here, there) = match self.other {
            Other::Target => (read, write),
            Other::Origin => (write, read),
        };
        let size_bytes = match &source {
            Found::Something(stat) => Some(stat.size_bytes),
            _ => None,
        };
        exchange.authorize(here.1, here.0, size_bytes)?;
        exchange.http.credential = others.unwrap_or_else(|| own.clone());
        let decision = exchange.authorize(there.1, there.0, size_bytes);
        exchange.http.credential = own;
        decision?;
        let stat = source.into_stat(&self.from)?;
        if whole || target.is_directory() {
            check_conditions(head, Some(&stat), &self.from)?;
            let writer = match self.other {
                Other::Target => others_writer.clone(),
                Other::Origin => exchange.http.credential.clone(),
            };
            return self.tree(exchange, head, ends, &target, copy.overwrite, writer).await;
        }
        let replaces = target.into_file(&self.to)?;
        check_conditions(head, Some(&stat), &self.from)?;
        let changing = exchange
            .begin_changes(head, &[PathChange::new(&to, &self.to, Change::Store)])
            .await?;
        self.check(ends, replaces.is_some() && !copy.overwrite)?;
        // A file that appeared there since was not checked.
        let overwrite = if copy.overwrite && replaces.is_some() {
            Overwrite::Allow
        } else {
            Overwrite::Refuse
        };
        // The copy belongs to the writer, who must be able to read the source.
        let store = to.store.reading_as(&from.store).during(&changing);
        let copied = store.copy(&from.path, &to.path, overwrite).await;
        copied.map_err(|error| about_target(error, &self.to))?;
        drop((changing, store));
        if replaces.is_some() {
            exchange.http.bare(204, |head| head).await
        } else {
            exchange.http.whole(201, &[], |head| head).await
        }
    }

    /// A copy of a collection, or in place of one (RFC 4918 §9.8.3).
    async fn tree(
        &self,
        exchange: &mut FileExchange<'_, '_>,
        head: &RequestHead,
        ends: Ends<'_>,
        target: &Found,
        overwrite: bool,
        writer: Result<Arc<Credential>>,
    ) -> Result<()> {
        let members = match head.depth()? {
            None | Some(Depth::Infinity) => true,
            Some(Depth::Zero) => false,
            Some(Depth::One) => return Err(refusal(ErrorCode::BadRequest, &self.from).with_detail("Depth is 1")),
        };
        let Ends { from, to } = ends;
        self.check(ends, target.exists() && !overwrite)?;
        let own = std::mem::replace(&mut exchange.http.credential, writer);
        let replacing = self.admit(exchange, to, target.exists());
        exchange.http.credential = own;
        let replacing = replacing?;
        let change = if target.exists() { Change::Remove } else { Change::Store };
        let changing = exchange
            .begin_changes(head, &[PathChange::new(to, &self.to, change)])
            .await?;
        collections::share(exchange, &self.from)?;
        let share = collections::share(exchange, &self.to)?;
        let copied = to
            .store
            .during(&changing)
            .copy_tree(&from.path, &to.path, members, replacing, share)
            .await;
        let replaced = copied.map_err(|error| collections::naming_the_key(about_target(error, &self.to), to))?;
        if replaced {
            // The locks of what was replaced end with it.
            changing.forget_locks();
            return exchange.http.bare(204, |head| head).await;
        }
        exchange.http.whole(201, &[], |head| head).await
    }

    /// Whether the writer may create a tree there, in place of what exists.
    fn admit(&self, exchange: &mut FileExchange<'_, '_>, to: &ExportPath, exists: bool) -> Result<Replacing> {
        exchange.authorize(Operation::CreateTree, &self.to, None)?;
        match exists {
            true => collections::replacing(exchange, to, &self.to),
            false => Ok(Replacing::Nothing),
        }
    }

    fn check(&self, ends: Ends<'_>, taken: bool) -> Result<()> {
        if ends.from.export != ends.to.export {
            return Err(refusal(ErrorCode::CrossExport, &self.to));
        }
        if self.from == self.to {
            return Err(refusal(ErrorCode::Forbidden, &self.to));
        }
        if taken {
            return Err(refusal(ErrorCode::Exists, &self.to));
        }
        Ok(())
    }
}

async fn lookup(
    exchange: &FileExchange<'_, '_>,
    credential: &Result<Arc<Credential>>,
    export_path: &ExportPath,
    path: &LogicalPath,
) -> Found {
    let requester = Requester {
        credential,
        address: exchange.http.peer.ip(),
    };
    exchange.exports.lookup(requester, export_path, path).await
}

fn stored(
    exchange: &FileExchange<'_, '_>,
    credential: &Result<Arc<Credential>>,
    path: &LogicalPath,
) -> Result<ExportPath> {
    let requester = Requester {
        credential,
        address: exchange.http.peer.ip(),
    };
    match exchange.exports.place(requester, path) {
        PathTarget::Stored(export_path) => Ok(export_path),
        PathTarget::Above(_) => Err(refusal(ErrorCode::IsDirectory, path)),
        PathTarget::Nowhere => Err(refusal(ErrorCode::NotFound, path)),
    }
}

/// The credential that the client sent for the other side, which another server would have been
/// shown.
async fn others_credential(exchange: &FileExchange<'_, '_>, copy: &CopyRequest) -> Option<Result<Arc<Credential>>> {
    let token = copy.forwarded.bearer()?;
    Some(exchange.door.settings.site.authenticator.bearer(token.expose()).await)
}
