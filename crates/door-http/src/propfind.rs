//! PROPFIND of depth 0 and 1 (RFC 4918 §9.1). A directory is read and sent in batches, so a listing
//! of any length takes the same memory.

use std::sync::Arc;

use crate::limits::MULTISTATUS_PIECE_BYTES;
use endpoint::{ExportPath, PathTarget, refusal};
use http_wire::webdav::{
    DeadProperties, Entry, EntryPath, FINITE_DEPTH_ERROR, Href, MultistatusWriter, Property, PropfindRequest, Quota,
    lock_discovery,
};
use http_wire::{ContentType, Depth, RequestHead, ResponseBuilder};
use policy::Operation;
use storage::Stat;
use types::limits::{NAME_BYTES_MAX, PATH_BYTES_MAX, PROPFIND_BODY_BYTES_MAX};
use types::{Checksum, ErrorCode, LogicalPath, Result};

use crate::exchange::FileExchange;
use crate::lock::active;
use endpoint::clock::unix_s;

/// The status of every answer with properties (RFC 4918 §11.1).
const MULTISTATUS: u16 = 207;
/// Initial capacity of an answer, enough for one resource.
const SHORT_ANSWER_BYTES: usize = 1024;
/// Free space in a piece when it is sent, enough for an entry with the longest name, encoded. The
/// buffer grows by doubling, so it does not grow beyond the longest piece.
const ENTRY_BYTES: usize = 4096;

/// Answers PROPFIND.
pub(crate) async fn answer(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    // No depth means infinity (§9.1), which a server may refuse. Clients that send none want depth
    // 1.
    let depth = head.depth()?.unwrap_or(Depth::One);
    let deep = depth != Depth::Zero;
    let export_path = match exchange.place(&exchange.http.path) {
        PathTarget::Above(names) => return above(exchange, depth, &names).await,
        _ => exchange.export_path(ErrorCode::NotFound)?,
    };
    let path = exchange.http.path.clone();
    let found = exchange.lookup(&export_path, &path).await;
    let lists = deep && found.is_directory();
    exchange.authorize_here(if lists { Operation::List } else { Operation::Stat })?;
    exchange.check_state(head).await?;
    let stat = found.into_stat(&path)?;
    if lists && depth == Depth::Infinity {
        return refuse_infinity(exchange).await;
    }
    let request = asked(exchange).await?;
    let quota = quota(&export_path, &stat, &request, deep).await?;
    let mut answer = Answer::new(&request);
    let checksums = answer.checksums(&export_path, &export_path.path, &stat).await;
    let dead = match request.wants_dead() {
        true => export_path
            .store
            .dead_properties(&export_path.path)
            .await
            .unwrap_or_default(),
        false => Vec::new(),
    };
    let told = answer.locks(exchange, &export_path, &path, !deep);
    answer.add(EntryPath::At(&path), &stat, quota, told.as_deref(), &checksums, &dead);
    if lists {
        Box::pin(entries(exchange, &export_path, &path, &mut answer)).await?;
    }
    answer.end(exchange).await
}

/// A listing of everything below has no limit in time, so it is refused (§9.1:
/// `propfind-finite-depth`).
async fn refuse_infinity(exchange: &mut FileExchange<'_, '_>) -> Result<()> {
    let error = refusal(ErrorCode::DepthInfinite, &exchange.http.path);
    exchange.http.record.error = Some((&error).into());
    let body = FINITE_DEPTH_ERROR.as_bytes();
    let xml = |head: ResponseBuilder| head.content_type(ContentType::Xml);
    exchange.http.whole(error.code().http_status(), body, xml).await
}

/// What the body asks for.
async fn asked(exchange: &mut FileExchange<'_, '_>) -> Result<Arc<PropfindRequest>> {
    let body = exchange.http.small_body(PROPFIND_BODY_BYTES_MAX).await?;
    exchange.last_propfind.parse(&body)
}

async fn entries(
    exchange: &mut FileExchange<'_, '_>,
    export_path: &ExportPath,
    path: &LogicalPath,
    answer: &mut Answer,
) -> Result<()> {
    let mut pages = exchange
        .exports
        .list_to(exchange.requester(), export_path, path)
        .await?;
    let href = Href::of(path);
    let holds_any_name = path.as_str().len() + 1 + NAME_BYTES_MAX <= PATH_BYTES_MAX;
    loop {
        let entries = pages.next().await?;
        if entries.is_empty() {
            answer.note = exchange.note_unlisted(&pages);
            return Ok(());
        }
        let dead = answer.dead_properties(export_path, &entries).await;
        for (index, entry) in entries.iter().enumerate() {
            // A name that no request can spell is not listed. The store has checked the path within
            // the export, which may be shorter.
            if !holds_any_name && path.check_join(&entry.name).is_err() {
                continue;
            }
            let checksums = match answer.wants_checksums {
                true => {
                    answer
                        .checksums(export_path, &export_path.path.join(&entry.name)?, &entry.stat)
                        .await
                }
                false => Vec::new(),
            };
            let locks = match answer.wants_locks {
                true => answer.locks(exchange, export_path, &path.join(&entry.name)?, false),
                false => None,
            };
            let place = EntryPath::In(&href, &entry.name);
            let dead = dead.get(index).map_or(&[][..], Vec::as_slice);
            answer.add(place, &entry.stat, None, locks.as_deref(), &checksums, dead);
            if answer.piece.len() >= MULTISTATUS_PIECE_BYTES - ENTRY_BYTES {
                answer.send(exchange).await?;
            }
        }
    }
}

/// Used and free space of the directory: when requested by name, and in all properties of depth 0,
/// from which Rucio reads it. Not in a listing: davix takes the number for the size of the
/// directory.
async fn quota(export_path: &ExportPath, stat: &Stat, request: &PropfindRequest, deep: bool) -> Result<Option<Quota>> {
    let asked = match request {
        PropfindRequest::Properties { known, .. } => {
            known.contains(&Property::QuotaUsed) || known.contains(&Property::QuotaAvailable)
        }
        PropfindRequest::AllProperties | PropfindRequest::Names => !deep,
    };
    if !asked || !stat.is_directory() {
        return Ok(None);
    }
    let space = export_path.store.space_at(&export_path.path).await?;
    Ok(Some(Quota {
        used_bytes: space.used_bytes,
        available_bytes: space.free_bytes,
    }))
}

/// A directory above all exports.
async fn above(exchange: &mut FileExchange<'_, '_>, depth: Depth, names: &[String]) -> Result<()> {
    exchange.http.credential.clone()?;
    if depth == Depth::Infinity {
        return refuse_infinity(exchange).await;
    }
    let request = asked(exchange).await?;
    let path = exchange.http.path.clone();
    let mut answer = Answer::new(&request);
    answer.add_above(&path);
    if depth == Depth::One {
        for name in names {
            answer.add_above(&path.join(name)?);
        }
    }
    answer.end(exchange).await
}

/// The answer under construction. A short one is sent whole with its length, a longer one in
/// pieces.
struct Answer {
    writer: MultistatusWriter,
    wants_checksums: bool,
    /// Whether properties of locks may be requested.
    wants_locks: bool,
    /// Whether properties are requested by name.
    by_name: bool,
    wants_dead: bool,
    piece: Vec<u8>,
    /// Buffer for entity tags.
    etag: String,
    /// Remark about the whole answer.
    note: Option<String>,
    begun: bool,
}

impl Answer {
    fn new(request: &Arc<PropfindRequest>) -> Self {
        let named = matches!(request.as_ref(), PropfindRequest::Properties { known, .. } if known.contains(&Property::Checksums));
        let mut answer = Self {
            writer: MultistatusWriter::new(request),
            wants_checksums: named,
            wants_locks: request.includes(Property::LockDiscovery) || request.includes(Property::SupportedLock),
            by_name: matches!(request.as_ref(), PropfindRequest::Properties { .. }),
            wants_dead: request.wants_dead(),
            piece: Vec::with_capacity(SHORT_ANSWER_BYTES),
            etag: String::new(),
            note: None,
            begun: false,
        };
        answer.writer.begin(&mut answer.piece);
        answer
    }

    /// Stored checksums, if requested by name; a listing computes none.
    async fn checksums(&self, export_path: &ExportPath, path: &LogicalPath, stat: &Stat) -> Vec<Checksum> {
        if !self.wants_checksums || stat.is_directory() {
            return Vec::new();
        }
        export_path.store.stored_checksums(path).await.unwrap_or_default()
    }

    /// The dead properties of entries, in their order; empty when none are requested.
    async fn dead_properties(&self, export_path: &ExportPath, entries: &[storage::Entry]) -> Vec<Vec<u8>> {
        if !self.wants_dead {
            return Vec::new();
        }
        let names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
        let read = export_path.store.dead_properties_in(&export_path.path, &names).await;
        read.unwrap_or_default()
    }

    fn add(
        &mut self,
        place: EntryPath<'_>,
        stat: &Stat,
        quota: Option<Quota>,
        locks: Option<&str>,
        checksums: &[Checksum],
        dead: &[u8],
    ) {
        let dead = DeadProperties::decode(dead);
        let (modified_s, is_directory) = (unix_s(stat.modified), stat.is_directory());
        let has_tag = !is_directory && self.writer.wants(Property::Etag);
        if has_tag {
            self.etag.clear();
            self.etag.push('"');
            stat.push_etag(&mut self.etag);
            self.etag.push('"');
        }
        let entry = Entry {
            place,
            is_directory,
            size_bytes: stat.size_bytes,
            modified_s,
            // Files are created in one step and not changed later, so creation and modification
            // times are the same.
            created_s: (!is_directory).then_some(modified_s),
            etag: has_tag.then_some(self.etag.as_str()),
            quota,
            checksums,
            locks,
            dead: (!dead.is_empty()).then_some(&dead),
        };
        self.writer.entry(&mut self.piece, &entry);
    }

    /// The locks that cover something, as XML: when requested by name, when there are any, and with
    /// `always` among all properties. In a long listing they would be most of the answer.
    fn locks(
        &self,
        exchange: &FileExchange<'_, '_>,
        export_path: &ExportPath,
        path: &LogicalPath,
        always: bool,
    ) -> Option<String> {
        if !self.wants_locks || !export_path.has_locks || !exchange.exports.has_locks_at(path) {
            return None;
        }
        let locks = exchange.exports.locks_over(path);
        let told = self.by_name || always || !locks.is_empty();
        told.then(|| lock_discovery(locks.iter().map(active)))
    }

    fn add_above(&mut self, path: &LogicalPath) {
        let entry = Entry {
            place: EntryPath::At(path),
            is_directory: true,
            size_bytes: 0,
            modified_s: 0,
            created_s: None,
            etag: None,
            quota: None,
            checksums: &[],
            locks: None,
            dead: None,
        };
        self.writer.entry(&mut self.piece, &entry);
    }

    async fn send(&mut self, exchange: &mut FileExchange<'_, '_>) -> Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            exchange
                .http
                .begin_pieces(MULTISTATUS, |head| head.content_type(ContentType::Xml));
        }
        exchange.http.piece(&self.piece).await?;
        self.piece.clear();
        Ok(())
    }

    async fn end(mut self, exchange: &mut FileExchange<'_, '_>) -> Result<()> {
        if let Some(note) = &self.note {
            self.writer.description(&mut self.piece, note);
        }
        self.writer.end(&mut self.piece);
        if !self.begun {
            let xml = |head: ResponseBuilder| head.content_type(ContentType::Xml);
            return exchange.http.whole(MULTISTATUS, &self.piece, xml).await;
        }
        self.send(exchange).await?;
        exchange.http.end_pieces(None).await
    }
}
