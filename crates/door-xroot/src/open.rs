//! Opens: to read a file, to store a new one, to update an old one in place.

use std::sync::Arc;
use std::time::Instant;

use credentials::capability::CapabilityUse;
use endpoint::{ActiveTransfer, Change, ClientMemory, ExportPath, Share, ShareKind, refusal};
use policy::Operation;
use storage::{Overwrite, Stat, UploadOptions};
use telemetry::{Opening, Used};
use types::{ChecksumAlgorithm, ErrorCode, LogicalPath};
use xroot_wire::OpenOptions;
use xroot_wire::request::{Access, Creation, Open};
use xroot_wire::response::{OpenReply, StatText};

use crate::admit::{Admitted, admit, claim_write, is_alone, read};
use crate::checksum::algorithm_of;
use crate::connection::Next;
use crate::elsewhere;
use crate::exchange::{Exchange, Named, anonymous};
use crate::failure::Result;
use crate::files::{Content, OpenFile, Traffic};
use crate::interrupted::{PendingUpload, UploadId};
use crate::stat::{pending_text, stat_text};
use crate::third_party::{destination, source};
use crate::writers::Preview;
use crate::writing::Writing;

/// The fields about compression that follow a handle.
const COMPRESSION_BYTES: usize = 8;

/// Answers an open.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, request: &Open<'_>) -> Result<Next> {
    let result = open(exchange, request).await;
    if result.is_err() {
        exchange.give_back_capability();
    }
    result
}

async fn open(exchange: &mut Exchange<'_>, request: &Open<'_>) -> Result<Next> {
    let usage = elsewhere::usage_of(request);
    let named = exchange.path_for(&request.path, usage).await?;
    exchange.record.scitag = named.cgi.flow_tag();
    let copy = named.cgi.third_party();
    let forward_to = exchange.connection.door.settings.site.forward_to.root.clone();
    if let (Some(_), Some(server)) = (&copy, forward_to) {
        exchange.redirect(&server);
        return Ok(Next::Request);
    }
    let export_path = exchange.export_path(&named.path, ErrorCode::IsDirectory)?;
    if let Some(elsewhere) = export_path.store.elsewhere() {
        return elsewhere::open(exchange, elsewhere, &named, request).await;
    }
    let share = share(exchange)?;
    // Without a key it is a plain open: a client looks at the source before the copy begins. A
    // destination that fetches with a delegated proxy needs no key.
    let copy = copy.filter(|copy| {
        copy.key.is_some() || (copy.delegates() && copy.source.is_some() && usage != CapabilityUse::Read)
    });
    let (mut key, mut is_lent) = (None, false);
    let (content, stat) = match (request.creation(), request.access(), copy) {
        (Creation::MustExist, Access::Read, None) => read(exchange, &export_path, &named.path).await?,
        (Creation::MustExist, Access::Read, Some(copy)) => {
            match source::open(exchange, &export_path, &named.path, &copy).await? {
                source::Opened::Now(content, stat, registered) => {
                    is_lent = registered.is_none();
                    key = registered;
                    (content, stat)
                }
                source::Opened::Later => return Ok(Next::Later),
            }
        }
        (_, _, Some(copy)) => destination::open(exchange, &export_path, &named, request, &copy).await?,
        (Creation::MustExist, ..) => update(exchange, &export_path, &named.path, request).await?,
        _ => create(exchange, &export_path, &named, request).await?,
    };
    let may_read = matches!(content, Content::Reading(_)) || exchange.may_read(&named.path);
    let is_upload = matches!(content, Content::Writing(_));
    let is_new = matches!(&content, Content::Writing(writing) if !writing.holds_old_content());
    let pending = is_new.then(|| begin(exchange, &named.path)).transpose()?;
    let used = used(exchange, &named.path, &content, &stat, key.is_none());
    let traffic = Arc::new(Traffic::new(used));
    let file = OpenFile {
        permit: is_upload.then(|| exchange.permit(&named.path)),
        path: named.path,
        export_path,
        credential: exchange.credential.clone().unwrap_or_else(|_| anonymous()),
        capability: exchange.capability.clone(),
        redirect_id: exchange.record.redirect_id.clone(),
        traceparent: exchange.record.traceparent.clone(),
        traffic,
        opened: Instant::now(),
        _active: counted(exchange, &content),
        content,
        is_lent,
        _share: share,
        may_read,
        _key: key,
        pending,
    };
    exchange.note_capability_use(&file.path)?;
    let is_pending = file.is_written() && request.options.contains(OpenOptions::PERSIST_ON_CLOSE);
    let stat = match is_pending {
        true => pending_text(&stat),
        false => stat_text(&stat),
    };
    reply(exchange, request.options, file, stat)?;
    Ok(Next::Request)
}

/// Answers with the handle of the file, and with its stat if the client wants that.
fn reply(exchange: &mut Exchange<'_>, options: OpenOptions, file: OpenFile, stat: StatText) -> Result<()> {
    let handle = exchange.session()?.files.add(file);
    let wants_stat = options.contains(OpenOptions::RETURN_STAT);
    let reply = OpenReply {
        handle,
        stat: wants_stat.then_some(stat),
    };
    let mut body = reply.encode();
    if !wants_stat && options.contains(OpenOptions::COMPRESSED) {
        // The client asked for the fields about compression: there is none.
        body.extend_from_slice(&[0; COMPRESSION_BYTES]);
    }
    exchange.ok(&body);
    Ok(())
}

/// Tells those who watch that the file is used, and whether its content goes over this connection.
/// A copy is reported when it ends.
fn used(exchange: &Exchange<'_>, path: &LogicalPath, content: &Content, stat: &Stat, carries: bool) -> Used {
    let telemetry = &exchange.connection.door.settings.site.telemetry;
    let is_written = match content {
        Content::Reading(_) => false,
        Content::Writing(_) => true,
        Content::Copying(_) => return Used::default(),
    };
    let opening = Opening {
        path: path.as_str(),
        size_bytes: stat.size_bytes,
        is_written,
        tag: exchange.record.scitag,
        carries,
    };
    telemetry.open(|| exchange.client_facts(), &opening)
}

/// Counts an open file as a transfer that runs.
fn counted(exchange: &Exchange<'_>, content: &Content) -> Option<ActiveTransfer> {
    let activity = &exchange.connection.door.settings.site.activity;
    match content {
        Content::Reading(_) => Some(activity.begin_download()),
        Content::Writing(_) => Some(activity.begin_upload()),
        // It is counted among the copies.
        Content::Copying(_) => None,
    }
}

/// Takes a place in the client's share of open files; the first file of a session needs none.
fn share(exchange: &mut Exchange<'_>) -> Result<Option<Share>> {
    let files = &exchange.session()?.files;
    files.check_room()?;
    if files.next_is_first() {
        return Ok(None);
    }
    let client = exchange.client();
    let fair_share = &exchange.connection.door.settings.site.fair_share;
    Ok(Some(fair_share.take(ShareKind::OpenFiles, &client)?))
}

fn upload_id(exchange: &mut Exchange<'_>, path: &LogicalPath) -> Result<UploadId> {
    Ok(UploadId {
        path: path.clone(),
        caller: exchange.session()?.caller.clone(),
        address: exchange.connection.peer.ip().to_canonical(),
    })
}

fn begin(exchange: &mut Exchange<'_>, path: &LogicalPath) -> Result<PendingUpload> {
    let id = upload_id(exchange, path)?;
    Ok(exchange.connection.door.interrupted.begin(id, Instant::now()))
}

/// An update in place is the exception to what this server promises about stored files: every write
/// shows at once.
async fn update(
    exchange: &mut Exchange<'_>,
    export_path: &ExportPath,
    path: &LogicalPath,
    request: &Open<'_>,
) -> Result<(Content, Stat)> {
    exchange.settle(path).await?;
    let found = exchange.lookup(export_path, path).await;
    let max_bytes = exchange.authorize(Operation::Overwrite, path, None)?.max_upload_bytes;
    // A write shows at once, so no lock is granted until the file is closed.
    let changing = exchange
        .begin_change(export_path, path, Change::Update)
        .await?
        .lasting();
    let id = upload_id(exchange, path)?;
    let interrupted = &exchange.connection.door.interrupted;
    if let Some(why) = interrupted.recovery(&id, found.exists() && request.mode != 0, Instant::now()) {
        return Err(refusal(ErrorCode::UploadInterrupted, path).with_detail(why).into());
    }
    let claim = claim_write(exchange, path, is_alone(request))?;
    let stat = found.into_present_file(path)?;
    let update = export_path.store.open_update(&export_path.path).await;
    let update = update.map_err(|error| error.with_subject(path))?;
    let store = export_path.store.during(&changing);
    let writing = Writing::in_place(&store, update, max_bytes, claim);
    writing.share_with(exchange.writer(path)?);
    Ok((Content::Writing(Box::new(writing)), stat))
}

async fn create(
    exchange: &mut Exchange<'_>,
    export_path: &ExportPath,
    named: &Named<'_>,
    request: &Open<'_>,
) -> Result<(Content, Stat)> {
    let path = &named.path;
    let Admitted {
        max_bytes,
        may_replace,
        claim,
    } = admit(exchange, export_path, named, request).await?;
    let algorithms = algorithms(exchange, named)?;
    let options = UploadOptions {
        size_bytes: named.cgi.expected_bytes(),
        overwrite: if may_replace {
            Overwrite::Allow
        } else {
            Overwrite::Refuse
        },
        create_parents: request.makes_path(),
        checksums: algorithms.clone(),
        ..UploadOptions::default()
    };
    let upload = export_path.store.create(&export_path.path, &options).await;
    let upload = upload.map_err(|error| error.with_subject(path))?;
    let fair_share = exchange.connection.door.settings.site.fair_share.clone();
    upload.count_memory(Arc::new(ClientMemory::new(fair_share, exchange.client())));
    claim.show(Preview::Upload(Arc::downgrade(&upload)));
    let mut writing = Writing::upload(&export_path.store, upload, &algorithms, max_bytes, claim);
    // The owner may read and write the file, as on the reference server.
    let mode = u32::from(request.mode) & 0o777;
    writing.mode = (mode != 0).then_some(mode | 0o600);
    let stat = writing.stat()?;
    Ok((Content::Writing(Box::new(writing)), stat))
}

/// The checksums to compute while the file arrives: those always kept, and the one that the client
/// names.
fn algorithms(exchange: &Exchange<'_>, named: &Named<'_>) -> Result<Vec<ChecksumAlgorithm>> {
    let is_named = named.cgi.checksum_algorithm().is_some();
    let named = is_named.then(|| algorithm_of(exchange, &named.cgi)).transpose()?;
    Ok(exchange.connection.door.settings.site.checksums_with(named))
}
