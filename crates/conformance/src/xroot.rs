//! The XRootD protocol by hand, for what no proper client would say: frames are built from the
//! protocol's description (XRootD Protocol Specification 5.1), field by field, and nothing is
//! checked before it is sent.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};
use socket2::{Domain, Socket, Type};

use crate::raw::open;

/// Numbers of requests.
pub mod opcode {
    /// Says who the client is.
    pub const AUTHENTICATE: u16 = 3000;
    /// Asks about the server or a file.
    pub const QUERY: u16 = 3001;
    /// Closes a file.
    pub const CLOSE: u16 = 3003;
    /// Lists a directory.
    pub const LIST: u16 = 3004;
    /// Agrees on a version and on TLS.
    pub const PROTOCOL: u16 = 3006;
    /// Begins a session.
    pub const LOGIN: u16 = 3007;
    /// Makes a directory.
    pub const MAKE_DIRECTORY: u16 = 3008;
    /// Moves a name.
    pub const MOVE: u16 = 3009;
    /// Opens a file.
    pub const OPEN: u16 = 3010;
    /// Asks whether the server is there.
    pub const PING: u16 = 3011;
    /// Groups changes of a file.
    pub const CHECKPOINT: u16 = 3012;
    /// Reads.
    pub const READ: u16 = 3013;
    /// Removes a file.
    pub const REMOVE: u16 = 3014;
    /// Writes what was written.
    pub const SYNC: u16 = 3016;
    /// Describes a name or an open file.
    pub const STAT: u16 = 3017;
    /// Writes.
    pub const WRITE: u16 = 3019;
    /// Extended attributes.
    pub const ATTRIBUTES: u16 = 3020;
    /// Ends a session.
    pub const END_SESSION: u16 = 3023;
    /// Makes this connection a further stream of a session.
    pub const BIND: u16 = 3024;
    /// Reads several pieces.
    pub const READ_VECTOR: u16 = 3025;
    /// Writes pages with their checksums.
    pub const WRITE_PAGES: u16 = 3026;
    /// Cuts or lengthens.
    pub const TRUNCATE: u16 = 3028;
    /// Signs the next request.
    pub const SIGN: u16 = 3029;
    /// Reads pages with their checksums.
    pub const READ_PAGES: u16 = 3030;
    /// Writes several pieces.
    pub const WRITE_VECTOR: u16 = 3031;
}

/// Statuses of responses.
pub mod status {
    /// Done.
    pub const OK: u16 = 0;
    /// More of the same answer follows.
    pub const PARTIAL: u16 = 4000;
    /// Something that was not asked for, or the late answer of something that was.
    pub const ATTENTION: u16 = 4001;
    /// Refused.
    pub const ERROR: u16 = 4003;
    /// The answer comes later.
    pub const LATER: u16 = 4006;
    /// The answer to requests about pages.
    pub const PAGES: u16 = 4007;
}

/// Options of an open.
pub mod open_option {
    /// Make the file, or cut it to nothing.
    pub const DELETE: u16 = 0x0002;
    /// Make the file; it must not exist.
    pub const NEW: u16 = 0x0008;
    /// Read.
    pub const READ: u16 = 0x0010;
    /// Read and write.
    pub const UPDATE: u16 = 0x0020;
    /// Make the directories that lead to it.
    pub const MAKE_PATH: u16 = 0x0100;
}

/// The first words of every connection.
pub const GREETING: [u8; 20] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 7, 0xdc];

/// The server has TLS, and begins with it now.
pub const HAS_TLS: u32 = 0x8000_0000;
/// The server begins with TLS now.
pub const GOES_TO_TLS: u32 = 0x4000_0000;

/// Flag of the version's request: the client can do TLS.
pub const ABLE_TLS: u8 = 0x02;
/// Flag of the version's request: the client wants TLS.
pub const WANT_TLS: u8 = 0x04;

/// The code of an attention that brings a late answer.
const LATE_ANSWER: u32 = 5008;
/// How long an answer may take.
const SILENCE: Duration = Duration::from_secs(30);
/// Longest frame that is believed.
const FRAME_MAX: usize = 64 << 20;

/// What the file `/data/alive` holds.
pub(crate) const ALIVE: &[u8] = b"content";

/// Demands that the server at a port serves a new client, which asks for the file `alive`.
///
/// # Panics
/// When it does not.
#[track_caller]
pub fn assert_root_alive(port: u16) {
    let stat = RootSocket::session(port).stat("/data/alive").expect_ok();
    let text = String::from_utf8_lossy(&stat).into_owned();
    assert_eq!(text.split(' ').nth(1), Some(ALIVE.len().to_string().as_str()), "{text}");
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The number of the request that it answers.
    pub stream: u16,
    /// Its status.
    pub status: u16,
    /// Its body, with the data of pages.
    pub body: Vec<u8>,
}

impl Frame {
    /// The number of an error; 0 when it is none.
    #[must_use]
    pub fn error(&self) -> u32 {
        if self.status == status::ERROR {
            self.number(0)
        } else {
            0
        }
    }

    /// The number in the four bytes from `start` on; 0 when the body is shorter.
    #[must_use]
    pub fn number(&self, start: usize) -> u32 {
        let bytes = self.body.get(start..start + 4).and_then(|bytes| bytes.try_into().ok());
        u32::from_be_bytes(bytes.unwrap_or_default())
    }

    /// The body of a success.
    ///
    /// # Panics
    /// When it is none.
    #[track_caller]
    #[must_use]
    pub fn expect_ok(self) -> Vec<u8> {
        assert_eq!(self.status, status::OK, "{}", self.words());
        self.body
    }

    /// The answer that was put off, out of the frame that brings it.
    ///
    /// # Panics
    /// When it is another frame.
    #[track_caller]
    #[must_use]
    pub fn late(self) -> Self {
        let is_late = self.status == status::ATTENTION && self.number(0) == LATE_ANSWER && self.body.len() >= 16;
        assert!(is_late, "{}", self.words());
        Self {
            stream: u16::from_be_bytes([self.body[8], self.body[9]]),
            status: u16::from_be_bytes([self.body[10], self.body[11]]),
            body: self.body[16..].to_vec(),
        }
    }

    /// Demands an error with this number.
    ///
    /// # Panics
    /// When it is something else.
    #[track_caller]
    pub fn expect_error(&self, number: u32) {
        assert_eq!((self.status, self.error()), (status::ERROR, number), "{}", self.words());
        assert_eq!(
            self.body.last(),
            Some(&0),
            "clients take the last byte of an error's words away"
        );
    }

    /// What it says, for messages.
    #[must_use]
    pub fn words(&self) -> String {
        let shown = &self.body[..self.body.len().min(200)];
        format!(
            "status {} error {} {:?}",
            self.status,
            self.error(),
            String::from_utf8_lossy(shown)
        )
    }
}

/// The 16 bytes of parameters of a request, from pieces of any size; the rest is zero.
///
/// # Panics
/// When they are more.
#[must_use]
pub fn parameters(pieces: &[&[u8]]) -> [u8; 16] {
    let mut all = pieces.concat();
    assert!(all.len() <= 16, "too many parameters");
    all.resize(16, 0);
    all.try_into().expect("16 bytes")
}

/// A request as it goes over the wire, with the length that `length` says, whatever follows.
#[must_use]
pub fn request_bytes(stream: u16, opcode: u16, parameters: &[u8; 16], length: i32, payload: &[u8]) -> Vec<u8> {
    [
        &stream.to_be_bytes()[..],
        &opcode.to_be_bytes(),
        parameters,
        &length.to_be_bytes(),
        payload,
    ]
    .concat()
}

/// A connection that speaks the XRootD protocol.
#[derive(Debug)]
pub struct RootSocket<S> {
    /// The connection below.
    pub socket: S,
}

impl RootSocket<TcpStream> {
    /// Connects to a port of loopback and says nothing.
    ///
    /// # Panics
    /// Without a listener there.
    #[must_use]
    pub fn connect(port: u16) -> Self {
        let socket = open(port);
        socket.set_nodelay(true).expect("an option of TCP");
        Self { socket }
    }

    /// Connects from another address of loopback, as another host would, and says nothing.
    ///
    /// # Panics
    /// Without a listener there.
    #[must_use]
    pub fn connect_from(address: Ipv4Addr, port: u16) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket
            .bind(&SocketAddr::from((address, 0)).into())
            .expect("an address of loopback");
        socket
            .connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())
            .expect("connection");
        let socket = TcpStream::from(socket);
        socket.set_read_timeout(Some(SILENCE)).expect("timeout");
        Self { socket }
    }

    /// Connects and agrees on the protocol.
    ///
    /// # Panics
    /// As [`RootSocket::greet`].
    #[must_use]
    pub fn greeted(port: u16) -> Self {
        let mut connection = Self::connect(port);
        connection.greet(0);
        connection
    }

    /// Connects and begins a session.
    ///
    /// # Panics
    /// When the server wants more than that.
    #[track_caller]
    #[must_use]
    pub fn session(port: u16) -> Self {
        let mut connection = Self::greeted(port);
        let _ = connection.login();
        connection
    }
}

impl RootSocket<StreamOwned<ClientConnection, TcpStream>> {
    /// Goes on over TLS on a connection whose server said that it does.
    #[must_use]
    pub fn over_tls(connection: RootSocket<TcpStream>, session: ClientConnection) -> Self {
        Self {
            socket: StreamOwned::new(session, connection.socket),
        }
    }
}

impl<S: Read + Write> RootSocket<S> {
    /// Sends the greeting and the version's request, and returns what the server's flags are.
    ///
    /// # Panics
    /// When the server answers anything else than a success.
    #[track_caller]
    pub fn greet(&mut self, flags: u8) -> u32 {
        self.say(&GREETING);
        let hello = self.frame().expect("a greeting");
        assert_eq!((hello.status, hello.body.len()), (status::OK, 8), "{}", hello.words());
        // The next step is the login.
        let version = parameters(&[&0x511_u32.to_be_bytes(), &[flags, 3]]);
        let answer = self.ask(0, opcode::PROTOCOL, &version, &[]);
        assert_eq!(answer.status, status::OK, "{}", answer.words());
        answer.number(4)
    }

    /// Begins a session and returns what the server said: its number, 16 bytes, and the ways to say
    /// who one is.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    #[must_use]
    pub fn login(&mut self) -> Vec<u8> {
        let body = self.try_login().expect_ok();
        assert!(body.len() >= 16, "a session's number has 16 bytes");
        body
    }

    /// Asks for a session.
    #[track_caller]
    pub fn try_login(&mut self) -> Frame {
        let login = parameters(&[&1234_u32.to_be_bytes(), b"tester\0\0", &[0, 0x41, 0x85]]);
        self.ask(0, opcode::LOGIN, &login, &[])
    }

    /// Sends bytes as they are.
    pub fn say(&mut self, bytes: &[u8]) {
        // A server may close before all of it is sent; what it said is then read.
        let _ = self.socket.write_all(bytes).and_then(|()| self.socket.flush());
    }

    /// Sends a request.
    ///
    /// # Panics
    /// When the payload is longer than its length can say.
    pub fn send(&mut self, stream: u16, opcode: u16, parameters: &[u8; 16], payload: &[u8]) {
        let length = i32::try_from(payload.len()).expect("a short payload");
        self.say(&request_bytes(stream, opcode, parameters, length, payload));
    }

    /// Sends a request and reads one frame.
    ///
    /// # Panics
    /// When the server closes.
    #[track_caller]
    pub fn ask(&mut self, stream: u16, opcode: u16, parameters: &[u8; 16], payload: &[u8]) -> Frame {
        self.send(stream, opcode, parameters, payload);
        self.frame().expect("an answer")
    }

    /// Reads the whole answer to `stream`, whose parts are put together.
    ///
    /// # Panics
    /// When the server closes, or answers another request.
    #[track_caller]
    pub fn whole(&mut self, stream: u16) -> Frame {
        let mut body = Vec::new();
        loop {
            let frame = self.frame().expect("an answer");
            assert_eq!(frame.stream, stream, "{}", frame.words());
            if frame.status != status::PARTIAL {
                let body = [body, frame.body].concat();
                return Frame { body, ..frame };
            }
            body.extend(frame.body);
        }
    }

    /// Reads the next frame; `None` when the server closes.
    ///
    /// # Panics
    /// When nothing comes for half a minute, or a length cannot be true.
    #[track_caller]
    pub fn frame(&mut self) -> Option<Frame> {
        let head: [u8; 8] = self.exactly(8)?.try_into().expect("8 bytes");
        let length = usize::try_from(u32::from_be_bytes([head[4], head[5], head[6], head[7]])).expect("a length");
        assert!(length <= FRAME_MAX, "a frame of {length} bytes");
        let status = u16::from_be_bytes([head[2], head[3]]);
        let mut frame = Frame {
            stream: u16::from_be_bytes([head[0], head[1]]),
            status,
            body: self.exactly(length)?,
        };
        if status == status::PAGES {
            let more = usize::try_from(frame.number(12)).expect("a length");
            assert!(more <= FRAME_MAX, "{more} bytes of pages");
            frame.body.extend(self.exactly(more)?);
        }
        Some(frame)
    }

    /// Reads until the server closes, which it must do by itself, and returns the frames that came
    /// first.
    ///
    /// # Panics
    /// As [`RootSocket::frame`].
    #[track_caller]
    pub fn until_closed(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.frame()).collect()
    }

    /// Opens a file and returns its handle.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    pub fn open(&mut self, path: &str, options: u16) -> [u8; 4] {
        let body = self.try_open(path, options).expect_ok();
        body[..4].try_into().expect("a handle")
    }

    /// Asks for a file to be opened.
    #[track_caller]
    pub fn try_open(&mut self, path: &str, options: u16) -> Frame {
        // As clients do: permission bits for new files only.
        let mode: u16 = if options & (open_option::DELETE | open_option::NEW) == 0 {
            0
        } else {
            0o644
        };
        let open = parameters(&[&mode.to_be_bytes(), &options.to_be_bytes()]);
        self.ask(1, opcode::OPEN, &open, path.as_bytes())
    }

    /// Writes at an offset.
    #[track_caller]
    pub fn write(&mut self, handle: [u8; 4], offset: i64, data: &[u8]) -> Frame {
        let write = parameters(&[&handle, &offset.to_be_bytes()]);
        self.ask(1, opcode::WRITE, &write, data)
    }

    /// Reads `length` bytes at an offset.
    #[track_caller]
    pub fn read(&mut self, handle: [u8; 4], offset: i64, length: i32) -> Frame {
        let read = parameters(&[&handle, &offset.to_be_bytes(), &length.to_be_bytes()]);
        self.send(1, opcode::READ, &read, &[]);
        self.whole(1)
    }

    /// Closes a file.
    #[track_caller]
    pub fn close(&mut self, handle: [u8; 4]) -> Frame {
        self.ask(1, opcode::CLOSE, &parameters(&[&handle]), &[])
    }

    /// Describes a path.
    #[track_caller]
    pub fn stat(&mut self, path: &str) -> Frame {
        self.ask(1, opcode::STAT, &[0; 16], path.as_bytes())
    }

    fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut data = vec![0; length];
        let mut have = 0;
        while have < length {
            match self.socket.read(&mut data[have..]) {
                Ok(0) => return None,
                Ok(count) => have += count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    panic!("nothing came for {SILENCE:?}, after {have} of {length} bytes")
                }
                Err(_) => return None,
            }
        }
        Some(data)
    }
}
