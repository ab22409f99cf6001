//! One request about a name and its answer: finding or opening a session, following redirections,
//! waiting on demand, and a second attempt when a pooled session is dead.

use std::sync::Arc;
use std::time::Duration;

use net::tls::ClientIdentity;
use types::{Phase, Result, Secret};
use xroot_wire::{Opcode, StreamId};

use super::login::open;
use super::pool::{Origin, Pool};
use super::route::{Pair, Route};
use super::session::{Event, Reply, ServerSession};
use super::unclosed::LostWriters;
use super::verdict::{BROKEN, may_be_elsewhere, reason_to_go_back, refused};
use crate::client::{ClientOptions, PinnedHost};
use crate::delegate::now_s;
use crate::effect::Effect;
use crate::limits::ROOT_PATIENCE;
use crate::resource::Resource;

/// A client for any number of XRootD servers. Clones share their idle sessions.
#[derive(Clone)]
pub(crate) struct Client {
    pub(super) options: Arc<ClientOptions>,
    pool: Arc<Pool>,
    pub(super) lost_writers: Arc<LostWriters>,
    pin: Option<PinnedHost>,
}

/// The target of a request at one server of its route.
pub(super) struct RequestTarget<'a> {
    /// The path with its CGI.
    pub(super) path: &'a [u8],
    /// A redirector shall look the file up again, not in its cache.
    pub(super) refresh: bool,
    route: &'a Route,
    is_encrypted: bool,
}

impl RequestTarget<'_> {
    /// Another path of the same server, with the token where the connection is encrypted.
    pub(super) fn sibling(&self, path: &str) -> Secret {
        self.route.with_token(path, self.is_encrypted)
    }
}

/// Makes the bytes of a request with this id.
pub(super) type Encode<'a> = &'a (dyn Fn(&RequestTarget<'_>, StreamId, &mut Vec<u8>) + Send + Sync);

/// A request about a name, without the place where it goes.
pub(super) struct Ask<'a> {
    /// Makes the request.
    pub(super) encode: Encode<'a>,
    /// The CGI of this request alone.
    pub(super) own: &'a [Pair<'a>],
    /// Whether it may be sent again when a connection breaks before any answer.
    pub(super) effect: Effect,
    /// Whether it may change what a server stores.
    pub(super) changes: bool,
    /// The longest wait for the answer, when longer than usual.
    pub(super) patience: Option<Duration>,
}

impl<'a> Ask<'a> {
    /// A request that changes nothing, without CGI of its own.
    pub(super) fn looking(encode: Encode<'a>) -> Self {
        Self {
            encode,
            own: &[],
            effect: Effect::Repeatable,
            changes: false,
            patience: None,
        }
    }

    /// A request that may not be made twice. The server forgets it with the connection.
    pub(super) fn once(encode: Encode<'a>) -> Self {
        Self {
            effect: Effect::Once,
            changes: true,
            ..Self::looking(encode)
        }
    }

    /// A request that changes what the server stores, such as a rename.
    pub(super) fn changing(encode: Encode<'a>) -> Self {
        Self {
            effect: Effect::Lasting,
            changes: true,
            ..Self::looking(encode)
        }
    }
}

/// An answer that has begun. Its data may still be on the connection.
pub(super) struct Begun {
    pub(super) session: ServerSession,
    pub(super) id: StreamId,
    pub(super) first: Opening,
    /// The route to the server that answers.
    pub(super) route: Route,
}

/// How an answer begins.
pub(super) enum Opening {
    /// So many bytes follow on the connection; more parts behind them unless it is the last.
    Part { length: usize, last: bool },
    /// All of it, after `kXR_waitresp`.
    Whole(Vec<u8>),
}

/// A complete answer.
pub(super) struct Answered {
    pub(super) session: ServerSession,
    pub(super) body: Vec<u8>,
    pub(super) route: Route,
}

impl Client {
    /// A client without sessions.
    pub(crate) fn new(options: Arc<ClientOptions>) -> Self {
        Self {
            options,
            pool: Arc::new(Pool::default()),
            lost_writers: Arc::default(),
            pin: None,
        }
    }

    /// A client that reaches a host at one address.
    pub(crate) fn pinned(options: Arc<ClientOptions>, pin: PinnedHost) -> Self {
        Self {
            pin: Some(pin),
            ..Self::new(options)
        }
    }

    /// Sends a request and gathers its answer.
    ///
    /// # Errors
    /// The server's refusal, no connection, or an answer that cannot be understood.
    pub(super) async fn ask(&self, file: &Resource, ask: &Ask<'_>) -> Result<Answered> {
        self.ask_on(Route::new(file), ask).await
    }

    /// As [`Client::ask`], beginning where an earlier request about the same file ended.
    pub(super) async fn ask_on(&self, route: Route, ask: &Ask<'_>) -> Result<Answered> {
        let Begun {
            mut session,
            id,
            first,
            route,
        } = self.begin_on(route, ask).await?;
        let body = match first {
            Opening::Whole(body) => Ok(body),
            Opening::Part { length, last } => session.gather(id, length, last).await,
        };
        let body = body.map_err(|error| route.at.blame(error))?;
        Ok(Answered { session, body, route })
    }

    /// As [`Client::ask`] when only the answer's text matters; the session returns to the pool.
    pub(super) async fn ask_text(&self, file: &Resource, ask: &Ask<'_>) -> Result<Vec<u8>> {
        let answered = self.ask(file, ask).await?;
        self.keep(&answered.route, answered.session);
        Ok(answered.body)
    }

    /// Sends a request and follows it until its answer begins.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub(super) async fn begin(&self, file: &Resource, ask: &Ask<'_>) -> Result<Begun> {
        self.begin_on(Route::new(file), ask).await
    }

    async fn begin_on(&self, mut route: Route, ask: &Ask<'_>) -> Result<Begun> {
        let mut held = None;
        let is_repeatable = ask.effect == Effect::Repeatable;
        loop {
            let mut session = match held.take() {
                Some(session) => session,
                None => match self.session_within(&route, ask.effect.idle_max()).await {
                    Ok(session) => session,
                    Err(error) if may_be_elsewhere(&error) && route.go_back(BROKEN) => continue,
                    Err(error) => return Err(route.at.blame(error)),
                },
            };
            let (id, heard) = match self.speak(&mut session, &route, ask).await {
                Ok(heard) => heard,
                Err(_) if session.is_reused && session.is_unanswered() && is_repeatable => continue,
                Err(error) if is_repeatable && may_be_elsewhere(&error) && route.go_back(BROKEN) => continue,
                Err(error) => {
                    let error = ask.effect.unanswered(&route.at, Phase::Open, error);
                    return Err(route.at.blame(error));
                }
            };
            let first = match heard {
                Event::Body { length, last, .. } => Opening::Part { length, last },
                Event::Reply(_, Reply::Done(body)) => Opening::Whole(body),
                Event::Reply(_, Reply::Wait(pause)) => {
                    route.wait(pause, self.put_off_max(ask)).await?;
                    held = Some(session);
                    continue;
                }
                Event::Reply(_, Reply::Redirect(redirect)) => {
                    let from_redirector = session.is_redirector();
                    self.keep(&route, session);
                    route.follow(&redirect, from_redirector, ask.changes)?;
                    continue;
                }
                Event::Reply(_, Reply::Refused(refusal)) => {
                    let is_encrypted = session.is_encrypted();
                    self.keep(&route, session);
                    if reason_to_go_back(refusal.number).is_some_and(|reason| route.go_back(reason)) {
                        continue;
                    }
                    return Err(refused(&route.at, &refusal, is_encrypted));
                }
                Event::Pages(..) | Event::Reply(_, Reply::More) => {
                    return Err(route
                        .at
                        .blame(session.misbehaved("this is no answer to such a request")));
                }
            };
            return Ok(Begun {
                session,
                id,
                first,
                route,
            });
        }
    }

    async fn speak(&self, session: &mut ServerSession, route: &Route, ask: &Ask<'_>) -> Result<(StreamId, Event)> {
        let path = route.target(ask.own, session.is_encrypted())?;
        let target = RequestTarget {
            path: path.expose().as_bytes(),
            refresh: route.refresh,
            route,
            is_encrypted: session.is_encrypted(),
        };
        let trace = &route.at.access.trace;
        let id = session.queue_with(|id, out| {
            (ask.encode)(&target, id, out);
            trace.tell(|| vec![format!("> {} {}", request_name(out), route.at.location)]);
        });
        session.frames.stream.flush().await?;
        session.set_patience(ask.patience.unwrap_or(self.options.first_byte));
        session.limit_promises(route.patience(self.put_off_max(ask)));
        let event = session.event_of(id).await?;
        trace.tell(|| vec![format!("< {}", answer_name(&event))]);
        Ok((id, event))
    }

    /// How long a server may put this request off while a client waits.
    fn put_off_max(&self, ask: &Ask<'_>) -> Duration {
        ask.patience.map_or(self.options.first_byte, |_| ROOT_PATIENCE)
    }

    /// A session with the server at the end of the route.
    pub(super) async fn session(&self, route: &Route) -> Result<ServerSession> {
        self.session_within(route, Effect::Repeatable.idle_max()).await
    }

    /// The same; one from the pool was used within `idle_max`.
    async fn session_within(&self, route: &Route, idle_max: Duration) -> Result<ServerSession> {
        let origin = Origin::of(&route.at, route.ticket.as_ref());
        let identity = route.at.access.identity.as_ref();
        let own_s = identity.map_or(i64::MAX, ClientIdentity::expires_s);
        let now_s = now_s();
        let is_good = |session: &mut ServerSession| session.delegated.lasts(own_s, now_s) && session.is_quiet();
        if let Some(mut session) = self.pool.take(&origin, idle_max, is_good) {
            session.is_reused = true;
            return Ok(session);
        }
        let opened = open(&self.options, self.pin.as_ref(), &route.at, route.ticket.as_ref());
        route.at.access.activity.connecting(opened).await
    }

    /// Returns a session to the pool, if it can be used again.
    pub(super) fn keep(&self, route: &Route, mut session: ServerSession) {
        if session.is_quiet() {
            self.pool.put(Origin::of(&route.at, route.ticket.as_ref()), session);
        }
    }
}

/// What an encoded request asks for. Its arguments may have credentials.
fn request_name(bytes: &[u8]) -> String {
    let number = bytes
        .get(2..4)
        .map_or(0, |number| u16::from_be_bytes([number[0], number[1]]));
    Opcode::from_number(number).map_or_else(|| number.to_string(), |opcode| format!("{opcode:?}"))
}

/// What kind of answer it is. Words of servers may quote credentials.
fn answer_name(event: &Event) -> String {
    match event {
        Event::Body { .. } | Event::Pages(..) | Event::Reply(_, Reply::Done(_) | Reply::More) => "ok".to_owned(),
        Event::Reply(_, Reply::Wait(pause)) => format!("wait {} s", pause.as_secs()),
        Event::Reply(_, Reply::Redirect(_)) => "redirect".to_owned(),
        Event::Reply(_, Reply::Refused(refusal)) => format!("error {}", refusal.number.0),
    }
}
