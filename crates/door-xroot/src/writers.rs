//! Which files are being written, and by which client: one client at a time opens a file for
//! writing, unless clients force it. A stat shows a file that is being written.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use endpoint::ClientId;
use storage::{Stat, WriteHandle};
use tokio::sync::Notify;
use types::LogicalPath;

use crate::copy_progress::CopyProgress;

/// The files that are open for writing, with what a stat shows of those that have no name yet.
/// Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Writers(Arc<Inner>);

#[derive(Default)]
struct Inner {
    table: Mutex<Table>,
    /// A writer has ended.
    ended: Notify,
}

#[derive(Default)]
struct Table {
    /// The writers, by the future name of their file; no entry is empty.
    files: HashMap<LogicalPath, Vec<Entry>>,
    /// The number of the next writer.
    next: u64,
}

struct Entry {
    number: u64,
    /// Whether it excludes other writers that want to be alone.
    alone: bool,
    client: IpAddr,
    preview: Option<Preview>,
    /// The client of an update in place, and its file.
    update: Option<(Writer, Update)>,
}

/// A client program, which may use one file over several sessions. User names do not count, because
/// XRootD's clients make up some to keep sessions apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) path: LogicalPath,
    pub(crate) address: IpAddr,
    /// The process number of its logins.
    pub(crate) process: i32,
    /// The program name of its logins.
    pub(crate) agent: Option<String>,
    /// Its identity.
    pub(crate) client: ClientId,
}

/// An update in place by one session, for other sessions of the same program.
#[derive(Clone)]
pub(crate) struct Update {
    upload: Weak<dyn WriteHandle>,
    is_torn: Arc<AtomicBool>,
}

impl Update {
    /// `is_torn` is set when a change fails, so that closing the file fails too.
    pub(crate) fn new(upload: &Arc<dyn WriteHandle>, is_torn: &Arc<AtomicBool>) -> Self {
        Self {
            upload: Arc::downgrade(upload),
            is_torn: is_torn.clone(),
        }
    }

    /// `None` after the file was closed.
    pub(crate) fn upload(&self) -> Option<Arc<dyn WriteHandle>> {
        self.upload.upgrade()
    }

    /// A change was refused or failed.
    pub(crate) fn refuse(&self) {
        self.is_torn.store(true, Ordering::Relaxed);
    }
}

/// What a stat shows of a file that is being written.
pub(crate) enum Preview {
    /// What its client has written so far.
    Upload(Weak<dyn WriteHandle>),
    /// What a copy from another server has brought so far.
    Copy(Weak<CopyProgress>),
}

impl Preview {
    /// `None` after its end.
    fn stat(&self) -> Option<Stat> {
        match self {
            Self::Upload(upload) => upload.upgrade()?.stat().ok(),
            Self::Copy(copy) => copy.upgrade()?.pending(),
        }
    }
}

/// A writer's claim on a file, until it is dropped.
pub(crate) struct WriteClaim {
    path: LogicalPath,
    number: u64,
    writers: Writers,
}

impl Writers {
    /// Claims a file; `None` while another writer excludes this one. A writer that is not `alone`
    /// neither waits for others nor excludes them.
    pub(crate) fn claim(&self, path: &LogicalPath, alone: bool, client: IpAddr) -> Option<WriteClaim> {
        let mut table = self.open();
        let number = table.next;
        let writers = table.files.entry(path.clone()).or_default();
        if alone && writers.iter().any(|writer| writer.alone) {
            return None;
        }
        writers.push(Entry {
            number,
            alone,
            client,
            preview: None,
            update: None,
        });
        table.next += 1;
        Some(WriteClaim {
            path: path.clone(),
            number,
            writers: self.clone(),
        })
    }

    /// The stat of a file that is being written under this name.
    pub(crate) fn pending(&self, path: &LogicalPath) -> Option<Stat> {
        let table = self.open();
        let mut previews = table
            .files
            .get(path)?
            .iter()
            .filter_map(|writer| writer.preview.as_ref());
        previews.find_map(Preview::stat)
    }

    /// Whether a client at this address is writing a file under this name.
    pub(crate) fn is_written_from(&self, path: &LogicalPath, client: IpAddr) -> bool {
        let table = self.open();
        let mut writers = table.files.get(path).into_iter().flatten();
        writers.any(|writer| writer.client == client && writer.preview.as_ref().and_then(Preview::stat).is_some())
    }

    /// The newest update of a file by this client; `None` also while another client has claimed it.
    pub(crate) fn update(&self, writer: &Writer) -> Option<Update> {
        let table = self.open();
        let entries = table.files.get(&writer.path)?;
        let own = |entry: &Entry| {
            entry
                .update
                .as_ref()
                .filter(|(by, _)| by == writer)
                .map(|(_, update)| update.clone())
        };
        let is_taken = entries.iter().any(|entry| entry.alone && own(entry).is_none());
        entries.iter().rev().find_map(own).filter(|_| !is_taken)
    }

    /// Waits until no file is being written under this name; `false` when none was, or on timeout.
    pub(crate) async fn wait_for_end(&self, path: &LogicalPath, patience: Duration) -> bool {
        let end = async {
            loop {
                let ended = self.0.ended.notified();
                if self.pending(path).is_none() {
                    return;
                }
                ended.await;
            }
        };
        self.pending(path).is_some() && tokio::time::timeout(patience, end).await.is_ok()
    }

    fn open(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WriteClaim {
    /// Shows the file to others.
    pub(crate) fn show(&self, preview: Preview) {
        self.note(|own| own.preview = Some(preview));
    }

    /// Lets other sessions of the client change the file too.
    pub(crate) fn share(&self, writer: Writer, update: Update) {
        self.note(|own| own.update = Some((writer, update)));
    }

    fn note(&self, change: impl FnOnce(&mut Entry)) {
        let mut table = self.writers.open();
        let writers = table.files.get_mut(&self.path);
        let own = writers.and_then(|writers| writers.iter_mut().find(|writer| writer.number == self.number));
        if let Some(own) = own {
            change(own);
        }
    }
}

impl Drop for WriteClaim {
    fn drop(&mut self) {
        let mut table = self.writers.open();
        if let Some(writers) = table.files.get_mut(&self.path) {
            writers.retain(|writer| writer.number != self.number);
            if writers.is_empty() {
                table.files.remove(&self.path);
            }
        }
        drop(table);
        self.writers.0.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn a_file_has_one_writer_at_a_time_unless_they_force_it() {
        let writers = Writers::default();
        let (file, other) = (LogicalPath::parse("/a").unwrap(), LogicalPath::parse("/b").unwrap());
        let claim = writers.claim(&file, true, HERE).unwrap();
        assert!(writers.claim(&file, true, HERE).is_none() && writers.claim(&other, true, HERE).is_some());
        let forced = writers.claim(&file, false, HERE).unwrap();
        drop(claim);
        let again = writers.claim(&file, true, HERE).unwrap();
        drop((forced, again));
        assert!(writers.open().files.is_empty());
    }

    /// A copy that has not begun.
    fn shown(claim: &WriteClaim) -> Arc<CopyProgress> {
        let copy = Arc::<CopyProgress>::default();
        claim.show(Preview::Copy(Arc::downgrade(&copy)));
        copy
    }

    #[tokio::test]
    async fn what_is_written_can_be_waited_for() {
        let writers = Writers::default();
        let file = LogicalPath::parse("/a").unwrap();
        let (moment, long) = (Duration::from_millis(10), Duration::from_secs(60));
        assert!(!writers.wait_for_end(&file, long).await, "nothing is being written");
        let claim = writers.claim(&file, true, HERE).unwrap();
        assert!(!writers.wait_for_end(&file, long).await, "nothing can be shown");
        let _copy = shown(&claim);
        assert!(!writers.wait_for_end(&file, moment).await, "it has not ended");
        let (ended, ()) = tokio::join!(writers.wait_for_end(&file, long), async { drop(claim) });
        assert!(ended && writers.pending(&file).is_none());
    }

    #[test]
    fn one_of_several_writers_is_shown_as_long_as_it_writes() {
        let writers = Writers::default();
        let file = LogicalPath::parse("/a").unwrap();
        let (one, other) = (
            writers.claim(&file, false, HERE).unwrap(),
            writers.claim(&file, false, HERE).unwrap(),
        );
        let copy = shown(&other);
        assert_eq!(writers.pending(&file).unwrap().size_bytes, 0);
        assert!(writers.is_written_from(&file, HERE) && !writers.is_written_from(&file, [192, 0, 2, 7].into()));
        drop((one, copy));
        assert!(writers.pending(&file).is_none() && !writers.is_written_from(&file, HERE));
    }
}
