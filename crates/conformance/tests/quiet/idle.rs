//! What a connection costs that has been served and now waits: so many bytes of the server's
//! memory, whatever the machine's speed. The kernel's part is not counted.

use std::io::{Read, Write};

use conformance::{ABLE_TLS, HAS_TLS, Lab, RootSocket, WANT_TLS, open, tls, tls_session, tls_session_as};
use rustls::StreamOwned;
use testkit::{Crossload, Result, available};

/// Connections that wait while the memory is read.
const CONNECTIONS: usize = 500;
/// Connections before that: what a server makes ready once is no cost of one more.
const EARLIER: usize = 50;
const KIB: u64 = 1024;

/// Flag of the version's request: the client can do TLS, and wants it.
const WANTS_TLS: u8 = WANT_TLS | ABLE_TLS;

struct Site {
    lab: Lab,
    server: Crossload,
}

/// A server with the empty file `f`; `asks` says whether it asks clients for certificates.
fn site(name: &str, asks: bool) -> Result<Site> {
    let lab = Lab::new(name)?;
    let mut options = lab.options("server");
    if asks {
        options.more = format!("[x509]\ntrust_directory = {:?}\n", lab.authority().trust_directory());
    }
    let server = lab.crossload(options)?;
    std::fs::write(server.data().join("f"), b"")?;
    Ok(Site { lab, server })
}

/// Asks for the file and hears the answer, whose head is all of it.
fn ask<S: Read + Write>(mut stream: S) -> S {
    let request = b"HEAD /data/f HTTP/1.1\r\nHost: localhost\r\nUser-Agent: idle\r\n\r\n";
    stream.write_all(request).expect("sent");
    let mut answer = Vec::new();
    let mut piece = [0; 1024];
    while !answer.ends_with(b"\r\n\r\n") {
        let count = stream.read(&mut piece).expect("an answer");
        assert!(count > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..count]);
    }
    assert!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    stream
}

/// Demands that each of many connections adds at most `bytes_max` to the server's resident memory.
fn check<C>(site: &mut Site, bytes_max: u64, connect: impl Fn(&Lab, u16) -> C) {
    let port = site.server.port();
    let mut open: Vec<C> = (0..EARLIER).map(|_| connect(&site.lab, port)).collect();
    let resident = |site: &mut Site| site.server.process().memory().expect("memory").resident_bytes;
    let before = resident(site);
    open.extend((0..CONNECTIONS).map(|_| connect(&site.lab, port)));
    let each = resident(site).saturating_sub(before) / CONNECTIONS as u64;
    assert!(
        each <= bytes_max,
        "{each} bytes for each connection that waits, more than {bytes_max}"
    );
    // All of them are still served.
    assert_eq!(open.len(), EARLIER + CONNECTIONS);
}

#[test]
fn a_connection_of_https_that_waits() {
    let Some(mut site) = available("a_connection_of_https_that_waits", site("idle-https", false)) else {
        return;
    };
    check(&mut site, 8 * KIB, |lab, port| {
        ask(tls(port, &lab.authority().ca_file()))
    });
}

/// Beside the connection the session is remembered, with the certificates, for a client that comes
/// again.
#[test]
fn a_connection_with_a_certificate_that_waits() {
    let test = "a_connection_with_a_certificate_that_waits";
    let Some(mut site) = available(test, site("idle-certificate", true)) else {
        return;
    };
    let user = site
        .lab
        .authority()
        .issue_user("/O=Crossload test/CN=Jane Doe")
        .expect("a user");
    check(&mut site, 12 * KIB, |lab, port| {
        let session = tls_session_as(&lab.authority().ca_file(), &user);
        ask(StreamOwned::new(session, open(port)))
    });
}

/// Most of many transfers wait at any moment, nearly always in the middle of a record.
#[test]
fn an_upload_that_waits_in_the_middle_of_a_record() {
    let test = "an_upload_that_waits_in_the_middle_of_a_record";
    let Some(mut site) = available(test, site("idle-upload", false)) else {
        return;
    };
    let number = std::cell::Cell::new(0);
    check(&mut site, 64 * KIB, |lab, port| {
        number.set(number.get() + 1);
        let mut stream = tls(port, &lab.authority().ca_file());
        let head = format!(
            "PUT /data/u{} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n",
            number.get()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        stream.write_all(&[7; 600_000]).expect("sent");
        // The records of more payload, and the last one of them is cut.
        stream.conn.writer().write_all(&[7; 60_000]).expect("taken");
        let mut records = Vec::new();
        while stream.conn.wants_write() {
            stream.conn.write_tls(&mut records).expect("records");
        }
        let cut = records.len() - 1000;
        stream.sock.write_all(&records[..cut]).expect("sent");
        stream
    });
}

/// A reader that has stopped, with as much on its way as the sockets take.
#[test]
fn a_download_whose_reader_has_stopped() {
    let test = "a_download_whose_reader_has_stopped";
    let Some(mut site) = available(test, site("idle-download", false)) else {
        return;
    };
    let file = std::fs::File::create(site.server.data().join("long")).expect("made");
    file.set_len(64 << 20).expect("long");
    check(&mut site, 64 * KIB, |lab, port| {
        let mut stream = tls(port, &lab.authority().ca_file());
        let request = b"GET /data/long HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request).expect("sent");
        stream.read_exact(&mut [0; 1000]).expect("a beginning");
        stream
    });
}

#[test]
fn a_session_of_the_xrootd_protocol_that_waits() {
    let test = "a_session_of_the_xrootd_protocol_that_waits";
    let Some(mut site) = available(test, site("idle-root", false)) else {
        return;
    };
    // The goal is 6 KiB. Unoptimised it takes 6.0 to 6.5, and one page of the allocator decides.
    check(&mut site, 6 * KIB + KIB * 5 / 8, |_, port| {
        let mut session = RootSocket::session(port);
        let _ = session.stat("/data/f").expect_ok();
        session
    });
}

#[test]
fn a_session_of_the_xrootd_protocol_over_tls_that_waits() {
    let test = "a_session_of_the_xrootd_protocol_over_tls_that_waits";
    let Some(mut site) = available(test, site("idle-roots", false)) else {
        return;
    };
    // 7 KiB of an optimised program; the states of one that is not are larger.
    check(&mut site, 10 * KIB, |lab, port| {
        let mut connection = RootSocket::connect(port);
        let flags = connection.greet(WANTS_TLS);
        assert_ne!(flags & HAS_TLS, 0, "{flags:x}");
        let mut session = RootSocket::over_tls(connection, tls_session(&lab.authority().ca_file()));
        let _ = session.login();
        let _ = session.stat("/data/f").expect_ok();
        session
    });
}
