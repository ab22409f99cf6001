//! Nodes, redirectors and the message bus that die, hang and come back.

use std::time::{Duration, Instant};

use conformance::{Lab, bytes, run, until};
use testkit::{Crossload, available};

use crate::bus::{BusShape, BusSite, JOIN_TIME, LOSS_TIME, SPARE_TIME};
use crate::site::PATIENCE;

fn site(test: &str) -> Option<BusSite> {
    available(test, BusSite::start(&BusShape::default()))
}

/// Gives an order to a node.
#[track_caller]
fn order(lab: &Lab, node: &Crossload, words: &[&str]) {
    let mut command = lab.client(["node"]).expect("the binary");
    let ca = lab.authority().ca_file();
    command.args(words).arg(node.url("")).arg("--cacert").arg(ca);
    run(&command).succeeded();
}

#[test]
fn a_node_that_joins_is_used_within_a_second() {
    let shape = BusShape {
        started: 2,
        ..BusShape::default()
    };
    let test = "a_node_that_joins_is_used_within_a_second";
    let Some(mut site) = available(test, BusSite::start(&shape)) else {
        return;
    };
    // A node that was never there may have any name.
    assert_eq!(site.reader_of("on-the-third"), Err(503));
    site.start_next().expect("the third node");
    let took = until("it is used", PATIENCE, || {
        // Names that came before the redirector knew the node.
        site.reader_of("on-the-third") == Err(404)
    });
    site.put(2, "on-the-third", b"one");
    until("its file is found", PATIENCE, || {
        site.reader_of("on-the-third") == Ok(2)
    });
    println!("{took:?} until a node that joined was used");
    assert!(took < JOIN_TIME + SPARE_TIME, "{took:?}");
}

#[test]
fn a_node_that_dies_is_left_out_within_three_seconds() {
    let test = "a_node_that_dies_is_left_out_within_three_seconds";
    let Some(mut site) = site(test) else { return };
    for node in [0, 1] {
        site.put(node, "both", b"both");
    }
    site.put(0, "only", b"only");
    until("all are found", PATIENCE, || site.reader_of("only") == Ok(0));
    until("its readers are sent there", PATIENCE, || {
        site.reader_of("both").is_ok_and(|node| node < 2)
    });
    site.nodes[0].process().kill_hard();
    let took = until("its death is known", PATIENCE, || site.reader_of("only") == Err(503));
    println!("{took:?} until a node that died was left out");
    assert!(took < LOSS_TIME + SPARE_TIME, "{took:?}");
    for _ in 0..10 {
        assert_eq!(site.reader_of("both"), Ok(1));
    }
    let told = site.lab.request("GET", &site.url("only"), &[]).expect(503).text();
    assert!(
        told.contains("nodes_silent") && told.contains(&site.nodes[0].url("")),
        "{told}"
    );
    let file = site.lab.file(b"new");
    let file = file.to_str().expect("plain path");
    for number in 0..5 {
        let name = format!("new{number}");
        site.lab.curl(&["-L", "-T", file, &site.url(&name)]).expect(201);
        assert_ne!(site.having(&name), [0]);
    }
    site.nodes[0].start_again().expect("it starts again");
    let took = until("it is used again", PATIENCE, || site.reader_of("only") == Ok(0));
    println!("{took:?} until it was used again");
    assert!(took < JOIN_TIME + SPARE_TIME, "{took:?}");
}

#[test]
fn a_client_of_xrootd_is_sent_to_the_other_copy_before_the_death_is_known() {
    let test = "a_client_of_xrootd_is_sent_to_the_other_copy_before_the_death_is_known";
    let Some(mut site) = site(test) else { return };
    let content = bytes(100_000, 395);
    for node in [0, 1] {
        site.put(node, "both", &content);
    }
    until("it is found", PATIENCE, || site.reader_of("both").is_ok());
    let url = site.redirector.root_url("/data/both");
    let fetch = |site: &BusSite| {
        let down = site.lab.fresh("down");
        site.lab.xrdcp(&[&url, down.to_str().expect("plain path")]).succeeded();
        assert!(conformance::is_whole(&down, &content));
    };
    fetch(&site);
    // The next reader follows the one before.
    let holder = site.reader_of("both").expect("a node");
    site.nodes[holder].process().kill_hard();
    fetch(&site);
    assert_eq!(site.logged("nodes_unlisted"), 0);
}

#[test]
fn a_drain_is_seen_at_once() {
    let Some(site) = site("a_drain_is_seen_at_once") else {
        return;
    };
    for node in [0, 1] {
        site.put(node, "both", b"both");
    }
    until("it is found", PATIENCE, || site.reader_of("both").is_ok());
    let is_drained = || site.ready(&site.redirector).contains("takes no clients");
    let mut took = Vec::new();
    for _ in 0..6 {
        order(&site.lab, &site.nodes[0], &["undrain"]);
        took.push(until("it is used again", PATIENCE, || !is_drained()));
        order(&site.lab, &site.nodes[0], &["drain", "--reads"]);
        took.push(until("the drain is seen", PATIENCE, is_drained));
    }
    // With the next announcement it would take half a second; a busy machine makes some slower.
    took.sort();
    println!("{took:?} until a drain was seen");
    assert!(took[took.len() / 4] < Duration::from_millis(200), "{took:?}");
    for _ in 0..10 {
        assert_eq!(site.reader_of("both"), Ok(1));
    }
    let file = site.lab.file(b"new");
    let file = file.to_str().expect("plain path");
    for number in 0..10 {
        let name = format!("new{number}");
        site.lab.curl(&["-L", "-T", file, &site.url(&name)]).expect(201);
        assert_ne!(site.having(&name), [0]);
    }
    order(&site.lab, &site.nodes[1], &["drain", "--reads"]);
    order(&site.lab, &site.nodes[0], &["undrain"]);
    until("it is used again", PATIENCE, || site.reader_of("both") == Ok(0));
}

#[test]
fn without_the_bus_everything_goes_on() {
    let Some(mut site) = site("without_the_bus_everything_goes_on") else {
        return;
    };
    site.put(0, "known", b"known");
    site.put(1, "unknown", b"unknown");
    until("it is known", PATIENCE, || site.reader_of("known") == Ok(0));
    let up = |site: &BusSite, server: &Crossload, name: &str| site.metric(server, name);
    // On a busy machine a bus may count as slow for a moment.
    until("the bus is used", PATIENCE, || {
        up(&site, &site.redirector, "crossload_redirector_bus_up") == Some(1.0)
            && up(&site, &site.nodes[0], "crossload_bus_up") == Some(1.0)
    });
    let ids: Vec<u32> = site.nodes.iter().map(|node| node.log().id()).collect();

    site.bus.process().kill_hard();
    let lost = |site: &BusSite| up(site, &site.redirector, "crossload_redirector_bus_up") == Some(0.0);
    until("the redirector knows", PATIENCE, || lost(&site));
    until("the nodes know", PATIENCE, || {
        let is_lost = |node: &Crossload| up(&site, node, "crossload_bus_up") == Some(0.0);
        site.nodes.iter().all(is_lost)
    });
    // Longer than the silence after which a node is lost while the bus works.
    let began = Instant::now();
    while began.elapsed() < LOSS_TIME + SPARE_TIME {
        assert_eq!(site.reader_of("known"), Ok(0));
    }
    assert_eq!(site.logged("node_lost"), 0);
    for server in [&site.redirector, &site.nodes[0]] {
        let ready = site.ready(server);
        assert!(ready.contains("message bus") && ready.contains("It is away"), "{ready}");
    }
    // Nodes are asked directly what they have.
    assert_eq!(site.reader_of("unknown"), Ok(1));
    assert_eq!(site.reader_of("none"), Err(404));
    site.nodes[2].process().kill_hard();
    let told = site.lab.request("GET", &site.url("none-yet"), &[]).expect(503).text();
    assert!(
        told.contains("nodes_silent") && told.contains(&site.nodes[2].url("")),
        "{told}"
    );
    assert_eq!(site.reader_of("known"), Ok(0));
    site.nodes[2].start_again().expect("it starts without the bus");
    site.redirector.process().kill_hard();
    site.redirector.start_again().expect("it starts without the bus");
    until("it finds the nodes without the bus", PATIENCE, || {
        site.reader_of("known") == Ok(0) && site.reader_of("unknown") == Ok(1)
    });

    site.put(2, "meanwhile", b"meanwhile");
    site.bus.start_again().expect("the bus starts");
    let took = until("all is right again", PATIENCE, || {
        site.reader_of("meanwhile") == Ok(2) && !lost(&site)
    });
    println!("{took:?} until the bus was used again");
    assert!(took < Duration::from_secs(5) + SPARE_TIME, "{took:?}");
    until("the nodes are back", PATIENCE, || {
        let is_back = |node: &Crossload| up(&site, node, "crossload_bus_up") == Some(1.0);
        site.nodes.iter().all(is_back)
    });
    assert!(site.ready(&site.redirector).contains("It works"));
    assert_eq!(site.nodes[0].log().id(), ids[0]);
    assert!(site.nodes[0].process().is_running() && site.redirector.process().is_running());
}

#[test]
fn a_bus_that_hangs_is_noticed_and_takes_no_node_along() {
    let test = "a_bus_that_hangs_is_noticed_and_takes_no_node_along";
    let Some(mut site) = site(test) else { return };
    site.put(0, "known", b"known");
    until("it is known", PATIENCE, || site.reader_of("known") == Ok(0));
    // On a busy machine a bus may count as slow for a moment.
    let is_used = |site: &BusSite| site.metric(&site.redirector, "crossload_redirector_bus_up") == Some(1.0);
    until("the bus is used", PATIENCE, || is_used(&site));
    site.bus.process().pause().expect("it runs");
    let took = until("the redirector knows", PATIENCE, || !is_used(&site));
    println!("{took:?} until a bus that hangs was noticed");
    assert_eq!(site.reader_of("known"), Ok(0));
    assert_eq!(site.reader_of("none"), Err(404), "the nodes are asked directly");
    site.bus.process().resume().expect("it runs");
    until("the bus works again", PATIENCE, || is_used(&site));
    site.put(1, "new", b"new");
    until("new files are found", PATIENCE, || site.reader_of("new") == Ok(1));
    assert_eq!(site.logged("node_lost"), 0);
}

#[test]
fn a_redirector_that_was_killed_answers_rightly_within_a_second() {
    let test = "a_redirector_that_was_killed_answers_rightly_within_a_second";
    let Some(mut site) = site(test) else { return };
    site.put(2, "f", b"one");
    until("it is found", PATIENCE, || site.reader_of("f") == Ok(2));
    site.redirector.process().kill_hard();
    site.redirector.start_again().expect("it starts again");
    let mut seen = Vec::new();
    let took = until("it answers rightly", PATIENCE, || {
        seen.push(site.reader_of("f"));
        seen.last() == Some(&Ok(2))
    });
    println!("{took:?} until a restarted redirector answered rightly: {seen:?}");
    assert!(!seen.contains(&Err(404)), "{seen:?}");
    assert!(took < JOIN_TIME + SPARE_TIME, "{took:?}");
    assert_eq!(site.reader_of("none"), Err(404));
}
