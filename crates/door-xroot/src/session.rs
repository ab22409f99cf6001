//! A session: what a connection knows of its client after login, and what the client has open.

use std::sync::Arc;

use credentials::Credential;
use endpoint::Share;
use types::{LogicalPath, Unlisted};

use crate::files::{Files, OpenFile};
use crate::gsi::GsiExchange;
use crate::redirects::Redirects;
use crate::sessions::Registration;

/// A session: who the client is, and what it has open.
pub(crate) struct Session {
    pub(crate) registration: Registration,
    /// The unverified user name.
    pub(crate) user: String,
    /// User name and process number of the login, by which servers name the client to each other.
    pub(crate) caller: String,
    /// The process number of the login.
    pub(crate) process: i32,
    /// The name of the client's program.
    pub(crate) agent: Option<String>,
    /// Whether the client takes late answers.
    pub(crate) takes_late_answers: bool,
    /// Whether the client follows redirections to whole URLs.
    pub(crate) understands_urls: bool,
    pub(crate) credential: Arc<Credential>,
    /// The state of an authentication with several steps.
    pub(crate) progress: Option<GsiExchange>,
    pub(crate) files: Files,
    /// Where the client was sent.
    pub(crate) redirects: Redirects,
    /// What its last listing left out; the client may ask next.
    pub(crate) listed: Option<Listed>,
    /// Counts the connection in the identity's share.
    pub(crate) counted: Option<Share>,
}

impl Session {
    pub(crate) fn has_open_files(&self) -> bool {
        !self.files.is_empty()
    }

    pub(crate) fn take_files(&mut self) -> Vec<OpenFile> {
        self.files.take_all()
    }
}

/// What the last listing of a session left out.
pub(crate) struct Listed {
    pub(crate) path: LogicalPath,
    pub(crate) credential: Arc<Credential>,
    pub(crate) unlisted: Unlisted,
}
