//! One request and its answer: connecting, sending, following redirects, and a second attempt when
//! a pooled connection is dead.

use std::iter;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::limits::{
    ACCEPTED_POLL_PERIOD, ACCEPTED_POLLS_MAX, CONTINUE_WAIT, INTERIM_ANSWERS_MAX, KEPT_ANSWER_WAIT, RETRY_AFTER_MIN,
    RETRY_AFTER_TIME,
};
use http_wire::{HeadLimits, Method, RequestBuilder, ResponseHead, shown_request};
use net::Stream;
use net::Waits;
use net::dial::dial_timed;
use net::http::Connection;
use types::limits::REDIRECTS_MAX;
use types::{Error, ErrorCode, Phase, Result, Scheme};

use super::answer::Answer;
use super::client::Client;
use super::pool::{Origin, Pool, is_good};
use crate::client::PinnedHost;
use crate::effect::Effect;
use crate::resource::Resource;

/// A connection in use.
pub(crate) struct Live {
    pub(crate) connection: Connection,
    origin: Origin,
    pool: Arc<Pool>,
}

impl Live {
    /// Returns the connection to the pool. The caller knows that its last message is complete.
    pub(crate) fn keep(self) {
        if !self.connection.has_leftover() {
            self.pool.put(self.origin, self.connection);
        }
    }

    /// The next answer that is not interim (1xx), within `wait`.
    pub(crate) async fn final_head(&mut self, wait: Duration, stall: Duration) -> Result<ResponseHead> {
        self.connection.stream.set_stall(wait.max(stall));
        for _ in 0..INTERIM_ANSWERS_MAX {
            let head = self.connection.response(&HeadLimits::default(), wait).await?;
            if !head.is_interim() {
                self.connection.stream.set_stall(stall);
                return Ok(head);
            }
        }
        let side = self.connection.stream.role().side();
        Err(Error::new(ErrorCode::PeerMisbehaved, side, Phase::Open).with_detail("too many interim answers"))
    }
}

/// One station of a request that follows redirects.
pub(crate) struct Hop<'a> {
    pub(crate) file: &'a Resource,
    /// A redirect led from TLS to clear text: no credential may be sent from here on.
    pub(crate) left_tls: bool,
}

/// What follows the head of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    /// Nothing.
    Nothing,
    /// A few bytes, sent at once.
    Small(&'a [u8]),
    /// Payload, once the server asks for it.
    WhenAsked,
    /// Payload, at once.
    AtOnce,
}

/// A request, without the place where it goes.
pub(crate) struct Ask<'a> {
    pub(crate) method: Method,
    /// Adds the headers of this request for one hop.
    pub(crate) headers: &'a (dyn Fn(RequestBuilder, &Hop<'_>) -> RequestBuilder + Send + Sync),
    pub(crate) body: Body<'a>,
}

impl Ask<'_> {
    /// What the request does. DELETE and MOVE are idempotent, but a second run does not find the
    /// file and is refused. A COPY that is sent twice may run twice at the same time.
    fn effect(&self) -> Effect {
        match self.method {
            Method::Get | Method::Head | Method::Options | Method::Propfind => Effect::Repeatable,
            // The payload was not sent, so nothing can have been stored.
            Method::Put if matches!(self.body, Body::WhenAsked | Body::AtOnce) => Effect::Repeatable,
            // An empty file, or a credential that was not received.
            Method::Put | Method::Post => Effect::Once,
            _ => Effect::Lasting,
        }
    }

    /// Whether the request may change what a server stores.
    fn changes(&self) -> bool {
        let reads = [Method::Get, Method::Head, Method::Options, Method::Propfind];
        !reads.contains(&self.method)
    }

    /// Whether the request destroys what stands under the name: a redirect to another file would
    /// destroy that one.
    fn destroys(&self) -> bool {
        matches!(self.method, Method::Delete | Method::Move)
    }

    /// The phase in which the request is lost.
    fn phase(&self) -> Phase {
        match self.method {
            // Some servers begin at once and answer with the first marker.
            Method::Copy => Phase::Transfer,
            _ => Phase::Open,
        }
    }
}

/// The result of a request.
pub(crate) enum Reply {
    /// The final answer.
    Answered(Box<Answer>),
    /// The server waits for the body, at the place after all redirects.
    Continue(Box<Live>, Box<Resource>),
}

impl Reply {
    /// The answer to a request without payload.
    fn answered(self) -> Result<Answer> {
        match self {
            Self::Answered(answer) => Ok(*answer),
            Self::Continue(_, file) => Err(file.error(ErrorCode::Internal, Phase::Open)),
        }
    }
}

/// Why an attempt on one connection failed.
struct Broken {
    error: Error,
    /// The connection ended before a whole head had come.
    is_cut: bool,
    /// The server took too long to answer.
    is_silent: bool,
}

/// How long a server has put one request off.
#[derive(Default)]
struct Delay(Duration);

impl Delay {
    /// The pause that an answer asks for; `None` without one, for too long a pause, and if the
    /// caller waits itself.
    fn asked_by(&mut self, answer: &Answer) -> Option<Duration> {
        let wait = answer.delay()?;
        if answer.file.access.returns_delays || self.0.saturating_add(wait) > RETRY_AFTER_TIME {
            return None;
        }
        // Also after `Retry-After: 0` we pause.
        let pause = wait.max(RETRY_AFTER_MIN);
        self.0 += pause;
        Some(pause)
    }
}

impl Client {
    /// Sends a request without payload, follows its redirects, and returns the final answer.
    ///
    /// # Errors
    /// No connection, no answer, an answer that cannot be understood, or too many redirects.
    pub(crate) async fn ask(&self, file: &Resource, ask: &Ask<'_>) -> Result<Answer> {
        self.begin(file, ask).await?.answered()
    }

    /// As [`Client::ask`], at this place only: an answer that redirects is the final one.
    pub(crate) async fn ask_here(&self, file: &Resource, ask: &Ask<'_>) -> Result<Answer> {
        let hop = Hop { file, left_tls: false };
        let spoken = self.speak_to(&hop, ask).await;
        spoken.map_err(|error| file.blame(error))?.answered()
    }

    /// As [`Client::ask`]; asks again when the server puts the request off, as
    /// [`Client::begin_patiently`].
    pub(crate) async fn ask_until_taken(&self, file: &Resource, ask: &Ask<'_>) -> Result<Answer> {
        self.begin_patiently(file, ask).await?.answered()
    }

    /// As [`Client::ask`]; asks again while the server is still computing (202), as DPM does for
    /// checksums, and when it puts the request off, as [`Client::begin_patiently`].
    pub(crate) async fn ask_patiently(&self, file: &Resource, ask: &Ask<'_>) -> Result<Answer> {
        let (mut polls, mut delay) = (0, Delay::default());
        loop {
            let answer = self.ask(file, ask).await?;
            let pause = match answer.head.status {
                202 if polls == ACCEPTED_POLLS_MAX => break,
                202 => {
                    polls += 1;
                    let wait = answer.head.retry_after().map(Duration::from_secs);
                    wait.unwrap_or(ACCEPTED_POLL_PERIOD).min(ACCEPTED_POLL_PERIOD)
                }
                _ => match delay.asked_by(&answer) {
                    Some(pause) => pause,
                    None => return Ok(answer),
                },
            };
            answer.finish().await;
            tokio::time::sleep(pause).await;
        }
        let error = file.error(ErrorCode::PeerStalled, Phase::Checksum);
        Err(error.with_detail("the peer is still computing the checksum"))
    }

    /// As [`Client::begin`]; retries within [`RETRY_AFTER_TIME`] when the server asks for that (429
    /// and 503 with Retry-After). No byte of a body has been sent then.
    pub(crate) async fn begin_patiently(&self, file: &Resource, ask: &Ask<'_>) -> Result<Reply> {
        let mut delay = Delay::default();
        loop {
            let reply = self.begin(file, ask).await?;
            let Reply::Answered(answer) = reply else {
                return Ok(reply);
            };
            let Some(pause) = delay.asked_by(&answer) else {
                return Ok(Reply::Answered(answer));
            };
            answer.finish().await;
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends a request and follows its redirects until there is a final answer, or the server waits
    /// for the body.
    pub(crate) async fn begin(&self, file: &Resource, ask: &Ask<'_>) -> Result<Reply> {
        let mut at = file.clone();
        let mut left_tls = false;
        for _ in 0..=REDIRECTS_MAX {
            self.refuse_cut_name(&at).await?;
            let hop = Hop { file: &at, left_tls };
            let answer = match self.speak_to(&hop, ask).await.map_err(|error| at.blame(error))? {
                Reply::Answered(answer) => answer,
                waiting => return Ok(waiting),
            };
            let may_follow = at.access.signed_for.is_none();
            let Some(reference) = redirect_of(&answer.head, &ask.method).filter(|_| may_follow) else {
                return Ok(Reply::Answered(answer));
            };
            let next = at.redirected(reference, ask.changes())?;
            if ask.destroys() && !is_same_file(file, &next) {
                let error = at.error(ErrorCode::PeerMisbehaved, Phase::Open);
                return Err(error.with_detail(format!("the redirect leads to another file, {}", next.location)));
            }
            let service = answer.head.delegate_to().next().map(str::to_owned);
            left_tls |= at.downgrades_to(&next);
            answer.finish().await;
            if let Some(service) = service.filter(|_| ask.method == Method::Copy && at.access.delegates()) {
                Box::pin(self.delegate(&at, &service)).await?;
            }
            at = next;
        }
        let error = file.error(ErrorCode::TooManyRedirects, Phase::Open);
        Err(error.with_detail(format!("{REDIRECTS_MAX} are followed")))
    }

    async fn speak_to(&self, hop: &Hop<'_>, ask: &Ask<'_>) -> Result<Reply> {
        let (origin, effect) = (Origin::of(hop.file), ask.effect());
        let failed = |broken: Broken| effect.unanswered(hop.file, ask.phase(), broken.error);
        let first_byte = self.options.first_byte;
        if let Some(connection) = self.pool.take(&origin, effect.idle_max(), is_good) {
            let kept = self.live(connection, &origin);
            if effect != Effect::Repeatable {
                return self.speak(kept, hop, ask, first_byte).await.map_err(failed);
            }
            match self.speak(kept, hop, ask, first_byte.min(KEPT_ANSWER_WAIT)).await {
                // The server closed the idle connection just as we used it (RFC 9112 §9.3.1), it
                // does not read from it any more, or something between cut it. Part of an answer
                // changes nothing: it is repeatable.
                Err(broken) if broken.is_cut || broken.is_silent => {}
                other => return other.map_err(failed),
            }
        }
        let activity = &hop.file.access.activity;
        let connection = activity.connecting(self.connect(hop.file)).await?;
        let spoken = self.speak(self.live(connection, &origin), hop, ask, first_byte).await;
        spoken.map_err(failed)
    }

    fn live(&self, connection: Connection, origin: &Origin) -> Live {
        Live {
            connection,
            origin: origin.clone(),
            pool: Arc::clone(&self.pool),
        }
    }

    async fn connect(&self, file: &Resource) -> Result<Connection> {
        let options = &self.options;
        let (host, port) = (file.location.host(), file.location.port());
        let dialled = PinnedHost::dialled(self.pin.as_ref(), host);
        let addresses = file.addresses(options).await;
        let (steps, begun) = (&file.access.steps, Instant::now());
        let labels = file.access.packet_labels();
        let reached = dial_timed(dialled, port, addresses, options.connect, file.side, &labels).await?;
        let (tcp, connected) = (reached.stream, Instant::now());
        steps.note("resolve", begun, reached.resolved);
        steps.note("connect", reached.resolved, connected);
        let waits = Waits {
            handshake: options.connect,
            stall: options.stall,
        };
        let stream = if file.location.scheme() == Scheme::Https {
            let tls = options.tls.showing(file.access.identity.as_ref());
            let stream = Stream::connect_tls(tcp, &tls, host, file.side, waits).await?;
            steps.note("tls", connected, Instant::now());
            stream
        } else {
            Stream::clear(tcp, net::Role::Peer(file.side), waits)
        };
        Ok(Connection::new(stream))
    }

    /// Sends the request on one connection, and waits so long for the first byte of its answer.
    async fn speak(&self, mut live: Live, hop: &Hop<'_>, ask: &Ask<'_>, first_byte: Duration) -> Result<Reply, Broken> {
        let request = self.request(hop, ask);
        hop.file.access.trace.tell(|| {
            let first = format!("> {} {}", ask.method.name(), hop.file.location);
            let fields = shown_request(&request).into_iter().map(|line| format!("> {line}"));
            iter::once(first).chain(fields).collect()
        });
        live.connection.stream.queue(&request);
        if let Body::Small(bytes) = ask.body {
            live.connection.stream.queue(bytes);
        }
        let sent = live.connection.stream.flush().await;
        let heard = match sent {
            Err(error) => Err(error),
            Ok(()) if ask.body == Body::AtOnce => {
                return Ok(Reply::Continue(Box::new(live), Box::new(hop.file.clone())));
            }
            Ok(()) if ask.body == Body::WhenAsked => self.invitation(&mut live).await,
            Ok(()) => live.final_head(first_byte, self.options.stall).await.map(Some),
        };
        match heard {
            Ok(None) => Ok(Reply::Continue(Box::new(live), Box::new(hop.file.clone()))),
            Ok(Some(head)) => Answer::new(live, hop.file.clone(), head, &ask.method)
                .map(|answer| Reply::Answered(Box::new(answer)))
                .map_err(|error| Broken {
                    error,
                    is_cut: false,
                    is_silent: false,
                }),
            Err(error) => Err(Broken {
                is_cut: error.code() == ErrorCode::PeerClosed,
                is_silent: error.code() == ErrorCode::PeerStalled,
                error,
            }),
        }
    }

    fn request(&self, hop: &Hop<'_>, ask: &Ask<'_>) -> Vec<u8> {
        let request = RequestBuilder::new(&ask.method, &hop.file.location).user_agent(&self.options.user_agent);
        (ask.headers)(hop.file.apply(request), hop).finish()
    }

    /// Waits for `100 Continue`. `None` when the body may go, also when the server is silent
    /// because it does not know this (RFC 9110 §10.1.1); a head when the server has already
    /// decided.
    async fn invitation(&self, live: &mut Live) -> Result<Option<ResponseHead>> {
        let limits = HeadLimits::default();
        let deadline = tokio::time::Instant::now() + CONTINUE_WAIT;
        live.connection.stream.set_stall(CONTINUE_WAIT * 2);
        let outcome = loop {
            let response = live.connection.response(&limits, CONTINUE_WAIT * 2);
            match tokio::time::timeout_at(deadline, response).await {
                Err(_) => break None,
                Ok(head) => match head? {
                    head if head.status == 100 => break None,
                    head if head.is_interim() => {}
                    head => break Some(head),
                },
            }
        };
        live.connection.stream.set_stall(self.options.stall);
        Ok(outcome)
    }
}

/// Whether a redirect leads to the file that was asked for: a server may have it under any name of
/// its own, and another server under the same last component of the path. What a file of ours is
/// called has been checked.
fn is_same_file(file: &Resource, next: &Resource) -> bool {
    let (asked, led) = (&file.location, &next.location);
    file.access.own_name.is_some() || asked.same_origin(led) || asked.file_name() == led.file_name()
}

/// Where an answer redirects to. The method stays the same, as storage servers expect. COPY follows
/// any 3xx, as davix does.
fn redirect_of<'a>(head: &'a ResponseHead, method: &Method) -> Option<&'a str> {
    let follows = match head.status {
        301 | 302 | 303 | 307 | 308 => true,
        304 => false,
        300..400 => *method == Method::Copy,
        _ => false,
    };
    head.location().filter(|_| follows)
}
