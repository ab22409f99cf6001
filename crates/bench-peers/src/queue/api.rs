//! A client of the queue's API over https, one request after the other on one connection.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;
use serde_json::Value;
use testkit::{Error, Result};

use crate::handshake::{Beginning, config};

/// A queue that says nothing for so long has failed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const PART_BYTES: usize = 64 * 1024;

/// How a queue is reached.
#[derive(Clone)]
pub(super) struct Address {
    port: u16,
    config: Arc<ClientConfig>,
}

impl Address {
    pub(super) fn new(port: u16, ca_file: &Path) -> Result<Self> {
        let config = config(ca_file, Beginning::Full)?;
        Ok(Self { port, config })
    }

    pub(super) fn connect(&self) -> Result<Client> {
        let tcp = TcpStream::connect(("127.0.0.1", self.port))?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let name = ServerName::try_from("localhost").map_err(|e| Error::Failed(e.to_string()))?;
        let session = ClientConnection::new(self.config.clone(), name).map_err(|e| Error::Failed(e.to_string()))?;
        Ok(Client(StreamOwned::new(session, tcp)))
    }
}

/// A connection.
pub(super) struct Client(StreamOwned<ClientConnection, TcpStream>);

impl Client {
    /// Sends a request, and reads the answer, which must be a success.
    pub(super) fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Value> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.0.write_all(head.as_bytes())?;
        self.0.write_all(body)?;
        self.0.flush()?;
        let (status, answer) = self.answer()?;
        let shown = || String::from_utf8_lossy(&answer[..answer.len().min(200)]).into_owned();
        if !(200..300).contains(&status) {
            return Err(Error::Failed(format!("{method} {path}: {status} {}", shown())));
        }
        serde_json::from_slice(&answer).map_err(|error| Error::Failed(format!("{method} {path}: {error}: {}", shown())))
    }

    fn more(&mut self, seen: &mut Vec<u8>) -> Result<()> {
        let mut part = vec![0; PART_BYTES];
        match self.0.read(&mut part)? {
            0 => Err(Error::Failed("the queue hung up".to_owned())),
            length => {
                seen.extend_from_slice(&part[..length]);
                Ok(())
            }
        }
    }

    /// Status and body.
    fn answer(&mut self) -> Result<(u16, Vec<u8>)> {
        let mut seen = Vec::new();
        let head = loop {
            if let Some(end) = seen.windows(4).position(|part| part == b"\r\n\r\n") {
                break end + 4;
            }
            self.more(&mut seen)?;
        };
        let words = String::from_utf8_lossy(&seen[..head]).to_ascii_lowercase();
        let unreadable = || Error::Failed(format!("an answer that cannot be read: {words}"));
        let status = words.split(' ').nth(1).and_then(|text| text.parse().ok());
        let status = status.ok_or_else(unreadable)?;
        let field = words.lines().find_map(|line| line.strip_prefix("content-length:"));
        let mut body = seen.split_off(head);
        if let Some(length) = field.and_then(|text| text.trim().parse::<usize>().ok()) {
            while body.len() < length {
                self.more(&mut body)?;
            }
            return Ok((status, body));
        }
        if !words.contains("transfer-encoding: chunked") {
            return Err(unreadable());
        }
        loop {
            match joined(&body) {
                Some(content) => return Ok((status, content)),
                None => self.more(&mut body)?,
            }
        }
    }
}

/// The content of chunks.
fn joined(mut chunks: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let end = chunks.windows(2).position(|part| part == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).ok()?, 16).ok()?;
        if size == 0 {
            return Some(content);
        }
        let data = chunks.get(end + 2..end + 2 + size)?;
        content.extend_from_slice(data);
        chunks = chunks.get(end + 4 + size..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined() {
        assert_eq!(
            joined(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n").as_deref(),
            Some(&b"abcde"[..])
        );
        assert_eq!(joined(b"3\r\nab"), None);
    }
}
