//! Exports whose files are on other servers: the client is redirected there with the same request.
//!
//! It keeps its CGI, so that third-party copies of all kinds happen between the servers that have
//! the files. Where rights depend on whether the file exists, they are asked before and after that
//! is known: a client without them learns nothing.

use std::net::IpAddr;
use std::sync::Arc;

use credentials::capability::CapabilityUse;
use endpoint::{
    Decided, Direction, Elsewhere, Exports, Granted, PathTarget, Purpose, Recipient, Spoken, Target, Wanted, refusal,
    xrootd_door_of,
};
use policy::Operation;
use types::{Error, ErrorCode, Location, LogicalPath, Phase, Secret, Side};
use xroot_wire::request::{Access, Creation, Locate, Open};
use xroot_wire::response::{LocateWriter, Location as Place, Redirect};
use xroot_wire::{Cgi, CgiBuilder, LocateOptions, OpenOptions};

use crate::connection::Next;
use crate::exchange::{Exchange, Named};
use crate::failure::{Failure, Result};
use crate::redirects::port_of;

/// Whether the server sends clients elsewhere, and is a manager for them.
pub(crate) fn is_redirector(exports: &Exports) -> bool {
    exports.list().iter().any(|export| export.store.elsewhere().is_some())
}

/// The servers that have the files of this path, if this one does not.
pub(crate) fn of(exchange: &Exchange<'_>, path: &LogicalPath) -> Option<Elsewhere> {
    match exchange.place(path) {
        PathTarget::Stored(export_path) => export_path.store.elsewhere().cloned(),
        PathTarget::Above(_) | PathTarget::Nowhere => None,
    }
}

/// Sends a client that opens a file to the server that has it, or takes it.
pub(crate) async fn open(
    exchange: &mut Exchange<'_>,
    elsewhere: &Elsewhere,
    named: &Named<'_>,
    request: &Open<'_>,
) -> Result<Next> {
    let (path, size_bytes) = (&named.path, named.cgi.expected_bytes());
    let (creation, refresh) = (request.creation(), request.options.contains(OpenOptions::REFRESH));
    let is_new = creation == Creation::MustNotExist;
    exchange.is_impatient |= request.options.contains(OpenOptions::NO_WAIT);
    let usage = usage_of(request);
    let (purpose, operation) = match usage {
        CapabilityUse::Read => (Purpose::Read, Operation::Read),
        CapabilityUse::Look | CapabilityUse::Update | CapabilityUse::ChangeMode => {
            (Purpose::Update, Operation::Overwrite)
        }
        CapabilityUse::Write if exchange.may_replace(path, size_bytes) => {
            (Purpose::Store { size_bytes, is_new }, Operation::Overwrite)
        }
        CapabilityUse::Write => (Purpose::Store { size_bytes, is_new }, Operation::Create),
    };
    let is_store = usage == CapabilityUse::Write;
    let mut granted = exchange.authorize(operation, path, size_bytes.filter(|_| is_store))?;
    let Direction::Server(target) = direct(exchange, elsewhere, named, purpose, refresh).await? else {
        return Err(refusal(ErrorCode::IsDirectory, path).into());
    };
    if is_store {
        // A name that must be new is refused by the server that has it.
        let replaces = target.exists && creation == Creation::CreateOrTruncate;
        let operation = if replaces {
            Operation::Overwrite
        } else {
            Operation::Create
        };
        granted = exchange.authorize(operation, path, size_bytes)?;
    }
    let may_replace = is_store && creation == Creation::CreateOrTruncate && {
        target.exists || exchange.may_replace(path, size_bytes)
    };
    let decided = Decided {
        usage,
        size_bytes: size_bytes
            .filter(|_| is_store)
            .or(granted.max_upload_bytes)
            .unwrap_or(u64::MAX),
        may_replace,
        may_read: usage != CapabilityUse::Read && exchange.may_read(path),
        granted: &granted,
    };
    redirect(exchange, path, &target, &decided)?;
    Ok(Next::Request)
}

/// What an open needs of a capability.
pub(crate) fn usage_of(request: &Open<'_>) -> CapabilityUse {
    match (request.creation(), request.access()) {
        (Creation::MustExist, Access::Read) => CapabilityUse::Read,
        (Creation::MustExist, _) => CapabilityUse::Update,
        _ => CapabilityUse::Write,
    }
}

/// Sends a client with another request about a file to a server that has it, after its rights were
/// checked. Returns false if the files of the path are here, and for a directory: both are answered
/// here.
pub(crate) async fn answers(
    exchange: &mut Exchange<'_>,
    named: &Named<'_>,
    usage: CapabilityUse,
    granted: &Granted,
) -> Result<bool> {
    let Some(elsewhere) = of(exchange, &named.path) else {
        return Ok(false);
    };
    let purpose = match usage {
        CapabilityUse::Read | CapabilityUse::Look => Purpose::Read,
        _ => Purpose::Update,
    };
    match direct(exchange, &elsewhere, named, purpose, false).await? {
        Direction::Server(target) => redirect(exchange, &named.path, &target, &whole(usage, granted)).map(|()| true),
        Direction::Directory => Ok(false),
    }
}

/// How a question about a file is answered.
pub(crate) enum Asked {
    /// By the server to which its client was sent.
    Redirected,
    /// It is about a directory.
    Directory,
    /// By that server, which is asked from here.
    ByUs(Box<OwnQuestion>),
}

/// A question that is put from here in the name of a client.
pub(crate) struct OwnQuestion {
    pub(crate) target: Target,
    /// The URL of the question there.
    pub(crate) location: Location,
}

/// Sends a client with a question that needs the right to look at a file to a server that has it,
/// or says how to put the question in its name.
pub(crate) async fn own_question(
    exchange: &mut Exchange<'_>,
    elsewhere: &Elsewhere,
    named: &Named<'_>,
) -> Result<Asked> {
    let Direction::Server(target) = direct(exchange, elsewhere, named, Purpose::Read, false).await? else {
        return Ok(Asked::Directory);
    };
    let granted = Granted::default();
    let decided = whole(CapabilityUse::Look, &granted);
    let Some(cgi) = capability_for(exchange, &named.path, &target, &decided, None) else {
        return redirect(exchange, &named.path, &target, &decided).map(|()| Asked::Redirected);
    };
    exchange.record.sent_to = Some(target.node.to_string());
    let id = exchange.name_request();
    let cgi = CgiBuilder::pairs_only().capability(&cgi).redirect_id(id).build();
    let location = Location::parse(&format!("{}?{cgi}", target.location.to_wire()))?;
    Ok(Asked::ByUs(Box::new(OwnQuestion { target, location })))
}

/// A decision about a file of any size.
fn whole(usage: CapabilityUse, granted: &Granted) -> Decided<'_> {
    Decided {
        usage,
        size_bytes: granted.max_upload_bytes.unwrap_or(u64::MAX),
        may_replace: false,
        may_read: false,
        granted,
    }
}

/// Sends a client with a request about several files to the server that has them all. Returns false
/// if the files are here, or on servers of ours, which have nothing to prepare.
///
/// # Errors
/// `not_implemented` if no server has all.
pub(crate) async fn answer_all(exchange: &mut Exchange<'_>, all: &[Named<'_>]) -> Result<bool> {
    let mut chosen: Option<Target> = None;
    let mut is_answered_here = false;
    for named in all {
        let Some(elsewhere) = of(exchange, &named.path) else {
            is_answered_here = true;
            continue;
        };
        let Direction::Server(target) = direct(exchange, &elsewhere, named, Purpose::Read, false).await? else {
            return Err(refusal(ErrorCode::IsDirectory, &named.path).into());
        };
        if target.is_ours {
            is_answered_here = true;
            continue;
        }
        if chosen.as_ref().is_some_and(|chosen| chosen.node != target.node) {
            return Err(spread(&named.path));
        }
        chosen.get_or_insert(target);
    }
    let granted = Granted::default();
    match (chosen, all) {
        (Some(_), [named, ..]) if is_answered_here => Err(spread(&named.path)),
        (Some(target), [named, ..]) => {
            redirect(exchange, &named.path, &target, &whole(CapabilityUse::Look, &granted)).map(|()| true)
        }
        _ => Ok(false),
    }
}

fn spread(path: &LogicalPath) -> Failure {
    let error = refusal(ErrorCode::NotImplemented, path);
    error
        .with_detail("the files are on several servers: ask for one at a time")
        .into()
}

async fn direct(
    exchange: &mut Exchange<'_>,
    elsewhere: &Elsewhere,
    named: &Named<'_>,
    purpose: Purpose,
    refresh: bool,
) -> Result<Direction> {
    let tried = tried(exchange, &named.path, &named.cgi)?;
    let wanted = Wanted {
        path: &named.path,
        purpose,
        spoken: Spoken::Xrootd,
        address: exchange.connection.peer.ip(),
        tried: &tried,
        refresh,
    };
    Ok(elsewhere.direct(&wanted).await?)
}

/// The servers that the client has tried in vain. It names hosts alone, so the port is looked up
/// among those to which it was sent.
fn tried(exchange: &mut Exchange<'_>, path: &LogicalPath, cgi: &Cgi<'_>) -> Result<Vec<String>> {
    let hosts: Vec<&str> = cgi.tried().collect();
    exchange.has_tried |= !hosts.is_empty();
    let redirects = &mut exchange.session()?.redirects;
    if hosts.is_empty() {
        redirects.forget(path);
    }
    Ok(redirects.tried(path, &hosts))
}

fn redirect(exchange: &mut Exchange<'_>, path: &LogicalPath, target: &Target, decided: &Decided<'_>) -> Result<()> {
    let location = &target.location;
    let is_renamed = location.path() != path.as_str();
    let cgi = cgi_for(exchange, path, target, decided);
    let session = exchange.session()?;
    // A client in clear text goes on in clear text, unless a URL says something else; one that
    // began with TLS keeps it.
    let place = match (location.is_encrypted() || is_renamed, session.understands_urls) {
        (true, true) => Redirect::to_url(&location.to_wire()),
        (_, _) if is_renamed => {
            let error = Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Open).with_subject(path);
            return Err(error
                .with_detail("the file has another name at its server, and the client follows no URLs")
                .into());
        }
        _ => Redirect::to_host(location.host(), location.port()),
    };
    session.redirects.note(path, port_of(location));
    exchange.record.sent_to = Some(target.node.to_string());
    exchange.redirect_to(&place.with_cgi(cgi));
    Ok(())
}

/// What a server of ours needs to accept the client without judging it again, and the name of the
/// request for its log. XRootD's clients repeat it with opens, truncates and changes of the mode,
/// ours with all requests.
fn cgi_for(exchange: &mut Exchange<'_>, path: &LogicalPath, target: &Target, decided: &Decided<'_>) -> String {
    let mut cgi = CgiBuilder::pairs_only();
    let address = exchange.connection.peer.ip();
    if let Some(text) = capability_for(exchange, path, target, decided, Some(address)) {
        cgi = cgi.capability(&text);
    }
    // Servers of others get nothing that they do not know.
    if target.is_ours {
        cgi = cgi.redirect_id(exchange.name_request());
    }
    cgi.build()
}

/// A capability for a server, if this one judges for it. It is bound to an address if the site
/// wants that.
fn capability_for(
    exchange: &Exchange<'_>,
    path: &LogicalPath,
    target: &Target,
    decided: &Decided<'_>,
    address: Option<IpAddr>,
) -> Option<Secret> {
    let hand_over = exchange.connection.door.settings.hand_over.as_deref()?;
    let settings = hand_over.settings();
    let there = LogicalPath::parse(target.location.path()).unwrap_or_else(|_| path.clone());
    let recipient = Recipient {
        record: &exchange.record,
        path: &there,
        audience: xrootd_door_of(&target.endpoint),
        address: address.filter(|_| settings.bind_address),
    };
    // Servers of others ignore capabilities, and judge by the client's own credential.
    (settings.to_nodes && target.is_ours)
        .then(|| hand_over.issue(decided, &recipient))
        .flatten()
}

/// Answers a `locate` with all servers that have the file. Returns false if the files of the path
/// are here, and if the client is going to list a directory: the listing here is that of all
/// servers.
pub(crate) async fn locate(exchange: &mut Exchange<'_>, named: &Named<'_>, request: &Locate<'_>) -> Result<bool> {
    let any = request.asks_for_any_server();
    let (place, elsewhere) = match of(exchange, &named.path) {
        Some(elsewhere) => (named.path.clone(), elsewhere),
        None if any => match below(&exchange.exports.clone(), &named.path) {
            Some(found) => found,
            None => return Ok(false),
        },
        None => return Ok(false),
    };
    exchange.is_impatient |= request.options.contains(LocateOptions::NO_WAIT);
    exchange.authorize(Operation::Stat, &place, None)?;
    if request.options.contains(LocateOptions::FOR_LISTING) {
        return Ok(false);
    }
    let tried = tried(exchange, &place, &named.cgi)?;
    let wanted = Wanted {
        path: &place,
        purpose: Purpose::Read,
        spoken: Spoken::Xrootd,
        address: exchange.connection.peer.ip(),
        tried: &tried,
        refresh: request.options.contains(LocateOptions::REFRESH),
    };
    let targets = elsewhere.locate(&wanted).await?;
    let is_writable = exchange.may_replace(&place, None);
    let mut writer = LocateWriter::new();
    for target in &targets {
        writer.add(&Place {
            is_manager: false,
            is_pending: false,
            is_writable,
            address: port_of(&target.location),
        });
    }
    exchange.ok_text(&writer.build());
    Ok(true)
}

/// The first export below a path whose files are on other servers.
fn below(exports: &Arc<Exports>, path: &LogicalPath) -> Option<(LogicalPath, Elsewhere)> {
    let mut list = exports.list().iter();
    list.find_map(|export| {
        let elsewhere = export.store.elsewhere()?;
        let place = &export.rules.path;
        place.is_within(path).then(|| (place.clone(), elsewhere.clone()))
    })
}

/// Tells redirectors of a file that is not here although one of them sent the client for it: it was
/// removed without a door. XRootD's clients go back to the redirector by themselves.
pub(crate) fn note_missing(exchange: &Exchange<'_>, result: &Result<Next>) {
    let is_missing = |failure: &Failure| failure.error.code() == ErrorCode::NotFound;
    if exchange.record.redirect_id.is_none() || !result.as_ref().is_err_and(is_missing) {
        return;
    }
    let path = LogicalPath::parse(&exchange.record.path).ok();
    if let Some(path) = path.filter(|path| of(exchange, path).is_none()) {
        exchange.exports.name_changes().report_missing(&path);
    }
}

/// Lets the client ask again where servers are silent that may be back in a moment, as when they
/// are restarted. A client that does not want to wait gets the error at once, and so do all if none
/// of the servers has gone just now.
pub(crate) fn patient(exchange: &mut Exchange<'_>, result: Result<Next>) -> Result<Next> {
    let failure = match result {
        Err(failure) => failure,
        Ok(next) => {
            exchange.is_answered();
            return Ok(next);
        }
    };
    let is_waiting = match failure.error.code() {
        ErrorCode::NodesSilent => true,
        // Servers that were tried in vain are not tried again.
        ErrorCode::NoNode => !exchange.has_tried,
        _ => false,
    };
    let may_succeed = is_waiting && !exchange.is_impatient && may_return(exchange);
    match may_succeed && exchange.wait(&failure) {
        true => Ok(Next::Request),
        false => Err(failure),
    }
}

/// Whether a server that may have what the request is about may be back in a moment.
fn may_return(exchange: &Exchange<'_>) -> bool {
    let Ok(path) = LogicalPath::parse(&exchange.record.path) else {
        return false;
    };
    of(exchange, &path).is_some_and(|elsewhere| elsewhere.may_return(&path))
}
