//! Requests over HTTP by hand: quick enough for many thousands, with every credential that a
//! request or a TLS session can show.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use conformance::{adler32, bytes, open, tls, tls_session_as};
use rustls::StreamOwned;
use socket2::SockRef;

use super::site::{LARGE, LARGE_BYTES, Site};
use crate::dice::Dice;

/// Refusals whose explanations a server keeps.
const EXPLANATIONS_KEPT: usize = 1024;
/// What a client sends or takes before it leaves.
const UNTIL_GONE: usize = 300_000;

/// A connection of either kind.
pub(crate) trait Wire: Read + Write {}
impl<T: Read + Write> Wire for T {}

/// A client and what it has read ahead.
pub(crate) struct Client(BufReader<Box<dyn Wire>>);

/// An answer.
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: Vec<String>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{:?}\n{text:.500}", self.head);
        self
    }

    #[track_caller]
    pub(crate) fn expect_refusal(self) {
        assert!((400..500).contains(&self.status), "{:?}", self.head);
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    pub(crate) fn new(wire: impl Wire + 'static) -> Self {
        Self(BufReader::new(Box::new(wire)))
    }

    /// In clear text.
    pub(crate) fn clear(site: &Site) -> Self {
        Self::new(open(site.port()))
    }

    /// Over TLS.
    pub(crate) fn secure(site: &Site) -> Self {
        Self::new(tls(site.port(), &site.ca_file()))
    }

    /// Over TLS or in clear text.
    pub(crate) fn either(site: &Site, dice: &mut Dice) -> Self {
        match dice.below(2) {
            0 => Self::clear(site),
            _ => Self::secure(site),
        }
    }

    /// Over TLS, with a proxy.
    pub(crate) fn with_proxy(site: &Site, dice: &mut Dice) -> Self {
        let proxy = &site.proxies[dice.below(site.proxies.len())];
        Self::showing(site, &proxy.user)
    }

    pub(crate) fn showing(site: &Site, user: &testkit::User) -> Self {
        let session = tls_session_as(&site.ca_file(), user);
        Self::new(StreamOwned::new(session, open(site.port())))
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[&str], length: Option<usize>) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: soak\r\n");
        for header in headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        if let Some(length) = length {
            head.push_str(&format!("Content-Length: {length}\r\n"));
        }
        head.push_str("\r\n");
        self.write(head.as_bytes());
    }

    pub(crate) fn write(&mut self, data: &[u8]) {
        let wire = self.0.get_mut();
        // A server may refuse and close before all of it is sent.
        let _ = wire.write_all(data).and_then(|()| wire.flush());
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, headers: &[&str], body: Option<&[u8]>) -> Reply {
        self.send(method, path, headers, body.map(<[u8]>::len));
        self.write(body.unwrap_or_default());
        let mut reply = self.head();
        if method != "HEAD" {
            reply.body = self.body(&reply);
        }
        reply
    }

    /// The next final head.
    pub(crate) fn head(&mut self) -> Reply {
        loop {
            let mut head = Vec::new();
            loop {
                let line = self.line();
                if line.is_empty() {
                    break;
                }
                head.push(line);
            }
            let status = head[0].split(' ').nth(1).and_then(|word| word.parse().ok());
            let status = status.unwrap_or_else(|| panic!("no status: {head:?}"));
            if status >= 200 {
                let body = Vec::new();
                return Reply { status, head, body };
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let length = self.0.read_line(&mut line).expect("a line");
        assert!(length > 0, "the server has closed");
        line.trim_end().to_owned()
    }

    fn body(&mut self, reply: &Reply) -> Vec<u8> {
        if reply.header("Transfer-Encoding").is_none() {
            let length = reply.header("Content-Length").and_then(|text| text.parse().ok());
            return self.exactly(length.unwrap_or(0));
        }
        let mut body = Vec::new();
        loop {
            let line = self.line();
            let size = usize::from_str_radix(line.split(';').next().unwrap_or_default(), 16).expect("a size");
            body.extend(self.exactly(size));
            self.line();
            if size == 0 {
                return body;
            }
        }
    }

    fn exactly(&mut self, length: usize) -> Vec<u8> {
        let mut data = vec![0; length];
        self.0.read_exact(&mut data).expect("all of it");
        data
    }
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

/// Reads a file, several times on one connection, and compares it.
fn read(mut client: Client, site: &Site, dice: &mut Dice, export: &str, headers: &[&str]) {
    for _ in 0..1 + dice.below(3) {
        let file = site.file(dice);
        let path = format!("/{export}/{}", file.name);
        assert!(client.ask("GET", &path, headers, None).expect(200).body == file.content);
    }
}

/// Uploads, with the checksum declared.
fn write(mut client: Client, site: &Site, dice: &mut Dice, export: &str, headers: &[&str]) {
    let content = bytes(dice.pick(&[0, 1, 5000, 70_000, 400_000]), dice.next());
    let digest = format!("Digest: adler32={:08x}", adler32(&content));
    let headers = [&[digest.as_str()], headers].concat();
    let reply = client.ask("PUT", &site.target(export), &headers, Some(&content));
    assert!(matches!(reply.status, 201 | 204), "{:?}", reply.head);
}

pub(crate) fn get(site: &Site, dice: &mut Dice) {
    read(Client::either(site, dice), site, dice, "open", &[]);
}

pub(crate) fn put(site: &Site, dice: &mut Dice) {
    write(Client::either(site, dice), site, dice, "open", &[]);
}

pub(crate) fn with_token(site: &Site, dice: &mut Dice) {
    let header = bearer(&site.tokens[dice.below(site.tokens.len())]);
    match dice.below(2) {
        0 => read(Client::secure(site), site, dice, "data", &[&header]),
        _ => write(Client::secure(site), site, dice, "data", &[&header]),
    }
}

pub(crate) fn with_macaroon(site: &Site, dice: &mut Dice) {
    let header = bearer(&site.macaroons[dice.below(site.macaroons.len())]);
    read(Client::secure(site), site, dice, "data", &[&header]);
}

pub(crate) fn with_proxy(site: &Site, dice: &mut Dice) {
    let client = Client::with_proxy(site, dice);
    match dice.below(2) {
        0 => read(client, site, dice, "data", &[]),
        _ => write(client, site, dice, "data", &[]),
    }
}

/// Asks for a macaroon as a user with a proxy.
pub(crate) fn macaroon(site: &Site, dice: &mut Dice) {
    let body = br#"{"caveats": ["activity:DOWNLOAD"], "validity": "PT5M"}"#;
    let headers = ["Content-Type: application/macaroon-request"];
    let reply = Client::with_proxy(site, dice).ask("POST", "/data/", &headers, Some(body));
    assert!(reply.expect(200).text().contains("macaroon"));
}

/// One range, and several.
pub(crate) fn ranges(site: &Site, dice: &mut Dice) {
    let file = site.longest();
    let path = format!("/open/{}", file.name);
    let mut client = Client::either(site, dice);
    let at = dice.below(file.content.len() - 2000);
    let range = format!("Range: bytes={at}-{}", at + 999);
    let one = client.ask("GET", &path, &[&range], None).expect(206);
    assert!(one.body == file.content[at..at + 1000]);
    let several: Vec<String> = (0..32)
        .map(|piece| format!("{}-{}", piece * 30_000, piece * 30_000 + 99))
        .collect();
    let range = format!("Range: bytes={}", several.join(","));
    let reply = client.ask("GET", &path, &[&range], None).expect(206);
    assert!(reply.body.len() > 32 * 100, "{}", reply.body.len());
}

pub(crate) fn list(site: &Site, dice: &mut Dice) {
    let mut client = Client::either(site, dice);
    let listing = client.ask("PROPFIND", "/open/", &["Depth: 1"], None).expect(207);
    assert!(listing.text().contains(&site.longest().name));
    client.ask("GET", "/open/", &[], None).expect(200);
}

/// A directory with a file in it, from MKCOL to DELETE.
pub(crate) fn tree(site: &Site, dice: &mut Dice) {
    let mut client = Client::either(site, dice);
    let path = format!("/open/tree-{}", dice.next());
    client.ask("MKCOL", &path, &[], None).expect(201);
    let (file, moved) = (format!("{path}/file"), format!("{path}/moved"));
    client.ask("PUT", &file, &[], Some(b"content")).expect(201);
    let to = format!("Destination: {moved}");
    client.ask("MOVE", &file, &[&to], None).expect(201);
    client.ask("HEAD", &moved, &["Want-Digest: adler32"], None).expect(200);
    client.ask("DELETE", &moved, &[], None).expect(204);
    client.ask("DELETE", &path, &[], None).expect(204);
}

pub(crate) fn lock(site: &Site, dice: &mut Dice) {
    let mut client = Client::either(site, dice);
    let path = format!("/open/locked-{}", dice.next());
    client.ask("PUT", &path, &[], Some(b"content")).expect(201);
    let body = br#"<?xml version="1.0"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>"#;
    let reply = client
        .ask("LOCK", &path, &["Timeout: Second-60"], Some(body))
        .expect(200);
    let token = reply.header("Lock-Token").expect("a token").to_owned();
    client.ask("DELETE", &path, &[], None).expect(423);
    let header = format!("Lock-Token: {token}");
    client.ask("UNLOCK", &path, &[&header], None).expect(204);
    client.ask("DELETE", &path, &[], None).expect(204);
}

/// What a request without the right, or for nothing, gets.
pub(crate) fn refused(site: &Site, dice: &mut Dice) {
    let path = format!("/data/{}", site.longest().name);
    let mut client = Client::either(site, dice);
    client.ask("GET", &path, &[], None).expect(401);
    client.ask("GET", "/open/none", &[], None).expect(404);
    client.ask("DELETE", "/open/none", &[], None).expect(404);
    client.ask("GET", "/open/../../etc/passwd", &[], None).expect_refusal();
    client.ask("PUT", "/open", &[], Some(b"")).expect_refusal();
}

/// Makes the server keep as many explanations of refusals as it ever will, a megabyte of them.
pub(crate) fn fill_explanations(site: &Site) {
    let mut client = Client::clear(site);
    for number in 0..EXPLANATIONS_KEPT {
        client
            .ask("GET", &format!("/data/none-{number}"), &[], None)
            .expect(401);
    }
}

pub(crate) fn bad_token(site: &Site, dice: &mut Dice) {
    let header = match dice.below(4) {
        0 => bearer(&site.weak_token),
        _ => bearer(&site.bad_tokens[dice.below(site.bad_tokens.len())]),
    };
    let path = format!("/data/{}", site.longest().name);
    let reply = Client::secure(site).ask("GET", &path, &[&header], None);
    reply.expect_refusal();
}

pub(crate) fn bad_proxy(site: &Site, dice: &mut Dice) {
    let proxy = &site.bad_proxies[dice.below(site.bad_proxies.len())];
    let path = format!("/data/{}", site.longest().name);
    let reply = Client::showing(site, &proxy.user).ask("GET", &path, &[], None);
    reply.expect_refusal();
}

pub(crate) fn wrong_checksum(site: &Site, dice: &mut Dice) {
    let path = site.target("open");
    let content = bytes(70_000, dice.next());
    let digest = ["Digest: adler32=00000001"];
    let reply = Client::either(site, dice).ask("PUT", &path, &digest, Some(&content));
    reply.expect_refusal();
}

/// A connection that ends as a crash of its client would end it, or properly.
pub(crate) fn leave(socket: &TcpStream, dice: &mut Dice) {
    if dice.below(2) == 0 {
        let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
    }
}

pub(crate) fn left_upload(site: &Site, dice: &mut Dice) {
    let path = site.target("open");
    let socket = open(site.port());
    leave(&socket, dice);
    let mut client = match dice.below(2) {
        0 => Client::new(socket),
        _ => Client::new(StreamOwned::new(conformance::tls_session(&site.ca_file()), socket)),
    };
    client.send("PUT", &path, &[], Some(LARGE_BYTES));
    client.write(&vec![7; UNTIL_GONE]);
}

pub(crate) fn left_download(site: &Site, dice: &mut Dice) {
    let socket = open(site.port());
    leave(&socket, dice);
    let mut client = match dice.below(2) {
        0 => Client::new(socket),
        _ => Client::new(StreamOwned::new(conformance::tls_session(&site.ca_file()), socket)),
    };
    client.send("GET", &format!("/open/{LARGE}"), &[], None);
    client.head().expect(200);
    client.exactly(UNTIL_GONE);
}

/// Handshakes that fail: a client that does not trust us, one that goes away, one that sends
/// something else.
pub(crate) fn bad_handshake(site: &Site, dice: &mut Dice) {
    match dice.below(3) {
        0 => {
            let mut stranger = tls(site.port(), &site.strange.ca_file());
            assert!(stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").is_err());
        }
        1 => {
            let mut session = conformance::tls_session(&site.ca_file());
            let mut socket = open(site.port());
            session.write_tls(&mut socket).expect("the first message");
        }
        _ => {
            let received = conformance::exchange(site.port(), b"\x16\x03\x01\x00\x05hello");
            assert!(received.closed);
        }
    }
}

/// What is no request at all, and a head that never ends.
pub(crate) fn garbage(site: &Site, dice: &mut Dice) {
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let request = match dice.below(3) {
        0 => b"GARBAGE\r\n\r\n".to_vec(),
        1 => b"GET /open/x HTTP/9.9\r\nHost: localhost\r\n\r\n".to_vec(),
        _ => long.into_bytes(),
    };
    assert!(conformance::exchange(site.port(), &request).closed);
}

/// The path of the credentials that the client has delegated.
fn delegation_place(client: &mut Client) -> String {
    let who = client.ask("GET", "/whoami", &[], None).expect(200).text();
    let id = who
        .split("delegation_id\":")
        .nth(1)
        .and_then(|rest| rest.split('"').nth(1));
    format!("/delegation/{}", id.expect("a name"))
}

/// The first steps of a delegation, and a credential that is none.
pub(crate) fn bad_delegation(site: &Site, dice: &mut Dice) {
    let mut client = Client::with_proxy(site, dice);
    let place = delegation_place(&mut client);
    let request = client.ask("GET", &format!("{place}/request"), &[], None).expect(200);
    assert!(request.text().contains("REQUEST"));
    let credential = format!("{place}/credential");
    client.ask("PUT", &credential, &[], Some(b"garbage")).expect(403);
}
