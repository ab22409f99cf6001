//! What one client may hold: open files, keys, connections.

use std::net::IpAddr;
use std::time::Duration;

use door_xroot::{Keys, Settings};
use endpoint::{ClientId, FairShare, Share, ShareKind, ShareLimits};
use types::limits::CLIENT_SHARE_MIN;
use xroot_wire::{ErrorNumber, OpenOptions};

use crate::harness::{Raw, Server, open, soon};

fn shared(limits: ShareLimits) -> impl FnOnce(&mut Settings) {
    move |settings| {
        settings.site.fair_share = FairShare::new(&limits, None);
        settings.third_party.keys = Keys::sharing(settings.site.fair_share.clone());
    }
}

/// A door with this many places for open files, and its count of them.
fn with_files(open_files: usize, change: impl FnOnce(&mut Settings)) -> (Server, FairShare) {
    let limits = ShareLimits {
        open_files,
        ..ShareLimits::default()
    };
    let mut fair_share = None;
    let server = Server::start(|settings| {
        shared(limits)(settings);
        fair_share = Some(settings.site.fair_share.clone());
        change(settings);
    });
    server.put("/f", b"content");
    (server, fair_share.unwrap())
}

/// Takes this many places as another client.
fn taken(fair_share: &FairShare, kind: ShareKind, count: u8) -> Vec<Share> {
    let from = |last| ClientId::at(IpAddr::from([192, 0, 2, last]));
    (0..count)
        .map(|last| fair_share.take(kind, &from(last)).unwrap())
        .collect()
}

async fn open_one(raw: &mut Raw) -> Result<(), ErrorNumber> {
    let answer = raw.ask(&open("/data/f", OpenOptions::READ)).await;
    if answer.status == 0 {
        Ok(())
    } else {
        Err(answer.error())
    }
}

#[tokio::test]
async fn a_client_has_its_share_of_open_files_and_each_session_its_first() {
    let (server, fair_share) = with_files(4 * CLIENT_SHARE_MIN, |_| {});
    let mut raw = server.client().await;
    for _ in 0..1 + 2 * CLIENT_SHARE_MIN {
        open_one(&mut raw).await.unwrap();
    }
    assert_eq!(open_one(&mut raw).await, Err(ErrorNumber::OVERLOADED));
    assert_eq!(
        server.log.all().last().unwrap().error.as_ref().unwrap().code,
        "share_used_up"
    );
    // On another connection it is the same client, which can still use one file at a time.
    let mut second = server.client().await;
    open_one(&mut second).await.unwrap();
    assert_eq!(open_one(&mut second).await, Err(ErrorNumber::OVERLOADED));
    drop(raw);
    soon(async {
        while fair_share.in_use(ShareKind::OpenFiles) > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    open_one(&mut second).await.unwrap();
}

#[tokio::test]
async fn idle_sessions_with_open_files_end_sooner_when_room_is_short() {
    let (server, fair_share) = with_files(100, |settings| {
        settings.limits.short_open_idle = Duration::from_millis(5);
    });
    let mut raw = server.client().await;
    open_one(&mut raw).await.unwrap();
    let rest = taken(&fair_share, ShareKind::OpenFiles, 74);
    tokio::time::timeout(Duration::from_millis(50), raw.is_closed())
        .await
        .expect_err("there is room");
    let _more = taken(&fair_share, ShareKind::OpenFiles, 1);
    assert!(soon(raw.is_closed()).await);
    drop(rest);
}

#[tokio::test]
async fn an_idle_session_makes_room_for_another_connection() {
    let fair_share = FairShare::new(
        &ShareLimits {
            connections: 1,
            ..ShareLimits::default()
        },
        None,
    );
    let own = fair_share.clone();
    let server = Server::start(|settings| settings.site.fair_share = own);
    server.put("/f", b"content");
    let (mut reading, mut idle) = (server.client().await, server.client().await);
    open_one(&mut reading).await.unwrap();
    let _first = taken(&fair_share, ShareKind::Connections, 1);
    let other = ClientId::at(IpAddr::from([192, 0, 2, 99]));
    soon(async {
        while fair_share.take_connection(&other).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(soon(idle.is_closed()).await);
    open_one(&mut reading).await.unwrap();
    fair_share.take_connection(&other).unwrap_err();
}

#[tokio::test]
async fn keys_that_are_remembered_count_for_the_client_that_registered_them() {
    let server = Server::start(shared(ShareLimits {
        tpc_keys: 2 * CLIENT_SHARE_MIN,
        ..ShareLimits::default()
    }));
    server.put("/f", b"content");
    let mut raw = server.client().await;
    let mut number = 0;
    let refused = loop {
        number += 1;
        let path = format!("/data/f?tpc.key=key{number}&tpc.dst=127.0.0.1&tpc.stage=copy");
        let answer = raw.ask(&open(&path, OpenOptions::READ)).await;
        if answer.status != 0 {
            break answer.error();
        }
        // A withdrawn key is remembered all the same.
        let handle = xroot_wire::response::OpenReply::parse(&answer.ok()).unwrap().handle;
        let close = xroot_wire::request::Request::Close(xroot_wire::request::Close { handle });
        raw.ask(&close).await.ok();
    };
    assert_eq!((refused, number), (ErrorNumber::OVERLOADED, 1 + CLIENT_SHARE_MIN));
}
