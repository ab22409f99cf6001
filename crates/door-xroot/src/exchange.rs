//! One request and its answer: the state that all requests share, how they ask for rights, and all ways
//! to answer.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use crate::limits::PENDING_WAIT;
use credentials::Credential;
use endpoint::ids::fresh_id;
use endpoint::{
    Asker, Change, Changing, ClientId, ErrorFacts, Exports, Found, Granted, Holder, LockKeys, Permit, Place, Protocol,
    RequestRecord, Spot, elapsed_us, refusal,
};
use policy::Operation;
use types::{Error, ErrorCode, Location, LogicalPath, Phase, Side};
use xroot_wire::request::{Request, RequestHeader};
use xroot_wire::response::{Redirect, respond};
use xroot_wire::{Argument, Cgi, FileHandle, Opcode, Status, StreamId};

use crate::connection::{Connection, Next, not_offered};
use crate::failure::{Failure, Result};
use crate::files::OpenFile;
use crate::late::{Late, LateAnswer};
use crate::setup::Session;
use crate::turns::Writer;
use crate::{attributes, list, locate, names, open, prepare, query, setup, stat, write};

/// One request and its answer.
pub(crate) struct Exchange<'c> {
    pub(crate) connection: &'c mut Connection,
    /// The request's name on the connection.
    pub(crate) stream: StreamId,
    /// The exports as they were when the request came.
    pub(crate) exports: Arc<Exports>,
    pub(crate) credential: types::Result<Arc<Credential>>,
    pub(crate) record: RequestRecord,
    pub(crate) began: Instant,
}

/// A path of a request and what stands behind it.
pub(crate) struct Named<'a> {
    pub(crate) path: LogicalPath,
    pub(crate) cgi: Cgi<'a>,
}

impl<'c> Exchange<'c> {
    pub(crate) fn begin(connection: &'c mut Connection, header: &RequestHeader, began: Instant) -> Self {
        let method = header.known_opcode().map_or("unknown", method_name);
        Self::new(connection, header.stream, method, began)
    }

    /// What is told when a file is given up with its connection.
    pub(crate) fn closing(connection: &'c mut Connection, stream: StreamId, began: Instant) -> Self {
        Self::new(connection, stream, method_name(Opcode::Close), began)
    }

    pub(crate) fn new(connection: &'c mut Connection, stream: StreamId, method: &'static str, began: Instant) -> Self {
        // What costs an allocation is added when it is reported.
        let record = RequestRecord {
            method: Cow::Borrowed(method),
            ..RequestRecord::new(Protocol::Xroot, connection.peer, connection.frames.stream.security())
        };
        let session = connection.session.as_ref();
        let credential = session.map_or_else(anonymous, |session| session.credential.clone());
        let mut exchange = Self {
            exports: connection.door.settings.site.exports.current(),
            credential: Ok(credential),
            connection,
            stream,
            record,
            began,
        };
        exchange.note_credential();
        exchange
    }

    /// Serves a request that moves no data of open files.
    pub(crate) async fn serve(mut self, request: Request<'_>) -> types::Result<Next> {
        let result = self.act(request).await;
        let next = self.finish(result);
        Ok(next)
    }

    async fn act(&mut self, request: Request<'_>) -> Result<Next> {
        match request {
            Request::Protocol(request) => return setup::protocol(self, &request),
            Request::Login(request) => return setup::login(self, &request),
            Request::Authenticate(request) => return setup::authenticate(self, &request).await,
            Request::Bind(request) => return setup::bind(self, &request),
            Request::EndSession(request) => return setup::end_session(self, &request),
            Request::Ping | Request::Set(_) => self.ok(&[]),
            // Nothing here is signed, and what needs no signature may have one.
            Request::SignatureVerify(_) => {}
            Request::Open(request) => return open::answer(self, &request).await,
            Request::Close(request) => write::close(self, &request).await?,
            Request::Sync(request) => return write::sync(self, &request).await,
            Request::Truncate(request) => write::truncate(self, &request).await?,
            Request::Stat(request) => stat::answer(self, &request).await?,
            Request::StatMany(request) => stat::many(self, &request).await?,
            Request::Locate(request) => locate::answer(self, &request).await?,
            Request::ListDirectory(request) => list::answer(self, &request).await?,
            Request::MakeDirectory(request) => names::make_directory(self, &request).await?,
            Request::RemoveDirectory(request) => names::remove_directory(self, &request).await?,
            Request::Remove(request) => names::remove(self, &request).await?,
            Request::Rename(request) => names::rename(self, &request).await?,
            Request::ChangeMode(request) => names::change_mode(self, &request).await?,
            Request::FileAttributes(request) => attributes::answer(self, &request).await?,
            Request::Prepare(request) => prepare::answer(self, &request).await?,
            Request::Query(request) => {
                let answered = query::answer(self, &request).await?;
                return Ok(if answered { Next::Request } else { Next::Later });
            }
            Request::Checkpoint(request) => return self.refuse_change(request.handle),
            Request::Clone(request) => return self.refuse_change(request.destination),
            Request::GetFile => return Err(not_offered()),
            // These move data and were served before.
            Request::Read(_)
            | Request::ReadVector(_)
            | Request::PageRead(_)
            | Request::PageWrite(_)
            | Request::Write(_)
            | Request::WriteVector(_) => return Err(not_offered()),
        }
        Ok(Next::Request)
    }

    /// Refuses a kind of change that is not offered. The file is not what its client means it to be.
    fn refuse_change(&mut self, handle: FileHandle) -> Result<Next> {
        self.session()?.files.refuse_change(handle);
        Err(not_offered())
    }

    /// Microseconds since the request's header was read.
    pub(crate) fn elapsed_us(&self) -> u64 {
        elapsed_us(self.began)
    }

    /// The path of the request. A token behind it takes the place of the session's credential.
    pub(crate) async fn path<'a>(&mut self, argument: &Argument<'a>) -> Result<Named<'a>> {
        let named = argument.path()?;
        Ok(self.name(named.path, named.cgi).await)
    }

    pub(crate) async fn name<'a>(&mut self, path: LogicalPath, cgi: Cgi<'a>) -> Named<'a> {
        path.as_str().clone_into(&mut self.record.path);
        if let Some(token) = cgi.token() {
            self.credential = match self.admit_secrets() {
                Ok(()) => self.connection.door.settings.site.authenticator.bearer(token.expose()).await,
                Err(error) => Err(error),
            };
            self.note_credential();
        }
        Named { path, cgi }
    }

    /// Whether what must stay between client and server may be sent on this connection.
    ///
    /// # Errors
    /// `tls_required`: it may not.
    pub(crate) fn admit_secrets(&self) -> types::Result<()> {
        let site = &self.connection.door.settings.site;
        site.admit_secrets(self.connection.gate.is_secure(), self.connection.peer.ip())
    }

    /// Asks policy. Why something is refused is kept under the name of the request.
    pub(crate) fn authorize(
        &mut self,
        operation: Operation,
        path: &LogicalPath,
        size_bytes: Option<u64>,
    ) -> Result<Granted> {
        let refusals = &self.connection.door.settings.site.refusals;
        let name = &mut self.record.request_id;
        let asker = Asker {
            credential: &self.credential,
            address: self.connection.peer.ip(),
        };
        let granted = self
            .exports
            .authorize(asker, operation, path, size_bytes, refusals, || name_of(name));
        self.record.authorized_us = Some(self.elapsed_us());
        Ok(granted?)
    }

    /// The client, as its share is counted.
    pub(crate) fn client(&self) -> ClientId {
        ClientId::at(self.connection.peer.ip()).showing(&self.credential)
    }

    pub(crate) fn asker(&self) -> Asker<'_> {
        Asker {
            credential: &self.credential,
            address: self.connection.peer.ip(),
        }
    }

    /// Whether what stands there when a new file is ready may be replaced.
    pub(crate) fn may_replace(&self, path: &LogicalPath, size_bytes: Option<u64>) -> bool {
        self.exports
            .would_allow(self.asker(), Operation::Overwrite, path, size_bytes)
    }

    /// Whether a file that is opened to be changed may be read as well.
    pub(crate) fn may_read(&self, path: &LogicalPath) -> bool {
        self.exports.would_allow(self.asker(), Operation::Read, path, None)
    }

    /// Waits a moment for a file that this client's host is writing under a name on another session. xrootdfs closes
    /// files when their users have gone on: whoever has just written one reads, renames or removes it before it is
    /// stored. On a server that shows files while they are written that goes well.
    pub(crate) async fn settle(&mut self, path: &LogicalPath) -> Result<()> {
        let turns = self.connection.door.turns.clone();
        let is_elsewhere = turns.is_written_from(path, self.connection.peer.ip());
        if is_elsewhere && !self.session()?.files.writes(path) {
            turns.end(path, PENDING_WAIT).await;
        }
        Ok(())
    }

    /// What stands under a name, to whoever may look at it.
    pub(crate) async fn look(&self, spot: &Spot, path: &LogicalPath) -> Found {
        self.exports.look(self.asker(), spot, path).await
    }

    /// Whether WebDAV's locks let something be done to a name. This protocol has no way to show their tokens, so what is
    /// locked is so for everybody. To be asked when policy has allowed it.
    pub(crate) async fn check_locks(&self, spot: &Spot, path: &LogicalPath, change: Change) -> Result<()> {
        let place = (&spot.store, &spot.path);
        let checked = self
            .exports
            .check_locks(place, path, change, &LockKeys::default())
            .await;
        Ok(checked.map_err(|error| self.exports.locked_for(self.asker(), path, error))?)
    }

    /// The same for a change that is made now: until the end of what this gives, no lock is granted that forbids it.
    pub(crate) async fn begin_change(&self, spot: &Spot, path: &LogicalPath, change: Change) -> Result<Changing> {
        let place = (&spot.store, &spot.path);
        let begun = self
            .exports
            .begin_change(place, path, change, &LockKeys::default())
            .await;
        Ok(begun.map_err(|error| self.exports.locked_for(self.asker(), path, error))?)
    }

    /// The right to store a file, to be asked again before it has its name.
    pub(crate) fn permit(&self, path: &LogicalPath) -> Permit {
        let exports = &self.connection.door.settings.site.exports;
        Permit::new(
            exports,
            &self.exports,
            Some(&self.credential),
            self.connection.peer.ip(),
            path,
        )
    }

    /// What a path stands for, to whoever asks.
    pub(crate) fn place(&self, path: &LogicalPath) -> Place {
        self.exports.place(self.asker(), path)
    }

    fn note_credential(&mut self) {
        self.record.note_holder(Holder::of(&self.credential));
    }

    /// The export that a path is in. Above all exports nothing can be changed, and what is asked there is
    /// refused with `above`.
    pub(crate) fn spot(&mut self, path: &LogicalPath, above: ErrorCode) -> Result<Spot> {
        match self.place(path) {
            Place::Stored(spot) => Ok(spot),
            Place::Above(_) => Err(refusal(above, path).into()),
            Place::Nowhere => Err(self.nowhere(path)),
        }
    }

    /// Why nothing can be done where nothing is exported.
    pub(crate) fn nowhere(&mut self, path: &LogicalPath) -> Failure {
        // Policy knows whether the token, if there is one, is of any use at all.
        match self.authorize(Operation::Stat, path, None) {
            Err(failure) => failure,
            Ok(_) => refusal(ErrorCode::NotFound, path).into(),
        }
    }

    /// The session of the connection.
    pub(crate) fn session(&mut self) -> Result<&mut Session> {
        self.connection.session()
    }

    /// The program that asks, as a writer of this file.
    pub(crate) fn writer(&mut self, path: &LogicalPath) -> Result<Writer> {
        let (address, client) = (self.connection.peer.ip().to_canonical(), self.client());
        let session = self.session()?;
        Ok(Writer {
            path: path.clone(),
            address,
            process: session.process,
            agent: session.agent.clone(),
            client,
        })
    }

    /// An open file.
    pub(crate) fn file(&mut self, handle: FileHandle) -> Result<&mut OpenFile> {
        let file = self.connection.files()?.file(handle)?;
        file.path.as_str().clone_into(&mut self.record.path);
        Ok(file)
    }

    /// Answers with a body.
    pub(crate) fn ok(&mut self, body: &[u8]) {
        let stream = self.stream;
        self.connection.queue(|out| respond::ok(out, stream, body));
    }

    /// Answers a step of an authentication with what the next one begins from.
    pub(crate) fn more(&mut self, body: &[u8]) {
        let stream = self.stream;
        let status = Status::MoreAuthentication;
        self.connection.queue(|out| respond::frame(out, stream, status, body));
    }

    /// Lets the answer come by itself: the client is told so, and the work begins. `seconds` is how long
    /// the client is to be prepared to wait.
    pub(crate) fn later(
        &mut self,
        path: &LogicalPath,
        seconds: u32,
        work: impl Future<Output = Result<Late>> + Send + 'static,
    ) -> Result<Next> {
        let announced = self.session()?.takes_late_answers;
        let (stream, record, began) = (self.stream, self.record.clone(), self.began);
        let late = &mut self.connection.late;
        late.begin(path, (stream, announced), (record, began), work)?;
        if announced {
            self.connection
                .queue(|out| respond::wait_for_answer(out, stream, seconds, ""));
        }
        Ok(Next::Later)
    }

    /// Sends the client to another server with the same request.
    pub(crate) fn redirect(&mut self, place: &Location) {
        let (stream, target) = (self.stream, Redirect::to_host(place.host(), place.port()));
        self.connection.queue(|out| respond::redirect(out, stream, &target));
    }

    /// Answers with a text.
    pub(crate) fn ok_text(&mut self, text: &str) {
        let stream = self.stream;
        self.connection.queue(|out| respond::ok_text(out, stream, text));
    }

    /// Ends the exchange: answers with the failure if there is one, and tells the log.
    pub(crate) fn finish(mut self, result: Result<Next>) -> Next {
        let next = match result {
            // It is told when it is answered.
            Ok(Next::Later) => return Next::Request,
            Ok(next) => {
                self.record.status = Some(0);
                next
            }
            Err(failure) => self.fail(&failure, false),
        };
        self.tell();
        next
    }

    fn fail(&mut self, failure: &Failure, late: bool) -> Next {
        let mut error = failure.error.clone();
        if let Ok(path) = LogicalPath::parse(&self.record.path) {
            error = self.exports.shown(error, &path);
        }
        self.record.error = Some(ErrorFacts::from(&error));
        if is_torn(&error) {
            return Next::Close;
        }
        let (stream, number) = (self.stream, failure.number);
        let words = format!("{} {}", error_words(&error), self.name_request());
        self.record.status = Some(number.0);
        self.connection.queue(|out| match late {
            true => respond::later(out, stream, Status::Error, &respond::error_body(number, &words)),
            false => respond::error(out, stream, number, &words),
        });
        if failure.closes { Next::Close } else { Next::Request }
    }

    /// The request's name, which it gets when somebody asks for it first.
    pub(crate) fn name_request(&mut self) -> &str {
        name_of(&mut self.record.request_id)
    }

    fn tell(&mut self) {
        self.record.total_us = self.elapsed_us();
        self.name_request();
        if let Some(session) = &self.connection.session {
            self.record.user = Some(session.user.clone());
            self.record.user_agent.clone_from(&session.agent);
        }
        self.connection.door.settings.site.events.request(&self.record);
    }

    /// Sends an answer that took long.
    pub(crate) fn resume(connection: &'c mut Connection, answer: LateAnswer) {
        let mut exchange = Self::new(connection, answer.stream, "", answer.began);
        exchange.record = answer.record;
        match answer.outcome {
            Ok(late) => {
                let (status, body) = match late {
                    Late::Text(text) => (Status::Ok, [text.as_bytes(), b"\0"].concat()),
                    Late::Done => (Status::Ok, Vec::new()),
                    Late::Again => (Status::Wait, respond::wait_body(0, "")),
                };
                let stream = exchange.stream;
                exchange.connection.queue(|out| match answer.announced {
                    true => respond::later(out, stream, status, &body),
                    false => respond::frame(out, stream, status, &body),
                });
                exchange.record.status = Some(0);
            }
            Err(failure) => {
                exchange.fail(&failure, answer.announced);
            }
        }
        exchange.tell();
    }

    /// Tells that a file was given up because its client went, which is no fault where it only read, or because the
    /// server ends.
    pub(crate) fn abandon(mut self, file: OpenFile, why: ErrorCode) {
        self.note_file(&file);
        let side = match why {
            ErrorCode::ClientGone => Side::Client,
            _ => Side::Active,
        };
        if file.is_written() || side == Side::Active {
            let gone = Error::new(why, side, Phase::Transfer);
            self.record.error = Some(ErrorFacts::from(&gone.with_subject(&file.path)));
        }
        self.tell();
    }

    /// Takes over what is to be told of a file when it is closed.
    pub(crate) fn note_file(&mut self, file: &OpenFile) {
        file.path.as_str().clone_into(&mut self.record.path);
        self.credential = Ok(file.credential.clone());
        self.note_credential();
        (self.record.bytes_in, self.record.bytes_out) = file.traffic.totals();
        self.record.open_us = Some(elapsed_us(file.opened));
    }
}

/// The name of a request, made when it is asked for first.
fn name_of(name: &mut String) -> &str {
    if name.is_empty() {
        *name = fresh_id();
    }
    name
}

/// The credential of whoever has none.
pub(crate) fn anonymous() -> Arc<Credential> {
    Arc::new(Credential::Anonymous)
}

/// Whether nothing more can be said on the connection.
pub(crate) fn is_torn(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::ClientGone | ErrorCode::BodyStalled)
}

/// The words of an error for the client.
pub(crate) fn error_words(error: &Error) -> String {
    format!("{} [{}]", error.public(), error.code().name())
}

/// The word for a request in logs and metrics.
pub(crate) fn method_name(opcode: Opcode) -> &'static str {
    match opcode {
        Opcode::Authenticate => "authenticate",
        Opcode::Query => "query",
        Opcode::ChangeMode => "chmod",
        Opcode::Close => "close",
        Opcode::ListDirectory => "list",
        Opcode::GetFile => "getfile",
        Opcode::Protocol => "protocol",
        Opcode::Login => "login",
        Opcode::MakeDirectory => "mkdir",
        Opcode::Rename => "rename",
        Opcode::Open => "open",
        Opcode::Ping => "ping",
        Opcode::Checkpoint => "checkpoint",
        Opcode::Read => "read",
        Opcode::Remove => "remove",
        Opcode::RemoveDirectory => "rmdir",
        Opcode::Sync => "sync",
        Opcode::Stat => "stat",
        Opcode::Set => "set",
        Opcode::Write => "write",
        Opcode::FileAttributes => "attributes",
        Opcode::Prepare => "prepare",
        Opcode::StatMany => "stat_many",
        Opcode::EndSession => "end_session",
        Opcode::Bind => "bind",
        Opcode::ReadVector => "read_vector",
        Opcode::PageWrite => "page_write",
        Opcode::Locate => "locate",
        Opcode::Truncate => "truncate",
        Opcode::SignatureVerify => "signature",
        Opcode::PageRead => "page_read",
        Opcode::WriteVector => "write_vector",
        Opcode::Clone => "clone",
    }
}
