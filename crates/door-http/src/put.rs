//! PUT: receives a file, compares it with what its sender declared, and gives it its name in one
//! step.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use credentials::capability::CapabilityUse;
use http_wire::{Framing, RequestHead, ResponseBuilder, declared_trailer_digests};
use net::Batch;
use net::http::{Connection, Incoming};
use storage::{CommitFacts, Hasher, Overwrite, Stat, UploadOptions, WriteHandle};
use transfer::{Flow, Payload, Received, receive};
use types::error::REPLACED_IS_LOST;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use crate::access::{check_conditions, etag};
use crate::counted::Counted;
use crate::digest::Wishes;
use crate::elsewhere;
use crate::exchange::FileExchange;
use crate::state::PathChange;
use endpoint::{Change, Decided, ExportPath, Granted};

/// Answers PUT.
pub(crate) async fn answer(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    check_content(head).map_err(|error| error.with_subject(&exchange.http.path))?;
    let _active = exchange.door.settings.site.activity.begin_upload();
    let declared = head.declared_digests()?;
    let size_bytes = size_bytes(head)?;
    let export_path = exchange.export_path(ErrorCode::IsDirectory)?;
    // A client that does not wait is sending the body already, and few could send it again.
    if let Some(elsewhere) = export_path.store.elsewhere().filter(|_| head.expects_continue()) {
        return elsewhere::store(exchange, head, elsewhere, size_bytes).await;
    }
    let path = exchange.http.path.clone();
    let found = exchange.lookup(&export_path, &path).await;
    let found = match export_path.store.elsewhere() {
        Some(_) => elsewhere::before_relay(found, head),
        None => found,
    };
    let granted = exchange.authorize(found.upload(), &path, size_bytes)?;
    let present = found.into_file(&path)?;
    check_conditions(head, present.as_ref(), &path)?;
    let change = [PathChange::new(&export_path, &path, Change::Store)];
    exchange.check_changes(head, &change).await?;
    let algorithms = algorithms(exchange, head, &declared);
    let options = UploadOptions {
        size_bytes,
        overwrite: overwrite(exchange, head, present.is_some(), size_bytes),
        create_parents: true,
        checksums: algorithms.clone(),
        ..UploadOptions::default()
    };
    // After a redirect, the holder of a lock would have to show it again.
    if let Some(size_bytes) = size_bytes.filter(|_| exchange.submitted.is_empty()) {
        let decided = Decided {
            usage: CapabilityUse::Write,
            size_bytes,
            may_replace: options.overwrite == Overwrite::Allow,
            may_read: false,
            granted: &granted,
        };
        if exchange.hand_over(head, &decided, &export_path).await? {
            return Ok(());
        }
    }
    let permit = exchange.permit();
    let upload = match export_path.store.elsewhere() {
        Some(elsewhere) => Box::pin(elsewhere::relay(exchange, head, elsewhere, &options, &granted)).await,
        None => export_path.store.create(&export_path.path, &options).await,
    };
    // The store knows the path within its export only.
    let upload = upload.map_err(|error| error.with_subject(&path))?;
    exchange.has_begun = true;
    exchange.http.invite_body().await?;
    let watched = watched(exchange, present.as_ref(), upload.clone(), &algorithms, &granted);
    let (bytes, mut checksums) = watched.await?;
    let behind = declared_trailer_digests(exchange.http.incoming.trailers())?;
    complete(exchange, &export_path, &upload, &mut checksums, &behind).await?;
    for told in [&declared, &behind] {
        verify(told, &checksums).map_err(|error| differs(error, upload.as_ref()).with_subject(&path))?;
    }
    let facts = CommitFacts {
        size_bytes: bytes,
        checksums: checksums.clone(),
        modified: modified(head, &export_path),
        mode: None,
    };
    let changing = permit.check(&export_path.store, &export_path.path).await?;
    let stat = export_path.store.during(&changing).commit(&upload, facts).await;
    let stat = stat.map_err(|error| error.with_subject(&path))?;
    exchange.note_upload(&path, &stat);
    exchange.http.record.committed_us = Some(exchange.http.elapsed_us());
    let has_time = modified(head, &export_path) == Some(stat.modified);
    tell(exchange, head, present.is_some(), &stat, &checksums, has_time).await
}

async fn tell(
    exchange: &mut FileExchange<'_, '_>,
    head: &RequestHead,
    replaced: bool,
    stat: &Stat,
    checksums: &[Checksum],
    has_time: bool,
) -> Result<()> {
    let wishes = Wishes::of(head).or_default(exchange.door.settings.site.usual_checksum());
    let tag = etag(stat);
    let with_facts = |head: ResponseBuilder| {
        let head = wishes.tell(head.etag(&tag), checksums);
        if has_time { head.modified_accepted() } else { head }
    };
    match replaced {
        true => exchange.http.bare(204, with_facts).await,
        false => exchange.http.whole(201, &[], with_facts).await,
    }
}

/// The time that the client gives to the file. What another server stores gets that server's.
fn modified(head: &RequestHead, export_path: &ExportPath) -> Option<SystemTime> {
    let is_here = export_path.store.elsewhere().is_none();
    let seconds = head.modified().filter(|_| is_here)?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// The length of the file, if the client says it.
fn size_bytes(head: &RequestHead) -> Result<Option<u64>> {
    Ok(match head.framing()? {
        Framing::Empty => Some(0),
        Framing::Length(length) => Some(length),
        Framing::Chunked | Framing::UntilClose => None,
    })
}

/// The body is the whole file, as it is.
fn check_content(head: &RequestHead) -> Result<()> {
    head.check_whole()?;
    match head.has_content_encoding() {
        true => Err(Error::new(ErrorCode::UnsupportedMediaType, Side::Client, Phase::Open)
            .with_detail("the file as it is, without Content-Encoding")),
        false => Ok(()),
    }
}

fn overwrite(
    exchange: &mut FileExchange<'_, '_>,
    head: &RequestHead,
    exists: bool,
    size_bytes: Option<u64>,
) -> Overwrite {
    if head.must_not_exist() || !exchange.may_replace(exists, size_bytes) {
        Overwrite::Refuse
    } else {
        Overwrite::Allow
    }
}

/// The checksums to compute during the upload: those that are always stored, those that the sender
/// declared, and those that it asks for.
fn algorithms(exchange: &FileExchange<'_, '_>, head: &RequestHead, declared: &[Checksum]) -> Vec<ChecksumAlgorithm> {
    let others = declared.iter().map(Checksum::algorithm);
    let site = &exchange.door.settings.site;
    site.checksums_with(others.chain(Wishes::of(head).algorithms()))
}

/// Receives the body as [`take`] does, and tells those who watch.
async fn watched(
    exchange: &mut FileExchange<'_, '_>,
    present: Option<&Stat>,
    upload: Arc<dyn WriteHandle>,
    algorithms: &[ChecksumAlgorithm],
    granted: &Granted,
) -> Result<(u64, Vec<Checksum>)> {
    let used = exchange.used(present.map_or(0, |stat| stat.size_bytes), true);
    let taken = take(exchange, upload, algorithms, granted.max_upload_bytes).await;
    used.written(exchange.http.record.bytes_in);
    taken.inspect_err(|_| used.torn())
}

/// Receives the body. An upload whose body ends too early is dropped with what was stored.
async fn take(
    exchange: &mut FileExchange<'_, '_>,
    upload: Arc<dyn WriteHandle>,
    algorithms: &[ChecksumAlgorithm],
    max_bytes: Option<u64>,
) -> Result<(u64, Vec<Checksum>)> {
    let mut received = Received::new(upload, Hasher::new(algorithms));
    let counted = Counted::new(
        &mut exchange.http.record.bytes_in,
        exchange.door.settings.site.transfers.budget(),
        Flow::In,
    );
    let mut body = LimitedBody {
        connection: exchange.http.connection,
        incoming: &mut exchange.http.incoming,
        max_bytes,
        came_bytes: 0,
    };
    receive(&mut body, &mut received, &counted.progress).await?;
    Ok((received.bytes(), received.finish()))
}

/// The body of the request, up to the size that the credential allows.
struct LimitedBody<'a> {
    connection: &'a mut Connection,
    incoming: &'a mut Incoming,
    max_bytes: Option<u64>,
    came_bytes: u64,
}

impl Payload for LimitedBody<'_> {
    async fn next(&mut self) -> Result<Option<Batch>> {
        let batch = self.incoming.next(self.connection).await?;
        self.came_bytes += batch.as_ref().map_or(0, |batch| batch.len() as u64);
        if let Some(max) = self.max_bytes.filter(|max| self.came_bytes > *max) {
            let error = Error::new(ErrorCode::BodyTooLarge, Side::Client, Phase::Authorize);
            return Err(error.with_detail(format!("the credential allows uploads of {max} bytes")));
        }
        Ok(batch)
    }
}

/// Computes checksums that only the trailer declared, after the data had been received.
async fn complete(
    exchange: &FileExchange<'_, '_>,
    export_path: &ExportPath,
    upload: &Arc<dyn WriteHandle>,
    computed: &mut Vec<Checksum>,
    behind: &[Checksum],
) -> Result<()> {
    let mut missing: Vec<_> = behind.iter().map(Checksum::algorithm).collect();
    missing.retain(|algorithm| !computed.iter().any(|sum| sum.algorithm() == *algorithm));
    missing.sort_unstable();
    missing.dedup();
    if !missing.is_empty() {
        computed.extend(
            export_path
                .store
                .reread(upload, &missing, &exchange.http.client())
                .await?,
        );
    }
    Ok(())
}

/// The mismatch, with a word where a replaced file is not what it was any more.
fn differs(error: Error, upload: &dyn WriteHandle) -> Error {
    match (upload.keeps_replaced(), error.detail()) {
        (false, Some(detail)) => {
            let detail = format!("{detail}; {REPLACED_IS_LOST}");
            error.with_detail(detail)
        }
        _ => error,
    }
}

/// Compares declared checksums with computed ones.
fn verify(declared: &[Checksum], computed: &[Checksum]) -> Result<()> {
    for expected in declared {
        let same = computed.iter().find(|sum| sum.algorithm() == expected.algorithm());
        if let Some(actual) = same.filter(|actual| *actual != expected) {
            return Err(Error::new(ErrorCode::ChecksumMismatch, Side::Client, Phase::Checksum)
                .with_detail(format!("{expected} / {actual}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_checksum_must_be_that_of_the_data() {
        let computed = [Checksum::adler32(1), Checksum::crc32c(2)];
        assert!(verify(&[], &computed).is_ok());
        assert!(verify(&computed, &computed).is_ok());
        let error = verify(&[Checksum::adler32(1), Checksum::crc32c(3)], &computed).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ChecksumMismatch);
        assert!(verify(&[Checksum::adler32(1), Checksum::adler32(2)], &computed).is_err());
    }
}
