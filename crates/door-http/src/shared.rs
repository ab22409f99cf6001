//! What the connections of one HTTP door share.

use endpoint::ActiveUploads;
use http_server::Server;

use crate::settings::Settings;

/// What the connections of one door share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) server: Server,
    pub(crate) uploads: ActiveUploads,
}
