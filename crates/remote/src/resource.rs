//! A file at a peer, what is sent to reach it, and what the peer says of it.

use http_wire::{ForwardedHeaders, RequestBuilder, ResponseHead};
use net::tls::ClientIdentity;
use types::{Checksum, Error, ErrorCode, Location, Phase, Result, Scheme, Secret, Side};

/// What our servers say of a peer that they may not connect to, in lower case.
pub(crate) const ADDRESS_REFUSED_WORDS: &str = "address is not allowed for transfers";

/// What is sent to a peer beside the request itself.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The token for this peer.
    pub bearer: Option<Secret>,
    /// The certificate that is shown when the peer asks for one. Unlike a token it goes along with
    /// redirects: a server to which it is shown cannot use it, and data servers are expected to ask for
    /// it again.
    pub identity: Option<ClientIdentity>,
    /// Who we say we are where nobody asks for proof (the XRootD protocol's login and its `unix`
    /// authentication).
    pub user_name: Option<String>,
    /// Headers that a client handed over for this peer (WLCG HTTP-TPC).
    pub forwarded: ForwardedHeaders,
    /// The job that the request is for, as `key=value;…`.
    pub client_info: Option<String>,
    /// The trace that the request belongs to (W3C Trace Context).
    pub traceparent: Option<String>,
    /// The flow's tag (SciTags).
    pub scitag: Option<u16>,
    /// The same place with the client of a third-party copy in another spelling (`tpc.org`). Some servers compare it as
    /// text, and each spells an address as its own socket does: both are tried where the first is not taken at once.
    pub respelled: Option<Location>,
}

impl Access {
    /// What may still be sent after a redirect. Credentials stay with their origin (scheme, host and
    /// port), as every careful client has it: a server that redirects to another one puts what is
    /// needed there into the URL.
    #[must_use]
    pub(crate) fn redirected(self, from: &Location, to: &Location) -> Self {
        if from.same_origin(to) {
            return self;
        }
        Self {
            bearer: None,
            // Any of them may hold a key, under any name.
            forwarded: ForwardedHeaders::default(),
            respelled: None,
            ..self
        }
    }

    /// Adds the headers to a request.
    #[must_use]
    pub(crate) fn apply(&self, mut request: RequestBuilder) -> RequestBuilder {
        // A credential that was handed over for this very peer is meant to be used.
        if let Some(token) = self.bearer.as_ref().filter(|_| !self.forwarded.has_authorization()) {
            request = request.bearer(token);
        }
        request = request.forwarded(&self.forwarded);
        if let Some(info) = &self.client_info {
            request = request.client_info(info);
        }
        if let Some(trace) = &self.traceparent {
            request = request.traceparent(trace);
        }
        match self.scitag {
            Some(tag) => request.scitag(tag),
            None => request,
        }
    }
}

/// A file at a peer, how we may reach it, and which side of the transfer it is (for errors).
#[derive(Clone, Debug)]
pub struct Resource {
    /// Where it is.
    pub location: Location,
    /// What we may show there.
    pub access: Access,
    /// Which side of the transfer it is.
    pub side: Side,
}

impl Resource {
    /// The certificate with which this client itself comes to the passive party of a copy that it orders. In the XRootD
    /// protocol it opens the source first, to announce who will come; over HTTP only the active party comes.
    #[must_use]
    pub(crate) fn identity_in_copy(&self) -> Option<ClientIdentity> {
        self.access.identity.clone().filter(|_| self.location.is_root())
    }

    /// An error that blames this side.
    pub(crate) fn error(&self, code: ErrorCode, phase: Phase) -> Error {
        Error::new(code, self.side, phase).with_subject(&self.location)
    }

    /// The same error, of this side and about this file.
    pub(crate) fn blame(&self, error: Error) -> Error {
        error.at_side(self.side).with_subject(&self.location)
    }

    /// The same file where a redirect puts it.
    pub(crate) fn redirected(&self, reference: &str) -> Result<Self> {
        let misled = |why: String| self.error(ErrorCode::PeerMisbehaved, Phase::Open).with_detail(why);
        let location = self
            .location
            .resolve(reference)
            .map_err(|_| misled("the redirect leads to no valid URL".into()))?;
        if !location.is_http() {
            return Err(misled(
                "the redirect leads to a scheme other than http and https".into(),
            ));
        }
        Ok(Self {
            access: self.access.clone().redirected(&self.location, &location),
            location,
            side: self.side,
        })
    }

    /// Whether going to `next` leaves TLS.
    pub(crate) fn downgrades_to(&self, next: &Self) -> bool {
        self.location.scheme() == Scheme::Https && next.location.scheme() == Scheme::Http
    }
}

/// By what a peer's file is recognised as unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validator {
    /// A strong entity tag with its quotes (RFC 9110 §8.8.3).
    Tag(String),
    /// The time of the last change, as the peer wrote it (RFC 9110 §8.8.2).
    Modified(String),
}

impl Validator {
    /// The text of `If-Range` (RFC 9110 §13.1.5).
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Tag(text) | Self::Modified(text) => text,
        }
    }

    /// Whether the facts name another state of the file. A peer that does not repeat its validator
    /// says nothing.
    pub(crate) fn contradicts(&self, facts: &Facts) -> bool {
        match self {
            Self::Tag(tag) => facts.etag.as_ref().is_some_and(|now| now != tag),
            Self::Modified(date) => facts.last_modified.as_ref().is_some_and(|now| now != date),
        }
    }

    /// Whether the facts name this very state of the file.
    pub(crate) fn confirmed_by(&self, facts: &Facts) -> bool {
        facts.validator().as_ref() == Some(self)
    }
}

/// What a peer says of a file.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Where the file is after all redirects.
    pub location: Location,
    /// Size of the whole file, in bytes.
    pub size_bytes: Option<u64>,
    /// The entity tag with its quotes; a weak one begins with `W/`.
    pub etag: Option<String>,
    /// The time of the last change, as the peer wrote it.
    pub last_modified: Option<String>,
    /// Checksums of the whole file, each algorithm at most once.
    pub checksums: Vec<Checksum>,
    /// Whether ranges are served; `None` when nothing is said.
    pub accepts_ranges: Option<bool>,
}

impl Facts {
    /// What the head of an answer says. The size is that of the whole file, also in a partial answer.
    pub(crate) fn of(head: &ResponseHead, location: &Location) -> Self {
        let size_bytes = match head.content_range() {
            Some(part) => part.size_bytes,
            None if head.status == 206 => None,
            None => head.content_length(),
        };
        Self {
            location: location.clone(),
            size_bytes,
            etag: head.etag().map(str::to_owned),
            last_modified: head.last_modified_text().map(str::to_owned),
            checksums: head.digests(),
            accepts_ranges: head.accepts_ranges(),
        }
    }

    /// The strong entity tag, else the time of the last change.
    #[must_use]
    pub fn validator(&self) -> Option<Validator> {
        let strong = self.etag.as_ref().filter(|tag| tag.starts_with('"'));
        match (strong, &self.last_modified) {
            (Some(tag), _) => Some(Validator::Tag(tag.clone())),
            (None, Some(date)) => Some(Validator::Modified(date.clone())),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Location {
        Location::parse(text).unwrap()
    }

    fn access() -> Access {
        let mut forwarded = ForwardedHeaders::default();
        forwarded.push("Authorization", "Bearer theirs").unwrap();
        forwarded.push("X-Other", "stays").unwrap();
        Access {
            bearer: Some(Secret::new("ours")),
            forwarded,
            ..Access::default()
        }
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        let home = place("https://a:8443/f");
        let same = access().redirected(&home, &place("https://A:8443/other"));
        assert!(same.bearer.is_some() && same.forwarded.has_authorization());
        for elsewhere in ["https://a:8444/f", "http://a:8443/f", "https://b:8443/f"] {
            let moved = access().redirected(&home, &place(elsewhere));
            assert!(
                moved.bearer.is_none() && !moved.forwarded.has_authorization(),
                "{elsewhere}"
            );
            assert_eq!(moved.forwarded.iter().count(), 0, "an API key may have any name");
        }
    }

    #[test]
    fn the_strong_tag_is_preferred_to_the_date() {
        let mut facts = Facts {
            location: place("http://a/f"),
            size_bytes: None,
            etag: Some("\"x\"".into()),
            last_modified: Some("Mon".into()),
            checksums: Vec::new(),
            accepts_ranges: None,
        };
        assert_eq!(facts.validator(), Some(Validator::Tag("\"x\"".into())));
        facts.etag = Some("W/\"x\"".into());
        assert_eq!(facts.validator(), Some(Validator::Modified("Mon".into())));
        assert!(Validator::Modified("Tue".into()).contradicts(&facts));
        facts.last_modified = None;
        assert_eq!(facts.validator(), None);
        assert!(!Validator::Modified("Tue".into()).contradicts(&facts));
    }
}
