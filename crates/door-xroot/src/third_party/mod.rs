//! Third-party copies: one server fetches a file from another, ordered by a client that moves no
//! data. The parameters of an open address both sides; here it is decided which side this server
//! is.
//!
//! As the source (`source`), a client registers a rendezvous key, and the destination that presents
//! it reads the file, once. As the destination (`destination`), an open file stands for the copy:
//! the client's first sync checks it, the second begins it and is answered at its end. `fetched` is
//! the file at its source.

pub(crate) mod destination;
pub(crate) mod fetched;
pub(crate) mod source;

use std::net::IpAddr;

use policy::rendezvous::Origin;

use crate::exchange::Exchange;
use crate::failure::Result;

/// The configuration key whose value lists the schemes of the URLs that this server can fetch from.
/// Other servers do not know it and echo its name.
pub(crate) const SCHEMES_KEY: &str = "crossload.tpc";

/// The configuration key whose value names the protocols of credentials that clients can delegate.
pub(crate) const DELEGATION_KEY: &str = "tpcdlg";

/// The configuration key whose value names the protocols in whose logins this server asks for a
/// proxy. Other servers do not know it and echo its name.
pub(crate) const DELEGATION_OFFER_KEY: &str = "crossload.delegation";

/// Whether a configuration key is about third-party copies.
pub(crate) fn is_about_copies(key: &str) -> bool {
    [SCHEMES_KEY, DELEGATION_KEY, DELEGATION_OFFER_KEY, "tpc"].contains(&key)
}

/// How servers name the client of this session to each other.
struct Origins {
    /// As XRootD would in our place.
    first: Origin,
    /// As a server with the other kind of socket (IPv4 only, or both) would, if that differs.
    second: Option<Origin>,
}

/// XRootD compares text: it names a client by its host name, or by the address that its own socket
/// reports. On a socket for both families that is `[::ffff:192.0.2.7]`. A name service may know
/// only one of the two forms.
async fn origins(exchange: &mut Exchange<'_>) -> Result<Origins> {
    let address = exchange.connection.peer.ip().to_canonical();
    let local = exchange.connection.frames.stream.local_address();
    let is_dual = local.is_some_and(|local| local.is_ipv6());
    let (first, second) = forms(address, is_dual);
    let patience = crate::limits::TPC_LOOKUP_WAIT;
    let name = async |address| {
        let name = net::names::name_as_seen(address, patience).await;
        name.unwrap_or_else(|| spelled(address))
    };
    let (first, second) = tokio::join!(name(first), async {
        match second {
            Some(second) => Some(name(second).await),
            None => None,
        }
    });
    let user = exchange.session()?.caller.clone();
    let origin = |host| Origin {
        user: user.clone(),
        host,
    };
    let second = second.filter(|second| !second.eq_ignore_ascii_case(&first)).map(origin);
    let first = origin(first);
    Ok(Origins { first, second })
}

/// An address as sockets report it: first as this server's kind of socket does, then as the other.
fn forms(address: IpAddr, is_dual: bool) -> (IpAddr, Option<IpAddr>) {
    let IpAddr::V4(plain) = address else {
        return (address, None);
    };
    let mapped = IpAddr::V6(plain.to_ipv6_mapped());
    match is_dual {
        true => (mapped, Some(address)),
        false => (address, Some(mapped)),
    }
}

/// An address as XRootD writes it.
fn spelled(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use policy::rendezvous::NamedHost;
    use policy::rendezvous::SeenHost;

    use super::*;

    #[test]
    fn an_ipv4_address_has_two_forms_and_the_own_socket_decides_which_comes_first() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let (plain, mapped) = (address("192.0.2.7"), address("::ffff:192.0.2.7"));
        assert_eq!(forms(plain, false), (plain, Some(mapped)));
        assert_eq!(forms(plain, true), (mapped, Some(plain)));
        assert_eq!(forms(address("2001:db8::7"), true), (address("2001:db8::7"), None));
    }

    #[test]
    fn addresses_are_spelled_as_xrootd_does_and_are_the_same_hosts_still() {
        for (address, text) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "[::ffff:192.0.2.7]"),
            ("2001:db8::7", "[2001:db8::7]"),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(spelled(address), text);
            assert!(NamedHost::new(text, []).is(&SeenHost::new(address, None)));
        }
    }
}
