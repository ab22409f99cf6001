//! Who is believed on the message bus, and for what.

use conformance::until;
use testkit::{Crossload, available};

use crate::bus::{BusShape, BusSite, bus_name, logged};
use crate::site::PATIENCE;

#[test]
fn a_server_that_takes_the_name_of_another_is_not_believed() {
    let test = "a_server_that_takes_the_name_of_another_is_not_believed";
    let shape = BusShape {
        started: 2,
        ..BusShape::default()
    };
    let Some(mut site) = available(test, BusSite::start(&shape)) else {
        return;
    };
    // It may be a node on the bus, but not the third one.
    let third = bus_name(site.ports[2]);
    let options = site.node_options(site.ports[2], &third, "stranger");
    let mut stranger = Crossload::start(options).expect("it starts");
    until("the bus refuses it", PATIENCE, || {
        !logged(&stranger, "bus_refused").is_empty()
    });
    let refused = logged(&stranger, "bus_refused")[0]["error"].to_string();
    assert!(refused.contains("Permissions Violation"), "{refused}");
    let url = stranger.url("/data/lie");
    site.lab.upload(&url, b"lie", &[]).expect(201);
    site.put(1, "true", b"true");
    until("honest nodes are heard", PATIENCE, || site.reader_of("true") == Ok(1));
    // The third node is still away.
    assert_eq!(site.reader_of("lie"), Err(503));
    let ready = site.ready(&stranger);
    assert!(ready.contains("Permissions Violation"), "{ready}");
    assert!(
        site.metric(&stranger, "crossload_bus_refusals_total")
            .is_some_and(|count| count > 0.0)
    );
    stranger.process().kill_hard();
    site.start_next().expect("the real one");
    until("the real one is believed", PATIENCE, || {
        site.reader_of("lie") == Err(404)
    });
}

#[test]
fn a_node_is_believed_only_for_its_exports() {
    let test = "a_node_is_believed_only_for_its_exports";
    let shape = BusShape {
        nodes: 2,
        started: 2,
        exports: |number| ["/data", "/data/own"][number],
        ..BusShape::default()
    };
    let Some(site) = available(test, BusSite::start(&shape)) else {
        return;
    };
    site.put(1, "foreign", b"claimed");
    site.put(1, "own/f", b"own");
    until("what is its own is found", PATIENCE, || {
        site.reader_of("own/f") == Ok(1)
    });
    assert_eq!(site.reader_of("foreign"), Err(404));
    site.put(0, "foreign", b"true");
    until("another node has the name", PATIENCE, || {
        site.reader_of("foreign") == Ok(0)
    });
    let file = site.lab.file(b"new");
    let file = file.to_str().expect("plain path");
    for number in 0..10 {
        let name = format!("new{number}");
        site.lab.curl(&["-L", "-T", file, &site.url(&name)]).expect(201);
        assert_eq!(site.having(&name), [0]);
    }
}

#[test]
fn a_user_that_the_bus_does_not_know_is_told_so() {
    let test = "a_user_that_the_bus_does_not_know_is_told_so";
    let shape = BusShape {
        nodes: 1,
        started: 1,
        ..BusShape::default()
    };
    let Some(site) = available(test, BusSite::start(&shape)) else {
        return;
    };
    let port = testkit::free_port().expect("a port");
    let options = site.node_options(port, &bus_name(port), "unknown");
    let stranger = Crossload::start(options).expect("it serves its clients nevertheless");
    until("it says why", PATIENCE, || {
        !logged(&stranger, "bus_unreachable").is_empty()
    });
    let ready = site.ready(&stranger);
    assert!(ready.contains("authorization violation"), "{ready}");
}
