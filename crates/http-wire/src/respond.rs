//! Builds response heads: the server's typed setters.

use types::{ByteRange, Checksum};

use crate::date::push_date;
use crate::digest::{digest_value, repr_digest_value};
use crate::head::Method;
use crate::headers::{Headers, is_token, push_value_bytes};
use crate::names::{
    AGE, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE, CONTENT_TYPE, DELEGATE_TO, DIGEST,
    ETAG, LAST_MODIFIED, LOCATION, LOCK_TOKEN, OC_MTIME, REPR_DIGEST, RETRY_AFTER, SERVER, TRAILER, TRANSFER_ENCODING,
    TRANSFER_STATUS, WWW_AUTHENTICATE,
};
use crate::number::push_number;
use crate::range::{Multipart, content_range_value};
use crate::status::reason_phrase;

/// Room for the usual head, and for a short body that is put behind it.
const HEAD_BYTES: usize = 1024;

/// Fields that say how the message is framed, and when and by whom it was sent.
const OF_MESSAGE: [&str; 8] = [
    CONNECTION,
    CONTENT_LENGTH,
    "Date",
    REQUEST_ID,
    SERVER,
    TRAILER,
    TRANSFER_ENCODING,
    "Upgrade",
];
/// Where the name of the request stands.
const REQUEST_ID: &str = "X-Request-Id";

/// The interim answer that asks for the body (RFC 9110 §15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The media types of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// Bytes of a file.
    Bytes,
    /// Text for people.
    Text,
    /// A page.
    Html,
    /// JSON.
    Json,
    /// JSON, one value in each line.
    JsonLines,
    /// A WebDAV multistatus.
    Xml,
    /// Performance markers of a third-party copy.
    PerfMarkers,
}

impl ContentType {
    /// The value of the header.
    #[must_use]
    pub fn value(self) -> &'static str {
        match self {
            Self::Bytes => "application/octet-stream",
            Self::Text => "text/plain; charset=utf-8",
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
            Self::JsonLines => "application/jsonl",
            // In the spelling of the servers that clients were tried with.
            Self::Xml => "text/xml; charset=\"utf-8\"",
            Self::PerfMarkers => "text/perf-marker-stream",
        }
    }
}

/// Why a bearer token is asked for (RFC 6750 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BearerChallenge {
    /// There was none.
    Missing,
    /// It is expired, malformed, or not from an issuer trusted here.
    InvalidToken,
    /// It is good, but does not cover this request.
    InsufficientScope,
}

/// A response head in the making. Values cannot break out of their line: control characters become
/// blanks.
#[derive(Clone, Debug)]
pub struct ResponseBuilder {
    text: Vec<u8>,
}

impl ResponseBuilder {
    /// Begins with the status line.
    #[must_use]
    pub fn new(status: u16) -> Self {
        let mut text = Vec::with_capacity(HEAD_BYTES);
        text.extend_from_slice(b"HTTP/1.1 ");
        push_number(&mut text, status.into());
        text.push(b' ');
        text.extend_from_slice(reason_phrase(status).as_bytes());
        text.extend_from_slice(b"\r\n");
        Self { text }
    }

    fn field(self, name: &str, value: &str) -> Self {
        self.field_with(name, |text| push_value_bytes(text, value))
    }

    fn field_with(mut self, name: &str, push: impl FnOnce(&mut Vec<u8>)) -> Self {
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b": ");
        push(&mut self.text);
        self.text.extend_from_slice(b"\r\n");
        self
    }

    /// Length of the body, in bytes (for HEAD: that GET would send).
    #[must_use]
    pub fn content_length(self, bytes: u64) -> Self {
        self.field_with(CONTENT_LENGTH, |text| push_number(text, bytes))
    }

    /// The body comes in chunks (RFC 9112 §7.1).
    #[must_use]
    pub fn chunked(self) -> Self {
        self.field(TRANSFER_ENCODING, "chunked")
    }

    /// The body's media type.
    #[must_use]
    pub fn content_type(self, kind: ContentType) -> Self {
        self.field(CONTENT_TYPE, kind.value())
    }

    /// The body's media type, as text.
    #[must_use]
    pub fn content_type_text(self, value: &str) -> Self {
        self.field(CONTENT_TYPE, value)
    }

    /// The body is a page, which `policy` allows to load and run this (Content Security Policy 3).
    /// Where it leads, its address stays unknown: a query may hold a token. Programs get something
    /// else at the same address.
    #[must_use]
    pub fn page(self, policy: &str) -> Self {
        self.content_type(ContentType::Html)
            .field("Content-Security-Policy", policy)
            .field("Referrer-Policy", "no-referrer")
            .field("X-Content-Type-Options", "nosniff")
            .varies_by_accept()
    }

    /// Other clients get a body of another type at the same address, according to what they accept
    /// (RFC 9110 §12.5.5): a cache keeps the answers apart.
    #[must_use]
    pub fn varies_by_accept(self) -> Self {
        self.field("Vary", "Accept")
    }

    /// The body is several parts of a file (RFC 9110 §14.6).
    #[must_use]
    pub fn multipart(self, multipart: &Multipart) -> Self {
        self.field(
            CONTENT_TYPE,
            &format!("multipart/byteranges; boundary={}", multipart.boundary()),
        )
    }

    /// The entity tag, with its quotes (RFC 9110 §8.8.3).
    #[must_use]
    pub fn etag(self, tag: &str) -> Self {
        self.field(ETAG, tag)
    }

    /// Time of the last change, in seconds since the epoch.
    #[must_use]
    pub fn last_modified(self, unix_s: i64) -> Self {
        self.field_with(LAST_MODIFIED, |text| push_date(text, unix_s))
    }

    /// The uploaded file has the time that its sender gave ([`RequestHead::modified`]).
    ///
    /// [`RequestHead::modified`]: crate::RequestHead::modified
    #[must_use]
    pub fn modified_accepted(self) -> Self {
        self.field(OC_MTIME, "accepted")
    }

    /// The name of what the body shows, when that is not the name that was asked for (RFC 9110
    /// §8.7). A slash at its end says that it is the listing of a directory.
    #[must_use]
    pub fn content_location(self, path: &str) -> Self {
        self.field(CONTENT_LOCATION, path)
    }

    /// Ranges are served (RFC 9110 §14.3).
    #[must_use]
    pub fn accept_ranges(self) -> Self {
        self.field("Accept-Ranges", "bytes")
    }

    /// Which part of a file of `size_bytes` the body is; the part is not empty.
    #[must_use]
    pub fn content_range(self, range: ByteRange, size_bytes: u64) -> Self {
        self.field(CONTENT_RANGE, &content_range_value(range, size_bytes))
    }

    /// No asked-for range lies in the file of `size_bytes` (RFC 9110 §15.5.17).
    #[must_use]
    pub fn content_range_unsatisfied(self, size_bytes: u64) -> Self {
        self.field(CONTENT_RANGE, &format!("bytes */{size_bytes}"))
    }

    /// The file's checksum in the older form (RFC 3230). Once per answer.
    #[must_use]
    pub fn digest(self, checksum: &Checksum) -> Self {
        self.field(DIGEST, &digest_value(checksum))
    }

    /// The file's checksum in the newer form (RFC 9530). Once per answer.
    #[must_use]
    pub fn repr_digest(self, checksum: &Checksum) -> Self {
        self.field(REPR_DIGEST, &repr_digest_value(checksum))
    }

    /// Where to go instead, or where the new thing is.
    #[must_use]
    pub fn location(self, url: &str) -> Self {
        self.field(LOCATION, url)
    }

    /// Where the client is to delegate a credential before it asks again, as dCache has it.
    #[must_use]
    pub fn delegate_to(self, url: &str) -> Self {
        self.field(DELEGATE_TO, url)
    }

    /// The methods offered (RFC 9110 §10.2.1), without blanks, since XRootD's client does not trim.
    /// davix takes a server for WebDAV when PROPFIND or MKCOL is among them.
    #[must_use]
    pub fn allow(self, methods: &[Method]) -> Self {
        self.field("Allow", &methods.iter().map(Method::name).collect::<Vec<_>>().join(","))
    }

    /// WebDAV is spoken (RFC 4918 §10.1): class 1, or with locks class 2 as well. Windows looks at
    /// the second header, which FrontPage's server extensions brought, before it takes a server for
    /// one of WebDAV.
    #[must_use]
    pub fn dav(self, has_locks: bool) -> Self {
        let classes = if has_locks { "1, 2" } else { "1" };
        self.field("DAV", classes).field("MS-Author-Via", "DAV")
    }

    /// The token of a new lock (RFC 4918 §10.5).
    #[must_use]
    pub fn lock_token(self, token: &str) -> Self {
        self.field(LOCK_TOKEN, &format!("<{token}>"))
    }

    /// A bearer token is needed (RFC 6750 §3). Quotes in the realm become apostrophes.
    #[must_use]
    pub fn www_authenticate(self, realm: &str, why: BearerChallenge) -> Self {
        let realm = realm.replace(['"', '\\'], "'");
        let error = match why {
            BearerChallenge::Missing => "",
            BearerChallenge::InvalidToken => ", error=\"invalid_token\"",
            BearerChallenge::InsufficientScope => ", error=\"insufficient_scope\"",
        };
        self.field(WWW_AUTHENTICATE, &format!("Bearer realm=\"{realm}\"{error}"))
    }

    /// When to try again (RFC 9110 §10.2.3).
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        self.field(RETRY_AFTER, &seconds.to_string())
    }

    /// Whether the connection stays open behind this answer; says nothing where that goes without
    /// saying in HTTP/1.1.
    #[must_use]
    pub fn keep_alive(self, keep: bool) -> Self {
        if keep { self } else { self.field(CONNECTION, "close") }
    }

    /// Says to an HTTP/1.0 client that the connection stays open.
    #[must_use]
    pub fn keep_alive_http10(self) -> Self {
        self.field(CONNECTION, "keep-alive")
    }

    /// Announces the trailer with the outcome of a GET, as XRootD sends it.
    #[must_use]
    pub fn status_trailer(self) -> Self {
        self.field(TRAILER, TRANSFER_STATUS)
    }

    /// Announces a Digest trailer.
    #[must_use]
    pub fn digest_trailer(self) -> Self {
        self.field(TRAILER, DIGEST)
    }

    /// The server's name and version.
    #[must_use]
    pub fn server(self, name: &str) -> Self {
        self.field(SERVER, name)
    }

    /// The time of this answer, in seconds since the epoch (RFC 9110 §6.6.1).
    #[must_use]
    pub fn date(self, unix_s: i64) -> Self {
        self.field_with("Date", |text| push_date(text, unix_s))
    }

    /// The name under which this request is found in the log.
    #[must_use]
    pub fn request_id(self, id: &str) -> Self {
        self.field(REQUEST_ID, id)
    }

    /// Nothing on the way may keep this answer.
    #[must_use]
    pub fn no_store(self) -> Self {
        self.field(CACHE_CONTROL, "no-store")
    }

    /// How long ago the origin was asked about the stored bytes, in seconds (RFC 9111 §5.1).
    #[must_use]
    pub fn age(self, seconds: u64) -> Self {
        self.field_with(AGE, |text| push_number(text, seconds))
    }

    /// A field that says something about the content, as the handler of a control door sets it.
    /// Left out are those of the message itself, which its sender sets, and what is no field's
    /// name.
    #[must_use]
    pub fn content_field(self, name: &str, value: &str) -> Self {
        let is_of_message = OF_MESSAGE.iter().any(|known| name.eq_ignore_ascii_case(known));
        match is_of_message || !is_token(name) {
            true => self,
            false => self.field(name, value),
        }
    }

    /// The finished head with its empty line.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut bytes = self.text;
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}

/// The trailer that says how a GET ended: `200: OK`, or a status and a message.
#[must_use]
pub fn status_trailer(status: u16, message: &str) -> Headers {
    let mut trailers = Headers::new();
    trailers.append(TRANSFER_STATUS, &format!("{status}: {message}"));
    trailers
}

/// The trailer with a checksum (RFC 3230).
#[must_use]
pub fn digest_trailer(checksum: &Checksum) -> Headers {
    let mut trailers = Headers::new();
    trailers.append(DIGEST, &digest_value(checksum));
    trailers
}
