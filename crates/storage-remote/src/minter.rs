//! Tokens that are minted for single requests of a client: macaroons, with a secret that the server
//! shares.

use std::time::{SystemTime, UNIX_EPOCH};

use credentials::{Activities, Activity, Delegation, Issuer, Lifetimes, MacaroonKey, Owner, mint_for};
use net::random::random;
use storage::ClientName;
use types::{LogicalPath, Secret};

use crate::limits::MINTED_TOKEN_LIFETIME_S;

/// Looks at a name.
pub(crate) const LOOK: Activities = Activities::of(&[Activity::ReadMetadata]);
/// Lists a directory.
pub(crate) const LIST: Activities = Activities::of(&[Activity::ReadMetadata, Activity::List]);
/// Reads a file.
pub(crate) const READ: Activities = Activities::of(&[Activity::ReadMetadata, Activity::Download]);
/// Stores a file under a new name.
pub(crate) const CREATE: Activities = Activities::of(&[Activity::ReadMetadata, Activity::Upload]);
/// Makes directories, and moves what is in one.
pub(crate) const MANAGE: Activities = Activities::of(&[Activity::ReadMetadata, Activity::Manage]);
/// Stores a file in place of another: XRootD wants MANAGE for it.
pub(crate) const REPLACE: Activities = CREATE.union(MANAGE);
/// Removes a name.
pub(crate) const DELETE: Activities = Activities::of(&[Activity::ReadMetadata, Activity::Delete]);
/// Changes the mode or an attribute.
pub(crate) const CHANGE: Activities = Activities::of(&[Activity::ReadMetadata, Activity::UpdateMetadata]);

/// Mints tokens for one server.
pub struct Minter {
    key: MacaroonKey,
    location: String,
}

impl Minter {
    /// With the secret that the server shares. `location` names the server, as a hint.
    #[must_use]
    pub fn new(key: MacaroonKey, location: &str) -> Self {
        Self {
            key,
            location: location.to_owned(),
        }
    }

    /// A token for one request of this client: for what the request does and where, and valid no
    /// longer than the client's own credential. `None` if the path is too long for one; the server
    /// then refuses the request.
    pub(crate) fn mint(&self, client: &ClientName, activities: Activities, path: &LogicalPath) -> Option<Secret> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let end_s = now_s.saturating_add(MINTED_TOKEN_LIFETIME_S);
        let issuer = Issuer {
            key: &self.key,
            location: &self.location,
            lifetimes: Lifetimes::default(),
            random: random(),
            now_s,
        };
        let delegation = Delegation {
            owner: Owner {
                user: client.user.as_deref(),
                vo: client.vo.as_deref(),
            },
            activities,
            path,
            expires_s: client.expires_s.map_or(end_s, |own_s| own_s.min(end_s)),
        };
        mint_for(&issuer, &delegation).ok()
    }
}

#[cfg(test)]
mod tests {
    use credentials::{Credential, read_bearer};

    use super::*;

    #[test]
    fn a_token_is_for_one_request_of_one_client() {
        let minter = Minter::new(MacaroonKey::new(b"shared"), "disk.example.org:1094");
        let client = ClientName {
            key: "ann".into(),
            user: Some("ann".into()),
            vo: Some("atlas".into()),
            expires_s: None,
        };
        let path = LogicalPath::parse("/data/f").unwrap();
        let read = |client: &ClientName| {
            let token = minter.mint(client, READ, &path).unwrap();
            read_bearer(token.expose(), &[MacaroonKey::new(b"shared")]).unwrap()
        };
        let token = read(&client);
        let Credential::Macaroon(verified) = &token else {
            panic!("{token:?}")
        };
        let scopes = &verified.grant().scopes;
        assert_eq!((token.local_user(), token.vo()), (Some("ann"), Some("atlas")));
        assert_eq!((verified.grant().activities_on(&path), scopes.len()), (READ, 1));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let left_s = token.expires_s().unwrap() - i64::try_from(now).unwrap();
        assert!(
            (MINTED_TOKEN_LIFETIME_S - 20..=MINTED_TOKEN_LIFETIME_S).contains(&left_s),
            "{left_s}"
        );
        // No longer than the client's own credential.
        let ending = ClientName {
            expires_s: Some(1_000_000_000),
            ..client
        };
        assert_eq!(read(&ending).expires_s(), Some(1_000_000_000));
    }
}
