//! Push: a file here becomes a file elsewhere; and the streamed copy between two places elsewhere.

use std::sync::Arc;

use endpoint::Store;
use remote::{Client, GetOptions, Outlet, PutOptions, Resource};
use storage::{FileReader, Hasher, Overwrite};
use types::{ByteRange, Checksum, Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::mover::{relay, serve};
use crate::options::{Order, Outcome, Verification};
use crate::pace::keep_pace;
use crate::patience::Patience;
use crate::progress::Progress;
use crate::pull::{is_refused_look, refusal_or};
use crate::verify::{are_comparable, blame_store, check_announced, compare, computed, wanted};

/// Copies the file `path` to `destination`.
///
/// The destination is asked first, so that an existing file is not overwritten against the order.
/// The kept checksum is declared with the data where there is one; afterwards the destination's own
/// is compared: that which it told when it had stored the file, else that which it is then asked for. When the upload fails half-way and the file did not exist before, what
/// was left of it is removed.
///
/// # Errors
/// With the side and phase at which it failed.
pub async fn push(
    client: &Client,
    store: &Store,
    path: &LogicalPath,
    destination: &Resource,
    order: &Order,
    progress: &Progress,
) -> Result<Outcome> {
    progress.enter(Phase::Open);
    let reader = store.open(path).await.map_err(here)?;
    let size = reader.stat().size_bytes;
    progress.set_total(size);
    let kept = store.stored_checksums(path).await.unwrap_or_default();
    check_announced(
        &Order {
            verification: Verification::WhenAvailable,
            ..order.clone()
        },
        &kept,
    )?;
    let existed = ask_destination(client, destination, order).await?;
    let job = Job {
        client,
        store,
        reader: &reader,
        destination,
        order,
        progress,
        existed,
        declared: declared(order, &kept),
    };
    let Sent {
        computed,
        told,
        is_pending,
    } = match keep_pace(progress, Side::Destination, job.send_all()).await {
        Ok(sent) => sent,
        Err(error) => {
            clean_up(client, destination, existed, &error, progress).await;
            return Err(error);
        }
    };
    if !computed.is_empty() {
        store.keep_checksums(path, reader.stat(), &computed).await;
    }
    let ours = merge(kept, computed);
    let checked = Checked {
        size,
        ours: &ours,
        told: &told,
        is_pending,
    };
    let verified = match confirm(client, destination, order, progress, &checked).await {
        Ok(verified) => verified,
        Err(error) => {
            if is_wrong_there(&error) {
                clean_up(client, destination, existed, &error, progress).await;
            }
            return Err(error);
        }
    };
    Ok(Outcome {
        bytes: size,
        replaced: existed == Some(true),
        checksums: ours,
        verified,
        resumed: progress.resumed(),
        streams: 1,
    })
}

fn here(error: Error) -> Error {
    blame_store(error, Side::Source)
}

fn merge(mut known: Vec<Checksum>, more: Vec<Checksum>) -> Vec<Checksum> {
    for checksum in more {
        if known.iter().all(|known| known.algorithm() != checksum.algorithm()) {
            known.push(checksum);
        }
    }
    known
}

/// What is told to the destination with the data: the client's expectation, or what is kept.
fn declared(order: &Order, kept: &[Checksum]) -> Vec<Checksum> {
    match &order.expected {
        Some(expected) => vec![expected.clone()],
        None => kept.iter().take(1).cloned().collect(),
    }
}

/// Whether the destination exists; `None` when it does not tell.
async fn ask_destination(client: &Client, destination: &Resource, order: &Order) -> Result<Option<bool>> {
    if !order.ask_first {
        return Ok(None);
    }
    match client.head(destination, &[]).await {
        Ok(_) if order.overwrite == Overwrite::Refuse => {
            Err(Error::new(ErrorCode::PeerExists, Side::Destination, Phase::Open).with_subject(&destination.location))
        }
        Ok(_) => Ok(Some(true)),
        Err(error) if error.code() == ErrorCode::PeerNotFound => Ok(Some(false)),
        // A token for writing need not allow looking: the upload itself will tell.
        Err(error) if error.peer_status().is_some() => Ok(None),
        Err(error) => Err(error),
    }
}

/// What went to the destination.
struct Sent {
    /// Checksums that were made on the way.
    computed: Vec<Checksum>,
    /// Those that the destination told when it had stored the file.
    told: Vec<Checksum>,
    /// It has not said that it stored the file.
    is_pending: bool,
}

/// What the destination must have.
struct Checked<'a> {
    size: u64,
    ours: &'a [Checksum],
    told: &'a [Checksum],
    /// The destination has not said that it stored the file.
    is_pending: bool,
}

/// Whether a server refuses to say what it has. Any other refusal means that the file is not there as it should be.
#[must_use]
pub fn refuses_to_tell(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::PeerDenied | ErrorCode::PeerForbidden | ErrorCode::PeerUnsupported
    )
}

/// Whether the destination keeps to itself what it has stored, or says nothing: all else that is no success means that the
/// file is not there as it should be.
fn is_no_word(error: &Error) -> bool {
    refuses_to_tell(error) || error.peer_status().is_none()
}

/// The destination must show the same size and, where it tells one, the same checksum. One that told its checksum of all
/// that it stored is not asked again, which would cost another round trip.
async fn confirm(
    client: &Client,
    destination: &Resource,
    order: &Order,
    progress: &Progress,
    &Checked {
        size,
        ours,
        told,
        is_pending,
    }: &Checked<'_>,
) -> Result<crate::Verified> {
    progress.enter(Phase::Checksum);
    let order = Order {
        expected: None,
        ..order.clone()
    };
    if order.verification == Verification::Never && !is_pending {
        return compare(&order, ours, &[], Side::Destination);
    }
    if are_comparable(ours, told) && !is_pending {
        return compare(&order, ours, told, Side::Destination);
    }
    let facts = match client
        .head(
            destination,
            &wanted(&Order {
                keep: algorithms(ours),
                ..order.clone()
            }),
        )
        .await
    {
        Ok(facts) => facts,
        Err(error) if order.verification == Verification::WhenAvailable && !is_pending && is_no_word(&error) => {
            return compare(&order, ours, &[], Side::Destination);
        }
        Err(error) => return Err(error.in_phase(Phase::Checksum)),
    };
    if let Some(stored) = facts.size_bytes.filter(|stored| *stored != size) {
        let error = Error::new(ErrorCode::PeerSizeDiffers, Side::Destination, Phase::Checksum);
        return Err(error.with_detail(format!("{stored} bytes are stored there, {size} were sent")));
    }
    compare(&order, ours, &facts.checksums, Side::Destination)
}

fn algorithms(checksums: &[Checksum]) -> Vec<types::ChecksumAlgorithm> {
    checksums.iter().map(Checksum::algorithm).collect()
}

struct Job<'a> {
    client: &'a Client,
    store: &'a Store,
    reader: &'a Arc<dyn FileReader>,
    destination: &'a Resource,
    order: &'a Order,
    progress: &'a Progress,
    /// Whether the destination had the file before, where it told that.
    existed: Option<bool>,
    declared: Vec<Checksum>,
}

impl Job<'_> {
    /// Sends the file; again from the start while the destination has taken nothing of it.
    async fn send_all(&self) -> Result<Sent> {
        let mut patience = Patience::new(self.order.attempts);
        let mut is_absent = self.existed == Some(false);
        loop {
            // When it has waited for another attempt, somebody else may have stored the file.
            let error = match self.send(std::mem::take(&mut is_absent)).await {
                Ok(sent) => return Ok(sent),
                Err(error) => error,
            };
            if !error.retry() || error.side() != Side::Destination || self.progress.moved_bytes() > 0 {
                return Err(error);
            }
            patience.wait(error, false).await?;
        }
    }

    async fn send(&self, is_absent: bool) -> Result<Sent> {
        let size = self.reader.stat().size_bytes;
        let options = PutOptions {
            size_bytes: Some(size),
            overwrite: self.order.overwrite == Overwrite::Allow,
            is_absent,
            declared: self.declared.clone(),
        };
        let mut outlet: Outlet = self.client.put(self.destination, &options).await?;
        self.progress.enter(Phase::Transfer);
        let _connected = self.progress.connected(outlet.peer_address());
        // Where nothing is kept the file is hashed on its way out, to be compared afterwards.
        let mut hasher = (self.order.verification != Verification::Never && self.declared.is_empty())
            .then(|| Hasher::new(&computed(self.order)));
        let whole = ByteRange::whole(size);
        serve(
            self.store,
            self.reader,
            whole,
            &mut outlet,
            hasher.as_mut(),
            self.progress,
        )
        .await
        .map_err(here)?;
        self.progress.enter(Phase::Commit);
        let stored = outlet.finish().await?;
        Ok(Sent {
            told: stored.checksums,
            is_pending: stored.is_pending,
            computed: hasher.map(Hasher::finish).unwrap_or_default(),
        })
    }
}

/// A server without hidden parts keeps what came of a broken upload. It is removed only where
/// nothing was before, something was sent, and the destination does not say that the name was taken
/// meanwhile: anything else could be somebody else's file.
async fn clean_up(client: &Client, destination: &Resource, existed: Option<bool>, error: &Error, progress: &Progress) {
    if existed == Some(false) && progress.moved_bytes() > 0 && error.code() != ErrorCode::PeerExists {
        progress.enter(Phase::Cleanup);
        let _ = client.delete(destination).await;
    }
}

/// Whether what is stored at the destination is known to be something else than what was to be sent.
fn is_wrong_there(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::ChecksumMismatch | ErrorCode::PeerSizeDiffers)
}

/// Copies `source` to `destination` through this process: the way that always works.
///
/// # Errors
/// With the side and phase at which it failed.
pub async fn stream(
    client: &Client,
    source: &Resource,
    destination: &Resource,
    order: &Order,
    progress: &Progress,
) -> Result<Outcome> {
    progress.enter(Phase::Open);
    let (known, refused) = match client.head(source, &wanted(order)).await {
        Ok(facts) => (Some(facts), None),
        // It may know only GET.
        Err(error) if is_refused_look(&error, &source.location) => (None, Some(error)),
        Err(error) => return Err(error),
    };
    let options = GetOptions {
        is_asked: known.is_some(),
        size_bytes: known.as_ref().and_then(|facts| facts.size_bytes),
        wanted: known.as_ref().map_or_else(|| wanted(order), |_| Vec::new()),
        ..GetOptions::default()
    };
    let download = client.get(source, &options).await;
    let download = download.map_err(|error| refusal_or(refused, error))?;
    let facts = known.unwrap_or_else(|| download.facts().clone());
    check_announced(order, &facts.checksums)?;
    if let Some(bytes) = facts.size_bytes {
        progress.set_total(bytes);
    }
    let existed = ask_destination(client, destination, order).await?;
    let options = PutOptions {
        size_bytes: download.facts().size_bytes,
        overwrite: order.overwrite == Overwrite::Allow,
        is_absent: existed == Some(false),
        declared: facts.checksums.iter().take(1).cloned().collect(),
    };
    let mut algorithms = computed(order);
    algorithms.extend(facts.checksums.iter().map(Checksum::algorithm));
    let hasher = Hasher::new(&algorithms);
    let passing = pass_on(client, download, destination, &options, hasher, progress);
    // Which of the two is slow cannot be told; the one that is asked for data comes first.
    let (bytes, sent, behind) = match keep_pace(progress, Side::Source, passing).await {
        Ok(moved) => moved,
        Err(error) => {
            clean_up(client, destination, existed, &error, progress).await;
            return Err(error);
        }
    };
    let ours = sent.computed;
    let checked = Checked {
        size: bytes,
        ours: &ours,
        told: &sent.told,
        is_pending: sent.is_pending,
    };
    let mut theirs = facts.checksums.clone();
    theirs.extend(behind);
    let compared = match compare(order, &ours, &theirs, Side::Source) {
        Ok(_) => confirm(client, destination, order, progress, &checked).await,
        Err(error) => Err(error),
    };
    let verified = match compared {
        Ok(verified) => verified,
        Err(error) => {
            if is_wrong_there(&error) {
                clean_up(client, destination, existed, &error, progress).await;
            }
            return Err(error);
        }
    };
    Ok(Outcome {
        bytes,
        replaced: existed == Some(true),
        checksums: ours,
        verified,
        resumed: 0,
        streams: 1,
    })
}

/// Returns what was sent, and what the source told of it with its answer and behind the data.
async fn pass_on(
    client: &Client,
    mut download: remote::Download,
    destination: &Resource,
    options: &PutOptions,
    mut hasher: Hasher,
    progress: &Progress,
) -> Result<(u64, Sent, Vec<Checksum>)> {
    let mut outlet = client.put(destination, options).await?;
    progress.enter(Phase::Transfer);
    let _connections = (
        progress.connected(download.peer_address()),
        progress.connected(outlet.peer_address()),
    );
    let bytes = relay(&mut download, &mut outlet, &mut hasher, progress).await?;
    progress.enter(Phase::Commit);
    let stored = outlet.finish().await?;
    let sent = Sent {
        computed: hasher.finish(),
        told: stored.checksums,
        is_pending: stored.is_pending,
    };
    Ok((bytes, sent, download.facts().checksums.clone()))
}
