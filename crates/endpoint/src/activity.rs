//! Counts running transfers of clients: uploading connections yield to others when there are many,
//! and a cluster learns how busy its nodes are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::FOREGROUND_UPLOADS_MAX;

/// Counts the uploads and downloads of clients, through every door. Clones share the counts.
/// Third-party copies are not among them.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    uploads: Arc<AtomicUsize>,
    downloads: Arc<AtomicUsize>,
}

/// One upload or download, until it is dropped.
#[derive(Debug)]
pub struct ActiveTransfer(Arc<AtomicUsize>);

impl ActiveTransfer {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Activity {
    /// Counts an upload that begins.
    #[must_use]
    pub fn begin_upload(&self) -> ActiveTransfer {
        ActiveTransfer::begin(&self.uploads)
    }

    /// Counts a download that begins, or a file that is open for reading.
    #[must_use]
    pub fn begin_download(&self) -> ActiveTransfer {
        ActiveTransfer::begin(&self.downloads)
    }

    /// The uploads that run.
    #[must_use]
    pub fn uploads(&self) -> usize {
        self.uploads.load(Ordering::Relaxed)
    }

    /// The downloads that run, and files that are open for reading.
    #[must_use]
    pub fn downloads(&self) -> usize {
        self.downloads.load(Ordering::Relaxed)
    }

    /// Whether small requests would wait behind many uploads, which then move to the background.
    #[must_use]
    pub fn has_many_uploads(&self) -> bool {
        self.uploads() >= FOREGROUND_UPLOADS_MAX
    }
}

impl Drop for ActiveTransfer {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_are_many_until_enough_have_ended() {
        let activity = Activity::default();
        let mut under_way: Vec<_> = (1..FOREGROUND_UPLOADS_MAX).map(|_| activity.begin_upload()).collect();
        let download = activity.begin_download();
        assert!(!activity.has_many_uploads());
        under_way.push(activity.clone().begin_upload());
        assert!(activity.has_many_uploads());
        under_way.pop();
        assert!(!activity.has_many_uploads());
        assert_eq!(
            (activity.uploads(), activity.downloads()),
            (FOREGROUND_UPLOADS_MAX - 1, 1)
        );
        drop(download);
        assert_eq!(activity.downloads(), 0);
    }
}
