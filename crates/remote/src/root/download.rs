//! Reading a file. Several read requests are under way, so that the connection is always busy, and
//! their data are handed out in order without a copy.

use std::collections::VecDeque;
use std::pin::pin;

use crate::limits::{ROOT_BOUND_READS_MAX, ROOT_READ_BYTES, ROOT_READS_MAX, TPC_RESPELL_WAIT};
use net::frames::Expected;
use net::pages::SoundPages;
use net::{Batch, Ends};
use types::{ByteRange, ChecksumAlgorithm, Error, ErrorCode, Phase, Result};
use xroot_wire::pages::bytes_to_border;
use xroot_wire::request::{Close, Open, PageRead, Read};
use xroot_wire::response::{OpenReply, PageStatus, PageStatusKind};
use xroot_wire::{Argument, FileHandle, OpenExtraOptions, OpenOptions, PageFlags, Request, StreamId};

use super::ask::{Ask, Client};
use super::at_end::checksum_at_end;
use super::namespace::facts_of;
use super::opened::Opened;
use super::route::Route;
use super::session::{Event, Reply, ServerSession};
use super::verdict::refused;
use crate::download::FileDownload;
use crate::options::GetOptions;
use crate::protocol::Pending;
use crate::resource::{Facts, Resource, Validator};

/// Damaged answers of one download that are requested again.
const REPAIRS_MAX: u32 = 8;

/// An open file on a session of its own.
pub(super) struct OpenFile {
    pub(super) session: ServerSession,
    pub(super) route: Route,
    pub(super) handle: FileHandle,
    pub(super) facts: Facts,
}

impl Client {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// `is_directory`, or another refusal.
    pub(super) async fn open_file(&self, file: &Resource) -> Result<OpenFile> {
        let Some(respelled) = &file.access.respelled else {
            return self.open_once(file).await;
        };
        let other = Resource {
            location: respelled.clone(),
            ..file.clone()
        };
        either(self.open_once(file), self.open_once(&other)).await
    }

    async fn open_once(&self, file: &Resource) -> Result<OpenFile> {
        let ask = Ask::looking(&|target, id, out| {
            let mut options = OpenOptions::READ | OpenOptions::RETURN_STAT | OpenOptions::ASYNCHRONOUS;
            options.set(OpenOptions::REFRESH, target.refresh);
            open_request(0, options, target.path).encode(id, out);
        });
        let answered = self.ask(file, &ask).await?;
        let (mut session, route) = (answered.session, answered.route);
        let opened = OpenReply::parse(&answered.body).map_err(|error| route.at.blame(error))?;
        let stat = match opened.stat {
            Some(stat) => stat,
            None => session
                .stat_handle(opened.handle)
                .await
                .map_err(|error| route.at.blame(error))?,
        };
        Ok(OpenFile {
            facts: facts_of(&stat, route.at.location.clone()),
            handle: opened.handle,
            session,
            route,
        })
    }

    /// Begins to read a file, or a part of it.
    ///
    /// # Errors
    /// The server's refusal; `source_changed` when the validator no longer holds, or the file ends
    /// before the part.
    pub(crate) async fn get(&self, file: &Resource, options: &GetOptions) -> Result<Download> {
        let opened = self.open_file(file).await?;
        let changed = |why: &str| {
            let error = opened.route.at.error(ErrorCode::SourceChanged, Phase::Open);
            Err(error.with_detail(why))
        };
        let size = opened.facts.size_bytes.unwrap_or_default();
        if let Some(validator) = &options.validator
            && validator.contradicts(&opened.facts)
            && !(opened.route.is_redirected() && has_same_size(validator, &opened.facts))
        {
            return changed("its id, size or date is another one now");
        }
        let range = options.range.unwrap_or(ByteRange::whole(size));
        if range.end > size {
            return changed("it ends before the part that is asked for");
        }
        if range.is_empty() && options.range.is_some() {
            let error = opened.route.at.error(ErrorCode::Internal, Phase::Open);
            return Err(error.with_detail("an empty range was to be read"));
        }
        let download = Download::new(self, opened, range, options.is_compared);
        Ok(download.asking_at_end(options.wanted.clone()))
    }
}

/// Opens under one spelling, and also under the other if the first is refused or not answered at
/// once. XRootD does not refuse a key with another client's name: it waits for that client until
/// the key expires (`XrdOfsTPC::Authorize`), so the second spelling must not wait for the first.
async fn either<T>(first: impl Future<Output = Result<T>>, second: impl Future<Output = Result<T>>) -> Result<T> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let is_refused = |error: &Error| matches!(error.code(), ErrorCode::PeerForbidden | ErrorCode::PeerDenied);
    match tokio::time::timeout(TPC_RESPELL_WAIT, &mut first).await {
        Ok(Err(error)) if is_refused(&error) => return second.await.map_err(|_| error),
        Ok(done) => return done,
        Err(_) => {}
    }
    tokio::select! {
        done = &mut first => match done {
            Err(error) if is_refused(&error) => second.await.map_err(|_| error),
            done => done,
        },
        done = &mut second => match done {
            Ok(opened) => Ok(opened),
            Err(_) => first.await,
        },
    }
}

/// Whether the sizes agree, when nothing else can be compared: behind a redirector each server has
/// its own id and date for the same file.
fn has_same_size(validator: &Validator, facts: &Facts) -> bool {
    let size_of = |tag: &str| tag.rsplit('-').next().map(str::to_owned);
    match (validator, &facts.etag) {
        (Validator::Tag(seen), Some(now)) => size_of(seen) == size_of(now),
        _ => false,
    }
}

/// A request to open a file.
pub(super) fn open_request(mode: u16, options: OpenOptions, target: &[u8]) -> Request<'_> {
    Request::Open(Open {
        mode,
        options,
        extra_options: OpenExtraOptions::empty(),
        template: FileHandle::default(),
        path: Argument::new(target),
    })
}

/// A read request that is under way.
struct Asked {
    id: StreamId,
    /// What has not come yet.
    left: ByteRange,
    /// Data that came before those of an earlier request.
    held: VecDeque<Batch>,
    /// Where it began, to see whether its answer had data.
    start: u64,
    /// Its answer is complete.
    is_over: bool,
    /// A page of the answer was damaged: the rest is dropped and requested again.
    is_damaged: bool,
}

impl Asked {
    fn new(id: StreamId, range: ByteRange) -> Self {
        Self {
            id,
            left: range,
            held: VecDeque::new(),
            start: range.start,
            is_over: false,
            is_damaged: false,
        }
    }

    fn take_in(&mut self, batch: Batch) {
        self.left.take_front(batch.len() as u64);
        self.held.push_back(batch);
    }
}

/// The data that come next on the connection.
struct Current {
    id: StreamId,
    expected: Expected,
    pages: Option<SoundPages>,
    is_last: bool,
}

/// A file, or a part of it, on its way from a server. Dropping it early closes the connection.
pub(crate) struct Download {
    client: Client,
    /// `None` once all has come, or after an error.
    session: Option<ServerSession>,
    route: Route,
    handle: FileHandle,
    facts: Facts,
    range: ByteRange,
    /// What has not been requested yet.
    to_ask: ByteRange,
    /// In the order of the file.
    asked: VecDeque<Asked>,
    current: Option<Current>,
    has_pages: bool,
    reads_max: usize,
    /// How many damaged answers may still be requested again.
    repairs_left: u32,
    ends: Option<Ends>,
    /// Where the requests go when the data come on a further stream of a session.
    bound_to: Option<Opened>,
    /// Checksums to ask for at the end, best first.
    wanted: Vec<ChecksumAlgorithm>,
}

impl Download {
    /// Reads a range of an open file on its session's own connection. `is_compared` as in
    /// [`GetOptions`].
    pub(super) fn new(client: &Client, opened: OpenFile, range: ByteRange, is_compared: bool) -> Self {
        Self {
            client: client.clone(),
            ends: opened.session.frames.stream.ends(),
            has_pages: opened.session.server.uses_pages() && !is_compared,
            handle: opened.handle,
            session: Some(opened.session),
            route: opened.route,
            facts: opened.facts,
            range,
            to_ask: range,
            asked: VecDeque::new(),
            current: None,
            reads_max: ROOT_READS_MAX,
            repairs_left: REPAIRS_MAX,
            bound_to: None,
            wanted: Vec::new(),
        }
    }

    /// The same with a question for the file's checksum before it is closed.
    pub(super) fn asking_at_end(self, wanted: Vec<ChecksumAlgorithm>) -> Self {
        Self { wanted, ..self }
    }

    /// The same on a further stream.
    pub(super) fn bound_to(self, opened: Opened) -> Self {
        Self {
            reads_max: ROOT_BOUND_READS_MAX,
            bound_to: Some(opened),
            ..self
        }
    }

    async fn advance(&mut self, session: &mut ServerSession) -> Result<Option<Batch>> {
        loop {
            if let Some(batch) = self.take_held() {
                return Ok(Some(batch));
            }
            self.ask_more(session).await?;
            if self.asked.is_empty() {
                return Ok(None);
            }
            match &mut self.current {
                Some(_) => self.receive(session).await?,
                None => self.begin_part(session).await?,
            }
        }
    }

    /// The next data in order, if they have come.
    fn take_held(&mut self) -> Option<Batch> {
        loop {
            let front = self.asked.front_mut()?;
            if let Some(batch) = front.held.pop_front() {
                return Some(batch);
            }
            if !(front.is_over && front.left.is_empty()) {
                return None;
            }
            self.asked.pop_front();
        }
    }

    /// Sends requests until enough are under way.
    async fn ask_more(&mut self, session: &mut ServerSession) -> Result<()> {
        let mut requests = Vec::new();
        while self.asked.len() < self.reads_max && !self.to_ask.is_empty() {
            let range = self.to_ask.take_front(ROOT_READ_BYTES);
            let id = self.request(session, range, PageFlags::empty(), &mut requests);
            self.asked.push_back(Asked::new(id, range));
        }
        if requests.is_empty() {
            return Ok(());
        }
        self.send(session, &requests).await
    }

    /// Appends a request for a range, to be answered on this connection. `flags` are for pages.
    fn request(
        &self,
        session: &mut ServerSession,
        range: ByteRange,
        flags: PageFlags,
        requests: &mut Vec<u8>,
    ) -> StreamId {
        let (handle, offset, path) = (self.handle, range.start, session.server.path);
        // At most `ROOT_READ_BYTES`.
        let length = u32::try_from(range.len()).unwrap_or(u32::MAX);
        let request = if self.has_pages {
            Request::PageRead(PageRead {
                handle,
                offset,
                length,
                path: Some(path),
                flags: Some(flags),
            })
        } else {
            Request::Read(Read {
                handle,
                offset,
                length,
                path: Some(path).filter(|path| *path > 0),
            })
        };
        let id = session.announce();
        request.encode(id, requests);
        id
    }

    async fn send(&self, session: &mut ServerSession, requests: &[u8]) -> Result<()> {
        match &self.bound_to {
            Some(opened) => opened.send(requests).await,
            None => {
                session.frames.stream.queue(requests);
                session.frames.stream.flush().await
            }
        }
    }

    /// The best explanation of an error that ended the download.
    async fn explain(&self, error: Error) -> Error {
        let error = match &self.bound_to {
            Some(opened) => opened.explain(error).await,
            None => error,
        };
        self.route.at.blame(error)
    }

    fn find(&mut self, session: &ServerSession, id: StreamId) -> Result<&mut Asked> {
        let at = self.asked.iter().position(|asked| asked.id == id);
        let at = at.ok_or_else(|| session.misbehaved("an answer to a request that was not made"))?;
        if at > 0 {
            // Data out of order are held in memory: one request at a time from now on.
            self.reads_max = 1;
        }
        Ok(&mut self.asked[at])
    }

    /// Waits for the next piece of an answer.
    async fn begin_part(&mut self, session: &mut ServerSession) -> Result<()> {
        match session.event().await? {
            Event::Body { id, length, last } if !self.has_pages => {
                let asked = self.find(session, id)?;
                if length as u64 > asked.left.len() {
                    return Err(session.misbehaved("more came than was asked for"));
                }
                self.current = Some(Current {
                    id,
                    expected: Expected::new(length as u64),
                    pages: None,
                    is_last: last,
                });
                Ok(())
            }
            Event::Pages(status) if self.has_pages => self.begin_pages(session, &status),
            Event::Reply(id, Reply::Wait(pause)) => {
                self.route.wait(pause, self.client.options.first_byte).await?;
                self.ask_again(session, id).await
            }
            Event::Reply(_, Reply::Refused(refusal)) => {
                let error = refused(&self.route.at, &refusal, session.is_encrypted());
                Err(error.in_phase(Phase::Transfer))
            }
            _ => Err(session.misbehaved("this is no answer to a read")),
        }
    }

    fn begin_pages(&mut self, session: &ServerSession, status: &PageStatus) -> Result<()> {
        let asked = self.find(session, status.stream)?;
        let pages = SoundPages::new(status.offset, status.data_bytes);
        let data = xroot_wire::pages::data_bytes(status.offset, status.data_bytes);
        let (Some(pages), Some(data)) = (pages, data) else {
            return Err(session.misbehaved("the pages are not whole"));
        };
        let fits = status.offset == asked.left.start && data as u64 <= asked.left.len();
        if !fits && !asked.is_damaged && data > 0 {
            return Err(session.misbehaved("other pages came than were asked for"));
        }
        self.current = Some(Current {
            id: status.stream,
            expected: Expected::new(status.data_bytes as u64),
            pages: Some(pages),
            is_last: status.kind == PageStatusKind::Final,
        });
        Ok(())
    }

    /// Receives the next data of the piece that has begun.
    async fn receive(&mut self, session: &mut ServerSession) -> Result<()> {
        let Some(mut current) = self.current.take() else {
            return Ok(());
        };
        let batch = current.expected.next(&mut session.frames).await?;
        let asked = self.find(session, current.id)?;
        let Some(batch) = batch else {
            return if current.is_last {
                self.end_answer(session, current.id).await
            } else {
                Ok(())
            };
        };
        match &mut current.pages {
            None => asked.take_in(batch),
            Some(_) if asked.is_damaged => {}
            Some(pages) => {
                let sound = pages.take(batch);
                sound.batches.into_iter().for_each(|batch| asked.take_in(batch));
                asked.is_damaged = sound.damaged.is_some();
            }
        }
        self.current = Some(current);
        Ok(())
    }

    /// An answer is complete. What it lacks is requested again, unless it had no data at all.
    async fn end_answer(&mut self, session: &mut ServerSession, id: StreamId) -> Result<()> {
        let asked = self.find(session, id)?;
        if asked.left.is_empty() {
            asked.is_over = true;
            return Ok(());
        }
        let (is_damaged, came) = (asked.is_damaged, asked.left.start - asked.start);
        if is_damaged && self.repairs_left == 0 {
            return Err(session.misbehaved("the checksums of too many pages are wrong"));
        }
        if is_damaged {
            self.repairs_left -= 1;
        } else if came == 0 {
            let error = session.error(ErrorCode::PeerSizeDiffers, Phase::Transfer);
            return Err(error.with_detail("the file ends before its announced size"));
        }
        self.ask_again(session, id).await
    }

    async fn ask_again(&mut self, session: &mut ServerSession, id: StreamId) -> Result<()> {
        let asked = self.find(session, id)?;
        let (left, mut range, mut flags) = (asked.left, asked.left, PageFlags::empty());
        if asked.is_damaged {
            // A server that keeps checksums with its files shall check the page again; it does that
            // for one page at a time.
            range = range.take_front(bytes_to_border(left.start) as u64);
            flags = PageFlags::RETRY;
        }
        let mut request = Vec::new();
        let fresh = self.request(session, range, flags, &mut request);
        let asked = self.find(session, id)?;
        (asked.id, asked.start, asked.is_damaged) = (fresh, left.start, false);
        self.send(session, &request).await
    }

    /// Closes the file and returns the session to the pool. A further stream may carry another
    /// range.
    async fn conclude(&mut self, mut session: ServerSession) {
        if let Some(opened) = &self.bound_to {
            return opened.give_back(session);
        }
        match checksum_at_end(&mut session, &self.route, &self.wanted).await {
            Ok(told) => self.facts.checksums.extend(told),
            // All data have come; only the connection is lost.
            Err(_) => return,
        }
        let close = Request::Close(Close { handle: self.handle });
        if session.send_unheard(&close).await.is_ok() {
            self.client.keep(&self.route, session);
        }
    }
}

impl FileDownload for Download {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn range(&self) -> ByteRange {
        self.range
    }

    fn ends(&self) -> Option<Ends> {
        self.ends
    }

    fn next(&mut self) -> Pending<'_, Option<Batch>> {
        Box::pin(async move {
            let Some(mut session) = self.session.take() else {
                return Ok(None);
            };
            // The session is lost when this future fails or is dropped: its state is unknown.
            let batch = match self.advance(&mut session).await {
                Ok(batch) => batch,
                Err(error) => return Err(self.explain(error).await),
            };
            if batch.is_some() {
                self.session = Some(session);
            } else {
                self.conclude(session).await;
            }
            Ok(batch)
        })
    }
}

impl std::fmt::Debug for Download {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Download({} {:?})", self.route.at.location, self.range)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use types::Side;

    use super::*;

    fn refusal(code: ErrorCode) -> Result<u8> {
        Err(Error::new(code, Side::Source, Phase::Open))
    }

    /// What comes after this many seconds.
    async fn after<T>(seconds: u64, value: T) -> T {
        tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
        value
    }

    #[tokio::test(start_paused = true)]
    async fn the_other_spelling_is_tried_only_where_the_first_is_not_taken() {
        let never = async { panic!("is not needed") };
        assert_eq!(either(ready(Ok(1)), never).await.unwrap(), 1);
        let missing = either(ready(refusal(ErrorCode::NotFound)), async { panic!("is not needed") });
        assert_eq!(missing.await.unwrap_err().code(), ErrorCode::NotFound);
        for code in [ErrorCode::PeerForbidden, ErrorCode::PeerDenied] {
            assert_eq!(either(ready(refusal(code)), ready(Ok(2))).await.unwrap(), 2);
        }
        assert_eq!(either(pending(), ready(Ok(2))).await.unwrap(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_spelling_may_still_win_and_its_refusal_is_what_is_told() {
        let forbidden = |seconds| after(seconds, refusal(ErrorCode::PeerForbidden));
        assert_eq!(either(after(3, Ok(1)), forbidden(1)).await.unwrap(), 1);
        assert_eq!(either(forbidden(7), after(8, Ok(2))).await.unwrap(), 2);
        let told = either(forbidden(7), after(9, refusal(ErrorCode::PeerClosed))).await;
        assert_eq!(told.unwrap_err().code(), ErrorCode::PeerForbidden);
    }
}
