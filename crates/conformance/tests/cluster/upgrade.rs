//! Nodes are drained, stopped, started again and used again, one after the other, while clients
//! read and write.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use conformance::{Lab, bytes, run, until};
use testkit::available;

use crate::site::{Cluster, PATIENCE, Shape};

/// What the clients of a rolling upgrade did.
#[derive(Default)]
struct Done {
    read: AtomicUsize,
    written: AtomicUsize,
}

/// Reads and writes until `stop` is set. Each transfer has to succeed at once.
fn load(lab: &Lab, name: &str, cluster_url: &str, content: &[u8], stop: &AtomicBool, done: &Done) {
    let file = lab.file(content);
    let file = file.to_str().expect("plain path");
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let read = lab.curl(&["-L", &format!("{cluster_url}everywhere")]);
        assert!(
            read.status == 200 && read.body == content,
            "{} {}",
            read.heads,
            read.text()
        );
        done.read.fetch_add(1, Ordering::Relaxed);
        let written = lab.curl(&["-L", "-T", file, &format!("{cluster_url}{name}/{number}")]);
        assert_eq!(written.status, 201, "{} {}", written.heads, written.text());
        done.written.fetch_add(1, Ordering::Relaxed);
    }
}

/// It takes 20 s: each node has its grace time, and is looked at again.
#[test]
fn three_nodes_are_upgraded_without_a_failed_transfer() {
    let test = "three_nodes_are_upgraded_without_a_failed_transfer";
    let Some(lab) = available(test, Lab::new("upgrade")) else {
        return;
    };
    let shape = Shape {
        more: Box::new(|_| "[cluster]\noperators = [\"anyone\"]\ndrain_grace = \"2s\"\n".to_owned()),
        ..Shape::default()
    };
    let mut cluster = Cluster::start(&lab, &shape).expect("the cluster starts");
    let content = bytes(2 << 20, 3);
    for node in 0..3 {
        cluster.put(node, "everywhere", &content);
    }
    let (stop, done) = (AtomicBool::new(false), Done::default());
    let (url, lab, content) = (&cluster.url(""), &lab, &content);
    let (stop, done) = (&stop, &done);
    std::thread::scope(|scope| {
        let client = |name: &'static str| scope.spawn(move || load(lab, name, url, content, stop, done));
        let clients = ["a", "b", "c"].map(client);
        for number in 0..3 {
            let node = cluster.nodes[number].url("");
            let order = |verb: &str, more: &[&str]| {
                let mut command = lab.client(["node", verb, &node, "--cacert"]).expect("our client");
                command.arg(lab.authority().ca_file()).args(more);
                run(&command).succeeded();
            };
            order("drain", &["--reads"]);
            order("wait", &["-t", "30s"]);
            let came = cluster.came();
            // It breaks whatever is still under way.
            cluster.nodes[number].process().kill_hard();
            cluster.nodes[number].start_again().expect("the node starts again");
            order("undrain", &[]);
            until("the node is used again", PATIENCE, || cluster.came() > came);
        }
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().expect("no transfer failed");
        }
    });
    let (read, written) = (done.read.load(Ordering::Relaxed), done.written.load(Ordering::Relaxed));
    assert!(read > 10 && written > 10, "{read} read, {written} written");
}
