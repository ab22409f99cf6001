//! The frame of every response, and the bodies that are the same for all requests.

use types::Error;

use crate::bytes::{Reader, text, text_bytes};
use crate::codes::Status;
use crate::error_number::ErrorNumber;
use crate::ids::StreamId;
use crate::limits::{ANSWER_BYTES_MAX, RESPONSE_HEADER_BYTES};
use crate::refusal::misbehaved;
use crate::response::PageStatus;

/// The header of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The request that it answers; zero in unsolicited messages.
    pub stream: StreamId,
    /// The number of its kind; see [`Status`].
    pub status: u16,
    /// Bytes that follow; in the answer to a page read or write, without its data.
    pub length: i32,
}

/// What follows a response's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// So many bytes of the answer, whole or partial; file data, if the request was a read.
    Data(usize),
    /// So many bytes to be handed to [`Answer::parse`].
    Buffered(usize),
    /// So many bytes to be handed to [`Answer::parse`], which tells how much data follow them.
    Pages(usize),
}

impl Body {
    /// Bytes of the body that the header announces.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Data(bytes) | Self::Buffered(bytes) | Self::Pages(bytes) => bytes,
        }
    }
}

impl ResponseHeader {
    /// The header for a body of `body_bytes`, which must be below 2 GiB.
    #[must_use]
    pub fn new(stream: StreamId, status: Status, body_bytes: usize) -> Self {
        Self {
            stream,
            status: status.number(),
            length: crate::bytes::length_i32(body_bytes),
        }
    }

    /// Reads a header. Any bytes are one.
    #[must_use]
    pub fn parse(bytes: &[u8; RESPONSE_HEADER_BYTES]) -> Self {
        let [s0, s1, k0, k1, length @ ..] = bytes;
        Self {
            stream: StreamId([*s0, *s1]),
            status: u16::from_be_bytes([*k0, *k1]),
            length: i32::from_be_bytes(*length),
        }
    }

    /// The bytes of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; RESPONSE_HEADER_BYTES] {
        let [s0, s1] = self.stream.0;
        let [k0, k1] = self.status.to_be_bytes();
        let [l0, l1, l2, l3] = self.length.to_be_bytes();
        [s0, s1, k0, k1, l0, l1, l2, l3]
    }

    /// Its kind.
    ///
    /// # Errors
    /// `peer_misbehaved` for a number without a meaning.
    pub fn kind(&self) -> Result<Status, Error> {
        Status::from_number(self.status).ok_or_else(|| misbehaved("the kind of an answer is not known"))
    }

    /// What follows the header.
    ///
    /// # Errors
    /// `peer_misbehaved` for a kind without a meaning, a negative length, and a body other than
    /// data that is longer than [`ANSWER_BYTES_MAX`].
    pub fn body(&self) -> Result<Body, Error> {
        let kind = self.kind()?;
        let bytes = usize::try_from(self.length).map_err(|_| misbehaved("the length of an answer is negative"))?;
        match kind {
            Status::Ok | Status::Partial => Ok(Body::Data(bytes)),
            Status::Pages if (16..=4096).contains(&bytes) => Ok(Body::Pages(bytes)),
            Status::Pages => Err(misbehaved("the length of a page answer is wrong")),
            _ if bytes > ANSWER_BYTES_MAX => Err(misbehaved("an answer is too long")),
            _ => Ok(Body::Buffered(bytes)),
        }
    }
}

/// A response. Texts are without the NUL at their end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Done: the whole body, or its last part.
    Ok(&'a [u8]),
    /// A part of the body.
    Partial(&'a [u8]),
    /// Something that was not asked for now.
    Attention(Attention<'a>),
    /// The next message of the authentication protocol.
    MoreAuthentication(&'a [u8]),
    /// A failure.
    Error {
        /// What failed.
        number: ErrorNumber,
        /// The peer's words.
        message: String,
    },
    /// Ask there.
    Redirect(Redirect),
    /// Send the same request again after so many seconds.
    Wait {
        /// How long to wait.
        seconds: u32,
        /// The peer's words.
        message: String,
    },
    /// The answer will come by itself within so many seconds.
    WaitForAnswer {
        /// How long that may take.
        seconds: u32,
        /// The peer's words.
        message: String,
    },
    /// The answer to a page read or write, whose data follow.
    Pages(PageStatus),
}

impl<'a> Answer<'a> {
    /// Reads the body of a response.
    ///
    /// # Errors
    /// `peer_misbehaved` when it cannot be understood.
    pub fn parse(header: &ResponseHeader, body: &'a [u8]) -> Result<Self, Error> {
        Ok(match header.kind()? {
            Status::Ok => Self::Ok(body),
            Status::Partial => Self::Partial(body),
            Status::MoreAuthentication => Self::MoreAuthentication(body),
            Status::Attention => Self::Attention(Attention::parse(body)?),
            Status::Error => {
                let (number, message) = numbered(body, "an error answer is too short")?;
                Self::Error {
                    number: ErrorNumber(number),
                    message,
                }
            }
            Status::Redirect => Self::Redirect(Redirect::parse(body)?),
            Status::Wait => {
                let (seconds, message) = numbered(body, "an answer to wait is too short")?;
                Self::Wait {
                    seconds: positive(seconds),
                    message,
                }
            }
            Status::WaitForAnswer => {
                let (seconds, message) = numbered(body, "an answer to wait for another is too short")?;
                Self::WaitForAnswer {
                    seconds: positive(seconds),
                    message,
                }
            }
            Status::Pages => Self::Pages(PageStatus::parse(header, body)?),
        })
    }
}

/// A number and the text behind it.
fn numbered(body: &[u8], short: &'static str) -> Result<(u32, String), Error> {
    let mut reader = Reader(body);
    let number = reader.u32().ok_or_else(|| misbehaved(short))?;
    Ok((number, text(reader.0).into_owned()))
}

/// A time that the protocol counts with a sign: below zero is at once.
fn positive(seconds: u32) -> u32 {
    u32::try_from(seconds.cast_signed()).unwrap_or(0)
}

/// A late answer: the header and body that would have come at once. It has its own checks by being
/// parsed like any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateAnswer<'a> {
    /// The header of the answer.
    pub header: ResponseHeader,
    /// Its body, as long as the header says.
    pub body: &'a [u8],
}

/// Something that was not asked for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention<'a> {
    /// A late answer.
    Answer(LateAnswer<'a>),
    /// Any other action. All are obsolete and ignored.
    Other(u32),
}

/// The action of a late answer (`kXR_asynresp`).
pub(crate) const LATE_ANSWER: u32 = 5008;

impl<'a> Attention<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let action = reader
            .u32()
            .ok_or_else(|| misbehaved("an unsolicited message is too short"))?;
        if action != LATE_ANSWER {
            return Ok(Self::Other(action));
        }
        let header = reader.u32().and_then(|_reserved| reader.array());
        let header = header.ok_or_else(|| misbehaved("a late answer is too short"))?;
        let header = ResponseHeader::parse(&header);
        if matches!(header.kind()?, Status::Attention | Status::Pages) {
            return Err(misbehaved("a late answer holds what it cannot hold"));
        }
        if usize::try_from(header.length) != Ok(reader.0.len()) {
            return Err(misbehaved("the length of a late answer is wrong"));
        }
        Ok(Self::Answer(LateAnswer { header, body: reader.0 }))
    }
}

/// Where a redirection points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedirectTarget {
    /// A server of the same protocol: keep the request's user, scheme and path.
    Host {
        /// Its name or address.
        host: String,
        /// Its port; `None` = the default, or the one in the host's name.
        port: Option<u16>,
    },
    /// A whole URL, possibly of another protocol.
    Url {
        /// The URL.
        url: String,
        /// Flags about the redirection.
        flags: u32,
    },
}

/// A redirection.
#[derive(Clone, PartialEq, Eq)]
pub struct Redirect {
    /// Where it points.
    pub target: RedirectTarget,
    /// CGI that takes the place of the request's own; to be sent exactly as it is.
    pub cgi: Option<String>,
    /// To be appended to the login at the new server; a secret.
    pub login_token: Option<String>,
}

impl std::fmt::Debug for Redirect {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Redirect")
            .field("target", &self.target)
            .field("cgi", &self.cgi.as_ref().map(String::len))
            .field("login_token", &self.login_token.as_ref().map(String::len))
            .finish()
    }
}

impl Redirect {
    /// A redirection to a server.
    #[must_use]
    pub fn to_host(host: &str, port: u16) -> Self {
        Self {
            target: RedirectTarget::Host {
                host: host.to_owned(),
                port: Some(port),
            },
            cgi: None,
            login_token: None,
        }
    }

    /// A redirection to a URL, for clients whose login says that they understand it.
    #[must_use]
    pub fn to_url(url: &str) -> Self {
        Self {
            target: RedirectTarget::Url {
                url: url.to_owned(),
                flags: 0,
            },
            cgi: None,
            login_token: None,
        }
    }

    /// The same with CGI for the server.
    #[must_use]
    pub fn with_cgi(mut self, cgi: String) -> Self {
        self.cgi = Some(cgi).filter(|cgi| !cgi.is_empty());
        self
    }

    fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let port = reader.i32().ok_or_else(|| misbehaved("a redirection is too short"))?;
        let text = std::str::from_utf8(text_bytes(reader.0)).map_err(|_| misbehaved("a redirection is not UTF-8"))?;
        if port < 0 {
            let flags = (!port).cast_unsigned();
            return Ok(Self {
                target: RedirectTarget::Url {
                    url: text.to_owned(),
                    // Minus one is the plain form: no flag.
                    flags,
                },
                cgi: None,
                login_token: None,
            });
        }
        let mut parts = text.splitn(3, '?');
        let host = parts.next().unwrap_or_default();
        if host.is_empty() {
            return Err(misbehaved("a redirection names no host"));
        }
        let port = u16::try_from(port).map_err(|_| misbehaved("the port of a redirection is too large"))?;
        Ok(Self {
            target: RedirectTarget::Host {
                host: host.to_owned(),
                port: (port > 0).then_some(port),
            },
            cgi: parts.next().map(str::to_owned),
            login_token: parts.next().map(str::to_owned),
        })
    }

    /// The body: port and text, without a NUL.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (port, mut text) = match &self.target {
            RedirectTarget::Host { host, port } => (i32::from(port.unwrap_or(0)), host.clone()),
            RedirectTarget::Url { url, flags } => (!flags.cast_signed(), url.clone()),
        };
        if self.cgi.is_some() || self.login_token.is_some() {
            text.push('?');
            text.push_str(self.cgi.as_deref().unwrap_or_default());
        }
        if let Some(token) = &self.login_token {
            text.push('?');
            text.push_str(token);
        }
        let mut body = port.to_be_bytes().to_vec();
        body.extend_from_slice(text.as_bytes());
        body
    }
}
