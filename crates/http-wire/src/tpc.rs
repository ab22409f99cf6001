//! The COPY request of HTTP third-party copy (WLCG HTTP-TPC): who is asked to copy what, from or to
//! where, with which headers for the other side.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::limits::STREAMS_REQUEST_MAX;
use types::{Checksum, Error, ErrorCode, Location, Secret};

use crate::digest::{parse_digest, parse_repr_digest};
use crate::fault::{bad_request, refused};
use crate::head::{RequestHead, plain_number};
use crate::headers::{Headers, is_token};
use crate::names::{
    COPY_FLAGS, CREDENTIAL, DESTINATION, DIGEST, NO_DELEGATE, NUMBER_OF_STREAMS, REPR_DIGEST, REQUIRE_VERIFICATION,
    SOURCE, TRANSFER_HEADER_PREFIX,
};
use crate::request::{DestinationPath, bearer_token, parse_destination_path, unreadable_digest};

const COPY_HEADER_PREFIX: &str = "Copy-Header";

/// The other side of a COPY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyPeer {
    /// Pull: fetch from here into the request's target.
    Source(Location),
    /// Push: send the request's target to here.
    Destination(Location),
    /// A copy within this server (RFC 4918 §9.8): the Destination is a path without a host.
    Local(DestinationPath),
}

/// A COPY request that makes sense.
#[derive(Clone, Debug)]
pub struct CopyRequest {
    /// The other side.
    pub peer: CopyPeer,
    /// Whether the other side's URL names the same host as the request: this very server, or one
    /// that its clients cannot tell from it.
    pub same_host: bool,
    /// Whether the client asks for a third-party copy, also if both sides turn out to be here: it
    /// names the source, or sends a header that only such copies have. It then reads the outcome
    /// from the body.
    pub is_third_party: bool,
    /// What to send to the other side with every request.
    pub forwarded: ForwardedHeaders,
    /// Whether an existing destination may be replaced.
    pub overwrite: bool,
    /// How many streams are wanted; `None` means that the server chooses.
    pub streams: Option<u32>,
    /// Whether checksums must (`true`) or need not (`false`) be compared; `None` when nothing is
    /// said.
    pub require_checksum_verification: Option<bool>,
    /// The checksums that the client expects of the data.
    pub expected_digests: Vec<Checksum>,
    /// Whether the other side must not be asked with HEAD: its URL is signed for one method.
    pub skip_head: bool,
    /// Where a credential for the other side comes from.
    pub delegation: Delegation,
    /// Whether redirects to clear text are unwelcome.
    pub secure_redirection: bool,
    /// The flow's tag (SciTags).
    pub scitag: Option<u16>,
    /// What the client says about its job.
    pub client_info: Option<String>,
}

impl CopyRequest {
    /// Reads the headers of a COPY.
    ///
    /// # Errors
    /// `bad_request` with the reason for: both Source and Destination or neither, a malformed
    /// header to be forwarded, a bad stream count, Overwrite, RequireChecksumVerification or
    /// digest; `bad_url` for a URL that is not of http, https, dav, davs, s3, s3s, root or roots;
    /// `credential_unsupported` for a way of delegation other than `none` and `gridsite`.
    pub fn parse(head: &RequestHead) -> Result<Self, Error> {
        let delegation = parse_delegation(&head.headers)?;
        let peer = parse_peer(&head.headers)?;
        let says = |name: &str, word: &str| {
            head.headers
                .elements(name)
                .any(|element| element.eq_ignore_ascii_case(word))
        };
        Ok(Self {
            delegation,
            same_host: same_host(&peer, head),
            is_third_party: is_third_party(&peer, &head.headers),
            peer,
            forwarded: ForwardedHeaders::collect(&head.headers)?,
            overwrite: head.overwrite()?,
            streams: parse_streams(&head.headers)?,
            require_checksum_verification: parse_verification(&head.headers)?,
            expected_digests: parse_expected(&head.headers)?,
            skip_head: says(COPY_FLAGS, "NoHead"),
            secure_redirection: head.wants_secure_redirection(),
            scitag: head.scitag(),
            client_info: head.client_info().map(str::to_owned),
        })
    }
}

fn is_third_party(peer: &CopyPeer, headers: &Headers) -> bool {
    let has = |name: &&str| headers.get(name).is_some();
    matches!(peer, CopyPeer::Source(_)) || THIRD_PARTY_ONLY.iter().any(has)
}

/// Headers for the other side. Their values may be tokens, so printing shows only names.
#[derive(Clone, Default)]
pub struct ForwardedHeaders(Vec<(String, Secret)>);

/// Headers that no copy within a server has (RFC 4918 §9.8), but those of gfal and davix.
const THIRD_PARTY_ONLY: &[&str] = &[
    "Copy-Flags",
    "Credential",
    "RequireChecksumVerification",
    "Secure-Redirection",
    "X-Number-Of-Streams",
];

/// What the active side alone decides: the connection, the framing, the part that is asked for,
/// and the headers of COPY itself.
const NOT_FORWARDED: &[&str] = &[
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Range",
    "Copy-Flags",
    "Credential",
    "Depth",
    "Destination",
    "Expect",
    "Host",
    "If-Match",
    "If-Range",
    "Keep-Alive",
    "Overwrite",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "Proxy-Connection",
    "Range",
    "SciTag",
    "Source",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "X-Number-Of-Streams",
];

impl ForwardedHeaders {
    fn collect(headers: &Headers) -> Result<Self, Error> {
        let mut list = Vec::new();
        for (name, value) in headers.iter() {
            if let Some(name) = strip_prefix(name, TRANSFER_HEADER_PREFIX) {
                list.extend(forwardable(name, value)?);
            } else if strip_prefix(name, COPY_HEADER_PREFIX).is_some() {
                let (name, value) = value
                    .split_once(':')
                    .ok_or_else(|| bad_request("Copy-Header holds no header line"))?;
                list.extend(forwardable(name.trim_end(), value)?);
            }
        }
        Ok(Self(list))
    }

    /// The name and password of a user (RFC 7617 §2).
    #[must_use]
    pub fn of_user(name: &str, password: &Secret) -> Self {
        let pair = Secret::new(format!("{name}:{}", password.expose()));
        let value = Secret::new(format!("Basic {}", STANDARD.encode(pair.expose())));
        Self(vec![(crate::names::AUTHORIZATION.to_owned(), value)])
    }

    /// Demands the bytes of a cache, and no others (RFC 9111 §5.2.1.7).
    pub fn demand_cached(&mut self) {
        let value = Secret::new("only-if-cached".to_owned());
        self.0.push((crate::names::CACHE_CONTROL.to_owned(), value));
    }

    /// Adds a header; those that the active side alone decides are left out.
    ///
    /// # Errors
    /// `bad_request` when it is not a header: a name that is not a token, control characters.
    pub fn push(&mut self, name: &str, value: &str) -> Result<(), Error> {
        self.0.extend(forwardable(name, value)?);
        Ok(())
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Whether there is nothing to forward.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a credential for the other side is among them.
    #[must_use]
    pub fn has_authorization(&self) -> bool {
        self.0
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(crate::names::AUTHORIZATION))
    }

    /// The bearer token among them.
    #[must_use]
    pub fn bearer(&self) -> Option<Secret> {
        let is_ours = |name: &str| name.eq_ignore_ascii_case(crate::names::AUTHORIZATION);
        let (_, value) = self.0.iter().find(|(name, _)| is_ours(name))?;
        bearer_token(value.expose()).map(Secret::new)
    }

    /// The same headers without the credential, for a redirect to another origin.
    #[must_use]
    pub fn without_authorization(&self) -> Self {
        let secret = |name: &str| {
            ["Authorization", "Cookie"]
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
        };
        Self(self.0.iter().filter(|(name, _)| !secret(name)).cloned().collect())
    }
}

impl fmt::Debug for ForwardedHeaders {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

fn forwardable(name: &str, value: &str) -> Result<Option<(String, Secret)>, Error> {
    // A blank name means nothing; peers ignore it too.
    if name.is_empty() || NOT_FORWARDED.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(None);
    }
    if !is_token(name) {
        return Err(bad_request("the name of a header to be forwarded is malformed"));
    }
    if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Err(bad_request("a control character in a header to be forwarded"));
    }
    Ok(Some((name.to_owned(), Secret::new(value.trim()))))
}

fn strip_prefix<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let start = name.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &name[prefix.len()..])
}

/// How the active side is to get a credential for the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delegation {
    /// There is none but what the transfer headers hold.
    None,
    /// A proxy that the client has delegated, or will when it is asked to.
    GridSite,
    /// Nothing was said.
    Unsaid,
}

fn parse_delegation(headers: &Headers) -> Result<Delegation, Error> {
    let mut delegation = match headers
        .elements(NO_DELEGATE)
        .any(|word| word.eq_ignore_ascii_case("true"))
    {
        true => Delegation::None,
        false => Delegation::Unsaid,
    };
    for value in headers.all(CREDENTIAL).filter(|value| !value.is_empty()) {
        delegation = if value.eq_ignore_ascii_case("none") {
            Delegation::None
        } else if value.eq_ignore_ascii_case("gridsite") {
            Delegation::GridSite
        } else {
            let why = "only Credential: none and Credential: gridsite are known";
            return Err(refused(ErrorCode::CredentialUnsupported, why));
        };
    }
    Ok(delegation)
}

fn parse_peer(headers: &Headers) -> Result<CopyPeer, Error> {
    let one = |name: &str| {
        let mut values = headers.all(name).map(str::to_owned);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(bad_request(format!("more than one {name} header"))),
            (value, None) => Ok(value),
        }
    };
    match (one(SOURCE)?, one(DESTINATION)?) {
        (Some(_), Some(_)) => Err(bad_request("both Source and Destination")),
        (None, None) => Err(bad_request("neither Source nor Destination")),
        (Some(source), None) => Ok(CopyPeer::Source(parse_url(&source)?)),
        (None, Some(destination)) if destination.starts_with('/') => {
            Ok(CopyPeer::Local(parse_destination_path(&destination)?))
        }
        (None, Some(destination)) => Ok(CopyPeer::Destination(parse_url(&destination)?)),
    }
}

/// A URL of the other side, of any scheme: the door knows with which servers it can make a copy.
/// S3 URLs are signed https URLs in disguise, as XRootD takes them.
fn parse_url(text: &str) -> Result<Location, Error> {
    let (scheme, rest) = text
        .split_once("://")
        .ok_or_else(|| refused(ErrorCode::BadUrl, "the URL of the other side is not absolute"))?;
    let place = match scheme.to_ascii_lowercase().as_str() {
        "s3" | "s3s" => Location::parse(&format!("https://{rest}"))?,
        _ => Location::parse(text)?,
    };
    match place.host() {
        "" => Err(refused(ErrorCode::BadUrl, "the URL of the other side names no server")),
        _ => Ok(place),
    }
}

fn same_host(peer: &CopyPeer, head: &RequestHead) -> bool {
    match peer {
        CopyPeer::Local(_) => true,
        CopyPeer::Source(place) | CopyPeer::Destination(place) => {
            let with_port = format!("{}:{}", place.host(), place.port());
            head.host().is_some_and(|host| {
                with_port.eq_ignore_ascii_case(host) || place.authority().eq_ignore_ascii_case(host)
            })
        }
    }
}

/// 0 asks for the default, as gfal always does; XRootD refuses more than 100, too.
fn parse_streams(headers: &Headers) -> Result<Option<u32>, Error> {
    let Some(value) = headers.get(NUMBER_OF_STREAMS) else {
        return Ok(None);
    };
    match plain_number(value) {
        Some(0) => Ok(None),
        Some(count) if count <= u64::from(STREAMS_REQUEST_MAX) => Ok(Some(count as u32)),
        _ => Err(bad_request(format!(
            "the number of streams is not between 0 and {STREAMS_REQUEST_MAX}"
        ))),
    }
}

fn parse_verification(headers: &Headers) -> Result<Option<bool>, Error> {
    match headers.get(REQUIRE_VERIFICATION) {
        None => Ok(None),
        Some(value) if value.eq_ignore_ascii_case("true") => Ok(Some(true)),
        Some(value) if value.eq_ignore_ascii_case("false") => Ok(Some(false)),
        Some(_) => Err(bad_request("RequireChecksumVerification is not true or false")),
    }
}

/// Repr-Digest, or else Digest.
fn parse_expected(headers: &Headers) -> Result<Vec<Checksum>, Error> {
    let modern: Vec<_> = headers
        .all(REPR_DIGEST)
        .flat_map(parse_repr_digest)
        .collect::<Result<_, _>>()
        .map_err(unreadable_digest)?;
    if !modern.is_empty() {
        return Ok(modern);
    }
    headers
        .all(DIGEST)
        .flat_map(parse_digest)
        .collect::<Result<_, _>>()
        .map_err(unreadable_digest)
}
