//! Makes directories with their parents.

use types::{Error, ErrorCode, Location, Result};

use crate::client::Client;
use crate::resource::Resource;

impl Resource {
    /// The directory that contains the file, with the same access; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        Some(Self {
            location: parent_of(&self.location)?,
            ..self.clone()
        })
    }
}

/// The location of the directory above, without the query.
fn parent_of(location: &Location) -> Option<Location> {
    let path = location.path().trim_end_matches('/');
    let parent = &path[..path.rfind('/')?];
    Some(location.with_path(if parent.is_empty() { "/" } else { parent }))
}

impl Client {
    /// Makes a directory and its missing parents. One that exists is accepted.
    ///
    /// # Errors
    /// `peer_exists` if a name on the way is a file's; `peer_failed` if a parent is said to be
    /// missing although it is there; another refusal.
    pub async fn make_directories(&self, directory: &Resource) -> Result<()> {
        let mut missing = vec![directory.clone()];
        // Upwards until a directory is there, then down once: a server may refuse for ever with
        // the status of a missing parent.
        let mut has_parent = false;
        while let Some(next) = missing.pop() {
            match self.make_directory(&next).await {
                Ok(()) => has_parent = true,
                Err(error) if is_taken(&error) => {
                    if !self.stat(&next).await?.is_directory {
                        return Err(error);
                    }
                    has_parent = true;
                }
                Err(error) if is_parentless(&error) && !has_parent => {
                    let Some(parent) = next.parent() else { return Err(error) };
                    missing.extend([next, parent]);
                }
                Err(error) if error.code() == ErrorCode::ParentMissing => {
                    let refused = next.error(ErrorCode::PeerFailed, error.phase());
                    return Err(refused.with_peer(error.peer_status(), error.peer_words().unwrap_or_default()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn is_taken(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::Exists | ErrorCode::PeerExists | ErrorCode::DirectoryExists
    )
}

fn is_parentless(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::ParentMissing | ErrorCode::PeerNotFound | ErrorCode::NotFound
    )
}
