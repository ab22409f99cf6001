//! Builds request heads: the typed setters of the client and the active side.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use types::{ByteRange, Checksum, ChecksumAlgorithm, Location, Secret};

use crate::digest::{digest_value, repr_digest_value, want_digest_value, want_repr_digest_value};
use crate::head::Method;
use crate::headers::{is_token, push_field};
use crate::names::{
    AUTHORIZATION, CLIENT_INFO, CONTENT_LENGTH, CONTENT_MD5, CONTENT_TYPE, COPY_FLAGS, CREDENTIAL, DEPTH, DESTINATION,
    DIGEST, EXPECT, HOST, IF_MATCH, IF_NONE_MATCH, IF_RANGE, LINK_LIMIT, NUMBER_OF_STREAMS, OC_MTIME, OVERWRITE, RANGE,
    REPR_DIGEST, REQUIRE_VERIFICATION, SCITAG, SOURCE, TE, TRACEPARENT, TRAILER, TRANSFER_ENCODING,
    TRANSFER_HEADER_PREFIX, TRANSFER_STATUS, USER_AGENT, WANT_DIGEST, WANT_REPR_DIGEST, WEBHOOK_ID, WEBHOOK_SIGNATURE,
    WEBHOOK_TIMESTAMP, X_NO_DELEGATE,
};
use crate::request::Depth;
use crate::tpc::ForwardedHeaders;

/// A request head in the making. Values cannot break out of their line: control characters become
/// blanks. Holds credentials, so printing shows nothing.
#[derive(Clone)]
pub struct RequestBuilder {
    text: String,
}

impl std::fmt::Debug for RequestBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.text.split(['?', '\r', ' ']).next().unwrap_or_default())
    }
}

impl RequestBuilder {
    /// Begins with the request line and the Host header (RFC 9112 §3).
    #[must_use]
    pub fn new(method: &Method, place: &Location) -> Self {
        let mut text = String::with_capacity(512);
        text.push_str(method.name());
        text.push(' ');
        for character in place.target().chars() {
            // A blank or control character would end the target.
            if character <= ' ' || character == '\x7f' {
                text.push_str(&format!("%{:02X}", character as u32));
            } else {
                text.push(character);
            }
        }
        text.push_str(" HTTP/1.1\r\n");
        push_field(&mut text, HOST, &place.authority());
        Self { text }
    }

    fn field(mut self, name: &str, value: &str) -> Self {
        push_field(&mut self.text, name, value);
        self
    }

    /// The client's name and version.
    #[must_use]
    pub fn user_agent(self, name: &str) -> Self {
        self.field(USER_AGENT, name)
    }

    /// Everything is welcome as an answer.
    #[must_use]
    pub fn accept_anything(self) -> Self {
        self.field("Accept", "*/*")
    }

    /// Every media type is welcome, but the bytes must be those of the file: no content coding (RFC
    /// 9110 §12.5.3).
    #[must_use]
    pub fn accept_file(self) -> Self {
        self.accept_anything().field("Accept-Encoding", "identity")
    }

    /// The media type wanted.
    #[must_use]
    pub fn accept(self, media_type: &str) -> Self {
        self.field("Accept", media_type)
    }

    /// The token for this server (RFC 6750 §2.1).
    #[must_use]
    pub fn bearer(self, token: &Secret) -> Self {
        self.field(AUTHORIZATION, &format!("Bearer {}", token.expose()))
    }

    /// The name and secret of this program at a token issuer (RFC 7617, with both parts encoded as
    /// RFC 6749 §2.3.1 says).
    #[must_use]
    pub fn basic(self, name: &str, secret: &Secret) -> Self {
        let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = Secret::new(format!("{}:{}", encoded(name), encoded(secret.expose())));
        let value = Secret::new(BASE64.encode(pair.expose()));
        self.field(AUTHORIZATION, &format!("Basic {}", value.expose()))
    }

    /// The token that the active side of a copy shows to the other server (WLCG HTTP-TPC).
    #[must_use]
    pub fn transfer_bearer(self, token: &Secret) -> Self {
        self.transfer_header(AUTHORIZATION, &Secret::new(format!("Bearer {}", token.expose())))
    }

    /// A header that the active side of a copy sends to the other server. Nothing is sent when the
    /// name is not a token.
    #[must_use]
    pub fn transfer_header(mut self, name: &str, value: &Secret) -> Self {
        if is_token(name) {
            push_field(
                &mut self.text,
                &format!("{TRANSFER_HEADER_PREFIX}{name}"),
                value.expose(),
            );
        }
        self
    }

    /// Headers that a client handed over for this server.
    #[must_use]
    pub fn forwarded(mut self, headers: &ForwardedHeaders) -> Self {
        for (name, value) in headers.iter() {
            push_field(&mut self.text, name, value.expose());
        }
        self
    }

    /// One part of the file, not empty (RFC 9110 §14.2).
    #[must_use]
    pub fn range(self, range: ByteRange) -> Self {
        self.field(RANGE, &format!("bytes={}", range_spec(range)))
    }

    /// The content becomes a blob of one piece ("Put Blob" of Azure Storage).
    #[must_use]
    pub fn block_blob(self) -> Self {
        self.field("x-ms-blob-type", "BlockBlob")
    }

    /// Several parts of the file, none empty (RFC 9110 §14.2): the answer has them in one multipart
    /// body.
    #[must_use]
    pub fn ranges(self, ranges: impl IntoIterator<Item = ByteRange>) -> Self {
        let list: Vec<_> = ranges.into_iter().map(range_spec).collect();
        self.field(RANGE, &format!("bytes={}", list.join(",")))
    }

    /// The file from an offset to its end.
    #[must_use]
    pub fn range_from(self, start: u64) -> Self {
        self.field(RANGE, &format!("bytes={start}-"))
    }

    /// Only if the file still has this tag, quotes included (RFC 9110 §13.1.1).
    #[must_use]
    pub fn if_match(self, tag: &str) -> Self {
        self.field(IF_MATCH, tag)
    }

    /// The range only if the file still has this tag or date, else the whole (RFC 9110 §13.1.5).
    #[must_use]
    pub fn if_range(self, validator: &str) -> Self {
        self.field(IF_RANGE, validator)
    }

    /// Only if there is no such file yet (RFC 9110 §13.1.2).
    #[must_use]
    pub fn if_absent(self) -> Self {
        self.field(IF_NONE_MATCH, "*")
    }

    /// The body waits for `100 Continue` (RFC 9110 §10.1.1).
    #[must_use]
    pub fn expect_continue(self) -> Self {
        self.field(EXPECT, "100-continue")
    }

    /// Asks for the file's checksum in both forms (RFC 3230, RFC 9530), best algorithm first; for
    /// none, if there is none among them that servers of HTTP know.
    #[must_use]
    pub fn want_digests(self, algorithms: &[ChecksumAlgorithm]) -> Self {
        let wanted = want_digest_value(algorithms);
        if wanted.is_empty() {
            return self;
        }
        self.field(WANT_DIGEST, &wanted)
            .field(WANT_REPR_DIGEST, &want_repr_digest_value(algorithms))
    }

    /// Declares the checksum of the body (PUT), or of the data expected (COPY), in the newer form.
    #[must_use]
    pub fn repr_digest(self, checksum: &Checksum) -> Self {
        self.field(REPR_DIGEST, &repr_digest_value(checksum))
    }

    /// Declares the checksum of the body in the older form.
    #[must_use]
    pub fn digest(self, checksum: &Checksum) -> Self {
        self.field(DIGEST, &digest_value(checksum))
    }

    /// Declares the MD5 of the body in the form that object stores compare (RFC 1864).
    #[must_use]
    pub fn content_md5(self, md5: &Checksum) -> Self {
        self.field(CONTENT_MD5, &md5.to_base64())
    }

    /// Length of the body, in bytes.
    #[must_use]
    pub fn content_length(self, bytes: u64) -> Self {
        self.field(CONTENT_LENGTH, &bytes.to_string())
    }

    /// The body comes in chunks (RFC 9112 §7.1).
    #[must_use]
    pub fn chunked(self) -> Self {
        self.field(TRANSFER_ENCODING, "chunked")
    }

    /// Announces a Digest trailer behind the chunks.
    #[must_use]
    pub fn digest_trailer(self) -> Self {
        self.field(TRAILER, DIGEST)
    }

    /// The body's media type.
    #[must_use]
    pub fn content_type(self, value: &str) -> Self {
        self.field(CONTENT_TYPE, value)
    }

    /// Pull from here.
    #[must_use]
    pub fn source(self, place: &Location) -> Self {
        self.field(SOURCE, &place.to_wire())
    }

    /// Push (COPY) or move (MOVE) to here.
    #[must_use]
    pub fn destination(self, place: &Location) -> Self {
        self.field(DESTINATION, &place.to_wire())
    }

    /// How many streams the active side is to use.
    #[must_use]
    pub fn number_of_streams(self, count: u32) -> Self {
        self.field(NUMBER_OF_STREAMS, &count.to_string())
    }

    /// Whether an existing destination may be replaced (RFC 4918 §10.6).
    #[must_use]
    pub fn overwrite(self, allowed: bool) -> Self {
        self.field(OVERWRITE, if allowed { "T" } else { "F" })
    }

    /// The active side shall use no credentials but those of the transfer headers.
    #[must_use]
    pub fn credential_none(self) -> Self {
        self.field(CREDENTIAL, "none")
    }

    /// The active side shall not ask about the other one's file before it moves it, as gfal says it
    /// with signed URLs: such a URL is good for one method.
    #[must_use]
    pub fn no_head(self) -> Self {
        self.field(COPY_FLAGS, "NoHead")
    }

    /// The active side shall ask for no proxy, as gfal says it with signed URLs.
    #[must_use]
    pub fn no_delegate(self) -> Self {
        self.field(X_NO_DELEGATE, "true")
    }

    /// The active side shall use the credential that we delegate to it, and may ask for one.
    #[must_use]
    pub fn credential_delegated(self) -> Self {
        self.field(CREDENTIAL, "gridsite")
    }

    /// The operation of a SOAP request is said in its body (SOAP 1.1 §6.1.1).
    #[must_use]
    pub fn soap(self, body: &[u8]) -> Self {
        let request = self.content_type("text/xml; charset=utf-8").field("SOAPAction", "\"\"");
        request.content_length(body.len() as u64)
    }

    /// Whether the active side must compare checksums itself.
    #[must_use]
    pub fn require_checksum_verification(self, required: bool) -> Self {
        self.field(REQUIRE_VERIFICATION, if required { "true" } else { "false" })
    }

    /// How deep a PROPFIND looks (RFC 4918 §10.2).
    #[must_use]
    pub fn depth(self, depth: Depth) -> Self {
        let value = match depth {
            Depth::Zero => "0",
            Depth::One => "1",
            Depth::Infinity => "infinity",
        };
        self.field(DEPTH, value)
    }

    /// The job that this request is for, as `key=value;…`.
    #[must_use]
    pub fn client_info(self, info: &str) -> Self {
        self.field(CLIENT_INFO, info)
    }

    /// How far symbolic links may lead in the path: a path, or another word for no link at all. For
    /// our own servers.
    #[must_use]
    pub fn link_limit(self, limit: &str) -> Self {
        self.field(LINK_LIMIT, limit)
    }

    /// The trace that this request belongs to (W3C Trace Context).
    #[must_use]
    pub fn traceparent(self, value: &str) -> Self {
        self.field(TRACEPARENT, value)
    }

    /// The flow's tag (SciTags).
    #[must_use]
    pub fn scitag(self, tag: u16) -> Self {
        self.field(SCITAG, &tag.to_string())
    }

    /// Server-sent events after this one (WHATWG HTML §9.2.4).
    #[must_use]
    pub fn last_event_id(self, id: &str) -> Self {
        self.field("Last-Event-ID", id)
    }

    /// The message of a webhook: its id, the time of the attempt in seconds since 1970, and the
    /// signature of both with the body (<https://www.standardwebhooks.com>).
    #[must_use]
    pub fn webhook(self, id: &str, timestamp_s: i64, signature: &str) -> Self {
        self.field(WEBHOOK_ID, id)
            .field(WEBHOOK_TIMESTAMP, &timestamp_s.to_string())
            .field(WEBHOOK_SIGNATURE, signature)
    }

    /// Trailers are understood (RFC 9110 §10.1.4).
    #[must_use]
    pub fn accept_trailers(self) -> Self {
        self.field(TE, "trailers")
    }

    /// Asks for the outcome of a GET in a trailer, as XRootD offers it.
    #[must_use]
    pub fn want_status_trailer(self) -> Self {
        self.accept_trailers().field(TRANSFER_STATUS, "true")
    }

    /// The time of the last change to give to a file, in seconds since 1970, as ownCloud's and
    /// Nextcloud's clients and rclone send it.
    #[must_use]
    pub fn modified(self, unix_s: i64) -> Self {
        self.field(OC_MTIME, &unix_s.to_string())
    }

    /// The connection is not used again.
    #[must_use]
    pub fn close(self) -> Self {
        self.field(crate::names::CONNECTION, "close")
    }

    /// The finished head with its empty line.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut bytes = self.text.into_bytes();
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}

/// One range as requests have it: the last byte is named, not the one behind it.
fn range_spec(range: ByteRange) -> String {
    format!("{}-{}", range.start, range.end.saturating_sub(1))
}
