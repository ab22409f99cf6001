//! A client of HTTP that reports what it got, whole or not.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// A server that is silent for so long fails the round.
const SILENCE: Duration = Duration::from_secs(60);

/// What came back.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// 0 without one.
    pub(super) status: u16,
    pub(super) headers: String,
    pub(super) body: Vec<u8>,
    /// Whether the body has its full length.
    pub(super) is_whole: bool,
    /// The server said nothing for too long.
    pub(super) is_silent: bool,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Splits off the head, and undoes chunks.
    fn read(data: Vec<u8>, has_body: bool) -> Self {
        let Some(end) = data.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Self::default();
        };
        let headers = String::from_utf8_lossy(&data[..end]).into_owned();
        let mut answer = Self {
            status: headers.get(9..12).and_then(|word| word.parse().ok()).unwrap_or(0),
            headers,
            ..Self::default()
        };
        let body = data[end + 4..].to_vec();
        if answer.status == 100 {
            return Self::read(body, has_body);
        }
        let length = answer.header("content-length").and_then(|word| word.parse().ok());
        if answer.header("transfer-encoding").is_some() {
            (answer.body, answer.is_whole) = unchunked(&body);
        } else {
            answer.is_whole = !has_body || length == Some(body.len()) || answer.status == 204;
            answer.body = body;
        }
        answer
    }
}

/// The content of a chunked body, and whether its end was there.
fn unchunked(mut body: &[u8]) -> (Vec<u8>, bool) {
    let mut content = Vec::new();
    loop {
        let Some(end) = body.windows(2).position(|two| two == b"\r\n") else {
            return (content, false);
        };
        let size = String::from_utf8_lossy(&body[..end]);
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else {
            return (content, false);
        };
        body = &body[end + 2..];
        if size == 0 {
            return (content, true);
        }
        content.extend_from_slice(&body[..size.min(body.len())]);
        match body.get(size + 2..) {
            Some(rest) => body = rest,
            None => return (content, false),
        }
    }
}

/// A request; the server closes the connection afterwards.
pub(super) fn ask(port: u16, method: &str, path: &str, headers: &str) -> Answer {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    send(port, request.as_bytes(), &[]).map_or_else(Answer::default, |socket| receive(socket, method != "HEAD"))
}

/// An upload; `chunked` does not tell its length. With `sent` less than the content the client
/// leaves there.
pub(super) fn upload(port: u16, path: &str, content: &[u8], chunked: bool, sent: usize) -> Answer {
    let length = match chunked {
        true => "Transfer-Encoding: chunked".to_owned(),
        false => format!("Content-Length: {}", content.len()),
    };
    let head = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{length}\r\n\r\n");
    let is_all = sent >= content.len();
    let content = &content[..sent.min(content.len())];
    let body = match chunked {
        false => content.to_vec(),
        true => {
            let mut body = Vec::new();
            for chunk in content.chunks(100_000) {
                body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                body.extend_from_slice(chunk);
                body.extend_from_slice(b"\r\n");
            }
            if is_all {
                body.extend_from_slice(b"0\r\n\r\n");
            }
            body
        }
    };
    let Some(socket) = send(port, head.as_bytes(), &body) else {
        return Answer::default();
    };
    if !is_all {
        let _ = socket.shutdown(Shutdown::Write);
    }
    receive(socket, true)
}

fn send(port: u16, head: &[u8], body: &[u8]) -> Option<TcpStream> {
    let mut socket = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).ok()?;
    socket.set_read_timeout(Some(SILENCE)).ok()?;
    socket.set_write_timeout(Some(SILENCE)).ok()?;
    // A server may refuse before all of it is sent: its answer counts.
    let _ = socket.write_all(head).and_then(|()| socket.write_all(body));
    Some(socket)
}

fn receive(mut socket: TcpStream, has_body: bool) -> Answer {
    let mut data = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let is_silent = loop {
        match socket.read(&mut buffer) {
            Ok(0) => break false,
            Ok(count) => data.extend_from_slice(&buffer[..count]),
            Err(error) => {
                break matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                );
            }
        }
    };
    Answer {
        is_silent,
        ..Answer::read(data, has_body)
    }
}
