//! Third-party copies with delegated proxies (TPC Lite): the destination opens the source as the
//! user, and no key is registered.

use credentials::{Macaroon, MacaroonKey};
use endpoint::{PeerCredential, TransferOutcome};
use gsi_wire::gsi::ClientOptions;
use gsi_wire::proxy::ProxyPolicy;
use testkit::{ProxyOptions, User};
use xroot_wire::request::{Close, Query, QueryKind, Request, SyncFile};
use xroot_wire::response::OpenReply;
use xroot_wire::{ErrorNumber, FileHandle, OpenOptions};

use crate::gsi::{DN, Lab, proxy as signed};
use crate::harness::{Answer, Raw, SECRET, Server, open};

const STORE: OpenOptions = OpenOptions::UPDATE
    .union(OpenOptions::NEW)
    .union(OpenOptions::RETURN_STAT);

/// The destination, the source, and a user with a proxy.
struct Pair {
    here: Lab,
    there: Server,
    user: User,
}

impl Pair {
    /// The source demands gsi.
    fn new() -> Self {
        let here = Lab::new();
        let there = here.another(|_| {});
        there.put("/f", b"content");
        let user = here.jane.proxy().unwrap();
        Self { here, there, user }
    }

    /// Opens `/data/new` as a copy of `/data/f` of the source.
    async fn order(&self, raw: &mut Raw, cgi: &str) -> Answer {
        let (there, stage) = (self.there.address, "tpc.stage=copy&tpc.scgi=tpc.stage=placement");
        let path = format!("/data/new?tpc.src={there}&tpc.lfn=/data/f&tpc.spr=root&{stage}&{cgi}");
        raw.ask(&open(&path, STORE)).await
    }

    /// Orders a copy and waits for its end.
    async fn copy(&self, raw: &mut Raw, cgi: &str) -> Answer {
        let ordered = self.order(raw, cgi).await;
        let handle = OpenReply::parse(&ordered.ok()).unwrap().handle;
        sync(raw, handle).await.ok();
        assert_eq!(sync(raw, handle).await.status, 4006);
        let late = raw.answer().await;
        assert_eq!(late.status, 4001, "{late:?}");
        raw.ask(&Request::Close(Close { handle })).await.ok();
        Answer {
            stream: late.stream,
            status: u16::from_be_bytes([late.body[10], late.body[11]]),
            body: late.body[16..].to_vec(),
        }
    }

    /// What the log says that the source was shown.
    async fn shown(&self) -> Option<PeerCredential> {
        self.here.server.log.transfer().await.start.peer_credential
    }
}

async fn sync(raw: &mut Raw, handle: FileHandle) -> Answer {
    raw.ask(&Request::Sync(SyncFile { handle })).await
}

/// The answer to the question that clients ask before a copy.
async fn offered(raw: &mut Raw) -> String {
    let question = Request::Query(Query::new(QueryKind::Config, b"tpc tpcdlg\0"));
    String::from_utf8(raw.ask(&question).await.ok()).unwrap()
}

#[tokio::test]
async fn a_destination_opens_the_source_with_the_delegated_proxy() {
    // XRootD's clients send a key that they never register.
    for cgi in ["tpc.key=k&tpc.dlgon=1", "tpc.dlgon=1"] {
        let pair = Pair::new();
        let mut raw = pair.here.session(&pair.user, true).await;
        assert_eq!(offered(&mut raw).await, "1\ngsi\n");
        pair.copy(&mut raw, cgi).await.ok();
        assert_eq!(
            pair.here.server.content("/new").as_deref(),
            Some(&b"content"[..]),
            "{cgi}"
        );
        assert_eq!(pair.shown().await, Some(PeerCredential::DelegatedProxy), "{cgi}");
        let seen = pair.there.log.named("open", "/data/f").await;
        assert_eq!((seen.subject.as_deref(), seen.status), (Some(DN), Some(0)), "{cgi}");
    }
}

#[tokio::test]
async fn the_place_for_delegation_goes_before_that_of_the_client() {
    let pair = Pair::new();
    let mut raw = pair.here.session(&pair.user, true).await;
    let path = format!(
        "/data/new?tpc.src=localhost:1&tpc.dlg={}&tpc.dlgon=1&tpc.lfn=/data/f",
        pair.there.address
    );
    let handle = OpenReply::parse(&raw.ask(&open(&path, STORE)).await.ok())
        .unwrap()
        .handle;
    sync(&mut raw, handle).await.ok();
    assert_eq!(sync(&mut raw, handle).await.status, 4006);
    raw.answer().await;
    let record = pair.here.server.log.transfer().await;
    assert_eq!(record.outcome, TransferOutcome::Success, "{record:?}");
    let bad = "/data/x?tpc.src=localhost:1&tpc.dlg=a/b&tpc.dlgon=1";
    assert_eq!(raw.ask(&open(bad, STORE)).await.error(), ErrorNumber::ARGUMENT_INVALID);
}

#[tokio::test]
async fn without_a_proxy_the_key_is_used_and_without_a_key_the_copy_is_refused() {
    let pair = Pair::new();
    let stranger = pair.here.authority.issue_user("/O=Crossload test/CN=Other").unwrap();
    let other = pair.here.session(&stranger, true).await;
    let mut raw = pair.here.session(&pair.user, false).await;
    drop(other);
    assert_eq!(offered(&mut raw).await, "1\ntpcdlg\n");
    let refused = pair.order(&mut raw, "tpc.dlgon=1").await;
    assert_eq!(refused.error(), ErrorNumber::NOT_AUTHORIZED);
    let words = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(words.contains("no delegated credentials for tpc"), "{words}");
    // The source demands gsi, so the key alone opens nothing.
    let failed = pair.copy(&mut raw, "tpc.key=k&tpc.dlgon=1").await;
    assert_ne!(failed.status, 0);
    assert_eq!(pair.shown().await, Some(PeerCredential::Key));
}

#[tokio::test]
async fn a_client_that_wants_no_delegation_gets_none() {
    for cgi in ["tpc.key=k&tpc.dlgon=0", "tpc.key=k"] {
        let pair = Pair::new();
        let mut raw = pair.here.session(&pair.user, true).await;
        assert_ne!(pair.copy(&mut raw, cgi).await.status, 0, "{cgi}");
        assert_eq!(pair.shown().await, Some(PeerCredential::Key), "{cgi}");
    }
}

#[tokio::test]
async fn a_token_for_the_source_needs_no_key() {
    let (here, there) = (Server::open(), Server::open());
    there.put("/f", b"content");
    let minted = Macaroon::mint(&MacaroonKey::new(SECRET), "test", "id", ["activity:DOWNLOAD"]).unwrap();
    let path = format!(
        "/data/new?tpc.src={}&tpc.lfn=/data/f&tpc.dlgon=1&tpc.scgi=authz=Bearer%20{}",
        there.address,
        minted.to_text().expose()
    );
    let mut raw = here.client().await;
    let handle = OpenReply::parse(&raw.ask(&open(&path, STORE)).await.ok())
        .unwrap()
        .handle;
    sync(&mut raw, handle).await.ok();
    assert_eq!(sync(&mut raw, handle).await.status, 4006);
    raw.answer().await;
    let record = here.log.transfer().await;
    assert_eq!(record.outcome, TransferOutcome::Success, "{record:?}");
    assert_eq!(record.start.peer_credential, Some(PeerCredential::Token));
}

#[tokio::test]
async fn a_weaker_proxy_of_a_user_does_not_use_the_stored_full_one() {
    let pair = Pair::new();
    pair.here.session(&pair.user, true).await;
    let proxy = |options| pair.here.jane.proxy_with(&options).unwrap();
    let limited = proxy(ProxyOptions {
        is_limited: true,
        ..ProxyOptions::default()
    });
    let last = proxy(ProxyOptions {
        path_length: Some(0),
        ..ProxyOptions::default()
    });
    let offers = ClientOptions::DELEGATES | ClientOptions::SIGNS;
    // Its holder could sign no further one, so it is not asked.
    pair.here.showing(&last, offers).await.answer.ok();
    for weaker in [&limited, &last] {
        let mut raw = pair.here.session(weaker, false).await;
        assert_eq!(offered(&mut raw).await, "1\ntpcdlg\n");
        let refused = pair.order(&mut raw, "tpc.dlgon=1").await;
        assert_eq!(refused.error(), ErrorNumber::NOT_AUTHORIZED);
    }
    let mut raw = pair.here.session(&pair.user, false).await;
    assert_eq!(offered(&mut raw).await, "1\ngsi\n");
    // A limited one that is stored is for limited sessions.
    let pair = Pair::new();
    let proxy = |options| pair.here.jane.proxy_with(&options).unwrap();
    let limited = proxy(ProxyOptions {
        is_limited: true,
        ..ProxyOptions::default()
    });
    let signs = |request: &[u8]| Ok(signed(&limited, request, |draft| draft.policy = ProxyPolicy::Limited));
    let mut login = pair.here.asked(&limited).await;
    login.delegate(signs).await.ok();
    assert_eq!(offered(&mut login.raw).await, "1\ngsi\n");
    pair.copy(&mut login.raw, "tpc.dlgon=1").await.ok();
    pair.here.asked(&pair.user).await;
}
