//! Request and response heads, and what they say about the body behind them (RFC 9112 §6) and
//! about the connection (§9.3).

use std::fmt;
use std::sync::Arc;

use types::{Error, ErrorCode};

use crate::fault::{bad_request, misbehaved, refused};
use crate::headers::Headers;
use crate::names::{CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};

/// A request method (RFC 9110 §9, RFC 4918 §9). Names are case-sensitive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Method {
    Get,
    Head,
    Put,
    Delete,
    Mkcol,
    Move,
    Copy,
    Propfind,
    Proppatch,
    Options,
    Lock,
    Unlock,
    Post,
    /// Any other token.
    Other(String),
}

impl Method {
    /// Reads a method's name.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "MKCOL" => Self::Mkcol,
            "MOVE" => Self::Move,
            "COPY" => Self::Copy,
            "PROPFIND" => Self::Propfind,
            "PROPPATCH" => Self::Proppatch,
            "OPTIONS" => Self::Options,
            "LOCK" => Self::Lock,
            "UNLOCK" => Self::Unlock,
            "POST" => Self::Post,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The name as it is sent.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Mkcol => "MKCOL",
            Self::Move => "MOVE",
            Self::Copy => "COPY",
            Self::Propfind => "PROPFIND",
            Self::Proppatch => "PROPPATCH",
            Self::Options => "OPTIONS",
            Self::Lock => "LOCK",
            Self::Unlock => "UNLOCK",
            Self::Post => "POST",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The protocol version of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// What a request is about (RFC 9112 §3.2): the origin form `/path?query`, the absolute form
/// `http://host/path?query`, or `*`.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// The path as it was sent, percent-encoded; `*` for `OPTIONS *`.
    pub path_raw: String,
    /// What stands behind the question mark. May hold a credential: not for logs.
    pub query: Option<String>,
    /// `host[:port]` of an absolute form. It then counts instead of the Host header (§3.2.2).
    pub authority: Option<String>,
}

/// The query, which may hold a credential, is left out.
impl fmt::Debug for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.path_raw)
    }
}

/// The head of a request.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// What it is about.
    pub target: Target,
    /// The sender's version.
    pub version: Version,
    /// The header fields: one text for all requests of a connection that have the same.
    pub headers: Arc<Headers>,
}

/// The head of a response.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// The status, 100 to 999.
    pub status: u16,
    /// The reason phrase; may be empty.
    pub reason: String,
    /// The sender's version.
    pub version: Version,
    /// The header fields.
    pub headers: Headers,
}

/// How the body behind a head is delimited (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    Empty,
    /// This many bytes.
    Length(u64),
    /// Chunks (RFC 9112 §7.1).
    Chunked,
    /// Everything until the connection ends; responses only.
    UntilClose,
}

/// What the two framing headers say together.
enum Declared {
    Nothing,
    Length(u64),
    Chunked,
}

/// Why the framing headers cannot be trusted.
enum Distrust {
    /// They contradict each other or themselves: the stuff of request smuggling (RFC 9112 §11.2).
    Broken(&'static str),
    /// A transfer coding that is not done here.
    Coding,
}

impl RequestHead {
    /// How the body is delimited.
    ///
    /// # Errors
    /// `bad_request` for a length that is not plain digits, for lengths that differ, for a length
    /// together with a transfer coding, for a transfer coding in HTTP/1.0, and for one that does
    /// not end with `chunked` (RFC 9112 §6.1, §6.3); `not_implemented` for other codings before it.
    pub fn framing(&self) -> Result<Framing, Error> {
        match declared(&self.headers, self.version) {
            Ok(Declared::Nothing | Declared::Length(0)) => Ok(Framing::Empty),
            Ok(Declared::Length(length)) => Ok(Framing::Length(length)),
            Ok(Declared::Chunked) => Ok(Framing::Chunked),
            Err(Distrust::Broken(why)) => Err(bad_request(why)),
            Err(Distrust::Coding) => Err(refused(
                ErrorCode::NotImplemented,
                "the only transfer coding is chunked",
            )),
        }
    }

    /// Whether the sender waits for `100 Continue` before its body (RFC 9110 §10.1.1).
    #[must_use]
    pub fn expects_continue(&self) -> bool {
        self.version == Version::Http11
            && self
                .headers
                .elements(EXPECT)
                .any(|expectation| expectation.eq_ignore_ascii_case("100-continue"))
    }

    /// Whether the sender wants to use the connection again (RFC 9112 §9.3).
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        persists(&self.headers, self.version)
    }
}

impl ResponseHead {
    /// How the body behind this answer to a `request` is delimited.
    ///
    /// # Errors
    /// `peer_misbehaved` where [`RequestHead::framing`] would refuse.
    pub fn framing(&self, request: &Method) -> Result<Framing, Error> {
        // RFC 9112 §6.3 rule 1: these have no body, whatever the headers say.
        if *request == Method::Head || self.is_interim() || matches!(self.status, 204 | 304) {
            return Ok(Framing::Empty);
        }
        match declared(&self.headers, self.version) {
            Ok(Declared::Nothing) => Ok(Framing::UntilClose),
            Ok(Declared::Length(0)) => Ok(Framing::Empty),
            Ok(Declared::Length(length)) => Ok(Framing::Length(length)),
            Ok(Declared::Chunked) => Ok(Framing::Chunked),
            Err(Distrust::Broken(why)) => Err(misbehaved(why)),
            Err(Distrust::Coding) => Err(misbehaved("the answer has a transfer coding other than chunked")),
        }
    }

    /// Whether the connection may be used again after this answer, provided that the body was not
    /// delimited by the connection's end.
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        persists(&self.headers, self.version)
    }

    /// Whether this is an interim answer (1xx) that another one follows (RFC 9110 §15.2).
    #[must_use]
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status)
    }
}

fn declared(headers: &Headers, version: Version) -> Result<Declared, Distrust> {
    let mut length: Option<u64> = None;
    for value in headers.all(CONTENT_LENGTH) {
        let value = plain_number(value).ok_or(Distrust::Broken("Content-Length is not a plain number"))?;
        if length.is_some_and(|other| other != value) {
            return Err(Distrust::Broken("two different values of Content-Length"));
        }
        length = Some(value);
    }
    let mut codings = headers.all(TRANSFER_ENCODING);
    let Some(coding) = codings.next() else {
        return Ok(length.map_or(Declared::Nothing, Declared::Length));
    };
    if length.is_some() {
        return Err(Distrust::Broken("Content-Length together with Transfer-Encoding"));
    }
    if version == Version::Http10 {
        return Err(Distrust::Broken("Transfer-Encoding in HTTP/1.0"));
    }
    if codings.next().is_some() {
        return Err(Distrust::Broken("more than one Transfer-Encoding"));
    }
    if coding.eq_ignore_ascii_case("chunked") {
        return Ok(Declared::Chunked);
    }
    // Without chunked as the last one the end of the body is unknown, whatever the others are.
    let last = coding.rsplit(',').next().unwrap_or_default();
    if last.trim().eq_ignore_ascii_case("chunked") {
        Err(Distrust::Coding)
    } else {
        Err(Distrust::Broken("chunked is not the last transfer coding"))
    }
}

/// A number of digits only: no sign, no blank, no list (RFC 9110 §8.6).
pub(crate) fn plain_number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn persists(headers: &Headers, version: Version) -> bool {
    let says = |option: &str| {
        headers
            .elements(CONNECTION)
            .any(|element| element.eq_ignore_ascii_case(option))
    };
    match version {
        Version::Http11 => !says("close"),
        Version::Http10 => says("keep-alive") && !says("close"),
    }
}
