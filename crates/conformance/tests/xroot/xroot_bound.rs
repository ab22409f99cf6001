//! Clients that write over the further connections of a session, as that of go-hep does: against
//! XRootD, and against ours.

use std::path::Path;

use conformance::{Endpoint, Lab, Site, run};
use testkit::{available, require};

#[test]
fn what_is_written_comes_over_every_connection_of_a_session() {
    let test = "what_is_written_comes_over_every_connection_of_a_session";
    let Some(site) = available(test, Site::with_xrootd("xroot-bound", "python3")) else {
        return;
    };
    site.compare(|lab: &Lab, server: &Endpoint| {
        server.make_directory("bound");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/bound.py");
        let mut command = lab.prepared(&require("python3").expect("python3"));
        command
            .arg(script)
            .args([&server.root_port().to_string(), "/data/bound/file", "24"]);
        let done = run(&command).succeeded();
        assert!(done.text().contains("done"), "{}", done.said());
        assert_eq!(
            server.stored("bound/file").map(|stored| stored.len()),
            Some(24 * 100_003)
        );
    });
}
