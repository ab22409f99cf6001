//! The client for other servers, as every command has it.

use net::address::AddressPolicy;
use net::tls::ClientTls;
use remote::{Client, ClientOptions};
use types::limits::{CONNECT_TIMEOUT, FIRST_BYTE_TIMEOUT, STALL_TIMEOUT};

/// The client of every command. It connects to any address that the user names.
pub(crate) fn new_client(tls: ClientTls) -> Client {
    Client::new(client_options(tls)).with_s3()
}

/// What it is made of.
pub(crate) fn client_options(tls: ClientTls) -> ClientOptions {
    ClientOptions {
        tls,
        addresses: AddressPolicy::ANY,
        connect: CONNECT_TIMEOUT,
        first_byte: FIRST_BYTE_TIMEOUT,
        stall: STALL_TIMEOUT,
        user_agent: concat!("crossload/", env!("CARGO_PKG_VERSION")).to_owned(),
    }
}
