//! What this program has begun at other servers, in files that outlive it: uploads in parts, and
//! changes of names that take several requests. What a process that was killed has left is ended by
//! the next one that works with the same server.
//!
//! Each process has a file of its own and holds a lock on it, which ends with the process, however
//! it ends. So the entries of a file that can be locked belong to no living process. Nothing is
//! ever touched that stands in no such file: what other programs begin is theirs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use types::Location;

use crate::limits::{JOURNAL_BYTES_MAX, JOURNAL_LIFETIME, JOURNALS_MAX};

/// A directory with files of what was begun.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    /// The end of the names of its files.
    ending: &'static str,
    own: Mutex<Own>,
    /// When lost entries of a place were last looked for, by its address.
    swept: Mutex<Vec<(String, Instant)>>,
}

/// The file of this process.
#[derive(Debug, Default)]
struct Own {
    file: Option<(PathBuf, File)>,
    /// What has not ended, and its lines.
    open: Vec<(JournalEntry, String)>,
    /// The identifiers of those that nothing works on any longer.
    left: Vec<String>,
}

/// Something that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// What it is about.
    pub location: Location,
    /// Distinguishes it from all others.
    pub id: String,
    /// What is to get the name.
    pub from: Option<Location>,
}

/// Entries of one file of a process that has ended. It stays locked meanwhile.
#[derive(Debug)]
pub struct LostFile {
    path: PathBuf,
    file: File,
    /// What has not ended.
    pub entries: Vec<JournalEntry>,
}

impl JournalEntry {
    /// An upload to an object.
    pub(crate) fn upload(location: &Location, id: &str) -> Self {
        Self {
            location: location.clone(),
            id: id.to_owned(),
            from: None,
        }
    }

    fn line(&self, now_s: i64) -> String {
        let from = self.from.as_ref().map(Location::to_string);
        let line = json!({"url": self.location.to_string(), "id": self.id, "from": from, "begun_s": now_s});
        format!("{line}\n")
    }

    fn read(line: &Value) -> Option<Self> {
        let location = |name: &str| Location::parse(line[name].as_str()?).ok();
        Some(Self {
            location: location("url")?,
            id: line["id"].as_str()?.to_owned(),
            from: location("from"),
        })
    }
}

impl Journal {
    /// Files in a directory, with names of this end.
    #[must_use]
    pub fn new(directory: &Path, ending: &'static str) -> Self {
        Self {
            directory: directory.to_owned(),
            ending,
            own: Mutex::default(),
            swept: Mutex::default(),
        }
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that something is begun, and waits until that is on disk.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn begin(&self, entry: &JournalEntry) -> io::Result<()> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = entry.line(i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
        let mut own = self.own();
        let own = &mut *own;
        own.open.push((entry.clone(), line.clone()));
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

    /// Notes that something has ended. The file is removed with the last one.
    ///
    /// # Errors
    /// Those of the file system. Then it is taken for a lost one later, and nothing of it is found.
    pub fn end(&self, id: &str) -> io::Result<()> {
        let mut own = self.own();
        let before = own.open.len();
        own.open.retain(|(open, _)| open.id != id);
        own.left.retain(|left| left != id);
        if own.open.len() == before {
            return Ok(());
        }
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

    /// Notes that nothing works on this any longer, if it has not ended. It is due at once.
    pub fn leave(&self, id: &str) {
        let mut own = self.own();
        if own.open.iter().any(|(open, _)| open.id == id) {
            own.left.push(id.to_owned());
            drop(own);
            self.swept.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    /// What this process itself has left.
    #[must_use]
    pub fn left(&self) -> Vec<JournalEntry> {
        let own = self.own();
        let entries = own.open.iter().map(|(entry, _)| entry);
        entries.filter(|entry| own.left.contains(&entry.id)).cloned().collect()
    }

    /// A new file, with a lock.
    fn create(&self) -> io::Result<(PathBuf, File)> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
        let name = format!("{}-{:016x}.{}", std::process::id(), fastrand::u64(..), self.ending);
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

    /// Whether lost entries of a place are to be looked for now: at the first use, and after some
    /// time once more.
    pub fn is_due(&self, place: &str, every: Duration) -> bool {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        match swept.iter_mut().find(|(known, _)| known == place) {
            Some((_, at)) if at.elapsed() < every => false,
            Some((_, at)) => {
                *at = Instant::now();
                true
            }
            None => {
                swept.push((place.to_owned(), Instant::now()));
                true
            }
        }
    }

    /// The files of processes that have ended, if something in them is wanted, by its location.
    pub fn lost(&self, is_wanted: impl Fn(&Location) -> bool) -> Vec<LostFile> {
        self.lost_up_to(JOURNALS_MAX, is_wanted)
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
            .filter(|path| path.extension().is_some_and(|ending| ending == self.ending) && Some(path) != ours.as_ref())
            .filter_map(|path| LostFile::open(path).ok().flatten())
            .filter(|file| file.entries.iter().any(|entry| is_wanted(&entry.location)))
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
        (&mut file).take(JOURNAL_BYTES_MAX).read_to_string(&mut text)?;
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let (here, there) = (machine(), lines.next().unwrap_or_default());
        // Another host may have the same disk; containers of one host share its boot.
        if there["host"] != here["host"] && there["boot"] != here["boot"] {
            return Ok(None);
        }
        let mut entries: Vec<JournalEntry> = Vec::new();
        for line in lines {
            if let Some(ended) = line["ended"].as_str() {
                entries.retain(|entry| entry.id != ended);
            }
            entries.extend(JournalEntry::read(&line));
        }
        let age = file.metadata()?.modified()?.elapsed().unwrap_or_default();
        if entries.is_empty() || age > JOURNAL_LIFETIME {
            fs::remove_file(&path)?;
            return Ok(None);
        }
        Ok(Some(Self { path, file, entries }))
    }

    /// Notes that something has ended. The file goes with the last one.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn end(&mut self, id: &str) -> io::Result<()> {
        self.entries.retain(|entry| entry.id != id);
        match self.entries.is_empty() {
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

/// Runs work with the file system on a thread for it. `None` if it was broken off.
pub async fn in_journal<T: Send + 'static>(
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

    fn upload(key: &str, id: &str) -> JournalEntry {
        JournalEntry::upload(&Location::parse(&format!("s3://h:81/b/{key}")).unwrap(), id)
    }

    fn opened(scratch: &Scratch) -> Journal {
        Journal::new(&scratch.0, "uploads")
    }

    #[test]
    fn only_uploads_of_processes_that_have_ended_are_lost() {
        let scratch = Scratch::new();
        let [living, dead, other] = [(); 3].map(|()| opened(&scratch));
        living.begin(&upload("living", "u0")).unwrap();
        dead.begin(&upload("a%20b", "u1")).unwrap();
        dead.begin(&upload("done", "u2")).unwrap();
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
        assert_eq!(file.entries, [upload("a%20b", "u1")]);
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
        let journal = opened(&scratch);
        for id in ["u0", "u1"] {
            journal.begin(&upload("a", id)).unwrap();
            fs::remove_dir_all(&scratch.0).unwrap();
        }
        journal.begin(&upload("a", "u2")).unwrap();
        journal.end("u0").unwrap();
        drop(journal);
        let lost = opened(&scratch).lost(all);
        let ids: Vec<&str> = lost[0].entries.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids, ["u1", "u2"]);
    }

    #[test]
    fn files_of_living_processes_and_of_other_buckets_hide_none() {
        let scratch = Scratch::new();
        let [living, others] = [(); 2].map(|()| (0..20).map(|_| opened(&scratch)).collect::<Vec<_>>());
        let dead = opened(&scratch);
        for journal in living.iter().chain(&others) {
            journal.begin(&upload("other", "u")).unwrap();
        }
        let entry = upload("a", "u");
        dead.begin(&entry).unwrap();
        drop((dead, others));
        let lost = opened(&scratch).lost_up_to(1, |location| *location == entry.location);
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].entries, [entry]);
    }

    #[test]
    fn what_a_living_process_has_left_is_due_at_once() {
        let scratch = Scratch::new();
        let journal = opened(&scratch);
        let entry = JournalEntry {
            from: Some(Location::parse("s3://h:81/b/new").unwrap()),
            ..upload("a", "u1")
        };
        journal.begin(&entry).unwrap();
        journal.begin(&upload("a", "u2")).unwrap();
        let is_due = || journal.is_due("b", Duration::from_secs(600));
        assert!(is_due() && !is_due());
        journal.end("u2").unwrap();
        journal.leave("u2");
        assert!(journal.left().is_empty() && !is_due(), "it had ended");
        journal.leave("u1");
        assert!(is_due() && !is_due());
        assert_eq!(journal.left(), std::slice::from_ref(&entry));
        drop(journal);
        let other = Journal::new(&scratch.0, "uploads");
        assert_eq!(other.lost(all)[0].entries, [entry]);
    }

    #[test]
    fn what_another_machine_does_is_not_known_here() {
        let scratch = Scratch::new();
        let dead = opened(&scratch);
        dead.begin(&upload("a", "u1")).unwrap();
        drop(dead);
        let path = fs::read_dir(&scratch.0).unwrap().next().unwrap().unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let (_, uploads) = text.split_once('\n').unwrap();
        fs::write(
            &path,
            format!("{}\n{uploads}", json!({"host": "elsewhere", "boot": "another"})),
        )
        .unwrap();
        assert!(opened(&scratch).lost(all).is_empty());
        assert_eq!(scratch.files(), 1);
    }
}
