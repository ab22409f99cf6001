//! What a bearer token costs: HEAD requests per second over kept TLS connections, without a credential, with a header of
//! the token's length that means nothing, and with a token that was verified before.
//!
//! `cargo run --release -p bench --example token_requests [SECONDS]`, with `CROSSLOAD_BIN` naming the server to measure.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use testkit::{Access, Authority, Crossload, CrossloadOptions, Result, Scratch, TokenIssuer};

/// Connections at the same time.
const CLIENTS: usize = 4;
/// Measured by turns, so that a machine that grows busy does it to all.
const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let seconds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2);
    let scratch = Scratch::new("token-requests")?;
    let authority = Authority::new(scratch.path())?;
    let issuer = TokenIssuer::start(&authority)?;
    let host = authority.issue_localhost()?;
    let (own, data) = (scratch.join("own"), scratch.join("data"));
    let mut options = CrossloadOptions::open("server", &own, &data, &host, &authority.ca_file());
    options.exports[0].anonymous = Access::Read;
    options.more = format!("[log]\nrequests = false\n[[issuer]]\nurl = \"{}\"\n", issuer.url());
    let server = Crossload::start(options)?;
    std::fs::write(server.data().join("file"), b"content")?;
    let token = issuer
        .token()
        .scope("storage.read:/data storage.modify:/data/user openid")
        .mint();
    let kinds = [
        ("no credential", String::new()),
        ("a header as long", format!("X-Padding: Bearer {token}\r\n")),
        ("a verified token", format!("Authorization: Bearer {token}\r\n")),
    ];
    let tls = Arc::new(config(&authority));
    let mut rounds = vec![Vec::new(); kinds.len()];
    for _ in 0..ROUNDS {
        for (index, (_, header)) in kinds.iter().enumerate() {
            let before = server.log().cpu_seconds()?;
            let count = count(&tls, server.port(), header, Duration::from_secs(seconds));
            let cpu_us = (server.log().cpu_seconds()? - before) * 1e6 / count as f64;
            rounds[index].push((count as f64 / seconds as f64, cpu_us));
        }
    }
    let median = |index: usize, pick: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = rounds[index].iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values[ROUNDS / 2]
    };
    for (index, (name, header)) in kinds.iter().enumerate() {
        let (rate, cpu_us) = (median(index, |round| round.0), median(index, |round| round.1));
        let share = 100.0 * cpu_us / median(0, |round| round.1);
        #[expect(clippy::print_stdout, reason = "that is what it is for")]
        {
            println!(
                "{name:16} {:5} bytes: {rate:8.0} requests/s, {cpu_us:6.1} us of the server's processor each ({share:5.1} %)",
                header.len()
            );
        }
    }
    Ok(())
}

fn config(authority: &Authority) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(authority.ca_file()).expect("the authority");
    roots.add_parsable_certificates(certificates.map(|one| one.expect("a certificate")));
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// Requests of all clients together.
fn count(tls: &Arc<ClientConfig>, port: u16, header: &str, time: Duration) -> u64 {
    let request = format!("HEAD /data/file HTTP/1.1\r\nHost: localhost:{port}\r\n{header}\r\n");
    let counts: Vec<_> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| scope.spawn(|| ask_for(tls, port, &request, time)))
            .collect();
        clients.into_iter().map(|one| one.join().expect("no panic")).collect()
    });
    counts.iter().sum()
}

fn ask_for(tls: &Arc<ClientConfig>, port: u16, request: &str, time: Duration) -> u64 {
    let tcp = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    tcp.set_nodelay(true).expect("no delay");
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::clone(tls), name).expect("TLS");
    let mut stream = StreamOwned::new(connection, tcp);
    let mut answer = vec![0; 16 * 1024];
    let mut ask = || {
        stream.write_all(request.as_bytes()).expect("sent");
        let mut filled = 0;
        while !answer[..filled].ends_with(b"\r\n\r\n") {
            let count = stream.read(&mut answer[filled..]).expect("answered");
            assert!(count > 0, "the server hung up");
            filled += count;
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"), "refused");
    };
    ask();
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < time {
        ask();
        count += 1;
    }
    count
}
