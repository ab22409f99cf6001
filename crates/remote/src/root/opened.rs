//! A file that is opened once and read over several connections. The key of a third-party copy, for
//! one, opens a file only once.
//!
//! Further connections are bound to the session in which the file is open (XRootD protocol 5.2,
//! `kXR_bind`). They carry only data: the requests for all of them go out on the session's own
//! connection. No data come on that one meanwhile, so no task has to read it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use types::{ByteRange, Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result};
use xroot_wire::limits::BOUND_STREAMS_MAX;
use xroot_wire::request::Close;
use xroot_wire::{FileHandle, Request, SessionId};

use super::ask::Client;
use super::at_end::checksum_at_end;
use super::download::{Download, OpenFile};
use super::login;
use super::route::Route;
use super::session::{Reply, ServerSession};
use super::verdict::refused;
use crate::opened::SharedFile;
use crate::protocol::{Boxed, Pending};
use crate::resource::{Facts, Resource};

/// A file that is open at a server. Clones are the same file. The connections end when the last
/// clone is dropped without [`Opened::close`].
#[derive(Clone)]
pub(crate) struct Opened(Arc<Shared>);

struct Shared {
    client: Client,
    route: Route,
    handle: FileHandle,
    facts: Facts,
    session: SessionId,
    address: Option<SocketAddr>,
    /// The session's own connection; `None` once it has another use.
    own: tokio::sync::Mutex<Option<ServerSession>>,
    /// Bound connections that are not in use.
    idle: Mutex<Vec<ServerSession>>,
}

impl Client {
    /// Opens a file to be read over one connection or several.
    ///
    /// # Errors
    /// `is_directory`, or another refusal.
    pub(crate) async fn open(&self, file: &Resource) -> Result<Opened> {
        let opened = self.open_file(file).await?;
        Ok(Opened(Arc::new(Shared {
            client: self.clone(),
            address: opened.session.frames.stream.peer_address(),
            session: opened.session.server.session,
            route: opened.route,
            handle: opened.handle,
            facts: opened.facts,
            own: tokio::sync::Mutex::new(Some(opened.session)),
            idle: Mutex::default(),
        })))
    }
}

impl SharedFile for Opened {
    fn facts(&self) -> &Facts {
        &self.0.facts
    }

    /// `peer_closed` when the session's own connection has another use.
    fn distance(&self) -> Pending<'_, Duration> {
        Box::pin(async move {
            let mut own = self.0.own.lock().await;
            let own = own.as_mut().ok_or_else(|| self.closed())?;
            let asked = Instant::now();
            let id = own.send(&Request::Ping).await?;
            match own.answer(id).await? {
                Reply::Refused(refusal) => Err(refused(&self.0.route.at, &refusal, own.is_encrypted())),
                _ => Ok(asked.elapsed()),
            }
        })
    }

    fn bind(&self) -> Boxed<'_, bool> {
        Box::pin(async move {
            let this = &*self.0;
            let Some(address) = this.address else { return false };
            let bound = login::bind(&this.client.options, address, &this.route.at, this.session).await;
            match bound {
                Ok(stream) if stream.server.path <= BOUND_STREAMS_MAX => {
                    self.idle().push(stream);
                    true
                }
                _ => false,
            }
        })
    }

    fn get(&self, range: ByteRange, is_compared: bool) -> Pending<'_, crate::Download> {
        Box::pin(async move {
            let idle = || self.idle().pop();
            let stream = match idle() {
                Some(stream) => Some(stream),
                None if self.bind().await => idle(),
                None => None,
            };
            let stream = stream.ok_or_else(|| self.closed())?;
            let download = Download::new(&self.0.client, self.open_on(stream), range, is_compared);
            Ok(crate::Download::new(download.bound_to(self.clone())))
        })
    }

    fn read_alone(&self, is_compared: bool, wanted: Vec<ChecksumAlgorithm>) -> Pending<'_, crate::Download> {
        Box::pin(async move {
            let own = self.0.own.lock().await.take().ok_or_else(|| self.closed())?;
            let range = ByteRange::whole(self.0.facts.size_bytes.unwrap_or_default());
            let download = Download::new(&self.0.client, self.open_on(own), range, is_compared);
            Ok(crate::Download::new(download.asking_at_end(wanted)))
        })
    }

    fn checksum<'a>(&'a self, wanted: &'a [ChecksumAlgorithm]) -> Boxed<'a, Option<Checksum>> {
        Box::pin(async move {
            let mut own = self.0.own.lock().await;
            let asked = checksum_at_end(own.as_mut()?, &self.0.route, wanted).await;
            if asked.is_err() {
                *own = None;
            }
            asked.ok().flatten()
        })
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(async move {
            self.idle().clear();
            let close = Request::Close(Close { handle: self.0.handle });
            if let Some(mut own) = self.0.own.lock().await.take()
                && own.send_unheard(&close).await.is_ok()
            {
                self.0.client.keep(&self.0.route, own);
            }
        })
    }
}

impl Opened {
    /// Sends requests that are answered on bound connections.
    pub(super) async fn send(&self, requests: &[u8]) -> Result<()> {
        let mut own = self.0.own.lock().await;
        let own = own.as_mut().ok_or_else(|| self.closed())?;
        own.frames.stream.queue(requests);
        own.frames.stream.flush().await
    }

    /// Takes back a bound connection on which no answer is awaited.
    pub(super) fn give_back(&self, stream: ServerSession) {
        self.idle().push(stream);
    }

    /// The best explanation of an error on a bound connection: a server that cannot answer there
    /// refuses on the session's own connection.
    pub(super) async fn explain(&self, error: Error) -> Error {
        if let Some(own) = self.0.own.lock().await.as_mut()
            && let Some(refusal) = own.misplaced_refusal().await
        {
            return refused(&self.0.route.at, &refusal, own.is_encrypted()).in_phase(Phase::Transfer);
        }
        error
    }

    fn open_on(&self, session: ServerSession) -> OpenFile {
        OpenFile {
            session,
            route: self.0.route.clone(),
            handle: self.0.handle,
            facts: self.0.facts.clone(),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<ServerSession>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed(&self) -> Error {
        self.0.route.at.error(ErrorCode::PeerClosed, Phase::Transfer)
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Opened({})", self.0.route.at.location)
    }
}
