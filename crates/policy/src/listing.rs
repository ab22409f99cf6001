//! Which names of a directory a client may see: listings leave out names that it may not look at.
//! Where no rule, export, scope or exception begins directly below the directory, all names have
//! its rights, and no further decision is needed.

use std::collections::HashSet;
use std::net::IpAddr;

use credentials::Credential;
use types::LogicalPath;

use crate::decide::{Request, is_allowed};
use crate::operation::{Access, Operation};
use crate::policy::Policy;
use crate::rename::{Tree, edges};
use crate::who::Person;

/// Where names of a directory have rights of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameEdges {
    path: LogicalPath,
    /// Names at which something begins, or below which something does.
    names: HashSet<String>,
    /// What names begin with that have rights of their own together, the longest first, and whether
    /// they are seen.
    beginnings: Vec<(String, bool)>,
}

impl NameEdges {
    /// Those that matter to the holder of a credential; `None` where there are none.
    #[must_use]
    pub fn of(policy: &Policy, credential: &Credential, request: &Request) -> Option<Self> {
        let user = Person::holder(credential, request.client_address).user;
        let tree = Tree {
            policy,
            credential,
            request,
        };
        let (mut names, mut beginnings) = (HashSet::new(), Vec::new());
        for edge in edges(policy, credential, user, &request.path) {
            let Some(relative) = edge.strip_prefix('/') else {
                continue;
            };
            match (relative.split_once('/'), relative.strip_suffix('\0')) {
                (Some((name, _)), _) => drop(names.insert(name.to_owned())),
                (None, Some(beginning)) => {
                    let is_seen = tree.allows_at(Access::Stat, &edge);
                    beginnings.push((beginning.to_owned(), is_seen));
                }
                (None, None) => drop(names.insert(relative.to_owned())),
            }
        }
        if names.is_empty() && beginnings.iter().all(|(_, is_seen)| *is_seen) {
            return None;
        }
        beginnings.sort_by_key(|(beginning, _)| std::cmp::Reverse(beginning.len()));
        beginnings.dedup();
        let path = request.path.clone();
        Some(Self {
            path,
            names,
            beginnings,
        })
    }

    /// Whether the holder of that credential may see a name: he may look at it, or something below
    /// it may be used.
    #[must_use]
    pub fn shows(
        &self,
        name: &str,
        policy: &Policy,
        credential: &Credential,
        client_address: IpAddr,
        now_s: i64,
    ) -> bool {
        if !self.names.contains(name) {
            let begins = |(beginning, _): &&(String, bool)| name.starts_with(beginning.as_str());
            return self.beginnings.iter().find(begins).is_none_or(|(_, is_seen)| *is_seen);
        }
        let Ok(path) = self.path.join(name) else {
            return false;
        };
        let request = Request {
            operation: Operation::Stat,
            path,
            client_address,
            now_s,
            size_bytes: None,
        };
        is_allowed(policy, credential, &request)
    }
}
