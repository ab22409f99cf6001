//! What HTTP adds to a resource: headers for its access, redirects, and the facts in a head.

use http_wire::{RequestBuilder, ResponseHead};
use types::{Checksum, ErrorCode, Phase, Result, Scheme, Signer};

use crate::resource::{Access, Facts, Resource};

impl Resource {
    /// Adds the headers of our access to a request. A signed URL is a credential by itself, and
    /// servers refuse a second one beside it.
    #[must_use]
    pub(super) fn apply(&self, request: RequestBuilder) -> RequestBuilder {
        match self.location.signature() {
            None => self.access.apply(request),
            Some(_) => {
                let access = Access {
                    bearer: None,
                    forwarded: self.access.forwarded.without_authorization(),
                    ..self.access.clone()
                };
                access.apply(request)
            }
        }
    }
}

impl Access {
    #[must_use]
    fn apply(&self, mut request: RequestBuilder) -> RequestBuilder {
        // A credential that the client gave for this server takes precedence.
        if let Some(token) = self.bearer.as_ref().filter(|_| !self.forwarded.has_authorization()) {
            request = request.bearer(token);
        }
        request = request.forwarded(&self.forwarded);
        if let Some(info) = &self.client_info {
            request = request.client_info(info);
        }
        if let Some(limit) = &self.link_limit {
            request = request.link_limit(limit);
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

impl Resource {
    /// The same file after a redirect, for a request that `changes` something or only reads.
    ///
    /// # Errors
    /// `peer_misbehaved` for a redirect that leads to no HTTP URL; `host_not_allowed` where clients
    /// name the host.
    pub(crate) fn redirected(&self, reference: &str, changes: bool) -> Result<Self> {
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
        self.check_redirect(&location, changes)?;
        if self.location.shares_signature(&location) && !self.location.same_origin(&location) {
            return Err(misled(format!(
                "the redirect leads with the signature of the URL to another server, {}",
                location.authority()
            )));
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

impl Facts {
    /// What the head of an answer says. The size is always that of the whole file.
    pub(crate) fn of(head: &ResponseHead, file: &Resource) -> Self {
        let size_bytes = match head.content_range() {
            Some(part) => part.size_bytes,
            None if head.status == 206 => None,
            None => head.content_length(),
        };
        Self {
            location: file.named().clone(),
            size_bytes,
            etag: head.etag().map(str::to_owned),
            last_modified: head.last_modified_text().map(str::to_owned),
            age_s: age_s(head),
            checksums: checksums(head, file),
            cached_s: head.age(),
            checksum_refusal: None,
            identity: None,
            accepts_ranges: head.accepts_ranges(),
            compares_trailers: head.is_from_crossload(),
        }
    }
}

/// The checksums of the whole file, as its server words them.
fn checksums(head: &ResponseHead, file: &Resource) -> Vec<Checksum> {
    let of_s3 = || s3_wire::stored(|name| head.headers.get(name), head.etag());
    let signer = file.location.signature().map(|signature| signature.signer);
    match (&file.access.signed_for, signer) {
        (Some(_), _) | (None, Some(Signer::Aws)) => of_s3(),
        (None, Some(Signer::Google)) => {
            let is_hash = |(name, _): &(&str, &str)| name.eq_ignore_ascii_case(s3_wire::header::GOOGLE_HASH);
            let hashes = head.headers.iter().filter(is_hash);
            hashes.flat_map(|(_, value)| s3_wire::google_hashes(value)).collect()
        }
        (None, _) => head.digests(),
    }
}

/// The time since the last change, by the clock of the server that answers.
fn age_s(head: &ResponseHead) -> Option<i64> {
    head.date()?.checked_sub(head.last_modified()?)
}
