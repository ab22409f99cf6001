//! The uploads in parts that this program has begun, in files that outlive it. Parts of a process
//! that was killed are removed by the next one that works with the same bucket.
//!
//! Each process has a file of its own and holds a lock on it, which ends with the process, however
//! it ends. So the uploads in a file that can be locked belong to no living process. Nothing is
//! ever removed that stands in no such file: what other programs upload is theirs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use types::Location;

use crate::limits::{S3_JOURNAL_BYTES_MAX, S3_JOURNAL_LIFETIME, S3_JOURNALS_MAX};

/// The end of the names of its files.
const ENDING: &str = "uploads";

/// A directory with files of uploads.
#[derive(Debug)]
pub(super) struct Journal {
    directory: PathBuf,
    own: Mutex<Own>,
    /// When lost uploads of a bucket were last removed, by the address of the bucket.
    swept: Mutex<Vec<(String, Instant)>>,
}

/// The file of this process.
#[derive(Debug, Default)]
struct Own {
    file: Option<(PathBuf, File)>,
    /// The uploads that have not ended, and their lines.
    open: Vec<(String, String)>,
}

/// An upload of a process that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LostUpload {
    pub(super) location: Location,
    pub(super) id: String,
}

/// Lost uploads of one file, which stays locked meanwhile.
#[derive(Debug)]
pub(super) struct LostFile {
    path: PathBuf,
    file: File,
    pub(super) uploads: Vec<LostUpload>,
}

impl Journal {
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            own: Mutex::default(),
            swept: Mutex::default(),
        }
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an upload has begun, and waits until that is on disk.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn begin(&self, location: &Location, id: &str, now_s: i64) -> io::Result<()> {
        let mut own = self.own();
        let own = &mut *own;
        let line = format!("{}\n", json!({"url": location.to_string(), "id": id, "begun_s": now_s}));
        own.open.push((id.to_owned(), line.clone()));
        // Someone may have deleted the file, and then nothing would be found in it.
        own.file
            .take_if(|(_, file)| file.metadata().is_ok_and(|facts| facts.nlink() == 0));
        let (lines, file) = match &mut own.file {
            Some((_, file)) => (line, file),
            none => {
                let lines = own.open.iter().map(|(_, line)| line.as_str()).collect();
                (lines, &mut none.insert(self.create()?).1)
            }
        };
        file.write_all(lines.as_bytes())?;
        file.sync_data()
    }

    /// Notes that an upload is completed or removed. The file is emptied when none is left.
    ///
    /// # Errors
    /// Those of the file system. Then the upload is taken for a lost one later, and is not found.
    pub(super) fn end(&self, id: &str) -> io::Result<()> {
        let mut own = self.own();
        own.open.retain(|(open, _)| open != id);
        let is_last = own.open.is_empty();
        let Some((path, file)) = &mut own.file else {
            return Ok(());
        };
        if is_last {
            let removed = fs::remove_file(path);
            own.file = None;
            return removed;
        }
        file.write_all(format!("{}\n", json!({ "ended": id })).as_bytes())
    }

    /// A new file, with a lock.
    fn create(&self) -> io::Result<(PathBuf, File)> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
        let name = format!("{}-{:016x}.{ENDING}", std::process::id(), fastrand::u64(..));
        let path = self.directory.join(name);
        // Under another name until it is locked: it must not be taken for a lost one.
        let hidden = path.with_extension("new");
        let mut options = OpenOptions::new();
        let mut file = options
            .append(true)
            .read(true)
            .create_new(true)
            .mode(0o600)
            .open(&hidden)?;
        file.lock()?;
        file.write_all(format!("{}\n", machine()).as_bytes())?;
        fs::rename(&hidden, &path)?;
        Ok((path, file))
    }

    /// Whether lost uploads of a bucket are to be removed now: at the first use, and after some
    /// time once more.
    pub(super) fn is_due(&self, bucket: &str, every: Duration) -> bool {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        match swept.iter_mut().find(|(known, _)| known == bucket) {
            Some((_, at)) if at.elapsed() < every => false,
            Some((_, at)) => {
                *at = Instant::now();
                true
            }
            None => {
                swept.push((bucket.to_owned(), Instant::now()));
                true
            }
        }
    }

    /// The files of processes that have ended, if an upload in them is wanted.
    pub(super) fn lost(&self, is_wanted: impl Fn(&Location) -> bool) -> Vec<LostFile> {
        self.lost_up_to(S3_JOURNALS_MAX, is_wanted)
    }

    /// Only what is wanted counts: files of living processes and of other buckets stay where they
    /// are, and must not hide the others.
    fn lost_up_to(&self, count: usize, is_wanted: impl Fn(&Location) -> bool) -> Vec<LostFile> {
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return Vec::new();
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let ours = self.own().file.as_ref().map(|(path, _)| path.clone());
        paths
            .filter(|path| path.extension().is_some_and(|ending| ending == ENDING) && Some(path) != ours.as_ref())
            .filter_map(|path| LostFile::open(path).ok().flatten())
            .filter(|file| file.uploads.iter().any(|upload| is_wanted(&upload.location)))
            .take(count)
            .collect()
    }
}

/// The machine, as the first line of a file. Locks of another machine on a shared file system may
/// not be seen here.
fn machine() -> Value {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    json!({"host": read("hostname").trim(), "boot": read("random/boot_id").trim()})
}

impl LostFile {
    /// A file of a process that has ended on this machine.
    fn open(path: PathBuf) -> io::Result<Option<Self>> {
        let mut file = OpenOptions::new().read(true).append(true).open(&path)?;
        if file.try_lock().is_err() {
            return Ok(None);
        }
        let mut text = String::new();
        (&mut file).take(S3_JOURNAL_BYTES_MAX).read_to_string(&mut text)?;
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let (here, there) = (machine(), lines.next().unwrap_or_default());
        // Another host may have the same disk; containers of one host share its boot.
        if there["host"] != here["host"] && there["boot"] != here["boot"] {
            return Ok(None);
        }
        let mut uploads: Vec<LostUpload> = Vec::new();
        for line in lines {
            if let Some(ended) = line["ended"].as_str() {
                uploads.retain(|upload| upload.id != ended);
            }
            let location = line["url"].as_str().and_then(|url| Location::parse(url).ok());
            if let (Some(location), Some(id)) = (location, line["id"].as_str()) {
                uploads.push(LostUpload {
                    location,
                    id: id.to_owned(),
                });
            }
        }
        let age = file.metadata()?.modified()?.elapsed().unwrap_or_default();
        if uploads.is_empty() || age > S3_JOURNAL_LIFETIME {
            fs::remove_file(&path)?;
            return Ok(None);
        }
        Ok(Some(Self { path, file, uploads }))
    }

    /// Notes that an upload is gone. The file goes with the last one.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn end(&mut self, id: &str) -> io::Result<()> {
        self.uploads.retain(|upload| upload.id != id);
        match self.uploads.is_empty() {
            true => fs::remove_file(&self.path),
            false => {
                self.file.seek(io::SeekFrom::End(0))?;
                // A line that a killed process left half is ended first.
                self.file
                    .write_all(format!("\n{}\n", json!({ "ended": id })).as_bytes())
            }
        }
    }
}

/// Runs work with the file system on a thread for it.
pub(super) async fn with<T: Send + 'static>(
    journal: &Arc<Journal>,
    work: impl FnOnce(&Journal) -> T + Send + 'static,
) -> Option<T> {
    let journal = Arc::clone(journal);
    execution::blocking(move || work(&journal)).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            Self(std::env::temp_dir().join(format!("crossload-journal-{:016x}", fastrand::u64(..))))
        }

        fn files(&self) -> usize {
            fs::read_dir(&self.0).map_or(0, Iterator::count)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn all(_: &Location) -> bool {
        true
    }

    fn place(key: &str) -> Location {
        Location::parse(&format!("s3://h:81/b/{key}")).unwrap()
    }

    #[test]
    fn only_uploads_of_processes_that_have_ended_are_lost() {
        let scratch = Scratch::new();
        let [living, dead, other] = [(); 3].map(|()| Journal::new(&scratch.0));
        living.begin(&place("living"), "u0", 1).unwrap();
        dead.begin(&place("a%20b"), "u1", 1).unwrap();
        dead.begin(&place("done"), "u2", 1).unwrap();
        dead.end("u2").unwrap();
        assert!(other.lost(all).is_empty(), "both live");
        // As by SIGKILL, within a line.
        dead.own()
            .file
            .as_mut()
            .unwrap()
            .1
            .write_all(b"{\"url\": \"s3:")
            .unwrap();
        drop(dead);
        let mut lost = other.lost(all);
        assert!(living.lost(all).is_empty(), "they are being removed");
        let [file] = lost.as_mut_slice() else {
            panic!("{lost:?}")
        };
        assert_eq!(
            file.uploads,
            [LostUpload {
                location: place("a%20b"),
                id: "u1".into()
            }]
        );
        file.end("u1").unwrap();
        drop(lost);
        assert!(other.lost(all).is_empty());
        assert_eq!(scratch.files(), 1, "only the living one is left");
        living.end("u0").unwrap();
        assert_eq!(scratch.files(), 0);
    }

    #[test]
    fn a_deleted_file_is_made_again_with_all_open_uploads() {
        let scratch = Scratch::new();
        let journal = Journal::new(&scratch.0);
        for id in ["u0", "u1"] {
            journal.begin(&place("a"), id, 1).unwrap();
            fs::remove_dir_all(&scratch.0).unwrap();
        }
        journal.begin(&place("a"), "u2", 1).unwrap();
        journal.end("u0").unwrap();
        drop(journal);
        let lost = Journal::new(&scratch.0).lost(all);
        let ids: Vec<&str> = lost[0].uploads.iter().map(|upload| upload.id.as_str()).collect();
        assert_eq!(ids, ["u1", "u2"]);
    }

    #[test]
    fn files_of_living_processes_and_of_other_buckets_hide_none() {
        let scratch = Scratch::new();
        let [living, others] = [(); 2].map(|()| (0..20).map(|_| Journal::new(&scratch.0)).collect::<Vec<_>>());
        let dead = Journal::new(&scratch.0);
        for journal in living.iter().chain(&others) {
            journal.begin(&place("other"), "u", 1).unwrap();
        }
        dead.begin(&place("a"), "u", 1).unwrap();
        drop((dead, others));
        let lost = Journal::new(&scratch.0).lost_up_to(1, |location| *location == place("a"));
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].uploads[0].location, place("a"));
    }

    #[test]
    fn what_another_machine_does_is_not_known_here() {
        let scratch = Scratch::new();
        let dead = Journal::new(&scratch.0);
        dead.begin(&place("a"), "u1", 1).unwrap();
        drop(dead);
        let path = fs::read_dir(&scratch.0).unwrap().next().unwrap().unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let (_, uploads) = text.split_once('\n').unwrap();
        fs::write(
            &path,
            format!("{}\n{uploads}", json!({"host": "elsewhere", "boot": "another"})),
        )
        .unwrap();
        assert!(Journal::new(&scratch.0).lost(all).is_empty());
        assert_eq!(scratch.files(), 1);
    }
}
