//! All ways to answer a request, now or later, and the report that follows.

use std::time::Instant;

use endpoint::ErrorFacts;
use types::{Error, ErrorCode, Location, LogicalPath, Phase, Side};
use xroot_wire::request::RequestHeader;
use xroot_wire::response::{Redirect, respond};
use xroot_wire::{Status, StreamId};

use crate::connection::{Connection, Next};
use crate::exchange::Exchange;
use crate::failure::{Failure, Result, error_words, is_torn};
use crate::files::OpenFile;
use crate::late::{Late, LateAnswer, LateRequest};
use crate::limits::XROOT_WAIT_S;
use crate::session::Session;

impl<'c> Exchange<'c> {
    /// Answers with a body.
    pub(crate) fn ok(&mut self, body: &[u8]) {
        let stream = self.stream;
        self.connection.queue(|out| respond::ok(out, stream, body));
    }

    /// Answers a step of an authentication with what the client needs for the next one.
    pub(crate) fn more(&mut self, body: &[u8]) {
        let stream = self.stream;
        let status = Status::MoreAuthentication;
        self.connection.queue(|out| respond::frame(out, stream, status, body));
    }

    /// Starts the work for a late answer, and tells the client to wait for it for up to `seconds`.
    pub(crate) fn later(
        &mut self,
        path: &LogicalPath,
        seconds: u32,
        work: impl Future<Output = Result<Late>> + Send + 'static,
    ) -> Result<Next> {
        let announced = self.session()?.takes_late_answers;
        let stream = self.stream;
        let request = LateRequest {
            stream,
            announced,
            record: self.record.clone(),
            began: self.began,
        };
        self.connection.late.begin(path, request, work)?;
        if announced {
            self.connection
                .queue(|out| respond::wait_for_answer(out, stream, seconds, ""));
        }
        Ok(Next::Later)
    }

    /// Sends the client to another server with the same request.
    pub(crate) fn redirect(&mut self, place: &Location) {
        self.redirect_to(&Redirect::to_host(place.host(), place.port()));
    }

    /// The same with a redirection of any form.
    pub(crate) fn redirect_to(&mut self, target: &Redirect) {
        let stream = self.stream;
        self.connection.queue(|out| respond::redirect(out, stream, target));
    }

    /// Tells the client to send the same request again in a moment, because it may succeed then.
    /// Returns false if the client has been told so often enough.
    pub(crate) fn wait(&mut self, failure: &Failure) -> bool {
        let Some(session) = &mut self.connection.session else {
            return false;
        };
        if !session.redirects.may_wait(&self.record.path, self.waits_max) {
            return false;
        }
        self.record.error = Some(ErrorFacts::from(&failure.error));
        let (stream, words) = (self.stream, error_words(&failure.error));
        self.connection
            .queue(|out| respond::wait(out, stream, XROOT_WAIT_S, &words));
        true
    }

    /// The client has what it waited for.
    pub(crate) fn is_answered(&mut self) {
        if let Some(session) = &mut self.connection.session {
            session.redirects.is_answered(&self.record.path);
        }
    }

    /// Answers with a text.
    pub(crate) fn ok_text(&mut self, text: &str) {
        let stream = self.stream;
        self.connection.queue(|out| respond::ok_text(out, stream, text));
    }

    /// Ends the exchange: sends the failure if there is one, and reports the request.
    pub(crate) fn finish(mut self, result: Result<Next>) -> Next {
        let next = match result {
            // It is reported when it is answered.
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
            error = self.exports.with_client_path(error, &path);
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

    fn tell(&mut self) {
        self.record.total_us = self.elapsed_us();
        self.name_request();
        if let Some(session) = &self.connection.session {
            self.record.user = Some(session.user.clone());
            self.record.user_agent.clone_from(&session.agent);
        }
        self.connection.door.settings.site.events.request(&self.record);
    }

    /// Who the client is, for those who watch the use of files.
    pub(crate) fn client_facts(&self) -> telemetry::Client {
        let session = self.connection.session.as_ref();
        telemetry::Client {
            user: session.map(|session| session.user.clone()).unwrap_or_default(),
            program: session.and_then(|session| session.agent.clone()).unwrap_or_default(),
            ..self.record.client(self.connection.frames.stream.local_address())
        }
    }

    /// Sends a late answer.
    pub(crate) fn resume(connection: &'c mut Connection, answer: LateAnswer) {
        let LateAnswer { request, outcome } = answer;
        let mut exchange = Self::new(connection, request.stream, "", request.began);
        exchange.record = request.record;
        match outcome {
            Ok(late) => {
                let (status, body) = match late {
                    Late::Text(text) => (Status::Ok, [text.as_bytes(), b"\0"].concat()),
                    Late::Done => (Status::Ok, Vec::new()),
                    Late::Again => (Status::Wait, respond::wait_body(0, "")),
                };
                let stream = exchange.stream;
                exchange.connection.queue(|out| match request.announced {
                    true => respond::later(out, stream, status, &body),
                    false => respond::frame(out, stream, status, &body),
                });
                exchange.record.status = Some(0);
            }
            Err(failure) => {
                exchange.fail(&failure, request.announced);
            }
        }
        exchange.tell();
    }

    /// Reports that an open file was abandoned: its client left, which is an error only for a file
    /// that was being written, or the server stopped.
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

    /// Answers requests whose work was cancelled.
    pub(crate) fn answer_all(&mut self, answers: Vec<LateAnswer>) {
        for answer in answers {
            Exchange::resume(self.connection, answer);
        }
    }
}

/// Answers a request that was refused before anything was done for it.
pub(crate) fn refuse(connection: &mut Connection, header: &RequestHeader, began: Instant, failure: Failure) -> Next {
    let closes = failure.closes;
    if let (Some(handle), Some(session)) = (header.changed_file(), &mut connection.session) {
        session.files.refuse_change(handle);
    }
    Exchange::begin(connection, header, began).finish(Err(failure));
    if closes { Next::Close } else { Next::Request }
}

/// Answers a request about data of an open file that failed.
pub(crate) fn fail(
    connection: &mut Connection,
    stream: StreamId,
    method: &'static str,
    began: Instant,
    failure: Failure,
) -> Next {
    Exchange::new(connection, stream, method, began).finish(Err(failure))
}

/// Gives up all open files of a connection that has ended, and reports why.
pub(crate) fn abandon_files(connection: &mut Connection, why: ErrorCode) {
    let files = connection.session.as_mut().map(Session::take_files).unwrap_or_default();
    for file in files {
        file.traffic.torn();
        Exchange::closing(connection, StreamId::ZERO, Instant::now()).abandon(file, why);
    }
}
