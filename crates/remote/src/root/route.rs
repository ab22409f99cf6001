//! Where a request has got to: redirections, waits, and the servers that were tried in vain.
//!
//! The rules are those of the reference client (XRootD protocol 5.x, client redirection): a request
//! keeps its path, the CGI of the redirection replaces that of the request where both have a key and
//! goes back unchanged, `roots` never becomes `root`, and a server that fails is reported to the
//! redirector that named it.

use std::time::Duration;

use crate::limits::{ROOT_PATIENCE, ROOT_TRIED_MAX, ROOT_WAIT_MIN};
use types::{Error, ErrorCode, Location, Phase, Result, Scheme, Secret};
use xroot_wire::limits::REDIRECTS_MAX;
use xroot_wire::response::{Redirect, RedirectTarget};
use xroot_wire::{Cgi, CgiBuilder};

use crate::resource::Resource;

/// A request's way.
#[derive(Clone)]
pub(super) struct Route {
    /// The file where the redirections have led so far. Its query is that of the request.
    pub(super) at: Resource,
    /// The CGI that the last redirection gave, to go back as it is.
    opaque: Option<Secret>,
    /// What the last redirection gave for the login.
    pub(super) ticket: Option<Secret>,
    /// The last redirector on the way: it may know another server.
    manager: Option<Resource>,
    /// Servers that failed, and why.
    tried: Vec<(Location, &'static str)>,
    redirects: usize,
    waited: Duration,
    /// The redirector is to look again rather than remember.
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

    /// Whether a redirection has led away from the server that was asked first.
    pub(super) fn is_redirected(&self) -> bool {
        self.redirects > 0
    }

    /// The path with its CGI: what a redirection gave, the URL's own, `own`, the token (never in clear
    /// text), and who was tried.
    ///
    /// # Errors
    /// `path_refused` for a path that this protocol cannot express.
    pub(super) fn target(&self, own: &[(&str, &str)], is_encrypted: bool) -> Result<Secret> {
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
        for (key, value) in own {
            if known.value(key).is_none() && asked.value(key).is_none() {
                cgi = cgi.pair(key, value);
            }
        }
        let has_token = known.token().is_some() || asked.token().is_some();
        if let Some(token) = self.at.access.bearer.as_ref().filter(|_| is_encrypted && !has_token) {
            cgi = cgi.token(token);
        }
        let hosts: Vec<_> = self.tried.iter().map(|(place, _)| place.host()).collect();
        let reasons: Vec<_> = self.tried.iter().map(|(_, reason)| *reason).collect();
        Ok(Secret::new(cgi.tried(&hosts, &reasons).build()))
    }

    /// A path with the token, where that may be sent.
    pub(super) fn with_token(&self, path: &str, is_encrypted: bool) -> Secret {
        let cgi = CgiBuilder::for_path(path);
        let cgi = match self.at.access.bearer.as_ref().filter(|_| is_encrypted) {
            Some(token) => cgi.token(token),
            None => cgi,
        };
        Secret::new(cgi.build())
    }

    /// Goes where a server sends us. `from_manager` says that it is a redirector.
    ///
    /// # Errors
    /// `too_many_redirects`; `peer_misbehaved` for a place that cannot be gone to.
    pub(super) fn follow(&mut self, redirect: &Redirect, from_manager: bool) -> Result<()> {
        self.redirects += 1;
        if self.redirects > REDIRECTS_MAX {
            let error = self.at.error(ErrorCode::TooManyRedirects, Phase::Open);
            return Err(error.with_detail(format!("{REDIRECTS_MAX} are followed")));
        }
        if from_manager || self.manager.is_none() {
            self.manager = Some(self.at.clone());
        }
        let (location, opaque) = self.place_of(redirect)?;
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
        if !place.is_root() {
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

    /// Goes back to the redirector, if there is one, because the server that it named failed. `false`
    /// when there is nobody else to ask.
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

    /// Waits before the same request is sent again.
    ///
    /// # Errors
    /// `peer_stalled` when the server has put us off for too long.
    pub(super) async fn wait(&mut self, asked: Duration) -> Result<()> {
        let pause = asked.max(ROOT_WAIT_MIN);
        self.waited += pause;
        if self.waited > ROOT_PATIENCE {
            return Err(put_off(&self.at));
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// The error for a server that wants us to wait for longer than we do.
pub(super) fn put_off(file: &Resource) -> Error {
    let error = file.error(ErrorCode::PeerStalled, Phase::Open);
    error.with_detail(format!(
        "the server asked to wait for more than {} s",
        ROOT_PATIENCE.as_secs()
    ))
}

/// Nothing in a path is encoded by this protocol, so some names cannot be expressed.
pub(crate) fn check_path(path: &str) -> Result<()> {
    if path.contains('?') || path.chars().any(char::is_control) {
        let error = Error::new(ErrorCode::PathRefused, types::Side::Client, Phase::Open);
        return Err(error.with_detail("the XRootD protocol cannot express this name"));
    }
    Ok(())
}
