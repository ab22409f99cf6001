//! The queue copies from and to S3 with the keys of its cloud storages.

use conformance::bytes;
use serde_json::json;
use testkit::{VersityGateway, available};

use crate::open_site::OpenSite;

#[test]
fn the_queue_copies_from_and_to_s3_with_the_keys_that_it_keeps() {
    const TEST: &str = "the_queue_copies_from_and_to_s3_with_the_keys_that_it_keeps";
    let Some(site) = available(TEST, OpenSite::start_with("queue-s3", "operators = [\"*\"]")) else {
        return;
    };
    let directory = site.lab.scratch().join("versitygw");
    let Some(store) = available(TEST, VersityGateway::start(&directory, site.lab.host())) else {
        return;
    };
    let bucket = store.bucket();
    let object = |key: &str| format!("s3s://{}/{}/{key}", bucket.host(true), bucket.name());
    let file = |name: &str| site.endpoint.url(&format!("/data/{name}"));
    let content = bytes(500_000, 44);
    bucket.store("source", &content).expect("it is stored");
    let down = [(object("source"), file("down"))];

    // Without a key the copy says what is missing.
    let job = site.submit(&down, json!({"retry": -1}));
    site.becomes(&job, &["FAILED"]);
    let reason = site.job(&job)["files"][0]["reason"].to_string();
    assert!(reason.contains("no key of S3:localhost"), "{reason}");

    site.post(
        "/config/cloud_storage",
        &json!({"storage_name": "S3:localhost", "alternate": true}),
    );
    let who = site.get("/whoami");
    let key = json!({
        "vo_name": who["vos"][0],
        "access_key": bucket.access_key(),
        "secret_key": bucket.secret_key(),
    });
    site.post("/config/cloud_storage/S3:localhost", &key);
    let job = site.submit(&down, json!({}));
    site.becomes(&job, &["FINISHED"]);
    let job = site.submit(&[(file("down"), object("up"))], json!({}));
    site.becomes(&job, &["FINISHED"]);
    assert!(bucket.read("up").expect("it is there") == content);
    let job = site.submit(&[(object("up"), object("copied"))], json!({}));
    site.becomes(&job, &["FINISHED"]);
    assert!(bucket.read("copied").expect("it is there") == content);
}
