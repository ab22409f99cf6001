//! The port for subscribers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use endpoint::ClientId;
use http_server::Server;
use net::listen::{Acceptor, accept, opening};
use net::{Stream, Waits};
use stomp_wire::server::refusals;
use tokio::net::TcpStream;
use types::Result;

use super::admission::{Admission, Subscribers};
use super::connection::{Connection, refuse};
use super::topics::Topics;
use crate::limits::{
    ACCEPT_PAUSE, ADDRESS_SUBSCRIBERS_MAX, SUBSCRIBER_CONNECTIONS_MAX, SUBSCRIBER_LOGIN_TIMEOUT, SUBSCRIBER_STALL,
};

/// Serves subscribers. Clones are the same.
#[derive(Clone)]
pub struct Listener(Arc<Inner>);

struct Inner {
    /// Certificate, authenticator, shares, gate and log, as those of an HTTP door.
    server: Server,
    topics: Topics,
    subscribers: Arc<Subscribers>,
    open: Mutex<Open>,
}

/// Connections by client.
#[derive(Default)]
struct Open {
    all: usize,
    by_client: HashMap<ClientId, usize>,
}

impl Listener {
    /// A listener for the subscribers of these topics.
    #[must_use]
    pub fn new(server: Server, topics: Topics, subscribers: Subscribers) -> Self {
        Self(Arc::new(Inner {
            server,
            topics,
            subscribers: Arc::new(subscribers),
            open: Mutex::default(),
        }))
    }

    /// Accepts connections until the gate closes.
    pub async fn accept(&self, acceptor: Acceptor) {
        let gate = &self.0.server.gate;
        loop {
            let accepted = tokio::select! {
                () = gate.draining() => return,
                accepted = acceptor.accept() => accepted,
            };
            match accepted.and_then(|(tcp, peer)| Ok((TcpStream::from_std(tcp)?, peer))) {
                Ok((tcp, peer)) => self.take_in(tcp, peer),
                // A lack of descriptors passes only when others close.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    /// Closes all connections, and waits for them.
    pub async fn shut_down(&self, grace: std::time::Duration) {
        self.0.server.gate.shut_down(grace).await;
    }

    fn take_in(&self, tcp: TcpStream, peer: SocketAddr) {
        let client = ClientId::at(peer.ip());
        let share = self.0.server.fair_share.take_connection(&client);
        let place = Place::take(self, client);
        let (Ok(share), Some(place)) = (share, place) else {
            // Dropped without a word: a crowd gets no work out of us.
            return;
        };
        let this = self.clone();
        tokio::spawn(async move {
            let serving = this.serve(tcp, peer);
            if let Err(error) = this.0.server.gate.serve(Box::pin(serving)).await {
                this.0.server.log.connection_failed(peer, &error);
            }
            drop((share, place));
        });
    }

    async fn serve(&self, tcp: TcpStream, peer: SocketAddr) -> Result<()> {
        let server = &self.0.server;
        let waits = Waits {
            handshake: SUBSCRIBER_LOGIN_TIMEOUT,
            stall: SUBSCRIBER_STALL,
        };
        let hello = async {
            let opening = opening(&tcp, SUBSCRIBER_LOGIN_TIMEOUT).await?;
            Box::pin(accept(tcp, opening, server.tls.as_ref(), waits)).await
        };
        let stream = tokio::select! {
            () = server.gate.draining() => return Ok(()),
            stream = hello => stream?,
        };
        self.converse(stream, peer).await
    }

    async fn converse(&self, mut stream: Stream, peer: SocketAddr) -> Result<()> {
        let shown = stream.take_peer_certificates();
        let authenticator = self.0.server.authenticator.clone();
        let admission = Admission {
            subscribers: self.0.subscribers.clone(),
            holder: authenticator.certificates(shown.as_deref()),
            authenticator,
            is_encrypted: stream.is_encrypted(),
            peer: peer.ip(),
        };
        let gate = &self.0.server.gate;
        let Some(connection) = Connection::open(stream, &admission, gate).await? else {
            return Ok(());
        };
        match self.0.topics.seat().await {
            Some(seat) => connection.serve(seat, gate).await,
            None => refuse(connection, refusals::CROWDED).await,
        }
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Listener({:?})", self.0.topics)
    }
}

/// A connection, counted until it is dropped.
struct Place {
    listener: Listener,
    client: ClientId,
}

impl Place {
    /// `None` when there are too many, of all or of this client: an address, or for IPv6 a network.
    fn take(listener: &Listener, client: ClientId) -> Option<Self> {
        let mut open = listener.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        let of_client = open.by_client.get(&client).copied().unwrap_or(0);
        if open.all >= SUBSCRIBER_CONNECTIONS_MAX || of_client >= ADDRESS_SUBSCRIBERS_MAX {
            return None;
        }
        open.all += 1;
        open.by_client.insert(client.clone(), of_client + 1);
        Some(Self {
            listener: listener.clone(),
            client,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.listener.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.all -= 1;
        if let Some(count) = open.by_client.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                open.by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use catalog::Catalog;
    use endpoint::{RequestLog, RequestRecord};
    use queue::messages::{Feed, FeedSettings};

    use super::*;

    struct NoLog;

    impl RequestLog for NoLog {
        fn request(&self, _record: &RequestRecord) {}
    }

    #[tokio::test]
    async fn a_network_of_ipv6_is_one_client() {
        let directory = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
        let settings = FeedSettings {
            endpoint: "fts.example".to_owned(),
            retries: 3,
        };
        let topics = Topics::new(Feed::new(catalog, settings));
        let listener = Listener::new(Server::new("test", Arc::new(NoLog)), topics, Subscribers::default());
        let take = |address: &str| Place::take(&listener, ClientId::at(address.parse().unwrap()));
        let held: Vec<_> = (0..ADDRESS_SUBSCRIBERS_MAX)
            .map(|host| take(&format!("2001:db8::{host:x}")).unwrap())
            .collect();
        assert!(take("2001:db8::ffff").is_none());
        assert!(take("2001:db8:0:1::1").is_some());
        drop(held);
        assert!(take("2001:db8::ffff").is_some());
    }
}
