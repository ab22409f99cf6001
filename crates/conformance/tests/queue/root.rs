//! Files to servers of the XRootD protocol that let only one user in, with the proxy that she has
//! delegated to the queue.

use std::time::Duration;

use conformance::{bytes, transfers, until};
use serde_json::Value;
use testkit::{Crossload, available};

use crate::ours::{ours, site_with_file};

const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_destination_shows_the_delegated_proxy_to_sources_of_both_protocols() {
    let test = "a_destination_shows_the_delegated_proxy_to_sources_of_both_protocols";
    let content = bytes(700_000, 67);
    let Some((site, http, _)) = available(test, site_with_file("root-proxy", &content)) else {
        return;
    };
    let at = |server: &Crossload, name: &str| server.root_url(&format!("/data/{name}"));
    let root = at(&site.first, "f");
    for (from, name) in [(&root, "from-root"), (&http, "from-http")] {
        let to = at(&site.second, name);
        let submitted = ours(&site, "submit", &["-b", "-K", from, &to]).succeeded().text();
        let job = submitted.lines().next().expect("the job");
        let log = ours(&site, "log", &[job]).succeeded().text();
        assert!(log.contains("pulled by the destination"), "{name}: {log}");
        // The line comes behind the answer.
        until(&format!("the destination has shown the proxy for {name}"), SOON, || {
            let copies = transfers(site.second.log());
            let of_file = |copy: &&Value| copy["path"].as_str().is_some_and(|path| path.ends_with(name));
            let copy = copies.iter().find(of_file);
            copy.is_some_and(|copy| copy["peer_credential"] == "delegated_proxy" && copy["outcome"] == "success")
        });
        assert!(std::fs::read(site.second.data().join(name)).expect("there") == content);
    }
}
