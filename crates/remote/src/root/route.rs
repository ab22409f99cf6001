//! The route of a request: redirections, waits, and the servers that failed.
//!
//! The rules are those of the reference client (XRootD protocol 5.x, client redirection). A request
//! keeps its path. The CGI of the redirection takes precedence over that of the request, and is
//! returned unchanged. `roots` never becomes `root`. A server that fails is reported to the
//! redirector that named it.

use std::time::Duration;

use crate::limits::{ROOT_PATIENCE, ROOT_TRIED_MAX, ROOT_WAIT_MIN};
use types::{Error, ErrorCode, Location, Phase, Result, Scheme, Secret};
use xroot_wire::limits::REDIRECTS_MAX;
use xroot_wire::response::{Redirect, RedirectTarget};
use xroot_wire::{Cgi, CgiBuilder};

use crate::resource::Resource;

/// A key of the CGI of one request, with its value.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    key: &'a str,
    value: &'a str,
}

/// A key of CGI with its value.
pub(super) fn pair<'a>(key: &'a str, value: &'a str) -> Pair<'a> {
    Pair { key, value }
}

/// The key of the flow label (SciTags, `XrdCl` and `XrdXrootd`).
const FLOW_TAG: &str = "scitag.flow";

/// The route of a request.
#[derive(Clone)]
pub(super) struct Route {
    /// The file at the end of the redirections so far. Its query is that of the request.
    pub(super) at: Resource,
    /// The CGI of the last redirection, to be returned unchanged.
    opaque: Option<Secret>,
    /// The login token of the last redirection.
    pub(super) ticket: Option<Secret>,
    /// The last redirector on the route. It may know another server.
    manager: Option<Resource>,
    /// Servers that failed, and why.
    tried: Vec<(Location, &'static str)>,
    redirects: usize,
    waited: Duration,
    /// The redirector shall look the file up again, not in its cache.
    pub(super) refresh: bool,
}

impl Route {
    pub(super) fn new(file: &Resource) -> Self {
        Self {
            at: file.clone(),
            opaque: None,
            ticket: None,
            manager: None,
            tried: Vec::new(),
            redirects: 0,
            waited: Duration::ZERO,
            refresh: false,
        }
    }

    /// Whether a redirection has led away from the first server.
    pub(super) fn is_redirected(&self) -> bool {
        self.redirects > 0
    }

    /// The path with its CGI: that of a redirection, that of the URL, `own`, the flow label, the
    /// trace, the token (never in clear text), and the servers that failed.
    ///
    /// # Errors
    /// `path_refused` for a path that this protocol cannot express.
    pub(super) fn target(&self, own: &[Pair<'_>], is_encrypted: bool) -> Result<Secret> {
        let path = self.at.location.path();
        check_path(path).map_err(|error| self.at.blame(error))?;
        let given = self.opaque.as_ref().map_or("", Secret::expose);
        let query = self.at.location.query().unwrap_or_default();
        let mut cgi = CgiBuilder::for_path(path).raw(given);
        let known = Cgi::new(given);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let key = pair.split('=').next().unwrap_or_default();
            if known.value(key).is_none() {
                cgi = cgi.raw(pair);
            }
        }
        let asked = Cgi::new(query);
        for Pair { key, value } in own {
            if known.value(key).is_none() && asked.value(key).is_none() {
                cgi = cgi.pair(key, value);
            }
        }
        if let Some(limit) = &self.at.access.link_limit {
            cgi = cgi.link_limit(limit);
        }
        let is_given = known.flow_tag().is_some() || asked.flow_tag().is_some();
        if let Some(tag) = self.at.access.scitag.filter(|_| !is_given) {
            cgi = cgi.pair(FLOW_TAG, &tag.to_string());
        }
        let is_traced = known.traceparent().is_some() || asked.traceparent().is_some();
        if let Some(trace) = self.at.access.traceparent.as_ref().filter(|_| !is_traced) {
            cgi = cgi.traceparent(trace);
        }
        let has_token = known.token().is_some() || asked.token().is_some();
        if let Some(token) = self.at.access.bearer.as_ref().filter(|_| is_encrypted && !has_token) {
            cgi = cgi.token(token);
        }
        let hosts: Vec<_> = self.tried.iter().map(|(place, _)| place.host()).collect();
        let reasons: Vec<_> = self.tried.iter().map(|(_, reason)| *reason).collect();
        Ok(Secret::new(cgi.tried(&hosts, &reasons).build()))
    }

    /// A path with the token, where the connection is encrypted, and with the limit of links.
    pub(super) fn with_token(&self, path: &str, is_encrypted: bool) -> Secret {
        let mut cgi = CgiBuilder::for_path(path);
        if let Some(limit) = &self.at.access.link_limit {
            cgi = cgi.link_limit(limit);
        }
        let cgi = match self.at.access.bearer.as_ref().filter(|_| is_encrypted) {
            Some(token) => cgi.token(token),
            None => cgi,
        };
        Secret::new(cgi.build())
    }

    /// Follows a redirection of a request that `changes` something or only reads. `from_manager`
    /// says that it came from a redirector.
    ///
    /// # Errors
    /// `too_many_redirects`; `peer_misbehaved` for a target that cannot be used; `host_not_allowed`
    /// where clients name the host.
    pub(super) fn follow(&mut self, redirect: &Redirect, from_manager: bool, changes: bool) -> Result<()> {
        self.redirects += 1;
        if self.redirects > REDIRECTS_MAX {
            let error = self.at.error(ErrorCode::TooManyRedirects, Phase::Open);
            return Err(error.with_detail(format!("{REDIRECTS_MAX} are followed")));
        }
        if from_manager || self.manager.is_none() {
            self.manager = Some(self.at.clone());
        }
        let (location, opaque) = self.place_of(redirect)?;
        self.at.check_redirect(&location, changes)?;
        let access = std::mem::take(&mut self.at.access);
        self.at.access = match access.takes_along() {
            true => access.led(&self.at.location, &location),
            false => access.redirected(&self.at.location, &location),
        };
        self.at.location = location;
        self.opaque = opaque.map(Secret::new);
        self.ticket = redirect.login_token.as_deref().map(Secret::new);
        self.refresh = false;
        Ok(())
    }

    fn place_of(&self, redirect: &Redirect) -> Result<(Location, Option<String>)> {
        let misled = |why: &str| self.at.error(ErrorCode::PeerMisbehaved, Phase::Open).with_detail(why);
        let here = &self.at.location;
        let mut scheme = if here.scheme() == Scheme::Roots {
            "roots"
        } else {
            "root"
        };
        let (place, cgi) = match &redirect.target {
            RedirectTarget::Host { host, port } => {
                let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                (format!("{scheme}://{host}{port}"), redirect.cgi.clone())
            }
            RedirectTarget::Url { url, .. } => match url.split_once('?') {
                Some((place, cgi)) => (place.to_owned(), Some(cgi.to_owned())),
                None => (url.clone(), None),
            },
        };
        let place = Location::parse(&place).map_err(|_| misled("the redirection leads to no valid place"))?;
        if !place.is_xrootd() {
            return Err(misled("the redirection leads to another protocol"));
        }
        if place.scheme() == Scheme::Roots {
            scheme = "roots";
        }
        let path = if place.path() == "/" { here.path() } else { place.path() };
        let query = here.query().map(|query| format!("?{query}")).unwrap_or_default();
        let moved = format!("{scheme}://{}:{}/{path}{query}", place.host(), place.port());
        let location = Location::parse(&moved).map_err(|_| misled("the redirection leads to no valid place"))?;
        Ok((location, cgi))
    }

    /// Returns to the redirector, if there is one, because the server that it named failed. `false`
    /// without another server to ask.
    pub(super) fn go_back(&mut self, reason: &'static str) -> bool {
        let Some(manager) = self.manager.take() else {
            return false;
        };
        let place = self.at.location.clone();
        let known = self.tried.iter().any(|(tried, _)| tried.same_origin(&place));
        if known || self.tried.len() >= ROOT_TRIED_MAX || self.redirects >= REDIRECTS_MAX {
            return false;
        }
        self.tried.push((place, reason));
        self.at = manager;
        self.opaque = None;
        self.ticket = None;
        self.refresh = reason == "enoent";
        true
    }

    /// How long a server may put the request off; `first_byte` is the limit for other answers.
    pub(super) fn patience(&self, first_byte: Duration) -> Duration {
        match self.at.access.is_awaited {
            true => first_byte.min(ROOT_PATIENCE),
            false => ROOT_PATIENCE,
        }
    }

    /// Waits before the same request is repeated.
    ///
    /// # Errors
    /// `peer_stalled` when the server has put us off for too long.
    pub(super) async fn wait(&mut self, asked: Duration, first_byte: Duration) -> Result<()> {
        let (pause, patience) = (asked.max(ROOT_WAIT_MIN), self.patience(first_byte));
        self.waited += pause;
        if self.waited > patience {
            return Err(put_off(&self.at, patience));
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// The error for a server that puts a request off for too long.
fn put_off(file: &Resource, patience: Duration) -> Error {
    let error = file.error(ErrorCode::PeerStalled, Phase::Open);
    error.with_detail(format!(
        "the server asked to wait for more than {} s",
        patience.as_secs()
    ))
}

/// Refuses names that the protocol cannot express, since it encodes nothing.
pub(super) fn check_path(path: &str) -> Result<()> {
    if path.contains('?') || path.chars().any(char::is_control) {
        let error = Error::new(ErrorCode::PathRefused, types::Side::Client, Phase::Open);
        return Err(error.with_detail("the XRootD protocol cannot express this name"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use types::{AllowedHosts, Side};

    use super::*;
    use crate::resource::Access;

    #[test]
    fn flow_label_and_trace_go_along_unless_the_url_has_its_own() {
        let target = |url: &str, access: Access| {
            let file = Resource {
                location: Location::parse(url).unwrap(),
                access,
                side: Side::Source,
            };
            Route::new(&file).target(&[], true).unwrap().expose().to_owned()
        };
        let labelled = || Access {
            scitag: Some(66),
            ..Access::default()
        };
        assert_eq!(target("root://a//f", labelled()), "/f?scitag.flow=66");
        assert_eq!(target("root://a//f?scitag.flow=132", labelled()), "/f?scitag.flow=132");
        let traced = || Access {
            traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
            ..Access::default()
        };
        assert_eq!(
            target("root://a//f", traced()),
            "/f?crossload.traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        );
        let own = "/f?crossload.traceparent=00-11111111111111111111111111111111-1111111111111111-00";
        assert_eq!(target(&format!("root://a/{own}"), traced()), own);
    }

    #[test]
    fn a_credential_that_stays_at_its_origin_follows_no_redirection() {
        let file = |stays_at_origin| Resource {
            location: Location::parse("roots://a.invalid:1094//f").unwrap(),
            access: Access {
                bearer: Some(Secret::new("ours")),
                stays_at_origin,
                ..Access::default()
            },
            side: Side::Upstream,
        };
        let lead = |file: &Resource, host: &str, port| {
            let mut route = Route::new(file);
            let redirect = Redirect {
                target: RedirectTarget::Host {
                    host: host.to_owned(),
                    port: Some(port),
                },
                cgi: None,
                login_token: None,
            };
            route.follow(&redirect, true, false).unwrap();
            let moved = route.at.access.bearer.is_some();
            assert!(route.go_back("enoent") && route.at.access.bearer.is_some());
            moved
        };
        assert!(lead(&file(true), "A.invalid", 1094));
        assert!(!lead(&file(true), "b.invalid", 1094));
        assert!(!lead(&file(true), "a.invalid", 1095));
        // The servers of a cluster share the credential of a user.
        assert!(lead(&file(false), "b.invalid", 1094));
        // Not where clients name the host, whatever the list says.
        let mut named = file(false);
        let hosts = AllowedHosts::parse(&["a.invalid", "b.invalid"]).unwrap();
        named.access.hosts = Some(Arc::new(hosts));
        assert!(lead(&named, "a.invalid", 1094));
        assert!(!lead(&named, "b.invalid", 1094));
    }
}
