//! A small server that follows a script, to be the peer that no real server would be.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a connection may be silent.
const SILENCE: Duration = Duration::from_secs(20);

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// All header lines.
    pub headers: Vec<(String, String)>,
    /// The body, up to the announced length.
    pub body: Vec<u8>,
}

impl Seen {
    /// The value of a header, its name in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }
}

/// What the script does with a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Sends these bytes and keeps the connection.
    Say(Vec<u8>),
    /// Sends these bytes and closes.
    SayAndClose(Vec<u8>),
    /// Sends these bytes, then nothing more until the other side leaves.
    SayAndStall(Vec<u8>),
}

impl Reply {
    /// A whole answer: status with its words, further header lines, and a body that HEAD does not
    /// get.
    #[must_use]
    pub fn whole(seen: &Seen, status: &str, headers: &[&str], body: &[u8]) -> Self {
        let mut answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n", body.len());
        for header in headers {
            answer.push_str(header);
            answer.push_str("\r\n");
        }
        answer.push_str("\r\n");
        let mut bytes = answer.into_bytes();
        if seen.method != "HEAD" {
            bytes.extend_from_slice(body);
        }
        Self::Say(bytes)
    }
}

/// A scripted server on loopback in clear text; dropping it ends it.
#[derive(Debug)]
pub struct Scripted {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    stopping: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Scripted {
    /// Starts a server that answers every request as `script` says.
    ///
    /// # Panics
    /// Without a free port.
    pub fn start(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let stopping = Arc::new(AtomicBool::new(false));
        let (script, log, stop) = (Arc::new(script), Arc::clone(&seen), Arc::clone(&stopping));
        let acceptor = thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let (script, log) = (Arc::clone(&script), Arc::clone(&log));
                // Ends with its connection, whose other end is a server that the test ends.
                thread::spawn(move || serve(socket, &*script, &log));
            }
        });
        Self {
            address,
            seen,
            stopping,
            acceptor: Some(acceptor),
        }
    }

    /// The URL of `path`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.address.port())
    }

    /// The URL of `path` under another name of this machine, which makes it another origin.
    #[must_use]
    pub fn other_origin(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.address.port())
    }

    /// All requests so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn serve(socket: TcpStream, script: &(dyn Fn(&Seen) -> Reply + Send + Sync), log: &Mutex<Vec<Seen>>) {
    let _ = socket.set_read_timeout(Some(SILENCE));
    let Ok(mut out) = socket.try_clone() else { return };
    let mut input = BufReader::new(socket);
    while let Some(mut seen) = read_head(&mut input) {
        if seen.header("Expect").is_some() && out.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_err() {
            return;
        }
        let length = seen
            .header("Content-Length")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        seen.body = vec![0; length];
        if input.read_exact(&mut seen.body).is_err() {
            return;
        }
        let reply = script(&seen);
        log.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        let sent = match &reply {
            Reply::Say(bytes) | Reply::SayAndClose(bytes) | Reply::SayAndStall(bytes) => out.write_all(bytes),
        };
        match reply {
            Reply::Say(_) if sent.is_ok() => {}
            Reply::SayAndStall(_) => {
                let _ = input.read(&mut [0; 1]);
                return;
            }
            _ => return,
        }
    }
}

fn read_head(input: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut line = String::new();
    input.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|length| *length > 0)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
            None => break,
        }
    }
    Some(Seen {
        method,
        path,
        headers,
        body: Vec::new(),
    })
}
