//! What a request says, header by header: the server's view of [`RequestHead`].

use types::{Checksum, ChecksumAlgorithm, Error, LogicalPath, Secret, decode_percent, encode_path, is_traceparent};

use crate::digest::{
    BadDigest, parse_content_md5, parse_digest, parse_repr_digest, parse_want_digest, parse_want_repr_digest,
};
use crate::fault::bad_request;
use crate::head::{Method, RequestHead, Target};
use crate::headers::Headers;
use crate::names::{
    AUTHORIZATION, CLIENT_INFO, CONTENT_DIGEST, CONTENT_MD5, CONTENT_RANGE, CONTENT_TYPE, DEPTH, DESTINATION, DIGEST,
    HOST, LINK_LIMIT, OC_MTIME, OVERWRITE, RANGE, REPR_DIGEST, SCITAG, SECURE_REDIRECTION, TE, TRACEPARENT,
    TRANSFER_STATUS, USER_AGENT, WANT_DIGEST, WANT_REPR_DIGEST,
};
use crate::range::{Ranges, parse_ranges};

/// How deep a PROPFIND looks (RFC 4918 §10.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The thing itself.
    Zero,
    /// Itself and its entries.
    One,
    /// Everything below.
    Infinity,
}

/// The credential that a request carries.
#[derive(Debug)]
pub enum Authorization<'h> {
    /// None.
    Absent,
    /// A bearer token (RFC 6750), from the header or from the query's `authz`.
    Bearer(BearerToken<'h>),
    /// Another scheme, or an empty token.
    Unsupported,
    /// Two headers that say different things: which of them counts would be a guess.
    Contradictory,
}

/// A bearer token as it came. One in a header stays where it is: a copy that is wiped afterwards
/// would cost each request more than the look into the memory of verified tokens does.
pub struct BearerToken<'h>(Came<'h>);

enum Came<'h> {
    InHeader(&'h str),
    InQuery(Secret),
}

impl BearerToken<'_> {
    /// The token itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        match &self.0 {
            Came::InHeader(token) => token,
            Came::InQuery(token) => token.expose(),
        }
    }
}

impl From<BearerToken<'_>> for Secret {
    fn from(token: BearerToken<'_>) -> Self {
        match token.0 {
            Came::InHeader(token) => Self::new(token),
            Came::InQuery(token) => token,
        }
    }
}

/// Only that there is one.
impl std::fmt::Debug for BearerToken<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("BearerToken")
    }
}

/// Where a MOVE or local COPY goes: a path, and the `host[:port]` when a URL was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationPath {
    /// The host of the URL, as written; `None` when only a path was given.
    pub authority: Option<String>,
    /// Whether the URL's scheme is one over TLS, which decides about its default port.
    pub is_encrypted: bool,
    /// The path.
    pub path: LogicalPath,
}

/// The parameter of a query that says so, as dCache has it.
const ASKED_TO_DELEGATE: &str = "asked-to-delegate";
/// The parameters of a query that hold bearer tokens: that of XRootD, and that of RFC 6750 §2.3,
/// which servers of others may take.
const TOKENS: [&str; 2] = ["authz", "access_token"];
/// The parameter of a query that holds a capability.
const CAPABILITY: &str = "capability";
/// The parameter of a query that names the request at the redirector.
const REDIRECT_ID: &str = "crossload.redirect";

/// A URL with the name of the request that redirects to it, for a server of ours.
#[must_use]
pub fn url_with_redirect_id(url: &Secret, id: &str) -> Secret {
    let url = url.expose();
    let separator = if url.contains('?') { '&' } else { '?' };
    Secret::new(format!("{url}{separator}{REDIRECT_ID}={id}"))
}

impl Target {
    /// The path, decoded and checked.
    ///
    /// # Errors
    /// As [`LogicalPath::parse_url_path`].
    pub fn path(&self) -> Result<LogicalPath, Error> {
        LogicalPath::parse_url_path(&self.path_raw)
    }

    /// Path and query as they were sent.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path_raw),
            None => self.path_raw.clone(),
        }
    }

    /// The same with a bearer token in the query, unless one is there.
    #[must_use]
    pub fn text_with_token(&self, token: &Secret) -> Secret {
        if self.query_value("authz").is_some() {
            return Secret::new(self.text());
        }
        let separator = if self.query.is_some() { '&' } else { '?' };
        let token = Secret::new(encode_path(token.expose()));
        Secret::new(format!("{}{separator}authz=Bearer%20{}", self.text(), token.expose()))
    }

    /// The same without a bearer token in the query.
    #[must_use]
    pub fn text_without_token(&self) -> String {
        self.text_without(&TOKENS)
    }

    /// The same with a capability in the query, in place of any credential there.
    #[must_use]
    pub fn text_with_capability(&self, capability: &Secret) -> Secret {
        let text = self.text_without(&[CAPABILITY, TOKENS[0]]);
        let separator = if text.contains('?') { '&' } else { '?' };
        Secret::new(format!("{text}{separator}{CAPABILITY}={}", capability.expose()))
    }

    /// Path and query without parameters of these names.
    fn text_without(&self, names: &[&str]) -> String {
        let kept = self.query.iter().flat_map(|query| query.split('&'));
        let kept = kept.filter(|pair| {
            let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
            !pair.is_empty() && !names.contains(&name)
        });
        let mut text = self.path_raw.clone();
        for pair in kept {
            text.push(if text.contains('?') { '&' } else { '?' });
            text.push_str(pair);
        }
        text
    }

    /// Path and query with the mark that the client has been asked to delegate a credential.
    #[must_use]
    pub fn text_asked_to_delegate(&self) -> String {
        let separator = if self.query.is_some() { '&' } else { '?' };
        format!("{}{separator}{ASKED_TO_DELEGATE}=true", self.text())
    }

    /// Whether the client has been asked to delegate a credential, and so does not come for the
    /// first time.
    #[must_use]
    pub fn was_asked_to_delegate(&self) -> bool {
        self.query_value(ASKED_TO_DELEGATE).is_some()
    }

    /// The capability with which another server, or this one, has sent the client here.
    #[must_use]
    pub fn capability(&self) -> Option<Secret> {
        self.query_value(CAPABILITY).map(Secret::new)
    }

    /// The name of the request at the redirector that sent the client here, as the last redirector
    /// gave it.
    #[must_use]
    pub fn redirect_id(&self) -> Option<&str> {
        let pairs = self.query.as_deref()?.rsplit('&');
        let mut pairs = pairs.filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == REDIRECT_ID).map(|(_, value)| value)
    }

    /// The first value of a parameter of the query, percent-decoded; `None` when it is absent or
    /// broken.
    #[must_use]
    pub fn query_value(&self, name: &str) -> Option<String> {
        let pairs = self.query.as_deref()?.split('&');
        let value = pairs
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)?
            .1;
        decode_percent(value)
    }
}

impl RequestHead {
    /// The host asked for: of an absolute target, else of the Host header (RFC 9112 §3.2.2).
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.target
            .authority
            .as_deref()
            .or_else(|| self.headers.get(HOST))
            .filter(|host| !host.is_empty())
    }

    /// Which bytes of a file of `size_bytes` are asked for (RFC 9110 §14.2). Only GET has ranges.
    #[must_use]
    pub fn ranges(&self, size_bytes: u64) -> Ranges {
        let mut values = self.headers.all(RANGE);
        match (values.next(), values.next()) {
            (Some(value), None) if self.method == Method::Get => parse_ranges(value, size_bytes),
            _ => Ranges::Whole,
        }
    }

    /// Refuses a range header, which requests that store a file must not have (RFC 9110 §14.5).
    ///
    /// # Errors
    /// `bad_request` when there is such a header.
    pub fn check_whole(&self) -> Result<(), Error> {
        match self.headers.contains(CONTENT_RANGE) {
            true => Err(bad_request(format!("{CONTENT_RANGE}: a PUT stores the whole file"))),
            false => Ok(()),
        }
    }

    /// Whether the body is encoded (compressed, say), which is not undone here (RFC 9110 §8.4).
    #[must_use]
    pub fn has_content_encoding(&self) -> bool {
        self.headers
            .elements("Content-Encoding")
            .any(|coding| !coding.eq_ignore_ascii_case("identity"))
    }

    /// The depth, when one is given (RFC 4918 §10.2).
    ///
    /// # Errors
    /// `bad_request` for anything but `0`, `1` and `infinity`.
    pub fn depth(&self) -> Result<Option<Depth>, Error> {
        match self.headers.get(DEPTH) {
            None => Ok(None),
            Some("0") => Ok(Some(Depth::Zero)),
            Some("1") => Ok(Some(Depth::One)),
            Some(value) if value.eq_ignore_ascii_case("infinity") => Ok(Some(Depth::Infinity)),
            Some(_) => Err(bad_request("Depth is not 0, 1 or infinity")),
        }
    }

    /// Whether an existing destination may be replaced; yes when nothing is said (RFC 4918 §10.6).
    ///
    /// # Errors
    /// `bad_request` for anything but `T` and `F`.
    pub fn overwrite(&self) -> Result<bool, Error> {
        match self.headers.get(OVERWRITE) {
            None | Some("T" | "t") => Ok(true),
            Some("F" | "f") => Ok(false),
            Some(_) => Err(bad_request("Overwrite is not T or F")),
        }
    }

    /// Where a MOVE goes (RFC 4918 §10.3): an absolute URL, or a path.
    ///
    /// # Errors
    /// `bad_request` when there is none or it is not of these forms; as
    /// [`LogicalPath::parse_url_path`] for its path.
    pub fn destination_path(&self) -> Result<DestinationPath, Error> {
        let value = self
            .headers
            .get(DESTINATION)
            .ok_or_else(|| bad_request("no Destination header"))?;
        parse_destination_path(value)
    }

    /// Algorithms asked for with `Want-Digest` (RFC 3230 §4.3.1), best first; unknown ones left
    /// out.
    #[must_use]
    pub fn want_digest(&self) -> Vec<ChecksumAlgorithm> {
        parse_want_digest(self.headers.all(WANT_DIGEST))
    }

    /// Algorithms asked for with `Want-Repr-Digest` (RFC 9530 §4), best first; unknown ones left
    /// out.
    #[must_use]
    pub fn want_repr_digest(&self) -> Vec<ChecksumAlgorithm> {
        parse_want_repr_digest(self.headers.all(WANT_REPR_DIGEST))
    }

    /// The checksums that the sender declares for its body: Digest (RFC 3230), Repr-Digest and
    /// Content-Digest (RFC 9530), Content-MD5 (RFC 1864, in hexadecimal too). Unknown algorithms
    /// are left out; the same algorithm may occur twice.
    ///
    /// # Errors
    /// `bad_request` when the value of a known algorithm cannot be read.
    pub fn declared_digests(&self) -> Result<Vec<Checksum>, Error> {
        declared(&self.headers)
            .collect::<Result<_, _>>()
            .map_err(unreadable_digest)
    }

    /// The credential. The header counts before the query's `authz`; the scheme's name may be in
    /// any case (RFC 9110 §11.1). The same header twice counts once: clients behind wrappers repeat
    /// it.
    #[must_use]
    pub fn authorization(&self) -> Authorization<'_> {
        let bearer = |came| Authorization::Bearer(BearerToken(came));
        let mut values = self.headers.all(AUTHORIZATION);
        let first = values.next();
        match first {
            Some(first) if values.any(|other| !types::is_same(other.as_bytes(), first.as_bytes())) => {
                Authorization::Contradictory
            }
            Some(value) => {
                let token = bearer_token(value);
                token.map_or(Authorization::Unsupported, |token| bearer(Came::InHeader(token)))
            }
            None => match self.target.query_value("authz") {
                None => Authorization::Absent,
                Some(value) => {
                    let token = bearer_token(&value).or_else(|| plain_token(&value));
                    token.map_or(Authorization::Unsupported, |token| {
                        bearer(Came::InQuery(Secret::new(token)))
                    })
                }
            },
        }
    }

    /// The value of the header field that holds a credential, of whatever scheme, when all that
    /// there are say the same: what is the same from one request to the next.
    #[must_use]
    pub fn authorization_field(&self) -> Option<&str> {
        let mut values = self.headers.all(AUTHORIZATION);
        let first = values.next()?;
        values
            .all(|other| types::is_same(other.as_bytes(), first.as_bytes()))
            .then_some(first)
    }

    /// The bearer token, when there is a usable one.
    #[must_use]
    pub fn bearer(&self) -> Option<Secret> {
        match self.authorization() {
            Authorization::Bearer(token) => Some(token.into()),
            _ => None,
        }
    }

    /// The body's media type in lower case without parameters (RFC 9110 §8.3).
    #[must_use]
    pub fn media_type(&self) -> Option<String> {
        let value = self.headers.get(CONTENT_TYPE)?;
        Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
    }

    /// Whether the client wants its payload encrypted and no redirect to clear text, as davix says
    /// it to DPM.
    #[must_use]
    pub fn wants_secure_redirection(&self) -> bool {
        self.headers.elements(SECURE_REDIRECTION).any(|word| word == "1")
    }

    /// Whether the client is one that shows pages: it names HTML itself, not only `*/*`.
    #[must_use]
    pub fn prefers_html(&self) -> bool {
        self.headers.elements("Accept").any(|range| {
            let mut parts = range.split(';').map(str::trim);
            parts.next().is_some_and(|name| name.eq_ignore_ascii_case("text/html")) && !parts.any(is_excluding)
        })
    }

    /// Whether a browser asks for an address to show what is there.
    #[must_use]
    pub fn wants_page(&self) -> bool {
        matches!(self.method, Method::Get | Method::Head) && self.prefers_html()
    }

    /// Whether the client takes trailer fields (RFC 9110 §10.1.4).
    #[must_use]
    pub fn accepts_trailers(&self) -> bool {
        self.headers
            .elements(TE)
            .any(|coding| coding.eq_ignore_ascii_case("trailers"))
    }

    /// Whether the client wants the outcome of a GET in a trailer, as XRootD offers it.
    #[must_use]
    pub fn wants_status_trailer(&self) -> bool {
        self.accepts_trailers()
            && self
                .headers
                .get(TRANSFER_STATUS)
                .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// What the client says about the job that it works for, as `key=value;…`. For logs.
    #[must_use]
    pub fn client_info(&self) -> Option<&str> {
        self.headers.get(CLIENT_INFO).filter(|value| !value.is_empty())
    }

    /// How far symbolic links may lead in the path, if the sender limits that.
    #[must_use]
    pub fn link_limit(&self) -> Option<&str> {
        self.headers.get(LINK_LIMIT)
    }

    /// The time of the last change that an uploaded file should get, in seconds since 1970:
    /// X-OC-MTime of ownCloud's and Nextcloud's clients and rclone. Some of them send fractions.
    /// `None` if there is none, or it is none since 1970.
    #[must_use]
    pub fn modified(&self) -> Option<u64> {
        let text = self.headers.get(OC_MTIME)?.trim();
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let is_fraction = fraction.bytes().all(|digit| digit.is_ascii_digit());
        whole.parse().ok().filter(|_| is_fraction)
    }

    /// The trace that the request belongs to (W3C Trace Context §3.2), when it is well formed.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.headers.get(TRACEPARENT).filter(|value| is_traceparent(value))
    }

    /// The flow's tag (SciTags): `experiment << 6 | activity`. SciTag counts before
    /// TransferHeaderSciTag; what is no number of 16 bits does not count.
    #[must_use]
    pub fn scitag(&self) -> Option<u16> {
        let value = self
            .headers
            .get(SCITAG)
            .or_else(|| self.headers.get("TransferHeaderSciTag"))?;
        crate::head::plain_number(value).and_then(|number| u16::try_from(number).ok())
    }

    /// The client's name for itself.
    #[must_use]
    pub fn user_agent(&self) -> Option<&str> {
        self.headers.get(USER_AGENT).filter(|value| !value.is_empty())
    }

    /// The options of the Connection header, in lower case.
    pub fn connection_tokens(&self) -> impl Iterator<Item = String> {
        self.headers
            .elements(crate::names::CONNECTION)
            .map(str::to_ascii_lowercase)
    }
}

/// The checksums that a sender declares in the trailer of its body (RFC 9110 §6.5), in the forms of
/// [`RequestHead::declared_digests`].
///
/// # Errors
/// `bad_request` when the value of a known algorithm cannot be read.
pub fn declared_trailer_digests(trailers: &Headers) -> Result<Vec<Checksum>, Error> {
    declared(trailers).collect::<Result<_, _>>().map_err(unreadable_digest)
}

pub(crate) fn declared(headers: &Headers) -> impl Iterator<Item = Result<Checksum, BadDigest>> {
    let rfc3230 = headers.all(DIGEST).flat_map(parse_digest);
    let rfc9530 = headers
        .all(REPR_DIGEST)
        .chain(headers.all(CONTENT_DIGEST))
        .flat_map(parse_repr_digest);
    let md5 = headers.all(CONTENT_MD5).map(parse_content_md5);
    rfc3230.chain(rfc9530).chain(md5)
}

pub(crate) fn unreadable_digest(bad: BadDigest) -> Error {
    bad_request(format!("the {} digest cannot be read", bad.0))
}

pub(crate) fn parse_destination_path(value: &str) -> Result<DestinationPath, Error> {
    let mut is_encrypted = false;
    let (authority, rest) = match value.split_once("://") {
        None => (None, value),
        Some((scheme, rest)) => {
            if !["http", "https", "dav", "davs"]
                .iter()
                .any(|known| known.eq_ignore_ascii_case(scheme))
            {
                return Err(bad_request("the Destination is not an http or dav URL"));
            }
            is_encrypted = scheme.to_ascii_lowercase().ends_with('s');
            let cut = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let authority = &rest[..cut];
            if authority.is_empty() || authority.contains('@') {
                return Err(bad_request("the Destination has no plain host"));
            }
            (Some(authority.to_owned()), &rest[cut..])
        }
    };
    let raw = rest.split(['?', '#']).next().unwrap_or_default();
    if !raw.starts_with('/') {
        return Err(bad_request("the Destination is neither a URL nor an absolute path"));
    }
    Ok(DestinationPath {
        authority,
        is_encrypted,
        path: LogicalPath::parse_url_path(raw)?,
    })
}

/// The token behind the word `Bearer`.
pub(crate) fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        plain_token(token)
    } else {
        None
    }
}

/// Whether a parameter of a media range says that it is not wanted (RFC 9110 §12.4.2).
fn is_excluding(parameter: &str) -> bool {
    parameter.split_once('=').is_some_and(|(name, weight)| {
        name.eq_ignore_ascii_case("q") && matches!(weight, "0" | "0." | "0.0" | "0.00" | "0.000")
    })
}

/// A text that can be a token: without blanks, not empty.
fn plain_token(text: &str) -> Option<&str> {
    let token = text.trim();
    // No early end, so that the compiler can check many bytes at once.
    let plain = token
        .bytes()
        .fold(!token.is_empty(), |plain, byte| plain & byte.is_ascii_graphic());
    plain.then_some(token)
}
