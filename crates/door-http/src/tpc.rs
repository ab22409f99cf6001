//! Third-party copy as the active side (WLCG HTTP-TPC): a pull from, or a push to, another server.
//!
//! What can be checked here is checked before the status line. Then the engine runs as a task of
//! its own, while this one writes progress markers, watches the client, and stops the engine when
//! the client leaves or the server ends. A source that refuses at once is answered with its status;
//! otherwise the answer is "accepted", with the outcome in its last line.

use std::time::Duration;

use endpoint::clock::now_s;
use endpoint::ids::{child_trace, fresh_id};
use endpoint::{Change, ExportPath, PeerCredential, TransferOutcome, TransferStart, refusal, span_of};
use http_wire::{ContentType, CopyPeer, CopyRequest, Marker, Outcome as LastLine, RequestHead};
use net::tls::ClientIdentity;
use policy::Operation;
use remote::{Access, ActivityNote, Delegation, Direction, Resource, Steps, Trace};
use storage::Overwrite;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use transfer::route::check_peer;
use transfer::{CopyJob, Order, Outcome, Progress, RunningCopy, Verification};
use types::{Error, ErrorCode, Location, Phase, Result, Secret, Side};

use crate::access::check_conditions;
use crate::delegation::{self, Shown};
use crate::exchange::FileExchange;
use crate::state::PathChange;

/// A client that treats any status other than 201 as a failure.
const WANTS_CREATED: &str = "pelican-client/";

/// Answers a COPY whose other side is another server.
pub(crate) async fn answer(exchange: &mut FileExchange<'_, '_>, head: &RequestHead, copy: CopyRequest) -> Result<()> {
    let (direction, location) = match &copy.peer {
        CopyPeer::Source(place) => (Direction::Pull, place.clone()),
        CopyPeer::Destination(place) => (Direction::Push, place.clone()),
        CopyPeer::Local(_) => return Err(Error::new(ErrorCode::Internal, Side::Active, Phase::Open)),
    };
    check_peer(&exchange.door.settings.site.client, direction, &location)?;
    let export_path = exchange.export_path(ErrorCode::IsDirectory)?;
    let granted = check(exchange, head, &copy, &export_path, direction).await?;
    let identity = match delegation::of_copy(exchange, head, &copy, &location).await? {
        Shown::Identity(identity) => identity,
        Shown::Asked => return Ok(()),
    };
    let own_token = own_token(exchange, head, &copy, &location);
    let slot = exchange.door.settings.site.transfers.take(&exchange.http.client())?;
    let start = TransferStart {
        peer_credential: peer_credential(&copy, identity.as_ref(), own_token.as_ref()),
        ..start(exchange, &copy, direction, &location)
    };
    let job = CopyJob {
        client: exchange.door.settings.site.client.clone(),
        peer: resource(&start, copy.clone(), location, direction, identity, own_token),
        export_path,
        order: Order {
            max_bytes: granted.max_bytes,
            permit: Some(exchange.permit()),
            ..order(exchange, &copy, granted.may_replace)
        },
        direction,
    };
    let mut running = RunningCopy::begin(exchange.door.settings.site.events.clone(), start, slot, job);
    let end = follow(exchange, head, &mut running).await;
    close(exchange, running, end).await
}

/// Limits of what the client may do.
struct Granted {
    /// Size of the largest file that its credential allows, in bytes.
    max_bytes: Option<u64>,
    /// Whether a file that appears under the name meanwhile may be replaced.
    may_replace: bool,
}

/// Checks that do not need the other side: rights, and what exists under the name.
async fn check(
    exchange: &mut FileExchange<'_, '_>,
    head: &RequestHead,
    copy: &CopyRequest,
    export_path: &ExportPath,
    direction: Direction,
) -> Result<Granted> {
    let path = exchange.http.path.clone();
    let found = exchange.lookup(export_path, &path).await;
    let operation = match direction {
        Direction::Pull => found.upload(),
        Direction::Push => Operation::Read,
    };
    let max_bytes = exchange.authorize(operation, &path, None)?.max_upload_bytes;
    let present = found.into_file(&path)?;
    check_conditions(head, present.as_ref(), &path)?;
    match direction {
        Direction::Pull => {
            exchange
                .check_changes(head, &[PathChange::new(export_path, &path, Change::Store)])
                .await?
        }
        Direction::Push => exchange.check_state(head).await?,
    }
    match (direction, present) {
        (Direction::Push, None) => Err(refusal(ErrorCode::NotFound, &path).at_side(Side::Source)),
        (Direction::Pull, Some(_)) if !copy.overwrite => {
            Err(refusal(ErrorCode::Exists, &path).at_side(Side::Destination))
        }
        (Direction::Pull, present) => Ok(Granted {
            max_bytes,
            may_replace: exchange.may_replace(present.is_some(), None),
        }),
        (Direction::Push, Some(_)) => Ok(Granted {
            max_bytes: None,
            may_replace: true,
        }),
    }
}

fn start(
    exchange: &mut FileExchange<'_, '_>,
    copy: &CopyRequest,
    direction: Direction,
    location: &Location,
) -> TransferStart {
    let transfer_id = fresh_id();
    exchange.http.record.transfer_id = Some(transfer_id.clone());
    TransferStart {
        transfer_id,
        request_id: exchange.http.record.request_id.clone(),
        mode: direction.name(),
        path: exchange.http.path.as_str().to_owned(),
        remote: location.to_string(),
        client: exchange.http.peer,
        ordered_by: exchange.http.record.client(None),
        own_scheme: if exchange.http.is_encrypted() { "https" } else { "http" },
        credential: exchange.http.record.credential,
        subject: exchange.http.record.subject.clone(),
        peer_credential: None,
        client_info: exchange.http.record.client_info.clone(),
        traceparent: child_trace(exchange.http.record.traceparent.as_deref()),
        parent_span: span_of(exchange.http.record.traceparent.as_deref()),
        scitag: copy.scitag,
    }
}

/// What the other side is shown. What the client sent for it goes first.
fn peer_credential(
    copy: &CopyRequest,
    identity: Option<&ClientIdentity>,
    own_token: Option<&Secret>,
) -> Option<PeerCredential> {
    match copy.forwarded.has_authorization() || own_token.is_some() {
        true => Some(PeerCredential::Token),
        false => identity.map(|_| PeerCredential::DelegatedProxy),
    }
}

/// The client's own token for the other side (pass-through), where the site allows it: only to
/// hosts on a list, only encrypted, and only when the client has sent none for it.
fn own_token(
    exchange: &FileExchange<'_, '_>,
    head: &RequestHead,
    copy: &CopyRequest,
    location: &Location,
) -> Option<Secret> {
    let hosts = &exchange.door.settings.pass_token_to;
    let is_listed = hosts.iter().any(|host| host.eq_ignore_ascii_case(location.host()));
    let is_wanted = is_listed && location.is_encrypted() && !copy.forwarded.has_authorization();
    head.bearer().filter(|_| is_wanted && exchange.http.credential.is_ok())
}

fn resource(
    start: &TransferStart,
    copy: CopyRequest,
    location: Location,
    direction: Direction,
    identity: Option<ClientIdentity>,
    own_token: Option<Secret>,
) -> Resource {
    Resource {
        location,
        access: Access {
            // Not every protocol has headers to forward, but each can show a token.
            bearer: copy.forwarded.bearer().or(own_token),
            keeps_bearer: false,
            connections_of: None,
            stays_at_origin: false,
            led_from: None,
            identity,
            delegation: Delegation::Never,
            user_name: None,
            forwarded: copy.forwarded,
            client_info: copy.client_info,
            link_limit: None,
            traceparent: Some(start.traceparent.clone()),
            scitag: copy.scitag,
            respelled: None,
            returns_delays: false,
            is_awaited: false,
            stays_at_host: None,
            hosts: None,
            redirects: None,
            own_name: None,
            account: None,
            signed_for: None,
            trace: Trace::default(),
            activity: ActivityNote::default(),
            // The copy sets them.
            packets: None,
            steps: Steps::default(),
        },
        side: direction.peer_side(),
    }
}

fn order(exchange: &FileExchange<'_, '_>, copy: &CopyRequest, may_replace: bool) -> Order {
    let site = &exchange.door.settings.site;
    // gfal sends "not required" whenever it compares by itself; our comparison still finds a bad
    // copy before it gets its name.
    let verification = match (copy.require_checksum_verification, site.copies.verification) {
        (Some(true), _) => Verification::Required,
        (Some(false), Verification::Required) => Verification::WhenAvailable,
        (_, configured) => configured,
    };
    Order {
        overwrite: if copy.overwrite && may_replace {
            Overwrite::Allow
        } else {
            Overwrite::Refuse
        },
        streams: site.copies.streams(copy.streams),
        verification,
        modified: None,
        expected: copy.expected_digests.first().cloned(),
        keep: site.keep.clone(),
        max_bytes: None,
        rates: Vec::new(),
        permit: None,
        client: exchange.http.client(),
        attempts: site.copies.attempts,
        ask_first: !copy.skip_head || is_signed(copy),
        announced_bytes: None,
        listed_bytes: None,
        digests_from: None,
        create_parents: true,
    }
}

/// Whether the other side's URL is signed. Then our client knows which requests it allows, and asks
/// for the size without HEAD.
fn is_signed(copy: &CopyRequest) -> bool {
    match &copy.peer {
        CopyPeer::Source(place) | CopyPeer::Destination(place) => place.signature().is_some(),
        CopyPeer::Local(_) => false,
    }
}

/// How a copy ended, by what its client knows.
enum End {
    /// The engine is done before anything was answered.
    Early(Error),
    /// The engine is done, and markers have been sent.
    Done(Result<Outcome>),
    /// The client has left.
    Gone,
    /// The server is stopping.
    Aborted,
}

/// Follows the engine: waits a moment for an early failure, then writes markers.
async fn follow(exchange: &mut FileExchange<'_, '_>, head: &RequestHead, running: &mut RunningCopy) -> End {
    let progress = running.progress().clone();
    let moment = exchange.door.settings.limits.early_outcome;
    let early = tokio::select! {
        biased;
        outcome = running.outcome() => Some(outcome),
        () = exchange.http.connection.stream.peer_closed() => return End::Gone,
        () = tokio::time::sleep(moment) => None,
    };
    let early = match early {
        Some(Err(error)) if progress.moved_bytes() == 0 => return End::Early(error),
        early => early,
    };
    accept(exchange, head);
    match early {
        // Acceptance and outcome go out together.
        Some(outcome) => End::Done(outcome),
        None if mark(exchange, &progress).await.is_err() => End::Gone,
        None => watch(exchange, running).await,
    }
}

fn accept(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) {
    let wants_created = head.user_agent().is_some_and(|name| name.starts_with(WANTS_CREATED));
    exchange
        .http
        .begin_pieces(if wants_created { 201 } else { 202 }, |head| {
            head.content_type(ContentType::PerfMarkers).no_store()
        });
}

async fn watch(exchange: &mut FileExchange<'_, '_>, running: &mut RunningCopy) -> End {
    let progress = running.progress().clone();
    let door = exchange.door;
    let period = door.settings.limits.marker_period.max(Duration::from_millis(1));
    let mut ticks = interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            outcome = running.outcome() => return End::Done(outcome),
            () = exchange.http.connection.stream.peer_closed() => return End::Gone,
            () = door.server.gate.aborting() => return End::Aborted,
            _ = ticks.tick() => {}
        }
        if mark(exchange, &progress).await.is_err() {
            return End::Gone;
        }
    }
}

async fn mark(exchange: &mut FileExchange<'_, '_>, progress: &Progress) -> Result<()> {
    exchange.http.piece(marker(progress).as_bytes()).await
}

fn marker(progress: &Progress) -> String {
    let marker = Marker {
        timestamp_s: u64::try_from(now_s()).unwrap_or(0),
        bytes: progress.moved_bytes(),
        connections: progress.connections(),
    };
    marker.to_text()
}

/// Reports the outcome to the client and the log.
async fn close(exchange: &mut FileExchange<'_, '_>, running: RunningCopy, end: End) -> Result<()> {
    let progress = running.progress().clone();
    let gone = || Error::new(ErrorCode::ClientGone, Side::Client, progress.phase());
    let (outcome, result) = match &end {
        End::Done(Ok(done)) => (TransferOutcome::Success, Ok(done)),
        End::Done(Err(error)) | End::Early(error) => (TransferOutcome::Failure, Err(error.clone())),
        End::Gone => (TransferOutcome::ClientGone, Err(gone())),
        End::Aborted => {
            let error = Error::new(ErrorCode::Cancelled, Side::Active, progress.phase());
            (TransferOutcome::Aborted, Err(error))
        }
    };
    running.end(outcome, result.as_ref().copied()).await;
    let error = result.err();
    exchange.http.record.error = error.as_ref().map(Into::into);
    let text = error.as_ref().map(Error::public).unwrap_or_default();
    let line = match end {
        End::Early(error) => {
            let line = LastLine::Failure(text).to_line();
            return exchange.refuse_with(&error, &line).await;
        }
        End::Gone => return Err(gone()),
        End::Done(Ok(_)) => LastLine::Success,
        End::Done(Err(_)) => LastLine::Failure(text),
        End::Aborted => LastLine::Aborted(text),
    };
    exchange.http.queue_piece(marker(&progress).as_bytes());
    exchange.http.queue_piece(line.to_line().as_bytes());
    exchange.http.end_pieces(None).await
}
