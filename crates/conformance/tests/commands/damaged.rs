//! Files that are damaged on their way in clear text: what was there before stays where the server
//! can compare, and each failure has its code.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Weak};

use conformance::{Endpoint, Reply, Scripted, Site, Slot, bytes, shared};
use testkit::{Direction, Fault, Relay, Result, available};

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || Site::of_ours("damaged"))
}

const SIZE: usize = 300_000;
/// Behind all heads of requests, within the file.
const FLIPPED: u64 = 100_000;
const OLD: &[u8] = b"the old file";

/// A relay that damages what goes to a server.
fn damaging(server: &Endpoint) -> Relay {
    let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))).expect("a relay");
    relay.set_fault(Fault::FlipBitAfter(Direction::ToTarget, FLIPPED), usize::MAX);
    relay
}

/// The URL of a file or directory in clear text, through the relay.
fn through(relay: &Relay, name: &str) -> String {
    format!("http://localhost:{}/data/{name}", relay.port())
}

fn text(path: &std::path::Path) -> &str {
    path.to_str().expect("plain")
}

#[test]
fn a_damaged_upload_does_not_replace_a_file_at_our_server() {
    let test = "a_damaged_upload_does_not_replace_a_file_at_our_server";
    let Some(site) = available(test, site()) else {
        return;
    };
    let content = bytes(SIZE, 39);
    let tree = site.lab.fresh("from");
    fs::create_dir(&tree).expect("a directory");
    fs::write(tree.join("f"), &content).expect("a file");
    let (file, tree) = (text(&tree.join("f")).to_owned(), format!("{}/", text(&tree)));
    let (file, tree) = (file.as_str(), tree.as_str());
    // It reports no checksum.
    let body = content.clone();
    let plain = Scripted::start(move |seen| Reply::whole(seen, "200 OK", &[], &body));
    let streamed = plain.url("/f");
    let relay = damaging(&site.first);
    for (name, arguments) in [
        ("file", &["copy", "-f", file][..]),
        ("required", &["copy", "-f", "--verify", "required", file][..]),
        ("tree", &["copy", "-r", "-f", tree][..]),
        ("sync", &["sync", tree][..]),
        ("streamed", &["copy", "-f", "--mode", "stream", streamed.as_str()][..]),
    ] {
        let held = format!("replaced-{name}/f");
        site.first.put(&held, OLD);
        let is_tree = arguments.contains(&tree);
        let target = through(
            &relay,
            if is_tree {
                held.trim_end_matches('f')
            } else {
                held.as_str()
            },
        );
        let more = [&arguments[1..], &["--retries", "0", target.as_str()]].concat();
        let run = site.lab.run_client(arguments[0], &more);
        assert_ne!(run.code, Some(0), "{name}: {}", run.said());
        assert!(
            site.first.stored(&held).as_deref() == Some(OLD),
            "{name}: {}",
            run.said()
        );
        // What comes whole replaces it.
        relay.heal();
        let run = site.lab.run_client(arguments[0], &more).succeeded();
        assert!(
            site.first.stored(&held).as_ref() == Some(&content),
            "{name}: {}",
            run.said()
        );
        relay.set_fault(Fault::FlipBitAfter(Direction::ToTarget, FLIPPED), usize::MAX);
    }
}
