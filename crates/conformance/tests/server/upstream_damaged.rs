//! A data transfer node whose way to the server behind it damages what it sends in clear text.

use conformance::{Lab, bytes};
use testkit::{Direction, Fault, Relay, available};

const SIZE: usize = 300_000;
/// Behind all heads of requests, within the file.
const FLIPPED: u64 = 100_000;
const OLD: &[u8] = b"the old file";

#[test]
fn a_damaged_upload_replaces_no_file_behind_a_node() {
    let test = "a_damaged_upload_replaces_no_file_behind_a_node";
    let Some(lab) = available(test, Lab::new("upstream-damaged")) else {
        return;
    };
    let ours = lab.crossload(lab.options("ours")).expect("a server");
    let relay = Relay::start(([127, 0, 0, 1], ours.port()).into()).expect("a relay");
    let node = |name: &str| {
        let mut options = lab.options(name);
        options.exports.clear();
        options.more = format!(
            "[[export]]\npath = \"/far\"\nremote = \"http://localhost:{}/data\"\nanonymous = \"write\"\n",
            relay.port()
        );
        lab.crossload(options).expect("a node")
    };
    let (content, held) = (bytes(SIZE, 81), ours.data().join("f"));
    let stored = || std::fs::read(&held).unwrap_or_default();
    std::fs::write(&held, OLD).expect("a file");
    relay.set_fault(Fault::FlipBitAfter(Direction::ToTarget, FLIPPED), usize::MAX);
    // One bit of each connection is flipped, and a node keeps its own.
    for (name, chunked) in [("sized", &[][..]), ("chunked", &["Transfer-Encoding: chunked"])] {
        let refused = lab.upload(&node(name).url("/far/f"), &content, chunked);
        let said = format!("{name}: {} {}", refused.status, refused.text());
        assert!(refused.status >= 400, "{said}");
        assert!(said.contains("checksum"), "{said}");
        assert!(stored() == OLD, "{said}: {} bytes", stored().len());
    }
    // What comes whole replaces it.
    relay.heal();
    lab.upload(&node("whole").url("/far/f"), &content, &[]).expect(204);
    assert!(stored() == content, "{} bytes", stored().len());
}
