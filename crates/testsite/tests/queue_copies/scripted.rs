//! A server of plain HTTP whose answers the test chooses, and which writes in place.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// Answers a request: its method, its head in lower case, and what is stored.
type Respond = fn(&str, &str, &mut Option<Vec<u8>>) -> String;

/// The end of a head whose body comes in pieces.
const PIECES: &str = "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n";

/// The server, with one file.
#[derive(Clone)]
pub(crate) struct Scripted {
    respond: Respond,
    stored: Arc<Mutex<Option<Vec<u8>>>>,
    changed: Arc<Mutex<Option<SystemTime>>>,
    asked: Arc<Mutex<Vec<String>>>,
    heads: Arc<Mutex<Vec<String>>>,
    /// The connection of an answer in pieces, which [`Scripted::go_on`] sends.
    begun: Arc<Mutex<Option<TcpStream>>>,
    port: u16,
}

impl Scripted {
    /// Serves until the process ends, one request per connection.
    pub(crate) fn start(respond: Respond) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            respond,
            stored: Arc::default(),
            changed: Arc::default(),
            asked: Arc::default(),
            heads: Arc::default(),
            begun: Arc::default(),
            port: listener.local_addr().unwrap().port(),
        };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = serving.clone();
                std::thread::spawn(move || drop(server.answer(&stream)));
            }
        });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/f", self.port)
    }

    pub(crate) fn store(&self, content: &[u8]) {
        *self.stored.lock().unwrap() = Some(content.to_vec());
    }

    pub(crate) fn stored(&self) -> Option<Vec<u8>> {
        self.stored.lock().unwrap().clone()
    }

    /// The methods of all requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// The heads of all requests so far, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Sends a further piece of an answer; whether one has begun.
    pub(crate) fn go_on(&self, piece: &str) -> bool {
        let begun = self.begun.lock().unwrap();
        begun
            .as_ref()
            .is_some_and(|mut stream| stream.write_all(piece.as_bytes()).is_ok())
    }

    fn answer(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        let (mut reader, mut head, mut line) = (BufReader::new(stream), String::new(), String::new());
        while reader.read_line(&mut line)? > 2 {
            head.push_str(&line.to_ascii_lowercase());
            line.clear();
        }
        let method = head.split(' ').next().unwrap_or_default().to_owned();
        self.asked.lock().unwrap().push(method.clone());
        self.heads.lock().unwrap().push(head.clone());
        let mut answer = {
            let mut stored = self.stored.lock().unwrap();
            let before = stored.clone();
            let answer = (self.respond)(&method, &head, &mut stored).into_bytes();
            if *stored != before {
                *self.changed.lock().unwrap() = Some(SystemTime::now());
            }
            answer
        };
        if answer.is_empty() {
            answer = self.look(&method, &head);
        }
        if method == "put" && answer.starts_with(b"HTTP/1.1 201") {
            // It takes the whole body first.
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink())?;
        }
        stream.write_all(&answer)?;
        match answer.ends_with(PIECES.as_bytes()) {
            true => *self.begun.lock().unwrap() = Some(stream.try_clone()?),
            false => stream.shutdown(Shutdown::Write)?,
        }
        // Reads the rest, so that no reset overtakes the answer.
        std::io::copy(&mut reader, &mut std::io::sink()).map(drop)
    }

    /// What every server answers to HEAD, GET and DELETE.
    fn look(&self, method: &str, head: &str) -> Vec<u8> {
        let mut stored = self.stored.lock().unwrap();
        let Some(found) = stored.clone() else {
            return answer("404 Not Found", "").into_bytes();
        };
        if method == "delete" {
            *stored = None;
            return answer("204 No Content", "").into_bytes();
        }
        let range = head
            .lines()
            .find_map(|line| line.strip_prefix("range: bytes=0-")?.trim().parse::<usize>().ok());
        let end = range.map_or(found.len(), |end| found.len().min(end + 1));
        let status = match range {
            Some(end) => format!("206 Part\r\nContent-Range: bytes 0-{end}/{}", found.len()),
            None => "200 OK".to_owned(),
        };
        let now = SystemTime::now();
        let date = |time| http_wire::format_date(time);
        let modified = date(seconds(self.changed.lock().unwrap().unwrap_or(now)));
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {end}\r\nDate: {}\r\nLast-Modified: {modified}\r\nConnection: \
             close\r\n\r\n",
            date(seconds(now))
        );
        match method {
            "get" => [head.as_bytes(), &found[..end]].concat(),
            _ => head.into_bytes(),
        }
    }
}

/// Since 1970, as servers tell it.
fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).unwrap().as_secs().try_into().unwrap()
}

/// An answer with a short body, which ends the connection.
pub(crate) fn answer(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The begin of an answer whose body comes in pieces.
pub(crate) fn begins(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\n{PIECES}")
}
