//! Writing a file: one write request for each filled buffer, with many of them under way. Answers
//! are read in between. Only a file that is closed persists.

use std::collections::VecDeque;
use std::time::Instant;

use crate::limits::{COPY_CLOSE_WAIT, PEER_WORDS_WAIT, ROOT_PATIENCE, ROOT_WORDS_BYTES_MAX, ROOT_WRITE_WINDOW_BYTES};
use net::{Ends, Outgoing};
use tokio::runtime::Handle;
use tokio::time::timeout;
use types::{ByteRange, Error, ErrorCode, Phase, Result};
use xroot_wire::limits::PAGE_BYTES;
use xroot_wire::limits::REQUEST_HEADER_BYTES;
use xroot_wire::pages::{bytes_to_border, checksum, encoded_bytes};
use xroot_wire::request::{Close, PageWrite, Write};
use xroot_wire::response::{BadPages, OpenReply};
use xroot_wire::{FileHandle, OpenOptions, PageFlags, Request, SessionId, StreamId};

use super::ask::{Ask, Client, Encode};
use super::download::open_request;
use super::namespace::identity_of;
use super::route::{Route, pair};
use super::session::{Event, Reply, ServerSession};
use super::unclosed::remove_open;
use super::verdict::refused;
use crate::options::{PutOptions, Stored};
use crate::outlet::{CreatedFile, FileUpload};
use crate::resource::{FileIdentity, Resource};

/// Damaged pages of one upload that are sent again.
const REPAIRS_MAX: usize = 64;

/// Permissions of a new file; the server's umask may reduce them.
pub(super) const FILE_MODE: u16 = 0o644;

impl Client {
    /// Opens a file to store it. Missing directories are made. The server drops what was written if
    /// the connection breaks before the close, where it knows persist-on-close.
    ///
    /// # Errors
    /// The server's refusal; `peer_exists` when the file exists and must not be replaced.
    pub(crate) async fn put(&self, file: &Resource, options: &PutOptions) -> Result<Outlet> {
        let size = options.size_bytes.map(|size| size.to_string());
        let creation = if options.overwrite {
            OpenOptions::TRUNCATE
        } else {
            OpenOptions::NEW
        };
        let encode: Encode<'_> = &|target, id, out| {
            let mut open = OpenOptions::UPDATE
                | OpenOptions::ASYNCHRONOUS
                | OpenOptions::MAKE_PATH
                | OpenOptions::PERSIST_ON_CLOSE
                | OpenOptions::RETURN_STAT
                | creation;
            open.set(OpenOptions::REFRESH, target.refresh);
            open_request(FILE_MODE, open, target.path).encode(id, out);
        };
        let ask = Ask {
            changes: true,
            own: &[pair("oss.asize", size.as_deref().unwrap_or_default())][..usize::from(size.is_some())],
            ..match options.overwrite {
                true => Ask::looking(encode),
                false => Ask::once(encode),
            }
        };
        let answered = self.ask(file, &ask).await?;
        let (session, route) = (answered.session, answered.route);
        let opened = OpenReply::parse(&answered.body).map_err(|error| route.at.blame(error))?;
        Ok(Outlet {
            client: self.clone(),
            ends: session.frames.stream.ends(),
            session_id: session.server.session,
            is_over: false,
            has_pages: session.server.uses_pages(),
            created: opened.stat.and_then(|stat| {
                let identity = identity_of(&stat, &route.at.location)?;
                let (is_new, at) = (!options.overwrite, Instant::now());
                Some(CreatedFile { identity, is_new, at })
            }),
            handle: opened.handle,
            session: Some(session),
            route,
            size_bytes: options.size_bytes,
            is_new: !options.overwrite,
            sent_bytes: 0,
            offset: 0,
            end_bytes: 0,
            under_way: VecDeque::new(),
            under_way_bytes: 0,
            damaged: Vec::new(),
            repairs_left: REPAIRS_MAX,
        })
    }
}

/// A file on its way to a server. Dropping it before it is finished removes the file if it was
/// created for this, as long as the connection is sound. Otherwise the connection is closed, and
/// the server drops what it has of the file, now or some time later.
pub(crate) struct Outlet {
    client: Client,
    /// `None` once the server has refused or the connection is lost.
    session: Option<ServerSession>,
    session_id: SessionId,
    /// The server has closed the file, or it was removed.
    is_over: bool,
    route: Route,
    handle: FileHandle,
    size_bytes: Option<u64>,
    is_new: bool,
    has_pages: bool,
    /// Which file it is.
    created: Option<CreatedFile>,
    sent_bytes: u64,
    /// Where the next bytes belong.
    offset: u64,
    /// The end of the last byte that was sent.
    end_bytes: u64,
    /// Writes whose answers have not come.
    under_way: VecDeque<(StreamId, u64)>,
    under_way_bytes: u64,
    /// Pages that arrived damaged, and were not sent again.
    damaged: Vec<ByteRange>,
    /// How many more may arrive damaged.
    repairs_left: usize,
    ends: Option<Ends>,
}

impl FileUpload for Outlet {
    fn ends(&self) -> Option<Ends> {
        self.ends
    }

    fn created(&self) -> Option<CreatedFile> {
        self.created.clone()
    }

    fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Only where the server keeps what is closed, and nothing else: elsewhere the beginning of a
    /// file that is given up is at least seen to be one.
    fn takes_any_order(&self) -> bool {
        self.created
            .as_ref()
            .is_some_and(|created| created.identity.is_unclosed)
    }

    fn go_to(&mut self, offset: u64) {
        self.offset = offset;
    }

    async fn outgoing(&mut self) -> Result<Outgoing> {
        self.check_answer().await?;
        while self.under_way_bytes >= ROOT_WRITE_WINDOW_BYTES {
            self.hear().await?;
        }
        let (offset, has_pages) = (self.offset, self.has_pages);
        match self.session()?.frames.stream.outgoing().await {
            Ok(room) if has_pages => Ok(room.paged(offset, REQUEST_HEADER_BYTES)),
            Ok(room) => Ok(room),
            Err(error) => Err(self.explain(error).await),
        }
    }

    async fn send(&mut self, outgoing: Outgoing, filled: usize) -> Result<()> {
        if filled == 0 {
            return Ok(());
        }
        let (total, end) = (self.sent_bytes + filled as u64, self.offset + filled as u64);
        if self.size_bytes.is_some_and(|size| total.max(end) > size) {
            let error = self.route.at.error(ErrorCode::Internal, Phase::Transfer);
            return Err(error.with_detail("more was to be sent than was announced"));
        }
        match self.write(outgoing, filled).await {
            Ok(id) => {
                self.under_way.push_back((id, filled as u64));
                self.under_way_bytes += filled as u64;
                (self.sent_bytes, self.offset) = (total, end);
                self.end_bytes = self.end_bytes.max(end);
                Ok(())
            }
            Err(error) => Err(self.explain(error).await),
        }
    }

    async fn check_answer(&mut self) -> Result<()> {
        loop {
            match self.session()?.event_available().await {
                Ok(Some(event)) => self.settle(event).await?,
                Ok(None) => return Ok(()),
                Err(error) => return Err(self.give_up(error)),
            }
        }
    }

    async fn damaged(&mut self) -> Result<Vec<ByteRange>> {
        while !self.under_way.is_empty() {
            self.hear().await?;
        }
        Ok(self.damaged.clone())
    }

    async fn send_again(&mut self, offset: u64, page: &[u8]) -> Result<()> {
        let request = PageWrite {
            handle: self.handle,
            offset,
            path: 0,
            flags: PageFlags::RETRY,
            encoded_bytes: encoded_bytes(offset, page.len()),
        };
        let session = self.session()?;
        let id = session.announce();
        let mut bytes = Vec::new();
        Request::PageWrite(request).encode(id, &mut bytes);
        bytes.extend_from_slice(&checksum(page).to_be_bytes());
        bytes.extend_from_slice(page);
        session.frames.stream.queue(&bytes);
        if let Err(error) = session.frames.stream.flush().await {
            return Err(self.explain(error).await);
        }
        self.damaged.retain(|damaged| damaged.start != offset);
        self.under_way.push_back((id, page.len() as u64));
        self.under_way_bytes += page.len() as u64;
        Ok(())
    }

    async fn explain(&mut self, cause: Error) -> Error {
        let words = async {
            loop {
                if let Err(error) = self.hear().await {
                    return error;
                }
            }
        };
        let heard = tokio::time::timeout(PEER_WORDS_WAIT, words).await.ok();
        self.session = None;
        match heard.filter(|error| error.peer_status().is_some()) {
            Some(refusal) => refusal,
            None => self.route.at.blame(cause),
        }
    }

    async fn finish(mut self) -> Result<Stored> {
        if let Some(size) = self.size_bytes.filter(|size| *size != self.sent_bytes) {
            let error = self.route.at.error(ErrorCode::Internal, Phase::Transfer);
            return Err(error.with_detail(format!("{} of {size} bytes were sent", self.sent_bytes)));
        }
        if !self.damaged().await?.is_empty() {
            return Err(self.too_many_damaged(self.damaged.len()));
        }
        // From here on it may be stored.
        self.created = None;
        let closed = self.close().await;
        closed.map_err(|error| self.route.at.blame(error).in_phase(Phase::Commit))?;
        self.is_over = true;
        if let Some(session) = self.session.take() {
            self.client.keep(&self.route, session);
        }
        Ok(Stored {
            is_pending: false,
            created: self.is_new,
            checksums: Vec::new(),
            version: None,
            keeps_modified: false,
            sent: Vec::new(),
        })
    }
}

impl Outlet {
    async fn write(&mut self, mut outgoing: Outgoing, filled: usize) -> Result<StreamId> {
        let (handle, offset, has_pages) = (self.handle, self.offset, self.has_pages);
        let session = self.session()?;
        let id = session.announce();
        let mut head = Vec::with_capacity(REQUEST_HEADER_BYTES);
        if has_pages {
            let request = PageWrite {
                handle,
                offset,
                path: 0,
                flags: PageFlags::empty(),
                encoded_bytes: encoded_bytes(offset, filled),
            };
            Request::PageWrite(request).encode(id, &mut head);
            let length = outgoing.close_pages(filled, &head);
            session.frames.stream.send(outgoing, length).await?;
        } else {
            let request = Write {
                handle,
                offset,
                path: 0,
                data_bytes: filled,
            };
            Request::Write(request).encode(id, &mut head);
            session.frames.stream.queue(&head);
            session.frames.stream.flush_with_more().await?;
            session.frames.stream.send(outgoing, filled).await?;
        }
        Ok(id)
    }

    /// Waits for an answer to a write.
    async fn hear(&mut self) -> Result<()> {
        match self.session()?.event().await {
            Ok(event) => self.settle(event).await,
            Err(error) => Err(self.give_up(error)),
        }
    }

    /// Takes the answer to a write.
    async fn settle(&mut self, event: Event) -> Result<()> {
        let settled = self.judge(&event).await;
        if let Err(error) = settled {
            return Err(self.give_up(error));
        }
        let at = self.under_way.iter().position(|(id, _)| *id == event.id());
        if let Some((_, bytes)) = at.and_then(|at| self.under_way.remove(at)) {
            self.under_way_bytes -= bytes;
        }
        Ok(())
    }

    async fn judge(&mut self, event: &Event) -> Result<()> {
        let file = self.route.at.clone();
        let session = self.session()?;
        match event {
            Event::Body {
                length: 0, last: true, ..
            } => Ok(()),
            Event::Pages(status) => {
                let list = session.frames.small(status.data_bytes, ROOT_WORDS_BYTES_MAX).await?;
                match BadPages::parse(&list)? {
                    None => Ok(()),
                    Some(pages) => self.note_damaged(&pages),
                }
            }
            Event::Reply(_, Reply::Done(_)) => Ok(()),
            Event::Reply(_, Reply::Refused(refusal)) => {
                Err(refused(&file, refusal, session.is_encrypted()).in_phase(Phase::Transfer))
            }
            Event::Reply(_, Reply::Wait(_)) => {
                let error = session.error(ErrorCode::PeerStalled, Phase::Transfer);
                Err(error.with_detail("the server wants a part of the file later"))
            }
            _ => Err(session.misbehaved("this is no answer to a write")),
        }
    }

    /// Remembers pages to send again. Only the first and the last of a write may be shorter than a
    /// page.
    fn note_damaged(&mut self, pages: &BadPages) -> Result<()> {
        let count = pages.offsets.len();
        let Some(left) = self.repairs_left.checked_sub(count) else {
            return Err(self.too_many_damaged(count));
        };
        self.repairs_left = left;
        for (index, &offset) in pages.offsets.iter().enumerate() {
            let bytes = match index {
                0 => pages.first_bytes.into(),
                index if index + 1 == count => pages.last_bytes.into(),
                _ => PAGE_BYTES as u64,
            };
            let range = ByteRange::new(offset, offset.saturating_add(bytes));
            if range.is_empty() || bytes > bytes_to_border(offset) as u64 || range.end > self.end_bytes {
                return Err(self.session()?.misbehaved("the damaged pages were not sent"));
            }
            self.damaged.push(range);
        }
        Ok(())
    }

    fn too_many_damaged(&self, count: usize) -> Error {
        let error = self.route.at.error(ErrorCode::TooManyPageErrors, Phase::Transfer);
        error.with_detail(format!("damaged on the way to the server: {count}"))
    }

    /// Ends the session after an error.
    fn give_up(&mut self, error: Error) -> Error {
        self.session = None;
        self.route.at.blame(error)
    }

    async fn close(&mut self) -> Result<()> {
        let close = Request::Close(Close { handle: self.handle });
        loop {
            let session = self.session()?;
            // Giving up here would leave the outcome unknown.
            session.limit_promises(ROOT_PATIENCE);
            let id = session.send(&close).await?;
            match session.answer(id).await? {
                Reply::Done(_) => return Ok(()),
                Reply::Wait(pause) => self.route.wait(pause, ROOT_PATIENCE).await?,
                Reply::Refused(refusal) => {
                    let is_encrypted = session.is_encrypted();
                    return Err(refused(&self.route.at, &refusal, is_encrypted));
                }
                Reply::Redirect(_) | Reply::More => {
                    return Err(session.misbehaved("this is no answer to a close"));
                }
            }
        }
    }

    /// Removes the file, which the server has created for this upload.
    async fn remove(mut self, created: FileIdentity) -> Result<()> {
        while !self.under_way.is_empty() {
            self.hear().await?;
        }
        let over = || self.route.at.error(ErrorCode::PeerClosed, Phase::Cleanup);
        let mut session = self.session.take().ok_or_else(over)?;
        remove_open(&mut session, &self.route, self.handle, &created).await?;
        self.is_over = true;
        self.client.lost_writers.forget(self.session_id);
        self.client.keep(&self.route, session);
        Ok(())
    }

    fn session(&mut self) -> Result<&mut ServerSession> {
        // An earlier call has already returned the reason.
        let over = || self.route.at.error(ErrorCode::PeerClosed, Phase::Transfer);
        self.session.as_mut().ok_or_else(over)
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.client.lost_writers.note(&self.route.at, self.session_id);
        let created = self.created.take().filter(|created| created.is_new);
        let (Some(session), Some(created)) = (self.session.take(), created) else {
            return;
        };
        // Outside of a runtime the connection is just closed.
        let Ok(runtime) = Handle::try_current() else { return };
        let abandoned = Self {
            client: self.client.clone(),
            session: Some(session),
            route: self.route.clone(),
            created: None,
            under_way: std::mem::take(&mut self.under_way),
            damaged: Vec::new(),
            ..*self
        };
        runtime.spawn(timeout(COPY_CLOSE_WAIT, abandoned.remove(created.identity)));
    }
}

impl std::fmt::Debug for Outlet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Outlet({}, {} bytes sent)",
            self.route.at.location, self.sent_bytes
        )
    }
}
