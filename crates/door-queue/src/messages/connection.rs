//! One subscriber's connection.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use endpoint::Gate;
use net::Stream;
use queue::messages::{Kind, Message};
use stomp_wire::server::{Rules, Session, refusals};
use stomp_wire::{Beats, Command, Decoded, Frame, decode};
use tokio::time::{Instant, sleep_until, timeout};
use types::Result;

use super::admission::Admission;
use super::topics::{Next, Seat};
use crate::limits::{
    LAST_WORDS_BYTES_MAX, MESSAGE_LIFE_MS, SUBSCRIBER_BEAT, SUBSCRIBER_INPUT_BYTES_MAX, SUBSCRIBER_LAST_WORDS_TIMEOUT,
    SUBSCRIBER_LOGIN_TIMEOUT, SUBSCRIBER_OUTPUT_BYTES_MAX,
};
use crate::term::Term;

/// What the topics of FTS begin with, as ActiveMQ names destinations.
const TOPIC: &str = "/topic/";
/// Longer than any wait here: times are watched beside it.
const FAR: Duration = Duration::from_secs(24 * 3600);

/// The kind of message that is published there.
fn kind_of(destination: &str) -> Option<Kind> {
    let topic = destination.strip_prefix(TOPIC)?;
    Kind::ALL.into_iter().find(|kind| kind.topic() == topic)
}

/// What the session may do; whether the client may log in was decided before.
struct Topical {
    is_admitted: bool,
}

impl Rules for Topical {
    fn admits(&self, _login: Option<&str>, _passcode: Option<&str>) -> bool {
        self.is_admitted
    }

    fn has(&self, destination: &str) -> bool {
        kind_of(destination).is_some()
    }

    fn beats(&self) -> Beats {
        Beats {
            sends: Some(SUBSCRIBER_BEAT),
            wants: Some(SUBSCRIBER_BEAT),
        }
    }
}

/// What a connection was woken by.
enum Wake {
    /// The client sent this much; 0: it has left.
    Input(usize),
    News,
    Time,
    Stops,
    /// The credential of the login has expired.
    Expired,
}

/// A connection with its session.
pub(super) struct Connection {
    stream: Stream,
    session: Session,
    input: Vec<u8>,
    heard_at: Instant,
    said_at: Instant,
    /// Messages that it got.
    count: u64,
    /// How long it lasts.
    term: Term,
}

/// Ends a connection with these words.
///
/// # Errors
/// It is lost already.
pub(super) async fn refuse(mut connection: Connection, words: &str) -> Result<()> {
    let error = connection.session.refuse(words, None);
    connection.answer(&error);
    connection.finish().await
}

impl Connection {
    /// Waits for the client's login; `None`: it was refused, or has left.
    ///
    /// # Errors
    /// The connection is lost.
    pub(super) async fn open(stream: Stream, admission: &Admission, gate: &Gate) -> Result<Option<Self>> {
        let now = Instant::now();
        let mut this = Self {
            stream,
            session: Session::Waiting,
            input: Vec::new(),
            heard_at: now,
            said_at: now,
            count: 0,
            term: Term::default(),
        };
        let ends = now + SUBSCRIBER_LOGIN_TIMEOUT;
        while this.session == Session::Waiting {
            if let Some(frame) = this.next_frame() {
                let admitted = match frame.command {
                    Command::Connect | Command::Stomp => admission.admits(&frame).await,
                    _ => Ok(None),
                };
                match admitted {
                    Ok(term) => {
                        let is_admitted = term.is_some();
                        this.term = term.unwrap_or_default();
                        this.take(&frame, &Topical { is_admitted });
                    }
                    Err(words) => {
                        let error = this.session.refuse(&words, None);
                        this.answer(&error);
                    }
                }
                continue;
            }
            if this.session != Session::Waiting {
                break;
            }
            let read = tokio::select! {
                () = gate.draining() => return Ok(None),
                () = sleep_until(ends) => {
                    refuse(this, refusals::LATE).await?;
                    return Ok(None);
                }
                read = this.stream.read_some(FAR) => read?,
            };
            let Some(batch) = read else { return Ok(None) };
            batch.append_to(&mut this.input);
        }
        if this.session == Session::Ended {
            this.finish().await?;
            return Ok(None);
        }
        this.stream.flush().await?;
        Ok(Some(this))
    }

    /// Serves a client that is logged in until one side ends it.
    ///
    /// # Errors
    /// The connection is lost, or the client takes nothing any more.
    pub(super) async fn serve(mut self, mut seat: Seat, gate: &Gate) -> Result<()> {
        let rules = Topical { is_admitted: true };
        loop {
            // A subscriber that always has something to read is not waited for.
            if self.term.has_ended() {
                return refuse(self, refusals::EXPIRED).await;
            }
            while let Some(frame) = self.next_frame() {
                if !self.is_subscribed() {
                    seat.skip();
                }
                self.take(&frame, &rules);
                self.make_room().await?;
            }
            if self.session == Session::Ended {
                return self.finish().await;
            }
            if !self.gather(&mut seat) {
                return refuse(self, refusals::SLOW).await;
            }
            if self.stream.queued_bytes() > 0 {
                self.stream.flush().await?;
                self.said_at = Instant::now();
                continue;
            }
            match self.wait(&mut seat, gate).await? {
                Wake::Input(0) => return Ok(()),
                Wake::Input(_) => self.heard_at = Instant::now(),
                Wake::News => {}
                Wake::Stops => return refuse(self, refusals::STOPPING).await,
                Wake::Expired => return refuse(self, refusals::EXPIRED).await,
                Wake::Time if self.is_silent() => return refuse(self, refusals::SILENT).await,
                Wake::Time => self.beat(),
            }
        }
    }

    async fn wait(&mut self, seat: &mut Seat, gate: &Gate) -> Result<Wake> {
        let due = self.due();
        Ok(tokio::select! {
            biased;
            () = gate.draining() => Wake::Stops,
            () = self.term.end() => Wake::Expired,
            read = self.stream.read_some(FAR) => match read? {
                Some(batch) => {
                    batch.append_to(&mut self.input);
                    Wake::Input(batch.len())
                }
                None => Wake::Input(0),
            },
            () = seat.changed() => Wake::News,
            () = sleep_until(due) => Wake::Time,
        })
    }

    /// Answers that a client causes without reading them do not pile up.
    async fn make_room(&mut self) -> Result<()> {
        if self.stream.queued_bytes() < SUBSCRIBER_OUTPUT_BYTES_MAX {
            return Ok(());
        }
        self.said_at = Instant::now();
        self.stream.flush().await
    }

    /// The next whole frame of the client. A malformed one ends the session.
    fn next_frame(&mut self) -> Option<Frame> {
        while self.session != Session::Ended {
            match decode(&self.input, self.session.version()) {
                Ok(Decoded::Partial) if self.input.len() <= SUBSCRIBER_INPUT_BYTES_MAX => return None,
                Ok(Decoded::Partial) => self.end("the frame is too long"),
                Ok(Decoded::Beat(count)) => drop(self.input.drain(..count)),
                Ok(Decoded::Frame(frame, count)) => {
                    self.input.drain(..count);
                    return Some(frame);
                }
                Err(malformed) => self.end(malformed.0),
            }
        }
        None
    }

    fn end(&mut self, words: &str) {
        let error = self.session.refuse(words, None);
        self.answer(&error);
    }

    fn take(&mut self, frame: &Frame, rules: &Topical) {
        for answer in self.session.take(frame, rules) {
            self.answer(&answer);
        }
    }

    fn answer(&mut self, frame: &Frame) {
        let version = self.session.version();
        self.stream.queue_with(|out| frame.encode(version, out));
    }

    fn is_subscribed(&self) -> bool {
        matches!(&self.session, Session::Open { subscriptions, .. } if !subscriptions.is_empty())
    }

    /// Queues messages as long as there is room; `false`: the client has lost some.
    fn gather(&mut self, seat: &mut Seat) -> bool {
        if !self.is_subscribed() {
            seat.skip();
            return true;
        }
        while self.stream.queued_bytes() < SUBSCRIBER_OUTPUT_BYTES_MAX {
            match seat.next() {
                Next::Message(message) => self.deliver(&message),
                Next::Nothing => return true,
                Next::Behind => return false,
            }
        }
        true
    }

    /// A message for each of its subscriptions, with the headers that ActiveMQ gives.
    fn deliver(&mut self, message: &Message) {
        let destination = format!("{TOPIC}{}", message.kind.topic());
        let now_ms = now_ms();
        let version = self.session.version();
        for subscription in self.session.subscribed(&destination) {
            self.count += 1;
            let mut frame = Frame::new(Command::Message)
                .with("subscription", &subscription.id)
                .with("destination", &destination)
                .with("message-id", format!("{}-{}", message.sequence, message.kind.topic()))
                .with("timestamp", now_ms.to_string())
                .with("expires", (now_ms + MESSAGE_LIFE_MS).to_string())
                .with("priority", "4")
                .with("vo", &message.vo);
            if subscription.acknowledges {
                frame = frame.with("ack", self.count.to_string());
            }
            let frame = frame.with_body(message.body.as_bytes());
            self.stream.queue_with(|out| frame.encode(version, out));
        }
    }

    /// When something is to be done even if nothing happens.
    fn due(&self) -> Instant {
        let beats = self.session.beats();
        let sends = beats.sends.map(|beat| self.said_at + beat);
        let silent = beats.wants.map(|beat| self.heard_at + patience(beat));
        let far = Instant::now() + FAR;
        sends.into_iter().chain(silent).min().unwrap_or(far)
    }

    fn is_silent(&self) -> bool {
        let wants = self.session.beats().wants;
        wants.is_some_and(|beat| self.heard_at.elapsed() >= patience(beat))
    }

    fn beat(&mut self) {
        let sends = self.session.beats().sends;
        if sends.is_some_and(|beat| self.said_at.elapsed() >= beat) {
            self.stream.queue(b"\n");
        }
    }

    /// The last words, if the client takes them in time.
    async fn finish(mut self) -> Result<()> {
        let said = async {
            self.stream.flush().await?;
            // What arrives now would reset the connection, and take the last words with it.
            self.stream.close_lingering(LAST_WORDS_BYTES_MAX).await;
            Ok(())
        };
        timeout(SUBSCRIBER_LAST_WORDS_TIMEOUT, said).await.unwrap_or(Ok(()))
    }
}

/// Clients are late on a busy machine: they get twice the time.
fn patience(beat: Duration) -> Duration {
    beat * 2
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}
