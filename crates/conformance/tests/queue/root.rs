//! Files to servers of the XRootD protocol that let only one user in, with the proxy that she has
//! delegated to the queue.

use std::time::Duration;

use conformance::{bytes, transfers, until};
use serde_json::Value;
use testkit::{Crossload, Result, Xrootd, XrootdAccess, XrootdOptions, available};

use crate::ours::{ours, site_with_file};
use crate::site::Site;

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

/// Debian's XRootD: in its own protocol it demands gsi, and it takes no delegated proxies. Over
/// HTTP it is open, and fetches from servers of HTTP only.
fn guarded(site: &Site) -> Result<Xrootd> {
    let own = site.lab.fresh("guarded");
    let trust = site.lab.authority().trust_directory();
    let more = format!(
        "xrootd.seclib libXrdSec.so\nsec.protocol gsi -certdir:{} -cert:{own}/host.pem -key:{own}/host.key -gmapopt:10 \
         -crl:1\n",
        trust.display(),
        own = own.display(),
    );
    Xrootd::start(&XrootdOptions {
        data: own.join("files/data"),
        directory: own,
        more,
        ..site.lab.xrootd_options("guarded", XrootdAccess::Open)
    })
}

/// Whatever the servers cannot do with the user's proxy goes through the machine of the queue, or
/// of the client.
#[test]
fn files_from_and_to_xrootd_with_gsi_are_copied_with_a_proxy() {
    let test = "files_from_and_to_xrootd_with_gsi_are_copied_with_a_proxy";
    let content = bytes(700_000, 68);
    let Some((site, https, _)) = available(test, site_with_file("root-gsi", &content)) else {
        return;
    };
    let Some(guarded) = available(test, guarded(&site)) else {
        return;
    };
    std::fs::write(guarded.data().join("f"), &content).expect("source");
    let root = |name: &str| guarded.root_url(&format!("/data/{name}"));
    let (ours_there, theirs) = (site.second.data(), guarded.data());
    let proxy = site.proxy.to_str().expect("plain");
    for (from, to, directory, way) in [
        (
            root("f"),
            site.destination("a"),
            ours_there,
            "pulled by the destination",
        ),
        (root("f"), guarded.url("/data/b"), theirs, "through the queue's machine"),
        (https, root("c"), theirs, "pushed by the source"),
        (root("f"), root("d"), theirs, "through the queue's machine"),
    ] {
        let submitted = ours(&site, "submit", &["-b", "-K", &from, &to]).succeeded().text();
        let job = submitted.lines().next().expect("the job");
        let log = ours(&site, "log", &[job]).succeeded().text();
        assert!(log.contains(way), "{way}: {log}");
        // Our client delegates nothing unless it is asked to.
        let (by_client, name) = (format!("{to}-client"), to.rsplit('/').next().expect("a name"));
        site.lab
            .run_client("copy", &["--proxy", proxy, &from, &by_client])
            .succeeded();
        for name in [name.to_owned(), format!("{name}-client")] {
            let stored = std::fs::read(directory.join(&name)).expect("there");
            assert!(stored == content, "{name}");
        }
    }
}
