//! Whom a store acts for: the local user whose rights apply, the virtual organisation (VO) whose
//! quota is charged, and the checker for paths behind symbolic links.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use net::tls::ClientIdentity;
use types::Secret;

use crate::links::LinkChecker;

/// A user of this machine as the kernel knows it. Never the superuser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalUser {
    name: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// The ID that means "no change" in system calls, and so belongs to no user.
const NO_ID: u32 = u32::MAX;

impl LocalUser {
    /// A user with its primary group and supplementary groups. `None` for the superuser, for the
    /// superuser's group, and for IDs that belong to no user. The superuser's group is also dropped
    /// from `groups`.
    #[must_use]
    pub fn new(name: &str, uid: u32, gid: u32, groups: impl IntoIterator<Item = u32>) -> Option<Self> {
        if [uid, gid].iter().any(|id| matches!(*id, 0 | NO_ID)) {
            return None;
        }
        let mut groups: Vec<u32> = groups.into_iter().collect();
        // The primary group counts anyway. Without it most users have no supplementary groups,
        // which makes switching faster.
        groups.retain(|group| !matches!(*group, 0 | NO_ID) && *group != gid);
        groups.sort_unstable();
        groups.dedup();
        Some(Self {
            name: name.to_owned(),
            uid,
            gid,
            groups,
        })
    }

    /// The name, for logs.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The user ID.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The ID of the primary group, which new files get.
    #[must_use]
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// The supplementary groups, in order.
    #[must_use]
    pub fn groups(&self) -> &[u32] {
        &self.groups
    }
}

/// The token of a client, for a store that shows it to another server.
#[derive(Clone, Debug)]
pub struct ClientToken {
    /// The token.
    pub text: Secret,
    /// The servers that it is for, as it names them.
    pub audiences: Vec<String>,
}

impl PartialEq for ClientToken {
    fn eq(&self, other: &Self) -> bool {
        self.text.expose() == other.text.expose()
    }
}

impl Eq for ClientToken {}

impl Hash for ClientToken {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.expose().hash(state);
    }
}

/// For whom a store mints tokens for another server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientName {
    /// The client, so that no two have the same name.
    pub key: Arc<str>,
    /// Its local user.
    pub user: Option<Arc<str>>,
    /// Its virtual organisation.
    pub vo: Option<Arc<str>>,
    /// When its own credential ends, in seconds since 1970.
    pub expires_s: Option<i64>,
}

/// What a store shows of a client to another server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientCredential {
    /// The client's own token.
    Token(ClientToken),
    /// The proxy that the client has delegated to this server.
    Proxy(ClientIdentity),
    /// A token that is minted for the client.
    Name(ClientName),
}

/// Who owns new files, and with whose rights a store acts. The default is the server itself and no
/// VO.
#[derive(Clone, Debug, Default)]
pub struct Owner {
    /// The user; `None`: the account that the server runs under.
    pub user: Option<Arc<LocalUser>>,
    /// The VO whose quota is charged; `None`: none.
    pub vo: Option<Arc<str>>,
    /// Decides about paths behind symbolic links; `None`: no check is needed.
    pub links: Option<Arc<dyn LinkChecker>>,
    /// What the store shows of the client to another server; `None`: nothing.
    pub client: Option<Arc<ClientCredential>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_superuser_and_its_group_are_no_local_users() {
        assert!(LocalUser::new("root", 0, 100, []).is_none());
        assert!(LocalUser::new("odd", 1000, 0, []).is_none());
        assert!(LocalUser::new("none", u32::MAX, 100, []).is_none());
        let user = LocalUser::new("atlas", 1000, 100, [7, 0, 100, 5, 7]).unwrap();
        assert_eq!(user.groups(), [5, 7]);
    }
}
