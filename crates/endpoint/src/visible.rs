//! Listings without the names that the client may not stat.

use std::net::IpAddr;
use std::sync::Arc;

use credentials::Credential;
use policy::{NameEdges, Operation, Policy};
use types::{LogicalPath, Result};

use crate::authorize::{Requester, request};
use crate::clock::now_s;
use crate::exports::{ExportPath, Exports};
use crate::store::Pages;

/// The names of a directory that a client may see.
pub(crate) struct VisibleNames {
    policy: Arc<Policy>,
    credential: Arc<Credential>,
    address: IpAddr,
    now_s: i64,
    edges: NameEdges,
}

impl VisibleNames {
    pub(crate) fn shows(&self, name: &str) -> bool {
        self.edges
            .shows(name, &self.policy, &self.credential, self.address, self.now_s)
    }
}

impl Exports {
    /// Lists a directory to a client that may list it, without the names that it may not stat.
    ///
    /// # Errors
    /// As [`Store::list`](crate::Store::list).
    pub async fn list_to(&self, requester: Requester<'_>, spot: &ExportPath, path: &LogicalPath) -> Result<Pages> {
        let pages = spot.store.list(&spot.path).await?;
        Ok(pages.showing(self.visible_to(requester, path)))
    }

    fn visible_to(&self, requester: Requester<'_>, path: &LogicalPath) -> Option<VisibleNames> {
        let credential = requester.credential.as_ref().ok()?;
        let asked = request(requester, Operation::Stat, path, None);
        let edges = NameEdges::of(self.policy(), credential, &asked)?;
        Some(VisibleNames {
            policy: self.shared_policy(),
            credential: credential.clone(),
            address: asked.client_address,
            now_s: now_s(),
            edges,
        })
    }
}
