//! Uploads that a client began and did not finish.
//!
//! XRootD's clients recover from a lost connection: they open the file again for update, without
//! the flags that created it, and send what was not acknowledged. A server that shows uploads at
//! once continues with the new file. Here the name still belongs to the old file, which must not
//! get pieces of the new one. So the open is refused, and the client reports that its upload
//! failed.
//!
//! A client is recognised by its address and by the user name and process number of its login,
//! which stay the same when it reconnects. A restart forgets all uploads. So for as long as clients
//! may try to recover, an open for update that gives permission bits is refused: a recovering
//! client sends the bits of its upload again, and an open of an existing file needs none.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::INTERRUPTED_UPLOADS_MAX;
use types::LogicalPath;

/// How long a client may try to recover an upload (`XRD_STREAMERRORWINDOW` is 30 minutes by
/// default).
const RECOVERY_TIME: Duration = Duration::from_secs(30 * 60);

/// The reason to refuse an open that might be a recovery from before the server's start.
const AFTER_START: &str = "the server has started less than 30 minutes ago, and an open for update that names permission \
                           bits looks like the rest of an upload; an open of a file that is whole needs none";

/// One upload of one client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UploadId {
    pub(crate) path: LogicalPath,
    /// User name and process number of the login.
    pub(crate) caller: String,
    pub(crate) address: IpAddr,
}

/// Unfinished uploads, each with the time when its connection was lost, or `None` while it is open.
type Table = HashMap<UploadId, Option<Instant>>;

/// The uploads of all clients of a door.
pub(crate) struct InterruptedUploads {
    started: Instant,
    table: Arc<Mutex<Table>>,
}

/// A running upload. Dropped before [`PendingUpload::end`], it counts as interrupted.
pub(crate) struct PendingUpload {
    id: UploadId,
    table: Arc<Mutex<Table>>,
}

impl InterruptedUploads {
    /// No uploads yet, in a server that started at `started`.
    pub(crate) fn new(started: Instant) -> Self {
        Self {
            started,
            table: Arc::default(),
        }
    }

    /// An upload begins. An earlier one of the same client under this name is forgotten: the client
    /// starts again.
    pub(crate) fn begin(&self, id: UploadId, now: Instant) -> PendingUpload {
        let mut table = lock(&self.table);
        if table.len() >= INTERRUPTED_UPLOADS_MAX {
            make_room(&mut table, now);
        }
        table.insert(id.clone(), None);
        PendingUpload {
            id,
            table: self.table.clone(),
        }
    }

    /// Why an open for update looks like the recovery of an upload; `None` if it does not.
    pub(crate) fn recovery(&self, id: &UploadId, names_mode: bool, now: Instant) -> Option<&'static str> {
        let known = match lock(&self.table).get(id) {
            Some(Some(lost)) => now.saturating_duration_since(*lost) < RECOVERY_TIME,
            Some(None) => true,
            None => false,
        };
        let is_fresh = now.saturating_duration_since(self.started) < RECOVERY_TIME;
        match known {
            true => Some("this client began an upload of the file, and has not ended it"),
            false => (names_mode && is_fresh).then_some(AFTER_START),
        }
    }
}

impl PendingUpload {
    /// The file has its name, and its client may open it for update.
    pub(crate) fn end(self) {
        lock(&self.table).remove(&self.id);
    }
}

impl Drop for PendingUpload {
    fn drop(&mut self) {
        if let Some(lost) = lock(&self.table).get_mut(&self.id) {
            *lost = Some(Instant::now());
        }
    }
}

/// Forgets what is too old. If that is not enough, forgets the oldest upload of the address that
/// has most.
fn make_room(table: &mut Table, now: Instant) {
    table.retain(|_, lost| lost.is_none_or(|lost| now.saturating_duration_since(lost) < RECOVERY_TIME));
    if table.len() < INTERRUPTED_UPLOADS_MAX {
        return;
    }
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for (id, _) in table.iter().filter(|(_, lost)| lost.is_some()) {
        *counts.entry(id.address).or_default() += 1;
    }
    let Some((address, _)) = counts.into_iter().max_by_key(|(_, count)| *count) else {
        return;
    };
    let of_address = table.iter().filter(|(id, _)| id.address == address);
    let oldest = of_address.filter_map(|(id, lost)| Some(((*lost)?, id.clone())));
    if let Some((_, id)) = oldest.min_by_key(|(lost, _)| *lost) {
        table.remove(&id);
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(path: &str, process: u32, last: u8) -> UploadId {
        UploadId {
            path: LogicalPath::parse(path).unwrap(),
            caller: format!("user.{process}"),
            address: IpAddr::from([192, 0, 2, last]),
        }
    }

    /// A server that has been up for a day.
    fn old_server(now: Instant) -> InterruptedUploads {
        let uploads = InterruptedUploads::new(now);
        assert!(uploads.recovery(&id("/a", 1, 1), true, now + RECOVERY_TIME).is_none());
        uploads
    }

    #[test]
    fn only_the_client_whose_upload_was_interrupted_recovers_it() {
        let now = Instant::now();
        let uploads = old_server(now);
        let pending = uploads.begin(id("/a", 1, 1), now);
        assert!(uploads.recovery(&id("/a", 1, 1), false, now).is_some());
        drop(pending);
        assert!(uploads.recovery(&id("/a", 1, 1), false, now).is_some());
        for other in [id("/b", 1, 1), id("/a", 2, 1), id("/a", 1, 2)] {
            assert!(uploads.recovery(&other, false, now).is_none());
        }
        assert!(
            uploads
                .recovery(&id("/a", 1, 1), false, now + RECOVERY_TIME + Duration::from_secs(60))
                .is_none()
        );
    }

    #[test]
    fn what_has_taken_its_name_is_no_longer_an_upload() {
        let now = Instant::now();
        let uploads = old_server(now);
        uploads.begin(id("/a", 1, 1), now).end();
        assert!(uploads.recovery(&id("/a", 1, 1), false, now).is_none());
    }

    #[test]
    fn shortly_after_the_start_permission_bits_tell_a_recovery() {
        let now = Instant::now();
        let uploads = InterruptedUploads::new(now);
        assert!(uploads.recovery(&id("/a", 1, 1), true, now).is_some());
        assert!(uploads.recovery(&id("/a", 1, 1), false, now).is_none());
    }

    #[test]
    fn who_interrupts_many_uploads_pushes_out_no_one_elses() {
        let now = Instant::now();
        let uploads = old_server(now);
        drop(uploads.begin(id("/a", 1, 1), now));
        for process in 0..INTERRUPTED_UPLOADS_MAX as u32 + 10 {
            drop(uploads.begin(id("/b", process, 2), now));
        }
        assert!(uploads.recovery(&id("/a", 1, 1), false, now).is_some());
        assert_eq!(lock(&uploads.table).len(), INTERRUPTED_UPLOADS_MAX);
    }
}
