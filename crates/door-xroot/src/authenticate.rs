//! The ways to authenticate a session.
//!
//! A way with several steps keeps its state in the session.

use std::sync::Arc;

use gsi_wire::gsi;
use types::{Error, ErrorCode, Phase, Side};
use xroot_wire::credential::{self, Credential};
use xroot_wire::request::Authenticate;
use xroot_wire::response::SecurityEntry;

use crate::failure::{Failure, Result};
use crate::gsi::{DelegationNote, GsiExchange, NextStep};
use crate::settings::AuthenticationMethod;
use crate::shared::Shared;

/// The identity of a client.
pub(crate) enum Identity {
    /// The bearer of a valid token.
    Bearer(Arc<credentials::Credential>),
    /// The holder of a certificate.
    Holder(Arc<credentials::Credential>),
    /// An unverified user name.
    User(String),
    /// An address.
    Host,
}

/// The result of one step.
pub(crate) enum Progressed {
    /// The client is authenticated.
    Done(Identity),
    /// Send this, and wait for another step.
    More(Vec<u8>, GsiExchange),
}

/// The result of one step, and what it did about a delegated proxy.
type Verified = (Progressed, Option<DelegationNote>);

/// The ways to authenticate that the login's answer offers; a token is not requested in clear text.
pub(crate) fn offered(door: &Shared, is_secure: bool) -> Vec<SecurityEntry> {
    let entry = |method: &AuthenticationMethod| match method {
        AuthenticationMethod::Token => is_secure.then(credential::ztn_entry),
        AuthenticationMethod::Gsi => door.gsi.entry(&door.settings),
        AuthenticationMethod::Unix => Some(SecurityEntry::plain(credential::UNIX)),
        AuthenticationMethod::Host => Some(SecurityEntry::plain(credential::HOST)),
    };
    door.settings.authentication.iter().filter_map(entry).collect()
}

/// Checks what a client sent; `progress` is the state after its previous step.
pub(crate) async fn verify(
    door: &Shared,
    request: &Authenticate<'_>,
    progress: Option<GsiExchange>,
    is_secure: bool,
) -> Result<Verified> {
    let settings = &door.settings;
    if request.name() == gsi::NAME {
        check_offered(door, AuthenticationMethod::Gsi)?;
        let outcome = door.gsi.step(settings, progress, request.credential).await?;
        let progressed = match outcome.next {
            NextStep::More(answer, progress) => Progressed::More(answer, progress),
            NextStep::Known(credential) => Progressed::Done(Identity::Holder(credential)),
        };
        return Ok((progressed, outcome.delegation));
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
    Ok((Progressed::Done(identity), None))
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
