//! A session with a broker: messages out, receipts in.

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use net::address::AddressPolicy;
use net::dial::dial;
use net::tls::ClientTls;
use net::{Role, Stream, Waits};
use stomp_wire::client::{self, Event, Outgoing};
use stomp_wire::{Beats, Decoded, Frame, decode};
use tokio::time::{Instant, sleep_until};
use types::{Error, ErrorCode, Phase, Result, Secret, Side};

use crate::address::{Broker, BrokerLogin};
use crate::limits::{ANSWER_TIMEOUT, BEAT, CONNECT_TIMEOUT, INPUT_BYTES_MAX, OUTPUT_BYTES_MAX};

/// Longer than any wait here: times are watched beside it.
const FAR: Duration = Duration::from_secs(24 * 3600);

/// What stands for a password that a broker quotes.
const HIDDEN: &str = "hidden";

/// A message for a broker.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Where it goes.
    pub destination: &'a str,
    /// A JSON object.
    pub body: &'a str,
    /// Whether the broker keeps it on disk.
    pub is_persistent: bool,
    /// Further headers.
    pub headers: &'a [(&'a str, String)],
}

/// A session with a broker.
pub struct Session {
    stream: Stream,
    session: client::Session,
    input: Vec<u8>,
    /// What refusals must not quote.
    password: Option<Secret>,
    /// The number of the last receipt that was asked for.
    receipts: u64,
    heard_at: Instant,
    said_at: Instant,
}

/// A failure of the broker, in these words.
fn failure(code: ErrorCode, words: impl Into<String>) -> Error {
    Error::new(code, Side::Destination, Phase::Transfer).with_detail(words.into())
}

impl Session {
    /// Connects and logs in.
    ///
    /// # Errors
    /// The broker cannot be reached, or refuses us.
    pub async fn open(broker: &Broker, login: Option<&BrokerLogin>, tls: &ClientTls) -> Result<Self> {
        let side = Side::Destination;
        let waits = Waits {
            handshake: CONNECT_TIMEOUT,
            stall: ANSWER_TIMEOUT,
        };
        // Administrators name brokers: any address is allowed.
        let tcp = dial(&broker.host, broker.port, AddressPolicy::ANY, CONNECT_TIMEOUT, side).await?;
        let stream = match broker.is_encrypted {
            true => Stream::connect_tls(tcp, tls, &broker.host, side, waits).await?,
            false => Stream::clear(tcp, Role::Peer(side), waits),
        };
        let now = Instant::now();
        let mut this = Self {
            stream,
            session: client::Session::Connecting,
            input: Vec::new(),
            password: login.map(|login| login.password.clone()),
            receipts: 0,
            heard_at: now,
            said_at: now,
        };
        let mut connect = client::connect(&broker.host, offered());
        if let Some(login) = login {
            connect = connect.with("login", &login.user);
            connect = connect.with("passcode", login.password.expose());
        }
        this.say(&connect);
        this.flush().await?;
        let late = Instant::now() + ANSWER_TIMEOUT;
        match this.event(late).await? {
            Event::Opened => Ok(this),
            Event::Confirmed(_) | Event::Refused(_) => Err(failure(ErrorCode::PeerFailed, "no session")),
        }
    }

    /// Our own address on the connection.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.stream.local_address()
    }

    /// Sends messages, and waits until the broker has confirmed each.
    ///
    /// # Errors
    /// It has not. Some of them may have arrived.
    pub async fn send(&mut self, messages: &[Message<'_>]) -> Result<()> {
        let mut open: HashSet<String> = HashSet::with_capacity(messages.len());
        for message in messages {
            self.receipts += 1;
            let receipt = self.receipts.to_string();
            let outgoing = Outgoing {
                destination: message.destination,
                receipt: &receipt,
                body: message.body,
                is_persistent: message.is_persistent,
            };
            let mut frame = client::send(&outgoing);
            for (name, value) in message.headers {
                frame = frame.with(name, value.as_str());
            }
            self.say(&frame);
            open.insert(receipt);
            if self.stream.queued_bytes() >= OUTPUT_BYTES_MAX {
                self.flush().await?;
            }
        }
        self.flush().await?;
        let mut late = Instant::now() + ANSWER_TIMEOUT;
        while !open.is_empty() {
            // Confirmations of something else give no more time.
            if let Event::Confirmed(receipt) = self.event(late).await?
                && open.remove(&receipt)
            {
                late = Instant::now() + ANSWER_TIMEOUT;
            }
        }
        Ok(())
    }

    /// Waits while nothing is sent. Returns when something was heard, or is to be said by
    /// [`Session::flush`]; may be dropped.
    ///
    /// # Errors
    /// The broker has ended the session, or is silent for too long.
    pub async fn idle(&mut self) -> Result<()> {
        let beats = self.session.beats();
        let beat = beats.sends.map(|beat| self.said_at + beat);
        // Brokers are late on a busy machine: they get twice the time.
        let silent = beats.wants.map(|beat| self.heard_at + beat * 2);
        let far = Instant::now() + FAR;
        tokio::select! {
            read = self.stream.read_some(FAR) => {
                let batch = read?.ok_or_else(|| failure(ErrorCode::PeerClosed, "the broker closed the connection"))?;
                self.heard_at = Instant::now();
                batch.append_to(&mut self.input);
                while let Some(frame) = self.next_frame()? {
                    self.take(&frame)?;
                }
            }
            () = sleep_until(silent.unwrap_or(far)) => {
                return Err(failure(ErrorCode::PeerStalled, "no heart-beat in time"));
            }
            () = sleep_until(beat.unwrap_or(far)) => {
                self.said_at = Instant::now();
                self.stream.queue(b"\n");
            }
        }
        Ok(())
    }

    /// The next event.
    async fn event(&mut self, late: Instant) -> Result<Event> {
        loop {
            if let Some(frame) = self.next_frame()? {
                return self.take(&frame);
            }
            let read = tokio::select! {
                read = self.stream.read_some(FAR) => read?,
                () = sleep_until(late) => {
                    return Err(failure(ErrorCode::PeerStalled, "the broker does not answer"));
                }
            };
            let batch = read.ok_or_else(|| failure(ErrorCode::PeerClosed, "the broker closed the connection"))?;
            self.heard_at = Instant::now();
            batch.append_to(&mut self.input);
        }
    }

    fn take(&mut self, frame: &Frame) -> Result<Event> {
        match self.session.take(frame, offered()) {
            Ok(Event::Refused(words)) => {
                let words = without(self.password.as_ref(), words);
                Err(failure(ErrorCode::PeerFailed, "the broker refuses us").with_peer(None, &words))
            }
            Ok(event) => Ok(event),
            Err(malformed) => Err(failure(ErrorCode::PeerFailed, malformed.0)),
        }
    }

    fn next_frame(&mut self) -> Result<Option<Frame>> {
        loop {
            match decode(&self.input, self.session.version()) {
                Ok(Decoded::Partial) if self.input.len() <= INPUT_BYTES_MAX => return Ok(None),
                Ok(Decoded::Partial) => return Err(failure(ErrorCode::PeerFailed, "the frame is too long")),
                Ok(Decoded::Beat(count)) => drop(self.input.drain(..count)),
                Ok(Decoded::Frame(frame, count)) => {
                    self.input.drain(..count);
                    return Ok(Some(frame));
                }
                Err(malformed) => return Err(failure(ErrorCode::PeerFailed, malformed.0)),
            }
        }
    }

    fn say(&mut self, frame: &Frame) {
        let version = self.session.version();
        self.stream.queue_with(|out| frame.encode(version, out));
    }

    /// Sends what is to be said. Not to be dropped in between.
    ///
    /// # Errors
    /// The broker is lost, or takes nothing.
    pub async fn flush(&mut self) -> Result<()> {
        if self.stream.queued_bytes() == 0 {
            return Ok(());
        }
        self.stream.flush().await?;
        self.said_at = Instant::now();
        Ok(())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("receipts", &self.receipts)
            .finish_non_exhaustive()
    }
}

/// What a broker says, without the password that it quotes.
fn without(password: Option<&Secret>, words: String) -> String {
    match password.map(Secret::expose) {
        Some(password) if !password.is_empty() => words.replace(password, HIDDEN),
        _ => words,
    }
}

/// The heart-beats that brokers are offered.
fn offered() -> Beats {
    Beats {
        sends: Some(BEAT),
        wants: Some(BEAT),
    }
}
