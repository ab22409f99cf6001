//! Counts running uploads, so that uploading connections yield to others when there are many.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::FOREGROUND_UPLOADS_MAX;

/// Counts the uploads of clients. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct ActiveUploads(Arc<AtomicUsize>);

/// One upload, until it is dropped.
#[derive(Debug)]
pub struct ActiveUpload(Arc<AtomicUsize>);

impl ActiveUploads {
    /// Counts an upload that begins.
    #[must_use]
    pub fn begin(&self) -> ActiveUpload {
        self.0.fetch_add(1, Ordering::Relaxed);
        ActiveUpload(self.0.clone())
    }

    /// Whether small requests would wait behind many uploads, which then move to the background.
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
    fn uploads_are_many_until_enough_have_ended() {
        let uploads = ActiveUploads::default();
        let mut under_way: Vec<_> = (1..FOREGROUND_UPLOADS_MAX).map(|_| uploads.begin()).collect();
        assert!(!uploads.are_many());
        under_way.push(uploads.clone().begin());
        assert!(uploads.are_many());
        under_way.pop();
        assert!(!uploads.are_many());
    }
}
