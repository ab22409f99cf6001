//! All sessions of the door, and how their further connections are bound to them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::XROOT_BOUND_QUEUE_MAX;
use net::Frames;
use net::random::random;
use tokio::sync::{mpsc, oneshot};
use types::{Error, ErrorCode, Phase, Side};
use xroot_wire::limits::BOUND_STREAMS_MAX;
use xroot_wire::{ErrorNumber, SessionId};

use crate::failure::Failure;
use crate::send::Task;

/// The sessions, by their ids. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions(Arc<Mutex<HashMap<SessionId, Arc<Entry>>>>);

/// What other connections see of a session.
#[derive(Debug)]
struct Entry {
    client: IpAddr,
    streams: Mutex<Streams>,
}

/// The further streams of a session; the first has number 1.
type Streams = [Option<mpsc::Sender<Errand>>; BOUND_STREAMS_MAX as usize];

/// Connections can be bound to the session until this is dropped; its streams end then.
#[derive(Debug)]
pub(crate) struct Registration {
    id: SessionId,
    entry: Arc<Entry>,
    sessions: Sessions,
}

/// A connection's place among the streams of a session.
#[derive(Debug)]
pub(crate) struct Binding {
    /// The number of the stream, which the client uses.
    pub(crate) path: u8,
    pub(crate) errands: mpsc::Receiver<Errand>,
    entry: Arc<Entry>,
}

/// What a session asks of a further connection.
pub(crate) enum Errand {
    /// Send a range of a file.
    Send(Task),
    /// Lend the connection.
    Lend(oneshot::Sender<Loan>),
}

/// A further connection on loan to the session's task. Dropping it ends the connection.
pub(crate) struct Loan {
    pub(crate) frames: Frames,
    pub(crate) back: oneshot::Sender<Frames>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    /// Registers a session of the client at this address under an unguessable id.
    pub(crate) fn register(&self, client: IpAddr) -> Registration {
        let entry = Arc::new(Entry {
            client,
            streams: Mutex::default(),
        });
        let id = SessionId::own(random());
        lock(&self.0).insert(id, entry.clone());
        Registration {
            id,
            entry,
            sessions: self.clone(),
        }
    }

    /// Whether the session belongs to this client; `None` if there is no such session.
    pub(crate) fn belongs_to(&self, id: &SessionId, client: IpAddr) -> Option<bool> {
        lock(&self.0).get(id).map(|entry| entry.client == client)
    }

    /// Binds a connection of the client at this address to a session.
    pub(crate) fn bind(&self, id: &SessionId, client: IpAddr) -> Result<Binding, Failure> {
        let refused = |code, why: &str| Error::new(code, Side::Client, Phase::Open).with_detail(why);
        let entry = lock(&self.0).get(id).cloned();
        let entry = entry.ok_or_else(|| refused(ErrorCode::NotFound, "there is no such session"))?;
        if entry.client != client {
            return Err(refused(ErrorCode::Forbidden, "the session is that of another host").into());
        }
        let mut streams = lock(&entry.streams);
        let free = streams
            .iter_mut()
            .enumerate()
            .find(|(_, stream)| is_free(stream.as_ref()));
        let Some((index, place)) = free else {
            let full = refused(
                ErrorCode::Overloaded,
                "the session has all the streams that it may have",
            );
            return Err(Failure::from(full).numbered(ErrorNumber::NO_MEMORY));
        };
        let (sender, errands) = mpsc::channel(XROOT_BOUND_QUEUE_MAX);
        *place = Some(sender);
        drop(streams);
        Ok(Binding {
            // The number of streams is small.
            path: index as u8 + 1,
            errands,
            entry,
        })
    }
}

fn is_free(stream: Option<&mpsc::Sender<Errand>>) -> bool {
    stream.is_none_or(mpsc::Sender::is_closed)
}

impl Registration {
    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    /// The queue of a further stream.
    pub(crate) fn stream(&self, path: u8) -> Option<mpsc::Sender<Errand>> {
        let index = usize::from(path).checked_sub(1)?;
        let stream = lock(&self.entry.streams).get(index)?.clone();
        stream.filter(|sender| !sender.is_closed())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&self.sessions.0).remove(&self.id);
        // A stream without a queue ends.
        *lock(&self.entry.streams) = Streams::default();
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        self.errands.close();
        if let Some(place) = lock(&self.entry.streams).get_mut(usize::from(self.path) - 1)
            && place.as_ref().is_some_and(mpsc::Sender::is_closed)
        {
            *place = None;
        }
    }
}

/// The session has no stream of the number that the client used.
pub(crate) fn no_such_stream() -> Failure {
    bad_stream("the session has no stream of this number")
}

pub(crate) fn stream_ended() -> Failure {
    bad_stream("the stream of the data ended before they had come")
}

fn bad_stream(why: &str) -> Failure {
    let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Transfer);
    error.with_detail(why).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn number(result: Result<Binding, Failure>) -> ErrorNumber {
        result.unwrap_err().number
    }

    #[test]
    fn only_the_same_host_can_be_bound_to_a_session_that_is_there() {
        let sessions = Sessions::default();
        let session = sessions.register(HERE);
        assert_eq!(number(sessions.bind(&SessionId([7; 16]), HERE)), ErrorNumber::NOT_FOUND);
        assert_eq!(number(sessions.bind(&session.id(), THERE)), ErrorNumber::NOT_AUTHORIZED);
        let stream = sessions.bind(&session.id(), HERE).unwrap();
        assert_eq!(stream.path, 1);
        assert!(session.stream(1).is_some() && session.stream(2).is_none() && session.stream(0).is_none());
        let id = session.id();
        drop(session);
        assert_eq!(number(sessions.bind(&id, HERE)), ErrorNumber::NOT_FOUND);
    }

    #[test]
    fn streams_are_limited_and_their_places_are_used_again() {
        let sessions = Sessions::default();
        let session = sessions.register(HERE);
        let mut streams: Vec<_> = (0..BOUND_STREAMS_MAX)
            .map(|_| sessions.bind(&session.id(), HERE).unwrap())
            .collect();
        assert_eq!(number(sessions.bind(&session.id(), HERE)), ErrorNumber::NO_MEMORY);
        streams.remove(4);
        assert_eq!(sessions.bind(&session.id(), HERE).unwrap().path, 5);
    }

    #[tokio::test]
    async fn streams_end_with_their_session() {
        let sessions = Sessions::default();
        let session = sessions.register(HERE);
        let mut stream = sessions.bind(&session.id(), HERE).unwrap();
        drop(session);
        assert!(stream.errands.recv().await.is_none());
    }
}
