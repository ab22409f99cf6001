//! Client session cache: TLS sessions that we may resume, in memory.
//!
//! A ticket is for one connection only (RFC 8446 Appendix C.4), and most servers give one or two
//! for each. The store that comes with rustls keeps eight of a server, so of a hundred copies that
//! begin at once, from the same source, all but eight would begin with a full handshake, however
//! many connections there were before. Here as many are kept as there may be copies. The memory is
//! bounded: of a server's tickets the oldest make room, and of all servers the one that nothing has
//! come from for the longest time.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::{TLS_SERVER_TICKETS_MAX, TLS_TICKET_SERVERS_MAX};
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls_pki_types::ServerName;

/// What is known of one server.
#[derive(Default)]
struct Server {
    group: Option<NamedGroup>,
    session: Option<Tls12ClientSessionValue>,
    /// The oldest first.
    tickets: VecDeque<Tls13ClientSessionValue>,
    /// When something came from it last, in changes of the table.
    changed: u64,
}

#[derive(Default)]
struct Table {
    servers: HashMap<ServerName<'static>, Server>,
    changes: u64,
}

impl Table {
    /// The entry to be changed, which is made if need be.
    fn server(&mut self, name: ServerName<'static>) -> &mut Server {
        self.changes += 1;
        if self.servers.len() >= TLS_TICKET_SERVERS_MAX && !self.servers.contains_key(&name) {
            let oldest = self.servers.iter().min_by_key(|(_, server)| server.changed);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.servers.remove(&oldest);
            }
        }
        let server = self.servers.entry(name).or_default();
        server.changed = self.changes;
        server
    }
}

/// Client session cache, one per identity.
pub(super) fn own_sessions() -> Resumption {
    Resumption::store(Arc::new(Tickets::default()))
}

/// The tickets that one identity of ours has from all servers.
#[derive(Default)]
struct Tickets(Mutex<Table>);

impl Tickets {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tickets")
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.table().server(name).group = Some(group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.table().servers.get(name).and_then(|server| server.group)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.table().server(name).session = Some(session);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.table().servers.get(name).and_then(|server| server.session.clone())
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        if let Some(server) = self.table().servers.get_mut(name) {
            server.session = None;
        }
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut table = self.table();
        let tickets = &mut table.server(name).tickets;
        if tickets.len() >= TLS_SERVER_TICKETS_MAX {
            tickets.pop_front();
        }
        tickets.push_back(ticket);
    }

    /// The latest, which will live the longest.
    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.table().servers.get_mut(name)?.tickets.pop_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> ServerName<'static> {
        ServerName::try_from(format!("host{number}.example.org")).expect("a name")
    }

    #[test]
    fn the_server_that_was_silent_for_the_longest_time_makes_room() {
        let tickets = Tickets::default();
        for number in 0..TLS_TICKET_SERVERS_MAX {
            tickets.set_kx_hint(name(number), NamedGroup::X25519);
        }
        tickets.set_kx_hint(name(0), NamedGroup::secp256r1);
        tickets.set_kx_hint(name(TLS_TICKET_SERVERS_MAX), NamedGroup::X25519);
        assert_eq!(tickets.kx_hint(&name(0)), Some(NamedGroup::secp256r1));
        assert_eq!(tickets.kx_hint(&name(1)), None);
        assert_eq!(tickets.kx_hint(&name(TLS_TICKET_SERVERS_MAX)), Some(NamedGroup::X25519));
        assert_eq!(tickets.table().servers.len(), TLS_TICKET_SERVERS_MAX);
    }
}
