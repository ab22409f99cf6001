//! A client of a cluster over HTTP: one connection to the redirector, and one to each node that it
//! was sent to, kept open as long as the servers keep them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;

use testkit::Result;

use super::{Place, port_of};
use crate::line::Line;
use crate::root::failed;

/// Of the buffer that answers pass through, and of what is sent at once.
const BUFFER_BYTES: usize = 256 << 10;
const PIECE_BYTES: usize = 1 << 20;
/// Longest line of a head that is read.
const LINE_BYTES_MAX: u64 = 8192;

/// The head of an answer, as much of it as matters here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Head {
    status: u16,
    body_bytes: u64,
    location: Option<String>,
    /// Whether the server closes the connection.
    is_last: bool,
}

impl Head {
    fn is_redirection(&self) -> bool {
        matches!(self.status, 301 | 302 | 307 | 308)
    }

    /// Adds a line.
    fn take(&mut self, line: &str) -> Result<()> {
        let Some((name, value)) = line.split_once(':') else {
            return Err(failed(format!("a header line is {line:?}")));
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => self.body_bytes = value.parse().map_err(failed)?,
            "location" => self.location = Some(value.to_owned()),
            "connection" => self.is_last = value.eq_ignore_ascii_case("close"),
            "transfer-encoding" => return Err(failed(format!("the answer is {value}"))),
            _ => {}
        }
        Ok(())
    }

    /// The node that it names, on this machine.
    fn place(&self) -> Result<Place> {
        let url = self.location.as_deref().filter(|_| self.is_redirection());
        let url = url.ok_or_else(|| failed(format!("no redirection, but {self:?}")))?;
        let path = url.splitn(4, '/').nth(3);
        match (port_of(url), path) {
            (Some(port), Some(path)) => Ok(Place {
                port,
                target: format!("/{path}"),
            }),
            _ => Err(failed(format!("the redirection leads to {url}"))),
        }
    }
}

/// A connection to one server, made again when that has closed it.
struct HttpSession {
    port: u16,
    input: Option<BufReader<Line>>,
    /// The head of the request under way.
    request: Vec<u8>,
    /// Whether the connection has carried an answer: then it may be closed by now.
    is_used: bool,
    /// XRootD 5 closes a connection after a redirection, although it says that it keeps it.
    is_closed_each_time: bool,
}

impl HttpSession {
    fn new(port: u16) -> Self {
        Self {
            port,
            input: None,
            request: Vec::new(),
            is_used: false,
            is_closed_each_time: false,
        }
    }

    fn leave(&mut self) {
        self.input = None;
        self.is_used = false;
    }

    fn line(&mut self) -> Result<&mut BufReader<Line>> {
        if self.input.is_none() {
            self.input = Some(BufReader::with_capacity(BUFFER_BYTES, Line::clear(self.port)?));
        }
        self.input.as_mut().ok_or_else(|| failed("no connection"))
    }

    fn send(&mut self, method: &str, target: &str, headers: &str) -> Result<()> {
        let port = self.port;
        let request = format!("{method} {target} HTTP/1.1\r\nHost: localhost:{port}\r\n{headers}\r\n");
        self.request = request.into_bytes();
        match self.write_request() {
            Err(_) if self.is_used => self.send_again(),
            outcome => outcome,
        }
    }

    fn write_request(&mut self) -> Result<()> {
        let request = std::mem::take(&mut self.request);
        let outcome = self.line().and_then(|line| Ok(line.get_mut().write_all(&request)?));
        self.request = request;
        outcome
    }

    /// On a new connection, because the server has closed the other one.
    fn send_again(&mut self) -> Result<()> {
        self.leave();
        self.is_closed_each_time = true;
        self.write_request()
    }

    /// The first line of an answer. It is empty where the server has closed the connection.
    fn first_line(&mut self) -> String {
        let mut line = String::new();
        let read = self.line().map(|input| input.take(LINE_BYTES_MAX).read_line(&mut line));
        match read {
            Ok(Ok(_)) => line,
            _ => String::new(),
        }
    }

    /// Reads a head. The body is still to come.
    fn head(&mut self) -> Result<Head> {
        let mut line = self.first_line();
        if line.is_empty() && self.is_used {
            self.send_again()?;
            line = self.first_line();
        }
        self.is_used = true;
        let mut head = Head {
            status: status(line.trim_end())?,
            ..Head::default()
        };
        let input = self.line()?;
        loop {
            line.clear();
            input.take(LINE_BYTES_MAX).read_line(&mut line)?;
            match line.trim_end() {
                "" => return Ok(head),
                text => head.take(text)?,
            }
        }
    }

    /// Lets the body of an answer pass, and keeps the connection if the server does.
    fn pass_body(&mut self, head: &Head) -> Result<()> {
        let input = self.line()?;
        let passed = io::copy(&mut input.take(head.body_bytes), &mut io::sink())?;
        if passed != head.body_bytes {
            return Err(failed("the connection ended within an answer"));
        }
        if head.is_last || self.is_closed_each_time {
            self.leave();
        }
        Ok(())
    }

    /// A request without a body; its whole answer.
    fn ask(&mut self, method: &str, target: &str) -> Result<Head> {
        self.send(method, target, "")?;
        let head = self.head()?;
        self.pass_body(&head)?;
        Ok(head)
    }

    /// Begins an upload, whose body is sent when the server wants it. `None`: it does.
    fn begin_upload(&mut self, target: &str, size_bytes: u64) -> Result<Option<Head>> {
        let headers = format!("Content-Length: {size_bytes}\r\nExpect: 100-continue\r\n");
        self.send("PUT", target, &headers)?;
        let head = self.head()?;
        if head.status == 100 {
            return Ok(None);
        }
        // Whether the server still waits for a body is not clear.
        self.leave();
        Ok(Some(head))
    }
}

/// The number in the first line of an answer.
fn status(line: &str) -> Result<u16> {
    let number = line
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok());
    number.ok_or_else(|| failed(format!("the answer is {line:?}")))
}

/// A client.
pub(super) struct HttpClient {
    redirector: HttpSession,
    nodes: BTreeMap<u16, HttpSession>,
}

impl HttpClient {
    /// A client of a redirector.
    pub(super) fn new(port: u16) -> Self {
        Self {
            redirector: HttpSession::new(port),
            nodes: BTreeMap::new(),
        }
    }

    /// Sends the question for a file, without waiting.
    pub(super) fn send(&mut self, path: &str) -> Result<()> {
        self.redirector.send("GET", path, "")
    }

    /// Waits for one redirection.
    pub(super) fn receive(&mut self) -> Result<()> {
        let head = self.redirector.head()?;
        self.redirector.pass_body(&head)?;
        head.place().map(drop)
    }

    /// Asks for a file that exists.
    pub(super) fn find(&mut self, path: &str) -> Result<Place> {
        self.redirector.ask("GET", path)?.place()
    }

    fn node(&mut self, port: u16) -> &mut HttpSession {
        self.nodes.entry(port).or_insert_with(|| HttpSession::new(port))
    }

    /// Reads a file at a node.
    pub(super) fn read(&mut self, place: &Place, size_bytes: u64) -> Result<()> {
        let head = self.node(place.port).ask("GET", &place.target)?;
        match (head.status, head.body_bytes) {
            (200, length) if length == size_bytes => Ok(()),
            _ => Err(failed(format!("a file is answered with {head:?}"))),
        }
    }

    /// Asks where a new file is to go.
    pub(super) fn place_new(&mut self, path: &str, size_bytes: u64) -> Result<Place> {
        match self.redirector.begin_upload(path, size_bytes)? {
            Some(head) => head.place(),
            None => Err(failed(format!("the redirector takes {path} itself"))),
        }
    }

    /// Stores a new file at a node.
    pub(super) fn store(&mut self, place: &Place, source: &Path) -> Result<()> {
        let mut source = File::open(source)?;
        let size_bytes = source.metadata()?.len();
        let node = self.node(place.port);
        if let Some(head) = node.begin_upload(&place.target, size_bytes)? {
            return Err(failed(format!("an upload is answered with {head:?}")));
        }
        let output = node.line()?.get_mut();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match source.read(&mut piece)? {
                0 => break,
                length => output.write_all(&piece[..length])?,
            }
        }
        let head = node.head()?;
        node.pass_body(&head)?;
        match head.status {
            200 | 201 | 204 => Ok(()),
            _ => Err(failed(format!("an upload is answered with {head:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_names_a_node_and_what_to_ask_it() {
        let mut head = Head {
            status: status("HTTP/1.1 307 Temporary Redirect").expect("a status"),
            ..Head::default()
        };
        for line in [
            "Location: http://localhost:1094/data/f?key=1",
            "Content-Length: 0",
            "Connection: Close",
        ] {
            head.take(line).expect("a line");
        }
        assert!(head.is_last && head.body_bytes == 0);
        let place = head.place().expect("a place");
        assert_eq!((place.port, place.target.as_str()), (1094, "/data/f?key=1"));
        head.status = 404;
        assert!(head.place().is_err());
        assert!(head.take("Transfer-Encoding: chunked").is_err());
        assert!(status("nonsense").is_err());
    }
}
