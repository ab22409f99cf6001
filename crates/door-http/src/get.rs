//! GET and HEAD: whole files and ranges, checksums, and pages for directories.

use std::sync::Arc;
use std::time::Duration;

use credentials::capability::CapabilityUse;
use endpoint::{Decided, ExportPath, PathTarget, refusal};
use http_wire::{
    ContentType, Method, Multipart, Ranges, RequestHead, ResponseBuilder, Validators, Verdict, status_trailer,
};
use net::{Outgoing, Stream};
use policy::Operation;
use storage::{ReadHandle, Stat};
use transfer::{Drain, Flow, Pieces, serve, serve_pieces};
use types::limits::LAST_WORDS_WAIT;
use types::{ByteRange, Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use crate::access::etag;
use crate::cached::age_of;
use crate::counted::Counted;
use crate::digest::Wishes;
use crate::elsewhere;
use crate::exchange::FileExchange;
use crate::limits::OPENS_MAX;
use crate::page;
use endpoint::clock::unix_s;
use endpoint::ids::hex;
use net::random::random;

/// Answers GET and HEAD.
pub(crate) async fn answer(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    let is_head = head.method == Method::Head;
    let mut export_path = match exchange.place(&exchange.http.path) {
        PathTarget::Above(names) => return Box::pin(page::above(exchange, head, &names)).await,
        _ => exchange.export_path(ErrorCode::NotFound)?,
    };
    exchange.follow_cache_directives(head, &mut export_path);
    if let Some(elsewhere) = export_path.store.elsewhere() {
        let operation = if is_head { Operation::Stat } else { Operation::Read };
        if Box::pin(elsewhere::read(exchange, head, elsewhere, operation)).await? {
            return Ok(());
        }
    }
    let path = exchange.http.path.clone();
    let found = exchange.lookup(&export_path, &path).await;
    let operation = match (is_head, found.is_directory()) {
        (true, _) => Operation::Stat,
        (false, true) => Operation::List,
        (false, false) => Operation::Read,
    };
    let granted = exchange.authorize(operation, &path, None)?;
    exchange.check_state(head).await?;
    let stat = found.into_stat(&path)?;
    match (stat.is_directory(), is_head) {
        (true, _) => Box::pin(page::directory(exchange, head, &export_path, &stat)).await,
        (false, true) => head_of_file(exchange, head, &export_path, &stat).await,
        (false, false) => {
            let decided = Decided {
                usage: CapabilityUse::Read,
                size_bytes: stat.size_bytes,
                may_replace: false,
                may_read: false,
                granted: &granted,
            };
            if exchange.hand_over(head, &decided, &export_path).await? {
                return Ok(());
            }
            let _active = exchange.door.settings.site.activity.begin_download();
            Box::pin(file(exchange, head, &export_path)).await
        }
    }
}

/// What each answer says about a file.
struct Facts {
    etag: String,
    modified_s: i64,
    checksums: Vec<Checksum>,
    wishes: Wishes,
    /// How long ago the origin was asked, if the bytes come from a cache.
    age: Option<Duration>,
}

impl Facts {
    fn of(head: &RequestHead, stat: &Stat) -> Self {
        Self {
            etag: etag(stat),
            modified_s: unix_s(stat.modified),
            checksums: Vec::new(),
            wishes: Wishes::of(head),
            age: None,
        }
    }

    /// Finds the requested checksums, which may take as long as reading the file.
    async fn find_checksums(
        &mut self,
        exchange: &mut FileExchange<'_, '_>,
        export_path: &ExportPath,
        stat: &Stat,
    ) -> Result<()> {
        if self.wishes.algorithms().next().is_some() {
            self.checksums = Box::pin(checksums(exchange, export_path, stat, self.wishes)).await?;
        }
        Ok(())
    }

    fn validators(&self) -> Validators<'_> {
        Validators {
            etag: &self.etag,
            modified_s: self.modified_s,
        }
    }

    fn tell(&self, head: ResponseBuilder) -> ResponseBuilder {
        let mut head = head.etag(&self.etag).last_modified(self.modified_s).accept_ranges();
        if let Some(age) = self.age {
            head = head.age(age.as_secs());
        }
        self.wishes.tell(head, &self.checksums)
    }
}

/// The requested checksums: stored ones, or computed now. None if the file was replaced meanwhile,
/// since they would belong to another file.
async fn checksums(
    exchange: &mut FileExchange<'_, '_>,
    export_path: &ExportPath,
    seen: &Stat,
    wishes: Wishes,
) -> Result<Vec<Checksum>> {
    let mut known = Vec::new();
    for algorithm in wishes.algorithms() {
        let kept = export_path.store.stored_checksum(&export_path.path, algorithm).await?;
        let checksum = match kept {
            Some(checksum) => checksum,
            None => computed(exchange, export_path, algorithm).await?,
        };
        known.push(checksum);
    }
    if !known.is_empty()
        && !export_path
            .store
            .stat(&export_path.path)
            .await
            .is_ok_and(|now| now.same_content(seen))
    {
        known.clear();
    }
    Ok(known)
}

/// Computes a checksum; gives up when the client leaves.
async fn computed(
    exchange: &mut FileExchange<'_, '_>,
    export_path: &ExportPath,
    algorithm: ChecksumAlgorithm,
) -> Result<Checksum> {
    let mut requester = export_path
        .store
        .ask_checksum(&export_path.path, algorithm, &exchange.http.client())?;
    let limit = exchange.door.settings.limits.checksum_wait;
    let stream = &mut exchange.http.connection.stream;
    // A client that only closed its sending side still gets a result that is about to be ready.
    let gone = async {
        stream.peer_closed().await;
        tokio::time::sleep(LAST_WORDS_WAIT).await;
    };
    tokio::select! {
        biased;
        ready = requester.wait() => return ready,
        () = gone => return Err(Error::new(ErrorCode::ClientGone, Side::Client, Phase::Checksum)),
        () = tokio::time::sleep(limit) => {}
    }
    requester.wait_for(Duration::ZERO).await
}

async fn head_of_file(
    exchange: &mut FileExchange<'_, '_>,
    head: &RequestHead,
    export_path: &ExportPath,
    stat: &Stat,
) -> Result<()> {
    let mut facts = Facts::of(head, stat);
    if is_settled(exchange, head, &facts).await? {
        return Ok(());
    }
    let size = stat.size_bytes;
    facts.age = export_path.store.cached_age(&export_path.path, stat).await?;
    exchange.check_cached(facts.age, size)?;
    facts.find_checksums(exchange, export_path, stat).await?;
    exchange
        .http
        .bare(200, |head| {
            facts.tell(head.content_type(ContentType::Bytes).content_length(size))
        })
        .await
}

/// Checks the conditions. Returns true when the client's copy is still valid and the client has
/// been answered.
async fn is_settled(exchange: &mut FileExchange<'_, '_>, head: &RequestHead, facts: &Facts) -> Result<bool> {
    match head.check_conditions(Some(facts.validators())) {
        Verdict::Proceed => Ok(false),
        Verdict::Failed => Err(refusal(ErrorCode::PreconditionFailed, &exchange.http.path)),
        Verdict::NotModified => {
            let tell = |head: ResponseBuilder| head.etag(&facts.etag).last_modified(facts.modified_s);
            exchange.http.bare(304, tell).await.map(|()| true)
        }
    }
}

/// Sends a file. One that is replaced before the answer has begun is opened again: the client has
/// seen nothing of the old one.
async fn file(exchange: &mut FileExchange<'_, '_>, head: &RequestHead, export_path: &ExportPath) -> Result<()> {
    for _ in 1..OPENS_MAX {
        match opened_file(exchange, head, export_path).await {
            Err(error) if error.code() == ErrorCode::SourceChanged && exchange.http.record.status.is_none() => {}
            sent => return sent,
        }
    }
    opened_file(exchange, head, export_path).await
}

async fn opened_file(exchange: &mut FileExchange<'_, '_>, head: &RequestHead, export_path: &ExportPath) -> Result<()> {
    let reader = export_path.store.open(&export_path.path).await?;
    let size = reader.stat().size_bytes;
    let mut facts = Facts::of(head, reader.stat());
    if is_settled(exchange, head, &facts).await? {
        return Ok(());
    }
    let ranges = if head.range_still_valid(facts.validators()) {
        head.ranges(size)
    } else {
        Ranges::Whole
    };
    let parts = match ranges {
        Ranges::Unsatisfiable => {
            exchange.unsatisfied_size = Some(size);
            return Err(refusal(ErrorCode::RangeUnsatisfiable, &exchange.http.path));
        }
        Ranges::Parts(parts) => parts,
        Ranges::Whole => Vec::new(),
    };
    facts.age = age_of(&reader, &parts).await?;
    exchange.check_cached(facts.age, size)?;
    match facts.find_checksums(exchange, export_path, reader.stat()).await {
        // The client wants the file; it goes out without the checksum.
        Err(error) if matches!(error.code(), ErrorCode::ChecksumPending | ErrorCode::ShareUsedUp) => {}
        found => found?,
    }
    let sending = Sending {
        reader: &reader,
        facts: &facts,
        size,
    };
    let with_outcome = head.wants_status_trailer() && exchange.http.knows_chunks();
    let used = exchange.used(size, false);
    let sent = match parts.len() {
        0 | 1 => sending.one(exchange, parts.first().copied(), with_outcome).await,
        _ => sending.several(exchange, &parts).await,
    };
    exchange.http.record.upstream_redirected_to = reader.redirected_to();
    let bytes = exchange.http.record.bytes_out;
    match parts.len() {
        0 | 1 => used.read(bytes),
        count => used.read_vector(bytes, count as u64),
    }
    if sent.is_err() {
        used.torn();
    }
    sent
}

/// A file on its way to a client.
struct Sending<'a> {
    reader: &'a Arc<dyn ReadHandle>,
    facts: &'a Facts,
    size: u64,
}

impl Sending<'_> {
    /// The whole file, or one part of it.
    async fn one(
        &self,
        exchange: &mut FileExchange<'_, '_>,
        part: Option<ByteRange>,
        with_outcome: bool,
    ) -> Result<()> {
        let range = part.unwrap_or(ByteRange::whole(self.size));
        if self.reader.as_file().is_none() {
            self.reader.begin(range).await?;
        }
        let status = if part.is_some() { 206 } else { 200 };
        let tell = |head: ResponseBuilder| {
            let head = self.facts.tell(head.content_type(ContentType::Bytes));
            match part {
                Some(part) => head.content_range(part, self.size),
                None => head,
            }
        };
        if with_outcome {
            exchange.http.begin_pieces(status, |head| tell(head).status_trailer());
            return self.in_chunks(exchange, range).await;
        }
        exchange
            .http
            .head(status, |head| tell(head).content_length(range.len()));
        self.send(exchange, range).await?;
        exchange.http.connection.stream.flush().await
    }

    /// Several ranges in one body (RFC 9110 §14.6).
    async fn several(&self, exchange: &mut FileExchange<'_, '_>, parts: &[ByteRange]) -> Result<()> {
        let multipart = Multipart::new(&hex(&random::<12>()), self.size);
        let length = multipart.length(parts);
        exchange.http.head(206, |head| {
            self.facts.tell(head.multipart(&multipart)).content_length(length)
        });
        let mut pieces = Pieces::default();
        for part in parts {
            pieces.add(multipart.part_head(*part).as_bytes(), self.reader, *part);
        }
        let nothing = ByteRange::new(0, 0);
        pieces.add(multipart.end().as_bytes(), self.reader, nothing);
        let counted = Counted::new(
            &mut exchange.http.record.bytes_out,
            exchange.door.settings.site.transfers.budget(),
            Flow::Out,
        );
        serve_pieces(&pieces, &mut exchange.http.connection.stream, &counted.progress).await
    }

    async fn send(&self, exchange: &mut FileExchange<'_, '_>, range: ByteRange) -> Result<()> {
        let counted = Counted::new(
            &mut exchange.http.record.bytes_out,
            exchange.door.settings.site.transfers.budget(),
            Flow::Out,
        );
        let stream = &mut exchange.http.connection.stream;
        serve(self.reader.as_ref(), range, stream, None, &counted.progress).await
    }

    /// In chunks, so that a trailer can report the outcome (as XRootD does it). A failure on our
    /// side is reported there, so that the client does not take the body for complete.
    async fn in_chunks(&self, exchange: &mut FileExchange<'_, '_>, range: ByteRange) -> Result<()> {
        exchange.http.connection.stream.flush().await?;
        let counted = Counted::new(
            &mut exchange.http.record.bytes_out,
            exchange.door.settings.site.transfers.budget(),
            Flow::Out,
        );
        let mut drain = Chunks(&mut exchange.http.connection.stream);
        let sent = serve(self.reader.as_ref(), range, &mut drain, None, &counted.progress).await;
        drop(counted);
        match sent {
            Ok(()) => exchange.http.end_pieces(Some(&status_trailer(200, "OK"))).await,
            Err(error) if error.code() == ErrorCode::ClientGone || error.code() == ErrorCode::BodyStalled => Err(error),
            Err(error) => {
                exchange.http.record.error = Some((&error).into());
                let trailer = status_trailer(error.code().http_status(), &error.public());
                exchange.http.end_pieces(Some(&trailer)).await
            }
        }
    }
}

/// Wraps each batch of payload into a chunk (RFC 9112 §7.1).
struct Chunks<'s>(&'s mut Stream);

impl Drain for Chunks<'_> {
    async fn outgoing(&mut self) -> Result<Outgoing> {
        // The buffer must stay the next record, even before a key update: so the line in front of
        // the chunk goes out first.
        self.0.flush().await?;
        self.0.outgoing().await
    }

    async fn send(&mut self, outgoing: Outgoing, filled: usize) -> Result<()> {
        // Nothing was queued when the buffer was taken, so the line in front can still go first.
        self.0.queue(http_wire::chunk_head(filled).as_bytes());
        self.0.flush().await?;
        self.0.send(outgoing, filled).await?;
        self.0.queue(http_wire::CHUNK_END);
        self.0.flush().await
    }

    fn bare_stream(&mut self) -> Option<&mut Stream> {
        None
    }
}
