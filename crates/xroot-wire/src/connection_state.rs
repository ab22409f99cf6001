//! The state of a connection as the server sees it: what may be asked when.
//!
//! A connection begins with a hello, usually followed at once by `protocol`; then comes a login
//! and, where the server wants it, an authentication. A connection may instead become a further
//! stream of another's session. The order in which a request is checked is the reference server's,
//! because clients depend on which error comes first.

use types::ErrorCode;

use crate::codes::Opcode;
use crate::flags::{ProtocolOptions, ServerFlags};
use crate::limits::AUTHENTICATION_FAILURES_MAX;
use crate::refusal::Refusal;
use crate::request::{Expect, Protocol, RequestHeader};

/// For what a server demands TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsPolicy {
    /// The server has a certificate.
    pub offered: bool,
    /// Needed before the login.
    pub login: bool,
    /// Begins after login and authentication.
    pub session: bool,
    /// Needed on further streams.
    pub data: bool,
    /// Needed for third-party copies.
    pub third_party: bool,
    /// All of this only for clients that can do TLS.
    pub only_capable: bool,
}

/// What a server answers about TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsDecision {
    /// The flags of the answer that are about TLS.
    pub flags: ServerFlags,
    /// The TLS handshake begins right behind the answer.
    pub upgrade: bool,
}

impl TlsPolicy {
    /// What to answer a `protocol` request; `secure` says that this connection uses TLS already.
    #[must_use]
    pub fn decide(&self, request: &Protocol, secure: bool) -> TlsDecision {
        let none = TlsDecision {
            flags: ServerFlags::empty(),
            upgrade: false,
        };
        // Clients of before 2.9.7 do not even read flags.
        if !self.offered || request.version == 0 {
            return none;
        }
        let wants = request.options.contains(ProtocolOptions::WANTS_TLS);
        let able = wants || request.options.contains(ProtocolOptions::CAN_TLS);
        if self.only_capable && !able {
            return none;
        }
        let mut flags = ServerFlags::HAS_TLS;
        for (demanded, flag) in [
            (self.login, ServerFlags::TLS_FOR_LOGIN),
            (self.session, ServerFlags::TLS_FOR_SESSION),
            (self.data, ServerFlags::TLS_FOR_DATA),
            (self.third_party, ServerFlags::TLS_FOR_THIRD_PARTY),
        ] {
            flags.set(flag, demanded);
        }
        let next_needs = match request.expect {
            Expect::Bind => self.data,
            Expect::Login => self.login,
            Expect::ThirdParty => self.third_party || self.login,
            Expect::Nothing | Expect::WholeFile | Expect::Other(_) => false,
        };
        let upgrade = !secure && (wants || (able && next_needs));
        flags.set(ServerFlags::GO_TO_TLS, upgrade);
        TlsDecision { flags, upgrade }
    }

    /// Whether a login may go on: `able` says whether the client can do TLS, `expect` what it
    /// announced.
    ///
    /// # Errors
    /// `tls_required`, after which the connection goes on.
    pub fn admits_login(&self, able: bool, expect: Expect, secure: bool) -> Result<(), Refusal> {
        let demanded = self.login || (self.third_party && expect == Expect::ThirdParty);
        Self::admits(demanded && self.applies(able), secure)
    }

    /// Whether a connection may become a further stream.
    ///
    /// # Errors
    /// `tls_required`, after which the connection goes on.
    pub fn admits_bind(&self, able: bool, secure: bool) -> Result<(), Refusal> {
        Self::admits(self.data && self.applies(able), secure)
    }

    /// Whether the TLS handshake begins behind the answer that ends login and authentication.
    #[must_use]
    pub fn upgrades_after_login(&self, able: bool, secure: bool) -> bool {
        self.offered && self.session && able && !secure
    }

    fn applies(&self, able: bool) -> bool {
        able || !self.only_capable
    }

    fn admits(demanded: bool, secure: bool) -> Result<(), Refusal> {
        if demanded && !secure {
            return Err(Refusal::new(ErrorCode::TlsRequired, "the server wants TLS here"));
        }
        Ok(())
    }
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The hello was answered; there is no session.
    Greeted,
    /// Logged in; an authentication is needed.
    Authenticating {
        /// Authentications that have failed.
        failures: u32,
    },
    /// Logged in, and authenticated where that is needed.
    Ready,
    /// A further stream of another connection's session. It carries answers and nothing else.
    Bound,
}

/// The state of a connection as the server sees it. Its owner tells it what happened; it tells what
/// may be asked.
#[derive(Clone, Debug)]
pub struct ConnectionState {
    stage: Stage,
    secure: bool,
    able: bool,
    expect: Expect,
}

impl ConnectionState {
    /// A connection whose hello was answered; `secure` says that it uses TLS already.
    #[must_use]
    pub fn new(secure: bool) -> Self {
        Self {
            stage: Stage::Greeted,
            secure,
            able: secure,
            expect: Expect::Nothing,
        }
    }

    /// Whether a request may be asked now. It is to be called with the header alone, before the
    /// payload is read, so that a client without a session can make the server read nothing large.
    ///
    /// # Errors
    /// What to answer; where it closes the connection the payload need not be read.
    pub fn admit(&self, header: &RequestHeader) -> Result<(), Refusal> {
        let opcode = header.known_opcode();
        match self.stage {
            Stage::Greeted => match opcode {
                Some(Opcode::Protocol | Opcode::Login | Opcode::Bind) => Ok(()),
                _ => Err(out_of_sequence("the client has not logged in")),
            },
            Stage::Authenticating { .. } => match opcode {
                Some(Opcode::Protocol | Opcode::Ping | Opcode::Authenticate) => Ok(()),
                _ => Err(out_of_sequence("the client has not authenticated")),
            },
            Stage::Bound => Err(out_of_sequence("a further stream takes no requests")),
            Stage::Ready => match opcode {
                Some(Opcode::Login | Opcode::Bind) => Err(Refusal::new(
                    ErrorCode::OutOfSequence,
                    "the client has logged in already",
                )),
                _ => Ok(()),
            },
        }
    }

    /// A `protocol` request was answered: remembers what it says of the client, which decides about
    /// TLS.
    pub fn on_protocol(&mut self, request: &Protocol) {
        self.able = self.secure
            || request
                .options
                .intersects(ProtocolOptions::CAN_TLS | ProtocolOptions::WANTS_TLS);
        self.expect = request.expect;
    }

    /// The TLS handshake is done.
    pub fn on_tls(&mut self) {
        self.secure = true;
        self.able = true;
    }

    /// A login succeeded. Gives whether the TLS handshake begins behind its answer.
    pub fn on_login(&mut self, needs_authentication: bool, tls: &TlsPolicy) -> bool {
        if needs_authentication {
            self.stage = Stage::Authenticating { failures: 0 };
            return false;
        }
        self.stage = Stage::Ready;
        tls.upgrades_after_login(self.able, self.secure)
    }

    /// An authentication succeeded. Gives whether the TLS handshake begins behind its answer.
    pub fn on_authenticated(&mut self, tls: &TlsPolicy) -> bool {
        self.stage = Stage::Ready;
        tls.upgrades_after_login(self.able, self.secure)
    }

    /// An authentication failed. Gives whether the client may try another; if not, the connection
    /// is to be closed behind the answer.
    pub fn on_authentication_failed(&mut self) -> bool {
        match &mut self.stage {
            Stage::Authenticating { failures } => {
                *failures += 1;
                *failures < AUTHENTICATION_FAILURES_MAX
            }
            Stage::Greeted | Stage::Ready | Stage::Bound => false,
        }
    }

    /// The connection became a further stream of another's session.
    pub fn on_bound(&mut self) {
        self.stage = Stage::Bound;
    }

    /// Whether the connection uses TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Whether the client said that it can do TLS.
    #[must_use]
    pub fn is_able(&self) -> bool {
        self.able
    }

    /// What the client said that it asks next.
    #[must_use]
    pub fn expect(&self) -> Expect {
        self.expect
    }

    /// Whether the client has logged in, and authenticated where that is needed. An authentication
    /// step is then answered `ok` without a look at it, as the reference server does.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Whether the connection is a further stream.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.stage == Stage::Bound
    }
}

fn out_of_sequence(detail: &'static str) -> Refusal {
    Refusal::new(ErrorCode::OutOfSequence, detail).closing()
}
