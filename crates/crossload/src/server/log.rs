//! The log: one JSON object per line, written by a thread of its own, which can also make text of
//! the lines or entries of systemd's journal.
//!
//! Logging never blocks the caller. If the queue or the disk is full, lines are dropped and
//! counted, and the count is logged when there is space again.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::limits::{LAST_LINES_WAIT, LOG_GATHER_TIME, LOG_LINES_QUEUED_MAX};
use config::LogFormat;
use serde::Serialize;
use time::OffsetDateTime;
use time::macros::format_description;

use super::log_format::{JOURNAL_SOCKET, Journal, text};
use super::recent_lines::RecentLines;
use crate::failure::Failure;

/// Queued lines, concatenated in one buffer. A separate allocation per line, freed by another
/// thread, costs more than formatting the line.
#[derive(Default)]
struct Waiting {
    text: Vec<u8>,
    lines: usize,
    /// Reopen the file after this many bytes.
    reopen_at: Option<usize>,
    /// Callers that wait until all this is written.
    flushes: Vec<SyncSender<()>>,
    /// The writer is idle and must be woken.
    writer_sleeps: bool,
    /// The last [`Log`] was dropped.
    is_closed: bool,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.reopen_at.is_none() && self.flushes.is_empty()
    }
}

struct Queue {
    waiting: Mutex<Waiting>,
    more: Condvar,
    lines_max: usize,
    /// Lines that the writer could not write.
    lost: AtomicU64,
    /// The last lines, whether they could be written or not.
    recent: RecentLines,
}

impl Queue {
    fn new(lines_max: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            more: Condvar::new(),
            lines_max,
            lost: AtomicU64::new(0),
            recent: RecentLines::default(),
        }
    }

    /// A panic cannot leave `Waiting` inconsistent, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the queue, and wakes the writer if it is idle.
    fn add<T>(&self, change: impl FnOnce(&mut Waiting) -> T) -> T {
        let mut waiting = self.lock();
        let result = change(&mut waiting);
        let wakes = std::mem::take(&mut waiting.writer_sleeps);
        drop(waiting);
        if wakes {
            self.more.notify_one();
        }
        result
    }

    /// Appends a line; false if the queue is full.
    fn push(&self, line: &[u8]) -> bool {
        self.add(|waiting| {
            let has_room = waiting.lines < self.lines_max;
            if has_room {
                waiting.text.extend_from_slice(line);
                waiting.lines += 1;
            }
            has_room
        })
    }

    /// Takes the queue and leaves `emptied` in its place, to reuse the buffer.
    fn take(&self, emptied: Waiting) -> Waiting {
        let mut waiting = self.lock();
        let is_closed = waiting.is_closed;
        let taken = std::mem::replace(&mut *waiting, emptied);
        waiting.is_closed = is_closed;
        taken
    }

    /// Waits for lines; false if the queue is closed.
    fn wait(&self) -> bool {
        let mut waiting = self.lock();
        loop {
            if !waiting.is_empty() {
                return true;
            }
            if waiting.is_closed {
                return false;
            }
            waiting.writer_sleeps = true;
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A handle to the log. Clones write to the same log.
#[derive(Clone)]
pub(crate) struct Log(Arc<Handle>);

struct Handle {
    queue: Arc<Queue>,
    /// Dropped lines that are not reported yet.
    dropped: AtomicU64,
    dropped_in_all: AtomicU64,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.queue.add(|waiting| waiting.is_closed = true);
    }
}

/// Appends a line: time and event, then the fields of `body`. Returns false and appends nothing if
/// `body` is not an object. (Serde's `flatten` would buffer each field.)
fn push_line<T: Serialize>(text: &mut Vec<u8>, time: &str, event: &str, body: &T) -> bool {
    let start = text.len();
    // Times and event names need no JSON escaping.
    for piece in ["{\"time\":\"", time, "\",\"event\":\"", event, "\""] {
        text.extend_from_slice(piece.as_bytes());
    }
    let body_at = text.len();
    let written = serde_json::to_writer(&mut *text, body).is_ok();
    match text.get(body_at..) {
        Some([b'{', b'}']) if written => text.truncate(body_at + 1),
        Some([b'{', ..]) if written => {}
        _ => {
            text.truncate(start);
            return false;
        }
    }
    let is_empty = text.len() == body_at + 1;
    text[body_at] = if is_empty { b'}' } else { b',' };
    text.push(b'\n');
    true
}

/// Buffers with which a thread formats lines.
#[derive(Default)]
struct Desk {
    text: Vec<u8>,
    stamp: Stamp,
}

thread_local! {
    static DESK: RefCell<Desk> = RefCell::default();
}

impl Log {
    /// Opens the file, the journal or standard error, and starts the writer.
    ///
    /// # Errors
    /// The file cannot be opened, or there is no journal.
    pub(crate) fn open(wanted: &config::Log) -> Result<Self, Failure> {
        let open = || {
            let sink = Sink::open(wanted.file.clone(), wanted.format)?;
            let queue = Arc::new(Queue::new(LOG_LINES_QUEUED_MAX));
            let log = Self::to(queue.clone());
            execution::start_thread("log", move || write_lines(&queue, sink))?;
            Ok(log)
        };
        open().map_err(|cause: io::Error| Failure::system(unusable(wanted), &cause))
    }

    /// A log of a test.
    #[cfg(test)]
    pub(crate) fn to_file(file: &Path) -> Self {
        let wanted = config::Log {
            file: Some(file.to_owned()),
            ..config::Configuration::defaults().log
        };
        Self::open(&wanted).expect("a file that can be written")
    }

    fn to(queue: Arc<Queue>) -> Self {
        Self(Arc::new(Handle {
            queue,
            dropped: AtomicU64::new(0),
            dropped_in_all: AtomicU64::new(0),
        }))
    }

    /// Logs an event with the fields of `body`.
    pub(crate) fn write<T: Serialize>(&self, event: &str, body: &T) {
        if self.0.dropped.load(Ordering::Relaxed) > 0 {
            let dropped = self.0.dropped.swap(0, Ordering::Relaxed);
            self.send("log_dropped", &serde_json::json!({"lines": dropped}), dropped);
        }
        self.send(event, body, 0);
    }

    fn send<T: Serialize>(&self, event: &str, body: &T, counted: u64) {
        let sent = DESK.with_borrow_mut(|desk| {
            desk.text.clear();
            let written = push_line(&mut desk.text, desk.stamp.now(), event, body);
            written.then(|| self.0.queue.push(&desk.text))
        });
        if sent == Some(false) {
            self.0.dropped.fetch_add(counted.max(1), Ordering::Relaxed);
            if counted == 0 {
                self.0.dropped_in_all.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The number of lines dropped since the start, with those for which the disk had no room.
    pub(crate) fn dropped_in_all(&self) -> u64 {
        self.0.dropped_in_all.load(Ordering::Relaxed) + self.0.queue.lost.load(Ordering::Relaxed)
    }

    /// Keeps the last lines in memory from now on.
    pub(crate) fn keep_recent(&self) {
        self.0.queue.recent.keep();
    }

    /// The last lines that name an identifier.
    pub(crate) fn about(&self, id: &str) -> Vec<u8> {
        self.0.queue.recent.about(id)
    }

    /// Reopens the file, after log rotation.
    pub(crate) fn reopen(&self) {
        self.0.queue.add(|waiting| waiting.reopen_at = Some(waiting.text.len()));
    }

    /// Blocks until everything is written, but at most for [`LAST_LINES_WAIT`]: a destination that
    /// takes no more lines must not keep the process from ending.
    pub(crate) fn flush(&self) {
        let (done, wait) = sync_channel(1);
        self.0.queue.add(|waiting| waiting.flushes.push(done));
        let _ = wait.recv_timeout(LAST_LINES_WAIT);
    }
}

/// What cannot be used when a log cannot be opened.
fn unusable(wanted: &config::Log) -> String {
    match (&wanted.file, wanted.format) {
        (_, LogFormat::Journald) => format!("no journal of systemd at {JOURNAL_SOCKET} (log.format)"),
        (Some(file), _) => format!("cannot open the log file {}", file.display()),
        (None, _) => "cannot open the log".to_owned(),
    }
}

/// Why the log cannot be opened; nothing is changed.
pub(crate) fn fault(wanted: &config::Log) -> Option<Failure> {
    let outcome = match (&wanted.file, wanted.format) {
        (_, LogFormat::Journald) => Journal::find(Path::new(JOURNAL_SOCKET)).map(drop),
        (Some(file), _) => match OpenOptions::new().append(true).open(file) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => parent_of(file),
            opened => opened.map(drop),
        },
        (None, _) => Ok(()),
    };
    outcome.err().map(|cause| Failure::system(unusable(wanted), &cause))
}

/// Whether the directory of a file that is missing takes new files.
fn parent_of(file: &Path) -> io::Result<()> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(rustix::fs::access(
        parent.unwrap_or(Path::new(".")),
        rustix::fs::Access::WRITE_OK,
    )?)
}

/// Formats the time as RFC 3339 with milliseconds, in UTC. The part up to the second is cached.
#[derive(Default)]
struct Stamp {
    second: u64,
    text: String,
}

impl Stamp {
    /// Length of the cached part, including the decimal point.
    const SECOND_BYTES: usize = "2026-01-01T00:00:00.".len();

    fn now(&mut self) -> &str {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if self.text.is_empty() || now.as_secs() != self.second {
            self.second = now.as_secs();
            self.text = second_text(self.second);
        }
        self.text.truncate(Self::SECOND_BYTES);
        for place in [100, 10, 1] {
            self.text.extend(char::from_digit(now.subsec_millis() / place % 10, 10));
        }
        self.text.push('Z');
        &self.text
    }
}

fn second_text(second: u64) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].");
    i64::try_from(second)
        .ok()
        .and_then(|second| OffsetDateTime::from_unix_timestamp(second).ok())
        .and_then(|time| time.format(format).ok())
        .unwrap_or_default()
}

/// How lines are written.
enum Form {
    Json,
    Text,
    Journal(Journal),
}

impl Form {
    fn of(format: LogFormat, is_file: bool) -> io::Result<Self> {
        Ok(match format {
            LogFormat::Json => Self::Json,
            LogFormat::Text => Self::Text,
            LogFormat::Journald => Self::Journal(Journal::find(Path::new(JOURNAL_SOCKET))?),
            LogFormat::Auto if !is_file && io::stderr().is_terminal() => Self::Text,
            LogFormat::Auto => Self::Json,
        })
    }
}

/// Where lines are written. On a full disk they are lost, and counted.
struct Sink {
    file: Option<PathBuf>,
    target: Box<dyn Write + Send>,
    form: Form,
    /// The last line was written in part, and has no end.
    is_torn: bool,
    /// Lost lines that are not reported yet.
    lost: u64,
    stamp: Stamp,
}

impl Sink {
    fn open(file: Option<PathBuf>, format: LogFormat) -> io::Result<Self> {
        let form = Form::of(format, file.is_some())?;
        let target: Box<dyn Write + Send> = match &file {
            Some(path) => Box::new(append_to(path)?),
            None => Box::new(io::stderr()),
        };
        Ok(Self {
            file,
            target,
            form,
            is_torn: false,
            lost: 0,
            stamp: Stamp::default(),
        })
    }

    fn reopen(&mut self) {
        // If the new file cannot be opened, lines still go to the old one.
        if let Some(file) = self.file.as_ref().and_then(|path| append_to(path).ok()) {
            self.target = Box::new(file);
            self.is_torn = false;
        }
    }

    /// Writes lines, and before them how many were lost since the last success. Returns how many
    /// of them are lost. A full disk must not stop the server.
    fn put(&mut self, lines: &[u8]) -> u64 {
        if lines.is_empty() {
            return 0;
        }
        let mut report = Vec::new();
        if self.lost > 0 {
            let body = serde_json::json!({"lines": self.lost});
            push_line(&mut report, self.stamp.now(), "log_dropped", &body);
        }
        let (mut report, lines) = match &self.form {
            Form::Json => (report, Cow::Borrowed(lines)),
            Form::Text => (text(&report), Cow::Owned(text(lines))),
            Form::Journal(journal) => {
                let is_back = report.is_empty() || journal.send(&report) == 0;
                let lost = if is_back { journal.send(lines) } else { lines_in(lines) };
                self.lost = if is_back { lost } else { self.lost + lost };
                return lost;
            }
        };
        if self.is_torn {
            report.insert(0, b'\n');
        }
        if self.write(&report) < report.len() {
            let lost = lines_in(&lines);
            self.lost += lost;
            return lost;
        }
        let written = self.write(&lines);
        // A torn line is lost too.
        self.lost = lines_in(&lines) - lines_in(&lines[..written]);
        self.lost
    }

    /// Writes as much as fits; returns how many bytes that was.
    fn write(&mut self, text: &[u8]) -> usize {
        let mut written = 0;
        while written < text.len() {
            match self.target.write(&text[written..]) {
                Ok(0) => break,
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        if let Some(last) = text[..written].last() {
            self.is_torn = *last != b'\n';
        }
        written
    }
}

fn lines_in(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn append_to(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn write_lines(queue: &Queue, mut sink: Sink) {
    let mut emptied = Waiting::default();
    while queue.wait() {
        // During this pause callers need not wake the thread, and lines collect. Under load this
        // saves system calls on both sides.
        std::thread::sleep(LOG_GATHER_TIME);
        emptied = write_out(queue.take(emptied), queue, &mut sink);
    }
}

/// Writes the lines. Returns the empty buffer.
fn write_out(mut taken: Waiting, queue: &Queue, sink: &mut Sink) -> Waiting {
    queue.recent.add(&taken.text);
    let (before, behind) = taken.text.split_at(taken.reopen_at.unwrap_or(taken.text.len()));
    let mut lost = sink.put(before);
    if taken.reopen_at.is_some() {
        sink.reopen();
        lost += sink.put(behind);
    }
    queue.lost.fetch_add(lost, Ordering::Relaxed);
    for done in taken.flushes.drain(..) {
        let _ = done.send(());
    }
    taken.text.clear();
    Waiting {
        text: taken.text,
        ..Waiting::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_and_a_rotated_file_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (file, rotated) = (directory.path().join("log"), directory.path().join("log.1"));
        std::fs::write(&file, "before\n").unwrap();
        let log = Log::to_file(&file);
        log.write("first", &serde_json::json!({"n": 1}));
        log.flush();
        std::fs::rename(&file, &rotated).unwrap();
        log.reopen();
        log.write("second", &serde_json::json!({"n": 2}));
        log.flush();
        let old = std::fs::read_to_string(&rotated).unwrap();
        assert!(
            old.starts_with("before\n") && old.contains("\"event\":\"first\",\"n\":1"),
            "{old}"
        );
        let new: serde_json::Value = serde_json::from_str(std::fs::read_to_string(&file).unwrap().trim()).unwrap();
        assert_eq!((new["event"].as_str(), new["n"].as_u64()), (Some("second"), Some(2)));
        assert_eq!(
            new["time"].as_str().map(str::len),
            Some("2026-01-01T00:00:00.000Z".len())
        );
    }

    #[test]
    fn a_file_can_have_text() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("log");
        let wanted = config::Log {
            file: Some(file.clone()),
            format: LogFormat::Text,
            ..config::Configuration::defaults().log
        };
        let log = Log::open(&wanted).unwrap();
        log.write("first", &serde_json::json!({"n": 1, "who": "Jane Doe"}));
        log.flush();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("Z first n=1 who=\"Jane Doe\"\n"), "{text}");
    }

    #[test]
    fn a_log_that_cannot_be_opened_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let wanted = |name: &str| config::Log {
            file: Some(directory.path().join(name)),
            ..config::Configuration::defaults().log
        };
        let (bad, good) = (wanted("none/log"), wanted("log"));
        let words = fault(&bad).unwrap().words;
        assert!(
            words.contains("cannot open the log file") && words.contains("none/log"),
            "{words}"
        );
        assert_eq!(Log::open(&bad).err().unwrap().words, words);
        assert!(fault(&good).is_none() && !good.file.as_ref().unwrap().exists());
        drop(Log::open(&good).unwrap());
        assert!(fault(&good).is_none());
        let journal = config::Log {
            format: LogFormat::Journald,
            ..config::Configuration::defaults().log
        };
        assert!(unusable(&journal).contains(JOURNAL_SOCKET));
        assert_eq!(fault(&journal).is_some(), Log::open(&journal).is_err());
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let queue = Arc::new(Queue::new(2));
        let log = Log::to(queue.clone());
        for number in 0..5 {
            log.write("e", &serde_json::json!({"n": number}));
        }
        assert_eq!(log.dropped_in_all(), 3);
        let written = || String::from_utf8(queue.take(Waiting::default()).text).unwrap();
        let text = written();
        assert_eq!(text.lines().count(), 2, "{text}");
        log.write("e", &serde_json::json!({}));
        let text = written();
        assert!(text.contains("\"event\":\"log_dropped\",\"lines\":3"), "{text}");
        assert_eq!(log.dropped_in_all(), 3);
    }

    /// A disk with room for so many bytes.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock().unwrap();
            let count = bytes.len().min(disk.1);
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.0.extend_from_slice(&bytes[..count]);
            disk.1 -= count;
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_on_a_full_disk_are_counted_and_spoil_no_later_line() {
        let (disk, queue) = (Disk::default(), Arc::new(Queue::new(100)));
        let log = Log::to(queue.clone());
        let mut sink = Sink {
            target: Box::new(disk.clone()),
            ..Sink::open(None, LogFormat::Json).unwrap()
        };
        let mut write = |room| {
            disk.0.lock().unwrap().1 += room;
            for number in 0..3 {
                log.write("e", &serde_json::json!({"n": number}));
            }
            write_out(queue.take(Waiting::default()), &queue, &mut sink);
        };
        // One line and a half, then nothing, then everything.
        [80, 0, 10_000].into_iter().for_each(&mut write);
        let text = String::from_utf8(disk.0.lock().unwrap().0.clone()).unwrap();
        let lines: Vec<Option<serde_json::Value>> = text.lines().map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(lines.len(), 6, "{text}");
        let broken = lines.iter().filter(|line| line.is_none()).count();
        assert_eq!(broken, 1, "{text}");
        let report = lines[2].as_ref().unwrap();
        assert_eq!(
            (&report["event"], &report["lines"]),
            (&"log_dropped".into(), &5.into()),
            "{text}"
        );
        assert_eq!(lines[5].as_ref().unwrap()["n"], 2, "{text}");
        assert_eq!(log.dropped_in_all(), 5);
    }

    #[test]
    fn the_last_lines_are_written_after_the_log_is_dropped() {
        let queue = Arc::new(Queue::new(2));
        let log = Log::to(queue.clone());
        log.write("last", &serde_json::json!({}));
        drop(log);
        assert!(queue.wait());
        assert_eq!(queue.take(Waiting::default()).lines, 1);
        assert!(!queue.wait());
    }

    #[test]
    fn a_line_is_one_object_with_the_fields_of_its_body() {
        let line = |body: &serde_json::Value| {
            let mut text = b"before\n".to_vec();
            let written = push_line(&mut text, "t", "e", body);
            (written, String::from_utf8(text).unwrap())
        };
        let whole = "before\n{\"time\":\"t\",\"event\":\"e\",\"n\":\"a\\\"b\"}\n";
        assert_eq!(line(&serde_json::json!({"n": "a\"b"})), (true, whole.to_owned()));
        let bare = "before\n{\"time\":\"t\",\"event\":\"e\"}\n";
        assert_eq!(line(&serde_json::json!({})), (true, bare.to_owned()));
        assert_eq!(line(&serde_json::json!([1])), (false, "before\n".to_owned()));
    }

    #[test]
    fn times_have_milliseconds_and_change_with_the_second() {
        assert_eq!(second_text(1_795_286_507), "2026-11-21T18:41:47.");
        let mut stamp = Stamp::default();
        let first = stamp.now().to_owned();
        stamp.second -= 1;
        assert_eq!(stamp.now()[..17], first[..17]);
        assert!(
            first.ends_with('Z') && first.len() == Stamp::SECOND_BYTES + 4,
            "{first}"
        );
    }
}
