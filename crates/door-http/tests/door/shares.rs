//! What one client may hold: connections and third-party copies.

use endpoint::{ClientId, FairShare, Share, ShareKind, ShareLimits};
use policy::AnonymousAccess;
use transfer::{Budget, Slots};
use types::limits::CLIENT_SHARE_MIN;

use crate::harness::{Server, export, macaroon, memory};

async fn start(limits: ShareLimits) -> (Server, FairShare) {
    let fair_share = FairShare::new(&limits, None);
    let exports = vec![export("/data", AnonymousAccess::Write, memory())];
    let own = fair_share.clone();
    let server = Server::start(exports, |settings| {
        settings.site.transfers = Slots::sharing(own.clone(), Budget::new());
        settings.site.fair_share = own;
    });
    (server.await, fair_share)
}

#[tokio::test]
async fn a_client_has_its_share_of_copies_and_is_told_when_to_come_again() {
    let limits = ShareLimits {
        transfers: 2 * CLIENT_SHARE_MIN,
        ..ShareLimits::default()
    };
    let (server, fair_share) = start(limits).await;
    let here = ClientId::at(server.address.ip());
    let held: Vec<Share> = (0..CLIENT_SHARE_MIN)
        .map(|_| fair_share.take(ShareKind::Transfers, &here).unwrap())
        .collect();
    let order = "COPY /data/f\nSource: http://127.0.0.1:1/x\n";
    let refused = server.ask(order, b"").await;
    assert_eq!((refused.status, refused.header("Retry-After").is_some()), (429, true));
    drop(held);
    assert_ne!(server.ask(order, b"").await.status, 429);
}

#[tokio::test]
async fn a_connection_counts_for_the_identity_that_uses_it() {
    let limits = ShareLimits {
        connections: 2 * CLIENT_SHARE_MIN,
        ..ShareLimits::default()
    };
    let (server, _) = start(limits).await;
    let bearer = macaroon("activity:DOWNLOAD");
    let request = format!("GET /data/none\nAuthorization: Bearer {bearer}\n");
    let mut held = Vec::new();
    for _ in 0..2 * CLIENT_SHARE_MIN {
        let mut raw = server.connect().await;
        assert_ne!(raw.ask(&request, b"").await.status, 429);
        // Another request on the same connection does not count again.
        assert_ne!(raw.ask(&request, b"").await.status, 429);
        held.push(raw);
    }
    let mut next = server.connect().await;
    assert_eq!(next.ask(&request, b"").await.status, 429);
    // That connection ends, else the identity would have what it is refused. Others are served, and
    // the identity has the place again that another connection released.
    let mut next = server.connect().await;
    assert_ne!(next.ask("GET /data/none\n", b"").await.status, 429);
    held[0].ask("GET /data/none\n", b"").await;
    assert_ne!(next.ask(&request, b"").await.status, 429);
}
