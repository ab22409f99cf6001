//! Clients are kept at their site where it has the file.

use std::sync::atomic::{AtomicBool, Ordering};

use conformance::{Lab, bytes, run};
use testkit::available;

use crate::site::{Cluster, Shape};

const FILES: usize = 12;

#[test]
fn clients_stay_at_their_site_and_leave_it_when_they_must() {
    let Some(lab) = available("clients_stay_at_their_site", Lab::new("cluster-near")) else {
        return;
    };
    let is_first = AtomicBool::new(true);
    let shape = Shape {
        // The first node tells that it is here.
        more: Box::new(move |_| {
            let site = if is_first.swap(false, Ordering::Relaxed) {
                "here"
            } else {
                "there"
            };
            format!("[cluster]\nsite = {site:?}\n")
        }),
        redirector: "[[site]]\nname = \"here\"\nnetworks = [\"127.0.0.0/8\", \"::1\"]\n".to_owned(),
        ..Shape::default()
    };
    let cluster = Cluster::start(&lab, &shape).expect("the cluster starts");
    let content = bytes(1000, 7);
    for number in 0..FILES {
        (0..3).for_each(|node| cluster.put(node, &format!("all{number}"), &content));
        cluster.put(2, &format!("far{number}"), &content);
    }
    let sent_to = |name: &str| {
        let sent = lab.request("GET", &cluster.url(name), &[]).expect(307);
        let place = sent.header("location").expect("a place").to_owned();
        // Behind it comes the id of the request.
        place.split('?').next().unwrap_or_default().to_owned()
    };
    for number in 0..FILES {
        let name = format!("all{number}");
        assert_eq!(sent_to(&name), cluster.nodes[0].url(&format!("/data/{name}")));
        let name = format!("far{number}");
        assert_eq!(sent_to(&name), cluster.nodes[2].url(&format!("/data/{name}")));
        let name = format!("new{number}");
        let file = lab.file(&content);
        let file = file.to_str().expect("plain path");
        lab.curl(&["-L", "-T", file, &cluster.url(&name)]).expect(201);
        assert_eq!(cluster.having(&name), [0]);
    }
    let why = lab.client(["why", "/data/all0", "--redirector", &cluster.redirector.url("")]);
    let said = run(&why.expect("our client")).succeeded().text();
    assert!(said.contains("at the client's site"), "{said}");
}
