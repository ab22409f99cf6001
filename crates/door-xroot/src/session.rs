//! A session: what a connection knows of its client after login, and what the client has open.

use std::sync::Arc;

use credentials::Credential;
use endpoint::Share;
use types::{LogicalPath, Unlisted};

use crate::files::{Files, OpenFile};
use crate::gsi::Progress;
use crate::sessions::Registration;

/// A session: who the client is, and what it has open.
pub(crate) struct Session {
    pub(crate) registration: Registration,
    /// The user that the client named.
    pub(crate) user: String,
    /// User name and process number as the client gave them, by which servers name it to each other.
    pub(crate) caller: String,
    /// The number of the client's process, as it gave it.
    pub(crate) process: i32,
    /// The client's program.
    pub(crate) agent: Option<String>,
    /// Whether answers may come by themselves.
    pub(crate) takes_late_answers: bool,
    pub(crate) credential: Arc<Credential>,
    /// How far an authentication of several steps has come.
    pub(crate) progress: Option<Progress>,
    pub(crate) files: Files,
    /// What its last listing left out, for the client to ask about.
    pub(crate) listed: Option<Listed>,
    /// Counts the connection for its identity.
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
