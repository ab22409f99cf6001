//! Habits of other programs that our client has: what it says after a failed connection, after
//! Ctrl-C, and when nobody reads its output.

use std::io::Read as _;
use std::net::{Ipv4Addr, TcpListener};

use conformance::run;
use testkit::available;

use crate::client::{assert_says, site};

/// A server that speaks no protocol: it closes each connection when it has read a byte.
fn silent_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("its address").port();
    // Ends with the test program.
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let _ = socket.read(&mut [0; 1]);
        }
    });
    port
}

#[test]
fn a_wrong_scheme_or_an_unknown_authority_leads_to_what_to_type() {
    let test = "a_wrong_scheme_or_an_unknown_authority_leads_to_what_to_type";
    let Some(site) = available(test, site()) else { return };
    let port = silent_port();
    for (wrong, right) in [("https", "http"), ("davs", "dav"), ("http", "https"), ("root", "roots")] {
        let place = format!("://localhost:{port}//f");
        let listed = site.lab.run_client("ls", &[&format!("{wrong}{place}")]);
        assert_says(&listed, 104, &format!("write {right}{place};"), &["--cacert"]);
    }
    let url = site.first.davs("");
    let mut unknown = site.lab.client(["stat", "--json", &url]).expect("the client is built");
    let unknown = run(unknown.env("X509_CERT_DIR", "/nonexistent"));
    assert_says(
        &unknown,
        71,
        "next: Give the file of its authority with --cacert",
        &["Host is down"],
    );
}
