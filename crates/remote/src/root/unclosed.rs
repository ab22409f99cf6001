//! Removing a file that is not closed, because its upload is given up.
//!
//! XRootD keeps such a file for ten minutes after its session (`ofs.persist`), lets no other user
//! read it meanwhile, and then removes whatever has its name: also a whole file that was stored
//! after a mere removal (seen with 6.2.1). So it is removed while it is open, and then
//! closed: nothing of it can appear, and the server forgets it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::{Instant, sleep};
use types::{ErrorCode, Phase, Result};
use xroot_wire::request::{Close, EndSession, Remove, Stat};
use xroot_wire::response::{OpenReply, StatText};
use xroot_wire::{Argument, FileHandle, OpenOptions, Request, SessionId, StatFlags};

use super::ask::{Ask, Client, Encode};
use super::download::open_request;
use super::namespace::identity_of;
use super::outlet::FILE_MODE;
use super::route::Route;
use super::session::{Reply, ServerSession};
use super::verdict::refused;
use crate::limits::{COPY_CLOSE_WAIT, ROOT_LOST_WRITERS_MAX, ROOT_WAIT_MIN};
use crate::resource::{FileIdentity, Resource, is_in_use};

/// Sessions that broke off while they wrote a file, the latest last. The server may not have
/// noticed that they did.
#[derive(Default)]
pub(super) struct LostWriters(Mutex<VecDeque<LostWriter>>);

struct LostWriter {
    server: String,
    path: String,
    session: SessionId,
}

impl LostWriter {
    fn is_of(&self, file: &Resource) -> bool {
        self.path == file.location.path() && self.server == file.location.authority()
    }
}

impl LostWriters {
    fn list(&self) -> MutexGuard<'_, VecDeque<LostWriter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a session that may still have a file open.
    pub(super) fn note(&self, file: &Resource, session: SessionId) {
        self.forget(session);
        let mut list = self.list();
        if list.len() == ROOT_LOST_WRITERS_MAX {
            list.pop_front();
        }
        list.push_back(LostWriter {
            server: file.location.authority(),
            path: file.location.path().to_owned(),
            session,
        });
    }

    /// Forgets a session whose file is closed.
    pub(super) fn forget(&self, session: SessionId) {
        self.list().retain(|lost| lost.session != session);
    }

    /// The sessions that may still have a file open.
    fn take(&self, file: &Resource) -> Vec<SessionId> {
        let mut list = self.list();
        let found = list.iter().filter(|lost| lost.is_of(file));
        let sessions = found.map(|lost| lost.session).collect();
        list.retain(|lost| !lost.is_of(file));
        sessions
    }
}

impl Client {
    /// Removes a file, also one that was not closed. The session that wrote it is ended first.
    ///
    /// # Errors
    /// As [`Client::delete`].
    pub(crate) async fn delete_unclosed(&self, file: &Resource) -> Result<()> {
        let (stat, route) = self.look(file).await?;
        match identity_of(&stat, &route.at.location) {
            Some(found) if stat.flags.contains(StatFlags::PERSIST_PENDING) => {
                self.end_writers(&route).await;
                let (mut session, route, handle) = self.open_soon(file).await?;
                remove_open(&mut session, &route, handle, &found).await?;
                self.keep(&route, session);
                Ok(())
            }
            _ => self.delete(file).await,
        }
    }

    /// Ends the sessions of ours that may still have a file open: XRootD lets one writer in at a
    /// time, and waits for hours until a lost connection counts as one.
    async fn end_writers(&self, route: &Route) {
        for session in self.lost_writers.take(&route.at) {
            let encode: Encode<'_> = &|_, id, out| Request::EndSession(EndSession { session }).encode(id, out);
            // A session that has ended already is no longer in the way.
            if let Ok(answered) = self.ask_on(route.clone(), &Ask::once(encode)).await {
                self.keep(&answered.route, answered.session);
            }
        }
    }

    /// Opens a file again, as soon as its writer has left. To remove it by its name instead would
    /// let the server remove the next file of this name, too.
    async fn open_soon(&self, file: &Resource) -> Result<(ServerSession, Route, FileHandle)> {
        let began = Instant::now();
        loop {
            match self.open_again(file).await {
                Err(error) if is_in_use(&error) && began.elapsed() < COPY_CLOSE_WAIT => sleep(ROOT_WAIT_MIN).await,
                opened => return opened,
            }
        }
    }

    /// Opens a file that a broken session has left.
    async fn open_again(&self, file: &Resource) -> Result<(ServerSession, Route, FileHandle)> {
        let encode: Encode<'_> = &|target, id, out| {
            let options = OpenOptions::UPDATE | OpenOptions::PERSIST_ON_CLOSE;
            open_request(FILE_MODE, options, target.path).encode(id, out);
        };
        let answered = self.ask(file, &Ask::once(encode)).await?;
        let opened = OpenReply::parse(&answered.body).map_err(|error| answered.route.at.blame(error))?;
        Ok((answered.session, answered.route, opened.handle))
    }
}

/// Removes the file that is open, if the name is still its own, and closes it. Each request waits
/// for the answer to the one before.
pub(super) async fn remove_open(
    session: &mut ServerSession,
    route: &Route,
    handle: FileHandle,
    created: &FileIdentity,
) -> Result<()> {
    let target = route.target(&[], session.is_encrypted())?;
    let path = target.expose().as_bytes();
    let stat = done(session, route, &Request::Stat(Stat::path(path))).await?;
    let stat = StatText::parse(&stat).map_err(|error| route.at.blame(error))?;
    let found = identity_of(&stat, &route.at.location);
    if !found.is_some_and(|found| found.is_unclosed && created.is_same(&found) == Some(true)) {
        return Err(route.at.error(ErrorCode::SourceChanged, Phase::Cleanup));
    }
    let path = Argument::new(path);
    done(session, route, &Request::Remove(Remove { path })).await?;
    done(session, route, &Request::Close(Close { handle })).await.map(drop)
}

async fn done(session: &mut ServerSession, route: &Route, request: &Request<'_>) -> Result<Vec<u8>> {
    let id = session.send(request).await?;
    match session.answer(id).await? {
        Reply::Done(body) => Ok(body),
        Reply::Refused(refusal) => Err(refused(&route.at, &refusal, session.is_encrypted())),
        _ => Err(session.misbehaved("this is no answer about an open file")),
    }
}
