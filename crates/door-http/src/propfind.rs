//! PROPFIND of depth 0 and 1 (RFC 4918 §9.1). A directory is read and sent in batches, so a listing
//! of any length takes the same memory.

use http_wire::webdav::{Entry, MultistatusWriter, Property, PropfindRequest, parse_propfind};
use http_wire::{ContentType, Depth, RequestHead};
use policy::Operation;
use storage::Stat;
use types::limits::{LISTING_PIECE_BYTES, PROPFIND_BODY_BYTES_MAX};
use types::{Checksum, Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::access::etag;
use crate::exchange::Exchange;
use transfer::Found;
use transfer::chance::unix_s;
use transfer::{Place, Spot};

/// Answers PROPFIND.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, head: &RequestHead) -> Result<()> {
    let deep = match head.depth()? {
        Some(Depth::Zero) => false,
        Some(Depth::One) => true,
        // No depth means infinity (§9.1), which a server may refuse: nobody can say how long it takes.
        None | Some(Depth::Infinity) => {
            let error = Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Open);
            return Err(error.with_detail("depth 0 and 1"));
        }
    };
    let spot = match exchange.place(&exchange.path) {
        Place::Above(names) => return above(exchange, deep, &names).await,
        _ => exchange.spot(ErrorCode::NotFound)?,
    };
    let found = Found::at(&spot).await;
    let lists = deep && found.is_directory();
    exchange.authorize_here(if lists { Operation::List } else { Operation::Stat })?;
    let path = exchange.path.clone();
    let stat = found.into_stat(&path)?;
    let request = parse_propfind(&exchange.small_body(PROPFIND_BODY_BYTES_MAX).await?)?;
    let quota_bytes = quota(&spot, &stat, &request).await?;
    let mut answer = Answer::begin(exchange, request);
    let checksums = answer.checksums(&spot, &spot.path, &stat).await;
    answer.add(&path, &stat, quota_bytes, &checksums);
    if lists {
        entries(exchange, &spot, &path, &mut answer).await?;
    }
    answer.end(exchange).await
}

async fn entries(exchange: &mut Exchange<'_>, spot: &Spot, path: &LogicalPath, answer: &mut Answer) -> Result<()> {
    let mut pages = spot.store.list(&spot.path).await?;
    loop {
        let entries = pages.next().await?;
        if entries.is_empty() {
            return Ok(());
        }
        for entry in &entries {
            // A name that no request can name is not listed either.
            let (Ok(outside), Ok(inside)) = (path.join(&entry.name), spot.path.join(&entry.name)) else {
                continue;
            };
            let checksums = answer.checksums(spot, &inside, &entry.stat).await;
            answer.add(&outside, &entry.stat, None, &checksums);
        }
        answer.send_when_full(exchange).await?;
    }
}

/// Space used and left, of the directory asked about and only when it is asked for by name: davix
/// takes the number for the directory's size.
async fn quota(spot: &Spot, stat: &Stat, request: &PropfindRequest) -> Result<Option<(u64, u64)>> {
    let PropfindRequest::Properties(list) = request else {
        return Ok(None);
    };
    let asked = list.contains(&Property::QuotaUsed) || list.contains(&Property::QuotaAvailable);
    if !asked || !stat.is_directory() {
        return Ok(None);
    }
    let space = spot.store.space_at(&spot.path).await?;
    Ok(Some((space.used_bytes, space.free_bytes)))
}

/// A directory above all exports.
async fn above(exchange: &mut Exchange<'_>, deep: bool, names: &[String]) -> Result<()> {
    exchange.credential.clone()?;
    let request = parse_propfind(&exchange.small_body(PROPFIND_BODY_BYTES_MAX).await?)?;
    let path = exchange.path.clone();
    let mut answer = Answer::begin(exchange, request);
    answer.add_above(&path);
    if deep {
        for name in names {
            answer.add_above(&path.join(name)?);
        }
    }
    answer.end(exchange).await
}

/// The answer in the making.
struct Answer {
    writer: MultistatusWriter,
    wants_checksums: bool,
    piece: Vec<u8>,
}

impl Answer {
    fn begin(exchange: &mut Exchange<'_>, request: PropfindRequest) -> Self {
        exchange.begin_pieces(207, |head| head.content_type(ContentType::Xml));
        let named = matches!(&request, PropfindRequest::Properties(list) if list.contains(&Property::Checksums));
        let mut answer = Self {
            writer: MultistatusWriter::new(request),
            wants_checksums: named,
            piece: Vec::new(),
        };
        answer.writer.begin(&mut answer.piece);
        answer
    }

    /// Kept checksums, when they are asked for by name; none is computed for a listing.
    async fn checksums(&self, spot: &Spot, path: &LogicalPath, stat: &Stat) -> Vec<Checksum> {
        if !self.wants_checksums || stat.is_directory() {
            return Vec::new();
        }
        spot.store.stored_checksums(path).await.unwrap_or_default()
    }

    fn add(&mut self, path: &LogicalPath, stat: &Stat, quota_bytes: Option<(u64, u64)>, checksums: &[Checksum]) {
        let (modified_s, is_directory) = (unix_s(stat.modified), stat.is_directory());
        let etag = (!is_directory).then(|| etag(stat));
        let entry = Entry {
            path,
            is_directory,
            size_bytes: stat.size_bytes,
            modified_s,
            // A file here is made in one step and never changed, so it began when it changed last.
            created_s: (!is_directory).then_some(modified_s),
            etag: etag.as_deref(),
            quota_bytes,
            checksums,
        };
        self.writer.entry(&mut self.piece, &entry);
    }

    fn add_above(&mut self, path: &LogicalPath) {
        let entry = Entry {
            path,
            is_directory: true,
            size_bytes: 0,
            modified_s: 0,
            created_s: None,
            etag: None,
            quota_bytes: None,
            checksums: &[],
        };
        self.writer.entry(&mut self.piece, &entry);
    }

    async fn send_when_full(&mut self, exchange: &mut Exchange<'_>) -> Result<()> {
        if self.piece.len() < LISTING_PIECE_BYTES {
            return Ok(());
        }
        exchange.piece(&std::mem::take(&mut self.piece)).await
    }

    async fn end(mut self, exchange: &mut Exchange<'_>) -> Result<()> {
        self.writer.end(&mut self.piece);
        exchange.piece(&self.piece).await?;
        exchange.end_pieces(None).await
    }
}
