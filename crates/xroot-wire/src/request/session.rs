//! Requests that set up, keep and end a session.

use super::{Request, RequestHeader};
use crate::bytes::text_bytes;
use crate::codes::Opcode;
use crate::flags::{LoginAbilities, ProtocolOptions};
use crate::ids::SessionId;
use crate::limits::USER_NAME_BYTES;
use crate::path::Cgi;
use crate::refusal::{Refusal, argument_missing, malformed};

/// What a client is going to ask next, so that the server can decide on TLS in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It does not say.
    Nothing,
    /// To bind this connection to a session.
    Bind,
    /// A whole file.
    WholeFile,
    /// To log in.
    Login,
    /// To log in for a third-party copy.
    ThirdParty,
    /// Another number.
    Other(u8),
}

impl Expect {
    fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Nothing,
            1 => Self::Bind,
            2 => Self::WholeFile,
            3 => Self::Login,
            4 => Self::ThirdParty,
            other => Self::Other(other),
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Bind => 1,
            Self::WholeFile => 2,
            Self::Login => 3,
            Self::ThirdParty => 4,
            Self::Other(number) => number,
        }
    }
}

/// Versions, abilities, TLS (`kXR_protocol`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The client's protocol version; 0 from clients of before 2.9.7, which want the old short
    /// answer.
    pub version: u32,
    /// What the client can do and wants.
    pub options: ProtocolOptions,
    /// What it asks next.
    pub expect: Expect,
}

impl Protocol {
    pub(super) fn fill(&self, block: &mut [u8; 16]) {
        block[..4].copy_from_slice(&self.version.to_be_bytes());
        block[4] = self.options.bits();
        block[5] = self.expect.number();
    }
}

/// A user name of at most eight bytes, unverified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserName([u8; USER_NAME_BYTES]);

impl UserName {
    /// The first eight bytes of `name`, up to a NUL.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut bytes = [0; USER_NAME_BYTES];
        let name = text_bytes(name.as_bytes());
        let kept = name.len().min(USER_NAME_BYTES);
        bytes[..kept].copy_from_slice(&name[..kept]);
        Self(bytes)
    }

    /// The name; what is not plain printable ASCII is shown as `?`.
    #[must_use]
    pub fn to_text(&self) -> String {
        let shown = |byte: &u8| {
            if byte.is_ascii_graphic() {
                char::from(*byte)
            } else {
                '?'
            }
        };
        text_bytes(&self.0).iter().map(shown).collect()
    }
}

/// Who the client says it is (`kXR_login`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login<'a> {
    /// The client's process.
    pub process: i32,
    /// The client's user.
    pub user: UserName,
    /// More abilities; 1 = understands redirections of erasure coded files.
    pub extra_abilities: u8,
    /// What the client can do.
    pub abilities: LoginAbilities,
    /// Version of the client's abilities in the low six bits, 0x80 = can take late answers.
    pub capabilities: u8,
    /// CGI about the client and, behind it, the token that a redirection handed over.
    pub cgi: &'a [u8],
}

impl<'a> Login<'a> {
    /// The bit of [`Login::capabilities`] for late answers.
    pub const TAKES_LATE_ANSWERS: u8 = 0x80;

    /// Whether an answer may come later, unasked (`waitresp` and `attn`).
    #[must_use]
    pub fn takes_late_answers(&self) -> bool {
        self.capabilities & Self::TAKES_LATE_ANSWERS != 0 && self.capabilities & 0x3f >= 2
    }

    /// What the client tells of itself.
    #[must_use]
    pub fn cgi(&self) -> Cgi<'a> {
        Cgi::new(std::str::from_utf8(text_bytes(self.cgi)).unwrap_or_default())
    }

    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[..4].copy_from_slice(&self.process.to_be_bytes());
        block[4..12].copy_from_slice(&self.user.0);
        block[12] = self.extra_abilities;
        block[13] = self.abilities.bits();
        block[14] = self.capabilities;
        out.extend_from_slice(self.cgi);
    }
}

/// One step of an authentication (`kXR_auth`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Authenticate<'a> {
    /// The authentication protocol's name, padded with NUL.
    pub kind: [u8; 4],
    /// What that protocol sends; secret.
    pub credential: &'a [u8],
}

impl<'a> Authenticate<'a> {
    /// A step of the protocol with this name; only its first four bytes count.
    #[must_use]
    pub fn new(name: &str, credential: &'a [u8]) -> Self {
        let mut kind = [0; 4];
        let kept = name.len().min(4);
        kind[..kept].copy_from_slice(&name.as_bytes()[..kept]);
        Self { kind, credential }
    }

    /// The protocol's name.
    #[must_use]
    pub fn name(&self) -> &str {
        std::str::from_utf8(text_bytes(&self.kind)).unwrap_or("?")
    }

    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[12..].copy_from_slice(&self.kind);
        out.extend_from_slice(self.credential);
    }
}

impl std::fmt::Debug for Authenticate<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Authenticate({}, {} bytes)",
            self.name(),
            self.credential.len()
        )
    }
}

/// Makes this connection a further stream of a session (`kXR_bind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The session.
    pub session: SessionId,
}

/// Ends a session (`kXR_endsess`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndSession {
    /// The session; the server closes the connection without an answer when it is the client's own.
    pub session: SessionId,
}

/// A setting for the server's monitoring (`kXR_set`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set<'a> {
    /// Where not zero, the request counts as one that modifies, for signatures.
    pub modifier: u8,
    /// Such as `appid` and a name.
    pub text: &'a [u8],
}

impl Set<'_> {
    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[15] = self.modifier;
        out.extend_from_slice(self.text);
    }
}

/// The signature of the next request (`kXR_sigver`). It has no answer of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureVerify<'a> {
    /// The number of the request that it signs.
    pub opcode: u16,
    /// Version of this scheme; 0.
    pub version: u8,
    /// 1 = that request's payload is not part of what is signed.
    pub flags: u8,
    /// Must grow from signature to signature.
    pub sequence: u64,
    /// 1 = SHA-256.
    pub hash: u8,
    /// The signature.
    pub signature: &'a [u8],
}

impl SignatureVerify<'_> {
    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[..2].copy_from_slice(&self.opcode.to_be_bytes());
        block[2] = self.version;
        block[3] = self.flags;
        block[4..12].copy_from_slice(&self.sequence.to_be_bytes());
        block[12] = self.hash;
        out.extend_from_slice(self.signature);
    }

    /// Whether the payload of the signed request is part of what is signed.
    #[must_use]
    pub fn covers_payload(&self) -> bool {
        self.flags & 1 == 0
    }
}

/// Reads one of the requests of this file.
pub(super) fn parse<'a>(opcode: Opcode, header: &RequestHeader, payload: &'a [u8]) -> Result<Request<'a>, Refusal> {
    let [.., last] = header.block;
    Ok(match opcode {
        Opcode::Protocol => Request::Protocol(Protocol {
            version: u32::from_be_bytes(header.field(0)),
            options: ProtocolOptions::from_bits_retain(header.block[4]),
            expect: Expect::from_number(header.block[5]),
        }),
        Opcode::Login => Request::Login(Login {
            process: header.i32(0),
            user: UserName(header.field(4)),
            extra_abilities: header.block[12],
            abilities: LoginAbilities::from_bits_retain(header.block[13]),
            capabilities: header.block[14],
            cgi: payload,
        }),
        Opcode::Authenticate if payload.is_empty() => return Err(argument_missing()),
        Opcode::Authenticate => Request::Authenticate(Authenticate {
            kind: header.field(12),
            credential: payload,
        }),
        Opcode::Bind => Request::Bind(Bind {
            session: SessionId(header.block),
        }),
        Opcode::EndSession => Request::EndSession(EndSession {
            session: SessionId(header.block),
        }),
        Opcode::Set if payload.is_empty() => return Err(argument_missing()),
        Opcode::Set => Request::Set(Set {
            modifier: last,
            text: payload,
        }),
        Opcode::SignatureVerify => Request::SignatureVerify(SignatureVerify {
            opcode: header.u16(0),
            version: header.block[2],
            flags: header.block[3],
            sequence: u64::from_be_bytes(header.field(4)),
            hash: header.block[12],
            signature: payload,
        }),
        _ => return Err(malformed("the request does not belong to the session")),
    })
}
