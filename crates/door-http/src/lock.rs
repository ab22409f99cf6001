//! LOCK and UNLOCK (RFC 4918 §9.10, §9.11): a client that may change something can keep others from
//! changing it for a while.

use endpoint::{
    Change, ExportPath, Found, LockFacts, LockHolder, NewLock, Unusable, lock_timeout, new_lock_token, refusal,
};
use http_wire::webdav::{ActiveLock, Failures, LockFault, LockRequest, lock_answer, lock_discovery, parse_lock};
use http_wire::{ContentType, Depth, RequestHead, ResponseBuilder};
use policy::Operation;
use storage::{CommitFacts, Hasher, Overwrite, Stat, UploadOptions};
use types::limits::LOCK_BODY_BYTES_MAX;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::collections::MULTISTATUS;
use crate::exchange::FileExchange;
use crate::state::PathChange;

/// Answers LOCK: with a body, by a new lock; without one, by a longer time for an existing lock.
pub(crate) async fn lock(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    let (export_path, found) = admit(exchange).await?;
    let timeout = lock_timeout(head.lock_timeout_s());
    let body = exchange.http.small_body(LOCK_BODY_BYTES_MAX).await?;
    if body.is_empty() {
        exchange.check_state(head).await?;
        let keys = exchange.lock_keys();
        let refreshed = exchange.exports.locks().refresh(&exchange.http.path, &keys, timeout);
        let facts = refreshed.map_err(|why| refused_refresh(exchange, why))?;
        return tell(exchange, 200, &facts, false).await;
    }
    let wanted = NewLock {
        timeout,
        ..new_lock(exchange, head, parse_lock(&body)?)?
    };
    let is_new = found.is_nothing();
    if wanted.is_deep && !is_new && found.is_directory() {
        admit_tree(exchange)?;
    }
    let path = exchange.http.path.clone();
    if is_new {
        // A new name changes its directory.
        exchange
            .check_changes(head, &[PathChange::new(&export_path, &path, Change::Store)])
            .await?;
    } else {
        found.into_stat(&path)?;
        exchange.check_state(head).await?;
    }
    if exchange.exports.is_another_name(export_path.stored(), &path).await {
        let detail = "a symbolic link is on the way to it; lock the path that it leads to";
        return Err(refusal(ErrorCode::Forbidden, &path).with_detail(detail));
    }
    let (locks, token) = (exchange.exports.locks().clone(), wanted.token.clone());
    let fair_share = &exchange.door.settings.site.fair_share;
    let taken = locks.take(wanted, fair_share, &exchange.http.client()).await;
    let facts = match taken {
        Err(error) if error.code() == ErrorCode::Locked => return in_the_way(exchange, error).await,
        taken => taken?,
    };
    // The file is stored under the lock that was just granted.
    exchange.submitted.push(token.to_string());
    if !is_new && !exchange.lookup(&export_path, &path).await.exists() {
        // The file was removed before the lock protected it.
        let _ = locks.release(&path, &token, &LockHolder::of(&exchange.http.credential));
        return Err(refusal(ErrorCode::Busy, &path).with_detail("it has just been removed"));
    }
    if is_new && let Err(error) = store_empty(exchange, &export_path).await {
        // A file that cannot be stored is not locked.
        let _ = locks.release(&exchange.http.path, &token, &LockHolder::of(&exchange.http.credential));
        return Err(error);
    }
    tell(exchange, if is_new { 201 } else { 200 }, &facts, true).await
}

/// Answers that another lock is in the way. A lock below is reported as one of a member, and
/// nothing is locked (RFC 4918 §9.10.6); to a client that may not look there, it is reported as one
/// of the whole.
async fn in_the_way(exchange: &mut FileExchange<'_, '_>, error: Error) -> Result<()> {
    let path = exchange.http.path.clone();
    let error = exchange.exports.locked_for(exchange.requester(), &path, error);
    let root = error.subject().and_then(|root| LogicalPath::parse(root).ok());
    let Some(member) = root.filter(|root| *root != path && root.is_within(&path)) else {
        return Err(exchange.because(LockFault::Conflict, error));
    };
    exchange.http.record.error = Some((&error).into());
    let body = Failures::because_of_member(&path, &member, error.code().http_status(), &error.public());
    let xml = |head: ResponseBuilder| head.content_type(ContentType::Xml);
    exchange.http.whole(MULTISTATUS, body.as_bytes(), xml).await
}

/// Answers UNLOCK. Only the client that took a lock can release it, whatever rights others have:
/// locks time out soon enough.
pub(crate) async fn unlock(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    admit(exchange).await?;
    let token = head.lock_token()?;
    exchange.check_state(head).await?;
    let holder = LockHolder::of(&exchange.http.credential);
    match exchange.exports.locks().release(&exchange.http.path, token, &holder) {
        Ok(()) => exchange.http.bare(204, |head| head).await,
        Err(Unusable::NotYours) => Err(not_yours(exchange)),
        Err(Unusable::Unknown) => Err(mismatch(exchange)),
    }
}

/// Checks the right to store under the name, or to change what exists there.
async fn admit(exchange: &mut FileExchange<'_, '_>) -> Result<(ExportPath, Found)> {
    let export_path = exchange.export_path(ErrorCode::Forbidden)?;
    let path = exchange.http.path.clone();
    let found = exchange.lookup(&export_path, &path).await;
    exchange.authorize_here(found.upload())?;
    match export_path.has_locks {
        true => Ok((export_path, found)),
        false => Err(refusal(ErrorCode::MethodNotAllowed, &path).with_detail("locks are off for this export")),
    }
}

/// Checks the right to change everything below, since the lock keeps others out there too.
fn admit_tree(exchange: &mut FileExchange<'_, '_>) -> Result<()> {
    const WAY_OUT: &str = "lock it with Depth 0";
    let path = exchange.http.path.clone();
    if exchange.exports.begins_below(&path) {
        let detail = format!("another export begins below it; {WAY_OUT}");
        return Err(refusal(ErrorCode::Forbidden, &path).with_detail(detail));
    }
    exchange.authorize_here(Operation::LockTree).map_err(|error| {
        let detail = match error.detail() {
            Some(detail) => format!("{detail}; or {WAY_OUT}"),
            None => WAY_OUT.to_owned(),
        };
        error.with_detail(detail)
    })
}

fn new_lock(exchange: &FileExchange<'_, '_>, head: &RequestHead, request: LockRequest) -> Result<NewLock> {
    let is_deep = match head.depth()? {
        None | Some(Depth::Infinity) => true,
        Some(Depth::Zero) => false,
        Some(Depth::One) => {
            let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open);
            return Err(error.with_detail("a lock has Depth 0 or infinity"));
        }
    };
    Ok(NewLock {
        root: exchange.http.path.clone(),
        token: new_lock_token(),
        is_shared: request.is_shared,
        is_deep,
        owner: request.owner,
        holder: LockHolder::of(&exchange.http.credential),
        timeout: lock_timeout(None),
    })
}

/// Stores an empty file under a name that is locked before it exists (RFC 4918 §7.3).
async fn store_empty(exchange: &mut FileExchange<'_, '_>, export_path: &ExportPath) -> Result<Stat> {
    let path = exchange.http.path.clone();
    let algorithms = exchange.door.settings.site.keep.clone();
    let options = UploadOptions {
        size_bytes: Some(0),
        overwrite: Overwrite::Refuse,
        create_parents: false,
        checksums: algorithms.clone(),
        ..UploadOptions::default()
    };
    let permit = exchange.permit();
    let stored = async {
        let upload = export_path.store.create(&export_path.path, &options).await?;
        let facts = CommitFacts {
            size_bytes: 0,
            checksums: Hasher::new(&algorithms).finish(),
            modified: None,
            mode: None,
        };
        let changing = permit.check(&export_path.store, &export_path.path).await?;
        export_path.store.during(&changing).commit(&upload, facts).await
    };
    let stat = stored.await.map_err(|error| match error.code() {
        // RFC 4918 §9.10.6, as for MKCOL.
        ErrorCode::NotFound => refusal(ErrorCode::ParentMissing, &path),
        _ => error.with_subject(&path),
    })?;
    exchange.note_upload(&path, &stat);
    exchange.http.record.committed_us = Some(exchange.http.elapsed_us());
    Ok(stat)
}

/// A lock in the terms of `http-wire`.
pub(crate) fn active(facts: &LockFacts) -> ActiveLock<'_> {
    ActiveLock {
        root: &facts.root,
        is_deep: facts.is_deep,
        is_shared: facts.is_shared,
        owner: &facts.owner,
        timeout_s: facts.remaining.as_secs(),
        token: &facts.token,
    }
}

async fn tell(exchange: &mut FileExchange<'_, '_>, status: u16, facts: &LockFacts, is_new: bool) -> Result<()> {
    let body = lock_answer(&lock_discovery([active(facts)]));
    let fill = |head: ResponseBuilder| {
        let head = head.content_type(ContentType::Xml);
        if is_new { head.lock_token(&facts.token) } else { head }
    };
    exchange.http.whole(status, body.as_bytes(), fill).await
}

fn refused_refresh(exchange: &mut FileExchange<'_, '_>, why: Unusable) -> Error {
    match why {
        Unusable::NotYours => not_yours(exchange),
        Unusable::Unknown if exchange.submitted.is_empty() => {
            let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open);
            error.with_detail("a LOCK has a body, or the token of the lock to refresh in the If header")
        }
        Unusable::Unknown => {
            let error = refusal(ErrorCode::PreconditionFailed, &exchange.http.path);
            exchange.because(LockFault::TokenMismatch, error)
        }
    }
}

fn not_yours(exchange: &FileExchange<'_, '_>) -> Error {
    refusal(ErrorCode::Forbidden, &exchange.http.path).with_detail("another client took this lock")
}

fn mismatch(exchange: &mut FileExchange<'_, '_>) -> Error {
    let error = refusal(ErrorCode::LockUnknown, &exchange.http.path);
    exchange.because(LockFault::TokenMismatch, error)
}
