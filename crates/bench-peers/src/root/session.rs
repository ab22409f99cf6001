//! One session of the XRootD protocol, as small as a client can be, so that what is measured is the
//! server: no threads, no copies of file data.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::time::Duration;

use testkit::{Error, Result};
use xroot_wire::limits::RESPONSE_HEADER_BYTES;
use xroot_wire::request::{Close, Open, Request, UserName};
use xroot_wire::response::{Attention, Body, OpenReply, Redirect, SecurityEntry};
use xroot_wire::{
    Answer, Argument, ErrorNumber, FileHandle, Handshake, OpenExtraOptions, OpenOptions, Purpose, ResponseHeader, Step,
    StreamId, TlsUse,
};

use super::gsi::{Login, Showing};
use crate::line::{Door, Line};

/// Of the buffer that answers pass through.
const BUFFER_BYTES: usize = 256 << 10;
/// Of one answer that is kept whole.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The name that a client claims; not verified.
pub(crate) const USER: &str = "bench";

/// What a server says to a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// It is done.
    Done(Vec<u8>),
    /// Ask there.
    Redirected(Redirect),
    /// Ask again after this time.
    Later(Duration),
    /// There is no such file.
    NotFound,
}

/// The request to open `path`, which may have CGI.
pub(crate) fn opening(path: &str, options: OpenOptions) -> Request<'_> {
    Request::Open(Open {
        mode: 0o644,
        options,
        extra_options: OpenExtraOptions::empty(),
        template: FileHandle::default(),
        path: Argument::new(path.as_bytes()),
    })
}

/// A session that is set up.
pub(crate) struct XrootSession {
    input: BufReader<Line>,
    output: Vec<u8>,
    last: u16,
    has_delegated: bool,
}

/// The project's error as one of this program's.
pub(crate) fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

impl XrootSession {
    /// Logs in at `port` of this machine in clear text. A session for third-party copies says so.
    pub(crate) fn open(port: u16, third_party: bool) -> Result<Self> {
        Self::through(&Door { port, tls: None }, third_party)
    }

    /// Logs in, over TLS where the door says so.
    pub(crate) fn through(door: &Door, third_party: bool) -> Result<Self> {
        Self::log_in(door, third_party, None)
    }

    /// Logs in, by gsi if the server wants that.
    pub(crate) fn log_in(door: &Door, third_party: bool, login: Option<&Login>) -> Result<Self> {
        let mut session = Self {
            input: BufReader::with_capacity(BUFFER_BYTES, Line::clear(door.port)?),
            output: Vec::new(),
            last: 0,
            has_delegated: false,
        };
        let purpose = Purpose::Login {
            process: std::process::id().cast_signed(),
            user: UserName::new(USER),
            cgi: String::new(),
            third_party,
        };
        let tls_use = match door.tls {
            Some(_) => TlsUse::Always,
            None => TlsUse::Never,
        };
        let mut handshake = Handshake::new(purpose, tls_use);
        session.write(&handshake.start())?;
        let mut showing = None;
        loop {
            let (header, body) = session.small_answer()?;
            let answer = Answer::parse(&header, &body).map_err(failed)?;
            let mut step = handshake.handle(answer).map_err(failed)?;
            if matches!(step, Step::StartTls) {
                session = session.secured(door)?;
                step = handshake.on_tls().map_err(failed)?;
            }
            step = match (step, login, &mut showing) {
                (Step::Authenticate(offered), Some(login), None) => {
                    let (begun, message) = Showing::begin(login, gsi_parameters(&offered)?)?;
                    showing = Some(begun);
                    handshake.authenticate(gsi_wire::gsi::NAME, &message).map_err(failed)?
                }
                (Step::Continue(message), _, Some(showing)) => {
                    let answer = showing.answer(&message)?;
                    handshake.authenticate_on(&answer).map_err(failed)?
                }
                (step, ..) => step,
            };
            match step {
                Step::Send(bytes) => session.write(&bytes)?,
                Step::Read => {}
                Step::Ready(_) => {
                    session.has_delegated = showing.is_some_and(|showing| showing.has_delegated);
                    return Ok(session);
                }
                Step::StartTls | Step::Authenticate(_) | Step::Continue(_) => {
                    return Err(failed("the server wants another authentication"));
                }
            }
        }
    }

    /// Whether the server asked for a proxy, and got it.
    pub(crate) fn has_delegated(&self) -> bool {
        self.has_delegated
    }

    fn secured(self, door: &Door) -> Result<Self> {
        let config = door.tls.as_ref().ok_or_else(|| failed("the server wants TLS"))?;
        let line = self.input.into_inner().secure(config)?;
        Ok(Self {
            input: BufReader::with_capacity(BUFFER_BYTES, line),
            ..self
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.input.get_mut().write_all(bytes)?)
    }

    /// Puts a request behind those that are to be sent together. Returns its stream.
    pub(crate) fn queue(&mut self, request: &Request<'_>) -> StreamId {
        self.last = self.last.checked_add(1).unwrap_or(1);
        let stream = StreamId::new(self.last);
        request.encode(stream, &mut self.output);
        stream
    }

    /// Sends what was queued.
    pub(crate) fn send(&mut self) -> Result<()> {
        self.input.get_mut().write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    /// Sends data that follow a request.
    pub(crate) fn send_data(&mut self, bytes: &[u8]) -> Result<()> {
        self.write(bytes)
    }

    /// The header of the next answer.
    pub(crate) fn header(&mut self) -> Result<ResponseHeader> {
        let mut bytes = [0; RESPONSE_HEADER_BYTES];
        self.input.read_exact(&mut bytes)?;
        Ok(ResponseHeader::parse(&bytes))
    }

    fn small_answer(&mut self) -> Result<(ResponseHeader, Vec<u8>)> {
        let header = self.header()?;
        let length = header.body().map_err(failed)?.bytes();
        if length > ANSWER_BYTES_MAX {
            return Err(failed(format!("an answer of {length} bytes")));
        }
        let mut body = vec![0; length];
        self.input.read_exact(&mut body)?;
        Ok((header, body))
    }

    /// Lets `length` bytes pass, and shows them to `look`.
    pub(crate) fn pass(&mut self, length: usize, mut look: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut left = length;
        while left > 0 {
            let buffered = self.input.fill_buf()?;
            if buffered.is_empty() {
                return Err(failed("the connection ended within an answer"));
            }
            let taken = buffered.len().min(left);
            look(&buffered[..taken])?;
            self.input.consume(taken);
            left -= taken;
        }
        Ok(())
    }

    /// Lets an answer with data pass, whatever its length. Returns whether it was the last of its
    /// request.
    pub(crate) fn pass_answer(&mut self, look: impl FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let header = self.header()?;
        match header.body().map_err(failed)? {
            Body::Data(length) => self.pass(length, look)?,
            Body::Buffered(length) | Body::Pages(length) => {
                let mut body = vec![0; length];
                self.input.read_exact(&mut body)?;
                return Err(failed(format!("{:?}", Answer::parse(&header, &body).map_err(failed)?)));
            }
        }
        Ok(header.kind().map_err(failed)? == xroot_wire::Status::Ok)
    }

    /// Sends `request` and waits for its answer, be it a late one.
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> Result<Vec<u8>> {
        let stream = self.queue(request);
        self.send()?;
        self.wait(stream)
    }

    /// Waits for the answer to the request of `stream`, be it a late one. Nothing else may be under
    /// way.
    fn wait(&mut self, stream: StreamId) -> Result<Vec<u8>> {
        match self.reply()? {
            (of, Reply::Done(body)) if of == stream => Ok(body),
            (_, other) => Err(failed(format!("the answer is {other:?}"))),
        }
    }

    /// The next reply to any request, be it a late one, and the request's stream.
    pub(crate) fn reply(&mut self) -> Result<(StreamId, Reply)> {
        loop {
            let (header, body) = self.small_answer()?;
            let mut answer = (header.stream, Answer::parse(&header, &body).map_err(failed)?);
            if let Answer::Attention(Attention::Answer(late)) = answer.1 {
                answer = (
                    late.header.stream,
                    Answer::parse(&late.header, late.body).map_err(failed)?,
                );
            }
            let (stream, answer) = answer;
            let reply = match answer {
                Answer::Ok(body) => Reply::Done(body.to_vec()),
                Answer::Redirect(redirect) => Reply::Redirected(redirect),
                Answer::Wait { seconds, .. } => Reply::Later(Duration::from_secs(seconds.into())),
                Answer::Error { number, .. } if number == ErrorNumber::NOT_FOUND => Reply::NotFound,
                Answer::WaitForAnswer { .. } | Answer::Attention(_) => continue,
                other => return Err(failed(format!("the answer is {other:?}"))),
            };
            return Ok((stream, reply));
        }
    }

    /// Opens `path`, which may have CGI.
    pub(crate) fn open_file(&mut self, path: &str, options: OpenOptions) -> Result<OpenReply> {
        let body = self.ask(&opening(path, options))?;
        OpenReply::parse(&body).map_err(failed)
    }

    /// Opens `path` for reading.
    pub(crate) fn open_to_read(&mut self, path: &str) -> Result<OpenReply> {
        self.open_file(path, OpenOptions::READ | OpenOptions::RETURN_STAT)
    }

    /// Closes a file.
    pub(crate) fn close(&mut self, handle: FileHandle) -> Result<()> {
        self.ask(&Request::Close(Close { handle })).map(drop)
    }
}

/// What a server says of gsi.
fn gsi_parameters(offered: &[SecurityEntry]) -> Result<&str> {
    let entry = offered.iter().find(|entry| entry.name == gsi_wire::gsi::NAME);
    let parameters = entry.and_then(|entry| entry.parameters.as_deref());
    parameters.ok_or_else(|| failed("the server does not offer gsi"))
}
