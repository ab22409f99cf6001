//! The log: JSON objects, one in each line, written by one thread of its own.
//!
//! Whoever logs never waits: a line that finds the queue full is dropped, counted, and the count is
//! logged when there is room again.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use serde::Serialize;
use time::OffsetDateTime;
use time::macros::format_description;
use types::limits::{LOG_GATHER_TIME, LOG_LINES_QUEUED_MAX};

/// What a line of a request usually takes, so that it is not moved about while it grows.
const LINE_BYTES: usize = 768;

enum Message {
    Line(Vec<u8>),
    Reopen,
    Flush(SyncSender<()>),
}

/// The way to the log. Clones write to the same one.
#[derive(Clone)]
pub(crate) struct Log {
    queue: SyncSender<Message>,
    /// Dropped and not yet logged as such.
    dropped: Arc<AtomicU64>,
    dropped_in_all: Arc<AtomicU64>,
}

#[derive(Serialize)]
struct Line<'a, T> {
    time: String,
    event: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

impl Log {
    /// Opens the file (standard error without one) and starts the writer.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(crate) fn open(file: Option<PathBuf>) -> io::Result<Self> {
        let sink = Sink::open(file)?;
        let (queue, lines) = sync_channel(LOG_LINES_QUEUED_MAX);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_lines(&lines, sink))?;
        Ok(Self {
            queue,
            dropped: Arc::default(),
            dropped_in_all: Arc::default(),
        })
    }

    /// Logs an event with the fields of `body`.
    pub(crate) fn write<T: Serialize>(&self, event: &str, body: &T) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            self.send("log_dropped", &serde_json::json!({"lines": dropped}), dropped);
        }
        self.send(event, body, 0);
    }

    fn send<T: Serialize>(&self, event: &str, body: &T, counted: u64) {
        let line = Line {
            time: now(),
            event,
            body,
        };
        let mut text = Vec::with_capacity(LINE_BYTES);
        if serde_json::to_writer(&mut text, &line).is_err() {
            return;
        }
        text.push(b'\n');
        if self.queue.try_send(Message::Line(text)).is_err() {
            self.dropped.fetch_add(counted.max(1), Ordering::Relaxed);
            if counted == 0 {
                self.dropped_in_all.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Lines that were dropped since the start.
    pub(crate) fn dropped_in_all(&self) -> u64 {
        self.dropped_in_all.load(Ordering::Relaxed)
    }

    /// Opens the file again, after it was rotated away.
    pub(crate) fn reopen(&self) {
        // A full queue means that the log is being written; rotation can be asked for again.
        let _ = self.queue.try_send(Message::Reopen);
    }

    /// Waits until everything is written. Blocks.
    pub(crate) fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if self.queue.send(Message::Flush(done)).is_ok() {
            let _ = wait.recv();
        }
    }
}

/// The time as RFC 3339 with milliseconds, in UTC.
pub(crate) fn now() -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    OffsetDateTime::now_utc().format(format).unwrap_or_default()
}

struct Sink {
    file: Option<PathBuf>,
    writer: BufWriter<Box<dyn Write + Send>>,
}

impl Sink {
    fn open(file: Option<PathBuf>) -> io::Result<Self> {
        let target: Box<dyn Write + Send> = match &file {
            Some(path) => Box::new(append_to(path)?),
            None => Box::new(io::stderr()),
        };
        Ok(Self {
            file,
            writer: BufWriter::with_capacity(64 * 1024, target),
        })
    }

    fn reopen(&mut self) {
        let _ = self.writer.flush();
        // When the new file cannot be opened the old one goes on taking the lines.
        if let Some(file) = self.file.as_ref().and_then(|path| append_to(path).ok()) {
            self.writer = BufWriter::with_capacity(64 * 1024, Box::new(file));
        }
    }
}

fn append_to(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn write_lines(lines: &Receiver<Message>, mut sink: Sink) {
    loop {
        let message = match lines.try_recv() {
            Ok(message) => message,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                // Nobody reads a log that lags: it is written out whenever there is a pause.
                let _ = sink.writer.flush();
                let Ok(message) = lines.recv() else { break };
                // While this thread sleeps nobody has to wake it: under load that saves a system
                // call for every line.
                std::thread::sleep(LOG_GATHER_TIME);
                message
            }
        };
        match message {
            // A disk that is full must not stop the server.
            Message::Line(text) => drop(sink.writer.write_all(&text)),
            Message::Reopen => sink.reopen(),
            Message::Flush(done) => {
                let _ = sink.writer.flush();
                let _ = done.send(());
            }
        }
    }
    let _ = sink.writer.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_and_a_rotated_file_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (file, rotated) = (directory.path().join("log"), directory.path().join("log.1"));
        std::fs::write(&file, "before\n").unwrap();
        let log = Log::open(Some(file.clone())).unwrap();
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
    fn a_full_queue_drops_and_counts() {
        let (queue, lines) = sync_channel(2);
        let log = Log {
            queue,
            dropped: Arc::default(),
            dropped_in_all: Arc::default(),
        };
        for number in 0..5 {
            log.write("e", &serde_json::json!({"n": number}));
        }
        assert_eq!(log.dropped_in_all(), 3);
        assert_eq!(lines.try_iter().count(), 2);
        log.write("e", &serde_json::json!({}));
        let Ok(Message::Line(first)) = lines.try_recv() else {
            panic!("no line");
        };
        let first = String::from_utf8(first).unwrap();
        let first = String::from_utf8(first).unwrap();
        assert!(first.contains("\"event\":\"log_dropped\",\"lines\":3"), "{first}");
        assert_eq!(log.dropped_in_all(), 3);
    }
}
