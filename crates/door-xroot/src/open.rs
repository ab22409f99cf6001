//! Opening files: to read them, to store new ones, and to change old ones where they lie.

use std::sync::Arc;
use std::time::Instant;

use policy::Operation;
use storage::{Overwrite, Stat, UploadOptions};
use transfer::{Found, Spot, refusal};
use types::{ChecksumAlgorithm, Error, ErrorCode, LogicalPath, Phase, Side};
use xroot_wire::request::{Access, Creation, Open};
use xroot_wire::response::OpenReply;
use xroot_wire::{ErrorNumber, OpenOptions, Stage, StatFlags, ThirdParty};

use crate::checksum::algorithm_of;
use crate::exchange::{Exchange, Named, anonymous};
use crate::failure::{Failure, Result};
use crate::files::{Content, OpenFile};
use crate::stat::stat_text;
use crate::turns::Turn;
use crate::writing::Writing;

/// What the reference server shows of a file that does not persist yet, beside its permissions.
const PENDING_MODE: u32 = 0o1000;

/// What stands about compression behind a handle.
const COMPRESSION_BYTES: usize = 8;

/// Answers an open.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, request: &Open<'_>) -> Result<()> {
    let named = exchange.path(&request.path)?;
    if named.cgi.third_party().is_some_and(|copy| is_copy(&copy)) {
        return Err(no_third_party());
    }
    exchange.session()?.files.check_room()?;
    let spot = exchange.spot(&named.path, ErrorCode::IsDirectory)?;
    let (content, stat) = match (request.creation(), request.access()) {
        (Creation::MustExist, Access::Read) => read(exchange, &spot, &named.path).await?,
        (Creation::MustExist, _) => update(exchange, &spot, &named.path, request).await?,
        (creation, _) => create(exchange, &spot, &named, request, creation).await?,
    };
    let file = OpenFile {
        path: named.path,
        spot,
        credential: exchange.credential.clone().unwrap_or_else(|_| anonymous()),
        traffic: Arc::default(),
        opened: Instant::now(),
        content,
    };
    let is_pending = file.is_written() && request.options.contains(OpenOptions::PERSIST_ON_CLOSE);
    let handle = exchange.session()?.files.add(file);
    let wants_stat = request.options.contains(OpenOptions::RETURN_STAT);
    let reply = OpenReply {
        handle,
        stat: wants_stat.then(|| {
            let mut text = stat_text(&stat);
            if is_pending {
                text.flags |= StatFlags::PERSIST_PENDING;
                if let Some(more) = &mut text.extension {
                    more.mode |= PENDING_MODE;
                }
            }
            text
        }),
    };
    let mut body = reply.encode();
    if !wants_stat && request.options.contains(OpenOptions::COMPRESSED) {
        // Whoever asks is told about compression: there is none.
        body.extend_from_slice(&[0; COMPRESSION_BYTES]);
    }
    exchange.ok(&body);
    Ok(())
}

/// A third-party copy itself; a client that only looks at the source opens it like any other.
fn is_copy(copy: &ThirdParty<'_>) -> bool {
    copy.stage != Some(Stage::Placement)
}

/// Clients of the reference implementation look for these very words, and copy through themselves then.
fn no_third_party() -> Failure {
    let error = Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Open);
    Failure::from(error.with_detail("tpc not supported")).numbered(ErrorNumber::FILE_SYSTEM)
}

async fn read(exchange: &mut Exchange<'_>, spot: &Spot, path: &LogicalPath) -> Result<(Content, Stat)> {
    exchange.authorize(Operation::Read, path, None)?;
    let reader = spot.store.open(&spot.path).await;
    let reader = reader.map_err(|error| error.with_subject(path))?;
    let stat = reader.stat().clone();
    Ok((Content::Reading(reader), stat))
}

/// The turn to write a file, unless the client does not care who else does.
fn turn(exchange: &Exchange<'_>, path: &LogicalPath, request: &Open<'_>) -> Result<Option<Turn>> {
    if request.options.contains(OpenOptions::FORCE) {
        return Ok(None);
    }
    let turn = exchange.connection.door.turns.take(path);
    let busy = || refusal(ErrorCode::Busy, path).with_detail("somebody else is writing it");
    Ok(Some(turn.ok_or_else(busy)?))
}

/// Changing a file where it lies is the exception to what this server promises about stored files: every
/// write shows at once.
async fn update(
    exchange: &mut Exchange<'_>,
    spot: &Spot,
    path: &LogicalPath,
    request: &Open<'_>,
) -> Result<(Content, Stat)> {
    let found = Found::at(spot).await;
    let max_bytes = exchange.authorize(Operation::Overwrite, path, None)?;
    let turn = turn(exchange, path, request)?;
    let present = found.into_file(path)?;
    let stat = present.ok_or_else(|| refusal(ErrorCode::NotFound, path))?;
    let update = spot.store.open_update(&spot.path).await;
    let update = update.map_err(|error| error.with_subject(path))?;
    let writing = Writing::in_place(&spot.store, update, max_bytes, turn);
    Ok((Content::Writing(Box::new(writing)), stat))
}

async fn create(
    exchange: &mut Exchange<'_>,
    spot: &Spot,
    named: &Named<'_>,
    request: &Open<'_>,
    creation: Creation,
) -> Result<(Content, Stat)> {
    let path = &named.path;
    let size_bytes = named.cgi.expected_bytes();
    let found = Found::at(spot).await;
    let operation = match creation {
        Creation::MustNotExist => Operation::Create,
        _ => found.upload(),
    };
    let max_bytes = exchange.authorize(operation, path, size_bytes)?;
    let turn = turn(exchange, path, request)?;
    let exists = found.into_file(path)?.is_some();
    if exists && creation == Creation::MustNotExist {
        return Err(refusal(ErrorCode::Exists, path).into());
    }
    // Where nothing stood only the right to create was asked for, which is none to somebody else's file.
    let may_replace = creation == Creation::CreateOrTruncate
        && (exists || exchange.authorize(Operation::Overwrite, path, size_bytes).is_ok());
    let algorithms = algorithms(exchange, named)?;
    let options = UploadOptions {
        size_bytes,
        overwrite: if may_replace {
            Overwrite::Allow
        } else {
            Overwrite::Refuse
        },
        create_parents: request.makes_path(),
        checksums: algorithms.clone(),
    };
    let upload = spot.store.create(&spot.path, &options).await;
    let upload = upload.map_err(|error| error.with_subject(path))?;
    let mut writing = Writing::upload(&spot.store, upload, &algorithms, max_bytes, turn);
    // Whoever stores a file may read and write it, as the reference server sees to it.
    let mode = u32::from(request.mode) & 0o777;
    writing.mode = (mode != 0).then_some(mode | 0o600);
    let stat = writing.stat()?;
    Ok((Content::Writing(Box::new(writing)), stat))
}

/// The checksums to make while the file comes: those that are always kept, and the one that is named.
fn algorithms(exchange: &Exchange<'_>, named: &Named<'_>) -> Result<Vec<ChecksumAlgorithm>> {
    let mut list = exchange.connection.door.settings.keep.clone();
    if named.cgi.checksum_algorithm().is_some() {
        let named = algorithm_of(exchange, &named.cgi)?;
        if !list.contains(&named) {
            list.push(named);
        }
    }
    Ok(list)
}
