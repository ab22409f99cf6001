//! What a client does while it waits, and how long it waits for answers that drip.

use std::time::Duration;

use net::address::AddressPolicy;
use remote::{Activity, ActivityNote, GetOptions, Resource};
use tokio::time::{sleep, timeout};
use types::{ChecksumAlgorithm, ErrorCode};

use crate::script::{Server, client, client_with, resource};

/// Longer than any test takes that works.
const LIMIT: Duration = Duration::from_secs(20);

/// Makes a request that is not answered, until the client notes this activity for it.
async fn wait_for(activity: Activity, file: &Resource, request: impl Future) {
    let noted = async {
        while file.access.activity.latest() != activity {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let either = async {
        tokio::select! {
            _ = request => panic!("the request has ended"),
            () = noted => {}
        }
    };
    timeout(LIMIT, either).await.unwrap_or_else(|_| {
        let latest = file.access.activity.latest();
        panic!("{latest:?} instead of {activity:?}")
    });
}

#[tokio::test]
async fn what_the_client_is_doing_is_noted() {
    let server = Server::start(|_, mut peer| async move {
        if peer.head().await.starts_with("GET") {
            peer.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await;
        }
        peer.wait_for_end().await;
    })
    .await;
    let file = |url: &str| {
        let mut file = resource(url);
        file.access.activity = ActivityNote::kept();
        file
    };
    // TLS is not answered.
    let hidden = file(&server.url.replace("http:", "https:"));
    let client = client();
    wait_for(Activity::Connect, &hidden, client.stat(&hidden)).await;
    let file = file(&format!("{}/f", server.url));
    wait_for(Activity::Remove, &file, client.delete(&file)).await;
    wait_for(Activity::Ask, &file, client.stat(&file)).await;
    let wanted = [ChecksumAlgorithm::Adler32];
    wait_for(Activity::Checksum, &file, client.head(&file, &wanted)).await;
    let _download = client.get(&file, &GetOptions::default()).await.unwrap();
    assert_eq!(file.access.activity.latest(), Activity::Transfer);
}

#[tokio::test]
async fn a_head_that_drips_is_given_up() {
    let server = Server::start(|_, mut peer| async move {
        peer.head().await;
        let head = "HTTP/1.1 200 OK\r\nX: ".chars();
        for byte in head.chain(std::iter::repeat('x')).take(4000) {
            if !peer.try_say(&byte.to_string()).await {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let client = client_with(AddressPolicy::ANY, Duration::from_millis(300));
    let late = timeout(LIMIT, client.head(&server.file("/f"), &[]))
        .await
        .expect("in time");
    assert_eq!(late.unwrap_err().code(), ErrorCode::PeerStalled);
}

/// XRootD 5.5.3 sometimes does not read the next request of a connection.
#[tokio::test]
async fn a_request_that_a_kept_connection_swallows_goes_out_again_if_it_can_be_repeated() {
    let server = Server::start(|_, mut peer| async move {
        peer.head().await;
        peer.answer("200 OK", "", "").await;
        // The next request is read and never answered.
        peer.head().await;
        peer.wait_for_end().await;
    })
    .await;
    let client = client_with(AddressPolicy::ANY, Duration::from_millis(300));
    let file = server.file("/f");
    for _ in 0..3 {
        timeout(LIMIT, client.head(&file, &[])).await.expect("in time").unwrap();
    }
    let asked = server.heard().iter().filter(|head| head.starts_with("HEAD")).count();
    assert_eq!(asked, 5, "two of three went out again");
}
