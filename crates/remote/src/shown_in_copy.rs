//! What one server may show to the other in a third-party copy: the client's own token, or a
//! macaroon that the other server issues for this copy. A token that is not the user's own is never
//! shown.

use credentials::{Activities, Activity};
use types::{ErrorCode, Location, Phase, Result};

use crate::client::Client;
use crate::options::Direction;
use crate::resource::{Access, Resource};

/// Lifetime of a macaroon for the passive side, in seconds: longer than usual copies take.
const MACAROON_S: u64 = 12 * 3600;

/// What the active server of a copy may show to the passive one.
#[derive(Clone, Debug)]
pub struct ShownInCopy {
    /// What goes into the order.
    pub access: Access,
    /// Why there is no macaroon although we asked for one, in words for the user. The copy may
    /// still work: the server may need no credential.
    pub note: Option<String>,
}

impl Client {
    /// The same where the active server has a delegated proxy: no macaroon is asked for, since
    /// nothing else is shown.
    #[must_use]
    pub fn shown_with_proxy(&self, passive: &Resource) -> ShownInCopy {
        let opens_passive = self.abilities(&passive.location).opens_passive;
        let given = &passive.access;
        let access = Access {
            user_name: given.user_name.clone(),
            identity: given.identity.clone().filter(|_| opens_passive),
            // Where we open the file ourselves, we show our token there.
            bearer: given.bearer.clone().filter(|_| opens_passive || !given.keeps_bearer),
            keeps_bearer: given.keeps_bearer,
            ..Access::default()
        };
        ShownInCopy { access, note: None }
    }

    /// What the active server may show to the passive one for `passive`, a file or a directory: the
    /// token of `passive`, unless no other server gets it, else a macaroon of the passive server,
    /// which we ask for over TLS only.
    pub async fn shown_in_copy(&self, passive: &Resource, direction: Direction) -> ShownInCopy {
        let location = &passive.location;
        let abilities = self.abilities(location);
        let ShownInCopy { mut access, mut note } = self.shown_with_proxy(passive);
        if access.bearer.is_none() && abilities.gives_macaroons && location.is_encrypted() {
            match self.request_macaroon(passive, needed(direction), MACAROON_S).await {
                Ok(macaroon) => {
                    access.bearer = Some(macaroon);
                    access.keeps_bearer = false;
                }
                Err(error) => {
                    let server = location.authority();
                    let so = match access.keeps_bearer {
                        true => "",
                        false => ", so the other server comes to it without one",
                    };
                    note = Some(format!("{server} gave out no macaroon{so}: {}", error.public()));
                }
            }
        }
        ShownInCopy { access, note }
    }
}

impl ShownInCopy {
    /// That the copy would need a token which the active server does not get: `passive` gave out no
    /// macaroon instead, and the client does not register a key there either.
    ///
    /// # Errors
    /// `peer_unsupported` in the phase of authentication.
    pub fn check_shown(&self, passive: &Resource, active: &Location) -> Result<()> {
        let opens_with_key = passive.location.is_xrootd() && active.is_xrootd();
        if !self.access.keeps_bearer || passive.access.bearer.is_none() || opens_with_key {
            return Ok(());
        }
        let server = passive.location.authority();
        let why = match (&self.note, passive.location.is_encrypted()) {
            (Some(note), _) => note.clone(),
            (None, true) => "its protocol has no macaroons".to_owned(),
            (None, false) => "it is not reached over TLS".to_owned(),
        };
        let words = format!(
            "the token for {server} goes to no other server, and there is no macaroon for the file instead: {why}"
        );
        Err(passive
            .error(ErrorCode::PeerUnsupported, Phase::Authenticate)
            .with_detail(words))
    }
}

/// What the active server has to do at the passive one.
fn needed(direction: Direction) -> Activities {
    match direction {
        Direction::Pull => Activities::of(&[Activity::Download, Activity::List]),
        Direction::Push => Activities::of(&[Activity::Upload, Activity::List, Activity::Delete, Activity::Manage]),
    }
}
