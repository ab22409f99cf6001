//! A server of directories with as many entries as a test asks for, more than a disk should have.
//! It lists them over HTTP (PROPFIND) and in the XRootD protocol, as they are made up, and has
//! nothing else.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::Result;

/// Directories in `/deep`.
const DIRECTORIES: u64 = 1000;
/// How much of a listing goes out at once.
const PIECE_BYTES: usize = 60_000;
/// How long a connection may be silent.
const SILENCE: Duration = Duration::from_secs(60);

/// The first bytes of a client of the XRootD protocol; an HTTP method has none that is zero.
const ROOT_GREETING_BYTES: usize = 20;
/// `kXR_dirlist`, `kXR_protocol`, `kXR_login`, `kXR_ping`, `kXR_stat`, `kXR_endsess`.
const LIST: u16 = 3004;
const PROTOCOL: u16 = 3006;
const LOGIN: u16 = 3007;
const PING: u16 = 3011;
const STAT: u16 = 3017;
const END_SESSION: u16 = 3023;
/// `kXR_ok`, `kXR_oksofar`, `kXR_error`, and its `kXR_Unsupported` and `kXR_NotFound`.
const OK: u16 = 0;
const PARTIAL: u16 = 4000;
const ERROR: u16 = 4003;
const NOT_FOUND: u32 = 3011;
const UNSUPPORTED: u32 = 3013;

/// A running server; dropping it closes its connections.
#[derive(Debug)]
pub struct Entries {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    files: u64,
    is_stopping: AtomicBool,
    sockets: Mutex<Vec<TcpStream>>,
}

/// A directory: so many entries, which are directories or files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Directory {
    count: u64,
    has_directories: bool,
}

impl Entries {
    /// Starts a server whose directory `/flat` has this many files, and whose `/deep` has them in a
    /// thousand directories.
    ///
    /// # Errors
    /// [`crate::Error::Failed`] without a free port.
    pub fn start(files: u64) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            files,
            is_stopping: AtomicBool::new(false),
            sockets: Mutex::new(Vec::new()),
        });
        let for_acceptor = Arc::clone(&shared);
        let acceptor = thread::spawn(move || accept(&listener, &for_acceptor));
        Ok(Self {
            address,
            shared,
            acceptor: Some(acceptor),
        })
    }

    /// The URL of a path over HTTP.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.address.port())
    }

    /// The URL of a path in the XRootD protocol.
    #[must_use]
    pub fn root_url(&self, path: &str) -> String {
        format!("root://localhost:{}/{path}", self.address.port())
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        for socket in self
            .shared
            .sockets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            let _ = socket.shutdown(Shutdown::Both);
        }
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut serving: Vec<JoinHandle<()>> = Vec::new();
    for socket in listener.incoming().flatten() {
        if shared.is_stopping.load(Ordering::SeqCst) {
            break;
        }
        serving.retain(|thread| !thread.is_finished());
        let _ = socket.set_read_timeout(Some(SILENCE));
        if let Ok(copy) = socket.try_clone() {
            let mut sockets = shared.sockets.lock().unwrap_or_else(PoisonError::into_inner);
            // Descriptors of ended connections are not kept.
            sockets.retain(|socket| socket.peer_addr().is_ok());
            sockets.push(copy);
        }
        let shared = Arc::clone(shared);
        serving.push(thread::spawn(move || {
            // It ends with its client.
            let _ = serve(&socket, &shared);
            let _ = socket.shutdown(Shutdown::Both);
        }));
    }
    for thread in serving {
        let _ = thread.join();
    }
}

fn serve(socket: &TcpStream, shared: &Shared) -> io::Result<()> {
    let mut first = [0];
    socket.peek(&mut first)?;
    let (input, out) = (BufReader::new(socket), BufWriter::new(socket));
    match first[0] {
        0 => serve_root(input, out, shared),
        _ => serve_http(input, out, shared),
    }
}

impl Shared {
    /// What a path is; `None` if it is nothing.
    fn directory(&self, path: &str) -> Option<Directory> {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let (count, has_directories) = match names.as_slice() {
            ["flat"] => (self.files, false),
            ["deep"] => (DIRECTORIES, true),
            ["deep", name] if name.starts_with('d') => (self.files / DIRECTORIES, false),
            _ => return None,
        };
        Some(Directory { count, has_directories })
    }
}

impl Directory {
    fn name(self, number: u64) -> String {
        let letter = if self.has_directories { 'd' } else { 'f' };
        format!("{letter}{number:010}")
    }
}

/// An element of a multistatus (RFC 4918 §14.24).
fn response(path: &str, is_directory: bool) -> String {
    let (kind, slash) = if is_directory {
        ("<d:collection/>", "/")
    } else {
        ("", "")
    };
    format!(
        "<d:response><d:href>{path}{slash}</d:href><d:propstat><d:prop><d:resourcetype>{kind}</d:resourcetype>\
         <d:getcontentlength>5</d:getcontentlength>\
         <d:getlastmodified>Mon, 12 Jan 1998 09:25:56 GMT</d:getlastmodified></d:prop>\
         <d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>\n"
    )
}

fn serve_http(mut input: impl io::BufRead, mut out: impl Write, shared: &Shared) -> io::Result<()> {
    loop {
        let Some(asked) = Asked::read(&mut input)? else {
            return Ok(());
        };
        let found = shared.directory(&asked.path).filter(|_| asked.method == "PROPFIND");
        let Some(directory) = found else {
            out.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
            out.flush()?;
            continue;
        };
        out.write_all(
            b"HTTP/1.1 207 Multi-Status\r\nContent-Type: application/xml\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        let path = asked.path.trim_end_matches('/');
        let mut piece = format!("<d:multistatus xmlns:d=\"DAV:\">{}", response(path, true));
        let count = if asked.is_deep { directory.count } else { 0 };
        for number in 0..count {
            let name = directory.name(number);
            piece.push_str(&response(&format!("{path}/{name}"), directory.has_directories));
            if piece.len() >= PIECE_BYTES {
                write!(out, "{:x}\r\n{piece}\r\n", piece.len())?;
                piece.clear();
            }
        }
        piece.push_str("</d:multistatus>");
        write!(out, "{:x}\r\n{piece}\r\n0\r\n\r\n", piece.len())?;
        out.flush()?;
    }
}

/// A request of HTTP.
struct Asked {
    method: String,
    path: String,
    is_deep: bool,
}

impl Asked {
    fn read(input: &mut impl io::BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (mut is_deep, mut length) = (false, 0);
        loop {
            let mut line = String::new();
            input.read_line(&mut line)?;
            let lower = line.trim_end().to_ascii_lowercase();
            match lower.split_once(':') {
                Some(("depth", value)) => is_deep = value.trim() == "1",
                Some(("content-length", value)) => length = value.trim().parse().unwrap_or(0),
                Some(_) => {}
                None => break,
            }
        }
        input.read_exact(&mut vec![0; length])?;
        Ok(Some(Self { method, path, is_deep }))
    }
}

/// Sends a frame of the XRootD protocol.
fn frame(out: &mut impl Write, stream: [u8; 2], status: u16, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    out.write_all(&stream)?;
    out.write_all(&status.to_be_bytes())?;
    out.write_all(&length.to_be_bytes())?;
    out.write_all(body)
}

fn serve_root(mut input: impl Read, mut out: impl Write, shared: &Shared) -> io::Result<()> {
    input.read_exact(&mut [0; ROOT_GREETING_BYTES])?;
    // Version 5.1.1, a data server.
    frame(&mut out, [0, 0], OK, &[0, 0, 5, 0x11, 0, 0, 0, 1])?;
    out.flush()?;
    loop {
        let mut head = [0; 24];
        input.read_exact(&mut head)?;
        let stream = [head[0], head[1]];
        let length = u32::from_be_bytes([head[20], head[21], head[22], head[23]]);
        let mut payload = vec![0; usize::try_from(length).unwrap_or(0)];
        input.read_exact(&mut payload)?;
        let path = String::from_utf8_lossy(&payload);
        let path = path.split(['?', '\0']).next().unwrap_or_default();
        let directory = shared.directory(path);
        match (u16::from_be_bytes([head[2], head[3]]), directory) {
            (PROTOCOL, _) => frame(&mut out, stream, OK, &[0, 0, 5, 0x11, 0, 0, 0, 1])?,
            (LOGIN, _) => frame(&mut out, stream, OK, &[7; 16])?,
            (PING | END_SESSION, _) => frame(&mut out, stream, OK, &[])?,
            (STAT, Some(_)) => frame(&mut out, stream, OK, b"1 4096 18 884597156\0")?,
            (LIST, Some(directory)) => list_root(&mut out, stream, directory)?,
            (STAT | LIST, None) => frame(&mut out, stream, ERROR, &refusal(NOT_FOUND))?,
            _ => frame(&mut out, stream, ERROR, &refusal(UNSUPPORTED))?,
        }
        out.flush()?;
    }
}

fn refusal(number: u32) -> Vec<u8> {
    [&number.to_be_bytes()[..], b"nothing else is here\0"].concat()
}

/// A listing with metadata (`kXR_dstat`): a leader, then pairs of lines; the last one ends with a
/// zero.
fn list_root(out: &mut impl Write, stream: [u8; 2], directory: Directory) -> io::Result<()> {
    let flags = if directory.has_directories { 18 } else { 16 };
    let mut piece = String::from(".\n0 0 0 0\n");
    for number in 0..directory.count {
        if piece.len() >= PIECE_BYTES {
            frame(out, stream, PARTIAL, piece.as_bytes())?;
            piece.clear();
        }
        let name = directory.name(number);
        piece.push_str(&format!("{name}\n{number} 5 {flags} 884597156\n"));
    }
    piece.pop();
    piece.push('\0');
    frame(out, stream, OK, piece.as_bytes())
}
