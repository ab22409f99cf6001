//! Listening sockets that the service manager has opened (`sd_listen_fds(3)`), such as those of a
//! socket unit of systemd. They stay open while the server restarts, so that clients wait instead
//! of being refused.
//!
//! A socket is used for the key that names its address.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

use listenfd::ListenFd;

use crate::failure::Failure;

/// Names of the sockets, separated by colons.
const NAMES: &str = "LISTEN_FDNAMES";
/// The manager's name for a socket whose unit gives it none.
const UNNAMED: &str = "unknown";

/// The inherited sockets that no key has taken yet.
pub(crate) struct Sockets(Mutex<Vec<Inherited>>);

struct Inherited {
    listener: TcpListener,
    address: SocketAddr,
    /// `FileDescriptorName=` of its unit.
    name: String,
}

impl Sockets {
    /// Takes those of this process out of the environment, which no other thread may use meanwhile.
    ///
    /// # Errors
    /// Something else than a listening TCP socket.
    pub(crate) fn inherited() -> Result<Self, Failure> {
        let names = std::env::var(NAMES).unwrap_or_default();
        let mut names = names.split(':');
        let mut passed = ListenFd::from_env();
        let mut all = Vec::new();
        for index in 0..passed.len() {
            let name = names.next().filter(|name| !name.is_empty()).unwrap_or(UNNAMED);
            let unusable = |words: &dyn std::fmt::Display| {
                let remedy = "use ListenStream= with an address or a port, and Accept=no";
                Failure::invalid(format!(
                    "the socket \"{name}\" of the service manager: {words}; {remedy}"
                ))
            };
            let taken = passed.take_tcp_listener(index);
            let Some(listener) = taken.map_err(|cause| unusable(&cause))? else {
                continue;
            };
            let is_listening = rustix::net::sockopt::socket_acceptconn(&listener);
            if !is_listening.map_err(|cause| unusable(&cause))? {
                return Err(unusable(&"it is a connection, and does not listen"));
            }
            net::listen::take_over(&listener).map_err(|cause| unusable(&cause))?;
            all.push(Inherited {
                address: listener.local_addr().map_err(|cause| unusable(&cause))?,
                name: name.to_owned(),
                listener,
            });
        }
        Ok(Self(Mutex::new(all)))
    }

    /// The inherited socket with this address.
    pub(crate) fn take(&self, address: SocketAddr) -> Option<TcpListener> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = all.iter().position(|socket| socket.address == address)?;
        Some(all.swap_remove(index).listener)
    }

    /// The inherited socket with this address, or a new one.
    ///
    /// # Errors
    /// The address cannot be used.
    pub(crate) fn listen(&self, address: SocketAddr) -> Result<TcpListener, Failure> {
        self.take(address).map_or_else(|| super::super::bind(address), Ok)
    }

    /// Demands that each inherited socket is in use: clients would wait at it forever.
    ///
    /// # Errors
    /// The sockets that are left.
    pub(crate) fn demand_none_left(&self) -> Result<(), Failure> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left: Vec<String> = all
            .iter()
            .map(|socket| format!("{} (\"{}\")", socket.address, socket.name))
            .collect();
        match left.is_empty() {
            true => Ok(()),
            false => Err(Failure::invalid(format!(
                "the service manager has opened sockets that no key names: {}; write these addresses into the \
                 configuration as they are here (server.listen of an endpoint, queue.listen of a queue), or correct \
                 ListenStream= of the socket unit",
                left.join(", ")
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(name: &str) -> (Sockets, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inherited = Inherited {
            listener,
            address,
            name: name.to_owned(),
        };
        (Sockets(Mutex::new(vec![inherited])), address)
    }

    #[tokio::test]
    async fn a_socket_is_used_for_its_address_only() {
        let (sockets, address) = opened("door");
        let other = sockets.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        assert_ne!(other.local_addr().unwrap(), address);
        let left = sockets.demand_none_left().unwrap_err().words;
        assert!(left.contains(&format!("{address} (\"door\")")), "{left}");
        assert!(left.contains("server.listen"), "{left}");
        let taken = sockets.listen(address).unwrap();
        assert_eq!(taken.local_addr().unwrap(), address);
        assert!(sockets.demand_none_left().is_ok() && sockets.take(address).is_none());
    }
}
