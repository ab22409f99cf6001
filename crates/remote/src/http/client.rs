//! What all HTTP requests of a client share.

use std::sync::Arc;

use super::pool::Pool;
use crate::client::{ClientOptions, PinnedHost};

/// A client for any number of HTTP servers. Clones share their idle connections.
#[derive(Clone)]
pub(crate) struct Client {
    pub(super) options: Arc<ClientOptions>,
    pub(super) pool: Arc<Pool>,
    pub(super) pin: Option<PinnedHost>,
}

impl Client {
    /// A client without connections.
    pub(crate) fn new(options: Arc<ClientOptions>) -> Self {
        Self {
            options,
            pool: Arc::new(Pool::default()),
            pin: None,
        }
    }

    /// A client that reaches a host only at one address.
    pub(crate) fn pinned(options: Arc<ClientOptions>, pin: PinnedHost) -> Self {
        Self {
            pin: Some(pin),
            ..Self::new(options)
        }
    }
}
