//! A [`Site`] for tests of doors: exports in memory, macaroons that every door accepts, a client
//! that trusts every server, and a log that keeps all records.
#![forbid(unsafe_code)]

mod log;

use std::sync::Arc;
use std::time::Duration;

use credentials::{Activities, Macaroon, MacaroonKey};
use endpoint::{Export, SharedExports, Store};
use identity::{Authenticator, Sources};
use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use policy::{AnonymousAccess, Area, ExportRules, Rule};
use remote::{Client, ClientOptions};
use storage::Storage;
use transfer::{Events, Site};
use types::LogicalPath;

pub use log::Log;

/// No wait in these tests may take longer; if one does, something hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The secret of all macaroons.
pub const SECRET: &[u8] = b"a secret of the tests";

/// Waits for something that must happen.
///
/// # Panics
/// When it does not happen.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it hangs")
}

/// A site with these exports.
#[must_use]
pub fn site(exports: SharedExports, client: Client, events: Arc<dyn Events>) -> Site {
    Site {
        authenticator: Authenticator::new(Sources {
            macaroon_keys: vec![MacaroonKey::new(SECRET)],
            ..Sources::default()
        }),
        server_name: "crossload/test".to_owned(),
        ..Site::new(exports, client, events)
    }
}

/// An export of a store.
///
/// # Panics
/// When the path is invalid.
#[must_use]
pub fn export(path: &str, anonymous: AnonymousAccess, storage: impl Storage) -> Export {
    Export {
        rules: ExportRules {
            path: LogicalPath::parse(path).expect("the path is valid"),
            anonymous,
            ..ExportRules::default()
        },
        store: Store::new(Arc::new(storage)),
    }
}

/// A rule that allows nothing to any client below a path.
///
/// # Panics
/// When the path is invalid.
#[must_use]
pub fn closed(path: &str) -> Rule {
    Rule {
        area: Area::parse(path).expect("the path is valid"),
        may_not: Activities::ALL,
        ..Rule::default()
    }
}

/// A macaroon that every door accepts.
///
/// # Panics
/// When the caveat is invalid.
#[must_use]
pub fn macaroon(caveat: &str) -> String {
    let minted = Macaroon::mint(&MacaroonKey::new(SECRET), "test", "id", [caveat]);
    minted.expect("the caveat is valid").to_text().expose().to_owned()
}

/// A client that trusts every server, and connects to these addresses.
///
/// # Panics
/// When the machine cannot do TLS.
#[must_use]
pub fn client(addresses: AddressPolicy) -> Client {
    let trust = Trust {
        insecure: true,
        ..Trust::default()
    };
    let (tls, _) = ClientTls::load(&trust).expect("TLS works");
    Client::new(ClientOptions {
        tls,
        addresses,
        connect: Duration::from_secs(5),
        first_byte: Duration::from_secs(20),
        stall: Duration::from_secs(20),
        user_agent: "test".into(),
    })
}
