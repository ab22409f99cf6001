//! A copy within this server. Within an export its store does it, and shares blocks where the file
//! system can. The engine copies between exports, and where a store cannot.

use std::sync::Arc;

use credentials::Credential;
use endpoint::{Change, Changing, ExportPath, Found, PathTarget, Requester, refusal};
use http_wire::{ContentType, CopyRequest, Depth, Outcome, RequestHead, ResponseBuilder};
use policy::Operation;
use storage::{Overwrite, Replacing, Stat};
use transfer::Order;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::access::{check_conditions, check_directory};
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

impl Ends<'_> {
    /// Whether both are in one store.
    fn in_store(self) -> bool {
        self.from.export == self.to.export
    }
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
            return self.tree(exchange, head, copy, ends, &target, writer).await;
        }
        self.file(exchange, head, copy, ends, &stat, target).await
    }

    /// A copy of a file to a free name, or in place of a file.
    async fn file(
        &self,
        exchange: &mut FileExchange<'_, '_>,
        head: &RequestHead,
        copy: &CopyRequest,
        ends: Ends<'_>,
        stat: &Stat,
        target: Found,
    ) -> Result<()> {
        let Ends { from, to } = ends;
        let replaces = target.into_file(&self.to)?;
        check_conditions(head, Some(stat), &self.from)?;
        if replaces.as_ref().is_some_and(|replaced| replaced.same_content(stat)) {
            // Another export may show the same file, which an upload would overwrite.
            return Err(refusal(ErrorCode::Forbidden, &self.to).with_detail("it is the same file"));
        }
        let changing = exchange
            .begin_changes(head, &[PathChange::new(to, &self.to, Change::Store)])
            .await?;
        self.check(replaces.is_some() && !copy.overwrite)?;
        self.check_directory(copy, to, replaces.is_some()).await?;
        // A file that appeared there since was not checked.
        let overwrite = if copy.overwrite && replaces.is_some() {
            Overwrite::Allow
        } else {
            Overwrite::Refuse
        };
        let copied = match ends.in_store() {
            true => {
                // The copy belongs to the writer, who must be able to read the source.
                let store = to.store.reading_as(&from.store).during(&changing);
                let copied = store.copy(&from.path, &to.path, overwrite).await;
                copied.map(drop).map_err(|error| about_target(error, &self.to))
            }
            false => Err(refusal(ErrorCode::NotImplemented, &self.to)),
        };
        match copied {
            Err(error) if error.code() == ErrorCode::NotImplemented => {
                let job = job(exchange, copy, ends, &changing)?;
                while_wanted(exchange, job.file(overwrite)).await?;
            }
            copied => copied?,
        }
        drop(changing);
        done(exchange, copy, replaces.is_some()).await
    }

    /// A copy of a collection, or in place of one (RFC 4918 §9.8.3).
    async fn tree(
        &self,
        exchange: &mut FileExchange<'_, '_>,
        head: &RequestHead,
        copy: &CopyRequest,
        ends: Ends<'_>,
        target: &Found,
        writer: Result<Arc<Credential>>,
    ) -> Result<()> {
        let members = match head.depth()? {
            None | Some(Depth::Infinity) => true,
            Some(Depth::Zero) => false,
            Some(Depth::One) => return Err(refusal(ErrorCode::BadRequest, &self.from).with_detail("Depth is 1")),
        };
        let Ends { from, to } = ends;
        self.check(target.exists() && !copy.overwrite)?;
        let own = std::mem::replace(&mut exchange.http.credential, writer);
        let replacing = self.admit(exchange, to, target.exists());
        exchange.http.credential = own;
        let replacing = replacing?;
        let change = if target.exists() { Change::Remove } else { Change::Store };
        let changing = exchange
            .begin_changes(head, &[PathChange::new(to, &self.to, change)])
            .await?;
        self.check_directory(copy, to, target.exists()).await?;
        collections::share(exchange, &self.from)?;
        let share = collections::share(exchange, &self.to)?;
        let copied = match ends.in_store() {
            true => {
                let store = to.store.during(&changing);
                let copied = store.copy_tree(&from.path, &to.path, members, replacing, share).await;
                copied.map_err(|error| about_target(error, &self.to))
            }
            false => Err(refusal(ErrorCode::NotImplemented, &self.to)),
        };
        let copied = match copied {
            Err(error) if error.code() == ErrorCode::NotImplemented => {
                let _share = collections::share(exchange, &self.to)?;
                let job = job(exchange, copy, ends, &changing)?;
                match while_wanted(exchange, job.tree(members, replacing)).await {
                    Ok(Some(failure)) => return collections::partly(exchange, to, failure).await,
                    copied => copied.map(|_| target.exists()),
                }
            }
            copied => copied,
        };
        if copied.map_err(|error| collections::naming_the_key(error, to))? {
            // The locks of what was replaced end with it.
            changing.forget_locks();
            return done(exchange, copy, true).await;
        }
        done(exchange, copy, false).await
    }

    /// Whether the writer may create a tree there, in place of what exists.
    fn admit(&self, exchange: &mut FileExchange<'_, '_>, to: &ExportPath, exists: bool) -> Result<Replacing> {
        exchange.authorize(Operation::CreateTree, &self.to, None)?;
        match exists {
            true => collections::replacing(exchange, to, &self.to),
            false => Ok(Replacing::Nothing),
        }
    }

    /// Refuses a new name in a directory that is missing. A third-party copy may make it.
    async fn check_directory(&self, copy: &CopyRequest, to: &ExportPath, exists: bool) -> Result<()> {
        let is_beside = self.to.parent() == self.from.parent();
        match exists || is_beside || copy.is_third_party {
            true => Ok(()),
            false => check_directory(to, &self.to).await,
        }
    }

    fn check(&self, taken: bool) -> Result<()> {
        if self.from == self.to {
            return Err(refusal(ErrorCode::Forbidden, &self.to));
        }
        if taken {
            return Err(refusal(ErrorCode::Exists, &self.to));
        }
        Ok(())
    }
}

/// Tells that the copy is there. Clients of third-party copies believe only the body: davix and
/// gfal take an answer without one for a broken connection.
async fn done(exchange: &mut FileExchange<'_, '_>, copy: &CopyRequest, is_replaced: bool) -> Result<()> {
    match (copy.is_third_party, is_replaced) {
        (true, _) => {
            let line = Outcome::Success.to_line();
            let text = |head: ResponseBuilder| head.content_type(ContentType::PerfMarkers).no_store();
            exchange.http.whole(201, line.as_bytes(), text).await
        }
        (false, true) => exchange.http.bare(204, |head| head).await,
        (false, false) => exchange.http.whole(201, &[], |head| head).await,
    }
}

/// A copy for the engine, in a slot of the client.
fn job(
    exchange: &FileExchange<'_, '_>,
    copy: &CopyRequest,
    ends: Ends<'_>,
    changing: &Changing,
) -> Result<transfer::LocalCopy> {
    let site = &exchange.door.settings.site;
    Ok(transfer::LocalCopy {
        from: ends.from.clone(),
        to: ExportPath {
            store: ends.to.store.during(changing),
            ..ends.to.clone()
        },
        order: Order {
            verification: site.copies.verification,
            expected: copy.expected_digests.first().cloned(),
            keep: site.keep.clone(),
            client: exchange.http.client(),
            create_parents: false,
            ..Order::default()
        },
        slot: site.transfers.take(&exchange.http.client())?,
    })
}

/// Ends a copy when its client leaves, or the server does.
async fn while_wanted<T>(exchange: &mut FileExchange<'_, '_>, work: impl Future<Output = Result<T>>) -> Result<T> {
    let gate = &exchange.door.server.gate;
    let ended = |code, side| Error::new(code, side, Phase::Transfer);
    tokio::select! {
        biased;
        done = work => done,
        () = exchange.http.connection.stream.peer_closed() => Err(ended(ErrorCode::ClientGone, Side::Client)),
        () = gate.aborting() => Err(ended(ErrorCode::Cancelled, Side::Active)),
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
