//! How many uploads are under way, so that those who upload let others go first when they are many.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::FOREGROUND_UPLOADS_MAX;

/// Counts uploads of clients. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct ActiveUploads(Arc<AtomicUsize>);

/// One upload, until this is dropped.
#[derive(Debug)]
pub struct ActiveUpload(Arc<AtomicUsize>);

impl ActiveUploads {
    /// Counts one that begins.
    #[must_use]
    pub fn begin(&self) -> ActiveUpload {
        self.0.fetch_add(1, Ordering::Relaxed);
        ActiveUpload(self.0.clone())
    }

    /// Whether a small request would have to wait for many others: then connections that upload go to the background.
    #[must_use]
    pub fn are_many(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= FOREGROUND_UPLOADS_MAX
    }
}

impl Drop for ActiveUpload {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_many_until_enough_have_ended() {
        let uploads = ActiveUploads::default();
        let mut under_way: Vec<_> = (1..FOREGROUND_UPLOADS_MAX).map(|_| uploads.begin()).collect();
        assert!(!uploads.are_many());
        under_way.push(uploads.clone().begin());
        assert!(uploads.are_many());
        under_way.pop();
        assert!(!uploads.are_many());
    }
}
