//! The client for which a request is decided, and the question that policy is asked about it.

use std::net::IpAddr;
use std::sync::Arc;

use credentials::Credential;
use policy::{Operation, Request};
use storage::ClientToken;
use types::{LogicalPath, Result};

use crate::clock::now_s;

/// The client that asks: its credential and its address.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// The credential, or why it is unusable.
    pub credential: &'a Result<Arc<Credential>>,
    /// The client's address.
    pub address: IpAddr,
}

impl Requester<'_> {
    /// The client's token of an issuer, with the servers that it is for.
    pub(crate) fn token(&self) -> Option<Arc<ClientToken>> {
        let Ok(Credential::Token(token)) = self.credential.as_deref() else {
            return None;
        };
        Some(Arc::new(ClientToken {
            text: token.text.clone()?,
            audiences: token.audiences.clone(),
        }))
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
