//! Files that the program has open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use remote::{Client, Facts, Ranges, Resource};
use serde_json::{Value, json};
use storage::Overwrite;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use transfer::{Order, Outcome, Progress, RemoteSink, Source, Verified, copy};
use types::{ByteRange, Error, ErrorCode, Phase, Result, Side};

use super::content::{Content, GIVEN_UP, HeldBytes, Piece};
use crate::client::session::ClientContext;
use crate::limits::{STDIO_FILES_READ_MAX, STDIO_FILES_WRITTEN_MAX, STDIO_PAYLOAD_BYTES_MAX, STDIO_WRITTEN_BYTES_MAX};

/// A file that one request at a time works on.
type Shared<T> = Arc<tokio::sync::Mutex<T>>;

/// The files that are open.
pub(super) struct OpenFiles {
    tables: Mutex<Tables>,
    /// Bytes that files may hold until their servers take them.
    memory: Arc<Semaphore>,
}

impl Default for OpenFiles {
    fn default() -> Self {
        Self {
            tables: Mutex::default(),
            memory: Arc::new(Semaphore::new(STDIO_WRITTEN_BYTES_MAX)),
        }
    }
}

#[derive(Default)]
struct Tables {
    last_number: u64,
    read: HashMap<u64, Shared<ReadFile>>,
    written: HashMap<u64, Shared<WrittenFile>>,
}

fn refuse(code: ErrorCode, words: impl Into<String>) -> Error {
    Error::new(code, Side::Client, Phase::Open).with_detail(words)
}

fn not_open(file: u64) -> Error {
    refuse(ErrorCode::FileNotOpen, format!("no such file is open: {file}"))
}

fn check_count(count: usize, max: usize) -> Result<()> {
    match count < max {
        true => Ok(()),
        false => Err(refuse(ErrorCode::Overloaded, format!("{max} files are open already"))),
    }
}

impl OpenFiles {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a file to be read. Returns its number and what the server says of it.
    ///
    /// # Errors
    /// The server's refusal; `overloaded` if too many are open.
    pub(super) async fn open(&self, client: &Client, file: Resource) -> Result<Value> {
        check_count(self.tables().read.len(), STDIO_FILES_READ_MAX)?;
        let ranges = client.open_ranges(&file).await?;
        let facts = ranges.facts().clone();
        let bytes = facts.size_bytes;
        let opened = ReadFile {
            file,
            facts,
            ranges: Some(ranges),
        };
        let mut tables = self.tables();
        tables.last_number += 1;
        let number = tables.last_number;
        tables.read.insert(number, Arc::new(tokio::sync::Mutex::new(opened)));
        Ok(json!({"file": number, "bytes": bytes}))
    }

    /// Reads ranges of a file.
    ///
    /// # Errors
    /// `file_not_open`, the server's refusal, `source_changed`; `bad_request` for too much at once.
    pub(super) async fn read(&self, client: &Client, number: u64, ranges: &[[u64; 2]]) -> Result<Vec<Vec<u8>>> {
        let found = self.tables().read.get(&number).cloned();
        let file = found.ok_or_else(|| not_open(number))?;
        file.lock().await.read(client, ranges).await
    }

    /// Begins a file at a server. Returns its number.
    ///
    /// # Errors
    /// `overloaded` if too many are being written. The server refuses later.
    pub(super) fn create(
        &self,
        session: &Arc<ClientContext>,
        file: &Resource,
        overwrite: Overwrite,
        size_bytes: Option<u64>,
    ) -> Result<Value> {
        let mut tables = self.tables();
        check_count(tables.written.len(), STDIO_FILES_WRITTEN_MAX)?;
        tables.last_number += 1;
        let number = tables.last_number;
        let begun = WrittenFile::begin(session, file, overwrite, size_bytes);
        tables.written.insert(number, Arc::new(tokio::sync::Mutex::new(begun)));
        Ok(json!({"file": number}))
    }

    /// Appends to a file that was begun.
    ///
    /// # Errors
    /// `file_not_open`, or why the file cannot be stored.
    pub(super) async fn write(&self, number: u64, bytes: Vec<u8>) -> Result<Value> {
        let found = self.tables().written.get(&number).cloned();
        let file = found.ok_or_else(|| not_open(number))?;
        let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut file = file.lock().await;
        let share = Arc::clone(&self.memory).acquire_many_owned(count).await.ok();
        file.write(HeldBytes { bytes, _share: share }).await.map(|()| json!({}))
    }

    /// Ends a file that was begun.
    ///
    /// # Errors
    /// `file_not_open`, or why the file was not stored.
    pub(super) async fn commit(&self, number: u64) -> Result<Value> {
        let found = self.tables().written.remove(&number);
        let file = found.ok_or_else(|| not_open(number))?;
        let outcome = file.lock().await.commit().await?;
        let verified = match &outcome.verified {
            Verified::Agreed(checksum) => Some(checksum.to_string()),
            Verified::SizeOnly(_) => None,
        };
        Ok(json!({"bytes": outcome.bytes, "verified": verified}))
    }

    /// Closes a file; one that was begun is given up, and its server has none of it then.
    ///
    /// # Errors
    /// `file_not_open`; a part of the file remains at the server.
    pub(super) async fn close(&self, number: u64) -> Result<Value> {
        let (read, written) = {
            let mut tables = self.tables();
            (tables.read.remove(&number), tables.written.remove(&number))
        };
        match (read, written) {
            (Some(read), _) => {
                if let Some(ranges) = read.lock().await.ranges.take() {
                    ranges.close().await;
                }
            }
            (None, Some(written)) => written.lock().await.give_up().await?,
            (None, None) => return Err(not_open(number)),
        }
        Ok(json!({}))
    }

    /// Gives up all files that were begun, and returns when their servers have none of them.
    pub(super) async fn give_up(&self) {
        let written = std::mem::take(&mut self.tables().written);
        let each = written.into_values().map(|file| async move {
            // No program is left to learn of a part that remains.
            let _ = file.lock().await.give_up().await;
        });
        futures_util::future::join_all(each).await;
    }
}

/// A file that is read by ranges.
struct ReadFile {
    file: Resource,
    /// What the server said of it first.
    facts: Facts,
    /// `None` after a failed or cancelled read, whose connection is lost.
    ranges: Option<Ranges>,
}

impl ReadFile {
    async fn read(&mut self, client: &Client, ranges: &[[u64; 2]]) -> Result<Vec<Vec<u8>>> {
        let ranges = self.within(ranges)?;
        if let Some(mut open) = self.ranges.take() {
            match open.read(&ranges).await {
                Ok(content) => {
                    self.ranges = Some(open);
                    return Ok(content);
                }
                Err(error) if !error.retry() => return Err(error),
                // Servers close connections that were idle for long.
                Err(_) => {}
            }
        }
        let mut open = open_again(client, &self.file, &self.facts).await?;
        let content = open.read(&ranges).await?;
        self.ranges = Some(open);
        Ok(content)
    }

    /// The ranges, up to the end of the file.
    fn within(&self, ranges: &[[u64; 2]]) -> Result<Vec<ByteRange>> {
        let size_bytes = self.facts.size_bytes.unwrap_or(u64::MAX);
        let mut total_bytes = 0_u64;
        let mut all = Vec::with_capacity(ranges.len());
        for [start, end] in ranges.iter().map(|range| range.map(|at| at.min(size_bytes))) {
            if end < start {
                return Err(refuse(ErrorCode::BadRequest, "a range ends before it begins"));
            }
            total_bytes = total_bytes.saturating_add(end - start);
            all.push(ByteRange::new(start, end));
        }
        match total_bytes <= STDIO_PAYLOAD_BYTES_MAX {
            true => Ok(all),
            false => {
                let words = format!("at most {STDIO_PAYLOAD_BYTES_MAX} bytes are read at once");
                Err(refuse(ErrorCode::BadRequest, words))
            }
        }
    }
}

/// Opens the same version of a file again.
async fn open_again(client: &Client, file: &Resource, known: &Facts) -> Result<Ranges> {
    let ranges = client.open_ranges(file).await?;
    let now = ranges.facts();
    match now.size_bytes == known.size_bytes && now.validator() == known.validator() {
        true => Ok(ranges),
        false => {
            let changed = Error::new(ErrorCode::SourceChanged, file.side, Phase::Open);
            Err(changed.with_subject(&file.location))
        }
    }
}

/// A file that is being written.
struct WrittenFile {
    /// `None` after a failed or cancelled write: the file is given up.
    pieces: Option<mpsc::Sender<Piece>>,
    copied: Option<JoinHandle<Result<Outcome>>>,
}

impl WrittenFile {
    fn begin(session: &Arc<ClientContext>, file: &Resource, overwrite: Overwrite, size_bytes: Option<u64>) -> Self {
        let progress = Progress::new();
        let (content, pieces) = Content::new(size_bytes, &progress);
        let sink = RemoteSink::new(&session.client, file);
        let session = Arc::clone(session);
        let order = Order {
            overwrite,
            create_parents: false,
            ..Order::default()
        };
        let copied = tokio::spawn(async move {
            let source: Arc<dyn Source> = Arc::new(content);
            copy(&source, &sink, &order, &session.budget, &progress).await
        });
        Self {
            pieces: Some(pieces),
            copied: Some(copied),
        }
    }

    async fn write(&mut self, bytes: HeldBytes) -> Result<()> {
        let Some(pieces) = self.pieces.take() else {
            return Err(refuse(ErrorCode::OutOfSequence, "an earlier write failed"));
        };
        match pieces.send(Piece::Bytes(bytes)).await {
            Ok(()) => {
                self.pieces = Some(pieces);
                Ok(())
            }
            Err(_) => self.outcome().await.and_then(|_| Err(lost())),
        }
    }

    async fn commit(&mut self) -> Result<Outcome> {
        let Some(pieces) = self.pieces.take() else {
            return Err(refuse(ErrorCode::OutOfSequence, "an earlier write failed"));
        };
        // The copy may have failed already, and says why.
        let _ = pieces.send(Piece::End).await;
        self.outcome().await
    }

    /// Ends the copy without its end. Parts that remain are an error.
    async fn give_up(&mut self) -> Result<()> {
        self.pieces = None;
        match self.outcome().await {
            Err(error) if error.code() == ErrorCode::Cancelled && error.detail() != Some(GIVEN_UP) => Err(error),
            _ => Ok(()),
        }
    }

    async fn outcome(&mut self) -> Result<Outcome> {
        match self.copied.take() {
            None => Err(lost()),
            Some(copied) => copied.await.unwrap_or_else(|_| Err(lost())),
        }
    }
}

/// The copy has crashed, or its end is known already.
fn lost() -> Error {
    Error::new(ErrorCode::Internal, Side::Client, Phase::Transfer).with_detail("the file was given up")
}
