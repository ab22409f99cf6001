//! How a client sets up a session: hello and `protocol`, TLS, login, authentication; or, for a
//! further stream, hello and `protocol`, TLS, bind.
//!
//! The caller sends what [`Handshake::start`] gives, reads one response after the other, and does
//! what [`Handshake::handle`] says. The answer to the hello is read as an ordinary response, which
//! it is.

use types::{Error, ErrorCode, Phase, Side};

use crate::flags::{LoginAbilities, ProtocolOptions, ServerFlags};
use crate::hello::HELLO;
use crate::ids::{SessionId, StreamId};
use crate::limits::{AUTHENTICATION_ROUNDS_MAX, PROTOCOL_VERSION, PROTOCOL_VERSION_PAGES, PROTOCOL_VERSION_TLS};
use crate::refusal::misbehaved;
use crate::request::{Authenticate, Bind, Expect, Login, Protocol, Request, UserName};
use crate::response::{Answer, LoginReply, ProtocolReply, SecurityEntry, SigningRules};

/// How a client uses TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsUse {
    /// Not at all.
    Never,
    /// Where the server demands it (`root://`).
    #[default]
    WhenDemanded,
    /// Always (`roots://`); a server without TLS is refused.
    Always,
}

/// What a connection becomes.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// A session of its own.
    Login {
        /// The client's process, for the server's monitoring.
        process: i32,
        /// The client's user, unverified.
        user: UserName,
        /// What the client tells of itself, and the token that a redirection handed over.
        cgi: String,
        /// The session is for a third-party copy.
        third_party: bool,
    },
    /// A further stream of this session.
    Bind {
        /// The session.
        session: SessionId,
    },
}

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Send these bytes, and read the next response.
    Send(Vec<u8>),
    /// Read the next response.
    Read,
    /// Do the TLS handshake, then call [`Handshake::on_tls`].
    StartTls,
    /// Choose among these authentication protocols, in this order, and call
    /// [`Handshake::authenticate`]; or [`Handshake::give_up`] when none will do.
    Authenticate(Vec<SecurityEntry>),
    /// Hand this to the authentication protocol that was chosen, and call
    /// [`Handshake::authenticate_on`].
    Continue(Vec<u8>),
    /// The session is set up.
    Ready(Established),
}

/// A session, or a further stream of one, that is set up.
#[derive(Clone, Debug)]
pub struct Established {
    /// The session's name.
    pub session: SessionId,
    /// The number of this stream in its session; 0 for the session's own.
    pub path: u8,
    /// The server's protocol version.
    pub version: u32,
    /// What the server is and offers.
    pub flags: ServerFlags,
    /// Which requests must be signed.
    pub signing: Option<SigningRules>,
    /// Whether the connection uses TLS.
    pub secure: bool,
}

impl Established {
    /// Whether to read and write with page checksums: the server knows them, and no TLS protects
    /// the data already.
    #[must_use]
    pub fn uses_pages(&self) -> bool {
        !self.secure && self.version >= PROTOCOL_VERSION_PAGES && self.flags.contains(ServerFlags::PAGES)
    }

    /// Whether the server redirects rather than having files.
    #[must_use]
    pub fn is_manager(&self) -> bool {
        self.flags.contains(ServerFlags::MANAGER)
    }
}

#[derive(Debug)]
enum State {
    /// The hello and `protocol` were sent; the answer to the hello comes first.
    Hello,
    Protocol,
    /// TLS before login or bind.
    TlsFirst,
    LoggingIn,
    /// The caller chooses an authentication protocol.
    Choosing {
        offered: Vec<SecurityEntry>,
    },
    /// A step of it was sent.
    Authenticating {
        offered: Vec<SecurityEntry>,
        name: String,
        rounds: u32,
    },
    Binding,
    /// TLS after login and authentication.
    TlsLast,
    Done,
}

/// How a client sets up a session.
#[derive(Debug)]
pub struct Handshake {
    purpose: Purpose,
    tls: TlsUse,
    state: State,
    /// Where the session stands so far.
    established: Established,
}

impl Handshake {
    /// For a connection in clear text that was just opened.
    #[must_use]
    pub fn new(purpose: Purpose, tls: TlsUse) -> Self {
        let session = match &purpose {
            Purpose::Bind { session } => *session,
            Purpose::Login { .. } => SessionId::default(),
        };
        Self {
            purpose,
            tls,
            state: State::Hello,
            established: Established {
                session,
                path: 0,
                version: 0,
                flags: ServerFlags::empty(),
                signing: None,
                secure: false,
            },
        }
    }

    /// The first bytes to send: hello and `protocol` together.
    #[must_use]
    pub fn start(&self) -> Vec<u8> {
        let mut options = ProtocolOptions::SECURITY_RECORD;
        options.set(ProtocolOptions::CAN_TLS, self.tls != TlsUse::Never);
        options.set(ProtocolOptions::WANTS_TLS, self.tls == TlsUse::Always);
        let expect = match &self.purpose {
            Purpose::Bind { .. } => Expect::Bind,
            Purpose::Login { third_party: true, .. } => Expect::ThirdParty,
            Purpose::Login { third_party: false, .. } => Expect::Login,
        };
        let mut bytes = HELLO.to_vec();
        let request = Protocol {
            version: PROTOCOL_VERSION,
            options,
            expect,
        };
        Request::Protocol(request).encode(StreamId::ZERO, &mut bytes);
        bytes
    }

    /// Takes a response of the server.
    ///
    /// # Errors
    /// What the server refused with; `peer_tls_failed` when TLS is wanted and not offered;
    /// `peer_denied` when no authentication protocol is left; `peer_misbehaved` for an answer that
    /// does not belong here. The connection is of no use after any of them.
    pub fn handle(&mut self, answer: Answer<'_>) -> Result<Step, Error> {
        match (std::mem::replace(&mut self.state, State::Done), answer) {
            (State::Hello, Answer::Ok(body)) if body.len() == 8 => {
                self.state = State::Protocol;
                Ok(Step::Read)
            }
            (State::Protocol, Answer::Ok(body)) => self.on_protocol(body),
            (State::LoggingIn, Answer::Ok(body)) => self.on_login(body),
            (State::Binding, Answer::Ok(&[path, ..])) if path > 0 => {
                self.established.path = path;
                Ok(self.ready())
            }
            (State::Authenticating { .. }, Answer::Ok(_)) => Ok(self.logged_in()),
            (State::Authenticating { offered, name, rounds }, Answer::MoreAuthentication(data)) => {
                if rounds >= AUTHENTICATION_ROUNDS_MAX {
                    return Err(misbehaved("the authentication does not end"));
                }
                let rounds = rounds + 1;
                self.state = State::Authenticating { offered, name, rounds };
                Ok(Step::Continue(data.to_vec()))
            }
            (State::Authenticating { offered, name, .. }, Answer::Error { number, message }) => {
                self.next_protocol(offered, &name, || {
                    number.to_peer_error(&message).in_phase(Phase::Authenticate)
                })
            }
            (_, Answer::Error { number, message }) => Err(number.to_peer_error(&message)),
            _ => Err(misbehaved("the answer does not belong to the set-up of a session")),
        }
    }

    /// The TLS handshake is done.
    ///
    /// # Errors
    /// `internal` when none was asked for.
    pub fn on_tls(&mut self) -> Result<Step, Error> {
        self.established.secure = true;
        match std::mem::replace(&mut self.state, State::Done) {
            State::TlsFirst => Ok(self.log_in_or_bind()),
            State::TlsLast => Ok(self.ready()),
            _ => Err(out_of_turn()),
        }
    }

    /// Begins with one of the authentication protocols that were offered.
    ///
    /// # Errors
    /// `internal` when there is nothing to choose.
    pub fn authenticate(&mut self, name: &str, credential: &[u8]) -> Result<Step, Error> {
        let State::Choosing { offered } = std::mem::replace(&mut self.state, State::Done) else {
            return Err(out_of_turn());
        };
        self.state = State::Authenticating {
            offered,
            name: name.to_owned(),
            rounds: 1,
        };
        Ok(authentication_step(name, credential))
    }

    /// Goes on with the authentication protocol that was chosen.
    ///
    /// # Errors
    /// `internal` when none is under way.
    pub fn authenticate_on(&mut self, credential: &[u8]) -> Result<Step, Error> {
        match &self.state {
            State::Authenticating { name, .. } => Ok(authentication_step(name, credential)),
            _ => Err(out_of_turn()),
        }
    }

    /// None of the authentication protocols will do: the error to report.
    #[must_use]
    pub fn give_up(&self) -> Error {
        let names = match &self.state {
            State::Choosing { offered } | State::Authenticating { offered, .. } => offered
                .iter()
                .map(|entry| entry.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
            _ => String::new(),
        };
        Error::new(ErrorCode::PeerDenied, Side::Source, Phase::Authenticate)
            .with_detail(format!("no credential for any protocol that it offers: {names}"))
    }

    fn on_protocol(&mut self, body: &[u8]) -> Result<Step, Error> {
        let reply = ProtocolReply::parse(body)?;
        self.established.version = reply.version;
        self.established.flags = reply.flags;
        self.established.signing = reply.signing;
        let demanded = match &self.purpose {
            Purpose::Login { third_party, .. } => {
                reply.flags.contains(ServerFlags::TLS_FOR_LOGIN)
                    || (*third_party && reply.flags.contains(ServerFlags::TLS_FOR_THIRD_PARTY))
            }
            Purpose::Bind { .. } => reply.flags.contains(ServerFlags::TLS_FOR_DATA),
        };
        let offered = reply.version >= PROTOCOL_VERSION_TLS && reply.flags.contains(ServerFlags::HAS_TLS);
        let told = reply.flags.contains(ServerFlags::GO_TO_TLS);
        let tls_failed = |detail| Error::new(ErrorCode::PeerTlsFailed, Side::Source, Phase::Tls).with_detail(detail);
        match self.tls {
            TlsUse::Always if !offered && !told => Err(tls_failed("the server does not offer TLS")),
            TlsUse::Never if told || demanded => Err(tls_failed("the server demands TLS")),
            TlsUse::Never => Ok(self.log_in_or_bind()),
            _ if told || demanded || self.tls == TlsUse::Always => {
                self.state = State::TlsFirst;
                Ok(Step::StartTls)
            }
            TlsUse::WhenDemanded | TlsUse::Always => Ok(self.log_in_or_bind()),
        }
    }

    fn log_in_or_bind(&mut self) -> Step {
        let mut bytes = Vec::new();
        match &self.purpose {
            Purpose::Login { process, user, cgi, .. } => {
                let login = Login {
                    process: *process,
                    user: *user,
                    extra_abilities: 0,
                    abilities: LoginAbilities::FULL_URL
                        | LoginAbilities::READ_REDIRECT
                        | LoginAbilities::DUAL_STACK
                        | LoginAbilities::REDIRECT_FLAGS,
                    capabilities: Login::TAKES_LATE_ANSWERS | 5,
                    cgi: cgi.as_bytes(),
                };
                Request::Login(login).encode(StreamId::ZERO, &mut bytes);
                self.state = State::LoggingIn;
            }
            Purpose::Bind { session } => {
                Request::Bind(Bind { session: *session }).encode(StreamId::ZERO, &mut bytes);
                self.state = State::Binding;
            }
        }
        Step::Send(bytes)
    }

    fn on_login(&mut self, body: &[u8]) -> Result<Step, Error> {
        let reply = LoginReply::parse(body)?;
        self.established.session = reply.session;
        if reply.protocols.is_empty() {
            return Ok(self.logged_in());
        }
        self.state = State::Choosing {
            offered: reply.protocols.clone(),
        };
        Ok(Step::Authenticate(reply.protocols))
    }

    /// After a refusal, the protocols behind the one that was tried.
    fn next_protocol(
        &mut self,
        mut offered: Vec<SecurityEntry>,
        tried: &str,
        refusal: impl FnOnce() -> Error,
    ) -> Result<Step, Error> {
        let behind = offered
            .iter()
            .position(|entry| entry.name == tried)
            .map_or(0, |at| at + 1);
        offered.drain(..behind);
        if behind == 0 || offered.is_empty() {
            return Err(refusal());
        }
        self.state = State::Choosing {
            offered: offered.clone(),
        };
        Ok(Step::Authenticate(offered))
    }

    fn logged_in(&mut self) -> Step {
        let demanded = self.established.flags.contains(ServerFlags::TLS_FOR_SESSION);
        if demanded && !self.established.secure && self.tls != TlsUse::Never {
            self.state = State::TlsLast;
            return Step::StartTls;
        }
        self.ready()
    }

    fn ready(&mut self) -> Step {
        self.state = State::Done;
        Step::Ready(self.established.clone())
    }
}

fn authentication_step(name: &str, credential: &[u8]) -> Step {
    let mut bytes = Vec::new();
    Request::Authenticate(Authenticate::new(name, credential)).encode(StreamId::ZERO, &mut bytes);
    Step::Send(bytes)
}

fn out_of_turn() -> Error {
    Error::new(ErrorCode::Internal, Side::Client, Phase::Authenticate)
        .with_detail("the set-up of a session was driven out of turn")
}
