//! PUT: sending a file to a server, which may answer before the end.

use std::time::UNIX_EPOCH;

use crate::limits::PEER_WORDS_WAIT;
use http_wire::{
    CHUNK_END, HeadLimits, LAST_CHUNK, Method, RequestBuilder, ResponseHead, chunk_head, digest_trailer,
    last_chunk_with_trailers,
};
use net::{Ends, Outgoing, Stream};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, PeerStatus, Phase, Result, Signer};

use super::answer::Answer;
use super::client::Client;
use super::exchange::{Ask, Body, Hop, Live, Reply};
use crate::options::{PutOptions, Stored};
use crate::outlet::FileUpload;
use crate::resource::{Facts, Resource, Validator};

/// A redirect after `100 Continue`: the content is already on its way.
const TOO_LATE: &str = "the redirect came after the file's content had begun";

/// What comes after the head.
enum State {
    /// The server is ready for the body.
    Sending(Box<Live>),
    /// An empty file was stored with the head alone.
    Answered(Box<Answer>),
    /// The server has refused, or the connection is lost.
    Over,
}

/// How the end of the body is marked.
enum Form {
    /// This many bytes in all.
    Known(u64),
    /// Chunks, with what must go in front of the next one.
    Chunks(&'static [u8]),
}

/// A file on its way to a server. Dropping it before it is finished closes the connection, which
/// tells the server that the file is incomplete.
pub(crate) struct Outlet {
    client: Client,
    file: Resource,
    overwrite: bool,
    state: State,
    form: Form,
    /// The length of the content, if it is known.
    size_bytes: Option<u64>,
    /// Whether the server compares a checksum behind the content, and that checksum.
    declares_behind: bool,
    declared: Option<Checksum>,
    sent_bytes: u64,
    ends: Option<Ends>,
}

impl Client {
    /// Refuses a file that the server is known to have. XRootD ignores the condition of a PUT, so
    /// we ask first. A server that does not answer is trusted with the condition.
    async fn check_absent(&self, file: &Resource) -> Result<()> {
        let headers = |request: RequestBuilder, _: &Hop<'_>| request.accept_anything();
        let ask = Ask {
            method: Method::Head,
            headers: &headers,
            body: Body::Nothing,
        };
        let answer = self.ask_until_taken(file, &ask).await?;
        let exists = answer.is_success();
        answer.finish().await;
        if exists {
            Err(file.error(ErrorCode::PeerExists, Phase::Open))
        } else {
            Ok(())
        }
    }

    /// Asks to store a file, and returns once the server wants the body (RFC 9110 §10.1.1).
    /// Redirects and refusals come before a byte is sent. A server that does not know
    /// `100 Continue` gets the body after a second of silence.
    ///
    /// # Errors
    /// The server's refusal; `peer_exists` when the file exists and must not be replaced.
    pub(crate) async fn put(&self, file: &Resource, options: &PutOptions) -> Result<Outlet> {
        let md5 = file.md5_to_send(options);
        match self.put_with(file, options, md5).await {
            // A server may want the header to be signed, too.
            Err(error) if md5.is_some() && matches!(error.peer_status(), Some(PeerStatus::Http(400 | 403))) => {
                self.put_with(file, options, None).await
            }
            asked => asked,
        }
    }

    /// The same with this MD5, in the form of object stores.
    async fn put_with(&self, file: &Resource, options: &PutOptions, md5: Option<&Checksum>) -> Result<Outlet> {
        let with_md5 = |request: RequestBuilder| match md5 {
            Some(md5) => request.content_md5(md5),
            None => request,
        };
        let headers = |request: RequestBuilder, hop: &Hop<'_>| put_headers(with_md5(request), hop, options, true);
        let without_waiting =
            |request: RequestBuilder, hop: &Hop<'_>| put_headers(with_md5(request), hop, options, false);
        let is_empty = options.size_bytes == Some(0);
        file.check_signed_put(options.size_bytes)?;
        if !options.overwrite && !options.is_absent && file.signature().is_none() {
            self.check_absent(file).await?;
        }
        let ask = Ask {
            method: Method::Put,
            headers: &headers,
            body: if is_empty { Body::Nothing } else { Body::WhenAsked },
        };
        let mut reply = self.begin_patiently(file, &ask).await?;
        if matches!(&reply, Reply::Answered(answer) if answer.head.status == 417) {
            // A server that knows no expectation at all (RFC 9110 §15.5.18).
            if let Reply::Answered(answer) = reply {
                answer.finish().await;
            }
            let ask = Ask {
                headers: &without_waiting,
                body: Body::AtOnce,
                ..ask
            };
            reply = self.begin(file, &ask).await?;
        }
        let outlet = |state, file: Resource, ends| Outlet {
            client: self.clone(),
            overwrite: options.overwrite,
            state,
            form: known_bytes(options, &file).map_or(Form::Chunks(b""), Form::Known),
            size_bytes: options.size_bytes,
            declares_behind: options.declares_behind(&file.location),
            declared: None,
            file,
            sent_bytes: 0,
            ends,
        };
        match reply {
            Reply::Continue(live, file) => {
                let ends = live.connection.stream.ends();
                Ok(outlet(State::Sending(live), *file, ends))
            }
            Reply::Answered(answer) if is_empty && answer.is_success() => {
                let (file, ends) = (answer.file.clone(), answer.ends());
                Ok(outlet(State::Answered(answer), file, ends))
            }
            Reply::Answered(answer) if answer.is_success() => {
                Err(answer.misbehaved("the peer took the file without waiting for its content"))
            }
            Reply::Answered(answer) => Err(refused(*answer, options.overwrite).await),
        }
    }
}

/// The length that is announced; `None` if the content goes in chunks.
fn known_bytes(options: &PutOptions, file: &Resource) -> Option<u64> {
    let size_bytes = options.size_bytes;
    size_bytes.filter(|_| !options.declares_behind(&file.location))
}

/// What is known to servers other than those of S3, which alone have CRC-64/NVME.
fn is_common(checksum: &Checksum) -> bool {
    ChecksumAlgorithm::ALL.contains(&checksum.algorithm())
}

fn put_headers(request: RequestBuilder, hop: &Hop<'_>, options: &PutOptions, waits: bool) -> RequestBuilder {
    let signer = hop.file.location.signature().map(|signature| signature.signer);
    let request = match signer {
        Some(Signer::Azure) => request.block_blob(),
        _ => request,
    };
    let mut request = match known_bytes(options, hop.file) {
        Some(size) => request.content_length(size),
        None if options.declares_behind(&hop.file.location) => request.chunked().digest_trailer(),
        None => request.chunked(),
    };
    if let Some(checksum) = options.declared.iter().find(|sum| is_common(sum)) {
        request = request.digest(checksum).repr_digest(checksum);
    }
    if !options.overwrite {
        request = request.if_absent();
    }
    let since = options
        .modified
        .and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
    if let Some(seconds) = since.and_then(|since| i64::try_from(since.as_secs()).ok()) {
        request = request.modified(seconds);
    }
    if waits && options.size_bytes != Some(0) {
        request = request.expect_continue();
    }
    request
}

/// A refused PUT. Our only condition is that the file does not exist.
async fn refused(answer: Answer, overwrite: bool) -> Error {
    match answer.head.status {
        412 if !overwrite => answer.refused_as(ErrorCode::PeerExists).await,
        300..400 if answer.file.access.signed_for.is_none() => answer.misbehaved(TOO_LATE),
        _ => answer.refused_content().await,
    }
}

impl FileUpload for Outlet {
    fn ends(&self) -> Option<Ends> {
        self.ends
    }

    fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    async fn outgoing(&mut self) -> Result<Outgoing> {
        self.check_answer().await?;
        let stream = &mut self.live()?.connection.stream;
        // Nothing may be queued from here on: the head of a chunk goes out before this buffer, so a
        // record that was sealed together with the buffer would come too late.
        let room = match stream.flush().await {
            Ok(()) => stream.outgoing().await,
            Err(error) => Err(error),
        };
        match room {
            Ok(room) => Ok(room),
            Err(error) => Err(self.explain(error).await),
        }
    }

    async fn send(&mut self, outgoing: Outgoing, filled: usize) -> Result<()> {
        if filled == 0 {
            return Ok(());
        }
        let total = self.sent_bytes + filled as u64;
        if self.size_bytes.is_some_and(|size| total > size) {
            let error = self.file.error(ErrorCode::Internal, Phase::Transfer);
            return Err(error.with_detail("more was to be sent than was announced"));
        }
        let frame = match &mut self.form {
            Form::Known(_) => None,
            Form::Chunks(before) => Some(std::mem::replace(before, CHUNK_END)),
        };
        let stream = &mut self.live()?.connection.stream;
        let sent = match frame {
            None => stream.send(outgoing, filled).await,
            Some(before) => {
                stream.queue(before);
                stream.queue(chunk_head(filled).as_bytes());
                match stream.flush().await {
                    Ok(()) => stream.send(outgoing, filled).await,
                    Err(error) => Err(error),
                }
            }
        };
        match sent {
            Ok(()) => {
                self.sent_bytes = total;
                Ok(())
            }
            Err(error) => Err(self.explain(error).await),
        }
    }

    fn bare_stream(&mut self) -> Option<&mut Stream> {
        match (&mut self.state, &self.form) {
            (State::Sending(live), Form::Known(_)) => Some(&mut live.connection.stream),
            _ => None,
        }
    }

    fn sent(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
    }

    async fn check_answer(&mut self) -> Result<()> {
        // Behind the last byte an answer is no refusal yet: `finish` judges it.
        if matches!(self.form, Form::Known(size) if size == self.sent_bytes) {
            return Ok(());
        }
        loop {
            match self.live()?.connection.response_available(&HeadLimits::default()) {
                Ok(None) => return Ok(()),
                // A late `100 Continue`: we went on without it.
                Ok(Some(head)) if head.is_interim() => {}
                Ok(Some(head)) => return Err(self.early(head).await),
                // An answer may have come before the end of the connection.
                Err(error) => return Err(self.explain(error).await),
            }
        }
    }

    async fn explain(&mut self, cause: Error) -> Error {
        let cause = self.file.blame(cause);
        let stall = self.client.options.stall;
        let Ok(live) = self.live() else { return cause };
        match live.final_head(PEER_WORDS_WAIT, stall).await {
            Ok(head) => self.early(head).await,
            Err(_) => {
                self.state = State::Over;
                cause
            }
        }
    }

    fn declare(&mut self, checksums: &[Checksum]) {
        let is_taken = self.declares_behind;
        self.declared = checksums
            .iter()
            .find(|sum| is_common(sum))
            .filter(|_| is_taken)
            .cloned();
    }

    async fn finish(mut self) -> Result<Stored> {
        let mut answer = match std::mem::replace(&mut self.state, State::Over) {
            State::Answered(answer) => *answer,
            State::Sending(live) => self.close_body(live).await?,
            State::Over => return Err(self.file.error(ErrorCode::PeerClosed, Phase::Transfer)),
        };
        if !answer.is_success() {
            return Err(refused(answer, self.overwrite).await.in_phase(Phase::Commit));
        }
        let stored = Stored {
            created: answer.head.status == 201,
            is_pending: answer.head.status == 202,
            checksums: Facts::of(&answer.head, &self.file).checksums,
            version: Facts::of(&answer.head, &self.file)
                .validator()
                .filter(|version| matches!(version, Validator::Tag(_))),
            keeps_modified: answer.head.has_accepted_modified(),
            sent: Vec::new(),
        };
        if self.file.access.signed_for.is_none() {
            answer.finish().await;
            return Ok(stored);
        }
        // A server of S3 may find behind the status that it failed.
        let body = answer.collect(s3_wire::limits::ANSWER_BYTES_MAX).await?;
        answer.release();
        match s3_wire::refusal(&body) {
            None => Ok(stored),
            refusal => Err(crate::s3::refused_late(&self.file, refusal.as_ref())),
        }
    }
}

impl Outlet {
    /// An answer before the end of the body. The connection cannot be used again.
    async fn early(&mut self, head: ResponseHead) -> Error {
        let State::Sending(live) = std::mem::replace(&mut self.state, State::Over) else {
            return self.file.error(ErrorCode::Internal, Phase::Transfer);
        };
        match Answer::new(*live, self.file.clone(), head, &Method::Put) {
            Err(error) => error,
            Ok(answer) if answer.is_success() => answer.misbehaved("the peer was content before the end of the file"),
            Ok(answer) if answer.head.status < 400 => answer.misbehaved(TOO_LATE),
            Ok(answer) => {
                if !matches!(answer.head.status, 412 if !self.overwrite) {
                    return answer.refused_and_close().await.in_phase(Phase::Transfer);
                }
                let words = answer.words_and_close().await;
                let error = self.file.error(ErrorCode::PeerExists, Phase::Transfer);
                error.with_peer(Some(PeerStatus::Http(412)), &words)
            }
        }
    }

    async fn close_body(&mut self, mut live: Box<Live>) -> Result<Answer> {
        if let Some(size) = self.size_bytes.filter(|size| *size != self.sent_bytes) {
            let error = self.file.error(ErrorCode::Internal, Phase::Transfer);
            return Err(error.with_detail(format!("{} of {size} bytes were sent", self.sent_bytes)));
        }
        if let Form::Chunks(before) = self.form {
            live.connection.stream.queue(before);
            match &self.declared {
                Some(sum) => live
                    .connection
                    .stream
                    .queue(&last_chunk_with_trailers(&digest_trailer(sum))),
                None => live.connection.stream.queue(LAST_CHUNK),
            }
        }
        if let Err(error) = live.connection.stream.flush().await {
            self.state = State::Sending(live);
            return Err(self.explain(error).await);
        }
        let options = &self.client.options;
        let head = live.final_head(options.first_byte, options.stall).await;
        let head = head.map_err(|error| self.file.blame(error).in_phase(Phase::Commit))?;
        Answer::new(*live, self.file.clone(), head, &Method::Put)
    }

    fn live(&mut self) -> Result<&mut Live> {
        // An earlier call has already returned the reason.
        let over = || self.file.error(ErrorCode::PeerClosed, Phase::Transfer);
        match &mut self.state {
            State::Sending(live) => Ok(live),
            State::Answered(_) | State::Over => Err(over()),
        }
    }
}

impl std::fmt::Debug for Outlet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Outlet({}, {} bytes sent)",
            self.file.location, self.sent_bytes
        )
    }
}
