//! What one server may show to the other in a copy that a client orders: the client's own token, or a macaroon that the
//! other one gives out for the copy alone.

use credentials::{Activities, Activity};

use crate::client::Client;
use crate::options::Direction;
use crate::resource::{Access, Resource};

/// For how long a macaroon for the passive side is asked, in seconds: the longest copy that is usual.
const MACAROON_S: u64 = 12 * 3600;

/// What the active server of a copy may show to the passive one.
#[derive(Clone, Debug)]
pub struct ShownInCopy {
    /// What goes into the order.
    pub access: Access,
    /// Why it holds no macaroon although one was asked for, in words for whoever ordered the copy. A server that gives
    /// none may still let everybody in.
    pub note: Option<String>,
}

impl Client {
    /// What the active server may show to the passive one about `passive`, a file or a directory of files: the token of
    /// `passive`'s own access, or else a macaroon of the passive server, which is asked for over TLS only.
    pub async fn shown_in_copy(&self, passive: &Resource, direction: Direction) -> ShownInCopy {
        let mut access = Access {
            user_name: passive.access.user_name.clone(),
            identity: passive.identity_in_copy(),
            bearer: passive.access.bearer.clone(),
            ..Access::default()
        };
        let location = &passive.location;
        let mut note = None;
        if access.bearer.is_none() && location.is_http() && location.is_encrypted() {
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

/// What the active server does at the passive one.
fn needed(direction: Direction) -> Activities {
    match direction {
        Direction::Pull => Activities::of(&[Activity::Download, Activity::List]),
        Direction::Push => Activities::of(&[Activity::Upload, Activity::List, Activity::Delete, Activity::Manage]),
    }
}
