//! Reads heads from bytes (RFC 9112 §2-§5), strictly: where readers have been known to disagree
//! about a malformed head, it is refused, because a disagreement lets requests be smuggled.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use types::limits::{HEAD_BYTES_MAX, HEADER_COUNT_MAX};
use types::{Error, ErrorCode};

use crate::fault::{bad_request, misbehaved, refused};
use crate::head::{Method, RequestHead, ResponseHead, Target, Version};
use crate::headers::Headers;
use crate::last_headers::LastHeaders;
use crate::names::HOST;

/// How large a head may be.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Bytes of the whole head with its empty line.
    pub head_bytes: usize,
    /// Number of header lines, at most [`HEADER_COUNT_MAX`].
    pub header_count: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self {
            head_bytes: HEAD_BYTES_MAX,
            header_count: HEADER_COUNT_MAX,
        }
    }
}

/// What every HTTP/2 connection begins with (RFC 9113 §3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// What stands in the way of a head, before it is known whose fault that is.
enum Fault {
    TooLarge(String),
    Malformed(&'static str),
}

/// Reads a request head from the start of `buffer`: the head and the number of bytes that it took,
/// or `None` while its end has not come yet. Empty lines before it are passed over (RFC 9112 §2.2).
///
/// # Errors
/// `head_too_large` beyond the limits; `bad_request` with the offending thing for anything
/// malformed: bare CR or LF, folded lines, a blank before a colon, control characters, text that is
/// not UTF-8, no Host in HTTP/1.1 or more than one, HTTP/2.
pub fn parse_request(buffer: &[u8], limits: &HeadLimits) -> Result<Option<(RequestHead, usize)>, Error> {
    if buffer.starts_with(HTTP2_PREFACE) {
        return Err(bad_request("HTTP/2 is not spoken here; use HTTP/1.1"));
    }
    let Some(span) = find_head(buffer, limits).map_err(request_error)? else {
        return Ok(None);
    };
    let end = span.end;
    let bytes = &buffer[span];
    let text = std::str::from_utf8(bytes).map_err(|_| bad_request("the request head is not UTF-8"))?;

    let mut slots: [MaybeUninit<httparse::Header<'_>>; HEADER_COUNT_MAX] =
        [const { MaybeUninit::uninit() }; HEADER_COUNT_MAX];
    let mut raw = httparse::Request::new(&mut []);
    let count = limits.header_count.min(HEADER_COUNT_MAX);
    httparse::ParserConfig::default()
        .parse_request_with_uninit_headers(&mut raw, bytes, &mut slots[..count])
        .map_err(|cause| request_error(explain(cause, count)))?;
    let line = parse_line(&raw)?;
    let lines_start = memchr::memchr(b'\n', bytes).map_or(0, |line_feed| line_feed + 1);
    let headers = collect(text[lines_start..].to_owned(), &bytes[lines_start..], raw.headers);
    let head = line.with(Arc::new(headers));
    check_host(&head)?;
    Ok(Some((head, end)))
}

/// As [`parse_request`], for the request that follows another one on the same connection: most
/// clients send the same header lines with each, and lines that are the same to the byte are read
/// no second time.
///
/// # Errors
/// As [`parse_request`].
pub fn parse_next_request(
    buffer: &[u8],
    limits: &HeadLimits,
    last: &mut LastHeaders,
) -> Result<Option<(RequestHead, usize)>, Error> {
    if let Some(known) = parse_known(buffer, limits, last) {
        return Ok(Some(known));
    }
    let parsed = parse_request(buffer, limits)?;
    if let Some((head, _)) = &parsed {
        last.keep(head);
    }
    Ok(parsed)
}

/// A head whose header lines are those of the last one. Whatever is odd about it is left to
/// [`parse_request`].
fn parse_known(buffer: &[u8], limits: &HeadLimits, last: &LastHeaders) -> Option<(RequestHead, usize)> {
    let window = &buffer[..buffer.len().min(limits.head_bytes)];
    let start = first_line(window);
    let lines_start = start + memchr::memchr(b'\n', &window[start..])? + 1;
    let (headers, version) = last.find(&window[lines_start..], limits.header_count)?;
    let line = &window[start..lines_start];
    if !line.ends_with(b"\r\n") || !line.is_ascii() {
        return None;
    }
    let mut raw = httparse::Request::new(&mut []);
    // The line is read, and then the header lines are found missing.
    httparse::ParserConfig::default()
        .parse_request_with_uninit_headers(&mut raw, line, &mut [])
        .ok()?;
    let line = parse_line(&raw).ok().filter(|line| line.version == version)?;
    let end = lines_start + headers.text().len();
    Some((line.with(headers.clone()), end))
}

/// What the first line of a request says.
struct RequestLine {
    method: Method,
    target: Target,
    version: Version,
}

impl RequestLine {
    fn with(self, headers: Arc<Headers>) -> RequestHead {
        RequestHead {
            method: self.method,
            target: self.target,
            version: self.version,
            headers,
        }
    }
}

fn parse_line(raw: &httparse::Request<'_, '_>) -> Result<RequestLine, Error> {
    let version = version_of(raw.version).ok_or_else(|| bad_request("unknown HTTP version"))?;
    let method = Method::from_name(raw.method.unwrap_or_default());
    let target = parse_target(raw.path.unwrap_or_default(), &method)?;
    Ok(RequestLine {
        method,
        target,
        version,
    })
}

/// Reads a response head from the start of `buffer`, as [`parse_request`] does. Bytes that are not
/// UTF-8 become question marks: peers put local text into reason phrases.
///
/// # Errors
/// `peer_misbehaved`, with the offending thing in the detail. The side is to be set by the caller.
pub fn parse_response(buffer: &[u8], limits: &HeadLimits) -> Result<Option<(ResponseHead, usize)>, Error> {
    let Some(span) = find_head(buffer, limits).map_err(response_error)? else {
        return Ok(None);
    };
    let end = span.end;
    let bytes = &buffer[span];
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes
            .iter()
            .map(|byte| if byte.is_ascii() { *byte as char } else { '?' })
            .collect(),
    };

    let mut slots: [MaybeUninit<httparse::Header<'_>>; HEADER_COUNT_MAX] =
        [const { MaybeUninit::uninit() }; HEADER_COUNT_MAX];
    let mut raw = httparse::Response::new(&mut []);
    let count = limits.header_count.min(HEADER_COUNT_MAX);
    httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut raw, bytes, &mut slots[..count])
        .map_err(|cause| response_error(explain(cause, count)))?;
    let version = version_of(raw.version).ok_or_else(|| misbehaved("unknown HTTP version"))?;
    let status = raw
        .code
        .filter(|code| *code >= 100)
        .ok_or_else(|| misbehaved("a status below 100"))?;
    // Taken from the text, because the library drops a phrase that is not ASCII.
    let status_line = text.split("\r\n").next().unwrap_or_default();
    let reason = status_line.splitn(3, ' ').nth(2).unwrap_or_default().trim().to_owned();
    let headers = collect(text, bytes, raw.headers);
    Ok(Some((
        ResponseHead {
            status,
            reason,
            version,
            headers,
        },
        end,
    )))
}

fn request_error(fault: Fault) -> Error {
    match fault {
        Fault::TooLarge(what) => refused(ErrorCode::HeadTooLarge, what),
        Fault::Malformed(what) => bad_request(what),
    }
}

fn response_error(fault: Fault) -> Error {
    match fault {
        Fault::TooLarge(what) => misbehaved(what),
        Fault::Malformed(what) => misbehaved(what),
    }
}

/// Finds the head: from behind leading empty lines to behind its own empty line.
fn find_head(buffer: &[u8], limits: &HeadLimits) -> Result<Option<Range<usize>>, Fault> {
    let window = &buffer[..buffer.len().min(limits.head_bytes)];
    let start = first_line(window);
    let mut line_start = start;
    for line_feed in memchr::memchr_iter(b'\n', &window[start..]).map(|at| at + start) {
        if line_feed == line_start || window[line_feed - 1] != b'\r' {
            return Err(Fault::Malformed("a line that does not end in CR LF"));
        }
        if line_feed == line_start + 1 {
            return Ok(Some(start..line_feed + 1));
        }
        line_start = line_feed + 1;
    }
    if buffer.len() >= limits.head_bytes {
        return Err(Fault::TooLarge(format!("the limit is {} bytes", limits.head_bytes)));
    }
    Ok(None)
}

/// Where the first line begins, behind empty ones (RFC 9112 §2.2).
fn first_line(window: &[u8]) -> usize {
    let mut start = 0;
    while window[start..].starts_with(b"\r\n") {
        start += 2;
    }
    start
}

fn explain(cause: httparse::Error, count: usize) -> Fault {
    match cause {
        httparse::Error::TooManyHeaders => Fault::TooLarge(format!("the limit is {count} header lines")),
        httparse::Error::HeaderName => Fault::Malformed("a malformed header name, or a folded header line"),
        httparse::Error::HeaderValue => Fault::Malformed("a control character in a header value"),
        httparse::Error::NewLine => Fault::Malformed("a CR that no LF follows"),
        httparse::Error::Status => Fault::Malformed("a malformed status line"),
        httparse::Error::Token => Fault::Malformed("a malformed start line"),
        httparse::Error::Version => Fault::Malformed("not HTTP/1.0 or HTTP/1.1"),
    }
}

fn version_of(minor: Option<u8>) -> Option<Version> {
    match minor {
        Some(0) => Some(Version::Http10),
        Some(1) => Some(Version::Http11),
        _ => None,
    }
}

/// Turns the fields that were found in `bytes` into positions in `text`, which has the same length.
fn collect(text: String, bytes: &[u8], found: &[httparse::Header<'_>]) -> Headers {
    let mut headers = Headers::with_text(text, found.len());
    let base = bytes.as_ptr() as usize;
    let place = |start: *const u8, length: usize| {
        // An empty value has no position of its own in the head.
        let offset = if length == 0 { 0 } else { start as usize - base };
        offset..offset + length
    };
    for field in found {
        headers.push_span(
            place(field.name.as_ptr(), field.name.len()),
            place(field.value.as_ptr(), field.value.len()),
        );
    }
    headers
}

fn parse_target(raw: &str, method: &Method) -> Result<Target, Error> {
    if raw.bytes().any(|byte| byte.is_ascii_control() || byte == b'#') {
        return Err(bad_request("a control character or a fragment in the request target"));
    }
    if raw == "*" && matches!(method, Method::Options) {
        return Ok(Target {
            path_raw: raw.to_owned(),
            query: None,
            authority: None,
        });
    }
    let (authority, rest) = if raw.starts_with('/') {
        (None, raw)
    } else {
        let (scheme, rest) = raw
            .split_once("://")
            .ok_or_else(|| bad_request("the request target is not a path or URL"))?;
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Err(bad_request("the scheme of the request target is not http or https"));
        }
        let cut = rest.find(['/', '?']).unwrap_or(rest.len());
        let authority = &rest[..cut];
        if authority.is_empty() || !is_host(authority) {
            return Err(bad_request("the host in the request target is malformed"));
        }
        (Some(authority.to_owned()), &rest[cut..])
    };
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (rest, None),
    };
    let path_raw = if path.is_empty() {
        "/".to_owned()
    } else {
        path.to_owned()
    };
    Ok(Target {
        path_raw,
        query,
        authority,
    })
}

/// RFC 9112 §3.2: exactly one Host in HTTP/1.1; in HTTP/1.0 it may be absent.
fn check_host(head: &RequestHead) -> Result<(), Error> {
    let mut hosts = head.headers.all(HOST);
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => Err(bad_request("more than one Host header")),
        (None, None) if head.version == Version::Http11 => Err(bad_request("no Host header")),
        (Some(host), None) if !is_host(host) => Err(bad_request("the Host header is malformed")),
        _ => Ok(()),
    }
}

/// Whether the text can be `host[:port]` (RFC 9110 §7.2; may be empty). What is refused here is
/// what could be taken for a user name, a path or a second host.
fn is_host(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=:[]".contains(&byte))
}
