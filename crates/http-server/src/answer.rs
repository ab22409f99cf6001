//! All ways to answer a request: without a body, with one at hand, in pieces, and with an error.

use endpoint::clock::now_s;
use http_wire::{
    CHUNK_END, ContentType, Headers, LAST_CHUNK, ResponseBuilder, Version, chunk_head, last_chunk_with_trailers,
};
use types::{Error, Result};

use crate::exchange::{Exchange, Fate};
use crate::refusal::{error_text, refusal_head};

/// Longer pieces of an answer are sent without a copy.
const QUEUED_PIECE_BYTES_MAX: usize = 4096;

impl Exchange<'_> {
    /// Queues the head of the answer.
    pub fn head(&mut self, status: u16, fill: impl FnOnce(ResponseBuilder) -> ResponseBuilder) {
        self.keeps = self.may_keep && self.is_body_disposable() && !self.server.gate.is_draining();
        let builder = ResponseBuilder::new(status)
            .date(now_s())
            .server(&self.server.server_name)
            .request_id(&self.record.request_id);
        let builder = fill(builder);
        let builder = match (self.keeps, self.version) {
            (true, Version::Http10) => builder.keep_alive_http10(),
            (keeps, _) => builder.keep_alive(keeps),
        };
        self.connection.stream.queue_owned(builder.finish());
        self.record.status = Some(u32::from(status));
        self.record.first_byte_us = Some(self.elapsed_us());
    }

    /// Answers without a body: statuses that never have one, and answers to HEAD.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn bare(&mut self, status: u16, fill: impl FnOnce(ResponseBuilder) -> ResponseBuilder) -> Result<()> {
        self.head(status, fill);
        self.connection.stream.flush().await
    }

    /// Answers with a body that is at hand.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn whole(
        &mut self,
        status: u16,
        body: &[u8],
        fill: impl FnOnce(ResponseBuilder) -> ResponseBuilder,
    ) -> Result<()> {
        self.head(status, |head| fill(head).content_length(body.len() as u64));
        if !self.is_head {
            self.connection.stream.queue(body);
            self.record.bytes_out += body.len() as u64;
        }
        self.connection.stream.flush().await
    }

    /// Begins an answer of unknown length: in chunks, or up to the end of the connection for a
    /// client that does not know chunks (RFC 9112 §6.1, §6.3).
    pub fn begin_pieces(&mut self, status: u16, fill: impl FnOnce(ResponseBuilder) -> ResponseBuilder) {
        self.chunked = self.knows_chunks();
        self.may_keep &= self.chunked;
        let chunked = self.chunked;
        self.head(status, |head| if chunked { fill(head).chunked() } else { fill(head) });
    }

    /// Sends a piece of such an answer; an empty one is skipped.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn piece(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() <= QUEUED_PIECE_BYTES_MAX {
            self.queue_piece(bytes);
            return self.connection.stream.flush().await;
        }
        self.begin_piece(bytes.len());
        self.connection.stream.send_copy(bytes).await?;
        // The end of the chunk goes out with what follows it.
        self.end_piece();
        Ok(())
    }

    /// Queues a short piece of such an answer, not an empty one; it goes out with what follows it.
    pub fn queue_piece(&mut self, bytes: &[u8]) {
        self.begin_piece(bytes.len());
        self.connection.stream.queue(bytes);
        self.end_piece();
    }

    fn begin_piece(&mut self, bytes: usize) {
        debug_assert!(bytes > 0, "an empty chunk ends the answer");
        self.record.bytes_out += bytes as u64;
        if self.chunked {
            self.connection.stream.queue(chunk_head(bytes).as_bytes());
        }
    }

    fn end_piece(&mut self) {
        if self.chunked {
            self.connection.stream.queue(CHUNK_END);
        }
    }

    /// Ends such an answer.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn end_pieces(&mut self, trailers: Option<&Headers>) -> Result<()> {
        match (self.chunked, trailers) {
            (false, _) => {}
            (true, None) => self.connection.stream.queue(LAST_CHUNK),
            (true, Some(trailers)) => self.connection.stream.queue(&last_chunk_with_trailers(trailers)),
        }
        self.connection.stream.flush().await
    }

    /// Answers with an error: its status, what its code adds to the head, and this body. `fill`
    /// adds what the door has to say.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn refuse_with(
        &mut self,
        error: &Error,
        body: &str,
        fill: impl FnOnce(ResponseBuilder) -> ResponseBuilder,
    ) -> Result<()> {
        let (server, bears_token) = (self.server, self.bears_token());
        self.whole(error.code().http_status(), body.as_bytes(), |head| {
            fill(refusal_head(head, error, &server.server_name, bears_token))
        })
        .await
    }

    /// The usual body of an error's answer: what happened, what the client can do, and the name of
    /// the request.
    #[must_use]
    pub fn text_of(&self, error: &Error) -> String {
        error_text(error, &self.record.request_id)
    }

    /// Ends an exchange whose door adds nothing to errors; see [`Exchange::finish`].
    pub async fn end(&mut self, result: Result<()>) -> Fate {
        let answered = match result {
            Ok(()) => Ok(()),
            Err(error) if self.fail(&error) => {
                let text = self.text_of(&error);
                self.refuse_with(&error, &text, |head| head.content_type(ContentType::Text))
                    .await
            }
            Err(error) => Err(error),
        };
        self.finish(answered).await
    }
}
