//! Who is this? The ways of authentication.
//!
//! A way of several steps keeps its state in the session, and its answers ask for more.

use std::sync::Arc;

use gsi_wire::gsi;
use types::{Error, ErrorCode, Phase, Side};
use xroot_wire::credential::{self, Credential};
use xroot_wire::request::Authenticate;
use xroot_wire::response::SecurityEntry;

use crate::failure::{Failure, Result};
use crate::gsi::{Outcome, Progress};
use crate::settings::AuthenticationMethod;
use crate::shared::Shared;

/// Who a client turned out to be.
pub(crate) enum Identity {
    /// The bearer of a token that is ours.
    Bearer(Arc<credentials::Credential>),
    /// The holder of a certificate.
    Holder(Arc<credentials::Credential>),
    /// A name that nobody verified.
    User(String),
    /// Whoever comes from that address.
    Host,
}

/// What a step of an authentication brought.
pub(crate) enum Progressed {
    /// It is over.
    Done(Identity),
    /// This is to be sent, and another step awaited.
    More(Vec<u8>, Progress),
}

/// What the login tells of the ways to authenticate; a token may not be sent in clear text.
pub(crate) fn offered(door: &Shared, is_secure: bool) -> Vec<SecurityEntry> {
    let entry = |method: &AuthenticationMethod| match method {
        AuthenticationMethod::Token => is_secure.then(credential::ztn_entry),
        AuthenticationMethod::Gsi => door.gsi.entry(&door.settings),
        AuthenticationMethod::Unix => Some(SecurityEntry::plain(credential::UNIX)),
        AuthenticationMethod::Host => Some(SecurityEntry::plain(credential::HOST)),
    };
    door.settings.authentication.iter().filter_map(entry).collect()
}

/// Checks what a client sent; `progress` is what its steps have brought so far.
pub(crate) async fn verify(
    door: &Shared,
    request: &Authenticate<'_>,
    progress: Option<Progress>,
    is_secure: bool,
) -> Result<Progressed> {
    let settings = &door.settings;
    if request.name() == gsi::NAME {
        check_offered(door, AuthenticationMethod::Gsi)?;
        return match door.gsi.step(settings, progress, request.credential).await? {
            Outcome::More(answer, progress) => Ok(Progressed::More(answer, progress)),
            Outcome::Known(credential) => Ok(Progressed::Done(Identity::Holder(credential))),
        };
    }
    let sent = Credential::parse(request)?;
    let (method, identity) = match sent {
        Credential::Token(_) if !is_secure => return Err(refused("a token is only taken over TLS")),
        Credential::Token(token) => {
            let read = settings.site.authenticator.bearer(token.expose()).await;
            let read = read.map_err(|error| refused(&error.public()))?;
            (AuthenticationMethod::Token, Identity::Bearer(read))
        }
        Credential::User { name, .. } => (AuthenticationMethod::Unix, Identity::User(name)),
        Credential::Host { .. } => (AuthenticationMethod::Host, Identity::Host),
    };
    check_offered(door, method)?;
    Ok(Progressed::Done(identity))
}

fn check_offered(door: &Shared, method: AuthenticationMethod) -> Result<()> {
    match door.settings.authentication.contains(&method) {
        true => Ok(()),
        false => Err(refused("this way of authentication is not offered")),
    }
}

fn refused(why: &str) -> Failure {
    Error::new(ErrorCode::AuthenticationFailed, Side::Client, Phase::Authenticate)
        .with_detail(why)
        .into()
}
