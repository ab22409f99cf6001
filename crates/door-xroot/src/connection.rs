//! One connection: its socket, the session on it, and the answers that wait to be sent.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::limits::XROOT_QUEUED_BYTES_MAX;
use credentials::Credential;
use endpoint::{IdleConnection, ShareKind};
use net::Frames;
use types::{Error, ErrorCode, Phase, Result, Side};
use xroot_wire::ConnectionState;

use crate::failure::Failure;
use crate::files::Files;
use crate::late::LateAnswers;
use crate::session::Session;
use crate::sessions::Binding;
use crate::shared::Shared;

/// What follows a request on its connection.
pub(crate) enum Next {
    /// Another request.
    Request,
    /// The same; this one is answered later.
    Later,
    /// A TLS handshake.
    Tls,
    /// No more requests: the connection serves a session of another one.
    Bound(Binding),
    /// The end, once the answer is sent.
    Close,
}

/// A connection and the session on it.
pub(crate) struct Connection {
    pub(crate) door: Arc<Shared>,
    pub(crate) frames: Frames,
    pub(crate) peer: SocketAddr,
    /// Who the client is by the certificates of its TLS handshake.
    pub(crate) certificate_holder: Arc<Credential>,
    /// The session, after login.
    pub(crate) session: Option<Session>,
    pub(crate) late: LateAnswers,
    /// Makes room for another connection while this one is idle.
    pub(crate) idle: IdleConnection,
    /// Which requests are allowed now.
    pub(crate) state: ConnectionState,
}

impl Connection {
    /// The session; there is none before login.
    pub(crate) fn session(&mut self) -> std::result::Result<&mut Session, Failure> {
        let none = || Error::new(ErrorCode::OutOfSequence, Side::Client, Phase::Open);
        Ok(self.session.as_mut().ok_or_else(none)?)
    }

    /// The open files of the session.
    pub(crate) fn files(&mut self) -> std::result::Result<&mut Files, Failure> {
        Ok(&mut self.session()?.files)
    }

    /// Queues an answer.
    pub(crate) fn queue(&mut self, build: impl FnOnce(&mut Vec<u8>)) {
        self.frames.stream.queue_message(build);
    }

    /// Sends what is queued when it is much.
    pub(crate) async fn relieve(&mut self) -> Result<()> {
        if self.frames.stream.queued_bytes() > XROOT_QUEUED_BYTES_MAX {
            self.flush().await?;
        }
        Ok(())
    }

    /// Sends what is queued, unless the next `bytes` have arrived and will be read without waiting.
    pub(crate) async fn flush_unless_buffered(&mut self, bytes: u64) -> Result<()> {
        match self.frames.buffered_bytes() as u64 >= bytes {
            true => Ok(()),
            false => self.flush().await,
        }
    }

    /// Sends what is queued.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        if self.frames.stream.queued_bytes() > 0 {
            self.frames.stream.flush().await?;
        }
        Ok(())
    }

    /// Makes the TLS handshake that an answer announced.
    pub(crate) async fn encrypt(self: Box<Self>) -> Result<Box<Self>> {
        let this = *self;
        let Some(tls) = this.door.settings.site.tls.clone() else {
            return Err(Error::new(ErrorCode::Internal, Side::Active, Phase::Tls));
        };
        let mut connection = Box::new(Self {
            frames: this.frames.upgrade_server(&tls).await?,
            ..this
        });
        connection.state.on_tls();
        connection.meet();
        Ok(connection)
    }

    /// Takes the client's identity from the TLS handshake, also for a session that began in clear
    /// text. A token that it has shown before takes precedence.
    fn meet(&mut self) {
        let shown = self.frames.stream.take_peer_certificates();
        self.certificate_holder = self.door.settings.site.authenticator.certificates(shown.as_deref());
        if let Some(session) = &mut self.session
            && matches!(*session.credential, Credential::Anonymous)
        {
            session.credential = self.certificate_holder.clone();
        }
    }

    /// Counts the connection in the share of the session's identity, beside that of its address.
    pub(crate) fn identify(&mut self) -> std::result::Result<(), Failure> {
        let door = self.door.clone();
        let session = self.session()?;
        session.counted = None;
        let fair_share = &door.settings.site.fair_share;
        session.counted = fair_share.identify(ShareKind::Connections, &session.credential)?;
        Ok(())
    }
}
