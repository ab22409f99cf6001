//! Opening a session: connecting, protocol version, TLS, login, authentication.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::limits::{ROOT_HELLO_TIMEOUT, ROOT_WORDS_BYTES_MAX};
use credentials::x509::Unsigned;
use gsi_wire::gsi::ServerEntry;
use net::dial::dial_timed;
use net::tls::ClientIdentity;
use net::{Frames, Role, Stream, Waits};
use types::{Error, ErrorCode, Phase, Result, Scheme, Secret};
use xroot_wire::credential::{HOST, UNIX, ZTN};
use xroot_wire::request::UserName;
use xroot_wire::response::SecurityEntry;
use xroot_wire::{Answer, Credential, Handshake, Purpose, ResponseHeader, SessionId, Step, TlsUse};

use super::gsi::{Delegated, Gsi};
use super::session::ServerSession;
use crate::client::{ClientOptions, PinnedHost};
use crate::options::LoginOffer;
use crate::resource::{ANSWERS_IN_HTTP, Access, Resource};

/// Our user name when no other is configured.
const NOBODY: &str = "nobody";

/// Opens a connection as a further stream of a session. `address` is that of the session's own
/// connection, since other addresses of the same name may be other servers.
///
/// # Errors
/// No connection, `peer_tls_failed`, or the server's refusal.
pub(super) async fn bind(
    options: &ClientOptions,
    address: SocketAddr,
    file: &Resource,
    session: SessionId,
) -> Result<ServerSession> {
    let host = address.ip().to_string();
    let server = Dialled {
        host: &host,
        port: address.port(),
    };
    let mut set_up = SetUp::new(options, server, file);
    let bound = set_up.run(Purpose::Bind { session }).await;
    bound.map_err(|error| error.at_side(file.side))
}

/// Opens a session with the server of a file, at the address that `pin` names for it. `ticket` is
/// what a redirection gave for the login.
///
/// A server that refuses the login in which we offer a proxy is offered none in a second attempt.
/// Nor is one that let us in over TLS without `gsi`: by our certificate in TLS, which the first
/// attempt does not show, we may have more rights there.
///
/// # Errors
/// No connection, `peer_tls_failed` when TLS is asked for and not offered, `peer_untrusted` when
/// the server shows by gsi no certificate that we believe, `peer_denied` when none of our
/// credentials is accepted.
pub(super) async fn open(
    options: &ClientOptions,
    pin: Option<&PinnedHost>,
    file: &Resource,
    ticket: Option<&Secret>,
) -> Result<ServerSession> {
    let server = Dialled {
        host: PinnedHost::dialled(pin, file.location.host()),
        port: file.location.port(),
    };
    let mut set_up = SetUp::new(options, server, file);
    let mut opened = set_up.run(login(options, file, ticket)).await;
    if set_up.is_unheard {
        set_up.delegates = false;
        opened = set_up.run(login(options, file, ticket)).await;
    } else if set_up.is_offer_refused || set_up.delegates && is_refused(&opened) {
        set_up.withdraw_offer();
        opened = set_up.run(login(options, file, ticket)).await;
    }
    opened.map_err(|error| error.at_side(file.side))
}

/// Asks which authentication protocols a server offers. None of our credentials is shown.
///
/// # Errors
/// As [`open`], apart from `peer_denied`.
pub(super) async fn offer(options: &ClientOptions, file: &Resource) -> Result<LoginOffer> {
    let file = Resource {
        access: Access::default(),
        ..file.clone()
    };
    let server = Dialled {
        host: file.location.host(),
        port: file.location.port(),
    };
    let mut set_up = SetUp::new(options, server, &file);
    let opened = set_up.run(login(options, &file, None)).await;
    let methods = std::mem::take(&mut set_up.offered);
    match opened {
        Err(error) if methods.is_empty() => Err(error.at_side(file.side)),
        opened => Ok(LoginOffer {
            methods,
            is_redirector: opened.is_ok_and(|session| session.is_redirector()),
        }),
    }
}

/// Where a connection leads.
#[derive(Clone, Copy)]
struct Dialled<'a> {
    host: &'a str,
    port: u16,
}

/// Makes a connection a session, or a further stream of one.
struct SetUp<'a> {
    options: &'a ClientOptions,
    server: Dialled<'a>,
    file: &'a Resource,
    /// Whether a proxy is offered.
    delegates: bool,
    delegated: Delegated,
    /// The authentication protocols that the server has offered.
    offered: Vec<String>,
    /// The server refused our certificate while a proxy was offered.
    is_offer_refused: bool,
    /// The server let us in over TLS without `gsi`, so it got no offer.
    is_unheard: bool,
}

/// Whether a server has refused a session, or TLS without a certificate.
fn is_refused<T>(opened: &Result<T>) -> bool {
    matches!(opened, Err(error) if error.peer_status().is_some() || error.code() == ErrorCode::PeerTlsFailed)
}

impl<'a> SetUp<'a> {
    fn new(options: &'a ClientOptions, server: Dialled<'a>, file: &'a Resource) -> Self {
        Self {
            options,
            server,
            file,
            delegates: file.access.delegates(),
            delegated: Delegated::default(),
            offered: Vec::new(),
            is_offer_refused: false,
            is_unheard: false,
        }
    }

    /// From now on no proxy is offered.
    fn withdraw_offer(&mut self) {
        self.delegates = false;
        self.is_offer_refused = false;
        if !matches!(self.delegated, Delegated::Refused(_)) {
            let words = "it refused the login in which a proxy was offered";
            self.delegated = Delegated::Refused(Unsigned::Request(words.to_owned()));
        }
    }

    async fn run(&mut self, purpose: Purpose) -> Result<ServerSession> {
        let Self {
            options, server, file, ..
        } = *self;
        let addresses = file.addresses(options).await;
        let (steps, begun) = (&file.access.steps, Instant::now());
        let labels = file.access.packet_labels();
        let reached = dial_timed(server.host, server.port, addresses, options.connect, file.side, &labels).await?;
        let tcp = reached.stream;
        steps.note("resolve", begun, reached.resolved);
        steps.note("connect", reached.resolved, Instant::now());
        let waits = Waits {
            handshake: options.connect,
            stall: options.stall,
        };
        let frames = Frames::new(Stream::clear(tcp, Role::Peer(file.side), waits));
        let agreed = self.agree(frames, purpose).await;
        // A connection that breaks now says more about the server than one that breaks later.
        agreed.map_err(|error| match error.phase() {
            Phase::Transfer => error.in_phase(Phase::Authenticate),
            _ => error,
        })
    }

    async fn agree(&mut self, mut frames: Frames, purpose: Purpose) -> Result<ServerSession> {
        let Self { options, file, .. } = *self;
        let tls = match file.location.scheme() {
            Scheme::Roots => TlsUse::Always,
            _ => TlsUse::WhenDemanded,
        };
        let mut handshake = Handshake::new(purpose, tls);
        let mut gsi = None;
        frames.stream.queue(&handshake.start());
        frames.stream.flush().await?;
        let patience = options.first_byte.min(ROOT_HELLO_TIMEOUT);
        let mut step = listen(&mut frames, &mut handshake, patience).await?;
        loop {
            step = match step {
                Step::Send(bytes) => {
                    frames.stream.queue(&bytes);
                    frames.stream.flush().await?;
                    listen(&mut frames, &mut handshake, options.first_byte).await?
                }
                Step::Read => listen(&mut frames, &mut handshake, options.first_byte).await?,
                Step::StartTls => {
                    // A server that has seen our certificate in TLS need not ask for it by gsi,
                    // and only gsi delegates.
                    let shown = file.access.identity.as_ref().filter(|_| !self.delegates);
                    let tls = options.tls.showing(shown);
                    let begun = Instant::now();
                    frames = frames.upgrade_client(&tls, file.location.host()).await?;
                    file.access.steps.note("tls", begun, Instant::now());
                    handshake.on_tls()?
                }
                Step::Authenticate(_) if self.delegates && gsi.is_some() => {
                    self.is_offer_refused = true;
                    return Err(handshake.give_up());
                }
                Step::Authenticate(offered) => {
                    if self.offered.is_empty() {
                        self.offered = offered.iter().map(|entry| entry.name.clone()).collect();
                    }
                    let is_encrypted = frames.stream.is_encrypted();
                    let Some((name, chosen)) = self.choose(&offered, is_encrypted) else {
                        return Err(handshake.give_up());
                    };
                    let credential = match chosen {
                        Chosen::Credential(credential) => credential,
                        Chosen::Gsi(server, identity) => {
                            let begun = Gsi::begin(&server, &identity, options, self.delegates).await?;
                            gsi = Some(self.note(begun.0));
                            begun.1
                        }
                    };
                    handshake.authenticate(&name, &credential)?
                }
                Step::Continue(message) => {
                    // No other credential takes a second step.
                    let Some(begun) = gsi.take() else {
                        return Err(handshake.give_up());
                    };
                    let begun = begun.step(message, options, file.location.host()).await?;
                    gsi = Some(self.note(begun.0));
                    handshake.authenticate_on(&begun.1)?
                }
                Step::Ready(_) if self.delegates && gsi.is_none() && frames.stream.is_encrypted() => {
                    self.is_unheard = true;
                    return Err(frames.stream.role().closed(Phase::Authenticate));
                }
                Step::Ready(server) => {
                    let delegated = self.delegated.clone();
                    return Ok(ServerSession::new(frames, server, options.first_byte, delegated));
                }
            };
        }
    }

    /// Notes what an authentication has delegated so far. A refusal of an earlier attempt stays.
    fn note(&mut self, gsi: Gsi) -> Gsi {
        if *gsi.delegated() != Delegated::NotOffered {
            self.delegated = gsi.delegated().clone();
        }
        gsi
    }

    /// Our credential for the first authentication protocol for which we have one. Where a proxy is
    /// to be delegated, `gsi` goes before all others, since no other delegates.
    fn choose(&self, offered: &[SecurityEntry], is_encrypted: bool) -> Option<(String, Chosen)> {
        let is_gsi = |entry: &&SecurityEntry| entry.name == gsi_wire::gsi::NAME;
        let first = offered.iter().filter(|_| self.delegates).find(is_gsi);
        let mut entries = first.into_iter().chain(offered);
        entries.find_map(|entry| choose(entry, self.file, is_encrypted))
    }
}

fn login(options: &ClientOptions, file: &Resource, ticket: Option<&Secret>) -> Purpose {
    let mut cgi = format!("xrd.appname={}", options.user_agent);
    if let Some(ticket) = ticket {
        cgi.push('&');
        cgi.push_str(ticket.expose());
    }
    Purpose::Login {
        process: i32::try_from(std::process::id()).unwrap_or(0),
        user: UserName::new(file.access.user_name.as_deref().unwrap_or(NOBODY)),
        cgi,
        third_party: false,
    }
}

/// Reads one response of the set-up.
async fn listen(frames: &mut Frames, handshake: &mut Handshake, patience: Duration) -> Result<Step> {
    let Some(head) = frames.head(patience).await? else {
        return Err(frames.stream.role().closed(Phase::Authenticate));
    };
    let side = frames.stream.role().side();
    let misbehaved = |words| Error::new(ErrorCode::PeerMisbehaved, side, Phase::Authenticate).with_detail(words);
    if head.starts_with(b"HTTP/") {
        return Err(misbehaved(ANSWERS_IN_HTTP));
    }
    let header = ResponseHeader::parse(&head);
    let length = header.body()?.bytes();
    if length > ROOT_WORDS_BYTES_MAX {
        return Err(misbehaved("an answer is too long"));
    }
    let body = frames.small(length, ROOT_WORDS_BYTES_MAX).await?;
    handshake.handle(Answer::parse(&header, &body)?)
}

/// A credential for an authentication protocol.
enum Chosen {
    /// A single message.
    Credential(Vec<u8>),
    /// A certificate, over several rounds.
    Gsi(ServerEntry, ClientIdentity),
}

/// Our credential for an authentication protocol. A token goes only over TLS, a certificate only to
/// a server whose offer can be understood.
fn choose(entry: &SecurityEntry, file: &Resource, is_encrypted: bool) -> Option<(String, Chosen)> {
    let access = &file.access;
    let credential = match entry.name.as_str() {
        gsi_wire::gsi::NAME => {
            let server = ServerEntry::parse(entry.parameters.as_deref()?).ok()?;
            let identity = access.identity.clone().filter(Gsi::can_show)?;
            return Some((entry.name.clone(), Chosen::Gsi(server, identity)));
        }
        ZTN if is_encrypted => Credential::Token(access.bearer.clone()?),
        UNIX => {
            let name = access.user_name.as_deref().unwrap_or(NOBODY).to_owned();
            Credential::User {
                group: Some(name.clone()),
                name,
            }
        }
        HOST => Credential::Host { name: None },
        _ => return None,
    };
    Some((entry.name.clone(), Chosen::Credential(credential.encode()?)))
}
