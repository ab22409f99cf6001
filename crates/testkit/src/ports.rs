//! Free TCP ports for servers that cannot choose one themselves.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::{Error, Result};

/// Below Linux' range for outgoing connections (32768 and up), so that no client takes a port
/// between choice and use.
const PORTS: Range<u16> = 20_000..32_000;

/// A port without a listener now, on any address. Successive calls in a process give different
/// ports; processes start at different places. Another process may take it first: launchers then
/// try other ports.
///
/// # Errors
/// [`Error::Failed`] when all are taken.
pub fn free_port() -> Result<u16> {
    static OFFSET: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    let first = u16::try_from(std::process::id().wrapping_mul(89) % u32::from(span)).unwrap_or(0);
    for _ in 0..span {
        let offset = OFFSET.fetch_add(1, Ordering::Relaxed) % span;
        let port = PORTS.start + (first + offset) % span;
        if is_free(port) {
            return Ok(port);
        }
    }
    Err(Error::Failed("no free port".to_owned()))
}

/// How often a server is started. Another process may take a port between our choice and its use.
const START_ATTEMPTS: usize = 3;

/// Starts a server by `start`, which chooses its ports, and again when that fails.
///
/// # Errors
/// The last failure.
pub(crate) fn start_elsewhere<T>(start: impl Fn() -> Result<T>) -> Result<T> {
    let mut last = start();
    for _ in 1..START_ATTEMPTS {
        if last.is_ok() {
            break;
        }
        last = start();
    }
    last
}

fn is_free(port: u16) -> bool {
    let on_every_address = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
    // A machine without IPv6 refuses the address itself, which does not make the port taken.
    let six = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
    on_every_address && !six.is_err_and(|e| e.kind() == std::io::ErrorKind::AddrInUse)
}

/// An address of an interface of this machine that is not its loopback; `None` where there is none.
/// Nothing is sent.
#[must_use]
pub fn own_address() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Only a route is looked for. The address is one for documents (RFC 5737).
    socket.connect((Ipv4Addr::new(203, 0, 113, 1), 9)).ok()?;
    match socket.local_addr().ok()?.ip() {
        IpAddr::V4(own) if !own.is_loopback() && !own.is_unspecified() => Some(own),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_can_be_bound() {
        let first = free_port().expect("a port");
        let second = free_port().expect("another port");
        assert_ne!(first, second);
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, first)).is_ok());
    }

    #[test]
    fn a_port_in_use_is_not_free() {
        let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
        assert!(!is_free(holder.local_addr().expect("address").port()));
    }
}
