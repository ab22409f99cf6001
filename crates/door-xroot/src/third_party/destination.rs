//! The destination of a third-party copy: an open file that stands for a copy that this server
//! makes.

use std::sync::Arc;

use crate::limits::TPC_COPY_TIME;
use endpoint::ids::fresh_id;
use endpoint::{ExportPath, PeerCredential, TransferOutcome, TransferStart, span_of, trace_for};
use remote::{Direction, Resource};
use storage::{Overwrite, Stat};
use transfer::{CopyJob, Order, RunningCopy, Verification};
use types::limits::TPC_STREAMS_MAX;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, LogicalPath, Phase, Side};
use xroot_wire::request::Open;
use xroot_wire::{FileHandle, StreamId, ThirdParty};

use crate::admit::{Admitted, admit};
use crate::connection::Next;
use crate::copy_progress::CopyProgress;
use crate::copying::{CopySource, Copying, Stage};
use crate::exchange::{Exchange, Named};
use crate::failure::{Failure, Result, not_offered};
use crate::files::Content;
use crate::late::Late;
use crate::third_party::fetched::{Fetched, bad_request};
use crate::writers::Preview;

/// Opens a file that is to be fetched: checks rights, and reads the parameters about the source.
pub(crate) async fn open(
    exchange: &mut Exchange<'_>,
    export_path: &ExportPath,
    named: &Named<'_>,
    request: &Open<'_>,
    copy: &ThirdParty<'_>,
) -> Result<(Content, Stat)> {
    let admitted = admit(exchange, export_path, named, request).await?;
    let mut source = Fetched::new(exchange, &named.path, copy).await?;
    source.label(named.cgi.flow_tag());
    let events = &exchange.connection.door.settings.site.events;
    source.trace(trace_for(&**events, exchange.record.traceparent.as_deref()));
    if source.has_token() {
        exchange.admit_secrets()?;
    }
    let order = order(exchange, named, copy, &source, &admitted)?;
    let progress = Arc::<CopyProgress>::default();
    admitted.claim.show(Preview::Copy(Arc::downgrade(&progress)));
    let copying = Copying {
        source: source.opened,
        order,
        stage: Stage::Ordered,
        progress,
        _claim: admitted.claim,
    };
    let stat = copying.stat();
    Ok((Content::Copying(Box::new(copying)), stat))
}

fn order(
    exchange: &Exchange<'_>,
    named: &Named<'_>,
    copy: &ThirdParty<'_>,
    source: &Fetched,
    admitted: &Admitted,
) -> Result<Order> {
    let has_key = source.opened.shown == Some(PeerCredential::Key);
    let site = &exchange.connection.door.settings.site;
    let further = copy
        .stream_count()
        .map_err(|_| bad_request("tpc streams value is invalid"))?;
    let streams = further.map(|further| 1 + further.min(TPC_STREAMS_MAX));
    let wanted = copy.checksum.map(wanted_checksum).transpose()?;
    let mut keep = site.keep.clone();
    if let Some((algorithm, _)) = &wanted {
        // The source is asked for the first one.
        keep.retain(|kept| kept != algorithm);
        keep.insert(0, *algorithm);
    }
    let verification = match wanted {
        Some((_, None)) => Verification::Required,
        _ => site.copies.verification,
    };
    Ok(Order {
        overwrite: if admitted.may_replace {
            Overwrite::Allow
        } else {
            Overwrite::Refuse
        },
        streams: site.copies.streams(streams),
        // The key opens the file once, and not again when a connection breaks.
        attempts: if has_key { 1 } else { site.copies.attempts },
        ask_first: !has_key,
        announced_bytes: named.cgi.expected_bytes(),
        listed_bytes: None,
        digests_from: has_key.then(|| source.plain.clone()),
        verification,
        expected: wanted.and_then(|(_, value)| value),
        keep,
        max_bytes: admitted.max_bytes,
        modified: None,
        rates: Vec::new(),
        permit: Some(exchange.permit(&named.path)),
        client: exchange.client(),
        create_parents: true,
    })
}

/// `algorithm`, or `algorithm:value`.
fn wanted_checksum(text: &str) -> Result<(ChecksumAlgorithm, Option<Checksum>)> {
    let (name, value) = text
        .split_once(':')
        .map_or((text, None), |(name, value)| (name, Some(value)));
    let algorithm = ChecksumAlgorithm::from_name(name).ok_or_else(|| {
        Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Checksum).with_detail("this checksum is not offered")
    })?;
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok((algorithm, None));
    };
    let value = Checksum::from_hex(algorithm, value);
    let value = value.ok_or_else(|| bad_request("tpc.cks has no value of its kind"))?;
    Ok((algorithm, Some(value)))
}

/// Answers a sync of such a file: the first one checks what can be checked without the source, the
/// second one begins the copy and is answered at its end.
pub(crate) async fn sync(exchange: &mut Exchange<'_>, handle: FileHandle) -> Result<Next> {
    let file = exchange.file(handle)?;
    let (export_path, path) = (file.export_path.clone(), file.path.clone());
    let Content::Copying(copying) = &mut file.content else {
        return Err(Error::new(ErrorCode::FileNotOpen, Side::Client, Phase::Open).into());
    };
    let (source, order) = (copying.source.clone(), copying.order.clone());
    match &copying.stage {
        Stage::Ordered => {
            prepare(exchange, &export_path, &source.file, &order).await?;
            if let Content::Copying(copying) = &mut exchange.file(handle)?.content {
                copying.stage = Stage::Prepared;
            }
            exchange.ok(&[]);
            Ok(Next::Request)
        }
        Stage::Prepared => begin(exchange, handle, export_path, &path, source, order),
        Stage::Begun(_) => match copying.progress.ending() {
            Some(ended) => {
                ended.clone()?;
                exchange.ok(&[]);
                Ok(Next::Request)
            }
            None => {
                let error = Error::new(ErrorCode::Busy, Side::Client, Phase::Transfer);
                Err(error.with_detail("the copy runs").with_subject(path).into())
            }
        },
    }
}

/// Checks that there is space, and that the source may be connected to.
async fn prepare(
    exchange: &mut Exchange<'_>,
    export_path: &ExportPath,
    source: &Resource,
    order: &Order,
) -> Result<()> {
    let client = exchange.connection.door.settings.site.client.clone();
    client.check_address(source).await?;
    let free_bytes = export_path.store.space_at(&export_path.path).await?.free_bytes;
    if order.announced_bytes.is_some_and(|bytes| bytes > free_bytes) {
        let error = Error::new(ErrorCode::NoSpace, Side::Destination, Phase::Open);
        return Err(error.with_subject(&export_path.path).into());
    }
    Ok(())
}

fn begin(
    exchange: &mut Exchange<'_>,
    handle: FileHandle,
    export_path: ExportPath,
    path: &LogicalPath,
    source: CopySource,
    order: Order,
) -> Result<Next> {
    let door = exchange.connection.door.clone();
    let site = &door.settings.site;
    let slot = site.transfers.take(&exchange.client())?;
    let start = start(exchange, path, &source);
    let job = CopyJob {
        client: site.client.clone(),
        peer: source.file,
        export_path,
        order,
        direction: Direction::Pull,
    };
    let running = RunningCopy::begin(site.events.clone(), start, slot, job);
    let mut running = running.if_dropped(TransferOutcome::ClientGone);
    let progress = match &exchange.file(handle)?.content {
        Content::Copying(copying) => copying.progress.clone(),
        _ => return Err(not_offered()),
    };
    progress.begin(running.progress().clone());
    let gate = door.gate.clone();
    let work = async move {
        let stopped = || Error::new(ErrorCode::Cancelled, Side::Active, Phase::Transfer);
        let (outcome, result) = tokio::select! {
            biased;
            result = running.outcome() => match result {
                Ok(done) => (TransferOutcome::Success, Ok(done)),
                Err(error) => (TransferOutcome::Failure, Err(error)),
            },
            () = gate.aborting() => (TransferOutcome::Aborted, Err(stopped())),
        };
        running.end(outcome, result.as_ref()).await;
        progress.end(result.as_ref().map(drop).map_err(Clone::clone));
        result.map(|_| Late::Done).map_err(Failure::from)
    };
    let seconds = u32::try_from(TPC_COPY_TIME.as_secs()).unwrap_or(u32::MAX);
    let next = exchange.later(path, seconds, work)?;
    let request = exchange.stream;
    if let Content::Copying(copying) = &mut exchange.file(handle)?.content {
        copying.stage = Stage::Begun(request);
    }
    Ok(next)
}

fn start(exchange: &mut Exchange<'_>, path: &LogicalPath, source: &CopySource) -> TransferStart {
    let transfer_id = fresh_id();
    exchange.record.transfer_id = Some(transfer_id.clone());
    let request_id = exchange.name_request().to_owned();
    let ordered_by = exchange.client_facts();
    let record = &exchange.record;
    TransferStart {
        transfer_id,
        request_id,
        mode: Direction::Pull.name(),
        path: path.as_str().to_owned(),
        remote: source.file.location.to_string(),
        client: exchange.connection.peer,
        ordered_by,
        own_scheme: "xroot",
        credential: record.credential,
        subject: record.subject.clone(),
        peer_credential: source.shown,
        client_info: None,
        traceparent: source.file.access.traceparent.clone().unwrap_or_default(),
        parent_span: span_of(record.traceparent.as_deref()),
        scitag: source.tag,
    }
}

/// Cancels the copy of an open file, and answers the request that waits for it.
pub(crate) fn cancel(exchange: &mut Exchange<'_>, handle: FileHandle) -> Result<()> {
    let awaited = match &exchange.file(handle)?.content {
        Content::Copying(copying) => copying.awaited_by(),
        _ => return Err(not_offered()),
    };
    give_up(exchange, awaited);
    exchange.ok(&[]);
    Ok(())
}

/// Cancels the copy of a file that is closed.
pub(crate) fn close(exchange: &mut Exchange<'_>, copying: &Copying) {
    give_up(exchange, copying.awaited_by());
}

fn give_up(exchange: &mut Exchange<'_>, awaited: Option<StreamId>) {
    if let Some(request) = awaited {
        let cancelled = exchange.connection.late.cancel_request(request);
        exchange.answer_all(cancelled);
    }
}
