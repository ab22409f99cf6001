//! What all HTTP requests of one client have in common.

use std::sync::Arc;

use super::pool::Pool;
use crate::client::{ClientOptions, Pin};

/// A client for any number of HTTP peers. Clones share their idle connections.
#[derive(Clone)]
pub(crate) struct Client {
    pub(super) options: Arc<ClientOptions>,
    pub(super) pool: Arc<Pool>,
    pub(super) pin: Option<Pin>,
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

    /// A client that reaches a host at one address.
    pub(crate) fn pinned(options: Arc<ClientOptions>, pin: Pin) -> Self {
        Self {
            pin: Some(pin),
            ..Self::new(options)
        }
    }
}
