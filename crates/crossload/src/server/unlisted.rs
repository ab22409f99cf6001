//! Directories with unlisted entries that the log has reported already.

use std::collections::HashMap;
use std::time::Duration;

use crate::limits::{UNLISTED_AGAIN_TIME, UNLISTED_DIRECTORIES_MAX};
use types::LogicalPath;

/// Limits log lines to one per directory in [`UNLISTED_AGAIN_TIME`], for at most
/// [`UNLISTED_DIRECTORIES_MAX`] directories.
#[derive(Debug, Default)]
pub(crate) struct NamedDirectories(HashMap<LogicalPath, Duration>);

impl NamedDirectories {
    /// Whether to log the directory. `now` is the time since the start.
    pub(crate) fn names(&mut self, directory: &LogicalPath, now: Duration) -> bool {
        let is_recent = |named: &Duration| now.saturating_sub(*named) < UNLISTED_AGAIN_TIME;
        if self.0.get(directory).is_some_and(is_recent) {
            return false;
        }
        if self.0.len() >= UNLISTED_DIRECTORIES_MAX {
            self.0.retain(|_, named| is_recent(named));
        }
        if self.0.len() >= UNLISTED_DIRECTORIES_MAX {
            return false;
        }
        self.0.insert(directory.clone(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_named_once_in_a_while_and_not_too_many_are() {
        let path = |number: usize| LogicalPath::parse(&format!("/d{number}")).unwrap();
        let (start, later) = (Duration::ZERO, UNLISTED_AGAIN_TIME);
        let mut named = NamedDirectories::default();
        assert!(named.names(&path(0), start));
        assert!(!named.names(&path(0), start));
        let count = (1..2 * UNLISTED_DIRECTORIES_MAX)
            .filter(|number| named.names(&path(*number), start))
            .count();
        assert_eq!(count, UNLISTED_DIRECTORIES_MAX - 1);
        assert!(named.names(&path(0), later), "and again after a while");
        assert!(
            named.names(&path(UNLISTED_DIRECTORIES_MAX), later),
            "old ones make room"
        );
    }
}
