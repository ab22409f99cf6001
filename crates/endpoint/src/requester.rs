//! The client for which a request is decided, and the question that policy is asked about it.

use std::net::IpAddr;
use std::sync::Arc;

use credentials::{Credential, capability};
use policy::{InTheNameOf, Operation, Request};
use types::{LogicalPath, Result};

use crate::clock::now_s;
use crate::fair_share::identity_of;
use crate::upstream::UpstreamClient;

/// The client that asks: its credential and its address.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// The credential, or why it is unusable.
    pub credential: &'a Result<Arc<Credential>>,
    /// The client's address.
    pub address: IpAddr,
}

impl Requester<'_> {
    /// The client as a server that has our files may learn of it. A capability is not for that
    /// server, so that its holder shows no credential there.
    pub(crate) fn upstream<'a>(
        &'a self,
        holder: Option<&capability::Holder>,
        owner: InTheNameOf,
    ) -> UpstreamClient<'a> {
        let credential = self.credential.as_deref().ok();
        let key = match holder {
            None => credential.and_then(identity_of),
            Some(holder) => {
                let name = holder.subject.as_deref().or(holder.token_id.as_deref());
                name.map(|name| format!("capability of {} {name}", holder.kind).into())
            }
        };
        UpstreamClient {
            credential: credential.filter(|_| holder.is_none()),
            key,
            user: owner.user,
            vo: owner.vo,
        }
    }
}

/// The question to policy, about now.
pub(crate) fn request(
    requester: Requester<'_>,
    operation: Operation,
    path: &LogicalPath,
    size_bytes: Option<u64>,
) -> Request {
    Request {
        operation,
        path: path.clone(),
        client_address: requester.address.to_canonical(),
        now_s: now_s(),
        size_bytes,
    }
}
