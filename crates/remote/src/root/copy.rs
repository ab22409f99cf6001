//! Third-party copies: orders a server to fetch a file from another one, and follows the copy to
//! its end. Between servers of this protocol it arranges the rendezvous of the reference client
//! (`xrdcp --tpc`). A source of another protocol needs none, nor does one to which the destination
//! shows a delegated proxy.

use std::time::{Duration, Instant};

use http_wire::CopyProgress;
use types::limits::TPC_STREAMS_MAX;
use types::{
    Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, Phase, Result, Scheme, Secret, Side, decode_percent,
};
use xroot_wire::request::SyncFile;
use xroot_wire::response::{OpenReply, StatText};
use xroot_wire::{CgiBuilder, FileHandle, OpenOptions, Request, StreamId, pack_source_cgi};

use super::ask::{Ask, Client, Encode};
use super::download::open_request;
use super::held::Held;
use super::lite::{DELEGATION_KEY, takes_proxies};
use super::namespace::identity_of;
use super::outlet::FILE_MODE;
use super::route::{Pair, Route, pair};
use super::session::{Event, Reply, ServerSession};
use super::verdict::refused;
use crate::copying::{DelegationOutcome, OrderedCopy, without_proxy};
use crate::effect::lost;
use crate::options::{CopyAbilities, CopyOrder, Direction};
use crate::outlet::CreatedFile;
use crate::protocol::Pending;
use crate::resource::Resource;

/// The time between two questions for the progress of a copy.
const LOOK_PERIOD: Duration = Duration::from_millis(500);
/// Our servers list under this key the schemes of the URLs they fetch from; others echo the key.
const SCHEMES_KEY: &str = "crossload.tpc";
/// Our servers say under this key by which protocol they would ask a client for a proxy; one that
/// asks for none echoes the key.
const DELEGATION_OFFER_KEY: &str = "crossload.delegation";
/// The kind of a server.
const ROLE_KEY: &str = "role";
/// The words of servers without third-party copies; their error numbers differ.
const UNSUPPORTED_WORDS: &str = "tpc not supported";

impl Client {
    /// Orders `active` to fetch a file from another server.
    ///
    /// # Errors
    /// `peer_unsupported` where it makes no such copies, none from such a source, or would have to
    /// send; else the refusal of one of the two servers.
    pub(crate) async fn copy(&self, active: &Resource, order: &CopyOrder) -> Result<Copying> {
        if order.direction == Direction::Push {
            let error = active.error(ErrorCode::PeerUnsupported, Phase::Open);
            return Err(error.with_detail("servers of its protocol fetch, they do not send"));
        }
        let source = Resource {
            location: order.peer.clone(),
            access: order.peer_access.clone(),
            side: order.direction.peer_side(),
        };
        if source.location.is_xrootd() {
            self.fetch_from_xrootd(active, &source, order).await
        } else {
            self.fetch_from_other(active, &source, order).await
        }
    }

    /// With a delegated proxy, else with a rendezvous key.
    async fn fetch_from_xrootd(&self, active: &Resource, source: &Resource, order: &CopyOrder) -> Result<Copying> {
        check_nameable(active, source.location.path())?;
        let placed = self
            .open_for_copy(source, None, &[pair("tpc.stage", "placement")])
            .await?;
        let (place, size) = (placed.held.route.at.clone(), placed.size_bytes);
        let route = placed.held.route.clone();
        self.leave(placed.held).await;

        check_nameable(active, place.location.path())?;
        let key = random_key(active)?;
        let location = &place.location;
        let from = format!("{}:{}", location.host(), location.port());
        let protocol = match location.scheme() {
            Scheme::Roots => "xroots",
            _ => "root",
        };
        let cgi = self.source_cgi(&place, active);
        let size = size.map(|size| size.to_string());
        let ordered = Ordered {
            key: &key,
            from: &from,
            path: location.path(),
            protocol,
            cgi: cgi.as_ref().map(Secret::expose),
            size: size.as_deref(),
        };
        let (destination, delegation) = self.order(active, &ordered, order).await?;
        if delegation == Some(DelegationOutcome::Delegated) {
            return self.begin_copy(destination, None, order, delegation).await;
        }
        let host = destination.route.at.location.host().to_owned();
        let own = [pair("tpc.dst", &host), pair("tpc.key", &key), pair("tpc.stage", "copy")];
        match self.open_for_copy(source, Some(route), &own).await {
            Ok(registered) => {
                let source = Some(registered.held);
                self.begin_copy(destination, source, order, delegation).await
            }
            Err(error) => {
                self.give_back(destination, None).await;
                Err(without_proxy(error, delegation.as_ref()))
            }
        }
    }

    /// What `active` says of fetching from the server of `other`, and of doing so with a delegated
    /// proxy. Between two servers of this protocol it says the first when it gets the order.
    ///
    /// # Errors
    /// The server's refusal.
    pub(crate) async fn copy_abilities(
        &self,
        active: &Resource,
        other: &Location,
        delegates: bool,
    ) -> Result<CopyAbilities> {
        let keys: &[&str] = match (other.is_xrootd(), delegates) {
            (true, false) => return Ok(CopyAbilities::default()),
            (false, false) => &[SCHEMES_KEY],
            (_, true) => &[SCHEMES_KEY, DELEGATION_KEY, ROLE_KEY, DELEGATION_OFFER_KEY],
        };
        let mut told = self.configuration(active, keys).await?.into_iter();
        let (schemes, protocols, role, offer) = (told.next(), told.next(), told.next(), told.next());
        let schemes = schemes.flatten();
        // Only our servers know the last key. One that has no proxy of ours yet says no to the
        // second, and asks for one once a login offers it.
        let would_ask = offer.flatten().is_some();
        let schemes = schemes.unwrap_or_default();
        let is_listed = schemes.split(',').any(|scheme| scheme == other.wire_scheme());
        let takes = protocols.and_then(|protocols| takes_proxies(protocols.as_deref(), role.flatten().as_deref()));
        Ok(CopyAbilities {
            pulls: (!other.is_xrootd()).then_some(is_listed),
            with_proxy: takes.filter(|takes| *takes || !would_ask),
        })
    }

    /// Without a rendezvous key: the source decides who may read it. Others than our servers would
    /// fetch from it over this protocol, so the destination has to say that it can.
    async fn fetch_from_other(&self, active: &Resource, source: &Resource, order: &CopyOrder) -> Result<Copying> {
        let scheme = source.location.wire_scheme();
        let is_offered = order.is_offered || {
            let told = self.copy_abilities(active, &source.location, false).await?;
            told.pulls == Some(true)
        };
        let path = decode_percent(source.location.path()).filter(|path| !path.contains(['?', '&']));
        let (true, Some(path)) = (is_offered, path) else {
            let error = active.error(ErrorCode::PeerUnsupported, Phase::Open);
            return Err(error.with_detail(format!("it does not fetch from {scheme}")));
        };
        let key = random_key(active)?;
        let cgi = self.source_cgi(source, active);
        let ordered = Ordered {
            key: &key,
            from: &format!("{}:{}", source.location.host(), source.location.port()),
            path: &path,
            protocol: scheme,
            cgi: cgi.as_ref().map(Secret::expose),
            size: None,
        };
        let (destination, delegation) = self.order(active, &ordered, order).await?;
        self.begin_copy(destination, None, order, delegation).await
    }

    /// What the destination shall show to the source: the query of the source's URL, and the token
    /// where both servers are reached over TLS.
    fn source_cgi(&self, source: &Resource, active: &Resource) -> Option<Secret> {
        let query = source.location.query().unwrap_or_default();
        let secure = source.location.is_encrypted() && active.location.scheme() == Scheme::Roots;
        let token = source
            .access
            .bearer_to_show()
            .cloned()
            .or_else(|| source.access.forwarded.bearer());
        let cgi = CgiBuilder::pairs_only().raw(query);
        let cgi = match token.filter(|_| secure) {
            Some(token) => cgi.token(&token),
            None => cgi,
        };
        let cgi = Secret::new(cgi.build());
        (!cgi.expose().is_empty()).then(|| Secret::new(pack_source_cgi(cgi.expose())))
    }

    /// Opens the source, to get its size or to register a key.
    async fn open_for_copy(&self, source: &Resource, route: Option<Route>, own: &[Pair<'_>]) -> Result<Placed> {
        let options = OpenOptions::READ | OpenOptions::RETURN_STAT | OpenOptions::ASYNCHRONOUS;
        let encode: Encode<'_> = &|target, id, out| open_request(0, options, target.path).encode(id, out);
        let ask = Ask {
            own,
            ..match &route {
                Some(_) => Ask::once(encode),
                None => Ask::looking(encode),
            }
        };
        let route = route.unwrap_or_else(|| Route::new(source));
        let answered = self.ask_on(route, &ask).await.map_err(unsupported)?;
        let opened = OpenReply::parse(&answered.body).map_err(|error| answered.route.at.blame(error))?;
        Ok(Placed {
            size_bytes: opened.stat.map(|stat| stat.size_bytes),
            held: Held {
                session: answered.session,
                route: answered.route,
                handle: opened.handle,
            },
        })
    }

    /// Opens the destination and lets it check what it can before the source is ready. Returns
    /// whether it fetches with a delegated proxy.
    async fn order(
        &self,
        active: &Resource,
        ordered: &Ordered<'_>,
        order: &CopyOrder,
    ) -> Result<(Held, Option<DelegationOutcome>)> {
        let mut destination = self.open_destination(active, ordered, order).await?;
        let delegation = match self.settle_delegation(&mut destination).await {
            Ok(delegation) => delegation,
            Err(error) => {
                self.give_back(destination, None).await;
                return Err(error);
            }
        };
        if let Err(error) = self.sync(&mut destination).await {
            if error.peer_status().is_some() {
                self.give_back(destination, None).await;
            }
            return Err(without_proxy(error, delegation.as_ref()));
        }
        Ok((destination, delegation))
    }

    async fn open_destination(&self, active: &Resource, ordered: &Ordered<'_>, order: &CopyOrder) -> Result<Held> {
        // The number of further streams, even when it is 0: without it the destination chooses.
        let streams = order
            .streams
            .map(|streams| streams.saturating_sub(1).min(TPC_STREAMS_MAX).to_string());
        let checksum = order.expected.as_ref().and_then(checksum_text);
        let target_protocol = match active.location.scheme() {
            Scheme::Roots => "xroots",
            _ => "root",
        };
        let optional = [
            ("oss.asize", ordered.size),
            ("tpc.cks", checksum.as_deref()),
            ("tpc.scgi", ordered.cgi),
            ("tpc.str", streams.as_deref()),
        ];
        let mut own = vec![
            pair("tpc.dlg", ordered.from),
            pair("tpc.dlgon", if active.access.delegates() { "1" } else { "0" }),
            pair("tpc.key", ordered.key),
            pair("tpc.lfn", ordered.path),
            pair("tpc.spr", ordered.protocol),
            pair("tpc.src", ordered.from),
            pair("tpc.stage", "copy"),
            pair("tpc.tpr", target_protocol),
        ];
        own.extend(optional.iter().filter_map(|(key, value)| Some(pair(key, (*value)?))));
        let mut options =
            OpenOptions::UPDATE | OpenOptions::ASYNCHRONOUS | OpenOptions::MAKE_PATH | OpenOptions::RETURN_STAT;
        options |= match order.overwrite {
            true => OpenOptions::TRUNCATE,
            false => OpenOptions::NEW,
        };
        let encode: Encode<'_> = &|target, id, out| open_request(FILE_MODE, options, target.path).encode(id, out);
        let ask = Ask {
            own: &own,
            ..Ask::once(encode)
        };
        let answered = self.ask(active, &ask).await.map_err(unsupported)?;
        let opened = OpenReply::parse(&answered.body).map_err(|error| answered.route.at.blame(error))?;
        let server = &answered.route.at.location;
        if let Some(identity) = opened.stat.and_then(|stat| identity_of(&stat, server)) {
            let _ = order.created.set(CreatedFile {
                identity,
                is_new: !order.overwrite,
                at: Instant::now(),
            });
        }
        Ok(Held {
            session: answered.session,
            route: answered.route,
            handle: opened.handle,
        })
    }

    /// The first sync: the destination checks what it can before the source is ready.
    async fn sync(&self, held: &mut Held) -> Result<()> {
        let blame = |error| held.route.at.blame(error);
        let id = held.session.send(&sync_request(held.handle)).await.map_err(blame)?;
        match held.session.answer(id).await.map_err(blame)? {
            Reply::Done(_) => Ok(()),
            Reply::Refused(refusal) => Err(unsupported(refused(
                &held.route.at,
                &refusal,
                held.session.is_encrypted(),
            ))),
            _ => Err(blame(held.session.misbehaved("this is no answer to a sync"))),
        }
    }

    /// The second sync: its answer is the end of the copy.
    async fn begin_copy(
        &self,
        mut destination: Held,
        source: Option<Held>,
        order: &CopyOrder,
        delegation: Option<DelegationOutcome>,
    ) -> Result<Copying> {
        let sent = destination.session.send(&sync_request(destination.handle)).await;
        let sync = sent.map_err(|error| lost(&destination.route.at, Phase::Transfer, &error))?;
        Ok(Copying {
            client: self.clone(),
            file: destination.route.at.clone(),
            running: Some((destination, source)),
            sync,
            look: None,
            silence: order.silence,
            silent_for: Duration::ZERO,
            progress: CopyProgress::default(),
            delegation,
        })
    }
}

/// Refuses `&` in a name: the name is the value of a key there, and `&` would end it.
fn check_nameable(active: &Resource, path: &str) -> Result<()> {
    if path.contains('&') {
        let error = active.error(ErrorCode::PeerUnsupported, Phase::Open);
        return Err(error.with_detail("an order of the XRootD protocol cannot name a source with & in its name"));
    }
    Ok(())
}

fn sync_request(handle: FileHandle) -> Request<'static> {
    Request::Sync(SyncFile { handle })
}

struct Placed {
    held: Held,
    size_bytes: Option<u64>,
}

/// What the destination learns of the source.
struct Ordered<'a> {
    key: &'a str,
    from: &'a str,
    path: &'a str,
    protocol: &'a str,
    cgi: Option<&'a str>,
    size: Option<&'a str>,
}

/// A random key, as long as those of the reference client.
fn random_key(active: &Resource) -> Result<String> {
    let mut bytes = [0; 12];
    let filled = aws_lc_rs::rand::fill(&mut bytes);
    filled.map_err(|_| active.error(ErrorCode::Internal, Phase::Open))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A checksum as servers take it for a copy; `None` for algorithms that most do not know.
fn checksum_text(checksum: &Checksum) -> Option<String> {
    let known = [
        ChecksumAlgorithm::Adler32,
        ChecksumAlgorithm::Crc32c,
        ChecksumAlgorithm::Md5,
    ];
    let algorithm = checksum.algorithm();
    known
        .contains(&algorithm)
        .then(|| format!("{}:{}", algorithm.name(), checksum.to_hex()))
}

/// Gives the refusal of a server without third-party copies its own code, by its words.
fn unsupported(error: Error) -> Error {
    let says_so = error
        .peer_words()
        .is_some_and(|words| words.contains(UNSUPPORTED_WORDS));
    match says_so {
        true => Error::new(ErrorCode::PeerUnsupported, error.side(), Phase::Open)
            .with_peer(error.peer_status(), error.peer_words().unwrap_or_default()),
        false => error,
    }
}

/// Gives what a server says of its TLS connection to the source (XrdCl: `[FATAL] TLS error`) its
/// own code.
fn about_source(error: Error) -> Error {
    let words = error.peer_words().unwrap_or_default();
    match words.contains("TLS error") {
        true => Error::new(ErrorCode::PeerTlsFailed, Side::Source, error.phase())
            .with_peer(error.peer_status(), words)
            .with_reporter(Some(error.side())),
        false => error,
    }
}

/// A copy that a server makes. Dropping it closes the connections, and both servers end the copy.
pub(crate) struct Copying {
    client: Client,
    file: Resource,
    /// The destination, and a source that holds a rendezvous key. `None` at the end.
    running: Option<(Held, Option<Held>)>,
    sync: StreamId,
    /// The question for the progress that is under way.
    look: Option<StreamId>,
    silence: Duration,
    silent_for: Duration,
    progress: CopyProgress,
    delegation: Option<DelegationOutcome>,
}

impl OrderedCopy for Copying {
    fn next(&mut self) -> Pending<'_, Option<CopyProgress>> {
        Box::pin(async move {
            let Some((mut destination, source)) = self.running.take() else {
                return Ok(None);
            };
            // The sessions are lost when this future is dropped.
            match self.advance(&mut destination).await {
                Ok(Some(())) => {
                    self.running = Some((destination, source));
                    Ok(Some(self.progress.clone()))
                }
                Ok(None) => {
                    let closed = self.conclude(destination, source).await;
                    closed.map_err(|error| self.ended_by(error))?;
                    Ok(None)
                }
                Err(error) => {
                    // After any other failure the session cannot be used.
                    if error.peer_status().is_some() {
                        self.client.give_back(destination, self.look.take()).await;
                        if let Some(source) = source {
                            self.client.leave(source).await;
                        }
                    }
                    Err(self.ended_by(error))
                }
            }
        })
    }

    fn progress(&self) -> &CopyProgress {
        &self.progress
    }

    fn delegation(&self) -> Option<&DelegationOutcome> {
        self.delegation.as_ref()
    }
}

impl Copying {
    /// A refusal is the last word of the destination about the copy; any other failure leaves the
    /// outcome open.
    fn ended_by(&self, error: Error) -> Error {
        match error.peer_status() {
            Some(_) => without_proxy(self.file.blame(error), self.delegation.as_ref()),
            None => lost(&self.file, Phase::Transfer, &error),
        }
    }

    async fn advance(&mut self, destination: &mut Held) -> Result<Option<()>> {
        let session = &mut destination.session;
        loop {
            let event = match session.event_available().await? {
                // A part of an answer's head has come; the rest is on its way.
                None if session.frames.buffered_bytes() > 0 => Some(session.event().await?),
                event => event,
            };
            match event {
                Some(event) if event.id() == self.sync => return self.end(session, event).await,
                Some(event) => {
                    self.take_look(session, event).await?;
                    return Ok(Some(()));
                }
                None => {}
            }
            match session.frames.wait_for_input(LOOK_PERIOD).await {
                Ok(()) => {}
                Err(error) if error.code() == ErrorCode::PeerStalled => self.ask(session, destination.handle).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks for the progress, unless a question is already under way.
    async fn ask(&mut self, session: &mut ServerSession, handle: FileHandle) -> Result<()> {
        self.silent_for += LOOK_PERIOD;
        if self.silent_for >= self.silence {
            let error = self.file.error(ErrorCode::PeerStalled, Phase::Transfer);
            return Err(error.with_detail(format!("no word about the copy for {} s", self.silence.as_secs())));
        }
        if self.look.is_none() {
            let stat = Request::Stat(xroot_wire::request::Stat::handle(handle));
            self.look = Some(session.send(&stat).await?);
        }
        Ok(())
    }

    async fn take_look(&mut self, session: &mut ServerSession, event: Event) -> Result<()> {
        let body = match event {
            Event::Body { id, length, last } => session.gather(id, length, last).await?,
            Event::Reply(_, Reply::Done(body)) => body,
            // The progress is optional.
            Event::Reply(..) => Vec::new(),
            Event::Pages(_) => return Err(session.misbehaved("this is no answer to a stat")),
        };
        self.look = None;
        self.silent_for = Duration::ZERO;
        self.progress.markers += 1;
        if let Ok(stat) = StatText::parse(&body) {
            self.progress.bytes = self.progress.bytes.max(stat.size_bytes);
        }
        Ok(())
    }

    async fn end(&self, session: &mut ServerSession, event: Event) -> Result<Option<()>> {
        match event {
            Event::Body { id, length, last } => {
                session.gather(id, length, last).await?;
                Ok(None)
            }
            Event::Reply(_, Reply::Done(_)) => Ok(None),
            Event::Reply(_, Reply::Refused(refusal)) => {
                let error = refused(&self.file, &refusal, session.is_encrypted());
                Err(about_source(error.in_phase(Phase::Transfer)))
            }
            _ => Err(session.misbehaved("this is no answer to a sync")),
        }
    }

    /// Closes both files after the copy, the stored one first.
    async fn conclude(&mut self, mut destination: Held, source: Option<Held>) -> Result<()> {
        let close = destination.close();
        let session = &mut destination.session;
        if let Some(look) = self.look.take() {
            // Its answer comes before that of the close.
            let event = session.event_of(look).await?;
            self.take_look(session, event).await?;
        }
        let closing = session.send(&close).await?;
        if let Reply::Refused(refusal) = session.answer(closing).await? {
            return Err(refused(&self.file, &refusal, session.is_encrypted()).in_phase(Phase::Commit));
        }
        self.client.keep(&destination.route, destination.session);
        if let Some(source) = source {
            self.client.leave(source).await;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Copying {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Copying({}, {} bytes)",
            self.file.location, self.progress.bytes
        )
    }
}

#[cfg(test)]
mod tests {
    use types::PeerStatus;

    use super::*;

    #[test]
    fn keys_are_as_long_as_those_of_others_and_differ() {
        let place = Resource {
            location: Location::parse("root://h//f").unwrap(),
            access: crate::Access::default(),
            side: types::Side::Destination,
        };
        let (one, other) = (random_key(&place).unwrap(), random_key(&place).unwrap());
        assert_eq!((one.len(), one != other), (24, true));
    }

    #[test]
    fn who_makes_no_copies_is_known_by_the_words() {
        let error = |words: &str| {
            Error::new(ErrorCode::PeerFailed, types::Side::Destination, Phase::Open)
                .with_peer(Some(PeerStatus::Xrootd(3005)), words)
        };
        let said = unsupported(error("Unable to open /f; tpc not supported"));
        assert_eq!(
            (said.code(), said.peer_status()),
            (ErrorCode::PeerUnsupported, Some(PeerStatus::Xrootd(3005)))
        );
        assert_eq!(unsupported(error("no")).code(), ErrorCode::PeerFailed);
        let said = about_source(error("[FATAL] TLS error: resource temporarily unavailable"));
        assert_eq!((said.code(), said.side()), (ErrorCode::PeerTlsFailed, Side::Source));
        assert!(said.reporter().is_some() && said.reporter() != Some(Side::Source));
        assert_eq!(about_source(error("no")).code(), ErrorCode::PeerFailed);
    }
}
