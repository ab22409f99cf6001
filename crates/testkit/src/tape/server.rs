//! The HTTPS server: one thread for each connection, one request on each.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::{ServerConnection, StreamOwned};

use super::{Shared, api};

/// No client of a test is slower.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 64 * 1024;
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A request.
pub(super) struct Asked {
    pub(super) method: String,
    /// Without its query.
    pub(super) path: String,
    pub(super) bearer: Option<String>,
    pub(super) body: Vec<u8>,
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) media_type: &'static str,
    pub(super) location: Option<String>,
    pub(super) body: Vec<u8>,
    /// The length to announce, where the body is left out.
    pub(super) length: Option<usize>,
}

impl Answer {
    pub(super) fn new(status: u16, media_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            media_type,
            location: None,
            body: body.into(),
            length: None,
        }
    }
}

/// Accepts connections until the storage is dropped.
pub(super) fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept() {
        if shared.state().stopping {
            return;
        }
        let shared = Arc::clone(shared);
        // It ends with its client, or by its timeout.
        thread::spawn(move || serve(stream, &shared));
    }
}

fn serve(stream: TcpStream, shared: &Shared) {
    let _ = stream.set_read_timeout(Some(SOCKET_TIMEOUT));
    let _ = stream.set_write_timeout(Some(SOCKET_TIMEOUT));
    let Ok(connection) = ServerConnection::new(Arc::clone(&shared.tls)) else {
        return;
    };
    let mut stream = StreamOwned::new(connection, stream);
    let Some(asked) = read(&mut stream) else {
        return;
    };
    let answer = api::answer(shared, asked);
    shared.changed.notify_all();
    let _ = send(&mut stream, &answer);
    stream.conn.send_close_notify();
    let _ = stream.flush();
}

fn read(stream: &mut (impl Read + Write)) -> Option<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break end + 4;
        }
        more(stream, &mut bytes)?;
        if bytes.len() > HEAD_BYTES_MAX {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let field = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(':'));
        lines
            .find(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_owned())
    };
    let length: usize = field("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    if length > BODY_BYTES_MAX {
        return None;
    }
    if field("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
        stream.flush().ok()?;
    }
    while bytes.len() < end + length {
        more(stream, &mut bytes)?;
    }
    let mut words = head.split_whitespace();
    let method = words.next()?.to_owned();
    let path = words.next()?.split('?').next()?.to_owned();
    let authorization = field("authorization");
    let bearer = authorization.and_then(|value| value.strip_prefix("Bearer ").map(str::to_owned));
    Some(Asked {
        method,
        path,
        bearer,
        body: bytes[end..end + length].to_vec(),
    })
}

fn more(stream: &mut impl Read, bytes: &mut Vec<u8>) -> Option<()> {
    let mut piece = [0; 16 * 1024];
    let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
    bytes.extend_from_slice(&piece[..count]);
    Some(())
}

fn send(stream: &mut impl Write, answer: &Answer) -> std::io::Result<()> {
    let location = answer.location.as_ref().map(|to| format!("Location: {to}\r\n"));
    write!(
        stream,
        "HTTP/1.1 {} told\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n",
        answer.status,
        answer.media_type,
        answer.length.unwrap_or(answer.body.len()),
        location.unwrap_or_default()
    )?;
    stream.write_all(&answer.body)?;
    stream.flush()
}
