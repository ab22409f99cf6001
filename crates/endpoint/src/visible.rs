//! The names of a directory that the client may stat.

use std::net::IpAddr;
use std::sync::Arc;

use credentials::Credential;
use policy::{NameEdges, Policy, Request};

/// The names of a directory that a client may see.
pub(crate) struct VisibleNames {
    policy: Arc<Policy>,
    credential: Arc<Credential>,
    address: IpAddr,
    now_s: i64,
    edges: NameEdges,
}

impl VisibleNames {
    /// The names that a request to stat the directory may see below it; `None`: all.
    pub(crate) fn of(policy: Arc<Policy>, credential: &Arc<Credential>, request: &Request) -> Option<Self> {
        let edges = NameEdges::of(&policy, credential, request)?;
        Some(Self {
            policy,
            credential: credential.clone(),
            address: request.client_address,
            now_s: request.now_s,
            edges,
        })
    }

    /// Whether the client may see this name.
    pub(crate) fn shows(&self, name: &str) -> bool {
        self.edges
            .shows(name, &self.policy, &self.credential, self.address, self.now_s)
    }
}
