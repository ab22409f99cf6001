//! The TLS side of a connection: handshake, alerts, changes of keys, tickets.

use std::io;

use crate::limits::TLS_EMPTY_RECORDS_MAX;
use rustls::{AlertDescription, ProtocolVersion};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use types::{Error, ErrorCode, Phase, Side};

use super::incoming::{Appetite, Carry};
use super::{End, Stream, Waits};
use crate::failure::Role;
use crate::tls::{ClientTls, Handshake, ServerTls, Step, TlsSession, alert_words};
use records::{ContentType, RecordFault, Sealer};

/// Handshake message types after the handshake (RFC 8446 §4).
const HELLO_REQUEST: u8 = 0;
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;
/// `update_not_requested` in a KeyUpdate message (RFC 8446 §4.6.3).
const KEY_UPDATE_MESSAGE: [u8; 5] = [KEY_UPDATE, 0, 0, 1, 0];
/// Alert: warning, close_notify (RFC 8446 §6.1).
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// Alert description user_canceled, a warning that close_notify follows (RFC 8446 §6.1).
const USER_CANCELED: u8 = 90;
/// Largest message accepted after the handshake; tickets are the longest of them.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// What is wrong with bytes that came before the TLS handshake and belong to nothing.
pub(crate) const EARLY_BYTES: &str = "clear text came where the TLS handshake was to begin";

/// Keys and what belongs to them.
pub(super) struct TlsState {
    pub(super) session: TlsSession,
    /// Records of the handshake that go out in front of what is sent next: session tickets. Alone
    /// they would cost a segment and wake the other end, which does not wait for them.
    unsent: Vec<u8>,
    /// The beginning of a handshake message that spans records.
    partial: Vec<u8>,
    /// The other end asked for new keys; ours are changed with the next bytes sent, which is soon
    /// enough (RFC 8446 §4.6.3). Sent while reading, the change could meet a closed socket, and the
    /// reset that follows would take away what is still to be read.
    renewal_owed: bool,
    /// Records without payload since the last one that had some.
    barren_records: u32,
}

impl TlsState {
    pub(super) fn version_name(&self) -> &'static str {
        if self.session.version == ProtocolVersion::TLSv1_3 {
            "TLSv1.3"
        } else {
            "TLSv1.2"
        }
    }

    /// Whether the handshake left something that has to go out before anything else does.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Counts a record; a row of them without payload is broken off.
    pub(super) fn count_record(&mut self, is_barren: bool) -> Result<(), RecordFault> {
        self.barren_records = if is_barren { self.barren_records + 1 } else { 0 };
        if self.barren_records > TLS_EMPTY_RECORDS_MAX {
            return Err(RecordFault::NothingButFraming);
        }
        Ok(())
    }

    /// What an alert means for the connection.
    pub(super) fn alert(&self, payload: &[u8], role: Role) -> Result<End, Error> {
        match payload {
            [_, 0] => Ok(End::Clean),
            [1, USER_CANCELED] => Ok(End::Open),
            [_, description] => Err(role.tls(alert_words(AlertDescription::from(*description)))),
            _ => Err(role.tls("a malformed TLS alert")),
        }
    }

    /// Takes in handshake messages: tickets and changes of keys; anything else ends the connection.
    pub(super) fn handshake_message(&mut self, payload: &[u8], role: Role) -> Result<(), Error> {
        self.partial.extend_from_slice(payload);
        if self.partial.len() > MESSAGE_BYTES_MAX {
            return Err(role.tls("a TLS message that is too long"));
        }
        loop {
            let [kind, a, b, c, ..] = self.partial[..] else {
                return Ok(());
            };
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            if self.partial.len() < 4 + length {
                return Ok(());
            }
            let message: Vec<u8> = self.partial.drain(..4 + length).skip(4).collect();
            self.take_message(kind, &message, role)?;
        }
    }

    fn take_message(&mut self, kind: u8, message: &[u8], role: Role) -> Result<(), Error> {
        let is_13 = self.session.version == ProtocolVersion::TLSv1_3;
        match (kind, message) {
            (NEW_SESSION_TICKET, _) if is_13 => self
                .session
                .keeper
                .keep_ticket(message)
                .map_err(|cause| role.tls_failed(&cause)),
            (KEY_UPDATE, [wanted @ (0 | 1)]) if is_13 && self.partial.is_empty() => {
                self.session.opener = self
                    .session
                    .keeper
                    .next_opener()
                    .map_err(|cause| role.tls_failed(&cause))?;
                self.renewal_owed |= *wanted == 1;
                Ok(())
            }
            // A TLS 1.2 server may ask for a renegotiation; not answering is allowed (RFC 5246
            // §7.4.1.1).
            (HELLO_REQUEST, []) if !is_13 => Ok(()),
            _ => Err(role.tls("an unexpected TLS handshake message")),
        }
    }

    /// What goes in front of the next payload: what the handshake left, and the record that changes
    /// our keys when it is due.
    pub(super) fn preamble(&mut self, role: Role) -> Result<Vec<u8>, Error> {
        let mut wire = std::mem::take(&mut self.unsent);
        if self.session.sealer.is_worn() && !self.session.sealer.can_rekey() {
            return Err(role.tls(RecordFault::KeysExhausted));
        }
        if self.renewal_owed || self.session.sealer.is_worn() {
            self.renewal_owed = false;
            let sealed = self
                .session
                .sealer
                .seal_copy(&KEY_UPDATE_MESSAGE, ContentType::Handshake, &mut wire);
            sealed.map_err(|cause| role.tls(cause))?;
            let fresh: Sealer = self
                .session
                .keeper
                .next_sealer()
                .map_err(|cause| role.tls_failed(&cause))?;
            self.session.sealer = fresh;
        }
        Ok(wire)
    }

    /// The record that says goodbye; nothing when the keys no longer allow it.
    pub(super) fn farewell(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        match self
            .session
            .sealer
            .seal_copy(&CLOSE_NOTIFY, ContentType::Alert, &mut wire)
        {
            Ok(()) => wire,
            Err(_) => Vec::new(),
        }
    }
}

impl Stream {
    /// Answers a client's TLS handshake on `tcp`.
    ///
    /// # Errors
    /// A failed or slow handshake, with the reason.
    pub async fn accept_tls(tcp: TcpStream, tls: &ServerTls, waits: Waits) -> Result<Self, Error> {
        let handshake = Handshake::server(tls.current()).map_err(|cause| Role::Client.tls_failed(&cause))?;
        Self::shake_hands(Self::clear(tcp, Role::Client, waits), handshake).await
    }

    /// Makes a TLS connection of `tcp` to the server that calls itself `host`.
    ///
    /// # Errors
    /// `peer_tls_failed` with the reason (certificate expired, unknown issuer, wrong name …).
    pub async fn connect_tls(
        tcp: TcpStream,
        tls: &ClientTls,
        host: &str,
        side: Side,
        waits: Waits,
    ) -> Result<Self, Error> {
        let role = Role::Peer(side);
        let handshake =
            Handshake::client(tls.current(), server_name(host, role)?).map_err(|cause| role.tls_failed(&cause))?;
        Self::shake_hands(Self::clear(tcp, role, waits), handshake).await
    }

    /// Sends what is queued and then answers the client's TLS handshake on this connection, which
    /// was in clear text so far.
    ///
    /// # Errors
    /// As [`Stream::accept_tls`]; `bad_request` when unread clear text of the client is left: an
    /// attacker in between could have inserted it, to pass for the client's words after the
    /// handshake (as with STARTTLS, RFC 3207 §4.2).
    pub async fn upgrade_server(mut self, tls: &ServerTls) -> Result<Self, Error> {
        let role = self.role;
        let handshake = Handshake::server(tls.current()).map_err(|cause| role.tls_failed(&cause))?;
        self.prepare_upgrade().await?;
        Self::shake_hands(self, handshake).await
    }

    /// Sends what is queued and then begins TLS with the server that calls itself `host`, on a
    /// connection that was in clear text so far. No application protocol is named: the one that was
    /// spoken goes on.
    ///
    /// # Errors
    /// As [`Stream::connect_tls`]; `peer_tls_failed` when unread clear text of the server is left.
    pub async fn upgrade_client(mut self, tls: &ClientTls, host: &str) -> Result<Self, Error> {
        let role = self.role;
        let name = server_name(host, role)?;
        let handshake = Handshake::client_upgrade(tls.current(), name).map_err(|cause| role.tls_failed(&cause))?;
        self.prepare_upgrade().await?;
        Self::shake_hands(self, handshake).await
    }

    async fn prepare_upgrade(&mut self) -> Result<(), Error> {
        if self.tls.is_some() {
            return Err(self.role.tls("the connection is encrypted already"));
        }
        if self.carry.is_some() {
            return Err(self.role.tls(EARLY_BYTES));
        }
        self.flush().await
    }

    async fn shake_hands(mut self, mut handshake: Handshake) -> Result<Self, Error> {
        let role = self.role;
        let limit = self.waits.handshake;
        let unsent = match tokio::time::timeout(limit, self.drive(&mut handshake)).await {
            Ok(done) => done?,
            Err(_) => return Err(Error::new(timeout_code(role), role.side(), Phase::Tls)),
        };
        if self.carry.is_none() {
            // Nothing answers the client's last words now, so its first request would wait. Unlike
            // a ticket this wakes no program.
            self.socket.acknowledge(true);
        }
        let session = handshake.finish(role)?;
        self.tls = Some(Box::new(TlsState {
            session,
            unsent,
            partial: Vec::new(),
            renewal_owed: false,
            barren_records: 0,
        }));
        Ok(self)
    }

    /// Returns what is still to be sent and can wait.
    async fn drive(&mut self, handshake: &mut Handshake) -> Result<Vec<u8>, Error> {
        let mut output = Vec::new();
        let mut shown = 0;
        loop {
            let taken = self.carry.take();
            let mut carry = taken.unwrap_or_else(|| Carry::empty(crate::Buffer::small()));
            let (used, step) = handshake.advance(&mut carry.buffer[carry.start..carry.end], &mut shown, &mut output);
            carry.start += used;
            self.carry = (carry.start < carry.end).then_some(carry);
            match step {
                Ok(Step::Done) => return Ok(output),
                Ok(Step::Send) if handshake.can_wait() => {}
                Ok(Step::Send) => {
                    self.write_all(&output).await?;
                    output.clear();
                }
                Ok(Step::Read) => self.read_handshake().await?,
                Err(cause) => {
                    self.send_alert(handshake).await;
                    return Err(self.role.tls_failed(&cause));
                }
            }
        }
    }

    async fn read_handshake(&mut self) -> Result<(), Error> {
        loop {
            match self.fill(Appetite::Small) {
                Ok(0) => return Err(self.role.closed(Phase::Tls)),
                Ok(_) => return Ok(()),
                // The time for the whole handshake is limited by the caller.
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                    self.socket.acknowledge(true);
                    let readable = self.socket.readable().await;
                    readable.map_err(|cause| self.role.broken(Phase::Tls, &cause))?;
                }
                Err(cause) => return Err(self.role.broken(Phase::Tls, &cause)),
            }
        }
    }

    /// Tells the other end why the handshake failed, if rustls has an alert for it.
    async fn send_alert(&mut self, handshake: &mut Handshake) {
        let output = handshake.alert();
        let _ = self.write_all(&output).await;
    }
}

fn server_name(host: &str, role: Role) -> Result<ServerName<'static>, Error> {
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    ServerName::try_from(bare.to_owned()).map_err(|cause| role.tls(cause))
}

fn timeout_code(role: Role) -> ErrorCode {
    match role {
        Role::Client => ErrorCode::HeadTimeout,
        Role::Peer(_) => ErrorCode::PeerConnectTimeout,
    }
}

/// Whether the other end has closed its direction, even when unread data is in front of that.
pub(super) fn is_hung_up(tcp: &TcpStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut watched = [PollFd::new(tcp, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&now)).is_ok_and(|_| {
        watched[0]
            .revents()
            .intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
    })
}

/// Looks at one byte without taking it; 0 at the end of the connection.
pub(super) fn peek_one(tcp: &TcpStream) -> io::Result<usize> {
    let mut byte = [0u8; 1];
    let (count, _) = rustix::net::recv(
        tcp,
        &mut byte,
        rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT,
    )?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use http_wire::Framing;
    use types::ByteRange;

    use super::*;
    use crate::stream::steady::tests::{ALONE, body, encrypted_pair, file};

    #[tokio::test]
    async fn a_session_ticket_waits_for_what_is_said_first() {
        let (mut client, mut server) = encrypted_pair().await;
        let nothing = peek_one(client.socket.watched().unwrap()).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        assert!(server.tls.as_ref().unwrap().has_unsent());
        // What the client said last is acknowledged already: Nagle's algorithm does not hold its
        // request back.
        assert!(rustix::net::sockopt::tcp_quickack(server.socket.fd().unwrap()).unwrap());
        server.queue(b"x");
        server.flush().await.unwrap();
        assert!(!server.tls.as_ref().unwrap().has_unsent());
        // Both are there with the first look, and the client understands them in this order.
        client.socket.readable().await.unwrap();
        let mut room = [0; 1024];
        let seen = client.socket.read_message(&mut room).unwrap();
        let first = records::record_length(&room[..seen]).unwrap().unwrap();
        assert!(first < seen, "{seen} bytes, {first} of them the first record");
    }

    #[tokio::test]
    async fn a_ticket_goes_out_before_a_file_that_nothing_was_queued_for() {
        let _alone = ALONE.lock().await;
        let ((client, mut server), (file, content)) = (encrypted_pair().await, file());
        let reader = tokio::spawn(body(client, Framing::UntilClose));
        let mut left = ByteRange::new(0, content.len() as u64);
        while !left.is_empty() {
            let turn = server.send_file_steadily(&file, left, |_| {}).await.unwrap().unwrap();
            left.take_front(turn.sent_bytes);
        }
        server.close().await.unwrap();
        assert!(reader.await.unwrap().0 == content);
    }

    #[tokio::test]
    async fn what_was_queued_and_never_sent_goes_out_with_the_end() {
        let (client, mut server) = encrypted_pair().await;
        server.queue(b"last words");
        server.close().await.unwrap();
        let (seen, ended_cleanly) = body(client, Framing::UntilClose).await;
        assert_eq!(seen, b"last words");
        assert!(ended_cleanly);
    }
}
