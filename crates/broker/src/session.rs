//! A session with a broker: messages out, receipts in.

use std::collections::BTreeSet;
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
use crate::limits::{ANSWER_TIMEOUT, BEAT, CONNECT_TIMEOUT, INPUT_BYTES_MAX, LAST_RECEIPTS_TIME, OUTPUT_BYTES_MAX};

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
    /// The heart-beats that the broker was offered.
    offered: Beats,
    /// The number of the last receipt that was asked for.
    receipts: u64,
    /// How many messages are sent before the first of them is confirmed.
    window: usize,
    /// Nothing can be sent any more. Receipts may still come.
    is_broken: bool,
    heard_at: Instant,
    said_at: Instant,
}

/// Messages that were sent. The broker has yet to confirm some of them.
#[derive(Debug)]
pub struct Unconfirmed {
    /// The receipts of the first of them that is not confirmed, and behind the last one.
    next: u64,
    end: u64,
    /// Those behind the first that were confirmed before it.
    ahead: BTreeSet<u64>,
    /// Why not all of them could be sent.
    fault: Option<Error>,
}

impl Unconfirmed {
    /// How many are not confirmed.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.end - self.next).unwrap_or(usize::MAX)
    }

    /// Whether each was sent and confirmed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next == self.end
    }

    fn take(&mut self, receipt: &str) {
        let number = receipt.parse::<u64>().ok();
        self.ahead
            .extend(number.filter(|number| (self.next..self.end).contains(number)));
        while self.ahead.remove(&self.next) {
            self.next += 1;
        }
    }
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
        Self::open_with(broker, login, tls, offered()).await
    }

    async fn open_with(broker: &Broker, login: Option<&BrokerLogin>, tls: &ClientTls, offered: Beats) -> Result<Self> {
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
            offered,
            receipts: 0,
            window: 1,
            is_broken: false,
            heard_at: now,
            said_at: now,
        };
        let mut connect = client::connect(&broker.host, offered);
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

    /// Sends the first of these messages; the others come when they are confirmed. What happens to
    /// them, [`Session::confirmed`] says, even if this fails.
    ///
    /// A session begins with one message, and sends twice as many each time: a broker that closes
    /// while messages are on their way resets the connection, which may cost its receipts. So each
    /// session gets on by one message at least.
    pub async fn send(&mut self, messages: &[Message<'_>]) -> Unconfirmed {
        let messages = &messages[..messages.len().min(self.window)];
        let next = self.receipts + 1;
        let fault = self.write(messages).await.err();
        self.receipts += messages.len() as u64;
        Unconfirmed {
            next,
            end: self.receipts + 1,
            ahead: BTreeSet::new(),
            fault,
        }
    }

    async fn write(&mut self, messages: &[Message<'_>]) -> Result<()> {
        for (message, receipt) in messages.iter().zip(self.receipts + 1..) {
            let outgoing = Outgoing {
                destination: message.destination,
                receipt: &receipt.to_string(),
                body: message.body,
                is_persistent: message.is_persistent,
            };
            let mut frame = client::send(&outgoing);
            for (name, value) in message.headers {
                frame = frame.with(name, value.as_str());
            }
            self.say(&frame);
            if self.stream.queued_bytes() >= OUTPUT_BYTES_MAX {
                self.flush().await?;
            }
        }
        self.flush().await
    }

    /// Waits until the broker has confirmed the first of these messages. Returns how many of the
    /// first of them are confirmed: they are no longer among these then.
    ///
    /// # Errors
    /// The broker does not confirm it. Some of them may have arrived.
    pub async fn confirmed(&mut self, messages: &mut Unconfirmed) -> Result<usize> {
        let limit = match messages.fault {
            None => ANSWER_TIMEOUT,
            // Those that the broker has sent before it broke off.
            Some(_) => LAST_RECEIPTS_TIME,
        };
        let (late, before) = (Instant::now() + limit, messages.next);
        while messages.next == before && !messages.is_empty() {
            // Confirmations of something else give no more time.
            match self.event(late).await {
                Ok(Event::Confirmed(receipt)) => messages.take(&receipt),
                Ok(Event::Opened | Event::Refused(_)) => {}
                // The words of a broker say more than a connection that it has closed.
                Err(error) if error.code() == ErrorCode::PeerFailed => return Err(error),
                Err(error) => return Err(messages.fault.take().unwrap_or(error)),
            }
        }
        if messages.is_empty() {
            self.window = self.window.saturating_mul(2);
        }
        Ok(usize::try_from(messages.next - before).unwrap_or(usize::MAX))
    }

    /// Waits while nothing is sent. Returns when something was heard, or is to be said by
    /// [`Session::flush`]; may be dropped.
    ///
    /// # Errors
    /// The broker has ended the session, or is silent for too long.
    pub async fn idle(&mut self) -> Result<()> {
        let beat = self.next_beat();
        // Brokers are late on a busy machine: they get twice the time.
        let wanted = self.session.beats().wants;
        let silent = wanted.map(|beat| self.heard_at + beat * 2);
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
            () = sleep_until(beat) => self.beat(),
        }
        Ok(())
    }

    /// When the next heart-beat is to be sent.
    fn next_beat(&self) -> Instant {
        let sends = self.session.beats().sends.filter(|_| !self.is_broken);
        let from = sends.map(|beat| self.said_at + beat);
        from.unwrap_or_else(|| Instant::now() + FAR)
    }

    fn beat(&mut self) {
        self.said_at = Instant::now();
        self.stream.queue(b"\n");
    }

    /// The next event. The broker hears meanwhile that we are here.
    async fn event(&mut self, late: Instant) -> Result<Event> {
        loop {
            if let Some(frame) = self.next_frame()? {
                return self.take(&frame);
            }
            let beat = self.next_beat();
            let read = tokio::select! {
                read = self.stream.read_some(FAR) => read?,
                () = sleep_until(late) => {
                    return Err(failure(ErrorCode::PeerStalled, "the broker does not answer"));
                }
                () = sleep_until(beat) => {
                    self.beat();
                    self.flush().await?;
                    continue;
                }
            };
            let batch = read.ok_or_else(|| failure(ErrorCode::PeerClosed, "the broker closed the connection"))?;
            self.heard_at = Instant::now();
            batch.append_to(&mut self.input);
        }
    }

    fn take(&mut self, frame: &Frame) -> Result<Event> {
        match self.session.take(frame, self.offered) {
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
        // A send that is dropped in the middle has failed, too.
        let was_broken = std::mem::replace(&mut self.is_broken, true);
        self.stream.flush().await?;
        self.is_broken = was_broken;
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

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use net::tls::Trust;

    use super::*;

    /// What makes the broker of the test give up.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_broker_that_takes_its_time_hears_that_we_are_here() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut heard = Vec::new();
            let mut hear_until = |stream: &mut std::net::TcpStream, end: &[u8]| {
                while !heard.ends_with(end) {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    heard.extend(byte);
                }
            };
            hear_until(&mut stream, b"\0");
            let connected = b"CONNECTED\nversion:1.2\nheart-beat:0,50\n\n\0";
            stream.write_all(connected).unwrap();
            // The end of the message, and a beat behind it.
            hear_until(&mut stream, b"{}\0\n");
            stream.write_all(b"RECEIPT\nreceipt-id:1\n\n\0").unwrap();
        });
        let broker = Broker::parse(&format!("stomp://127.0.0.1:{port}")).unwrap();
        let tls = ClientTls::load(&Trust::default()).unwrap().0;
        let often = Beats::parse(Some("50,0"));
        let mut session = Session::open_with(&broker, None, &tls, often).await.unwrap();
        let message = Message {
            destination: "/topic/t",
            body: "{}",
            is_persistent: true,
            headers: &[],
        };
        let mut sent = session.send(&[message]).await;
        assert_eq!(session.confirmed(&mut sent).await.unwrap(), 1);
        assert!(sent.is_empty());
    }

    #[test]
    fn only_what_has_all_before_it_confirmed_counts() {
        let mut sent = Unconfirmed {
            next: 5,
            end: 9,
            ahead: BTreeSet::new(),
            fault: None,
        };
        for (receipt, next) in [
            ("6", 5),
            ("9", 5),
            ("4", 5),
            ("x", 5),
            ("5", 7),
            ("5", 7),
            ("8", 7),
            ("7", 9),
        ] {
            assert!(!sent.is_empty());
            sent.take(receipt);
            assert_eq!(sent.next, next, "{receipt}");
        }
        assert!(sent.is_empty() && sent.ahead.is_empty());
    }
}
