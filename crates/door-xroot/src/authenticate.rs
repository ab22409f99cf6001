//! Who is this? The ways of authentication that take one step.
//!
//! A way of several steps (`gsi`) keeps its state in the session, and its answers ask for more; its place
//! is one more variant of [`AuthenticationMethod`] and of [`Identity`].

use std::sync::Arc;

use types::{Error, ErrorCode, Phase, Side};
use xroot_wire::credential::{self, Credential};
use xroot_wire::request::Authenticate;
use xroot_wire::response::SecurityEntry;

use crate::failure::{Failure, Result};
use crate::settings::{AuthenticationMethod, Settings};

/// Who a client turned out to be.
pub(crate) enum Identity {
    /// The bearer of a token that is ours.
    Bearer(Arc<credentials::Credential>),
    /// A name that nobody verified.
    User(String),
    /// Whoever comes from that address.
    Host,
}

/// What the login tells of the ways to authenticate; a token may not be sent in clear text.
pub(crate) fn offered(settings: &Settings, is_secure: bool) -> Vec<SecurityEntry> {
    let usable = |method: &&AuthenticationMethod| **method != AuthenticationMethod::Token || is_secure;
    let entry = |method: &AuthenticationMethod| match method {
        AuthenticationMethod::Token => credential::ztn_entry(),
        AuthenticationMethod::Unix => SecurityEntry::plain(credential::UNIX),
        AuthenticationMethod::Host => SecurityEntry::plain(credential::HOST),
    };
    settings.authentication.iter().filter(usable).map(entry).collect()
}

/// Checks what a client sent.
pub(crate) async fn verify(settings: &Settings, request: &Authenticate<'_>, is_secure: bool) -> Result<Identity> {
    let sent = Credential::parse(request)?;
    let (method, identity) = match sent {
        Credential::Token(_) if !is_secure => return Err(refused("a token is only taken over TLS")),
        Credential::Token(token) => {
            let read = settings.authenticator.bearer(token.expose()).await;
            let read = read.map_err(|error| refused(&error.public()))?;
            (AuthenticationMethod::Token, Identity::Bearer(read))
        }
        Credential::User { name, .. } => (AuthenticationMethod::Unix, Identity::User(name)),
        Credential::Host { .. } => (AuthenticationMethod::Host, Identity::Host),
    };
    if !settings.authentication.contains(&method) {
        return Err(refused("this way of authentication is not offered"));
    }
    Ok(identity)
}

fn refused(why: &str) -> Failure {
    Error::new(ErrorCode::AuthenticationFailed, Side::Client, Phase::Authenticate)
        .with_detail(why)
        .into()
}
