//! What an answer says, header by header: the client's view of [`ResponseHead`]. Peers write many
//! dialects, so these readers forgive; what cannot be read counts as absent.

use types::{Checksum, ChecksumAlgorithm, Error};

use crate::date::parse_date;
use crate::digest::{parse_content_md5, parse_digest, parse_repr_digest};
use crate::fault::misbehaved;
use crate::head::{ResponseHead, plain_number};
use crate::headers::Headers;
use crate::names::{
    AGE, CONTENT_DIGEST, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_MD5, CONTENT_RANGE, CONTENT_TYPE,
    DELEGATE_TO, DIGEST, ETAG, LAST_MODIFIED, LOCATION, OC_MTIME, REPR_DIGEST, RETRY_AFTER, SERVER, TRANSFER_STATUS,
    WWW_AUTHENTICATE,
};
use crate::range::ContentRange;
use crate::request::declared;

impl ResponseHead {
    /// The announced length in bytes: of the body, or of what GET would send after HEAD.
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        self.headers.get(CONTENT_LENGTH).and_then(plain_number)
    }

    /// Which part of the file the body is.
    #[must_use]
    pub fn content_range(&self) -> Option<ContentRange> {
        self.headers.get(CONTENT_RANGE).and_then(ContentRange::parse)
    }

    /// The entity tag with its quotes; a weak one begins with `W/`.
    #[must_use]
    pub fn etag(&self) -> Option<&str> {
        self.headers.get(ETAG).filter(|tag| !tag.is_empty())
    }

    /// How long ago a cache on the way has asked the origin, in seconds (RFC 9111 §5.1).
    #[must_use]
    pub fn age(&self) -> Option<u64> {
        plain_number(self.headers.get(AGE)?)
    }

    /// When the answer was made, in seconds since 1970 (RFC 9110 §6.6.1).
    #[must_use]
    pub fn date(&self) -> Option<i64> {
        self.headers.get("Date").and_then(parse_date)
    }

    /// Time of the last change, in seconds since the epoch.
    #[must_use]
    pub fn last_modified(&self) -> Option<i64> {
        self.headers.get(LAST_MODIFIED).and_then(parse_date)
    }

    /// The last change as it was written, to be sent back as a validator.
    #[must_use]
    pub fn last_modified_text(&self) -> Option<&str> {
        self.headers.get(LAST_MODIFIED)
    }

    /// Whether the server gave the uploaded file the time that was sent with it.
    #[must_use]
    pub fn has_accepted_modified(&self) -> bool {
        let answer = self.headers.get(OC_MTIME);
        answer.is_some_and(|answer| answer.trim().eq_ignore_ascii_case("accepted"))
    }

    /// Whether ranges are offered (RFC 9110 §14.3); `None` when nothing is said.
    #[must_use]
    pub fn accepts_ranges(&self) -> Option<bool> {
        self.headers
            .get("Accept-Ranges")
            .map(|value| value.eq_ignore_ascii_case("bytes"))
    }

    /// The checksums of the whole file, each algorithm once: of Repr-Digest, Digest, then (unless
    /// the body is a part of the file) Content-Digest and Content-MD5, then OC-Checksum.
    #[must_use]
    pub fn digests(&self) -> Vec<Checksum> {
        digests_of(
            &self.headers,
            self.status == 206 || self.headers.contains(CONTENT_RANGE),
        )
    }

    /// The file's checksum of one algorithm.
    #[must_use]
    pub fn digest(&self, algorithm: ChecksumAlgorithm) -> Option<Checksum> {
        self.digests()
            .into_iter()
            .find(|checksum| checksum.algorithm() == algorithm)
    }

    /// Where to go instead.
    #[must_use]
    pub fn location(&self) -> Option<&str> {
        self.headers.get(LOCATION).filter(|url| !url.is_empty())
    }

    /// Where a credential is to be delegated before the request is made again: the first of these
    /// that takes one.
    pub fn delegate_to(&self) -> impl Iterator<Item = &str> {
        self.headers.all(DELEGATE_TO).flat_map(str::split_whitespace)
    }

    /// The methods offered, as they are written.
    pub fn allow(&self) -> impl Iterator<Item = &str> {
        self.headers.elements("Allow")
    }

    /// The media type with its parameters.
    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.headers.get(CONTENT_TYPE)
    }

    /// Whether the body is a page of HTML.
    #[must_use]
    pub fn is_html(&self) -> bool {
        let kind = self.content_type().and_then(|kind| kind.split(';').next());
        kind.is_some_and(|kind| {
            let kind = kind.trim();
            kind.eq_ignore_ascii_case("text/html") || kind.eq_ignore_ascii_case("application/xhtml+xml")
        })
    }

    /// Whether the body says of itself that it is the listing of a directory: as ours do, by a name
    /// with a slash at its end.
    #[must_use]
    pub fn is_listing(&self) -> bool {
        let name = self.headers.get(CONTENT_LOCATION);
        name.is_some_and(|name| name.split(['?', '#']).next().is_some_and(|path| path.ends_with('/')))
    }

    /// The coding of the body, when it is not the file as it is (RFC 9110 §8.4).
    #[must_use]
    pub fn content_coding(&self) -> Option<&str> {
        let mut codings = self.headers.elements(CONTENT_ENCODING);
        codings.find(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
    }

    /// The boundary, when the body is several parts of a file (RFC 9110 §14.6).
    #[must_use]
    pub fn multipart_boundary(&self) -> Option<&str> {
        let mut parts = self.headers.get(CONTENT_TYPE)?.split(';').map(str::trim);
        parts
            .next()
            .filter(|kind| kind.eq_ignore_ascii_case("multipart/byteranges"))?;
        let (_, value) = parts
            .filter_map(|part| part.split_once('='))
            .find(|(key, _)| key.eq_ignore_ascii_case("boundary"))?;
        let boundary = value.trim_matches('"');
        (1..=70).contains(&boundary.len()).then_some(boundary)
    }

    /// Seconds to wait (RFC 9110 §10.2.3). A date is counted from that of the answer itself, so
    /// that no two clocks are compared; without that one it counts as absent, and in the past as 0.
    #[must_use]
    pub fn retry_after(&self) -> Option<u64> {
        let value = self.headers.get(RETRY_AFTER)?;
        let until = || {
            let seconds = parse_date(value)?.saturating_sub(self.date()?);
            Some(u64::try_from(seconds).unwrap_or(0))
        };
        plain_number(value).or_else(until)
    }

    /// Whether the server calls itself XRootD, with or without its version.
    #[must_use]
    pub fn is_from_xrootd(&self) -> bool {
        let name = self.headers.get(SERVER).and_then(|server| server.get(..6));
        name.is_some_and(|name| name.eq_ignore_ascii_case("xrootd"))
    }

    /// Whether the server calls itself Crossload.
    #[must_use]
    pub fn is_from_crossload(&self) -> bool {
        let product = self.headers.get(SERVER).and_then(|server| server.split('/').next());
        product.is_some_and(|product| product.eq_ignore_ascii_case("crossload"))
    }

    /// Whether what was asked for was done.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.status / 100 == 2
    }

    /// What the server calls itself.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.headers.get(SERVER)
    }

    /// How the server wants to be authenticated to, as it says it.
    #[must_use]
    pub fn www_authenticate(&self) -> Option<&str> {
        self.headers.get(WWW_AUTHENTICATE)
    }
}

/// The checksums of the whole file in the trailer behind an answer; `is_part` where the body was a
/// part of it. Unlike those of the head they are the last word about data that has come, so one
/// that cannot be read is a fault.
///
/// # Errors
/// `peer_misbehaved` when the value of a known algorithm cannot be read; the caller sets the side.
pub fn trailer_digests(trailers: &Headers, is_part: bool) -> Result<Vec<Checksum>, Error> {
    if let Some(Err(bad)) = declared(trailers).find(Result::is_err) {
        return Err(misbehaved(format!(
            "the {} digest in the trailer cannot be read",
            bad.0
        )));
    }
    Ok(digests_of(trailers, is_part))
}

/// The outcome of a GET in its trailer, as XRootD sends it: status and message. `None` when there
/// is none.
#[must_use]
pub fn transfer_status(trailers: &Headers) -> Option<(u16, &str)> {
    let (status, message) = trailers.get(TRANSFER_STATUS)?.split_once(':')?;
    Some((status.trim().parse().ok()?, message.trim()))
}

fn digests_of(headers: &Headers, partial: bool) -> Vec<Checksum> {
    let mut found: Vec<Checksum> = Vec::new();
    let mut keep = |checksum: Checksum| {
        if !found.iter().any(|known| known.algorithm() == checksum.algorithm()) {
            found.push(checksum);
        }
    };
    headers
        .all(REPR_DIGEST)
        .flat_map(parse_repr_digest)
        .flatten()
        .for_each(&mut keep);
    headers.all(DIGEST).flat_map(parse_digest).flatten().for_each(&mut keep);
    if !partial {
        headers
            .all(CONTENT_DIGEST)
            .flat_map(parse_repr_digest)
            .flatten()
            .for_each(&mut keep);
        headers.all(CONTENT_MD5).flat_map(parse_content_md5).for_each(&mut keep);
    }
    headers
        .elements("OC-Checksum")
        .filter_map(Checksum::from_pair)
        .for_each(&mut keep);
    found
}
