//! What one server may show to the other in a third-party copy: the client's own token, or a
//! macaroon that the other server issues for this copy.

use credentials::{Activities, Activity};

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
        let access = Access {
            user_name: passive.access.user_name.clone(),
            identity: passive.access.identity.clone().filter(|_| opens_passive),
            bearer: passive.access.bearer.clone(),
            ..Access::default()
        };
        ShownInCopy { access, note: None }
    }

    /// What the active server may show to the passive one for `passive`, a file or a directory: the
    /// token of `passive`, else a macaroon of the passive server, which we ask for over TLS only.
    pub async fn shown_in_copy(&self, passive: &Resource, direction: Direction) -> ShownInCopy {
        let location = &passive.location;
        let abilities = self.abilities(location);
        let ShownInCopy { mut access, mut note } = self.shown_with_proxy(passive);
        if access.bearer.is_none() && abilities.gives_macaroons && location.is_encrypted() {
            match self.request_macaroon(passive, needed(direction), MACAROON_S).await {
                Ok(macaroon) => access.bearer = Some(macaroon),
                Err(error) => {
                    let server = location.authority();
                    let public = error.public();
                    note = Some(format!(
                        "{server} gave out no macaroon, so the other server comes to it without one: {public}"
                    ));
                }
            }
        }
        ShownInCopy { access, note }
    }
}

/// What the active server has to do at the passive one.
fn needed(direction: Direction) -> Activities {
    match direction {
        Direction::Pull => Activities::of(&[Activity::Download, Activity::List]),
        Direction::Push => Activities::of(&[Activity::Upload, Activity::List, Activity::Delete, Activity::Manage]),
    }
}
