//! Third-party copies that another server performs: the client is redirected with its whole
//! request.

use net::tls::ServerTls;
use policy::AnonymousAccess;
use remote::{Access, CopyOrder, Direction, Resource};
use testkit::SelfSigned;
use types::{Location, Secret, Side};

use crate::harness::{Server, export, memory};

fn exports() -> Vec<endpoint::Export> {
    vec![export("/data", AnonymousAccess::Write, memory())]
}

/// A server that redirects third-party copies to this URL.
async fn forwarding_to(url: &str, tls: Option<ServerTls>) -> Server {
    let to = Location::parse(url).unwrap();
    Server::start(exports(), |settings| {
        settings.site.forward_to.http = Some(to);
        settings.site.tls = tls;
    })
    .await
}

fn resource(url: &str, side: Side) -> Resource {
    Resource {
        location: Location::parse(url).unwrap(),
        access: Access::default(),
        side,
    }
}

#[tokio::test]
async fn copies_are_sent_on_with_path_and_query_and_nothing_is_made_here() {
    let there = Server::open().await;
    let here = forwarding_to(&there.url(""), None).await;
    let copy = "COPY /data/a%20b?x=1\nSource: http://192.0.2.1/f\nAuthorization: Bearer abc\n";
    let answer = here.ask(copy, b"").await;
    assert_eq!(answer.status, 307, "{answer:?}");
    // A token does not go into a URL in clear text.
    assert_eq!(answer.header("Location"), Some(there.url("/data/a%20b?x=1").as_str()));
    assert_eq!(here.door.transfers(), 0);
    let malformed = here
        .ask("COPY /data/f\nSource: http://192.0.2.1/f\nOverwrite: X\n", b"")
        .await;
    assert_eq!(malformed.status, 400);
    // A copy within this server is no third-party copy.
    here.put("/data/f", b"abc").await;
    assert_eq!(here.ask("COPY /data/f\nDestination: /data/g\n", b"").await.status, 201);
}

#[tokio::test]
async fn a_client_that_follows_gets_its_copy_made_there() {
    let (source, there) = (Server::open().await, Server::open().await);
    source.put("/data/f", b"abc").await;
    let here = forwarding_to(&there.url(""), None).await;
    let active = resource(&here.url("/data/new"), Side::Active);
    let from = Location::parse(&source.url("/data/f")).unwrap();
    let client = crate::harness::client();
    let order = CopyOrder::new(from, Direction::Pull, Access::default());
    let mut copying = client.copy(&active, &order).await.unwrap();
    while copying.next().await.unwrap().is_some() {}
    assert_eq!(there.ask("GET /data/new\n", b"").await.body, b"abc");
    assert_eq!(here.ask("GET /data/new\n", b"").await.status, 404);
}

#[tokio::test]
async fn over_tls_the_token_goes_along() {
    let made = SelfSigned::localhost().unwrap();
    let tls = ServerTls::load(&made.certificate, &made.key).unwrap();
    let source = Server::open().await;
    source.put("/data/f", b"abc").await;
    let there = Server::start(vec![export("/data", AnonymousAccess::None, memory())], |settings| {
        settings.site.tls = Some(tls.clone())
    })
    .await;
    let token = crate::harness::macaroon("activity:UPLOAD,MANAGE");
    let here = forwarding_to(&there.url("").replace("http:", "https:"), Some(tls)).await;
    let mut active = resource(&here.url("/data/new").replace("http:", "https:"), Side::Active);
    let from = Location::parse(&source.url("/data/f")).unwrap();
    let order = CopyOrder::new(from, Direction::Pull, Access::default());
    // Our client, like most, does not send its token to another host by itself.
    active.access.bearer = Some(Secret::new(token));
    let mut copying = crate::harness::client().copy(&active, &order).await.unwrap();
    while copying.next().await.unwrap().is_some() {}
    assert_eq!(there.log.transfer().await.start.credential, "macaroon");
}
