//! Visible names for copies that are to replace something, which the engine makes file by file.
//! Each is noted, so that the next start removes what a server has left that died.

use std::sync::Arc;

use types::{ErrorCode, LogicalPath, Phase, Result};

use super::Posix;
use super::parts::Instance;
use crate::api::Storage as _;
use crate::aside::{Beside, COPIED, name_aside};
use crate::fault::about;
use crate::owner::Owner;

/// A name that is noted, until nothing has it.
struct NotedName {
    /// For the server itself.
    store: Posix,
    instance: Arc<Instance>,
    entry: String,
    path: LogicalPath,
}

/// Chooses and notes a name beside another one.
pub(super) fn name(store: &Posix, beside: &LogicalPath) -> Result<Beside> {
    let path = name_aside(beside, COPIED)?;
    let directory = path.parent().unwrap_or_else(LogicalPath::root);
    let instance = store.instance_for_part(beside)?;
    let entry = instance.note_copy(&directory, path.name().unwrap_or_default());
    let noted = NotedName {
        store: Posix {
            owner: Owner::default(),
            ..store.clone()
        },
        instance,
        entry: entry.map_err(|errno| about(errno, Phase::Open, beside))?,
        path: path.clone(),
    };
    Ok(Beside {
        path,
        held: Some(Arc::new(Ending(Some(noted)))),
    })
}

impl NotedName {
    /// Removes what is left of a copy that was given up. What stays waits for the next start.
    fn end(&self) {
        let is_gone = || {
            let found = self.store.stat(&self.path);
            found.is_err_and(|error| matches!(error.code(), ErrorCode::NotFound | ErrorCode::ParentMissing))
        };
        if !is_gone() {
            let _ = self.store.remove_tree(&self.path);
        }
        if is_gone() {
            self.instance.forget_elsewhere(&self.entry);
        }
    }
}

/// Ends a noted name when it is dropped.
struct Ending(Option<NotedName>);

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(noted) = self.0.take() else { return };
        match tokio::runtime::Handle::try_current() {
            // A tree may be large.
            Ok(_) => drop(execution::blocking(move || noted.end())),
            Err(_) => noted.end(),
        }
    }
}
