//! Third-party copies: one server fetches a file from another, at the word of a client that moves no
//! data. The same keys of an open ask both sides: here it is told which side is meant.
//!
//! As source (`source`) we let a client register a key, and whoever comes with it read the file, once. As
//! destination (`destination`) an open file stands for the copy: the client's first sync checks it, the
//! second begins it and is answered when it has ended.

pub(crate) mod destination;
pub(crate) mod source;

use std::net::IpAddr;

use policy::rendezvous::Origin;

use crate::exchange::Exchange;
use crate::failure::Result;

/// What this server can fetch from, for clients that copy between protocols. Other servers do not know
/// the key and give it back as it is.
pub(crate) const PROTOCOLS_KEY: &str = "crossload.tpc";
/// The answer to it.
pub(crate) const PROTOCOLS: &str = "root,roots,http,https";

/// Whether a question about the configuration is about third-party copies.
pub(crate) fn is_about_copies(key: &str) -> bool {
    key == PROTOCOLS_KEY || key == "tpc" || key == "tpcdlg"
}

/// How servers name the client of this session to each other.
struct Origins {
    /// As XRootD would in our place.
    first: Origin,
    /// As a server would that listens in the other way, where that differs.
    second: Option<Origin>,
}

/// XRootD compares the text: it names a client by the name of its address, or by the address as its own socket tells it, and
/// one that listens on IPv6 too is told `[::ffff:192.0.2.7]`. Name services may know only one of both forms.
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

/// An address as sockets tell it: first as those of one kind do, for both families or for its own, then as the others do.
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
