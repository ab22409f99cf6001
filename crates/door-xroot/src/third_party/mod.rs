//! Third-party copies: one server fetches a file from another, at the word of a client that moves no
//! data. The same keys of an open ask both sides: here it is told which side is meant.
//!
//! As source (`source`) we let a client register a key, and whoever comes with it read the file, once. As
//! destination (`destination`) an open file stands for the copy: the client's first sync checks it, the
//! second begins it and is answered when it has ended.

pub(crate) mod destination;
pub(crate) mod source;

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
async fn origin(exchange: &mut Exchange<'_>) -> Result<Origin> {
    let address = exchange.connection.peer.ip().to_canonical();
    let name = net::names::name_of(address, types::limits::TPC_LOOKUP_WAIT).await;
    Ok(Origin {
        user: exchange.session()?.caller.clone(),
        host: name.unwrap_or_else(|| address.to_string()),
    })
}
