//! `stdio`: answers the requests of another program, over connections that stay open between them.
//!
//! `docs/stdio.md` describes requests and answers.

mod answer;
mod content;
mod files;
mod request;
mod running;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use storage::Overwrite;
use storage::local::Unfit;
use tokio::io::BufReader;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use types::{ChecksumAlgorithm, Error, ErrorCode, Location, Phase, Side};

use super::place::Place;
use super::remove::{remove_name, remove_tree};
use super::session::{ClientContext, Info};
use super::show::as_json;
use crate::failure::Failure;
use crate::limits::{
    CLEAN_UP_TIME, STDIO_ENTRIES_PER_LINE, STDIO_FILES_READ_MAX, STDIO_FILES_WRITTEN_MAX, STDIO_LINE_BYTES_MAX,
    STDIO_PAYLOAD_BYTES_MAX, STDIO_REQUESTS_MAX,
};
use crate::output;
use answer::{Answer, Answers, Outcome, Refusal};
use files::OpenFiles;
use request::{Operation, Request};
use running::Running;

/// Versions of the protocol; a change that programs must know of counts one further.
const PROTOCOL: u32 = 1;

/// Serves a program until its requests have ended, it is gone, or `stop` returns. Then nothing is
/// left of files that were not committed.
///
/// # Errors
/// The program has sent what is no request; the reason of `stop`.
pub(super) async fn run(session: &Arc<ClientContext>, stop: impl Future<Output = Failure>) -> Result<u8, Failure> {
    let (answers, written) = answer::writer(tokio::io::stdout());
    let desk = Arc::new(Desk {
        session: Arc::clone(session),
        answers,
        running: Running::default(),
        files: OpenFiles::default(),
    });
    desk.send(Answer::event(None, desk.ready())).await;
    let mut under_way = UnderWay::default();
    let ended = tokio::select! {
        ended = serve(&desk, requests(), &mut under_way) => ended,
        () = desk.answers.closed() => Ok(()),
        () = output::reader_gone() => Ok(()),
        reason = stop => Err(reason),
    };
    desk.running.cancel_all();
    let _ = timeout(CLEAN_UP_TIME, async {
        under_way.end().await;
        desk.files.give_up().await;
    })
    .await;
    drop((under_way, desk));
    // The last answers are on their way.
    let _ = timeout(CLEAN_UP_TIME, written).await;
    ended.map(|()| 0)
}

/// The requests that run.
#[derive(Default)]
struct UnderWay<'a> {
    tasks: JoinSet<()>,
    /// These start tasks for their files, and cannot be tasks themselves.
    copies: FuturesUnordered<LocalBoxFuture<'a, ()>>,
}

impl UnderWay<'_> {
    /// Lets copies go on while something else is waited for. One that is about to answer would
    /// otherwise keep the next place in the queue of answers, and nothing be sent.
    async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                Some(()) = self.copies.next() => {}
            }
        }
    }

    async fn end(&mut self) {
        let tasks = async { while self.tasks.join_next().await.is_some() {} };
        let copies = async { while self.copies.next().await.is_some() {} };
        tokio::join!(tasks, copies);
    }
}

/// Reads requests until they end. In a task of its own, since a half-read one would be lost.
fn requests() -> mpsc::Receiver<Result<Request, String>> {
    let (sender, requests) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut input = BufReader::new(tokio::io::stdin());
        while let Some(next) = request::next(&mut input).await.transpose() {
            let is_last = next.is_err();
            if sender.send(next).await.is_err() || is_last {
                break;
            }
        }
    });
    requests
}

async fn serve<'a>(
    desk: &Arc<Desk>,
    mut requests: mpsc::Receiver<Result<Request, String>>,
    under_way: &mut UnderWay<'a>,
) -> Result<(), Failure> {
    loop {
        let request = tokio::select! {
            request = requests.recv() => request,
            Some(()) = under_way.copies.next() => continue,
        };
        let request = match request {
            Some(Ok(request)) => request,
            None => {
                under_way.end().await;
                return Ok(());
            }
            Some(Err(words)) => {
                let refusal = Answer::last(None, Err(bad_request(words.clone()).into()));
                under_way.beside(desk.send(refusal)).await;
                return Err(Failure::invalid(words));
            }
        };
        while under_way.tasks.try_join_next().is_some() {}
        if let Some(answer) = begin(desk, request, under_way) {
            under_way.beside(desk.send(answer)).await;
        }
    }
}

/// Begins a request, or answers it at once.
fn begin(desk: &Arc<Desk>, request: Request, under_way: &mut UnderWay<'_>) -> Option<Answer> {
    let Request { id, operation, payload } = request;
    let operation = match operation {
        Ok(operation) => operation,
        Err(words) => return Some(Answer::last(Some(id), Err(bad_request(words).into()))),
    };
    // Also when as many requests run as may.
    if let Operation::Cancel { request: other } = operation {
        let result = json!({"canceled": desk.running.cancel(other)});
        return Some(Answer::last(Some(id), Ok(result.into())));
    }
    let cancelled = match desk.running.begin(id) {
        Ok(cancelled) => cancelled,
        Err(refusal) => return Some(Answer::last(Some(id), Err(refusal.into()))),
    };
    let desk = Arc::clone(desk);
    let (name, arguments) = match operation {
        Operation::Copy { arguments } => ("copy", arguments),
        Operation::Sync { arguments } => ("sync", arguments),
        operation => {
            under_way.tasks.spawn(async move {
                let performed = desk.perform(id, operation, payload, cancelled).await;
                desk.end(id, performed).await;
            });
            return None;
        }
    };
    under_way.copies.push(Box::pin(async move {
        let stop = desk.stop(cancelled);
        let performed = running::copy(&desk, id, name, arguments, stop).await;
        desk.end(id, performed).await;
    }));
    None
}

/// Why `-` is no place.
const CARRIES_REQUESTS: &str = "standard input and output carry the requests";

fn bad_request(words: impl Into<String>) -> Error {
    Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open).with_detail(words)
}

fn cancelled_error() -> Error {
    Error::new(ErrorCode::Cancelled, Side::Client, Phase::Transfer)
}

/// What serves one program.
struct Desk {
    session: Arc<ClientContext>,
    answers: Answers,
    running: Running,
    files: OpenFiles,
}

impl Desk {
    /// What the program learns first.
    fn ready(&self) -> Value {
        json!({"event": "ready", "version": env!("CARGO_PKG_VERSION"), "protocol": PROTOCOL,
            "schemes": self.session.client.schemes(), "limits": {
                "line_bytes": STDIO_LINE_BYTES_MAX, "payload_bytes": STDIO_PAYLOAD_BYTES_MAX,
                "requests": STDIO_REQUESTS_MAX, "files_read": STDIO_FILES_READ_MAX,
                "files_written": STDIO_FILES_WRITTEN_MAX}})
    }

    async fn send(&self, answer: Answer) {
        self.answers.send(answer).await;
    }

    /// Ends a request with its answer.
    async fn end(&self, id: u64, performed: Result<Outcome, Refusal>) {
        self.running.end(id);
        self.send(Answer::last(Some(id), performed)).await;
    }

    /// Returns when a request is cancelled or takes too long.
    async fn stop(&self, cancelled: oneshot::Receiver<()>) -> Failure {
        tokio::select! {
            _ = cancelled => cancelled_error().into(),
            () = super::wait(self.session.common.timeout) => super::Unfinished::Nothing.timed_out(None),
        }
    }

    /// Performs a request, or ends it when it is cancelled or takes too long.
    async fn perform(
        &self,
        id: u64,
        operation: Operation,
        payload: Vec<u8>,
        cancelled: oneshot::Receiver<()>,
    ) -> Result<Outcome, Refusal> {
        match operation {
            // Whether the file is stored must be known.
            Operation::Commit { file } => Ok(self.files.commit(file).await?.into()),
            Operation::Close { file } => Ok(self.files.close(file).await?.into()),
            operation => tokio::select! {
                performed = self.perform_small(id, operation, payload) => performed,
                failure = self.stop(cancelled) => Err(failure.into()),
            },
        }
    }

    async fn perform_small(&self, id: u64, operation: Operation, payload: Vec<u8>) -> Result<Outcome, Refusal> {
        let session = &self.session;
        Ok(match operation {
            Operation::Stat { place: text } => {
                let place = self.place(&text).await?;
                let info = session.stat(&place, place.side()).await?;
                as_json(&place, &Info { name: text, ..info }).into()
            }
            Operation::Ls { place } => self.list(id, &place).await?.into(),
            Operation::Sum { place, algorithm } => {
                let known = ChecksumAlgorithm::from_name(&algorithm);
                let algorithm = known.ok_or_else(|| bad_request(format!("no such checksum: {algorithm}")))?;
                let place = self.place(&place).await?;
                let sum = session.sum(&place, algorithm, place.side()).await?;
                json!({"algorithm": algorithm.to_string(), "value": sum.to_hex()}).into()
            }
            Operation::Mkdir { place, parents } => {
                self.make_directory(&self.place(&place).await?, parents).await?.into()
            }
            Operation::Rm { place, recursive: true } => {
                let named = self.name(&place).await?;
                remove_tree(session, named, &place).await?;
                json!({}).into()
            }
            Operation::Rm { place, .. } => self.remove(&place, false).await?.into(),
            Operation::Rmdir { place } => self.remove(&place, true).await?.into(),
            Operation::Mv {
                source,
                destination,
                overwrite,
            } => {
                let (source, destination) = (self.name(&source).await?, self.name(&destination).await?);
                super::names::rename_place(session, &source, &destination, overwrite).await?;
                json!({}).into()
            }
            Operation::Open { place } => {
                let file = session.resource(&self.at_server(&place).await?, Side::Active);
                self.files.open(&session.client, file).await?.into()
            }
            Operation::Read { file, ranges } => {
                let payload = self.files.read(&session.client, file, &ranges).await?;
                let lengths: Vec<usize> = payload.iter().map(Vec::len).collect();
                let result = json!({"lengths": lengths});
                Outcome { result, payload }
            }
            Operation::Create {
                place,
                overwrite,
                bytes,
            } => {
                let overwrite = if overwrite { Overwrite::Allow } else { Overwrite::Refuse };
                let file = session.resource(&self.at_server(&place).await?, Side::Destination);
                self.files.create(session, &file, overwrite, bytes)?.into()
            }
            Operation::Write { file } => self.files.write(file, payload).await?.into(),
            Operation::Copy { .. }
            | Operation::Sync { .. }
            | Operation::Commit { .. }
            | Operation::Close { .. }
            | Operation::Cancel { .. } => Outcome::default(),
        })
    }

    async fn place(&self, text: &str) -> types::Result<Place> {
        not_stdio(self.session.place(text).await?)
    }

    async fn name(&self, text: &str) -> types::Result<Place> {
        not_stdio(self.session.name(text).await?)
    }

    /// The place of a file that is opened.
    async fn at_server(&self, text: &str) -> types::Result<Location> {
        match self.place(text).await? {
            Place::Remote(location) => Ok(location),
            _ => {
                let local = Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Open).with_subject(text);
                Err(local.with_detail("the program opens files of this machine itself"))
            }
        }
    }

    /// Sends the entries of a directory, or of a file itself, as events.
    async fn list(&self, id: u64, text: &str) -> types::Result<Value> {
        let place = self.place(text).await?;
        let side = place.side();
        let listed = async {
            let mut listing = self.session.open_listing(&place, side).await?;
            // That it is no directory may come with the first entries.
            let first = listing.next().await?;
            Ok::<_, Error>((listing, first))
        };
        let (mut listing, mut batch) = match listed.await {
            Err(error) if error.code() == ErrorCode::NotDirectory => {
                let info = self.session.stat(&place, side).await?;
                self.send_entries(id, &[as_json(&place, &info)]).await;
                return Ok(json!({"unlisted": null}));
            }
            listed => listed?,
        };
        let mut unlisted = None;
        while let Some(entries) = batch {
            let mut shown = Vec::with_capacity(entries.len());
            for entry in entries {
                match entry.unfit {
                    Some(Unfit::Unlisted) => unlisted = Some(entry.name),
                    _ => shown.push(entry_json(&place, entry)),
                }
            }
            for lines in shown.chunks(STDIO_ENTRIES_PER_LINE) {
                self.send_entries(id, lines).await;
            }
            batch = listing.next().await?;
        }
        Ok(json!({"unlisted": unlisted}))
    }

    async fn send_entries(&self, id: u64, entries: &[Value]) {
        self.send(Answer::event(Some(id), json!({"event": "entries", "entries": entries})))
            .await;
    }

    /// Makes a directory. Over the XRootD protocol, and XRootD over HTTP, servers accept one that
    /// exists without a word, so this asks first.
    async fn make_directory(&self, place: &Place, parents: bool) -> types::Result<Value> {
        let side = place.side();
        if !parents && self.session.look(place, side).await?.is_some() {
            return Err(Error::new(ErrorCode::DirectoryExists, side, Phase::Open).with_subject(place));
        }
        self.session.make_directory(place, parents, side).await?;
        Ok(json!({}))
    }

    /// Removes a file or an empty directory, and not the other of the two.
    async fn remove(&self, text: &str, directory: bool) -> types::Result<Value> {
        let place = self.name(text).await?;
        let is_directory = self.session.stat(&place, place.side()).await?.is_directory;
        let refuse = |code| Err(Error::new(code, Side::Client, Phase::Open).with_subject(text));
        match (is_directory, directory, &place) {
            (true, false, _) => return refuse(ErrorCode::IsDirectory),
            (false, true, _) => return refuse(ErrorCode::NotDirectory),
            (true, true, Place::Remote(location)) => {
                let directory = self.session.resource(location, place.side());
                self.session.client.remove_directory(&directory).await?;
            }
            _ => remove_name(&self.session, &place).await?,
        }
        Ok(json!({}))
    }
}

fn not_stdio(place: Place) -> types::Result<Place> {
    match place {
        Place::Stdio => Err(bad_request(CARRIES_REQUESTS)),
        place => Ok(place),
    }
}

/// An entry as `ls --json` prints it. One whose name leads nowhere has the place of its directory.
fn entry_json(directory: &Place, info: Info) -> Value {
    match directory.child(&info.name) {
        Ok(place) => as_json(&place, &info),
        Err(_) => {
            let unfit = info.unfit.or(Some(Unfit::Name));
            as_json(directory, &Info { unfit, ..info })
        }
    }
}
