//! What a client does while it waits.

use std::time::Duration;

use remote::{Activity, ActivityNote, GetOptions, Resource};
use tokio::time::{sleep, timeout};
use types::ChecksumAlgorithm;

use crate::script::{Server, client, resource};

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
