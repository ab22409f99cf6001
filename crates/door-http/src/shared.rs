//! What the connections of one HTTP door share.

use std::sync::Arc;

use http_server::Server;
use tokio::sync::Semaphore;

use crate::settings::Settings;

/// What the connections of one door share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) server: Server,
    /// What our pages may load and run.
    pub(crate) content_policy: String,
    /// Places for redirectors that listen.
    pub(crate) node_listeners: Arc<Semaphore>,
}
