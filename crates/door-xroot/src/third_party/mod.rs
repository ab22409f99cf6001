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

/// How servers name the client of this session to each other. XRootD compares the text: it names a client by its address
/// as its own socket tells it, and a server that listens on IPv6 too is told `[::ffff:192.0.2.7]`.
async fn origin(exchange: &mut Exchange<'_>) -> Result<Origin> {
    let address = exchange.connection.peer.ip();
    let name = net::names::name_as_seen(address, types::limits::TPC_LOOKUP_WAIT).await;
    Ok(Origin {
        user: exchange.session()?.caller.clone(),
        host: name.unwrap_or_else(|| spelled(address)),
    })
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
