//! litmus, the suite of neon's author for WebDAV servers: the parts that pass without removing full
//! collections; the other one is in `webdav_trees`. In clear text, since litmus takes no other
//! authority's certificates.

use conformance::{Endpoint, Lab, run};
use testkit::{Result, available, require};

fn site() -> Result<(Lab, Endpoint)> {
    require("litmus")?;
    let lab = Lab::new("litmus")?;
    let server = lab.endpoint("server")?;
    Ok((lab, server))
}

#[test]
fn the_parts_of_litmus_pass_that_are_offered_whole() {
    let Some((lab, server)) = available("the_parts_of_litmus_pass_that_are_offered_whole", site()) else {
        return;
    };
    for part in ["basic", "props", "http", "locks"] {
        // Each part wants to begin without what the one before it left.
        server.make_directory(part);
        let mut command = lab.command("litmus").expect("litmus is installed");
        command.env("TESTS", part).arg("-k").arg(server.clear_url(part));
        let said = run(&command);
        assert!(
            said.code == Some(0) && !said.text().contains("FAIL"),
            "{part}: {}",
            said.said()
        );
    }
}
