//! Nodes on the message bus and beside it, ours and of others, behind one redirector.

use std::collections::BTreeSet;

use conformance::{Lab, bytes, is_whole, run, until};
use testkit::{Result, Xrootd, XrootdAccess, available};

use crate::bus::{BusShape, BusSite, LOSS_TIME, SPARE_TIME};
use crate::site::PATIENCE;

/// Two nodes on the bus, one of ours beside it, and a server of XRootD.
fn start() -> Result<(BusSite, Xrootd)> {
    let lab = Lab::new("mixed")?;
    let foreign = lab.xrootd("foreign", XrootdAccess::Open)?;
    let shape = BusShape {
        on_bus: |number| number < 2,
        more: format!(
            "[[node]]\nurl = \"root://localhost:{}\"\nexports = [\"/data\"]\nbus = false\n",
            foreign.root_port()
        ),
        ..BusShape::default()
    };
    let site = BusSite::start_in(lab, &shape)?;
    until("the servers beside the bus are known", PATIENCE, || {
        site.logged("node_came") == 4
    });
    Ok((site, foreign))
}

#[test]
fn a_redirector_has_nodes_on_the_bus_and_beside_it() {
    let test = "a_redirector_has_nodes_on_the_bus_and_beside_it";
    let Some((site, foreign)) = available(test, start()) else {
        return;
    };
    let lab = &site.lab;
    let content = bytes(10_000, 397);
    for node in 0..3 {
        site.put(node, &format!("on{node}"), &content);
    }
    std::fs::write(foreign.data().join("on-foreign"), &content).expect("a file");
    for node in 0..3 {
        let name = format!("on{node}");
        until("it is found", PATIENCE, || site.reader_of(&name) == Ok(node));
    }
    let fetch = |name: &str| {
        let down = lab.fresh("down");
        let url = site.redirector.root_url(&format!("/data/{name}"));
        lab.xrdcp(&[&url, down.to_str().expect("plain path")]).succeeded();
        assert!(is_whole(&down, &content), "{name}");
    };
    ["on0", "on2", "on-foreign"].into_iter().for_each(fetch);
    // Certain only because the servers beside the bus have said so, too.
    assert_eq!(site.reader_of("none"), Err(404));
    let mut xrdfs = lab.command("xrdfs").expect("it is installed");
    xrdfs.arg(format!("root://localhost:{}", site.redirector.port()));
    let listed = run(xrdfs.args(["ls", "/data"])).succeeded().text();
    let names: BTreeSet<&str> = listed.split_whitespace().collect();
    assert_eq!(
        names,
        ["/data/on-foreign", "/data/on0", "/data/on1", "/data/on2"].into()
    );

    let file = lab.file(&content);
    let file = file.to_str().expect("plain path");
    let mut used = BTreeSet::new();
    for number in 0..24 {
        let name = format!("new{number}");
        let url = site.redirector.root_url(&format!("/data/{name}"));
        lab.xrdcp(&[file, &url]).succeeded();
        used.extend(site.having(&name));
        used.extend(foreign.data().join(&name).exists().then_some(3));
        fetch(&name);
    }
    assert!(
        used.contains(&2) && (used.contains(&0) || used.contains(&1)),
        "{used:?}"
    );
    site.lab.request("DELETE", &site.url("on2"), &[]).expect(204);
    assert_eq!((site.reader_of("on2"), site.having("on2").len()), (Err(404), 0));
}

#[test]
fn faults_beside_the_bus_and_of_the_bus_stay_where_they_are() {
    let test = "faults_beside_the_bus_and_of_the_bus_stay_where_they_are";
    let Some((mut site, _foreign)) = available(test, start()) else {
        return;
    };
    for node in 0..3 {
        site.put(node, &format!("on{node}"), b"one");
        site.put(node, "everywhere", b"one");
    }
    until("all are found", PATIENCE, || {
        (0..3).all(|node| site.reader_of(&format!("on{node}")) == Ok(node))
    });
    site.nodes[2].process().kill_hard();
    let took = until("its death is known", PATIENCE, || site.reader_of("on2") == Err(503));
    assert!(took < LOSS_TIME + SPARE_TIME, "{took:?}");
    assert_eq!(site.reader_of("on0"), Ok(0));
    // It may have what no other node has.
    assert_eq!(site.reader_of("none"), Err(503));
    site.nodes[2].start_again().expect("it starts again");
    until("it is used again", PATIENCE, || site.reader_of("on2") == Ok(2));

    let lost = site.logged("node_lost");
    let is_used = |site: &BusSite| site.metric(&site.redirector, "crossload_redirector_bus_up") == Some(1.0);
    site.bus.process().kill_hard();
    until("the redirector knows", PATIENCE, || !is_used(&site));
    for node in 0..3 {
        assert_eq!(site.reader_of(&format!("on{node}")), Ok(node));
    }
    site.put(2, "beside", b"one");
    until("what comes beside the bus is found", PATIENCE, || {
        site.reader_of("beside") == Ok(2)
    });
    assert_eq!(site.reader_of("none"), Err(404));
    site.bus.start_again().expect("the bus starts");
    until("the bus works again", PATIENCE, || is_used(&site));
    site.put(0, "again", b"one");
    until("what comes on the bus is found", PATIENCE, || {
        site.reader_of("again") == Ok(0)
    });
    assert_eq!(site.logged("node_lost"), lost);
}
