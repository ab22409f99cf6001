//! What the client is doing for a resource, for the user who waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// What the client is doing for a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activity {
    /// It asks the server something, or waits for it to begin.
    Ask,
    /// Data are being transferred.
    Transfer,
    /// It waits for a checksum.
    Checksum,
    /// It removes a file, a directory or an upload.
    Remove,
    /// It connects to a server, with TLS and login.
    Connect,
}

/// Added to the number of an activity while it waits for a connection.
const CONNECTING: u8 = 0x80;

/// Notes what the client is doing for a resource and its clones. By default nothing is noted.
#[derive(Clone, Debug, Default)]
pub struct ActivityNote(Option<Arc<AtomicU8>>);

impl ActivityNote {
    /// One that is kept.
    #[must_use]
    pub fn kept() -> Self {
        Self(Some(Arc::new(AtomicU8::new(Activity::Ask as u8))))
    }

    /// The latest activity.
    #[must_use]
    pub fn latest(&self) -> Activity {
        let number = self.0.as_ref().map_or(Activity::Ask as u8, |note| note.load(Relaxed));
        let all = [Activity::Ask, Activity::Transfer, Activity::Checksum, Activity::Remove];
        let known = all.into_iter().find(|activity| *activity as u8 == number);
        known.unwrap_or(Activity::Connect)
    }

    pub(crate) fn begin(&self, activity: Activity) {
        if let Some(note) = &self.0 {
            note.store(activity as u8, Relaxed);
        }
    }

    /// Runs what makes a connection.
    pub(crate) async fn connecting<T>(&self, connect: impl Future<Output = T>) -> T {
        let Some(note) = &self.0 else { return connect.await };
        note.fetch_or(CONNECTING, Relaxed);
        let connected = connect.await;
        note.fetch_and(!CONNECTING, Relaxed);
        connected
    }
}
