//! litmus, the suite of neon's author for WebDAV servers: the parts that are about what is offered here, and those cases
//! of the part about properties that are about PROPFIND. In clear text, since litmus takes no other authority's certificates.

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
    for part in ["basic", "http", "locks"] {
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

#[test]
fn what_litmus_finds_in_bodies_of_propfind_is_right() {
    let Some((lab, server)) = available("what_litmus_finds_in_bodies_of_propfind_is_right", site()) else {
        return;
    };
    server.make_directory("props");
    let mut command = lab.command("litmus").expect("litmus is installed");
    // Properties cannot be set here, so that the part as a whole fails.
    command.env("TESTS", "props").arg("-k").arg(server.clear_url("props"));
    let said = run(&command);
    let text = said.text();
    for case in ["propfind_invalid", "propfind_invalid2", "propfind_d0", "propextended"] {
        let passes = text
            .lines()
            .any(|line| line.contains(&format!(" {case}.")) && line.ends_with("pass"));
        assert!(passes, "{case}: {}", said.said());
    }
}
