//! Pull: a file elsewhere becomes a file here.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use endpoint::{Changing, Store};
use remote::{Client, Facts, Resource};
use storage::{CommitFacts, Overwrite, Upload, UploadOptions};
use tokio::time::timeout;
use types::limits::EARLY_CHECKSUM_WAIT;
use types::{Checksum, Error, ErrorCode, Location, LogicalPath, Phase, Result, Side};

use crate::budget::Budget;
use crate::job::Job;
use crate::options::{Order, Outcome, Verification, Verified};
use crate::pace::keep_pace;
use crate::progress::Progress;
use crate::verify::{blame_store, check_announced, compare, missing, wanted};

/// Copies `source` to `path`.
///
/// The source is asked first; nothing is written here when it is missing or refuses. Then space is
/// reserved, data streams into a hidden part, a broken connection is taken up where it stopped while
/// the source's validator is unchanged, the checksums of both sides are compared, and only then
/// does the file appear under its name. Dropping the future aborts and removes the part.
///
/// # Errors
/// With the side and phase at which it failed; the destination is then as it was before.
pub async fn pull(
    client: &Client,
    source: &Resource,
    store: &Store,
    path: &LogicalPath,
    order: &Order,
    budget: &Budget,
    progress: &Progress,
) -> Result<Outcome> {
    let first = pull_once(client, source, store, path, order, budget, progress).await;
    match first {
        // What was begun belongs to a file that is no more; the new one deserves one fresh start.
        Err(error) if error.code() == ErrorCode::SourceChanged => {
            progress.set_moved(0);
            pull_once(client, source, store, path, order, budget, progress).await
        }
        other => other,
    }
}

async fn pull_once(
    client: &Client,
    source: &Resource,
    store: &Store,
    path: &LogicalPath,
    order: &Order,
    budget: &Budget,
    progress: &Progress,
) -> Result<Outcome> {
    progress.enter(Phase::Open);
    let asked = Instant::now();
    let (facts, refused) = ask(client, source, order).await?;
    let asked_for = asked.elapsed();
    if let Some(bytes) = facts.as_ref().and_then(|facts| facts.size_bytes) {
        progress.set_total(bytes);
        order.check_size(bytes)?;
    }
    if let Some(bytes) = order.announced_bytes.filter(|_| facts.is_none()) {
        progress.set_total(bytes);
        order.check_size(bytes)?;
    }
    let replaced = existed(store, path, order).await?;
    let upload = store
        .create(path, &upload_options(order, facts.as_ref()))
        .await
        .map_err(here)?;
    // Some sources compute their checksum when asked. That takes as long as reading the file, so
    // it is asked for while the data moves.
    let mut digests = pin!(late_digests(client, source, order, facts.as_ref()));
    let early = early_digests(digests.as_mut(), source, order).await;
    let is_told = Arc::new(AtomicBool::new(false));
    let known = [early.as_ref(), facts.as_ref().map(|facts| &facts.checksums)];
    let job = Job {
        client,
        source,
        store,
        order,
        budget,
        progress,
        upload: &upload,
        is_asked: facts.is_some(),
        asked_for,
        is_compared: order.verification != Verification::Never
            && known.into_iter().flatten().any(|told| !told.is_empty()),
        is_told: Arc::clone(&is_told),
    };
    let told = async {
        let told = match early {
            Some(told) => told,
            None => digests.await,
        };
        is_told.fetch_or(!told.is_empty(), Ordering::Relaxed);
        told
    };
    let (moved, told) = tokio::join!(keep_pace(progress, Side::Source, job.fetch(facts.as_ref())), told);
    let fetched = moved.map_err(|error| refusal_or(refused, error))?;
    progress.enter(Phase::Checksum);
    let mut theirs = facts.as_ref().map_or_else(Vec::new, |facts| facts.checksums.clone());
    theirs.extend(told);
    theirs.extend(fetched.told);
    let (ours, verified) = verify(store, &upload, order, fetched.checksums, theirs).await?;
    progress.enter(Phase::Commit);
    let facts = CommitFacts {
        size_bytes: fetched.bytes,
        checksums: ours.clone(),
        ..CommitFacts::default()
    };
    let changing = permitted(store, path, order).await?;
    let store = store.during(&changing);
    store.commit(&upload, facts).await.map_err(here)?;
    let (bytes, streams) = (fetched.bytes, fetched.streams);
    Ok(Outcome {
        bytes,
        replaced,
        checksums: ours,
        verified,
        resumed: progress.resumed(),
        streams,
    })
}

/// Asks whether the file may still take its name.
async fn permitted(store: &Store, path: &LogicalPath, order: &Order) -> Result<Changing> {
    match &order.permit {
        Some(permit) => permit.check(store, path).await.map_err(here),
        None => Ok(Changing::default()),
    }
}

/// Compares what came with what the source told, reading the part again only when the source knows
/// nothing but a checksum that was not computed on the way.
async fn verify(
    store: &Store,
    upload: &Arc<dyn Upload>,
    order: &Order,
    mut ours: Vec<Checksum>,
    theirs: Vec<Checksum>,
) -> Result<(Vec<Checksum>, Verified)> {
    let theirs = if order.verification == Verification::Never {
        Vec::new()
    } else {
        theirs
    };
    let reread = missing(&ours, &theirs);
    if !reread.is_empty() {
        ours.extend(store.reread(upload, &reread, &order.client).await.map_err(here)?);
    }
    let verified = compare(order, &ours, &theirs, Side::Source)?;
    Ok((ours, verified))
}

fn here(error: Error) -> Error {
    blame_store(error, Side::Destination)
}

/// Asks the source for the file, and for its checksum where that decides whether to begin at all. Beside it the refusal
/// of a source that may be read all the same.
async fn ask(client: &Client, source: &Resource, order: &Order) -> Result<(Option<Facts>, Option<Error>)> {
    if !order.ask_first {
        return Ok((None, None));
    }
    let algorithms = if decides_early(order) {
        wanted(order)
    } else {
        Vec::new()
    };
    let facts = match client.head(source, &algorithms).await {
        Err(error) if is_refused_look(&error, &source.location) && may_go_on_unasked(order) => {
            return Ok((None, Some(error)));
        }
        facts => facts?,
    };
    if decides_early(order) {
        check_announced(order, &facts.checksums)?;
    }
    Ok((Some(facts), None))
}

/// Why a source cannot be read: its refusal to be looked at, if there was one and it has no better reason now. XRootD fails
/// with 500 where it may not compute the checksum that it is asked for.
#[must_use]
pub fn refusal_or(refused: Option<Error>, failure: Error) -> Error {
    match refused {
        Some(refused) if failure.code() == ErrorCode::PeerFailed => refused,
        _ => failure,
    }
}

/// Whether only HEAD is refused, as it seems: some sources, and URLs that are signed for one method, know only GET.
#[must_use]
pub fn is_refused_look(error: &Error, source: &Location) -> bool {
    source.is_http() && matches!(error.code(), ErrorCode::PeerForbidden | ErrorCode::PeerUnsupported)
}

/// Whether the data may be asked for without a word about the file: unless its checksum is needed from the source.
fn may_go_on_unasked(order: &Order) -> bool {
    order.verification != Verification::Required || order.expected.is_some()
}

fn decides_early(order: &Order) -> bool {
    order.expected.is_some() || order.verification == Verification::Required
}

/// The source's checksums when they were not asked for before the data; none when it tells none.
async fn late_digests(client: &Client, source: &Resource, order: &Order, facts: Option<&Facts>) -> Vec<Checksum> {
    let known = facts.map(|facts| !facts.checksums.is_empty() || decides_early(order));
    let ask = match known {
        Some(known) => Some(source).filter(|_| !known),
        None => order.digests_from.as_ref(),
    };
    let Some(ask) = ask.filter(|_| order.verification != Verification::Never) else {
        return Vec::new();
    };
    match client.head(ask, &wanted(order)).await {
        Ok(answer) => answer.checksums,
        Err(_) => Vec::new(),
    }
}

/// The source's checksums if they come at once; `None` when they do not, and where nothing depends on that.
async fn early_digests(
    digests: Pin<&mut impl Future<Output = Vec<Checksum>>>,
    source: &Resource,
    order: &Order,
) -> Option<Vec<Checksum>> {
    let has_pages = !source.location.is_http() && !source.location.is_encrypted();
    if !has_pages || order.verification == Verification::Never {
        return None;
    }
    timeout(EARLY_CHECKSUM_WAIT, digests).await.ok()
}

/// Whether the destination exists, which decides about its rights and the answer's words.
async fn existed(store: &Store, path: &LogicalPath, order: &Order) -> Result<bool> {
    match store.stat(path).await {
        Ok(stat) if stat.is_directory() => {
            Err(Error::new(ErrorCode::IsDirectory, Side::Destination, Phase::Open).with_subject(path))
        }
        Ok(_) if order.overwrite == Overwrite::Refuse => {
            Err(Error::new(ErrorCode::Exists, Side::Destination, Phase::Open).with_subject(path))
        }
        Ok(_) => Ok(true),
        Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::ParentMissing) => Ok(false),
        Err(error) => Err(here(error)),
    }
}

fn upload_options(order: &Order, facts: Option<&Facts>) -> UploadOptions {
    UploadOptions {
        size_bytes: match facts {
            Some(facts) => facts.size_bytes,
            None => order.announced_bytes,
        },
        overwrite: order.overwrite,
        create_parents: order.create_parents,
        checksums: order.keep.clone(),
    }
}
