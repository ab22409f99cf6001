//! Where symbolic links lead.

use std::sync::{Arc, Mutex, PoisonError};

use storage::{LinkChecker, LinkUse};
use types::{LogicalPath, Result};

use crate::export_path::StoredPath;
use crate::found::is_missing;

/// Allows everything, and records where links lead.
#[derive(Debug, Default)]
struct LinkRecorder(Mutex<Option<LogicalPath>>);

impl LinkChecker for LinkRecorder {
    fn check(&self, reached: &LogicalPath, _: LinkUse<'_>) -> Result<()> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reached.clone());
        Ok(())
    }
}

/// The path that `path` (which its store knows as `stored`) leads to without symbolic links; `None`
/// if there are none. With `follows_last` the last component is followed too. Names that do not
/// exist yet lead nowhere.
pub(crate) async fn path_reached(
    stored: StoredPath<'_>,
    path: &LogicalPath,
    follows_last: bool,
) -> Option<LogicalPath> {
    let inner = stored.inner;
    let store = stored.store.for_itself();
    let mut there = if follows_last { inner.clone() } else { inner.parent()? };
    while store.stat(&there).await.is_err_and(|error| is_missing(&error)) {
        there = there.parent()?;
    }
    let witness = Arc::new(LinkRecorder::default());
    let seeing = store.acting_for(None, None, None, Some(witness.clone()));
    // What cannot be accessed cannot be changed either; that operation reports the error.
    let _ = seeing.check_links(&there, LinkUse::Stat).await;
    let reached = witness.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    let length = |path: &LogicalPath| if path.is_root() { 0 } else { path.as_str().len() };
    let (reached, rest) = (&reached.as_str()[..length(&reached)], &inner.as_str()[length(&there)..]);
    let export = path.as_str().strip_suffix(inner.as_str()).unwrap_or_default();
    LogicalPath::parse(&format!("{export}{reached}{rest}")).ok()
}
